-- The reasons of waits and the kinds of code, by the names on stacks as this and other kernels have them.

local causes = require "perfev.calls.causes"

-- "main handle | do_syscall_64 __x64_sys_futex": outermost first, the kernel's part after the bar.
local function stack(text)
  local frames, is_kernel = {}, false
  for word in text:gmatch "%S+" do
    if word == "|" then is_kernel = true else
      local symbol, module = word:match "^([^@]+)@@(.*)$"
      table.insert(frames, 1, { symbol = symbol or word, module = module or "/bin/app", kernel = is_kernel or nil })
    end
  end
  return { frames = function() return frames end }
end

describe("the reason of a wait", function()
  for text, expected in pairs {
    ["main log_line pthread_mutex_lock lll_lock_wait | __x64_sys_futex futex_wait schedule"] = "lock",
    ["main ___pthread_mutex_lock __lll_lock_wait"] = "lock", -- the kernel's names are hidden
    ["main pthread_cond_wait@@/lib/libc.so.6 futex_wait | __arm64_sys_futex futex_wait"] = "condition",
    ["main pthread_join __futex_abstimed_wait_common64 | __x64_sys_futex futex_wait"] = "thread",
    ["main __new_sem_wait_slow64 | __x64_sys_futex futex_wait"] = "semaphore",
    ["main pthread_barrier_wait | __x64_sys_futex futex_wait"] = "barrier",
    ["main __GI___wait4 | do_syscall_64 kernel_wait4 do_wait schedule"] = "child",
    ["main __vfork | __do_sys_vfork kernel_clone wait_for_completion_state schedule"] = "child",
    ["main usleep | __x64_sys_clock_nanosleep hrtimer_nanosleep do_nanosleep schedule"] = "sleep",
    ["main clock_nanosleep@GLIBC_2.17"] = "sleep",
    ["main fsync | __x64_sys_fsync do_fsync ext4_sync_file jbd2_log_wait_commit schedule"] = "disk",
    ["main read | __x64_sys_read vfs_read filemap_read folio_wait_bit_common io_schedule schedule"] = "disk",
    ["main | asm_exc_page_fault exc_page_fault do_user_addr_fault filemap_fault folio_wait_bit_common io_schedule"]
      = "major_fault",
    ["main | asm_exc_page_fault handle_mm_fault do_swap_page folio_wait_bit_common io_schedule"] = "swap",
    ["main | asm_exc_page_fault exc_page_fault down_read rwsem_down_read_slowpath schedule"] = "kernel_lock",
    ["main mmap | __x64_sys_mmap vm_mmap_pgoff rwsem_down_write_slowpath schedule"] = "kernel_lock",
    ["main read | __x64_sys_read vfs_read pipe_read schedule"] = "pipe",
    ["main read | __x64_sys_read vfs_read anon_pipe_read schedule"] = "pipe",
    ["main recv | __x64_sys_recvfrom unix_stream_recvmsg unix_stream_read_generic schedule_timeout"] = "socket",
    ["main epoll_wait | __x64_sys_epoll_wait do_epoll_wait ep_poll schedule"] = "events",
    ["main poll | __x64_sys_poll do_sys_poll poll_schedule_timeout"] = "events",
    ["main flock | __x64_sys_flock locks_lock_inode_wait schedule"] = "file_lock",
    ["main pause | __x64_sys_pause schedule"] = "signal",
    ["main read | __x64_sys_read fuse_simple_request request_wait_answer schedule"] = "file_system",
    ["main write | __x64_sys_write try_to_free_pages shrink_node schedule_timeout"] = "reclaim",
    ["main fork | __do_sys_clone perf_event_init_task mutex_lock schedule"] = "perf",
    ["main ioctl | __x64_sys_ioctl drv_wait schedule"] = "other",
  } do
    it(("is '%s' for %s"):format(expected, text), function()
      assert.equal(expected, (causes.classify { kind = "blocked", stack = stack(text) }))
    end)
  end

  it("comes with the system call", function()
    assert.equal("fsync", select(2, causes.classify { kind = "blocked", stack = stack "main | __x64_sys_fsync x" }))
  end)

  it("has words for each key", function()
    for key, words in pairs(causes.reasons) do assert.equal(3, #words, key) end
  end)
end)

describe("the kind of code", function()
  for text, expected in pairs {
    ["main parse"] = "cpu_own",
    ["main parse | asm_sysvec_apic_timer_interrupt irq_exit_rcu"] = "cpu_own",
    ["main touch | asm_exc_page_fault exc_page_fault handle_mm_fault clear_page_erms"] = "cpu_fault",
    ["main load malloc _int_malloc"] = "cpu_allocation",
    ["main load malloc sysmalloc | __x64_sys_brk do_brk_flags"] = "cpu_allocation",
    ["main read | do_syscall_64 __x64_sys_read vfs_read"] = "cpu_call",
  } do
    it(("is '%s' for %s"):format(expected, text), function()
      assert.equal(expected, (causes.classify { kind = "sample", stack = stack(text) }))
    end)
  end
end)

describe("the path of a stack", function()
  local function path(text, root) return table.concat(causes.path_of(stack(text), root), " ") end

  it("begins with the function, has no kernel functions, and of a library's only the called one", function()
    assert.equal("handle nap usleep", path("_start main handle nap usleep@@/lib/libc.so.6 nanosleep@@/lib/libc.so.6 "
      .. "__GI___clock_nanosleep@@/lib/libc.so.6 | do_syscall_64 __x64_sys_clock_nanosleep", "handle"))
    assert.equal("handle pthread_mutex_lock", path("main handle ___pthread_mutex_lock __lll_lock_wait", "handle"))
    assert.equal("sort qsort compare", path "sort qsort@@/lib/libc.so.6 msort@@/lib/libc.so.6 compare")
  end)

  it("begins with the innermost call if the function calls itself", function()
    assert.equal("walk visit", path("main walk walk walk visit", "walk"))
  end)

  it("has the function although a uretprobe hides it", function()
    assert.equal("handle leaf", path("[uprobes] leaf", "handle"))
    assert.equal("worker leaf", path "clone3 start_thread worker leaf")
  end)
end)
