--- An event of a session: opened, filtered, switched on and off.

local core = require "perfev.core"
local event = require "perfev.event"
local explain = require "perfev.explain"
local options = require "perfev.options"
local tracefs = require "perfev.tracefs"

local E = core.errno

local M = {}

local Event = {}

local event_methods = {}

Event.__index = event_methods
Event.__name = "perfev.event"
Event.__tostring = function(self) return "event " .. self.name end

-- Have the core do it -> true | nil, message, errno
local function ask_core(self, verb, ...)
  local opened = self.slot and self.session.core
  if not opened then return nil, self.error or "the event is not open", E.EBADF end
  local ok, what, code = opened[verb](opened, self.slot, ...)
  if ok then return true end
  return nil, what, code
end

local function event_verb(verb)
  return function(self, ...)
    local ok, what, code = ask_core(self, verb, ...)
    if ok then return true end
    return nil, code == E.EBADF and what or explain.refusal(what, code), code
  end
end

--- Count and sample from here on, or no longer.
-- @treturn true | nil, message, errno
event_methods.enable = event_verb("enable_event")
event_methods.disable = event_verb("disable_event")

--- Change the sample period (or, for a frequency, the frequency), in force at once.
-- @tparam integer n
-- @treturn true | nil, message, errno
event_methods.period = event_verb("period")

--- Have each overflow send this process a signal: "USR1", "RTMIN+3"; nil or false: no longer.
-- @treturn true | nil, message, errno
function event_methods:signal(name)
  local number = name and options.signal(name, "signal", 2) or 0
  local ok, what, code = ask_core(self, "signal", number)
  if ok then return true end
  return nil, code == E.EBADF and what or explain.signal(what, code), code
end

-- What a filter is, for an event that takes none or another: conditions for tracepoints, addresses for AUX PMUs.
local function filter_help(built, name)
  if built.is_tracepoint then
    return ("a condition on the fields of %s is expected\n  try: cat /sys/kernel/tracing/events/%s/*/format"):format(
      name, built.system or "SYSTEM")
  elseif built.aux_bytes then
    return "address ranges are expected, at most as many as nr_addr_filters of the PMU says; in files, for a process\n"
      .. "  try: 'filter 0x1000/0x200@/usr/bin/cat', 'start ADDRESS', 'stop ADDRESS', with commas between"
  end
  return "tracepoints and PMUs that trace (AUX) take one\n  try: the condition in the callback"
end

--- Set a tracepoint's filter, of which the kernel takes one in an event's life, or the address ranges of an
-- event with an AUX area, which may be changed.
-- @tparam string text  as perf record --filter takes it
-- @treturn true | nil, message, errno
function event_methods:filter(text)
  local ok, what, code = ask_core(self, "filter", text)
  if ok then return true end
  if code == E.EBADF then return nil, what, code end
  return nil, ("%s\n  %s"):format(what, filter_help(self.built, self.name)), code
end

--- Stop it for good; its callbacks are not called again.
function event_methods:close()
  if self.slot and self.session.core then self.session.core:remove(self.slot) end
  self.slot = nil
end

-- TRACE_FLAG_HARDIRQ | TRACE_FLAG_SOFTIRQ: what an interrupt does is not the doing of the task it
-- happened to find (include/linux/trace_events.h).
local IN_INTERRUPT = 0x08 | 0x10

-- Keep the observer's own doings out of what the whole machine shows, in the kernel where it can.
-- Scheduling is not among them: a switch away from us is the beginning of somebody else's turn.
local function exclude_self(session, built, filter)
  if not (session.opts.exclude_self and options.is_cpu_wide(session.opts) and built.is_tracepoint
    and built.format and built.system ~= "sched") then
    return filter
  end
  local others = ("common_pid != %d || common_flags & %d"):format(core.pid(), IN_INTERRUPT)
  return filter and ("(%s) && (%s)"):format(filter, others) or others
end

