-- perf, hotspot's parser and perfev read perfl's recordings alike, for every way in which the recorder ends.

local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

run.perf_may_die = false -- it reads perfl's recording

local WORK = "ls -l /usr/bin > /dev/null; cat /etc/passwd > /dev/null; for i in 1 2 3; do /bin/true; done"
local PERFPARSER = run.capture "ls /usr/lib/*/libexec/hotspot-perfparser 2>/dev/null"

-- Scripts that perfl records; %s is the output. Each has samples unless noted.
local kinds = {
  { "a command", "record -e page-faults -c 1 -o %s -- sh -c " .. run.quote(WORK) },
  { "a process that runs", "-q --record %s -p $busy -e " .. run.quote [[
      event { "cpu-clock", freq = 999 }
      every("1ms", function() -- by now the session watches it
        local gate <close> = not gone and io.open(os.getenv "GATE", "w") or nil
        if gate then gate:write "go\n" end
        gone = true
      end)]], busy = true },
  { "the whole machine, with call chains", "record -a -g -e cpu-clock -F 999 --duration 300ms -o %s" },
  { "tracepoints with strings", "record -e sched:sched_process_exec -e syscalls:sys_enter_openat -o %s -- sh -c "
    .. run.quote(WORK), payload = true },
  { "a group", "record -e '{cpu-clock,page-faults}' -c 1000 -o %s -- sh -c " .. run.quote(WORK) },
  { "compressed records", "record -z -g -e page-faults -c 1 -o %s -- sh -c " .. run.quote(WORK), packed = true },
  { "a pipe", "record -e page-faults,sched:sched_process_exec -c 1 -o - -- sh -c " .. run.quote(WORK) .. " > %s" },
  { "a pipe of compressed records", "record -z -e page-faults -c 1 -o - -- sh -c " .. run.quote(WORK) .. " > %s",
    packed = true },
  { "side-band records, by a script", "-q procmon --record %s -- sh -c " .. run.quote(WORK), silent = true },
  { "switches, by a script", "-q cswlog --record %s -- sh -c " .. run.quote(WORK), silent = true },
  { "stacks to be unwound", "record --call-graph dwarf,1024 -e page-faults -c 3 -o %s -- sh -c " .. run.quote(WORK),
    only = "x86_64" },
}

local dir

before_each(function() dir = run.tempdir() end)
after_each(function() run.remove(dir) end)

local function need(kind)
  requires("root", "perf", "program perf")
  if kind and kind.payload then requires "tracefs" end
  local machine = require("perfev.core").machine
  if kind and kind.only and machine ~= kind.only then pending("not known which registers unwind " .. machine) end
end

-- perfl at work on a path.
local function record(command, busy)
  local line = ("%s %s"):format(run.quote(run.perfl), command:format(run.quote(dir .. "/perf.data")))
  if busy then -- the program works once it may continue, then ends
    line = ("export GATE=%s/gate; mkfifo $GATE; { read go < $GATE; for i in $(seq 500000); do :; done; } & busy=$!; "
      .. "%s; rc=$?; kill $busy 2>/dev/null; exit $rc"):format(dir, line)
  end
  local result = run(line)
  assert.equal(0, result.code, result.err)
  return dir .. "/perf.data", result.err
end

-- ---- output of perf ----

local kernels = {} -- records of the kernel, by perf's name
for _, name in pairs(perfev.open and require("perfev.perfdata.reader").kernel_types) do kernels[name:upper()] = true end

