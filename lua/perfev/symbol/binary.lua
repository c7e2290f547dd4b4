--- Finds the file of a program or a library, and its symbols by name.
-- A name with a slash is a path. Any other name is a library as the dynamic linker finds it ("libc", "libc.so.6":
-- /etc/ld.so.cache, then the usual directories), then a program in PATH. The whole file is read through the hooks;
-- perfev.elf is loaded on first use.

local check = require "perfev.base.check"
local core = require "perfev.core"
local files = require "perfev.symbol.files"
local native = require "perfev.base.native_module"

local M = {}

local E = core.errno

local CACHE = "/etc/ld.so.cache"
local CACHE_MAGIC = "glibc-ld.so.cache1.1"
local library_dirs = { "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib" }
local LINKS_MAX = 40 -- the kernel's limit (path_resolution(7))

-- Returns perfev.elf, or nil and the reason.
local function load_elf()
  local elf, why, remedy = native "perfev.elf"
  if elf then return elf end
  return nil, ("symbols cannot be read: %s\n  try: %sFILE:0xOFFSET"):format(why, remedy and remedy .. "\n  or: " or "")
end

-- ---- paths ----

-- The root of a process, which may be a container's: its links lead to paths below it.
local ROOT = "^/proc/%w+/root%f[/\0]"

local function join_target(dir, target)
  if target:sub(1, 1) ~= "/" then return dir .. "/" .. target end
  return (dir:match(ROOT) or "") .. target
end

-- Follows a symbolic link. The links in /proc/PID lead to the file itself; their text is the path that the file has or
-- had for the process. -> target | nil: the kernel follows it
local function follow_link(path)
  local kind = path:match("^/proc/%w+/(%a+)$")
  if kind == "root" or kind == "cwd" then return nil end
  local target = core.readlink(path)
  if kind ~= "exe" or not target then return target end
  local there, here = core.stat(path), core.stat(target)
  return there and here and there.dev == here.dev and there.ino == here.ino and target or nil
end

--- The path without symbolic links, "." and "..", as in /proc/PID/maps. /proc/PID/root stays, and /proc/PID/exe if its
-- file no longer has the path.
function M.realpath(path)
  if path:sub(1, 1) ~= "/" then
    local cwd = core.readlink("/proc/self/cwd")
    if not cwd then return path end -- without /proc: the kernel knows
    path = cwd .. "/" .. path
  end
  local done, rest, links = "", path, 0
  while rest ~= "" do
    local part, tail = rest:match("^/*([^/]*)(.*)$")
    rest = tail
    local here = done .. "/" .. part
    local target = part ~= "" and part ~= "." and part ~= ".." and links < LINKS_MAX and follow_link(here)
    if part == ".." then
      done = done:gsub("/[^/]*$", "")
    elseif target then
      links = links + 1
      rest = join_target(done, target) .. rest
      done = ""
    elseif part ~= "" and part ~= "." then
      done = here
    end
  end
  return done
end

