--- The kernel's side of a ring: writes records and wakes the reader.
-- Rules: kernel/events/ring_buffer.c, __perf_output_begin() and perf_output_put_handle(); the
-- wakeups of sampling events: perf_output_sample() in kernel/events/core.c. AUX areas: perf_aux_output_begin() and
-- perf_aux_output_end() of the former.

local core = require "perfev.core"

local M = {}

-- struct perf_event_mmap_page
local HEAD, TAIL, DATA_OFFSET, DATA_SIZE = 1024, 1032, 1040, 1048
local AUX_HEAD, AUX_TAIL, AUX_OFFSET, AUX_SIZE = 1056, 1064, 1072, 1080
local CAPABILITIES, BIT0_IS_DEPRECATED = 40, 2

local Ring = {}
Ring.__index = Ring

--- A ring for an event that maps it.
-- @tparam table event
-- @tparam table opts  `size` (data bytes, 0: the page alone), `page`, `writable`, `start` (where head begins)
function M.new(event, opts)
  local watermark = event.attr.watermark and event.attr.wakeup_watermark or 0
  local self = setmetatable({
    memory = core.hooks.memory(opts.page + opts.size), size = opts.size, page = opts.page, fd = event.fd,
    cpu = event.cpu, writable = opts.writable, backward = event.attr.write_backward,
    watermark = watermark > 0 and math.min(watermark, opts.size) or opts.size // 2,
    lost = 0, samples = 0, woken = false, paused = false,
  }, Ring)
  self.wakeup = opts.start
  self.memory:u64(CAPABILITIES, BIT0_IS_DEPRECATED)
  self.memory:u64(DATA_OFFSET, opts.page)
  self.memory:u64(DATA_SIZE, opts.size)
  self.memory:u64(HEAD, opts.start)
  self.memory:u64(TAIL, opts.start)
  return self
end

--- Returns the writable bytes: CIRC_SPACE() keeps one byte free.
function Ring:space()
  if not self.writable then return self.size end -- the tail is ignored: old records are overwritten
  return self.size - 1 - (self.memory:u64(HEAD) - self.memory:u64(TAIL))
end

local function store(self, at, bytes)
  at = at & (self.size - 1)
  local first = bytes:sub(1, self.size - at)
  self.memory:write(self.page + at, first)
  self.memory:write(self.page, bytes:sub(#first + 1))
end

-- In a backward ring each record is stored before the previous one, so the newest is at head.
local function put(self, records)
  local head = self.memory:u64(HEAD)
  for _, bytes in ipairs(records) do
    if self.backward then head = head - #bytes end
    store(self, head, bytes)
    if not self.backward then head = head + #bytes end
  end
  self.memory:u64(HEAD, head)
  return self.backward and -head or head
end

--- Writes a record; `told` is the LOST record before it, if records were lost.
-- @treturn boolean  false: it is lost itself, and counted
function Ring:write(event, bytes, told)
  local need = #bytes + (told and #told or 0)
  if self.paused or self.size == 0 or need > self:space() then
    self.lost, event.lost = self.lost + 1, event.lost + 1
    return false
  end
  if told then self.lost = 0 end
  local written = put(self, told and { told, bytes } or { bytes })
  if written - self.wakeup > self.watermark then
    self.wakeup = self.wakeup + self.watermark
    self.woken = true
  end
  local every = not event.attr.watermark and event.attr.wakeup_events or 0
  if every > 0 and bytes:byte(1) == 9 then -- a sample; no other record counts
    self.samples = self.samples + 1
    if self.samples >= every then
      self.samples = self.samples - every
      self.wakeup = self.wakeup + 1 -- both kinds of wakeup share one mark, so this one delays the watermark by a byte
      self.woken = true
    end
  end
  return true
end

--- The result of poll(2), which clears the latch (perf_poll()).
function Ring:poll()
  local woken = self.woken
  self.woken = false
  return woken
end

--- The AUX area's bounds, as the reader wrote them into the page.
function Ring:aux_bounds()
  return self.memory:u64(AUX_OFFSET), self.memory:u64(AUX_SIZE)
end

--- An AUX area beside the ring.
function Ring:map_aux(event, len, writable, offset)
  local watermark = event.attr.aux_watermark or 0
  self.aux = {
    ring = self, memory = core.hooks.memory(len), len = len, offset = offset, writable = writable, fd = event.fd,
    watermark = watermark > 0 and watermark or len // 2, wakeup = 0,
  }
  return self.aux
end

--- Returns the traceable bytes: CIRC_SPACE() keeps one byte free. If the reader cannot write, its tail is ignored.
function Ring:aux_space()
  if not self.aux.writable then return self.aux.len end
  return math.max(0, self.aux.len - 1 - (self.memory:u64(AUX_HEAD) - self.memory:u64(AUX_TAIL)))
end

--- Stores bytes in the AUX area -> their offset since the first byte ever. Writes no record yet.
function Ring:store_aux(bytes)
  local area, head = self.aux, self.memory:u64(AUX_HEAD)
  local at = head % area.len
  local first = bytes:sub(1, area.len - at)
  area.memory:write(at, first)
  area.memory:write(0, bytes:sub(#first + 1))
  return head
end

--- Publishes the number of stored bytes; wakes the reader if they cross the watermark.
function Ring:tell_aux(len)
  local area, head = self.aux, self.memory:u64(AUX_HEAD) + len
  self.memory:u64(AUX_HEAD, head)
  if area.writable and head - area.wakeup >= area.watermark then
    area.wakeup = head - head % area.watermark
    self.woken = true
  end
end

return M
