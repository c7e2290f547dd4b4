-- statsnoop: prints a line for each file whose status is read, with the result.
-- perfl -a statsnoop
-- perfl statsnoop --failed sh -c make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "print a line for each file whose status is read: stat(2), statx(2), statfs(2)",
  { "-x --failed", help = "print only calls that failed" },
  output = [[
Prints a line for each call: TIME(s) since the first, PID, COMM, RESULT and
PATH.]],
  epilog = [[
The heading says where paths come from: the tracepoints (Linux 6.19), else
kprobes, else uprobes on libc, which miss programs without it. Such a path is an
address. Relative paths are as the program passed them. Calls for an open file,
as fstat(2), are left out.]],
}

tool.print_path_calls {
  calls = { "statx", "newfstatat", "newstat", "newlstat", "statfs" },
  kernel = { vfs_fstatat = 2, user_statfs = 1, getname_flags = 1 },
  libc = { stat = 1, lstat = 1, fstatat = 2, statx = 2, statfs = 1, __xstat = 2, __lxstat = 2, __fxstatat = 3 },
  failed = opt.failed, skips_descriptors = true,
}
