--- perfl top: collects the samples of each interval, and shows them: on a terminal with keys, else as plain tables.

local calls = require "perfev.profile.call_tree"
local cgroup = require "perfev.event.cgroup"
local drawing = require "perfev.tool.top.drawing"
local escape = require "perfev.base.escape"
local event_loop = require "perfev.live.event_loop"
local keys = require "perfev.tool.top.keys"
local models = require "perfev.tool.top.model"
local profiles = require "perfev.profile"
local session = require "perfev.live.session"
local terminal = require "perfev.tool.top.terminal"

local M = {}

local STDIN = 0
local ESCAPE_TIME = "50ms" -- the bytes of one key arrive within this time
local PLAIN_ROWS = 19 -- with the lines around them 23, of a terminal's 24

-- ---- plain tables ----

-- The stacks of a session stay in memory: one for each address, not for each way there.
local function show_plain(s, opt, spec, title)
  local profile, nr_shown = profiles {}, 0
  spec.sample, spec.sample_max_stack = profile:sampler(), 1
  local event = s:event(spec)
  local function show(duration)
    io.write(nr_shown > 0 and "\n" or "", ("%s: %d in %.1f s\n"):format(title(), profile:total(),
      duration / 1e9), profile:top { limit = PLAIN_ROWS })
    io.flush()
    nr_shown = nr_shown + 1
    profile:clear()
  end
  s:every(opt.interval / 1e9, function() show(opt.interval) end)
  s:done(function()
    if profile:total() > 0 or nr_shown == 0 then show(profile.duration or 0) end
  end)
  return event
end

-- ---- the samples of an interval ----

-- The idle tasks are not in /proc; the kernel has them in the root.
local function cgroup_of(pid)
  local path = pid == 0 and "/" or cgroup.of_task(pid)
  return path and escape(path) or "(ended)"
end

local function task_of(s, comm, thread, pid)
  local leader = s:task(pid)
  return { comm = comm, thread = thread, cgroup = cgroup_of(pid),
    process = ("%s %d"):format(leader and leader.comm and escape(leader.comm) or comm, pid) }
end

-- Returns the sample callback, and a function that returns the interval since its last call; see rows.lua. `duration`:
-- the length of an interval, in ns.
local function collector(s, duration)
  local all, interval = profiles {}, nil
  local function add(comm, pid, tid, stack, nr)
    comm = escape(comm or "?")
    local thread = ("%s %d"):format(comm, tid)
    interval.tasks[thread] = interval.tasks[thread] or task_of(s, comm, thread, pid)
    interval.profile:add_under(thread, stack, nr)
  end
  return all:sampler { by = { "comm", "pid", "tid", "stack" }, add = add }, function()
    interval = { tasks = {}, profile = profiles {} }
    all:total() -- calls add
    interval.duration, interval.profile.duration = duration, duration
    all:clear()
    interval.tree, interval.total = calls.build(interval.profile), interval.profile:total()
    return interval
  end
end

-- ---- saving ----

local function is_free(name)
  local file <close> = io.open(name, "rb")
  return file == nil
end

-- Writes a new file that only this user can read: the shell's noclobber opens it with O_EXCL.
local function write_new(name, bytes)
  local pipe = assert(io.popen(("umask 077; set -C; cat 2>/dev/null >%s"):format(name), "w"))
  local ok = pipe:write(bytes)
  return pipe:close() and ok
end

--- Writes the samples of an interval to a new file in the working directory.
-- @treturn string  the message for the user
function M.save(interval)
  if not interval or interval.total == 0 then return "no samples to write" end
  local number, name = 1, "perfl-top.pb.gz"
  while not is_free(name) do
    number = number + 1
    name = ("perfl-top-%d.pb.gz"):format(number)
  end
  if not write_new(name, interval.profile:pprof()) then return ("cannot write %s here"):format(name) end
  return ("wrote %s: %d samples, for go tool pprof"):format(name, interval.total)
end

-- ---- the terminal ----

-- Calls f; after an error the terminal is restored before perfl prints it.
local function guarded(restore, f)
  return function(...)
    local ok, why = xpcall(f, debug.traceback, ...)
    if ok then return why end
    restore()
    error(why, 0)
  end
end

local function show_on_terminal(s, opt, spec, title)
  local sample, take = collector(s, opt.interval)
  local model, restore = nil, nil
  local colours, unread = terminal.colours(), ""
  local function draw()
    io.stdout:write(drawing.text(drawing.lines(model), model.width, colours))
    io.stdout:flush()
  end
  local function resize()
    local height, width = terminal.size()
    model:resize(width, height)
    draw()
  end
  local function press(is_all, bytes)
    local list
    list, unread = keys.split(unread .. bytes, is_all)
    for _, key in ipairs(list) do
      local wish = model:press(key)
      if wish == "quit" then return s:stop() end
      if wish == "save" then model.message = M.save(model.interval) end
    end
    draw()
  end
  local function read_keys()
    local bytes = s.core:read(STDIN, 512)
    if (bytes or "") == "" then return s:stop() end -- the terminal is gone
    press(false, bytes)
    if unread ~= "" then s:after(ESCAPE_TIME, guarded(restore, function() press(true, "") end)) end
  end
  spec.sample = sample
  local event = s:event(spec)
  s:begin(function()
    model, restore = models.new(escape(title())), terminal.take()
    s:signal("WINCH", guarded(restore, resize))
    s:every(opt.interval / 1e9, guarded(restore, function()
      model:show(take())
      model.is_full = s:totals().beyond_memory > 0
      draw()
    end))
    assert(event_loop.watch_descriptor(s, STDIN, guarded(restore, read_keys)))
    guarded(restore, resize)()
  end)
  s:done(function() restore() end)
  return event
end

--- Declares the event and shows its samples; see perfev.tool.show_top.
-- @tparam table opt       `interval`, in ns
-- @tparam table spec      of the event
-- @tparam boolean is_tty  standard output was not redirected by perfl
-- @tparam function title  () -> what is sampled; called when the session runs
-- @treturn event
function M.show(opt, spec, is_tty, title)
  local s, named = session.default(), session.named_targets and session.named_targets() or {}
  local is_interactive = is_tty and not named.input and not named.command and terminal.is_there()
  spec.callchain = true
  return (is_interactive and show_on_terminal or show_plain)(s, opt, spec, title)
end

return M
