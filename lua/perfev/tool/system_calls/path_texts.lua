--- The texts of paths that tasks pass to system calls, whose tracepoints have only the address before Linux 6.19.

local list = require "perfev.event.list"
local session = require "perfev.live.session"

local M = {}

-- Since 6.19 the tracepoint copies the text: that of the argument filename is in __filename_val.
local COPY = "^__.*_val$"

local function has_copies()
  for _, field in ipairs(list.details({ name = "syscalls:sys_enter_openat", kind = "tracepoint" }).fields) do
    if field.name:find(COPY) then return true end
  end
  return false
end

local function has_kprobes()
  for _, entry in ipairs(list.list "probe") do
    if entry.name:find "^kprobe:" then return true end
  end
  return false
end

-- Returns keep(tid, address, text), find(tid, address) -> ?string, and forget(tid). A call has two paths at most.
local function new_memory()
  local last, before = {}, {} -- by thread: its last two paths
  local function keep(tid, address, text)
    before[tid], last[tid] = last[tid], { address = address, text = text }
  end
  local function find(tid, address)
    for _, path in ipairs { last[tid] or false, before[tid] or false } do
      if path and path.address == address then return path.text end
    end
  end
  return keep, find, function(tid) last[tid], before[tid] = nil, nil end
end

--- See perfev.tool.system_calls.path_texts.
-- @tparam table kernel  a function of the kernel -> the number of its argument, or a list of two
-- @tparam table libc    the same
-- @tparam[opt] boolean without_copies  true: of events that do not copy the texts
-- @treturn function  f(tid, address, args) -> ?string
-- @treturn function  f() -> ?string: where the texts come from
-- @treturn function  f(tid): its call has returned
function M.reader(kernel, libc, without_copies)
  local s = session.default()
  local keep, find, forget = new_memory()
  local probes = {}
  local function add_probe(name, argument, kind)
    probes[#probes + 1] = s:event { name, optional = true,
      args = { ("text=$arg%d:%s"):format(argument, kind), ("address=$arg%d:x64"):format(argument) },
      fields = { "tid", "args.address", "args.text" }, sample = keep }
  end
  local function add_probes(functions, place, kind)
    for name, arguments in pairs(functions) do
      for _, argument in ipairs(type(arguments) == "table" and arguments or { arguments }) do
        add_probe(place .. name, argument, kind)
      end
    end
  end
  local is_replay = s.opts.input
  local is_copied = not is_replay and not without_copies and has_copies()
  local is_kernel = not is_replay and has_kprobes()
  if is_replay or is_kernel and not is_copied then add_probes(kernel, "kprobe:", "ustring") end
  if is_replay or not (is_copied or is_kernel) then add_probes(libc, "uprobe:libc:", "string") end
  local function find_text(tid, address, args)
    for name, value in pairs(args) do
      if name:find(COPY) then return value end
    end
    return find(tid, address)
  end
  local function describe()
    if is_copied then return "from the tracepoints" end
    for _, ev in ipairs(probes) do
      if not ev.error then return ev.name:find "^kprobe" and "by kprobes" or "by uprobes on libc" end
    end
  end
  return find_text, describe, forget
end

return M
