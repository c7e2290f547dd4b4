--- Stacks as the short texts of a budget's messages and baselines: "main;load;fopen64", the leaf last.

local M = {}

local FRAMES = 8

-- A name without its version, or the file of code without names.
local function frame_name(frame)
  if frame.symbol then return (frame.symbol:gsub("@.*", "")) end
  return "[" .. (frame.module or "unknown"):match "[^/]*$":gsub("^%[(.*)%]$", "%1") .. "]"
end

-- True for the interpreter's frames, which say nothing once the line of Lua is known.
local function is_interpreter(frame)
  local module = (frame.module or ""):match "[^/]*$"
  return module:find "^lua" or module:find "^liblua" or (frame.symbol or ""):find "^luaV?D?_"
end

-- The innermost user frames, the leaf first. Equal frames in a row are one.
local function frame_names(stack, place)
  local names = {}
  for _, frame in ipairs(stack:frames()) do
    if #names == FRAMES or place and not frame.kernel and is_interpreter(frame) then break end
    local name = not frame.kernel and frame_name(frame)
    if name and name ~= names[#names] then names[#names + 1] = name:gsub("[;%c]", ":") end
  end
  names[#names + 1] = place and place:gsub("[;%c]", ":")
  return names
end

--- A stack as text, the leaf last.
-- @param stack  r.stack, or { stack =, place = } with a line of Lua
-- @treturn string
function M.folded(stack)
  local place
  if type(stack) == "table" and stack.place then stack, place = stack.stack, stack.place end
  local names = frame_names(stack, place)
  for i = 1, #names // 2 do names[i], names[#names + 1 - i] = names[#names + 1 - i], names[i] end
  return #names > 0 and table.concat(names, ";") or "[unknown]"
end

--- Adds the counts of stacks with equal texts.
-- @tparam table stacks  count by r.stack
-- @treturn table        count by text
function M.fold_all(stacks)
  local found = {}
  for stack, n in pairs(stacks) do
    local text = M.folded(stack)
    found[text] = (found[text] or 0) + n
  end
  return found
end

local WIDTH = 68 -- columns, for a terminal of 80

--- "fopen64 < load < main": the innermost frames that fit a terminal, two at least; a line of Lua always.
function M.leaf_first(text)
  local names = {}
  for name in text:gmatch "[^;]+" do table.insert(names, 1, name) end
  local place = names[#names]:find ":%d+$" and table.remove(names)
  local shown, room = names[1] or place, WIDTH - (place and names[1] and #place + 3 or 0)
  for i = 2, #names do
    if i > 2 and #shown + #names[i] + 3 > room then
      shown = shown .. (place and "" or " < ...")
      break
    end
    shown = shown .. " < " .. names[i]
  end
  return place and names[1] and shown .. " < " .. place or shown
end

return M
