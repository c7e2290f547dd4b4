--- Finds the places in a file that a uprobe names: a function, an offset, a source line, or all functions of a pattern.
-- A place is a table: `address` (the linker's), `offset` (in the file), `name` (a word for a definition), and
-- `is_entry` if a function starts there.

local binary = require "perfev.symbol.binary"
local check = require "perfev.base.check"
local core = require "perfev.core"
local debug_info = require "perfev.probe.debug_info"
local glob = require "perfev.base.glob"

local M = {}

local E = core.errno
local LINE_MAX = 0x7fffffff

local function parse_integer(text)
  return text:find("^%d+$") and math.tointeger(tonumber(text))
    or text:find("^0x%x+$") and math.tointeger(tonumber(text)) or nil
end

--- "malloc+0x10" -> "malloc", 16 | nil
function M.split_offset(text)
  local name, more = text:match("^(.-)%+(%w+)$")
  if not name then return text, 0 end
  local offset = parse_integer(more)
  if not offset then return nil end
  return name, offset
end

--- Splits "FILE:WHAT" or "FILE:SOURCE:LINE" -> FILE, WHAT, or FILE, SOURCE, line | nil
function M.split(text)
  local file, source, line = text:match("^(.+):([^:]+):(%d+)$")
  if file then return file, source, math.min(tonumber(line), LINE_MAX + 1) end
  return text:match("^(.+):([^:]+)$")
end

-- Refuses an offset outside the code. `name` is the place in the user's words.
local function check_code(file, offset, name)
  if file.elf and not file.elf:runs(offset) then
    return nil, ("%s is not in the code of %s\n  try: nm %s"):format(name, file.path, file.path), E.EINVAL
  end
  return true
end

-- ---- functions and offsets ----

local not_functions = {
  object = "is a variable\n  try: mem:FILE:SYMBOL, which watches it",
  tls = "is a thread-local variable", other = "is not a function",
  ifunc = "is an indirect function (STT_GNU_IFUNC): its code runs once, to choose one of several functions\n"
    .. "  try: one of those functions, as nm lists them, or FILE:0xOFFSET",
}

local function refuse(why) return nil, why, E.EINVAL end

-- -> a list of one place | nil, message, errno
local function find_symbol(file, word, returns)
  local name, more = M.split_offset(word)
  if not name or name == "" then return refuse(("'%s' is not SYMBOL or SYMBOL+OFFSET"):format(word)) end
  if returns and more > 0 then
    return refuse("a return probe has no offset\n  try: uprobe: for a place inside the function")
  end
  local symbol, why, code = binary.symbol(file, name)
  if not symbol then return nil, why, code end
  if not_functions[symbol.type] then return refuse(("'%s' %s"):format(name, not_functions[symbol.type])) end
  if symbol.size > 0 and more >= symbol.size then
    return refuse(("'%s' is %d bytes long, and the offset is %d"):format(name, symbol.size, more))
  end
  if not symbol.offset then return refuse(("'%s' is not in the file"):format(name)) end
  local ok, wrong, errno = check_code(file, symbol.offset + more, ("'%s'"):format(word))
  if not ok then return nil, wrong, errno end
  return { { address = symbol.value + more, offset = symbol.offset + more, name = name, is_entry = more == 0 } }
end

local function find_offset(file, word)
  local offset = parse_integer(word)
  if not offset then return refuse(("'%s' is not an offset"):format(word)) end
  local ok, why, code = check_code(file, offset, ("offset %s"):format(word))
  if not ok then return nil, why, code end
  return { { address = file.elf and file.elf:address(offset), offset = offset, name = ("at_%x"):format(offset) } }
end

-- ---- patterns ----

local NAMES_MAX = 65536 -- compared to find the nearest

--- The message of a pattern that matches too many functions.
function M.explain_many(n, most)
  return ("it matches %d functions, and more than %d need your consent\n"):format(n, most)
    .. "  try: --many, or many = true, or a longer pattern"
end

--- A hint for a pattern without a match: the pattern with the nearest start of a known name, or "".
-- @tparam string pattern
-- @tparam function each  each(f): calls f(name) for all known names
function M.hint_at_pattern(pattern, each)
  local start, rest = pattern:match("^([^*?%[]*)(.*)$")
  if #start < 3 then return "" end
  local starts, seen = {}, {}
  each(function(name)
    for length = #start - 1, #start + 1 do
      local known = name:sub(1, length)
      if #known == length and not seen[known] and #starts < NAMES_MAX then
        starts[#starts + 1], seen[known] = known, true
      end
    end
  end)
  local near = core.nearest(start, starts)
  return check.meant(near and near .. rest)
end

local function find_functions(file, pattern)
  local ok, matches = pcall(glob.matcher, pattern)
  if not ok then return refuse(("the pattern '%s' is not closed\n  try: a ] after the ["):format(pattern)) end
  local list, why, code = binary.functions(file, matches)
  if not list then return nil, why, code end
  for i, found in ipairs(list) do
    list[i] = { address = found.value, offset = found.offset, name = found.name, is_entry = true }
  end
  if #list > 0 then return list end
  local hint = M.hint_at_pattern(pattern, function(use)
    binary.functions(file, function(name) use(name) return false end)
  end)
  return nil, ("no function of %s matches '%s'%s\n  try: nm %s"):format(file.path, pattern, hint, file.path), E.ENOENT
end

-- ---- source lines ----

-- Removes "." and "..": compilers write paths as they were typed.
local function plain_path(path)
  local parts = {}
  for part in path:gmatch("[^/]+") do
    if part == ".." and #parts > 0 and parts[#parts] ~= ".." then
      parts[#parts] = nil
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return (path:sub(1, 1) == "/" and "/" or "") .. table.concat(parts, "/")
end

-- Returns two different source files of a list of places, or nil.
local function find_two_files(found)
  for _, one in ipairs(found) do
    local first, other = plain_path(found[1].file), plain_path(one.file)
    if first ~= other then return first, other end
  end
end

local function explain_no_code(file, source, line, found)
  if not found.known then
    return ("%s has no source file '%s'%s\n  try: readelf --debug-dump=decodedline %s"):format(file.path, source,
      check.meant(found.nearest), file.path)
  end
  local near = {}
  for _, other in ipairs { found.before or false, found.after or false } do
    if other then near[#near + 1] = ("%s:%d"):format(source, other) end
  end
  return ("line %d of %s has no code\n  try: %s"):format(line, source, table.concat(near, " or "))
end

-- "srv.c", 12 or "handle", 3 (the third line after that of the function) -> path or name of the file, line
local function find_file_line(file, dwarf, source, line)
  if source:find(".", 1, true) then return source, line end
  local path, first, others = dwarf:function_line(source)
  if not path then
    local hint = file.elf and check.meant(file.elf:nearest(source)) or ""
    return nil, ("the debug information of %s has no function '%s'%s"):format(file.path, source, hint)
  end
  if others > 0 then
    return nil, ("%d functions are called '%s'\n  try: %s:%d, with the file of one"):format(others + 1, source,
      path:match("[^/]+$"), first + line)
  end
  return path, first + line
end

local function find_line(file, source, line)
  local dwarf, why, code = debug_info.of(file)
  if not dwarf then return nil, why, code end
  local path, number = find_file_line(file, dwarf, source, line)
  if not path then return nil, number, E.ENOENT end
  if number < 1 then return refuse(("line %d: lines are counted from 1"):format(number)) end
  if number > LINE_MAX then return refuse(("the line is greater than %d"):format(LINE_MAX)) end
  local found, wrong, errno = dwarf:addresses(path, number)
  if not found then return nil, wrong, errno end
  if #found == 0 then
    return nil, explain_no_code(file, path == source and source or path:match("[^/]+$"), number, found), E.ENOENT
  end
  local first, other = find_two_files(found)
  if first then
    return refuse(("several source files are called '%s', as %s and %s\n  try: %s:%d"):format(source, first, other,
      first, number))
  end
  local places = {}
  for _, one in ipairs(found) do
    local offset = file.elf and file.elf:offset(one.address)
    if offset and file.elf:runs(offset) then
      places[#places + 1] = { address = one.address, offset = offset, is_line = true,
        name = ("%s_%d"):format(path:match("[^/]+$"), number) }
    end
  end
  if #places == 0 then return refuse(("line %d of %s is not in the code of the file"):format(number, source)) end
  table.sort(places, function(a, b) return a.address < b.address end)
  return places
end

--- Finds the places of a uprobe.
-- @tparam table file  from `binary.open`
-- @tparam string word  SYMBOL, SYMBOL+OFFSET, 0xOFFSET or a pattern; with `line`, a source file or a function
-- @tparam ?integer line
-- @tparam boolean returns  true for a return probe
-- @treturn[1] table    places, not empty
-- @treturn[1] boolean  true if `word` is a pattern
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.find(file, word, line, returns)
  if line then
    if returns then
      return refuse("a return probe has no line\n  try: uprobe: for a line, uretprobe:FILE:FUNCTION for a return")
    end
    return find_line(file, word, line)
  end
  if glob.is_pattern(word) then
    local list, why, code = find_functions(file, word)
    if not list then return nil, why, code end
    return list, true
  end
  return (word:find("^%d") and find_offset or find_symbol)(file, word, returns)
end

return M
