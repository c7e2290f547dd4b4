-- biostacks: what code has disks read and write: block requests, bytes and time by stack.
-- perfl biostacks -- ls -R /usr/share/doc
-- perfl -a -d 5s biostacks --time -f html -o disks.html

local perfev = require "perfev"
local common = require "perfev.profile.options"
local show = require "perfev.profile.show"

local opt = perfev.args {
  summary = "block requests, by the stack that made them",
  common.format,
  { "--time", help = "how long they took first; wants -a, as a request ends on any CPU" },
  { "--filter", type = "string", metavar = "CONDITION",
    help = "on the request, as in 'bytes >= 65536' or 'rwbs ~ \"R*\"'; the kernel applies it" },
  common.call_graph, common.title,
  epilog = [[
What a file system writes later is a kernel thread's request: -a has it. With
--time a request counts when it ends, from the queue on; one that another was
merged in front of by then is left out. Before Linux 6.5 the stack is that of
whoever hands the request to the driver.]],
}

local values = { "requests", { "bytes", unit = "bytes" } }
if opt.time then table.insert(values, 1, { "time", unit = "ns" }) end
local profile = perfev.profile { title = opt.title or "block requests", values = values }
local first, last

-- Requests that have not ended, by device and first sector. Those whose end is never found do not stay for ever.
local MOST = 1 << 16
local open, nr_open = {}, 0
local function key_of(args) return ("%x %x"):format(args.dev, args.sector) end

perfev.event {
  "block:block_io_start | block:block_rq_issue", filter = opt.filter, callchain = common.stacks(opt, "biostacks"),
  sample = not opt.time and profile:sampler { under = "comm", value = "args.bytes" } or function(r, args)
    first, last = first or r.time, r.time
    if nr_open >= MOST then open, nr_open = {}, 0 end
    local key = key_of(args)
    if not open[key] then nr_open = nr_open + 1 end
    open[key] = { comm = r.comm, stack = r.stack, since = r.time }
  end,
}

if opt.time then
  perfev.event { "block:block_rq_complete", sample = function(r, args)
    local key = key_of(args)
    local begun = open[key]
    if not begun then return end
    open[key], nr_open, last = nil, nr_open - 1, r.time
    profile:add_under(begun.comm, begun.stack, r.time - begun.since, 1, args.nr_sector << 9) -- sectors of 512 bytes
  end }
  common.needs_all("biostacks", "--time: a request ends on any CPU, in nobody's name")
end

perfev.done(function()
  if opt.time then profile.duration = first and last - first end
  show(profile, opt.format, "biostacks")
end)
