/*
 * value_text.h - values of fields that have parts, as text or JSON: see base/tree_text.h.
 */
#pragma once

#include <stdint.h>

#include "base/tree_text.h"
#include "record/record.h"

/* The names of registers by mask bit, and the bits in the order of their names. */
struct pev_register_names {
	const char *names[64]; /* borrowed */
	uint8_t order[64];
	char numbers[64][4];   /* the names of other bits */
};
/* Completes the names, where NULL stands for a bit without a name, and sorts them. */
void pev_register_names_sort(struct pev_register_names *registers);

/* A word of named bits: weight, data_src or transaction. */
void pev_value_put_bits(struct pev_tree *tree, const struct pev_record *rec, enum pev_field field,
			uint64_t word);
void pev_value_put_branches(struct pev_tree *tree, const struct pev_value *value, bool swap);
void pev_value_put_chain(struct pev_tree *tree, const struct pev_value *value,
			 const struct pev_plan *plan);
void pev_value_put_read(struct pev_tree *tree, const struct pev_plan *plan,
			const struct pev_value *value);
void pev_value_put_registers(struct pev_tree *tree, const struct pev_register_names *registers,
			     const struct pev_value *value, bool swap);
void pev_value_put_namespaces(struct pev_tree *tree, const struct pev_value *value, bool swap);
