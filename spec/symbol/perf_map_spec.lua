-- Functions generated at run time, by perf-PID.map, a file that every user may write.

local core = require "perfev.core"
local jit = require "perfev.symbol.perf_map"
local sim = require "perfev.sim"
local perfev = require "perfev"

-- The symbol at each address, "name+offset" or false.
local function found(text, ...)
  local map, list = core.perf_map(text), {}
  for i, address in ipairs { ... } do
    local name, start = map:find(address)
    list[i] = name and ("%s+%x"):format(name, address - start) or false
  end
  return list
end

describe("a perf map", function()
  it("lists a function on each line, in any order; its name is the rest of the line", function()
    assert.same({ "b c;d+0", "b c;d+f", false, "a+1" },
      found("1000 2 a\n200 10 b c;d\n", 0x200, 0x20f, 0x210, 0x1001))
  end)

  it("may lack its last line end, and accepts both cases and an optional 0x", function()
    assert.same({ "a+0", "b+1" }, found("0xAbC 0x1 a\nDEF 2 b", 0xabc, 0xdf0))
  end)

  it("gives the newest of overlapping functions, and an older one where that ends", function()
    local text = "1000 1000 old\n1100 100 newer\n1000 10 newest\n1000 0 none\n"
    assert.same({ "newest+f", "old+10", "newer+0", "old+200" }, found(text, 0x100f, 0x1010, 0x1100, 0x1200))
  end)

  it("gives a long function in the place of shorter, older ones", function()
    assert.same({ "new+0", "new+280" }, found("1000 200 one\n1200 200 two\n1000 400 new\n", 0x1000, 0x1280))
  end)

  it("is searched at most 64 functions back", function()
    local lines = { "1000 1000 under" }
    for i = 1, 100 do lines[#lines + 1] = ("%x 1 f%d"):format(0x1000 + 2 * i, i) end
    local text = table.concat(lines, "\n")
    assert.same({ "under+5", "f100+0", false }, found(text, 0x1005, 0x10c8, 0x10c9))
  end)

  it("may contain any bytes: invalid lines are skipped", function()
    for _, line in ipairs { "", " ", "x", "1000", "1000 ", "1000 10", "1000 10 ", " 1000 10 a", "1000  10 a", "0x 10 a",
      "1000 0x a", "1000 -10 a", "1000\t10\ta", "g000 10 a", "10000000000001000 10 a", "1000 10000000000000010 a",
      "\0001000 10 a", ("\255\0\127"):rep(1000), ("f"):rep(100000), (" 1000"):rep(100000) } do
      assert.same({ false, "after+0" }, found(line .. "\n3000 1 after\n", 0x1000, 0x3000), line:sub(1, 40))
      assert.same({ false }, found(line, 0x1000), line:sub(1, 40))
    end
    assert.same({ "a\0b\r+0" }, found("1000 1 a\0b\r\n", 0x1000))
    assert.same({ ("x"):rep(4096) .. "+0" }, found("1000 1 " .. ("x"):rep(100000), 0x1000))
  end)

  it("may list functions at and beyond the last address", function()
    assert.same({ "a+1", "b+1000", false }, found("fffffffffffffff0 ffff a\n8000000000000000 2000 b\n",
      -15, math.mininteger + 0x1000, 0x1000))
    assert.same({}, found("ffffffffffffffff ffffffffffffffff a\n"))
  end)

  it("may be empty or large", function()
    assert.same({ false, false }, found("", 0, -1))
    local lines = {}
    for i = 1, 100000 do
      lines[i] = ("%x 10 function number %d"):format(0x7f0000000000 + 16 * (i * 7919 % 100000), i)
    end
    assert.same({ "function number 1+3" }, found(table.concat(lines, "\n"), 0x7f0000000000 + 16 * 7919 + 3))
  end)

  it("with too many functions is refused as a whole instead of showing outdated ones", function()
    local map, why, code = core.perf_map(("1 1 a\n"):rep((2 << 20) + 1))
    assert.same({ nil, "it has more than 2097152 functions", core.errno.EFBIG }, { map, why, code })
    assert.equal("a", (core.perf_map(("1 1 a\n"):rep(2 << 20)):find(1)))
  end)
end)

describe("the perf map of a process", function()
  local OWN = 1000 -- its user
  local k, fstat
  before_each(function()
    k = sim.new()
    fstat = k.hooks.fstat
    k.files["/proc/7/maps"] = "00030000-00031000 r-xp 00000000 00:00 0 \n"
    k.files["/proc/7/status"] = "Name:\tjit\nUid:\t5\t6\t7\t1000\nNSpid:\t7\n"
    k.files["/tmp/perf-7.map"] = "30000 100 made\n"
  end)

  -- The name of a function in it and the notes, where fstat(2) of the map has these fields.
  local function named(stat)
    local said = {}
    k.hooks.fstat = function(fd)
      local st = fstat(fd)
      for name, value in pairs(stat or {}) do st[name] = value end
      return st
    end
    perfev.symbol.log = function(_, text) said[#said + 1] = text end
    finally(function() perfev.symbol.log = nil end)
    return k:with(function() return (perfev.symbol.process(7, 0x30010)) end), said
  end
  local function is_refused(why, stat)
    k.counts.pread = nil
    local name, said = named(stat)
    assert.is_nil(name)
    assert.same({ "/tmp/perf-7.map is not used: " .. why }, said)
    assert.is_nil(k.counts.pread)
  end
  local TRY = "\n  try: rm /tmp/perf-7.map"

  it("is used if it belongs to root or to the fsuid of the process", function()
    for _, uid in ipairs { 0, OWN } do assert.same({ "made", {} }, { named { uid = uid } }) end
  end)

  it("is not used if it belongs to another user, not even to another uid of the process", function()
    for _, uid in ipairs { 5, 6, 7, 65534 } do
      is_refused(("it belongs to user %d, and the process to user %d"):format(uid, OWN) .. TRY, { uid = uid })
    end
  end)

  it("is used if it belongs to the caller, or to the user who called sudo", function()
    k.files["/proc/self/status"] = "Name:\tperfl\nUid:\t1\t77\t1\t1\n"
    assert.equal("made", (named { uid = 77 }))
    local getenv = os.getenv
    finally(function() os.getenv = getenv end) -- luacheck: ignore
    os.getenv = function(name) return name == "SUDO_UID" and "1234" or getenv(name) end -- luacheck: ignore
    is_refused("it belongs to user 1234, and the process to user 1000" .. TRY, { uid = 1234 })
    k.files["/proc/self/status"] = "Name:\tperfl\nUid:\t0\t0\t0\t0\n"
    assert.equal("made", (named { uid = 1234 }))
  end)

  it("of an ended process is used only if it belongs to root", function()
    k.hooks.slurp = (function(slurp)
      return function(path)
        if path == "/proc/7/status" then return nil, core.errno.ENOENT end
        return slurp(path)
      end
    end)(k.hooks.slurp)
    is_refused("it belongs to user 1000, and the process is gone" .. TRY, { uid = OWN })
    assert.same({ "made", {} }, { named { uid = 0 } })
  end)

  it("must be a regular file: no other file is read", function()
    is_refused("it is not a regular file" .. TRY, { mode = 0x1180 })
    is_refused("it is not a regular file" .. TRY, { mode = 0x2180 })
    is_refused("it is a directory", { mode = 0x41ff })
    k.links["/tmp/perf-7.map"] = "/etc/shadow"
    is_refused("it is a symbolic link" .. TRY)
  end)

  it("must not be too large", function()
    is_refused("it is larger than 128 MiB", { size = 10 << 30 })
    is_refused("it is larger than 128 MiB", { size = (128 << 20) + 1 })
    k.files["/tmp/perf-7.map"] = ("1 1 a\n"):rep((2 << 20) + 1)
    assert.same({ n = 2, nil, { "/tmp/perf-7.map is not used: it has more than 2097152 functions" } },
      table.pack(named()))
  end)

  it("is not used if all maps together would be too large", function()
    local maps, said = jit.new(false), {}
    local function look(pid)
      return k:with(function() return (jit.find(maps, pid, 0x30010, function(text) said[#said + 1] = text end)) end)
    end
    maps.bytes = 256 << 20
    assert.is_nil(look(7))
    assert.same({ "/tmp/perf-7.map is not used: the maps of all processes are larger than 256 MiB" }, said)
    maps.bytes = (256 << 20) - 15
    assert.equal("made", look(7))
  end)

  it("is read again only after it has grown", function()
    local maps = jit.new(false)
    local function look(address)
      return k:with(function() return (jit.find(maps, 7, address, error)) end)
    end
    assert.equal("made", look(0x30010))
    local reads = k.counts.pread
    assert.is_nil(look(0x30200))
    assert.equal(reads, k.counts.pread)
    k.files["/tmp/perf-7.map"] = "30000 100 made\n30200 100 more\n"
    look(0x30210)
    assert.equal("more", look(0x30210))
    assert.equal(#k.files["/tmp/perf-7.map"], maps.bytes)
  end)

  it("is named by the pid in its own pid namespace, and looked up in its own root", function()
    k.files["/proc/7/status"] = "Uid:\t0\t0\t0\t0\nNSpid:\t7\t1\n"
    k.files["/tmp/perf-1.map"] = "30000 100 of number 1\n"
    assert.equal("of number 1", (named()))
    k.links["/proc/7/root"], k.links["/proc/self/root"] = "/srv/inside", "/"
    k.files["/proc/7/root/tmp/perf-1.map"] = "30000 100 inside\n"
    assert.equal("inside", (named()))
  end)
end)
