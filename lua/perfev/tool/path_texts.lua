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

--- See perfev.tool.path_texts.
function M.reader(kernel, libc)
  local s = session.default()
  local addresses, texts, probes = {}, {}, {} -- the first two by thread: its last path
  local function add_probes(functions, place, kind)
    for name, argument in pairs(functions) do
      probes[#probes + 1] = s:event { place .. name, optional = true,
        args = { ("text=$arg%d:%s"):format(argument, kind), ("address=$arg%d:x64"):format(argument) },
        fields = { "tid", "args.address", "args.text" },
        sample = function(tid, address, text) addresses[tid], texts[tid] = address, text end }
    end
  end
  local is_replay = s.opts.input
  local is_copied, is_kernel = not is_replay and has_copies(), not is_replay and has_kprobes()
  if is_replay or is_kernel and not is_copied then add_probes(kernel, "kprobe:", "ustring") end
  if is_replay or not (is_copied or is_kernel) then add_probes(libc, "uprobe:libc:", "string") end
  local function find_text(tid, address, args)
    for name, value in pairs(args) do
      if name:find(COPY) then return value end
    end
    return addresses[tid] == address and texts[tid] or nil
  end
  local function describe()
    if is_copied then return "from the tracepoints" end
    for _, ev in ipairs(probes) do
      if not ev.error then return ev.name:find "^kprobe" and "by kprobes" or "by uprobes on libc" end
    end
  end
  return find_text, describe
end

return M
