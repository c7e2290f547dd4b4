--- Writes listings of annotated functions as one HTML file that loads nothing from a network.

local _, this_file = ...
local asset = require "perfev.base.asset"
local markup = require "perfev.picture.markup"

-- Rows with a larger share are redder.
local function heat_of(row, total)
  if row.share == "" then return "" end
  return (' style="background:rgba(220,60,20,%.2f)"'):format(0.1 + 0.7 * row.value / total)
end

local function row_html(row, total)
  local number = row.kind == "gap" and "..." or row.line or row.address and ("%x"):format(row.address) or ""
  return ('<tr class="%s"><td%s>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n'):format(row.kind,
    heat_of(row, total), row.share, number, markup(row.text or ""), markup(row.place or ""))
end

local function listing_html(listing)
  local parts = { "<h2>", markup(listing.title), "</h2>\n" }
  for _, note in ipairs(listing.notes) do parts[#parts + 1] = "<p>" .. markup(note) .. "</p>\n" end
  parts[#parts + 1] = "<table>\n"
  for _, row in ipairs(listing.rows) do parts[#parts + 1] = row_html(row, listing.total) end
  parts[#parts + 1] = "</table>\n"
  return table.concat(parts)
end

--- @tparam string name       of the function
-- @tparam {table,...} listings  as in annotation.lua
-- @treturn string
return function(name, listings)
  local parts = {}
  for i, listing in ipairs(listings) do parts[i] = listing_html(listing) end
  local fill = { TITLE = markup(name), LISTINGS = table.concat(parts) }
  return (asset("perfev/tool/annotation.html", this_file):gsub("%$(%u+)", fill))
end
