--- Reads a file as a profile: a recording, folded stacks, a packed aggregator or a packed profile.

local agg = require "perfev.aggregate.aggregator"
local escape = require "perfev.base.escape"
local pack = require "perfev.aggregate.pack"
local profiles = require "perfev.profile"
local session = require "perfev.live.session"

local M = {}

local RECORDINGS = { PERFILE2 = true, ["2ELIFREP"] = true } -- magic2 of tools/perf/util/header.c, in both byte orders
local PACK = "perfevAG" -- perfev.aggregate.pack
local MAGIC_BYTES = 8

local quantities = { ns = "time", bytes = "size", count = "samples" } -- unit -> name of a value type

local function name_of(path) return path:match "([^/]+)/*$" or path end

local function values_in(unit) return { { quantities[unit] or unit, unit = unit } } end

-- A message with the file's name, which those of recordings have already.
local function named(kind, path, why) return kind == "recording" and why or ("%s: %s"):format(escape(path), why) end

-- ---- the kinds of files ----

local function read_recording(tool, who, path, opt)
  local s = session.new()
  session.configure_reader(s, path)
  local profile = profiles { title = opt.title }
  local name = opt.event or "cpu-clock"
  local is_busy = { "tid", "!=", 0 } -- not the idle task
  local ev = s:event { tool.sampled_event(name), callchain = true,
    sample = opt.by ~= "binary" and profile:sampler { under = "comm", where = is_busy } or function(r)
      if r.tid ~= 0 then profile:add_under(r.task.exe and name_of(r.task.exe) or r.comm or "[unknown]", r.stack) end
    end }
  if name == "cpu-clock" then
    s:begin(function() tool.replaced_clock(who, ev, opt.command or ("perfl %s %s"):format(who, path)) end)
  end
  local ok, why = s:run()
  if not ok then return nil, why end
  profile:resolve()
  return profile
end

local function read_folded(text, opt)
  return profiles.read(text, { title = opt.title, values = opt.values or values_in(opt.unit or "count") })
end

local is_stack = { stack = true, ustack = true, kstack = true }

-- Returns the value that is compared of a packed profile; the first one if the caller does not name it.
local function read_packed_profile(packed, opt)
  local names, index = {}, not opt.values and 1 or nil
  for i, value in ipairs(packed.values) do
    names[i] = value.name
    if opt.values and value.name == opt.values[1].name then index = i end
  end
  if not index then
    return nil, ("the pack has %s, and the profile %s"):format(table.concat(names, ", "), opt.values[1].name)
  end
  local profile = profiles { title = opt.title or packed.title, values = { packed.values[index] } }
  for stack, values in packed:stacks() do profile:add(stack, values[index]) end
  return profile
end

-- The columns of the key become frames, in their order; a stack is all its frames.
local function read_pack(bytes, opt)
  local packed, why = pack.unpack(agg, profiles, bytes, nil, 2)
  if not packed then return nil, why end
  if getmetatable(packed) == profiles._class then return read_packed_profile(packed, opt) end
  local spec = packed:spec()
  if spec.kind ~= "count" and spec.kind ~= "sum" then
    return nil, ("the pack is a perfev.%s: its values cannot be added to those of callers\n"
      .. "  try: the pack of a perfev.count or perfev.sum"):format(spec.kind)
  end
  local values = opt.values or values_in(opt.unit or spec.unit or "count")
  if opt.values and spec.unit and spec.unit ~= values[1].unit then
    local quantity = quantities[spec.unit] or escape(spec.unit)
    return nil, ("the pack has %s, and the profile %s"):format(quantity, values[1].name)
  end
  local profile = profiles { title = opt.title, values = values }
  for _, row in ipairs(packed:rows()) do
    local frames = {}
    for i, name in ipairs(spec.by) do
      frames[i] = is_stack[name] and row[name] or tostring(row[name]):gsub(";", ":")
    end
    profile:add(table.concat(frames, ";"), row.value)
  end
  return profile
end

-- ---- other things than functions ----

