--- Finds what a declaration calls by the names of the source: parameters, variables and members, by DWARF.
-- It reduces an expression such as req->peer.port to what the kernel fetches, "+12(+8(%di)):u16", at the address of
-- the probe. A location is a place in memory or a value: `base` (text of its first address or value) plus
-- `offsets[1]`; each further offset is added to the word at the address before it.

local check = require "perfev.base.check"
local core = require "perfev.core"
local debug_info = require "perfev.probe.debug_info"
local arguments = require "perfev.probe.probe_arguments"

local M = {}

-- tracefs' names of the registers, by their numbers in DWARF (the psABIs), and the number of this machine in ELF.
local machines = {
  x86_64 = { elf = 62, names = "ax dx cx bx si di bp sp r8 r9 r10 r11 r12 r13 r14 r15" },
  aarch64 = { elf = 183, names = "x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 x16 x17 x18 x19 x20 x21 x22 x23"
    .. " x24 x25 x26 x27 x28 x29 x30 sp" },
}

local FETCH_MAX = 63 -- MAX_ARGSTR_LEN
local NAMES_SHOWN = 12
local NESTED_MAX = 16 -- structures without names, one in the other
local MEMBERS_MAX = 1 << 16 -- visited to find one

local function find_register(number)
  local machine, n = machines[core.machine], 0
  for name in (machine and machine.names or ""):gmatch("%S+") do
    if n == number then return name end
    n = n + 1
  end
end

-- A refusal on the way is raised as { the part of the expression, the cause } and caught in read_all.
local function refuse(part, cause, ...) error({ part, cause:format(...) }, 0) end

