-- agents.lua - runs `perfl agent` on simulated machines with known totals, for specs of many machines.
--
--   local agents = require "spec.support.agents"
--   local one = agents.start { dir =, host = "m1", url = server.url, job = agents.job(dir), machine = "1-1" }
--   one:wait_for "event=connected"            -- a line of its log
--   one:stop()                                -- SIGTERM; returns its exit status and its log
--
-- A world has four seconds. With `gate` it stops after each second until open(n) lets it go on, so that a spec can
-- kill something in between without any sleeping.

local numbered_machines = require "spec.support.numbered_machines"
local run = require "spec.support.run"

local M = {}

M.WORLD = numbered_machines.world(numbered_machines.records("2 + any(5)", 900), [[
local gate_file = io.open "gate" -- in the agent's own directory
if gate_file then
  gate_file:setvbuf "no" -- the lines of the next worker stay in the pipe
  for second = 1, 3 do
    k:after(second * 1000000000 + 50000000, function()
      io.stderr:write("at second ", second, "\n")
      gate_file:read "l"
    end)
  end
end
]])

M.SCRIPT = [[
local perfev = require "perfev"
local _ = ... -- the name of the gate: a sandbox lets the world read files that the command line names
local by = "comm"
local all = {
  perfev.count {}, perfev.count { by = by }, perfev.top { by = by }, perfev.sum { by = by, value = "period" },
  perfev.avg { by = by, value = "period" }, perfev.min { by = by, value = "period" },
  perfev.max { by = by, value = "period" }, perfev.stats { by = by, value = "period" },
  perfev.hist { by = by, value = "period", unit = "ns" }, perfev.quantile { by = by, value = "period" },
  perfev.hist { value = "period", low = 0, high = 1000, step = 100 },
  perfev.count { by = { "tid", "cpu" }, where = { "period", ">=", 10 }, title = "large ones" },
}
local profile = perfev.profile { title = "stacks", values = { "samples", { "work", unit = "ns" } } }
local callbacks = table.move(all, 1, #all, 1, {})
callbacks[#callbacks + 1] = profile:sampler { under = "comm", value = "period" }
perfev.event { "cpu-clock", sample_type = { "period" }, callchain = true, sample = callbacks }
perfev.done(function()
  for _, one in ipairs(all) do one:print "json" end
  io.write(profile:folded { value = "samples" }, profile:folded { value = "work" })
end)
]]

--- Writes the world and the script into a directory.
function M.write_files(dir)
  run.write_file(dir .. "/world.lua", M.WORLD)
  run.write_file(dir .. "/all.lua", M.SCRIPT)
end

--- The section of a job that counts all records of the machine.
function M.job(dir)
  return ("[job all]\nscript = %s/all.lua\nargs = --sim %s/world.lua -a gate\ninterval = 1s\nrestart = on-failure\n")
    :format(dir, dir)
end

-- ---- waiting ----

--- Calls f until it returns a value; an error after 60 s.
function M.wait(what, f)
  for _ = 1, 1200 do
    local value = f()
    if value then return value end
    os.execute "sleep 0.05"
  end
  error("waited 60 s for " .. what)
end

-- ---- an agent ----

local Agent = {}
Agent.__index = Agent
local nr = 0

function Agent:log() return run.slurp(self.base .. ".log") or "" end

--- Waits for a text in the log, from the n-th line that has it on -> the line
function Agent:wait_for(text, count)
  return M.wait(("'%s' in the log of %s:\n%s"):format(text, self.host, self:log()), function()
    local seen = 0
    for line in self:log():gmatch "[^\n]+" do
      if line:find(text, 1, true) then seen = seen + 1 end
      if seen == (count or 1) then return line end
    end
    return run.slurp(self.base .. ".status") and error(("%s ended:\n%s"):format(self.host, self:log())) or nil
  end)
end

--- Sends a signal.
function Agent:kill(signal) os.execute(("kill -%s %d"):format(signal, self.pid)) end

--- Waits for its end -> exit status, log
function Agent:wait()
  local status = M.wait("the end of " .. self.host, function()
    return tonumber((run.slurp(self.base .. ".status")))
  end)
  self.has_ended = true
  return status, self:log()
end

function Agent:stop()
  if not self.has_ended then self:kill "TERM" end
  return self:wait()
end

--- Lets the world go on, for so many seconds of its own.
function Agent:open(seconds)
  self.gate:write(("\n"):rep(seconds))
  self.gate:flush()
end

--- Waits until the world is at the gate after that second: its frames are written.
function Agent:wait_at(second) self:wait_for(("at second %d"):format(second)) end

--- Ends what is left; for teardown.
function Agent:remove()
  if not self.has_ended then
    self:kill "KILL"
    self:wait()
  end
  if self.gate then self.gate:close() end
end

--- @tparam table opt  `dir`, `host`, `url`; `config`: more of the configuration; `job`; `machine`: of the world;
--                     `gate`: true; `state`: a directory; `env`: variables; `top`: of its first lines
function M.start(opt)
  nr = nr + 1
  local self = setmetatable({ host = opt.host, base = ("%s/%s.%d"):format(opt.dir, opt.host, nr) }, Agent)
  self.path = run.write_file(self.base .. ".conf", ("host = %s\n%s\n[server]\nurl = %s\n%s\n%s"):format(opt.host,
    opt.top or "", opt.url, opt.config or "", opt.job or ""))
  local env = table.move(opt.env or {}, 1, #(opt.env or {}), 2, { "MACHINE=" .. (opt.machine or "1-1") })
  -- LeakSanitizer uses ptrace(2), which the sandbox of a worker refuses.
  if run.sanitized then env[#env + 1] = "ASAN_OPTIONS=detect_leaks=0" end
  if opt.state then env[#env + 1] = "STATE_DIRECTORY=" .. opt.state end
  assert(os.execute("mkdir " .. self.base))
  if opt.gate then
    assert(os.execute(("mkfifo %s/gate"):format(self.base)))
    self.gate = assert(io.open(self.base .. "/gate", "r+"))
  end
  assert(os.execute(([[cd %s && { env %s timeout -k 5 600 sh -c 'echo $$ > %s.pid; exec "$0" "$@"' %s agent -c %s;
    echo $? > %s.status; } > /dev/null 2> %s.log < /dev/null &]]):format(self.base, table.concat(env, " "), self.base,
    run.quote(run.perfl), self.path, self.base, self.base)))
  self.pid = M.wait("a pid", function() return tonumber((run.slurp(self.base .. ".pid"))) end)
  return self
end

return M
