-- perfl redact: no text of a recording is left unless a rule keeps it, and the rest is as it was.

local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local perfl_section = require "perfev.perfdata.perfl_section"
local run = require "spec.support.run"

local MS, MARK = 1000000, "SECRET"
local USER = 2 -- PERF_RECORD_MISC_USER
local ATTR_SIZE = 112 -- PERF_ATTR_SIZE_VER5, which every perf of these days reads
local BUILD_IDS, HOSTNAME, OSRELEASE, VERSION, ARCH, NRCPUS, CPUDESC, CPUID = 2, 3, 4, 5, 6, 7, 8, 9 -- sections
local CMDLINE, EVENT_DESC, TOPOLOGY, PMUS, GROUPS, CACHE, BPF_INFO, PMU_CAPS = 11, 12, 13, 16, 17, 20, 25, 31
local TRACING_DATA, UNKNOWN, OF_OTHERS, LEAST = 1, 77, 200, 10000

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- ---- a recording with secrets ----

local planted = 0

-- A new text with the mark: 11 bytes, for names of tasks, too.
local function secret()
  planted = planted + 1
  return ("%s%05d"):format(MARK, planted)
end

local function secret_word()
  planted = planted + 1
  return (string.unpack("=i8", ("%s%02d"):format(MARK, planted % 100)))
end

local COMMON = [[
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

]]

local HEADER_PAGE = [[
	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: int overwrite;	offset:8;	size:1;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:1;
]]

local TASK, PROBE = 300, 301 -- numbers of tracepoints
local formats = {
  "name: task_event\nID: 300\nformat:\n" .. COMMON .. [[
	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:__data_loc char[] filename;	offset:28;	size:4;	signed:0;
	field:__rel_loc char[] path;	offset:32;	size:4;	signed:0;
	field:__u8 address[12];	offset:36;	size:12;	signed:0;
	field:unsigned long args[2];	offset:48;	size:16;	signed:0;
	field:__data_loc u8[] blob;	offset:64;	size:4;	signed:0;
	field:char tail[];	offset:72;	size:0;	signed:0;

print fmt: "prev_pid=%d %s", REC->prev_pid, __get_str(filename)
]],
  "name: p_SECRETname\nID: 301\nformat:\n" .. COMMON .. [[
	field:unsigned long __probe_ip;	offset:8;	size:8;	signed:0;
	field:u64 SECRETvariable;	offset:16;	size:8;	signed:0;
	field:__data_loc char[] SECRETtext;	offset:24;	size:4;	signed:1;

print fmt: "(%lx) SECRETvariable=0x%Lx SECRETtext=\"%s\"", REC->__probe_ip, REC->SECRETvariable, __get_str(SECRETtext)
]],
}

