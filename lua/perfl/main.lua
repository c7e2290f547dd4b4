--- perfl: runs a script on the live kernel, a recording or a simulated kernel.
--
-- A run finds the script, assigns each word of the command line to perfl, the script or the command, runs the script
-- (which declares events), runs the default session, and prints the summary line. A script that calls perfev.run()
-- itself gets the same configuration.

local lazy = require "perfev.base.lazy_module"
local perfev = require "perfev"
local aggregator = lazy "perfev.aggregate.aggregator"
local tracefs_probes = require "perfev.probe.tracefs_probes"
local args = require "perfev.tool.args"
local core = require "perfev.core"
local other_tools = lazy "perfl.other_tools"
local escape = require "perfev.base.escape"
local grammar = require "perfev.event.grammar"
local session = require "perfev.live.session"
local find_script = require "perfl.find_script"
local frame_output = lazy "perfl.frames.output"
local native = require "perfl.core"
local command_line = require "perfl.command_line"
local output = require "perfl.output"
local plain_copy = require("perfev.base.tables").plain_copy
local progress = lazy "perfl.progress"
local sandbox = lazy "perfl.sandbox"
local message = require "perfl.message"
local session_options = require "perfev.base.options"
local memory_shortage = require "perfev.base.memory_shortage"
local load_source = require "perfl.load_source"
local foreign_names = lazy "perfev.event.foreign_names"
local symbol = lazy "perfev.symbol"
local symbol_files = lazy "perfev.symbol.files"

local M = {}

local FAILED, USAGE, LOST = 1, 2, 3
local EPIPE = 32

-- Verb -> module; its main(words after the verb, verb) prints and returns the exit status.
local verbs = {
  agent = "perfl.fleet.agent", archive = "perfl.verb.archive", budget = "perfl.budget",
  collect = "perfl.fleet.collect", completion = "perfl.completion",
  cleanup = "perfl.verb.cleanup", ["--cleanup"] = "perfl.verb.cleanup", describe = "perfl.verb.describe",
  doctor = "perfl.verb.doctor", gather = "perfl.fleet.gather", help = "perfl.help",
  list = "perfl.verb.list", report = "perfl.verb.report", dump = "perfl.verb.dump",
  skeleton = "perfl.verb.skeleton", cut = "perfl.verb.cut", filter = "perfl.verb.cut",
  merge = "perfl.verb.merge", prove = "perfl.prove", redact = "perfl.verb.redact",
}
-- `record` has no main: it declares events and runs like a script. So does the script of `describe`.
local every_verb = plain_copy(verbs)
every_verb.record = "perfl.verb.record"

local no_target = "nothing to watch: the script needs events, but no process or CPU is named\n"
local ways_to_choose = [[
try one of: -- COMMAND, -p PID, -t TID, -a (everything), -C LIST (some CPUs)
or -i FILE (a recording)]]

-- The one run of this program:
--   words             options.scan's result
--   name, path, text  of the script
--   declared          the checked argument of perfev.args
--   opts              perfl's options, once the command line is parsed
--   session           the default session, from before its start
--   status            the exit status of leave()
--   argv, sandboxed   the words of the command line; the options of --sandbox, and then `env`: the script's globals
--   describes         perfl describe: "text" or "json"; perfl help: "page" or "man"; and `output`, where to
local run

-- Ends the run from any depth: raises an error through the script's frames.
local function leave(status, text)
  if text then message.say(text) end
  run.status = status
  error(setmetatable({ status = status }, message.Leave), 0)
end

-- ---- the command line ----

