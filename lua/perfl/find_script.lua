--- Finds the script that a word of the command line names.
--
-- A word with a slash or ".lua" is a path. Any other word is the name of a built-in script. perfl never runs a file of
-- the working directory by its bare name, and built-in scripts do not depend on the permissions of a checkout.

local check = require "perfev.base.check"
local core = require "perfev.core"
local other_tools = require("perfev.base.lazy_module") "perfl.other_tools"
local escape = require "perfev.base.escape"
local native = require "perfl.core"
local message = require "perfl.message"

local M = {}

--- Search templates for perfev's own shared objects: those of a checkout, then those installed beside perfl.
-- @treturn[1] string
-- @treturn[2] nil
-- @treturn[2] string  the reason if the path of perfl is unknown
-- @treturn[2] string  what to do
function M.native_templates()
  local exe = core.exe()
  if not exe then
    return nil, "/proc is not mounted, so perfl cannot find its own modules", "mount -t proc proc /proc"
  end
  local bin = exe:match("^(.*)/[^/]*$") or "."
  return ("%s/?.so;%s/../lib/lua/5.4/?.so"):format(bin, bin)
end

-- The prefix of a built-in script's path in messages and tracebacks.
local BUILT_IN = "perfl:/"

local function is_path(word)
  return word == "-" or word:find("/", 1, true) or word:find("%.lua$")
end

--- The text of a built-in script, by the path that `resolve` returned; nil for the path of a file.
function M.built_in_text(path)
  local name = path:sub(1, #BUILT_IN) == BUILT_IN and path:match("([^/]+)%.lua$")
  return name and native.script(name)
end

--- True if the word names a script.
function M.exists(word)
  if word == "-" then return true end
  if is_path(word) then return native.exists(word) end
  return native.script(word) ~= nil
end

--- The names of the built-in scripts, sorted.
M.names = native.script_names

local function not_found(name, verbs)
  local names, known = M.names(), {}
  for verb in pairs(verbs or {}) do known[#known + 1] = verb end
  local text = ("no script is named '%s'%s"):format(escape(name),
    (check.hint(name, table.move(names, 1, #names, #known + 1, known))))
  if native.exists(name) then
    return ("%s\na file of that name is in this directory\ntry: ./%s"):format(text, escape(name))
  end
  local other = other_tools.tool(name, M.exists)
  if other then return ("no script is named '%s'\n%s"):format(escape(name), other) end
  for i = 1, #names - 1 do names[i] = names[i] .. "," end
  return ("%s\n%s"):format(text, message.fold("scripts:", names))
end

--- The path of a script.
-- @tparam string word  NAME or a path
-- @tparam ?table verbs  other words to suggest, as keys
-- @treturn[1] string  path
-- @treturn[2] nil
-- @treturn[2] string  with the names of the built-in scripts
function M.resolve(word, verbs)
  if is_path(word) then
    if M.exists(word) then return word end
    return nil, ("no script '%s': %s"):format(escape(word),
      core.list(word) and "it is a directory" or "no such file")
  end
  if M.exists(word) then return ("%s%s.lua"):format(BUILT_IN, word) end
  return nil, not_found(word, verbs)
end

return M
