# perfev: scripting over perf_event_open(2). `make help` lists the targets.
VERSION := 0.2.0

LUA = lua5.4
BUSTED = busted
PKG_CONFIG ?= pkg-config
ifeq ($(origin CC),default)
CC = gcc
endif
CFLAGS ?= -O2 -g -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
PREFIX ?= /usr/local
BINDIR = $(PREFIX)/bin
LUADIR = $(PREFIX)/share/lua/5.4
LIBDIR = $(PREFIX)/lib/lua/5.4
CLIBDIR = $(PREFIX)/lib
INCDIR = $(PREFIX)/include
MANDIR = $(PREFIX)/share/man
DOCDIR = $(PREFIX)/share/doc
BUILD = build
Q = $(if $(V),,@)

BUILD_PKGS := gcc libc6-dev pkg-config lua5.4 liblua5.4-dev lua-argparse \
	libelf-dev libdw-dev liblzma-dev libstdc++6 libpfm4-dev libzstd-dev libmd-dev \
	libcapstone-dev libmicrohttpd-dev libseccomp-dev libnats-dev \
	libcurl4-openssl-dev
CHECK_PKGS := lua-busted lua-check luarocks clang-format clang-tidy cppcheck clang \
	libclang-rt-14-dev binutils g++ xz-utils dwz libdebuginfod1 debuginfod strace \
	valgrind libc6-dbg linux-perf libcap2-bin eslint libtraceevent-dev tmux fish zsh \
	prometheus curl clustershell chromium nats-server openssh-client openssl \
	protobuf-compiler groff-base

# Further packages for the static file.
STATIC_PKGS := g++ libbz2-dev
# Packages to boot other kernels (spec/vm): the two of `make check`, and all.
GUEST_PKGS := $(STATIC_PKGS) qemu-system-x86 qemu-system-arm cpio gcc-aarch64-linux-gnu
VM_PKGS := $(GUEST_PKGS) qemu-system-misc gcc-s390x-linux-gnu qemu-system-ppc \
	gcc-powerpc64le-linux-gnu

DEB_PKGS := debhelper lintian debootstrap

# Code that needs a rarely used library is a module of its own, loaded on first use:
# src/lua/*/lNAME.c, the core files it is linked with, and its package for pkg-config.
# LEAVE_OUT='http nats' builds without some of them.
LEAVE_OUT =
ALL_MODULES := cfi debuginfod disassembler durable_file elf frame http http_client nats pfm \
	seccomp service symtab zstd
cfi_FILES := $(addprefix symbol/,cfi fde elf elf_note) base/err base/file_image
cfi_PKG := libelf
debuginfod_FILES := symbol/debuginfod base/err
# dlopen()ed on first use
debuginfod_LIBS := -ldl
disassembler_FILES := symbol/disassembler base/err
disassembler_PKG := capstone
durable_file_LIBS := -lc
elf_FILES := $(addprefix symbol/,elf_program elf elf_note) base/err base/file_image
elf_PKG := libelf
frame_FILES := aggregate/frame aggregate/frame_stream base/err
frame_PKG := libzstd libmd
http_FILES := http/listener http/server base/err
http_PKG := libmicrohttpd
http_client_PKG := libcurl
nats_FILES := fleet/nats_client base/err
nats_BINDINGS := $(wildcard src/lua/fleet/lnats_*.c)
# Threads of libnats run to the end of the process: the module is never unloaded.
nats_LIBS = $(call pkg,--libs libnats) -Wl,-z,nodelete
pfm_FILES := event/pfm base/err
pfm_LIBS := -lpfm
seccomp_FILES := sandbox/seccomp_filter base/err
seccomp_PKG := libseccomp
service_FILES := fleet/service base/err
service_LIBS := -lc
symtab_FILES := $(addprefix symbol/,symtab elf elf_note demangle demangle_rust) \
	$(addprefix dwarf/,debug_info die source_line line_address location variable) \
	base/err base/file_image
# libstdc++ demangles C++ names; the tree has no C++ and needs no C++ compiler.
symtab_LIBS = $(call pkg,--libs libdw libelf liblzma) -l:libstdc++.so.6
zstd_FILES := perfdata/zstd base/err
zstd_PKG := libzstd
MODULES := $(filter-out $(LEAVE_OUT),$(ALL_MODULES))
own_files = $(filter-out src/base/% src/symbol/elf_note.c,$(sort $(foreach m,$(1),\
	$($(m)_FILES:%=src/%.c))))
