--- Finds and opens a mapped file and its debug files.
-- It searches this machine, the mount namespace of the process, a directory with another machine's files (`symfs`),
-- perf's cache (~/.debug) and, if `servers` is on, debuginfod servers. A file with another build-id than the mapped
-- file's is not used.
-- A watched process, or another user who may write to the directory, can plant any of these files. All are opened by
-- core.file, which accepts regular files of bounded size only. A mapped file may belong to any
-- user, because the process runs it. A debug file must belong to root, to the caller or to the
-- owner of the program.

local build_id = require "perfev.symbol.build_id"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local hex = require "perfev.base.hex"

local M = {}

local E = core.errno
local DEBUG = "/usr/lib/debug"
local SOURCE_MAX = 16 << 20 -- bytes of a source file

--- Search only below this directory; nil: search this machine.
M.symfs = nil
--- True to request missing files from debuginfod servers.
M.servers = false
--- Called while a file is downloaded: f() -> false cancels the download.
M.go_on = nil

--- Returns a path below ~/.debug, where perf keeps files by their build-ids; nil if HOME is not set.
function M.home(path)
  local dir = os.getenv("HOME")
  return dir and dir .. "/.debug/" .. path
end

local function in_symfs(path) return (M.symfs or "") .. path end

local function build_id_paths(id, ...)
  local out = {}
  for _, pattern in ipairs { ... } do
    local path = pattern:format(id:sub(1, 2), id:sub(3))
    out[#out + 1] = path:sub(1, 1) == "/" and in_symfs(path) or M.home(path)
  end
  return out
end

-- ---- access ----

local function effective_uid()
  local status = core.slurp("/proc/self/status") or ""
  return math.tointeger(tonumber(status:match "\nUid:%s*%d+%s+(%d+)"))
end

--- Lists the users whose files are trusted: root, the caller, the user who called sudo, and one more.
-- @tparam ?integer more  a user id
function M.owners(more)
  local owners, uid = { 0 }, effective_uid()
  owners[#owners + 1] = uid
  if uid == 0 then owners[#owners + 1] = math.tointeger(tonumber(os.getenv "SUDO_UID" or "")) end
  owners[#owners + 1] = more
  return owners
end

-- Quotes a path so that the user can paste it into a shell.
local function quote_path(path)
  if path:find("^[%w/._+@%%:=,-]+$") then return path end
  return "'" .. escape(path):gsub("'", "'\\''") .. "'"
end

-- Errors that are reported; a missing file is not.
local refusals = { [E.EINVAL] = true, [E.EISDIR] = true, [E.EFBIG] = true }

-- Opens a debug file of a program that belongs to owner -> what use(image) returns | nil
local function read_debug(path, owner, note, use)
  local file <close>, why, code = core.file(path, { owners = M.owners(owner) })
  local image = file and file:image()
  if file then return image and use(image) end
  if code == E.EPERM then
    note(("%s is not used: %s, and the program to user %d\n  try: %schown %d %s # if you trust it"):format(escape(path),
      why, owner, effective_uid() == 0 and "" or "sudo ", owner, quote_path(path)))
  elseif refusals[code] then
    note(("%s is not used: %s"):format(escape(path), why))
  end
end

-- ---- servers ----

local answers = {} -- kind and build-id -> path, or false
local unreachable = false -- stop asking: each timeout may take 90 s

-- Errors after which requests for other files would fail, too.
local is_unreachable = { ETIME = true, ECONNREFUSED = true, EHOSTUNREACH = true, ENETUNREACH = true }

local remedies = {
  ELIBACC = "install it (Debian: libdebuginfod1)",
  ENOSYS = "DEBUGINFOD_URLS=https://debuginfod.elfutils.org, or your distribution's",
}

local function request(id, kind, note)
  local ok, debuginfod = pcall(require, "perfev.debuginfod")
  if not ok then
    note("debug files are not fetched: the module perfev.debuginfod is not installed beside perfev")
    return nil
  end
  local path, why, code = debuginfod.find(id, kind, M.go_on)
  local name = code and core.errno[code]
  unreachable = unreachable or is_unreachable[name] or false
  if not path and name ~= "ENOENT" then
    note(("debug files are not fetched: %s%s"):format(why, remedies[name] and "\n  try: " .. remedies[name] or ""))
  end
  return path
end

--- Forgets the servers' answers.
function M.forget() answers, unreachable = {}, false end

-- The client caches a wrong answer as well.
local NO_ANSWER = "a debuginfod server's answer is not the %s of %s\n  try: rm %s, and another server"

local function explain_answer(kind, path, fetched) return NO_ANSWER:format(kind, escape(path), quote_path(fetched)) end

-- Downloads a file by its build-id, once -> path | nil. A simulated machine has no servers.
local function fetch_from_server(id, kind, note)
  if not M.servers or not id or core.hooked() then return nil end
  local key = kind .. id
  if answers[key] == nil and not unreachable then answers[key] = request(id, kind, note) or false end
  return answers[key] or nil
end

-- ---- mapped files ----

-- Reads a link of a process -> target | nil: the same as this process's
local function read_other_link(pid, link)
  local target = core.readlink(("/proc/%d/%s"):format(pid, link))
  return target and target ~= core.readlink("/proc/self/" .. link) and target or nil
end

--- Identifies the mount namespace or root of a process if it differs from the caller's; else nil.
function M.other_root(pid)
  return pid > 0 and (read_other_link(pid, "ns/mnt") or read_other_link(pid, "root")) or nil
end

--- Returns the directory that leads to the files of such a process, or nil.
function M.root_of(pid) return M.other_root(pid) and ("/proc/%d/root"):format(pid) end

local function has_id(file, id) return not id or build_id.of_file(file) == id end

-- Returns the link in /proc/PID/map_files to a file that the process maps now, or nil.
local function find_map_link(raw)
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
-- overlayfs and btrfs stat(2) has other devices than the record, so only the inode is compared.
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
  local now = find_map_link(raw)
  if now then coroutine.yield(now, alike, near) end
  -- A process that is gone mostly had the root of its parent.
  local parent = parent_of and parent_of(raw.pid)
  for _ = 1, ANCESTORS do
    root = parent and parent > 1 and M.root_of(parent)
    if root then coroutine.yield(root .. path, exact or alike, root .. path) end
    parent = parent and parent_of(parent)
  end
end

-- The same with hooks in place of the kernel: their inodes are invented, so only paths are used.
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

local function candidate_paths(world, raw, id, parent_of)
  return coroutine.wrap(function()
    if world.recording or M.symfs then
      coroutine.yield(in_symfs(raw.path), {}, in_symfs(raw.path))
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

--- Opens the file that a process has mapped.
-- @tparam ?function parent_of  pid -> the parent's pid
-- @treturn[1] table  `file` (open), `path` (beside which its debug files are), `from` and `rule` (how it was opened),
--   `uid` (owner), `replaceable` (true if its own path leads to it)
-- @treturn[2] nil
-- @treturn[2] ?string  its path, if another file is there
-- @treturn[2] ?string  the reason if the file at its path is refused
function M.find_mapped(world, raw, id, parent_of)
  local plain, wrong, why_not = in_symfs(raw.path), nil, nil
  for path, rule, near in candidate_paths(world, raw, id, parent_of) do
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

local OTHER_ID = "%s: its functions have no names: the file at that path now has another build-id\n"
  .. "  try: perf buildid-cache --add FILE, with the file that ran"
local OTHER_FILE = "%s: its functions have no names: the file at that path is not the one that ran\n"
  .. "  try: build with -Wl,--build-id, and keep the file with perf buildid-cache --add"

-- Opens a file by build-id, from ~/.debug or from servers -> place | nil, path of a server's answer
local function find_by_id(id, note)
  local rule = { owners = M.owners() }
  local function open_exact(path)
    local file = core.file(path, rule)
    if file and has_id(file, id) then
      return { file = file, path = path, from = path, rule = rule, uid = file:stat().uid, replaceable = true }
    end
    if file then file:close() end
  end
  for _, path in ipairs(build_id_paths(id, ".build-id/%s/%s/elf", ".build-id/%s/%s")) do
    local place = open_exact(path)
    if place then return place end
  end
  local fetched = fetch_from_server(id, "executable", note)
  return fetched and open_exact(fetched), fetched
end

-- Reads the symbols of an open file and closes it, unless it is kept. -> symbols, place | nil
local function read_symbols(symtab, place, is_kept)
  local image <close> = place.file:image()
  local symbols = image and symtab.read(image)
  if not is_kept then place.file:close() end
  if not symbols then return nil end
  return symbols, { path = place.path, from = place.from, rule = place.rule, uid = place.uid,
    replaceable = place.replaceable,
    open = setmetatable({ place.file }, { __mode = "v" }) } -- weak: the list of kept files owns it
end

--- Reads the symbols of a mapped file. Reports problems by note(text).
-- @tparam ?table kept  a result of `find_mapped` whose file is still open
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
    note(explain_answer("program", raw.path, fetched))
  elseif wrong then
    note((id and OTHER_ID or OTHER_FILE):format(escape(wrong)))
  elseif why_not then
    note(("%s: its functions have no names: %s"):format(escape(in_symfs(raw.path)), why_not))
  end
  return nil, not place and not wrong and not why_not and raw.path:sub(1, 1) == "/"
end

-- Returns what use(file) returns of the open file at a place, or nil.
local function with_file(place, use)
  local open = place.open[1]
  if open and open:is_open() then return use(open) end
  local file <close> = core.file(place.from, place.rule)
  if file then return use(file) end
end

--- Opens the file at a place and returns what use(image) returns, or nil.
function M.read(place, use)
  return with_file(place, function(file)
    local image = file:image()
    if image then return use(image) end
  end)
end

--- Returns bytes of the file at a place, or nil.
function M.part(place, offset, length)
  return with_file(place, function(file) return file:part(offset, length) end)
end

--- Returns the text of a source file -> text | nil, reason, errno
function M.source(path)
  local file <close>, why, code = core.file(in_symfs(path), { max = SOURCE_MAX })
  if not file then return nil, why, code end
  return file:bytes()
end

-- ---- debug files ----

-- True if the image is the debug file of a program, by its build-id, or without one by its checksum.
local function is_debug_file(symtab, facts, image)
  local id = symtab.build_id(image)
  if facts.build_id and id then return id == facts.build_id end
  return facts.crc ~= nil and core.crc32(image) == facts.crc
end

local function directory(path) return path:match("^(.*)/[^/]*$") or "." end

-- Lists the paths where gdb ("Separate Debug Files" in its manual) and perf look for a debug file.
local function debug_paths(facts, path)
  local list = {}
  if facts.build_id then
    list = build_id_paths(hex.of(facts.build_id), DEBUG .. "/.build-id/%s/%s.debug", ".build-id/%s/%s/debug",
      ".build-id/%s/%s/elf")
  end
  if facts.debuglink then
    local dir = directory(path)
    local inside = M.symfs and dir:sub(1, #M.symfs) == M.symfs and dir:sub(#M.symfs + 1) or dir
    for _, form in ipairs { dir .. "/", dir .. "/.debug/", in_symfs(DEBUG .. inside .. "/") } do
      list[#list + 1] = form .. facts.debuglink
    end
  end
  return list
end

--- Finds the debug file of a program.
-- @tparam table place   the program's `path` and `uid`
-- @tparam function use  use(image): reads it while it is open
-- @treturn[1] any       what use returned
-- @treturn[1] string    its path
-- @treturn[2] nil       it was not found
function M.find_debug(symtab, facts, place, note, use)
  local function use_debug(image)
    if is_debug_file(symtab, facts, image) then return { use(image) } end
  end
  local path = place.path
  for _, candidate in ipairs(debug_paths(facts, path)) do
    local used = candidate ~= path and read_debug(candidate, place.uid, note, use_debug)
    if used then return used[1], candidate end
  end
  local fetched = fetch_from_server(facts.build_id and hex.of(facts.build_id), "debuginfo", note)
  local used = fetched and read_debug(fetched, place.uid, note, use_debug)
  if used then return used[1], fetched end
  if fetched then note(explain_answer("debug file", path, fetched)) end
end

--- Finds the supplementary file into which dwz moved shared debug information -> what use(image) returns | nil
-- @tparam string path  path of the debug file
-- @tparam string name  path of the supplementary file, from the debug file
-- @tparam string id    build-id, as bytes
-- @tparam table place  the program's `path` and `uid`
-- @tparam function use  use(image): reads it while it is open
function M.find_supplement(symtab, path, name, id, place, note, use)
  local function use_supplement(image)
    return symtab.build_id(image) == id and use(image)
  end
  local list = build_id_paths(hex.of(id), DEBUG .. "/.build-id/%s/%s.debug", ".build-id/%s/%s/elf")
  list[#list + 1] = name:sub(1, 1) == "/" and in_symfs(name) or directory(path) .. "/" .. name
  list[#list + 1] = fetch_from_server(hex.of(id), "debuginfo", note)
  for _, candidate in ipairs(list) do
    local used = read_debug(candidate, place.uid, note, use_supplement)
    if used then return used end
  end
end

--- Reads the DWARF of a program, its own or its debug file's, and its supplement.
-- @tparam userdata symbols  of the program; they keep the DWARF
-- @tparam boolean is_apart  true if the DWARF is known to be in the debug file
-- @treturn boolean          true if it has DWARF
function M.read_dwarf(symtab, symbols, place, is_apart, note)
  local facts, path, is_read = symbols:facts(), place.path, nil
  local function use(image) return symbols:debug(image) or false end
  if facts.debug_info and not is_apart then is_read = M.read(place, use) end
  if is_read == nil then is_read, path = M.find_debug(symtab, facts, place, note, use) end
  if not is_read then return false end
  local name, id = symbols:supplement()
  local found = not name or M.find_supplement(symtab, path, name, id, place, note, function(image)
    symbols:supply(image)
    return true
  end)
  if not found then
    note(("%s: some lines and inlined functions are missing: its supplementary file %s is not installed\n"
      .. "  try: install it; the package of this debug file has it, too"):format(escape(path), escape(name)))
  end
  return true
end

return M
