-- biosnoop: prints a line for each disk request: its task, place, size and duration.
-- perfl -a biosnoop
-- perfl -a biosnoop --queued ls -R /usr/share/doc

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "print a line for each disk request, with its latency",
  { "-Q --queued", help = "add the time in the queue of the system" },
  output = [[
Prints a line for each request: TIME(s) since the first, the COMM and TID of the
task, DISK, T (R, W, F, D; A read ahead, S sync, M metadata), the first SECTOR,
BYTES, with -Q the time in the QUEUE, and LAT(ms), the time in the device.]],
  epilog = [[
Delayed writes of a file system are requests of a kernel thread. Before Linux
6.5, COMM and TID are of the task that hands the request to the driver.]],
}

tool.require_all_tasks("biosnoop", "a request ends on any CPU, outside of its task")

-- Open requests by device and first sector, in bounded memory: the end of some is never recorded.
local MOST = 1 << 16
local open, nr_open, first = {}, 0, nil
local names = {}

local function name_of(dev)
  names[dev] = names[dev] or perfev.escape(tool.disk_name(dev))
  return names[dev]
end

local function key_of(dev, sector) return ("%x %x"):format(dev, sector) end

local function begin(dev, sector, comm, tid, time)
  first = first or time
  if nr_open >= MOST then open, nr_open = {}, 0 end
  local key = key_of(dev, sector)
  if not open[key] then nr_open = nr_open + 1 end
  open[key] = { comm = comm, tid = tid, queued = time, bytes = 0 }
  return open[key]
end

local function ms(ns) return ("%9.2f"):format(ns / 1e6) end

perfev.begin(function()
  print(("%-11s %-14s %-7s %-9s %-3s %-10s %-7s%s %9s"):format("TIME(s)", "COMM", "TID", "DISK", "T", "SECTOR", "BYTES",
    opt.queued and "   QUE(ms)" or "", "LAT(ms)"))
end)

perfev.event { "block:block_io_start", optional = true, fields = { "args.dev", "args.sector", "comm", "tid", "time" },
  sample = function(...) begin(...) end }

perfev.event { "block:block_rq_issue", fields = { "args.dev", "args.sector", "comm", "tid", "time", "args.bytes" },
  sample = function(dev, sector, comm, tid, time, bytes)
    local one = open[key_of(dev, sector)] or begin(dev, sector, comm, tid, time)
    one.issued, one.bytes = time, bytes
  end }

perfev.event { "block:block_rq_complete", fields = { "args.dev", "args.sector", "time", "args.rwbs" },
  sample = function(dev, sector, time, rwbs)
    local key = key_of(dev, sector)
    local one = open[key]
    if not one or not one.issued then return end
    open[key], nr_open = nil, nr_open - 1
    print(("%-11.6f %-14s %-7d %-9s %-3s %-10d %-7d%s %s"):format((one.queued - first) / 1e9, perfev.escape(one.comm),
      one.tid, name_of(dev), perfev.escape(rwbs), sector, one.bytes,
      opt.queued and " " .. ms(one.issued - one.queued) or "", ms(time - one.issued)))
  end }
