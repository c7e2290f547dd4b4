--- The live page of `perfl --http`: what the aggregators and profiles of the script have, as a page.
--
-- While a page is open, a pass is made every second: it reads the largest keys of each aggregator, takes what came
-- since the last pass into a slot of the history, and sends the changes to the pages. A pass is done in pieces, each
-- within a turn of the loop. A long pass is followed by a longer pause.

local _, this_file = ...
local asset = require "perfev.base.asset"
local core = require "perfev.core"
local exported = require "perfev.aggregate.exported"
local frames = require "perfl.http.page.frames"
local histories = require "perfl.http.page.history"
local json = require "perfev.base.json"
local perfev = require "perfev"
local message = require "perfl.message"
local pieces = require "perfl.http.page.pieces"
local values = require "perfl.http.page.values"

local M = {}
local Page = {}
Page.__index = Page

local REALTIME, MONOTONIC, OWN_CPU = 0, 1, 2
local MS = 1000000
local IDLE_NS = 300000000000 -- passes go on so long after the last page was closed
local REST, MOST_REST_NS = 20, 5000000000 -- a pass is followed by so many times its own duration, if that is less

local has_heat = { hist = true, quantile = true }

-- ---- what the page shows ----

-- The names of the columns, without the args. of a payload's field if they stay distinct.
local function column_names(by)
  local short, uses = {}, {}
  for i, name in ipairs(by) do
    short[i] = name:gsub("^args%.", ""):gsub(":text$", "")
    uses[short[i]] = (uses[short[i]] or 0) + 1
  end
  for i, name in ipairs(by) do
    if uses[short[i]] > 1 then short[i] = name end
  end
  return short
end

local with_unit = { sum = true, avg = true, min = true, max = true, p50 = true, p90 = true, p99 = true, p999 = true }

local function describe_aggregator(entry)
  local spec, list = entry.source:spec(), {}
  for i, name in ipairs(values.names(spec)) do
    list[i] = { name = name, unit = with_unit[name] and spec.unit or nil }
  end
  return { name = entry.name, type = "aggregator", kind = spec.kind, title = spec.title or entry.name:gsub("_", " "),
    unit = spec.unit, by = column_names(spec.by), values = list, heat = has_heat[spec.kind] or false }
end

local function describe_profile(entry)
  return { name = entry.name, type = "profile", title = entry.source.title or entry.name, values = entry.source.values }
end

local function is_profile(entry) return entry.kind == "profile" end

local function describe_run(self)
  local run = self.run
  return { script = run.script, command = run.command, host = run.host, version = run.version,
    started_ms = self.started_ms, slot_ms = histories.SLOT_MS, fine = histories.FINE, coarse = histories.COARSE,
    coarse_ms = histories.SLOT_MS * histories.MERGED }
end

local function now_ms(self) return (core.clock(MONOTONIC) - self.began) // MS end

-- ---- events ----

local function event(name, data) return ("event: %s\ndata: %s\n\n"):format(name, data) end

