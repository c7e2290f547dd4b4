--- Writes a page as plain text of at most 80 columns. Besides the blocks of page.lua there is { "table", ROWS }.

local M = {}

local COLUMNS <const> = 79
local INDENT <const>, DEEPER <const> = 3, 10

-- Folds a text; its first line begins with `lead`, the others with as many blanks as `indent`.
local function fold(text, indent, lead)
  local lines, line = {}, lead or (" "):rep(indent)
  local is_empty = true
  for word in text:gmatch "%S+" do
    if not is_empty and utf8.len(line) + 1 + utf8.len(word) > COLUMNS then
      lines[#lines + 1], line, is_empty = line, (" "):rep(indent), true
    end
    line, is_empty = line .. (is_empty and "" or " ") .. word, false
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local function unmarked(text) return (text:gsub("[\1-\3]", "")) end

local function unbroken(text) return (text:gsub("\u{a0}", " ")) end

local writers = {}

function writers.heading(block) return block[2] end

-- A text that begins with "* " is of a list.
function writers.text(block)
  return fold(unmarked(block[2]), block[2]:find "^%* " and INDENT + 2 or INDENT, (" "):rep(INDENT))
end

function writers.option(block)
  local tag = (" "):rep(INDENT) .. unmarked(block[2])
  if block[3] == "" then return tag end
  if #tag < DEEPER - 1 then return fold(unmarked(block[3]), DEEPER, tag .. (" "):rep(DEEPER - #tag)) end
  return fold(unmarked(block[2]), INDENT) .. "\n" .. fold(unmarked(block[3]), DEEPER)
end
writers.item = writers.option

function writers.lines(block)
  local lines = {}
  for i = 2, #block do lines[i - 1] = (" "):rep(INDENT + 3) .. block[i] end
  return table.concat(lines, "\n")
end

-- The width of each column but the last: at most CELL, or its longest word; nil if they leave too little of a line.
local function widths_of(rows)
  local MOST <const>, CELL <const> = 52, #rows[1] > 2 and 16 or 30
  local widths, sum = {}, 0
  for i = 1, #rows[1] - 1 do
    local widest, longest = 0, 0
    for _, row in ipairs(rows) do
      widest = math.max(widest, utf8.len(row[i] or ""))
      for word in (row[i] or ""):gmatch "%S+" do longest = math.max(longest, utf8.len(word)) end
    end
    widths[i] = math.max(math.min(widest, CELL), longest)
    sum = sum + widths[i] + 2
  end
  if sum > MOST then return nil end
  widths[#rows[1]] = COLUMNS - INDENT - sum
  return widths
end

local function cell_lines(text, width)
  local lines = { "" }
  for word in text:gmatch "%S+" do
    local last = lines[#lines]
    if last ~= "" and utf8.len(last) + 1 + utf8.len(word) > width then
      lines[#lines + 1] = word
    else
      lines[#lines] = last == "" and word or last .. " " .. word
    end
  end
  return lines
end

local function add_row(lines, row, widths)
  local cells, height = {}, 1
  for i, width in ipairs(widths) do
    cells[i] = cell_lines(row[i] or "", width)
    height = math.max(height, #cells[i])
  end
  for k = 1, height do
    local line = (" "):rep(INDENT)
    for i, width in ipairs(widths) do
      local text = cells[i][k] or ""
      line = line .. text .. (" "):rep(width + 2 - utf8.len(text))
    end
    lines[#lines + 1] = line:gsub(" +$", "")
  end
end

-- A table as columns, or as items if its columns are wide. Its first row is the heading, which may be empty.
function writers.table(block)
  local rows, lines = block[2], {}
  local widths = widths_of(rows)
  for i, row in ipairs(rows) do
    if widths and (i > 1 or table.concat(row) ~= "") then
      add_row(lines, row, widths)
    elseif not widths and i > 1 then
      lines[#lines + 1] = writers.item { "item", row[1], table.concat(row, "; ", 2) }
    end
  end
  return table.concat(lines, "\n")
end

--- @tparam table page  a list of blocks, as page.lua makes it
-- @treturn string
function M.write(page)
  local out = {}
  for i, block in ipairs(page) do
    local last = page[i - 1]
    if last and last[1] ~= "heading" then out[#out + 1] = "" end
    out[#out + 1] = unbroken(writers[block[1]](block))
  end
  return table.concat(out, "\n") .. "\n"
end

return M
