-- perfev.open: recordings with false contents. The readable part is read; damage is reported with its offset.

local core = require "perfev.core"
local perfdata = require "spec.support.perfdata"

local pack = string.pack
-- The worst values of a length or an offset; nearly all are wrong anywhere.
local EDGES = { 0, 1, 7, 8, 63, 64, 80, 0xffff, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 61, (1 << 60) + 1,
                1 << 62, math.maxinteger, math.mininteger, -8, -1 }

local attr = { sample_type = { "identifier", "ip", "tid", "time", "cpu" }, sample_id_all = true }
local trailer = { pid = 7, tid = 8, time = 50, cpu = 1, identifier = 1 }

local function new(fields, endian)
  return perfdata.new { endian = endian or "little", events = { { attr = fields or attr, ids = { 1 }, name = "one" } } }
end

local function sample(time)
  return { type = "sample", identifier = 1, ip = 2, pid = 3, tid = 4, time = time, cpu = 1 }
end

-- Everything that can be asked of a recording; the records as copies, those of tools as they are.
local function read_all(bytes, chunk)
  local rec, why = perfdata.open(bytes, chunk, { ordered = false })
  if not rec then return nil, why end
  local seen = {}
  for r, offset in rec:records() do
    seen[#seen + 1] = type(r) == "table" and r or r:copy()
    seen[#seen].stack = nil -- each recording has its own, of the callchain
    seen[#seen].at = offset
    seen[#seen].text = type(r) ~= "table" and tostring(r) or nil
  end
  local features = {}
  for name, value in pairs(rec.header) do features[name] = value end
  local stats = rec:totals()
  assert(#seen <= (stats.bytes + stats.inflated) // 8 and stats.memory <= 40 << 20)
  rec:close()
  return seen, rec.error, { warnings = rec.warnings, stats = stats, features = features, events = rec.events }
end

local function patched(bytes, at, new_bytes)
  return bytes:sub(1, at) .. new_bytes .. bytes:sub(at + #new_bytes + 1)
end

describe("a file header with wrong values", function()
  local built = new():add(sample(5)):add(sample(6))
  local bytes = built:file { [3] = built:string "host", [12] = built:event_desc() }

  it("in any of its words leaves the readable records, and is reported with its place", function()
    for at = 8, 96, 8 do
      for _, value in ipairs(EDGES) do
        local seen, why = read_all(patched(bytes, at, pack("<i8", value)))
        local what = ("%d at byte %d"):format(value, at)
        assert.is_true(why == nil or why:find "0x%x" ~= nil, what)
        if seen and at > 64 then assert.equal(2, #seen, what) end -- features do not touch records
      end
    end
  end)

  it("is refused if the size of events is not that of an attr", function()
    for _, size in ipairs { 0, 6, 7, 63, 79, 65537, 1 << 32, -1 } do
      local seen, why = read_all(patched(bytes, 16, pack("<i8", size)))
      assert.is_nil(seen)
      assert.matches(("at 0x10: an event of %u bytes, must be 80 to 65536"):format(size), why, 1, true)
    end
  end)

  it("is reported if the section of events is not a multiple of their size", function()
    local size = string.unpack("<i8", bytes, 17)
    local seen, why = read_all(patched(bytes, 32, pack("<i8", size + 5)))
    assert.equal(2, #seen)
    assert.matches(("has %d bytes, not a multiple of %d"):format(size + 5, size), why, 1, true)
  end)

  it("has only ids within the file, and keeps its events", function()
    local ids_at = string.unpack("<i8", bytes, 25) + string.unpack("<i8", bytes, 17) - 16
    for _, value in ipairs { { 0, 1 << 40 }, { 0, -8 }, { 1 << 40, 8 }, { -8, 16 }, { 0, #bytes // 8 * 8 } } do
      local seen, _, more = read_all(patched(bytes, ids_at, pack("<i8i8", value[1], value[2])))
      assert.equal(2, #seen)
      assert.is_true(#more.events[1].ids <= #bytes // 8)
    end
    local _, why = read_all(patched(bytes, 32, pack("<i8", string.unpack("<i8", bytes, 17) << 40)))
    assert.matches("file cut short at 0x%x+, in the event at 0x%x+", why)
  end)

  it("has no more ids if several events claim the same bytes", function()
    local two = perfdata.new { endian = "little", events = {
      { attr = attr, ids = { 1 } }, { attr = attr, ids = { 2 } },
    } }
    local file = two:add(sample(5)):file()
    local size, at = string.unpack("<i8i8", file, 17)
    local all = pack("<i8i8", 0, #file // 8 * 8)
    local seen, why, more = read_all(patched(patched(file, at + size - 16, all), at + 2 * size - 16, all))
    assert.matches("the ids of event 2, at 0x0: more ids than fit in the file", why, 1, true)
    assert.same({ 1, 2 }, { #seen, #more.events })
    assert.is_true(#more.events[1].ids + #more.events[2].ids <= #file // 4)
  end)

  it("in the table of features leaves the other features and the records", function()
    local table_at = string.unpack("<i8", bytes, 41) + string.unpack("<i8", bytes, 49)
    for entry = 0, 24, 8 do
      for _, value in ipairs(EDGES) do
        local seen, why, more = read_all(patched(bytes, table_at + entry, pack("<i8", value)))
        assert.equal(2, #seen)
        assert.is_true(why == nil or why:find "0x%x" ~= nil)
        assert.equal(entry < 16 and "one" or "host", entry < 16 and more.events[1].name or more.features.hostname)
      end
    end
  end)

  it("is read once if several features claim the same bytes", function()
    local big = ("\0"):rep(100000)
    local file = built:file { [40] = big, [41] = "", [42] = "" }
    local table_at = #file - #big - 48
    local place = pack("<i8i8", #file - #big, #big)
    local _, why, more = read_all(patched(patched(file, table_at + 16, place), table_at + 32, place))
    assert.matches("feature 41, 100000 bytes at 0x%x+, overlaps other features", why)
    assert.same({ 100000, "", "" }, { #more.features[40], more.features[41], more.features[42] })
  end)
end)

-- ---- counts inside of records ----

-- { name, attr, bytes of the body before the count, its format, the bytes behind it }
local counts = {
  { "callchain", { sample_type = { "callchain" } }, 0, "<i8", 2 },
  { "branch stack", { sample_type = { "branch_stack" }, branch_sample_type = { "any" } }, 0, "<i8", 6 },
  { "branch stack with an index", { sample_type = { "branch_stack" }, branch_sample_type = { "any", "hw_index" } }, 0,
    "<i8", 7 },
  { "counters of branches", { sample_type = { "branch_stack" }, branch_sample_type = { "any", "counters" } }, 0,
    "<i8", 8 },
  { "group of counters", { sample_type = { "read" }, read_format = { "group", "id", "lost" } }, 0, "<i8", 6 },
  { "payload", { sample_type = { "raw" } }, 0, "<I4", 1.5 },
  { "stack", { sample_type = { "stack_user" } }, 0, "<i8", 3 },
  { "AUX data", { sample_type = { "aux" } }, 0, "<i8", 2 },
  { "list of namespaces", attr, 8, "<i8", 4 + 5, 16 },
  { "deferred callchain", attr, 8, "<i8", 2 + 5, 22 },
}

describe("a count beyond its record", function()
  for _, count in ipairs(counts) do
    local what, fields, before, format, words, number = table.unpack(count)
    it("(" .. what .. ") is reported, and its record is skipped and counted", function()
      local tried = 0
      for _, value in ipairs(EDGES) do
        local small = format == "<I4"
        if (value > 8 or value < 0) and not (small and value >> 32 ~= 0) then
          local built = new(fields)
          local head = #built:file()
          local body = ("\1"):rep(before) .. pack(format, value) .. ("\1"):rep(math.tointeger(8 * words))
          built:add(pack("<I4I2I2", number or 9, 0, 8 + #body) .. body):user(87, "8 bytes!")
          local seen, why, more = read_all(built:file())
          assert.is_nil(why)
          assert.same({ 1, 87, 1 }, { #seen, seen[1].number, more.stats.malformed }, what .. " of " .. value)
          assert.matches(("^at 0x%x: "):format(head), more.warnings[1])
          tried = tried + 1
        end
      end
      assert.is_true(tried >= 6)
    end)
  end

  it("of registers must fit in the record, and comes from their mask", function()
    for _, name in ipairs { "regs_user", "regs_intr" } do
      local built = new { sample_type = { name }, ["sample_" .. name] = -1 }
      built:add(pack("<I4I2I2i8", 9, 0, 8 + 8 + 63 * 8, 1) .. ("\1"):rep(63 * 8))
      built:add(pack("<I4I2I2i8", 9, 0, 8 + 8 + 64 * 8, 1) .. ("\1"):rep(64 * 8))
      local seen, _, more = read_all(built:file())
      assert.same({ 1, 1 }, { #seen, more.stats.malformed })
      assert.equal(1, seen[1][name].abi)
    end
  end)

  it("of a stack is the number of copied bytes, and at most its size", function()
    for _, dyn_size in ipairs { 0, 8, 16, 17, 1 << 32, -1 } do
      local built = new { sample_type = { "stack_user" } }
      built:add(pack("<I4I2I2i8", 9, 0, 40, 16) .. ("S"):rep(16) .. pack("<i8", dyn_size))
      local seen, _, more = read_all(built:file())
      if dyn_size >= 0 and dyn_size <= 16 then
        assert.equal(("S"):rep(dyn_size), seen[1].stack_user)
      else
        assert.same({ 0, 1 }, { #seen, more.stats.malformed })
      end
    end
  end)

  it("in a record of tools leaves the record, marked as malformed", function()
    local cases = { { 74, pack("<I2I2", 0, 100) }, { 74, pack("<I2I2I2", 1, 0xffff, 4) } }
    for _, number in ipairs { 69, 73, 75 } do
      for _, value in ipairs { 2, 100, 1 << 31, 1 << 61, math.maxinteger, -1 } do
        cases[#cases + 1] = { number, pack("<i8", value) }
      end
    end
    for _, case in ipairs(cases) do
      local built = new():user(case[1], case[2] .. "1234"):add(sample(5))
      local seen, why, more = read_all(built:file())
      assert.matches("^byte %d+: .+", seen[1].malformed or "")
      assert.same({ nil, 2, 0 }, { why, #seen, more.stats.malformed })
    end
  end)

  it("in a feature skips that feature, and reports the place", function()
    local lists = {
      [3] = { "<I4", "hostname" }, [8] = { "<I4", "cpudesc" }, [11] = { "<I4", "cmdline" },
      [13] = { "<I4", "cpu_topology" }, [14] = { "<I4", "numa_topology" }, [16] = { "<I4", "pmu_mappings" },
      [17] = { "<I4", "group_desc" },
      [20] = { "<I4I4", "cache", 1 }, [22] = { "<i8i8i8", "mem_topology", 1, 1 }, [25] = { "<I4", "bpf_prog_info" },
      [26] = { "<I4", "bpf_btf" }, [28] = { "<I4", "cpu_pmu_caps" }, [30] = { "<I4", "hybrid_topology" },
      [31] = { "<I4", "pmu_caps" },
    }
    for id, list in pairs(lists) do
      for _, value in ipairs { 1, 2, 1000, (1 << 31) - 1 } do
        local built = new():add(sample(5))
        local args = { table.unpack(list, 3) }
        args[#args + 1] = value
        local features = { [id] = pack(list[1], table.unpack(args)), [5] = built:string "6.1" }
        local seen, why, more = read_all(built:file(features))
        assert.same({ 1, nil, nil, "6.1" }, { #seen, why, more.features[list[2]], more.features.version })
        assert.matches("^feature at 0x%x+: " .. list[2] .. ": byte %d+: ", more.warnings[1])
      end
    end
  end)

  it("in the description of events keeps the names that the events have", function()
    local built = new()
    built:add(sample(5))
    local desc = built:event_desc()
    for at = 0, #desc - 4, 4 do
      for _, value in ipairs { 0, 1, 0x7fffffff, 0xffffffff } do
        local seen, why, more = read_all(built:file { [12] = patched(desc, at, pack("<I4", value)) })
        assert.same({ 1, nil, 1 }, { #seen, why, #more.events })
        assert.is_true(#more.events[1].name > 0)
      end
    end
  end)
end)

describe("a feature", function()
  it("takes memory of a small multiple of its bytes, with any content", function()
    local n = 20000
    for id, bytes in pairs {
      [12] = pack("<I4I4", n, 0) .. pack("<I4I4", 0, 0):rep(n), -- events whose attrs have no bytes
      [31] = pack("<I4", n) .. pack("<I4I4", 0, 0):rep(n), -- PMUs without capabilities
      [22] = pack("<i8i8i8", 1, 1, 1) .. pack("<i8i8i8", 0, 0, 64 * n) .. ("\xff"):rep(8 * n), -- every block of memory
      [11] = pack("<I4", 2 * n) .. ("\0"):rep(8 * n), -- arguments without a letter
      [30] = pack("<I4", n) .. pack("<I4I4", 0, 0):rep(n),
    } do
      local rec <close> = assert(perfdata.open(new():add(sample(5)):file { [id] = bytes }))
      collectgarbage()
      local before = collectgarbage "count"
      collectgarbage "stop"
      local value = rec.header[({ [12] = "event_desc", [31] = "pmu_caps", [22] = "mem_topology", [11] = "cmdline",
                                  [30] = "hybrid_topology" })[id]]
      collectgarbage "restart"
      collectgarbage()
      local taken = (collectgarbage "count" - before) * 1024
      assert.is_true(taken < (1 << 20) + 16 * #bytes, ("%d: %.0f bytes of %d"):format(id, taken, #bytes))
      assert.equal(id == 11 or id == 30, value ~= nil)
    end
  end)

  it("that repeats is decoded as its bytes arrive, not each time", function()
    local names = require "perfev.perfdata.attr_name"
    local name_of, calls = names.of, 0
    names.of = function(...)
      calls = calls + 1
      return name_of(...)
    end
    finally(function() names.of = name_of end)
    local events = {}
    for i = 1, 300 do events[i] = { attr = attr, ids = { i } } end
    local built = perfdata.new { endian = "little", events = events }
    built:add(sample(5)):round()
    for i = 1, 2000 do built:user(78, pack("<i8i8z", 2, 1, "name" .. i)) end
    built:add(sample(6))
    local seen, why, more = read_all(built:pipe(), 4096)
    assert.is_nil(why)
    assert.equal(300 + 2000 + 4, #seen)
    assert.matches("^name%d+$", more.events[1].name)
    assert.is_true(calls < 300 * 100, calls .. " names")
  end)
end)

-- ---- strings ----

describe("a string", function()
  local function comm_of(text)
    local built = new { sample_type = { "tid" } }
    built:add(pack("<I4I2I2i4i4", 3, 0, 16 + #text, 7, 8) .. text)
    local seen = read_all(built:file())
    return seen[1] and seen[1].comm
  end

  it("without a NUL ends with its record", function()
    assert.equal("12345678", comm_of "12345678")
    local built = new()
    local record = built.encode { type = "comm", pid = 7, tid = 8, comm = "1234567", sample_id = trailer }
    built:add(patched(record, 16, "12345678"))
    local seen = read_all(built:file())
    assert.same({ "12345678", 50 }, { seen[1].comm, seen[1].sample_id.time }) -- not the trailer's bytes
  end)

  it("ends at its first NUL, and keeps its bytes unchanged", function()
    assert.equal("ab", comm_of "ab\0cd\0\0\0")
    assert.equal("", comm_of "\0bcd\0\0\0\0")
    assert.equal("\xff\xfe\x80\27[", comm_of "\xff\xfe\x80\27[\0\0\0")
  end)

  it("can be as long as a record", function()
    assert.equal(("x"):rep(65512), comm_of(("x"):rep(65512)))
    local built = new()
    built:user(78, pack("<i8i8", 2, 1) .. ("n"):rep(60000)):add(sample(5))
    local _, _, more = read_all(built:file())
    assert.equal(("n"):rep(60000), more.events[1].name)
  end)

  it("is printed with all control characters escaped", function()
    local built = new { sample_type = { "tid" } }
    for byte = 0, 255 do
      built:add(pack("<I4I2I2i4i4", 3, 0, 24, 7, 8) .. string.char(65, byte, 66) .. ("\0"):rep(5))
    end
    local seen = read_all(built:file())
    assert.equal(256, #seen)
    for byte, r in ipairs(seen) do
      assert.is_nil(r.text:find "[%z\1-\31\127]", byte)
      assert.equal(byte == 1 and "A" or string.char(65, byte - 1, 66), r.comm)
    end
  end)

  it("in a feature or in a record of tools can also lack its NUL", function()
    local built = new():add(sample(5)):user(67, pack("<i4", 7) .. ("\1"):rep(24) .. "/no/end!")
    local seen, _, more = read_all(built:file { [3] = pack("<I4", 4) .. "host", [2] = "" })
    assert.same({ "/no/end!", "host" }, { seen[2].filename, more.features.hostname })
  end)
end)

-- ---- the event of a record ----

describe("the event of a record", function()
  it("can be missing: a record smaller than its trailer is reported and skipped", function()
    local built = new()
    for size = 8, 8 + 32 + 32, 8 do built:add(pack("<I4I2I2", 14, 0, size) .. ("\0"):rep(size - 8)) end
    local seen, why, more = read_all(built:file())
    assert.same({ nil, 9, 4 }, { why, #seen + more.stats.malformed, more.stats.malformed })
    assert.matches("^at 0x%x+: switch %(14%): 8 bytes, needs 40$", more.warnings[1])
  end)

  it("comes from the identifier, in spite of different attrs", function()
    local built = perfdata.new { endian = "little", events = {
      { attr = { sample_type = { "identifier", "time" }, sample_id_all = true }, ids = { 1 }, name = "small" },
      { attr = { sample_type = { "identifier", "ip", "tid", "time", "addr", "period" }, sample_id_all = true },
        ids = { 2 }, name = "large" },
    } }
    built:add { type = "sample", identifier = 2, ip = 3, pid = 4, tid = 5, time = 6, addr = 7, period = 8 }
    built:add { type = "sample", identifier = 1, time = 5 }
    built:add { type = "comm", pid = 1, tid = 2, comm = "a", sample_id = { identifier = 2, time = 9, tid = 5 } }
    local seen = read_all(built:file { [12] = built:event_desc() })
    assert.same({ "large", 7, 8 }, { seen[1].event.name, seen[1].addr, seen[1].period })
    assert.same({ "small", nil, 5 }, { seen[2].event.name, seen[2].addr, seen[2].time })
    assert.same({ "large", 9 }, { seen[3].event.name, seen[3].sample_id.time })
  end)

  it("is reported as unknown once if there is no identifier", function()
    local plain = { sample_type = { "ip", "time" } }
    local built = new(plain)
    local size = #built.events[1].bytes
    built:add { type = "sample", ip = 5, time = 6 }:add { type = "sample", ip = 5, time = 7 }
    built.events[2] = { ids = { 2 }, bytes = perfdata.attr_bytes({ sample_type = { "ip" } }, "little") }
    local seen, why, more = read_all(built:file())
    assert.same({ 2, nil, 2, 1 }, { #seen, why, more.stats.ambiguous, #more.warnings })
    assert.equal(("the sample at 0x%x has no id to choose one of 2 events: such samples are returned without event and "
      .. "fields"):format(104 + 16 + 2 * (size + 16)), more.warnings[1])
  end)

  it("is found equally fast with ids made to collide", function()
    -- in a table that multiplies by the golden ratio, as this one once did
    local inverse = 0x9e3779b97f4a7c15
    for _ = 1, 6 do inverse = inverse * (2 - 0x9e3779b97f4a7c15 * inverse) end
    local ids = {}
    for i = 1, 20000 do ids[i] = i * inverse end
    local built = perfdata.new { endian = "little", events = {
      { attr = attr, ids = { 1 } }, { attr = attr, ids = { 2 } },
    } }
    built:add(sample(5)):add { type = "sample", identifier = 2, ip = 2, pid = 3, tid = 4, time = 6, cpu = 1 }
    table.insert(ids, 2)
    built.events[2].ids = ids
    local rec <close> = assert(perfdata.open(built:file()))
    local events = {}
    for r in rec:records() do events[#events + 1] = r.event == rec.events[#events + 1] end
    assert.same({ { true, true }, 20001 }, { events, #rec.events[2].ids })
  end)
end)

-- ---- where records lie ----

local rich = {
  sample_type = { "identifier", "ip", "tid", "time", "cpu", "read", "callchain", "raw", "branch_stack", "regs_user",
                  "stack_user", "weight_struct", "data_src" },
  sample_id_all = true, read_format = { "group", "id", "lost" }, sample_regs_user = 3,
  branch_sample_type = { "any", "hw_index", "counters" },
}

local function rich_records(built)
  built:add { type = "sample", identifier = 1, ip = 2, pid = 3, tid = 4, time = 5, cpu = 1, callchain = { -512, 9 },
              read = { values = { { value = 1, id = 2, lost = 3 } } }, raw = "raw!", stack_user = "12345678",
              branch_stack = { hw_idx = 1, { from = 1, to = 2, cycles = 5, counters = 6 } }, data_src = 0x1234,
              regs_user = { abi = 2, [0] = 1, 2 }, weight = { var1_dw = 1, var2_w = 2, var3_w = 3 } }
  built:add { type = "mmap2", pid = 1, tid = 2, addr = 3, len = 4, filename = "/x", sample_id = trailer }
  return built:add { type = "namespaces", pid = 1, tid = 2, namespaces = { { dev = 3, inode = 4 } },
                     sample_id = trailer }
end

describe("records at odd places", function()
  it("are decoded like those at even ones", function()
    for _, endian in ipairs { "little", "big" } do
      for shift = 1, 7 do
        local wanted, got
        for _, size in ipairs { 8, 8 + shift } do
          local built = new(rich, endian)
          built:add(built:pack("I4I2I2", 60, 0, size) .. ("x"):rep(size - 8))
          local seen, _, more = read_all(rich_records(built):file())
          for _, r in ipairs(seen) do r.event, r.at = nil, nil end
          wanted, got = got, { table.unpack(seen, 2) }
          assert.equal(size == 8 and 0 or 1, #more.warnings)
          if size > 8 then
            assert.matches(("the record at 0x%%x+ %%(type 60%%) has %d bytes, not a multiple of 8"):format(size),
              more.warnings[1])
          end
        end
        assert.equal(3, #got)
        assert.same(wanted, got)
      end
    end
  end)
end)

-- ---- compressed ----

local FRAME = "\x28\xb5\x2f\xfd\x00\x58" -- a window of 2 MiB, no size

local function stored(bytes, last) return pack("<I3", #bytes << 3 | (last and 1 or 0)) .. bytes end

describe("compressed records", function()
  local function read_compressed(...)
    local built = new():add(sample(5))
    for _, part in ipairs { ... } do
      if type(part) == "table" then built:user(83, pack("<i8", part[1]) .. part[2]) else built:user(81, part) end
    end
    return read_all(built:file())
  end

  it("can be empty, in a frame without an end", function()
    local inner = new().encode(sample(6))
    local seen, why = read_compressed("", FRAME, "", { 0, "12345678" }, stored(inner), "")
    assert.is_nil(why)
    assert.same({ 5, 6 }, { seen[1].time, seen[#seen - 1].time })
  end)

  it("with a wrong size end the reading", function()
    for _, value in ipairs { 9, 1 << 32, math.maxinteger, -1 } do
      local seen, why = read_compressed({ value, "12345678" })
      assert.equal(2, #seen)
      assert.matches("the record at 0x%x+ %(COMPRESSED2%) should hold %d+ bytes, has 8", why)
    end
    local built = new():add(sample(5)):add(pack("<I4I2I2", 83, 0, 8)):add(sample(6))
    local _, why = read_all(built:file())
    assert.matches("the record at 0x%x+ %(COMPRESSED2%) has 8 bytes, needs 16", why)
  end)

  it("that require more memory than perf's are refused", function()
    local _, why = read_compressed("\x28\xb5\x2f\xfd\x00" .. string.char(18 << 3) .. stored "12345678") -- 256 MiB
    assert.matches("the compressed record at 0x%x+: zstd: ", why)
  end)

  it("that inflate too much, at once or in total, are refused in little memory", function()
    local block = pack("<I3", (128 << 10) << 3 | 1 << 1) .. "\8" -- 128 KiB of records of 0x808 bytes
    local seen, why, more = read_compressed(FRAME .. block:rep(8192)) -- 1 GiB
    assert.is_true(#seen < 20 << 20 >> 11)
    assert.matches("the compressed record at 0x%x+ inflates to more bytes than the recorder's buffer", why)
    assert.is_true(more.stats.memory <= 18 << 20 and more.stats.inflated <= 18 << 20)
    local parts = { FRAME }
    for i = 2, 200 do parts[i] = block:rep(100) end -- 12.5 MiB each
    seen, why, more = read_compressed(table.unpack(parts))
    assert.is_true(#seen > 12 << 20 >> 11)
    assert.matches("inflates to more bytes than the recorder's buffer", why)
    assert.is_true(more.stats.inflated <= (18 << 20) + 1024 * more.stats.compressed)
  end)
end)

-- ---- a pipe's end ----

describe("a pipe's recording that ends between two records", function()
  local feature = { [3] = "\4\0\0\0host" }

  local function end_of(add, features)
    local built = add(new())
    built.pipe_end = false
    local bytes = built:pipe(features)
    local _, why = read_all(bytes, 100)
    return why and why:gsub("^t.data: file cut short at 0x%x+: ", "")
  end

  it("is reported as cut if its recorder's marks show that more was to come", function()
    local function nothing(built) return built end
    local function before(built)
      return built:add { type = "comm", pid = 1, tid = 2, comm = "a", sample_id = {} }
    end
    local function begun(built) return before(built):user(82) end
    local function sampled(built) return begun(built):add(sample(5)) end
    local function done(built) return sampled(built):round() end
    local function again(built) return done(built):add(sample(6)) end
    local cut = { "before the first kernel record", "its recorder had not begun",
                  "its recorder had not finished a round" }
    assert.same({ cut[1], cut[2], nil, cut[3], nil, cut[3] }, {
      end_of(nothing, feature), end_of(before, feature), end_of(begun, feature), end_of(sampled, feature),
      end_of(done, feature), end_of(again, feature),
    })
    -- perf inject hands marks on before the records that they are for
    local function filtered(built) return begun(built):round():add(sample(5)) end
    assert.is_nil(end_of(filtered, feature))
    -- recorders up to 4.15 write fewer facts
    assert.same({ cut[1], nil, nil, nil, nil, cut[3] },
      { end_of(nothing), end_of(before), end_of(begun), end_of(sampled), end_of(done), end_of(again) })
  end)
end)

-- ---- records with bytes behind them ----

describe("bytes after a record", function()
  it("that extend past the end are reported, after all records before them", function()
    for _, chunk in ipairs { false, 100 } do
      for _, size in ipairs { 17, 1 << 31, 1 << 62, math.maxinteger, -1 } do
        local built = new():add(sample(5)):user(71, pack("<i8i8i8i4i4i4i4", size, 0, 0, 0, 0, 0, 0)):add "12345678"
        local seen, why = read_all(chunk and built:pipe() or built:file(), chunk or nil)
        assert.equal(5, seen[chunk and 2 or 1].time)
        assert.matches("file cut short at 0x%x+: the AUX data at 0x%x+ should be %d+ bytes", why)
      end
      local built = new():user(66, pack("<I4", 0xffffffff)):add "12345678"
      local _, why = read_all(chunk and built:pipe() or built:file(), chunk or nil)
      assert.matches("file cut short at 0x%x+: the formats at 0x%x+ should be 4294967295 bytes", why)
    end
  end)

  it("are skipped by their size, padding included", function()
    local built = new():user(66, pack("<I4", 16)):add "formats \0\0\0\0\0\0\0\0":add(sample(5))
    local seen, why = read_all(built:pipe(), 9)
    assert.same({ nil, 5, "finished_round" }, { why, seen[#seen - 1].time, seen[#seen].type })
  end)
end)

-- ---- types and bits to come ----

describe("an unknown part of a newer format", function()
  local known = #core.layouts().records

  it("is a type of the kernel, which is returned by number and bytes", function()
    for _, fields in ipairs { attr, { sample_type = { "ip" } } } do
      local built = new(fields)
      for number = known + 1, 63 do
        built:add(pack("<I4I2I2", number, 0xffff, 8 + 40) .. ("b"):rep(40))
      end
      local seen, why, more = read_all(built:file())
      assert.same({ nil, 63 - known, 0 }, { why, #seen, more.stats.malformed })
      for i, r in ipairs(seen) do
        assert.same({ "unknown", known + i, 0xffff }, { r.type, r.number, r.misc })
        assert.equal(48, r.size)
      end
    end
  end)

  it("is a type of tools, which is returned by number and bytes", function()
    local built = new()
    for _, number in ipairs { 84, 87, 127, 128, 200, 32768, 32779, 33000, 0x7fffffff, 0xffffffff } do
      built:user(number, "12345678")
    end
    built:add(sample(5))
    local seen, why = read_all(built:file())
    assert.same({ nil, 11 }, { why, #seen })
    for i = 1, 10 do assert.same({ "unknown", "12345678" }, { seen[i].type, seen[i].raw }) end
  end)

  it("is a bit of misc, which is ignored", function()
    local misc_of = {}
    local built = new()
    for number, layout in ipairs(core.layouts().records) do
      misc_of[#misc_of + 1] = layout.name
      built:add(pack("<I4I2I2", number, 0xffff, layout.min + 32 + 32) .. ("\0"):rep(layout.min + 56))
    end
    local seen, why, more = read_all(built:file())
    assert.is_nil(why)
    assert.equal(#misc_of, #seen + more.stats.malformed)
    for _, r in ipairs(seen) do assert.equal(0xffff, r.misc) end
  end)
end)

-- ---- formats ----

describe("a recording's formats", function()
  local HEAD = "\x17\x08\x44tracing"

  local function tracing(text, version)
    return HEAD .. (version or "0.5") .. "\0\0\8"
      .. pack("<I4zs8zs8I4I4zI4s8I4I4", 4096, "header_page", "", "header_event", "", 0, 1, "room", 1, text, 0, 0)
  end

  local function format(fields, print_fmt)
    return "name: made\nID: 7\nformat:\n" .. fields .. "\nprint fmt: " .. (print_fmt or '"made"') .. "\n"
  end

  local function field(text, offset, size)
    return ("\tfield:%s;\toffset:%s;\tsize:%s;\tsigned:0;\n"):format(text, offset, size)
  end

  local function read_payload(section, raw)
    local built = new { type = 2, config = 7, sample_type = { "identifier", "time", "raw" } }
    built:add { type = "sample", identifier = 1, time = 5, raw = raw }
    local rec <close> = assert(perfdata.open(built:file { [1] = section }))
    local r = rec:records()()
    local values = {}
    if r.args then
      for name, value in pairs(r.args) do values[name] = value end
      values.text = tostring(r.args)
    end
    return r.args and values, rec.warnings
  end

  it("never read outside of a payload, with any offsets and sizes", function()
    local declarations = { "int a", "char a[8]", "char *a", "__data_loc char[] a", "__rel_loc char[] a", "u64 a[]" }
    local edges = { "0", "9", "65535", "65536", "2147483647", "4294967295", "18446744073709551615", "-1", "x" }
    for _, value in ipairs(edges) do
      for _, name in ipairs(declarations) do
        for _, place in ipairs { { value, "4" }, { "8", value }, { value, value } } do
          local text = format(field(name, place[1], place[2]), '"%s", REC->a')
          local args, warnings = read_payload(tracing(text), ("\xff"):rep(20))
          -- it can be read, or an error has the reason
          assert.is_true(args and #warnings == 0 or not args and #warnings == 1)
          assert.matches(args and "" or "^event room:made: its format cannot be read: ", warnings[1] or "")
        end
      end
    end
  end)

  it("have 512 fields at most, and can be nested deeply", function()
    local many = {}
    for i = 1, 100000 do many[i] = field("int a" .. i, 8, 4) end
    local args, warnings = read_payload(tracing(format(table.concat(many))), "12345678")
    assert.is_nil(args)
    assert.matches("more than 512 fields", warnings[1])
    local deep = '"%d", ' .. ("("):rep(30000) .. "REC->a" .. (")"):rep(30000)
    args = read_payload(tracing(format(field("int a", 8, 4), deep)), ("\1"):rep(12))
    assert.equal(0x01010101, args.a)
  end)

  it("are read up to where they are cut, and the damage is reported", function()
    local whole = tracing(format(field("int a", 8, 4)), "0.6") .. pack("<s8", "1 sh\n")
    local told, read = 0, 0
    for cut = 0, #whole - 1 do
      local args, warnings = read_payload(whole:sub(1, cut), ("\1"):rep(12))
      told = told + #warnings
      read = read + (args and args.a == 0x01010101 and 1 or 0)
    end
    assert.equal(#whole, told)
    assert.is_true(read > 10 and read < 60)
  end)

  it("can be shared by any number of events", function()
    local events = {}
    for i = 1, 300 do
      events[i] = { attr = { type = 2, config = 7, sample_type = { "identifier", "time", "raw" } }, ids = { i } }
    end
    local built = perfdata.new { endian = "little", events = events }
    for i = 1, 300 do built:add { type = "sample", identifier = i, time = i, raw = ("\0"):rep(8) .. pack("<I4", i) } end
    local rec <close> = assert(perfdata.open(built:file { [1] = tracing(format(field("int a", 8, 4))) }))
    local n = 0
    for r in rec:records() do
      n = n + 1
      assert.same({ rec.events[n], n }, { r.event, r.args.a })
    end
    assert.equal(300, n)
  end)
end)
