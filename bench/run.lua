-- run.lua - compares the cost of perfev to that of other tools: `make bench`.
-- make bench, or lua5.4 bench/run.lua BUILD RECORDS RUNS OLDER [PART...]
--
-- OLDER is another checkout, or "": its perfl then runs each command of perfl, too. A PART is the name of a
-- file in bench/rows, or a path.
--
-- Each file in bench/rows returns one or more parts of the table:
--   { title =, unit =, base = name, rows = { row... } [, measure =] [, note =] }
--   row: { name, command [, per =] [, goal =] [, limit =] [, mib =] [, expect =] [, check =] [, leaves_command =] }
-- A row is a shell command, run RUNS times; the rows of a part run in turn, and a slow row runs once. Its
-- result is divided by per, the number of records. The base runs before and after each row; the ratio is to
-- the mean of the two, because the speed of a virtual machine changes between one minute and the next.
-- Goals: the median ratio is at most goal, the median at most limit, the memory at most mib MiB.
-- expect: the row is dropped unless the command prints this. check: a function(output) -> true | false, reason.
--
-- measure: "cpu", CPU time (the default); "clock", the clock's time; "load", the CPU time that the traced
-- command wrote to the file in load, minus that of the row named in untraced; "lost", the percentage of
-- lost that is missing in the number that the command prints; "output", the number that it prints.
-- load = FILE subtracts the CPU time of the traced command from "cpu", except in a row with leaves_command: a tool
-- that does not wait for its command has not got that time.
--
-- A row that misses its goal runs once more under perfl's profile, and the functions that take its time
-- are printed below the table.

local SLOW = 4 -- seconds: a row that takes longer is run once
local NAME = 34
local HZ, FUNCTIONS = 10000, 8 -- of a profile: samples per second, functions shown
local PROFILED = 0.5 -- minimal seconds of a profiled run

local build, records, runs = arg[1], math.tointeger(tonumber(arg[2])), math.tointeger(tonumber(arg[3]))
local older = arg[4] ~= "" and arg[4]
local dir = build .. "/bench"
local wanted = { table.unpack(arg, 5) }

-- The argument of the files in bench/rows.
local bench = { build = build, dir = dir, records = records, program = build .. "/perfl" }

function bench.quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local function first_line(command)
  local pipe = io.popen(command .. " 2>/dev/null")
  local line = pipe:read() or "?"
  pipe:close()
  return line
end

--- Why the rows of a tool are dropped: nil if it is installed.
function bench.missing(tool)
  return first_line("command -v " .. tool) == "?" and tool .. " is not installed" or nil
end

--- Runs a shell command that makes a file, given by $1, if it does not exist -> its path
function bench.make(name, command)
  local path = dir .. "/" .. name
  local file = io.open(path)
  if file then
    file:close()
  else
    assert(os.execute(("sh -c %s - %s"):format(bench.quote(command), path)))
  end
  return path
end

--- The command line of a Lua script of bench/.
function bench.lua(words)
  return ("LUA_PATH='lua/?.lua;lua/?/init.lua;./?.lua' LUA_CPATH='%s/?.so' lua5.4 %s"):format(build, words)
end

--- Makes a recording by bench/record.lua -> its path
function bench.recording(kind, nr)
  return bench.make(("%s-%d.data"):format(kind, nr), bench.lua(("bench/record.lua $1 %d %s"):format(nr, kind)))
end

--- The number of samples in a recording.
function bench.samples(path)
  return math.tointeger(tonumber(first_line(("%s/walk %s"):format(dir, path))))
end

--- The command line of perfl that reads a recording, or records the command after `--` in words.
function bench.perfl(words, chunk)
  return ("%s -q %s -e %s"):format(bench.program, words, bench.quote(chunk))
end

local function help_of(program) return io.popen(program .. " --help"):read "a" end

-- The option of a perfl for the number of threads, or nil if it has none.
local function threads_option(program)
  local help = help_of(program)
  return help:match "%f[-](%-j) N%f[%W]" or help:match "(%-%-jobs) N%f[%W]"
end

local option = threads_option(bench.program)

--- The words for nr threads, as in "--jobs 2", or nil if this perfl uses one thread only.
function bench.threads(nr) return option and ("%s %d"):format(option, nr) end

--- Returns the reason if this perfl has no such option, for the `missing` of a row; its `option` is the same.
function bench.lacks(flag)
  return not help_of(bench.program):find(flag, 1, true) and "this perfl has no " .. flag or nil
end

-- ---- one run ----

