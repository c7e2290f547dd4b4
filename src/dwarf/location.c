/*
 * location.c - location expressions; see location.h.
 *
 * Contract: DWARF 5, sections 2.5 and 2.6.
 */
#include "dwarf/location.h"

#include <dwarf.h>

#include "dwarf/die.h"

static void start_at(struct pev_location *location, enum pev_location_start start, uint64_t reg,
		     uint64_t offset)
{
	*location = (struct pev_location){
		.start = start, .reg = reg, .offsets = { (int64_t)offset }, .nr = 1,
	};
}

static void give_up(struct pev_location *location, enum pev_location_start why)
{
	*location = (struct pev_location){ .start = why };
}

static void add(struct pev_location *location, uint64_t bytes)
{
	int64_t *last = &location->offsets[location->nr - 1];

	*last = (int64_t)((uint64_t)*last + bytes);
}

static bool read_constant(const Dwarf_Op *op, uint64_t *value)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
		*value = op->atom - DW_OP_lit0;
		return true;
	}
	switch (op->atom) {
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_const4u:
	case DW_OP_const4s:
	case DW_OP_const8u:
	case DW_OP_const8s:
	case DW_OP_constu:
	case DW_OP_consts:
		*value = op->number;
		return true;
	default:
		return false;
	}
}

static bool read_register(const Dwarf_Op *op, uint64_t *reg)
{
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		*reg = op->atom - DW_OP_reg0;
	else if (op->atom == DW_OP_regx)
		*reg = op->number;
	else
		return false;
	return true;
}

/* A register and an offset. */
static bool read_base(const Dwarf_Op *op, uint64_t *reg, uint64_t *offset)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*reg = op->atom - DW_OP_breg0;
		*offset = op->number;
	} else if (op->atom == DW_OP_bregx) {
		*reg = op->number;
		*offset = op->number2;
	} else {
		return false;
	}
	return true;
}

/* Reads the base to which DW_OP_fbreg adds. */
static void start_at_frame(Dwarf_Die *function, uint64_t address, struct pev_location *location)
{
	Dwarf_Attribute attribute;
	uint64_t reg, offset;
	Dwarf_Op *ops;
	size_t nr;

	give_up(location, PEV_LOCATION_COMPUTED);
	if (!function || !dwarf_attr_integrate(function, DW_AT_frame_base, &attribute) ||
	    dwarf_getlocation_addr(&attribute, address, &ops, &nr, 1) != 1 || nr != 1)
		return;
	if (ops[0].atom == DW_OP_call_frame_cfa)
		start_at(location, PEV_LOCATION_FRAME, 0, 0);
	else if (read_register(&ops[0], &reg))
		start_at(location, PEV_LOCATION_REGISTER, reg, 0);
	else if (read_base(&ops[0], &reg, &offset))
		start_at(location, PEV_LOCATION_REGISTER, reg, offset);
}

/* The value that a register had at the function's entry is known only there. */
static void start_at_entry_value(Dwarf_Attribute *attribute, const Dwarf_Op *op,
				 Dwarf_Die *function, uint64_t address,
				 struct pev_location *location)
{
	Dwarf_Attribute block;
	Dwarf_Addr entry;
	uint64_t reg;
	Dwarf_Op *ops;
	size_t nr;

	give_up(location, PEV_LOCATION_NOWHERE);
	if (function && dwarf_entrypc(function, &entry) == 0 && entry == address &&
	    dwarf_getlocation_attr(attribute, op, &block) == 0 &&
	    dwarf_getlocation(&block, &ops, &nr) == 0 && nr == 1 && read_register(&ops[0], &reg))
		start_at(location, PEV_LOCATION_REGISTER, reg, 0);
}

static void start_at_indexed_address(Dwarf_Attribute *attribute, const Dwarf_Op *op,
				     struct pev_location *location)
{
	Dwarf_Attribute indexed;
	Dwarf_Addr address;

	give_up(location, PEV_LOCATION_COMPUTED);
	if (dwarf_getlocation_attr(attribute, op, &indexed) == 0 &&
	    dwarf_formaddr(&indexed, &address) == 0)
		start_at(location, PEV_LOCATION_ADDRESS, 0, address);
}

/* A constant in the bytes of the expression. */
static void start_at_bytes(Dwarf_Attribute *attribute, const Dwarf_Op *op,
			   struct pev_location *location)
{
	const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	uint64_t value = 0;
	Dwarf_Block block;

	give_up(location, PEV_LOCATION_COMPUTED);
	if (!little || dwarf_getlocation_implicit_value(attribute, op, &block) != 0 ||
	    block.length > sizeof(value))
		return;
	for (size_t i = 0; i < block.length; i++)
		value |= (uint64_t)block.data[i] << 8 * i;
	start_at(location, PEV_LOCATION_CONSTANT, 0, value);
	location->is_value = true;
}

