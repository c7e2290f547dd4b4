-- endurance.lua - runs a session for simulated minutes at a full rate, and prints its memory after each minute.
-- LUA_PATH='lua/?.lua;lua/?/init.lua;./?.lua;;' LUA_CPATH='build/?.so;;' lua5.4 bench/endurance.lua [MINUTES [RATE]]
--
-- RATE is records per second of two CPUs (200,000). A simulated kernel writes them in pieces of 10 ms, as bytes that
-- differ in their times alone; tasks start and exit. Records are counted by key in C, joined, and passed to a callback.

local perfev = require "perfev"
local sim = require "perfev.sim"

local minutes, rate = tonumber(arg[1] or 10), tonumber(arg[2] or 200000)
local PIECE, KINDS = 0.01, 16 -- seconds; different records in a piece

local k = sim.new { cpus = "0-1", world = "vm", tasks = { [7] = "seven" } }
k:tracepoint("a:enter", 300, "long id; long a; long b")
k:tracepoint("a:exit", 301, "long id; long ret")

-- A record without its time: the bytes before and after it; or all bytes of a record that has no time.
local function template(event, args, tid)
  local bytes
  local push = k.push
  k.push = function(_, _, written) bytes = written return true end
  k:emit(event, "sample", { pid = tid, tid = tid, time = 0x7e57e57e57e57e57,
                            raw = require "perfev.sim.payload".pack(k.tracepoints[event.attr.config], args) })
  k.push = push
  local at = bytes:find(string.pack("=i8", 0x7e57e57e57e57e57), 1, true)
  if not at then return { bytes } end
  return { bytes:sub(1, at - 1), bytes:sub(at + 8) }
end

local pieces = {} -- by event: its templates

local function piece(event, nr)
  local list = pieces[event]
  if not list then
    list = {}
    for i = 1, KINDS do
      local args = event.attr.config == 301 and { id = i, ret = i % 3 - 1 } or { id = i, a = i, b = i }
      list[i] = template(event, args, 100 + i)
    end
    pieces[event] = list
  end
  local time, out = string.pack("=i8", k.now), {}
  for i, one in ipairs(list) do out[i] = one[2] and one[1] .. time .. one[2] or one[1] end
  return table.concat(out):rep(nr // KINDS)
end

local pushed, next_tid = 0, 1000

local function sampled(event) return event.enabled and event.ring and event.attr.type == 2 end

-- Writes one piece: the records of each event on each CPU.
local function write_piece()
  local events = {}
  for _, event in ipairs(k.events) do if sampled(event) then events[#events + 1] = event end end
  local nr = math.floor(rate * PIECE / math.max(#events, 1)) // KINDS * KINDS
  for _, event in ipairs(events) do
    if k:push(event, piece(event, nr)) then pushed = pushed + nr end
  end
end

-- A task starts, sets its name, and exits.
local function run_task()
  next_tid = next_tid + 1
  local task = { pid = next_tid, tid = next_tid, ppid = 7, ptid = 7 }
  for _, record in ipairs { { type = "fork" }, { type = "comm", comm = "task" .. next_tid, exec = true },
                            { type = "exit" } } do
    for name, value in pairs(task) do
      if record.type ~= "comm" or #name == 3 then record[name] = value end
    end
    k:ring(next_tid % 2):push(record)
  end
end

local function go_on()
  write_piece()
  k:after(math.floor(PIECE * 1e9), go_on)
end
k:after(0, go_on)
local function each_tenth()
  run_task()
  k:after("100ms", each_tenth)
end
k:after(0, each_tenth)

local function resident_kib()
  local file <close> = assert(io.open "/proc/self/statm")
  return tonumber((file:read("a"):match "^%d+ (%d+)")) * 4
end

local function descriptors()
  local n = 0
  for _ in pairs(k.fds) do n = n + 1 end
  return n
end

local began = os.clock()
print(("%6s %14s %12s %10s %12s %8s"):format("MINUTE", "RECORDS", "RESIDENT KiB", "LUA KiB", "DESCRIPTORS", "CPU s"))
k:with(function()
  local s <close> = perfev.session { duration = minutes * 60, buffer = "4M" }
  local minute, called = 0, 0
  s:event { "a:enter", sample = perfev.count { by = { "tid", "args.id" } } }
  s:span { start = "a:enter", stop = "a:exit", by = "tid", into = perfev.hist { by = "args.id" } }
  s:event { "a:exit", fields = { "tid", "args.ret" }, where = { "args.ret", "<", 0 },
            sample = function() called = called + 1 end }
  s:every(60, function()
    k.log = {}
    collectgarbage() collectgarbage()
    minute = minute + 1
    print(("%6d %14d %12d %10.0f %12d %8.1f"):format(minute, pushed, resident_kib(), collectgarbage "count",
      descriptors(), os.clock() - began))
  end)
  s:every(1, function() k.log = {} end) -- the simulated kernel's list of its calls
  assert(s:run())
  local totals = s:totals()
  print(("%d records read, %d delivered, %d lost, %d given to the callback, %d tasks"):format(totals.records,
    totals.delivered, totals.lost, called, next_tid - 1000))
end)
