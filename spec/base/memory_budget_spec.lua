-- A watched process determines the number of stacks and keys, and max_bytes limits their memory: those that do not fit
-- are counted as (other), and no value is lost.

local elf = require "spec.support.elf"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local DEPTH = 10

-- A recording of nr samples, each of its own stack; behind each the same one, of one frame.
local function recording(nr, depth)
  local path = ("%s/%d-%d.data"):format(dir, nr, depth or DEPTH)
  local built = perfdata.new { events = { { name = "cpu-clock", attr = { type = 1, sample_id_all = true,
    sample_type = { "identifier", "ip", "tid", "time", "period", "callchain" } } } } }
  built:add { type = "comm", pid = 7, tid = 7, comm = "app", sample_id = { identifier = 1, tid = 7, time = 1 } }
  built:add { type = "mmap2", pid = 7, tid = 7, addr = 0, len = 1 << 40, pgoff = 0, prot = 5, flags = 2,
              filename = "/nowhere/app", sample_id = { identifier = 1, tid = 7, time = 1 } }
  local function sample(i, chain)
    built:add { type = "sample", identifier = 1, ip = chain[2], pid = 7, tid = 7, time = 10 + i, period = 1,
                callchain = chain }
  end
  for i = 1, nr do
    local chain = { -512 } -- PERF_CONTEXT_USER
    for k = 2, (depth or DEPTH) + 1 do chain[k] = 0x10000 + (i << 8) + k end
    sample(2 * i, chain)
    sample(2 * i + 1, { -512, 0x5000 })
  end
  return run.write_file(path, (built:round():file { [12] = built:event_desc() }))
end

local function run_over(path, opts, sample, more)
  local s = perfev.session { input = path, max_bytes = opts.max_bytes }
  s:event { "cpu-clock", sample = sample, callchain = true }
  if more then more(s) end
  assert(s:run())
  return s:totals()
end

-- Rows, other, and their sum.
local function totals(a)
  local sum, nr = a:other() or 0, 0
  for _, row in ipairs(a:rows()) do sum, nr = sum + row.value, nr + 1 end
  return sum, nr
end

