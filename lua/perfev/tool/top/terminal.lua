--- Takes a terminal for drawing and keys, by stty(1), and restores it.
--
-- A shell waits at the other end of a pipe and restores the terminal when the pipe is closed: when the session ends, or
-- when this process ends in any way, SIGKILL included.

local M = {}

-- $1: the settings of `stty -g`. The shell is in the background if this process was killed: TTOU.
local RESTORE = [[trap '' INT QUIT TERM HUP TSTP TTOU; cat >/dev/null; printf '\033[0m\033[?7h\033[?25h\033[?1049l'
stty %s <&1 2>/dev/null]]

local function stty(words)
  local pipe <close> = assert(io.popen("stty " .. words .. " 2>/dev/null"))
  return pipe:read "l" or ""
end

--- True if standard input and output are a terminal.
function M.is_there() return (os.execute "test -t 0 && test -t 1") == true end

--- Returns the terminal's rows and columns.
function M.size()
  local rows, columns = stty("size"):match "^(%d+) (%d+)$"
  rows, columns = tonumber(rows) or 0, tonumber(columns) or 0
  return rows >= 6 and rows or 24, columns >= 20 and columns or 80
end

--- Returns the number of the terminal's colours: 0, 8 or 256.
function M.colours()
  local name = os.getenv "TERM" or "dumb"
  if (os.getenv "NO_COLOR" or "") ~= "" or name == "dumb" or name:find "^vt%d" or name:find "mono" then return 0 end
  return (name:find "256color" or os.getenv "COLORTERM") and 256 or 8
end

--- Takes the terminal: an empty screen without a cursor; a read returns the keys typed so far. A line with wide
-- characters is cut at the last column, not continued, which would scroll the screen.
-- @treturn function  restores it; can be called again
function M.take()
  local guard = assert(io.popen(RESTORE:format(stty "-g"), "w"))
  stty "-icanon -echo min 0 time 0 susp undef"
  io.stdout:write "\27[?1049h\27[?25l\27[?7l\27[2J"
  return function()
    if not guard then return end
    io.stdout:flush()
    guard:close() -- waits for the shell
    guard = nil
  end
end

return M
