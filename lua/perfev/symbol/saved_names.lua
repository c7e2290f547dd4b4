--- The names that a recording keeps: of the functions at its sampled addresses, for a reader without the files; and,
-- if asked for, the source lines of these addresses.
-- A text with a block for each file, for each process with code of a JIT compiler, and for the kernel. A block begins
-- with a line ":file BUILD-ID PATH" (BUILD-ID may be "-"), ":memory PID PATH" (of its perf-PID.map) or ":kernel". Its
-- other lines are those of a perf-PID.map: "START SIZE NAME", the numbers in hexadecimal. START is an offset in the
-- file, or an address. SIZE ends with the last byte that was sampled. The kernel's names end with a tab and the module.
-- A block ":lines BUILD-ID PATH" has a line for each sampled byte of a file: its offset in hexadecimal, with an "r" for
-- a return address, then FUNCTION, FILE and LINE (0: unknown) with tabs between them, the innermost inlined function
-- first.
-- A block ":jit PID" has the functions of a jit-PID.dump: "TIME START SIZE NAME", by the time when each was loaded.

local core = require "perfev.core"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}
local Saved = {}
Saved.__index = Saved

-- Samples, and the records from which the reader knows which file is mapped where.
local needed = { "sample", "mmap", "mmap2", "comm", "fork", "exit", "ksymbol" }

local file_keys = setmetatable({}, { __mode = "v" }) -- path -> build-id -> key of the file

local function key_of_file(path, id)
  local of = file_keys[path] or {}
  file_keys[path], id = of, id or "-"
  of[id] = of[id] or (":file %s %s"):format(id, path):gsub("%c", "?")
  return of[id]
end

local function key_of_lines(path, id) return (key_of_file(path, id):gsub("^:file", ":lines")) end

-- A byte that is a return address has the line of the call before it.
local function key_of_address(raw) return ("%x%s"):format(raw.offset, raw.returns and "r" or "") end

local function key_of_memory(pid) return (":memory %d "):format(pid) end

local function key_of_jit(pid) return (":jit %d"):format(pid) end

-- ---- collect ----

-- Adds a function that starts at `start` and has the sampled byte `touched`.
local function add_function(self, key, start, touched, name)
  local block = self[key]
  if not block then
    block = { names = {}, sizes = {} }
    self[key] = block
  end
  local size = touched - start + 1
  block.names[start] = block.names[start] or name:gsub("%c", "?")
  block.sizes[start] = math.max(size, block.sizes[start] or 0)
end

-- The same for a function that was loaded at a time.
local function add_jit_function(self, key, time, start, touched, name)
  local block = self[key] or { loads = {} }
  self[key] = block
  local id = ("%016x %x"):format(time, start)
  local load = block.loads[id] or { name = name:gsub("%c", "?"), size = 0 }
  load.size, block.loads[id] = math.max(load.size, touched - start + 1), load
end

-- Adds a named frame. The byte that was looked up is explained at pev_symtab_find_frame() in src/symbol/symtab.h.
local function add_frame(self, raw, frame, id)
  if not frame.symbol or raw.ksymbol then return end
  local at = frame.kernel and raw.ip or raw.memory and raw.ip or raw.offset
  local start = at - frame.offset
  local touched = raw.returns and (at ~= start or raw.memory) and at - 1 or at
  if frame.kernel then
    local module = frame.module ~= "[kernel]" and "\t" .. frame.module or ""
    add_function(self, ":kernel", start, touched, frame.symbol:gsub("%c", "?") .. module)
  elseif raw.jit then
    add_jit_function(self, key_of_jit(raw.pid), raw.jit, start, touched, frame.symbol)
  elseif raw.memory then
    add_function(self, key_of_memory(raw.pid) .. frame.module, start, touched, frame.symbol)
  else
    add_function(self, key_of_file(raw.path, id), start, touched, frame.symbol)
  end
end

-- Adds the functions and lines at a frame in a file.
local function add_lines(self, raw, places, id)
  local key = key_of_lines(raw.path, id)
  local block = self[key] or { lines = {} }
  self[key] = block
  local parts = { key_of_address(raw) }
  for _, place in ipairs(places) do
    parts[#parts + 1] = ("%s\t%s\t%d"):format((place.symbol or ""):gsub("%c", "?"), (place.file or ""):gsub("%c", "?"),
      place.line or 0)
  end
  block.lines[parts[1]] = table.concat(parts, "\t")
end

