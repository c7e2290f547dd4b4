--- The source lines and instructions of a function with their shares of its samples; see doc/api/tool.md.
-- A sample belongs to the instruction at its own address, not to its callers. A line has the sum of its instructions.

local code_of = require "perfev.symbol.function_code"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local lazy = require "perfev.base.lazy_module"
local page = lazy "perfev.tool.annotation_page"
local symbol = require "perfev.symbol"
local terminal = require "perfev.picture.terminal"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

local CONTEXT = 2 -- lines around those that have code
local NEAR_MAX = 3 -- names that a message suggests

-- ---- samples ----

local function frame_of(stack)
  local raws, world = core.stack_frames(stack)
  world = world or symbol._here()
  local raw = raws[1]
  return raw and world:frame(raw), raw, world
end

-- Adds the samples of an address, and their value, to its function.
local function add_samples(functions, stack, count, value)
  local frame, raw, world = frame_of(stack)
  local name = frame and frame.symbol
  if not name then return end
  local file, address = world:file_of(raw)
  local start = (address or raw.ip) - frame.offset
  local key = ("%s\0%s\0%s\0%x"):format(name, frame.module, raw.build_id or "", start)
  local one = functions[key]
  if not one then
    one = { name = name, module = frame.module, raw = raw, world = world, start = start, count = 0, total = 0,
      at = {}, has_code = file ~= nil or raw.jit ~= nil }
    functions[key] = one
  end
  one.count, one.total = one.count + count, one.total + value
  one.at[one.start + frame.offset] = (one.at[one.start + frame.offset] or 0) + value
end

