-- perfl's scripts, without perf events: their help texts, their declarations, and the table of system calls.

local run = require "spec.support.run"
local syscalls = require "perfev.tracepoint.syscalls"

local function scripts_in(dir)
  local names = {}
  for path in run.capture("ls " .. dir .. "/*.lua"):gmatch("[^\n]+") do
    names[#names + 1] = path:match("([^/]+)%.lua$")
  end
  return names
end

local function header_of(text)
  local lines = {}
  for line in text:gmatch("([^\n]*)\n") do
    local comment = line:match("^%-%- (.+)$")
    if not comment then break end
    lines[#lines + 1] = comment
  end
  return lines
end

local function lines_of(text)
  return select(2, text:gsub("\n", "\n"))
end

local function describe_script(name, path, least, most, run_as)
  it(name .. " begins with its purpose and its usage", function()
    local text = assert(run.slurp(path))
    local header = header_of(text)
    assert.is_true(#header >= 2, "its first two lines are to be comments")
    assert.equal(name, header[1]:match("^([%w_]+): %l"))
    local found = false
    for _, line in ipairs(header) do
      found = found or line:find("perfl ", 1, true) and line:find(run_as, 1, true)
        or line:find("lua5.4 " .. run_as, 1, true)
      assert(#line <= 80 or run_as:find "/" or not line:find "^perfl ", line) -- to be copied from --help
    end
    assert.truthy(found, "no line says: perfl " .. run_as)
    local length = lines_of(text)
    assert.is_true(length >= least and length <= most, length .. " lines")
  end)

  it(name .. " shows this header in --help", function()
    local r = run { run.perfl, run_as, "--help" }
    assert.equal("", r.err)
    assert.equal(0, r.code)
    assert.truthy(r.out:find("\n\n" .. name .. ": ", 1, true))
    for line in r.out:gmatch("[^\n]+") do
      assert.is_true(#line <= 80 or line:find("^   {") ~= nil, line)
      assert(not line:find "^ %S", line) -- a line of the text that was too wide, broken once more
    end
  end)
end

describe("a script called by name:", function()
  for _, name in ipairs(scripts_in "scripts") do
    describe_script(name, "scripts/" .. name .. ".lua", 10, 80, name)
  end

  local declared = {
    syscount = { "--per-process", "--per-call", "--top N" },
    sched = { "MODE", "--per FIELD" },
    syslat = { "--failed", "--top N", "--per KEY", "--least TIME", "--interval TIME", "-f FORMAT" },
    runqlat = { "--per KEY", "--unit UNIT", "--least TIME", "--interval TIME", "-f FORMAT" },
    cpudist = { "--off", "--per KEY", "--unit UNIT", "--least TIME", "--interval TIME", "-f FORMAT" },
    biolatency = { "--disks", "--flags", "--queued", "--unit UNIT", "--per KEY", "--least TIME", "--interval TIME" },
    biosnoop = { "--queued" },
    softirqs = { "--per KEY", "--least TIME", "--interval TIME", "-f FORMAT" },
    hardirqs = { "--per KEY", "--least TIME", "--interval TIME", "-f FORMAT" },
    locks = { "--top N" },
    strace = { "--trace CALLS", "--syscall-times", "--summary-only", "--decode-fds", "--failed-only" },
    ulocks = { "--top N", "--call-graph HOW" },
    funclatency = { "FUNCTION", "--per KEY", "--unit UNIT", "--least TIME", "--interval TIME", "-f FORMAT" },
    killsnoop = { "--signal N", "--failed" },
    opensnoop = { "--failed" },
    statsnoop = { "--failed" },
    cswlog = {},
    execsnoop = { "--ends" },
    procmon = { "KIND" },
    tpoint = { "EVENT", "--filter CONDITION" },
    tcplife = { "--port N" },
    tcpconnect = { "--family 4|6", "--port N" },
    funccount = { "EVENT", "--top N", "--interval TIME" },
    memleak = { "--least AGE", "--top N", "--library FILE", "-f FORMAT", "--call-graph HOW" },
    growth = { "--anonymous", "--top N", "-f FORMAT", "--call-graph HOW" },
    kmem = { "--top N" },
    drsnoop = {},
    cachestat = { "--interval TIME" },
    profile = { "-e EVENT", "-F HZ", "-f FORMAT", "--user", "--kernel", "--call-graph HOW" },
    latency = { "START", "STOP", "--by FIELDS", "--per FIELD", "-f FORMAT", "--slot TIME", "--histogram",
      "--least TIME", "--interval TIME" },
    slow = { "FUNCTION|START", "STOP", "--slowest SHARE", "--quantile Q", "--over TIME", "--key FIELD", "--with PARTS",
      "-F HZ", "--call-graph HOW", "-f FORMAT" },
    timeline = { "--mark EVENT", "--irq" },
    explore = { "EVENT", "-F HZ", "--off-cpu", "--idle", "--max-samples N", "--user", "--kernel" },
    offcputime = { "--least TIME", "-f FORMAT", "--user", "--kernel", "--call-graph HOW" },
    faultstacks = { "--major", "--minor", "-f FORMAT", "--user", "--kernel" },
    watch = { "VARIABLE", "--access KIND", "--each", "-f FORMAT" },
    wakeuptime = { "--filter CONDITION", "--least TIME", "-f FORMAT", "--user", "--kernel" },
    offwaketime = { "--filter CONDITION", "--least TIME", "-f FORMAT", "--user", "--kernel" },
    biostacks = { "--time", "--filter CONDITION", "-f FORMAT" },
    annotate = { "FUNCTION", "-e EVENT", "-F HZ", "-f FORMAT", "--asm" },
    top = { "-e EVENT", "-F HZ", "-I TIME", "--idle" },
    diff = { "BEFORE", "AFTER", "--format FORMAT", "--differ-by WHAT", "--absolute", "--top N", "--unit WORD" },
  }
  for name, options in pairs(declared) do
    it(name .. " declares its options", function()
      local help = run({ run.perfl, name, "--help" }).out
      for _, option in ipairs(options) do assert.truthy(help:find(option, 1, true), option) end
      local r = run { run.perfl, name, "--no-such-option", "--", "true" }
      assert.equal(2, r.code)
      assert.truthy(r.err:find(name .. " has", 1, true), r.err)
    end)
  end

  it("procmon accepts its kinds and refuses others", function()
    local r = run { run.perfl, "procmon", "forks", "--", "true" }
    assert.equal(2, r.code)
    assert.truthy(r.err:find("must be one of", 1, true), r.err)
  end)

  it("tpoint requires an event", function()
    local r = run { run.perfl, "tpoint", "--", "true" }
    assert.equal(2, r.code)
    assert.truthy(r.err:find("EVENT", 1, true), r.err)
  end)
end)

describe("an example:", function()
  local names = scripts_in "scripts/examples"
  for _, name in ipairs(names) do
    describe_script(name, "scripts/examples/" .. name .. ".lua", 5, 40,
      "scripts/examples/" .. name .. ".lua")
  end

  it("exists for every callback", function()
    local there = {}
    for _, name in ipairs(names) do there[name] = true end
    for callback in ("sample comm mmap fork exit switch lost throttle read ksymbol bpf namespaces "
      .. "cgroup text_poke aux itrace_start aux_output_hw_id callchain_deferred record every "
      .. "signal"):gmatch("%S+") do
      assert.is_true(there[callback], callback)
      local text = assert(run.slurp("scripts/examples/" .. callback .. ".lua"))
      assert.truthy(text:find("%f[%w_]" .. callback .. " = function")
        or text:find("perfev." .. callback .. "(", 1, true), callback)
    end
  end)
end)

describe("scripts", function()
  it("pass luacheck", function()
    if not run.have "luacheck" then return pending("no luacheck here") end
    local r = run { "luacheck", "-q", "--no-color", "scripts", "src/gen/syscall_numbers.lua",
      "lua/perfev/tracepoint/syscalls.lua", "lua/perfev/tracepoint/syscall_numbers.lua" }
    assert.equal(0, r.code, r.out)
  end)
end)

describe("the names of system calls", function()
  it("match each machine", function()
    assert.equal("read", syscalls.of "x86_64"[0])
    assert.equal("perf_event_open", syscalls.of "x86_64"[298])
    assert.equal("uprobe", syscalls.of "x86_64"[336])
    assert.equal("exit", syscalls.of "i386"[1])
    assert.equal("perf_event_open", syscalls.of "i386"[336])
    assert.equal("read", syscalls.of "generic"[63])
    assert.equal("perf_event_open", syscalls.of "generic"[241])
    assert.equal("riscv_flush_icache", syscalls.of "generic"[259])
    assert.same({}, syscalls.of "pdp11")
  end)

  it("are the same on all machines from 424 on", function()
    local x86, generic = syscalls.of "x86_64", syscalls.of "generic"
    for number, name in pairs(generic) do
      if number >= 424 then assert.equal(name, x86[number]) end
    end
    for number, name in pairs(syscalls.of "i386") do
      if number >= 424 then assert.equal(name, x86[number]) end
    end
    assert.equal("file_setattr", x86[469])
  end)

  it("occur once each", function()
    for _, machine in ipairs { "x86_64", "i386", "generic" } do
      local seen = {}
      for number, name in pairs(syscalls.of(machine)) do
        assert.is_nil(seen[name], name)
        assert.equal("integer", math.type(number))
        seen[name] = number
      end
    end
  end)

  it("are replaced by the number if unknown", function()
    assert.equal("syscall_4242", syscalls.name(4242))
    assert.equal("syscall_-1", syscalls.name(-1))
  end)
end)
