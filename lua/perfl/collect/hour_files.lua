--- Files of rows by job, hour and host, in which each frame is once, also after a crash.
--
-- DIR/JOB/2026-11-28T07/HOST.ndjson has the rows, HOST.frames a line for each frame: its identity, losses, and the size
-- of the rows' file behind it. A batch first writes rows, then these lines, each followed by a sync of the file system.
-- Rows without a line are cut off when the file is next used. A frame always has the same file: its line shows whether
-- it is a duplicate.

local durable = require("perfev.base.lazy_module") "perfev.durable_file"
local json = require "perfev.base.json"
local seen_frames = require "perfl.collect.seen_frames"

local M = {}
local Files = {}
Files.__index = Files

local MOST_STATES = 8192 -- files whose frames are known without reading their lines again
local MOST_HOURS = 48    -- that are searched for the last frame of a host

--- A name as part of a path: bytes that are special there become %XX.
function M.path_word(name)
  local word = name:gsub("[^%w_.@+-]", function(c) return ("%%%02X"):format(c:byte()) end):gsub("^%.", "%%2E")
  return word == "" and "%" or word:sub(1, 200)
end

--- Opens a directory for writing; only one process may do so.
-- @treturn[1] files
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.open(dir)
  local ok, why = durable.make_directory(dir)
  if not ok then return nil, why end
  local lock
  lock, why = durable.open(dir .. "/.lock")
  if not lock then return nil, why end
  ok, why = lock:lock()
  if not ok then return nil, "another perfl collect writes there (" .. why .. ")" end
  return setmetatable({ dir = dir, lock = lock, states = {}, order = {}, batch = {}, dirs = {} }, Files)
end

local function identity(header) return ("%s %s"):format(header.start or "", header.name or "") end

