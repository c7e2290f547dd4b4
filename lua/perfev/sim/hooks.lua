--- perfev.hooks: Lua functions in the place of system calls. The table comes from
-- src/lua/hooks/lhooks.c; expect(), the strict order of calls, is made of hooks here.

local core = require "perfev.core"
local shown = require "perfev.base.show_value"

local M = core.hooks

local Expected = {}
Expected.__index = Expected
local state_of = setmetatable({}, { __mode = "k" }) -- apart: hooks are all that a hook table may have

-- ---- in words ----

local function show(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) == "function" then return "..." end
  if type(value) == "table" then
    local parts = {}
    for name, v in pairs(value) do parts[#parts + 1] = ("%s = %s"):format(name, show(v)) end
    table.sort(parts)
    return "{ " .. table.concat(parts, ", ") .. " }"
  end
  return tostring(value)
end

local UNASKED = { type = true, config = true }

-- Of an attr what was expected of it, or what kind of event it is.
local function show_like(value, wanted)
  if type(value) == "userdata" and type(wanted) ~= "table" then wanted = UNASKED end
  if type(wanted) ~= "table" or type(value) ~= "table" and type(value) ~= "userdata" then return show(value) end
  local asked = {}
  for name in pairs(wanted) do asked[name] = value[name] end
  return show(asked)
end

local function show_call(call)
  local args = {}
  for i = 2, #call do args[i - 1] = show(call[i]) end
  return ("%s(%s)"):format(call[1], table.concat(args, ", "))
end

local function show_got(name, args, call)
  local words, last = {}, args.n
  while last > 0 and args[last] == nil do last = last - 1 end
  for i = 1, last do words[i] = show_like(args[i], call and call[1] == name and call[i + 1]) end
  return ("%s(%s)"):format(name, table.concat(words, ", "))
end

-- ---- what is expected ----

local function check_call(i, call, level)
  if type(call) ~= "table" or type(call[1]) ~= "string" then
    error(("call %d: { name, arguments... } was expected"):format(i), level + 1)
  end
  if not M.real[call[1]] then
    local names = {}
    for name in pairs(M.real) do names[#names + 1] = name end
    local near = core.nearest(call[1], names)
    error(("call %d: no hook is called '%s'%s"):format(i, call[1],
      near and (" (did you mean '%s'?)"):format(near) or ""), level + 1)
  end
  if call.fails ~= nil and not (math.type(call.fails) == "integer" or core.errno[call.fails]) then
    error(("call %d: fails = %s: must be an errno or its name"):format(i, shown(call.fails)), level + 1)
  end
  for key in pairs(call) do
    if math.type(key) ~= "integer" and key ~= "returns" and key ~= "fails" then
      error(("call %d: '%s' is nothing that a call has (returns, fails)"):format(i, shown(key)), level + 1)
    end
  end
end

local function fits(value, wanted)
  if type(wanted) ~= "table" then return value == wanted end
  if type(value) ~= "table" and type(value) ~= "userdata" then return false end
  for name, v in pairs(wanted) do
    if not fits(value[name], v) then return false end
  end
  return true
end

-- Does the call have these arguments? As many as are given; a function is asked about those from
-- its place on.
local function fits_call(call, args)
  for i = 2, #call do
    local wanted = call[i]
    local ok
    if type(wanted) == "function" then
      ok = wanted(table.unpack(args, i - 1, args.n))
    else
      ok = fits(args[i - 1], wanted)
    end
    if not ok then return false end
  end
  return true
end

local function answer(call, rest, args)
  -- errno has both ways, names and numbers
  if call.fails ~= nil then return nil, math.tointeger(call.fails) or core.errno[call.fails] end
  if type(call.returns) == "function" then return call.returns(table.unpack(args, 1, args.n)) end
  if call.returns ~= nil then return call.returns end
  if rest and rest[call[1]] then return rest[call[1]](table.unpack(args, 1, args.n)) end
  return 0
end

-- What is not in order: told once, by the call that is not. What a caller does to clean up after
-- that is no news.
local function out_of_order(state, name, args, call)
  local what = call and ("expected %s, got "):format(show_call(call)) or "nothing more was expected, got "
  state.why = ("call %d of %d: %s%s"):format(state.at, #state.calls, what, show_got(name, args, call))
  error(state.why, 0)
end

local function hook_of(state, name)
  return function(...)
    local args = table.pack(...)
    local over = state.why or state.over
    if over or state.rest and not state.named[name] then
      local f = state.rest and state.rest[name]
      if f then return f(...) end
      return nil, core.errno.ECANCELED
    end
    local call = state.calls[state.at]
    if not call or call[1] ~= name or not fits_call(call, args) then out_of_order(state, name, args, call) end
    state.at = state.at + 1
    return answer(call, state.rest, args)
  end
end

--- A table of hooks that takes just these calls, in this order; for hooks.set and hooks.with.
-- @tparam table calls  each { name, arguments... }, of which as many are looked at as are given: a
--   value is to be equal, of a table (an attr) the fields that it names, and a function is asked,
--   with the arguments from its own place on. `returns` is the answer, or a function that gives
--   it; `fails` an errno, or its name, to fail with. Without either: what `rest` answers, or 0
-- @tparam[opt] table rest  hooks for calls by a name that is not in the list; without it there
--   are to be no other calls
-- @treturn table  e:done() raises unless all have been called; so does leaving a <close>
function M.expect(calls, rest)
  if type(calls) ~= "table" then error("expect: a list of calls was expected", 2) end
  if rest ~= nil and type(rest) ~= "table" then error("expect: rest: a table of hooks was expected", 2) end
  local state = { calls = {}, at = 1, named = {}, rest = rest }
  for i, call in ipairs(calls) do
    check_call(i, call, 2)
    state.calls[i], state.named[call[1]] = call, true
  end
  local expected = setmetatable({ strict = true }, Expected)
  for name in pairs(M.real) do expected[name] = hook_of(state, name) end
  state_of[expected] = state
  return expected
end

--- That is all: raises what was out of order, if that was swallowed, or names what was never called.
function Expected:done()
  local state = state_of[self]
  state.over = true
  if state.why then error(state.why, 2) end
  local missing = {}
  for i = state.at, #state.calls do missing[#missing + 1] = show_call(state.calls[i]) end
  if #missing > 0 then
    error(("call %d of %d: never came: %s"):format(state.at, #state.calls, table.concat(missing, ", ")), 2)
  end
end

-- An error that is on its way already says more.
function Expected:__close(why)
  if why == nil then self:done() else state_of[self].over = true end
end

return M
