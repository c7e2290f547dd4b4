--- Prints system calls as strace does.

local call_text = require "perfev.tool.system_calls.call_text"
local follow_files = require "perfev.tool.system_calls.descriptor_files"
local flags = require "perfev.tool.system_calls.flag_names"
local formats = require "perfev.tool.system_calls.call_formats"
local new_summary = require "perfev.tool.system_calls.call_summary"
local path_texts = require "perfev.tool.system_calls.path_texts"
local session = require "perfev.live.session"
local syscalls = require "perfev.tracepoint.syscalls"

-- The function of the kernel that reads all paths, and those of libc with a path by their calls; the number of the
-- argument. A probe takes a tenth of a second to close, so there are only the frequent ones.
local KERNEL = { getname_flags = 1 }
local LIBC = {
  { calls = { "open", "openat", "creat" }, functions = { open = 1, openat = 2, creat = 1, __open64_nocancel = 1 } },
  { calls = { "stat", "lstat", "newfstatat" }, functions = { stat = 1, lstat = 1, fstatat = 2 } },
  { calls = { "access", "faccessat", "faccessat2" }, functions = { access = 1 } },
  { calls = { "readlink", "readlinkat" }, functions = { readlink = 1 } },
  { calls = { "rename", "renameat", "renameat2" }, functions = { rename = { 1, 2 } } },
  { calls = { "unlink", "unlinkat" }, functions = { unlink = 1, unlinkat = 2 } },
  { calls = { "mkdir", "mkdirat" }, functions = { mkdir = 1 } },
  { calls = { "statx" }, functions = { statx = 2 } }, { calls = { "execve" }, functions = { execve = 1 } },
  { calls = { "chdir" }, functions = { chdir = 1 } },
}

local SIGKILL, SIG_DFL, DELIVERED = 9, 0, 0 -- DELIVERED: TRACE_SIGNAL_DELIVERED

local forks = { clone = true, clone3 = true, fork = true, vfork = true }

-- si_code (include/uapi/asm-generic/siginfo.h): of any signal, of some signals.
local codes = { [0] = "SI_USER", [0x80] = "SI_KERNEL", [-1] = "SI_QUEUE", [-2] = "SI_TIMER", [-3] = "SI_MESGQ",
  [-4] = "SI_ASYNCIO", [-5] = "SI_SIGIO", [-6] = "SI_TKILL" }
local codes_of = {
  SIGCHLD = { "CLD_EXITED", "CLD_KILLED", "CLD_DUMPED", "CLD_TRAPPED", "CLD_STOPPED", "CLD_CONTINUED" },
  SIGSEGV = { "SEGV_MAPERR", "SEGV_ACCERR" }, SIGBUS = { "BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR" },
  SIGFPE = { "FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV" }, SIGILL = { "ILL_ILLOPC", "ILL_ILLOPN" },
}

-- ---- paths ----

-- Returns the functions of libc for the selected calls.
local function libc_functions(selected)
  local functions = {}
  for _, entry in ipairs(LIBC) do
    local is_wanted = not selected
    for _, call in ipairs(entry.calls) do is_wanted = is_wanted or selected[call] end
    for name, argument in pairs(is_wanted and entry.functions or {}) do functions[name] = argument end
  end
  return functions
end

-- ---- lines ----

-- Returns an object that prints lines; `nr_tasks` is how many tasks there are, `files` of descriptor_files.lua or nil.
local function new_printer(find_path, files)
  local open -- { tid =, call = }: the call that began last, whose line is not printed yet
  local M = { nr_tasks = 0 }

  local function write(tid, text)
    print(M.nr_tasks > 1 and ("[pid %5d] %s"):format(tid, text) or text)
  end

  local function text_of(tid, call)
    return call_text.arguments(call.name, call.values, {
      path = function(address) return find_path(tid, address) end,
      file = files and function(fd) return files.find(call.pid, fd) end,
    })
  end

  -- Another task's line comes first: prints the begin of the open one.
  local function suspend(tid)
    if not open or open.tid == tid then return end
    write(open.tid, text_of(open.tid, open.call) .. " <unfinished ...>")
    open.call.is_resumed, open = true, nil
  end

  function M.begin(tid, call)
    suspend(tid)
    open = { tid = tid, call = call }
  end

  function M.finish(tid, call, result)
    suspend(tid)
    open = nil
    local text = call.is_resumed and ("<... %s resumed>"):format(call.name) or text_of(tid, call)
    local prefix = M.nr_tasks > 1 and #("[pid %5d] "):format(tid) or 0
    write(tid, ("%-" .. 39 - prefix .. "s = %s"):format(text .. ")", result))
  end

  function M.note(tid, text)
    suspend(tid)
    if open then suspend(-1) end
    write(tid, text)
  end

  return M
end

-- ---- processes ----

-- Returns join(tid, pid) -> process, and leave(tid) -> ?process.
local function new_processes(printer)
  local of_task, by_pid = {}, {}
  local function join(tid, pid)
    local process = of_task[tid]
    if process then return process end
    process = by_pid[pid] or { pid = pid, nr = 0 }
    of_task[tid], by_pid[pid], process.nr = process, process, process.nr + 1
    printer.nr_tasks = printer.nr_tasks + 1
    return process
  end
  local function leave(tid)
    local process = of_task[tid]
    if not process then return nil end
    of_task[tid], process.nr = nil, process.nr - 1
    if process.nr == 0 then by_pid[process.pid] = nil end
    return process
  end
  return join, leave
