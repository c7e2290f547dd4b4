/*
 * print_value.c - addresses, UUIDs and bit masks as print formats show them; see print_value.h.
 *
 * The same as pointer() in the kernel's lib/vsprintf.c, for the subset that libtraceevent, and so
 * perf script, supports.
 */
#include "tracepoint/print_value.h"

#include <string.h>
#include <sys/socket.h>

enum { IP4_BYTES = 4, IP6_BYTES = 16, MAC_BYTES = 6, UUID_BYTES = 16 };

static const struct pev_conversion decimal = { .letter = 'u', .plain = true, .precision = -1 };
static const struct pev_conversion hexadecimal = {
	.letter = 'x', .is_hex = true, .plain = true, .precision = -1
};

static void put_byte(struct pev_text *text, unsigned char byte, bool upper)
{
	const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";

	pev_text_char(text, digits[byte >> 4]);
	pev_text_char(text, digits[byte & 15]);
}

static void put_string(struct pev_text *text, const char *string)
{
	pev_text_put(text, string, strlen(string));
}

void pev_text_bytes(struct pev_text *text, const unsigned char *bytes, uint64_t len,
		    const char *separator)
{
	for (uint64_t i = 0; i < len; i++) {
		if (i)
			put_string(text, separator);
		put_byte(text, bytes[i], false);
	}
}

/* ---- letters ---- */

static size_t count_letters(const char *p, const char *letters)
{
	return *p && strchr(letters, *p) ? 1 : 0;
}

/* "4", "4h"; "6", "6c"; "S", "Spfs", "Spc", "Sh" */
static size_t count_ip_letters(const char *p)
{
	size_t nr = 1;

	switch (*p) {
	case '4':
		return nr + count_letters(p + nr, "hnlb");
	case '6':
		return nr + count_letters(p + nr, "c");
	case 'S':
		nr += strspn(p + nr, "pfs");
		nr += count_letters(p + nr, "hnlb");
		return nr + count_letters(p + nr, "c");
	default:
		return 0;
	}
}

size_t pev_address_letters(const char *p)
{
	size_t nr;

	switch (*p) {
	case 'I':
	case 'i':
		nr = count_ip_letters(p + 1);
		return nr ? nr + 1 : 0;
	case 'M':
	case 'm':
		return 1 + count_letters(p + 1, "RF");
	case 'U':
		return 1 + count_letters(p + 1, "LlBb");
	default:
		return 0;
	}
}

/* ---- addresses ---- */

static void put_ip4(struct pev_text *text, const unsigned char *bytes, bool padded, bool reverse)
{
	struct pev_conversion number = decimal;

	number.zero = padded;
	number.width = padded ? 3 : 0;
	for (int i = 0; i < IP4_BYTES; i++) {
		if (i)
			pev_text_char(text, '.');
		pev_text_number(text, &number, bytes[reverse ? IP4_BYTES - 1 - i : i]);
	}
}

static void put_ip6(struct pev_text *text, const unsigned char *bytes, bool colons)
{
	for (int i = 0; i < IP6_BYTES; i++) {
		if (colons && i && i % 2 == 0)
			pev_text_char(text, ':');
		put_byte(text, bytes[i], false);
	}
}

static unsigned word_at(const unsigned char *bytes, int i)
{
	bytes += 2 * (size_t)i;
	return (unsigned)bytes[0] << 8 | bytes[1];
}

/* The words before an IPv4 part: ::ffff:1.2.3.4, and ISATAP's ::[02]00:5efe:1.2.3.4. */
static int count_ip6_words(const unsigned char *bytes)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const unsigned char isatap[4] = { 0, 0, 0x5e, 0xfe };
	const unsigned char link[4] = { bytes[8] & 0xfd, bytes[9], bytes[10], bytes[11] };

	return memcmp(link, isatap, sizeof(isatap)) == 0 ||
			       memcmp(bytes, mapped, sizeof(mapped)) == 0
		       ? 6
		       : 8;
}

/* Returns the start of the longest run of two or more zero words, or -1. */
static int find_zeros(const unsigned char *bytes, int words, int *longest)
{
	int start = -1;

	*longest = 1;
	for (int i = 0; i < words; i++) {
		int nr = 0;

		while (i + nr < words && word_at(bytes, i + nr) == 0)
			nr++;
		if (nr > *longest) {
			*longest = nr;
			start = i;
		}
	}
	return start;
}

/* RFC 5952; ip6_compressed_string() */
static void put_ip6_compressed(struct pev_text *text, const unsigned char *bytes)
{
	int words = count_ip6_words(bytes), longest, zeros = find_zeros(bytes, words, &longest);
	bool colon = false;

	for (int i = 0; i < words; i++) {
		if (i == zeros) {
			put_string(text, colon || i == 0 ? "::" : ":");
			colon = false;
			i += longest - 1;
			continue;
		}
		if (colon)
			pev_text_char(text, ':');
		pev_text_number(text, &hexadecimal, word_at(bytes, i));
		colon = true;
	}
	if (words == 8)
		return;
	if (colon)
		pev_text_char(text, ':');
	put_ip4(text, bytes + 12, false, false);
}

static void put_port(struct pev_text *text, const unsigned char *bytes)
{
	pev_text_char(text, ':');
	pev_text_number(text, &decimal, word_at(bytes, 1));
}

/* struct sockaddr_in and sockaddr_in6: family, port, address */
enum { SOCKADDR4_BYTES = 16, SOCKADDR4_ADDRESS = 4, SOCKADDR6_BYTES = 28, SOCKADDR6_ADDRESS = 8 };

