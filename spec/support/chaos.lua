-- chaos.lua - simulated agents, a collector and what they must agree on, for spec/fleet/chaos_spec.lua.

local deltas = require "spec.support.deltas"
local json = require "perfev.base.json"
local run = require "spec.support.run"

local M = {}
local Chaos = {}
Chaos.__index = Chaos

--- @tparam string url  of the servers
function M.new(url)
  return setmetatable({ url = url, dir = run.tempdir(), groups = {}, starts = 0 }, Chaos)
end

function M.sleep(seconds) os.execute(("sleep %g"):format(seconds)) end

-- The file has the pid of the program, not of timeout(1), which ends with it.
local function start(self, name, words)
  for i, word in ipairs(words) do words[i] = run.quote(word) end
  assert(os.execute(("timeout -k 1 400 sh -c 'echo $$ > %s/%s.pid; exec \"$@\"' sh %s >>%s/%s.out 2>&1 </dev/null &")
    :format(self.dir, name, table.concat(words, " "), self.dir, name)))
  for _ = 1, 200 do
    if (run.slurp(("%s/%s.pid"):format(self.dir, name)) or ""):find "\n" then return end
    M.sleep(0.02)
  end
  error(name .. " does not start")
end

local function signal(self, name, sig)
  local pid = run.slurp(("%s/%s.pid"):format(self.dir, name))
  if pid then os.execute(("kill -%s %d 2>/dev/null"):format(sig, pid)) end
end

local function is_running(self, name)
  local pid = run.slurp(("%s/%s.pid"):format(self.dir, name))
  return pid and os.execute(("kill -0 %d 2>/dev/null"):format(pid)) and true
end

--- Starts ten agents: group 1 has sim-1 .. sim-10.
function Chaos:agents(group, seconds, period_ms)
  self.groups[group] = true
  start(self, "agents" .. group, { "lua5.4", "spec/support/simulated_agents.lua", self.url, tostring(group * 10 - 9),
    "10", tostring(seconds), tostring(period_ms), ("%s/agents%d.log"):format(self.dir, group) })
end

--- SIGKILL for a group of agents.
function Chaos:kill_agents(group)
  self.groups[group] = false
  signal(self, "agents" .. group, "KILL")
end

--- Waits until the agents have ended, at most that long.
function Chaos:join_agents(seconds)
  for _ = 1, seconds * 10 do
    local nr = 0
    for group in pairs(self.groups) do nr = nr + (is_running(self, "agents" .. group) and 1 or 0) end
    if nr == 0 then return end
    M.sleep(0.1)
  end
  error "the agents do not end"
end

function Chaos:collector()
  os.remove(self.dir .. "/collector.pid")
  start(self, "collector", { run.perfl, "collect", "-s", self.url, "--job", "sim", "--to", self.dir .. "/rows" })
end

--- Ends the collector by a signal, and waits until it has ended.
function Chaos:end_collector(sig)
  signal(self, "collector", sig)
  for _ = 1, 100 do
    if not is_running(self, "collector") then return end
    M.sleep(0.1)
  end
  error "the collector does not end"
end

function Chaos:collector_text() return run.slurp(self.dir .. "/collector.out") or "" end

--- Reads the whole stream once more, into the same files.
function Chaos:collect_again()
  return run({ run.perfl, "collect", "-s", self.url, "--job", "sim", "--to", self.dir .. "/rows", "--from", "2h",
    "--once" }, { timeout = 120 })
end

-- What the agents' logs say: host -> fed, acked (by name), deltas (by name)
local function read_logs(self)
  local hosts, totals = {}, { duplicates = 0, coalesced = 0, left = 0 }
  local function host_of(name)
    hosts[name] = hosts[name] or { fed = 0, acked = {}, deltas = {} }
    return hosts[name]
  end
  for group, survived in pairs(self.groups) do
    for line in io.lines(("%s/agents%d.log"):format(self.dir, group)) do
      local event, host, rest = line:match "^(%l+) (sim%-%d+) ?(.*)$"
      local one = host and host_of(host)
      if one then one.survived = survived end
      if event == "fed" then
        one.fed = tonumber(rest) or one.fed
      elseif event == "acked" then
        local name, n = rest:match "^(%l+) (%d+)$"
        if n then one.acked[name], one.deltas[name] = tonumber(n), (one.deltas[name] or 0) + 1 end
      elseif event == "duplicate" then
        totals.duplicates = totals.duplicates + 1
      elseif event == "coalesced" then
        totals.coalesced = totals.coalesced + 1
      elseif event == "left" then
        totals.left = totals.left + 1
      end
    end
  end
  return hosts, totals
