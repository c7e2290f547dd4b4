-- syscount: counts system calls, by name or by process.
-- perfl syscount -- ls -R /usr/share/doc
-- perfl -a -d 5s syscount --per-process --top 10

local perfev = require "perfev"
local syscalls = require "perfev.syscalls"

local opt = perfev.args {
  summary = "count system calls by name or by process",
  { "-P --per-process", help = "one row per process instead of one per call" },
  { "-c --per-call", help = "with --per-process: one row per call of each process" },
  { "-T --top", type = "integer", metavar = "N", help = "the N most frequent only" },
}

local per_call = opt.per_call or not opt.per_process
local counts, comms, total = {}, {}, 0
local calls = perfev.count { by = "args.id", max_keys = 1 << 28 }

local function of_process(r, args)
  local key = per_call and r.pid << 32 | args.id & 0xffffffff or r.pid
  counts[key] = (counts[key] or 0) + 1
  total = total + 1
  comms[r.pid] = r.comm -- the latest: exec gives a new one
end

-- By name alone no Lua is run per record.
perfev.event { "raw_syscalls:sys_enter", sample = opt.per_process and of_process or calls }

local function row(pid, comm, call, count)
  local cells = {}
  if opt.per_process then cells[1] = ("%7s %-16s"):format(pid, comm) end
  if per_call then cells[#cells + 1] = ("%-28s"):format(call) end
  cells[#cells + 1] = ("%12s"):format(count)
  print(table.concat(cells, " "))
end

local function show(key)
  local pid = per_call and key >> 32 or key
  local call = syscalls.name(opt.per_process and key & 0xffffffff or key)
  row(pid, perfev.escape(comms[pid] or ""), call, counts[key])
end

local function sum(label, count)
  row("", per_call and "" or label, label, count)
end

perfev.done(function()
  for id, count in calls:pairs() do counts[id], total = count, total + count end
  local keys = {}
  for key in pairs(counts) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a < b
  end)
  local shown, most = 0, math.min(opt.top or #keys, #keys)
  row("PID", "COMM", "CALL", "COUNT")
  for i = 1, most do
    show(keys[i])
    shown = shown + counts[keys[i]]
  end
  if most < #keys then sum(("(%d others)"):format(#keys - most), total - shown) end
  sum("total", total)
end)
