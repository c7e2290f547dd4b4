-- Acceptance: every event string has the same attr in perfev and in perf.
--
-- perf shows an attr before it asks the kernel (-vv), so strace has the kernel refuse all of
-- them: nothing is opened, and 2,300 tracepoints take as long as one. The strings are those that
-- perf list prints, the generic names that it leaves out on a machine without a PMU, and modifiers, terms
-- and breakpoints made up here.

local core = require "perfev.core"
local event = require "perfev.event.declaration"
local perfev = require "perfev"
local names = require "perfev.event.perf_names"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

-- The compared fields, by perf's names.
local fields = {
  "type", "config", "config1", "config2", "bp_type", "exclude_user", "exclude_kernel", "exclude_hv", "exclude_idle",
  "exclude_host", "exclude_guest", "precise_ip", "pinned", "exclusive",
}
local perfs_words = { ["{ bp_addr, config1 }"] = "config1", ["{ bp_len, config2 }"] = "config2" }

local function missing()
  if not run.have "perf" then return "no perf here" end
  if not run.have "strace" then return "no strace here" end
  if run({ "strace", "-o", "/dev/null", "true" }).code ~= 0 then return "strace may not trace here" end
end

local function with_defaults(attr)
  for _, field in ipairs(fields) do attr[field] = attr[field] or 0 end
  return attr
end

-- The lines of one attr, as perf -vv prints them and so do we.
local function attr_in(block)
  local attr = {}
  for line in (block .. "\n"):gmatch("%s*([^\n]*)\n") do
    local word, value = line:match("^(.-)%s+([%w|_]+)$")
    word = perfs_words[word] or word
    if word then attr[word] = math.tointeger(tonumber(value)) or value end
  end
  return with_defaults(attr)
end

