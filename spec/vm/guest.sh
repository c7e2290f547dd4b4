#!/bin/sh
# guest.sh - boot a kernel under QEMU, run one command in it, give back what it said.
#
#   guest.sh [OPTION]... ARCH KERNEL COMMAND
#
# KERNEL is a directory from debs.sh, ARCH Debian's word. The guest is an initramfs of the trees
# that are named, busybox among them; no disk, no network. COMMAND, a line for sh, runs as root in
# /perfev, if there is one. The status is the command's; 124: out of time; 125: it got less far.
#
#   -r DIR       a tree for the guest, from / on
#   -o DIR       what the command leaves in /out comes back here
#   -t SECONDS   for all of it (300)
#   -m MIB       of memory (1024)
#   -k WORDS     more for the kernel's command line
#   -q           only: is there a QEMU for ARCH?
#   -i           count instructions: hardware counters that repeat, on arm64
# Environment: VM_LOG=FILE keeps the console.

die() {
	echo "guest.sh: $*" >&2
	exit 125
}

trees='' out='' limit=300 memory=1024 words='' count='' only=''
while getopts r:o:t:m:k:qi option; do
	case $option in
	r) trees="$trees $OPTARG" ;;
	o) out=$OPTARG ;;
	t) limit=$OPTARG ;;
	m) memory=$OPTARG ;;
	k) words=$OPTARG ;;
	q) only=yes ;;
	i) count='-icount shift=2' ;;
	*) die 'see the head of this file' ;;
	esac
done
shift $((OPTIND - 1))
[ $# = 3 ] || [ -n "$only" ] || die 'ARCH KERNEL COMMAND'
arch=$1 kernel=$2 command=$3

case $arch in
amd64) machine='x86_64 -M pc,hpet=off -cpu max' console='ttyS0 no_timer_check' ;;
arm64) machine='aarch64 -M virt,gic-version=3 -cpu neoverse-n1' console=ttyAMA0 ;;
s390x) machine='s390x -M s390-ccw-virtio -cpu max' console=ttysclp0 ;;
ppc64el)
	machine='ppc64 -M pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken -cpu power9'
	console=hvc0
	;;
*) die "no machine is known for $arch" ;;
esac
command -v "qemu-system-${machine%% *}" > /dev/null || die "no qemu-system-${machine%% *} here"
[ -z "$only" ] || exit 0

tmp=$(mktemp -d) || exit 125
console_file=${VM_LOG:-$tmp/console}
qemu=
trap '[ -z "$qemu" ] || kill $qemu; rm -rf "$tmp"' EXIT
trap 'exit 125' INT TERM HUP

nonce=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
mkdir -p "$tmp/own/vm"
install -m 755 "$(dirname "$0")/init" "$tmp/own/init"
echo "$nonce" > "$tmp/own/vm/nonce"
echo "$command" > "$tmp/own/vm/command"
[ -z "$out" ] || : > "$tmp/own/vm/out"
# Linux takes any number of archives, one behind the other.
for tree in $trees "$tmp/own"; do
	(cd "$tree" && find . | cpio --quiet -o -H newc -R 0:0) || die "cannot pack $tree"
done > "$tmp/initrd"

# One thread for all CPUs of a guest: with one for each, interrupts between them get lost at times.
# shellcheck disable=SC2086 # words are meant
timeout --foreground -k 5 "$limit" qemu-system-$machine -accel tcg,thread=single -smp 2 \
	-m "$memory" $count -nodefaults -no-user-config -display none -monitor none \
	-no-reboot -nic none \
	-chardev "file,id=console,path=$console_file" -serial chardev:console \
	-kernel "$kernel/vmlinuz" -initrd "$tmp/initrd" \
	-append "console=$console panic=-1 oops=panic quiet loglevel=3 nowatchdog $words" \
	< /dev/null > "$tmp/qemu" 2>&1 &
qemu=$!
wait $qemu
ended=$?
qemu=

# A newline stands before each mark, so that the last line is what it was, ended or not.
awk -v mark="@$nonce " 'index($0, mark "begin") == 1 { on = 1; next }
	index($0, mark "end") == 1 { exit } on { print }' "$console_file" | head -c -1
status=$(sed -n "s/^@$nonce end \([0-9]*\).*/\1/p" "$console_file")
if [ -n "$out" ] && grep -q "^@$nonce out" "$console_file"; then
	mkdir -p "$out"
	awk -v mark="@$nonce " 'index($0, mark "out") == 1 { exit } on { print }
		index($0, mark "end") == 1 { on = 1 }' "$console_file" |
		base64 -d | tar -xzm -C "$out" --no-same-owner || die 'what came back is damaged'
fi
[ -z "$status" ] || exit "$status"
{ echo; tail -n 20 "$console_file" "$tmp/qemu"; } >&2
[ $ended != 124 ] || { echo "guest.sh: $limit s were not enough" >&2; exit 124; }
die "the guest ended early (QEMU: $ended)"
