--- Reads and writes TRACING_DATA: the formats of a recording's tracepoints, copied from tracefs, and the strings that
-- their print formats use. Source: tools/perf/util/trace-event-info.c.

local Bytes = require "perfev.perfdata.byte_reader"
local core = require "perfev.core"
local tracefs = require "perfev.tracepoint.tracefs"

local M = {}

local MAGIC, VERSION = "\x17\x08\x44tracing", "0.6"
local BIG = string.pack("=I2", 1) == "\0\1"

local function take_sized(b) return b:take(b:u64()) end

-- Adds to formats: id -> { system =, name =, format = }.
local function add_format(formats, system, text)
  local name, id = text:match("^name: (%S+)"), tonumber(text:match("\nID: (%d+)"))
  if name and id then formats[id] = { system = system, name = name, format = text } end
end

local function read_all(b, out)
  b:take(#MAGIC)
  out.version = b:zero()
  local big = b:u8() == 1
  out.big, b.order = big, big and ">" or "<"
  out.long_size, out.page_size = b:u8(), b:u32()
  b:zero() -- "header_page"
  out.header_page = take_sized(b)
  b:zero() -- "header_event"
  out.header_event = take_sized(b)
  for _ = 1, b:u32() do add_format(out.formats, "ftrace", take_sized(b)) end
  for _ = 1, b:u32() do
    local system = b:zero()
    for _ = 1, b:u32() do add_format(out.formats, system, take_sized(b)) end
  end
  out.kallsyms = b:take(b:u32())
  out.printk = b:take(b:u32())
  if (tonumber(out.version) or 0) >= 0.6 then out.cmdlines = take_sized(b) end
end

--- Parses the section, as far as it can be read.
-- @treturn table  formats (id -> { system, name, format }), big, long_size, page_size, printk, kallsyms, cmdlines
-- @treturn ?string  the error in the rest
function M.read(bytes)
  local out = { formats = {} }
  if bytes:sub(1, #MAGIC) ~= MAGIC then return out, "tracing_data: wrong magic bytes" end
  local ok, why = pcall(read_all, Bytes.new(bytes), out)
  if out.long_size ~= 4 and out.long_size ~= 8 then
    return { formats = {} }, "tracing_data: the size of a long is not 4 or 8"
  end
  if not ok then return out, "tracing_data: " .. why end
  return out
end

-- ---- writing ----

-- Returns the size of the kernel's long, which may differ from this program's.
local function kernel_long_size(header_page)
  return tonumber(header_page:match(" commit;[^\n]-size:(%d)")) or string.packsize("l")
end

-- Reads each tracepoint's format once -> list of systems, formats by system
local function read_formats(names)
  local systems, by_system, seen = {}, {}, {}
  for _, full in ipairs(names) do
    local system, name = full:match("^([^:]+):(.+)$")
    local found = system and not seen[full] and tracefs.find(system, name)
    if found and found.format then
      if not by_system[system] then
        by_system[system] = {}
        if system ~= "ftrace" then systems[#systems + 1] = system end
      end
      table.insert(by_system[system], string.pack("=s8", found.format))
      seen[full] = true
    end
  end
  return systems, by_system
end

local function pack_formats(list)
  return string.pack("=I4", #list) .. table.concat(list)
end

-- systems: a list of names; by_system: lists of formats, each with its size.
local function pack_all(data, systems, by_system)
  local out = {
    MAGIC, VERSION, "\0", string.pack("=I1I1I4", BIG and 1 or 0, data.long_size, data.page_size),
    "header_page\0", string.pack("=s8", data.header_page), "header_event\0", string.pack("=s8", data.header_event),
    pack_formats(by_system.ftrace or {}), string.pack("=I4", #systems),
  }
  for _, system in ipairs(systems) do
    out[#out + 1] = system .. "\0" .. pack_formats(by_system[system])
  end
  out[#out + 1] = string.pack("=s4s4s8", data.kallsyms, data.printk, data.cmdlines)
  return table.concat(out)
end

--- Packs what `read` returned, on a machine of the same byte order.
-- @tparam table data
-- @treturn string
function M.encode(data)
  local ids, systems, by_system = {}, {}, {}
  for id in pairs(data.formats) do ids[#ids + 1] = id end
  table.sort(ids)
  for _, id in ipairs(ids) do
    local system = data.formats[id].system
    if not by_system[system] then
      by_system[system] = {}
      if system ~= "ftrace" then systems[#systems + 1] = system end
    end
    table.insert(by_system[system], string.pack("=s8", data.formats[id].format))
  end
  return pack_all(setmetatable({}, { __index = function(_, key) return data[key] or "" end }), systems, by_system)
end

--- Packs the section with which any machine can read and print the payloads of these tracepoints.
-- It has no kernel symbols, and perf writes none either (6.1: 0 bytes): readers name addresses by the kernel's map
-- and build id. A tracepoint that no longer exists is left out; its samples have only bytes.
-- @tparam {string,...} names  "sched:sched_switch"
-- @treturn[1] string
-- @treturn[2] nil             tracefs cannot be read
-- @treturn[2] string          the cause
-- @treturn[2] integer         errno
function M.write(names)
  local events, why, code = tracefs.events()
  if not events then return nil, why, code end
  local root = events:gsub("/events$", "")
  local systems, by_system = read_formats(names)
  local page = core.slurp(events .. "/header_page") or ""
  return pack_all({
    long_size = kernel_long_size(page), page_size = core.pagesize(), header_page = page,
    header_event = core.slurp(events .. "/header_event") or "", kallsyms = "",
    printk = core.slurp(root .. "/printk_formats") or "", cmdlines = core.slurp(root .. "/saved_cmdlines") or "",
  }, systems, by_system)
end

return M
