--- perfev.tool: functions that the scripts of perfl share; see doc/api/tool.md.
-- `who` is a script's name, as messages have it.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local event = require "perfev.event.declaration"
local lazy = require "perfev.base.lazy_module"
local options = require "perfev.base.options"
local agg = lazy "perfev.aggregate.aggregator"
local pidns = lazy "perfev.event.pid_namespace"
local session = require "perfev.live.session"

local annotation = lazy "perfev.tool.annotation"
local chosen_tasks = lazy "perfev.tool.chosen_tasks"
local call_formats = lazy "perfev.tool.system_calls.call_formats"
local container_name = lazy "perfev.tool.container_name"
local disk_names = lazy "perfev.tool.disk_names"
local exec_arguments = lazy "perfev.tool.exec_arguments"
local flag_names = lazy "perfev.tool.system_calls.flag_names"
local json = lazy "perfev.base.json"
local scheduler_events = require "perfev.tool.sched.events"

local M = {
  MAX_TASKS = 1 << 22, -- PID_MAX_LIMIT, include/linux/threads.h
  WAKEUPS = scheduler_events.WAKEUPS,
}

-- ---- options ----

--- Declarations for perfev.args.
M.options = {
  call_graph = { "--call-graph", default = "fp", metavar = "HOW",
    help = "how to take stacks: fp, frame pointers; defer, the same, user part later (Linux 6.19); "
      .. "dwarf[,BYTES], unwinding; lbr, the CPU's branch records" },
  least = { "--least", type = "duration", default = 0, metavar = "TIME",
    help = "leave out shorter durations" },
  per = { "--per", metavar = "KEY", help = "print one for each KEY: comm, pid, tid, cgroup, ..." },
  interval = { "--interval", type = "duration", metavar = "TIME",
    help = "print the durations of each interval of this length" },
  latency_format = { "-f --format", choices = { "text", "html", "json", "prom" }, default = "text", metavar = "FORMAT",
    help = "text; html: a page with histograms; json, as -j; prom: for Prometheus" },
  user = { "--user", help = "show only user frames" },
  kernel = { "--kernel", help = "show only kernel frames" },
  unit = { "--unit", choices = { "ns", "us", "ms", "s" }, default = "us", metavar = "UNIT", help = "ns, us, ms or s" },
  title = { "--title", metavar = "TEXT", help = "the title of the picture" },
  baseline = { "--baseline", metavar = "FILE",
    help = "compare with this recording, folded stacks (a;b;c 12), or packed aggregator" },
  absolute = { "--absolute", help = "compare the values, not the shares" },
}

-- Has its choices from perfev.profile, which most scripts do not load.
setmetatable(M.options, { __index = function(list, name)
  if name ~= "format" then return nil end
  list.format = { "-f --format", choices = require("perfev.profile").formats, default = "tree", metavar = "FORMAT",
    help = "tree, top: for a terminal; folded; html, svg: a flame graph; json, pprof, speedscope, firefox, callgrind" }
  return list.format
end })

-- ---- refusals ----

-- Indents the lines after the first, unless they are.
local function indented(text) return (text:gsub("\n(%S)", "\n  %1")) end

--- Ends a script with a message on standard error.
-- @tparam string who
-- @tparam string why
-- @tparam[opt=2] integer status
function M.refuse(who, why, status)
  io.stderr:write(who, ": ", indented(why), "\n")
  os.exit(status or 2, true)
end

--- Refuses to read a recording.
-- @tparam string who
-- @tparam string why
function M.require_kernel(who, why)
  session.default():begin(function()
    if session.default().opts.input then M.refuse(who, why) end
  end)
end

--- Refuses to start unless the session watches all tasks on all CPUs, or reads a whole recording. For scripts that
-- join events of different tasks or CPUs: with a part of the machine they would miss one of the two.
-- @tparam string who
-- @tparam string why
-- @tparam[opt] boolean some_cpus  accept -C: both events happen on the same CPU
function M.require_all_tasks(who, why, some_cpus)
  session.default():begin(function()
    local opts = session.default().opts
    local is_part = opts.cpus and not some_cpus or opts.cgroup or opts.pid or opts.tid or opts.uid or opts.comm
    if not is_part and (opts.input or options.is_cpu_wide(opts)) then return end
    M.refuse(who, ("%s\n  try: %s"):format(why, opts.input and "without -C, -p, -t and --comm" or "-a"))
  end)
