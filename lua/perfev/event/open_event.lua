--- An event of a session: opens, filters, enables and disables it.

local lazy = require "perfev.base.lazy_module"
local as_callback = require "perfev.aggregate.as_callback"
local colon = require "perfev.base.method_guard"
local core = require "perfev.core"
local event = require "perfev.event.declaration"
local explain = lazy "perfev.event.explain_refusal"
local filters = lazy "perfev.tracepoint.filter"
local names = require "perfev.event.perf_names"
local options = require "perfev.base.options"
local pidns = lazy "perfev.event.pid_namespace"
local shown = require "perfev.base.show_value"
local targets = require "perfev.event.target"
local tracefs = require "perfev.tracepoint.tracefs"

local E = core.errno

local M = {}

local Event = {}

local event_methods = {}

Event.__index = event_methods
Event.__name = "perfev.event"
Event.__tostring = function(self) return "event " .. self.name end

-- Calls a verb of the core -> true | nil, message, errno
local live_only = { period = true, filter = true, signal = true }
local sampled_only = { period = true, signal = true }

local ask_core, take_records, open_slot
function ask_core(self, verb, ...)
  if self.members then -- one declaration, several events
    for _, member in ipairs(self.members) do
      local ok, what, code = ask_core(member, verb, ...)
      if not ok then return nil, what, code end
    end
    return true
  end
  local opened = self.slot and self.session.core
  if not opened then return nil, self.error or "the event is not open", E.EBADF end
  if self.session.replay and live_only[verb] then
    return nil, verb .. ": the events of a recording are as they were recorded", E.EOPNOTSUPP
  end
  if self.only_counts and sampled_only[verb] then
    local taken, why, errno = take_records(self)
    if not taken then return nil, why, errno end
  end
  local ok, what, code = opened[verb](opened, self.slot, ...)
  if ok then return true end
  return nil, what, code
end

-- Is the message complete, because the kernel was not called?
local function is_told(self, code)
  return code == E.EBADF or self.session.opts.input ~= nil
end

local function event_verb(verb)
  return function(self, ...)
    local ok, what, code = ask_core(self, verb, ...)
    if ok then return true end
    return nil, is_told(self, code) and what or explain.refusal(what, code), code
  end
end

--- Enables the event; disable() stops counting and sampling.
-- @treturn true | nil, message, errno
event_methods.enable = event_verb("enable_event")

local switch_off = event_verb("disable_event")

function event_methods:disable()
  local session = self.session
  if session.child and not session.exec_done and self.attr and self.attr.enable_on_exec then
    return nil, ("%s: the command's exec enables it, also after this call\n"
      .. "  try: disabled = true, where it is declared"):format(self.name), E.EINVAL
  end
  return switch_off(self)
end

--- Changes the sample period (or the frequency of an event with one), at once.
-- @tparam integer n
-- @treturn true | nil, message, errno
function event_methods:period(n)
  local whole = type(n) == "number" and math.tointeger(n)
  if not whole then error("period: a whole number expected, not " .. shown(n), 2) end
  if whole < 1 then error("period: a number above 0 expected, not " .. whole, 2) end
  local ok, what, code = ask_core(self, "period", whole)
  if ok then return true end
  if is_told(self, code) then return nil, what, code end
  local attr = self.attr:copy()
  attr.sample_period = whole -- of a frequency, it is that
  return nil, explain.refusal(what, code, nil, code == E.EINVAL and { attr = attr } or nil), code
end

--- Sends this process a signal at each overflow: "USR1", "RTMIN+3"; nil or false ends that.
-- @treturn true | nil, message, errno
function event_methods:send_signal(name)
  local number = name and options.signal(name, "send_signal", 2) or 0
  local ok, what, code = ask_core(self, "signal", number)
  if ok then return true end
  return nil, is_told(self, code) and what or explain.signal(what, code), code
end

