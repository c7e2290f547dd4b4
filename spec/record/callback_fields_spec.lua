-- Sample callbacks with `fields` get the values of these fields instead of the record.

local sim = require "perfev.sim"
local perfev = require "perfev"
local run = require "spec.support.run"

local MS = 1000000
local FIELDS = "int small; unsigned int big; s64 wide; u8 byte; char name[8]; __data_loc char[] path; u16 list[3]"
local VALUES = { small = -3, big = 0xfffffffe, wide = math.mininteger, byte = 255, name = "four\0x",
                 path = "/a\27b", list = { 1, 2, 65535 } }

local k

before_each(function()
  k = sim.new { cpus = "0", world = "vm", tasks = { [7] = "seven" } }
  perfev.hooks.set(k.hooks)
  k:tracepoint("a:b", 300, FIELDS)
end)
after_each(perfev.hooks.clear)

-- An open event with the sample callback f; and its session.
local function opened(spec, opts)
  local s = perfev.session(opts or { pid = 7, ordered = false })
  local ev = s:event(spec)
  assert(s:start())
  return s, ev
end

-- The arguments of a callback for one sample, packed.
local function got(spec, record)
  local list
  spec.sample = function(...) list = table.pack(...) end
  local s <close> = opened(spec)
  record.type, record.pid = "sample", 7
  k:ring(0):push(record)
  s:dispatch()
  return list
end

local function bits_of(spec, opts)
  if spec.sample == nil then spec.sample = function() end end
  local s, ev = opened(spec, opts)
  local bits = ev.attr.sample_type
  s:close()
  return bits
end

local IDENTIFIER, TIME, TID, CPU = 1 << 16, 1 << 2, 1 << 1, 1 << 7
local IP, ADDR, CALLCHAIN, RAW, PERIOD = 1 << 0, 1 << 3, 1 << 5, 1 << 10, 1 << 8
local STANDING = IDENTIFIER | TIME

