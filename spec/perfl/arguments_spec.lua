-- Invalid arguments: every option accepts each of these values, or refuses it in a message with the option's name; no
-- other error occurs.

local core = require "perfev.core"
local sim = require "perfev.sim"
local perfev = require "perfev"

local options = require "perfev.base.options"

local cyclic = {}
cyclic[1] = cyclic

-- Raises on any access that is not raw.
local function trap(t)
  local function fail() error "metamethod" end
  return setmetatable(t or {}, { __index = fail, __pairs = fail, __len = fail, __newindex = fail, __tostring = fail,
                                 __call = fail, __concat = fail, __eq = fail, __lt = fail, __name = "trap" })
end

local strange = {
  { "an empty string", "" }, { "an empty table", {} }, { "NaN", 0 / 0 }, { "2^53", 2.0 ^ 53 }, { "-1", -1 },
  { "2^64", 2.0 ^ 64 }, { "1e300", 1e300 }, { "a cyclic table", cyclic },
  { "a function", function() end }, { "a coroutine", coroutine.create(print) },
  { "a table that raises", trap() },
}

local k
before_each(function()
  k = sim.new()
  perfev.hooks.set(k.hooks)
end)
after_each(function() perfev.hooks.clear() end)

-- f(value) accepts the value or refuses it with a message that has the name; the kernel's refusals have an errno.
local function each_named(name, f)
  local wrong = {}
  for _, case in ipairs(strange) do
    local ok, result, why, code = pcall(f, case[2])
    local text = not ok and result or result == nil and not code and why or nil
    if not ok and type(text) ~= "string" or text and not text:find(name, 1, true) then
      wrong[#wrong + 1] = ("%s = %s: %s"):format(name, case[1], tostring(text))
    end
  end
  assert.same({}, wrong)
end

describe("every attr field is accepted or refused by its name:", function()
  for _, field in ipairs(core.attr_fields()) do
    it(field.name .. " in an attr", function()
      each_named(field.name, function(value) return core.attr_new { [field.name] = value } end)
      each_named(field.name, function(value)
        local attr = core.attr_new {}
        attr[field.name] = value
        return attr
      end)
    end)

    it(field.name .. " in an event, a counter, a decoder", function()
      each_named(field.name, function(value)
        local s <close> = perfev.session { tid = 7 }
        local ev, why, code = s:event { "page-faults", [field.name] = value }
        if not ev then return nil, why, code end
        return s:start()
      end)
      each_named(field.name, function(value)
        local c, why, code = perfev.counter { { "page-faults", [field.name] = value }, tid = 7 }
        if c then c:close() end
        return c, why, code
      end)
      each_named(field.name, function(value) return perfev.decoder { [field.name] = value } end)
      each_named(field.name, function(value) return perfev.encode({ [field.name] = value }, { type = "comm" }) end)
      assert.same({}, k:leaks())
    end)
  end
end)

describe("every option is accepted or refused by its name:", function()
  for _, name in ipairs(options.names) do
    it(name .. " of a session", function()
      each_named(name, function(value) return perfev.session { [name] = value } end)
    end)
  end

  for _, name in ipairs { "name", "filter", "optional", "period", "freq", "callchain", "sample", "record", "lost" } do
    it(name .. " of an event", function()
      each_named(name, function(value)
        local s <close> = perfev.session { tid = 7 }
        return s:event { "page-faults", [name] = value }
      end)
    end)
  end

  for _, name in ipairs { "cgroup", "pid", "tid", "command", "cpus", "all_cpus", "lost", "page", "log", "leader" } do
    it(name .. " of a counter", function()
      each_named(name, function(value)
        local spec = { "page-faults", [name] = value }
        local c, why, code = (name == "leader" and perfev.group or perfev.counter)(spec)
        if c then c:close() end
        return c, why, code
      end)
    end)
  end

  for _, name in ipairs { "name", "filter", "optional", "period" } do
    it(name .. " of a counter's event", function()
      each_named(name, function(value)
        local c, why, code = perfev.counter { { "page-faults", [name] = value }, tid = 7 }
        if c then c:close() end
        return c, why, code
      end)
    end)
  end

  for _, name in ipairs(require("perfev.base.check").names(require("perfev.option_tables.args").args_option)) do
    it(name .. " of perfev.args", function()
      each_named(name, function(value) return require("perfev.tool.args").check { { "--some", [name] = value } } end)
    end)
  end

  for name in pairs(perfev.hooks.real) do
    it(name .. " of a hook table", function()
      each_named(name, function(value)
        perfev.hooks.set { [name] = value }
        perfev.hooks.clear()
        return true
      end)
    end)
  end
end)

describe("an option whose name is a table", function()
  local declared = {
    session = perfev.session, counter = perfev.counter, group = perfev.group, count = perfev.count, sum = perfev.sum,
    hist = perfev.hist, top = perfev.top, span = perfev.span, profile = perfev.profile, budget = perfev.budget,
    ["perfev.args"] = require("perfev.tool.args").check,
    event = function(spec) return perfev.session({ tid = 7 }):event(spec) end,
    open = function(spec) return perfev.open("/nonexistent", spec) end,
    unpack = function(spec) return perfev.unpack("", spec) end,
    heatmap = perfev.picture.heatmap,
    signal = function(spec) return perfev.session({ tid = 7 }):signal(next(spec), print) end,
  }
  for name, declare in pairs(declared) do
    it("is refused by " .. name .. ", and none of its metamethods runs", function()
      local ok, why = pcall(declare, { [trap()] = 1 })
      assert.is_false(ok)
      assert.is_nil(why:find "metamethod", why)
      assert.is_truthy(why:find "a table", why)
    end)
  end
end)

describe("an integer of 64 bits", function()
  local all = { 0, 1, math.maxinteger, math.mininteger, -1, 0x8000000000000001 }
  local wide = { "config", "sample_period", "bp_addr", "bp_len", "sig_data", "sample_regs_user" }

  it("keeps its bits in an attr and in the attr that the kernel receives", function()
    for _, value in ipairs(all) do
      for _, name in ipairs(wide) do
        local attr = core.attr_new { [name] = value }
        assert.equal(value, attr[name], name)
      end
      local c = assert(perfev.counter { { type = 1, config = 2, bp_addr = value, sig_data = value }, tid = 7 })
      assert.same({ value, value }, { k.events[#k.events].attr.bp_addr, k.events[#k.events].attr.sig_data })
      c:close()
    end
  end)

  it("keeps its bits in an encoded and decoded record", function()
    local spec = { sample_type = { "ip", "addr", "period", "id", "identifier", "time" } }
    local d = perfev.decoder(spec)
    for _, value in ipairs(all) do
      local sent = { type = "sample", ip = value, addr = value, period = value, id = value, identifier = value,
                     time = value }
      local got = d:decode(perfev.encode(spec, sent))
      for name, v in pairs(sent) do assert.equal(v, got[name], name) end
    end
  end)

  it("is the kernel's count, which math.ult compares", function()
    local read = k.hooks.read
    k.hooks.read = function(fd, len)
      if k.fds[fd] and k.fds[fd].kind == "event" then return string.pack("=i8i8i8", k.told, 10, 10) end
      return read(fd, len)
    end
    perfev.hooks.set(k.hooks)
    local c = assert(perfev.counter { "page-faults", tid = 7 })
    for _, value in ipairs(all) do
      k.told = value
      assert.equal(value, c:read().raw["page-faults"])
      assert.equal(value, c:read()["page-faults"])
    end
    c:close()
    assert.is_true(math.ult(math.maxinteger, math.mininteger))
  end)
end)

describe("a float without a fraction", function()
  it("is accepted as an integer by options and attr fields", function()
    local s <close> = perfev.session { count = 2.0, tid = { 7.0 } }
    assert.same({ 2, { 7 } }, { s.opts.count, s.opts.tid })
    assert.error_matches(function() perfev.session { count = 2.5 } end, "count must be an integer above 0, not 2.5")
    -- Of a period above 1 the kernel would give a sample for each event, were PERIOD asked for.
    s:event { "page-faults", period = 10.0, sample = function() end }
    assert(s:start())
    assert.same({ 10, 0 }, { k.events[1].attr.sample_period, k.events[1].attr.sample_type & 1 << 8 })
    local a = perfev.top { by = "k", max_keys = 1e3, rows = 2.0 }
    a:inc(1)
    assert.same({ 1000, 2, 1 }, { a:spec().max_keys, a:spec().rows, #a:top(1.0) })
    local h = perfev.hist { low = 0.0, high = 1e2, step = 10.0 }
    h:add(15)
    assert.same({ { low = 10, high = 20, count = 1 } }, h:get().buckets)
    assert.is_nil((perfev.open("/nonexistent", { window = 1e6 })))
  end)
end)

describe("a table of options", function()
  it("is read once: callbacks that change later, or while they run, have no effect", function()
    local got = {}
    local spec = { type = 1, config = 0, sample_period = 1, comm = true, task = true }
    function spec.sample()
      got[#got + 1] = "first"
      function spec.sample() got[#got + 1] = "other" end
    end
    local s <close> = perfev.session { tid = 7 }
    s:event(spec)
    spec.sample = nil
    assert(s:start())
    for _ = 1, 3 do
      k:emit(k.events[1], "sample", { period = 1 })
      s:dispatch()
    end
    s:stop()
    s:dispatch()
    assert.same({ "first", "first", "first" }, got)
  end)

  it("of an event or a session is read without calling its metamethods", function()
    local s <close> = perfev.session(trap { tid = 7 })
    local spec = trap { type = 1, config = 0, sample_period = 3, sample = function() end }
    assert(s:event(spec))
    rawset(spec, "sample_period", 4)
    assert(s:start())
    assert.equal(3, k.events[1].attr.sample_period)
    local c <close> = assert(perfev.counter(trap { trap { "page-faults" }, tid = 7 }))
    assert.same({ "page-faults" }, c:names())
  end)

  it("of an aggregator, a span or their lists is read without calling its metamethods", function()
    local into = perfev.hist(trap { low = 0, high = 10, step = 1, by = trap { "comm" }, title = "t" })
    assert.same({ "comm" }, into:spec().by)
    local span = perfev.span(trap { start = true, stop = true, by = trap { "tid" }, into = into })
    assert.is_function(span.start and print)
    local p = perfev.profile(trap { title = trap {}, values = trap { trap { "time", unit = "ns" } } })
    assert.equal("", p:folded(trap { value = "time" }))
    assert.is_truthy(p:sampler(trap { under = "comm", value = "period" }))
    local script_options = require "perfev.tool.args"
    local declared = script_options.check(trap { summary = "s", trap { "-a --all", choices = trap { "x" } } })
    assert.same({ "all", { "x" } }, { declared[1].name, declared[1].choices })
    assert.is_nil((perfev.open("/nonexistent", trap { window = 3 })))
  end)

  it("accepts a function as a callback, or true and false as the field of that name", function()
    local s <close> = perfev.session { tid = 7 }
    for _, name in ipairs { "sample", "lost", "record", "comm", "exit" } do
      for _, value in ipairs { 1, "f", {}, coroutine.create(print) } do
        assert.error_matches(function() s:event { "dummy", [name] = value } end, name)
      end
    end
  end)
end)

-- The error is at the caller's file and line, in the caller's words.
describe("a mistake is reported at the line of the caller:", function()
  local mistakes = {
    -- options
    { 'perfev.session { pdi = 3 }', "unknown option 'pdi' %(did you mean 'pid'%?%)" },
    { 'perfev.session { cpus = "0-" }', "cpus: list '0%-'" },
    { 'perfev.session { input = "x", cgroup = "y" }', "input and cgroup at once" },
    { 'perfev.session(false)', "a table expected, not false" },
    { 's:configure { cpus = "z" }', "cpus: list 'z'" },
    { 's:event { "cpu-clock", sample_type = { "nope" } }', "^event: sample_type has no bit 'nope'" },
    { 'perfev.counter { "page-faults", optional = true }', "'optional' belongs to one event" },
    { 'perfev.counter { { "page-faults", pid = 7 } }', "'pid' belongs to all events" },
    { 's:event { switch = true }', "switch must be a function, not true\n  try: context_switch = true" },
    { 'perfev.session { watch = { 0 } }', "watch must be a descriptor and a function" },
    { 's:event { "cpu-clock", period = 3.5 }', "^event: sample_period = 3.5: must be an integer" },
    { 's:event { "cpu-clock", freq = "99" }', "^event: freq must be a number of samples a second, not '99'" },
    { 's:event { "cpu-clock", freq = 0 }', "^event: freq = 0 takes no samples" },
    { 's:event { "cpu-clock", period = 0, sample = print }', "^event: period = 0 takes no samples" },
    { 's:event { name = "cpu-clock", sample = print }', "^event: 'sample' needs an event name\n  try: " },
    { 's:event { "cpu-clock", callchain = "no" }', "^event: callchain: unknown call chain 'no'" },
    { 's:signal("KILL", print)', "^signal: KILL cannot be caught" },
    { 'perfev.session { count = 1.5 }', "count must be an integer above 0, not 1.5" },
    { 'perfev.unpack("", { maxbytes = 1 })', "^unpack: unknown option 'maxbytes'" },
    { 'perfev.decoder { foo = 1 }', "^'foo' is not a field" },
    { 'perfev.decoder { attr = 3 }', "attr: its bytes, or an event's attr, not a number" },
    { 'perfev.session { record = "x\\0y" }', "record: a path with a NUL byte in it" },
    { 'perfev.session { input = "x\\0y" }', "input: a path with a NUL byte in it" },
    { 'perfev.open "x\\0y"', "open: a path with a NUL byte in it" },
    { 'perfev.open("x", 3)', "open: a table expected, not 3" },
    { 'perfev.open("x", { window = "x" })', "window must be an integer" },
    { 'perfev.open("x", { log = 3 })', "log must be a function" },
    { 'perfev.unpack(3)', "a string expected, not a number" },
    { 'perfev.list(3)', "a pattern is a string, not a number" },
    { 'perfev.escape(nil)', "escape: a string expected, not a nil" },
    { 'perfev.line "{foo}"', "no record has a field 'foo'" },
    { 'perfev.sim.new(3)', "sim.new: a table expected, not 3" },
    { 'perfev.picture.heatmap { foo = 3 }', "unknown option 'foo'" },
    { 'perfev.picture.histogram { buckets = { {} } }', "row 1 has no number 'count'" },
    { 'perfev.picture.timeline { spans = { {} } }', "row 1 has no number 'cpu'" },
    { 'perfev.profile { values = { { "a", unit = 3 } } }', "unit of a is a string" },
    { 'perfev.profile {}:top { limit = "x" }', "limit must be a number of 0 or more, not 'x'" },
    { 'perfev.profile {}:svg { invertd = true }', "svg: unknown option 'invertd' %(did you mean 'inverted'" },
    -- arguments
    { 'running():dispatch("x")', "dispatch: at most how many records is a whole number from 1 on, not x" },
    { 'running():dispatch(0)', "from 1 on, not 0" },
    { 'local _, ev = running() ev:period("x")', "period: a whole number expected, not x" },
    { 'local _, ev = running() ev:filter()', "filter: a string expected, not a nil" },
    { 'perfev.counter { "page-faults" }:add(3)', "a table expected, not 3" },
    { 'perfev.counter { "page-faults" }:enable("page-fautls")', "it has no event 'page%-fautls' %(did you mean 'page" },
    { 'perfev.counter { "page-faults" }:close("x")', "no event 'x'" },
    { 'perfev.counter { "page-faults" }:measure(3)', "measure: a function expected, not a number" },
    { 'perfev.counter { "page-faults" }:run()', "no command to run" },
    { 'perfev.counter { "page-faults", command = { "true" } }:wait()', "its command is held yet" },
    { 'perfev.count { by = "a" }:merge {}', "another aggregator expected, not a table" },
    { 'perfev.count { by = "a" }:merge(perfev.count { by = "b" })', "its columns are %(b%), and those here %(a%)" },
    { 'perfev.sum { unit = "us" }:merge(perfev.sum { unit = "ns" })', "its values are in ns, and those here in us" },
    { 'for _ in perfev.decoder {}:records(3) do end', "the bytes are a string, not a number" },
    { 'for _ in s:records { fields = { "foo" } } do end', "no sample has a field 'foo'" },
    { 'perfev.count {}:merge(perfev.sum {})', "^merge: it is a perfev.sum, and this is a perfev.count" },
    { 'perfev.count { by = "time", slot = "1s" }:merge(perfev.count { by = "time", slot = 2 })',
      "its times are distinguished by 2, and those here by 1s" },
    { 'perfev.unpack("", 5)', "unpack: a table expected, not 5" },
    { 'perfev.measure({}, print)', "no event is named" },
    { 'perfev.measure({ "task-clock", nope = 1 }, print)', "unknown option 'nope'" },
    { 'perfev.profile {}:walk()', "walk: a function expected, not a nil" },
    { 'perfev.profile {}:html { titel = 1 }', "html: unknown option 'titel'" },
    { 'perfev.hooks.set { close = 5 }', "hook 'close': a function expected, not a number" },
    { 'perfev.profile { time = "now" }', "time must be a number of ns, not 'now'" },
    { 'local p = perfev.profile {} p.duration = "1s" p:pprof()', "duration is a number of ns, not a string" },
    { 'perfev.profile {}:top { limit = -1 }', "limit must be a number of 0 or more, not %-1" },
    { 'perfev.profile {}:add_under({ "x", nil, "y" }, "a", 1)', "a frame is a name or a table" },
    -- a boolean counts as one value, and a list has no gap
    { 'perfev.session { strict = 1 }', "strict must be true or false, not 1" },
    { 'perfev.session { ordered = "false" }', "ordered must be true or false, not 'false'" },
    { 'perfev.session { overwrite = 0 }', "overwrite must be true or false, not 0" },
    { 'perfev.session { command = { "ls", nil, "x" } }', "command: element 2 must be a string, not nil" },
    { 'perfev.session { command = { "ls", nil, "x", nil } }', "command: element 2 must be a string, not nil" },
    { 'perfev.session { pid = { 1, nil, 3 } }', "pid: element 2 must be a number from 0 to 2%^31 %- 1, not nil" },
    { 'perfev.count { by = { nil, "comm" } }', "by: element 1 must be a string, not nil" },
    { 'perfev.count { by = { "comm", nil, "pid", nil } }', "by: element 2 must be a string" },
    { 'perfev.count { by = { key = "comm" } }', "by: 'key' is not allowed in a list" },
    { 's:event { "cpu-clock", fields = { nil, "tid" }, sample = print }', "fields: element 1 must be a string" },
    { 's:event { "cpu-clock", where = { "tid", "in", { 1, nil, 3 } }, sample = print }', "compared with .* not a nil" },
    { 's:event { "cpu-clock", optional = "no" }', "optional must be true or false, not 'no'" },
    { 's:event { "cpu-clock", symbols = 0 }', "symbols must be true or false, not 0" },
    { 's:span { start = "cs", stop = "faults", by = { "tid", nil, "cpu" }, into = perfev.hist {} }',
      "by: element 2 must be a string" },
    { 'perfev.hist_counter { "a:b", value = "args.x", unit = 5 }', "unit must be a string, not 5" },
    { 'perfev.hist_counter { "a:b", value = "args.x", low = 0.5 }', "low must be an integer, not 0.5" },
    { 'perfev.profile { values = { nil, "x" } }', "a value type is a name" },
    { 'perfev.profile { values = 5 }', "values must be a list of names" },
    -- before the start, or after the end
    { 's:close() s:start()', "it has ended; make a new one" },
    { 's:close() s:event { "cpu-clock" }', "it has ended" },
    { 's:close() s:counter { "page-faults" }', "it has ended" },
    { 's:close() s:every("1s", print)', "it has ended" },
    { 's:close() s:begin(print)', "it has ended" },
    { 's:close() s:done(print)', "it has ended" },
    { 's:close() s:signal("INT", print)', "it has ended" },
    { 's:close() s:fd()', "it has ended" },
    { 's:close() s:snapshot()', "it has ended" },
    { 's:close() s:configure {}', "already started" },
    { 'running():begin(print)', "already started" },
    { 'perfev.session {}:run()', "nothing was declared, and nothing would end it\n  try: s:event" },
    { 'local r = running() local _ = r:records() r:dispatch()', "dispatch%(%) within a loop over its records" },
    { 'local r = running() local _ = r:records() r:run()', "run%(%) within a loop over its records" },
    { 'local r = running() local _ = r:records { fields = { "tid" } } r:run()', "within a loop over its records" },
  }
  -- a dot in the place of a colon
  for what, verbs in pairs {
    ["s"] = "event every run start stop close fd dispatch records totals task counter span signal done",
    ["select(2, running())"] = "enable period filter send_signal close",
    ["perfev.counter { 'page-faults' }"] = "read enable measure add close",
    ["perfev.counter { 'page-faults' }:member()"] = "read ids close",
    ["perfev.count {}"] = "print rows merge pack svg",
    ["perfev.profile {}"] = "folded html total merge",
  } do
    for verb in verbs:gmatch "[%a_]+" do
      mistakes[#mistakes + 1] = { ("local x = %s x.%s()"):format(what, verb), verb .. "%(%) is a method: %a+:" .. verb }
    end
  end

  for _, case in ipairs(mistakes) do
    it(case[1], function()
      local s <close> = perfev.session { tid = 7 }
      local function running()
        local ev = s:event { "cpu-clock", sample = print }
        assert(s:start())
        return s, ev
      end
      local f = assert(load("local perfev, s, running = ... " .. case[1] .. " return 1", "=user"))
      local ok, why = pcall(f, perfev, s, running)
      assert.is_false(ok)
      local text = why:match "^user:1: (.*)"
      assert(text, why)
      assert.matches(case[2], text)
    end)
  end
end)

describe("the start of a session", function()
  it("refuses args on an event that is not a probe", function()
    local s <close> = perfev.session { tid = 7 }
    s:event { "page-faults", args = { "n:int" }, sample = print }
    local ok, why, code = s:start()
    assert.is_nil(ok)
    assert.matches("^event 'page%-faults': only probes accept 'args'\n  try: without", why)
    assert.equal(perfev.errno.EINVAL, code)
    assert.same({}, k:leaks())
  end)

  it("refuses to watch the descriptor of a file, with the cause", function()
    local add = k.hooks.epoll_ctl
    k.hooks.epoll_ctl = function(epfd, op, fd, ...)
      if fd == 99 then return nil, perfev.errno.EPERM end
      return add(epfd, op, fd, ...)
    end
    local s <close> = perfev.session { tid = 7, watch = { 99, print } }
    assert.matches("cannot watch descriptor 99.*\n  it belongs to a file or a directory", select(2, s:start()))
  end)
end)

describe("a thread's number", function()
  it("above the kernel's range is unknown, not truncated to its lower bits", function()
    local s <close> = perfev.session { tid = 7 }
    s:event { "cpu-clock", sample = print }
    assert(s:start())
    assert.equal(0, s:task(0).tid)
    assert.is_nil(s:task(1 << 32))
    assert.is_nil(s:task(math.mininteger))
  end)
end)
