-- procmon: prints side-band records: forks, maps, exits, new names and more.
-- perfl procmon -- make
-- perfl -a -d 10s procmon fork exit ksymbol bpf

local perfev = require "perfev"
local escape = perfev.escape

-- Kind of record -> the text of one.
local text = {
  comm = function(r) return (r.exec and "exec " or "renamed ") .. escape(r.comm) end,
  fork = function(r)
    return r.pid == r.ppid and ("thread %d"):format(r.tid) or ("process %d"):format(r.pid)
  end,
  exit = function(r) return r.pid == r.tid and "process" or "thread" end,
  mmap = function(r)
    return ("%x-%x %s"):format(r.addr, r.addr + r.len, escape(r.filename))
  end,
  switch = function(r) return r.preempt and "preempted" or r.out and "out" or "in" end,
  namespaces = function(r)
    local ns = r.namespaces
    return ("of %d mnt:%d pid:%d net:%d"):format(r.pid, ns.mnt.inode, ns.pid.inode, ns.net.inode)
  end,
  ksymbol = function(r)
    local how = r.flags & 1 == 1 and "gone" or "new"
    return ("%s %x+%x %s"):format(how, r.addr, r.len, escape(r.name))
  end,
  bpf = function(r)
    return ("%s %d %s"):format(({ "load", "unload" })[r.bpf_type] or r.bpf_type, r.id,
      (r.tag:gsub(".", function(c) return ("%02x"):format(c:byte()) end)))
  end,
  cgroup = function(r) return ("%d %s"):format(r.id, escape(r.path)) end,
  text_poke = function(r) return ("%x %d bytes"):format(r.addr, r.new_len) end,
}
local always = { "comm", "fork", "exit", "mmap", "switch" } -- need no privileges
local privileged = { "namespaces", "ksymbol", "bpf", "cgroup", "text_poke" }
local kinds = table.move(privileged, 1, #privileged, #always + 1, { table.unpack(always) })

local opt = perfev.args {
  summary = "print the kernel's side-band records",
  { "kinds", args = "*", metavar = "KIND", choices = kinds,
    help = table.concat(kinds, ", ") .. " (default: all but switch)" },
  output = [[
Prints a line for each record: TIME(s) since the first, CPU, TID and COMM of the
task, the type of the RECORD, and WHAT it says.]],
}

local wanted = {}
for _, kind in ipairs(#opt.kinds > 0 and opt.kinds or kinds) do
  wanted[kind] = #opt.kinds > 0 or kind ~= "switch"
end

perfev.begin(function()
  print(("%12s %4s %7s %-16s %-10s %s"):format("TIME(s)", "CPU", "TID", "COMM", "RECORD", "WHAT"))
end)

local first
local function line(kind, say)
  return function(r)
    if r.synthesised then return end -- describes a task from before the recording
    first = first or r.time
    print(("%12.6f %4s %7d %-16s %-10s %s"):format((r.time - first) / 1e9, r.cpu or "-",
      r.sample_id.tid or r.tid or 0, escape(r.comm or "?"), kind, say(r)))
  end
end

local all = { lost = line("lost", function(r) return r.lost .. " records" end) }
for _, kind in ipairs(always) do
  all[kind] = wanted[kind] and line(kind, text[kind]) or nil
end
perfev.event(all)

-- One event for each kind, so that a refused one does not affect the others.
for _, kind in ipairs(privileged) do
  if wanted[kind] then
    local event = perfev.event { [kind] = line(kind, text[kind]), optional = true, name = kind }
    perfev.begin(function()
      if event.error then print(kind .. " is not available here; -v says why") end
    end)
  end
end