static void read_start(Dwarf_Attribute *attribute, const Dwarf_Op *op, Dwarf_Die *function,
		       uint64_t address, struct pev_location *location)
{
	uint64_t reg, offset;

	if (read_register(op, &reg)) {
		start_at(location, PEV_LOCATION_REGISTER, reg, 0);
		location->is_value = true;
	} else if (read_base(op, &reg, &offset)) {
		start_at(location, PEV_LOCATION_REGISTER, reg, offset);
	} else if (read_constant(op, &offset)) {
		start_at(location, PEV_LOCATION_CONSTANT, 0, offset);
	} else {
		switch (op->atom) {
		case DW_OP_fbreg:
			start_at_frame(function, address, location);
			/* A negative offset from the CFA is in the function's own frame. */
			location->needs_frame = location->start == PEV_LOCATION_REGISTER ||
						(int64_t)op->number < 0;
			if (location->nr)
				add(location, op->number);
			break;
		case DW_OP_call_frame_cfa:
			start_at(location, PEV_LOCATION_FRAME, 0, 0);
			break;
		case DW_OP_addr:
			start_at(location, PEV_LOCATION_ADDRESS, 0, op->number);
			break;
		case DW_OP_addrx:
		case DW_OP_GNU_addr_index:
			start_at_indexed_address(attribute, op, location);
			break;
		case DW_OP_entry_value:
		case DW_OP_GNU_entry_value:
			start_at_entry_value(attribute, op, function, address, location);
			break;
		case DW_OP_implicit_value:
			start_at_bytes(attribute, op, location);
			break;
		case DW_OP_implicit_pointer:
		case DW_OP_GNU_implicit_pointer:
			give_up(location, PEV_LOCATION_NOWHERE);
			break;
		case DW_OP_piece:
		case DW_OP_bit_piece:
			give_up(location, PEV_LOCATION_SPLIT);
			break;
		default:
			give_up(location, PEV_LOCATION_COMPUTED);
		}
	}
}

/* Applies the operation after a constant that was pushed. */
static bool add_constant(struct pev_location *location, uint64_t value, unsigned atom)
{
	if (atom != DW_OP_plus && atom != DW_OP_minus)
		return false;
	add(location, atom == DW_OP_plus ? value : 0 - value);
	return true;
}

/* Applies operations after the first. */
static void follow(struct pev_location *location, const Dwarf_Op *ops, size_t nr)
{
	uint64_t value;

	for (size_t i = 1; i < nr && location->nr; i++) {
		const unsigned atom = ops[i].atom;

		if (atom == DW_OP_piece || atom == DW_OP_bit_piece) {
			give_up(location, PEV_LOCATION_SPLIT);
		} else if (atom == DW_OP_form_tls_address || atom == DW_OP_GNU_push_tls_address) {
			give_up(location, PEV_LOCATION_THREAD);
		} else if (location->is_value) { /* nothing may follow */
			give_up(location, PEV_LOCATION_COMPUTED);
		} else if (atom == DW_OP_stack_value) {
			location->is_value = true;
		} else if (atom == DW_OP_plus_uconst) {
			add(location, ops[i].number);
		} else if (atom == DW_OP_deref && location->nr < PEV_LOCATION_STEPS &&
			   location->start != PEV_LOCATION_CONSTANT) {
			location->offsets[location->nr++] = 0;
		} else if (atom != DW_OP_nop) {
			if (!read_constant(&ops[i], &value) || i + 1 == nr ||
			    !add_constant(location, value, ops[++i].atom))
				give_up(location, PEV_LOCATION_COMPUTED);
		}
	}
	/* An address that is a constant. */
	if (location->start == PEV_LOCATION_CONSTANT && !location->is_value)
		give_up(location, PEV_LOCATION_COMPUTED);
}

static void read_constant_value(Dwarf_Die *variable, struct pev_location *location)
{
	Dwarf_Attribute attribute;
	int64_t value;

	if (!dwarf_attr_integrate(variable, DW_AT_const_value, &attribute))
		return;
	if (!pev_die_constant(&attribute, &value)) {
		give_up(location, PEV_LOCATION_COMPUTED);
		return;
	}
	start_at(location, PEV_LOCATION_CONSTANT, 0, (uint64_t)value);
	location->is_value = true;
}

/* True for an attribute that is one expression, not a list of them by address. */
static bool is_expression(Dwarf_Attribute *attribute)
{
	switch (dwarf_whatform(attribute)) {
	case DW_FORM_exprloc:
	case DW_FORM_block:
	case DW_FORM_block1:
	case DW_FORM_block2:
	case DW_FORM_block4:
		return true;
	default:
		return false;
	}
}

void pev_location_read(Dwarf_Die *variable, Dwarf_Die *function, uint64_t address,
		       struct pev_location *location)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t nr;

	give_up(location, PEV_LOCATION_NOWHERE);
	if (!dwarf_attr_integrate(variable, DW_AT_location, &attribute)) {
		read_constant_value(variable, location);
		return;
	}
	if (dwarf_getlocation_addr(&attribute, address, &ops, &nr, 1) != 1 || nr == 0)
		return;
	read_start(&attribute, &ops[0], function, address, location);
	location->needs_frame = location->needs_frame && is_expression(&attribute);
	follow(location, ops, nr);
}
