--- Metrics of perf stat -M and --topdown: perf's metric tables, and the topdown events of a CPU.
-- A metric is { name =, tree =, scale =, unit =, events = }. Its tree has no references to other metrics.

local core = require "perfev.core"
local expression = require "perfev.tool.stat.expression"
local escape = require "perfev.base.escape"
local json = require "perfev.base.json"
local pmu = require "perfev.event.pmu"

local M = {}

local function fail(text, ...) error({ why = text:format(...) }, 0) end

-- f(...) -> its result | nil, message of fail()
local function guarded(f, ...)
  local ok, result = pcall(f, ...)
  if ok then return result end
  if type(result) == "table" and result.why then return nil, result.why end
  error(result, 0)
end

local MOST_METRICS = 1000 -- to which a metric refers, each time counted

-- "100%" -> 100, "%"; as perf_pmu__convert_scale()
local function scale_of(text)
  local digits, unit = (text or ""):match "^([%d.eE+-]+)(.*)$"
  local scale = digits and tonumber(digits)
  return scale, scale and unit
end

-- ---- tables ----

local function read_table(path)
  local file <close>, _, code = io.open(path) -- the user's file, also beside a simulated kernel
  local text = file and file:read "a"
  if not text then fail("--metrics: cannot read '%s': %s", escape(path), core.strerror(code or core.errno.EISDIR)) end
  local list, why = json.decode(text)
  if not list then fail("--metrics: '%s' is not JSON: %s", escape(path), why) end
  local rows = {}
  for _, row in ipairs(type(list) == "table" and list or {}) do
    if type(row) == "table" and type(row.MetricName) == "string" and type(row.MetricExpr) == "string" then
      rows[#rows + 1] = row
    end
  end
  if not rows[1] then
    fail("--metrics: '%s' has no metrics\n  each is an object with MetricName and MetricExpr\n"
      .. "  try: a file of tools/perf/pmu-events/arch/", escape(path))
  end
  return rows
end

local function is_in_group(row, wanted)
  for group in (type(row.MetricGroup) == "string" and row.MetricGroup or ""):gmatch "[^;]+" do
    if group:lower() == wanted then return true end
  end
  return false
end

-- The rows of the table with this name, or of this group.
local function find(rows, word)
  local found, wanted, names = {}, word:lower(), {}
  for _, row in ipairs(rows) do
    names[#names + 1] = row.MetricName
    if row.MetricName:lower() == wanted then return { row } end
    if is_in_group(row, wanted) then found[#found + 1] = row end
  end
  if found[1] then return found end
  local near = core.nearest(word, names)
  fail("-M '%s': no such metric or group%s\n  try: -M %s", escape(word),
    near and (" (did you mean '%s'?)"):format(escape(near)) or "", escape(near or names[1]))
end

-- Replaces the names of other metrics in a tree by their trees. `path`: the metrics around it.
local function resolve(tree, by_name, path)
  local row = tree.op == "event" and by_name[tree.text:lower()]
  if not row then
    for i, part in ipairs(tree) do tree[i] = resolve(part, by_name, path) end
    return tree
  end
  local name = row.MetricName
  path[1] = (path[1] or 0) + 1 -- names are strings
  if path[name] or path[1] > MOST_METRICS then
    fail("-M '%s': the metric refers to %s", escape(name), path[name] and "itself" or "too many others")
  end
  path[name] = true
  local inner, why = expression.parse(row.MetricExpr)
  if not inner then fail("-M '%s': '%s': %s", escape(name), escape(row.MetricExpr), escape(why)) end
  inner = resolve(inner, by_name, path)
  path[name] = nil
  return inner
end

local function new_metric(row, by_name)
  local tree = resolve({ op = "event", text = row.MetricName }, by_name, {})
  local scale, unit = scale_of(type(row.ScaleUnit) == "string" and row.ScaleUnit or nil)
  return { name = escape(row.MetricName), tree = tree, scale = scale, unit = unit and escape(unit),
    events = expression.events(tree) }
end

--- Reads metrics from one of perf's tables.
-- @tparam string path     a JSON file
-- @tparam {string,...} lists  names of metrics and groups, as in "IPC,TopdownL1"
-- @treturn[1] {metric,...}
-- @treturn[2] nil
-- @treturn[2] string  the cause
function M.read(path, lists)
  return guarded(function()
    local rows, by_name, metrics, seen = read_table(path), {}, {}, {}
    for _, row in ipairs(rows) do by_name[row.MetricName:lower()] = row end
    for word in table.concat(lists, ","):gmatch "[^,]+" do
      for _, row in ipairs(find(rows, word)) do
        if not seen[row] then metrics[#metrics + 1], seen[row] = new_metric(row, by_name), true end
      end
    end
    if not metrics[1] then fail "-M: no metric is named\n  try: -M NAME" end
    return metrics
  end)
end

-- ---- topdown ----

local function percent(name, text)
  local tree = assert(expression.parse(text))
  return { name = name, tree = tree, scale = 100, unit = "%", events = expression.events(tree), is_plain = true }
end

-- Since Ice Lake: four counts that add up to the slots. They are in a group that slots leads.
local function slots_metrics(cpu)
  local function event(name) return ("%s@topdown\\-%s@"):format(cpu, name) end
  local parts = { "retiring", "bad\\-spec", "fe\\-bound", "be\\-bound" }
  for i, name in ipairs(parts) do parts[i] = event(name) end
  local metrics = {}
  for i, name in ipairs { "Retiring", "Bad Speculation", "Frontend Bound", "Backend Bound" } do
    metrics[i] = percent(name, ("d_ratio(%s, %s)"):format(parts[i], table.concat(parts, " + ")))
  end
  local group = { grouped = true, ("%s/slots/"):format(cpu) }
  for i, name in ipairs { "retiring", "bad-spec", "fe-bound", "be-bound" } do
    group[i + 1] = ("%s/topdown-%s/"):format(cpu, name)
  end
  return metrics, { group }
end

-- Before: td_bad_spec() and its neighbours in tools/perf/util/stat-shadow.c; small negative shares are errors of
-- measurement (sanitize_val()).
local function bubbles_metrics(cpu)
  local function event(name) return ("%s@topdown\\-%s@"):format(cpu, name:gsub("%-", "\\-")) end
  local function sane(text) return ("(0 if (%s < 0) & (%s > 0 - 0.02) else %s)"):format(text, text, text) end
  local total, issued, retired = event "total-slots", event "slots-issued", event "slots-retired"
  local retiring = ("d_ratio(%s, %s)"):format(retired, total)
  local frontend = ("d_ratio(%s, %s)"):format(event "fetch-bubbles", total)
  local bad = sane(("d_ratio(%s - %s + %s, %s)"):format(issued, retired, event "recovery-bubbles", total))
  local sum = ("(%s + %s + %s)"):format(frontend, bad, retiring)
  return { percent("retiring", retiring), percent("bad speculation", bad), percent("frontend bound", frontend),
    percent("backend bound", ("%s if %s else 0"):format(sane(("(1 - %s)"):format(sum)), sum)) }, nil
end

--- Returns the metrics of --topdown, and groups of events that must be counted together, or nil.
-- @treturn[2] nil
-- @treturn[2] string  the cause
function M.topdown()
  for _, name in ipairs { "cpu", "cpu_core" } do
    local found = pmu.find(name)
    if found and pmu.alias(found, "topdown-retiring") then return slots_metrics(name) end
    if found and pmu.alias(found, "topdown-total-slots") then return bubbles_metrics(name) end
  end
  return nil, "--topdown: the CPU has no topdown events\n"
    .. "  Intel's CPUs have them; a virtual machine often has none\n  try: --metrics FILE, with the group TopdownL1"
end

--- Returns the value of a metric, scaled; nil: an event was not counted.
-- @tparam table values  event -> number
function M.value(metric, values)
  local value = expression.evaluate(metric.tree, values)
  return value and value * (metric.scale or 1)
end

--- Returns the format and the name that perf prints.
function M.label(metric)
  if metric.is_plain then return "%8.1f%%", metric.name end
  if metric.scale then return "%8.1f", ("%s  %s"):format(metric.unit, metric.name) end
  return "%8.2f", metric.name
end

return M
