-- perfl prove: scripts with one mistake each, and the same scripts without it.

local json = require "spec.support.json"
local run = require "spec.support.run"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local HEAD = 'local perfev = require "perfev"\n'

-- Measures system calls; the parts in braces are replaced by the specs.
local CALLS = HEAD .. [[
local began = {}
perfev.event { "raw_syscalls:sys_enter", sample = function(r) began[r.KEY] = r.time end,
  exit = function(r) CLEAR end }
perfev.event { "raw_syscalls:sys_exit", sample = function(r)
  CHECK
  print(perfev.escape(r.comm), r.time - began[r.KEY])
  began[r.KEY] = nil
end }
]]

local function calls(parts)
  local all = { KEY = parts.KEY or "tid", CLEAR = parts.CLEAR or "began[r.tid] = nil",
    CHECK = parts.CHECK or "if not began[r.tid] then return end" }
  return (CALLS:gsub("%u%u+", all))
end

local function prove(text, ...)
  local path = run.write_file(dir .. "/mine.lua", text)
  local words = { run.perfl, "prove", "-j", ... }
  words[#words + 1] = path
  local r = run(words)
  assert.equal("", r.err)
  return json.decode(r.out), r.code
end

local function laws_of(found)
  local laws = {}
  for i, one in ipairs(found.findings) do laws[i] = one.law end
  return laws
end

local function sorted_laws(found)
  local laws = laws_of(found)
  table.sort(laws)
  return laws
end

describe("perfl prove", function()
  it("finds nothing in a script without a mistake, and lists its events, kernels and rights", function()
    local found, code = prove(calls {}, "--worlds", os.getenv "PROOFS" and "200" or "6")
    assert.same({ {}, 0 }, { laws_of(found), code })
    assert.same({ "raw_syscalls:sys_enter", "raw_syscalls:sys_exit" }, found.events)
    local kernels = {}
    for _, row in ipairs(found.kernels) do kernels[row.name] = row.result end
    assert.same({ "refused", "runs", "runs" }, { kernels["3.10"], kernels["4.4"], kernels["6.18"] }) -- no dummy event
    assert.same({ "runs", "refused" }, { found.rights[1].result, found.rights[2].result })
    assert.matches("try:", run({ run.perfl, "prove" }).err)
  end)

  it("finds an error with its line and the one record that shows it, which perfl --sim runs again", function()
    local found, code = prove(calls { CHECK = "" }, "--worlds", "6", "--keep", dir)
    local one = found.findings[1]
    assert.same({ 1, "error", 7, 1 }, { code, one.law, one.line, one.steps })
    assert.matches("arithmetic on a nil value", one.message)
    local again = run { run.perfl, "prove", "--replay", one.path, dir .. "/mine.lua" }
    assert.equal(1, again.code)
    assert.matches("^mine.lua: 1 finding in", again.out)
    local r = run { run.perfl, "--sim", one.path, "-a", dir .. "/mine.lua" }
    assert.matches("mine.lua:7: attempt to perform arithmetic on a nil value", r.err)
    run.write_file(dir .. "/mine.lua", calls {})
    assert.equal(0, run({ run.perfl, "prove", "--replay", one.path, dir .. "/mine.lua" }).code)
  end)

  it("finds a table of tasks that is never cleared, and a pid that a second task gets", function()
    local found = prove(calls { CLEAR = "" }, "--worlds", "6")
    local by_law = {}
    for _, one in ipairs(found.findings) do by_law[one.law] = one end
    assert.matches("'began' has 135%d%d%d entries", by_law.memory.message)
    assert.equal(3, by_law.memory.line)
    assert.truthy(by_law["pid reuse"])
  end)

  it("ends a task that is killed as the kernel does: its last switch comes after its exit", function()
    local turns = HEAD .. [[
local began = {}
perfev.event { "sched:sched_switch", sample = function(r, args)
  if began[args.prev_pid] then print(r.time - began[args.prev_pid]) end
  began[args.prev_pid] = nil
  began[args.next_pid] = args.next_pid ~= 0 and r.time or nil
end }]]
    assert.same({}, laws_of(prove(turns, "--worlds", "12")))
    local waits = turns:gsub("prev", "other"):gsub("next", "prev"):gsub("other", "next")
    assert.same({ "memory", "pid reuse" }, sorted_laws(prove(waits, "--worlds", "12")))
  end)

  it("notes a list of records, which grows with one task as with many", function()
    local found, code = prove(HEAD .. [[
local times = {}
perfev.event { "sched:sched_waking", sample = function(r) times[#times + 1] = { r.time } end }]], "--worlds", "2")
    assert.equal(0, code)
    assert.matches("it keeps what it shows of each record: %d+ bytes", table.concat(found.notes, "\n"))
  end)

  it("gives each program the functions that a script probes", function()
    local found = prove(HEAD .. [[
perfev.event { "uprobe:/srv:handle", sample = function(r) print(r.tid.x) end }]], "--worlds", "2")
    assert.same({ "error" }, laws_of(found))
  end)

  it("finds a key that changes when a task moves to another CPU", function()
    local found = prove(calls { KEY = "cpu", CLEAR = "", CHECK = "if not began[r.cpu] then return end" },
      "--worlds", "9")
    assert.same({ "migration" }, laws_of(found))
  end)

  it("finds names that reach the terminal or JSON unescaped", function()
    local found = prove(HEAD .. [[
local is_json = require("perfev.tool").output_format() == "json"
perfev.event { "sched:sched_waking", sample = function(_, args)
  print(is_json and '{"comm":"' .. args.comm .. '"}' or args.comm)
end }]], "--worlds", "12")
    assert.same({ "names", "json" }, laws_of(found))
  end)

  it("finds an output in the order of pairs(), a negative time and a call without an end", function()
    local found = prove(HEAD .. [[
local seen = {}
perfev.event { "sched:sched_waking", sample = function(_, args) seen[args.comm] = true end }
perfev.done(function() for name in pairs(seen) do print(perfev.escape(name)) end end)]], "--worlds", "4")
    assert.same({ "order" }, laws_of(found))
    found = prove(HEAD .. [[
local last
perfev.event { "sched:sched_waking", sample = function(r) print(last and last - r.time or 0) last = r.time end }]],
      "--worlds", "2")
    assert.same({ "numbers" }, laws_of(found))
    found = prove(HEAD .. [[
perfev.event { "sched:sched_waking", sample = function() while true do end end }]], "--worlds", "2")
    assert.same({ { "end" }, 2, "the script does not end" },
      { laws_of(found), found.findings[1].line, found.stopped_early })
  end)

  it("has equal counts, odd names, values that pass a filter, one extreme at start and end, chosen tasks", function()
    local found = prove(HEAD .. [[
local c = perfev.counter { "sched:sched_switch", "sched:sched_wakeup", "sched:sched_process_fork" }
perfev.done(function()
  local names = {}
  for name, n in pairs(c:read().raw) do names[#names + 1] = ("%d %s"):format(n, name) end
  table.sort(names, function(a, b) return tonumber(a:match "%d+") > tonumber(b:match "%d+") end)
  print(table.concat(names, "\n"))
end)]], "--worlds", "2")
    assert.same({ "order" }, laws_of(found))
    found = prove(HEAD .. [[
local raised = {}
perfev.event { "irq:softirq_entry", sample = function(r, args) raised[r.cpu] = args.vec end }
perfev.event { "irq:softirq_exit", sample = function(r, args)
  if raised[r.cpu] == args.vec and args.vec > 9 then error "no such vector" end
end }
perfev.event { "sched:sched_waking", sample = function(_, args) print(args.comm:match "^[%w/:_-]+" .. "") end }
perfev.event { "syscalls:sys_enter_futex", where = { "args.op", "in", { 9, 137 } }, sample = function(_, args)
  assert(args.op ~= 137, "waits")
end }
if require("perfev.tool").choose_tasks("mine", "they wait") then error "only some tasks" end]], "--worlds", "16")
    local messages = {}
    for _, one in ipairs(found.findings) do messages[one.line] = one.message end
    assert.matches("no such vector", messages[5])
    assert.matches("a nil value", messages[7])
    assert.matches("waits", messages[9])
    assert.matches("only some tasks", messages[11])
  end)

  it("finds what fails when a system call fails, and sessions that stay open", function()
    local found = prove(HEAD .. [[
kept = perfev.session()
kept:event { "cpu-clock", freq = 99, sample = print }
assert(kept:start())
perfev.event { "sched:sched_waking", sample = function() end }]], "--worlds", "4")
    local by_law = {}
    for _, one in ipairs(found.findings) do by_law[one.law] = by_law[one.law] or one end
    assert.matches("^not released at the end: ", by_law.leak.message)
    assert.equal("a failing call", by_law.error.fault)
    assert.equal(4, by_law.error.line)
  end)

  it("lets a script start no program and write no file, and says so", function()
    local found, code = prove(HEAD .. ([[
perfev.event { "sched:sched_waking", sample = function() end }
perfev.done(function() os.execute "touch %s/touched" end)]]):format(dir), "--worlds", "1")
    assert.equal(0, code)
    assert.matches("denied: os.execute %(.*mine.lua:3%)", table.concat(found.notes, "\n"))
    assert.is_nil(run.slurp(dir .. "/touched"))
  end)

  it("prints the same report for the same seed", function()
    local path = run.write_file(dir .. "/mine.lua", calls { CHECK = "" })
    local function report(seed)
      return run({ run.perfl, "prove", "--seed", seed, "--worlds", "3", path }).out
    end
    local first = report "7"
    assert.matches("^mine.lua: %d findings? in %d+ worlds\n\n1%. ", first)
    assert.equal(first, report "7")
    assert.not_equal(first, report "8")
    for line in first:gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
  end)

  it("refuses an unknown or misplaced option, a file without a world, a script that does not start", function()
    local function status(...) return run({ run.perfl, "prove", ... }).code end
    local text = run.write_file(dir .. "/text.lua", "return 5")
    assert.same({ 2, 2, 2, 2 }, { status("--seed", "x", "syscount"), status("--replay", text, "syscount"),
      status "absent.lua", status("syscount", "--absent") })
    local r = run { run.perfl, "prove", "syscount", "--worlds", "3" }
    assert.same({ 2, "perfl: prove: '--worlds': an option of prove is written before the script\n"
      .. "  try: perfl prove --worlds 3 syscount\n" }, { r.code, r.err })
  end)
end)
