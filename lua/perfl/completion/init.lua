--- perfl completion: completes command lines of perfl in bash, zsh and fish.
--
-- `perfl completion bash` prints the shell's part. It calls `perfl completion -- WORD...` with the words up to the
-- cursor, and this file answers with a line for each candidate, WORD<tab>description, from the tables of options, the
-- declarations of the built-in scripts and verbs, and the events of this machine. A line that is a tab and a word names
-- what the shell completes itself: files, directories or commands.

local asset = require "perfev.base.asset"
local command_line = require "perfl.command_line"
local declared_by = require "perfl.help.declared"
local escape = require "perfev.base.escape"
local find_script = require "perfl.find_script"
local help = require "perfl.help"
local list_events = require("perfev.base.lazy_module") "perfev.event.list"
local verbs = require "perfl.verb"

local module_file = select(2, ...)
local M = {}

local FILES, COMMANDS = "\tfiles", "\tcommands"
local shells = { bash = "perfl.bash", zsh = "_perfl", fish = "perfl.fish" }

-- ---- what a script or a verb takes ----

local function first_sentence(text) return (text or ""):match "^[^;(]*":gsub("%s+$", "") end

-- Rows of `command_line.groups` and of declarations as { flags =, help =, metavar =, choices = }.
local function our_options()
  local list = {}
  for _, group in ipairs(command_line.groups) do
    for i = 2, #group do
      local flags = {}
      for flag in group[i][1]:gmatch "%S+" do flags[#flags + 1] = flag end
      list[#list + 1] = { flags = flags, help = group[i].help, metavar = group[i].metavar }
    end
  end
  return list
end

local function script_options(declared)
  local list = {}
  for _, option in ipairs(declared or {}) do
    if option.flags then
      list[#list + 1] = { flags = option.flags, help = option.help, choices = option.choices,
        metavar = not option.switch and option.metavar or nil }
    end
  end
  return list
end

-- ---- candidates ----

local function add(list, word, text) list[#list + 1] = text and text ~= "" and word .. "\t" .. text or word end

local function add_flags(list, options, start)
  for _, option in ipairs(options) do
    for _, flag in ipairs(option.flags) do
      if flag:sub(1, #start) == start then add(list, flag, first_sentence(option.help)) end
    end
  end
end

-- The events of this machine whose name begins with the last one of a list such as a,b.
local function add_events(list, start)
  local before, prefix = start:match "^(.*[,{])([^,{]*)$"
  before, prefix = before or "", prefix or start
  for _, event in ipairs(list_events()) do
    local name = event.name:match "^(.-)%u%u" or event.name -- uprobe:FILE:SYMBOL
    if name:sub(1, #prefix) == prefix then add(list, before .. name, event.kind) end
  end
end

local takes_files = { FILE = true, NEW = true, OLD = true, DIR = true, WORLD = true, BASELINE = true, PATH = true,
                      SCRIPT = true, BEFORE = true, AFTER = true }

local function takes_events(option)
  local name = (option.metavar or ""):upper()
  if name:find "EVENT" or name:find "PROBE" then return true end
  for _, flag in ipairs(option.flags or {}) do
    if flag == "-e" and name ~= "CHUNK" then return true end
  end
  return false
end

-- Completes the value of an option, or an argument.
local function add_values(list, option, start, head)
  if option.choices then
    for _, choice in ipairs(option.choices) do
      if choice:sub(1, #start) == start then add(list, head .. choice) end
    end
  elseif takes_events(option) then
    add_events(list, start)
  elseif takes_files[(option.metavar or ""):match "^%u*"] then
    add(list, FILES)
  end
end

local function option_named(options, flag)
  for _, option in ipairs(options) do
    for _, name in ipairs(option.flags) do
      if name == flag then return option end
    end
  end
end

local function add_names(list, verb_table, start)
  for _, name in ipairs(find_script.names()) do
    if name:sub(1, #start) == start then
      local declared = declared_by.of_script(name)
      add(list, name, declared and declared.summary)
    end
  end
  for name in pairs(verb_table) do
    if name:sub(1, #start) == start and not name:find "^%-" then add(list, name) end
  end
  if start:find "[./]" then add(list, FILES) end
end

-- The number of words before `last` that are neither options nor their values.
local function count_plain(words, options)
  local plain, is_value = 0, false
  for _, word in ipairs(words) do
    if is_value then
      is_value = false
    elseif word:sub(1, 1) == "-" and #word > 1 then
      local option = option_named(options, word)
      is_value = option and option.metavar ~= nil or false
    else
      plain = plain + 1
    end
  end
  return plain
end

local function complete_word(list, words, start, options, declared, takes_command)
  local last = words[#words]
  local option = last and option_named(options, last)
  local flag, value = start:match "^(%-%-[^=]+)=(.*)$"
  if flag then
    local named = option_named(options, flag)
    if named then add_values(list, named, value, flag .. "=") end
  elseif option and option.metavar then
    add_values(list, option, start, "")
  elseif start:sub(1, 1) == "-" then
    add_flags(list, options, start)
  elseif declared then
    local arguments = {}
    for _, argument in ipairs(declared) do
      if not argument.flags then arguments[#arguments + 1] = argument end
    end
    local argument = arguments[math.min(#arguments, count_plain(words, options))]
    if argument then add_values(list, argument, start, "") end
    if not arguments[1] then add(list, COMMANDS) end
  else
    add(list, takes_command and COMMANDS or FILES)
  end
end

--- Returns the candidates for the last word.
-- @tparam {string,...} words  of the command line, after "perfl"; the last one may be empty
-- @tparam table verb_table    verb -> module
-- @treturn {string,...}       lines; sorted
function M.candidates(words, verb_table)
  local list, start = {}, words[#words] or ""
  local before = table.move(words, 1, #words - 1, 1, {})
  local found = command_line.scan(before, find_script.exists, verb_table)
  local ours = our_options()
  local last_option = before[1] and option_named(ours, before[#before])
  if found.command then
    add(list, #found.command == 0 and COMMANDS or FILES)
  elseif found.verb == "describe" then
    return M.candidates(table.move(words, #words, #words, #found.verb_words + 1, found.verb_words), verb_table)
  elseif found.verb == "help" and start:sub(1, 1) ~= "-" then
    for _, one in ipairs(help.names(verb_table)) do
      if one[1]:sub(1, #start) == start then add(list, one[1], one[2]) end
    end
  elseif found.verb == "list" and start:sub(1, 1) ~= "-" then
    add_events(list, start)
  elseif found.verb then
    local declared = declared_by.of_verb(require(verb_table[found.verb]), found.verb)
    complete_word(list, found.verb_words, start, script_options(declared), nil, found.verb == "record")
  elseif found.script then
    local declared = declared_by.of_script(found.script)
    local options = script_options(declared)
    complete_word(list, before, start, table.move(ours, 1, #ours, #options + 1, options), declared or {})
  elseif last_option and last_option.metavar or start:sub(1, 1) == "-" then
    complete_word(list, before, start, ours)
  else
    add_names(list, verb_table, start)
  end
  table.sort(list)
  return list
end

-- ---- the verb ----

local usage = [[
Usage: perfl completion bash|zsh|fish

Print what the shell needs to complete perfl's options, scripts, events and
files. For one shell:
   eval "$(perfl completion bash)"
   perfl completion fish | source
]]

--- The verb.
-- @tparam {string,...} words
-- @tparam string verb
-- @tparam table verb_table  verb -> module
function M.main(words, _, verb_table)
  if words[1] == "--" then
    for _, line in ipairs(M.candidates(table.move(words, 2, #words, 1, {}), verb_table)) do io.write(line, "\n") end
    return 0
  end
  if words[1] == "-h" or words[1] == "--help" then
    io.write(usage)
    return 0
  end
  if #words ~= 1 or not shells[words[1]] then
    local _, status = verbs.refuse("completion", ("%s\ntry: perfl completion bash, zsh or fish"):format(
      words[1] and ("'%s' has no completion"):format(escape(words[1]))
      or "no shell is named"))
    return status
  end
  io.write(asset("perfl/completion/" .. shells[words[1]], module_file))
  return 0
end

return M
