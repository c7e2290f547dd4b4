--- Is the kernel that was recorded the one that runs here? Then its symbols are at hand.

local core = require "perfev.core"

local M = {}

local GNU_BUILD_ID = 3 -- NT_GNU_BUILD_ID

local function aligned(n) return (n + 3) // 4 * 4 end

--- The build id in a kernel's notes, as hex; nil where there is none.
-- Source: elf(5), "Notes (Nhdr)".
function M.build_id(notes)
  local at = 1
  while at + 12 <= #notes do
    local name_size, size, kind = string.unpack("=I4I4I4", notes, at)
    local name_at = at + 12
    local desc_at = name_at + aligned(name_size)
    if kind == GNU_BUILD_ID and notes:sub(name_at, name_at + 3) == "GNU\0" and desc_at + size - 1 <= #notes then
      return (notes:sub(desc_at, desc_at + size - 1):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
    end
    at = desc_at + aligned(size)
  end
end

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
  local recorded, notes = recorded_build_id(header), core.slurp("/sys/kernel/notes")
  local here = recorded and notes and M.build_id(notes)
  if here then return here == recorded end
  return same(header.hostname, "/proc/sys/kernel/hostname") and same(header.osrelease, "/proc/sys/kernel/osrelease")
end

return M
