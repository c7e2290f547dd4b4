--- Reads the debug information (DWARF) of a probed file: its own, or that of its debug file.

local core = require "perfev.core"
local files = require "perfev.symbol.files"
local native = require "perfev.base.native_module"

local M = {}

local E = core.errno

local function read_symbols(file)
  local symtab, why, remedy = native "perfev.symtab"
  if not symtab then return nil, remedy and ("%s\n  try: %s"):format(why, remedy) or why, E.ENOSYS end
  local opened <close>, wrong, code = core.file(file.path)
  local image = opened and opened:image()
  if not image then return nil, ("cannot read %s: %s"):format(file.path, wrong or "no image"), code end
  local symbols, refusal, errno = symtab.read(image)
  if not symbols then return nil, ("%s: %s"):format(file.path, refusal), errno end
  local place, notes = { path = file.path, from = file.path, uid = opened:stat().uid, open = {} }, {}
  local is_read = files.read_dwarf(symtab, symbols, place, false, function(text) notes[#notes + 1] = text end)
  if is_read then return symbols end
  return nil, notes[1] or file.path .. " has no debug information (DWARF)\n"
    .. "  try: a build with gcc -g, or its debug symbols", E.ENOENT
end

--- Returns the DWARF of a file from `binary.open`, which keeps it.
-- @treturn[1] userdata  perfev.symtab
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.of(file)
  if not file.dwarf then
    local why, code
    file.dwarf, why, code = read_symbols(file)
    if not file.dwarf then return nil, why, code end
  end
  return file.dwarf
end

local function read_rules(file)
  local there, cfi = pcall(require, "perfev.cfi")
  local opened <close> = there and core.file(file.path) or nil
  local image = opened and opened:image()
  return image and cfi.read(image) or nil
end

--- The canonical frame address of the instruction at an offset in a file, to which DWARF's locations refer.
-- @treturn[1] integer  number of a register
-- @treturn[1] integer  bytes added to it
-- @treturn[2] nil      the file has no rule, or one that is not of this form
function M.frame(file, offset)
  if file.rules == nil then file.rules = read_rules(file) or false end
  if not file.rules then return nil end
  return file.rules:frame(offset)
end

return M
