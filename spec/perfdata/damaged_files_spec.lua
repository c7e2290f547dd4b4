-- perfev.open: three small recordings, cut at every byte and with any byte changed.
--
-- They are in a file in memory, which grows by a byte for each cut and has one byte overwritten for each change, so
-- that tens of thousands of cases take seconds. The changes are random with a seed, so failures are reproducible. All
-- of it runs under ASan and UBSan as well, a part of the cases.

local perfev = require "perfev"
local perfdata = require "spec.support.perfdata"
local run = require "spec.support.run"

-- The fuzz targets read more under sanitizers; here they read a part.
local CHANGES, SEED = run.sanitized and 500 or 10000, 20261121
local CUT_STEP = run.sanitized and 17 or 1
local MEMORY_MAX = 4 << 20 -- of the reader's blocks, which are of 1 MiB
local LUA_MAX = 8 << 10 -- KiB more than before

local common = { "identifier", "ip", "tid", "time", "cpu", "period" }
local cycles = { sample_type = { "raw", "read", "branch_stack", table.unpack(common) }, sample_id_all = true,
                 read_format = { "group", "id" }, branch_sample_type = { "any" } }
local faults = { sample_type = { "callchain", "regs_user", "stack_user", table.unpack(common) }, sample_id_all = true,
                 sample_regs_user = 6, type = 1, config = 2 }

local function sample(id, time)
  return { type = "sample", identifier = id, ip = time, pid = 7, tid = 8, time = time, cpu = 1, period = 9,
           raw = "abcd", read = { values = { { value = 1, id = 2 } } }, branch_stack = { { from = 1, to = 2 } },
           callchain = { -128, 1, -512, 2 }, regs_user = { abi = 2, 1, 2 }, stack_user = "stack" }
end

local function new_recording()
  return perfdata.new { endian = "little", events = {
    { attr = cycles, ids = { 11, 12 }, name = "cycles" }, { attr = faults, ids = { 21 }, name = "faults" },
  } }
end

-- Records of the kernel and of tools; each ends at a multiple of 8.
local function records_of(built)
  local trailer = { pid = 7, tid = 8, time = 150, identifier = 11 }
  built:add { type = "mmap2", pid = 7, tid = 7, addr = 4096, len = 4096, filename = "/bin/true",
              sample_id = { pid = 7 } }
  built:add { type = "comm", pid = 7, tid = 8, comm = "before", sample_id = { tid = 8 } }
  built:add(sample(11, 200)):add(sample(21, 100)):round()
  built:add { type = "namespaces", pid = 7, tid = 8, namespaces = { { dev = 1, inode = 2 } }, sample_id = trailer }
  built:add { type = "fork", pid = 7, ppid = 1, tid = 8, ptid = 1, time = 5, sample_id = trailer }
  built:add { type = "lost", id = 21, lost = 5, sample_id = trailer }
  built:user(69, built:pack("I8I8I8I8I8", 1, 11, 0, 1, 8)):round()
  return built:add(sample(12, 300)):round()
end

local function features_of(built)
  return { [3] = built:string "host", [6] = built:string "x86_64", [7] = built:pack("I4I4", 4, 3),
           [12] = built:event_desc(), [29] = built:pack("I4I4I8I8", 1, 4, 5, 6) }
end

-- The end of each record; the first one begins at `at`.
local function ends_of(records, at)
  local ends = {}
  for i, record in ipairs(records) do
    at = at + #record
    ends[i] = at
  end
  return ends
end

local function in_file()
  local built = records_of(new_recording())
  local head = #new_recording():file()
  return { bytes = built:file(features_of(built)), ends = ends_of(built.records, head), head = head }
end

