/*
 * demangle.c - demangles C++ names by libstdc++, and Rust's legacy names; see demangle.h.
 *
 * Contract: Itanium C++ ABI, section 5.1; rustc's legacy scheme writes C++ names with
 * a hash as last part ("h" and 16 digits), and "$LT$" and the like for characters that
 * C++ names cannot have (rust-lang/rustc-demangle, src/legacy.rs).
 */
#include "symbol/demangle.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/demangle_rust.h"

#define NAME_MAX_LEN 8192 /* a longer name is not demangled */

/* From <cxxabi.h>, which is C++. The result is malloc'd, or NULL. */
char *__cxa_demangle(const char *name, char *out, size_t *len, int *status);

/* ---- parameters and return types of C++ functions ---- */

/* Finds the "(" of the parameters, backwards from the last ")"; or NULL. */
static char *find_parameters(char *text)
{
	char *end = strrchr(text, ')');
	int depth = 0;

	for (char *p = end; p && p >= text; p--) {
		if (*p == ')')
			depth++;
		if (*p == '(' && --depth == 0)
			return p;
	}
	return NULL;
}

/* Steps over "operator<", "operator()" and the like: their brackets belong to the name. */
static const char *skip_operator(const char *p)
{
	static const char word[] = "operator";

	if (strncmp(p, word, sizeof(word) - 1) != 0 || isalnum((unsigned char)p[8]) || p[8] == '_')
		return NULL;
	p += sizeof(word) - 1;
	if (strncmp(p, "()", 2) == 0 || strncmp(p, "[]", 2) == 0)
		return p + 2;
	return p + strspn(p, "<>=!+-*/%^&|~,");
}

/* Finds the end of the return type: the last space outside brackets, before any operator. */
static char *find_name_start(char *text)
{
	char *start = text;
	int depth = 0;

	for (char *p = text; *p;) {
		const char *behind = p == text || !isalnum((unsigned char)p[-1]) ?
					     skip_operator(p) : NULL;

		if (behind && depth == 0)
			return start;
		if (behind) {
			p += behind - p;
			continue;
		}
		if (strchr("<({[", *p))
			depth++;
		if (strchr(">)}]", *p) && !(*p == '>' && p > text && p[-1] == '-'))
			depth--;
		if (*p == ' ' && depth == 0)
			start = p + 1;
		p++;
	}
	return start;
}

static bool is_data_name(const char *text)
{
	static const char *const kinds[] = { "vtable for ", "typeinfo ", "guard variable ", "VTT ",
		"non-virtual thunk ", "virtual thunk ", "covariant return thunk ",
		"construction vtable ", "reference temporary ", "TLS ", "transaction clone " };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strncmp(text, kinds[i], strlen(kinds[i])) == 0)
			return true;
	return false;
}

/* "int ns::f<int>(int) const [clone .cold]" -> "ns::f<int> [clone .cold]" */
static void cut_types(char *text)
{
	char *clone = strstr(text, " [clone "), *open, *start;
	size_t clone_len = clone ? strlen(clone) : 0, len;

	if (clone)
		*clone = '\0';
	open = is_data_name(text) ? NULL : find_parameters(text);
	/* "(anonymous namespace)::f", "operator()": no parameters. */
	if (open && open > text && strncmp(open, "(anonymous", 10) != 0) {
		*open = '\0';
		start = find_name_start(text);
		memmove(text, start, strlen(start) + 1);
	}
	if (!clone)
		return;
	/* The shortened name ends at or before the suffix. */
	len = strlen(text);
	*clone = ' ';
	memmove(text + len, clone, clone_len + 1);
}

/* ---- Rust's legacy names ---- */

/* "core::ptr::drop_in_place::h0123456789abcdef": finds the "::h", or NULL. */
static char *find_rust_hash(char *text)
{
	size_t len = strlen(text);
	char *hash = len > 19 ? text + len - 19 : NULL;

	return hash && strncmp(hash, "::h", 3) == 0 && strspn(hash + 3, "0123456789abcdef") == 16 ?
		       hash : NULL;
}

