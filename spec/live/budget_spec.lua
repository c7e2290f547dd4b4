-- Budgets on the real kernel: 30 planted calls are named, and runs under load have one verdict.
-- PROOFS=long has all plants and 1,000 runs.

local perfev = require "perfev"
local plants_program = require "spec.support.plants"
local run = require "spec.support.run"

local is_long = os.getenv "PROOFS" == "long"

local it = plants_program.it_with_calls(it)

-- plant -> the call that is new, and the function that makes it (default: plant_NAME)
local plants = {
  { "openat", "openat" }, { "faults", "page-faults" }, { "futex", "futex" }, { "child", "geteuid" },
  { "library", "getgid" }, -- the short form has these
  { "read", "read" }, { "write", "write" }, { "close", "close" }, { "getpid", "getpid" }, { "getppid", "getppid" },
  { "stat", "newfstatat" }, { "access", "access" }, { "pipe", "pipe2" }, { "dup", "dup" }, { "fcntl", "fcntl" },
  { "ioctl", "ioctl" }, { "socket", "socket" }, { "sendto", "sendto" }, { "poll", "poll" }, { "select", "pselect6" },
  { "affinity", "sched_getaffinity" }, { "uname", "uname" }, { "getcwd", "getcwd" }, { "chdir", "chdir" },
  { "readlink", "readlink" }, { "unlink", "unlink" }, { "random", "getrandom" }, { "sigaction", "rt_sigaction" },
  { "kill", "kill" }, { "nanosleep", "clock_nanosleep" }, { "rusage", "getrusage" }, { "mmap", "mmap" },
  { "deep", "getuid" }, { "thread", "sysinfo" },
}
local SHORT = 5

local dir, program
setup(function()
  if not plants_program.has_tracefs then return end
  dir = run.tempdir()
  program = plants_program.build(dir)
end)
teardown(function()
  perfev.budget.close()
  if dir then run.remove(dir) end
end)

local function counts(one)
  local found = {}
  for _, row in ipairs(one.rows) do found[row.name] = row.count or row.why end
  return found
end

-- The budget of the program without a plant.
local function accepted_budget()
  local path = dir .. "/budgets.txt"
  local spec = { baseline = path, name = "plants" }
  for _, name in ipairs { "syscalls", "page-faults", "syscalls:futex" } do spec[name] = "any" end
  local b = perfev.budget(spec)
  local one = assert(b:measure_command { program, "none" })
  assert(b:save(one))
  local now = counts(one)
  spec.syscalls, spec["syscalls:futex"] = now.syscalls, now["syscalls:futex"]
  spec["page-faults"] = "<= " .. now["page-faults"] + 60
  return perfev.budget(spec)
end

-- True if a result names the call as new, with all that it has more of in that function.
local function is_named(one, call, func)
  for _, row in ipairs(one.rows) do
    for _, new in ipairs(row.new or {}) do
      local first = new.name == call and new.stacks[1]
      if first and (";" .. first.frames .. ";"):find(";" .. func .. ";", 1, true) then
        return call == "page-faults" or first.count == new.count - new.was
      end
    end
  end
  return false
end

-- Busy processes, in number twice the CPUs, until the function returns.
local function under_load(f)
  local pids, n = {}, 2 * math.tointeger(tonumber(run.capture "nproc"))
  for i = 1, n do
    pids[i] = run.capture "timeout 900 sh -c 'while :; do :; done' > /dev/null 2>&1 & echo $!"
  end
  local ended <close> = setmetatable({}, { __close = function() os.execute("kill " .. table.concat(pids, " ")) end })
  f()
  return ended
end

