--- perfev's own shared objects that are loaded on first use (perfev.elf, perfev.symtab): the module, or why not.

local M = {}

--- By a module's name: why a searcher of require did not load it, and what to do (perfl's).
M.refused = {}

-- name; library: what it is made with -> module | nil, why not, what to do or nil
local function load_module(_, name, library)
  local ok, module = pcall(require, name)
  if ok then return module end
  if M.refused[name] then return nil, M.refused[name][1], M.refused[name][2] end
  return nil, ("the module %s (%s) is not installed beside perfev"):format(name, library)
end

return setmetatable(M, { __call = load_module })
