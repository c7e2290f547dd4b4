--- Draws the model of perfl top as lines of a terminal. A line is a list of { text, style }; a style is a name of
-- `styles`, or a box of the flame graph.

local escape = require "perfev.base.escape"
local rows = require "perfev.tool.top.rows"
local terminal = require "perfev.picture.terminal"

local M = {}

local HEAD, FOOT = 3, 1 -- as in model.lua

local help = [[
 up, down, j, k   select a row; PgUp, PgDn, Home, End
 Enter            the callers of a function; the functions of a thread,
                  a process or a cgroup
 Esc, Backspace   back
 1 2 3 4, v       by function, thread, process, cgroup; the next of them
 s, o t n         sort by the next column; by own value, total, name
 /                show only names with a text: type it, then Enter; Esc: all
 g                flame graph: arrow keys select, Enter zooms, Esc goes back
 Space, f         freeze the picture, and go on
 w                write the samples shown to a new file for pprof
 q                quit

 own: samples in the function itself; total: with the functions it calls]]

local hint = {
  table = "q quit  ? help  Enter open  g flames  / filter  s sort  v view  f freeze  w save",
  callers = "q quit  ? help  Enter its callers  Esc back  g flames  f freeze  w save",
  flame = "q quit  ? help  arrows select  Enter zoom  Esc back  / mark  f freeze  w save",
}

local order_names = { own = "own value", total = "total value", name = "name" }
local plural = { ["function"] = "functions", thread = "threads", process = "processes", cgroup = "cgroups" }

-- ---- the lines above and below ----

local function summary(model)
  local interval = model.interval
  local text = interval and ("%s: %d samples in %.1f s"):format(model.title, interval.total, interval.duration / 1e9)
    or model.title .. ": waiting for samples"
  local notes = (model.frozen and "  FROZEN (f goes on)" or "")
    .. (model.is_full and "  new stacks are (other): --max-memory" or "")
  return { { " " .. text, "title" }, { notes, "title" } }
end

local function description(model)
  local text
  if model.view == "callers" then text = "callers of " .. model.caller_of.label
  elseif model.view == "flame" then text = "flame graph"
  else text = ("%s by %s"):format(plural[model.by], order_names[model.order]) end
  if model.group then text = ("%s, in %s %s"):format(text, model.group.by, model.group.key) end
  if model.filter ~= "" then
    text = ("%s, %s '%s'"):format(text, model.view == "flame" and "marked:" or "with", escape(model.filter))
  end
  return { { " " .. text } }
end

local function foot(model)
  if model.typing then return { { " filter: " .. escape(model.filter) .. "_", "title" } } end
  if model.message then return { { " " .. model.message, "title" } } end
  return { { hint[model.view], "foot" } }
end

-- ---- tables ----

local function cells(row, all, with_total)
  local function sum(value) return ("%9s %6s"):format(terminal.number(value), terminal.percent(value, all)) end
  return with_total and sum(row.own) .. "  " .. sum(row.total) or sum(row.total)
end

