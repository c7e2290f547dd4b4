-- uprobe: which environment variables a command looks up: text that a function is called with.
-- perfl scripts/examples/uprobe.lua -- ls   (needs root)

local perfev = require "perfev"

local asked = {}

perfev.event { "uprobe:libc:getenv", args = { "name:string" }, sample = function(_, args)
  asked[args.name] = (asked[args.name] or 0) + 1
end }

perfev.done(function()
  local names = {}
  for name in pairs(asked) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do print(asked[name], perfev.escape(name)) end
end)
