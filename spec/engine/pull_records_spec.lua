-- Records one by one, as fields: s:records{ fields = ... }, of a session on the kernel and on a recording, and the
-- same of recordings and decoders. A loop gets the same values as a sample callback with these fields.

local sim = require "perfev.sim"
local perfev = require "perfev"

local MS = 1000000
local FIELDS = { "cpu", "time", "args.next", "comm", "event" }

local function world()
  local k = sim.new { cpus = "0-1", world = "vm", tasks = { [7] = "seven", [8] = "eight" } }
  k:tracepoint("a:b", 300, "int next; char name[8]")
  k:tracepoint("a:c", 301, "int prev")
  return k
end

-- Samples of two tracepoints on two CPUs, and a record between them that is no sample.
local function happen(k, nr)
  for i = 1, nr do
    local is_c = i % 3 == 0
    k.now = k.now + 1
    k:ring(i % 2):push({ type = "sample", event = is_c and "a:c" or "a:b", pid = 7 + i % 2,
                      args = is_c and { prev = -i } or { next = i, name = "n" } })
    k.now = k.now + 1
    if i % 4 == 0 then k:ring(0):push({ type = "comm", pid = 7, tid = 7, comm = "new" .. i }) end
  end
end

-- Run f on a session of two events, which sees nr samples.
local function with_session(opts, nr, f)
  local k = world()
  k:after(MS, function() happen(k, nr) end)
  return k:with(function()
    opts.duration = "20ms"
    local s = perfev.session(opts)
    return f(s, k)
  end)
end

