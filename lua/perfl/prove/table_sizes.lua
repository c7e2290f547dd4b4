--- Measures in a child process how the memory of a script and the sizes of its tables grow.

local M = {}

local DEPTH = 4

local function size_of(t)
  local n = 0
  for _ in next, t do n = n + 1 end
  return n
end

-- Adds the sizes of a table and of those in it, by their path.
local function add_sizes(sizes, seen, path, t, depth)
  if seen[t] then return end
  seen[t] = true
  sizes[path] = size_of(t)
  if depth >= DEPTH or sizes[path] > 64 then return end
  for key, one in next, t do
    if type(one) == "table" then
      local name = type(key) == "string" and ("%s.%s"):format(path, key) or path .. "[]"
      add_sizes(sizes, seen, name, one, depth + 1)
    end
  end
end

-- The sizes of the tables that are upvalues of the script's functions, or globals. The functions are those that the
-- registry reaches.
local function script_tables(is_script)
  local sizes, seen, queue, known = {}, {}, { debug.getregistry() }, {}
  known[queue[1]] = true
  local function visit(value)
    local kind = type(value)
    if (kind == "table" or kind == "function" or kind == "userdata") and not known[value] then
      known[value], queue[#queue + 1] = true, value
    end
  end
  while queue[1] do
    local value = table.remove(queue)
    if type(value) == "table" then
      local n = 0
      for key, one in next, value do
        visit(key)
        visit(one)
        n = n + 1
        if n > 512 then break end -- a table of data, not of functions
      end
    elseif type(value) == "function" then
      local info = debug.getinfo(value, "S")
      local ours = info.what ~= "C" and is_script(info.source)
      for i = 1, 255 do
        local name, up = debug.getupvalue(value, i)
        if not name then break end
        visit(up)
        if ours and type(up) == "table" and name ~= "_ENV" then add_sizes(sizes, seen, name, up, 1) end
      end
    else
      for i = 1, 8 do
        local one, there = debug.getuservalue(value, i)
        if not there then break end
        visit(one)
      end
      visit(debug.getmetatable(value))
    end
  end
  for name, one in next, _G do
    if type(one) == "table" and not package.loaded[name] and name ~= "_G" and name ~= "arg" then
      add_sizes(sizes, seen, name, one, 1)
    end
  end
  return sizes
end

--- Measures at two times of a world.
-- @tparam kernel k
-- @tparam table options  `memory`: list of times in ns
-- @tparam table result   gets `memory`: list of { bytes =, tables = }
function M.measure(k, options, result)
  result.memory = {}
  for _, at in ipairs(options.memory) do
    k:after(at, function()
      collectgarbage()
      collectgarbage()
      local bytes = math.floor(collectgarbage "count" * 1024)
      table.insert(result.memory, { bytes = bytes, tables = script_tables(function(source)
        return source:sub(1, 1) ~= "=" and not source:find "^@lua/perf" or source == "=-e"
      end) })
    end)
  end
end

return M