local function slurp(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function measured(row, part, cost, said)
  local per = (row.per or part.per) * part.scale
  if part.measure == "clock" then return cost.clock / per end
  if part.measure == "load" then return math.max(tonumber(slurp(part.load)) / per - (part.floor or 0), 0) end
  if part.measure == "output" then return tonumber(said:match "[%d.]+") end
  if part.measure == "lost" then
    local seen = tonumber(said:match "%d+")
    return seen and math.max(100 * (part.lost - seen) / part.lost, 0) -- other programs may call it, too
  end
  local has_load = part.load and not row.leaves_command
  return math.max(cost.cpu - (has_load and tonumber(slurp(part.load)) or 0), 0) / per
end

-- Runs the row once -> value | nil, reason
local function run_once(row, part)
  local out, err = dir .. "/out", dir .. "/err"
  os.execute(("%s/cost %s > %s 2> %s < /dev/null"):format(dir, row[2], out, err))
  local last
  for line in io.lines(err) do last = line end
  local cpu, clock, kib, status = (last or ""):match "^([%d.]+) ([%d.]+) (%d+) (%d+)$"
  if status ~= "0" then
    local first = slurp(err):match "^[^\n]*"
    return nil, first ~= last and first or "it ended with status " .. (status or "?")
  end
  local said = slurp(out)
  if row.expect and not said:find(row.expect, 1, true) then
    return nil, "it said " .. (said:match "[^\n]+" or "nothing")
  end
  if row.check then
    local ok, why = row.check(said)
    if not ok then return nil, why end
  end
  row.kib = math.max(row.kib or 0, tonumber(kib))
  row.seconds = tonumber(clock)
  local value = measured(row, part, { cpu = tonumber(cpu), clock = row.seconds }, said)
  return value, not value and "it counted nothing" or nil
end

-- One more value of a row: the last one again, if it is slow and has values already.
local function next_value(row, part, enough)
  if row.failed then return nil end
  if #row.values >= enough and row.seconds >= SLOW then return row.values[#row.values] end
  local value, why = run_once(row, part)
  row.failed, row.values[#row.values + 1] = why, value
  return value
end

local function ratio_of(value, base)
  if base > 0 then return value / base end
  return value == 0 and 0 or math.huge
end

local function find_row(part, name)
  for _, row in ipairs(part.rows) do
    if row[1] == name then return row end
  end
end

-- One run of each row, with the base before and after it.
local function run_round(part, base)
  local untraced = find_row(part, part.untraced)
  part.floor = nil
  part.floor = untraced and next_value(untraced, part, 1)
  local before = base and next_value(base, part, 2)
  for _, row in ipairs(part.rows) do
    if row ~= base and row ~= untraced and (#row.values == 0 or row.seconds < SLOW) then
      local value = next_value(row, part, 1)
      local after = base and next_value(base, part, 2)
      if value and before and after then row.ratios[#row.ratios + 1] = ratio_of(value, (before + after) / 2) end
      before = after
    end
  end
end

local function run_part(part)
  for _, row in ipairs(part.rows) do
    row.values, row.ratios = {}, {}
    row.failed = row.missing
  end
  for _ = 1, part.runs or runs do run_round(part, find_row(part, part.base)) end
  for _, row in ipairs(part.rows) do
    table.sort(row.values)
    table.sort(row.ratios)
  end
end

-- ---- the table ----

local lines = {}
local function say(...)
  local line = string.format(...):gsub("%s+$", "")
  print(line)
  lines[#lines + 1] = line
end

local function median(list) return list[(#list + 1) // 2] end

local function number(value)
  if value == math.huge then return "-" end
  if value >= 999.5 then return ("%.0f"):format(value) end
  return (value >= 99.95 and "%.0f" or value >= 9.995 and "%.1f" or "%.3f"):format(value)
end

-- The goals of a row: list of { measured =, limit =, unit = }
local function goals_of(row)
  local list = {}
  local function add(value, limit, unit)
    if value and limit then list[#list + 1] = { measured = value, limit = limit, unit = unit } end
  end
  if row.failed then return list end
  add(median(row.ratios), row.goal, " x")
  add(median(row.values), row.limit, "")
  add(row.kib / 1024, row.mib, " MiB")
  return list
end

local function is_missed(goal) return goal.measured > goal.limit end

local function falls_short(row)
  for _, goal in ipairs(goals_of(row)) do
    if is_missed(goal) then return true end
  end
  return false
end

local function format_goals(row)
  local texts = {}
  for i, goal in ipairs(goals_of(row)) do
    texts[i] = ("%s %g%s"):format(is_missed(goal) and "MISSED" or "met", goal.limit, goal.unit)
  end
  return table.concat(texts, ", ")
end

local LINE = "%-" .. NAME .. "s %7s %7s %7s %7s %7s  %s"

local function print_part(part)
  say("")
  say("%s", part.title)
  say(LINE, "  " .. part.unit, "median", "min", "max", part.base and "x base" or "", part.memory and "MiB" or "",
    "goal: at most")
  for _, row in ipairs(part.rows) do
    if row.failed then
      say("%-" .. NAME .. "s not here: %s", row[1], row.failed:sub(1, 79 - NAME - 11))
    else
      local ratio = median(row.ratios)
      say(LINE, row[1], number(median(row.values)), number(row.values[1]), number(row.values[#row.values]),
        ratio and number(ratio) or row[1] == part.base and "base" or "",
        part.memory and ("%.1f"):format(row.kib / 1024) or "", format_goals(row))
    end
  end
  if part.note then say("  %s", part.note) end
end

-- ---- profiles of rows that miss their goal ----

local profiles = {} -- lines

local function say_profile(...)
  local line = string.format(...)
  print(line)
  profiles[#profiles + 1] = line
end

-- Repeats the command until there are enough samples, under perfl's profile -> path | nil, reason
local function profile_row(row)
  local path, err = dir .. "/folded", dir .. "/err"
  local loop = ("i=0; while [ $i -lt %d ]; do %s > /dev/null; i=$((i+1)); done"):format(
    math.ceil(PROFILED / math.max(row.seconds, 1e-3)), row[2])
  local profile = ("%s/perfl -q --inline -m 8M -o %s profile -F %d -f folded"):format(build, path, HZ)
  local ok = os.execute(("%s -- sh -c %s 2> %s < /dev/null"):format(profile, bench.quote(loop), err))
  if ok then return path end
  return nil, slurp(err):match "^[^\n]*"
end

-- Folded stacks -> list of { samples =, name =, kernel = }, by samples; all samples; samples in the kernel.
-- Counts tasks named comm alone, without the processes that the command starts.
local function read_leaves(path, comm)
  local list, by_name, all, kernel = {}, {}, 0, 0
  for line in io.lines(path) do
    local who, name, samples = line:match "^([^;]*).-;?([^;]*) (%d+)$"
    if who == comm then
      local one = by_name[name]
      if not one then
        one = { samples = 0, name = name:gsub("_%[%a%]$", ""), kernel = name:find "_%[k%]$" ~= nil }
        list[#list + 1], by_name[name] = one, one
      end
      samples = tonumber(samples)
      one.samples, all, kernel = one.samples + samples, all + samples, kernel + (one.kernel and samples or 0)
    end
  end
  table.sort(list, function(a, b)
    if a.samples ~= b.samples then return a.samples > b.samples end
    return a.name < b.name
  end)
  return list, all, kernel
end

local function explain(part, row)
  say_profile("")
  say_profile("### %s: %s", part.title, row[1])
  say_profile("")
  for _, goal in ipairs(goals_of(row)) do
    if is_missed(goal) then
      say_profile("Measured %s%s; the goal is at most %g%s.", number(goal.measured), goal.unit, goal.limit, goal.unit)
    end
  end
  local path, why = profile_row(row)
  if not path then return say_profile("It has no profile: %s", why) end
  local list, all, kernel = read_leaves(path, row[2]:match "^%S+":match "[^/]+$")
  say_profile("")
  say_profile("```text")
  say_profile("%6.1f %%  of %d samples are the kernel's", 100 * kernel / math.max(all, 1), all)
  for i = 1, math.min(FUNCTIONS, #list) do
    say_profile("%6.1f %%  %s%s", 100 * list[i].samples / all, list[i].kernel and "[kernel] " or "", list[i].name)
  end
  say_profile("```")
end

-- The time of a row that measures another program is not perfl's own.
local NOT_OWN_TIME = { load = true, output = true }

local function explain_part(part)
  if NOT_OWN_TIME[part.measure] then return end
  for _, row in ipairs(part.rows) do
    if falls_short(row) then explain(part, row) end
  end
end

-- ---- the older commit, the goals ----

local OLDER = "  by the older commit"

-- Adds a row after each row of perfl: the same command, by the older perfl, without goals.
local function add_older_rows(part)
  local rows = {}
  local pattern = "%f[%w/._]" .. bench.program:gsub("%p", "%%%0") .. "%f[%s]"
  local program = (older .. "/build/perfl"):gsub("%%", "%%%%")
  local one = option and not threads_option(program) and "%f[%S]" .. option:gsub("%p", "%%%0") .. " 1%f[%D]"
  for _, row in ipairs(part.rows) do
    rows[#rows + 1] = row
    local command = row[2]:gsub(pattern, program)
    local is_known = not row.option or help_of(program):find(row.option, 1, true)
    if command ~= row[2] and not row.missing and is_known then
      if one then command = command:gsub(one, "") end -- an older perfl always uses one thread
      rows[#rows + 1] = { OLDER, command, per = row.per, expect = row.expect, check = row.check }
    end
  end
  part.rows = rows
end

local function is_peer(name) return name and (name:find "^perf " or name:find "^bpftrace" or name:find "^bcc ") end

-- How many times the peer's figure is that of perfl: nil unless one of row and base is a peer, the other perfl.
local function ratio_to_peer(part, row)
  local ratio = row[1] ~= OLDER and median(row.ratios)
  if not ratio then return nil end
  if is_peer(part.base) and not is_peer(row[1]) then return ratio, row[1], part.base end
  if is_peer(row[1]) and part.base:find "^perfl" then return 1 / ratio, part.base, row[1] end
end

-- How many goals are met, and the rows in which perf or bpftrace is better.
local function summarise(parts)
  local met, missed, ahead = 0, 0, {}
  for _, part in ipairs(parts) do
    for _, row in ipairs(part.rows) do
      for _, goal in ipairs(goals_of(row)) do
        if is_missed(goal) then missed = missed + 1 else met = met + 1 end
      end
      local ratio, own, peer = ratio_to_peer(part, row)
      if ratio and ratio > 1 then
        ahead[#ahead + 1] = ("  %s: %s, %s times %s"):format(part.title, own, number(ratio), peer)
      end
    end
  end
  say("")
  say("%d goals met, %d missed", met, missed)
  if #ahead > 0 then say("A peer is ahead of these rows:\n%s", table.concat(ahead, "\n")) end
end

-- ---- main ----

local ABOUT_PROFILES = ([[
The command of each such row once more, under `perfl profile -F %d`: the
functions of the program itself that had the samples. A function without a
symbol has the name of its file.
]]):format(HZ)

-- The files of the wanted parts.
local function files()
  local list = {}
  for _, name in ipairs(wanted) do
    list[#list + 1] = name:find("/", 1, true) and name or ("bench/rows/%s.lua"):format(name)
  end
  if #wanted > 0 then return list end
  for path in io.popen "ls bench/rows/*.lua":lines() do list[#list + 1] = path end
  return list
end

local function commit(checkout)
  return first_line(("git -C %s log -1 --format='%%h of %%cs'"):format(bench.quote(checkout)))
end

local function describe_run()
  local cpu = slurp "/proc/cpuinfo":match "model name%s*:%s*([^\n]+)" or "?"
  say("%s CPUs (%s), Linux %s", first_line "nproc", cpu, first_line "uname -r":match "^[%d.]+" or "?")
  local versions = {}
  for _, name in ipairs { "lua5.4", "linux-perf", "bpftrace", "libbpf-tools", "clang", "gcc" } do
    local version = first_line(("dpkg-query -W -f '${Version}' %s"):format(name))
    versions[#versions + 1] = name .. " " .. (version ~= "" and version or "?")
  end
  say("%s", table.concat(versions, ", ", 1, 3))
  say("%s", table.concat(versions, ", ", 4))
  say("commit %s%s", commit ".", older and ", beside the older " .. commit(older) or "")
  say("%d runs of each, by turns; CPU unless said otherwise; MiB: anonymous memory", runs)
end

local began, parts = os.time(), {}
describe_run()
for _, path in ipairs(files()) do
  for _, part in ipairs(dofile(path)(bench)) do
    part.scale, part.per = part.scale or 1e-9, part.per or 1
    if part.prepare then part.prepare() end
    if older then add_older_rows(part) end
    run_part(part)
    print_part(part)
    parts[#parts + 1] = part
  end
end
summarise(parts)
say("")
say("this took %d s, without the profiles", os.time() - began)
for _, part in ipairs(parts) do explain_part(part) end

if #wanted == 0 then
  local file <close> = assert(io.open("bench/RESULTS.md", "w"))
  file:write("# Results of `make bench`\n\nHow to read it: [doc/bench.md](../doc/bench.md).\n\n```text\n",
    table.concat(lines, "\n"), "\n```\n")
  if #profiles > 0 then
    file:write("\n## Profiles of the rows that miss their goal\n\n", ABOUT_PROFILES,
      table.concat(profiles, "\n"), "\n")
  end
end
