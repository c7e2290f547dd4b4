-- A session with an input: a recording instead of the kernel, to the same callbacks.

local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local MS, VERSION, EVENT_DESC, STAT = 1000000, 5, 12, 19
local BITS = { "ip", "tid", "time", "cpu", "period", "identifier" }
local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function attr(t)
  t.sample_type, t.sample_id_all = BITS, true
  return t
end

-- Three events; samples at 1, 2, ... ms of each in turn, a name before them, a fork at the end.
local function build(opts)
  local b = perfdata.new { events = {
    { ids = { 11 }, attr = attr { type = 1, config = 0, comm = true, task = true }, name = "cpu-clock:u" },
    { ids = { 12 }, attr = attr { type = 1, config = 3 }, name = "context-switches" },
    { ids = { 13 }, attr = attr { type = 1, config = 2 }, name = "page-faults" },
  }, endian = opts.endian }
  local function at(id, ms)
    return { pid = 7, tid = 7, time = ms * MS, cpu = 0, identifier = id }
  end
  b:add { type = "comm", pid = 7, tid = 7, comm = "worker", sample_id = at(11, 1) }
  for i = 1, opts.samples or 6 do
    local t = at(11 + (i - 1) % 3, i)
    t.type, t.ip, t.period = "sample", 0x1000 + i, i
    b:add(t)
  end
  b:add { type = "fork", pid = 8, ppid = 7, tid = 8, ptid = 7, time = 90 * MS, sample_id = at(11, 90) }
  return b
end

