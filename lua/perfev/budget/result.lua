--- The result of a measurement: its rows, what is new, and the message.

local escape = require "perfev.base.escape"
local limit = require "perfev.budget.limit"
local event_rules = require "perfev.budget.event_rules"
local occurrences = require "perfev.budget.occurrences"
local stack_text = require "perfev.budget.stack_text"

local M = {}

local MOST_NAMES, MOST_STACKS = 10, 3

local Result = {}
Result.__index = Result
Result.__name = "perfev.budget.result"

-- ---- counts of rows ----

-- The calls that `syscalls` counts, by name.
local function counted_calls(found)
  local calls = {}
  for name in pairs(found.calls) do
    local n = found.counts[name]
    if not event_rules.left_out[name] and n > 0 then calls[name] = n end
  end
  return calls
end

local function sum(counts)
  local total = 0
  for _, n in pairs(counts) do total = total + n end
  return total
end

local function count_of(self, row, found)
  if row.how == "calls" then return sum(self.calls) end
  if row.how == "call" then
    local anonymous = row.call == "mmap" and found.counts["mmap of memory"] or 0
    return (found.counts[row.call] or 0) + anonymous
  end
  if row.how == "counter" then return found.counters[row.event] end
  return found.counts[occurrences.name_of(row)] or 0
end

-- ---- what is new ----

