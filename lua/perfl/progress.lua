--- The progress line on a terminal while perfl reads a recording.
--
-- The line is redrawn on standard error four times a second and erased before any other output. It is drawn only if
-- standard error is a terminal and standard output is not a pipe: the pipe's reader may use the same terminal.

local core = require "perfev.core"
local native = require "perfl.core"
local message = require "perfl.message"

local M = {}

local MONOTONIC, SECOND = 1, 1000000000
local INTERVAL = SECOND // 4
local ERASE = "\r\27[K"

local is_drawn -- the line is on the terminal
local midline -- the script's last line of output is not ended
local write -- the original write method of files
local began, last_drawn, columns

local function erase()
  if is_drawn then write(io.stderr, ERASE) end
  is_drawn = false
end

-- Replaces the write functions by ones that erase the line first.
local function erase_before_writing()
  local methods = getmetatable(io.stderr).__index
  if not write then write = methods.write end
  methods.write = function(file, ...)
    erase()
    local last = select("#", ...) > 0 and select(-1, ...)
    if file == io.output() and last and last ~= "" then midline = tostring(last):sub(-1) ~= "\n" end
    return write(file, ...)
  end
  io.write = function(...) return io.output():write(...) end -- luacheck: ignore 122
end

local function time_text(seconds)
  if seconds < 100 then return ("%d s"):format(seconds // 1 | 0) end
  return ("%d min"):format((seconds + 30) // 60 | 0)
end

--- The text of the line.
-- @tparam integer bytes    bytes read
-- @tparam integer size     the file's size; 0: unknown, a pipe
-- @tparam integer records  records read
-- @tparam integer ns       time since the start of reading
function M.text(bytes, size, records, ns)
  local rate = message.grouped(records * 1000 // math.max(ns // 1000000, 1))
  if size == 0 then return ("%s, %s records/s"):format(message.size_text(bytes), rate) end
  local part = math.min(bytes / size, 1)
  local left = part > 0 and ns / SECOND * (1 - part) / part or 0
  return ("%d%% of %s, %s records/s, %s left"):format(math.floor(100 * part), message.size_text(size), rate,
    time_text(left))
end

--- Starts the progress line if a terminal can show it.
function M.begin()
  columns = native.terminal(2)
  if not columns or native.is_pipe(1) then return end
  began = core.clock(MONOTONIC)
  last_drawn = began
  erase_before_writing()
end

--- Redraws the line if it is time; called once per wakeup.
-- @tparam session s
function M.update(s)
  if not began or midline then return end
  local now = core.clock(MONOTONIC)
  if now - last_drawn < INTERVAL then return end
  last_drawn = now
  local bytes, size, records = s:_progress()
  if not bytes then return end
  local text = M.text(bytes, size, records, now - began)
  write(io.stderr, "\r", text:sub(1, columns - 1), "\27[K")
  is_drawn = true
end

--- Erases the line for good.
function M.finish()
  if began then erase() end
  began = nil
end

return M
