--- Counters and groups: events that are counted, not sampled.
-- The C core opens, reads and sums the members on each task and CPU; this file has their names, targets and readings.
-- A reading has both the scaled value and the raw count.

local lazy = require "perfev.base.lazy_module"
local check = require "perfev.base.check"
local colon = require "perfev.base.method_guard"
local core = require "perfev.core"
local event = require "perfev.event.declaration"
local explain = lazy "perfev.event.explain_refusal"
local member = require "perfev.counter.counter_event"
local option_tables = require "perfev.option_tables.counter"
local options = require "perfev.base.options"
local registers = require "perfev.record.registers"
local shown = require "perfev.base.show_value"
local targets = require "perfev.event.target"

local M = {}

local E = core.errno
local TYPE_TRACEPOINT = 2
local without_page = { [1] = true, [2] = true, [5] = true } -- software, tracepoint, breakpoint
-- The errors for which perf stat's stat_handle_error() prints "<not supported>" and counts the other events.
local unsupported = {
  [E.ENOENT] = true, [E.ENODEV] = true, [E.ENXIO] = true, [E.EOPNOTSUPP] = true, [E.EINVAL] = true, [E.ENOSYS] = true,
}
local ALL = -1 -- CPUs
local GROUP, ENABLED, RUNNING = "group", "total_time_enabled", "total_time_running"

local Counter = {}
Counter.__index = Counter
Counter.__name = "perfev.counter"

-- ---- declarations ----

local target_words = { "cgroup", "pid", "tid", "command", "cpus", "all_cpus" }
local result_words = {
  raw = true, counts = true, errors = true, time_enabled = true, time_running = true, running_ratio = true,
}

local is_target = {}
for _, word in ipairs(target_words) do is_target[word] = true end

-- The options of a counter, and of each event in it, with their types.
local types_of_all, types_of_one = check.with_attr_fields(), check.with_attr_fields()
for name, t in pairs(option_tables.counter) do types_of_all[name] = t end
for name, t in pairs(option_tables.counter_event) do types_of_one[name] = t end

local fail = check.fail

-- Checks the table of a counter or of an event in it; the message says if an option belongs to the other table.
local function check_words(spec, types, level)
  for word in next, type(spec) == "table" and spec or {} do
    if types[word] == nil and types_of_one[word] then
      fail(level, "counter: '%s' belongs to one event\n  try: { { \"EVENT\", %s = ... } }", word, word)
    elseif types[word] == nil and types_of_all[word] then
      fail(level, "counter: '%s' belongs to all events\n  try: it beside the events, outside of their tables", word)
    end
  end
  local taken = check.take("counter", spec, types, level + 1)
  return taken
end

