--- perfl archive: adds the names of the sampled functions, and their source lines, to a recording, of perf record or
-- perfl, while the files that it names are still there.

local copy = require "perfl.rewrite.copy"
local core = require "perfev.core"
local message = require "perfl.message"
local open_recording = require "perfl.verb.open_recording"
local record = require "perfl.verb.record"
local recorder = require "perfev.perfdata.writer"
local verbs = require "perfl.verb"

local M = {}

local function fail(text)
  message.say(text)
  return open_recording.FAILED
end

--- The verb.
-- @tparam {string,...} words  of the command line after "archive"
-- @treturn integer  exit status: 0, 1 if the names cannot be added, 2 for an invalid command line
function M.main(words)
  local parser = open_recording.new_parser("archive", "Add the names of the sampled functions to a recording, so that "
    .. "it can be read without the programs and on other machines.")
  parser:option("-o --output"):argname("FILE"):description("write a copy instead of changing the recording")
  parser:flag("--lines"):description("also add source lines and inlined functions, from DWARF")
  parser:epilog("Example: perf record -g -- make; perfl archive perf.data")
  local opts, status = open_recording.parse(parser, "archive", words)
  if not opts then return status end
  if opts.file == "-" then
    local _, usage = verbs.refuse("archive", "only a file keeps names, not standard input\ntry: perfl archive FILE")
    return usage
  end
  local rec <close> = open_recording.open("archive", opts.file)
  if not rec then return open_recording.FAILED end
  local path = opts.output or opts.file
  if opts.output then
    local ok, why, code = core.copy_file(opts.file, path)
    if not ok then return fail(recorder.with_hint({ path = path, hints = copy.hints }, why, code)) end
  end
  local bytes, why = rec:_save_names(path, opts.lines)
  if not bytes then return fail("no names are added: " .. why) end
  if bytes == 0 then
    message.say(("no names are added to %s: no sampled function has one"):format(open_recording.shown(path)))
  else
    message.say(("added %s of names to %s"):format(record.shown_size(bytes), open_recording.shown(path)))
  end
  for _, text in ipairs(rec.warnings) do message.say(text) end
  return open_recording.status(rec)
end

return M
