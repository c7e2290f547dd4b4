-- execsnoop: prints programs as they start, with their arguments, and end.
-- perfl -a execsnoop                on the whole machine, until ^C
-- perfl execsnoop --ends -- make    those of make; without root, FILE is missing

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "print programs as they start",
  { "-x --ends", help = "also print their ends, with the time since exec" },
  output = [[
Prints a line for each start of a program: TIME(s) since the first, PID, PPID,
COMM, FILE and ARGUMENTS. With --ends also one for each end.]],
  epilog = [[
FILE is the executed file; it requires the right to read tracepoints. ARGS are
read from the new program's stack if the kernel could copy it, else from
/proc/PID/cmdline as soon as the record is read. [?] means that this was too
late: the program had ended or called exec again. Only recordings of execsnoop
have arguments. The kernel's records have no exit status. PPID is ? if a
recording lacks it.]],
}

local started, first = {}, nil

local function show(r, comm, text)
  first = first or r.time
  print(("%12.6f %7d %7s %-16s %s"):format((r.time - first) / 1e9, r.pid, r.task.ppid or "?",
    perfev.escape(comm), text))
end

-- Replaces the first argument by the file, if known.
local function show_start(r, file)
  local is_live = not perfev.default_session().opts.input
  local words = tool.exec_arguments(r)
  local mark = (is_live or file and r.stack_user) and not words and "[?]" or nil
  words = words or {}
  if file then words[1] = file end
  local text = tool.arguments_text(words)
  show(r, r.comm, mark and (text .. " " .. mark):gsub("^ ", "") or text)
end

local with_file = perfev.event(tool.with_arguments { "sched:sched_process_exec", optional = true,
  sample = function(r, args) show_start(r, args.filename) end })

perfev.begin(function()
  print(("%12s %7s %7s %-16s %s"):format("TIME(s)", "PID", "PPID", "COMM", "FILE ARGUMENTS"))
  -- Without the tracepoint no event is early, but /proc has the arguments only while the program runs.
  if with_file.error and not perfev.default_session().opts.input then perfev.every("5ms", function() end) end
end)

perfev.event {
  comm = function(r)
    if not r.exec then return end
    started[r.pid] = r.time
    if with_file.error then show_start(r) end
  end,
  exit = function(r)
    if r.pid ~= r.tid then return end
    local since = started[r.pid]
    if opt.ends and since then
      show(r, r.comm, ("ended after %.6f s"):format((r.time - since) / 1e9))
    end
    started[r.pid] = nil
  end,
}
