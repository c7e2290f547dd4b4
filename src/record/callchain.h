/*
 * callchain.h - walks the words of a call chain: addresses, and markers of where they are from.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"

/* Where the addresses of a call chain are from, as a marker before them says; by name. */
enum pev_chain_context {
	PEV_CHAIN_NONE, PEV_CHAIN_GUEST, PEV_CHAIN_GUEST_KERNEL, PEV_CHAIN_GUEST_USER,
	PEV_CHAIN_HYPERVISOR, PEV_CHAIN_KERNEL, PEV_CHAIN_UNKNOWN, PEV_CHAIN_USER,
	PEV_CHAIN_DEFERRED /* one cookie, not an address */
};
extern const char *const pev_chain_contexts[];
/* The context that a word of a chain marks, or PEV_CHAIN_NONE: the word is an address. */
enum pev_chain_context pev_chain_context_of(uint64_t ip, bool narrow);

/* Walks the nr words at p. Addresses before the first marker are the user's. */
struct pev_chain {
	const unsigned char *p;
	uint32_t nr;
	bool swap, narrow;
	bool is_marker;           /* the current word marks the context of those that follow */
	enum pev_chain_context context; /* of the current word */
	uint64_t ip;              /* the current word */
};
/* Moves to the next word; false at the end. */
bool pev_chain_next(struct pev_chain *chain);
