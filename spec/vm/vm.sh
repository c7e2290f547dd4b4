#!/bin/sh
# vm.sh - perfev on other kernels and machines: the live specs, and those of what only a guest has.
#
#   vm.sh [-l] [-f 'SPEC ...'] [-t SECONDS] [KERNEL]...       of the list below; all without any
#
# closes with the sum, as `make test` does. A kernel that cannot be had is told and counts as
# skipped, except the first two, which fail. -l: with few programs in the guests and the specs that
# need no more, and what cannot be fetched, or is out of time, is left out whatever it is (make
# check). SECONDS are for each guest. Run it by `make vm`. Environment: VM_CACHE (debs.sh), BUILD.
# With the whole list doc/kernels.md is written anew (table.lua).

# name, architecture, release of Debian, package, how it is booted
kernels='
amd64-6.1    amd64   bookworm         linux-image-cloud-amd64
arm64-6.1    arm64   bookworm         linux-image-cloud-arm64  -i
amd64-5.10   amd64   bullseye         linux-image-cloud-amd64
amd64-6.12   amd64   trixie           linux-image-cloud-amd64
amd64-new    amd64   trixie-backports linux-image-cloud-amd64
amd64-rt     amd64   bookworm         linux-image-rt-amd64
arm64-5.10   arm64   bullseye         linux-image-cloud-arm64  -i
arm64-new    arm64   trixie-backports linux-image-cloud-arm64  -i
arm64-16k    arm64   trixie           linux-image-arm64-16k    -i
s390x-6.1    s390x   bookworm         linux-image-s390x'
needed='amd64-6.1 arm64-6.1'
NOT_HERE=77
skipped='0 passed, 0 failed, 1 skipped'

# What runs in a guest is what runs here: packages of this machine's release of Debian.
gcc=$(gcc -dumpversion)
headers="libc6-dev liblua5.4-dev libtraceevent-dev libelf-dev libdw-dev liblzma-dev libstdc++6
	libstdc++-$gcc-dev libpfm4-dev libzstd-dev libbz2-dev"
few='busybox-static lua-busted lua5.4 liblua5.4-0 dash libc-bin coreutils util-linux procps
	libtraceevent1 libelf1 libdw1 liblzma5 libstdc++6 libpfm4 libzstd1'
more='gcc libc6-dev binutils make liblua5.4-dev pkg-config strace linux-perf'

cd "$(dirname "$0")/../.." || exit
build=${BUILD:-build}
vm=build/vm
# shellcheck source=/dev/null
release=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME")

# The functions give a reason on standard error; what cannot be had is NOT_HERE.

triplet() {
	case $1 in
	amd64) echo x86_64-linux-gnu ;;
	arm64) echo aarch64-linux-gnu ;;
	*) echo "$1-linux-gnu" ;;
	esac
}

# ARCH -> the build directory of perfev for it
built() {
	if [ "$1" = "$(dpkg --print-architecture)" ]; then
		echo "$build"
		return
	fi
	gnu=$(triplet "$1")
	command -v "$gnu-gcc" > /dev/null || { echo "no $gnu-gcc here" >&2; return $NOT_HERE; }
	# shellcheck disable=SC2086 # words
	root=$(spec/vm/debs.sh root "$1" "$release" $headers) || return $NOT_HERE
	pkg=$root/usr/lib/$gnu/pkgconfig:$root/usr/share/pkgconfig
	PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$pkg make BUILD="$vm/$1" \
		LDFLAGS="-L$root/usr/lib/gcc/$gnu/$gcc" CC="$gnu-gcc --sysroot=$root" \
		AR="$gnu-ar" all static > "$vm/$1.log" 2>&1 ||
		{ tail -n 20 "$vm/$1.log" >&2; return 1; }
	echo "$vm/$1"
}

# ARCH -> this tree as a guest has it, in /perfev
staged() {
	from=$(built "$1") || return
	stage=$vm/stage-$1
	rm -rf "$stage"
	mkdir -p "$stage/perfev/build" "$stage/usr/bin" && ln -s usr/bin "$stage/bin" &&
		ln -s lua5.4 "$stage/usr/bin/lua" &&
		tar -c --exclude=./.git --exclude=./build . | tar -x -C "$stage/perfev" &&
		cp -r "$from/perfl" "$from/perfev" "$stage/perfev/build" || return
	if "$build/perfl" record -q -o "$vm/here.data" -e raw_syscalls:sys_enter,page-faults -c 1 \
		-- ls -R spec > /dev/null 2>&1; then
		lua5.4 spec/vm/counts.lua "$vm/here.data" > "$vm/here.counts" &&
			cp "$vm/here.data" "$vm/here.counts" "$stage/perfev/build"
	fi
	echo "$stage"
}

