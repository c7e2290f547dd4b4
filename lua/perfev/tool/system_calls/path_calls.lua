--- Prints a line for each system call that takes a path: the scripts opensnoop and statsnoop.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local path_texts = require "perfev.tool.system_calls.path_texts"
local session = require "perfev.live.session"

local AT_EMPTY_PATH = 0x1000 -- fstat(2) of the C library: the call has a descriptor, not a path

return function(opt)
  local s, waiting, first = session.default(), {}, nil -- waiting by thread: its call that has not returned
  local find_text, describe, forget = path_texts.reader(opt.kernel, opt.libc)

  s:begin(function()
    local how = describe()
    print(("%12s %7s %-16s %-9s %s"):format("TIME(s)", "PID", "COMM", "RESULT", how and "PATH " .. how or "PATH"))
  end)

  local function enter(r, args)
    local address, flags
    for name, value in pairs(args) do
      if name == "filename" or name == "pathname" then address = value end
      if name == "flag" or name == "flags" then flags = value end
    end
    first = first or r.time
    waiting[r.tid] = { time = r.time, address = address, text = find_text(r.tid, address, args),
      is_hidden = opt.skips_descriptors and flags and flags & AT_EMPTY_PATH ~= 0 }
  end

  local function leave(r, args)
    local call, result = waiting[r.tid], args.ret
    local text = call and (call.text or find_text(r.tid, call.address, args))
    waiting[r.tid] = nil
    forget(r.tid)
    if not call or call.is_hidden or opt.failed and result >= 0 then return end
    print(("%12.6f %7d %-16s %-9s %s"):format((call.time - first) / 1e9, r.pid, escape(r.comm),
      result < 0 and core.errno[-result] or result, text and escape(text) or ("0x%x"):format(call.address)))
  end

  for i, name in ipairs(opt.calls) do
    -- The first exists on all machines. Without it the user learns why; others are of some machines only.
    local optional = i > 1 or nil
    s:event { "syscalls:sys_enter_" .. name, optional = optional, sample = enter }
    s:event { "syscalls:sys_exit_" .. name, optional = optional, sample = leave }
  end
  s:event { exit = function(r)
    waiting[r.tid] = nil
    forget(r.tid)
  end }
end
