--- Prints merged frames as the script would have, if one run of it had seen everything.
--
-- The script runs up to the start of its session: it declares its options, which get the values from the frames, its
-- aggregators and its events. No event is opened. The merged values go into the script's own aggregators and profiles;
-- then its timers (with --interval) and its `done` functions print them.

local aggregator = require "perfev.aggregate.aggregator"
local args = require "perfev.tool.args"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local exported = require "perfev.aggregate.exported"
local find_script = require "perfl.find_script"
local frames = require("perfev.base.lazy_module") "perfev.aggregate.frames"
local json = require "perfev.base.json"
local load_source = require "perfl.load_source"
local message = require "perfl.message"
local output = require "perfl.output"
local profiles = require "perfev.profile"
local sandbox = require "perfl.sandbox"
local session = require "perfev.live.session"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

local FAILED, USAGE = 1, 2

-- Ends the printing with a message and a status.
local Refusal = {}

local function refuse(text, status) error(setmetatable({ text = text, status = status or FAILED }, Refusal), 0) end

-- ---- the script ----

-- -> the script's text, its path | nil, why the frames are printed without it
local function find(header, path)
  local name = header.script or "?"
  local text, why
  if path then
    if not find_script.exists(path) then refuse(select(2, find_script.resolve(path)), USAGE) end
    path = find_script.resolve(path)
  elseif header.script == "-e" then
    return nil, "the frames are of Lua text of -e, which they do not have: its aggregators are printed"
  elseif name:find "[/.]" or not find_script.exists(name) then
    return nil, ("the frames are of the script '%s': its aggregators are printed, without it\n"
      .. "try: perfl merge --script %s"):format(escape(name), message.shell { name })
  else
    path = find_script.resolve(name)
  end
  text = find_script.built_in_text(path)
  if not text then text, why = load_source.read(path) end
  if not text then refuse(why) end
  if frames.sha256(text) ~= header.script_sha256 then
    return nil, ("'%s' is not the script of the frames (perfev %s): its SHA-256 is another. Its aggregators are "
      .. "printed, without it\ntry: the version that wrote them"):format(escape(path), escape(header.version or "?"))
  end
  if not header.args then
    return nil, "the script's arguments did not fit into the frames: its aggregators are printed, without it"
  end
  return text, path
end

