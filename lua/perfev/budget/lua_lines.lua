--- The line of Lua that runs at each time, from a debug hook: names the lines that make system calls.

local core = require "perfev.core"

local M = {}

local MONOTONIC = 1
local MOST = 1 << 20 -- lines; later ones are not kept

local clock, getinfo = core.clock, debug.getinfo

--- Starts to note the lines of the calling coroutine.
-- @treturn table  for stop() and place_at()
function M.start()
  local self = { n = 0, times = {}, places = {}, before = table.pack(debug.gethook()) }
  debug.sethook(function(what)
    if self.n == MOST then return end
    -- On a return the caller continues its line.
    local info = getinfo(what == "line" and 2 or 3, "Sl")
    if not info or info.currentline < 0 then return end
    local n = self.n + 1
    self.times[n], self.places[n], self.n = clock(MONOTONIC), info.short_src .. ":" .. info.currentline, n
  end, "lr")
  return self
end

--- Restores the hook of before.
function M.stop(self)
  debug.sethook(table.unpack(self.before, 1, self.before.n))
end

--- The line that ran at a time. The times of the calls grow.
-- @tparam integer time  ns, of CLOCK_MONOTONIC
-- @treturn ?string      "file.lua:12"
function M.place_at(self, time)
  local i = self.at or 0
  while i < self.n and self.times[i + 1] <= time do i = i + 1 end
  self.at = i
  return self.places[i]
end

return M
