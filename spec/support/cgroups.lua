-- cgroups.lua - makes cgroups in the hierarchy that perf events use, and removes them at the end of the spec.
--
--   local with_cgroups = require "spec.support.cgroups"(requires, function(why) pending(why) end,
--     function(f) finally(f) end)
--   local root, own = with_cgroups { "one", "two" } -- nil: the spec is pending
--   ... root .. own .. "/one/cgroup.procs"

local cgroup = require "perfev.event.cgroup"
local core = require "perfev.core"
local run = require "spec.support.run"

-- In cgroup2, perf_event is enabled in a cgroup with the first controller that is; without it the samples have the
-- nearest cgroup above that has it.
local function enable(where, sign)
  local controller = (run.slurp(where .. "/cgroup.controllers") or ""):match "%S+"
  if controller then
    os.execute(("echo %s%s > %s/cgroup.subtree_control 2>/dev/null"):format(sign, controller, where))
  end
end

local function enabled(where) return (run.slurp(where .. "/cgroup.subtree_control") or ""):find "%S" ~= nil end

return function(requires, pending, finally)
  --- Makes cgroups below one of our own -> the mount point, the path of our own below it | nil
  return function(names)
    requires("perf", "root", "linux 5.7")
    local _, used = cgroup.mounts()
    if not used then return pending "no cgroup hierarchy for perf events is mounted" end
    local own = ("/perfev-spec-%d"):format(core.pid())
    local top, dirs = used.path .. own, {}
    for i, name in ipairs(names) do dirs[i] = run.quote(top .. "/" .. name) end
    local all = table.concat(dirs, " ")
    if not os.execute("mkdir -p " .. all .. " 2>/dev/null") then return pending "no cgroup can be made" end
    local was_enabled = enabled(used.path)
    finally(function()
      os.execute("rmdir " .. all .. " " .. top)
      if used.version == 2 and not was_enabled then enable(used.path, "-") end
    end)
    if used.version == 1 then return used.path, own end
    enable(used.path, "+")
    enable(top, "+")
    if enabled(top) then return used.path, own end
    return pending "no controller can be enabled in cgroup2, so samples have the cgroup of the root"
  end
end
