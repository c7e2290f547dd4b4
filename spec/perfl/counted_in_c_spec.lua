-- Scripts that count in C, against twins with Lua callbacks that must print the same (stacks_spec.lua has those of
-- stacks); and the list of scripts that have callbacks, with the reason.

local asks = require "perfev.event.declaration".asks
local json = require "spec.support.json"
local run = require "spec.support.run"

local machine = require "spec.support.worlds" [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", cpus = "0-1", tasks = { [7] = "app", [8] = "helper", [9] = "disker" },
                    types = { [0] = true, true, true, [6] = { sampling = true } } }
local pmu = "/sys/bus/event_source/devices/kprobe/"
k.files[pmu .. "type"], k.files[pmu .. "format/retprobe"] = "6\n", "config:0\n"
local CYCLES, ENTRY, RETURN = { type = 0, config = 0 }, { type = 6, config = 0 }, { type = 6, config = 1 }
math.randomseed(5)
local any = math.random
local function sample(pid, event, more)
  local t = { type = "sample", pid = pid, tid = pid, event = event, ip = any(3) * 16 }
  for name, value in pairs(more or {}) do t[name] = value end
  return t
end
local kinds = {
  function(pid) return sample(pid, CYCLES) end,
  function(pid) return { type = "switch", pid = pid, tid = pid, out = any(2) == 1 } end,
  function(pid) return sample(pid, ENTRY) end,
  function(pid) return sample(pid, RETURN, { regs_intr = { abi = 2, [0] = any(-4, 3) } }) end,
  function(pid) return sample(pid, "raw_syscalls:sys_enter", { args = { id = any(0, 3) } }) end,
  function(pid) return sample(pid, "raw_syscalls:sys_exit", { args = { id = any(0, 3), ret = any(-2, 2) } }) end,
}
for ms = 1, 3500, 5 do
  local cpu, record = any(0, 1), kinds[any(#kinds)](any(7, 9))
  k:after(ms .. "ms", function() k:ring(cpu):push(record) end)
end

-- 400 switches and wakeups in an order that a scheduler could make, and block requests.
k:tracepoint("sched:sched_wakeup_new", 901, "char comm[16]; pid_t pid; int prio; int target_cpu")
k:tracepoint("block:block_rq_issue", 902, "u32 dev; u64 sector; unsigned int nr_sector; unsigned int bytes; "
  .. "char rwbs[10]; char comm[16]")
k:tracepoint("block:block_rq_complete", 904, "u32 dev; u64 sector; unsigned int nr_sector; int error; char rwbs[10]")
local comms = { [0] = "swapper", [7] = "app", [8] = "helper", [9] = "disker" }
local running, asleep, ready, us = { [0] = 0, 0 }, { 7, 8, 9 }, {}, 0
local function happen(cpu, pid, event, args)
  k:after(us * 1000, function() k:ring(cpu):push(sample(pid, event, { args = args })) end)
end
local function wake_one()
  local pid = table.remove(asleep, any(#asleep))
  happen(0, 0, any(5) == 1 and "sched:sched_wakeup_new" or "sched:sched_wakeup",
    { comm = comms[pid], pid = pid, prio = 0, target_cpu = 1 })
  ready[#ready + 1] = pid
end
local function switch_on(cpu)
  local prev = running[cpu]
  local stays = prev ~= 0 and any(2) == 1
  local next = #ready > 0 and table.remove(ready, any(#ready)) or 0
  local state = stays and (any(2) == 1 and 0 or 256) or prev == 0 and 0 or 1
  happen(cpu, prev, "sched:sched_switch", { prev_comm = comms[prev], prev_pid = prev, prev_state = state,
    next_comm = comms[next], next_pid = next })
  if prev ~= 0 then table.insert(stays and ready or asleep, prev) end
  running[cpu] = next
end
for _ = 1, 400 do
  us = us + any(1, 300)
  local cpu = any(0, 1)
  if #asleep > 0 and any(2) == 1 then wake_one()
  elseif #ready > 0 or running[cpu] ~= 0 then switch_on(cpu) end
  local request = { dev = any(1, 2) << 20, sector = any(8), nr_sector = 1, rwbs = "R" }
  local is_issue = any(2) == 1
  if is_issue then request.bytes, request.comm = 512, "disker" end
  happen(0, 9, is_issue and "block:block_rq_issue" or "block:block_rq_complete", request)
end
]]

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function output_of(...) return machine.output(dir, "", "-d", "4s", ...) end

-- Their common beginning: counts by key, in the order of the keys.
local COUNTS = [[
local counts, total = {}, 0
local function inc(key) counts[key], total = (counts[key] or 0) + 1, total + 1 end
local function in_order(show)
  local keys = {}
  for key in pairs(counts) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do show(key, counts[key]) end
end
]]

-- Durations in ns, by thread or by another key; none for the idle task, 0.
local SPAN = [[
local begun = {}
local function begin(key, time) if key ~= 0 then begun[key] = time end end
local function finish(key, time, ...)
  if begun[key] then took:add(time - begun[key], ...) end
  begun[key] = nil
end
]]

-- Prints the histogram of these durations.
local function histogram(options, unit, events)
  return ([[
    local shown, took = hist { %s }, {}
    function took:add(ns, ...) shown:add(ns // %d, ...) end
    done(function() shown:print() end) ]]):format(options, unit) .. SPAN .. events
end

local REQUESTS = [[
  local function key_of(args) return args.dev .. " " .. args.sector end
  event { "block:block_rq_issue", sample = function(r, args) begin(key_of(args), r.time) end }
  event { "block:block_rq_complete", sample = function(r, args) finish(key_of(args), r.time) end }]]

-- Counts system calls by a key, and prints them, the most frequent first, in rows of a form.
local function calls(key, row, cells)
  return COUNTS .. ([[
    local syscalls = require "perfev.tracepoint.syscalls"
    local names = { [7] = "app", [8] = "helper", [9] = "disker" }
    local function row(pid, comm, call, n) print(("%s"):format(%s)) end
    event { "raw_syscalls:sys_enter", sample = function(r, args) inc(%s) end }
    done(function()
      local keys = {}
      for key in pairs(counts) do keys[#keys + 1] = key end
      table.sort(keys, function(a, b)
        if counts[a] ~= counts[b] then return counts[a] > counts[b] end
        return a < b
      end)
      row("PID", "COMM", "CALL", "COUNT")
      for _, key in ipairs(keys) do
        row(key >> 32, names[key >> 32], syscalls.name(key & 0xffffffff), counts[key])
      end
      row("", "", "total", total)
    end)]]):format(row, cells, key)
end

local twins = {
  ["scripts/examples/hardware.lua"] = COUNTS .. [[
    event { "cycles:u", freq = 999, sample = function(r) inc(r.comm) end }
    done(function()
      in_order(function(comm, n) print(("%5.1f %% %s"):format(100 * n / total, comm)) end)
      print(total .. " samples")
    end)]],
  ["scripts/examples/every.lua"] = [[
    local n = 0
    event { switch = function(r) if r.out then n = n + 1 end end }
    every("1s", function()
      print(("%8d context switches, 0 records lost"):format(n))
      n = 0
    end)]],
  ["scripts/examples/kretprobe.lua"] = COUNTS .. [[
    event { "kretprobe:vfs_read", args = { "$retval:long" }, sample = function(_, args)
      inc(args.retval >= 0 and "fine" or perfev.errno[-args.retval])
    end }
    done(function() in_order(function(name, n) print(n, name) end) end)]],
  ["funclatency vfs_read --unit s"] = [[
    local shown, took = hist { unit = "s", title = "vfs_read" }, stats {} ]] .. SPAN .. [[
    event { "kprobe:vfs_read", sample = function(r) begin(r.tid, r.time) end }
    event { "kretprobe:vfs_read", sample = function(r)
      if begun[r.tid] then shown:add((r.time - begun[r.tid]) // 1000000000) end
      finish(r.tid, r.time)
    end }
    done(function()
      shown:print()
      local v = took:get()
      print(("avg = %d s, total: %d s, count: %d"):format(v.avg // 1e9, v.sum // 1000000000, v.count))
    end)]],
  ["syslat --failed"] = [[
    local syscalls = require "perfev.tracepoint.syscalls"
    local took, ids = quantile { by = "id" }, {} ]] .. SPAN .. [[
    event { "raw_syscalls:sys_enter", sample = function(r, args) begin(r.tid, r.time) ids[r.tid] = args.id end }
    event { "raw_syscalls:sys_exit", sample = function(r, args) -- its id may be -1 by now
      if args.ret < 0 then finish(r.tid, r.time, ids[r.tid]) else begun[r.tid] = nil end
    end }
    done(function()
      local rows, line = took:rows(), "%-20s %7s %10s %9s %9s %9s %9s"
      table.sort(rows, function(a, b) return a.value.sum > b.value.sum end)
      print(line:format("CALL", "COUNT", "TOTAL(us)", "AVG(us)", "P50(us)", "P99(us)", "MAX(us)"))
      for _, row in ipairs(rows) do
        local v, words = row.value, {}
        for i, name in ipairs { "sum", "avg", "p50", "p99", "max" } do words[i] = ("%.1f"):format(v[name] / 1000) end
        print(line:format(syscalls.name(row.id), v.count, table.unpack(words)))
      end
    end)]],
  ["runqlat --per comm"] = histogram('by = "args.next_comm", unit = "us", title = "run queue latency"', 1000, [[
    local function woken(r, args) begin(args.pid, r.time) end
    event { "sched:sched_wakeup", sample = woken }
    event { "sched:sched_wakeup_new", sample = woken }
    event { "sched:sched_switch", sample = function(r, args)
      if args.next_pid ~= 0 then finish(args.next_pid, r.time, args.next_comm) end
      if args.prev_state == 0 or args.prev_state == 256 then begin(args.prev_pid, r.time) end
    end }]]),
  ["cpudist --per comm"] = histogram('by = "args.prev_comm", unit = "us", title = "on-CPU time"', 1000, [[
    event { "sched:sched_switch", sample = function(r, args)
      finish(args.prev_pid, r.time, args.prev_comm)
      begin(args.next_pid, r.time)
    end }]]),
  biolatency = histogram('unit = "us", title = "block I/O latency"', 1000, REQUESTS),
  ["latency block"] = histogram(
    'unit = "ns", title = "from block:block_rq_issue to block:block_rq_complete"', 1, REQUESTS),
  syscount = calls("args.id", "%-28s %12s", "call, n"),
  ["syscount -P -c"] = calls("r.pid << 32 | args.id", "%7s %-16s %-28s %12s", "pid, comm, call, n"),
}

describe("a script that counts in C prints the same as its twin with callbacks:", function()
  for words, twin in pairs(twins) do
    it(words, function()
      local list = {}
      for word in words:gmatch "%S+" do list[#list + 1] = word end
      local native = output_of(table.unpack(list)):gsub("[^\n]*not counted\n", "") -- the span's alone
      assert.is_true(select(2, native:gsub("\n", "")) >= 4, native)
      assert.equal(output_of("-e", twin), native)
    end)
  end
end)

describe("a script that counts system calls", function()
  -- The same of its table and of -j: "NAME COUNT", in their order.
  it("prints a line of JSON for each row with -j", function()
    for words, columns in pairs { syslat = { "call" }, syscount = { "call" }, ["syscount -P"] = { "pid", "comm" },
                                  ["syscount -P -c"] = { "pid", "comm", "call" } } do
      local list, rows, objects = {}, {}, {}
      for word in words:gmatch "%S+" do list[#list + 1] = word end
      for line in output_of(table.unpack(list)):gmatch "[^\n]+" do
        if not line:find "COUNT" and not line:find "total" then
          rows[#rows + 1] = table.concat({ line:match((" *(%S+)"):rep(#columns + 1)) }, " ")
        end
      end
      for line in output_of("-j", table.unpack(list)):gmatch "[^\n]+" do
        local object, cells = json.decode(line), {}
        for i, name in ipairs(columns) do cells[i] = tostring(object[name]) end
        cells[#cells + 1] = words == "syslat" and object.value.count or object.value
        objects[#objects + 1] = table.concat(cells, " ")
      end
      assert.is_true(#rows >= 3)
      assert.same(rows, objects)
    end
  end)
end)

describe("trace", function()
  it("prints a number by its declared type", function()
    local seen = {}
    for kind, minus_one in pairs { long = "-1", ulong = "18446744073709551615", ptr = "0xffffffffffffffff" } do
      local text = output_of("trace", "kretprobe:vfs_read", "$retval:" .. kind)
      local _, n = text:gsub("retval=" .. minus_one:gsub("%-", "%%-") .. "\n", "")
      assert.is_true(n > 3, text)
      seen[n] = true
      assert.matches(kind == "ptr" and "retval=0x2\n" or "retval=2\n", text)
    end
    assert.is_nil(next(seen, (next(seen)))) -- of each as many
  end)
end)

-- ---- those that do not ----

local LINES = "a line for each, as it comes"

local CHOSEN = "-p and a command: who counts is known task by task" -- without them it counts in C: see above

-- Why a shipped script has callbacks for frequent records.
local reasons = {
  biosnoop = LINES, cswlog = LINES, execsnoop = LINES, flightrec = LINES, killsnoop = LINES, procmon = LINES,
  locks = "a mutex may begin twice before it ends: the first counts",
  ulocks = "the caller is looked up on the stack", drsnoop = LINES, tcpconnect = LINES, tcplife = LINES,
  trace = LINES, watch = "--each: " .. LINES, timeline = "it draws each", runqlat = CHOSEN, cpudist = CHOSEN,
}

describe("a script", function()
  for path in run.capture("ls scripts/*.lua"):gmatch "[^\n]+" do
    local name = path:match "([%w_]+)%.lua$"
    it(name .. " has a Lua callback only for a listed reason", function()
      local text = assert(run.slurp(path))
      local has = text:find "function[ %w_]*%(r[,)]" ~= nil
      for callback in pairs(asks) do has = has or text:find("%f[%w_]" .. callback .. " = function%(") ~= nil end
      assert.equal(reasons[name] ~= nil, has)
    end)
  end
end)