-- Returns the functions of the samples, those with the largest values first, and the sum of all values. If a record
-- lacks its period, all periods are equal, and the value is the number of samples.
local function functions_of(count, periods)
  local functions, list, all = {}, {}, 0
  local values = next(periods:uncounted()) and count or periods
  for stack, nr in count:pairs() do
    local value = values:get(stack) or 0
    all = all + value
    if type(stack) == "userdata" then add_samples(functions, stack, nr, value) end
  end
  for _, one in pairs(functions) do list[#list + 1] = one end
  table.sort(list, function(a, b)
    if a.total ~= b.total then return a.total > b.total end
    if a.name ~= b.name then return a.name < b.name end
    if a.module ~= b.module then return a.module < b.module end
    return math.ult(a.start, b.start)
  end)
  return list, all
end

-- The name that is spelled most like it; or that a compiler made of it, as spin.constprop.0 of spin.
local function find_near(name, names)
  local near = core.nearest(name, names)
  for _, other in ipairs(near and {} or names) do
    if other:sub(1, #name + 1) == name .. "." then return other end
  end
  return near
end

-- Suggests a name, and lists the functions with the most samples.
local function explain_unknown(name, functions)
  if #functions == 0 then return "no sample has the name of a function" end
  local names, most = {}, {}
  for i, one in ipairs(functions) do
    names[i] = one.name
    if i <= NEAR_MAX then most[i] = escape(one.name) end
  end
  local near = find_near(name, names)
  return ("no sample is in a function '%s'%s\n  the functions with the most samples: %s"):format(escape(name),
    near and (" (did you mean '%s'?)"):format(escape(near)) or "", table.concat(most, ", "))
end

-- ---- lines ----

-- Gives each instruction the samples in its bytes.
local function give_samples(code, at)
  for _, instruction in ipairs(code.instructions) do
    local sum = 0
    for address = instruction.address, instruction.address + instruction.size - 1 do sum = sum + (at[address] or 0) end
    instruction.value = sum
  end
end

local function base_of(path) return path:match "([^/]+)$" or path end

local function place_text(place)
  if not place or not place.file then return "?" end
  return ("%s:%d"):format(base_of(place.file), place.line or 0)
end

-- Returns the function's own lines and those of each function that is inlined in it: { inlined =, file =, value =,
-- lines = { number -> { value =, instructions } }, calls = { "FILE:LINE", ... } }, its own first, then by value.
local function sections_of(code)
  local sections, list = {}, {}
  for _, instruction in ipairs(code.instructions) do
    local place = instruction.places[1] or {}
    local inlined = #instruction.places > 1 and (place.symbol or "[inlined]") or nil
    local key = (inlined or "") .. "\0" .. (place.file or "")
    local section = sections[key]
    if not section then
      section = { inlined = inlined, file = place.file, value = 0, lines = {}, calls = {}, nr = #list }
      sections[key], list[#list + 1] = section, section
    end
    local number = place.line or 0
    local line = section.lines[number] or { value = 0, instructions = {} }
    section.lines[number] = line
    line.instructions[#line.instructions + 1] = instruction
    line.value, section.value = line.value + instruction.value, section.value + instruction.value
    local call = inlined and place_text(instruction.places[2])
    if call and not section.calls[call] then
      section.calls[call] = true
      section.calls[#section.calls + 1] = call
    end
  end
  table.sort(list, function(a, b)
    if (a.inlined == nil) ~= (b.inlined == nil) then return a.inlined == nil end
    if a.value ~= b.value then return a.value > b.value end
    return a.nr < b.nr
  end)
  return list
end

local function head_of(code, section)
  local file = section.file and escape(section.file) or "no source file is known"
  if not section.inlined then return ("%s: %s"):format(escape(code.symbol), file) end
  return ("%s, inlined at %s: %s"):format(escape(section.inlined), escape(table.concat(section.calls, ", ")), file)
end

local function expand_tabs(text)
  return (text:gsub("([^\t]*)\t", function(before)
    return before .. (" "):rep(8 - (utf8.len(before) or #before) % 8)
  end))
end

local function text_of(source, number) return escape(expand_tabs(source and source[number] or "")) end

-- Returns the rows of a listing: { kind = "head" | "line" | "code" | "gap", value =, line =, address =, text = }.
-- missing: source file -> the reason why it cannot be read
local function listed_by_line(code, missing)
  local rows = {}
  local function add(row) rows[#rows + 1] = row end
  for _, section in ipairs(sections_of(code)) do
    add { kind = "head", value = section.value, text = head_of(code, section) }
    local source, why
    if section.file then source, why = code_of.source(section.file) end
    if section.file and not source then missing[section.file] = why end
    local numbers, last = sorted_keys(section.lines), 0
    for i, number in ipairs(numbers) do
      local first = number > 0 and math.max(last + 1, number - CONTEXT) or number
      if last > 0 and first > last + 1 then add { kind = "gap" } end
      for n = first, number do
        local line = section.lines[n]
        if line or source then
          add { kind = "line", value = line and line.value or 0, line = n > 0 and n or nil,
            text = n == 0 and "(no line)" or text_of(source, n) }
        end
      end
      for _, instruction in ipairs(section.lines[number].instructions) do
        add { kind = "code", value = instruction.value, address = instruction.address, text = escape(instruction.text) }
      end
      last = number
      local next_number = numbers[i + 1] or math.huge
      for n = number + 1, source and number > 0 and math.min(number + CONTEXT, next_number - 1, #source) or 0 do
        add { kind = "line", value = 0, line = n, text = text_of(source, n) }
        last = n
      end
    end
  end
  return rows
end

local function listed_by_address(code)
  local rows = {}
  for i, instruction in ipairs(code.instructions) do
    local place, text = instruction.places[1], nil
    if place then
      text = place_text(place)
      if #instruction.places > 1 then text = ("%s %s"):format(place.symbol or "[inlined]", text) end
    end
    rows[i] = { kind = "code", value = instruction.value, address = instruction.address,
      text = escape(instruction.text), place = text and escape(text) }
  end
  return rows
end

-- ---- text ----

local function row_text(row)
  local share = row.share
  if row.kind == "gap" then return ("%7s %6s"):format("", "...") end
  if row.kind == "head" then return ("%7s %s"):format(share, row.text) end
  if row.kind == "line" then return ("%7s %6s  %s"):format(share, row.line or "", row.text) end
  local text = ("%7s %10x"):format(share, row.address)
  return ("%s  %s"):format(text, row.place and ("%-34s  %s"):format(row.text, row.place) or row.text)
end

local function print_text(listing)
  io.write(listing.title, "\n")
  for _, note in ipairs(listing.notes) do io.write(note, "\n") end
  io.write("\n", listing.by_address and "  SHARE    ADDRESS    INSTRUCTION" or "  SHARE   LINE  SOURCE", "\n")
  for _, row in ipairs(listing.rows) do
    io.write((terminal.cut(row_text(row), terminal.WIDTH):gsub("%s+$", "")), "\n")
  end
end

-- ---- the listing ----

-- Returns { title =, notes = { text, ... }, total =, rows = } | nil, the reason
local function list_function(one, all, opt)
  if one.raw.context == "kernel" then return nil, "the kernel's code is not disassembled" end
  if not one.has_code then return nil, "its code is not in a file that can be read" end
  local code, why = code_of.read(one.world, one.raw, one.name)
  if not code then return nil, why end
  give_samples(code, one.at)
  local notes, missing, by_address = {}, {}, opt.asm or not code.has_lines
  local rows = by_address and listed_by_address(code) or listed_by_line(code, missing)
  for _, row in ipairs(rows) do
    local value = row.value or 0
    row.share = value ~= 0 and ("%.2f%%"):format(terminal.share(value, one.total)) or ""
  end
  if not code.has_lines then notes[1] = "the file has no debug information: instructions only (try: build with -g)" end
  for file, reason in pairs(missing) do notes[#notes + 1] = ("no source: %s: %s"):format(escape(file), reason) end
  table.sort(notes)
  return {
    title = ("%s in %s: %d sample%s of %s, %s of all"):format(escape(one.name), escape(one.module), one.count,
      one.count == 1 and "" or "s", escape(opt.event), terminal.percent(one.total, all)),
    notes = notes, total = one.total, rows = rows, by_address = by_address,
  }
end

--- Prints the functions of a name; see perfev.tool.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.print(name, count, periods, opt)
  local functions, all = functions_of(count, periods)
  local found, reasons = {}, {}
  for _, one in ipairs(functions) do
    if one.name == name then
      local listing, why = list_function(one, all, opt)
      if listing then found[#found + 1] = listing
      else reasons[#reasons + 1] = ("%s in %s: %s"):format(escape(name), escape(one.module), why) end
    end
  end
  if #found == 0 then return nil, reasons[1] or explain_unknown(name, functions) end
  if opt.format == "html" then
    io.write(page(name, found))
    return true
  end
  for i, listing in ipairs(found) do
    if i > 1 then io.write "\n" end
    print_text(listing)
  end
  return true
end

return M
