--- perfl --sandbox: runs a script that the user has not written. perfl merge runs the script of its frames like that.
--
-- Three layers, each of which holds without the others: the script's environment (environment.lua, with the limits of
-- src/lua/base/llimit.h), the guard in front of the system calls (src/sandbox/guard.h), and from the moment that all
-- events are open the kernel (confinement.lua). doc/sandbox.md says what each forbids.

local core = require "perfev.core"
local args = require "perfev.tool.args"
local confinement = require "perfl.sandbox.confinement"
local environment = require "perfl.sandbox.environment"
local escape = require "perfev.base.escape"
local interface = require "perfl.sandbox.interface"
local load_source = require "perfl.load_source"
local message = require "perfl.message"
local parse_units = require "perfev.base.parse_units"
local restricted_script = require "perfl.restricted_script"
local event_loop = require "perfev.live.event_loop"
local session = require "perfev.live.session"
local session_options = require "perfev.base.options"

local M = {}

--- Exit status of a run that a limit ended, as of timeout(1), and of one that the kernel cannot confine.
M.EXIT_LIMIT, M.EXIT_REFUSED = 124, 77

local RESERVE = 32 << 20 -- bytes, for perfl to end after the limit was reached
local LEAST_BYTES, LEAST_NS = 8 << 20, 20000000 -- the kernel's CPU timers count ticks of up to 10 ms

-- ---- the option ----

local function read_memory(options, text)
  local bytes, why = parse_units.size(text)
  if not bytes then return why end
  if bytes < LEAST_BYTES then return ("mem=%s: 8M or more"):format(text) end
  options.memory, options.memory_text = bytes, text
end

local function read_time(options, text)
  local ns, why = parse_units.duration(text)
  if not ns then return why end
  if ns < LEAST_NS then return ("time=%s: 20ms or more"):format(text) end
  options.time = ns
end

