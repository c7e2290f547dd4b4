--- How Lua source gets into perfl: as text, from a file looked at after it was opened.
--
-- Compiled Lua is never loaded, as its verifier is gone since Lua 5.2. Root runs
-- nothing that somebody else could have written: neither the script nor a module
-- it requires. The working directory is not searched.

local core = require "perfev.core"
local escape = require "perfev.escape"
local native = require "perfl.core"

local M = {}

--- Set by --i-trust-this: files of others are run, too.
M.trust_all = false

local SOURCE_MAX = 64 << 20 -- /dev/zero is no script

-- In a user namespace all who are not of it have one number (user_namespaces(7)), the machine's root, whose scripts
-- these are, among them. That is trusted where we are not the machine's root ourselves, but an ordinary user.
local function is_outside(uid)
  if uid ~= tonumber((core.slurp("/proc/sys/kernel/overflowuid"))) then return false end
  local map = core.slurp("/proc/self/uid_map") or ""
  for first, outer, count in map:gmatch("(%d+)%s+(%d+)%s+(%d+)") do
    first = tonumber(first)
    if tonumber(outer) == 0 or uid >= first and uid - first < tonumber(count) then return false end
  end
  return map ~= ""
end

-- Who may own what we run: root, and whoever calls, also through sudo.
local function is_ours(uid)
  return uid == 0 or uid == native.uid or uid == tonumber(os.getenv("SUDO_UID") or "") or is_outside(uid)
end

local function check_trust(path, mode, uid)
  if M.trust_all or not (native.euid == 0 or native.secure) then return true end
  local why
  if mode & 0x12 ~= 0 then -- 022
    why = "its group or everybody may write it"
  elseif not is_ours(uid) then
    why = ("it belongs to user %d"):format(uid)
  end
  if not why then return true end
  return nil, ("will not run '%s' with these rights: %s\n"):format(escape(path), why)
    .. "try: chmod go-w, chown, or --i-trust-this"
end

local function check_text(path, text)
  if #text > SOURCE_MAX then return nil, ("'%s' is too large for a script"):format(escape(path)) end
  if text:sub(1, 1) == "\27" then
    return nil, ("'%s' is compiled Lua: perfl runs source only"):format(escape(path))
  end
  if text:sub(1, 4) == "\127ELF" then
    return nil, ("'%s' is a program, and no script\na command stands behind --\ntry: perfl SCRIPT -- %s"):format(
      escape(path), escape(path))
  end
  return text
end

--- The text of a source file.
-- @tparam string path  "-": standard input, which is trusted as the caller is
-- @treturn[1] string
-- @treturn[2] nil
-- @treturn[2] string
function M.read(path)
  if path == "-" then
    local text, why = io.read(SOURCE_MAX + 1)
    if why then return nil, ("cannot read the script from standard input: %s"):format(why) end
    return check_text("standard input", text or "")
  end
  local file <close>, mode, uid = native.open(path, "r")
  if not file then return nil, ("cannot read the script: %s"):format(escape(mode)) end
  local trusted, why = check_trust(path, mode, uid)
  if not trusted then return nil, why end
  local text, failed = file:read(SOURCE_MAX + 1)
  if failed then return nil, ("cannot read '%s': %s"):format(escape(path), failed) end
  return check_text(path, text or "")
end

--- Compile text; a first line that begins with # is the shell's.
-- @treturn[1] function
-- @treturn[2] nil
-- @treturn[2] string  "FILE:LINE: …"
function M.compile(text, chunkname, env)
  text = text:gsub("^\xef\xbb\xbf", ""):gsub("^#[^\n]*", "")
  return load(text, chunkname, "t", env or _G)
end

-- The second searcher of require, but for what is loaded and by whom it may be written.
local function search_module(name)
  local path, tried = package.searchpath(name, package.path)
  if not path then return tried end
  local text, why = M.read(path)
  if not text then error(why, 0) end
  local chunk, wrong = M.compile(text, "@" .. path)
  if not chunk then
    error(("error loading module '%s' from '%s':\n\t%s"):format(name, path, wrong), 0)
  end
  return chunk, path
end

-- Could anybody but root have put something else there? Asked of the file and of every directory above it.
local function is_roots(path)
  path = native.realpath(path)
  while path do
    local file <close>, mode, uid = native.open(path == "" and "/" or path, "r")
    if not file or uid ~= 0 or mode & 0x12 ~= 0 then return false end -- 022
    if path == "" then return true end
    path = path:gsub("/[^/]*$", "")
  end
  return false
end

-- perfev's parts that are shared objects (perfev.elf), which lie beside perfl. Who runs with rights that
-- his caller lacks loads root's alone: native code is not asked what it does with them.
local function search_native(name)
  if not name:find("^perfev%.%l+$") then return nil end
  local path, tried = package.searchpath(name, require("perfl.find").native_templates())
  if not path then return tried end
  local file <close>, mode, uid = native.open(path, "r")
  if not file then return "\n\t" .. mode end
  if not check_trust(path, mode, uid) or native.secure and not is_roots(path) then
    return ("\n\tnot trusted: %s"):format(path)
  end
  local open, why = package.loadlib(path, "luaopen_" .. name:gsub("%.", "_"))
  return open or "\n\t" .. why, path
end

local function absolute_only(path)
  local kept = {}
  for template in path:gmatch("[^;]+") do
    if template:sub(1, 1) == "/" then kept[#kept + 1] = template end
  end
  return table.concat(kept, ";")
end

-- load, loadfile and dofile as they were, for text.
local function refuse_bytecode()
  local load_any, loadfile_any = load, loadfile
  _G.load = function(chunk, name, _, ...)
    if select("#", ...) == 0 then return load_any(chunk, name, "t") end
    return load_any(chunk, name, "t", (...))
  end
  _G.loadfile = function(path, _, ...)
    if select("#", ...) == 0 then return loadfile_any(path, "t") end
    return loadfile_any(path, "t", (...))
  end
  _G.dofile = function(path)
    return assert(loadfile_any(path, "t"))()
  end
end

--- Once per state, before any script: the rules above hold from here on.
function M.prepare()
  package.path = absolute_only(package.path)
  package.cpath = native.secure and "" or absolute_only(package.cpath)
  package.searchers[2] = search_module
  table.insert(package.searchers, 3, search_native)
  refuse_bytecode()
end

--- Let a script find the modules that lie beside it, after all others.
function M.add_directory_of(path)
  local real = native.realpath(path)
  local directory = real and real:match("^(.*)/[^/]*$")
  if directory and not directory:find("[;?]") then
    package.path = ("%s;%s/?.lua;%s/?/init.lua"):format(package.path, directory, directory)
  end
end

return M
