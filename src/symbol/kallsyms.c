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
	uint32_t name;          /* offset in text; its module follows the zero and "[" */
	bool in_module;         /* false: the kernel itself */
	char kind;              /* as in nm(1): t and T are functions */
};

struct pev_kallsyms {
	char *text;             /* owned; the names are in it */
	struct symbol *sorted;  /* owned */
	size_t nr;
};

static const char *name_of(const struct pev_kallsyms *symbols, const struct symbol *symbol)
{
	return symbols->text + symbol->name;
}

static const char *module_of(const struct pev_kallsyms *symbols, const struct symbol *symbol)
{
	const char *name = name_of(symbols, symbol);

	return symbol->in_module ? name + strlen(name) + 2 : NULL;
}

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	/* Aliases: the first in the file is the one that the kernel itself prints. */
	return (x->name > y->name) - (x->name < y->name);
}

static int read_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses one line, which is terminated. Returns false if it is not a symbol. */
static bool parse_line(struct pev_kallsyms *symbols, char *line)
{
	struct symbol *symbol = &symbols->sorted[symbols->nr];
	uint64_t addr = 0;
	char *end = line;

	for (int digit; (digit = read_digit(*end)) >= 0; end++)
		addr = addr << 4 | (uint64_t)digit;
	if (addr == 0 || end - line > 16 || end[0] != ' ' || !end[1] || end[2] != ' ' || !end[3])
		return false;
	*symbol = (struct symbol){ .addr = addr, .kind = end[1],
				   .name = (uint32_t)(end + 3 - symbols->text) };
	end += 3 + strcspn(end + 3, "\t ");
	symbol->in_module = end[0] == '\t' && end[1] == '[';
	if (symbol->in_module)
		end[2 + strcspn(end + 2, "]")] = '\0';
	*end = '\0';
	return true;
}

/* The kernel's own symbols are in order; those of modules follow, in no order. */
static void sort_symbols(struct pev_kallsyms *symbols)
{
	struct symbol *sorted = symbols->sorted, *end = sorted + symbols->nr, *rest = sorted + 1;

	while (rest < end && rest[-1].addr <= rest->addr)
		rest++;
	if (rest >= end)
		return;
	qsort(rest, (size_t)(end - rest), sizeof(*rest), compare_symbols);
	if (compare_symbols(rest - 1, rest) > 0)
		qsort(sorted, symbols->nr, sizeof(*sorted), compare_symbols);
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

	if (len <= UINT32_MAX)
		symbols->sorted = calloc(count_lines(symbols->text, end),
					 sizeof(*symbols->sorted));
	if (!symbols->sorted)
		return -ENOMEM;
	for (char *line = symbols->text, *next; line && *line; line = next) {
		next = memchr(line, '\n', (size_t)(end - line));
		if (next)
			*next++ = '\0';
		symbols->nr += parse_line(symbols, line);
	}
	sort_symbols(symbols);
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
	return symbol ? name_of(symbols, symbol) : NULL;
}

static bool is_function(const struct symbol *symbol)
{
	return symbol->kind == 't' || symbol->kind == 'T' || symbol->kind == 'w' ||
	       symbol->kind == 'W';
}

#define PAGE UINT64_C(4096)

static bool is_same_module(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
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
	return (next < end &&
		is_same_module(module_of(symbols, symbol), module_of(symbols, next))) ||
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
	*module = module_of(symbols, symbol);
	return name_of(symbols, symbol);
}

uint64_t pev_kallsyms_address(const struct pev_kallsyms *symbols, const char *name)
{
	for (size_t i = 0; i < symbols->nr; i++)
		if (strcmp(name_of(symbols, &symbols->sorted[i]), name) == 0)
			return symbols->sorted[i].addr;
	return 0;
}
