-- watch: counts the writes to a variable by stack.
-- perfl watch bash:line_number -- bash -c 'echo; ls'
-- perfl watch --access rw --each bash:last_command_exit_value -- bash -c true

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "count the writes to a variable by stack",
  { "variable", metavar = "VARIABLE",
    help = "FILE:SYMBOL[+OFFSET][/LENGTH], as in ./app:counter, or ADDRESS[/LENGTH]" },
  { "--access", choices = { "w", "rw", "x" }, default = "w", metavar = "KIND",
    help = "w: writes; rw: also reads; x: calls of the function there" },
  { "--each", help = "print a line and the stack for each access at once" },
  tool.options.format, tool.options.call_graph, tool.options.title, tool.options.baseline, tool.options.absolute,
  epilog = [[
The processor reports a write after it, so the stack is that of the following
instruction. Writes by the kernel count too, as root.]],
}

local words = { w = "writes", rw = "accesses", x = "calls" }
local what = words[opt.access]
if opt.each and opt.baseline then tool.refuse("watch", "--each or --baseline, not both") end
local profile = tool.profile("watch", opt, { title = ("%s of %s"):format(what, opt.variable), values = { what } })
local first, last

perfev.event(tool.with_stacks("watch", opt, {
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
  tool.print_profile("watch", profile, opt)
end)