-- The files for a name in ldconfig's cache, in its order.
-- Source: sysdeps/generic/dl-cache.h, struct cache_file_new.
local function find_in_cache(is_it)
  local bytes, found = core.slurp(CACHE) or "", {}
  local start = bytes:find(CACHE_MAGIC, 1, true)
  if not start or #bytes < start + 47 then return found end
  local count = string.unpack("=I4", bytes, start + 20)
  for i = 0, math.min(count, (#bytes - start - 47) // 24) - 1 do
    local _, key, value = string.unpack("=i4I4I4", bytes, start + 48 + 24 * i)
    local name = bytes:match("^[^%z]*", start + key)
    if name and is_it(name) then found[#found + 1] = bytes:match("^[^%z]*", start + value) end
  end
  return found
end

local function find_in_directories(is_it, triplet)
  local found = {}
  for _, dir in ipairs(library_dirs) do
    for _, under in ipairs { dir, dir .. "/" .. triplet } do
      for _, name in ipairs(core.list(under) or {}) do
        if is_it(name) then found[#found + 1] = under .. "/" .. name end
      end
    end
  end
  return found
end

-- Returns a function that tests file names: "libc" matches libc.so.6, and "libc.so.6" itself.
local function make_matcher(word)
  local stem = word:gsub("%p", "%%%0")
  return function(name)
    return name == word or name:find("^" .. stem .. "%.so$") ~= nil or name:find("^" .. stem .. "%.so%.[%d.]+$") ~= nil
  end
end

-- Files that are not ELF are skipped: a library's development name ("libc.so") may be a linker script.
local function find_first_elf(paths, elf)
  for _, path in ipairs(paths) do
    local opened <close> = core.file(path)
    local bytes = opened and opened:bytes()
    local file = bytes and elf.read(bytes)
    if file and file:facts().bits == 64 or file and string.packsize("T") == 4 then return path, file end
  end
end

local function find_in_path(name)
  local paths = {}
  for dir in (os.getenv("PATH") or "/usr/bin:/bin"):gmatch("[^:]+") do
    if dir:sub(1, 1) == "/" then paths[#paths + 1] = dir .. "/" .. name end
  end
  return paths
end

local function find_by_name(word, elf)
  local is_it = make_matcher(word)
  local path, file = find_first_elf(find_in_cache(is_it), elf)
  if not path then path, file = find_first_elf(find_in_directories(is_it, core.machine .. "-linux-gnu"), elf) end
  if not path then path, file = find_first_elf(find_in_path(word), elf) end
  if path then return path, file end
  return nil, ("no library or program is named '%s'\n  looked in %s, %s and PATH\n  try: its full path"):format(
    word, CACHE, table.concat(library_dirs, ", ")), E.ENOENT
end

-- ---- symbols ----

local function read_elf(path, elf)
  local opened <close>, wrong, errno = core.file(path)
  if not opened then return nil, ("cannot read %s: %s"):format(path, wrong), errno end
  local bytes, _, code = opened:bytes()
  if not bytes then return nil, ("cannot read %s: %s"):format(path, core.strerror(code)), code end
  local file, why, failed = elf.read(bytes)
  if not file then return nil, ("%s: %s"):format(path, why), failed end
  return file
end

--- Opens a file by the name that the user wrote.
-- @treturn[1] table  `path` (absolute), `elf` (from perfev.elf, or nil if that is not installed), `no_elf` (the reason)
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.open(word)
  local elf, none = load_elf()
  if not word:find("/", 1, true) then
    if not elf then return nil, none, E.ENOSYS end
    local path, file, code = find_by_name(word, elf)
    if not path then return nil, file, code end
    return { path = M.realpath(path), elf = file, word = word }
  end
  local path = M.realpath(word)
  if not elf then return { path = path, no_elf = none, word = word } end
  local file, why, code = read_elf(path, elf)
  if not file then return nil, why, code end
  return { path = path, elf = file, word = word }
end

local function ignore() end

-- Opens the debug file of a stripped file, or returns nil.
local function open_debug_file(file)
  local there, symtab = pcall(require, "perfev.symtab")
  local opened <close> = there and not file.elf:facts().symtab and core.file(file.path) or nil
  local image = opened and opened:image()
  local whole = image and symtab.read(image)
  local place = whole and { path = file.path, uid = opened:stat().uid }
  return whole and files.find_debug(symtab, whole:facts(), place, ignore, load_elf().read) or nil
end

-- Looks up a symbol of a stripped file in its debug file. The offset comes from the file's own
-- program headers.
local function find_debug_symbol(file, name)
  local symbols = open_debug_file(file)
  local symbol = symbols and symbols:symbol(name)
  if symbol then symbol.offset = file.elf:offset(symbol.value) end
  return symbol
end

local function explain_missing(file, name)
  local facts = file.elf:facts()
  if not facts.symtab and not facts.dynsym then
    return ("%s is stripped: it has no symbols, so '%s' cannot be found\n"):format(file.path, name)
      .. "  try: install its debug symbols, use FILE:0xOFFSET, or a build that is not stripped"
  end
  local hint = check.meant(file.elf:nearest(name))
  if facts.symtab then
    return ("%s has no symbol '%s'%s\n  try: nm %s"):format(file.path, name, hint, file.path)
  end
  return ("%s is stripped, and does not export '%s'%s\n"):format(file.path, name, hint)
    .. ("  try: nm -D %s, its debug symbols, FILE:0xOFFSET, or a build that is not stripped"):format(file.path)
end

--- Finds a symbol that has one address.
-- @treturn[1] table  as perfev.elf returns it
-- @treturn[2] nil
-- @treturn[2] string  the reason, with the nearest name
-- @treturn[2] integer errno
function M.symbol(file, name)
  if not file.elf then return nil, file.no_elf, E.ENOSYS end
  local symbol = file.elf:symbol(name) or find_debug_symbol(file, name)
  if not symbol then return nil, explain_missing(file, name), E.ENOENT end
  if symbol.others > 0 then
    return nil, ("%s has %d symbols '%s', at different addresses\n"
      .. "  try: nm%s %s | grep -w %s, and FILE:0xOFFSET of one"):format(file.path, symbol.others + 1,
      name, file.elf:facts().symtab and "" or " -D", file.path, name), E.EINVAL
  end
  return symbol
end

local function without_version(name) return (name:gsub("@.*", "")) end

-- gcc moves the unlikely part of a function to a symbol of its own, to which the function jumps.
local function is_called(name) return not name:find(".cold", 1, true) end

--- Finds the functions whose names match, in the order of their addresses. Of several names for one address the
-- shortest counts. Indirect functions (STT_GNU_IFUNC) are left out: their code only selects another function.
-- @tparam function matches  name -> boolean
-- @treturn[1] table  a list of `name`, `value` (the linker's address), `offset` in the file
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.functions(file, matches)
  if not file.elf then return nil, file.no_elf, E.ENOSYS end
  local function is_wanted(name)
    name = without_version(name)
    return is_called(name) and matches(name)
  end
  local at, all, list = {}, {}, {}
  for _, elf in ipairs { file.elf, open_debug_file(file) } do
    for _, found in ipairs(elf:functions(is_wanted)) do
      found.name, found.offset = without_version(found.name), file.elf:offset(found.value)
      local known = at[found.value]
      if not known and found.offset and file.elf:runs(found.offset) then
        at[found.value], all[#all + 1] = found, found
      elseif known then
        known.is_indirect = known.is_indirect or found.type == "ifunc"
        if #found.name < #known.name then known.name = found.name end
      end
    end
  end
  for _, found in ipairs(all) do
    if not found.is_indirect and found.type ~= "ifunc" then list[#list + 1] = found end
  end
  table.sort(list, function(a, b) return a.value < b.value end)
  return list
end

-- ---- in a process ----

-- The path as in the maps of a process: without /proc/PID/root, and the target of /proc/PID/exe.
local function path_in_maps(path)
  return path:match("^/proc/%w+/root(/.*)$") or path:find("^/proc/%w+/exe$") and core.readlink(path) or path
end

--- True if a process has mapped an older file of that path.
function M.is_replaced(file_path, pid)
  local maps, path = core.slurp(("/proc/%d/maps"):format(pid)) or "", path_in_maps(file_path)
  return maps:find((" %s (deleted)\n"):format(path), 1, true) ~= nil and not maps:find((" %s\n"):format(path), 1, true)
end

--- The address of the file in a process less the linker's address.
-- @treturn[1] integer
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.moved(file, pid)
  local maps, _, code = core.slurp(("/proc/%d/maps"):format(pid))
  if not maps then
    return nil, ("cannot read /proc/%d/maps: %s"):format(pid, core.strerror(code)),
      code == E.ENOENT and E.ESRCH or code
  end
  local path, page = path_in_maps(file.path), core.pagesize()
  for start, pgoff, name in maps:gmatch("(%x+)%-%x+ ..x. (%x+) %S+ %d+ +([^\n]+)") do
    local linked = name == path and file.elf:mapped(math.tointeger(tonumber(pgoff, 16)), page)
    if linked then return math.tointeger(tonumber(start, 16)) - linked end
  end
  local gone = maps:find(path .. " (deleted)", 1, true)
  return nil, ("process %d has not mapped %s%s"):format(pid, path,
    gone and ": its file was replaced after the process started" or ""), E.ENOENT
end

return M