# FILE... of sums, and of what ends in one -> their sum
summed() {
	awk '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $1; f += $3; s += $5 } END {
		print p+0 " passed, " f+0 " failed, " s+0 " skipped" }' "$@"
}

# NAME ARCH SUITE PACKAGE OPTION... -> what the guest says, the sum last
booted() {
	name=$1 arch=$2
	if [ -z "$release" ]; then
		echo 'guests are made of what this Debian has, and this is none' >&2
		return $NOT_HERE
	fi
	# shellcheck disable=SC2086 # words
	spec/vm/guest.sh -q "$arch" && kernel=$(spec/vm/debs.sh kernel "$arch" "$3" "$4") &&
		root=$(spec/vm/debs.sh root "$arch" "$release" $packages) || return $NOT_HERE
	stage=$(staged "$arch") || return
	shift 4
	command="export JOBS=1 VM=$name; LUA_PATH='$LUA_PATH' LUA_CPATH='build/?.so' lua5.4 \
		spec/vm/facts.lua > /out/facts; spec/support/suite.sh busted $specs"
	VM_LOG=$vm/$name.console spec/vm/guest.sh "$@" -t "$limit" -o "$vm/$name.files" -r "$root" \
		-r "$stage" "$arch" "$kernel" "$command"
}

# NAME ARCH SUITE PACKAGE OPTION...: what is to be seen from outside of a guest
seen() {
	name=$1 arch=$2 kernel=$(spec/vm/debs.sh kernel "$2" "$3" "$4")
	shift 4
	bare=
	case " $needed " in *" $name "*)
		tree=$vm/bare-$arch
		mkdir -p "$tree" && cp "$(built "$arch")/static/perfl" "$tree" &&
			root=$(spec/vm/debs.sh root "$arch" "$release" busybox-static) &&
			bare="$* -r $root -r $tree $arch $kernel"
		;;
	esac
	TALLY='' VM=$name VM_FILES=$vm/$name.files VM_BARE=$bare spec/support/suite.sh busted \
		spec/vm/host/*_spec.lua
}

export LUA_PATH='lua/?.lua;lua/?/init.lua;./?.lua;;' LUA_CPATH="$build/?.so;;"
light='' limit=900
specs=$(find spec/live spec/vm -path spec/vm/host -prune -o -name '*_spec.lua' -print | sort)
while getopts lf:t: option; do
	case $option in
	l)
		light=yes limit=400
		specs="$(ls spec/vm/*_spec.lua) spec/live/attr_spec.lua spec/live/clock_spec.lua
			spec/live/counter_spec.lua spec/live/fields_spec.lua"
		;;
	f) specs=$OPTARG ;;
	t) limit=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
specs=$(echo "$specs" | tr '\n\t' '  ')
packages=$few
[ -n "$light" ] || packages="$few $more"
mkdir -p "$vm"
page=
# shellcheck disable=SC2046 # words
[ $# -gt 0 ] || { page=doc/kernels.md && set -- $(echo "$kernels" | awk '{ print $1 }'); }
: > "$vm/sums"
echo "$specs" > "$vm/specs"
for name; do
	line=$(echo "$kernels" | awk -v name="$name" '$1 == name')
	[ -n "$line" ] || { echo "vm.sh: no kernel is called $name" >&2; exit 2; }
	echo "== $name"
	began=$(date +%s)
	rm -rf "$vm/$name.files"
	# shellcheck disable=SC2086 # words
	booted $line > "$vm/$name.out" 2> "$vm/$name.err"
	status=$?
	cat "$vm/$name.out"
	sum=$(tail -n 1 "$vm/$name.out" | grep -x '[0-9]* passed, [0-9]* failed, [0-9]* skipped')
	if [ -z "$sum" ]; then
		cat "$vm/$name.err"
		sum='0 passed, 1 failed, 0 skipped'
		case "$light $status $needed " in
		*" $NOT_HERE "*" $name "*) [ -z "$light" ] || sum=$skipped ;;
		*" $NOT_HERE "* | 'yes 124 '*) sum=$skipped ;;
		esac
	else
		# shellcheck disable=SC2086 # words
		seen $line > "$vm/$name.seen" 2>&1
		cat "$vm/$name.seen"
		sum=$(summed "$vm/$name.out" "$vm/$name.seen")
	fi
	echo "$name: $sum ($(($(date +%s) - began)) s)"
	echo "$sum" | tee "$vm/$name.sum" >> "$vm/sums"
done
[ -z "$page" ] || lua5.4 spec/vm/table.lua "$vm" "$@" > $page
sum=$(summed "$vm/sums")
echo "$sum"
[ -z "$TALLY" ] || echo "$sum" >> "$TALLY"
case $sum in *", 0 failed, "*) exit 0 ;; esac
exit 1