local function set_filter(self, ev, built)
  local asked = ev.decl.spec.filter
  local filter = exclude_self(self, built, asked)
  if built.system == "sched" then self.core:keep_own(ev.slot) end
  if not filter then return true end
  local ok, what, code = self.core:filter(ev.slot, filter)
  if ok then
    if filter ~= asked then self.core:keep_own(ev.slot) end -- of ours, only interrupts get here
    return true
  end
  if not asked then return true end -- ours alone: dispatch leaves out what is ours
  return nil, ("%s: filter '%s': the kernel does not take it: %s (%s)\n  %s"):format(ev.name, asked,
    core.strerror(code), E[code] or what, filter_help(built, ev.name)), code
end

local function adjust_attr(self, ev, built)
  local attr, spec, opts = built.attr, ev.decl.spec, self.opts
  if not options.is_cpu_wide(opts) and spec.inherit == nil then attr.inherit = true end
  -- Who is who must not be overwritten: the session's own events stay in rings of their own.
  if opts.overwrite and built.aux_bytes then
    self:note(1, ("%s: its AUX area is read as it comes; overwrite is not for it"):format(ev.name))
  elseif opts.overwrite and not ev.hidden and spec.write_backward == nil then
    attr.write_backward = true
  end
  if self.child and not options.is_cpu_wide(opts) and not self.running and spec.enable_on_exec == nil
    and not opts.pid and not opts.tid then
    attr.enable_on_exec = true
  end
end

local function add(self, ev, built, target)
  local strings
  if built.format and not self.has_strings then
    strings, self.has_strings = tracefs.strings(), true
  end
  return self.core:add {
    attr = built.attr, name = ev.name, pids = target.pids, cpus = target.cpus,
    callbacks = ev.decl.callbacks, event = ev, system = built.system, format = built.format, strings = strings,
    hidden = ev.hidden, aux_bytes = built.aux_bytes, aux_optional = built.aux_optional,
  }
end

-- Open one event -> true | nil, message, errno
local function open(self, ev)
  local built, why, code = event.build(ev.decl)
  if not built then return nil, why, code end
  adjust_attr(self, ev, built)
  local target = self.target
  local slot, what, failed = add(self, ev, built, target)
  if not slot and failed == E.EACCES and not built.is_tracepoint and not built.fixed_exclude
    and not options.is_cpu_wide(self.opts) and not built.attr.exclude_kernel then
    -- As perf does: what the user may see is better than nothing, as long as it is said.
    built.attr.exclude_kernel = true
    slot, what, failed = add(self, ev, built, target)
    if slot then self:note(0, explain.user_only(ev.name)) end
  end
  if not slot then
    return nil, explain.refusal(what, failed, {
      attr = built.attr, is_tracepoint = built.is_tracepoint, cpu_wide = options.is_cpu_wide(self.opts),
      pid = target.pids[1], cpu = target.cpus[1], descriptors = #target.pids * #target.cpus,
    }), failed
  end
  ev.slot, ev.built = slot, built
  ev.attr = self.core:attr(slot)
  ev.ids = {}
  for i, fd in ipairs(self.core:fds(slot)) do ev.ids[i] = fd.id end
  self:note(2, ("%s\n%s"):format(ev.name, ev.attr:dump()))
  return set_filter(self, ev, built)
end

--- Open an event of a session. One that is optional and cannot be opened is said and left out.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  in three parts
-- @treturn[2] integer errno
function M.open(ev)
  local self = ev.session
  local ok, why, code = open(self, ev)
  if ok or not ev.decl.spec.optional then return ok, why, code end
  ev.error = why
  ev:close()
  self:note(1, ("left out: %s"):format(why))
  return true
end

--- An event of session, not open yet.
-- @tparam session session
-- @tparam table decl       of `perfev.event`'s declare
-- @tparam[opt] boolean hidden  its records are the session's own business
function M.new(session, decl, hidden)
  return setmetatable({ name = decl.name, decl = decl, session = session, hidden = hidden }, Event)
end

return M
