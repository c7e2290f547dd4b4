/*
 * location.h - where a variable is, as far as a probe can fetch it.
 *
 * A location expression is reduced: it starts at a register or at an address, adds offsets and
 * follows pointers.
 */
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

enum pev_location_start {
	PEV_LOCATION_NOWHERE,   /* optimized out, at this address or at all */
	PEV_LOCATION_REGISTER,  /* the number of a register, as in DWARF */
	PEV_LOCATION_FRAME,     /* the canonical frame address (CFA) */
	PEV_LOCATION_ADDRESS,   /* the linker's address */
	PEV_LOCATION_CONSTANT,
	PEV_LOCATION_SPLIT,     /* in several places */
	PEV_LOCATION_THREAD,    /* in each thread */
	PEV_LOCATION_COMPUTED   /* by other operations */
};

#define PEV_LOCATION_STEPS 4

struct pev_location {
	enum pev_location_start start;
	uint64_t reg;           /* of PEV_LOCATION_REGISTER */
	/* Start + offsets[0]; each other offset is added to the word at the address before it. */
	int64_t offsets[PEV_LOCATION_STEPS];
	uint8_t nr;             /* offsets; 0 without a location */
	bool is_value;          /* the variable's value; else the address of the variable */
	bool needs_frame;       /* valid after the function has set up its frame */
};

/* Reads where a variable is at an address in a function; function: NULL outside of functions. */
void pev_location_read(Dwarf_Die *variable, Dwarf_Die *function, uint64_t address,
		       struct pev_location *location);
