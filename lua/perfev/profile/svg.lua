--- Draws a static flame graph as SVG: each frame is a rectangle with its name and numbers as its title.
-- Frames narrower than a tenth of a pixel are left out; their callers keep their widths.

local _, this_file = ...
local asset = require "perfev.base.asset"
local calls = require "perfev.profile.call_tree"
local markup = require "perfev.picture.markup"
local palette = require "perfev.picture.palette"
local terminal = require "perfev.picture.terminal"

local WIDTH, MARGIN, HEAD = 1200, 10, 42
local ROW, FONT = 18, 12
local LETTER = FONT * 0.602 -- width of a letter in the monospaced fonts of the style sheet
local MIN_WIDTH = 0.1 -- pixels

local style = asset("perfev/profile/svg.css", this_file)

-- Returns the left edge of each node, in the profile's unit.
local function starts(tree, totals)
  local x, next_at = {}, { [1] = 0 }
  for n, depth in ipairs(tree.depth) do
    x[n] = next_at[depth]
    next_at[depth] = x[n] + math.max(totals[n], 0)
    next_at[depth + 1] = x[n]
  end
  return x
end

local function share(side, n) return side.all ~= 0 and side.total[n] / side.all or 0 end

-- Returns the change of each node's share, or value if `absolute`, scaled to -1…1; nil without a baseline.
local function changes(now, base, absolute)
  if not base then return nil end
  local delta, most = {}, 0
  for n in ipairs(now.total) do
    delta[n] = absolute and now.total[n] - base.total[n] or share(now, n) - share(base, n)
    most = math.max(most, math.abs(delta[n]))
  end
  for n in ipairs(delta) do delta[n] = most > 0 and delta[n] / most or 0 end
  return delta
end

local function title_of(func, now, base, n, value)
  local text = ("%s (%s %s, %s)"):format(terminal.label(func), terminal.number(now.total[n], value.unit), value.name,
    terminal.percent(now.total[n], now.all))
  if not base then return text end
  return ("%s; baseline %s, %s"):format(text, terminal.number(base.total[n], value.unit),
    terminal.percent(base.total[n], base.all))
end

local function rectangle(x, y, width, fill, title, text)
  local fits = math.floor((width - 6) / LETTER)
  local label = fits >= 3 and terminal.cut(text, fits) or ""
  if label ~= "" then label = ('<text x="%.2f" y="%d">%s</text>'):format(x + 3, y + 13, markup(label)) end
  return ('<g><title>%s</title><rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"/>%s</g>\n')
    :format(markup(title), x, y, width, ROW - 1, fill, label)
end

--- @tparam profile profile
-- @tparam table opts  `value`, `baseline`, `absolute`, `inverted` (the outermost function on top)
-- @treturn string
return function(profile, opts)
  local index, value = profile:value(opts.value)
  local tree = calls.build(profile, opts.baseline)
  local now, base = tree.values[index], tree.base and tree.base[index]
  local x, delta = starts(tree, now.total), changes(now, base, opts.absolute)
  local scale = now.all > 0 and (WIDTH - 2 * MARGIN) / now.all or 0
  local drawn, deepest = {}, 0
  for n, total in ipairs(now.total) do
    if total * scale >= MIN_WIDTH then
      drawn[#drawn + 1] = n
      deepest = math.max(deepest, tree.depth[n])
    end
  end
  local height = HEAD + (deepest + 1) * ROW + MARGIN
  local function y_of(depth)
    return opts.inverted and HEAD + depth * ROW or HEAD + (deepest - depth) * ROW
  end
  local title = profile.title or "Flame graph"
  local all = ("%s %s"):format(terminal.number(now.all, value.unit), value.name)
  local out = {
    ('<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d">\n')
      :format(WIDTH, height, WIDTH, height),
    ('<title>%s</title>\n<style>\n%s</style>\n'):format(markup(title), style),
    '<rect class="paper" width="100%" height="100%"/>\n',
    ('<text class="title" x="%d" y="25">%s</text>\n'):format(MARGIN, markup(title)),
    ('<text class="note" x="%d" y="25" text-anchor="end">%s%s</text>\n'):format(WIDTH - MARGIN, markup(all),
      base and "; red: more than baseline, blue: less" or ""),
    rectangle(MARGIN, y_of(0), WIDTH - 2 * MARGIN, "hsl(40,8%,82%)", "all (" .. all .. ")", "all"),
  }
  for _, n in ipairs(drawn) do
    local func = tree.functions[tree.func[n]]
    out[#out + 1] = rectangle(MARGIN + x[n] * scale, y_of(tree.depth[n]), now.total[n] * scale,
      delta and palette.change(delta[n]) or palette.frame(func), title_of(func, now, base, n, value), func.name)
  end
  out[#out + 1] = "</svg>\n"
  return table.concat(out)
end
