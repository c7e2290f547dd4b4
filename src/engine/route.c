/*
 * route.c - which listeners receive the records of an event and a type; see route.h.
 *
 * Records of the kind that only their own event has (samples and the like) go to the listeners of
 * that event. Other records are about tasks and their memory, and any event may have recorded
 * them. So a listener that takes them receives those of other events, too, once each: if several
 * events asked the kernel for them, those of the first.
 */
#include "engine/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

/* Returns the bit of the attr that asks the kernel for records of this type, or 0. */
static uint64_t asking_flag(uint32_t type)
{
	switch (type) {
	case PERF_RECORD_COMM: return PEV_ATTR_COMM;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2: return PEV_ATTR_MMAP;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT: return PEV_ATTR_TASK;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE: return PEV_ATTR_CONTEXT_SWITCH;
	case PERF_RECORD_NAMESPACES: return PEV_ATTR_NAMESPACES;
	case PERF_RECORD_KSYMBOL: return PEV_ATTR_KSYMBOL;
	case PERF_RECORD_BPF_EVENT: return PEV_ATTR_BPF_EVENT;
	case PEV_RECORD_CGROUP: return PEV_ATTR_CGROUP;
	case PEV_RECORD_TEXT_POKE: return PEV_ATTR_TEXT_POKE;
	default: return 0;
	}
}

/* True for types that only their own event's listeners receive. */
static bool is_own_only(uint32_t type)
{
	const uint32_t types = 1u << PERF_RECORD_SAMPLE | 1u << PERF_RECORD_READ |
			       1u << PERF_RECORD_THROTTLE | 1u << PERF_RECORD_UNTHROTTLE |
			       1u << PERF_RECORD_AUX | 1u << PERF_RECORD_ITRACE_START |
			       1u << PEV_RECORD_AUX_OUTPUT_HW_ID |
			       1u << PEV_RECORD_CALLCHAIN_DEFERRED;

	return types >> type & 1;
}

static bool asks(const struct pev_engine *e, uint32_t event, uint64_t flag)
{
	return e->source->calls->attr(e->source, event)->flags & flag;
}

/* True if an earlier event asked for these records, too. */
static bool repeats_earlier(const struct pev_engine *e, uint32_t event, uint64_t flag)
{
	for (uint32_t n = 0; flag && event != PEV_NO_EVENT && n < event; n++)
		if (asks(e, n, flag))
			return true;
	return false;
}

/* True if the listener's own declaration recorded such records. */
static bool records_itself(const struct pev_engine *e, const struct pev_listener *listener,
			   uint64_t flag)
{
	for (uint32_t i = 0; i < e->nr_listeners; i++) {
		const struct pev_listener *other = &e->listeners[i];

		if (other->declaration == listener->declaration && other->event != PEV_NO_EVENT &&
		    asks(e, other->event, flag))
			return true;
	}
	return false;
}

static bool receives(const struct pev_engine *e, const struct pev_listener *listener,
		     uint32_t event, uint32_t type)
{
	uint64_t flag = asking_flag(type);

	if (listener->event == event && event != PEV_NO_EVENT)
		return true;
	if (!listener->takes_others || is_own_only(type) || repeats_earlier(e, event, flag))
		return false;
	if (listener->event == PEV_NO_EVENT)
		return true;
	if (!(listener->named_types >> type & 1) || !type)
		return false;
	return event == PEV_NO_EVENT || (flag && !records_itself(e, listener, flag));
}

/*
 * Losses concern all events: of the listeners, first of the record's event, the first that wants
 * them receives them. Without one, the first listener that may receive every record.
 */
static uint32_t find_listener_of_losses(const struct pev_engine *e, uint32_t event, uint32_t type)
{
	uint32_t found = UINT32_MAX, any = UINT32_MAX;

	for (uint32_t i = e->nr_listeners; i-- > 0;) {
		const struct pev_listener *listener = &e->listeners[i];

		if (!listener->hidden && (any == UINT32_MAX || e->listeners[any].event != event ||
					  listener->event == event))
			any = i;
		if (listener->wanted_types >> type & 1 &&
		    (found == UINT32_MAX || e->listeners[found].event != event ||
		     listener->event == event))
			found = i;
	}
	return found != UINT32_MAX ? found : any;
}

static int add_listening(struct pev_engine *e, struct pev_route *route, uint32_t type,
			 uint32_t slot)
{
	const struct pev_listener *listener = &e->listeners[slot];

	if (!pev_list_reserve(&e->listening, &e->cap_listening, e->nr_listening + 1,
			      sizeof(*e->listening)))
		return -ENOMEM;
	e->listening[e->nr_listening++] = slot;
	route->nr++;
	route->has_callback |= listener->wanted_types >> type & 1;
	route->wants_deferred |= listener->wanted_types >> PEV_RECORD_CALLCHAIN_DEFERRED & 1;
	return 0;
}

static int fill_route(struct pev_engine *e, struct pev_route *route, uint32_t event, uint32_t type)
{
	bool is_loss = type == PERF_RECORD_LOST || type == PERF_RECORD_LOST_SAMPLES;
	const struct pev_attr *attr =
		event == PEV_NO_EVENT ? NULL : e->source->calls->attr(e->source, event);
	uint32_t slot;
	int rc = 0;

	*route = (struct pev_route){ .first = e->nr_listening };
	if (attr && type == PERF_RECORD_SAMPLE) {
		route->defers = attr->flags & PEV_ATTR_DEFER_CALLCHAIN;
		route->splits = !route->defers && pev_group_read_splits(attr);
	}
	if (is_loss) {
		slot = find_listener_of_losses(e, event, type);
		if (slot != UINT32_MAX)
			rc = add_listening(e, route, type, slot);
	}
	for (uint32_t i = 0; !is_loss && rc == 0 && i < e->nr_listeners; i++)
		if (receives(e, &e->listeners[i], event, type))
			rc = add_listening(e, route, type, i);
	route->known = rc == 0;
	return rc;
}

/* Makes room for the routes of all events known so far. */
static int reserve_routes(struct pev_engine *e)
{
	uint32_t nr = (e->source->calls->count_events(e->source) + 1) * PEV_RECORD_NR;
	struct pev_route *routes = realloc(e->routes, sizeof(*routes) * nr);

	if (!routes)
		return -ENOMEM;
	memset(&routes[e->nr_routes], 0, sizeof(*routes) * (nr - e->nr_routes));
	e->routes = routes;
	e->nr_routes = nr;
	return 0;
}

struct pev_route *pev_route_find(struct pev_engine *e, uint32_t event, uint32_t type)
{
	uint32_t place = (event + 1) * PEV_RECORD_NR + type;

	if (place >= e->nr_routes && reserve_routes(e) < 0)
		return NULL;
	if (!e->routes[place].known && fill_route(e, &e->routes[place], event, type) < 0)
		return NULL;
	return &e->routes[place];
}

void pev_route_clear(struct pev_engine *e)
{
	if (e->nr_routes)
		memset(e->routes, 0, sizeof(*e->routes) * e->nr_routes);
	e->nr_listening = 0;
	e->reset_routes = false;
	pev_engine_end_fast_path(e);
}
