--- What the verbs on recordings (report, dump, skeleton) share: the command line, opening, the way to end.

local args = require "perfev.tool.args"
local native = require "perfl.core"
local output = require "perfl.output"
local recording = require "perfev.perfdata.reader"
local report = require "perfl.message"
local verbs = require "perfl.verb"

local M = {}

M.FAILED, M.USAGE = 1, verbs.USAGE

local LOOK = 512 -- records between two looks at signals and at who reads us

--- A parser that knows the file; the verb adds its options.
-- @tparam string verb
-- @tparam string about  what it prints, a sentence
function M.new_parser(verb, about)
  local parser = args.new_parser("perfl " .. verb):add_help(true):description(about)
  parser:argument("file"):args("?")
    :description("the recording (default: perf.data; -: standard input)")
  parser:option("-i --input"):argname("FILE"):description("the same, for users of perf")
  return parser
end

--- The options, or nil and the exit status when all is said.
function M.parse(parser, verb, words)
  local opts, status = verbs.parse(parser, verb, words)
  if not opts then return nil, status end
  opts.file = opts.file or opts.input or "perf.data"
  return opts
end

--- How a recording is called where people read it.
function M.shown(path) return path == "-" and "standard input" or path end

--- Open what perf record wrote; why not is said.
-- @treturn[1] perfev.recording
-- @treturn[2] nil
function M.open(verb, path)
  local rec, why, errno = recording.open(path)
  if rec then return rec end
  local remedy = path == "-" and ("perf record -o - -- COMMAND | perfl %s -"):format(verb)
    or recording.remedy(path, errno)
  report.say(("cannot open the recording %s\ntry: %s"):format(why, remedy))
end

--- Whether to go on, asked once per record: not when nobody reads us any more, and not after a signal.
function M.watcher()
  local left = LOOK
  return function()
    left = left - 1
    if left > 0 then return true end
    left = LOOK
    if not native.signal() then return (output.check()) end
    native.heed()
    return false
  end
end

--- Say that a signal has ended the reading.
function M.say_interrupted()
  if native.signal() then report.say("interrupted: the rest of the recording was not read") end
end

--- Say why reading ended before the file did, and what was left out.
function M.say_end(rec)
  M.say_interrupted()
  if rec.error then
    report.say(rec.error .. "\nthe part before it was read; perfl report lists further damage")
  end
  local n = rec:totals().malformed
  if n == 0 then return end
  report.say(("%d malformed record%s left out: %s"):format(n, n == 1 and " was" or "s were", rec.warnings[1] or ""))
end

--- The exit status that a verb ends with: a signal's, or that of what could be read.
function M.status(rec)
  local number = native.signal()
  if number then return 128 + number end
  return (rec.error or rec:totals().malformed > 0) and M.FAILED or 0
end

return M
