-- facts.lua - prints the features of this kernel, a line each: "feature<TAB>value". vm.sh makes doc/kernels.md from it.
-- lua5.4 spec/vm/facts.lua, with perfev in the paths. Every feature is tried, not derived from the version.

local core = require "perfev.core"
local perfev = require "perfev"

local real = perfev.hooks.real

local function tell(what, value)
  print(what .. "\t" .. tostring(value))
end

-- "yes", or the reason why it is missing
local function try(fields, pid, cpu)
  local all = { disabled = true, exclude_kernel = true }
  for name, value in pairs(fields) do all[name] = value end
  local fd, errno = real.perf_event_open(core.attr_parse(core.attr_new(all):bytes()), pid or 0, cpu or -1, -1, 8)
  if not fd then return core.errno[errno] end
  real.close(fd)
  return "yes"
end

local function line_of(path) return (core.slurp(path) or ""):match "[^\n]*" end
local function has_pmu(name)
  return core.slurp("/sys/bus/event_source/devices/" .. name .. "/type") and "yes" or "no"
end
local function clock(fields)
  local all = { type = 1, config = 0, sample_period = 1000000 }
  for name, value in pairs(fields) do all[name] = value end
  return try(all)
end

tell("release", line_of "/proc/sys/kernel/osrelease")
tell("machine", core.machine)
tell("page size", ("%d KiB"):format(io.popen("getconf PAGESIZE"):read "n" // 1024))
tell("byte order", string.pack("=I2", 1) == "\1\0" and "little" or "big")

tell("cycles: counts", try { type = 0, config = 0 })
tell("instructions: counts", try { type = 0, config = 1 })
tell("cycles: samples", try { type = 0, config = 0, sample_period = 1000000 })
tell("watchpoint", try { type = 5, bp_type = 2, bp_addr = 0x1000, bp_len = 4 })
tell("breakpoint on execution", try { type = 5, bp_type = 4, bp_addr = 0x1000,
  bp_len = core.machine == "x86_64" and 8 or 4 })
for _, name in ipairs { "kprobe", "uprobe" } do tell(name .. " PMU", has_pmu(name)) end

local beside = {
  sigtrap = { remove_on_exec = true }, inherit_thread = { inherit = true },
}
local rows = {
  { "build_id" }, { "cgroup" }, { "text_poke" }, { "inherit_thread" }, { "remove_on_exec" }, { "sigtrap" },
}
for _, row in ipairs(rows) do
  local fields = { [row[1]] = true }
  for name, value in pairs(beside[row[1]] or {}) do fields[name] = value end
  tell(row[1], clock(fields))
end
for _, bit in ipairs { "cgroup", "data_page_size", "code_page_size", "weight_struct" } do
  tell("sample_type " .. bit, clock { sample_type = { bit } })
end
tell("read_format lost", clock { read_format = { "lost" } })
tell("inherit and sample_type read", clock { inherit = true, sample_type = { "tid", "read" } })
tell("config3", try({ type = 1, config = 9, config3 = 1 }))
-- A task's counts at its end (inherit_stat).
local reads = 0
local session = perfev.session { command = { "sh", "-c", "/bin/true; /bin/true" }, log = function() end }
session:event { "page-faults", inherit = true, period = 1 << 62, read = function() reads = reads + 1 end }
tell("READ records", session:run() and (reads > 0 and "yes" or "none"))
tell("cgroup-switches", try { type = 1, config = 11, exclude_kernel = false })
