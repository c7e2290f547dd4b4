--- perfl cleanup: take away the probes that a killed perfl has left in tracefs.
-- A perfl that starts a session does the same, without a word.

local escape = require "perfev.base.escape"
local probe_events = require "perfev.probe.tracefs_probes"
local report = require "perfl.message"

local M = {}

local usage = [[
usage: perfl cleanup

Remove the probes that a killed perfl left in tracefs (perfev_PID_N/...). Probes
of other tools and of a running perfl stay.]]

--- The verb.
-- @tparam {string,...} words
-- @treturn integer  exit status: 0, 1 when tracefs cannot be read, 2 for a wrong command line
function M.main(words)
  if words[1] == "--help" or words[1] == "-h" then
    print(usage)
    return 0
  elseif words[1] then
    report.say(("cleanup takes no '%s'\ntry: perfl cleanup --help"):format(escape(words[1])))
    return 2
  end
  local found, why = probe_events.sweep()
  for _, name in ipairs(found.removed) do print("removed " .. escape(name)) end
  for _, name in ipairs(found.kept) do print("kept " .. escape(name) .. ", which is in use") end
  if why then
    report.say(why)
    return 1
  end
  if #found.removed + #found.kept == 0 then print("there was nothing to remove") end
  return 0
end

return M
