-- Aggregators on the real kernel count the same as callbacks on the same records, live and recorded.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

-- Prints the cells of an aggregator and of the table that a callback filled.
local both = [[
local native = perfev.count { by = { "comm", "pid", "tid", "cpu", "type", "cpumode", "event", "args.id" } }
local plain = {}
local stats = perfev.stats { by = "comm", value = "args.id" }
local sums = {}
local function key(...) return table.concat({ ... }, "|") end
event { "raw_syscalls:sys_enter", name = "calls", sample = native }
event { "raw_syscalls:sys_enter", name = "calls", sample = stats }
event { "raw_syscalls:sys_enter", name = "calls", sample = function(r, args)
  local k = key(r.comm, r.pid, r.tid, r.cpu, r.type, r.cpumode, r.event.name, args.id)
  plain[k] = (plain[k] or 0) + 1
  sums[r.comm] = (sums[r.comm] or 0) + args.id
end }
done(function()
  local n, cells = 0, 0
  for a, b, c, d, e, f, g, h, value in native:pairs() do
    n, cells = n + value, cells + 1
    local k = key(a, b, c, d, e, f, g, h)
    assert(plain[k] == value, k)
  end
  for _ in pairs(plain) do cells = cells - 1 end
  for comm, value in stats:pairs() do assert(sums[comm] == value.sum, comm) end
  assert(cells == 0 and next(native:uncounted()) == nil)
  print(n)
end)]]

