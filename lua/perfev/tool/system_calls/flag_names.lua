--- Names of the values of arguments: flags, operations, signals.
-- Source: include/uapi of Linux 6.18; the order is that of strace.

local core = require "perfev.core"

local M = {}

-- "NAME=0x1 NAME=..." -> { { name, value }, … }
local function list_of(text)
  local list = {}
  for name, value in text:gmatch "(%S+)=(%S+)" do list[#list + 1] = { name, math.tointeger(tonumber(value)) } end
  return list
end

-- arch/arm64/include/uapi/asm/fcntl.h has other values for these.
local is_arm = core.machine:find "^aarch64" or core.machine:find "^arm"
local OPEN_ARCH = is_arm and "O_DIRECT=0x10000 O_LARGEFILE=0x20000 O_NOFOLLOW=0x8000"
  or "O_DIRECT=0x4000 O_LARGEFILE=0x8000 O_NOFOLLOW=0x20000"
local O_DIRECTORY = is_arm and 0x4000 or 0x10000
local O_CREAT, O_TMPFILE = 0x40, 0x400000 | O_DIRECTORY

local OPEN = "O_CREAT=0x40 O_EXCL=0x80 O_NOCTTY=0x100 O_TRUNC=0x200 O_APPEND=0x400 O_NONBLOCK=0x800 O_SYNC=0x101000 "
  .. ("O_DSYNC=0x1000 FASYNC=0x2000 %s O_NOATIME=0x40000 O_CLOEXEC=0x80000 O_PATH=0x200000 "):format(OPEN_ARCH)
  .. ("O_TMPFILE=0x%x O_DIRECTORY=0x%x"):format(O_TMPFILE, O_DIRECTORY)

-- `one`: one of these; `bits`: any of these; both: `one` is the value under `mask`.
local kinds = {
  open = { mask = 3, one = "O_RDONLY=0 O_WRONLY=1 O_RDWR=2 O_ACCMODE=3", bits = OPEN },
  pipe = { bits = OPEN },
  prot = { bits = "PROT_READ=1 PROT_WRITE=2 PROT_EXEC=4 PROT_SEM=8 PROT_GROWSDOWN=0x1000000 PROT_GROWSUP=0x2000000",
    none = "PROT_NONE" },
  map = { mask = 15, one = "MAP_SHARED=1 MAP_PRIVATE=2 MAP_SHARED_VALIDATE=3",
    bits = "MAP_FIXED=0x10 MAP_ANONYMOUS=0x20 MAP_32BIT=0x40 MAP_GROWSDOWN=0x100 MAP_DENYWRITE=0x800 "
      .. "MAP_EXECUTABLE=0x1000 MAP_LOCKED=0x2000 MAP_NORESERVE=0x4000 MAP_POPULATE=0x8000 MAP_NONBLOCK=0x10000 "
      .. "MAP_STACK=0x20000 MAP_HUGETLB=0x40000 MAP_SYNC=0x80000 MAP_FIXED_NOREPLACE=0x100000" },
  at = { bits = "AT_SYMLINK_NOFOLLOW=0x100 AT_REMOVEDIR=0x200 AT_SYMLINK_FOLLOW=0x400 AT_NO_AUTOMOUNT=0x800 "
    .. "AT_EMPTY_PATH=0x1000 AT_STATX_FORCE_SYNC=0x2000 AT_STATX_DONT_SYNC=0x4000" },
  at_access = { bits = "AT_SYMLINK_NOFOLLOW=0x100 AT_EACCESS=0x200 AT_EMPTY_PATH=0x1000" },
  access = { bits = "R_OK=4 W_OK=2 X_OK=1", none = "F_OK" },
  whence = { one = "SEEK_SET=0 SEEK_CUR=1 SEEK_END=2 SEEK_DATA=3 SEEK_HOLE=4" },
  mask = { one = "SIG_BLOCK=0 SIG_UNBLOCK=1 SIG_SETMASK=2" },
  fcntl = { one = "F_DUPFD=0 F_GETFD=1 F_SETFD=2 F_GETFL=3 F_SETFL=4 F_GETLK=5 F_SETLK=6 F_SETLKW=7 F_SETOWN=8 "
    .. "F_GETOWN=9 F_SETSIG=10 F_GETSIG=11 F_SETOWN_EX=15 F_GETOWN_EX=16 F_OFD_GETLK=36 F_OFD_SETLK=37 "
    .. "F_OFD_SETLKW=38 F_SETLEASE=1024 F_GETLEASE=1025 F_NOTIFY=1026 F_DUPFD_CLOEXEC=1030 F_SETPIPE_SZ=1031 "
    .. "F_GETPIPE_SZ=1032 F_ADD_SEALS=1033 F_GET_SEALS=1034" },
  family = { one = "AF_UNSPEC=0 AF_UNIX=1 AF_INET=2 AF_INET6=10 AF_NETLINK=16 AF_PACKET=17 AF_BLUETOOTH=31 AF_ALG=38 "
    .. "AF_VSOCK=40 AF_XDP=44" },
  socket = { mask = 15, one = "SOCK_STREAM=1 SOCK_DGRAM=2 SOCK_RAW=3 SOCK_RDM=4 SOCK_SEQPACKET=5",
    bits = "SOCK_CLOEXEC=0x80000 SOCK_NONBLOCK=0x800" },
  accept = { bits = "SOCK_CLOEXEC=0x80000 SOCK_NONBLOCK=0x800" },
  message = { bits = "MSG_OOB=1 MSG_PEEK=2 MSG_DONTROUTE=4 MSG_TRUNC=0x20 MSG_DONTWAIT=0x40 MSG_EOR=0x80 "
    .. "MSG_WAITALL=0x100 MSG_NOSIGNAL=0x4000 MSG_MORE=0x8000 MSG_CMSG_CLOEXEC=0x40000000" },
  shutdown = { one = "SHUT_RD=0 SHUT_WR=1 SHUT_RDWR=2" },
  clone = { bits = "CLONE_VM=0x100 CLONE_FS=0x200 CLONE_FILES=0x400 CLONE_SIGHAND=0x800 CLONE_PIDFD=0x1000 "
    .. "CLONE_PTRACE=0x2000 CLONE_VFORK=0x4000 CLONE_PARENT=0x8000 CLONE_THREAD=0x10000 CLONE_NEWNS=0x20000 "
    .. "CLONE_SYSVSEM=0x40000 CLONE_SETTLS=0x80000 CLONE_PARENT_SETTID=0x100000 CLONE_CHILD_CLEARTID=0x200000 "
    .. "CLONE_UNTRACED=0x800000 CLONE_CHILD_SETTID=0x1000000 CLONE_NEWCGROUP=0x2000000 CLONE_NEWUTS=0x4000000 "
    .. "CLONE_NEWIPC=0x8000000 CLONE_NEWUSER=0x10000000 CLONE_NEWPID=0x20000000 CLONE_NEWNET=0x40000000 "
    .. "CLONE_IO=0x80000000" },
  futex = { mask = 127, one = "FUTEX_WAIT=0 FUTEX_WAKE=1 FUTEX_FD=2 FUTEX_REQUEUE=3 FUTEX_CMP_REQUEUE=4 "
    .. "FUTEX_WAKE_OP=5 FUTEX_LOCK_PI=6 FUTEX_UNLOCK_PI=7 FUTEX_TRYLOCK_PI=8 FUTEX_WAIT_BITSET=9 "
    .. "FUTEX_WAKE_BITSET=10 FUTEX_WAIT_REQUEUE_PI=11 FUTEX_CMP_REQUEUE_PI=12 FUTEX_LOCK_PI2=13",
    bits = "FUTEX_PRIVATE_FLAG=128 FUTEX_CLOCK_REALTIME=256" },
  wait = { bits = "WNOHANG=1 WUNTRACED=2 WEXITED=4 WCONTINUED=8 WNOWAIT=0x1000000 __WALL=0x40000000 "
    .. "__WCLONE=0x80000000" },
  epoll = { one = "EPOLL_CTL_ADD=1 EPOLL_CTL_DEL=2 EPOLL_CTL_MOD=3" },
  epoll_flags = { bits = "EPOLL_CLOEXEC=0x80000" },
  eventfd = { bits = "EFD_SEMAPHORE=1 EFD_CLOEXEC=0x80000 EFD_NONBLOCK=0x800" },
  advice = { one = "MADV_NORMAL=0 MADV_RANDOM=1 MADV_SEQUENTIAL=2 MADV_WILLNEED=3 MADV_DONTNEED=4 MADV_FREE=8 "
    .. "MADV_REMOVE=9 MADV_DONTFORK=10 MADV_DOFORK=11 MADV_MERGEABLE=12 MADV_HUGEPAGE=14 MADV_NOHUGEPAGE=15 "
    .. "MADV_DONTDUMP=16 MADV_DODUMP=17 MADV_WIPEONFORK=18 MADV_COLD=20 MADV_PAGEOUT=21" },
  fadvice = { one = "POSIX_FADV_NORMAL=0 POSIX_FADV_RANDOM=1 POSIX_FADV_SEQUENTIAL=2 POSIX_FADV_WILLNEED=3 "
    .. "POSIX_FADV_DONTNEED=4 POSIX_FADV_NOREUSE=5" },
  prctl = { one = "PR_SET_PDEATHSIG=1 PR_GET_PDEATHSIG=2 PR_GET_DUMPABLE=3 PR_SET_DUMPABLE=4 PR_SET_KEEPCAPS=8 "
    .. "PR_SET_NAME=15 PR_GET_NAME=16 PR_SET_SECCOMP=22 PR_CAPBSET_READ=23 PR_CAPBSET_DROP=24 "
    .. "PR_SET_TIMERSLACK=29 PR_SET_CHILD_SUBREAPER=36 PR_SET_NO_NEW_PRIVS=38 PR_CAP_AMBIENT=47 "
    .. "PR_SET_VMA=0x53564d41" },
  arch = { one = "ARCH_SET_GS=0x1001 ARCH_SET_FS=0x1002 ARCH_GET_FS=0x1003 ARCH_GET_GS=0x1004" },
  random = { bits = "GRND_NONBLOCK=1 GRND_RANDOM=2 GRND_INSECURE=4" },
  clock = { one = "CLOCK_REALTIME=0 CLOCK_MONOTONIC=1 CLOCK_PROCESS_CPUTIME_ID=2 CLOCK_THREAD_CPUTIME_ID=3 "
    .. "CLOCK_MONOTONIC_RAW=4 CLOCK_REALTIME_COARSE=5 CLOCK_MONOTONIC_COARSE=6 CLOCK_BOOTTIME=7 "
    .. "CLOCK_REALTIME_ALARM=8 CLOCK_BOOTTIME_ALARM=9 CLOCK_TAI=11" },
  timer = { bits = "TIMER_ABSTIME=1" },
  limit = { one = "RLIMIT_CPU=0 RLIMIT_FSIZE=1 RLIMIT_DATA=2 RLIMIT_STACK=3 RLIMIT_CORE=4 RLIMIT_RSS=5 RLIMIT_NPROC=6 "
    .. "RLIMIT_NOFILE=7 RLIMIT_MEMLOCK=8 RLIMIT_AS=9 RLIMIT_LOCKS=10 RLIMIT_SIGPENDING=11 RLIMIT_MSGQUEUE=12 "
    .. "RLIMIT_NICE=13 RLIMIT_RTPRIO=14 RLIMIT_RTTIME=15" },
  remap = { bits = "MREMAP_MAYMOVE=1 MREMAP_FIXED=2 MREMAP_DONTUNMAP=4" },
}

-- The kind of an argument, by its name and the call; "": of every other call with this argument.
local of_argument = {
  flags = { open = "open", openat = "open", pipe2 = "pipe", dup3 = "pipe", mmap = "map", mremap = "remap",
    execveat = "at", linkat = "at", statx = "at", utimensat = "at", name_to_handle_at = "at", faccessat2 = "at_access",
    getrandom = "random", epoll_create1 = "epoll_flags", eventfd2 = "eventfd", accept4 = "accept", sendto = "message",
    recvfrom = "message", sendmsg = "message", recvmsg = "message", sendmmsg = "message", recvmmsg = "message",
    clock_nanosleep = "timer" },
  flag = { newfstatat = "at", unlinkat = "at", fchownat = "at" },
  prot = { [""] = "prot" },
  mode = { access = "access", faccessat = "access", faccessat2 = "access" },
  whence = { [""] = "whence" },
  how = { rt_sigprocmask = "mask", shutdown = "shutdown" },
  cmd = { fcntl = "fcntl" },
  family = { [""] = "family" },
  type = { socket = "socket", socketpair = "socket" },
  clone_flags = { [""] = "clone" }, unshare_flags = { [""] = "clone" },
  op = { futex = "futex", epoll_ctl = "epoll" },
  options = { wait4 = "wait", waitid = "wait" },
  behavior = { [""] = "advice" }, advice = { fadvise64 = "fadvice" },
  option = { prctl = "prctl", arch_prctl = "arch" },
  which_clock = { [""] = "clock" }, resource = { [""] = "limit" },
}

local function find_one(list, value)
  for _, entry in ipairs(list) do
    if entry[2] == value then return entry[1] end
  end
end

-- Returns the names of the set bits, and the rest in hexadecimal.
local function add_bits(words, list, value)
  for _, entry in ipairs(list) do
    if value & entry[2] == entry[2] then
      words[#words + 1] = entry[1]
      value = value & ~entry[2]
    end
  end
  if value ~= 0 then words[#words + 1] = ("0x%x"):format(value) end
end

local function text_of(kind, value)
  kind.one_list = kind.one_list or list_of(kind.one or "")
  kind.bit_list = kind.bit_list or list_of(kind.bits or "")
  if not kind.bits then return find_one(kind.one_list, value) end
  if value == 0 and kind.none then return kind.none end
  local words, low = {}, kind.mask and value & kind.mask
  if low then words[1] = find_one(kind.one_list, low) or low ~= 0 and ("0x%x"):format(low) or nil end
  add_bits(words, kind.bit_list, low and value & ~kind.mask or value)
  return words[1] and table.concat(words, "|") or "0"
end

local signals

--- Returns "SIGKILL" for 9; nil for an unknown number.
function M.signal(number)
  if not signals then
    signals = {}
    for name, known in pairs(core.signals) do signals[known] = "SIG" .. name end
  end
  return signals[number]
end

local FUTEX_PRIVATE = "|FUTEX_PRIVATE_FLAG"

--- Returns the text of an argument's value, or nil if it has no names.
function M.text(call, argument, value)
  if argument == "sig" then return M.signal(value) end
  local of_call = of_argument[argument]
  local name = of_call and (of_call[call] or of_call[""])
  if not name then return nil end
  if name == "clone" and argument == "clone_flags" then
    local signal = M.signal(value & 0xff)
    local text = text_of(kinds.clone, value & ~0xff)
    return signal and (text == "0" and signal or text .. "|" .. signal) or text
  end
  local text = text_of(kinds[name], value)
  return name == "futex" and text:gsub(FUTEX_PRIVATE, "_PRIVATE") or text
end

--- Returns true if open(2) with these flags has a mode.
function M.has_mode(flags) return flags & O_CREAT ~= 0 or flags & O_TMPFILE == O_TMPFILE end

return M
