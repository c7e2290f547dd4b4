--- Parses the arguments that a script declares for a probe, and finds where the probed function keeps them.
-- An integer in a register is read from the sample's registers. The kernel fetches arguments in memory, in the
-- syntax of tracefs (Documentation/trace/uprobetracer.rst, kprobetrace.rst).
--
--   "n:int"            the next argument, as that type
--   "n=$arg3:int"      the third
--   "$retval:long"     the return value, in a return probe, as args.retval
--   "n=+8(%si):u32"    any other location, in the syntax of tracefs
--   "s:string"         text at the passed address
--   "req->len"         a variable of the program, by DWARF (variables.lua), as args.len; also "n=req->len"
--   "req->len:u64"     the same as another type
--   "$retval"          the return value, with the function's type

local check = require "perfev.base.check"
local core = require "perfev.core"
local registers = require "perfev.record.registers"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

-- A type in a script -> type in tracefs, type in C, bytes.
local types = {}
local function add_type(words, kernel, c, size)
  for word in words:gmatch("[^,]+") do types[word] = { kernel = kernel, c = c, size = size } end
end
add_type("int,s32,pid_t", "s32", "int", 4)
add_type("unsigned,unsigned int,uint,u32,uid_t", "u32", "unsigned int", 4)
add_type("long,ssize_t,s64,long long", "s64", "s64", 8)
add_type("unsigned long,ulong,size_t,u64,unsigned long long", "u64", "u64", 8)
add_type("short,s16", "s16", "short", 2)
add_type("unsigned short,ushort,u16", "u16", "unsigned short", 2)
add_type("char,s8", "s8", "signed char", 1)
add_type("unsigned char,uchar,bool,u8", "u8", "unsigned char", 1)
add_type("x8", "x8", "x8", 1)
add_type("x16", "x16", "x16", 2)
add_type("x32", "x32", "x32", 4)
add_type("x64", "x64", "x64", 8)
add_type("ptr,pointer", "x64", "void *", 8)
add_type("string", "string", nil, nil)
add_type("ustring", "ustring", nil, nil)

-- Registers of integer arguments in order, and of the return value (the psABIs).
local abis = {
  { "^x86_64$", args = "di si dx cx r8 r9", ret = "ax" },
  { "^aarch64", args = "x0 x1 x2 x3 x4 x5 x6 x7", ret = "x0" },
  { "^riscv64$", args = "a0 a1 a2 a3 a4 a5 a6 a7", ret = "a0" },
  { "^s390x$", args = "r2 r3 r4 r5 r6", ret = "r2" },
  { "^ppc64", args = "r3 r4 r5 r6 r7 r8 r9 r10", ret = "r3", prefix = "gp" },
}

local NAME_MAX = 31 -- MAX_ARG_NAME_LEN is 32
local ARGS_MAX = 32 -- tracefs allows 128

--- The type with that name in a script, or nil.
function M.type_named(word) return types[word] end

--- The type of an integer of `size` bytes, or nil.
function M.integer(size, is_signed) return types[(is_signed and "s" or "u") .. 8 * size] end

local function find_abi(machine)
  for _, abi in ipairs(abis) do
    if machine:find(abi[1]) then return abi end
  end
end

local function list_types()
  local names = sorted_keys(types)
  return names
end

-- Names of C, bcc and bpftrace for strings.
local text_words = { str = true, cstr = true, text = true, kstr = true, ["char*"] = true, ["char *"] = true,
                     ["const char*"] = true, ["const char *"] = true }

local function suggest_type(word)
  return text_words[word:lower()] and "string" or core.nearest(word, list_types())
end

local function read_type(word, text)
  local row = types[word]
  if row then return row end
  if word == "float" or word == "double" then
    return nil, ("args: '%s': a probe cannot read floating-point registers"):format(text)
  end
  local near = suggest_type(word)
  return nil, ("args: '%s': unknown type '%s'%s"):format(text, word,
    check.meant(near, "; types are int, long, u64, string and the like"))
end

-- True if the text cannot end the definition or begin another.
local function is_fetch(text)
  return #text <= 200 and text:find("^[%%@$\\+%-][%w%%$@+%-()_]*$") ~= nil
