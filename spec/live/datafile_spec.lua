-- Recordings by perf record, read by perf and by us: every record and every sample alike.

local perfev = require "perfev"
local run = require "spec.support.run"

local WORK = "ls -l /usr/bin > /dev/null; cat /etc/passwd > /dev/null; for i in 1 2 3; do /bin/true; done"
-- What is recorded how; each has samples.
local kinds = {
  { "one event", "-e cpu-clock -c 200000" },
  { "several events", "-e cpu-clock,page-faults,context-switches -c 1" },
  { "frame pointers' callchains", "-e page-faults -c 1 -g" },
  { "stacks and registers to be unwound", "-e page-faults -c 3 --call-graph dwarf,1024" },
  { "addresses of data", "-e page-faults -c 1 -d" },
  { "switches, namespaces and cgroups", "-e cpu-clock -c 200000 --switch-events --namespaces --all-cgroups" },
  { "a group that is read by its leader", "-e '{cpu-clock,page-faults}:S' -c 100000", group = true },
  { "threads, without inheritance", "-e page-faults -c 1 --per-thread -T" },
  { "compressed records", "-e page-faults -c 1 -g -z" },
  { "compressed records of the best level", "-e page-faults -c 1 -g -z22" },
  { "a pipe", "-e page-faults,cpu-clock -c 1", pipe = true },
  { "a pipe with formats", "-e sched:sched_switch -e raw_syscalls:sys_enter", pipe = true, payload = true },
  { "tracepoints with strings", "-e sched:sched_process_exec -e sched:sched_switch -e syscalls:sys_enter_openat",
    payload = true },
  { "another clock", "-e page-faults -c 1 --clockid monotonic_raw" },
  { "registers", "-e page-faults -c 1 --user-regs=ip,sp,ax --intr-regs=ip,sp" },
  { "physical addresses, cgroups and page sizes", "-e page-faults -c 1 -d --data-page-size --code-page-size" },
  { "the whole machine", "-e cpu-clock -F 999 -a -g" },
  { "periods, weights and ids", "-e page-faults -c 1 -P -W --sample-identifier -T" },
}

local function need()
  if not run.root then pending("recording the kernel needs root") end
  if not run.have "perf" then pending("no perf(1)") end
end

local function record(dir, kind)
  local path = dir .. "/perf.data"
  local command = ("perf record -q %s %s -- sh -c %s"):format(kind[2],
    kind.pipe and "-o - > " .. path or "-o " .. path, run.quote(WORK))
  local result = run(kind.pipe and command:gsub("^(.-)(%-o %- > %S+)(.*)$", "%1-o -%3 > " .. path) or command)
  if result.code ~= 0 then pending("perf record " .. kind[2] .. ": " .. result.err:sub(1, 200)) end
  return path
end

-- ---- what perf says ----