end

--- Refuses to start with -C: a task that leaves a CPU may continue on another one.
function M.require_all_cpus(who)
  session.default():begin(function()
    local opts = session.default().opts
    if not opts.cpus then return end
    M.refuse(who, "a task that leaves one of these CPUs may come back on another\n  try: "
      .. (opts.input and "without -C" or "-a, or -p"))
  end)
end

local CPU = 1 << 7 -- PERF_SAMPLE_CPU

--- Refuses recordings whose switch records have no CPU: perf record omits it when it watches tasks.
function M.require_switch_cpus(who)
  local s = session.default()
  s:begin(function()
    for _, recorded in ipairs(s.replay and s.replay.rec.events or {}) do
      if recorded.attr.context_switch and recorded.attr.sample_type & CPU == 0 then
        M.refuse(who, "the recording's switch records have no CPU\n"
          .. "  try: perf record --switch-events --sample-cpu")
      end
    end
  end)
end

--- Refuses to start in a pid namespace: tracepoints have the machine's numbers of tasks, records those of the
-- namespace, and the two cannot be joined.
function M.require_machine_pids(who)
  session.default():begin(function()
    if session.default().opts.input or pidns.is_initial() ~= false then return end
    M.refuse(who, "in a pid namespace, as in a container, a waker's event has another number for the task than "
      .. "its own records\n"
      .. "  try: the machine's namespace (docker run --pid=host)")
  end)
end

--- As require_all_tasks, but if the command line names tasks or a command, the session watches the machine and the
-- script counts those tasks.
-- @treturn ?function  f(tid, comm) -> boolean: whether the task was chosen; nil: count all tasks
function M.choose_tasks(who, why, some_cpus)
  M.require_all_tasks(who, why, some_cpus)
  return chosen_tasks.tasks(function(fault) M.refuse(who, fault) end)
end

-- ---- events ----

--- Returns an event's name with alternatives for recordings that lack cpu-clock: perf record's default event, then any.
function M.sampled_event(name) return name == "cpu-clock" and "cpu-clock | cycles | *" or name end

local HARDWARE, SOFTWARE, CPU_CLOCK = 0, 1, 0 -- PERF_TYPE_*, PERF_COUNT_SW_CPU_CLOCK

--- Returns the name of the event that a recording has instead of cpu-clock. Refuses a recording with several others.
-- @tparam string who
-- @tparam table ev    declared with `sampled_event`, open
-- @tparam[opt] string command  the user's, for the remedy
-- @treturn ?string    nil: it is cpu-clock
function M.replaced_clock(who, ev, command)
  local attr, members = ev.attr, ev.members or {}
  if not attr or attr.type == SOFTWARE and attr.config == CPU_CLOCK then return nil end
  if attr.type == HARDWARE then return "cycles" end
  local names = {}
  for i, member in ipairs(members) do names[i] = member.name end
  if #names == 1 then return names[1] end
  command = command or ("perfl -i %s %s"):format(session.default().opts.input, who)
  M.refuse(who, ("the recording has no cpu-clock, and several other events: %s\n  try: %s -e %s"):format(
    escape(table.concat(names, ", ")), escape(command), escape(names[1])))
end

--- Adds call chains to an event, as --call-graph, --user and --kernel ask.
-- @tparam string who
-- @tparam table opt   `call_graph`, `user`, `kernel`
-- @tparam table spec  of perfev.event
-- @treturn table      spec
function M.with_stacks(who, opt, spec)
  if opt.user and opt.kernel then M.refuse(who, "--user or --kernel, not both") end
  local ok, why, remedy = event.callchain(opt.call_graph)
  if not ok then M.refuse(who, ("--call-graph: %s\n  try: %s"):format(why, remedy)) end
  spec.callchain = opt.kernel and "fp" or opt.call_graph -- the other ways concern user frames only
  spec.exclude_callchain_kernel, spec.exclude_callchain_user = opt.user or nil, opt.kernel or nil
  return spec
end

