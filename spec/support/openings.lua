-- openings.lua - conditions and expected outcomes of perf_event_open(2), to try on a kernel.
--
-- The table follows kernel/events/core.c of 6.18 (perf_copy_attr(), perf_event_open(), perf_event_alloc());
-- older kernels return EINVAL for features that they lack.
-- A row has one or more conditions; `openings.try` tries each on a kernel, real or simulated. A spec does so as
-- root; perfl does so as another user and gets this file as text.

local core = require "perfev.core"

local E = core.errno
local CLOEXEC, NO_GROUP, OUTPUT, PID_CGROUP = 8, 1, 2, 4
local PAGE = 4096
local KERNEL_ADDRESS = 0xffffffff81000000
local NO_CPU, NO_TASK, NO_FD = 100000, 0x3fffff, 12345

local M = {}

local function with(base, more)
  local fields = {}
  for _, from in ipairs { base, more or {} } do
    for name, value in pairs(from) do fields[name] = value end
  end
  return fields
end

-- Every user may open this on a task of their own.
local user = { exclude_kernel = true, exclude_hv = true, disabled = true }
local function clock(more)
  return with(with(user, { type = 1, config = 0, sample_period = 1000000, sample_type = { "tid" } }), more)
end
local function often(more) return with(with(user, { type = 1, config = 0 }), more) end
local function dummy(more) return with(with(user, { type = 1, config = 9 }), more) end
local function sampled(bits, more) return clock(with({ sample_type = bits }, more)) end
local function watch(more) return with(with(user, { type = 5, bp_type = 2, bp_addr = 0x1000, bp_len = 4 }), more) end

