--- The report as one JSON object.

local json = require "perfev.base.json"
local timeline = require "perfev.calls.timeline"

local function row_of(row)
  return { key = row.key, name = row.name, unit = row.is_count and "count" or "ns", slow = row.slow, rest = row.rest,
    difference = row.difference, interval = row.interval, code = row.path and row.path[1] and row.path or nil,
    word = row.word }
end

local function example_of(report, example)
  local call = example[2]
  local lanes = timeline.lanes(report, call)
  local list = {}
  for i, lane in ipairs(lanes) do
    list[i] = { key = lane.key, name = lane.name, time = lane.time, pieces = lane.pieces }
  end
  return { name = example[1], start = call.start, took = call.took, tid = call.tid, comm = call.comm, lanes = list }
end

--- @tparam table page  as for perfev.calls.text, and `title`
-- @treturn string
return function(page)
  local report = page.report
  local out = { title = page.title, cause = page.headline, second = page.second, remarks = page.remarks,
    calls = report.count, slow_calls = report.nr_slow, threshold = report.threshold, unit = "ns" }
  if report.rows then
    out.main = report.causes[1] and report.causes[1].key
    out.rows, out.examples = {}, {}
    for i, row in ipairs(report.rows) do out.rows[i] = row_of(row) end
    for _, example in ipairs(report.examples) do
      if example[2] then out.examples[#out.examples + 1] = example_of(report, example) end
    end
  end
  return json.encode(out) .. "\n"
end
