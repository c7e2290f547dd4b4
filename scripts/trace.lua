-- trace: prints each call of a function with its arguments.
-- perfl trace uprobe:libc:getenv name:string -- ls
-- perfl trace 'uretprobe:libc:read' '$retval:ssize_t' -- cat /etc/passwd
-- perfl trace uprobe:./srv:srv.c:12 n 'req->len' -- ./srv   (built with -g)

local perfev = require "perfev"
local escape = perfev.escape

local opt = perfev.args {
  summary = "print each call of a function with its arguments",
  { "event", metavar = "PROBE",
    help = "uprobe:FILE:SYMBOL, uprobe:FILE:SOURCE:LINE, uretprobe:, kprobe:, usdt:FILE:PROVIDER:NAME" },
  { "args", args = "*", metavar = "ARG",
    help = "variables by name, as in n 'req->len'; or NAME:TYPE in the order of the arguments, as in n:int s:string; "
      .. "return probes: $retval" },
  output = [[
Prints a line for each call: time in seconds, COMM, TID, and the arguments as
name=value.]],
  epilog = [[
Types: int, long, short, char and their unsigned forms, u8 to u64, s8 to s64, ptr
and x8 to x64 (hexadecimal), string. FILE is a path, a library ("libc") or a
program in PATH. A static probe without ARG prints the arguments of its note.
Source lines and names of variables need debug information (gcc -g).]],
}

local named = #opt.args > 0 and opt.args or nil

local function hex(n) return ("0x%x"):format(n) end

local function unsigned(n) -- Lua's integers have a sign
  if n >= 0 then return tostring(n) end
  local tens = (n >> 1) // 5
  return ("%d%d"):format(tens, n - 10 * tens)
end

local forms, form_of = { ptr = hex, pointer = hex, x8 = hex, x16 = hex, x32 = hex, x64 = hex }, {}
for kind in ("u64,ulong,unsigned long,unsigned long long,size_t"):gmatch "[^,]+" do forms[kind] = unsigned end
for _, arg in ipairs(opt.args) do
  local name, kind = arg:match "^%$?([%w_]+)[^:]*:(.*)$"
  if name then form_of[name] = forms[kind] end
end

local function values(args)
  local parts = {}
  for name, value in pairs(args) do
    if not name:find("^common_") and not name:find("^__probe") then
      local shown = type(value) == "string" and ('"%s"'):format(escape(value)) or (form_of[name] or tostring)(value)
      parts[#parts + 1] = name .. "=" .. shown
    end
  end
  return table.concat(parts, " ")
end

perfev.event { opt.event, args = named, sample = function(r, args)
  print(("%6d.%06d %-16s %7d  %s"):format(r.time // 1000000000, r.time // 1000 % 1000000, escape(r.comm or "?"),
    r.tid, args and values(args) or ""))
end }
