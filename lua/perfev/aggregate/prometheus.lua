--- A histogram in Prometheus' text format 0.0.4, for a:print("prom").
-- `le` is inclusive and the upper bound of our buckets is not, so `le` is the largest value of a bucket. Durations are
-- in seconds, with all digits.

local escape = require "perfev.base.escape"

local ns_per = { ns = 1, us = 1000, ms = 1000000, s = 1000000000 }

-- An integer of ns as seconds: 1500000 -> "0.0015".
local function seconds(ns)
  local sign, size = ns < 0 and "-" or "", math.abs(ns)
  return (("%s%d.%09d"):format(sign, size // 1000000000, size % 1000000000):gsub("%.?0+$", ""))
end

-- True if it is less than 292 years.
local function fits(value, scale)
  local most = math.maxinteger // scale
  return -most < value and value < most
end

-- The text of an integer in the unit of the histogram; nil if it does not fit.
local function number(value, scale)
  if not scale then return tostring(value) end
  return fits(value, scale) and seconds(value * scale) or nil
end

-- The largest value of a bucket, in ns if the unit is one of time: 4 us have 3999 ns at most.
local function bound(high, scale)
  if not scale then return tostring(high - 1) end
  return fits(high, scale) and seconds(high * scale - 1) or nil
end

local function word(text) return (text:gsub("[^%w]+", "_"):gsub("^_+", ""):gsub("_+$", "")) end

local function metric_name(spec)
  local name = word((spec.title or ""):lower())
  local unit = ns_per[spec.unit] and "seconds" or word(spec.unit or "")
  return "perfev_" .. (name ~= "" and name or "histogram") .. (unit ~= "" and "_" .. unit or "")
end

-- The names of the columns as labels: args.next_comm is next_comm, unless another column is, too. Prometheus drops
-- labels that begin with __: args.__probe_func is probe_func.
local function label_names(by)
  local uses, labels = { le = 1 }, {}
  for i, name in ipairs(by) do
    labels[i] = name:gsub("^args%.", ""):gsub(":text$", ""):gsub("[^%w_]", "_"):gsub("^__+", ""):gsub("^%d", "_%0")
    uses[labels[i]] = (uses[labels[i]] or 0) + 1
  end
  for i, name in ipairs(by) do
    if uses[labels[i]] > 1 then labels[i] = "by_" .. name:gsub("[^%w_]", "_") end
  end
  return labels
end

local quoted = { ["\n"] = "\\n", ["\\"] = "\\\\", ['"'] = '\\"' }

-- The format escapes three characters; other control characters would reach a terminal.
local function label_value(value)
  return (tostring(value):gsub("[^\n\\\"]+", escape):gsub("[\n\\\"]", quoted))
end

-- Its own backslashes last: those of escape() are text.
local function help_text(text) return (escape(text):gsub("\\", "\\\\")) end

local function add_row(lines, name, labels, row, scale)
  local pairs_of = {}
  for i, label in ipairs(labels) do pairs_of[i] = ('%s="%s"'):format(label, label_value(row[i])) end
  local own = table.concat(pairs_of, ",")
  local count = 0
  local function bucket(le)
    lines[#lines + 1] = ('%s_bucket{%s%sle="%s"} %d'):format(name, own, own ~= "" and "," or "", le, count)
  end
  for _, one in ipairs(row.value.buckets) do
    count = count + one.count
    local le = one.high and bound(one.high, scale)
    if le then bucket(le) end
  end
  bucket "+Inf"
  own = own ~= "" and "{" .. own .. "}" or ""
  local sum = number(row.value.sum, scale) or ("%.17g"):format(row.value.sum * (scale / 1e9))
  lines[#lines + 1] = ("%s_sum%s %s"):format(name, own, sum)
  lines[#lines + 1] = ("%s_count%s %d"):format(name, own, count)
end

--- Returns the lines.
-- @tparam table spec  of the aggregator: `by`, `title`, `unit`
-- @tparam table rows  lists of the keys' texts, each with `value`
-- @tparam {string,...} remarks
return function(spec, rows, remarks)
  local name, labels, lines = metric_name(spec), label_names(spec.by), {}
  lines[1] = ("# HELP %s %s"):format(name, help_text(spec.title or "a histogram of perfev"))
  lines[2] = ("# TYPE %s histogram"):format(name)
  for _, row in ipairs(rows) do add_row(lines, name, labels, row, ns_per[spec.unit]) end
  for _, remark in ipairs(remarks) do lines[#lines + 1] = "# " .. remark end
  return lines
end
