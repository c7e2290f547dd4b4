-- uprobe: prints the environment variables that a command looks up: a text argument of a function.
-- perfl scripts/examples/uprobe.lua -- ls   (needs root)

local perfev = require "perfev"

local asked = perfev.count { by = "args.name" }

perfev.event { "uprobe:libc:getenv", args = { "name:string" }, sample = asked }

perfev.done(function()
  local rows = asked:rows()
  table.sort(rows, function(a, b) return a["args.name"] < b["args.name"] end)
  for _, row in ipairs(rows) do print(row.value, perfev.escape(row["args.name"])) end
end)
