/*
 * lcfi.h - the userdata perfev.cfi: a file's unwind rules. Made by lcfi.c, used by the core.
 */
#pragma once

#include "symbol/unwind.h"

#define L_CFI_TYPENAME "perfev.cfi"

struct l_cfi {
	struct pev_cfi *cfi; /* owned; its image is user value 1 */
};