local function header_of(text)
  local lines = {}
  for line in (text:gsub("^#[^\n]*\n", "") .. "\n"):gmatch("([^\n]*)\n") do
    local comment = line:match("^%-%-+%s?(.*)$")
    if not comment then break end
    lines[#lines + 1] = comment
  end
  return (table.concat(lines, "\n"):gsub("%s+$", ""))
end

local function may_declare_itself(text)
  return text:find("%f[%w_]args%f[^%w_]") or text:find("%f[%w_]dofile%f[^%w_]")
    or text:find("%f[%w_]loadfile%f[^%w_]")
end

-- True if the text could call perfev.args, itself or through another module. Otherwise the command line is parsed
-- before the script runs.
local function may_declare(text)
  if may_declare_itself(text) then return true end
  for module in text:gmatch("%f[%w_]require%s*%(?%s*[\"']([^\"']*)") do
    if module ~= "perfev" then return true end
  end
  return false
end

-- True if a script without declared options could read its words. Otherwise the words are a command.
local function may_read_words(text)
  return text:find("%f[%w_]arg%f[^%w_]") or text:find("...", 1, true)
end

local function log(level, text)
  if level == 0 or run.opts.verbose > 0 then message.say(text) end
end

-- The output that the script of perfl describe had no access to.
local function restore_output()
  io.output(run.output)
  io.stdout, io.stderr = run.output, run.errors -- luacheck: ignore 122
end

local function is_page() return run.describes == "page" or run.describes == "man" end

-- Prints the description of the script and ends the run. `why`: the command line does not say which events it opens.
-- `s`: a session of the script's own, which it starts before the default session.
local function leave_described(why, s)
  local plan, sound
  if not why then plan, sound = require("perfev.live.session_plan").objects(s or session.default()) end
  restore_output()
  local printer = require(verbs[is_page() and "help" or "describe"])
  printer.print({ name = run.name, declared = run.declared, plan = plan, why = why,
    header = header_of(run.text) }, run.describes)
  leave((sound or why or is_page()) and 0 or FAILED)
end

-- Applies the options that take effect before the session starts.
local function apply_options(opts)
  if run.describes then opts.dry_run = true end
  if opts.max_memory then session_options.limit_memory(opts.max_memory) end
  if run.opts then return end
  run.opts = opts
  local refused = run.sandboxed and sandbox.allow_options(opts)
  if refused then leave(USAGE, refused) end
  if opts.pack and not opts.dry_run then
    local ok, why, is_invalid = frame_output.open(opts)
    if not ok then leave(is_invalid and USAGE or FAILED, why) end
  end
  if opts.sim then
    core.capset(0) -- nothing of the real kernel is opened
    local ok, why = require("perfl.simulate").install(opts.sim, perfev.stop)
    if not ok then leave(FAILED, why) end
  end
  if opts.json then aggregator.default_form = "json" end
  if opts.assume_pmu then require("perfev.event.vendor").assume = opts.assume_pmu end
  if opts.trace_sys then
    perfev.hooks.log(message.trace)
  elseif opts.verbose >= 2 then
    perfev.hooks.log(message.say)
  end
  if opts.record == "-" and not opts.dry_run then
    local fd, why = native.take_stdout "recording"
    if not fd then leave(USAGE, why) end
    opts.record_fd = fd
  end
  if opts.output and not opts.dry_run then
    local ok, why = output.redirect(opts.output)
    if not ok then leave(FAILED, why) end
  end
end

-- For the version of a static perfl.
local static = [[, one static file with its scripts, symbols, DWARF, C++ names, zstd and PMU tables in it
missing: it cannot load Lua modules that are written in C, disassemble, nor confine (--sandbox)]]

local function print_version()
  io.write("perfl ", perfev._VERSION, native.static and static or "", "\n")
end

local function print_help()
  io.write(command_line.script_help(run.words, run.declared, run.name, header_of(run.text)), "\n")
end

local function refuse_command_line(why)
  if run.describes and run.declared then leave_described(why) end
  leave(USAGE, message.with_help(why, run.path and "perfl " .. escape(run.words.script) or "perfl"))
end

local function set_global_arg()
  local words = table.move(run.words.rest, 1, #run.words.rest, 1, {})
  words[0] = run.path or "-e"
  _G.arg = words
end

-- Called when the script's options are known: separates the command, and handles --help and --version.
local function split_command(declared)
  if declared or not may_read_words(run.text) then
    run.words = command_line.take_command(run.words, declared, find_script.exists)
    set_global_arg()
  end
  if run.words.help then
    print_help()
    leave(0)
  end
  if run.words.version then
    print_version()
    leave(0)
  end
end

-- perfev.args under perfl.
local function parse_declared(declared)
  if run.declared then error("perfev.args: a script declares its options once", 2) end
  run.declared = declared
  command_line.check_conflicts(declared, run.name)
  split_command(declared)
  local opts, values = command_line.parse(run.words, declared, run.name)
  if not opts then refuse_command_line(values) end
  apply_options(opts)
  run.values = values
  return values
end

-- True if the command line can only be parsed after the script's declaration: the start of the command or the text of
-- --help depends on it.
local function needs_declaration()
  return run.words.help or run.words.version
    or command_line.as_command(run.words) and (may_declare_itself(run.text) or not may_read_words(run.text))
end

-- Parses the command line of a script that has declared no options. `final`: the script cannot declare any later.
local function parse_undeclared(final)
  if run.opts or not final and needs_declaration() then return end
  if final then split_command() end
  local opts, why = command_line.parse(run.words, nil, run.name)
  if opts then
    apply_options(opts)
  elseif final then
    refuse_command_line(why)
  end
end

-- ---- the script ----

-- globals: of a sandboxed script, or nil
local function chunk_environment(globals)
  local module = globals and globals.require "perfev" or perfev
  local env = { perfev = module }
  return setmetatable(env, {
    __index = function(_, name)
      local value = globals and rawget(module, name)
      if value == nil and not globals then value = module[name] end
      if value == nil then value = (globals or _G)[name] end
      return value
    end,
  })
end

-- bpftrace's 'tracepoint:a:b /pid == 3/ { ... }' -> perf's name of the event; nil if the text has another form
local function probe_of(text)
  local prefix, rest = text:match("^%s*(%a%a%a%a%a+):([%w_:*.-]+)%s*[/{]")
  local probe = prefix and prefix .. ":" .. rest
  return probe and (foreign_names.translate(probe) or prefix:find("probe$") and probe)
end

-- The hint for an -e that is an event, as perf takes it, or a bpftrace program, instead of Lua.
local function chunk_hint(chunks)
  local text = table.concat(chunks, ",")
  local probe = probe_of(text)
  if probe then
    return ("\n-e is followed by Lua, and this looks like bpftrace's\n"
      .. "try: -e 'event { \"%s\", sample = print }'"):format(escape(probe))
  end
  if not grammar.parse(text) then return "" end
  text = escape(text)
  return ("\n-e is followed by Lua, and '%s' looks like an event\n"
    .. "try: perfl stat -e '%s', or -e 'event { \"%s\", sample = print }'"):format(text, text, text)
end

local function name_of(path)
  if path == "-" then return "stdin" end
  return path:match("([^/]+)$"):gsub("%.lua$", "")
end

-- -> the script's text, compiled | nil, message, status
local function load_script()
  local words = run.words
  if words.chunks then
    run.name, run.text = "-e", table.concat(words.chunks, "\n")
    local script, why = load_source.compile(run.text, "=-e", chunk_environment(run.env))
    return script, why and why .. chunk_hint(words.chunks)
  end
  local path, why = find_script.resolve(words.script, verbs)
  if not path then return nil, why, USAGE end
  run.name, run.path = name_of(path), path
  run.text = find_script.built_in_text(path)
  if not run.text then run.text, why = load_source.read(path) end
  if not run.text then return nil, why end
  return load_source.compile(run.text, path == "-" and "=stdin" or "@" .. path, run.env)
end

-- ---- the session ----

local function print_callback_error(object, where, trace)
  local text = message.shown(object)
  if trace then text = text .. "\n" .. trace end
  message.say(("a callback failed%s (more of the same are only counted)\n%s"):format(
    where and " in " .. where or "", message.trimmed(text) .. other_tools.name(text)))
end

-- Called by the session once per wakeup.
local function keep_going()
  local ok = output.check()
  if not ok then return "output" end
  if run.sandboxed and sandbox.is_exceeded() then return "limit" end
  if native.signal() then
    native.heed() -- the loop has seen the signal: the done callbacks may take long
    return "signal"
  end
  if run.shows_progress then progress.update(run.session) end
  return true
end

local function set_symfs(dir)
  local there, _, code = core.list(dir)
  if not there then
    leave(FAILED, ("cannot look for files below %s: %s\n"
      .. "try: the directory in which /usr, /lib and /boot were put"):format(escape(dir), core.strerror(code)))
  end
  symbol.symfs(dir)
end

-- Called if the command line names no target.
local function watch_by_default(opts)
  if run.describes or run.declared and run.declared.all_cpus then
    opts.all_cpus = true
    return
  end
  local line = not run.declared and command_line.as_command(run.words)
  leave(USAGE, no_target .. (line and "the script may read its words: a command follows --\ntry: " .. line
    or ways_to_choose))
end

-- For scripts that watch the machine and count some tasks: see tool/chosen_tasks.lua.
local function named_targets()
  local opts = run.opts or {}
  return { pid = opts.pids, tid = opts.tids, uid = opts.uid, comm = opts.comm, command = run.words.command,
           input = opts.input, all_cpus = opts.all_cpus or opts.cpus ~= nil }
end

-- opts: of the command line
local function configure(s, opts, command)
  if not (command or opts.input or opts.pids or opts.tids or opts.all_cpus or opts.cpus or opts.uid or opts.comm
    or opts.cgroup) then
    watch_by_default(opts)
  end
  if opts.inline then symbol.source() end
  if opts.symfs then set_symfs(opts.symfs) end
  if opts.kallsyms then symbol.kallsyms(opts.kallsyms) end
  if opts.debuginfod then symbol.debuginfod() end
  symbol_files.go_on = function() return not native.signal() end
  symbol.log = log
  local tasks = s.watches_machine and {} or opts -- its script selects tasks
  local is_machine = s.watches_machine and not (opts.cpus or opts.cgroup or opts.input) or nil
  local record = not opts.input and opts.record or nil -- of a recording: write_selected() copies it
  local given = {
    command = command, cpus = opts.cpus, pid = tasks.pids, tid = tasks.tids, uid = tasks.uid, comm = tasks.comm,
    cgroup = opts.cgroup, input = opts.input, from = opts.from, to = opts.to,
    all_cpus = opts.all_cpus or is_machine, duration = opts.duration and opts.duration .. "ns", count = opts.count,
    record = record, compress = record and opts.compress or nil,
    switch_output = opts.switch_output,
    switch_max_files = opts.switch_max_files, max_size = opts.max_size, clock = opts.clock,
    names = record and not opts.no_names or nil, lines = record and opts.lines or nil,
    jobs = opts.jobs, readers = opts.readers,
    buffer = opts.buffer, strict = opts.strict or false, on_error = print_callback_error,
    on_open = function(names) core.capset(names and core.caps_of_names or 0) end,
    exclude_self = true, many = opts.many, events = not run.recording and opts.events or nil, log = log,
    watch = { native.signal_fd(), function()
      native.heed()
      s:stop()
    end },
  }
  local read, why = session_options.read(given, session_options.copy(s.opts))
  if not read then leave(USAGE, message.with_help(why, "perfl")) end
  s:configure(given)
  s._keep_going, s._record_fd = keep_going, opts.record_fd
end

-- Configures a session of a script that reads a further recording. The targets of the command line belong to the
-- default session if that was started; only -C and --comm mean the same in both.
local function configure_reader(s, path)
  local names = run.session and { "cpus", "comm", "jobs", "verbose", "max_memory", "trace_sys" }
  local opts = {}
  if names then
    for _, name in ipairs(names) do opts[name] = run.opts[name] end
  else
    for name, value in pairs(run.opts) do opts[name] = value end
  end
  opts.input = path
  configure(s, opts)
end

-- -> exit status: 1 if an event is not available
local function print_plan(s)
  local is_json = run.opts.json
  local lines, sound = s:plan(is_json and "json" or nil)
  for _, line in ipairs(lines) do io.write(is_json and line or escape(line), "\n") end
  return sound and 0 or FAILED
end

-- The events of -e need a "*" in the script.
local function check_events(s)
  if run.recording or not run.opts.events then return end
  for _, ev in ipairs(s.events) do
    if ev.decl.is_every then return end
  end
  local text = escape(table.concat(run.opts.events, ","))
  leave(USAGE, ("-e '%s': %s has no event \"*\" to replace\n"
    .. "try: event { \"*\", sample = print } in it"):format(text, escape(run.name)))
end

-- Listens for --http, and answers from the start of the session to its end.
local function serve(s)
  local http, why, is_invalid = require("perfl.http.server").open(run.opts.http, { hosts = run.opts.http_hosts })
  if not http then leave(is_invalid and USAGE or FAILED, why) end
  http.script = run.name
  require("perfl.http.metrics").add_routes(http)
  s:begin(function()
    http:add_page(require("perfl.http.page").of_session(s, run.name, message.shell(run.argv), native.cpu_time))
    http:attach(s)
  end)
  s:done(function() http:finish() end)
end

-- Called before a session of the script's own starts.
local function before_other_start(s)
  if not (run.describes or run.opts and run.opts.dry_run) then return end
  if run.describes then leave_described(nil, s) end
  leave(print_plan(s))
end

-- Called before the default session starts, whether perfl or the script starts it.
local function before_start()
  parse_undeclared(true)
  local s = session.default()
  run.session = s
  if run.sandboxed then sandbox.allow_command(run.words.command) end
  configure(s, run.opts, run.words.command)
  check_events(s)
  run.shows_progress = run.opts.input and not run.opts.quiet
  if run.shows_progress then progress.begin() end
  if run.describes then leave_described() end
  if run.opts.dry_run then
    leave(print_plan(s))
  end
  if run.opts.http then serve(s) end
  if run.opts.pack then
    local ok, why = frame_output.begin(s, { name = run.words.script or "-e", text = run.text, declared = run.declared,
      values = run.values, rest = run.words.rest }, run.opts.interval)
    if not ok then leave(USAGE, why) end
  end
  local name = not (run.opts.record or run.opts.quiet) and session.event_without_callback(s)
  if name then
    s:begin(function()
      message.say(name .. ": no callback is set; its records are dropped\n"
        .. "try: sample = print, a function, or count { by = \"comm\" }")
    end)
  end
  if not (run.opts.sim or run.opts.input) then tracefs_probes.sweep_once(log) end
end

-- ---- the end ----

-- The command's own status as a shell would give it, or nil.
local function command_status()
  local ended = run.session and run.session.command_status
  return ended and (ended.exit or ended.signal and 128 + ended.signal)
end

local function say_summary(why)
  local s = run.session
  if run.opts.quiet or not (s and s.started) then return end
  local totals = s:totals()
  if why and totals.records == 0 then return end -- the run failed before its first record
  if not run.recording then
    for _, line in ipairs(message.summary_lines(totals, native.cpu_time(), run.opts.input)) do message.say(line) end
    local beyond = message.beyond_memory(totals, memory_shortage.stacks)
    if beyond then message.say(beyond) end
    local unknown = message.unknown_tasks(totals)
    if unknown then message.say(unknown) end
    local gone = package.loaded["perfev.symbol"] and symbol.gone()
    if gone then message.say(gone) end
    if s.hint then message.say(s.hint) end
  end
  if s.recorded then message.say(require("perfl.verb.record").summary_line(s.recorded, totals)) end
  if not run.recording then return end
  if totals.lost > 0 then message.say(message.lost(totals)) end
  local faults = message.faults(totals)
  if faults then message.say(faults) end
end

local function failed_status()
  local status = command_status()
  return (status == 126 or status == 127) and status or FAILED
end

local function has_lost()
  return run.session and run.opts.fail_on_lost and run.session:totals().lost > 0
end

-- True if the output is not complete.
local function is_incomplete()
  local s = run.session
  return s and (s.unfinished or memory_shortage.any or (s:totals().no_memory or 0) > 0)
end

-- The hint for an unknown global: -e has perfev's functions as globals, but a script must require them.
local function unknown_name_hint(why)
  local name = why:match("^[^\n]*nil value %(global '([%w_]+)'%)")
  if not name or name ~= "perfev" and perfev[name] == nil then return other_tools.name(why) end
  return ("\ntry: local perfev = require \"perfev\"%s"):format(name ~= "perfev" and ", and perfev." .. name or "")
end

-- The result of the run -> exit status [, signal to end by]. why: the error, or nil.
local function outcome(why)
  if run.shows_progress then progress.finish() end
  local number = native.signal()
  local flushed, broken, broken_status = output.check()
  local unread = run.session and run.session.record_errno == EPIPE and 141
  if run.opts and run.opts.pack and not unread then
    local status, failed = frame_output.failure()
    if status and not failed then unread = status end
    broken, broken_status = broken or failed, broken_status or status
  end
  if unread or not flushed and not broken then -- the output's reader closed it: print nothing more
    return number and 128 + number or unread or broken_status, number
  end
  if why then message.say(number and why:match("^[^\n]*") or message.trimmed(why) .. unknown_name_hint(why)) end
  if broken then message.say(broken) end
  if run.status then return broken_status or run.status end
  if run.opts then say_summary(why) end
  local limit, limit_status
  if run.sandboxed then limit, limit_status = sandbox.outcome() end
  if limit then message.say(limit) end
  if limit and not number then return limit_status end
  if number then return 128 + number, number end
  if why then return failed_status() end
  return broken_status or is_incomplete() and FAILED or has_lost() and LOST or command_status() or 0
end

-- Prints the aggregators that the script has not read.
local function print_aggregators()
  local is_used = package.loaded["perfev.aggregate.aggregator"]
  if is_used and not (run.opts and run.opts.quiet) then output.print_unread() end
end

-- Calls the script, or prints for it, within the limits of --sandbox.
local function limited(f, ...)
  if run.sandboxed then return sandbox.limited(f, ...) end
  return f(...)
end

-- Runs the script, then the default session if the script declared events -> nil | the error
local function execute(script)
  set_global_arg()
  parse_undeclared(not may_declare(run.text))
  limited(script, table.unpack(run.words.rest))
  if run.status then return end -- the script's pcall caught leave()
  parse_undeclared(true)
  local s = session.default()
  if s.finished then return limited(print_aggregators) end
  if s:declared() == 0 and (run.opts.dry_run or session.is_idle(s)) then
    if run.describes then leave_described() end
    if run.opts.dry_run then io.write("nothing to open: the script declares no events\n") end
    return
  end
  local ok, why = s:run()
  if ok or s:totals().delivered > 0 then limited(print_aggregators) end
  return not ok and (why and message.shown(why) or "the session failed") or nil
end

-- Copies the records of the input that the options select: -i FILE --record NEW.
local function write_selected()
  local opts = run.opts
  if not (opts and opts.input and opts.record) or run.status or native.signal() then return end
  if run.shows_progress then progress.finish() end
  run.shows_progress = nil
  local status = require("perfl.verb.cut").copy {
    file = opts.input, output = opts.record, fd = opts.record_fd, from = opts.from, to = opts.to, cpus = opts.cpus,
    pids = opts.pids, tids = opts.tids, comm = opts.comm, compress = opts.compress, quiet = opts.quiet,
  }
  if status ~= 0 then run.status = status end
end

-- Writes the last frames of --pack -> nil | the error
local function finish_frames()
  if not (run.opts and run.opts.pack) or run.opts.dry_run or run.status then return end
  local ok, done, why = xpcall(frame_output.finish, message.traceback)
  return not ok and done or not done and why or nil
end

-- Runs perfl record: its command line takes the place of a script.
local function run_record(words)
  run = { words = { rest = {} }, name = "record", text = "", recording = true }
  load_source.prepare()
  output.prepare()
  session.before_default_start = before_start
  local opts, declare, command = require("perfl.verb.record").parse(words)
  if not opts then
    run.status = declare
    return outcome()
  end
  run.words.command = command
  local _, why_failed = xpcall(function()
    apply_options(opts)
    return execute(declare)
  end, message.traceback)
  if run.status then why_failed = nil end
  return outcome(why_failed)
end

local function prepare(words)
  load_source.trust_all = words.trust or false
  load_source.prepare()
  output.prepare()
  args.parse = parse_declared
  session.before_default_start = before_start
  session.before_other_start = before_other_start
  session.configure_reader = configure_reader
  session.named_targets = named_targets
  session.children_time = native.children_time
end

local function usage_error(text)
  message.say(message.with_help(text, "perfl"))
  return USAGE
end

-- The script of perfl describe prints nothing, and does not end the run. A page has no messages.
local function discard_output()
  run.errors = io.stderr
  -- luacheck: push ignore 122
  io.stdout = assert(io.open("/dev/null", "w"))
  if is_page() then io.stderr = io.stdout end
  os.exit = function() leave_described "the script ends before its session" end
  -- luacheck: pop
  io.output(io.stdout)
end

-- Loads and runs the script; that of perfl describe without its output -> as for M.main
local function run_script(words)
  prepare(words)
  if run.sandboxed then
    local why_not
    run.env, why_not = sandbox.start(run.sandboxed, run)
    if not run.env then
      message.say(why_not)
      return sandbox.EXIT_REFUSED
    end
  end
  local script, why, status = load_script()
  if not script then
    message.say(why)
    return status or FAILED
  end
  if run.path and run.path ~= "-" and not run.sandboxed then load_source.add_directory_of(run.path) end
  if run.describes then discard_output() end
  local _, why_failed = xpcall(execute, message.traceback, script)
  if run.errors then restore_output() end
  if run.status then why_failed = nil end
  if not (why_failed or run.describes) then write_selected() end
  local unwritten = finish_frames()
  return outcome(why_failed or unwritten)
end

-- -> options.scan's result, the words without --sandbox's value, its options or nil | nil, the reason
local function scan(argv, possible_verbs)
  local words = command_line.scan(argv, find_script.exists, possible_verbs)
  if not words.sandbox then return words, argv end
  local plain, sandboxed = sandbox.read(argv, words)
  if not plain then return nil, sandboxed end
  return command_line.scan(plain, find_script.exists, possible_verbs), plain, sandboxed
end

-- Runs a script up to its session.
local function run_describe(words, how)
  local own = words
  if how ~= "page" and how ~= "man" then
    own, how = require("perfl.verb.describe").split(words)
    if not own then
      io.write(how)
      return 0
    end
  end
  local argv, sandboxed
  words, argv, sandboxed = scan(own)
  if not words then return usage_error(argv) end
  run = { words = words, argv = argv, sandboxed = sandboxed }
  run.describes, run.output = how, io.output()
  if not words.script and not words.chunks then return usage_error "describe: no script given" end
  if every_verb[words.script] and not find_script.exists(words.script) then
    return usage_error(("describe: '%s' is a part of perfl, not a script"):format(words.script))
  end
  return run_script(words)
end

local function run_verb(verb, words)
  if verb == "record" then return run_record(words) end
  if verb == "describe" then return run_describe(words) end
  load_source.prepare()
  output.prepare()
  run = { words = {} }
  local own, how
  run.status, own, how = require(verbs[verb]).main(words, verb, every_verb, M.main)
  if own then return run_describe(own, how) end
  return outcome()
end

--- The program.
-- @tparam {string,...} argv  [0] is the program's name
-- @treturn integer   exit status
-- @treturn ?integer  signal to end by instead
function M.main(argv)
  if every_verb[argv[1]] then return run_verb(argv[1], table.move(argv, 2, #argv, 1, {})) end
  local words, sandboxed
  words, argv, sandboxed = scan(argv, every_verb)
  if not words then return usage_error(argv) end
  if words.verb then return run_verb(words.verb, words.verb_words) end
  run = { words = words, argv = argv, sandboxed = sandboxed }
  if words.version and not words.script then
    print_version()
    return outcome()
  end
  if not words.script and not words.chunks then
    if not words.help then return usage_error(command_line.no_script(words)) end
    io.write(command_line.own_help(find_script.names()), "\n")
    return outcome()
  end
  return run_script(words)
end

return M