/* letters: those after "IS" */
static void put_sockaddr(struct pev_text *text, const char *letters, bool padded,
			 const unsigned char *bytes, uint32_t len, bool big_endian)
{
	size_t flags = strspn(letters, "pfs");
	bool port = *letters == 'p', compressed = letters[port] == 'c';
	bool reverse = letters[flags] == 'l' || (letters[flags] == 'h' && !big_endian);
	int family = len < 2 ? 0 : bytes[big_endian] | bytes[!big_endian] << 8;

	if (family == AF_INET && len < SOCKADDR4_BYTES) {
		put_string(text, "INVALIDIPv4");
	} else if (family == AF_INET) {
		put_ip4(text, bytes + SOCKADDR4_ADDRESS, padded, reverse);
		if (port)
			put_port(text, bytes);
	} else if (family == AF_INET6 && len < SOCKADDR6_BYTES) {
		put_string(text, "INVALIDIPv6");
	} else if (family == AF_INET6) {
		if (port)
			pev_text_char(text, '[');
		if (compressed)
			put_ip6_compressed(text, bytes + SOCKADDR6_ADDRESS);
		else
			put_ip6(text, bytes + SOCKADDR6_ADDRESS, !padded);
		if (port)
			pev_text_char(text, ']');
		if (port)
			put_port(text, bytes);
	}
}

static void put_ip(struct pev_text *text, const char *letters, const unsigned char *bytes,
		   uint32_t len, bool big_endian)
{
	bool padded = letters[0] == 'i';

	if (letters[1] == 'S')
		put_sockaddr(text, letters + 2, padded, bytes, len, big_endian);
	else if (letters[1] == '4' && len != IP4_BYTES)
		put_string(text, "INVALIDIPv4");
	else if (letters[1] == '4')
		put_ip4(text, bytes, padded,
			letters[2] == 'l' || (letters[2] == 'h' && !big_endian));
	else if (len != IP6_BYTES)
		put_string(text, "INVALIDIPv6");
	else if (letters[2] == 'c' && !padded)
		put_ip6_compressed(text, bytes);
	else
		put_ip6(text, bytes, !padded);
}

static void put_mac(struct pev_text *text, const char *letters, const unsigned char *bytes,
		    uint32_t len)
{
	bool reverse = letters[1] == 'R';

	if (len != MAC_BYTES) {
		put_string(text, "INVALIDMAC");
		return;
	}
	for (int i = 0; i < MAC_BYTES; i++) {
		if (i && letters[0] == 'M')
			pev_text_char(text, letters[1] == 'F' ? '-' : ':');
		put_byte(text, bytes[reverse ? MAC_BYTES - 1 - i : i], false);
	}
}

static void put_uuid(struct pev_text *text, const char *letters, const unsigned char *bytes,
		     uint32_t len)
{
	static const unsigned char little_endian[UUID_BYTES] = { 3, 2, 1, 0, 5,  4,  7,  6,
								 8, 9, 10, 11, 12, 13, 14, 15 };
	bool upper = letters[1] == 'L' || letters[1] == 'B';
	bool swapped = letters[1] == 'L' || letters[1] == 'l';

	if (len != UUID_BYTES) {
		put_string(text, "INVALIDUUID");
		return;
	}
	for (int i = 0; i < UUID_BYTES; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			pev_text_char(text, '-');
		put_byte(text, bytes[swapped ? little_endian[i] : i], upper);
	}
}

void pev_text_address(struct pev_text *text, const char *letters, const unsigned char *bytes,
		      uint32_t len, bool big_endian)
{
	if (letters[0] == 'U')
		put_uuid(text, letters, bytes, len);
	else if (letters[0] == 'M' || letters[0] == 'm')
		put_mac(text, letters, bytes, len);
	else
		put_ip(text, letters, bytes, len, big_endian);
}

/* ---- bit masks ---- */

/* Returns the i-th byte, counted from the lowest bits. */
static unsigned char mask_byte(const unsigned char *bytes, uint32_t len, uint32_t i,
			       bool big_endian)
{
	return bytes[big_endian ? len - 1 - i : i];
}

void pev_text_bitmask(struct pev_text *text, const unsigned char *bytes, uint32_t len,
		      bool big_endian)
{
	for (uint32_t i = len; i-- > 0;) {
		put_byte(text, mask_byte(bytes, len, i, big_endian), false);
		if (i && i % 4 == 0)
			pev_text_char(text, ',');
	}
}

static bool has_bit(const unsigned char *bytes, uint32_t len, uint32_t bit, bool big_endian)
{
	return bit / 8 < len && (mask_byte(bytes, len, bit / 8, big_endian) >> bit % 8 & 1);
}

void pev_text_bitlist(struct pev_text *text, const unsigned char *bytes, uint32_t len,
		      bool big_endian)
{
	bool any = false;

	for (uint32_t bit = 0; bit < 8 * len; bit++) {
		uint32_t first = bit;

		if (!has_bit(bytes, len, bit, big_endian))
			continue;
		while (has_bit(bytes, len, bit + 1, big_endian))
			bit++;
		if (any)
			pev_text_char(text, ',');
		any = true;
		pev_text_number(text, &decimal, first);
		if (bit > first)
			pev_text_char(text, '-');
		if (bit > first)
			pev_text_number(text, &decimal, bit);
	}
}
