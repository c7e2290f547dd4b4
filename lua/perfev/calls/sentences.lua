--- The report in words: its first line, the remarks below it.

local causes = require "perfev.calls.causes"
local comparison = require "perfev.calls.comparison"
local escape = require "perfev.base.escape"

local M = {}

local UNITS = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" } }

local function unit_of(ns)
  for _, unit in ipairs(UNITS) do
    if math.abs(ns) >= unit[1] then return unit end
  end
  return UNITS[#UNITS]
end

-- Three digits: 9.81, 12.3, 123.
local function digits(value)
  local size = math.abs(value)
  return (size < 9.995 and "%.2f" or size < 99.95 and "%.1f" or "%.0f"):format(value)
end

--- Returns a duration with its unit: "12.3 ms".
function M.duration(ns)
  local unit = unit_of(ns)
  if unit[1] == 1 then return ("%.0f ns"):format(ns) end
  return digits(ns / unit[1]) .. " " .. unit[2]
end

--- Returns the unit of a table, { ns, name }: that of its largest duration.
function M.table_unit(ns) return unit_of(math.max(ns, 1)) end

--- Returns a number with commas between thousands.
function M.number(n)
  local text = ("%d"):format(n)
  return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end

local function counted(n, noun) return ("%s %s%s"):format(M.number(n), noun, n == 1 and "" or "s") end

local function interval_text(row)
  if not row.interval then return "" end
  local unit = unit_of(math.max(math.abs(row.interval[1]), math.abs(row.interval[2])))
  return (" (95 %% interval %s to %s %s)"):format(digits(row.interval[1] / unit[1]), digits(row.interval[2] / unit[1]),
    unit[2])
end

-- "the slowest 5 % (10 of 200 calls, 12.3 ms or more)"
local function who_text(report, how)
  local numbers = ("(%s of %s, %s or more)"):format(M.number(report.nr_slow), counted(report.count, "call"),
    M.duration(report.threshold))
  if how.over then return ("the calls over %s %s"):format(M.duration(how.over), numbers) end
  return ("the slowest %s %% %s"):format(("%.4f"):format(how.slowest * 100):gsub("%.?0+$", ""), numbers)
end

-- More page faults explain time in them.
local function faults_text(report, row)
  local wanted = row.key == "cpu_fault" and "minor" or row.key == "major_fault" and "major"
  for _, other in ipairs(report.rows) do
    if other.key == wanted and other.difference >= 0.5 then
      return (", with %.0f more of them per call"):format(other.difference)
    end
  end
  return ""
end

-- "wait 9.8 ms longer for a lock: pthread_mutex_lock < log_line < handle", of one call "waits 9.8 ms …"
local function cause_text(report, row, nr)
  local words = causes.reasons[row.key]
  local object = words[2]
  if row.word and row.key == "preempted" then object = object .. ", taken by " .. escape(row.word) end
  if row.word and row.key == "cpu_call" then object = "in the system call " .. row.word end
  if row.word and (row.key == "events" or row.key == "other" or row.key == "disk" or row.key == "socket") then
    object = ("%s (%s)"):format(object, row.word)
  end
  local path = comparison.path_text(row.path)
  return ("%s%s %s longer%s%s%s%s"):format(words[1], nr == 1 and "s" or "", M.duration(row.difference),
    object ~= "" and " " .. object or "", faults_text(report, row), path ~= "" and ": " .. escape(path) or "",
    interval_text(row))
end

-- The calls with the most records lose some first, and they are often the slow ones.
local SHARE_TO_DOUBT = 0.01

local function doubt_text(report, collector)
  if collector.incomplete <= SHARE_TO_DOUBT * report.count then return "" end
  local nr = collector.incomplete
  return ("; but %s more %s lost records and %s left out"):format(M.number(nr), nr == 1 and "call" or "calls",
    nr == 1 and "is" or "are")
end

-- The slowest calls are always slower, if only by chance.
local MUCH_SLOWER = 1.25

local function cause_line(report, how)
  if #report.slow == 0 then
    return ("none of the %s took %s or more"):format(counted(report.count, "call"), M.duration(how.over))
  end
  if report.count == 1 then return "only one call: there are no others to compare it with" end
  if #report.rest == 0 then
    return ("all %s are slow: there is no rest to compare them with"):format(counted(report.count, "call"))
  end
  local row = report.causes[1]
  if not row or row.difference <= 0 then return who_text(report, how) .. " take longer, for no reason that was seen" end
  local all = report.rows[1]
  if all.slow < MUCH_SLOWER * all.rest then
    return ("no call is much slower: %s take %s, the rest %s"):format(who_text(report, how), M.duration(all.slow),
      M.duration(all.rest))
  end
  if not row.interval then
    return ("%s are too few to be sure; they may %s"):format(who_text(report, how), cause_text(report, row))
  end
  if row.interval[1] <= 0 then
    return ("%s have no certain cause; they may %s"):format(who_text(report, how), cause_text(report, row))
  end
  return who_text(report, how) .. " " .. cause_text(report, row)
end

-- Why there is no call to compare.
local function no_call_text(how, collector)
  local begun = collector.open_at_end + collector.restarted + collector.ended + collector.unkept
  if begun > 0 and collector.unstarted > 0 and how.joins_by_thread then
    return "no call began and ended in the same thread\n  try: --key FIELD, a field of both events"
  end
  if begun > 0 then return ("%s began, and none ended during the run"):format(counted(begun, "call")) end
  if how.input then
    return ("the recording %s has no call of %s\n  try: perfl --record FILE slow %s -- COMMAND"):format(
      escape(how.input), escape(how.title), escape(how.func or "START STOP"))
  end
  if how.func then
    return ("%s was never called during the run\n  try: another function; the compiler may have inlined this one")
      :format(escape(how.func))
  end
  return "no call began during the run"
end

--- Returns the first line: the cause.
function M.headline(report, how, collector)
  if report.count == 0 and collector.incomplete > 0 then
    return ("all %s are left out, because records were lost"):format(counted(collector.incomplete, "call"))
  end
  if report.count == 0 then return no_call_text(how, collector) end
  return cause_line(report, how) .. doubt_text(report, collector)
end

--- Returns the second largest cause as a line, or nil.
function M.second_line(report)
  if not report.rows then return nil end
  local all, first = report.rows[1], report.causes[1]
  if all.slow < MUCH_SLOWER * all.rest then
    return first and first.difference > 0 and ("they %s"):format(cause_text(report, first)) or nil
  end
  local row, follows = comparison.second(report)
  if not row then return nil end
  if follows then return ("they therefore also %s"):format(cause_text(report, row)) end
  if row.calls > 0 then
    return ("%s of the %s mostly %s"):format(M.number(row.calls), M.number(#report.slow),
      cause_text(report, row, row.calls))
  end
  return ("they also %s"):format(cause_text(report, row))
end

--- Returns lines about calls that are left out.
function M.remarks(report, collector)
  local lines = {}
  local function add(n, what)
    if n > 0 then lines[#lines + 1] = counted(n, "call") .. " " .. what end
  end
  add(collector.incomplete, "left out: records were lost meanwhile\n  try: a larger ring, as in -m 64M, or smaller "
    .. "records, as with --call-graph fp")
  add(collector.ended, "left out: the thread ended or ran another program in between")
  add(collector.open_at_end, "left out: not ended at the end of the run")
  add(collector.restarted, "left out: they began again before they ended")
  add(collector.unkept, "left out: too many were in progress")
  if collector.unstarted > 0 then lines[#lines + 1] = counted(collector.unstarted, "end") .. " without a start" end
  if collector.without_key > 0 then
    lines[#lines + 1] = counted(collector.without_key, "event") .. " without a value of the key"
  end
  if collector.lost_at_end > 0 then
    lines[#lines + 1] = counted(collector.lost_at_end, "record") .. " lost at an unknown time: calls may be incomplete"
  end
  if report.kept and report.kept < report.count then
    lines[#lines + 1] = ("%s were kept: a sample, and the slowest"):format(counted(report.kept, "call"))
  end
  return lines
end

return M
