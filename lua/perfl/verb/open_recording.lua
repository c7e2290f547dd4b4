--- Shared by the verbs that read a recording (report, dump, cut, ...): command line, opening, signals, exit status.

local args = require "perfev.tool.args"
local copy = require "perfl.rewrite.copy"
local escape = require "perfev.base.escape"
local glob = require "perfev.base.glob"
local native = require "perfl.core"
local output = require "perfl.output"
local reader = require "perfev.perfdata.reader"
local message = require "perfl.message"
local verbs = require "perfl.verb"

local M = {}

M.FAILED, M.USAGE = 1, verbs.USAGE

--- A parser with the file's arguments; the verb adds its options.
-- @tparam string verb
-- @tparam string description  a sentence
function M.new_parser(verb, description)
  local parser = args.new_parser("perfl " .. verb):add_help(true):description(description)
  parser:argument("file"):args("?")
    :description("the recording (default: perf.data; -: standard input)")
  parser:option("-i --input"):argname("FILE"):description("the same, for users of perf")
  return parser
end

--- The options, or nil and the exit status after the help or an error was printed.
function M.parse(parser, verb, words)
  local opts, status = verbs.parse(parser, verb, words)
  if not opts then return nil, status end
  opts.file = opts.file or opts.input or "perf.data"
  return opts
end

--- A recording's name in messages.
function M.shown(path) return path == "-" and "standard input" or path end

--- Opens a recording; prints the reason if it fails.
-- @treturn[1] perfev.recording
-- @treturn[2] nil
function M.open(verb, path)
  local rec, why, errno = reader.open(path)
  if rec then return rec end
  local remedy = path == "-" and ("perf record -o - -- COMMAND | perfl %s -"):format(verb)
    or reader.remedy(path, errno)
  message.say(("cannot open the recording %s\ntry: %s"):format(why, remedy))
end

-- ---- events by name ----

--- Returns a table that is true for the events that -e selects: by name, by name without modifiers, or by pattern.
-- @treturn[2] nil
-- @treturn[2] string  message
function M.event_filter(pattern)
  local ok, matches = pcall(glob.matcher, pattern)
  if not ok then return nil, ("event '%s': %s"):format(escape(pattern), escape(matches)) end
  return setmetatable({}, { __mode = "k", __index = function(cache, event)
    local name = event.name
    cache[event] = name == pattern or matches(name) or matches(name:match("^(.+):%a*$") or name)
    return cache[event]
  end })
end

--- Returns the message if -e matches no event of the recording; else nil.
function M.no_such_event(rec, pattern, file)
  local wanted = M.event_filter(pattern)
  for _, event in ipairs(rec.events) do
    if wanted[event] then return nil end
  end
  return ("no event is called '%s'\n%s has %s\ntry: one of these, or a pattern"):format(escape(pattern),
    M.shown(file), reader.names_text(rec.events))
end

-- ---- the end ----

--- False after a signal, or when the output's reader has closed it.
function M.may_continue()
  if not native.signal() then return (output.check()) end
  native.heed()
  return false
end

--- Prints that a signal ended the reading.
function M.say_interrupted()
  if native.signal() then message.say("interrupted: the rest of the recording was not read") end
end

--- Prints why reading ended before the end of the file, and how many records were left out.
function M.say_end(rec)
  M.say_interrupted()
  if rec.error then
    message.say(rec.error .. "\nthe part before it was read; perfl report lists further damage")
  end
  local n = rec:totals().malformed
  if n == 0 then return end
  message.say(("%d malformed record%s left out: %s"):format(n, n == 1 and " was" or "s were", rec.warnings[1] or ""))
end

local COMPRESSED = 1 -- the level of -z

local function summary_line(sum, path)
  return ("copied %s of %s records (%s samples) to %s, %s"):format(message.grouped(sum.records),
    message.grouped(sum.read), message.grouped(sum.samples),
    path == "-" and "standard output" or escape(path), message.size_text(sum.bytes))
end

--- Writes a new recording from others and prints a summary.
-- @tparam {table,...} inputs  of copy.write
-- @tparam function describe   of copy.write
-- @tparam table opts          `output`, `compress`, `quiet`, `fd` (in the place of standard output), `name_of`
-- @treturn integer  exit status
function M.write_new(inputs, describe, opts)
  local ok, sum, why = pcall(copy.write, inputs, {
    path = opts.output, level = opts.compress and COMPRESSED or 0, describe = describe, keep_going = M.may_continue,
    fd = opts.fd, name_of = opts.name_of,
  })
  if not ok or not sum then
    message.say(ok and why or message.shown(sum))
    return M.FAILED
  end
  local status = 0
  for _, input in ipairs(inputs) do
    M.say_end(input.rec)
    status = math.max(status, M.status(input.rec))
  end
  if not opts.quiet then message.say(summary_line(sum, opts.output)) end
  return status
end

--- The verb's exit status: 128 + a signal's number, 1 if the recording is damaged, else 0.
function M.status(rec)
  local number = native.signal()
  if number then return 128 + number end
  return (rec.error or rec:totals().malformed > 0) and M.FAILED or 0
end

return M
