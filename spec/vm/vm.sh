#!/bin/sh
# vm.sh - perfev on other kernels and machines: the live specs, and those of what only a guest has.
#
#   vm.sh [-l | -s] [-f 'SPEC ...'] [-t SECONDS] [-j GUESTS] [KERNEL]...
#
# closes with the sum, as `make test` does. Without a KERNEL it is all of the list below, GUESTS of
# them at once (as many as there are CPUs), each with the specs of $every and those of its line, so
# that it takes a quarter of an hour or so; doc/kernels.md is written anew (table.lua). A KERNEL
# that is named gets every live spec; with -s its share of a run of all. -l (make check): those of
# $few_specs, with few programs in the guest; what cannot be fetched, or is out of time, is left
# out whatever it is. Otherwise a kernel that cannot be had is told and counts as skipped, except
# the first two, which fail. SECONDS are for each guest. Run it by `make vm`. Environment: VM_CACHE
# (debs.sh), BUILD.

# name, architecture, release of Debian, package, how it is booted, specs that it has besides
kernels='
amd64-6.1    amd64   bookworm         linux-image-cloud-amd64  :  errors fork probe
arm64-6.1    arm64   bookworm         linux-image-cloud-arm64  -i: stat snapshot
amd64-5.10   amd64   bullseye         linux-image-cloud-amd64  :  session
amd64-6.12   amd64   trixie           linux-image-cloud-amd64  :  unprivileged
amd64-new    amd64   trixie-backports linux-image-cloud-amd64  :  unprivileged
amd64-rt     amd64   bookworm         linux-image-rt-amd64     :  wakeup
arm64-5.10   arm64   bullseye         linux-image-cloud-arm64  -i:
arm64-new    arm64   trixie-backports linux-image-cloud-arm64  -i:
arm64-16k    arm64   trixie           linux-image-arm64-16k    -i:
s390x-6.1    s390x   bookworm         linux-image-s390x        :  behaviour
ppc64el-6.1  ppc64el bookworm         linux-image-powerpc64le  -m 2048:'
# What every guest has, and what those of make check have of it: files_of tells where they are.
few_specs='vm/machine vm/hardware vm/recording attr clock counter fields'
every="$few_specs record/codec event/attr record/record record/kernel_bytes event/older_kernels base/hooks"
needed='amd64-6.1 arm64-6.1'
NOT_HERE=77
skipped='0 passed, 0 failed, 1 skipped'

# What runs in a guest is what runs here: packages of this machine's release of Debian.
gcc=$(gcc -dumpversion)
headers="libc6-dev liblua5.4-dev libelf-dev libdw-dev liblzma-dev libstdc++6
	libstdc++-$gcc-dev libpfm4-dev libzstd-dev libbz2-dev libcapstone-dev
	libseccomp-dev libmd-dev"
few='busybox-static lua-busted lua5.4 liblua5.4-0 dash libc-bin coreutils util-linux procps
	libelf1 libdw1 liblzma5 libstdc++6 libpfm4 libzstd1'
more='gcc libc6-dev binutils make liblua5.4-dev pkg-config libtraceevent-dev strace linux-perf bash
	xz-utils'

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
	ppc64el) echo powerpc64le-linux-gnu ;;
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
	exec 8> "$vm/lock" && flock 8 # two guests may be of one architecture
	PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$pkg make BUILD="$vm/$1" \
		LDFLAGS="-L$root/usr/lib/gcc/$gnu/$gcc" CC="$gnu-gcc --sysroot=$root" \
		AR="$gnu-ar" NATIVE_PERFL="$build/perfl" LEAVE_OUT="http http_client nats" all static > "$vm/$1.log" 2>&1 ||
		{ tail -n 20 "$vm/$1.log" >&2; return 1; }
	echo "$vm/$1"
}

# NAME ARCH -> this tree as a guest has it, in /perfev
staged() {
	from=$(built "$2") || return
	stage=$vm/stage-$1
	rm -rf "$stage"
	mkdir -p "$stage/perfev/build" "$stage/usr/bin" && ln -s usr/bin "$stage/bin" &&
		ln -s lua5.4 "$stage/usr/bin/lua" && ln -s gcc "$stage/usr/bin/cc" && # update-alternatives
		tar -c --exclude=./.git --exclude=./build . | tar -x -C "$stage/perfev" &&
		cp -r "$from/perfl" "$from/perfev" "$stage/perfev/build" || return
	if "$build/perfl" record -q -g -o "$vm/here.data" -e raw_syscalls:sys_enter,page-faults \
		-c 1 -- ls -R spec > /dev/null 2>&1; then
		lua5.4 spec/vm/counts.lua "$vm/here.data" stacks > "$vm/here.counts" &&
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
	stage=$(staged "$name" "$arch") || return
	shift 4
	# One that waits for ever takes no more than half of the time from those behind it.
	command="export JOBS=1 FEWER=40 VM=$name; LUA_PATH='$LUA_PATH' LUA_CPATH='build/?.so' \
		lua5.4 spec/vm/facts.lua > /out/facts
		spec/support/suite.sh 'timeout $((limit / 2)) busted' $(cat "$vm/$name.specs")"
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

# WORD... -> spec files: "event/attr", "vm/machine" from spec/ on, "stat" is one of spec/live
files_of() {
	for word; do
		case $word in
		*/*) echo "spec/${word}_spec.lua" ;;
		*) echo "spec/live/${word}_spec.lua" ;;
		esac
	done
}

# NAME -> its line of the list, without its specs
line_of() {
	echo "$kernels" | awk -v name="$1" '$1 == name { sub(/:.*/, ""); print }'
}

