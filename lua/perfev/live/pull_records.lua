--- Loops over the records of a session: `for r in s:records() do`.

local check = require "perfev.base.check"
local close_session = require "perfev.live.close_session"
local command = require "perfev.live.command"
local event = require "perfev.event.declaration"
local event_loop = require "perfev.live.event_loop"
local opened = require "perfev.event.open_event"
local option_tables = require "perfev.option_tables.records"
local recording = require "perfev.live.recording"
local samples = require "perfev.record.callback_fields"
local track_tasks = require "perfev.live.track_tasks"

local M = {}

-- The option `count` also counts the records of a loop.
local function check_pulled_count(session)
  local count = session.opts.count
  if not count or not session.core or session:_is_forked() then return end
  if session.core:totals().delivered >= count then session.cut = true end
end

-- Ends a round of a loop over records and starts the next one. Returns false at the session's end.
local function start_next_round(session, round)
  if session.finished then return false end
  check_pulled_count(session)
  session.core:finish()
  event_loop.keep_sampled_files(session)
  recording.check_write(session, round.last)
  if round.last then
    session.looped = false
    return false
  end
  if not event_loop.wait_and_handle(session, (session.stopping or session.cut) and 0 or -1) then
    session.cut = true
  elseif session.finished then
    return false
  end
  if command.have_targets_ended(session) or session.stopping or session.cut then
    close_session.disable_events(session)
    round.last = true
  end
  local suffix = session.pulled and "" or "_all"
  session.core:begin(round.last and (session.cut and "discard" or "rest" .. suffix) or "round" .. suffix)
  return true
end

-- Starts a session whose loop takes these fields: its events ask the kernel for nothing else.
local function start_with_fields(session, names, level)
  session.pulled = samples.read(names, "records", level + 2)
  for _, ev in ipairs(session.core and {} or session.events) do event.pull(ev.decl, session.pulled) end
  local ok, why = session:start()
  if not ok then error(why, level + 1) end
  session.core:pull(session.pulled.names)
  local events = {}
  for ev in opened.each(session.events) do events[#events + 1] = ev end
  why = samples.check_pulled(session.pulled, events)
  if not why then return end
  session:close()
  error(why, level + 1)
end

--- See Session:records. Errors are raised at the line that calls it.
function M.records(session, opts)
  opts = check.take("records", opts == nil and {} or opts, option_tables.session_records, 3)
  if opts.fields then
    start_with_fields(session, opts.fields, 2)
  else
    session.takes_views = true
    local ok, why = session:start()
    if not ok then error(why, 2) end
  end
  if session.replay then session.replay:read_ahead() end
  local all, why = opened.take_records(session) -- of a session that had started
  if all and not session.pulled then all, why = track_tasks.follow_tasks(session) end
  if not all then error(why, 2) end
  session.core:begin(session.pulled and "round" or "round_all")
  session.looped = true
  local guard = setmetatable({}, { __close = function(_, raised)
    session.looped = false
    -- Records after a break are dropped.
    if session.pulled and not session.finished then session.core:pull() end
    check_pulled_count(session)
    local done, failure = close_session.finish(session)
    if not done and not raised then error(failure, 0) end
  end })
  local round, count = {}, session.opts.count
  local function next_round() return start_next_round(session, round) and not session.finished end
  local max = session.cut and 0 or count and math.max(count - session.delivered, 0)
  return session.core:puller(next_round, max), nil, nil, guard
end

return M
