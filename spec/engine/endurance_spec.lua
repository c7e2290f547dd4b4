-- A long session: ten simulated minutes of full rings, short-lived tasks and ever new keys. It uses as much memory in
-- the tenth minute as in the second.

local sim = require "perfev.sim"
local perfev = require "perfev"
local run = require "spec.support.run"

local LONG = ("n"):rep(230) -- so that kept data shows
local MINUTES, PER_SECOND = 10, 20 -- and as many as a ring has room for, once a minute

local function resident_kib()
  local file <close> = assert(io.open("/proc/self/statm"))
  return tonumber((file:read("a"):match "^%d+ (%d+)")) * 4
end

local function count(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n
end

describe("a session of ten minutes", function()
  it("holds no more memory and descriptors at its end than after warming up", function()
    local k = sim.new { cpus = "0-1", world = "vm", tasks = { [7] = "seven" } }
    k:tracepoint("a:b", 300, "long id; long ret; char name[240]")
    local held, records, filled, next_tid = {}, 0, 0, 1000

    local function sample(i)
      return { type = "sample", event = "a:b", pid = next_tid, period = 1,
               args = { id = i, ret = -(i % 3), name = LONG .. i % 1000 } }
    end

    -- A task comes, works, maps a file and goes; of its keys most never come again.
    local function second()
      next_tid = next_tid + 1
      local tid = next_tid
      k:ring(0):push({ type = "fork", pid = tid, tid = tid, ppid = 7, ptid = 7 })
      k:ring(0):push({ type = "comm", pid = tid, tid = tid, comm = "task" .. tid, exec = true })
      k:ring(0):push({ type = "mmap2", pid = tid, tid = tid, addr = 0x400000, len = 0x1000, pgoff = 0, maj = 8, min = 1,
                    ino = tid, ino_generation = 0, prot = 5, flags = 2, filename = "/bin/task" .. tid })
      for i = 1, PER_SECOND do k:ring(i % 2):push(sample(tid * PER_SECOND + i)) end
      k:ring(0):push({ type = "exit", pid = tid, tid = tid, ppid = 7, ptid = 7 })
    end
    -- Faster than the reader: until the ring has no room.
    local function burst()
      local i = 0
      repeat i = i + 1 until k:ring(0):push(sample(i)) < 4 or i > 400
      filled = filled + 1
    end
    k:every("1s", 60 * MINUTES, second)
    k:every("60s", MINUTES, burst)

    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { buffer = "64K", duration = MINUTES .. "m" }
      local aggregators = {
        perfev.count { by = { "comm", "args.id" }, max_keys = 500, where = { "args.ret", "<", 0 } },
        perfev.top { by = { "args.id", "args.name" }, max_keys = 100 },
        perfev.quantile { by = "args.name", value = "args.id", max_keys = 200 },
      }
      for _, one in ipairs(aggregators) do s:event { "a:b", sample = one } end
      -- Starts that no stop ever follows.
      s:span { start = "a:b", stop = "a:b", by = { "args.id", "args.name" }, stop_where = { "args.ret", "==", 7 },
               into = perfev.hist {}, max_waiting = 300 }
      s:event { "a:b", fields = { "comm", "args.id" }, sample = function() records = records + 1 end }
      s:event { "dummy", mmap = function() end, exit = function() end }
      s:every(60, function()
        k.log = {}
        for _, one in ipairs(aggregators) do one:delta() end
        collectgarbage() collectgarbage()
        held[#held + 1] = { lua = collectgarbage "count", resident = resident_kib(), fds = count(k.fds),
                            rings = count(k.rings) }
      end)
      assert(s:run())
      assert.equal(500, #aggregators[1])
      assert.is_true(s:totals().lost > 0)
    end)

    assert.is_true(#held >= MINUTES - 1 and filled == MINUTES)
    assert.is_true(records > 60 * (MINUTES - 1) * PER_SECOND)
    local warm, half, last = held[2], held[#held // 2 + 1], held[#held]
    assert.same({ warm.fds, warm.rings }, { last.fds, last.rings })
    assert(last.lua - warm.lua < 32, ("Lua: %.0f, then %.0f KiB"):format(warm.lua, last.lua))
    -- A sanitizer's quarantine of freed memory grows by itself. Once, the kernel may give huge pages, or return pages
    -- that it had taken; a leak grows in both halves.
    if not run.sanitized then
      assert(math.min(half.resident - warm.resident, last.resident - half.resident) < 128,
        ("%.0f, %.0f, then %.0f KiB"):format(warm.resident, half.resident, last.resident))
    end
    assert.same({}, k:leaks())
  end)
end)