-- Sets bits without a name in an attr, at an offset in its bytes.
local function patched(fields, at, format, value)
  local bytes = core.attr_new(fields):bytes()
  bytes = bytes:sub(1, 4) .. string.pack("=I4", 120) .. bytes:sub(9) .. ("\0"):rep(120 - #bytes)
  local word = string.unpack(format, bytes, at + 1) | value
  local new = string.pack(format, word)
  return bytes:sub(1, at) .. new .. bytes:sub(at + #new + 1)
end

local list, facts

-- { row, what, errno ("ok": opens), attr, pid =, cpu =, flags =, by =, group = f(open) -> fd, as = {who -> errno} }
-- by: "attr": the attr and its target decide the outcome; "machine": the machine, the caller or the group does.
local function add(row, what, errno, attr, more)
  local one = with({ row = row, what = what, errno = errno, attr = attr, by = "attr", pid = 0, cpu = -1, flags = 0 },
    more)
  if errno == "ok" then one.by = "nothing" end
  list[#list + 1] = one
end

-- A feature that the kernel has since `version`; older kernels refuse it as they refuse an unknown bit.
local function add_since(version, row, what, attr, more)
  if facts.release >= version then return add(row, what, "ok", attr, more) end
  return add(row, what, "EINVAL", attr, with(more or {}, { by = "machine", as = {} }))
end

-- For a machine with breakpoints.
local function add_watch(...)
  if facts.breakpoints then add(...) end
end

local machine = { by = "machine" }
local function on_machine(more) return with(machine, more) end

local function targets()
  add("target", "pid -1 and cpu -1", "EINVAL", clock(), { pid = -1 })
  add("target", "a CPU beyond all", "EINVAL", clock(), on_machine { cpu = NO_CPU })
  add("target", "cpu -5", "EINVAL", clock(), { cpu = -5 })
  add("target", "pid -2", "ESRCH", clock(), on_machine { pid = -2, cpu = 0 })
  add("target", "no such task", "ESRCH", clock(), on_machine { pid = NO_TASK })
  add("target", "this task on one CPU", "ok", clock(), { cpu = 0 })
end

local function descriptors()
  add("group_fd", "-2", "EBADF", clock(), on_machine { group = function() return -2 end })
  add("group_fd", "a descriptor that is closed", "EBADF", clock(), on_machine { group = function() return NO_FD end })
  add("group_fd", "a file of another type", "EBADF", clock(), on_machine { group = function(_, k)
    return k.epoll_create()
  end })
  add("flags of the call", "a bit that is none", "EINVAL", clock(), on_machine { flags = 16 })
  add("flags of the call", "the top bit of 32", "EINVAL", clock(), on_machine { flags = 1 << 31 })
  add("flags of the call", "all but those that change something", "ok", clock(), { flags = NO_GROUP | OUTPUT })
  add("cgroup", "with cpu -1", "EINVAL", clock(), on_machine { flags = PID_CGROUP })
  add("cgroup", "with pid -1", "EINVAL", clock(), on_machine { flags = PID_CGROUP, pid = -1, cpu = 0 })
  -- the kernel checks the descriptor first and the right to watch a CPU later
  add("cgroup", "a descriptor that is closed", "EBADF", clock(),
    on_machine { flags = PID_CGROUP, pid = NO_FD, cpu = 0 })
  add("cgroup", "a descriptor of something else", "EBADF", clock(), on_machine { flags = PID_CGROUP, cpu = 0,
    pid_of = function(k) return k.epoll_create() end })
end

local function events()
  local no_pmu = on_machine()
  add("event", "a type that is none", "ENOENT", with(user, { type = 42 }), no_pmu)
  for _, type in ipairs { { 0, "hardware" }, { 3, "cache" }, { 4, "raw" } } do
    add("event", type[2] .. " without a PMU", "ENOENT", with(user, { type = type[1] }),
      on_machine { without = "cpu" })
  end
  add("event", "a software event that is none", "ENOENT", with(user, { type = 1, config = 4711 }), no_pmu)
  add("event", "a software event above 32 bits", "ENOENT", with(user, { type = 1, config = 1 << 40 }), no_pmu)
  add("tracepoint", "an id that is none", "EINVAL", with(user, { type = 2, config = 0x7fffffff }), no_pmu)
end

local function amounts()
  local rate, deep = facts.max_sample_rate, facts.max_stack
  add("period", "freq above the sysctl", "EINVAL", often { freq = true, sample_freq = rate + 1 }, machine)
  add("period", "freq at the sysctl", "ok", often { freq = true, sample_freq = rate })
  add("period", "freq above every sysctl", "EINVAL", often { freq = true, sample_freq = 1 << 40 })
  add("period", "bit 63", "EINVAL", clock { sample_period = math.mininteger })
  add("period", "all bits but 63", "ok", clock { sample_period = math.maxinteger })
  -- Without the kernel's part: later kernels (seen: 6.12.117) refuse it to user nobody even with exclude_kernel.
  add("callchain", "deeper than the sysctl", "EOVERFLOW", sampled({ "callchain" },
    { sample_max_stack = deep + 1, exclude_callchain_kernel = true }), machine)
  add("callchain", "as deep as the sysctl", "ok", sampled({ "callchain" },
    { sample_max_stack = deep, exclude_callchain_kernel = true }))
end

local function samples()
  add("sample_type", "weight and weight_struct", "EINVAL", sampled { "weight", "weight_struct" })
  add_since(5012, "sample_type", "weight_struct alone", sampled { "weight_struct" })
  add("branch_stack", "without a kind", "EINVAL", sampled { "branch_stack" })
  add("branch_stack", "of a privilege alone", "EINVAL",
    sampled({ "branch_stack" }, { branch_sample_type = { "user", "kernel" } }))
  add("branch_stack", "of an unknown kind", "EINVAL",
    sampled({ "branch_stack" }, { branch_sample_type = 1 << 3 | 1 << 20 }))
  add("branch_stack", "on a software event", "EOPNOTSUPP",
    sampled({ "branch_stack" }, { branch_sample_type = { "any", "user" } }))
  add_watch("branch_stack", "on a breakpoint", "EOPNOTSUPP",
    watch { sample_type = { "branch_stack" }, branch_sample_type = { "any" } })
  for size, errno in pairs { [12] = "EINVAL", [1] = "EINVAL", [65536] = "EINVAL", [65535] = "EINVAL", [65528] = "ok",
    [0] = "ok", [8] = "ok", [0xfffffff8] = "EINVAL" } do
    add("stack_user", size .. " bytes", errno, sampled({ "stack_user" }, { sample_stack_user = size }))
  end
  for _, which in ipairs { "user", "intr" } do
    local bit, field = "regs_" .. which, "sample_regs_" .. which
    add(bit, "mask 0", "EINVAL", sampled { bit })
    if facts.machine == "x86_64" then
      for _, lacking in ipairs { 12, 15, 24, 31 } do
        add(bit, "bit " .. lacking, "EINVAL", sampled({ bit }, { [field] = 1 | 1 << lacking }))
      end
      add(bit, "all that there are", "ok", sampled({ bit }, { [field] = 0xff0fff }))
      add(bit, "vector registers of a software event", "EOPNOTSUPP", sampled({ bit }, { [field] = 1 << 32 }))
    end
  end
end

local function lives()
  add("inherit_thread", "without inherit", "EINVAL", clock { inherit_thread = true })
  add_since(5013, "inherit_thread", "with it", clock { inherit_thread = true, inherit = true })
  add("remove_on_exec", "with enable_on_exec", "EINVAL", clock { remove_on_exec = true, enable_on_exec = true })
  add("sigtrap", "without remove_on_exec", "EINVAL", clock { sigtrap = true })
  add_since(5013, "sigtrap", "with it", clock { sigtrap = true, remove_on_exec = true })
  add("sigtrap", "of a CPU", "EINVAL", clock { sigtrap = true, remove_on_exec = true }, { pid = -1, cpu = 0 })
  add("inherit", "of counts in samples without tid", "EINVAL", sampled({ "read" }, { inherit = true }))
  add_since(6012, "inherit", "of counts in samples with tid", sampled({ "read", "tid" }, { inherit = true }))
end

local function clocks()
  for _, id in ipairs { 2, 3, -1, 77 } do
    add("clockid", "a clock that is none for events: " .. id, "EINVAL", clock { use_clockid = true, clockid = id })
  end
  for _, id in ipairs { 1, 4, 0, 7, 11 } do
    add("clockid", "on a software event: " .. id, "ok", clock { use_clockid = true, clockid = id })
  end
  for _, id in ipairs { 0, 7, 11 } do
    add_watch("clockid", "on a breakpoint: " .. id, "EINVAL", watch { use_clockid = true, clockid = id })
  end
  add_watch("clockid", "on a breakpoint: 1", "ok", watch { use_clockid = true, clockid = 1 })
end

local function aux()
  add("aux_sample_size", "without an AUX leader", "EINVAL", sampled({ "aux" }, { aux_sample_size = 64 }), machine)
  add("aux_output", "outside of an AUX group", "EOPNOTSUPP", clock { aux_output = true })
  add("aux_action", "a bit that is none", "EINVAL", patched(clock(), 116, "=I4", 1 << 3))
  if facts.release >= 6013 then
    add("aux_action", "start_paused on a software event", "EOPNOTSUPP", clock { aux_start_paused = true })
    add("aux_action", "pause and resume", "EINVAL", clock { aux_pause = true, aux_resume = true })
    add("aux_action", "pause without an AUX leader", "EINVAL", clock { aux_pause = true }, machine)
    add("aux_action", "resume without an AUX leader", "EINVAL", clock { aux_resume = true }, machine)
  end
end

local function groups()
  local function leader(open) return (assert(open(clock(), 0, -1, -1, CLOEXEC))) end
  local function add_member(what, errno, more, at)
    add("sibling", what, errno, clock(more), with({ by = "machine", group = leader }, at))
  end
  add_member("of the same kind", "ok")
  add_member("pinned", "EINVAL", { pinned = true })
  add_member("exclusive", "EINVAL", { exclusive = true })
  add_member("of another inherit", "EINVAL", { inherit = true })
  add_member("of another CPU", "EINVAL", nil, { cpu = 0 })
  add_member("of another clock", "EINVAL", { use_clockid = true, clockid = 4 })
  add("sibling", "of a sibling", "EINVAL", clock(), on_machine { group = function(open)
    return (assert(open(clock(), 0, -1, leader(open), CLOEXEC)))
  end })
  add("flags of the call", "output to an event without a ring", "EINVAL", clock(),
    on_machine { flags = OUTPUT | NO_GROUP, group = leader })
  add("flags of the call", "output to an event that has one", "ok", clock(),
    on_machine { flags = OUTPUT | NO_GROUP, group = function(open, _, map)
      local fd = leader(open)
      assert(map(fd, 2 * PAGE))
      return fd
    end })
  add("flags of the call", "no group, though one is named", "ok", clock { pinned = true },
    on_machine { flags = NO_GROUP, group = leader })
end

local function breakpoints()
  if facts.machine == "x86_64" then
    add("breakpoint", "read only", "EINVAL", watch { bp_type = 1 })
    add("breakpoint", "of no kind", "EINVAL", watch { bp_type = 0 })
    add("breakpoint", "execution and reading", "EINVAL", watch { bp_type = 5 })
    add("breakpoint", "of 3 bytes", "EINVAL", watch { bp_len = 3 })
    add("breakpoint", "of no length", "EINVAL", watch { bp_len = 0 })
    add("breakpoint", "of 16 bytes", facts.bpext and "ok" or "EOPNOTSUPP", watch { bp_len = 16 }, machine)
    add("breakpoint", "not aligned", "EINVAL", watch { bp_addr = 0x1002 })
    add("breakpoint", "execution of 4 bytes", "EINVAL", watch { bp_type = 4, bp_len = 4 })
    add("breakpoint", "execution of 8 bytes", "ok", watch { bp_type = 4, bp_len = 8 })
    for len = 0, 3 do add("breakpoint", "of " .. (1 << len) .. " bytes", "ok", watch { bp_len = 1 << len }) end
    add("breakpoint", "on an address of the kernel's that is excluded", "EINVAL",
      watch { bp_addr = KERNEL_ADDRESS })
    add("breakpoint", "on an address of the kernel's", "ok",
      watch { bp_addr = KERNEL_ADDRESS, exclude_kernel = false }, { as = { nobody = "EACCES", perfmon = "EPERM" } })
  end
  if facts.breakpoints then
    add("breakpoint", "one more than there are slots", "ENOSPC", watch(), on_machine { group = function(open)
      for _ = 1, facts.breakpoints do assert(open(watch(), 0, -1, -1, CLOEXEC)) end
      return -1
    end })
  end
end

local function callers()
  local function theirs(more) return with({ as = { nobody = "EACCES" } }, more) end
  add("rights", "user side of one's own task", "ok", clock())
  add("rights", "the kernel's side", "ok", clock { exclude_kernel = false }, theirs())
  add("rights", "a whole CPU", "ok", clock(), theirs { pid = -1, cpu = 0 })
  -- CAP_PERFMON replaces the ptrace right
  add("rights", "another user's task", "ok", clock(), theirs { pid = 1 })
  add("rights", "namespaces", "ok", clock { namespaces = true }, theirs())
  add("rights", "physical addresses", "ok", sampled { "phys_addr" }, theirs())
  add("rights", "ksymbol", "ok", dummy { ksymbol = true })
  -- Some releases refuse it to user nobody (Debian's 6.1.0-56 and 6.12.117), others allow it (6.18.44).
  add("rights", "text_poke", "ok", dummy { text_poke = true }, { unsure = "nobody" })
  add("rights", "bpf_event", "ok", dummy { bpf_event = true })
  add("rights", "cgroup records", "ok", dummy { cgroup = true })
  for _, tp in ipairs { { "of a syscall", facts.syscall, "ok" }, { "of no syscall", facts.switch, "EPERM" } } do
    if tp[2] then
      local function tracepoint(more) return with(with(user, { type = 2, config = tp[2], sample_period = 1 }), more) end
      add("rights", "a tracepoint " .. tp[1] .. " with its payload", "ok", tracepoint { sample_type = { "raw" } },
        { as = { nobody = tp[3] ~= "ok" and tp[3] or nil } })
      add("rights", "a tracepoint " .. tp[1] .. " counted", "ok", tracepoint { sample_period = 0 })
    end
  end
  if facts.ftrace then
    add("rights", "a tracepoint of ftrace's own", facts.functions and "ok" or "EPERM",
      with(user, { type = 2, config = facts.ftrace }), on_machine { as = { nobody = "EPERM" } })
  end
end

local function unknown_bits()
  -- Big-endian machines allocate bit fields from the highest bit.
  local big = string.pack("=I2", 1) == "\0\1"
  for _, bit in ipairs { 40, 41, 63 } do
    add("unknown bits", "flag " .. bit, "EINVAL", patched(clock(), 40, "=I8", 1 << (big and 63 - bit or bit)))
  end
  for _, bit in ipairs { 25, 40, 63 } do
    add("unknown bits", "sample_type " .. bit, "EINVAL", patched(clock(), 24, "=I8", 1 << bit))
  end
  for _, bit in ipairs { 5, 63 } do
    add("unknown bits", "read_format " .. bit, "EINVAL", patched(clock(), 32, "=I8", 1 << bit))
  end
  add("unknown bits", "the reserved word", "EINVAL", patched(clock(), 110, "=I2", 1))
end

local function ignored()
  add("ignored", "pinned and exclusive on a lone event", "ok", clock { pinned = true, exclusive = true })
  add("ignored", "wakeup_events without sampling", "ok", dummy { wakeup_events = 5 })
  add_since(5012, "ignored", "build_id without mmap2", dummy { build_id = true })
  add("ignored", "clockid without use_clockid", "ok", clock { clockid = 77 })
  add("ignored", "precise_ip 3 on a software event", "ok", clock { precise_ip = 3 })
  add("ignored", "branch_sample_type without branch_stack", "ok", clock { branch_sample_type = 1 << 40 })
  add("ignored", "a stack's size without stack_user", "ok", clock { sample_stack_user = 3 })
  add("ignored", "a mask of registers without regs_user", "ok", clock { sample_regs_user = 1 << 12 })
  add("ignored", "config1 and config2 of a software event", "ok", dummy { config1 = 1, config2 = 2 })
  if facts.release >= 5013 then add("ignored", "sig_data without sigtrap", "ok", clock { sig_data = 1 }) end
end

--- Returns all conditions, in the table's order.
-- @tparam table f  facts of this machine: `machine`, `max_sample_rate`, `max_stack`, `breakpoints` (free slots;
--   nil: no breakpoints), `bpext` (AMD's address masks), `release` (6013: Linux 6.13), and ids of
--   tracepoints: `syscall`, `switch`, `ftrace` (`functions`: functions can be traced)
function M.list(f)
  list, facts = {}, f
  for _, part in ipairs { targets, descriptors, events, amounts, samples, lives, clocks, aux, groups, breakpoints,
    callers, unknown_bits, ignored } do part(f) end
  return list
end

local function sealed(attr)
  return core.attr_parse(type(attr) == "string" and attr or core.attr_new(attr):bytes())
end

--- Tries a condition on a kernel (`perfev.hooks.real`, or a simulated kernel's hooks).
-- @treturn string  "ok" or errno's name
-- @treturn string  the result of the attr's validate(), in the same form
function M.try(one, kernel)
  local fds, maps = {}, {}
  local k = { epoll_create = function()
    fds[#fds + 1] = assert(kernel.epoll_create())
    return fds[#fds]
  end }
  local function open(attr, ...)
    local fd, errno = kernel.perf_event_open(sealed(attr), ...)
    fds[#fds + 1] = fd
    return fd, errno
  end
  local function map(fd, len)
    maps[#maps + 1] = { assert(kernel.mmap(len, 3, fd, 0)), len }
    return true
  end
  local pid = one.pid_of and one.pid_of(k) or one.pid
  local group = one.group and one.group(open, k, map) or -1
  local ok, _, why = sealed(one.attr):validate(one.flags & PID_CGROUP ~= 0 and 0 or pid, one.cpu)
  local fd, errno = open(one.attr, pid, one.cpu, group, one.flags | CLOEXEC)
  for _, m in ipairs(maps) do kernel.munmap(m[1], m[2]) end
  for _, each in ipairs(fds) do kernel.close(each) end
  return fd and "ok" or E[errno] or tostring(errno), ok and "ok" or E[why]
end

-- Calls on an open event that the kernel refuses: { what, errno, f(open, map, read) -> result, errno, as = }
local function inherited(open) return (assert(open(clock { inherit = true }, 0, -1, -1, CLOEXEC))) end
local function own(open) return (assert(open(clock(), 0, -1, -1, CLOEXEC))) end

M.calls = {
  { "mmap of a page and no ring", "ok", function(open, map) return map(own(open), PAGE) end },
  { "mmap of 1 + 2 pages", "ok", function(open, map) return map(own(open), 3 * PAGE) end },
  { "mmap of 1 + 3 pages", "EINVAL", function(open, map) return map(own(open), 4 * PAGE) end },
  { "mmap at an offset that is none", "EINVAL", function(open, map) return map(own(open), 2 * PAGE, PAGE) end },
  { "mmap of what all children write, on any CPU", "EINVAL", function(open, map)
    return map(inherited(open), 2 * PAGE)
  end },
  { "a second mmap of another size", "EINVAL", function(open, map)
    local fd = own(open)
    assert(map(fd, 2 * PAGE))
    return map(fd, 3 * PAGE)
  end },
  { "mmap of more than may be locked", "ok", function(open, map) return map(own(open), (1 + 4096) * PAGE) end,
    as = { nobody = "EPERM", perfmon = "EPERM" } },
  { "read with a short buffer", "ENOSPC", function(open, _, read)
    return read(assert(open(dummy { read_format = 15 }, 0, -1, -1, CLOEXEC)), 39)
  end },
  { "read with room for all", "ok", function(open, _, read)
    return read(assert(open(dummy { read_format = 15 }, 0, -1, -1, CLOEXEC)), 56)
  end },
}

--- Tries an entry of `calls` on a kernel -> "ok" or errno's name.
function M.call(one, kernel)
  local fds, maps = {}, {}
  local function open(attr, ...)
    local fd, errno = kernel.perf_event_open(sealed(attr), ...)
    fds[#fds + 1] = fd
    return fd, errno
  end
  local function map(fd, len, offset)
    local memory, errno = kernel.mmap(len, 3, fd, offset or 0)
    if memory then maps[#maps + 1] = { memory, len } end
    return memory, errno
  end
  local result, errno = one[3](open, map, kernel.read)
  for _, m in ipairs(maps) do kernel.munmap(m[1], m[2]) end
  for _, fd in ipairs(fds) do kernel.close(fd) end
  return result and "ok" or E[errno] or tostring(errno)
end

return M
