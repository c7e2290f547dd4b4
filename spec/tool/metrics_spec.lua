-- Metrics of perfl stat: -M with perf's tables, --topdown and --metric-only, against values computed by hand.

local expression = require "perfev.tool.stat.expression"
local json = require "perfev.base.json"
local metric_output = require "perfev.tool.stat.metric_output"
local metrics = require "perfev.tool.stat.metrics"
local perfev = require "perfev"
local run = require "spec.support.run"
local sim = require "perfev.sim"
local stat = require "perfev.tool.stat.output"

local function value_of(text, values)
  local value = expression.evaluate(assert(expression.parse(text)), values or {})
  return value and ("%.15g"):format(value):gsub("^-nan", "nan") .. ""
end

describe("an expression of a metric", function()
  it("has perf's operators, with perf's precedence", function()
    for text, wanted in pairs {
      ["1 + 2 * 3"] = "7", ["(1 + 2) * 3"] = "9", ["7 - 2 - 1"] = "4", ["8 / 4 / 2"] = "1", ["-2 * 3"] = "-6",
      ["2 - -3"] = "5", ["7 % 4"] = "3", ["7.9 % 4.9"] = "3", ["-7 % 4"] = "-3", ["1 < 2"] = "1", ["2 < 1"] = "0",
      ["2 > 1"] = "1", ["1 + 1 < 3"] = "1", ["6 & 3"] = "2", ["6 | 1"] = "7", ["6 ^ 3"] = "5", ["1 | 6 & 3"] = "3",
      ["3 & 1 < 2"] = "1", ["4 ^ 6 & 2"] = "6", ["1e3"] = "1000", ["1.5e-1"] = "0.15", [".5"] = "0.5", ["2."] = "2",
      ["min(1, 2)"] = "1", ["max(1, 2 + 3)"] = "5", ["min(max(1, 4), 3)"] = "3",
      ["d_ratio(1, 4)"] = "0.25", ["d_ratio(1, 0)"] = "0", ["1 / 0"] = "nan", ["1 % 0"] = "nan", ["1 + 1 / 0"] = "nan",
      ["1 if 0 else 2"] = "2", ["1 if 3 else 2"] = "1", ["1 if 1 < 2 else 2 if 1 else 3"] = "1",
      ["1 if 0 else 2 if 0 else 3"] = "3", ["(1 if 0 else 2) * 5"] = "10", ["1 if 1 / 0 else 2"] = "1",
      ["d_ratio(1 if 0 else 8, 2)"] = "4", ["1/0 < 3"] = "0",
    } do
      assert.equal(wanted, value_of(text), text)
    end
  end)

  it("names events as perf does, with @ for / and escaped commas", function()
    local tree = expression.parse [[cpu@INST_RETIRED.ANY\,cmask\=1@ / cycles:u + L1\-dcache\-loads*min_x + cycles:u]]
    assert.same({ "cpu/INST_RETIRED.ANY,cmask=1/", "cycles:u", "L1-dcache-loads", "min_x" }, expression.events(tree))
    local values = { ["cpu/INST_RETIRED.ANY,cmask=1/"] = 6, ["cycles:u"] = 3, ["L1-dcache-loads"] = 5, min_x = 2 }
    assert.equal(6 / 3 + 5 * 2 + 3, expression.evaluate(tree, values))
    values.min_x = nil
    assert.is_nil(expression.evaluate(tree, values))
    assert.equal("2", value_of("2 if cycles else instructions", { cycles = 1 })) -- only the branch that is taken
  end)

  it("knows the number of CPUs", function()
    local k = sim.new { cpus = "0-5" }
    k.files["/sys/devices/system/cpu/smt/active"] = "1\n"
    perfev.hooks.with(k.hooks, function() assert.equal("61", value_of "#num_cpus * 10 + #smt_on") end)
  end)

  it("is refused with the place of the mistake", function()
    for text, why in pairs {
      ["1 +"] = "it ends too early", ["(1"] = "it ends too early", ["1)"] = "')' is not expected",
      [""] = "it ends too early",
      ["1 2"] = "'2' is not expected", ["min(1)"] = "')' is not expected", ["1 if 2"] = "it ends too early",
      ["a ; b"] = "';' is not expected", ["#has_pmem"] = "'#has_pmem' is not supported",
      ["* 2"] = "'* 2' is not expected",
      [("("):rep(5000)] = "too many levels", [("-"):rep(5000) .. "1"] = "too many levels",
      ["source_count(x)"] = "'(x)' is not expected", [("1+"):rep(9000) .. "1"] = "too long",
    } do
      local tree, wrong = expression.parse(text)
      assert.is_nil(tree)
      assert.truthy(wrong:find(why, 1, true), wrong)
    end
  end)
end)

