-- A recording's facts about the machine, from simulated files: the reader returns the content of each section, each
-- record is whole, and missing, hidden or hostile facts are left out or bounded.

local build_id = require "perfev.symbol.build_id"
local codec = require "perfev.record.codec"
local core = require "perfev.core"
local elf = require "spec.support.elf"
local facts = require "perfev.perfdata.machine_facts"
local features = require "perfev.perfdata.read_features"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local sections = require "perfev.perfdata.write_features"
local sim = require "perfev.sim"
local synthesise = require "perfev.perfdata.synthetic_records"
local tracing = require "perfev.perfdata.tracing_data"

local BIG = string.pack("=I2", 1) == "\0\1"
local CPU, NODE = "/sys/devices/system/cpu", "/sys/devices/system/node"
local program = assert(io.open("spec/fuzz/seeds/elf/shared", "rb")):read "a"
local PROGRAM_ID = "ace20c413c58747c9aebac8ea8952ec0c0985557" -- readelf -n

local k
before_each(function()
  k = sim.new { world = "vm" }
  for path in pairs(k.files) do
    if path:find("^/proc/%d") then k.files[path] = nil end
  end
  perfev.hooks.set(k.hooks)
end)
after_each(function() perfev.hooks.clear() end)

local function files(prefix, list)
  for name, text in pairs(list) do k.files[prefix .. name] = text .. "\n" end
end

local function decode(list)
  local header = {}
  for _, section in ipairs(list) do
    header[section.name] = assert(features.decode(section.id, section.bytes, BIG, header))
  end
  return header
end

local function told(what) return decode(facts.features(what or {})) end

