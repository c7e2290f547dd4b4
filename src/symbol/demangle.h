/*
 * demangle.h - turns mangled names of C++ and Rust functions into source names.
 */
#pragma once

/*
 * Returns the name without parameters and return type, as perf prints it; the caller frees it.
 * Returns NULL if the name is not mangled, or without memory.
 */
char *pev_demangle(const char *name);
