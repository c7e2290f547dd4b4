-- The stack scripts on the simulated kernel: known stacks, exact numbers; and versions with Lua callbacks, which print
-- the same.

local elf = require "spec.support.elf"
local perfdata = require "spec.support.perfdata"
local protobuf = require "spec.support.protobuf"
local run = require "spec.support.run"

-- The beginning of every world: three kernel functions, three tasks, and short names for records.
local opening = [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", tasks = { [7] = "app", [8] = "helper", [9] = "disk" }, files = {
  ["/proc/kallsyms"] = "ffffffff81000100 t leaf\nffffffff81000200 T middle\nffffffff81000300 T root\n",
} }
local LEAF, MIDDLE, ROOT = 0xffffffff81000110, 0xffffffff81000210, 0xffffffff81000310
local function sample(pid, event, stack, more)
  local t = { type = "sample", pid = pid, tid = pid, event = event, ip = stack[1],
              callchain = { -128, table.unpack(stack) } } -- PERF_CONTEXT_KERNEL
  for name, value in pairs(more or {}) do t[name] = value end
  return t
end
local function switch(pid, out, preempt)
  return { type = "switch", pid = pid, tid = pid, out = out, preempt = preempt }
end
local function at(ms, cpu, record) k:after(ms .. "ms", function() k:ring(cpu):push(record) end) end
]]

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- perfl --sim WORLD WORDS...
local function on(world, ...)
  local path = dir .. "/world.lua"
  local file <close> = assert(io.open(path, "w"))
  file:write(opening, world, "\nreturn k\n")
  file:close()
  return run { run.perfl, "-q", "--sim", path, ... }
end

-- perfl --sim WORLD -a WORDS... -> its output
local function output_of(world, ...)
  local r = on(world, "-a", ...)
  assert.same({ 0, "" }, { r.code, r.err })
  return r.out
end

local function refused(why, ...)
  local r = run { run.perfl, ... }
  assert.same({ 2, "" }, { r.code, r.out })
  assert.matches(why, r.err, 1, true)
end

describe("faultstacks", function()
  local world = [[
    local MINOR, MAJOR = { type = 1, config = 5 }, { type = 1, config = 6 }
    for i = 1, 3 do at(10 * i, i % 2, sample(7, MINOR, { LEAF, ROOT })) end
    at(50, 0, sample(7, MINOR, { MIDDLE, ROOT }))
    at(60, 1, sample(8, MAJOR, { LEAF, ROOT }))]]

  it("counts both kinds by stack, and each kind separately", function()
    local minor = "app;root_[k];leaf_[k] 3\napp;root_[k];middle_[k] 1\n"
    local major = "helper;root_[k];leaf_[k] 1\n"
    assert.equal(minor .. major, output_of(world, "faultstacks", "-f", "folded"))
    assert.equal(minor, output_of(world, "faultstacks", "--minor", "-f", "folded"))
    assert.equal(major, output_of(world, "faultstacks", "--major", "-f", "folded"))
    assert.matches("\n +4 +80.0%% +4 +80.0%%  leaf %[kernel%]\n", output_of(world, "faultstacks", "-f", "top"))
  end)

  it("refuses contradictory options", function()
    refused("faultstacks: --major or --minor, not both", "faultstacks", "--major", "--minor", "--", "true")
    refused("faultstacks: --user or --kernel, not both", "faultstacks", "--user", "--kernel", "--", "true")
  end)
end)

-- The waits of app and helper, and their wakers: 30 and 5 ms by disk's interrupt and helper, once no waker.
local waits = [[
  local SWITCH, WAKING = { type = 1, config = 3 }, "sched:sched_waking"
  k:tracepoint("sched:sched_waking", 375, "char comm[16]; pid_t pid; int prio; int target_cpu")
  local function leaves(ms, pid, stack, preempt)
    at(ms, 0, sample(pid, SWITCH, stack))
    at(ms, 0, switch(pid, true, preempt))
  end
  local function wakes(ms, by, pid, comm, stack)
    at(ms, 1, sample(by, WAKING, stack, { args = { comm = comm, pid = pid } }))
  end
  leaves(10, 7, { MIDDLE, ROOT })
  wakes(40, 9, 7, "app", { LEAF, ROOT })
  wakes(41, 8, 7, "app", { MIDDLE, ROOT }) -- it is awake already
  at(42, 0, switch(7, false))
  leaves(50, 8, { MIDDLE, ROOT })
  wakes(55, 7, 8, "helper", { LEAF, MIDDLE, ROOT })
  at(58, 0, switch(8, false))
  leaves(60, 7, { ROOT }, true) -- preempted: back when there is room
  wakes(61, 9, 3, "stranger", { ROOT })
  wakes(62, 9, 7, "app", { ROOT }) -- it was about to sleep, and does not
  at(90, 0, switch(7, false))
  leaves(100, 7, { MIDDLE, ROOT }) -- until the end]]

