--- The command line of a word that names no script: its options, its --help, what is wrong with it.

local elsewhere = require("perfev.base.lazy_module") "perfl.other_tools"
local report = require "perfl.message"

local M = {}

M.USAGE = 2

--- What is wrong with it is said, with --help where nothing else helps.
-- @tparam string verb
-- @tparam string text
-- @treturn nil
-- @treturn integer  exit status
function M.refuse(verb, text)
  report.say(report.with_help(text, "perfl " .. verb))
  return nil, M.USAGE
end

--- The values of the options.
-- @tparam table parser    args.new_parser's
-- @tparam string verb
-- @tparam {string,...} words  after the verb
-- @tparam ?table remedies     argparse's message -> what is told below it
-- @treturn[1] table
-- @treturn[2] nil
-- @treturn[2] integer  exit status; all is said
function M.parse(parser, verb, words, remedies)
  for _, word in ipairs(words) do
    if word == "-h" or word == "--help" then
      io.write(parser:get_help(), "\n")
      return nil, 0
    end
  end
  local ok, result = parser:pparse(words)
  if ok then return result end
  -- One letter is near to all others.
  local text = tostring(result):gsub("\n", "; "):gsub("('%-[^-]'); Did you mean one of these.*", "%1")
  local remedy = remedies and remedies[text] or elsewhere.option(verb, text)
  return M.refuse(verb, remedy and text .. "\n" .. remedy or text)
end

return M
