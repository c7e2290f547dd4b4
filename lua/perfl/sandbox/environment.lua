--- The globals of a sandboxed script: copies of Lua's libraries without what reaches files, programs, perfl's own
-- objects, or other states of the interpreter.
--
-- perfl's globals are other tables. Objects of perfev that a script gets are perfev's own; their metatables are hidden.

local core = require "perfev.core"

local debug = debug -- perfl.restricted_script takes it away

local M = {}

local function refuse(name)
  return function() error(name .. ": not available with --sandbox", 2) end
end

-- A copy of a library; access to another name raises, so that a script learns the reason.
local function library(name, source, names)
  local copy = {}
  for word in names:gmatch "[%w_]+" do copy[word] = source[word] end
  local names_there = { loadlib = source == package, dump = source == string } -- perfl's own have lost these
  for word in pairs(source) do names_there[word] = true end
  return setmetatable(copy, { __index = function(_, key)
    if not names_there[key] then return nil end
    error(("%s.%s: not available with --sandbox"):format(name, key), 2)
  end, __metatable = false })
end

-- ---- metatables ----

-- Lets getmetatable() and setmetatable() see only metatables that the script made, and finalizers nowhere: they would
-- run in the middle of perfl's own code.
local function metatable_functions()
  local get, set = getmetatable, setmetatable
  local own = set({}, { __mode = "k" })
  local function get_own(object)
    local meta = get(object)
    if type(object) == "table" and own[meta] then
      local shown = rawget(meta, "__metatable")
      if shown ~= nil then return shown end
      return meta
    end
    return nil
  end
  local function set_own(object, meta)
    if type(object) ~= "table" then error("setmetatable: a table expected", 2) end
    local before = debug.getmetatable(object)
    if before and not own[before] then error("setmetatable: an object of perfev (--sandbox)", 2) end
    if type(meta) == "table" then
      if rawget(meta, "__gc") ~= nil then error("setmetatable: __gc is not available with --sandbox", 2) end
      if get(meta) ~= nil and not own[get(meta)] then
        error("setmetatable: an object of perfev as a metatable (--sandbox)", 2)
      end
      own[meta] = true
    end
    return set(object, meta)
  end
  return get_own, set_own
end

-- ---- perfl's own tables ----

-- The name of a method, but not of a metamethod: an object must not lead to its class.
local function hidden_index(class)
  return function(_, name)
    if type(name) == "string" and name:sub(1, 2) == "__" then return nil end
    return class[name]
  end
end

-- Hides classes that are their own __index: of userdata now, of tables when they become the metatable of an object.
local function hide_classes()
  for _, class in pairs(debug.getregistry()) do
    if type(class) == "table" and rawget(class, "__name") and rawequal(rawget(class, "__index"), class) then
      rawset(class, "__index", hidden_index(class))
    end
  end
  local set = setmetatable
  _G.setmetatable = function(object, class)
    if type(class) == "table" and rawequal(rawget(class, "__index"), class) then
      rawset(class, "__index", hidden_index(class))
    end
    return set(object, class)
  end
  debug.getmetatable("").__metatable = false
end

local OWN_FILES = { ["/dev/null"] = true, ["/dev/urandom"] = true } -- that perfl opens

-- perfl's own globals lose what no code of perfl may do for a script: an option of a function of perfev.tool may be a
-- path.
local function disarm_perfl(is_named, option)
  local open = io.open
  io.open = function(path, mode) -- luacheck: ignore 122
    local reads = mode == nil or mode == "r" or mode == "rb"
    if OWN_FILES[path] or reads and is_named(path) then return open(path, mode) end
    return nil, ("%s: the command line does not name this file (%s)"):format(path, option), core.errno.EACCES
  end
  string.dump = nil -- luacheck: ignore 122
  for _, name in ipairs { "execute", "remove", "rename", "tmpname" } do
    os[name] = function() return nil, "not available with --sandbox", core.errno.EPERM end -- luacheck: ignore 122
  end
  io.popen = os.execute -- luacheck: ignore 122
  io.tmpfile = os.execute -- luacheck: ignore 122
end

-- ---- files ----

local EVENT_SOURCES = "/sys/bus/event_source/devices/"

