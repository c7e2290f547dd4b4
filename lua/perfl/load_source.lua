--- Loads Lua source into perfl: as text only, from a file whose owner and mode are checked after it was opened.
--
-- Compiled Lua is never loaded, because Lua has had no bytecode verifier since 5.2. Root, and a perfl with file
-- capabilities, run nothing that another user could have written: no script, no module that the script requires, no
-- file that it loads with dofile or loadfile. The working directory is not searched.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local native = require "perfl.core"
local native_module = require "perfev.base.native_module"

local M = {}

--- Set by --i-trust-this: also run files that other users may write.
M.trust_all = false

local SOURCE_MAX = 64 << 20 -- bounds reading /dev/zero

-- A user namespace shows every user without a mapping as overflowuid (user_namespaces(7)), also the
-- machine's root, which owns the installed scripts. overflowuid is trusted unless the namespace
-- maps the machine's root: then this process has its rights.
local function is_unmapped(uid)
  if uid ~= tonumber((core.slurp("/proc/sys/kernel/overflowuid"))) then return false end
  local map = core.slurp("/proc/self/uid_map") or ""
  for first, outer, count in map:gmatch("(%d+)%s+(%d+)%s+(%d+)") do
    first = tonumber(first)
    if tonumber(outer) == 0 or uid >= first and uid - first < tonumber(count) then return false end
  end
  return map ~= ""
end

-- The user who called sudo(8) or pkexec(1), for root alone: other users can set these variables to anything.
local function caller_of_root()
  if native.euid ~= 0 then return nil end
  return tonumber(os.getenv("SUDO_UID") or os.getenv("PKEXEC_UID") or "")
end

--- True if a file's owner is root or the user who runs perfl, also through sudo.
function M.is_ours(uid)
  return uid == 0 or uid == native.uid or uid == caller_of_root() or is_unmapped(uid)
end

local GROUP_WRITE, OTHERS_WRITE = 0x10, 0x02 -- S_IWGRP, S_IWOTH

-- Checks that no other user could have written the file -> the reason to refuse it and the fix | nil if it is trusted
local function reason_to_distrust(path, mode, uid, gid)
  local quoted = "'" .. path:gsub("'", "'\\''") .. "'"
  if mode & OTHERS_WRITE ~= 0 then return "every user may write it", "chmod o-w " .. quoted end
  if not M.is_ours(uid) then
    return ("it belongs to user %d"):format(uid), ("perfl --i-trust-this %s"):format(quoted)
  end
  if mode & GROUP_WRITE ~= 0 and gid ~= 0 and not native.is_private_group(uid, gid) then
    return ("group %d may write it"):format(gid), "chmod g-w " .. quoted
  end
end

local function check_trust(path, mode, uid, gid)
  if M.trust_all or not (native.euid == 0 or native.elevated) then return true end
  local why, remedy = reason_to_distrust(path, mode, uid, gid)
  if not why then return true end
  return nil, ("will not run '%s' %s: %s\ntry: %s"):format(escape(path),
    native.euid == 0 and "as root" or "with perfl's capabilities", why, escape(remedy))
end

local function check_text(path, text)
  if #text > SOURCE_MAX then return nil, ("'%s' is too large for a script"):format(escape(path)) end
  if text:sub(1, 1) == "\27" then
    return nil, ("'%s' is compiled Lua: perfl runs source only"):format(escape(path))
  end
  if text:sub(1, 4) == "\127ELF" then
    return nil, ("'%s' is a program, not a script\nput the command after --\ntry: perfl SCRIPT -- %s"):format(
      escape(path), escape(path))
  end
  return text
end

local PIECE = 1 << 16 -- file:read(n) allocates n bytes

