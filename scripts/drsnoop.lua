-- drsnoop: prints a line for each time a task has to reclaim memory itself: how long it waits, how many pages.
-- perfl -a drsnoop
-- perfl drsnoop make

local perfev = require "perfev"
local tool = require "perfev.tool"

perfev.args {
  summary = "print a line for each time a task has to reclaim memory itself",
  epilog = [[
KIND is direct if the machine is short of memory, and memcg if the memory cgroup
of the task reaches its limit; drsnoop of bcc has only the first. ORDER is the
size that the task asks for: 2^ORDER pages. PAGES are reclaimed. The work of
kswapd, for which no task waits, is not shown.]],
}

local print_row, print_heading = tool.table_printer {
  { "time", -11, format = "%.6f", title = "TIME(s)" }, { "pid", 7 }, { "comm", -16 }, { "kind", -6 }, { "order", 5 },
  { "pages", 7 }, { "ms", 9, format = "%.3f", title = "LAT(ms)" },
}
perfev.begin(print_heading)

local first
for _, kind in ipairs { "direct", "memcg" } do
  local waits = {} -- by thread
  local name = ("vmscan:mm_vmscan_%s_reclaim_"):format(kind)
  local optional = kind ~= "direct" -- a kernel without CONFIG_MEMCG lacks them
  perfev.event { name .. "begin", optional = optional, fields = { "tid", "time", "args.order" },
    sample = function(tid, time, order)
      first = first or time
      waits[tid] = { time = time, order = order }
    end }
  perfev.event { name .. "end", optional = optional, fields = { "tid", "time", "pid", "comm", "args.nr_reclaimed" },
    exit = function(r) waits[r.tid] = nil end, -- the end was lost
    sample = function(tid, time, pid, comm, pages)
      local wait = waits[tid]
      waits[tid] = nil
      if not wait then return end
      print_row { time = (wait.time - first) / 1e9, pid = pid, comm = comm, kind = kind, order = wait.order,
        pages = pages, ms = (time - wait.time) / 1e6 }
    end }
end
