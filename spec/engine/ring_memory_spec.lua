local core = require "perfev.core"
local perfev = require "perfev"
local ring_memory = require "perfev.live.ring_memory"
local sim = require "perfev.sim"

local E, M, K = core.errno, 1 << 20, 1 << 10
local GIB = 1 << 30

-- A kernel with this much memory, in KiB, for a user with these capabilities.
local function machine(opts)
  local k = sim.new { world = opts.world or "vm" }
  k.files["/proc/meminfo"] = opts.memory and ("MemTotal: %d kB\nMemFree: 1 kB\n"):format(opts.memory // K)
  if not opts.root then
    k.files["/proc/self/status"] = "Name:\tx\nUid:\t7\t7\t7\t7\nCapEff:\t0000000000000000\nSeccomp:\t0\n"
  end
  for path, text in pairs(opts.files or {}) do k.files[path] = text end
  return k
end

-- The default ring of a session that reads this many CPUs, all of the machine's.
local function default_ring(cpus, opts)
  return machine(opts):with(function() return ring_memory.default_ring(cpus, cpus, ring_memory.memory()) end)
end

describe("the default size of a ring", function()
  it("is 8 MiB if memory may be locked", function()
    assert.same({ 8 * M }, { default_ring(2, { root = true, memory = 8 * GIB }) })
    local free = { ["/proc/sys/kernel/perf_event_paranoid"] = "-1\n" }
    assert.same({ 8 * M }, { default_ring(2, { memory = 8 * GIB, files = free }) })
  end)

  it("is as large as the locked memory of a user allows", function()
    assert.same({ 4 * M, "9224 KiB may be locked" }, { default_ring(2, { memory = 8 * GIB }) })
    assert.same({ 512 * K, "74240 KiB may be locked" }, { default_ring(128, { memory = 512 * GIB }) })
    local little = { ["/proc/self/limits"] = "Max locked memory  65536  65536  bytes\n" }
    assert.same({ 512 * K, "1096 KiB may be locked" }, { default_ring(2, { memory = 8 * GIB, files = little }) })
    local none = { ["/proc/self/limits"] = "Max locked memory  0  0  bytes\n",
      ["/proc/sys/kernel/perf_event_mlock_kb"] = "0\n" }
    assert.same({ 4 * K, "0 KiB may be locked" }, { default_ring(2, { memory = 8 * GIB, files = none }) })
  end)

  it("is smaller on many CPUs, and with little memory", function()
    assert.same({ 2 * M, "all rings take 256M at most" }, { default_ring(128, { root = true, memory = 512 * GIB }) })
    assert.same({ 2 * M, "all rings take a 32nd of the memory at most" },
      { default_ring(4, { root = true, memory = 256 * M }) })
    local limited = { ["/proc/self/cgroup"] = "0::/a/b\n", ["/sys/fs/cgroup/a/b/memory.max"] = "max\n",
      ["/sys/fs/cgroup/a/memory.max"] = tostring(64 * M) .. "\n" }
    assert.same({ 1 * M, "all rings take a 32nd of the memory at most" },
      { default_ring(2, { root = true, memory = 8 * GIB, files = limited }) })
    assert.same({ 2 * M }, { default_ring(2, { root = true }) }) -- no /proc/meminfo
  end)
end)

describe("a session without a ring size", function()
  local function opened(k, opts, callbacks)
    local said, size = {}, nil
    k:with(function()
      opts = opts or {}
      opts.cpus, opts.log = { 0 }, function(level, text) said[#said + 1] = level .. " " .. text:match "^[^\n]*" end
      local s = perfev.session(opts)
      s:event { "cpu-clock", sample = callbacks or function() end }
      assert(s:start())
      size = s:totals().ring_bytes
      s:close()
    end)
    assert.same({}, k:leaks())
    return size, table.concat(said, "\n")
  end

  it("takes the default, and says at -v what limits it", function()
    local size, said = opened(machine { root = true, memory = 8 * GIB })
    assert.equal(8 * M, size)
    assert.is_nil(said:find("rings of", 1, true))
    size, said = opened(machine { root = true, memory = 128 * M })
    assert.equal(4 * M, size)
    assert.matches("1 rings of 4M on 1 CPUs: all rings take a 32nd of the memory at most", said)
  end)

  it("takes 2 MiB if only aggregators take records, and nothing keeps them", function()
    local k, by_cpu = machine { root = true, memory = 8 * GIB }, { by = { "cpu" } }
    assert.equal(2 * M, (opened(k, nil, perfev.count(by_cpu))))
    assert.equal(8 * M, (opened(k, { overwrite = true }, perfev.count(by_cpu))))
    local path = os.tmpname()
    assert.equal(8 * M, (opened(k, { record = path }, perfev.count(by_cpu))))
    os.remove(path)
  end)

  it("halves it while the kernel has no memory for it, and says so at -v", function()
    local k = machine { root = true, memory = 8 * GIB }
    local mmap, refused = k.hooks.mmap, 0
    k.hooks.mmap = function(len, ...)
      if len > 2 * M + 4 * K then
        refused = refused + 1
        return nil, E.ENOMEM
      end
      return mmap(len, ...)
    end
    local size, said = opened(k)
    assert.same({ 2 * M, 2 }, { size, refused })
    assert.matches("1 ring on cpu 0: 2048 KiB instead of 8192 KiB, as much as the kernel has memory for", said)
    assert.matches("0 ring on cpu 0: 2048 KiB instead of 4096 KiB", (select(2, opened(k, { buffer = "4M" }))))
  end)
end)

describe("the memory where records wait", function()
  it("is a 32nd of the machine's, between 128 and 512 MiB", function()
    assert.equal(128 * M, ring_memory.default_waiting(1 * GIB))
    assert.equal(128 * M, ring_memory.default_waiting(nil))
    assert.equal(256 * M, ring_memory.default_waiting(8 * GIB))
    assert.equal(512 * M, ring_memory.default_waiting(64 * GIB))
  end)
end)
