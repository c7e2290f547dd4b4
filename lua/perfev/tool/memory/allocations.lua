--- Follows the allocations of programs, by probes on malloc and related functions: each with its stack, until it is
-- freed.
--
-- A free takes effect at the entry of its function, an allocation at the return: in between another thread can get the
-- freed address, and no other thread has the new one.

local core = require "perfev.core"
local session = require "perfev.live.session"

local M = {}

-- Name, arguments. bytes [* nr]: the size; old: freed if the call succeeds; place: where the result is stored.
local functions = {
  { "malloc", "bytes=$arg1:size_t" }, { "calloc", "bytes=$arg1:size_t", "nr=$arg2:size_t" },
  { "realloc", "bytes=$arg2:size_t", "old=$arg1:ptr" }, { "posix_memalign", "bytes=$arg3:size_t", "place=$arg1:ptr" },
  { "aligned_alloc", "bytes=$arg2:size_t" }, { "memalign", "bytes=$arg2:size_t" },
  { "valloc", "bytes=$arg1:size_t" }, { "pvalloc", "bytes=$arg1:size_t" },
}

local LEFT_MAX = 65536 -- allocations of processes that have ended
local STACK_BYTES = 4096 -- a copy of the stack of the caller of posix_memalign, which most often has the result in it
local result_register = ({ x86_64 = "ax", aarch64 = "x0", riscv64 = "a0" })[core.machine]

-- Returns what a call of posix_memalign stored: 0 if it failed, nil if that is not in the copy of the stack.
local function find_stored(place, regs, stack)
  if regs[result_register] ~= 0 then return 0 end
  local offset = place - regs.sp
  if offset < 0 or offset + 8 > #stack then return nil end
  return (string.unpack("I8", stack, offset + 1))
end

--- See perfev.tool.follow_allocations.
-- @tparam string library        the file with the functions
-- @tparam function with_stacks  f(spec): adds call chains to the declaration of an event
-- @treturn function             f() -> iterator over the allocations that are not freed, each with its age
-- @treturn function             f() -> the number of allocations whose address is unknown, and of those of ended
--   processes that are missing: they are many
function M.follow(library, with_stacks)
  local s = session.default()
  local held, nr_unknown, latest = {}, 0, 0 -- held by process and address
  local left, nr_missing = {}, 0 -- allocations of processes that have ended
  local all_calls = {} -- by function: by thread its call that has not returned

  local function take(pid, address)
    local one = held[pid] and held[pid][address]
    if one then held[pid][address] = nil end
    if one and not next(held[pid]) then held[pid] = nil end
    return one
  end

  local function put(one, address)
    held[one.pid] = held[one.pid] or {}
    held[one.pid][address] = one
  end

  local function finish(call, address, time, comm, stack)
    if address == nil then
      nr_unknown = nr_unknown + 1
    elseif address ~= 0 then
      put({ pid = call.pid, comm = comm, bytes = call.bytes, time = time, stack = stack }, address)
    elseif call.old and call.bytes > 0 then -- a failed realloc
      put(call.old, call.old_address)
    end
  end

  local function add_function(name, size, other)
    local calls = {}
    all_calls[name] = calls
    local kind = other and other:match "^%w+"
    local optional = name ~= "malloc"
    s:event { ("uprobe:%s:%s"):format(library, name), optional = optional, args = { size, other },
      fields = { "pid", "tid", "args.bytes", kind and "args." .. kind },
      sample = function(pid, tid, bytes, more)
        local call = { pid = pid, bytes = kind == "nr" and bytes * more or bytes, place = more }
        if kind == "old" then call.old, call.old_address = take(pid, more), more end
        calls[tid] = call
      end }
    local returned = with_stacks { ("uretprobe:%s:%s"):format(library, name), optional = optional }
    local is_stored = kind == "place"
    if not is_stored then
      returned.args = { "$retval:ptr" }
    elseif not tostring(returned.callchain):find "^dwarf" then -- which has all registers and a larger copy
      returned.sample_regs_user, returned.sample_stack_user = { "sp", result_register }, STACK_BYTES
    end
    returned.fields = { "tid", "time", "comm", "stack", is_stored and "regs_user" or "args.retval",
      is_stored and "stack_user" or nil }
    function returned.sample(tid, time, comm, stack, result, copy)
      local call = calls[tid]
      calls[tid], latest = nil, time
      if not call then return end
      finish(call, is_stored and find_stored(call.place, result, copy) or not is_stored and result or nil, time, comm,
        stack)
    end
    s:event(returned)
  end

  for _, one in ipairs(functions) do
    if one[1] ~= "posix_memalign" or result_register then add_function(table.unpack(one)) end
  end
  s:event { ("uprobe:%s:free"):format(library), args = { "address=$arg1:ptr" },
    fields = { "pid", "time", "args.address" }, sample = function(pid, time, address)
      latest = time
      take(pid, address)
    end }
  s:event {
    comm = function(r)
      if r.exec then held[r.pid] = nil end -- a new program, in memory of its own
    end,
    exit = function(r)
      latest = r.time
      for _, calls in pairs(all_calls) do calls[r.tid] = nil end
      if r.pid ~= r.tid then return end
      for _, one in pairs(held[r.pid] or {}) do
        if #left < LEFT_MAX then left[#left + 1] = one else nr_missing = nr_missing + 1 end
      end
      held[r.pid] = nil
    end,
  }

  local function each()
    return coroutine.wrap(function()
      for _, one in ipairs(left) do coroutine.yield(one, latest - one.time) end
      for _, of_process in pairs(held) do
        for _, one in pairs(of_process) do coroutine.yield(one, latest - one.time) end
      end
    end)
  end
  return each, function() return nr_unknown, nr_missing end
end

return M
