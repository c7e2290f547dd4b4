--- Resolves breakpoints: mem:ADDR[/LEN][:rwx] and mem:FILE:SYMBOL[+OFF][/LEN][:rwx].
-- In a position-independent program (PIE) a variable has another address in each process. It is looked up in the
-- maps of the process when the event is opened; a command is stopped for it after exec, before it runs. A program
-- with fixed addresses is stopped there too: exec clears its .bss, which hits breakpoints in it (8 hits for 8 bytes,
-- seen on 6.18). Children have their parent's addresses.
-- Source: include/uapi/linux/hw_breakpoint.h; arch/x86/kernel/hw_breakpoint.c, arch_build_bp_info().

local binary = require "perfev.symbol.binary"
local core = require "perfev.core"
local options = require "perfev.base.options"

local M = {}

local E = core.errno
local BREAKPOINT = 5
local READ, WRITE, EXECUTE = 1, 2, 4
local DEFAULT_LEN = 4 -- perf's
local bits = { r = READ, w = WRITE, x = EXECUTE }

local function fail(text, why, code)
  return nil, ("event '%s': %s"):format(text, why), code or E.EINVAL
end

local function is_x86() return core.machine:find("^x86") or core.machine:find("^i%d86$") end

local function parse_integer(text)
  return text:find("^%d+$") and math.tointeger(tonumber(text))
    or text:find("^0[xX]%x+$") and #text <= 18 and math.tointeger(tonumber(text)) or nil
end

-- ---- the string ----

-- "rw" -> bits; nil for an unknown or repeated letter
local function parse_access(word)
  local access = 0
  for letter in word:gmatch(".") do
    if not bits[letter] or access & bits[letter] ~= 0 then return nil end
    access = access | bits[letter]
  end
  return access
end

-- Splits "ADDR/8:rw" from its end: first ":rw", then "/8".
local function split_string(rest)
  local parts = { head = rest, access = READ | WRITE }
  local head, word = rest:match("^(.+):([rwx]+)$")
  -- In mem:FILE:x, x is a variable: an access follows an address, or is the third word.
  if head and parse_access(word) and (parse_integer((head:match("^[^/]*"))) or head:find(":", 1, true)) then
    parts.head, parts.access = head, parse_access(word)
  end
  local place, len = parts.head:match("^(.*)/(%w+)$")
  if place and parse_integer(len) and (parse_integer(place) or place:find(":[^:/]+$")) then
    parts.head, parts.len = place, parse_integer(len)
  end
  return parts
end

local function check_access(text, parts)
  if parts.access & EXECUTE ~= 0 and parts.access ~= EXECUTE then
    return fail(text, "x cannot be combined with r and w")
  end
  if parts.access == READ and is_x86() then
    return fail(text, "x86 has no breakpoint for reads only\n  try: :rw, and :w beside it to distinguish the two")
  end
  return true
end

local function check_len(text, parts)
  local len, native = parts.len, string.packsize("l")
  if parts.access == EXECUTE then
    if len and len ~= native then
      return fail(text, ("the length of an execution breakpoint is %d here, not %d\n  try: no length"):format(
        native, len))
    end
    parts.len = native
  elseif len and (len < 1 or len > 8 or is_x86() and len & (len - 1) ~= 0) then
    return fail(text, ("a breakpoint covers 1, 2, 4 or 8 bytes%s, not %d"):format(is_x86() and "" or " (or 3, 5, 6, 7)",
      len))
  end
  return true
end

local function check_aligned(text, parts, address)
  if not is_x86() or parts.access == EXECUTE or address & (parts.len - 1) == 0 then return true end
  return fail(text, ("0x%x is not a multiple of the length %d, as the processor requires\n  try: a smaller length")
    :format(address, parts.len))
end

-- ---- the result ----

local function make_found(text, parts, address)
  return {
    type = BREAKPOINT, config = 0, exclude = {}, name = text,
    fields = { bp_type = parts.access, bp_addr = address, bp_len = parts.len }, sample_type = { "addr" },
  }
end

local function resolve_address(text, parts, address)
  parts.len = parts.len or DEFAULT_LEN
  local ok, why, code = check_aligned(text, parts, address)
  if not ok then return nil, why, code end
  return make_found(text, parts, address)
end

local is_length = { [1] = true, [2] = true, [4] = true, [8] = true }