-- Reads one byte more than a source may have, at most -> text | nil, why
local function read_most(file)
  local pieces, bytes = {}, 0
  while bytes <= SOURCE_MAX do
    local piece, why = file:read(PIECE)
    if why then return nil, why end
    if not piece then break end
    pieces[#pieces + 1], bytes = piece, bytes + #piece
  end
  return table.concat(pieces)
end

--- Reads a source file.
-- @tparam string path  "-": standard input, which is trusted like the caller
-- @tparam[opt="cannot read the script: "] string lead  before the reason why a file cannot be opened
-- @treturn[1] string
-- @treturn[2] nil
-- @treturn[2] string
function M.read(path, lead)
  if path == "-" then
    local text, why = read_most(io.input())
    if not text then return nil, ("cannot read the script from standard input: %s"):format(why) end
    return check_text("standard input", text)
  end
  local file <close>, mode, uid, _, gid = native.open(path, "r")
  if not file then return nil, (lead or "cannot read the script: ") .. escape(mode) end
  local trusted, why = check_trust(path, mode, uid, gid)
  if not trusted then return nil, why end
  local text, failed = read_most(file)
  if not text then return nil, ("cannot read '%s': %s"):format(escape(path), failed) end
  return check_text(path, text)
end

--- Compiles text; skips a first line that begins with #.
-- @treturn[1] function
-- @treturn[2] nil
-- @treturn[2] string  "FILE:LINE: …"
function M.compile(text, chunkname, env)
  text = text:gsub("^\xef\xbb\xbf", ""):gsub("^#[^\n]*", "")
  return load(text, chunkname, "t", env or _G)
end

-- Replaces require's second searcher: loads text only, and only from trusted files.
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

-- True if only root may write this file and every directory above it.
local function is_writable_by_root_only(path)
  path = native.realpath(path)
  while path do
    local file <close>, mode, uid, _, gid = native.open(path == "" and "/" or path, "r")
    if not file or uid ~= 0 or mode & OTHERS_WRITE ~= 0 or mode & GROUP_WRITE ~= 0 and gid ~= 0 then return false end
    if path == "" then return true end
    path = path:gsub("/[^/]*$", "")
  end
  return false
end

-- The searcher for perfev's own shared objects (perfev.elf), which lie beside perfl. A perfl with rights that its
-- caller lacks loads only those that root alone may write, because it cannot restrict native code.
local loadlib, searchpath = package.loadlib, package.searchpath
local function search_own_module(name)
  if not name:find("^perfev%.[%l_]+$") then return nil end
  local templates, unknown, remedy = require("perfl.find_script").native_templates()
  if not templates then
    native_module.refused[name] = { unknown, remedy }
    return ("\n\t%s\n\ttry: %s"):format(unknown, remedy)
  end
  local path, tried = searchpath(name, templates)
  if not path then return tried end
  local file <close>, mode, uid, _, gid = native.open(path, "r")
  if not file then return "\n\t" .. mode end
  if not check_trust(path, mode, uid, gid) or native.elevated and not is_writable_by_root_only(path) then
    native_module.refused[name] = { ("users other than root may write %s, or a directory above it"):format(path),
                                    "chmod go-w, chown root" }
    return ("\n\tnot trusted: %s"):format(path)
  end
  local open, why = loadlib(path, "luaopen_" .. name:gsub("%.", "_"))
  if not open then native_module.set_unloadable(name, why) end
  return open or "\n\t" .. why, path
end

--- The same for perfl.restricted_script.
M.find_own_module = search_own_module

local function absolute_only(path)
  local kept = {}
  for template in path:gmatch("[^;]+") do
    if template:sub(1, 1) == "/" then kept[#kept + 1] = template end
  end
  return table.concat(kept, ";")
end

-- load() for text only.
local function load_text(load_any)
  return function(chunk, name, _, ...)
    if select("#", ...) == 0 then return load_any(chunk, name, "t") end
    return load_any(chunk, name, "t", (...))
  end
end

-- loadfile(path, mode, env) with the same checks as for scripts.
local function load_file(path, _, ...)
  local text, why = M.read(path or "-")
  if not text then return nil, why end
  return M.compile(text, path and "@" .. path or "=stdin", select("#", ...) > 0 and ... or nil)
end

local function run_file(path)
  local chunk, why = load_file(path)
  if not chunk then error(why, 0) end
  return chunk()
end

--- Replaces require's searchers, load, loadfile and dofile; called once, before any script runs.
function M.prepare()
  package.path = absolute_only(package.path)
  package.cpath = absolute_only(package.cpath)
  package.searchers[2] = search_module
  table.insert(package.searchers, 3, search_own_module)
  _G.load, _G.loadfile, _G.dofile = load_text(load), load_file, run_file
  if native.elevated then require("perfl.restricted_script").restrict(search_own_module) end
end

--- Lets a script require the modules beside it; they are searched last.
function M.add_directory_of(path)
  local real = native.realpath(path)
  local directory = real and real:match("^(.*)/[^/]*$")
  if directory and not directory:find("[;?]") then
    package.path = ("%s;%s/?.lua;%s/?/init.lua"):format(package.path, directory, directory)
  end
end

return M
