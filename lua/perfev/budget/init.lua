--- perfev.budget: limits on what a function or a command does, counted and not timed.

local check = require "perfev.base.check"
local core = require "perfev.core"
local colon = require "perfev.base.method_guard"
local event_rules = require "perfev.budget.event_rules"
local lazy = require "perfev.base.lazy_module"
local counter = lazy "perfev.counter.counter"
local limit = require "perfev.budget.limit"
local occurrences = require "perfev.budget.occurrences"
local option_tables = require "perfev.option_tables.budget"
local result = require "perfev.budget.result"
local session = require "perfev.live.session"
local shown = require "perfev.base.show_value"
local thread_events = require "perfev.budget.thread_events"

local budget_file = lazy "perfev.budget.budget_file"

local M = {}

local CALLCHAIN = "dwarf,2048"

local Budget = {}
Budget.__index = Budget
Budget.__name = "perfev.budget"

-- Level 0: the caller adds the place and the name.
local function above(level) return level == 0 and 0 or level + 1 end

local function fail(level, text) error((level == 0 and "" or "budget: ") .. text, above(level)) end

-- ---- making a budget ----

local function option_of(name, value, level)
  local read, why = check.value(name, option_tables.budget[name], value)
  if read == nil then fail(above(level), why) end
  return read
end

-- The message about a name that is neither an option nor an event names the nearest option as well.
local function refuse_name(name, why, level)
  local near = core.nearest(name, check.names(option_tables.budget))
  fail(above(level), near and ("%s\n  (or the option '%s')"):format(why, near) or why)
end

local function row_of(name, value, unstable, level)
  local found, why = limit.parse(value)
  if not found then fail(above(level), ("%s: %s"):format(name, why)) end
  local row, refusal = event_rules.classify(name, unstable)
  if not row then refuse_name(name, refusal, above(level)) end
  row.name, row.limit = name, found
  return row
end

local function baseline_of(opts, level)
  if not opts.baseline then return nil end
  local file, why, code = budget_file.read(opts.baseline)
  if not file then
    if code == core.errno.ENOENT then return nil end -- save() makes it
    fail(above(level), "baseline: " .. why)
  end
  local section = file:section(opts.name or "")
  return section and section.baseline
end

