-- Scripts of TCP sessions and of the kernel's memory on the simulated kernel: cases that a real one rarely has.

local json = require "spec.support.json"
local run = require "spec.support.run"

local machine = require "spec.support.worlds" [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", cpus = "0-1", tasks = { [7] = "app", [8] = "helper" }, files = {
  ["/proc/kallsyms"] = "ffffffff81000100 T leaf\nffffffff81000200 T middle\nffffffff81000300 T root\n" } }
local function point(name, id, fields, print_format)
  k:tracepoint(name, id, fields)
  local file = "/sys/kernel/tracing/events/" .. name:gsub(":", "/") .. "/format"
  k.files[file] = k.files[file]:gsub('fmt: ""', function() return "fmt: " .. (print_format or '""') end)
end
point("sock:inet_sock_set_state", 901, "u64 skaddr; int oldstate; int newstate; u16 sport; u16 dport; u16 family; "
  .. "u16 protocol; u8 saddr[4]; u8 daddr[4]; u8 saddr_v6[16]; u8 daddr_v6[16]",
  '"saddr=%pI4 daddr=%pI4 saddrv6=%pI6c daddrv6=%pI6c", REC->saddr, REC->daddr, REC->saddr_v6, REC->daddr_v6')
for i, name in ipairs { "send", "recv" } do
  point(("sock:sock_%s_length"):format(name), 901 + i, "u64 sk; u16 family; u16 protocol; int ret; int flags")
end
for i, name in ipairs { "kmalloc", "kmem_cache_alloc" } do
  point("kmem:" .. name, 910 + i, "u64 call_site; u64 ptr; size_t bytes_req; size_t bytes_alloc",
    '"call_site=%pS", (void *)REC->call_site')
end
for i, name in ipairs { "kfree", "kmem_cache_free" } do point("kmem:" .. name, 914 + i, "u64 call_site; u64 ptr") end
point("vmscan:mm_vmscan_direct_reclaim_begin", 921, "int order; u64 gfp_flags")
point("vmscan:mm_vmscan_direct_reclaim_end", 922, "u64 nr_reclaimed")
for i, name in ipairs { "add_to_page_cache", "delete_from_page_cache", "get_pages", "fault" } do
  point("filemap:mm_filemap_" .. name, 930 + i, "u64 i_ino; u64 index; u64 last_index; u32 s_dev; u8 order")
end
local function sample(us, pid, event, args)
  k:after(us * 1000, function()
    k:ring(0):push { type = "sample", pid = pid, tid = pid, event = event, args = args }
  end)
end
local IRQ, SOFTIRQ = 8, 16
local function tcp(us, pid, socket, before, now, flags, protocol)
  sample(us, pid, "sock:inet_sock_set_state", { common_flags = flags, skaddr = socket, oldstate = before,
    newstate = now, sport = 1000 + socket, dport = 80, family = 2, protocol = protocol or 6,
    saddr = { 10, 0, 0, 1 }, daddr = { 10, 0, 0, socket } })
end
local function bytes(us, socket, direction, n, flags)
  sample(us, 7, ("sock:sock_%s_length"):format(direction), { sk = socket, protocol = 6, ret = n, flags = flags })
end
local function kmem(us, event, ptr, site, requested, allocated)
  sample(us, 7, "kmem:" .. event, { call_site = site, ptr = ptr, bytes_req = requested, bytes_alloc = allocated })
end
local function cache(us, tid, what, inode, from, to, order)
  sample(us, tid, "filemap:mm_filemap_" .. what, { i_ino = inode, s_dev = 1, index = from, last_index = to,
    order = order })
