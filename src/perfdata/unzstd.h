/*
 * unzstd.h - the decompressor of COMPRESSED records, by libzstd.
 */
#ifndef PEV_UNZSTD_H
#define PEV_UNZSTD_H

#include "perfdata/inflate.h"

/* A frame may ask for a window of at most 128 MiB, which is what perf record -z22 does. */
extern const struct pev_inflate pev_unzstd;

#endif
