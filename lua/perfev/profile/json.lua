--- Writes the functions as JSON: all rows of the format "top", with exact values, and shares from 0 to 1.

local function_rows = require "perfev.profile.function_rows"
local json = require "perfev.base.json"

local function share(value, all) return all ~= 0 and value / all or 0 end

-- A function's sums on one side: { own =, total =, own_share =, total_share = }.
local function sums_of(sums, side)
  return { own = sums.own, total = sums.total, own_share = share(sums.own, side.all),
    total_share = share(sums.total, side.all) }
end

return function(profile, opts)
  local _, value = profile:value(opts.value)
  local rows, side, base = function_rows.list(profile, opts)
  local functions = {}
  for i = 1, math.min(opts.limit or #rows, #rows) do
    local row = rows[i]
    functions[i] = sums_of(row.now, side)
    functions[i].name, functions[i].module, functions[i].kind = row.func.name, row.func.module, row.func.kind
    functions[i].baseline = opts.baseline and sums_of(row.before, base) or nil
  end
  return json.encode { title = profile.title, value = value.name, unit = value.unit, total = side.all,
    baseline_total = opts.baseline and base.all or nil, functions = functions } .. "\n"
end
