-- remedies.lua - follows the advice of each message of spec/support/refusals.lua: a row for each case.
--
-- A row: function(text, case) -> the next message, and the kernel. It takes its values from the message's text, so
-- that a row cannot follow advice that the message does not give. Or a string: the reason why no spec can follow it.

local core = require "perfev.core"
local elf = require "spec.support.elf"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local refusals = require "spec.support.refusals"
local sim = require "perfev.sim"

local ways, NOTHING = refusals.ways, refusals.NOTHING
local on_kernel, open_events, open_counter = ways.on_kernel, ways.open_events, ways.open_counter
local open_on_arm64, release, refuse_opens = ways.open_on_arm64, ways.release, ways.refuse_opens
local open_named, set_status = ways.open_named, ways.set_status
local TASK, clock = 42, "cpu-clock"
local function nothing() end

local ALL_CAPS = "000001ffffffffff"
local LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"

-- ---- ways to follow a remedy ----

-- Returns the pattern's captures in the message; raises if the message does not match the row.
local function said(text, pattern)
  local found = table.pack(text:match(pattern))
  if found[1] == nil then error(("no '%s' in:\n%s"):format(pattern, text), 0) end
  return table.unpack(found, 1, found.n)
end

-- make(the captures of the pattern in the message) -> the function that applies the remedy.
local function take(pattern, make)
  return function(text) return make(said(text, pattern))() end
end

-- Repeats the case with the suggested name.
local function near(make) return take("%(did you mean '([^']+)'%?%)", make) end

-- For advice to omit something, or to use another way.
local function instead(pattern, way) return take(pattern, function() return way end) end

-- Tries several ways in turn.
local function each(...)
  local rows = { ... }
  return function(text, case)
    local outcome, k
    for _, row in ipairs(rows) do
      outcome, k = row(text, case)
      if outcome ~= NOTHING then break end
    end
    return outcome, k
  end
end

-- Repeats the case on a machine that was changed: make(captures) -> change(k).
local function done(pattern, make)
  return function(text, case) return case.run(make(said(text, pattern))) end
end

local function sysctl(name, value)
  return function(k) k.files["/proc/sys/" .. name:gsub("%.", "/")] = value .. "\n" end
end
local by_sysctl = done("sudo sysctl (%S+)=(%-?%d+)", sysctl)

local CAP_NUMBERS = { cap_perfmon = 38, cap_sys_ptrace = 19, cap_syslog = 34 }

-- A copy of perfl with file capabilities, run by an ordinary user.
local by_setcap = done("sudo setcap (%S+)=ep %$%(command %-v perfl%)", function(names)
  local caps = 0
  for name in names:gmatch "[^,]+" do caps = caps | 1 << assert(CAP_NUMBERS[name], name) end
  return function(k)
    set_status(k, ("%016x"):format(caps))
    k.capabilities = caps
    k.privileged = true
  end
end)

local function as_root(k)
  k.uid, k.privileged = 0, true
  set_status(k, ALL_CAPS)
end

