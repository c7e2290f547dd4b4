/*
 * zpack.h - the compressor of COMPRESSED records, by libzstd.
 */
#ifndef PEV_ZPACK_H
#define PEV_ZPACK_H

#include "perfdata/deflate.h"

/* Levels 1 to 22, which is what perf record -z takes. */
extern const struct pev_deflate pev_zpack;

#endif
