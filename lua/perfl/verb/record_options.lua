--- perf record's options that perfl record has, as rows for command_line.add_row, and the others with the reason.
-- Source: perf-record(1) of 6.1.
--
-- A row's `spec` sets options of each event (perfev.event), `side` those of one more event, which has records of other
-- types only. record.lua reads the values of the other rows.

local command_line = require "perfl.command_line"
local core = require "perfev.core"
local declaration = require "perfev.event.declaration"
local parse_units = require "perfev.base.parse_units"
local registers = require "perfev.record.registers"
local resolve = require "perfev.event.resolve"

local M = {}

M.FILE = "perf.data"
local STACK_BYTES, STACK_MAX = 8192, 65528 -- perf record's; sample_stack_user is below 64 KiB and a multiple of 8

-- ---- values ----

-- "max": the kernel's limit, perf_event_max_sample_rate
local function parse_frequency(text)
  local most = text == "max" and core.slurp "/proc/sys/kernel/perf_event_max_sample_rate"
  text = most and most:match("%d+") or text
  local n = text:find("^%d+$") and math.tointeger(tonumber(text))
  if n and n > 0 then return n end
  return nil, ("frequency '%s': expected a whole number above 0, or max"):format(text)
end

local function parse_positive(what)
  return function(text)
    local n = text:find("^%d+$") and math.tointeger(tonumber(text))
    if n and n > 0 then return n end
    return nil, ("%s '%s': expected a whole number above 0"):format(what, text)
  end
end