-- Of `perf script -D`: records by type, and for each sample a line of what -D shows of it.
local function dumped(path)
  local types, samples, sample = {}, {}, nil
  local text = run { "perf", "script", "-D", "--no-inline", "-i", path }
  for line in text.out:gmatch("[^\n]+") do
    local name = line:match("^[%d%s%-]*0x%x+ %[0x%x+%]: PERF_RECORD_([%u%d_]+)")
      or line:match("^[%d%s%-]*0x%x+@%S+ %[0x%x+%]: PERF_RECORD_([%u%d_]+)")
    if name then
      types[name] = (types[name] or 0) + 1
      sample = nil
    end
    if name == "SAMPLE" then
      local before, misc, pid, tid, ip, period, addr = line:match(
        "^([%d%s%-]*)0x.-PERF_RECORD_SAMPLE%(IP, 0x(%x+)%): (%-?%d+)/(%-?%d+): (%S+) period: (%d+) addr: (%S+)")
      local time = assert(before, line):match("(%d+) $")
      sample = { time, tonumber(misc, 16), pid, tid, tonumber(ip), period, tonumber(addr) or tonumber("0x" .. addr) }
      samples[#samples + 1] = sample
      local cpu = before:match("^(%d+) %d+ $")
      sample.cpu = cpu ~= "4294967295" and cpu or nil
    elseif sample then
      local entry = line:match("^%.%.%.%.%. +%d+: (%x+)$")
      if entry then sample[#sample + 1] = "chain " .. entry end
      local size = line:match("^%.%.%. ustack: size (%d+)")
      if size then sample[#sample + 1] = "stack " .. size end
      local reg, value = line:match("^%.%.%.%. (%w+) +0x(%x+)$")
      if reg then sample[#sample + 1] = ("%s %x"):format(reg:lower(), tonumber(value, 16)) end
    end
  end
  for i, s in ipairs(samples) do samples[i] = table.concat(s, " ") .. (s.cpu and " cpu " .. s.cpu or "") end
  table.sort(samples)
  return types, samples
end

-- Of `perf script -F`: comm, ids, time, event and payload of each sample.
local function scripted(path, payload)
  local lines = {}
  local fields = "comm,pid,tid,time,event" .. (payload and ",trace" or "")
  local text = run { "perf", "script", "--ns", "-F", fields, "-i", path }
  for line in text.out:gmatch("[^\n]+") do
    local comm, pid, tid, s, ns, rest = line:match("^%s*(.-)%s+(%-?%d+)/(%-?%d+)%s+(%d+)%.(%d+):%s+(.-)%s*$")
    if comm then
      lines[#lines + 1] = ("%s %s/%s %s%s %s"):format(comm, pid, tid, s, ns, (rest:gsub("%s+", " ")))
    end
  end
  table.sort(lines)
  return lines
end

-- ---- what we say ----

-- As -D prints it. Registers are in the order of their bits there.
local function registers(out, names, regs)
  for bit = 0, 63 do
    if names[bit] and regs[names[bit]] then out[#out + 1] = ("%s %x"):format(names[bit], regs[names[bit]]) end
  end
end

local function line_of(r)
  local out = { r.time, r.misc, r.pid, r.tid, r.ip, r.period or r.event.attr.sample_period, r.addr or 0 }
  for _, ip in ipairs(r.callchain and r.callchain.raw or {}) do out[#out + 1] = ("chain %016x"):format(ip) end
  local names = require("perfev.registers").of(require("perfev.core").machine)
  if r.regs_user then registers(out, names, r.regs_user) end
  if r.stack_size then out[#out + 1] = "stack " .. #r.stack_user end
  if r.regs_intr then registers(out, names, r.regs_intr) end
  return table.concat(out, " ") .. (r.cpu and " cpu " .. r.cpu or "")
end

local function ours(path, payload)
  local rec <close> = assert(perfev.open(path))
  local samples, lines = {}, {}
  for r in rec:records() do
    if r.type == "sample" then
      samples[#samples + 1] = line_of(r)
      lines[#lines + 1] = (("%s %d/%d %d %s: %s"):format(r.comm or ":" .. r.tid, r.pid, r.tid, r.time, r.event.name,
        payload and tostring(r.args) or ""):gsub("%s+", " "):gsub(" $", ""))
    end
  end
  local types = {}
  for name, n in pairs(rec:stats().types) do types[name:upper()] = n end
  table.sort(samples)
  table.sort(lines)
  assert.is_nil(rec.error)
  assert.same({}, rec.warnings)
  return types, samples, lines
end

-- What describes a pipe's events perf prints in part, some of it behind another's text; what is
-- compressed it prints twice.
local function comparable(types)
  for _, name in ipairs { "ATTR", "HEADER_ATTR", "FEATURE", "TRACING_DATA", "COMPRESSED" } do types[name] = nil end
  return types
end

-- Of a group that is read by its leader perf makes a sample of each member's value.
local function leaders(lines)
  local kept = {}
  for _, line in ipairs(lines) do
    if not line:find(" page-faults:", 1, true) then kept[#kept + 1] = line end
  end
  return kept
end

describe("perf record's", function()
  for _, kind in ipairs(kinds) do
    it("recording with " .. kind[1] .. " is read as perf reads it", function()
      need()
      local dir = run.tempdir()
      finally(function() run.remove(dir) end)
      local path = record(dir, kind)
      local types, samples = dumped(path)
      local our_types, our_samples, our_lines = ours(path, kind.payload)
      assert.is_true(#our_samples > 0)
      assert.same(samples, our_samples)
      local lines = scripted(path, kind.payload)
      assert.same(kind.group and leaders(lines) or lines, our_lines)
      assert.same(comparable(types), comparable(our_types))
    end)
  end
end)
