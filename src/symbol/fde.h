/*
 * fde.h - the unwind rules of one address, from a section of call frame information.
 *
 * .eh_frame and .debug_frame are lists of entries: CIEs, which hold what several functions have
 * in common, and an FDE for each function. Its instructions compute a row of rules for each
 * address. The entries are found once; a row is computed on request. The bytes may be hostile:
 * no read goes beyond them, and no number in them decides how much memory is allocated.
 * Contract: DWARF 5, section 6.4; Linux Standard Base Core 5.0, section 10.6.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers that an ABI saves have numbers below this; rules of others are dropped. */
#define PEV_FDE_REGS 33

enum pev_rule_kind {
	PEV_RULE_UNSPECIFIED,  /* the ABI decides */
	PEV_RULE_UNDEFINED,
	PEV_RULE_SAME,
	PEV_RULE_OFFSET,       /* stored at CFA + value */
	PEV_RULE_VAL_OFFSET,   /* equal to CFA + value */
	PEV_RULE_REGISTER,     /* in register number value */
	PEV_RULE_EXPRESSION,   /* stored at the address that ops compute */
	PEV_RULE_VAL_EXPRESSION /* computed by ops */
};

struct pev_rule {
	enum pev_rule_kind kind;
	int64_t value;
	const unsigned char *ops; /* len bytes of an expression; borrowed from the section */
	size_t len;
};

/* The rules of one address. */
struct pev_rules {
	struct pev_rule regs[PEV_FDE_REGS];
	struct pev_rule cfa;   /* EXPRESSION, or VAL_OFFSET from register cfa_reg */
	uint64_t cfa_reg;
	uint64_t ra;           /* the register of the return address */
	bool signal;           /* a signal frame: the kernel called the function */
};

/* The rest of an instruction or expression; a read beyond the end returns 0 and sets bad. */
struct pev_bytes {
	const unsigned char *at, *end;
	bool bad;
};

struct pev_fde {
	uint64_t start;        /* of the function */
	size_t at;             /* offset of the entry in the section */
};

/* Zeroed: a section without entries. */
struct pev_fdes {
	const unsigned char *bytes; /* borrowed */
	size_t len;
	uint64_t address;      /* of the first byte, by the linker */
	bool eh;               /* .eh_frame */
	struct pev_fde *sorted; /* owned */
	size_t nr;
};

/* .eh_frame_hdr, with the linker's table of the functions, or no bytes. */
struct pev_fde_header {
	struct pev_bytes bytes;
	uint64_t address;      /* of the first byte, by the linker */
};

/*
 * Finds the entries of .eh_frame, or of .debug_frame without header: by the header's table if that
 * is sorted, else one after the other up to the first damaged one. Returns 0 or -ENOMEM.
 */
int pev_fdes_open(struct pev_fdes *fdes, const void *bytes, size_t len, uint64_t address,
		  const struct pev_fde_header *header);
void pev_fdes_close(struct pev_fdes *fdes);

/* Returns the offset of .eh_frame from the header's first byte, or 0 if it is not known. */
int64_t pev_fde_header_target(const struct pev_fde_header *header);

/* Computes the rules of an address. Returns -ENOENT without a rule, -EBADMSG if damaged. */
int pev_fdes_row(const struct pev_fdes *fdes, uint64_t address, struct pev_rules *row);

/* Reads a little-endian number of 1 to 8 bytes. */
uint64_t pev_bytes_word(struct pev_bytes *b, unsigned width);
/* The same, sign-extended. */
int64_t pev_bytes_signed(struct pev_bytes *b, unsigned width);
uint64_t pev_bytes_uleb(struct pev_bytes *b);
int64_t pev_bytes_sleb(struct pev_bytes *b);
