-- Functions of a JIT compiler, by its jit-PID.dump: the name that was at the address at the sample's time, live and in
-- recordings; who may have written the file; hostile bytes.

local core = require "perfev.core"
local jit_dump = require "perfev.symbol.jit_dump"
local perfev = require "perfev"
local sim = require "perfev.sim"

local stories = require "spec.support.story"(setup, teardown)
local USER, MS, LIVE = -512, 1000000, 1000000000000 -- LIVE: the simulated clock at the beginning
local MONOTONIC = { use_clockid = true, clockid = 1 }
local PATH = "/tmp/jit-7.dump"

-- ---- the bytes of a dump, in a byte order ----

local function header(form, flags)
  return string.pack(form .. "I4I4I4I4I4I4I8I8", 0x4a695444, 1, 40, 62, 0, 7, 0, flags or 0)
end

local function record(form, id, time, body) return string.pack(form .. "I4I4I8", id, 16 + #body, time) .. body end

local function load(form, time, address, size, index, name)
  return record(form, 0, time, string.pack(form .. "I4I4I8I8I8I8z", 7, 7, address, address, size, index, name)
    .. ("\x90"):rep(size))
end

local function move(form, time, from, to, size, index)
  return record(form, 1, time, string.pack(form .. "I4I4I8I8I8I8I8", 7, 7, to, from, to, size, index))
end

local function lines(form, time, address, list)
  local body = { string.pack(form .. "I8I8", address, #list) }
  for i, one in ipairs(list) do body[i + 1] = string.pack(form .. "I8i4i4z", one[1], one[2], 0, one[3]) end
  return record(form, 2, time, table.concat(body))
end

local function close(form, time) return record(form, 3, time, "") end

local CODE = 0x50000

-- first at CODE from 3 ms on, second in its place from 5 ms on, which moves away at 7 ms.
local function dump_of(base, form)
  return header(form) .. load(form, base + 3 * MS, CODE, 0x100, 1, "first") .. record(form, 4, 0, ("u"):rep(24))
    .. load(form, base + 3 * MS, CODE + 0x100, 0x40, 2, "beside") .. load(form, base + 5 * MS, CODE, 0x80, 3, "second")
    .. move(form, base + 7 * MS, CODE, CODE + 0x400, 0x80, 3) .. close(form, base + 20 * MS)
end

local function marker(path) return stories.mmap(7, 0x20000, 0x1000, path or PATH) end
local function memory() return stories.mmap(7, CODE, 0x1000, "//anon", { ino = 0, maj = 0, min = 0 }) end
local function at(address) return stories.sample(7, { USER, address }) end

-- At 4 ms, then each ms.
local STORY = { stories.exec(7, "js"), marker(), memory(), at(CODE + 8), at(CODE + 8), at(CODE + 0x90), at(CODE + 8),
  at(CODE + 0x408), at(CODE + 0x108), at(CODE + 0x900) }

local function shown(r)
  local frame = r.stack[1]
  assert.equal(frame.symbol, r.symbol)
  return ("%s+%s %s"):format(frame.symbol, frame.offset, frame.module)
end

local EXPECTED = { "first+8 " .. PATH, "second+8 " .. PATH, "nil+nil " .. PATH, "nil+nil " .. PATH,
  "second+8 " .. PATH, "beside+8 " .. PATH, "nil+nil " .. PATH }

-- Runs steps, 1 ms each, on the simulated kernel with a session; returns what f(k) returns at the end.
local function run_live(steps, bytes, sample, f, more)
  local k = sim.new { cpus = "0" }
  k.files[PATH] = bytes
  return k:with(function()
    local s = perfev.session { duration = "400ms" }
    s:event { type = 1, config = 0, sample_period = 1, callchain = true, use_clockid = true, clockid = 1,
      sample = sample }
    for i, step in ipairs(steps) do
      k:after(i * MS, function() k:ring(0):push(stories.copied(step)) end)
    end
    if more then k:after(250 * MS, function() more(k) end) end
    assert(s:run())
    return f(k)
  end)
end

describe("the dump of a JIT compiler", function()
  for _, form in ipairs { "<", ">" } do
    it("names the function that was there when a sample was taken: " .. form, function()
      local live, file = {}, {}
      stories.simulated(STORY, function(r) live[#live + 1] = shown(r) end,
        { words = MONOTONIC, files = { [PATH] = dump_of(LIVE, form) } })
      local said = stories.recorded(STORY, function(r) file[#file + 1] = shown(r) end,
        { words = MONOTONIC, files = { [PATH] = dump_of(0, form) } })
      -- The end of first at 6 ms was freed with it; second has left its place at 7 ms.
      assert.same(EXPECTED, live)
      assert.same(EXPECTED, file)
      assert.same({}, said)
    end)
  end

  it("gives aggregators the same names", function()
    local a = perfev.count { by = { "symbol", "caller" }, skip = "^first$" }
    local values = run_live(STORY, dump_of(LIVE, "<"), a, function()
      return { a:get("first", "[unknown]"), a:get("second", "second"), a:get("beside", "beside"),
        a:get("[jit-7.dump]", "[jit-7.dump]") }
    end)
    assert.same({ 1, 2, 1, 3 }, values)
  end)

  it("gives the newest function if its times are of another clock, or the recording's are", function()
    local names = {}
    local function see(r) names[#names + 1] = r.stack[1].symbol or "?" end
    stories.recorded(STORY, see, { files = { [PATH] = dump_of(0, "<") } })
    assert.same({ "?", "?", "?", "?", "second", "beside", "?" }, names)
    names = {}
    stories.recorded(STORY, see, { words = MONOTONIC, files = {
      [PATH] = header("<", 1) .. load("<", 99 * MS, CODE, 0x100, 1, "first"),
    } })
    assert.same({ "first", "first", "first", "first", "?", "?", "?" }, names)
  end)

  it("is inherited by a forked process, and dropped at exec", function()
    local seen = {}
    stories.recorded({ STORY[1], STORY[2], STORY[3], stories.fork(8, 7), stories.sample(8, { USER, CODE + 8 }),
      stories.exec(8, "other"), stories.mmap(8, CODE, 0x1000, "//anon"), stories.sample(8, { USER, CODE + 8 }) },
      function(r) seen[#seen + 1] = shown(r) end, { files = { [PATH] = header "<"
        .. load("<", 1, CODE, 0x100, 1, "first") } })
    assert.same({ "first+8 " .. PATH, "nil+nil //anon" }, seen)
  end)

  it("is read again for addresses that it did not have, as it grows", function()
    local names, whole = {}, dump_of(LIVE, "<")
    local function grow(k)
      for _, file in pairs(k.fds) do
        if file.text == k.files[PATH] then file.text = whole end
      end
      for _ = 1, 4 do k:ring(0):push(stories.copied(at(CODE + 0x108))) end
    end
    run_live({ STORY[1], marker(), memory(), at(CODE + 8), at(CODE + 8) }, whole:sub(1, 50),
      function(r) names[#names + 1] = r.stack end, function()
        -- C had no function for the first two when they came: the name is the newest one, which has left.
        assert.is_nil(names[1][1].symbol)
        assert.equal("beside", names[#names][1].symbol)
        assert.equal(6, #names)
      end, grow)
  end)

  it("has the source line of an address, also if V8 wrote it", function()
    local form = "<"
    local list = { { CODE, 10, "/src/a.js" }, { CODE + 0x20, 11, "\255" }, { CODE + 0x40, 7, "/src/b.js" } }
    local shifted = { { CODE + 0x40, 20, "/src/v8.js" }, { CODE + 0x50, 21, "/src/v8.js" } }
    local freed = { { CODE, 1, "\1\2" } }
    for _, case in ipairs {
      { list, CODE + 0x1f, "/src/a.js:10" }, { list, CODE + 0x20, "/src/a.js:11" },
      { list, CODE + 0x60, "/src/b.js:7" }, { shifted, CODE + 0x0f, "/src/v8.js:20" },
      { shifted, CODE + 0x10, "/src/v8.js:21" }, { freed, CODE, "f" }, { {}, CODE, "f" },
    } do
      local a = perfev.count { by = "line" }
      local bytes = header(form) .. lines(form, LIVE, CODE, case[1]) .. load(form, LIVE, CODE, 0x100, 1, "f")
      local row = run_live({ STORY[1], marker(), memory(), at(case[2]) }, bytes, a, function() return a:rows()[1] end)
      assert.equal(case[3], row.line)
    end
  end)

  it("may contain any bytes: what can be read is used", function()
    local good = load("<", 1, CODE, 0x100, 1, "good")
    local function name_in(bytes)
      local dump = core.jit_dump(7, PATH)
      local ok, why = dump:read(bytes)
      return dump:find(CODE), ok or why
    end
    local DAMAGED = "it is damaged, or of an unknown version"
    assert.same({ "good", 0 }, { name_in(header "<" .. good) })
    assert.same({ n = 2, nil, DAMAGED }, table.pack(name_in(("x"):rep(100))))
    assert.same({ n = 2, nil, 0 }, table.pack(name_in(header("<"):sub(1, 39))))
    for _, head in ipairs { { 2, 40 }, { 1, 39 } } do -- the version, the size
      local bytes = string.pack("<I4I4I4", 0x4a695444, head[1], head[2]) .. ("\0"):rep(28)
      assert.same({ n = 2, nil, DAMAGED }, table.pack(name_in(bytes)))
    end
    assert.same({ "good", DAMAGED }, { name_in(header "<" .. good .. string.pack("<I4I4I8", 0, 15, 0)) })
    -- Records that are too short, without a name or a size, or of unknown kinds and functions, are skipped.
    for _, bad in ipairs { record("<", 0, 1, "short"), record("<", 1, 1, "short"), record("<", 2, 1, "short"),
      load("<", 1, CODE, 0x100, 2, ""), load("<", 1, CODE, 0, 2, "empty"), move("<", 1, CODE, 0x1000, 8, 77),
      record("<", 99, 1, ("y"):rep(5000)), load("<", 1, -1, 0x100, 2, "at the end") } do
      assert.same({ "good", 0 }, { name_in(header "<" .. bad .. good) })
    end
    -- A length that leads behind the end: the rest is waited for.
    assert.same({ "good", 0 }, { name_in(header "<" .. good .. string.pack("<I4I4I8", 4, 0xffffffff, 0) .. "z") })
    local long = load("<", 1, CODE, 0x100, 1, ("n"):rep(100000))
    assert.equal(("n"):rep(4095), (name_in(header "<" .. long)))
  end)

  it("is read in parts, wherever they end", function()
    local bytes = dump_of(0, "<")
    local dump = core.jit_dump(7, PATH)
    for last = 1, #bytes do
      local from = dump:offset()
      if from < last then assert(dump:read(bytes:sub(from + 1, last))) end
    end
    assert.equal(#bytes, dump:offset())
    assert.same({ "beside", CODE + 0x100 }, { dump:find(CODE + 0x13f) })
    assert.same({ "second", CODE + 0x400 }, { dump:find(CODE + 0x47f) })
    assert.is_nil((dump:find(CODE)))
  end)

  it("may have indexes that collide: then those of old functions are forgotten, and cannot move", function()
    local inverse = 0x9e3779b97f4a7c15 -- of the factor of the hash, modulo 2^64
    for _ = 1, 6 do inverse = inverse * (2 - 0x9e3779b97f4a7c15 * inverse) end
    local dump, bytes = core.jit_dump(7, PATH), { header "<" }
    for i = 1, 400 do bytes[#bytes + 1] = load("<", 1, CODE + 16 * i, 16, i * inverse, "f" .. i) end
    for _, i in ipairs { 1, 300, 400 } do
      bytes[#bytes + 1] = move("<", 2, CODE + 16 * i, CODE + 0x10000 + 16 * i, 16, i * inverse)
    end
    assert(dump:read(table.concat(bytes)))
    for i = 1, 400 do
      local moved = (i == 1 or i == 400) and 0x10000 or 0
      assert.equal("f" .. i, (dump:find(CODE + 16 * i + moved)))
      assert.is_nil((dump:find(CODE + 16 * i + 0x10000 - moved)))
    end
  end)

  it("with too many functions keeps the first ones", function()
    local one = load("<", 1, CODE, 0x10, 1, "f")
    local dump = core.jit_dump(7, PATH)
    assert(dump:read(header "<" .. one:rep(1 << 20)))
    local ok, why, code = dump:read(one)
    assert.same({ nil, "it has more than 1048576 functions, or their names more than 64 MiB", core.errno.EFBIG },
      { ok, why, code })
    assert.equal("f", (dump:find(CODE)))
  end)
end)

describe("the file of a dump", function()
  local OWN = 1000
  local k, fstat
  before_each(function()
    k = sim.new()
    fstat = k.hooks.fstat
    k.files["/proc/7/maps"] = "00020000-00021000 r-xp 00000000 08:01 11  " .. PATH .. "\n"
      .. "00050000-00051000 r-xp 00000000 00:00 0 \n"
    k.files["/proc/7/status"] = "Name:\tjs\nUid:\t5\t6\t7\t1000\nNSpid:\t7\n"
    k.files[PATH] = header "<" .. load("<", 1, CODE, 0x100, 1, "made")
  end)

  -- The name of a function in it and the notes, where fstat(2) of the dump has these fields.
  local function named(stat)
    local said = {}
    k.hooks.fstat = function(fd)
      local st = fstat(fd)
      for name, value in pairs(stat or {}) do st[name] = value end
      return st
    end
    perfev.symbol.log = function(_, text) said[#said + 1] = text end
    finally(function() perfev.symbol.log = nil end)
    return k:with(function() return (perfev.symbol.process(7, CODE + 0x10)) end), said
  end

  it("is used if it belongs to root, to the fsuid of the process or to the caller", function()
    for _, uid in ipairs { 0, OWN } do assert.same({ "made", {} }, { named { uid = uid } }) end
  end)

  it("is not used if it belongs to another user, is a link or not a regular file", function()
    local TRY = "\n  try: rm " .. PATH
    local function is_refused(why, stat)
      local name, said = named(stat)
      assert.is_nil(name)
      assert.same({ PATH .. " is not used: " .. why .. TRY }, said)
    end
    is_refused("it belongs to user 5, and the process to user 1000", { uid = 5 })
    is_refused("it is not a regular file", { mode = 0x1180 })
    k.links[PATH] = "/etc/shadow"
    is_refused "it is a symbolic link"
  end)

  it("is found in the root of the process, by the path of the mapping", function()
    k.links["/proc/7/root"], k.links["/proc/self/root"] = "/srv/inside", "/"
    k.files["/proc/7/root" .. PATH] = header "<" .. load("<", 1, CODE, 0x100, 1, "inside")
    assert.equal("inside", (named()))
  end)

  it("that is damaged is reported with the place, and used up to there", function()
    k.files[PATH] = k.files[PATH] .. ("\0"):rep(16)
    local name, said = named()
    assert.equal("made", name)
    local place = 40 + 56 + 5 + 0x100
    assert.same({ ("%s is used up to byte %d: it is damaged, or of an unknown version"):format(PATH, place) }, said)
  end)

  it("has the code of a function, unless the record's lengths contradict each other", function()
    local dumps = jit_dump.new(false)
    local function code()
      return k:with(function() return jit_dump.code(dumps, 7, 40, print) end)
    end
    k:with(function() assert.equal("made", (jit_dump.find(dumps, 7, CODE, print))) end)
    local whole = k.files[PATH]
    assert.same({ 62, ("\x90"):rep(0x100) }, { code() })
    for _, length in ipairs { -1, math.mininteger, math.maxinteger, 0x105 } do
      k.files[PATH] = whole:sub(1, 80) .. string.pack("<i8", length) .. whole:sub(89)
      dumps = jit_dump.new(false)
      k:with(function() jit_dump.find(dumps, 7, CODE, print) end)
      assert.is_nil((code()))
    end
  end)

  it("is not taken for a marker by another name", function()
    for _, path in ipairs { "/tmp/jit-.dump", "/tmp/jit-7.dumb", "/tmp/xjit-7.dump", "/tmp/jit-7x.dump" } do
      local seen
      stories.recorded({ STORY[1], marker(path), memory(), at(CODE + 8) }, function(r) seen = r.symbol end,
        { files = { [path] = header "<" .. load("<", 1, CODE, 0x100, 1, "made") } })
      assert.is_nil(seen)
    end
    assert.same({}, jit_dump.new(false).of)
  end)
end)
