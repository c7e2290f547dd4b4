--- perfl cut: copies a part of a recording to a new one. perfl filter is the same.

local args = require "perfev.tool.args"
local command_line = require "perfl.command_line"
local copy = require "perfl.rewrite.copy"
local escape = require "perfev.base.escape"
local load_source = require "perfl.load_source"
local message = require "perfl.message"
local open_recording = require "perfl.verb.open_recording"
local parse_units = require "perfev.base.parse_units"
local replay_filter = require "perfev.perfdata.replay_filter"
local shown = require "perfev.base.show_value"
local verbs = require "perfl.verb"

local M = {}

-- Options of perfl that mean the same, and their help here.
local shared = {
  { "--from", "leave out records before TIME: 12345.678901 as perf script prints it, +1.5s after the first sample, or "
    .. "25% of the span" },
  { "--to", "leave out records after TIME" },
  { "-C", "keep only these CPUs, as in 0-3,7" },
  { "-p", "keep only these processes" },
  { "-t", "keep only these threads" },
  { "--comm", "keep only tasks with this name, as in 'nginx*'" },
  { "-z", "compress the new recording with zstd" },
  { "-q", "print no summary line" },
}

local function shared_rows()
  local rows = {}
  for i, one in ipairs(shared) do
    rows[i] = setmetatable({ help = one[2] }, { __index = command_line.by_flag[one[1]] })
  end
  return rows
end

local function new_parser(verb)
  local parser = open_recording.new_parser(verb, "Copy the records of a recording that all options select to a new "
    .. "one, in the order of time.")
  parser:option("-o --output"):argname("NEW"):description("the new recording (-: standard output)")
  parser:option("-e --event"):argname("NAME")
    :description("keep only records of this event, as in cycles or 'sched:*'")
  parser:option("--where"):argname("LUA"):description("keep only records for which this Lua expression is true; r is "
    .. "the record, as in 'r.period > 1000'")
  parser:option("--where-file"):argname("FILE.lua"):description("keep only records for which the Lua function that "
    .. "this file returns is true; it gets the record")
  local rows = shared_rows()
  for _, row in ipairs(rows) do command_line.add_row(parser, row) end
  parser:epilog [[
Records about tasks, maps, symbols and cgroups are kept for the rest, up to --to.
Records of lost data are of every event. AUX data are left out.]]
  return parser, rows
end

-- The text of --where -> a function | nil, message
local function compile(text)
  local condition, why = args.condition(text, "--where")
  if condition then return condition end
  return nil, ("--where '%s': %s\ntry: --where 'r.cpu == 0'"):format(escape(text), escape(why))
end

-- The function that a file returns | nil, message
local function load_function(path)
  local function refuse(why)
    return nil, ("--where-file %s: %s\ntry: return function(r) return r.cpu == 0 end"):format(escape(path), escape(why))
  end
  local text, why = load_source.read(path, "")
  if not text then return refuse(why) end
  local chunk, wrong = load_source.compile(text, "@" .. path)
  if not chunk then return refuse(wrong) end
  local ok, wanted = pcall(chunk)
  if not ok then return refuse(message.shown(wanted)) end
  if type(wanted) == "function" then return wanted end
  return refuse(("it returns %s, not a function"):format(wanted == nil and "nothing" or shown(wanted)))
end

-- Records other than samples lack most fields. An error at one of them names its type.
local function with_type(f)
  return function(r)
    local ok, result = pcall(f, r)
    if ok then return result end
    if r.type == "sample" or not tostring(result):find("nil", 1, true) then error(result, 0) end
    error(("%s\nthe record is of type '%s'\ntry: r.type == \"sample\" and ..."):format(
      message.shown(result), r.type), 0)
  end
end

-- Makes the options of a session from those of the command line.
local function conditions(opts)
  return {
    from = opts.from and parse_units.moment(opts.from), to = opts.to and parse_units.moment(opts.to),
    cpus = opts.cpus, pid = opts.pids, tid = opts.tids, comm = opts.comm,
  }
end

-- Makes the options of the copier -> options | nil, message
local function copier_of(rec, opts)
  local wanted, why = replay_filter.of(rec, conditions(opts), open_recording.shown(opts.file))
  if not wanted then return nil, why end
  return {
    wanted = wanted, tools_left_out = copy.tools_left_out, events = opts.event and {},
    edit = opts.where and with_type(opts.where), edited = opts.where and ~copy.SIDE_BAND,
  }
end

-- Copies the recording -> exit status
local function write(rec, opts)
  local why = copy.refusal(rec)
  local copier
  if not why then copier, why = copier_of(rec, opts) end
  if why then
    message.say(why)
    return open_recording.FAILED
  end
  local written, filter = {}, opts.event and open_recording.event_filter(opts.event)
  local function describe(writer)
    for i = (written.events or 0) + 1, filter and #rec.events or 0 do
      copier.events[i] = filter[rec.events[i]]
    end
    copy.describe(rec, writer, written)
  end
  return open_recording.write_new({ { rec = rec, copier = copier } }, describe, opts)
end

-- The command line -> options | nil, exit status
local function parse(words, verb)
  local parser, rows = new_parser(verb)
  local result, status = open_recording.parse(parser, verb, words)
  if not result then return nil, status end
  local opts, ok, why = command_line.taken(rows, result), true, nil
  opts.file, opts.output, opts.event = result.file, result.output, result.event
  if not opts.output then
    why = ("no name for the new recording\ntry: perfl %s %s -o NEW"):format(verb, escape(opts.file))
  elseif result.event then
    ok, why = open_recording.event_filter(result.event)
  end
  if ok and result.where and result.where_file then
    why = "--where and --where-file at once\ntry: one of them"
  elseif ok and result.where then
    opts.where, why = compile(result.where)
  elseif ok and result.where_file then
    opts.where, why = load_function(result.where_file)
  end
  if why then return verbs.refuse(verb, why) end
  return opts
end

--- Copies the records of a recording that the options select.
-- @tparam table opts  `file`, `output`, `from`, `to`, `cpus`, `pids`, `tids`, `comm`, `compress`, `quiet`, `fd`
-- @treturn integer  exit status
function M.copy(opts)
  local rec <close> = open_recording.open("cut", opts.file)
  return rec and write(rec, opts) or open_recording.FAILED
end

--- The verb.
-- @tparam {string,...} words  of the command line after the verb
-- @tparam string verb         "cut" or "filter"
-- @treturn integer  exit status
function M.main(words, verb)
  local opts, status = parse(words, verb)
  if not opts then return status end
  local rec <close> = open_recording.open(verb, opts.file)
  if not rec then return open_recording.FAILED end
  local no_event = opts.event and open_recording.no_such_event(rec, opts.event, opts.file)
  if no_event then
    message.say(no_event)
    return open_recording.FAILED
  end
  return write(rec, opts)
end

return M
