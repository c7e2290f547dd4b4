/*
 * demangle.h - the name of a C++ or Rust function as its author wrote it.
 */
#ifndef PEV_DEMANGLE_H
#define PEV_DEMANGLE_H

/*
 * Without parameters and return type, as perf prints it; for the caller to free. NULL: it
 * is no mangled name (or there is no memory).
 */
char *pev_demangle(const char *name);

#endif
