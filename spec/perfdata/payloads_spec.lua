-- A recording's payloads: the names of their addresses, and simpleperf's form of payloads and events.

local perfdata = require "spec.support.perfdata"

local FORMAT = [[
name: kmalloc
ID: 77
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long call_site;	offset:8;	size:8;	signed:0;

print fmt: "call_site=%pS", (void *)REC->call_site
]]

local TEXT = 0x7fff000081000000 -- where the recorded kernel lies
local KALLSYMS = "7fff000081000000 T _text\n7fff000081000100 T do_it\n7fff000081000200 T do_more\n"
-- "_text" where another boot has put it, and all else with it
local MOVED = "7fff000091000000 T _text\n7fff000091000100 T do_it\n"
local NOTES = string.pack("=I4I4I4", 6, 3, 0x101) .. "Linux\0\0\0" .. "abc\0"
  .. string.pack("=I4I4I4", 4, 20, 3) .. "GNU\0" .. ("\xab"):rep(20)

-- { header, pid, build id in 24 bytes, name }
local function build_ids(built, byte)
  local name = "[kernel.kallsyms]" .. ("\0"):rep(7)
  return built:pack("I4I2I2i4", 67, 1, 36 + #name, -1) .. byte:rep(20) .. ("\0"):rep(4) .. name
end

local function kernel_map(type, pgoff)
  return { type = type, pid = -1, tid = 0, addr = TEXT, len = 0x200000, pgoff = pgoff or TEXT,
           filename = "[kernel.kallsyms]_text", sample_id = {} }
end

local function built_with(endian, map)
  local built = perfdata.new { endian = endian, events = {
    { attr = { type = 2, config = 77, sample_type = { "identifier", "time", "raw" }, sample_id_all = true } } } }
  if map then built:add(map) end
  return built:add { type = "sample", identifier = 1, time = 5,
                     raw = built:pack("I2I1I1i4i8", 77, 0, 0, 1, TEXT + 0x110) }
end

-- The printed payload of the only sample.
local function printed(bytes, files, chunk)
  local rec <close> = assert(perfdata.open(bytes, chunk, nil, files or {}))
  local text
  for r in rec:records { user = false } do
    if r.type == "sample" then text = tostring(r.args) end
  end
  assert.same({}, rec.warnings)
  return text
end

describe("an address in a recording's payload", function()
  local HERE = { ["/proc/kallsyms"] = KALLSYMS, ["/sys/kernel/notes"] = NOTES,
                 ["/proc/sys/kernel/hostname"] = "host\n", ["/proc/sys/kernel/osrelease"] = "6.1.0\n" }
  local HEX, NAME = "call_site=0x7fff000081000110", "call_site=do_it+0x10"

  local function here(changes)
    local files = {}
    for path, text in pairs(HERE) do files[path] = text end
    for path, text in pairs(changes) do files[path] = text or nil end
    return files
  end

  it("is named by the recording's own symbols", function()
    for _, endian in ipairs { "little", "big" } do
      local built = built_with(endian)
      assert.equal(NAME, printed(built:file { [1] = built:tracing_data("kmem", FORMAT, { kallsyms = KALLSYMS }) }))
    end
  end)

  it("is named by this machine's symbols if the recorded kernel runs here", function()
    for _, type in ipairs { "mmap", "mmap2" } do
      local built = built_with("little", kernel_map(type))
      local features = { [1] = built:tracing_data("kmem", FORMAT), [2] = build_ids(built, "\xab") }
      assert.equal(NAME, printed(built:file(features), HERE))
      assert.equal(NAME, printed(built:file(features), here { ["/proc/sys/kernel/hostname"] = "renamed\n" }))
      assert.equal(NAME, printed(built:pipe(features), HERE, 4096))
    end
  end)

  it("is named by host and kernel release if no build id was recorded", function()
    local built = built_with("little", kernel_map("mmap"))
    local features = { [1] = built:tracing_data("kmem", FORMAT), [3] = built:string("host"),
                       [4] = built:string("6.1.0") }
    assert.equal(NAME, printed(built:file(features), HERE))
    assert.equal(HEX, printed(built:file(features), here { ["/proc/sys/kernel/hostname"] = "other\n" }))
    assert.equal(HEX, printed(built:file(features), here { ["/proc/sys/kernel/osrelease"] = "6.1.1\n" }))
    features[3] = nil
    assert.equal(HEX, printed(built:file(features), HERE))
  end)

  it("stays a number if another kernel was recorded, or another boot of it", function()
    local built = built_with("little", kernel_map("mmap"))
    local features = { [1] = built:tracing_data("kmem", FORMAT), [2] = build_ids(built, "\xac") }
    assert.equal(HEX, printed(built:file(features), HERE))
    features[2] = build_ids(built, "\xab")
    assert.equal(HEX, printed(built:file(features), here { ["/proc/kallsyms"] = MOVED }))
    assert.equal(HEX, printed(built:file(features), here { ["/proc/kallsyms"] = false }))
  end)

  it("stays a number if the recorded kernel's address is unknown", function()
    for _, map in ipairs { false, { type = "mmap", pid = 7, tid = 7, addr = TEXT, len = 4096, pgoff = TEXT,
                                    filename = "[kernel.kallsyms]_text", sample_id = {} } } do
      local built = built_with("little", map)
      local features = { [1] = built:tracing_data("kmem", FORMAT), [2] = build_ids(built, "\xab") }
      assert.equal(HEX, printed(built:file(features), HERE))
    end
  end)
end)

-- A record of simpleperf's own: its size has 32 bits, the upper ones where others have misc.
local function own(built, number, body)
  local size = 8 + #body
  return built:add(built:pack("I4I2I2", number, size >> 16, size & 0xffff) .. body)
end

describe("a recording by simpleperf", function()
  it("has records longer than 64 KiB, which are skipped and reported", function()
    local built = built_with("little")
    for _, size in ipairs { 16, 65535, 65536, 65540, 0x20000, 3 << 20 } do own(built, 32769, ("k"):rep(size - 8)) end
    built:add { type = "sample", identifier = 1, time = 9, raw = "the last one" }
    for _, unordered in ipairs { false, true } do
      local rec <close> = assert(perfdata.open(built:file(), nil, { ordered = not unordered }))
      local sizes, samples = {}, 0
      for r in rec:records() do
        if r.type == "simpleperf_kernel_symbol" then
          assert.equal(0, r.misc)
          assert.equal(("k"):rep(math.min(r.size, 65528) - 8), r.raw:sub(1, 65520))
          sizes[#sizes + 1] = r.size
        elseif r.type == "sample" then
          samples = samples + 1
        end
      end
      assert.same({ 16, 65535, 65536, 65540, 0x20000, 3 << 20 }, sizes)
      assert.equal(2, samples)
      assert.is_nil(rec.error)
    end
  end)

  it("has its tracepoints' formats in a record, of simpleperf's type or of perf's", function()
    local many = {}
    for i = 1, 5000 do many[i] = ("%x T before_%d\n"):format(0x1000 + i, i) end
    local long = table.concat(many) .. KALLSYMS
    assert.is_true(#long > 65536)
    for _, how in ipairs { { 32777, KALLSYMS }, { 32777, long }, { 66, KALLSYMS } } do
      local built = perfdata.new { endian = "little", events = {
        { attr = { type = 2, config = 77, sample_type = { "identifier", "time", "raw" }, sample_id_all = true } } } }
      local data = built:tracing_data("kmem", FORMAT, { kallsyms = how[2] })
      own(built, how[1], built:pack("I4", #data) .. data .. ("\0"):rep(-#data % 8 + 4))
      built:add { type = "sample", identifier = 1, time = 5, raw = built:pack("I2I1I1i4i8", 77, 0, 0, 1, TEXT + 0x110) }
      assert.equal("call_site=do_it+0x10", printed(built:file()))
    end
  end)

  it("adds ids to its events as CPUs come online", function()
    local attr = { sample_type = { "identifier", "time" }, sample_id_all = true }
    local built = perfdata.new { events = { { attr = attr, ids = { 11 }, name = "one" },
                                            { attr = attr, ids = { 21 }, name = "two" } } }
    own(built, 32774, built:pack("i8i8i8i8i8i8i8", 3, 1, 22, 0, 12, 9, 99))
    for time, id in ipairs { 11, 12, 21, 22, 99 } do
      built:add(built:pack("I4I2I2i8i8", 9, 0, 24, id, time))
    end
    local rec <close> = assert(perfdata.open(built:file { [12] = built:event_desc() }))
    local seen = {}
    for r in rec:records() do
      if r.type == "sample" then seen[#seen + 1] = r.event and r.event.name or "none"
      elseif r.type == "simpleperf_event_id" then assert.same({ event = 1, id = 22 }, r.entries[1]) end
    end
    assert.same({ "one", "one", "two", "two", "none" }, seen)
    assert.equal(1, rec:totals().unknown_id)
  end)
end)
