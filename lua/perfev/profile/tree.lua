--- Writes the call tree as text for a terminal, callers above callees.
-- A caller's only callee is not indented, so that deep stacks fit the line. Functions below `least` percent are left
-- out; if together they reach it, one line has their sum. Each line has the value, the share with callees and the own
-- share, or with a baseline the shares or values in both profiles. The last line is the sum of all.

local calls = require "perfev.profile.call_tree"
local terminal = require "perfev.picture.terminal"

local DEEPEST = 20 -- indentation steps

-- Returns the share of node n in percent, the larger of profile and baseline.
local function size(side, base, n)
  local now, before = terminal.share(side.total[n], side.all), terminal.share(base.total[n], base.all)
  return math.max(math.abs(now), math.abs(before))
end

-- Returns the children of n that get a line, the largest first, and the sum of the others.
local function shown_children(tree, side, base, n, least)
  local list, rest, size_of = {}, { nr = 0, now = 0, before = 0 }, {}
  local c, stop = n + 1, n == 0 and #tree.func or tree.last[n]
  while c <= stop do
    size_of[c] = size(side, base, c)
    if size_of[c] >= least and size_of[c] > 0 then
      list[#list + 1] = c
    elseif size_of[c] > 0 then
      rest.nr, rest.now, rest.before = rest.nr + 1, rest.now + side.total[c], rest.before + base.total[c]
    end
    c = tree.last[c] + 1
  end
  table.sort(list, function(a, b)
    if size_of[a] ~= size_of[b] then return size_of[a] > size_of[b] end
    return a < b
  end)
  local is_much = rest.nr > 0 and math.abs(terminal.share(rest.now, side.all)) >= least
  return list, is_much and rest or nil
end

-- Pads the first cells to one width, right-aligned.
local function aligned(lines, most)
  local widest, out = 0, {}
  for _, line in ipairs(lines) do widest = math.max(widest, utf8.len(line[1])) end
  for i, line in ipairs(lines) do
    out[i] = terminal.cut((" "):rep(widest - utf8.len(line[1])) .. line[1] .. line[2], most)
  end
  return out
end

return function(profile, opts)
  local index, value = profile:value(opts.value)
  local tree = calls.build(profile, opts.baseline)
  local side, base = tree.values[index], tree.base and tree.base[index] or calls.nothing
  local least = opts.least or 1
  local compares_values = tree.base and opts.absolute
  local lines = { { value.name, compares_values and "     before     change  function"
    or tree.base and "     now  before  change  function" or "   total     own  function" } }
  local function line(total, own, before, indent, text)
    local deep = ("  "):rep(math.min(indent, DEEPEST)) -- keep room for the names
    local head = (" %7s %7s"):format(terminal.percent(total, side.all), own and terminal.percent(own, side.all) or "")
    if compares_values then
      head = (" %10s %10s"):format(terminal.number(before, value.unit), terminal.signed(total - before, value.unit))
    elseif tree.base then
      head = (" %7s %7s %7s"):format(terminal.percent(total, side.all), terminal.percent(before, base.all),
        terminal.points(total, side.all, before, base.all))
    end
    lines[#lines + 1] = { terminal.number(total, value.unit), head .. "  " .. deep .. text }
  end
  local todo = { { node = 0, indent = -1 } }
  while #todo > 0 do
    local it = table.remove(todo)
    if it.rest then
      line(it.rest.now, nil, it.rest.before, it.indent, ("  (%d smaller)"):format(it.rest.nr))
    else
      local n = it.node
      if n > 0 then
        local label = terminal.label(tree.functions[tree.func[n]])
        line(side.total[n], side.own[n], base.total[n], it.indent, (it.alone and "  " or "- ") .. label)
      end
      local list, rest = shown_children(tree, side, base, n, least)
      local alone = n > 0 and #list == 1 and not rest
      local indent = it.indent + (alone and 0 or 1)
      if rest then todo[#todo + 1] = { rest = rest, indent = indent } end
      for i = #list, 1, -1 do todo[#todo + 1] = { node = list[i], indent = indent, alone = alone } end
    end
  end
  line(side.all, nil, base.all, 0, "all")
  return table.concat(aligned(lines, opts.width or terminal.WIDTH), "\n") .. "\n"
end
