/*
 * fde.h - what a section of call frame information says of one address.
 *
 * .eh_frame and .debug_frame are entries one behind the other: CIEs with what functions have in
 * common, and an FDE for each function, whose instructions make a row of rules for each of its
 * addresses. Entries are found once, a row is made when it is asked for. All of it is anybody's
 * bytes: nothing outside of them is read, and no number in them decides how much memory
 * there is. Contract: DWARF 5, section 6.4; Linux Standard Base Core 5.0, section 10.6.
 */
#ifndef PEV_FDE_H
#define PEV_FDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers that an ABI gives to the registers it saves; of others no rule is kept. */
#define PEV_FDE_REGS 33

enum pev_rule_kind {
	PEV_RULE_UNSPECIFIED,  /* as the ABI has it */
	PEV_RULE_UNDEFINED,
	PEV_RULE_SAME,
	PEV_RULE_OFFSET,       /* it lies at CFA + value */
	PEV_RULE_VAL_OFFSET,   /* it is CFA + value */
	PEV_RULE_REGISTER,     /* it is in the register of that number */
	PEV_RULE_EXPRESSION,   /* it lies where ops lead to */
	PEV_RULE_VAL_EXPRESSION
};

struct pev_rule {
	enum pev_rule_kind kind;
	int64_t value;
	const unsigned char *ops; /* len bytes of an expression; borrowed of the section */
	size_t len;
};

/* The rules of one address. */
struct pev_rules {
	struct pev_rule regs[PEV_FDE_REGS];
	struct pev_rule cfa;   /* EXPRESSION, or VAL_OFFSET to the register cfa_reg */
	uint64_t cfa_reg;
	uint64_t ra;           /* the register that has where it returns to */
	bool signal;           /* the kernel called it */
};

struct pev_fde {
	uint64_t start, end;   /* of the function; end: the first that is not its */
	size_t at;             /* of the entry in the section */
};

/* Zeroed: a section without entries. */
struct pev_fdes {
	const unsigned char *bytes; /* borrowed */
	size_t len;
	uint64_t address;      /* where the linker put the first */
	bool eh;               /* .eh_frame */
	struct pev_fde *sorted; /* owned */
	size_t nr;
};

/* Find a section's entries; an entry that is none ends it. -ENOMEM. */
int pev_fdes_open(struct pev_fdes *fdes, const void *bytes, size_t len, uint64_t address, bool eh);
void pev_fdes_close(struct pev_fdes *fdes);

/* The rules of an address. -ENOENT: there are none; -EBADMSG: they cannot be followed. */
int pev_fdes_row(const struct pev_fdes *fdes, uint64_t address, struct pev_rules *row);

/* What of an instruction or expression is left; a read beyond it gives 0 and sets bad. */
struct pev_bytes {
	const unsigned char *at, *end;
	bool bad;
};

/* Of 1 to 8 bytes, the first one the lowest. */
uint64_t pev_bytes_word(struct pev_bytes *b, unsigned width);
/* The same with its sign. */
int64_t pev_bytes_signed(struct pev_bytes *b, unsigned width);
uint64_t pev_bytes_uleb(struct pev_bytes *b);
int64_t pev_bytes_sleb(struct pev_bytes *b);

#endif
