-- Names against perf's own: on one recording of each kind of program, frame by frame, and live.

local core = require "perfev.core"
local meets = require "spec.support.meets"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"
local symtab = require "perfev.symtab"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- A chain of frame pointers is complete if every function keeps one; leaf functions keep one only at -O0.
local FLAGS = "-O0 -g"
local cc = os.getenv "CC" or "gcc"

local function sh(command)
  local r = run(("cd %s && %s"):format(dir, command))
  assert.equal(0, r.code, r.err)
end

local function source(name) return run.capture("pwd") .. "/spec/support/" .. name end

local built = {}
local function build(name, command)
  if not built[name] then sh(command) end
  built[name] = true
  return dir .. "/" .. name
end

local function hot(name, more)
  return build(name or "hot", ("%s %s -o %s %s %s"):format(cc, FLAGS, name or "hot", source "hot.c", more or "-ldl"))
end
local function library()
  return build("lib.so", ("%s %s -shared -fPIC -o lib.so %s"):format(cc, FLAGS, source "hotlib.c"))
end

local function record(...)
  local path = dir .. "/perf.data"
  local command = { "perf", "record", "-q", "-F", "999", "-e", "cpu-clock", "-g", "-o", path, "--", ... }
  local r = run(command)
  assert.equal(0, r.code, r.err)
  return path
end

