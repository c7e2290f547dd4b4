-- Acceptance: the table of `perfl syscount -- COMMAND` against perf stat and strace, call by call.
--
-- The start: perf stat and perfl both arm the command before it runs and let its exec
-- enable the events (attr.enable_on_exec: perf_event_exec(), in the midst of execve). By then
-- that execve has passed sys_enter, so neither counts it, nor the earlier calls in the
-- child; strace sees it enter. So: perfl = perf stat = strace - 1 execve, call by call.

local run = require "spec.support.run"
local syscalls = require "perfev.tracepoint.syscalls"

local command = { "ls", "-R", "lua" }

local function with(...)
  local words = { ... }
  return table.move(command, 1, #command, #words + 1, words)
end

local function missing()
  if not run.root then return "counting kernel tracepoints needs root" end
  if not run.capture "test -r /sys/kernel/tracing/events/raw_syscalls/sys_enter/id && echo yes" then
    return "no tracefs is mounted"
  end
end

-- "getdents64   2046" -> { getdents64 = 2046 }, the total's line apart
local function table_of(text)
  local counts, total = {}, nil
  for line in text:gmatch("[^\n]+") do
    local name, count = line:match("^([%w_]+) +(%d+)$")
    if name == "total" then
      total = math.tointeger(tonumber(count))
    elseif name then
      counts[name] = math.tointeger(tonumber(count))
    end
  end
  return counts, total
end

-- The script's table and the command's own text apart.
local function syscount()
  local dir = run.tempdir()
  local r = run(with(run.perfl, "-o", dir .. "/table", "--fail-on-lost", "-m", "64M", "syscount", "--"),
    { fixed_layout = true })
  local text = run.capture("cat " .. dir .. "/table")
  run.remove(dir)
  assert.equal(0, r.code, r.err)
  return table_of(text .. "\n")
end

local function numbers_of(counts)
  local by_name, numbers = {}, {}
  for number, name in pairs(syscalls.of()) do by_name[name] = number end
  for name in pairs(counts) do
    numbers[#numbers + 1] = assert(by_name[name] or math.tointeger(tonumber(name:match("^syscall_(%d+)$"))))
  end
  table.sort(numbers)
  return numbers
end

-- perf stat's counts in the order of its events.
local function perf_stat(filters)
  local words = { "perf", "stat", "-x", "," }
  for _, filter in ipairs(filters) do
    for _, word in ipairs { "-e", "raw_syscalls:sys_enter", "--filter", filter } do
      words[#words + 1] = word
    end
  end
  local dir = run.tempdir()
  for _, word in ipairs { "-o", dir .. "/counts", "--" } do words[#words + 1] = word end
  local r = run(with(table.unpack(words)), { env = { PERF_CONFIG = "/dev/null" }, fixed_layout = true })
  local text = run.capture("cat " .. dir .. "/counts")
  run.remove(dir)
  assert.equal(0, r.code, r.err)
  local counts = {}
  for line in text:gmatch("[^\n]+") do
    local count = line:match("^(%d+),")
    if count then counts[#counts + 1] = math.tointeger(tonumber(count)) end
  end
  return counts
end

describe("syscount's table", function()
  local counts, total

  setup(function()
    if not missing() then counts, total = syscount() end
  end)

  it("sums to its total", function()
    if missing() then return pending(missing()) end
    local sum = 0
    for _, count in pairs(counts) do sum = sum + count end
    assert.is_true(total > 20)
    assert.equal(total, sum)
  end)

  it("has the total of perf stat -e raw_syscalls:sys_enter", function()
    if missing() then return pending(missing()) end
    if not run.have "perf" then return pending "no perf here" end
    assert.same({ total }, perf_stat { "id >= -1" })
  end)

  it("matches perf stat's, call by call", function()
    if missing() then return pending(missing()) end
    if not run.have "perf" then return pending "no perf here" end
    local names, filters, expected = syscalls.of(), {}, {}
    for i, number in ipairs(numbers_of(counts)) do
      filters[i] = "id == " .. number
      expected[i] = counts[names[number]]
    end
    assert.same(expected, perf_stat(filters))
  end)

  it("matches strace's, call by call, without the execve during which counting begins", function()
    if missing() then return pending(missing()) end
    if not run.have "strace" then return pending "no strace here" end
    local dir = run.tempdir()
    local r = run(with("strace", "-o", dir .. "/calls"), { fixed_layout = true })
    local seen = {}
    for line in io.lines(dir .. "/calls") do
      local name = line:match("^([%w_]+)%(")
      if name then seen[name] = (seen[name] or 0) + 1 end
    end
    run.remove(dir)
    assert.equal(0, r.code, r.err)
    assert.equal(1, seen.execve)
    seen.execve = nil
    assert.same(seen, counts)
  end)
end)
