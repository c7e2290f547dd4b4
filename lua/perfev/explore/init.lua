--- The page of the script explore: all samples of a session, and the flame graph, tables and histograms of the range
-- of time that the reader selects. See tool.explore in doc/api/tool.md.
--
-- The page has every sample's time in ns, and a range means what --from and --to mean: both ends belong to it. Stacks
-- are a tree as in a flame graph; a sample has the number of the node where its stack ends.

local _, this_file = ...
local asset = require "perfev.base.asset"
local call_tree = require "perfev.profile.call_tree"
local columns = require "perfev.explore.columns"
local escape = require "perfev.base.escape"
local json = require "perfev.base.json"
local markup = require "perfev.picture.markup"
local naming_progress = require "perfev.symbol.naming_progress"
local profiles = require "perfev.profile"
local session = require "perfev.live.session"

local M = {}
local Samples = {}
Samples.__index = Samples

local OFF_CPU = "off-CPU"

-- ---- samples ----

-- Returns the number of the value in the list, which may be new.
local function number_in(list, numbers, key, make)
  local number = numbers[key]
  if not number then
    list[#list + 1] = make()
    number = #list
    numbers[key] = number
  end
  return number
end

-- A word of the commands that the page shows.
local function shell_word(word)
  word = tostring(word)
  local is_plain = word:find "^[%w_./:@%%+,=-]+$"
  return escape(is_plain and word or "'" .. word:gsub("'", "'\\''") .. "'")
end

-- What a value of the event counts.
local function value_of(name)
  local is_clock = name:find "^cpu%-clock" or name:find "^task%-clock"
  return is_clock and { name = "time", unit = "ns" } or { name = name, unit = "count" }
end

local function event_number(self, name, is_wait)
  return number_in(self.events, self.event_numbers, name, function()
    return { name = escape(name), word = shell_word(name), wait = is_wait,
      value = is_wait and { name = "time", unit = "ns" } or value_of(name) }
  end)
end

local function task_number(self, pid, tid, comm)
  local of = self.task_numbers[comm]
  if not of then
    of = {}
    self.task_numbers[comm] = of
  end
  return number_in(self.tasks, of, pid << 32 | tid & 0xffffffff, function() return { pid, tid, escape(comm) } end)
end

local function stack_number(self, comm, stack)
  local of = self.stack_numbers[comm]
  if not of then
    of = {}
    self.stack_numbers[comm] = of
  end
  return number_in(self.stacks, of, stack or false, function() return { comm, stack } end)
end

-- Adds a sample. value: what it stands for: the period, or the duration of a wait that ends at this time.
local function add(self, name, is_wait, time, cpu, pid, tid, comm, value, stack)
  if not time then
    self.without_time = self.without_time + 1
    return
  end
  if self.nr >= self.max_samples then
    self.left_out = self.left_out + 1
    self.first_left_out = self.first_left_out or time
    return
  end
  comm, self.start, self.nr = comm or "[unknown]", self.start or time, self.nr + 1
  self.columns:add(columns.zigzag(time - (self.last or time)), event_number(self, name, is_wait), (cpu or -1) + 1,
    task_number(self, pid or -1, tid or -1, comm), stack_number(self, comm, stack), value or 1)
  self.last = time
end

-- ---- events ----

-- Software events that happen, other than the clocks: each occurrence is a sample.
local occurrences = {}
for name in ([[page-faults faults minor-faults major-faults context-switches cs cpu-migrations migrations
  alignment-faults emulation-faults cgroup-switches bpf-output]]):gmatch "%S+" do occurrences[name] = true end

-- Returns how often the event samples: -F concerns those that have no occurrences to count and no terms of their own.
local function sampling(name, hz)
  local word = name:match "^[%w_-]+"
  if occurrences[word] then return nil, 1 end
  local is_plain = name:find "^[%w_-]+$" or name:find "^[%w_-]+:[ukhpPGHSDIeW]+$"
  if not is_plain then return nil, nil end
  return hz > 0 and hz or nil, hz == 0 and 1 or nil
end

local DEFAULT = "* | cpu-clock" -- all events of a recording; a live session has no "*"
local SWITCHES = "context-switches"

local function declare(self, tool, who, opt, name)
  local left_out = opt.off_cpu and name == DEFAULT and SWITCHES -- the waits have them
  local freq, period = sampling(name == DEFAULT and "cpu-clock" or name, opt.frequency)
  session.default():event(tool.with_stacks(who, opt, {
    name, freq = freq, period = period, extra_sample_type = { "period" },
    where = not opt.idle and { "tid", "!=", 0 } or nil,
    fields = { "event", "time", "cpu", "pid", "tid", "comm", "period", "stack" },
    sample = function(event, time, cpu, pid, tid, comm, value, stack)
      if event.name == left_out then return end
      add(self, event.name, nil, time, cpu, pid, tid, comm, value, stack)
    end,
  }))
end

-- A wait begins with a sample of context-switches and ends with the record of the task's return to a CPU, as in the
-- script offcputime.
local function declare_waits(self, tool, who, opt)
  local begun = {}
  session.default():event(tool.with_stacks(who, opt, {
    SWITCHES, period = 1, exclude_kernel = false,
    fields = { "time", "tid", "comm", "stack" },
    where = { "tid", "!=", 0 },
    sample = function(time, tid, comm, stack) begun[tid] = { time, comm, stack } end,
    switch = function(r)
      local start = not r.out and begun[r.tid]
      if not start then return end
      begun[r.tid] = nil
      add(self, OFF_CPU, true, r.time, r.cpu, r.pid, r.tid, start[2], r.time - start[1], start[3])
    end,
    exit = function(r) begun[r.tid] = nil end,
  }))
end

-- ---- the page ----

local SECOND = 1000000000

local function seconds(ns) return ("%d.%09d"):format(ns // SECOND, ns % SECOND) end

-- Returns the words of a command that reads the recording with the same selection of tasks and CPUs; nil: none exists.
local function replay_words(opts)
  local file = opts.input or opts.record
  if not file or file == "-" then return nil end
  local words = { "-i", shell_word(file) }
  for _, row in ipairs { { "cpus", "-C" }, { "pid", "-p" }, { "tid", "-t" }, { "comm", "--comm" } } do
    local value = opts.input and opts[row[1]]
    if value then
      words[#words + 1] = row[2]
      words[#words + 1] = shell_word(type(value) == "table" and table.concat(value, ",") or value)
    end
  end
  return table.concat(words, " ")
end

local function losses(totals)
  local lost = totals.lost or 0
  return lost > 0 and ("%d records are lost: the page does not have their samples"):format(lost) or nil
end

local function notes_of(self)
  local notes = {}
  if self.nr == 0 then notes[1] = "no samples: the page is empty" end
  if self.left_out > 0 then
    notes[#notes + 1] = ("%d samples from %s s on are left out: the page has the first %d (--max-samples)"):format(
      self.left_out, seconds(self.first_left_out), self.nr)
  end
  if self.without_time > 0 then notes[#notes + 1] = ("%d samples have no time"):format(self.without_time) end
  notes[#notes + 1] = losses(session.default():totals())
  return notes
end

local function part(name) return asset(name, this_file) end

-- "<" in a name does not end the element that has the data.
local function encode(value) return (json.encode(value):gsub("<", "\\u003c")) end

local function write_data(self, opt, write, progress)
  local profile = profiles._unlisted { title = "" }
  local nodes = profile:_add_each(self.stacks, progress)
  local tree = call_tree.build(profile)
  for i, node in ipairs(nodes) do nodes[i] = tree.places[node] end
  write(('{"about":%s,\n"flame":%s,\n"nodes":%s,\n"tasks":%s,\n"chunks":'):format(encode {
    title = opt.title or "", start = seconds(self.start or 0), samples = self.nr, events = self.events,
    notes = notes_of(self), replay = replay_words(session.default().opts), idle = opt.idle or false,
    side = opt.user and " --user" or opt.kernel and " --kernel" or "",
  }, encode { functions = call_tree.function_rows(tree), func = tree.func, depth = tree.depth }, encode(nodes),
    encode(self.tasks)))
  self.columns:write(write)
  write "}"
end

local function write_page(self, opt, write, progress)
  local title = opt.title or "Samples over time"
  local fill = { TITLE = markup(escape(title)), VIEW = part "perfev/profile/html/frame_view.html",
    STYLE = part "perfev/profile/html/flamegraph.css" .. part "perfev/picture/page/panels.css"
      .. part "perfev/explore/explore.css",
    SCRIPT = table.concat { part "perfev/profile/html/flamegraph.js", part "perfev/picture/page/text.js",
      part "perfev/picture/page/heat_colors.js", part "perfev/picture/page/tables.js",
      part "perfev/explore/samples.js", part "perfev/explore/charts.js", part "perfev/explore/explore.js" } }
  local head, tail = part("perfev/explore/explore.html"):match "^(.*)%$DATA(.*)$"
  write((head:gsub("%$(%u+)", fill)))
  write_data(self, opt, write, progress)
  write((tail:gsub("%$(%u+)", fill)))
end

--- See perfev.tool.explore.
-- @tparam table tool  the module perfev.tool, which loads this one
function M.run(tool, who, opt)
  local self = setmetatable({ columns = columns.new(6), events = {}, event_numbers = {}, tasks = {}, task_numbers = {},
    stacks = {}, stack_numbers = {}, nr = 0, left_out = 0, without_time = 0, max_samples = opt.max_samples }, Samples)
  for _, name in ipairs(#opt.events > 0 and opt.events or { DEFAULT }) do declare(self, tool, who, opt, name) end
  if opt.off_cpu then
    tool.require_all_cpus(who)
    declare_waits(self, tool, who, opt)
  end
  session.default():done(function()
    if self.nr == 0 and self.without_time > 0 then
      tool.refuse(who, "the samples of the recording have no times\n  try: perf record -T", 1)
    end
    write_page(self, opt, function(text) io.write(text) end, naming_progress(who))
    for _, note in ipairs(notes_of(self)) do io.stderr:write(who, ": ", note, "\n") end
  end)
end

return M
