-- perfl prove against the shipped scripts: all pass as they are, and copies with a mistake do not. Three of each here;
-- PROOFS=long (make proofs) tries all scripts and all 40 mistakes.

local json = require "spec.support.json"
local mistakes = require "spec.support.mistakes"
local run = require "spec.support.run"

local IS_LONG = os.getenv "PROOFS" == "long"
local WORLDS = IS_LONG and 60 or 6 -- in addition to the failing calls, the other kernels and the many lives

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function split(words)
  local list = {}
  for word in (words or ""):gmatch "%S+" do list[#list + 1] = word end
  return list
end

-- perfl prove with a script of this path, options before it and words after it -> the report
local function prove(path, options, words)
  local argv = { run.perfl, "prove", "--worlds", WORLDS, "-j" }
  for _, list in ipairs { split(options), { path }, split(words) } do table.move(list, 1, #list, #argv + 1, argv) end
  local r = run(argv)
  assert(r.code <= 1 and r.err == "", ("%s: status %d: %s"):format(table.concat(argv, " "), r.code, r.err))
  return assert(json.decode(r.out))
end

local function texts_of(report)
  local list = {}
  for i, one in ipairs(report.findings) do list[i] = ("%s %s: %s"):format(one.law, one.line or "-", one.message) end
  return list
end

-- What of the report is evidence for each kind of mistake; a list of laws, or a function (report).
local evidence = {
  memory = { memory = true }, order = { order = true }, hang = { ["end"] = true },
  output = { names = true, json = true, numbers = true },
  time = { ["pid reuse"] = true, numbers = true, migration = true },
  needs = function(report)
    for _, row in ipairs(report.kernels) do
      if row.name >= "4" and row.result == "refused" then return true end
    end
  end,
}

-- Returns whether the report is about that mistake.
local function is_found(report, mistake)
  local laws = evidence[mistake.shows]
  if type(laws) == "function" then return laws(report) or false end
  for _, one in ipairs(report.findings) do
    if laws and laws[one.law] then return true end
    if not laws and one.law == "error" and one.line and one.message:find(mistake.shows) then return true end
  end
  return false
end

-- Each shipped script with options of its own, as merged_scripts_spec has them; without: an interval, a file.
local shipped = {
  "syscount -P", "killsnoop", "softirqs",
  "annotate leaf", "biolatency --disks --flags", "biosnoop --queued", "biostacks", "biostacks --time", "cachestat",
  "cgtop", "cpudist", "cpudist --off --per comm", "cswlog", "drsnoop", "execsnoop --ends", "explore", "faultstacks",
  "flightrec -g sched:sched_switch --trigger sched:sched_process_exec",
  "funccount sched:sched_switch sched:sched_wakeup", "funclatency middle", "growth --top 3", "hardirqs",
  "kmem --top 2", "latency runqueue", "latency block",
  "latency syscalls --per comm", "locks", "memleak", "offcputime", "offwaketime", "opensnoop", "procmon", "profile",
  "runqlat", "runqlat --per pid", "sched timehist", "sched latency", "sched map",
  "slow raw_syscalls:sys_enter raw_syscalls:sys_exit", "stat -e page-faults", "statsnoop",
  "strace", "strace -c", "syslat", "tcpconnect", "tcplife", "timeline --mark sched:sched_waking --irq", "top",
  "tpoint sched:sched_switch", "trace kprobe:middle n:u64", "ulocks --call-graph fp", "wakeuptime",
  "watch --each 0x601040/8",
}

-- Known findings. A snapshot has records that are newer than the names that the session has read; when Ctrl-C takes
-- the snapshot earlier, a task of the last 0.1 s has no name yet (doc/api/sessions.md).
local known = { flightrec = "Ctrl-C" }

describe("a shipped script obeys all laws:", function()
  for i = 1, IS_LONG and #shipped or 2 do
    it(shipped[i], function()
      local name, words = shipped[i]:match "^(%S+) ?(.*)$"
      local report = prove(name, nil, words)
      if known[name] and report.findings[1] and report.findings[1].law == known[name] then
        table.remove(report.findings, 1)
      end
      assert.same({}, texts_of(report))
    end)
  end

  it("each is tried, or has a reason", function()
    local reasons = { diff = "it reads files" }
    local tried = {}
    for _, words in ipairs(shipped) do tried[words:match "%S+"] = true end
    for path in run.capture("ls scripts/*.lua"):gmatch "[^\n]+" do
      local name = path:match "([%w_]+)%.lua$"
      assert.is_true((tried[name] or false) ~= (reasons[name] ~= nil), name)
    end
  end)
end)

-- Returns whether prove finds the mistake in the copy, and not in the script; the findings in the copy.
local function try(mistake)
  local text = mistakes.text(mistake)
  local path = run.write_file(("%s/%s.lua"):format(dir, mistake.script), text)
  local report = prove(path, mistake.options, mistake.words)
  local is_clean = not is_found(prove(mistake.script, mistake.options, mistake.words), mistake)
  return is_found(report, mistake) and is_clean, texts_of(report)
end

-- For `make check`: a run without records, records that are missing, two CPUs.
local SHORT = { cachestat = true, killsnoop = true, funclatency = true }

describe("perfl prove", function()
  local how_many = IS_LONG and "at least 36 of 40" or "three"
  it(("finds %s mistakes, but not in the scripts as they are"):format(how_many), function()
    local nr, missed = 0, {}
    for i, mistake in ipairs(mistakes.list) do
      if IS_LONG or SHORT[mistake.script] then
        local found, texts = try(mistake)
        nr = nr + (found and 1 or 0)
        if not found then
          missed[#missed + 1] = ("%d %s: %s; found: %s"):format(i, mistake.script, mistake.breaks,
            table.concat(texts, "\n    "))
        end
      end
    end
    if IS_LONG then print(("%d of %d mistakes found"):format(nr, #mistakes.list)) end
    assert(nr >= (IS_LONG and 36 or 3), table.concat(missed, "\n"))
  end)
end)
