-- Records, decoded: the kernel's own bytes, and whatever spec/support/wire.lua writes by
-- the kernel's order, must come out of a session as the fields that went in.

local perfev = require "perfev"
local kernel = require "spec.support.kernel"
local wire = require "spec.support.wire"

local SAMPLE = {}
for name, bit in pairs(wire.sample_bits) do SAMPLE[name] = 1 << bit end
local FORMAT_GROUP = 8
local HW_INDEX, COUNTERS = 1 << 17, 1 << 19

local random = math.random

-- Deliver bytes on behalf of the one event of a session -> copies of the records, stats.
-- spec: attr fields. as_opened(attr): what the kernel made of the attr, if not what we asked for.
local function deliver(spec, write, as_opened)
  local k = kernel.new { cpus = "0" }
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
    return seen, s:stats()
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
  local new = kernel.new
  kernel.new = function(opts)
    local k = new(opts)
    k.last_id = id - 1
    return k
  end
  local ok, why = pcall(f)
  kernel.new = new
  if not ok then error(why, 0) end
end

-- A vector without an id: its header and body, with the trailer that our session asks for.
local function body_of(hex, len)
  local bytes = wire.bytes(hex)
  local number, misc = string.unpack("=I4I2", bytes)
  local attr
  local seen = deliver({}, function(k, event)
    attr = event.attr
    local body = bytes:sub(9, len)
    local fields = k:stamp(event, "x", { sample_id = { pid = 11, tid = 12 } })
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
  it("MMAP with a trailer: the file's name ends where it ends", function()
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

  it("MMAP2 of a file without a build id, though asked for one", function()
    with_id(7087, function()
      local r = vector(B, [[0a00000002006800 997c0000997c0000 0010fadc097f0000 0010000000000000 0000000000000000
        fe00000000000000 dd02000000000000 0000000000000000 0500000002000000 2f6574632f686f73 746e616d65000000
        997c0000997c0000 af1b000000000000]], 7087, { build_id = true })
      has({ maj = 254, ino = 733, filename = "/etc/hostname" }, r)
    end)
  end)

  it("FORK of a thread, of a process by a thread, and that one's EXIT", function()
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

  it("SWITCH_CPU_WIDE: whom it switches to, and from", function()
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

  it("a tracepoint's sample of RAW alone", function()
    -- No identifier in it: the word where one would be is made the event's id.
    with_id(0x0100013500000014, function()
      local r = vector(SAMPLE.raw, "0900000002002000 1400000035010001 9c09000027000000 0000000000000000",
        0x0100013500000014, { sample_id_all = false })
      assert.equal(20, #r.raw)
      local type, flags, preempt, pid, nr = string.unpack("<I2BBi4i8", r.raw)
      assert.same({ 309, 0, 1, 2460, 39 }, { type, flags, preempt, pid, nr })
    end)
  end)

  it("LOST, then the SAMPLE that made room for it", function()
    with_id(7125, function()
      local seen, stats = deliver({}, function(k, event)
        k:push(event, wire.bytes [[0200000000002800 d51b000000000000 e700000000000000 a8020000a8020000 d51b000000000000
          0900000002001800 d51b000000000000 a8020000a8020000]]:sub(1, 40))
        k:push(event, wire.bytes "0900000002001800 d51b000000000000 a8020000a8020000")
      end, function(attr) attr.sample_type, attr.read_format = SAMPLE.tid | SAMPLE.identifier, 0 end)
      has({ type = "lost", id = 7125, lost = 231, pid = 680, tid = 680, identifier = 7125 }, seen[1])
      has({ type = "sample", identifier = 7125, pid = 680, tid = 680, cpumode = "user" }, seen[2])
      assert.equal(231, stats.lost)
    end)
  end)

  it("READ with everything but GROUP", function()
    with_id(7095, function()
      local r = vector(SAMPLE.tid | SAMPLE.identifier, [[0800000000004800 9e7c00009e7c0000 1b01000000000000
        ba4b070000000000 ba4b070000000000 b71b000000000000 0000000000000000 9e7c00009e7c0000 b71b000000000000]],
        7095, { read_format = 1 | 2 | 4 | 16 })
      has({ type = "read", pid = 31902,
            read = { value = 283, time_enabled = 478138, time_running = 478138, id = 7095, lost = 0 } }, r)
    end)
  end)

  it("COMM, of a thread that renames itself and of an exec", function()
    has({ type = "comm", pid = 681, tid = 681, comm = "kid", exec = false },
      body_of("0300000000001800 a9020000a9020000 6b69640000000000", 24))
    has({ comm = "true", exec = true, pid = 22191 },
      body_of("0300000000202800 af560000af560000 7472756500000000 af560000af560000 8d8b681d84020000", 24))
  end)
end)

-- ---- ours ----

local function u64() return random(0) end
local function s32() return random(-1, 1 << 22) end
local function u32() return random(0, 0xffffffff) end
local function u16() return random(0, 0xffff) end

local function bytes(len)
  local out = {}
  for i = 1, len do out[i] = string.char(random(0, 255)) end
  return table.concat(out)
end

local function word(most)
  local out = {}
  for i = 1, random(0, most) do out[i] = string.char(random(1, 255)) end
  return table.concat(out)
end

local function several(most, f)
  local list = {}
  for i = 1, random(0, most) do list[i] = f() end
  return list
end

local function some_read(format)
  local function one()
    return { value = u64(), id = format & 4 ~= 0 and u64() or nil, lost = format & 16 ~= 0 and u64() or nil }
  end
  local read = format & FORMAT_GROUP == 0 and one() or { values = several(5, one) }
  read.time_enabled = format & 1 ~= 0 and u64() or nil
  read.time_running = format & 2 ~= 0 and u64() or nil
  return read
end

local function some_registers(mask)
  local regs = { abi = random(0, 2), mask = mask }
  for bit = 0, 63 do
    if regs.abi ~= 0 and mask >> bit & 1 == 1 then regs[bit] = u64() end
  end
  return regs
end

local function some_branches(attr)
  if random(4) == 1 then return nil end
  local list = several(4, function()
    return {
      from = u64(), to = u64(), mispred = random(2) == 1, predicted = random(2) == 1, in_tx = random(2) == 1,
      abort = random(2) == 1, cycles = u16(), type = random(0, 15), spec = random(0, 3), new_type = random(0, 15),
      priv = random(0, 7), counters = attr.branch_sample_type & COUNTERS ~= 0 and u64() or nil,
    }
  end)
  if attr.branch_sample_type & HW_INDEX ~= 0 then list.hw_idx = random(0, 1 << 30) end
  return list
end

-- Fields of a sample, by the bit that brings them; two for tid.
local makers = {
  ip = u64, time = u64, addr = u64, id = u64, stream_id = u64, period = u64, weight = u64, weight_struct = u64,
  data_src = u64, transaction = u64, phys_addr = u64, cgroup = u64, data_page_size = u64, code_page_size = u64,
  cpu = function() return random(0, 4096) end,
  callchain = function() return several(12, u64) end,
  raw = function() return wire.raw_padded(bytes(random(1, 40))) end,
  stack_user = function() return bytes(random(0, 5) * random(0, 17)) end,
  aux = function() return bytes(8 * random(0, 4)) end,
  branch_stack = some_branches,
  read = function(attr) return some_read(attr.read_format) end,
  regs_user = function(attr) return some_registers(attr.sample_regs_user) end,
  regs_intr = function(attr) return some_registers(attr.sample_regs_intr) end,
}

local function some_sample(attr)
  local f = { misc = random(0, 7) | (random(2) == 1 and wire.misc.exact_ip or 0) }
  for name, make in pairs(makers) do
    if wire.has(attr, name) then f[name == "weight_struct" and "weight" or name] = make(attr) end
  end
  if wire.has(attr, "tid") then f.pid, f.tid = s32(), s32() end
  return f
end

-- Fields of the other records.
local others = {
  mmap = function()
    return { pid = s32(), tid = s32(), addr = u64(), len = u64(), pgoff = u64(), filename = word(200) }
  end,
  lost = function() return { id = u64(), lost = u64() } end,
  comm = function() return { pid = s32(), tid = s32(), comm = word(15) } end,
  exit = function() return { pid = s32(), ppid = s32(), tid = s32(), ptid = s32(), time = u64() } end,
  throttle = function() return { time = u64(), id = u64(), stream_id = u64() } end,
  read = function(attr) return { pid = s32(), tid = s32(), read = some_read(attr.read_format) } end,
  mmap2 = function(attr)
    local f = { pid = s32(), tid = s32(), addr = u64(), len = u64(), pgoff = u64(), prot = u32(), flags = u32(),
                filename = word(200), misc = random(0, 5) }
    if attr.build_id and random(2) == 1 then
      f.build_id, f.misc = bytes(random(0, 20)), f.misc | wire.misc.build_id
    else
      f.maj, f.min, f.ino, f.ino_generation = u32(), u32(), u64(), u64()
      -- 4.9: the bit may be set by another event's record
      if not attr.build_id and random(2) == 1 then f.misc = f.misc | wire.misc.build_id end
    end
    return f
  end,
  aux = function() return { aux_offset = u64(), aux_size = u64(), flags = u64() } end,
  itrace_start = function() return { pid = s32(), tid = s32() } end,
  lost_samples = function() return { lost = u64() } end,
  switch = function() return {} end,
  switch_cpu_wide = function() return { next_prev_pid = s32(), next_prev_tid = s32() } end,
  namespaces = function()
    return { pid = s32(), tid = s32(), namespaces = several(9, function() return { dev = u64(), inode = u64() } end) }
  end,
  ksymbol = function()
    return { addr = u64(), len = u32(), ksym_type = u16(), flags = u16(), name = word(60) }
  end,
  bpf_event = function() return { bpf_type = u16(), flags = u16(), id = u32(), tag = bytes(8) } end,
  cgroup = function() return { id = u64(), path = word(100) } end,
  text_poke = function()
    return { addr = u64(), old_bytes = bytes(random(0, 20)), new_bytes = bytes(random(0, 20)) }
  end,
  aux_output_hw_id = function() return { hw_id = u64() } end,
  callchain_deferred = function() return { cookie = u64(), callchain = several(20, u64) } end,
}
others.fork, others.unthrottle = others.exit, others.throttle

local type_names = {}
for name in pairs(others) do type_names[#type_names + 1] = name end
table.sort(type_names)

local NAMESPACES = { "net", "uts", "ipc", "pid", "user", "mnt", "cgroup" }

-- What the view is to show of a field.
local function shown(name, value)
  if name == "callchain" then return value end
  if name == "namespaces" then
    local by_name = {}
    for i, ns in ipairs(value) do by_name[NAMESPACES[i] or i] = ns end
    return by_name
  end
  return value
end

local function same(name, wanted, got)
  if name == "callchain" then got = got and got.raw end
  if type(wanted) == "table" then return assert.same(shown(name, wanted), got, name) end
  if wanted ~= got then assert.equal(wanted, got, name) end
end

local function some_attr()
  local sample_type = random(0) & ((1 << 25) - 1) & ~SAMPLE.identifier
  if random(3) == 1 then sample_type = sample_type & random(0) end
  if sample_type & SAMPLE.weight ~= 0 then sample_type = sample_type & ~SAMPLE.weight_struct end
  return {
    sample_type = sample_type, read_format = random(0, 31), branch_sample_type = random(0) & ((1 << 20) - 1),
    sample_regs_user = random(0) & random(0), sample_regs_intr = random(0) & random(0), build_id = random(2) == 1,
    sample_stack_user = 64,
  }
end

describe("what the encoder writes", function()
  it("comes out as it went in: 3,000 attrs at random, a sample and another record of each", function()
    for seed = 1, 3000 do
      math.randomseed(seed)
      local spec = some_attr()
      local kind = type_names[seed % #type_names + 1]
      local sample, other, attr
      local seen, stats = deliver(spec, function(k, event)
        attr = event.attr
        sample, other = some_sample(attr), others[kind](attr)
        other.sample_id = { pid = s32(), tid = s32(), time = u64(), id = u64(), stream_id = u64(), cpu = random(0, 99) }
        assert(k:emit(event, "sample", sample))
        assert(k:emit(event, kind, other))
      end)
      if #seen ~= 2 then error(("seed %d: %d records, %d malformed"):format(seed, #seen, stats.malformed)) end
      sample.misc, other.misc = sample.misc or 0, other.misc or 0
      for name, value in pairs(sample) do
        local bit = name == "pid" and "tid" or name
        local there = name == "misc" or name == "weight" or wire.has(attr, bit)
        same(name, there and value or nil, seen[1][name])
      end
      if sample.branch_stack == nil and wire.has(attr, "branch_stack") then
        assert.same({}, seen[1].branch_stack)
      end
      assert.equal(sample.misc & wire.misc.exact_ip ~= 0, seen[1].exact_ip)
      assert.equal(kind, seen[2].type)
      for name, value in pairs(other) do
        if name ~= "sample_id" then same(name, value, seen[2][name]) end
      end
      for name, value in pairs(other.sample_id) do
        local bit = name == "pid" and "tid" or name
        same(name, wire.has(attr, bit) and value or nil, seen[2].sample_id[name])
      end
    end
  end)

  for number, kind in ipairs { "mmap", "lost", "comm", "exit", "throttle", "unthrottle", "fork", "read", "sample",
    "mmap2", "aux", "itrace_start", "lost_samples", "switch", "switch_cpu_wide", "namespaces", "ksymbol",
    "bpf_event", "cgroup", "text_poke", "aux_output_hw_id", "callchain_deferred" } do
    it(("is known by its name: type %d is %s"):format(number, kind), function()
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

  it("parts a callchain by its context markers", function()
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

  it("has a stack without what is beyond its dyn_size", function()
    local spec = { sample_type = { "stack_user" }, sample_stack_user = 64 }
    assert.equal("abc", round_trip(spec, "sample", { stack_user = "abc", stack_size = 64 }).stack_user)
    assert.equal("", round_trip(spec, "sample", { stack_user = "", stack_size = 64 }).stack_user)
    assert.equal("", round_trip(spec, "sample", { stack_user = "", stack_size = 0 }).stack_user)
  end)

  it("tells a branch stack that is empty from one that the hardware did not give, by what fits", function()
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

  it("may have branches without counters though they were asked for: not every PMU has them", function()
    local r = round_trip({ sample_type = { "branch_stack", "weight" }, branch_sample_type = COUNTERS | 9 }, "sample",
      { branch_stack = { { from = 1, to = 2 }, { from = 3, to = 4 }, without_counters = true }, weight = 5 })
    assert.equal(2, #r.branch_stack)
    assert.is_nil(r.branch_stack[1].counters)
    assert.equal(5, r.weight)
  end)

  it("is cut at the first NUL of a string, and not beyond the trailer", function()
    local r = round_trip({}, "comm", { comm = "a\0b" })
    assert.equal("a", r.comm)
    -- no NUL at all: a tool's mistake, or a hostile file
    local seen = deliver({}, function(k, event)
      local id = k:stamp(event, "comm", {}).sample_id
      k:push(event, wire.frame(3, 0, string.pack("=i4i4", 1, 2) .. "abcdefgh" .. wire.trailer(event.attr, id)))
    end)
    assert.equal("abcdefgh", seen[1].comm)
  end)

  it("keeps u64 to the bit", function()
    for _, value in ipairs { 0, 1, math.maxinteger, math.mininteger, -1 } do
      local r = round_trip({ sample_type = { "addr", "period" } }, "sample", { addr = value, period = value })
      assert.equal(value, r.addr)
      assert.equal(value, r.period)
    end
  end)

  it("may be of a type that we do not know: delivered as it is", function()
    for _, number in ipairs { 23, 63, 87, 32769 } do
      local attr
      local seen, stats = deliver({}, function(k, event)
        attr = event.attr
        k:push(event, wire.record(attr, "new", k:stamp(event, "new", { number = number, body = "12345678", misc = 3 })))
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
    local k = kernel.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s = perfev.session { ordered = false, buffer = "256K", on_error = function(text) error(text) end }
      local spec = some_attr()
      spec.type, spec.config, spec.sample_period, spec.comm, spec.task = 1, 0, 1, true, true
      spec.record = touch
      s:event(spec)
      assert(s:start())
      local event = k.events[1]
      local f = kind == "sample" and some_sample(event.attr) or others[kind](event.attr)
      local whole = wire.record(event.attr, kind, k:stamp(event, kind, f))
      local tail = keep and kind ~= "sample" and wire.trailer(event.attr, f.sample_id) or ""
      for size = 8 + #tail, #whole, 8 do
        local body = whole:sub(9, size - #tail) .. tail
        assert(k:push(event, string.pack("=I4I2I2", wire.types[kind], f.misc or 0, size) .. body))
        total = total + 1
        if total % 50 == 0 then s:dispatch() end
      end
      s:dispatch()
      s:close()
      local stats = s:stats()
      assert.equal(0, stats.corrupt)
      assert.equal(0, stats.callback_errors)
      delivered, malformed = delivered + stats.delivered, malformed + stats.malformed
      unknown = unknown + stats.unknown_id
    end)
  end
  return total, delivered, malformed, unknown
end

describe("a record that is cut", function()
  it("at every 8 bytes, its end with it, is nobody's, malformed, or a shorter one", function()
    local total, delivered, malformed, unknown = cut_all(false)
    assert.is_true(malformed > 300, malformed)
    assert.is_true(unknown > 100, unknown)
    assert.is_true(delivered > 176, delivered)
    assert.is_true(delivered + malformed + unknown <= total)
  end)

  it("at every 8 bytes before its trailer, is malformed or a shorter one, and each is counted", function()
    local total, delivered, malformed, unknown = cut_all(true)
    assert.equal(total, delivered + malformed + unknown)
    assert.is_true(malformed > 500)
  end)

  it("is malformed when a count inside leads past its end, however far", function()
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
          local f = k:stamp(event, "sample", { read = { values = {} } })
          local whole = wire.record(attr, "sample", f)
          -- the varying field is the last, its count the last word (before hw_idx)
          k:push(event, wire.frame(9, 0, whole:sub(9, 40) .. string.pack("=I8", nr)))
        end)
        assert.equal(0, #seen, case[1])
        assert.equal(1, stats.malformed, case[1])
      end
      for _, number in ipairs { 16, 22 } do
        local seen, stats = deliver({}, function(k, event)
          local f = k:stamp(event, "x", {})
          k:push(event, wire.frame(number, 0, string.pack("=I8I8", 0, nr) .. wire.trailer(event.attr, f.sample_id)))
        end)
        assert.equal(0, #seen)
        assert.equal(1, stats.malformed)
      end
    end
  end)

  it("is malformed when it is longer than its fields: a newer kernel's, not guessed at", function()
    local seen, stats = deliver({}, function(k, event)
      local whole = wire.record(event.attr, "sample", k:stamp(event, "sample", {}))
      k:push(event, wire.frame(9, 0, whole:sub(9) .. ("\0"):rep(8)))
    end)
    assert.equal(0, #seen)
    assert.equal(1, stats.malformed)
  end)
end)
