--- An interactive flame graph: one HTML file with all in it, which asks no network for anything.
--
-- The frames are drawn on a canvas, only those that are at least half a pixel wide, so that a hundred
-- thousand cost no more than what can be seen. Names are JSON in a script element that is no script: a "<" in
-- them is written as \u003c, so that none can end it, and the page puts them in as text and never as markup.

local calls = require "perfev.profile.calls"
local json = require "perfev.json"
local markup = require "perfev.profile.markup"

local KINDS = { user = 0, inlined = 1, kernel = 2, unknown = 3 }

local function data_of(profile, baseline)
  local tree = calls.build(profile, baseline)
  local functions, own, base = {}, {}, baseline and {} or nil
  for i, func in ipairs(tree.functions) do
    functions[i] = { func.name, func.module or "", KINDS[func.kind], func.shade }
  end
  for i, side in ipairs(tree.values) do own[i] = side.own end
  for i, side in ipairs(tree.base or {}) do base[i] = side.own end
  return { title = profile.title, values = profile.values, functions = functions, func = tree.func,
    depth = tree.depth, own = own, base = base }
end

local page = [==[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline';
 style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>$TITLE</title>
<style>
$STYLE</style>
</head>
<body>
$BODY<script type="application/json" id="profile">$DATA</script>
<script>
$SCRIPT</script>
</body>
</html>
]==]

--- @tparam profile profile
-- @tparam table opts  `baseline`: a profile; colours then tell what is more and less than in it
-- @treturn string
return function(profile, opts)
  local parts = require "perfev.profile.page"
  local data = json.encode(data_of(profile, opts.baseline)):gsub("<", "\\u003c")
  local fill = { TITLE = markup(profile.title or "Flame graph"), STYLE = parts.style, BODY = parts.body, DATA = data,
    SCRIPT = parts.script }
  return (page:gsub("%$(%u+)", fill))
end
