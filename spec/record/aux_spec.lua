-- AUX areas: the callback gets the traced bytes unchanged, and the kernel gets the space back, at any position and
-- after any loss. Invalid offsets do no harm.

local core = require "perfev.core"
local perfev = require "perfev"
local sim = require "perfev.sim"

local E = perfev.errno
local PAGE = 4096
local AUX_HEAD, AUX_TAIL, AUX_OFFSET, AUX_SIZE = 1056, 1064, 1072, 1080
local PT, SPE = 9, 10 -- types in the worlds intel_hybrid and arm64

local k

-- A kernel in force until the spec's end.
local function world(opts)
  opts = opts or {}
  opts.world, opts.cpus = opts.world or "intel_hybrid", opts.cpus or "0"
  k = sim.new(opts)
  perfev.hooks.set(k.hooks)
  return k
end

-- A started session with one event that traces; words are more of its spec (false: not in it), opts the session's.
local function tracing(words, opts)
  opts = opts or {}
  if opts.ordered == nil then opts.ordered = false end
  opts.buffer = opts.buffer or "16K"
  local s = perfev.session(opts)
  local spec = { name = "pt", type = PT, config = 0, aux_buffer = "8K" }
  for name, value in pairs(words or {}) do spec[name] = value end
  if spec.aux_buffer == "unsaid" then spec.aux_buffer = nil end
  local ev = s:event(spec)
  assert(s:start())
  return s, k.events[1], ev
end

local function u64(event, at, value) return event.ring.memory:u64(at, value) end

local letters = {}
for i = 1, 64 * 1024 do letters[i] = string.char(i * 7919 % 251) end
local noise = table.concat(letters)

