--- A session's other source: a recording instead of the kernel.
-- It has the verbs of the core's session (perfev.core), so that the loop, the end and the errors are
-- session.lua's for both. Nothing is opened but the file; what waits (signals, a watched descriptor) is a
-- core session without events. Time is the records' own: timers are due when a record has passed them.

local core = require "perfev.core"
local event = require "perfev.event"
local grammar = require "perfev.grammar"
local names = require "perfev.names"
local opened = require "perfev.opened"
local recording = require "perfev.recording"

local M = {}

local Replay = {}
Replay.__index = Replay

local E = core.errno
local SAMPLE = 9 -- PERF_RECORD_SAMPLE
local ROUND = 512 -- records between two looks at signals

-- Number of a record type -> the callback it is delivered to.
local callback_of = {}
for number, layout in ipairs(core.layouts().records) do callback_of[number] = layout.callback end

-- What an event of its own hears; the rest tells of tasks and their memory, whoever recorded it.
local own_only = { sample = true, read = true, throttle = true, aux = true, itrace_start = true,
                   aux_output_hw_id = true, callchain_deferred = true }

local function number_events(self)
  for i, recorded in ipairs(self.rec.events) do self.nr[recorded] = i end
end

--- Open the session's input.
-- @treturn[1] replay
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.open(session)
  local input = session.opts.input
  local shown = input == "-" and "standard input" or input
  if #session.counters > 0 then
    return nil, ("counter: %s is a recording\n  counters are read from the kernel while it counts"
      .. "\n  try: without the input, or an event with a sample callback"):format(shown), E.EINVAL
  end
  local waiter, what, code = core.session {}
  if not waiter then return nil, what, code end
  local rec
  rec, what, code = recording.open(input, {
    ordered = session.opts.ordered ~= false,
    note = function(text) session:note(0, ("%s: %s"):format(shown, text)) end,
  })
  if not rec then
    waiter:close()
    return nil, "cannot open the recording " .. what, code
  end
  local self = setmetatable({
    session = session, rec = rec, shown = shown, waiter = waiter, next_record = rec:records { user = false },
    listeners = {}, routes = {}, timers = {}, delivered = 0, nr = {},
  }, Replay)
  -- A pipe tells of its events before its first record, and only then.
  self:read_one()
  number_events(self)
  return self
end

-- ---- the file's events and the declared ones ----

-- "cycles:u" -> "cycles"; "sched:sched_switch:u" -> "sched:sched_switch"
local function plain_name(recorded)
  local name = recorded.name or ""
  if recorded.attr.type == names.TYPE.tracepoint then return name:match("^([^:]+:[^:]+)") or name end
  return name:match("^(.+):[ukhGHIpPSDWeb]+$") or name
end

-- Whether a name of perf's and what was recorded are the same counter: cs is context-switches.
local function is_alias(leaf, recorded)
  local there = leaf.kind == "name" and names.find(leaf.name)
  return there and not there.tool and there.type == recorded.attr.type and there.config == recorded.attr.config
end

local function full_name(leaf)
  if leaf.kind == "tracepoint" then return leaf.system .. ":" .. leaf.name end
  if leaf.kind == "name" or leaf.kind == "raw" then return leaf.name end
  return leaf.text
end

local function is_meant(leaf, recorded)
  local plain, name = plain_name(recorded), full_name(leaf)
  if leaf.glob then return grammar.matcher(name)(plain) end
  return plain == name or recorded.name == leaf.text or is_alias(leaf, recorded)
end

-- Modifiers tell events apart only where the name alone does not.
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
                 of_pattern = leaf.glob }
  end
  return found
end

