--- Writes folded text: a line "outermost;…;leaf count" for each stack, the input of Brendan Gregg's FlameGraph.
-- A ";" in a name becomes ":", as in stackcollapse-perf.pl. All lines together can be many times larger than the tree,
-- so they are made one by one, in order.

-- The suffixes of stackcollapse-perf.pl --all, by which flamegraph.pl --color=java chooses colours.
local function marked(frame)
  return frame.kernel and "_[k]" or frame.inlined and "_[i]" or ""
end

local function number(sum)
  return math.type(sum) == "integer" and tostring(sum) or ("%.14g"):format(sum)
end

return function(profile, opts, write, tree_of)
  local index = profile:value(opts.value)
  local children, frame_of, value_of = tree_of(profile)
  local lines = {}
  write = write or function(line) lines[#lines + 1] = line end

  -- Frames that differ only in module or line have the same name, so their values are added up in one line.
  local function children_by_name(nodes)
    local groups = {}
    for _, parent in ipairs(nodes) do
      for _, node in ipairs(children(parent)) do
        local frame = frame_of(node)
        local name = frame.symbol:gsub(";", ":") .. (opts.annotate and marked(frame) or "")
        local group = groups[name]
        if not group then
          group = { nodes = {}, sum = nil }
          groups[name] = group
        end
        local value = value_of(node, index)
        if value ~= 0 then group.sum = (group.sum or 0) + value end
        group.nodes[#group.nodes + 1] = node
      end
    end
    return groups
  end

  local function write_below(path, nodes)
    local order, nodes_of = {}, {}
    for name, group in pairs(children_by_name(nodes)) do
      if group.sum then order[#order + 1] = ("%s %s\n"):format(name, number(group.sum)) end
      order[#order + 1] = name .. ";"
      nodes_of[name .. ";"] = group.nodes
    end
    table.sort(order) -- the order of the sorted lines
    for _, text in ipairs(order) do
      if nodes_of[text] then write_below(path .. text, nodes_of[text]) else write(path .. text) end
    end
  end

  write_below("", { 0 })
  return table.concat(lines)
end
