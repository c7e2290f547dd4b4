--- Vendors' event names: `pfm:skl::UOPS_RETIRED:ALL`, or bare when nothing else has that name.
-- The tables are libpfm4's, in a shared object that is loaded when it is first needed. Without "PMU::" the
-- tables of this machine are asked; M.assume names another one's.

local core = require "perfev.core"

local M = {}

local E = core.errno

--- The table that bare names are looked for in, in place of this machine's ("skl"); perfl --assume-pmu.
M.assume = nil

local loaded

-- -> libpfm4's part | nil, why
local function tables()
  if loaded == nil then
    local ok, pfm = pcall(require, "perfev.pfm")
    loaded = ok and pfm or false
    M.missing = not ok and tostring(pfm):match("^[^\n]*") or nil
  end
  return loaded or nil, M.missing
end

--- The tables: { { id =, name =, about =, events =, here = }, … } | nil, why
function M.pmus()
  local pfm, why = tables()
  if not pfm then return nil, why end
  return pfm.pmus()
end

--- The events of a table, one after the other: `for name, about in vendor.events(pmu) do`.
function M.events(pmu)
  local pfm, at = tables(), -1
  return function()
    at = at + 1
    return pfm.name(pmu.id, at)
  end
end

local function pmu_named(name)
  local known = {}
  for _, pmu in ipairs(M.pmus()) do
    if pmu.name == name then return pmu end
    known[#known + 1] = pmu.name
  end
  return nil, core.nearest(name, known)
end

local function names_of(pmu)
  local list = {}
  for name in M.events(pmu) do list[#list + 1] = name end
  return list
end

-- The masks of an event, for who wrote one that is not there.
local function masks(pmu, event)
  local pfm, list = tables(), {}
  for at = 0, pmu.events - 1 do
    if pfm.name(pmu.id, at) == event then
      local k = 0
      local mask = pfm.name(pmu.id, at, k)
      while mask do
        list[#list + 1] = mask
        k = k + 1
        mask = pfm.name(pmu.id, at, k)
      end
    end
  end
  return list
end

local function did_you_mean(near)
  return near and (" (did you mean '%s'?)"):format(near) or ""
end

-- What is wrong with PMU::EVENT:…
local function explain(name, event, why)
  local pmu, near = pmu_named(name)
  if not pmu then
    return ("libpfm4 has no table '%s'%s\n  try: perfl list pfm shows them"):format(name, did_you_mean(near))
  end
  local bare, mask = event:match("^([^:]*):?([^:=]*)")
  local all = names_of(pmu)
  for _, known in ipairs(all) do
    if known:lower() == bare:lower() then
      local there = masks(pmu, known)
      return ("%s::%s has no '%s'%s: %s\n  try: one of %s"):format(name, known, mask,
        did_you_mean(core.nearest(mask, there)), why, table.concat(there, ", "))
    end
  end
  return ("%s (%s) has no event '%s'%s\n  try: perfl list %s::"):format(name, pmu.about, bare,
    did_you_mean(core.nearest(bare, all)), name)
end

local sides = { "exclude_user", "exclude_kernel", "exclude_hv" }

local function found_of(event, text)
  local found = { type = event.type, config = event.config, exclude = {}, vendor = event.full, name = text,
    fields = { config1 = event.config1, config2 = event.config2, precise_ip = event.precise_ip,
      exclude_host = event.exclude_host, exclude_guest = event.exclude_guest, pinned = event.pinned,
      exclusive = event.exclusive } }
  -- Only what was chosen: to leave the hypervisor out is libpfm4's default.
  if event.exclude_user or event.exclude_kernel then
    for _, side in ipairs(sides) do found.exclude[side] = event[side] end
  else
    found.fields.exclude_hv = event.exclude_hv
  end
  return found
end

--- What a vendor's name is.
-- @tparam string text  "pfm:skl::UOPS_RETIRED:ALL", "skl::UOPS_RETIRED:ALL:u", "UOPS_RETIRED:ALL"
-- @treturn[1] table  as resolve.lua's found
-- @treturn[2] nil    no message: it is no vendor's name, nor meant as one
-- @treturn[2] ?string
-- @treturn[2] ?integer errno
function M.resolve(text)
  local name = text:gsub("^pfm:", "")
  local meant = name ~= text or name:find("[:=].*=") or name:find("::", 1, true) or M.assume
  local pfm, why = tables()
  if not pfm then
    if not meant then return nil end
    return nil, ("event '%s': vendors' names need perfev's pfm.so: %s\n  try: apt install libpfm4"):format(text, why),
      E.ENOENT
  end
  if M.assume and not name:find("::", 1, true) then name = M.assume .. "::" .. name end
  local event, wrong, code = pfm.encode(name)
  if event then return found_of(event, text) end
  if not meant and code == E.ENOENT then return nil end
  local pmu, rest = name:match("^([%w_]+)::(.*)$")
  if pmu then return nil, ("event '%s': %s"):format(text, explain(pmu, rest, wrong)), code end
  return nil, ("event '%s': no table of this machine's has it: %s\n"
    .. "  try: PMU::EVENT (perfl list pfm), or --assume-pmu PMU"):format(text, wrong), code
end

return M
