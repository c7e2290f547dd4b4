-- kprobe: prints the file names passed to the kernel's do_sys_openat2().
-- perfl scripts/examples/kprobe.lua -- ls    (needs root, and a kernel with CONFIG_KPROBE_EVENTS)

local perfev = require "perfev"

local opened = perfev.event {
  "kprobe:do_sys_openat2", args = { "dfd:int", "name:ustring" }, optional = true, sample = function(r, args)
    print(("%s opens %s"):format(perfev.escape(r.comm or "?"), perfev.escape(args.name)))
  end,
}

perfev.done(function()
  if opened.error then print(opened.error) end
end)
