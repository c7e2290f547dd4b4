-- biolatency: shows how long disk requests take, as histograms.
-- perfl -a -d 5s biolatency
-- perfl -a biolatency --disks --queued ls -R /usr/share/doc

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show how long disk requests take",
  { "-D --disks", help = "print a histogram for each disk" },
  { "-F --flags", help = "print a histogram for each kind: R, W, F (flush), D (discard), S (sync), M (metadata)" },
  { "-Q --queued", help = "include the time in the queue of the system" },
  tool.options.per, tool.options.least, tool.options.interval, tool.options.unit, tool.options.latency_format,
  epilog = "KEY is of the task that sent the request to the disk; for writes this is often a task of the kernel.",
}

tool.require_all_tasks("biolatency", "a request ends on any CPU, outside of its task")

local by = {}
if opt.disks then by[#by + 1] = "args.dev" end
if opt.flags then by[#by + 1] = "args.rwbs" end
local report = tool.latency("biolatency", opt, { title = "block I/O latency", by = by,
  names = { ["args.dev"] = opt.disks and tool.disk_name or nil },
  labels = { ["args.dev"] = "disk", ["args.rwbs"] = "flags" },
  per = { comm = "start.comm", pid = "start.pid", tid = "start.tid", cgroup = "start.cgroup" } })
report:span { start = opt.queued and "block:block_io_start | block:block_rq_insert" or "block:block_rq_issue",
  stop = "block:block_rq_complete", by = { "args.dev", "args.sector" } }