-- "2026-11-28T07" of a time in ns since 1970, in UTC.
local function hour_of(ns) return os.date("!%Y-%m-%dT%H", math.max(0, ns // 1000000000)) end

local function path_of(self, header)
  local job, hour = M.path_word(header.job or ""), hour_of(header.filed or header.begin or 0)
  return ("%s/%s/%s/%s"):format(self.dir, job, hour, M.path_word(header.host or "")), job, hour
end

local function add_seen(state, header)
  local key = identity(header)
  state.seen[key] = state.seen[key] or seen_frames.new()
  return state.seen[key]:add(header.seq or 0, seen_frames.part(header))
end

-- Reads the lines of the frames -> state: `seen`, `size` (of the rows), `lines` (bytes)
local function read_state(path)
  local state = { seen = {}, size = 0, lines = 0 }
  local file = io.open(path .. ".frames", "rb")
  if not file then return state end
  for line in file:lines "L" do
    local frame = line:sub(-1) == "\n" and json.decode(line:sub(1, -2))
    if type(frame) ~= "table" or not math.tointeger(frame.size) then break end
    add_seen(state, frame)
    state.size, state.lines = frame.size, state.lines + #line
  end
  file:close()
  return state
end

local function make_directories(self, job, hour)
  for _, dir in ipairs { ("%s/%s"):format(self.dir, job), ("%s/%s/%s"):format(self.dir, job, hour) } do
    if not self.dirs[dir] then
      local ok, why = durable.make_directory(dir)
      if not ok then return nil, ("%s: %s"):format(dir, why) end
      self.dirs[dir] = true
    end
  end
  return true
end

-- Opens a file and cuts what no line vouches for.
local function open_cut(path, size)
  local file, why = durable.open(path)
  if file and file:size() > size then
    local ok
    ok, why = file:cut(size)
    if not ok then file = nil end
  end
  return file, why and ("%s: %s"):format(path, why)
end

local function open_state(path)
  local state = read_state(path)
  local rows <close>, why = open_cut(path .. ".ndjson", state.size)
  if not rows then return nil, why end
  local lines <close>, failure = open_cut(path .. ".frames", state.lines)
  if not lines then return nil, failure end
  state.size = rows:size() -- less, if somebody removed rows
  return state
end

local function forget_oldest(self)
  if #self.order <= MOST_STATES then return end
  for _ = 1, MOST_STATES // 2 do self.states[table.remove(self.order, 1)] = nil end
end

-- -> the state of a file | nil, message
local function state_of(self, header)
  local path, job, hour = path_of(self, header)
  if self.states[path] then return self.states[path], path end
  local ok, failure = make_directories(self, job, hour)
  if not ok then return nil, failure end
  local state, why = open_state(path)
  if not state then return nil, why end
  self.states[path] = state
  self.order[#self.order + 1] = path
  return state, path
end

--- Adds a frame to the batch.
-- @tparam table header
-- @tparam function rows  () -> its rows as text, their number; called unless the frame is a duplicate
-- @treturn[1] boolean  false: a duplicate
-- @treturn[2] nil
-- @treturn[2] string  the reason
function Files:add(header, rows)
  local state, path = state_of(self, header)
  if not state then return nil, path end
  local part, nr = seen_frames.part(header)
  local seen = state.seen[identity(header)]
  if seen and seen:has_part(header.seq or 0, part or 1) then return false end
  local text, count = rows()
  add_seen(state, header)
  local batch = self.batch[path]
  if not batch then
    batch = { state = state, rows = {}, lines = {}, size = state.size }
    self.batch[path] = batch
  end
  batch.rows[#batch.rows + 1] = text
  batch.size = batch.size + #text
  batch.lines[#batch.lines + 1] = json.encode {
    job = header.job, host = header.host, name = header.name, start = header.start, seq = header.seq or 0,
    part = nr and header.part, begin_ns = header.begin, end_ns = header["end"], rows = count, lost = header.lost,
    refused = header.refused, late = header.late, script_sha256 = header.script_sha256, size = batch.size,
    intervals = math.tointeger(tonumber(header.intervals)),
  } .. "\n"
  return true
end

local function append_all(self, suffix, field)
  for path, batch in pairs(self.batch) do
    local file <close>, why = durable.open(path .. suffix)
    if not file then return nil, ("%s%s: %s"):format(path, suffix, why) end
    local ok, failure = file:append(table.concat(batch[field]))
    if not ok then return nil, ("%s%s: %s"):format(path, suffix, failure) end
  end
  local ok, why = durable.sync_file_system(self.dir)
  return ok, why and ("%s: %s"):format(self.dir, why)
end

--- Writes the batch to the disk. After a failure nothing of it counts as written: the caller adds the frames again.
-- @treturn[1] boolean  true
-- @treturn[2] nil
-- @treturn[2] string  the reason
function Files:commit()
  if not next(self.batch) then return true end
  local ok, why = append_all(self, ".ndjson", "rows")
  if ok then ok, why = append_all(self, ".frames", "lines") end
  for path, batch in pairs(self.batch) do
    if ok then
      batch.state.size = batch.size
    else
      self.states[path] = nil -- what is on the disk is read again
    end
  end
  self.batch = {}
  if not ok then
    local kept = {}
    for _, path in ipairs(self.order) do
      if self.states[path] then kept[#kept + 1] = path end
    end
    self.order = kept
  end
  forget_oldest(self)
  return ok, why
end

--- The frames of this host, start and name that earlier runs wrote last, or nil.
function Files:last_seen(header)
  local job = ("%s/%s"):format(self.dir, M.path_word(header.job or ""))
  local hours = require "perfev.core".list(job) or {}
  table.sort(hours, function(a, b) return a > b end)
  for i = 1, math.min(#hours, MOST_HOURS) do
    local path = ("%s/%s/%s"):format(job, hours[i], M.path_word(header.host or ""))
    local state = self.states[path] or read_state(path)
    local seen = state.seen[identity(header)]
    if seen then return seen end
  end
end

function Files:close() self.lock:close() end

return M
