-- The events of a machine, by name: perfev.list and perfl list.

local core = require "perfev.core"
local list = require "perfev.event.list"
local perfev = require "perfev"
local run = require "spec.support.run"
local sim = require "perfev.sim"

local EVENTS = "/sys/kernel/tracing/events/"
local FORMAT = [[
name: softirq_entry
ID: 223
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:unsigned int vec;	offset:8;	size:4;	signed:0;
	field:unsigned long flags;	offset:16;	size:8;	signed:0;

print fmt: "vec=%u [action=%s] %s", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" }), ]]
  .. [[__print_flags(( unsigned long)REC->flags & 0xff, "|", {( unsigned long)((( gfp_t)((((1UL))) << (5)))|]]
  .. [[(( gfp_t)((((1UL))) << (11)))), "GFP_ATOMIC" }, { 0x1, "A" }, { SOME, "B" })
]]

describe("perfev.list", function()
  local k
  before_each(function()
    k = sim.new { world = "amd" }
    k.files[EVENTS .. "irq/softirq_entry/id"] = "223\n"
    k.files[EVENTS .. "irq/softirq_entry/format"] = FORMAT
    k.files[EVENTS .. "irq/enable"] = "0\n"
    k.files[EVENTS .. "irq/filter"] = "none\n"
    core.hooks.set(k.hooks)
  end)
  after_each(function() core.hooks.clear() end)

  local function names(pattern)
    local found = {}
    for i, entry in ipairs(perfev.list(pattern)) do found[i] = entry.name end
    return table.concat(found, " ")
  end

  it("has names of every kind, without reading the files of events", function()
    local kinds = {}
    for _, entry in ipairs(perfev.list()) do kinds[entry.kind] = (kinds[entry.kind] or 0) + 1 end
    assert.same({ hardware = 10, software = 12, tool = 3, cache = 32, pmu = 3, raw = 5, breakpoint = 2,
      tracepoint = 8 }, kinds)
    for _, line in ipairs(k.log) do assert.is_nil(line:find("/format", 1, true) and line:find("tracing", 1, true)) end
  end)

  it("accepts a kind, a pattern, or a part of a name or alias", function()
    assert.equal("irq:softirq_entry", names "irq:*")
    assert.equal("irq:softirq_entry", names "softirq")
    assert.equal("sched:sched_wakeup", names "*:sched_w[aeiou]ke*")
    assert.equal("cpu/branch-misses/ cpu/cpu-cycles/ cpu/instructions/", names "pmu")
    assert.equal("context-switches", names "cs")
    assert.equal("mem:ADDR[/LEN][:rwx] mem:FILE:SYMBOL[/LEN][:rwx]", names "breakpoint")
    assert.equal("", names "probe")
    assert.equal("", names "nosuch*")
    assert.error_matches(function() perfev.list(7) end, "a pattern is a string")
  end)

  it("finds the event of an exact name or alias", function()
    assert.equal("irq:softirq_entry", names { name = "irq:softirq_entry" })
    assert.equal("context-switches", names { name = "cs" })
    assert.equal("cpu/cpu-cycles/", names { name = "cpu/cpu-cycles/" })
    for _, name in ipairs { "irq:softirq", "irq:enable", "irq:*", "../irq:softirq_entry", "cycle", "sched", "" } do
      assert.equal("", names { name = name })
    end
    assert.equal("tracepoint", perfev.list { name = "irq:softirq_entry" }[1].kind)
    assert.error_matches(function() perfev.list { nam = "cs" } end, "a pattern is a string")
    assert.error_matches(function() perfev.list { name = "cs", kind = "sw" } end, "a pattern is a string")
  end)

  it("returns a tracepoint's format, with the names of its fields' values", function()
    local details = list.details(perfev.list("irq:softirq_entry")[1])
    assert.same({ id = 223, print = FORMAT:match "print fmt: ([^\n]*)", fields = {
      { name = "vec", type = "unsigned int vec", values = { "0 HI", "1 TIMER" },
        kind = "number", offset = 8, size = 4, signed = false },
      { name = "flags", type = "unsigned long flags", values = { "0x820 GFP_ATOMIC", "0x1 A", "SOME B" },
        kind = "number", offset = 16, size = 8, signed = false },
    } }, details)
  end)

  it("returns the terms, formats and capabilities of a PMU's event", function()
    local details = list.details(perfev.list("cpu/cpu-cycles/")[1])
    assert.equal("event=0x76", details.terms)
    assert.same({ branches = "16" }, details.caps)
    assert.same({ name = "event", type = "config:0-7,32-35" }, details.fields[3])
  end)

  it("has no hardware events on a machine without a PMU", function()
    core.hooks.set(sim.new({ world = "vm" }).hooks)
    assert.equal("", names "hw")
    assert.equal("", names "cache")
    assert.is_truthy(names("sw"):find("cpu-clock", 1, true))
  end)

  it("works without tracefs", function()
    core.hooks.set(sim.new({ world = "locked_down" }).hooks)
    assert.equal("", names "tracepoint")
    assert.is_true(#perfev.list() > 10)
  end)
end)

describe("perfl list", function()
  local function perfl(...) return run { run.perfl, "list", ... } end

  it("prints the matching events, kind by kind", function()
    local r = perfl("sw")
    assert.equal(0, r.code)
    assert.equal("", r.err)
    assert.matches("^software events:\n  cpu%-clock\n  task%-clock\n  page%-faults OR faults\n", r.out)
  end)

  it("prints an object on each line", function()
    local r = perfl("-j", "cpu-migr")
    assert.equal('{"aliases":["migrations"],"kind":"software","name":"cpu-migrations"}\n', r.out)
  end)

  it("reports when nothing matches, and a wrong command line", function()
    local r = perfl("no-such-event")
    assert.equal(1, r.code)
    -- A user without access to tracefs gets that reason.
    assert.matches("perfl: no event matches no%-such%-event\n.*  try: ", r.err)
    r = perfl("kretprobe")
    if r.code ~= 0 then assert.matches("perfl: no event matches kretprobe\n  this kernel has no kprobe PMU", r.err) end
    r = perfl("--nonsense")
    assert.equal(2, r.code)
    assert.matches("try: perfl list %-%-help", r.err)
    assert.matches("^Usage: perfl list", perfl("--help").out)
  end)

  it("suggests the nearest name, and reports which events this machine lacks", function()
    local r = perfl "cpu-clok"
    assert.equal("perfl: no event matches cpu-clok (did you mean 'cpu-clock'?)\n  try: perfl list 'cpu-clock'\n", r.err)
    r = run((r.err:match "try: (.*)\n":gsub("^perfl", run.quote(run.perfl))))
    assert.matches("\n  cpu%-clock\n", r.out)
    r = perfl "cyclse"
    assert.equal(1, r.code)
    if perfl("cycles").code == 0 then
      assert.matches("%(did you mean 'cycles'%?%)\n  try: perfl list 'cycles'", r.err)
    else
      assert.matches("this machine has no such event %(did you mean 'cycles'%?.*\n  try: perfl doctor\n", r.err)
    end
  end)

  it("escapes bytes of the command line", function()
    assert.is_nil(perfl("\27[31m").err:find("\27", 1, true))
  end)
end)
