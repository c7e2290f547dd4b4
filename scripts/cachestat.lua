-- cachestat: counts reads and page faults of files that find their pages in the page cache, and those that do not.
-- perfl cachestat wc /bin/bash
-- perfl -a cachestat -I 1s

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "count reads and page faults of files that find their pages in the page cache",
  { "-I --interval", type = "duration", metavar = "TIME", help = "print the counts of each interval of this length" },
  epilog = [[
A miss is a read, or a page fault in a mapped file, whose thread has to add one
of its pages to the cache; every other one is a hit, also if the page was read
ahead. The kernel splits reads of many pages. It serves most faults by mapping
the pages around an earlier one; these do not count. ADDED and REMOVED are
pages, ADDED also those that are read ahead or written. The first read of pages
that the same thread wrote counts as a miss. cachestat of bcc counts pages, by
functions of the kernel; this counts tracepoints of Linux 6.12.]],
}

if opt.interval == 0 then tool.refuse("cachestat", "-I: more than 0") end

local take_counts = tool.count_cache_uses()

local print_row, print_heading = tool.table_printer {
  { "hits", 10 }, { "misses", 10 }, { "ratio", 7, format = "%.1f%%" }, { "added", 10 }, { "removed", 10 },
}

local function print_counts()
  local counts = take_counts()
  local all = counts.hits + counts.misses
  counts.ratio = all > 0 and 100 * counts.hits / all or nil
  print_row(counts)
end

perfev.begin(print_heading)
if opt.interval then perfev.every(opt.interval / 1e9, print_counts) end
perfev.done(print_counts)
