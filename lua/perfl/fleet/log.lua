--- The log of `perfl agent` on standard error: a line for each event, as name=value pairs or as JSON.
--
--   event=job_started job=cpu pid=4711
--
-- Under systemd a line begins with the priority for its journal (<6>: information); otherwise with the time.

local escape = require "perfev.base.escape"
local json = require "perfev.base.json"
local message = require "perfl.message"

local M = {}

local priorities = { error = 3, warning = 4, notice = 5, info = 6 }

-- Set by M.open().
local form, is_journal = "text", false

--- @tparam string new_form  "text" or "json"
function M.open(new_form)
  form, is_journal = new_form, os.getenv "JOURNAL_STREAM" ~= nil
end

local VALUE_MAX = 1000

local function shown(value)
  local text = escape((math.type(value) == "float" and ("%.3f"):format(value) or tostring(value)):sub(1, VALUE_MAX))
  if text ~= "" and not text:find "[%s\"=]" then return text end
  return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"'
end

local function as_text(event, fields)
  local parts, names = { "event=" .. event }, {}
  for name in pairs(fields) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do parts[#parts + 1] = name .. "=" .. shown(fields[name]) end
  return table.concat(parts, " ")
end

local function as_json(level, event, fields)
  local object = { level = level, event = event, time = os.date "!%Y-%m-%dT%H:%M:%SZ" }
  for name, value in pairs(fields) do object[name] = value end
  return json.encode(json.object(object))
end

local function write(level, event, fields)
  fields = fields or {}
  local line = form == "json" and as_json(level, event, fields) or as_text(event, fields)
  local lead = ""
  if is_journal then
    lead = ("<%d>"):format(priorities[level])
  elseif form == "text" then
    lead = os.date "!%Y-%m-%dT%H:%M:%SZ " .. level .. " "
  end
  io.stderr:write(lead, line, "\n")
end

--- log.info(event, fields), and so on: `event` is a word, `fields` name -> text, number or Boolean.
for level in pairs(priorities) do
  M[level] = function(event, fields) write(level, event, fields) end
end

--- A point in time for a field.
-- @tparam integer ns  since 1970
function M.time(ns)
  return os.date("!%Y-%m-%dT%H:%M:%S", ns // 1000000000) .. (".%03dZ"):format(ns // 1000000 % 1000)
end

--- Words for a field.
function M.words(words) return message.shell(words) end

return M
