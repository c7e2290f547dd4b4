--- The arguments of system calls by their tracepoints' formats, and the classes of calls that strace -e has.

local syscalls = require "perfev.tracepoint.syscalls"
local tracefs = require "perfev.tracepoint.tracefs"

local M = { AT_FDCWD = -100 }

--- Returns the int in a register.
function M.to_int(value) return ((value & 0xffffffff) ~ 0x80000000) - 0x80000000 end

-- A call whose function in the kernel has another name than the call.
local functions = { stat = "newstat", lstat = "newlstat", fstat = "newfstat", uname = "newuname",
  sendfile = "sendfile64", umount2 = "umount" }

local known = { rt_sigreturn = {} } -- it has no arguments, and no tracepoint

local function read_format(name)
  local found = tracefs.find("syscalls", "sys_enter_" .. (functions[name] or name))
  if not found or not found.format then return false end
  local list = {}
  for declaration in found.format:gmatch "\tfield:([^;]+);" do
    local kind, field = declaration:match "^(.-)%s*([%w_]+)$"
    if kind and not field:find "^common_" and not field:find "^__" then
      list[#list + 1] = { name = field, type = kind }
    end
  end
  return list
end

--- Returns the arguments of a call, { name =, type = } each; nil: this machine's tracefs does not know them.
function M.arguments(name)
  if known[name] == nil then known[name] = read_format(name) end
  return known[name] or nil
end

-- ---- classes ----

local function set_of(words)
  local set = {}
  for word in words:gmatch "%S+" do set[word] = true end
  return set
end

local descriptors = set_of [[fd fildes oldfd newfd dfd olddfd newdfd epfd in_fd out_fd fd_in fd_out fdin fdout infd
  outfd ufd pidfd from_dfd to_dfd mqdes target_fd dirfd fs_fd ruleset_fd group_fd]]
local paths = set_of [[filename pathname path oldname newname name dir_name dev_name new_root put_old specialfile
  special library from_pathname to_pathname]]
local not_paths = set_of "sethostname setdomainname memfd_create init_module delete_module fsopen add_key request_key"

--- Returns true if the argument of this call is a descriptor.
function M.is_descriptor(_, argument)
  return descriptors[argument.name] and not argument.type:find "%*$" or false
end

--- Returns true if the argument of this call is a path.
function M.is_path(call, argument)
  return paths[argument.name] and argument.type:find "^const char %*" and not not_paths[call] or false
end

local function has(is_such)
  return function(call)
    for _, argument in ipairs(M.arguments(call) or {}) do
      if is_such(call, argument) then return true end
    end
    return false
  end
end

local function is_one_of(words)
  local set = set_of(words)
  return function(call) return set[call] == true end
end

local has_descriptor = has(M.is_descriptor)
local makes_descriptor = is_one_of("open creat pipe pipe2 select pselect6 poll ppoll epoll_create epoll_create1 "
  .. "eventfd eventfd2 memfd_create inotify_init inotify_init1 timerfd_create perf_event_open userfaultfd "
  .. "fanotify_init pidfd_open mq_open bpf io_uring_setup")

local classes = {
  file = has(M.is_path),
  desc = function(call) return has_descriptor(call) or makes_descriptor(call) end,
  process = is_one_of("clone clone3 fork vfork execve execveat exit exit_group wait4 waitid waitpid kill tkill tgkill "
    .. "rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal unshare setns arch_prctl"),
  network = is_one_of("socket socketpair bind connect listen accept accept4 getsockname getpeername sendto recvfrom "
    .. "setsockopt getsockopt shutdown sendmsg recvmsg sendmmsg recvmmsg sendfile"),
  signal = is_one_of("kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait "
    .. "rt_sigqueueinfo rt_tgsigqueueinfo rt_sigreturn sigaltstack signalfd signalfd4 pause pidfd_send_signal"),
  ipc = is_one_of("msgget msgsnd msgrcv msgctl semget semop semtimedop semctl shmget shmat shmdt shmctl ipc"),
  memory = is_one_of("mmap mmap2 munmap mremap mprotect pkey_mprotect brk madvise process_madvise mlock mlock2 munlock "
    .. "mlockall munlockall msync mincore mbind set_mempolicy get_mempolicy migrate_pages move_pages "
    .. "remap_file_pages shmat shmdt io_setup io_destroy"),
}
classes.net = classes.network

--- The names of the classes.
M.CLASSES = "%desc, %file, %ipc, %memory, %network, %process, %signal"

-- Adds the calls that a word of the expression selects. Returns nil and the cause if there are none.
local function select_word(word, names, set)
  local is_optional = word:sub(1, 1) == "?"
  word = word:gsub("^%?", "")
  local class = classes[word:match "^%%(.+)$" or ""]
  local nr = 0
  for _, name in pairs(names) do
    if word == "all" or word == name or class and class(name) then
      set[name], nr = true, nr + 1
    end
  end
  if nr > 0 or is_optional or word == "none" then return true end
  return nil, word
end

--- Reads an expression of strace -e: "trace=open,%file", "open,read", "!read".
-- @tparam string text
-- @treturn[1] table  a set of the names of the selected calls
-- @treturn[2] nil
-- @treturn[2] string  the word that selects no call; "" if there are no words
-- @treturn[2] table   the names of all calls, a list
function M.select(text)
  local names, set, list, has_words = syscalls.of(), {}, {}, false
  for _, name in pairs(names) do list[#list + 1] = name end
  text = text:gsub("^trace=", ""):gsub("^t=", "")
  for word in text:gsub("^!", ""):gmatch "[^,%s]+" do
    has_words = true
    local ok, wrong = select_word(word, names, set)
    if not ok then return nil, wrong, list end
  end
  if not has_words then return nil, "", list end
  if not text:find "^!" then return set end
  local others = {}
  for _, name in ipairs(list) do
    if not set[name] then others[name] = true end
  end
  return others
end

local FILTER_MAX = 4000 -- PERF_EVENT_IOC_SET_FILTER takes a page

--- Returns the kernel's filter of raw_syscalls for a set of names, or nil if it would be too long.
function M.filter(set)
  local parts = { "id == -1" } -- the return from rt_sigreturn, whose number is gone with the signal's frame
  for number, name in pairs(syscalls.of()) do
    if set[name] then parts[#parts + 1] = ("id == %d"):format(number) end
  end
  table.sort(parts)
  local text = table.concat(parts, " || ")
  return #text <= FILTER_MAX and text or nil
end

return M
