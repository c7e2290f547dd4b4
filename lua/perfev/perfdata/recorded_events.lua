--- Opens a recording for a session, and finds its events for the declared ones.
-- From there on the core's session delivers its records as those of the rings (src/engine/next_record.c).

local core = require "perfev.core"
local event = require "perfev.event.declaration"
local glob = require "perfev.base.glob"
local grammar = require "perfev.event.grammar"
local names = require "perfev.event.perf_names"
local opened = require "perfev.event.open_event"
local options = require "perfev.base.options"
local private = require "perfev.perfdata.perfl_section"
local recording = require "perfev.perfdata.reader"
local resolve = require "perfev.event.resolve"
local selection = require "perfev.perfdata.replay_filter"

local M = {}

local RecordedEvents = {}
RecordedEvents.__index = RecordedEvents

local E = core.errno

local NOTES_MAX = 10

-- Logs problems of a recording; after the first NOTES_MAX texts at level 1, because there may be millions.
local function logger(session, shown)
  local nr = 0
  return function(level, text)
    if level > 0 then return session:_log(level, ("%s: %s"):format(shown, text)) end
    nr = nr + 1
    session:_log(nr > NOTES_MAX and 1 or 0, ("%s: %s"):format(shown, text))
    if nr == NOTES_MAX + 1 then session:_log(0, shown .. ": more such messages follow: -v prints them") end
  end
end

local function no_counters(shown)
  return nil, ("counter: %s is a recording\n  counters are read from the kernel while it counts"
    .. "\n  try: without the input, or an event with a sample callback"):format(shown), E.EINVAL
end

--- Opens the session's input.
-- @tparam session session
-- @tparam table handlers  `on_error`, `max_bytes`, as of the core's session
-- @treturn[1] table  `core`: the core's session, `rec`: the recording, `shown`: its name in messages
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.open(session, handlers)
  local input = session.opts.input
  local shown = input == "-" and "standard input" or input
  if #session.counters > 0 then return no_counters(shown) end
  local rec, what, code = recording.open(input, {
    ordered = session.opts.ordered ~= false,
    log = logger(session, shown),
  })
  if not rec then
    return nil, ("cannot open the recording %s\n  try: %s"):format(what, recording.remedy(input, code)), code
  end
  rec.world.max_bytes = handlers.max_bytes
  local self = setmetatable({ session = session, rec = rec, shown = shown, listeners = {}, carriers = {}, forms = {},
    declarations = 0 }, RecordedEvents)
  local wanted
  wanted, what, code = selection.of(rec, session.opts, shown)
  if not wanted then
    rec:close()
    return nil, what, code
  end
  self.core, what, code = core.session {
    reader = rec.file, wanted = wanted, on_error = handlers.on_error, max_bytes = handlers.max_bytes,
    news = function()
      rec:_read_events()
      self:number_events()
    end,
  }
  if not self.core then
    rec:close()
    return nil, what, code
  end
  self:number_events()
  return self
end

--- Reads the recording's events and their payload formats. A pipe may announce more events later.
function RecordedEvents:number_events()
  self.nr = {}
  for i, recorded in ipairs(self.rec.events) do self.nr[recorded] = i end
  self.session.machine = self.rec.header.arch
  self.core:know("registers", self.rec.registers)
  self.core:know("world", self.rec.world)
  local wall_offsets, data = { [options.REALTIME] = 0 }, self.rec.header.clock_data
  if type(data) == "table" then wall_offsets[data.clockid] = data.wall - data.clock end
  self.core:know("wall_offsets", wall_offsets)
  self:read_private()
  for _, listener in ipairs(self.listeners) do self:give_payload(listener) end
end

-- Leaves out the records that the recording session did not deliver.
function RecordedEvents:read_private()
  local said = private.read(self.rec:section(private.SECTION), self.rec.facts.big)
  self.core:exclude(said.exclude_pid or 0)
  self.core:lost_own(said.lost_own)
  for _, n in ipairs(said.keep_own) do
    if self.rec.events[n] then self.core:keep(n) end
  end
  -- The event that a session adds for the names of tasks does not belong to a declaration.
  for _, n in ipairs(said.hidden) do
    if self.rec.events[n] then self.carriers[self.rec.events[n]] = true end
  end
end

