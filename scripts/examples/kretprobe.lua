-- kretprobe: how often the kernel's vfs_read() fails, by what it returns.
-- perfl scripts/examples/kretprobe.lua -- ls   (needs root, and a kernel with CONFIG_KPROBE_EVENTS)

local perfev = require "perfev"

local failed = {}

local reads = perfev.event {
  "kretprobe:vfs_read", args = { "$retval:long" }, optional = true, sample = function(_, args)
    local name = args.retval < 0 and (perfev.errno[-args.retval] or tostring(args.retval)) or "fine"
    failed[name] = (failed[name] or 0) + 1
  end,
}

perfev.done(function()
  local names = {}
  for name in pairs(failed) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do print(failed[name], name) end
  if reads.error then print(reads.error) end
end)
