--- The profile of a script: makes it, with the baseline that the options name, and writes it. The session's `hint`,
-- which perfl prints after the summary, tells that the stacks are cut short.

local escape = require "perfev.base.escape"
local lazy = require "perfev.base.lazy_module"
local profiles = require "perfev.profile"
local naming_progress = require "perfev.symbol.naming_progress"
local session = lazy "perfev.live.session"

local M = {}

local STACK_USER = 1 << 13 -- PERF_SAMPLE_STACK_USER
local SHORT_SHARE, STACKS_MIN = 1 / 3, 20 -- of user stacks, for a hint

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

local function can_compare(format)
  for _, name in ipairs(profiles.diff_formats) do
    if name == format then return true end
  end
  return false
end

local function check_baseline(tool, who, opt)
  if opt.absolute and not opt.baseline then
    tool.refuse(who, "--absolute compares with a baseline\n  try: --baseline FILE")
  end
  if opt.baseline and not can_compare(opt.format) then
    tool.refuse(who, ("--baseline: the format %s does not show changes\n  try: -f %s"):format(opt.format,
      table.concat(profiles.diff_formats, ", -f ")))
  end
end

--- See perfev.tool.profile.
-- @tparam table tool  the module perfev.tool, which loads this one
function M.new(tool, who, opt, spec)
  check_baseline(tool, who, opt)
  spec.title = opt.title or spec.title
  local profile = profiles(spec)
  if not opt.baseline then return profile end
  session.default():begin(function()
    local baseline, why = require("perfev.tool.profile_input").read_baseline(tool, who, opt.baseline, profile)
    opt.baseline = baseline or tool.refuse(who, why, 1)
  end)
  return profile
end

-- The script may have renamed the value types since the baseline was read.
local function prepare_baseline(profile, opt)
  local baseline = opt.baseline
  baseline.values = table.move(profile.values, 1, #baseline.values, 1, {})
  if not opt.title then profile.title = ("%s, since %s"):format(profile.title or "profile", escape(baseline.title)) end
end

--- See perfev.tool.print_profile.
function M.print(who, profile, opt)
  profile:resolve(naming_progress(who))
  if opt.baseline then prepare_baseline(profile, opt) end
  io.write(profile[opt.format](profile, { annotate = true, baseline = opt.baseline, absolute = opt.absolute },
    function(line) io.write(line) end))
  session.default().hint = opt.call_graph and hint_at_short_stacks(profile, opt.call_graph)
end

return M
