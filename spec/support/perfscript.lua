-- perfscript.lua - describes a recording as perf script reads it and as perfev reads it, in texts to compare.
--
--   local perfscript = require "spec.support.perfscript"
--   local ours = perfscript.ours(path)
--   assert.same(perfscript.perf(path, ours), ours.told) -- among others in perfscript.assert_alike(path)
--
-- A description has `types` (the count of each type), `samples` (all fields that -D shows), `tasks` (side-band
-- records with their fields) and `lines` (the output of -F: comm, ids, time, period, event, payload). Each list is
-- sorted by time, and by text if times are equal.

local assert = require "luassert"
local core = require "perfev.core"
local perfev = require "perfev"
local run = require "spec.support.run"

local M = {}

local NO_TIME = "18446744073709551615" -- perf's value
local registers = require("perfev.record.registers").of(core.machine)

local function squeezed(text) return (text:gsub("%s+", " "):gsub(" $", "")) end

-- ---- perf ----

-- The lines after a sample's first line, one fact each: pattern -> our text.
local facts = {
  { "^%.%.%.%.%. +%d+: (%x+)$", function(ip) return "chain " .. ip end },
  { "^%.%.%. ustack: size (%d+)", function(size) return "stack " .. size end },
  { "^%.%.%.%. (%w+) +0x(%x+)$", function(name, value) return ("%s %x"):format(name:lower(), tonumber(value, 16)) end },
  { "^%.%.%. weight: (%d+)", function(weight) return "weight " .. weight end },
  { "^ %. data_src: 0x(%x+)", function(value) return "data_src " .. value end },
  { "^ %.%. phys_addr: 0x(%x+)", function(value) return "phys " .. value end },
  { "^ %.%. (%a+) page size: (%S+)", function(what, size) return what .. " page " .. size end },
  { "^%.%.%. transaction: (%x+)", function(value) return "transaction " .. value end },
  { "^%.%.%.%.%.%. time (%a+) (%x+)", function(what, value) return what .. " " .. tonumber(value, 16) end },
  { "^%.%.%.%.%. id (%x+), value (%x+)", function(id, value)
    return ("value %x %x"):format(tonumber(id, 16), tonumber(value, 16))
  end },
}

-- "0: FROM -> TO N cycles FLAGS ..."; each of M, P, A, T or a blank
local function branch_of(line)
  local from, to, cycles, flags = line:match "^%.%.%.%.%. +%d+: (%x+) %-> (%x+) (%d+) cycles (....)"
  return from and ("branch %s %s %s %s"):format(from, to, cycles, flags:gsub(" ", ""))
end

local function fact_of(line)
  local branch = branch_of(line)
  if branch then return branch end
  for _, fact in ipairs(facts) do
    local a, b = line:match(fact[1])
    if a then return fact[2](a, b) end
  end
end

local told_tasks = { COMM = true, FORK = true, EXIT = true, MMAP = true, MMAP2 = true, CGROUP = true, SWITCH = true,
                     SWITCH_CPU_WIDE = true, READ = true, LOST = true, NAMESPACES = true }

