-- mistakes.lua - mistakes that people make in scripts, seeded in copies of the shipped ones.
--
--   local mistakes = require "spec.support.mistakes"
--   mistakes.text(mistakes.list[1])   -- the text of the script with this mistake; its first changed line
--
-- Each has: `script`; `words`, the words of its command line after the script's name; `options`, those before it;
-- `edits`, a list of a text that the script has once and the text that replaces it, and so on; `breaks`, what a user
-- sees; and `shows`, the kind of evidence:
--
--   a Lua pattern   the message of an uncaught error
--   "memory"        memory grows with the records
--   "output"        bytes of a task or a file reach the terminal or the JSON as they are
--   "order"         two runs over the same records print different texts
--   "time"          a duration that no task had: it joins two tasks with one number, or two CPUs
--   "hang"          the run does not end
--   "needs"         a kernel is refused that the script supports

local run = require "spec.support.run"

local M = {}

M.list = {
  { script = "biolatency", words = "--disks",
    edits = { "tool.disk_name or nil",
      '(function(dev) return "/dev/" .. tool.disk_name(dev):match "^%a+" end) or nil' },
    breaks = "a disk without a name, of which only the numbers are known, raises", shows = "concatenate a nil value" },
  { script = "biosnoop",
    edits = { "if not one or not one.issued then return end", "if not one.issued then return end" },
    breaks = "the end of a request that began before the run raises", shows = "index a nil value %(local 'one'%)" },
  { script = "biosnoop", words = "--queued",
    edits = { "if not one or not one.issued then return end", "if not one then return end" },
    breaks = "a request whose issue was lost raises", shows = "arithmetic on a nil value %(field 'issued'%)" },
  { script = "biosnoop",
    edits = { "  if nr_open >= MOST then open, nr_open = {}, 0 end\n", "" },
    breaks = "requests whose end is never recorded fill the memory in a long run", shows = "memory" },
  { script = "biostacks",
    edits = { '"block:block_io_start | block:block_rq_issue"', '"block:block_io_start"' },
    breaks = "a kernel before 6.5 has no such event, and the script does not start", shows = "needs" },
  { script = "cachestat",
    edits = { "all > 0 and 100 * counts.hits / all or nil", "100 * counts.hits // all" },
    breaks = "a run without reads and faults divides by zero", shows = "divide by zero" },
  { script = "cgtop",
    edits = { "sampled and sampled.value.min", "sampled.value.min" },
    breaks = "a first interval without samples raises", shows = "index a nil value %(local 'sampled'%)" },
  { script = "cgtop",
    edits = { "interval or newest > from and newest - from or nil", "interval or newest - from" },
    breaks = "a rest with a single sample lasts 0 ns, and its rate is printed as inf", shows = "output" },
  { script = "cpudist",
    edits = { "if since[ends] then report:add(time - since[ends], ends, comm) end",
      "report:add(time - since[ends], ends, comm)" },
    breaks = "a task that was on its CPU before the run raises when it leaves", shows = "arithmetic on a nil value" },
  { script = "cswlog",
    edits = { "local first\n", "local first, last\n",
      "  seen[how] = seen[how] + 1\n", "  seen[how], last = seen[how] + 1, r\n",
      "  local out = seen.out + seen.preempted\n",
      "  local out = seen.out + seen.preempted\n  if last then print(last.time - first) end\n" },
    breaks = "the last record is used after its callback, and the sums are not printed",
    shows = "record used after its callback" },
  { script = "cswlog",
    edits = { '  if not r.next_prev_tid then return "" end\n', "" },
    breaks = "without root or -a the records have no other task, and each one raises",
    shows = "number expected, got nil" },
  { script = "drsnoop",
    edits = { 'format = "%.3f", title = "LAT(ms)"', 'format = "%d", title = "LAT(ms)"' },
    breaks = "a wait that is not a whole number of ms raises", shows = "number has no integer representation" },
  { script = "execsnoop",
    edits = { "    started[r.pid] = nil\n", "" },
    breaks = "every process that ever ran keeps its entry, and a reused pid has the time of the ended one",
    shows = "memory" },
  { script = "execsnoop",
    edits = { "  words = words or {}\n", "" },
    breaks = "a program that ended before its arguments are read raises",
    shows = "index a nil value %(local 'words'%)" },
  { script = "execsnoop",
    edits = { '"%12.6f %7d %7s %-16s %s"', '"%12.6f %7d %7d %-16s %s"', 'r.task.ppid or "?"', "r.task.ppid" },
    breaks = "a task whose parent is unknown raises", shows = "number expected, got nil" },
  { script = "flightrec", words = "sched:sched_switch",
    edits = { '  if not ok then failed = io.stderr:write("flightrec: ", what, "\\n") end\n',
      '  print(("-- %d records"):format(ok))\n' },
    breaks = "a refusal of the kernel to pause a ring raises in the script instead of being printed",
    shows = "number expected, got nil" },
  { script = "funccount", words = "sched:sched_switch sched:sched_wakeup sched:sched_process_fork",
    edits = { "    if a.count ~= b.count then return a.count > b.count end\n    return a.event < b.event\n",
      "    return a.count > b.count\n" },
    breaks = "events with the same count change places from run to run", shows = "order" },
  { script = "funccount", words = "sched:sched_switch",
    edits = { '  if not reading then tool.refuse("funccount", why, 1) end\n', "" },
    breaks = "a counter that cannot be read raises instead of printing the reason",
    shows = "index a nil value %(local 'reading'%)" },
  { script = "funclatency", words = "middle",
    edits = { "  if not row then return end\n", "" },
    breaks = "a function that is never called raises at the end", shows = "index a nil value %(local 'row'%)" },
  { script = "growth",
    edits = { "return a.value.sum > b.value.sum", "return a.value.sum >= b.value.sum" },
    breaks = "some stacks with the same number of bytes raise", shows = "invalid order function" },
  { script = "hardirqs",
    edits = { '("%d:%s"):format(row["args.irq"], row["start.args.name"])',
      'row["args.irq"] .. ":" .. row["start.args.name"]:match "^[%w_-]+"' },
    breaks = "a handler without a name, or with an odd one, raises", shows = "concatenate a nil value" },
  { script = "killsnoop",
    edits = { 'not result and "-" or result < 0', "result < 0" },
    breaks = "a sender that dies of its own signal raises", shows = "compare nil with number" },
  { script = "kmem",
    edits = { "bytes > 0 and 100 * (bytes - asked) / bytes or 0", "100 * (bytes - asked) // bytes" },
    breaks = "a caller that only allocates 0 bytes divides by zero", shows = "divide by zero" },
  { script = "kmem", words = "--top 10",
    edits = { "math.min(opt.top or #rows, #rows)", "opt.top or #rows" },
    breaks = "fewer callers than --top raise", shows = "index a nil value" },
  { script = "locks",
    edits = { "  end,\n  exit = function(r) waits[r.tid] = nil end }", "  end }" },
    breaks = "every thread that ever waited keeps its waits", shows = "memory" },
  { script = "locks",
    edits = { "local key = tid ~= 0 and tid or -1 - cpu", "local key = cpu" },
    breaks = "a wait that ends on another CPU is missing, and its begin joins a wait of another thread",
    shows = "time" },
  { script = "offcputime",
    edits = { ", fork = waits.cancel", "" },
    breaks = "a task with the tid of an ended one waits since the end of that", shows = "time" },
  { script = "procmon",
    edits = { "r.addr + r.len, escape(r.filename)", "r.addr + r.len, r.filename" },
    breaks = "the name of a mapped file moves the cursor of the terminal", shows = "output" },
  { script = "procmon",
    edits = { '("%s %d %s"):format(({ "load", "unload" })[r.bpf_type] or r.bpf_type, r.id,',
      '(({ "load", "unload" })[r.bpf_type] .. " %d %s"):format(r.id,' },
    breaks = "a bpf record of a newer kernel, with another type, raises", shows = "concatenate a nil value" },
  { script = "softirqs",
    edits = { "return kinds[vec] or tostring(vec)", "return kinds[vec]:lower()" },
    breaks = "a soft interrupt that the table lacks raises", shows = "index a nil value %(field '%?'%)" },
  { script = "syscount", options = "-j", words = "-P",
    edits = { "tool.json { pid = pid, comm = comm, call = call, value = counts[key] }",
      [[('{"pid":%d,"comm":"%s","value":%d}'):format(pid, comm, counts[key])]] },
    breaks = "a comm with a quotation mark or a control character makes invalid JSON", shows = "output" },
  { script = "syslat",
    edits = { ", exit = calls.cancel", "" },
    breaks = "a task with the tid of one that ended in a call returns from that call", shows = "time" },
  { script = "tcpconnect",
    edits = { "  print_row { time = (r.time - first) / 1e9, pid = r.pid, comm = r.comm, saddr = source, "
        .. "daddr = destination,\n    dport = args.dport }\n",
      '  print(("%-11.6f %7d %-16s %-15s %-15s %5d"):format((r.time - first) / 1e9, r.pid, r.comm, source, '
        .. "destination, args.dport))\n" },
    breaks = "the comm of a task moves the cursor of the terminal", shows = "output" },
  { script = "tcplife",
    edits = { "  sessions[socket] = nil\n", "" },
    breaks = "every socket that ever was keeps its entry", shows = "memory" },
  { script = "timeline",
    edits = { "if not one or one.tid ~= tid or tid == 0 then return end",
      "if one.tid ~= tid or tid == 0 then return end" },
    breaks = "a task that leaves a CPU raises if the record of its begin was lost", shows = "index a boolean value" },
  { script = "timeline", words = "--mark sched:sched_waking",
    edits = { "local function mark(r)\n", "local function mark(r, args)\n",
      "time = r.time, args = { comm = r.comm, tid = r.tid } }", "time = r.time, args = args }" },
    breaks = "the fields of a marked event are kept without a copy, and nothing is written at the end",
    shows = "cannot encode a userdata" },
  { script = "trace", words = "kprobe:middle n:u64",
    edits = { "  if n >= 0 then return tostring(n) end\n  local tens = (n >> 1) // 5\n"
        .. '  return ("%d%d"):format(tens, n - 10 * tens)\n',
      '  local digits = ""\n  repeat digits, n = n % 10 .. digits, n // 10 until n == 0\n  return digits\n' },
    breaks = "a number from 2^63 on is negative, so the loop never ends and fills the memory", shows = "hang" },
  { script = "ulocks", words = "--call-graph fp",
    edits = { "  end,\n  exit = function(r) waiting[r.tid] = nil end }))", "  end }))" },
    breaks = "a thread with the tid of one that ended in a wait has waited since then", shows = "time" },
  { script = "wakeuptime",
    edits = { '"idle" or waker)', '"idle" or waker:match "^[%w/:_-]+")' },
    breaks = "a waker whose name begins with another character, as (systemd), raises",
    shows = "concatenate a nil value" },
  { script = "watch", words = "--each 0x601040/8",
    edits = { "first and last - first", "last - first" },
    breaks = "a run without any access raises at the end", shows = "arithmetic on a nil value" },
}

local function replace_once(text, old, new)
  local first, last = text:find(old, 1, true)
  assert(first, "the script has no such text: " .. old)
  assert(not text:find(old, last + 1, true), "the script has this text twice: " .. old)
  return text:sub(1, first - 1) .. new .. text:sub(last + 1), select(2, text:sub(1, first):gsub("\n", "")) + 1
end

--- A shipped script with a mistake.
-- @tparam table mistake  one of the list
-- @treturn string  its text
-- @treturn integer  the first changed line
function M.text(mistake)
  local text = assert(run.slurp(("scripts/%s.lua"):format(mistake.script)))
  local first = math.huge
  for i = 1, #mistake.edits, 2 do
    local line
    text, line = replace_once(text, mistake.edits[i], mistake.edits[i + 1])
    first = math.min(first, line)
  end
  return text, first
end

return M
