-- tool.latency: the options that the scripts of durations share, on the simulated kernel, with exact numbers.

local json = require "spec.support.json"
local perfev = require "perfev"
local run = require "spec.support.run"

local machine = require "spec.support.worlds" [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", cpus = "0-1", tasks = { [7] = "app", [8] = "a\"b\\c\27", [9] = "disker" },
                    types = { [0] = true, true, true, [6] = { sampling = true } } }
k:tracepoint("sched:sched_wakeup_new", 901, "char comm[16]; pid_t pid; int prio; int target_cpu")
k:tracepoint("block:block_rq_issue", 902, "u32 dev; u64 sector; unsigned int nr_sector; unsigned int bytes; "
  .. "char rwbs[10]; char comm[16]")
k:tracepoint("block:block_rq_complete", 904, "u32 dev; u64 sector; unsigned int nr_sector; int error; char rwbs[10]")
for _, name in ipairs { "softirq_entry", "softirq_exit" } do
  k:tracepoint("irq:" .. name, #name + 910, "unsigned int vec")
end
k:tracepoint("irq:irq_handler_entry", 931, "int irq; __data_loc char[] name")
k:tracepoint("irq:irq_handler_exit", 932, "int irq; int ret")
local pmu = "/sys/bus/event_source/devices/kprobe/"
k.files[pmu .. "type"], k.files[pmu .. "format/retprobe"] = "6\n", "config:0\n"
k.files["/proc/mounts"] = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
k.files["/sys/fs/cgroup/web.slice/cgroup.procs"] = "7\n"
k.inodes["/sys/fs/cgroup/web.slice"] = 70
k.files["/proc/7/cgroup"] = "1:cpu:/other\n0::/web.slice\n"
local comms = { [0] = "swapper", [7] = "app", [8] = "a\"b\\c\27", [9] = "disker" }
local function sample(us, cpu, pid, event, args)
  k:after(us * 1000, function()
    k:ring(cpu):push({ type = "sample", pid = pid, tid = pid, event = event, args = args, cgroup = pid * 10 })
  end)
end
local function switch(us, cpu, prev, state, next)
  sample(us, cpu, prev, "sched:sched_switch", { prev_comm = comms[prev], prev_pid = prev, prev_state = state,
    next_comm = comms[next], next_pid = next })
end
-- app waits 3 us in the first second and 20 us in the third; the other one 5 us in the third.
local S = 1000000
for _, wait in ipairs { { 100000, 3, 7 }, { 2 * S + 100000, 20, 7 }, { 2 * S + 200000, 5, 8 } } do
  local us, took, pid = table.unpack(wait)
  sample(us, 0, 0, "sched:sched_wakeup", { comm = comms[pid], pid = pid, prio = 0, target_cpu = 1 })
  switch(us + took, 0, 0, 0, pid)
  switch(us + took + 30, 0, pid, 1, 0)
end
sample(10, 1, 7, "raw_syscalls:sys_enter", { id = 0 }) sample(14, 1, 7, "raw_syscalls:sys_exit", { id = 0, ret = 1 })
sample(20, 1, 8, "raw_syscalls:sys_enter", { id = 1 }) sample(120, 1, 8, "raw_syscalls:sys_exit", { id = 1, ret = 1 })
sample(10, 1, 7, "block:block_rq_issue", { dev = 1, sector = 8, bytes = 512, rwbs = "R", comm = "app" })
sample(40, 1, 0, "block:block_rq_complete", { dev = 1, sector = 8, rwbs = "R" })
sample(50, 1, 7, "irq:softirq_entry", { vec = 3 }) sample(57, 1, 7, "irq:softirq_exit", { vec = 3 })
sample(60, 1, 7, "irq:irq_handler_entry", { irq = 36, name = "disk" })
sample(62, 1, 7, "irq:irq_handler_exit", { irq = 36, ret = 1 })
k:after("4500ms", function() end) -- the end
sample(70, 0, 7, { type = 6, config = 0 }) sample(79, 0, 7, { type = 6, config = 1 })
]]

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function output_of(...) return machine.output(dir, "", "-d", "5s", ...) end

-- { key = { count, sum } } of -f json; key: the column's value, or "all".
local function sums(column, ...)
  local found = {}
  for line in output_of(...):gmatch "[^\n]+" do
    local row = json.decode(line)
    if row.value then found[row[column] or "all"] = { row.value.count, row.value.sum } end
  end
  return found
end

local HEAD = "# HELP perfev_run_queue_latency_seconds run queue latency\n"
  .. "# TYPE perfev_run_queue_latency_seconds histogram\n"

local function series(text) -- the lines of a format without its prefix and the empty buckets
  return (text:gsub("perfev_run_queue_latency_seconds_", ""))
