--- Runs perfl with a script on a simulated kernel in a child process, and reports what happened.

local binary = require "perfev.symbol.binary"
local callback = require "perfev.live.callback"
local core = require "perfev.core"
local lua_text = require "perfl.prove.lua_text"
local message = require "perfl.message"
local native = require "perfl.core"
local session = require "perfev.live.session"
local sim = require "perfev.sim"
local simulate = require "perfl.simulate"
local table_sizes = require "perfl.prove.table_sizes"
local world_of_steps = require "perfev.sim.world"

local M = {
  count = 0, -- runs
  ANEW = "--run-anew", -- a word that is for this file alone
}

local CALL_NS = 200000000 -- CPU time of a call of the script, until it is interrupted
local FAILURES_MAX = 8
local ENDLESS = "the script computes without an end"
local SECONDS = 2 -- CPU time of a run, unless options.seconds says more
local MEMORY = 256 << 20

-- ---- the kernel ----

-- Kernels without steps, by the options of their worlds: made once, and copied by fork(2).
local kernels, nr_kernels = {}, 0
local KERNELS_MAX = 16

local function kernel_of(world, files)
  local options = {}
  for name, value in pairs(world) do
    if type(name) == "string" then options[name] = value end
  end
  local key = lua_text.encode(options)
  if not kernels[key] then
    if nr_kernels >= KERNELS_MAX then kernels, nr_kernels = {}, 0 end
    kernels[key], nr_kernels = world_of_steps.kernel(options, sim.new), nr_kernels + 1
  end
  for path, text in pairs(files or {}) do kernels[key].files[path] = text end
  return kernels[key]
end

-- ---- in the child ----