local ADDRESS_FILTER = "address ranges are expected, at most as many as nr_addr_filters of the PMU says; in files, for"
  .. " a process\n  try: 'filter 0x1000/0x200@/usr/bin/cat', 'start ADDRESS', 'stop ADDRESS', with commas between"

--- Sets a tracepoint's filter, which the kernel accepts once for an event, or the address ranges of an
-- event with an AUX area, which can change.
-- @tparam string text  in the form of perf record --filter
-- @treturn true | nil, message, errno
function event_methods:filter(text)
  if type(text) ~= "string" then error("filter: a string expected, not a " .. type(text), 2) end
  local right, why, errno = true, nil, nil
  if self.format then right, why, errno = filters.check(self.name, text, self.format) end
  if not right then return nil, why, errno end
  local ok, what, code = ask_core(self, "filter", text)
  if ok then
    self.own_filter = text
    return true
  end
  if is_told(self, code) then return nil, what, code end
  if self.built.aux_bytes then return nil, ("%s\n  %s"):format(what, ADDRESS_FILTER), code end
  return nil, explain.filter(self.name, text, code, self.format), code
end

--- Closes the event; its callbacks are not called again.
function event_methods:close()
  for _, member in ipairs(self.members or {}) do member:close() end
  if self.slot and self.session.core then self.session.core:remove(self.slot) end
  self.slot = nil
  if self.undo then self.undo() end
end

-- TRACE_FLAG_HARDIRQ | TRACE_FLAG_SOFTIRQ: an interrupt's work does not belong to the interrupted
-- task (include/linux/trace_events.h).
local IN_INTERRUPT = 0x08 | 0x10

-- Joins an optional filter with another one.
local function both(filter, other)
  return filter and ("(%s) && (%s)"):format(filter, other) or other
end

-- Excludes perfev's own activity from a system-wide session, in the kernel if possible.
-- Scheduler events stay: a switch away from perfev is the start of another task's turn.
local function exclude_self(session, built, filter)
  local takes_filter = built.is_tracepoint and built.format or built.found.probe
  if not (session.opts.exclude_self and options.is_cpu_wide(session.opts) and takes_filter
    and built.system ~= "sched") then
    return filter
  end
  if not pidns.is_initial() then return filter end -- there our pid is another process
  local others = ("common_pid != %d || common_flags & %d"):format(core.pid(), IN_INTERRUPT)
  return both(filter, others)
end

-- The user's filter, joined with the parts of the conditions that the kernel can decide. A recording has all records
-- that pass the user's filter, so there the conditions are not added.
local function with_condition(self, ev, built, asked)
  local condition, exact
  if not self.opts.record then condition, exact = event.condition(ev.decl, built) end
  if not condition then return asked end
  self:_log(1, ("%s: the kernel's filter has %s: %s"):format(ev.name, exact and "all of where" or "a part of where",
    condition))
  return both(asked, condition)
end

local function set_filter(self, ev, built)
  local asked = ev.own_filter or ev.decl.spec.filter
  local narrowed = with_condition(self, ev, built, asked)
  local filter = exclude_self(self, built, narrowed)
  if built.system == "sched" then self.core:keep_own(ev.slot) end
  if not filter then return true end
  local ok, what, code = self.core:filter(ev.slot, filter)
  if not ok and narrowed ~= asked then -- where is held against each record anyhow
    self:_log(1, ("%s: the kernel does not take that: where is seen to without it"):format(ev.name))
    narrowed, filter = asked, exclude_self(self, built, asked)
    if not filter then return true end
    ok, what, code = self.core:filter(ev.slot, filter)
  end
  if ok then
    if filter ~= narrowed then self.core:keep_own(ev.slot) end -- of ours, only interrupts get here
    return true
  end
  if not asked then -- a filter of perfev's own: dispatch excludes its records
    if ev.only_counts and self.exclude_pid then return take_records(ev) end
    return true
  end
  if built.aux_bytes then
    return nil, ("%s: filter '%s': the kernel refuses it: %s (%s)\n  %s"):format(ev.name, asked,
      core.strerror(code), E[code] or what, ADDRESS_FILTER), code
  end
  return nil, explain.filter(ev.name, asked, code, built.format), code
