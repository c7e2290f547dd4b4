/*
 * demangle_rust.h - demangles names of Rust functions in the v0 scheme ("_R…").
 */
#pragma once

/*
 * Returns the short form of rustc-demangle, without hashes of crates: "<a::T as b::Tr>::f::<u8>".
 * The caller frees it. Returns NULL if it is not such a name, or without memory.
 */
char *pev_demangle_rust(const char *name);
