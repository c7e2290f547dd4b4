-- Conditions: the compiled program against plain Lua, the kernel's filter against the whole condition, and the messages
-- for invalid conditions.

local filters = require "perfev.tracepoint.filter"
local sim = require "perfev.sim"
local perfev = require "perfev"
local run = require "spec.support.run"
local where = require "perfev.aggregate.condition"

local FIELDS = "int small; unsigned int big; s64 wide; u64 huge; u8 byte; s16 pair; char name[8]; "
  .. "__data_loc char[] path; u16 list[3]"

local NR = run.sanitized and 20 or 80 -- conditions, and records for each

local words = { "", "a", "ab", "abc", "four", "sevenths", "x'y", 'x"y', "swapper", "a*b" }
local numbers = { 0, 1, -1, 5, 127, 128, 255, 256, -32768, 32767, 0x7fffffff, 0x80000000, 0xffffffff, -0x80000000,
                  0x100000000, math.maxinteger, math.mininteger }

local function one_of(list) return list[math.random(#list)] end

local function random_number()
  return math.random(3) == 1 and one_of(numbers) or math.random(-6, 6)
end

-- ---- conditions, and the same in plain Lua ----

local kinds = {
  { names = { "args.small", "args.big", "args.wide", "args.huge", "args.byte", "args.pair", "cpu", "tid", "addr" },
    ops = { "==", "!=", "<", "<=", ">", ">=", "&", "in" }, literal = random_number },
  { names = { "args.name", "args.path", "comm" }, ops = { "==", "!=", "in", "prefix" },
    literal = function() return one_of(words) end },
  { names = { "exact_ip" }, ops = { "==", "!=" }, literal = function() return math.random(2) == 1 end },
}

local function random_comparison()
  local kind = kinds[math.random(2) == 1 and 1 or math.random(#kinds)]
  local name, op, value = one_of(kind.names), one_of(kind.ops), kind.literal()
  if op == "in" then
    value = { value }
    for i = 2, math.random(5) do value[i] = kind.literal() end
  end
  return { name, op, value }
end

local function random_condition(depth)
  local joint = math.random(6)
  if depth == 0 or joint > 4 then return random_comparison() end
  if joint == 1 then return { "not", random_condition(depth - 1) } end
  local one = { joint == 2 and "or" or "and" }
  for i = 2, math.random(2, 4) do one[i] = random_condition(depth - 1) end
  return one
end

local no_sign = { ["args.huge"] = true, addr = true }

local function less(name, a, b)
  if no_sign[name] then return math.ult(a, b) end
  return a < b
end

local compare = {
  ["=="] = function(_, a, b) return a == b end, ["!="] = function(_, a, b) return a ~= b end,
  ["<"] = function(name, a, b) return less(name, a, b) end,
  ["<="] = function(name, a, b) return not less(name, b, a) end,
  [">"] = function(name, a, b) return less(name, b, a) end,
  [">="] = function(name, a, b) return not less(name, a, b) end,
  ["&"] = function(_, a, b) return a & b ~= 0 end,
  prefix = function(_, a, b) return a:sub(1, #b) == b end,
}
compare["in"] = function(_, a, set)
  for _, b in ipairs(set) do if a == b then return true end end
  return false
end

local joints = {}

local function holds(one, values)
  local joint = joints[one[1]]
  if joint then return joint(one, values) end
  local value = values[one[1]]
  return value ~= nil and compare[one[2]](one[1], value, one[3])
end

joints["not"] = function(one, values) return not holds(one[2], values) end
joints["and"] = function(one, values)
  for i = 2, #one do if not holds(one[i], values) then return false end end
  return true
end
joints["or"] = function(one, values)
  for i = 2, #one do if holds(one[i], values) then return true end end
  return false
end

-- ---- a kernel's filter, as parse_pred() and its comparisons have it ----

local widths = { small = "i4", big = "I4", wide = "i8", huge = "I8", byte = "I1", pair = "i2", CPU = "i4" }

-- A number cut to the field's size, as the comparison functions cut their operand.
local function cut(name, value)
  local format = "<" .. widths[name]
  local size = string.packsize(format)
  return (string.unpack(format, string.pack("<i8", value):sub(1, size)))
end

local function predicate(name, op, text, values)
  local value = name == "COMM" and values.comm or name == "CPU" and values.cpu or values["args." .. name]
  local quoted = text:match '^"(.*)"$' or text:match "^'(.*)'$"
  if quoted and op == "~" then return compare.prefix(name, value, (assert(quoted:match "^(.*)%*$"))) end
  if quoted then return compare[op](name, value, quoted) end
  return compare[op]("args." .. name, value, cut(name, math.tointeger(tonumber(text))))
end

local function evaluate(text, values)
  local at = 1
  local function blank() at = text:match("^ *()", at) end
  local any
  local function one()
    blank()
    local sign = text:sub(at, at)
    if sign == "!" then
      at = at + 1
      return not one()
    elseif sign == "(" then
      at = at + 1
      local value = any()
      assert(text:sub(at, at) == ")", text)
      at = at + 1
      return value
    end
    local name, op, rest = text:match("^([%w_]+) ([^ ]+) ()", at)
    local literal = text:match('^"[^"]*"', rest) or text:match("^'[^']*'", rest) or text:match("^[%w-]+", rest)
    at = rest + #literal
    return predicate(name, op, literal, values)
  end
  function any()
    local value = one()
    while text:match("^ [&|]", at) do
      local joint = text:sub(at + 1, at + 2)
      at = at + 4
      local other = one()
      if joint == "&&" then value = value and other else value = value or other end
    end
    return value
  end
  return any()
end

-- ---- records ----

local function random_record()
  local addr = math.random(3) > 1 and random_number() or nil
  return {
    cpu = 0, addr = addr, exact_ip = math.random(2) == 1,
    args = {
      small = random_number() << 32 >> 32, big = random_number() & 0xffffffff, wide = random_number(),
      huge = random_number(), byte = random_number() & 0xff, pair = random_number() & 0xffff,
      name = one_of(words):sub(1, 8), path = one_of(words), list = { 1, 2, 3 },
    },
  }
end

local names = { "args.small", "args.big", "args.wide", "args.huge", "args.byte", "args.pair", "args.name", "args.path",
                "cpu", "tid", "addr", "comm", "exact_ip" }

describe("a condition", function()
  local k
  before_each(function()
    k = sim.new { cpus = "0", world = "vm", tasks = { [7] = "seven", [8] = "abc" } }
    perfev.hooks.set(k.hooks)
    k:tracepoint("a:b", 300, FIELDS)
  end)
  after_each(perfev.hooks.clear)

  local with_addr = { "addr", "ip", "tid", "time", "cpu", "period", "identifier", "raw" }

  -- The event of the i-th condition, and the counter of its samples: an aggregator's condition, or the event's own with
  -- a callback of either kind, or with an aggregator that has half of the condition.
  local function counting(i, condition)
    local n = 0
    local function add() n = n + 1 end
    local counter = { get = function() return n end }
    local spec = { "a:b", where = condition, sample_type = with_addr }
    if i % 4 == 0 then
      counter = perfev.count { where = condition }
      spec.where, spec.sample = nil, counter
    elseif i % 4 == 1 then
      spec.sample = add
    elseif i % 4 == 2 then
      spec.fields, spec.sample, spec.sample_type = { "time" }, add, { "time" } -- plus the condition's fields
    elseif condition[1] == "and" and #condition == 3 then
      counter = perfev.count { where = condition[3] }
      spec.where, spec.sample = condition[2], counter
    else
      spec.record = add
    end
    return spec, counter
  end

  -- A session of these events, and the values in a callback for each record.
  local function counted(conditions, records)
    local seen, counts, set = {}, {}, {}
    local s <close> = perfev.session { ordered = false }
    s:event { "a:b", fields = names, sample_type = with_addr, sample = function(...)
      local values = {}
      for i, name in ipairs(names) do values[name] = (select(i, ...)) end
      seen[#seen + 1] = values
    end }
    for i, condition in ipairs(conditions) do
      local spec
      spec, counts[i] = counting(i, condition)
      s:event(spec)
    end
    assert(s:start())
    for _, event in ipairs(k.events) do if event.filter then set[event.filter] = true end end
    for _, record in ipairs(records) do
      record.type, record.event, record.pid = "sample", "a:b", 7 + math.random(0, 1)
      k:ring(0):push(record)
      s:dispatch()
    end
    return seen, counts, set
  end

  local function format()
    for path, text in pairs(k.files) do if path:find("a/b/format$") then return text end end
  end

  it("decides as plain Lua does, and the kernel's filter never drops a match", function()
    math.randomseed(7)
    local conditions, records = {}, {}
    for i = 1, NR do conditions[i], records[i] = random_condition(4), random_record() end
    local seen, counts, set = counted(conditions, records)
    assert.equal(NR, #seen)
    local decided, exact_ones, held = 0, 0, 0
    local fields = filters.fields(format())
    for i, condition in ipairs(conditions) do
      local n = 0
      local text, exact = where.filter(where.read(condition, "spec", 1), fields)
      assert(not text or set[text], text)
      for _, values in ipairs(seen) do
        local expected = holds(condition, values)
        if expected then n = n + 1 end
        if text then
          local kernels = evaluate(text, values)
          assert(kernels or not expected, text)
          assert(not exact or kernels == expected, text)
        end
      end
      assert.equal(n, counts[i]:get() or 0)
      decided, exact_ones, held = decided + (text and 1 or 0), exact_ones + (exact and 1 or 0), held + n
    end
    assert.is_true(decided > NR / 4 and exact_ones > NR / 10 and held > NR and held < NR * NR)
  end)

  it("selects the same records of a recording for callbacks, aggregators and loops", function()
    math.randomseed(8)
    local conditions, seen = {}, {}
    for i = 1, NR do conditions[i] = random_condition(3) end
    k:after(1000000, function()
      for i = 1, NR do
        local record = random_record()
        k.now = k.now + 1
        record.type, record.event, record.pid = "sample", "a:b", 7 + i % 2
        k:ring(0):push(record)
      end
    end)
    local first <close> = perfev.session { duration = "20ms", record = "/x.data" }
    first:event { "a:b", fields = names, sample_type = with_addr, where = { "args.byte", ">=", 0 }, -- all, and not set
      sample = function(...)
        local values = {}
        for i, name in ipairs(names) do values[name] = (select(i, ...)) end
        seen[#seen + 1] = values
      end }
    assert(first:run())
    assert.equal(NR, #seen)
    assert.is_nil(k.events[1].filter)
    local function expected(condition)
      local n = 0
      for _, values in ipairs(seen) do n = n + (holds(condition, values) and 1 or 0) end
      return n
    end
    local s <close> = perfev.session { input = "/x.data" }
    local counts, all = {}, 0
    for i, condition in ipairs(conditions) do
      local spec
      spec, counts[i] = counting(i, condition)
      s:event(spec)
    end
    assert(s:run())
    for i, condition in ipairs(conditions) do
      assert.equal(expected(condition), counts[i]:get() or 0)
      all = all + (counts[i]:get() or 0)
    end
    assert.is_true(all > 0 and s:totals().delivered < NR * NR)
    local pulled, views = 0, 0
    for _, opts in ipairs { { fields = { "cpu" } }, {} } do
      local loop <close> = perfev.session { input = "/x.data" }
      loop:event { "a:b", where = conditions[1] }
      for r in loop:records(opts) do
        if opts.fields then pulled = pulled + 1 elseif r.type == "sample" then views = views + 1 end
      end
    end
    assert.same({ expected(conditions[1]), expected(conditions[1]) }, { pulled, views })
  end)

  it("of an event drops records before delivery, and does not count them", function()
    local seen = {}
    local s <close> = perfev.session { ordered = false, count = 2 }
    local ev = s:event { "a:b", where = { "and", { "args.small", "<", 0 }, { "tid", "==", 7 } },
                         sample = function(r, args) seen[#seen + 1] = r.tid * args.small end, comm = function() end }
    assert(s:start())
    assert.equal("small < 0", k.events[1].filter)
    local function happen(tid, small)
      local record = random_record()
      record.type, record.event, record.pid, record.args.small = "sample", "a:b", tid, small
      k:ring(0):push(record)
    end
    for _ = 1, 3 do happen(7, 1) happen(8, -1) happen(7, -2) end
    s:dispatch()
    assert.same({ -14, -14 }, seen)
    assert.equal(2, s:totals().delivered)
    assert.equal("a:b", ev.name)
  end)

  it("applies to all records of a dummy event, and to the samples of other events", function()
    local switches, forks, comms = {}, 0, 0
    local s <close> = perfev.session { ordered = false }
    s:event { where = { "and", { "out", "==", true }, { "tid", "!=", 9 } },
              switch = function(r) switches[#switches + 1] = r.tid end, fork = function() forks = forks + 1 end }
    s:event { "a:b", where = { "cpu", "==", 5 }, sample = function() end, comm = function() comms = comms + 1 end }
    assert(s:start())
    for i = 7, 10 do k:ring(0):push({ type = "switch", pid = i, tid = i, out = i ~= 8 }) end
    k:ring(0):push({ type = "fork", pid = 20, tid = 20, ppid = 7, ptid = 7 })
    k:ring(0):push({ type = "comm", pid = 7, tid = 7, comm = "new" })
    s:dispatch()
    assert.same({ 7, 10 }, switches)
    assert.same({ 0, 1 }, { forks, comms })
    assert.equal(1, s:totals().undecided) -- a fork goes neither in nor out
  end)

  it("is evaluated in perfev if the kernel refuses it, and joins the event's filter", function()
    local said, refuse = {}, true
    local ioctl = k.hooks.ioctl
    k.hooks.ioctl = function(fd, request, arg)
      if refuse and type(arg) == "string" then return nil, perfev.errno.EINVAL end
      return ioctl(fd, request, arg)
    end
    local function open(spec)
      perfev.hooks.set(k.hooks)
      local s <close> = perfev.session { ordered = false, log = function(_, text) said[#said + 1] = text end }
      local n = #k.events
      spec[1], spec.sample = "a:b", perfev.count { where = { "args.small", "<", 0 } }
      s:event(spec)
      assert(s:start())
      k:ring(0):push({ type = "sample", event = "a:b", pid = 7, args = random_record().args })
      s:dispatch()
      return k.events[n + 1].filter
    end
    assert.is_nil(open {})
    assert.matches("the kernel does not take that: where is seen to without it", table.concat(said, "\n"))
    refuse = false
    assert.equal("small < 0", open {})
    assert.equal("(byte == 1) && (small < 0)", open { filter = "byte == 1" })
    assert.matches("a:b: the kernel's filter has all of where: small < 0", table.concat(said, "\n"))
  end)

  it("counts the records that lack a field that it reads", function()
    local s <close> = perfev.session { ordered = false }
    local a = perfev.count { where = { "addr", "!=", 0 } }
    s:event { type = 1, config = 0, sample_period = 1, sample = a }
    assert(s:start())
    for _ = 1, 2 do k:emit(k.events[1], "sample", { pid = 7, tid = 7, cpu = 0 }) end
    s:dispatch()
    assert.same({ "2 records without a field that where reads: not counted" }, a:remarks())
    assert.same({ "addr", "!=", 0 }, a:spec().where)
    assert.same({}, a:clear() or a:uncounted())
  end)

  it("selects the starts and stops of a span, and its result", function()
    local took = perfev.stats { where = { "args.small", ">=", 0 } }
    local s <close> = perfev.session { ordered = false }
    local span = s:span { start = "a:b", stop = "a:b", by = "tid", into = took, where = { "args.byte", "==", 3 },
                          start_where = { "args.name", "==", "in" }, stop_where = { "args.name", "==", "out" } }
    assert(s:start())
    local function happen(time, name, byte, small)
      k:ring(0):push({ type = "sample", event = "a:b", pid = 7, time = time,
                    args = { small = small, big = 0, wide = 0, huge = 0, byte = byte, pair = 0, name = name, path = "",
                             list = { 0, 0, 0 } } })
    end
    happen(10, "in", 3, 0) happen(15, "in", 4, 0) happen(20, "out", 4, 0) happen(40, "out", 3, 0)
    happen(50, "in", 3, 0) happen(90, "out", 3, -1)
    s:dispatch()
    assert.same({ count = 1, sum = 30, avg = 30.0, min = 30, max = 30 }, took:get())
    assert.same({ waiting = 0, unstarted = 0, restarted = 0, dropped = 0 }, span:unmatched())
  end)

  it("is refused with the words that the user wrote", function()
    for _, case in ipairs {
      { 7, "a condition is a table such as" }, { {}, "not with nothing" }, { { x = 1 }, "\"x\" is not a position" },
      { { { "cpu", "==", 1 }, "or", { "cpu", "==", 2 } }, 'come first: {"or", {...}, {...}}' },
      { { { "cpu", "==", 1 }, { "cpu", "==", 2 } }, 'come first: {"and", {...}, {...}}' },
      { { "cpu", "=", 1 }, 'cpu: "=" is not an operator (did you mean \'==\'?)' }, { { "cpu", "==" }, "has 2 words" },
      { { "cpu", "==", 1, 2 }, "has 4 words" }, { { "cpu", "==", { 1 } }, 'a set is behind "in"' },
      { { "cpu", "in", 1 }, 'behind "in" is a list' }, { { "cpu", "in", { 1, "a" } }, "must have one type" },
      { { "cpu", "<", "a" }, '< is for integers, not for "a"' }, { { "cpu", "==", 0.5 }, "0.5 is not an integer" },
      { { "cpu", "==", "a" }, "it is a number, and compared with \"a\"\n  try: an integer" },
      { { "comm", "==", 1 }, "it is a string" }, { { "comm", "prefix", 1 }, "the prefix of a string must be a string" },
      { { "exact_ip", "==", 1 }, "it is true or false" }, { { "comn", "==", "a" }, "did you mean 'comm'?" },
      { { "stack", "==", 1 }, "too late for a condition" }, { { "callchain", "==", 1 }, "neither a number" },
      { { "not" }, '"not" has one condition' }, { { "and" }, '"and" has conditions' },
      { { "cpu", "==", print }, "not a function" },
    } do
      local ok, why = pcall(perfev.count, { where = case[1] })
      assert.is_false(ok)
      assert.is_truthy(why:find("count: where: ", 1, true), why)
      assert.is_truthy(why:find(case[2], 1, true), why)
    end
    local deep, long = { "cpu", "==", 1 }, { "or" }
    for _ = 1, 101 do deep = { "not", deep } end
    for i = 1, 1001 do long[i + 1] = { "cpu", "==", i } end
    assert.error_matches(function() perfev.count { where = deep } end, "more than 100 conditions")
    assert.error_matches(function() perfev.count { where = long } end, "1001 comparisons; at most 1000")
  end)

  it("of an event is refused with the same words, and if the event lacks the field", function()
    for _, case in ipairs {
      { { "cpu", "=", 1 }, 'event: where: cpu: "=" is not an operator' }, { 7, "event: where: a condition is a table" },
    } do
      local ok, why = pcall(perfev.event, { "a:b", where = case[1], sample = print })
      assert.is_false(ok)
      assert.is_truthy(why:find(case[2], 1, true), why)
    end
    for _, case in ipairs {
      { "a:b", { "args.smal", "==", 1 }, "a:b: where: args.smal: no such field (did you mean 'args.small'?)" },
      { "a:b", { "args.name", "==", 1 }, "a:b: where: args.name: it is a string, and compared with 1" },
      { "cpu-clock", { "args.small", "==", 1 }, "cpu-clock: where: args.small: the event has no payload" },
    } do
      local s <close> = perfev.session { ordered = false }
      s:event { case[1], where = case[2], sample = function() end }
      local why = select(2, s:start())
      assert.is_truthy(why:find(case[3], 1, true), why)
    end
  end)

  it("is refused when the event is opened, if the payload's field is missing or differs", function()
    for _, case in ipairs {
      { { "args.smal", "==", 1 }, "did you mean 'args.small'?" },
      { { "not", { "args.name", "==", 1 } }, "args.name: where: it is a string, and compared with 1" },
      { { "args.list", "==", 1 }, "neither a number nor a string" },
    } do
      local s <close> = perfev.session { ordered = false }
      s:event { "a:b", sample = perfev.count { where = case[1] } }
      assert.is_truthy(select(2, s:start()):find(case[2], 1, true))
    end
  end)
end)
