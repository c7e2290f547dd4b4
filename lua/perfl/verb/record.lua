--- perfl record: records to a perf.data file without a script. Options that perf record has mean the same here.

local args = require "perfev.tool.args"
local core = require "perfev.core"
local declaration = require "perfev.event.declaration"
local escape = require "perfev.base.escape"
local command_line = require "perfl.command_line"
local perfev = require "perfev"
local message = require "perfl.message"
local resolve = require "perfev.event.resolve"
local verb = require "perfl.verb"

local M = {}

local FILE = "perf.data"
local STACK_BYTES, STACK_MAX = 8192, 65528 -- perf record's; sample_stack_user is below 64 KiB and a multiple of 8

-- "max": the kernel's limit, perf_event_max_sample_rate
local function parse_frequency(text)
  local most = text == "max" and core.slurp "/proc/sys/kernel/perf_event_max_sample_rate"
  text = most and most:match("%d+") or text
  local n = text:find("^%d+$") and math.tointeger(tonumber(text))
  if n and n > 0 then return n end
  return nil, ("frequency '%s': expected a whole number above 0, or max"):format(text)
end

local function parse_positive(what)
  return function(text)
    local n = text:find("^%d+$") and math.tointeger(tonumber(text))
    if n and n > 0 then return n end
    return nil, ("%s '%s': expected a whole number above 0"):format(what, text)
  end
end

-- "fp", "fp,defer", "dwarf", "dwarf,16384"
local function parse_call_graph(text)
  if text == "fp,defer" or text == "defer" then return { kind = "defer" } end
  local kind, size = text:match("^(%a+),?(%d*)$")
  if kind == "fp" and size == "" then return { kind = kind } end
  local bytes = size == "" and STACK_BYTES or math.tointeger(tonumber(size))
  if kind == "dwarf" and bytes and bytes > 0 and bytes <= STACK_MAX then
    return { kind = kind, bytes = (bytes + 7) // 8 * 8 }
  end
  return nil, ("call graph '%s': expected fp, fp,defer, dwarf or dwarf,BYTES (up to %d)"):format(text, STACK_MAX)
end

local function parse_level(text)
  local n = math.tointeger(tonumber(text))
  if n and n >= 1 and n <= 22 then return n end
  return nil, ("compression level '%s': expected 1 to 22"):format(text)
end

-- Options that only perfl record has; `shared` lists those of perfl that mean the same.
local own = {
  { "-o --output", into = "record", metavar = "FILE",
    help = "write to FILE (default: " .. FILE .. "; -: standard output)" },
  { "-e --event", into = "events", metavar = "EVENTS", many = true,
    help = "sample these events, named as for perf record (default: cycles)" },
  { "-F --freq", into = "freq", metavar = "HZ", convert = parse_frequency,
    help = ("take HZ samples a second (default: %d); max: as many as the kernel allows")
      :format(declaration.DEFAULT_FREQ) },
  { "-c --count", into = "period", metavar = "N", convert = parse_positive "period",
    help = "take a sample every N events" },
  { "-g", into = "callchain", help = "record call chains" },
  { "--call-graph", into = "call_graph", metavar = "fp|fp,defer|dwarf[,BYTES]", convert = parse_call_graph,
    help = "the same; defer: take user stacks on return to user mode (6.19); dwarf: record registers and BYTES of "
      .. "stack, and unwind them later" },
  { "-z", into = "compress", help = "compress with zstd, at level 1" },
  { "--compression-level", into = "level", metavar = "LEVEL", convert = parse_level,
    help = "compress with zstd, at this level (1 to 22)" },
  { "--filter", into = "filter", metavar = "FILTER", help = "keep only tracepoint events that match, as in 'pid > 1'" },
}
local shared = { "-a", "-C", "-p", "-t", "--uid", "--comm", "--cgroup", "-d", "-m", "--switch-output", "-q", "-v",
                 "--trace-sys", "--many", "--dry-run", "--fail-on-lost" }
local long_names = { ["-a"] = "--all-cpus", ["-q"] = "--quiet", ["-v"] = "--verbose" } -- perf record's

-- perfl's option, also under perf record's long name.
local function shared_row(flag)
  local row = command_line.by_flag[flag]
  return long_names[flag] and setmetatable({ row[1] .. " " .. long_names[flag] }, { __index = row }) or row
end

local function new_parser()
  local parser = args.new_parser("perfl record"):add_help(true)
  parser:usage "Usage: perfl record [options] [command args...]"
  parser:description [[
Record a command, processes or, without either, the whole machine, to a file for
perf report, hotspot and perfl -i. An existing file is kept as FILE.old.]]
  parser:epilog [[
A recording contains addresses, command lines and file names, and memory if
stacks are recorded. Its mode is 0600; share it with care.]]
  local rows = { table.unpack(own) }
  for _, flag in ipairs(shared) do rows[#rows + 1] = shared_row(flag) end
  for _, row in ipairs(rows) do command_line.add_row(parser, row) end
  return parser, rows
end

-- The event declaration of one -e.
local function event_spec(text, opts)
  local spec = { text, freq = opts.freq, period = opts.period, filter = opts.filter }
  local graph = opts.call_graph
  spec.callchain = graph and (graph.bytes and "dwarf," .. graph.bytes or graph.kind) or opts.callchain
  return spec
end

local function check_options(opts, command)
  if opts.freq and opts.period then
    return "-F and -c cannot be combined\n-F samples by time, -c by a number of events\ntry: one of them"
  end
  if opts.call_graph and opts.call_graph.bytes then
    local known, why = resolve.call_graph("dwarf", opts.call_graph.bytes)
    if not known then return ("--call-graph dwarf: %s; try: --call-graph fp"):format(why) end
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
  local head, command = command_line.split_command(words, rows)
  local result, status = verb.parse(parser, "record", head)
  if not result then return nil, status end
  local opts = command_line.taken(rows, result)
  local wrong = check_options(opts, command)
  if wrong then return verb.refuse("record", wrong) end
  opts.compress = opts.level or opts.compress
  opts.record = opts.record or FILE
  if not (command or opts.pids or opts.tids or opts.cpus or opts.uid or opts.comm or opts.cgroup) then
    opts.all_cpus = true
  end
  local events = #opts.events > 0 and opts.events or { "cycles" }
  return opts, function()
    for _, text in ipairs(events) do perfev.event(event_spec(text, opts)) end
  end, command
end

--- The summary line of a recording.
-- @tparam table recorded  a session's `recorded`
-- @tparam table totals    of the session
function M.summary_line(recorded, totals)
  local size = recorded.bytes >= 1e6 and ("%.1f MB"):format(recorded.bytes / 1e6)
    or recorded.bytes >= 1e3 and ("%.1f kB"):format(recorded.bytes / 1e3) or recorded.bytes .. " bytes"
  local to = recorded.path == "-" and "standard output" or recorded.path
  local samples = recorded.samples and (", %s sample%s"):format(message.grouped(recorded.samples),
    recorded.samples == 1 and "" or "s") or ""
  return ("recorded %s to %s%s%s, %s lost"):format(size, escape(to),
    recorded.parts > 1 and (" and %d file%s before it"):format(recorded.parts - 1, recorded.parts == 2 and "" or "s")
      or "", samples,
    message.grouped(totals.lost))
end

return M
