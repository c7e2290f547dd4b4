--- Makes records of the state before recording began, as the kernel would have written them: the kernel's text, its
-- modules, BPF programs, and the comm, parent and maps of each task. Their time is 0; records of the kernel never have
-- that time.
-- They are made from /proc. Tasks that end meanwhile are left out.
-- Source: tools/perf/util/synthetic-events.c; proc(5); kernel/events/core.c, perf_event_mmap_event().

local cgroups = require "perfev.event.cgroup"
local core = require "perfev.core"

local M = {}

local MMAP, COMM, FORK, MMAP2, NAMESPACES, KSYMBOL, CGROUP = 1, 3, 7, 10, 16, 17, 19 -- PERF_RECORD_*
local KSYMBOL_BPF = 1 -- PERF_RECORD_KSYMBOL_TYPE_BPF
local IN_BPF = "\t[bpf]\n" -- the end of a BPF program's line in /proc/kallsyms: bpf_get_kallsym()
local PAGE, PROGRAM_MAX = 4096, 65536
local LINE_MAX = 600 -- bytes: KSYM_NAME_LEN is 512
local MISC_KERNEL, MISC_USER, MISC_MMAP_DATA, MISC_FORK_EXEC = 1, 2, 1 << 13, 1 << 13
local HOST = -1 -- HOST_KERNEL_ID: the kernel's maps have this pid
local PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
local MAP_SHARED, MAP_PRIVATE = 1, 2
local COMM_MAX, NAME_MAX = 15, 4095 -- bytes: TASK_COMM_LEN, PATH_MAX without their NUL
local KERNEL_THREAD = 0x200000 -- PF_KTHREAD
local CGROUPS_MAX = 65536
local HEAD = 4096 -- bytes that one read of /proc/kallsyms returns
local DIRECTORY, KIND = 0x4000, 0xf000 -- S_IFDIR, S_IFMT

-- ---- bytes ----

