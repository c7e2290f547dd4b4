-- The reader of rings: all records arrive byte for byte, at any position, and invalid contents do no harm.

local perfev = require "perfev"
local sim = require "perfev.sim"
local run = require "spec.support.run"
local wire = require "spec.support.wire"

local PAGE, HEAD, TAIL = 4096, 1024, 1032
local RING = 128 << 10
local MOST = 65528 -- the largest multiple of 8 that header.size holds

local k

-- A session on one CPU; its only event passes the bytes of every record to f.
local function open(f, opts)
  k = sim.new { cpus = "0", ring_start = opts and opts.ring_start }
  perfev.hooks.set(k.hooks)
  local s = perfev.session { cpus = { 0 }, buffer = opts and opts.buffer or RING, ordered = false,
                             max_bytes = opts and opts.max_bytes, log = opts and opts.log }
  s:event { record = f, comm = true, task = true }
  assert(s:start())
  return s, k.events[1]
end

local words = {}
for i = 1, 2 * MOST // 8 do words[i] = string.pack("=I8", i * 0x9e3779b97f4a7c15) end
local noise = table.concat(words)

-- A record of exactly that size that our event owns: noise, and the id as its last word.
local function record_of(size, event)
  return wire.frame(63, 0, noise:sub(size, 2 * size - 17) .. string.pack("=I8", event.id))
end

-- Move head and the session's tail there with records of an unknown event.
local function go_to(s, event, place)
  local memory = event.ring.memory
  local delta = (place - memory:u64(HEAD)) % event.ring.size
  while delta > 0 do
    local size = math.min(delta, MOST)
    local head = memory:u64(HEAD)
    memory:write(PAGE + head % event.ring.size, string.pack("=I4I2I2", 99, 0, size))
    memory:u64(HEAD, head + size)
    delta = delta - size
    s:dispatch()
  end
end