end

local function end_text(process, call)
  if call and call.name == "exit" then return ("exited with %d"):format(call.values[1] & 0xff) end
  if process.status then return ("exited with %d"):format(process.status) end
  return process.signal and "killed by " .. (flags.signal(process.signal) or process.signal) or "killed"
end

-- Returns the kernel's filter for the selected calls, with those that end a task.
local function filter_of(selected)
  local wanted = { exit = true, exit_group = true }
  for name in pairs(selected) do wanted[name] = true end
  return formats.filter(wanted)
end

-- Returns two functions: f(tid, address) -> ?string, and f(tid): its call has returned.
local function read_paths(opt)
  if opt.summary then return function() end, function() end end
  local find, _, forget = path_texts.reader(KERNEL, libc_functions(opt.selected), true)
  return function(tid, address) return find(tid, address, {}) end, forget
end

--- See perfev.tool.print_calls.
return function(opt)
  local s, calls, selected = session.default(), {}, opt.selected -- calls by thread: those that have not returned
  local generated = {} -- by process: the last signal that was sent to it
  local summary = opt.summary and new_summary()
  local find_path, forget = read_paths(opt)
  local files = opt.files and not summary and follow_files(find_path) or nil
  local printer = new_printer(find_path, files)
  local join, leave = new_processes(printer)
  local filter = selected and not files and not s.opts.input and filter_of(selected) or nil

  local function is_shown(name) return not selected or selected[name] end

  -- A new task begins with the return from the call that made it.
  local function is_birth(call, result) return not call.time and forks[call.name] and result == 0 end

  local function enter(time, tid, pid, id, values)
    local name = syscalls.name(id, s.machine)
    local call = { name = name, values = values, time = time, pid = pid }
    calls[tid] = call
    local process = join(tid, pid)
    if name == "exit_group" then process.status = values[1] & 0xff end
    if files then files.enter(tid, time) end
    if is_shown(name) and not summary and not opt.failed then printer.begin(tid, call) end
  end

  local function show_result(time, tid, call, result, file)
    local text = call_text.result(call.name, call.values, result, file)
    if opt.durations and call.time then text = ("%s <%.6f>"):format(text, (time - call.time) / 1e9) end
    printer.finish(tid, call, text)
  end

  local function finish(time, tid, pid, id, result)
    -- Without a call: it began before the run. The number of rt_sigreturn is gone when it returns.
    local call = calls[tid] or { name = syscalls.name(id, s.machine), pid = pid, values = {}, is_resumed = true }
    local name = call.name
    calls[tid] = nil
    join(tid, pid)
    local file = files and files.leave(tid, time, call, result)
    if is_shown(name) and not (opt.failed and not call_text.is_error(result)) then
      if summary then
        if call.time then summary.add(name, time - call.time, result) end
      elseif not is_birth(call, result) then
        show_result(time, tid, call, result, file)
      end
    end
    if files then files.forget(call) end
    forget(tid)
  end

  local function show_end(r)
    local call, process = calls[r.tid], leave(r.tid)
    calls[r.tid] = nil
    forget(r.tid)
    if r.tid == r.pid then generated[r.pid] = nil end
    if not process or summary then return end
    if call and is_shown(call.name) and not opt.failed then printer.finish(r.tid, call, "?") end
    printer.note(r.tid, ("+++ %s +++"):format(end_text(process, call)))
    printer.nr_tasks = printer.nr_tasks - 1
  end

  -- A fatal signal is delivered as SIGKILL (complete_signal()). The one that was sent is known if a watched task
  -- sent it.
  local function show_signal(tid, pid, number, code, handler)
    local process, sent = join(tid, pid), generated[pid]
    if number == SIGKILL and not sent then return end
    if number == SIGKILL then number, code = sent.number, sent.code end
    if handler == SIG_DFL then process.signal = number end
    local name = flags.signal(number) or ("SIGRT_%d"):format(number - 32)
    if summary or number == SIGKILL then return end
    printer.note(tid, ("--- %s {si_signo=%s, si_code=%s} ---"):format(name, name,
      codes[code] or codes_of[name] and codes_of[name][code] or code))
  end

  s:event { "raw_syscalls:sys_enter", filter = filter, fields = { "time", "tid", "pid", "args.id", "args.args" },
    sample = enter, exit = show_end }
  s:event { "raw_syscalls:sys_exit", filter = filter, fields = { "time", "tid", "pid", "args.id", "args.ret" },
    sample = finish }
  s:event { "signal:signal_generate", optional = true, fields = { "args.pid", "args.sig", "args.code", "args.result" },
    sample = function(pid, number, code, result)
      if result == DELIVERED then generated[pid] = { number = number, code = code } end
    end }
  s:event { "signal:signal_deliver", optional = true, sample = show_signal,
    fields = { "tid", "pid", "args.sig", "args.code", "args.sa_handler" } }
  if summary then s:done(summary.print) end
end
