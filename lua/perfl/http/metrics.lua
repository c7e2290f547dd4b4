--- /metrics: the aggregators and profiles of the script for Prometheus, in text format 0.0.4.
--
-- Each aggregator has at most MAX_SERIES series; the keys that came later are one, "(other)", so that no counter falls.
-- A profile has only its totals.

local aggregator = require "perfev.aggregate.aggregator"
local native = require "perfl.core"
local perfev = require "perfev"
local prometheus = require "perfev.aggregate.prometheus"

local M = {}

local MAX_SERIES = 2000
local TYPE = "text/plain; version=0.0.4; charset=utf-8"

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
    metric("perfev_records_total", "counter", "Records read.", {}, totals.records),
    metric("perfev_lost_records_total", "counter", "Records that the kernel could not write.", {}, totals.lost),
    metric("perfev_late_records_total", "counter", "Records older than one that was delivered.", {}, totals.late),
    metric("perfev_callback_errors_total", "counter", "Errors in the script's callbacks.", {},
      totals.callback_errors),
    metric("perfev_cpu_seconds_total", "counter", "CPU time of perfl.", {}, native.cpu_time() + 0.0),
    metric("perfev_refused_connections_total", "counter", "Connections beyond the limit.", {}, refused),
  }
end

-- Returns a function that passes a metric with one sample for each aggregator.
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

local function once(f, ...)
  local args = table.pack(...)
  return function()
    if not args then return nil end
    local text = f(table.unpack(args, 1, args.n))
    args = nil
    return text
  end
end

local function entries_of()
  local list = {}
  for _, one in ipairs(aggregator.all()) do
    local spec = one:spec()
    list[#list + 1] = { name = prometheus.slug(spec), spec = spec, get = function() return one end }
  end
  return list
end

--- Adds the route.
-- @tparam server server  from perfl.http.server
function M.add_routes(server)
  server.routes["/metrics"] = function()
    local entries = entries_of()
    local sources = { once(run_metrics, server), once(aggregator_metrics, entries) }
    for _, entry in ipairs(entries) do
      sources[#sources + 1] = prometheus.pieces(entry.spec, entry.get, { slug = entry.name, max_series = MAX_SERIES })
    end
    return { type = TYPE, next = chain(sources) }
  end
end

return M