--- Returns a budget.
-- @tparam table spec    an event's name -> its limit, and options
-- @tparam integer level  of the caller, for `error`
function M._new(spec, level)
  level = level or 2
  if type(spec) ~= "table" then fail(level, "a table of events with their limits expected, not " .. type(spec)) end
  local self = setmetatable({ opts = {}, rows = {} }, Budget)
  local names = {}
  for name, value in next, spec do
    if type(name) ~= "string" and math.type(name) ~= "integer" then
      fail(level, ("an event's name is a string, not a %s"):format(type(name)))
    elseif type(name) ~= "string" then
      fail(level, ("an event has a limit: { [\"page-faults\"] = \"<= 40\" }, not '%s' alone"):format(shown(value)))
    end
    if option_tables.budget[name] then
      self.opts[name] = option_of(name, value, level)
    else
      names[#names + 1] = name
    end
  end
  table.sort(names)
  if #names == 0 then fail(level, "no event has a limit\n  try: { syscalls = \"<= 12\" }") end
  for i, name in ipairs(names) do self.rows[i] = row_of(name, spec[name], self.opts.unstable, level) end
  local name = self.opts.name
  if self.opts.baseline and name and name ~= budget_file.section_name(name) then
    fail(level, ("name '%s': the name of a section has no brackets, # and control characters\n  try: %s"):format(
      shown(name), budget_file.section_name(name)))
  end
  self.baseline = baseline_of(self.opts, level)
  return self
end

-- ---- measuring ----

local function judge(self, found, failure)
  return result.new(self.rows, found, failure,
    { strict = self.opts.strict, name = self.opts.name, baseline = self.baseline })
end

-- Runs f with the collector of garbage as the option `gc` says.
local function with_collector(self, f, ...)
  local stops = self.opts.gc ~= "run" and collectgarbage "isrunning"
  if not stops then return f(...) end
  local _ <close> = setmetatable({}, { __close = function() collectgarbage "restart" end })
  collectgarbage "stop"
  return f(...)
end

--- Counts what the calling thread does in f.
-- @tparam function f
-- @param ...       f's arguments
-- @treturn result
-- @return          f's results; an error of f is raised again
function Budget:measure(f, ...)
  if type(f) ~= "function" then error("measure: a function expected, not a " .. type(f), 2) end
  if self.opts.warm then f(...) end
  local events = thread_events.open(self.opts, self.rows)
  local values, found = with_collector(self, events.measure, events, self.rows, self.opts.lines, f, ...)
  if not values[1] then error(values[2], 0) end
  local one = judge(self, found, function(row) return events:failure(row) end)
  return one, table.unpack(values, 2, values.n)
end

local function wants_only_user(rows, source)
  for _, row in ipairs(rows) do
    if occurrences.source(row) == source and row.side ~= "user" then return false end
  end
  return true
end

-- Declares the events of a command in its session -> occurrences, counters by event, row -> why it has none
local function declare(self, s)
  local stacks = self.opts.stacks ~= false and (self.opts.callchain or CALLCHAIN) or nil
  local kept = occurrences.new(function(_, f, ...) f(...) end, { callchain = stacks })
  local counters, why_not = {}, {}
  for _, row in ipairs(self.rows) do
    why_not[row] = row.error
    local source = occurrences.source(row)
    if row.how == "counter" and not row.error then
      local probe, why = counter.new({ row.event, tid = "self", inherit = false, disabled = true }, false, 2)
      why_not[row] = why
      if probe then
        probe:close()
        counters[row.event] = s:counter { row.event }
      end
    elseif source and not row.error then
      kept:declare(s, row, wants_only_user(self.rows, source))
    end
  end
  return kept, counters, why_not
end

local function read_counter(c, event)
  local r = c and c:read()
  return r and r.counts[event] and r[event]
end

-- Adds a failed row for a command that failed.
local function add_status(one, status)
  if status.exit == 0 then return end
  local why = status.signal and ("the command was killed by signal %d"):format(status.signal)
    or status.exit and ("the command failed with status %d"):format(status.exit) or "the command's status is unknown"
  table.insert(one.rows, 1, { name = "command", limit = "exit 0", ok = false, why = why })
  one.ok = false
end

--- Runs a command and counts what it and its children do, from its exec on.
-- @tparam {string,...} argv
-- @treturn[1] result   also `command_status`: { exit = n } or { signal = n }; a status other than 0 is a failure
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer  errno
function Budget:measure_command(argv)
  if type(argv) ~= "table" or type(argv[1]) ~= "string" then
    local given = type(argv) == "table" and "{ " .. shown(argv[1]) .. " }" or shown(argv)
    error(("measure_command: a list of strings expected, the program first, not %s\n"
      .. "  try: b:measure_command { \"ls\", \"/\" }"):format(given), 2)
  end
  local s
  local on_signal = self.opts.on_signal
  s = session.new { command = argv, buffer = self.opts.buffer, log = self.opts.log,
    watch = on_signal and { on_signal[1], function()
      on_signal[2]()
      s:stop()
    end } }
  local kept, counters, why_not = declare(self, s)
  if s:declared() == 0 then s:event { "dummy", exit = function() end } end
  local user_only = {}
  s:begin(function()
    for _, row in ipairs(self.rows) do
      local source = occurrences.source(row)
      why_not[row] = why_not[row] or source and kept:failure(source, row)
      user_only[row] = source and kept:is_user_only(source)
    end
  end)
  local ok, why, code = s:run()
  if not ok then
    kept:close()
    return nil, why, code
  end
  local found = { counts = kept.counts, stacks = kept.stacks, calls = kept.calls, user_only = function(row)
    return user_only[row]
  end, lost = s:totals().lost, counters = {} }
  for event, c in pairs(counters) do found.counters[event] = read_counter(c, event) end
  local one = judge(self, found, function(row)
    local source = occurrences.source(row)
    return why_not[row] or source and kept:hidden(source)
  end)
  kept:close()
  one.command_status = s.command_status or {}
  add_status(one, one.command_status)
  return one
end

--- Writes the counts of a result to the budget's `baseline`, as what is accepted from now on.
-- @treturn true | nil, message, errno
function Budget:save(one)
  if not self.opts.baseline then error("save: the budget has no baseline\n  try: baseline = \"FILE\"", 2) end
  if not result.is(one) then error("save: a result of measure() expected, not " .. shown(one), 2) end
  return budget_file.save(self.opts.baseline, self.opts.name or "", one)
end

--- Closes the events that measure() has opened. They are opened again at the next one.
function M.close() thread_events.close() end

colon(Budget, Budget, "budget", "b", [[measure measure_command save]])

return setmetatable(M, { __call = function(_, spec) return M._new(spec, 2) end })