describe("a section", function()
  local values = {
    hostname = "box", osrelease = ("6"):rep(63), version = ("v"):rep(64), arch = "", cpudesc = ("d"):rep(65),
    cpuid = "GenuineIntel,6,85,7", nrcpus = { available = 2, online = 1 }, total_mem = 1 << 40,
    cmdline = { "perfl", "", "-e", "a b\nc", ("x"):rep(300) },
    event_desc = { { name = "cycles", attr = ("a"):rep(4) .. string.pack("=I4", 64) .. ("a"):rep(56), ids = { 1, -2 } },
                   { name = "", attr = ("b"):rep(4) .. string.pack("=I4", 64) .. ("b"):rep(56), ids = {} } },
    cpu_topology = { cores = { "0-1" }, threads = { "0", "1" }, dies = { "0-1" },
                     cpus = { { core = 0, socket = 0, die = 0 }, { core = -1, socket = -1, die = -1 } } },
    numa_topology = { { node = 1, mem_total = 10, mem_free = 1 << 33, cpus = "0-1" } }, branch_stack = true,
    pmu_mappings = { [1] = "software", [4] = "cpu", [300] = "uncore_imc_0" },
    group_desc = { { name = "{a,b}", leader = 0, members = 2 } },
    cache = { { level = 1, line_size = 64, sets = 64, ways = 8, type = "Data", size = "32K", map = "0" } },
    sample_time = { first = 1, last = -2 }, clockid = 1,
    mem_topology = { block_size = 1 << 27, nodes = { { node = 0, size = 130, blocks = { 0, 63, 64, 129 } },
                                                     { node = 1, size = 1, blocks = {} } } },
    compressed = { version = 1, type = 1, level = 22, ratio = 5, mmap_len = 1 << 19 },
    cpu_pmu_caps = { max_precise = "3", branches = "32" },
    clock_data = { version = 1, clockid = 4, wall = 1 << 60, clock = 7 },
    hybrid_topology = { { pmu = "cpu_core", cpus = "0-3" }, { pmu = "cpu_atom", cpus = "4-7" } },
    pmu_caps = { { pmu = "cpu_core", caps = { branches = "32" } }, { pmu = "x", caps = { a = "" } } },
    build_ids = { { pid = -1, misc = 0x8002, build_id = ("0a"):rep(20), filename = "/bin/a b" },
                  { pid = -1, misc = 0x8001, build_id = ("ff"):rep(16), filename = ("n"):rep(4095) } },
  }

  it("is decoded to the value that was encoded", function()
    local header = { nrcpus = values.nrcpus }
    for name, value in pairs(values) do
      if name == "mem_topology" then
        value = { block_size = value.block_size, nodes = { { node = 0, size = 130, blocks = { 0, 63, 64, 129 } },
                                                           { node = 1, size = 1, blocks = {} } } }
      end
      local section = sections.encode(name, values[name])
      assert.equal(features.number(name), section.id)
      assert.same(value, features.decode(section.id, section.bytes, BIG, header), name)
    end
  end)

  it("has perf's layout: texts in 64s with their length, ids in records", function()
    assert.equal(string.pack("=I4", 64) .. "box" .. ("\0"):rep(61), sections.encode("hostname", "box").bytes)
    assert.equal(4 + 128, #sections.encode("hostname", ("x"):rep(64)).bytes)
    local id = { pid = -1, misc = 2, build_id = "0102", filename = "/a" }
    assert.equal(string.pack("=I4I2I2i4", 0, 0x8002, 100, -1) .. "\1\2" .. ("\0"):rep(18) .. "\2\0\0\0/a"
      .. ("\0"):rep(62), sections.encode("build_ids", { id }).bytes)
    assert.equal(67, (string.unpack("=I4", sections.build_id(id, 67))))
  end)

  it("of events has attrs of one size, the smallest that fits all", function()
    local small, large = core.attr_new { type = 1 }:bytes(), core.attr_new { type = 1, sig_data = 5 }:bytes()
    local list, size = sections.attrs { small, large }
    assert.equal(#large, size)
    for i, fields in ipairs { { sig_data = 0 }, { sig_data = 5 } } do
      local attr = assert(core.attr_parse(list[i]))
      assert.equal(size, attr.size)
      assert.equal(fields.sig_data, attr.sig_data)
    end
    assert.equal(64, select(2, sections.attrs { small }))
  end)
end)

describe("the facts in a recording's header", function()
  it("of an x86 machine come from /proc and /sys", function()
    files("/proc/", { ["sys/kernel/hostname"] = "box", ["sys/kernel/arch"] = "x86_64",
      meminfo = "MemTotal:       2048 kB\nMemFree:  1 kB",
      cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n"
        .. "model name\t: Intel(R)   Xeon  @ 2.0GHz\nstepping\t: 7\n\nprocessor\t: 1\nmodel\t: 99" })
    files(CPU .. "/", { present = "0-3" })
    for cpu = 0, 1 do
      files(("%s/cpu%d/topology/"):format(CPU, cpu), { core_id = cpu, physical_package_id = "0", die_id = "0",
        package_cpus_list = "0-1", core_cpus_list = tostring(cpu), die_cpus_list = "0-1" })
      local caches = { [0] = { "1", "Data", cpu }, { "1", "Instruction", cpu }, { "2", "Unified", "0-1" } }
      for index, cache in pairs(caches) do
        files(("%s/cpu%d/cache/index%d/"):format(CPU, cpu, index), { level = cache[1], type = cache[2],
          shared_cpu_list = cache[3], coherency_line_size = "64", number_of_sets = "64", ways_of_associativity = "8",
          size = "32K" })
      end
    end
    files(NODE, { ["/online"] = "0", ["/node0/meminfo"] = "Node 0 MemTotal:  2048 kB\nNode 0 MemFree:  24 kB",
      ["/node0/cpulist"] = "0-1", ["/node0/memory0/state"] = "", ["/node0/memory65/state"] = "" })
    files("/sys/devices/system/memory/", { block_size_bytes = "8000000" })
    local header = told { version = "perfev 1" }
    assert.equal("box", header.hostname)
    assert.equal("6.18.0", header.osrelease)
    assert.equal("perfev 1", header.version)
    assert.equal("x86_64", header.arch)
    assert.same({ available = 4, online = 2 }, header.nrcpus)
    assert.equal("Intel(R) Xeon @ 2.0GHz", header.cpudesc)
    assert.equal("GenuineIntel,6,85,7", header.cpuid)
    assert.equal(2048, header.total_mem)
    assert.same({ cores = { "0-1" }, threads = { "0", "1" }, dies = { "0-1" },
      cpus = { { core = 0, socket = 0, die = 0 }, { core = 1, socket = 0, die = 0 },
               { core = -1, socket = -1, die = -1 }, { core = -1, socket = -1, die = -1 } } }, header.cpu_topology)
    assert.same({ { node = 0, mem_total = 2048, mem_free = 24, cpus = "0-1" } }, header.numa_topology)
    assert.same({ block_size = 1 << 27, nodes = { { node = 0, size = 66, blocks = { 0, 65 } } } }, header.mem_topology)
    local seen = {}
    for i, cache in ipairs(header.cache) do seen[i] = ("L%d %s %s"):format(cache.level, cache.type, cache.map) end
    assert.same({ "L1 Data 0", "L1 Instruction 0", "L1 Data 1", "L1 Instruction 1", "L2 Unified 0-1" }, seen)
    assert.same({ [1] = "software", [2] = "tracepoint", [5] = "breakpoint" }, header.pmu_mappings)
  end)

  it("of an arm64 machine have the processor's MIDR without its revision", function()
    files("/proc/", { ["sys/kernel/arch"] = "aarch64", cpuinfo = "processor\t: 0\nCPU implementer\t: 0x41" })
    files(CPU .. "/cpu0/regs/identification/", { midr_el1 = "0x00000000413fd0c1" })
    local header = told()
    assert.equal("0x00000000410fd0c0", header.cpuid)
    assert.is_nil(header.cpudesc)
  end)

  it("of a machine with two kinds of cores include both, with their capabilities", function()
    k = sim.new { world = "intel_hybrid" }
    perfev.hooks.set(k.hooks)
    local header = told()
    assert.same({ { pmu = "cpu_core", cpus = "0-3" }, { pmu = "cpu_atom", cpus = "4-7" } }, header.hybrid_topology)
    assert.equal("cpu_atom", header.pmu_caps[1].pmu)
    assert.equal("32", header.pmu_caps[2].caps.branches)
    assert.is_nil(header.cpu_pmu_caps)
  end)

  it("that are not available have no section, and nothing raises", function()
    local known = { osrelease = true, arch = true, nrcpus = true, pmu_mappings = true, pmu_caps = true }
    for name in pairs(told()) do assert.is_true(known[name], name) end
    perfev.hooks.set { strict = true, slurp = function() return nil, perfev.errno.EACCES end,
      list = function() return nil, perfev.errno.EACCES end, stat = function() return nil, perfev.errno.EACCES end,
      getpid = function() return 1 end }
    assert.same({ arch = core.machine, pmu_caps = {} }, told())
  end)

  it("of the recorder include its events, groups, branch stacks and clock", function()
    local attr = core.attr_new { type = 1, config = 3, sample_type = { "ip", "branch_stack" } }
    k.now = 5000
    local header = told { argv = { "perfl", "record" }, clockid = 1,
      groups = { { name = "{a,b}", leader = 0, members = 2 } },
      events = { { name = "a", attr = attr, ids = { 7, 8 } }, { name = "b", attr = attr:bytes() } } }
    assert.same({ "perfl", "record" }, header.cmdline)
    assert.same({ 7, 8 }, header.event_desc[1].ids)
    assert.same({ name = "b", attr = attr:bytes(), ids = {} }, header.event_desc[2])
    assert.is_true(header.branch_stack)
    assert.same({ { name = "{a,b}", leader = 0, members = 2 } }, header.group_desc)
    assert.equal(1, header.clockid)
    assert.equal(5000, header.clock_data.clock)
    assert.is_nil(told { events = { { name = "a", attr = core.attr_new { type = 1 } } } }.branch_stack)
  end)

  it("are sorted by their numbers, as in the file", function()
    local last = 0
    for _, section in ipairs(facts.features { argv = { "a" }, version = "1", clockid = 1 }) do
      assert.is_true(section.id > last, section.name)
      last = section.id
    end
  end)

  it("include as much of a command line as fits in a pipe, and mark the rest", function()
    local argv = {}
    for i = 1, 300 do argv[i] = ("x"):rep(2000) end
    for _, section in ipairs(facts.features { argv = argv }) do
      if section.name == "cmdline" then
        local words = decode { section }.cmdline
        assert.is_true(#section.bytes <= 0xffff - 16)
        assert.is_true(#words > 20 and #words < 300)
        assert.equal("...", words[#words])
        return
      end
    end
    error "no command line"
  end)
end)

describe("build ids", function()
  local O_PATH = 0x200000
  local function note(name, type, desc, to, order)
    local function fill(text) return text .. ("\0"):rep(-#text % (to or 4)) end
    return fill(fill(string.pack((order or "=") .. "I4I4I4", #name, #desc, type) .. name) .. desc)
  end
  local kernel_notes = note("Linux\0", 6, "x") .. note("GNU\0", 3, ("\xab"):rep(20)) .. note("GNU\0", 3, "z")

  it("are found among notes, and not after them", function()
    assert.equal(("ab"):rep(20), build_id.of_notes(kernel_notes))
    for len = 0, #kernel_notes - 1 do
      local id = build_id.of_notes(kernel_notes:sub(1, len))
      assert.is_true(id == nil or id == ("ab"):rep(20))
    end
    assert.is_nil(build_id.of_notes(string.pack("=I4I4I4", -1 & 0xffffffff, 20, 3) .. "GNU\0" .. ("x"):rep(40)))
  end)

  local function id_of(path)
    local file <close> = core.file(path)
    return build_id.of_file(file)
  end

  it("of a file are found in its notes at any place, padding, class and byte order", function()
    -- bits, byte order, padding, offset of the notes
    for _, case in ipairs { { 64, "<", 4, 0x100 }, { 64, ">", 8, 0x200 }, { 64, "<", 8, 0x20000 },
                            { 32, "<", 4, 0x5003 }, { 32, ">", 8, 0x5000 } } do
      local bits, order, to, at = table.unpack(case)
      local notes = note("GNU\0", 5, ("p"):rep(12), to, order) .. note("GNU\0", 3, ("\xcd"):rep(16), to, order)
      k.files["/lib/notes"] = elf.notes_file { bits = bits, order = order, align = to, offset = at, notes = notes }
      assert.equal(("cd"):rep(16), id_of "/lib/notes")
    end
  end)

  it("of a file are read from its notes only, also in a damaged file", function()
    k.files["/lib/app"] = program
    assert.equal(PROGRAM_ID, id_of "/lib/app")
    for len = 0, 480, 7 do
      k.files["/lib/app"] = program:sub(1, len)
      local id = id_of "/lib/app"
      assert.is_true(id == nil or id == PROGRAM_ID)
    end
    -- every byte of the header and of the program headers, turned
    for at = 5, 64 + 7 * 56 do
      k.files["/lib/app"] = program:sub(1, at - 1) .. string.char(program:byte(at) ~ 0xff) .. program:sub(at + 1)
      local id = id_of "/lib/app"
      assert.is_true(id == nil or #id <= 40)
    end
    for _, call in ipairs(k.log) do
      local size = call:match("^pread%(%d+, (%d+)")
      assert.is_true(not size or tonumber(size) <= 65536, call)
    end
    assert.same({}, k:leaks())
  end)

  -- Of files that tasks have mapped: { filename, kernel =, ino =, pid =, build_id = }.
  local function found(maps)
    local list, out = {}, {}
    for i, map in ipairs(maps) do
      list[i] = { filename = map[1], misc = map.kernel and 1 or 2, pid = map.pid or 7, build_id = map.build_id,
                  ino = not map.build_id and (map.ino or k.inodes[map[1]] or 0) or nil }
    end
    for _, section in ipairs(facts.features_at_end { maps = list }) do
      for _, id in ipairs(decode { section }.build_ids) do
        out[#out + 1] = ("%s %s%s"):format(id.filename, id.build_id, id.misc & 7 == 1 and " kernel" or "")
      end
    end
    return out
  end

  it("of a recording are those of the mapped kernel, modules and programs", function()
    k.files["/bin/app"], k.files["/proc/8/root/bin/inner"] = program, program
    k.inodes["/bin/app"], k.inodes["/proc/8/root/bin/inner"] = 77, 78
    k.files["/sys/kernel/notes"] = kernel_notes
    k.files["/sys/module/snd_hda/notes/.note.gnu.build-id"] = note("GNU\0", 3, ("\x0e"):rep(20))
    k.files["/sys/module/ext4/notes/.note.gnu.build-id"] = note("GNU\0", 3, ("\x0f"):rep(20))
    assert.same({
      "[kernel.kallsyms] " .. ("ab"):rep(20) .. " kernel",
      "/lib/modules/6.1/kernel/sound/snd-hda.ko.xz " .. ("0e"):rep(20) .. " kernel",
      "[ext4] " .. ("0f"):rep(20) .. " kernel",
      "/bin/app " .. PROGRAM_ID,
      "/bin/inner " .. PROGRAM_ID,
      "[vdso] " .. ("05"):rep(20),
    }, found { { "[kernel.kallsyms]_text", kernel = true },
               { "/lib/modules/6.1/kernel/sound/snd-hda.ko.xz", kernel = true }, { "[ext4]", kernel = true },
               { "[gone]", kernel = true }, { "[../../etc]", kernel = true }, { "/bin/app" },
               { "/bin/inner", pid = 8, ino = 78 }, { "[vdso]", build_id = ("\5"):rep(20) }, { "//anon" },
               { "[stack]" } })
  end)

  it("of a replaced file or of a file that is not regular are left out", function()
    k.files["/bin/app"], k.files["/bin/new"], k.files["/dev/x/y"] = program, program, program
    k.inodes["/bin/app"], k.inodes["/bin/new"], k.inodes["/dev/x"] = 77, 79, 80
    assert.same({ "/bin/app " .. PROGRAM_ID }, found { { "/bin/app" }, { "/bin/new", ino = 78 }, { "/dev/x" },
      { "/bin/app (deleted)", ino = 77 } })
    for _, call in ipairs(k.log) do -- to open a device may do something
      local flags = call:match "^open%(/dev/x, (%d+)"
      assert.is_true(not flags or tonumber(flags) & O_PATH ~= 0, call)
    end
  end)

  it("are skipped without maps, but the times of samples are still written", function()
    assert.same({}, facts.features_at_end {})
    assert.same({ sample_time = { first = 5, last = 9 } },
      decode(facts.features_at_end { first_time = 5, last_time = 9 }))
  end)
end)

describe("core.stat", function()
  it("returns a simulated file's inode, own or next, and a namespace's from its link", function()
    k = sim.new { files = { ["/a"] = "x", ["/d/b"] = "x", ["/no"] = perfev.errno.EACCES }, inodes = { ["/a"] = 5000 },
                  links = { ["/ns"] = "net:[77]" } }
    perfev.hooks.set(k.hooks)
    assert.same({ dev = 1, ino = 5000, mode = 0x81a4, uid = 0, size = 1 }, core.stat "/a")
    local dir = core.stat "/d"
    assert.equal(0x41ed, dir.mode)
    assert.same(dir, core.stat "/d")
    assert.not_equal(dir.ino, core.stat("/d/b").ino)
    assert.same({ dev = 4, ino = 77, mode = 0x81a4, uid = 0, size = 0 }, core.stat "/ns")
    assert.same({ nil, "/no", perfev.errno.EACCES }, { core.stat "/no" })
    assert.same({ nil, "/gone", perfev.errno.ENOENT }, { core.stat "/gone" })
  end)

  it("returns the hook's answer, which is checked", function()
    local answer
    local hooks = { strict = true, stat = function() return table.unpack(answer, 1, 2) end }
    perfev.hooks.set(hooks)
    answer = { { dev = 1, ino = -1, mode = 0x81a4, uid = 65534, size = 7 } }
    assert.same(answer[1], core.stat "/a")
    answer = { { ino = "x" } }
    assert.same({ dev = 0, ino = 0, mode = 0, uid = 0, size = 0 }, core.stat "/a")
    answer = { nil, perfev.errno.EACCES }
    assert.same({ nil, "/a", perfev.errno.EACCES }, { core.stat "/a" })
    answer = { 5 }
    assert.error_matches(function() core.stat "/a" end,
      "hook 'stat' returned number; expected a table, or nil and an errno")
    perfev.hooks.clear()
  end)

  it("has a companion, core.part, which reads a part within the file's bounds", function()
    k.files["/a"] = "0123456789"
    assert.equal("34", core.part("/a", 3, 2))
    assert.equal("89", core.part("/a", 8, 5))
    assert.equal("", core.part("/a", 10, 5))
    assert.equal("", core.part("/a", 0, 0))
    assert.equal("", core.part("/a", math.maxinteger, 1 << 20))
    assert.same({ nil, "/b", perfev.errno.ENOENT }, { core.part("/b", 0, 5) })
    assert.error_matches(function() core.part("/a", -1, 5) end, "not an offset in a file")
    assert.error_matches(function() core.part("/a", 0, (1 << 20) + 1) end, "longer than a part may be")
    k:fail("pread", 1, perfev.errno.EIO)
    assert.same({ nil, "/a", perfev.errno.EIO }, { core.part("/a", 0, 5) })
    assert.same({}, k:leaks())
  end)
end)

describe("the formats of tracepoints", function()
  it("are read unchanged, once per system, with the tables needed to print them", function()
    k.files["/sys/kernel/tracing/events/header_page"] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
      .. "\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n"
    k.files["/sys/kernel/tracing/events/header_event"] = "# compressed entry header\n"
    k.files["/sys/kernel/tracing/printk_formats"] = "0xffffffff81000000 : \"%s\"\n"
    k.files["/sys/kernel/tracing/saved_cmdlines"] = "1 init\n"
    k:tracepoint("ftrace:function", 1, "unsigned long ip")
    local bytes = assert(tracing.write { "sched:sched_switch", "raw_syscalls:sys_enter", "sched:sched_wakeup",
      "sched:sched_switch", "ftrace:function", "sched:gone", "no name", "../../etc:passwd" })
    local data, why = tracing.read(bytes)
    assert.is_nil(why)
    assert.equal("0.6", data.version)
    assert.equal(BIG, data.big)
    assert.equal(4, data.long_size) -- the kernel's, which its rings supply
    assert.equal(core.pagesize(), data.page_size)
    assert.equal(k.files["/sys/kernel/tracing/events/header_event"], data.header_event)
    assert.equal(k.files["/sys/kernel/tracing/printk_formats"], data.printk)
    assert.equal("1 init\n", data.cmdlines)
    assert.equal(1, select(2, bytes:gsub("name: sched_switch\n", "")))
    assert.equal("", data.kallsyms)
    local names = {}
    for id, format in pairs(data.formats) do
      local name = format.system .. ":" .. format.name
      names[name] = id
      assert.equal(k.files["/sys/kernel/tracing/events/" .. name:gsub(":", "/") .. "/format"], format.format)
    end
    assert.same({ ["sched:sched_switch"] = 316, ["sched:sched_wakeup"] = 319, ["raw_syscalls:sys_enter"] = 395,
                  ["ftrace:function"] = 1 }, names)
  end)

  it("are refused with the cause if tracefs cannot be read", function()
    perfev.hooks.set { strict = true, list = function() return nil, perfev.errno.EACCES end }
    local bytes, why, code = tracing.write { "sched:sched_switch" }
    assert.is_nil(bytes)
    assert.matches("cannot be read by this user\n  try: as root", why)
    assert.equal(perfev.errno.EACCES, code)
  end)
end)

describe("the synthesised state before a recording", function()
  local FIELDS = { type = 1, config = 9, mmap = true, mmap2 = true, comm = true, task = true, sample_id_all = true,
                   sample_type = { "tid", "time", "id", "stream_id", "cpu", "identifier" } }

  local function attr_of(more)
    local fields = {}
    for name, value in pairs(FIELDS) do fields[name] = value end
    for name, value in pairs(more or {}) do fields[name] = value end
    return core.attr_new(fields)
  end

  local function maps(pid, text) k.files[("/proc/%d/maps"):format(pid)] = text end

  -- Every record, decoded.
  local function tasks(opts, more)
    local attr, records = attr_of(more), {}
    opts.attr, opts.id = attr, 42
    local decoder = codec.decoder { attr = attr, ids = { 42 } }
    for bytes in synthesise.tasks(opts) do
      local pos = 1
      while pos <= #bytes do
        local size = string.unpack("=I2", bytes, pos + 6)
        assert.equal(0, size % 8)
        records[#records + 1] = assert(decoder:decode(bytes:sub(pos, pos + size - 1)))
        pos = pos + size
      end
      assert.equal(#bytes + 1, pos)
    end
    return records
  end

  local function line(r)
    local name = r.filename or r.comm or r.path or r.type == "fork" and ("of %d"):format(r.ppid) or ""
    return ("%s %d/%d %s"):format(r.type, r.pid or 0, r.tid or 0, name)
  end

  local function lines(opts, more)
    local out = {}
    for i, r in ipairs(tasks(opts, more)) do out[i] = line(r) end
    return out
  end

  it("has the kernel, then each task as in perf: its parent, its name, its maps", function()
    k:task(1, "init")
    k:task(50, "app")
    k:task(50, "worker", 51)
    maps(50, "00400000-00401000 r--p 00000000 fd:01 41 /bin/app\n00401000-00402000 r-xp 00001000 fd:01 41 /bin/app\n"
      .. "00500000-00501000 rw-s 00000000 00:00 0\n7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n")
    assert.same({ "mmap -1/0 [kernel.kallsyms]_text", "fork 1/1 of 1", "comm 1/1 init", "fork 50/50 of 1",
      "comm 50/50 app", "mmap2 50/50 /bin/app", "mmap2 50/50 //anon", "fork 50/51 of 50", "comm 50/51 worker" },
      lines { all = true })
    assert.same({ "mmap -1/0 [kernel.kallsyms]_text", "fork 50/50 of 1", "comm 50/50 app", "mmap2 50/50 /bin/app",
      "mmap2 50/50 //anon", "fork 50/51 of 50", "comm 50/51 worker" }, lines { pids = { 50 } })
  end)

  it("has time 0, its task's ids and the id of the requesting event", function()
    k:task(50, "app")
    maps(50, "00401000-00402000 r-xp 00001000 fd:1a 41      /bin/app\n")
    local r = tasks({ pids = { 50 } })[4]
    assert.same({ pid = 50, tid = 50, time = 0, id = 42, stream_id = 42, cpu = 0, identifier = 42 }, r.sample_id)
    for name, value in pairs { addr = 0x401000, len = 0x1000, pgoff = 0x1000, maj = 0xfd, min = 0x1a, ino = 41,
                               prot = 5, flags = 2, misc = 2, filename = "/bin/app" } do
      assert.equal(value, r[name], name)
    end
    for _, more in ipairs { { sample_id_all = false }, { sample_type = { "ip" } }, { sample_type = { "tid" } } } do
      for _, one in ipairs(tasks({ pids = { 50 } }, more)) do assert.is_nil(one.malformed) end
    end
  end)

  it("is marked as synthesised by the reader", function()
    k:task(50, "app")
    local b = perfdata.new { events = { { ids = { 42 }, attr = FIELDS, name = "dummy" } } }
    for bytes in synthesise.tasks { all = true, attr = attr_of(), id = 42 } do b:add(bytes) end
    local rec = assert(perfdata.open(b:file()))
    local names = {}
    for r, _, synthesised in rec:records() do
      assert.is_true(synthesised)
      assert.equal("dummy", r.event.name)
      names[#names + 1] = r.type
    end
    rec:close()
    assert.same({ "mmap", "fork", "comm" }, names)
  end)

  it("includes data maps if the caller or the attr requests them", function()
    k:task(50, "app")
    maps(50, "00400000-00401000 r--p 00000000 fd:01 41 /bin/app\n00600000-00601000 -w-p 0 fd:01 41 /bin/app\n"
      .. "00700000-00701000 rw-s 0 00:01 9 /dev/zero (deleted)\n")
    local data = tasks { pids = { 50 }, data = true }
    assert.equal(5, #data)
    assert.is_true(data[4].mmap_data)
    assert.equal("/dev/zero (deleted)", data[5].filename)
    assert.equal(1, data[5].flags) -- MAP_SHARED
    assert.equal(5, #tasks({ pids = { 50 } }, { mmap_data = true }))
    assert.equal(3, #tasks { pids = { 50 } })
  end)

  it("includes the kernel's text as in kallsyms, or at zero if that is hidden", function()
    local function kernel() return tasks({ pids = {} })[1] end
    k.files["/proc/kallsyms"] = "0000000000000000 A fixed\nffffffff81000000 T _stext\nffffffff81000000 T _text\n"
      .. "ffffffff81000010 t _text.cold\nffffffff82000000 T _etext\n"
    local r = kernel()
    assert.same({ 0xffffffff81000000, 0x1000000, 0xffffffff81000000, 1 }, { r.addr, r.len, r.pgoff, r.misc })
    k.files["/proc/kallsyms"] = "c0008000 T _stext\nc0009000 t _etext\n"
    r = kernel()
    assert.same({ 0xc0008000, 0x1000, "[kernel.kallsyms]_stext" }, { r.addr, r.len, r.filename })
    k.files["/proc/kallsyms"] = "0000000000000000 T _text\n0000000000000000 T _etext\n"
    r = kernel()
    assert.same({ 0, 0, "[kernel.kallsyms]_text" }, { r.addr, r.len, r.filename })
  end)

  it("has the text's end from /proc/iomem, so that not all symbols are read", function()
    k.files["/proc/kallsyms"] = "ffffffff81000000 T _stext\nffffffff81000000 T _text\n"
      .. ("ffffffff81000010 t f\n"):rep(4096) .. "ffffffff82000000 T _etext\n"
    local function kernel(code)
      k.files["/proc/iomem"] = "00001000-0009fbff : System RAM\n  " .. code .. " : Kernel code\n"
      local r = tasks({ pids = {} })[1]
      return { r.addr, r.len, r.filename }
    end
    assert.same({ 0xffffffff81000000, 0x20bb08, "[kernel.kallsyms]_text" }, kernel "01000000-0120bb07")
    assert.is_nil(table.concat(k.log, "\n"):find("slurp(/proc/kallsyms)", 1, true))
    assert.same({ 0xffffffff81000000, 0x1000000, "[kernel.kallsyms]_text" }, kernel "00000000-00000000") -- hidden
  end)

  it("includes each module with its file, if the kernel shows its address", function()
    k.files["/proc/modules"] = "snd_hda 4096 1 snd, Live 0xffffffffc0001000 (OE)\n"
      .. "ext4 8192 2 - Live 0xffffffffc0004000\nhidden 4096 0 - Live 0x0000000000000000\n"
    k.files["/lib/modules/6.18.0/modules.dep"] = "kernel/sound/snd-hda.ko.xz: kernel/sound/snd.ko\n"
      .. "kernel/sound/snd.ko:\n"
    local found = {}
    for i, r in ipairs(tasks { pids = {} }) do
      found[i] = ("%s %x %x %d"):format(r.filename, r.addr, r.len, r.misc)
    end
    table.remove(found, 1)
    assert.same({ "/lib/modules/6.18.0/kernel/sound/snd-hda.ko.xz ffffffffc0001000 1000 1",
                  "[ext4] ffffffffc0004000 2000 1" }, found)
  end)

  it("includes BPF programs on request, each up to the next or the end of the next page", function()
    k.files["/proc/kallsyms"] = "ffffffff81000000 T _text\nffffffffc0200000 t x\t[bpf_like]\n"
      .. "ffffffffc0001100 t bpf_prog_2_b\t[bpf]\nffffffffc0001040 t bpf_prog_1_a\t[bpf]\n"
      .. "ffffffffc0100ff0 t bpf_trampoline_6\t[bpf]\n0000000000000000 t hidden\t[bpf]\n"
    local function found(opts)
      local list = {}
      for _, r in ipairs(tasks(opts)) do
        if r.type == "ksymbol" then
          list[#list + 1] = ("%s %x %x %d %d"):format(r.name, r.addr, r.len, r.ksym_type, r.flags)
        end
      end
      return list
    end
    assert.same({ "bpf_prog_1_a ffffffffc0001040 c0 1 0", "bpf_prog_2_b ffffffffc0001100 1f00 1 0",
                  "bpf_trampoline_6 ffffffffc0100ff0 1010 1 0" }, found { pids = {}, bpf = true })
    assert.same({}, found { pids = {} })
    k.files["/proc/kallsyms"] = nil
    assert.same({}, found { pids = {}, bpf = true })
  end)

  it("includes namespaces and cgroups if the attr requests them", function()
    k:task(50, "app")
    for i, name in ipairs { "net", "uts", "ipc", "pid", "user", "mnt" } do
      k.links["/proc/50/task/50/ns/" .. name] = ("%s:[%d]"):format(name, 4026531800 + i)
    end
    k.files["/proc/mounts"] = "cgroup2 /cg cgroup2 rw 0 0\n"
    k.files["/cg/cgroup.procs"], k.files["/cg/a.slice/cgroup.procs"], k.files["/cg/a.slice/b/cgroup.procs"] = "", "", ""
    k.inodes["/cg"], k.inodes["/cg/a.slice"], k.inodes["/cg/a.slice/b"] = 1, 1 << 33 | 5, 9
    local paths, found = {}, nil
    for _, r in ipairs(tasks({ pids = { 50 } }, { namespaces = true, cgroup = true })) do
      if r.type == "cgroup" then paths[#paths + 1] = ("%d %s"):format(r.id, r.path) end
      if r.type == "namespaces" then found = r.namespaces end
    end
    assert.same({ "1 /", ("%d /a.slice"):format(1 << 33 | 5), "9 /a.slice/b" }, paths)
    assert.same({ dev = 4, inode = 4026531801 }, found.net)
    assert.same({ dev = 4, inode = 4026531806 }, found.mnt)
    assert.same({ dev = 0, inode = 0 }, found.cgroup) -- not there
  end)

  it("includes the process of a named thread, once", function()
    k:task(50, "app")
    k:task(50, "worker", 51)
    k.files["/proc/51/status"] = "Name:\tworker\nTgid:\t50\nPid:\t51\n"
    assert.same({ "mmap -1/0 [kernel.kallsyms]_text", "fork 50/50 of 1", "comm 50/50 app", "fork 50/51 of 50",
      "comm 50/51 worker" }, lines { pids = { 51, 50 } })
  end)

  it("leaves out tasks that have ended meanwhile", function()
    k:task(50, "app")
    k:task(51, "gone")
    k.files["/proc/51/task/51/stat"], k.files["/proc/51/stat"] = perfev.errno.ESRCH, perfev.errno.ESRCH
    k:task(52, "last")
    k.files["/proc/52/maps"] = perfev.errno.EACCES
    k:task(52, "thread", 53)
    k.files["/proc/52/task/53/stat"] = perfev.errno.ESRCH
    assert.same({ "mmap -1/0 [kernel.kallsyms]_text", "fork 50/50 of 1", "comm 50/50 app", "fork 52/52 of 1",
      "comm 52/52 last" }, lines { pids = { 50, 51, 52, 99 } })
  end)

  it("has names as in the kernel, of any bytes, and cut as in the kernel", function()
    k:task(50, "a) S 1 (b\nc ))")
    maps(50, "1000-2000 r-xp 0 0:0 1 /tmp/a b\\012c (deleted)\n2000-3000 --xp 0 0:0 0 [anon:jit code]\n"
      .. "3000-4000 r-xp 0 0:0 1 /" .. ("d"):rep(9000) .. "\n"
      .. "ffffffffff600000-ffffffffff601000 --xp 0 0:0 0  [vsyscall]\n")
    local r = tasks { pids = { 50 } }
    assert.equal("a) S 1 (b\nc ))", r[3].comm)
    assert.equal("/tmp/a b\nc (deleted)", r[4].filename)
    assert.equal("//anon", r[5].filename)
    assert.equal(4095, #r[6].filename)
    assert.equal("[vsyscall]", r[7].filename)
    assert.equal(0x1000, r[7].len)
    k:task(60, "worker/u64:3-events")
    assert.equal("worker/u64:3-ev", tasks({ pids = { 60 } })[3].comm)
  end)

  it("has a kworker's name without its present work, and a rescuer's name unchanged", function()
    k:task(60, "kworker/u64:3-events_unbound")
    k:task(61, "kworker/1:2H+kblockd")
    k:task(62, "kworker/R-netns")
    local r = tasks { pids = { 60, 61, 62 } }
    assert.same({ "kworker/u64:3", "kworker/1:2H", "kworker/R-netns" }, { r[3].comm, r[5].comm, r[7].comm })
  end)

  it("reads no maps of the kernel's own tasks", function()
    k:task(2, "kthreadd")
    k.files["/proc/2/task/2/stat"] = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 0\n"
    maps(2, "1000-2000 r-xp 0 0:0 1 /not/asked\n")
    assert.same({ "mmap -1/0 [kernel.kallsyms]_text", "fork 2/2 of 0", "comm 2/2 kthreadd" }, lines { all = true })
    local listed = false
    for _, call in ipairs(k.log) do listed = listed or call:find("/proc/2/task)", 1, true) ~= nil end
    assert.is_false(listed) -- its file lists itself alone
  end)
end)
