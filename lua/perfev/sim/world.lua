--- A world as a list of steps: records, losses, signals and failures of calls, each a table.
--
--   return perfev.sim.world { cpus = "0-1",
--     { at = 1000, cpu = 0, type = "sample", event = "sched:sched_waking", pid = 7, args = { pid = 8 } },
--     { at = 2000, cpu = 1, type = "exit", pid = 7 },
--     { fail = "mmap", nth = 2, errno = "ENOMEM" },
--   }

local core = require "perfev.core"
local kernels = require "perfev.event.kernel_versions"
local payload = require "perfev.sim.payload"
local repeated_record = require "perfev.sim.repeated_record"
local sorted_keys = require("perfev.base.tables").sorted_keys
local tracepoints = require "perfev.sim.tracepoints"

local M = {}

-- Fields of a step that are not fields of its record.
local own = { at = true, late = true, via = true, cut = true, outside = true, part = true }

local OUTSIDE = 0x7ff07fff -- a __data_loc word whose bytes lie outside of any payload
local FIRST_ID = 2000
local EVENTS = "/sys/kernel/tracing/events/"

-- The payload of a sample whose bytes are damaged: `cut` to a length; the text of the field `outside` not in it.
local function damaged(tp, args, step)
  local raw = payload.pack(tp, args)
  for _, field in ipairs(tp.fields) do
    if field.name == step.outside and field.dynamic then
      raw = raw:sub(1, field.offset) .. string.pack("=I4", OUTSIDE) .. raw:sub(field.offset + 5)
    end
  end
  return step.cut and raw:sub(1, step.cut) or raw
end

local function find_tracepoint(k, name)
  local id = tonumber((k.files[EVENTS .. name:gsub(":", "/") .. "/id"]))
  return k.tracepoints[math.tointeger(id)]
end

-- The arguments that this kernel's format has: a world also runs on a kernel that lacks a field.
local function known_args(tp, args)
  local known = {}
  for _, field in ipairs(tp.fields) do known[field.name] = args[field.name] end
  return known
end

-- The record of a step, as Cpu:push takes it; nil if this kernel lacks its tracepoint.
local function record_of(k, step, time)
  local record = {}
  for name, value in pairs(step) do
    if not own[name] then record[name] = value end
  end
  record.time, record.cpu = time, step.cpu
  if step.type ~= "sample" then
    record.sample_id = { time = time, cpu = step.cpu, pid = step.pid, tid = step.tid or step.pid }
    record.cpu = nil
  end
  if step.args then
    local tp = find_tracepoint(k, step.event)
    if not tp then return nil end
    record.args = known_args(tp, step.args)
    if step.cut or step.outside then record.args, record.raw = nil, damaged(tp, record.args, step) end
  end
  return record
end

local function push(k, step, time)
  local record = record_of(k, step, time)
  if record then k:ring(step.via or step.cpu or 0):push(record) end
end

local function pause_rings(k, cpu, paused)
  for ring in pairs(k.rings) do
    if ring.cpu == cpu or ring.cpu == -1 then ring.paused = paused end
  end
end

local function add_loss(k, step)
  k:after(step.at, function() pause_rings(k, step.cpu, true) end)
  k:after(step.at + step.lose, function() pause_rings(k, step.cpu, false) end)
end

local RECORDS_AT_ONCE = 200 -- they fit in a ring of 64 KiB

-- The steps of a step, again and again. Several repetitions are pushed at once, with their own times, because each
-- action wakes the reader.
local function add_repetition(k, step)
  local at_once, i = math.max(1, RECORDS_AT_ONCE // math.max(1, #step)), 0
  local begin, writers = k.start + step.at, {}
  for nr, one in ipairs(step) do
    writers[nr] = repeated_record.new(k, one, step.times, function(values, time) return record_of(k, values, time) end)
  end
  local function some()
    local last = math.min(i + at_once, step.times)
    for _, writer in ipairs(writers) do writer:listen() end
    while i < last do
      for _, writer in ipairs(writers) do writer:push(i, begin + i * step.every + writer.at) end
      i = i + 1
    end
    if i < step.times then k:after(math.min(at_once, step.times - i) * step.every, some) end
  end
  k:after(step.at + math.min(at_once, step.times) * step.every, some)
end

local function add(k, step)
  if step.fail then return k:fail(step.fail, step.nth or 1, core.errno[step.errno]) end
  if step.lose then return add_loss(k, step) end
  if step.times then return add_repetition(k, step) end
  if step.interrupt then
    return k:after(step.at, function() k.interrupt() end)
  end
  local time = k.start + step.at
  k:after(step.at + (step.late or 0), function() push(k, step, time) end)
end

local function remove_tracepoint(k, id, tp)
  local dir = EVENTS .. tp.system .. "/" .. tp.name
  k.tracepoints[id], k.files[dir .. "/id"], k.files[dir .. "/format"] = nil, nil, nil
end

local function is_newer(name, release)
  local since = release and tracepoints.since[name]
  return since and kernels.number(since) > kernels.number(release)
end

-- Replaces the tracepoints of the ready-made kernel by those of tracepoints.lua and of the world.
local function set_tracepoints(k, of_world)
  local fields = {}
  for name, text in pairs(tracepoints.fields) do fields[name] = not is_newer(name, k.release) and text end
  for name, text in pairs(of_world) do fields[name] = text end
  for id, tp in pairs(k.tracepoints) do
    if fields[tp.system .. ":" .. tp.name] ~= nil then remove_tracepoint(k, id, tp) end
  end
  for i, name in ipairs(sorted_keys(fields)) do
    if fields[name] then k:tracepoint(name, FIRST_ID + i, fields[name], tracepoints.print_formats[name]) end
  end
end

-- What every machine has: functions of the kernel, and probes.
local function add_files(k)
  k.files["/proc/kallsyms"] = "ffffffff81000100 T leaf\nffffffff81000200 T middle\nffffffff81000300 T root\n"
  for _, name in ipairs { "kprobe_events", "uprobe_events" } do k.files["/sys/kernel/tracing/" .. name] = "" end
end

--- Makes the kernel of a world, without its steps.
-- @tparam table world     options of sim.new (`world`: vm); `tracepoints`: name -> fields, or false: missing
-- @tparam function new    sim.new
-- @treturn kernel
function M.kernel(world, new)
  local opts = { world = "vm" }
  for name, value in pairs(world) do
    if type(name) == "string" and name ~= "tracepoints" then opts[name] = value end
  end
  local k = new(opts)
  if opts.world == "vm" then
    set_tracepoints(k, world.tracepoints or {})
    add_files(k)
  end
  return k
end

--- Plans the steps of a world on a kernel.
function M.add_steps(k, world)
  k.interrupt = k.interrupt or function() k:signal(2) end
  for _, step in ipairs(world) do add(k, step) end
  return k
end

return M