end

local function adjust_attr(self, ev, built)
  local attr, spec, opts = built.attr, built.spec, self.opts
  if not options.is_cpu_wide(opts) and spec.inherit == nil then attr.inherit = not built.no_inherit end
  -- COMM and FORK records must not be overwritten: the session's own events keep rings of their own.
  if opts.overwrite and built.aux_bytes then
    self:_log(1, ("%s: its AUX area is read as it comes; overwrite is not for it"):format(ev.name))
  elseif opts.overwrite and not (ev.hidden or spec.early) and spec.write_backward == nil then
    attr.write_backward = true
  end
  if self.child and not options.is_cpu_wide(opts) and not self.running and spec.enable_on_exec == nil
    and not spec.disabled and not targets.has_processes(opts) then
    attr.enable_on_exec = true
  end
end

-- True if the kernel need not write more of a sample than the callbacks read. Snapshots may be recorded.
local function takes_fields_only(self)
  return not (self.opts.record or self.opts.overwrite or self.takes_views)
end

-- The options with which a count of samples is a count of the event.
local countable = {
  sample = true, name = true, optional = true, many = true, disabled = true, filter = true, inherit = true,
  type = true, config = true, period = true, sample_period = true, exclude_user = true, exclude_kernel = true,
  exclude_hv = true, exclude_idle = true, exclude_host = true, exclude_guest = true,
}

-- True for events that write one sample each time. Those of the scheduler's statistics add up nanoseconds
-- (__perf_count() in include/trace/events/sched.h).
local function is_single(built)
  local attr, found = built.attr, built.found
  if attr.freq or attr.sample_period ~= 1 then return false end
  if found.probe or attr.type == names.TYPE.breakpoint then return true end
  if attr.type == names.TYPE.tracepoint then
    return built.system ~= nil and not (built.system == "sched" and built.name:find("sched_stat_", 1, true))
  end
  return attr.type == names.TYPE.software and attr.config ~= names.CPU_CLOCK and attr.config ~= names.TASK_CLOCK
    and attr.config ~= names.DUMMY and attr.config ~= names.BPF_OUTPUT
end

--- True if an event of the session has a Lua function.
function M.has_function(session)
  for _, ev in ipairs(session.events) do
    if as_callback.has_function(ev.decl.callbacks) then return true end
  end
  return false
end

-- True if the kernel's count of the event is the same as the count of its records.
local function can_only_count(self, ev, built)
  local opts, decl = self.opts, ev.decl
  if ev.takes_records or ev.is_grouped or ev.hidden or self.pulled or not takes_fields_only(self) then return false end
  if opts.count or options.selects_comm(opts) or decl.condition or M.has_function(self)
    or not as_callback.only_counts(decl.callbacks) then return false end
  for name, value in pairs(built.spec) do
    local is_empty = type(value) == "table" and next(value) == nil -- sample_bits of the event string
    if not countable[name] and type(name) == "string" and not is_empty then return false end
  end
  -- Records of perfev's own must be left out, by a filter of the kernel, or be wanted.
  local own = not self.exclude_pid or built.system == "sched" or exclude_self(self, built) ~= nil
  return own and is_single(built)
end

