/*
 * key.h - keys of tables: tuples of integers, strings, truth values and pointers, as bytes.
 *
 * A key is encoded once and then compared and hashed as bytes.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum pev_key_type {
	PEV_KEY_END,
	PEV_KEY_INTEGER,
	PEV_KEY_STRING,
	PEV_KEY_FALSE,
	PEV_KEY_TRUE,
	PEV_KEY_POINTER
};

/* A key under construction. A zeroed one is empty; len = 0 starts a new one. Owns its bytes. */
struct pev_key {
	unsigned char *bytes;
	size_t len, cap;
};
/* Makes room for len bytes more. False: out of memory. */
bool pev_key_reserve(struct pev_key *key, size_t len);
/* A key that is one integer has 9 bytes: these are its first 8; the last 8 are the value. */
#define PEV_KEY_INTEGER_LEN (1 + sizeof(int64_t))
static inline uint64_t pev_key_first_of(int64_t integer)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (uint64_t)integer << 8 | PEV_KEY_INTEGER;
#else
	return (uint64_t)integer >> 8 | (uint64_t)PEV_KEY_INTEGER << 56;
#endif
}
/*
 * -ENOMEM. Writes 16 bytes at once and keeps the first 9: a load of a word that one store wrote
 * does not wait, as a load across two stores does.
 */
static inline int pev_key_integer(struct pev_key *key, int64_t value)
{
	typedef uint64_t pair __attribute__((vector_size(16)));
	const pair both = { pev_key_first_of(value),
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
			    (uint64_t)value >> 56 };
#else
			    (uint64_t)value << 56 };
#endif

	if (key->cap - key->len < sizeof(both) && !pev_key_reserve(key, sizeof(both)))
		return -ENOMEM;
	memcpy(key->bytes + key->len, &both, sizeof(both));
	key->len += PEV_KEY_INTEGER_LEN;
	return 0;
}
int pev_key_string(struct pev_key *key, const void *bytes, size_t len);
int pev_key_bool(struct pev_key *key, bool value);
/* The pointer identifies an interned object, which outlives the key. */
int pev_key_pointer(struct pev_key *key, const void *value);
void pev_key_free(struct pev_key *key);
/* Compares two keys of the same length; short ones by two words, which may overlap. */
static inline bool pev_key_same(const unsigned char *a, const unsigned char *b, size_t len)
{
	uint64_t first[2], last[2];

	if (len < 8 || len > 16)
		return !len || memcmp(a, b, len) == 0;
	memcpy(&first[0], a, 8);
	memcpy(&first[1], b, 8);
	memcpy(&last[0], a + len - 8, 8);
	memcpy(&last[1], b + len - 8, 8);
	return first[0] == first[1] && last[0] == last[1];
}

/* A part of a key; strings are borrowed from the key. */
struct pev_key_part {
	enum pev_key_type type;
	int64_t integer;
	const void *pointer;
	const unsigned char *p;
	uint32_t len;
};
/* Returns the part at *at and moves *at past it; PEV_KEY_END at the key's end. */
struct pev_key_part pev_key_next(const unsigned char *key, size_t len, size_t *at);
/* Appends a copy of the part. -ENOMEM. */
int pev_key_part(struct pev_key *key, const struct pev_key_part *part);

/* ---- hashes ---- */

/* The process's salt: watched processes choose keys, and must not be able to make them collide. */
void pev_key_salt(uint64_t salt[2]);
uint64_t pev_key_hash_long(const uint64_t salt[2], const unsigned char *key, size_t len);

static inline uint64_t pev_key_load(const unsigned char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

static inline uint64_t pev_key_fold_product(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * A key of 8 to 16 bytes, such as a number's: its first and last 8, salted, are multiplied and
 * folded twice (wyhash, Wang Yi; Go's maps use it for the same reasons).
 */
static inline uint64_t pev_key_hash_ends(const uint64_t salt[2], uint64_t first, uint64_t last,
					 size_t len)
{
	uint64_t both = pev_key_fold_product(first ^ salt[0], last ^ salt[1]);

	return pev_key_fold_product(both, salt[0] ^ len ^ 0x9e3779b97f4a7c15);
}

static inline uint64_t pev_key_hash(const uint64_t salt[2], const void *key, size_t len)
{
	const unsigned char *p = (const unsigned char *)key;

	return len >= 8 && len <= 16
		       ? pev_key_hash_ends(salt, pev_key_load(p), pev_key_load(p + len - 8), len)
		       : pev_key_hash_long(salt, p, len);
}
