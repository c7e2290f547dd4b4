/*
 * cfi.h - unwinds by the call frame information of a file.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/file_image.h"
#include "symbol/unwind.h"

/*
 * Opens the rules in .eh_frame and .debug_frame, and loads them. The caller keeps the image until
 * pev_cfi_close(). Returns -ENOEXEC if the file has neither, or -ENOMEM.
 */
int pev_cfi_open(struct pev_cfi **cfi, struct pev_file_image *image, struct pev_err *err);
void pev_cfi_close(struct pev_cfi *cfi);
