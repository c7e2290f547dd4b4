-- os.exit() in a callback, in both its forms, over the simulated kernel: the process ends there, with that status, and
-- earlier output is flushed. The sanitizers check the closing form, in which all finalizers run in the middle of a
-- drain.

local run = require "spec.support.run"

local dir = run.tempdir()
teardown(function() run.remove(dir) end)

local function file(name, text)
  return run.write_file(dir .. "/" .. name, text)
end

-- One record of each type that a script can ask for, on both CPUs.
local world = file("world.lua", [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", tasks = { [11] = "eleven" } }
local records = {
  { type = "sample", pid = 11, ip = 1 }, { type = "comm", pid = 11, comm = "c" },
  { type = "fork", pid = 12, ppid = 11, tid = 12, ptid = 11 },
  { type = "exit", pid = 12, ppid = 11, tid = 12, ptid = 11 }, { type = "switch", out = true },
  { type = "mmap2", pid = 11, addr = 4096, len = 4096, pgoff = 0, maj = 8, min = 1, ino = 5, ino_generation = 0,
    prot = 5, flags = 2, filename = "/bin/true" },
  { type = "lost", id = 1, lost = 3 }, { type = "throttle", time = 1, id = 1, stream_id = 1 },
  { type = "unthrottle", time = 1, id = 1, stream_id = 1 }, { type = "namespaces", pid = 11, tid = 11,
    namespaces = {} },
  { type = "ksymbol", addr = 1, len = 2, ksym_type = 1, flags = 0, name = "k" },
  { type = "bpf_event", bpf_type = 1, flags = 0, id = 2, tag = ("x"):rep(8) },
  { type = "cgroup", id = 3, path = "/a" },
  { type = "text_poke", addr = 1, old_len = 1, new_len = 1, bytes = "ab" },
}
k:every("10ms", 4, function()
  for cpu = 0, 1 do
    for _, record in ipairs(records) do
      record.sample_id = record.type ~= "sample" and { pid = 11, tid = 11 } or nil -- perfl leaves itself out
      k:ring(cpu):push(record)
    end
  end
end)
k:after("15ms", function() k:signal(10) end)
return k
]])

local script = file("script.lua", [[
local perfev = require "perfev"
local where, close = ...
local function leave()
  io.write("left\n")
  if close == "true" then os.exit(true, true) end
  os.exit(7)
end
local spec = { "cpu-clock", freq = 99, comm = true, task = true, mmap = true, mmap2 = true, context_switch = true,
               ksymbol = true, bpf_event = true, cgroup = true, namespaces = true, text_poke = true }
if where ~= "record" then spec.sample = function() end end
if where == "begin" or where == "done" then
  perfev[where](leave)
elseif where == "every" then
  perfev.every("5ms", leave)
elseif where == "signal" then
  perfev.signal("USR1", leave)
else
  spec[where] = leave
end
perfev.event(spec)
]])

local callbacks = {
  "sample", "comm", "fork", "exit", "switch", "mmap", "lost", "throttle", "namespaces", "ksymbol",
  "bpf", "cgroup", "text_poke", "record", "begin", "done", "every", "signal",
}

describe("os.exit in a callback", function()
  for _, where in ipairs(callbacks) do
    it(("of %s ends the process, with and without closing the state"):format(where), function()
      for close, status in pairs { [false] = 7, [true] = 0 } do
        local r = run { run.perfl, "--sim", world, "-a", "-d", "60ms", script, where, tostring(close) }
        assert.same({ "left\n", "", status }, { r.out, r.err, r.code })
      end
    end)
  end
end)
