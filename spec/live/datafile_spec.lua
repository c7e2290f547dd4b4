-- Recordings by perf record, read by perf and by us: every record and every sample alike.

local core = require "perfev.core"
local perfdata = require "spec.support.perfdata"
local perfscript = require "spec.support.perfscript"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local WORK = "cat /etc/passwd > /dev/null; /bin/true"
-- Kinds of recordings with their options; each has samples.
local kinds = {
  { "several events", "-e cpu-clock,page-faults,context-switches -c 1000" },
  { "frame pointers' callchains", "-e page-faults -c 1 -g" },
  { "stacks and registers to be unwound", "-e page-faults -c 3 --call-graph dwarf,1024" },
  { "switches, namespaces and cgroups", "-e cpu-clock -c 50000 --switch-events --namespaces --all-cgroups" },
  { "everybody's switches", "-a -e dummy -e sched:sched_wakeup --switch-events" },
  { "a group that is read by its leader", "-e '{cpu-clock,page-faults}:S' -c 100000" },
  { "a group of three kinds", "-e '{sched:sched_switch,page-faults,cpu-clock}:S' -c 1" },
  { "threads, without inheritance", "-e page-faults -c 1 --per-thread -T" },
  { "samples without a time", "-e page-faults -c 1 --per-thread" },
  { "counters read at the end of each task", "-s -e page-faults -c 1" },
  { "compressed records", "-e page-faults -c 1 -g -z22" },
  { "a pipe", "-e page-faults,cpu-clock -c 1000", pipe = true },
  { "a pipe of compressed records", "-z -e page-faults -c 1", pipe = true },
  { "a pipe with formats", "-e sched:sched_switch -e raw_syscalls:sys_enter", pipe = true },
  { "tracepoints with strings", "-e sched:sched_process_exec -e sched:sched_switch -e syscalls:sys_enter_openat" },
  { "payloads that print symbols", "-e kmem:kmalloc -e timer:hrtimer_start" },
  { "another clock", "-e page-faults -c 1 --clockid monotonic_raw" },
  { "registers", "-e page-faults -c 1 --user-regs=ip,sp,ax --intr-regs=ip,sp" },
  { "addresses, pages, weights and transactions",
    "-e page-faults -c 1 -d -P --data-page-size --code-page-size --phys-data -W --transaction --sample-identifier" },
  { "the whole machine", "-e cpu-clock -F 4000 -a -g" },
  { "terms and names of events", "-e page-faults/name=mine,period=3/ -e task-clock/call-graph=fp/" },
  { "modifiers", "-e page-faults:u -e cpu-clock:k -c 1000" },
  { "an overwritten ring, tasks at the end", "--overwrite --tail-synthesize -e page-faults -c 1" },
  { "build ids in its maps", "--buildid-mmap -e page-faults -c 1" },
  { "a ring of one page", "-m 1 -e page-faults -c 1" },
  { "a late start, time bounds and no synthesized records",
    "-D 1 --timestamp-boundary --synth=no -e page-faults -c 1", quiet = true },
  { "a watched cgroup", "-a -e page-faults -c 1 -G /" },
  { "a file for each CPU", "--threads=cpu -a -e page-faults,sched:sched_switch -c 1" },
  { "a compressed file for each CPU", "--threads=core -z -e page-faults -c 1" },
  { "perf sched", command = "perf sched record --no-bpf-event -o %s -- sh -c %s" },
  { "perf trace", command = "perf trace record --no-bpf-event -o %s -- sh -c %s" },
  { "perf lock", command = "perf lock record --no-bpf-event -o %s -- sh -c %s", quiet = true },
  { "perf stat", command = "perf stat record -o %s -e page-faults,cpu-clock -I 1000 -- sh -c %s", quiet = true },
  { "perf inject", command = "perf record -q -e page-faults -c 1 -o - -- sh -c %2$s | perf inject -b > %1$s" },
}

local function need() requires("perf", "root", "tracefs", "program perf") end

-- With BPF events perf record waits a second at its end (evlist__start_sb_thread()).
local RECORD = "perf record -q -N --no-bpf-event"

local function command_of(kind, path, work)
  work = run.quote(work or WORK)
  if kind.command then
    return (kind.command:gsub("%%1%$s", path):gsub("%%2%$s", work):gsub("%%s", path, 1):gsub("%%s", work, 1))
  end
  return ("%s %s -o %s -- sh -c %s%s"):format(RECORD, kind[2], kind.pipe and "-" or path, work,
    kind.pipe and " > " .. path or "")
end

local dir
local function record(kind, work)
  local path = dir .. "/perf.data"
  local result = run(command_of(kind, path, work))
  if result.code ~= 0 then pending(kind[1] .. ": " .. (result.err .. result.out):sub(1, 200)) end
  return path
end