local function pulled(s, fields)
  local list = {}
  for a, b, c, d, e in s:records { fields = fields } do
    list[#list + 1] = ("%s %s %s %s %s"):format(a, b, c, d, type(e) == "table" and e.name or e)
  end
  return list
end

local function called(s, declare)
  local list = {}
  declare(s, function(a, b, c, d, e)
    list[#list + 1] = ("%s %s %s %s %s"):format(a, b, c, d, type(e) == "table" and e.name or e)
  end)
  assert(s:run())
  return list
end

local function two_events(s, sample)
  s:event { "a:b", fields = sample and FIELDS, sample = sample, comm = function() end }
  s:event { "a:c", fields = sample and { "cpu", "time", "tid", "comm", "event" }, sample = sample }
end

describe("pulling fields", function()
  it("returns the values that a sample callback gets, and no other record", function()
    local list = with_session({}, 40, function(s)
      two_events(s)
      local got = pulled(s, FIELDS)
      assert.equal(40, s:totals().delivered)
      return got
    end)
    local calls = with_session({}, 40, function(s) return called(s, two_events) end)
    assert.equal(40, #list)
    for i, line in ipairs(list) do -- the one has no args.next, and the callback was given its tid instead
      if line:find "a:c" then calls[i] = calls[i]:gsub("^(%d+ %d+) %d+", "%1 nil") end
    end
    assert.same(calls, list)
    assert.truthy(list[#list]:find "new36")
  end)

  it("returns false for a missing first field, because nil would end the loop", function()
    local n, none = 0, 0
    with_session({}, 9, function(s)
      two_events(s)
      for prev, tid in s:records { fields = { "args.prev", "tid" } } do
        n, none = n + 1, none + (prev == false and 1 or 0)
        assert(tid == 7 or tid == 8)
      end
    end)
    assert.same({ 9, 6 }, { n, none })
  end)

  it("returns false for a first number beyond the end of the payload", function()
    local rows, k = {}, world()
    k:tracepoint("a:d", 302, "int near; s64 far")
    k:after(MS, function()
      for i = 1, 4 do
        k.now = k.now + 1
        local far = i % 2 == 0 and string.pack("<I4i8", 0, -i) or ""
        local raw = string.pack("<I2BBi4i4", 302, 0, 0, 7, i) .. far
        k:ring(0):push({ type = "sample", event = "a:d", pid = 7, raw = raw })
      end
    end)
    k:with(function()
      local s = perfev.session { duration = "20ms" }
      s:event { "a:d" }
      for far, near in s:records { fields = { "args.far", "args.near" } } do rows[#rows + 1] = { far, near } end
    end)
    assert.same({ { false, 1 }, { -2, 2 }, { false, 3 }, { -4, 4 } }, rows)
  end)

  it("requests only these fields from the kernel", function()
    with_session({ pid = 7 }, 1, function(s)
      local ev = s:event { "a:b" }
      local ip = s:event { "a:c", sample_type = { "ip" } }
      local nexts = s:records { fields = { "time" } }
      nexts()
      assert.equal(1 << 16 | 1 << 2, ev.attr.sample_type) -- identifier, time
      assert.equal(1, ip.attr.sample_type & 1)
    end)
  end)

  it("returns the fields that the events of a started session sample", function()
    with_session({}, 6, function(s)
      s:event { "a:b", fields = { "time", "cpu" }, sample = function() end }
      assert(s:start())
      local list = {}
      for cpu, period, after in s:records { fields = { "cpu", "period", "args.next" } } do
        list[#list + 1] = ("%d %s %s"):format(cpu, period, after)
        if #list == 1 then assert(s:event { "a:c" }) end -- also for events declared meanwhile
      end
      assert.same({ "1 1 nil", "0 1 nil", "0 1 nil", "1 1 nil" }, list)
    end)
  end)

  it("ends at a count, at a break and at the end of the loop", function()
    assert.equal(5, #with_session({ count = 5 }, 20, function(s)
      two_events(s)
      return pulled(s, FIELDS)
    end))
    with_session({}, 20, function(s, k)
      two_events(s)
      for _ in s:records { fields = { "cpu" } } do break end -- luacheck: ignore 512
      assert.is_true(s.finished)
      assert.same({}, k:leaks())
    end)
  end)

  it("delivers nothing to callbacks if the loop breaks at its count", function()
    local calls = 0
    with_session({ count = 5 }, 20, function(s)
      s:event { "a:b", sample = function() calls = calls + 1 end }
      local n = 0
      for _ in s:records() do
        n = n + 1
        if n == 5 then break end
      end
      assert.same({ 5, 0, 5 }, { n, calls, s:totals().delivered })
    end)
  end)

  it("ends if its loop closes the session", function()
    for _, opts in ipairs { {}, { fields = { "cpu" } } } do
      assert.equal(3, with_session({}, 20, function(s)
        two_events(s)
        local n = 0
        for _ in s:records(opts) do
          n = n + 1
          if n == 3 then s:close() end
        end
        return n
      end))
    end
  end)

  it("returns the same from a recording as live", function()
    with_session({ record = "/x.data" }, 40, function(s)
      two_events(s)
      local live = pulled(s, FIELDS)
      assert.equal(40, #live)
      local again = perfev.session { input = "/x.data" }
      two_events(again)
      assert.same(live, pulled(again, FIELDS))
      local rec <close> = assert(perfev.open "/x.data")
      assert.same(live, pulled(rec, FIELDS))
      assert.is_nil(rec.error)
    end)
  end)

  it("returns the samples among the bytes of a decoder", function()
    local spec = { sample_type = { "tid", "time", "ip" }, sample_id_all = true, comm = true }
    local bytes, list = {}, {}
    for i = 1, 6 do
      bytes[i] = perfev.encode(spec, i % 3 == 0
        and { type = "comm", pid = 1, tid = 1, comm = "x", sample_id = { pid = 1, tid = 1, time = i } }
        or { type = "sample", pid = i, tid = i, time = i * 10, ip = -i })
    end
    local d = assert(perfev.decoder(spec))
    for comm, tid, ip in d:records(table.concat(bytes), { fields = { "comm", "tid", "ip" } }) do
      list[#list + 1] = ("%s %d %d"):format(comm, tid, ip)
    end
    assert.same({ "false 1 -1", "false 2 -2", "false 4 -4", "false 5 -5" }, list)
    local said
    bytes[7] = "\9\0\0\0\0\0\255\255"
    for _ in d:records(table.concat(bytes), { fields = { "tid" }, bad = function(what) said = what end }) do end
    assert.truthy(said:find("size 65535", 1, true))
  end)

  it("allocates no memory for numbers and interned strings", function()
    with_session({}, 200, function(s)
      two_events(s)
      local n, before, after = 0, nil, nil
      collectgarbage()
      collectgarbage "stop"
      for comm in s:records { fields = { "comm", "args.next", "time" } } do
        n = n + (comm and 1 or 0)
        if n == 100 then before = collectgarbage "count" end
        if n == 190 then after = collectgarbage "count" end
      end
      collectgarbage "restart"
      assert.equal(before, after)
    end)
  end)

  it("refuses unknown fields, with the line of the caller", function()
    local function fails(pattern, f)
      local ok, why = pcall(f)
      assert.is_false(ok)
      assert.truthy(why:find(pattern, 1, true), why)
    end
    local function session(fields)
      return function()
        with_session({}, 1, function(s)
          two_events(s)
          s:records(fields)
        end)
      end
    end
    fails("records: fields: no sample has a field 'tidd' (did you mean 'tid'?)", session { fields = { "tidd" } })
    fails("records: fields must be a list of names, not 'tid'", session { fields = "tid" })
    fails("records: fields: the list is empty", session { fields = {} })
    fails("a:b: fields: args.nxt: no such field (did you mean 'args.next'?)", session { fields = { "args.nxt" } })
    fails("records: unknown option 'field' (did you mean 'fields'?)", session { field = {} })
    fails("records: a table expected, not 'tid'", session "tid")
    local d = perfev.decoder { sample_type = { "tid" } }
    fails("a decoder has no formats", function() d:records("", { fields = { "args.x" } }) end)
    fails("records: unknown option 'of'; the options are bad, fields", function() d:records("", { of = {} }) end)
    with_session({ record = "/y.data" }, 1, function(s)
      two_events(s)
      assert(s:run())
      local rec <close> = assert(perfev.open "/y.data")
      fails("args.nxt: no such field", function() rec:records { fields = { "args.nxt" } } end)
      fails("records: fields and types at once",
        function() rec:records { fields = { "tid" }, types = { "comm" } } end)
    end)
  end)
end)
