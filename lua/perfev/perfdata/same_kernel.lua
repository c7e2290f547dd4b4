--- Checks whether the recorded kernel is the running one, whose symbols can be used.

local build_id = require "perfev.symbol.build_id"
local core = require "perfev.core"

local M = {}

local function recorded_build_id(header)
  for _, entry in ipairs(header.build_ids or {}) do
    if entry.filename:find("[kernel.kallsyms]", 1, true) == 1 then return entry.build_id end
  end
end

local function equals_file(value, path)
  local here = core.slurp(path)
  return value ~= nil and here ~= nil and here:match("^[^\n]*") == value
end

--- True if a recording's header is from this kernel: by its build id, or, if the recorder wrote none, by host name and
-- release.
function M.is_running(header)
  local recorded = recorded_build_id(header)
  local here = recorded and build_id.of_kernel()
  if here then return here == recorded end
  return equals_file(header.hostname, "/proc/sys/kernel/hostname")
    and equals_file(header.osrelease, "/proc/sys/kernel/osrelease")
end

return M