describe("a recording with", function()
  before_each(function() dir = run.tempdir() end)
  after_each(function() run.remove(dir) end)

  for _, kind in ipairs(kinds) do
    it(kind[1] .. " is read as perf reads it", function()
      need()
      local ours = perfscript.assert_alike(record(kind))
      assert.is_true(kind.quiet or #ours.told.samples > 0)
      -- perf prints no such line for a record without a time
      assert.is_true(#ours.told.lines >= (ours.timed and #ours.told.samples or 0))
    end)
  end

  it("a breakpoint is read as perf reads it", function()
    need()
    requires("program setarch")
    if core.machine ~= "x86_64" then pending("where programs lie is known of x86_64 alone") end
    -- A program's entry address without address randomisation.
    local entry = 0x555555554000 + string.unpack("=I8", assert(run.slurp("/bin/true")), 25)
    local path = record({ "a breakpoint", ("-e mem:0x%x:x"):format(entry) }, "exec setarch -R /bin/true")
    local ours = perfscript.assert_alike(path)
    assert.equal(1, #ours.told.samples)
    assert.matches((" 1 mem:0x%x:x:"):format(entry), ours.told.lines[1], 1, true)
  end)

  it("probes that perf probe made is read as perf reads it, by perf's names", function()
    need()
    local name = "perfev_proof_" .. core.pid()
    local libc = (core.slurp "/proc/self/maps"):match "(/%S*libc[.-][^\n]*)\n"
    -- No argument of type char: libtraceevent 1.7.1, which perf uses, prints its %c as '>c<'.
    local made = run { "perf", "probe", "-x", libc, "-f", name .. "=open64 path=+0(%di):string raw=%di:x64 "
      .. "flags=%si:s32 mode=%dx:u16 low=%si:b4@0/32 four=+0(%di):x8[4]" }
    finally(function() run { "perf", "probe", "-q", "-d", "probe_libc:" .. name .. "*" } end)
    if made.code ~= 0 then pending("perf probe: " .. (made.err:match "[^\n]+" or made.code)) end
    local path = record { "a probe", "-e probe_libc:" .. name }
    local ours = perfscript.assert_alike(path)
    assert.is_true(#ours.told.samples > 0)
    local heard = run { run.perfl, "-i", path, "-e",
      'local n = 0 event{"probe_libc:' .. name .. '", sample=function(r) n = n + (#r.args.path > 0 and 1 or 0) end} '
      .. 'perfev.done(function() print(n) end)' }
    assert.equal(#ours.told.samples .. "\n", heard.out)
  end)

  it("branch stacks, made by the encoder, is read as perf reads it", function()
    requires("program perf")
    for _, endian in ipairs { "little", "big" } do
      local built = perfdata.new { endian = endian, events = { { name = "cycles", ids = { 1 }, size = 128, attr = {
        type = 0, config = 0, sample_period = 1, sample_id_all = true, branch_sample_type = { "any" },
        sample_type = { "identifier", "ip", "tid", "time", "cpu", "period", "branch_stack" } } } } }
      built:add { type = "comm", pid = 7, tid = 7, comm = "brancher", sample_id = {} }
      for i = 1, 5 do
        local stack = {}
        for j = 1, i do
          stack[j] = { from = 0x1000 * j, to = 0x2000 * j + i, mispred = j % 2 == 0, predicted = j % 2 == 1,
                       in_tx = j == 3, abort = j == 4, cycles = 100 * i + j }
        end
        built:add { type = "sample", identifier = 1, ip = 0x1000, pid = 7, tid = 7, time = 1000000 * i, cpu = 1,
                    period = 1, branch_stack = stack, cpumode = "user" }
      end
      local path = dir .. "/perf.data"
      run.write_file(path,
        built:file { [12] = built:event_desc(), [3] = built:string "host", [6] = built:string "x86_64" })
      local ours = perfscript.assert_alike(path)
      assert.matches("branch 0000000000001000 0000000000002005 501 P branch 0000000000002000 0000000000004005 502 M",
        ours.told.samples[5], 1, true)
    end
  end)

  it("a killed recorder keeps all records that the recorder wrote", function()
    need()
    local path = record { "faults", "-e page-faults -c 1 -g" }
    local whole = perfscript.ours(path)
    local bytes = assert(run.slurp(path))
    local data, size = string.unpack("=I8I8", bytes, 41)
    -- Removes the parts that perf writes last: the size of the data, and the features after the data.
    run.write_file(path, bytes:sub(1, 48) .. ("\0"):rep(8) .. bytes:sub(57, data + size))
    local killed = perfscript.ours(path)
    assert.matches("as when the recorder was killed: all bytes up to the end", killed.error)
    assert.same(whole.told, killed.told)
    -- And one that really was, by the command it recorded.
    run { "perf", "record", "-q", "-N", "-o", path, "-e", "page-faults", "--", "sh", "-c", "kill -9 $PPID" }
    killed = perfscript.ours(path)
    assert.matches("as when the recorder was killed", killed.error)
    assert.equal("- COMM: perf-exec:", killed.told.tasks[1]:match "^%D+")
  end)

  it("an output size to switch at becomes several recordings, each complete", function()
    need()
    local path = record { "parts", "--switch-output=100K -a -e page-faults -c 1 -g" }
    local parts = run.capture("ls " .. path .. ".*")
    assert.is_not_nil(parts)
    for part in parts:gmatch "%S+" do perfscript.assert_alike(part) end
  end)
end)
