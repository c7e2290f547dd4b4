--- perfev.hooks: Lua functions in the place of system calls. The table comes from
-- src/lua/hooks/lhooks.c; expect(), the strict order of calls, is made of hooks here.

local check = require "perfev.base.check"
local core = require "perfev.core"

local M = core.hooks

check.define("errno", "an errno or its name", function(value)
  return (math.type(value) == "integer" or core.errno[value]) and value or nil
end)

local call_options = { returns = "*", fails = "errno" }

local Expected = {}
Expected.__index = Expected
local state_of = setmetatable({}, { __mode = "k" }) -- not in the table, which may have only hooks

-- ---- calls as text ----

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

local DEFAULT_FIELDS = { type = true, config = true }

-- Shows the expected fields of an attr, or the kind of its event.
local function show_like(value, wanted)
  if type(value) == "userdata" and type(wanted) ~= "table" then wanted = DEFAULT_FIELDS end
  if type(wanted) ~= "table" or type(value) ~= "table" and type(value) ~= "userdata" then return show(value) end
  local fields = {}
  for name in pairs(wanted) do fields[name] = value[name] end
  return show(fields)
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

-- ---- expected calls ----

local function check_call(i, call, level)
  if type(call) ~= "table" or type(call[1]) ~= "string" then
    error(("call %d: must be { name, arguments... }"):format(i), level + 1)
  end
  if not M.real[call[1]] then
    local names = {}
    for name in pairs(M.real) do names[#names + 1] = name end
    error(("call %d: no hook is called '%s'%s"):format(i, call[1], (check.hint(call[1], names))), level + 1)
  end
  local options = {} -- the arguments between them may be nil
  for key, value in pairs(call) do
    if math.type(key) ~= "integer" then options[key] = value end
  end
  check.take(("call %d"):format(i), options, call_options, level + 2)
end

local function fits(value, wanted)
  if type(wanted) ~= "table" then return value == wanted end
  if type(value) ~= "table" and type(value) ~= "userdata" then return false end
  for name, v in pairs(wanted) do
    if not fits(value[name], v) then return false end
  end
  return true
end

-- True if the arguments match the expected call. A function gets the arguments from its own position on.
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
  -- core.errno maps names to numbers and numbers to names
  if call.fails ~= nil then return nil, math.tointeger(call.fails) or core.errno[call.fails] end
  if type(call.returns) == "function" then return call.returns(table.unpack(args, 1, args.n)) end
  if call.returns ~= nil then return call.returns end
  if rest and rest[call[1]] then return rest[call[1]](table.unpack(args, 1, args.n)) end
  return 0
end

-- Raises for the first call out of order; calls of the caller's cleanup after it do not raise.
local function raise_out_of_order(state, name, args, call)
  local what = call and ("expected %s, got "):format(show_call(call)) or "expected no more calls, got "
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
    if not call or call[1] ~= name or not fits_call(call, args) then raise_out_of_order(state, name, args, call) end
    state.at = state.at + 1
    return answer(call, state.rest, args)
  end
end

--- Makes a table of hooks that accepts these calls in this order; for hooks.set and hooks.with.
-- @tparam table calls each { name, arguments... }. An argument must equal the value. A table compares only its own
--   fields (of an attr). A function decides; it gets the arguments from its own position on. Arguments that are not
--   listed may have any value. `returns` is the answer, or a function that returns it; `fails` is an errno or its name.
--   Without either, `rest` answers, or 0
-- @tparam[opt] table rest  hooks for names that are not in the list; without it, any other call
--   raises
-- @treturn table  e:done() raises unless all calls were made; so does the end of a <close> variable
function M.expect(calls, rest)
  if type(calls) ~= "table" then error("expect: calls must be a list", 2) end
  if rest ~= nil and type(rest) ~= "table" then error("expect: rest must be a table of hooks", 2) end
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

--- Ends the list: raises the error of a call out of order again, or names the missing calls.
function Expected:done()
  local state = state_of[self]
  state.over = true
  if state.why then error(state.why, 2) end
  local missing = {}
  for i = state.at, #state.calls do missing[#missing + 1] = show_call(state.calls[i]) end
  if #missing > 0 then
    error(("call %d of %d: missing: %s"):format(state.at, #state.calls, table.concat(missing, ", ")), 2)
  end
end

-- An error that is being raised already names the cause.
function Expected:__close(why)
  if why == nil then self:done() else state_of[self].over = true end
end

return M
