--- The file of budgets in a user's repository: lines of text, a section for each command or function.
--
--     # a comment
--     [parse]
--     command ./parse sample.json
--     syscalls       <= 40
--     page-faults    <= 200
--     @ openat 3                             the accepted counts, written by perfl budget --update
--     @ openat 2 main;load;fopen64           the same, by stack
--
-- An update keeps comments, order and spaces.

local core = require "perfev.core"
local check = require "perfev.base.check"
local limit = require "perfev.budget.limit"
local option_tables = require "perfev.option_tables.budget"

local M = {}

local E = core.errno
local MOST_BYTES = 64 << 20
local NEAR = 10 -- page faults, or one in 10

local File = {}
File.__index = File

local function new_section(name, line)
  return { name = name, line = line, limits = {}, order = {}, baseline = nil }
end

local function fault(path, number, why, remedy)
  return nil, ("%s:%d: %s\n  try: %s"):format(path, number, why, remedy), E.EINVAL
end

-- "@ openat 3", "@ openat 2 main;load"
local function read_baseline(section, text)
  local name, n, frames = text:match "^(.-)%s+(%d+)%s*(.*)$"
  if not name or name == "" then return false end
  frames = frames:gsub("^#.*$", "") -- a comment
  local baseline = section.baseline or { counts = {}, stacks = {} }
  section.baseline = baseline
  if frames == "" then
    baseline.counts[name] = math.tointeger(tonumber(n))
  else
    baseline.stacks[name] = baseline.stacks[name] or {}
    baseline.stacks[name][frames] = math.tointeger(tonumber(n))
  end
  return true
end