local function add(self, ev, built, target, leader)
  local strings
  local opts, is_overwritten = self.opts, built.attr.write_backward
  local is_narrow = takes_fields_only(self) and not is_overwritten
  local no_time = is_narrow and not (opts.count or event.needs_order(ev.decl))
  if no_time and not ev.only_counts then self:_log(1, ev.name .. ": without time: its aggregators need no order") end
  if built.format and not self.has_strings then
    strings, self.has_strings = tracefs.strings(), true
  end
  return self.core:add {
    attr = built.attr, name = ev.name, pids = target.pids, cpus = target.cpus, cgroup = target.cgroup,
    callbacks = ev.decl.callbacks, event = ev, system = built.system, format = built.format, strings = strings,
    hidden = ev.hidden, off = ev.decl.spec.disabled, leader = leader,
    args_from = built.format and built.found.args_from,
    aux_bytes = built.aux_bytes, aux_optional = built.aux_optional,
    fields = ev.decl.fields and ev.decl.fields.names, where = ev.decl.where, where_all = ev.decl.is_carrier,
    no_task = not (opts.record or is_overwritten) and not event.needs_task(ev.decl),
    no_cpu = is_narrow and (ev.decl.reads ~= nil or not event.needs_task(ev.decl)),
    no_time = no_time or built.spec.time == false, no_records = ev.only_counts, early = ev.decl.spec.early,
  }
end

-- Reports a lowered default frequency.
local function note_clamped(self, ev, built)
  if built.found.clamped then self:_log(1, explain.clamped(ev.name, built.attr.sample_freq)) end
end

-- Reports that an event is sampled by default, because a user who counts samples may expect every event.
local function note_sampled(self, ev, built)
  local attr = built.attr
  local is_clock = attr.config == names.CPU_CLOCK or attr.config == names.TASK_CLOCK
  local is_software = built.found.is_sampled and attr.type == names.TYPE.software and not is_clock
  if is_software and as_callback.counts(ev.decl.callbacks) then
    self:_log(0, explain.sampled(ev.name, attr.sample_freq))
  end
end

-- The session's number of events, as far as patterns and lists are resolved.
local function how_many(self)
  local n = #self.counters
  for _, ev in ipairs(self.events) do n = n + (ev.stands_for or 1) end
  return n
end

-- The facts that explain_refusal needs.
local function circumstances(self, built, leader)
  local target, found = self.target, built.found
  return {
    attr = built.attr, is_tracepoint = built.is_tracepoint, cpu_wide = options.is_cpu_wide(self.opts),
    named = built.format ~= nil,
    tracepoint = found.tracepoint and ("%s:%s"):format(found.system, found.tracepoint),
    pid = target.pids[1], cpu = target.cpus[1], cgroup = self.opts.cgroup,
    events = how_many(self), cpus = #target.cpus, threads = #target.pids, group = leader,
  }
end

