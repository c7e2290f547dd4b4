--- Writes the profile format of callgrind, for callgrind_annotate and KCachegrind.
--
-- A function's own values are exact. A call is a pair of caller and callee with the values below it. If a stack has
-- the pair more than once (recursion), it is counted once, so that no call costs more than the whole. A profile does
-- not have the number of calls; the first value is written in its place.
-- Source: callgrind's manual, "Callgrind Format Specification".

local sorted_keys = require("perfev.base.tables").sorted_keys

local function function_key(frame)
  return (frame.module or "") .. "\0" .. (frame.file or "") .. "\0" .. frame.symbol
end

local function add(row, values)
  for i, value in ipairs(values) do row[i] = (row[i] or 0) + value end
end

local function cell(of, key, make)
  local found = of[key]
  if not found then
    found = make()
    of[key] = found
  end
  return found
end

local function new_table() return {} end

-- Adds the values of a stack to a caller's calls of a function, the first time in the stack.
local function add_call(caller, line, callee, stack_number, values)
  local pair = cell(caller.pairs, callee, new_table)
  if pair.last == stack_number then return end
  pair.last = stack_number
  add(cell(pair, line, function()
    local call = { line = line, to = callee.frame }
    caller.calls[("%010d"):format(line) .. callee.key] = call
    return call
  end), values)
end

-- key -> { key, frame, own = { [line] = sums }, calls = { [line, callee's key] = sums }, pairs = { [callee] = … } }
local function gather(profile)
  local functions, function_of, stack_number = {}, {}, 0 -- function_of: by frame
  local function find_function(frame)
    return cell(function_of, frame, function()
      local key = function_key(frame)
      return cell(functions, key, function() return { key = key, frame = frame, own = {}, calls = {}, pairs = {} } end)
    end)
  end
  for stack, values in profile:stacks() do
    local callee = find_function(stack[1])
    stack_number = stack_number + 1
    add(cell(callee.own, stack[1].line or 0, new_table), values)
    for i = 2, #stack do
      local caller = find_function(stack[i])
      add_call(caller, stack[i].line or 0, callee, stack_number, values)
      callee = caller
    end
  end
  return functions
end

-- Writes "(1) name" at the first use, then "(1)".
local function numbering()
  local of, nr = {}, 0
  return function(name)
    if of[name] then return of[name] end
    nr = nr + 1
    of[name] = ("(%d)"):format(nr)
    return ("(%d) %s"):format(nr, name)
  end
end

local function whole(value) return ("%d"):format(math.tointeger(value) or math.floor(value + 0.5)) end

local function costs(row)
  local words = {}
  for i, value in ipairs(row) do words[i] = whole(value) end
  return table.concat(words, " ")
end

-- An event's name is one word in this format.
local function event_words(values)
  local words = {}
  for i, value in ipairs(values) do words[i] = (value.name:gsub("[^%w_]", "_")) end
  return table.concat(words, " ")
end

return function(profile)
  local totals = {}
  for i, value in ipairs(profile.values) do
    totals[i] = profile:total(i)
    if totals[i] < 0 then error(("profile: callgrind does not support negative values (%s)"):format(value.name), 3) end
  end
  local functions = gather(profile)
  local object, file, name = numbering(), numbering(), numbering()
  local out = { "# callgrind format", "version: 1", "creator: perfev", "positions: line",
    "events: " .. event_words(profile.values), "summary: " .. costs(totals) }
  local function say(...) out[#out + 1] = (...):format(select(2, ...)) end
  local function where(prefix, frame)
    say("%sob=%s", prefix, object(frame.module or "?"))
    say("%s=%s", prefix == "c" and "cfi" or "fl", file(frame.file or "?"))
    say("%sfn=%s", prefix, name(frame.symbol))
  end
  for _, key in ipairs(sorted_keys(functions)) do
    local f = functions[key]
    say("")
    where("", f.frame)
    for _, line in ipairs(sorted_keys(f.own)) do say("%d %s", line, costs(f.own[line])) end
    for _, to in ipairs(sorted_keys(f.calls)) do
      local call = f.calls[to]
      where("c", call.to)
      say("calls=%s %d", whole(math.max(call[1], 1)), 0)
      say("%d %s", call.line, costs(call))
    end
  end
  say("")
  say("totals: %s", costs(totals))
  return table.concat(out, "\n") .. "\n"
end
