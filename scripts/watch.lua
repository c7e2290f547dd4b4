-- watch: who writes this variable, by the stacks that do.
-- perfl watch bash:line_number -- bash -c 'echo; ls'
-- perfl watch --access rw --each bash:last_command_exit_value -- bash -c true

local perfev = require "perfev"
local common = require "perfev.profile.options"
local show = require "perfev.profile.show"

local opt = perfev.args {
  summary = "who writes a variable: each write counted, by its stack",
  { "variable", metavar = "VARIABLE",
    help = "FILE:SYMBOL[+OFFSET][/LENGTH], as in ./app:counter, or ADDRESS[/LENGTH]" },
  { "--access", choices = { "w", "rw", "x" }, default = "w", metavar = "KIND",
    help = "w: writes; rw: reads, too; x: the function there is entered" },
  { "--each", help = "a line and the stack for each, as it comes" },
  common.format, common.call_graph, common.title,
  epilog = [[
A write is told by the processor when it is done, so the stack is that of the
instruction behind it. What the kernel writes there counts, too, as root.]],
}

local words = { w = "writes", rw = "accesses", x = "calls" }
local what = words[opt.access]
local profile = perfev.profile { title = opt.title or ("%s of %s"):format(what, opt.variable), values = { what } }
local first, last

perfev.event(common.with_stacks(opt, "watch", {
  ("mem:%s:%s"):format(opt.variable, opt.access), period = 1,
  sample = not opt.each and profile:sampler { under = "comm" } or function(r)
    first, last = first or r.time, r.time
    profile:add_under(r.comm, r.stack)
    print(("%12.6f  %s %d, cpu %s\n%s\n"):format((r.time - first) / 1e9, perfev.escape(r.comm or "?"), r.tid,
      r.cpu or "?", tostring(r.stack)))
  end,
}))

perfev.done(function()
  if opt.each then
    profile.duration = first and last - first
    print(("%d %s of %s"):format(profile:total(), what, perfev.escape(opt.variable)))
  end
  show(profile, opt.format, "watch", opt.call_graph)
end)
