/*
 * kallsyms.c - finds the kernel's symbol at an address, from /proc/kallsyms; see kallsyms.h.
 *
 * The file is read once, its lines are terminated in place and sorted by address: a look-up is a
 * binary search and allocates nothing. Contract: kernel/kallsyms.c, s_show(): "%px %c %s\n", or
 * with "\t[module]" after the name.
 */
#include "symbol/kallsyms.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct symbol {
	uint64_t addr;
	const char *name;
	const char *module;     /* NULL: the kernel itself */
	char kind;              /* as in nm(1): t and T are functions */
};

struct pev_kallsyms {
	char *text;             /* owned; the names are in it */
	struct symbol *sorted;  /* owned */
	size_t nr;
};

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	/* Aliases: the first in the file is the one that the kernel itself prints. */
	return (x->name > y->name) - (x->name < y->name);
}

/* Parses one line, which is terminated. Returns false if it is not a symbol. */
static bool parse_line(char *line, struct symbol *symbol)
{
	char *end;

	symbol->addr = strtoull(line, &end, 16);
	if (end == line || end[0] != ' ' || !end[1] || end[2] != ' ' || !end[3])
		return false;
	symbol->kind = end[1];
	symbol->name = end + 3;
	symbol->module = NULL;
	end += 3 + strcspn(end + 3, "\t ");
	if (end[0] == '\t' && end[1] == '[') {
		symbol->module = end + 2;
		end[2 + strcspn(end + 2, "]")] = '\0';
	}
	*end = '\0';
	return symbol->addr != 0;
}

/* memchr(), not strchr(): a sanitizer that checks whole strings reads them to the end each time. */
static size_t count_lines(const char *text, const char *end)
{
	size_t nr = 0;

	while ((text = memchr(text, '\n', (size_t)(end - text))) != NULL) {
		text++;
		nr++;
	}
	return nr + 1;
}

static int parse_text(struct pev_kallsyms *symbols, size_t len)
{
	char *end = symbols->text + len;

	symbols->sorted = malloc(sizeof(*symbols->sorted) * count_lines(symbols->text, end));
	if (!symbols->sorted)
		return -ENOMEM;
	for (char *line = symbols->text, *next; line && *line; line = next) {
		next = memchr(line, '\n', (size_t)(end - line));
		if (next)
			*next++ = '\0';
		symbols->nr += parse_line(line, &symbols->sorted[symbols->nr]);
	}
	qsort(symbols->sorted, symbols->nr, sizeof(*symbols->sorted), compare_symbols);
	return symbols->nr ? 0 : -EACCES;
}

int pev_kallsyms_parse(struct pev_kallsyms **out, const char *text, size_t len, struct pev_err *err)
{
	struct pev_kallsyms *symbols = calloc(1, sizeof(*symbols));
	int rc = -ENOMEM;

	if (symbols)
		symbols->text = malloc(len + 1);
	if (symbols && symbols->text) {
		memcpy(symbols->text, text, len);
		symbols->text[len] = '\0';
		rc = parse_text(symbols, len);
	}
	if (rc < 0) {
		pev_kallsyms_free(symbols);
		return pev_fail(err, rc, "cannot read the kernel's symbols");
	}
	*out = symbols;
	return 0;
}

int pev_kallsyms_kernel(struct pev_kallsyms **out, const struct pev_sys *sys, struct pev_err *err)
{
	struct pev_kallsyms *symbols = calloc(1, sizeof(*symbols));
	size_t len;
	int rc;

	if (!symbols)
		return pev_fail(err, -ENOMEM, "cannot read the kernel's symbols");
	rc = sys->slurp(sys->ctx, "/proc/kallsyms", &symbols->text, &len);
	if (rc == 0)
		rc = parse_text(symbols, len);
	if (rc < 0) {
		pev_kallsyms_free(symbols);
		return pev_fail(err, rc, "cannot read the kernel's symbols from /proc/kallsyms");
	}
	*out = symbols;
	return 0;
}

void pev_kallsyms_free(struct pev_kallsyms *symbols)
{
	if (!symbols)
		return;
	free(symbols->text);
	free(symbols->sorted);
	free(symbols);
}

/* Finds the last address at or below addr, and returns its first symbol, or NULL. */
static const struct symbol *find_symbol(const struct pev_kallsyms *symbols, uint64_t addr)
{
	size_t low = 0, high = symbols->nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (symbols->sorted[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0)
		return NULL;
	low--;
	while (low > 0 && symbols->sorted[low - 1].addr == symbols->sorted[low].addr)
		low--;
	return &symbols->sorted[low];
}

const char *pev_kallsyms_find(const struct pev_kallsyms *symbols, uint64_t addr, uint64_t *start)
{
	const struct symbol *symbol = find_symbol(symbols, addr);

	if (symbol)
		*start = symbol->addr;
	return symbol ? symbol->name : NULL;
}

static bool is_function(const struct symbol *symbol)
{
	return symbol->kind == 't' || symbol->kind == 'T' || symbol->kind == 'w' ||
	       symbol->kind == 'W';
}

#define PAGE UINT64_C(4096)

static bool is_same_module(const struct symbol *a, const struct symbol *b)
{
	return a->module && b->module ? strcmp(a->module, b->module) == 0 : a->module == b->module;
}

/*
 * kallsyms has no sizes: a symbol ends at the next one. If that belongs to another module, which
 * may be far away, it ends with the next page, as in perf (symbols__fixup_end() in
 * tools/perf/util/symbol.c).
 */
static bool contains_address(const struct pev_kallsyms *symbols, const struct symbol *symbol,
			     uint64_t addr)
{
	const struct symbol *next = symbol, *end = symbols->sorted + symbols->nr;

	while (next < end && next->addr == symbol->addr)
		next++;
	return (next < end && is_same_module(symbol, next)) ||
	       addr - symbol->addr < PAGE - symbol->addr % PAGE + PAGE;
}

const char *pev_kallsyms_function(const struct pev_kallsyms *symbols, uint64_t addr,
				  uint64_t *start, const char **module)
{
	const struct symbol *symbol = find_symbol(symbols, addr), *end;

	if (!symbol)
		return NULL;
	end = symbols->sorted + symbols->nr;
	while (!is_function(symbol) && symbol + 1 < end && symbol[1].addr == symbol->addr)
		symbol++;
	if (!is_function(symbol) || !contains_address(symbols, symbol, addr))
		return NULL;
	*start = symbol->addr;
	*module = symbol->module;
	return symbol->name;
}

uint64_t pev_kallsyms_address(const struct pev_kallsyms *symbols, const char *name)
{
	for (size_t i = 0; i < symbols->nr; i++)
		if (strcmp(symbols->sorted[i].name, name) == 0)
			return symbols->sorted[i].addr;
	return 0;
}
