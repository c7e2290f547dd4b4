/*
 * perfev.h - the core's C API, for a program without Lua: link with -lperfev.
 *
 * A session takes events (attr.h names their fields), opens them, and hands located
 * records out in time order; doc/example.c is a whole program. A recording is read by
 * datafile.h, and heard as a session is by replay.h; agg.h counts what comes by keys.
 * What a header says of ownership and errors holds for callers outside of this tree as well.
 *
 * What reads ELF files (elffile.h, elf_program.h, symtab.h), unwinds (cfi.h) and compresses
 * (unzstd.h, zpack.h) takes the libraries that `pkg-config --static --libs perfev` names besides,
 * and is included by itself where it is not below. C11 or later; from C++, within extern "C" { }.
 */
#ifndef PEV_PERFEV_H
#define PEV_PERFEV_H

#include "agg.h"
#include "aggpack.h"
#include "attr.h"
#include "bits.h"
#include "child.h"
#include "counter.h"
#include "datafile.h"
#include "maps.h"
#include "record.h"
#include "replay.h"
#include "selection.h"
#include "session.h"
#include "span.h"
#include "stack.h"
#include "symbol.h"
#include "symtab.h"
#include "sys.h"
#include "task.h"
#include "tracepoint.h"
#include "where.h"

#endif
