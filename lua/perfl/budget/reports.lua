--- The results of budgets as text, as TAP (version 13) and as JUnit's XML.
--
-- A section is { name =, result = } or { name =, why = }: why its command could not be measured.

local escape = require "perfev.base.escape"
local result = require "perfev.budget.result"

local M = {}

-- ---- text ----

local function mark(row) return row.skipped and row.ok and "skip" or row.ok and "ok" or "FAIL" end

local function text_of_row(row)
  local lines = { ("  %-4s "):format(mark(row)) .. result.indented(result.row_text(row), "     "):match "^%s*(.*)$" }
  local new = result.new_text(row)
  if new ~= "" then lines[2] = new:gsub("%f[^\n\0]", "   ") end
  return table.concat(lines, "\n")
end

function M.text(sections)
  local lines = {}
  for _, section in ipairs(sections) do
    lines[#lines + 1] = escape(section.name)
    if section.why then lines[#lines + 1] = "  FAIL " .. result.on_one_line(section.why) end
    for _, row in ipairs(section.result and section.result.rows or {}) do lines[#lines + 1] = text_of_row(row) end
  end
  return table.concat(lines, "\n") .. "\n"
end

-- ---- TAP ----

-- In a description # begins a directive.
local function tap_text(text) return (result.on_one_line(text):gsub("[#\\]", "\\%0")) end

local function add_tap(lines, number, ok, name, text, more)
  lines[#lines + 1] = ("%s %d - %s"):format(ok and "ok" or "not ok", number, tap_text(name .. ": " .. text))
  if more == "" then return end
  lines[#lines + 1] = "  ---\n  new: |"
  for line in more:gmatch "[^\n]+" do lines[#lines + 1] = "  " .. line end
  lines[#lines + 1] = "  ..."
end

function M.tap(sections)
  local lines, number = {}, 0
  for _, section in ipairs(sections) do
    if section.why then
      number = number + 1
      add_tap(lines, number, false, section.name, section.why, "")
    end
    for _, row in ipairs(section.result and section.result.rows or {}) do
      number = number + 1
      if row.skipped and row.ok then
        lines[#lines + 1] = ("ok %d - %s # SKIP %s"):format(number, tap_text(section.name .. ": " .. row.name),
          tap_text(row.why))
      else
        add_tap(lines, number, row.ok, section.name, result.row_text(row), result.new_text(row))
      end
    end
  end
  return ("TAP version 13\n1..%d\n%s\n"):format(number, table.concat(lines, "\n"))
end

-- ---- JUnit ----

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["\n"] = "&#10;" }

-- XML 1.0 has no control characters, not even as references, and neither U+FFFE nor U+FFFF.
local function xml(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = escape(line) end
  local valid = table.concat(lines, "\n"):gsub("\xef\xbf[\xbe\xbf]", "?")
  return (valid:gsub('[&<>"]', entities))
end

local function attribute(text) return (xml(text):gsub("\n", entities)) end

local function add_case(lines, section, name, ok, message, detail, skipped)
  lines[#lines + 1] = ('    <testcase classname="%s" name="%s">'):format(attribute(section.name), attribute(name))
  if skipped then
    lines[#lines + 1] = ('      <skipped message="%s"/>'):format(attribute(message))
  elseif not ok then
    lines[#lines + 1] = ('      <failure type="budget" message="%s">%s</failure>'):format(attribute(message),
      xml(message .. (detail ~= "" and "\n" .. detail or "")))
  end
  lines[#lines + 1] = "    </testcase>"
end

local function add_suite(lines, section)
  local rows = section.result and section.result.rows or {}
  local failures, skipped = section.why and 1 or 0, 0
  for _, row in ipairs(rows) do
    if not row.ok then failures = failures + 1 elseif row.skipped then skipped = skipped + 1 end
  end
  lines[#lines + 1] = ('  <testsuite name="%s" tests="%d" failures="%d" errors="0" skipped="%d">'):format(
    attribute(section.name), #rows + (section.why and 1 or 0), failures, skipped)
  if section.why then add_case(lines, section, "command", false, section.why, "") end
  for _, row in ipairs(rows) do
    local is_skipped = row.skipped and row.ok
    add_case(lines, section, row.name, row.ok, is_skipped and row.why or result.row_text(row), result.new_text(row),
      is_skipped)
  end
  lines[#lines + 1] = "  </testsuite>"
end

function M.junit(sections)
  local lines = { '<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>" }
  for _, section in ipairs(sections) do add_suite(lines, section) end
  lines[#lines + 1] = "</testsuites>\n"
  return table.concat(lines, "\n")
end

return M