local function sample_of(before, text)
  local misc, pid, tid, ip, period, addr = text:match(
    "^%(IP, 0x(%x+)%): (%-?%d+)/(%-?%d+): (%S+) period: (%d+) addr: (%S+)")
  local cpu, time = before:match "^(%d+) (%d+) $"
  time = time or before:match "^(%d+) $" or NO_TIME
  local out = { time, tonumber(misc, 16), pid, tid, tonumber(ip), period, tonumber(addr) or tonumber("0x" .. addr) }
  if cpu and cpu ~= "4294967295" then out[#out + 1] = "cpu " .. cpu end
  return out
end

-- A line of -F, after the dump of its sample.
local function script_line(line)
  local comm, pid, tid, s, ns, rest = line:match "^%s*(.-)%s+(%-?%d+)/(%-?%d+)%s+(%d+)%.(%d+):%s+(.-)%s*$"
  return comm and ("%d %s %s/%s %s"):format(tonumber(s .. ns), comm, pid, tid, squeezed(rest))
end

local function by_time(list)
  table.sort(list, function(a, b)
    local x, y = tonumber(a:match "^%d+") or 0, tonumber(b:match "^%d+") or 0
    if x ~= y then return x < y end
    return a < b
  end)
  return list
end

--- Describes a recording, which perfev has read before, by the output of `perf script -D -F ...`.
function M.perf(path, ours)
  local told = { types = {}, samples = {}, tasks = {}, lines = {} }
  local sample
  local command = { "perf", "script", "-D", "--no-inline", "-i", path }
  if ours.timed then
    table.move({ "--ns", "-F", "comm,pid,tid,time,period,event" .. (ours.payload and ",trace" or "") }, 1, 3,
      #command + 1, command)
  end
  local text = run(command).out
  for line in text:gmatch "[^\n]+" do
    local first = line:byte()
    local before, name, rest = nil, nil, nil
    if first ~= 46 and first ~= 32 then -- "." continues the dump, " " starts a line of -F
      before, name, rest = line:match "^([%d%s%-]-)%w+@?%S* %[0x%x+%]: PERF_RECORD_([%u%d_]+)(.*)$"
    end
    if name then
      name = name:gsub("^STAT_ROUNDCPU$", "STAT_ROUND") -- perf prints a table's title directly after the name
      told.types[name] = (told.types[name] or 0) + 1
      sample = nil
      if name == "SAMPLE" then
        sample = sample_of(before, rest)
        told.samples[#told.samples + 1] = sample
      elseif told_tasks[name] then
        local time = before:match "(%-?%d+) $"
        local none = not time or time == "0" or time == "-1" or time == NO_TIME
        told.tasks[#told.tasks + 1] = ("%s %s%s"):format(none and "-" or time, name, squeezed(rest))
      end
    elseif first ~= 46 or line:sub(1, 3) == "..." then
      local fact = sample and fact_of(line)
      if fact then
        sample[#sample + 1] = fact
      else
        told.lines[#told.lines + 1] = script_line(line)
      end
    end
  end
  for i, one in ipairs(told.samples) do told.samples[i] = table.concat(one, " ") end
  by_time(told.samples)
  by_time(told.tasks)
  by_time(told.lines)
  return told
end

-- ---- ours ----

local PAGES = { [0] = "N/A", [4096] = "4K", [2 << 20] = "2M", [1 << 30] = "1G" }

local function push_registers(out, regs)
  for bit = 0, 63 do
    if registers[bit] and regs[registers[bit]] then
      out[#out + 1] = ("%s %x"):format(registers[bit], regs[registers[bit]])
    end
  end
end

local function push_branches(out, branches)
  for _, b in ipairs(branches) do
    out[#out + 1] = ("branch %016x %016x %d %s"):format(b.from, b.to, b.cycles, (b.mispred and "M" or "")
      .. (b.predicted and "P" or "") .. (b.abort and "A" or "") .. (b.in_tx and "T" or ""))
  end
end

local function push_read(out, read)
  if read.time_enabled then out[#out + 1] = "enabled " .. read.time_enabled end
  if read.time_running then out[#out + 1] = "running " .. read.time_running end
  for _, one in ipairs(read.values or { read }) do out[#out + 1] = ("value %x %x"):format(one.id, one.value) end
end

local function sample_text(r)
  local period = r.period or r.event.attr.sample_period
  local out = { r.time or NO_TIME, r.misc, r.pid, r.tid, r.ip, period, r.addr or 0 }
  if r.cpu then out[#out + 1] = "cpu " .. r.cpu end
  for _, ip in ipairs(r.callchain and r.callchain.raw or {}) do out[#out + 1] = ("chain %016x"):format(ip) end
  if r.branch_stack then push_branches(out, r.branch_stack) end
  if r.regs_user then push_registers(out, r.regs_user) end
  if r.stack_size then out[#out + 1] = "stack " .. #r.stack_user end
  if r.regs_intr then push_registers(out, r.regs_intr) end
  if r.weight then out[#out + 1] = "weight " .. (math.type(r.weight) and r.weight or r.weight.var1_dw) end
  if r.data_src then out[#out + 1] = ("data_src %x"):format(r.data_src.raw) end
  if r.phys_addr then out[#out + 1] = ("phys %x"):format(r.phys_addr) end
  if r.data_page_size then out[#out + 1] = "data page " .. PAGES[r.data_page_size] end
  if r.code_page_size then out[#out + 1] = "code page " .. PAGES[r.code_page_size] end
  if r.transaction then out[#out + 1] = ("transaction %x"):format(r.transaction.raw) end
  if r.read then push_read(out, r.read) end
  return table.concat(out, " ")
end

local function ids(r) return ("%d/%d"):format(r.pid, r.tid) end
local function parents(r) return ("(%d:%d):(%d:%d)"):format(r.pid, r.tid, r.ppid, r.ptid) end
local function hex(n) return n == 0 and "0" or ("0x%x"):format(n) end
local function range(r) return ("[%s(%s) @ %s"):format(hex(r.addr), hex(r.len), hex(r.pgoff)) end

local function protection(r)
  return (r.prot & 1 ~= 0 and "r" or "-") .. (r.prot & 2 ~= 0 and "w" or "-") .. (r.prot & 4 ~= 0 and "x" or "-")
    .. (r.flags & 1 ~= 0 and "s" or "p")
end

local function file_of(r)
  if r.build_id then return "<" .. r.build_id:gsub(".", function(c) return ("%02x"):format(c:byte()) end) .. ">" end
  return ("%02x:%02x %d %d"):format(r.maj, r.min, r.ino, r.ino_generation)
end

local function switch(r, other)
  return (r.out and "OUT" or "IN") .. (r.preempt and " preempt" or "") .. (other or "")
end

local function read_text(r)
  return (": %d %d %s %d"):format(r.pid, r.tid, r.event.name, r.read.value)
end

local task_texts = {
  comm = function(r) return (r.exec and " exec: " or ": ") .. r.comm .. ":" .. ids(r) end,
  fork = parents, exit = parents,
  mmap = function(r)
    return (" %s: %s]: %s %s"):format(ids(r), range(r), r.mmap_data and "r" or "x", r.filename)
  end,
  mmap2 = function(r)
    return (" %s: %s %s]: %s %s"):format(ids(r), range(r), file_of(r), protection(r), r.filename)
  end,
  cgroup = function(r) return (" cgroup: %d %s"):format(r.id, r.path) end,
  switch = function(r) return " " .. switch(r) end,
  switch_cpu_wide = function(r)
    return " " .. switch(r, (" %s pid/tid: %d/%d"):format(r.out and "next" or "prev", r.next_prev_pid, r.next_prev_tid))
  end,
  read = read_text,
  lost = function(r) return (": id:%d: lost:%d"):format(r.id, r.lost) end,
  namespaces = function(r)
    local nr = 0
    for _ in pairs(r.namespaces) do nr = nr + 1 end
    return (" %s - nr_namespaces: %d"):format(ids(r), nr)
  end,
}

-- For a sample with a group's values, perf prints one sample per counter that advanced, in place of the leader's.
local function members(r, names, last)
  if not (r.read and r.read.values) then return { { r.event.name, r.period or r.event.attr.sample_period } } end
  local out = {}
  for _, one in ipairs(r.read.values) do
    local delta = one.value - (last[one.id] or 0)
    last[one.id] = one.value
    if delta ~= 0 then out[#out + 1] = { names[one.id], delta } end
  end
  return out
end

local function push_lines(lines, r, names, last, payload)
  for _, one in ipairs(members(r, names, last)) do
    local text = payload and one[1] == r.event.name and tostring(r.args or "") or ""
    lines[#lines + 1] = squeezed(("%d %s %d/%d %d %s: %s"):format(r.time, r.comm or ":" .. r.tid, r.pid, r.tid, one[2],
      one[1], text))
  end
end

local function describe_events(rec, out)
  local names = {}
  out.timed, out.payload = true, false
  for _, event in ipairs(rec.events) do
    for _, id in ipairs(event.ids) do names[id] = event.name end
    out.timed = out.timed and event.attr.sample_type & 4 ~= 0
    out.payload = out.payload or event.attr.type == 2
  end
  return names
end

-- The time at which the record was written; FORK and EXIT also have a time field of their own.
local function time_of(r)
  local time = r.time
  if r.type ~= "sample" then time = r.sample_id and r.sample_id.time end
  return time and time ~= 0 and time or nil
end

--- Describes a recording as perfev reads it -> { told =, timed =, payload =, error =, warnings =, disorder = }
-- @tparam ?table opts  as in perfev.open
function M.ours(path, opts)
  local rec <close> = assert(perfev.open(path, opts))
  local told = { types = {}, samples = {}, tasks = {}, lines = {} }
  local out = { told = told, disorder = 0 }
  local names, last, now = describe_events(rec, out), {}, 0
  for r in rec:records { user = false } do
    local time = time_of(r)
    if time then
      if time < now then out.disorder = out.disorder + 1 end
      now = time
    end
    if r.type == "sample" then
      told.samples[#told.samples + 1] = sample_text(r)
      if out.timed then push_lines(told.lines, r, names, last, out.payload) end
    elseif task_texts[r.type] then
      told.tasks[#told.tasks + 1] = squeezed(("%s %s%s"):format(time or "-", r.type:upper(), task_texts[r.type](r)))
    end
  end
  for name, n in pairs(rec:totals().types) do told.types[tostring(name):upper()] = n end
  by_time(told.samples)
  by_time(told.tasks)
  by_time(told.lines)
  out.error, out.warnings, out.stats = rec.error, rec.warnings, rec:totals()
  return out
end

-- Of the records that describe a pipe's events perf prints only some, in part after another record's
-- text; compressed records it prints twice, or not at all.
local function comparable(types)
  for _, name in ipairs { "ATTR", "HEADER_ATTR", "FEATURE", "TRACING_DATA", "COMPRESSED" } do types[name] = nil end
  return types
end

--- Asserts that perf and perfev describe the recording with the same texts in the same order.
function M.assert_alike(path)
  local ours = M.ours(path)
  assert.is_nil(ours.error)
  assert.same({}, ours.warnings)
  assert.same({ 0, 0 }, { ours.stats.unknown_id, ours.stats.malformed })
  assert.is_true(ours.disorder <= ours.stats.late) -- a delayed recorder writes some records too late
  local perfs = M.perf(path, ours)
  assert.same(perfs.samples, ours.told.samples)
  assert.same(perfs.tasks, ours.told.tasks)
  assert.same(perfs.lines, ours.told.lines)
  assert.same(comparable(perfs.types), comparable(ours.told.types))
  return ours
end

return M
