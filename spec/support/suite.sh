#!/bin/sh
# suite.sh - spec files, each in a process of its own, JOBS (1) at once, and one sum at the end.
#
#   suite.sh 'COMMAND ...' FILE...
#
# One process for all of them takes twice as long: Lua's collector walks what busted keeps of every
# file before. What each takes is told in seconds. A process that ends without its closing line has
# failed, as has one that ends badly behind it: it leaks. One of which LeakSanitizer itself died,
# which it does now and then, is run again, once. With TALLY=FILE in the environment the sum is
# appended to FILE, as spec/support/tally.lua does.

run=$1
shift
dir=$(mktemp -d) || exit
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

# What a file said beside its marks and its closing lines is told at once when it is done.
printf '%s\n' "$@" | xargs -P "${JOBS:-1}" -I{} sh -c '
	name=$(echo "$3" | tr / _)
	tally=$2/$name.tally
	began=$(date +%s)
	TALLY=$tally $1 "$3" > "$2/$name.out" 2>&1
	status=$?
	if grep -qs "LeakSanitizer has encountered a fatal error" "$2/$name.out"; then
		rm -f "$tally"
		TALLY=$tally $1 "$3" > "$2/$name.out" 2>&1
		status=$?
		echo "LeakSanitizer died of itself: this is the second run" >> "$2/$name.out"
	fi
	if [ ! -s "$tally" ]; then
		echo "0 passed, 1 failed, 0 skipped" > "$tally"
		echo "FAILED: $3 ended early, with status $status" >> "$2/$name.out"
	elif [ $status -ne 0 ] && grep -q ", 0 failed, " "$tally"; then
		sed -i "s/, 0 failed, /, 1 failed, /" "$tally"
		echo "FAILED: $3 ended with status $status" >> "$2/$name.out"
	fi
	{
		echo "$3: $(cat "$2/$name.tally") ($(($(date +%s) - began)) s)"
		sed -E "/^[-+.*]*$/d; /^[0-9.]+ s$/d; /^[0-9]+ passed, /d; s/^[-+.*]+//" "$2/$name.out"
	} > "$2/$name.told"
	cat "$2/$name.told"
' suite "$run" "$dir" {}

sum=$(cat "$dir"/*.tally | awk '{ p += $1; f += $3; s += $5 } END {
	print p+0 " passed, " f+0 " failed, " s+0 " skipped" }')
echo "$sum"
[ -z "$TALLY" ] || echo "$sum" >> "$TALLY"
case $sum in *", 0 failed, "*) exit 0 ;; esac
exit 1