-- The stacks of perf script: "tid time" -> { { ip, name } ... }
local function told_by_perf(path)
  local text = run({ "perf", "script", "-i", path, "-F", "tid,time,ip,sym", "--ns" }).out
  local samples, chain = {}, nil
  for line in text:gmatch "[^\n]+" do
    local tid, sec, ns = line:match "^%s*(%d+)%s+(%d+)%.(%d+):"
    local ip, name = line:match "^%s*(%x+) (.*)$"
    if tid then
      chain = {}
      samples[tid .. " " .. tonumber(sec .. ns)] = chain
    elseif ip then
      chain[#chain + 1] = { math.tointeger(tonumber(ip, 16)) or tonumber(ip, 16), name }
    end
  end
  return samples
end

-- Two names of one address of the kernel are the same function: either may come first.
local symbols
local function is_alias(frame, name)
  if not frame.kernel or not frame.symbol then return false end
  symbols = symbols or assert(core.kallsyms())
  local at = symbols:address(name)
  return at ~= nil and at == symbols:address(frame.symbol)
end

-- perf leaves out which clone of a function it is.
local function is_same(frame, name, other)
  return name == other or name:gsub(" %[clone .*", "") == other or other ~= nil and is_alias(frame, other)
end

-- Adds the frames of a recording to the totals: all frames, those with perf's name, and the others; seen has the
-- names, with "kernel" for each kernel function.
local function compare(path, all)
  local theirs = told_by_perf(path)
  local rec <close> = assert(perfev.open(path))
  for r in rec:records { user = false } do
    local chain = r.type == "sample" and theirs[r.tid .. " " .. r.time] or {}
    if r.type == "sample" then all.pids[r.pid] = true end
    for i, frame in ipairs(r.type == "sample" and r.stack:frames() or {}) do
      local name, other = frame.symbol or "[unknown]", chain[i] and chain[i][2]
      all.n, all.seen[frame.kernel and frame.symbol and "kernel" or name] = all.n + 1, true
      if is_same(frame, name, other) then
        all.same = all.same + 1
      else
        table.insert(all.others, ("%s, perf: %s (%s)"):format(name, other, frame.module))
      end
    end
  end
end

-- Records program TIMES MORE... -> processes
local function agrees(names, program, times, ...)
  local all, more = { n = 0, same = 0, others = {}, seen = {}, pids = {} }, { ... }
  table.insert(names, "100 frames")
  meets(names, times, function(n)
    compare(record(program, tostring(n), table.unpack(more)), all)
    all.seen["100 frames"] = all.n > 100
    return all.seen
  end)
  assert.is_true(all.same >= 0.995 * all.n, ("%d of %d\n%s"):format(all.same, all.n, table.concat(all.others, "\n")))
  return all.pids
end

describe("names are the same as perf's, frame by frame,", function()
  it("of a program, the library that it loads and the kernel", function()
    requires("perf", "root", "cc")
    agrees({ "spin", "leaf", "middle", "main", "lib_inner", "lib_work", "kernel" }, hot(), 100, library())
  end)

  it("of a stripped program with its debug file beside it", function()
    requires("perf", "root", "cc", "program objcopy")
    hot()
    build("stripped", "cp hot stripped && objcopy --only-keep-debug stripped stripped.debug && strip stripped"
      .. " && objcopy --add-gnu-debuglink=stripped.debug stripped")
    agrees({ "spin", "leaf", "middle" }, dir .. "/stripped", 100)
  end)

  it("of a static program that is loaded at any address", function()
    requires("perf", "root", "cc")
    agrees({ "spin", "leaf", "middle", "main" }, hot("pie", "-static-pie"), 100)
  end)

  it("of C++: templates, operators, lambdas, hidden names", function()
    requires("perf", "root", "program g++")
    local path = build("cxx", ("g++ %s -o cxx %s"):format(FLAGS, source "hot.cc"))
    agrees({ "ns::Box<long>::sum", "ns::Box<long>::operator()", "ns::(anonymous namespace)::hidden", "ns::go", "main" },
      path, 10)
  end)

  it("of C++ that is optimised: inlined functions and clones", function()
    requires("perf", "root", "program g++")
    local path = build("cxx2", ("g++ -O2 -g -fno-omit-frame-pointer -o cxx2 %s"):format(source "hot.cc"))
    agrees({ "ns::Box<long>::sum" }, path, 300)
  end)

  it("of Rust, mangled in both schemes", function()
    requires("perf", "root", "program rustc")
    local flags = "rustc -g -C opt-level=1 -C force-frame-pointers=yes "
    for name, more in pairs { rust = "", rust_v0 = "-C symbol-mangling-version=v0" } do
      local path = build(name, ("%s %s -o %s %s"):format(flags, more, name, source "hot.rs"))
      agrees({ "hot::spin", "hot::main" }, path, 1000)
    end
  end)

  it("of Go", function()
    requires("perf", "root", "program go")
    local path = build("gohot", ("HOME=$PWD GOCACHE=$PWD/cache go build -o gohot %s"):format(source "hot.go"))
    agrees({ "main.spin", "main.main", "runtime.main" }, path, 300)
  end)

  it("of code that was generated in memory", function()
    requires("perf", "root", "cc")
    if core.machine ~= "x86_64" then pending("the code is x86's") end
    for pid in pairs(agrees({ "made in memory" }, hot(), 300, "jit")) do os.remove(("/tmp/perf-%d.map"):format(pid)) end
  end)
end)

describe("an address", function()
  it("in the linkage table has its function's name, as in objdump", function()
    requires("cc", "program objdump")
    for _, flags in ipairs { "-fcf-protection=none", "-fcf-protection=full", "-no-pie" } do
      local name = "plt" .. flags:gsub("%W", "_")
      local path = hot(name, "-ldl -Wl,-z,lazy " .. flags)
      local file, n = assert(symtab.read(assert(core.slurp(path)))), 0
      -- If two sections have PLT entries, the second is called: .plt.sec.
      local text = run({ "objdump", "-d", "-j", ".plt.sec", path }).out
      if not text:find("@plt", 1, true) then
        text = run({ "objdump", "-d", "-j", ".plt", path }).out
      end
      for address, theirs in text:gmatch "\n(%x+) <([^>]+@plt)>:" do
        assert.equal(theirs, (file:find(tonumber(address, 16) + 4)))
        n = n + 1
      end
      assert.is_true(n >= 5, flags .. ": " .. n)
    end
  end)

  it("in the linkage table of a C++ program has the name of the stub, with @plt", function()
    requires("program g++", "program objdump")
    sh [[printf 'namespace ns { int twice(int n) { return 2 * n; } }' | g++ -x c++ -shared -fPIC -o libtwice.so - &&
      printf 'namespace ns { int twice(int); } int main() { return ns::twice(0); }' | g++ -x c++ -o stub - \
        -Wl,-z,lazy -L. -ltwice]]
    local path, stubs = dir .. "/stub", {}
    local file = assert(symtab.read(assert(core.slurp(path))))
    for address, mangled in run({ "objdump", "-d", path }).out:gmatch "\n(%x+) <(_Z[^>]+)@plt>:" do
      stubs[mangled] = symtab.demangle((file:find(tonumber(address, 16) + 4)))
    end
    assert.same({ _ZN2ns5twiceEi = "ns::twice@plt" }, stubs)
  end)

  it("in the C library's linkage table, too, where most functions are chosen at its start",
    function()
      requires("program objdump")
      local path = core.slurp "/proc/self/maps":match "r.xp [^\n]-(/[^\n]*/libc%.so%.6)\n"
      if not path then pending "no glibc is mapped here" end
      local file, same, chosen = assert(symtab.read(assert(core.slurp(path)))), 0, 0
      local text = run({ "objdump", "-d", "-j", ".plt", "-j", ".plt.sec", path }).out
      for address, theirs in text:gmatch "\n(%x+) <([^>]+@plt)>:" do
        local ours = file:find(tonumber(address, 16) + 4)
        if theirs:find("*ABS*", 1, true) then -- named after its resolver, if that has a name
          local name = file:find(tonumber(theirs:match "0x(%x+)", 16))
          assert.equal((name or theirs:match "^[^@]+") .. "@plt", ours)
          chosen = chosen + 1
        else
          assert.equal(theirs, ours)
          same = same + 1
        end
      end
      assert.is_true(same > 0 and chosen > 0, ("%d, %d"):format(same, chosen))
    end)

  it("behind a section's end does not belong to a symbol without size in the section", function()
    requires("cc", "program objdump")
    local path = hot("plt_head", "-ldl -Wl,-z,lazy")
    local file = assert(symtab.read(assert(core.slurp(path))))
    local start = run({ "objdump", "-h", "-j", ".init", path }).out:match "%.init +%x+ +(%x+)"
    local head = run({ "objdump", "-h", "-j", ".plt", path }).out:match "%.plt +%x+ +(%x+)"
    assert.equal("_init", (file:find(tonumber(start, 16))))
    assert.is_nil((file:find(tonumber(head, 16))))
  end)

  it("in the vdso has the name of a vdso function", function()
    requires("perf")
    local start = core.slurp "/proc/self/maps":match "\n(%x+)%-%x+ r.xp [^\n]*%[vdso%]\n"
    if not start then pending "no vdso is mapped here" end
    local bytes, n = symtab.vdso(), 0
    for address, name in run({ "sh", "-c", "cat > vdso.so && nm -D --defined-only vdso.so; rm -f vdso.so" },
      { stdin = bytes, cwd = dir }).out:gmatch "(%x+) [TWti] ([%w_]+)" do
      local found, offset, file = perfev.symbol.process(core.pid(), tonumber(start, 16) + tonumber(address, 16) + 1)
      assert.same({ 1, "[vdso]" }, { offset, file })
      assert.equal(name:gsub("^_*vdso_", ""):gsub("^_+", ""), (found:gsub("^_*vdso_", ""):gsub("^_+", "")))
      n = n + 1
    end
    assert.is_true(n > 1, n)
  end)

  it("in the vdso has a name in a recording without its build-id, if its kernel runs here", function()
    requires("perf")
    local start, stop = core.slurp "/proc/self/maps":match "\n(%x+)%-(%x+) r.xp [^\n]*%[vdso%]\n"
    if not start then pending "no vdso is mapped here" end
    start, stop = tonumber(start, 16), tonumber(stop, 16)
    local at = start
    while not perfev.symbol.process(core.pid(), at) do at = at + 16 end
    local function named(release)
      local b = perfdata.new { events = { { ids = { 1 }, name = "cpu-clock", attr = { type = 1, sample_period = 1,
        mmap2 = true, sample_id_all = true, sample_type = { "identifier", "ip", "tid", "time" } } } } }
      local who = { identifier = 1, pid = 7, tid = 7, time = 1000 }
      b:add { type = "mmap2", misc = 2, pid = 7, tid = 7, addr = start, len = stop - start, prot = 5,
              filename = "[vdso]", sample_id = who }
      b:add { type = "sample", misc = 2, identifier = 1, pid = 7, tid = 7, time = 2000, ip = at }
      local path = dir .. "/vdso.data"
      run.write_file(path, b:file { [4] = b:string(release), [12] = b:event_desc() })
      local rec <close>, name = assert(perfev.open(path)), nil
      for r in rec:records { user = false } do name = r.type == "sample" and r.symbol or nil end
      return name
    end
    assert.equal(perfev.symbol.process(core.pid(), at), named(core.slurp("/proc/sys/kernel/osrelease"):match "%S+"))
    assert.is_nil(named "6.0.0-another")
  end)

  it("in the vdso has rules to unwind stacks", function()
    requires("perf")
    if not symtab.vdso() then pending "no vdso is mapped here" end
    local raw = { ip = 0, offset = 0, path = "[vdso]", pid = core.pid(), context = "user", returns = false }
    assert.is_userdata(require("perfev.symbol")._here():cfi(raw))
  end)
end)

describe("a live session", function()
  -- Returns the set of functions at the top in command(times), with "kernel" for each kernel function.
  local function tops(command)
    return function(times)
      local s, seen = perfev.session { command = command(tostring(times)) }, {}
      s:event { "cpu-clock", freq = 999, callchain = true, sample = function(r)
        local top = r.stack[1]
        if top and top.symbol then seen[top.kernel and "kernel" or top.symbol] = true end
        if r.cpumode == "user" then assert.equal(r.symbol, r.stack[1].symbol) end
      end }
      assert(s:run())
      return seen
    end
  end

  it("names functions in programs, libraries and the kernel", function()
    requires("perf", "root", "cc")
    meets({ "spin", "lib_inner", "kernel" }, 50, tops(function(times) return { hot(), times, library() } end))
  end)

  it("keeps the stacks of an ended program, for an event that is opened when it begins", function()
    requires("perf", "root", "cc")
    local path, stacks = hot(), {}
    local s = perfev.session { command = { path, "3" } }
    s:event { ("mem:%s:rounds:w"):format(path), callchain = true,
              sample = function(r) stacks[#stacks + 1] = r.stack end }
    assert(s:run())
    assert.equal(3, #stacks)
    for _, stack in ipairs(stacks) do
      assert.matches("main;middle;leaf$", stack:folded())
      assert.equal(path, stack[1].module)
    end
  end)

  it("has the names of the file that ran, even without a build-id: the inode identifies it", function()
    requires("perf", "root", "cc")
    local path, stacks = hot("plain", "-ldl -Wl,--build-id=none"), {}
    local s = perfev.session { command = { path, "2" } }
    s:event { ("mem:%s:rounds:w"):format(path), callchain = true,
              sample = function(r) stacks[#stacks + 1] = r.stack end }
    assert(s:run())
    sh "cp plain other && mv other plain"
    local notes, symbol = {}, require "perfev.symbol"
    symbol.log = function(_, text) notes[#notes + 1] = text end
    finally(function() symbol.log = nil end)
    assert.matches("main;middle;leaf$", stacks[1]:folded())
    local world, raws = symbol._here(), core.stack_frames(stacks[1])
    world.files, world.kept = {}, {}
    assert.is_nil(world:frame(raws[1]).symbol)
    assert.matches("plain: its functions have no names: the file at that path is not the one that ran", notes[1])
  end)

  it("names functions of a program in another root", function()
    requires("perf", "root", "cc", "program chroot")
    hot("inside", "-static -ldl 2> /dev/null")
    sh "mkdir -p root && cp inside root/perfev-inside"
    meets({ "spin" }, 50, tops(function(times)
      return { "chroot", dir .. "/root", "/perfev-inside", times }
    end))
  end)

  it("names functions of a process with its own mounts and pids, and its generated code", function()
    requires("perf", "root", "cc", "mounts")
    local outside = run.capture(("d=$(mktemp -d /var/tmp/XXXXXX) && cp %s $d/hot && echo $d"):format(hot()))
    finally(function() run.remove(outside) end)
    local function inside(more)
      return tops(function(times)
        return { "unshare", "-m", "-p", "-f", "--propagation", "private", "sh", "-c",
          ("mount -t tmpfs inside /tmp && cp %s/hot /tmp/only && /tmp/only %s %s"):format(outside, times, more) }
      end)
    end
    meets({ "spin" }, 50, inside "")
    if core.machine == "x86_64" then meets({ "made in memory" }, 50, inside "jit") end
  end)

  it("names vdso functions of a 32-bit process", function()
    requires("perf", "cc")
    if core.machine ~= "x86_64" then pending "the program is x86's" end
    local function narrow(times)
      local name = "vdso32_" .. times
      return build(name, ("%s -m32 -nostdlib -static -no-pie -fno-pie -DTIMES=%s000 -o %s %s"):format(cc, times, name,
        source "vdso32.c"))
    end
    if run({ narrow(1) }).code ~= 0 then pending "this kernel runs no programs of 32 bits" end
    meets({ "__kernel_vsyscall" }, 1000, tops(function(times) return { narrow(times) } end))
  end)

  it("names a hidden function by MiniDebugInfo", function()
    requires("perf", "cc", "program objcopy", "program xz")
    library()
    build("mini.so", "objcopy --only-keep-debug lib.so mini.debug && nm lib.so --format=posix --defined-only |"
      .. " awk '$2 ~ /[tT]/ { print $1 }' > keep && objcopy -S --keep-symbols=keep mini.debug mini.full"
      .. " && xz -k mini.full"
      .. " && cp lib.so mini.so && strip mini.so && objcopy --add-section .gnu_debugdata=mini.full.xz mini.so")
    assert.is_nil(run.capture(("nm %s/mini.so 2>/dev/null | grep lib_inner"):format(dir)))
    meets({ "lib_inner" }, 50, tops(function(times) return { hot(), times, dir .. "/mini.so" } end))
  end)

  it("names the kernel's functions as kallsyms does", function()
    requires("perf", "root")
    local text = "\n" .. core.slurp "/proc/kallsyms"
    local n = 0
    for address, name in text:gmatch "(%x+) [tT] ([%w_]+)\n" do
      local ip = math.tointeger(tonumber("0x" .. address))
      local found, offset, module = perfev.symbol.kernel(ip)
      if found ~= name then -- an alias: at the same address
        local alias = ("\n%s [tTwW] %s[\n\t]"):format(address, found:gsub("%p", "%%%0"))
        assert.is_true(text:find(alias) ~= nil, ("%s %s, %s"):format(address, name, found))
      end
      assert.equal(0, offset)
      assert.equal("[kernel]", module)
      n = n + 1
      if n == 300 then break end
    end
    assert.equal(300, n)
  end)

  it("finds the mapped file of an address in a running process", function()
    requires("perf")
    local name, offset, file = perfev.symbol.process(core.pid(), 0)
    assert.same({ nil, nil, "[unknown]" }, { name, offset, file })
    local start, path = core.slurp("/proc/self/maps"):match "(%x+)%-%x+ r%-xp %x+ %S+ %d+ +(%S*lua%S*)\n"
    assert.equal(path, select(3, perfev.symbol.process(core.pid(), tonumber(start, 16))))
  end)
end)

describe("the names of a process's functions remain after process and file are gone:", function()
  local ENOUGH = 100 -- samples of the function
  local SOURCE = [[#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
static volatile unsigned long sum;
__attribute__((noinline)) static void inner(void) { for (unsigned long i = 0; i < 100000; i++) sum += i; }
__attribute__((noinline)) static void outer(void (*work)(void)) { inner(); if (work) work(); }
int main(int argc, char **argv)
{
  int stays = argc > 1 && strcmp(argv[1], "stays") == 0;
  void *library = argc > 1 && !stays ? dlopen(argv[1], RTLD_NOW) : 0;
  if (!stays) unlink(argv[0]);
  if (library) unlink(argv[1]);
  for (;;) outer(library ? (void (*)(void))dlsym(library, "from_library") : 0);
}
]]
  local LIBRARY = [[static volatile unsigned long sum;
static void in_library(void) { for (unsigned long i = 0; i < 100000; i++) sum += i; }
void from_library(void) { in_library(); }
]]

  local function write(name, text)
    run.write_file(dir .. "/" .. name, text)
  end
  local function program(name, flags)
    write("lives.c", SOURCE)
    return build(name, ("%s %s -o %s lives.c %s 2> /dev/null"):format(cc, FLAGS, name, flags or "-ldl"))
  end

  -- Samples a command that runs until the session ends; tick(samples so far) is called meanwhile. Names are looked up
  -- afterwards, in files of these names: { name -> true }, the number of frames without a name, the profile.
  local function named(command, modules, tick)
    local p, of = perfev.profile {}, {}
    for _, name in ipairs(modules) do of[name] = true end
    local s = perfev.session { command = command }
    s:event { "cpu-clock", freq = 999, callchain = true, sample = p:sampler { under = "comm",
      where = { "comm", "==", modules.comm } } }
    s:every("10ms", function()
      if tick then tick(p:total()) end
      if p:total() >= ENOUGH then s:stop() end
    end)
    assert(s:run())
    local names, nameless = {}, 0
    for stack in p:stacks() do
      for _, frame in ipairs(stack) do
        if of[(frame.module or ""):match "[^/]*$"] then
          if frame.symbol:find "^%[" then nameless = nameless + 1 else names[frame.symbol] = true end
        end
      end
    end
    return names, nameless, p
  end
  local function are_named(functions, ...)
    local names, nameless = named(...)
    for _, name in ipairs(functions) do assert.is_true(names[name], name) end
    assert.equal(0, nameless)
  end

  it("a program that deletes itself and its library when it starts", function()
    requires("perf", "root", "cc")
    write("gone.c", LIBRARY)
    program "lives"
    sh(("cp lives deleted && %s %s -shared -fPIC -o gone.so gone.c"):format(cc, FLAGS))
    are_named({ "main", "outer", "inner", "from_library", "in_library" }, { dir .. "/deleted", dir .. "/gone.so" },
      { "deleted", "gone.so", comm = "deleted" })
  end)

  it("a program that is deleted or replaced after its first samples", function()
    requires("perf", "root", "cc")
    program "lives"
    for _, change in ipairs { "rm -f later", "cp /bin/true other && mv other later" } do
      sh "cp lives later"
      local done = false
      are_named({ "main", "outer", "inner" }, { dir .. "/later", "stays" },
        { "later", comm = "later" }, function(samples)
          if samples < 20 or done then return end
          sh(change)
          done = true
        end)
      assert.is_true(done)
    end
  end)

  it("a program that deletes itself, watched by an ordinary user", function()
    requires("perf", "nobody", "cc", "paranoid 2")
    program "lives"
    sh "rm -rf theirs && mkdir theirs && cp lives theirs/mine && chown -R nobody theirs"
    local r = run({ run.perfl, "-e", ([[local p = perfev.profile()
      local s = perfev.session { command = { "%s/theirs/mine" } }
      s:event { "cpu-clock:u", freq = 999, callchain = true,
                sample = p:sampler { where = { "comm", "==", "mine" } } }
      s:every("10ms", function() if p:total() >= %d then s:stop() end end)
      assert(s:run())
      print(p:folded())]]):format(dir, ENOUGH) }, { user = "nobody" })
    assert.equal("", r.err)
    assert.matches("main;outer;inner %d", r.out)
    assert.is_nil(r.out:find "%[mine%]")
  end)

  it("a program in another root", function()
    requires("perf", "root", "cc", "program chroot")
    program("static", "-static")
    sh "mkdir below && cp static below/inside"
    are_named({ "main", "outer", "inner" }, { "chroot", dir .. "/below", "/inside", "stays" },
      { "inside", comm = "inside" })
  end)

  it("a program in its own mount namespace, and code that it compiled in memory", function()
    requires("perf", "root", "cc", "mounts")
    program "lives"
    local function inside(command)
      return { "unshare", "-m", "--propagation", "private", "sh", "-c",
        ("mount -t tmpfs inside /mnt && cp %s/lives %s /mnt && mount --move /mnt /tmp && exec %s"):format(dir, hot(),
          command) }
    end
    are_named({ "main", "outer", "inner" }, inside "/tmp/lives stays", { "lives", comm = "lives" })
    if core.machine ~= "x86_64" then return end
    local _, _, p = named(inside "/tmp/hot 100000000 jit", { comm = "hot" })
    assert.matches(";made in memory ", p:folded())
  end)
end)

-- As root, with files of the user "nobody".
describe("a file that another user has planted", function()
  local NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups "

  local waiting = {}
  after_each(function()
    for _, pid in ipairs(waiting) do os.execute("kill " .. pid) end
    waiting = {}
  end)

  -- A process that waits, with a page of code in memory: its pid, and the page's address.
  local function begin(user)
    local path = build("waits", ([[printf '#include <stdio.h>\n#include <sys/mman.h>\n#include <unistd.h>
      int main(void) {
        printf("%%%%d %%%%p\\n", getpid(), mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        fflush(stdout); close(1); pause(); }' | %s -x c -o waits -]]):format(cc))
    local pid, address = run.capture((user or "") .. path .. " 2> /dev/null &"):match "^(%d+) 0x(%x+)"
    waiting[#waiting + 1] = pid
    return math.tointeger(tonumber(pid)), math.tointeger(tonumber(address, 16))
  end

  -- The name of the function in memory, and the notes; plant: a shell command that creates MAP with TEXT.
  local function named(pid, address, plant)
    local map, said = ("/tmp/perf-%d.map"):format(pid), {}
    sh(("rm -f %s && %s"):format(map, plant:gsub("MAP", map):gsub("TEXT", ("'%x 1000 made'"):format(address))))
    local symbol = require "perfev.symbol"
    symbol.log = function(_, text) said[#said + 1] = text:match "is not used: ([^\n]*)" end
    local name = symbol.process(pid, address)
    symbol.log = nil
    os.remove(map)
    return { name, table.unpack(said) }
  end

  it("is not used as the perf map of a root process: a user's file, a link, a FIFO, a huge file", function()
    requires("root", "cc", "nobody")
    local function of_root(plant)
      local pid, address = begin()
      return named(pid, address, plant)
    end
    assert.same({ "made" }, of_root "echo TEXT > MAP")
    assert.same({ nil, "it belongs to user 65534, and the process to user 0" },
      of_root(NOBODY .. [[sh -c "echo TEXT > MAP"]]))
    assert.same({ nil, "it is a symbolic link" }, of_root("echo TEXT > named && " .. NOBODY .. "ln -s $PWD/named MAP"))
    assert.same({ nil, "it is a symbolic link" }, of_root(NOBODY .. "ln -s /dev/zero MAP"))
    assert.same({ nil, "it is not a regular file" }, of_root(NOBODY .. "mkfifo MAP"))
    assert.same({ nil, "it is larger than 128 MiB" }, of_root "truncate -s 10G MAP")
  end)

  it("is the perf map of its owner's process, as is root's file, but not a third user's", function()
    requires("root", "cc", "nobody")
    local function of_nobody(plant)
      local pid, address = begin(NOBODY)
      return named(pid, address, plant)
    end
    assert.same({ "made" }, of_nobody(NOBODY .. [[sh -c "echo TEXT > MAP"]]))
    assert.same({ "made" }, of_nobody "echo TEXT > MAP")
    assert.same({ nil, "it belongs to user 1, and the process to user 65534" },
      of_nobody [[setpriv --reuid=1 --regid=1 --clear-groups sh -c "echo TEXT > MAP"]])
  end)

  it("is not used as the debug file of a root program in a world-writable directory", function()
    requires("root", "cc", "nobody", "program objcopy")
    -- Known by its checksum: perf may have kept one of its build-id.
    hot("checksum", "-ldl -Wl,--build-id=none")
    sh(("mkdir -m 1777 open && cp checksum open/prog && cd open && objcopy --only-keep-debug prog prog.debug"
      .. " && strip prog && objcopy --add-gnu-debuglink=prog.debug prog && mv prog.debug real"
      .. " && %s cp real prog.debug"):format(NOBODY))
    local offset = tonumber(run.capture(("nm %s/checksum | grep -w leaf"):format(dir)):match "^%x+", 16)
    local function leaf() return (perfev.symbol.file(dir .. "/open/prog", offset)) end
    local notes = #perfev.symbol.notes()
    assert.not_equal("leaf", leaf())
    local told = perfev.symbol.notes()[notes + 1]
    assert.matches("open/prog.debug is not used: it belongs to user 65534, and the program to user 0\n", told)
    -- The remedy, pasted.
    sh(told:match "\n  try: (.*)$")
    perfev.symbol.debuginfod(false) -- forgets the results of earlier searches
    perfev.symbol._here().files = {}
    assert.equal("leaf", leaf())
  end)

  it("is not read as a program: a FIFO, a device, a huge file", function()
    requires("root", "nobody")
    for name, case in pairs {
      fifo = { "mkfifo fifo", "it is not a regular file" },
      zero = { "ln -s /dev/zero zero", "it is not a regular file" },
      long = { "truncate -s 10G long", "it is larger than 512 MiB" },
    } do
      sh(("mkdir -p -m 1777 room && cd room && %s %s"):format(NOBODY, case[1]))
      assert.is_nil((perfev.symbol.file(dir .. "/room/" .. name, 0x1000)))
      local notes = perfev.symbol.notes()
      assert.equal(("%s/room/%s: its functions have no names: %s"):format(dir, name, case[2]), notes[#notes])
    end
  end)
end)

describe("lines and inlined functions", function()
  -- addr2line's output for some addresses of a function: { { "name file:line", ... }, ... }, the inlined one first.
  local function told_by_binutils(path, addresses)
    local out, cmd = {}, { "addr2line", "-a", "-i", "-f", "-s", "-e", path }
    for i, address in ipairs(addresses) do cmd[#cmd + 1], out[i] = ("0x%x"):format(address), {} end
    local n, name = 0, nil
    for line in run(cmd).out:gmatch "[^\n]+" do
      if line:match "^0x%x+$" then
        n, name = n + 1, nil
      elseif not name then
        name = line
      else
        table.insert(out[n], ("%s %s"):format(symtab.demangle(name), (line:gsub(" .*", ""))))
        name = nil
      end
    end
    return out
  end

  it("match addr2line's", function()
    requires("cc", "program g++", "program addr2line")
    local path = build("inlined", ("g++ -O2 -g -o inlined %s"):format(source "hot.cc"))
    local bytes = assert(core.slurp(path))
    local file = assert(symtab.read(bytes))
    assert(file:debug(bytes))
    local addresses = {}
    local start, size = run.capture(("nm -S %s | grep -w _ZN2ns2goEv"):format(path)):match "^(%x+) (%x+)"
    for at = 0, tonumber(size, 16) - 1, 3 do addresses[#addresses + 1] = tonumber(start, 16) + at end
    local same, others, inlined = 0, {}, 0
    for i, theirs in ipairs(told_by_binutils(path, addresses)) do
      local ours = {}
      for n, place in ipairs(file:lines(addresses[i])) do
        local name = symtab.demangle(place.symbol or file:find(addresses[i]))
        ours[n] = ("%s %s:%s"):format(name, (place.file or "?"):match "[^/]*$", place.line or "?")
      end
      inlined = inlined + (#ours > 1 and 1 or 0)
      local our_text, their_text = table.concat(ours, "\n"), table.concat(theirs, "\n")
      if our_text == their_text then
        same = same + 1
      else
        others[#others + 1] = ("0x%x\n%s\n%s"):format(addresses[i], our_text, their_text)
      end
    end
    assert.is_true(inlined > 5, inlined)
    assert.is_true(same >= 0.9 * #addresses, ("%d of %d\n%s"):format(same, #addresses, table.concat(others, "\n")))
  end)

  it("are read from clang's output with namespaces and files counted from 0", function()
    requires("program clang++")
    local path = build("clanged", ("clang++ -O2 -g -o clanged %s"):format(source "hot.cc"))
    local bytes, seen, n = assert(core.slurp(path)), {}, 0
    local file = assert(symtab.read(bytes))
    assert(file:debug(bytes))
    local start, size = run.capture(("nm -S %s | grep -w _ZN2ns2goEv"):format(path)):match "^(%x+) (%x+)"
    for at = tonumber(start, 16), tonumber(start, 16) + tonumber(size, 16) - 1 do
      local places = file:lines(at)
      local called, caller = places[#places - 1], places[#places]
      if called then
        seen[("%s %s:%d"):format(symtab.demangle(called.symbol), caller.file:match "[^/]*$", caller.line)] = true
      end
    end
    for line in io.lines(source "hot.cc") do
      n = n + 1
      if line:find "push_back" then
        assert.is_true(seen[("std::vector<long, std::allocator<long> >::push_back hot.cc:%d"):format(n)])
      end
    end
  end)

  it("of a file whose .gnu_debugaltlink names a FIFO are read without blocking on it", function()
    requires("cc", "program dwz")
    sh([[printf 'struct pair { int a, b; };
      static inline __attribute__((always_inline)) int inlined(struct pair *p) { return p->a * p->b; }
      int outer(struct pair *p) { return inlined(p) + p->b; } int main(void) { return 0; }' > half.c
      for f in half other; do ]] .. cc .. [[ -g -O1 -D$f -o $f half.c; done
      dwz -m $PWD/half.common half other && rm half.common && mkfifo half.common]])
    local offset = run.capture(("nm %s/half | grep -w outer"):format(dir)):match "^%x+"
    local script = ([[local s, first = perfev.symbol, 0x%s s.source()
      for at = first, first + 8 do print(s.file("%s/half", at)) end
      print(table.concat(s.notes(), "\n"))]]):format(offset, dir)
    local r = run({ run.perfl, "-e", script }, { timeout = 300 })
    assert.is_false(r.timed_out)
    assert.matches("^outer\t0\n", r.out)
    assert.matches("\n[^\n]+/half.common is not used: it is not a regular file\n", r.out)
  end)

  it("are the same if dwz has moved the shared parts of two debug files", function()
    requires("cc", "program g++", "program dwz", "program objcopy")
    local path = build("shares", ("g++ -O2 -g -o shares %s && g++ -O2 -g -DOTHER -o other %s"
      .. " && for f in shares other; do cp $f $f.whole && objcopy --only-keep-debug $f $f.debug"
      .. " && strip $f && objcopy --add-gnu-debuglink=$f.debug $f; done"
      .. " && dwz -m common.debug shares.debug other.debug"):format(source "hot.cc", source "hot.cc"))
    -- "function file:line" of bytes of a function, as frames of its file have it.
    local function lines(file, at, size)
      local list, own = {}, assert(symtab.read(assert(core.slurp(file))))
      assert(own:debug(assert(core.slurp(file))))
      local name, id = own:supplement()
      if name then assert(own:supply(assert(core.slurp(dir .. "/" .. name)))) end
      for address = at, at + size - 1, 3 do
        for _, place in ipairs(own:lines(address)) do
          list[#list + 1] = ("%s %s:%s"):format(place.symbol, place.file, place.line)
        end
      end
      return list, name, id
    end
    local start, size = run.capture(("nm -S %s.whole | grep -w _ZN2ns2goEv"):format(path)):match "^(%x+) (%x+)"
    start, size = tonumber(start, 16), tonumber(size, 16)
    local whole = lines(path .. ".whole", start, size)
    local moved, name, id = lines(path .. ".debug", start, size)
    assert.same({ "common.debug", 20 }, { name, #id })
    assert.is_true(#whole > 20, #whole)
    assert.same(whole, moved)
    perfev.symbol.source()
    -- Of the program itself, by way of its debug file; linkers put a PIE's code where it is in the file.
    local before = #perfev.symbol.notes()
    assert.equal("ns::go", (perfev.symbol.file(path, start)))
    assert.equal(before, #perfev.symbol.notes())
    sh "mv common.debug uncommon.debug && cp -r . ../$(basename $PWD).again"
    finally(function() perfev.symbol.source(false) run.remove(dir .. ".again") end)
    assert.equal("ns::go", (perfev.symbol.file(dir .. ".again/shares", start)))
    assert.matches("are missing: its supplementary file common.debug is not installed",
      perfev.symbol.notes()[#perfev.symbol.notes()])
  end)
end)

describe("a missing debug file", function()
  it("comes from a debuginfod server if one is configured", function()
    requires("perf", "root", "cc", "program objcopy", "library libdebuginfod.so.1")
    hot()
    local path = build("far", "cp hot far && mkdir -p served && objcopy --only-keep-debug far far.debug && strip far"
      .. " && id=$(readelf -n far | sed -n 's/.*Build ID: //p') && mkdir -p served/buildid/$id"
      .. " && mv far.debug served/buildid/$id/debuginfo")
    local served = "file://" .. dir .. "/served"
    -- The callback counts samples in the program's own file; the program runs until one name has 20.
    local script = ([[
      local n = {}
      event { "cpu-clock:u", freq = 999, callchain = true, sample = function(r)
        if r.stack[1].module ~= %q then return end
        local name = r.symbol or "no name"
        n[name] = (n[name] or 0) + 1
        if n[name] == 20 then print(name) return false end
      end }]]):format(path)
    local function told(...)
      return run({ run.perfl, ..., "-e", script, "--", path, "20000" }, {
        env = { DEBUGINFOD_URLS = served, DEBUGINFOD_CACHE_PATH = dir .. "/cache", HOME = dir } })
    end
    assert.equal("no name\n", told "-q".out)
    assert.equal("spin\n", told "--debuginfod".out)
    served = ""
    sh "rm -r cache"
    assert.matches("debug files are not fetched: DEBUGINFOD_URLS is empty", told "--debuginfod".err)
  end)
end)