# NAME -> the specs that it gets
specs_of() {
	if [ -n "$only" ]; then
		echo "$only"
	elif [ -n "$light" ]; then
		# shellcheck disable=SC2086 # words
		files_of $few_specs
	elif [ -n "$page$share" ]; then
		# shellcheck disable=SC2046,SC2086 # words
		files_of $every $(echo "$kernels" | awk -v name="$1" '$1 == name { sub(/.*:/, ""); print }')
	else
		# shellcheck disable=SC2046,SC2086 # words
		{ files_of $every; ls $(find spec/live -name '*_spec.lua'); } | awk '!had[$0]++'
	fi | tr '\n\t' '  '
}

# NAME: all of one guest; its sum goes to NAME.sum
guest() {
	began=$(date +%s)
	rm -rf "${vm:?}/$1.files"
	specs_of "$1" > "$vm/$1.specs"
	# shellcheck disable=SC2046,SC2086 # words
	booted $(line_of "$1") > "$vm/$1.out" 2> "$vm/$1.err"
	status=$?
	sum=$(tail -n 1 "$vm/$1.out" | grep -ax '[0-9]* passed, [0-9]* failed, [0-9]* skipped')
	if [ -z "$sum" ]; then
		sum='0 passed, 1 failed, 0 skipped'
		case "$light $status $needed " in
		*" $NOT_HERE "*" $1 "*) [ -z "$light" ] || sum=$skipped ;;
		*" $NOT_HERE "* | 'yes 124 '*) sum=$skipped ;;
		esac
		cp "$vm/$1.err" "$vm/$1.seen"
	else
		# shellcheck disable=SC2046,SC2086 # words
		seen $(line_of "$1") > "$vm/$1.seen" 2>&1
		sum=$(summed "$vm/$1.out" "$vm/$1.seen")
	fi
	echo "$sum" > "$vm/$1.sum"
	{ echo "== $1"; cat "$vm/$1.out" "$vm/$1.seen"
		echo "$1: $sum ($(($(date +%s) - began)) s)"; } > "$vm/$1.told"
	cat "$vm/$1.told"
}

# The guests of $queue, each the next that no other lane has had.
lane() {
	while name=$(flock "$queue.lock" sh -c "head -n 1 '$queue'; sed -i 1d '$queue'") &&
		[ -n "$name" ]; do
		guest "$name"
	done
}

export LUA_PATH='lua/?.lua;lua/?/init.lua;./?.lua;;' LUA_CPATH="$build/?.so;;"
light='' limit='' only='' share='' guests=$(nproc)
while getopts lsf:t:j: option; do
	case $option in
	l) light=yes guests=1 ;;
	s) share=yes ;;
	f) only=$OPTARG ;;
	t) limit=$OPTARG ;;
	j) guests=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
if [ -n "$light" ]; then
	limit=${limit:-400}
elif [ -n "$share" ] || [ $# = 0 ]; then
	limit=${limit:-900}
else
	limit=${limit:-3600} # every live spec
fi
packages=$few
[ -n "$light" ] || packages="$few $more"
mkdir -p "$vm"
page=
# shellcheck disable=SC2046,SC2086 # words
[ $# -gt 0 ] || { page=doc/kernels.md && set -- $(echo "$kernels" | awk '{ print $1 }'); }
for name; do
	[ -n "$(line_of "$name")" ] || { echo "vm.sh: no kernel is called $name" >&2; exit 2; }
	rm -f "$vm/$name.sum"
done
started=$(date +%s)
queue=$vm/queue-$$
printf '%s\n' "$@" > "$queue"
lanes=$guests
while [ "$lanes" -gt 0 ]; do
	lane &
	lanes=$((lanes - 1))
done
wait
rm -f "$queue" "$queue.lock"
took="$(($(date +%s) - started)) seconds, $guests guests at once"
[ -n "$only" ] || [ -z "$page" ] || lua5.4 spec/vm/table.lua "$vm" "$took" "$@" > $page
for name; do
	cat "$vm/$name.sum" 2> /dev/null || echo '0 passed, 1 failed, 0 skipped'
done > "$vm/sums"
sum=$(summed "$vm/sums")
echo "$sum"
[ -z "$TALLY" ] || echo "$sum" >> "$TALLY"
case $sum in *", 0 failed, "*) exit 0 ;; esac
exit 1
