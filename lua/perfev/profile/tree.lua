--- The call tree as text for a terminal: who called whom, from the outermost function inwards.
-- A function that alone goes on with its caller's work stands straight below it, so that depth does not
-- eat the line; what has less than `least` per cent is left out, and told where it adds up to as much.

local calls = require "perfev.profile.calls"
local terminal = require "perfev.profile.terminal"

-- The children of n that are worth a line, the largest first, and what the others have together.
local function shown_children(tree, side, n, least)
  local list, left, total = {}, 0, 0
  local c, stop = n + 1, n == 0 and #tree.func or tree.last[n]
  while c <= stop do
    if math.abs(side.total[c]) >= least and side.total[c] ~= 0 then
      list[#list + 1] = c
    elseif side.total[c] ~= 0 then
      left, total = left + 1, total + side.total[c]
    end
    c = tree.last[c] + 1
  end
  table.sort(list, function(a, b)
    local x, y = math.abs(side.total[a]), math.abs(side.total[b])
    if x ~= y then return x > y end
    return a < b
  end)
  if math.abs(total) < least then left = 0 end
  return list, left, total
end

return function(profile, opts)
  local index = profile:value(opts.value)
  local tree = calls.build(profile)
  local side = tree.values[index]
  local least = math.abs(side.all) * (opts.least or 1) / 100
  local out = { "  total     own  function" }
  local function line(total, own, indent, text)
    local head = ("%7s %7s  "):format(terminal.percent(total, side.all), own and terminal.percent(own, side.all) or "")
    local deep = math.min(indent, 20) -- deeper ones keep room for their names
    out[#out + 1] = terminal.cut(head .. ("  "):rep(deep) .. text, opts.width or terminal.WIDTH)
  end
  local todo = { { 0, -1, false } }
  while #todo > 0 do
    local n, indent, alone, rest = table.unpack(table.remove(todo))
    if rest then
      line(rest, nil, indent, ("  (%d smaller)"):format(alone))
    else
      if n > 0 then
        local label = terminal.label(tree.functions[tree.func[n]])
        line(side.total[n], side.own[n], indent, (alone and "  " or "- ") .. label)
      end
      local list, left, total = shown_children(tree, side, n, least)
      local below = #list + (left > 0 and 1 or 0) > 1 or n == 0
      if left > 0 then todo[#todo + 1] = { n, indent + (below and 1 or 0), left, total } end
      for i = #list, 1, -1 do todo[#todo + 1] = { list[i], indent + (below and 1 or 0), not below } end
    end
  end
  return table.concat(out, "\n") .. "\n"
end
