-- story.lua - runs the same list of records, a step a millisecond, on the simulated kernel and as a recording. Both
-- must give the same results.
--
--   local stories = require "spec.support.story"(setup, teardown)
--   stories.told({ stories.app(7), stories.sample(7, { -512, 0x400110 }) }, function(r) return r.stack:folded() end)

local assert = require "luassert"
local elf = require "spec.support.elf"
local files_beside_real = require "spec.support.files_beside_real"
local sim = require "perfev.sim"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local MS = 1000000
local BITS = { "ip", "tid", "time", "cpu", "callchain", "identifier" }
local OSRELEASE, EVENT_DESC = 4, 12 -- HEADER_* of perf.data
local BUILD_ID = ("\1\2"):rep(10)

local dir

-- Files of the machine, both live and in replay.
local files = {
  ["/bin/app"] = elf.file { functions = { { "main", 0x1000, 0x100 }, { "work", 0x1100, 0x100 },
                                       { "helper", 0x1300, 0x10 } } },
  ["/bin/other"] = elf.file { functions = { { "start", 0x1000, 0x200 } } },
  ["/lib/one.so"] = elf.file { functions = { { "first", 0x2000, 0x80 } }, vaddr = 0x2000, build_id = BUILD_ID },
  ["/lib/two.so"] = elf.file { functions = { { "second", 0x1000, 0x80 } } },
  ["/lib/four.so"] = elf.file { functions = { { "a", 0x1000, 0x1000 }, { "b", 0x2000, 0x1000 }, { "c", 0x3000, 0x1000 },
                                              { "d", 0x4000, 0x1000 } } },
  ["/lib/_ZN3foo3barEv"] = elf.file { functions = { { "_ZN2ns4pickIiEEiT_", 0x1000, 0x80 } } },
  ["/tmp/perf-7.map"] = "30000 100 made\n30100 40 made again\nnot a line\n30100 20 twice;made\n",
  ["/proc/kallsyms"] = "ffffffff81000000 T _text\nffffffff81000100 t do_work\nffffffff81000200 T entry\n"
    .. "ffffffff81000300 D data\nffffffffa0000000 t mod_work\t[mod]\n",
  ["/proc/sys/kernel/osrelease"] = "6.1.0\n",
}

-- ---- steps of a story ----

local function mmap(pid, addr, len, path, more)
  local t = { type = "mmap2", pid = pid, tid = pid, addr = addr, len = len, pgoff = 0x1000, maj = 8, min = 1, ino = 1,
              ino_generation = 0, prot = 5, flags = 2, filename = path }
  for name, value in pairs(more or {}) do t[name] = value end
  return t
end
local function exec(pid, comm) return { type = "comm", pid = pid, tid = pid, comm = comm, misc = 0x2000 } end
local function comm(pid, name, tid) return { type = "comm", pid = pid, tid = tid or pid, comm = name } end
local function fork(pid, parent, tid)
  return { type = "fork", pid = pid, ppid = parent, tid = tid or pid, ptid = parent, time = 1 }
end
local function exit(pid) return { type = "exit", pid = pid, ppid = 1, tid = pid, ptid = 1, time = 1 } end
local function ksymbol(addr, name, flags)
  return { type = "ksymbol", addr = addr, len = 0x100, ksym_type = 1, flags = flags or 0, name = name }
end
local function sample(pid, chain, tid, misc)
  return { type = "sample", pid = pid, tid = tid or pid, ip = chain[2], callchain = chain, misc = misc or 2 }
end
local function app(pid) return { exec(pid, "app"), mmap(pid, 0x400000, 0x2000, "/bin/app") } end

-- Flattens a list of steps and of lists of steps.
local function flat(story)
  local out = {}
  for _, step in ipairs(story) do
    table.move(step.type and { step } or step, 1, step.type and 1 or #step, #out + 1, out)
  end
  return out
end

-- ---- running a story ----

local function copied(step)
  local t = {}
  for name, value in pairs(step) do t[name] = value end
  return t
end

-- opts: `words` of the event, for the kernel and for the recorded attr; `callbacks`; `files` and `links` that the
-- simulated machine has in addition; `finish`, called at the end of a replay while its machine is there
local function with(spec, more)
  for name, value in pairs(more or {}) do spec[name] = value end
  return spec
end

local function simulated(story, see, opts)
  local k = sim.new { cpus = "0" }
  opts, story = opts or {}, flat(story)
  local stats
  with(with(k.files, files), opts.files)
  with(k.links, opts.links)
  k:with(function()
    local s = perfev.session { duration = (#story + 300) .. "ms", buffer = "1M" }
    local spec = { type = 1, config = 0, sample_period = 1, callchain = true, sample = see }
    s:event(with(with(spec, opts.words), opts.callbacks))
    for i, step in ipairs(story) do
      k:after(i * MS, function() k:ring(0):push(copied(step)) end)
    end
    assert(s:run())
    stats = s:totals()
  end)
  return k, stats
end

-- The path of a story's recording.
local function path_of() return dir .. "/story.data" end

local function recorded(story, see, opts)
  opts = opts or {}
  local attr = { type = 1, config = 0, sample_type = BITS, sample_id_all = true, comm = true, task = true, mmap = true,
                 mmap2 = true, ksymbol = true }
  local b = perfdata.new { events = { { ids = { 11 }, name = "cpu-clock", attr = with(attr, opts.words) } },
                           endian = opts.endian }
  for i, step in ipairs(flat(story)) do
    local t = copied(step)
    if t.type == "sample" then
      t.time, t.cpu, t.identifier = i * MS, 0, 11
    else
      t.sample_id = { pid = t.pid or 0, tid = t.tid or 0, time = i * MS, cpu = 0, identifier = 11 }
    end
    b:add(t)
  end
  local path = path_of()
  local features = { [OSRELEASE] = string.pack("<s4", "6.1.0\0"), [EVENT_DESC] = b:event_desc() }
  for number, bytes in pairs(opts.features or {}) do features[number] = bytes or nil end
  run.write_file(path, b:file(features))
  local k = sim.new { cpus = "0" }
  with(with(k.files, files), opts.files)
  -- The recording is a real file; all other files belong to the story's machine.
  local hooks = files_beside_real(k)
  local said, stats = {}, nil
  perfev.hooks.with(hooks, function()
    local function log(level, text)
      if level == 0 then said[#said + 1] = text end
    end
    local s = perfev.session { input = path, log = log }
    s:event(with({ "cpu-clock", sample = see }, opts.callbacks))
    assert(s:run())
    stats = s:totals()
    if opts.finish then opts.finish() end
  end)
  return said, stats
end

-- Returns f's results for each sample, live and in replay; the kernel; and both sessions' totals.
local function told(story, f, opts)
  local live, file = {}, {}
  local k, of_kernel = simulated(story, function(r) live[#live + 1] = f(r) or false end, opts)
  local _, of_file = recorded(story, function(r) file[#file + 1] = f(r) or false end, opts)
  assert.same(live, file)
  return live, k, { of_kernel, of_file }
end

return function(setup, teardown)
  setup(function() dir = run.tempdir() end)
  teardown(function() run.remove(dir) end)
  return {
    files = files, mmap = mmap, exec = exec, comm = comm, fork = fork, exit = exit, ksymbol = ksymbol, sample = sample,
    app = app, simulated = simulated, recorded = recorded, told = told, copied = copied,
    path = path_of,
  }
end
