-- perfev.open: recordings of other machines. Each recording is written anew by
-- spec/support/transform.lua as a big-endian machine or one of 32 bits had written it, and has to
-- decode to the same values: record by record, feature by feature, event by event.

local core = require "perfev.core"
local fixtures = require "spec.support.fixtures"
local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local run = require "spec.support.run"
local sha256 = require "spec.support.sha256"
local transform = require "spec.support.transform"

local pack = string.pack

-- ---- decoding a recording ----

local function attr_values(attr)
  local out = {}
  for _, field in ipairs(core.attr_fields()) do out[field.name] = attr[field.name] end
  return out
end

-- Bytes that are not decoded stay in the other machine's order.
local function value_of(name, value, big)
  if name == "event_desc" then
    local out = {}
    for i, desc in ipairs(value) do
      local attr = assert(core.attr_parse(desc.attr, big and "big" or "little"))
      out[i] = { name = desc.name, ids = desc.ids, attr = attr_values(attr) }
    end
    return out
  elseif name == "tracing_data" then
    return { formats = value.formats, version = value.version, page_size = value.page_size, printk = value.printk,
             kallsyms = value.kallsyms, cmdlines = value.cmdlines }
  elseif name == "auxtrace" or math.type(name) then
    return #value
  end
  return value
end

local function of_tools(r)
  local out = {}
  for key, value in pairs(r) do out[key] = value end
  out.raw = #r.raw
  return out
end

local function of_kernel(r)
  local out = r:copy()
  out.stack = nil -- each recording has its own, of the callchain
  out.event = r.event and r.event.name
  if r.args then
    out.raw, out.args = #r.raw, {}
    for name, value in pairs(r.args) do out.args[name] = value end
    out.text = tostring(r.args)
  end
  return out
end

local function hex(n) return n == 0 and "0" or ("0x%x"):format(n) end

