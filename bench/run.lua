-- run.lua - compares the cost of perfev to that of other tools: `make bench`.
-- make bench, or lua5.4 bench/run.lua BUILD RECORDS RUNS [PART...]
--
-- Each file in bench/rows returns one or more parts of the table:
--   { title =, unit =, base = name, rows = { row... } [, note =] }
--   row: { name, command [, per =] [, goal =] [, expect =] [, check =] [, env =] }
-- A row is a shell command, run RUNS times; the rows of a part run in turn, and a slow row runs once. The
-- result is CPU time, because other processes affect the clock's, divided by per, the number of records;
-- its ratio to the base's median is comparable between machines. goal: the ratio must be below it.
-- measure = "clock": use the clock's time. load = FILE: subtract the CPU time in the file. lost = N: the
-- percentage of N that is missing in the command's output. expect: the row is dropped unless the command
-- prints this. check: a function(output) -> true | false, reason.
--
-- A row that misses its goal runs once more under perfl's profile, and the functions that take its time
-- are printed below the table.

local SLOW = 4 -- seconds: a row that takes longer is run once
local NAME = 33
local HZ, FUNCTIONS = 10000, 8 -- of a profile: samples per second, functions shown
local PROFILED = 0.5 -- minimal seconds of a profiled run

local build, records, runs = arg[1], math.tointeger(tonumber(arg[2])), math.tointeger(tonumber(arg[3]))
local dir = build .. "/bench"
local wanted = { table.unpack(arg, 4) }

-- The argument of the files in bench/rows.
local bench = { build = build, dir = dir, records = records }

function bench.quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local function first_line(command)
  local pipe = io.popen(command .. " 2>/dev/null")
  local line = pipe:read() or "?"
  pipe:close()
  return line
end

function bench.has(command) return first_line("command -v " .. command) ~= "?" end

--- Runs a Lua script of bench/ that makes a file in dir, if it does not exist -> its path
function bench.make(name, command)
  local path = dir .. "/" .. name
  local file = io.open(path)
  if file then
    file:close()
  else
    assert(os.execute(("LUA_PATH='lua/?.lua;lua/?/init.lua;./?.lua' LUA_CPATH='%s/?.so' lua5.4 %s"):format(build,
      command)))
  end
  return path
end

--- Makes a recording by bench/record.lua -> its path
function bench.recording(kind, nr)
  local name = ("%s-%d.data"):format(kind, nr)
  return bench.make(name, ("bench/record.lua %s/%s %d %s"):format(dir, name, nr, kind))
end

--- The command line of perfl that reads a recording, or records the command after `--` in words.
function bench.perfl(words, chunk)
  return ("%s/perfl -q %s -e %s"):format(build, words, bench.quote(chunk))
end

-- ---- one run ----

