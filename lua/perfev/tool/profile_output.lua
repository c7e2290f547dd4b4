--- What scripts do with a profile in the end: look up its names, with a word on stderr each second that this
-- takes, write it to their output, and leave a hint for the lines after the summary when its stacks are cut short.

local core = require "perfev.core"
local lazy = require "perfev.base.lazy_module"
local session = lazy "perfev.live.session"

local SECOND = 1000000000
local MONOTONIC = 1
local STACK_USER = 1 << 13 -- PERF_SAMPLE_STACK_USER
local MUCH, LEAST = 1 / 3, 20 -- of the user stacks; of fewer stacks nothing can be said

local function progress(who)
  local next_word = core.clock(MONOTONIC) + SECOND
  return function(done, all)
    if core.clock(MONOTONIC) < next_word then return end
    next_word = next_word + SECOND
    io.stderr:write(("%s: %d of %d stacks have their names\n"):format(who, done, all))
  end
end

-- Whether the stacks are a recording's; and whether it has what they can be unwound from.
local function recorded(s)
  if not s.opts.input then return false end
  for _, event in ipairs(s.core and s.core.rec and s.core.rec.events or {}) do
    if event.attr.sample_type & STACK_USER ~= 0 then return true, true end
  end
  return true, false
end

-- Frame pointers lead no further where a compiler used their register for something else.
local function hint(profile, how)
  local share, nr = profile:short_share()
  local s = session.default()
  local is_recorded, is_unwound = recorded(s)
  if share <= MUCH or nr < LEAST or is_unwound or not is_recorded and how ~= "fp" then return nil end
  return ("%d%% of the user stacks end after one or two frames: their code keeps no frame pointers\n"
    .. "try: %s--call-graph dwarf"):format(share * 100 // 1, is_recorded and "perfl record " or "")
end

--- @tparam profile profile
-- @tparam string format  one of perfev.profile.formats
-- @tparam string who     the script's name
-- @tparam ?string how    the script was to take call chains
return function(profile, format, who, how)
  profile:resolve(progress(who))
  io.write(profile[format](profile, { annotate = true }, function(line) io.write(line) end))
  session.default().hint = how and hint(profile, how)
end