end
]]

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function rows_of(events, ...)
  local rows = {}
  for line in machine.output(dir, events, "-j", ...):gmatch "[^\n]+" do rows[#rows + 1] = json.decode(line) end
  return rows
end

-- CLOSE 7, SYN_SENT 2, SYN_RECV 3, ESTABLISHED 1, FIN_WAIT1 4, LAST_ACK 9
local SESSIONS = [[
  tcp(10, 7, 1, 7, 2) tcp(20, 8, 1, 2, 1, SOFTIRQ) -- app connects; helper is interrupted
  bytes(30, 1, "send", 100) bytes(31, 1, "recv", 50) bytes(32, 1, "recv", 50, 2) bytes(33, 1, "send", -11)
  tcp(40, 8, 1, 1, 4) tcp(1020, 0, 1, 4, 7, IRQ) -- helper closes it
  tcp(50, 7, 2, 10, 3, SOFTIRQ) tcp(51, 7, 2, 3, 1, SOFTIRQ) tcp(60, 8, 2, 8, 9) tcp(70, 7, 2, 9, 7, SOFTIRQ)
  tcp(80, 7, 3, 10, 3, SOFTIRQ) tcp(81, 7, 3, 3, 1, SOFTIRQ) tcp(90, 7, 3, 1, 7, SOFTIRQ) -- a reset
  tcp(95, 7, 4, 1, 4) tcp(96, 7, 4, 4, 7) -- older than the run
  tcp(97, 7, 5, 7, 2, 0, 132) tcp(98, 7, 5, 2, 7, 0, 132)]] -- SCTP

describe("tcplife", function()
  it("names the task that connects, else the one that closes, never one that was interrupted", function()
    local lines = {}
    for i, row in ipairs(rows_of(SESSIONS, "tcplife")) do
      lines[i] = ("%s %s %s %s %d %d %g"):format(row.pid, row.comm, row.laddr, row.raddr, row.tx, row.rx, row.ms)
    end
    assert.same({ "8 helper 10.0.0.1 10.0.0.2 0 0 0.019", "nil nil 10.0.0.1 10.0.0.3 0 0 0.009",
      "7 app 10.0.0.1 10.0.0.1 100 50 1" }, lines)
  end)

  it("prints only the sessions of chosen tasks", function()
    local out = machine.quiet("--sim", machine.path(dir, SESSIONS), "-p", "8", "tcplife")
    assert.matches("^   PID COMM       LADDR           LPORT RADDR           RPORT    TX    RX     MS\n"
      .. "     8 helper     10%.0%.0%.1         1002 10%.0%.0%.2           80     0     0   0%.02\n$", out)
  end)

  it("prints - for the bytes that an older kernel does not report", function()
    local older = SESSIONS:gsub("bytes%b()", "") .. [[
      for _, name in ipairs { "send", "recv" } do
        k.files["/sys/kernel/tracing/events/sock/sock_" .. name .. "_length/id"] = nil
        k.files["/sys/kernel/tracing/events/sock/sock_" .. name .. "_length/format"] = nil
      end]]
    assert.matches(" 80     %-     %-   1%.00\n$", machine.output(dir, older, "tcplife"))
  end)
end)

describe("tcpconnect", function()
  it("prints connects of TCP alone", function()
    local rows = rows_of(SESSIONS, "tcpconnect")
    assert.same({ { pid = 7, comm = "app", saddr = "10.0.0.1", daddr = "10.0.0.1", dport = 80, time = 0 } }, rows)
  end)
end)

describe("kmem", function()
  it("shows what each call site requests, gets and still holds", function()
    local rows = rows_of([[
      local A, B = 0xffffffff81000110, 0xffffffff81000210
      kmem(10, "kmalloc", 1, A, 100, 128) kmem(20, "kmem_cache_alloc", 2, A, 60, 64) kmem(30, "kmalloc", 3, B, 8, 8)
      kmem(40, "kfree", 1) kmem(50, "kmem_cache_free", 3) kmem(60, "kfree", 99)
      kmem(70, "kmalloc", 1, B, 8, 8)]], "kmem")
    assert.same({
      { caller = "leaf+0x10", count = 2, requested = 160, allocated = 192, waste = 100 * 32 / 192, held = 64 },
      { caller = "middle+0x10", count = 2, requested = 16, allocated = 16, waste = 0, held = 8 } }, rows)
  end)
end)

describe("drsnoop", function()
  it("prints each direct reclaim with its wait and its pages, on a kernel without memory cgroups", function()
    local rows = rows_of([[
      local function reclaim(us, pid, what, args) sample(us, pid, "vmscan:mm_vmscan_direct_reclaim_" .. what, args) end
      reclaim(1, 8, "end", { nr_reclaimed = 5 }) -- began before the run
      reclaim(10, 7, "begin", { order = 3 }) reclaim(20, 8, "begin", { order = 0 })
      reclaim(30, 8, "end", { nr_reclaimed = 32 }) reclaim(2010, 7, "end", { nr_reclaimed = 0 })]], "drsnoop")
    assert.same({ { pid = 8, comm = "helper", kind = "direct", order = 0, pages = 32, ms = 0.01, time = 1e-05 },
      { pid = 7, comm = "app", kind = "direct", order = 3, pages = 0, ms = 2, time = 0 } }, rows)
  end)

  it("forgets the reclaim of a task that has ended", function()
    assert.same({}, rows_of([[
      sample(10, 7, "vmscan:mm_vmscan_direct_reclaim_begin", { order = 3 })
      k:after(20000, function() k:ring(0):push({ type = "exit", pid = 7, tid = 7, ppid = 1, ptid = 1 }) end)
      sample(30, 7, "vmscan:mm_vmscan_direct_reclaim_end", { nr_reclaimed = 1 })]], "drsnoop"))
  end)
end)

describe("locks", function()
  it("forgets the wait of a thread that has ended, and ends a wait on another CPU", function()
    local rows = rows_of([[
      k:tracepoint("lock:contention_begin", 970, "u64 lock_addr; unsigned int flags")
      k:tracepoint("lock:contention_end", 971, "u64 lock_addr; int ret")
      sample(10, 7, "lock:contention_begin", { lock_addr = 64 })
      sample(20, 8, "lock:contention_begin", { lock_addr = 64 })
      k:after(25000, function() k:ring(0):push({ type = "exit", pid = 7, tid = 7, ppid = 1, ptid = 1 }) end)
      sample(30, 7, "lock:contention_end", { lock_addr = 64 })
      k:after(60000, function()
        k:ring(1):push({ type = "sample", event = "lock:contention_end", pid = 8, tid = 8, args = { lock_addr = 64 } })
      end)]], "locks")
    assert.equal(1, #rows)
    assert.equal(1, rows[1].value and rows[1].value.count or rows[1].count)
  end)
end)

describe("cachestat", function()
  it("counts a miss for the thread that adds the page, and a repeated fault once", function()
    local function counts(events)
      local row = rows_of(events, "cachestat")[1]
      return { row.hits, row.misses, row.added, row.removed }
    end
    assert.same({ 0, 1, 8, 0 },
      counts [[cache(1, 7, "add_to_page_cache", 5, 0, 0, 3) cache(2, 7, "get_pages", 5, 2, 3)]])
    -- Another file, another thread, pages read ahead, and a second read.
    assert.same({ 4, 0, 3, 0 }, counts [[
      cache(1, 7, "add_to_page_cache", 6, 2, 0) cache(2, 7, "get_pages", 5, 2, 3)
      cache(3, 8, "add_to_page_cache", 5, 2, 0) cache(4, 7, "get_pages", 5, 2, 3)
      cache(5, 7, "add_to_page_cache", 5, 4, 0) cache(6, 7, "get_pages", 5, 2, 3) cache(7, 7, "get_pages", 5, 4, 4)]])
    assert.same({ 1, 1, 2, 4 }, counts [[
      cache(1, 7, "fault", 5, 2) cache(2, 7, "add_to_page_cache", 5, 1, 0, 1) cache(3, 7, "fault", 5, 2)
      cache(4, 7, "fault", 5, 1) cache(5, 7, "delete_from_page_cache", 5, 0, 0, 2)]])
  end)

  it("refuses an interval of no time, as funccount", function()
    for name, words in pairs { cachestat = "", funccount = "page-faults" } do
      local r = run(("%s %s %s -I 0 -- true"):format(run.quote(run.perfl), name, words))
      assert.same({ 2, "", name .. ": -I: more than 0\n" }, { r.code, r.out, r.err })
    end
  end)

  it("leaves a fault a hit if its interval has ended when the thread adds the page", function()
    local hits, misses = 0, 0
    for _, row in ipairs(rows_of([[cache(1, 7, "fault", 5, 2) cache(3000000, 7, "add_to_page_cache", 5, 1, 0, 1)]],
      "cachestat", "-I", "1s")) do
      assert.is_true(row.hits >= 0)
      hits, misses = hits + row.hits, misses + row.misses
    end
    assert.same({ 1, 0 }, { hits, misses })
  end)
end)