end

describe("--per", function()
  it("prints one for each name, task, process or cgroup", function()
    assert.same({ app = { 2, 23 }, ['a"b\\c\27'] = { 1, 5 } }, sums("args.next_comm", "runqlat", "--per", "comm",
      "-f", "json"))
    assert.same({ [7] = { 2, 23 }, [8] = { 1, 5 } }, sums("args.next_pid", "runqlat", "--per", "tid", "-f", "json"))
    assert.same({ [7] = { 2, 23 }, [8] = { 1, 5 } }, sums("pid", "runqlat", "--per", "pid", "-f", "json"))
    assert.same({ ["/web.slice"] = { 2, 23 }, ["(unknown)"] = { 1, 5 } },
      sums("cgroup", "runqlat", "--per", "cgroup", "-f", "json"))
    assert.same({ ["/web.slice"] = { 2, 60 }, ["[cgroup 80]"] = { 1, 30 } },
      sums("cgroup", "cpudist", "--per", "cgroup", "-f", "json"))
    assert.same({ ["/web.slice"] = { 1, 30 } },
      sums("start.cgroup", "biolatency", "--per", "cgroup", "-f", "json"))
    assert.same({ ["/web.slice"] = { 1, 9 } },
      sums("cgroup", "funclatency", "vfs_read", "--per", "cgroup", "-f", "json"))
    assert.same({ ["read /web.slice"] = { 1, 4000 }, ["write [cgroup 80]"] = { 1, 100000 } },
      sums("call", "syslat", "--per", "cgroup", "-f", "json"))
    assert.same({ ["NET_RX/1"] = { 1, 7000 } }, sums("softirq", "softirqs", "--per", "cpu", "-f", "json"))
    assert.same({ ["36:disk/1"] = { 1, 2000 } }, sums("handler", "hardirqs", "--per", "cpu", "-f", "json"))
    assert.same({ ["/web.slice"] = { 1, 4000 }, ["[cgroup 80]"] = { 1, 100000 } },
      sums("cgroup", "latency", "syscalls", "--per", "cgroup", "-f", "json"))
  end)

  it("joins no return to the call of an ended task, whose number another one has", function()
    local text = machine.output(dir, [[
      sample(90, 0, 7, { type = 6, config = 0 })
      k:after(100000, function() k:ring(0):push({ type = "exit", pid = 7, tid = 7, ppid = 1, ptid = 1 }) end)
      sample(400, 0, 7, { type = 6, config = 1 })]], "-d", "5s", "funclatency", "vfs_read")
    assert.matches("avg = 9 us, total: 9 us, count: 1", text)
  end)

  it("refuses a key that the script lacks, with those that it has", function()
    for words, keys in pairs { runqlat = "cgroup, comm, pid, tid", softirqs = "cpu" } do
      local r = run { run.perfl, "--sim", machine.path(dir, ""), "-a", words, "--per", "colour" }
      assert.same({ 2, "", ("%s: --per: 'colour' is not a key of this script\n  try: --per with one of %s\n"):format(
        words, keys) }, { r.code, r.out, r.err })
    end
  end)
end)

describe("--least", function()
  it("leaves out shorter durations, counted in C or in Lua", function()
    assert.same({ all = { 1, 20 } }, sums("", "runqlat", "--least", "6us", "-f", "json"))
    assert.same({ ["/web.slice"] = { 1, 20 } }, sums("cgroup", "runqlat", "--least", "6us", "--per", "cgroup", "-j"))
    assert.same({ write = { 1, 100000 } }, sums("call", "syslat", "--least", "4001ns", "-f", "json"))
    assert.same({ read = { 1, 4000 }, write = { 1, 100000 } }, sums("call", "syslat", "--least", "4us", "-f", "json"))
  end)
end)

