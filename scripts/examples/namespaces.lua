-- namespaces: prints the namespaces of a task, at its start and when it changes one.
-- perfl scripts/examples/namespaces.lua -- unshare --uts true        (needs root)

local perfev = require "perfev"

perfev.event { namespaces = function(r)
  local list = {}
  for name, ns in pairs(r.namespaces) do list[#list + 1] = ("%s:[%d]"):format(name, ns.inode) end
  table.sort(list)
  print(("%d %s\n  %s"):format(r.tid, perfev.escape(r.comm or "?"), table.concat(list, " ")))
end }
