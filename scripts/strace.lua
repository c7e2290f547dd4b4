-- strace: prints system calls with their arguments and results, as strace(1) does.
-- perfl strace -T ls /
-- perfl strace -e trace=%file -y -- make
-- perfl -d 5s -p 1234 strace -c

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "print system calls with their arguments and results",
  { "-e --trace", metavar = "CALLS", help = "only these calls: open,read; %file; !close" },
  { "-T --syscall-times", help = "print the time that each call took" },
  { "-c --summary-only", help = "print only a table: time, number and errors of each call" },
  { "-y --decode-fds", help = "print the files of descriptors" },
  { "-Z --failed-only", help = "print only calls that failed" },
  output = [[
Prints a line for each call, as strace(1) does: name(arguments) = result. With
several tasks it begins with the task. -c prints a table at the end: calls,
errors and time by call.]],
  epilog = [[
The tasks are not stopped. Children are followed. Classes of calls: %desc,
%file, %ipc, %memory, %network, %process, %signal. Arguments are those of the
call's tracepoint. Memory is an address, but paths are text if kprobes saw them,
else uprobes on libc, which miss the files that a program opens without libc.
-y looks a file up as soon as perfl reads the record: <?> means that this was
too late. It requires a running task; a recording has no files.]],
}

tool.print_calls {
  selected = opt.trace and tool.select_calls("strace", opt.trace), durations = opt.syscall_times,
  summary = opt.summary_only, files = opt.decode_fds, failed = opt.failed_only,
}
