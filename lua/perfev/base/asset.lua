--- Reads a style sheet, page or browser script beside the modules that write it into their output.
-- perfl has them built in as preloaded modules that return the text (src/gen/embed.lua).

--- @tparam string name  its path below lua/: "perfev/profile/html/flamegraph.css"
-- @tparam ?string module_file  the path of a module of the same tree, as require() passes it; perfl passes none
-- @treturn string  the file's text
return function(name, module_file)
  local carried = package.preload[name]
  if carried then return carried() end
  local root = module_file:match("^(.*)" .. name:match "^[^/]+/") -- the last folder of that name
  local file <close> = assert(io.open(root .. name, "rb"))
  return file:read "a"
end