local function in_pipe()
  local built = records_of(new_recording())
  local features, head = features_of(built), {}
  -- the events are described by records as well
  local bytes = built:pipe(features)
  local at, stop = 16, #bytes - #table.concat(built.records)
  while at < stop do
    local size = string.unpack("<I2", bytes, at + 7)
    head[#head + 1] = bytes:sub(at + 1, at + size)
    at = at + size
  end
  table.move(built.records, 1, #built.records, #head + 1, head)
  local ends, rounds = ends_of(head, 16), {}
  for i, stop_of in ipairs(ends) do rounds[stop_of] = string.unpack("<I4", head[i]) == 68 end
  return { bytes = bytes, ends = ends, head = stop, pipe = true, rounds = rounds }
end

-- A zstd frame of blocks that are stored as they are, one in each COMPRESSED record; a record goes
-- on from one record to the next.
local function in_compressed()
  local plain = records_of(new_recording())
  local all, inner = table.concat(plain.records), ends_of(plain.records, 0)
  local built, at, outer, ends = new_recording(), #new_recording():file(), {}, {}
  local cuts = { 0, 100, inner[4], inner[6] + 9, #all }
  for i = 2, #cuts do
    local part = all:sub(cuts[i - 1] + 1, cuts[i])
    local block = string.pack("<I3", #part << 3 | (i == #cuts and 1 or 0)) .. part
    built:user(81, (i == 2 and "\x28\xb5\x2f\xfd\x00\x58" or "") .. block)
    at = at + #built.records[#built.records]
    outer[i - 1] = at
  end
  -- a record is there when the COMPRESSED one is that holds its end
  local n = 0
  for i, stop in ipairs(outer) do
    n = n + 1
    ends[n] = stop
    for _, stops in ipairs(inner) do
      if stops > cuts[i] and stops <= cuts[i + 1] then
        n = n + 1
        ends[n] = stop
      end
    end
  end
  return { bytes = built:file(features_of(built)), ends = ends, head = #new_recording():file(), inflated = #all }
end

local kinds = { ["a file"] = in_file, ["a pipe"] = in_pipe, ["compressed records"] = in_compressed }

-- ---- reading ----

-- Every record by its bytes, with all of its fields decoded, in the order of the file.
local function read(rec, why, max)
  if not rec then return {}, why end
  local lines, n = {}, 0
  for r, offset in rec:records() do
    n = n + 1
    if n > max then error "more records than there is room for" end
    if type(r) ~= "table" then r = { raw = r.bytes, copy = r:copy() } end
    lines[n] = offset .. " " .. r.raw
  end
  for _ in pairs(rec.header) do n = n + 1 end
  local stats = rec:totals()
  assert(#lines <= (stats.bytes + stats.inflated) // 8, "a record takes 8 bytes")
  assert(stats.memory <= MEMORY_MAX, "blocks")
  rec:close()
  return lines, rec.error
end

-- A medium for the bytes, with one byte that can be changed: a file, or a pipe read in pieces.
local function medium(made)
  local self = { bytes = made.bytes }
  if made.pipe then
    function self.put(at, byte) self.bytes = self.bytes:sub(1, at) .. byte .. self.bytes:sub(at + 2) end
    function self.cut() self.bytes = "" end
    function self.read(max)
      local rec, why = perfdata.open(self.bytes, 500, { ordered = false })
      return read(rec, why, max)
    end
    return self
  end
  local dir = run.tempdir()
  finally(function() run.remove(dir) end)
  local path = dir .. "/t.data"
  local file = assert(io.open(path, "w+b"))
  file:setvbuf "no"
  file:write(made.bytes)
  function self.put(at, byte)
    file:seek("set", at)
    file:write(byte)
  end
  function self.cut()
    file:close()
    file = assert(io.open(path, "w+b"))
    file:setvbuf "no"
  end
  function self.read(max)
    local rec, why = perfev.open(path, { ordered = false })
    return read(rec, why, max)
  end
  return self
end

local function begins_with(lines, before, nr, what)
  for i = 1, nr do
    if lines[i] ~= before[i] then assert.equal(before[i], lines[i], what) end
  end
end

local function says(text, wanted, what)
  if not text or not (text:find(wanted) or text:find "begin with PERFILE2") then
    assert.equal("an error with " .. wanted, text, what)
  end
end

for kind, make in pairs(kinds) do
  describe(kind, function()
    it("cut at any byte delivers every whole record before it, and reports the place", function()
      local made = make()
      local on = medium(made)
      local whole, why = on.read(1000)
      assert.is_nil(why)
      assert.equal(#made.ends, #whole)
      on.cut()
      local there = 0
      for cut = 0, #made.bytes - 1 do
        if cut % CUT_STEP == 0 then
          while (made.ends[there + 1] or math.huge) <= cut do there = there + 1 end
          local lines, text = on.read(1000)
          if cut >= made.head and there ~= #lines then assert.equal(there, #lines, "cut at " .. cut) end
          begins_with(lines, whole, #lines, "cut at " .. cut)
          -- a pipe may end with any round
          if not (made.pipe and made.rounds[cut]) then
            says(text, ("0x%x%%f[%%X]"):format(cut), "cut at " .. cut)
          elseif text then
            assert.is_nil(text)
          end
        end
        on.put(cut, made.bytes:sub(cut + 1, cut + 1))
      end
      assert.same({ whole }, { on.read(1000) })
    end)

    it("with any one byte changed ends, in bounds, and loses no record before it", function()
      math.randomseed(SEED)
      local made = make()
      local on = medium(made)
      local whole = on.read(1000)
      local max = (#made.bytes + (made.inflated or 0)) // 8
      collectgarbage()
      local before, most, ended, refused = collectgarbage "count", 0, 0, 0
      for _ = 1, CHANGES do
        local at, bit = math.random(0, #made.bytes - 1), math.random(0, 7)
        local old = made.bytes:byte(at + 1)
        local what = ("bit %d of byte %d"):format(bit, at)
        on.put(at, string.char(old ~ 1 << bit))
        local lines, why = on.read(max)
        most = math.max(most, collectgarbage "count")
        local n = 0
        while at >= made.head and n < #whole and made.ends[n + 1] <= at do n = n + 1 end
        begins_with(lines, whole, n, what)
        if why then says(why, "0x%x", what) end
        ended = ended + (why and 1 or 0)
        refused = refused + (#lines == 0 and 1 or 0)
        on.put(at, string.char(old))
      end
      assert.is_true(ended > CHANGES / 50 and refused < CHANGES / 4, ("%d ended, %d refused"):format(ended, refused))
      assert.is_true(most - before < LUA_MAX, ("%.0f KiB of Lua's"):format(most - before))
      assert.same({ whole }, { on.read(1000) })
    end)
  end)
end
