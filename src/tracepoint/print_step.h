/*
 * print_step.h - the steps of a print plan, which print_plan.c makes and print_run.c runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text_buffer.h"
#include "tracepoint/print_parser.h"

enum {
	PEV_PRINT_STACK_MAX = 16 /* numbers on the stack of a run */
};

enum code {
	/* numbers */
	PUSH,        /* value */
	LOAD,        /* size bytes at offset */
	LOAD_INSIDE, /* the same; 0 when the payload is shorter */
	LENGTH,      /* upper half of the u32 at offset: bytes of a dynamic field */
	MASK,        /* a cast: & value */
	OPERATE,     /* on the upper two */
	CHOOSE,      /* of three: the second if the first is not 0, or the third */
	/* text; the number that a step takes is alone on the stack */
	STAR,        /* the width or precision of the next conversion */
	LITERAL,     /* size bytes at string, as pev_text_put_short() wants them */
	NUMBER,
	CHARACTER,
	POINTER,     /* "%p" */
	FUNCTION,    /* "%ps"; value: with the offset into it */
	ADDRESS,     /* "%pI4" and others; string: the letters */
	STRING,      /* string itself */
	STRING_AT,   /* the kernel's string at an address */
	ARRAY,       /* bytes as a string */
	DYNAMIC,     /* a dynamic field as a string */
	FLAGS,       /* the names of the bits that are set, separated by string */
	SYMBOL,      /* the name that has the number */
	BITMASK,
	BITLIST,
	DUMP,        /* "%*ph": as many bytes as the width says, separated by string */
	HEX,         /* a number of bytes, separated by string */
	NUMBERS,     /* a number of integers, value bytes each */
	SKIP_UNLESS, /* size steps, if the number is 0 */
	SKIP         /* size steps */
};

struct step {
	enum code code;
	enum pev_print_operator operation;
	char star; /* 'w', 'p': STAR gives the conversion's width, precision */
	bool dynamic, relative; /* the u32 at offset gives the place of the bytes */
	uint32_t offset, size;  /* size 0: the rest of the payload */
	uint64_t value;
	const char *string;
	const struct pev_print_name *names; /* `size` names */
	struct pev_conversion conversion;
};

/* The steps first .. end - 1, which print one field and nothing else. */
struct part {
	const struct pev_tp_field *field;
	uint32_t first, end;
	bool is_text; /* by names, or as an address, rather than as a number */
	bool has_0x;  /* the text before the first step ends with "0x" */
};

struct pev_print_plan {
	bool swap;
	uint32_t nr, cap;
	struct step *steps;
	struct part *parts;
	uint32_t nr_parts, cap_parts;
	struct pev_print_name *names;
	char *strings;
};
