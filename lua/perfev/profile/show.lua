--- What scripts do with a profile in the end: look up its names, with a word on stderr each second that this
-- takes, and write it to their output.

local core = require "perfev.core"

local SECOND = 1000000000
local MONOTONIC = 1

local function progress(who)
  local next_word = core.clock(MONOTONIC) + SECOND
  return function(done, all)
    if core.clock(MONOTONIC) < next_word then return end
    next_word = next_word + SECOND
    io.stderr:write(("%s: %d of %d stacks have their names\n"):format(who, done, all))
  end
end

--- @tparam profile profile
-- @tparam string format  one of perfev.profile.formats
-- @tparam string who     the script's name
return function(profile, format, who)
  profile:resolve(progress(who))
  io.write(profile[format](profile, { annotate = true }))
end