OWN_C := $(call own_files,$(ALL_MODULES))
CORE_C := $(filter-out src/lua/% $(filter-out $(call own_files,$(MODULES)),$(OWN_C)),\
	$(sort $(wildcard src/*/*.c)))
libs_of = $(or $($(1)_LIBS),$(call pkg,--libs $($(1)_PKG)))
bindings_of = $(wildcard src/lua/*/l$(1).c) $($(1)_BINDINGS)
MODULE_C := $(foreach m,$(MODULES),$(call bindings_of,$(m)))
BIND_C := $(filter-out $(foreach m,$(ALL_MODULES),$(call bindings_of,$(m))),\
	$(sort $(wildcard src/lua/*.c src/lua/*/*.c)))
HEADERS := $(filter-out src/gen/% src/lua/%,$(wildcard src/*.h src/*/*.h))
LUA_FILES := $(sort $(shell find lua -name '*.lua'))
# Styles, pages, browser and shell scripts that a module writes into its output.
ASSETS := $(sort $(shell find lua -type f ! -name '*.lua'))
SCRIPTS := $(sort $(wildcard scripts/*.lua))
# Documented modules that a script loads by a require of their own.
TYPED_MODULES := sim tool
CORE_O = $(CORE_C:%.c=$(BUILD)/%.o)
BIND_O = $(BIND_C:%.c=$(BUILD)/%.o)
BASE_O = $(filter-out $(OWN_C:%.c=$(BUILD)/%.o),$(CORE_O))
MODULE_O = $(MODULE_C:%.c=$(BUILD)/%.o)
MODULE_SO = $(MODULES:%=$(BUILD)/perfev/%.so) $(BUILD)/perfev/core.so
PERFL_O = $(BUILD)/src/perfl.o $(BUILD)/src/perfl_child.o $(BUILD)/src/perfl_sink.o
MAIN_O = $(PERFL_O) $(BUILD)/spec/support/host.o

# Runs pkg-config once, on first use: `make check` on a fresh machine runs deps first.
once = $(eval $(1) := $(2))$($(1))
pkg = $(or $(shell $(PKG_CONFIG) $(1)),$(error $(PKG_CONFIG) $(1): nothing found, try: make deps))
cc-has = $(shell $(CC) -Werror $(1) -c -x c /dev/null -o /dev/null 2>/dev/null && echo '$(1)')
LUA_CFLAGS = $(call once,LUA_CFLAGS,$(call pkg,--cflags lua5.4))
LUA_LIBS = $(call once,LUA_LIBS,$(call pkg,--libs lua5.4))
# perfl is linked with the static Lua, as Debian's lua5.4 is, if there is an archive: calls into a
# shared object take a tenth of the time of a callback. Modules in C find Lua's symbols in perfl.
LUA_A = $(wildcard $(call pkg,--variable=libdir lua5.4)/$(patsubst -l%,lib%.a,$(filter -llua%,\
	$(LUA_LIBS))))
LUA_WITHIN = $(if $(LUA_A),-rdynamic $(LUA_A) $(filter-out -llua%,$(call pkg,--static --libs \
	lua5.4)),$(LUA_LIBS))
IF_KNOWN = $(call once,IF_KNOWN,$(foreach f,-fcf-protection -mbranch-protection=standard \
	-fstack-clash-protection -Wcast-align=strict,$(call cc-has,$(f))))
SANITIZE =
DIALECT = -std=gnu11 -Isrc -DPEV_VERSION='"$(VERSION)"'
# The result does not depend on the folder of the checkout.
ALL_CFLAGS = $(DIALECT) -ffile-prefix-map=$(CURDIR)=. -Wall -Wextra -Wshadow -Wformat=2 -Wvla \
	-Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wconversion \
	$(if $(WERROR),-Werror) -fPIC -fvisibility=hidden -fstack-protector-strong $(IF_KNOWN) \
	$(CFLAGS) $(SANITIZE)
ALL_LDFLAGS = -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code $(LDFLAGS) $(SANITIZE)

# Under sudo the owner of the checkout builds: their next make could not replace root's files.
ifdef SUDO_UID
CHECKOUT_UID := $(filter-out 0,$(shell stat -c %u .))
OWNER := $(if $(filter 0,$(shell id -u)),$(filter $(SUDO_UID),$(CHECKOUT_UID)))
endif
TYPES = $(addprefix $(BUILD)/types/,perfev.lua $(TYPED_MODULES:%=perfev/%.lua))
# A manual page for each script and each verb.
VERBS := $(shell grep -oE '[a-z]+ = "perfl\.' lua/perfl/main.lua | cut -d' ' -f1)
PAGES = $(SCRIPTS:scripts/%.lua=$(BUILD)/man/perfl-%.1) $(VERBS:%=$(BUILD)/man/perfl-%.1)
PRODUCTS = $(BUILD)/libperfev.a $(MODULE_SO) $(BUILD)/perfl $(TYPES) $(PAGES)
all: $(if $(OWNER),as-owner,$(PRODUCTS)) ## build everything (the default)

as-owner:
	@setpriv --reuid=$(OWNER) --regid=$(SUDO_GID) --init-groups $(MAKE) --no-print-directory all

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20; \
	printf '%s\n' '' 'with PREFIX= DESTDIR= BINDIR= LUADIR= LIBDIR= (where to),' \
		'     CC= AR= CFLAGS= LDFLAGS= BUILD= (how; another machine: doc/install.md),' \
		'     WERROR=1, V=1 (commands are shown), JOBS= (of specs)'

build-deps: PKGS = $(BUILD_PKGS)
guest-deps: PKGS = $(GUEST_PKGS)
vm-deps: PKGS = $(VM_PKGS)
deps: PKGS = $(BUILD_PKGS) $(CHECK_PKGS)
bench-peers: PKGS = linux-perf bpftrace libbpf-tools clang
deb-deps: PKGS = $(BUILD_PKGS) $(DEB_PKGS)
deps: ## install the missing Debian packages; prints nothing if all are there
build-deps deps guest-deps vm-deps bench-peers deb-deps:
	@missing=; for p in $(PKGS); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | \
		grep -q 'ok installed' || missing="$$missing $$p"; done; \
	[ -n "$$missing" ] || exit 0; echo "$@: installing$$missing"; \
	[ "$$(id -u)" = 0 ] || sudo=sudo; \
	apt="$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q"; \
	$$apt update && $$apt install -y --no-install-recommends $$missing
deps: browser-driver

# spec/live/page_spec.lua drives Chromium with it, or is skipped. Version 25 needs node 22.
PUPPETEER = puppeteer-core@24.43.1
browser-driver:
	@[ -d build/node/node_modules/puppeteer-core ] || ! command -v npm > /dev/null || \
		npm install --prefix build/node --no-save --no-audit --no-fund --ignore-scripts \
			--loglevel=error $(PUPPETEER) || \
		echo 'npm cannot install $(PUPPETEER): the specs of the page are skipped'

# Without root the demo uses sudo, as build-deps does for the packages.
demo: build-deps ## install packages, build, run three examples
	@$(MAKE) --no-print-directory all
	@make='$(MAKE) --no-print-directory demo-commands'; \
	if [ "$$(id -u)" = 0 ]; then $$make; \
	elif command -v sudo > /dev/null && sudo -v; then sudo $$make; \
	else $(BUILD)/perfl cswlog sleep 0.1 && printf '%s\n' 'this user may not use sudo:' \
		'the demo also counts system calls and watches whole CPUs, as root'; fi

demo-commands: tracefs
	$(BUILD)/perfl cswlog sleep 0.1
	$(BUILD)/perfl syscount find /usr/share/doc -name nothing
	$(BUILD)/perfl -a -d 5s -n 10 tpoint sched:sched_switch

# Estimates the duration from CPU minutes, the number of CPUs and their load.
CHECK_MINUTES = 38
check: $(if $(QUICK),check-quick,check-all) ## lint, all specs; QUICK=1: a part, under 3 minutes

check-all: deps ## build with -Werror, lint, run all specs, also under sanitizers
	@awk -v cpus=$(JOBS) '{ busy = $$1 / cpus; m = $(CHECK_MINUTES) / (cpus < 2 ? 1 : 2); \
		printf "make check takes about %.0f minutes on %d CPUs with a load of %s", \
			m * (1 + busy), cpus, $$1; \
		print "; make check QUICK=1 takes less than 3 on an idle machine" }' /proc/loadavg
	@rm -rf $(BUILD)/tally $(BUILD)/unsteady && mkdir -p $(BUILD)/tally
	@$(call run-steps,all test 'test-live lint test-nobody test-tsan fuzz' \
		'test-asan-live test-asan test-vm')

# Without sanitizers, clang-tidy, the longest specs and most live specs.
check-quick: deps
	@rm -rf $(BUILD)/tally $(BUILD)/unsteady && mkdir -p $(BUILD)/tally
	@echo 'the quick part of make check: no clang-tidy, no sanitizers, $(words $(QUICK_SPECS) \
		$(QUICK_LIVE_SPECS)) of $(words $(ALL_SPECS)) spec files'
	@$(call run-steps,all lint-quick test-quick)

# Targets of a step run beside each other: much of their time is waiting.
LANES = $(shell expr $(JOBS) + 1)
# Runs steps one after the other, each a list of targets; prints the unsteady files and the sum.
run-steps = for step in $(1); do echo "== $$step"; \
		tally=$(CURDIR)/$(BUILD)/tally/$${step\#\#* }; \
		TALLY=$$tally $(MAKE) -kj$(LANES) --no-print-directory WERROR=1 SECONDS=6 \
			$$step && continue; \
		echo "== $$step failed"; grep -qs ' [1-9][0-9]* failed' $$tally || \
			echo '0 passed, 1 failed, 0 skipped' >> $$tally; \
		[ "$$step" != all ] || break; done; \
	awk '/^unsteady: / { print; next } { p += $$1; f += $$3; s += $$5 } END { \
		print p+0 " passed, " f+0 " failed, " s+0 " skipped"; exit f > 0 }' $(BUILD)/tally/*

# Live specs run one after the other, because they share the kernel's probes and limits. They leave
# half of two cores idle, so other steps run beside them. The longest specs start first, so that the
# others end beside them.
ALL_SPECS := $(sort $(shell find spec -name '*_spec.lua'))
LIVE_SPECS := $(filter spec/live/%,$(ALL_SPECS))
spec_named = $(foreach n,$(1),$(filter %/$(n)_spec.lua,$(filter-out spec/live/%,$(ALL_SPECS))))
LONG_SPECS := $(call spec_named,out_of_memory damaged_files failing_calls record)
SPECS := $(LONG_SPECS) $(filter-out spec/live/% spec/vm/% spec/support/% %/reproducible_spec.lua \
	$(LONG_SPECS),$(ALL_SPECS))
FLEET_SPECS := $(filter spec/fleet/%,$(ALL_SPECS))
QUICK_LEFT_OUT := $(LONG_SPECS) \
	$(call spec_named,merge aggregator closed_objects install endurance) \
	$(call spec_named,merged_scripts merged_worlds pack_merge prove prove_mistakes sandbox) \
	$(filter-out $(call spec_named,config protocol gathering roster nats),$(FLEET_SPECS))
QUICK_SPECS := $(filter-out $(QUICK_LEFT_OUT),$(SPECS))
QUICK_LIVE_SPECS := $(patsubst %,spec/live/%_spec.lua,session fields verbs task)
SUITE := spec/support/suite.sh
JOBS := $(shell nproc)
test: all ## run the specs on the simulated kernel
	@JOBS=$(JOBS) $(SUITE) $(BUSTED) $(SPECS)

test-live: all tracefs ## run the specs on the real kernel
	@$(SUITE) $(BUSTED) $(LIVE_SPECS)

test-quick: all tracefs
	@rc=0; JOBS=$(JOBS) $(SUITE) $(BUSTED) $(QUICK_SPECS) || rc=1; \
	$(SUITE) $(BUSTED) $(QUICK_LIVE_SPECS) || rc=1; exit $$rc

# Runs in a copy that belongs to nobody, who may have no access to the home that has the tree.
# WERROR is that of the build: otherwise make in install_spec would rebuild during other specs.
as-nobody = setpriv --reuid=nobody --regid=$$(id -g nobody) --clear-groups env -i \
	HOME=/nonexistent PATH=/usr/local/bin:/usr/bin:/bin TALLY="$$d/tally" WERROR=$(WERROR) \
	UNSTEADY=build/unsteady/nobody
# Specs that depend on bytes and memory alone give the same result for every user.
SAME_FOR_ALL = $(call spec_named,coverage damaged_files reader closed_objects hostile_files \
	failing_calls input_files merge out_of_memory record writer payloads ring pipes \
	other_machines merged_scripts merged_worlds pack_merge page_history frame prove \
	prove_mistakes) \
	$(FLEET_SPECS)
test-nobody: all ## run the specs that need no rights as the user nobody
	@[ "$$(id -u)" = 0 ] || { echo 'not root: the specs ran without rights'; exit 0; }; \
	d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && mkdir "$$d/tree" && \
	tar -c $(patsubst %,--exclude=./%,.git build/asan build/fuzz build/vm build/node \
		$(SAME_FOR_ALL)) . | tar -xC "$$d/tree" && cd "$$d/tree" && \
	chown -R nobody "$$d" && chmod 755 "$$d" && \
	rc=0 && $(as-nobody) JOBS=$(JOBS) $(SUITE) $(BUSTED) \
		$(filter-out $(SAME_FOR_ALL),$(SPECS)) spec/live/unprivileged_spec.lua || rc=1; \
	[ ! -d build/unsteady ] || cp -R build/unsteady $(CURDIR)/build/; \
	[ -z "$$TALLY" ] || cat "$$d/tally" >> "$$TALLY"; exit $$rc

# These specs mostly run other programs (a shell, a browser, perf), or one script many times; other
# specs cover our code.
NOT_OURS := $(patsubst %,spec/live/%_spec.lua,docs explore flamegraph names page slow_causes) \
	$(call spec_named,merged_scripts completion prove prove_mistakes) \
	$(filter-out $(call spec_named,nats http_client),$(FLEET_SPECS))
ASAN_CFLAGS := -O1 -fno-omit-frame-pointer -U_FORTIFY_SOURCE -Wno-error
test-asan: all ## run the simulated specs under ASan and UBSan; a leak of ours is a failure
test-asan-live: all ## run the live specs under ASan and UBSan
in-asan = $(MAKE) --no-print-directory BUILD=build/asan \
	SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=all $(ASAN_CFLAGS)'
test-asan test-asan-live: asan-build
	@+$(in-asan) $(@:test-%=%-specs)

asan-build: all
	@+$(in-asan) asan-products

ASAN_SPECS = asan-specs asan-live-specs
$(ASAN_SPECS): export ASAN_OPTIONS ?= detect_stack_use_after_return=1:strict_string_checks=1
$(ASAN_SPECS): export UBSAN_OPTIONS ?= print_stacktrace=1
# LeakSanitizer sometimes crashes on the thread-local storage of libraries loaded late (libstdc++):
# skip that storage, and print no suppressions on standard error.
$(ASAN_SPECS): export LSAN_OPTIONS ?= \
	use_tls=0:print_suppressions=0:suppressions=$(CURDIR)/spec/support/leaks.supp
$(ASAN_SPECS): export PERFL = $(BUILD)/perfl
$(ASAN_SPECS): export UNSTEADY = build/unsteady/asan
ASAN_RUN = $(BUILD)/host $$(command -v $(BUSTED)) --ignore-lua
asan-products: $(BUILD)/perfl $(BUILD)/host $(MODULES:%=$(BUILD)/perfev/%.so)

asan-specs: asan-products
	@JOBS=$(JOBS) $(SUITE) "$(ASAN_RUN)" $(filter-out $(NOT_OURS),$(SPECS))

asan-live-specs: asan-products tracefs
	@$(SUITE) "$(ASAN_RUN)" $(filter-out $(NOT_OURS),$(LIVE_SPECS))

# The threads that read a recording or rings.
TSAN_CFLAGS := -O1 -U_FORTIFY_SOURCE -Wno-error
test-tsan: all ## run the specs of threads with a perfl under ThreadSanitizer
	@$(MAKE) --no-print-directory build/tsan/perfl BUILD=build/tsan \
		SANITIZE='-fsanitize=thread $(TSAN_CFLAGS)'
	@export PERFL=build/tsan/perfl UNSTEADY=build/unsteady/tsan; \
	JOBS=$(JOBS) $(SUITE) $(BUSTED) $(call spec_named,unordered read_ahead) \
		spec/live/readers_spec.lua

SECONDS = 60
FUZZ := $(patsubst spec/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard spec/fuzz/*.c))
fuzz-targets: $(FUZZ) $(BUILD)/fuzz/seeds
fuzz: fuzz-targets ## fuzz the readers of foreign bytes, SECONDS= for each target
	@printf '%s\n' $(notdir $(FUZZ)) | xargs -P $(JOBS) -I{} sh -c 'd=$(BUILD)/fuzz; \
		mkdir -p $$d/corpus/{}; if $$d/{} -max_total_time=$(SECONDS) -max_len=8192 \
			-timeout=10 -artifact_prefix=$$d/ $$d/corpus/{} $$d/seeds/{} \
			> $$d/{}.log 2>&1; \
		then echo "fuzz {}: $$(tail -1 $$d/{}.log)"; else tail -40 $$d/{}.log; exit 1; fi'

# Made from recorded bytes, from the formats of this kernel, and from formats in the tree.
$(BUILD)/fuzz/seeds: spec/fuzz/seeds.lua spec/support/kernel_formats.lua \
		$(BUILD)/perfev/core.so $(BUILD)/perfev/frame.so $(wildcard spec/fixtures/vectors/*)
	@mkdir -p $(@D) && rm -rf $@ && cp -r spec/fuzz/seeds $@
	@$(LUA) -e 'package.cpath = "$(BUILD)/?.so;" .. package.cpath' $< $@

# Other kernels, under QEMU. KERNEL= names one of spec/vm/vm.sh; without it, all.
KERNEL =
vm: all vm-deps ## run the live specs on other kernels; KERNEL=amd64-6.1: on one
	@$(MAKE) --no-print-directory static && spec/vm/vm.sh $(KERNEL)

# A part of vm, on two kernels. A mirror that does not answer is no failure.
test-vm: all
	@if $(MAKE) --no-print-directory guest-deps > $(BUILD)/guest-deps.log 2>&1; \
	then $(MAKE) --no-print-directory static && spec/vm/vm.sh -l amd64-6.1 arm64-6.1; \
	else echo 'skipped: QEMU cannot be installed:'; tail -n 3 $(BUILD)/guest-deps.log; \
		echo '0 passed, 0 failed, 1 skipped' | tee -a $${TALLY:-/dev/null}; fi

# Ratios, side by side in one run; recordings are made once. RUNS= of each row, PARTS= of
# bench/rows, BASE= an older checkout whose perfl runs beside this one's.
RECORDS = 1000000
RUNS = 3
BASE =
BENCH = $(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard bench/*.c))
bench: build-deps tracefs ## measure perfev, perf, bpftrace, bcc and minimal C
	@$(MAKE) --no-print-directory bench-peers || echo "bench: its rows say what is missing"
	@$(MAKE) --no-print-directory all $(BENCH)
	@$(if $(BASE),$(MAKE) --no-print-directory -C $(BASE) BUILD=build all)
	@$(LUA) bench/run.lua $(BUILD) $(RECORDS) $(RUNS) '$(BASE)' $(PARTS)

# The spec files that have a long form: those that read PROOFS from the environment.
PROOF_SPECS = $(shell grep -l 'getenv.*PROOFS' $(ALL_SPECS))
proofs: deps all tracefs ## run the long proofs: planted causes, budgets under load, seeded mistakes
	@PROOFS=long $(SUITE) $(BUSTED) $(PROOF_SPECS)

# DuckDB runs the recipes of doc/fleet-history.md; it is large, so `make check` does without.
FLEET_SPECS := $(wildcard spec/fleet/*_spec.lua)
fleet: deps all fleet-deps ## simulate many hosts: the long forms of spec/fleet, and measurements
	@rc=0; FLEET=long $(SUITE) $(BUSTED) $(FLEET_SPECS) || rc=1; \
	$(LUA) bench/fleet.lua || rc=1; exit $$rc

DUCKDB = $(BUILD)/duckdb/node_modules/@duckdb/node-api
fleet-deps:
	@[ -d $(DUCKDB) ] || ! command -v npm > /dev/null || npm install --silent --no-audit \
		--no-fund --prefix $(BUILD)/duckdb @duckdb/node-api || \
		echo 'DuckDB cannot be installed: its specs are skipped'

$(BUILD)/bench/%: bench/%.c $(BUILD)/libperfev.a
	@mkdir -p $(@D) && echo "  CC   $<"
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libperfev.a

tracefs:
	@d=/sys/kernel/tracing; [ "$$(id -u)" = 0 -a -d $$d ] && ! mountpoint -q $$d || exit 0; \
	echo "mounting tracefs on $$d, and leaving it there"; mount -t tracefs tracefs $$d || :

# .clang-format says which decisions are left to authors.
# readdirCalled: glibc's readdir() is safe on one's own stream, and readdir_r() deprecated.
C_FILES = $(wildcard src/*.[ch] src/*/*.[ch] src/lua/*/*.[ch] spec/support/*.[ch] \
	spec/support/*/*.[ch] spec/fuzz/*.[ch] bench/*.c doc/*.c)
JS_FILES = $(filter %.js,$(ASSETS))
JOIN = sed -Ez 's/([^ \t\n])[ \t]+/\1 /g; s/(,|\?| :)\n[ \t]*/\1 /g; s/"\n[ \t]*"/" "/g'
# States of a function that clang-tidy's analyzer explores. Its default, 225000, takes four times as
# long for the whole tree.
TIDY_NODES = 50000
lint: $(BUILD)/flags ## run luacheck, eslint, clang-format, cppcheck, clang-tidy
	@rc=0; $(lint-quick); \
	printf '%s\n' $(filter %.c,$(C_FILES)) | nice xargs -P2 -I{} clang-tidy --quiet {} -- \
		$(DIALECT) $(LUA_CFLAGS) -Xclang -analyzer-config -Xclang max-nodes=$(TIDY_NODES) \
		> $(BUILD)/tidy.log 2>&1 || rc=1; \
	grep -v 'warnings* generated\.$$' $(BUILD)/tidy.log; exit $$rc

lint-quick: $(BUILD)/flags
	@rc=0; $(lint-quick); exit $$rc

# Node from elsewhere needs NODE_PATH for the modules of Debian's eslint; `-f unix` needs no
# further package. eslint 9 does not read .eslintrc.json.
lint-js = if ! command -v node > /dev/null; then \
		echo 'skipped: JavaScript is not checked: node is not installed (try: make deps)'; \
	else case $$(NODE_PATH=/usr/share/nodejs eslint --version 2>&1) in \
		v[678].*) NODE_PATH=/usr/share/nodejs eslint -f unix $(JS_FILES);; \
		*) echo 'skipped: eslint 6 to 8 is not installed (try: make deps)'; \
			echo 'node checks the syntax of JavaScript'; \
			for f in $(JS_FILES); do node --check $$f || exit 1; done;; esac; fi

lint-quick = luacheck -q lua scripts spec bench src rockspec/*.rockspec .busted || rc=1; \
	($(lint-js)) || rc=1; \
	for f in $(C_FILES); do clang-format $$f | $(JOIN) > $(BUILD)/tidied; $(JOIN) $$f | \
		diff -u --label $$f --label formatted - $(BUILD)/tidied || rc=1; done; \
	nice cppcheck -q -j2 --std=c11 --enable=warning,portability --inline-suppr \
		--error-exitcode=1 --suppress=readdirCalled -Isrc --library=posix \
		$(filter %.c,$(C_FILES)) || rc=1

# mode:from:to
INSTALLED = 755:$(BUILD)/perfl:$(BINDIR)/perfl \
	$(foreach m,core $(MODULES),644:$(BUILD)/perfev/$(m).so:$(LIBDIR)/perfev/$(m).so) \
	$(foreach f,$(filter lua/perfev/%,$(LUA_FILES) $(ASSETS)),644:$(f):$(LUADIR)/$(f:lua/%=%)) \
	$(foreach f,$(shell find scripts -name '*.lua'),644:$(f):$(LUADIR)/perfev/$(f)) \
	$(foreach f,$(TYPES),644:$(f):$(f:$(BUILD)/%=$(LUADIR)/perfev/%)) \
	$(foreach f,$(HEADERS),644:$(f):$(f:src/%=$(INCDIR)/perfev/%)) \
	644:$(BUILD)/libperfev.a:$(CLIBDIR)/libperfev.a \
	644:$(BUILD)/perfev.pc:$(CLIBDIR)/pkgconfig/perfev.pc \
	$(foreach f,doc/perfl.1 $(PAGES),644:$(f):$(MANDIR)/man1/$(notdir $(f))) \
	$(foreach f,$(filter-out doc/perfl.1 doc/api doc/fleet,$(wildcard *.md LICENSE doc/* \
		doc/api/* doc/fleet/*)), \
		644:$(f):$(DOCDIR)/perfev/$(f))

# Libraries that only some programs need: pkg-config --static.
PC_LIBS = -ldw -lelf -llzma -lzstd -lmd -lpfm -lcapstone -lmicrohttpd -lseccomp -lnats \
	-l:libstdc++.so.6 -ldl

install: all ## install into $(DESTDIR)$(PREFIX), by default /usr/local
	@printf '%s\n' 'Name: perfev' 'Description: scripting over perf_event_open(2)' \
		'Version: $(VERSION)' 'Cflags: -I$(INCDIR)/perfev' 'Libs: -L$(CLIBDIR) -lperfev' \
		'Libs.private: $(PC_LIBS)' > $(BUILD)/perfev.pc
	@for f in $(INSTALLED); do IFS=:; set -- $$f; \
		install -D -m "$$1" "$$2" "$(DESTDIR)$$3" || exit 1; done

uninstall: ## remove the installed files
	@for f in $(INSTALLED); do rm -f "$(DESTDIR)$${f##*:}"; done
	@for d in $(LUADIR) $(LIBDIR) $(INCDIR) $(DOCDIR); do d="$(DESTDIR)$$d/perfev"; \
		[ ! -d "$$d" ] || find "$$d" -depth -type d -empty -delete; done

# debian/rules builds in build/debian.
deb: deb-deps ## build Debian's packages in build/deb and check them with lintian
	@rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb
	@DEB_TO=$(BUILD)/deb DEB_RULES_REQUIRES_ROOT=no debian/rules clean binary \
		> $(BUILD)/deb/log 2>&1 || { tail -n 30 $(BUILD)/deb/log; exit 1; }
	@lintian --fail-on error,warning $(BUILD)/deb/*.deb 2> $(BUILD)/deb/lintian.log || \
		{ cat $(BUILD)/deb/lintian.log; exit 1; }
	@ls $(BUILD)/deb/*.deb

# In a fresh Debian 12, which debootstrap makes in build/deb-root.
deb-test: deb ## install the packages in a fresh root; compare a build in another folder
	@debian/tests/fresh-root $(BUILD)
	@$(SUITE) $(BUSTED) spec/tree/reproducible_spec.lua

clean: ## remove build/
	rm -rf build

# Includes the bindings if foreign bytes pass through them.
# spec/fuzz/oss-fuzz/build.sh sets these three.
FUZZ_CC = clang
FUZZ_CFLAGS = -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
FUZZ_ENGINE = -fsanitize=fuzzer
FUZZ_O = $(CORE_C:%.c=$(BUILD)/fuzz/%.o)
FUZZ_BIND_O = $(BIND_C:%.c=$(BUILD)/fuzz/%.o)
FUZZ_LUA = $(addprefix $(BUILD)/fuzz/,decoder frame)
$(FUZZ_BIND_O) $(FUZZ_LUA): INCLUDE = $(LUA_CFLAGS)
$(FUZZ_O) $(FUZZ_BIND_O): $(BUILD)/fuzz/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(DIALECT) $(FUZZ_CFLAGS) $(INCLUDE) -c -o $@ $<
$(FUZZ_LUA): FUZZ_LIBS = $(LUA_LIBS)
$(FUZZ_LUA): $(FUZZ_BIND_O)
$(FUZZ): $(BUILD)/fuzz/%: spec/fuzz/%.c $(wildcard spec/fuzz/*.h) $(FUZZ_O)
	@echo "  FUZZ $@"
	$(Q)$(FUZZ_CC) $(DIALECT) $(FUZZ_CFLAGS) $(FUZZ_ENGINE) $(INCLUDE) -o $@ \
		$(filter-out %.h,$^) $(FUZZ_LIBS) $(foreach m,$(MODULES),$(call libs_of,$(m)))

$(BUILD)/libperfev.a: $(CORE_O)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/perfev/core.so: $(BASE_O) $(BIND_O)
	@mkdir -p $(@D) && echo "  LD   $@"
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^

define module
$(BUILD)/perfev/$(1).so: $(patsubst %.c,$(BUILD)/%.o,$(call bindings_of,$(1))) \
		$($(1)_FILES:%=$(BUILD)/src/%.o)
	@mkdir -p $$(@D) && echo "  LD   $$@"
	$$(Q)$$(CC) -shared $$(ALL_LDFLAGS) -o $$@ $$^ $$(call libs_of,$(1))
endef
$(foreach m,$(MODULES),$(eval $(call module,$(m))))

$(BUILD)/perfl: $(PERFL_O) $(BUILD)/embed.o $(BASE_O) $(BIND_O)
$(BUILD)/host: $(BUILD)/spec/support/host.o $(BASE_O) $(BIND_O)
$(BUILD)/perfl $(BUILD)/host:
	@echo "  LD   $@"
	$(Q)$(CC) -pie $(ALL_LDFLAGS) -o $@ $^ $(LUA_WITHIN)

# One file for machines without packages. It cannot load modules in C.
# The tables of libcapstone would double its size; libmicrohttpd needs all of GnuTLS; libnats has no
# static archive in Debian.
NOT_STATIC = %disassembler.o $(addprefix $(BUILD)/src/,http/% lua/http/% fleet/% lua/fleet/%)
STATIC_O = $(filter-out $(NOT_STATIC),$(CORE_O) $(MODULE_O)) $(PERFL_O) $(BIND_O) \
	$(BUILD)/embed.o
STATIC_LIBS = $(call pkg,--static --libs lua5.4 libdw libelf liblzma libzstd libmd \
	libseccomp) \
	-lpfm -l:libstdc++.a -lm
static: $(BUILD)/static/perfl ## build perfl as one static file with its scripts
	@wc -c $<

$(BUILD)/static/perfl: $(STATIC_O)
	@mkdir -p $(@D) && echo "  LD   $@"
	$(Q)$(CC) -static -s -Wl,--trace $(ALL_LDFLAGS) -o $@ $^ $(STATIC_LIBS) \
		> $(@D)/linked 2> $@.log || { cat $@.log; exit 1; }

sbom: $(BUILD)/static/perfl.spdx.json ## write the bill of materials of the static file (SPDX)
	@ls $<

$(BUILD)/static/perfl.spdx.json: src/gen/sbom.lua $(BUILD)/static/perfl
	@$(LUA) $< $(VERSION) $(BUILD)/static/perfl $(BUILD)/static/linked > $@.new && mv $@.new $@

# The core is compiled without the path of the Lua headers.
$(BIND_O) $(MODULE_O) $(MAIN_O): INCLUDE = $(LUA_CFLAGS)
$(CORE_O) $(BIND_O) $(MODULE_O) $(MAIN_O): $(BUILD)/%.o: %.c
$(BUILD)/embed.o: %.o: %.c
$(CORE_O) $(BIND_O) $(MODULE_O) $(MAIN_O) $(BUILD)/embed.o: $(BUILD)/flags
	@mkdir -p $(@D) && echo "  CC   $(filter %.c,$^)"
	$(Q)$(CC) $(ALL_CFLAGS) $(INCLUDE) -MMD -MP -c -o $@ $(filter %.c,$^)

# The folders are prerequisites so that a removed file disappears from perfl.
$(BUILD)/embed.c: src/gen/embed.lua $(LUA_FILES) $(ASSETS) $(sort $(dir $(LUA_FILES))) \
		$(SCRIPTS) scripts $(BUILD)/topics.lua
	@mkdir -p $(@D) && echo "  GEN  $@"
	$(Q)$(LUA) $< $(LUA_FILES) $(ASSETS) $(SCRIPTS) module:argparse \
		perfl/help/topics=$(BUILD)/topics.lua > $@.new && mv $@.new $@

# What perfl help prints about topics and records.
$(BUILD)/topics.lua: src/gen/topics.lua lua/perfl/help/plain.lua $(wildcard doc/*.md doc/api/*.md)
	@mkdir -p $(@D) && echo "  GEN  $@"
	$(Q)$(LUA) $< $(filter %.md,$^) > $@.new && mv $@.new $@

# The declarations of a script are in its text, in perfev.tool and in perfl. A perfl for another
# machine cannot print its pages: then one for this machine is built, or NATIVE_PERFL= names it.
NATIVE_PERFL = $(BUILD)/native-perfl
NATIVE = env -u PKG_CONFIG_SYSROOT_DIR -u PKG_CONFIG_LIBDIR $(MAKE) --no-print-directory \
	BUILD=$(BUILD)/native CC=gcc AR=ar PKG_CONFIG=pkg-config CFLAGS=-O1 LDFLAGS=
$(BUILD)/native-perfl: | $(BUILD)/perfl
	@if $(BUILD)/perfl --version > /dev/null 2>&1; then ln -sf perfl $@; else \
		$(NATIVE) $(BUILD)/native/perfl && ln -sf native/perfl $@; fi
$(PAGES): $(BUILD)/man/perfl-%.1: $(SCRIPTS) $(LUA_FILES) | $(NATIVE_PERFL)
	@mkdir -p $(@D)
	$(Q)$(NATIVE_PERFL) help --man $* > $@.new && mv $@.new $@

# The interface for editors.
$(BUILD)/types/perfev.lua: src/gen/types.lua src/gen/signatures.lua $(wildcard doc/api/*.md) \
		doc/testing.md doc/reference.md $(wildcard lua/perfev/option_tables/*.lua)
	@mkdir -p $(@D) && echo "  GEN  $@"
	$(Q)$(LUA) $< $(filter %.md,$^) > $@.new && mv $@.new $@
$(BUILD)/types/perfev/%.lua: src/gen/types.lua src/gen/signatures.lua
	@mkdir -p $(@D) && echo "  GEN  $@"
	$(Q)$(LUA) $< module perfev.$* > $@.new && mv $@.new $@

# Files of the tree that a program in src/gen writes; spec/tree/generated_spec.lua compares them.
GENERATED := errors:doc/errors.md reference:doc/reference.md \
	syscall_numbers:lua/perfev/tracepoint/syscall_numbers.lua
generated: all ## write the generated files of the tree anew
	@export LUA_CPATH='$(BUILD)/?.so' LUA_PATH='lua/?.lua;lua/?/init.lua;./?.lua'; \
	for f in $(GENERATED); do $(LUA) src/gen/$${f%%:*}.lua > $(BUILD)/generated && \
		{ cmp -s $(BUILD)/generated $${f#*:} || cp $(BUILD)/generated $${f#*:}; } || \
		exit 1; done

# Changed flags rebuild everything.
$(BUILD)/flags: export flags = $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo "$$flags" | cmp -s - $@ || echo "$$flags" > $@

FORCE:
.PHONY: FORCE generated all as-owner static help deps build-deps guest-deps vm-deps \
	bench-peers demo demo-commands check check-all check-quick test test-quick test-live \
	test-nobody test-asan test-asan-live test-tsan test-vm vm $(ASAN_SPECS) asan-build \
	asan-products fuzz bench proofs fleet fleet-deps tracefs lint lint-quick install uninstall \
	deb deb-deps deb-test sbom clean fuzz-targets
-include $(wildcard $(addprefix $(BUILD)/,*.d src/*.d src/*/*.d src/lua/*/*.d spec/support/*.d))
