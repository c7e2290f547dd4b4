-- capture.lua - makes this kernel write one record of each kind, and keeps its bytes.
--
-- Run as root from the tree's top after make:
--   lua5.4 spec/support/capture.lua spec/fixtures/vectors [NAME...]
-- Each vector is one file: the attr's bytes, the record's bytes, the action that made the kernel
-- write it, and the expected fields. `holds` checks the record without the decoder, so that a
-- wrong decoder cannot write wrong expectations. This script needs python3, unshare(1) and
-- taskset(1); the specs do not.

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
package.cpath = "build/?.so;" .. package.cpath

local core = require "perfev.core"
local perfev = require "perfev"
local real = perfev.hooks.real

local PAGE = 4096
local CPU = 0
local folder = assert(arg[1], "usage: capture.lua FOLDER [NAME...]")
local only = {}
for i = 2, #arg do only[arg[i]] = true end

local function read_command(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  pipe:close()
  return (text:gsub("%s+$", ""))
end

local KERNEL, MACHINE = read_command "uname -r", read_command "uname -m"

-- ---- rings ----

-- Opens an event with these attr fields and a ring; a task's event is enabled on exec.
local function open(fields, pid, cpu, group, pages)
  local attr = assert(core.attr_parse(core.attr_new(fields):bytes())) -- with its size set
  local fd, errno = real.perf_event_open(attr, pid, cpu, group or -1, 8)
  if not fd then return nil, "perf_event_open: " .. core.strerror(errno) end
  local memory = assert(real.mmap((1 + (pages or 64)) * PAGE, 3, fd, 0))
  return { fd = fd, memory = memory, attr = attr:bytes(), size = (pages or 64) * PAGE }
end

local HEAD, TAIL = 1024, 1032

-- Reads all unread records and frees their space -> list of the records' bytes.
local function read_records(ring)
  local m, out = ring.memory, {}
  local head, tail = m:u64(HEAD), m:u64(TAIL)
  local function at(from, len)
    from = from % ring.size
    local first = math.min(len, ring.size - from)
    return m:read(PAGE + from, first) .. (first < len and m:read(PAGE, len - first) or "")
  end
  while tail < head do
    local size = string.unpack("=I2", at(tail + 6, 2))
    out[#out + 1] = at(tail, size)
    tail = tail + size
  end
  m:u64(TAIL, tail)
  return out
end

local function close(ring)
  real.munmap(ring.memory)
  real.close(ring.fd)
end

-- ---- workloads ----

local function on_cpu(...) return { "taskset", "-c", tostring(CPU), ... } end
local function shell_command(text) return on_cpu("sh", "-c", text) end
local function python_command(text) return on_cpu("python3", "-c", text) end

-- ---- fixtures ----

local function hex(bytes)
  local groups = {}
  for i = 1, #bytes, 8 do
    groups[#groups + 1] = bytes:sub(i, i + 7):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  end
  local lines = {}
  for i = 1, #groups, 6 do lines[#lines + 1] = "    " .. table.concat(groups, " ", i, math.min(i + 5, #groups)) end
  return table.concat(lines, "\n")
end

local function quoted(text)
  return '"' .. text:gsub('[%c"\\\x7f-\xff]', function(c) return ("\\x%02x"):format(c:byte()) end) .. '"'
end

local function lua_literal(value, indent)
  if math.type(value) == "integer" and (value > 0xfffff or value < -0xfffff) then return ("0x%x"):format(value) end
  if type(value) == "string" then
    local parts = {}
    for i = 1, #value, 20 do parts[#parts + 1] = quoted(value:sub(i, i + 19)) end
    return #quoted(value) <= 70 and quoted(value) or table.concat(parts, "\n" .. indent .. "  .. ")
  end
  if type(value) ~= "table" then return tostring(value) end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  local inner, out, width = indent .. "  ", {}, 0
  for i, key in ipairs(keys) do
    local text = lua_literal(value[key], inner)
    if type(key) == "string" then
      text = (key:find "^[%a_][%w_]*$" and key or ('["%s"]'):format(key)) .. " = " .. text
    elseif key ~= i then
      text = ("[%d] = %s"):format(key, text)
    end
    out[#out + 1] = text
    width = width + #text + 2
  end
  if #out == 0 then return "{}" end
  if width + #indent < 96 and not table.concat(out):find "\n" then return "{ " .. table.concat(out, ", ") .. " }" end
  local lines, line = {}, inner
  for _, text in ipairs(out) do
    if line ~= inner and #line + #text > 108 then
      lines[#lines + 1] = line
      line = inner
    end
    line = line .. (line == inner and "" or " ") .. text .. ","
  end
  lines[#lines + 1] = line
  return "{\n" .. table.concat(lines, "\n") .. "\n" .. indent .. "}"
end

-- Splits a long string where Lua allows it.
local function split_string(name, text)
  local out = {}
  for i = 1, #text, 88 do out[#out + 1] = '"' .. text:sub(i, i + 87) .. '"' end
  return ("  %s = %s,"):format(name, table.concat(out, "\n    .. "))
end

local function write_case(case, attr, bytes, t)
  local file = assert(io.open(("%s/%s.lua"):format(folder, case.name), "w"))
  local expect = {}
  for key, value in pairs(t) do
    local dull = key == "event" or key == "bytes" or key == "size" or key == "number"
    if not dull and not (key == "sample_id" and next(value) == nil) then expect[key] = value end
  end
  file:write(("-- Captured on Linux %s, %s, by spec/support/capture.lua.\nreturn {\n"):format(KERNEL, MACHINE),
    split_string("what", case.what), "\n", split_string("made_by", case.made_by), "\n",
    ('  endian = "little", arch = "%s",\n'):format(MACHINE),
    "  attr = [[\n", hex(attr), "\n  ]],\n  bytes = [[\n", hex(bytes), "\n  ]],\n  expect = ",
    lua_literal(expect, "  "),
    ",\n}\n")
  file:close()
end

-- ---- one case ----

local failed = 0

local function print_result(case, text)
  io.stderr:write(("%-24s %s\n"):format(case.name, text))
end

-- Returns the first record of the type for which `holds` is true.
local function save_match(case, ring, records, pid)
  local decoder = assert(perfev.decoder { attr = ring.attr, endian = "little", arch = MACHINE })
  local seen = {}
  for _, bytes in ipairs(records) do
    local t, why = decoder:decode(bytes)
    if not t then error(why) end
    seen[t.type] = (seen[t.type] or 0) + 1
    if t.type == case.type and (not case.holds or case.holds(t, pid)) then
      write_case(case, ring.attr, bytes, t)
      return print_result(case, ("%d bytes"):format(#bytes))
    end
  end
  failed = failed + 1
  print_result(case, "NOTHING; seen: " .. lua_literal(seen, ""))
end

-- Opens case.events for the child (or its CPU), runs it, and picks from the last event's ring.
local function capture(case)
  if next(only) and not only[case.name] then return end
  local child = assert(core.spawn(case.run or shell_command "true", 0))
  local pid = child:pid()
  local rings = {}
  for i, fields in ipairs(case.events) do
    local whole_cpu = case.cpu_wide
    fields.disabled, fields.enable_on_exec = not whole_cpu and i == 1 or nil, not whole_cpu and i == 1 or nil
    local ring, why = open(fields, whole_cpu and -1 or pid, (whole_cpu or fields.inherit) and CPU or -1,
      case.group and rings[1] and rings[1].fd, case.pages)
    if not ring then
      failed = failed + 1
      child:close()
      return print_result(case, why)
    end
    rings[i] = ring
  end
  local ring, records = rings[case.ring or #rings], {}
  assert(child:release())
  if case.meanwhile then records = case.meanwhile(ring, pid) end
  child:reap(true)
  for _, bytes in ipairs(read_records(ring)) do records[#records + 1] = bytes end
  local ok, why = pcall(save_match, case, ring, records, pid)
  if not ok then
    failed = failed + 1
    print_result(case, why)
  end
  for _, one in ipairs(rings) do close(one) end
end

-- ---- the cases ----

local function software(config, fields)
  local out = { type = 1, config = config, sample_id_all = true }
  for name, value in pairs(fields) do out[name] = value end
  return out
end
local function dummy(fields) return software(9, fields) end
local function faults(fields)
  fields.sample_period = 1
  return software(2, fields)
end

capture { name = "comm_exec", type = "comm", what = "COMM by an exec",
  made_by = "execve of /bin/true", run = on_cpu "true",
  events = { dummy { comm = true, comm_exec = true, sample_type = { "tid", "time", "identifier" } } },
  holds = function(t, pid) return t.comm == "true" and t.exec and t.pid == pid and t.sample_id.tid == pid end }

capture { name = "comm_set", type = "comm", what = "COMM by a thread that names itself, without a trailer",
  made_by = "printf kid > /proc/self/comm", run = shell_command "printf kid > /proc/$$/comm; true",
  events = { dummy { comm = true, sample_id_all = false, sample_type = { "tid" } } },
  holds = function(t, pid) return t.comm == "kid" and not t.exec and t.pid == pid end }

local TASK = { task = true, inherit = true, sample_type = { "tid", "time", "cpu" } }

capture { name = "fork_process", type = "fork", what = "FORK of a process",
  made_by = "sh runs true in a child", run = shell_command "true | true; true", events = { dummy(TASK) },
  holds = function(t, pid) return t.ppid == pid and t.ptid == pid and t.pid == t.tid and t.sample_id.pid == pid end }

capture { name = "fork_thread", type = "fork", what = "FORK of a thread: its pid is its parent's",
  made_by = "pthread_create in python", events = { dummy(TASK) },
  run = python_command "import threading; t = threading.Thread(target=lambda: 0); t.start(); t.join()",
  holds = function(t, pid) return t.pid == pid and t.ppid == pid and t.ptid == pid and t.tid ~= pid end }

capture { name = "exit_child", type = "exit", what = "EXIT of a child: ppid and ptid are its parent's process",
  made_by = "a child of sh ends", run = shell_command "true | true; true", events = { dummy(TASK) },
  holds = function(t, pid) return t.ppid == pid and t.ptid == pid and t.pid ~= pid end }

local READ_ALL = { "total_time_enabled", "total_time_running", "id", "lost" }
local READ_GROUP = { "total_time_enabled", "total_time_running", "id", "group", "lost" }

capture { name = "read_single", type = "read", what = "READ with all but GROUP",
  made_by = "inherit_stat: a child of sh ends", run = shell_command "true | true; true",
  events = { software(2, { inherit = true, inherit_stat = true, task = true, read_format = READ_ALL,
    sample_type = { "tid", "identifier" } }) },
  holds = function(t, pid) return t.pid ~= pid and t.read.value > 0 and t.read.id == t.identifier and t.read.lost == 0
    and t.read.time_enabled >= t.read.time_running end }

capture { name = "read_plain", type = "read", what = "READ of a value alone, without a trailer",
  made_by = "inherit_stat: a child of sh ends", run = shell_command "true | true; true",
  events = { software(2, { inherit = true, inherit_stat = true, task = true, sample_id_all = false }) },
  holds = function(t, pid) return t.pid ~= pid and t.read.value > 0 and t.size == 24 end }

capture { name = "read_group", type = "read", group = true, what = "READ in the group's form",
  made_by = "inherit_stat: a child of sh ends, in a group of two", run = shell_command "true | true; true",
  events = {
    software(2, { inherit = true, inherit_stat = true, task = true, read_format = READ_GROUP,
      sample_type = { "tid", "identifier" } }),
    software(4, { inherit = true, inherit_stat = true, task = true, read_format = READ_GROUP,
      sample_type = { "tid", "identifier" } }),
  },
  holds = function(t, pid) return t.pid ~= pid and #t.read.values >= 1 and t.read.time_enabled > 0 end }

-- One sample for each single field. Page faults, because every one has an address.
local function sample_of(field, what, also, holds, run)
  local fields = { sample_type = { field }, sample_id_all = false }
  for name, value in pairs(also or {}) do fields[name] = value end
  capture { name = "sample_" .. field, type = "sample", what = "SAMPLE of " .. what .. " alone",
    made_by = "a page fault of sh", run = run or shell_command "true", events = { faults(fields) }, holds = holds }
end

sample_of("identifier", "IDENTIFIER", {}, function(t) return t.size == 16 and t.identifier > 0 end)
sample_of("ip", "IP", {}, function(t) return t.size == 16 and t.ip ~= 0 and t.cpumode == "user" end)
sample_of("tid", "TID", {}, function(t, pid) return t.size == 16 and t.pid == pid and t.tid == pid end)
sample_of("time", "TIME", {}, function(t) return t.size == 16 and t.time > 0 end)
sample_of("addr", "ADDR", {}, function(t) return t.size == 16 and t.addr > PAGE end)
sample_of("read", "READ", { read_format = READ_ALL }, function(t)
  return t.size == 48 and t.read.value == 3 and t.read.lost == 0
end)
sample_of("callchain", "CALLCHAIN", {}, function(t)
  return #t.callchain.raw >= 3 and t.callchain.kernel and t.callchain.user and t.size == 16 + 8 * #t.callchain.raw
end)
sample_of("id", "ID", {}, function(t) return t.size == 16 and t.id > 0 end)
sample_of("cpu", "CPU", {}, function(t) return t.size == 16 and t.cpu == CPU end)
sample_of("period", "PERIOD", {}, function(t) return t.size == 16 and t.period == 1 end)
sample_of("stream_id", "STREAM_ID", {}, function(t) return t.size == 16 and t.stream_id > 0 end)
sample_of("raw", "RAW, without raw data", {}, function(t) return t.raw == "\0\0\0\0" end)
sample_of("regs_user", "REGS_USER", { sample_regs_user = 0xff0fff }, function(t)
  return t.regs_user.abi == 2 and t.regs_user.cs == 0x33 and t.size == 16 + 20 * 8
end)
sample_of("stack_user", "STACK_USER", { sample_stack_user = 64, exclude_kernel = true }, function(t)
  return t.stack_size == 64 and #t.stack_user == 64
end)
sample_of("weight", "WEIGHT", {}, function(t) return t.weight == 0 end)
sample_of("weight_struct", "WEIGHT_STRUCT", {}, function(t) return t.weight.raw == 0 end)
sample_of("data_src", "DATA_SRC", {}, function(t) return t.data_src.raw == 0x1e05080021 end)
sample_of("transaction", "TRANSACTION", {}, function(t) return t.transaction.raw == 0 end)
sample_of("regs_intr", "REGS_INTR", { sample_regs_intr = 0x1ff }, function(t)
  return t.regs_intr.abi == 2 and t.regs_intr.ip and t.size == 16 + 9 * 8
end)
sample_of("phys_addr", "PHYS_ADDR", {}, function(t) return t.size == 16 end)
sample_of("aux", "AUX, without an AUX area", {}, function(t) return t.aux == "" end)
sample_of("cgroup", "CGROUP", {}, function(t) return t.size == 16 and t.cgroup > 0 end)
sample_of("data_page_size", "DATA_PAGE_SIZE", {}, function(t) return t.data_page_size == PAGE end)
sample_of("code_page_size", "CODE_PAGE_SIZE", {}, function(t) return t.code_page_size == PAGE end)

capture { name = "sample_read_group", type = "sample", group = true, what = "SAMPLE of READ in the group's form",
  made_by = "a page fault of sh, in a group of two",
  events = {
    software(4, { read_format = READ_GROUP }),
    faults { read_format = READ_GROUP, sample_type = { "read" }, sample_id_all = false },
  },
  holds = function(t) return #t.read.values == 2 and t.read.values[2].value > 2 end }

local SYS_ENTER = "/sys/kernel/tracing/events/syscalls/sys_enter_exit_group/id"
capture { name = "sample_tracepoint", type = "sample", what = "SAMPLE of a tracepoint: RAW with data",
  made_by = "sh calls exit_group",
  events = { { type = 2, config = math.tointeger(tonumber(read_command("cat " .. SYS_ENTER))), sample_period = 1,
    sample_type = { "tid", "raw" } } },
  holds = function(t, pid) return string.unpack("=i4", t.raw, 5) == pid and #t.raw % 8 == 4 end }

capture { name = "sample_all", type = "sample", what = "SAMPLE of all that a software event can have, in one",
  made_by = "a page fault of sh",
  events = { faults { sample_type = { "identifier", "ip", "tid", "time", "addr", "id", "stream_id", "cpu", "period",
    "read", "callchain", "raw", "regs_user", "stack_user", "weight", "data_src", "transaction", "regs_intr",
    "phys_addr", "aux", "cgroup", "data_page_size", "code_page_size" }, read_format = READ_ALL,
    sample_regs_user = 0x1ff, sample_regs_intr = 0x101, sample_stack_user = 32, sample_id_all = false } },
  holds = function(t, pid)
    return t.pid == pid and t.period == 1 and t.id == t.identifier and t.raw == "\0\0\0\0" and t.aux == ""
      and t.callchain.user and #t.stack_user == 32
  end }

capture { name = "mmap", type = "mmap", what = "MMAP", made_by = "ld.so maps libc to execute it",
  events = { dummy { mmap = true, sample_type = { "tid", "time" } } },
  holds = function(t, pid) return t.pid == pid and t.filename:find "libc" and not t.mmap_data end }

capture { name = "mmap_data", type = "mmap", what = "MMAP of data", made_by = "ld.so maps its cache",
  events = { dummy { mmap = true, mmap_data = true, sample_type = { "tid" } } },
  holds = function(t) return t.mmap_data and t.filename == "/etc/ld.so.cache" end }

local MMAP2 = { mmap = true, mmap2 = true, sample_type = { "tid", "identifier" } }
capture { name = "mmap2_inode", type = "mmap2", what = "MMAP2 with the file's inode",
  made_by = "ld.so maps libc to execute it", events = { dummy(MMAP2) },
  holds = function(t) return t.filename:find "libc" and not t.build_id_form
    and t.ino == math.tointeger(tonumber(read_command("stat -Lc %i " .. t.filename))) end }

local BUILD_ID = { mmap = true, mmap2 = true, build_id = true, sample_type = { "tid", "identifier" } }
capture { name = "mmap2_build_id", type = "mmap2", what = "MMAP2 with a build id",
  made_by = "ld.so maps libc to execute it, build_id asked for", events = { dummy(BUILD_ID) },
  holds = function(t) return t.filename:find "libc" and t.build_id_form and #t.build_id == 20 end }

capture { name = "mmap2_no_build_id", type = "mmap2", what = "MMAP2 of what has no build id, though asked for one",
  made_by = "the kernel maps the vdso or a data file is mapped, build_id asked for",
  events = { dummy { mmap = true, mmap2 = true, mmap_data = true, build_id = true, sample_type = { "tid" } } },
  holds = function(t) return t.filename == "/etc/ld.so.cache" and not t.build_id_form and t.ino > 0 end }

capture { name = "mmap2_leaked_bit", type = "mmap2",
  what = "MMAP2 with the inode, though the build id's bit is set: another event's",
  made_by = "ld.so maps libc while two events listen, of which the other asked for build ids",
  -- the newest event comes first on the kernel's list
  events = { dummy { mmap = true, mmap2 = true, sample_type = { "tid", "identifier" } }, dummy(BUILD_ID) }, ring = 1,
  holds = function(t) return t.filename:find "libc" and t.misc & 0x4000 ~= 0 and not t.build_id_form
    and t.ino == math.tointeger(tonumber(read_command("stat -Lc %i " .. t.filename))) end }

capture { name = "lost", type = "lost", pages = 1, what = "LOST, before the record that there was room for",
  made_by = "a ring of one page, full of page faults, read while they go on",
  run = shell_command "i=0; while [ $i -lt 200 ]; do i=$((i+1)); ls > /dev/null; done",
  events = { faults { inherit = true, sample_type = { "ip", "tid", "identifier" } } },
  meanwhile = function(ring)
    local all = {}
    for _ = 1, 20 do
      read_command "sleep 0.02"
      for _, bytes in ipairs(read_records(ring)) do all[#all + 1] = bytes end
    end
    return all
  end,
  holds = function(t) return t.lost > 0 and t.sample_id.identifier > 0 end }

local SWITCH = { context_switch = true, sample_type = { "tid", "time", "cpu" } }
capture { name = "switch_out", type = "switch", what = "SWITCH, out", made_by = "sleep(1) waits",
  run = on_cpu("sleep", "0.01"), events = { dummy(SWITCH) },
  holds = function(t, pid) return t.out and not t.preempt and t.sample_id.pid == pid end }

capture { name = "switch_in", type = "switch", what = "SWITCH, in, without a trailer: a header alone",
  made_by = "sleep(1) goes on", run = on_cpu("sleep", "0.01"),
  events = { dummy { context_switch = true, sample_id_all = false } },
  holds = function(t) return not t.out and t.size == 8 end }

capture { name = "switch_cpu_wide_out", type = "switch_cpu_wide", cpu_wide = true,
  what = "SWITCH_CPU_WIDE, out: whom the CPU goes to", made_by = "sleep(1) waits, and nobody else wants the CPU",
  run = on_cpu("sleep", "0.02"), events = { dummy(SWITCH) },
  holds = function(t, pid) return t.out and t.sample_id.pid == pid and t.next_prev_pid ~= pid end }

capture { name = "switch_cpu_wide_in", type = "switch_cpu_wide", cpu_wide = true,
  what = "SWITCH_CPU_WIDE, in: whom the CPU comes from", made_by = "sleep(1) goes on",
  run = on_cpu("sleep", "0.02"), events = { dummy(SWITCH) },
  holds = function(t, pid) return not t.out and t.sample_id.pid == pid and t.next_prev_pid ~= pid end }

capture { name = "namespaces", type = "namespaces", what = "NAMESPACES, all seven",
  made_by = "unshare --uts", run = on_cpu("unshare", "--uts", "true"),
  events = { dummy { namespaces = true, sample_type = { "tid", "time" } } },
  holds = function(t, pid)
    local nr = 0
    for _ in pairs(t.namespaces) do nr = nr + 1 end
    return t.pid == pid and nr == 7 and
      t.namespaces.net.inode == math.tointeger(tonumber(read_command("stat -Lc %i /proc/self/ns/net")))
  end }

-- a socket filter that returns 0, loaded with bpf(2) directly
local BPF = python_command [[
import ctypes, struct, os
code = ctypes.create_string_buffer(bytes.fromhex("b700000000000000" "9500000000000000"))
gpl = ctypes.create_string_buffer(b"GPL")
attr = struct.pack("=IIQQIIQII16s", 1, 2, ctypes.addressof(code), ctypes.addressof(gpl), 0, 0, 0, 0, 0, b"perfev")
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(321, 5, ctypes.create_string_buffer(attr + bytes(64)), 128)
assert fd >= 0, os.strerror(ctypes.get_errno())
os.close(fd)]]
local function add_bpf_case(name, what, type, made_by, holds)
  capture { name = name, type = type, cpu_wide = true, what = what, made_by = made_by, run = BPF,
    events = { dummy { ksymbol = true, bpf_event = true, sample_type = { "time", "identifier" } } },
    -- the kernel frees the program after a grace period
    meanwhile = function() read_command "sleep 0.5" return {} end, holds = holds }
end
add_bpf_case("ksymbol_register", "KSYMBOL of a BPF program", "ksymbol", "bpf(BPF_PROG_LOAD) of a program named perfev",
  function(t) return t.name:find "^bpf_prog_%x+_perfev$" and t.ksym_type == 1 and t.flags == 0 end)
add_bpf_case("ksymbol_unregister", "KSYMBOL of a BPF program that goes", "ksymbol", "its last descriptor is closed",
  function(t) return t.name:find "^bpf_prog_%x+_perfev$" and t.flags == 1 end)
add_bpf_case("bpf_event_load", "BPF_EVENT, load", "bpf_event", "bpf(BPF_PROG_LOAD)",
  function(t) return t.bpf_type == 1 and t.id > 0 and #t.tag == 8 end)
add_bpf_case("bpf_event_unload", "BPF_EVENT, unload", "bpf_event", "its last descriptor is closed",
  function(t) return t.bpf_type == 2 and #t.tag == 8 end)

local cgroups = read_command "findmnt -nt cgroup2 -o TARGET | head -1"
local mounted = cgroups == ""
if mounted then
  cgroups = read_command "mktemp -d"
  read_command("mount -t cgroup2 none " .. cgroups)
end
-- With comm: an event that sets only cgroup is not added to the list of side-band events
-- (is_sb_event() in kernel/events/core.c; seen on 6.18).
capture { name = "cgroup", type = "cgroup", cpu_wide = true, what = "CGROUP", made_by = "mkdir in a cgroup2 mount",
  run = on_cpu("mkdir", cgroups .. "/perfev-capture"),
  events = { dummy { cgroup = true, comm = true, sample_type = { "tid", "identifier" } } },
  holds = function(t, pid) return t.path == "/perfev-capture" and t.sample_id.pid == pid
    and t.id == math.tointeger(tonumber(read_command(("stat -c %%i %s/perfev-capture"):format(cgroups)))) end }
read_command(("rmdir %s/perfev-capture 2>/dev/null"):format(cgroups))
if mounted then read_command(("umount %s && rmdir %s"):format(cgroups, cgroups)) end

-- More samples in one tick than the lowered limit.
local RATE = "/proc/sys/kernel/perf_event_max_sample_rate"
local rate = read_command("cat " .. RATE)
read_command(("echo 1000 > %s 2>/dev/null"):format(RATE))
for _, name in ipairs { "throttle", "unthrottle" } do
  capture { name = name, type = name, what = name:upper(),
    made_by = "cpu-clock every 20 us, with perf_event_max_sample_rate at 1000",
    run = shell_command "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done",
    events = { { type = 1, config = 0, sample_period = 20000, sample_id_all = true,
      sample_type = { "tid", "time", "identifier" } } },
    holds = function(t, pid) return t.id == t.identifier and t.stream_id > 0 and t.sample_id.pid == pid end }
end
read_command(("echo %s > %s 2>/dev/null"):format(rate, RATE))

os.exit(failed == 0)