describe("--interval", function()
  it("prints what was measured in each, and forgets it", function()
    local text = output_of("runqlat", "--interval", "1s")
    local counts = {}
    for from, to, body in text:gmatch "(%d+)s to (%d+)s\nrun queue latency\n(.-)\n\n" do
      local n = 0
      for count in body:gmatch "%) +(%d+) |" do n = n + tonumber(count) end
      counts[#counts + 1] = ("%s-%s: %d"):format(from, to, n)
    end
    assert.same({ "0-1: 1", "1-2: 0", "2-3: 2", "3-4: 0" }, counts)
  end)

  it("prints no further table for the rest of an interval in which nothing was measured", function()
    local r = run { run.perfl, "--sim", machine.path(dir, ""), "-a", "-d", "5s", "softirqs", "--interval", "2s" }
    assert.equal(0, r.code, r.err)
    assert.matches("2s to 4s\n[^\n]+\n$", r.out)
  end)

  it("has its limits in each object of JSON", function()
    local rows = {}
    for line in output_of("runqlat", "--interval", "1s", "--per", "tid", "-f", "json"):gmatch "[^\n]+" do
      local row = json.decode(line)
      rows[#rows + 1] = ("%d %d: %d %d"):format(row.from // 1000000000, row.to // 1000000000, row["args.next_pid"],
        row.value.sum)
    end
    assert.same({ "0 1: 7 3", "2 3: 7 20", "2 3: 8 5" }, rows)
    local first = json.decode(output_of("syslat", "--interval", "1s", "-f", "json"):match "^[^\n]+")
    assert.same({ "write", 0, 1000000000 }, { first.call, first.from, first.to })
  end)

  it("reports pairs that are incomplete once, at the end", function()
    local text = output_of("cpudist", "--off", "--interval", "1s")
    assert.matches("\n\n3s to 4s\n.*\n4s to 5s\n[^\n]*\n[^\n]*\n2 stops without a start: not counted\n"
      .. "2 starts without a stop: not counted\n$", text)
    assert.equal(2, select(2, text:gsub("not counted", "")), text)
  end)

  it("is refused with formats that are one document", function()
    for _, format in ipairs { "html", "prom" } do
      local r = run { run.perfl, "--sim", "vm", "-a", "runqlat", "--interval", "1s", "-f", format }
      assert.same({ 2, ("runqlat: --interval: %s is written once, at the end\n  try: -f text, or -f json\n"):format(
        format) }, { r.code, r.err })
    end
    assert.matches("^runqlat: %-%-interval: more than 0\n",
      run({ run.perfl, "--sim", "vm", "-a", "runqlat", "--interval", "0" }).err)
  end)
end)

describe("-f", function()
  it("prom has cumulative buckets whose le is the largest duration in them, in seconds", function()
    local text = output_of("runqlat", "-f", "prom")
    assert.equal(HEAD .. [[
bucket{le="0.000004095"} 1
bucket{le="0.000008191"} 2
bucket{le="0.000016383"} 2
bucket{le="0.000032767"} 3
bucket{le="+Inf"} 3
sum 0.000028
count 3
]], HEAD .. series(text:sub(#HEAD + 1)))
    assert.equal(HEAD, text:sub(1, #HEAD))
  end)

  it("prom and json have nothing else behind them, also of a script with a second sum", function()
    for format, last in pairs { prom = "perfev_vfs_read_seconds_count 1\n", json = "}\n" } do
      local r = run { run.perfl, "--sim", machine.path(dir, ""), "-a", "-d", "5s", "funclatency", "vfs_read", "-f",
        format }
      assert.equal(0, r.code, r.err)
      assert.equal(last, r.out:sub(-#last))
    end
  end)

  it("prom escapes labels", function()
    local text = output_of("runqlat", "--per", "comm", "-f", "prom")
    assert.truthy(text:find([[_bucket{next_comm="a\"b\\c\\x1b",le="0.000008191"} 1]], 1, true), text)
    assert.truthy(text:find([[_sum{next_comm="app"} 0.000023]], 1, true), text)
    if not run.have "promtool" then return end
    local path = dir .. "/text.prom"
    run.write_file(path, text)
    assert.equal(0, run({ "sh", "-c", "promtool check metrics < " .. path }).code)
  end)

  it("text and json have the durations of a table in their units, whatever --unit is", function()
    local script = run.write_file(dir .. "/table.lua", [=[
      local perfev = require "perfev"
      local tool = require "perfev.tool"
      local opt = perfev.args { tool.options.unit, tool.options.latency_format }
      tool.latency("table", opt, { column = "thing", name = function() return "all" end }):add(5000000, 1, "app")
      perfev.event { "dummy" }]=])
    for _, unit in ipairs { "ns", "us", "s" } do
      local function output(format)
        return run({ run.perfl, "--sim", "vm", "-q", script, "--unit", unit, "-f", format, "--", "true" }).out
      end
      assert.matches("\nall +1 +5000.0 ", output "text")
      assert.matches('"sum":5000000', output "json")
    end
  end)

  it("prom has negative times, and no label that Prometheus drops", function()
    local text = run({ run.perfl, "-q", "-e", [=[
      local h = perfev.hist { unit = "us", title = "drift", by = "args.__probe_func" }
      h:add(-5, "f")
      h:add(3, "f")
      h:print "prom"]=] }).out
    assert.truthy(text:find('_bucket{probe_func="f",le="-0.000001"} 1\n', 1, true), text)
    assert.truthy(text:find('_sum{probe_func="f"} -0.000002\n', 1, true), text)
  end)

  it("prom and html have the names of calls, kinds and disks, also of scripts that print tables", function()
    assert.truthy(output_of("syslat", "-f", "prom"):find([[
perfev_system_call_latency_seconds_bucket{start_args_id="write",le="0.000131071"} 1
perfev_system_call_latency_seconds_bucket{start_args_id="write",le="+Inf"} 1
perfev_system_call_latency_seconds_sum{start_args_id="write"} 0.0001
]], 1, true))
    assert.truthy(output_of("softirqs", "-f", "prom"):find('_sum{vec="NET_RX"} 0.000007', 1, true))
    for _, case in ipairs { { "hardirqs", "36, disk" }, { "syslat", "write" }, { "softirqs", "NET_RX" },
      { "runqlat", "run queue latency" }, { "funclatency", "vfs_read" } } do
      local html = output_of(case[1], "-f", "html", case[1] == "funclatency" and "vfs_read" or nil)
      assert.matches("^<!DOCTYPE html>", html)
      assert.truthy(html:find(case[2], 1, true), case[1])
    end
  end)

  it("json is the same as perfl -j", function()
    for _, words in ipairs { { "runqlat" }, { "cpudist" }, { "biolatency" }, { "syslat" },
      { "latency", "syscalls" } } do
      local name, word = table.unpack(words)
      assert.equal(output_of("-j", name, word), output_of(name, "-f", "json", word))
    end
  end)
end)

describe("a:print('prom')", function()
  local function printed(one)
    local lines, real = {}, print
    _G.print = function(text) lines[#lines + 1] = text end -- luacheck: ignore
    local ok, why = pcall(one.print, one, "prom")
    _G.print = real -- luacheck: ignore
    return ok and table.concat(lines, "\n") or why
  end

  it("keeps the unit of values that are not durations, and steps", function()
    local sizes = perfev.hist { by = { "le", "args.a-b" }, low = 0, high = 20, step = 10, unit = "bytes",
      title = "Sizes, of\nall", names = { le = function(key) return key .. "!" end } }
    sizes:add(3, 1, "x")
    sizes:add(25, 1, "x")
    assert.equal([[
# HELP perfev_sizes_of_all_bytes Sizes, of\\nall
# TYPE perfev_sizes_of_all_bytes histogram
perfev_sizes_of_all_bytes_bucket{by_le="1!",a_b="x",le="9"} 1
perfev_sizes_of_all_bytes_bucket{by_le="1!",a_b="x",le="19"} 1
perfev_sizes_of_all_bytes_bucket{by_le="1!",a_b="x",le="+Inf"} 2
perfev_sizes_of_all_bytes_sum{by_le="1!",a_b="x"} 28
perfev_sizes_of_all_bytes_count{by_le="1!",a_b="x"} 2]], printed(sizes))
  end)

  it("is a counter, a gauge or a summary for values of other kinds", function()
    local counts = perfev.count { by = "comm" }
    local stats = perfev.stats { by = { "comm", "time" }, unit = "us", title = "x" }
    counts:add(3, "sh")
    stats:add(1500000, "sh", 1)
    stats:add(500000, "sh", 2)
    assert.equal([[
# HELP perfev_count_by_comm_total perfev.count by comm
# TYPE perfev_count_by_comm_total counter
perfev_count_by_comm_total{comm="sh"} 3]], printed(counts))
    assert.equal([[
# HELP perfev_x_seconds x
# TYPE perfev_x_seconds summary
perfev_x_seconds_sum{comm="sh"} 2
perfev_x_seconds_count{comm="sh"} 2
# HELP perfev_x_seconds_min x
# TYPE perfev_x_seconds_min gauge
perfev_x_seconds_min{comm="sh"} 0.5
# HELP perfev_x_seconds_max x
# TYPE perfev_x_seconds_max gauge
perfev_x_seconds_max{comm="sh"} 1.5]], printed(stats))
  end)

  it("has the keys beyond max_keys, and durations of more than 292 years", function()
    local long = perfev.hist { by = "k", unit = "s", max_keys = 1 }
    long:add(1 << 40, 'a\nb')
    long:add(1, "other")
    local text = printed(long)
    assert.truthy(text:find([[_bucket{k="a\nb",le="+Inf"} 1]], 1, true), text)
    assert.truthy(text:find([[_sum{k="a\nb"} 1099511627776]], 1, true), text)
    assert.truthy(text:find([[_count{k="(other)"} 1]], 1, true), text)
  end)
end)

describe("the option names of an aggregator", function()
  it("is a function for each of some columns", function()
    for _, names in ipairs { { tid = print }, { comm = "x" } } do
      assert.error_matches(function() perfev.hist { by = "comm", names = names } end,
        "hist: names: %l+: a function for a column of 'by' expected")
    end
  end)
end)