-- All events of one alternative; of a list, every one has to be there.
local function find_list(units, events)
  local all = {}
  for _, unit in ipairs(units) do
    for _, leaf in ipairs(unit.group and unit or { unit }) do
      local found = find_leaf(leaf, events)
      if #found == 0 then return nil, leaf.text end
      table.move(found, 1, #found, #all + 1, all)
    end
  end
  return all
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

local CLOCK = { kind = "name", name = "cpu-clock", text = "cpu-clock" }

-- perf records cpu-clock where a machine cannot count cycles, as a session samples it.
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
  if not decl.text then return find_by_number(decl.spec, events) end
  local tree, wrong = grammar.parse(decl.text)
  if not tree then return nil, wrong, E.EINVAL end
  local missing
  for _, units in ipairs(tree) do
    local found, lacks = find_list(units, events)
    if found then return found end
    missing = missing or lacks
  end
  local clock = find_clock(tree, events)
  if #clock > 0 then
    self.session:note(0, ("%s: the recording has cpu-clock instead"):format(decl.name))
    return clock
  end
  return {}, missing
end

local function listen(self, ev, recorded, first)
  ev.slot = #self.listeners
  self.listeners[ev.slot + 1] = { ev = ev, recorded = recorded, first = first, on = true }
  if not recorded then return end
  ev.attr, ev.ids = recorded.attr, recorded.ids
  ev.format = recorded.format and recorded.format.format
end

--- The events of the recording that a declared one stands for.
function Replay:match(ev)
  local decl = ev.decl
  self.routes = {}
  if not decl.text and decl.spec.type == nil then -- side-band records alone, of every event
    self.matched = true
    listen(self, ev, nil, true)
    return true
  end
  local found, missing, code = find(self, decl)
  if not found then return nil, missing, code end
  if #found == 0 then
    ev.error = ("event '%s': %s has no %s"):format(decl.name, self.shown, missing or "such event")
    self.session:note(decl.spec.optional and 1 or 0, ev.error)
    return true
  end
  if decl.spec.filter then
    self.session:note(0, ("%s: its filter is the kernel's work: all that was recorded is delivered"):format(decl.name))
  end
  self.matched = true
  if #found == 1 and not found[1].of_pattern then
    listen(self, ev, found[1].recorded, true)
    return true
  end
  ev.members, ev.ids = {}, {}
  for i, one in ipairs(found) do
    local member = opened.new(self.session, decl)
    member.name, member.of, ev.members[i] = one.name or plain_name(one.recorded), ev, member
    listen(self, member, one.recorded, i == 1)
    table.move(member.ids, 1, #member.ids, #ev.ids + 1, ev.ids)
  end
  ev.attr = ev.members[1].attr
  return true
end

--- Whether there is anything to deliver.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  in three parts
-- @treturn[2] integer errno
function Replay:check()
  if self.matched or #self.session.events == 0 then return true end
  local there = {}
  for i, recorded in ipairs(self.rec.events) do there[i] = recorded.name end
  return nil, ("%s: none of the events is in it\n  it has %s\n  try: perf record -e EVENT with those of the script")
    :format(self.shown, #there > 0 and table.concat(there, ", ") or "no events"), E.ENOENT
end

-- ---- whose a record is ----

-- A declared event records what is of its tasks itself, or hears what another did.
local function records_itself(ev, asks)
  for _, one in ipairs(ev.of and ev.of.members or { ev }) do
    if one.attr[asks] then return true end
  end
  return false
end

local function hears(listener, recorded, callback)
  if listener.recorded == recorded and recorded then return true end
  if own_only[callback] or not listener.first then return false end
  if not listener.recorded then return true end
  if not listener.ev.decl.callbacks[callback] or callback == "record" then return false end
  local asks = event.asks[callback] and event.asks[callback][1]
  return not recorded or asks ~= nil and not records_itself(listener.ev, asks)
end

local NOBODY = {}

-- Listeners of a type of record of an event; `recorded` is nil where the file says of none.
local function route(self, recorded, number)
  if recorded and not self.nr[recorded] then number_events(self) end -- a pipe told of more
  local key = recorded or NOBODY
  local of_event = self.routes[key]
  if not of_event then
    of_event = {}
    self.routes[key] = of_event
  end
  local callback, list = callback_of[number] or "record", {}
  for _, listener in ipairs(self.listeners) do
    local f = listener.ev.decl.callbacks[callback] or listener.ev.decl.callbacks.record
    if hears(listener, recorded, callback) then
      list[#list + 1] = { listener = listener, ev = listener.ev, f = f, callback = callback }
    end
  end
  of_event[number] = list
  return list
end

-- ---- records ----

function Replay:read_one()
  local _
  self.pending, _, self.synthesised = self.next_record()
  self.ended = self.pending == nil
end

-- Reading ended before the file did: what was read is delivered, and the run has failed.
function Replay:tell_end()
  self.session.failure = self.session.failure or self.rec.error
end

-- The next record, which pending may hold; who hears it; its event in the file.
local function take(self)
  local r = self.pending
  self.pending = nil
  if not r and not self.ended then
    self:read_one()
    r, self.pending = self.pending, nil
  end
  if not r then
    self:tell_end()
    return nil
  end
  local recorded, number = r.event, r.number
  local list = self.routes[recorded or NOBODY]
  list = list and list[number] or route(self, recorded, number)
  return r, list, recorded
end

-- Timers whose time has come at that of the record, in the order of time.
local function tick(self, time)
  for _, timer in ipairs(self.timers) do timer.due = timer.due or time + timer.first end
  while not self.stopped and not self.session.stopping do
    local next_timer
    for _, timer in ipairs(self.timers) do
      if timer.due <= time and (not next_timer or timer.due < next_timer.due) then next_timer = timer end
    end
    if not next_timer then return end
    next_timer.due = next_timer.every > 0 and next_timer.due + next_timer.every or math.maxinteger
    self.session:handle(next_timer.id)
  end
end

-- Time begins with the first sample, or with what somebody hears: recorders tell of what was there
-- before, some of it with a time of long ago.
local function pass_time(self, r, list)
  local time = #self.timers > 0 and not self.synthesised and r.time or 0
  self.begun = self.begun or time > 0 and (r.number == SAMPLE or #list > 0)
  if self.begun and time > 0 then tick(self, time) end
  return not (self.stopped or self.session.stopping)
end

local function call(self, entry, r)
  self.in_dispatch = true
  local ok, result = core.protect(entry.f, r, r.args)
  self.in_dispatch = false
  self.delivered = self.delivered + 1
  if ok then return result == false end
  return self.session:raised(result, ("%s of %s"):format(entry.callback, entry.ev.name),
    ("%p %s"):format(entry.ev, entry.callback))
end

-- One record to all who hear it -> how many callbacks were called
local function deliver(self, r, list, recorded, most)
  local n = 0
  for _, entry in ipairs(list) do
    if entry.f and entry.listener.on and n < most and not self.stopped then
      if recorded then self.rec.file:event_is(self.nr[recorded], entry.ev) end
      n = n + 1
      if call(self, entry, r) then self.stopped = true end
    end
  end
  if n > 0 and recorded then self.rec.file:event_is(self.nr[recorded], recorded) end
  return n
end

--- Deliver up to max records (0: any number) -> how many, and whether a callback wanted no more.
function Replay:dispatch(mode, max)
  local n, read = 0, 0
  if mode ~= "round" then return 0, false end -- what is not delivered by the end is not
  local most = max > 0 and max or math.maxinteger
  while read < ROUND and n < most and not self.stopped and not self.session.stopping do
    local r, list, recorded = take(self)
    if not r then break end
    read = read + 1
    if not pass_time(self, r, list) then break end
    if #list > 0 then n = n + deliver(self, r, list, recorded, most - n) end
  end
  return n, self.stopped or false
end

-- Records one by one: those of every declared event.
function Replay:begin(mode) self.left = mode == "round_all" and ROUND or 0 end

function Replay:next()
  self:put_back()
  while self.left > 0 do
    local r, list, recorded = take(self)
    if not r then return nil end
    self.left = self.left - 1
    if not pass_time(self, r, list) then return nil end
    if #list > 0 then
      if recorded then
        self.rec.file:event_is(self.nr[recorded], list[1].ev)
        self.shown_as = recorded
      end
      self.delivered = self.delivered + 1
      return r
    end
  end
end

-- The file's own event again, by which records find who hears them.
function Replay:put_back()
  if self.shown_as then self.rec.file:event_is(self.nr[self.shown_as], self.shown_as) end
  self.shown_as = nil
end

function Replay.finish() end

-- ---- what else the session asks of its core ----

function Replay:timer(first, every)
  local id = -1 - #self.timers -- no descriptor has such a number
  self.timers[#self.timers + 1] = { id = id, first = first, every = every }
  return id
end

function Replay:read(fd, len)
  if fd < 0 then return "" end
  return self.waiter:read(fd, len)
end

function Replay:wait() return self.waiter:wait(0) end
function Replay:watch(fd) return self.waiter:watch(fd) end
function Replay:signals(set) return self.waiter:signals(set) end
function Replay:over() return self.ended end
function Replay:dispatching() return self.in_dispatch or false end
function Replay:halt() self.stopped = true end
function Replay.scan() return 0 end
function Replay.enable() return 0 end
function Replay.disable() return 0 end

local function switch(on)
  return function(self, slot)
    self.listeners[slot + 1].on = on
    return 0
  end
end
Replay.enable_event, Replay.disable_event, Replay.remove = switch(true), switch(false), switch(false)

local function refused(what)
  return function() return nil, what .. ": the events of a recording are as they were recorded", E.EOPNOTSUPP end
end
Replay.period, Replay.filter, Replay.signal = refused("period"), refused("filter"), refused("signal")
Replay.snapshot = refused("snapshot")

function Replay:fd() return self.waiter:fd() end

function Replay:stats()
  local stats, read = self.waiter:stats(), self.rec:stats()
  for _, name in ipairs { "records", "lost", "lost_samples", "late", "malformed", "unknown_id" } do
    stats[name] = read[name]
  end
  stats.delivered, stats.throttled = self.delivered, read.types.throttle or 0
  return stats
end

function Replay:close()
  self.rec:close()
  self.waiter:close()
end

return M