-- Pads a text with NULs, at least one, to a multiple of 8.
local function padded(text)
  return text .. ("\0"):rep(8 - #text % 8)
end

-- Returns f(pid, tid) -> the trailer of a record, with time 0 and CPU 0.
-- Source: include/uapi/linux/perf_event.h, struct sample_id.
local function trailer_of(attr, id)
  local function asks(bit) return attr.sample_id_all and attr.sample_type & 1 << bit ~= 0 end
  local rest = ""
  local function add(bit, value)
    if asks(bit) then rest = rest .. string.pack("=i8", value) end
  end
  add(2, 0) -- TIME
  add(6, id) -- ID
  add(9, id) -- STREAM_ID
  add(7, 0) -- CPU
  add(16, id) -- IDENTIFIER
  if not asks(1) then return function() return rest end end -- TID
  return function(pid, tid) return string.pack("=i4i4", pid, tid) .. rest end
end

local function record(type, misc, body, trailer)
  return string.pack("=I4I2I2", type, misc, 8 + #body + #trailer) .. body .. trailer
end

-- ---- the kernel ----

-- Finds the address of a symbol in lines of /proc/kallsyms; nil if it is missing or hidden.
local function address_in(symbols, symbol)
  local at = symbols:find(" T " .. symbol .. "\n", 1, true) or symbols:find(" t " .. symbol .. "\n", 1, true)
  local value = at and tonumber(symbols:sub(math.max(1, at - 16), at - 1):match("%x+$") or "0", 16)
  return value ~= 0 and value or nil
end

-- Reads the length of the kernel's code, as setup_arch() sets it: to _etext, on arm64 to the end of read-only data.
local function code_len()
  local from, to = (core.slurp("/proc/iomem") or ""):match("(%x+)%-(%x+) : Kernel code\n")
  from, to = tonumber(from or "0", 16), tonumber(to or "0", 16)
  return from ~= 0 and to > from and to - from + 1 or nil
end

-- Finds the kernel's text -> start, length, first symbol; 0, 0 if addresses are hidden. Reading all symbols takes the
-- kernel 50 ms; usually the first few are enough.
local function kernel_text()
  local start, len = address_in(core.part("/proc/kallsyms", 0, HEAD) or "", "_text"), code_len()
  if start and len then return start, len, "_text" end
  local symbols, name = core.slurp("/proc/kallsyms") or "", "_text"
  start = address_in(symbols, name)
  if not start then start, name = address_in(symbols, "_stext"), "_stext" end
  local stop = address_in(symbols, "_etext")
  if not start or not stop then return 0, 0, "_text" end
  return start, stop - start, name
end

local function kernel_record(trailer)
  local start, len, name = kernel_text()
  local body = string.pack("=i4i4i8i8i8", HOST, 0, start, len, start) .. padded("[kernel.kallsyms]" .. name)
  return record(MMAP, MISC_KERNEL, body, trailer(HOST, 0))
end

-- Reads depmod(8)'s list: a module's name -> its file.
local function module_files()
  local release = (core.slurp("/proc/sys/kernel/osrelease") or ""):match("^[^\n]+")
  local files = {}
  if not release then return files end
  local dir = "/lib/modules/" .. release .. "/"
  for path in ("\n" .. (core.slurp(dir .. "modules.dep") or "")):gmatch("\n([^:\n]+):") do
    local name = path:match("([^/]+)%.ko[%.%w]*$")
    if name then files[name:gsub("-", "_")] = path:sub(1, 1) == "/" and path or dir .. path end
  end
  return files
end

-- Makes no records if addresses are hidden from this user.
local function module_records(trailer)
  local text = core.slurp("/proc/modules") or ""
  local files, out = text ~= "" and module_files() or {}, {}
  for name, size, address in text:gmatch("(%S+) (%d+) [^\n]- 0x(%x+)[^\n]*\n") do
    local start = tonumber(address, 16)
    if start ~= 0 then
      local file = (files[name] or "[" .. name .. "]"):sub(1, NAME_MAX)
      local body = string.pack("=i4i4i8i8i8", HOST, 0, start, math.tointeger(tonumber(size)), 0) .. padded(file)
      out[#out + 1] = record(MMAP, MISC_KERNEL, body, trailer(HOST, 0))
    end
  end
  return table.concat(out)
end

-- Lists BPF programs and trampolines by address: { start, name }. It reads all symbols (50 ms of the kernel's time)
-- instead of calling bpf(2), for which few users have the rights.
local function bpf_symbols()
  local text, list = core.slurp("/proc/kallsyms") or "", {}
  local at = text:find(IN_BPF, 1, true)
  while at do
    local address, name = text:sub(math.max(1, at - LINE_MAX), at - 1):match("%f[^\n\0](%x+) %a (%S+)$")
    local start = address and tonumber(address, 16) or 0
    if start ~= 0 then list[#list + 1] = { start = start, name = name } end
    at = text:find(IN_BPF, at + 1, true)
  end
  table.sort(list, function(a, b) return math.ult(a.start, b.start) end)
  return list
end

-- kallsyms has no lengths: a program ends at the next one, the last at the end of the next page, as in perf's
-- symbols__fixup_end().
local function bpf_records(trailer)
  local list, out = bpf_symbols(), {}
  for i, one in ipairs(list) do
    local after = list[i + 1]
    local len = after and after.start - one.start or 0
    if len <= 0 or len > PROGRAM_MAX then len = 2 * PAGE - one.start % PAGE end
    local body = string.pack("=i8I4I2I2", one.start, len, KSYMBOL_BPF, 0) .. padded(one.name)
    out[#out + 1] = record(KSYMBOL, 0, body, trailer(HOST, 0))
  end
  return table.concat(out)
end

-- ---- cgroups ----

-- A cgroup's path is below the hierarchy's root, and its id is the inode of its directory.
local function cgroup_records(trailer)
  local _, used = cgroups.mounts()
  local out = {}
  local function walk(dir, path)
    local stat = core.stat(dir)
    if not stat or stat.mode & KIND ~= DIRECTORY or #out == CGROUPS_MAX then return end
    local body = string.pack("=i8", stat.ino) .. padded(path:sub(1, NAME_MAX))
    out[#out + 1] = record(CGROUP, 0, body, trailer(HOST, 0))
    local below = path == "/" and "/" or path .. "/"
    for _, name in ipairs(core.list(dir) or {}) do walk(dir .. "/" .. name, below .. name) end
  end
  if used then walk(used.path, "/") end
  return table.concat(out)
end

-- ---- tasks ----

local STAT = "^%d+ %((.*)%) %S (%-?%d+)" .. (" %-?%d+"):rep(4) .. " (%d+)(.*)"
local THREADS = "^" .. (" %-?%d+"):rep(10) .. " (%d+)"

-- In /proc a kworker's name ends with its current work; in COMM records it does not: wq_worker_comm(), 4.18.
local function stable_name(comm) return (comm:match("^(kworker/[^R][^-+]*)") or comm):sub(1, COMM_MAX) end

-- "1 (a) b) S 0 ..." -> comm, parent, true for a kernel thread, number of threads of the process
local function read_stat(pid, tid)
  local text = core.slurp(("/proc/%d/task/%d/stat"):format(pid, tid))
  local comm, parent, flags, rest = (text or ""):match(STAT)
  if not comm then return nil end
  return stable_name(comm), math.tointeger(tonumber(parent)), tonumber(flags) & KERNEL_THREAD ~= 0,
    tonumber((rest:match(THREADS)))
end

-- In the order of enum perf_event_ns_index.
local namespaces = { "net", "uts", "ipc", "pid", "user", "mnt", "cgroup" }

local function namespaces_record(pid, tid, trailer)
  local links = {}
  for i, name in ipairs(namespaces) do
    local stat = core.stat(("/proc/%d/task/%d/ns/%s"):format(pid, tid, name))
    links[i] = string.pack("=i8i8", stat and stat.dev or 0, stat and stat.ino or 0)
  end
  return record(NAMESPACES, 0, string.pack("=i4i4i8", pid, tid, #links) .. table.concat(links), trailer)
end

-- Returns the name that a record has: newlines are not escaped, and memory without a file is "//anon".
local function map_name(text)
  if text == "" or text:find("^%[anon:") then return "//anon" end
  if text:find("\\012", 1, true) then text = text:gsub("\\012", "\n") end
  return text:sub(1, NAME_MAX)
end

local function protection(r, w, x)
  return (r == "r" and PROT_READ or 0) | (w == "w" and PROT_WRITE or 0) | (x == "x" and PROT_EXEC or 0)
end

-- One line of /proc/PID/maps.
local LINE = "(%x+)%-(%x+) (.)(.)(.)(.) (%x+) (%x+):(%x+) (%d+) *([^\n]*)\n"

local function add_maps(out, pid, trailer, data)
  local text = core.slurp(("/proc/%d/maps"):format(pid))
  for start, stop, r, w, x, share, pgoff, major, minor, ino, name in (text or ""):gmatch(LINE) do
    if x == "x" or data and r == "r" then
      local at, misc = tonumber(start, 16), x == "x" and MISC_USER or MISC_USER | MISC_MMAP_DATA
      name = padded(map_name(name))
      out[#out + 1] = string.pack("=I4I2I2i4i4i8i8i8I4I4i8i8I4I4", MMAP2, misc, 72 + #name + #trailer, pid, pid,
        at, tonumber(stop, 16) - at, tonumber(pgoff, 16), tonumber(major, 16), tonumber(minor, 16),
        math.tointeger(tonumber(ino)), 0, protection(r, w, x), share == "s" and MAP_SHARED or MAP_PRIVATE)
      out[#out + 1] = name
      out[#out + 1] = trailer
    end
  end
end

-- Adds the records of a task. A thread's parent is its process; the first thread's is the parent of the process.
local function add_task(out, how, pid, tid, comm, parent)
  local trailer = how.trailer(pid, tid)
  parent = tid == pid and parent or pid
  out[#out + 1] = record(FORK, MISC_FORK_EXEC, string.pack("=i4i4i4i4i8", pid, parent, tid, parent, 0), trailer)
  if how.namespaces then out[#out + 1] = namespaces_record(pid, tid, trailer) end
  out[#out + 1] = record(COMM, 0, string.pack("=i4i4", pid, tid) .. padded(comm), trailer)
end

local function process_records(how, pid)
  local comm, parent, is_kernel, threads = read_stat(pid, pid)
  if not comm then return nil end
  local out = {}
  add_task(out, how, pid, pid, comm, parent)
  if not is_kernel and pid ~= how.held then add_maps(out, pid, how.trailer(pid, pid), how.data) end
  if threads ~= 1 then
    for _, tid in ipairs(core.threads(pid) or {}) do
      local name = tid ~= pid and read_stat(pid, tid)
      if name then add_task(out, how, pid, tid, name) end
    end
  end
  return table.concat(out)
end

-- Lists the processes of threads, each once.
local function list_leaders(tids)
  local pids, seen = {}, {}
  for _, tid in ipairs(tids) do
    local status = core.slurp(("/proc/%d/status"):format(tid)) or ""
    local pid = math.tointeger(tonumber(status:match("\nTgid:%s*(%d+)"))) or tid
    if not seen[pid] then pids[#pids + 1], seen[pid] = pid, true end
  end
  return pids
end

local function list_pids()
  local pids = {}
  for _, name in ipairs(core.list("/proc") or {}) do
    pids[#pids + 1] = math.tointeger(tonumber(name:match("^%d+$")))
  end
  table.sort(pids)
  return pids
end

--- Iterates over records of the kernel and of running tasks, as byte strings of whole records.
-- @tparam table opts  `all` (every process) or `pids` (the processes of these threads, {integer,...}); `attr` and `id`
--   of the event to which the records belong (the attr's bits cgroup, namespaces and mmap_data select records);
--   `cgroups` (also cgroups); `data` (also maps without execute permission); `held` (a process before its exec, whose
--   maps are left out because perf would take them for the new program's); `bpf` (also BPF programs)
function M.tasks(opts)
  local attr = opts.attr
  local how = { held = opts.held, data = opts.data or attr.mmap_data, namespaces = attr.namespaces,
                trailer = trailer_of(attr, opts.id) }
  local pids, at = opts.all and list_pids() or list_leaders(opts.pids), 0
  local first = { kernel_record, module_records }
  if opts.bpf then first[#first + 1] = bpf_records end
  if opts.cgroups or attr.cgroup then first[#first + 1] = cgroup_records end
  return function()
    while first[1] do
      local bytes = table.remove(first, 1)(how.trailer)
      if bytes ~= "" then return bytes end
    end
    while pids[at + 1] do
      at = at + 1
      local bytes = process_records(how, pids[at])
      if bytes then return bytes end
    end
  end
end

return M