describe("a table of metrics", function()
  local dir
  setup(function() dir = run.tempdir() end)
  teardown(function() run.remove(dir) end)

  local TABLE = [==[ [
    { "EventName": "NO.METRIC" },
    { "MetricName": "IPC", "MetricExpr": "instructions / cycles", "MetricGroup": "Summary;Pipe" },
    { "MetricName": "tma_retiring", "MetricExpr": "cpu@UOPS\\,umask\\=2@ / (4 * cycles)", "ScaleUnit": "100%",
      "MetricGroup": "TopdownL1" },
    { "MetricName": "tma_rest", "MetricExpr": "1 - tma_retiring", "ScaleUnit": "100%", "MetricGroup": "TopdownL1" },
    { "MetricName": "Loop", "MetricExpr": "1 + Pool" }, { "MetricName": "Pool", "MetricExpr": "Loop * 2" },
    { "MetricName": "Broken", "MetricExpr": "1 + " }, { "MetricName": "nr", "MetricExpr": "IPC + \u0037" } ] ]==]

  local function path(text) return run.write_file(dir .. "/metrics.json", text or TABLE) end

  local function read(...) return metrics.read(path(), { ... }) end

  it("has metrics by name and by group, whatever the case, each once", function()
    local found = assert(read("ipc,topdownl1", "IPC"))
    local names = {}
    for i, metric in ipairs(found) do names[i] = metric.name .. ": " .. table.concat(metric.events, " ") end
    assert.same({ "IPC: instructions cycles", "tma_retiring: cpu/UOPS,umask=2/ cycles",
      "tma_rest: cpu/UOPS,umask=2/ cycles" }, names)
    local values = { instructions = 300, cycles = 200, ["cpu/UOPS,umask=2/"] = 200 }
    assert.same({ 1.5, 25.0, 75.0 }, { metrics.value(found[1], values), metrics.value(found[2], values),
      metrics.value(found[3], values) })
    assert.same({ "%8.1f", "%  tma_rest" }, { metrics.label(found[3]) })
    assert.same({ "%8.2f", "IPC" }, { metrics.label(found[1]) })
    assert.equal(8.5, metrics.value(read("nr")[1], values))
    local hostile = metrics.read(path '[{"MetricName": "a\\u001b[2J", "MetricExpr": "1", "ScaleUnit": "1\\u001bs"}]',
      { "a\27[2J" })
    assert.same({ "%8.1f", "\\x1bs  a\\x1b[2J" }, { metrics.label(hostile[1]) })
  end)

  it("is refused with the cause", function()
    for name, why in pairs { IPX = "-M 'IPX': no such metric or group (did you mean 'IPC'?)\n  try: -M IPC",
      [",,"] = "-M: no metric is named",
      Loop = "the metric refers to itself", Broken = "-M 'Broken': '1 + ': it ends too early" } do
      local found, wrong = read(name)
      assert.is_nil(found)
      assert.truthy(wrong:find(why, 1, true), wrong)
    end
    for text, why in pairs { ["[1,"] = "is not JSON: byte 4: it ends too early", ["[]"] = "has no metrics",
      ["3"] = "has no metrics", ['[{"MetricName": 3, "MetricExpr": "1"}]'] = "has no metrics",
      ['["\\q"]'] = "byte 3: an unknown escape", ["[1] 2"] = "byte 5: the end expected" } do
      local found, wrong = metrics.read(path(text), { "x" })
      assert.is_nil(found)
      assert.truthy(wrong:find(why, 1, true), wrong)
    end
    assert.matches("cannot read '/nowhere': No such file", select(2, metrics.read("/nowhere", { "x" })))
  end)

  it("that refers to others too often is refused", function()
    local rows = { '{ "MetricName": "m0", "MetricExpr": "1" }' }
    for i = 1, 40 do
      rows[#rows + 1] = ('{ "MetricName": "m%d", "MetricExpr": "m%d + m%d" }'):format(i, i - 1, i - 1)
    end
    local found, why = metrics.read(path("[" .. table.concat(rows, ",") .. "]"), { "m40" })
    assert.is_nil(found)
    assert.matches("too many others", why)
  end)

  it("is read by perfl stat, whose events are counted", function()
    local r = run { run.perfl, "-q", "--sim", "vm", "-a", "stat", "-e", "cs", "--metrics",
      path '[{"MetricName": "Fixed", "MetricExpr": "2 * 3 + cs * 0 + page\\\\-faults * 0", "MetricGroup": "All"}]',
      "-M", "All", "-x", "," }
    assert.equal("", r.err)
    assert.matches("^%d+,,cs,[^\n]*\n%d+,,page%-faults,[^\n]*\n,,,,,6.00,Fixed\n$", r.out)
    r = run { run.perfl, "-q", "--sim", "vm", "-a", "stat", "--metrics", path(), "-M", "IPC,tma_rest" }
    assert.equal(2, r.code)
    assert.matches("UOPS", r.err) -- an event that the machine lacks, by the user's name
  end)

  it("is required by -M, and requires it", function()
    for words, why in pairs { ["-M IPC"] = "stat: -M: no metrics are known without a table\n  try: --metrics FILE",
      ["--metrics x.json"] = "stat: --metrics: no metric is chosen\n  try: -M NAME",
      ["--topdown"] = "stat: --topdown: the CPU has no topdown events\n" } do
      local list = { run.perfl, "--sim", "vm", "-a", "stat" }
      for word in words:gmatch "%S+" do list[#list + 1] = word end
      local r = run(list)
      assert.equal(2, r.code)
      assert.equal(why, r.err:sub(1, #why))
    end
  end)
end)

-- ---- topdown ----

local function topdown(...)
  local k = sim.new { world = "amd" }
  k.files["/sys/bus/event_source/devices/cpu/format/umask"] = "config:8-15\n"
  for i, name in ipairs { ... } do
    k.files["/sys/bus/event_source/devices/cpu/events/" .. name] = ("event=0x0,umask=0x%x\n"):format(i)
  end
  return perfev.hooks.with(k.hooks, metrics.topdown)
end

local function shown(list, values)
  local lines = {}
  metric_output.each({ { values = values } }, list, function(_, text, name)
    lines[#lines + 1] = name .. (text or " -")
  end)
  return lines
end

describe("--topdown", function()
  it("divides the four counts of newer CPUs by their sum, in a group that slots leads", function()
    local list, groups = topdown("slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound",
      "topdown-be-bound")
    assert.same({ { grouped = true, "cpu/slots/", "cpu/topdown-retiring/", "cpu/topdown-bad-spec/",
      "cpu/topdown-fe-bound/", "cpu/topdown-be-bound/" } }, groups)
    local values = { ["cpu/topdown-retiring/"] = 50, ["cpu/topdown-bad-spec/"] = 10, ["cpu/topdown-fe-bound/"] = 20,
      ["cpu/topdown-be-bound/"] = 120 }
    assert.equal("Retiring    25.0%, Bad Speculation     5.0%, Frontend Bound    10.0%, Backend Bound    60.0%",
      table.concat(shown(list, values), ", "))
    for name in pairs(values) do values[name] = 0 end
    assert.equal("Retiring     0.0%, Bad Speculation     0.0%, Frontend Bound     0.0%, Backend Bound     0.0%",
      table.concat(shown(list, values), ", "))
  end)

  it("computes the shares of older CPUs from slots and bubbles", function()
    local list, groups = topdown("topdown-total-slots", "topdown-slots-issued", "topdown-slots-retired",
      "topdown-fetch-bubbles", "topdown-recovery-bubbles")
    assert.is_nil(groups)
    local function of(total, issued, retired, fetch, recovery)
      return shown(list, { ["cpu/topdown-total-slots/"] = total, ["cpu/topdown-slots-issued/"] = issued,
        ["cpu/topdown-slots-retired/"] = retired, ["cpu/topdown-fetch-bubbles/"] = fetch,
        ["cpu/topdown-recovery-bubbles/"] = recovery })
    end
    -- (400 - 350 + 30) / 1000, and 1 - .35 - .08 - .2
    assert.same({ "retiring    35.0%", "bad speculation     8.0%", "frontend bound    20.0%",
      "backend bound    37.0%" }, of(1000, 400, 350, 200, 30))
    -- a small negative share is an error of measurement
    assert.same({ "retiring    41.0%", "bad speculation     0.0%", "frontend bound    59.0%",
      "backend bound     0.0%" }, of(1000, 400, 410, 590, 0))
    assert.same({ "retiring     0.0%", "bad speculation     0.0%", "frontend bound     0.0%",
      "backend bound     0.0%" }, of(0, 0, 0, 0, 0))
    assert.equal("backend bound -", of(1000, 400, 350, nil, 30)[4])
  end)

  it("is counted by perfl stat on a PMU that has the events", function()
    local dir = run.tempdir()
    local world = run.write_file(dir .. "/world.lua", [[
      local sim = require "perfev.sim"
      local counts = { [0x400] = 200, [0x8000] = 50, [0x8100] = 10, [0x8200] = 20, [0x8300] = 120 }
      local k = sim.new { world = "amd", cpus = "0-1", on_open = function(event)
        event.value = counts[event.attr.config] or 0
      end }
      local pmu = "/sys/bus/event_source/devices/cpu/"
      k.files[pmu .. "format/umask"] = "config:8-15\n"
      for name, umask in pairs { slots = 4, ["topdown-retiring"] = 0x80, ["topdown-bad-spec"] = 0x81,
                                 ["topdown-fe-bound"] = 0x82, ["topdown-be-bound"] = 0x83 } do
        k.files[pmu .. "events/" .. name] = ("event=0x00,umask=0x%x\n"):format(umask)
      end
      k:after("1s", function() end)
      return k]])
    local function output(...)
      local r = run { run.perfl, "-q", "--sim", world, "-a", "stat", "--topdown", ... }
      assert.same({ 0, "" }, { r.code, r.err })
      return r.out
    end
    assert.equal("Retiring,Bad Speculation,Frontend Bound,Backend Bound\n25.0,5.0,10.0,60.0\n", output("-x", ","))
    assert.equal("cpu,Retiring,Bad Speculation,Frontend Bound,Backend Bound\nCPU0,25.0,5.0,10.0,60.0\n"
      .. "CPU1,25.0,5.0,10.0,60.0\n", output("-x", ",", "-A"))
    assert.matches("\n +Retiring +Bad Speculation +Frontend Bound +Backend Bound\n +25.0%% +5.0%% +10.0%% +60.0%%\n",
      output())
    run.remove(dir)
  end)
end)

-- ---- output ----

local function printed(f)
  local lines, real = {}, print
  _G.print = function(text) lines[#lines + 1] = text end -- luacheck: ignore
  local ok, why = pcall(f)
  _G.print = real -- luacheck: ignore
  assert(ok, why)
  return table.concat(lines, "\n")
end

local function row(name, value, fields)
  local r = { name = name, value = value, supported = true, enabled = 100, running = 100 }
  for key, v in pairs(fields or {}) do r[key] = v end
  return r
end

local function metric(name, text, scale, unit)
  return { name = name, tree = expression.parse(text), scale = scale, unit = unit }
end

describe("the output of metrics", function()
  local list = { metric("IPC", "instructions / cycles"),
    metric("CPUs", [[task\-clock / duration_time / 1000]], 100, "%"),
    metric("none", "cycles / nothing"), metric("odd", "1 / 0") }
  local function rows()
    return { row("cycles", 2000, { id = "cycles" }), row("instructions:u", 3000, { id = "instructions" }),
      row("task-clock", 500000000), row("duration_time", 2000000000, { unit = "ns" }), row("branch-misses", 5),
      row("branches", 50) }
  end
  local function output(writer, at)
    writer.metrics = list
    return printed(function() stat.write(writer, rows(), 2e9, at) end)
  end

  it("follows the counts; clocks are in msec, times in seconds", function()
    local text = output(stat.writer())
    assert.matches("\n +#     1%.50 IPC\n +#     25%.0 %%  CPUs\n +# <not counted> none\n +#      nan odd$", text)
    assert.matches("\n,,,,,1.50,IPC\n,,,,,25.0,%%  CPUs\n,,,,,,none\n,,,,,nan,odd$", output(stat.writer(nil, ",")))
    local lines = {}
    for line in output(stat.writer(true), 5):gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.same({ ["interval"] = 5e-9, ["metric-value"] = 1.5, ["metric-unit"] = "IPC" }, json.decode(lines[7]))
    assert.equal(json.null, json.decode(lines[10])["metric-value"])
  end)

  local function only(is_json, separator, given, at)
    local writer = stat.writer(is_json, separator)
    writer.only = metric_output.only(is_json, separator, list)
    return printed(function()
      stat.write(writer, given, 2e9, at)
      if at then stat.write(writer, given, 2e9, 2 * at) end
    end)
  end

  it("has no counts with --metric-only, and the derived metrics but rates", function()
    assert.equal("                 GHz       insn per cycle  branch-misses of all branches                  IPC  "
      .. "            %  CPUs                 none                  odd\n"
      .. "               0.000                 1.50                         10.00%                 1.50  "
      .. "               25.0                                       nan", only(nil, nil, rows()))
    assert.equal("GHz,insn per cycle,branch-misses of all branches,IPC,%  CPUs,none,odd\n"
      .. "0.000,1.50,10.00,1.50,25.0,,nan", only(nil, ",", rows()))
    assert.equal("time;GHz;insn per cycle;branch-misses of all branches;IPC;%  CPUs;none;odd\n"
      .. "     1.000000000;0.000;1.50;10.00;1.50;25.0;;nan\n     2.000000000;0.000;1.50;10.00;1.50;25.0;;nan",
      only(nil, ";", rows(), 1000000000))
    local object = json.decode(only(true, nil, rows()))
    assert.same({ "1.50", "25.0", json.null }, { object.IPC, object["%  CPUs"], object.none })
  end)

  it("has a line for each CPU", function()
    local cpus = {}
    for cpu = 0, 1 do
      local place = { place = { kind = "cpu", name = "CPU" .. cpu } }
      cpus[#cpus + 1] = row("cycles", 100 * (cpu + 1), place)
      cpus[#cpus + 1] = row("instructions", 300, place)
    end
    list = { list[1] }
    assert.equal("cpu,insn per cycle,IPC\nCPU0,3.00,3.00\nCPU1,1.50,1.50", only(nil, ",", cpus))
    assert.matches("\nCPU1 +1%.50 +1%.50$", only(nil, nil, cpus))
  end)

  it("says so if the events have no metric", function()
    local r = run { run.perfl, "-q", "--sim", "vm", "-a", "stat", "-e", "cs", "--metric-only" }
    assert.matches("\n %(the events have no metric%)\n", r.out)
  end)
end)

describe("json.decode", function()
  it("reads what json.encode writes", function()
    local value = { a = { 1, 2.5, -3, true, false, "x\n\"\\é€" }, b = {}, c = json.object { d = "" } }
    local read = assert(json.decode(json.encode(value)))
    assert.same({ value.a, value.b, { d = "" } }, { read.a, read.b, read.c })
    assert.same({ "é", "😀", json.null, 1e3 }, json.decode [[ [ "\u00e9", "\ud83d\ude00", null, 1e3 ] ]])
  end)

  it("refuses other text, at its byte", function()
    for text, why in pairs { [""] = "byte 1: it ends too early", ["{a:1}"] = "byte 2: a name in quotes expected",
      ['{"a" 1}'] = "byte 5: ':' expected", ["[1 2]"] = "byte 3: ',' or ']' expected", ['"a'] = "a string does not end",
      ['"\n"'] = "a control character in a string", ['"\\u12"'] = "four hexadecimal digits expected",
      ["nul"] = "a value expected", ["-"] = "a value expected", ["[1,]"] = "a value expected",
      [("["):rep(200)] = "more than 100 levels" } do
      local value, wrong = json.decode(text)
      assert.is_nil(value)
      assert.truthy(wrong:find(why, 1, true), text .. ": " .. tostring(wrong))
    end
  end)
end)
