#!/bin/sh
# debs.sh - Debian packages of any architecture and release, for guests and for cross-building.
#
#   debs.sh kernel ARCH SUITE PACKAGE      the kernel that a (meta)package brings
#   debs.sh root ARCH SUITE PACKAGE...     packages and all that they depend on, unpacked
#
# prints a directory: with `vmlinuz`, or a file tree. apt does the work, with a state of its own
# below the cache: no rights, and nothing of this system's packages changes. What was fetched once
# is taken from the cache and asks no network; remove the cache to have it anew.
# Environment: VM_CACHE, VM_MIRROR (else the mirror that this system uses).

cache=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/perfev-vm}
keys=/usr/share/keyrings/debian-archive-keyring.gpg

die() {
	echo "debs.sh: $*" >&2
	exit 1
}

mirror() {
	if [ -n "$VM_MIRROR" ]; then
		echo "$VM_MIRROR"
	else
		# shellcheck disable=SC2016 # for apt
		apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
			sed -n 's,/debian/*$,/debian,p' | head -n 1
	fi
}

# ARCH SUITE: point apt at lists, archives and a (void) status of their own
configure() {
	state=$cache/apt/$1-$2
	from=$(mirror)
	[ -n "$from" ] || die 'no Debian mirror among the sources of apt: set VM_MIRROR'
	[ -r $keys ] || die "no $keys: install debian-archive-keyring"
	mkdir -p "$state/lists/partial" "$state/archives/partial" "$state/none/partial" \
		"$state/parts"
	: > "$state/status"
	release=${2%-backports}
	for entry in "debian $release" "debian-security $release-security" "debian $2"; do
		echo "deb [signed-by=$keys] ${from%/debian}/${entry% *} ${entry#* } main"
	done | sort -u > "$state/sources.list"
	cat > "$state/apt.conf" <<-CONF
		APT::Architecture "$1";
		APT::Architectures { "$1"; };
		APT::Install-Recommends "false";
		APT::Sandbox::User "";
		Acquire::Languages "none";
		Acquire::Retries "3";
		Dir::State "$state";
		Dir::State::status "$state/status";
		Dir::Cache "$state";
		Dir::Etc::sourcelist "$state/sources.list";
		Dir::Etc::sourceparts "$state/parts";
		Dir::Etc::preferencesparts "$state/parts";
		Dir::Etc::parts "$state/parts";
	CONF
	# Backports are taken when they are asked for by name alone.
	[ "$release" = "$2" ] || echo "APT::Default-Release \"$2\";" >> "$state/apt.conf"
	export APT_CONFIG="$state/apt.conf"
}

update() {
	fresh=yes
	apt-get -qq update > "$state/update.log" 2>&1 ||
		[ -n "$(find "$state/lists" -name '*Packages*')" ] ||
		die "no package lists of $suite for $arch: $(tail -n 1 "$state/update.log")"
}

# The newest that the mirror still has: of old releases it drops packages that its lists name.
fetch_kernel() {
	for version in $(apt-cache madison "$1" | awk -v suite=" $suite" '$0 ~ suite { print $3 }'); do
		fetch_image "$1=$version" && return
		[ -n "$fresh" ] || return 1
	done
	return 1
}

# Since 7.x the image itself is in a package of its own, linux-binary.
fetch_image() {
	names=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts \
		--no-breaks --no-replaces --no-enhances "$1" |
		grep -E '^linux-(image|binary)-[0-9]' | sort -u)
	# shellcheck disable=SC2086 # words
	[ -n "$names" ] && rm -rf "$out.new" && mkdir -p "$out.new/debs" &&
		(cd "$out.new/debs" && apt-get -qq download $names) || return 1
	for deb in "$out.new"/debs/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" |
			tar -x -C "$out.new" --wildcards '*/vmlinu[xz]*' || :
	done 2> "$out.new/tar.log"
	image=$(find "$out.new" -type f -name 'vmlinu[xz]*')
	[ -s "$image" ] && mv "$image" "$out.new/vmlinuz" &&
		rm -rf "$out.new/debs" "$out.new/boot" "$out.new/usr"
}

# What a spec, perf and a compiler of C never open is left out: half of it.
fetch_root() {
	# What is in the archives already would not be named.
	files=$(apt-get -qq install -y --print-uris -o Dir::Cache::archives="$state/none" "$@" |
		awk '/^\047/ { print $2 }')
	[ -n "$files" ] && apt-get -qq install -y --download-only "$@" >&2 || return 1
	rm -rf "$out.new"
	mkdir -p "$out.new/usr"
	for d in bin sbin lib lib64; do
		mkdir "$out.new/usr/$d"
		ln -s "usr/$d" "$out.new/$d"
	done
	for f in $files; do
		dpkg-deb --fsys-tarfile "$state/archives/$f" |
			tar -x -C "$out.new" --keep-directory-symlink --no-same-owner \
				--exclude-from "$(dirname "$0")/unneeded" || return 1
	done
	# A linker that is pointed here would follow them into this system.
	find "$out.new" -type l -lname '/*' | while read -r link; do
		ln -sfr "$out.new$(readlink "$link")" "$link"
	done
}

what=$1 arch=$2 suite=$3 fresh=
shift 3 || die 'kernel|root ARCH SUITE PACKAGE...'
out=$cache/$what/$arch-$suite-$(echo "$*" | cksum | cut -d ' ' -f 1)
if [ ! -e "$out" ]; then
	mkdir -p "$cache"
	exec 9> "$cache/lock"
	flock 9
	configure "$arch" "$suite"
	mkdir -p "$cache/$what"
	[ -n "$(find "$state/lists" -name '*Packages*')" ] || update
	# Lists grow old: what they name may be gone from the mirror.
	"fetch_$what" "$@" 2> "$state/fetch.log" || { update && "fetch_$what" "$@"; } ||
		die "$arch/$suite: cannot fetch $*"
	mv "$out.new" "$out"
fi
echo "$out"