-- What a script may not do to the real machine, and what it gets instead.
local function deny(result)
  local function denied(name)
    return function()
      local where = debug.getinfo(2, "Sl")
      result.denied[#result.denied + 1] = ("%s (%s:%d)"):format(name, where.short_src, where.currentline)
      return nil, name .. ": denied by perfl prove", core.errno.EPERM
    end
  end
  for _, name in ipairs { "execute", "remove", "rename", "tmpname" } do
    os[name] = denied("os." .. name) -- luacheck: ignore 122
  end
  io.popen, io.tmpfile = denied "io.popen", denied "io.tmpfile" -- luacheck: ignore 122
  local open, refuse = io.open, denied "io.open to write"
  io.open = function(path, mode) -- luacheck: ignore 122
    if mode and mode:find "[wa+]" and path ~= "/dev/null" then return refuse() end
    return open(path, mode)
  end
end

-- Programs and libraries for probes: each file has each function.
local function fake_programs()
  local program = {}
  function program.facts() return { bits = 64, symtab = true } end
  function program.offset(_, value) return value end
  function program.runs() return true end
  function program.nearest() end
  function program.functions() return {} end
  function program.symbol(_, name)
    local value = 0x1000
    for i = 1, #name do value = value + i * name:byte(i) * 16 end
    return { name = name, value = value, offset = value, size = 64, type = "func", others = 0 }
  end
  binary.open = function(word)
    return { path = word:find("/", 1, true) and word:gsub("^%.?/?", "/") or "/usr/lib/" .. word .. ".so",
      elf = program, word = word }
  end
end

-- The clock of the world instead of the machine's.
local function fake_clocks(k)
  local date = os.date
  os.time = function(t) return t and 0 or k.now // 1000000000 end -- luacheck: ignore 122
  os.clock = function() return k.now / 1e9 end -- luacheck: ignore 122
  os.date = function(format, time) return date(format, time or os.time()) end -- luacheck: ignore 122
end

local function bits_of(event)
  local bits = {}
  for _, name in ipairs { "comm", "task", "mmap", "mmap2", "context_switch", "ksymbol", "bpf_event", "cgroup",
    "namespaces", "text_poke", "inherit" } do
    if event.attr[name] and event.attr[name] ~= 0 then bits[#bits + 1] = name end
  end
  return bits
end

-- The events that were opened: tracepoints by name, others by type and config.
local function opened_events(k)
  local list, seen = {}, {}
  for _, event in ipairs(k.events) do
    local tp = event.attr.type == 2 and (event.tracepoint or k.tracepoints[event.attr.config])
    local one = { name = tp and tp.system .. ":" .. tp.name or nil, type = event.attr.type,
      config = event.attr.config, filter = event.filter, bits = bits_of(event),
      samples = event.attr.sample_period ~= 0 or nil, chain = event.attr.sample_type & 32 ~= 0 or nil }
    local key = lua_text.encode(one)
    if not seen[key] then seen[key], list[#list + 1] = true, one end
    if tp then
      one.fields = {}
      for i, field in ipairs(tp.fields) do
        one.fields[i] = { name = field.name, size = field.each, count = field.count, text = field.is_text or nil,
          dynamic = field.dynamic or nil, signed = field.signed or nil }
      end
    end
  end
  return list
end

local function totals_of(s)
  local totals = {}
  for name, value in pairs(s:totals()) do
    if type(value) == "number" then totals[name] = value end
  end
  return totals
end

-- What an aggregator has, without its keys: the number of values, their sum and the largest one.
local function add_up(one)
  local total = { kind = one:spec().kind, unit = one:spec().unit, count = 0, sum = 0 }
  for _, row in ipairs(one:rows()) do
    local value = row.value
    if type(value) == "table" then
      total.count, total.sum = total.count + value.count, total.sum + (value.sum or 0)
      total.max = math.max(total.max or value.max or 0, value.max or 0)
    elseif type(value) == "number" then
      total.count = total.kind == "count" and total.count + value or nil
      total.sum = total.sum + value
    end
  end
  return total
end

local function aggregates()
  local list = {}
  if not package.loaded["perfev.aggregate.aggregator"] then return list end
  for _, one in ipairs(require("perfev.aggregate.aggregator").all()) do
    local ok, total = pcall(add_up, one)
    list[#list + 1] = ok and total or nil
  end
  return list
end

-- Collects what the script raises: perfl prints only the first error of each callback.
local function collect_errors(result, finish)
  local report, traceback = callback.report_error, message.traceback
  function message.traceback(object)
    local text = traceback(object)
    if type(text) == "string" and #result.failures < FAILURES_MAX then
      result.failures[#result.failures + 1] = { what = "script", text = text }
    end
    return text
  end
  function callback.report_error(s, object, what, key)
    if #result.failures < FAILURES_MAX then
      result.failures[#result.failures + 1] = { what = what, text = tostring(object) }
    end
    if tostring(object):find(ENDLESS, 1, true) then
      result.endless = true
      finish(124)
    end
    return report(s, object, what, key)
  end
end

-- The run, in the child; never returns.
local function run(main, words, k, world, options)
  local result = { failures = {}, denied = {}, calls = {}, modules = {} }
  local exit = os.exit
  local function finish(status)
    result.status = status
    if io.type(io.output()) == "file" then io.output():flush() end
    local s = session.default()
    if options.collect then collectgarbage() collectgarbage() end -- else the aggregates depend on chance
    result.events, result.totals, result.aggregates = opened_events(k), totals_of(s), aggregates()
    s:close()
    result.leaks = k:leaks()
    if result.leaks[1] then -- of objects that only their finalizers close
      collectgarbage()
      collectgarbage()
      result.leaks = k:leaks()
    end
    for name in pairs(package.loaded) do
      if name:find "^perf[evl]+%." then result.modules[#result.modules + 1] = name end
    end
    if options.file then result.file = k.files[options.file] end
    result.path = arg and arg[0]
    for name, n in pairs(k.counts) do result.calls[name] = n end
    native.finish_child(lua_text.encode(result))
    exit(125, false)
  end
  os.exit = function(status) -- luacheck: ignore 122
    finish(status == true and 0 or status == false and 1 or status or 0)
  end
  math.randomseed(1)
  k.log = setmetatable({}, { __newindex = function() end })
  deny(result)
  fake_clocks(k)
  fake_programs()
  collect_errors(result, finish)
  if options.memory then table_sizes.measure(k, options, result) end
  world_of_steps.add_steps(k, world)
  k.on_open = function(event) event.tracepoint = k.tracepoints[event.attr.config] end -- a probe is removed at the end
  simulate.kernel = k
  core.limit_memory(MEMORY)
  core.limit_time(CALL_NS, ENDLESS, ENDLESS)
  local argv = { [0] = "perfl", "--sim", "world", table.unpack(words) }
  finish((main(argv)))
end

--- Loads the modules that a child has loaded, so that the next ones find them.
function M.preload(result)
  for _, name in ipairs(result.modules or {}) do pcall(require, name) end
end

local RING = "64K" -- small rings are made faster

-- perfl's command line: options of this run, the target, the script with its words.
local function words_of(plan, options)
  local words = table.move(options.words or {}, 1, #(options.words or {}), 1, {})
  local has_ring = false
  for _, list in ipairs { words, plan.words } do
    for _, word in ipairs(list) do has_ring = has_ring or word:find "^%-m" or word:find "^%-%-buffer" end
  end
  if not has_ring then table.move({ "-m", RING }, 1, 2, #words + 1, words) end
  if plan.target and not options.without_target then table.move(plan.target, 1, #plan.target, #words + 1, words) end
  return table.move(plan.words, 1, #plan.words, #words + 1, words)
end

--- Runs the script in a world in a new process, whose tables have another order of keys -> its output
function M.run_anew(plan, world)
  M.count = M.count + 1
  local words = table.move(words_of(plan, {}), 1, #words_of(plan, {}), 3, { M.ANEW, lua_text.encode(world) })
  table.insert(words, 1, "prove")
  local got, why = native.run_child(function() native.exec_self(words) end, 5)
  if not got then error("perfl prove: " .. why, 0) end
  return lua_text.decode(got.output)
end

--- The rest of run_anew, in the new process: prints the output of the script as a Lua string.
-- @tparam {string,...} words  the world, then perfl's command line
function M.print_run(words, main)
  local world = lua_text.decode(words[1])
  local k = kernel_of(world)
  local got = native.run_child(function() run(main, table.move(words, 2, #words, 1, {}), k, world, {}) end, 5)
  print(got and lua_text.encode(got.output) or "nil")
end

--- Runs the script in a world.
-- @tparam table plan      `main`: perfl's; `words`: its command line; `target`: more words, or nil
-- @tparam table world
-- @tparam ?table options  `words` of this run, `without_target`, `closed`, `memory`, `file` to return, `files`,
--   `seconds`, `collect`: without the aggregators that are no longer in use
-- @treturn table          `status`, `signal`, `output`, `errors`, and of run(); nil, message if there is no process
function M.run(plan, world, options)
  options = options or {}
  M.count = M.count + 1
  local k, words = kernel_of(world, options.files), words_of(plan, options)
  local got, why = native.run_child(function() run(plan.main, words, k, world, options) end, options.seconds or SECONDS,
    options.closed)
  if not got then error("perfl prove: " .. why, 0) end
  local result = lua_text.decode(got.result) or { failures = {}, denied = {}, leaks = {}, calls = {}, events = {},
    totals = {}, aggregates = {}, died = true }
  result.output, result.errors, result.signal, result.exit = got.output, got.errors, got.signal, got.exit
  return result
end

return M
