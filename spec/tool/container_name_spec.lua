-- Names of cgroups by their paths, as container managers and systemd make them.

local tool = require "perfev.tool"

local ID = "4f1c9d2ab03e8857c6d4e1f0a9b8c7d6e5f4030201ffeeddccbbaa9988776655"
local NEST = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
local SHORT, UID = ID:sub(1, 12), "8f1d6f3c-5a7b-4c0e-9d2a-1b3c5d7e9f01"
local SLICED = UID:gsub("-", "_")
local STATIC = "0123456789abcdef0123456789abcdef" -- of a static pod: a hash
local USER = "/user.slice/user-1000.slice/user@1000.service/"

-- path -> name, kind, owner
local names = {
  -- docker: cgroupfs, systemd, rootless, docker in docker, a task of ECS, a build
  { "/docker/" .. ID, SHORT, "docker" },
  { "/system.slice/docker-" .. ID .. ".scope", SHORT, "docker" },
  { USER .. "user.slice/docker-" .. ID .. ".scope", SHORT, "docker", "1000" },
  { "/docker/" .. NEST .. "/docker/" .. ID, SHORT, "docker" },
  { "/docker/" .. ID .. "/init", SHORT, "docker" },
  { "/ecs/" .. STATIC .. "/" .. ID, SHORT, "container" },
  { "/ecstasks.slice/ecstasks-" .. STATIC .. ".slice/docker-" .. ID .. ".scope", SHORT, "docker" },
  { "/docker/buildkit/" .. ID, SHORT, "buildkit" },
  -- podman: systemd, rootless, cgroupfs, in a pod, the process beside a container
  { "/machine.slice/libpod-" .. ID .. ".scope", SHORT, "podman" },
  { "/machine.slice/libpod-" .. ID .. ".scope/container", SHORT, "podman" },
  { USER .. "user.slice/libpod-" .. ID .. ".scope/container", SHORT, "podman", "1000" },
  { "/libpod_parent/libpod-" .. ID, SHORT, "podman" },
  { "/machine.slice/machine-libpod_pod_" .. NEST .. ".slice/libpod-" .. ID .. ".scope", SHORT, "podman",
    NEST:sub(1, 12) },
  { "/machine.slice/libpod-conmon-" .. ID .. ".scope", SHORT, "conmon" },
  -- Kubernetes: containerd and CRI-O by systemd, cgroupfs, kind, static pods, cri-dockerd, mixed drivers
  { "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" .. SLICED .. ".slice/cri-containerd-" .. ID
    .. ".scope", SHORT, "containerd", UID },
  { "/kubepods.slice/kubepods-pod" .. SLICED .. ".slice/crio-" .. ID .. ".scope", SHORT, "crio", UID },
  { "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" .. SLICED .. ".slice/crio-" .. ID
    .. ".scope/container", SHORT, "crio", UID },
  { "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" .. SLICED .. ".slice/crio-conmon-" .. ID
    .. ".scope", SHORT, "conmon", UID },
  { "/kubepods/besteffort/pod" .. UID .. "/" .. ID, SHORT, "container", UID },
  { "/kubepods/pod" .. UID .. "/" .. ID, SHORT, "container", UID },
  { "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" .. SLICED
    .. ".slice/cri-containerd-" .. ID .. ".scope", SHORT, "containerd", UID },
  { "/docker/" .. NEST .. "/kubelet/kubepods/burstable/pod" .. UID .. "/" .. ID, SHORT, "container", UID },
  { "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" .. STATIC .. ".slice/cri-containerd-" .. ID
    .. ".scope", SHORT, "containerd", STATIC },
  { "/kubepods.slice/kubepods-pod" .. SLICED .. ".slice/docker-" .. ID .. ".scope", SHORT, "docker", UID },
  { "/system.slice/containerd.service/kubepods-burstable-pod" .. SLICED .. ".slice:cri-containerd:" .. ID, SHORT,
    "containerd", UID },
  { "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" .. SLICED .. ".slice", UID, "pod" },
  { "/kubepods.slice/kubepods-burstable.slice", "kubepods-burstable", "slice" },
  -- containerd: ctr's namespaces, nerdctl
  { "/default/" .. ID, SHORT, "container" },
  { "/system.slice/nerdctl-" .. ID .. ".scope", SHORT, "containerd" },
  -- LXC, also with systemd inside; nspawn, machines of libvirt
  { "/lxc.payload.web", "web", "lxc" },
  { "/lxc.payload.web-1/system.slice/nginx.service", "web-1", "lxc" },
  { "/lxc/104/ns/init.scope", "104", "lxc" },
  { "/lxc/web", "web", "lxc" },
  { "/machine.slice/systemd-nspawn@debian.service/payload/system.slice/cron.service", "debian", "machine" },
  { "/machine.slice/machine-qemu\\x2d1\\x2dguest.scope/libvirt/emulator", "qemu-1-guest", "machine" },
  -- systemd: services, slices, sockets, users, their sessions and units
  { "/system.slice/sshd.service", "sshd", "service" },
  { "/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1", "service" },
  { "/system.slice/systemd-udevd.service/udev", "systemd-udevd", "service" },
  { "/system.slice", "system", "slice" },
  { "/init.scope", "init", "scope" },
  { "/system.slice/dev-hugepages.mount", "dev-hugepages", "mount" },
  { "/system.slice/dev-disk-by\\x2dlabel-swap.swap", "dev-disk-by-label-swap", "swap" },
  { "/system.slice/cups.socket", "cups", "socket" },
  { "/user.slice", "user", "slice" },
  { "/user.slice/user-1000.slice", "1000", "user" },
  { "/user.slice/user-1000.slice/session-3.scope", "3", "session", "1000" },
  { "/user.slice/user-1000.slice/session-c2.scope", "c2", "session", "1000" },
  { USER .. "init.scope", "init", "scope", "1000" },
  { USER .. "app.slice/app-org.gnome.Terminal.slice/vte-spawn-1f.scope", "vte-spawn-1f", "scope", "1000" },
  { USER .. "app.slice/dbus.service", "dbus", "service", "1000" },
  { USER:sub(1, -2), "1000", "user" },
  -- everything else
  { "/", "/", "root" }, { "", "/", "root" },
  { "/batch", "/batch", "cgroup" },
  { "/batch/night jobs", "/batch/night jobs", "cgroup" },
  { "/docker", "/docker", "cgroup" },
  { "/docker-" .. ID:sub(1, 12) .. ".scope", "docker-" .. SHORT, "scope" }, -- not an id
  { "[cgroup 77]", "[cgroup 77]", "cgroup" },
}

describe("the name of a cgroup", function()
  it("is that of its container, service or session, by its path", function()
    for _, case in ipairs(names) do
      assert.same({ n = 3, case[2], case[3], case[4] }, { n = 3, (tool.container_name(case[1])),
        (select(2, tool.container_name(case[1]))), (select(3, tool.container_name(case[1]))) }, case[1])
    end
  end)

  it("is asked for a string", function()
    assert.error_matches(function() tool.container_name(7) end, "container_name: a path is a string, not a number")
  end)
end)
