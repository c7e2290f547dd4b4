--- The build ids of what a recording's tasks had mapped, so that a reader elsewhere finds the very files.
-- A record may have it (attr.build_id); otherwise it is read from the file (perfev.symbol.build_id).
-- Source: tools/perf/util/build-id.c, symbol-elf.c.

local build_id = require "perfev.symbol.build_id"
local core = require "perfev.core"
local hex = require "perfev.base.hex"

local M = {}

local KERNEL = 1 -- PERF_RECORD_MISC_CPUMODE_KERNEL
local HOST = -1 -- HOST_KERNEL_ID: whose they are, pid or guest

-- ---- whose ----

-- The kernel's own library is no file; ours is that of all.
local function of_vdso()
  local start = ("\n" .. (core.slurp("/proc/self/maps") or "")):match("\n(%x+)%-[^\n]* %[vdso%]\n")
  local memory <close> = start and core.file "/proc/self/mem" or nil
  return memory and build_id.of_file(memory, tonumber(start, 16))
end

-- "[ext4]", "/lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz"; a module's name has '_' where its file may have '-'.
local function of_module(name)
  local module = name:match("^%[(.+)%]$") or name:match("([^/]+)%.ko[%.%w]*$")
  if not module or module:find("/", 1, true) or module:find("^%.") then return nil end
  local dir = "/sys/module/" .. module:gsub("-", "_") .. "/notes"
  for _, file in ipairs(core.list(dir) or {}) do
    local id = build_id.of_notes(core.slurp(dir .. "/" .. file) or "")
    if id then return id end
  end
end

-- Looked up in the root of its process, then in ours. The inode in the record identifies the file that was mapped.
local function of_program(map)
  if map.filename:sub(1, 1) ~= "/" or map.filename:find(" %(deleted%)$") then return nil end
  for _, path in ipairs { ("/proc/%d/root%s"):format(map.pid, map.filename), map.filename } do
    local file <close> = core.file(path, { ino = map.ino })
    if file then return build_id.of_file(file) end
  end
end

local function id_of(map)
  if map.build_id then return hex.of(map.build_id), map.filename end
  if map.filename == "[vdso]" then return of_vdso(), map.filename end
  if map.misc ~= KERNEL then return of_program(map), map.filename end
  if map.filename:find("^%[kernel%.kallsyms%]") then return build_id.of_kernel(), "[kernel.kallsyms]" end
  return of_module(map.filename), map.filename
end

--- The build ids of files that were mapped, as f.header.build_ids has them. What has none, or is not there any more,
-- is left out.
-- @tparam {table,...} maps  `filename`, `misc` (1 kernel, 2 user), `pid`, `ino` (nil: not known), `build_id` (bytes, or
--   nil): each file once
-- @treturn {table,...}  `pid` (-1: the host's), `misc`, `build_id` (hexadecimal), `filename`
function M.of(maps)
  local list = {}
  for _, map in ipairs(maps) do
    local id, name = id_of(map)
    if id then list[#list + 1] = { pid = HOST, misc = map.misc, build_id = id, filename = name } end
  end
  return list
end

return M