local function list_names(names)
  local shown = table.concat(names, ", ", 1, math.min(#names, NAMES_SHOWN))
  return #names == 0 and "" or "\n  try: " .. shown .. (#names > NAMES_SHOWN and " …" or "")
end

-- ---- variables ----

local absent = {
  nowhere = "is optimized out at this place: neither memory nor a register has it\n"
    .. "  try: another line, or a build with -O0",
  split = "is in several places at once, as the optimizer has split it\n  try: another line, or a build with -O0",
  thread = "is a variable of each thread, at an address that a probe cannot compute",
  computed = "has a location that a probe cannot compute\n  try: another line, or a build with -O0",
}

local function names_of(scope)
  local names, seen = {}, {}
  for _, variable in ipairs(scope or {}) do
    if not seen[variable.name] then names[#names + 1], seen[variable.name] = variable.name, true end
  end
  return names
end

-- Finds the innermost variable of that name.
local function find_variable(at, name)
  for _, variable in ipairs(at.scope or {}) do
    if variable.name == name and not variable.is_declared then return variable end
  end
  local global = at.dwarf:global(at.address, name)
  if global then return global end
  local names = names_of(at.scope)
  refuse(name, "is not a variable in scope there%s%s", (check.hint(name, names)), list_names(names))
end

-- Turns a location of DWARF into one of ours.
local function read_location(at, name, raw)
  if absent[raw.start] then refuse(name, absent[raw.start]) end
  local location = { is_value = raw.is_value, table.unpack(raw) }
  if raw.start == "constant" then
    location.is_constant = true
  elseif raw.start == "address" then
    -- The kernel adds it to the address at which the file's first byte would be.
    location.is_static, location[1] = true, raw[1] - at.address + at.offset
  else
    local number, bytes = raw.register, 0
    if raw.start == "frame" then number, bytes = debug_info.frame(at.file, at.offset) end
    location.register = number and find_register(number)
    if not location.register then refuse(name, absent.computed) end
    location[1] = location[1] + bytes
  end
  return location
end

-- The object to which a pointer leads.
local function follow(object)
  local location = object.location
  if location.is_constant then refuse(object.text, "is a constant, not the address of an object") end
  if location.is_value then
    location.is_value = false
  else
    location[#location + 1] = 0
  end
end

local function move(object, bytes)
  local location = object.location
  if location.is_value then refuse(object.text, "is in a register as a whole, and a probe cannot read a part of it") end
  location[#location] = location[#location] + bytes
end

-- ---- types ----

local function describe(kind)
  local words = { record = "a structure", pointer = "a pointer", array = "an array", number = "a number",
                  float = "a floating-point number" }
  return words[kind.kind] or "of a type without a value"
end

local function is_char(dwarf, ref)
  local kind = ref ~= 0 and dwarf:type(ref)
  return kind and kind.kind == "number" and kind.size == 1 and kind.name == "char"
end

local function size_of(dwarf, kind)
  if kind.size > 0 or kind.kind ~= "array" then return kind.size end
  local size = dwarf:type(kind.target).size
  for _, count in ipairs(kind) do size = size * count end
  return size
end

-- Finds a member, also in structures without names -> member, offset. Adds the names of others to `names`, and counts
-- the visited members in names.visited.
local function find_member(dwarf, ref, name, depth, names)
  for _, member in ipairs(dwarf:members(ref)) do
    names.visited = (names.visited or 0) + 1
    if names.visited > MEMBERS_MAX then return nil end
    if member.name == name then return member, member.offset end
    names[#names + 1] = member.name
    if not member.name and depth < NESTED_MAX then
      local found, offset = find_member(dwarf, member.type, name, depth + 1, names)
      if found then return found, member.offset + offset end
    end
  end
end

-- ---- steps ----

-- The state of an expression is `object`: `location`, `ref` (its type in DWARF), `kind` (of dwarf:type()), `text`.

local function set_type(at, object, ref)
  object.ref, object.kind = ref, at.dwarf:type(ref)
end

local function follow_pointer(at, object)
  local target = object.kind.target
  follow(object)
  set_type(at, object, target)
end

-- No language has a reference to a reference; in a damaged file a type can refer to itself.
local function follow_reference(at, object)
  if object.kind.kind == "pointer" and object.kind.is_reference then follow_pointer(at, object) end
end

local function take_member(at, object, name)
  follow_reference(at, object)
  local prefix = ""
  if object.kind.kind == "pointer" then
    prefix = "a pointer to "
    follow_pointer(at, object)
  end
  if object.kind.kind ~= "record" then
    refuse(object.text, "is %s%s, and has no members", prefix, describe(object.kind))
  end
  local names = {}
  local member, offset = find_member(at.dwarf, object.ref, name, 0, names)
  if not member then
    if #names == 0 then refuse(object.text, "is of a type whose members are not in this debug information") end
    refuse(object.text, "has no member '%s'%s%s", name, (check.hint(name, names)), list_names(names))
  end
  if member.is_bitfield then refuse(name, "is a bit field, which a probe cannot read") end
  move(object, offset)
  set_type(at, object, member.type)
end

local function take_element(at, object, index)
  local kind = object.kind
  if kind.kind == "pointer" then
    local size = size_of(at.dwarf, at.dwarf:type(kind.target))
    if size == 0 then refuse(object.text, "is a pointer to what has no size") end
    follow_pointer(at, object)
    move(object, index * size)
    return
  end
  if kind.kind ~= "array" then refuse(object.text, "is %s, and has no elements", describe(kind)) end
  local count, rest = kind[1] or 0, { kind = "array", target = kind.target, size = 0, table.unpack(kind, 2) }
  if count > 0 and index >= count then refuse(object.text, "has %d elements, from 0 to %d", count, count - 1) end
  local size = size_of(at.dwarf, #rest > 0 and rest or at.dwarf:type(kind.target))
  if size == 0 then refuse(object.text, "is an array of what has no size") end
  move(object, index * size)
  if #rest > 0 then
    object.kind = rest
  else
    set_type(at, object, kind.target)
  end
end

-- ---- the value ----

-- Finds the type of the value in tracefs; for text, object.location becomes that of its first byte.
local function read_value_type(at, object)
  follow_reference(at, object)
  local kind = object.kind
  if kind.kind == "number" then
    local row = arguments.integer(kind.size, kind.is_signed)
    return row or refuse(object.text, "has %d bytes, and a probe reads 1, 2, 4 or 8", kind.size)
  elseif kind.kind == "pointer" and is_char(at.dwarf, kind.target) then
    follow(object)
    return arguments.type_named "string"
  elseif kind.kind == "pointer" then
    return arguments.type_named "ptr"
  elseif kind.kind == "array" and #kind == 1 and is_char(at.dwarf, kind.target) then
    return arguments.type_named "string"
  elseif kind.kind == "record" then
    local names = {}
    find_member(at.dwarf, object.ref, false, 0, names)
    for i, name in ipairs(names) do names[i] = object.text .. "." .. name end
    refuse(object.text, "is a structure, of which a probe reads the members%s", list_names(names))
  elseif kind.kind == "array" then
    refuse(object.text, "is an array\n  try: %s[0]", object.text)
  end
  refuse(object.text, "is %s, and a probe reads integers and text", describe(kind))
end

-- The same for a type that the user named.
local function use_named_type(at, object, row)
  follow_reference(at, object)
  if not row.size and object.kind.kind ~= "array" then follow(object) end
  return row
end

-- Formats a location for tracefs -> fetch, register (if that alone has the value)
local function format_location(object)
  local location = object.location
  local last = location[#location]
  if location.is_value and #location > 1 and last == 0 then -- it was read from memory
    location[#location], location.is_value = nil, false
  end
  if location.is_value then
    if location.is_constant then return ("\\%d"):format(last) end
    if last ~= 0 or #location > 1 or location.is_static then refuse(object.text, absent.computed) end
    return "%" .. location.register, location.register
  end
  local text = location.is_static and ("@+%d"):format(location[1])
    or ("%+d(%%%s)"):format(location[1], location.register)
  for i = 2, #location do text = ("%+d(%s)"):format(location[i], text) end
  return text
end

local function read_expression(at, arg)
  local expression = arg.variable
  local variable = find_variable(at, expression.name)
  if variable.location.needs_frame then at.needs_frame = true end
  local object = { location = read_location(at, expression.name, variable.location), text = expression.name }
  set_type(at, object, variable.type)
  for _, step in ipairs(expression.steps) do
    if step.member then
      take_member(at, object, step.member)
    else
      take_element(at, object, step.index)
    end
    object.text = object.text .. step.text
  end
  arg.type = arg.type and use_named_type(at, object, arg.type) or read_value_type(at, object)
  arg.fetch, arg.register = format_location(object)
  if #arg.fetch + 1 + #arg.type.kernel > FETCH_MAX then
    refuse(object.text, "takes more steps than the kernel accepts (%d characters)", FETCH_MAX)
  end
end

-- The return value's type.
local function read_returned(at, arg)
  if not at.scope or at.scope.returns == 0 then refuse("$retval", "has no type: the function returns nothing") end
  local object = { location = { is_value = true, 0 }, text = "$retval" }
  set_type(at, object, at.scope.returns)
  arg.type = read_value_type(at, object)
end

-- ---- all arguments of a place ----

local function read_all(at, args)
  for _, arg in ipairs(args) do
    if arg.variable or arg.retval and not arg.type then
      local ok, refusal = pcall(arg.variable and read_expression or read_returned, at, arg)
      if not ok then
        if type(refusal) ~= "table" then error(refusal, 0) end
        local part, cause = table.unpack(refusal)
        return nil, part == arg.text and ("args: '%s' %s"):format(part, cause)
          or ("args: '%s': '%s' %s"):format(arg.text, part, cause)
      end
    end
  end
  return true
end

local function copy_args(args)
  local copies = {}
  for i, arg in ipairs(args) do
    copies[i] = {}
    for name, value in pairs(arg) do copies[i][name] = value end
  end
  return copies
end

-- True if DWARF has to be read.
local function are_wanted(args)
  for _, arg in ipairs(args) do
    if arg.variable or arg.retval and not arg.type then return true end
  end
  return false
end

--- Finds the location and the type of each argument that names a variable, at one place.
-- The parameters of code without optimization are in memory only after the function has set up its frame. A place at
-- such a function's entry moves there.
-- @tparam table args   from `arguments.parse`; they are not changed
-- @tparam table file   from `binary.open`
-- @tparam table place  `address` (the linker's), `offset` (in the file)
-- @treturn[1] table    args for this place
-- @treturn[1] table    the place, or the one to which it moved
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.find(args, file, place)
  if not are_wanted(args) then return args, place end
  local machine = machines[core.machine]
  if not machine or not file.elf or file.elf:facts().machine ~= machine.elf then
    return nil, ("args: names of variables are for 64-bit programs of x86_64 and aarch64, not for %s\n"
      .. "  try: \"n:int\", the first argument with its type"):format(file.path), core.errno.EOPNOTSUPP
  end
  local dwarf, why, code = debug_info.of(file)
  if not dwarf then return nil, why, code end
  local at = { file = file, dwarf = dwarf, address = place.address, offset = place.offset,
               scope = dwarf:scope(place.address) }
  local found = copy_args(args)
  local ok, wrong = read_all(at, found)
  local scope = at.scope
  if not (at.needs_frame and scope and scope.entry == place.address and scope.after_frame) then
    if not ok then return nil, wrong, core.errno.EINVAL end
    return found, place
  end
  local moved = setmetatable({ address = scope.after_frame, offset = place.offset + scope.after_frame - scope.entry },
    { __index = place })
  at = { file = file, dwarf = dwarf, address = moved.address, offset = moved.offset,
         scope = dwarf:scope(moved.address) }
  found = copy_args(args)
  ok, wrong = read_all(at, found)
  if not ok then return nil, wrong, core.errno.EINVAL end
  return found, moved
end

return M