-- The CPUs of an event: a PMU that only some CPUs have is opened on those.
local function target_for(self, ev, built)
  local target, wide = self.target, options.is_cpu_wide(self.opts)
  if built.pids then return setmetatable({ pids = built.pids }, { __index = target }) end
  if not built.cpus or not (wide or built.found.is_uncore) then return target end
  if not wide then
    return nil, ("event '%s': the PMU %s counts for whole CPUs and cannot distinguish tasks\n"
      .. "  try: -a, or -C %s"):format(ev.name, built.pmu, table.concat(built.cpus, ",")), E.EINVAL
  end
  local asked, cpus = {}, {}
  for _, cpu in ipairs(target.cpus) do asked[cpu] = true end
  for _, cpu in ipairs(built.cpus) do
    if asked[cpu] then cpus[#cpus + 1] = cpu end
  end
  if #cpus > 0 then return setmetatable({ cpus = cpus }, { __index = target }) end
  return nil, ("event '%s': the PMU %s is there for the CPUs %s alone\n  try: -C %s"):format(ev.name, built.pmu,
    table.concat(built.cpus, ","), table.concat(built.cpus, ",")), E.ENODEV
end

local no_pmu = { [E.ENOENT] = true, [E.ENODEV] = true, [E.ENXIO] = true, [E.EOPNOTSUPP] = true }

local SAMPLE_READ, SAMPLE_CALLCHAIN, SAMPLE_CGROUP = 1 << 4, 1 << 5, 1 << 21 -- PERF_SAMPLE_*

-- Attempts after a refusal by the kernel, in this order: each changes built.attr and returns a
-- level and a text for the log, or nothing if it does not apply.
local remedies = {
  -- As in perf: falls back to the user side, and logs that.
  function(self, ev, built, code)
    if code ~= E.EACCES or built.is_tracepoint or built.fixed_exclude or options.is_cpu_wide(self.opts)
      or built.attr.exclude_kernel then return end
    built.attr.exclude_kernel = true
    return 0, explain.user_only(ev.name)
  end,
  -- Later kernels (seen: 6.12.117) also require it for the callchain, although no sample of such an event
  -- is from the kernel.
  function(_, ev, built, code)
    local attr = built.attr
    if code ~= E.EACCES or not attr.exclude_kernel or attr.sample_type & SAMPLE_CALLCHAIN == 0
      or attr.exclude_callchain_kernel or built.spec.exclude_callchain_kernel ~= nil then return end
    attr.exclude_callchain_kernel = true
    return 2, ("%s: its stacks end where the kernel begins"):format(ev.name)
  end,
  function(_, ev, built, code)
    if not built.precise_max or built.attr.precise_ip == 0 or not (no_pmu[code] or code == E.EINVAL) then return end
    built.attr.precise_ip = built.attr.precise_ip - 1
    return 2, ("%s: precise_ip %d is the maximum of its PMU"):format(ev.name, built.attr.precise_ip)
  end,
  -- The session drops its own options on kernels that lack them: 5.12 and 5.1 introduced these.
  function(_, ev, built, code)
    if not ev.hidden or code ~= E.EINVAL then return end
    for _, name in ipairs { "build_id", "ksymbol" } do
      if built.attr[name] then
        built.attr[name] = false
        return 1, ("names of functions: without %s records, which this kernel does not have"):format(name)
      end
    end
  end,
  -- 5.7 introduced cgroups of samples. Without them an aggregator's column is the process's cgroup.
  function(_, ev, built, code)
    local attr = built.attr
    if code ~= E.EINVAL or not built.spec.asks_cgroup or attr.sample_type & SAMPLE_CGROUP == 0 then return end
    attr.sample_type, attr.cgroup = attr.sample_type & ~SAMPLE_CGROUP, false
    return 1, ("%s: this kernel's samples have no cgroup; /proc has that of their process"):format(ev.name)
  end,
  -- PERF_PMU_CAP_NO_EXCLUDE: the PMU cannot exclude anything.
  function(_, ev, built, code)
    if code ~= E.EINVAL or not built.guest_default or not built.attr.exclude_guest then return end
    built.attr.exclude_guest = false
    return 2, ("%s: without exclude_guest, which its PMU cannot"):format(ev.name)
  end,
  -- Before 6.12 an inherited event could not have READ in its samples (perf_event_alloc()); and a group
  -- is inherited as a whole or not at all.
  function(self, ev, built, code, leader)
    local attr = built.attr
    if code ~= E.EINVAL or not attr.inherit or built.spec.inherit then return end
    if attr.sample_type & SAMPLE_READ == 0 and not (leader and not self.core:attr(leader).inherit) then return end
    attr.inherit = false
    return leader and 1 or 0,
      ("%s: not in processes that come later, as this kernel inherits no samples with counts"):format(ev.name)
  end,
  function(_, ev, built, code)
    local attr = built.attr
    if not no_pmu[code] or not built.found.can_be_clock or attr.type ~= 0 then return end
    attr.type, attr.config, attr.precise_ip = 1, 0, 0
    return 0, ("%s: this machine has no such counter; cpu-clock is sampled instead"):format(ev.name)
  end,
}

local function add_somehow(self, ev, built, target, leader)
  local slot, what, code, failed = add(self, ev, built, target, leader)
  -- A failure to map or share a ring is not caused by the attr.
  if not slot and not (failed and failed.operation == "open event") then return nil, what, code, failed end
  local asked = not slot and core.attr_parse(built.attr:bytes())
  local said, errno = {}, code
  for _, remedy in ipairs(remedies) do
    while not slot do
      local level, text = remedy(self, ev, built, errno, leader)
      if not level then break end
      said[#said + 1] = { level, text }
      local again = table.pack(add(self, ev, built, target, leader))
      slot, errno = again[1], again[3]
    end
  end
  if slot then
    for _, note in ipairs(said) do self:_log(note[1], note[2]) end
    return slot
  end
  if #said > 0 then built.attr = asked end -- the message is about the requested attr
  return nil, what, code, failed
end

local function name_at(ev, slot)
  for _, member in ipairs(ev.members) do
    if member.slot == slot then return member.name end
  end
end

-- Bytes that are not in the ring as the kernel wrote them cannot be recorded.
local function check_recorded(self, ev, built)
  if not self.opts.record then return true end
  if built.aux_bytes and built.aux_optional then built.aux_bytes = nil end
  if not built.aux_bytes then return true end
  return nil, ("%s: its AUX area has a form of its PMU's own, and cannot be recorded\n"
    .. "  try: without record, or perf record"):format(ev.name), E.EOPNOTSUPP
end

-- Checks its filter, aggregators and recording against the event -> true | nil, message, errno
local function fits(self, ev, built)
  if ev.decl.spec.filter and built.format then
    local right, wrong, errno = filters.check(ev.name, ev.decl.spec.filter, built.format)
    if not right then return nil, wrong, errno end
  end
  local fit, unfit, errno = event.check_payload(ev.name, ev.decl, built.format)
  if not fit then return nil, unfit, errno end
  adjust_attr(self, ev, built)
  return check_recorded(self, ev, built)
end

-- Opens the event's descriptors -> true | nil, message, errno
function open_slot(self, ev, built, leader)
  local target, why, wrong = target_for(self, ev, built)
  if not target then return nil, why, wrong end
  local slot, what, errno, failed = add_somehow(self, ev, built, target, leader)
  if not slot then
    local event_as_opened = circumstances(self, built, leader and name_at(ev.of, leader))
    return nil, explain.refusal(what, errno, failed, event_as_opened), errno
  end
  if built.to_note then self:_log(0, built.to_note) end
  ev.slot, ev.format, ev.built, ev.leader = slot, built.format, built, leader
  ev.attr = self.core:attr(slot)
  ev.ids = {}
  for i, fd in ipairs(self.core:fds(slot)) do ev.ids[i] = fd.id end
  self:_log(2, ("%s\n%s"):format(ev.name, ev.attr:dump()))
  return set_filter(self, ev, built)
end

-- Opens an event that only counts again, so that it has records from here on.
function take_records(ev)
  local session = ev.session
  local n, why, code = M.take_counts(session)
  if not n then return nil, why, code end
  local was_off = session.core:remove(ev.slot)
  ev.only_counts, ev.takes_records = nil, true
  local ok
  ok, why, code = open_slot(session, ev, ev.built)
  if not ok then return nil, why, code end
  local waits = not session.running or ev.attr.enable_on_exec and not session.exec_done
  if was_off or not waits then ok, why, code = ask_core(ev, was_off and "disable_event" or "enable_event") end
  return ok and true or nil, why, code
end

-- Opens one event -> true | nil, message, errno
local function open_built(self, ev, built, leader)
  if built.bind then
    local bound, why, code = built.bind(self, built, ev)
    if not bound then return nil, why, code end
    ev.undo = built.undo
  end
  local fit, unfit, einval = fits(self, ev, built)
  if not fit then return nil, unfit, einval end
  note_clamped(self, ev, built)
  note_sampled(self, ev, built)
  ev.only_counts = can_only_count(self, ev, built)
  if ev.only_counts then self:_log(1, ev.name .. ": the kernel counts it; no records are written") end
  self.has_counts = self.has_counts or ev.only_counts
  return open_slot(self, ev, built, leader)
end

local function new_member(self, ev, built)
  local member = M.new(self, ev.decl, ev.hidden)
  member.name, member.of = built.name or ev.name, ev
  ev.members = ev.members or {}
  ev.members[#ev.members + 1] = member
  return member
end

local function open_group(self, ev, unit)
  local leader
  for _, built in ipairs(unit) do
    local member = new_member(self, ev, built)
    member.group_name, member.is_grouped = unit.group_name, unit.grouped
    local ok, why, code = open_built(self, member, built, leader)
    if not ok then return nil, why, code end
    if unit.grouped then leader = leader or member.slot end
  end
  return true
end

local function close_members(ev)
  for _, member in ipairs(ev.members or {}) do member:close() end
  ev.members = nil
end

local FORMAT_GROUP = 8 -- PERF_FORMAT_GROUP

-- A weak group is split if it cannot be opened as a group.
local function open_unit(self, ev, unit)
  local before = ev.members and #ev.members or 0
  local ok, why, code = open_group(self, ev, unit)
  if ok or not (unit.grouped and unit.weak) then return ok, why, code end
  while #ev.members > before do table.remove(ev.members):close() end
  self:_log(1, ("%s: not as a group, which its PMU cannot hold"):format(unit.name))
  for _, built in ipairs(unit) do built.attr.read_format = built.attr.read_format & ~FORMAT_GROUP end
  return open_group(self, ev, setmetatable({ grouped = false }, { __index = unit }))
end

-- Checks the number of a pattern's tracepoints.
local function check_many(self, ev, units)
  self.tracepoints = self.tracepoints or {}
  for _, unit in ipairs(units) do
    local founds = {}
    for i, built in ipairs(unit) do founds[i] = built.found end
    if unit.pattern then self:_log(0, event.told_of_pattern(unit.pattern, founds)) end
    local ok, why, code = event.check_many(ev.name, self.tracepoints, founds, self.opts.many or ev.decl.spec.many)
    if not ok then return nil, why, code end
  end
  return true
end

local function count_of(units)
  local n = 0
  for _, unit in ipairs(units) do n = n + #unit end
  return n
end

-- The name of one event: from its declaration, its string (name=x), the chosen alternative, or the pattern's
-- match.
local function name_of(ev, unit)
  local built = unit[1]
  local words = built.found.words
  if ev.decl.spec.name then return ev.decl.spec.name end
  local is_one_of = unit.pattern or ev.decl.is_every or ev.decl.text and ev.decl.text:find("|", 1, true)
  return words and words.name or is_one_of and built.name or ev.name
end

-- Opens all units of one alternative.
local function open_units(self, ev, units)
  local ok, why, code = check_many(self, ev, units)
  if not ok then return nil, why, code end
  ev.stands_for = count_of(units)
  if ev.stands_for == 1 and not units[1].grouped then
    ev.name = name_of(ev, units[1])
    return open_built(self, ev, units[1][1])
  end
  for _, unit in ipairs(units) do
    ok, why, code = open_unit(self, ev, unit)
    if not ok then
      close_members(ev)
      return nil, why, code
    end
  end
  ev.attr, ev.ids = ev.members[1].attr, {}
  for _, member in ipairs(ev.members) do table.move(member.ids, 1, #member.ids, #ev.ids + 1, ev.ids) end
  return true
end

-- A breakpoint on a variable with another address in each process becomes one breakpoint per address.
local function at_addresses(self, built)
  if not built.found.find_addresses then return { built } end
  local list, why, code = built.found.find_addresses(self)
  if not list or list == "exec" then return list, why, code end
  local all = {}
  for i, place in ipairs(list) do
    all[i] = setmetatable({ attr = built.attr:copy(), pids = place.pids }, { __index = built })
    all[i].attr.bp_addr = place.address
  end
  return all
end

-- The same for all units; returns "exec" if the addresses are known only after the command's exec.
local function locate(self, units)
  local located = {}
  for i, unit in ipairs(units) do
    located[i] = setmetatable({}, { __index = unit })
    for _, built in ipairs(unit) do
      local all, why, code = at_addresses(self, built)
      if not all or all == "exec" then return all, why, code end
      table.move(all, 1, #all, #located[i] + 1, located[i])
    end
  end
  return located
end

-- -> true | nil, message, errno
local function open(self, ev)
  if self.replay then return self.replay:match(ev) end
  if self.opts.many then ev.decl.spec.many = true end
  local there, why, code = event.builds(ev.decl, self.opts.events, takes_fields_only(self))
  if not there then return nil, why, code end
  local ok, first, errno
  for i, units in ipairs(there) do
    units, why, code = locate(self, units)
    if not units then return nil, why, code end
    ev.waits_for_exec = units == "exec"
    if ev.waits_for_exec then return true end
    -- The user chose this alternative.
    if i < #there then units[1][1].found.can_be_clock = nil end
    ok, why, code = open_units(self, ev, units)
    if ok or not no_pmu[code] then break end
    first, errno = first or why, errno or code
  end
  return ok, not ok and first or why, not ok and errno or code
end

--- Opens an event of a session. If an optional event fails, logs the failure and leaves it out.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  in three parts
-- @treturn[2] integer errno
function M.open(ev)
  local self = ev.session
  local ok, why, code = open(self, ev)
  if ok then return true end
  ev:close() -- it may have come as far as its filter
  if not ev.decl.spec.optional then return nil, why, code end
  ev.error = why
  self:_log(1, ("left out: %s"):format(why))
  return true
end

--- Passes the counts of events without records to their aggregators.
-- @treturn[1] integer  how many samples these would have been
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.take_counts(session)
  if not session.has_counts then return 0 end
  local n, what, code = session.core:take_counts()
  if not n then return nil, explain.refusal(what, code), code end
  session.delivered = session.delivered + n
  return n
end

--- From here on all events have records: a Lua function that is called for records may see the counts.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.take_records(session)
  for ev in M.each(session.events) do
    local ok, why, code = true, nil, nil
    if ev.only_counts then ok, why, code = take_records(ev) end
    if not ok then return nil, why, code end
  end
  return true
end

--- True if an event must wait for the command's exec.
function M.wait_for_exec(events)
  for _, ev in ipairs(events) do
    if ev.waits_for_exec then return true end
  end
  return false
end

--- Opens and enables the events that waited for the command's exec.
function M.open_at_exec(events)
  for _, ev in ipairs(events) do
    if ev.waits_for_exec then
      local ok, why, code = M.open(ev)
      if not ok then return nil, why, code end
      if not ev.error and not ev.decl.spec.disabled then ok, why, code = ask_core(ev, "enable_event") end
      if not ok then return nil, explain.refusal(why, code), code end
    end
  end
  return true
end

--- Removes the probes of events, whose descriptors are closed.
function M.undo(events)
  for _, ev in ipairs(events) do
    local done, why = true, nil
    if ev.undo then done, why = ev.undo() end
    if not done then ev.session:_log(0, why) end
    if ev.members then M.undo(ev.members) end
  end
end

--- Iterates over the open events of declared events; a declaration with members yields each member.
-- @treturn function  for `for ev in open_event.each(events) do`
function M.each(events)
  return coroutine.wrap(function()
    for _, ev in ipairs(events) do
      for _, one in ipairs(ev.members or { ev }) do
        if one.slot then coroutine.yield(one) end
      end
    end
  end)
end

--- An event of session, not open yet.
-- @tparam session session
-- @tparam table decl       from the declaration's `declare`
-- @tparam[opt] boolean hidden  true if its records are for the session only
function M.new(session, decl, hidden)
  return setmetatable({ name = decl.name, decl = decl, session = session, hidden = hidden }, Event)
end

colon(event_methods, Event, "event", "ev", "enable disable period send_signal filter close")

return M
