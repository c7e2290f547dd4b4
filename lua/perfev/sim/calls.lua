--- The calls of a simulated kernel, each with the shape that perfev.hooks gives it.
-- Every function takes the kernel, then the parameters of the hook.

local core = require "perfev.core"
local kernels = require "perfev.event.kernel_versions"
local probes = require "perfev.sim.probes"
local refuse = require "perfev.sim.refuse"
local ring = require "perfev.sim.ring"

local E = core.errno
local PAGE = 4096
local PROT_WRITE = 2
local FD_NO_GROUP, FD_OUTPUT, FLAG_PID_CGROUP = 1, 2, 4
local SIGTRAP = 5
local POLLIN, POLLERR, POLLHUP = 1, 8, 16
local SOFTWARE, TRACEPOINT, BREAKPOINT = 1, 2, 5
local FORMAT_ENABLED, FORMAT_RUNNING, FORMAT_ID, FORMAT_GROUP, FORMAT_LOST = 1, 2, 4, 8, 16 -- PERF_FORMAT_*

local M = {}
local calls = {}
M.calls = calls

-- ---- descriptors ----

local function new_fd(k, kind, object)
  local fd = 3
  while k.fds[fd] or k.outside[fd] do fd = fd + 1 end
  if fd >= k.max_files then return nil, E.EMFILE end
  object.kind, object.fd = kind, fd
  k.fds[fd] = object
  return fd
end

-- ---- events ----

function calls.perf_event_open(k, attr, pid, cpu, group_fd, flags)
  local errno = k.refuse and k.refuse(attr, pid, cpu) or refuse.open(k, attr, pid, cpu, group_fd, flags)
  if errno then return nil, errno end
  k.last_id = k.last_id + 1
  local cgroup = flags & FLAG_PID_CGROUP ~= 0 and (k.fds[pid] or {}).path or nil
  local event = {
    cgroup = cgroup, attr = attr, pid = cgroup and -1 or pid, cpu = cpu, group_fd = group_fd, flags = flags,
    id = k.last_id,
    enabled = not attr.disabled, since = k.now, value = 0, time_enabled = 0, lost = 0, hup = false, members = {},
  }
  local named = k.fds[group_fd]
  if flags & FD_OUTPUT ~= 0 and named then event.ring = named.ring end
  event.leader = flags & FD_NO_GROUP == 0 and named or event
  local fd, full = new_fd(k, "event", event)
  if not fd then return nil, full end
  table.insert(k.events, event)
  if event.leader ~= event then table.insert(event.leader.members, event) end
  if k.on_open then k.on_open(event) end
  return fd
end

--- Switch counting on or off; the time that it was on is kept.
function M.set_enabled(k, event, on)
  if event.enabled and not on then event.time_enabled = event.time_enabled + k.now - event.since end
  if on and not event.enabled then event.since = k.now end
  event.enabled = on
end

local function with_members(event, flag)
  return flag & 1 == 1 and { event.leader, table.unpack(event.leader.members) } or { event }
end

-- A PMU that writes into an AUX area: its row of `types`, or `lenient` in a world that has every type.
local lenient = { aux = true, filters = 4 }

local function aux_pmu(k, event)
  local pmu = not k.types and lenient or k.types[event.attr.type]
  return type(pmu) == "table" and pmu.aux and pmu or nil
end

local ioctls = {}

function ioctls.ID(_, event) return event.id end

function ioctls.ENABLE(k, event, flag)
  for _, one in ipairs(with_members(event, flag)) do M.set_enabled(k, one, true) end
end

function ioctls.DISABLE(k, event, flag)
  for _, one in ipairs(with_members(event, flag)) do M.set_enabled(k, one, false) end
end

function ioctls.RESET(_, event, flag)
  for _, one in ipairs(with_members(event, flag)) do one.value = 0 end
end