/* Returns the character of the escape at p and the escape's length, or 0. */
static char read_escape(const char *p, size_t *len)
{
	static const struct {
		const char *text;
		char c;
	} escapes[] = {
		{ "$SP$", '@' }, { "$BP$", '*' }, { "$RF$", '&' }, { "$LT$", '<' }, { "$GT$", '>' },
		{ "$LP$", '(' }, { "$RP$", ')' }, { "$C$", ',' },
	};
	unsigned long code;
	char *end;

	for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
		*len = strlen(escapes[i].text);
		if (strncmp(p, escapes[i].text, *len) == 0)
			return escapes[i].c;
	}
	if (p[0] != '$' || p[1] != 'u' || !isxdigit((unsigned char)p[2]))
		return 0;
	code = strtoul(p + 2, &end, 16);
	*len = (size_t)(end - p) + 1;
	return *end == '$' && code >= ' ' && code < 127 ? (char)code : 0;
}

static void unescape_rust(char *text)
{
	char *to = text;

	for (const char *p = text; *p;) {
		size_t len;
		/* rustc writes '_' before an escape that starts an identifier. */
		bool extra = *p == '_' && p[1] == '$' && (p == text || p[-1] == ':');
		const char *at = p + extra;
		char c = read_escape(at, &len);

		if (c) {
			*to++ = c;
			p = at + len;
		} else if (p[0] == '.' && p[1] == '.') {
			*to++ = ':';
			*to++ = ':';
			p += 2;
		} else {
			*to++ = *p++;
		}
	}
	*to = '\0';
}

/* ---- demangling ---- */

/*
 * Returns the length of the mangled part of a name. LLVM appends ".llvm.1234" and the like to
 * Rust's names, which libstdc++ accepts only after parameters; linkers append a version.
 */
static size_t mangled_length(const char *name)
{
	for (const char *p = strstr(name, "17h"); p; p = strstr(p + 1, "17h"))
		if (strspn(p + 3, "0123456789abcdef") == 16 && p[19] == 'E' && p[20] == '.')
			return (size_t)(p - name) + 20;
	return strcspn(name, "@");
}

static char *demangle_cxx(const char *name)
{
	char *mangled = strndup(name, mangled_length(name)), *text;
	int status;

	text = mangled ? __cxa_demangle(mangled, NULL, NULL, &status) : NULL;
	free(mangled);
	return text;
}

/* Returns NULL if the name is not mangled. */
static char *demangle_function(const char *name)
{
	char *text, *hash;

	if (name[0] == '_' && name[1] == 'R')
		return pev_demangle_rust(name);
	if (name[0] != '_' || name[1] != 'Z' || strlen(name) > NAME_MAX_LEN)
		return NULL;
	text = demangle_cxx(name);
	if (!text)
		return NULL;
	hash = find_rust_hash(text);
	if (hash) {
		*hash = '\0';
		unescape_rust(text);
	} else {
		cut_types(text);
	}
	return text;
}

/*
 * symtab.c names a stub of the linkage table FUNCTION@plt. The suffix is not part of the mangled
 * name and is kept, so that a stub is not counted as the function it jumps to.
 */
char *pev_demangle(const char *name)
{
	static const char suffix[] = "@plt";
	size_t len = strlen(name), tail = sizeof(suffix) - 1;
	char *function, *text, *whole;

	if (len <= tail || strcmp(name + len - tail, suffix) != 0)
		return demangle_function(name);
	function = strndup(name, len - tail);
	text = function ? demangle_function(function) : NULL;
	free(function);
	if (!text)
		return NULL;
	len = strlen(text);
	whole = realloc(text, len + sizeof(suffix));
	if (!whole) {
		free(text);
		return NULL;
	}
	memcpy(whole + len, suffix, sizeof(suffix));
	return whole;
}
