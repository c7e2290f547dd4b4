/*
 * limage.h - the userdata perfev.core.image: a file whose bytes are read when they are needed. Made
 * by lfile.c; inline, because the modules that are shared objects of their own (lcfi.c,
 * lsymtab.c) cannot call the core's functions.
 */
#pragma once

#include <lauxlib.h>

#include "base/file_image.h"

#define L_IMAGE_TYPENAME "perfev.core.image"

/*
 * Returns the image at idx. A string is an image, too, in *whole. The caller keeps the value at
 * idx as long as the image.
 */
static inline struct pev_file_image *l_image_check(lua_State *L, int idx,
						   struct pev_file_image *whole)
{
	struct pev_file_image *image = luaL_testudata(L, idx, L_IMAGE_TYPENAME);
	size_t len;
	const char *bytes;

	if (image)
		return image;
	bytes = luaL_checklstring(L, idx, &len);
	*whole = pev_file_image_of(bytes, len);
	return whole;
}

/* The same with all bytes loaded. */
static inline struct pev_file_image *l_image_check_whole(lua_State *L, int idx,
							 struct pev_file_image *whole)
{
	struct pev_file_image *image = l_image_check(L, idx, whole);

	pev_file_image_load(image, 0, image->len);
	return image;
}
