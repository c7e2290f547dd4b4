--- The events that count what the calling thread does. They are opened at their first use, then enabled and disabled
-- by ioctl(2) for each measurement, and closed when the Lua state ends.
--
-- What counts is what happens between two readings of the clock around the function, so that neither the ioctl calls
-- nor the work of this module is counted.

local lazy = require "perfev.base.lazy_module"
local core = require "perfev.core"
local counter = lazy "perfev.counter.counter"
local lua_lines = lazy "perfev.budget.lua_lines"
local occurrences = require "perfev.budget.occurrences"
local session = require "perfev.live.session"

local M = {}

local MONOTONIC = 1
local CALIBRATIONS = 8
local CALLCHAIN = "dwarf,2048"
local BUFFER = "8M"
local CLOSED = "a function has closed the descriptors of the events\n"
  .. "  try: perfev.budget.close() before it; or leave descriptors open that it has not opened"
local FORKED = "budget: the function has forked, and returned in the child, too\n  try: os.exit at the child's end"

local pool = {}
local measuring -- the process that measures now

local Events = {}
Events.__index = Events

-- ---- opening ----

local function new_events(key, opts)
  local self = setmetatable({ key = key, process = core.process(), records = {}, counters = {}, own = {},
    children = opts.children }, Events)
  self.occurrences = occurrences.new(function(time, f, ...)
    self.records[#self.records + 1] = { time, #self.records, f, ... }
  end, {
    callchain = opts.stacks ~= false and CALLCHAIN or nil, disabled = true, inherit = opts.children or false,
  })
  return self
end

-- Opens the events of a row's source; the first starts the session.
local function add_source(self, row)
  local is_first = not self.session
  if is_first then self.session = session.new { tid = "self", ordered = false, buffer = self.buffer } end
  self.occurrences:declare(self.session, row)
  if not is_first then return end
  local ok, why = self.session:start()
  if ok then return end
  self.occurrences.failures[occurrences.source(row)] = why
  self.session = nil
end

local function add_counter(self, event)
  if self.counters[event] then return end
  local c, why = counter.new({ event, tid = "self", inherit = self.children or false, disabled = true }, false, 2)
  self.counters[event] = c or { error = why }
end

--- The open events of these options; the events of the rows are added.
-- @tparam table opts  `children`, `stacks`, `buffer`
-- @tparam table rows  of event_rules
function M.open(opts, rows)
  if measuring == core.process() then
    error("budget: a function that is measured measures another one\n  try: one budget with all limits", 0)
  end
  local key = ("%s %s %s"):format(opts.children, opts.stacks, opts.buffer)
  local self = pool[key]
  if self and self.process ~= core.process() then self = nil end -- a forked process has events of its own
  if not self then
    self = new_events(key, opts)
    self.buffer = opts.buffer or BUFFER
    pool[key] = self
  end
  local is_new = false
  for _, row in ipairs(rows) do
    local source = occurrences.source(row)
    if source and not row.error then
      is_new = is_new or not self.occurrences.events[source]
      add_source(self, row)
    elseif row.how == "counter" and not row.error then
      is_new = is_new or not self.counters[row.event]
      add_counter(self, row.event)
    end
  end
  if is_new then self:calibrate(rows) end
  return self
end

local function close(self)
  pool[self.key] = nil
  if self.session then self.session:close() end
  self.occurrences:close()
  for _, c in pairs(self.counters) do
    if c.close then c:close() end
  end
end

--- Closes all events.
function M.close()
  for _, self in pairs(pool) do close(self) end
end

-- ---- measuring ----

local function each_source(self, rows, f)
  local done = {}
  for _, row in ipairs(rows) do
    local source = occurrences.source(row)
    if source and not row.error and not done[source] then
      done[source] = true
      if not self.occurrences:failure(source) then f(source) end
    end
  end
end

local function each_counter(self, rows, f)
  for _, row in ipairs(rows) do
    local c = row.how == "counter" and self.counters[row.event]
    if c and c.read then f(row.event, c) end
  end
end

-- After an error the next measurement opens the events again.
local function check_event(self, ok, why, code)
  if ok then return ok end
  close(self)
  error("budget: " .. (code == core.errno.EBADF and CLOSED or why), 0)
end

local function switch(self, rows, verb)
  each_source(self, rows, function(source)
    for _, ev in ipairs(self.occurrences.events[source]) do check_event(self, ev[verb](ev)) end
  end)
end

local function switch_counters(self, rows, verb)
  each_counter(self, rows, function(_, c) check_event(self, c[verb](c)) end)
end

-- Reads the records that are there; without a function they are dropped.
local function read_records(self)
  if not self.session then return 0 end
  check_event(self, self.session:dispatch())
  local totals = self.session:totals()
  local lost = totals.lost - (self.lost or 0)
  self.lost = totals.lost
  return lost
end

-- Waits of the calling thread, for a user who may not trace the scheduler.
local function own_switches()
  local text = core.slurp "/proc/thread-self/status"
  return text and math.tointeger(tonumber(text:match "\nvoluntary_ctxt_switches:%s*(%d+)"))
end

local function in_order(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  return a[2] < b[2]
end

local function feed(self)
  local records, from, to = self.records, self.from, self.to
  self.records = {}
  table.sort(records, in_order)
  for _, record in ipairs(records) do
    if record[1] >= from and record[1] <= to then
      self.occurrences.place = self.lines and lua_lines.place_at(self.lines, record[1])
      record[3](table.unpack(record, 4, 9))
    end
  end
end

-- The clock is read first, before anything else that could be counted.
local clock = core.clock
local function finish(self, ...)
  self.to = clock(MONOTONIC)
  return ...
end

local function begin(self, f, ...)
  self.from = clock(MONOTONIC)
  return finish(self, pcall(f, ...))
end

-- Calls begin() from C, so that f cannot yield: a coroutine that is not resumed would leave the events enabled.
local function begin_in_c(self, f, ...)
  local arguments, results = table.pack(...), nil
  string.gsub("", "", function() results = table.pack(begin(self, f, table.unpack(arguments, 1, arguments.n))) end)
  return results
end

-- Enables the events, calls f, and disables them whatever f did. Returns pcall's results in a table.
local function call(self, rows, with_lines, f, ...)
  switch(self, rows, "enable")
  switch_counters(self, rows, "enable")
  self.lines = with_lines and lua_lines.start() or nil
  local results = begin_in_c(self, f, ...)
  if self.lines then lua_lines.stop(self.lines) end
  if self.process ~= core.process() then error(FORKED, 0) end
  switch_counters(self, rows, "disable")
  switch(self, rows, "disable")
  return results
end

function Events:needs_own_switches(rows)
  for _, row in ipairs(rows) do
    if row.how == "switches" then return self.occurrences:failure "context-switches" ~= nil end
  end
  return false
end

--- Runs f with the events enabled.
-- @tparam table rows
-- @tparam ?boolean with_lines  note the lines of Lua
-- @tparam function f
-- @treturn table  pcall's results
-- @treturn table  `counts`, `stacks`: see occurrences; `counters`: event -> count; `lost`: records; `waits`: without
--   the right to trace the scheduler
function Events:measure(rows, with_lines, f, ...)
  measuring = self.process
  local _ <close> = setmetatable({}, { __close = function() measuring = nil end })
  self.from, self.to = 0, 0
  switch(self, rows, "disable") -- they are: it checks that they are open
  read_records(self)
  self.records = {}
  self.occurrences:clear()
  each_counter(self, rows, function(_, c) c:delta() end)
  local waits = self:needs_own_switches(rows) and own_switches()
  local results = call(self, rows, with_lines, f, ...)
  waits = waits and own_switches() - waits or nil
  local found = { lost = read_records(self), counters = {}, waits = waits }
  feed(self)
  found.counts, found.stacks, found.calls = self.occurrences.counts, self.occurrences.stacks, self.occurrences.calls
  found.user_only = function(row) return self.occurrences:is_user_only(occurrences.source(row)) end
  each_counter(self, rows, function(event, c)
    local r = c:delta()
    found.counters[event] = r and r.raw[event] and r[event] and math.max(r[event] - (self.own[event] or 0), 0)
  end)
  return results, found
end

--- Touches all that a measurement needs, and measures what an empty function adds to counters.
function Events:calibrate(rows)
  local least = {}
  each_counter(self, rows, function(event) self.own[event] = nil end)
  for _ = 1, CALIBRATIONS do
    local _, found = self:measure(rows, false, function() end)
    for event, n in pairs(found.counters) do least[event] = math.min(least[event] or n, n) end
  end
  for event, n in pairs(least) do self.own[event] = n end
end

--- Why a row has no count, or nil.
function Events:failure(row)
  if row.error then return row.error end
  local source = occurrences.source(row)
  if source then return self.occurrences:failure(source, row) or self.occurrences:hidden(source) end
  return self.counters[row.event].error
end

return M