-- The same samples by an aggregator of stacks and by a callback that feeds one.
local stacks = [[
local native, twin = perfev.count { by = { "comm", "stack" } }, perfev.count { by = { "comm", "stack" } }
event { "raw_syscalls:sys_enter", callchain = true, sample = native }
event { "raw_syscalls:sys_enter", callchain = true, sample = function(r) twin:inc(r.comm, r.stack) end }
done(function()
  local n = 0
  for comm, stack, value in native:pairs() do
    assert(twin:get(comm, stack) == value)
    n = n + value
  end
  assert(#native == #twin and #native > 1)
  print(n)
end)]]

-- The same faults by an aggregator of symbols and by a callback that feeds one.
local symbols = [[
local native, twin = count { by = "symbol" }, count { by = "symbol" }
event { "page-faults", sample = native }
event { "page-faults", symbols = true, sample = function(r) twin:inc(r.symbol or "[]") end }
done(function()
  local n, unnamed, named = 0, twin:get "[]" or 0, 0
  for symbol, value in native:pairs() do
    if symbol:sub(1, 1) == "[" then
      unnamed = unnamed - value
    else
      assert(twin:get(symbol) == value, symbol)
      named = named + 1
    end
    n = n + value
  end
  assert(unnamed == 0 and named > 1, unnamed)
  print(n)
end)]]

-- syscount as it is with a callback.
local twin = [[
local perfev = require "perfev"
local syscalls = require "perfev.tracepoint.syscalls"
local counts, total, ids = {}, 0, {}
perfev.event { "raw_syscalls:sys_enter", sample = function(_, args)
  counts[args.id] = (counts[args.id] or 0) + 1
  total = total + 1
end }
perfev.done(function()
  for id in pairs(counts) do ids[#ids + 1] = id end
  table.sort(ids, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a < b
  end)
  print(("%-28s %12s"):format("CALL", "COUNT"))
  for _, id in ipairs(ids) do print(("%-28s %12s"):format(syscalls.name(id), counts[id])) end
  print(("%-28s %12s"):format("total", total))
end)]]

-- syslat --failed as it is with callbacks.
local syslat = [[
local syscalls = require "perfev.tracepoint.syscalls"
local began, cells, list = {}, {}, {}
event { "raw_syscalls:sys_enter", sample = function(r) began[r.tid] = r.time end }
event { "raw_syscalls:sys_exit", sample = function(r, args)
  local since = began[r.tid]
  began[r.tid] = nil
  if not since or args.ret >= 0 then return end
  cells[args.id] = cells[args.id] or { id = args.id, n = 0, sum = 0, max = 0, sketch = quantile {} }
  local cell, took = cells[args.id], r.time - since
  cell.n, cell.sum, cell.max = cell.n + 1, cell.sum + took, math.max(cell.max, took)
  cell.sketch:add(took)
end }
local function row(...) print(("%-20s %7s %10s %9s %9s %9s %9s"):format(...)) end
local function us(ns) return ("%.1f"):format(ns / 1000) end
done(function()
  for _, cell in pairs(cells) do list[#list + 1] = cell end
  table.sort(list, function(a, b) if a.sum ~= b.sum then return a.sum > b.sum end return a.id < b.id end)
  row("CALL", "COUNT", "TOTAL(us)", "AVG(us)", "P50(us)", "P99(us)", "MAX(us)")
  for i, c in ipairs(list) do
    if i <= 3 then
      row(syscalls.name(c.id), c.n, us(c.sum), us(c.sum / c.n), us(c.sketch:quantile(0.5)),
        us(c.sketch:quantile(0.99)), us(c.max))
    end
  end
  if #list > 3 then print(("(%d others)"):format(#list - 3)) end
end)]]

local function output(...)
  local r = run { run.perfl, "-q", ... }
  assert.equal(0, r.code, r.err)
  return r.out
end

-- A count without records, beside the same event with records; prints both and the totals.
local counted = [[
local counted, recorded = count {}, count {}
event { "raw_syscalls:sys_enter", sample = counted }
event { "raw_syscalls:sys_enter", sample = recorded, wakeup_events = 1 }
done(function()
  local t = totals()
  print("told", counted:get(), recorded:get(), t.delivered, t.lost)
end)]]

describe("an aggregator on the real kernel", function()
  it("counts a command and its children without records as with records", function()
    requires("root", "tracefs")
    local out = run { run.perfl, "-v", "-e", counted, "--", "sh", "-c", "ls /usr; ls /usr | cat" }
    assert.equal(0, out.code, out.err)
    assert.matches("raw_syscalls:sys_enter: the kernel counts it; no records are written", out.err, 1, true)
    local n, records, delivered, lost = out.out:match "told\t(%d+)\t(%d+)\t(%d+)\t(%d+)"
    assert.is_true(tonumber(n) > 100)
    assert.same({ n, tonumber(n) * 2, "0" }, { records, tonumber(delivered), lost })
  end)

  it("counts a command as a callback does", function()
    requires("root", "tracefs")
    assert.is_true(tonumber(output("-e", both, "--", "ls", "/usr"):match "(%d+)%s*$") > 20)
  end)

  it("counts a command by stack as a callback does", function()
    requires("root", "tracefs")
    assert.is_true(tonumber(output("-e", stacks, "--", "ls", "/usr"):match "(%d+)%s*$") > 20)
  end)

  it("counts a command by symbol as a callback does", function()
    requires("root")
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    local path = dir .. "/faults.data"
    -- Recorded, because the kernel gives two software events of one task the same id (seen on 6.18).
    output("--record", path, "-e", 'event { "page-faults", period = 1, exclude_kernel = true }', "--", "ls", "/usr")
    assert.is_true(tonumber(output("-i", path, "-e", symbols):match "(%d+)%s*$") > 20)
  end)

  it("counts under a condition as a callback does, whether the kernel or perfev decides it", function()
    requires("root", "tracefs")
    local r = run { run.perfl, "-v", "-e", [[
      local conditions = {
        { { "args.ret", "<", 0 }, function(r, a) return a.ret < 0 end },
        { { "and", { "args.id", "in", { 0, 1, 3, 257, 262 } }, { "not", { "args.ret", ">=", 3 } } },
          function(r, a)
            return (a.id == 0 or a.id == 1 or a.id == 3 or a.id == 257 or a.id == 262) and not (a.ret >= 3)
          end },
        { { "or", { "comm", "prefix", "l" }, { "args.ret", "==", -2 } },
          function(r, a) return r.comm:sub(1, 1) == "l" or a.ret == -2 end },
        { { "and", { "time", ">", 0 }, { "args.ret", "&", 1 } }, function(r, a) return a.ret & 1 == 1 end },
      }
      for i, one in ipairs(conditions) do
        local native, plain, called = count { where = one[1] }, 0, 0
        event { "raw_syscalls:sys_exit", sample = native }
        event { "raw_syscalls:sys_exit", where = one[1], fields = { "time" },
          sample = function() called = called + 1 end }
        event { "raw_syscalls:sys_exit", sample = function(r, a) if one[2](r, a) then plain = plain + 1 end end }
        done(function() print(i, native:get() == plain and called == plain, plain > 0) end)
      end]], "--", "ls", "/usr", "/nonexistent" }
    local verdicts = {}
    for verdict in r.out:gmatch "%d\t(%l+\t%l+)\n" do verdicts[#verdicts + 1] = verdict end
    assert.same({ "true\ttrue", "true\ttrue", "true\ttrue", "true\ttrue" }, verdicts)
    assert.matches("has all of where: ret < 0\n", r.err)
    assert.matches('has all of where: %(COMM ~ "l%*" || ret == %-2%)\n', r.err)
    assert.matches("has a part of where: ret & 1\n", r.err)
    assert.is_nil(r.err:find("does not take that", 1, true))
  end)

  it("receives from a span the duration of calls, one pair for each call that returned", function()
    requires("root", "tracefs")
    local r = run { run.perfl, "-e", [[
      local took = stats { by = "comm" }
      local one = span { start = "syscalls:sys_enter_read", stop = "syscalls:sys_exit_read", by = "tid", into = took }
      done(function()
        local value = took:get "dd"
        print(value.count, value.min > 0 and value.max <= value.sum, one:unmatched().restarted)
      end)]], "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=64k", "count=500", "status=none" }
    local count, sane, restarted = r.out:match "^(%d+)%s+(%a+)%s+(%d+)"
    assert.is_true(tonumber(count) >= 500, r.err)
    assert.same({ "true", "0" }, { sane, restarted })
  end)

  it("counts the same in a recording, and syscount prints the same as its twin", function()
    requires("root", "tracefs", "perf", "program perf")
    local dir = run.tempdir()
    local path = dir .. "/a.data"
    local r = run { "perf", "record", "-q", "-o", path, "-e", "raw_syscalls:sys_enter", "ls", "-R", "/usr/include" }
    assert.equal(0, r.code, r.err)
    local n = tonumber(output("-i", path, "-e", both))
    local syscount, same = output("-i", path, "syscount"), output("-i", path, "-e", twin)
    run.remove(dir)
    assert.equal(same, syscount)
    assert.equal(n, tonumber(syscount:match("total +(%d+)")))
  end)

  it("prints syslat's output, the same as its twin with callbacks", function()
    requires("root", "tracefs")
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    local path = dir .. "/calls.data"
    local both_events = 'event { "raw_syscalls:sys_enter" } event { "raw_syscalls:sys_exit" }'
    output("--record", path, "-e", both_events, "--", "ls", "-R", "/usr/include/linux")
    local native = output("-i", path, "syslat", "--failed", "--top", "3")
    assert.equal(output("-i", path, "-e", syslat), native)
    assert.matches("\n%l%S+ +%d+ ", native)
  end)

  it("has the same histogram as the one that the kernel keeps in counters", function()
    requires("root", "tracefs")
    local lines = output("-e", [[
      local where = { "args.id", "!=", 9 } -- mmap gives addresses, beyond the last bucket
      local function counter(more)
        local spec = { "raw_syscalls:sys_exit", value = "args.ret", where = where }
        for name, value in pairs(more) do spec[name] = value end
        return assert(hist_counter(spec))
      end
      local linear = { low = -10, high = 20, step = 5 }
      local both = {
        { counter {}, hist { value = "args.ret", where = where } },
        { counter(linear), hist { value = "args.ret", where = where, low = -10, high = 20, step = 5 } },
      }
      for _, pair in ipairs(both) do event { "raw_syscalls:sys_exit", sample = pair[2] } end
      done(function()
        for _, pair in ipairs(both) do
          local kernels, ours, beyond, same = pair[1]:read(), pair[2]:get(), 0, 0
          local count = {}
          for _, bucket in ipairs(kernels.buckets) do count[bucket.low or "below"] = bucket.count end
          for _, bucket in ipairs(ours.buckets) do
            if bucket.low and bucket.low >= 1 << 30 then
              beyond = beyond + bucket.count
            else
              assert(count[bucket.low or "below"] == bucket.count, bucket.low)
              same = same + 1
            end
          end
          assert((count[1 << 30] or 0) == beyond and kernels.count == ours.count)
          print(same > 3)
        end
      end)]], "--", "ls", "/usr")
    assert.matches("true\ntrue\n$", lines)
  end)

  it("refuses a histogram that the kernel cannot keep in counters", function()
    requires("root", "tracefs")
    local perfev = require "perfev"
    local function refused(pattern, spec)
      local ok, h, why = pcall(perfev.hist_counter, spec)
      assert.matches(pattern, ok and why or h)
    end
    local name = "raw_syscalls:sys_exit"
    refused("one tracepoint is expected", { name, name, value = "args.ret" })
    refused("value is a field of the payload", { name, value = "ret" })
    refused("args.rat: no such field %(did you mean 'args.ret'%?%)", { name, value = "args.rat" })
    refused("a value is a number", { "sched:sched_switch", value = "args.prev_comm" })
    refused("the event has no payload", { "cpu-clock", value = "args.x" })
    refused("low, high and step go together", { name, value = "args.ret", low = 1 })
    refused("more than 64 buckets", { name, value = "args.ret", low = 0, high = 1000, step = 1 })
    refused("the kernel cannot decide it", { name, value = "args.ret", where = { "time", ">", 1 } })
  end)

  it("is printed by perfl at the end in the order of creation, but not with -q", function()
    requires("root", "tracefs")
    local script = [[
      event { "raw_syscalls:sys_enter", sample = count { by = "comm", title = "one" } }
      local two = count { title = "two" }
      event { "raw_syscalls:sys_enter", sample = two }
      event { "raw_syscalls:sys_enter", sample = count { title = "three" } }
      done(function() %s end)]]
    local function titles(text, ...)
      local r, list = run { run.perfl, "-e", script:format(text), ... }, {}
      for title in (r.out):gmatch("%f[%w](%l+)\n") do list[#list + 1] = title end
      return table.concat(list, " ")
    end
    assert.equal("one two three", titles("", "--", "true"))
    assert.equal("two one three", titles("two:print()", "--", "true"))
    assert.equal("one three", titles("two:rows()", "--", "true"))
    assert.equal("", titles("", "-q", "--", "true"))
    local r = run { run.perfl, "-j", "-e", script:format "two:print()", "--", "true" }
    local lines = {}
    for title in r.out:gmatch '{[^\n]*"title":"(%l+)","value":%d+}\n' do lines[#lines + 1] = title end
    assert.equal("two one three", table.concat(lines, " "))
    local stat = run { run.perfl, "-q", "stat", "-j", "--events", "task-clock", "--", "true" }
    assert.matches('^{"counter%-value"', stat.out .. stat.err) -- its own
  end)
end)