function RecordedEvents:give_payload(listener)
  local payload = listener.recorded and self.rec.payloads[self.nr[listener.recorded]]
  if payload then self.core:payload(listener.ev.slot, payload) end
end

-- ---- the file's events and the declared ones ----

local MODIFIERS = "[ukhGHIpPSDWeb]+"
local CONFIG = 0xffffffff -- PERF_HW_EVENT_MASK: above is which PMU of several kinds of cores (5.13)

-- "cycles:u" -> "cycles"; "cpu_core/cycles/P", and as perf up to 5.18 has it "cpu_core/cycles:P/" -> "cpu_core/cycles/"
local function without_modifiers(name)
  local of_pmu = name:match("^([^:/]+/.*/)" .. MODIFIERS .. "$")
  local inside = name:match("^([^:/]+/.*):" .. MODIFIERS .. "/$")
  return of_pmu or inside and inside .. "/" or name:match("^(.+):" .. MODIFIERS .. "$") or name
end

-- Returns a recorded event's name without modifiers: "sched:sched_switch:u" -> "sched:sched_switch"
local function plain_name(recorded)
  local name = recorded.name or ""
  if recorded.attr.type == names.TYPE.tracepoint then return name:match("^([^:]+:[^:]+)") or name end
  return without_modifiers(name)
end

-- True if perf's name means the recorded event: cs is context-switches, and cycles is also each core PMU's cycles.
local function is_alias(leaf, recorded)
  local there, type = leaf.kind == "name" and names.find(leaf.name), recorded.attr.type
  if not there or there.tool or there.type ~= type then return false end
  local has_cores = type == names.TYPE.hardware or type == names.TYPE.cache
  return there.config == recorded.attr.config & (has_cores and CONFIG or -1)
end

local function full_name(leaf)
  if leaf.kind == "tracepoint" then return leaf.system .. ":" .. leaf.name end
  if leaf.kind == "name" or leaf.kind == "raw" then return leaf.name end
  return leaf.kind == "pmu" and without_modifiers(leaf.text) or leaf.text
end

local function is_meant(leaf, recorded)
  local plain, name = plain_name(recorded), full_name(leaf)
  if leaf.glob then return glob.matcher(name)(plain) end
  return plain == name or recorded.name == leaf.text or is_alias(leaf, recorded)
end

