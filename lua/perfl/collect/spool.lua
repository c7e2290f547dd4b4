--- Frames that wait on disk for a store that does not answer: a directory with a file for each, up to a size.

local core = require "perfev.core"
local durable = require("perfev.base.lazy_module") "perfev.durable_file"

local M = {}
local Spool = {}
Spool.__index = Spool

local function read(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local bytes = file:read "a"
  file:close()
  return bytes
end

--- Opens a spool; only one process may use it. Files that a crash left half written are removed.
-- @tparam string dir
-- @tparam integer most  bytes
-- @treturn[1] spool
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.open(dir, most)
  local ok, why = durable.make_directory(dir)
  if not ok then return nil, why end
  local lock
  lock, why = durable.open(dir .. "/.lock")
  if not lock then return nil, why end
  ok, why = lock:lock()
  if not ok then return nil, "another perfl collect uses it (" .. why .. ")" end
  local self = setmetatable({ dir = dir, most = most, lock = lock, bytes = 0, names = {}, first = 1, new = {},
                              next = 1 }, Spool)
  local names = core.list(dir) or {}
  table.sort(names)
  for _, name in ipairs(names) do
    local number = name:match "^(%d+)%.frame$"
    if number then
      local bytes = read(dir .. "/" .. name)
      self.names[#self.names + 1] = { name = name, size = bytes and #bytes or 0 }
      self.bytes, self.next = self.bytes + (bytes and #bytes or 0), tonumber(number) + 1
    elseif name:find "%.new$" then
      durable.remove(dir .. "/" .. name)
    end
  end
  return self
end

--- Adds a frame; it is safe after commit().
-- @treturn[1] boolean  false: the spool is full
-- @treturn[2] nil
-- @treturn[2] string   the reason
function Spool:add(bytes)
  if self.bytes + #bytes > self.most then return false end
  local name = ("%012d.frame"):format(self.next)
  local file <close>, why = durable.open(self.dir .. "/" .. name .. ".new")
  if not file then return nil, why end
  local ok, failure = file:append(bytes)
  if not ok then return nil, failure end
  self.next, self.bytes = self.next + 1, self.bytes + #bytes
  self.new[#self.new + 1] = { name = name, size = #bytes }
  return true
end

--- Makes the added frames safe.
function Spool:commit()
  if #self.new == 0 then return true end
  local ok, why = durable.sync_file_system(self.dir)
  if not ok then return nil, why end
  for _, one in ipairs(self.new) do
    local path = self.dir .. "/" .. one.name
    ok, why = durable.rename(path .. ".new", path)
    if not ok then return nil, why end
    self.names[#self.names + 1] = one
  end
  self.new = {}
  return durable.sync_file_system(self.dir)
end

--- The bytes of the oldest frame that was not taken, and its name for remove(); nil if there is none.
function Spool:take()
  while self.names[self.first] do
    local one = self.names[self.first]
    self.names[self.first], self.first = false, self.first + 1
    local bytes = read(self.dir .. "/" .. one.name)
    if bytes then return bytes, one end
    self.bytes = self.bytes - one.size -- somebody removed it
  end
end

--- Removes a frame that was taken.
function Spool:remove(one)
  self.bytes = self.bytes - one.size
  return durable.remove(self.dir .. "/" .. one.name)
end

--- True if there are frames to take.
function Spool:waits() return self.names[self.first] ~= nil end

function Spool:close() self.lock:close() end

return M
