/*
 * lregister.h - the parts of the core, in the order in which lcore.c registers them. The function
 * l_PART_register() makes the part's metatables and adds its functions to the table on top.
 */
#pragma once

#include <lua.h>

/* clang-format off */
#define L_PARTS(PART)                                                                              \
	PART(error)       /* errno, strerror, nearest, protect, take_traceback */                  \
	PART(system)      /* slurp, list, clock, pid, ..., and the table signals */                \
	PART(limit)       /* limit_time(), limit_memory(), unlimited(), ... */                     \
	PART(confine)     /* guard_start(), landlock(), ... */                                     \
	PART(block)                                                                                \
	PART(attr)        /* attr_new(fields), attr_parse(bytes, order), attr_fields() */          \
	PART(hooks)                                                                                \
	PART(args)                                                                                 \
	PART(payload)     /* payload(); after args */                                              \
	PART(agg)         /* aggregator(), aggregator_methods */                                   \
	PART(agg_keys)    /* aggregator_namer() */                                                 \
	PART(agg_values)  /* methods of aggregators; after agg */                                  \
	PART(follower)    /* aggregator_follow() */                                                \
	PART(agg_pack)    /* methods of aggregators, pack_sum(); after agg */                      \
	PART(exposition)  /* exposition(), exposition_add(); after agg */                          \
	PART(sink)        /* aggregator_fields */                                                  \
	PART(span)        /* span(), span_clear(), span_counts() */                                \
	PART(text_line)   /* line(), line_fields() */                                              \
	PART(condition)   /* where() */                                                            \
	PART(aux)                                                                                  \
	PART(kallsyms)    /* kallsyms(), hooked(), build_id() */                                   \
	PART(perf_map)    /* perf_map() */                                                         \
	PART(jit_dump)    /* jit_dump() */                                                         \
	PART(file)        /* file() */                                                             \
	PART(stack_table)                                                                          \
	PART(stack)       /* stack_class, stack_frames(), map_at() */                              \
	PART(stack_tree)  /* stack_tree() */                                                       \
	PART(stack_tree_pack) /* stack_tree_seen(), methods of trees; after stack_tree */          \
	PART(field)       /* sample_field() */                                                     \
	PART(view)        /* record_tostring(), record_registers() */                              \
	PART(decoder)     /* decoder(attrs, options), layouts(), machine */                        \
	PART(child)       /* spawn() */                                                            \
	PART(counter)     /* counter(), task_switch() */                                           \
	PART(reader)      /* reader(path, options) */                                              \
	PART(writer)      /* writer() */                                                           \
	PART(session)     /* session() */                                                          \
	PART(exit)        /* at_exit() */
/* clang-format on */

#define L_DECLARE_PART(part) void l_##part##_register(lua_State *L);
L_PARTS(L_DECLARE_PART)
#undef L_DECLARE_PART
