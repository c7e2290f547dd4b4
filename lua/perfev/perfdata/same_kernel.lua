--- Is the kernel that was recorded the one that runs here? Then its symbols are at hand.

local build_id = require "perfev.symbol.build_id"
local core = require "perfev.core"

local M = {}

local function recorded_build_id(header)
  for _, entry in ipairs(header.build_ids or {}) do
    if entry.filename:find("[kernel.kallsyms]", 1, true) == 1 then return entry.build_id end
  end
end

local function same(value, path)
  local here = core.slurp(path)
  return value ~= nil and here ~= nil and here:match("^[^\n]*") == value
end

--- Whether a recording's header speaks of this kernel: by its build id; where the recorder had no
-- sample of the kernel and wrote none, by the machine's name and the kernel's release.
function M.is_running(header)
  local recorded = recorded_build_id(header)
  local here = recorded and build_id.of_kernel()
  if here then return here == recorded end
  return same(header.hostname, "/proc/sys/kernel/hostname") and same(header.osrelease, "/proc/sys/kernel/osrelease")
end

return M
