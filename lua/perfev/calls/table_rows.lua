--- The rows of a report's table in their order, and which of them show their code.

local SHARE_OF_CODE = 0.05 -- of the difference

local function is_larger(a, b)
  if a.difference ~= b.difference then return a.difference > b.difference end
  return a.key < b.key
end

-- The states but the CPU, those with the largest difference first; the CPU and its parts; all; numbers.
local function place_of(row)
  if row.is_count then return 4 end
  if row.key == "took" then return 3 end
  return (row.is_code or row.key == "cpu") and 2 or 1
end

--- Returns the rows that are not 0 in both groups. `shows_code`: its path is worth a line.
-- @tparam table report  of comparison.compare
return function(report)
  local places, list, all = { {}, {}, {}, {} }, {}, report.rows[1]
  for _, row in ipairs(report.rows) do
    if row.slow ~= 0 or row.rest ~= 0 then table.insert(places[place_of(row)], row) end
    row.shows_code = row.path ~= nil and row.path[1] ~= nil and not row.is_count and row.key ~= "cpu"
      and row.difference >= SHARE_OF_CODE * all.difference
  end
  table.sort(places[1], is_larger)
  for _, rows in ipairs(places) do table.move(rows, 1, #rows, #list + 1, list) end
  return list
end
