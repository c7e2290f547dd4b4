--- r.stack: the frames of a call chain, with names.
-- C has taken the addresses and the mapped files (src/symbol/stack.c). Names are looked up here on first use, once for
-- each frame; stacks share the tables of equal frames.

local lazy = require "perfev.base.lazy_module"
local check = require "perfev.base.check"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local symbol = lazy "perfev.symbol"

local Stack = {}

local OTHER = "(other)" -- the frame of the stack that counts all stacks beyond max_bytes

local cache = setmetatable({}, { __mode = "k" }) -- stack -> its frames

-- Appends a frame and what is inlined in it -> true if no later look-up has another result. A JIT compiler may put
-- other code at an address.
local function add_frames(list, raw, world)
  return (world or symbol._here()):add_frames(list, raw) and (raw.jit ~= nil or not raw.memory)
end

local function name_frames(stack)
  local list = cache[stack]
  if list and list.changes == symbol._changes then return list end
  list = core.stack_names(stack, add_frames, symbol._changes)
  list.changes = symbol._changes
  if stack.id == 0 then list[1] = { ip = 0, symbol = OTHER, module = "[unknown]" } end
  cache[stack] = list
  return list
end

local function format_frame(frame)
  local name = frame.symbol and escape(frame.symbol) or "[unknown]"
  if frame.offset then name = ("%s+0x%x"):format(name, frame.offset) end
  local text = ("%16x %s (%s)"):format(frame.ip, name, frame.inlined and "inlined" or escape(frame.module))
  return frame.line and ("%s %s:%d"):format(text, escape(frame.file or "?"), frame.line) or text
end

--- The frames as a list, the innermost first.
function Stack.frames(stack)
  return table.move(name_frames(stack), 1, #stack, 1, {})
end

local function folded_name(frame)
  if frame.symbol then return frame.symbol end
  local module = frame.module:match("([^/]+)$") or frame.module
  return module:sub(1, 1) == "[" and module or "[" .. module .. "]"
end

-- Replaces the separators of frames and lines.
local function replace_separators(name) return (name:gsub("[;\n]", ":")) end

--- One line as flame graph tools read it, the outermost first: "comm;main;f".
-- @tparam[opt] string comm  put before the frames, such as r.comm
-- @treturn string
function Stack.folded(stack, comm)
  local list, parts = name_frames(stack), {}
  if comm then parts[1] = replace_separators(comm) end
  for i = #list, 1, -1 do parts[#parts + 1] = replace_separators(folded_name(list[i])) end
  return table.concat(parts, ";")
end

-- ---- names in keys of aggregators, by column ----

-- Without a name a frame shows its file.
local function symbol_of(stack)
  local frame = name_frames(stack)[1]
  return frame and folded_name(frame) or "[unknown]"
end

local function line_of(stack)
  local raws, world = core.stack_frames(stack)
  local place = raws[1] and (world or symbol._here()):line(raws[1])
  return place and place.file and ("%s:%d"):format(place.file, place.line or 0) or symbol_of(stack)
end

local skipped = setmetatable({}, { __mode = "k" }) -- list of patterns -> name -> whether one of them matches

local function is_skipped(name, patterns)
  local known = skipped[patterns]
  if not known then
    known = {}
    skipped[patterns] = known
  end
  if known[name] == nil then
    known[name] = false
    for _, pattern in ipairs(patterns) do known[name] = known[name] or name:find(pattern) ~= nil end
  end
  return known[name]
end

-- The innermost function that the aggregator does not skip.
local function caller_of(stack, spec)
  for _, frame in ipairs(name_frames(stack)) do
    local name = folded_name(frame)
    if not (spec.skip and is_skipped(name, spec.skip)) then return name end
  end
  return "[unknown]"
end

local namers = { symbol = symbol_of, line = line_of, caller = caller_of }

core.aggregator_namer(function(stack, column, spec) return namers[column:match "[^.]+$"](stack, spec) end)

core.stack_class {
  index = function(stack, key)
    if math.type(key) == "integer" then return name_frames(stack)[key] end
    local method = Stack[key]
    if method then return method end
    local hint = check.hint(tostring(key), { "id", "frames", "folded" })
    error(("a stack has no field '%s'%s"):format(tostring(key), hint), 2)
  end,
  len = function(stack) return #name_frames(stack) end,
  text = function(stack)
    local lines = {}
    for i, frame in ipairs(name_frames(stack)) do lines[i] = format_frame(frame) end
    return table.concat(lines, "\n")
  end,
  symbol = function(raw, world) return (world or symbol._here()):frame(raw).symbol end,
  cfi = function(raw, world) return (world or symbol._here()):cfi(raw) end,
  broken = function(raw, world) (world or symbol._here()):broken(raw) end,
  jit_dump = function(dump, world) (world or symbol._here()):read_jit_dump(dump) end,
}

return Stack
