--- Folded text: a line "outermost;…;leaf count" for each stack, the form of Brendan Gregg's FlameGraph.
-- A ";" in a name would end it there: it becomes ":", as stackcollapse-perf.pl has it.

-- The marks of stackcollapse-perf.pl --all, which flamegraph.pl --color=java colours by.
local function marked(frame)
  return frame.kernel and "_[k]" or frame.inlined and "_[i]" or ""
end

-- Frames that differ in their module or line alone are one name here, and their lines one line.
return function(profile, opts)
  local index = profile:value(opts.value)
  local sums, path = {}, {}
  profile:walk(function(depth, frame, values)
    path[depth] = frame.symbol:gsub(";", ":") .. (opts.annotate and marked(frame) or "")
    if not values or values[index] == 0 then return end
    local stack = table.concat(path, ";", 1, depth)
    sums[stack] = (sums[stack] or 0) + values[index]
  end)
  local lines = {}
  for stack, sum in pairs(sums) do
    lines[#lines + 1] = ("%s %s\n"):format(stack, math.type(sum) == "integer" and sum or ("%.14g"):format(sum))
  end
  table.sort(lines)
  return table.concat(lines)
end
