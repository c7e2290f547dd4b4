-- Probes on the simulated kernel: which become events of the PMU and which definitions in tracefs, the lines written
-- and removed there, and the refusals.

local core = require "perfev.core"
local elf = require "spec.support.elf"
local fetch = require "perfev.probe.probe_arguments"
local perfev = require "perfev"
local probe = require "perfev.probe.probe"
local probe_events = require "perfev.probe.tracefs_probes"
local sim = require "perfev.sim"

local E = perfev.errno
local UPROBES, KPROBES = "/sys/kernel/tracing/uprobe_events", "/sys/kernel/tracing/kprobe_events"
local DEVICES = "/sys/bus/event_source/devices/"
local TRACEPOINT, REGS_USER, REGS_INTR = 2, 1 << 12, 1 << 18

local function seed(name)
  local file <close> = assert(io.open("spec/fuzz/seeds/elf/" .. name, "rb"))
  return file:read "a"
end

local k, machine

local function new(opts)
  k = sim.new(opts)
  k.files[UPROBES], k.files[KPROBES] = "", ""
  k:tracepoint("sched:sched_switch", 316, "int prev_pid")
  k.files["/bin/app"], k.files["/bin/old"], k.files["/bin/stripped"] = seed "shared", seed "exec", seed "stripped"
  k.files["/bin/text"] = "#!/bin/sh\n"
  for name, number in pairs { kprobe = 6, uprobe = 8 } do
    k.files[DEVICES .. name .. "/type"] = number .. "\n"
    k.files[DEVICES .. name .. "/format/retprobe"] = "config:0\n"
  end
  k.files[DEVICES .. "uprobe/format/ref_ctr_offset"] = "config:32-63\n"
  k.files["/proc/kallsyms"] = "ffffffff81000000 T do_sys_openat2\nffffffff81001000 t vfs_read\t[mod]\n"
  return k:install()
end

before_each(function()
  machine, core.machine = core.machine, "x86_64"
  new()
end)
after_each(function()
  core.machine = machine
  perfev.hooks.clear()
end)

local WORK = 0x2d0 -- of "shared"

local function open(text, more, opts)
  local s = perfev.session(opts or {})
  local spec = { text, sample = function() end }
  for name, value in pairs(more or {}) do spec[name] = value end
  s:event(spec)
  return s, s:start()
end

local function started(...)
  local s, ok, why = open(...)
  assert.is_true(ok, why)
  return s
end