function ioctls.REFRESH(k, event, n)
  if event.attr.sample_period == 0 or event.attr.inherit then return nil, E.EINVAL end
  event.limit = (event.limit or 0) + n
  M.set_enabled(k, event, true)
end

function ioctls.PERIOD(_, event, period)
  if event.attr.sample_period == 0 or period == 0 then return nil, E.EINVAL end
  event.period = period
end

-- perf_event_set_output()
function ioctls.SET_OUTPUT(k, event, to_fd)
  if event.ring and event.ring.fd == event.fd then return nil, E.EINVAL end
  if to_fd == -1 then
    event.ring = nil
    return
  end
  local to = k.fds[to_fd]
  if not to or to.kind ~= "event" then return nil, E.EBADF end
  if to == event or not to.ring or to.cpu ~= event.cpu or to.cpu == -1 and to.pid ~= event.pid
    or to.attr.clockid ~= event.attr.clockid or to.attr.use_clockid ~= event.attr.use_clockid
    or to.attr.write_backward ~= event.attr.write_backward then return nil, E.EINVAL end
  -- two tracing events must belong to one PMU
  if k.types and aux_pmu(k, to) and aux_pmu(k, event) and to.attr.type ~= event.attr.type then return nil, E.EINVAL end
  event.ring = to.ring
end

-- Parses one filter of an AUX PMU, as perf_event_parse_addr_filter() does: its action and its file.
local function parse_range(text)
  local action, source = text:match("^(%a+)%s+(%S+)$")
  local range, file = (source or ""):match("^([^@]+)@?(.*)$")
  local addr, size = (range or ""):match("^(%w+)/(%w+)$")
  addr = addr or range
  local is_range = addr and tonumber(addr) and (not size or tonumber(size))
  if not (action == "filter" or action == "start" or action == "stop") or not is_range then return nil end
  if action == "filter" and (tonumber(size) or 0) == 0 then return nil end
  return { action = action, addr = tonumber(addr), size = tonumber(size) or 0, file = file ~= "" and file or nil }
end

