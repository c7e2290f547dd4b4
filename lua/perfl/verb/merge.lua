--- perfl merge: joins recordings of one machine to a new one, in the order of time.

local args = require "perfev.tool.args"
local merge = require "perfl.rewrite.merge"
local message = require "perfl.message"
local open_recording = require "perfl.verb.open_recording"
local verbs = require "perfl.verb"

local M = {}

local function new_parser()
  local parser = args.new_parser "perfl merge":add_help(true):description("Join recordings of one machine to a new "
    .. "one, in the order of time. Events get different ids; files of one session have their events in common.")
  parser:argument("files"):args("2+"):description("the recordings")
  parser:option("-o --output"):argname("NEW"):description("the new recording (-: standard output)")
  parser:flag("-z"):description("compress the new recording with zstd"):target("compress")
  parser:flag("-q --quiet"):description("print no summary line")
  return parser
end

local function close_all(recs)
  for _, rec in ipairs(recs) do rec:close() end
end

local function merge_files(opts, recs)
  for i, file in ipairs(opts.files) do
    recs[i] = open_recording.open("merge", file)
    if not recs[i] then return open_recording.FAILED end
  end
  local inputs, describe = merge.plan(recs)
  if not inputs then
    message.say(describe)
    return open_recording.FAILED
  end
  return open_recording.write_new(inputs, describe, opts)
end

--- The verb.
-- @tparam {string,...} words  of the command line after "merge"
-- @treturn integer  exit status
function M.main(words)
  local opts, status = verbs.parse(new_parser(), "merge", words)
  if not opts then return status end
  if not opts.output then
    local _, usage = verbs.refuse("merge", "no name for the new recording\ntry: perfl merge FILE FILE -o NEW")
    return usage
  end
  local recs <close> = setmetatable({}, { __close = close_all })
  return merge_files(opts, recs)
end

return M
