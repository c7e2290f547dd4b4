--- Where the bytes of a mapped file are, and those of its debug files.
-- On this machine, in a process's own mount namespace, below a directory that has another machine's files
-- (`symfs`), where perf keeps what it has recorded (~/.debug), and on servers, if somebody said so (`servers`).
-- What is not the file that ran, by its build-id, is not used.

local core = require "perfev.core"
local hex = require "perfev.hex"

local M = {}

local DEBUG = "/usr/lib/debug"

--- Below this directory files are looked for, and nowhere else; nil: where they are.
M.symfs = nil
--- Ask debuginfod servers for what is not here.
M.servers = false
--- Asked while a server's file comes: f() -> false, no more of it.
M.go_on = nil

--- A path below ~/.debug, where perf keeps files by their build-ids; nil where there is no home.
function M.home(path)
  local dir = os.getenv("HOME")
  return dir and dir .. "/.debug/" .. path
end

local function there(path) return (M.symfs or "") .. path end

local function by_build_id(id, ...)
  local out = {}
  for _, pattern in ipairs { ... } do
    local path = pattern:format(id:sub(1, 2), id:sub(3))
    out[#out + 1] = path:sub(1, 1) == "/" and there(path) or M.home(path)
  end
  return out
end

-- ---- servers ----

local asked = {} -- kind and build-id -> path, or false
local silent = false -- none answered; each answer that does not come may take 90 s

-- No server is there: another file's fate is the same.
local nobody_there = { ETIME = true, ECONNREFUSED = true, EHOSTUNREACH = true, ENETUNREACH = true }

local remedies = {
  ELIBACC = "install it (Debian: libdebuginfod1)",
  ENOSYS = "DEBUGINFOD_URLS=https://debuginfod.elfutils.org, or your distribution's",
}

local function ask(id, kind, note)
  local ok, debuginfod = pcall(require, "perfev.debuginfod")
  if not ok then
    note("debug files are not fetched: the module perfev.debuginfod is not installed beside perfev")
    return nil
  end
  local path, why, code = debuginfod.find(id, kind, M.go_on)
  local name = code and core.errno[code]
  silent = silent or nobody_there[name] or false
  if not path and name ~= "ENOENT" then
    note(("debug files are not fetched: %s%s"):format(why, remedies[name] and "\n  try: " .. remedies[name] or ""))
  end
  return path
end

--- Ask servers anew.
function M.forget() asked, silent = {}, false end

-- The client keeps an answer whatever it is.
local NO_ANSWER = "a debuginfod server's answer is not the %s of %s\n  try: rm %s, and another server"

-- The path of what servers have of a build-id, asked once. What hooks stand for has no servers.
local function from_server(id, kind, note)
  if not M.servers or not id or core.hooked() then return nil end
  local key = kind .. id
  if asked[key] == nil and not silent then asked[key] = ask(id, kind, note) or false end
  return asked[key] or nil
end

-- ---- what is mapped ----

-- What a link of a process leads to, where that is not what ours does.
local function its_own(pid, link)
  local target = core.readlink(("/proc/%d/%s"):format(pid, link))
  return target and target ~= core.readlink("/proc/self/" .. link) and target or nil
end

--- A process in a mount namespace of its own, or with another root, has its own files: which, or nil.
function M.elsewhere(pid)
  return pid > 0 and (its_own(pid, "ns/mnt") or its_own(pid, "root")) or nil
end

-- Of this machine's files, one without a build-id is known by its inode: another may have its path by now, or the
-- path be that of a root which is gone with its process. The upper half may say whose it is of several file systems
-- (overlayfs, xino). What hooks stand for has made its numbers up.
local function is_inode(world, raw, path)
  if not raw.ino or world.recording or M.symfs or core.hooked() then return true end
  local stat = core.stat(path)
  return not stat or (stat.ino ~ raw.ino) & 0xffffffff == 0
end

-- Where the bytes of what is mapped may be, best first.
local function candidates(world, raw, id)
  local path, list = raw.path, {}
  if not world.recording and not M.symfs then
    if M.elsewhere(raw.pid) then list[1] = ("/proc/%d/root%s"):format(raw.pid, path) end
    local exe = ("/proc/%d/exe"):format(raw.pid)
    local runs = core.readlink(exe)
    if runs and runs:find(" (deleted)", 1, true) and (runs == path or runs == path .. " (deleted)") then
      list[1] = exe
    end
  end
  list[#list + 1] = there(path)
  if id then
    table.move(by_build_id(id, ".build-id/%s/%s/elf", ".build-id/%s/%s"), 1, 2, #list + 1, list)
  end
  return list
end

local OTHER_ID = "%s: its functions have no names: the file that is there now has another build-id\n"
  .. "  try: perf buildid-cache --add FILE, with the one that ran"
local OTHER_FILE = "%s: its functions have no names: it is not the file that ran, which had no build-id\n"
  .. "  try: a build with one (-Wl,--build-id), kept by perf buildid-cache --add"

--- The file that was mapped: its symbols, and its path. note(text) is told what is wrong.
function M.open(symtab, world, raw, id, note)
  local wrong
  local function read(path)
    local bytes = core.slurp(path)
    local file = bytes and symtab.read(bytes)
    local found = file and file:facts().build_id
    local is_it
    if id then is_it = found and hex.of(found) == id else is_it = file and is_inode(world, raw, path) end
    if is_it then return file, path end
    if file then wrong = wrong or path end
  end
  for _, path in ipairs(candidates(world, raw, id)) do
    local file = read(path)
    if file then return file, path end
  end
  local fetched = from_server(id, "executable", note)
  if fetched then
    local file, path = read(fetched)
    if file then return file, path end
    wrong = nil
    note(NO_ANSWER:format("program", raw.path, fetched))
  end
  if wrong then note((id and OTHER_ID or OTHER_FILE):format(wrong)) end
end

-- ---- debug files ----

-- A debug file is the one meant when it says so: by the build-id, or where there is none by its checksum.
local function is_its_debug(symtab, facts, bytes)
  local other = symtab.read(bytes)
  if not other then return false end
  local id = other:facts().build_id
  if facts.build_id and id then return id == facts.build_id end
  return facts.crc ~= nil and symtab.crc(bytes) == facts.crc
end

local function directory(path) return path:match("^(.*)/[^/]*$") or "." end

-- Where a debug file is looked for, as gdb does ("Separate Debug Files" in its manual), and where perf keeps them.
local function debug_candidates(facts, path)
  local list = {}
  if facts.build_id then
    list = by_build_id(hex.of(facts.build_id), DEBUG .. "/.build-id/%s/%s.debug", ".build-id/%s/%s/debug",
      ".build-id/%s/%s/elf")
  end
  if facts.debuglink then
    local dir = directory(path)
    local inside = M.symfs and dir:sub(1, #M.symfs) == M.symfs and dir:sub(#M.symfs + 1) or dir
    for _, form in ipairs { dir .. "/", dir .. "/.debug/", there(DEBUG .. inside .. "/") } do
      list[#list + 1] = form .. facts.debuglink
    end
  end
  return list
end

--- The debug file of one at a path, by its facts -> bytes, path; or nil.
function M.find_debug(symtab, facts, path, note)
  for _, candidate in ipairs(debug_candidates(facts, path)) do
    local bytes = candidate ~= path and core.slurp(candidate)
    if bytes and is_its_debug(symtab, facts, bytes) then return bytes, candidate end
  end
  local fetched = from_server(facts.build_id and hex.of(facts.build_id), "debuginfo", note)
  local bytes = fetched and core.slurp(fetched)
  if bytes and is_its_debug(symtab, facts, bytes) then return bytes, fetched end
  if fetched then note(NO_ANSWER:format("debug file", path, fetched)) end
end

--- What dwz moved out of a debug file at a path -> bytes; nil where it is not to be found.
-- @tparam string name  as the file has it
-- @tparam string id    bytes
function M.find_supplement(symtab, path, name, id, note)
  local list = by_build_id(hex.of(id), DEBUG .. "/.build-id/%s/%s.debug", ".build-id/%s/%s/elf")
  list[#list + 1] = name:sub(1, 1) == "/" and there(name) or directory(path) .. "/" .. name
  list[#list + 1] = from_server(hex.of(id), "debuginfo", note)
  for _, candidate in ipairs(list) do
    local bytes = core.slurp(candidate)
    local other = bytes and symtab.read(bytes)
    if other and other:facts().build_id == id then return bytes end
  end
end

return M