-- Reading: files of the command line, and facts of PMUs.
local function is_readable(path, is_named)
  if type(path) ~= "string" then return false end
  return is_named(path) or path:sub(1, #EVENT_SOURCES) == EVENT_SOURCES and not path:find("..", 1, true)
end

local function file_library(is_named, option)
  local open, lines = io.open, io.lines
  local files = { write = io.write, type = io.type }
  function files.open(path, mode)
    if mode ~= nil and mode ~= "r" and mode ~= "rb" then
      return nil, ("%s: files are not written with --sandbox"):format(path), core.errno.EACCES
    end
    if not is_readable(path, is_named) then
      return nil, ("%s: the command line does not name this file (%s)"):format(path, option), core.errno.EACCES
    end
    return open(path, mode)
  end
  function files.lines(path, ...)
    if not is_readable(path, is_named) then
      error(("io.lines: the command line does not name '%s' (%s)"):format(tostring(path), option), 2)
    end
    return lines(path, ...)
  end
  function files.output(...)
    if select("#", ...) > 0 then error("io.output: not available with --sandbox", 2) end
    return io.output()
  end
  for _, name in ipairs { "popen", "tmpfile", "input", "read", "close" } do files[name] = refuse("io." .. name) end
  return setmetatable(files, { __index = function(_, name)
    if name == "stdout" or name == "stderr" then return io[name] end
    if name == "stdin" then error("io.stdin: not available with --sandbox", 2) end
    return nil
  end, __metatable = false })
end

-- ---- code ----

-- coroutine.*: the time limit follows the code into coroutines.
local function coroutine_library()
  local create, resume, close = coroutine.create, coroutine.resume, coroutine.close
  local own = library("coroutine", coroutine, "create isyieldable running status yield")
  own.resume = function(co, ...) return core.limit_coroutine(resume, co, ...) end
  own.close = function(co) return core.limit_coroutine(close, co) end
  own.wrap = function(f)
    local co = create(f)
    local function pass(ok, ...)
      if ok then return ... end
      if coroutine.status(co) ~= "dead" then error((...), 0) end
      core.limit_coroutine(close, co)
      error((...), 0)
    end
    return function(...) return pass(core.limit_coroutine(resume, co, ...)) end
  end
  return own
end

local function module_loader(env, modules)
  local names = { "perfev", "perfev.tool" }
  return function(name)
    if modules[name] then return modules[name] end
    if type(name) == "string" and type(env[name]) == "table" and name:find "^%l+$" then return env[name] end
    error(("require: '%s' is not available with --sandbox\n  try: %s"):format(tostring(name),
      table.concat(names, ", ")), 2)
  end
end

local function collect(option)
  option = option == nil and "collect" or option
  if option ~= "collect" and option ~= "count" then
    error(("collectgarbage: '%s' is not available with --sandbox"):format(tostring(option)), 2)
  end
  return collectgarbage(option)
end

local BASIC = "assert error ipairs next pairs pcall print rawequal rawget rawlen rawset select tonumber tostring type "
  .. "xpcall warn _VERSION"

--- Makes the globals of the script; perfl's own lose what could do harm.
-- @tparam table modules      name -> module, for require: perfl.sandbox.interface
-- @tparam function is_named  path -> whether the command line names this file
-- @tparam string option      by which the user would name another file, for messages
-- @treturn table
function M.new(modules, is_named, option)
  local env, load_text = {}, load
  for name in BASIC:gmatch "%S+" do env[name] = _G[name] end
  env.getmetatable, env.setmetatable = metatable_functions()
  env.string = library("string", string,
    "byte char find format gmatch gsub len lower match pack packsize rep reverse sub unpack upper")
  env.table = library("table", table, "concat insert move pack remove sort unpack")
  env.utf8 = library("utf8", utf8, "char charpattern codepoint codes len offset")
  env.math = {}
  for name, value in pairs(math) do env.math[name] = value end
  env.os = library("os", os, "clock date difftime time")
  env.debug = library("debug", debug, "traceback")
  env.io = file_library(is_named, option)
  env.coroutine = coroutine_library()
  env.package = library("package", package, "config")
  env.collectgarbage = collect
  env.load = function(chunk, name, _, ...)
    if type(name) == "string" and name:find "^.lua/perf" then name = "=(load)" end -- perfev's own: llimit.c
    return load_text(chunk, name, "t", select("#", ...) == 0 and env or (...))
  end
  env.dofile, env.loadfile = refuse "dofile", refuse "loadfile"
  env.require = module_loader(env, modules)
  env._G = env
  hide_classes()
  disarm_perfl(is_named, option)
  return setmetatable(env, { __metatable = false, __index = function(_, name)
    return name == "arg" and _G.arg or nil -- perfl sets it when it knows the script's words
  end })
end

return M
