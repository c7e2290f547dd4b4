--- perfl help: topics, and the manual pages of scripts and verbs as text.
--
-- The topics are parts of the pages in doc/, which src/gen/topics.lua converts when perfl is built. The page of a
-- script is made from its own declarations: the runner describes it on a simulated kernel, so that the page is the same
-- on every machine, and calls `print`.

local check = require "perfev.base.check"
local declared_by = require "perfl.help.declared"
local escape = require "perfev.base.escape"
local find_script = require "perfl.find_script"
local message = require "perfl.message"
local native = require "perfl.core"
local page = require "perfl.help.page"
local plain = require "perfl.help.plain"
local roff = require("perfev.base.lazy_module") "perfl.help.roff"
local verbs = require "perfl.verb"

local M = {}

local usage = [[
Usage: perfl help [--man] [NAME]

Print the page of a topic, a script, a command of perfl or a record type. Without
NAME, list them. --man prints the source of a manual page, for man -l.
]]

-- { name =, also = { other names }, summary =, text =, is_record = }, ...
local function topics() return package.preload["perfl/help/topics"]() end

local function topic_named(name)
  for _, topic in ipairs(topics()) do
    if topic.name == name then return topic end
    for _, other in ipairs(topic.also) do
      if other == name then return topic end
    end
  end
end

local function names_of(verb_table)
  local list = {}
  for name in pairs(verb_table) do
    if not name:find "^%-" then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

--- Every name that has a page.
-- @tparam table verb_table  verb -> module
-- @treturn {table,...}      { name, summary or nil }
function M.names(verb_table)
  local list = {}
  for _, topic in ipairs(topics()) do
    list[#list + 1] = { topic.name, topic.summary }
    for _, other in ipairs(topic.also) do list[#list + 1] = { other, topic.summary } end
  end
  for _, name in ipairs(find_script.names()) do list[#list + 1] = { name } end
  for _, name in ipairs(names_of(verb_table)) do list[#list + 1] = { name } end
  return list
end

-- ---- output ----

-- As git does: PAGER, or less, which ends at once if the text fits on the screen.
local PAGER = [[if [ -n "$PAGER" ]; then eval "$PAGER"
elif command -v less > /dev/null; then LESS=${LESS-FRX} less; else cat; fi]]

local function show(text)
  if not native.terminal(1) or os.getenv "PAGER" == "" then return io.write(text) end
  local pager = io.popen(PAGER, "w")
  if not pager then return io.write(text) end
  pager:write(text)
  pager:close()
end

local function overview(verb_table)
  local lines, records = { "perfl help NAME prints the page of a topic, a script, a command or a record type.", "",
    "Topics:" }, {}
  for _, topic in ipairs(topics()) do
    if topic.is_record then
      records[#records + 1] = topic.name
    else
      lines[#lines + 1] = ("  %-13s %s"):format(topic.name, topic.summary)
    end
  end
  local function add(title, names)
    lines[#lines + 1] = ""
    lines[#lines + 1] = message.fold(title, names)
  end
  add("Commands:", names_of(verb_table))
  add("Scripts:", find_script.names())
  add("Records:", records)
  return table.concat(lines, "\n") .. "\n"
end

-- ---- pages ----

-- The words of an example, up to a redirection. Only quotes of the shell are known.
local function shell_words(line)
  local words, word, quote = {}, nil, nil
  for char in line:gmatch "." do
    if char == quote then
      quote = nil
    elseif not quote and (char == "'" or char == '"') then
      quote, word = char, word or ""
    elseif not quote and char:find "[ |>]" then
      words[#words + 1] = word
      word = nil
      if char ~= " " then break end
    else
      word = (word or "") .. char
    end
  end
  words[#words + 1] = word
  return words
end

-- A command line that runs the script: its first example on live events, if it requires arguments; else its name.
local function command_line_of(name)
  local needs_more = false
  for _, option in ipairs(declared_by.of_script(name) or {}) do
    needs_more = needs_more or option.required or not option.flags and option.least > 0
  end
  for line in (needs_more and native.script(name) or ""):gmatch "%-%- (perfl [^\n]*)" do
    line = line:match "^(.-)%s%s" or line
    if not line:find " %-i " then return line end
  end
end

local example -- the command line that is described, if it is not the script's name alone
local known_verbs = {}

local function has_page(name) return find_script.exists(name) or known_verbs[name] ~= nil end

local function print_page(blocks, how)
  if how == "man" then
    io.write(roff.write(blocks, require("perfev")._VERSION))
  else
    show(plain.write(blocks))
  end
end

--- Prints the page of a script.
-- @tparam table run   what the runner knows: see describe.object
-- @tparam string how  "page" or "man"
function M.print(run, how)
  run.example = example
  print_page(page.of_script(run, has_page), how)
end

local function refuse_unknown(name, verb_table)
  local known = {}
  for i, one in ipairs(M.names(verb_table)) do known[i] = one[1] end
  return verbs.refuse("help", ("help: nothing is named '%s'%s\ntry: perfl help"):format(escape(name),
    (check.hint(name, known))))
end

--- The verb.
-- @tparam {string,...} words
-- @tparam table verb_table    verb -> module
-- @treturn ?integer           exit status
-- @treturn ?{string,...}      else: the command line that the runner describes for `print`
-- @treturn ?string            "page" or "man"
function M.main(words, _, verb_table)
  local how = words[1] == "--man" and "man" or "page"
  local name = words[how == "man" and 2 or 1]
  if name == "-h" or name == "--help" then
    io.write(usage)
    return 0
  end
  known_verbs = verb_table
  if #words > (how == "man" and 2 or 1) or name and name:find "^%-" then
    return select(2, verbs.refuse("help", "help: one name is expected"))
  end
  if not name then
    show(overview(verb_table))
    return 0
  end
  if verb_table[name] then
    print_page(page.of_verb(name, declared_by.of_verb(require(verb_table[name]), name), has_page), how)
    return 0
  end
  if find_script.exists(name) then
    example = command_line_of(name)
    local described = shell_words(example or "perfl " .. name)
    described[1] = "--sim=vm"
    return nil, described, how
  end
  local topic = topic_named(name)
  if not topic then return select(2, refuse_unknown(name, verb_table)) end
  show(topic.text)
  return 0
end

return M
