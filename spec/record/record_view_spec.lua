-- A record as a script sees it.

local perfev = require "perfev"
local sim = require "perfev.sim"

local MS = 1000000

after_each(function() perfev.hooks.clear() end)

-- Call f with the view of one record.
local function with_record(type, fields, f, spec)
  local k = sim.new { cpus = "0" }
  perfev.hooks.set(k.hooks)
  local s = perfev.session { duration = "300ms" }
  local decl = { type = 1, config = 0, sample_period = 1, comm = true, task = true, name = "ours", record = f }
  for name, value in pairs(spec or {}) do decl[name] = value end
  local ev = s:event(decl)
  k:after(MS, function() assert(k:emit(k.events[1], type, fields)) end)
  local ok, why = s:run()
  if not ok then error(why, 0) end
  assert.equal(1, s:totals().delivered)
  return ev
end

local function names_of(r)
  local names = {}
  for name in pairs(r) do names[#names + 1] = name end
  return names
end

describe("a record", function()
  it("has the fields that all records have", function()
    local seen
    local ev = with_record("sample", { ip = 5, misc = 0x4002 }, function(r)
      seen = { r.type, r.number, r.size, r.misc, r.cpumode, r.exact_ip, r.event, #r.bytes, r.comm }
    end)
    assert.same({ "sample", 9, 56, 0x4002, "user", true, ev, 56, ":1000" }, seen)
  end)

  it("returns nil for fields of other kinds of records", function()
    with_record("switch", {}, function(r)
      for _, name in ipairs { "filename", "ip", "callchain", "lost", "exec", "args", "addr" } do
        assert.is_nil(r[name], name)
      end
      assert.is_false(r.out)
    end)
  end)

  it("has its event's fixed period if it has none of its own, until that period changes", function()
    local seen, sums = {}, perfev.sum { value = "period" }
    local function look(r)
      seen[#seen + 1] = r.period or false
      assert.equal(r.period, r:copy().period)
    end
    with_record("sample", {}, function(r)
      look(r)
      assert(r.event:period(7)) -- records already in the ring are another's
      look(r)
    end, { config = 2, sample_period = 5 })
    with_record("sample", {}, nil, { config = 2, sample_period = 5, record = sums })
    with_record("sample", {}, look, { config = 2, sample_period = false, freq = 5, sample_type = { "tid", "time" } })
    with_record("switch", {}, look, { sample_period = 5, context_switch = true })
    assert.same({ 5, false, false, false }, seen)
    assert.equal(5, sums:rows()[1].value)
  end)

  it("raises for a name that no record has, with the nearest valid name", function()
    with_record("switch", {}, function(r)
      local slips = { tme = "time", cpus = "cpu", filenam = "filename", sampleid = "sample_id", coppy = "copy" }
      for wrong, near in pairs(slips) do
        assert.error_matches(function() return r[wrong] end,
          ("no record has a field '%s' (did you mean '%s'?)"):format(wrong, near), 1, true)
      end
      assert.error_matches(function() return r.xyzzyplugh end, "no record has a field 'xyzzyplugh'$")
      assert.error_matches(function() return r[{}] end, "a field's name is a string, not a table")
      assert.error_matches(function() return r[true] end, "a field's name is a string, not a boolean")
      assert.error(function() return r[1] end)
    end)
  end)

  it("cannot be written to", function()
    with_record("switch", {}, function(r)
      assert.error_matches(function() r.time = 1 end, "a record cannot be changed; r:copy%(%) is a table of your own")
      assert.is_false(getmetatable(r))
    end)
  end)

  it("is iterated by pairs: its kind, its fields in the kernel's order, its flags", function()
    with_record("sample", { ip = 1 }, function(r)
      assert.same({ "type", "number", "size", "misc", "cpumode", "identifier", "ip", "pid", "tid", "time", "cpu",
                    "comm", "exact_ip" }, names_of(r))
      for name, value in pairs(r) do assert.same(r[name], value) end
    end, { sample_type = { "ip" } })
    with_record("fork", { pid = 1, ppid = 2, tid = 3, ptid = 4, time = 5 }, function(r)
      assert.same({ "type", "number", "size", "misc", "cpumode", "pid", "ppid", "tid", "ptid", "time", "cpu",
                    "identifier", "comm", "fork_exec" }, names_of(r))
    end)
    with_record("unknown", { number = 77, body = "12345678" }, function(r)
      local names = names_of(r)
      assert.equal("type", names[1])
      assert.equal("raw", names[#names])
      assert.equal("unknown", r.type)
    end)
  end)

  it("may be iterated twice at once", function()
    with_record("switch", {}, function(r)
      local n = 0
      for _ in pairs(r) do
        for _ in pairs(r) do n = n + 1 end
      end
      local names = names_of(r)
      assert.equal(#names * #names, n)
    end)
  end)

  it("has its own time and id if present, and the trailer's under sample_id", function()
    with_record("exit", { pid = 1, tid = 1, time = 111, sample_id = { time = 222, pid = 9, tid = 9 } }, function(r)
      assert.equal(111, r.time)
      assert.equal(222, r.sample_id.time)
      assert.equal(1, r.pid)
      assert.equal(9, r.sample_id.pid)
    end)
    with_record("lost", { id = 55, lost = 3 }, function(r)
      assert.equal(55, r.id)
      assert.equal(101, r.identifier)
    end)
  end)

  it("is copied with all its fields into independent tables", function()
    local copy
    local ev = with_record("sample", { raw = "payload", callchain = { -128, 1 } }, function(r)
      copy = r:copy()
      assert.same({ -128, 1 }, copy.callchain.raw)
      for name, value in pairs(r) do assert.same(value, copy[name], name) end
      copy.time = "mine"
    end, { sample_type = { "raw", "callchain" } })
    assert.equal("mine", copy.time)
    assert.equal(ev, copy.event)
    assert.same({}, copy.sample_id)
    assert.equal("payload\0\0\0\0\0", copy.raw)
  end)

  it("prints itself on one line, with any content", function()
    local function printed(type, fields, spec)
      local text
      with_record(type, fields, function(r) text = tostring(r) end, spec)
      return text
    end
    assert.matches("^switch pid=1000 tid=1000 time=%d+ cpu=0 comm=\":1000\" out$", printed("switch", { misc = 0x2000 }))
    assert.matches("^mmap pid=0 tid=0 addr=0xffffffffffffffff len=0 pgoff=0x0 filename=\"/a\\nb\\x1b%[31m\"",
      printed("mmap", { addr = -1, filename = "/a\nb\27[31m" }))
    assert.matches("^unknown %(77%) .*raw=", printed("unknown", { number = 77, body = "\1\2\3\4\5\6\7\8" }))
    assert.matches(" raw=" .. ("61"):rep(16) .. "%.%.%.%(2004 bytes%)",
      printed("sample", { raw = ("a"):rep(2000) }, { sample_type = { "raw" } }))
    assert.matches(" stack_user=00010203 ", printed("sample", { stack_user = "\0\1\2\3", stack_size = 16 },
      { sample_type = { "stack_user" }, sample_stack_user = 16 }))
    assert.is_nil(printed("comm", { comm = "\n\r\t\0" }):find("[\0-\31]"))
    for _, text in ipairs { printed("sample", { ip = 0x10 }), printed("lost", { id = 1, lost = 2 }) } do
      assert.is_nil(text:find("identifier"))
    end
  end)

  it("is recognised as a view, and nothing else is", function()
    with_record("switch", {}, function(r)
      local index = debug.getmetatable(r).__index
      for _, other in ipairs { 1, "x", {}, io.stdout, perfev.hooks.memory(8) } do
        assert.error(function() index(other, "time") end)
        assert.error(function() r.copy(other) end)
      end
      assert.error(function() r.copy() end)
    end)
  end)
end)

describe("a view", function()
  it("allocates nothing for numbers and flags", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.set(k.hooks)
    local sum = 0
    local s = perfev.session { ordered = false }
    s:event { type = 1, config = 0, sample_period = 1, comm = true, task = true, sample = function(r)
      sum = sum + r.time + r.tid + r.cpu + r.ip + r.period
      if r.exact_ip or r.type ~= "sample" then sum = 0 end
    end }
    assert(s:start())
    local function spent(count)
      for _ = 1, count do k:emit(k.events[1], "sample", { ip = 1 }) end
      collectgarbage()
      collectgarbage("stop")
      local before = collectgarbage("count")
      s:dispatch()
      local after = collectgarbage("count")
      collectgarbage("restart")
      return after - before
    end
    spent(10)
    local few, many = spent(10), spent(10000)
    assert.is_true(many - few < 2, many - few)
    assert.is_true(sum > 0)
    s:close()
  end)
end)