local function read_directory(options, text)
  if text:sub(1, 1) ~= "/" then return ("read=%s: an absolute path"):format(text) end
  options.read[#options.read + 1] = text
end

local readers = { mem = read_memory, time = read_time, read = read_directory }

local function read_word(options, word)
  if word == "best-effort" then
    options.best_effort = true
    return nil
  end
  local name, value = word:match "^(%l+)=(.+)$"
  if readers[name] then return readers[name](options, value) end
  return ("'%s': expected mem=SIZE, time=DURATION, read=DIR or best-effort"):format(word)
end

-- Reads the value of --sandbox -> the reason if it is invalid
local function read_value(options, value)
  for word in value:gmatch "[^,]+" do
    local why = read_word(options, word)
    if why then return ("--sandbox: %s\ntry: --sandbox=mem=%s,time=1s"):format(escape(why), options.memory_text) end
  end
end

local MERGE_BYTES, MERGE_NS = 1 << 30, 10000000000

--- Reads the limits of the script of perfl merge.
-- @tparam ?string value  of --sandbox
-- @treturn[1] table      the options
-- @treturn[2] nil
-- @treturn[2] string     the reason
function M.read_printing(value)
  local options = { memory = MERGE_BYTES, memory_text = "1G", time = MERGE_NS, read = {} }
  local why = read_value(options, value or "")
  if why then return nil, why end
  return options
end

--- Takes the values of --sandbox off the command line, up to the script: words after it may be a command's.
-- @tparam {string,...} argv
-- @tparam table found       of command_line.scan
-- @treturn[1] {string,...}  with the plain word --sandbox
-- @treturn[1] table         the options
-- @treturn[2] nil
-- @treturn[2] string        the reason
function M.read(argv, found)
  if found.verb then
    return nil, ("--sandbox: '%s' is a part of perfl, not a script\ntry: without --sandbox"):format(found.verb)
  end
  local words, options = table.move(argv, 0, #argv, 0, {}), nil
  for i = 1, found.places[found.script_at or found.chunk_at or #found.head] do
    local value = argv[i]:match "^%-%-sandbox=(.*)$"
    if value or argv[i] == "--sandbox" then
      options = options or { memory = 256 << 20, memory_text = "256M", time = 1000000000, read = {} }
      words[i] = "--sandbox"
    end
    local why = value and read_value(options, value)
    if why then return nil, why end
  end
  if options then return words, options end
  return nil, "--sandbox comes after the script, or in a command\ntry: it before the script, or -- before the command"
end

-- ---- the run ----

local started -- the options of --sandbox, once the sandbox is on
local run     -- perfl's run, as in main.lua

-- True if the user named this file on the command line, outside of the command.
local function is_named(path)
  local words = run.argv
  for i = 1, #words - #(run.words.command or {}) do
    if words[i] == path or words[i]:match "^%-%-?[%w-]+=(.*)$" == path then return true end
  end
  return false
end

local allowed_signals = { [core.signals.USR1] = true, [core.signals.USR2] = true }

-- The options of sessions that have effects outside -> whether the value is what the command line asked for.
local is_asked = {
  record = function(path) return run.opts and path == run.opts.record end,
  switch_output = function() return false end,
  command = function(words) return words == run.words.command end,
  input = is_named,
  signal = function(number) return allowed_signals[number] end,
}

local function refuse_option(name, value)
  if value == nil or value == false or not is_asked[name] or is_asked[name](value) then return nil end
  if name == "input" then return "input: the command line does not name this file (--sandbox)" end
  if name == "signal" then return "with --sandbox a script receives USR1 and USR2 only" end
  return name .. ": not available to a script with --sandbox"
end

local LONG = 10 -- times `time`, outside of callbacks of records; also perfev.live.callback's

local function too_long(ns)
  return ns % 1000000000 == 0 and ("the script computed for more than %d s (--sandbox)"):format(ns // 1000000000)
    or ("the script computed for more than %d ms (--sandbox)"):format(ns // 1000000)
end

-- Puts the script behind the guard, and within the limits -> its globals
local function enter(options, r, option)
  started, run = options, r
  core.guard_start()
  confinement.load_modules()
  restricted_script.restrict(load_source.find_own_module)
  package.path = "" -- perfl's own modules are in it: a file beside the script must not take the place of one
  session_options.refuse_option = refuse_option
  local env = environment.new(interface.new(is_named), is_named, option)
  args.environment = env
  core.limit_memory(options.memory)
  assert(core.limit_time(options.time, too_long(options.time), too_long(LONG * options.time)))
  return env
end

--- Starts the sandbox: called before the script is loaded.
-- @tparam table options  of `read`
-- @tparam table r        the run: `argv`, `words`, and later `opts`
-- @treturn[1] table      the script's globals
-- @treturn[2] nil
-- @treturn[2] string     what this machine lacks
function M.start(options, r)
  local missing = confinement.missing()
  if missing and not options.best_effort then return nil, missing end
  if missing then message.say(missing) end
  local env = enter(options, r, "--sandbox")
  event_loop.confine = M.confine
  return env
end

--- Starts the sandbox for a script that only prints. It opens no event, and the kernel confines this process from here
-- on, as far as it can: nothing is opened any more but the files.
-- @tparam table options         of `read_printing`
-- @tparam {string,...} files    that the script may read
-- @treturn table                the script's globals
function M.start_printing(options, files)
  local env = enter(options, { argv = files, words = {}, opts = {} }, "perfl merge --read FILE")
  core.guard_refuse_events()
  confinement.restrict(table.move(files, 1, #files, #options.read + 1, options.read))
  return env
end

--- Checks perfl's options for a sandboxed script, and allows what they ask for.
-- @tparam table opts
-- @treturn ?string  the reason to refuse one
function M.allow_options(opts)
  for _, name in ipairs { "switch_output", "debuginfod" } do
    if opts[name] then
      return ("--%s and --sandbox at once: %s\ntry: without one of them"):format(name:gsub("_", "-"),
        name == "debuginfod" and "it needs the network" or "it makes files while the script runs")
    end
  end
  if opts.input and opts.record then
    return "-i, --record and --sandbox at once: the new recording is made at the end\ntry: perfl cut"
  end
  if opts.record and opts.record ~= "-" then core.guard_allow_file(opts.record) end
end

--- Allows the command of the command line.
function M.allow_command(words)
  if words then core.guard_allow_command(words) end
end

--- Calls the script, or prints for it at the end, within the limits.
function M.limited(f, ...)
  local before <close> = setmetatable({ core.limit_enter(LONG) }, { __close = function(self) -- luacheck: ignore 211
    core.limit_leave(self[1])
  end })
  return f(...)
end

--- Confines perfl by the kernel, when the events of a session are open. A recording that a script reads while the
-- default session starts, as a baseline, is no reason. If that fails, the process ends: a script could catch an error
-- and go on, or cause one by using up memory, descriptors or the stack.
function M.confine(s)
  if started.is_confined or s.replay and s ~= session.default() then return end
  core.limit_memory(started.memory + RESERVE)
  local ok, missing = pcall(core.unlimited, confinement.apply, s, run, started)
  started.is_confined = ok
  if not ok or missing then message.say(tostring(missing)) end
  if not ok or missing and not started.best_effort then os.exit(M.EXIT_REFUSED, true) end
  core.limit_memory(started.memory)
end

--- True once a limit was reached: the run ends.
function M.is_exceeded()
  if core.limit_memory_refused() and not started.is_full then
    started.is_full = true
    core.limit_memory(started.memory + RESERVE)
  end
  return started.is_full or core.limit_exceeded()
end

--- The message and the status of a run that a limit ended, or nil.
function M.outcome()
  if not started or not M.is_exceeded() then return nil end
  if started.is_full then
    return ("the script used more than %s of Lua memory\ntry: --sandbox=mem=SIZE"):format(started.memory_text),
      M.EXIT_LIMIT
  end
  return "the time limit of --sandbox ended the run\ntry: --sandbox=time=DURATION", M.EXIT_LIMIT
end

return M