--- Returns the fields of records in a text, as in "cpu,start.args.irq", as a list. Refuses an unknown one.
-- @tparam string who
-- @tparam string flag  the option with the text
function M.field_list(who, flag, text)
  local list = {}
  for word in text:gmatch "[^,%s]+" do
    local kind, why = core.value_kind((word:gsub("^start%.", "")))
    if not kind then M.refuse(who, ("%s: %s"):format(flag, why)) end
    list[#list + 1] = word
  end
  return list[1] and list or M.refuse(who, flag .. ": a field at least, as in tid")
end

--- Returns "SIGKILL" for 9; nil for an unknown number.
function M.signal_name(number) return flag_names.signal(number) end

-- TRACE_FLAG_HARDIRQ, TRACE_FLAG_SOFTIRQ: include/linux/trace_events.h
local INTERRUPT = 1 << 3 | 1 << 4

--- Returns whether a tracepoint was hit in an interrupt: then its task is not the one that caused it.
-- @tparam payload args
function M.is_in_interrupt(args) return args.common_flags & INTERRUPT ~= 0 end

local AF_INET6 = 10

--- Returns the two addresses of a tracepoint of sockets as text: source (the local one) and destination.
-- @tparam payload args  with `family`, `saddr`, `daddr`, `saddr_v6`, `daddr_v6`
function M.socket_addresses(args)
  local suffix = args.family == AF_INET6 and "_v6" or ""
  return args:text("saddr" .. suffix), args:text("daddr" .. suffix)
end

--- Returns the name of the disk with this device number ("vda"), or "MAJOR:MINOR".
function M.disk_name(dev)
  return session.default().opts.input and disk_names.numbers(dev) or disk_names.name(dev)
end

--- Returns the name, the kind and the owner of a cgroup, by its path.
function M.container_name(path)
  if type(path) ~= "string" then error(("container_name: a path is a string, not a %s"):format(type(path)), 2) end
  return container_name.name(path)
end

--- Adds a copy of the new program's stack to a declaration of sched:sched_process_exec, and an early event that reads
-- the arguments from /proc; returns the declaration.
function M.with_arguments(spec) return exec_arguments.with_stack(spec) end

--- Returns the arguments of the process that a record is about, or nil.
function M.exec_arguments(r) return exec_arguments.on_stack(r) or exec_arguments.of_process(r) end

--- Returns arguments as one line of escaped text.
function M.arguments_text(words) return exec_arguments.text(words) end

--- Follows the allocations of programs from a library until they are freed; see doc/api/tool.md.
-- @tparam string who
-- @tparam table opt   `library`, `call_graph`
-- @treturn function   f() -> iterator over the allocations that are not freed, each with its age
-- @treturn function   f() -> the number of allocations whose address is unknown
function M.follow_allocations(who, opt)
  session.default():begin(function()
    local opts = session.default().opts
    if opts.input or opts.cgroup or not options.is_cpu_wide(opts) then return end
    M.refuse(who, "the session itself allocates memory for each record, so the machine's allocations never end\n"
      .. "  try: -p PID, or a command")
  end)
  return require("perfev.tool.memory.allocations").follow(opt.library or "libc", function(spec)
    return M.with_stacks(who, { call_graph = opt.call_graph or "fp", user = true }, spec)
  end)
end

--- Follows the memory that processes map until they unmap it; see doc/api/tool.md.
-- @tparam string who
-- @tparam table opt   `call_graph`
-- @treturn function   f() -> iterator over the mapped pieces
function M.follow_mappings(who, opt)
  return require("perfev.tool.memory.mappings").follow(function(spec)
    return M.with_stacks(who, { call_graph = opt.call_graph or "fp", user = true }, spec)
  end)
end

--- Counts reads and page faults of files that find their pages in the page cache; see doc/api/tool.md.
-- @treturn function  f() -> { hits, misses, added, removed } since its last call
function M.count_cache_uses() return require("perfev.tool.memory.page_cache").count() end

-- ---- output ----

--- Returns the output format that the user asked for: "text", or "json" (perfl -j).
function M.output_format() return agg.default_form end

--- Returns a value as JSON.
function M.json(value) return json.encode(value) end

--- The columns of each table_printer, for perfl describe.
M._tables = {}

--- Returns functions that print a table: rows in columns below a heading, or JSON objects.
-- @tparam table columns  list of { key, width, format: "%s", title: the key in capitals }; a negative width aligns to
--                        the left
-- @treturn function      f(row): prints the values of a table by key; text without a value is "-"
-- @treturn function      f(): prints the heading, if the output is text
function M.table_printer(columns)
  local is_json = M.output_format() == "json"
  M._tables[#M._tables + 1] = columns
  local function print_line(cell_of)
    local cells = {}
    for i, column in ipairs(columns) do cells[i] = ("%" .. column[2] .. "s"):format(cell_of(column)) end
    print((table.concat(cells, " "):gsub(" +$", "")))
  end
  local function print_row(row)
    if is_json then return print(json.encode(row)) end
    print_line(function(column)
      local value = row[column[1]]
      if value == nil then return "-" end
      return type(value) == "string" and escape(value) or (column.format or "%s"):format(value)
    end)
  end
  return print_row, function()
    if not is_json then print_line(function(column) return column.title or column[1]:upper() end) end
  end
end

--- Prints a histogram: a value of perfev.hist, below a title of its own.
function M.print_histogram(title, unit, value) agg.print_histogram(title, unit, value, true) end

--- Prints durations by key, the most total time first: a table in microseconds, or JSON.
-- @tparam table took     perfev.quantile, in ns
-- @tparam string column  what a key is, as in "call"
-- @tparam function name  f(row) -> string, of a row of took:rows()
-- @tparam[opt] integer top  print only this number of rows
-- @tparam[opt] table more   further members of each JSON object
function M.print_durations(took, column, name, top, more)
  local rows, is_json = took:rows(), more ~= nil or M.output_format() == "json"
  table.sort(rows, function(a, b)
    if a.value.sum ~= b.value.sum then return a.value.sum > b.value.sum end
    return name(a) < name(b)
  end)
  local width = 20
  for i = 1, is_json and 0 or math.min(top or #rows, #rows) do width = math.max(width, #escape(name(rows[i]))) end
  local layout = "%-" .. math.min(width, 60) .. "s %7s %10s %9s %9s %9s %9s"
  local function show(...) print(layout:format(...)) end
  local function us(ns) return ("%.1f"):format(ns / 1000) end
  if not is_json then show(column:upper(), "COUNT", "TOTAL(us)", "AVG(us)", "P50(us)", "P99(us)", "MAX(us)") end
  for i = 1, math.min(top or #rows, #rows) do
    local v, key = rows[i].value, name(rows[i])
    if is_json then
      local object = { [column] = key, unit = "ns", value = v }
      for member, value in pairs(more or {}) do object[member] = value end
      print(json.encode(object))
    else show(escape(key), v.count, us(v.sum), us(v.avg), us(v.p50), us(v.p99), us(v.max)) end
  end
  if top and top < #rows and not is_json then print(("(%d others)"):format(#rows - top)) end
end

--- Makes a report of durations, which prints itself: a histogram by key, or a table.
-- @tparam string who
-- @tparam table opt   values of `tool.options.per`, `least`, `interval`, `latency_format` and `unit`
-- @tparam table spec  see doc/api/tool.md
-- @treturn table      `into`, span(), add()
function M.latency(who, opt, spec)
  return require("perfev.tool.latency").new(M, who, opt, spec)
end

--- Reads a profile from a file: a recording, folded stacks, or a packed aggregator.
-- @tparam string who
-- @tparam string path
-- @tparam[opt] table opt  `event` (of a recording; default cpu-clock), `unit` of the values of another file ("count"),
--                         `by` ("comm", "dso" or "binary": add their names in the place of functions), `title`,
--                         `command` (the user's, for remedies)
-- @treturn[1] profile
-- @treturn[2] nil
-- @treturn[2] string  the cause
function M.read_profile(who, path, opt) return require "perfev.tool.profile_input".read(M, who, path, opt or {}) end

--- Prints a line for each system call that takes a path, with the result and the text of the path.
-- @tparam table opt  see doc/api/tool.md
function M.print_path_calls(opt) require "perfev.tool.system_calls.path_calls" (opt) end

--- Returns a set of the names of system calls that an expression of strace -e selects, as in "%file,!close".
function M.select_calls(who, expression)
  local set, wrong, names = call_formats.select(expression)
  if set then return set end
  if wrong == "" then M.refuse(who, "-e: it names no system call\n  try: -e open,read") end
  local class = "%" .. wrong -- older versions of strace have classes without %
  local near = call_formats.CLASSES:find(class, 1, true) and class or core.nearest(wrong, names)
  M.refuse(who, ("-e %s: '%s' is not a system call or one of %s\n  try: -e %s"):format(escape(expression),
    escape(wrong), call_formats.CLASSES, near or "%file"))
end

--- Prints system calls as strace does.
-- @tparam table opt  see doc/api/tool.md
function M.print_calls(opt) require "perfev.tool.system_calls.print_calls" (opt) end

--- Declares an early event that collects a fact about each record, for the event of the same name that is in order.
-- @tparam table spec        of perfev.event, without callbacks
-- @tparam function collect  f(r, args) -> the fact, as soon as the record is read from the ring
-- @treturn function         f(tid, time) -> the fact of that record; nil: it is missing, or of a recording
function M.early_facts(spec, collect) return require "perfev.live.early_facts" (spec, collect) end

--- Makes the profile that a script prints at its end. Reads the baseline when the session starts: a recording with the
-- script's own events and callbacks.
-- @tparam string who
-- @tparam table opt   values of the options: `format`, and what exists of `title`, `baseline`, `absolute`
-- @tparam table spec  of perfev.profile
-- @treturn profile
function M.profile(who, opt, spec) return require("perfev.tool.profile_output").new(M, who, opt, spec) end

--- Looks up the names of a profile, with progress on standard error each second, and writes it to the output.
-- @tparam string who
-- @tparam profile profile
-- @tparam table opt  values of the options, as for `M.profile`, and `call_graph`: perfl prints a hint if the stacks are
--                    cut short
function M.print_profile(who, profile, opt) require("perfev.tool.profile_output").print(who, profile, opt) end

local own_stdout = io.stdout -- perfl -o replaces it

--- Shows the samples of an event, live: on a terminal with keys, else a table for each interval.
-- @tparam string who
-- @tparam table opt   values of the options `event` and `interval`
-- @tparam table spec  of the event, as perfev.event takes it, without `sample` and `callchain`
function M.show_top(who, opt, spec)
  local shown
  local function title() return opt.event == "cpu-clock" and M.replaced_clock(who, shown) or opt.event end
  shown = require("perfev.tool.top").show(opt, spec, io.stdout == own_stdout and not session.prints_lines, title)
end

--- Writes a page with all samples over time at the end of the session: the reader selects a range.
-- @tparam string who
-- @tparam table opt   values of the script explore: `events`, `frequency`, `off_cpu`, `idle`, `max_samples`, `title`,
--                     `call_graph`, `user`, `kernel`
function M.explore(who, opt) require("perfev.explore").run(M, who, opt) end

--- Prints the source lines and instructions of a function with their shares of its samples.
-- @tparam string who
-- @tparam string name      of the function
-- @tparam table count      perfev.count of the samples, whose only column is `symbol`, with `addresses`
-- @tparam table periods    perfev.sum of their periods, with the same column
-- @tparam table opt        `event` (the name for the title), `format` ("text", "html"), `asm` (true: no source)
function M.print_function(who, name, count, periods, opt)
  local ok, why = annotation.print(name, count, periods, opt)
  if not ok then M.refuse(who, why, 1) end
end

--- Prints what the scheduler does.
-- @tparam string mode  "timehist", "latency" or "map": as perf sched
-- @tparam table opt    `is_chosen` (of choose_tasks; nil: all tasks), `per` ("tid", "comm": the rows of latency)
function M.print_scheduling(mode, opt)
  scheduler_events.feed(require("perfev.tool.sched." .. mode)(opt))
end

--- Counts events of the default session and prints the columns of perf stat.
-- @tparam string who
-- @tparam table opt  values of the options of the script stat
function M.print_stat(who, opt) require("perfev.tool.stat.output").print(who, opt, M.refuse) end

return M