describe("wakeuptime", function()
  it("assigns the time asleep to the stack that ended it", function()
    local long = "app;[woken by] disk;root_[k];leaf_[k] 30000000\n"
    local short = "helper;[woken by] app;root_[k];middle_[k];leaf_[k] 5000000\n"
    assert.equal(long .. short, output_of(waits, "wakeuptime", "-f", "folded"))
    assert.equal(long, output_of(waits, "wakeuptime", "--least", "6ms", "-f", "folded"))
  end)

  it("calls the idle task idle", function()
    local world = waits .. "\nwakes(110, 0, 7, 'app', { LEAF })"
    assert.matches("app;[woken by] idle;leaf_[k] 10000000\n", output_of(world, "wakeuptime", "-f", "folded"), 1, true)
  end)
end)

describe("offwaketime", function()
  it("joins both stacks at the wakeup, with the time until the task runs again", function()
    local long = "app;root_[k];middle_[k];--;leaf_[k];root_[k];disk 32000000\n"
    local short = "helper;root_[k];middle_[k];--;leaf_[k];middle_[k];root_[k];app 8000000\n"
    assert.equal(long .. short, output_of(waits, "offwaketime", "-f", "folded"))
    assert.equal(long, output_of(waits, "offwaketime", "--least", "10ms", "-f", "folded"))
  end)

  it("sums waits with the same stacks", function()
    local world = waits .. "\nwakes(101, 9, 7, 'app', { LEAF, ROOT }) at(103, 0, switch(7, false))"
    assert.matches("disk 35000000\n", output_of(world, "offwaketime", "-f", "folded"))
  end)
end)