local function check_member(spec, level)
  if type(spec) == "string" then return { spec } end
  spec = check_words(spec, types_of_one, level + 1)
  if spec[2] then fail(level, "counter: one event has one event string, not %d", #spec) end
  if spec[1] == nil and spec.type == nil then
    fail(level, "counter: an event string, or type= and config=, is needed")
  end
  return spec
end

local function name_of(spec)
  return spec.name or spec[1] or ("{type=%s, config=%s}"):format(spec.type, spec.config or 0)
end

local function check_name(self, name, level)
  if result_words[name] then
    fail(level, "counter: '%s' is the name of a reading's field; give the event another with name =", name)
  end
  if self.by_name[name] and not self.by_name[name].closed then
    fail(level, "counter: '%s' is there already; give one of the two another name with name =", name)
  end
end

local function check_targets(spec, level)
  local asked = {}
  for _, word in ipairs(target_words) do
    if word ~= "cgroup" then asked[word] = spec[word] end
  end
  if spec.cgroup and (spec.pid or spec.tid or spec.command) then
    fail(level, "counter: cgroup and processes at once\n  a cgroup is a target by itself")
  end
  local read, why = options.read(asked, {})
  if not read then fail(level, "counter: %s", why) end
  if spec.cgroup then read.cgroup = spec.cgroup end
  return next(asked) ~= nil and read or spec.cgroup and { cgroup = spec.cgroup } or nil
end

-- ---- opening ----

local function default_format(self)
  local format = { ENABLED, RUNNING }
  if self.grouped then
    format[3], format[4] = GROUP, "id"
  end
  if self.spec.lost then format[#format + 1] = "lost" end
  return format
end

-- Resolves the event string of m, unless expand() has done so -> found | nil, message, errno
local function find(m)
  local spec = m.spec
  if m.found then return m.found end
  if not spec[1] then return { type = spec.type, config = spec.config or 0 } end
  local found, why, code = event.resolve(spec[1], spec)
  if found and found.tool then
    return nil, ("event '%s': not an event, but a value that perf stat measures itself\n"
      .. "  try: task-clock, or the script stat"):format(spec[1]), E.ENOENT
  end
  return found, why, code
end

-- -> attr, the resolved event | nil, message, errno
local function attr_for(self, m, first)
  local spec = m.spec
  local found, why, code = find(m)
  if not found then return nil, why, code end
  local fields, target = {}, self.target
  if found.is_uncore and targets.is_tasks(target) then
    return nil, ("event '%s': the PMU %s counts for whole CPUs and cannot distinguish tasks\n"
      .. "  try: all_cpus, or cpus = (perfl -a, -C)"):format(m.name, found.pmu), E.EINVAL
  end
  fields.type, fields.config = found.type, found.config
  for name, value in pairs(found.fields or {}) do fields[name] = value end
  for name, value in pairs(found.exclude or {}) do fields[name] = value end
  fields.inherit = targets.is_tasks(target)
  fields.read_format = default_format(self)
  for _, words in ipairs { self.spec, event.settle(spec, found.words or {}, true) } do
    for name, value in pairs(words) do
      -- `cgroup` of a counter is a target; `cgroup` of an event is the attr field.
      if core.is_attr_field(name) and (words ~= self.spec or not is_target[name]) then fields[name] = value end
    end
  end
  fields.sample_period = spec.period or fields.sample_period
  -- Only the leader starts disabled: an enabled member counts when its leader does.
  fields.disabled = first or not self.grouped
  if target.on_exec and fields.disabled and not self.spec.disabled then fields.enable_on_exec = true end
  local ok, attr = pcall(registers.attr, fields)
  if not ok then return nil, ("event '%s': %s"):format(name_of(spec), attr), E.EINVAL end
  m.scale, m.unit = found.scale, found.unit
  return attr, found
end

local function refuse(self, attr, what, code, failed)
  local target = self.target
  return nil, explain.refusal(what, code, failed, {
    attr = attr, is_tracepoint = attr.type == TYPE_TRACEPOINT and attr.sample_type ~= 0,
    cpu_wide = not targets.is_tasks(target), pid = target.pids[1], cpu = target.cpus[1],
    cgroup = target.cgroup and (type(target.cgroup) == "string" and target.cgroup or "the cgroup") or nil,
    events = #self.list, cpus = #target.cpus, threads = #target.pids,
    group = self.grouped and self.core_members > 0 and self.list[1].name or nil,
  }), code
end

local function fixed_exclude(self, spec, found)
  return spec.exclude_kernel ~= nil or self.spec.exclude_kernel ~= nil or next(found.exclude or {}) ~= nil
end

-- Maps the user page, which works only for a hardware event of the calling thread (ABI of perf_mmap()).
local function map_page(self, number, attr)
  if self.spec.page == false or attr.inherit or without_page[attr.type]
    or not targets.is_calling_thread(self.target) then
    return
  end
  self.core:map(number) -- where it cannot be, read(2) does as well
end

-- A counter of a variable needs one address, known when it is opened.
local function set_address(m, attr, places)
  if places == "exec" or #places > 1 then
    return nil, ("event '%s': a counter has one address, and %s\n  try: an event with sample = function, or one process"
      .. " that runs"):format(m.name, places == "exec" and "a command's is not known before it runs"
      or "the processes have it at several"), E.EINVAL
  end
  attr.bp_addr = places[1].address
  return true
end

local function log(self, level, text)
  local to = self.spec.log or self.session and self.session.opts.log
  if to then to(level, text) end
end

-- Prepares the probe in tracefs or the address in a process that an event needs.
local function bind(self, m, attr, found)
  local target = self.target
  local watcher = {
    opts = targets.is_tasks(target) and { pid = target.pids } or {}, target = target,
    child = self.child or self.session and self.session.child,
    _log = function(_, level, text) log(self, level, text) end,
  }
  if found.find_addresses then
    local places, why, code = found.find_addresses(watcher)
    if not places then return nil, why, code end
    return set_address(m, attr, places)
  elseif found.bind then
    local built = { attr = attr, found = found }
    local owner = { session = { core = { abandon = function() if self.core then self.core:close() end end } } }
    local ok, why, code = found.bind(watcher, built, owner)
    if not ok then return nil, why, code end
    m.undo, m.owner = built.undo, owner
    if built.no_inherit then
      attr.inherit = false
      watcher:_log(0, built.to_note)
    end
  end
  return true
end

local function open_member(self, m)
  local first, spec = self.core_members == 0, m.spec
  local attr, found, code = attr_for(self, m, first)
  if not attr then return nil, found, code end
  local bound, why, wrong = bind(self, m, attr, found)
  if not bound then return nil, why, wrong end
  local places = found.cpus and { cpus = found.cpus } or nil
  local number, what, errno, failed = self.core:add(attr, m.name, places)
  if not number and errno == E.EINVAL and found.guest_default and spec.exclude_guest == nil then
    attr.exclude_guest = false -- a PMU that cannot exclude anything (PERF_PMU_CAP_NO_EXCLUDE)
    number, what, errno, failed = self.core:add(attr, m.name, places)
    if not number then attr.exclude_guest = true end
  end
  local user_only
  if not number and errno == E.EACCES and targets.is_tasks(self.target) and not attr.exclude_kernel
    and not fixed_exclude(self, spec, found) then
    -- As perf does: count user mode only, and report it.
    attr.exclude_kernel, user_only = true, true
    number, what, errno, failed = self.core:add(attr, m.name, places)
  end
  if not number then return refuse(self, attr, what, errno, failed) end
  self.core_members = self.core_members + 1
  map_page(self, number, attr)
  return number, user_only, self.core:attr(number)
end

-- True if the counter may be opened without a refused member. It may not without the leader of a group (as in perf),
-- nor if a weak group can be opened one by one.
local function can_be_without(self, m, code)
  local optional = m.spec.optional
  if not optional then return false end
  local leads = self.core_members == 0 and #self.list > 1
  if code == E.EINVAL and self.grouped and (self.weak or leads) then return false end
  return optional ~= "unsupported" or unsupported[code] == true
end

-- Opens the member m and sets its filter -> true | nil, message, errno
local function open(self, m)
  local number, user_only, attr = open_member(self, m)
  if not number then
    if not can_be_without(self, m, attr) then return nil, user_only, attr end
    m.error = user_only
    log(self, attr == E.EINVAL and 0 or 1, "left out: " .. user_only) -- the user can correct EINVAL
    return true
  end
  m.number, m.attr, m.open, m.user_only = number, attr, true, user_only or nil
  if user_only then log(self, 0, explain.user_only(m.name)) end
  if m.spec.filter then return m:filter(m.spec.filter) end
  return true
end

local function new_member(self, spec)
  local m = member.new(self, name_of(spec), spec)
  self.list[#self.list + 1] = m
  self.by_name[m.name] = m
  return m
end

local function give_back(self)
  if self.core then self.core:close() end
  if self.child then self.child:close() end -- in a forked process: without a word to the parent's
  self.core, self.child = nil, nil
  for _, m in ipairs(self.list) do
    m.open = false
    if m.undo then m.undo() end
  end
end

-- Expands a string of several events: a list, a pattern, an event for each kind of CPU. A group in braces must be the
-- only string of its counter.
local function expand(self, m)
  local many = self.spec.many or self.session and self.session.opts.many
  m.spec.many = many
  local units = m.spec[1] and not m.found and event.units(m.spec[1], m.spec)
  if not units then return { m } end -- reported when it is opened
  local list, seen = {}, {}
  for _, unit in ipairs(units) do
    if unit.pattern then log(self, 0, event.told_of_pattern(unit.pattern, unit)) end
    local ok, why, code = event.check_many(m.name, seen, unit, many)
    if not ok then return nil, why, code end
    self.weak = self.weak or unit.grouped and unit.weak
    for _, found in ipairs(unit) do
      local one = m
      if #unit > 1 or #units > 1 or unit.pattern then
        one = member.new(self, found.name, m.spec)
        one.hidden = m.hidden
      end
      one.name = not m.spec.name and found.words.name or one.name
      one.found, one.tool = not found.tool and found or nil, found.tool
      list[#list + 1] = one
    end
  end
  return list
end

local function expand_all(self)
  local list = {}
  for _, m in ipairs(self.list) do
    local some, why, code = expand(self, m)
    if not some then return nil, why, code end
    for _, one in ipairs(some) do
      list[#list + 1] = one
      self.by_name[one.name] = one
    end
  end
  self.list = list
  return true
end

-- True if all events are optional: a machine without these events reports each as not supported.
local function may_be_empty(self)
  for _, m in ipairs(self.list) do
    if m.spec.optional ~= "unsupported" then return false end
  end
  return true
end

local function open_together(self)
  local what, code
  self.core, what, code = core.counter {
    pids = self.target.pids, cpus = self.target.cpus, grouped = self.grouped, cgroup = self.target.cgroup,
  }
  if not self.core then return nil, explain.refusal(what, code), code end
  self.core_members = 0
  for _, m in ipairs(self.list) do
    local ok, why, failed = open(self, m)
    if not ok then return nil, why, failed end
  end
  if self.core_members == 0 and not may_be_empty(self) then
    return nil, "counter: none of its events exists\n  " .. (self.list[1].error or ""), E.ENOENT
  end
  return true
end

local function open_all(self)
  local ok, why, code = expand_all(self)
  if not ok then return nil, why, code end
  ok, why, code = open_together(self)
  if ok or not (self.weak and self.grouped) then return ok, why, code end
  -- ":W": a group if its PMU can hold it, else one by one.
  if self.core then self.core:close() end
  self.grouped = false
  return open_together(self)
end

-- Opens a counter with its own target and starts it.
local function open_own(self, opts)
  core.raise_nofile()
  local why, code, ok
  self.target, why, code = targets.find(self, opts, "count")
  if not self.target then return nil, why, code end
  ok, why, code = open_all(self)
  if ok and not self.spec.disabled and not self.target.on_exec then ok, why, code = self:enable() end
  if ok then return true end
  give_back(self)
  return nil, why, code
end

local function declare(spec, grouped, level)
  spec = check_words(spec, types_of_all, level + 1)
  local self = setmetatable({ spec = spec, grouped = grouped, list = {}, by_name = {} }, Counter)
  if #spec == 0 then fail(level, "counter: no event is named; an event string or more come first") end
  local first = type(spec[1]) == "table" and spec[1][1] or spec[1]
  if #spec == 1 and not spec.leader and type(first) == "string" and event.is_group(first) then self.grouped = true end
  if spec.leader ~= nil then
    if not grouped then fail(level, "counter: leader is an option of a group") end
    new_member(self, { spec.leader, name = "leader " .. tostring(spec.leader) }).hidden = true
  end
  for i = 1, #spec do
    local checked = check_member(spec[i], level + 1)
    check_name(self, name_of(checked), level + 1)
    new_member(self, checked)
  end
  return self
end

--- Opens a counter or a group.
-- @tparam table spec      as `perfev.counter` takes it
-- @tparam boolean grouped  all members are on the PMU at the same time and are read together
-- @tparam integer level   of the caller, for `error`
-- @tparam[opt] session s  count the targets of this session, from its start to its end
-- @treturn[1] counter
-- @treturn[2] nil
-- @treturn[2] string      in three parts
-- @treturn[2] integer errno
function M.new(spec, grouped, level, s)
  local self = declare(spec, grouped, level + 1)
  local opts = check_targets(self.spec, level + 1)
  if s and opts then fail(level, "counter: a session's counter has the session's targets") end
  -- Under perfl the command line chooses the targets.
  if not s and not opts and M.default_session then s = M.default_session() end
  if s then return M.join(self, s, level) end
  local ok, why, code = open_own(self, opts or { pid = { 0 } })
  if not ok then return nil, why, code end
  return self
end

-- ---- in a session ----

--- Adds the counter to a session, which opens it at its start and closes it at its end.
function M.join(self, s, level)
  if s.finished then fail(level, "session: it has ended; make a new one") end
  self.session = s
  s.counters[#s.counters + 1] = self
  if not s.core then return self end
  if s.replay then return s.replay:refuse_counter() end
  local ok, why, code = self:_open()
  if ok and s.running then ok, why, code = self:_start_counting() end
  if not ok then return nil, why, code end
  return self
end

-- Called by the session when its targets are known.
function Counter:_open()
  self.target = targets.of_session(self.session)
  local ok, why, code = open_all(self)
  if ok then return true end
  give_back(self)
  return nil, why, code
end

-- Called by the session when it starts.
function Counter:_start_counting()
  if self.target.on_exec or self.spec.disabled then return true end
  return self:enable()
end

-- Called by the session when it ends; the counts stay readable.
function Counter:_finish()
  if not self.core then return end
  if not self.core:is_ours() then return give_back(self) end
  self.core:switch(nil, "DISABLE", self.grouped)
  local last = { [ALL] = table.pack(self:read()) }
  for _, cpu in ipairs(self:cpus()) do last[cpu] = table.pack(self:read(cpu)) end
  self.last = last
  give_back(self)
end

-- ---- the command ----

--- Starts the command; the counter counts from its exec.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function Counter:start()
  if not self.child then error("counter: it has no command to start", 2) end
  self.let_go = true
  local ok, what, code = self.child:release()
  if ok then return true end
  self.command_status = { exit = code == E.ENOENT and 127 or 126 }
  return nil, explain.command(what, code, self.spec.command[1]), code
end

--- Waits for the end of the command -> { exit = n } or { signal = n }.
function Counter:wait()
  if not self.child then error("counter: it has no command to wait for", 2) end
  if not self.let_go then error("counter: its command is held yet, and would be waited for in vain; start() it", 2) end
  self.command_status = self.command_status or self.child:reap(true)
  return self.command_status
end

--- Starts the command and waits for its end.
-- @treturn[1] table  { exit = n } or { signal = n }
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function Counter:run()
  if not self.child then error("counter: it has no command to run", 2) end
  local ok, why, code = self:start()
  if not ok then return nil, why, code end
  return self:wait()
end

-- ---- reading ----

-- For a task on chosen CPUs, time_enabled also grows while the task runs on another CPU: the ratio is unknown.
local function ratio(self, count)
  local enabled, running = count.time_enabled, count.time_running
  if not enabled or not running or enabled == 0 then return nil end
  if targets.is_tasks(self.target) and self.target.cpus[1] >= 0 then return nil end
  return running / enabled
end

local function error_text(m)
  return ("%s: pinned, in error state: the kernel could not keep it on the PMU, and counts it no longer\n"
    .. "  something else holds the counters it needs\n  try: enable() again, fewer events, or without pinned"):format(
    m.name)
end

-- The times of a reading are those of the member that ran the smallest share of the time.
local function note_times(r, count)
  local own = count.running_ratio
  if own and (not r.running_ratio or own < r.running_ratio) or not r.time_enabled then
    r.time_enabled, r.time_running, r.running_ratio = count.time_enabled, count.time_running, own
  end
end

local function reading(self, sums)
  local r = { raw = {}, counts = {} }
  for _, m in ipairs(self.list) do
    local count = m.open and not m.hidden and sums[m.number]
    if count then
      if count.failed then
        r.errors = r.errors or {}
        r.errors[m.name] = error_text(m)
        count.raw, count.value = nil, nil
      elseif count.absent then
        count.raw, count.value = nil, nil
      end
      count.running_ratio = ratio(self, count)
      r[m.name], r.raw[m.name], r.counts[m.name] = count.value, count.raw, count
      note_times(r, count)
    end
  end
  return r
end

local function not_open(self)
  local why = self.session and not self.session.started and "its session has not started" or "it is closed"
  return nil, "counter: " .. why, E.EBADF
end

-- The CPUs that the counter was opened on; empty if it counts tasks on every CPU.
local function cpus_of(self)
  local cpus = self.target and self.target.cpus or {}
  return cpus[1] == ALL and {} or cpus
end

-- Checks a CPU argument -> its number, or ALL for nil
local function check_cpu(self, cpu, verb)
  if cpu == nil then return ALL end
  local cpus = cpus_of(self)
  for _, one in ipairs(cpus) do
    if math.type(cpu) == "integer" and one == cpu then return cpu end
  end
  if not self.target then return ALL end -- this raises: the counter is not open
  fail(3, "%s: it does not count on cpu %s by itself\n  try: %s", verb, shown(cpu),
    #cpus > 0 and "one of " .. table.concat(cpus, ", ") or "all_cpus or cpus, where it is made")
end

local function take(self, delta, cpu)
  if not self.core then return not_open(self) end
  local sums, what, code = self.core:read(delta, cpu)
  if not sums then return nil, explain.refusal(what, code), code end
  return reading(self, sums)
end

--- The CPUs with counts of their own.
-- @treturn {integer,...}  empty if the counter counts tasks on every CPU, and before it is open
function Counter:cpus() return table.move(cpus_of(self), 1, #cpus_of(self), 1, {}) end

--- All counts since the opening.
-- @tparam[opt] integer cpu  the counts of this CPU only: one of `cpus`
-- @treturn[1] table  by name: the value scaled to the enabled time, `nil` if the event was enabled but never ran.
--   `raw`: the counts without scaling. `time_enabled`, `time_running`, `running_ratio`: of the member that ran
--   least. `counts`: by name { value, raw, time_enabled, time_running, running_ratio, lost, silent }.
--   `errors`: by name, of pinned events in error state.
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function Counter:read(cpu)
  cpu = check_cpu(self, cpu, "read")
  if self.last then return table.unpack(self.last[cpu], 1, 3) end
  return take(self, false, cpu)
end

--- The counts since the last delta() (at first: since the opening); the scaling uses the times of this delta.
function Counter:delta(cpu)
  return take(self, true, check_cpu(self, cpu, "delta"))
end

--- Counts while f runs -> f's results, and last the counts.
-- The counter is disabled afterwards, even if it was enabled before.
function Counter:measure(f, ...)
  local opened, grouped = self.core, self.grouped
  if type(f) ~= "function" then error("measure: a function expected, not a " .. type(f), 2) end
  if not opened then return not_open(self) end
  local ok, what, code = opened:read(true, ALL)
  if not ok then return nil, explain.refusal(what, code), code end
  local switch = opened.switch
  ok, what, code = switch(opened, nil, "ENABLE", grouped)
  if not ok then return nil, explain.refusal("cannot enable: " .. what, code), code end
  local results = table.pack(pcall(f, ...))
  if self.core then switch(opened, nil, "DISABLE", grouped) end
  if not results[1] then error(results[2], 0) end
  local counts, why, failed = self:delta()
  if not counts then return nil, why, failed end
  results[results.n + 1] = counts
  return table.unpack(results, 2, results.n + 1)
end

-- ---- switching ----

local verbs = { ENABLE = "enable", DISABLE = "disable", RESET = "reset" }

local function no_member(self, name, level)
  fail(level + 1, "counter: it has no event '%s'%s", shown(name), check.hint(name, self:names()))
end

local function switch(self, request, name, whole)
  if not self.core then return not_open(self) end
  local m
  if name ~= nil then
    m = self.by_name[name]
    if not m then no_member(self, name, 2) end
    if not m.open then return nil, ("%s: it is closed"):format(m.name), E.EBADF end
  end
  if whole == nil then whole = self.grouped and not m end
  local ok, _, code = self.core:switch(m and m.number, request, whole)
  if ok then return true end
  return nil, explain.refusal(("cannot %s %s"):format(verbs[request], m and m.name or "the counter"), code), code
end

--- Enables or disables counting, or sets the counts (not the times) to zero.
-- Without a name for all events; a group in one call (PERF_IOC_FLAG_GROUP).
-- @tparam[opt] string name    only this event
-- @tparam[opt] boolean whole  true: use the flag; false: one call per event
-- @treturn true | nil, message, errno
function Counter:enable(name, whole) return switch(self, "ENABLE", name, whole) end
function Counter:disable(name, whole) return switch(self, "DISABLE", name, whole) end
function Counter:reset(name, whole) return switch(self, "RESET", name, whole) end

-- ---- members ----

--- One of the counter's events, by name; the name may be omitted if the counter has one event.
-- @treturn member
function Counter:member(name)
  if name == nil then
    if #self.list > 1 then error("counter: it has several events; member(name) gives one", 2) end
    return self.list[1]
  end
  return self.by_name[name] or no_member(self, name, 2)
end

--- The names of the open events, in the order they were added.
function Counter:names()
  local names = {}
  for _, m in ipairs(self.list) do
    if m.open and not m.hidden then names[#names + 1] = m.name end
  end
  return names
end

--- Its events in the order they were added, also those that were left out.
-- @treturn {table,...}  `name`; `unit`, `scale`: of a PMU's event; `error`: why it was left out; `user_only`: true if
--   its kernel part is not counted, for want of a right; `cpus`: the only CPUs that count it; `per_core`: true with the
--   term percore; `tool`: its name if perf stat measures it itself, as duration_time
function Counter:events()
  local events = {}
  for _, m in ipairs(self.list) do
    local found = m.found or {}
    if not m.hidden then
      events[#events + 1] = {
        name = m.name, unit = m.unit, scale = m.scale, error = m.error, user_only = m.user_only, tool = m.tool,
        cpus = found.cpus and { table.unpack(found.cpus) }, per_core = found.words and found.words.percore,
      }
    end
  end
  return events
end

-- Refuses to add a string of several events: a list, a pattern, an event for each kind of CPU.
local function check_single(m)
  local names = {}
  for _, unit in ipairs(m.spec[1] and event.units(m.spec[1], m.spec) or {}) do
    for _, found in ipairs(unit) do names[#names + 1] = found.name end
  end
  if #names < 2 then return true end -- reported when it is opened
  return nil, ("event '%s': several events, but add() takes one\n  they are %s%s\n  try: add() for each of them")
    :format(m.name, table.concat(names, ", ", 1, math.min(2, #names)), #names > 2 and ", ..." or ""), E.EINVAL
end

--- Adds an event to an open counter; it counts at once unless the counter was opened `disabled`.
-- @tparam string|table spec  as one of perfev.counter's
-- @treturn[1] member
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function Counter:add(spec)
  spec = check_member(spec, 3)
  check_name(self, name_of(spec), 3)
  if not self.core then return not_open(self) end
  local m = new_member(self, spec)
  local ok, why, code = check_single(m)
  if ok then ok, why, code = open(self, m) end
  if ok and m.open and not self.grouped and not self.spec.disabled then ok, why, code = m:enable() end
  if ok then return m end
  m:close()
  table.remove(self.list)
  self.by_name[m.name] = nil
  return nil, why, code
end

--- Closes the counter, or only one of its events.
function Counter:close(name)
  if name ~= nil then return (self.by_name[name] or no_member(self, name, 2)):close() end
  give_back(self)
end
Counter.__close = function(self) give_back(self) end
Counter.__tostring = function(self)
  local names = {}
  for _, m in ipairs(self.list) do
    if not m.closed and not m.hidden then names[#names + 1] = m.name end
  end
  return (self.grouped and "group " or "counter ") .. table.concat(names, ",")
end

-- ---- measuring a function ----

--- Counts the events of the calling thread while f runs.
-- @tparam table events  as perfev.counter's, without targets
-- @tparam function f
-- @param ...            f's arguments
-- @return f's results, and last the counts, as `read` gives them | nil, message, errno, and f was not called
function M.measure(events, f, ...)
  if type(f) ~= "function" then error("measure: a function expected, not a " .. type(f), 2) end
  if type(events) ~= "table" then error("measure: a list of events expected, not a " .. type(events), 2) end
  local spec = { tid = 0, inherit = false }
  for word, value in pairs(events) do
    if is_target[word] then error("measure: it is the calling thread that is measured; no " .. word, 2) end
    spec[word] = value
  end
  spec.disabled = true
  -- prctl(2) switches all events at once; events that do not fit on the PMU together are multiplexed.
  local c, why, code = M.new(spec, true, 3)
  if not c and code == E.EINVAL then c, why, code = M.new(spec, false, 3) end
  if not c then return nil, why, code end
  local _ <close> = c
  return c:measure(f, ...)
end

-- Switches all events that this process opened, for any target (prctl(2)).
local function task_switch(on)
  local ok, what, code = core.task_switch(on)
  if ok then return true end
  return nil, explain.refusal(what, code), code
end

--- Enables or disables all events that the calling process opened, at once.
-- @treturn true | nil, message, errno
function M.task_enable() return task_switch(true) end
function M.task_disable() return task_switch(false) end

colon(Counter, Counter, "counter", "c", [[read delta cpus measure enable disable reset add member names start wait run
  close]])

return M
