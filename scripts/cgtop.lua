-- cgtop: shows which containers, services and sessions use the CPU, every second.
-- perfl -a cgtop
-- perfl -a -d 10s cgtop --event page-faults -F 0 --interval 5s --path

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show which containers, services and sessions use the CPU", all_cpus = true,
  { "-e --event", default = "cpu-clock", metavar = "EVENT", help = "sample this event" },
  { "-F --frequency", type = "integer", default = 999, metavar = "HZ", help = "samples a second; 0: every event" },
  { "-I --interval", type = "duration", default = "1s", metavar = "TIME", help = "print a table this often" },
  { "-T --top", type = "integer", metavar = "N", help = "print only the first N" },
  { "--path", help = "print each cgroup with its path" },
  output = [[
Prints a table for each interval: %CPU, or events PER SEC; KIND (container,
service, session, ...); NAME, and its owner.]],
  epilog = [[
Each table has the samples since the last one. %CPU is of one CPU. The owner is
the pod of a container, or the user of a session or unit. A recording needs the
cgroup of each sample: perfl record --all-cgroups.]],
}

local wrong = opt.frequency < 0 and "-F: 0 or more" or opt.interval == 0 and "-I: more than 0"
  or (opt.top or 0) < 0 and "-T: 0 or more"
if wrong then tool.refuse("cgtop", wrong) end

local used = perfev.sum { by = "cgroup", value = "period", where = { "tid", "!=", 0 } }
local times = perfev.stats { value = "time" }
local event = perfev.event { tool.sampled_event(opt.event), sample = { used, times },
  freq = opt.frequency > 0 and opt.frequency or nil, period = opt.frequency == 0 and 1 or nil }

local function rows() -- the cgroups of one container are one row
  local named = perfev.sum { by = { "kind", "name", "owner" } }
  for path, value in used:pairs() do
    local name, kind, owner = tool.container_name(path)
    if opt.path then name, kind, owner = path, "cgroup", nil end
    named:add(value, kind, name, owner or "")
  end
  return ipairs((named:top(opt.top or math.maxinteger)))
end

local newest -- the time of the last sample of the earlier tables
-- interval: nil for the rest of an interval and for a recording, which last from sample to sample.
local function show(interval)
  local is_json, sampled = tool.output_format() == "json", times:rows()[1]
  if not (sampled or interval) then return end
  local from = newest or sampled and sampled.value.min
  newest = sampled and sampled.value.max or newest
  local ns = interval or newest > from and newest - from or nil
  local what = opt.event == "cpu-clock" and tool.replaced_clock("cgtop", event) or opt.event
  local is_clock = what:find "^%l+%-clock$"
  local unit = ns and (is_clock and 100 or 1e9) / ns
  if not is_json then print((is_clock and "     %CPU" or "  PER SEC") .. "  KIND        NAME (OWNER)") end
  for _, row in rows() do
    row.event, row.rate = what, unit and row.value * unit
    local owner = row.owner ~= "" and (" (%s)"):format(row.owner) or ""
    print(is_json and tool.json(row) or perfev.escape(("%9s  %-10s  %s%s"):format(
      unit and ("%.1f"):format(row.rate) or "-", row.kind, row.name, owner)))
  end
  for _, text in ipairs(is_json and {} or used:remarks()) do print(text) end
  used:clear()
  times:clear()
end

perfev.every(opt.interval / 1e9, function() show(opt.interval) end)
perfev.done(function() show() end)
