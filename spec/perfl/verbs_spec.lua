-- perfl report, dump and skeleton: their output for whole, damaged and hostile recordings.

local core = require "perfev.core"
local fixtures = require "spec.support.fixtures"
local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local READ, SAMPLE = 8, 9 -- PERF_RECORD_READ, PERF_RECORD_SAMPLE

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function spill(bytes, name)
  return run.write_file(dir .. "/" .. (name or "t.data"), bytes)
end

local function perfl(...) return run { run.perfl, ... } end

local function lines_of(text)
  local lines = {}
  for line in text:gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  return lines
end

local function objects_of(text)
  local list = lines_of(text)
  for i, line in ipairs(list) do list[i] = json.decode(line) end
  return list
end

-- ---- the recording of these specs ----

local HOSTILE = "a\27[2J\n\t\xff\u{202e}\" pid=0"
local SCHED = 300 -- the tracepoint's number

local format = [[
name: sched_test
ID: 300
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t end;	offset:24;	size:4;	signed:1;
	field:unsigned int flags;	offset:28;	size:4;	signed:0;
	field:void * where;	offset:32;	size:8;	signed:0;
	field:u64 big;	offset:40;	size:8;	signed:0;
	field:long parts[2];	offset:48;	size:16;	signed:1;

print fmt: "end=%d", REC->end
]]

