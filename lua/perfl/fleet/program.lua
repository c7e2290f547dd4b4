--- Runs a short program to its end, without a shell.

local core = require "perfev.core"
local real = require("perfev").hooks.real
local service = require("perfev.base.lazy_module") "perfev.service"

local M = {}

local PIECE, TEXT_MAX, PAUSE_MS = 4096, 64 << 10, 1000
local EPOLLIN, ADD = 1, 1

-- Reads what is there; false: the other end is closed.
local function read_some(fd, parts)
  while true do
    local bytes, code = real.read(fd, PIECE)
    if not bytes then return code == core.errno.EAGAIN end
    if bytes == "" then return false end
    parts.length = parts.length + #bytes
    if parts.length <= TEXT_MAX then parts[#parts + 1] = bytes end
  end
end

local function read_all(fds)
  local epoll, texts = assert(real.epoll_create()), {}
  local open = {}
  for name, fd in pairs(fds) do
    texts[name], open[name] = { length = 0 }, fd
    real.epoll_ctl(epoll, ADD, fd, EPOLLIN, fd)
  end
  while next(open) do
    real.epoll_wait(epoll, 2, PAUSE_MS)
    for name, fd in pairs(open) do
      if not read_some(fd, texts[name]) then
        real.close(fd)
        open[name] = nil
      end
    end
  end
  real.close(epoll)
  return table.concat(texts.out), table.concat(texts.err)
end

--- @tparam {string,...} words  the program, found in PATH, and its arguments
-- @tparam ?string input     a file for its standard input
-- @treturn boolean          true if its exit status is 0
-- @treturn string           standard output, at most 64 KiB
-- @treturn string           standard error, or why it cannot be run
function M.run(words, input)
  local started, why = service.start(words, input)
  if not started then return false, "", why end
  local out, err = read_all { out = started.out, err = started.err }
  return real.wait(started.pid, 1) == 0, out, err
end

return M
