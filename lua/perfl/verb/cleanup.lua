--- perfl cleanup: removes the probes that a killed perfl left in tracefs.
-- Every live session of perfl does the same silently when it starts.

local escape = require "perfev.base.escape"
local tracefs_probes = require "perfev.probe.tracefs_probes"
local message = require "perfl.message"

local M = {}

local usage = [[
Usage: perfl cleanup

Remove the probes that a killed perfl left in tracefs (perfev_PID_N/...). Probes
of other tools and of a running perfl stay.]]

--- The verb.
-- @tparam {string,...} words
-- @treturn integer  exit status: 0, 1 if tracefs cannot be read, 2 for an invalid command line
function M.main(words)
  if words[1] == "--help" or words[1] == "-h" then
    io.write(usage, "\n")
    return 0
  elseif words[1] then
    message.say(("cleanup: unexpected argument '%s'\ntry: perfl cleanup --help"):format(escape(words[1])))
    return 2
  end
  local found, why = tracefs_probes.sweep()
  for _, name in ipairs(found.removed) do print("removed " .. escape(name)) end
  for _, name in ipairs(found.kept) do print("kept " .. escape(name) .. ": it is in use") end
  if why then
    message.say(why)
    return 1
  end
  if #found.removed + #found.kept == 0 then print("nothing to remove") end
  return 0
end

return M
