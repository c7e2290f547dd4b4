--- The build-ids of the files that a recording's tasks had mapped, by which a reader elsewhere finds the same files.
-- A record may have the build-id (attr.build_id); otherwise it is read from the file (perfev.symbol.build_id).
-- Source: tools/perf/util/build-id.c, symbol-elf.c.

local build_id = require "perfev.symbol.build_id"
local core = require "perfev.core"
local hex = require "perfev.base.hex"

local M = {}

local KERNEL = 1 -- PERF_RECORD_MISC_CPUMODE_KERNEL
local HOST = -1 -- HOST_KERNEL_ID, in the place of a guest's pid

-- ---- one file ----

-- The vdso is not a file, and is the same in every process, so it is read from this one.
local function read_vdso_id()
  local start = ("\n" .. (core.slurp("/proc/self/maps") or "")):match("\n(%x+)%-[^\n]* %[vdso%]\n")
  local memory <close> = start and core.file "/proc/self/mem" or nil
  return memory and build_id.of_file(memory, tonumber(start, 16))
end

-- name: "[ext4]", "/lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz". A module's name has '_' where its file may have '-'.
local function read_module_id(name)
  local module = name:match("^%[(.+)%]$") or name:match("([^/]+)%.ko[%.%w]*$")
  if not module or module:find("/", 1, true) or module:find("^%.") then return nil end
  local dir = "/sys/module/" .. module:gsub("-", "_") .. "/notes"
  for _, file in ipairs(core.list(dir) or {}) do
    local id = build_id.of_notes(core.slurp(dir .. "/" .. file) or "")
    if id then return id end
  end
end

-- Searches the root of the file's process, then this one's. The inode of the record identifies the file.
local function read_program_id(map)
  if map.filename:sub(1, 1) ~= "/" or map.filename:find(" %(deleted%)$") then return nil end
  for _, path in ipairs { ("/proc/%d/root%s"):format(map.pid, map.filename), map.filename } do
    local file <close> = core.file(path, { ino = map.ino })
    if file then return build_id.of_file(file) end
  end
end

local function find_id(map)
  if map.build_id then return hex.of(map.build_id), map.filename end
  if map.filename == "[vdso]" then return read_vdso_id(), map.filename end
  if map.misc ~= KERNEL then return read_program_id(map), map.filename end
  if map.filename:find("^%[kernel%.kallsyms%]") then return build_id.of_kernel(), "[kernel.kallsyms]" end
  return read_module_id(map.filename), map.filename
end

--- The build-ids of mapped files, as in f.header.build_ids. Files without one, and files that are gone, are left out.
-- @tparam {table,...} maps  `filename`, `misc` (1 kernel, 2 user), `pid`, `ino` (nil: unknown), `build_id` (bytes, or
--   nil): each file once
-- @treturn {table,...}  `pid` (-1: the host's), `misc`, `build_id` (hexadecimal), `filename`
function M.of(maps)
  local list = {}
  for _, map in ipairs(maps) do
    local id, name = find_id(map)
    if id then list[#list + 1] = { pid = HOST, misc = map.misc, build_id = id, filename = name } end
  end
  return list
end

return M