-- TRACING_DATA with that format alone.
local function tracing_data(built)
  local function sized(text) return built:pack("I8", #text) .. text end
  return "\x17\x08\x44tracing" .. "0.5\0" .. (built.endian == "big" and "\1" or "\0") .. "\8" .. built:pack("I4", 4096)
    .. "header_page\0" .. sized("") .. "header_event\0" .. sized("") .. built:pack("I4I4", 0, 1)
    .. "sched\0" .. built:pack("I4", 1) .. sized(format) .. built:pack("I4I4", 0, 0)
end

local cycles = { type = 0, config = 0, sample_freq = 4000, freq = true, sample_id_all = true,
                 sample_type = { "identifier", "ip", "tid", "time", "cpu", "period", "callchain" } }
local sched = { type = 2, config = SCHED, sample_period = 1, sample_id_all = true,
                sample_type = { "identifier", "tid", "time", "cpu", "raw" } }
local CYCLES, TEST = 11, 21 -- their ids

local function payload(built)
  return built:pack("I2BBi4c16i4I4i8i8i8i8", SCHED, 0, 0, 7, "ta\"sk\n", -1, 0xffffffff, -256, -1, -1, 5)
end

local function trailer(time, pid) return { pid = pid or 7, tid = 7, time = time, cpu = 1, identifier = CYCLES } end

local function recording(endian)
  local built = perfdata.new { endian = endian, events = {
    { attr = cycles, ids = { CYCLES }, name = "cycles" }, { attr = sched, ids = { TEST }, name = "sched:sched_test" },
  } }
  built:add { type = "comm", pid = 7, tid = 7, comm = "first", sample_id = trailer(0) }
  built:add { type = "mmap2", pid = 7, tid = 7, addr = -4096, len = 4096, filename = "/bin/" .. HOSTILE,
              sample_id = trailer(90, -1) }
  for i = 1, 3 do
    built:add { type = "sample", identifier = CYCLES, ip = -8192, pid = 7, tid = 7, time = 1000000000 + i, cpu = 1,
                period = 10 * i, callchain = { -128, -8192, -512, 4096 } }
  end
  built:add { type = "sample", identifier = TEST, pid = 8, tid = 9, time = 3500000000, cpu = 0, raw = payload(built) }
  built:add { type = "fork", pid = 10, ppid = 7, tid = 10, ptid = 7, time = 3600000000,
              sample_id = trailer(3600000001) }
  built:add { type = "comm", pid = 8, tid = 9, comm = HOSTILE:sub(1, 12), sample_id = trailer(3700000000) }
  built:add { type = "sample", identifier = CYCLES, ip = 1, pid = 8, tid = 9, time = 3800000000, cpu = 1,
              period = math.mininteger + 5, callchain = {} }
  built:add { type = "lost", id = CYCLES, lost = 3, sample_id = trailer(3900000000) }
  built:add { type = "throttle", time = 3900000001, id = CYCLES, stream_id = CYCLES, sample_id = trailer(3900000001) }
  built:round()
  built:user(79, built:pack("I8I8I8", 31, 5, -7))
  built:user(90, "what is this")
  return built
end

local function features_of(built)
  return { [1] = tracing_data(built), [3] = built:string("ho\27st"), [4] = built:string("6.1.0"),
           [5] = built:string("6.1.9"), [6] = built:string("x86_64"), [7] = built:pack("I4I4", 4, 3),
           [11] = built:pack("I4", 2) .. built:string("perf") .. built:string("record\n"),
           [12] = built:event_desc(), [29] = built:pack("I4I4I8I8", 1, 4, 1700000000000000000, 1000000001) }
end

local function whole(endian)
  local built = recording(endian)
  return built:file(features_of(built)), built
end

local NR = 13 -- records of it

-- No bytes that a terminal executes, and no line wider than the screen.
local function check_clean(text, width)
  for _, code in utf8.codes(text) do
    assert.is_true(code == 10 or code >= 32 and (code < 127 or code > 159) and code ~= 0x202e, code)
  end
  for _, line in ipairs(lines_of(text)) do
    if width then assert.is_true(utf8.len(line) <= width, line) end
  end
end

-- ---- report ----

describe("perfl report", function()
  local function told(...)
    local result = perfl("report", "-j", ...)
    return json.decode(result.out), result
  end

  it("shows the recorder, its machine, its time and the number of records", function()
    for _, endian in ipairs { "little", "big" } do
      local total, result = told(spill((whole(endian))))
      assert.equal(0, result.code, result.err)
      assert.same({ "ho\27st", "6.1.0", "6.1.9", "x86_64" }, { total.header.hostname, total.header.osrelease,
        total.header.version, total.arch })
      assert.same({ "perf", "record\n" }, total.command)
      assert.same({ endian, "file", 160 }, { total.endian, total.kind, total.attr_size })
      assert.same({ 1000000001, 3800000000, 2799999999 }, { total.first, total.last, total.duration })
      assert.equal(1700000000, total.began)
      assert.same({ comm = 2, mmap2 = 1, sample = 5, fork = 1, lost = 1, throttle = 1, finished_round = 1,
        time_conv = 1, ["90"] = 1 }, total.records)
      assert.same({ NR + 1, 5, 3, 1 }, { total.total, total.samples, total.lost, total.throttled })
      assert.same({ { "cycles", 4, 4000 }, { "sched:sched_test", 1 } },
        { { total.events[1].name, total.events[1].samples, total.events[1].freq },
          { total.events[2].name, total.events[2].samples } })
      assert.same({ 1, 2 }, { total.events[2].periods, total.events[2].type })
      assert.same({ 3, 0.6 }, { total.comms[1].samples, total.comms[1].share })
      assert.equal("first", total.comms[1].comm)
    end
  end)

  it("counts a sample under its task's name at that time, with the period of its event", function()
    local attr = { type = 1, config = 0, sample_period = 7, sample_id_all = true,
                   sample_type = { "identifier", "tid", "time" } }
    local built = perfdata.new { events = { { attr = attr, ids = { 1 } } } }
    local time = 0
    local function add(type_name, tid, comm)
      time = time + 1
      local sample = type_name == "sample"
      built:add { type = type_name, pid = tid, tid = tid, comm = comm, time = time, identifier = sample and 1 or nil,
                  sample_id = not sample and { pid = tid, tid = tid, time = time, identifier = 1 } or nil }
    end
    add("sample", 8)
    for _, name in ipairs { "first", "second" } do
      add("comm", 8, name)
      for _ = 1, 3 do add("sample", 8) end
      add("sample", 8 + 256)
      add("sample", 0)
    end
    local total = told(spill(built:file()))
    local comms = {}
    for _, entry in ipairs(total.comms) do comms[entry.comm] = entry.samples end
    assert.same({ ["?"] = 3, first = 3, second = 3, swapper = 2 }, comms)
    assert.same({ 11, 77 }, { total.events[1].samples, total.events[1].periods })
  end)

  it("fits a screen of 80 columns with any names", function()
    local result = perfl("report", spill((whole())))
    assert.equal(0, result.code, result.err)
    check_clean(result.out, 80)
    for _, wanted in ipairs { "host +ho\\x1bst, Linux 6.1.0, x86_64, 3 CPUs of 4", "command +perf record\\n\n",
      "when +2023%-11%-1%d %d%d:%d%d:20 [+-]%d+\n", "span +2.800000 s, perf clock at 1.000000 to 3.800000\n",
      "\ncycles +4000 Hz +4 +9.223372e%+18\n", "\nsched:sched_test +each +1 +1\n", "\nsample +5\n", "\ntype 90 +1\n",
      "\nfirst +3 +60.0%%\n", "\n3 records lost, throttled once\n" } do
      assert.matches(wanted, result.out)
    end
  end)

  it("names events without a name in the recording, with their exclusions", function()
    local function named(fields)
      local attr = { type = 0, config = 0, sample_type = { "ip" } }
      for name, value in pairs(fields) do attr[name] = value end
      local built = perfdata.new { events = { { attr = attr, ids = { 1 } } } }
      built:add { type = "sample", ip = 1 }
      return told(spill(built:file())).events[1].name
    end
    assert.equal("cycles", named {})
    assert.equal("cycles:u", named { exclude_kernel = true, exclude_hv = true })
    assert.equal("cycles:kpp", named { exclude_user = true, exclude_hv = true, precise_ip = 2 })
  end)

  it("reads perf.data if no file is named", function()
    spill((whole()), "perf.data")
    for _, verb in ipairs { "report", "dump", "skeleton" } do
      local result = run({ run.perfl, verb }, { cwd = dir })
      assert.equal(0, result.code, result.err)
      assert.equal(perfl(verb, dir .. "/perf.data").out:gsub(dir .. "/", ""), (result.out))
    end
  end)

  it("shows the same for a pipe", function()
    local built = recording()
    local of_pipe = json.decode(run({ run.perfl, "report", "-j", "-" }, { stdin = built:pipe(features_of(built)) }).out)
    local of_file = told(spill((whole())))
    assert.same({ "pipe", "-" }, { of_pipe.kind, of_pipe.file })
    for _, name in ipairs { "events", "comms", "samples", "lost", "first", "last", "header", "command", "clock" } do
      assert.same(of_file[name], of_pipe[name], name)
    end
    local text = run({ run.perfl, "report", "-" }, { stdin = built:pipe(features_of(built)) }).out
    assert.matches("^file +standard input, [%d,]+ bytes, in the form for a pipe", text)
  end)

  it("shows the readable part of a damaged recording, the damage and its offset, and fails", function()
    local bytes = whole()
    local path = spill(bytes:sub(1, 1000))
    local result = perfl("report", path)
    assert.equal(1, result.code)
    assert.matches("\nsample +3\n", result.out)
    assert.matches("\ndamage: .*cut short at 0x3e8", result.out)
    check_clean(result.out, 80)
    local total = json.decode(perfl("report", "-j", path).out)
    assert.matches("cut short at 0x3e8", total.error, 1, true)
  end)

  it("reads a FIFO, and does not open it again", function()
    local built = recording()
    local path = spill(built:pipe(features_of(built)))
    local fifo = dir .. "/fifo"
    local result = run(("mkfifo %s && { cat %s > %s & } && exec %s report -i %s"):format(fifo, path, fifo,
      run.quote(run.perfl), fifo))
    assert.equal(0, result.code, result.err)
    assert.matches("\nsample +5\n", result.out)
  end)

  it("reports malformed records with their offsets", function()
    local built = recording()
    built:add(built:pack("I4I2I2I8", 3, 0, 16, 0)) -- a comm without room for one
    local total, result = told(spill(built:file(features_of(built))))
    assert.equal(1, result.code)
    assert.equal(1, total.malformed)
    assert.matches("at 0x%x+: comm", total.notes[1])
  end)

  it("reports a file that is not a recording, with the cause and a remedy", function()
    local cases = {
      [dir .. "/none"] = { "cannot open the recording .*/none: No such file", "try: the name of a file" },
      [dir] = { "cannot open the recording .*: a directory, ", "try: a file that perf record wrote" },
      [spill("no data", "text")] = { "cannot open the recording .*/text: ", "try: a file that perf record wrote" },
    }
    for _, verb in ipairs { "report", "dump", "skeleton" } do
      for path, wanted in pairs(cases) do
        local result = perfl(verb, path)
        assert.same({ 1, "" }, { result.code, result.out })
        for _, part in ipairs(wanted) do assert.matches(part, result.err) end
      end
      local result = perfl(verb, "a", "b")
      assert.equal(2, result.code)
      assert.matches("try: perfl " .. verb .. " --help", result.err, 1, true)
      assert.matches("^Usage: perfl " .. verb, perfl(verb, "--help").out)
    end
  end)

  it("counts the records and events in other projects' recordings", function()
    if fixtures.missing then pending(fixtures.missing) end
    for _, wanted in ipairs(fixtures) do
      local total = told(fixtures.path(wanted.file))
      local records, events = {}, {}
      for name, n in pairs(total.records) do records[name == "header_attr" and "ATTR" or name:upper()] = n end
      for i, event in ipairs(total.events) do events[i] = { wanted.events[i][1], event.samples, event.periods } end
      assert.same(wanted.records, records, wanted.file)
      assert.same(wanted.events, events, wanted.file)
      for _, key in ipairs { "total", "samples", "lost", "period_sum", "kind", "endian" } do
        assert.equal(wanted[key], total[key], wanted.file .. ": " .. key)
      end
    end
  end)
end)

describe("perfl record", function()
  local function refused(...)
    local result = perfl("record", ...)
    assert.same({ 2, "" }, { result.code, result.out })
    return result.err
  end

  it("reports contradictory and invalid options, with the cause and a remedy", function()
    assert.equal("perfl: -F and -c cannot be combined\n  -F samples by time, -c by a number of events\n"
      .. "  try: -F or -c\n",
      refused("-F", "99", "-c", "5"))
    assert.equal("perfl: compression level '40': expected 1 to 22\n  try: perfl record --help\n",
      refused("--compression-level", "40"))
  end)
end)

-- ---- dump ----

describe("perfl dump", function()
  local function dumped(...)
    local result = perfl("dump", "-j", ...)
    return objects_of(result.out), result
  end

  it("prints every record with all its fields, in the order of time", function()
    for _, endian in ipairs { "little", "big" } do
      local path = spill((whole(endian)))
      local objects, result = dumped(path)
      assert.equal(0, result.code, result.err)
      local rec <close> = assert(perfev.open(path))
      local n = 0
      for r, offset in rec:records() do
        n = n + 1
        local object = objects[n]
        assert.same({ r.type, r.number, offset }, { object.type, object.number, object.offset })
        if type(r) ~= "table" then
          for name, value in pairs(r) do
            local told = object[name]
            if name == "raw" and r.args then
              assert.is_nil(told)
            elseif type(value) == "table" then
              assert.is_table(told, name)
            elseif type(value) == "string" and name ~= "raw" then
              assert.is_string(told, name)
            elseif math.type(value) and type(told) == "string" then
              assert.equal(("0x%x"):format(value), told, name)
            elseif name ~= "period" and name ~= "raw" then
              assert.equal(value, told, name)
            end
          end
          assert.equal(r.event and r.event.name, object.event)
        end
      end
      assert.equal(n, #objects)
      assert.equal(NR + 1, n)
    end
  end)

  it("prints integers exactly, u64 without a sign, and addresses in hexadecimal", function()
    local out = perfl("dump", "-j", spill((whole()))).out
    assert.matches('"period":9223372036854775813,', out, 1, true)
    assert.matches('"ip":"0xffffffffffffe000"', out, 1, true)
    assert.matches('"args":{"prev_comm":"ta\\"sk\\n","end":-1,"flags":4294967295,"where":"0xffffffffffffff00",'
      .. '"big":18446744073709551615,"parts":[-1,5]}', out, 1, true)
    assert.matches('"callchain":{"kernel":["0xffffffffffffe000"],"raw":["0xffffffffffffff80","0xffffffffffffe000",'
      .. '"0xfffffffffffffe00","0x1000"],"user":["0x1000"]}', out, 1, true)
    assert.matches('"sample_id":{"cpu":1,"identifier":11,"pid":7,"tid":7,"time":3600000001}', out, 1, true)
  end)

  it("prints a line of columns and fields for each record, with control characters escaped", function()
    local result = perfl("dump", spill((whole())))
    assert.equal(0, result.code, result.err)
    check_clean(result.out)
    local lines = lines_of(result.out)
    assert.equal(NR + 2, #lines)
    assert.matches("^# +OFFSET +TIME%(s%) +CPU +PID/TID +TYPE EVENT FIELDS$", lines[1])
    for i = 2, #lines do assert.matches("^ *0x%x+ +[-%d.]+ +[-%d]+ +[-%d/]+ +[%w_]+ %S+", lines[i]) end
    for _, wanted in ipairs {
      ' 0.000000090    1      7/7      mmap2 cycles addr=0xfffffffffffff000 len=4096 ',
      'filename="/bin/a\\x1b[2J\\n\\t\\xff\\xe2\\x80\\xae\\x22 pid=0" identifier=11 comm="first" sample_id.pid=-1\n',
      ' 1.000000001    1      7/7      sample cycles identifier=11 ip=0xffffffffffffe000 period=10 '
        .. 'callchain=[kernel: 0xffffffffffffe000 user: 0x1000] comm="first"\n',
      ' 3.500000000    0      8/9      sample sched:sched_test identifier=21 prev_comm="ta\\x22sk\\n" end=-1 '
        .. 'flags=4294967295 where=0xffffffffffffff00 big=18446744073709551615 parts=[-1 5]\n',
      ' fork cycles ppid=7 ptid=7 identifier=11 comm="first" sample_id.pid=7 sample_id.tid=7 '
        .. 'sample_id.time=3600000001\n',
      ' comm cycles comm="first" identifier=11 synthesised\n',
      ' time_conv - time_mult=5 time_shift=31 time_zero=-7\n',
      ' type_90 - raw=776861742069732074686973\n',
    } do
      assert.matches(wanted, result.out, 1, true)
    end
  end)

  it("prints values with parts, sorted by name", function()
    local attr = { type = 0, config = 0, sample_period = 1, sample_id_all = true, branch_sample_type = 1 << 17 | 1,
                   read_format = 0xf, sample_regs_user = 1 << 0 | 1 << 7 | 1 << 29, sample_type = { "identifier",
                   "time", "read", "callchain", "branch_stack", "regs_user", "weight_struct", "data_src",
                   "transaction" } }
    local built = perfdata.new { events = { { attr = attr, ids = { 1 } } } }
    built:add { type = "sample", identifier = 1, time = 5,
      read = { time_enabled = 3, time_running = -1, values = { { value = 7, id = 1 } } },
      callchain = { 1, -512, 2, -640, 3, 4, -2048, -700, 5 },
      branch_stack = { hw_idx = -1, { from = 16, to = 32, mispred = true, cycles = 9, type = "call" },
                       { from = 1, to = 2, type = "extend_abi", new_type = "arch_2" } },
      regs_user = { abi = 2, ax = 1, sp = -1, [29] = 2 }, weight = { var1_dw = 4, var3_w = 1 },
      data_src = { op = { store = true, load = true }, hops = 7 }, transaction = { abort = 6, sync = true } }
    built:add { type = "namespaces", pid = 1, tid = 1, namespaces = { net = { dev = 4, inode = 5 },
      uts = { dev = 4, inode = -6 } }, sample_id = { time = 6, identifier = 1 } }
    local path = spill(built:file { [6] = built:string "x86_64" })
    local lines, objects = lines_of(perfl("dump", path).out), lines_of(perfl("dump", "-j", path).out)
    local function holds(text, wanted) assert.matches(wanted, text, 1, true) end
    holds(lines[2], " read={time_enabled=3 time_running=-1 values=[{id=1 value=7}]} callchain=[0x1 user: 0x2 "
      .. "deferred: 0x3 0x4 guest: 0xfffffffffffffd44 0x5] branch_stack=[0x10->0x20(cycles=9,mispred,type=\"call\") "
      .. "0x1->0x2(new_type=\"arch_2\",type=\"extend_abi\") hw_idx=-1] regs_user={abi=2 29=0x2 ax=0x1 "
      .. "sp=0xffffffffffffffff} weight={raw=0x1000000000004 var1_dw=4 var2_w=0 var3_w=1} data_src={blk={} dtlb={} "
      .. "hops=7 lock={} lvl={} lvl_num=0 op={load store} raw=0x380000000006 region=0 snoop={} snoopx={}} "
      .. "transaction={abort=6 raw=0x600000004 sync}")
    for _, wanted in ipairs {
      ',"read":{"time_enabled":3,"time_running":-1,"values":[{"id":1,"value":7}]},"callchain":{"cookie":"0x3",'
        .. '"guest":[],"raw":["0x1","0xfffffffffffffe00","0x2","0xfffffffffffffd80","0x3","0x4","0xfffffffffffff800",'
        .. '"0xfffffffffffffd44","0x5"],"unknown":["0x5"],"user":["0x1","0x2","0x4"]},"branch_stack":[{"abort":false,'
        .. '"cycles":9,"from":"0x10","in_tx":false,"mispred":true,"predicted":false,"priv":"unknown","raw":"0x400091",'
        .. '"spec":"na","to":"0x20","type":"call"},{',
      ',"regs_user":{"abi":2,"29":"0x2","ax":"0x1","sp":"0xffffffffffffffff"},"weight":{"raw":"0x1000000000004",',
      ',"op":{"load":true,"store":true},"raw":"0x380000000006","region":0,"remote":false,',
      ',"transaction":{"abort":6,"async":false,"capacity_read":false,',
    } do holds(objects[1], wanted) end
    holds(lines[3], " namespaces={net={dev=4 inode=5} uts={dev=4 inode=-6}} ")
    holds(objects[2], ',"namespaces":{"net":{"dev":4,"inode":5},"uts":{"dev":4,"inode":-6}},')
  end)

  it("prints a record longer than its buffer in the right place", function()
    local attr = { type = 1, config = 0, sample_period = 1, sample_type = { "time", "raw" } }
    local built = perfdata.new { events = { { attr = attr } } }
    for i = 1, 3 do
      built:add { type = "sample", time = i, raw = "x" }
      built:add { type = "sample", time = i, raw = ("%c"):format(i):rep(60000) }
    end
    local path = spill(built:file())
    local lengths = {}
    for i, line in ipairs(lines_of(perfl("dump", "-j", path).out)) do
      local raw = json.decode(line).raw
      lengths[i] = { #raw // 1000, raw:sub(1, 2) }
    end
    assert.same({ { 0, "78" }, { 120, "01" }, { 0, "78" }, { 120, "02" }, { 0, "78" }, { 120, "03" } }, lengths)
    assert.matches(" raw=" .. ("01"):rep(64) .. "...(60004 bytes)\n", perfl("dump", path).out, 1, true)
  end)

  it("prints only the selected records", function()
    local path = spill((whole()))
    local function types(...)
      local seen = {}
      for i, object in ipairs((dumped(path, ...))) do seen[i] = object.type end
      return table.concat(seen, " ")
    end
    assert.equal("mmap2 comm lost", (types("-t", "mmap2,comm,lost"):gsub("^comm ", "")))
    assert.equal("sample", types("-t", "sample", "-e", "sched:*"))
    assert.equal("sample sample", types("--event", "cycles", "-t9", "-n", "2"))
    assert.equal("unknown", types("-t", "90"))
    assert.equal(3, #dumped(path, "-n3"))
  end)

  it("prints records of every type, future ones included", function()
    local built = perfdata.new { events = { { attr = cycles, ids = { 1 } } } }
    local trailer_bytes = built:pack("i4i4i8i4i4i8", 7, 8, 90, 1, 0, 1)
    local wanted = {}
    for number = 1, 63 do
      local layout = core.layouts().records[number]
      if number ~= SAMPLE then
        local body = ("\0"):rep((layout and layout.min or 24) - (number == READ and 0 or 8)) -- a value of its own
        body = body .. ("\0"):rep(-#body % 8) .. trailer_bytes
        built:add(built:pack("I4I2I2", number, 2, 8 + #body) .. body)
        wanted[#wanted + 1] = layout and layout.name or "type_" .. number
      end
    end
    local path = spill(built:file())
    local result, seen = perfl("dump", path), {}
    for i, line in ipairs(lines_of(result.out)) do seen[i - 1] = line:match("^%s*%S+%s+%S+%s+%S+%s+%S+%s+(%S+)") end
    seen[0] = nil
    assert.same({ 0, "" }, { result.code, result.err })
    assert.same(wanted, seen)
    assert.equal(#wanted, #(dumped(path)))
  end)

  it("refuses an unknown record type, with the nearest name", function()
    local result = perfl("dump", "-t", "sampel", "any")
    assert.equal(2, result.code)
    assert.matches("unknown record type 'sampel' (did you mean 'sample'?)", result.err, 1, true)
    for line in result.err:gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
    result = perfl("dump", "-e", "nosuch", spill((whole()), "some.data"))
    assert.equal(1, result.code)
    assert.equal("perfl: no event is called 'nosuch'\n  " .. dir .. "/some.data has cycles, sched:sched_test\n  "
      .. "try: one of these, or a pattern\n", result.err)
    assert.matches("event '%[':", perfl("dump", "-e", "[", "any").err)
    assert.matches("count '0': expected a whole number", perfl("dump", "-n", "0", "any").err, 1, true)
  end)

  it("adds the original bytes of a record", function()
    local bytes = whole()
    local path = spill(bytes)
    local objects = dumped(path, "--raw", "-t", "fork")
    local offset, size = objects[1].offset, objects[1].size
    local hex = bytes:sub(offset + 1, offset + size):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
    assert.equal(hex, objects[1].bytes)
    assert.matches(" bytes=" .. hex .. "\n", perfl("dump", "--raw", "-t", "fork", path).out, 1, true)
  end)

  it("prints the records before the damage, reports the damage, and fails", function()
    local path = spill(whole():sub(1, 1000))
    local objects, result = dumped(path)
    assert.equal(1, result.code)
    assert.matches("cut short at 0x3e8", result.err, 1, true)
    assert.matches("perfl report lists", result.err, 1, true)
    assert.same({ "comm", "mmap2", "sample", "sample", "sample" }, (function(list)
      for i, object in ipairs(list) do list[i] = object.type end
      return list
    end)(objects))
  end)

  it("ends when its reader closes the pipe", function()
    local built = recording()
    for i = 1, 3000 do
      built:add { type = "sample", identifier = CYCLES, ip = i, pid = 7, tid = 7, time = 4000000000 + i, cpu = 1,
                  period = i, callchain = {} }
    end
    local path = spill(built:file())
    local result = run(("{ %s dump %s; echo $? >&2; } | head -n 1"):format(run.quote(run.perfl), path))
    assert.same({ 1, "141\n" }, { #lines_of(result.out), result.err })
  end)
end)

-- ---- skeleton ----

describe("perfl skeleton", function()
  local function written(path, ...)
    local result = perfl("skeleton", path, ...)
    assert.equal(0, result.code, result.err)
    return result.out, spill(result.out, "made.lua")
  end

  it("writes a script that prints every record of the recording, unchanged", function()
    local path = spill((whole()))
    local text, script = written(path)
    assert.matches("^%-%- skeleton: [^\n]+\n%-%- perfl SCRIPT.lua %-i t.data, or live: [^\n]+\n\nlocal perfev", text)
    local result = perfl(script, "-i", path)
    assert.equal(0, result.code, result.err)
    assert.is_nil(result.err:find("a callback failed", 1, true), result.err)
    assert.equal(11, #lines_of(result.out))
    check_clean(result.out)
    assert.matches("sched:sched_test: prev_comm=ta\"sk\\n end=-1 flags=4294967295 where=-256 big=-1 parts=-1 5\n",
      result.out, 1, true)
    assert.matches("mmap2: addr=0xfffffffffffff000 len=4096 ", result.out, 1, true)
  end)

  it("names a payload's arguments, each with its type", function()
    local text = written(spill((whole())))
    for _, line in ipairs { '"prev_comm", args.prev_comm, -- char[16]\n', '"end", args["end"],          -- pid_t\n',
      '"where", args.where,         -- void *\n', '"parts", args.parts)         -- long[2]\n' } do
      assert.matches(line, text, 1, true)
    end
  end)

  it("sets each event's sampling as recorded, so that it is the same live", function()
    local text = written(spill((whole())))
    assert.matches('perfev.event { "cycles", freq = 4000, callchain = true,\n', text, 1, true)
    assert.matches('perfev.event { "sched:sched_test",\n', text, 1, true)
    for _, callback in ipairs { "comm", "mmap", "fork", "lost" } do
      assert.matches("\n  " .. callback .. " = function(r)\n", text, 1, true)
    end
    assert.is_nil(text:find("exit = function", 1, true))
    -- records that only one event receives are in its declaration
    assert.matches('"cycles".-throttle = function.-sched:sched_test', text)
  end)

  it("writes names that are not Lua identifiers so that Lua reads them unchanged", function()
    local built = recording()
    built.events[1].name, built.events[2].name = '"]] os.exit(9) --\n', HOSTILE
    local path = spill(built:file(features_of(built)), "x;\n'y")
    local text, script = written(path)
    assert.is_nil(text:find("[\0-\9\11-\31\127-\255]"))
    local result = perfl(script, "-i", path)
    assert.equal(0, result.code, result.err)
    assert.equal(11, #lines_of(result.out))
  end)

  it("writes scripts without luacheck warnings", function()
    if not run.have "luacheck" then pending("luacheck is not installed") end
    local paths = { spill((whole())) }
    if not fixtures.missing then
      paths[2] = fixtures.path "perfparser/probe.data.file"
      paths[3] = fixtures.path "quipper/perf.data.ctx_switch_namespaces-4.14"
    end
    for _, path in ipairs(paths) do
      local _, script = written(path)
      local result = run { "luacheck", "-q", "--std", "lua54", script }
      assert.equal(0, result.code, path .. ": " .. result.out)
    end
  end)
end)
