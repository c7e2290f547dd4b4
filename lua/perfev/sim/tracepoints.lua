--- Tracepoints of Linux for worlds: the fields of each as C declarations, in the order of a recent kernel.
-- Source: include/trace/events/*.h. Bits and enums have the integer type of the same size.

local M = {}

--- Name -> its fields.
M.fields = {
  ["block:block_bio_queue"] = "u32 dev; u64 sector; u32 nr_sector; char rwbs[10]; char comm[16]",
  ["block:block_io_done"] = "u32 dev; u64 sector; u32 nr_sector; u32 bytes; char rwbs[10]; char comm[16]",
  ["block:block_io_start"] = "u32 dev; u64 sector; u32 nr_sector; u32 bytes; u16 ioprio; char rwbs[10]; "
    .. "char comm[16]",
  ["block:block_rq_complete"] = "u32 dev; u64 sector; u32 nr_sector; int error; u16 ioprio; char rwbs[10]",
  ["block:block_rq_insert"] = "u32 dev; u64 sector; u32 nr_sector; u32 bytes; u16 ioprio; char rwbs[10]; "
    .. "char comm[16]",
  ["block:block_rq_issue"] = "u32 dev; u64 sector; u32 nr_sector; u32 bytes; u16 ioprio; char rwbs[10]; "
    .. "char comm[16]",
  ["compaction:mm_compaction_begin"] = "u64 zone_start; u64 migrate_pfn; u64 free_pfn; u64 zone_end; bool sync",
  ["compaction:mm_compaction_end"] = "u64 zone_start; u64 migrate_pfn; u64 free_pfn; u64 zone_end; bool sync; "
    .. "int status",
  ["exceptions:page_fault_kernel"] = "u64 address; u64 ip; u64 error_code",
  ["exceptions:page_fault_user"] = "u64 address; u64 ip; u64 error_code",
  ["filemap:mm_filemap_add_to_page_cache"] = "u64 pfn; u64 i_ino; u64 index; u32 s_dev; u8 order",
  ["filemap:mm_filemap_delete_from_page_cache"] = "u64 pfn; u64 i_ino; u64 index; u32 s_dev; u8 order",
  ["filemap:mm_filemap_fault"] = "u64 i_ino; u32 s_dev; u64 index",
  ["filemap:mm_filemap_get_pages"] = "u64 i_ino; u32 s_dev; u64 index; u64 last_index",
  ["irq:irq_handler_entry"] = "int irq; __data_loc char[] name",
  ["irq:irq_handler_exit"] = "int irq; int ret",
  ["irq:softirq_entry"] = "u32 vec",
  ["irq:softirq_exit"] = "u32 vec",
  ["irq:softirq_raise"] = "u32 vec",
  ["kmem:kfree"] = "u64 call_site; u64 ptr",
  ["kmem:kmalloc"] = "u64 call_site; u64 ptr; size_t bytes_req; size_t bytes_alloc; u64 gfp_flags; int node",
  ["kmem:kmem_cache_alloc"] = "u64 call_site; u64 ptr; size_t bytes_req; size_t bytes_alloc; u64 gfp_flags; "
    .. "int node; bool accounted",
  ["kmem:kmem_cache_free"] = "u64 call_site; u64 ptr; __data_loc char[] name",
  ["kmem:mm_page_alloc"] = "u64 pfn; u32 order; u64 gfp_flags; int migratetype",
  ["kmem:mm_page_free"] = "u64 pfn; u32 order",
  ["lock:contention_begin"] = "u64 lock_addr; u32 flags",
  ["lock:contention_end"] = "u64 lock_addr; int ret",
  ["net:net_dev_queue"] = "u64 skbaddr; u32 len; __data_loc char[] name",
  ["net:netif_receive_skb"] = "u64 skbaddr; u32 len; __data_loc char[] name",
  ["oom:mark_victim"] = "int pid; __data_loc char[] comm; u64 total_vm; u64 anon_rss; u64 file_rss; u64 shmem_rss; "
    .. "u32 uid; u64 pgtables; short oom_score_adj",
  ["power:cpu_frequency"] = "u32 state; u32 cpu_id",
  ["power:cpu_idle"] = "u32 state; u32 cpu_id",
  ["raw_syscalls:sys_enter"] = "long id; unsigned long args[6]",
  ["raw_syscalls:sys_exit"] = "long id; long ret",
  ["sched:sched_migrate_task"] = "char comm[16]; pid_t pid; int prio; int orig_cpu; int dest_cpu",
  ["sched:sched_process_exec"] = "__data_loc char[] filename; pid_t pid; pid_t old_pid",
  ["sched:sched_process_exit"] = "char comm[16]; pid_t pid; int prio; bool group_dead",
  ["sched:sched_process_fork"] = "__data_loc char[] parent_comm; pid_t parent_pid; __data_loc char[] child_comm; "
    .. "pid_t child_pid",
  ["sched:sched_stat_blocked"] = "__data_loc char[] comm; pid_t pid; u64 delay",
  ["sched:sched_stat_iowait"] = "__data_loc char[] comm; pid_t pid; u64 delay",
  ["sched:sched_stat_runtime"] = "__data_loc char[] comm; pid_t pid; u64 runtime",
  ["sched:sched_stat_sleep"] = "__data_loc char[] comm; pid_t pid; u64 delay",
  ["sched:sched_stat_wait"] = "__data_loc char[] comm; pid_t pid; u64 delay",
  ["sched:sched_switch"] = "char prev_comm[16]; pid_t prev_pid; int prev_prio; long prev_state; char next_comm[16]; "
    .. "pid_t next_pid; int next_prio",
  ["sched:sched_wakeup"] = "char comm[16]; pid_t pid; int prio; int target_cpu",
  ["sched:sched_wakeup_new"] = "char comm[16]; pid_t pid; int prio; int target_cpu",
  ["sched:sched_waking"] = "char comm[16]; pid_t pid; int prio; int target_cpu",
  ["signal:signal_deliver"] = "int sig; int errno; int code; u64 sa_handler; u64 sa_flags",
  ["signal:signal_generate"] = "int sig; int errno; int code; char comm[16]; pid_t pid; int group; int result",
  ["sock:inet_sock_set_state"] = "u64 skaddr; int oldstate; int newstate; u16 sport; u16 dport; u16 family; "
    .. "u16 protocol; u8 saddr[4]; u8 daddr[4]; u8 saddr_v6[16]; u8 daddr_v6[16]",
  ["sock:sock_recv_length"] = "u64 sk; u16 family; u16 protocol; int ret; int flags",
  ["sock:sock_send_length"] = "u64 sk; u16 family; u16 protocol; int ret; int flags",
  ["syscalls:sys_enter_brk"] = "int __syscall_nr; u64 brk",
  ["syscalls:sys_enter_close"] = "int __syscall_nr; u64 fd",
  ["syscalls:sys_enter_execve"] = "int __syscall_nr; u64 filename; u64 argv; u64 envp",
  ["syscalls:sys_enter_futex"] = "int __syscall_nr; u64 uaddr; u64 op; u64 val; u64 utime; u64 uaddr2; u64 val3",
  ["syscalls:sys_enter_kill"] = "int __syscall_nr; u64 pid; u64 sig",
  ["syscalls:sys_enter_mmap"] = "int __syscall_nr; u64 addr; u64 len; u64 prot; u64 flags; u64 fd; u64 off",
  ["syscalls:sys_enter_mremap"] = "int __syscall_nr; u64 addr; u64 old_len; u64 new_len; u64 flags; u64 new_addr",
  ["syscalls:sys_enter_munmap"] = "int __syscall_nr; u64 addr; u64 len",
  ["syscalls:sys_enter_newfstatat"] = "int __syscall_nr; u64 dfd; u64 filename; u64 statbuf; u64 flag",
  ["syscalls:sys_enter_openat"] = "int __syscall_nr; u64 dfd; u64 filename; u64 flags; u64 mode",
  ["syscalls:sys_enter_read"] = "int __syscall_nr; u64 fd; u64 buf; u64 count",
  ["syscalls:sys_enter_statx"] = "int __syscall_nr; u64 dfd; u64 filename; u64 flags; u64 mask; u64 buffer",
  ["syscalls:sys_enter_write"] = "int __syscall_nr; u64 fd; u64 buf; u64 count",
  ["syscalls:sys_exit_brk"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_close"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_execve"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_futex"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_kill"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_mmap"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_mremap"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_munmap"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_newfstatat"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_openat"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_read"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_statx"] = "int __syscall_nr; long ret",
  ["syscalls:sys_exit_write"] = "int __syscall_nr; long ret",
  ["task:task_newtask"] = "pid_t pid; char comm[16]; u64 clone_flags; short oom_score_adj",
  ["task:task_rename"] = "char oldcomm[16]; char newcomm[16]; short oom_score_adj",
  ["tcp:tcp_retransmit_skb"] = "u64 skbaddr; u64 skaddr; int state; u16 sport; u16 dport; u16 family; u8 saddr[4]; "
    .. "u8 daddr[4]; u8 saddr_v6[16]; u8 daddr_v6[16]",
  ["timer:timer_expire_entry"] = "u64 timer; u64 now; u64 function; u64 baseclk",
  ["timer:timer_expire_exit"] = "u64 timer",
  ["vmscan:mm_vmscan_direct_reclaim_begin"] = "int order; u64 gfp_flags",
  ["vmscan:mm_vmscan_direct_reclaim_end"] = "u64 nr_reclaimed",
  ["workqueue:workqueue_execute_end"] = "u64 work; u64 function",
  ["workqueue:workqueue_execute_start"] = "u64 work; u64 function",
  ["workqueue:workqueue_queue_work"] = "u64 work; u64 function; __data_loc char[] workqueue; int req_cpu; int cpu",
}

--- Name -> how its text is printed, where perfev uses that; REC is the record.
M.print_formats = {
  ["kmem:kmalloc"] = '"call_site=%pS", (void *)REC->call_site',
  ["kmem:kmem_cache_alloc"] = '"call_site=%pS", (void *)REC->call_site',
  ["sock:inet_sock_set_state"] = '"saddr=%pI4 daddr=%pI4 saddrv6=%pI6c daddrv6=%pI6c", REC->saddr, REC->daddr, '
    .. "REC->saddr_v6, REC->daddr_v6",
  ["tcp:tcp_retransmit_skb"] = '"saddr=%pI4 daddr=%pI4", REC->saddr, REC->daddr',
}

--- Name -> the first version of Linux that has it, for those after 3.10.
M.since = {
  ["block:block_io_done"] = "6.5", ["block:block_io_start"] = "6.5", ["compaction:mm_compaction_begin"] = "3.14",
  ["compaction:mm_compaction_end"] = "3.14", ["exceptions:page_fault_kernel"] = "3.13",
  ["exceptions:page_fault_user"] = "3.13", ["filemap:mm_filemap_fault"] = "6.12",
  ["filemap:mm_filemap_get_pages"] = "6.12", ["lock:contention_begin"] = "5.19", ["lock:contention_end"] = "5.19",
  ["oom:mark_victim"] = "4.13", ["sched:sched_waking"] = "4.3", ["sock:inet_sock_set_state"] = "4.16",
  ["sock:sock_recv_length"] = "6.3", ["sock:sock_send_length"] = "6.3", ["syscalls:sys_enter_statx"] = "4.11",
  ["syscalls:sys_exit_statx"] = "4.11", ["tcp:tcp_retransmit_skb"] = "4.15",
}

return M
