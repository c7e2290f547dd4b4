/*
 * perfev.h - the core's C API, for a program without Lua: link with -lperfev.
 *
 * A session takes events (attr.h names their fields), opens them, and hands located
 * records out in time order; doc/example.c is a whole program. A recording is read by
 * datafile.h, and heard as a session is by replay.h; agg.h counts what comes by keys.
 * What a header says of ownership and errors holds for callers outside of this tree as well.
 *
 * What reads ELF files (elffile.h, elf_program.h, symtab.h), unwinds (cfi.h) and compresses
 * (zstd.h) takes the libraries that `pkg-config --static --libs perfev` names besides,
 * and is included by itself where it is not below. C11 or later; from C++, within extern "C" { }.
 */
#ifndef PEV_PERFEV_H
#define PEV_PERFEV_H

#include "aggregate/aggregator.h"
#include "aggregate/pack.h"
#include "event/attr.h"
#include "base/bits.h"
#include "event/child.h"
#include "event/counter.h"
#include "perfdata/reader.h"
#include "task/maps.h"
#include "record/record.h"
#include "perfdata/replay.h"
#include "task/record_filter.h"
#include "live/session.h"
#include "aggregate/span.h"
#include "symbol/stack.h"
#include "symbol/kallsyms.h"
#include "symbol/symtab.h"
#include "base/sys.h"
#include "task/task.h"
#include "tracepoint/tracepoint.h"
#include "aggregate/condition.h"

#endif