describe("the budget of a session", function()
  local NR = 4000
  local path
  setup(function() path = recording(NR) end)

  it("counts stacks that do not fit as the stack (other), and loses no sample", function()
    local a = perfev.count { by = "stack" }
    local stats = run_over(path, { max_bytes = "1M" }, a)
    local sum, nr = totals(a)
    assert.equal(2 * NR, sum)
    assert.is_true(nr < NR)
    local of = {}
    for _, row in ipairs(a:rows()) do of[row.stack.id == 0 and row.stack:folded() or #row.stack] = row.value end
    assert.equal(NR, of[1]) -- one that came before there was no room has its own row to the end
    assert.equal(stats.beyond_memory, of["(other)"] + (a:other() or 0))
    assert.is_true(stats.beyond_memory > NR // 2)
  end)

  it("holds all stacks by default", function()
    local a = perfev.count { by = "stack" }
    local stats = run_over(path, {}, a)
    assert.same({ 2 * NR, NR + 1, 0 }, { select(1, totals(a)), select(2, totals(a)), stats.beyond_memory })
  end)

  it("shows (other) and its parts to a callback", function()
    local seen = { stack = 0, ustack = 0 }
    local a = perfev.count { by = "ustack" }
    local stats = run_over(path, { max_bytes = "1M" }, function(r)
      local stack = r.stack
      if stack.id == 0 then
        seen.stack = seen.stack + 1
        assert(stack:folded("app") == "app;(other)" and #stack == 1 and tostring(stack):find "%(other%)")
      end
    end)
    assert.equal(stats.beyond_memory, seen.stack)
    run_over(path, { max_bytes = "1M" }, a)
    assert.equal(2 * NR, (totals(a)))
  end)

  it("is shared by all aggregators, which count keys that do not fit as (other)", function()
    local a, b = perfev.count { by = { "time" }, max_keys = 1 << 20 }, perfev.sum { by = "ip", value = "time" }
    local stats = run_over(recording(16000), { max_bytes = "1M" }, { a, b })
    local sum, nr = totals(a)
    assert.equal(32000, sum)
    assert.is_true(nr < 32000)
    assert.is_true(stats.beyond_memory > 0)
    local _, others, unfit = a:other()
    assert.equal(32000 - nr, others)
    assert.equal(others, unfit)
    local all = 0
    for i = 1, 16000 do all = all + 10 + 2 * i + 11 + 2 * i end
    assert.equal(all, (totals(b)))
    assert.matches("^%d+ values of keys that did not fit in max_bytes are counted as %(other%)$", a:remarks()[1])
  end)

  it("gets memory back when an aggregator is cleared", function()
    local a = perfev.count { by = "time", max_keys = 1 << 20 }
    local function three_times(s)
      s:event { "cpu-clock", sample = function(r) if r.time % 2000 == 0 then a:clear() end end }
    end
    local stats = run_over(path, { max_bytes = "1M" }, a, three_times)
    assert.equal(0, stats.beyond_memory)
  end)

  it("includes buckets: values that need more of them count as (other)", function()
    local a = perfev.hist { by = "ip", value = "time", low = 0, high = 10000, step = 1 }
    run_over(path, { max_bytes = "1M" }, a)
    local n = a:other().count
    for _, row in ipairs(a:rows()) do n = n + row.value.count end
    assert.equal(2 * NR, n)
    local _, _, unfit = a:other()
    assert.is_true(unfit > 0)
  end)

  it("makes top drop the smallest key without losing a value", function()
    local a = perfev.top { by = "time", max_keys = 1 << 20 }
    run_over(recording(16000), { max_bytes = "1M" }, a)
    local n, nr = 0, 0
    for _, row in ipairs(a:rows()) do n, nr = n + row.value.count, nr + 1 end
    assert.equal(32000, n)
    assert.is_true(nr < 32000 and a:floor() > 0)
  end)

  it("suffices for a merge, a delta and names, which need memory twice for a while", function()
    local a, b = perfev.count { by = { "symbol", "time" } }, perfev.count { by = { "symbol", "time" } }
    run_over(path, { max_bytes = "1M" }, a)
    run_over(path, { max_bytes = "1M" }, b)
    local before = totals(a)
    assert.equal(2 * NR, before)
    a:merge(b)
    assert.equal(4 * NR, (totals(a)))
    assert.equal(4 * NR, (totals(a:delta())))
  end)

  it("is a size of 1M or more", function()
    assert.has_error(function() perfev.session { max_bytes = "12K" } end,
      "session: max_bytes must be 1M or more, not 12K")
    assert.has_error(function() perfev.session { max_bytes = true } end)
    local r = run { run.perfl, "--max-memory", "7", "-e", "print(1)", "--", "true" }
    assert.equal(2, r.code)
    assert.matches("size '7': 1M or more", r.err, 1, true)
  end)
end)

describe("a profile's tree", function()
  local function add_many(p, nr)
    for i = 1, nr do p:add { "leaf" .. i, "middle" .. i, "root" } end
  end

  it("keeps stacks that fit in max_bytes, and adds the rest to (other)", function()
    local p = perfev.profile { max_bytes = "1M" }
    add_many(p, 20000)
    local folded = p:folded()
    local _, lines = folded:gsub("\n", "")
    assert.is_true(lines > 500 and lines < 5000)
    assert.equal(20000 - lines + 1, tonumber(folded:match "^%(other%) (%d+)\n"))
    assert.equal(20000, p:total())
    assert.matches("\nroot;middle1;leaf1 1\n", folded, 1, true)
    p:add { "leaf1", "middle1", "root" } -- there is room for the existing keys
    assert.matches("\nroot;middle1;leaf1 2\n", p:folded(), 1, true)
    p:clear()
    p:add "a;b"
    assert.equal("a;b 1\n", p:folded())
  end)

  it("puts (other) below the parent of a stack", function()
    local p = perfev.profile { max_bytes = "1M" }
    p:add_under("app", "known")
    for i = 1, 20000 do p:add_under("app", { "leaf" .. i, "root" }) end
    assert.matches("\napp;%(other%) %d+\n", "\n" .. p:folded())
    p:add_under("new", "x")
    assert.matches("\n%(other%) 1\n", "\n" .. p:folded())
  end)

  it("takes no more memory than max_bytes", function()
    local p = perfev.profile { max_bytes = "4M" }
    collectgarbage()
    local before = collectgarbage "count"
    add_many(p, 60000)
    collectgarbage()
    assert.is_true(collectgarbage "count" - before < 6 << 10)
    assert.equal(60000, p:total())
  end)

  it("writes each folded line once, sorted by bytes", function()
    local p = perfev.profile()
    local lines = { "a 1\n", "a b;c 1\n", "a-b 2\n", "a-b;c 1\n", "a;b 1\n", "a;b;c 3\n", "a;b-c 1\n", "a;b:d 1\n" }
    for _, line in ipairs(lines) do
      local stack, n = line:match "^(.*) (%d+)\n$"
      p:add(stack, tonumber(n))
    end
    p:add({ { symbol = "b", module = "other" }, "a" }, 4) -- another frame of the same name
    lines[5] = "a;b 5\n"
    table.sort(lines)
    assert.equal(table.concat(lines), p:folded())
  end)
end)

describe("tasks that do not fit in max_bytes", function()
  local NR = 100000
  local path
  setup(function()
    path = dir .. "/tasks.data"
    local built = perfdata.new { events = { { name = "cpu-clock", attr = { type = 1, sample_id_all = true,
      sample_type = { "identifier", "ip", "tid", "time", "period" } } } } }
    for i = 1, NR do
      built:add { type = "comm", pid = i, tid = i, comm = "named", sample_id = { identifier = 1, tid = i, time = i } }
    end
    for i = 1, NR do
      built:add { type = "sample", identifier = 1, ip = 1, pid = i, tid = i, time = NR + i, period = 1 }
    end
    run.write_file(path, (built:round():file { [12] = built:event_desc() }))
  end)

  it("have no names, and their records are counted", function()
    for _, max_bytes in ipairs { "1M", "256M" } do
      local named = 0
      local stats = run_over(path, { max_bytes = max_bytes }, function(r)
        if r.comm == "named" then named = named + 1 end
      end)
      assert.equal(NR, named + stats.unknown_tasks)
      assert.equal(max_bytes == "256M", named == NR)
      assert.is_true(named > 100)
    end
  end)

  it("are reported by perfl, once", function()
    local r = run { run.perfl, "--max-memory", "1M", "-i", path, "-e",
      'require "perfev".event { "cpu-clock", sample = function(r) local _ = r.comm end }' }
    assert.equal(0, r.code)
    local _, lines = r.err:gsub("new tasks", "")
    assert.equal(1, lines)
    assert.matches("\nperfl: [%d,]+ records of new tasks did not fit in %-%-max%-memory 1M: these tasks have no names\n"
      .. "  try: %-%-max%-memory 4M\n", r.err)
  end)
end)

describe("symbol tables, if max_bytes has room for two of five,", function()
  local NR, STRIDE, ADDRESS = 100, 8, 0x1000
  local path
  setup(function()
    path = dir .. "/five.data"
    local built = perfdata.new { events = { { name = "cpu-clock", attr = { type = 1, sample_id_all = true,
      sample_type = { "identifier", "ip", "tid", "time", "period", "callchain" } } } } }
    for n = 1, 5 do
      local functions = {}
      for i = 1, 6000 do functions[i] = { ("program_%d_function_%04d"):format(n, i), ADDRESS + i * STRIDE, STRIDE } end
      built:add { type = "mmap2", pid = 7, tid = 7, addr = n << 32, len = 1 << 20, pgoff = 0, prot = 5, flags = 2,
        filename = run.write_file(("%s/program%d"):format(dir, n), elf.file { functions = functions }),
        sample_id = { identifier = 1, tid = 7, time = 1 } }
    end
    for i = 1, NR do
      local chain = { -512 } -- PERF_CONTEXT_USER
      for n = 1, 5 do chain[n + 1] = (n << 32) + ADDRESS + i * STRIDE + 4 end
      built:add { type = "sample", identifier = 1, ip = chain[2], pid = 7, tid = 7, time = 10 + i, period = 1,
                  callchain = chain }
    end
    run.write_file(path, (built:round():file { [12] = built:event_desc() }))
  end)

  local function freed(r)
    local _, nr = r.err:gsub("program%d: its symbols are freed, and read again if needed", "")
    return nr
  end

  it("are freed and read again: a profile and a callback get the same names", function()
    local script = 'require "perfev".event { "cpu-clock", callchain = true, sample = function(r) '
      .. 'print(r.stack:folded()) end }'
    for _, words in ipairs { { "profile", "-f", "folded" }, { "-e", script } } do
      local plenty = run { run.perfl, "-v", "-i", path, table.unpack(words) }
      local little = run { run.perfl, "-v", "--max-memory", "1M", "-i", path, table.unpack(words) }
      assert.matches("program_5_function_0100;program_4_function_0100", plenty.out)
      assert.same({ 0, 0, plenty.out }, { little.code, freed(plenty), little.out })
      assert.equal(5, freed(little)) -- each file is reported once
    end
  end)
end)

describe("when memory for names runs out", function()
  local NR = 2000
  local core = require "perfev.core"
  local shortage = require "perfev.base.memory_shortage"

  before_each(function() shortage.any, shortage.stacks = false, 0 end)
  after_each(function() shortage.any, shortage.stacks = false, 0 end)

  local function profile_of(under)
    local p = perfev.profile()
    run_over(recording(NR, 1), {}, p:sampler { under = under })
    return p
  end

  local function sum_of(p)
    local sum = 0
    for n in p:folded():gmatch " (%d+)\n" do sum = sum + tonumber(n) end
    return sum
  end

  it("a profile adds the remaining stacks to (other), and loses no sample", function()
    local p, calls = profile_of "comm", 0
    local namer = p.namer
    p.namer = function(...)
      calls = calls + 1
      if calls == 100 then error("not enough memory", 0) end
      return namer(...)
    end
    assert.equal(2 * NR, sum_of(p))
    assert.equal(2 * NR, p:total())
    assert.is_true(shortage.any)
    assert.equal(NR + 1 - 99, shortage.stacks)
    assert.matches("^app;%(other%) %d+\n", p:folded())
  end)

  it("a profile still raises other errors", function()
    local p = profile_of "comm"
    p.namer = function() error("out of order", 0) end
    assert.has_error(function() p:folded() end, "out of order")
    assert.is_false(shortage.any)
  end)

  it("a profile keeps its tree below a third of the rest of ulimit -v", function()
    local p = profile_of "time"
    local slurp = core.slurp
    core.slurp = function(path)
      if path == "/proc/self/limits" then return "Max address space         2097152              unlimited  bytes\n" end
      if path == "/proc/self/statm" then return "256 100 50 1 0 20 0\n" end
      return slurp(path)
    end
    local ok, sum = pcall(sum_of, p)
    core.slurp = slurp
    assert(ok, sum)
    assert.equal(2 * NR, sum)
    assert.is_true(shortage.any)
    assert.is_true(shortage.stacks > 0 and shortage.stacks < 2 * NR)
  end)
end)

describe("perfl without memory", function()
  local function starved(...)
    return run { "sh", "-c", "ulimit -v 400000; exec \"$@\"", "sh", run.perfl, ... }
  end
  local EATER = 'perfev.done(function() local t = {} for i = 1, 1 << 20 do t[i] = ("x"):rep(1 << 20) .. i end end)'

  it("prints the counts and exits with 1 when done() runs out of memory", function()
    if run.sanitized then return pending "ASan needs more than is left" end
    local r = starved("-i", recording(500), "-e",
      'perfev.event { "cpu-clock", sample = perfev.count { by = "comm" } } ' .. EATER)
    assert.equal(1, r.code)
    assert.matches("app +1000\n", r.out)
    assert.matches("a callback failed in done", r.err, 1, true)
    assert.matches("not enough memory", r.err, 1, true)
  end)

  it("exits with 1 when done() fails for any reason", function()
    local r = run { run.perfl, "-i", recording(500), "-e",
      'perfev.event { "cpu-clock", sample = function() end } perfev.done(function() error "no" end)' }
    assert.equal(1, r.code)
  end)
end)

describe("perfl --max-memory", function()
  it("prints every sample, reports the number that did not fit, and stays small", function()
    local nr = 12000
    local path = recording(nr)
    local r = run { run.perfl, "--max-memory", "2M", "-i", path, "profile", "-f", "folded" }
    assert.equal(0, r.code)
    local sum = 0
    for n in r.out:gmatch " (%d+)\n" do sum = sum + tonumber(n) end
    assert.equal(2 * nr, sum)
    assert.matches("\napp;%(other%) %d+\n", "\n" .. r.out)
    assert.matches("did not fit in --max-memory 2M: they are counted as (other)\n  try: --max-memory 8M\n", r.err, 1,
      true)
    local all = run { run.perfl, "--max-memory", "8M", "-i", path, "profile", "-f", "folded" }
    local none = run { run.perfl, "-i", path, "profile", "-f", "folded" }
    assert.not_matches("max-memory", none.err, 1, true)
    assert.not_equal(r.out, all.out)
  end)
end)
