--- perfl record: records to a perf.data file without a script. Options that perf record has mean the same here.

local args = require "perfev.tool.args"
local escape = require "perfev.base.escape"
local command_line = require "perfl.command_line"
local message = require "perfl.message"
local options = require "perfl.verb.record_options"
local other_tools = require "perfl.other_tools"
local perfev = require "perfev"
local resolve = require "perfev.event.resolve"
local verb = require "perfl.verb"

local M = {}

-- perfl's options that mean the same.
local shared = { "-a", "-C", "-p", "-t", "--uid", "--comm", "--cgroup", "--switch-output",
                 "--switch-max-files", "--no-names", "--lines", "-q", "-v",
                 "--trace-sys", "--many", "--dry-run", "--fail-on-lost" }
-- perf record's other names of these.
local other_names = { ["--uid"] = "-u", ["--cgroup"] = "-G" }

local function shared_row(flag)
  local row, other = command_line.by_flag[flag], other_names[flag]
  return other and setmetatable({ row[1] .. " " .. other }, { __index = row }) or row
end

local function new_parser()
  local parser = args.new_parser("perfl record"):add_help(true)
  parser:usage "Usage: perfl record [options] [command args...]"
  parser:description [[
Record a command, processes or, without either, the whole machine, to a file for
perf report, hotspot and perfl -i. An existing file is kept as FILE.old.]]
  parser:epilog [[
A recording contains addresses, command lines and file names, and memory if
stacks are recorded. Its mode is 0600; share a copy that perfl redact made.]]
  local rows = { table.unpack(options.rows) }
  for _, flag in ipairs(shared) do rows[#rows + 1] = shared_row(flag) end
  for _, row in ipairs(rows) do command_line.add_row(parser, row) end
  return parser, rows
end

-- The event declaration of one -e.
local function event_spec(text, opts)
  local spec = { text, freq = opts.freq, period = opts.period, filter = opts.filter, extra_sample_type = {},
                 disabled = opts.delay and true }
  local graph = opts.call_graph
  spec.callchain = graph and (graph.bytes and "dwarf," .. graph.bytes or graph.kind) or opts.callchain
  for _, row in ipairs(options.rows) do
    if row.spec and opts[row.into] then row.spec(spec, opts[row.into]) end
  end
  if not spec.extra_sample_type[1] then spec.extra_sample_type = nil end
  return spec
end

-- The declaration of an event for records of other types, or nil.
local function side_spec(opts)
  local spec = {}
  for _, row in ipairs(options.rows) do
    if row.side and opts[row.into] then row.side(spec) end
  end
  return next(spec) and spec
end

-- Enables the events in the ranges of -D only.
local function follow_delay(events, ranges)
  local function each(method)
    return function()
      for _, ev in ipairs(events) do assert(ev[method](ev)) end
    end
  end
  for _, range in ipairs(ranges) do
    if range[1] == 0 then perfev.begin(each "enable") else perfev.after(range[1] .. "ms", each "enable") end
    if range[2] then perfev.after(range[2] .. "ms", each "disable") end
  end
end

local function declare_events(opts)
  local events = {}
  for _, text in ipairs(#opts.events > 0 and opts.events or { "cycles" }) do
    events[#events + 1] = perfev.event(event_spec(text, opts))
  end
  local side = side_spec(opts)
  if side then perfev.event(side) end
  if opts.delay then follow_delay(events, opts.delay) end
end

local function check_options(opts, command)
  if opts.freq and opts.period then
    return "-F and -c cannot be combined\n-F samples by time, -c by a number of events\ntry: -F or -c"
  end
  if opts.call_graph and opts.call_graph.bytes then
    local known, why = resolve.call_graph("dwarf", opts.call_graph.bytes)
    if not known then return ("--call-graph dwarf: %s; try: --call-graph fp"):format(why) end
  end
  if opts.data and command and command[1] and command[1]:find("^%d+%a*$") then
    local word = command[1]
    return ("'%s' is not a command\n-d records data addresses, as in perf record\n"
      .. "try: --duration %s"):format(word, word)
  end
  if opts.user_regs and opts.call_graph and opts.call_graph.bytes then
    return "--user-regs and --call-graph dwarf at once\n  dwarf records all registers\n  try: without --user-regs"
  end
  if opts.branch_any and opts.branch_filter then return "-b and -j at once: -b is -j any\ntry: -b or -j" end
  if opts.all_intr_regs and opts.intr_regs then
    return "-I and --intr-regs at once: -I records all registers\ntry: -I or --intr-regs"
  end
  if opts.all_user and opts.all_kernel then
    return "--all-user and --all-kernel at once: nothing is left to sample\ntry: --all-user or --all-kernel"
  end
  if opts.switch_output and opts.record == "-" then
    return "--switch-output needs a file, but -o is standard output\ntry: -o FILE"
  end
  return command_line.check_together(opts, { command = command })
end

--- Parses the command line.
-- @tparam {string,...} words  after "record"
-- @treturn[1] table     perfl's options
-- @treturn[1] function  declares the events
-- @treturn[1] ?table    the command
-- @treturn[2] nil
-- @treturn[2] integer   exit status; the help or the error is printed
function M.parse(words)
  local parser, rows = new_parser()
  other_tools.options.record = options.refused
  local head, command = command_line.split_command(words, rows)
  local result, status = verb.parse(parser, "record", head)
  if not result then return nil, status end
  local opts = command_line.taken(rows, result)
  local wrong = check_options(opts, command)
  if wrong then return verb.refuse("record", wrong) end
  opts.compress = opts.level or opts.compress
  opts.record = opts.record or options.FILE
  if not (command or opts.pids or opts.tids or opts.cpus or opts.uid or opts.comm or opts.cgroup) then
    opts.all_cpus = true
  end
  return opts, function() declare_events(opts) end, command
end

--- A size in bytes as text: "1.1 kB".
function M.shown_size(bytes)
  return bytes >= 1e6 and ("%.1f MB"):format(bytes / 1e6) or bytes >= 1e3 and ("%.1f kB"):format(bytes / 1e3)
    or bytes .. " bytes"
end

--- The summary line of a recording.
-- @tparam table recorded  a session's `recorded`
-- @tparam table totals    of the session
function M.summary_line(recorded, totals)
  local to = recorded.path == "-" and "standard output" or recorded.path
  local samples = recorded.samples and (", %s sample%s"):format(message.grouped(recorded.samples),
    recorded.samples == 1 and "" or "s") or ""
  local before = recorded.parts > 1
    and (" and %d file%s before it"):format(recorded.parts - 1, recorded.parts == 2 and "" or "s") or ""
  if recorded.removed then before = ("%s (%d removed)"):format(before, recorded.removed) end
  local names = (recorded.name_bytes or 0) > 0 and (", %s of names"):format(M.shown_size(recorded.name_bytes)) or ""
  return ("recorded %s to %s%s%s%s, %s lost"):format(M.shown_size(recorded.bytes), escape(to), before, samples, names,
    message.grouped(totals.lost))
end

return M
