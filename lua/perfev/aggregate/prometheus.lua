--- Aggregators in Prometheus' text format 0.0.4: for a:print("prom"), and for /metrics of perfl --http.
--
-- C copies the cells to a table by label, and writes that (src/aggregate/exposition.h); this file chooses the names
-- and types. Durations are in seconds, with all digits. A column of stacks or times is no label: the values of its
-- keys are added up.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local exported = require "perfev.aggregate.exported"

local M = {}

local CELLS, BYTES = 256, 16384 -- of one step
local ALL = 1 << 32 -- cells of a `top`: they can move between two steps

--- Units of time -> the decimal digits of a second.
M.digits_of = { ns = 9, us = 6, ms = 3, s = 0 }

local function word(text) return (text:gsub("[^%w]+", "_"):gsub("^_+", ""):gsub("_+$", "")) end

--- The name of a metric without a suffix: with its base unit.
-- @tparam string name     as of perfev.aggregate.exported
-- @tparam[opt] string unit  of the values
function M.base_name(name, unit)
  name = "perfev_" .. name
  unit = M.digits_of[unit] and "seconds" or word((unit or ""):lower())
  if unit == "b" then unit = "bytes" end
  if unit == "" or unit == "count" or ("_" .. name):sub(-#unit - 1) == "_" .. unit then return name end
  return name .. "_" .. unit
end

-- Names of labels that the format itself uses.
local RESERVED = { le = true, quantile = true }

local function is_label(column)
  local name = column:gsub("^start%.", ""):gsub("^via%.", "")
  return name ~= "time" and not name:find "^[uk]?stack$"
end

-- The names of the columns as labels: args.next_comm is next_comm, unless another column is, too. Prometheus drops
-- labels that begin with __: args.__probe_func is probe_func. False: the column is no label.
local function label_names(by)
  local uses, labels, taken = {}, {}, {}
  for i, name in ipairs(by) do
    labels[i] = is_label(name)
      and name:gsub("^args%.", ""):gsub(":text$", ""):gsub("[^%w_]", "_"):gsub("^__+", ""):gsub("^%d", "_%0")
    if labels[i] then uses[labels[i]] = (uses[labels[i]] or 0) + 1 end
  end
  for i, name in ipairs(by) do
    local label = labels[i]
    if label and (uses[label] > 1 or RESERVED[label] or label == "") then
      label = "by_" .. name:gsub("[^%w_]", "_")
    end
    local base, nr = label, 1
    while label and taken[label] do -- args.a.b and args.a_b
      nr = nr + 1
      label = ("%s_%d"):format(base, nr)
    end
    labels[i] = label
    if label then taken[label] = true end
  end
  return labels
end

-- Kind -> its metrics: suffix, type, samples.
local COUNTER, GAUGE = "counter", "gauge"
local families_of = {
  count = { { "_total", COUNTER, "count" } },
  top = { { "_total", COUNTER, "count" } },
  sum = { { "_total", COUNTER, "sum" } },
  avg = { { "", "summary", "totals" } },
  min = { { "", GAUGE, "min" } },
  max = { { "", GAUGE, "max" } },
  stats = { { "", "summary", "totals" }, { "_min", GAUGE, "min" }, { "_max", GAUGE, "max" } },
  hist = { { "", "histogram", "histogram" } },
  linear = { { "", "histogram", "histogram" } },
  quantile = { { "", "summary", "quantiles" } },
}
local falling_sum = { { "", GAUGE, "sum" } }
-- The suffixes of a metric's samples.
local samples_of = { histogram = { "", "_bucket", "_sum", "_count" }, summary = { "", "_sum", "_count" } }

--- The names of all samples that an aggregator can have.
-- @tparam string kind
-- @tparam string name     as of perfev.aggregate.exported
-- @tparam[opt] string unit  of the values
-- @treturn {string,...}
function M.sample_names(kind, name, unit)
  local base = M.base_name(name, unit)
  local names = { base } -- also the name of a counter without _total, as in OpenMetrics
  for _, family in ipairs(families_of[kind]) do
    for _, suffix in ipairs(samples_of[family[2]] or { "" }) do names[#names + 1] = base .. family[1] .. suffix end
  end
  return names
end

-- Its own backslashes last: those of escape() are text.
local function help_text(text) return (escape(text):gsub("\\", "\\\\")) end

--- The lines above the samples of a metric.
-- @tparam string name
-- @tparam string kind   "counter", "gauge", …
-- @tparam string help
function M.head(name, kind, help)
  return ("# HELP %s %s\n# TYPE %s %s\n"):format(name, help_text(help), name, kind)
end

--- A sample with an integer or a float, and its labels.
-- @tparam string name
-- @tparam {string,...} labels  name, value, name, value …
-- @tparam number value
function M.sample(name, labels, value)
  local text = math.type(value) == "float" and ("%.15g"):format(value) or tostring(value)
  if value ~= value then text = "NaN" end -- not -nan, which Prometheus cannot read
  return ("%s%s %s\n"):format(name, core.label_text(table.unpack(labels)), text)
end

-- A step: adds cells to the exposition. True: all are added.
local function take(self)
  if not self.exposition then
    self.source, self.from = self.get(), 0
    self.exposition = core.exposition({ labels = label_names(self.spec.by), names = self.names,
      digits = M.digits_of[self.spec.unit], max_series = self.max_series }, self.source)
  end
  local from = core.exposition_add(self.source, self.exposition, self.from,
    self.spec.kind == "top" and ALL or CELLS)
  if from then
    self.from = from
  elseif from == false or self.get() ~= self.source then
    self.exposition = nil -- the script emptied the aggregator: its values have moved
  else
    local can_fall = self.spec.kind == "sum" and self.exposition:has_negative()
    self.families, self.from = can_fall and falling_sum or families_of[self.spec.kind], 0
    return true
  end
end

-- A step: returns text.
local function write(self)
  local suffix, kind, samples = table.unpack(self.families[self.family])
  local name, head = self.name .. suffix, ""
  if self.from == 0 then head = M.head(name, kind, self.help) end
  local text
  text, self.from = self.exposition:text(name, samples, self.from, BYTES)
  if not self.from then self.family, self.from = self.family + 1, 0 end
  return head .. text
end

--- Returns an iterator over the metrics of an aggregator as text, in steps that are short.
-- @tparam table spec     of the aggregator
-- @tparam function get   -> the aggregator; one with more values if the script has emptied it meanwhile
-- @tparam[opt] table opts  `name`, `max_series`: the others are one with the labels "(other)"
-- @treturn function      -> text, "" if the step has written nothing; nil at the end
function M.pieces(spec, get, opts)
  local names = {}
  for i, column in ipairs(spec.by) do names[i] = spec.names and spec.names[column] or false end
  local kind = spec.word or spec.kind
  local name = opts and opts.name or exported.name_of { kind = kind, columns = spec.by, title = spec.title }
  local self = {
    spec = spec, get = get, names = names, name = M.base_name(name, spec.unit), family = 1,
    help = spec.title or ("perfev.%s%s"):format(kind,
      #spec.by > 0 and " by " .. table.concat(spec.by, ", ") or ""),
    max_series = opts and opts.max_series or 1 << 28,
  }
  return function()
    if not self.families then
      take(self)
      return ""
    end
    return self.families[self.family] and write(self)
  end
end

return M
