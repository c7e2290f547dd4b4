--- perfl redact: copies a recording without its texts and bytes, or with those that rules keep or replace.

local copy = require "perfl.rewrite.copy"
local escape = require "perfev.base.escape"
local message = require "perfl.message"
local open_recording = require "perfl.verb.open_recording"
local records = require "perfl.rewrite.redact_records"
local rules = require "perfl.rewrite.redaction_rules"
local sections = require "perfl.rewrite.redact_sections"
local verbs = require "perfl.verb"

local M = {}

local function new_parser()
  local parser = open_recording.new_parser("redact", "Copy a recording to a new one without names, texts, registers "
    .. "and memory, to give it to others. The same text has the same replacement everywhere.")
  parser:option("-o --output"):argname("NEW"):description("the new recording (-: standard output)")
  parser:option("--rules"):argname("FILE.lua"):description("what to keep and how to replace the rest")
  parser:flag("-z"):description("compress the new recording with zstd"):target("compress")
  parser:flag("-q --quiet"):description("print no summary line")
  parser:epilog [[
The rules are Lua: return { symbol = true, comm = function(name) return name:upper() end }
true keeps a kind of text, false removes it, a function returns the replacement.]]
  return parser
end

-- The command line -> options | nil, exit status
local function parse(words)
  local opts, status = open_recording.parse(new_parser(), "redact", words)
  if not opts then return nil, status end
  if opts.output then return opts end
  return verbs.refuse("redact", ("no name for the new recording\ntry: perfl redact %s -o NEW"):format(
    escape(opts.file)))
end

--- The verb.
-- @tparam {string,...} words  of the command line after "redact"
-- @treturn integer  exit status
function M.main(words)
  local opts, status = parse(words)
  if not opts then return status end
  local chosen, why = rules.load(opts.rules)
  if not chosen then
    message.say(why)
    return open_recording.FAILED
  end
  local rec <close> = open_recording.open("redact", opts.file)
  if not rec then return open_recording.FAILED end
  why = copy.refusal(rec)
  if why then
    message.say(why)
    return open_recording.FAILED
  end
  opts.name_of = function(event) return sections.event_name(chosen, event) end
  return open_recording.write_new({ { rec = rec, copier = records.copier(rec, chosen) } },
    sections.describer(rec, chosen), opts)
end

return M
