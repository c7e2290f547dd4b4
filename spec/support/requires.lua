-- requires.lua - checks a live spec's needs of the machine; a missing need makes the spec pending, with all reasons.
--
--   local requires = require "spec.support.requires"(function(why) pending(why) end)
--   it("watches a CPU", function()
--     requires("perf", "root", "tracefs", "paranoid 2", "pmu cpu", "linux 5.13", "cc")
--
-- The caller passes `pending` because busted defines it in spec files only. A need is a word; some take an argument.
-- `requires.missing(need, ...)` returns the reasons, or nil.

local core = require "perfev.core"
local run = require "spec.support.run"

local requires = {}

local function number_of(path)
  return math.tointeger(tonumber((core.slurp(path))))
end

--- "6.13", "6.13.2-x" -> 6013, for comparison.
function requires.version(text)
  local major, minor = text:match "^(%d+)%.(%d+)"
  return tonumber(major) * 1000 + tonumber(minor)
end

--- This kernel's release.
function requires.release()
  return requires.version(core.slurp "/proc/sys/kernel/osrelease")
end

--- Returns the reason if this machine has no PMU of that name.
function requires.no_pmu(name)
  return not core.slurp("/sys/bus/event_source/devices/" .. name .. "/type")
end

local function has(program)
  return not run.have(program) and program .. " is not installed" or nil
end

-- Each check returns the reason why the need is not met, or nil.
local needs = {}

function needs.perf()
  return not number_of "/proc/sys/kernel/perf_event_paranoid" and "no perf events in this kernel" or nil
end

function needs.library(name)
  return not run.capture(("PATH=$PATH:/sbin ldconfig -p 2>/dev/null | grep -F %s"):format(run.quote(name)))
    and name .. " is not installed" or nil
end

function needs.root() return not run.root and "not root" or nil end
function needs.nobody()
  return (not run.root and "not root: cannot become nobody")
    or not run.capture "id -u nobody 2>/dev/null" and "no user nobody" or has "setpriv"
end

function needs.paranoid(level)
  local here = number_of "/proc/sys/kernel/perf_event_paranoid"
  return here ~= tonumber(level) and ("kernel.perf_event_paranoid is %s, not %s"):format(here, level) or nil
end

function needs.tracefs()
  return not core.slurp "/sys/kernel/tracing/events/header_page" and "tracefs is not mounted, or not readable" or nil
end

function needs.tracepoint(name)
  return not core.slurp("/sys/kernel/tracing/events/" .. name:gsub(":", "/") .. "/id")
    and "no tracepoint " .. name or nil
end

function needs.pmu(name) return requires.no_pmu(name) and "no PMU " .. name or nil end

-- A PMU that counts; some count but have no interrupt for sampling.
function needs.hardware(event)
  event = event ~= "" and event or "cycles"
  local counter = require("perfev").counter { event, tid = "self", inherit = false }
  if not counter then return "no PMU counts " .. event end
  counter:close()
end

function needs.sampling(event)
  event = event ~= "" and event or "cycles"
  local attr = core.attr_new { type = 0, config = event == "cycles" and 0 or 1, sample_period = 1000000,
    disabled = true, exclude_kernel = true }
  local real = require("perfev").hooks.real
  local fd = real.perf_event_open(core.attr_parse(attr:bytes()), 0, -1, -1, 8)
  if not fd then return "no PMU samples " .. event end
  real.close(fd)
end

--- A guest of spec/vm, where a spec may change any setting.
function needs.guest() return not os.getenv "VM" and "not in a guest of make vm" or nil end

function needs.linux(version)
  return requires.release() < requires.version(version) and "Linux is older than " .. version or nil
end

function needs.cpus(n)
  local nr = tonumber(run.capture "nproc")
  return nr < tonumber(n) and ("%d CPUs, not %s"):format(nr, n) or nil
end

function needs.files(n)
  local most = run.capture "ulimit -n"
  return most ~= "unlimited" and tonumber(most) < tonumber(n) and ("ulimit -n is %s, not %s"):format(most, n) or nil
end

function needs.cc() return not run.have(os.getenv "CC" or "gcc") and "no C compiler" or nil end
function needs.setpriv(option)
  return has "setpriv" or not (run.capture "setpriv --help" or ""):find(option, 1, true)
    and "setpriv has no " .. option or nil
end

function needs.seccomp()
  local status = core.slurp "/proc/self/status" or ""
  return status:match "\nSeccomp:%s*(%d)" ~= "2" and "no seccomp filter is in force" or nil
end

--- A program in PATH.
needs.program = has

--- unshare(1) with private mounts. In a bare chroot the root is not a mount point, so that mounts below it could
-- propagate.
function needs.mounts()
  return has "unshare" or not run.capture "unshare -m --propagation private true 2>/dev/null"
    and "no private mount namespace can be had: not root, or the root directory is not a mount point" or nil
end

--- Returns every reason for unmet needs, or nil.
-- @tparam string ...  needs, each "word" or "word argument"
-- @treturn string|nil
function requires.missing(...)
  local reasons = {}
  for _, need in ipairs { ... } do
    local word, argument = need:match "^(%S+)%s*(.*)$"
    local why_not = needs[word] or error("requires: no need is called '" .. word .. "'", 2)
    reasons[#reasons + 1] = why_not(argument)
  end
  return #reasons > 0 and table.concat(reasons, "; ") or nil
end

return function(pend)
  return setmetatable(requires, { __call = function(_, ...)
    local reasons = requires.missing(...)
    if reasons then pend(reasons) end
  end })
end
