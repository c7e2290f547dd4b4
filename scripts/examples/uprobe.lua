-- uprobe: which environment variables a command looks up: text that a function is called with.
-- perfl scripts/examples/uprobe.lua -- ls   (needs root)

local perfev = require "perfev"

local asked = {}

perfev.event { "uprobe:libc:getenv", args = { "name:string" }, sample = function(_, args)
  asked[args.name] = (asked[args.name] or 0) + 1
end }

perfev.done(function()
  for name, n in pairs(asked) do print(n, perfev.escape(name)) end
end)