-- The captures of the calls in the log that match, in order.
local function logged(pattern)
  local list = {}
  for _, line in ipairs(k.log) do
    list[#list + 1] = math.tointeger(tonumber(line:match(pattern)))
  end
  return list
end

after_each(function() perfev.hooks.clear() end)

describe("an AUX area", function()
  it("is mapped after the ring, announced in the page first, and unmapped before the ring", function()
    world()
    local s, event = tracing { aux = function() end }
    assert.same({ 0, 20480 }, { table.unpack(logged "^mmap%(.*, (%d+)%) = _", 1, 2) }) -- offsets
    assert.equal(20480, u64(event, AUX_OFFSET))
    assert.equal(8192, u64(event, AUX_SIZE))
    s:close()
    local lengths = logged "^munmap%(_, (%d+)%) = 0"
    assert.same({ 8192, 20480 }, { table.unpack(lengths, #lengths - 1) })
    assert.same({}, k:leaks())
  end)

  it("has a ring that no other event writes into", function()
    world { cpus = "0-1" }
    local s = tracing { aux = function() end, sample_period = 1 }
    assert(s:event { "dummy", comm = function() end })
    assert(s:event { name = "second", type = PT, config = 0, aux = function() end })
    local rings = {}
    for _, event in ipairs(k.events) do
      local traces = event.attr.type == PT
      assert.equal(traces, event.ring.aux ~= nil)
      if traces then
        assert.is_nil(rings[event.ring])
        assert.equal(event.fd, event.ring.fd)
        rings[event.ring] = true
      end
    end
    assert.equal(6, s:totals().rings) -- two of each that traces, two of all others
    s:close()
    assert.same({}, k:leaks())
  end)

  it("is shared by all threads of the event on a CPU", function()
    world { tasks = { [42] = "a", [43] = "b" } }
    local s = tracing({ aux = function() end }, { tid = { 42, 43 } })
    assert.equal(k.events[1].ring, k.events[2].ring)
    assert.equal(1, #logged "^mmap%((8192),")
    s:close()
    assert.same({}, k:leaks())
  end)

  it("is 4 MiB for a callback without a size, and for true", function()
    for _, said in ipairs { "unsaid", true } do
      world()
      local s, event = tracing { aux_buffer = said, aux = function() end }
      assert.equal(4 << 20, u64(event, AUX_SIZE))
      s:close()
    end
  end)

  it("is not mapped for false, for the kernel's own types, or without size and callback", function()
    for _, words in ipairs { { aux_buffer = false, aux = function() end }, { aux_buffer = "unsaid" },
        { aux_buffer = "unsaid", type = 1, aux = function() end },
        { aux_buffer = "unsaid", write_backward = true, aux = function() end } } do
      world()
      local s, event = tracing(words)
      assert.is_nil(event.ring.aux)
      s:close()
    end
  end)

  it("is rounded up to a power of two, and an invalid size is refused at once", function()
    world()
    local s, event = tracing { aux_buffer = "20K" }
    assert.equal(32 << 10, u64(event, AUX_SIZE))
    s:close()
    local other = perfev.session {}
    local function declare(words)
      words.type = PT
      return function() other:event(words) end
    end
    assert.error_matches(declare { aux_buffer = "1K" }, "aux_buffer: 1K is not between 4K and 2G")
    assert.error_matches(declare { aux_buffer = "much" }, "aux_buffer: size 'much': expected a number")
    assert.error_matches(declare { aux_buffer = true, write_backward = true }, "aux_buffer and write_backward at once")
  end)

  it("gives the event perf record's period of 1 without a frequency, unless set otherwise", function()
    world()
    local s, event = tracing()
    assert.same({ false, 1 }, { event.attr.freq, event.attr.sample_period })
    s:close()
    world()
    s, event = tracing { period = 4096 }
    assert.same({ false, 4096 }, { event.attr.freq, event.attr.sample_period })
    s:close()
    world { world = "arm64", cpus = "4" }
    s, event = tracing { type = SPE, freq = 100 }
    assert.same({ true, 100 }, { event.attr.freq, event.attr.sample_freq })
    s:close()
  end)

  it("shrinks to the memory that may be locked, with a message", function()
    world { mlock = 64 << 10 }
    local said = {}
    local s, event = tracing({ aux_buffer = "4M" }, { log = function(level, text) said[#said + 1] = level .. text end })
    assert.equal(64 << 10, u64(event, AUX_SIZE))
    assert.equal("1pt: AUX area of 64 KiB instead of 4096 KiB, as much as kernel.perf_event_mlock_kb allows", said[1])
    s:close()
    assert.same({}, k:leaks())
  end)

  local function refusing(errno)
    world()
    local mmap = k.hooks.mmap
    k.hooks.mmap = function(len, prot, fd, offset)
      if offset ~= 0 then return nil, errno end
      return mmap(len, prot, fd, offset)
    end
    perfev.hooks.set(k.hooks)
    local s = perfev.session { buffer = "16K" }
    s:event { name = "pt", type = PT, config = 0, aux_buffer = "8K" }
    local ok, why, code = s:start()
    assert.same({ n = 3, nil, why, errno }, table.pack(ok, why, code))
    assert.same({}, k:leaks())
    return why
  end

  it("that is refused is reported with its size, event, CPU and reason", function()
    local why = refusing(E.EPERM)
    assert.matches("^cannot map an AUX area of 4 KiB for pt on cpu 0: .*%(EPERM%)\n  over the memory that may be",
      why)
    assert.matches("^cannot map an AUX area of 8 KiB for pt on cpu 0: .*%(ENOMEM%)\n", refusing(E.ENOMEM))
  end)

  it("that the PMU lacks fails an event with aux_buffer, but not one with only a callback", function()
    world()
    local s = perfev.session { buffer = "16K" }
    s:event { name = "cycles", type = 4, config = 0, aux_buffer = "8K" }
    local ok, why, code = s:start()
    assert.same({ false, E.EOPNOTSUPP }, { ok or false, code })
    assert.matches("^cannot map an AUX area of 8 KiB for cycles on cpu 0: .*\n"
      .. "  the event's PMU has no AUX area\n  try: ", why)
    assert.same({}, k:leaks())
    world()
    local said = {}
    s = perfev.session { buffer = "16K", log = function(_, text) said[#said + 1] = text end }
    s:event { name = "atom", type = 10, config = 0, aux = function() end }
    assert(s:start())
    assert.equal("atom: its PMU has no AUX area", said[1])
    s:close()
  end)

  it("is read as it arrives, despite the session's overwrite", function()
    world()
    local said, got = {}, nil
    local s, event = tracing({ aux = function(_, bytes) got = tostring(bytes) end },
      { overwrite = true, log = function(_, text) said[#said + 1] = text end })
    assert.is_false(event.attr.write_backward)
    assert.equal("pt: its AUX area is read as it comes; overwrite is not for it", said[1])
    k:aux(event, "now")
    s:dispatch()
    assert.equal("now", got)
    s:close()
  end)
end)

describe("the aux callback", function()
  it("gets the record and the bytes it describes", function()
    world()
    local seen
    local s, event, ev = tracing { aux = function(r, bytes)
      seen = { r.type, r.event, r.cpu, r.aux_offset, r.aux_size, r.flags, #bytes, tostring(bytes), r.aux == bytes }
    end }
    assert.is_true(k:aux(event, "first"))
    s:dispatch()
    assert.same({ "aux", ev, 0, 0, 5, 0, 5, "first", true }, seen)
    assert.is_true(k:aux(event, "second"))
    s:dispatch()
    assert.same({ "aux", ev, 0, 5, 6, 0, 6, "second", true }, seen)
    s:close()
  end)

  it("gets every byte once, in order, for pieces of any size and any wrap", function()
    world()
    local got = {}
    local s, event = tracing { aux = function(_, bytes) got[#got + 1] = tostring(bytes) end }
    local sent, step = {}, 1
    while #sent < 120 do
      step = step * 37 % 2003 + 1
      local piece = noise:sub(#sent * 300 + 1, #sent * 300 + step)
      assert.is_true(k:aux(event, piece))
      sent[#sent + 1] = piece
      s:dispatch()
    end
    assert.same(sent, got)
    assert.equal(#table.concat(sent), u64(event, AUX_TAIL))
    assert.equal(#table.concat(sent), s:totals().aux_bytes)
    assert.is_true(#table.concat(sent) > 4 * 8192)
    s:close()
  end)

  it("can slice bytes like a string, from one piece or both", function()
    world()
    local s, event
    local text = "0123456789abcdef"
    local checked = 0
    s, event = tracing { aux = function(_, bytes)
      if #bytes ~= #text then return end
      for i = -18, 18 do
        assert.equal(text:sub(i), bytes:sub(i))
        for j = -18, 18 do
          assert.equal(text:sub(i, j), bytes:sub(i, j), i .. " to " .. j)
          checked = checked + 1
        end
      end
      assert.equal(text:sub(math.mininteger, math.maxinteger), bytes:sub(math.mininteger, math.maxinteger))
    end }
    for _, before in ipairs { 8192 - 16, 8192 - 8, 1 } do
      k:aux(event, noise:sub(1, before))
      s:dispatch()
      k:aux(event, text)
      s:dispatch()
    end
    assert.equal(3 * 37 * 37, checked)
    s:close()
  end)

  it("may keep bytes only as a string", function()
    world()
    local kept
    local s, event = tracing { aux = function(_, bytes) kept = bytes end }
    k:aux(event, "gone")
    s:dispatch()
    for _, use in ipairs { function() return #kept end, function() return kept:sub(1) end,
        function() return tostring(kept) end } do
      assert.error_matches(use, "AUX bytes used after their callback; keep tostring%(bytes%)")
    end
    s:close()
    assert.error_matches(function() return #kept end, "after their callback")
  end)

  it("finds the flags by name, and the PMU's own byte", function()
    world()
    local seen
    local s, event = tracing { aux = function(r)
      seen = { r.truncated, r.overwrite, r.partial, r.collision, r.pmu_format }
    end }
    k:aux(event, "x", 0)
    s:dispatch()
    assert.same({ false, false, false, false, 0 }, seen)
    for bit = 0, 3 do
      k:emit(event, "aux", { flags = 1 << bit | 0xa500 })
      s:dispatch()
      assert.same({ bit == 0, bit == 1, bit == 2, bit == 3, 0xa5 }, seen)
    end
    s:close()
  end)

  it("has a record whose copy, pairs and text leave out the bytes", function()
    world()
    local copy, text
    local s, event = tracing { aux = function(r)
      copy, text = r:copy(), tostring(r)
      for name in pairs(r) do assert.not_equal("aux", name) end
    end }
    k:aux(event, "bytes", 4)
    s:dispatch()
    assert.is_nil(copy.aux)
    assert.same({ true, false, 0, 5 }, { copy.partial, copy.truncated, copy.pmu_format, copy.aux_size })
    assert.matches("^aux aux_offset=0 aux_size=5 flags=4 pid=%d+ tid=%d+ time=%d+ cpu=0 comm=.* partial "
      .. "pmu_format=0$", text)
    s:close()
  end)

  it("is not needed for records() and record, which give the bytes as r.aux", function()
    world()
    local got = {}
    local s, event = tracing { record = function(r, bytes)
      if r.type == "aux" then got[#got + 1] = tostring(r.aux) .. #bytes end
    end }
    k:aux(event, "by record")
    s:dispatch()
    s:close()
    world()
    s, event = tracing({}, { count = 1 })
    k:aux(event, "by hand")
    for r in s:records() do got[#got + 1] = tostring(r.aux) end
    assert.same({ "by record9", "by hand" }, got)
  end)

  it("has no bytes if no area is mapped", function()
    world()
    local seen
    local s, event = tracing { aux_buffer = false,
      aux = function(...) seen = { select("#", ...), (...).aux == nil } end }
    k:emit(event, "aux", { aux_offset = 0, aux_size = 8 })
    s:dispatch()
    assert.same({ 1, true }, seen)
    s:close()
  end)
end)

describe("the space of an AUX area", function()
  it("is released when the callback has returned, and not before", function()
    world()
    local during
    local s, event
    s, event = tracing { aux = function() during = u64(event, AUX_TAIL) end }
    k:aux(event, noise:sub(1, 5000))
    s:dispatch()
    assert.same({ 0, 5000 }, { during, u64(event, AUX_TAIL) })
    s:close()
  end)

  it("is released for records without a listener, and when a callback fails", function()
    world()
    local s, event = tracing()
    k:aux(event, noise:sub(1, 5000))
    s:dispatch()
    assert.equal(5000, u64(event, AUX_TAIL))
    s:close()
    world()
    s, event = tracing({ aux = function() error "no" end }, { strict = false })
    k:aux(event, noise:sub(1, 5000))
    s:dispatch()
    assert.same({ 5000, 1 }, { u64(event, AUX_TAIL), s:totals().callback_errors })
    s:close()
  end)

  it("is unmapped without a leak by a stop or a close inside the callback", function()
    for _, verb in ipairs { "stop", "close" } do
      world()
      local s, event
      s, event = tracing { aux = function() s[verb](s) end }
      k:aux(event, "x")
      s:dispatch()
      assert.same({}, k:leaks())
      assert.is_nil(event.ring.aux)
    end
  end)

  it("that is full truncates new data; the event continues after the callback has read it", function()
    world()
    local got = {}
    local s, event = tracing { aux = function(r, bytes) got[#got + 1] = { #bytes, r.truncated } end }
    k:aux(event, noise:sub(1, 5000))
    k:aux(event, noise:sub(1, 5000))
    assert.is_false(event.enabled) -- perf_aux_output_end()
    assert.is_false(k:aux(event, "lost"))
    s:dispatch()
    assert.same({ { 5000, false }, { 3191, true } }, got)
    assert.is_true(event.enabled)
    assert.equal(1, s:totals().aux_truncated)
    assert.is_true(k:aux(event, "goes on"))
    s:dispatch()
    assert.same({ 7, false }, got[3])
    s:close()
  end)

  it("that is full to the last byte lets the event continue as well", function()
    world()
    local s, event = tracing { aux = function() end }
    k:aux(event, noise:sub(1, 8191))
    assert.is_false(k:aux(event, "x")) -- perf_aux_output_begin() finds no room, and reports nothing
    assert.is_false(event.enabled)
    s:dispatch()
    assert.is_true(event.enabled)
    s:close()
  end)

  it("that the PMU reports as full for its own reasons lets the event continue", function()
    world()
    local s, event = tracing { aux = function() end }
    k:aux(event, "cut short", 1)
    assert.is_false(event.enabled)
    s:dispatch()
    assert.is_true(event.enabled)
    s:close()
  end)

  it("that is released does not enable an event that its owner disabled", function()
    world()
    local s, event, ev
    s, event, ev = tracing { aux = function() ev:disable() end }
    k:aux(event, noise:sub(1, 9000))
    s:dispatch()
    assert.is_false(event.enabled)
    assert(ev:enable())
    assert.is_true(k:aux(event, "x"))
    s:close()
  end)

  it("is not lost for ever when its AUX record is lost", function()
    world()
    local got = {}
    local s, event = tracing({ aux = function(_, bytes) got[#got + 1] = tostring(bytes) end }, { buffer = "4K" })
    repeat until not k:emit(event, "itrace_start", {})
    assert.is_false(k:aux(event, noise:sub(1, 9000)))
    assert.is_false(event.enabled)
    s:dispatch()
    assert.equal(0, u64(event, AUX_TAIL)) -- it may come yet
    s:dispatch()
    assert.same({ 8191, 8191, true }, { u64(event, AUX_TAIL), s:totals().aux_skipped, event.enabled })
    k:aux(event, "told")
    s:dispatch()
    s:dispatch()
    s:dispatch()
    assert.same({ { "told" }, 8191 }, { got, s:totals().aux_skipped })
    s:close()
  end)

  it("that is half used ends the wait for the order of time", function()
    world()
    local got = 0
    local s, event = tracing({ aux = function() got = got + 1 end }, { ordered = true })
    k:aux(event, noise:sub(1, 4000))
    s:dispatch()
    assert.equal(0, got)
    k:aux(event, noise:sub(1, 96))
    s:dispatch()
    assert.equal(1, got) -- the rest can wait again
    k:aux(event, noise:sub(1, 4000))
    s:dispatch()
    assert.equal(2, got)
    for _ = 1, 3 do k:aux(event, noise:sub(1, 100)) end
    s:dispatch()
    assert.equal(3, got)
    for _ = 1, 10 do k:aux(event, noise:sub(1, 100)) end
    k:aux(event, noise:sub(1, 3050))
    s:dispatch()
    assert.equal(6, got) -- of 4350 bytes as many as leave less than half
    s:close()
  end)

  it("wakes the reader when half of it is used, or aux_watermark bytes", function()
    for _, watermark in ipairs { 0, 1024 } do
      world()
      local n, woken = 0, nil
      local s, event = tracing({ aux_watermark = watermark, aux = function()
        woken = woken or n
        return false
      end }, { duration = "10s" })
      k:every("1ms", 20, function(i)
        n = i
        k:aux(event, noise:sub(1, 512))
      end)
      assert(s:run())
      assert.equal(watermark == 0 and 8 or 2, woken)
    end
  end)
end)

describe("an AUX record that no kernel writes", function()
  -- Positions of [offset, offset + size) that are between tail and head, one by one.
  local function expected(area, head, tail, offset, size)
    local out = {}
    for d = math.min(head - tail, #area), 1, -1 do
      local at = head - d
      if math.ult(at - offset, size) then out[#out + 1] = area:sub(at % #area + 1, at % #area + 1) end
    end
    return table.concat(out)
  end

  -- A session with an area whose offset begins at start.
  local function starting_at(start, f)
    world()
    local mmap = k.hooks.mmap
    k.hooks.mmap = function(len, prot, fd, offset)
      if offset ~= 0 then
        u64(k.events[1], AUX_HEAD, start)
        u64(k.events[1], AUX_TAIL, start)
      end
      return mmap(len, prot, fd, offset)
    end
    perfev.hooks.set(k.hooks)
    local s, event = tracing { aux_buffer = "4K", aux = f }
    event.ring.aux.memory:write(0, noise:sub(1, PAGE))
    return s, event
  end

  it("gives exactly the bytes that exist, for any offset in the record", function()
    for _, start in ipairs { 0, 4090, 1 << 40, -100, math.maxinteger - 50 } do
      local got
      local s, event = starting_at(start, function(_, bytes) got = tostring(bytes) end)
      math.randomseed(7)
      local unannounced = start
      for _ = 1, 400 do
        local tail = u64(event, AUX_TAIL)
        local head = tail + math.random(0, PAGE)
        local offset, size = head - math.random(-300, PAGE + 300), math.random(0, PAGE + 600)
        u64(event, AUX_HEAD, head)
        assert(k:emit(event, "aux", { aux_offset = offset, aux_size = size }))
        local wanted = expected(noise:sub(1, PAGE), head, tail, offset, size)
        got = nil
        s:dispatch()
        if got ~= wanted then
          error(("head %d tail %d offset %d size %d: %d bytes, not %d"):format(head, tail, offset, size,
            #got, #wanted))
        end
        tail = tail + math.max(0, math.min(offset + size - tail, head - tail))
        -- Bytes without a record when the ring was last empty are left out.
        tail = tail + math.max(0, math.min(unannounced - tail, head - tail))
        assert.equal(tail, u64(event, AUX_TAIL))
        unannounced = head
      end
      s:close()
    end
  end)

  it("never causes a read outside of the area, nor does the page", function()
    local wild = { 0, 1, 7, PAGE - 1, PAGE, PAGE + 1, 1 << 31, 1 << 32, 1 << 62, math.maxinteger, math.mininteger,
                   -1, -2, -PAGE }
    local n = 0
    local area = noise:sub(1, PAGE)
    local s, event = starting_at(0, function(r, bytes)
      n = n + 1
      local text = tostring(bytes)
      assert(#text == #bytes and #text <= PAGE and (#text == 0 or (area .. area):find(text, 1, true)), r.aux_offset)
    end)
    local emitted = 0
    for _, head in ipairs(wild) do
      for _, offset in ipairs(wild) do
        for _, size in ipairs(wild) do
          u64(event, AUX_HEAD, head)
          u64(event, AUX_SIZE, size)
          u64(event, AUX_OFFSET, offset)
          assert(k:emit(event, "aux", { aux_offset = offset, aux_size = size, flags = -1 }))
          emitted = emitted + 1
          event.enabled = true
          s:dispatch()
        end
      end
    end
    assert.equal((#wild) ^ 3, emitted)
    assert.equal(emitted, n)
    s:close()
    assert.same({}, k:leaks())
  end)
end)

describe("a tracing event", function()
  it("takes address ranges as its filter, which may be set again", function()
    world { tasks = { [42] = "a" } }
    local s, event, ev = tracing({ filter = "filter 0x1000/0x200@/bin/cat, stop 0xffffffff81000000" }, { tid = 42 })
    assert.same({
      { action = "filter", addr = 0x1000, size = 0x200, file = "/bin/cat" },
      { action = "stop", addr = tonumber "0xffffffff81000000", size = 0 },
    }, event.ranges)
    assert.is_true(ev:filter "start 0x10/0x20@/bin/cat")
    assert.same({ { action = "start", addr = 0x10, size = 0x20, file = "/bin/cat" } }, event.ranges)
    s:close()
  end)

  it("explains why the kernel refuses a filter: wrong ranges, too many ranges, files on a whole CPU", function()
    for _, case in ipairs {
      { "common_pid != 1", E.EINVAL }, { "filter 0x1000", E.EINVAL }, { "filter 0x1000/0x10@/bin/cat", E.EOPNOTSUPP },
      { "stop 1, stop 2, stop 3", E.EOPNOTSUPP },
    } do
      world()
      local s = perfev.session { buffer = "16K" }
      s:event { name = "pt", type = PT, config = 0, filter = case[1], aux_buffer = "8K" }
      local ok, why, code = s:start()
      assert.same({ false, case[2] }, { ok or false, code })
      assert.equal(("pt: filter '%s': the kernel refuses it: %s (%s)"):format(case[1], core.strerror(case[2]),
        E[case[2]]), why:match "^[^\n]+")
      assert.matches("\n  address ranges are expected, .*\n  try: 'filter 0x1000/0x200@/usr/bin/cat'", why)
      assert.same({}, k:leaks())
    end
  end)

  it("refuses a filter if its PMU has no address filters", function()
    world()
    local s = perfev.session { buffer = "16K" }
    s:event { name = "cycles", type = 4, config = 0, filter = "filter 0/1" }
    local ok, why = s:start()
    assert.is_nil(ok)
    assert.matches("\n  cycles is not a tracepoint: only tracepoints have fields to filter by\n  try: ", why)
  end)

  it("has aux_output, aux_sample_size, aux_watermark, aux_action and AUX samples in its attr", function()
    k = sim.new { cpus = "0" } -- without types, every attr is taken
    perfev.hooks.set(k.hooks)
    local s, event = tracing { aux_output = true, sample_type = { "aux" }, aux_sample_size = 4096, aux_watermark = 8192,
      aux_action = { "start_paused" }, aux_resume = true }
    local attr = event.attr
    assert.same({ true, 4096, 8192, true, true, false },
      { attr.aux_output, attr.aux_sample_size, attr.aux_watermark, attr.aux_start_paused, attr.aux_resume,
        attr.aux_pause })
    assert.is_true(attr.sample_type & 1 << 20 ~= 0)
    s:close()
  end)
end)

describe("an event with aux_sample_size", function()
  it("is refused with the missing part: a group with a tracing leader", function()
    world()
    local s = perfev.session { buffer = "16K" }
    s:event { "cpu-clock", sample_type = { "aux" }, aux_sample_size = 4096, sample = function() end }
    local ok, why, code = s:start()
    assert.same({ false, E.EINVAL }, { ok or false, code })
    assert.matches("\n  aux_sample_size requires a group leader that traces %(AUX%)\n", why)
  end)
end)

describe("a ring that cannot be shared or watched", function()
  local function failing(call)
    k = sim.new { cpus = "0" }
    perfev.hooks.set(k.hooks)
    k:fail(call, 1, E.EINVAL)
    local s = perfev.session { buffer = "16K" }
    s:event { "cpu-clock", sample = function() end }
    s:event { "page-faults", sample = function() end }
    local _, why = s:start()
    assert.same({}, k:leaks())
    return why:match "^[^\n]+"
  end

  it("is not reported as a ring that cannot be mapped", function()
    assert.equal("cannot share a ring with page-faults on cpu 0: Invalid argument (EINVAL)", failing "ioctl SET_OUTPUT")
    assert.equal("cannot watch the ring of cpu-clock on cpu 0: Invalid argument (EINVAL)", failing "epoll_ctl")
  end)
end)

describe("a simulated AUX area", function()
  local function area(offset, size, opts)
    world()
    opts = opts or {}
    local attr = core.attr_new { type = opts.type or PT, sample_type = { "identifier" }, sample_id_all = true }
    local fd = assert(k.hooks.perf_event_open(attr, 42, 0, -1, 0))
    if opts.ring == false then return { k.hooks.mmap(size, 3, fd, offset) }, fd end
    local page = assert(k.hooks.mmap(3 * PAGE, 3, fd, 0))
    page:u64(AUX_OFFSET, opts.says_offset or offset)
    page:u64(AUX_SIZE, opts.says_size or size)
    if opts.mlock then k.mlock = opts.mlock end
    return { k.hooks.mmap(size, opts.prot or 3, fd, offset) }, fd, page
  end

  it("is refused as in the kernel: offset, size, order, budget, PMU", function()
    local invalid = { nil, E.EINVAL }
    assert.same(invalid, area(3 * PAGE, PAGE, { ring = false }))
    assert.same(invalid, area(2 * PAGE, PAGE)) -- inside of the ring
    assert.same(invalid, area(3 * PAGE, PAGE, { says_offset = 4 * PAGE }))
    assert.same(invalid, area(3 * PAGE, PAGE, { says_size = 2 * PAGE }))
    assert.same(invalid, area(3 * PAGE, 3 * PAGE))
    assert.same({ nil, E.EPERM }, area(3 * PAGE, 2 * PAGE, { mlock = PAGE }))
    assert.same({ nil, E.EOPNOTSUPP }, area(3 * PAGE, PAGE, { type = 4 }))
    assert.is_truthy(area(3 * PAGE, PAGE)[1])
    assert.is_truthy(area(5 * PAGE, 4 * PAGE)[1]) -- a hole is no fault
  end)

  it("can be mapped again in the same way, and not otherwise", function()
    local first, fd, page = area(3 * PAGE, 2 * PAGE)
    assert.equal(first[1], (k.hooks.mmap(2 * PAGE, 3, fd, 3 * PAGE)))
    page:u64(AUX_SIZE, PAGE)
    assert.same({ nil, E.EINVAL }, { k.hooks.mmap(PAGE, 3, fd, 3 * PAGE) })
    page:u64(AUX_SIZE, 2 * PAGE)
    page:u64(AUX_OFFSET, 4 * PAGE)
    assert.same({ nil, E.EINVAL }, { k.hooks.mmap(2 * PAGE, 3, fd, 4 * PAGE) })
  end)

  it("that its reader cannot write is overwritten, and the record has a flag for it", function()
    local mapped, _, page = area(3 * PAGE, PAGE, { prot = 1 })
    local event, encoded = k.events[1], nil
    event.enabled = true
    local emit = k.emit
    k.emit = function(self, e, kind, fields) -- luacheck: ignore
      encoded = fields
      return emit(self, e, kind, fields)
    end
    assert.is_true(k:aux(event, ("a"):rep(PAGE)))
    assert.is_true(k:aux(event, "bc"))
    assert.same({ PAGE, 2, 2 }, { encoded.aux_offset, encoded.aux_size, encoded.flags })
    assert.equal("bca", mapped[1]:read(0, 3))
    assert.equal(PAGE + 2, page:u64(AUX_HEAD))
  end)

  it("of another PMU does not share its ring", function()
    world()
    k.types[11] = { aux = true }
    local fds = {}
    for i, kind in ipairs { PT, PT, 11, 1 } do
      fds[i] = assert(k.hooks.perf_event_open(core.attr_new { type = kind }, 42, 0, -1, 0))
    end
    assert(k.hooks.mmap(3 * PAGE, 3, fds[1], 0))
    assert.equal(0, k.hooks.ioctl(fds[2], "SET_OUTPUT", fds[1]))
    assert.same({ nil, E.EINVAL }, { k.hooks.ioctl(fds[3], "SET_OUTPUT", fds[1]) })
    assert.equal(0, k.hooks.ioctl(fds[4], "SET_OUTPUT", fds[1]))
  end)
end)

describe("a tracing session", function()
  -- Everything from opening to the end, with the kernel k; returns the error.
  local function whole_life()
    local got = {}
    local s = perfev.session { buffer = "16K", duration = "20ms", tid = { 42, 43 }, strict = false }
    s:event { name = "pt", type = PT, config = 0, aux_buffer = "8K", filter = "filter 0x1000/0x10",
              aux = function(_, bytes) got[#got + 1] = #bytes end }
    k:every("2ms", 4, function() if k.events[1] then k:aux(k.events[1], noise:sub(1, 5000)) end end)
    local ok, why = s:run()
    s:close()
    return ok, why, got
  end

  local function new_world() return world { cpus = "0-1", tasks = { [1] = "init", [42] = "a", [43] = "b" } } end

  it("releases everything if any call fails, and reports the failed call", function()
    new_world()
    local ok, _, got = whole_life()
    assert.same({ true, true }, { ok, #got > 1 })
    local counts, injected, refused = k.counts, 0, 0
    for name, times in pairs(counts) do
      for nth = 1, name == "ioctl" and 0 or times do
        new_world()
        k:fail(name, nth, E.ENOMEM)
        local done, why = whole_life()
        injected = injected + 1
        assert.same({}, k:leaks(), name .. " " .. nth)
        if not done then
          refused = refused + 1
          assert.matches("%(ENOMEM%)", why, 1, name .. " " .. nth)
        end
      end
    end
    assert.is_true(injected > 50 and refused > 10, injected .. " " .. refused)
  end)
end)

describe("perfev.encode", function()
  it("overrides an AUX record's flags by named flags and pmu_format", function()
    local function flags(t)
      t.type = "aux"
      return string.unpack("=I8", perfev.encode({}, t), 25)
    end
    assert.equal(0x5a09, flags { truncated = true, collision = true, pmu_format = 0x5a })
    assert.equal(0x0102, flags { flags = 0xff03, truncated = false, pmu_format = 1 })
    assert.error_matches(function() flags { pmu_format = 256 } end, "aux: pmu_format = 256: must be 0 to 255")
  end)
end)
