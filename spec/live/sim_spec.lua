-- The simulated kernel against this one: the same calls, the same answers.

local core = require "perfev.core"
local kernels = require "perfev.event.kernel_versions"
local perfev = require "perfev"
local sim = require "perfev.sim"

local E = perfev.errno
local real = perfev.hooks.real
local PAGE = real.pagesize()
local RW = 3

local function is_root()
  local status = real.slurp "/proc/self/status"
  local caps = tonumber(status:match "CapEff:%s*(%x+)", 16)
  return caps >> 38 & 1 == 1 or caps >> 21 & 1 == 1
end

-- A world with this machine's features, as far as the calls depend on them.
local function this_machine()
  local uid = tonumber(real.slurp("/proc/self/status"):match "Uid:%s*(%d+)")
  local files = {}
  for _, name in ipairs { "perf_event_paranoid", "perf_event_max_sample_rate", "perf_event_max_stack" } do
    local path = "/proc/sys/kernel/" .. name
    files[path] = real.slurp(path)
  end
  return sim.new {
    world = "vm", cpus = real.slurp("/sys/devices/system/cpu/online"):gsub("\n", ""), files = files,
    pid = real.getpid(), privileged = is_root(), uid = uid, owners = { [1] = 0 },
    tasks = { [real.getpid()] = "busted" }, release = (kernels.running()),
  }
end

local function clock(more)
  local fields = { type = 1, config = 0, sample_period = 1000000, sample_type = { "tid" }, disabled = true,
                   exclude_kernel = true, exclude_hv = true }
  for name, value in pairs(more or {}) do fields[name] = value end
  return fields
end

local function answer(result, errno)
  return result and "ok" or E[errno] or tostring(errno)
end

-- { what, attr fields, pid, cpu, group_fd, flags }
local openings = {
  { "an event of this process", clock(), 0, -1 },
  { "the kernel's side", clock { exclude_kernel = false }, 0, -1 },
  { "namespaces", clock { namespaces = true }, 0, -1 },
  { "physical addresses", clock { sample_type = { "phys_addr" } }, 0, -1 },
  { "another user's task", clock(), 1, -1 },
  { "an event of a CPU", clock(), -1, 0 },
  { "neither task nor CPU", clock(), -1, -1 },
  { "a CPU above the last", clock(), -1, 100000 },
  { "a negative CPU", clock(), 0, -5 },
  { "an invalid task", clock(), -2, 0 },
  { "a task that does not exist", clock(), 0x3fffff, -1 },
  { "a closed group leader", clock(), 0, -1, 12345 },
  { "a group of -2", clock(), 0, -1, -2 },
  { "an unknown flag of the call", clock(), 0, -1, -1, 1 << 7 },
  { "a cgroup without a CPU", clock(), 0, -1, -1, 4 },
  { "an unknown type", { type = 4242 }, 0, -1 },
  { "an unknown software event", { type = 1, config = 4711 }, 0, -1 },
  { "an unknown tracepoint", { type = 2, config = 0x7fffffff }, 0, -1 },
  { "a sampling rate above the limit", { type = 1, freq = true, sample_freq = 1 << 40 }, 0, -1 },
  { "a period with its top bit", clock { sample_period = math.mininteger }, 0, -1 },
  { "two kinds of weight", clock { sample_type = { "weight", "weight_struct" } }, 0, -1 },
  { "branches of a software event",
    clock { sample_type = { "branch_stack" }, branch_sample_type = { "any", "user" } }, 0, -1 },
  { "branches without a kind", clock { sample_type = { "branch_stack" } }, 0, -1 },
  { "a stack size of 12 bytes", clock { sample_type = { "stack_user" }, sample_stack_user = 12 }, 0, -1 },
  { "a stack of 64 KiB", clock { sample_type = { "stack_user" }, sample_stack_user = 65536 }, 0, -1 },
  { "an empty set of registers", clock { sample_type = { "regs_user" } }, 0, -1 },
  { "a callchain that is too deep", clock { sample_type = { "callchain" }, sample_max_stack = 10000 }, 0, -1 },
  { "inherit_thread alone", clock { inherit_thread = true }, 0, -1 },
  { "remove_on_exec and enable_on_exec", clock { remove_on_exec = true, enable_on_exec = true }, 0, -1 },
  { "sigtrap alone", clock { sigtrap = true }, 0, -1 },
  { "a clock of CPU time", clock { use_clockid = true, clockid = 2 }, 0, -1 },
  { "an unknown clock", clock { use_clockid = true, clockid = 77 }, 0, -1 },
  { "the monotonic clock", clock { use_clockid = true, clockid = 1 }, 0, -1 },
  { "AUX samples without AUX", clock { sample_type = { "aux" }, aux_sample_size = 64 }, 0, -1 },
  { "inherited counts in samples, without a tid",
    clock { inherit = true, sample_type = { "read" }, read_format = { "group" } }, 0, -1 },
  { "pinned and exclusive", clock { pinned = true, exclusive = true }, 0, -1 },
  { "wakeup_events without samples", { type = 1, wakeup_events = 3 }, 0, -1 },
  { "build ids without mmap2", { type = 1, build_id = true }, 0, -1 },
  { "precise addresses of a software event", clock { precise_ip = 3 }, 0, -1 },
  { "a breakpoint of 3 bytes", { type = 5, bp_type = 2, bp_addr = 0x1000, bp_len = 3 }, 0, -1 },
}