-- "fp", "fp,defer", "dwarf", "dwarf,16384"
local function parse_call_graph(text)
  if text == "fp,defer" or text == "defer" then return { kind = "defer" } end
  local kind, size = text:match("^(%a+),?(%d*)$")
  if kind == "fp" and size == "" then return { kind = kind } end
  local bytes = size == "" and STACK_BYTES or math.tointeger(tonumber(size))
  if kind == "dwarf" and bytes and bytes > 0 and bytes <= STACK_MAX then
    return { kind = kind, bytes = (bytes + 7) // 8 * 8 }
  end
  return nil, ("call graph '%s': expected fp, fp,defer, dwarf or dwarf,BYTES (up to %d)"):format(text, STACK_MAX)
end

local function parse_level(text)
  local n = math.tointeger(tonumber(text))
  if n and n >= 1 and n <= 22 then return n end
  return nil, ("compression level '%s': expected 1 to 22"):format(text)
end

local function parse_registers(text)
  local list = {}
  for name in text:gmatch("[^,%s]+") do list[#list + 1] = name:lower() end
  local ok, why = pcall(registers.attr, { sample_regs_user = list })
  if ok and list[1] then return list end
  return nil, ("registers '%s': %s"):format(text, ok and "expected names, as in ip,sp" or why)
end

local function parse_branches(text)
  local bits = resolve.branches(text)
  local ok, why = pcall(core.attr_new, { branch_sample_type = bits })
  if ok then return bits end
  return nil, ("branches '%s': %s"):format(text, why)
end

-- "500" (ms) or "10-20,30-40" -> a list of { from, to or nil } in ms
local function parse_delay(text)
  local ranges, at = {}, -1
  for part in (text .. ","):gmatch("([^,]*),") do
    local from, to = part:match("^(%d+)%-?(%d*)$")
    from, to = math.tointeger(tonumber(from)), math.tointeger(tonumber(to))
    local is_single = from and not to and part == text
    if not (from and from > at and (is_single or to and to > from)) then
      return nil, ("delay '%s': expected milliseconds, as in 500, or ranges, as in 10-20,30-40"):format(text)
    end
    ranges[#ranges + 1], at = { from, to }, to or from
  end
  return ranges
end

-- perf's -m is a number of pages, or a size with its unit.
local function parse_pages(text)
  local pages = text:find("^%d+$") and math.tointeger(tonumber(text))
  local bytes = parse_units.buffer(pages and pages <= 1 << 20 and pages * 4096 or text)
  if bytes then return bytes end
  return nil, ("size '%s': expected 1 to 524288 pages, or 4K to 2G, for the ring of each CPU"):format(text)
end

-- ---- options of events ----

local function sampled(...)
  local bits = { ... }
  return function(spec)
    for _, bit in ipairs(bits) do table.insert(spec.extra_sample_type, bit) end
  end
end

local function set(field)
  return function(spec) spec[field] = true end
end

local function set_registers(side)
  return function(spec, list)
    spec["sample_regs_" .. side] = list
    table.insert(spec.extra_sample_type, "regs_" .. side)
  end
end

local function set_branches(spec, bits)
  spec.branch_sample_type = bits
  table.insert(spec.extra_sample_type, "branch_stack")
end

--- The options, in the order of --help.
M.rows = {
  { "-o --output", into = "record", metavar = "FILE",
    help = "write to FILE (default: " .. M.FILE .. "; -: standard output)" },
  { "-e --event", into = "events", metavar = "EVENTS", many = true,
    help = "sample these events, named as for perf record (default: cycles)" },
  { "-F --freq", into = "freq", metavar = "HZ", convert = parse_frequency,
    help = ("take HZ samples a second (default: %d); max: as many as the kernel allows")
      :format(declaration.DEFAULT_FREQ) },
  { "-c --count", into = "period", metavar = "N", convert = parse_positive "period",
    help = "take a sample every N events" },
  { "-g", into = "callchain", help = "record call chains" },
  { "--call-graph", into = "call_graph", metavar = "fp|fp,defer|dwarf[,BYTES]", convert = parse_call_graph,
    help = "the same; defer: take user stacks on return to user mode (6.19); dwarf: record registers and BYTES of "
      .. "stack, and unwind them later" },
  { "--filter", into = "filter", metavar = "FILTER",
    help = "keep only tracepoint events that match, as in 'pid > 1'" },
  { "--all-user", into = "all_user", spec = function(spec) spec.exclude_kernel, spec.exclude_hv = true, true end,
    help = "sample user space only" },
  { "--all-kernel", into = "all_kernel", spec = set "exclude_user", help = "sample the kernel only" },
  { "--user-callchains", into = "user_callchains", spec = set "exclude_callchain_kernel",
    help = "call chains without the kernel's part" },
  { "--kernel-callchains", into = "kernel_callchains", spec = set "exclude_callchain_user",
    help = "call chains without user space" },
  { "-d --data", into = "data", spec = sampled("addr", "data_src"),
    help = "also the data address and its source, and maps of data" },
  { "--phys-data", into = "phys_data", spec = sampled("addr", "phys_addr"), help = "also the physical data address" },
  { "--data-page-size", into = "data_page_size", spec = sampled("addr", "data_page_size"),
    help = "also the page size at the data address" },
  { "--code-page-size", into = "code_page_size", spec = sampled "code_page_size",
    help = "also the page size at the instruction" },
  { "-W --weight", into = "weight", spec = sampled "weight", help = "also the weight: the latency of an access" },
  { "--transaction", into = "transaction", spec = sampled "transaction", help = "also the flags of a transaction" },
  { "-R --raw-samples", into = "raw", spec = sampled "raw", help = "also raw data (tracepoints always have it)" },
  { "-b --branch-any", into = "branch_any", spec = function(spec) set_branches(spec, { "any" }) end,
    help = "also the last branches taken" },
  { "-j --branch-filter", into = "branch_filter", metavar = "KINDS", convert = parse_branches,
    spec = set_branches,
    help = "also the last branches of these kinds, as in any_call,u" },
  { "-I", into = "all_intr_regs", spec = function(spec) set_registers "intr" (spec, resolve.registers()) end,
    help = "also the registers at the interrupt" },
  { "--intr-regs", into = "intr_regs", metavar = "NAMES", convert = parse_registers, spec = set_registers "intr",
    help = "also these registers at the interrupt, as in ip,sp" },
  { "--user-regs", into = "user_regs", metavar = "NAMES", convert = parse_registers, spec = set_registers "user",
    help = "also these registers of user space" },
  { "-s --stat", into = "stat", spec = set "inherit_stat", help = "also counts of each thread" },
  { "-i --no-inherit", into = "no_inherit", spec = function(spec) spec.inherit = false end,
    help = "not in child processes and new threads" },
  { "--switch-events", into = "switch_events", side = set "context_switch", help = "also context switches" },
  { "--namespaces", into = "namespaces", side = set "namespaces", help = "also changes of namespaces" },
  { "--all-cgroups", into = "all_cgroups", spec = sampled "cgroup", side = set "cgroup",
    help = "also cgroups, and the cgroup of each sample" },
  { "-k --clockid", into = "clock", metavar = "CLOCK", convert = command_line.by_flag["--clock"].convert,
    help = "the clock of all times (default: monotonic)" },
  { "-D --delay", into = "delay", metavar = "MS", convert = parse_delay,
    help = "start to sample after MS milliseconds, or in ranges only, as in 10-20,30-40" },
  { "-m --mmap-pages", into = "buffer", metavar = "PAGES", convert = parse_pages,
    help = "ring buffer size of each CPU, in pages of 4K or as in 2M (default: 8M)" },
  { "--duration", into = "duration", metavar = "DURATION", convert = command_line.by_flag["-d"].convert,
    help = command_line.by_flag["-d"].help },
  { "--max-size", into = "max_size", metavar = "SIZE", convert = command_line.positive(parse_units.size, "size"),
    help = "stop when the recording has this size" },
  { "-z", into = "compress", help = "compress with zstd, at level 1" },
  { "--compression-level", into = "level", metavar = "LEVEL", convert = parse_level,
    help = "compress with zstd, at this level (1 to 22)" },
}

local always = "perfl record always does this"
local own_rings = "the rings are read by one thread, which loses nothing as long as it keeps up"
local no_trace = "processor traces are not decoded here"

--- The other options: flags -> the reason, or what to do instead.
M.refused = {
  ["-T --timestamp -P --period --sample-cpu --sample-identifier --exclude-perf --timestamp-boundary"] =
    always .. "\ntry: without it",
  ["-N --no-buildid-cache"] = "~/.debug is not used\ntry: without it",
  ["-B --no-buildid --buildid-all --buildid-mmap"] =
    "build-ids are recorded at the end, of the files that were mapped\ntry: without it",
  ["--strict-freq"] = "a frequency that the kernel does not allow is always refused\ntry: without it",
  ["-n --no-samples"] = "try: -e dummy, which has records of tasks and maps, and no samples",
  ["--group"] = "try: braces, as in -e '{cycles,instructions}'",
  ["--overwrite"] = "try: perfl flightrec --record FILE EVENT, which keeps the last records",
  ["-S --snapshot --aux-sample"] = no_trace .. "\ntry: perf record",
  ["--control"] = "try: a script with signal() and ev:enable(), and --record FILE",
  ["-r --realtime"] = "try: chrt -f PRIORITY perfl record",
  ["--threads --affinity --aio --mmap-flush --no-buffering"] = own_rings .. "\ntry: -m 8M, for larger rings",
  ["--per-thread"] = "the rings are always those of CPUs\ntry: without it",
  ["--off-cpu"] = "try: perfl offcputime --record FILE",
  ["--synth --tail-synthesize --num-thread-synthesize --proc-map-timeout"] =
    "running tasks are always recorded at the start\ntry: without it",
  ["--switch-output-event"] = "try: --switch-output=signal",
  ["--timestamp-filename"] = "try: -o perf.data.$(date +%Y%m%d%H%M%S)",
  ["--kcore --vmlinux --debuginfod --clang-path --clang-opt"] = "this is not needed to record\ntry: without it",
  ["--running-time"] = "samples have no times of their counters\ntry: perfl stat, which prints the share",
  ["--no-bpf-event"] = "records of BPF programs let their functions have names\ntry: without it",
}

return M
