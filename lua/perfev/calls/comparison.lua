--- Sets the slow calls against the rest: what they did more of, for how long, and how sure that is.

local causes = require "perfev.calls.causes"
local kept_calls = require "perfev.calls.kept_calls"

local M = {}

local UNITS_MOST = 200      -- of a group, for the bootstrap: calls, or sums of several
local RESAMPLES = 1000
local SHARE_OF_PATH = 0.8   -- of the difference that a function must explain
local SHARE_OF_CODE = 0.6   -- of the difference on the CPU that names its kind
local STANDARD_ERRORS = 2   -- between a mean and the part of it that is certain
local SHARE_TO_MENTION = 0.2
local CALLS_TO_MENTION = 0.05 -- share of the slow calls that have another main cause

local COUNTS = { minor = "minor page faults", major = "major page faults", block = "times blocked" }
local NO_CAUSE = { took = true, perf = true }

-- ---- rows of a call ----

-- what -> row key, once for each.
local function classify_all(collector)
  local rows, calls_of = {}, {}
  for i, what in ipairs(collector.whats) do rows[i], calls_of[i] = causes.classify(what) end
  return rows, calls_of
end

-- Sums by row of some calls: { nr, took, [row] = ns or number }.
local function sums_of(calls, row_of)
  local unit = { nr = #calls, took = 0 }
  for _, call in ipairs(calls) do
    unit.took = unit.took + call.took
    for what, value in pairs(call.sums) do
      local row = row_of[what]
      unit[row] = (unit[row] or 0) + value
    end
  end
  return unit
end

-- Divides a group by random into units of about the same number of calls.
local function units_of(calls, row_of, random)
  local units, order = {}, table.move(calls, 1, #calls, 1, {})
  for i = #order, 2, -1 do
    local k = random(i) + 1
    order[i], order[k] = order[k], order[i]
  end
  local nr = math.min(#order, UNITS_MOST)
  for i = 1, nr do
    local one = {}
    for k = i, #order, nr do one[#one + 1] = order[k] end
    units[i] = sums_of(one, row_of)
  end
  return units
end

-- ---- rows of a group ----

local function is_code(row) return row:find "^cpu_" ~= nil end

-- Sums of units -> the mean per call of each row. The time on the CPU is divided by the shares of the samples.
local function means_of(sums, rows)
  local nr, samples, means = math.max(sums.nr, 1), 0, {}
  for _, row in ipairs(rows) do
    if is_code(row) then samples = samples + (sums[row] or 0) end
  end
  for _, row in ipairs(rows) do
    local sum = sums[row] or 0
    if row == "cpu_unsampled" then
      means[row] = samples == 0 and (sums.cpu or 0) / nr or 0
    elseif is_code(row) then
      means[row] = samples > 0 and (sums.cpu or 0) * sum / samples / nr or 0
    else
      means[row] = sum / nr
    end
  end
  return means
end

local function add_units(units, pick)
  local sums = { nr = 0, took = 0 }
  for i = 1, #units do
    for key, value in pairs(units[pick and pick(i) or i]) do sums[key] = (sums[key] or 0) + value end
  end
  return sums
end

-- Row -> the difference in each resample, sorted.
local function resample(slow, rest, rows, random)
  local differences = {}
  for _, row in ipairs(rows) do differences[row] = {} end
  local function pick_slow() return random(#slow) + 1 end
  local function pick_rest() return random(#rest) + 1 end
  for i = 1, RESAMPLES do
    local a, b = means_of(add_units(slow, pick_slow), rows), means_of(add_units(rest, pick_rest), rows)
    for _, row in ipairs(rows) do differences[row][i] = a[row] - b[row] end
  end
  for _, row in ipairs(rows) do table.sort(differences[row]) end
  return differences
end

-- ---- where ----

-- Adds the functions of a row's pieces, as a tree: node = { value, children by name }.
local function add_paths(tree, calls, is_of_row, whats, paths, factor)
  for _, call in ipairs(calls) do
    for what, value in pairs(call.sums) do
      if is_of_row(what) and whats[what].stack then
        local node = tree
        local gain = value * factor
        node.value = node.value + gain
        for _, name in ipairs(paths(what)) do
          local child = node.children[name]
          if not child then
            child = { name = name, value = 0, children = {} }
            node.children[name] = child
          end
          child.value = child.value + gain
          node = child
        end
      end
    end
  end
end

-- Returns the functions below a node that explain `least` of the difference over all branches, outermost first: a
-- function that several others call, or a signal's handler.
local function functions_below(node, least)
  local values, weights, names = {}, {}, {}
  local function add(parent, depth, above)
    for _, child in pairs(parent.children) do
      local name, is_outermost = child.name, not above[child.name]
      if is_outermost then
        if not values[name] then names[#names + 1] = name end
        values[name] = (values[name] or 0) + child.value
        weights[name] = (weights[name] or 0) + child.value * depth
        above[name] = true
      end
      add(child, depth + 1, above)
      if is_outermost then above[name] = nil end
    end
  end
  add(node, 1, {})
  local found = {}
  for _, name in ipairs(names) do
    if values[name] > 0 and values[name] >= least then found[#found + 1] = name end
  end
  table.sort(found, function(a, b)
    local depth_a, depth_b = weights[a] / values[a], weights[b] / values[b]
    if depth_a ~= depth_b then return depth_a < depth_b end
    return a < b
  end)
  return found
end

-- Descends while one function explains most of the difference; then adds those that all branches reach.
local function steepest(tree)
  local path, node, least = {}, tree, SHARE_OF_PATH * tree.value
  while true do
    local best
    for _, child in pairs(node.children) do
      if not best or child.value > best.value or child.value == best.value and child.name < best.name then
        best = child
      end
    end
    if not best or best.value < least or best.value <= 0 then break end
    table.insert(path, 1, best.name)
    node = best
  end
  for _, name in ipairs(functions_below(node, least)) do table.insert(path, 1, name) end
  return path
end

local NAMES_MOST = 4

--- Returns functions as "inner < ... < outer".
function M.path_text(path)
  if #path <= NAMES_MOST then return table.concat(path, " < ") end
  return table.concat({ path[1], path[2], path[3], "...", path[#path] }, " < ")
end

-- ---- the whole ----

local function mean_samples(calls, whats)
  local time, samples = 0, 0
  for _, call in ipairs(calls) do
    for what, value in pairs(call.sums) do
      local kind = whats[what].kind
      if kind == "cpu" then time = time + value elseif kind == "sample" then samples = samples + value end
    end
  end
  return samples > 0 and time / samples or 0 -- ns that a sample stands for
end

-- The most frequent word of a row's pieces, by the difference: the next task, the system call.
local function main_word(groups, is_of_row, word_of)
  local values, total = {}, 0
  for sign, calls in pairs(groups) do
    for _, call in ipairs(calls) do
      for what, value in pairs(call.sums) do
        if is_of_row(what) then
          local gain = sign * value / #calls
          total = total + gain
          local word = word_of(what)
          if word then values[word] = (values[word] or 0) + gain end
        end
      end
    end
  end
  local best
  for word, value in pairs(values) do
    if not best or value > values[best] or value == values[best] and word < best then best = word end
  end
  return best and total > 0 and values[best] >= total / 2 and best or nil
end

local function interval_of(sorted)
  return { sorted[math.floor(RESAMPLES * 0.025) + 1], sorted[math.ceil(RESAMPLES * 0.975)] }
end

local function median_with_pieces(calls)
  for step = 0, #calls do
    for _, i in ipairs { (#calls + 1) // 2 - step, (#calls + 1) // 2 + step } do
      if calls[i] and calls[i].pieces and calls[i].pieces[1] then return calls[i] end
    end
  end
end

local function slowest_with_pieces(calls)
  for _, call in ipairs(calls) do
    if call.pieces and call.pieces[1] then return call end
  end
end

-- Rows in the table's order: code below "cpu".
local code_rows = { "cpu_own", "cpu_fault", "cpu_allocation", "cpu_call", "cpu_reclaim", "cpu_unsampled" }

local function row_names(row_of)
  local seen, rows = {}, { "took" }
  for _, row in pairs(row_of) do seen[row] = true end
  local names = {}
  for row in pairs(seen) do
    if not is_code(row) and not COUNTS[row] then names[#names + 1] = row end
  end
  table.sort(names)
  table.move(names, 1, #names, 2, rows)
  for _, row in ipairs(code_rows) do
    if seen[row] or row == "cpu_unsampled" then rows[#rows + 1] = row end
  end
  for _, row in ipairs { "block", "minor", "major" } do
    if seen[row] then rows[#rows + 1] = row end
  end
  return rows
end

-- Everything that a row needs: means, interval, code.
local function new_row(self, key, means, differences)
  local words = causes.reasons[key]
  local row = { key = key, name = key == "took" and "all" or COUNTS[key] or words[3], is_count = COUNTS[key] ~= nil,
    is_code = is_code(key), slow = means.slow[key], rest = means.rest[key],
    difference = means.slow[key] - means.rest[key], interval = differences and interval_of(differences[key]) }
  if key == "took" then return row end
  local function is_of_row(what)
    local name = self.row_of[what]
    if key == "cpu" then return is_code(name) end
    return name == key
  end
  local function paths(what)
    local path = self.paths[what]
    if not path then
      path = causes.path_of(self.whats[what].stack, self.root)
      self.paths[what] = path
    end
    return path
  end
  local tree, by_samples = { value = 0, children = {} }, row.is_code or key == "cpu"
  for sign, calls in pairs { [1] = self.slow, [-1] = self.rest } do
    local weight = by_samples and mean_samples(calls, self.whats) or 1
    add_paths(tree, calls, is_of_row, self.whats, paths, sign * weight / math.max(#calls, 1))
  end
  row.path = tree.value > 0 and steepest(tree) or {}
  row.word = main_word({ [1] = self.slow, [-1] = self.rest }, is_of_row, function(what)
    return self.whats[what].word or self.call_of[what]
  end)
  return row
end

-- Moves what follows from another excess: all calls have `row` in proportion to `by`, a time or a number of times.
local function move_excess(excess, ratio, row, by, to)
  if not to or (excess[row] or 0) <= 0 or (excess[by] or 0) <= 0 then return end
  local follows = math.min(ratio * excess[by], excess[row])
  excess[row], excess[to] = excess[row] - follows, (excess[to] or 0) + follows
end

local function ratio_of(sums, row, by)
  return (sums[by] or 0) > 0 and (sums[row] or 0) / sums[by] or 0
end

local no_block = { preempted = true, woken = true, queued = true }

local function is_block(key)
  local words = causes.reasons[key]
  return words ~= nil and not no_block[key] and (words[1] == "wait" or words[1] == "sleep")
end

local function largest(excess, is_candidate)
  local best
  for key, value in pairs(excess) do
    local is_larger = not best or value > excess[best] or value == excess[best] and key < best
    if value > 0 and is_larger and is_candidate(key) then best = key end
  end
  return best
end

-- Returns the part of some excesses that one call with much of it cannot decide: the median, which half of the calls
-- have, or the mean less two standard errors, which fewer calls have for certain.
local function certain_part(excesses)
  local nr, sum, squares = #excesses, 0, 0
  for _, excess in ipairs(excesses) do sum = sum + excess end
  for _, excess in ipairs(excesses) do squares = squares + (excess - sum / nr) ^ 2 end
  table.sort(excesses)
  local error_of_mean = math.sqrt(squares / math.max(nr - 1, 1) / nr)
  return math.max(sum / nr - STANDARD_ERRORS * error_of_mean, excesses[(nr + 1) // 2])
end

-- Gives each row its score, the mean excess of the slow calls over the mean of the rest; the certain part of it; and
-- the number of calls of which it is the main part. The waits for a CPU that follow from another part belong to it: a
-- call that runs longer is preempted more often, and one that blocks more often is woken more often.
local function score(self, by_key, sums)
  local preempted, woken = ratio_of(sums, "preempted", "cpu"), ratio_of(sums, "woken", "block")
  local nr, excesses = #self.slow, {}
  for key, row in pairs(by_key) do row.score, row.calls, excesses[key] = 0, 0, {} end
  for i, call in ipairs(self.slow) do
    local excess = sums_of({ call }, self.row_of)
    for key, row in pairs(by_key) do excess[key] = (excess[key] or 0) - row.rest end
    move_excess(excess, preempted, "preempted", "cpu", "cpu")
    move_excess(excess, woken, "woken", "block", largest(excess, is_block))
    for key, row in pairs(by_key) do
      row.score, excesses[key][i] = row.score + excess[key] / nr, excess[key]
    end
    local main = largest(excess, function(key) return by_key[key] and not NO_CAUSE[key] and not COUNTS[key] end)
    if main then by_key[main].calls = by_key[main].calls + 1 end
  end
  for key, row in pairs(by_key) do row.certain = certain_part(excesses[key]) end
end

-- Returns the kind of code that stands for all time on the CPU. It explains at most the difference of that time:
-- without samples of the rest, the kind's time in the rest is unknown and not zero.
local function main_code(code, cpu)
  local row = setmetatable({ calls = cpu.calls, score = cpu.score }, { __index = code })
  if code.difference > cpu.difference then row.difference, row.interval = cpu.difference, cpu.interval end
  return row
end

-- The rows that explain the difference, the largest that is certain first. Of the code on the CPU the main kind stands
-- for all.
local function order_of_causes(self, sums)
  local list, by_key, code = {}, {}, nil
  for _, row in ipairs(self.rows) do
    if not row.is_code then
      by_key[row.key] = row
    elseif row.key ~= "cpu_unsampled" and (not code or row.difference > code.difference) then
      code = row
    end
  end
  score(self, by_key, sums)
  for key, row in pairs(by_key) do
    if not NO_CAUSE[key] and not COUNTS[key] then list[#list + 1] = row end
  end
  table.sort(list, function(a, b)
    if a.certain ~= b.certain then return a.certain > b.certain end
    if a.score ~= b.score then return a.score > b.score end
    return a.key < b.key
  end)
  for i, row in ipairs(list) do
    if row.key == "cpu" and code and code.difference >= SHARE_OF_CODE * row.difference then
      list[i] = main_code(code, row)
    end
  end
  return list
end

--- Compares.
-- @tparam collector collector
-- @tparam table how  `slowest` or `over`; `root`: plain name of the function, or nil
-- @treturn table  `slow`, `rest` (calls), `nr_slow`, `count`, `rows`, `causes`, `examples`
function M.compare(collector, how)
  local kept, self = collector:complete(), { root = how.root, whats = collector.whats, paths = {} }
  self.slow, self.rest, self.nr_slow = kept:divide(how)
  self.count, self.kept = kept.count, #self.slow + #self.rest
  self.row_of, self.call_of = classify_all(collector)
  if #self.slow == 0 or #self.rest == 0 then return self end
  local names, random = row_names(self.row_of), kept_calls.new_random()
  local slow, rest = units_of(self.slow, self.row_of, random), units_of(self.rest, self.row_of, random)
  local means = { slow = means_of(add_units(slow), names), rest = means_of(add_units(rest), names) }
  local differences = #slow > 2 and #rest > 2 and resample(slow, rest, names, random) or nil
  self.rows = {}
  for i, name in ipairs(names) do self.rows[i] = new_row(self, name, means, differences) end
  self.causes = order_of_causes(self, add_units { add_units(slow), add_units(rest) })
  self.threshold = self.slow[#self.slow].took
  self.examples = {
    { "the slowest call", slowest_with_pieces(self.slow) },
    { "a typical slow call", median_with_pieces(self.slow) },
    { "a typical other call", median_with_pieces(self.rest) },
  }
  return self
end

--- Returns the row that is worth a line of its own beside the first, or nil; and true if it follows from the first: the
-- waits for a CPU of calls that run longer or block more often.
function M.second(self)
  local first, second, least = self.causes[1], self.causes[2], SHARE_TO_MENTION * self.rows[1].difference
  for _, row in ipairs(self.causes) do
    if row ~= first and (row.key == "preempted" or row.key == "woken") and row.difference - row.score >= least then
      return row, true
    end
  end
  if not second or second.difference <= 0 or second.score < least then return nil end
  if second.calls > 0 and second.calls < CALLS_TO_MENTION * #self.slow then return nil end
  return second, false
end

--- Adds the calls of a group to a profile of ns per call.
function M.add_to_profile(self, calls, profile)
  local weight = mean_samples(calls, self.whats)
  for what, value in pairs(sums_of(calls, setmetatable({}, { __index = function(_, one) return one end }))) do
    local one = self.whats[what]
    local kind = one and one.kind
    if kind == "sample" or one and not require("perfev.calls.collector").is_count[kind] and kind ~= "cpu" then
      local row = kind == "sample" and "cpu" or self.row_of[what]
      local ns = value * (kind == "sample" and weight or 1) / #calls
      profile:add_under(causes.reasons[row][3], one.stack, math.floor(ns + 0.5))
    end
  end
end

return M