describe("biostacks", function()
  -- Of three requests app's two end after 3 and 4 ms; disk's was merged, and its end is of another sector.
  local world = [[
    local fields = "unsigned int dev; unsigned long sector; unsigned int nr_sector; unsigned int bytes"
    k:tracepoint("block:BEGIN", 2102, fields)
    k:tracepoint("block:block_rq_complete", 2105, "unsigned int dev; unsigned long sector; unsigned int nr_sector")
    local function request(ms, pid, stack, sector, bytes)
      at(ms, 0, sample(pid, "block:BEGIN", stack,
        { args = { dev = 266338304, sector = sector, nr_sector = bytes // 512, bytes = bytes } }))
    end
    local function ends(ms, sector, nr_sector, dev)
      at(ms, 1, sample(0, "block:block_rq_complete", { ROOT },
        { args = { dev = dev or 266338304, sector = sector, nr_sector = nr_sector } }))
    end
    request(10, 7, { LEAF, ROOT }, 800, 4096)
    request(11, 7, { LEAF, ROOT }, 1600, 8192)
    request(12, 9, { MIDDLE, ROOT }, 4000, 512)
    ends(12, 1600, 16, 1)
    ends(13, 800, 8)
    ends(15, 1600, 24) -- with the request that was merged into it
    ends(16, 3992, 9)]]
  world = world:gsub("BEGIN", "block_io_start")

  local function values(...)
    local message = protobuf.profile(protobuf.gunzip(output_of(...)))
    local list = {}
    for i, sample in ipairs(message.samples) do
      local names = {}
      for j = #sample.frames, 1, -1 do names[#names + 1] = sample.frames[j]:match "^%S+" end
      list[i] = table.concat(names, ";") .. " " .. table.concat(sample.values, " ")
    end
    table.sort(list)
    return list, message.types
  end

  it("counts requests and their bytes by the stack that made them", function()
    local list, types = values(world, "biostacks", "-f", "pprof")
    assert.same({ "app;root;leaf 2 12288", "disk;root;middle 1 512" }, list)
    assert.same({ "requests/count", "bytes/bytes" }, types)
  end)

  it("prints the time of each request, with the bytes read or written", function()
    local list, types = values(world, "biostacks", "--time", "-f", "pprof")
    assert.same({ "app;root;leaf 7000000 2 16384" }, list)
    assert.same({ "time/nanoseconds", "requests/count", "bytes/bytes" }, types)
  end)

  it("uses the driver's event on a kernel that has no other", function()
    local older = world:gsub("block_io_start", "block_rq_issue")
    assert.same({ "app;root;leaf 7000000 2 16384" }, (values(older, "biostacks", "--time", "-f", "pprof")))
  end)

  it("requires the whole machine for times", function()
    local r = on(world, "biostacks", "--time", "--", "true")
    assert.equal(2, r.code)
    assert.matches("--time: a request ends on any CPU, outside of its task\n  try: -a\n", r.err, 1, true)
  end)
end)

describe("watch", function()
  it("counts writes by stack, and with --each shows them as they come", function()
    local world = [[
      local WRITE = { type = 5, config = 0 }
      at(10, 0, sample(7, WRITE, { LEAF, ROOT }))
      at(20, 1, sample(8, WRITE, { MIDDLE, ROOT }))
      at(30, 0, sample(7, WRITE, { LEAF, ROOT }))]]
    assert.equal("app;root_[k];leaf_[k] 2\nhelper;root_[k];middle_[k] 1\n",
      output_of(world, "watch", "0x601040/8", "-f", "folded"))
    local each = output_of(world, "watch", "0x601040/8", "--each", "-f", "folded")
    local heads = {}
    for head in each:gmatch "([^\n]+ cpu %d)\n" do heads[#heads + 1] = head end
    assert.same({ "    0.000000  app 7, cpu 0", "    0.010000  helper 8, cpu 1", "    0.020000  app 7, cpu 0" }, heads)
    assert.matches("\n3 writes of 0x601040/8\napp;root", each)
  end)

  it("accepts an address or a symbol, and reports an invalid one", function()
    refused("VARIABLE", "watch", "--", "true")
    local r = run { run.perfl, "watch", "0x601041/4", "--", "true" }
    assert.same({ 1, "" }, { r.code, r.out })
    assert.matches("0x601041 is not a multiple of the length 4", r.err, 1, true)
  end)
end)

describe("--baseline", function()
  local function lines(...) return table.concat({ ... }, "\n") .. "\n" end

  -- Two waits of app, for so many ms, and one of helper that never ends.
  local function waiting(first, second)
    return ([[
      local SWITCH = { type = 1, config = 3 }
      local function waits(from, to, pid, stack)
        at(from, 0, sample(pid, SWITCH, stack))
        at(from, 0, switch(pid, true))
        if to then at(to, 0, switch(pid, false)) end
      end
      waits(10, 10 + %d, 7, { LEAF, ROOT })
      waits(200, 200 + %d, 7, { MIDDLE, ROOT })
      waits(300, nil, 8, { MIDDLE, ROOT })]]):format(first, second)
  end
  local old, new = waiting(30, 10), waiting(30, 30)

  local function compare(world, ...)
    local r = on(world, "-a", ...)
    assert.same({ 0, "" }, { r.code, r.err })
    return r.out
  end

  local shares = lines(
    "    time     own  before  change   total  change  function",
    "30.00 ms   50.0%   75.0%   -25.0   50.0%   -25.0  leaf [kernel]",
    "30.00 ms   50.0%   25.0%   +25.0   50.0%   +25.0  middle [kernel]",
    "    0 ns    0.0%    0.0%     0.0  100.0%     0.0  app",
    "    0 ns    0.0%    0.0%     0.0  100.0%     0.0  root [kernel]",
    "60.00 ms  100.0%  100.0%     0.0                  all")

  it("compares with folded stacks, whose numbers are the script's own, in each format", function()
    local path = run.write_file(dir .. "/old.folded", output_of(old, "offcputime", "-f", "folded"))
    local function with(...) return compare(new, "offcputime", "--baseline", path, ...) end
    assert.equal(shares, with("-f", "top"))
    assert.equal(lines(
      "    time     before     change  function",
      "60.00 ms   40.00 ms  +20.00 ms  - app",
      "60.00 ms   40.00 ms  +20.00 ms    root [kernel]",
      "30.00 ms   30.00 ms       0 ns    - leaf [kernel]",
      "30.00 ms   10.00 ms  +20.00 ms    - middle [kernel]",
      "60.00 ms   40.00 ms  +20.00 ms  all"), with "--absolute")
    assert.equal("app;root_[k];leaf_[k] 30000000 30000000\napp;root_[k];middle_[k] 10000000 30000000\n",
      with("-f", "folded"))
    local html = with("-f", "html")
    assert.truthy(html:find('"title":"off CPU, since old.folded"', 1, true))
    assert.truthy(with("-f", "html", "--title", "mine"):find('"title":"mine"', 1, true))
    assert.truthy(with("-f", "html", "--absolute"):find('"absolute":true', 1, true))
    assert.truthy(with("-f", "svg"):find("leaf [kernel] (30.00 ms time, 50.0%); baseline 30.00 ms, 75.0%", 1, true))
    assert.truthy(with("-f", "json"):find('"baseline_total":40000000', 1, true))
  end)

  it("compares with a packed aggregator of the same unit", function()
    local perfev = require "perfev"
    local waits_by_stack = perfev.sum { value = "period", by = { "comm", "stack" }, unit = "ns" }
    waits_by_stack:add(30000000, "app", "root;leaf")
    waits_by_stack:add(10000000, "app", "root;middle")
    local path = run.write_file(dir .. "/old.pack", waits_by_stack:pack())
    local out = compare(new, "offcputime", "--baseline", path, "-f", "json")
    assert.matches('{"own":30000000,"own_share":0.75,[^}]*},"kind":"kernel","module":"%[kernel%]","name":"leaf"', out)
    assert.matches('"baseline_total":40000000', out, 1, true)
    path = run.write_file(dir .. "/sizes.pack", perfev.sum { value = "period", by = "comm", unit = "bytes" }:pack())
    local r = on(new, "-a", "offcputime", "--baseline", path)
    assert.same({ 1, "", ("offcputime: %s: the pack has size, and the profile time\n"):format(path) },
      { r.code, r.out, r.err })
  end)

  it("compares with a packed profile that has its value", function()
    local perfev = require "perfev"
    local before = perfev.profile { values = { "samples", { "time", unit = "ns" } } }
    before:add("app;root;leaf", 1, 30000000)
    before:add("app;root;middle", 1, 10000000)
    local path = run.write_file(dir .. "/before.pack", before:pack())
    local out = compare(new, "offcputime", "--baseline", path, "-f", "json")
    assert.matches('"baseline_total":40000000', out, 1, true)
    path = run.write_file(dir .. "/sizes.pack", perfev.profile { values = { "size", "count" } }:pack())
    local r = on(new, "-a", "offcputime", "--baseline", path)
    assert.same({ 1, "", ("offcputime: %s: the pack has size, count, and the profile time\n"):format(path) },
      { r.code, r.out, r.err })
  end)

  -- leaf has 3 of 4 events, in the baseline 1 of 4
  local scripts = {
    { "profile", "{ type = 1, config = 0 }" }, { "faultstacks", "{ type = 1, config = 5 }" },
    { "biostacks", '"block:block_io_start"' }, { "watch 0x601040/8", "{ type = 5, config = 0 }" },
  }
  for _, script in ipairs(scripts) do
    local line, event = table.unpack(script)
    it("is an option of " .. line:match "%S+", function()
      local world = ([[
        k:tracepoint("block:block_io_start", 2102, "unsigned int dev; unsigned int bytes")
        local function take(ms, stack)
          at(ms, 0, sample(7, %s, stack, { period = 1, args = { dev = 1, bytes = 512 } }))
        end
        for i = 1, 3 do take(i, { LEAF, ROOT }) end
        take(10, { MIDDLE, ROOT })]]):format(event)
      local path = run.write_file(dir .. "/before.folded", "app;root_[k];leaf_[k] 1\napp;root_[k];middle_[k] 3\n")
      local words = {}
      for word in (line .. " -f folded --baseline"):gmatch "%S+" do words[#words + 1] = word end
      words[#words + 1] = path
      assert.equal("app;root_[k];leaf_[k] 1 3\napp;root_[k];middle_[k] 3 1\n", compare(world, table.unpack(words)))
    end)
  end

  for _, script in ipairs { "wakeuptime", "offwaketime" } do
    it("is an option of " .. script, function()
      local folded = output_of(waits, script, "-f", "folded")
      local path = run.write_file(dir .. "/waits.folded", (folded:gsub(" (%d+)0\n", " %1\n")))
      assert.equal((folded:gsub(" (%d+)0\n", " %1 %10\n")), compare(waits, script, "--baseline", path, "-f", "folded"))
    end)
  end

  it("refuses a format without changes, and --absolute without a baseline", function()
    refused("offcputime: --baseline: the format pprof does not show changes\n  try: -f top, -f tree, ",
      "offcputime", "--baseline", "x", "-f", "pprof", "--", "true")
    refused("profile: --absolute compares with a baseline\n  try: --baseline FILE",
      "profile", "--absolute", "--", "true")
    refused("watch: --each or --baseline, not both", "watch", "0x8", "--each", "--baseline", "x", "--", "true")
  end)

  it("names a file that cannot be read, and runs nothing", function()
    local function fails(why, path)
      local r = on(new, "-a", "offcputime", "--baseline", path)
      assert.same({ 1, "" }, { r.code, r.out })
      assert.matches(why, r.err, 1, true)
    end
    fails("offcputime: nowhere: No such file or directory\n", "nowhere")
    fails("/bad.folded: folded stacks: line 1 does not end with a count: 'no count'\n  try: lines ",
      run.write_file(dir .. "/bad.folded", "no count\n"))
    local cut = run.write_file(dir .. "/cut.data", "PERFILE2" .. ("\0"):rep(90))
    local r = run({ run.perfl, "-q", "profile", "--baseline", cut, "--", "touch", dir .. "/ran" })
    assert.same({ 1, "" }, { r.code, r.out })
    assert.matches("profile: .*cut.data", r.err)
    assert.is_nil(run.slurp(dir .. "/ran"))
  end)
end)

describe("--baseline with a recording", function()
  local BASE, APP = 0x400000, 7

  -- Writes a program whose functions are at other addresses in each, and a recording of its events. samples:
  -- { { function, ms [, ms of the switch in] }, … }; with a second time the task leaves the CPU, without the first it
  -- was away.
  local function record(name, attr, at_address, samples)
    os.execute(("mkdir %s/%s"):format(dir, name))
    local path, address = ("%s/%s/app"):format(dir, name), {}
    local symbols = { { "main", 0x1000, 0x100 } }
    for i, symbol in ipairs { "leaf", "middle" } do
      address[symbol] = BASE + at_address + i * 0x100 + 0x10
      symbols[#symbols + 1] = { symbol, 0x1000 + at_address + i * 0x100, 0x100 }
    end
    run.write_file(path, elf.file { functions = symbols })
    attr.sample_type, attr.sample_id_all = { "identifier", "ip", "tid", "time", "cpu", "period", "callchain" }, true
    local built = perfdata.new { events = { { attr = attr, ids = { 1 }, name = "recorded" } } }
    local function trailer(ms) return { pid = APP, tid = APP, time = ms * 1000000, cpu = 0, identifier = 1 } end
    built:add { type = "comm", pid = APP, tid = APP, comm = "app", sample_id = trailer(1) }
    built:add { type = "mmap", pid = APP, tid = APP, addr = BASE, len = 0x10000, pgoff = 0x1000, filename = path,
      sample_id = trailer(2) }
    for _, one in ipairs(samples) do
      local ip, from, to = address[one[1]], one[2], one[3]
      if from then
        built:add { type = "sample", identifier = 1, pid = APP, tid = APP, time = from * 1000000, cpu = 0, period = 5,
          ip = ip, callchain = { -512, ip, BASE + 0x10 } }
      end
      if from and to then built:add { type = "switch", out = true, sample_id = trailer(from) } end
      if to and to < math.huge then built:add { type = "switch", out = false, sample_id = trailer(to) } end
    end
    built:round()
    return run.write_file(("%s/%s.data"):format(dir, name), built:file())
  end

  local function compare(later, ...)
    local r = run { run.perfl, "-q", "-i", later, ... }
    assert.same({ 0, "" }, { r.code, r.err })
    return r.out
  end

  local function switches() return { type = 1, config = 3, sample_period = 1, context_switch = true } end

  it("adds up its waits by the same script; a function is one at any address", function()
    local old = record("old", switches(), 0, { { "leaf", 10, 40 }, { "middle", 50, 60 }, { "middle", 100, math.huge } })
    -- Its first record is a switch in: the wait that the baseline left open does not end here.
    local new = record("new", switches(), 0x4000, { { nil, nil, 110 }, { "leaf", 120, 150 }, { "middle", 160, 190 } })
    local function with(...) return compare(new, "offcputime", "--baseline", old, ...) end
    assert.equal("app;main;leaf 30000000 30000000\napp;main;middle 10000000 30000000\n", with("-f", "folded"))
    assert.matches("\n30.00 ms +50.0%% +75.0%% +%-25.0 +50.0%% +%-25.0  leaf %[app%]\n", with("-f", "top"))
    -- --least is for both
    assert.equal("app;main;leaf 30000000 30000000\napp;main;middle 0 30000000\n",
      with("-f", "folded", "--least", "20ms"))
  end)

  it("counts its samples and their periods", function()
    local function clock() return { type = 1, config = 0, sample_period = 1 } end
    local old = record("slow", clock(), 0, { { "leaf", 10 }, { "middle", 11 }, { "middle", 12 }, { "middle", 13 } })
    local new = record("fast", clock(), 0x4000, { { "leaf", 10 }, { "leaf", 11 }, { "leaf", 12 }, { "middle", 13 } })
    assert.equal("samples     own  before  change   total  change  function\n"
      .. "      3   75.0%   25.0%   +50.0   75.0%   +50.0  leaf [app]\n"
      .. "      1   25.0%   75.0%   -50.0   25.0%   -50.0  middle [app]\n"
      .. "      0    0.0%    0.0%     0.0  100.0%     0.0  app\n"
      .. "      0    0.0%    0.0%     0.0  100.0%     0.0  main [app]\n"
      .. "      4  100.0%  100.0%     0.0                  all\n", compare(new, "profile", "--baseline", old))
    local html = compare(new, "profile", "--baseline", old, "-f", "html")
    -- app, main, leaf, middle; samples and time
    assert.truthy(html:find('"base":[[0,0,1,3],[0,0,5,15]]', 1, true), html:match '"base":%b[]')
    assert.truthy(html:find('"own":[[0,0,3,1],[0,0,15,5]]', 1, true), html:match '"own":%b[]')
    -- The same samples as folded stacks
    local folded = run.write_file(dir .. "/slow.folded", compare(old, "profile", "-f", "folded"))
    assert.equal(compare(new, "profile", "--baseline", old), compare(new, "profile", "--baseline", folded))
  end)

  it("compares only the numbers of samples if it has another event", function()
    local old = record("cycles", { type = 0, config = 0, sample_period = 1 }, 0, { { "leaf", 10 } })
    local new = record("clock", { type = 1, config = 0, sample_period = 1 }, 0, { { "leaf", 10 }, { "leaf", 11 } })
    local html = compare(new, "profile", "--baseline", old, "-f", "html")
    assert.truthy(html:find('"base":[[0,0,1],[0,0,0]]', 1, true), html:match '"base":%b[]')
  end)

  it("names its missing event, and one that was cut", function()
    local old = record("clocks", { type = 1, config = 0, sample_period = 1 }, 0, { { "leaf", 10 } })
    local r = run { run.perfl, "-q", "-i", old, "profile", "-e", "page-faults", "--baseline", old }
    assert.equal(1, r.code)
    local new = record("waits", switches(), 0, { { "leaf", 10, 40 } })
    r = run { run.perfl, "-q", "-i", new, "offcputime", "--baseline", old }
    assert.same({ 1, "" }, { r.code, r.out })
    assert.matches(("offcputime: %s: none of the events is in it\n  it has "):format(old), r.err, 1, true)
  end)
end)

describe("top", function()
  local world = [[
    local CLOCK = { type = 1, config = 0 }
    for i = 1, 3 do at(100 + i, i % 2, sample(7, CLOCK, { LEAF })) end
    at(110, 0, sample(0, CLOCK, { ROOT }))
    at(603, 1, sample(8, CLOCK, { MIDDLE }))
    at(1200, 0, sample(8, CLOCK, { MIDDLE }))]]

  it("prints a table for each interval without a terminal", function()
    assert.equal("cpu-clock: 4 in 1.0 s\nsamples       %  function\n      3   75.0%  leaf [kernel]\n"
      .. "      1   25.0%  middle [kernel]\n      4  100.0%  all\n"
      .. "\ncpu-clock: 1 in 0.0 s\nsamples       %  function\n      1  100.0%  middle [kernel]\n"
      .. "      1  100.0%  all\n", output_of(world, "top", "-d", "1.9s"))
  end)

  it("includes the idle task with --idle, and accepts another interval", function()
    local out = output_of(world, "top", "--idle", "-I", "5s", "-d", "2s")
    assert.matches("^cpu%-clock: 6 in 1.1 s\n.* 1   16.7%%  root %[kernel%]\n", out)
    refused("top: -I: more than 0", "top", "-I", "0", "--", "true")
    refused("top: -F: 0 or more", "top", "--frequency=-1", "--", "true")
  end)

  it("fits a terminal of 24 lines, and shows the number of omitted rows", function()
    local many = world .. [[
      local names = {}
      for i = 1, 40 do names[i] = ("%x t %s%02d\n"):format(0xffffffff82000000 + i * 256, ("f"):rep(100), i) end
      k.files["/proc/kallsyms"] = table.concat(names)
      for i = 1, 40 do at(300 + i, 0, sample(7, CLOCK, { 0xffffffff82000000 + i * 256 })) end]]
    local out, nr = output_of(many, "top", "-I", "5s", "-d", "2s"), 0
    for line in out:gmatch "[^\n]*\n" do
      nr = nr + 1
      assert.is_true(#line <= 81, line)
    end
    assert.equal(23, nr)
    assert.matches("%(%d+ others%)\n +45  100.0%%  all\n$", out)
  end)
end)

-- ---- twins ----

-- 900 random records of every type that the scripts receive, in random order.
local random = [[
  local SWITCH, WAKING = { type = 1, config = 3 }, "sched:sched_waking"
  local MINOR, MAJOR, CLOCK = { type = 1, config = 5 }, { type = 1, config = 6 }, { type = 1, config = 0 }
  local others = { MINOR, MAJOR, CLOCK, { type = 5, config = 0 } }
  local disk = "unsigned int dev; unsigned long sector; unsigned int nr_sector"
  k:tracepoint("sched:sched_waking", 375, "char comm[16]; pid_t pid; int prio; int target_cpu")
  k:tracepoint("block:block_io_start", 2102, disk .. "; unsigned int bytes")
  k:tracepoint("block:block_rq_complete", 2105, disk)
  local comms = { [7] = "app", [8] = "helper", [9] = "disk", [10] = "stranger" }
  local stacks = { { LEAF }, { LEAF, ROOT }, { MIDDLE, ROOT }, { LEAF, MIDDLE, ROOT }, { ROOT }, {} }
  math.randomseed(11)
  local any = math.random
  for ms = 1, 900 do
    local cpu, pid, stack, what = any(0, 1), ({ 0, 7, 8, 9 })[any(4)], stacks[any(#stacks)], any(100)
    local args = { dev = any(2), sector = any(9), nr_sector = any(20), bytes = any(9) * 512 }
    if what <= 35 then
      at(ms, cpu, sample(pid, SWITCH, stack))
      at(ms, cpu, switch(pid, true, any(4) == 1))
    elseif what <= 60 then
      at(ms, cpu, switch(pid, false))
    elseif what <= 80 then
      local woken = any(7, 10)
      at(ms, cpu, sample(pid, WAKING, stack, { args = { comm = comms[woken], pid = woken } }))
    elseif what <= 84 then
      at(ms, cpu, { type = "exit", pid = pid, tid = pid, ppid = 1, ptid = 1 })
    elseif what <= 90 then
      at(ms, cpu, sample(pid, others[any(#others)], stack))
    elseif what <= 95 then
      at(ms, cpu, sample(pid, "block:block_io_start", stack, { args = args }))
    else
      args.bytes = nil
      at(ms, cpu, sample(0, "block:block_rq_complete", { ROOT }, { args = args }))
    end
  end]]

-- Their common beginning, from a title and values.
local prelude = [[
local first, last
local p = profile { title = "%s", values = { %s } }
done(function()
  p.duration = last and last - first
  io.write(p:pprof())
end)
local function begin(r) first = first or r.time end
local function sampled(r) begin(r) last = r.time end
]]
local TIMES = '{ "time", unit = "ns" }, "waits"'
local NAME = 'local function name(r) return r.tid == 0 and "idle" or r.comm end '

local twins = {
  profile = { "cpu-clock", '"samples", { "time", unit = "ns" }', [[
    event { "cpu-clock", freq = 99, callchain = true, sample_type = { "period" }, sample = function(r)
      sampled(r)
      if r.tid ~= 0 then p:add_under(r.comm, r.stack, 1, r.period) end
    end }]] },
  ["watch 0x601040/8"] = { "writes of 0x601040/8", '"writes"', [[
    event { "mem:0x601040/8:w", period = 1, callchain = true, sample = function(r)
      sampled(r)
      p:add_under(r.comm, r.stack)
    end }]] },
  faultstacks = { "page faults", '"faults", "major"', [[
    for i, name in ipairs { "minor-faults | page-faults", "major-faults" } do
      event { name, period = 1, callchain = true, sample = function(r)
        sampled(r)
        p:add_under(r.comm, r.stack, 1, i - 1)
      end }
    end]] },
  ["offcputime --least 3ms"] = { "off CPU", TIMES, [[
    local waiting = {}
    event { "context-switches", period = 1, callchain = true, exclude_kernel = false, sample = function(r)
      begin(r)
      if r.tid ~= 0 then waiting[r.tid] = { comm = r.comm, stack = r.stack, since = r.time } end
    end, switch = function(r)
      local wait = waiting[r.tid]
      if r.out or not wait then return end
      waiting[r.tid], last = nil, r.time
      if r.time - wait.since >= 3000000 then p:add_under(wait.comm, wait.stack, r.time - wait.since, 1) end
    end, exit = function(r) waiting[r.tid] = nil end, fork = function(r) waiting[r.tid] = nil end }]] },
  ["wakeuptime --least 3ms"] = { "asleep", TIMES, NAME .. [[
    local asleep = {}
    event { "sched:sched_waking", callchain = true, sample = function(r, args)
      local since = asleep[args.pid]
      if not since then return end
      asleep[args.pid], last = nil, r.time
      if r.time - since < 3000000 then return end
      p:add_under({ args.comm, "[woken by] " .. name(r) }, r.stack, r.time - since, 1)
    end, switch = function(r)
      begin(r)
      if r.tid ~= 0 then asleep[r.tid] = r.out and not r.preempt and r.time or nil end
    end, exit = function(r) asleep[r.tid] = nil end }]] },
  ["offwaketime --least 3ms"] = { "off CPU", TIMES, NAME .. [[
    local waiting = {}
    local function frames(wait)
      local list, below = { wait.waker }, wait.woken_by or {}
      for i = #below, 1, -1 do list[#list + 1] = below[i] end
      list[#list + 1] = "--"
      for i = 1, #(wait.stack or {}) do list[#list + 1] = wait.stack[i] end
      return list
    end
    event { "context-switches", period = 1, callchain = true, exclude_kernel = false, sample = function(r)
      begin(r)
      if r.tid ~= 0 then waiting[r.tid] = { comm = r.comm, stack = r.stack, since = r.time } end
    end, switch = function(r)
      local wait = waiting[r.tid]
      if r.out and not r.preempt or not wait then return end
      waiting[r.tid], last = nil, r.time
      local took = r.time - wait.since
      if wait.waker and took >= 3000000 then p:add_under(wait.comm, frames(wait), took, 1) end
    end, exit = function(r) waiting[r.tid] = nil end }
    event { "sched:sched_waking", callchain = true, sample = function(r, args)
      local wait = waiting[args.pid]
      if wait and not wait.waker then wait.waker, wait.woken_by = name(r), r.stack end
    end }]] },
  biostacks = { "block requests", '"requests", { "bytes", unit = "bytes" }', [[
    event { "block:block_io_start | block:block_rq_issue", callchain = true, sample = function(r, args)
      sampled(r)
      p:add_under(r.comm, r.stack, 1, args.bytes)
    end }]] },
  ["biostacks --time"] = { "block requests", '{ "time", unit = "ns" }, "requests", { "bytes", unit = "bytes" }', [[
    local open = {}
    event { "block:block_io_start | block:block_rq_issue", callchain = true, sample = function(r, args)
      begin(r)
      open[args.dev .. " " .. args.sector] = { comm = r.comm, stack = r.stack, since = r.time }
    end }
    event { "block:block_rq_complete", sample = function(r, args)
      local key = args.dev .. " " .. args.sector
      local begun = open[key]
      if not begun then return end
      open[key], last = nil, r.time
      p:add_under(begun.comm, begun.stack, r.time - begun.since, 1, args.nr_sector << 9)
    end }]] },
}

local TOP = [[
local p, first, last, shown = perfev.profile {}, nil, nil, 0
event { "cpu-clock", callchain = true, sample_max_stack = 1, freq = 999, sample = function(r)
  if r.tid == 0 then return end
  first, last = first or r.time, r.time
  p:add(r.stack)
end }
local function show(seconds)
  io.write(shown > 0 and "\n" or "", ("cpu-clock: %d in %.1f s\n"):format(p:total(),
    seconds or first and (last - first) / 1e9 or 0), p:top { limit = 19, width = 80 })
  p, first, last, shown = perfev.profile {}, nil, nil, shown + 1
end
every(0.3, function() show(0.3) end)
done(function() if first or shown == 0 then show() end end)]]

describe("a script of stacks that counts in C prints the same as its twin with callbacks:", function()
  for words, twin in pairs(twins) do
    it(words, function()
      local list = {}
      for word in (words .. " -f pprof"):gmatch "%S+" do list[#list + 1] = word end
      local native = output_of(random, table.unpack(list))
      local text = prelude:format(twin[1], twin[2]) .. twin[3]
      assert.equal(output_of(random, "-e", text), native)
      assert.is_true(#protobuf.profile(protobuf.gunzip(native)).samples >= 4)
    end)
  end

  it("top", function()
    local native = output_of(random, "top", "-I", "300ms", "-d", "1.2s")
    assert.is_true(select(2, native:gsub("cpu%-clock: %d+ in", "")) >= 3)
    assert.equal(output_of(random, "-d", "1.2s", "-e", TOP), native)
  end)
end)