-- Counts records by type, and returns the text of -D for each sample.
local function dumped(path)
  local types, samples, sample = {}, {}, nil
  local text = run { "perf", "script", "-D", "--no-inline", "-i", path }
  assert.equal(0, text.code, text.err)
  for line in text.out:gmatch "[^\n]+" do
    local name = line:match "^[%d%s%-]*0x%x+@?%S* %[0x%x+%]: PERF_RECORD_([%u%d_]+)"
    if name then
      sample = nil
      if kernels[name] or name == "FINISHED_ROUND" then types[name] = (types[name] or 0) + 1 end
    end
    if name == "SAMPLE" then
      local before, misc, pid, tid, ip, period = line:match(
        "^([%d%s%-]*)0x.-PERF_RECORD_SAMPLE%(IP, 0x(%x+)%): (%-?%d+)/(%-?%d+): (%S+) period: (%d+)")
      sample = { before:match "(%d+) $", before:match "^(%d+)", tonumber(misc, 16), pid, tid,
                 ("%x"):format(tonumber(ip)), period }
      samples[#samples + 1] = sample
    elseif sample then
      sample[#sample + 1] = line:match "^%.%.%.%.%. +%d+: (%x+)$" or line:match "^%.%.%. ustack: size (%d+)"
    end
  end
  for i, one in ipairs(samples) do samples[i] = table.concat(one, " ") end
  table.sort(samples)
  return types, samples
end

-- Returns perf's output for each payload.
local function printed(path)
  local lines = {}
  for line in run({ "perf", "script", "--ns", "-F", "time,event,trace", "-i", path }).out:gmatch "[^\n]+" do
    local s, ns, rest = line:match "^%s*(%d+)%.(%d+):%s+(.-)%s*$"
    if s then lines[#lines + 1] = ("%s%s %s"):format(s, ns, (rest:gsub("%s+", " "))) end
  end
  table.sort(lines)
  return lines
end

-- ---- output of perfl ----

-- The recording of a killed recorder may end within a round.
local function ours(path, killed)
  local rec <close> = assert(perfev.open(path))
  local samples, lines = {}, {}
  for r in rec:records { user = false } do
    if r.type == "sample" then
      -- If a sample has no period, perf shows its event's period.
      local period = r.period or r.event.attr.sample_period
      local one = { r.time, r.cpu, r.misc, r.pid, r.tid, ("%x"):format(r.ip), period }
      for _, ip in ipairs(r.callchain and r.callchain.raw or {}) do one[#one + 1] = ("%016x"):format(ip) end
      if r.stack_size then one[#one + 1] = #r.stack_user end
      samples[#samples + 1] = table.concat(one, " ")
      lines[#lines + 1] = (("%d %s: %s"):format(r.time, r.event.name, r.args and tostring(r.args) or "")
        :gsub("%s+", " "):gsub(" $", ""))
    end
  end
  local types = {}
  for name, n in pairs(rec:totals().types) do
    name = tostring(name):upper()
    if kernels[name] or name == "FINISHED_ROUND" then types[name] = n end
  end
  types.FINISHED_ROUND = rec:totals().rounds
  table.sort(samples)
  table.sort(lines)
  if rec.error and killed then
    assert.matches("file cut short at 0x%x+", rec.error)
  else
    assert.is_nil(rec.error)
    assert.same({}, rec.warnings)
  end
  return types, samples, lines
end

-- Samples of hotspot's parser: records of a length and a type, after its head (hotspot's perfparser, perfunwind.h).
local SAMPLE, TRACEPOINT_SAMPLE = 13, 14
local function parsed(path)
  local out = dir .. "/parsed"
  local result = run { PERFPARSER, "--input", path, "--output", out }
  assert.equal(0, result.code, result.err)
  local file <close> = assert(io.open(out, "rb"))
  local bytes, n = file:read "a", 0
  local at = #"QPERFSTREAM\0" + 4
  assert.equal("QPERFSTREAM\0", bytes:sub(1, 12))
  while at + 5 <= #bytes do
    local size, type = string.unpack("<I4B", bytes, at + 1)
    if type == SAMPLE or type == TRACEPOINT_SAMPLE then n = n + 1 end
    at = at + 4 + size
  end
  return n
end

describe("an event whose ring is overwritten", function()
  it("is recorded in its final state, which perf and perfl read alike", function()
    requires("perf", "root", "program perf")
    local path = dir .. "/perf.data"
    local r = run { run.perfl, "record", "-q", "-e", "page-faults/overwrite,period=1/", "-e", "cs/period=1/", "-o",
      path, "--", "ls", "/usr" }
    assert.equal(0, r.code, r.err)
    local times, last, late = 0, 0, 0
    local s <close> = perfev.session { input = path }
    s:event { "page-faults", sample = function(one)
      times, last, late = times + 1, one.time, late + (one.time < last and 1 or 0)
    end }
    assert(s:run())
    local shown = run { "perf", "script", "-F", "event", "-i", path }
    local theirs = select(2, shown.out:gsub("page%-faults/", "%0"))
    assert.is_true(times >= 50, times .. " page faults")
    assert.same({ times, 0, 0 }, { theirs, late, s:totals().late })
  end)

  it("keeps the latest records that fit", function()
    requires("perf", "root")
    local path = dir .. "/perf.data"
    local r = run { run.perfl, "record", "-q", "-m", "4K", "-e", "page-faults/overwrite,period=1/", "-o", path, "--",
      "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do ls /usr > /dev/null; done; sh -c 'echo $$; true'; true" }
    assert.equal(0, r.code, r.err)
    local pids, count = {}, 0 -- no names: COMM records may be lost, in a ring of 4 KiB
    local s <close> = perfev.session { input = path }
    s:event { "page-faults", sample = function(one) pids[one.pid], count = true, count + 1 end }
    assert(s:run())
    assert.is_true(pids[tonumber(r.out)]) -- the last
    assert.is_true(count <= 2 * 4096 // 48 + 2, count .. " samples") -- a ring a CPU, 4 KiB each
  end)
end)

describe("perfl's recording of", function()
  for _, kind in ipairs(kinds) do
    it(kind[1] .. " has the same content for perf and for perfl", function()
      need(kind)
      local path = record(kind[2], kind.busy)
      local types, samples = dumped(path)
      local our_types, our_samples, our_lines = ours(path)
      assert.is_true(kind.silent or #samples > 0)
      assert.same(samples, our_samples)
      assert.same(types, our_types)
      if kind.payload then assert.same(printed(path), our_lines) end
      local header = run { "perf", "report", "--header-only", "-i", path }
      assert.equal(0, header.code)
      assert.matches("# perf version : perfev ", header.out)
      assert.matches("# cmdline : [^\n]*perfl ", header.out)
      if PERFPARSER and PERFPARSER ~= "" and not kind.packed then assert.equal(#samples, parsed(path)) end
    end)
  end

  it("any event is read by hotspot's parser", function()
    if not PERFPARSER or PERFPARSER == "" then
      pending "hotspot is not installed (its package brings 98 others along)"
    end
    need()
    local path = record(kinds[1][2])
    assert.equal(#select(2, ours(path)), parsed(path))
  end)

  it("a command appears in perf's report by symbols", function()
    need()
    local path = record(kinds[1][2])
    local report = run { "perf", "report", "--stdio", "--sort", "comm,dso", "-i", path }
    assert.equal(0, report.code)
    assert.matches("ls +libc", report.out)
  end)

  it("a stream appears in perf's report, and perf inject accepts a file", function()
    need()
    local path, injected = record(kinds[1][2]), dir .. "/injected"
    local inject = run { "perf", "inject", "-i", path, "-o", injected }
    assert.same({ 0, "" }, { inject.code, inject.err })
    assert.same(table.pack(ours(path)), table.pack(ours(injected)))
    local stream = run(("perf report --stdio --sort comm,dso -i - < %s"):format(record(kinds[7][2])))
    assert.equal(0, stream.code)
    assert.matches("ls +libc", stream.out)
    assert.equal("", stream.err:gsub("# To display[^\n]*\n#\n", "", 1))
  end)

  it("maps has no build-id bit of another session, and perf reads it", function()
    need()
    local other <close> = perfev.session {}
    other:event { "dummy", mmap2 = true, build_id = true, mmap = function() end }
    assert(other:start())
    local path = record(kinds[1][2])
    local maps = 0
    local rec <close> = assert(perfev.open(path))
    for r in rec:records { types = { "mmap2" }, user = false } do
      maps = maps + 1
      assert.equal(0, r.misc & 1 << 14) -- PERF_RECORD_MISC_MMAP_BUILD_ID
    end
    assert.is_true(maps > 10)
    assert.equal(0, run({ "perf", "report", "--stdio", "-i", path }).code)
  end)

  it("a ring that overflows has equal losses live, in perfl report, in a replay and in perf", function()
    need()
    local script, lost = [[
      local told = 0
      event { "raw_syscalls:sys_enter", sample = function() end, lost = function(r) told = told + r.lost end }
      done(function() print(told - totals().lost_own, totals().lost) end)]], 0
    for _ = 1, 5 do
      local path, said = record("-m 4K --record %s -e " .. run.quote(script) .. " -- dd if=/dev/zero of=/dev/null "
        .. "bs=1 count=10000 status=none")
      local live = said:match "recorded [^\n]* ([%d,]+) lost"
      local replay = run { run.perfl, "-q", "-i", path, "-e", script }
      assert.equal(("%s\t%s\n"):format(live:gsub(",", ""), (live:gsub(",", ""))), replay.out)
      assert.matches("\n" .. live .. " records? lost, never throttled", run { run.perfl, "report", path }.out)
      local rec <close> = assert(perfev.open(path))
      if live ~= "0" and rec.events[1].attr.read_format & 1 << 4 ~= 0 then -- PERF_FORMAT_LOST, 6.0
        local report = run { "perf", "report", "--stdio", "-i", path }
        assert.equal(0, report.code, report.err)
        assert.matches("# Total Lost Samples: " .. live:gsub(",", "") .. "\n", report.out)
      end
      lost = lost + tonumber((live:gsub(",", "")))
    end
    assert.is_true(lost > 0)
  end)

  it("a script's run prints the script's own lines in a replay", function()
    need()
    local path = dir .. "/perf.data"
    local live = run { run.perfl, "-q", "cswlog", "--record", path, "--", "sh", "-c", WORK }
    local again = run { run.perfl, "-q", "cswlog", "-i", path }
    assert.is_true(#live.out > 100)
    assert.equal(live.out, again.out)
  end)
end)

describe("perfl record", function()
  local WATCH = { "record", "-q", "-e", "page-faults", "-c", "1", "-g" }

  local function perfl(path, more, command)
    local words = { run.perfl }
    for _, list in ipairs { WATCH, { "-o", path }, more, { "--", "sh", "-c", command or WORK } } do
      table.move(list, 1, #list, #words + 1, words)
    end
    return words
  end

  local function samples_of(path, killed) return #select(2, ours(path, killed)), #select(2, dumped(path)) end

  it("killed at any moment leaves a file that perf and perfl read up to there", function()
    need()
    local read = 0
    for i = 0, 9 do
      local path = ("%s/killed%d"):format(dir, i)
      -- it would go on for ever; the moments are spread over its first 200 KB
      local recorder = run.show { run.perfl, "record", "-q", "-a", "-e", "cpu-clock", "-F", "2000", "-o", path }
      run(("%s & until [ $(cat %s* 2>/dev/null | wc -c) -gt %d ]; do :; done; kill -9 $!; wait"):format(recorder, path,
        i * 20000 + i * i * 111))
      local left = run.capture("ls " .. path .. "* 2>/dev/null || :")
      for file in left:gmatch "[^\n]+" do
        local we, perf = samples_of(file, true)
        assert.equal(perf, we)
        read = read + 1
      end
    end
    assert.is_true(read >= 10, read)
  end)

  it("keeps the records that fit on a full disk, and reports the full disk", function()
    need()
    if not run.capture("mount -t tmpfs -o size=64k tmpfs " .. dir) then pending "no tmpfs can be mounted here" end
    finally(function() os.execute("umount " .. dir) end)
    local path = dir .. "/perf.data"
    local result = run(perfl(path, { "-m", "16K" }, "while :; do /bin/true; done"))
    assert.equal(1, result.code)
    assert.matches("^perfl: cannot write to " .. path .. ": No space left on device\n", result.err)
    assert.matches("the first %d+ bytes were written and can be read", result.err)
    local we, perf = samples_of(path)
    assert.is_true(we > 0)
    assert.equal(perf, we)
  end)

  it("ends at the limit of ulimit -f", function()
    need()
    local path = dir .. "/perf.data"
    local result = run("ulimit -f 64; exec " .. run.show(perfl(path, { "-m", "16K" }, "while :; do /bin/true; done")))
    assert.equal(1, result.code)
    assert.matches("cannot write to " .. path .. ": File too large\n", result.err)
    local we, perf = samples_of(path)
    assert.is_true(we > 0)
    assert.equal(perf, we)
  end)

  it("finishes its file when a signal ends it", function()
    need()
    for signal, status in pairs { INT = 130, TERM = 143 } do
      local path = dir .. "/" .. signal
      local command = "kill -" .. signal .. " $PPID; while :; do /bin/true; done"
      local result = run("exec " .. run.show(perfl(path, {}, command)))
      assert.equal(status, result.code or 128 + result.signal)
      local rec <close> = assert(perfev.open(path))
      assert.is_false(rec.facts.pipe)
      assert.is_nil(rec.error)
    end
  end)

  it("refuses a link, a directory and a FIFO without a reader as its output", function()
    need()
    local path = dir .. "/perf.data"
    assert(os.execute(("ln -s /etc/passwd %s/link; mkfifo %s/fifo"):format(dir, dir)))
    for name, says in pairs { link = "it is a symbolic link", fifo = "it is a FIFO without a reader",
                              [""] = "Is a directory", ["none/file"] = "No such file or directory" } do
      local result = run(perfl(dir .. "/" .. name, {}))
      assert.equal(1, result.code)
      assert.matches("cannot record to .*: " .. says, result.err)
    end
    assert.equal("", run.capture("ls " .. path .. "* 2>/dev/null || :"))
  end)

  it("writes the recording to standard output, and the script's lines to standard error", function()
    need()
    local result = run { run.perfl, "cswlog", "--record", "-", "--", "sh", "-c", "echo said; " .. WORK }
    assert.equal(0, result.code)
    local path = dir .. "/stream"
    run.write_file(path, result.out)
    local types = ours(path)
    assert.is_true((types.SWITCH or 0) > 0)
    assert.matches("said\n", result.err)
    assert.matches("perfl: recorded [%d.]+ kB to standard output, 0 lost\n$", result.err)
  end)

  it("ends without a message when the reader closes its stream", function()
    need()
    local result = run(("{ %s record -a -e cpu-clock -o -; echo $? >&2; } | head -c 100 > /dev/null"):format(
      run.quote(run.perfl)))
    assert.equal("141\n", result.err)
  end)

  it("records BPF programs that existed before, so that their names are kept", function()
    requires("root", "perf", "cc")
    local path, prog = dir .. "/perf.data", dir .. "/bpfloop"
    local built = run { os.getenv "CC" or "gcc", "-O1", "-o", prog, "spec/support/bpfloop.c" }
    assert.equal(0, built.code, built.err)
    local busy = assert(io.popen("exec " .. run.quote(prog)))
    local pid = busy:read "l"
    local why = not pid:find "^%d+$" and pid
      or not run.capture "grep '_spec_loop.*.bpf.$' /proc/kallsyms" and "BPF programs have no names here"
    if why then
      os.execute("kill " .. pid .. " 2>/dev/null")
      busy:close()
      pending(why)
    end
    local result = run { run.perfl, "-q", "-p", pid, "-n", "50", "--record", path, "-e",
                         "event { 'cpu-clock', freq = 999, callchain = true, sample = function() end }" }
    os.execute("kill " .. pid)
    busy:close()
    assert.equal(0, result.code, result.err)
    local rec <close> = assert(perfev.open(path))
    local from, to, inside, name = 1, 0, 0, nil
    for r in rec:records() do
      if r.type == "ksymbol" and r.name:find "^bpf_prog_%x+_spec_loop$" then
        from, to, name = r.addr, r.addr + r.len - 1, r.name
      elseif r.type == "sample" and r.ip >= from and r.ip <= to then
        inside = inside + 1
        assert.equal(name .. " [bpf]", r.stack[1].symbol .. " " .. r.stack[1].module)
      end
    end
    assert.truthy(name)
    assert.is_true(inside > 0)
  end)

  it("makes files readable only by their owner, and keeps the last one as .old", function()
    need()
    local path = dir .. "/perf.data"
    for _ = 1, 2 do assert.equal(0, run(perfl(path, {})).code) end
    assert.equal("600 600", run.capture(("stat -c %%a %s %s.old | xargs"):format(path, path)))
  end)

  it("exits with the command's status, and keeps the last recording if it cannot run", function()
    need()
    local path = dir .. "/perf.data"
    assert.equal(3, run(perfl(path, {}, "exit 3")).code)
    local words = { run.perfl, "record", "-q", "-o", path, "--", "/no/such/command" }
    assert.equal(127, run(words).code)
    assert.equal(path, run.capture("ls " .. path .. "*"))
  end)

  it("shows its usage in help and in refusals", function()
    local help = run { run.perfl, "record", "--help" }
    assert.equal(0, help.code)
    for line in help.out:gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
    local refusals = {
      ["-F 9 -c 9"] = "%-F and %-c cannot be combined",
      ["-z --switch-output 1M -o -"] = "%-%-switch%-output needs a file",
      ["-a -p 1"] = "choose one", ["--nonsense"] = "unknown option",
      ["--call-graph lbr"] = "fp, fp,defer, dwarf or dwarf,BYTES",
    }
    for words, says in pairs(refusals) do
      local result = run(run.quote(run.perfl) .. " record " .. words)
      assert.equal(2, result.code)
      assert.matches(says, result.err)
    end
    local long = run { run.perfl, "record", "--all-cpus", "--quiet", "--event", "cs", "--freq", "max", "--dry-run" }
    local most = run.capture "cat /proc/sys/kernel/perf_event_max_sample_rate"
    assert.matches("\nevent cs\n.*\n  sample_freq +" .. most:match "%d+" .. "\n", long.out)
    local defer = run { run.perfl, "record", "--call-graph", "defer", "--dry-run" }
    assert.matches("\n  defer_callchain +1\n", defer.out, defer.err)
  end)
end)
