--- Names the reason why a thread was blocked, or the kind of code it ran, by the functions on its stack: the kernel's
-- show the system call and the wait; without their names, those of the C library do.

local M = {}

-- ---- names ----

--- Returns a function's name without versions and the C library's prefixes: "__GI___nanosleep" -> "nanosleep".
function M.plain_name(symbol)
  local name = symbol:gsub("@.*$", ""):gsub("^_+GI_", ""):gsub("^_+libc_", ""):gsub("%.isra%.%d+", "")
    :gsub("%.constprop%.%d+", ""):gsub("%.part%.%d+", ""):gsub("%.cold$", "")
  local bare = name:gsub("^_+", "")
  return bare ~= "" and bare or symbol
end

local function set_of(text)
  local set = {}
  for word in text:gmatch "%S+" do set[word] = true end
  return set
end

-- "NAME" or "PREFIX*" -> f(list of names) -> the first name that matches
local function matcher(text)
  local exact, prefixes = {}, {}
  for word in text:gmatch "%S+" do
    local prefix = word:match "^(.*)%*$"
    if prefix then prefixes[#prefixes + 1] = prefix else exact[word] = true end
  end
  return function(names)
    for _, name in ipairs(names) do
      if exact[name] then return name end
      for _, prefix in ipairs(prefixes) do
        if name:sub(1, #prefix) == prefix then return name end
      end
    end
  end
end

-- arch/*/include/asm/syscall_wrapper.h
local function system_call_of(kernel)
  for i = #kernel, 1, -1 do
    local symbol = kernel[i]
    local name = symbol:match "^__%w+_sys_(.+)$" or symbol:match "^__se_compat_sys_(.+)$"
      or symbol:match "^ksys_(.+)$" or symbol:match "^kernel_(wait4?)$"
    if name then return (name:gsub("%.%w+%.%d+$", "")) end
  end
end

-- ---- the reasons to block ----

local is_fault = matcher "asm_exc_page_fault exc_page_fault do_user_addr_fault do_page_fault handle_mm_fault"
local reclaims = matcher [[try_to_free_pages* shrink_node* shrink_lruvec* do_try_to_free_pages
  mem_cgroup_handle_over_high]]
local swaps = matcher "do_swap_page swapin_readahead swap_read*"
local reads_pages = matcher "io_schedule* folio_wait_bit* filemap_fault __filemap_get_folio* wait_on_page*"
local waits_for_disk = matcher [[io_schedule* folio_wait_* wait_on_page* submit_bio_wait blkdev_* blk_* jbd2_* xlog_*
  xfs_log_force* btrfs_wait_* ext4_sync_file file_write_and_wait_range filemap_fdatawait* balance_dirty_pages*
  do_blockdev_direct_IO __iomap_dio_rw iomap_dio_rw read_events]]
local waits_for_file_system = matcher [[p9_client_rpc p9_virtio_* fuse_simple_request __fuse_simple_request
  request_wait_answer rpc_wait_bit_killable __rpc_wait_for_completion_task nfs_wait_*]]
local measures = matcher "perf_event_init_task perf_event_exit_task perf_event_free_task uprobe_notify_resume"
local locks_kernel = matcher "rwsem_down_* __mutex_lock* mutex_lock* down_read* down_write* rt_mutex_* __down*"
local locks_file = matcher "locks_lock_inode_wait posix_lock_inode* flock_lock_inode* fcntl_setlk do_lock_file_wait"
local has_pipe = matcher "pipe_read pipe_write anon_pipe_read anon_pipe_write"
local has_socket = matcher [[sock_* inet_* tcp_* udp_* unix_stream_* unix_dgram_* skb_wait_* __skb_wait_* vsock_*
  __sys_recv* __sys_send* __sys_accept* __sys_connect*]]
local reads_terminal = matcher "n_tty_read n_tty_write"
local has_cond = matcher "pthread_cond_* cnd_* std::condition_variable*"
local has_sem = matcher "sem_wait* new_sem_wait* sem_timedwait* sem_clockwait*"
local has_join = matcher "pthread_join* pthread_clockjoin* pthread_timedjoin* thrd_join std::thread::join*"
local has_barrier = matcher "pthread_barrier_wait"

local calls = {
  futex = set_of "futex futex_wait futex_waitv futex_time32",
  child = set_of "wait4 waitid waitpid wait vfork",
  sleep = set_of "nanosleep clock_nanosleep nanosleep_time32 clock_nanosleep_time32 usleep sleep",
  events = set_of [[poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 pselect epoll io_uring_enter
    ppoll_time32 pselect6_time32 _newselect]],
  signal = set_of "pause rt_sigsuspend sigsuspend rt_sigtimedwait sigtimedwait sigwait sigwaitinfo",
  sync = set_of "fsync fdatasync sync syncfs msync sync_file_range io_getevents",
  lock_file = set_of "flock",
  semaphore = set_of "semop semtimedop",
  message = set_of "msgrcv msgsnd mq_timedreceive mq_timedsend",
  socket = set_of "recvfrom recvmsg recvmmsg sendto sendmsg sendmmsg accept accept4 connect recv send",
  stream = set_of "read readv write writev",
}

-- The name of a call in the C library that blocks by another one.
local called_by = matcher [[futex_* lll_lock_* pthread_mutex_* pthread_rwlock_* pthread_cond_* pthread_join*
  pthread_barrier_* sem_* new_sem_* lll_* mtx_* cnd_* pthread_clockjoin*]]

-- Without the kernel's names: the innermost function of the process is the C library's wrapper.
local function guess_system_call(user)
  local leaf = user[1] and user[1]:gsub("_2$", "")
  if not leaf then return nil end
  if called_by { user[1] } then return "futex" end
  if leaf == "epoll_wait" or leaf:find "^epoll_" then return leaf end
  return leaf
end

local function futex_reason(user)
  if has_cond(user) then return "condition" end
  if has_join(user) then return "thread" end
  if has_sem(user) then return "semaphore" end
  if has_barrier(user) then return "barrier" end
  return "lock"
end

-- Returns the key of a reason, and the system call.
local function reason_of(kernel, user)
  local call = system_call_of(kernel) or #kernel == 0 and guess_system_call(user) or nil
  if measures(kernel) then return "perf", call end
  if reclaims(kernel) then return "reclaim", call end
  if is_fault(kernel) and not (call and calls.futex[call]) then
    if swaps(kernel) then return "swap" end
    if locks_kernel(kernel) then return "kernel_lock" end
    if reads_pages(kernel) or waits_for_disk(kernel) then return "major_fault" end
    if waits_for_file_system(kernel) then return "file_system" end
  end
  if call and calls.futex[call] then return futex_reason(user), call end
  if call and calls.child[call] then return "child", call end
  if call and calls.sleep[call] then return "sleep", call end
  if call and calls.sync[call] then return "disk", call end
  if waits_for_file_system(kernel) then return "file_system", call end
  if waits_for_disk(kernel) then return "disk", call end
  if locks_file(kernel) or call and calls.lock_file[call] then return "file_lock", call end
  if has_pipe(kernel) then return "pipe", call end
  if call and calls.events[call] then return "events", call end
  if call and calls.signal[call] then return "signal", call end
  if call and calls.semaphore[call] then return "semaphore", call end
  if call and calls.message[call] then return "message", call end
  if has_socket(kernel) or call and calls.socket[call] then return "socket", call end
  if reads_terminal(kernel) then return "terminal", call end
  if locks_kernel(kernel) then return "kernel_lock", call end
  if call and calls.stream[call] and #kernel == 0 then return "stream", call end
  return "other", call
end

local allocates = set_of [[malloc calloc realloc free cfree memalign aligned_alloc posix_memalign int_malloc int_free
  int_realloc int_memalign malloc_consolidate sysmalloc systrim unlink_chunk tcache_put tcache_get mi_malloc mi_free
  je_malloc je_free tc_malloc reallocarray]]

local function is_allocation(user)
  for _, name in ipairs(user) do
    if allocates[name] or name:find "^operator new" or name:find "^operator delete" then return true end
  end
  return false
end

-- Interrupts are in the stack of whatever they interrupted.
local function code_of(kernel, user)
  if reclaims(kernel) then return "cpu_reclaim" end
  local is_in_fault = is_fault(kernel)
  local call = system_call_of(kernel)
  if is_in_fault and not call then return "cpu_fault" end
  if is_allocation(user) then return "cpu_allocation", call end
  if call then return "cpu_call", call end
  return "cpu_own"
end

-- ---- words ----

-- key -> verb and object as the first line has them, and the row's name in the table
M.reasons = {
  cpu_own = { "spend", "on the CPU", "own code" },
  cpu_fault = { "spend", "in page faults", "page faults" },
  cpu_allocation = { "spend", "allocating memory", "allocating memory" },
  cpu_call = { "spend", "in system calls", "system calls" },
  cpu_reclaim = { "spend", "reclaiming memory", "reclaiming memory" },
  cpu_unsampled = { "spend", "on the CPU", "not sampled" },
  cpu = { "spend", "on the CPU", "on the CPU" },
  preempted = { "wait", "for a CPU", "preempted" },
  woken = { "wait", "for a CPU after they are woken", "woken, without a CPU" },
  queued = { "wait", "in the queue, while the thread works for other calls", "in the queue" },
  lock = { "wait", "for a lock", "a lock" },
  condition = { "wait", "for a condition variable", "a condition variable" },
  semaphore = { "wait", "for a semaphore", "a semaphore" },
  barrier = { "wait", "for a barrier", "a barrier" },
  thread = { "wait", "for a thread to end", "a thread's end" },
  child = { "wait", "for a child process", "a child process" },
  sleep = { "sleep", "", "sleeping" },
  disk = { "wait", "for the disk", "the disk" },
  file_system = { "wait", "for a file system's server", "a file system's server" },
  major_fault = { "wait", "for pages to be read from disk (major page faults)", "major page faults" },
  swap = { "wait", "for pages to be read from swap (major page faults)", "swap" },
  reclaim = { "wait", "for memory to be reclaimed", "reclaim of memory" },
  kernel_lock = { "wait", "for a lock of the kernel", "a lock of the kernel" },
  file_lock = { "wait", "for a lock of a file", "a lock of a file" },
  pipe = { "wait", "for a pipe", "a pipe" },
  socket = { "wait", "for a socket", "a socket" },
  stream = { "wait", "for a file, pipe or socket", "a file, pipe or socket" },
  events = { "wait", "for events of descriptors", "events of descriptors" },
  signal = { "wait", "for a signal", "a signal" },
  message = { "wait", "for a message", "a message" },
  terminal = { "wait", "for the terminal", "the terminal" },
  other = { "wait", "in the kernel", "the kernel" },
  blocked = { "wait", "blocked, for an unknown reason", "blocked, stack unknown" },
  perf = { "wait", "for the measurement itself", "the measurement itself" },
  unknown = { "take", "for an unknown reason", "unaccounted" },
}

-- ---- stacks ----

-- Returns the kernel's and the process's functions, the innermost first, by plain names.
local function sides_of(stack)
  local kernel, user = {}, {}
  for _, frame in ipairs(stack:frames()) do
    if frame.symbol then
      local side = frame.kernel and kernel or user
      side[#side + 1] = frame.kernel and frame.symbol or M.plain_name(frame.symbol)
    end
  end
  return kernel, user
end

--- Returns the key of M.reasons for a piece, and the system call if it was in one.
-- @tparam table what  `kind`, `stack`, as the collector has them
function M.classify(what)
  if what.kind == "sample" then
    if not what.stack then return "cpu_own" end
    return code_of(sides_of(what.stack))
  end
  if what.kind ~= "blocked" then return what.kind end
  if not what.stack then return "blocked" end
  return reason_of(sides_of(what.stack))
end

-- ---- where in the program ----

local function is_of_libc(frame)
  local file = (frame.module or ""):match "[^/]*$"
  return file:find "^lib[cm]%.so" ~= nil or file:find "^lib[cm]%-2" ~= nil or file:find "^libpthread" ~= nil
    or file:find "^ld%-" ~= nil
end

local is_in_lock = matcher [[lll_lock* lll_* futex_* futex pthread_mutex_lock_full pthread_cond_wait_common
  new_sem_wait_*]]

local is_start = matcher "clone clone3 start start_thread libc_start_main start_main libc_start_call_main"

--- Returns the functions of the process on a stack as names, outermost first, beginning with `root`. Of the C library's
-- functions that call each other only the first is there.
-- @tparam ?string root  plain name
function M.path_of(stack, root)
  local names, frames, was_libc = {}, stack:frames(), false
  for i = #frames, 1, -1 do
    local frame = frames[i]
    if not frame.kernel then
      local name = frame.symbol and M.plain_name(frame.symbol)
        or "[" .. (frame.module or "unknown"):match "[^/%[%]]*%]?$":gsub("%]$", "") .. "]"
      local is_libc = is_of_libc(frame)
      if name == root then
        names = { name } -- the innermost call of a function that calls itself
      elseif not (is_libc and was_libc) and name ~= names[#names] and not is_in_lock { name } then
        names[#names + 1] = name
      end
      was_libc = is_libc and frame.symbol ~= nil
    end
  end
  if names[1] == root then return names end
  -- A uretprobe replaces the return address in the stack.
  local function is_outside(name) return name:find "^%[unknown" or name:find "^%[uprobes" or is_start { name } end
  while names[root and 1 or 2] and is_outside(names[1]) do table.remove(names, 1) end
  if root then table.insert(names, 1, root) end -- the thread is in it
  return names
end

return M
