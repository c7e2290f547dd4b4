--- The kernel version that introduced each feature of an attr: for error messages, and to drop the newest feature
-- first on an older kernel.
-- The table of attr fields (src/event/attr.c) has the versions of fields and bits. This file has the sizes and the
-- software events. Source: include/uapi/linux/perf_event.h and include/trace/events of each version.

local core = require "perfev.core"

local M = {}

--- "6.1.2-arch" -> 6001, a number that can be compared; nil if the text is not a version.
function M.number(text)
  local major, minor = tostring(text):match("^(%d+)%.(%d+)")
  return major and tonumber(major) * 1000 + tonumber(minor)
end

--- Returns the running kernel's release, as uname -r prints it, and its number.
function M.running()
  local release = core.slurp("/proc/sys/kernel/osrelease")
  release = release and release:match("^%S+")
  return release, release and M.number(release)
end

--- sizeof(struct perf_event_attr) -> the kernel that introduced it.
M.sizes = {
  [64] = "2.6.31", [72] = "2.6.33", [80] = "3.4", [96] = "3.7", [104] = "3.19", [112] = "4.1", [120] = "5.5",
  [128] = "5.13", [136] = "6.3", [144] = "6.19",
}

--- Software events (PERF_COUNT_SW_*) added after 2.6.31: config -> name, kernel.
M.software = {
  [7] = { "alignment-faults", "2.6.33" }, [8] = { "emulation-faults", "2.6.33" }, [9] = { "dummy", "3.12" },
  [10] = { "bpf-output", "4.4" }, [11] = { "cgroup-switches", "5.13" },
}

local function clear_field(name)
  return function(attr) attr[name] = 0 end
end

local function clear_bit(name, bit)
  return function(attr) attr[name] = attr[name] & ~(1 << bit) end
end

local function add(list, what, since, clear)
  list[#list + 1] = { what = what, since = since, number = M.number(since), clear = clear, place = #list }
end

local essential = { type = true, config = true, sample_period = true, sample_freq = true, freq = true }

local READ = 4 -- PERF_SAMPLE_READ is 1U << 4

-- The user asked for defer_callchain, which sets defer_output: an error names the former.
local implied = { defer_output = true }

--- Lists the features that an attr requests, the newest first.
-- @tparam attr attr
-- @treturn {table,...}  `what` ("sample_type weight_struct", "build_id"), `since` ("5.12"), `number`, `clear`
--   (function(attr) that removes the feature)
function M.features(attr)
  local list = {}
  for _, field in ipairs(core.attr_fields()) do
    local value = attr[field.name]
    if field.bits and value ~= 0 then
      for i, bit in ipairs(field.bits) do
        if value >> (i - 1) & 1 == 1 then
          add(list, field.name .. " " .. bit, field.bits_since[i], clear_bit(field.name, i - 1))
        end
      end
    elseif value ~= 0 and value ~= false and not essential[field.name] then
      add(list, field.name, field.since, clear_field(field.name))
    end
  end
  if attr.inherit and attr.sample_type & 1 << READ ~= 0 then
    add(list, "sample_type read of an inherited event", "6.12", clear_bit("sample_type", READ))
  end
  table.sort(list, function(a, b)
    if a.number ~= b.number then return a.number > b.number end
    if implied[a.what] ~= implied[b.what] then return implied[a.what] == true end
    return a.place < b.place
  end)
  return list
end

return M
