-- opensnoop: prints a line for each file that is opened, with the result of the call.
-- perfl -a opensnoop
-- perfl opensnoop --failed ls -l

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "print a line for each file that is opened",
  { "-x --failed", help = "print only calls that failed" },
  output = [[
Prints a line for each call: TIME(s) since the first, PID, COMM, RESULT and
PATH.]],
  epilog = [[
RESULT is the file descriptor or the error. The heading says where paths come
from: the tracepoints (Linux 6.19), else kprobes, else uprobes on libc, which
miss the files that a program opens without libc: its libraries at the start.
Such a path is an address. Relative paths are as the program passed them.]],
}

tool.print_path_calls {
  calls = { "openat", "openat2", "open", "creat" },
  kernel = { do_sys_openat2 = 2, getname_flags = 1 },
  libc = { open = 1, openat = 2, creat = 1, __open64_nocancel = 1 }, -- the last: fopen, opendir, locales
  failed = opt.failed,
}
