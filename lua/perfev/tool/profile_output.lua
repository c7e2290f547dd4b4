--- Writes the profile of a script: looks up its names, with progress on stderr each second, writes it to the output,
-- and sets the session's `hint`, which perfl prints after the summary, if the stacks are cut short.

local core = require "perfev.core"
local lazy = require "perfev.base.lazy_module"
local session = lazy "perfev.live.session"

local SECOND = 1000000000
local MONOTONIC = 1
local STACK_USER = 1 << 13 -- PERF_SAMPLE_STACK_USER
local SHORT_SHARE, STACKS_MIN = 1 / 3, 20 -- of user stacks, for a hint

local function progress(who)
  local next_report = core.clock(MONOTONIC) + SECOND
  return function(done, all)
    if core.clock(MONOTONIC) < next_report then return end
    next_report = next_report + SECOND
    io.stderr:write(("%s: %d of %d stacks have their names\n"):format(who, done, all))
  end
end

-- Returns whether the session reads a recording, and whether that has copies of stacks, which are unwound.
local function recording_kind(s)
  if not s.opts.input then return false end
  for _, event in ipairs(s.replay and s.replay.rec.events or {}) do
    if event.attr.sample_type & STACK_USER ~= 0 then return true, true end
  end
  return true, false
end

-- Code that was compiled without frame pointers ends a stack early.
local function hint_at_short_stacks(profile, call_graph)
  local share, nr = profile:short_share()
  local s = session.default()
  local is_recorded, is_unwound = recording_kind(s)
  if share <= SHORT_SHARE or nr < STACKS_MIN or is_unwound or not is_recorded and call_graph ~= "fp" then return nil end
  return ("%d%% of the user stacks end after one or two frames: their code keeps no frame pointers\n"
    .. "try: %s--call-graph dwarf"):format(share * 100 // 1, is_recorded and "perfl record " or "")
end

--- See perfev.tool.print_profile.
return function(who, profile, format, call_graph)
  profile:resolve(progress(who))
  io.write(profile[format](profile, { annotate = true }, function(line) io.write(line) end))
  session.default().hint = call_graph and hint_at_short_stacks(profile, call_graph)
end
