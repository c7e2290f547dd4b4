--- Where the bytes of a mapped file are, and those of its debug files.
-- On this machine, in a process's own mount namespace, below a directory that has another machine's files
-- (`symfs`), where perf keeps what it has recorded (~/.debug), and on servers, if somebody said so (`servers`).
-- What is not the file that ran, by its build-id, is not used.
-- A watched process, or another user who may write to the directory, can plant any of these files. All are opened by
-- core.file, which accepts regular files of bounded size only. A mapped file may belong to anyone, because it is what
-- the process runs. A debug file must belong to root, to the caller or to the owner of the program.

local build_id = require "perfev.symbol.build_id"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local hex = require "perfev.base.hex"

local M = {}

local E = core.errno
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

-- ---- what is read ----

local function effective_uid()
  local status = core.slurp("/proc/self/status") or ""
  return math.tointeger(tonumber(status:match "\nUid:%s*%d+%s+(%d+)"))
end

--- The users whose files are trusted: root, the caller, the user who called sudo, and one more.
-- @tparam ?integer more  a user id
function M.owners(more)
  local owners, uid = { 0 }, effective_uid()
  owners[#owners + 1] = uid
  if uid == 0 then owners[#owners + 1] = math.tointeger(tonumber(os.getenv "SUDO_UID" or "")) end
  owners[#owners + 1] = more
  return owners
end

-- A path for a command line that the user may paste into a shell.
local function quoted(path)
  if path:find("^[%w/._+@%%:=,-]+$") then return path end
  return "'" .. escape(path):gsub("'", "'\\''") .. "'"
end

-- Reasons to report; a file that is missing is not reported.
local refusals = { [E.EINVAL] = true, [E.EISDIR] = true, [E.EFBIG] = true }

-- The bytes of a debug file of a program of that owner, or nil.
local function read_debug(path, owner, note)
  local file <close>, why, code = core.file(path, { owners = M.owners(owner) })
  if file then return file:bytes() end
  if code == E.EPERM then
    note(("%s is not used: %s, and the program to user %d\n  try: %schown %d %s # if you trust it"):format(escape(path),
      why, owner, effective_uid() == 0 and "" or "sudo ", owner, quoted(path)))
  elseif refusals[code] then
    note(("%s is not used: %s"):format(escape(path), why))
  end
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

local function no_answer(kind, path, fetched) return NO_ANSWER:format(kind, escape(path), quoted(fetched)) end

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

--- The directory that leads to the files of such a process, or nil.
function M.root_of(pid) return M.elsewhere(pid) and ("/proc/%d/root"):format(pid) end

local function has_id(file, id) return not id or build_id.of_file(file) == id end

-- The link in /proc/PID/map_files to a file that a process maps now, or nil.
local function mapped_now(raw)
  local maps = core.slurp(("/proc/%d/maps"):format(raw.pid)) or ""
  for range, inode, name in maps:gmatch("(%x+%-%x+) ..x. %x+ %S+ (%d+) +([^\n]+)") do
    local found = raw.ino and math.tointeger(tonumber(inode)) == raw.ino
      or not raw.ino and (name == raw.path or name == raw.path .. " (deleted)")
    if found then
      local start, stop = range:match "0*(%x+)%-0*(%x+)"
      return ("/proc/%d/map_files/%s-%s"):format(raw.pid, start, stop)
    end
  end
end

local ANCESTORS = 4

-- Yields paths at which a file mapped by a process of this machine may be found, the best first, each with core.file's
-- rule and the path beside which its debug files are. The path of the kernel's record is valid in the root of the
-- process, and may lead to another file by now: the file is identified by its device and inode, or by its build-id. On
-- overlayfs and btrfs stat(2) has other devices than the record, so the inode has to do.
local function paths_here(raw, id, parent_of)
  local path, process = raw.path, ("/proc/%d/"):format(raw.pid)
  local alike, exact = { ino = raw.ino }, raw.ino and { ino = raw.ino, dev = raw.dev }
  if exact then coroutine.yield(path, exact, path) end
  local root = M.root_of(raw.pid)
  local near = (root or "") .. path
  if raw.start and (exact or id) then
    coroutine.yield(("%smap_files/%x-%x"):format(process, raw.start, raw.stop), alike, near)
  end
  if root then coroutine.yield(near, alike, near) end
  coroutine.yield(path, alike, path)
  if not (exact or id) then return end
  coroutine.yield(process .. "exe", alike, near)
  local now = mapped_now(raw)
  if now then coroutine.yield(now, alike, near) end
  -- A process that is gone mostly had the root of its parent.
  local parent = parent_of and parent_of(raw.pid)
  for _ = 1, ANCESTORS do
    root = parent and parent > 1 and M.root_of(parent)
    if root then coroutine.yield(root .. path, exact or alike, root .. path) end
    parent = parent and parent_of(parent)
  end
end

-- The same where hooks stand for the kernel, whose inodes are made up.
local function paths_hooked(raw)
  local path, exe = raw.path, ("/proc/%d/exe"):format(raw.pid)
  local root, runs = M.root_of(raw.pid), core.readlink(exe)
  if runs == path .. " (deleted)" or runs == path and path:find(" (deleted)", 1, true) then
    coroutine.yield(exe, {}, path)
  elseif root then
    coroutine.yield(root .. path, {}, root .. path)
  end
  coroutine.yield(path, {}, path)
end

local function paths(world, raw, id, parent_of)
  return coroutine.wrap(function()
    if world.recording or M.symfs then
      coroutine.yield(there(raw.path), {}, there(raw.path))
    elseif core.hooked() then
      paths_hooked(raw)
    else
      paths_here(raw, id, parent_of)
    end
  end)
end

local function leads_to(path, file)
  local found, st = core.stat(path), file:stat()
  return found ~= nil and found.ino == st.ino and found.dev == st.dev
end

--- Open the file that a process has mapped.
-- @tparam ?function parent_of  pid -> the parent's pid
-- @treturn[1] table  `file` (open), `path` (beside which its debug files are), `from` and `rule` (how it was opened),
--   `uid` (owner), `replaceable` (true if its own path leads to it)
-- @treturn[2] nil
-- @treturn[2] ?string  its path, if another file is there
-- @treturn[2] ?string  the reason if the file at its path is refused
function M.find_mapped(world, raw, id, parent_of)
  local plain, wrong, why_not = there(raw.path), nil, nil
  for path, rule, near in paths(world, raw, id, parent_of) do
    local file, why, code = core.file(path, rule)
    if file and has_id(file, id) then
      return { file = file, path = near, from = path, rule = rule, uid = file:stat().uid,
        replaceable = leads_to(plain, file) }
    end
    if file then file:close() end
    if file or code == E.ESTALE then wrong = wrong or path == plain and path end
    if path == plain and (refusals[code] or code == E.EACCES) then why_not = why_not or why end
  end
  return nil, wrong, why_not
end

local OTHER_ID = "%s: its functions have no names: the file that is there now has another build-id\n"
  .. "  try: perf buildid-cache --add FILE, with the one that ran"
local OTHER_FILE = "%s: its functions have no names: it is not the file that ran, which had no build-id\n"
  .. "  try: a build with one (-Wl,--build-id), kept by perf buildid-cache --add"

-- The same from ~/.debug and from servers -> place | nil, path of a server's answer
local function find_by_id(id, note)
  local rule = { owners = M.owners() }
  local function opened(path)
    local file = core.file(path, rule)
    if file and has_id(file, id) then
      return { file = file, path = path, from = path, rule = rule, uid = file:stat().uid, replaceable = true }
    end
    if file then file:close() end
  end
  for _, path in ipairs(by_build_id(id, ".build-id/%s/%s/elf", ".build-id/%s/%s")) do
    local place = opened(path)
    if place then return place end
  end
  local fetched = from_server(id, "executable", note)
  return fetched and opened(fetched), fetched
end

-- Reads the symbols of an open file and closes it, unless it is kept. -> symbols, place | nil
local function read_symbols(symtab, place, is_kept)
  local bytes = place.file:bytes()
  local symbols = bytes and symtab.read(bytes)
  if not is_kept then place.file:close() end
  if not symbols then return nil end
  return symbols, { path = place.path, from = place.from, rule = place.rule, uid = place.uid,
    open = setmetatable({ place.file }, { __mode = "v" }) } -- weak: the list of kept files owns it
end

--- Read the symbols of a mapped file. Problems are reported by note(text).
-- @tparam ?table kept  a result of `find_mapped` that is still open
-- @treturn[1] userdata  the symbols
-- @treturn[1] table     the place: `path`, `uid`; for `bytes`
-- @treturn[2] nil
-- @treturn[2] boolean   true if no file was found
function M.open(symtab, world, raw, id, note, kept)
  local place, wrong, why_not = kept, nil, nil
  if not place then place, wrong, why_not = M.find_mapped(world, raw, id) end
  local symbols, read, fetched
  if place then symbols, read = read_symbols(symtab, place, place == kept) end
  if symbols then return symbols, read end
  if id then place, fetched = find_by_id(id, note) end
  if id and place then symbols, read = read_symbols(symtab, place) end
  if symbols then return symbols, read end
  if fetched then
    note(no_answer("program", raw.path, fetched))
  elseif wrong then
    note((id and OTHER_ID or OTHER_FILE):format(escape(wrong)))
  elseif why_not then
    note(("%s: its functions have no names: %s"):format(escape(there(raw.path)), why_not))
  end
  return nil, not place and not wrong and not why_not and raw.path:sub(1, 1) == "/"
end

--- The bytes of the file at a place, or nil.
function M.bytes(place)
  local open = place.open[1]
  if open and open:is_open() then return (open:bytes()) end
  local file <close> = core.file(place.from, place.rule)
  return file and file:bytes()
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

--- The debug file of a program, by its facts -> bytes, path; or nil.
-- @tparam table place  of the program: `path`, `uid`
function M.find_debug(symtab, facts, place, note)
  local path = place.path
  for _, candidate in ipairs(debug_candidates(facts, path)) do
    local bytes = candidate ~= path and read_debug(candidate, place.uid, note)
    if bytes and is_its_debug(symtab, facts, bytes) then return bytes, candidate end
  end
  local fetched = from_server(facts.build_id and hex.of(facts.build_id), "debuginfo", note)
  local bytes = fetched and read_debug(fetched, place.uid, note)
  if bytes and is_its_debug(symtab, facts, bytes) then return bytes, fetched end
  if fetched then note(no_answer("debug file", path, fetched)) end
end

--- What dwz moved out of a debug file -> bytes; nil where it is not to be found.
-- @tparam string path  the debug file's
-- @tparam string name  as that file has it
-- @tparam string id    bytes
-- @tparam table place  of the program
function M.find_supplement(symtab, path, name, id, place, note)
  local list = by_build_id(hex.of(id), DEBUG .. "/.build-id/%s/%s.debug", ".build-id/%s/%s/elf")
  list[#list + 1] = name:sub(1, 1) == "/" and there(name) or directory(path) .. "/" .. name
  list[#list + 1] = from_server(hex.of(id), "debuginfo", note)
  for _, candidate in ipairs(list) do
    local bytes = read_debug(candidate, place.uid, note)
    local other = bytes and symtab.read(bytes)
    if other and other:facts().build_id == id then return bytes end
  end
end

return M
