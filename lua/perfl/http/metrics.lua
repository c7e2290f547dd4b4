--- /metrics: the aggregators and profiles of the script for Prometheus, in text format 0.0.4.
--
-- Each aggregator has at most MAX_SERIES series; the keys that came later are one, "(other)", so that no counter falls.
-- A profile has only its totals.

local exported = require "perfev.aggregate.exported"
local native = require "perfl.core"
local perfev = require "perfev"
local prometheus = require "perfev.aggregate.prometheus"

local M = {}

local MAX_SERIES = 2000
local TYPE = "text/plain; version=0.0.4; charset=utf-8"

-- A metric with these samples: labels, value, labels, value …
local function metric(name, kind, help, ...)
  local lines = { prometheus.head(name, kind, help) }
  for i = 1, select("#", ...), 2 do
    local labels, value = select(i, ...)
    lines[#lines + 1] = prometheus.sample(name, labels, value)
  end
  return table.concat(lines)
end

-- Metrics of the run itself.
local function run_metrics(server)
  local totals = server.session:totals()
  local _, refused = server.native:connections()
  return table.concat {
    metric("perfev_build_info", "gauge", "Version of perfl, and its script.",
      { "version", perfev._VERSION:match "%S+$", "script", server.script }, 1),
    metric("perfev_records_total", "counter", "Records delivered.", {}, totals.delivered),
    metric("perfev_lost_records_total", "counter", "Records that the kernel could not write.", {}, totals.lost),
    metric("perfev_late_records_total", "counter", "Records older than one that was delivered.", {}, totals.late),
    metric("perfev_callback_errors_total", "counter", "Errors in the script's callbacks.", {},
      totals.callback_errors),
    metric("perfev_cpu_seconds_total", "counter", "CPU time of perfl.", {}, native.cpu_time() + 0.0),
    metric("perfev_refused_connections_total", "counter", "Connections beyond the limit.", {}, refused),
  }
end

-- Returns the labels and the value of a sample for each aggregator.
local function by_aggregator(entries, value)
  local samples = {}
  for _, entry in ipairs(entries) do
    table.move({ { "aggregator", entry.name }, value(entry.get()) }, 1, 2, #samples + 1, samples)
  end
  return table.unpack(samples)
end

local function sum_of(counts)
  local sum = 0
  for _, n in pairs(counts) do sum = sum + n end
  return sum
end

-- What is in no series of the aggregators.
local function aggregator_metrics(entries)
  if #entries == 0 then return "" end
  return table.concat {
    metric("perfev_keys", "gauge", "Keys of an aggregator.", by_aggregator(entries, function(a) return #a end)),
    metric("perfev_other_values_total", "counter", "Values of keys beyond max_keys or max_bytes.",
      by_aggregator(entries, function(a) return (select(2, a:other())) or 0 end)),
    metric("perfev_uncounted_records_total", "counter", "Records without a field that the aggregator needs.",
      by_aggregator(entries, function(a) return sum_of(a:uncounted()) end)),
    metric("perfev_refused_values_total", "counter", "Values not counted for want of memory.",
      by_aggregator(entries, function(a) return a:refused() end)),
  }
end

-- Iterates over the pieces of all sources: functions that return text, "" or nil.
local function chain(sources)
  local i = 1
  return function()
    while sources[i] do
      local text = sources[i]()
      if text then return text end
      i = i + 1
    end
  end
end

-- The pieces until one fails, such as by a function of names: the other metrics are served without this aggregator.
local function unless_failed(server, entry, pieces)
  local path = "/metrics: " .. entry.name
  return function() return (server:call(path, pieces)) end
end

-- An iterator with one piece: the result of f.
local function once(f, ...)
  local args = table.pack(...)
  return function()
    if not args then return nil end
    local text = f(table.unpack(args, 1, args.n))
    args = nil
    return text
  end
end

-- The name of a profile's total, without a suffix.
local function value_name(name, value)
  return prometheus.base_name(exported.name_of { title = name .. " " .. value.name }, value.unit)
end

-- The totals of a profile: its stacks are no labels.
local function profile_metrics(entry)
  local texts = {}
  for i, value in ipairs(entry.follower:sums()) do
    local one = entry.source.values[i]
    local name = value_name(entry.name, one) .. "_total"
    local digits = prometheus.digits_of[one.unit] or 0
    texts[i] = metric(name, "counter", ("%s of %s."):format(one.name, entry.source.title or entry.name), {},
      digits > 0 and value / 10 ^ digits or value)
  end
  return table.concat(texts)
end

-- The names that are taken; at first those of the run.
local function own_names()
  local names = {}
  for name in ("build_info records_total lost_records_total late_records_total callback_errors_total cpu_seconds_total "
    .. "refused_connections_total keys other_values_total uncounted_records_total refused_values_total"):gmatch "%S+" do
    names["perfev_" .. name], names["perfev_" .. name:gsub("_total$", "")] = true, true
  end
  return names
end

-- The names of the samples that an entry has under this name.
local function names_under(entry, name)
  if entry.kind ~= "profile" then return prometheus.sample_names(entry.kind, name, entry.source:spec().unit) end
  local names = {}
  for _, value in ipairs(entry.source.values) do
    local base = value_name(name, value)
    table.move({ base, base .. "_total" }, 1, 2, #names + 1, names)
  end
  return names
end

-- Gives the entry a name under which no sample is taken.
local function claim_name(entry, taken)
  local name, nr = entry.name, 1
  local function is_free()
    for _, one in ipairs(names_under(entry, name)) do
      if taken[one] then return false end
    end
    return true
  end
  while not is_free() do
    nr = nr + 1
    name = ("%s_%d"):format(entry.name, nr)
  end
  for _, one in ipairs(names_under(entry, name)) do taken[one] = true end
  entry.name = name
end

-- The entries of the export list, each with a follower from the start on.
local function followed_entries()
  local list, taken = exported.list(), own_names()
  for _, entry in ipairs(list) do
    claim_name(entry, taken)
    entry.follower = exported.follow(entry, true)
    function entry.get() return entry.follower:total() end
  end
  return list
end

--- Adds the route. Called when the script has made its aggregators, and before records come.
-- @tparam server server  from perfl.http.server
function M.add_routes(server)
  local entries, aggregators = followed_entries(), {}
  for _, entry in ipairs(entries) do
    if entry.kind ~= "profile" then aggregators[#aggregators + 1] = entry end
  end
  server.routes["/metrics"] = function()
    local sources = { once(run_metrics, server), once(aggregator_metrics, aggregators) }
    for _, entry in ipairs(entries) do
      sources[#sources + 1] = entry.kind == "profile" and once(profile_metrics, entry)
        or unless_failed(server, entry,
          prometheus.pieces(entry.source:spec(), entry.get, { name = entry.name, max_series = MAX_SERIES }))
    end
    return { type = TYPE, next = chain(sources) }
  end
end

return M
