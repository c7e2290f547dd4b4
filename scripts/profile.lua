-- profile: samples stacks to show which code uses the CPU, or causes any other event.
-- perfl profile make
-- perfl -a -d 5s profile -f html -o profile.html
-- perfl profile --event page-faults -F 0 -f tree ls -R /usr/share/doc

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "sample stacks and summarise them",
  { "-e --event", default = "cpu-clock", metavar = "EVENT", help = "sample this event" },
  { "-F --frequency", type = "integer", default = 99, metavar = "HZ", help = "samples a second; 0: every event" },
  { "-f --format", choices = perfev.profile.formats, default = "top", metavar = "FORMAT",
    help = "top, tree: for a terminal; folded; html, svg: a flame graph; json, pprof, speedscope, firefox, callgrind" },
  tool.options.user, tool.options.kernel,
  { "--idle", help = "include idle CPUs" },
  tool.options.call_graph, tool.options.title, tool.options.baseline, tool.options.absolute,
}

if opt.frequency < 0 then tool.refuse("profile", "-F: 0 or more") end

local is_clock = opt.event:find "^cpu%-clock" or opt.event:find "^task%-clock"
local profile = tool.profile("profile", opt, {
  title = opt.event,
  values = { "samples", { is_clock and "time" or opt.event, unit = is_clock and "ns" or "count" } },
})

local event = perfev.event(tool.with_stacks("profile", opt, {
  tool.sampled_event(opt.event), sample_type = { "period" },
  freq = opt.frequency > 0 and opt.frequency or nil, period = opt.frequency == 0 and 1 or nil,
  sample = profile:sampler { under = "comm", value = "period", where = not opt.idle and { "tid", "!=", 0 } or nil },
}))

perfev.begin(function()
  local other = opt.event == "cpu-clock" and tool.replaced_clock("profile", event)
  if not other then return end
  local _, value = profile:value "time"
  profile.title, value.name, value.unit = opt.title or other, other, "count"
end)

perfev.done(function() tool.print_profile("profile", profile, opt) end)
