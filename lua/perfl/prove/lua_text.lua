--- Writes values as Lua text: results of child processes, and files of worlds.

local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

local reserved = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true
  until while]]):gmatch "%a+" do reserved[word] = true end

-- Keys in the order in which a reader looks for them, then by name.
local first = {}
for i, name in ipairs { "at", "fail", "nth", "errno", "cpu", "via", "late", "lose", "times", "every", "interrupt",
  "type", "event", "pid", "tid", "comm" } do first[name] = i end

local function less(a, b)
  local x, y = first[a] or math.huge, first[b] or math.huge
  if x ~= y then return x < y end
  return tostring(a) < tostring(b)
end

local function text_of(text)
  return '"' .. text:gsub('[%c"\\\127-\255]', function(c) return ("\\%03d"):format(c:byte()) end) .. '"'
end

local function key_of(key)
  if type(key) ~= "string" then return ("[%s]"):format(M.encode(key)) end
  return key:find "^[%a_][%w_]*$" and not reserved[key] and key or ("[%s]"):format(text_of(key))
end

--- A value on one line; equal values give equal text.
function M.encode(value)
  if type(value) == "string" then return text_of(value) end
  if type(value) ~= "table" then
    return value == math.mininteger and "math.mininteger" or tostring(value)
  end
  local parts = {}
  for i, one in ipairs(value) do parts[i] = M.encode(one) end
  for _, key in ipairs(sorted_keys(value, less)) do
    if not (math.type(key) == "integer" and key >= 1 and key <= #value) then
      parts[#parts + 1] = key_of(key) .. " = " .. M.encode(value[key])
    end
  end
  return parts[1] and "{ " .. table.concat(parts, ", ") .. " }" or "{}"
end

--- Reads what `encode` wrote; for this program's own text.
function M.decode(text)
  local chunk = load("return " .. text, "=result", "t", { math = math })
  return chunk and chunk()
end

--- The file of a world: runs with `perfl --sim FILE SCRIPT`.
-- @tparam table world
-- @tparam {string,...} comment  lines
function M.world_file(world, comment)
  local lines = {}
  for i, line in ipairs(comment) do lines[i] = "-- " .. line end
  lines[#lines + 1] = 'return require("perfev.sim").world {'
  for _, key in ipairs(sorted_keys(world, less)) do
    if type(key) == "string" then lines[#lines + 1] = ("  %s = %s,"):format(key_of(key), M.encode(world[key])) end
  end
  for _, step in ipairs(world) do lines[#lines + 1] = ("  %s,"):format(M.encode(step)) end
  lines[#lines + 1] = "}\n"
  return table.concat(lines, "\n")
end

return M