local function refused(text, spec)
  local found, why, code = probe.resolve(text, spec)
  assert.is_nil(found)
  assert.equal(("event '%s': "):format(text), why:sub(1, #text + 10))
  return why, code
end

local function task()
  k:task(70, "app")
  return { pid = 70 }
end

local function places_of(...)
  local list = {}
  for i, pattern in ipairs { ... } do
    for n, line in ipairs(k.log) do
      if line:find(pattern) then list[i] = n end
    end
  end
  return list
end

describe("a probe of whole CPUs", function()
  it("is the PMU's, with file and offset, and takes a sample each time", function()
    local s = started "uprobe:/bin/app:work"
    local attr = k.events[1].attr
    assert.same({ 8, 0, WORK, 1, false },
      { attr.type, attr.config, attr.probe_offset, attr.sample_period, attr.freq })
    s:close()
    assert.equal("", k.files[UPROBES])
  end)

  it("keeps the file's name while the kernel can read it", function()
    local found = probe.resolve("uprobe:/bin/app:work+4", {})
    assert.equal("/bin/app", found.fields.uprobe_path)
    assert.equal(WORK + 4, found.fields.probe_offset)
    local attr = core.attr_new { type = 8, uprobe_path = "/bin/" .. ("x"):rep(100) }
    collectgarbage()
    assert.equal("/bin/" .. ("x"):rep(100), attr.uprobe_path)
    assert.equal(attr.uprobe_path, attr:copy().uprobe_path)
    assert.is_true(attr.config1 ~= 0)
    attr.config1 = 1
    assert.equal(1, attr.uprobe_path)
    assert.error_matches(function() core.attr_new { uprobe_path = "a\0b" } end, "uprobe_path: contains a NUL byte")
  end)

  it("on returns has the PMU's bit for returns, at any position", function()
    k.files[DEVICES .. "uprobe/format/retprobe"] = "config:5\n"
    started("uretprobe:/bin/app:work"):close()
    assert.equal(1 << 5, k.events[1].attr.config)
  end)

  it("reads integers from a sample's registers, with their types", function()
    local seen = {}
    local s = started("uprobe:/bin/app:work", { args = { "a:int", "b:u8", "c:long", "f=$arg5:s16" },
      sample = function(_, args)
        for name, value in pairs(args) do seen[name] = value end
        assert.equal("a=-2 b=255 c=-5 f=-32768", tostring(args))
      end })
    local attr = k.events[1].attr
    assert.equal(1 << 3 | 1 << 4 | 1 << 5 | 1 << 16, attr.sample_regs_user) -- dx si di r8
    assert.is_true(attr.sample_type & REGS_USER ~= 0)
    k:emit(k.events[1], "sample", {
      regs_user = { abi = 2, [5] = 0xdeadbeeffffffffe, [4] = 0x1ff, [3] = -5, [16] = 0x8000 },
    })
    s:stop()
    s:run()
    assert.same({ a = -2, b = 255, c = -5, f = -32768 }, seen)
  end)

  it("has no arguments in a program of another width", function()
    local seen = {}
    local s = started("uprobe:/bin/app:work", { args = { "a:int" }, sample = function(_, args)
      seen[#seen + 1] = args or "none"
    end })
    k:emit(k.events[1], "sample", { regs_user = { abi = 1, [5] = 7 } })
    s:stop()
    s:run()
    assert.same({ "none" }, seen)
  end)

  it("in the kernel reads the registers at the probe", function()
    started("kprobe:do_sys_openat2+8", { args = { "dfd:int" } }):close()
    local attr = k.events[1].attr
    assert.same({ 6, 0, 8, 1 << 5 }, { attr.type, attr.config, attr.probe_offset, attr.sample_regs_intr })
    assert.is_true(attr.sample_type & REGS_INTR ~= 0)
    local before = #k.events
    started("kretprobe:vfs_read", { args = { "$retval:long" } }):close()
    attr = k.events[before + 1].attr
    assert.same({ 6, 1, 1 << 0 }, { attr.type, attr.config, attr.sample_regs_intr })
  end)

  it("excludes the observer's own calls", function()
    local s = started("uprobe:/bin/app:work", nil, { exclude_self = true })
    assert.matches("^common_pid != 1000", k.events[1].filter)
    s:close()
    -- Of the machine's processes it is another one that has the number which is ours in a namespace.
    local before = #k.events
    k.links["/proc/self/ns/pid"] = "pid:[4026532178]"
    s = started("uprobe:/bin/app:work", nil, { exclude_self = true })
    assert.is_nil(k.events[before + 1].filter)
    s:close()
  end)

  it("on a static probe raises the semaphore that only its second copy has", function()
    local binary = require "perfev.symbol.binary"
    local step = { provider = "p", name = "s", args = "", pc = 16, offset = 16 }
    local with = { provider = "p", name = "s", args = "", pc = 32, offset = 32, semaphore = 64, ref_ctr_offset = 48 }
    local open_file = binary.open
    finally(function() binary.open = open_file end)
    binary.open = function() return { path = "/bin/app", elf = { probes = function() return { step, with } end } } end
    assert.equal(48, assert(require("perfev.probe.probe").resolve "usdt:/bin/app:p:s").probe.ref)
  end)

  it("on a static probe raises its semaphore through the PMU", function()
    -- Of its two arguments the second is on the stack, where registers do not reach.
    started("usdt:/bin/app:perfev:step", { args = { "n:int" } }):close()
    local attr = k.events[1].attr
    assert.same({ 8, 0x1008 << 32, WORK, 1 << 5 }, { attr.type, attr.config, attr.probe_offset, attr.sample_regs_user })
  end)
end)

describe("a plan", function()
  it("prints the target of the attr's address, and defines nothing", function()
    local s = perfev.session { pid = 70 }
    s:event { "uprobe:/bin/app:work", args = { "n:int", "s:string" }, sample = function() end }
    s:event { "mem:/bin/app:counter:w", sample = function() end }
    local text = table.concat(s:plan(), "\n")
    assert.matches("\n  probe  /bin/app:0x2d0\n  args  n=%%di:s32 s=%+0%(%%si%):string\n", text)
    assert.matches("\n  address  of counter in each process of /bin/app\n", text)
    assert.equal(0, k.counts.append or 0)
    assert.equal("", k.files[UPROBES])
  end)
end)

describe("a definition in tracefs", function()
  it("is made if text is fetched, and removed when the event is closed", function()
    local s = started("uprobe:/bin/app:work", { args = { "n:int", "s:string", "more:long" } })
    local line = k.files[UPROBES]
    assert.matches("^p:perfev_1000_%d+/work /bin/app:0x2d0 n=%%di:s32 s=%+0%(%%si%):string more=%%dx:s64\n$", line)
    local attr = k.events[1].attr
    assert.equal(TRACEPOINT, attr.type)
    assert.equal(line:match "perfev_1000_%d+", k.tracepoints[attr.config].system)
    assert.same({ 0, 0, 0 }, { attr.config1, attr.config2, attr.sample_regs_user })
    s:close()
    assert.equal("", k.files[UPROBES])
    local at = places_of("^close%(", "^append%(")
    assert.is_true(places_of("^munmap%(")[1] < at[2])
    assert.same({}, k:leaks())
  end)

  it("is made if children inherit the probe, because the PMU cannot read the path for them", function()
    local s = started("uprobe:/bin/app:work", { args = { "n:int" } }, task())
    assert.matches(" n=%%di:s32\n$", k.files[UPROBES])
    assert.is_true(k.events[1].attr.inherit)
    s:close()
    local before = #k.events
    s = started("uprobe:/bin/app:work", { inherit = false }, { pid = 70 })
    assert.equal("", k.files[UPROBES])
    assert.equal(8, k.events[before + 1].attr.type)
    s:close()
  end)

  it("returns its arguments by name", function()
    local seen
    local s = started("uretprobe:/bin/app:work", { args = { "$retval:s64" },
      sample = function(_, args) seen = args.retval end }, task())
    assert.matches("^r:perfev_1000_%d+/work /bin/app:0x2d0 retval=$retval:s64\n$", k.files[UPROBES])
    k:emit(k.events[1], "sample", { raw = require("perfev.sim.payload").pack(k.tracepoints[k.events[1].attr.config],
      { retval = -7 }) })
    s:stop()
    s:run()
    assert.equal(-7, seen)
  end)

  it("is made if a filter is set, which is checked against the arguments", function()
    local s = started("uprobe:/bin/app:work", { args = { "n:int" }, filter = "n > 5" })
    assert.matches(" n=%%di:s32\n$", k.files[UPROBES])
    assert.equal("n > 5", k.events[1].filter)
    s:close()
    local _, ok, why = open("uprobe:/bin/app:work", { args = { "n:int" }, filter = "m > 5" })
    assert.is_nil(ok)
    assert.matches("unknown field 'm' %(did you mean 'n'%?%)", why)
    assert.equal("", k.files[UPROBES])
  end)

  it("of a static probe has its semaphore, and its arguments from the note", function()
    local s = started("usdt:/bin/app:perfev:step", nil, task())
    assert.matches("^p:perfev_1000_%d+/perfev_step /bin/app:0x2d0%(0x1008%) arg1=%%di:s32 arg2=%-8%(%%bp%):u64\n$",
      k.files[UPROBES])
    s:close()
  end)

  it("of a kernel function goes to kprobe_events", function()
    local s = started("kretprobe:vfs_read", { args = { "$retval:string" } })
    assert.matches("^r:perfev_1000_%d+/vfs_read vfs_read retval=%+0%($retval%):string\n$", k.files[KPROBES])
    s:close()
    assert.equal("", k.files[KPROBES])
  end)

  it("is removed if the event cannot be opened", function()
    for nth = 1, 4 do
      new()
      k:fail("perf_event_open", nth, E.EMFILE)
      local s, ok = open("uprobe:/bin/app:work", { args = { "s:string" } })
      assert.is_nil(ok, nth)
      s:close()
      assert.equal("", k.files[UPROBES])
    end
  end)

  it("is removed if another event fails, and if the session is closed early", function()
    local s = perfev.session {}
    s:event { "uprobe:/bin/app:work", args = { "s:string" }, sample = function() end }
    s:event { "sched:no_such_event", sample = function() end }
    assert.is_nil((s:start()))
    assert.equal("", k.files[UPROBES])
  end)

  it("is removed with its event, if that is closed before the session", function()
    local s = perfev.session {}
    s:event { "dummy", comm = function() end }
    local ev = s:event { "uprobe:/bin/app:work", args = { "s:string" }, sample = function() end }
    assert(s:start())
    assert.is_true(k.files[UPROBES] ~= "")
    ev:close()
    assert.equal("", k.files[UPROBES])
    s:close()
  end)

  it("has a unique name", function()
    local s = perfev.session {}
    for _ = 1, 3 do s:event { "uprobe:/bin/app:work", args = { "s:string" }, sample = function() end } end
    assert(s:start())
    local seen = {}
    for group in k.files[UPROBES]:gmatch("perfev_[%d_]+") do seen[group] = true end
    local n = 0
    for _ in pairs(seen) do n = n + 1 end
    assert.equal(3, n)
    s:close()
    assert.equal("", k.files[UPROBES])
  end)

  it("that tracefs refuses is reported with the kernel's own message", function()
    k.files["/sys/kernel/tracing/error_log"] = function()
      local line = k.log[#k.log]:match "p:.*string" or ""
      return "[    1.0] trace_uprobe: error: Another\n  Command: p:other/x\n\n"
        .. "[    2.0] trace_uprobe: error: Bad probe addr\n  Command: " .. line .. "\n           ^\n"
    end
    k:fail("append", 1, E.EINVAL)
    local _, ok, why = open("uprobe:/bin/app:work", { args = { "s:string" } })
    assert.is_nil(ok)
    assert.matches("event 'uprobe:/bin/app:work': cannot write " .. UPROBES .. ": Invalid argument %(EINVAL%)\n"
      .. "  the kernel says: Bad probe addr", why)
  end)

  it("without write access falls back to the PMU's probe of a task, and reports the gap", function()
    local notes = {}
    k.files[UPROBES] = E.EACCES
    local opts = task()
    opts.log = function(_, text) notes[#notes + 1] = text end
    local s = started("uprobe:/bin/app:work", nil, opts)
    assert.equal(8, k.events[1].attr.type)
    assert.is_false(k.events[1].attr.inherit)
    assert.matches("uprobe:/bin/app:work: tasks started from now on are not watched", table.concat(notes, "\n"))
    s:close()
    local _, ok, _ = open("uprobe:/bin/app:work", { args = { "s:string" } }, { pid = 70 })
    assert.is_nil(ok)
  end)
end)

describe("a counter of a probe", function()
  it("of tasks uses tracefs without samples, and removes its definition", function()
    local c = assert(perfev.counter { "uprobe:/bin/app:work", "usdt:/bin/app:perfev:step", pid = task().pid })
    local _, lines = k.files[UPROBES]:gsub("p:perfev_1000_%d+/[%w_]+ /bin/app:0x2d0", "")
    assert.equal(2, lines)
    local attr = k.events[1].attr
    assert.same({ TRACEPOINT, 0, true }, { attr.type, attr.sample_type, attr.inherit })
    c:close "uprobe:/bin/app:work"
    _, lines = k.files[UPROBES]:gsub("\n", "")
    assert.equal(1, lines)
    c:close()
    assert.equal("", k.files[UPROBES])
    assert.same({}, k:leaks())
  end)

  it("of whole CPUs uses the PMU", function()
    local c = assert(perfev.counter { "uprobe:/bin/app:work", cpus = { 0 } })
    assert.equal("", k.files[UPROBES])
    assert.equal(8, k.events[1].attr.type)
    c:close()
  end)

  it("that cannot be opened leaks nothing", function()
    k:fail("perf_event_open", 1, E.ENOMEM)
    assert.is_nil((perfev.counter { "uprobe:/bin/app:work", pid = task().pid }))
    assert.equal("", k.files[UPROBES])
    assert.same({}, k:leaks())
  end)
end)

describe("text written to tracefs", function()
  local function define(def)
    def.kind, def.name = def.kind or "uprobe", def.name or "work"
    def.places = def.places or { WORK }
    if def.kind == "uprobe" then def.path = def.path or "/bin/app" end
    local made, why, code = probe_events.define(def)
    if made then made:remove() end
    return made, why, code
  end

  -- Fields of a definition with a byte in the middle.
  local fields = {
    path = function(byte) return { path = "/bin/a" .. byte .. "b" } end,
    symbol = function(byte) return { kind = "kprobe", symbol = "vfs" .. byte .. "read", places = { 0 } } end,
    name = function(byte) return { name = "wo" .. byte .. "rk" } end,
    ["argument's name"] = function(byte) return { words = { "n" .. byte .. "m=%di:s32" } } end,
    ["argument's place"] = function(byte) return { words = { "n=%d" .. byte .. "i:s32" } } end,
    ["argument's type"] = function(byte) return { words = { "n=%di:s3" .. byte .. "2" } } end,
  }

  for field, make in pairs(fields) do
    it("is one line and one probe, with any of the 256 bytes in the " .. field, function()
      define {} -- the first sweeps
      local refusals, taken = 0, 0
      for value = 0, 255 do
        local byte, before = string.char(value), k.counts.append or 0
        local made, why, code = define(make(byte))
        if made then taken = taken + 1 end
        local written = {}
        for _, line in ipairs(k.log) do
          written[#written + 1] = line:match("^append%([^,]+, (.*)\n%) = ")
        end
        if (k.counts.append or 0) == before then
          refusals = refusals + 1
          assert.equal(E.EINVAL, code)
          assert.matches("\n  try: ", why)
        else
          for _, line in ipairs(written) do
            assert.is_nil(line:find("[%c\x7f\xa0;#]"), ("byte %d"):format(value))
            local _, blanks = line:gsub(" ", "")
            assert.is_true(blanks <= 2, ("byte %d"):format(value))
          end
        end
        k.log = {}
      end
      -- A name is made valid; no type has another byte in it.
      assert.is_true(refusals >= (field == "name" and 0 or 35), refusals)
      assert.equal(field ~= "argument's type", taken > 0)
      assert.equal("", k.files[UPROBES] .. k.files[KPROBES])
    end)
  end

  it("is empty if one of several places is wrong", function()
    define {}
    local before = k.counts.append
    assert.is_nil((define { places = { 1, -1 } }))
    assert.equal(before, k.counts.append)
  end)
end)

describe("a definition left by a dead session", function()
  local others = "p:other/mine /bin/app:0x10\np:perfev_abc/x /bin/app:0x10\np:perfev_12/x /bin/app:0x10\n"

  local function leave(group, name)
    core.append(UPROBES, ("p:%s/%s /bin/app:0x10\n"):format(group, name))
  end

  it("is removed; those of other tools and of live sessions are kept", function()
    k.files[UPROBES] = others
    leave("perfev_4321_1", "dead")
    leave("perfev_4321_2", "dead_too")
    k:task(4322, "perfl")
    leave("perfev_4322_1", "alive")
    core.append(KPROBES, "r:perfev_4321_3/kernel vfs_read\n")
    local found, why = probe_events.sweep()
    assert.is_nil(why)
    assert.same({
      removed = { "kprobe perfev_4321_3/kernel", "uprobe perfev_4321_1/dead", "uprobe perfev_4321_2/dead_too" },
      kept = { "uprobe perfev_4322_1/alive" },
    }, found)
    assert.equal(others .. "p:perfev_4322_1/alive /bin/app:0x10\n", k.files[UPROBES])
  end)

  it("with this process's pid is removed as well, unless it is in use", function()
    leave("perfev_1000_999999", "old")
    local s = started("uprobe:/bin/app:work", { args = { "s:string" } })
    local mine = k.files[UPROBES]:match "perfev_1000_%d+/work"
    assert.same({ removed = { "uprobe perfev_1000_999999/old" }, kept = { "uprobe " .. mine } },
      (probe_events.sweep()))
    assert.is_nil(k.files[UPROBES]:find("/old", 1, true))
    s:close()
    assert.equal("", k.files[UPROBES])
  end)

  it("is not found if tracefs cannot be read, and that is reported", function()
    k.files[UPROBES] = E.EACCES
    local found, why = probe_events.sweep()
    assert.same({ removed = {}, kept = {} }, found)
    assert.equal("cannot read " .. UPROBES .. ": Permission denied", why)
  end)
end)

describe("a probe's file", function()
  it("can be a path, a library's name, or a program in PATH", function()
    k.files["/usr/lib/x86_64-linux-gnu/libapp.so.6"] = seed "shared"
    k.files["/usr/lib/libapp.so"] = "/* GNU ld script */"
    local path = os.getenv("PATH"):match "^[^:]+"
    k.files[path .. "/tool"] = seed "shared"
    for text, wanted in pairs {
      ["uprobe:libapp:work"] = "/usr/lib/x86_64-linux-gnu/libapp.so.6",
      ["uprobe:libapp.so.6:work"] = "/usr/lib/x86_64-linux-gnu/libapp.so.6",
      ["uprobe:tool:work"] = path .. "/tool", ["uprobe:/bin/app:work"] = "/bin/app",
    } do
      local found, why = probe.resolve(text, {})
      assert.equal(wanted, found and found.fields.uprobe_path, why)
    end
  end)

  it("is searched in ldconfig's cache first", function()
    local strings = "libapp.so.6\0/opt/libapp.so.6\0"
    local at = 48 + 24
    k.files["/etc/ld.so.cache"] = "glibc-ld.so.cache1.1" .. string.pack("<I4I4", 1, #strings) .. ("\0"):rep(20)
      .. string.pack("<i4I4I4I4I8", 0x303, at, at + 12, 0, 0) .. strings
    k.files["/opt/libapp.so.6"] = seed "shared"
    k.files["/usr/lib/libapp.so.6"] = seed "shared"
    assert.equal("/opt/libapp.so.6", probe.resolve("uprobe:libapp:work", {}).fields.uprobe_path)
    -- One that is cut is passed over.
    k.files["/etc/ld.so.cache"] = k.files["/etc/ld.so.cache"]:sub(1, 60)
    assert.equal("/usr/lib/libapp.so.6", probe.resolve("uprobe:libapp:work", {}).fields.uprobe_path)
  end)

  it("that is stripped has the functions of its debug file, at its own addresses", function()
    local id = ("\171\205"):rep(10)
    k.files["/bin/bare"] = elf.file { build_id = id, functions = { { "seen", 0x400010, 8 } }, dynamic = true,
                                      offset = 0, vaddr = 0x400000, length = 0x100 }
    assert.matches("try: nm %-D /bin/bare, its debug symbols,", select(2, probe.resolve("uprobe:/bin/bare:hidden", {})))
    k.files["/usr/lib/debug/.build-id/ab/" .. ("cdab"):rep(9) .. "cd.debug"] = elf.file { build_id = id,
      functions = { { "hidden", 0x400020, 8 } }, vaddr = 0x400000 }
    local found = assert(probe.resolve("uprobe:/bin/bare:hidden", {}))
    assert.same({ "/bin/bare", 0x20 }, { found.fields.uprobe_path, found.fields.probe_offset })
  end)

  it("is passed to the kernel without links", function()
    k.links["/bin/link"], k.links["/proc/self/cwd"] = "../bin/app", "/bin"
    for _, name in ipairs { "/bin/link", "./link", "/bin/../bin/./app" } do
      local found, why = probe.resolve("uprobe:" .. name .. ":work", {})
      assert.equal("/bin/app", found and found.fields.uprobe_path, why)
    end
    k.links["/bin/loop"] = "/bin/loop"
    refused("uprobe:/bin/loop:work", {})
  end)

  it("is searched in the root of another process", function()
    local function path_of(name)
      local found, why = probe.resolve(("uprobe:%s:work"):format(name), {})
      return found and found.fields.uprobe_path or why
    end
    -- A container's root reads as ours, and its absolute links are of paths in it.
    k.links["/proc/80/root"], k.links["/proc/80/root/sbin"] = "/", "/opt/bin"
    k.files["/proc/80/root/opt/bin/app"] = k.files["/bin/app"]
    assert.equal("/proc/80/root/opt/bin/app", path_of "/proc/80/root/sbin/app")
    -- A process runs a file, even if another file has its path now.
    k.links["/proc/80/exe"], k.files["/proc/80/exe"] = "/bin/app (deleted)", k.files["/bin/app"]
    assert.equal("/proc/80/exe", path_of "/proc/80/exe")
    k.links["/proc/80/exe"], k.inodes["/proc/80/exe"], k.inodes["/bin/app"] = "/bin/app", 77, 77
    assert.equal("/bin/app", path_of "/proc/80/exe")
  end)

  it("is reported if a process runs a replaced version of it", function()
    local said = {}
    k:task(70, "app")
    local function watch(maps, exe)
      k.files["/proc/70/maps"], k.links["/proc/70/exe"] = maps, exe
      local s <close> = perfev.session { pid = 70, log = function(level, text)
        said[#said + 1] = level == 0 and text or nil
      end }
      s:event { "uprobe:/bin/app:work", inherit = false, sample = function() end }
      assert(s:start())
    end
    watch("400000-401000 r-xp 00000000 fe:00 9 /bin/app\n", "/bin/app")
    assert.same({}, said)
    watch("400000-401000 r-xp 00000000 fe:00 9 /bin/app (deleted)\n", "/bin/app (deleted)")
    watch("400000-401000 r-xp 00000000 fe:00 9 /bin/app (deleted)\n", "/bin/host")
    local what = "uprobe:/bin/app:work: process 70 is not watched: it runs the file that /bin/app replaced\n"
      .. "  try: "
    assert.same({ what .. "/proc/70/exe as the file", what .. "restart the process" }, said)
  end)
end)

describe("a probe is refused:", function()
  local cases = {
    { "uprobe:/bin/app:worl", "/bin/app has no symbol 'worl' %(did you mean 'work'%?%)\n  try: nm /bin/app", "ENOENT" },
    { "uprobe:/bin/stripped:main",
      "/bin/stripped is stripped, and does not export 'main'.*0xOFFSET", "ENOENT" },
    { "uprobe:/bin/app:counter", "'counter' is a variable\n  try: mem:FILE:SYMBOL", "EINVAL" },
    { "uprobe:/bin/app:work+99", "'work' is 12 bytes long, and the offset is 99", "EINVAL" },
    { "uprobe:/bin/app:work+x", "is not SYMBOL or SYMBOL%+OFFSET", "EINVAL" },
    { "uprobe:/bin/app:0xffffff", "offset 0xffffff is not in the code of /bin/app\n  try: nm", "EINVAL" },
    { "uprobe:/bin/app:9z", "'9z' is not an offset", "EINVAL" },
    { "uretprobe:/bin/app:work+4", "a return probe has no offset.*\n  try: uprobe:", "EINVAL" },
    { "uprobe:/bin/none:work", "cannot read /bin/none: No such file or directory", "ENOENT" },
    { "uprobe:/bin/text:work", "/bin/text: not an ELF file", "ENOEXEC" },
    { "uprobe:libnone:work", "no library or program is named 'libnone'\n  looked in .*\n  try: its full path",
      "ENOENT" },
    { "uprobe:/bin/app", "FILE:SYMBOL is expected\n  try: uprobe:", "EINVAL" },
    { "usdt:/bin/app:perfev", "FILE:PROVIDER:NAME is expected\n  try: readelf", "EINVAL" },
    { "usdt:/bin/app:perfev:stop", "has no static probe 'perfev:stop' %(did you mean 'perfev:step'%?%)\n  try: readelf",
      "ENOENT" },
    { "kprobe:do_sys_openat",
      "the kernel has no function 'do_sys_openat' %(did you mean 'do_sys_openat2'%?%)\n  try: grep", "ENOENT" },
    { "kprobe:a b", "FUNCTION or FUNCTION%+OFFSET is expected\n  try: kprobe:", "EINVAL" },
    { "kretprobe:vfs_read+4", "a return probe has no offset", "EINVAL" },
  }

  for _, case in ipairs(cases) do
    it(case[1], function()
      local why, code = refused(case[1], {})
      assert.matches(case[2], why)
      assert.equal(E[case[3]], code)
    end)
  end

  it("for a function in the C library but not in the kernel, with or without kprobes", function()
    k.files["/usr/lib/x86_64-linux-gnu/libc.so.6"] = seed "shared"
    local function check()
      local why, code = refused("kprobe:work", {})
      assert.matches("the kernel has no function 'work', but the C library has\n  try: uprobe:libc:work$", why)
      assert.equal(E.ENOENT, code)
      assert.truthy(probe.resolve(why:match "try: ([^\n]+)$", {}))
    end
    check()
    k.files[DEVICES .. "kprobe/type"], k.files[KPROBES] = nil, nil
    check()
  end)

  it("for a kernel with neither PMU nor tracefs", function()
    k.files[DEVICES .. "kprobe/type"], k.files[KPROBES] = nil, nil
    local why, code = refused("kprobe:vfs_read", {})
    assert.matches("this kernel has no kprobes: neither a PMU 'kprobe' nor tracefs' kprobe_events\n"
      .. "  try: a kernel with CONFIG_KPROBE_EVENTS", why)
    assert.equal(E.ENOENT, code)
  end)

  for args, wanted in pairs {
    [{ "n;" }] = "'n;' is not understood\n  try: NAME:TYPE",
    [{ "n:itn" }] = "unknown type 'itn' %(did you mean 'int'%?%)",
    [{ "n:str" }] = "'str' %(did you mean 'string'%?%)", [{ "n:char *" }] = "%(did you mean 'string'%?%)",
    [{ "n:double" }] = "floating%-point", [{ "n:int", "n:int" }] = "'n' appears twice",
    [{ "$retval:int" }] = "only a return probe has", [{ "n=$arg9:int" }] = "argument 9 is not passed in a register",
    [{ "n=%di;x:int" }] = "is not $arg1, $retval", [{ 1 }] = "a list of strings",
    [{ "n=+8(%si)\n:int" }] = "is not $arg1, $retval",
    [{ "a:int", "b:int", "c:int", "d:int", "e:int", "f:int", "g:int" }] = "argument 7 is not passed",
  } do
    it("for its args { " .. tostring(args[#args]):gsub("\n", "\\n") .. " }", function()
      assert.matches(wanted, (refused("uprobe:/bin/app:work", { args = args })))
    end)
  end

  it("for arguments of a return probe, and more than a static probe has", function()
    local function of(text, ...) return (refused(text, { args = { ... } })) end
    assert.matches("a return probe has no arguments", of("uretprobe:/bin/app:work", "n:int"))
    assert.matches("the probe has 2 arguments", of("usdt:/bin/app:perfev:step", "a:int", "b:int", "c:int"))
    assert.matches("a static probe has no return value", of("usdt:/bin/app:perfev:step", "$retval:int"))
  end)
end)

describe("the location of arguments", function()
  local function by_note(note, arch)
    core.machine = arch or "x86_64"
    local file = { elf = require("perfev.elf").read(seed "shared") }
    return table.concat(fetch.words(fetch.by_note({ args = note, pc = 0x1a0, offset = 0x1a0 }, nil, file)), " ")
  end

  it("comes from a static probe's note, in the assembler's syntax", function()
    for note, words in pairs {
      ["-4@%edi 8@%rsi"] = "arg1=%di:s32 arg2=%si:u64", ["1@%al 2@%r9w 4@%r10d -1@%dil"] =
        "arg1=%ax:u8 arg2=%r9:u16 arg3=%r10:u32 arg4=%di:s8",
      ["-4@$-5 8@$7"] = "arg1=\\-5:s32 arg2=\\7:u64", ["8@(%rax) -8@-16(%rbp)"] = "arg1=+0(%ax):u64 arg2=-16(%bp):s64",
      -- sem is byte 0x1008 of the file, and 0x2008 bytes from byte 0 in the segment of the code.
      ["2@sem(%rip) 2@sem+1(%rip)"] = "arg1=@+8200:u16 arg2=@+8201:u16",
      -- A probe cannot read these.
      ["4@%ah 8@8(%rax,%rbx,4) 8@none(%rip) 3@%eax 8@%xmm0 8f@-8(%rbp) 8"] = "", [""] = "",
    } do
      assert.equal(words, by_note(note), note)
    end
    assert.equal("arg1=%x0:s32 arg2=+12(%sp):u64 arg3=\\4:u32", by_note("-4@w0 8@[sp, 12] 4@4", "aarch64"))
  end)

  it("follows the machine's calling convention", function()
    local function words(arch, narrow)
      core.machine = arch
      local args = assert(fetch.parse { "a:int", "b:string" })
      assert(fetch.by_abi(args, narrow))
      return table.concat(fetch.words(args), " ")
    end
    assert.equal("a=%di:s32 b=+0(%si):string", words "x86_64")
    assert.equal("a=+4($stack):s32 b=+0(+8($stack)):string", words("x86_64", true))
    assert.equal("a=%x0:s32 b=+0(%x1):string", words "aarch64")
    assert.equal("a=%a0:s32 b=+0(%a1):string", words "riscv64")
    assert.equal("a=%gpr3:s32 b=+0(%gpr4):string", words "ppc64le")
  end)

  it("can be given in tracefs' syntax", function()
    local s = started("uprobe:/bin/app:work", { args = { "n=+8(%si):u32", "m=%ax:x64" } })
    assert.matches(" n=%+8%(%%si%):u32 m=%%ax:x64\n$", k.files[UPROBES])
    s:close()
  end)
end)