local function slurp(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function measured(row, part, cpu, clock, said)
  if part.measure == "clock" then return clock / part.scale end
  if part.lost then
    local seen = tonumber(said:match "%d+")
    return seen and math.max(100 * (part.lost - seen) / part.lost, 0) -- other programs may call it, too
  end
  if part.load then cpu = math.max(cpu - (tonumber(slurp(part.load)) or 0), 0) end
  return cpu / (row.per or part.per) / part.scale
end

-- Runs the row once -> true | false, reason
local function run_once(row, part)
  local out, err = dir .. "/out", dir .. "/err"
  os.execute(("%s/cost %s > %s 2> %s < /dev/null"):format(dir, row[2], out, err))
  local last
  for line in io.lines(err) do last = line end
  local cpu, clock, kib, status = (last or ""):match "^([%d.]+) ([%d.]+) (%d+) (%d+)$"
  if status ~= "0" then return false, slurp(err):match "^[^\n]*" end
  local said = slurp(out)
  if row.expect and not said:find(row.expect, 1, true) then
    return false, "it said " .. (said:match "[^\n]+" or "nothing")
  end
  if row.check then
    local ok, why = row.check(said)
    if not ok then return false, why end
  end
  local value = measured(row, part, tonumber(cpu), tonumber(clock), said)
  if not value then return false, "it counted nothing" end
  row.values[#row.values + 1] = value
  row.kib = math.max(row.kib or 0, tonumber(kib))
  row.seconds = tonumber(clock)
  return true
end

local function run_part(part)
  for _, row in ipairs(part.rows) do
    row.values = {}
    row.failed = row.missing
  end
  for _ = 1, part.runs or runs do
    for _, row in ipairs(part.rows) do
      if not row.failed and (row.seconds or 0) < SLOW then
        local ok, why = run_once(row, part)
        row.failed = not ok and why or nil
      end
    end
  end
  for _, row in ipairs(part.rows) do table.sort(row.values) end
end

-- ---- the table ----

local lines = {}
local function say(...)
  local line = string.format(...):gsub("%s+$", "")
  print(line)
  lines[#lines + 1] = line
end

local function median(row) return row.values[(#row.values + 1) // 2] end

local function number(value)
  if value >= 999.5 then return ("%.0f"):format(value) end
  return (value >= 99.95 and "%.0f" or value >= 9.995 and "%.1f" or "%.3f"):format(value)
end

local function falls_short(row, base)
  return base and row.goal and not row.failed and median(row) > row.goal * base or false
end

-- The ratio to the base, if there is a base, and the goal.
local function format_ratio(row, base)
  if not base then return "" end
  local ratio, text = median(row) / base, "-"
  if base > 0 then text = (ratio >= 99.95 and "%.0f" or ratio >= 9.995 and "%.1f" or "%.2f"):format(ratio) end
  if not row.goal then return ("%7s"):format(text) end
  return ("%7s %s%5s"):format(text, falls_short(row, base) and "> " or "<=", ("%g"):format(row.goal))
end

local function base_of(part)
  for _, row in ipairs(part.rows) do
    if row[1] == part.base and not row.failed then return median(row) end
  end
end

local function print_part(part)
  local base = base_of(part)
  say("")
  say("%s", part.title)
  say("%-" .. NAME .. "s %7s %7s %7s %7s%s", "  " .. part.unit, "median", "min", "max", base and "x base" or "",
    part.memory and "           MiB" or "")
  for _, row in ipairs(part.rows) do
    if row.failed then
      say("%-" .. NAME .. "s not here: %s", row[1], row.failed:sub(1, 79 - NAME - 11))
    else
      local ratio = format_ratio(row, row[1] ~= part.base and base)
      say("%-" .. NAME .. "s %7s %7s %7s %s%s", row[1], number(median(row)), number(row.values[1]),
        number(row.values[#row.values]), ratio,
        part.memory and (" "):rep(16 - #ratio) .. ("%6.1f"):format(row.kib / 1024) or "")
    end
  end
  if part.note then say("  %s", part.note) end
end

-- ---- profiles of rows that miss their goal ----

local profiles = {} -- lines

local function tell(...)
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

local function explain(part, row, base)
  local ratio = base > 0 and ("%.2f times the base"):format(median(row) / base) or "The base is 0"
  tell("")
  tell("### %s: %s", part.title:match "^[^,]*", row[1])
  tell("")
  tell("%s, %g is wanted.", ratio, row.goal)
  local path, why = profile_row(row)
  if not path then return tell("It has no profile: %s", why) end
  local list, all, kernel = read_leaves(path, row[2]:match "^%S+":match "[^/]+$")
  tell("")
  tell("```text")
  tell("%6.1f %%  of %d samples are the kernel's", 100 * kernel / math.max(all, 1), all)
  for i = 1, math.min(FUNCTIONS, #list) do
    tell("%6.1f %%  %s%s", 100 * list[i].samples / all, list[i].kernel and "[kernel] " or "", list[i].name)
  end
  tell("```")
end

local function explain_part(part)
  local base = base_of(part)
  for _, row in ipairs(part.rows) do
    if falls_short(row, base) then explain(part, row, base) end
  end
end

-- ---- main ----

local ABOUT_PROFILES = ([[
The command of each such row once more, under `perfl profile -F %d`: the
functions of the program itself that had the samples. A function without a
symbol has the name of its file.
]]):format(HZ)

local function files()
  local list = {}
  for path in io.popen "ls bench/rows/*.lua":lines() do list[#list + 1] = path end
  return list
end

local function is_wanted(path)
  for _, name in ipairs(wanted) do
    if path:match "([^/]+)%.lua$" == name then return true end
  end
  return #wanted == 0
end

local function machine()
  local cpu = slurp "/proc/cpuinfo":match "model name%s*:%s*([^\n]+)" or "?"
  say("%s CPUs (%s), Linux %s", first_line "nproc", cpu, first_line "uname -r":match "^[%d.]+" or "?")
  local versions = {}
  for _, name in ipairs { "lua5.4", "linux-perf", "bpftrace", "gcc" } do
    local version = first_line(("dpkg-query -W -f '${Version}' %s"):format(name))
    versions[#versions + 1] = name .. " " .. (version ~= "" and version or "?")
  end
  say("%s", table.concat(versions, ", ", 1, 3))
  say("%s", table.concat(versions, ", ", 4))
  say("%d runs of each, by turns; CPU unless said otherwise; MiB: anonymous memory", runs)
end

local began, parts = os.time(), {}
machine()
for _, path in ipairs(files()) do
  if is_wanted(path) then
    for _, part in ipairs(dofile(path)(bench)) do
      part.scale, part.per = part.scale or 1e-9, part.per or 1
      if part.prepare then part.prepare() end
      run_part(part)
      print_part(part)
      parts[#parts + 1] = part
    end
  end
end
say("")
say("all of it took %d s, and then the profiles", os.time() - began)
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
