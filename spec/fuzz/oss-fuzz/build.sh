#!/bin/bash -eu
# Builds the targets of spec/fuzz with the compiler, flags and engine of OSS-Fuzz.
compiler=$CC flags=$CFLAGS
unset CC CXX CFLAGS CXXFLAGS # the seeds come from a normal build
make -j"$(nproc)" fuzz-targets FUZZ_CC="$compiler" FUZZ_ENGINE="$LIB_FUZZING_ENGINE" \
	FUZZ_CFLAGS="$flags -Wl,-rpath,'\$\$ORIGIN/lib'"
mkdir -p "$OUT/lib"
for source in spec/fuzz/*.c; do
	target=$(basename "$source" .c)
	cp "build/fuzz/$target" "$OUT/"
	ldd "build/fuzz/$target" | awk '/=> \// && !/lib(c|m|pthread|dl|rt)\.so/ { print $3 }' |
		xargs -I{} cp -n {} "$OUT/lib/"
	(cd "build/fuzz/seeds/$target" && zip -qr "$OUT/${target}_seed_corpus.zip" .)
done
# Targets that run Lua read these files; the fuzzers run in $OUT.
mkdir -p "$OUT/spec/fuzz"
cp -r lua "$OUT/"
cp spec/fuzz/*.lua "$OUT/spec/fuzz/"
