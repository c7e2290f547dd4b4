-- The output of perfl stat, without a kernel: the list of events, metrics, means, lines.

local sim = require "perfev.sim"
local perfev = require "perfev"
local run = require "spec.support.run"
local stat = require "perfev.tool.stat.output"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function row(name, value, fields)
  local r = { name = name, value = value, supported = true, enabled = 100, running = 100 }
  for key, v in pairs(fields or {}) do r[key] = v end
  return r
end

-- The output of f, without the last newline.
local function printed(f)
  local lines, real = {}, print
  _G.print = function(text) lines[#lines + 1] = text end -- luacheck: ignore
  local ok, why = pcall(f)
  _G.print = real -- luacheck: ignore
  assert(ok, why)
  return table.concat(lines, "\n")
end

describe("the default list of events", function()
  it("includes a CPU's stalls if the CPU has events for them", function()
    local k = sim.new { world = "amd" }
    perfev.hooks.with(k.hooks, function()
      assert.matches(",cycles,instructions,branches,", stat.default())
      k.files["/sys/bus/event_source/devices/cpu/events/stalled-cycles-frontend"] = "event=0xa9\n"
      assert.matches(",cycles,stalled%-cycles%-frontend,instructions,", stat.default())
    end)
  end)
end)

describe("a list of events", function()
  it("is parsed: names, groups, and commas of a PMU's own", function()
    assert.same({ { "a", "b:c" } }, stat.parse "a,b:c")
    assert.same({ { "a" }, { "b", "c", grouped = true }, { "d" } }, stat.parse "a,{b,c},d")
    assert.same({ { "a", grouped = true }, { "b", grouped = true } }, stat.parse "{a},{b}")
    assert.same({ { "cpu/event=0x3c,umask=1/u", "b" } }, stat.parse "cpu/event=0x3c,umask=1/u,b")
    assert.same({ { "sched/sched_switch", "b" } }, stat.parse "sched/sched_switch,b")
    assert.same({ { "cs", "b", grouped = true, text = "{cs,b}:k" } }, stat.parse "{cs,b}:k")
    assert.same({ { "x:y | cs" } }, stat.parse "x:y | cs")
    assert.same({ { "a", "b" }, { "a" }, { "a", "c" } }, stat.parse "a,b,a,a,c") -- a counter has a name once
  end)

  it("is refused in the user's own words", function()
    for text, at in pairs { ["a,,b"] = "a,,b", ["{a"] = "{a", ["{a,{b}}"] = "{a,{b}}", ["{a}b"] = "b", ["a}"] = "}" } do
      local units, why = stat.parse(text)
      assert.is_nil(units)
      assert.truthy(why:find("'" .. text .. "'", 1, true) and why:find("'" .. at .. "'", 1, true), why)
    end
    assert.is_nil(stat.parse "")
  end)
end)

describe("a metric", function()
  local function text(r, values, elapsed)
    local value, format, unit = stat.metric(r, values, elapsed or 1e9)
    return value and format:format(value):gsub("^ +", "") .. " " .. unit
  end

  it("is printed if the events it needs are counted", function()
    local values = { ["task-clock"] = 5e8, cycles = 1e9, branches = 1000, ["cache-references"] = 0 }
    assert.equal("0.500 CPUs utilized", text(row("task-clock", 5e8), values))
    assert.equal("2.000 GHz", text(row("cycles", 1e9), values))
    assert.equal("1.50  insn per cycle", text(row("instructions:u", 1.5e9), values))
    assert.equal("2.50% of all branches", text(row("branch-misses", 25), values))
    assert.equal("20.000 /sec", text(row("cache-misses", 10), values))
    assert.equal("98.000 K/sec", text(row("page-faults", 49000), values))
    assert.equal("1.000 M/sec", text(row("page-faults", 5e5), values))
    assert.equal("4.000 G/sec", text(row("page-faults", 2e9), values))
    assert.is_nil(text(row("page-faults", 49), {}))
    assert.is_nil(text(row("page-faults", nil), values))
    assert.is_nil(text(row("task-clock", 5), values, 0))
    assert.equal("25.00% frontend cycles idle", text(row("stalled-cycles-frontend", 2.5e8), values))
    local hybrid = { ["cpu_core/cycles/"] = 2e9, ["cpu_atom/cycles/"] = 1e9, ["task-clock"] = 5e8 }
    assert.equal("0.50  insn per cycle", text(row("cpu_core/instructions/u", 1e9), hybrid))
    assert.equal("4.000 GHz", text(row("cpu_core/cycles/", 2e9), hybrid))
    assert.equal("20.000 /sec", text(row("msr/tsc/", 10), hybrid))
    assert.equal("12.50% backend cycles idle", text(row("stalled-cycles-backend", 1.25e8), values))
  end)
end)

describe("the mean", function()
  it("has its standard error, absolute and in percent", function()
    local mean, off, percent = stat.spread { 1, 2, 3, 4 }
    assert.equal(2.5, mean)
    assert.is_true(math.abs(off - 0.6454972) < 1e-6)
    assert.is_true(math.abs(percent - 25.819889) < 1e-5)
    assert.same({ 7, 0, 0.0 }, { stat.spread { 7 } })
    assert.same({ 0.0, 0.0, 0 }, { stat.spread { 0, 0 } })
  end)
end)

describe("a line", function()
  local rows = {
    row("task-clock", 700000), row("page-faults:u", 49, { running = 50 }), row("cycles", nil, { supported = false }),
    row("cs", nil), row("cpu-migrations", 3, { spread = 12.345 }),
  }

  it("for people has the same columns as perf stat", function()
    assert.equal([[
              0.70 msec task-clock                       #    0.700 CPUs utilized
                49      page-faults:u                    #   70.000 K/sec                    (50.00%)
   <not supported>      cycles
     <not counted>      cs
                 3      cpu-migrations                   #    4.286 K/sec                    ( +- 12.35% )]],
      printed(function() stat.write(stat.writer(), rows, 1e6) end))
  end)

  it("of a PMU's event shows the scaled value and its unit", function()
    local joules = { scale = 2.3283064365386962890625e-10, unit = "Joules" }
    local scaled = {
      row("power/energy-pkg/", 2^33, joules), row("imc/data_read/", 32768, { scale = 1.0, unit = "MiB" }),
      row("duration_time", 12345, { unit = "ns" }), row("page-faults", 49),
    }
    assert.equal([[
              2.00 Joules power/energy-pkg/
             32768 MiB    imc/data_read/
             12345 ns     duration_time
                49        page-faults]], printed(function() stat.write(stat.writer(), scaled, 1e6) end))
    assert.equal("2.00,Joules,power/energy-pkg/,100,100.00,,",
      printed(function() stat.write(stat.writer(nil, ","), { scaled[1] }, 1e6) end))
    assert.matches('"counter%-value" : "2.000000", "unit" : "Joules"',
      printed(function() stat.write(stat.writer(true), { scaled[1] }, 1e6) end))
  end)

  it("of a CPU begins with it, and its ratios refer to that CPU's counts", function()
    local cpu0, cpu13 = { place = { kind = "cpu", name = "CPU0" } }, { place = { kind = "cpu", name = "CPU13" } }
    local two = {
      row("cycles", 2e9, cpu0), row("cycles", nil, cpu13), row("instructions", 1e9, cpu0),
      row("instructions", 3e9, cpu13), row("stalled-cycles-backend", 5e8, cpu0),
    }
    assert.equal([[
CPU0               2000000000      cycles
CPU13           <not counted>      cycles
CPU0               1000000000      instructions                     #    0.50  insn per cycle
                                                                    #    0.50  stalled cycles per insn
CPU13              3000000000      instructions
CPU0                500000000      stalled-cycles-backend           #   25.00% backend cycles idle]],
      printed(function() stat.write(stat.writer(), two, 1e6) end))
    assert.equal("CPU13,3000000000,,instructions,100,100.00,,",
      printed(function() stat.write(stat.writer(nil, ","), { two[4] }, 1e6) end))
    assert.matches('^{"cpu" : "13", "counter%-value" : "3',
      printed(function() stat.write(stat.writer(true), { two[4] }, 1e6) end))
  end)

  it("of a thread or a cgroup shows it, and its ratios refer to its own counts", function()
    local function of(comm, tid)
      return { place = { kind = "thread", name = comm .. "-" .. tid, comm = comm, tid = tid } }
    end
    local two = {
      row("cycles", 2e9, of("sh", 7)), row("cycles", 1e9, of("a,b", 8)), row("instructions", 1e9, of("a,b", 8)),
      row("cs", 3, { cgroup = "/a" }),
    }
    assert.equal([[
              sh-7                2000000000      cycles
             a,b-8                1000000000      cycles
             a,b-8                1000000000      instructions                     #    1.00  insn per cycle
                 3      cs                               /a]],
      printed(function() stat.write(stat.writer(), two, 1e6) end))
    assert.equal("sh-7,2000000000,,cycles,100,100.00,,\n3,,cs,/a,100,100.00,,",
      printed(function() stat.write(stat.writer(nil, ","), { two[1], two[4] }, 1e6) end))
    assert.matches('^{"thread" : "sh%-7", "counter%-value" : ',
      printed(function() stat.write(stat.writer(true), { two[1] }, 1e6) end))
    assert.matches('"event" : "cs", "cgroup" : "/a", "event%-runtime"',
      printed(function() stat.write(stat.writer(true), { two[4] }, 1e6) end))
  end)

  it("of the sums of all intervals says so if values are separated", function()
    local sums = { row("cs", 3) }
    assert.equal("         summary,3,,cs,100,100.00,,",
      printed(function() stat.write(stat.writer(nil, ","), sums, 1e6, "summary") end))
    assert.equal("                 3      cs", printed(function() stat.write(stat.writer(), sums, 1e6, "summary") end))
  end)

  it("of instructions is followed by the stalled cycles for each instruction", function()
    local text = printed(function()
      stat.write(stat.writer(), { row("stalled-cycles-backend", 50), row("instructions", 100) }, 1e6)
    end)
    assert.matches("\n" .. (" "):rep(57) .. "#    0%.50  stalled cycles per insn$", text)
  end)

  it("of an interval begins with its time", function()
    assert.equal("     0.100000005                 49      page-faults",
      printed(function() stat.write(stat.writer(), { row("page-faults", 49) }, 1e6, 100000005) end))
  end)

  it("of CSV has the same fields as perf stat", function()
    assert.equal("0.70;msec;task-clock;100;100.00;0.700;CPUs utilized\n49;;page-faults:u;50;50.00;70.000;K/sec\n"
      .. "<not supported>;;cycles;100;100.00;;\n<not counted>;;cs;100;100.00;;\n"
      .. "3;;cpu-migrations;12.35%;100;100.00;4.286;K/sec",
      printed(function() stat.write(stat.writer(nil, ";"), rows, 1e6) end))
    assert.matches("^0.70\tmsec\ttask%-clock\t", printed(function() stat.write(stat.writer(nil, "\\t"), rows, 1e6) end))
  end)

  it("of JSON is a valid object for any name", function()
    assert.equal('{"interval" : 0.000000007, "counter-value" : "3.000000", "unit" : "", "event" : "a\\"b", '
      .. '"event-runtime" : 100, "pcnt-running" : 100.00, "metric-value" : 0.000000, "metric-unit" : ""}',
      printed(function() stat.write(stat.writer(true), { row('a"b', 3) }, 1e6, 7) end))
  end)
end)

describe("a run of perfl stat", function()
  local k
  before_each(function()
    k = sim.new { cpus = "0" }
    perfev.hooks.set(k.hooks)
  end)
  after_each(function() perfev.hooks.clear() end)

  it("with repetitions makes an equal session for each, and one table of all", function()
    local s = perfev.session { all_cpus = true, duration = "1s" }
    local seen, taken = {}, { 10, 20, 30 }
    stat.run({ ["repeat"] = 3 }, stat.writer(nil, ","), s, function(one, finished)
      seen[#seen + 1] = one
      local n = #seen
      one:counter { "page-faults" }
      one:done(function() finished({ row("page-faults", taken[n]) }, { duration_time = 1e9 }) end)
    end)
    assert.equal("20,,page-faults,28.87%,100,100.00,,", printed(function() assert(s:run()) end))
    assert.equal(3, #seen)
    assert.same({}, k:leaks())
  end)

  it("leaves out an interrupted repetition", function()
    local going = true
    local s = perfev.session { all_cpus = true, duration = "1s" }
    s._keep_going = function() return going or "signal" end
    local seen = 0
    stat.run({ ["repeat"] = 5 }, stat.writer(nil, ","), s, function(one, finished)
      seen = seen + 1
      one:counter { "page-faults" }
      if seen == 3 then one:begin(function() going = false end) end
      local value = seen
      one:done(function() finished({ row("page-faults", value) }, { duration_time = 1e9 }) end)
    end)
    assert.matches("^2,,page%-faults,33.33%%,", printed(function() assert(s:run()) end))
    assert.equal(3, seen)
  end)

  it("prints rows in the order of the counters", function()
    local c = perfev.counter { "page-faults", { "cs", optional = true }, tid = 7 }
    local g = perfev.group { "cpu-clock", tid = 7 }
    c:member("cs").error = "no"
    local rows = stat.rows({ c, g }, "read")
    assert.same({ "page-faults", "cs", "cpu-clock" }, { rows[1].name, rows[2].name, rows[3].name })
    assert.is_false(rows[2].supported)
    assert.is_true(rows[1].supported)
    local own = perfev.counter { { "user_time", optional = "unsupported" }, { "system_time", optional = "unsupported" },
      tid = 7 }
    rows = stat.rows({ own }, "read", { duration_time = 9, user_time = 0 })
    assert.same({ true, 0, false }, { rows[1].supported, rows[1].value, rows[2].supported })
  end)

  it("prints one row for the CPUs of a core for an event with percore", function()
    k = sim.new { cpus = "0-3" }
    for cpu = 0, 3 do
      local topology = ("/sys/devices/system/cpu/cpu%d/topology/"):format(cpu)
      k.files[topology .. "physical_package_id"], k.files[topology .. "die_id"] = "1\n", "0\n"
      k.files[topology .. "core_id"] = cpu % 2 .. "\n"
    end
    perfev.hooks.with(k.hooks, function()
      local c = perfev.counter { "page-faults/percore/", "cs/percore=0/", all_cpus = true }
      c.read = function(_, cpu)
        local count = { value = 10 ^ cpu // 1 | 0, time_enabled = 5, time_running = 4, running_ratio = 0.8 }
        return { counts = { ["page-faults/percore/"] = count, ["cs/percore=0/"] = count } }
      end
      local rows, told = stat.rows({ c }, "read", {}, "cpu"), {}
      for i, r in ipairs(rows) do told[i] = ("%s %s %d %d"):format(r.place.name, r.name, r.value, r.running) end
      assert.same({ "S1-D0-C0 page-faults/percore/ 101 8", "S1-D0-C1 page-faults/percore/ 1010 8",
        "CPU0 cs/percore=0/ 1 4", "CPU1 cs/percore=0/ 10 4", "CPU2 cs/percore=0/ 100 4",
        "CPU3 cs/percore=0/ 1000 4" }, told)
      local text = printed(function() stat.write(stat.writer(nil, ","), { rows[1], rows[3] }, 1e6) end)
      assert.equal("S1-D0-C0,101,,page-faults/percore/,8,80.00,,\nCPU0,1,,cs/percore=0/,4,80.00,,", text)
      assert.matches('^{"core" : "S1%-D0%-C0", "counter',
        printed(function() stat.write(stat.writer(true), { rows[1] }, 1e6) end))
      assert.matches("^S1%-D0%-C0 +101 +page", printed(function() stat.write(stat.writer(), { rows[1] }, 1e6) end))
      c:close()
    end)
  end)

  it("adds up the CPUs of a core, die, socket and node, and prints how many they are", function()
    k = sim.new { cpus = "0-3" }
    for cpu = 0, 3 do
      local topology = ("/sys/devices/system/cpu/cpu%d/topology/"):format(cpu)
      k.files[topology .. "physical_package_id"] = cpu // 2 .. "\n"
      k.files[topology .. "die_id"], k.files[topology .. "core_id"] = "0\n", "5\n"
    end
    k.files["/sys/devices/system/node/node0/cpulist"] = "0,2-3\n"
    k.files["/sys/devices/system/node/node1/cpulist"] = "1\n"
    perfev.hooks.with(k.hooks, function()
      local c = perfev.counter { "cs", all_cpus = true }
      c.read = function(_, cpu) return { counts = { cs = { value = 10 ^ cpu // 1 | 0, time_running = 4 } } } end
      local function lines(kind, ...)
        local writer, rows = stat.writer(...), stat.rows({ c }, "read", {}, kind)
        return printed(function() stat.write(writer, rows, 1e6) end)
      end
      assert.equal("S0        2                 11      cs\nS1        2               1100      cs", lines "socket")
      assert.equal("S0-D0           2                 11      cs\nS1-D0           2               1100      cs",
        lines "die")
      assert.equal("S0-D0-C5           2                 11      cs\nS1-D0-C5           2               1100      cs",
        lines "core")
      assert.equal("N0        3               1101      cs\nN1        1                 10      cs", lines "node")
      assert.equal("N0,3,1101,,cs,12,100.00,,\nN1,1,10,,cs,4,100.00,,", lines("node", nil, ","))
      assert.matches('^{"node" : "N0", "aggregate%-number" : 3, "counter%-value" : "1101.', lines("node", true))
      c:close()
    end)
  end)

  it("prints a row for each CPU that has the event", function()
    perfev.hooks.with(sim.new().hooks, function()
      local c = perfev.counter { "page-faults", { "duration_time", optional = "unsupported" }, "cs", all_cpus = true }
      c:member("cs").found.cpus = { 1 }
      local told = {}
      for i, r in ipairs(stat.rows({ c }, "delta", { duration_time = 9 }, "cpu")) do
        told[i] = r.name .. " " .. r.place.name
      end
      assert.same({ "page-faults CPU0", "page-faults CPU1", "duration_time CPU0", "cs CPU1" }, told)
      c:close()
    end)
  end)
end)

describe("a counter that cannot be read", function()
  it("ends perfl stat with a message and status 1", function()
    local world = run.write_file(dir .. "/world.lua",
      [[return require("perfev.sim").world { { fail = "read", nth = 3, errno = "EIO" } }]])
    local r = run { run.perfl, "-q", "--sim", world, "-a", "stat", "-e", "page-faults" }
    assert.same({ 1, "stat: cannot read page-faults: Input/output error (EIO)\n" }, { r.code, r.err })
  end)
end)
