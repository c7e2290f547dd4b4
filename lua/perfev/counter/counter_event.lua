--- One event of an open counter: a method for each ioctl of one event (_perf_ioctl()), with the reason if the kernel
-- refuses it. Operations on all events are methods of the counter.

local lazy = require "perfev.base.lazy_module"
local colon = require "perfev.base.method_guard"
local core = require "perfev.core"
local explain = lazy "perfev.event.explain_refusal"
local options = require "perfev.base.options"
local shown = require "perfev.base.show_value"

local M = {}

local E = core.errno

local Member = {}
Member.__index = Member
Member.__name = "perfev.counter.member"


--- A member that is not open yet; its counter opens it.
function M.new(counter, name, spec)
  return setmetatable({ name = name, spec = spec, counter = counter }, Member)
end

-- Why the kernel refuses a request if the errno alone is ambiguous (kernel/events/core.c, _perf_ioctl()).
local sampling = { "it counts, and takes no samples", "an event with period =" }
local once = function(what) return { "it has one already, and the kernel takes one " .. what .. " in an event's life",
  "close it, and add it again" } end
local reasons = {
  REFRESH = { EINVAL = sampling },
  PERIOD = { EINVAL = { "the period is 0 or above 2^63, or the event takes no samples", "an event with period =" } },
  SET_FILTER = {
    EEXIST = once "filter",
    EINVAL = { "it is not a tracepoint, or lacks a field of the condition", "cat the format file of the tracepoint" },
  },
  PAUSE_OUTPUT = { EINVAL = { "it has no ring", "an event of a session" } },
  SET_OUTPUT = {
    EINVAL = { "the other event has no ring, or another CPU, task, clock or direction; or it is this one",
      "an event of the same CPU and clock that is mapped" },
    EBADF = { "not a descriptor of a perf event", "an event, or nil" },
  },
  SET_BPF = {
    EEXIST = once "program",
    EINVAL = { "the program is of a type that this event cannot run",
      "a tracing program for tracepoints, else perf_event" },
    EBADF = { "not a descriptor of a BPF program", "the descriptor that loading it gave" },
  },
  QUERY_BPF = { EINVAL = { "only tracepoints and probes list their programs", "a tracepoint" } },
  MODIFY_ATTRIBUTES = {
    EOPNOTSUPP = { "only breakpoints can be changed while they are open", "close it, and add the other one" },
    EINVAL = { "not all of an attr can change: address, length and kind of a breakpoint, and disabled", "only those" },
  },
}

local function refused(m, request, what, code)
  local known = reasons[request] and reasons[request][E[code]]
  local head = ("%s: cannot %s"):format(m.name, what)
  if not known then return nil, explain.refusal(head, code), code end
  return nil, ("%s: %s (%s)\n  %s\n  try: %s"):format(head, core.strerror(code), E[code], known[1], known[2]), code
end

local function opened_of(m)
  return m.open and m.counter.core
end

local function closed(m)
  return nil, m.error or ("%s: it is closed"):format(m.name), E.EBADF
end

local function ioctl(m, request, what, arg)
  local opened = opened_of(m)
  if not opened then return closed(m) end
  local ok, _, code = opened:ioctl(m.number, request, arg)
  if ok then return true end
  return refused(m, request, what, code)
end

local function integer(value, verb, least)
  local whole = type(value) == "number" and math.tointeger(value)
  if not whole or whole < least then
    error(("%s: a whole number from %d on expected, not %s"):format(verb, least, shown(value)), 3)
  end
  return whole
end

--- Enables, disables or resets this event; true: its whole group.
function Member:enable(whole) return self.counter:enable(self.name, whole or false) end
function Member:disable(whole) return self.counter:disable(self.name, whole or false) end
function Member:reset(whole) return self.counter:reset(self.name, whole or false) end

--- Takes n more samples, then disables the event (REFRESH). Every call raises the limit.
function Member:refresh(n)
  return ioctl(self, "REFRESH", "refresh", integer(n, "refresh", 0))
end

--- Sets the sample period, or frequency; it takes effect at once (PERIOD).
function Member:period(n)
  return ioctl(self, "PERIOD", ("set the period %s"):format(n), integer(n, "period", 1))
end

--- Sends this process a signal at each overflow (O_ASYNC, F_SETSIG): "USR1", "RTMIN+3"; nil or false: stops that.
-- A session receives it with its own `signal`; a signal that is neither blocked nor caught may end the process.
function Member:send_signal(name)
  local number = name and options.signal(name, "send_signal", 2) or 0
  local opened = opened_of(self)
  if not opened then return closed(self) end
  local ok, _, code = opened:signal(self.number, number)
  if ok then return true end
  return nil, explain.signal(self.name .. ": cannot have it send a signal", code), code
