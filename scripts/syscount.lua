-- syscount: counts system calls by name or by process.
-- perfl syscount ls -R /usr/share/doc
-- perfl -a -d 5s syscount --per-process --top 10

local perfev = require "perfev"
local tool = require "perfev.tool"
local session = perfev.default_session()

local opt = perfev.args {
  summary = "count system calls by name or by process",
  { "-P --per-process", help = "print a row for each process instead of each call" },
  { "-c --per-call", help = "with --per-process: print a row for each call of each process" },
  { "-T --top", type = "integer", metavar = "N", help = "print only the N most frequent" },
  output = [[
Prints a line for each CALL with its COUNT, the most frequent first; with
--per-process a line for each process, with PID and COMM.]],
}

local is_json = tool.output_format() == "json"
local per_call = opt.per_call or not opt.per_process
local counts, comms, total = {}, {}, 0
local by = { opt.per_process and "pid" or "args.id", opt.per_process and "comm" or nil }
if opt.per_process and per_call then by[3] = "args.id" end
local calls = perfev.count { by = by, max_keys = 1 << 28 }
perfev.event { "raw_syscalls:sys_enter", sample = calls }

local function add(key, n)
  counts[key], total = (counts[key] or 0) + n, total + n
end

-- In the order of first appearance, so that a process gets its latest name: exec changes it.
local function add_of_process(pid, comm, id, n)
  if not per_call then id, n = 0, id end
  comms[pid] = comm
  add(per_call and pid << 32 | id & 0xffffffff or pid, n)
end

local function row(pid, comm, call, count)
  local cells = {}
  if opt.per_process then cells[1] = ("%7s %-16s"):format(pid, comm) end
  if per_call then cells[#cells + 1] = ("%-28s"):format(call) end
  cells[#cells + 1] = ("%12s"):format(count)
  print(table.concat(cells, " "))
end

local function show(key)
  local pid = opt.per_process and (per_call and key >> 32 or key) or nil
  local id = opt.per_process and key & 0xffffffff or key
  local call = per_call and perfev.syscalls.name(id, session.machine) or nil
  local comm = pid and comms[pid]
  if is_json then return print(tool.json { pid = pid, comm = comm, call = call, value = counts[key] }) end
  row(pid, perfev.escape(comm or ""), call, counts[key])
end

local function sum(label, count)
  row("", per_call and "" or label, label, count)
end

perfev.done(function()
  for a, b, c, d in calls:pairs() do
    if opt.per_process then add_of_process(a, b, c, d) else add(a, b) end
  end
  local keys = {}
  for key in pairs(counts) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a < b
  end)
  local shown, most = 0, math.min(opt.top or #keys, #keys)
  if not is_json then row("PID", "COMM", "CALL", "COUNT") end
  for i = 1, most do
    show(keys[i])
    shown = shown + counts[keys[i]]
  end
  if is_json then return end
  if most < #keys then sum(("(%d others)"):format(#keys - most), total - shown) end
  sum("total", total)
end)