local function outermost(stack) return { stack[#stack].symbol } end

-- The files of a stack's frames, the innermost first; consecutive frames of one file are one.
local function files_of(stack)
  local files = {}
  for _, frame in ipairs(stack) do
    local name = frame.module and name_of(frame.module)
    if name and files[#files] ~= name then files[#files + 1] = name end
  end
  return files[1] and files or { "[unknown]" }
end

local frames_by = { comm = outermost, binary = outermost, dso = files_of }

-- Returns the profile with other frames in the place of functions.
local function by(profile, what)
  local result = profiles { title = profile.title, values = profile.values }
  for stack, values in profile:stacks() do result:add(frames_by[what](stack), table.unpack(values)) end
  return result
end

-- ---- any file ----

-- Returns the file's kind, and its text unless it is a recording.
local function read_file(path)
  local file <close>, why = io.open(path, "rb")
  if not file then return nil, escape(why) end
  local magic, text
  magic, why = file:read(MAGIC_BYTES)
  if why then return nil, ("%s: %s"):format(escape(path), why) end
  if RECORDINGS[magic] then return "recording" end
  text, why = file:read "a"
  if not text then return nil, ("%s: %s"):format(escape(path), why) end
  return magic == PACK and "pack" or "folded", (magic or "") .. text
end

--- See perfev.tool.read_profile.
-- @tparam table tool  the module perfev.tool, which loads this one
function M.read(tool, who, path, opt)
  local kind, text = read_file(path)
  if not kind then return nil, text end
  if kind ~= "recording" and (opt.by == "dso" or opt.by == "binary") then
    return nil, ("%s: its stacks do not name %s\n  try: a recording, or comm: the first frame of each stack"):format(
      escape(path), opt.by == "dso" and "the files of functions" or "programs")
  end
  local profile, why
  if kind == "recording" then
    profile, why = read_recording(tool, who, path, opt)
  else
    profile, why = (kind == "pack" and read_pack or read_folded)(text, opt)
  end
  if not profile then return nil, named(kind, path, why) end
  return opt.by and by(profile, opt.by) or profile
end

-- ---- baselines ----

local TRACEPOINT = 2 -- PERF_TYPE_TRACEPOINT: the number of an event differs from machine to machine

local function is_same_event(attr, other)
  return not attr or not other or attr.type == other.type
    and (attr.type == TRACEPOINT or attr.config == other.config)
end

-- Returns the content of a profile as a new one, with this number of value types.
local function copy_of(profile, nr)
  local copy = profiles { values = table.move(profile.values, 1, nr, 1, {}) }
  for stack, values in profile:stacks() do copy:add(stack, table.unpack(values, 1, nr)) end
  return copy
end

-- Reads a recording with the events and callbacks of the default session, which fill the profile, and empties it for
-- the session. If the session has other events, as a clock instead of cycles, only the first value type is compared:
-- the number of samples.
local function replay(tool, who, path, profile)
  local s, is_same, declared = session.new(), true, session.default().events
  local command = ("perfl %s --baseline %s"):format(who, path)
  session.configure_reader(s, path)
  for _, ev in ipairs(declared) do s:event(ev.decl.spec) end
  s:begin(function()
    for i, ev in ipairs(declared) do
      if ev.decl.text == tool.sampled_event "cpu-clock" then tool.replaced_clock(who, s.events[i], command) end
      is_same = is_same and is_same_event(ev.attr, s.events[i].attr)
    end
  end)
  local ok, why = s:run()
  if not ok then return nil, why end
  local baseline = copy_of(profile, is_same and #profile.values or 1)
  profile:clear()
  for _, sampler in ipairs(profile.samplers) do agg.clear_spans(sampler.from) end
  return baseline
end

--- Reads the baseline of a script's profile, which is still empty; called when the default session starts.
-- @tparam table tool  the module perfev.tool, which loads this one
-- @treturn[1] profile  its title is the file's name
-- @treturn[2] nil
-- @treturn[2] string  the cause
function M.read_baseline(tool, who, path, profile)
  local kind, text = read_file(path)
  if not kind then return nil, text end
  local baseline, why
  if kind == "recording" then
    baseline, why = replay(tool, who, path, profile)
  else
    baseline, why = (kind == "pack" and read_pack or read_folded)(text, { values = { profile.values[1] } })
  end
  if not baseline then return nil, named(kind, path, why) end
  baseline.title = name_of(path)
  return baseline
end

return M