describe("a ring", function()
  after_each(function() perfev.hooks.clear() end)

  it("returns records of every size at each of the last 64 places and the first", function()
    local dir <close> = setmetatable({ path = run.tempdir() }, { __close = function(d) run.remove(d.path) end })
    local built = run({ os.getenv "CC" or "gcc", "-O2", "-std=gnu11", "-Isrc", "-o", dir.path .. "/wrap",
      "spec/support/wrap.c", "src/live/ring.c" })
    assert.equal(0, built.code, built.err)
    assert.equal(("%d\n"):format(8191 * 65), run({ dir.path .. "/wrap" }).out)
  end)

  it("passes records of every size to a callback, whole, when they wrap in the middle", function()
    local got
    local s, event = open(function(r) got = r.bytes end)
    for size = 16, MOST, 8 do
      go_to(s, event, RING - size // 16 * 8)
      local bytes = record_of(size, event)
      assert.is_true(k:push(event, bytes))
      got = nil
      s:dispatch()
      if got ~= bytes then error("size " .. size) end
    end
    s:close()
    assert.equal(0, s:totals().corrupt)
  end)

  it("passes records of some sizes to a callback from each of the last 64 places", function()
    local got
    local s, event = open(function(r) got = r.bytes end)
    for _, size in ipairs { 16, 24, 64, 504, 512, 520, 4096, 32768, MOST } do
      for place = RING - 8 * 64, RING, 8 do
        go_to(s, event, place % RING)
        local bytes = record_of(size, event)
        assert.is_true(k:push(event, bytes))
        got = nil
        s:dispatch()
        if got ~= bytes then error(("size %d at %d"):format(size, place)) end
      end
    end
    s:close()
  end)

  it("skips a record of 8 bytes, which has no event", function()
    local s, event = open(function() error("called") end)
    k:push(event, wire.frame(14, 0x2000, ""))
    s:dispatch()
    assert.equal(1, s:totals().unknown_id)
    s:close()
  end)

  for name, start in pairs {
    ["2^32"] = 1 << 32, ["2^63"] = math.mininteger, ["2^64"] = 0,
  } do
    it("continues when head passes " .. name, function()
      local got = {}
      local s, event = open(function(r) got[#got + 1] = r.bytes end, { ring_start = start - RING, buffer = PAGE })
      local sent = {}
      for i = 1, 2 * RING // 488 do
        sent[i] = record_of(488, event)
        assert.is_true(k:push(event, sent[i]))
        if i % 8 == 0 then s:dispatch() end
      end
      s:dispatch()
      assert.same(sent, got)
      assert.is_true(math.ult(0, event.ring.memory:u64(HEAD) - start))
      assert.equal(event.ring.memory:u64(HEAD), event.ring.memory:u64(TAIL))
      s:close()
    end)
  end

  it("begins after its page on kernels without data_offset", function()
    local DATA_OFFSET = 1040
    local got = {}
    k = sim.new { cpus = "0" }
    local mmap, page = k.hooks.mmap, nil
    k.hooks.mmap = function(...)
      page = mmap(...)
      page:u64(DATA_OFFSET, 0) -- before 4.1
      page:u64(DATA_OFFSET + 8, 0)
      return page
    end
    perfev.hooks.set(k.hooks)
    local s <close> = perfev.session { cpus = { 0 }, buffer = "8K", ordered = false }
    s:event { comm = function(r) got[#got + 1] = r.comm end }
    assert(s:start())
    assert.equal(0, page:u64(DATA_OFFSET))
    assert(k:emit(k.events[1], "comm", { pid = 1, tid = 1, comm = "old" }))
    s:dispatch()
    assert.same({ "old" }, got)
  end)

  it("returns room to the kernel: a hundred rings' worth passes through one page", function()
    local n = 0
    local s, event = open(function() n = n + 1 end, { buffer = PAGE })
    for i = 1, 100 * PAGE // 64 do
      assert.is_true(k:push(event, record_of(64, event)))
      if i % 32 == 0 then s:dispatch() end
    end
    s:dispatch()
    s:close()
    assert.equal(6400, n)
    assert.equal(0, s:totals().lost)
  end)

  it("publishes its tail at each quarter of the ring, not at each record", function()
    local tails = {}
    local s, event = open(function()
      local tail = k.events[1].ring.memory:u64(TAIL)
      if tails[#tails] ~= tail then tails[#tails + 1] = tail end
    end, { buffer = 64 << 10 })
    for _ = 1, 500 do k:push(event, record_of(64, event)) end
    s:dispatch()
    s:close()
    assert.same({ 0, 16384 }, tails)
  end)

  -- A callback during which the kernel writes two records, until it has written that many of 64 bytes.
  local function overwhelm(nr, max_bytes)
    local seen, written = {}, 0
    local s, event
    local function write()
      local content = string.pack("=I8", written) .. noise:sub(1, 40) .. string.pack("=I8", event.id)
      if written < nr and k:push(event, wire.frame(63, 0, content)) then written = written + 1 end
    end
    s, event = open(function(r)
      if r.type == "lost" then return end
      seen[#seen + 1] = string.unpack("=I8", r.bytes, 9)
      write()
      write()
    end, { buffer = 64 << 10, max_bytes = max_bytes })
    write()
    repeat until s:dispatch() == 0
    local totals = s:totals()
    s:close()
    return seen, totals
  end

  it("moves many times its size to memory while callbacks are slower than the kernel: all arrive, in order", function()
    local seen, totals = overwhelm(20000)
    assert.equal(20000, #seen)
    for i, number in ipairs(seen) do assert.equal(i - 1, number) end
    assert.same({ 0, 0 }, { totals.lost, totals.lost_waiting })
    -- Half of the records of 64 bytes wait: a little less than a ring of them in the ring.
    assert.is_true(totals.moved_peak >= 10000 * 64 - (64 << 10), totals.moved_peak)
    assert.is_true(totals.ring_peak > (32 << 10) and totals.ring_peak <= 64 << 10, totals.ring_peak)
  end)

  it("moves at most half of max_bytes to memory: what the kernel cannot write is counted as lost", function()
    local seen, totals = overwhelm(30000, "1M")
    assert.equal(30000, #seen)
    for i, number in ipairs(seen) do assert.equal(i - 1, number) end
    -- A record is written for each that is delivered. Half of them wait in memory and in the ring.
    assert.is_true(totals.lost > 0)
    assert.equal(totals.lost, totals.lost_waiting)
    assert.is_true(totals.moved_peak <= 512 << 10, totals.moved_peak)
    assert.equal((64 << 10) - 64, totals.ring_peak) -- the kernel fills a ring up to one record
  end)

  it("knows the most bytes that were unread at once, and logs them at level 1 when the session ends", function()
    local said = {}
    local s, event = open(function() end, { buffer = 64 << 10, log = function(level, text)
      if text:find "at their fullest" then said[#said + 1] = level .. " " .. text end
    end })
    for _, nr in ipairs { 100, 512, 10 } do
      for _ = 1, nr do k:push(event, record_of(64, event)) end
      s:dispatch()
    end
    assert.same({ 512 * 64, 0 }, { s:totals().ring_peak, s:totals().moved_peak })
    s:close()
    assert.same({ "1 rings of 64K at their fullest: cpu 0 50 %" }, said)
  end)

  for name, size in pairs {
    ["0"] = 0, ["7"] = 7, ["odd"] = 41, ["not a multiple of 8"] = 44, ["too large for what is there"] = 4096,
  } do
    it(("resynchronises once at a header with size %s, and continues"):format(name), function()
      local got = {}
      local s, event = open(function(r) got[#got + 1] = r.bytes end)
      local good = record_of(64, event)
      k:push(event, good)
      k:push(event, string.pack("=I4I2I2", 9, 0, size) .. ("x"):rep(56))
      k:push(event, good)
      s:dispatch()
      assert.same({ good }, got)
      k:push(event, good)
      k:push(event, good)
      s:dispatch()
      assert.same({ good, good, good }, got)
      local stats = s:totals()
      assert.same({ 1, 3, 0 }, { stats.corrupt, stats.records, stats.unknown_id })
      assert.equal(event.ring.memory:u64(HEAD), event.ring.memory:u64(TAIL))
      s:close()
      assert.same({}, k:leaks())
    end)
  end

  it("delivers the records before a corrupt one in pieces, and counts the corrupt one once", function()
    local got = {}
    local s, event = open(function(r) got[#got + 1] = #r.bytes end)
    for _, size in ipairs { 64, 72, 80 } do k:push(event, record_of(size, event)) end
    k:push(event, string.pack("=I4I2I2", 9, 0, 7) .. ("x"):rep(56))
    for i = 1, 3 do
      assert.equal(1, (s:dispatch(1)))
      assert.equal(i, #got)
    end
    s:dispatch()
    k:push(event, record_of(64, event))
    s:dispatch()
    assert.same({ 64, 72, 80, 64 }, got)
    assert.same({ 1, 4 }, { s:totals().corrupt, s:totals().records })
    s:close()
  end)

  it("resynchronises if head has passed more than the ring's size", function()
    local n = 0
    local s, event = open(function() n = n + 1 end)
    event.ring.memory:u64(HEAD, RING + 8)
    s:dispatch()
    assert.equal(1, s:totals().corrupt)
    k:push(event, record_of(64, event))
    s:dispatch()
    assert.equal(1, n)
    s:close()
  end)

  it("logs a corrupt ring once", function()
    local said = {}
    k = sim.new()
    perfev.hooks.set(k.hooks)
    local s = perfev.session { cpus = { 0 }, log = function(level, text) said[#said + 1] = level .. text end }
    s:event { record = function() end, comm = true, task = true }
    assert(s:start())
    for _ = 1, 3 do
      k:push(k.events[1], ("\0"):rep(64))
      s:dispatch()
    end
    s:close()
    local told = 0
    for _, text in ipairs(said) do told = told + (text:find("corrupt") and 1 or 0) end
    assert.equal(1, told)
  end)
end)