-- The default length is the symbol's size, or 4 at an offset in it.
local function set_length(text, parts, symbol, offset)
  if parts.len then return true end
  if offset > 0 or symbol.size == 0 then
    parts.len = DEFAULT_LEN
  elseif is_length[symbol.size] then
    parts.len = symbol.size
  else
    return fail(text, ("'%s' has %d bytes, and a breakpoint covers 1, 2, 4 or 8\n  try: %s/8 for the first 8, "
      .. "FILE:SYMBOL+OFFSET/8 for others"):format(symbol.name, symbol.size, text:gsub(":[rwx]+$", "")))
  end
  return true
end

-- Returns a function that finds the address in each process of a session, called when the event is opened.
-- -> list of { address, pids } | "exec": call it again when the command has exec'd | nil, message, errno
local function make_finder(text, parts, file, linked)
  local fixed = file.elf:facts().fixed
  return function(session)
    if options.is_cpu_wide(session.opts) then
      if fixed then return { { address = linked, pids = session.target.pids } } end
      return fail(text, ("%s is loaded at another address in each process\n  try: -p PID, -- COMMAND, or the "
        .. "address"):format(file.path))
    end
    if session.child and not session.exec_done then return "exec" end
    local list, by_address = {}, {}
    for _, pid in ipairs(session.target.pids) do
      local moved, why, code = 0, nil, nil
      if not fixed then moved, why, code = binary.moved(file, pid) end
      if not moved then
        return fail(text, why .. (session.child and pid == session.child:pid()
          and " yet, when it is started\n  try: the program's own file, or -p once it runs"
          or "\n  try: grep " .. file.path .. " /proc/" .. pid .. "/maps"), code)
      end
      local address = linked + moved
      local ok, wrong, errno = check_aligned(text, parts, address)
      if not ok then return nil, wrong, errno end
      if not by_address[address] then
        by_address[address] = { address = address, pids = {} }
        list[#list + 1] = by_address[address]
      end
      table.insert(by_address[address].pids, pid)
    end
    return list
  end
end

local function resolve_symbol(text, parts)
  local name, word = parts.head:match("^(.+):([^:]+)$")
  if not name then
    return fail(text, "an address or FILE:SYMBOL is expected\n  try: mem:0x601040/4:w, mem:/usr/bin/prog:counter:w")
  end
  local variable, more = word:match("^(.-)%+(%w+)$")
  local offset = more and parse_integer(more) or 0
  if more and not parse_integer(more) then return fail(text, ("'%s' is not an offset"):format(more)) end
  local file, why, code = binary.open(name)
  if not file then return fail(text, why, code) end
  local symbol
  symbol, why, code = binary.symbol(file, variable or word)
  if not symbol then return fail(text, why, code) end
  if symbol.type == "tls" then
    return fail(text, ("'%s' is a thread-local variable, with another address in each thread"):format(symbol.name))
  end
  local ok, wrong, errno = set_length(text, parts, symbol, offset)
  if not ok then return nil, wrong, errno end
  if file.elf:facts().fixed then
    ok, wrong, errno = check_aligned(text, parts, symbol.value + offset)
    if not ok then return nil, wrong, errno end
  end
  local found = make_found(text, parts, symbol.value + offset)
  found.find_addresses = make_finder(text, parts, file, symbol.value + offset)
  found.shown = { ("address  of %s in each process of %s"):format(word, file.path) }
  return found
end

--- Resolves a breakpoint's string.
-- @tparam string text
-- @treturn[1] table  `type`, `config`, `fields`, `exclude`; `find_addresses(session)` where each process has its own
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.resolve(text)
  local rest = text:match("^mem:(.+)$")
  if not rest then return fail(text, "mem:ADDRESS or mem:FILE:SYMBOL is expected") end
  local parts = split_string(rest)
  local ok, why, code = check_access(text, parts)
  if ok then ok, why, code = check_len(text, parts) end
  if not ok then return nil, why, code end
  local address = parse_integer(parts.head)
  if address then return resolve_address(text, parts, address) end
  local place, behind = parts.head:match("^(%d%w*)([/:]?.*)$")
  local word = behind and behind:match("^[/%w]*:([^:/]*)$")
  if place and parse_integer(place) and word then
    return fail(text, ("'%s' is not an access\n  try: r, w, rw or x"):format(word))
  end
  if place and not behind:find(":", 1, true) then return fail(text, ("'%s' is not an address"):format(parts.head)) end
  if place and parse_integer(place) then
    return fail(text, ("'%s' is not understood after an address\n  try: mem:%s/4:w"):format(behind, place))
  end
  return resolve_symbol(text, parts)
end

return M
