--- The text of a system call: its arguments and its result, as strace has them.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local flags = require "perfev.tool.system_calls.flag_names"
local formats = require "perfev.tool.system_calls.call_formats"

local M = {}

local AT_FDCWD, to_int = formats.AT_FDCWD, formats.to_int
local MAX_ERRNO = 4095
local NR_REGISTERS = 6

-- Results of interrupted calls, which the kernel starts again or turns into EINTR (include/linux/errno.h).
local restarts = {
  [512] = "ERESTARTSYS (To be restarted if SA_RESTART is set)", [513] = "ERESTARTNOINTR (To be restarted)",
  [514] = "ERESTARTNOHAND (To be restarted if no handler)",
  [516] = "ERESTART_RESTARTBLOCK (Interrupted by signal)",
}

local addresses = { addr = true, start = true, brk = true, newsp = true, new_addr = true, tls = true, old_addr = true }
local address_results = { brk = true, mmap = true, mremap = true, shmat = true }
local F_GETFL = 3
local no_third = { [1] = true, [3] = true, [9] = true, [11] = true, [1025] = true, [1032] = true, [1034] = true }

local futex_arguments = { [0] = 4, [1] = 3, [2] = 3, [6] = 4, [7] = 2, [8] = 2, [13] = 4 }

local signed_types = { int = true, pid_t = true, ["const clockid_t"] = true, clockid_t = true, key_t = true,
  qid_t = true, mqd_t = true, timer_t = true, ["const int"] = true }
local wide_types = { long = true, loff_t = true, off_t = true, ssize_t = true, ["unsigned long"] = true,
  size_t = true, u64 = true, ["const void"] = true, aio_context_t = true }

local function address_text(value) return value == 0 and "NULL" or ("0x%x"):format(value) end

local function number_text(argument, value)
  if signed_types[argument.type] then return ("%d"):format(to_int(value)) end
  if not wide_types[argument.type] then value = value & 0xffffffff end
  local is_signed = argument.type == "long" or argument.type:find "^l?off_t"
  if value < 0 and not is_signed then return ("0x%x"):format(value) end
  return ("%d"):format(value)
end

-- Octal, at least three digits, the first is 0.
local function mode_text(value)
  local digits = ("0%o"):format(value & 0xffffffff)
  return digits == "00" and "000" or ("0"):rep(3 - #digits) .. digits
end

local function descriptor_text(value, find_file)
  local fd = to_int(value)
  local file = find_file and (fd >= 0 or fd == AT_FDCWD) and find_file(fd)
  local text = fd == AT_FDCWD and "AT_FDCWD" or ("%d"):format(fd)
  return file and ("%s<%s>"):format(text, escape(file)) or text
end

local function argument_text(call, argument, value, find)
  if argument.type:find "%*$" then
    local text = formats.is_path(call, argument) and find.path(value)
    return text and ('"%s"'):format(escape(text):gsub('"', '\\"')) or address_text(value)
  end
  if formats.is_descriptor(call, argument) then
    return descriptor_text(value, find.file)
  end
  if argument.type == "umode_t" then return mode_text(value) end
  if addresses[argument.name] then return address_text(value) end
  local name = flags.text(call, argument.name, to_int(value))
  if name then return name end
  local is_address = call == "mmap" and argument.name == "off" and value ~= 0
    or argument.name:find "^arg" and value & ~0xffff ~= 0
  if is_address then return ("0x%x"):format(value) end
  return number_text(argument, value)
end

-- The number of arguments that a call has if it depends on one of them: f(values) -> integer or nil.
local counts = {
  open = function(values) return flags.has_mode(values[2]) and 3 or 2 end,
  openat = function(values) return flags.has_mode(values[3]) and 4 or 3 end,
  fcntl = function(values) return no_third[values[2]] and 2 or 3 end,
  futex = function(values) return futex_arguments[values[2] & 0x7f] end,
}

--- Returns "openat(AT_FDCWD, "/etc/passwd", O_RDONLY".
-- @tparam string call
-- @tparam {integer,...} values  of the registers
-- @tparam table find   path(address) -> ?string; file(fd) -> ?string, or nil
function M.arguments(call, values, find)
  local arguments, parts = formats.arguments(call), {}
  if arguments then
    local nr = counts[call] and counts[call](values) or #arguments
    for i = 1, math.min(nr, #arguments) do
      parts[i] = argument_text(call, arguments[i], values[i], find)
    end
  else
    for i = 1, NR_REGISTERS do parts[i] = ("0x%x"):format(values[i]) end
  end
  return ("%s(%s"):format(call, table.concat(parts, ", "))
end

--- Returns "3", "-1 ENOENT (No such file or directory)" or "? ERESTARTSYS (…)".
-- @tparam string call
-- @tparam {integer,...} values  of the registers; empty: unknown
-- @tparam integer result
-- @tparam ?string file  of a new descriptor
function M.result(call, values, result, file)
  local number = -result
  if restarts[number] then return "? " .. restarts[number] end
  if M.is_error(result) then
    return ("-1 %s (%s)"):format(core.errno[number] or number, core.strerror(number))
  end
  if address_results[call] then return ("0x%x"):format(result) end
  if call == "fcntl" and values[2] == F_GETFL then
    return ("0x%x (flags %s)"):format(result, flags.text("open", "flags", result))
  end
  return ("%d%s"):format(result, file and ("<%s>"):format(escape(file)) or "")
end

--- Returns true if the result is an error.
function M.is_error(result) return result < 0 and result >= -MAX_ERRNO end

return M
