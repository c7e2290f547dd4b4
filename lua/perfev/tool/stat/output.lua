--- Counts events and prints them as perf stat does: columns, CSV, JSON, and derived metrics.
-- A row is { name =, value = (nil: not counted), supported =, enabled =, running =, spread =, place = (see places.lua;
-- nil: all), cgroup = };
-- values of clocks are nanoseconds. Source of the formats: tools/perf/util/stat-display.c and stat-shadow.c of 6.1.

local lazy = require "perfev.base.lazy_module"
local aggregator = lazy "perfev.aggregate.aggregator"
local core = require "perfev.core"
local counter = require "perfev.counter.counter"
local escape = require "perfev.base.escape"
local event = require "perfev.event.declaration"
local json = require "perfev.base.json"
local grammar = require "perfev.event.grammar"
local names = require "perfev.event.perf_names"
local options = require "perfev.base.options"
local pmu = require "perfev.event.pmu"
local metric_output = require "perfev.tool.stat.metric_output"
local metrics = require "perfev.tool.stat.metrics"
local places = require "perfev.tool.stat.places"
local processes = require "perfev.event.processes"
local session = require "perfev.live.session"

local M = {}

local MONOTONIC = 1 -- CLOCK_MONOTONIC

local software = "task-clock,context-switches,cpu-migrations,page-faults,"

--- Returns the events that perf stat counts by default. Stalled cycles are among them if the CPU's PMU has them.
function M.default()
  local cpu = pmu.find "cpu"
  local stalled = ""
  for _, name in ipairs { "stalled-cycles-frontend", "stalled-cycles-backend" } do
    if cpu and pmu.alias(cpu, name) then stalled = stalled .. name .. "," end
  end
  return software .. "cycles," .. stalled .. "instructions,branches,branch-misses"
end

local NAME_WIDTH, METRIC_WIDTH = 32, 35

local function has(list, value)
  for _, one in ipairs(list) do
    if one == value then return true end
  end
  return false
end