local function spill(bytes)
  return run.write_file(("%s/%d.data"):format(dir, #bytes), bytes)
end

local function whole(opts)
  local b = build(opts or {})
  return b:file { [EVENT_DESC] = b:event_desc() }
end

-- A session on the bytes of a recording; its messages go to said.
local function session(bytes, opts)
  local said = {}
  opts = opts or {}
  opts.input = spill(bytes or whole())
  opts.log = function(level, text) if level == 0 then said[#said + 1] = text end end
  return perfev.session(opts), said
end

local function line(r)
  return ("%s %s %d %s"):format(r.type, r.event and r.event.name or "-", r.time // MS, r.comm)
end

describe("a session with an input", function()
  it("delivers the samples to the callbacks of their events, in the order of time", function()
    local s, lines = session(), {}
    local function keep(r) lines[#lines + 1] = line(r) end
    s:event { "cs", sample = keep }
    s:event { "cpu-clock", sample = keep, comm = keep }
    assert.is_true(s:run())
    assert.same({ "comm cpu-clock 1 worker", "sample cpu-clock 1 worker", "sample cs 2 worker",
                  "sample cpu-clock 4 worker", "sample cs 5 worker" }, lines)
    assert.equal(5, s:totals().delivered)
    assert.equal(8, s:totals().records)
  end)

  it("delivers every sample to the event \"*\"", function()
    local s, lines = session(), {}
    local ev = s:event { "*", sample = function(r) lines[#lines + 1] = line(r) end }
    assert.is_true(s:run())
    assert.same({ "sample cpu-clock:u 1 worker", "sample context-switches 2 worker", "sample page-faults 3 worker",
                  "sample cpu-clock:u 4 worker", "sample context-switches 5 worker", "sample page-faults 6 worker" },
      lines)
    assert.equal(3, #ev.members)
    local some, seen = session(nil, { events = { "page-faults", "cs" } }), {}
    some:event { "*", sample = function(r) seen[#seen + 1] = line(r) end }
    assert.is_true(some:run())
    assert.same({ "sample cs 2 worker", "sample page-faults 3 worker", "sample cs 5 worker",
                  "sample page-faults 6 worker" }, seen)
    local other, heard = session(), 0 -- of alternatives the last
    other:event { "cycles | *", sample = function() heard = heard + 1 end }
    assert.is_true(other:run())
    assert.equal(6, heard)
  end)

  it("delivers no sample of another subsystem to \"sched:*\"", function()
    local s, heard = session(), 0
    s:event { "sched:*", sample = function() heard = heard + 1 end }
    assert.is_nil((s:run()))
    assert.equal(0, heard)
  end)

  it("accepts each event name from rec.events", function()
    local names = { "my one", "cpu/event=0x3c,umask=1/P", "a,b", "2:0x174", "{x", "cpu-clock/time=0,max-stack=3/" }
    local events = {}
    for i, name in ipairs(names) do
      events[i] = { ids = { 10 + i }, attr = attr { type = 4, config = i, sample_period = 1 }, name = name }
    end
    local b = perfdata.new { events = events }
    for i in ipairs(names) do
      b:add { type = "sample", pid = 7, tid = 7, time = i * MS, cpu = 0, ip = i, period = i, identifier = 10 + i }
    end
    local bytes = b:file { [EVENT_DESC] = b:event_desc() }
    local rec <close> = assert(perfev.open(spill(bytes)))
    for i, recorded in ipairs(rec.events) do
      assert.equal(names[i], recorded.name)
      local s, periods = session(bytes), {}
      s:event { recorded.name, sample = function(r) periods[#periods + 1] = r.period end }
      assert(s:run())
      assert.same({ i }, periods, recorded.name)
    end
  end)

  it("reads the other byte order to the same values", function()
    local seen = {}
    for _, endian in ipairs { "little", "big" } do
      local s, ips = session(whole { endian = endian }), {}
      s:event { "page-faults", sample = function(r) ips[#ips + 1] = r.ip end }
      assert.is_true(s:run())
      seen[#seen + 1] = ips
    end
    assert.same({ 0x1003, 0x1006 }, seen[1])
    assert.same(seen[1], seen[2])
  end)

  it("opens no event", function()
    local opened, n = 0, 0
    perfev.hooks.with({ perf_event_open = function()
      opened = opened + 1
      return nil, perfev.errno.EACCES
    end }, function()
      local s = session()
      s:event { "faults", sample = function() n = n + 1 end }
      assert.is_true(s:run())
    end)
    assert.same({ 0, 2 }, { opened, n })
  end)

  it("selects the first alternative in the recording, regardless of modifiers", function()
    local s, n = session(), 0
    s:event { "instructions | cpu-clock:k", sample = function() n = n + 1 end }
    assert.is_true(s:run())
    assert.equal(2, n)
  end)

  it("selects by modifiers among recorded events of one name, and all without modifiers", function()
    local function counted(text)
      local b = perfdata.new { events = {
        { ids = { 11 }, attr = attr { type = 1, config = 2, exclude_kernel = true }, name = "page-faults:u" },
        { ids = { 12 }, attr = attr { type = 1, config = 2, exclude_user = true }, name = "page-faults:k" },
      } }
      for i = 1, 3 do
        b:add { type = "sample", pid = 7, tid = 7, time = i * MS, cpu = 0, ip = 1, period = 1, identifier = 11 + i % 2 }
      end
      local s, n = session(b:file { [EVENT_DESC] = b:event_desc() }), 0
      s:event { text, sample = function() n = n + 1 end }
      assert.is_true(s:run())
      return n
    end
    assert.same({ 1, 2, 3, 3 },
      { counted "page-faults:u", counted "page-faults:k", counted "page-faults", counted "faults" })
  end)

  it("selects counters of all kinds of cores by a common name, and by PMU modifiers", function()
    local b = perfdata.new { events = {
      { ids = { 11 }, attr = attr { type = 0, config = 4 << 32 }, name = "cpu_core/cycles/P" },
      { ids = { 12 }, attr = attr { type = 0, config = 10 << 32 }, name = "cpu_atom/cycles:ppp/" },
      { ids = { 13 }, attr = attr { type = 0, config = 10 << 32 | 1 }, name = "cpu_atom/instructions/u" },
    } }
    for i, id in ipairs { 11, 11, 12, 12, 12, 13 } do
      b:add { type = "sample", pid = 7, tid = 7, time = i * MS, cpu = 0, ip = 1, period = 1, identifier = id }
    end
    local function counted(text)
      local s, n = session(b:file { [EVENT_DESC] = b:event_desc() }), 0
      s:event { text, sample = function() n = n + 1 end }
      assert.is_true(s:run())
      return n
    end
    assert.same({ 5, 5, 2, 3, 2, 1 }, { counted "cycles", counted "cycles:u", counted "cpu_core/cycles/",
      counted "cpu_atom/cycles/", counted "cpu_core/cycles/u", counted "instructions" })
  end)

  it("accepts a list as one event for each element", function()
    local s, names = session(), {}
    s:event { "faults,cs", sample = function(r) names[r.event.name] = (names[r.event.name] or 0) + 1 end }
    assert.is_true(s:run())
    assert.same({ faults = 2, cs = 2 }, names)
  end)

  it("calls the callback of each declaration of one recorded event, with its own event", function()
    local s, names = session(), {}
    for _, name in ipairs { "one", "two" } do
      s:event { "faults", name = name, sample = function(r) names[#names + 1] = r.event.name end }
    end
    assert.is_true(s:run())
    assert.same({ "one", "two", "one", "two" }, names)
  end)

  it("assigns events of the same name in order, and all of them to a single declaration", function()
    local b = perfdata.new { events = {
      { ids = { 11 }, attr = attr { type = 1, config = 2 }, name = "page-faults" },
      { ids = { 12 }, attr = attr { type = 1, config = 2 }, name = "page-faults" },
    } }
    for i = 1, 3 do
      b:add { type = "sample", pid = 7, tid = 7, time = i * MS, cpu = 0, ip = i, period = 1, identifier = 11 + i % 2 }
    end
    local function heard(...)
      local s, seen = session(b:file { [EVENT_DESC] = b:event_desc() }), {}
      for i, text in ipairs { ... } do
        seen[i] = 0
        s:event { text, sample = function() seen[i] = seen[i] + 1 end }
      end
      assert.is_true(s:run())
      return seen
    end
    assert.same({ 1, 2 }, heard("page-faults", "page-faults"))
    assert.same({ { 3 }, { 3, 3 }, { 3, 3, 3 } },
      { heard "page-faults", heard("page-faults", "faults"), heard("page-faults", "page-faults", "page-faults") })
  end)

  it("delivers the records of every event's tasks to an event without a name", function()
    local s, lines = session(), {}
    s:event { comm = function(r) lines[#lines + 1] = r.type end, record = function(r) lines[#lines + 1] = r.type end }
    assert.is_true(s:run())
    assert.same({ "comm", "fork" }, lines)
  end)

  it("reports an event missing in the recording once, and continues with the others", function()
    local s, said = session()
    local n = 0
    s:event { "major-faults", sample = function() n = n + 1 end }
    s:event { "faults", sample = function() n = n + 1 end }
    assert.is_true(s:run())
    assert.equal(2, n)
    assert.equal(1, #said)
    assert.matches("event 'major%-faults'", said[1])
  end)

  it("marks records that the recorder synthesised", function()
    local b = build {}
    table.insert(b.records, 1, b.encode { type = "comm", pid = 5, tid = 5, comm = "before" })
    local s, seen = session(b:file { [EVENT_DESC] = b:event_desc() }), {}
    s:event { comm = function(r) seen[#seen + 1] = ("%s %s"):format(r.comm, r.synthesised) end }
    assert.is_true(s:run())
    assert.same({ "before true", "worker nil" }, seen)
  end)

  it("marks synthesised records if the events' trailers differ", function()
    local bits = { "tid", "time", "identifier" }
    local b = perfdata.new { events = {
      { ids = { 11 }, attr = attr { type = 1, config = 0, comm = true }, name = "cpu-clock" },
      { ids = { 12 }, attr = { type = 1, config = 2, sample_type = bits, sample_id_all = true }, name = "faults" },
    } }
    b:add { type = "comm", pid = 5, tid = 5, comm = "before" }
    b:add { type = "comm", pid = 5, tid = 5, comm = "after",
      sample_id = { pid = 5, tid = 5, time = MS, cpu = 0, identifier = 11 } }
    local s, seen = session(b:file()), {}
    s:event { "cpu-clock,faults", comm = function(r) seen[#seen + 1] = ("%s %s"):format(r.comm, r.synthesised) end }
    assert.is_true(s:run())
    assert.same({ "before true", "after nil" }, seen)
  end)

  it("is refused if none of its events was recorded, with the recorded names", function()
    local s = session()
    s:event { "major-faults", sample = function() end }
    local ok, why, code = s:run()
    assert.is_nil(ok)
    assert.equal(perfev.errno.ENOENT, code)
    assert.matches("it has cpu%-clock:u, context%-switches, page%-faults", why)
    assert.matches("\n  try: ", why)
    local events = {}
    for i = 1, 14 do events[i] = { name = "event" .. math.min(i, 12) } end
    local text = require("perfev.perfdata.reader").names_text(events)
    assert.matches("event10 and 2 more, which perfl report names$", text)
  end)

  it("runs timers and its duration on the records' time", function()
    local s, lines = session(nil, { duration = "4500us" }), {}
    s:every("2ms", function() lines[#lines + 1] = "tick" end)
    s:event { "cpu-clock,cs,faults", sample = function(r) lines[#lines + 1] = r.time // MS end }
    s:done(function() lines[#lines + 1] = "done" end)
    assert.is_true(s:run())
    assert.same({ 1, 2, "tick", 3, 4, "tick", 5, "done" }, lines)
  end)

  it("fires a timer once for each period between two records", function()
    local s, ticks = session(), 0
    s:every("10ms", function() ticks = ticks + 1 end)
    s:event { fork = function() end, comm = function() end }
    assert.is_true(s:run())
    assert.equal(8, ticks)
  end)

  it("ends at count, at false and at stop(), and calls done", function()
    local ends = {
      count = function() return nil end,
      ["false"] = function(_, n) return n < 3 end,
      stop = function(s, n) if n == 3 then s:stop() end end,
    }
    for name, f in pairs(ends) do
      local s = session(nil, { count = name == "count" and 3 or nil })
      local n, done = 0, 0
      s:event { "cpu-clock,cs,faults", sample = function()
        n = n + 1
        return f(s, n)
      end }
      s:done(function() done = done + 1 end)
      assert.is_true(s:run())
      assert.same({ 3, 1 }, { n, done }, name)
    end
  end)

  it("counts errors of callbacks, and ends at the first with strict", function()
    for _, strict in ipairs { true, false } do
      local places = {}
      local s = session(nil, { strict = strict, on_error = function(_, where) places[#places + 1] = where end })
      s:event { "faults", sample = function() error("no") end }
      assert.equal(not strict or nil, (s:run()))
      assert.same({ "sample of faults" }, places)
      assert.equal(strict and 1 or 2, s:totals().callback_errors)
    end
  end)

  it("can disable and enable an event", function()
    local s, seen = session(), {}
    local faults = s:event { "faults", sample = function(r) seen[#seen + 1] = r.time // MS end }
    s:event { "cpu-clock", sample = function() faults:disable() end }
    s:event { "cs", sample = function(r) if r.time == 5 * MS then faults:enable() end end }
    assert.is_true(s:run())
    assert.same({ 6 }, seen)
  end)

  it("keeps events off that are declared disabled until enable()", function()
    local s, seen = session(), {}
    local faults = s:event { "faults", disabled = true, sample = function(r) seen[#seen + 1] = r.time // MS end }
    s:event { "cs", sample = function(r) if r.time == 5 * MS then faults:enable() end end }
    assert.is_true(s:run())
    assert.same({ 6 }, seen)
  end)

  describe("of many samples of one event", function()
    local function many(n)
      local b = perfdata.new { events = { { ids = { 11 }, attr = attr { type = 1, config = 0 }, name = "cpu-clock" } } }
      for i = 1, n do
        b:add { type = "sample", pid = 7 + i % 2, tid = 7, time = i * MS, cpu = 0, identifier = 11, ip = i, period = 1 }
      end
      return b:file { [EVENT_DESC] = b:event_desc() }
    end

    it("delivers the remaining samples to a callback that raised", function()
      local n, s = 0, session(many(100), { strict = false, on_error = function() end })
      s:event { "cpu-clock", fields = { "ip" }, sample = function(ip)
        n = n + 1
        assert.equal(n, ip)
        if ip % 3 == 0 then error "no" end
      end }
      assert.is_true(s:run())
      assert.same({ 100, 33 }, { n, s:totals().callback_errors })
    end)

    it("delivers no sample while its event is disabled", function()
      local s, seen = session(many(100)), {}
      local clock
      s:every("49.5ms", function() clock:enable() end)
      clock = s:event { "cpu-clock", sample = function(r)
        seen[#seen + 1] = r.ip
        if r.ip == 3 then clock:disable() end
      end }
      assert.is_true(s:run())
      assert.same({ 1, 2, 3, 51 }, table.move(seen, 1, 4, 1, {}))
      assert.equal(100, seen[#seen])
    end)

    it("fires timers between samples, and starts and ends at the selected times", function()
      local s, seen = session(many(50), { from = 10 * MS, to = 20 * MS }), {}
      s:every("4ms", function() seen[#seen + 1] = "tick" end)
      s:event { "cpu-clock", sample = function(r) seen[#seen + 1] = r.ip end }
      assert.is_true(s:run())
      assert.equal("10 11 12 13 tick 14 15 16 17 tick 18 19 20", table.concat(seen, " "))
    end)
  end)

  it("can be closed, run another session and collect garbage in its callbacks", function()
    local s, other, n, m = session(), session(), 0, 0
    other:event { "cs", sample = function() m = m + 1 end }
    s:event { "faults", sample = function(r)
      n = n + 1
      collectgarbage()
      assert.is_true(other.finished or other:run())
      assert.error_matches(function() s:run() end, "called from one of its callbacks")
      assert.equal("sample", coroutine.wrap(function() return r.type end)())
      s:close()
      assert.equal(3 * MS, r.time)
    end }
    s:done(function() n = n + 100 end)
    s:run()
    assert.same({ 1, 2, true }, { n, m, s.finished })
    assert.is_nil((perfev.hooks.with({ open = function() return nil, perfev.errno.EMFILE end },
      function() return session():start() end)))
  end)

  it("refuses requests to the kernel, because its events are recorded", function()
    local s, answers = session(), {}
    local ev
    ev = s:event { "cpu-clock", sample = function()
      answers = { { ev:period(5) }, { ev:send_signal "USR1" }, { ev:filter "ip == 1" } }
      return false
    end }
    assert.is_true(s:run())
    for i, verb in ipairs { "period", "signal", "filter" } do
      assert.same({ nil, verb .. ": the events of a recording are as they were recorded", perfev.errno.EOPNOTSUPP },
        answers[i])
    end
  end)

  it("invalidates a record after its callback, and keeps copies", function()
    local s, kept, copies = session(), nil, {}
    s:event { "faults,cs", sample = function(r)
      if kept then assert.error_matches(function() return kept.time end, "record used after its callback") end
      kept, copies[#copies + 1] = r, r:copy()
    end }
    assert.is_true(s:run())
    assert.error_matches(function() return kept.time end, "record used after its callback")
    for i, ms in ipairs { 2, 3, 5, 6 } do assert.equal(ms * MS, copies[i].time) end
  end)

  it("invalidates a record after its loop, and when the session is closed", function()
    local stale = "record used after its callback"
    local function read(r) return function() return r.comm end end
    local function first(leave)
      local s = session()
      s:event { "cs" }
      for r in s:records() do
        if leave then return r end
        s:close()
        assert.error_matches(read(r), stale)
        assert.error_matches(function() return pairs(r) end, stale)
      end
    end
    assert.error_matches(read(first "by return"), stale)
    first()
  end)

  it("continues at its place if it is dispatched in pieces, timers included", function()
    local s, lines = session(), {}
    s:event { "cpu-clock,cs,faults", sample = function(r) lines[#lines + 1] = r.ip & 15 end }
    s:event { "cs", sample = function() lines[#lines + 1] = "cs" end }
    s:every("2ms", function() lines[#lines + 1] = "tick" end)
    assert(s:start())
    local n, more, rounds = 0, true, 0
    local epfd, hooks = s:fd(), perfev.hooks.real
    while more do
      local some
      assert.equal(1, #hooks.epoll_wait(epfd, 8, 1000)) -- worth another call
      some, more = s:dispatch(1)
      n, rounds = n + some, rounds + 1
      assert.is_true(some <= 1)
    end
    assert.equal(8, n)
    assert.same({ 1, 2, "cs", "tick", 3, 4, "tick", 5, "cs", 6 }, table.move(lines, 1, 10, 1, {}))
    assert.equal(8 + 44, #lines) -- the fork is at 90 ms
    assert.is_true(rounds >= 8)
  end)

  it("checks for its end in bounded time, even without listeners", function()
    local b, looked = build { samples = 0 }, 0
    local t = { type = "sample", ip = 1, period = 1, pid = 7, tid = 7, time = MS, cpu = 0, identifier = 13 }
    local one = b.encode(t)
    for i = 1, 30000 do b.records[i] = one end
    local s = session(b:file { [EVENT_DESC] = b:event_desc() })
    s._keep_going = function()
      looked = looked + 1
      return looked < 2
    end
    s:event { "cs", sample = function() end }
    assert.is_true(s:run())
    assert.is_true(s:totals().records < 20000)
  end)

  it("returns its records one by one", function()
    local s, lines = session(), {}
    s:event { "cs" }
    for r in s:records() do lines[#lines + 1] = line(r) end
    assert.same({ "sample cs 2 worker", "sample cs 5 worker" }, lines)
    assert.is_true(s.finished)
  end)

  it("delivers the whole records of a damaged file, calls done, and fails with the byte", function()
    local bytes = build { samples = 6 }
    bytes:add(string.pack("I4I2I2", 9, 0, 4)) -- shorter than its own header
    local s = session(bytes:file { [EVENT_DESC] = bytes:event_desc() })
    local n, done = 0, 0
    s:event { "faults", sample = function() n = n + 1 end }
    s:done(function() done = done + 1 end)
    local ok, why = s:run()
    assert.is_nil(ok)
    assert.matches("0x%x+", why)
    assert.same({ 2, 1 }, { n, done })
  end)

  it("refuses a file that is not a recording", function()
    local s = session("this is no recording, although it is long enough for one: " .. ("x"):rep(200))
    s:event { "faults", sample = function() end }
    local ok, why = s:run()
    assert.is_nil(ok)
    assert.matches("^cannot open the recording .*\n  try: a file that perf record wrote$", why)
  end)

  it("accepts the recorded part of a list, and reports the missing part", function()
    local function heard(text)
      local s, said = session()
      local n = 0
      s:event { text, sample = function() n = n + 1 end }
      assert.is_true(s:run())
      return n, said[1] and said[1]:gsub("': %S+ has", "': FILE has") or nil
    end
    local n = heard "cs"
    assert.is_true(n > 0)
    assert.same({ n, "event 'major-faults,cs': FILE has no major-faults\n  the others of the list are taken" },
      { heard "major-faults,cs" })
    assert.same({ n }, { heard "cs,major-faults | cs" }) -- whole records come first
  end)

  it("reports which requested records the recording does not have", function()
    local function said_of(bytes, spec)
      local s, said = session(bytes)
      s:event(spec)
      assert.is_true(s:run())
      return said[1] and said[1]:gsub("^%S+", "FILE") or #said
    end
    local function hear() end
    local spec = { "cs", sample = hear, switch = hear, comm = hear, cgroup = hear }
    assert.equal("FILE has no switch, cgroup records: none of its events asked for them\n"
      .. "  try: perf record --switch-events --all-cgroups", said_of(nil, spec))
    assert.equal(0, said_of(nil, { "cs", sample = hear, comm = hear, exit = hear }))
    local b = perfdata.new { events = { { ids = { 1 }, attr = attr { type = 1, config = 3, context_switch = true } } } }
    b:add { type = "switch", sample_id = { pid = 7, tid = 7, time = MS, cpu = 0, identifier = 1 } }
    assert.equal(0, said_of(b:file {}, { switch = hear }))
  end)

  -- Of a sample in the kernel: two frames there and two of user space; and one of an event without call chains.
  local function with_chains()
    local b = perfdata.new { events = {
      { ids = { 11 }, attr = { type = 1, config = 0, sample_period = 1,
        sample_type = { "ip", "tid", "time", "callchain", "identifier" } }, name = "cpu-clock" },
      { ids = { 12 }, attr = attr { type = 1, config = 2, sample_period = 1 }, name = "page-faults" },
    } }
    b:add { type = "sample", misc = 1, pid = 7, tid = 7, time = MS, ip = 0x11, identifier = 11,
            callchain = { -128, 0x11, 0x12, -512, 0x21, 0x22 } }
    b:add { type = "sample", misc = 2, pid = 7, tid = 7, time = 2 * MS, cpu = 0, period = 1, ip = 0x31,
            identifier = 12 }
    return b:file { [EVENT_DESC] = b:event_desc() }
  end

  local function addresses_of(stack)
    local list = {}
    for i = 1, stack and #stack or 0 do list[i] = ("%x"):format(stack[i].ip) end
    return stack and table.concat(list, " ") or "none"
  end

  -- The stacks of events with these fields, and the messages.
  local function stacks_of(...)
    local s, said = session(with_chains())
    local seen = {}
    for i, spec in ipairs { ... } do
      spec.sample = function(r) seen[#seen + 1] = i .. ": " .. addresses_of(r.stack) end
      s:event(spec)
    end
    assert.is_true(s:run())
    return seen, said
  end

  it("leaves out of stacks the frames that an event excludes", function()
    local function of(fields)
      local spec = { "cpu-clock", callchain = true }
      for name, value in pairs(fields) do spec[name] = value end
      return stacks_of(spec)[1]
    end
    assert.equal("1: 11 12 21 22", of {})
    assert.equal("1: 11 12", of { exclude_callchain_user = true })
    assert.equal("1: 21 22", of { exclude_callchain_kernel = true })
    local seen, said = stacks_of({ "cpu-clock", callchain = true, exclude_callchain_user = true },
      { "cpu-clock", callchain = true })
    assert.same({ "1: 11 12 21 22", "2: 11 12 21 22" }, seen)
    assert.equal("cpu-clock: two declarations exclude different frames: both get all frames", said[1])
  end)

  it("uses the sample's address as a stack without call chains, and reports it", function()
    local seen, said = stacks_of { "page-faults", callchain = true }
    assert.same({ "1: 31" }, seen)
    assert.same({ "page-faults: recorded without call chains: a stack is its first frame alone\n"
      .. "  try: perf record -g" }, said)
    seen, said = stacks_of { "page-faults", callchain = true, sample_max_stack = 1, exclude_callchain_user = true }
    assert.same({ { "1: " }, {} }, { seen, said })
    seen, said = stacks_of { "page-faults" }
    assert.same({ { "1: none" }, {} }, { seen, said })
  end)

  -- Samples of a group's leader, with the counts of three events, of a tid: { tid, leader's, second's, third's }.
  local function read_by_leader(rows, opts)
    opts = opts or {}
    local read = { "ip", "tid", "time", "cpu", "identifier", "read" }
    if opts.period then table.insert(read, "period") end
    local function counting(config, period)
      return { type = 1, config = config, sample_period = period, read_format = { "group", "id" }, sample_type = read,
               sample_id_all = true, inherit = opts.inherit }
    end
    local b = perfdata.new { endian = opts.endian, events = {
      { ids = { 1 }, name = "cpu-clock", attr = counting(0, 100) }, { ids = { 2 }, name = "page-faults",
      attr = counting(2, 0) }, { ids = { 3 }, name = "context-switches", attr = counting(3, 0) },
    } }
    for i, row in ipairs(rows) do
      local values = {}
      for k = 1, #row - 1 do values[k] = { id = opts.ids and opts.ids[k] or k, value = row[k + 1] } end
      b:add { type = "sample", identifier = 1, time = i * MS, pid = 7, tid = row[1], cpu = 0, ip = i, period = 100,
              read = { values = values } }
    end
    return b:file { [EVENT_DESC] = b:event_desc() }
  end

  local function parts_of(bytes)
    local s, said = session(bytes)
    local seen = {}
    for _, name in ipairs { "cpu-clock", "page-faults", "cs" } do
      s:event { name, sample = function(r)
        seen[#seen + 1] = ("%d %s %d %d %d"):format(r.time // MS, r.event.name, r.period, r.ip, #r.read.values)
      end }
    end
    assert.is_true(s:run())
    assert.same({}, said)
    return seen
  end

  it("splits a leader's sample into one for each event with a larger count", function()
    local rows = { { 7, 100, 3, 0 }, { 7, 205, 3, 0 }, { 7, 305, 4, 9 } }
    local wanted = { "1 cpu-clock 100 1 3", "1 page-faults 3 1 3", "2 cpu-clock 105 2 3", "3 cpu-clock 100 3 3",
                     "3 page-faults 1 3 3", "3 cs 9 3 3" }
    for _, endian in ipairs { "little", "big" } do
      for _, period in ipairs { true, false } do
        assert.same(wanted, parts_of(read_by_leader(rows, { endian = endian, period = period })))
      end
    end
  end)

  it("sums the growth of a group member's count in an aggregator", function()
    local s = session(read_by_leader { { 7, 100, 3, 0 }, { 7, 205, 3, 0 }, { 7, 305, 5, 9 } })
    local sum = perfev.sum { value = "period", by = "tid" }
    s:event { "page-faults", sample = sum }
    assert.is_true(s:run())
    assert.equal(5, sum:get(7))
  end)

  it("computes the growth of an inherited group's counts per thread", function()
    local rows = { { 7, 100, 3, 0 }, { 8, 100, 2, 0 }, { 7, 200, 4, 0 }, { 8, 200, 2, 0 } }
    assert.same({ "1 cpu-clock 100 1 3", "1 page-faults 3 1 3", "2 cpu-clock 100 2 3", "2 page-faults 2 2 3",
                  "3 cpu-clock 100 3 3", "3 page-faults 1 3 3", "4 cpu-clock 100 4 3" },
      parts_of(read_by_leader(rows, { inherit = true })))
  end)

  it("ignores counts of events that the recording does not have", function()
    assert.same({ "1 cpu-clock 100 1 3" }, parts_of(read_by_leader({ { 7, 100, 3, 5 } }, { ids = { 1, 77, 78 } })))
  end)

  it("reports where the counts of an event without samples are", function()
    local function said_of(leads)
      local b = perfdata.new { events = {
        { ids = { 1 }, name = "cpu-clock", attr = attr { type = 1, config = 0, sample_period = leads and 1 or 0,
          read_format = { "group" } } },
        { ids = { 2 }, attr = attr { type = 1, config = 2, sample_period = 0 }, name = "page-faults" },
      } }
      local bytes = b:file { [EVENT_DESC] = b:event_desc(), [STAT] = not leads and "" or nil }
      local s, said = session(bytes)
      s:event { "page-faults", sample = print }
      assert.is_true(s:run())
      return said, bytes
    end
    local said, grouped = said_of(true)
    assert.same({ "page-faults: it was counted, and not sampled\n"
      .. "  its counts are in r.read of the samples of cpu-clock" }, said)
    local s, nothing = session(grouped)
    s:event { "{cpu-clock,page-faults}:S", sample = print }
    assert.is_true(s:run())
    assert.same({}, nothing)
    assert.same({ "page-faults: it was counted, and not sampled\n"
      .. "  its counts are in 'stat' records, which perfl dump shows" }, said_of(false))
  end)

  it("reports records of a side that an event does not ask for", function()
    local function said_of(spec)
      local s, said = session(with_chains())
      spec.sample = function() end
      s:event(spec)
      assert.is_true(s:run())
      return said[1] or "nothing"
    end
    assert.equal("cpu-clock:u: recorded as cpu-clock: the kernel's samples are delivered, too\n"
      .. "  r.cpumode tells them apart", said_of { "cpu-clock:u" })
    assert.equal("cpu-clock: recorded as cpu-clock: user space's samples are delivered, too\n"
      .. "  r.cpumode tells them apart", said_of { "cpu-clock", exclude_user = true })
    assert.equal("nothing", said_of { "cpu-clock:uk" })
  end)

  it("reports the first ten damaged records, and the others with -v", function()
    local b = build {}
    for i = 1, 14 do -- a chain that leads past its record
      b:add(string.pack("=I4I2I2i8i8", 9, 2, 24, 11, i))
    end
    local told = { [0] = {}, {} }
    local s = session(b:file { [EVENT_DESC] = b:event_desc() })
    s:configure { log = function(level, text) table.insert(told[level], text) end }
    s:event { "cpu-clock", sample = function() end }
    assert.is_true(s:run())
    assert.equal(14, s:totals().malformed)
    assert.same({ 11, 1 + 4 }, { #told[0], #told[1] }) -- the first with -v says how the recording is read
    assert.matches(": more such messages follow: %-v prints them$", told[0][11])
  end)

  it("has no targets, and no counters", function()
    assert.error_matches(function() perfev.session { input = "x", uid = 1 } end, "input and uid at once")
    assert.error_matches(function() perfev.session { input = 3 } end, "input must be the path of a recording")
    local s = session()
    s:counter { "faults" }
    local ok, why = s:run()
    assert.is_nil(ok)
    assert.matches("counters are read from the kernel", why)
    local tasks = session()
    tasks:event { comm = function() end }
    assert(tasks:start())
    assert.error_matches(function() tasks:snapshot() end, "snapshot%(%) needs an event with write_backward")
    tasks:close()
    local later, answer = session(), nil
    later:event { "cs", sample = function() answer = answer or table.pack(later:counter { "faults" }) end }
    assert.is_true(later:run())
    assert.is_nil(answer[1])
    assert.matches("counters are read from the kernel", answer[2])
    assert.equal(perfev.errno.EINVAL, answer[3])
  end)
end)

describe("selection in a recording:", function()
  local CPU_OF, COMM_OF = { [7] = 0, [8] = 1, [9] = 1 }, { [7] = "worker", [8] = "a-helper", [9] = "a-helper2" }

  -- Samples of three processes in turn, 1 to 9 ms; COMM records come first; times have microseconds.
  local function three(order)
    local b = perfdata.new { events = {
      { ids = { 11 }, attr = attr { type = 1, config = 0, comm = true, task = true }, name = "cpu-clock" },
    } }
    local function at(pid, ns) return { pid = pid, tid = pid, time = ns, cpu = CPU_OF[pid], identifier = 11 } end
    for pid, comm in pairs(COMM_OF) do
      b:add { type = "comm", pid = pid, tid = pid, comm = comm, sample_id = at(pid, MS // 2) }
    end
    for i = 1, 9 do
      local t = at(7 + (i - 1) % 3, i * MS + 1500)
      t.type, t.ip, t.period = "sample", i, 1
      b:add(t)
    end
    return order and b or b:file { [EVENT_DESC] = b:event_desc(),
                                   [21] = b:pack("I8I8", MS + 1500, 9 * MS + 1500) } -- SAMPLE_TIME
  end

  -- ip of the samples that are delivered
  local function ips(opts, bytes)
    local s, list = session(bytes or three(), opts), {}
    s:event { "cpu-clock", sample = function(r)
      assert.equal(COMM_OF[r.pid], r.comm)
      list[#list + 1] = r.ip
    end }
    assert(s:run())
    assert.equal(12, s:totals().records)
    assert.equal(#list, s:totals().delivered)
    return list
  end

  it("CPUs, processes, threads and names can be combined", function()
    assert.same({ 1, 4, 7 }, ips { cpus = "0" })
    assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, ips { cpus = "0-3" })
    assert.same({ 2, 3, 5, 6, 8, 9 }, ips { pid = { 9, 8 } })
    assert.same({ 3, 6, 9 }, ips { tid = 9 })
    assert.same({ 2, 5, 8 }, ips { comm = "a-helper" })
    assert.same({ 1, 2, 4, 5, 7, 8 }, ips { comm = "worker,a-helper" })
    assert.same({ 2, 3, 5, 6, 8, 9 }, ips { comm = "a-h*" })
    assert.same({ 3 }, ips { comm = "a-helper?", to = "+2ms" })
    assert.same({}, ips { cpus = "0", pid = 9 })
  end)

  it("times can be absolute, relative to the first sample, or a percentage", function()
    assert.same({ 3, 4 }, ips { from = "0.003001", to = "0.004001" })
    assert.same({ 3 }, ips { from = "0.003001", to = "0.0040014" })
    assert.same({ 3, 4 }, ips { from = 3 * MS + 1500, to = 4 * MS + 1500 })
    assert.same({ 9 }, ips { from = "+8ms" })
    assert.same({ 1, 2 }, ips { to = "+1ms" })
    assert.same({ 3, 4, 5 }, ips { from = "25%", to = "50%" })
    assert.same({}, ips { from = "1" })
  end)

  it("side-band records are selected by the same rule, but all of them name tasks", function()
    local s, lines = session(three(), { pid = 8, from = 0 }), {}
    s:event { "cpu-clock", comm = function(r) lines[#lines + 1] = r.comm end }
    assert.is_true(s:run())
    assert.same({ "a-helper" }, lines)
    assert.same({ 2, 5, 8 }, ips { pid = 8, from = "0.001" })
  end)

  it("timers fire only within the selected times", function()
    local s, ticks, n = session(three(), { from = "+2ms", to = "+5ms" }), 0, 0
    s:every("1ms", function() ticks = ticks + 1 end)
    s:event { "cpu-clock", sample = function() n = n + 1 end }
    assert.is_true(s:run())
    assert.same({ 4, 3 }, { n, ticks })
  end)

  it("a record without the field is not selected", function()
    local b = perfdata.new { events = {
      { ids = { 11 }, name = "cpu-clock",
        attr = { type = 1, config = 0, sample_type = { "ip", "tid", "identifier" }, sample_id_all = true } },
    } }
    b:add { type = "sample", pid = 7, tid = 7, ip = 1, identifier = 11 }
    for name, value in pairs { cpus = "0", from = "1" } do
      local s = session(b:file { [EVENT_DESC] = b:event_desc() }, { [name] = value })
      s:event { "cpu-clock", sample = function() end }
      local ok, why, code = s:run()
      assert.is_nil(ok)
      assert.equal(perfev.errno.EINVAL, code)
      assert.matches("^" .. name .. ": the records of .* have no %l+", why:lower())
      assert.matches("\n  try: ", why)
    end
    local s = session(three(true):file { [EVENT_DESC] = three(true):event_desc() }, { from = "10%" })
    s:event { "cpu-clock", sample = function() end }
    local _, why = s:run()
    assert.matches("^from 10", why)
  end)

  it("invalid selections are refused", function()
    assert.error_matches(function() perfev.session { from = "1" } end, "from without input")
    assert.error_matches(function() perfev.session { input = "x", from = "3", to = "2" } end, "from is later than to")
    assert.error_matches(function() perfev.session { input = "x", from = "soon" } end, "time 'soon': expected seconds")
    assert.error_matches(function() perfev.session { input = "x", to = 1.5 } end, "time '1.5': expected seconds")
    assert.error_matches(function() perfev.session { input = "x", pid = "self" } end, "the recorded process is another")
  end)

  it("a listener without an event receives a record once that several events recorded", function()
    local b = perfdata.new { events = {
      { ids = { 11 }, attr = attr { type = 1, config = 0, comm = true, task = true }, name = "cpu-clock" },
      { ids = { 12 }, attr = attr { type = 1, config = 3, comm = true, task = true }, name = "context-switches" },
    } }
    for id = 11, 12 do
      b:add { type = "comm", pid = 7, tid = 7, comm = "of" .. id,
              sample_id = { pid = 7, tid = 7, time = MS, cpu = 0, identifier = id } }
    end
    local s, lines = session(b:file { [EVENT_DESC] = b:event_desc() }), {}
    s:event { comm = function(r) lines[#lines + 1] = r.comm end }
    s:event { "cs", comm = function(r) lines[#lines + 1] = r.event.name .. " " .. r.comm end }
    assert.is_true(s:run())
    assert.same({ "of11", "cs of12" }, lines)
  end)

  it("a recorded event for side-band records receives its own", function()
    local b = perfdata.new { events = {
      { ids = { 11 }, attr = attr { type = 1, config = 0, comm = true, task = true }, name = "cpu-clock" },
      { ids = { 12 }, attr = attr { type = 1, config = 9, comm = true }, name = "dummy" },
    } }
    for id = 11, 12 do
      b:add { type = "comm", pid = 7, tid = 7, comm = "of" .. id,
              sample_id = { pid = 7, tid = 7, time = MS, cpu = 0, identifier = id } }
    end
    local s, lines = session(b:file { [EVENT_DESC] = b:event_desc() }), {}
    s:event { comm = function(r) lines[#lines + 1] = r.comm end }
    assert.is_true(s:run())
    assert.same({ "of12" }, lines)
  end)

  it("the recorded machine and the names of its system calls are known", function()
    local ARCH, syscalls = 6, require "perfev.tracepoint.syscalls"
    for _, form in ipairs { "file", "pipe" } do
      local b = perfdata.new { events = { { ids = { 11 }, attr = attr { type = 1, config = 3 }, name = "cs" } } }
      b:add { type = "sample", ip = 1, pid = 7, tid = 7, time = MS, cpu = 0, identifier = 11, period = 1 }
      local s, names = session(b[form](b, { [EVENT_DESC] = b:event_desc(), [ARCH] = b:string "aarch64" })), {}
      s:event { "cs", sample = function() names[1] = syscalls.name(63, s.machine) end }
      assert.is_true(s:run())
      assert.same({ "read" }, names, form)
    end
    assert.same({ "read", "read", "syscall_0" }, { syscalls.name(0, "x86_64"), syscalls.name(3, "i686"),
      syscalls.name(0, "s390x") })
  end)

  it("records that the recording session excluded stay excluded, unless an event kept them", function()
    local function recorded(text, as_pipe)
      local b = perfdata.new { events = {
        { ids = { 11 }, attr = attr { type = 1, config = 0, comm = true, task = true }, name = "cpu-clock" },
        { ids = { 12 }, attr = attr { type = 1, config = 3 }, name = "cs" },
      } }
      local function at(pid, ms, id) return { pid = pid, tid = pid, time = ms * MS, cpu = 0, identifier = id } end
      b:add { type = "comm", pid = 9, tid = 9, comm = "perfl", sample_id = at(9, 1, 11) }
      for i = 1, 8 do
        local t = at(7 + i % 3, i, 11 + i % 2)
        t.type, t.ip, t.period = "sample", i, 1
        b:add(t)
      end
      local features = { [EVENT_DESC] = b:event_desc() }
      features[VERSION] = b:string "perfev 0.2.0" .. text
      return as_pipe and b:pipe(features) or b:file(features)
    end
    local function heard(bytes)
      local s, list = session(bytes), {}
      local function keep(r) list[#list + 1] = r.type == "comm" and r.comm or r.ip end
      s:event { "cpu-clock,cs", sample = keep, comm = keep }
      assert.is_true(s:run())
      return list, s:totals().excluded
    end
    local SAID = "recorder perfl\nnever heard of 3\nexclude_pid 9\n"
    assert.same({ { "perfl", 1, 2, 3, 4, 5, 6, 7, 8 }, 0 }, { heard(recorded "recorder perfl\n") })
    assert.same({ { 1, 3, 4, 6, 7 }, 4 }, { heard(recorded(SAID)) })
    assert.same({ { 1, 3, 4, 5, 6, 7 }, 3 }, { heard(recorded(SAID .. "keep_own 1\nkeep_own 77\nhidden 99\n")) })
    assert.same({ { 1, 3, 4, 6, 7 }, 4 }, { heard(recorded(SAID, true)) })
  end)

  it("a task without a name is named by its number", function()
    local b = perfdata.new { events = { { ids = { 11 }, attr = attr { type = 1, config = 0 }, name = "cpu-clock" } } }
    b:add { type = "sample", pid = 41, tid = 42, time = MS, cpu = 0, ip = 1, period = 1, identifier = 11 }
    local s, comm = session(b:file { [EVENT_DESC] = b:event_desc() }, { comm = ":42" }), nil
    s:event { "cpu-clock", sample = function(r) comm = r.comm end }
    assert.is_true(s:run())
    assert.equal(":42", comm)
  end)
end)

describe("perfl -i", function()
  it("profiles cycles as recorded by perf record, under their own name", function()
    local b = perfdata.new { events = { { ids = { 11 }, attr = attr { type = 0, config = 0 }, name = "cycles:P" } } }
    b:add { type = "sample", pid = 7, tid = 7, time = MS, cpu = 0, ip = 1, period = 70, identifier = 11 }
    local path = spill(b:file { [EVENT_DESC] = b:event_desc() })
    local r = run { run.perfl, "-q", "-i", path, "profile", "-f", "speedscope" }
    assert.equal(0, r.code, r.err)
    assert.matches('{"endValue":70,"name":"cycles",.*"unit":"none"', r.out)
    r = run { run.perfl, "-q", "-i", path, "top" }
    assert.matches("^cycles: 1 in ", r.out)
  end)

  it("profiles the only event, and asks for a choice between several", function()
    local function recorded(...)
      local b = perfdata.new { events = { ... } }
      b:add { type = "sample", pid = 7, tid = 7, time = MS, cpu = 0, ip = 1, period = 70, identifier = 11 }
      return spill(b:file { [EVENT_DESC] = b:event_desc() })
    end
    local faults = { ids = { 11 }, attr = attr { type = 1, config = 2 }, name = "page-faults" }
    local path = recorded(faults)
    local r = run { run.perfl, "-q", "-i", path, "profile", "-f", "speedscope" }
    assert.equal(0, r.code, r.err)
    assert.matches('{"endValue":70,"name":"page%-faults",.*"unit":"none"', r.out)
    assert.matches("^page%-faults: 1 in ", run({ run.perfl, "-q", "-i", path, "top" }).out)
    path = recorded(faults, { ids = { 12 }, attr = attr { type = 1, config = 3 }, name = "cs" })
    for _, script in ipairs { "profile", "top" } do
      r = run { run.perfl, "-q", "-i", path, script }
      assert.equal(2, r.code)
      local remedy = r.err:match("no cpu%-clock, and several other events: page%-faults, cs\n  try: perfl (.-)\n")
      assert.equal(("-i %s %s -e page-faults"):format(path, script), remedy, r.err)
      assert.equal(0, run("exec " .. run.quote(run.perfl) .. " -q " .. remedy).code)
    end
  end)

  it("prints tasks and switches without a CPU", function()
    local b = perfdata.new { events = { { ids = { 11 }, name = "dummy", attr = { type = 1, config = 9, comm = true,
      context_switch = true, sample_id_all = true, sample_type = { "tid", "time", "identifier" } } } } }
    local trailer = { pid = 7, tid = 7, time = MS, identifier = 11 }
    b:add { type = "comm", pid = 7, tid = 7, comm = "worker", sample_id = trailer }
    b:add { type = "switch", sample_id = trailer }
    local path = spill(b:file { [EVENT_DESC] = b:event_desc() })
    local function ran(...)
      local r = run { run.perfl, "-q", "-i", path, ... }
      assert.equal(0, r.code, r.err)
      assert.is_nil(r.err:find("failed", 1, true))
      return r.out, r.err
    end
    assert.matches("\n +0.000000 +%- +7 worker +comm +renamed worker\n", (ran("procmon", "comm")))
    assert.matches("\n +0.000000 +%- in +worker +7\n1 switches: 1 in", (ran "cswlog"))
    local r = run { run.perfl, "-q", "-i", path, "timeline" }
    assert.same({ 2, "timeline: the recording's switch records have no CPU\n"
      .. "  try: perf record --switch-events --sample-cpu\n", "" }, { r.code, r.err, r.out })
    r = run { run.perfl, "-q", "-i", path, "flightrec", "dummy" }
    assert.same({ 2, "flightrec: a recording keeps all of its records\n  try: perfl dump\n" }, { r.code, r.err })
  end)

  local CHUNK = "local n = 0 event{'faults', sample = function() n = n + 1 end} done(function() print(n) end)"

  it("runs a script on a file and prints a summary", function()
    local r = run { run.perfl, "-i", spill(whole()), "-e", CHUNK }
    assert.equal("2\n", r.out)
    assert.matches("^perfl: 2 records, 0 lost, 0 late", r.err)
    assert.equal(0, r.code)
  end)

  it("reads standard input, and a recording in pipe format", function()
    local b = build {}
    local path = spill(b:pipe { [EVENT_DESC] = b:event_desc() })
    local r = run("cat " .. path .. " | " .. run.quote(run.perfl) .. " -q -i - -e " .. run.quote(CHUNK))
    assert.same({ "2\n", "", 0 }, { r.out, r.err, r.code })
  end)

  it("exits with status 1 after done if the recording is damaged", function()
    local b = build {}
    b:add(string.pack("I4I2I2", 9, 0, 4))
    local r = run { run.perfl, "-q", "-i", spill(b:file { [EVENT_DESC] = b:event_desc() }), "-e", CHUNK }
    assert.equal("2\n", r.out)
    assert.matches("0x%x+", r.err)
    assert.equal(1, r.code)
  end)

  it("refuses options that need a live kernel", function()
    for _, words in ipairs { { "-a" }, { "--uid", "1" }, { "--cgroup", "/" }, { "-m", "1M" }, { "--", "true" } } do
      local r = run { run.perfl, "-i", "x", "-e", CHUNK, table.unpack(words) }
      assert.equal(2, r.code)
      assert.matches("^perfl: %-i and %-.* at once\n  a recording is", r.err)
    end
  end)

  it("ends at ^C within a round of records, and runs done", function()
    local chunk = [[local n, pid = 0, require "perfev.core".pid()
      event { "faults", sample = function()
        n = n + 1
        if n == 100 then io.popen("kill -INT " .. pid):close() end
      end }
      done(function() print("done", n) end)]]
    local r = run { run.perfl, "-q", "-i", spill(whole { samples = 6000 }), "-e", chunk }
    local n = tonumber(r.out:match("^done\t(%d+)\n$"))
    assert.is_true(n >= 100 and n < 1200, r.out .. r.err)
    assert.equal(2, r.signal)
  end)

  describe("progress is shown", function()
    -- A clock that goes on by 0.3 s whenever it is looked at, so that each round of records draws the line.
    local CLOCKED = [[local now, n = 0, 0
      perfev.hooks.set { clock = function() now = now + 300000000 return now end }
      event { "faults", sample = function(r) n = n + 1 if n % 600 == 0 then io.write(n, "\n") end end }
      done(function() print("sum", n) end)]]

    -- The bytes sent to a terminal; words follow the command, a pipe precedes it.
    local function on_terminal(words, pipe)
      local command = table.concat({ pipe or "", run.quote(run.perfl), "-i",
        pipe and "-" or spill(whole { samples = 6000 }), "-e", run.quote(CLOCKED), words }, " ")
      local r = run { "script", "-qec", command, "/dev/null" }
      assert.equal(0, r.code)
      return (r.out:gsub("\r\n", "\n"))
    end

    local LINE = "\r%d+%% of [%d.]+ KiB, [%d,]+ records/s, %d+ s left\27%[K"

    it("in one line that is redrawn, and wiped before other output", function()
      local text = on_terminal ""
      local _, drawn = text:gsub(LINE, "")
      assert.is_true(drawn >= 3)
      local rest = text:gsub(LINE .. "\r\27%[K", ""):gsub(LINE, "")
      assert.matches("^600\n1200\n1800\nsum\t2000\nperfl: 2,000 records, 0 lost, 0 late, [%d.]+ s of CPU\n$", rest)
      assert.is_falsy(text:find(LINE .. "[^\r]"))
    end)

    it("without a percentage if the size is unknown", function()
      local b = build { samples = 6000 }
      local path = spill(b:pipe { [EVENT_DESC] = b:event_desc() })
      local text = on_terminal("", "cat " .. path .. " |")
      assert.is_truthy(text:find("\r[%d.]+ KiB, [%d,]+ records/s\27%[K"), text)
      assert.is_falsy(text:find("left", 1, true))
    end)

    it("on a terminal only, and not with -q", function()
      assert.is_falsy(on_terminal("| cat"):find("\27", 1, true))
      assert.is_falsy(on_terminal("-q"):find("\27", 1, true))
      assert.is_falsy(on_terminal("2> /dev/null"):find("\27", 1, true))
      assert.is_truthy(on_terminal("> /dev/null"):find(LINE))
      local r = run { run.perfl, "-i", spill(whole { samples = 6000 }), "-e", CLOCKED }
      assert.is_falsy((r.out .. r.err):find("\27", 1, true))
    end)
  end)

  it("accepts perfl's options as selections", function()
    local path = spill(whole())
    local function count(...)
      local r = run { run.perfl, "-q", "-i", path, "-e", CHUNK, ... }
      assert.equal("", r.err)
      return tonumber(r.out)
    end
    assert.same({ 2, 1, 1, 0, 0, 2 }, { count("--from", "+1ms"), count("--from", "+3ms"), count("--to", "0.005000"),
      count("-p", "9"), count("--cpu", "1,2"), count("--comm", "work*") })
    local r = run { run.perfl, "--from", "1", "-a", "-e", CHUNK }
    assert.equal(2, r.code)
    assert.matches("^perfl: %-%-from without %-i\n  times select", r.err)
  end)

  it("prints its events and selections with --dry-run", function()
    local r = run { run.perfl, "-i", "x", "--dry-run", "-e", CHUNK }
    assert.matches("^target: the recording x\nevent faults", r.out)
    assert.equal(0, r.code)
    r = run { run.perfl, "-i", "x", "-C", "1,2", "--to", "50%", "--dry-run", "-e", CHUNK }
    assert.matches("^target: the recording x, only cpus 1,2, to 50%%\n", r.out)
  end)
end)
