--- TRACING_DATA: the formats of the tracepoints that a recording has payloads of, as the recorder's
-- tracefs had them; and what prints them. Source: tools/perf/util/trace-event-info.c.

local Bytes = require "perfev.recording.bytes"

local M = {}

local MAGIC = "\x17\x08\x44tracing"

local function sized(b) return b:take(b:u64()) end

-- id -> { system =, name =, format = }
local function add(formats, system, text)
  local name, id = text:match("^name: (%S+)"), tonumber(text:match("\nID: (%d+)"))
  if name and id then formats[id] = { system = system, name = name, format = text } end
end

local function read(b, out)
  b:take(#MAGIC)
  out.version = b:zero()
  local big = b:u8() == 1
  out.big, b.order = big, big and ">" or "<"
  out.long_size, out.page_size = b:u8(), b:u32()
  b:zero() -- "header_page"
  out.header_page = sized(b)
  b:zero() -- "header_event"
  out.header_event = sized(b)
  for _ = 1, b:u32() do add(out.formats, "ftrace", sized(b)) end
  for _ = 1, b:u32() do
    local system = b:zero()
    for _ = 1, b:u32() do add(out.formats, system, sized(b)) end
  end
  out.kallsyms = b:take(b:u32())
  out.printk = b:take(b:u32())
  if (tonumber(out.version) or 0) >= 0.6 then out.cmdlines = sized(b) end
end

--- What the section says, as far as it can be read.
-- @treturn table  formats (id -> { system, name, format }), big, long_size, page_size, printk, kallsyms, cmdlines
-- @treturn ?string  what is wrong with the rest
function M.read(bytes)
  local out = { formats = {} }
  if bytes:sub(1, #MAGIC) ~= MAGIC then return out, "tracing_data: it does not begin as such data do" end
  local ok, why = pcall(read, Bytes.new(bytes), out)
  if out.long_size ~= 4 and out.long_size ~= 8 then
    return { formats = {} }, "tracing_data: longs are neither of 4 nor of 8 bytes"
  end
  if not ok then return out, "tracing_data: " .. why end
  return out
end

return M
