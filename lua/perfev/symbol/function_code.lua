--- Reads the code of a function: its instructions as text (perfev.disassembler, which is loaded on first use), and the
-- source lines and inlined functions of each.

local core = require "perfev.core"
local files = require "perfev.symbol.files"
local native = require "perfev.base.native_module"

local M = {}

local CODE_MAX = 1 << 20 -- bytes of a function

-- Adds the name of the place to which an instruction jumps: "jne 0x401140 <work+0x10>".
local function add_target(world, file, code, instruction)
  local target = instruction.target
  if not target then return end
  local name, start = code.symbol, code.start
  if target < start or target >= code.stop then name, start = world:name_in_file(file, target) end
  if not name then return end
  instruction.text = ("%s <%s%s>"):format(instruction.text, name,
    target > start and ("+0x%x"):format(target - start) or "")
end

-- The same for a function of a JIT compiler, at the addresses at which it was sampled.
local function read_jit_code(world, raw, symbol, disassembler)
  local machine, bytes = world:jit_code(raw)
  local start = raw.ip - raw.offset
  if not bytes then return nil, "its code is not in a dump that can be read" end
  local list, why = disassembler.list(machine, bytes, start)
  if not list then return nil, why end
  local code = { symbol = symbol, start = start, stop = start + #bytes, path = raw.path, instructions = list }
  for _, instruction in ipairs(list) do
    local at = setmetatable({ ip = instruction.address, offset = instruction.address - start, returns = false },
      { __index = raw })
    local place = world:line(at)
    local target = instruction.target
    if target and target >= start and target < code.stop then
      instruction.text = ("%s <%s+0x%x>"):format(instruction.text, symbol, target - start)
    end
    instruction.places = { place and { symbol = symbol, file = place.file, line = place.line } }
    code.has_lines = code.has_lines or place ~= nil
  end
  return code
end

--- The code of the function in which a frame is.
-- @tparam table world   of perfev.symbol
-- @tparam table raw     a frame, as from core.stack_frames()
-- @tparam string symbol its name
-- @treturn[1] table  `symbol`, `start` and `stop` (the linker's addresses), `path` of the file, `instructions` (a list
--   of `address`, `size`, `text`, `places`: the innermost inlined function first, each `symbol`, `file`, `line`),
--   `has_lines`
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.read(world, raw, symbol)
  local disassembler, why, remedy = native "perfev.disassembler"
  if not disassembler then return nil, remedy and ("%s\n  try: %s"):format(why, remedy) or why end
  if raw.jit then return read_jit_code(world, raw, symbol, disassembler) end
  local file, address = world:file_of(raw)
  if not file then return nil, "its code is not in a file that can be read" end
  local _, start, length = file.symbols:find(address)
  local offset = raw.offset - (address - start)
  local bytes = offset >= 0 and files.part(file.place, offset, math.min(length, CODE_MAX))
  if not bytes then return nil, "its code is not in a file that can be read" end
  local list
  list, why = disassembler.list(file.symbols:facts().machine, bytes, start)
  if not list then return nil, why end
  local code = { symbol = symbol, start = start, stop = start + #bytes, path = raw.path, instructions = list }
  for _, instruction in ipairs(list) do
    add_target(world, file, code, instruction)
    instruction.places = world:lines(file, instruction.address)
    code.has_lines = code.has_lines or instruction.places[1] ~= nil
  end
  return code
end

--- The lines of a source file.
-- @treturn[1] table
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.source(path)
  local text, why, code = files.source(path)
  if not text then return nil, code and core.strerror(code) or why end
  local lines = {}
  for line in (text:gsub("\r\n", "\n") .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  return lines
end

return M
