--- How far the reading of a recording has come, on a terminal.
--
-- A line on standard error that is drawn again a few times a second and wiped before anything else is
-- written. Only where standard error is a terminal, and standard output no pipe: what reads that may
-- have the same terminal for its own.

local core = require "perfev.core"
local native = require "perfl.core"
local report = require "perfl.message"

local M = {}

local MONOTONIC, SECOND = 1, 1000000000
local EVERY = SECOND // 4
local WIPE = "\r\27[K"

local shown, midline, write -- a line is on the terminal; the script's last one is not ended; the method of files
local began, looked, columns

local function wipe()
  if shown then write(io.stderr, WIPE) end
  shown = false
end

-- From here on, nothing is written beside the line.
local function guard_writing()
  local methods = getmetatable(io.stderr).__index
  if not write then write = methods.write end
  methods.write = function(file, ...)
    wipe()
    local last = select("#", ...) > 0 and select(-1, ...)
    if file == io.output() and last and last ~= "" then midline = tostring(last):sub(-1) ~= "\n" end
    return write(file, ...)
  end
  io.write = function(...) return io.output():write(...) end -- luacheck: ignore 122
end

local function size_text(bytes)
  if bytes < 10 << 20 then return ("%d KiB"):format(bytes >> 10) end
  return ("%d MiB"):format(bytes >> 20)
end

local function time_text(seconds)
  if seconds < 100 then return ("%d s"):format(seconds // 1 | 0) end
  return ("%d min"):format((seconds + 30) // 60 | 0)
end

--- What the line says.
-- @tparam integer bytes    read
-- @tparam integer size     of the file; 0: a pipe, nobody knows
-- @tparam integer records  read
-- @tparam integer ns       since the beginning
function M.text(bytes, size, records, ns)
  local rate = report.grouped(records * 1000 // math.max(ns // 1000000, 1))
  if size == 0 then return ("%s, %s records/s"):format(size_text(bytes), rate) end
  local part = math.min(bytes / size, 1)
  local left = part > 0 and ns / SECOND * (1 - part) / part or 0
  return ("%d%% of %s, %s records/s, %s left"):format(math.floor(100 * part), size_text(size), rate, time_text(left))
end

--- Begin, where there is a terminal for it.
function M.begin()
  columns = native.terminal(2)
  if not columns or native.is_pipe(1) then return end
  began = core.clock(MONOTONIC)
  looked = began
  guard_writing()
end

--- Draw, if it is time; to be called often.
-- @tparam session s
function M.look(s)
  if not began or midline then return end
  local now = core.clock(MONOTONIC)
  if now - looked < EVERY then return end
  looked = now
  local bytes, size, records = s:_progress()
  if not bytes then return end
  local text = M.text(bytes, size, records, now - began)
  write(io.stderr, "\r", text:sub(1, columns - 1), "\27[K")
  shown = true
end

--- The end: nothing is left of it.
function M.finish()
  if began then wipe() end
  began = nil
end

return M