describe("a budget of a command", function()
  it("names the call and the function of each planted call", function()
    local b, missed = accepted_budget(), {}
    assert.is_true(b:measure_command({ program, "none" }).ok)
    for i = 1, is_long and #plants or SHORT do
      local plant, call = table.unpack(plants[i])
      local one = assert(b:measure_command { program, plant })
      if one.ok or not is_named(one, call, "plant_" .. plant) then
        missed[#missed + 1] = plant .. ": " .. tostring(one)
      end
    end
    assert.same({}, missed)
  end)

  it("has one verdict under load, whatever signals interrupt it", function()
    local b = accepted_budget()
    local reads = perfev.budget { ["syscalls:read"] = "any", stacks = false }
    local calm = counts(reads:measure_command { program, "interrupted", "0" })["syscalls:read"]
    local wrong = {}
    under_load(function()
      for _ = 1, is_long and 1000 or 5 do
        local one = b:measure_command { program, "none" }
        if not one.ok then wrong[#wrong + 1] = tostring(one) end
        local row = reads:measure_command({ program, "interrupted", "20" }).rows[1]
        -- Another user's BPF program may hide the interruptions.
        if row.count ~= calm and not row.skipped then wrong[#wrong + 1] = tostring(row.count or row.why) end
      end
    end)
    assert.same({}, wrong)
  end)

  it("reports the command's own failure by its status, and a command that cannot run", function()
    local b = perfev.budget { syscalls = "any" }
    local one = b:measure_command { "sh", "-c", "exit 7" }
    assert.same({ false, { exit = 7 } }, { one.ok, one.command_status })
    assert.matches("command: the command failed with status 7", tostring(one))
    assert.matches("killed by signal 9", tostring(b:measure_command { "sh", "-c", "kill -9 $$" }))
    local none, why = b:measure_command { "/nonexistent" }
    assert.is_nil(none)
    assert.matches("cannot run '/nonexistent'", why)
  end)
end)

describe("a budget of a function", function()
  local function read_file()
    local file = io.open "/etc/passwd"
    local text = file:read "a"
    file:close()
    return text
  end
  local limits = { syscalls = 5, ["page-faults"] = "<= 60", ["context-switches"] = 0 }

  it("has one verdict under load, and counts nothing of an empty function", function()
    local within, beyond = perfev.budget(limits), perfev.budget { syscalls = "<= 4", stacks = false }
    -- AddressSanitizer's own stack may have a page fault.
    local empty = perfev.budget { syscalls = 0, ["page-faults"] = not run.sanitized and 0 or nil,
      ["context-switches"] = 0 }
    local wrong = {}
    under_load(function()
      for _ = 1, is_long and 1000 or 20 do
        local one = within:measure(read_file)
        if not one.ok then wrong[#wrong + 1] = tostring(one) end
        if beyond:measure(read_file).ok then wrong[#wrong + 1] = "4 calls" end
        one = empty:measure(function() end)
        if not one.ok then wrong[#wrong + 1] = tostring(one) end
      end
    end)
    assert.same({}, wrong)
  end)

  it("opens and closes no event after the first measurement", function()
    local b, calls = perfev.budget(limits), {}
    b:measure(read_file)
    perfev.hooks.log(function(text) calls[text:match "^[%w_]+"] = true end)
    b:measure(read_file)
    perfev.hooks.log(nil)
    assert.same({ nil, nil, nil }, { calls.perf_event_open, calls.close, calls.mmap })
  end)

  it("names the line of Lua that makes a call, if asked", function()
    local here = debug.getinfo(1, "l").currentline
    local one = perfev.budget { syscalls = 0, lines = true }:measure(function()
      local file = io.open "/etc/passwd"
      file:close()
    end)
    assert.matches("openat: 1\n      1 in [^\n]* < [^\n]*budget_spec.lua:" .. here + 2 .. "\n", tostring(one) .. "\n")
    assert.is_nil(debug.gethook())
  end)

  it("counts its child processes only if asked", function()
    local function start() os.execute "true" end
    local alone = perfev.budget { ["syscalls:execve"] = 0 }:measure(start)
    assert.is_true(alone.ok, tostring(alone))
    local both = perfev.budget { ["syscalls:execve"] = 1, children = true }:measure(start)
    assert.is_true(both.ok, tostring(both)) -- sh executes true itself
  end)

  it("counts the pages that it touches, in the function that touches them", function()
    local big
    local one = perfev.budget { ["page-faults"] = "<= 40" }:measure(function() big = ("x"):rep(4 << 20) end)
    assert.equal(4 << 20, #big)
    assert.is_false(one.ok)
    assert.truthy(one.rows[1].new[1].stacks[1].frames:find "str_rep" or one.rows[1].new[1].stacks[1].frames:find "lua")
  end)
end)
