/*
 * key.c - keys of tables, encoded as bytes; see key.h.
 */
#include "aggregate/key.h"

#include <stdlib.h>
#include <sys/auxv.h>

/* ---- hashes ---- */

struct sip {
	uint64_t a, b, c, d;
};

static inline uint64_t rotate_left(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

/* Always inline: GCC emits a call for three callers, which doubles the time of an add. */
static inline __attribute__((always_inline)) struct sip sip_round(struct sip v)
{
	v.a += v.b;
	v.c += v.d;
	v.b = rotate_left(v.b, 13) ^ v.a;
	v.d = rotate_left(v.d, 16) ^ v.c;
	v.a = rotate_left(v.a, 32);
	v.c += v.b;
	v.a += v.d;
	v.b = rotate_left(v.b, 17) ^ v.c;
	v.d = rotate_left(v.d, 21) ^ v.a;
	v.c = rotate_left(v.c, 32);
	return v;
}

/* Aumasson, Bernstein: SipHash, 2012; one round for each word, three at the end. */
uint64_t pev_key_hash_long(const uint64_t salt[2], const unsigned char *key, size_t len)
{
	struct sip v = { salt[0] ^ 0x736f6d6570736575, salt[1] ^ 0x646f72616e646f6d,
			 salt[0] ^ 0x6c7967656e657261, salt[1] ^ 0x7465646279746573 };
	uint64_t word, last = (uint64_t)len << 56;

	/* The empty key. */
	if (!len)
		return salt[0];
	for (; len >= 8; key += 8, len -= 8) {
		memcpy(&word, key, 8);
		v.d ^= word;
		v = sip_round(v);
		v.a ^= word;
	}
	for (size_t i = 0; i < len; i++)
		last |= (uint64_t)key[i] << 8 * i;
	v.d ^= last;
	v = sip_round(v);
	v.a ^= last;
	v.c ^= 0xff;
	v = sip_round(sip_round(sip_round(v)));
	return v.a ^ v.b ^ v.c ^ v.d;
}

/* AT_RANDOM: 16 bytes that the kernel made for this process; getauxval(3). */
void pev_key_salt(uint64_t salt[2])
{
	const void *random = (const void *)getauxval(AT_RANDOM);

	if (random)
		memcpy(salt, random, 2 * sizeof(*salt));
}

/* ---- encoding ---- */

bool pev_key_reserve(struct pev_key *key, size_t len)
{
	size_t cap = 2 * (key->len + len) + 64;
	unsigned char *bytes = realloc(key->bytes, cap);

	if (!bytes)
		return false;
	key->bytes = bytes;
	key->cap = cap;
	return true;
}

/* Appends the type and makes room for len bytes behind it. NULL: out of memory. */
static unsigned char *append_part(struct pev_key *key, enum pev_key_type type, size_t len)
{
	unsigned char *p;

	if (key->cap - key->len < 1 + len && !pev_key_reserve(key, 1 + len))
		return NULL;
	p = key->bytes + key->len;
	*p = (unsigned char)type;
	key->len += 1 + len;
	return p + 1;
}

int pev_key_string(struct pev_key *key, const void *bytes, size_t len)
{
	uint32_t short_len = (uint32_t)len;
	unsigned char *p;

	if (len > UINT32_MAX / 4)
		return -ENOMEM;
	p = append_part(key, PEV_KEY_STRING, sizeof(short_len) + len);
	if (!p)
		return -ENOMEM;
	memcpy(p, &short_len, sizeof(short_len));
	if (len)
		memcpy(p + sizeof(short_len), bytes, len);
	return 0;
}

int pev_key_bool(struct pev_key *key, bool value)
{
	return append_part(key, value ? PEV_KEY_TRUE : PEV_KEY_FALSE, 0) ? 0 : -ENOMEM;
}

int pev_key_pointer(struct pev_key *key, const void *value)
{
	unsigned char *p = append_part(key, PEV_KEY_POINTER, sizeof(value));

	if (!p)
		return -ENOMEM;
	memcpy(p, &value, sizeof(value));
	return 0;
}

int pev_key_part(struct pev_key *key, const struct pev_key_part *part)
{
	switch (part->type) {
	case PEV_KEY_INTEGER:
		return pev_key_integer(key, part->integer);
	case PEV_KEY_STRING:
		return pev_key_string(key, part->p, part->len);
	case PEV_KEY_POINTER:
		return pev_key_pointer(key, part->pointer);
	default:
		return pev_key_bool(key, part->type == PEV_KEY_TRUE);
	}
}

void pev_key_free(struct pev_key *key)
{
	free(key->bytes);
	*key = (struct pev_key){ 0 };
}

struct pev_key_part pev_key_next(const unsigned char *key, size_t len, size_t *at)
{
	struct pev_key_part part = { .type = PEV_KEY_END };

	if (*at >= len)
		return part;
	part.type = (enum pev_key_type)key[(*at)++];
	if (part.type == PEV_KEY_INTEGER) {
		memcpy(&part.integer, key + *at, sizeof(part.integer));
		*at += sizeof(part.integer);
	} else if (part.type == PEV_KEY_STRING) {
		memcpy(&part.len, key + *at, sizeof(part.len));
		part.p = key + *at + sizeof(part.len);
		*at += sizeof(part.len) + part.len;
	} else if (part.type == PEV_KEY_POINTER) {
		memcpy(&part.pointer, key + *at, sizeof(part.pointer));
		*at += sizeof(part.pointer);
	}
	return part;
}