describe("the fields of a sample callback", function()
  it("are its arguments in the order of the list", function()
    local list = got({ type = 1, config = 0, sample_period = 1, fields = { "cpu", "time", "tid", "period" } },
      { time = 5 * MS, period = 9 })
    assert.same({ 0, 5 * MS, 7, 9, n = 4 }, list)
  end)

  it("may contain a name twice", function()
    assert.same({ 7, 7, n = 2 }, got({ type = 1, config = 0, sample_period = 1, fields = { "tid", "tid" } }, {}))
  end)

  it("keep a payload field's sign and width, and the whole of its strings", function()
    local list = got({ "a:b", fields = { "args.small", "args.big", "args.wide", "args.byte", "args.name", "args.path",
      "args.list" } }, { event = "a:b", args = VALUES })
    assert.same({ -3, 0xfffffffe, math.mininteger, 255, "four", "/a\27b", { 1, 2, 65535 }, n = 7 }, list)
  end)

  it("have the values of the record's fields of the same names", function()
    local names = { "identifier", "ip", "pid", "tid", "time", "addr", "id", "cpu", "period", "raw", "type", "number",
      "size", "misc", "cpumode", "comm", "exact_ip", "synthesised" }
    local bits = { "identifier", "ip", "tid", "time", "addr", "id", "cpu", "period", "raw" }
    local both = {}
    local s <close> = perfev.session { pid = 7, ordered = false }
    s:event { type = 2, config = 300, sample_period = 1, fields = names, sample_type = bits,
              sample = function(...) both[1] = table.pack(...) end }
    s:event { type = 2, config = 300, sample_period = 1, sample_type = bits, sample = function(r)
      both[2] = { n = #names }
      for i, name in ipairs(names) do both[2][i] = r[name] end
    end }
    assert(s:start())
    k:ring(0):push({ type = "sample", event = "a:b", pid = 7, ip = -1, addr = 1 << 63, period = 3, args = VALUES,
                  exact_ip = true, time = MS })
    s:dispatch()
    assert.equal("seven", both[1][16])
    assert.is_true(both[1][17])
    both[1][1], both[1][7], both[2][1], both[2][7] = nil, nil, nil, nil -- each event's own number
    assert.same(both[2], both[1])
  end)

  it("may include the event, the payload and the stack", function()
    local list = got({ "a:b", name = "mine", fields = { "event", "args", "stack", "callchain" } },
      { event = "a:b", args = VALUES, callchain = { -512, 0x1000 } })
    assert.equal("mine", list[1].name)
    assert.equal("userdata", type(list[2]))
    assert.equal(1, #list[3])
    assert.same({ 0x1000 }, list[4].user)
  end)

  it("are nil if the record lacks them, and the others keep their positions", function()
    local list = got({ type = 1, config = 0, sample_period = 1, fields = { "synthesised", "tid", "args", "cpu" } }, {})
    assert.same({ nil, 7, nil, 0, n = 4 }, list)
  end)

  it("are nil if they lie beyond the end of the payload", function()
    local list
    local s <close> = opened { "a:b", fields = { "args.small", "args.wide", "args.path", "tid" },
      sample = function(...) list = table.pack(...) end }
    k:ring(0):push({ type = "sample", event = "a:b", pid = 7, raw = string.pack("<I2BBi4i4", 300, 0, 0, 7, 42) })
    s:dispatch()
    assert.same({ 42, nil, nil, 7, n = 4 }, list)
  end)

  it("that are numbers are nil beyond the end of the payload, and the next record has all", function()
    local rows = {}
    local s <close> = opened { "a:b", fields = { "args.small", "args.wide", "tid" },
      sample = function(...) rows[#rows + 1] = table.pack(...) end }
    for _, raw in ipairs { string.pack("<I2BBi4i4", 300, 0, 0, 7, 42),
                           string.pack("<I2BBi4i4I4i8", 300, 0, 0, 7, 43, 0, -5) } do
      for _ = 1, 2 do k:ring(0):push({ type = "sample", event = "a:b", pid = 7, raw = raw }) end
    end
    s:dispatch()
    local short, long = { 42, nil, 7, n = 3 }, { 43, -5, 7, n = 3 }
    assert.same({ short, short, long, long }, rows)
  end)

  it("do not affect the records of other callbacks", function()
    local comm
    local s <close> = opened { type = 1, config = 0, sample_period = 1, fields = { "time" }, sample = function() end,
      comm = function(r) comm = r.comm .. r.tid end }
    k:ring(0):push({ type = "comm", pid = 7, tid = 7, comm = "new" })
    s:dispatch()
    assert.equal("new7", comm)
  end)

  for _, name in ipairs { "time", "comm" } do -- one that cannot raise by itself, one that is a string
    it(("stop and raise as a record's callback does (%s)"):format(name), function()
      local n, told = 0, {}
      local s <close> = perfev.session { pid = 7, ordered = false, strict = false,
        on_error = function(what) told[#told + 1] = what:match "mine" end }
      s:event { type = 1, config = 0, sample_period = 1, name = "clock", fields = { name }, sample = function()
        n = n + 1
        if n == 1 then error "mine" end
        return n < 3
      end }
      assert(s:start())
      for i = 1, 5 do k:ring(0):push({ type = "sample", pid = 7, time = i * MS }) end
      s:dispatch()
      assert.equal(3, n)
      assert.same({ "mine" }, told)
      assert.equal(1, s:totals().callback_errors)
    end)
  end

  it("are passed without allocating, if they are numbers or existing strings", function()
    for _, fields in ipairs { { "tid", "time", "args.wide" }, { "comm", "args.name" } } do
      local before, after, n = nil, nil, 0
      local spec = { "a:b", fields = fields, sample = function()
        n = n + 1
        if n == 2 then before = collectgarbage "count" end
        if n == 40 then after = collectgarbage "count" end
      end }
      local s <close> = opened(spec)
      for i = 1, 40 do k:ring(0):push({ type = "sample", event = "a:b", pid = 7, time = i, args = VALUES }) end
      collectgarbage()
      collectgarbage "stop"
      s:dispatch()
      collectgarbage "restart"
      assert.equal(before, after)
    end
  end)
end)

describe("the kernel is asked", function()
  it("for the bits that the fields and the session need, and no more", function()
    local clock = { type = 1, config = 0, sample_period = 1 }
    for _, case in ipairs {
      { { "time" }, 0 }, { { "cpu", "time" }, CPU }, { { "tid" }, TID }, { { "comm" }, TID }, { { "ip" }, IP },
      { { "addr", "period" }, ADDR | PERIOD }, { { "symbol" }, IP | TID | CPU }, { { "stack" }, CALLCHAIN | TID },
      { { "raw" }, RAW }, { { "type", "misc", "exact_ip" }, 0 },
    } do
      clock.fields = case[1]
      assert.equal(STANDING | case[2], bits_of(clock), table.concat(case[1], " "))
    end
    assert.equal(STANDING | RAW, bits_of { "a:b", fields = { "time", "args.small" } })
    assert.equal(STANDING, bits_of { "a:b", fields = { "time" } })
  end)

  it("for the bits that the user adds", function()
    assert.equal(STANDING | IP | ADDR,
      bits_of { type = 1, config = 0, sample_period = 1, sample_type = { "addr" }, fields = { "ip" } })
  end)

  it("for the task if the session excludes itself, or if another callback needs it", function()
    assert.equal(STANDING | TID, bits_of({ "a:b", fields = { "time" } }, { all_cpus = true, exclude_self = true }))
    assert.equal(STANDING | TID | CPU, bits_of { "a:b", fields = { "time" }, comm = function() end })
  end)

  it("for all bits of perf record, without fields", function()
    assert.equal(STANDING | TID | CPU | IP | PERIOD | RAW, bits_of { "a:b" })
  end)
end)

describe("fields are refused", function()
  local function declare(spec)
    return function() perfev.session { pid = 7 }:event(spec) end
  end
  local function refused(fields, pattern)
    assert.error_matches(declare { "cpu-clock", fields = fields, sample = function() end }, pattern)
  end

  it("if no sample has them, with the nearest name", function()
    refused({ "cpu", "tme" }, "event: fields: no sample has a field 'tme' %(did you mean 'time'%?%)")
    refused({ "filename" }, "no sample has a field 'filename'")
    refused({ "exec" }, "no sample has a field 'exec'")
    refused({ "copy" }, "no sample has a field 'copy'")
    refused({ "next_pid_of_it" }, "a payload's are args.NAME")
  end)

  it("if they are not a list of names", function()
    refused("cpu", "event: fields must be a list of names, not 'cpu'")
    refused({}, "event: fields: the list is empty")
    refused({ 1 }, "event: fields: element 1 must be a string, not 1")
    refused({ "cpu", x = "tid" }, "event: fields: 'x' is not allowed in a list")
    local many = {}
    for i = 1, 33 do many[i] = "cpu" end
    refused(many, "33 names; at most 32")
  end)

  it("without a callback to receive them", function()
    assert.error_matches(declare { "cpu-clock", fields = { "cpu" } }, "fields without sample")
    assert.error_matches(declare { "cpu-clock", fields = { "cpu" }, comm = function() end }, "fields without sample")
    assert.error_matches(declare { "cpu-clock", fields = { "cpu" }, sample = perfev.count {} },
      "fields and an aggregator at once")
  end)

  it("when the event is opened, if it has no such payload or its attr lacks their bit", function()
    local function why(spec)
      spec.sample = function() end
      local s <close> = perfev.session { pid = 7 }
      s:event(spec)
      return (select(2, s:start()))
    end
    assert.matches("a:b: fields: args.smal: no such field %(did you mean 'args.small'%?%)\n  fields: small big .*"
      .. "\n  try: perfl list %-v a:b", why { "a:b", fields = { "args.smal" } })
    assert.matches("fields: args.x: the event has no payload\n  try: a tracepoint",
      why { "cpu-clock", fields = { "args.x" } })
    assert.matches("branch_sample_type", why { "cpu-clock", fields = { "branch_stack" } })
    assert.matches("sample_regs_user", why { "cpu-clock", fields = { "regs_user" } })
  end)
end)

describe("the fields of a recording's samples", function()
  it("have the values of its records, and nil for fields that it lacks", function()
    perfev.hooks.clear()
    local dir <close> = setmetatable({ path = run.tempdir() }, { __close = function(t) run.remove(t.path) end })
    local path = dir.path .. "/a.data"
    local r = run({ "lua5.4", "bench/record.lua", path, "500" },
      { env = { LUA_PATH = "lua/?.lua;lua/?/init.lua;./?.lua", LUA_CPATH = package.cpath } })
    assert.equal(0, r.code, r.err)
    local a, b = {}, {}
    local s <close> = perfev.session { input = path }
    s:event { "raw_syscalls:sys_enter", fields = { "time", "tid", "cpu", "comm", "args.id", "args.args", "addr" },
      sample = function(time, tid, cpu, comm, id, list, addr)
        a[#a + 1] = { time, tid, cpu, comm, id, list[1], addr == nil }
      end }
    s:event { "raw_syscalls:sys_enter", sample = function(rec, args)
      b[#b + 1] = { rec.time, rec.tid, rec.cpu, rec.comm, args.id, args.args[1], rec.addr == nil }
    end }
    assert(s:run())
    assert.equal(500, #a)
    assert.same(b, a)
    local other <close> = perfev.session { input = path }
    other:event { "raw_syscalls:sys_enter", fields = { "args.idd" }, sample = print }
    assert.matches("args.idd: no such field %(did you mean 'args.id'%?%)", (select(2, other:run())))
  end)
end)
