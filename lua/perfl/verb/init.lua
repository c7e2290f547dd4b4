--- The command line of perfl's verbs (doctor, list, report, ...): options, --help and usage errors.

local other_tools = require("perfev.base.lazy_module") "perfl.other_tools"
local message = require "perfl.message"

local M = {}

M.USAGE = 2

--- Prints a usage error; it suggests --help if the text has no remedy.
-- @tparam string verb
-- @tparam string text
-- @treturn nil
-- @treturn integer  exit status
function M.refuse(verb, text)
  message.say(message.with_help(text, "perfl " .. verb))
  return nil, M.USAGE
end

--- Parses the words after a verb.
-- @tparam table parser    args.new_parser's
-- @tparam string verb
-- @tparam {string,...} words  after the verb
-- @tparam ?table remedies     argparse's message -> the lines printed below it
-- @treturn[1] table  the options' values
-- @treturn[2] nil
-- @treturn[2] integer  exit status; the help or the error is printed
function M.parse(parser, verb, words, remedies)
  for _, word in ipairs(words) do
    if word == "-h" or word == "--help" then
      io.write(parser:get_help(), "\n")
      return nil, 0
    end
  end
  local ok, result = parser:pparse(words)
  if ok then return result end
  -- argparse calls every one-letter option similar to every other: drop that suggestion.
  local text = tostring(result):gsub("\n", "; "):gsub("('%-[^-]'); Did you mean one of these.*", "%1")
  local remedy = remedies and remedies[text] or other_tools.option(verb, text)
  return M.refuse(verb, remedy and text .. "\n" .. remedy or text)
end

return M
