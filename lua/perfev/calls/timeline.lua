--- One call as lanes of time: what it did when.

local causes = require "perfev.calls.causes"
local comparison = require "perfev.calls.comparison"
local sentences = require "perfev.calls.sentences"
local escape = require "perfev.base.escape"

local M = {}

local LONGEST = 3 -- pieces below the lanes

--- Returns the lanes of a call, the one with the most time first: { name, time, pieces = { { from, to }, … } }, in ns
-- from its start; and its longest pieces off the CPU.
function M.lanes(report, call)
  local by_name, lanes, longest = {}, {}, {}
  for i = 1, #call.pieces, 3 do
    local what, from, to = table.unpack(call.pieces, i, i + 2)
    local key = report.row_of[what]
    local name = causes.reasons[key][3]
    local lane = by_name[name]
    if not lane then
      lane = { key = key, name = name, time = 0, pieces = {} }
      by_name[name] = lane
      lanes[#lanes + 1] = lane
    end
    lane.time = lane.time + to - from
    lane.pieces[#lane.pieces + 1] = { from - call.start, to - call.start }
    if key ~= "cpu" then
      longest[#longest + 1] = { from = from - call.start, took = to - from, name = name, what = what }
    end
  end
  table.sort(lanes, function(a, b)
    if a.time ~= b.time then return a.time > b.time end
    return a.name < b.name
  end)
  table.sort(longest, function(a, b)
    if a.took ~= b.took then return a.took > b.took end
    return a.from < b.from
  end)
  for i = #longest, LONGEST + 1, -1 do longest[i] = nil end
  for _, piece in ipairs(longest) do
    local stack = report.whats[piece.what].stack
    local path = {}
    for _, name in ipairs(stack and causes.path_of(stack, report.root) or {}) do table.insert(path, 1, name) end
    piece.path = comparison.path_text(path)
  end
  return lanes, longest
end

--- Returns the line above the lanes: "the slowest call: 14.2 ms, srv, thread 4711".
function M.title(name, call)
  return ("%s: %s, %s, thread %d"):format(name, sentences.duration(call.took), escape(call.comm or "?"), call.tid)
end

local BAR = 44

-- "#" for a column that the pieces fill at least half, "-" for less.
local function bar_of(lane, took)
  local filled = {}
  for _, piece in ipairs(lane.pieces) do
    local from, to = piece[1] * BAR / took, piece[2] * BAR / took
    for column = math.floor(from), math.min(math.floor(to), BAR - 1) do
      filled[column] = (filled[column] or 0) + math.min(to, column + 1) - math.max(from, column)
    end
  end
  local cells = {}
  for column = 0, BAR - 1 do
    local share = filled[column] or 0
    cells[column + 1] = share >= 0.5 and "#" or share > 0 and "-" or " "
  end
  return table.concat(cells)
end

--- Returns the lines of a timeline, at most 80 columns wide.
function M.text(report, name, call)
  local lines = { M.title(name, call) }
  local lanes, longest = M.lanes(report, call)
  for _, lane in ipairs(lanes) do
    lines[#lines + 1] = ("  %-22s|%s|%9s"):format(lane.name:sub(1, 22), bar_of(lane, call.took),
      sentences.duration(lane.time))
  end
  for _, piece in ipairs(longest) do
    local line = ("  %s after %s: %s%s"):format(sentences.duration(piece.took), sentences.duration(piece.from),
      piece.name, piece.path ~= "" and ", " .. escape(piece.path) or "")
    lines[#lines + 1] = #line > 80 and line:sub(1, 77) .. "..." or line
  end
  return lines
end

return M
