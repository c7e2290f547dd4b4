--- NAME or path -> a script, and the names there are.
--
-- A word with a slash or ".lua" is a path; any other is looked up among the installed scripts
-- only, so a file that happens to lie in the working directory is never run.

local core = require "perfev.core"
local elsewhere = require("perfev.lazy") "perfl.elsewhere"
local escape = require "perfev.escape"
local native = require "perfl.core"
local report = require "perfl.report"

local M = {}

--- Where scripts lie that are called by name: a checkout's, or those installed beside perfl.
function M.directories()
  local bin = core.exe():match("^(.*)/[^/]*$") or "."
  return { bin .. "/../scripts", bin .. "/../share/lua/5.4/perfev/scripts" }
end

--- Where perfev's own shared objects lie, as templates: a checkout's, or those installed beside perfl.
function M.native_templates()
  local bin = core.exe():match("^(.*)/[^/]*$") or "."
  return ("%s/?.so;%s/../lib/lua/5.4/?.so"):format(bin, bin)
end

-- In a perfl that is one file (make static) the scripts are in it, below a directory that nobody has.
local WITHIN = "perfl:/"

local function is_path(word)
  return word == "-" or word:find("/", 1, true) or word:find("%.lua$")
end

local function path_of(name)
  for _, directory in ipairs(M.directories()) do
    local path = ("%s/%s.lua"):format(directory, name)
    if native.exists(path) then return native.realpath(path) or path end
  end
  if native.scripts()[name] then return ("%s%s.lua"):format(WITHIN, name) end
end

--- The text of a script that is in perfl, by the path that `resolve` gave; nil when it is a file's.
function M.within(path)
  local name = path:sub(1, #WITHIN) == WITHIN and path:match("([^/]+)%.lua$")
  return name and native.scripts()[name]
end

--- Whether a word names a script that is there.
function M.exists(word)
  if word == "-" then return true end
  if is_path(word) then return native.exists(word) end
  return path_of(word) ~= nil
end

--- The names that can be called, sorted.
function M.names()
  local names, seen = {}, {}
  local function add(name)
    if name and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  for _, directory in ipairs(M.directories()) do
    for _, entry in ipairs(core.list(directory) or {}) do add(entry:match("^(.+)%.lua$")) end
  end
  for name in pairs(native.scripts()) do add(name) end
  table.sort(names)
  return names
end

local function not_found(name, verbs)
  if verbs and (verbs[name] or name == "record") then
    return ("'%s' is no script: it is perfl's own, and comes before all options\ntry: perfl %s --help"):format(name,
      name)
  end
  local names, known = M.names(), {}
  for verb in pairs(verbs or {}) do known[#known + 1] = verb end
  local near = core.nearest(name, table.move(names, 1, #names, #known + 1, known))
  local text = ("no script is named '%s'%s"):format(escape(name),
    near and (" (did you mean '%s'?)"):format(near) or "")
  if native.exists(name) then
    return ("%s\na file of that name is in this directory: ./%s"):format(text, escape(name))
  end
  local other = elsewhere.tool(name, M.exists)
  if other then return ("no script is named '%s'\n%s"):format(escape(name), other) end
  if #names == 0 then
    return ("%s\nlooked in %s"):format(text, table.concat(M.directories(), ", "))
  end
  for i = 1, #names - 1 do names[i] = names[i] .. "," end
  return ("%s\n%s"):format(text, report.fold("there are", names))
end

--- The path of a script.
-- @tparam string word  NAME or a path
-- @tparam ?table verbs  other words that may have been meant, as keys
-- @treturn[1] string  path
-- @treturn[2] nil
-- @treturn[2] string  with the names there are
function M.resolve(word, verbs)
  if is_path(word) then
    if M.exists(word) then return word end
    return nil, ("no script '%s': %s"):format(escape(word),
      core.list(word) and "it is a directory" or "there is no such file")
  end
  local path = path_of(word)
  if path then return path end
  return nil, not_found(word, verbs)
end

return M