end

--- Waits until the agents have fed this many intervals more.
function Chaos:wait_for_fed(nr)
  local function nr_fed()
    return tonumber(run.capture(("cat %s/agents*.log | grep -c '^fed'"):format(self.dir)))
  end
  local wanted = nr_fed() + nr
  for _ = 1, 600 do
    if nr_fed() >= wanted then return end
    M.sleep(0.1)
  end
  error "the agents feed no more"
end

-- What is on the disk: host -> name -> { a =, b =, frames = }
local function read_rows(self)
  local hosts = {}
  local function of(row)
    hosts[row.host] = hosts[row.host] or {}
    hosts[row.host][row.name] = hosts[row.host][row.name] or { a = 0, b = 0, frames = 0 }
    return hosts[row.host][row.name]
  end
  local files = run.capture(("find %s/rows -name 'sim-*'"):format(self.dir)) or ""
  for path in files:gmatch "[^\n]+" do
    for line in io.lines(path) do
      local row = assert(json.decode(line))
      local one = of(row)
      if path:find "%.frames$" then
        one.frames = one.frames + 1
      else
        local key = row.comm or "a"
        one[key] = one[key] + row.value
      end
    end
  end
  return hosts
end

--- Compares the agents' logs with the rows.
-- @treturn table  `hosts`, `survivors`, `exact` (survivors whose rows are what was fed), `lost` (intervals of killed
--   agents that are not in the rows), `unacked` (intervals of killed agents without acknowledgement), `wrong` (list of
--   texts: rows that are no beginning of what was fed, or lack something acknowledged), `fed`, `frames`, `deltas`
function Chaos:compare()
  local logs, totals = read_logs(self)
  local rows = read_rows(self)
  local result = { hosts = 0, survivors = 0, exact = 0, lost = 0, unacked = 0, wrong = {}, fed = 0, frames = 0,
                   deltas = 0, duplicates = totals.duplicates, coalesced = totals.coalesced, left = totals.left }
  for host, log in pairs(logs) do
    result.hosts, result.fed = result.hosts + 1, result.fed + log.fed
    if log.survived then result.survivors = result.survivors + 1 end
    local exact = 0
    for _, name in ipairs { "calls", "stacks" } do
      local row = rows[host] and rows[host][name] or { a = 0, b = 0, frames = 0 }
      -- The sum of 1 .. n tells how many intervals the rows have.
      local n = math.floor((math.sqrt(8 * row.a + 1) - 1) / 2 + 0.5)
      local acked = log.acked[name] or 0
      result.frames, result.deltas = result.frames + row.frames, result.deltas + (log.deltas[name] or 0)
      if n * (n + 1) // 2 ~= row.a or name == "calls" and row.b ~= n then
        table.insert(result.wrong, ("%s %s: a %d, b %d"):format(host, name, row.a, row.b))
      elseif n < acked or n > log.fed then
        table.insert(result.wrong, ("%s %s: %d of %d, %d acknowledged"):format(host, name, n, log.fed, acked))
      end
      if n == log.fed then exact = exact + 1 end
      if not log.survived then
        result.lost, result.unacked = result.lost + log.fed - n, result.unacked + log.fed - acked
      end
    end
    if log.survived and exact == 2 then result.exact = result.exact + 1 end
  end
  return result
end

local function nr_rows(self)
  return run.capture(("cat $(find %s/rows -name 'sim-*.frames') /dev/null | wc -l"):format(self.dir))
end

--- How many pairs of host and name have frames.
function Chaos:nr_seen()
  local nr = 0
  for _, names in pairs(read_rows(self)) do
    for _ in pairs(names) do nr = nr + 1 end
  end
  return nr
end

--- Waits until the collector has written nothing for two seconds, or until f(number of frames) is true.
function Chaos:wait_for_rows(f)
  local before, since = nil, 0
  for _ = 1, 300 do
    local now = nr_rows(self)
    if f and f(tonumber(now)) then return end
    since = now == before and since + 1 or 0
    if not f and since >= 20 then return end
    before = now
    M.sleep(0.1)
  end
  error "the collector does not go on"
end

--- Ends what still runs.
function Chaos:close()
  for group in pairs(self.groups) do signal(self, "agents" .. group, "KILL") end
  signal(self, "collector", "KILL")
  M.sleep(0.1)
  run.remove(self.dir)
end

--- A connection that makes the stream.
function M.publisher(url, more) return deltas.publisher(url, more) end

return M