-- perf_event_set_addr_filter(): replaces earlier filters; finds files only in a task's mappings.
local function set_ranges(k, event, text)
  local ranges = {}
  for one in text:gmatch("[^,\n]+") do
    local range = parse_range((one:gsub("^%s+", ""):gsub("%s+$", "")))
    if not range then return nil, E.EINVAL end
    if range.file and event.pid == -1 then return nil, E.EOPNOTSUPP end
    ranges[#ranges + 1] = range
  end
  if #ranges > aux_pmu(k, event).filters then return nil, E.EOPNOTSUPP end
  event.ranges, event.filter = ranges, text
end

-- perf_event_set_filter(): a tracepoint's is kept for life.
function ioctls.SET_FILTER(k, event, text)
  if k.types and event.attr.type ~= TRACEPOINT then
    local pmu = aux_pmu(k, event)
    if not (pmu and pmu.filters) then return nil, E.EINVAL end
    return set_ranges(k, event, text)
  end
  if event.filter then return nil, E.EEXIST end
  event.filter = text
end

function ioctls.PAUSE_OUTPUT(_, event, paused)
  if not event.ring then return nil, E.EINVAL end
  event.ring.paused = paused ~= 0
end

function ioctls.SET_BPF(k, event, fd)
  if not (k.programs and k.programs[fd]) then return nil, E.EBADF end
  if event.program then return nil, E.EEXIST end
  event.program = k.programs[fd]
end

-- perf_event_query_prog_array()
function ioctls.QUERY_BPF(k, event)
  if not k.privileged then return nil, E.EPERM end
  if event.attr.type ~= TRACEPOINT then return nil, E.EINVAL end
  return { event.program }
end

-- perf_swevent_init() gives the two clocks a type of their own (6.12; not yet in 6.1).
local function has_own_type(k, attr)
  local is_new = not k.release or kernels.number(k.release) >= kernels.number "6.12"
  return is_new and attr.type == SOFTWARE and (attr.config == 0 or attr.config == 1)
end

-- perf_event_modify_attr()
function ioctls.MODIFY_ATTRIBUTES(k, event, attr)
  if attr.type ~= event.attr.type or has_own_type(k, event.attr) then return nil, E.EINVAL end
  if attr.type ~= BREAKPOINT then return nil, E.EOPNOTSUPP end
  event.attr = attr
end

function calls.ioctl(k, fd, request, arg)
  local event = k.fds[fd]
  if not event then return nil, E.EBADF end
  if event.kind ~= "event" or not ioctls[request] then return nil, E.ENOTTY end
  local result, errno = ioctls[request](k, event, arg)
  if errno then return nil, errno end
  return result or 0
end

-- ---- mappings ----

-- perf_mmap_aux(), rb_alloc_aux()
local function map_aux(k, event, len, writable, offset)
  local at, size = event.ring:aux_bounds()
  local there = event.ring.aux
  if at < PAGE + event.ring.size or offset ~= at or size ~= len then return nil, E.EINVAL end
  if there and (there.offset ~= offset or there.len ~= len) then return nil, E.EINVAL end
  if size == 0 or size % PAGE ~= 0 or size & (size - 1) ~= 0 then return nil, E.EINVAL end
  if there then return there.memory end
  if k.mlock and size > k.mlock then return nil, E.EPERM end
  if not aux_pmu(k, event) then return nil, E.EOPNOTSUPP end
  k.rings[event.ring:map_aux(event, len, writable, offset)] = true
  return event.ring.aux.memory
end

-- perf_mmap()
function calls.mmap(k, len, prot, fd, offset)
  local event, size, writable = k.fds[fd], len - PAGE, prot & PROT_WRITE ~= 0
  if not event or event.kind ~= "event" then return nil, E.EBADF end
  if offset ~= 0 then
    if not event.ring then return nil, E.EINVAL end
    return map_aux(k, event, len, writable, offset)
  end
  if size < 0 or size % PAGE ~= 0 or size & (size - 1) ~= 0 or event.attr.inherit and event.cpu == -1 then
    return nil, E.EINVAL
  end
  if event.ring and event.ring.fd ~= fd then return nil, E.EBUSY end -- its output goes elsewhere
  if event.ring then return nil, E.EINVAL end
  if k.mlock and size > k.mlock then return nil, E.EPERM end
  event.ring = ring.new(event, { size = size, page = PAGE, writable = writable, start = k.ring_start })
  k.rings[event.ring] = true
  return event.ring.memory
end

function calls.munmap(k, memory)
  for mapping in pairs(k.rings) do
    if mapping.memory == memory then
      k.rings[mapping] = nil
      if mapping.ring then mapping.ring.aux = nil end -- an AUX area: tracing ends
    end
  end
  return 0
end

-- ---- read, close ----

local function counts_of(k, event)
  local on = event.time_enabled + (event.enabled and k.now - event.since or 0)
  return { value = event.value, id = event.id, lost = event.lost, time_enabled = on,
           time_running = math.floor(on * (event.share or 1)) }
end

-- perf_read_one() and perf_read_group()
local function packed(format, read)
  local function word(bit, value) return format & bit ~= 0 and string.pack("=i8", value) or "" end
  local times = word(FORMAT_ENABLED, read.time_enabled) .. word(FORMAT_RUNNING, read.time_running)
  local function tail(one) return word(FORMAT_ID, one.id) .. word(FORMAT_LOST, one.lost) end
  if not read.values then return string.pack("=i8", read.value) .. times .. tail(read) end
  local out = { string.pack("=i8", #read.values), times }
  for _, one in ipairs(read.values) do out[#out + 1] = string.pack("=i8", one.value) .. tail(one) end
  return table.concat(out)
end

local function read_event(k, event, len)
  if event.failed then return "" end -- pinned, and not on the PMU
  local read = counts_of(k, event)
  if event.attr.read_format & FORMAT_GROUP ~= 0 then
    read.values = { read }
    for _, member in ipairs(event.members) do table.insert(read.values, counts_of(k, member)) end
  end
  local bytes = packed(event.attr.read_format, read)
  if #bytes > len then return nil, E.ENOSPC end
  return bytes
end

local reads = { event = read_event }

function reads.timer(k, timer)
  if k.now < timer.next then return nil, E.EAGAIN end
  local times = timer.every > 0 and (k.now - timer.next) // timer.every + 1 or 1
  timer.next = timer.every > 0 and timer.next + times * timer.every or math.maxinteger
  return string.pack("=I8", times)
end

function reads.signal(_, file, len)
  if #file.pending == 0 then return nil, E.EAGAIN end
  local info = table.remove(file.pending, 1)
  local head = string.pack("=I4i4i4I4I4i4", info.number, 0, info.code or 0, info.pid or 0, 0, info.fd or 0)
  return head .. ("\0"):rep(len - #head)
end

function calls.read(k, fd, len)
  local file = k.fds[fd]
  if not file then return nil, E.EBADF end
  if not reads[file.kind] then return nil, E.EINVAL end
  return reads[file.kind](k, file, len)
end

function calls.close(k, fd)
  local file = k.fds[fd]
  if not file then return nil, E.EBADF end
  k.fds[fd] = nil
  for _, other in pairs(k.fds) do
    if other.kind == "epoll" then other.set[fd] = nil end
  end
  if file.kind == "gate" and file.child.state == "held" then k:end_child(file.child.pid, 127 << 8) end
  if file.kind == "event" then file.closed = true end
  return 0
end

-- State for perf_fasync() and the signals of an overflow.
local fcntls = {}
local O_RDWR = 2
function fcntls.GETFL(file) return file.file_flags or O_RDWR end
function fcntls.SETFL(file, flags) file.file_flags = flags end
function fcntls.GETOWN(file) return file.owner or 0 end
function fcntls.SETOWN(file, pid) file.owner = pid end
function fcntls.GETSIG(file) return file.signal or 0 end
function fcntls.SETSIG(file, number) file.signal = number end

function calls.fcntl(k, fd, command, arg)
  local file = k.fds[fd]
  if not file then return nil, E.EBADF end
  if not fcntls[command] or command == "SETSIG" and (arg < 0 or arg > 64) then return nil, E.EINVAL end
  return fcntls[command](file, arg) or 0
end

-- ---- waiting ----

function calls.epoll_create(k) return new_fd(k, "epoll", { set = {} }) end

function calls.epoll_ctl(k, epfd, op, fd, events, tag)
  local set = k.fds[epfd].set
  if not k.fds[fd] and not k.outside[fd] then return nil, E.EBADF end
  if op == 1 and set[fd] then return nil, E.EEXIST end
  if op == 2 and not set[fd] then return nil, E.ENOENT end
  set[fd] = op == 1 and { tag = tag, asked = events | POLLERR | POLLHUP } or nil
  return 0
end

local polls = {}

-- perf_poll(): a task that has ended hangs up without POLLIN, even with unread records.
function polls.event(_, event)
  if event.hup or not event.ring then return POLLHUP end
  if event.failed then return POLLERR end
  return event.ring:poll() and POLLIN or 0
end

function polls.timer(k, timer) return k.now >= timer.next and POLLIN or 0 end
function polls.signal(_, file) return #file.pending > 0 and POLLIN or 0 end
function polls.pidfd(_, file) return file.child.state == "ended" and POLLIN or 0 end

local function ready(k, set, max)
  local fds, list = {}, {}
  for fd in pairs(set) do fds[#fds + 1] = fd end
  table.sort(fds)
  for _, fd in ipairs(fds) do
    local file = k.fds[fd]
    local events = #list < max and (file and polls[file.kind](k, file) or k.outside[fd]) or 0
    events = events & set[fd].asked
    if events ~= 0 then list[#list + 1] = { events, set[fd].tag } end
  end
  return list
end

local function next_time(k, set)
  local first = k:_next_plan_time()
  for fd in pairs(set) do
    local file = k.fds[fd]
    if file and file.kind == "timer" and file.next < (first or math.maxinteger) then first = file.next end
  end
  return first
end

function calls.epoll_wait(k, epfd, max, timeout_ms)
  local set = k.fds[epfd].set
  local deadline = timeout_ms >= 0 and k.now + timeout_ms * 1000000
  if k:_end_when_idle() then return {} end
  local found = ready(k, set, max)
  while #found == 0 do
    local time = next_time(k, set)
    if deadline and (not time or time > deadline) then
      k:advance_to(deadline)
      return {}
    end
    if not time then error("epoll_wait would wait for ever", 0) end
    k:advance_to(time)
    found = ready(k, set, max)
  end
  return found
end

-- ---- clocks, timers, signals ----

function calls.clock(k) return k.now end
function calls.rdtsc(k) return k.now end
function calls.rdpmc(k, counter)
  local value = k.counters[counter]
  if not value then return nil, E.EOPNOTSUPP end
  return value
end
function calls.timerfd(k, first, every) return new_fd(k, "timer", { next = k.now + first, every = every }) end
function calls.signalfd(k, set) return new_fd(k, "signal", { set = set, pending = {} }) end

function calls.sigblock(k, set, block)
  local before = k.blocked
  k.blocked = block ~= 0 and before | set or before & ~set
  return before ~ k.blocked
end

-- ---- processes ----

function calls.spawn(k, argv)
  k.last_pid = k.last_pid + 1
  local child = { pid = k.last_pid, argv = argv, state = "held" }
  local gate, full = new_fd(k, "gate", { child = child })
  if not gate then return nil, full end
  k.children[child.pid] = child
  return child.pid, gate
end

function calls.release(k, gate, stop)
  local child = k.fds[gate].child
  k.fds[gate] = nil
  if child.state == "ended" then return nil, E.ECHILD end
  local errno = k.exec and k.exec(child.argv)
  if errno then
    k:end_child(child.pid, (errno == E.ENOENT and 127 or 126) << 8)
    return nil, errno
  end
  child.state = stop ~= 0 and "stopped" or "running"
  for _, event in ipairs(k.events) do
    if event.pid == child.pid and event.attr.enable_on_exec then M.set_enabled(k, event, true) end
  end
  if k.at_exec then k.at_exec(child) end
  if k.command and child.state == "running" then k.command(child) end
  return 0
end

-- PTRACE_DETACH
function calls.resume(k, pid)
  local child = k.children[pid]
  if not child or child.state ~= "stopped" then return nil, E.ESRCH end
  child.state = "running"
  if k.command then k.command(child) end
  return 0
end

function calls.pidfd_open(k, pid)
  if not k.children[pid] then return nil, E.ESRCH end
  return new_fd(k, "pidfd", { child = k.children[pid] })
end

function calls.wait(k, pid, block)
  local child = k.children[pid]
  if not child then return nil, E.ECHILD end
  if child.state == "stopped" and not child.told then
    child.told = true
    return SIGTRAP << 8 | 0x7f
  end
  while block ~= 0 and child.state ~= "ended" do
    local time = k:_next_plan_time()
    if time then
      k:advance_to(time)
    elseif k.idle then -- the world has ended, and its commands with it
      k:end_child(pid, 0)
    else
      error("wait would wait for ever", 0)
    end
  end
  if child.state ~= "ended" then return false end
  k.children[pid] = nil
  return child.status
end

function calls.kill(k, pid, sig)
  if not k.children[pid] then return nil, E.ESRCH end
  if sig == 9 or not k.stubborn then k:end_child(pid, sig) end
  return 0
end

-- PR_TASK_PERF_EVENTS_DISABLE and _ENABLE: the events that watch the caller.
function calls.prctl(k, option)
  if option ~= 31 and option ~= 32 then return nil, E.EINVAL end
  for _, event in ipairs(k.events) do
    if (event.pid == 0 or event.pid == k.pid) and not event.closed then M.set_enabled(k, event, option == 32) end
  end
  return 0
end

function calls.capset() return 0 end

-- perfl --sandbox confines the process that runs, also beside a simulated kernel.
for _, name in ipairs { "drop_rights", "no_new_privs", "landlock_abi", "landlock_ruleset", "landlock_allow",
  "landlock_restrict" } do
  calls[name] = function(_, ...) return core.hooks.real[name](...) end
end

function calls.getpid(k) return k.pid end
function calls.raise_nofile(k) return k.max_files end
function calls.pagesize() return PAGE end

-- ---- files ----

-- A text, an errno, or a function that gives either.
local function content(k, path)
  local text = k.files[path]
  if type(text) == "function" then text = text() end
  return text
end

-- O_* of open(2) on most machines; O_NOFOLLOW on x86 and on Arm.
local O_CREAT, O_EXCL, O_NOFOLLOW, O_PATH = 0x40, 0x80, 0x28000, 0x200000
local LINKS_MAX = 40

-- Follows links. A link of /proc may lead to a file that has no path: then the link itself has the text.
local function followed(k, path)
  for _ = 1, LINKS_MAX do
    if not k.links[path] or k.files[path] ~= nil then return path end
    path = k.links[path]
  end
end

-- An open file has the bytes of that moment; writes go to `k.files`. `k.disk` limits the bytes by which all files
-- together may grow.
function calls.open(k, path, flags)
  local fd = path:match "^/proc/self/fd/(%d+)$"
  local opened = fd and k.fds[math.tointeger(tonumber(fd))]
  if opened then return new_fd(k, opened.kind, { text = opened.text, pos = 0, path = opened.path }) end
  if k.links[path] and flags & O_NOFOLLOW ~= 0 then
    if flags & O_PATH == 0 then return nil, E.ELOOP end
    return new_fd(k, "link", { path = path })
  end
  path = followed(k, path)
  if not path then return nil, E.ELOOP end
  local text = content(k, path)
  if text == nil and flags & O_CREAT ~= 0 then
    text, k.files[path] = "", ""
  elseif flags & O_EXCL ~= 0 and text ~= nil then
    return nil, E.EEXIST
  end
  if type(text) ~= "string" then return nil, text or E.ENOENT end
  return new_fd(k, "file", { text = text, pos = 0, path = path })
end

function reads.file(_, file, len)
  local part = file.text:sub(file.pos + 1, file.pos + len)
  file.pos = file.pos + #part
  return part
end

function calls.pread(k, fd, len, offset)
  local file = k.fds[fd]
  if not file then return nil, E.EBADF end
  if file.kind ~= "file" then return nil, E.ESPIPE end
  -- an offset may be anything below 2^63
  return offset < #file.text and file.text:sub(offset + 1, offset + len) or ""
end

-- Writes as much as the disk has room for; without any room, ENOSPC.
local function store(k, file, bytes, offset)
  local more = offset + #bytes - #file.text
  if k.disk and more > k.disk then
    bytes = bytes:sub(1, math.max(0, #bytes - (more - k.disk)))
    if bytes == "" then return nil, E.ENOSPC end
    more = offset + #bytes - #file.text
  end
  if k.disk and more > 0 then k.disk = k.disk - more end
  file.text = file.text:sub(1, offset) .. ("\0"):rep(offset - #file.text) .. bytes
    .. file.text:sub(offset + #bytes + 1)
  if not file.unlinked then k.files[file.path] = file.text end
  return #bytes
end

function calls.writev(k, fd, bytes)
  local file = k.fds[fd]
  if not file or file.kind ~= "file" then return nil, E.EBADF end
  local n, errno = store(k, file, bytes, file.pos)
  if not n then return nil, errno end
  file.pos = file.pos + n
  return n
end

function calls.pwrite(k, fd, bytes, offset)
  local file = k.fds[fd]
  if not file or file.kind ~= "file" then return nil, E.EBADF end
  return store(k, file, bytes, offset)
end

function calls.ftruncate(k, fd, length)
  local file = k.fds[fd]
  if not file or file.kind ~= "file" then return nil, E.EBADF end
  file.text = file.text:sub(1, length) .. ("\0"):rep(length - #file.text)
  if not file.unlinked then k.files[file.path] = file.text end
  return 0
end

local function moved(k, from, to)
  for _, file in pairs(k.fds) do
    if file.path == to then file.unlinked = true end
    if file.path == from then file.path, file.unlinked = to, to == nil end
  end
end

function calls.rename(k, from, to)
  if type(content(k, from)) ~= "string" then return nil, E.ENOENT end
  k.files[to], k.files[from] = k.files[from], nil
  moved(k, from, to)
  return 0
end

function calls.unlink(k, path)
  if type(content(k, path)) ~= "string" then return nil, E.ENOENT end
  k.files[path] = nil
  moved(k, path)
  return 0
end

function calls.slurp(k, path)
  local text = content(k, path)
  if type(text) == "string" then return text end
  return nil, text or E.ENOENT
end

-- Writing to tracefs defines probes; any other file only grows.
function calls.append(k, path, text)
  local there = content(k, path)
  if type(there) ~= "string" then return nil, there or E.ENOENT end
  if path:find("/[ku]probe_events$") then return probes.write(k, path, text) end
  k.files[path] = there .. text
  return 0
end

function calls.directory(k, path)
  local names, errno = calls.list(k, path)
  if not names then return nil, errno end
  return new_fd(k, "directory", { path = path })
end

function calls.list(k, path)
  if type(k.files[path]) == "number" then return nil, k.files[path] end
  local names, seen, prefix = {}, {}, path:gsub("/*$", "/")
  for file in pairs(k.files) do
    local name = file:sub(1, #prefix) == prefix and file:sub(#prefix + 1):match("^[^/]+")
    if name and not seen[name] then names[#names + 1], seen[name] = name, true end
  end
  if #names == 0 then return nil, E.ENOENT end
  table.sort(names)
  return names
end

local REGULAR, DIRECTORY = 0x81a4, 0x41ed -- S_IFREG | 0644, S_IFDIR | 0755
local NSFS = 4 -- the device number of namespaces

-- A number for each path, unique in this kernel.
local function inode(k, path)
  k.inodes[path] = k.inodes[path] or k.last_inode + 1
  k.last_inode = math.max(k.last_inode, k.inodes[path])
  return k.inodes[path]
end

function calls.stat(k, path)
  local namespace = (k.links[path] or ""):match("^%a+:%[(%d+)%]$")
  if namespace then
    return { dev = NSFS, ino = math.tointeger(tonumber(namespace)), mode = REGULAR, uid = 0, size = 0 }
  end
  local text = content(k, path)
  if math.type(text) == "integer" then return nil, text end
  if not text and not calls.list(k, path) then return nil, E.ENOENT end
  return { dev = 1, ino = inode(k, path), mode = text and REGULAR or DIRECTORY, uid = 0, size = #(text or "") }
end

local LINK, PIPE = 0xa1ff, 0x1180 -- S_IFLNK | 0777, S_IFIFO | 0600

function calls.fstat(k, fd)
  local file = k.fds[fd]
  if not file then return nil, E.EBADF end
  local mode = file.kind == "file" and REGULAR or file.kind == "link" and LINK or PIPE
  return { dev = 1, ino = file.path and inode(k, file.path) or fd, mode = mode, uid = 0, size = #(file.text or "") }
end

function calls.readlink(k, path)
  local target = k.links[path]
  if not target then return nil, E.ENOENT end
  return target
end

return M
