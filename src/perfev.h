/*
 * perfev.h - the core's C API, for a program without Lua: link with -lperfev.
 *
 * A session takes events (attr.h names their fields), opens them, and hands located
 * records out in time order; doc/example.c is a whole program. perfdata/reader.h reads a
 * recording, perfdata/replay.h delivers its records as a session does, and
 * aggregate/aggregator.h aggregates records by keys. The rules of ownership and errors in a header
 * hold for callers outside this tree as well.
 *
 * The headers for ELF files (symbol/elf.h, elf_program.h, symtab.h, cfi.h) and compression
 * (perfdata/zstd.h) need the other libraries of `pkg-config --static --libs perfev`.
 * Include them yourself if they are not below. C11 or later; from C++, within extern "C" { }.
 */
#pragma once

#include "aggregate/aggregator.h"
#include "aggregate/pack.h"
#include "event/attr.h"
#include "record/bits.h"
#include "engine/engine.h"
#include "event/child.h"
#include "event/counter.h"
#include "perfdata/reader.h"
#include "task/maps.h"
#include "record/record.h"
#include "perfdata/recording_source.h"
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
