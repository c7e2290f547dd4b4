--- Follows the memory that processes map, by their system calls mmap, munmap, mremap and brk: each mapping with its
-- stack, until it is unmapped.
--
-- An unmapping takes effect at the entry of its call, a mapping at the return: in between another thread can get the
-- same addresses.

local core = require "perfev.core"
local session = require "perfev.live.session"

local MAP_ANONYMOUS = 0x20
local PAGE = core.pagesize()
local LEFT_MAX = 65536 -- mappings of processes that have ended

local Pieces = {}
Pieces.__index = Pieces

-- The pieces of a process: { start, stop, mapping }, by address, without overlap. A mapping can have several pieces.
local function new_pieces() return setmetatable({}, Pieces) end

-- Returns the index of the first piece that ends above an address.
function Pieces:find(address)
  local low, high = 1, #self + 1
  while low < high do
    local middle = (low + high) // 2
    if self[middle].stop <= address then low = middle + 1 else high = middle end
  end
  return low
end

-- Removes what is mapped from `start` to `stop`. Returns the removed pieces.
function Pieces:remove(start, stop)
  local removed, i = {}, self:find(start)
  while self[i] and self[i].start < stop do
    local piece = table.remove(self, i)
    if piece.start < start then
      table.insert(self, i, { start = piece.start, stop = start, mapping = piece.mapping })
      i = i + 1
    end
    removed[#removed + 1] = { start = math.max(piece.start, start), stop = math.min(piece.stop, stop),
      mapping = piece.mapping }
    if piece.stop > stop then
      table.insert(self, i, { start = stop, stop = piece.stop, mapping = piece.mapping })
    end
  end
  return removed
end

-- Adds a piece, in the place of those that it overlaps.
function Pieces:add(start, stop, mapping)
  self:remove(start, stop)
  table.insert(self, self:find(start), { start = start, stop = stop, mapping = mapping })
end

local function pages(bytes) return (bytes + PAGE - 1) // PAGE * PAGE end

local M = {}

--- See perfev.tool.follow_mappings.
-- @tparam function with_stacks  f(spec): adds call chains to the declaration of an event
-- @treturn function             f() -> iterator over the mappings that are left: { pid, comm, bytes, kind, stack }
-- @treturn function             f() -> the number of mappings of ended processes that are not kept: too many
function M.follow(with_stacks)
  local s = session.default()
  local held, breaks = {}, {} -- by process: its pieces, its program break
  local left, nr_missing = {}, 0 -- mappings of processes that have ended
  local all_calls = {} -- by name: by thread the call that has not returned

  local function pieces_of(pid)
    held[pid] = held[pid] or new_pieces()
    return held[pid]
  end

  -- Declares both ends of a system call: enter(pid, args...) returns a table for leave(table, result, mapping).
  local function add_call(name, fields, enter, leave)
    local calls, arguments = {}, { "pid", "tid" }
    all_calls[name] = calls
    for i, field in ipairs(fields) do arguments[i + 2] = "args." .. field end
    s:event { "syscalls:sys_enter_" .. name, fields = arguments,
      sample = function(pid, tid, ...) calls[tid] = enter(pid, ...) end }
    local exit = with_stacks { "syscalls:sys_exit_" .. name, fields = { "pid", "tid", "comm", "args.ret", "stack" } }
    function exit.sample(pid, tid, comm, result, stack)
      local call = calls[tid]
      calls[tid] = nil
      if call then leave(call, result, { pid = pid, comm = comm, stack = stack, kind = call.kind }) end
    end
    s:event(exit)
  end

  local function restore(pieces, pid)
    for _, piece in ipairs(pieces) do pieces_of(pid):add(piece.start, piece.stop, piece.mapping) end
  end

  add_call("mmap", { "len", "flags" }, function(_, bytes, flags)
    return { bytes = pages(bytes), kind = flags & MAP_ANONYMOUS == 0 and "file" or "anonymous" }
  end, function(call, result, mapping)
    if result > 0 then pieces_of(mapping.pid):add(result, result + call.bytes, mapping) end
  end)

  add_call("munmap", { "addr", "len" }, function(pid, start, bytes)
    return { removed = pieces_of(pid):remove(start, start + pages(bytes)) }
  end, function(call, result, mapping)
    if result < 0 then restore(call.removed, mapping.pid) end
  end)

  add_call("mremap", { "addr", "old_len", "new_len" }, function(pid, start, old_bytes, bytes)
    local removed = pieces_of(pid):remove(start, start + pages(old_bytes))
    return { removed = removed, bytes = pages(bytes), kind = removed[1] and removed[1].mapping.kind or "anonymous" }
  end, function(call, result, mapping)
    if result < 0 then return restore(call.removed, mapping.pid) end
    pieces_of(mapping.pid):add(result, result + call.bytes, mapping)
  end)

  -- It returns the break, also if it cannot move it.
  add_call("brk", {}, function() return { kind = "heap" } end, function(_, now, mapping)
    local pid = mapping.pid
    local before = breaks[pid] or now
    breaks[pid] = now
    if now > before then pieces_of(pid):add(before, now, mapping) end
    if now < before then pieces_of(pid):remove(now, before) end
  end)

  -- Calls f(mapping) for each mapping of some pieces.
  local function each_mapping(pieces, f)
    local seen = {}
    for _, piece in ipairs(pieces) do
      local mapping = piece.mapping
      mapping.bytes = (seen[mapping] and mapping.bytes or 0) + piece.stop - piece.start
      seen[mapping] = true
    end
    for mapping in pairs(seen) do f(mapping) end
  end

  s:event {
    comm = function(r)
      if r.exec then held[r.pid], breaks[r.pid] = nil, nil end -- a new program, in memory of its own
    end,
    fork = function(r)
      if r.pid ~= r.ppid then breaks[r.pid] = breaks[r.ppid] end
    end,
    exit = function(r)
      for _, calls in pairs(all_calls) do calls[r.tid] = nil end
      if r.pid ~= r.tid then return end
      each_mapping(held[r.pid] or {}, function(mapping)
        if #left < LEFT_MAX then left[#left + 1] = mapping else nr_missing = nr_missing + 1 end
      end)
      held[r.pid], breaks[r.pid] = nil, nil
    end,
  }

  local function each()
    return coroutine.wrap(function()
      for _, mapping in ipairs(left) do coroutine.yield(mapping) end
      for _, pieces in pairs(held) do each_mapping(pieces, coroutine.yield) end
    end)
  end
  return each, function() return nr_missing end
end

return M
