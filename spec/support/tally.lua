-- tally.lua - busted's output for this tree: dots, then every failure in full, skipped specs
-- grouped by reason, and a summary line that programs can read.
-- With TALLY=FILE in the environment the summary line is also appended to FILE.
--
-- This module exits in place of busted's runner, so that a run without tests fails and an exit
-- status never wraps to 0.

local busted = require "busted"
local base = require "busted.outputHandlers.base"
local pretty = require "pl.pretty"

local function say(...)
  io.write(string.format(...), "\n")
end

local function text_of(message)
  if type(message) == "string" then return message end
  if message == nil then return "no message" end
  local raised_table = getmetatable(message) and getmetatable(message).__tostring
  return raised_table and tostring(message) or pretty.write(message)
end

local function place(entry)
  local trace = entry.element.trace or entry.trace
  if not trace or not trace.short_src then return "" end
  return string.format(" (%s:%d)", trace.short_src, trace.currentline)
end

local function show_failure(kind, entry)
  say("\n%s: %s%s", kind, entry.name, place(entry))
  say("%s", text_of(entry.message))
  local traceback = entry.trace and entry.trace.traceback
  if entry.isError and traceback then say("%s", traceback) end
end

local function show_skipped(pendings)
  local reasons, by_reason = {}, {}
  for _, entry in ipairs(pendings) do
    local reason = type(entry.message) == "string" and entry.message or "no reason given"
    reason = reason:gsub("^[^:\n]+:%d+: ", "")
    if not by_reason[reason] then
      by_reason[reason] = {}
      reasons[#reasons + 1] = reason
    end
    table.insert(by_reason[reason], entry.name)
  end
  table.sort(reasons)
  for _, reason in ipairs(reasons) do
    say("\nskipped: %s", reason)
    for _, name in ipairs(by_reason[reason]) do say("  %s", name) end
  end
end

local function append(path, line)
  local file = assert(io.open(path, "a"))
  assert(file:write(line, "\n"))
  assert(file:close())
end

local marks = { success = "+", pending = ".", failure = "-", error = "*" }

return function()
  local handler = base()
  local sound = true

  local function mark(status)
    io.write(marks[status] or "?")
    io.flush()
    return nil, true
  end

  local function suite_end()
    io.write("\n")
    show_skipped(handler.pendings)
    for _, entry in ipairs(handler.failures) do show_failure("FAILED", entry) end
    for _, entry in ipairs(handler.errors) do show_failure("ERROR", entry) end

    local failed = handler.failuresCount + handler.errorsCount
    if handler.successesCount + failed + handler.pendingsCount == 0 then
      say("\nFAILED: no test was run")
      failed = 1
    end
    sound = sound and failed == 0
    local line = string.format("%d passed, %d failed, %d skipped",
      handler.successesCount, failed, handler.pendingsCount)
    say("\n%.1f s\n%s", handler.getDuration(), line)
    local path = os.getenv "TALLY"
    if path then append(path, line) end
    return nil, true
  end

  busted.subscribe({ "test", "end" }, function(_, _, status) return mark(status) end)
  for _, what in ipairs { "file", "describe" } do
    busted.subscribe({ "error", what }, function() return mark "error" end)
    busted.subscribe({ "failure", what }, function() return mark "error" end)
  end
  busted.subscribe({ "suite", "end" }, suite_end)
  busted.subscribe({ "exit" }, function()
    io.flush()
    os.exit(sound, true)
  end)
  return handler
end