local function attrs_in(text)
  local list = {}
  for block in text:gmatch("\nperf_event_attr:\n(.-)\n%-%-%-") do list[#list + 1] = attr_in(block) end
  return list
end

local function perf(answer, ...)
  return run({ "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=perf_event_open",
    "-e", "inject=perf_event_open:" .. answer, "perf", ... }, { env = { PERF_CONFIG = "/dev/null" } })
end

local function of_stat(strings)
  local args = { "stat", "-vv" }
  for _, text in ipairs(strings) do
    args[#args + 1] = "-e"
    args[#args + 1] = text
  end
  args[#args + 1] = "true"
  local r = perf("error=ENOENT", table.unpack(args))
  return attrs_in(r.out .. r.err), r.err
end

-- perf stops without the group's leader: any fake descriptor will do.
local function of_group(text)
  local r = perf("retval=1000", "stat", "-vv", "-e", text, "true")
  return attrs_in(r.out .. r.err)
end

local function of_record(text, ...)
  local words = { "record", "-o", "/dev/null", "-vv", "-e", text, ... }
  words[#words + 1] = "true"
  local r = perf("error=ENOENT", table.unpack(words))
  return attrs_in(r.out .. r.err)[1]
end

local function number(value)
  if value == true then return 1 end
  return value or 0
end

-- All that we make of a string, in order.
local function ours(text)
  local there, why = event.builds(event.declare({ text }, 1))
  if not there then return nil, why end
  local list = {}
  for _, unit in ipairs(there[1]) do
    for _, built in ipairs(unit) do
      local attr = {}
      for _, field in ipairs(fields) do attr[field] = number(built.attr[field]) end
      list[#list + 1] = attr
    end
  end
  return list
end

local function shown(attr)
  local words = {}
  for _, field in ipairs(fields) do
    if attr[field] ~= 0 then words[#words + 1] = ("%s=%#x"):format(field, attr[field]) end
  end
  return table.concat(words, " ")
end

-- Returns the strings with different attrs, each with both. counting: the highest precision is for samples only.
local function differences(strings, theirs, counting)
  local told, at = {}, 0
  for _, text in ipairs(strings) do
    local list, why = ours(text)
    if not list then told[#told + 1] = text .. ": " .. why end
    for _, attr in ipairs(list or { {} }) do
      at = at + 1
      if counting and text:find(":[%a]*P") then attr.precise_ip = 0 end
      local other = theirs[at] or with_defaults {}
      if list and shown(attr) ~= shown(other) then
        told[#told + 1] = ("%s: perf has %s, we have %s"):format(text, shown(other), shown(attr))
      end
    end
  end
  return told, at
end

-- Adds the names of probes that other users defined, which may be gone before they are used.
local function add_defined(names_of)
  for group, name in (core.slurp "/sys/kernel/tracing/dynamic_events" or ""):gmatch "%f[^\n\0]%a%d*:([^/%s]+)/(%S+)" do
    names_of[group .. ":" .. name] = true
  end
end

-- "  cpu-cycles OR cycles   [Hardware event]" -> strings by kind
local function listed()
  local kinds, defined = { tracepoints = {}, others = {} }, {}
  add_defined(defined)
  local list = run.capture("perf list --no-desc 2>/dev/null")
  add_defined(defined)
  for line in (list .. "\n"):gmatch("([^\n]*)\n") do
    local text, kind = line:match("^%s+(%S.-)%s+%[(.*)%]$")
    local taken = kind and kind:find "event"
    -- SDT: in the programs that perf keeps the build ids of, for perf probe to define first.
    for _, word in ipairs { "descriptor", "breakpoint", "SDT" } do taken = taken and not kind:find(word) end
    if taken and not defined[text] then
      local of = kind == "Tracepoint event" and kinds.tracepoints or kinds.others
      for name in (text .. " OR "):gmatch("(.-) OR ") do of[#of + 1] = name end
    end
  end
  return kinds
end

local modifiers = {
  "u", "k", "h", "uk", "uh", "kh", "ukh", "G", "H", "GH", "uG", "kH", "I", "p", "pp", "ppp", "pu", "P", "S", "W", "D",
  "e", "De", "ukhIGHpp",
}
-- Not ":r" alone: x86 cannot do it, and perfev refuses it where perf asks the kernel.
local breakpoints = {
  "mem:0x1000", "mem:0x1000:w", "mem:0x1000:rw", "mem:0x1000:x", "mem:0x1000/4:w", "mem:0x1000/8:rw",
  "mem:0x1000/1:w", "mem:0x1000/2:rw", "mem:0xffffffff81000000:x", "mem:0x1000:rw:u", "mem:0x1000/4:w:k", "mem:4096/8",
}
local others = {
  "r1a8", "r1a8:u", "rffffffff", "r10003c:k", "1:0", "0:1:u", "2:316", "3:0x10002", "L1-dcache-misses", "l1d-read",
  "l1-d-write-miss", "LLC-prefetch-misses", "L2-loads", "Data-TLB-store", "d-tlb-stores", "branch-loads",
  "btb-load-misses",
  "node-prefetches", "L1-instruction-speculative-load", "L1-icache-load-refs", "dTLB-load-ops",
}

local of_msr = {
  "msr/event=0x3/", "msr/event=3/u", "msr/config=0x5/k", "msr/config=1,config1=2,config2=0x33/", "msr/r1a8/",
  "msr/tsc,config1=7/p", "msr/tsc,name=ticks,period=5/", "msr/event=0xffffffffffffffff/",
}

describe("in perf and in perfev, an event string", function()
  local function with_perf(what, test)
    it(what, function()
      local why = missing()
      if why then return pending(why) end
      return test()
    end)
  end

  with_perf("means the same for every tracepoint that perf list prints", function()
    local tracepoints = listed().tracepoints
    if #tracepoints == 0 then pending("perf list prints no tracepoints here") end
    assert.is_true(#tracepoints >= 300, #tracepoints .. " tracepoints")
    local theirs, told = of_stat { table.concat(tracepoints, ",") }
    assert.equal(#tracepoints, #theirs, told)
    local differ, count = differences(tracepoints, theirs, true)
    assert.same({}, differ)
    print(("%d tracepoints compared with perf's"):format(count))
  end)

  with_perf("means the same for hardware, software, cache, raw and PMU events, under every name", function()
    local strings, seen = {}, {}
    for _, list in ipairs { listed().others, names.all(), others } do
      for _, text in ipairs(list) do
        if not seen[text] then strings[#strings + 1], seen[text] = text, true end
      end
    end
    if require("perfev.event.pmu").find "msr" then table.move(of_msr, 1, #of_msr, #strings + 1, strings) end
    local theirs, told = of_stat(strings)
    local differ, count = differences(strings, theirs, true)
    assert.equal(#theirs, count, told)
    assert.same({}, differ)
    print(("%d names compared with perf's"):format(count))
  end)

  with_perf("means the same with modifiers, of an event and of a group", function()
    local strings = {}
    for _, name in ipairs { "cpu-clock", "cycles", "r1a8", "L1-dcache-loads", "sched:sched_switch" } do
      for _, m in ipairs(modifiers) do strings[#strings + 1] = name .. ":" .. m end
    end
    for _, text in ipairs { "cycles/period=1000/u", "cpu-clock/name=x/k", "cycles/config1=0x5/", "cycles//pp" } do
      strings[#strings + 1] = text
    end
    local theirs, told = of_stat(strings)
    local differ, count = differences(strings, theirs, true)
    assert.equal(#theirs, count, told)
    assert.same({}, differ)
    for _, text in ipairs {
      "{cpu-clock,task-clock}", "{cpu-clock:u,task-clock}:k", "{cpu-clock:u,task-clock:p}:D",
      "{cycles,instructions:u}:G", "{cycles:p,instructions}:p", "{cycles:D,instructions}:e",
      "{cycles:k,instructions}:u", "{cycles,instructions:H}:I",
    } do
      local of_both, members = differences({ text }, of_group(text), true)
      assert.same({}, of_both)
      count = count + members
    end
    print(("%d events with modifiers compared with perf's"):format(count))
  end)

  with_perf("means the same for breakpoints", function()
    local theirs, told = of_stat(breakpoints)
    local differ, count = differences(breakpoints, theirs, true)
    assert.equal(#theirs, count, told)
    assert.same({}, differ)
    print(("%d breakpoints compared with perf's"):format(count))
  end)

  with_perf("means the same to perf record as it does to perf stat", function()
    local strings = { "msr/tsc/", "dummy", "bpf-output", "page-faults", "mem:0x1000:rw", "sched:sched_switch" }
    for _, m in ipairs(modifiers) do strings[#strings + 1] = "cpu-clock:" .. m end
    for _, text in ipairs(strings) do
      assert.same({}, (differences({ text }, { of_record(text) })))
    end
    print(("%d events compared with perf record's"):format(#strings))
  end)
end)

-- The fields that terms set, by perf's names; of sample_type and branch_sample_type the bits below.
local decided = { "pace", "freq", "inherit", "sample_max_stack", "sample_regs_user", "sample_stack_user",
                  "exclude_callchain_user", "write_backward", "aux_output" }
local decided_bits = {
  sample_type = { "TIME", "CALLCHAIN", "BRANCH_STACK", "REGS_USER", "STACK_USER", "READ", "RAW" },
  branch_sample_type = { "USER", "KERNEL", "HV", "ANY", "ANY_CALL", "ANY_RETURN", "COND", "CALL_STACK", "NO_FLAGS",
                         "NO_CYCLES" },
}

-- An attr's lines -> "inherit=1 sample_type=TIME|CALLCHAIN …"
local function decisions(attr)
  local words = {}
  attr.pace = attr["{ sample_period, sample_freq }"] or attr.sample_period or attr.sample_freq
  for _, field in ipairs(decided) do
    if attr[field] and attr[field] ~= 0 then words[#words + 1] = ("%s=%s"):format(field, attr[field]) end
  end
  for field, bits in pairs(decided_bits) do
    local set = {}
    for bit in tostring(attr[field] or ""):gmatch "[%w_]+" do set[bit] = true end
    for _, bit in ipairs(bits) do if set[bit] then words[#words + 1] = bit end end
  end
  table.sort(words)
  return table.concat(words, " ")
end

-- Returns perfl's output about the event that it opens, with any verb.
local function opened_by(words, text)
  local r = run({ run.perfl, table.unpack(words) })
  local name = text:gsub("%p", "%%%0")
  local block = ("\n" .. r.err):match("\nperfl: " .. name .. "\n(  .-)\n%S")
  assert(block, r.err)
  return decisions(attr_in(block))
end

-- Each with the other words of its command line.
local terms = {
  { "cpu-clock/no-inherit/" }, { "cpu-clock/inherit=0/" }, { "cpu-clock/inherit/" }, { "cpu-clock/no-inherit=0/" },
  { "cpu-clock/time=0/" }, { "cpu-clock/time/" }, { "cpu-clock/name=x.y/", name = "x.y" }, { "cpu-clock/config1=0/" },
  { "cpu-clock/max-stack=5/" }, { "cpu-clock/max-stack=5/", "-g" }, { "cpu-clock/call-graph=fp,max-stack=7/" },
  { "cpu-clock/call-graph=fp/" }, { "cpu-clock/call-graph=no/", "-g" },
  { "cpu-clock/call-graph=dwarf,stack-size=1024/" }, { "cpu-clock/call-graph=dwarf/", "-g" },
  { "cpu-clock/stack-size=1024/", "-g" },
  { "cpu-clock/period=100000/" }, { "cpu-clock/period=100000/", "-c", "50000" },
  { "cpu-clock/period=100000/", "-F", "99" }, { "cpu-clock/freq=77/", "-F", "99" }, { "cpu-clock/freq=77/", "-c", "5" },
  { "cpu-clock/freq=77,period=100000/" }, { "cpu-clock/period=100000,freq=77/" }, { "page-faults/no-overwrite/" },
  { "page-faults/period=3,no-inherit,call-graph=fp/u" }, { "sched:sched_switch/call-graph=fp,no-inherit/" },
}

-- Terms of events that this machine may lack: their attrs are made without asking it.
local of_hardware = {
  "cycles/branch_type=any/", "cycles/branch_type=u/", "cycles/branch_type=any_call/", "cycles/branch_type=any_ret/",
  "cycles/branch_type=no/", "cycles/call-graph=lbr/", "cycles/call-graph=lbr,branch_type=any/", "cycles/overwrite/",
  "cycles/aux-output/", "cycles/no-overwrite,period=7/",
}

describe("a term of an event string", function()
  local dir
  before_each(function() dir = run.tempdir() end)
  after_each(function() run.remove(dir) end)

  local function with_perf(what, test)
    it(what, function()
      requires("root", "tracefs")
      local why = missing()
      if why then return pending(why) end
      return test()
    end)
  end

  with_perf("makes perfl record open the same event as perf record, next to any other option", function()
    for _, row in ipairs(terms) do
      local text, beside = row[1], { table.unpack(row, 2) }
      local theirs = of_record(text, table.unpack(beside))
      local words = { "record", "-q", "-vv", "-o", dir .. "/d", "-e", text, table.unpack(beside) }
      table.move({ "--", "true" }, 1, 2, #words + 1, words)
      assert.equal(decisions(theirs), opened_by(words, row.name or text), table.concat(row, " "))
    end
  end)

  with_perf("has the same effect in a script's event, in profile, in top and in record", function()
    for _, row in ipairs {
      { "cpu-clock/no-inherit/", lacks = "inherit=1" }, { "cpu-clock/inherit=0/", lacks = "inherit=1" },
      { "cpu-clock/inherit/", has = "inherit=1" }, { "cpu-clock/freq=77/", has = "pace=77" },
      { "cpu-clock/period=100000/", has = "pace=100000", lacks = "freq=1" },
      { "cpu-clock/max-stack=5/", has = "sample_max_stack=5" }, { "cpu-clock/max-stack=6/", has = "CALLCHAIN" },
      { "cpu-clock/call-graph=no/", lacks = "CALLCHAIN" }, { "cpu-clock/time=0/", lacks = "TIME" },
    } do
      local text = row[1]
      local script = ("event { %q, sample = function() end }"):format(text)
      for _, words in ipairs {
        { "-q", "-vv", "-e", script, "--", "true" }, { "-q", "-vv", "profile", "-e", text, "--", "true" },
        { "-q", "-vv", "top", "-e", text, "--", "true" },
      } do
        local found = " " .. opened_by(words, text) .. " "
        local what = table.concat(words, " ")
        if row.has then assert.truthy(found:find(" " .. row.has .. " ", 1, true), what .. ": " .. found) end
        if row.lacks then assert.falsy(found:find(" " .. row.lacks .. " ", 1, true), what .. ": " .. found) end
      end
    end
  end)

  with_perf("decides in stat whether the event is inherited; sampling terms have no effect", function()
    for text, inherited in pairs {
      ["cpu-clock/no-inherit/"] = false, ["cpu-clock/inherit=0/"] = false, ["cpu-clock/inherit/"] = true,
      ["cpu-clock/period=1000,max-stack=3,call-graph=dwarf/"] = true,
    } do
      local call = run({ run.perfl, "-vv", "stat", "-e", text, "--", "true" }).err:match "perf_event_open(%b())"
      assert.equal(inherited, call:find("inherit=1", 1, true) ~= nil, text)
      assert.falsy(call:find("sample_", 1, true), call)
    end
  end)

  with_perf("of hardware has the same effect as in perf", function()
    for _, text in ipairs(of_hardware) do
      local theirs, made = of_record(text), assert(event.build(event.declare({ text }, 1)))
      theirs.inherit = nil -- decided by the session
      assert.equal(decisions(theirs), decisions(attr_in(made.attr:dump())), text)
    end
  end)
end)

describe("an event without times in its samples", function()
  local dir
  before_each(function() dir = run.tempdir() end)
  after_each(function() run.remove(dir) end)

  it("is delivered, recorded and replayed", function()
    requires("root", "perf")
    local path = dir .. "/t.data"
    local r = run { run.perfl, "record", "-q", "-F", "999", "-e", "cpu-clock/time=0/", "-e", "page-faults", "-o", path,
      "--", "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done" }
    assert.equal(0, r.code, r.err)
    local rec <close> = assert(perfev.open(path))
    local has_time, times = {}, { [true] = 0, [false] = 0 }
    for _, recorded in ipairs(rec.events) do
      for _, id in ipairs(recorded.ids) do has_time[id] = recorded.name == "page-faults" end
    end
    for sample in rec:records { user = false, types = { "sample" } } do
      assert.equal(has_time[sample.identifier], sample.time ~= nil)
      times[sample.time ~= nil] = times[sample.time ~= nil] + 1
    end
    assert.is_true(times[true] > 0 and times[false] > 0)
    local printed = run { "perf", "script", "-F", "event", "-i", path }
    assert.truthy(printed.out:find("cpu-clock/time=0/", 1, true), printed.err)
  end)
end)

describe("on this kernel", function()
  local function needs(text, spec)
    local c, why = perfev.counter(spec or { text, tid = "self", inherit = false })
    if not c then pending(why) end
    return c
  end

  it("msr/tsc/ counts, and never decreases", function()
    local c <close> = needs "msr/tsc/"
    local first = assert(c:read())["msr/tsc/"]
    local second = assert(c:read())["msr/tsc/"]
    assert.is_true(second > first and first > 0)
    assert.is_false(c:member().attr.exclude_guest)
  end)

  it("a sample of a group contains the counts of all members by their ids", function()
    local s <close> = perfev.session { command = { "sh", "-c", "while :; do :; done" } }
    local samples, wrong = 0, 0
    local ev
    ev = s:event { "{cpu-clock:u,page-faults:u}:S", freq = 1000, sample = function(r)
      local values = r.read.values
      if r.event == ev.members[2] then return end -- the faults since the last one
      samples = samples + 1
      if #values ~= 2 or values[1].value < values[2].value or values[1].id == values[2].id then wrong = wrong + 1 end
      if r.event ~= ev.members[1] then wrong = wrong + 1 end
      return samples < 20
    end }
    local ok, why, code = s:start()
    if not ok and code == perfev.errno.EINVAL then pending(why) end
    assert(ok, why)
    assert(s:run())
    assert.same({ 20, 0 }, { samples, wrong })
  end)

  it("a pattern opens one event for each tracepoint that it matches", function()
    if not run.capture "test -r /sys/kernel/tracing/events/sched/sched_switch/id && echo yes" then
      pending("no tracefs is mounted, or not for us")
    end
    local there = tonumber(run.capture "ls -d /sys/kernel/tracing/events/sched/sched_process_*/ | wc -l")
    local s <close> = perfev.session { command = { "true" } }
    local seen = {}
    local ev = s:event { "sched:sched_process_*", sample = function(r) seen[r.event.name] = true end }
    local ok, why = s:start()
    if not ok then pending(why) end
    assert.equal(there, #ev.members)
    assert(s:run())
    assert.is_true(seen["sched:sched_process_exec"])
    -- before (seen on 6.1) a task's events were gone when it came
    if requires.release() >= 6018 then assert.is_true(seen["sched:sched_process_exit"]) end
  end)
end)
