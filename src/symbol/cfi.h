/*
 * cfi.h - a file's rules for getting from a function to its caller.
 */
#ifndef PEV_CFI_H
#define PEV_CFI_H

#include <stddef.h>

#include "base/err.h"
#include "symbol/unwind.h"

/*
 * The rules in .eh_frame, and those in .debug_frame. The bytes are kept by the caller until
 * pev_cfi_close(). -ENOEXEC: it has none, -ENOMEM.
 */
int pev_cfi_open(struct pev_cfi **cfi, const void *image, size_t len, struct pev_err *err);
void pev_cfi_close(struct pev_cfi *cfi);

#endif
