--- Resolves vendors' event names: `pfm:skl::UOPS_RETIRED:ALL`, or without "pfm:" if no other event has the name.
-- The tables are libpfm4's, in a shared object that is loaded on first use. A name without "PMU::" is looked up in the
-- tables of this machine, or in the table M.assume.

local check = require "perfev.base.check"
local core = require "perfev.core"
local native_module = require "perfev.base.native_module"

local M = {}

local E = core.errno

--- The table for names without "PMU::" ("skl"); nil: this machine's tables. Set by perfl --assume-pmu.
M.assume = nil

local loaded

-- -> perfev.pfm | nil, reason
local function load_tables()
  if loaded == nil then
    local pfm, why, remedy = native_module "perfev.pfm"
    loaded = pfm or false
    M.missing = not pfm and ("%s\n  try: %s"):format(why, remedy or "make deps && make") or nil
  end
  return loaded or nil, M.missing
end

--- Lists the tables: { { id =, name =, about =, events =, here = }, … } | nil, reason
function M.pmus()
  local pfm, why = load_tables()
  if not pfm then return nil, why end
  return pfm.pmus()
end

--- Iterates over the events of a table: `for name, about in vendor.events(pmu) do`.
function M.events(pmu)
  local pfm, index = load_tables(), -1
  return function()
    index = index + 1
    return pfm.name(pmu.id, index)
  end
end

local function pmu_named(name)
  local known = {}
  for _, pmu in ipairs(M.pmus()) do
    if pmu.name == name then return pmu end
    known[#known + 1] = pmu.name
  end
  return nil, (check.hint(name, known))
end

local function list_names(pmu)
  local list = {}
  for name in M.events(pmu) do list[#list + 1] = name end
  return list
end

-- Lists the masks of an event, for messages.
local function list_masks(pmu, event)
  local pfm, list = load_tables(), {}
  for index = 0, pmu.events - 1 do
    if pfm.name(pmu.id, index) == event then
      local k = 0
      local mask = pfm.name(pmu.id, index, k)
      while mask do
        list[#list + 1] = mask
        k = k + 1
        mask = pfm.name(pmu.id, index, k)
      end
    end
  end
  return list
end

-- Explains why libpfm4 refused PMU::EVENT:…
local function explain_refusal(name, event, why)
  local pmu, hint = pmu_named(name)
  if not pmu then
    return ("libpfm4 has no table '%s'%s\n  try: perfl list pfm"):format(name, hint)
  end
  local bare, mask = event:match("^([^:]*):?([^:=]*)")
  local all = list_names(pmu)
  for _, known in ipairs(all) do
    if known:lower() == bare:lower() then
      local there = list_masks(pmu, known)
      return ("%s::%s has no '%s'%s: %s\n  try: one of %s"):format(name, known, mask,
        (check.hint(mask, there)), why, table.concat(there, ", "))
    end
  end
  return ("%s (%s) has no event '%s'%s\n  try: perfl list %s::"):format(name, pmu.about, bare,
    (check.hint(bare, all)), name)
end

local sides = { "exclude_user", "exclude_kernel", "exclude_hv" }

local function make_found(event, text)
  local found = { type = event.type, config = event.config, exclude = {}, vendor = event.full, name = text,
    fields = { config1 = event.config1, config2 = event.config2, precise_ip = event.precise_ip,
      exclude_host = event.exclude_host, exclude_guest = event.exclude_guest, pinned = event.pinned,
      exclusive = event.exclusive } }
  -- libpfm4 excludes the hypervisor by default; only the user's choice is a choice.
  if event.exclude_user or event.exclude_kernel then
    for _, side in ipairs(sides) do found.exclude[side] = event[side] end
  else
    found.fields.exclude_hv = event.exclude_hv
  end
  return found
end

--- Resolves a vendor's name.
-- @tparam string text  "pfm:skl::UOPS_RETIRED:ALL", "skl::UOPS_RETIRED:ALL:u", "UOPS_RETIRED:ALL"
-- @treturn[1] table  as resolve.lua's found
-- @treturn[2] nil
-- @treturn[2] ?string  message; nil if the text is not a vendor's name and does not look like one
-- @treturn[2] ?integer errno
function M.resolve(text)
  local name = text:gsub("^pfm:", "")
  local is_vendor_name = name ~= text or name:find("[:=].*=") or name:find("::", 1, true) or M.assume
  local pfm, why = load_tables()
  if not pfm then
    if not is_vendor_name then return nil end
    return nil, ("event '%s': vendors' names need libpfm4: %s"):format(text, why), E.ENOENT
  end
  if M.assume and not name:find("::", 1, true) then name = M.assume .. "::" .. name end
  local event, wrong, code = pfm.encode(name)
  if event then return make_found(event, text) end
  if not is_vendor_name and code == E.ENOENT then return nil end
  local pmu, rest = name:match("^([%w_]+)::(.*)$")
  if pmu then return nil, ("event '%s': %s"):format(text, explain_refusal(pmu, rest, wrong)), code end
  return nil, ("event '%s': not in libpfm4's tables for this machine: %s\n"
    .. "  try: PMU::EVENT (perfl list pfm), or --assume-pmu PMU"):format(text, wrong), code
end

return M
