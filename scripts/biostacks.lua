-- biostacks: counts disk requests, their bytes and time by stack.
-- perfl biostacks ls -R /usr/share/doc
-- perfl -a -d 5s biostacks --time -f html -o disks.html

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "count disk requests by the stack that made them",
  tool.options.format,
  { "--time", help = "put the duration first; requires -a, because a request may end on any CPU" },
  { "--filter", type = "string", metavar = "CONDITION",
    help = "count only requests that match, as in 'bytes >= 65536' or 'rwbs ~ \"R*\"' (a filter in the kernel)" },
  tool.options.call_graph, tool.options.title, tool.options.baseline, tool.options.absolute,
  epilog = [[
Delayed writes of a file system are requests of a kernel thread; -a includes
them. With --time a request counts when it ends, including the time in the
queue; a request is left out if another was merged in front of it. Before Linux
6.5 the stack is that of the task that hands the request to the driver.]],
}

local values = { "requests", { "bytes", unit = "bytes" } }
if opt.time then table.insert(values, 1, { "time", unit = "ns" }) end
local profile = tool.profile("biostacks", opt, { title = "block requests", values = values })
-- By device and first sector, in bounded memory: the end of some requests is never recorded.
local requests = opt.time and perfev.span {
  start = true, stop = true, by = { "args.dev", "args.sector" },
  into = profile:sampler { value = "took", by = { "start.comm", "start.stack", "args.nr_sector" },
    add = function(comm, stack, sectors, nr, time)
      profile:add_under(comm, stack, time, nr, nr * sectors << 9) -- sectors of 512 bytes
    end },
}

perfev.event(tool.with_stacks("biostacks", opt, {
  "block:block_io_start | block:block_rq_issue", filter = opt.filter,
  sample = requests and requests.start or profile:sampler { under = "comm", value = "args.bytes" },
}))

if requests then
  perfev.event { "block:block_rq_complete", sample = requests.stop }
  tool.require_all_tasks("biostacks", "--time: a request ends on any CPU, outside of its task")
end

perfev.done(function() tool.print_profile("biostacks", profile, opt) end)
