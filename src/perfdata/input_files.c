/* input_files.c - opens the files of a recording and chooses the next one; see input_files.h. */
#include "perfdata/input_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 8u                   /* from so many files on, blocks are small */
#define SMALL_BLOCK ((size_t)128 << 10)

struct pev_blocks *pev_input_files_at(struct pev_input_files *inputs, uint32_t number)
{
	return number ? &inputs->others[number - 1].in : &inputs->main;
}

/* "data.12" -> 12; -1 for any other name. */
static int file_number(const char *name)
{
	char *end;
	long n;

	if (strncmp(name, "data.", 5) != 0 || name[5] < '0' || name[5] > '9')
		return -1;
	n = strtol(name + 5, &end, 10);
	return *end || n > INT32_MAX ? -1 : (int)n;
}

static int compare_numbers(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Lists the N of each data.N in ascending order. Returns how many, or -errno. */
static int find_files(const struct pev_input_files *inputs, const char *directory, int **numbers)
{
	const struct pev_sys *sys = inputs->main.sys;
	int nr = 0, names_nr = 0, rc;
	char *names;
	size_t len;

	*numbers = NULL;
	rc = sys->list(sys->ctx, directory, &names, &len);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < len; i += strlen(names + i) + 1)
		names_nr++;
	*numbers = malloc(sizeof(**numbers) * ((size_t)names_nr + 1));
	for (size_t i = 0; *numbers && i < len; i += strlen(names + i) + 1)
		if (file_number(names + i) >= 0)
			(*numbers)[nr++] = file_number(names + i);
	free(names);
	if (!*numbers)
		return -ENOMEM;
	qsort(*numbers, (size_t)nr, sizeof(**numbers), compare_numbers);
	return nr;
}

static int open_file(struct pev_input_files *inputs, const char *directory, int number,
		     struct pev_err *err)
{
	struct pev_input *input = &inputs->others[inputs->nr_others];
	const struct pev_blocks *main = &inputs->main;
	size_t len = strlen(directory) + sizeof("/data.2147483647");
	int fd;

	input->name = malloc(len);
	if (!input->name)
		return pev_fail(err, -ENOMEM, "%s: no memory", directory);
	snprintf(input->name, len, "%s/data.%d", directory, number);
	fd = main->sys->open(main->sys->ctx, input->name, O_RDONLY);
	if (fd < 0) {
		pev_fail(err, fd, "%s: %s", input->name, strerror(-fd));
		free(input->name);
		return fd;
	}
	input->in = (struct pev_blocks){
		.sys = main->sys,
		.pool = &inputs->pool,
		.name = input->name,
		.fd = fd,
		.seekable = true,
		.swap = main->swap,
		.inflate_max = main->inflate_max,
		.get_inflate = main->get_inflate,
		.ctx = main->ctx,
	};
	input->in.size = pev_blocks_file_size(&input->in);
	inputs->nr_others++;
	return 0;
}

/* All files begin together. "data" comes first: it describes the state before the recording. */
static int start_order(struct pev_input_files *inputs)
{
	pev_merge_init(&inputs->order, 0, 0);
	if (pev_merge_reserve(&inputs->order, inputs->nr_others + 1) < 0)
		return -ENOMEM;
	pev_merge_push(&inputs->order, 0, 0);
	for (uint32_t i = 1; i <= inputs->nr_others; i++)
		pev_merge_push(&inputs->order, 1, i);
	return 0;
}

int pev_input_files_open(struct pev_input_files *inputs, const char *directory, struct pev_err *err)
{
	int *numbers, nr = find_files(inputs, directory, &numbers), rc = 0;

	if (nr < 0)
		return pev_fail(err, nr, "%s: %s", directory, strerror(-nr));
	inputs->others = calloc((size_t)nr + 1, sizeof(*inputs->others));
	for (int i = 0; inputs->others && rc == 0 && i < nr; i++)
		rc = open_file(inputs, directory, numbers[i], err);
	free(numbers);
	if (rc < 0)
		return rc;
	if (!inputs->others || (nr && start_order(inputs) < 0))
		return pev_fail(err, -ENOMEM, "%s: no memory for %d files", directory, nr);
	if (inputs->nr_others >= MANY)
		inputs->pool.block = SMALL_BLOCK;
	return 0;
}

void pev_input_files_close(struct pev_input_files *inputs)
{
	for (uint32_t i = 0; i < inputs->nr_others; i++) {
		struct pev_blocks *in = &inputs->others[i].in;

		in->sys->close(in->sys->ctx, in->fd);
		pev_blocks_free(in);
		free(inputs->others[i].name);
	}
	pev_blocks_free(&inputs->main);
	free(inputs->others);
	pev_merge_free(&inputs->order);
	pev_pool_free(&inputs->pool);
}

void pev_input_files_advance(struct pev_input_files *inputs, uint64_t time)
{
	pev_merge_replace(&inputs->order, time);
	inputs->at = pev_input_files_at(inputs, pev_merge_top(&inputs->order)->source);
}

void pev_input_files_next(struct pev_input_files *inputs)
{
	const struct pev_merge_item *next;

	inputs->at->done = true;
	if (pev_merge_top(&inputs->order))
		pev_merge_pop(&inputs->order);
	next = pev_merge_top(&inputs->order);
	inputs->done = !next;
	if (next)
		inputs->at = pev_input_files_at(inputs, next->source);
}

const struct pev_err *pev_input_files_failure(const struct pev_input_files *inputs)
{
	if (inputs->main.end.code)
		return &inputs->main.end;
	for (uint32_t i = 0; i < inputs->nr_others; i++)
		if (inputs->others[i].in.end.code)
			return &inputs->others[i].in.end;
	return NULL;
}

uint64_t pev_input_files_size(const struct pev_input_files *inputs)
{
	uint64_t size = inputs->main.size;

	for (uint32_t i = 0; i < inputs->nr_others; i++)
		size += inputs->others[i].in.size;
	return size;
}

void pev_input_files_sum(const struct pev_input_files *inputs, uint64_t *bytes,
			 uint64_t *compressed,
			 uint64_t *inflated)
{
	const struct pev_blocks *in = &inputs->main;

	*bytes = *compressed = *inflated = 0;
	for (uint32_t i = 0; in; i++) {
		*bytes += in->bytes;
		*compressed += in->compressed;
		*inflated += in->unpacked;
		in = i < inputs->nr_others ? &inputs->others[i].in : NULL;
	}
}
