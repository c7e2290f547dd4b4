--- Defines and removes probes in tracefs, which can fetch memory and can be inherited by children, unlike the PMU's.
-- A definition is visible on the whole machine and outlives the process that wrote it, so its group has the pid in
-- its name: perfev_PID_N. Definitions are appended, one per write; truncating the file would delete the probes of all
-- users. Each is removed when its event is closed or at exit. The definitions of a perfev that was killed are removed
-- when the next one starts.
-- Source: Documentation/trace/uprobetracer.rst; kernel/trace/trace_dynevent.c.

local core = require "perfev.core"
local tracefs = require "perfev.tracepoint.tracefs"

local M = {}

local E = core.errno
local files = { uprobe = "uprobe_events", kprobe = "kprobe_events" }
local NAME_MAX = 63 -- MAX_EVENT_NAME_LEN is 64

-- The definitions of this process: "group/name" -> Probe.
local live = {}
local count = 0

-- ---- the text of a definition ----

local function is_event_name(text)
  return #text <= NAME_MAX and text:find("^[%a_][%w_]*$") ~= nil
end

-- A blank ends a word (for the kernel's isspace() 0xa0 is one), # ends the line, and ; is excluded as a precaution.
local function is_path(text)
  return text:find("^/") ~= nil and #text < 4096 and not text:find("[%c \x7f\xa0#;]")
end

local function is_symbol(text)
  return #text < 200 and text:find("^[%w_.$:]+$") ~= nil
end

local function is_offset(n) return math.type(n) == "integer" and n >= 0 end

local function is_word(text)
  return #text < 300 and text:find("^[%a_][%w_]*=[%w%%$@+%-()_\\]+:%w+$") ~= nil
end

local function refuse(what, text)
  return nil, ("%s '%s' has bytes that tracefs cannot accept\n  try: "):format(what, text)
    .. (what == "the path" and "a hard link to it, without blanks, '#' and ';' in its path" or "another name"), E.EINVAL
end

-- Formats the line of a definition and checks each part -> line | nil, message, errno
local function format_line(def, place)
  if not is_event_name(def.group) or not is_event_name(def.name) then return refuse("the name", def.name) end
  local location
  if def.kind == "uprobe" then
    if not is_path(def.path) then return refuse("the path", def.path) end
    if not is_offset(place) or def.ref and not is_offset(def.ref) then return refuse("the offset", tostring(place)) end
    location = ("%s:0x%x%s"):format(def.path, place, def.ref and ("(0x%x)"):format(def.ref) or "")
  else
    if not is_symbol(def.symbol) then return refuse("the function", def.symbol) end
    if not is_offset(place) then return refuse("the offset", tostring(place)) end
    location = place == 0 and def.symbol or ("%s+%d"):format(def.symbol, place)
  end
  local line = ("%s:%s/%s %s"):format(def.returns and "r" or "p", def.group, def.name, location)
  for _, word in ipairs(def.words or {}) do
    if not is_word(word) then return refuse("the argument", word) end
    line = line .. " " .. word
  end
  return line
end

-- ---- tracefs ----

local function find_root()
  local events, why, code = tracefs.events()
  if not events then return nil, why, code end
  return (events:gsub("/events$", ""))
end

--- Checks whether this kernel supports definitions of a kind.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.available(kind)
  local dir, why, code = find_root()
  if not dir then return nil, why, code end
  local path = dir .. "/" .. files[kind]
  local text, _, failed = core.slurp(path)
  if text or failed == E.EACCES or failed == E.EPERM then return true end
  if failed ~= E.ENOENT then
    return nil, ("cannot read %s: %s (%s)"):format(path, core.strerror(failed), E[failed] or failed), failed
  end
  return nil, ("this kernel has no %ss: neither a PMU '%s' nor tracefs' %s\n  try: a kernel with CONFIG_%s_EVENTS")
    :format(kind, kind, files[kind], kind:upper()), E.ENOENT
end

-- Returns the kernel's error for a refused definition, from its log.
local function read_kernel_error(dir, line)
  local last
  for text, command in (core.slurp(dir .. "/error_log") or ""):gmatch("error: ([^\n]*)\n%s*Command: ([^\n]*)") do
    if command == line then last = text end
  end
  return last
end

local function append(dir, kind, line)
  local path = dir .. "/" .. files[kind]
  local ok, _, code = core.append(path, line .. "\n")
  if ok then return true end
  local why = ("cannot write %s: %s (%s)"):format(path, core.strerror(code), E[code] or code)
  if code == E.EACCES or code == E.EPERM then
    return nil, why .. "\n  only root can define probes\n"
      .. "  try: sudo; with -a, integers in registers need no definition", code
  end
  if code == E.EROFS then return nil, why .. "\n  try: outside of the container, or where it is mounted rw", code end
  local said = read_kernel_error(dir, line)
  return nil, why .. (said and "\n  the kernel says: " .. said or ""), code
end

local function remove(dir, kind, group, name)
  return core.append(dir .. "/" .. files[kind], ("-:%s/%s\n"):format(group, name))
end

-- Iterates over perfev's definitions in a list: group, pid, name.
local function each_perfev_probe(text)
  return text:gmatch("[pr]%d*:(perfev_(%d+)_%d+)/([%w_]+) [^\n]*")
end

local function is_alive(pid)
  local _, _, code = core.slurp(("/proc/%d/stat"):format(pid))
  return code ~= E.ENOENT and code ~= E.ESRCH
end

--- Removes the definitions of perfev processes that have ended. All other probes stay.
-- @treturn table  `removed` and `kept`: lists of "uprobe perfev_PID_N/NAME"
-- @treturn ?string  the reason if a list could not be read
function M.sweep()
  local found = { removed = {}, kept = {} }
  local dir, why = find_root()
  if not dir then return found, why end
  local me, alive = core.pid(), {}
  for kind, file in pairs(files) do
    local text, _, code = core.slurp(dir .. "/" .. file)
    if not text and code ~= E.ENOENT then why = ("cannot read %s/%s: %s"):format(dir, file, core.strerror(code)) end
    local done = {}
    for group, pid, name in each_perfev_probe(text or "") do
      local id = group .. "/" .. name
      pid = math.tointeger(tonumber(pid))
      if alive[pid] == nil then alive[pid] = pid ~= me and is_alive(pid) end
      local stale = not live[id] and not alive[pid] and not done[id]
      if stale then done[id] = remove(dir, kind, group, name) ~= nil end
      if stale or not done[id] then
        table.insert(done[id] and found.removed or found.kept, kind .. " " .. id)
      end
    end
  end
  table.sort(found.removed)
  table.sort(found.kept)
  return found, why
end

--- The paths of the lists that have definitions of this process, which removes them when their events are closed.
function M.lists()
  local paths, seen = {}, {}
  for _, probe in pairs(live) do
    local path = probe.dir .. "/" .. files[probe.kind]
    if not seen[path] then paths[#paths + 1], seen[path] = path, true end
  end
  return paths
end

local swept = false

--- Calls `sweep` once in a process.
-- @tparam ?function note  called with a level and a text for each removed definition
function M.sweep_once(note)
  if swept then return end
  swept = true
  local found = M.sweep()
  for _, name in ipairs(note and found.removed or {}) do
    note(1, "removed " .. name .. ", left by a perfl that has ended")
  end
end

-- ---- the definitions of this process ----

local function make_event_name(def)
  local name = def.name:gsub("[^%w_]", "_"):sub(1, NAME_MAX)
  return name:find("^[%a_]") and name or ("_" .. name):sub(1, NAME_MAX)
end

local Probe = {}
Probe.__index = Probe

--- Removes the definition. Its event must be closed. A second call does nothing.
function Probe:remove()
  local id = self.group .. "/" .. self.name
  if not live[id] then return true end
  local ok, _, code = remove(self.dir, self.kind, self.group, self.name)
  -- EBUSY: other events still write through this event's descriptor. It is closed with the session.
  if code ~= E.EBUSY then live[id] = nil end
  if ok then return true end
  return nil, ("cannot remove the probe %s: %s\n  try: perfl cleanup"):format(id, core.strerror(code)), code
end
Probe.__close = Probe.remove

-- Called at exit, also when a callback exits. A definition in use cannot be removed, so the sessions are abandoned
-- first.
local function remove_all()
  for _, probe in pairs(live) do
    local owner = probe.used_by.owner
    if owner and owner.session.core then owner.session.core:abandon() end
    probe:remove()
  end
end

local watching_exit = false

-- Writes all places of a probe under one name: a function that was inlined has several.
local function write_definition(probe, def)
  for _, place in ipairs(def.places) do
    local line, why, code = format_line(def, place)
    if not line then return nil, why, code end
    local ok
    ok, why, code = append(probe.dir, def.kind, line)
    if not ok then return nil, why, code end
    live[probe.group .. "/" .. probe.name] = probe
  end
  return true
end

--- Defines a probe.
-- @tparam table def  `kind` ("uprobe", "kprobe"), `name` (becomes the event's), `returns`, `path` or `symbol`,
--   `places` (offsets in the file, or from the symbol), `ref` (offset of a semaphore), `words` (from
--   probe_arguments.words)
-- @tparam ?table owner  the event, whose session is abandoned before the definition is removed at exit
-- @treturn[1] table  `group`, `name`, `id`, `format`, `remove`
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.define(def, owner)
  local dir, why, code = find_root()
  if not dir then return nil, why, code end
  M.sweep_once()
  count = count + 1
  def.name, def.group = make_event_name(def), ("perfev_%d_%d"):format(core.pid(), count)
  for _, place in ipairs(def.places) do -- check all before writing the first
    local line
    line, why, code = format_line(def, place)
    if not line then return nil, why, code end
  end
  if not watching_exit then watching_exit = core.at_exit(remove_all) end
  local probe = setmetatable({ dir = dir, kind = def.kind, group = def.group, name = def.name,
    used_by = setmetatable({ owner = owner }, { __mode = "v" }) }, Probe)
  local ok
  ok, why, code = write_definition(probe, def)
  local tp
  if ok then tp, why, code = tracefs.find(def.group, probe.name) end
  if not tp then
    probe:remove()
    return nil, why, code
  end
  probe.id, probe.format = tp.id, tp.format
  return probe
end

return M