-- f(open, ioctl, mmap, read) on this kernel and on the simulated one -> the result of each
local function on_both(f)
  local answers = {}
  local k = this_machine()
  for _, kernel in ipairs { real, k.hooks } do
    local fds, maps = {}, {}
    local function open(fields, pid, cpu, group_fd, flags)
      local attr = core.attr_parse(core.attr_new(fields):bytes())
      local fd, errno = kernel.perf_event_open(attr, pid, cpu, group_fd or -1, flags or 0)
      fds[#fds + 1] = fd
      return fd, errno
    end
    local function map(fd, len, prot)
      local memory, errno = kernel.mmap(len, prot or RW, fd, 0)
      if memory then maps[#maps + 1] = { memory, len } end
      return memory, errno
    end
    local ok, result = pcall(f, open, kernel.ioctl, map, kernel.read)
    for _, m in ipairs(maps) do kernel.munmap(m[1], m[2]) end
    for _, fd in ipairs(fds) do kernel.close(fd) end
    assert(ok, result)
    answers[#answers + 1] = result
  end
  return answers[1], answers[2]
end

local function requires_perf()
  local fd, errno = real.perf_event_open(core.attr_parse(core.attr_new({ type = 1, config = 9, exclude_kernel = true,
    exclude_hv = true }):bytes()), 0, -1, -1, 8)
  if not fd then pending("perf_event_open is refused here: " .. E[errno]) end
  real.close(fd)
end

describe("the simulated kernel answers as the real one", function()
  before_each(requires_perf)

  for _, case in ipairs(openings) do
    it("to " .. case[1], function()
      local here, simulated = on_both(function(open)
        return answer(open(table.unpack(case, 2, 6)))
      end)
      assert.equal(here, simulated)
    end)
  end

  it("to members of a group", function()
    local here, simulated = on_both(function(open)
      local leader = assert(open(clock(), 0, -1))
      local member = assert(open(clock(), 0, -1, leader))
      return {
        answer(open(clock(), 0, 0, leader)), answer(open(clock(), 0, -1, member)),
        answer(open(clock { pinned = true }, 0, -1, leader)), answer(open(clock { exclusive = true }, 0, -1, leader)),
        answer(open(clock { inherit = true }, 0, -1, leader)),
        answer(open(clock { use_clockid = true, clockid = 1 }, 0, -1, leader)),
      }
    end)
    assert.same(here, simulated)
  end)

  it("to mappings", function()
    local here, simulated = on_both(function(open, _, map)
      local list = {}
      for _, len in ipairs { PAGE, 2 * PAGE, 3 * PAGE, 4 * PAGE, 5 * PAGE } do
        list[#list + 1] = answer(map(assert(open(clock(), 0, -1)), len))
      end
      list[#list + 1] = answer(map(assert(open(clock { inherit = true }, 0, -1)), 2 * PAGE))
      list[#list + 1] = answer(map(assert(open(clock(), 0, -1)), 2 * PAGE, 1))
      return list
    end)
    assert.same(here, simulated)
  end)

  it("to its ioctls", function()
    local here, simulated = on_both(function(open, ioctl, map)
      local owner, other = assert(open(clock(), 0, -1)), assert(open(clock(), 0, -1))
      assert(map(owner, 2 * PAGE))
      local counting = assert(open(clock { sample_period = 0, sample_type = 0 }, 0, -1))
      local elsewhere = assert(open(clock { use_clockid = true, clockid = 1 }, 0, -1))
      local backward = assert(open(clock { write_backward = true }, 0, -1))
      local list = {}
      local function try(...) list[#list + 1] = answer(ioctl(...)) end
      try(other, "PAUSE_OUTPUT", 1)
      try(other, "SET_OUTPUT", owner)
      try(other, "SET_OUTPUT", owner)
      try(other, "SET_OUTPUT", -1)
      try(other, "SET_OUTPUT", other)
      try(other, "SET_OUTPUT", 12345)
      try(other, "SET_OUTPUT", counting)
      try(owner, "SET_OUTPUT", other)
      try(elsewhere, "SET_OUTPUT", owner)
      try(backward, "SET_OUTPUT", owner)
      try(owner, "PAUSE_OUTPUT", 1)
      try(owner, "PAUSE_OUTPUT", 0)
      try(owner, "PERIOD", 0)
      try(owner, "PERIOD", 5000000)
      try(counting, "PERIOD", 5)
      try(counting, "REFRESH", 1)
      try(owner, "REFRESH", 0)
      try(owner, "RESET", 0)
      try(owner, "RESET", 1)
      try(owner, "DISABLE", 0)
      try(owner, "QUERY_BPF", 4)
      try(owner, "SET_BPF", 12345)
      try(owner, "MODIFY_ATTRIBUTES", core.attr_parse(core.attr_new(clock()):bytes()))
      local dummy = { type = 1, config = 9, disabled = true, exclude_kernel = true, exclude_hv = true }
      try(assert(open(dummy, 0, -1)), "MODIFY_ATTRIBUTES", core.attr_parse(core.attr_new(dummy):bytes()))
      try(12345, "ENABLE", 0)
      return list
    end)
    assert.same(here, simulated)
  end)

  it("to reads: the number of words, and ENOSPC for fewer", function()
    local here, simulated = on_both(function(open, _, _, read)
      local format = { "total_time_enabled", "total_time_running", "id", "lost", "group" }
      local dummy = { type = 1, config = 9, read_format = format, disabled = true, exclude_kernel = true,
                      exclude_hv = true }
      local fd = assert(open(dummy, 0, -1))
      assert(open(dummy, 0, -1, fd))
      return { #assert(read(fd, 512)), answer(read(fd, 16)) }
    end)
    assert.same(here, simulated)
  end)
end)