local function encode_sums(sums)
  local parts = {}
  for name, list in pairs(sums) do parts[#parts + 1] = json.encode(name) .. ":" .. json.encode(list) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function encode_slot(slot)
  return ('{"begin":%d,"end":%d,"heat":%s,"sums":%s}'):format(slot.begin, slot.finish, encode_sums(slot.heat),
    encode_sums(slot.sums))
end

local MOST_HELLO = 2 << 20 -- bytes of slots: a stream takes 4 MiB

-- The newest slots as JSON, the oldest first.
local function encode_slots(slots)
  local first, size, texts = #slots + 1, 0, {}
  while first > 1 and size < MOST_HELLO do
    first = first - 1
    texts[first] = encode_slot(slots[first])
    size = size + #texts[first]
    pieces.rest()
  end
  return "[" .. table.concat(texts, ",", first, #slots) .. "]"
end

-- The first events of a page: the run and the slots, then all values.
local function greet(self, stream)
  local parts = {}
  for i, entry in ipairs(self.entries) do
    parts[i] = json.encode((is_profile(entry) and describe_profile or describe_aggregator)(entry))
  end
  local slots = encode_slots(self.history.slots)
  stream:send(event("hello", ('{"run":%s,"parts":[%s],"slots":%s}'):format(json.encode(describe_run(self)),
    table.concat(parts, ","), slots)))
  stream:send(event("update", self:_update(self.states)))
end

--- The event of an update. states: the parts to send, name -> JSON; slot, merged: of the history
function Page:_update(states, slot, merged)
  local parts, run = {}, self.run
  for name, text in pairs(states) do parts[#parts + 1] = json.encode(name) .. ":" .. text end
  local totals = run.totals()
  return ('{"elapsed_ms":%d,"cpu_ms":%.3f,"totals":%s,"losses":%s,"parts":{%s}%s%s}'):format(now_ms(self),
    run.cpu_time() * 1000, json.encode { records = totals.delivered, lost = totals.lost, late = totals.late },
    json.encode(run.losses(totals)), table.concat(parts, ","), slot and ',"slot":' .. encode_slot(slot) or "",
    merged and merged[1] and ',"merged":' .. json.encode(merged) or "")
end

local function broadcast(self, text)
  for stream in pairs(self.streams) do
    if not stream:send(text) then self.streams[stream] = nil end
  end
end

-- ---- a pass ----

-- Takes what came since the last pass -> a slot
local function new_slot(self)
  local slot = { begin = self.slot_end, heat = {}, stacks = {}, sums = {} }
  for _, entry in ipairs(self.entries) do
    if is_profile(entry) then
      slot.stacks[entry.name], slot.sums[entry.name] = self.history:stacks_of(entry.name, entry.follower:delta())
      pieces.rest()
    elseif has_heat[entry.kind] then
      local cells = histories.heat_of(entry.follower:delta())
      slot.heat[entry.name] = cells[1] and cells or nil
      pieces.rest()
    end
  end
  slot.finish = math.max(now_ms(self), slot.begin + 1)
  self.slot_end = slot.finish
  return slot
end

-- Reads everything, and sends what has changed.
local function pass(self)
  local changed = {}
  for _, entry in ipairs(self.entries) do
    if not is_profile(entry) then
      local state = values.read(entry.follower:total())
      if state ~= self.states[entry.name] then changed[entry.name], self.states[entry.name] = state, state end
      pieces.rest()
    end
  end
  local slot = new_slot(self)
  local merged = self.history:add(slot)
  pieces.rest()
  for _, stream in ipairs(self.newcomers) do
    greet(self, stream)
    self.streams[stream] = true
  end
  local is_new = {}
  for _, stream in ipairs(self.newcomers) do is_new[stream] = true end
  self.newcomers = {}
  local text = event("update", self:_update(changed, slot, merged))
  for stream in pairs(self.streams) do
    if not is_new[stream] and not stream:send(text) then self.streams[stream] = nil end
  end
end

local function start_pass(self)
  self.pass, self.pass_ns, self.pass_began = coroutine.create(pass), 0, core.clock(MONOTONIC)
  self.passes_begun = self.passes_begun + 1
end

-- Runs a piece of the pass.
local function continue_pass(self)
  local before = core.clock(OWN_CPU)
  local ok, more = pcall(pieces.run, self.pass, self)
  local now = core.clock(MONOTONIC)
  self.pass_ns = self.pass_ns + core.clock(OWN_CPU) - before
  if ok and more then return end
  self.pass, self.passes = nil, self.passes + 1
  self.next_pass = math.max(self.pass_began + histories.SLOT_MS * MS, now + math.min(REST * self.pass_ns, MOST_REST_NS))
  if not ok then error(more, 0) end
end

--- Called in each turn of the loop.
-- @treturn ?integer  ns until the next call; nil: none is needed before the next request
function Page:work()
  local now = core.clock(MONOTONIC)
  if self.pass then
    continue_pass(self)
    return self.pass and 0 or self.next_pass - now
  end
  local is_urgent = self.newcomers[1] or self.passes < self.wanted_pass
  if is_urgent or next(self.streams) then self.wanted_until = now + IDLE_NS end
  if now > self.wanted_until then return nil end
  if now < self.next_pass and not is_urgent then return self.next_pass - now end
  start_pass(self)
  return 0
end

-- Waits, in a body in pieces, until a pass has ended that began after now. Its client may go away meanwhile.
local function wait_for_pass(self)
  local wanted = self.passes_begun + 1
  self.wanted_pass = wanted
  while self.passes < wanted and not self.finished do coroutine.yield "" end
end

--- The run has ended: makes a last pass, not in pieces, and ends the streams.
function Page:finish()
  self.finished = true
  local is_wanted = next(self.streams) or self.newcomers[1] or self.pass
  while self.pass do continue_pass(self) end
  if is_wanted then pass(self) end
  broadcast(self, event("end", "{}"))
  for stream in pairs(self.streams) do stream:finish() end
  self.streams = {}
end

-- ---- requests ----

-- name: of the page's own files, or a path below lua/
local function file(name, type)
  local path = name:find "/" and name or "perfl/http/page/" .. name
  return function() return { type = type .. "; charset=utf-8", body = asset(path, this_file) } end
end

local function whole_page()
  return (asset("perfl/http/page/page.html", this_file):gsub("%$VIEW", function()
    return asset "perfev/profile/html/frame_view.html"
  end))
end

local function number_of(text)
  return text and #text < 16 and text:find "^%d+$" and math.tointeger(tonumber(text)) or nil
end

local function bad(text) return { status = 400, body = text .. "\n" } end

local function answer_flame(self, request)
  local query, entry = request.query, nil
  for _, one in ipairs(self.entries) do
    if is_profile(one) and one.name == query.profile then entry = one end
  end
  if not entry then return bad "profile: not a profile of this script" end
  for _, name in ipairs { "from", "to", "mark" } do
    if query[name] and not number_of(query[name]) then return bad(name .. ": a number of ms expected") end
  end
  return { type = "application/json", next = pieces.body(function()
    local before, slots
    if query.mark then
      before, slots = self.history:split(number_of(query.mark))
    else
      slots = self.history:between(number_of(query.from) or 0, number_of(query.to) or math.maxinteger)
    end
    frames.yield_flame(self.history, entry.name, entry.source, slots, before)
  end) }
end

local function answer_data(self)
  return { type = "application/json", next = pieces.body(function()
    wait_for_pass(self)
    local totals, run = self.run.totals(), describe_run(self)
    run.elapsed_ms, run.records, run.lost = now_ms(self), totals.delivered, totals.lost
    coroutine.yield('{"run":' .. json.encode(run) .. ',"aggregators":[')
    local lead = ""
    for _, entry in ipairs(self.entries) do
      if not is_profile(entry) then
        coroutine.yield(('%s{"name":%s,"kind":%s,"rows":[\n'):format(lead, json.encode(entry.name),
          json.encode(entry.kind)))
        values.yield_rows(entry.follower:total())
        coroutine.yield "]}"
        lead = ","
      end
    end
    coroutine.yield '],"profiles":['
    lead = ""
    for _, entry in ipairs(self.entries) do
      if is_profile(entry) then
        coroutine.yield(lead)
        frames.yield_functions(self.history, entry.name, entry.source)
        lead = ","
      end
    end
    coroutine.yield "]}\n"
  end) }
end

local function answer_events(self)
  local stream = { type = "text/event-stream", stream = true }
  table.insert(self.newcomers, stream)
  return stream
end

--- Makes the page.
-- @tparam table entries  of exported.list(), each with `follower`
-- @tparam table run      `script`, `command`, `host`, `version`: texts; functions `totals()`, `cpu_time()` (seconds),
--                        `losses(totals)` (lines)
-- @treturn table         `routes`, `work()`, `finish()`
function M.new(entries, run)
  local self = setmetatable({ entries = entries, run = run, history = histories.new(), states = {}, streams = {},
    newcomers = {}, passes = 0, passes_begun = 0, wanted_pass = 0, next_pass = 0, wanted_until = -1, slot_end = 0,
    began = core.clock(MONOTONIC), started_ms = core.clock(REALTIME) // MS }, Page)
  self.routes = {
    ["/"] = function() return { type = "text/html; charset=utf-8", body = whole_page() } end,
    ["/page.css"] = file("page.css", "text/css"), ["/page.js"] = file("page.js", "text/javascript"),
    ["/timeline.js"] = file("timeline.js", "text/javascript"),
    ["/panels.css"] = file("perfev/picture/page/panels.css", "text/css"),
    ["/text.js"] = file("perfev/picture/page/text.js", "text/javascript"),
    ["/heat_colors.js"] = file("perfev/picture/page/heat_colors.js", "text/javascript"),
    ["/tables.js"] = file("perfev/picture/page/tables.js", "text/javascript"),
    ["/flamegraph.css"] = file("perfev/profile/html/flamegraph.css", "text/css"),
    ["/flamegraph.js"] = file("perfev/profile/html/flamegraph.js", "text/javascript"),
    ["/events"] = function() return answer_events(self) end,
    ["/flame.json"] = function(request) return answer_flame(self, request) end,
    ["/data.json"] = function() return answer_data(self) end,
  }
  return self
end

-- The lines of the summary about losses, each with its remedy.
local function losses(totals)
  local lines = message.summary_lines(totals, 0)
  table.remove(lines, 1)
  for i, line in ipairs(lines) do lines[i] = line:gsub("\n", "; ") end
  return lines
end

--- The page of a session that begins.
-- @tparam function cpu_time  of this process, in seconds
function M.of_session(session, script, command, cpu_time)
  local entries = exported.list()
  for _, entry in ipairs(entries) do
    entry.follower = exported.follow(entry, not (is_profile(entry) or has_heat[entry.kind]))
  end
  return M.new(entries, { script = script, command = "perfl " .. command, losses = losses, cpu_time = cpu_time,
    host = (core.slurp "/proc/sys/kernel/hostname" or ""):match "%S+" or "", version = perfev._VERSION,
    totals = function() return session:totals() end })
end

return M
