/*
 * lcfi.h - a file's unwind rules as a userdata: made by perfev.cfi, applied in the core.
 */
#ifndef PEV_LCFI_H
#define PEV_LCFI_H

#include "symbol/unwind.h"

#define L_CFI_TYPENAME "perfev.cfi"

struct l_cfi {
	struct pev_cfi *cfi; /* owned; its bytes are user value 1 */
};

#endif