end

--- Sets a tracepoint's filter, or the address ranges of an AUX event (SET_FILTER); possible once per event.
function Member:filter(text)
  if type(text) ~= "string" then error("filter: a string expected, not a " .. type(text), 2) end
  return ioctl(self, "SET_FILTER", ("set the filter '%s'"):format(text), text)
end

--- Redirects the records to the ring of another event (SET_OUTPUT): a member, a descriptor, or nil to end it.
function Member:output(to)
  local what = "set its output"
  if to == nil then return ioctl(self, "SET_OUTPUT", what, -1) end
  if getmetatable(to) ~= Member then return ioctl(self, "SET_OUTPUT", what, integer(to, "output", 0)) end
  local opened, other = opened_of(self), opened_of(to)
  if not opened then return closed(self) end
  if not other then return closed(to) end
  local ok, why, code = opened:output(self.number, other, to.number)
  if ok then return true end
  if why ~= "SET_OUTPUT" then return nil, why, code end
  return refused(self, "SET_OUTPUT", what, code)
end

--- Pauses or resumes writing records to the ring (PAUSE_OUTPUT).
function Member:pause_output(paused)
  if type(paused) ~= "boolean" then error("pause_output: true or false expected, not a " .. type(paused), 2) end
  return ioctl(self, "PAUSE_OUTPUT", "pause its output", paused and 1 or 0)
end

--- Attaches a loaded BPF program, which runs at each event (SET_BPF); possible once per event.
function Member:bpf(fd)
  return ioctl(self, "SET_BPF", ("attach the BPF program of descriptor %s"):format(fd), integer(fd, "bpf", 0))
end

local MOST_PROGRAMS = 4096 -- as in lcounter.c; far more than can be attached to one

--- The ids of the BPF programs attached to its tracepoint (QUERY_BPF).
-- @tparam[opt=64] integer max
-- @treturn[1] {integer,...}
-- @treturn[1] integer  the number of programs; at most max are listed
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function Member:query_bpf(max)
  local opened = opened_of(self)
  if not opened then return closed(self) end
  local ids, nr, code = opened:query_bpf(self.number, math.min(integer(max or 64, "query_bpf", 0), MOST_PROGRAMS))
  if ids then return ids, nr end
  return refused(self, "QUERY_BPF", "ask for its BPF programs", code)
end

--- Changes attr fields of an open breakpoint (MODIFY_ATTRIBUTES).
function Member:modify(fields)
  if type(fields) ~= "table" then error("modify: a table of attr fields expected, not a " .. type(fields), 2) end
  local opened = opened_of(self)
  if not opened then return closed(self) end
  local attr = opened:attr(self.number)
  for name, value in pairs(fields) do
    local is_field = type(name) == "string" and core.is_attr_field(name)
    if not is_field then error(("modify: no attr field is called '%s'"):format(shown(name)), 2) end
    attr[name] = value
  end
  local ok, why, code = ioctl(self, "MODIFY_ATTRIBUTES", "change its attr", attr)
  if ok then self.attr = attr end
  return ok, why, code
end

--- The kernel's ids of this event (ID), one for each task and CPU.
function Member:ids()
  local ids = {}
  for i, at in ipairs(self:fds()) do ids[i] = at.id end
  return ids
end

--- The descriptors: { {fd =, id =, pid =, cpu =}, ... }
function Member:fds()
  local opened = opened_of(self)
  return opened and opened:fds(self.number) or {}
end

--- This event's part of the counter's read().
-- @treturn[1] table  `value`, `raw`, `time_enabled`, `time_running`, `running_ratio`, `lost`, `silent`
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function Member:read()
  local r, why, code = self.counter:read()
  if not r then return nil, why, code end
  if r.errors and r.errors[self.name] then return nil, r.errors[self.name], E.EIO end
  local own = r.counts[self.name]
  if not own then return closed(self) end
  return own
end

--- Closes this event; the counter's other events continue.
function Member:close()
  if opened_of(self) then self.counter.core:remove(self.number) end
  if self.undo then self.undo() end
  self.open, self.closed = false, true
end
Member.__tostring = function(self) return "event " .. self.name end

colon(Member, Member, "member", "m", [[enable disable reset refresh send_signal period filter output pause_output
  bpf query_bpf modify ids fds read close]])

return M