end

-- "req->len" -> { name = "req", steps = { { member = "len", text = "->len" } } } | nil
local function read_variable(text)
  local name, rest = text:match("^([%a_][%w_]*)(.*)$")
  local variable = { name = name, steps = {} }
  while name and rest ~= "" do
    local member, tail = rest:match("^%.([%a_][%w_]*)(.*)$")
    if not member then member, tail = rest:match("^%->([%a_][%w_]*)(.*)$") end
    local index
    if not member then index, tail = rest:match("^%[(%d%d?%d?%d?%d?%d?)%](.*)$") end
    if not (member or index) then return nil end
    index = index and math.tointeger(tonumber(index))
    table.insert(variable.steps, { member = member, index = index, text = rest:sub(1, #rest - #tail) })
    rest = tail
  end
  return name and variable
end

local function read_place(arg, place, text)
  local position = place:match("^%$arg([1-9]%d?)$")
  if position then
    arg.position = math.tointeger(tonumber(position))
  elseif place == "$retval" then
    arg.retval = true
  elseif is_fetch(place) then
    arg.fetch = place
  else
    arg.variable = read_variable(place)
    if arg.variable then return arg end
    return nil, ("args: '%s': '%s' is not $arg1, $retval, %%REGISTER, +8(%%REGISTER) or a variable"):format(text, place)
  end
  if arg.type or arg.retval then return arg end
  return nil, ("args: '%s': a type is expected\n  try: %s:u64"):format(text, text)
end

-- "req->len" -> name of the argument; "list[2]" -> "list_2"
local function name_variable(text)
  local variable = read_variable(text)
  if not variable then return nil end
  local name = variable.name
  for _, step in ipairs(variable.steps) do name = step.member or name .. "_" .. step.index end
  return name
end

-- "n:int" -> name, location or nil, type or nil
local function split_argument(text)
  local retval, of_retval = text:match("^(%$retval):?(.*)$")
  if retval then return "retval", retval, of_retval ~= "" and of_retval or nil end
  local name, place, kind = text:match("^([%a_][%w_]*)=([^:]+):(.+)$")
  if name then return name, place, kind end
  name, place = text:match("^([%a_][%w_]*)=([^:]+)$")
  if name then return name, place end
  name, kind = text:match("^([%a_][%w_]*):(.+)$")
  if name then return name, nil, kind end
  place, kind = text:match("^([^:]+):(.+)$")
  place = place or text
  return name_variable(place), place, kind
end

--- Parses the arguments of a declaration.
-- @tparam {string,...} list
-- @treturn[1] table  each `name`, `type` (`kernel`, `c`, `size`; of a variable or `retval` it may be nil) and one of
--   `position`, `retval`, `fetch`, `variable`
-- @treturn[2] nil
-- @treturn[2] string
function M.parse(list)
  local args, position, seen = {}, 0, {}
  if type(list) ~= "table" then return nil, "args: a list such as { \"n:int\", \"s:string\" } is expected" end
  if #list > ARGS_MAX then return nil, ("args: at most %d"):format(ARGS_MAX) end
  for _, text in ipairs(list) do
    if type(text) ~= "string" then return nil, "args: a list of strings such as \"n:int\" is expected" end
    local name, place, kind = split_argument(text)
    if not name or #name > NAME_MAX then
      return nil, ("args: '%s' is not understood\n  try: NAME:TYPE, as in \"n:int\", or a variable, as in \"req->len\"")
        :format(text)
    end
    if seen[name] then
      return nil, ("args: '%s' appears twice\n  try: %s_2%s"):format(name, name, place and "=" .. place or ":" .. kind)
    end
    seen[name] = true
    local row, why
    if kind then
      row, why = read_type(kind, text)
      if not row then return nil, why end
    end
    local arg = { name = name, type = row, text = text }
    if place then
      arg, why = read_place(arg, place, text)
      if not arg then return nil, why end
    else
      position = position + 1
      arg.position = position
    end
    args[#args + 1] = arg
  end
  return args
end

-- ---- locations ----

local function is_text(arg) return arg.type.kernel == "string" or arg.type.kernel == "ustring" end

-- Fetches a register's value, or the text at the address in it.
local function fetch_register(arg, name, prefix)
  arg.register = not is_text(arg) and name or nil
  local shown = "%" .. (prefix or "") .. name
  arg.fetch = is_text(arg) and "+0(" .. shown .. ")" or shown
end

-- i386 passes all arguments on the stack, above the return address.
local function fetch_stack(arg)
  local place = ("+%d($stack)"):format(4 * arg.position)
  arg.fetch = is_text(arg) and "+0(" .. place .. ")" or place
end

--- Finds the location of each argument by the calling convention.
-- @tparam table args  from `parse`
-- @tparam boolean narrow  a 32-bit program on a 64-bit kernel
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
function M.by_abi(args, narrow)
  local abi = find_abi(core.machine)
  local names = {}
  for name in (abi and abi.args or ""):gmatch("%S+") do names[#names + 1] = name end
  for _, arg in ipairs(args) do
    if arg.position and narrow and core.machine == "x86_64" then
      fetch_stack(arg)
    elseif arg.position and names[arg.position] and not narrow then
      fetch_register(arg, names[arg.position], abi.prefix)
    elseif arg.position then
      return nil, ("args: '%s': argument %d is not passed in a register (%s)"):format(
        arg.text, arg.position, #names > 0 and abi.args or core.machine)
    elseif arg.retval then
      arg.register = abi and not narrow and not is_text(arg) and abi.ret or nil
      arg.fetch = is_text(arg) and "+0($retval)" or "$retval"
    end
  end
  return true
end

-- ---- the note of a static probe ----

-- "%edi", "%r8d", "%dil" -> perf's name of the 64-bit register
local function x86_register(word)
  local number = word:match("^r(%d+)[dwb]?$")
  if number then return tonumber(number) >= 8 and tonumber(number) <= 15 and "r" .. number or nil end
  local name = word:match("^[re]?([abcd]x)$") or word:match("^[re]?([sd]i)$") or word:match("^[re]?([sb]p)$")
    or word:match("^([sd]i)l$") or word:match("^([sb]p)l$") or word:match("^[re]?(ip)$")
  local low = word:match("^([abcd])l$")
  return name or low and low .. "x" or nil
end

local function arm64_register(word)
  local number = word:match("^[xw](%d+)$")
  if number then return tonumber(number) <= 30 and "x" .. number or nil end
  return word == "sp" and word or nil
end

local function format_offset(text)
  local n = math.tointeger(tonumber(text == "" and "0" or text))
  return n and ("%+d"):format(n)
end

-- machine -> function(assembler operand, static probe, file) -> register | nil, fetch | nil, nil: it cannot be read
local operands = {}

function operands.x86_64(text, probe, file)
  local name = text:match("^%%(%w+)$")
  if name then return x86_register(name) end
  local constant = text:match("^%$(%-?%d+)$")
  if constant then return nil, "\\" .. constant end
  local offset, base = text:match("^(%-?%d*)%(%%(%w+)%)$")
  local register = base and base ~= "rip" and x86_register(base)
  if register and format_offset(offset) then return nil, ("%s(%%%s)"):format(format_offset(offset), register) end
  -- A variable of the program. @+N is N bytes after the address at which the file would begin if all of it were mapped
  -- as the probe's segment is (translate_user_vaddr(), 6.18); a segment of data may have another distance.
  local symbol, more = text:match("^([%a_.][%w_.]*)([+-]?%d*)%(%%rip%)$")
  local found = symbol and probe.offset and file.elf and file.elf:symbol(symbol)
  local at = found and found.value - probe.pc + probe.offset + (math.tointeger(tonumber(more)) or 0)
  return nil, at and ("@+%d"):format(at)
end

function operands.aarch64(text)
  local register = arm64_register(text)
  if register then return register end
  if text:find("^%-?%d+$") then return nil, "\\" .. text end
  local base, offset = text:match("^%[(%w+),?%s*(%-?%d*)%]$")
  register = base and arm64_register(base)
  if register and format_offset(offset) then return nil, ("%s(%%%s)"):format(format_offset(offset), register) end
end

-- Splits "-4@%edi 8@-8(%rbp)" at blanks, but not inside brackets.
local function split_note(text)
  local words = {}
  local joined = text:gsub("(%b[])", function(s) return (s:gsub(" ", "")) end)
  for word in joined:gmatch("%S+") do words[#words + 1] = word end
  return words
end

local integers = { [1] = "u8", [2] = "u16", [4] = "u32", [8] = "u64", [-1] = "s8", [-2] = "s16", [-4] = "s32",
                   [-8] = "s64" }

-- Reads one argument of the note. Without `asked` it is called arg1, arg2, ... -> arg | nil: a probe cannot read it
local function read_operand(word, number, asked, probe, file)
  local size, float, text = word:match("^(%-?%d+)(f?)@(.+)$")
  local row = types[integers[math.tointeger(tonumber(size))]]
  if not row or (float ~= "" and not asked) then return nil end
  local arg = asked or { name = "arg" .. number, type = row, text = word }
  local register, fetch = (operands[core.machine] or function() end)(text, probe, file)
  if register then
    fetch_register(arg, register)
  elseif fetch then
    arg.fetch = is_text(arg) and "+0(" .. fetch .. ")" or fetch
  else
    return nil
  end
  return arg
end

--- Finds the location of each argument in a static probe's note.
-- @tparam table probe     of file.elf:probes(): `args` such as "-4@%edi 8@-8(%rbp)", `pc`, `offset`
-- @tparam ?table asked    from `parse`; nil: all arguments as arg1, arg2, ... with the note's types
-- @tparam table file      from binary.open
-- @treturn[1] table       args; without `asked`, arguments that a probe cannot read are left out
-- @treturn[2] nil
-- @treturn[2] string
function M.by_note(probe, asked, file)
  local words, args = split_note(probe.args), {}
  if not asked then
    for i, word in ipairs(words) do args[#args + 1] = read_operand(word, i, nil, probe, file) end
    return args
  end
  for _, one in ipairs(asked) do
    local arg = {}
    for name, value in pairs(one) do arg[name] = value end
    if arg.retval then return nil, ("args: '%s': a static probe has no return value"):format(arg.text) end
    if arg.position then
      if not words[arg.position] then
        return nil, ("args: '%s': the probe has %d arguments"):format(arg.text, #words)
      end
      if not read_operand(words[arg.position], arg.position, arg, probe, file) then
        return nil, ("args: '%s': a probe cannot read its location (%s)"):format(
          arg.text, words[arg.position])
      end
    end
    args[#args + 1] = arg
  end
  return args
end

-- ---- results ----

--- Formats arguments for a definition in tracefs: { "n=%di:s32", ... }.
function M.words(args)
  local words = {}
  for i, arg in ipairs(args) do words[i] = ("%s=%s:%s"):format(arg.name, arg.fetch, arg.type.kernel) end
  return words
end

local last_id = 0xffff -- above the ids of the kernel's events, so that tracepoint.c can distinguish them

--- Selects the registers that a sample must have for the arguments.
-- @treturn[1] integer  mask, for sample_regs_user or sample_regs_intr
-- @treturn[1] string   a tracepoint format with which the sample's registers are read as a payload
-- @treturn[2] nil      an argument is not in a register
function M.registers(args, name)
  local bits, mask = {}, 0
  local names = registers.of(core.machine)
  for bit, register in pairs(names or {}) do bits[register] = bit end
  for _, arg in ipairs(args) do
    local bit = arg.register and bits[arg.register]
    if not bit then return nil end
    mask = mask | 1 << bit
  end
  last_id = last_id + 1
  local big = string.pack("=I2", 1) == "\0\1"
  local lines = { "name: " .. name, "ID: " .. last_id, "format:" }
  for _, arg in ipairs(args) do
    local before, bit = 0, bits[arg.register]
    for lower = 0, bit - 1 do before = before + (mask >> lower & 1) end
    lines[#lines + 1] = ("\tfield:%s %s;\toffset:%d;\tsize:%d;\tsigned:%d;"):format(arg.type.c, arg.name,
      8 * before + (big and 8 - arg.type.size or 0), arg.type.size, arg.type.kernel:find("^s") and 1 or 0)
  end
  return mask, table.concat(lines, "\n") .. "\n"
end

return M
