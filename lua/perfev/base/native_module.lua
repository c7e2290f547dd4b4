--- Loads perfev's own shared objects on first use (perfev.elf, perfev.symtab); returns the reason on failure.

local M = {}

-- The libraries that a module is linked with, and Debian's packages of them.
local linked = {
  cfi = { "libelf", "libelf1" }, debuginfod = { "libdl" }, disassembler = { "libcapstone", "libcapstone4" },
  durable_file = { "libc" }, elf = { "libelf", "libelf1" }, frame = { "libzstd, libmd", "libzstd1 libmd0" },
  http = { "libmicrohttpd", "libmicrohttpd12" }, http_client = { "libcurl", "libcurl4" },
  nats = { "libnats", "libnats3.4" }, pfm = { "libpfm4", "libpfm4" }, seccomp = { "libseccomp", "libseccomp2" },
  service = { "libc" }, symtab = { "elfutils", "libdw1 libelf1 liblzma5 libstdc++6" }, zstd = { "libzstd", "libzstd1" },
}

--- Module name -> { the reason why perfl's searcher refused it, the remedy }.
M.refused = {}

--- Called by a searcher that has found the module, and which the loader refused.
-- @tparam string name
-- @tparam string why  the loader's message: the name of the missing library
function M.set_unloadable(name, why)
  local packages = linked[name:match "[^.]+$"][2]
  M.refused[name] = { ("the module %s cannot be loaded: %s"):format(name, why),
    packages and "sudo apt-get install " .. packages }
end

-- The same for Lua's own searcher.
local function find_unloadable(name)
  local path = package.loadlib and package.searchpath(name, package.cpath) -- perfl hides loadlib from some scripts
  if not path then return end
  local loaded, why = package.loadlib(path, "*")
  if not loaded then M.set_unloadable(name, why) end
end

-- name -> module | nil, reason, remedy or nil
local function load_module(_, name)
  local ok, module = pcall(require, name)
  if ok then return module end
  if not M.refused[name] then find_unloadable(name) end
  if M.refused[name] then return nil, M.refused[name][1], M.refused[name][2] end
  return nil, ("the module %s (%s) is not installed beside perfev"):format(name, linked[name:match "[^.]+$"][1])
end

return setmetatable(M, { __call = load_module })
