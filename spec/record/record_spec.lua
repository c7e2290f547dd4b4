-- Decoded records: for the kernel's own bytes and those of spec/support/wire.lua, a session must return the fields that
-- were encoded.

local core = require "perfev.core"
local perfev = require "perfev"
local registers = require "perfev.record.registers"
local sim = require "perfev.sim"
local some = require "spec.support.some"
local wire = require "spec.support.wire"

local SAMPLE = {}
for name, bit in pairs(wire.sample_bits) do SAMPLE[name] = 1 << bit end
local FORMAT_GROUP = 8
local HW_INDEX, COUNTERS = 1 << 17, 1 << 19

local random = math.random

-- Deliver bytes on behalf of the one event of a session -> copies of the records, stats.
-- spec: attr fields. as_opened(attr): the attr as the kernel opened it, if it differs.
local function deliver(spec, write, as_opened)
  local k = sim.new { cpus = "0" }
  if as_opened then
    local open = k.hooks.perf_event_open
    k.hooks.perf_event_open = function(attr, ...)
      as_opened(attr)
      return open(attr, ...)
    end
  end
  return perfev.hooks.with(k.hooks, function()
    local seen = {}
    local s = perfev.session { ordered = false, buffer = "256K" }
    local decl = { type = 1, config = 0, sample_period = 1, comm = true, task = true,
                   record = function(r) seen[#seen + 1] = r:copy() end }
    for name, value in pairs(spec) do decl[name] = value end
    s:event(decl)
    assert(s:start())
    write(k, k.events[1])
    s:dispatch()
    s:close()
    return seen, s:totals()
  end)
end

-- One record of ours -> its copy, the attr it was written by.
local function round_trip(spec, type, fields)
  local attr
  local seen, stats = deliver(spec, function(k, event)
    attr = event.attr
    assert(k:emit(event, type, fields))
  end)
  assert.equal(0, stats.malformed)
  assert.equal(1, #seen)
  return seen[1], attr
end

-- ---- the kernel's own bytes ----

-- A vector with its own attr, ids and all: the session takes the attr the kernel gave it.
local function vector(sample_type, hex, id, also)
  local bytes = wire.bytes(hex)
  local seen, stats = deliver({}, function(k, event)
    event.enabled = true
    k:push(event, bytes)
  end, function(attr)
    attr.sample_type = sample_type
    for name, value in pairs(also or {}) do attr[name] = value end
  end)
  assert.equal(1, #seen, "id " .. id .. " unknown: " .. stats.unknown_id .. ", malformed: " .. stats.malformed)
  return seen[1]
end

-- The kernel counts ids; the first event of ours gets the vector's.
local function with_id(id, f)
  local new = sim.new
  sim.new = function(opts)
    local k = new(opts)
    k.last_id = id - 1
    return k
  end
  local ok, why = pcall(f)
  sim.new = new
  if not ok then error(why, 0) end
end

-- A vector without an id: its header and body, with the trailer that perfev's session requests.
local function body_of(hex, len)
  local bytes = wire.bytes(hex)
  local number, misc = string.unpack("=I4I2", bytes)
  local attr
  local seen = deliver({}, function(k, event)
    attr = event.attr
    local body = bytes:sub(9, len)
    local fields = k:_stamp(event, "x", { sample_id = { pid = 11, tid = 12 } })
    k:push(event, wire.frame(number, misc, body .. wire.trailer(attr, fields.sample_id)))
  end)
  assert.equal(1, #seen)
  assert.equal(11, seen[1].sample_id.pid)
  assert.equal(12, seen[1].sample_id.tid)
  return seen[1]
end

local function has(expected, record)
  for name, value in pairs(expected) do assert.same(value, record[name], name) end
end

local TRAILED = SAMPLE.tid | SAMPLE.time | SAMPLE.id | SAMPLE.stream_id | SAMPLE.cpu | SAMPLE.identifier

describe("bytes captured from a kernel", function()
  local it = require "spec.support.skip"(it, function()
    if string.pack("=I2", 1) ~= "\1\0" then
      pending "they are of a little-endian one; kernel_bytes_spec reads them here"
    end
  end)

  it("MMAP with a trailer: the file's name ends at its NUL", function()
    with_id(7086, function()
      local r = vector(TRAILED, [[0100000002206000 997c0000997c0000 00501add097f0000 0020000000000000 00501add097f0000
        2f2f616e6f6e0000 997c0000997c0000 cf0336e98d010000 ae1b000000000000 ae1b000000000000 0000000000000000
        ae1b000000000000]], 7086)
      has({ type = "mmap", cpumode = "user", mmap_data = true, pid = 31897, tid = 31897, addr = 0x7f09dd1a5000,
            len = 0x2000, pgoff = 0x7f09dd1a5000, filename = "//anon", size = 96,
            sample_id = { pid = 31897, tid = 31897, time = 0x18de93603cf, id = 7086, stream_id = 7086, cpu = 0,
                          identifier = 7086 } }, r)
    end)
  end)

  local B = SAMPLE.tid | SAMPLE.identifier

  it("MMAP2 with a build id", function()
    with_id(7087, function()
      local r = vector(B, [[0a00000002406800 997c0000997c0000 0020fadc097f0000 0010000000000000 0000000000000000
        14000000c89156eb dabf859f4ee70cb0 c303004dccf1ae51 0500000002000000 2f7573722f62696e 2f74727565000000
        997c0000997c0000 af1b000000000000]], 7087, { build_id = true })
      has({ type = "mmap2", build_id = wire.bytes "c89156ebdabf859f4ee70cb0c303004dccf1ae51", prot = 5, flags = 2,
            filename = "/usr/bin/true", identifier = 7087, addr = 0x7f09dcfa2000 }, r)
      assert.is_nil(r.ino)
    end)
  end)

  it("MMAP2 whose build-id bit leaked from another event: the inode", function()
    with_id(7088, function()
      local r = vector(B, [[0a00000002406800 997c0000997c0000 0020fadc097f0000 0010000000000000 0000000000000000
        fe00000000000000 4bc9030000000000 0000000000000000 0500000002000000 2f7573722f62696e 2f74727565000000
        997c0000997c0000 b01b000000000000]], 7088)
      has({ maj = 254, min = 0, ino = 248139, ino_generation = 0, identifier = 7088, misc = 0x4002 }, r)
      assert.is_nil(r.build_id)
    end)
  end)

  it("MMAP2 of a file without a build id, when one is requested", function()
    with_id(7087, function()
      local r = vector(B, [[0a00000002006800 997c0000997c0000 0010fadc097f0000 0010000000000000 0000000000000000
        fe00000000000000 dd02000000000000 0000000000000000 0500000002000000 2f6574632f686f73 746e616d65000000
        997c0000997c0000 af1b000000000000]], 7087, { build_id = true })
      has({ maj = 254, ino = 733, filename = "/etc/hostname" }, r)
    end)
  end)

  it("FORK of a thread, FORK of a process by a thread, and EXIT of that process", function()
    has({ type = "fork", pid = 682, ppid = 682, tid = 683, ptid = 682, time = 0x1a1c9a34bc3 },
      body_of("0700000000002800 aa020000aa020000 ab020000aa020000 c34ba3c9a1010000 aa020000aa020000", 32))
    has({ type = "fork", pid = 684, ppid = 682, tid = 684, ptid = 683 },
      body_of("0700000000002800 ac020000aa020000 ac020000ab020000 8e7aa4c9a1010000 aa020000ab020000", 32))
    has({ type = "exit", pid = 684, ppid = 682, tid = 684, ptid = 682 },
      body_of("0400000000002800 ac020000aa020000 ac020000aa020000 d78fa5c9a1010000 ac020000ac020000", 32))
  end)

  it("SWITCH, out and in, with an empty body", function()
    has({ type = "switch", out = true, preempt = false, number = 14 }, body_of("0e00000000200800", 8))
    has({ type = "switch", out = false }, body_of("0e00000000000800", 8))
    has({ type = "switch", out = true, raw = nil },
      body_of("0e00000000202000 997c0000997c0000 155562e98d010000 0000000000000000", 8))
  end)

  it("SWITCH_CPU_WIDE: the next task and the previous task", function()
    has({ type = "switch_cpu_wide", out = true, preempt = true, next_prev_pid = 31897, next_prev_tid = 31897 },
      body_of("0f00000000602800 997c0000997c0000 0000000000000000 86cb84e98d010000 0000000000000000", 16))
    has({ out = false, preempt = false, next_prev_pid = 0, next_prev_tid = 0 },
      body_of("0f00000000002800 0000000000000000 997c0000997c0000 f0ea84e98d010000 0000000000000000", 16))
  end)

  it("KSYMBOL and BPF_EVENT of a BPF program", function()
    with_id(7093, function()
      local G = SAMPLE.time | SAMPLE.identifier
      has({ type = "ksymbol", addr = 0xffffffffc0022068, len = 20, ksym_type = 1, flags = 0,
            name = "bpf_prog_59f4a931744dcdc6_perfev", time = 0x18de988e08c, identifier = 7093 },
        vector(G, [[1100000000005000 682002c0ffffffff 1400000001000000 6270665f70726f67 5f35396634613933
          3137343464636463 365f706572666576 0000000000000000 8ce088e98d010000 b51b000000000000]], 7093))
      has({ type = "bpf_event", bpf_type = 1, flags = 0, id = 117, tag = wire.bytes "59f4a931744dcdc6" },
        vector(G, [[1200000000002800 0100000075000000 59f4a931744dcdc6 f4fa88e98d010000
          b51b000000000000]], 7093))
    end)
  end)

  it("a tracepoint's sample with RAW only", function()
    -- No identifier in it: the word where one would be is made the event's id.
    with_id(0x0100013500000014, function()
      local r = vector(SAMPLE.raw, "0900000002002000 1400000035010001 9c09000027000000 0000000000000000",
        0x0100013500000014, { sample_id_all = false })
      assert.equal(20, #r.raw)
      local type, flags, preempt, pid, nr = string.unpack("<I2BBi4i8", r.raw)
      assert.same({ 309, 0, 1, 2460, 39 }, { type, flags, preempt, pid, nr })
    end)
  end)

  it("LOST, then the SAMPLE that follows it", function()
    with_id(7125, function()
      local seen = deliver({}, function(k, event)
        k:push(event, wire.bytes [[0200000000002800 d51b000000000000 e700000000000000 a8020000a8020000 d51b000000000000
          0900000002001800 d51b000000000000 a8020000a8020000]]:sub(1, 40))
        k:push(event, wire.bytes "0900000002001800 d51b000000000000 a8020000a8020000")
      end, function(attr) attr.sample_type, attr.read_format = SAMPLE.tid | SAMPLE.identifier, 0 end)
      has({ type = "lost", id = 7125, lost = 231, pid = 680, tid = 680, identifier = 7125 }, seen[1])
      has({ type = "sample", identifier = 7125, pid = 680, tid = 680, cpumode = "user" }, seen[2])
    end)
  end)

  it("READ with every format but GROUP", function()
    with_id(7095, function()
      local r = vector(SAMPLE.tid | SAMPLE.identifier, [[0800000000004800 9e7c00009e7c0000 1b01000000000000
        ba4b070000000000 ba4b070000000000 b71b000000000000 0000000000000000 9e7c00009e7c0000 b71b000000000000]],
        7095, { read_format = 1 | 2 | 4 | 16 })
      has({ type = "read", pid = 31902,
            read = { value = 283, time_enabled = 478138, time_running = 478138, id = 7095, lost = 0 } }, r)
    end)
  end)

  it("COMM of a thread that renames itself, and COMM of an exec", function()
    has({ type = "comm", pid = 681, tid = 681, comm = "kid", exec = false },
      body_of("0300000000001800 a9020000a9020000 6b69640000000000", 24))
    has({ comm = "true", exec = true, pid = 22191 },
      body_of("0300000000202800 af560000af560000 7472756500000000 af560000af560000 8d8b681d84020000", 24))
  end)
end)

-- ---- ours ----

local X86_REGISTERS = 0xff0fff -- without ds, es, fs, gs, which x86_64 does not sample
local s32, u64 = some.s32, some.u64
local others, type_names = some.others, some.type_names

-- Does the view show this value for a field that was written as wanted?
local function same(name, wanted, got, attr)
  if name == "callchain" then got = got and got.raw end
  wanted = some.shown(name, wanted, attr, registers.of(core.machine))
  if type(wanted) == "table" then return assert.same(wanted, got, name) end
  if wanted ~= got then assert.equal(wanted, got, name) end
end

describe("an encoded record", function()
  it("decodes to the same values for 3,000 random attrs, a sample and another record of each", function()
    for seed = 1, some.times(3000) do
      math.randomseed(seed)
      local spec = some.attr(X86_REGISTERS)
      local kind = type_names[seed % #type_names + 1]
      local sample, other, attr
      local seen, stats = deliver(spec, function(k, event)
        attr = event.attr
        sample, other = some.sample(attr), others[kind](attr)
        other.sample_id = { pid = s32(), tid = s32(), time = u64(), id = u64(), stream_id = u64(), cpu = random(0, 99) }
        assert(k:emit(event, "sample", sample))
        assert(k:emit(event, kind, other))
      end)
      if #seen ~= 2 then error(("seed %d: %d records, %d malformed"):format(seed, #seen, stats.malformed)) end
      sample.misc, other.misc = sample.misc or 0, other.misc or 0
      for name, value in pairs(sample) do
        local bit = name == "pid" and "tid" or name
        local there = name == "misc" or name == "type" or name == "weight" or wire.has(attr, bit)
        same(name, there and value or nil, seen[1][name], attr)
      end
      if sample.branch_stack == nil and wire.has(attr, "branch_stack") then
        assert.same({}, seen[1].branch_stack)
      end
      assert.equal(sample.misc & wire.misc.exact_ip ~= 0, seen[1].exact_ip)
      assert.equal(kind, seen[2].type)
      for name, value in pairs(other) do
        if name ~= "sample_id" then same(name, value, seen[2][name], attr) end
      end
      for name, value in pairs(other.sample_id) do
        local bit = name == "pid" and "tid" or name
        same(name, wire.has(attr, bit) and value or nil, seen[2].sample_id[name], attr)
      end
    end
  end)

  for number, kind in ipairs { "mmap", "lost", "comm", "exit", "throttle", "unthrottle", "fork", "read", "sample",
    "mmap2", "aux", "itrace_start", "lost_samples", "switch", "switch_cpu_wide", "namespaces", "ksymbol",
    "bpf_event", "cgroup", "text_poke", "aux_output_hw_id", "callchain_deferred" } do
    it(("has a name for its type: type %d is %s"):format(number, kind), function()
      math.randomseed(number)
      local r = round_trip({}, kind, kind == "sample" and {} or others[kind] { read_format = 31 & ~8 })
      assert.equal(kind, r.type)
      assert.equal(number, r.number)
    end)
  end

  it("has its flags by name", function()
    local function flags(type, misc, fields)
      fields = fields or {}
      fields.misc = misc
      return round_trip({}, type, fields)
    end
    local map = { filename = "/x", maj = 0, min = 0, ino = 0, ino_generation = 0, prot = 0, flags = 0 }
    has({ exec = true }, flags("comm", 0x2000, { comm = "x" }))
    has({ fork_exec = true }, flags("fork", 0x2000))
    has({ mmap_data = true, proc_map_parse_timeout = false }, flags("mmap", 0x2002, map))
    has({ mmap_data = false, proc_map_parse_timeout = true, cpumode = "user" }, flags("mmap2", 0x1002, map))
    has({ out = true, preempt = false }, flags("switch", 0x2000))
    has({ out = true, preempt = true }, flags("switch_cpu_wide", 0x6000))
    has({ exact_ip = true, cpumode = "kernel" }, flags("sample", 0x4001))
    for mode, name in pairs { [0] = "unknown", "kernel", "user", "hypervisor", "guest_kernel", "guest_user" } do
      assert.equal(name, flags("sample", mode).cpumode)
    end
    assert.is_nil(flags("sample", 0xffff).exec)
    assert.is_nil(flags("comm", 0xffff, { comm = "" }).exact_ip)
  end)

  it("splits a callchain at its context markers", function()
    local function chain(...) return round_trip({ callchain = true }, "sample", { callchain = { ... } }).callchain end
    local c = chain(-128, 0x10, 0x20, -512, 0x30)
    assert.same({ 0x10, 0x20 }, c.kernel)
    assert.same({ 0x30 }, c.user)
    assert.same({ -128, 0x10, 0x20, -512, 0x30 }, c.raw)
    c = chain(-32, 1, -2048, 2, -2176, 3, -2560, 4)
    assert.same({ { 1 }, { 2 }, { 3 }, { 4 } }, { c.hypervisor, c.guest, c.guest_kernel, c.guest_user })
    assert.same({ raw = {} }, chain())
    c = chain(-128, 7, -640, 99)
    assert.same({ 7 }, c.kernel)
    assert.equal(99, c.cookie)
    assert.is_nil(c.user)
    c = chain(-128, 1, -512, 2, -128, 3) -- nested: an interrupt in the kernel
    assert.same({ 1, 3 }, c.kernel)
  end)

  it("has a stack without bytes beyond its dyn_size", function()
    local spec = { sample_type = { "stack_user" }, sample_stack_user = 64 }
    assert.equal("abc", round_trip(spec, "sample", { stack_user = "abc", stack_size = 64 }).stack_user)
    assert.equal("", round_trip(spec, "sample", { stack_user = "", stack_size = 64 }).stack_user)
    assert.equal("", round_trip(spec, "sample", { stack_user = "", stack_size = 0 }).stack_user)
  end)

  it("distinguishes an empty branch stack from a missing one by the size", function()
    local spec = { sample_type = { "branch_stack", "regs_user", "weight" }, sample_regs_user = 3,
                   branch_sample_type = HW_INDEX | 9 }
    for _, given in ipairs { "nothing", "empty" } do
      for abi = 0, 2 do
        local r = round_trip(spec, "sample", {
          branch_stack = given == "empty" and { hw_idx = 0 } or nil,
          regs_user = { abi = abi, [0] = 5, [1] = 6 }, weight = 77,
        })
        assert.same(given == "empty" and { hw_idx = 0 } or {}, r.branch_stack)
        assert.equal(abi, r.regs_user.abi)
        assert.equal(77, r.weight)
      end
    end
  end)

  it("may have branches without the requested counters, because some PMUs have none", function()
    local r = round_trip({ sample_type = { "branch_stack", "weight" }, branch_sample_type = COUNTERS | 9 }, "sample",
      { branch_stack = { { from = 1, to = 2 }, { from = 3, to = 4 }, without_counters = true }, weight = 5 })
    assert.equal(2, #r.branch_stack)
    assert.is_nil(r.branch_stack[1].counters)
    assert.equal(5, r.weight)
  end)

  it("ends a string at the first NUL, and not beyond the trailer", function()
    local r = round_trip({}, "comm", { comm = "a\0b" })
    assert.equal("a", r.comm)
    -- without a NUL: a tool's mistake, or a hostile file
    local seen = deliver({}, function(k, event)
      local id = k:_stamp(event, "comm", {}).sample_id
      k:push(event, wire.frame(3, 0, string.pack("=i4i4", 1, 2) .. "abcdefgh" .. wire.trailer(event.attr, id)))
    end)
    assert.equal("abcdefgh", seen[1].comm)
  end)

  it("keeps every bit of u64", function()
    for _, value in ipairs { 0, 1, math.maxinteger, math.mininteger, -1 } do
      local r = round_trip({ sample_type = { "addr", "period" } }, "sample", { addr = value, period = value })
      assert.equal(value, r.addr)
      assert.equal(value, r.period)
    end
  end)

  it("of an unknown type is delivered unchanged", function()
    for _, number in ipairs { 23, 63, 87, 32769 } do
      local attr
      local seen, stats = deliver({}, function(k, event)
        attr = event.attr
        local fields = k:_stamp(event, "new", { number = number, body = "12345678", misc = 3 })
        k:push(event, wire.record(attr, "new", fields))
      end)
      has({ type = "unknown", number = number, misc = 3, pid = 1000, cpu = 0 }, seen[1])
      assert.equal("12345678", seen[1].raw:sub(1, 8))
      assert.equal(0, stats.malformed)
    end
  end)
end)

-- ---- cut ----

-- Everything a script may do to a record.
local function touch(r)
  for name in pairs(r) do local _ = r[name] end
  for _, name in ipairs { "comm", "raw", "bytes", "sample_id", "callchain", "read", "args", "event", "filename" } do
    local _ = r[name]
  end
  tostring(r)
  return r:copy()
end

-- Cut record after record at every 8 bytes; keep: how much of its end stays.
local function cut_all(keep)
  local total, delivered, malformed, unknown = 0, 0, 0, 0
  for seed = 1, 22 * 8 do
    math.randomseed(seed)
    local kind = seed % 22 == 0 and "sample" or type_names[seed % 22]
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s = perfev.session { ordered = false, buffer = "256K", on_error = function(text) error(text) end }
      local spec = some.attr(X86_REGISTERS)
      spec.type, spec.config, spec.sample_period, spec.comm, spec.task = 1, 0, 1, true, true
      spec.record = touch
      s:event(spec)
      assert(s:start())
      local event = k.events[1]
      local f = kind == "sample" and some.sample(event.attr) or others[kind](event.attr)
      local whole = wire.record(event.attr, kind, k:_stamp(event, kind, f))
      local tail = keep and kind ~= "sample" and wire.trailer(event.attr, f.sample_id) or ""
      for size = 8 + #tail, #whole, 8 do
        local body = whole:sub(9, size - #tail) .. tail
        assert(k:push(event, string.pack("=I4I2I2", wire.types[kind], f.misc or 0, size) .. body))
        total = total + 1
        if total % 50 == 0 then s:dispatch() end
      end
      s:dispatch()
      s:close()
      local stats = s:totals()
      assert.equal(0, stats.corrupt)
      assert.equal(0, stats.callback_errors)
      delivered, malformed = delivered + stats.delivered, malformed + stats.malformed
      unknown = unknown + stats.unknown_id
    end)
  end
  return total, delivered, malformed, unknown
end

describe("a truncated record", function()
  it("cut at every 8 bytes, trailer included, is unknown, malformed or shorter", function()
    local total, delivered, malformed, unknown = cut_all(false)
    assert.is_true(malformed > 300, malformed)
    assert.is_true(unknown > 100, unknown)
    assert.is_true(delivered > 176, delivered)
    assert.is_true(delivered + malformed + unknown <= total)
  end)

  it("cut at every 8 bytes before its trailer is malformed or shorter, and each is counted", function()
    local total, delivered, malformed, unknown = cut_all(true)
    assert.equal(total, delivered + malformed + unknown)
    assert.is_true(malformed > 500)
  end)

  it("is malformed when a count inside leads past its end, by any distance", function()
    for _, nr in ipairs { 2, 0xffff, 1 << 32, 1 << 60, 1 << 61, math.maxinteger, math.mininteger, -1 } do
      local cases = {
        { "callchain", { sample_type = { "callchain" } } },
        { "branch_stack", { sample_type = { "branch_stack" }, branch_sample_type = 9 } },
        { "branch_stack", { sample_type = { "branch_stack" }, branch_sample_type = 9 | HW_INDEX | COUNTERS } },
        { "stack_user", { sample_type = { "stack_user" }, sample_stack_user = 8 } },
        { "aux", { sample_type = { "aux" } } },
        { "read", { sample_type = { "read" }, read_format = FORMAT_GROUP } },
      }
      for _, case in ipairs(cases) do
        local seen, stats = deliver(case[2], function(k, event)
          local attr = event.attr
          local f = k:_stamp(event, "sample", { read = { values = {} } })
          local whole = wire.record(attr, "sample", f)
          -- the varying field is the last, its count the last word (before hw_idx)
          k:push(event, wire.frame(9, 0, whole:sub(9, 40) .. string.pack("=I8", nr)))
        end)
        assert.equal(0, #seen, case[1])
        assert.equal(1, stats.malformed, case[1])
      end
      for _, number in ipairs { 16, 22 } do
        local seen, stats = deliver({}, function(k, event)
          local f = k:_stamp(event, "x", {})
          k:push(event, wire.frame(number, 0, string.pack("=I8I8", 0, nr) .. wire.trailer(event.attr, f.sample_id)))
        end)
        assert.equal(0, #seen)
        assert.equal(1, stats.malformed)
      end
    end
  end)

  it("is malformed when longer than its fields: fields of newer kernels are not guessed", function()
    local seen, stats = deliver({}, function(k, event)
      local whole = wire.record(event.attr, "sample", k:_stamp(event, "sample", {}))
      k:push(event, wire.frame(9, 0, whole:sub(9) .. ("\0"):rep(8)))
    end)
    assert.equal(0, #seen)
    assert.equal(1, stats.malformed)
  end)
end)

-- ---- without a session ----

local ORDERS = { little = "<", big = ">" }

-- Call f with wire.lua writing in that byte order.
local function in_order(endian, f)
  wire.order = ORDERS[endian]
  local ok, why = pcall(f)
  wire.order = "="
  if not ok then error(why, 0) end
end

local function copy_of(t, also)
  local out = {}
  for key, value in pairs(t) do out[key] = value end
  for key, value in pairs(also or {}) do out[key] = value end
  return out
end

local function some_sample_id(attr)
  local id = { pid = s32(), tid = s32(), time = u64(), id = u64(), stream_id = u64(), cpu = math.random(0, 99),
               identifier = u64() }
  for name in pairs(id) do -- in any order: all are drawn already
    if not attr.sample_id_all or not wire.has(attr, name == "pid" and "tid" or name) then id[name] = nil end
  end
  return id
end

local function equal(wanted, got, what)
  if wanted == got then return end
  if type(wanted) ~= "table" or type(got) ~= "table" then
    error(("%s: %s, not %s"):format(what, tostring(got), tostring(wanted)), 0)
  end
  for key, value in pairs(wanted) do equal(value, got[key], what .. "." .. tostring(key)) end
  for key in pairs(got) do
    if wanted[key] == nil then error(("%s.%s: was not there"):format(what, tostring(key)), 0) end
  end
end

-- The trailer read forwards, from where the body is known to end.
local function trailer_from_start(attr, bytes, at)
  local order, id = wire.order, {}
  local function word(name)
    if wire.has(attr, name) then
      id[name], at = string.unpack(order .. "i8", bytes, at)
    end
  end
  if wire.has(attr, "tid") then id.pid, id.tid, at = string.unpack(order .. "i4i4", bytes, at) end
  word "time"
  word "id"
  word "stream_id"
  if wire.has(attr, "cpu") then
    id.cpu, at = string.unpack(order .. "i4", bytes, at), at + 8
  end
  word "identifier"
  assert(at == #bytes + 1, "the trailer is the record's end")
  return id
end

-- The expected result of x: every field by its value, each flag as misc says.
local function check_fields(x, t, attr, names)
  for name, value in pairs(x) do
    if name == "callchain" then
      equal(value, t.callchain.raw, name)
    elseif name ~= "sample_id" and not (name == "cpu" and x.type == "sample") then
      equal(some.shown(name, value, attr, names), t[name], name)
    end
  end
  if x.type == "sample" then equal(x.cpu, t.cpu, "cpu") end
end

-- One record of an attr: encoded by wire.lua, decoded to the same values, encoded again to the same bytes.
local function round(decoder, spec, attr, kind, x, names)
  local ours = perfev.encode(spec, copy_of(x, { type = kind }))
  local theirs = wire.record(attr, kind, copy_of(x, { stack_junk = "\0" }))
  if ours ~= theirs then error(("%s: the encoders differ"):format(kind), 0) end
  local t, after = decoder:decode(ours)
  if not t then error(kind .. ": " .. after, 0) end
  equal(#ours + 1, after, "next position")
  equal(kind, t.type, "type")
  check_fields(x, t, attr, names)
  if perfev.encode(spec, t) ~= ours then error(kind .. ": what was decoded is encoded otherwise", 0) end
  equal(x.sample_id or {}, t.sample_id, "sample_id")
  if x.sample_id and attr.sample_id_all then
    local len = #wire.trailer(attr, x.sample_id)
    equal(trailer_from_start(attr, ours, #ours - len + 1), t.sample_id, "trailer from the start")
    if wire.has(attr, "identifier") then equal(x.sample_id.identifier, decoder:id(ours), "id") end
  end
  return ours
end

-- A sample and another record by this attr.
local function rounds(attr, endian, kind, arch)
  local spec = copy_of(attr, { endian = endian, arch = arch })
  local names = require "perfev.record.registers".of(arch)
  local decoder = assert(perfev.decoder(spec))
  in_order(endian, function()
    local sample = some.sample(attr)
    sample.identifier = wire.has(attr, "identifier") and u64() or nil
    if sample.stack_user then sample.stack_size = (#sample.stack_user + 7) // 8 * 8 + 8 * math.random(0, 2) end
    round(decoder, spec, attr, "sample", sample, names)
    local other = some.others[kind](attr)
    other.sample_id = some_sample_id(attr)
    round(decoder, spec, attr, kind, other, names)
  end)
end

local ARCHS = { "x86", "arm64", "riscv", "s390x", "powerpc" }

describe("decode(encode(x)) == x", function()
  local function attempt(attr, seed, what)
    local endian = seed % 2 == 0 and "little" or "big"
    math.randomseed(seed)
    attr.sample_id_all = attr.sample_id_all == nil and math.random(3) > 1 or attr.sample_id_all
    local ok, why = pcall(rounds, attr, endian, type_names[seed % #type_names + 1], ARCHS[seed % #ARCHS + 1])
    if not ok then error(("%s %d (%s, sample_type 0x%x): %s"):format(what, seed, endian, attr.sample_type, why), 0) end
  end

  local function with(sample_type, seed)
    math.randomseed(seed)
    local attr = some.attr()
    attr.sample_type = sample_type
    return attr
  end

  it("for 20,000 random attrs, a sample and another record of each", function()
    for seed = 1, some.times(20000) do
      math.randomseed(seed)
      local attr = some.attr()
      if seed % 3 == 0 then attr.sample_type = attr.sample_type | SAMPLE.identifier end
      attempt(attr, seed, "seed")
    end
  end)

  it("for every bit of sample_type and every two bits, in both byte orders", function()
    local nr = 0
    for a = 0, 24 do
      for b = a, 24 do
        local bits = 1 << a | 1 << b
        if bits ~= SAMPLE.weight | SAMPLE.weight_struct then
          for i = 0, 3 do
            nr = nr + 1
            attempt(with(bits, nr), 1000 * nr + i, "pair")
          end
        end
      end
    end
    assert.equal(4 * (25 * 26 / 2 - 1), nr)
  end)

  it("for every kind of record and every single bit, with a trailer and without", function()
    for bit = 0, 24 do
      for n = 1, #type_names do
        local attr = with(1 << bit, n)
        attr.sample_id_all = n % 2 == 0
        attempt(attr, n + #type_names * (bit + 1), "kind")
      end
    end
  end)
end)

-- Bytes cut at every length: with the original header, and with a header of the cut size.
local function cut_at_every_length(decoder, bytes, order)
  local shorter, refused = 0, 0
  for len = 0, #bytes - 1 do
    local cut = bytes:sub(1, len)
    local t, why = decoder:decode(cut)
    assert(t == nil and type(why) == "string")
    if len >= 8 then
      t, why = decoder:decode(cut:sub(1, 6) .. string.pack(order .. "I2", len) .. cut:sub(9))
      assert(t and t.size == len and why == len + 1 or not t and type(why) == "string")
      if t then shorter = shorter + 1 else refused = refused + 1 end
    end
  end
  return shorter, refused
end

describe("a record cut at every length", function()
  it("is an error or a shorter record with any attr", function()
    local shorter, refused = 0, 0
    for seed = 1, some.times(40) * 22 do
      math.randomseed(seed)
      local attr = some.attr()
      attr.sample_id_all = seed % 2 == 0
      local kind = seed % 22 == 0 and "sample" or type_names[seed % 22]
      local endian = seed % 3 == 0 and "big" or "little"
      local decoder = assert(perfev.decoder(copy_of(attr, { endian = endian })))
      in_order(endian, function()
        local x = kind == "sample" and some.sample(attr) or some.others[kind](attr)
        x.sample_id = kind ~= "sample" and some_sample_id(attr) or nil
        local a, b = cut_at_every_length(decoder, wire.record(attr, kind, x), wire.order)
        shorter, refused = shorter + a, refused + b
      end)
    end
    assert.is_true(shorter > some.times(1000), shorter)
    assert.is_true(refused > some.times(10000), refused)
  end)
end)
