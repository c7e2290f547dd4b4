--- Reports durations for the scripts that measure them: a histogram by key, or a table, in the format of -f and at the
-- intervals of --interval. See doc/api/tool.md.

local lazy = require "perfev.base.lazy_module"
local aggregator = lazy "perfev.aggregate.aggregator"
local cgroup = require "perfev.event.cgroup"
local check = require "perfev.base.check"
local option_tables = require "perfev.option_tables.latency"
local plain_copy = require("perfev.base.tables").plain_copy
local session = require "perfev.live.session"
local units = require "perfev.base.parse_units"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

local is_page = { html = true, svg = true, csv = true, prom = true } -- formats with one heading for the whole output

-- ---- keys ----

local UNKNOWN = "(unknown)"

-- --per -> f(tid, comm) -> the key of durations that a script adds
local function key_functions(s, refuse)
  return {
    comm = function(_, comm) return comm end,
    tid = function(tid) return tid end,
    pid = function(tid)
      local task = s:task(tid)
      return task and task.pid or tid
    end,
    cgroup = function(tid)
      if s.opts.input then refuse "--per: a recording lacks the cgroup of these tasks\n  try: --per comm" end
      return cgroup.of_task(tid) or UNKNOWN -- it has ended
    end,
  }
end

-- The column of --per, or nil.
local function chosen_column(tool, who, opt, spec, refuse)
  if not opt.per then return nil end
  if not spec.per then return tool.field_list(who, "--per", opt.per)[1] end
  local column = spec.per[opt.per]
  if column then return column end
  refuse(("--per: '%s' is not a key of this script\n  try: --per with one of %s"):format(opt.per,
    table.concat(sorted_keys(spec.per), ", ")))
end

-- ---- the report ----

local Report = {}
Report.__index = Report

-- Makes the aggregator: percentiles for a table, else a histogram.
local function new_values(self)
  local spec = self.spec
  local options = { by = self.by, names = self.names, where = spec.where, max_keys = 1 << 20 }
  if self.is_table then
    options.unit = "ns"
    return aggregator.new("quantile", options, 2)
  end
  options.unit, options.title, options.slot = self.unit, spec.title, spec.slot and spec.slot .. "ns"
  return aggregator.new("hist", options, 2)
end

local function key_text(self, row, column)
  local text_of = self.names[column]
  return tostring(text_of and text_of(row[column]) or row[column])
end

-- Prints histograms under their keys with labels, as in "disk = vda, comm = app", the largest last.
local function print_labelled(self, values)
  local rows = values:rows()
  for i = #rows, 1, -1 do
    local words = {}
    for k, column in ipairs(self.by) do
      words[k] = ("%s = %s"):format(self.spec.labels[column] or column:match "[^.]+$", key_text(self, rows[i], column))
    end
    aggregator.print_histogram(table.concat(words, ", "), self.unit, rows[i].value, true)
    print()
  end
  for _, line in ipairs(values:remarks()) do print(line) end
end

local function print_values(self, values, more)
  local spec, form = self.spec, self.form
  if self.is_table then
    self.print_durations(values, spec.column, function(row)
      local name = spec.name(row)
      if not self.column then return name end
      return name .. (self.column == "cpu" and "/" or " ") .. key_text(self, row, self.column)
    end, self.top, form == "json" and (more or {}) or nil)
  elseif form == "html" or form == "svg" then
    io.write(values[form](values))
  elseif form == "text" and spec.labels and self.by[1] then
    print_labelled(self, values)
  else
    aggregator.print(values, form, more)
  end
  if form == "text" and spec.footer then spec.footer() end
end

-- A copy has no spans, and so no remarks about starts that still wait.
local function take_copy(self)
  return new_values(self):merge(self.into)
end

-- Prints the values since the last interval and forgets them.
local function print_interval(self, is_last)
  if is_last and #self.into == 0 then return self.into:rows() end -- read: perfl does not print it
  local values, from, to = take_copy(self), self.printed * self.interval, (self.printed + 1) * self.interval
  self.into:clear()
  if self.form == "text" then
    print(("%s%gs %s"):format(self.printed > 0 and "\n" or "", from / 1e9, is_last and "to the end"
      or ("to %gs"):format(to / 1e9)))
  end
  print_values(self, values, { from = from, to = not is_last and to or nil })
  self.printed = self.printed + 1
end

local function finish(self)
  if not self.interval then
    return print_values(self, self.spec.has_remarks == false and take_copy(self) or self.into)
  end
  print_interval(self, true)
  if self.spec.has_remarks == false or self.is_table or self.form ~= "text" then return end
  for _, line in ipairs(self.into:remarks()) do print(line) end
end

--- Declares a span whose durations the report takes.
-- @tparam table spec  as of perfev.span, without `into` and `least`
function Report:span(spec)
  spec.into, spec.least = self.into, self.least .. "ns"
  return session.default():span(spec)
end

--- Adds a duration of a task.
-- @tparam integer ns
-- @tparam integer tid
-- @tparam string comm
function Report:add(ns, tid, comm)
  if ns < self.least then return end
  if self.key_of then self.into:add(ns // self.scale, self.key_of(tid, comm)) else self.into:add(ns // self.scale) end
end

local function check_interval(opt, form, refuse)
  if not opt.interval then return end
  if opt.interval == 0 then refuse "--interval: more than 0" end
  if is_page[form] then
    refuse(("--interval: %s is written once, at the end\n  try: -f text, or -f json"):format(form))
  end
end

--- Makes a report of the default session, which prints itself; see tool.latency in doc/api/tool.md.
-- @tparam table tool  perfev.tool
-- @tparam string who
-- @tparam table opt   values of the options `per`, `least`, `interval`, `format`, `unit`, `top`
-- @tparam table spec
function M.new(tool, who, opt, spec)
  local function refuse(why) tool.refuse(who, why) end
  spec = check.take("latency", spec, option_tables.latency, 4)
  local s, format = session.default(), opt.format or "text"
  local form = format == "text" and aggregator.default_form or format
  local self = setmetatable({ spec = spec, form = form, least = opt.least or 0, top = opt.top, printed = 0,
    interval = opt.interval, print_durations = tool.print_durations, by = table.move(spec.by or {}, 1, 16, 1, {}),
    column = chosen_column(tool, who, opt, spec, refuse),
    is_table = spec.column and (form == "text" or form == "json") }, Report)
  check_interval(opt, form, refuse)
  self.unit = (self.is_table or form == "prom" or not opt.unit) and "ns" or opt.unit
  self.scale = units.duration("1" .. self.unit)
  self.names = plain_copy(spec.names or {})
  if self.column then
    self.by[#self.by + 1] = self.column
    self.key_of = key_functions(s, refuse)[opt.per]
  end
  self.into = new_values(self)
  if self.interval then s:every(self.interval .. "ns", function() print_interval(self) end) end
  s:done(function() finish(self) end)
  return self
end

return M
