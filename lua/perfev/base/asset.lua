--- Reads a style sheet, page or browser script in the folder of the module that writes it into its output.
-- perfl has them built in as preloaded modules that return the text (src/gen/embed.lua).

--- @tparam string name  its path below lua/: "perfev/profile/html/flamegraph.css"
-- @tparam ?string module_file  the path of the module beside it, as require() passes it; perfl passes none
-- @treturn string  the file's text
return function(name, module_file)
  local carried = package.preload[name]
  if carried then return carried() end
  local file <close> = assert(io.open(module_file:match "^.*/" .. name:match "[^/]+$", "rb"))
  return file:read "a"
end
