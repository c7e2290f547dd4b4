-- timeline: writes which task ran when on which CPU, for Perfetto and chrome://tracing.
-- perfl -a -d 2s timeline -o cpus.json
-- perfl -a timeline --irq --mark sched:sched_waking -o build.json make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "write which task ran when on which CPU, for ui.perfetto.dev",
  { "--mark", metavar = "EVENT", help = "add a point for each of these events, as in sched:sched_waking" },
  { "--irq", help = "add interrupts and softirqs; requires -a" },
  tool.options.title,
  output = "Writes JSON in the trace event format, with a track for each CPU.",
  epilog = [[
A recording requires switch records (perf record --switch-events) or the event
sched:sched_switch (perf sched record).]],
}

tool.require_switch_cpus("timeline")
local spans, points, first, last = {}, {}, nil, nil
local running, known = {}, {} -- by CPU: who is on it; did it switch already?
local function seen(r) first, last = first or r.time, r.time end
local function add(cpu, name, since, time, args)
  spans[#spans + 1] = { cpu = cpu, name = name, begin = since, finish = time, args = args }
end

-- An event and a record may describe the same switch; the second one has no effect.
local function leave(r, tid, comm, preempted)
  local one = running[r.cpu] or not known[r.cpu] and { tid = tid, comm = comm, since = first }
  known[r.cpu] = true
  if not one or one.tid ~= tid or tid == 0 then return end
  running[r.cpu] = nil
  add(r.cpu, one.comm or "?", one.since, r.time, { tid = tid, left = preempted and "preempted" or "to wait" })
end

local function enter(r, tid, comm)
  local one = running[r.cpu]
  if one and one.tid ~= tid then leave(r, one.tid) end -- its end was lost
  known[r.cpu] = true
  if tid == 0 or one and one.tid == tid then return end
  running[r.cpu] = { tid = tid, comm = comm, since = r.time }
end

local function switch(r)
  seen(r)
  if r.out then leave(r, r.tid, r.comm, r.preempt) else enter(r, r.tid, r.comm) end
end
perfev.event { switch = switch }
-- Some recordings have only this event. For a live task it has only the end; switch records have both.
local recorded = perfev.event { "sched:sched_switch", optional = true, sample = function(r, args)
  seen(r)
  -- TASK_RUNNING; TASK_REPORT_MAX if preempted in the kernel, since 4.14: __trace_sched_switch_state()
  leave(r, args.prev_pid, args.prev_comm, args.prev_state == 0 or args.prev_state == 0x100)
  enter(r, args.next_pid, args.next_comm)
end }
perfev.begin(function() return perfev.default_session().opts.input or recorded:close() end)

-- A handler runs inside the interrupted task and does not change its CPU.
local function handler(event, name)
  local since = {}
  perfev.event { event .. "_entry", sample = function(r) since[r.cpu] = r.time end }
  perfev.event { event .. "_exit", sample = function(r, args)
    if since[r.cpu] then add(r.cpu, name(args), since[r.cpu], r.time) end
    since[r.cpu] = nil
  end }
end

if opt.irq then
  handler("irq:irq_handler", function(args) return "irq " .. args.irq end)
  handler("irq:softirq", function(args) return "softirq " .. args.vec end)
end
local function mark(r)
  points[#points + 1] = { cpu = r.cpu, name = opt.mark, time = r.time, args = { comm = r.comm, tid = r.tid } }
end
if opt.mark then perfev.event { opt.mark, sample = mark } end

perfev.done(function()
  for cpu, one in pairs(running) do add(cpu, one.comm or "?", one.since, last, { tid = one.tid }) end
  io.write(perfev.picture.timeline { title = opt.title, spans = spans, points = points })
end)
