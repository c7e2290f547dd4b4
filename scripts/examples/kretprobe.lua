-- kretprobe: counts the errors of the kernel's vfs_read(), by return value.
-- perfl scripts/examples/kretprobe.lua -- ls   (needs root, and a kernel with CONFIG_KPROBE_EVENTS)

local perfev = require "perfev"

local fine = perfev.count { where = { "args.retval", ">=", 0 } }
local failed = perfev.count { by = "args.retval", where = { "args.retval", "<", 0 } }

local reads = perfev.event {
  "kretprobe:vfs_read", args = { "$retval:long" }, optional = true, sample = { fine, failed },
}

perfev.done(function()
  local times, names = { fine = fine:get() }, {}
  for value, n in failed:pairs() do times[perfev.errno[-value] or tostring(value)] = n end
  for name in pairs(times) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do print(times[name], name) end
  if reads.error then print(reads.error) end
end)
