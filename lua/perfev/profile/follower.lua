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

-- Adds what has changed since the last call to the unread values. If memory runs out it raises, and the next call adds
-- them: nothing is allocated after the merge.
local function read_on(self)
  local profile, types = self.profile, same_types(self.profile)
  profile:resolve()
  local unread = self.unread or profile:_empty_like()
  self.unread = unread
  unread.stack_tree:merge(profile.stack_tree, types, false, self.seen)
  if profile.duration then
    unread.merged_duration = unread.merged_duration + profile.duration - self.seen_duration
    unread.duration = unread.merged_duration
  end
  self.seen_duration = profile.duration or 0
  return unread
end

--- Makes a follower. Its first delta has all values.
-- @tparam profile profile
-- @tparam boolean keeps_cleared  p:clear() does not remove what it has not read; not for p:delta()
-- @tparam[opt] boolean only_total  without delta(): it keeps no unread values
function M.new(profile, keeps_cleared, only_total)
  local self = setmetatable({ profile = profile, keeps_cleared = keeps_cleared, only_total = only_total or false,
    seen = core.stack_tree_seen(), seen_duration = 0, unread = false }, Follower)
  if keeps_cleared and not only_total and profile.total_follower then
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
  if self.only_total then error("follower: it has no delta", 2) end
  local delta = read_on(self)
  self.unread = false
  return delta
end

--- A profile with all values, those that the script has cleared, too; for reading only.
function Follower:total()
  local follower = self.profile.total_follower
  if follower then return read_on(follower) end
  self.profile:resolve()
  return self.profile
end

-- The sums over all stacks, a number for each value type, and those that p:clear() has removed. Looks up no names.
local function sums_of(profile)
  local sums, removed = {}, profile.removed_sums
  for i = 1, #profile.values do sums[i] = profile:total(i) + (removed and removed[i] or 0) end
  return sums
end

--- The sums over all stacks, a number for each value type, those included that the script has cleared.
-- @treturn {number,...}
function Follower:sums() return sums_of(self.profile) end

--- The script clears the profile: its followers read what they keep. Raises without memory; then nothing was cleared.
-- @treturn function  called when the profile is empty: the followers have seen nothing of it. Allocates nothing
function M.prepare_clear(profile)
  local followers, seen, keepers = {}, {}, 0
  for _, follower in pairs(profile.followers) do
    followers[#followers + 1] = follower
    if follower.keeps_cleared then keepers = keepers + 1 end
  end
  if keepers > 0 and not profile.total_follower then
    profile.total_follower = M.new(profile, true)
    followers[#followers + 1] = profile.total_follower
  end
  for i, follower in ipairs(followers) do
    seen[i] = core.stack_tree_seen()
    if follower.keeps_cleared and not follower.only_total then read_on(follower) end
  end
  local removed = keepers > 0 and sums_of(profile)
  return function()
    if removed then profile.removed_sums = removed end
    for i, follower in ipairs(followers) do
      if not follower.keeps_cleared then follower.unread = false end
      follower.seen, follower.seen_duration = seen[i], 0
    end
  end
end

return M