-- Runs "perfl list ..." on that machine: it prints something.
local function lists(world, change)
  return take("try: perfl list([^\n]*)", function(rest)
    return on_kernel(world, function()
      local words, written = {}, {}
      for word in rest:gmatch "[^%s']+" do words[#words + 1] = word end
      local out = io.write
      io.write = function(...) written[#written + 1] = table.concat { ... } end -- luacheck: ignore 122
      local ok, code = pcall(require("perfl.verb.list").main, words)
      io.write = out -- luacheck: ignore 122
      if not ok then error(code, 0) end
      if code ~= 0 or #table.concat(written) == 0 then return nil, "perfl list" .. rest .. " found nothing" end
      return true
    end, change)
  end)
end

local function newer(make) return take("Linux (%d+%.%d+) or newer", make) end

-- Stores a recording of two samples of page-faults, a second apart.
local function recording(k)
  local attr = { type = 1, config = 2, sample_type = { "ip", "tid", "time" }, sample_id_all = true }
  local built = perfdata.new { events = { { attr = attr, name = "page-faults" } } }
  for i = 1, 2 do built:add { type = "sample", ip = i, pid = TASK, tid = TASK, time = i * 1000000000 } end
  local SAMPLE_TIME = 21 -- HEADER_SAMPLE_TIME: the first and the last
  k.files["perf.data"] = built:file { [SAMPLE_TIME] = string.pack("=I8I8", 1000000000, 2000000000) }
end

-- Replays that recording from its first record to its last.
local function replaying(opts)
  return on_kernel("vm", function()
    local s = perfev.session(opts)
    s:event { "page-faults", sample = nothing }
    return s:run()
  end, recording)
end

-- ps is not part of perfev: the advice only has to name an existing program.
local PS = "ps(1) is not perfev's; spec/live/errors_spec.lua runs it"

local function libc_with(name)
  return function(k)
    ways.add_programs(k)
    k.files[LIBC] = elf.file { functions = { { name, 0x400010, 8 } }, offset = 0, vaddr = 0x400000, length = 0x100 }
  end
end

-- ---- the rows ----

local rows = {}

rows["Names"] = {
  ["a software event misspelt"] = each(near(open_named), lists "vm"),
  ["a tracepoint misspelt"] = take("try: ([^\n]+)", open_named),
  ["a tracepoint's system misspelt"] = take("try: ([^\n]+)", open_named),
  ["a function where a tracepoint is expected"] = each(lists "vm", take("(uprobe:%S+)", function(text)
    return open_named(text, "vm", libc_with "malloc")
  end)),
  ["a tracepoint's name that would lead elsewhere"] = take("such as (%S+)", open_named),
  ["a hardware event misspelt"] = near(function(name) return open_named(name, "amd") end),
  ["a cache event misspelt"] = near(function(name) return open_named(name, "amd") end),
  ["a PMU misspelt"] = near(function(pmu) return open_named(pmu .. "/event=0x3c/", "intel_hybrid") end),
  ["a PMU's field misspelt"] = near(function(field)
    return open_named(("cpu_core/%s=0x3c/"):format(field), "intel_hybrid")
  end),
  ["a value that a PMU's field cannot hold"] = take("at most (0x%x+)", function(most)
    return open_named(("cpu_core/event=%s/"):format(most), "intel_hybrid")
  end),
  ["a term whose value is not a number"] = take("try: (period=)NUMBER", function(term)
    return open_named(("cpu_core/event=0x3c,%s1000/"):format(term), "intel_hybrid")
  end),
  ["a modifier that there is not"] = take("try: (%l) ", function(letter)
    return open_named("cycles:" .. letter, "amd")
  end),
  ["a brace that is not closed"] = take("try: a (}) after", function(brace)
    return open_named("{cycles,instructions" .. brace, "amd")
  end),
  ["a slash that is not closed"] = instead("try: a slash after the last term",
    open_named("cpu_core/event=0x3c/", "intel_hybrid")),
  ["alternatives that are all missing"] = lists "vm",
  ["an option of an event misspelt"] = near(function(name) return open_events("vm", { clock, [name] = nothing }) end),
  ["a bit of a field misspelt"] = near(function(bit) return open_events("vm", { clock, sample_type = { bit } }) end),
  ["a field beyond its width"] = take("must be 0 to (%d+)", function(most)
    return open_events("vm", { clock, callchain = true, sample_max_stack = tonumber(most) }, nil,
      sysctl("kernel.perf_event_max_stack", most))
  end),
  ["a callback that is not a function"] = instead("sample must be a function",
    open_events("vm", { clock, sample = nothing })),
  ["period and frequency at once"] = each(instead("period or freq",
    open_events("vm", { clock, period = 1000 })), instead("period or freq", open_events("vm", { clock, freq = 99 }))),
  ["an option of a session misspelt"] = near(function(name) return open_events("vm", { clock }, { [name] = "1s" }) end),
  ["an unknown clock"] = take("clock must be one of ([%w_, ]+), not", function(names)
    return on_kernel("vm", function()
      for name in names:gmatch "[%w_]+" do
        local s = perfev.session { tid = TASK, clock = name }
        s:event { clock }
        local ok, why = s:start()
        s:close()
        if not ok then return nil, why end
      end
      return true
    end)
  end),
  ["a signal misspelt"] = near(function(name)
    return on_kernel("vm", function() perfev.session({}):signal(name, nothing) end)
  end),
  ["an option of a counter misspelt"] = near(function(name)
    return open_counter("vm", { "task-clock", [name] = TASK })
  end),
}

rows["Unreadable tracepoints"] = {
  ["no tracefs"] = take("mount %-t tracefs tracefs (/sys/kernel/tracing)\n?$", function(path)
    return on_kernel("vm", function(k)
      assert(k.files[path .. "/events/sched/sched_switch/id"]) -- a file that the mount makes visible
      local s = perfev.session { tid = TASK }
      s:event { "sched:sched_switch" }
      local ok, why = s:start()
      s:close()
      return ok, why
    end)
  end),
  ["tracefs that is root's alone"] = instead("try: as root", open_events("vm", { "sched:sched_switch" })),
  ["an unknown tracepoint number"] = instead("try: its name", open_events("vm", { "sched:sched_switch" })),
  ["an ftrace entry that is not a tracepoint"] = lists "vm",
  ["stacks of user space, of every function of the kernel"] = take("try: (%S+) = true", function(field)
    return open_events("vm", { "ftrace:function", callchain = true, [field] = true }, nil, function(k)
      k:tracepoint("ftrace:function", 1, "unsigned long ip; unsigned long parent_ip")
      refuse_opens(perfev.errno.EINVAL, function(attr) return attr.type == 2 and not attr.exclude_callchain_user end)(k)
    end)
  end),
}

rows["Rights"] = {
  ["the kernel's side, for an ordinary user"] = each(by_setcap, by_sysctl),
  ["a whole CPU, for an ordinary user"] = each(by_setcap, by_sysctl, instead("or: watch a command of your own",
    open_events("unprivileged", { clock }, { tid = 1000 }))),
  ["anything, where the distribution allows nothing"] = each(by_setcap, by_sysctl),
  ["another user's process"] = each(done("as root", function() return as_root end), by_setcap),
  ["a tracepoint by its number, for an ordinary user"] = each(by_setcap, by_sysctl),
  ["samples of a tracepoint that samples cause"] = take("try: perfl stat %-e (%S+)", function(name)
    return on_kernel("vm", function(k)
      k:tracepoint(name, 77, "int vector")
      refuse_opens(perfev.errno.EPERM, function(attr) return attr.type == 2 and attr.sample_period ~= 0 end)(k)
      local c, why = perfev.counter { name, tid = TASK }
      if c then c:close() end
      return c, why
    end)
  end),
  ["namespaces, for an ordinary user"] = by_setcap,
  ["physical addresses, for an ordinary user"] = each(by_setcap, by_sysctl),
  ["a container's seccomp filter"] = "the filter is the container's",
  ["a seccomp filter that returns ENOSYS"] = "the filter is the container's",
  ["a security module"] = "a policy of the system's",
  ["kernel lockdown"] = instead("try: leave that out", open_events("vm", { clock }, nil, function(k)
    k.files["/sys/kernel/security/lockdown"] = "none integrity [confidentiality]\n"
  end)),
  ["a uprobe, with CAP_PERFMON alone"] = "run as root: spec/live/probe_spec.lua does",
  ["a breakpoint in the kernel, with CAP_PERFMON alone"] = "run as root: spec/live/names_spec.lua does",
}

rows["Older kernels"] = {
  ["a flag"] = each(instead("leave it out", open_events(release "5.4", { "dummy" })), newer(function(number)
    return open_events(release(number), { "dummy", text_poke = nothing })
  end)),
  ["a bit of sample_type"] = newer(function(number)
    return open_events(release(number), { clock, sample_type = { "code_page_size" } })
  end),
  ["a bit of read_format"] = each(instead("leave it out", open_counter(release "5.15", { "task-clock" })),
    newer(function(number) return open_counter(release(number), { "task-clock", lost = true }) end)),
  ["a bit of branch_sample_type"] = newer(function(number)
    return open_events(release(number, "amd"), { type = 4, config = 60, sample_period = 1000,
      sample_type = { "branch_stack" }, branch_sample_type = { "any", "counters" } })
  end),
  ["a field beyond the kernel's attr"] = each(instead("leave it out", open_events(release "5.4", { clock })),
    newer(function(number) return open_events(release(number), { clock, config3 = 1 }) end)),
  ["a software event"] = function(text)
    return open_events(release(said(text, "came with Linux (%S+),")), { "cgroup-switches" })()
  end,
  ["a kernel without perf events"] = "another kernel",
}

rows["Missing hardware"] = {
  ["hardware counters, in a virtual machine"] = each(take("try: (%S+) or", open_named),
    take(" or (%S+), which", open_named)),
  ["a PMU of that type"] = take("(%d+) software", function(number)
    return open_events("vm", { type = tonumber(number), config = 0 })
  end),
  ["a counter for this event"] = lists "intel_hybrid",
  ["a software event of that number"] = lists "vm",
  ["a watchpoint that signals, on arm64"] = instead("without sigtrap", open_on_arm64 { type = 5, bp_type = 2,
    bp_addr = 0x1000, bp_len = 4, remove_on_exec = true, sample_period = 1 }),
  ["precision, on arm64"] = each(instead("without :pp", open_on_arm64 { "cycles" }), take("or (:P),", function(word)
    return open_on_arm64 { "cycles" .. word }
  end)),
  ["so much precision"] = take("try: :(p+)", function(letters)
    return open_events("intel_hybrid", { type = 4, config = 0x3c, precise_ip = #letters }, nil,
      function(k) k.types[4] = { max_precise = 2 } end)
  end),
  ["any precision"] = instead("without :p", open_events("amd", { type = 4, config = 0x76 }, nil,
    function(k) k.types[4] = { max_precise = 0 } end)),
  ["an interrupt, to sample with"] = instead("perfev%.counter", open_counter("intel_hybrid",
    { { type = 23, config = 2 }, cpus = "0" })),
  ["an interrupt, which it says with EINVAL"] = instead("perfev%.counter",
    open_counter("vm", { { type = 9 } }, function(k)
      k.types[9] = { no_exclude = true }
      k.files["/sys/bus/event_source/devices/msr/type"] = "9\n"
    end)),
  ["a counter of tasks: the PMU counts for a package"] = instead("%-a, or %-C LIST", open_counter("intel_hybrid",
    { { type = 23, config = 2 }, cpus = "0" })),
  ["breakpoints on kernel addresses, of a task (arm64)"] = instead("%-a, or %-C LIST", open_events("vm", { type = 5,
    bp_type = 2, bp_len = 4, bp_addr = -1 << 32 }, {}, refuse_opens(perfev.errno.EINVAL, function(attr, pid)
      return attr.type == 5 and pid ~= -1
    end))),
  ["a way to leave the kernel out"] = instead("without :u", open_counter("vm", { { type = 9 } }, function(k)
    k.types[9] = { no_exclude = true }
    k.files["/sys/bus/event_source/devices/msr/type"] = "9\n"
  end)),
  ["branch stacks, on a software event"] = instead("clear it", open_events("vm", { clock })),
  ["an AUX area to output to"] = instead("clear it", open_events("vm", { clock })),
  ["an AUX area to sample from"] = instead("leave it out", open_events("vm", { clock })),
  ["a CPU that is offline"] = each(take("try: %-C (%S+)", function(cpus)
    return open_events({ world = "vm", cpus = "0,2" }, { clock }, { cpus = cpus })
  end), take("echo 1 | sudo tee /sys/devices/system/cpu/cpu(%d+)/online", function(cpu)
    return open_events({ world = "vm", cpus = ("0-%d"):format(cpu + 1) }, { clock }, { cpus = "1" })
  end)),
  ["a CPU of that number"] = take("try: %-C (%S+)", function(cpus)
    return open_events("vm", { clock }, { cpus = cpus })
  end),
  ["the PMU, on that CPU"] = take("try: %-C (%S+)", function(cpus)
    return open_events("intel_hybrid", { type = 10, config = 0x3c }, { cpus = cpus },
      refuse_opens(perfev.errno.ENODEV, function(attr, _, cpu) return attr.type == 10 and cpu < 4 end))
  end),
  ["a PMU used by another session"] = instead("without exclusive", open_events("vm", { clock }, nil,
    refuse_opens(perfev.errno.EBUSY, function(attr) return attr.exclusive end))),
  ["a PMU used exclusively by another session"] = "it is another session that would have to end",
}

-- The address of main in the program, as nm prints it.
local function offset_of_main()
  local k = sim.new { world = "vm" }
  ways.add_programs(k)
  return k:with(function()
    local binary = require "perfev.symbol.binary"
    local file = assert(binary.open "/usr/bin/app")
    return binary.symbol(file, "main").offset
  end)
end

local function probing(text) return open_named(text, "vm", ways.add_programs) end

rows["Probes"] = {
  ["a function misspelt"] = near(function(name) return probing("uprobe:/usr/bin/app:" .. name) end),
  ["a function of a program that is stripped"] = instead("FILE:0xOFFSET", function()
    return probing(("uprobe:/usr/bin/bare:0x%x"):format(offset_of_main()))()
  end),
  ["a variable of a program that is stripped"] = "where it is has to be known: its debug symbols, or another build",
  ["an offset outside of the code"] = function(text)
    return probing(("uprobe:%s:0x%x"):format(said(text, "try: nm (%S+)"), offset_of_main()))()
  end,
  ["a file that is not a program"] = instead("not an ELF file", probing "uprobe:/usr/bin/app:main"),
  ["a missing file"] = instead("No such file", probing "uprobe:/usr/bin/app:main"),
  ["a static probe, of a program without"] = take("(uprobe):FILE:SYMBOL", function(kind)
    return probing(kind .. ":/usr/bin/app:main")
  end),
  ["a function of the C library as the kernel's"] = take("try: (%S+)", function(text)
    return open_named(text, "vm", libc_with "main")
  end),
  ["a pattern without a function"] = near(function(pattern) return probing("uprobe:/usr/bin/app:" .. pattern) end),
  ["a source line without code"] = take("try: (%S+) or", function(place)
    return probing("uprobe:/usr/bin/req:" .. place)
  end),
  ["a variable that does not exist"] = near(function(member)
    return ways.on_x86_64(open_events("vm", { "uprobe:/usr/bin/req:handle", args = { "req->" .. member } }, nil,
      function(k)
        ways.add_programs(k)
        k.files["/sys/kernel/tracing/uprobe_events"] = ""
      end))
  end),
  ["a type of an argument"] = near(function(word)
    return open_events("vm", { "uprobe:/usr/bin/app:main", args = { "name:" .. word } }, nil, function(k)
      ways.add_programs(k)
      k.files["/sys/kernel/tracing/uprobe_events"] = ""
    end)
  end),
  ["a kprobe on a kernel without kprobes"] = "another kernel",
}

local function watching(fields, more)
  local spec = { type = 5, bp_type = 2, bp_len = 4, bp_addr = 0x1000 }
  for name, value in pairs(fields) do spec[name] = value end
  return open_events("vm", spec, nil, more)
end

rows["Breakpoints"] = {
  ["of more bytes than there can be"] = take("covers (1, 2, 4 or 8) bytes", function(sizes)
    return open_named(("mem:0x1000/%s:w"):format(sizes:match "%d$"))
  end),
  ["more than there are"] = instead("fewer breakpoints", watching {}),
  ["a length that the processor lacks"] = take("try: take 1, 2, (4) or 8", function(len)
    return watching { bp_len = tonumber(len) }
  end),
  ["not aligned to its length"] = take("try: take (0x%x+)", function(at)
    return watching { bp_addr = tonumber(at) }
  end),
  ["on reading alone"] = each(take("take (%d) %(reads and writes%)", function(kind)
    return watching { bp_type = tonumber(kind) }
  end), take("(%d) %(writes%)", function(kind) return watching { bp_type = tonumber(kind) } end),
    take("or (%d) %(execution%)", function(kind) return watching { bp_type = tonumber(kind), bp_len = 8 } end)),
}

-- cpu-clock with these fields.
local function with(fields, opts)
  local spec = { clock }
  for name, value in pairs(fields) do spec[name] = value end
  return open_events("vm", spec, opts)
end

rows["Conflicting options"] = {
  ["two forms of one value"] = instead("take weight or weight_struct", with { sample_type = { "weight" } }),
  ["a branch stack of no kind of branch"] = take("such as (%l+)", function(kind)
    return open_events("amd", { type = 4, config = 60, sample_period = 1000, sample_type = { "branch_stack" },
      branch_sample_type = { kind } })
  end),
  ["a stack that ends within a word"] = take("take (%d+)", function(size)
    return with { sample_type = { "stack_user" }, sample_stack_user = tonumber(size) }
  end),
  ["a stack longer than a record"] = take("(%d+) is the most", function(size)
    return with { sample_type = { "stack_user" }, sample_stack_user = tonumber(size) }
  end),
  ["registers without a mask"] = instead("set a bit", with { sample_type = { "regs_user" }, sample_regs_user = 1 }),
  ["inherit_thread without inherit"] = take("set (%l+) too", function(flag)
    return with { inherit_thread = true, [flag] = true }
  end),
  ["off at exec and on at exec"] = each(instead("set remove_on_exec or enable_on_exec", with { remove_on_exec = true }),
    instead("set remove_on_exec or enable_on_exec", with { enable_on_exec = true })),
  ["sigtrap that would outlive exec"] = take("set ([%l_]+) too", function(flag)
    return with { sigtrap = true, inherit = false, [flag] = true }
  end),
  ["sigtrap for a whole CPU"] = take("name a (pid)", function(option)
    return with({ sigtrap = true, inherit = false, remove_on_exec = true }, { [option] = TASK })
  end),
  ["a clock that events cannot have"] = each(take("take (%d+) %(CLOCK_MONOTONIC%)", function(number)
    return with { use_clockid = true, clockid = tonumber(number) }
  end), take("or (%d+) %(TAI%)", function(number) return with { use_clockid = true, clockid = tonumber(number) } end)),
  ["a stack deeper than the kernel records"] = each(take("try: sample_max_stack = (%d+)", function(depth)
    return with { callchain = true, sample_max_stack = tonumber(depth) }
  end), by_sysctl),
  ["a frequency above the kernel's limit"] = each(take("try: freq = (%d+)", function(freq)
    return with { freq = tonumber(freq) }
  end), by_sysctl, instead("or a period", with { period = 1000 })),
  ["a frequency above the limit that the kernel has lowered"] = each(take("try: freq = (%d+)", function(freq)
    return with { freq = tonumber(freq) }
  end), by_sysctl),
  ["a period that is negative"] = take("take (%d+) or more", function(period)
    return with { period = tonumber(period) }
  end),
  ["every process on any CPU"] = instead("open one per CPU", on_kernel("vm", function()
    return core.attr_new({ type = 1 }):validate(-1, 0)
  end)),
  ["an invalid CPU number"] = take("or (%-1) for any", function(any)
    return on_kernel("vm", function() return core.attr_new({ type = 1 }):validate(0, tonumber(any)) end)
  end),
  ["counts in inherited samples without the thread"] = take("add (%l+), or clear inherit", function(bit)
    return on_kernel("vm", function()
      return core.attr_new({ type = 1, inherit = true, sample_type = { "read", bit } }):validate(0, -1)
    end)
  end),
  ["a pinned member of a group"] = instead("perfev%.counter, without a group",
    open_counter("vm", { "task-clock", { clock, pinned = true } })),
  ["a group whose reading is too long"] = instead("fewer members of the group",
    ways.open_group("vm", { "task-clock", { clock } })),
}

rows["Processes, users, cgroups"] = {
  ["a missing process"] = PS, ["a thread that has ended"] = PS, ["a zombie"] = PS,
  ["a user without processes"] = PS,
  ["an unknown user"] = take("try: ([^\n]+)", function(user)
    return open_events("vm", { clock }, { uid = user }, function(k)
      ways.add_users(k)
      k.files["/proc/42/status"] = "Name:\tsshd\nUid:\t33\t33\t33\t33\n"
    end)
  end),
  ["a name without processes"] = take("try: ([^\n]+)", function(comm)
    return open_events("vm", { clock }, { comm = comm }, ways.add_users)
  end),
  ["a cgroup misspelt"] = take("try: ([^\n]+)", function(path)
    return open_events("vm", { clock }, { cgroup = path }, ways.add_cgroups)
  end),
  ["a cgroup that would lead elsewhere"] = take("try: ([^\n]+)", function(path)
    return open_events("vm", { clock }, { cgroup = path:gsub("NAME", "nginx") }, ways.add_cgroups)
  end),
  ["a cgroup of a hierarchy that perf events do not know"] = take("try: (%S+)", function(path)
    return open_events("vm", { clock }, { cgroup = path }, function(k)
      k.files["/proc/mounts"] = "cgroup /sys/fs/cgroup/perf_event cgroup rw,perf_event 0 0\n"
      k.files[path .. "/cgroup.procs"] = "1\n"
    end)
  end),
  ["a cgroup without mounted cgroups"] = done("sudo mount %-t cgroup2 none (/sys/fs/cgroup)", function(path)
    return function(k)
      k.files["/proc/mounts"] = ("none %s cgroup2 rw 0 0\n"):format(path)
      k.files[path .. "/cgroup.procs"] = "1\n"
      k.files[path .. "/app/cgroup.procs"] = "42\n"
    end
  end),
  ["a cgroup of a hierarchy that has no controller on"] = done("echo %+(%l+) | sudo tee (%S+)", function(name, path)
    return function(k)
      k.files[path] = name .. "\n"
      k.refuse = nil -- css_populate_dir(): from here on perf events accept the groups
    end
  end),
  ["a descriptor that is not a cgroup"] = instead("cgroup = PATH", open_counter("vm",
    { "page-faults", cgroup = "system.slice/nginx.service", cpus = "0" }, ways.add_cgroups)),
  ["a cgroup on no CPU"] = instead("CPU by CPU", open_events("vm", { clock }, { cgroup = "system.slice", cpus = "0" },
    ways.add_cgroups)),
  ["a cgroup and a process at once"] = each(
    instead("cgroup or pid", open_events("vm", { clock }, { cgroup = "system.slice" }, ways.add_cgroups)),
    instead("cgroup or pid", open_events("vm", { clock }, { pid = 42 }))),
  ["a missing command"] = instead("or its full path", open_events("vm", { clock },
    { command = { "/bin/true" } })),
  ["a command that cannot be executed"] = done("try: chmod %+x", function()
    return function(k) k.exec = nil end
  end),
}

-- prlimit: the soft and the hard limit.
local by_prlimit = done("sudo prlimit %-%-pid %$%$ %-%-nofile=(%d+)", function(number)
  return function(k)
    k.max_files = tonumber(number)
    k.files["/proc/self/limits"] = ("Max open files            %d                  %d                  files\n"):format(
      number, number)
  end
end)

rows["Limits"] = {
  ["descriptors"] = by_prlimit,
  ["descriptors, for an event of our own too"] = by_prlimit,
  ["the descriptors of the whole system"] = "N is what all programs of the machine need",
  ["memory that may be locked"] = take("a smaller ring %(%-m (%w+)%)", function(size)
    return open_events({ world = "vm", mlock = 516 * 1024 }, { clock }, { tid = TASK, buffer = size })
  end),
  ["memory"] = "what else the machine needs it for is not known",
  ["counters, for one that is pinned"] = instead("without pinned", open_counter("vm", { { clock } })),
}

rows["Recordings"] = {
  ["a missing recording"] = take("without %-o it is (perf%.data)", function(path)
    return replaying { input = path }
  end),
  ["a file that is not a recording"] = instead("a file that perf record wrote", replaying { input = "perf.data" }),
  ["a recording and the machine at once"] = instead("without all_cpus", replaying { input = "perf.data" }),
  ["times without a recording"] = each(
    instead("duration", open_events("vm", { clock }, { tid = TASK, duration = "1s" })),
    instead("or input", replaying { input = "perf.data", from = "+1s" })),
  ["threads without a recording"] = instead("input = FILE", replaying { input = "perf.data", jobs = 2 }),
  ["times the wrong way round"] = instead("the other way round",
    replaying { input = "perf.data", from = "25%", to = "75%" }),
  ["recording a recording"] = instead("without record", replaying { input = "perf.data" }),
  ["recording an overwritten ring"] = each(
    instead("record or overwrite", open_events("vm", { clock }, { tid = TASK, overwrite = true })),
    instead("record or overwrite", open_events("vm", { clock }, { tid = TASK, record = "perf.data" }))),
  ["a snapshot as a stream"] = take("try: (record) = FILE", function(option)
    return ways.take_snapshot { [option] = "stall.data" }
  end),
  ["names of no recording"] = take("try: (record) = FILE", function(option)
    return ways.take_snapshot { names = true, [option] = "stall.data" }
  end),
  ["compressing no recording"] = take("try: (record) = FILE", function(option)
    return open_events("vm", { clock }, { tid = TASK, compress = true, [option] = "perf.data" })
  end),
  ["a stream in parts"] = take("try: (record) = FILE", function(option)
    return open_events("vm", { clock }, { tid = TASK, switch_output = "100M", [option] = "perf.data" })
  end),
  ["one file of a recording, and a limit of files"] = take('try: switch_output = "(%w+)"', function(size)
    return open_events("vm", { clock },
      { tid = TASK, record = "perf.data", switch_max_files = 3, switch_output = size })
  end),
  ["recording to a directory"] = take("such as (%S+)", function(path)
    return open_events("vm", { clock }, { tid = TASK, record = path })
  end),
}

local function filtering(text) return open_events("vm", { "sched:sched_switch", filter = text }) end
local by_filter = take("\n  try: ([^\n]+)$", filtering)

rows["Filters"] = {
  ["a field misspelt"] = by_filter, ["a string that is not quoted"] = by_filter,
  ["a number that is quoted"] = by_filter, ["an operator that there is not"] = by_filter,
  ["an operator and a value that there are not"] = by_filter, ["words in the place of operators"] = by_filter,
  ["an operator that strings do not have"] = each(lists "vm", instead("it has ==, != and ~",
    filtering "prev_comm ~ 'a*'")),
  ["a parenthesis that is not closed"] = lists "vm", ["a string without an end"] = lists "vm",
  ["a word in the place of a number"] = lists "vm",
  ["one that looks right, and the kernel refuses"] = take("such as ([^\n]+)$", filtering),
  ["on an event without fields"] = instead("compare in the callback", with { sample = nothing }),
  ["a second one"] = take("joined by (&&)$", function(joint)
    return filtering(("prev_pid == 1 %s prev_prio == 2"):format(joint))
  end),
}

local larger = take("%-m (%d+M)", function(size) return open_events("vm", { clock }, { tid = TASK, buffer = size }) end)

rows["After a run"] = {
  ["records that were lost"] = larger, ["records that came late, and some of unknown events"] = larger,
}

return rows
