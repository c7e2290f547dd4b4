--- Writes a page as the source of a manual page, for man(1).

local page_marks = require "perfl.help.page"

local M = {}

local fonts = { [page_marks.BOLD] = "\\fB", [page_marks.ITALIC] = "\\fI", [page_marks.PLAIN] = "\\fR" }
local glyphs = { ["\\"] = "\\e", ["-"] = "\\-", ["'"] = "\\(aq", ["`"] = "\\(ga", ["^"] = "\\(ha", ["~"] = "\\(ti" }

-- Dashes are ASCII: options and event names are copied from pages.
local function escaped(text)
  text = text:gsub("[\\'`^~-]", glyphs):gsub("\u{a0}", "\\ "):gsub("\u{2026}", "...")
  text = text:gsub("[\xc2-\xf4][\x80-\xbf]+", function(char) return ("\\[u%04X]"):format(utf8.codepoint(char)) end)
  return (text:gsub("[\1-\3]", fonts):gsub("^[.]", "\\&."))
end

local writers = {}

function writers.heading(block) return ".SH " .. escaped(block[2]) end

function writers.text(block, after_heading)
  return (after_heading and "" or ".PP\n") .. escaped(block[2])
end

function writers.option(block) return ".TP\n" .. escaped(block[2]) .. "\n" .. escaped(block[3]) end
writers.item = writers.option

function writers.lines(block)
  local lines = {}
  for i = 2, #block do lines[i - 1] = escaped(block[i]) end
  return (".PP\n.RS 4\n.nf\n%s\n.fi\n.RE"):format(table.concat(lines, "\n"))
end

--- @tparam table page  of page.lua
-- @tparam string version
-- @treturn string
function M.write(page, version)
  local title = (".TH %s 1 \"\" \"perfev %s\" \"User Commands\""):format(escaped(page.name:upper()), version)
  local out = { ".\\\" Written by perfl help --man.", title, ".ad l", ".nh" }
  for i, block in ipairs(page) do
    out[#out + 1] = writers[block[1]](block, i > 1 and page[i - 1][1] == "heading")
  end
  return table.concat(out, "\n") .. "\n"
end

return M
