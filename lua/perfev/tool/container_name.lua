--- Names a cgroup by its path, as people know it: a container, a service, a session of a user.
-- The path alone decides: no daemon is asked. Ids of containers are cut to 12 digits, as docker ps and crictl ps print
-- them.

local M = {}

local ID_DIGITS = 12

local function is_id(text) return #text >= 32 and not text:find "[^%x]" end

local function short(id) return id:sub(1, ID_DIGITS) end

-- systemd writes some bytes of a unit's name as \xNN: systemd.unit(5).
local function unescape(text)
  return (text:gsub("\\x(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

-- The prefix of a scope or cgroup MANAGER-ID. conmon is the process that watches a container of podman or CRI-O.
local managers = {
  docker = "docker", libpod = "podman", crio = "crio", ["cri-containerd"] = "containerd", nerdctl = "containerd",
  ["libpod-conmon"] = "conmon", ["crio-conmon"] = "conmon",
}

-- The cgroup above that of a container whose name is the id alone.
local parents = { docker = "docker", buildkit = "buildkit" }

local unit_types = { service = true, scope = true, slice = true, socket = true, mount = true, swap = true }

-- Kinds of a part, from the one that says least; a container says most. Of equal parts the innermost counts.
local ranks = { slice = 1, user = 2, pod = 4 }
for kind in pairs(unit_types) do ranks[kind] = ranks[kind] or 3 end
ranks.session = 3
local CONTAINER = 5

-- The container in one part of a path -> kind, name | nil
local function read_container(part, parent)
  -- containerd with systemd's path for a runtime that does not use systemd
  local manager, id = part:match "%.slice:([%w-]+):(%x+)$"
  if not manager then manager, id = part:gsub("%.scope$", ""):match "^(.+)%-(%x+)$" end
  if managers[manager] and is_id(id) then return managers[manager], short(id) end
  if is_id(part) then return parents[parent] or "container", short(part) end
  local lxc = part:match "^lxc%.payload%.(.+)$" or parent == "lxc" and part
  if lxc then return "lxc", lxc end
  local machine = part:match "^machine%-(.+)%.scope$" or part:match "^systemd%-nspawn@(.+)%.service$"
  if machine then return "machine", unescape(machine) end
end

-- Everything else in a part -> kind, name | nil
local function read_unit(part)
  local pod = part:match "kubepods.*%-pod([%x_]+)%.slice" or part:match "^pod([%x-]+)$"
  if pod and #pod >= 32 then return "pod", (pod:gsub("_", "-")) end
  pod = part:match "libpod_pod_(%x+)"
  if pod and is_id(pod) then return "pod", short(pod) end
  local user = part:match "^user%-(%d+)%.slice$" or part:match "^user@(%d+)%.service$"
  if user then return "user", user end
  local session = part:match "^session%-(.+)%.scope$"
  if session then return "session", session end
  local name, kind = part:match "^(.+)%.(%l+)$"
  if unit_types[kind] then return kind, unescape(name) end
end

--- The name of a cgroup.
-- @tparam string path  below the root of the hierarchy, as in /proc/PID/cgroup
-- @treturn string   a container's id in 12 digits or its name, a pod's uid, a unit without its suffix, a user's id; the
--   path if none of these applies
-- @treturn string   what it is: "docker", "podman", "containerd", "crio", "conmon", "lxc", "machine", "buildkit",
--   "container", "pod", "service", "scope", "slice", "socket", "mount", "swap", "session", "user", "root", "cgroup"
-- @treturn ?string  of a container in a pod the pod's uid, of a user's unit or session the user's id
function M.name(path)
  local best_name, best_kind, best_rank, parent, pod, user = path, "cgroup", 0, nil, nil, nil
  for part in path:gmatch "[^/]+" do
    local kind, name = read_unit(part)
    if kind == "pod" then pod = name end
    if kind == "user" then user = name end
    local container, id = read_container(part, parent)
    if container then kind, name = container, id end
    local rank = kind and (container and CONTAINER or ranks[kind])
    if rank and rank >= best_rank then best_name, best_kind, best_rank = name, kind, rank end
    parent = part
  end
  if not parent then return "/", "root" end
  local owner = pod or user
  return best_name, best_kind, owner ~= best_name and owner or nil
end

return M
