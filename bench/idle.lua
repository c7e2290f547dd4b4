-- idle.lua - prints how often a command wakes up in a second, or its ms of CPU in a second, while it waits.
-- lua5.4 bench/idle.lua wakeups|cpu SECONDS COMMAND
--
-- Start and end are left out: the command runs for some seconds before the measurement, and is then ended.

local START = 2 -- seconds

local what, seconds, command = arg[1], tonumber(arg[2]), arg[3]
local pipe = assert(io.popen(command .. " > /dev/null 2>&1 & echo $!"))
local pid = pipe:read "n"
pipe:close()

local function sum_of_tasks(file, pattern)
  local list <close> = assert(io.popen(("cat /proc/%d/task/*/%s"):format(pid, file)))
  local sum = 0
  for line in list:lines() do sum = sum + (tonumber(line:match(pattern)) or 0) end
  return sum
end

local function read()
  if what == "wakeups" then return sum_of_tasks("status", "^voluntary_ctxt_switches:%s*(%d+)") end
  return sum_of_tasks("schedstat", "^%d+") / 1e6
end

os.execute("sleep " .. START)
local before = read()
os.execute("sleep " .. seconds)
local after = read()
os.execute(("kill %d && tail --pid=%d -s 0.1 -f /dev/null"):format(pid, pid))
assert(before > 0, "it ended before it was measured")
print(("%.4f"):format((after - before) / seconds))
