-- biostacks: what code has disks read and write: block requests, bytes and time by stack.
-- perfl biostacks ls -R /usr/share/doc
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
-- By device and first sector. Those whose end is never found do not stay for ever.
local requests = opt.time and perfev.span {
  start = true, stop = true, by = { "args.dev", "args.sector" },
  into = profile:sampler { value = "took", by = { "start.comm", "start.stack", "args.nr_sector" },
    add = function(comm, stack, sectors, nr, time)
      profile:add_under(comm, stack, time, nr, nr * sectors << 9) -- sectors of 512 bytes
    end },
}

perfev.event(common.with_stacks(opt, "biostacks", {
  "block:block_io_start | block:block_rq_issue", filter = opt.filter,
  sample = requests and requests.start or profile:sampler { under = "comm", value = "args.bytes" },
}))

if requests then
  perfev.event { "block:block_rq_complete", sample = requests.stop }
  common.needs_all("biostacks", "--time: a request ends on any CPU, in nobody's name")
end

perfev.done(function() show(profile, opt.format, "biostacks", opt.call_graph) end)
