--- perfl's own messages on standard error, with unsafe bytes escaped: errors, tracebacks, the summary line.

local escape = require "perfev.base.escape"
local options = require "perfev.base.options"
local memory_shortage = require "perfev.base.memory_shortage"

local M = {}

-- A line below the first, indented; the lines of a traceback (after a tab) are indented further.
local function indent_line(line)
  local lead, text = line:match("^(%s*)(.*)$")
  return (lead:find("\t") and "    " or #lead > 2 and lead .. "  " or "  ") .. escape(text)
end

--- Folds words into lines of at most 78 columns, because `say` indents them by two; further lines begin below the
-- first word.
-- @tparam string lead  the text before the first word
-- @tparam {string,...} words
-- @treturn string
function M.fold(lead, words)
  local lines, indent = { lead }, (" "):rep(#lead)
  for _, word in ipairs(words) do
    if #lines[#lines] + 1 + #word > 78 then lines[#lines + 1] = indent end
    lines[#lines] = lines[#lines] .. " " .. word
  end
  return table.concat(lines, "\n")
end

--- Words quoted for a shell.
-- @tparam {string,...} words
-- @treturn string
function M.shell(words)
  local out = {}
  for i, word in ipairs(words) do
    out[i] = word:find "^[%w/._+@%%:=,-]+$" and word or "'" .. escape(word):gsub("'", "'\\''") .. "'"
  end
  return table.concat(out, " ")
end

--- Prints a message: the first line after "perfl: ", the others indented below it.
function M.say(text)
  local lines = {}
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    if line:find("%S") then lines[#lines + 1] = #lines == 0 and escape(line) or indent_line(line) end
  end
  io.stderr:write("perfl: ", table.concat(lines, "\n"), "\n")
end

--- A usage error; adds "try: ... --help" if the text has no remedy.
-- @tparam string text
-- @tparam string help  the command with a help text: "perfl", "perfl record"
-- @treturn string
function M.with_help(text, help)
  return text:find("\n%s*try: ") and text or ("%s\ntry: %s --help"):format(text, help)
end

--- Prints a system call on a line of its own.
function M.trace(text)
  io.stderr:write(escape(text), "\n")
end

-- Frames of perfl and the library: of no use to the script's author.
local own_frames = {
  "^%s+lua/perfl/", "^%s+lua/perfev/", "^%s+%[C%]: in method 'dispatch'", "^%s+%[C%]: in function 'perfev",
  "^%s+%[C%]: in upvalue 'protect'", "^%s+%[C%]: in field 'protect'", "^%s+%(%.%.%.tail calls%.%.%.%)",
}

local function is_own_frame(line)
  for _, pattern in ipairs(own_frames) do
    if line:find(pattern) then return true end
  end
  return false
end

-- Removes the library's frames above the script's frame: the library checked an argument and blamed the script's line.
local function drop_checking_frames(lines)
  if lines[1]:find("^lua/perf") then return end
  local first = 1
  while lines[first] and lines[first] ~= "stack traceback:" do first = first + 1 end
  local script_frame, is_library = first + 1, false
  while lines[script_frame] and (is_own_frame(lines[script_frame]) or lines[script_frame]:find("^%s+%[C%]: ")) do
    is_library = is_library or lines[script_frame]:find("^%s+lua/perf") ~= nil
    script_frame = script_frame + 1
  end
  if is_library and lines[script_frame] then
    table.move(lines, script_frame, #lines + script_frame - first, first + 1)
  end
end

--- A traceback without the frames of perfl and the library above and below the script's frames.
function M.trimmed(text)
  text = text:gsub("\n%s+%[C%]: in function 'xpcall'.*$", "")
  local lines = {}
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  while #lines > 1 and is_own_frame(lines[#lines]) do lines[#lines] = nil end
  drop_checking_frames(lines)
  return table.concat(lines, "\n")
end

local SHOWN = 10 -- fields printed of an error object

local function shown_field(value)
  if type(value) == "string" then return '"' .. escape(value) .. '"' end
  if type(value) == "table" then return "{...}" end
  return (type(value) == "number" or type(value) == "boolean") and tostring(value) or "a " .. type(value)
end

-- { code = 5, where = "here" }: its own fields, by name; none of its metamethods is called.
local function shown_fields(object)
  local out = {}
  for key, value in next, object do
    local name = type(key) == "string" and key:find "^[%a_][%w_]*$" and key or ("[%s]"):format(shown_field(key))
    out[#out + 1] = ("%s = %s"):format(name, shown_field(value))
  end
  table.sort(out)
  if #out > SHOWN then out[SHOWN + 1] = "..." end
  return #out == 0 and "{}" or ("{ %s }"):format(table.concat(out, ", ", 1, math.min(#out, SHOWN + 1)))
end

--- An error object as text.
-- @param object
-- @treturn string
function M.shown(object)
  if type(object) == "string" then return object end
  local ok, text = pcall(tostring, object)
  local has_tostring = ok and not text:find(("%p"):format(object), 1, true) -- else Lua's "table: 0x..."
  if has_tostring and (type(object) == "table" or type(object) == "userdata" or type(object) == "number") then
    return text
  end
  if type(object) == "table" then return shown_fields(object) end
  return ("(the error object is a %s value)"):format(type(object))
end

--- xpcall's handler: the message with a traceback; an M.Leave object is passed through.
function M.traceback(object)
  if type(object) == "table" and getmetatable(object) == M.Leave then return object end
  return debug.traceback(M.shown(object), 2)
end

--- Raised to end perfl from inside a script: { status = n }.
M.Leave = { __name = "perfl.leave" }

--- 1234567 -> "1,234,567"
function M.grouped(n)
  local text = ("%d"):format(n)
  local lead = (#text - 1) % 3 + 1
  return text:sub(1, lead) .. text:sub(lead + 1):gsub("%d%d%d", ",%0")
end

--- 1234567 -> "1205.6 KiB"
function M.size_text(bytes)
  if bytes < 10240 then return M.grouped(bytes) .. " bytes" end
  if bytes < 10 << 20 then return ("%.1f KiB"):format(bytes / 1024) end
  return ("%.1f MiB"):format(bytes / (1 << 20))
end

local function larger_ring(totals)
  local now = totals.ring_bytes or 0
  return now > 0 and ("a larger ring (-m %s; now %s)"):format(options.size_text(now * 4), options.size_text(now))
    or "a larger ring (-m)"
end

-- Names the usual cause: a ring that is three quarters full is read at once, though other rings may still hold older
-- records. The others are a half full AUX area, and a kernel that takes longer than PEV_GAP_NS to write a record.
local function late_line(totals)
  return ("late records arrived after newer ones: a ring that is three quarters full is read before its turn\n"
    .. "try: %s"):format(larger_ring(totals))
end

-- Half of --max-memory is for records that wait.
local function more_waiting(totals)
  local now = 1 << 20
  while now < totals.moved_peak do now = 2 * now end
  return ("more memory for waiting records (--max-memory %s; now half of %s)"):format(
    options.size_text(4 * now), options.size_text(2 * now))
end

local function lost_line(totals)
  local is_memory = 2 * (totals.lost_waiting or 0) > totals.lost
  return ("records were lost because they arrived faster than the script processed them%s\ntry: %s, %s"):format(
    is_memory and ", and filled the memory where they wait" or "",
    is_memory and more_waiting(totals) or larger_ring(totals), "a filter or fewer events, or less work per record")
end

--- The cause and the remedy for records lost while recording.
function M.lost(totals)
  local now = totals.ring_bytes or 0
  return ("records were lost because they arrived faster than they were written\ntry: a larger ring (-m %s; now %s), "
    .. "a lower frequency (-F), or fewer events"):format(options.size_text(now * 4), options.size_text(now))
end

local LOST_WHEN_RECORDED = "records were lost when they were recorded\ntry: perf record with larger rings (-m)"

-- Counters that should be zero, the most important first: field, plural, singular.
local faults = {
  { "callback_errors", "failed callbacks", "failed callback" },
  { "lost_own", "side-band records lost, so that names may be missing",
    "side-band record lost, so that names may be missing" },
  { "lost_samples", "samples lost by the hardware", "sample lost by the hardware" },
  { "unjoined", "call chains without their user part", "call chain without its user part" },
  { "throttled", "times throttled by the kernel", "time throttled by the kernel" },
  { "unknown_id", "records of unknown events (their ids are damaged)",
    "record of an unknown event (its id is damaged)" },
  { "malformed", "malformed records", "malformed record" },
  { "corrupt", "corrupt rings", "corrupt ring" },
}

local MANY = 10000 -- records; the time of a run with fewer is mostly its start

-- CPU time in seconds, and per record if there were many.
local function cost_text(records, cpu_time)
  local text = ("%.3f s of CPU"):format(cpu_time)
  if records < MANY then return text end
  return ("%s (%s ns a record)"):format(text, M.grouped(cpu_time * 1e9 / records // 1 | 0))
end

--- The counters of `faults` that are not zero, in a line, or nil.
function M.faults(totals)
  local also = {}
  for _, fault in ipairs(faults) do
    local n = totals[fault[1]] or 0
    if n > 0 then also[#also + 1] = ("%s %s"):format(M.grouped(n), n == 1 and fault[3] or fault[2]) end
  end
  return #also > 0 and table.concat(also, ", ") or nil
end

--- The message about data that did not fit in --max-memory, or nil.
-- @tparam table totals     s:totals()
-- @tparam integer unnamed  stacks without memory for their symbol names
function M.beyond_memory(totals, unnamed)
  local parts, refused = {}, totals.beyond_memory or 0
  if refused > 0 then
    parts[1] = ("%s stack%s or key%s"):format(M.grouped(refused), refused == 1 and "" or "s",
      refused == 1 and "" or "s")
  end
  if unnamed > 0 then
    parts[#parts + 1] = ("the names of %s stack%s"):format(M.grouped(unnamed), unnamed == 1 and "" or "s")
  end
  if #parts == 0 then return nil end
  if memory_shortage.any or (totals.no_memory or 0) > 0 then
    return ("no memory for %s: they are counted as (other)\ntry: fewer events, a lower frequency (-F), or "
      .. "more memory (ulimit -v)"):format(table.concat(parts, " and "))
  end
  local bytes = options.MAX_BYTES
  return ("%s did not fit in --max-memory %s: they are counted as (other)\ntry: --max-memory %s")
    :format(table.concat(parts, " and "), options.size_text(bytes), options.size_text(4 * bytes))
end

--- The message about tasks that did not fit in --max-memory, or nil.
function M.unknown_tasks(totals)
  local nr, bytes = totals.unknown_tasks or 0, options.MAX_BYTES
  if nr == 0 then return nil end
  return ("%s record%s of new tasks did not fit in --max-memory %s: these tasks have no names\ntry: --max-memory %s")
    :format(M.grouped(nr), nr == 1 and "" or "s", options.size_text(bytes), options.size_text(4 * bytes))
end

--- The summary line and those after it.
-- @tparam table totals     s:totals()
-- @tparam number cpu_time  seconds
-- @tparam ?string input    the recording that was read
-- @treturn {string,...}
function M.summary_lines(totals, cpu_time, input)
  local lines = { ("%s records, %s lost, %s late, %s"):format(M.grouped(totals.delivered),
    M.grouped(totals.lost), M.grouped(totals.late), cost_text(totals.delivered, cpu_time)) }
  if totals.lost > 0 then lines[#lines + 1] = input and LOST_WHEN_RECORDED or lost_line(totals) end
  if totals.late > 0 and totals.lost == 0 and not input then lines[#lines + 1] = late_line(totals) end
  lines[#lines + 1] = M.faults(totals)
  return lines
end

return M
