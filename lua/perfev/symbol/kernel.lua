--- Reads the functions of a kernel that is not running here, from a copy of its /proc/kallsyms or from its vmlinux.
-- The user names the file, or it is found below the directory with another machine's files, where perf looks for it
-- (vmlinux_path__init() in tools/perf/util/symbol.c). A file with another build-id than the recorded one is not used.

local core = require "perfev.core"
local hex = require "perfev.base.hex"

local M = {}

--- The file that the user named; nil: search.
M.path = nil

-- %s is the kernel's release.
local places = {
  "/proc/kallsyms", "/boot/vmlinux-%s", "/usr/lib/debug/boot/vmlinux-%s", "/usr/lib/debug/boot/vmlinux-%s.debug",
  "/usr/lib/debug/lib/modules/%s/vmlinux", "/lib/modules/%s/build/vmlinux", "/boot/vmlinux", "/vmlinux",
}

-- Returns an object with the methods of core.kallsyms(): `find` (name and start by an address), `address` (by a name).
local function read_vmlinux(bytes, id)
  local here, symtab = pcall(require, "perfev.symtab")
  local there, elf = pcall(require, "perfev.elf")
  local functions = here and symtab.read(bytes)
  local names = there and elf.read(bytes)
  if not functions or not names then return nil, "it is not a readable vmlinux" end
  local found = functions:facts().build_id
  if id and found and hex.of(found) ~= id then return nil, "its build-id differs from the recorded kernel's" end
  return {
    find = function(_, address)
      local name, start = functions:find(address)
      return name, start
    end,
    address = function(_, name)
      local symbol = names:symbol(name)
      return symbol and symbol.value
    end,
    is_vmlinux = true,
  }
end

-- -> bytes | nil, reason
local function bytes_of(path, rule)
  if not rule then
    local bytes, _, code = core.slurp(path)
    return bytes, code and core.strerror(code)
  end
  local file <close>, why = core.file(path, rule)
  if not file then return nil, why end
  return file:bytes()
end

--- Reads the functions of a file.
-- @tparam string path
-- @tparam ?string id   the kernel's build-id, in hex
-- @tparam ?table rule  for core.file; nil for a file that the user named, which may be a pipe
-- @treturn[1] table  `:find(address)`, `:address(name)`, `.is_vmlinux`
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.read(path, id, rule)
  local bytes, why = bytes_of(path, rule)
  if not bytes then return nil, why end
  if bytes:sub(1, 4) == "\127ELF" then return read_vmlinux(bytes, id) end
  return core.kallsyms(bytes)
end

--- Finds the functions of a release's kernel below a directory, or nil; note(text) reports unusable files.
function M.below(dir, release, id, note)
  for _, place in ipairs(places) do
    local path = dir .. place:format((release or ""):gsub("/", "_"))
    local symbols, why = M.read(path, id, {})
    if symbols then return symbols end
    if core.stat(path) then note(("%s is not used: %s"):format(path, why)) end
  end
end

return M
