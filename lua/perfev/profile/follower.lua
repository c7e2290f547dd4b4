--- Followers of a profile: each reads the values since it read last. p:delta() has one, and each exporter its own.
-- A follower remembers the sums that it has seen of each stack, so that samples cost nothing more.

local core = require "perfev.core"

local M = {}
local Follower = {}
Follower.__index = Follower

-- The numbers of the value types, for a tree with the same.
local function same_types(profile)
  local types = {}
  for i = 1, #profile.values do types[i] = i end
  return types
end

-- Adds what has changed since the last call to the unread values. Raises without memory: nothing has changed.
local function read_on(self)
  local profile = self.profile
  profile:resolve()
  local unread = self.unread or profile:_empty_like()
  unread.stack_tree:merge(profile.stack_tree, same_types(profile), false, self.seen)
  if profile.duration then
    unread.duration = (unread.duration or 0) + profile.duration - self.seen_duration
    unread.merged_duration = unread.duration
  end
  self.seen_duration, self.unread = profile.duration or 0, unread
  return unread
end

local function see_nothing(self)
  self.seen, self.seen_duration = core.stack_tree_seen(), 0
end

--- Makes a follower. Its first delta has all values.
-- @tparam profile profile
-- @tparam boolean keeps_cleared  p:clear() does not remove what it has not read; not for p:delta()
function M.new(profile, keeps_cleared)
  local self = setmetatable({ profile = profile, keeps_cleared = keeps_cleared }, Follower)
  see_nothing(self)
  if keeps_cleared and profile.total_follower then
    -- It sees the present values, and gets them with those that were removed.
    read_on(self)
    self.unread = profile:_empty_like()
    self.unread:merge(read_on(profile.total_follower))
  end
  table.insert(profile.followers, self)
  return self
end

--- A new profile with the values since the last call, or all.
function Follower:delta()
  local delta = read_on(self)
  self.unread = nil
  return delta
end

--- A profile with all values, those that the script has cleared, too; for reading only.
function Follower:total()
  local follower = self.profile.total_follower
  if follower then return read_on(follower) end
  self.profile:resolve()
  return self.profile
end

--- The script clears the profile: its followers keep what they have not read. Raises without memory, before the
-- profile is cleared.
function M.clear(profile)
  local followers, keepers = {}, 0
  for _, follower in pairs(profile.followers) do
    followers[#followers + 1] = follower
    if follower.keeps_cleared then keepers = keepers + 1 end
  end
  if keepers > 0 and not profile.total_follower then
    profile.total_follower = M.new(profile, true)
    table.insert(followers, profile.total_follower)
  end
  for _, follower in ipairs(followers) do
    if follower.keeps_cleared then read_on(follower) end
  end
  for _, follower in ipairs(followers) do
    if not follower.keeps_cleared then follower.unread = nil end
    see_nothing(follower)
  end
end

return M