local function parse(text)
  local tree, why = grammar.parse(text)
  if not tree then return nil, why end
  if #tree > 1 then return { { text } } end
  local units = {}
  for _, unit in ipairs(tree[1]) do
    local events = units[#units]
    if unit.group or not events or events.grouped or has(events, unit.text) then
      events = { grouped = unit.group, text = unit.group and unit.modifiers ~= "" and unit.text or nil }
      units[#units + 1] = events
    end
    for _, node in ipairs(unit.group and unit or { unit }) do events[#events + 1] = node.text end
  end
  return units
end

--- "a,b,{c,d}", … -> { { "a", "b" }, { "c", "d", grouped = true }, … } | nil, message
-- A repeated name gets a counter of its own. A group with modifiers after its brace has its text in `text`.
function M.parse(...)
  local units = {}
  for _, text in ipairs { ... } do
    local more, why = parse(text)
    if not more then return nil, why end
    table.move(more, 1, #more, #units + 1, units)
  end
  return units
end

-- ---- metrics ----

local function bare(name)
  return (name:gsub(":[%a]*$", ""):gsub("/%a+$", "/"))
end

local function is_clock(name)
  name = bare(name)
  return name == "task-clock" or name == "cpu-clock"
end

local misses = {
  ["branch-misses"] = { "branches", "of all branches" },
  ["cache-misses"] = { "cache-references", "of all cache refs" },
  ["L1-dcache-load-misses"] = { "L1-dcache-loads", "of all L1-dcache accesses" },
  ["L1-icache-load-misses"] = { "L1-icache-loads", "of all L1-icache accesses" },
  ["LLC-load-misses"] = { "LLC-loads", "of all LL-cache accesses" },
  ["dTLB-load-misses"] = { "dTLB-loads", "of all dTLB cache accesses" },
  ["iTLB-load-misses"] = { "iTLB-loads", "of all iTLB cache accesses" },
}

local stalls = {
  ["stalled-cycles-frontend"] = "frontend cycles idle", ["stalled-cycles-backend"] = "backend cycles idle",
}

local function per_second(value, clock)
  local rate = value * 1e9 / clock
  for _, unit in ipairs { "/sec", "K/sec", "M/sec" } do
    if rate < 1000 then return rate, "%8.3f", unit end
    rate = rate / 1000
  end
  return rate, "%8.3f", "G/sec"
end

--- Returns the derived metric of a row, if the events that it needs were counted.
-- @tparam table row
-- @tparam table values     all rows' values by bare name
-- @tparam integer elapsed  ns
-- @treturn number|nil
-- @treturn string  its format
-- @treturn string  its unit
function M.metric(row, values, elapsed)
  local name, value = bare(row.name), row.value
  if not value then return nil end
  -- An event of one kind of CPU: its metric uses the other events of that kind.
  local kind, inner = name:match("^([%w_]+)/([%w%-]+)/$")
  if names.find(inner or "") then
    local all = values
    values = setmetatable({}, { __index = function(_, other)
      return all[("%s/%s/"):format(kind, other)] or is_clock(other) and all[other] or nil
    end })
    name = inner
  end
  local clock = values["task-clock"] or values["cpu-clock"]
  if is_clock(name) then
    if elapsed > 0 then return value / elapsed, "%8.3f", "CPUs utilized" end
  elseif name == "instructions" and (values.cycles or 0) > 0 then
    return value / values.cycles, "%7.2f ", "insn per cycle"
  elseif stalls[name] and (values.cycles or 0) > 0 then
    return value * 100 / values.cycles, "%7.2f%%", stalls[name]
  elseif misses[name] and (values[misses[name][1]] or 0) > 0 then
    return value * 100 / values[misses[name][1]], "%7.2f%%", misses[name][2]
  elseif clock and clock > 0 then
    if name == "cycles" then return value / clock, "%8.3f", "GHz" end
    return per_second(value, clock)
  end
end

--- Returns the metric of a line below a row of instructions: stalled cycles per instruction.
function M.more(row, values)
  local stalled = math.max(values["stalled-cycles-frontend"] or 0, values["stalled-cycles-backend"] or 0)
  if bare(row.name) ~= "instructions" or not row.value or row.value == 0 or stalled == 0 then return nil end
  return stalled / row.value, "%7.2f ", "stalled cycles per insn"
end

--- Returns the mean and its standard error, absolute and in percent of the mean.
function M.spread(list)
  local sum, squares, n = 0, 0, #list
  for _, v in ipairs(list) do sum = sum + v end
  local mean = sum / n
  for _, v in ipairs(list) do squares = squares + (v - mean) ^ 2 end
  local off = n > 1 and math.sqrt(squares / (n - 1) / n) or 0
  return mean, off, mean ~= 0 and 100 * off / mean or 0
end

-- ---- lines ----

local function unit_of(row) return row.unit or is_clock(row.name) and "msec" or "" end

-- As perf prints it: clocks in ms with a fraction, counts as integers.
local function value_text(row)
  if not row.supported then return "<not supported>" end
  if not row.value then return "<not counted>" end
  if is_clock(row.name) then return ("%.2f"):format(row.value / 1e6) end
  if row.scale and row.scale ~= math.floor(row.scale) then return ("%.2f"):format(row.value * row.scale) end
  if row.scale then return ("%.0f"):format(row.value * row.scale) end
  return ("%d"):format(math.floor(row.value + 0.5))
end

local function share(row)
  return row.enabled > 0 and 100 * row.running / row.enabled or 100
end

local function metric_text(metric, format, unit)
  if not metric then return "" end
  local tail = " # " .. format:format(metric)
  return tail .. " " .. unit .. (" "):rep(METRIC_WIDTH - #tail - 1 - #unit)
end

local UNIT_WIDTH, CGROUP_WIDTH = 4, 16

local function text_line(row, metric, format, unit)
  local width = row.unit_width or UNIT_WIDTH
  local line = ("%s%18s %-" .. width .. "s %-" .. NAME_WIDTH .. "s"):format(places.column(row.place),
    value_text(row), unit_of(row), row.name)
  if row.cgroup then line = line .. (" %-" .. CGROUP_WIDTH .. "s"):format(row.cgroup) end
  if not row.value then return (line:gsub(" +$", "")) end
  local tail = metric_text(metric, format, unit)
  line = line .. tail .. (" "):rep(METRIC_WIDTH - #tail)
  if row.spread and row.spread > 0 then line = line .. ("  ( +-%6.2f%% )"):format(row.spread) end
  if row.running ~= row.enabled then line = line .. ("  (%.2f%%)"):format(share(row)) end
  return (line:gsub(" +$", ""))
end

local function text_more(row, metric, format, unit)
  local before = #places.column(row.place) + 18 + 1 + (row.unit_width or UNIT_WIDTH) + 1 + NAME_WIDTH
    + (row.cgroup and 1 + CGROUP_WIDTH or 0)
  return (" "):rep(before) .. metric_text(metric, format, unit):gsub(" +$", "")
end

local function csv_writer(sep)
  return function(row, metric, format, unit)
    local cells = places.cells(row.place)
    for _, text in ipairs { value_text(row), unit_of(row), row.name, row.cgroup } do cells[#cells + 1] = text end
    if row.spread then cells[#cells + 1] = ("%.2f%%"):format(row.spread) end
    cells[#cells + 1] = ("%d"):format(row.running)
    cells[#cells + 1] = ("%.2f"):format(share(row))
    cells[#cells + 1] = metric and (format:format(metric):gsub("[ %%]", "")) or ""
    cells[#cells + 1] = metric and unit or ""
    return table.concat(cells, sep)
  end
end

local function json_line(row, metric, _, unit)
  local value = row.supported and row.value
  local text = value and ("%.6f"):format(is_clock(row.name) and value / 1e6 or value * (row.scale or 1))
    or value_text(row)
  return ('%s"counter-value" : "%s", "unit" : %s, "event" : %s, %s%s"event-runtime" : %d, '
    .. '"pcnt-running" : %.2f, "metric-value" : %.6f, "metric-unit" : %s'):format(places.json(row.place),
    text, json.encode(unit_of(row)), json.encode(row.name),
    row.cgroup and ('"cgroup" : %s, '):format(json.encode(row.cgroup)) or "",
    row.spread and ('"variance" : %.2f, '):format(row.spread) or "", row.running, share(row), metric or 0,
    json.encode(unit or ""))
end

-- A metric of -M in separated values: the cells before it are empty.
local function csv_metric(sep)
  return function(group, text, name)
    local cells = places.cells(group.place)
    for _ = 1, group.cgroup and 6 or 5 do cells[#cells + 1] = "" end
    cells[#cells + 1], cells[#cells + 2] = text and text:gsub("[ %%]", "") or "", name
    return table.concat(cells, sep)
  end
end

local function json_metric(group, _, name, value)
  local is_number = value and value == value
  return ('%s%s"metric-value" : %s, "metric-unit" : %s'):format(places.json(group.place),
    group.cgroup and ('"cgroup" : %s, '):format(json.encode(group.cgroup)) or "",
    is_number and ("%.6f"):format(value) or "null", json.encode(name))
end

local function text_metric(group, text, name, _, width)
  local before = #places.column(group.place) + 18 + 1 + width + 1 + NAME_WIDTH
    + (group.cgroup and 1 + CGROUP_WIDTH or 0)
  return ("%s # %s %s"):format((" "):rep(before), text or "<not counted>", name)
end

--- Returns the functions that write rows as JSON, separated values or columns: { line(row, metric…), stamp(at, line),
-- metric(group, text, name, value, width) }, the last for a metric of -M.
-- `at` is the time of an interval (ns), "summary" for the sums after the last one, or nil.
function M.writer(is_json, separator)
  if is_json then
    return { line = json_line, metric = json_metric, stamp = function(ns, line)
      return math.type(ns) and ('{"interval" : %.9f, %s}'):format(ns / 1e9, line) or "{" .. line .. "}"
    end }
  elseif separator then
    separator = separator == "\\t" and "\t" or separator -- as in perf
    return { line = csv_writer(separator), metric = csv_metric(separator), stamp = function(ns, line)
      if ns == "summary" then return ("%16s%s%s"):format(ns, separator, line) end
      return ns and ("%16.9f%s%s"):format(ns / 1e9, separator, line) or line
    end }
  end
  return { line = text_line, more = text_more, metric = text_metric, for_people = true, stamp = function(ns, line)
    return math.type(ns) and ("%16.9f %s"):format(ns / 1e9, line) or line
  end }
end

--- Returns the heading of the intervals, with a column for the kind of place.
function M.head(kind)
  return ("#           time %s            counts unit events"):format(places.heading(kind))
end

-- Metrics of a row use the other counts of its place and cgroup.
local function values_key(row)
  return (row.place and row.place.name or "") .. "\0" .. (row.cgroup or "")
end

-- Prints the metrics of rows alone.
local function write_metrics(writer, rows, elapsed, at)
  local is_any = writer.only(rows, function(row, group)
    local values = group.by_name
    if not values then
      values = {}
      for _, one in ipairs(group.rows) do values[bare(one.name)] = one.value end
      group.by_name = values
    end
    local list = {}
    for _, found in ipairs { { M.metric(row, values, elapsed) }, { M.more(row, values) } } do
      if found[1] then list[#list + 1] = found end
    end
    return list
  end, math.type(at) and at or nil)
  if not is_any and writer.for_people then print " (the events have no metric)" end
end

--- Prints rows.
-- @tparam[opt] integer|string at  as for the writer's `stamp`
function M.write(writer, rows, elapsed, at)
  for _, row in ipairs(rows) do row.is_clock = is_clock(row.name) end
  if writer.only then return write_metrics(writer, rows, elapsed, at) end
  local by_place = {}
  local width = UNIT_WIDTH
  for _, row in ipairs(rows) do
    local key = values_key(row)
    by_place[key] = by_place[key] or {}
    by_place[key][bare(row.name)] = row.value
    width = math.max(width, #unit_of(row))
  end
  for _, row in ipairs(rows) do
    local values = by_place[values_key(row)]
    row.unit_width = width
    print(writer.stamp(at, writer.line(row, M.metric(row, values, elapsed))))
    if writer.more and M.more(row, values) then print(writer.stamp(at, writer.more(row, M.more(row, values)))) end
  end
  if not writer.metrics then return end
  metric_output.each(metric_output.groups(rows), writer.metrics, function(group, text, name, value)
    print(writer.stamp(at, writer.metric(group, text, name, value, width)))
  end)
end

-- ---- counting ----

local function tasks_text(opts)
  if opts.uid or opts.comm then return "processes " .. processes.describe(opts) end
  if opts.pid then return ("process id '%s'"):format(table.concat(opts.pid, ",")) end
  return opts.tid and ("thread id '%s'"):format(table.concat(opts.tid, ","))
end

-- The target in the heading. A command with -a, a cgroup or processes only sets the duration.
local function target_text(opts)
  if opts.cgroup then return ("cgroup '%s'"):format(opts.cgroup) end
  if options.is_cpu_wide(opts) then
    return opts.cpus and ("'CPU(s) %s'"):format(table.concat(opts.cpus, ",")) or "'system wide'"
  end
  return tasks_text(opts) or "'" .. table.concat(opts.command, " ") .. "'"
end

-- Returns one row for each row of several runs, with the mean.
local function averaged(runs)
  if #runs == 1 then return runs[1] end
  local rows = {}
  for i, first in ipairs(runs[1]) do
    local values, row = {}, { name = first.name, id = first.id, supported = first.supported, enabled = 0, running = 0,
      scale = first.scale, unit = first.unit, place = first.place, cgroup = first.cgroup }
    for _, run in ipairs(runs) do
      values[#values + 1] = run[i].value
      row.enabled = row.enabled + run[i].enabled
      row.running = row.running + run[i].running
    end
    row.enabled, row.running = row.enabled // #runs, row.running // #runs
    if #values > 0 then
      local _
      row.value, _, row.spread = M.spread(values)
    else
      row.spread = 0
    end
    rows[i] = row
  end
  return rows
end

local function print_elapsed(times, measured, is_commands)
  local mean, off, percent = M.spread(times)
  if #times == 1 then
    print(("\n%18.9f seconds time elapsed\n"):format(mean / 1e9))
    if not (measured.user_time and is_commands) then return end
    print(("%18.9f seconds user\n%18.9f seconds sys\n"):format(measured.user_time / 1e9, measured.system_time / 1e9))
  else
    print(("\n%18.9f +- %.9f seconds time elapsed  ( +-%6.2f%% )\n"):format(mean / 1e9, off / 1e9, percent))
  end
end

local function row_of(m, count, measured, place)
  local running = count.time_running or 0
  local row = {
    name = m.user_only and m.name .. ":u" or m.name, id = m.name, supported = not m.error,
    value = running > 0 and count.value or nil, running = running,
    enabled = count.running_ratio and count.time_enabled or running,
    scale = m.scale, unit = m.unit, place = place,
  }
  local ns = measured and measured[m.tool]
  if not ns then return row end
  local took = measured.duration_time
  return { name = m.name, id = m.name, supported = true, value = ns, enabled = took, running = took, unit = "ns",
    place = place }
end

-- True if an event is counted on this CPU: a PMU that counts for several CPUs is read on only one.
local function is_on(m, cpu)
  return not m.cpus or has(m.cpus, cpu)
end

-- Returns the sum of two counts.
local function add_counts(one, other)
  if not one then return other end
  local both = setmetatable({}, { __index = one })
  for _, field in ipairs { "value", "raw", "time_enabled", "time_running" } do
    both[field] = (one[field] or other[field]) and (one[field] or 0) + (other[field] or 0)
  end
  return both
end

-- The rows of an event, one for each place of the CPUs that count it. What perf stat measures itself has no CPU: it is
-- in the first row alone.
local function rows_of_places(m, cpus, readings, measured, kind)
  local rows, counted = {}, {}
  local is_known = measured and measured[m.tool]
  for i, cpu in ipairs(cpus) do
    if is_known and i == 1 or not is_known and is_on(m, cpu) then counted[#counted + 1] = cpu end
  end
  for i, place in ipairs(places.of_cpus(counted, kind == "cpu" and m.per_core and "core" or kind)) do
    local sum
    for _, cpu in ipairs(place.cpus) do sum = add_counts(sum, readings[cpu].counts[m.name] or {}) end
    if kind == "cpu" then place.nr = nil end
    rows[i] = row_of(m, sum, measured, place)
  end
  return rows
end

-- Puts the rows of a place together, in the order of the first rows of the places.
local function order_by_place(rows)
  local of, ordered = {}, {}
  for _, row in ipairs(rows) do
    local name = row.place.name
    if not of[name] then
      of[name] = {}
      of[#of + 1] = of[name]
    end
    table.insert(of[name], row)
  end
  for _, list in ipairs(of) do table.move(list, 1, #list, #ordered + 1, ordered) end
  return ordered
end

--- Returns the readings of all events of some counters, as rows in the order of perf stat: by event, or by core, die,
-- socket and node.
-- @tparam {counter,...} counters
-- @tparam string verb  "read" or "delta"
-- @tparam[opt] table measured  ns of perf stat's own events: duration_time, user_time, system_time; one row each
-- @tparam[opt] string kind  rows for each place of CPUs: "cpu", "core", "die", "socket", "node"
-- @tparam[opt] table targets  counter -> { place =, cgroup = }, for counters with targets of their own
-- @treturn[1] {table,...}
-- @treturn[2] nil
-- @treturn[2] string   why a counter cannot be read
function M.rows(counters, verb, measured, kind, targets)
  local rows = {}
  for _, c in ipairs(counters) do
    local target = targets and targets[c] or {}
    local cpus, readings, all, why = kind and c:cpus() or {}, {}
    for _, cpu in ipairs(cpus) do
      readings[cpu], why = c[verb](c, cpu)
      if not readings[cpu] then return nil, why end
    end
    if not kind then
      all, why = c[verb](c)
      if not all then return nil, why end
    end
    for _, m in ipairs(c:events()) do
      local own = all and { row_of(m, all.counts[m.name] or {}, measured, target.place) }
        or rows_of_places(m, cpus, readings, measured, kind)
      for _, row in ipairs(own) do
        row.cgroup = target.cgroup
        rows[#rows + 1] = row
      end
    end
  end
  return kind and kind ~= "cpu" and order_by_place(rows) or rows
end

local function print_all(writer, opts, runs, times, measured, at)
  if writer.for_people then
    print(("\n Performance counter stats for %s%s:\n"):format(escape(target_text(opts)),
      #times > 1 and (" (%d runs)"):format(#times) or ""))
  end
  M.write(writer, averaged(runs), (M.spread(times)), at)
  if writer.for_people then print_elapsed(times, measured, not tasks_text(opts)) end
end

--- Runs the session as often as asked, and prints the counts at the end.
-- @tparam table opt         `repeat`, `interval_print` and `summary`
-- @tparam table writer
-- @tparam session s         the first run; the others are its clones
-- @tparam function prepare  (session, finished): declares the counters; they call finished(rows, measured) at the end
--                           of the run, `measured` as for M.rows
function M.run(opt, writer, s, prepare)
  local runs, times = {}, {}
  local function finished(rows, measured)
    runs[#runs + 1], times[#times + 1] = rows, measured.duration_time
  end
  prepare(s, function(rows, measured)
    finished(rows, measured)
    while #runs < opt["repeat"] and not s:_is_interrupted() do
      local twin = s:clone()
      prepare(twin, finished)
      assert(twin:run())
      -- An interrupted run is not a sample of the mean.
      if s:_is_interrupted() then runs[#runs], times[#times] = nil, nil end
    end
    if opt.interval_print and not opt.summary then return end
    print_all(writer, s.opts, runs, times, measured, opt.interval_print and "summary" or nil)
  end)
end

-- Values that perf stat measures itself, in ns; for a command also its CPU time.
local function measure(s, took, user_before, system_before)
  local measured = { duration_time = took }
  if session.children_time and s.command_status and not options.is_cpu_wide(s.opts) then
    local user, system = session.children_time()
    measured.user_time, measured.system_time = user - user_before, system - system_before
  end
  return measured
end

-- Makes a counter or group for each of `units`: of the session, or with a target of its own.
local function make_counters(s, units, target)
  local counters = {}
  for _, unit in ipairs(units) do
    local spec, grouped = {}, unit.grouped and not unit.text
    for word, value in pairs(target) do spec[word] = value end
    for k, name in ipairs(unit.text and { unit.text } or unit) do spec[k] = { name, optional = "unsupported" } end
    local c, why, code = counter.new(spec, grouped, 3, s)
    if not c then return nil, why, code end
    counters[#counters + 1] = c
  end
  return counters
end

local function flag_of(option) return "--" .. option:gsub("_", "-") end

local kinds = { { "no_aggr", "cpu" }, { "per_core", "core" }, { "per_die", "die" }, { "per_socket", "socket" },
  { "per_node", "node" } }

-- Returns the kind of place for which the options ask, and the flag; nil, nil and a message if they ask for two.
local function kind_of(opt)
  local kind, flag
  for _, one in ipairs(kinds) do
    local other = flag_of(one[1])
    if opt[one[1]] and flag then return nil, nil, ("%s and %s at once\n  try: %s"):format(flag, other, flag) end
    if opt[one[1]] then kind, flag = one[2], other end
  end
  return kind, flag
end

-- Makes counters for each cgroup or thread that has counts of its own -> counters, counter -> { place =, cgroup = }
local function make_separate_counters(s, units, opt)
  local all, targets = {}, {}
  local function add(target, shown)
    local counters, why, code = make_counters(nil, units, target)
    if not counters then return nil, why, code end
    for _, c in ipairs(counters) do all[#all + 1], targets[c] = c, shown end
    return true
  end
  for path in (opt.for_each_cgroup or ""):gmatch "[^,]+" do
    local ok, why = add({ cgroup = path, disabled = true }, { cgroup = path })
    if not ok then return nil, why end
  end
  for _, tid in ipairs(opt.per_thread and s.target.pids or {}) do
    local ok, why, code = add({ tid = tid, inherit = false, disabled = true }, { place = places.of_thread(tid) })
    if not ok and code ~= core.errno.ESRCH then return nil, why end -- ESRCH: it has ended
  end
  return all, targets
end

-- Counts the targets of session s; calls finished(rows, measured) at the end.
local function count_session(s, units, opt, writer, refuse, finished)
  local is_separate = opt.for_each_cgroup or opt.per_thread
  local kind, flag = kind_of(opt)
  local counters, targets = {}
  local began, last, user, system, intervals = 0, 0, 0, 0, 0 -- last: ns since `began`
  if not is_separate then counters = assert(make_counters(s, units, { disabled = opt.delay and true or nil })) end
  local function read(verb, measured)
    local rows, why = M.rows(counters, verb, measured, kind, targets)
    return rows or refuse(why, 1)
  end
  local function print_interval()
    local at = core.clock(MONOTONIC) - began
    M.write(writer, read("delta", { duration_time = at - last }), at - last, at)
    last, intervals = at, intervals + 1
    if intervals == opt.interval_count then s:stop() end
  end
  local function start_counting()
    for _, c in ipairs((is_separate or opt.delay) and counters or {}) do
      local ok, why = c:enable()
      if not ok then refuse(why, 1) end
    end
    began = core.clock(MONOTONIC)
    if session.children_time then user, system = session.children_time() end
    if opt.interval_print then s:every(opt.interval_print / 1000, print_interval) end
  end
  s:begin(function()
    local is_of_tasks = not (options.is_cpu_wide(s.opts) or s.opts.cpus or opt.for_each_cgroup)
    if kind and is_of_tasks then refuse(flag .. ": counts of tasks have no CPU\n  try: -a, or -C") end
    if opt.per_thread and not is_of_tasks then refuse "--per-thread: counts of CPUs have no thread\n  try: -p PID" end
    if is_separate then
      local why
      counters, targets = make_separate_counters(s, units, opt)
      if not counters then
        counters, why = {}, targets
        refuse(why, 1)
      end
    end
    if opt.interval_print and writer.for_people and not writer.only then
      print(M.head(kind or opt.per_thread and "thread"))
    end
    if opt.delay then s:after(opt.delay / 1000, start_counting) else start_counting() end
  end)
  s:done(function()
    local measured = measure(s, began > 0 and core.clock(MONOTONIC) - began or 0, user, system)
    if opt.interval_print and began > 0 and intervals ~= opt.interval_count then print_interval() end
    finished(read("read", measured), measured)
    for _, c in ipairs(is_separate and counters or {}) do c:close() end
  end)
end

-- Refuses events that do not exist. A missing right is not a mistake of the command line: its status is 1.
local function check_events(units, refuse)
  for _, unit in ipairs(units) do
    for _, name in ipairs(unit) do
      local found, why, code = event.resolve(name)
      if not found then refuse(why, code == core.errno.EACCES and 1 or nil) end
    end
  end
end

-- The metrics of -M and --topdown, and units with the events that they need beyond `units`.
local function metrics_of(opt, units, refuse)
  local list, groups, why = {}, nil, nil
  if #(opt.metric or {}) > 0 and not opt.metrics then
    refuse "-M: no metrics are known without a table\n  try: --metrics FILE, a file of tools/perf/pmu-events/arch/"
  end
  if opt.topdown and not opt.metrics then
    list, groups = metrics.topdown()
    why = not list and groups
  elseif opt.metrics then
    local chosen = table.move(opt.metric or {}, 1, #(opt.metric or {}), 1, {})
    if opt.topdown then chosen[#chosen + 1] = "TopdownL1" end
    if not chosen[1] then refuse "--metrics: no metric is chosen\n  try: -M NAME" end
    list, why = metrics.read(opt.metrics, chosen)
  end
  if why then refuse(why) end
  local seen = {}
  for _, unit in ipairs(units) do
    for _, name in ipairs(unit) do seen[name] = true end
  end
  for _, group in ipairs(groups or {}) do
    units[#units + 1] = group
    for _, name in ipairs(group) do seen[name] = true end
  end
  local unit = {}
  for _, metric in ipairs(list) do
    for _, name in ipairs(metric.events) do
      if not seen[name] then unit[#unit + 1], seen[name] = name, true end
    end
  end
  units[#units + 1] = unit[1] and unit or nil
  return list
end

--- See perfev.tool.print_stat.
-- @tparam function refuse  (who, why, status): ends the script
function M.print(who, opt, refuse)
  local function refuse_script(why, status) refuse(who, why, status) end
  local has_metrics = opt.topdown or opt.metrics or #(opt.metric or {}) > 0
  local is_chosen = #opt.events > 0 or has_metrics
  local units, wrong = M.parse(table.unpack(is_chosen and opt.events or { M.default() }))
  if not units then refuse_script(wrong) end
  local list = metrics_of(opt, units, refuse_script)
  if is_chosen then check_events(units, refuse_script) end
  if opt["repeat"] < 1 then refuse_script "--repeat: at least once" end
  if opt.interval_print and opt.interval_print < 1 then refuse_script "--interval-print: at least a millisecond" end
  if opt.delay and opt.delay < 1 then refuse_script "--delay: at least a millisecond" end
  if opt.interval_count and opt.interval_count < 1 then refuse_script "--interval-count: at least once" end
  for _, flag in ipairs { "interval_count", "summary" } do
    if opt[flag] and not opt.interval_print then
      refuse_script(flag_of(flag) .. ": without intervals\n  try: -I 1000")
    end
  end
  local kind, flag, twice = kind_of(opt)
  if twice then refuse_script(twice) end
  if opt.per_thread and (kind or opt.for_each_cgroup) then
    refuse_script(("--per-thread and %s at once\n  try: --per-thread"):format(flag or "--for-each-cgroup"))
  end
  local is_json = opt.json_output or aggregator.default_form == "json"
  local writer = M.writer(is_json, opt.field_separator)
  writer.metrics = list[1] and list or nil
  if opt.metric_only or opt.topdown then writer.only = metric_output.only(is_json, opt.field_separator, list) end
  M.run(opt, writer, session.default(), function(s, finished)
    count_session(s, units, opt, writer, refuse_script, finished)
  end)
end

return M