local function read_entry(self, section, text, number)
  local word, rest = text:match "^(%S+)%s+(.-)%s*$"
  if not word then
    if text == "command" then return fault(self.path, number, "'command' has no words", "command ./program") end
    return fault(self.path, number, ("'%s' has no limit"):format(text), ("%s <= 12"):format(text))
  end
  if section.limits[word] or (word == "command" or word == "unstable") and section[word] then
    return fault(self.path, number, ("'%s' is there twice"):format(word), "one line for each event")
  end
  if word == "command" then
    section.command = rest
  elseif word == "unstable" then
    if rest ~= "true" then
      return fault(self.path, number, ("'unstable %s'"):format(rest), "unstable true, or no such line")
    end
    section.unstable = true
  elseif option_tables.budget[word] then
    return fault(self.path, number, ("'%s' is an option of perfev.budget, not an event"):format(word),
      "syscalls <= 12, or another event")
  else
    local found, why = limit.parse(rest)
    if not found then return nil, ("%s:%d: %s: %s"):format(self.path, number, word, why), E.EINVAL end
    section.limits[word] = found.text
    section.order[#section.order + 1] = word
  end
  return true
end

local function read_line(self, section, line, number)
  -- A # in quotes begins no comment: perfl splits a command's words.
  local text = line:match "^%s*(command%s+[^%s#].-)%s*$" or (" " .. line):gsub("%s#.*$", ""):match "^%s*(.-)%s*$"
  if text == "" then return section end
  local name = text:match "^%[(.-)%]$"
  if name then
    if self.by_name[name] then
      return fault(self.path, number, ("section [%s] is there twice"):format(name), "another name")
    end
    section = new_section(name, number)
    self.sections[#self.sections + 1], self.by_name[name] = section, section
    return section
  end
  if not section then
    return fault(self.path, number, ("'%s' is before the first section"):format(text), "[NAME] in a line above")
  end
  if text:sub(1, 1) == "@" then
    if read_baseline(section, line:match "^%s*@%s*(.-)%s*$") then return section end
    return fault(self.path, number, ("'%s' is not a count"):format(text), "perfl budget --update, which writes them")
  end
  local ok, why, code = read_entry(self, section, text, number)
  if not ok then return nil, why, code end
  return section
end

--- Parses the text of a file.
-- @treturn[1] file
-- @treturn[2] nil
-- @treturn[2] string  with the line's number
-- @treturn[2] integer errno
function M.parse(text, path)
  local self = setmetatable({ path = path, sections = {}, by_name = {}, lines = {} }, File)
  local section
  for line in text:gmatch "([^\n]*)\n?" do
    self.lines[#self.lines + 1] = line
  end
  if self.lines[#self.lines] == "" then self.lines[#self.lines] = nil end
  for number, line in ipairs(self.lines) do
    local next_section, why, code = read_line(self, section, line, number)
    if why then return nil, why, code end
    section = next_section
  end
  return self
end

--- Reads a file.
-- @treturn[1] file
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.read(path)
  local input, why, code = io.open(path, "rb")
  if not input then return nil, "cannot read " .. why, code end
  local text
  text, why, code = input:read(MOST_BYTES)
  input:close()
  if code then return nil, ("cannot read %s: %s"):format(path, why), code end
  text = text or ""
  if #text == MOST_BYTES then return nil, ("cannot read %s: larger than 64 MiB"):format(path), E.EFBIG end
  local file
  file, why, code = M.parse(text, path)
  if not file then return nil, why, code end
  file.text = text
  return file
end

--- A new file, which write() makes.
function M.new(path) return setmetatable({ path = path, sections = {}, by_name = {}, lines = {} }, File) end

function File:section(name) return self.by_name[name] end

--- A text as the name of a section: bytes that it cannot have are replaced.
function M.section_name(text) return (text:gsub("[%[%]#%c]", "_")) end

--- The names of the sections, in their order.
function File:names()
  local names = {}
  for i, section in ipairs(self.sections) do names[i] = section.name end
  return names
end

--- The end of a message about an unknown section.
function File:hint(name) return check.hint(name, self:names()) end

-- ---- updates ----

-- Page faults vary from run to run: a count that is near the accepted one does not replace it.
local function is_near(one, name, baseline, with_stacks)
  local was = name:find "%-faults" and baseline and baseline.counts[name]
  if not was or with_stacks and not baseline.stacks[name] then return false end
  return math.abs(one.counts[name] - was) <= math.max(NEAR, was // NEAR)
end

-- The lines of the accepted counts, sorted.
local function baseline_lines(one, baseline, with_stacks)
  local lines, names = {}, {}
  for name, n in pairs(one.counts) do
    if n > 0 then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local count, stacks, texts = one.counts[name], nil, {}
    if is_near(one, name, baseline, with_stacks) then
      count, stacks = baseline.counts[name], baseline.stacks[name]
    end
    lines[#lines + 1] = ("@ %s %d"):format(name, count)
    stacks = with_stacks and (stacks or one:stacks_of(name)) or {}
    for text, n in pairs(stacks) do
      if n > 0 then texts[#texts + 1] = text end
    end
    table.sort(texts)
    for _, text in ipairs(texts) do lines[#lines + 1] = ("@ %s %d %s"):format(name, stacks[text], text) end
  end
  return lines
end

local function is_looser(now, before) return now.low < before.low or now.high > before.high end

-- A line with the limit that accepts the row's count -> the line, what changed or nil
local function changed_line(line, row)
  local name, gap, rest = line:match "^%s*(%S+)(%s+)(.*)$"
  local text = rest:gsub("%s#.*$", ""):match "^(.-)%s*$"
  local before = limit.parse(text)
  local adapted = limit.adapted(before, row.count)
  if adapted == text then return line end
  local from = line:find(text, #name + #gap, true)
  local how = is_looser(limit.parse(adapted), before) and "looser" or "tighter"
  return line:sub(1, from - 1) .. adapted .. line:sub(from + #text),
    ("%s: %s, was %s (%s)"):format(name, adapted, text, how)
end

local function rows_by_name(one)
  local rows = {}
  for _, row in ipairs(one.rows) do rows[row.name] = row end
  return rows
end

-- A section starts with its header and ends before the next one.
local function end_of(self, section)
  for _, other in ipairs(self.sections) do
    if other.line > section.line then return other.line - 1 end
  end
  return #self.lines
end

local function renumber(self)
  local again = assert(M.parse(table.concat(self.lines, "\n") .. "\n", self.path))
  self.sections, self.by_name, self.lines = again.sections, again.by_name, again.lines
end

--- Adds a section, with its limits in order.
-- @tparam string name
-- @tparam table entries  { { event, limit } ... }
function File:add_section(name, entries)
  if #self.lines > 0 then self.lines[#self.lines + 1] = "" end
  self.lines[#self.lines + 1] = ("[%s]"):format(name)
  for _, entry in ipairs(entries) do self.lines[#self.lines + 1] = ("%-24s %s"):format(entry[1], entry[2]) end
  renumber(self)
end

local function is_baseline(line) return line:find "^%s*@" ~= nil end
local function is_blank(line) return line:find "^%s*$" ~= nil end

--- Writes a result into a section: its limits, if they are to be adapted, and the accepted counts.
-- @tparam string name
-- @tparam result one
-- @tparam table opts  `limits` (boolean): adapt them; `stacks` (boolean): also by stack
-- @treturn {string,...}  what changed
function File:update(name, one, opts)
  local section, rows, changes = self.by_name[name], rows_by_name(one), {}
  local with_stacks = opts.stacks
  for _ in pairs(section.baseline and section.baseline.stacks or {}) do with_stacks = true end
  local out, last = {}, end_of(self, section)
  table.move(self.lines, 1, section.line, 1, out)
  local place -- of the accepted counts: the old ones', else the end of the section
  for number = section.line + 1, last do
    local line = self.lines[number]
    local row = opts.limits and rows[line:match "^%s*([^%s#@]+)" or ""]
    if is_baseline(line) then
      place = place or #out + 1
    else
      if row and row.count and section.limits[row.name] then
        line, changes[#changes + 1] = changed_line(line, row)
      end
      out[#out + 1] = line
    end
  end
  if not place then
    place = #out + 1
    while is_blank(out[place - 1]) do place = place - 1 end
  end
  local lines = baseline_lines(one, section.baseline, with_stacks)
  table.move(out, place, #out, place + #lines)
  table.move(lines, 1, #lines, place, out)
  table.move(self.lines, last + 1, #self.lines, #out + 1, out)
  self.lines = out
  renumber(self)
  return changes
end

local function put(path, text)
  local out, why = io.open(path, "wb")
  if not out then return nil, why end
  local ok
  ok, why = out:write(text)
  local closed, why_not = out:close()
  if ok and closed then return true end
  return nil, ("%s: %s"):format(path, why or why_not)
end

--- Writes the file: the same one, which keeps its owner, mode and links. If that fails, its text of before is restored.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
function File:write()
  local text = table.concat(self.lines, "\n") .. "\n"
  if text == self.text then return true end
  local ok, why = put(self.path, text)
  if ok then
    self.text = text
    return true
  end
  if self.text then put(self.path, self.text) end
  return nil, "cannot write " .. why
end

--- Writes the accepted counts of a result, with stacks, to a section of a file; both are made if missing.
-- @treturn true | nil, message, errno
function M.save(path, name, one)
  local file, why, code = M.read(path)
  if not file then
    if code ~= E.ENOENT then return nil, why, code end
    file = M.new(path)
  end
  if not file:section(name) then
    local entries = {}
    for i, row in ipairs(one.rows) do entries[i] = { row.name, row.limit } end
    file:add_section(name, entries)
  end
  file:update(name, one, { stacks = true })
  return file:write()
end

return M