local function add_table(lines, model)
  local is_functions = model.view == "table" and model.by == "function"
  lines[3] = { { is_functions and "       own      %      total      %  function"
    or "   samples      %  " .. (model.view == "callers" and "caller" or model.by), "head" } }
  local list, selected = model:rows(), model:selected()
  local nr, offset = model:page()
  local all = model.interval and model.interval.total or 0
  for i = offset + 1, math.min(offset + nr, #list) do
    local row = list[i]
    local is_selected = row == selected
    local style = is_selected and "selected" or row.func and row.func.kind == "kernel" and "kernel" or nil
    local text = cells(row, all, is_functions) .. "  " .. row.label
    lines[#lines + 1] = { { (is_selected and ">" or " ") .. text, style } }
  end
  if #list == 0 and model.interval then
    lines[HEAD + 1] = { { model.filter ~= "" and " no name has this text" or " no samples" } }
  end
end

-- ---- the flame graph ----

local DOTS_WIDTH = 8 -- in narrower boxes ".." would take the place of letters

local function box_text(box, is_selected)
  local name, width = box.node.func and box.node.func.name or box.node.label, box.width - 1
  if width < DOTS_WIDTH then name = name:sub(1, (utf8.offset(name, width + 1) or #name + 1) - 1) end
  name = terminal.cut(name, width)
  return (is_selected and ">" or "|") .. name .. (" "):rep(width - utf8.len(name))
end

local function add_flames(lines, model)
  local boxes, at, tree = model:boxes()
  local selected_row
  for _, box in ipairs(boxes) do
    if box.node == at then selected_row = box.row end
  end
  lines[3] = { { (" %s: %s samples, %s of all"):format(at.label, terminal.number(at.total),
    terminal.percent(at.total, tree.total)), "head" } }
  local nr = model.height - HEAD - FOOT
  local hidden = math.max(selected_row - nr, 0) -- rows above the screen
  for _, box in ipairs(boxes) do
    local row = box.row - hidden
    if row >= 1 and row <= nr then
      local line = lines[HEAD + row] or { width = 0 }
      lines[HEAD + row] = line
      line[#line + 1] = { (" "):rep(box.x - line.width) }
      local is_marked = model.filter ~= "" and rows.matches(box.node.label, model.filter)
      line[#line + 1] = { box_text(box, box.node == at),
        { func = box.node.func, is_selected = box.node == at, is_marked = is_marked } }
      line.width = box.x + box.width
    end
  end
end

-- ---- all ----

--- Returns the lines of the picture, from the top of the terminal: as many as it has.
function M.lines(model)
  local lines = { summary(model), description(model) }
  if model.help then
    for line in (help .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = { { line } } end
  elseif model.view == "flame" then
    add_flames(lines, model)
  else
    add_table(lines, model)
  end
  for i = 1, model.height do lines[i] = lines[i] or {} end
  lines[model.height] = foot(model)
  return table.move(lines, 1, model.height, 1, {})
end

local styles = { title = "1", head = "4", foot = "2", selected = "7", kernel = "36" }

-- Backgrounds by kind: with 8 colours, and shades of 256.
local eight = { user = "30;43", kernel = "30;46", inlined = "30;42", unknown = "30;47" }
local shades = {
  user = { 208, 214, 173, 215, 209, 179 }, kernel = { 75, 110, 74, 111, 68, 117 }, inlined = { 71, 107, 113, 77 },
  unknown = { 250, 248, 252, 246 },
}

-- Returns the numbers of SGR (select graphic rendition, ECMA-48) of a style.
local function graphics(style, colours)
  if type(style) == "string" then return styles[style] end
  if style.is_selected then return "1;7" end
  if style.is_marked then return "1;30;45" end
  local kind = style.func and style.func.kind or "unknown"
  if colours < 256 then return eight[kind] end
  local list = shades[kind]
  return "38;5;16;48;5;" .. list[(style.func and style.func.shade or 0) % #list + 1]
end

local GAP_WIDTH = 3 -- narrower boxes have colour in all columns

-- Returns a segment with the codes of its style. With colours the edge of a box is a gap.
local function painted(text, style, colours)
  if colours == 0 or not style or text == "" then return text end
  local gap = ""
  if type(style) == "table" and not style.is_selected then
    gap, text = " ", text:sub(2)
    if utf8.len(text) + 1 < GAP_WIDTH then gap, text = "", gap .. text end
  end
  return ("%s\27[%sm%s\27[0m"):format(gap, graphics(style, colours), text)
end

--- Returns the text that draws lines on a terminal.
-- @tparam integer width
-- @tparam integer colours  of the terminal: 0, 8 or 256; 0: no control sequences but the cursor's
function M.text(lines, width, colours)
  local out = {}
  for i, line in ipairs(lines) do
    out[#out + 1] = ("\27[%d;1H"):format(i)
    local left = width
    for j, segment in ipairs(line) do
      local text = terminal.cut(segment[1], left)
      left = left - utf8.len(text)
      if j == #line and segment[2] == "selected" then
        text, left = text .. (" "):rep(left), 0
      end
      out[#out + 1] = painted(text, segment[2], colours)
    end
    out[#out + 1] = (" "):rep(left)
  end
  return table.concat(out)
end

return M
