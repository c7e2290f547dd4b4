/*
 * callchain.c - walks the words of a call chain; see callchain.h.
 */
#include "record/callchain.h"

const char *const pev_chain_contexts[] = {
	[PEV_CHAIN_NONE] = "",
	[PEV_CHAIN_GUEST] = "guest",
	[PEV_CHAIN_GUEST_KERNEL] = "guest_kernel",
	[PEV_CHAIN_GUEST_USER] = "guest_user",
	[PEV_CHAIN_HYPERVISOR] = "hypervisor",
	[PEV_CHAIN_KERNEL] = "kernel",
	[PEV_CHAIN_UNKNOWN] = "unknown",
	[PEV_CHAIN_USER] = "user",
	[PEV_CHAIN_DEFERRED] = "deferred",
};

enum pev_chain_context pev_chain_context_of(uint64_t ip, bool narrow)
{
	/* A 32-bit recorder's tools may have kept only the low half of the markers. */
	if (narrow && ip >> 32 == 0)
		ip = (uint64_t)(int64_t)(int32_t)ip;
	if (ip < PEV_CONTEXT_MAX)
		return PEV_CHAIN_NONE;
	switch ((int64_t)ip) { /* PERF_CONTEXT_* */
	case -32:
		return PEV_CHAIN_HYPERVISOR;
	case -128:
		return PEV_CHAIN_KERNEL;
	case -512:
		return PEV_CHAIN_USER;
	case -640:
		return PEV_CHAIN_DEFERRED;
	case -2048:
		return PEV_CHAIN_GUEST;
	case -2176:
		return PEV_CHAIN_GUEST_KERNEL;
	case -2560:
		return PEV_CHAIN_GUEST_USER;
	default:
		return PEV_CHAIN_UNKNOWN;
	}
}

bool pev_chain_next(struct pev_chain *chain)
{
	bool is_cookie = chain->is_marker && chain->context == PEV_CHAIN_DEFERRED;
	enum pev_chain_context marked;

	if (!chain->nr)
		return false;
	chain->ip = pev_load64(chain->p, chain->swap);
	chain->p += 8;
	chain->nr--;
	marked = is_cookie ? PEV_CHAIN_NONE : pev_chain_context_of(chain->ip, chain->narrow);
	chain->is_marker = marked != PEV_CHAIN_NONE;
	if (chain->is_marker)
		chain->context = marked;
	else if (!is_cookie && (chain->context == PEV_CHAIN_NONE ||
				chain->context == PEV_CHAIN_DEFERRED))
		chain->context = PEV_CHAIN_USER; /* a deferred chain has no marker */
	return true;
}
