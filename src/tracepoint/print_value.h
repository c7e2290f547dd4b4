/*
 * print_value.h - addresses, UUIDs and bit masks as print formats show them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text_buffer.h"

/*
 * Returns how many letters at p, after "%p", select an address or UUID: "I4", "I6c", "ISpc", "M",
 * "UB"; 0 for unknown letters. p is NUL-terminated.
 */
size_t pev_address_letters(const char *p);

/* Appends the bytes in the form that the letters select; big_endian is the recording machine's. */
void pev_text_address(struct pev_text *text, const char *letters, const unsigned char *bytes,
		      uint32_t len, bool big_endian);

/* Appends len bytes, each as two hexadecimal digits, with the separator between them. */
void pev_text_bytes(struct pev_text *text, const unsigned char *bytes, uint64_t len,
		    const char *separator);
/* Appends an array of words as "00000001,00000003", and as the numbers of its bits: "0,32-33". */
void pev_text_bitmask(struct pev_text *text, const unsigned char *bytes, uint32_t len,
		      bool big_endian);
void pev_text_bitlist(struct pev_text *text, const unsigned char *bytes, uint32_t len,
		      bool big_endian);
