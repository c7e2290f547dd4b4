--- Breakpoints: mem:ADDR[/LEN][:rwx] and mem:FILE:SYMBOL[+OFF][/LEN][:rwx].
-- A variable of a program that is loaded anywhere (PIE) has an address in each process only, so it is looked up when
-- the event is opened: in the process' maps, and for a command once it has exec'd and before it runs (it is
-- stopped there). A program with addresses of its own is stopped as well, since the kernel, which clears its .bss in
-- exec, trips over breakpoints in it (8 hits for 8 bytes, seen on 6.18). Children have their parent's addresses.
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

local function integer(text)
  return text:find("^%d+$") and math.tointeger(tonumber(text))
    or text:find("^0[xX]%x+$") and #text <= 18 and math.tointeger(tonumber(text)) or nil
end

-- ---- what was written ----

-- "rw" -> bits
local function access_of(word)
  local access = 0
  for letter in word:gmatch(".") do
    if not bits[letter] or access & bits[letter] ~= 0 then return nil end
    access = access | bits[letter]
  end
  return access
end

-- Off the end: ":rw", then "/8".
local function take_apart(rest)
  local parts = { head = rest, access = READ | WRITE }
  local head, word = rest:match("^(.+):([rwx]+)$")
  -- mem:FILE:x is a variable x: an access stands behind an address, or is the third word.
  if head and access_of(word) and (integer((head:match("^[^/]*"))) or head:find(":", 1, true)) then
    parts.head, parts.access = head, access_of(word)
  end
  local place, len = parts.head:match("^(.*)/(%w+)$")
  if place and integer(len) and (integer(place) or place:find(":[^:/]+$")) then
    parts.head, parts.len = place, integer(len)
  end
  return parts
end

local function check_access(text, parts)
  if parts.access & EXECUTE ~= 0 and parts.access ~= EXECUTE then
    return fail(text, "x cannot be combined with r and w")
  end
  if parts.access == READ and is_x86() then
    return fail(text, "x86 has no breakpoint on reading alone\n  try: :rw, and :w beside it to distinguish the two")
  end
  return true
end

local function check_len(text, parts)
  local len, native = parts.len, string.packsize("l")
  if parts.access == EXECUTE then
    if len and len ~= native then
      return fail(text, ("an execution breakpoint has the length %d here, not %d\n  try: no length at all"):format(
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
  return fail(text, ("0x%x is no multiple of the length %d, and the processor wants that\n  try: a smaller length")
    :format(address, parts.len))
end

-- ---- what comes of it ----

local function found_at(text, parts, address)
  return {
    type = BREAKPOINT, config = 0, exclude = {}, name = text,
    fields = { bp_type = parts.access, bp_addr = address, bp_len = parts.len }, sample_type = { "addr" },
  }
end

local function at_address(text, parts, address)
  parts.len = parts.len or DEFAULT_LEN
  local ok, why, code = check_aligned(text, parts, address)
  if not ok then return nil, why, code end
  return found_at(text, parts, address)
end

local fits = { [1] = true, [2] = true, [4] = true, [8] = true }

-- The length of a variable is that of its symbol.
local function length_of(text, parts, symbol, more)
  if parts.len then return true end
  if more > 0 or symbol.size == 0 then
    parts.len = DEFAULT_LEN
  elseif fits[symbol.size] then
    parts.len = symbol.size
  else
    return fail(text, ("'%s' has %d bytes, and a breakpoint covers 1, 2, 4 or 8\n  try: %s/8 for the first of them, "
      .. "FILE:SYMBOL+OFFSET/8 for others"):format(symbol.name, symbol.size, text:gsub(":[rwx]+$", "")))
  end
  return true
end

-- Called when the event is opened: where each process of the session has it.
-- -> list of { address, pids } | "exec", to be asked again once the command has exec'd | nil, message, errno
local function finder(text, parts, file, linked)
  local fixed = file.elf:facts().fixed
  return function(session)
    if options.is_cpu_wide(session.opts) then
      if fixed then return { { address = linked, pids = session.target.pids } } end
      return fail(text, ("%s is loaded at an address of its own in each process\n  try: -p PID, -- COMMAND, or the "
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

local function by_symbol(text, parts)
  local name, word = parts.head:match("^(.+):([^:]+)$")
  if not name then
    return fail(text, "an address or FILE:SYMBOL is expected\n  try: mem:0x601040/4:w, mem:/usr/bin/prog:counter:w")
  end
  local variable, more = word:match("^(.-)%+(%w+)$")
  local offset = more and integer(more) or 0
  if more and not integer(more) then return fail(text, ("'%s' is no offset"):format(more)) end
  local file, why, code = binary.open(name)
  if not file then return fail(text, why, code) end
  local symbol
  symbol, why, code = binary.symbol(file, variable or word)
  if not symbol then return fail(text, why, code) end
  if symbol.type == "tls" then
    return fail(text, ("'%s' is a variable of each thread, at no address of its own"):format(symbol.name))
  end
  local ok, wrong, errno = length_of(text, parts, symbol, offset)
  if not ok then return nil, wrong, errno end
  if file.elf:facts().fixed then
    ok, wrong, errno = check_aligned(text, parts, symbol.value + offset)
    if not ok then return nil, wrong, errno end
  end
  local found = found_at(text, parts, symbol.value + offset)
  found.find_addresses = finder(text, parts, file, symbol.value + offset)
  found.shown = { ("address  of %s in each process of %s"):format(word, file.path) }
  return found
end

--- What a breakpoint's string is.
-- @tparam string text
-- @treturn[1] table  `type`, `config`, `fields`, `exclude`; `find_addresses(session)` where each process has its own
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.resolve(text)
  local rest = text:match("^mem:(.+)$")
  if not rest then return fail(text, "mem:ADDRESS or mem:FILE:SYMBOL is expected") end
  local parts = take_apart(rest)
  local ok, why, code = check_access(text, parts)
  if ok then ok, why, code = check_len(text, parts) end
  if not ok then return nil, why, code end
  local address = integer(parts.head)
  if address then return at_address(text, parts, address) end
  local place, behind = parts.head:match("^(%d%w*)([/:]?.*)$")
  local word = behind and behind:match("^[/%w]*:([^:/]*)$")
  if place and integer(place) and word then
    return fail(text, ("'%s' is no access\n  try: of r, w, rw and x"):format(word))
  end
  if place and not behind:find(":", 1, true) then return fail(text, ("'%s' is no address"):format(parts.head)) end
  if place and integer(place) then
    return fail(text, ("'%s' is not understood behind an address\n  try: mem:%s/4:w"):format(behind, place))
  end
  return by_symbol(text, parts)
end

return M
