-- perfl help: topics from the documents, and the manual pages of scripts, verbs and records.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local function help(...) return run { run.perfl, "help", ... } end

local function text_of(...)
  local r = help(...)
  assert.same({ "", 0 }, { r.err, r.code })
  return r.out
end

local function lines_of(command)
  local list = {}
  for line in run.capture(command):gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

-- The verbs and the scripts, as completion offers them.
local function names()
  local list = {}
  for _, line in ipairs(lines_of(run.perfl .. " completion -- ''")) do list[#list + 1] = line:match "^[^\t]+" end
  return list
end

describe("perfl help", function()
  it("lists the topics that the documents mark, the verbs, the scripts and the records", function()
    local text = text_of()
    local marks = lines_of "grep -hoP '^<!-- help: \\K[^:]*: .*(?= -->)' doc/*.md doc/api/*.md"
    assert.is_true(#marks > 20)
    for _, mark in ipairs(marks) do
      local name, summary = mark:match "^(%w+)[^:]*: (.*)$"
      assert.truthy(text:find(("\n  %-13s %s\n"):format(name, summary), 1, true), mark)
    end
    for _, name in ipairs(names()) do assert.truthy(text:find("%f[%w]" .. name .. "%f[^%w]"), name) end
    assert.matches("\nRecords: aux .-mmap2", text)
  end)

  it("prints a part of a document, by its name or another one", function()
    local text = text_of "events"
    assert.matches("\n   sched:sched_switch +a tracepoint; sched:%* and %*:%*fork%* select\n", text)
    assert.matches("\nMore: doc/events.md\n$", text)
    assert.equal(text, text_of "tracepoint")
    assert.matches("\n   uprobe:FILE:SYMBOL +the function is entered\n", text_of "uprobe")
  end)

  it("prints the fields of a record with their types", function()
    assert.matches("\n   ip +u64 +ip +instruction pointer\n", text_of "sample")
    assert.matches("\n   new_bytes +bytes +", text_of "text_poke")
  end)

  it("prints the page of a script from its declarations", function()
    local text = text_of "runqlat"
    assert.matches("^NAME\n   perfl%-runqlat %- show how long runnable tasks wait for a CPU\n", text)
    assert.matches("\nSYNOPSIS\n   perfl %[options%] runqlat %[%-%-per KEY%] .- %[command args%.%.%.%]\n", text)
    assert.matches("\n   %-%-unit UNIT\n          ns, us, ms or s. The default is us.\n", text)
    assert.matches("\nOUTPUT\n   \"run queue latency\": a histogram in us. Values: low, high, count.\n", text)
    assert.matches("\n   sched:sched_switch: records of type sample.\n", text)
    assert.matches("\nRIGHTS\n.-kernel.perf_event_paranoid of %-1 or less, or\n   CAP_PERFMON.\n", text)
    assert.matches("\nEXAMPLES\n      perfl %-a %-d 5s runqlat\n", text)
  end)

  it("has the events of the first example of a script that requires arguments", function()
    assert.matches("\nEVENTS\n   For perfl %-a %-d 5s latency runqueue:\n\n   sched:sched_switch, sched:sched_wakeup: ",
      text_of "latency")
    local text = text_of "diff" -- reads its files at once
    assert.matches("\nOPTIONS\n   BEFORE\n", text)
    assert.is_nil(text:find "\nEVENTS\n")
  end)

  it("prints the page of a script of one's own, which runs up to its session", function()
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    local path = run.write_file(dir .. "/mine.lua", [[
-- mine: shows what the help of a script is made of.
-- perfl mine.lua make   for a command
local perfev = require "perfev"
print "unseen"
perfev.args { summary = "show it", output = "Prints a line.",
  { "-n --nr", metavar = "N", type = "integer", default = 3, help = "print so many" } }
perfev.event { "cpu-clock", sample = print }
perfev.begin(function() io.open(assert(arg[0]) .. ".ran", "w") end)
]])
    local text = text_of(path)
    assert.matches("^NAME\n   perfl%-mine %- show it\n", text)
    assert.matches("\n   %-n N, %-%-nr N\n          Print so many. The default is 3.\n", text)
    assert.matches("\nOUTPUT\n   Prints a line.\n", text)
    assert.matches("\nEXAMPLES\n   For a command:\n\n      perfl mine.lua make\n", text)
    assert.is_nil(text:find "unseen")
    assert.is_nil(io.open(path .. ".ran"))
  end)

  it("prints the page of a verb", function()
    local text = text_of "cut"
    assert.matches("^NAME\n   perfl%-cut %- copy the records of a recording", text)
    assert.matches("\n   %-%-where LUA\n          Keep only records for which this Lua expression", text)
    assert.matches('\n      eval "%$%(perfl completion bash%)"\n', text_of "completion")
  end)

  it("names the nearest word for an unknown one, and refuses two", function()
    local r = help "recoding"
    assert.same({ 2, "" }, { r.code, r.out })
    assert.equal("perfl: help: nothing is named 'recoding' (did you mean 'recording'?)\n  try: perfl help\n", r.err)
    assert.equal(2, help("events", "fields").code)
    assert.matches("^Usage: perfl help", text_of "--help")
  end)

  it("uses PAGER on a terminal alone", function()
    if requires.missing "program script" then return end
    local paged = run({ "script", "-qec", run.perfl .. " help fields", "/dev/null" },
      { env = { PAGER = "sed s/^/paged:/" } })
    assert.matches("^paged:Every record", paged.out)
    assert.matches("^Every record", run({ run.perfl, "help", "fields" }, { env = { PAGER = "sed s/^/paged:/" } }).out)
  end)
end)

describe("the manual pages in build/man", function()
  local function path_of(name) return ("build/man/perfl-%s.1"):format(name) end

  it("are one for each script and each verb", function()
    local expected = names()
    for i, name in ipairs(expected) do expected[i] = path_of(name) end
    table.sort(expected)
    assert.same(expected, lines_of "ls build/man/*.1")
  end)

  it("do not depend on the machine or the run", function()
    for _, name in ipairs { "kmem", "strace", "merge" } do -- the first two declare events in the order of pairs()
      assert.equal(run.slurp(path_of(name)), text_of("--man", name))
    end
  end)

  it("are at most 80 columns wide, and groff has no warning", function()
    if requires.missing "program groff" then return end
    local r = run "groff -ww -man -Tutf8 -rLL=80n -P-cbou build/man/*.1"
    assert.equal("", r.err)
    for line in r.out:gmatch "[^\n]+" do assert(utf8.len(line) <= 80, line) end
    assert.matches(" perfl %-m 64K flightrec syscalls:sys_enter_openat \\\n +syscalls:sys_exit_openat %-%- ls\n", r.out)
    assert.matches("'comm == \"make\"'", r.out)
  end)
end)
