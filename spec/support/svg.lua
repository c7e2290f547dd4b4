-- svg.lua - reads the elements of an SVG picture, for specs.

local svg = {}

--- Returns the rectangles of a class (a pattern), in order: `class`, `title` (or nil), and numbers by name.
function svg.rectangles(text, look)
  local list = {}
  for class, body in text:gmatch '<rect ([^>]*)>(.-)</rect>' do
    local found = class:match('class="(' .. look .. ')"')
    if found then
      local one = { class = found, title = body:match "<title>(.*)</title>" }
      for name, value in class:gmatch '(%a+)="([%d.]+)"' do one[name] = tonumber(value) end
      list[#list + 1] = one
    end
  end
  return list
end

--- Returns their titles, which a browser shows under the pointer.
function svg.titles(text, look)
  local list = {}
  for i, one in ipairs(svg.rectangles(text, look)) do list[i] = one.title end
  return list
end

return svg
