/*
 * demangle_rust.h - the name of a Rust function of the v0 scheme ("_R…").
 */
#ifndef PEV_DEMANGLE_RUST_H
#define PEV_DEMANGLE_RUST_H

/*
 * As rustc-demangle's short form has it, without hashes of crates: "<a::T as b::Tr>::f::<u8>".
 * For the caller to free. NULL: it is no such name (or there is no memory).
 */
char *pev_demangle_rust(const char *name);

#endif
