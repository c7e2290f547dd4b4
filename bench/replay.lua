-- replay.lua - how fast recordings are read: ours beside perf's and the least there could be.
-- make bench, or lua5.4 bench/replay.lua BUILD RECORDS RUNS
--
-- Side by side: every row once, then every row again but those that take long. Seconds of CPU, because
-- the clock's are the neighbours' as well; the ratios are what holds on another machine.

local SLOW = 8 -- seconds: a row that takes longer is run once

local build, records, runs = arg[1], math.tointeger(tonumber(arg[2])), math.tointeger(tonumber(arg[3]))
local dir = build .. "/bench"
local path = ("%s/syscalls-%d.data"):format(dir, records)

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local function perfl(callback, fields)
  return ("%s/perfl -q -i %s -e %s"):format(build, path, quote(([[
    local n, sum, calls = 0, 0, {}
    event { "raw_syscalls:sys_enter", fields = %s, sample = %s }
    done(function() print(n) end)]]):format(fields or "nil", callback)))
end

local rows = {
  { "minimal C walk (headers only)", ("%s/walk %s"):format(dir, path), "%d" },
  { "perfev's reader (C, in order)", ("%s/reader %s"):format(dir, path), "%d" },
  { "perfl, an empty callback", perfl "function() end" },
  { "perfl, counting", perfl "function() n = n + 1 end", "%d" },
  { "perfl, three fields", perfl "function(r) sum = sum ~ r.time ~ r.tid ~ r.cpu n = n + 1 end", "%d" },
  { "perfl, fields of three", perfl("function(time, tid, cpu) sum = sum ~ time ~ tid ~ cpu n = n + 1 end",
      '{ "time", "tid", "cpu" }'), "%d" },
  { "perfl, calls from the payload", perfl [[function(_, args)
      local id = args.id
      calls[id] = (calls[id] or 0) + 1
      n = n + 1 end]], "%d" },
  { "perfl, of one CPU", ("%s -C 0"):format(perfl "function() n = n + 1 end") },
  { "perf script -F comm,tid,time", ("perf script -i %s -F comm,tid,time"):format(path), base = true },
  { "perf script -s count.py", ("perf script -i %s -s bench/count.py"):format(path), "%d" },
  { "perf report --stdio", ("perf report -i %s --stdio"):format(path) },
}

-- Run it once -> true | false, why
local function measure(row)
  local out, err = dir .. "/out", dir .. "/err"
  os.execute(("%s/cost %s > %s 2> %s < /dev/null"):format(dir, row[2], out, err))
  local last
  for line in io.lines(err) do last = line end
  local cpu, _, kib, status = (last or ""):match("^([%d.]+) ([%d.]+) (%d+) (%d+)$")
  if status ~= "0" then
    local text = assert(io.open(err)):read("a")
    return false, text:match("^[^\n]*") or "?"
  end
  -- What counts has counted all.
  local said = row[3] and assert(io.open(out)):read("a")
  if said and not said:find(row[3]:format(records), 1, true) then
    return false, "counted " .. (said:match("%d+") or "nothing")
  end
  row.cpu[#row.cpu + 1] = tonumber(cpu)
  row.kib = math.max(row.kib or 0, tonumber(kib))
  return true
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local function rate(cpu) return records / math.max(cpu, 0.001) / 1e6 end

local function say(...) print(string.format(...)) end

local function first_line(command)
  local pipe = io.popen(command .. " 2>/dev/null")
  local line = pipe:read() or "?"
  pipe:close()
  return line
end

for _, row in ipairs(rows) do row.cpu = {} end
for _ = 1, runs do
  for _, row in ipairs(rows) do
    if not row.failed and (row.cpu[1] or 0) < SLOW then
      local ok, why = measure(row)
      row.failed = not ok and why or nil
    end
  end
end

local base
for _, row in ipairs(rows) do
  if row.base and not row.failed then base = median(row.cpu) end
end

say("replay of %d samples, %d MiB; %d runs of each, side by side", records,
  assert(io.open(path)):seek("end") >> 20, runs)
say("million records per second of CPU; %s\n", first_line "perf --version")
say("%-32s %8s %8s %12s %10s", "", "median", "best", "/perf script", "peak MiB")
for _, row in ipairs(rows) do
  if row.failed then
    say("%-32s not here: %s", row[1], row.failed:sub(1, 36))
  else
    local typical = median(row.cpu)
    say("%-32s %8.2f %8.2f %12s %10.1f", row[1], rate(typical), rate(row.cpu[1]),
      base and ("%.1f"):format(base / typical) or "-", row.kib / 1024)
  end
end