-- The payload of task_event: fixed part of 72 bytes, its dynamic fields in the wrong order, bytes of no field between.
local function task_payload(comm, pid, filename)
  local path, blob = secret() .. "/x\0", secret()
  local at_path, at_name = 72 + 16, 72 + 16 + #path
  local at_blob = at_name + #filename + 1
  local fixed = string.pack("=I2I1I1i4", TASK, 0, 0, pid) .. comm .. ("\0"):rep(16 - #comm)
    .. string.pack("=i4I4I4", pid, at_name | #filename + 1 << 16, at_path - 36 | #path << 16)
    .. ("%-12s"):format(secret()) .. string.pack("=i8i8I4", 41, 42, at_blob | #blob << 16) .. MARK:sub(1, 4)
  return fixed .. ("%-16s"):format(secret()) .. path .. filename .. "\0" .. blob
end

local function probe_payload(value)
  local text = secret() .. "\0"
  return string.pack("=I2I1I1i4i8i8I4", PROBE, 0, 0, 1, 0x401000, value, 28 | #text << 16) .. text
end

local BITS = { "ip", "tid", "time", "cpu", "period", "identifier" }

local function attr(t, ...)
  t.sample_type, t.sample_id_all = { ... }, true
  table.move(BITS, 1, #BITS, #t.sample_type + 1, t.sample_type)
  return t
end

local CLOCK, TASKS, PROBES, STACKS, RAW = 11, 12, 13, 14, 15 -- ids of events

local function new_builder()
  local events = {
    { ids = { CLOCK }, name = "cpu-clock:u", attr = attr({ type = 1, comm = true, task = true }, "callchain") },
    { ids = { TASKS }, name = "work:task_event", attr = attr({ type = 2, config = TASK }, "raw") },
    { ids = { PROBES }, name = "SECRETgroup:p_SECRETname", attr = attr({ type = 2, config = PROBE }, "raw") },
    { ids = { STACKS }, name = "SECRETevent", attr = attr({ type = 1, config = 2, sample_regs_user = 7,
      sample_regs_intr = 3, sample_stack_user = 64 }, "regs_user", "regs_intr", "stack_user", "branch_stack") },
    { ids = { RAW }, name = "bpf-output", attr = attr({ type = 1, config = 10 }, "raw") },
  }
  for _, event in ipairs(events) do event.size = ATTR_SIZE end
  return perfdata.new { events = events }
end

-- Adds a round of records at a time. n: of the round.
local function add_round(b, n)
  local time, pid = n * 100, 1000 + n
  local function at(id)
    time = time + 1
    return { pid = pid, tid = pid, time = time * MS, cpu = 0, identifier = id or CLOCK }
  end
  local function other(t)
    t.pid, t.tid, t.sample_id = t.pid or pid, t.tid or pid, at()
    b:add(t)
  end
  local function sample(id, t)
    for name, value in pairs(at(id)) do t[name] = value end
    t.type, t.ip, t.period = "sample", 0x401000 + n, 1
    b:add(t)
  end
  local comm, file = secret(), "/bin/" .. secret()
  other { type = "comm", comm = comm }
  other { type = "mmap", addr = 0x400000, len = 0x2000, misc = USER, filename = file }
  other { type = "mmap2", addr = 0x500000, len = 0x1000, misc = USER, ino = 7, filename = "/lib/" .. secret() }
  other { type = "mmap2", addr = 0x600000, len = 0x1000, misc = USER, filename = "[" .. secret() .. "]" }
  other { type = "ksymbol", addr = 0x7000 + n, len = 16, name = secret() }
  other { type = "bpf_event", bpf_type = 1, id = n, tag = secret():sub(1, 6) .. "\1\2" }
  other { type = "cgroup", id = n, path = "/" .. secret() }
  other { type = "text_poke", addr = 1, old_bytes = secret(), new_bytes = secret() }
  other { number = 50, raw = secret() .. "     " } -- of a newer kernel
  sample(CLOCK, { callchain = { -128, -0x7f000000, -512, 0x401000, 0x401010, secret_word() } })
  sample(TASKS, { raw = task_payload(comm, pid, file) })
  sample(PROBES, { raw = probe_payload(n) })
  sample(STACKS, {
    regs_user = { abi = 2, [0] = secret_word(), secret_word(), 3 }, regs_intr = { abi = 2, [0] = secret_word(), 1 },
    stack_user = secret() .. secret(), branch_stack = { { from = 0x401000, to = 0x401010 } },
  })
  sample(RAW, { raw = secret() })
  b:user(200, secret() .. "     ") -- of another tool
  b:user(67, string.pack("=i4", -1) .. ("\1"):rep(20) .. "\20\0\0\0" .. ("/build/%s"):format(secret())
    .. ("\0"):rep(46))
  b:round()
end

-- A section of strings: their number, then each.
local function strings(b, ...)
  local out = { b:pack("I4", select("#", ...)) }
  for _, text in ipairs { ... } do out[#out + 1] = b:string(text) end
  return table.concat(out)
end

local names = ":file %s /bin/%s\n1000 20 %s\n:memory 7 /tmp/%s.map\n7000 8 %s\n:kernel\nff00 8 %s\t[%s]\n"
  .. ":lines - /bin/%s\n1000r\t%s\t/src/%s.c\t7\t%s\t/src/%s.h\t8\n%s\n"
  .. ":jit 7\n00000000000000ff 7000 8 %s\n"

local function features_of(b)
  local texts, words = { ("a"):rep(40) }, {}
  for i = 2, 14 do texts[i] = secret() end
  for i = 1, 50 do words[i] = "--password=" .. secret() end
  local own = b:string(secret()) .. "exclude_pid 4711\nhidden 3\nscript " .. secret() .. "\n"
  local version = perfl_section.with_names(own, false, names:format(table.unpack(texts)))
  return {
    [TRACING_DATA] = b:tracing_data("work", formats, { kallsyms = "ffff T " .. secret() .. "\n",
      printk = ('0xffff0000 : "%s"\n'):format(secret()), header_page = HEADER_PAGE .. "\t# " .. secret(),
      cmdlines = ("1001 %s\n%s\n"):format(secret(), secret()) }),
    [BUILD_IDS] = b:pack("I4I2I2i4", 0, USER, 100, -1) .. ("\1"):rep(20) .. "\0\0\0\0"
      .. ("/bin/" .. secret() .. ("\0"):rep(48)):sub(1, 64),
    [HOSTNAME] = b:string(secret()), [OSRELEASE] = b:string(secret()), [VERSION] = version,
    [ARCH] = b:string "x86_64", [NRCPUS] = b:pack("I4I4", 1, 1), [CPUDESC] = b:string(secret()),
    [CPUID] = b:string(secret()), [CMDLINE] = strings(b, table.unpack(words)), [EVENT_DESC] = b:event_desc(),
    [TOPOLOGY] = strings(b, "0-1" .. secret()) .. strings(b, "0") .. b:pack("i4i4", 0, 0),
    [PMUS] = b:pack("I4I4", 1, 1) .. b:string(secret()),
    [GROUPS] = b:pack("I4", 1) .. b:string(secret()) .. b:pack("I4I4", 0, 2),
    [CACHE] = b:pack("I4I4I4I4I4I4", 1, 1, 1, 64, 64, 8) .. b:string(secret()) .. b:string "32K" .. b:string "0",
    [BPF_INFO] = secret(), [UNKNOWN] = secret(), [OF_OTHERS] = secret(),
    [PMU_CAPS] = b:pack("I4I4", 1, 1) .. b:string(secret()) .. b:string(secret()) .. b:string(secret()),
  }
end

local function build()
  planted = 0
  local b, n = new_builder(), 0
  local features = features_of(b)
  b:user(73, b:pack("i8i8", 1, 1001) .. secret() .. ("\0"):rep(5))
  while planted < LEAST do
    n = n + 1
    add_round(b, n)
  end
  return b, features
end

-- The compressed names that a recording keeps.
local function names_in(path)
  local rec <close> = assert(perfev.open(path))
  return assert(perfl_section.names(rec:section "version", rec.facts.big))
end

local function count_marks(bytes)
  local n = 0
  for _ in bytes:gmatch(MARK) do n = n + 1 end
  return n
end

local made
local function recording()
  if not made then
    local b, features = build()
    made = run.write_file(dir .. "/plain.data", b:file(features))
  end
  return made
end

-- ---- running ----

local redacted -- without rules

local function redact(from, rules, ...)
  local to, words = dir .. "/new.data", { run.perfl, "redact", "-o", dir .. "/new.data", ... }
  os.remove(to)
  if rules then
    words[#words + 1], words[#words + 2] = "--rules", run.write_file(dir .. "/rules.lua", rules)
  end
  words[#words + 1] = from
  local result = run(words)
  assert.equal(0, result.code, result.err)
  return to, result.err
end

local function redacted_recording()
  if not redacted then
    redacted = dir .. "/redacted.data"
    os.rename(redact(recording()), redacted)
  end
  return redacted
end

local function report(path)
  local result = run { run.perfl, "report", "-j", path }
  assert.equal(0, result.code, result.err)
  return json.decode(result.out)
end

-- The records of these types as tables, in the order of time.
local function dump(path, types)
  local result, list = run { run.perfl, "dump", "-j", "-t", types, path }, {}
  assert.equal(0, result.code, result.err)
  for line in result.out:gmatch "[^\n]+" do list[#list + 1] = json.decode(line) end
  return list
end

describe("perfl redact", function()
  it("leaves none of 10,000 secrets in any field, and keeps every sample", function()
    local from = recording()
    assert.is_true(planted >= LEAST and count_marks(run.slurp(from)) >= LEAST)
    local to, said = redact(from)
    assert.equal(0, count_marks(run.slurp(to)))
    assert.equal(13, count_marks(names_in(from)))
    assert.equal(":file 0000000000000000000000000000000000000002 /file-2\n1000 20 function-1\n:memory 7 /file-3\n"
      .. "7000 8 function-2\n:kernel\nff00 8 function-3\t[file-4]\n:lines - /file-5\n"
      .. "1000r\tfunction-4\t/file-6\t7\tfunction-5\t/file-7\t8\n:jit 7\n00000000000000ff 7000 8 function-6\n",
      names_in(to))
    local before, after = report(from), report(to)
    assert.equal(before.samples, after.samples)
    for i, event in ipairs(before.events) do
      assert.same({ event.samples, event.periods, event.ids }, { after.events[i].samples, after.events[i].periods,
        after.events[i].ids })
    end
    for _, name in ipairs { "sample", "mmap", "mmap2", "comm", "ksymbol", "bpf_event", "cgroup", "text_poke",
                            "build_id" } do
      assert.equal(before.records[name], after.records[name], name)
    end
    assert.is_nil(after.records.unknown) -- records of another tool and of a newer kernel
    assert.matches("^perfl: copied [%d,]+ of [%d,]+ records %([%d,]+ samples%) to ", said)
  end)

  it("writes what perf reads, with the same number of samples and without a secret", function()
    if not run.have "perf" then pending "perf is not installed" end
    local to = redacted_recording()
    local function perf(words)
      local result
      for _ = 1, 3 do -- perf 6.1 aborts now and then
        result = run(("perf %s -i %s"):format(words, run.quote(to)))
        if result.code == 0 then return result.out end
      end
      error(result.err)
    end
    local total = report(recording()).samples
    assert.is_truthy(perf("report --stats"):find("\n +SAMPLE events: +" .. total .. " "))
    local said = perf "script"
    assert.equal(0, count_marks(said))
    assert.is_truthy(said:find('work:task_event: prev_pid=1001 text%-%d+\n'))
    assert.is_truthy(said:find('event_1: %(401000%) arg1=0x1 arg2="text%-%d+"\n'))
  end)

  it("leaves none in compressed recordings and in streams", function()
    local packed, from = dir .. "/packed.data", recording()
    assert.equal(0, run({ run.perfl, "cut", "-q", "-z", "-o", packed, from }).code)
    assert.equal(0, count_marks(run.slurp((redact(packed)))))
    redact(packed, nil, "-z")
    assert.equal(0, run({ run.perfl, "cut", "-q", "-o", dir .. "/again.data", dir .. "/new.data" }).code)
    assert.equal(0, count_marks(run.slurp(dir .. "/again.data")))
    assert.equal(report(from).samples, report(dir .. "/again.data").samples)
    local b, features = build()
    local result = run({ run.perfl, "redact", "-q", "-o", "-", "-" }, { stdin = b:pipe(features) })
    assert.equal(0, result.code, result.err)
    assert.equal(0, count_marks(result.out))
    assert.equal(report(from).samples, report(run.write_file(dir .. "/stream.data", result.out)).samples)
  end)

  for _, system in ipairs { "user_events", "user_events_multi", "synthetic" } do
    it("renames the events of " .. system .. ", and their fields", function()
      local event = { ids = { 1 }, name = system .. ":SECRETname.0", attr = attr({ type = 2, config = TASK }, "raw") }
      event.size = ATTR_SIZE
      local b = perfdata.new { events = { event } }
      b:add { type = "sample", ip = 1, pid = 1, tid = 1, time = MS, cpu = 0, period = 1, identifier = 1,
              raw = string.pack("=I2I1I1i4i8", TASK, 0, 0, 1, 42) }
      b:round()
      local format = "name: SECRETname.0\nID: 300\nformat:\n" .. COMMON
        .. '\tfield:u64 SECRETfield;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: "%llu", REC->SECRETfield\n'
      local to = redact(run.write_file(dir .. "/user.data", b:file {
        [TRACING_DATA] = b:tracing_data(system, { format }), [EVENT_DESC] = b:event_desc() }))
      assert.equal(0, count_marks(run.slurp(to)))
      assert.same({ "event_1", 42 }, { report(to).events[1].name, dump(to, "sample")[1].args.arg1 })
    end)
  end

  it("gives a text the same replacement in all records, payloads and sections", function()
    local to = redacted_recording()
    local comms, maps, samples = dump(to, "comm"), dump(to, "mmap"), dump(to, "sample")
    local of_task = {}
    for _, r in ipairs(samples) do
      if r.event == "work:task_event" then of_task[#of_task + 1] = r.args end
    end
    assert.equal(#comms, #of_task)
    local seen = {}
    for i, r in ipairs(comms) do
      assert.matches("^comm%-%d+$", r.comm)
      assert.matches("^/file%-%d+$", maps[i].filename)
      assert.is_nil(seen[r.comm])
      seen[r.comm] = true
      assert.equal(r.comm, of_task[i].prev_comm)
      assert.equal(1000 + i, of_task[i].prev_pid)
      assert.same({ 0, 0 }, of_task[i].args)
      assert.matches("^text%-%d+$", of_task[i].filename)
      assert.matches("^text%-%d+$", of_task[i].path)
    end
    local names_of = {}
    for i, event in ipairs(report(to).events) do names_of[i] = event.name end
    assert.same({ "cpu-clock:u", "work:task_event", "event_1", "event_2", "bpf-output" }, names_of)
    local header = report(to).header
    assert.equal("x86_64", header.arch)
    assert.matches("^host%-1$", header.hostname)
  end)

  it("keeps the numbers of samples: addresses, call chains, branches, times", function()
    local before, after = dump(recording(), "sample"), dump(redacted_recording(), "sample")
    assert.equal(#before, #after)
    for i, r in ipairs(before) do
      local chain = after[i].callchain
      if r.callchain then
        assert.same({ { "0xffffffff81000000" }, { "0x401000", "0x401010", "0x0" } }, { chain.kernel, chain.user })
      end
      for _, name in ipairs { "ip", "pid", "tid", "time", "cpu", "period", "branch_stack" } do
        assert.same(r[name], after[i][name], name)
      end
      if r.stack_user then assert.equal("", after[i].stack_user) end
    end
  end)

  it("copies the records that rules of true keep byte by byte", function()
    local rules = {}
    for kind in ("comm file symbol cgroup event payload build_id raw stack registers"):gmatch "%S+" do
      rules[#rules + 1] = kind .. " = true"
    end
    local function lines_of(path)
      local list = {}
      for line in run({ run.perfl, "dump", "--raw", "-t", "sample,comm,mmap,mmap2,ksymbol,cgroup,text_poke", path }).out
        :gmatch "[^\n]+" do
        -- the order and the gaps of dynamic fields may differ
        if not line:find "work:task_event" then list[#list + 1] = line:gsub("^ *%S+", "") end
      end
      return list
    end
    local from = recording()
    local wanted = lines_of(from)
    assert.is_true(#wanted > 1000)
    assert.same(wanted, lines_of((redact(from, ("return { %s }"):format(table.concat(rules, ", "))))))
  end)

  it("calls a rule once for each text, and removes a text for false", function()
    local to = redact(recording(), [[
      local n = 0
      return {
        comm = function(name)
          n = n + 1
          return ("%d-%s"):format(n, name:lower())
        end,
        file = false, hostname = function() return "box" end, raw = function(bytes) return bytes:lower() end,
      }]])
    assert.equal(0, count_marks(run.slurp(to)))
    local comms = dump(to, "comm")
    assert.matches("^%d+%-secret%d+$", comms[1].comm)
    for _, r in ipairs(dump(to, "sample")) do
      if r.event == "work:task_event" then assert.matches("^%d+%-secret%d+$", r.args.prev_comm) end
    end
    for _, r in ipairs(dump(to, "mmap")) do assert.equal("", r.filename) end
    assert.equal("box", report(to).header.hostname)
    assert.truthy(run.slurp(to):find("secret", 1, true))
  end)

  it("shortens names of tasks and texts of a fixed length", function()
    local to = redact(recording(), "return { comm = function(name) return ('x'):rep(40) end }")
    assert.equal(("x"):rep(15), dump(to, "comm")[1].comm)
    for _, r in ipairs(dump(to, "sample")) do
      if r.event == "work:task_event" then assert.equal(("x"):rep(15), r.args.prev_comm) end
    end
  end)

  it("shortens names of files that a rule returns, in records and sections", function()
    local to = redact(recording(), "return { file = function() return '/' .. ('y'):rep(70000) end }")
    local path = "/" .. ("y"):rep(4094)
    assert.equal(path, dump(to, "mmap")[1].filename)
    local rec <close> = assert(perfev.open(to))
    assert.equal(path, rec.header.build_ids[1].filename)
  end)

  it("keeps a payload within a record if a rule returns a long text", function()
    local to = redact(recording(), "return { payload = function(text) return text:lower():rep(9000) end }")
    local n = 0
    for _, r in ipairs(dump(to, "sample")) do
      if r.event == "work:task_event" then
        assert.matches("^/bin/secret%d+$", r.args.filename)
        n = n + 1
      end
    end
    assert.is_true(n > 100)
  end)

  it("keeps the lines for a replay, and names the rest by the rules", function()
    local to = redact(recording(), "return { symbol = function(name) return 'f' .. #name end, build_id = true }")
    local bytes = run.slurp(to)
    assert.truthy(bytes:find("exclude_pid 4711\nhidden 3\nnames ", 1, true))
    local found = run { run.perfl, "-i", to, "--inline", "-e", "event { 'cpu-clock:u', sample = function() end }" }
    assert.equal(0, found.code, found.err)
  end)
end)

describe("the rules of perfl redact", function()
  local function refused(rules, wanted)
    local path = run.write_file(dir .. "/bad.lua", rules)
    local kept = run.write_file(dir .. "/kept.data", "earlier")
    local result = run { run.perfl, "redact", "--rules", path, "-o", kept, recording() }
    assert.equal(1, result.code)
    assert.matches(wanted, result.err)
    assert.matches("bad%.lua", result.err)
    assert.matches("\n *try: %S", result.err)
    assert.equal("earlier", run.slurp(kept))
  end

  it("are refused with the file and the reason", function()
    refused("return { comm = }", "bad%.lua:1: unexpected symbol near '}'")
    refused("local x = nil\nx.y = 1", "bad%.lua:2: attempt to index a nil value")
    refused("return { com = true }", "unknown kind 'com' %(did you mean 'comm'%?%)")
    refused("return 7", "the file returns 7, not a table")
    refused("comm = true", "the file returns nothing, not a table")
    refused("return { comm = 'x' }", "comm is x, not a function, true or false")
    refused("return { registers = function() end }", "registers is a function, not true or false")
    refused("return { comm = function() return 7 end }", "comm%('SECRET%d+'%) returned 7, not a string or false")
    refused("return { file = function() end }", "file%('/bin/SECRET%d+'%) returned nothing, not a string or false")
    refused("return { payload = function(text) return text.x.y end }", "payload%('.*'%) failed: .*bad%.lua:1: ")
    refused("return { build_id = function() return 'xyz' end }", "returned 'xyz', not hexadecimal digits")
  end)

  it("are named if they cannot be read, as is a missing output", function()
    local result = run { run.perfl, "redact", "--rules", dir .. "/none.lua", "-o", dir .. "/x", recording() }
    assert.equal(1, result.code)
    assert.matches("the rules .*none%.lua: No such file or directory\n  try: %-%-rules FILE%.lua", result.err)
    result = run { run.perfl, "redact", recording() }
    assert.equal(2, result.code)
    assert.matches("no name for the new recording\n  try: perfl redact .*plain%.data %-o NEW", result.err)
  end)
end)
