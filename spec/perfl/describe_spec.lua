-- perfl describe: what a script declares, as text and as JSON, without running its session.

local json = require "spec.support.json"
local run = require "spec.support.run"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local SCRIPT = [=[
-- sample: a script of this spec
-- perfl sample.lua   runs it
local perfev = require "perfev"
print "printed"
io.write("written\n")
io.stdout:write("out\n")
local opt = perfev.args { summary = "samples a clock",
  { "-T --top", type = "integer", default = 5, help = "rows" }, { "--all" },
  { "--slot", type = "duration", default = "10ms" }, { "--kind", choices = { "a", "b" }, required = true },
  { "files", args = "*" } }
perfev.event { "cpu-clock:u", freq = 99, sample = perfev.sum { by = { "comm", "tid" }, value = "period", unit = "ns",
  title = "time" } }
perfev.event { "raw_syscalls:sys_enter", sample = perfev.quantile { value = "args.id" } }
perfev.event { "mem:0x1000/4:w:u", sample = print, exit = print }
perfev.done(function() print "done" end)
]=]

local function path() return run.write_file(dir .. "/sample.lua", SCRIPT) end

local function describe_script(...)
  return run { run.perfl, "describe", "--sim", "unprivileged", ... }
end

describe("perfl describe -j", function()
  it("has the options, events, rights and columns of a script", function()
    local r = describe_script("-j", path(), "--kind", "a", "--", "true")
    assert.equal("", r.err)
    local found = json.decode(r.out)
    assert.same({ "sample", "samples a clock", 1 }, { found.script, found.summary, r.code })
    assert.same({ "a script of this spec", { { command = "perfl sample.lua", remark = "runs it" } } },
      { found.about, found.examples })
    assert.same({ name = "top", flags = { "-T", "--top" }, type = "integer", default = 5, help = "rows",
      metavar = "TOP" }, found.options[1])
    assert.same({ name = "all", flags = { "--all" }, type = "switch" }, found.options[2])
    assert.same({ name = "slot", flags = { "--slot" }, type = "duration", default = 10000000, metavar = "SLOT" },
      found.options[3])
    assert.same({ name = "kind", flags = { "--kind" }, type = "string", choices = { "a", "b" }, required = true,
      metavar = "KIND" }, found.options[4])
    assert.same({ name = "files", type = "string", many = true, required = true, metavar = "FILES" },
      { name = found.options[5].name, type = found.options[5].type, many = found.options[5].many,
        required = true, metavar = found.options[5].metavar })
    assert.equal("command true", found.target)
    assert.same({ "cpu-clock:u", "raw_syscalls:sys_enter", "mem:0x1000/4:w:u" },
      { found.events[1].event, found.events[2].event, found.events[3].event })
    assert.same({ "exit", "sample" }, found.events[3].callbacks)
    local attr = found.events[1].opens[1].attr
    assert.same({ 1, 99, 1 }, { attr.type, attr.sample_freq, attr.exclude_kernel })
    assert.matches("cannot be read by this user", found.events[2].missing) -- hence status 1
    assert.same({ { kind = "sum", title = "time", unit = "ns", columns = { "comm", "tid" }, values = { "value" } },
      { kind = "quantile", columns = {}, values = { "count", "avg", "p50", "p90", "p99", "p999", "max" } } },
      found.outputs)
  end)

  it("has the level of perf_event_paranoid that suffices, or the capability", function()
    local function rights(...)
      local list = {}
      for _, right in ipairs(json.decode(describe_script("-j", ...).out).rights) do
        list[#list + 1] = ("%s %s"):format(right.paranoid, right.capability)
      end
      return table.concat(list, ", ")
    end
    local function of(event, ...) return rights("-e", ("event { %s, sample = print }"):format(event), ...) end
    assert.equal("2 CAP_PERFMON", of('"cpu-clock:u"', "--", "true"))
    assert.equal("1 CAP_PERFMON", of('"cpu-clock", exclude_kernel = false', "--", "true"))
    assert.equal("0 CAP_PERFMON", of('"cpu-clock:u"', "-a"))
    assert.equal("0 CAP_PERFMON", of '"cpu-clock:u"') -- no target: the machine
    assert.equal("-1 CAP_PERFMON", of('"raw_syscalls:sys_enter"', "--", "true"))
    assert.equal("nil CAP_SYS_ADMIN", of('type = 5, bp_type = 2, bp_len = 4, bp_addr = -4096', "--", "true"))
    assert.equal("0 CAP_PERFMON", rights("stat", "-e", "cs"))
    assert.equal("2 CAP_PERFMON", rights("stat", "-e", "cs", "--", "true"))
    assert.equal("", rights("-e", "print(1)"))
    local found = json.decode(describe_script("-j", "-e", "event { 'cpu-clock', sample = print }").out)
    assert.equal(2, found.perf_event_paranoid)
  end)

  it("has the columns of tables, the values of profiles, and the text that says what is printed", function()
    local script = [[
      local opt = perfev.args { summary = "a", output = "Prints a line.", epilog = "More." }
      require "perfev.tool".table_printer { { "pid", 6 }, { "wait", 9, title = "WAIT(ms)" } }
      local p = perfev.profile { values = { { name = "time", unit = "nanoseconds" } } }
      perfev.event { "nope:none | other:none", callchain = true, sample = p:sampler {} }]]
    local found = json.decode(describe_script("-j", "-e", script).out)
    assert.same({ { kind = "table", columns = { "PID", "WAIT(ms)" }, values = {} },
      { kind = "profile", columns = { "stack" }, values = { "time" }, unit = "nanoseconds" } }, found.outputs)
    assert.same({ "Prints a line.", "More." }, { found.output, found.epilog })
    assert.matches("\noutput:\n  Prints a line.\n  table: PID, WAIT%(ms%)\n", describe_script("-e", script).out)
    assert.matches("\n\nPrints a line.\n\nMore.\n\nperfl %-%-help", run({ run.perfl, "--help", "-e", script }).out)
  end)

  it("has the rights of events that this machine lacks, as their names say", function()
    local function rights(name)
      local found = json.decode(describe_script("-j", "-e", ("event { %q, sample = print }"):format(name)).out)
      return #found.events[1].missing > 0 and found.rights[1] and found.rights[1].what or "none"
    end
    assert.same({ "a tracepoint's payload", "a uprobe", "a kprobe", "a uprobe", "none" }, { rights "nope:none",
      rights "uretprobe:/none:f", rights "kprobe:none", rights "usdt:/none:a:b", rights "nope/none/" })
  end)

  it("marks rights that only optional events need", function()
    local script = "event { 'nope:none', sample = print, optional = true }"
    local r = describe_script("-j", "-e", script, "-e", "event { switch = print }")
    assert.same({ 0, true }, { r.code, json.decode(r.out).rights[1].optional })
    assert.is_nil(json.decode(describe_script("-j", "-e", script).out).rights[1].optional) -- it has no other event
    r = describe_script("-e", "for i = 1, 2 do event { 'nope:none', sample = print, optional = i == 1 or nil } end")
    assert.matches("\nrights:\n  a tracepoint's payload: kernel.perf_event_paranoid %-1 or CAP_PERFMON\n", r.out)
  end)

  it("has the options alone if the command line is not complete, and why", function()
    local r = describe_script("-j", path())
    local found = json.decode(r.out)
    assert.equal(0, r.code)
    assert.equal(5, #found.options)
    assert.same({ {}, {}, {} }, { found.events, found.rights, found.outputs })
    assert.matches("%-%-kind", found.incomplete)
  end)

  it("reports an event that this machine lacks, with status 1", function()
    local r = describe_script("-j", "-e", "event { 'nope:none', sample = print }")
    assert.equal(1, r.code)
    assert.matches("nope:none", json.decode(r.out).events[1].missing)
  end)

  it("describes every script, except one that reads its files at once", function()
    for name in run.capture("ls scripts | grep -v diff"):gmatch "(%w+)%.lua" do
      local r = run { run.perfl, "describe", "-j", "--sim", "vm", name }
      assert(r.code <= 1 and r.err == "", name .. ": " .. r.err)
      local found = json.decode(r.out)
      assert.equal(name, found.script)
      assert.is_true(found.incomplete ~= nil or #found.events > 0, name)
    end
  end)
end)

describe("perfl describe", function()
  it("prints the same for people", function()
    local r = describe_script(path(), "--kind", "b", "--", "true")
    assert.equal("", r.err)
    assert.matches("^sample: samples a clock\noptions:\n  %-T, %-%-top TOP +integer; default 5\n      rows\n", r.out)
    assert.matches("\n  %-%-kind KIND +string; required; a, b\n", r.out)
    assert.matches("\nevents, for command true:\n  cpu%-clock:u: sample\n      cpu%-clock:u: type 1, config 0, ", r.out)
    assert.matches("\nrights:\n  watching the user side: kernel.perf_event_paranoid 2 or CAP_PERFMON\n", r.out)
    assert.matches('\noutput:\n  sum "time" in ns: comm, tid, value\n  quantile: count, avg, p50, .*, max\n$', r.out)
    assert.matches("unknown without a complete command line: [^\n]*%-%-kind[^\n]*\n$", describe_script(path()).out)
  end)

  it("names an event without a name by what it opens", function()
    local r = describe_script("-e", "event { switch = print }", "--", "true")
    assert.same({ "", 0 }, { r.err, r.code })
    assert.matches("\n  dummy: switch\n      dummy: type 1, config 9\n", r.out)
  end)

  it("runs no session, prints nothing of the script and makes no file", function()
    local out = dir .. "/out"
    local r = describe_script("-o", out, "--record", dir .. "/rec", path(), "--kind", "a")
    for _, word in ipairs { "printed", "written", "done" } do assert.is_nil(r.out:find(word, 1, true), word) end
    r = run { run.perfl, "describe", "--sim", "vm", "-o", out, path(), "--kind", "a", "--", "touch", dir .. "/touched" }
    assert.equal(0, r.code, r.err)
    for _, name in ipairs { "out", "rec", "touched" } do assert.is_nil(run.slurp(dir .. "/" .. name), name) end
  end)

  it("describes a session of the script's own, and --dry-run prints it: neither opens it", function()
    local own = run.write_file(dir .. "/own.lua", [=[
local s = require("perfev").session { pid = 1 }
s:event { "cpu-clock", sample = print }
s:run()
os.exit(9)]=])
    local r = describe_script(own)
    assert.equal("", r.err)
    assert.matches("\nevents, for [^\n]*1[^\n]*:\n  cpu%-clock: sample\n", r.out)
    r = run { run.perfl, "--sim", "unprivileged", "--dry-run", own }
    assert.same({ 0, "" }, { r.code, r.err })
    assert.matches("cpu%-clock", r.out)
  end)

  it("refuses a script that does not exist or fails, and has help", function()
    local r = run { run.perfl, "describe", "nope" }
    assert.same({ 2, "" }, { r.code, r.out })
    r = run { run.perfl, "describe" }
    assert.equal(2, r.code)
    assert.matches("no script given", r.err)
    r = run { run.perfl, "describe", "record" }
    assert.equal(2, r.code)
    assert.matches("^perfl: describe: 'record' is a part of perfl, not a script\n", r.err)
    r = describe_script("-e", "error 'broken'")
    assert.same({ 1, "" }, { r.code, r.out })
    assert.matches("broken", r.err)
    assert.matches("^Usage: perfl describe", run({ run.perfl, "describe", "--help" }).out)
  end)
end)
