#!/bin/sh
# suite.sh - runs spec files, each in its own process, JOBS (1) at once, and adds up their sums.
#
#   suite.sh 'COMMAND ...' FILE...
#
# One process for all files takes twice as long: Lua's collector walks what busted keeps of every
# file before. The time of each file is printed with its sum. A process that ends without
# its closing line has failed, and so has one that ends with a status behind it: it leaks. A process
# that LeakSanitizer itself ended is run again, once; LeakSanitizer crashes now and then.
#
# A file of the real kernel (spec/live) or of real servers (spec/fleet) that fails is run once
# more, alone, when all others have ended. If it passes then, it counts as passed and is listed as
# unsteady; both outputs are kept in UNSTEADY (build/unsteady).
#
# With TALLY=FILE in the environment the sum is appended to FILE, as spec/support/tally.lua does,
# and the unsteady files as well.

run=$1
shift
dir=$(mktemp -d) || exit
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

# run_file DIR COMMAND FILE: runs one file and prints its sum and its output, without the marks.
cat > "$dir/run_file" <<'END'
name=$(echo "$3" | tr / _)
out=$1/$name.out
tally=$1/$name.tally
began=$(date +%s)
TALLY=$tally $2 "$3" > "$out" 2>&1
status=$?
if grep -qs "LeakSanitizer has encountered a fatal error" "$out"; then
	rm -f "$tally"
	TALLY=$tally $2 "$3" > "$out" 2>&1
	status=$?
	echo "LeakSanitizer died of itself: this is the second run" >> "$out"
fi
if [ ! -s "$tally" ]; then
	echo "0 passed, 1 failed, 0 skipped" > "$tally"
	echo "FAILED: $3 ended early, with status $status" >> "$out"
elif [ $status -ne 0 ] && grep -q ", 0 failed, " "$tally"; then
	sed -i "s/, 0 failed, /, 1 failed, /" "$tally"
	echo "FAILED: $3 ended with status $status" >> "$out"
fi
seconds=$(($(date +%s) - began))
times > "$1/$name.times" # its last line is the CPU time of the processes that this one waited for
cpu=$(awk -F'[ms ]' 'END { printf "%.0f", ($1 + $4) * 60 + $2 + $5 }' "$1/$name.times")
{
	echo "$3: $(cat "$tally") ($seconds s, $cpu s of CPU)"
	sed -E "/^[-+.*]*$/d; /^[0-9.]+ s$/d; /^[0-9]+ passed, /d; s/^[-+.*]+//" "$out"
} > "$1/$name.printed"
cat "$1/$name.printed"
END

printf '%s\n' "$@" | xargs -P "${JOBS:-1}" -I{} sh "$dir/run_file" "$dir" "$run" {}

has_failed() {
	! grep -q ", 0 failed, " "$dir/$(echo "$1" | tr / _).tally"
}

# Runs a file that failed again, and keeps both outputs if it passes.
run_again() {
	name=$(echo "$1" | tr / _)
	mkdir -p "$dir/first"
	mv "$dir/$name.tally" "$dir/$name.out" "$dir/first"
	echo "again, alone: $1"
	sh "$dir/run_file" "$dir" "$run" "$1"
	if ! has_failed "$1"; then
		kept=${UNSTEADY:-build/unsteady}
		mkdir -p "$kept"
		cp "$dir/first/$name.out" "$kept/$name.1"
		cp "$dir/$name.out" "$kept/$name.2"
		echo "unsteady: $1 failed, and passed alone; its outputs: $kept/$name.1 and .2" \
			>> "$dir/unsteady"
	fi
}

for file in "$@"; do
	case $file in spec/live/* | spec/fleet/*)
		if has_failed "$file"; then run_again "$file"; fi ;;
	esac
done

[ ! -s "$dir/unsteady" ] || cat "$dir/unsteady"
sum=$(cat "$dir"/*.tally | awk '{ p += $1; f += $3; s += $5 } END {
	print p+0 " passed, " f+0 " failed, " s+0 " skipped" }')
echo "$sum"
[ -z "$TALLY" ] || { cat "$dir/unsteady" 2>/dev/null; echo "$sum"; } >> "$TALLY"
case $sum in *", 0 failed, "*) exit 0 ;; esac
exit 1
