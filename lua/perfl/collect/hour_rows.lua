--- Writes frames as rows below a directory; a message is acknowledged when its rows are on the disk.

local frame_rows = require "perfl.collect.frame_rows"
local hour_files = require "perfl.collect.hour_files"
local message = require "perfl.message"

local M = {}
local Rows = {}
Rows.__index = Rows

local MOST = 1024 -- frames in a batch

--- @treturn[1] table  with the methods of perfl.collect.push
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.open(dir)
  local files, why = hour_files.open(dir)
  if not files then return nil, why end
  return setmetatable({ files = files, acks = {}, written = 0, duplicates = 0, rows = 0 }, Rows)
end

function Rows:room() return MOST - #self.acks end

--- Takes a frame: see perfl.collect.push.
-- @treturn[1] boolean  false: the frame is in a file already
-- @treturn[2] nil
-- @treturn[2] string  the reason
function Rows:take(header, value, _, ack)
  local nr, failure = 0, nil
  local added, why = self.files:add(header, function()
    local one, reason = value()
    if not one then
      failure = reason
      return "", 0
    end
    local text
    text, nr = frame_rows.lines(header, one)
    return text, nr
  end)
  if added == nil then return nil, why end
  if failure then message.say(("collect: a frame of %s has no rows: %s"):format(header.host, failure)) end
  self.acks[#self.acks + 1] = ack
  self.rows = self.rows + nr
  if added then self.written = self.written + 1 else self.duplicates = self.duplicates + 1 end
  return added
end

--- Writes what it took. The caller waits for messages, not this.
function Rows:turn()
  local ok, why = self.files:commit()
  local acks = self.acks
  self.acks = {}
  if not ok then return nil, why end
  return acks
end

function Rows:is_idle() return #self.acks == 0 end

--- The frames of this host, start and name that earlier runs wrote.
function Rows:last_seen(header) return self.files:last_seen(header) end

function Rows:summary()
  return ("%s rows of %s frames written"):format(message.grouped(self.rows), message.grouped(self.written))
end

function Rows:close() self.files:close() end

return M