local function write_text(blocks)
  local lines = {}
  for _, key in ipairs(sorted_keys(blocks)) do
    local block = blocks[key]
    lines[#lines + 1] = key
    for _, at in ipairs(sorted_keys(block.lines or {})) do lines[#lines + 1] = block.lines[at] end
    for _, id in ipairs(sorted_keys(block.loads or {})) do
      lines[#lines + 1] = ("%s %x %s"):format(id, block.loads[id].size, block.loads[id].name)
    end
    -- A function inside the sampled part of another one comes later, so it is found first.
    for _, start in ipairs(sorted_keys(block.names or {}, math.ult)) do
      lines[#lines + 1] = ("%x %x %s"):format(start, block.sizes[start], block.names[start])
    end
  end
  return #lines > 0 and table.concat(lines, "\n") .. "\n" or ""
end

-- True if the call chains of an event may lack the address of its samples.
local function lacks_address(event)
  local attr = event and event.attr
  return not attr or attr.exclude_callchain_kernel or attr.exclude_callchain_user
end

--- Reads a recording to its end and collects the names of all frames of its samples.
-- @tparam recording recording  from perfev.perfdata.reader
-- @tparam ?boolean with_lines  also source lines
-- @treturn string   the text; empty without names
function M.collect(recording, with_lines)
  local blocks, stacks, frames, addresses = {}, {}, {}, {}
  recording.world.wants_lines = with_lines
  recording.world.on_frame = function(raw, frame, id, lines)
    add_frame(blocks, raw, frame, id)
    if with_lines and lines and lines[1] then add_lines(blocks, raw, lines, id) end
  end
  local function name_frame(raw, world) world:frame(raw) end
  for r in recording:records { user = false, types = needed } do
    local is_sample, pid = r.type == "sample", r.pid or 0
    local stack = is_sample and r.stack
    if stack and not stacks[stack] then
      stacks[stack] = true
      core.stack_new_frames(stack, frames, name_frame)
    end
    if not is_sample then
      addresses[pid] = nil -- other files may be at its addresses now
    elseif not stack or lacks_address(r.event) then
      local known, ip = addresses[pid] or {}, r.ip
      addresses[pid] = known
      if ip and not known[ip] then known[ip] = r.symbol or true end
    end
  end
  return write_text(blocks)
end

-- ---- look up ----

-- The map of a block, parsed when it is needed; nil without it.
local function find_map(self, key)
  local block = self.blocks[key]
  if type(block) == "string" then
    block = core.perf_map(block) or false
    self.blocks[key] = block
  end
  return block or nil
end

-- Returns what a symbol table returns: name, start.
local function find_frame(map, at, returns, unwound)
  local name, start = map:find(at)
  if returns and (unwound or start ~= at) then return map:find(at - 1) end
  return name, start
end

--- True if the recording keeps names of a file.
function Saved:has_file(path, id) return self.blocks[key_of_file(path, id)] ~= nil end

--- Finds the function of a frame in a file.
-- @treturn[1] string  its name
-- @treturn[1] integer its first byte in the file
-- @treturn[2] nil
function Saved:file(raw, id)
  local map = find_map(self, key_of_file(raw.path, id))
  if map then return find_frame(map, raw.offset, raw.returns, raw.unwound) end
end

-- Parses a block of lines: address -> its functions and lines as text.
local function parse_lines(text)
  local lines = {}
  for at, places in text:gmatch "([^\t\n]*)\t([^\n]*)\n" do lines[at] = places end
  return lines
end

--- Finds the functions and lines of a frame in a file.
-- @treturn[1] {table,...}  `symbol`, `file`, `line`: the innermost inlined function first
-- @treturn[2] nil
function Saved:lines(raw, id)
  local key = key_of_lines(raw.path, id)
  local block = self.blocks[key]
  if type(block) == "string" then
    block = parse_lines(block .. "\n")
    self.blocks[key] = block
  end
  local text, places = block and block[key_of_address(raw)], {}
  if not text then return nil end
  for symbol, file, line in (text .. "\t"):gmatch "([^\t]*)\t([^\t]*)\t(%d+)\t" do
    line = math.tointeger(tonumber(line))
    places[#places + 1] = { symbol = symbol ~= "" and symbol or nil, file = file ~= "" and file or nil,
                            line = line ~= 0 and line or nil }
  end
  return places
end

--- Finds the function of a frame in code of a JIT compiler.
-- @treturn[1] string  its name
-- @treturn[1] integer its address
-- @treturn[1] string  the path of the perf-PID.map
-- @treturn[2] nil
function Saved:memory(raw)
  local path = self.memories[raw.pid]
  local map = path and find_map(self, key_of_memory(raw.pid) .. path)
  local name, start
  if map then name, start = map:find(raw.ip - (raw.returns and 1 or 0)) end
  return name, start, path
end

--- Adds the functions of a JIT compiler's dump to it. Returns true if the recording keeps any.
function Saved:fill_jit_dump(dump)
  local lines = self.blocks[key_of_jit((dump:facts()))]
  for time, start, size, name in (lines or ""):gmatch "(%x+) (%x+) (%x+) ([^\n]+)" do
    if not dump:add(tonumber(time, 16), tonumber(start, 16), tonumber(size, 16), name) then break end
  end
  return lines ~= nil
end

--- True if the recording keeps names of the kernel.
function Saved:has_kernel() return self.blocks[":kernel"] ~= nil end

--- Finds the function of a frame in the kernel.
-- @treturn[1] string   its name
-- @treturn[1] integer  its address
-- @treturn[1] ?string  "[MODULE]"; nil: the kernel itself
-- @treturn[2] nil
function Saved:kernel(raw)
  local text, start = find_frame(find_map(self, ":kernel"), raw.ip, raw.returns, false)
  if not text then return nil end
  local tab = text:find("\t", 1, true)
  if not tab then return text, start end
  return text:sub(1, tab - 1), start, text:sub(tab + 1)
end

--- True if a text of `collect` has source lines.
function M.has_lines(text) return text:find "^:lines " ~= nil or text:find("\n:lines ", 1, true) ~= nil end

--- Returns a text of `collect` with other names. Lines that `collect` does not write are left out.
-- @tparam string text
-- @tparam function f  f(kind, text) -> the new text, for "build_id", "file" (a path, a module) and "symbol"
-- @treturn string
function M.replace(text, f)
  local is_jit = false -- in a block ":jit"
  local function new(kind, old) return (f(kind, old):gsub("%c", "?")) end
  local function new_places(places)
    local out = {}
    for symbol, file, line in (places .. "\t"):gmatch "([^\t]*)\t([^\t]*)\t(%d+)\t" do
      out[#out + 1] = ("\t%s\t%s\t%s"):format(new("symbol", symbol), new("file", file), line)
    end
    return table.concat(out)
  end
  local function new_line(line)
    local head, id, path = line:match "^(:%l+) (%S+) (.*)$"
    if head == ":memory" and id:find "^%d+$" then return ("%s %s %s"):format(head, id, new("file", path)) end
    if head == ":file" or head == ":lines" then
      return ("%s %s %s"):format(head, id == "-" and id or new("build_id", id), new("file", path))
    end
    if line:find "^:jit %d+$" then return line end
    local at, places = line:match "^(%x+r?)\t(.*)$"
    if at then return at .. new_places(places) end
    local numbers, name, module = line:match(is_jit and "^(%x+ %x+ %x+) ([^\t]*)(\t?.*)$"
      or "^(%x+ %x+) ([^\t]*)(\t?.*)$")
    if numbers then
      return ("%s %s%s"):format(numbers, new("symbol", name), module ~= "" and "\t" .. new("file", module:sub(2)) or "")
    end
    return line == ":kernel" and line or nil
  end
  local lines = {}
  for line in text:gmatch "[^\n]+" do
    if line:find "^:" then is_jit = line:find "^:jit " ~= nil end
    lines[#lines + 1] = new_line(line)
  end
  return #lines > 0 and table.concat(lines, "\n") .. "\n" or ""
end

--- Returns the text with the names of several ones. Of processes with the same number it has the names of all.
-- @tparam {string,...} texts  of `collect`
-- @treturn string
function M.join(texts)
  local blocks, out = {}, {}
  for _, text in ipairs(texts) do
    local block
    for line in text:gmatch "[^\n]+" do
      if line:find "^:" then
        block = blocks[line] or { line, seen = {} }
        blocks[line] = block
      elseif block and not block.seen[line] then
        block[#block + 1], block.seen[line] = line, true
      end
    end
  end
  for i, head in ipairs(sorted_keys(blocks)) do out[i] = table.concat(blocks[head], "\n") .. "\n" end
  return table.concat(out)
end

--- Parses a text of `collect`.
-- @treturn table  with the methods `file`, `lines`, `memory`, `fill_jit_dump`, `kernel`, `has_file`, `has_kernel`
function M.parse(text)
  local self = setmetatable({ blocks = {}, memories = {} }, Saved)
  local first = text:find("^:") and 1 or nil
  while first do
    local next_block = text:find("\n:", first, true)
    local head, lines = text:sub(first, next_block):match("^([^\n]*)\n(.*)$")
    if head then
      self.blocks[head] = lines
      local pid, path = head:match("^:memory (%d+) (.*)$")
      pid = pid and math.tointeger(tonumber(pid))
      if pid then self.memories[pid] = path end
    end
    first = next_block and next_block + 1
  end
  return self
end

return M
