--- The command that a session starts: release, status, end.

local core = require "perfev.core"
local explain = require "perfev.base.lazy_module" "perfev.event.explain_refusal"
local opened = require "perfev.event.open_event"
local targets = require "perfev.event.target"

local M = {}

local E = core.errno

-- The kernel stops tracing across a set-uid exec.
local UNWATCHED = "%s is no longer watched: it executed a program that is set-uid or unreadable for this user, so "
  .. "the kernel ended its events\n  try: as root (sudo perfl ... COMMAND, and not perfl ... sudo COMMAND)"

-- The time that a command may take to end after SIGTERM: steps, and the length of a step.
local GRACE_STEPS, GRACE_MS = 20, 50

--- Stops the session if its command has ended, and takes the status.
function M.poll_status(session)
  if not session.child or session.command_status then return end
  session.command_status = session.child:reap(false)
  if session.command_status then session.stopping = true end
end

-- Reports a target that still runs but has lost its events.
local function report_unwatched(session)
  if session.reported_unwatched or session.opts.input then return end
  local function report_if_running(pid, name)
    if not targets.is_running(pid) then return end
    session.reported_unwatched = true
    session:_log(0, UNWATCHED:format(name))
  end
  local opts = session.opts
  local is_target = not (opts.pid or opts.tid or opts.uid or opts.comm) -- else it runs beside them, unwatched
  if session.child and is_target then report_if_running(session.child:pid(), "the command") end
  for _, pid in ipairs(opts.pid or opts.tid or {}) do report_if_running(pid, "process " .. pid) end
end

--- Returns true if the events of all targets have ended, and the command has, too.
-- A task's events end before the task can be waited for: do_exit() of the kernel. A task that executes a file that is
-- set-uid or not readable loses its events and continues (begin_new_exec()), so the command is waited for.
function M.have_targets_ended(session)
  local is_over, damage = session.core:over()
  session.failure = session.failure or damage
  if not is_over then return false end
  if session.child and session.command_status then return true end
  report_unwatched(session)
  return not session.child
end

--- Waits briefly for the status of a command whose events have ended.
function M.await_status(session)
  if not session.child or session.command_status or not session.core:over() then return end
  session.core:wait(GRACE_MS)
  M.poll_status(session)
end

-- Removes all descriptors but the command's from the loop: they would end each wait for the command at once.
local function watch_command_alone(session)
  local pidfd = session.child:pidfd()
  for fd in pairs(session.handlers) do
    if fd ~= pidfd then session.core:unwatch(fd) end
  end
end

--- Ends the command, with SIGTERM and then with SIGKILL, and takes its status. A command that has not executed its
-- program yet still has our signal handlers, which would catch SIGTERM: it gets SIGKILL.
function M.end_command(session)
  if not session.child then return end
  if session.exec_done and not session.command_status then
    watch_command_alone(session)
    session.child:kill(core.signals.TERM)
    session.child:kill(core.signals.CONT) -- a stopped process gets SIGTERM only when it continues
    for _ = 1, GRACE_STEPS do
      session.command_status = session.child:reap(false)
      if session.command_status then break end
      session.core:wait(GRACE_MS)
    end
  end
  if not session.command_status then
    session.child:kill(core.signals.KILL)
    session.command_status = session.child:reap(true)
  end
  session.child:close()
  session.child = nil
end

--- Lets the command run. Events at addresses in its memory are opened after exec has laid it out and before its first
-- instruction.
function M.release_command(session)
  local waiting = opened.wait_for_exec(session.events)
  local ok, what, code = session.child:release(waiting)
  if not ok then
    session.command_status = { exit = code == E.ENOENT and 127 or 126 }
    local why = explain.command(what, code, session.opts.command[1])
    if waiting and code == E.EPERM then
      why = why .. "\n  for its breakpoint it is stopped by ptrace(2): it is traced already, or may not be"
        .. "\n  try: without strace or a debugger around perfl, or -p once the command runs"
    end
    return nil, why, code
  end
  session.exec_done = true
  if not waiting then return true end
  ok, what, code = opened.open_at_exec(session.events)
  if not ok then return nil, what, code end
  if session.recorder then session.recorder:add_events() end
  ok, what, code = session.child:resume()
  if not ok then return nil, explain.command(what, code, session.opts.command[1]), code end
  return true
end

return M
