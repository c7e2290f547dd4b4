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
  tool.options.unit,
}

tool.require_all_tasks("biolatency", "a request ends on any CPU, outside of its task")

local by = {}
if opt.disks then by[#by + 1] = "args.dev" end
if opt.flags then by[#by + 1] = "args.rwbs" end
local took = perfev.hist { by = by, unit = opt.unit, title = "block I/O latency" }
perfev.span {
  start = opt.queued and "block:block_io_start | block:block_rq_insert" or "block:block_rq_issue",
  stop = "block:block_rq_complete", by = { "args.dev", "args.sector" }, into = took,
}

perfev.done(function()
  if #by == 0 or tool.output_format() ~= "text" then return took:print() end
  local rows = took:rows()
  for i = #rows, 1, -1 do -- the most last, as of all histograms
    local row, words = rows[i], {}
    if opt.disks then words[1] = "disk = " .. tool.disk_name(row["args.dev"]) end
    if opt.flags then words[#words + 1] = "flags = " .. row["args.rwbs"] end
    tool.print_histogram(table.concat(words, ", "), opt.unit, row.value)
    print()
  end
  for _, line in ipairs(took:remarks()) do print(line) end
end)