-- The words of the header's arguments, with another -f FORMAT.
local function words_of(header, declared, format)
  local words, flag = json.decode(header.args), nil
  for _, option in ipairs(declared) do
    if option.name == "format" then flag = option.flags end
  end
  if type(words) ~= "table" then refuse("the frames' arguments are not JSON: " .. escape(header.args)) end
  local kept = {}
  for _, word in ipairs(words) do
    if type(word) ~= "string" then refuse("the frames' arguments are not words: " .. escape(header.args)) end
    if not (format and flag and word:find "^%-%-format=") then kept[#kept + 1] = word end
  end
  if format and flag then kept[#kept + 1] = "--format=" .. format end
  return kept, flag ~= nil
end

local outputs = { text = true, csv = true, json = true, prom = true }

-- Sets the form of the script's aggregators for a script without an option -f.
local function set_form(script, format)
  if not outputs[format] then
    refuse(("%s has no option -f: '%s' is not a form of its aggregators\ntry: -f text, csv, json or prom"):format(
      escape(script), escape(format)), USAGE)
  end
  aggregator.default_form = format
end

-- Puts the values of the frames' arguments and options in the place of the command line.
local function prepare(set, opts, run)
  local header, s = set.header, session.default()
  args.parse = function(declared)
    local words, has_format = words_of(header, declared, opts.format)
    local values, why = args.read(declared, words)
    if not values then refuse(("%s: %s"):format(escape(header.script), escape(why)), USAGE) end
    if opts.format and not has_format then set_form(header.script, opts.format) end
    run.has_options = true
    return values
  end
  session.named_targets = function() return { all_cpus = true } end
  session.before_default_start = function()
    refuse(("%s reads its session step by step: without events it cannot print\ntry: a script whose functions "
      .. "perfev.done() calls"):format(escape(header.script)))
  end
  s.opts.all_cpus, session.prints_lines = true, true
  -- As for a recording, nothing is looked up on this machine: not the names of its disks, not its tasks.
  s.opts.input = "merged frames"
  s.machine = sorted_keys(set.archs)[1]
  s.last_totals = s:totals()
  s.last_totals.lost, s.last_totals.late = set:loss "lost", set:loss "late"
end

-- ---- filling the aggregators ----

-- The script may have named the profile and its values when its session started, by the events of the machine.
local function adopt_names(profile, value)
  if #profile.values ~= #value.values then return end
  profile.title = value.title
  for i, one in ipairs(value.values) do profile.values[i].name, profile.values[i].unit = one.name, one.unit end
end

-- The script makes other aggregators than those of the frames.
local function refuse_script(run, why)
  if not run.format then refuse(why .. "\ntry: perfl merge --script none, which prints them without the script") end
  refuse(("%s\nthe script counts otherwise for -f %s\ntry: perfl --pack FILE %s -f %s"):format(why, escape(run.format),
    escape(run.script), escape(run.format)))
end

local function fill(run, target, value)
  if type(target) == "table" then adopt_names(target, value) end
  local ok, why = pcall(target.merge, target, value)
  if ok then return end
  refuse_script(run, "the frames do not fit the script: " .. message.shown(why):gsub("^.-merge: ", ""))
end

-- The profile with the host as the outermost frame of each stack.
local function under_host(host, profile)
  local result = profiles { title = profile.title, values = profile.values }
  for stack, values in profile:stacks() do result:add_under(host, stack, table.unpack(values)) end
  return result
end

-- Adds the values of a turn to the script's aggregators and profiles.
local function fill_turn(set, run, turn, targets)
  for _, entry in ipairs(set.entries) do
    local values, target = entry.values[turn] or {}, targets[entry.name]
    for _, host in ipairs(sorted_keys(values)) do
      local value = values[host]
      if set.by_host and target.kind == "profile" then value = under_host(host, value) end
      fill(run, target.source, value)
    end
  end
end

-- The script's aggregators and profiles by name; each name of the frames is there.
local function targets_of(set, run)
  local targets = {}
  for _, target in ipairs(exported.list()) do targets[target.name] = target end
  for _, entry in ipairs(set.entries) do
    local target = targets[entry.name]
    if not target or target.kind ~= entry.kind then
      refuse_script(run, ("the frames have a %s '%s', which the script does not make here"):format(escape(entry.kind),
        escape(entry.name)))
    end
    if entry.spans then aggregator.add_span_counts(target.source, entry.spans) end
  end
  return targets
end

-- ---- the run ----

local function call(run, what, f)
  local ok, why = xpcall(sandbox.limited, message.traceback, f)
  if ok then return end
  if type(why) == "table" or sandbox.is_exceeded() then error(why, 0) end
  message.say(("a callback failed in %s\n%s"):format(what, message.trimmed(why)))
  run.status = FAILED
end

-- Calls the timers that are due in the time of a turn, which ends at `now`.
local function call_timers(run, s, every, now)
  for _, timer in ipairs(s.timers) do
    timer.due = timer.due or timer.ns
    while timer.due <= now do
      call(run, timer.what, timer.f)
      timer.due = timer.is_once and math.maxinteger or timer.due + math.max(timer.ns, every)
    end
  end
end

-- A value that a `done` function adds was added on each host, too, and would count twice.
local function check_added(run, targets)
  for _, name in ipairs(sorted_keys(targets)) do
    local added = targets[name].follower:delta()
    if #added > 0 then
      message.say(("%s adds values to '%s' when it ends, as each run has: this output counts them twice")
        :format(escape(run.script), escape(name)))
      run.status = FAILED
    end
  end
end

-- Takes the place of the session's run.
local function run_session(set, run, s)
  s.started, s.finished = true, true
  for _, f in ipairs(s.on_begin) do call(run, "begin", f) end
  local targets = targets_of(set, run)
  local every = math.tointeger(tonumber(set.header.every))
  for turn = 0, set.last_turn do
    fill_turn(set, run, turn, targets)
    if every and turn < set.last_turn then call_timers(run, s, every, (turn + 1) * every) end
  end
  for _, target in pairs(targets) do
    target.follower = exported.follow(target)
    target.follower:delta()
  end
  for _, f in ipairs(s.on_done) do call(run, "done", f) end
  run.targets = targets
  return true
end

-- ---- printing without the script's own code ----

-- All values of an entry as one, or as one with the host as the first column. names: of the script's columns, or nil
local function total_of(set, entry, names)
  local result
  for turn = 0, set.last_turn do
    local values = entry.values[turn] or {}
    for _, host in ipairs(sorted_keys(values)) do
      local value = values[host]
      if set.by_host then
        value = entry.kind == "profile" and under_host(host, value) or aggregator.under("host", host, value, names)
      end
      result = result and result:merge(value) or value
    end
  end
  return result
end

local function print_entry(entry, value, format)
  if entry.kind ~= "profile" then
    if format == "svg" or format == "html" then io.write((value[format](value))) else value:print(format) end
    return
  end
  format = format or aggregator.default_form == "json" and "json" or "top"
  io.write((value[format](value, { annotate = true })))
end

local function can_print(entry, format)
  if entry.kind == "profile" then
    for _, one in ipairs(profiles.formats) do
      if one == format then return true end
    end
    return false
  end
  local is_hist = entry.kind == "hist"
  return outputs[format] and (format ~= "prom" or is_hist) or is_hist and (format == "svg" or format == "html")
end

-- targets: the script's aggregators by name, or nil
local function print_entries(set, format, targets)
  for _, entry in ipairs(set.entries) do
    if format and not can_print(entry, format) then
      refuse(("-f %s: '%s' is a %s, which has no such form"):format(escape(format), escape(entry.name),
        escape(entry.kind)), USAGE)
    end
  end
  for i, entry in ipairs(set.entries) do
    local target = targets and targets[entry.name].source
    if i > 1 and aggregator.default_form == "text" then print() end
    print_entry(entry, total_of(set, entry, target and target:spec().names), format)
  end
end

local function has_profile(set)
  for _, entry in ipairs(set.entries) do
    if entry.kind == "profile" then return true end
  end
  return false
end

-- ---- the verb's part ----

-- Runs the script. The code of a script does not know a column of hosts: if it has no profile, it only declares its
-- aggregators.
local function run_script(set, opts, text, path)
  local run = { script = set.header.script, format = opts.format, status = 0 }
  local chunk, why = load_source.compile(text, "@" .. path, sandbox.start_printing(opts.limits, opts.read))
  if not chunk then refuse(why) end
  prepare(set, opts, run)
  local only_declares = set.by_host and not has_profile(set)
  session.run_default = function(s)
    if only_declares then error(setmetatable({ targets = targets_of(set, run) }, Refusal), 0) end
    if opts.format and not run.has_options then set_form(run.script, opts.format) end
    return core.unlimited(run_session, set, run, s)
  end
  local function run_it()
    sandbox.limited(chunk)
    if not session.default().started then session.default():run() end
  end
  if not only_declares then
    run_it()
    sandbox.limited(output.print_unread)
    check_added(run, run.targets)
    return run.status
  end
  local _, what = pcall(run_it)
  if getmetatable(what) ~= Refusal or not what.targets then error(what, 0) end
  print_entries(set, opts.format, what.targets)
  return 0
end

local function print_all(set, opts)
  if opts.json then aggregator.default_form = "json" end
  local text, path
  if opts.script ~= "none" then text, path = find(set.header, opts.script) end
  if text then return run_script(set, opts, text, path) end
  if path and not opts.quiet then message.say(path) end
  print_entries(set, opts.format)
  return 0
end

--- Prints the values of a set; once in a process, and at its end: the script runs in it, and from then on no thread of
-- it can open files, connect or send signals (perfl.sandbox).
-- @tparam table set   of perfl.frames.set
-- @tparam[opt] table opts  `format` (in the place of the script's -f), `json` (as perfl -j), `script` (path of a script
--   that does not come with perfl; "none": print the aggregators without it), `quiet` (no remark), `read` (files that
--   the script may read), `sandbox` (its limits, as the value of --sandbox)
-- @treturn integer  exit status
function M.print(set, opts)
  opts = opts or {}
  local limits, why = sandbox.read_printing(opts.sandbox)
  if not limits then
    message.say(why)
    return USAGE
  end
  opts.limits, opts.read = limits, opts.read or {}
  if #set.entries == 0 then
    message.say "no frames: there is nothing to print\ntry: perfl --pack FILE SCRIPT"
    return FAILED
  end
  core.capset(0) -- nothing of the kernel is opened
  output.prepare()
  local ok, result = xpcall(print_all, function(object)
    return getmetatable(object) == Refusal and object or message.traceback(object)
  end, set, opts)
  if not ok then
    message.say(type(result) == "table" and result.text or message.trimmed(result))
    result = type(result) == "table" and result.status or FAILED
  end
  local limit, status = sandbox.outcome()
  if limit then message.say(limit) end
  return status or result
end

return M
