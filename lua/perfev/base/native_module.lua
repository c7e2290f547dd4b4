--- perfev's own shared objects that are loaded on first use (perfev.elf, perfev.symtab): the module, or why not.

--- @tparam string name
-- @tparam string library  what it is made with
-- @treturn[1] table
-- @treturn[2] nil
-- @treturn[2] string  why not
-- @treturn[2] ?string  what to do
return function(name, library)
  local ok, module = pcall(require, name)
  if ok then return module end
  local text = tostring(module)
  local distrusted = text:match("not trusted: ([^\n]+)")
  if distrusted then
    return nil, ("others than root may write %s, or a directory above it"):format(distrusted), "chmod go-w, chown root"
  end
  local why, remedy = text:match("\n%s*(/proc is not mounted[^\n]*)\n%s*try: ([^\n]+)")
  if why then return nil, why, remedy end
  return nil, ("the module %s (%s) is not installed beside perfev"):format(name, library)
end
