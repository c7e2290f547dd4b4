--- An interactive flame graph: one HTML file that loads nothing from a network.
--
-- The page draws on a canvas, and only frames of at least half a pixel, so that a hundred thousand frames cost no
-- more than the visible ones. The profile is JSON in a script element of another type: "<" in a name is written as
-- \u003c, so that no name ends the element. The page inserts names as text, never as markup.

local _, this_file = ...
local asset = require "perfev.base.asset"
local calls = require "perfev.profile.call_tree"
local json = require "perfev.base.json"
local markup = require "perfev.picture.markup"

local function data_of(profile, baseline, absolute)
  local tree = calls.build(profile, baseline)
  local own, base = {}, baseline and {} or nil
  for i, side in ipairs(tree.values) do own[i] = side.own end
  for i, side in ipairs(tree.base or {}) do base[i] = side.own end
  return { title = profile.title, values = profile.values, functions = calls.function_rows(tree), func = tree.func,
    depth = tree.depth, own = own, base = base, absolute = absolute }
end

local function part(name) return asset("perfev/profile/html/" .. name, this_file) end

--- @tparam profile profile
-- @tparam table opts  `baseline`: a profile; colours then show more and less than in it; `absolute`: of the values
--                    `above`: markup above the graph; `style`: the style sheet of that markup
-- @treturn string
return function(profile, opts)
  local data = json.encode(data_of(profile, opts.baseline, opts.absolute)):gsub("<", "\\u003c")
  local fill = { TITLE = markup(profile.title or "Flame graph"), STYLE = part "flamegraph.css" .. (opts.style or ""),
    DATA = data, SCRIPT = part "flamegraph.js", VIEW = part "frame_view.html", ABOVE = opts.above or "" }
  return (part "flamegraph.html":gsub("%$(%u+)", fill))
end