-- Modifiers are compared only if several events have the name.
local function find_leaf(leaf, events)
  local found, exact = {}, {}
  for _, recorded in ipairs(events) do
    if is_meant(leaf, recorded) then
      found[#found + 1] = recorded
      if recorded.name == leaf.text then exact[#exact + 1] = recorded end
    end
  end
  if not leaf.glob and #found > 1 and #exact > 0 then found = exact end
  for i, recorded in ipairs(found) do
    found[i] = { recorded = recorded, name = leaf.glob and plain_name(recorded) or leaf.text,
                 of_pattern = leaf.glob, modifiers = leaf.modifiers, words = resolve.words(leaf) }
  end
  return found
end

-- Finds the events of one alternative -> list of found, the first missing name
local function find_list(units, events)
  local all, missing = {}, nil
  for _, unit in ipairs(units) do
    for _, leaf in ipairs(unit.group and unit or { unit }) do
      local found = find_leaf(leaf, events)
      if #found == 0 then missing = missing or leaf.text end
      table.move(found, 1, #found, #all + 1, all)
    end
  end
  return all, missing
end

local function find_by_number(spec, events)
  local found = {}
  for _, recorded in ipairs(events) do
    if recorded.attr.type == spec.type and recorded.attr.config == (spec.config or 0) then
      found[#found + 1] = { recorded = recorded }
    end
  end
  return found
end

local COUNTED = { [names.TYPE.software] = { [names.DUMMY] = true } } -- events without samples

-- Returns all events that can have samples.
local function find_every(self)
  local found = {}
  for _, recorded in ipairs(self.rec.events) do
    local attr = recorded.attr
    local has_none = (COUNTED[attr.type] or {})[attr.config]
    if not has_none and not self.carriers[recorded] then
      found[#found + 1] = { recorded = recorded, name = recorded.name, of_pattern = true }
    end
  end
  return found
end

-- Returns the events with exactly this name, even if it does not parse as an event.
local function find_named(name, events)
  local found = {}
  for _, recorded in ipairs(events) do
    if recorded.name == name then found[#found + 1] = { recorded = recorded, name = name } end
  end
  return found
end

local function is_every(units)
  return #units == 1 and units[1].text == "*"
end

local CLOCK = { kind = "name", name = "cpu-clock", text = "cpu-clock", terms = {} }

-- perf and perfev record cpu-clock if a machine cannot count cycles.
local function find_clock(tree, events)
  local leaf = #tree == 1 and #tree[1] == 1 and tree[1][1]
  local there = leaf and leaf.kind == "name" and names.find(leaf.name)
  if there and there.type == names.TYPE.hardware and there.config == names.CPU_CYCLES then
    return find_leaf(CLOCK, events)
  end
  return {}
end

local function find(self, decl)
  local events = self.rec.events
  local text = event.text_of(decl, self.session.opts.events) or decl.text
  if not text then return find_by_number(decl.spec, events) end
  local named = find_named(text, events)
  local tree, wrong = grammar.parse(text)
  if not tree and #named == 0 then return nil, wrong, E.EINVAL end
  if #named > 0 then
    for _, one in ipairs(named) do one.words = tree and #tree == 1 and resolve.words(tree[1][1]) or nil end
    return named
  end
  local some, missing -- the first alternative with missing events
  for _, units in ipairs(tree) do
    if is_every(units) then return find_every(self) end
    local found, lacks = find_list(units, events)
    if not lacks then return found end
    some, missing = some or #found > 0 and found or nil, missing or lacks
  end
  if some then return some, missing end
  local clock = find_clock(tree, events)
  if #clock > 0 then
    self.session:_log(0, ("%s: the recording has cpu-clock instead"):format(decl.name))
    return clock
  end
  return {}, missing
end

-- ---- differences between the declaration and the recording ----

local CALLCHAIN, READ, RAW = 1 << 5, 1 << 4, 1 << 10 -- PERF_SAMPLE_*
local GROUP, ID = 1 << 3, 1 << 2 -- PERF_FORMAT_*

local function has_chains(recorded) return recorded.attr.sample_type & CALLCHAIN ~= 0 end

-- Gives stacks the frames that the event would have live, without the excluded side. Without recorded chains a stack
-- is the sample's address. If two declarations of one event exclude different frames, both get all frames.
local function shape_stacks(self, decl, one)
  local spec, recorded = event.settle(decl.spec, one.words or {}), one.recorded
  if not spec.callchain then return end
  local form = { no_user = spec.exclude_callchain_user, no_kernel = spec.exclude_callchain_kernel }
  local other = self.forms[recorded]
  if other and (other.no_user ~= form.no_user or other.no_kernel ~= form.no_kernel) then
    self.session:_log(0, ("%s: two declarations exclude different frames: both get all frames"):format(decl.name))
    form = {}
  end
  self.forms[recorded] = form
  form.of_ip = not has_chains(recorded)
  self.core:stacks(self.nr[recorded], form)
  if not form.of_ip or other or spec.sample_max_stack == 1 then return end
  self.session:_log(0, ("%s: recorded without call chains: a stack is its first frame alone\n  try: perf record -g")
    :format(recorded.name))
end

-- Returns the event whose samples have the counts of its group.
local function leader_of(self)
  for _, recorded in ipairs(self.rec.events) do
    local attr = recorded.attr
    if attr.read_format & GROUP ~= 0 and (attr.freq or attr.sample_period ~= 0) then return recorded end
  end
end

-- True if a leader's samples are delivered to the events of its group, too: pev_groupread_splits().
local function is_split(leader)
  local attr = leader.attr
  return attr.sample_type & (READ | RAW) == READ and attr.read_format & ID ~= 0
end

-- Reports an event that was counted without samples: its callback would never be called.
local function note_counted(self, decl, found)
  if not (decl.callbacks.sample or decl.callbacks.record) then return end
  for _, one in ipairs(found) do
    local attr = one.recorded.attr
    if attr.freq or attr.sample_period ~= 0 then return end
  end
  local leader, by_stat = leader_of(self), self.rec.sections.stat
  if not leader and not by_stat or leader and is_split(leader) then return end
  self.session:_log(0, ("%s: it was counted, and not sampled\n  its counts are in %s"):format(decl.name, leader
    and ("r.read of the samples of %s"):format(leader.name) or "'stat' records, which perfl dump shows"))
end

local sides = { exclude_kernel = "the kernel's", exclude_user = "user space's" }

-- Reports samples of a side that the kernel would have excluded, as for "cycles:u".
local function note_wider(self, decl, one)
  local words, attr = grammar.modifiers(one.modifiers or "").exclude, one.recorded.attr
  for field, whose in pairs(sides) do
    local unwanted = decl.spec[field]
    if unwanted == nil then unwanted = words[field] end
    if unwanted and not attr[field] then
      self.session:_log(0, ("%s: recorded as %s: %s samples are delivered, too\n  r.cpumode tells them apart"):format(
        decl.name, one.recorded.name, whose))
    end
  end
end

local function listen(self, ev, one, first)
  local recorded = one.recorded
  local listener = { ev = ev, recorded = recorded }
  ev.slot = self.core:listen { callbacks = ev.decl.callbacks, event = ev, recorded = self.nr[recorded],
    declaration = self.declarations, takes_others = first, fields = ev.decl.fields and ev.decl.fields.names,
    where = ev.decl.where, where_all = ev.decl.is_carrier }
  self.listeners[#self.listeners + 1] = listener
  if ev.decl.spec.disabled then self.core:disable_event(ev.slot) end
  if not recorded then return end
  ev.attr, ev.ids = recorded.attr, recorded.ids
  ev.format = recorded.format and recorded.format.format
  shape_stacks(self, ev.decl, one)
  self:give_payload(listener)
end

-- The attr bits of the event that a session adds for side-band records.
local side_band = { "comm", "task", "mmap", "context_switch", "ksymbol", "bpf_event", "namespaces", "cgroup",
                    "text_poke" }

-- Finds the recorded event of such a declaration, so that it receives the same records, each once.
local function find_carrier(self, decl)
  for _, recorded in ipairs(self.rec.events) do
    local attr = recorded.attr
    local same = attr.type == names.TYPE.software and attr.config == names.DUMMY and not self.carriers[recorded]
    for _, field in ipairs(side_band) do same = same and (attr[field] == true) == (decl.asked[field] == true) end
    if same then
      self.carriers[recorded] = true
      return recorded
    end
  end
end

-- A script that declares an event twice records it twice: each declaration receives its own samples.
local function own_of_twins(self, ev, found)
  local nr, own = 0, nil
  for _, other in ipairs(self.session.events) do
    if other.decl.text and other.decl.text == ev.decl.text and not other.decl.spec.early then nr = nr + 1 end
    if other == ev then own = found[nr] end
  end
  for _, one in ipairs(found) do
    if one.of_pattern or one.recorded.name ~= found[1].recorded.name then return found end
  end
  return nr == #found and own and { own } or found
end

--- Finds the recorded events of a declaration, and adds a listener for each.
function RecordedEvents:match(ev)
  local decl = ev.decl
  self.declarations = self.declarations + 1
  if decl.spec.early then
    ev.error = ("event '%s': a recording has no early events"):format(decl.name)
    self.session:_log(1, "left out: " .. ev.error)
    return true
  end
  if not decl.text and decl.spec.type == nil then -- side-band records alone, of every event
    self.matched = true
    listen(self, ev, { recorded = find_carrier(self, decl) }, true)
    return true
  end
  local found, missing, code = find(self, decl)
  if not found then return nil, missing, code end
  if #found == 0 then
    ev.error = ("event '%s': %s has no %s"):format(decl.name, self.shown, missing or "such event")
    self.session:_log(decl.spec.optional and 1 or 0, ev.error)
    return true
  end
  if missing then
    self.session:_log(0, ("event '%s': %s has no %s\n  the others of the list are taken"):format(decl.name,
      self.shown, missing))
  end
  if decl.spec.filter then
    self.session:_log(0, ("%s: its filter is the kernel's work: all that was recorded is delivered"):format(decl.name))
  end
  for _, one in ipairs(found) do
    local format = one.recorded.format
    local fit, unfit, einval = event.check_payload(one.name or decl.name, decl, format and format.format)
    if not fit then return nil, unfit, einval end
  end
  self.matched = true
  note_counted(self, decl, found)
  note_wider(self, decl, found[1])
  found = own_of_twins(self, ev, found)
  if #found == 1 and not found[1].of_pattern then
    listen(self, ev, found[1], true)
    return true
  end
  ev.members, ev.ids = {}, {}
  for i, one in ipairs(found) do
    local member = opened.new(self.session, decl)
    member.name, member.of, ev.members[i] = one.name or plain_name(one.recorded), ev, member
    listen(self, member, one, i == 1)
    table.move(member.ids, 1, #member.ids, #ev.ids + 1, ev.ids)
  end
  ev.attr = ev.members[1].attr
  return true
end

-- Callbacks for records that perf record does not request by default, and its option for each.
local unusual = { { "switch", "--switch-events" }, { "namespaces", "--namespaces" }, { "cgroup", "--all-cgroups" },
                  { "read", "-s" } }

local function has_callback(events, name)
  for ev in opened.each(events) do
    if ev.decl.callbacks[name] ~= nil then return true end
  end
  return false
end

local function was_asked_for(events, name)
  for _, recorded in ipairs(events) do
    if recorded.attr[event.asks[name][1]] then return true end
  end
  return false
end

-- Reports record types that have callbacks and that no recorded event requested.
local function note_unasked(self)
  local lacks, flags = {}, {}
  for _, row in ipairs(unusual) do
    if has_callback(self.session.events, row[1]) and not was_asked_for(self.rec.events, row[1]) then
      lacks[#lacks + 1], flags[#flags + 1] = row[1], row[2]
    end
  end
  if #lacks == 0 then return end
  self.session:_log(0, ("%s has no %s records: none of its events asked for them\n  try: perf record %s")
    :format(self.shown, table.concat(lacks, ", "), table.concat(flags, " ")))
end

--- Checks that at least one declared event is in the recording.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  message with cause and remedy
-- @treturn[2] integer errno
function RecordedEvents:check()
  note_unasked(self)
  if self.matched or #self.session.events == 0 then return true end
  return nil, ("%s: none of the events is in it\n  it has %s\n  try: perf record -e EVENT with those of the script")
    :format(self.shown, recording.names_text(self.rec.events)), E.ENOENT
end

--- Refuses a counter that is declared during the replay -> nil, message, errno
function RecordedEvents:refuse_counter() return no_counters(self.shown) end

-- ---- aggregators that need no order of time ----

-- Returns why the session needs the records in the order of time; nil: its callbacks decide.
local function order_reason(session, max)
  if max > 0 then return "the number of records is limited" end
  if next(session.signals) then return "a signal has a handler" end
end

--- Starts a thread that reads ahead of the callbacks, with more than one job.
function RecordedEvents:read_ahead()
  if not self.core:read_ahead(self.session.opts.jobs or 0) then return end
  self.session:_log(1, ("%s: a thread reads ahead"):format(self.shown))
end

-- Feeds the aggregators in the order of the file, if nothing needs the order of time.
local function begin_unordered(self, max)
  local jobs, why = nil, order_reason(self.session, max)
  if not why then jobs, why = self.core:unordered(self.session.opts.jobs or 0) end
  self.is_unordered = jobs ~= nil
  self.session:_log(1, jobs and ("%s: read without order of time, on %d thread%s"):format(self.shown, jobs,
    jobs == 1 and "" or "s") or ("%s: read in the order of time: %s"):format(self.shown, why))
  if not jobs then self:read_ahead() end
end

-- Feeds the aggregators the next samples -> number delivered
local function feed_unordered(self, drain)
  local more, n = self.core:feed_unordered(drain ~= "round")
  self.is_unordered = more or false
  self.ahead = more and n or nil
  if more == nil then
    self.session:_log(1, ("%s: read again in the order of time: %s"):format(self.shown, n))
    self:read_ahead()
  end
  return more == false and n or 0
end

--- Delivers records as the core's session does, but feeds aggregators in the order of the file if they can be.
-- @tparam string drain
-- @tparam integer max  the most records to deliver; 0: no limit
-- @treturn integer  records delivered
-- @treturn boolean  true if a callback stopped the session
function RecordedEvents:dispatch(drain, max)
  if self.is_unordered == nil then begin_unordered(self, max) end
  if self.is_unordered then return feed_unordered(self, drain), false end
  return self.core:dispatch(drain, max)
end

--- Returns the bytes read, the file's size (0: a pipe), the records read.
function RecordedEvents:how_far()
  local totals = self.rec:totals()
  return self.ahead or totals.bytes, self.rec.facts.size, totals.records
end

return M