-- And the digest of all samples, as the fixtures' facts have it.
local function decoded(bytes)
  local rec <close> = assert(perfdata.open(bytes, nil, { ordered = false }))
  local out, lines = { records = {}, features = {}, events = {} }, {}
  for r, offset in rec:records() do
    local t = type(r) == "table" and of_tools(r) or of_kernel(r)
    t.offset = offset
    out.records[#out.records + 1] = t
    if t.type == "sample" then
      lines[#lines + 1] = ("%s %d %d %d %s\n"):format(hex(t.ip or 0), t.pid or -1, t.tid or -1,
        t.period or r.event.attr.sample_period, hex(t.addr or 0))
    end
  end
  table.sort(lines)
  out.digest = sha256(table.concat(lines))
  for name, value in pairs(rec.header) do out.features[name] = value_of(name, value, rec.facts.big) end
  for i, event in ipairs(rec.events) do
    out.events[i] = { name = event.name, ids = event.ids, attr = attr_values(event.attr) }
  end
  local stats = rec:totals()
  out.stats = { types = stats.types, lost = stats.lost, malformed = stats.malformed, unknown_id = stats.unknown_id,
                ambiguous = stats.ambiguous, auxtrace = stats.auxtrace, inflated = stats.inflated }
  out.error = rec.error and rec.error:gsub(" %(type.*", "")
  out.warnings = #rec.warnings
  return out, rec.facts
end

-- One by one, so that a failure names the place of the difference.
local function alike(wanted, got)
  for i, record in ipairs(wanted.records) do
    assert.same(record, got.records[i], "record " .. i)
  end
  for name, value in pairs(wanted.features) do assert.same(value, got.features[name], name) end
  assert.same(wanted, got)
end

-- ---- a recording with everything in it ----

local FORMAT = [[
name: made
ID: 77
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:int a;	offset:8;	size:4;	signed:1;
	field:u16 b;	offset:12;	size:2;	signed:0;
	field:char name[6];	offset:14;	size:6;	signed:0;
	field:__data_loc char[] text;	offset:20;	size:4;	signed:0;
	field:u64 c;	offset:24;	size:8;	signed:0;
	field:u32 list[3];	offset:32;	size:12;	signed:0;
	field:__data_loc unsigned int[] more;	offset:44;	size:4;	signed:0;

print fmt: "%d %u %s %s %llx", REC->a, REC->b, REC->name, __get_str(text), REC->c
]]

local function tracing_data(cmdlines)
  return "\x17\x08\x44tracing" .. "0.6\0" .. "\0\8"
    .. pack("<I4zs8zs8", 4096, "header_page", "page", "header_event", "event")
    .. pack("<I4I4zI4s8", 0, 1, "room", 1, FORMAT) .. pack("<I4I4s8", 0, 0, cmdlines)
end

local function payload()
  local text, more = "dyn\0", pack("<I4I4", 7, 8)
  return pack("<I2BBi4i4I2c6I4i8I4I4I4I4", 77, 1, 2, 1234, -5, 6, "six", 48 | #text << 16, 0x123456789a, 1, 2, 3,
    48 + #text | #more << 16) .. text .. more
end

local all_branches = { "any", "hw_index", "counters" }
local all_reads = { "total_time_enabled", "total_time_running", "id", "group", "lost" }
local everything = {
  type = 0, config = 1, sample_period = 1000, sample_id_all = true, read_format = all_reads, clockid = 4,
  branch_sample_type = all_branches, sample_regs_user = 7, sample_regs_intr = 0x100, sample_stack_user = 16,
  precise_ip = 2, exclude_hv = true, mmap2 = true, build_id = true, config2 = 0x1122334455, wakeup_events = 3,
  use_clockid = true, sample_max_stack = 127, aux_sample_size = 8, sig_data = 0x99,
  sample_type = { "identifier", "ip", "tid", "time", "addr", "id", "stream_id", "cpu", "period", "read", "callchain",
                  "raw", "branch_stack", "regs_user", "stack_user", "weight_struct", "data_src", "transaction",
                  "regs_intr", "phys_addr", "aux", "cgroup", "data_page_size", "code_page_size" },
}
local tracepoint = { type = 2, config = 77, sample_id_all = true,
                     sample_type = { "identifier", "ip", "tid", "time", "cpu", "raw" } }
local alone = { type = 1, sample_id_all = true, read_format = { "id" },
                sample_type = { "identifier", "time", "read", "weight" } }

local function sample()
  return {
    type = "sample", identifier = 11, ip = 0x401000, pid = 7, tid = 8, time = 5, addr = -16, id = 11, stream_id = 12,
    cpu = 3, period = 1001, read = { time_enabled = 1, time_running = 2, values = {
      { value = 5, id = 11, lost = 1 }, { value = 6, id = 12, lost = 0 } } },
    callchain = { -128, -8192, -512, 0x401000, 0x402000 }, raw = "not ours", branch_stack = {
      hw_idx = 3, { from = 1, to = 2, mispred = true, cycles = 513, type = "cond", spec = 1, priv = 2, counters = 9 },
      { from = 3, to = 4, predicted = true, in_tx = true, abort = true, type = 5, counters = 10 } },
    regs_user = { abi = 2, [0] = 1, 2, 3 }, stack_user = "on the stack", stack_size = 16,
    weight = { var1_dw = 1, var2_w = 2, var3_w = 3 }, data_src = 0x68100142, transaction = 4,
    regs_intr = { abi = 2, [8] = 0x401000 }, phys_addr = 0x1000, aux = "12345678", cgroup = 5, data_page_size = 4096,
    code_page_size = 1 << 21,
  }
end

local trailer = { pid = 7, tid = 8, time = 6, id = 11, stream_id = 12, cpu = 1, identifier = 11 }

local records = {
  { type = "mmap", pid = 7, tid = 8, addr = 0x1000, len = 0x2000, pgoff = 1, filename = "/bin/true" },
  { type = "lost", id = 11, lost = 5 }, { type = "comm", pid = 7, tid = 8, comm = "a name" },
  { type = "exit", pid = 7, ppid = 1, tid = 8, ptid = 1, time = 9 },
  { type = "throttle", time = 1, id = 11, stream_id = 12 }, { type = "unthrottle", time = 1, id = 11, stream_id = 12 },
  { type = "fork", pid = 7, ppid = 1, tid = 8, ptid = 1, time = 9 },
  { type = "read", pid = 7, tid = 8, read = { time_enabled = 1, time_running = 2, values = {
    { value = 5, id = 11, lost = 1 } } } },
  { type = "mmap2", pid = 7, tid = 8, addr = 0x1000, len = 0x2000, pgoff = 1, maj = 8, min = 1, ino = 5,
    ino_generation = 6, prot = 5, flags = 2, filename = "/lib/x.so" },
  { type = "mmap2", pid = 7, tid = 8, addr = 0x1000, len = 0x2000, pgoff = 1, build_id = ("\xab"):rep(20), prot = 5,
    flags = 2, filename = "/lib/x.so" },
  { type = "aux", aux_offset = 1, aux_size = 2, flags = 1 }, { type = "itrace_start", pid = 7, tid = 8 },
  { type = "lost_samples", lost = 4 }, { type = "switch", out = true },
  { type = "switch_cpu_wide", next_prev_pid = 9, next_prev_tid = 10 },
  { type = "namespaces", pid = 7, tid = 8, namespaces = { { dev = 3, inode = 4 }, { dev = 5, inode = 6 } } },
  { type = "ksymbol", addr = -4096, len = 64, ksym_type = 1, flags = 1, name = "bpf_prog" },
  { type = "bpf_event", bpf_type = 1, id = 9, tag = "12345678" }, { type = "cgroup", id = 9, path = "/user.slice" },
  { type = "text_poke", addr = -4096, old_bytes = "abcde", new_bytes = "fghij" },
  { type = "aux_output_hw_id", hw_id = 9 }, { type = "callchain_deferred", cookie = 9, callchain = { -512, 0x401000 } },
}

local function add_user_records(built)
  local function user(number, format, ...) built:user(number, built:pack(format, ...)) end
  user(65, "i8c64", 1, "an event") user(67, "i4c24c32", 7, ("\xcd"):rep(20), "/bin/true")
  user(69, "i8i8i8i8i8i8i8i8i8", 2, 11, 0, 1, 8, 21, 1, -1, -1)
  user(70, "I4I4i8i8", 1, 0, 5, 6) user(72, "I4I4i4i4i4I4i8i8c64", 1, 2, 3, 7, 8, 1, 9, 10, "an error")
  user(73, "i8i8c16i8c16", 2, 7, "one", 8, "two")
  user(74, "I2I2I2I2I2", 0, 3, 0, 2, 5) user(74, "I2I2I2I4i8", 1, 1, 8, 0, 5)
  user(74, "I2I2I2I4I4", 1, 2, 4, 5, 1) user(74, "I2BBI2I2", 2, 1, 0, 1, 4)
  user(75, "i8i8i8i8i8", 2, 0, 1, 1, 100) user(76, "i8i4i4i8i8i8", 11, 1, 2, 3, 4, 5) user(77, "i8i8", 1, 99)
  user(78, "i8i8z", 0, 11, "ms") user(78, "i8i8d", 1, 11, 0.25) user(78, "i8i8I2I2I2I2", 3, 11, 0, 2, 0, 1)
  user(78, "i8i8z", 2, 21, "renamed") user(79, "i8i8i8i8i8BBc6", 31, 5, -7, 1, -1, 1, 0, "") user(82, "")
  user(79, "i8i8i8", 1, 2, 3) user(68, "")
  user(71, "i8i8i8i4i4i4i4", 16, 0, 7, 1, 8, 3, 0)
  built:add(("A"):rep(16))
end

local function features_of(built)
  local s = function(text) return built:string(text) end
  local function u(...) return built:pack(("I4"):rep(select("#", ...)), ...) end
  local function w(...) return built:pack(("i8"):rep(select("#", ...)), ...) end
  return {
    [1] = tracing_data "7 sh\n",
    [2] = built:pack("I4I2I2i4c24c28", 0, 1, 64, -1, ("\xef"):rep(20), "[kernel.kallsyms]"),
    [3] = s "host", [4] = s "6.1.0", [5] = s "6.1", [6] = s "x86_64", [7] = u(2, 1), [8] = s "a cpu", [9] = s "id,1",
    [10] = w(16 << 20), [11] = u(2) .. s "perf" .. s "record", [12] = built:event_desc(),
    [13] = u(1) .. s "0-1" .. u(2) .. s "0" .. s "1" .. u(0, 0, 1, 0) .. u(1) .. s "0-1" .. u(0, 0),
    [14] = u(2, 0) .. w(100, 50) .. s "0" .. u(1) .. w(200, 60) .. s "1", [15] = "",
    [16] = u(2, 1) .. s "software" .. u(4) .. s "cpu", [17] = u(1) .. s "{a,b}" .. u(0, 2), [18] = w(1, 2, 3),
    [19] = "", [20] = u(1, 1, 2, 64, 512, 8) .. s "Data" .. s "32K" .. s "0", [21] = w(5, 6),
    [22] = w(1, 1 << 27, 1, 0, 70, 70, 5, 1), [23] = w(1), [24] = w(1), [25] = u(1, 4, 8) .. w(3) .. "infodata1234",
    [26] = u(1, 7, 4) .. "btf!", [27] = u(1, 1, 1, 5, 1 << 20), [28] = u(1) .. s "branches" .. s "32",
    [29] = u(1, 4) .. w(5, 6), [30] = u(2) .. s "cpu_core" .. s "0-1" .. s "cpu_atom" .. s "2-3",
    [31] = u(1, 1) .. s "branches" .. s "32" .. s "cpu_core",
  }
end

local function new_recording()
  local built = perfdata.new { endian = "little", events = {
    { attr = everything, ids = { 11, 12 }, name = "everything" },
    { attr = tracepoint, ids = { 21 }, name = "room:made" }, { attr = alone, ids = { 31 }, name = "alone" },
  } }
  for _, record in ipairs(records) do
    local t = { sample_id = trailer }
    for key, value in pairs(record) do t[key] = value end
    built:add(t)
  end
  built:add(sample())
  built:add { type = "sample", identifier = 21, ip = 1, pid = 7, tid = 8, time = 7, cpu = 1, raw = payload() }
  built:add { type = "sample", identifier = 31, time = 8, read = { value = 1, id = 31 }, weight = 0x1122334455 }
  add_user_records(built)
  built:add { type = "sample", identifier = 31, time = 9, read = { value = 2, id = 31 }, weight = 2 }
  return built:round()
end

-- In a pipe, formats follow a record of their own.
local function pipe_of(built)
  local features = features_of(built)
  local formats = features[1]
  features[1] = nil
  formats = formats .. ("\0"):rep(-#formats % 8)
  table.insert(built.records, 1, built:pack("I4I2I2I4", 66, 0, 12, #formats) .. formats)
  return built:pipe(features)
end

-- Records that go on from one COMPRESSED record to the next, in a frame of blocks that are stored.
local function packed_file()
  local built = new_recording()
  local inner = {}
  for i = 1, #records + 3 do inner[i] = table.remove(built.records, 1) end
  inner = table.concat(inner)
  local outer, n = {}, 0
  for at = 1, #inner, 333 do
    local part = inner:sub(at, at + 332)
    part = (at == 1 and "\x28\xb5\x2f\xfd\x00\x58" or "") .. pack("<I3", #part << 3) .. part
    n = n + 1
    outer[n] = n % 2 == 1 and pack("<I4I2I2", 81, 0, 8 + #part) .. part
      or pack("<I4I2I2i8", 83, 0, 16 + #part + -#part % 8, #part) .. part .. ("\0"):rep(-#part % 8)
  end
  table.move(built.records, 1, #built.records, n + 1, outer)
  built.records = outer
  return built:file(features_of(built))
end

local made = {
  { "a file", function()
    local built = new_recording()
    return built:file(features_of(built))
  end },
  { "a pipe", function() return pipe_of(new_recording()) end },
  { "compressed records", packed_file },
}

describe("the big-endian twin of", function()
  for _, kind in ipairs(made) do
    it(kind[1] .. " decodes to the same values", function()
      local little = kind[2]()
      local twin = transform.big_endian(little)
      assert.equal(#little, #twin)
      local wanted, facts = decoded(little)
      local got, twin_facts = decoded(twin)
      assert.same({ false, true }, { facts.big, twin_facts.big })
      alike(wanted, got)
      -- and there was something to decode
      assert.is_nil(wanted.error)
      assert.same({ 0, 0 }, { wanted.stats.malformed, wanted.warnings })
      assert.is_true(#wanted.records >= #records + 20)
      for _, r in ipairs(wanted.records) do assert.is_nil(r.malformed) end
    end)
  end

  it("an attr has its flags at the other end of their word", function()
    local built = perfdata.new { endian = "little", events = {
      { attr = { disabled = true, precise_ip = 2, sample_type = { "time" } }, ids = { 1 } },
    } }
    local bytes = built:add { type = "sample", time = 5 }:file()
    local at = string.unpack("<i8", bytes, 25) + 40 -- of the flags: the first attr's sixth word
    assert.equal(1 | 2 << 15, (string.unpack("<i8", bytes, at + 1)))
    assert.equal(1 << 63 | 2 << 47, (string.unpack(">i8", transform.big_endian(bytes), at + 1)))
  end)
end)

describe("the 32-bit twin of", function()
  local function differs(wanted)
    wanted.features.arch = "i686"
    for _, r in ipairs(wanted.records) do
      for _, name in ipairs { "regs_user", "regs_intr" } do
        if r[name] then r[name].abi = 1 end
      end
      for i, ip in ipairs(r.callchain and r.callchain.raw or {}) do
        r.callchain.raw[i] = ip < 0 and ip >= -4095 and ip & 0xffffffff or ip
      end
    end
  end

  for _, kind in ipairs(made) do
    for _, order in ipairs { "narrow", "big_narrow" } do
      it(("%s decodes to the same values (%s)"):format(kind[1], order), function()
        local little = kind[2]()
        local wanted = decoded(little)
        local got = decoded(transform[order](little))
        differs(wanted)
        alike(wanted, got)
        local chain
        for _, r in ipairs(got.records) do chain = chain or r.type == "sample" and r.callchain end
        assert.same({ { -8192 }, { 0x401000, 0x402000 } }, { chain.kernel, chain.user })
      end)
    end
  end

  it("a recording reports the size of its long", function()
    for name, wanted in pairs { narrow = 4, big_narrow = 4, big_endian = 8 } do
      local rec <close> = assert(perfdata.open(transform[name](made[1][2]())))
      assert.equal(wanted, rec:tracing().long_size)
      assert.equal(name ~= "narrow", rec:tracing().big)
    end
  end)
end)

-- ---- recordings of other tools ----

describe("the big-endian twin of another tool's recording", function()
  local packed = {
    ["linux-perf-data/sleep.compressed.data"] = true, ["linux-perf-data/sleep.compressed2.pipe.data"] = true,
    ["quipper/perf.data.piped.corrupted.zero_size_sample-3.2"] = true, -- a record of no size ends it
  }

  for _, fixture in ipairs(fixtures) do
    if not packed[fixture.file] then
      it("decodes to the same values: " .. fixture.file, function()
        if fixtures.missing then pending(fixtures.missing) end
        local little = assert(run.slurp(fixtures.path(fixture.file)))
        local wanted, got = decoded(little), decoded(transform.big_endian(little))
        alike(wanted, got)
        if fixture.samples_sha256 ~= json.null then assert.equal(fixture.samples_sha256, got.digest) end
      end)
    end
  end

  for _, name in ipairs { "perf.data.group_desc-4.14", "perf.data.lost_samples-4.4", "perf.data.singleprocess-3.8" } do
    it("has the same records as the other tool's twin: " .. name, function()
      if fixtures.missing then pending(fixtures.missing) end
      local theirs = assert(run.slurp(fixtures.path("big-endian/" .. name .. ".be")))
      local lists = {}
      for i, bytes in ipairs { theirs, transform.big_endian(assert(run.slurp(fixtures.path("quipper/" .. name)))) } do
        lists[i] = decoded(bytes)
        -- theirs has no features, from which events have their names and registers theirs
        for _, r in ipairs(lists[i].records) do r.offset, r.event = nil, nil end
      end
      assert.same(lists[1].records, lists[2].records)
      assert.equal(lists[1].digest, lists[2].digest)
    end)
  end
end)


-- ---- the reader itself, on a machine of 32 bits ----

describe("the reader built for 32 bits", function()
  local SOURCES = "spec/support/reads.c src/event/attr.c src/record/bits.c src/base/err.c "
    .. "src/perfdata/reader_open.c src/perfdata/reader_state.c src/perfdata/record_stream.c "
    .. "src/perfdata/tool_record.c src/perfdata/input_files.c src/perfdata/blocks.c "
    .. "src/base/merge.c src/record/record.c src/perfdata/event_ids.c src/base/sys.c src/perfdata/reorder.c "
    .. "src/perfdata/sorted_runs.c src/base/rights.c src/base/pipeline.c"
  local FLAGS = " -std=gnu11 -Isrc -DPEV_VERSION='\"0\"' -Wall -Wextra -Wconversion -Werror "
  local NARROW = os.getenv "CC32" or "gcc -m32"

  it("returns the same records, cut or whole", function()
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    local function spill(name, text)
      return run.write_file(dir .. "/" .. name, text)
    end
    local empty = spill("empty.c", "#include <stdint.h>\nint main(void) { return 0; }\n")
    if run(("%s -o %s/empty %s"):format(NARROW, dir, empty)).code ~= 0 then
      pending(NARROW .. " links nothing here: gcc-multilib is not installed")
    end
    local paths = {}
    for i, kind in ipairs(made) do
      local little = kind[2]()
      local twins = { little = little, big = transform.big_endian(little), narrow = transform.narrow(little) }
      for name, bytes in pairs(twins) do
        for cut = #bytes, 1, -#bytes // 7 do
          paths[#paths + 1] = spill(("%s%d.%d"):format(name, i, cut), bytes:sub(1, cut))
        end
      end
    end
    for _, fixture in ipairs(fixtures.missing and {} or fixtures) do
      paths[#paths + 1] = fixtures.path(fixture.file)
    end
    local out = {}
    for i, compiler in ipairs { "gcc", NARROW } do
      local program = ("%s/reads%d"):format(dir, i)
      local built = run(compiler .. FLAGS .. "-o " .. program .. " " .. SOURCES)
      assert.equal("", built.err)
      local said = run { program, table.unpack(paths) }
      assert.same({ 0, "" }, { said.code, said.err })
      out[i] = said.out
    end
    assert.is_true(select(2, out[1]:gsub("\n", "")) > 500)
    assert.equal(out[1], out[2])
  end)
end)
