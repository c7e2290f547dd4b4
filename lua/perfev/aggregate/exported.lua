--- The aggregators and profiles of a script that perfl exports: as metrics, on a page, as packs.
-- A follower reads the values of one of them beside the script, which may read and clear it as it likes.

local M = {}

local made = setmetatable({}, { __mode = "v" }) -- by number, in the order of their construction
local facts_of = setmetatable({}, { __mode = "k" }) -- source -> { kind =, columns =, title =, follow = }
local nr_made, is_closed = 0, false

--- Adds what a script has made, until the default session starts.
-- @param source       an aggregator or a profile
-- @tparam table facts  `kind`, `columns` (a list), `title`, `follow` (a function that makes a follower of the source)
function M.add(source, facts)
  if is_closed then return end
  nr_made = nr_made + 1
  made[nr_made], facts_of[source] = source, facts
end

--- The default session starts: what is made from now on is not exported.
function M.close() is_closed = true end

-- A name of a-z, 0-9 and _.
local function slug(text)
  return (text:lower():gsub("[^a-z0-9]+", "_"):gsub("^_+", ""):gsub("_+$", ""))
end

--- The name of an aggregator or profile, from its title or its kind and columns.
-- @tparam table facts  `kind`, `columns`, `title`
function M.name_of(facts)
  local name = slug(facts.title or "")
  if name ~= "" then return name end
  return facts.columns[1] and slug(facts.kind .. "_by_" .. table.concat(facts.columns, "_")) or facts.kind
end

--- What the script made before the default session started, and still has, in the order of construction. A second
-- one of the same name gets _2.
-- @treturn {table,...}  { name =, kind =, source = }: the kind is that of the constructor, or "profile"
function M.list()
  local list, taken = {}, {}
  for i = 1, nr_made do
    local source = made[i]
    if source ~= nil then
      local facts = facts_of[source]
      local base, nr = M.name_of(facts), 1
      local name = base
      while taken[name] do
        nr = nr + 1
        name = base .. "_" .. nr
      end
      taken[name] = true
      list[#list + 1] = { name = name, kind = facts.kind, source = source }
    end
  end
  return list
end

--- Follows an entry of the list; `only_total`: without delta(), which costs the least. The follower's methods:
-- `f:delta()` returns a new aggregator or profile with all values since its last delta, or all so far, those included
-- that the script has cleared. `f:total()` returns one with all values, which the script's clear() does not decrease:
-- the source itself until it is cleared. It is for reading only.
function M.follow(entry, only_total)
  return facts_of[entry.source].follow(entry.source, only_total)
end

return M
