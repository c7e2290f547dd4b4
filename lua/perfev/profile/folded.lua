--- Writes folded text: a line "outermost;…;leaf count" for each stack, the input of Brendan Gregg's FlameGraph.
-- All lines together can be many times larger than the tree, so C makes them in pieces (src/profile/folded.c). With a
-- baseline a line has two numbers, the baseline's first, as difffolded.pl writes.

local calls = require "perfev.profile.call_tree"

local function number(value) return (math.type(value) == "integer" and "%d" or "%.14g"):format(value) end

local function compared(profile, opts)
  local index = profile:value(opts.value)
  local tree = calls.build(profile, opts.baseline)
  local now, before, path, lines = tree.values[index].own, tree.base[index].own, {}, {}
  for n, func in ipairs(tree.func) do
    local mark = opts.annotate and ({ kernel = "_[k]", inlined = "_[i]" })[tree.functions[func].kind] or ""
    path[tree.depth[n]] = tree.functions[func].name:gsub(";", ":") .. mark
    if now[n] ~= 0 or before[n] ~= 0 then
      lines[#lines + 1] = ("%s %s %s\n"):format(table.concat(path, ";", 1, tree.depth[n]), number(before[n]),
        number(now[n]))
    end
  end
  return table.concat(lines)
end

return function(profile, opts, write)
  if opts.baseline then return compared(profile, opts) end
  local pieces = {}
  profile.stack_tree:fold(profile:value(opts.value), opts.annotate)
  for piece in function() return profile.stack_tree:fold_next() end do
    if write then write(piece) else pieces[#pieces + 1] = piece end
  end
  return table.concat(pieces)
end
