--- Loads perfev's own shared objects on first use (perfev.elf, perfev.symtab); returns the reason on failure.

local M = {}

--- Module name -> { the reason why perfl's searcher refused it, the remedy }.
M.refused = {}

-- name, the library it is linked with -> module | nil, reason, remedy or nil
local function load_module(_, name, library)
  local ok, module = pcall(require, name)
  if ok then return module end
  if M.refused[name] then return nil, M.refused[name][1], M.refused[name][2] end
  return nil, ("the module %s (%s) is not installed beside perfev"):format(name, library)
end

return setmetatable(M, { __call = load_module })