-- The names whose occurrences a row counts.
local function names_of(self, row)
  if row.how == "call" then return row.call == "mmap" and { "mmap", "mmap of memory" } or { row.call } end
  if row.how == "calls" then
    local names = {}
    for name in pairs(self.calls) do names[#names + 1] = name end
    return names
  end
  if row.how == "counter" then return {} end
  return { occurrences.name_of(row) }
end

-- The stacks that were not in the baseline as often -> { { text =, count = } ... }, the most frequent first.
local function new_stacks(now, before)
  local list = {}
  for text, n in pairs(now or {}) do
    local more = n - (before and before[text] or 0)
    if more > 0 then list[#list + 1] = { frames = text, count = more } end
  end
  table.sort(list, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.frames < b.frames
  end)
  return list
end

local function new_of(self, row, baseline)
  local list = {}
  for _, name in ipairs(names_of(self, row)) do
    local n = self.counts[name] or 0
    local was = baseline and (baseline.counts[name] or 0) or nil
    if n > (was or 0) then
      list[#list + 1] = { name = name, count = n, was = was,
        stacks = new_stacks(self:stacks_of(name), baseline and baseline.stacks[name]) }
    end
  end
  table.sort(list, function(a, b)
    local more, than = a.count - (a.was or 0), b.count - (b.was or 0)
    if more ~= than then return more > than end
    return a.name < b.name
  end)
  return list
end

--- The stacks of a call or event: count by text, "main;load;fopen64".
function Result:stacks_of(name)
  if not self.folded[name] and self.stacks[name] then
    self.folded[name] = stack_text.fold_all(self.stacks[name])
  end
  return self.folded[name] or {}
end

-- ---- the message ----

local function grouped(n)
  local text = ("%d"):format(n)
  local lead = (#text - 1) % 3 + 1
  return text:sub(1, lead) .. text:sub(lead + 1):gsub("%d%d%d", ",%0")
end

--- A text of several lines as one, for a terminal.
function M.on_one_line(text) return escape((text:gsub("\n%s*", "; "))) end

--- A text of several lines, escaped and indented.
function M.indented(text, blanks)
  local lines = {}
  for line in text:gmatch "%s*([^\n]+)" do lines[#lines + 1] = (#lines > 0 and blanks or "") .. escape(line) end
  return blanks .. table.concat(lines, "\n  ")
end

--- A row as text; only a reason has more than one line.
function M.row_text(row)
  if row.skipped then return ("%s: not counted: %s"):format(row.name, row.why) end
  if row.why then return ("%s: %s"):format(row.name, row.why) end
  return ("%s: %s%s, limit %s"):format(row.name, grouped(row.count), row.user_only and " (user side only)" or "",
    row.limit)
end

local function add_new(lines, row)
  for i, one in ipairs(row.new) do
    if i > MOST_NAMES then
      lines[#lines + 1] = ("    (%d others)"):format(#row.new - MOST_NAMES)
      break
    end
    lines[#lines + 1] = one.was and ("    %s: %s, was %s"):format(one.name, grouped(one.count), grouped(one.was))
      or ("    %s: %s"):format(one.name, grouped(one.count))
    for j, stack in ipairs(one.stacks) do
      if j > MOST_STACKS then
        lines[#lines + 1] = ("      (%d other stacks)"):format(#one.stacks - MOST_STACKS)
        break
      end
      lines[#lines + 1] = ("      %d in %s"):format(stack.count, stack_text.leaf_first(stack.frames))
    end
  end
end

--- The lines below a row's line: what is new.
function M.new_text(row)
  local lines = {}
  if row.new then add_new(lines, row) end
  for i, line in ipairs(lines) do lines[i] = escape(line) end
  return table.concat(lines, "\n")
end

--- The rows that are not within their limits or have no count, below a line.
function Result:__tostring()
  local lines = {}
  local reported = {}
  for _, row in ipairs(self.rows) do
    if row.skipped and reported[row.why] then
      lines[#lines + 1] = ("  %s: not counted, as %s"):format(escape(row.name), escape(reported[row.why]))
    elseif not row.ok or row.skipped then
      if row.skipped then reported[row.why] = row.name end
      lines[#lines + 1] = M.indented(M.row_text(row), "  ")
      local new = M.new_text(row)
      if new ~= "" then lines[#lines + 1] = new end
    end
  end
  local head = self.name and "budget of " .. escape(self.name) or "budget"
  if self.ok then
    local skipped = #lines > 0 and ("\n" .. table.concat(lines, "\n")) or ""
    return ("%s: within all %d limits%s"):format(head, #self.rows - self.skipped, skipped)
  end
  return ("%s: exceeded\n%s"):format(head, table.concat(lines, "\n"))
end

-- ---- making ----

function M.is(value) return getmetatable(value) == Result end

local function judge(self, row, found, failure, strict)
  local one = { name = row.name, limit = row.limit.text, is_counter = row.how == "counter" or nil }
  local uses_waits = row.how == "switches" and failure and found.waits
  if failure and not uses_waits then
    one.why, one.skipped, one.ok = failure, true, not strict
    return one
  end
  if found.lost > 0 and row.how ~= "counter" and not uses_waits then
    one.ok, one.why = false, ("%d records were lost; try: a larger buffer, or no stacks"):format(found.lost)
    return one
  end
  one.count = uses_waits or count_of(self, row, found)
  if not one.count then
    one.why, one.skipped, one.ok = "the event never ran on the PMU", true, not strict
    return one
  end
  one.user_only = found.user_only and found.user_only(row) and not row.side or nil
  one.ok = limit.accepts(row.limit, one.count)
  if one.ok or one.count <= row.limit.high then return one end
  one.new = new_of(self, row, self.baseline)
  if #one.new == 0 then one.new = new_of(self, row) end -- a limit below the accepted counts: all of them
  return one
end

--- Judges what was counted.
-- @tparam table rows      of event_rules, with `name` and `limit`
-- @tparam table found     `counts`, `stacks`, `calls`, `counters`, `lost`, `waits`, `user_only`: function
-- @tparam function failure  row -> why it has no count
-- @tparam table opts      `strict`, `name`, `baseline`
-- @treturn table  `ok`, `rows`: `name`, `limit`, `count`, `ok`, `skipped`, `why`, `user_only`, `new`;
--   `calls`, `counts`: by name
function M.new(rows, found, failure, opts)
  local self = setmetatable({ rows = {}, ok = true, name = opts.name, counts = found.counts, stacks = found.stacks,
    folded = {}, baseline = opts.baseline, skipped = 0 }, Result)
  self.calls = counted_calls(found)
  for i, row in ipairs(rows) do
    self.rows[i] = judge(self, row, found, failure(row), opts.strict)
    self.ok = self.ok and self.rows[i].ok
    if self.rows[i].skipped then self.skipped = self.skipped + 1 end
  end
  return self
end

return M
