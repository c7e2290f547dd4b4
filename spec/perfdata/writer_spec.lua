-- A session's recording on the simulated kernel: a stream that is readable after every write, a file at the end.

local core = require "perfev.core"
local elf = require "spec.support.elf"
local perfev = require "perfev"
local sim = require "perfev.sim"

local E = perfev.errno
local PATH = "/out/perf.data"
local ROUND = string.pack("=I4I2I2", 68, 0, 8) -- PERF_RECORD_FINISHED_ROUND

local k

local function new_kernel(opts)
  opts = opts or {}
  opts.tasks = { [11] = "eleven", [12] = "twelve" }
  local kernel = sim.new(opts)
  kernel.files["/proc/self/cmdline"] = "perfl\0record\0"
  return kernel
end

before_each(function() k = new_kernel() end)
after_each(function() perfev.hooks.clear() end)

-- ---- the events of a run ----

-- Samples of both CPUs in rounds, some with equal times, and the names of their tasks.
local function happenings(rounds)
  local ip = 0
  k:every("70ms", rounds or 4, function(round)
    for i = 1, 20 do
      ip = ip + 1
      k:ring(i % 2):push { type = "sample", pid = 11, ip = ip, time = k.now - 1000 + i * 40 }
      k:ring((i + 1) % 2):push { type = "sample", pid = 12, ip = 1000 + ip, time = k.now - 1000 + i * 40 }
    end
    k:ring(1):push { type = "comm", pid = 11, comm = "c" .. round }
  end)
end

local function line_of(r) return ("%d %d %d %x"):format(r.time, r.cpu, r.pid, r.ip) end

-- A session that records; returns the lines of its callbacks, itself, and the results of run().
local function run(opts, events)
  local quiet, heard = opts.quiet, {}
  local s, ok, why, code
  k:with(function()
    s = perfev.session { duration = opts.duration or "600ms", record = opts.record or PATH, compress = opts.compress,
                         switch_output = opts.switch_output, switch_max_files = opts.switch_max_files,
                         buffer = opts.buffer, exclude_self = opts.exclude_self }
    for _, spec in ipairs(events or { { "cpu-clock", freq = 99 } }) do
      if not quiet then spec.sample = spec.sample or function(r) heard[#heard + 1] = line_of(r) end end
      s:event(spec)
    end
    ok, why, code = s:run()
  end)
  return heard, s, ok, why, code
end

-- ---- the recording ----

-- The samples of a recording in lines, its records by type, why reading ended early.
local function read(path, opts)
  local lines, types = {}, {}
  return k:with(function()
    local f, why = perfev.open(path or PATH, opts)
    if not f then return nil, why end
    for r in f:records() do
      types[r.type] = (types[r.type] or 0) + 1
      if r.type == "sample" then lines[#lines + 1] = line_of(r) end
    end
    local facts, failed = f.facts, f.error
    local version = f:section "version" -- and the bytes after it
    local section = version and version:sub(5 + string.unpack("=I4", version)):match "^[^\0]*"
    local names, header = {}, { cmdline = f.header.cmdline, sample_time = f.header.sample_time,
                                compressed = f.header.compressed }
    for i, event in ipairs(f.events) do names[i] = event.name end
    f:close()
    return { lines = lines, types = types, facts = facts, error = failed, private = section, names = names,
             header = header }
  end)
end

-- Bytes as a recording of their own.
local function read_bytes(bytes)
  k.files["/cut"] = bytes
  return read "/cut"
end

-- The offset, type and size of each record of a stream.
local function walk(bytes, from, to)
  local list, at = {}, from or 16
  while at < (to or #bytes) do
    local type, _, size = string.unpack("=I4I2I2", bytes, at + 1)
    list[#list + 1] = { type = type, size = size, at = at }
    at = at + size
    if type == 66 then at = at + string.unpack("=I4", bytes, at - 3) end
    assert(size >= 8)
  end
  return list, at
end

-- The file as it was after every write, partial ones cut in their middle as well.
local function watch_writes()
  local images = {}
  local function note(before)
    local now
    for _, file in pairs(k.fds) do
      if file.kind == "file" and (file.path or ""):find("^" .. PATH) then now = file.text end
    end
    if before and now and #now > #before + 1 then
      images[#images + 1] = now:sub(1, (#before + #now) // 2)
    end
    if now then images[#images + 1] = now end
    return now
  end
  local last
  for _, name in ipairs { "writev", "pwrite" } do
    local real = k.hooks[name]
    k.hooks[name] = function(...)
      local n, errno = real(...)
      last = note(last)
      return n, errno
    end
  end
  return images
end

describe("a recording", function()
  it("replays in the order of delivery, ties of two CPUs included", function()
    happenings()
    local heard = run {}
    assert.equal(160, #heard)
    assert.same(heard, read().lines)
  end)

  it("with compression replays in the same order", function()
    happenings()
    local heard, s = run { compress = true }
    local there = read()
    assert.same(heard, there.lines)
    assert.is_true(there.types.compressed > 0)
    assert.equal(there.header.compressed.mmap_len, s:totals().ring_bytes)
  end)

  it("without listeners has all records, which a reader puts in order", function()
    happenings()
    local heard, s = run { quiet = true }
    local there, sorted = read().lines, {}
    assert.equal(0, #heard)
    assert.equal(0, s:totals().records) -- not one was looked at
    assert.equal(160, #there)
    table.move(there, 1, #there, 1, sorted)
    table.sort(sorted, function(a, b) return tonumber(a:match "%d+") < tonumber(b:match "%d+") end)
    for i, line in ipairs(there) do assert.equal(sorted[i]:match "%d+", line:match "%d+") end
    assert.same({ path = PATH, bytes = #k.files[PATH], samples = 160, parts = 1 }, s.recorded)
  end)

  it("without listeners is not ended by a count, and that is reported", function()
    happenings()
    local said = {}
    k:with(function()
      local s = perfev.session { duration = "600ms", count = 5, record = PATH,
        log = function(level, text) if level == 0 then said[#said + 1] = text end end }
      s:event { "cpu-clock", freq = 99 }
      assert(s:run())
      assert.equal(160, s.recorded.samples)
    end)
    assert.equal(1, #said)
    assert.matches("^the count %(%-n%) is of records that callbacks get, and no event has one", said[1])
  end)

  it("has the build ids of mapped files, each name once, but not of guests", function()
    local names = {}
    for i = 1, 300 do
      local name = ("/lib/%03d"):format(i)
      local notes = string.pack("<I4I4I4", 4, 20, 3) .. "GNU\0" .. ("%020d"):format(i)
      k.files[name] = elf.notes_file { bits = 64, order = "<", align = 4, offset = 120, notes = notes }
      k.inodes[name] = 1000 + i
      names[i] = name .. " " .. ("%020d"):format(i):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
    end
    local function map(name, misc)
      k:ring(0):push { type = "mmap2", misc = misc or 2, pid = 11, tid = 11, addr = 0, len = 4096, pgoff = 0, maj = 0,
                       min = 1, ino = k.inodes[name], ino_generation = 0, prot = 5, flags = 2, filename = name }
    end
    k:every("20ms", 25, function(round)
      for i = 1, 12 do map(("/lib/%03d"):format((round - 1) * 12 + i)) end
      map "/lib/001"
      map("/lib/guest", 5)
    end)
    k.files["/lib/guest"], k.inodes["/lib/guest"] = k.files["/lib/001"], 1
    run { quiet = true, buffer = "4K" }
    local f <close> = k:with(perfev.open, PATH)
    local found = {}
    for _, id in ipairs(k:with(function() return f.header.build_ids end)) do
      found[#found + 1] = id.filename .. " " .. id.build_id
    end
    assert.same(names, found)
  end)

  it("reports that program build ids are missing without libelf", function()
    local module, said = package.loaded["perfev.elf"], {}
    package.loaded["perfev.elf"] = nil
    package.preload["perfev.elf"] = function() error "not found" end
    k:every("20ms", 2, function()
      k:ring(0):push { type = "mmap2", misc = 2, pid = 11, tid = 11, addr = 0, len = 4096, pgoff = 0, maj = 0, min = 1,
                       ino = 1, ino_generation = 0, prot = 5, flags = 2, filename = "/lib/a" }
    end)
    k:with(function()
      local s = perfev.session { duration = "600ms", record = PATH,
        log = function(level, text) if level == 0 then said[#said + 1] = text end end }
      s:event { "cpu-clock", freq = 99 }
      assert(s:run())
    end)
    package.preload["perfev.elf"], package.loaded["perfev.elf"] = nil, module
    assert.same({ PATH .. ": no build-ids of programs are recorded: the module perfev.elf (libelf) is not installed "
      .. "beside perfev" }, said)
  end)

  -- The kernel leaves the bit of one event's build id in the header that it re-uses for the next event.
  local LEAKED = 0x4002

  -- The MMAP2 records of map(): { misc =, ino =, build_id =, filename = }
  local function maps_of(path)
    local list = {}
    k:with(function()
      local f <close> = assert(perfev.open(path))
      for r in f:records { types = { "mmap2" }, user = false } do
        if r.filename:find "^/leak/" then
          list[#list + 1] = { misc = r.misc, ino = r.ino, build_id = r.build_id, filename = r.filename }
        end
      end
    end)
    return list
  end

  local function map(i, more)
    local t = { type = "mmap2", misc = LEAKED, pid = 11, tid = 11, addr = 0, len = 4096, pgoff = 0, maj = 8, min = 1,
                ino = i, ino_generation = 0, prot = 5, flags = 2, filename = "/leak/" .. ("x"):rep(i % 60) .. i }
    for name, value in pairs(more or {}) do t[name] = value end
    return t
  end

  for _, way in ipairs { { "as it is" }, { "compressed", compress = 1 } } do
    it("has no build-id bits that its event did not request, " .. way[1], function()
      if way.compress and not pcall(require, "perfev.zstd") then pending "perfev.zstd is not built" end
      local nr = 0
      k:every("20ms", 25, function()
        for _ = 1, 12 do
          nr = nr + 1
          k:ring(0):push(map(nr))
        end
      end)
      run { quiet = true, buffer = "4K", compress = way.compress }
      local list = maps_of(PATH)
      assert.equal(300, #list)
      for i, one in ipairs(list) do
        assert.same({ misc = 2, ino = i, filename = map(i).filename }, one)
      end
    end)
  end

  it("keeps the build id of an event that requested it", function()
    local id = ("\xab"):rep(20)
    k:after("70ms", function() k:ring(0):push(map(1, { event = { build_id = true }, build_id = id })) end)
    run({ quiet = true }, { { "dummy", mmap = true, mmap2 = true, build_id = true, sample_period = 0 } })
    assert.same({ { misc = LEAKED, build_id = id, filename = map(1).filename } }, maps_of(PATH))
  end)

  it("has records that waited outside of their ring in the order of delivery", function()
    local ip = 0
    k:every("2ms", 100, function()
      for i = 1, 30 do
        ip = ip + 1
        k:ring(ip % 2):push { type = "sample", pid = 11, ip = ip, time = k.now + i }
      end
    end)
    local heard, s = run { buffer = "4K" }
    assert.equal(3000, #heard)
    assert.equal(0, s:totals().lost)
    assert.equal(0, s:totals().late)
    assert.same(heard, read().lines)
    assert.equal(3000, s.recorded.samples)
  end)

  -- Bursts that a ring of one page cannot hold; a LOST record reports only the first.
  local function overflow()
    for _, after in ipairs { "70ms", "140ms", "400ms" } do
      k:after(after, function()
        for ip = 1, 100 do k:ring(0):push { type = "sample", pid = 11, ip = ip } end
        for pid = 100, 104 do k:ring(0):push { type = "exit", pid = pid, tid = pid } end
      end)
    end
  end

  local function replayed(path)
    local told, ends = 0, 0
    return k:with(function()
      local s = perfev.session { input = path }
      s:event { "cpu-clock", sample = function() end, lost = function(r)
        told, ends = told + r.lost, ends + (r.at_end and 1 or 0)
      end }
      assert(s:run())
      return s:totals(), told, ends
    end)
  end

  it("has the losses reported only at the end, as perf record writes them", function()
    overflow()
    local _, s = run { buffer = "4K" }
    local stats, counts = s:totals(), {}
    assert.is_true(stats.lost > 0)
    assert.equal(15, stats.lost_own)
    k:with(function()
      local f <close> = perfev.open(PATH)
      for r in f:records() do
        if r.type == "lost_samples" then
          counts[#counts + 1] = { r.lost, r.misc, r.time, r.event.name, r.synthesised }
        end
      end
      assert.equal(stats.lost, f:totals().lost)
      assert.equal(0, f:totals().lost_samples)
    end)
    assert.same({ { stats.lost, 0, 0, "cpu-clock", true } }, counts)
  end)

  it("reports the same losses in a replay as live, also to `lost`", function()
    overflow()
    local _, s = run { buffer = "4K" }
    local live, stats, told, ends = s:totals(), replayed(PATH)
    assert.equal(live.lost, stats.lost)
    assert.equal(live.lost_own, stats.lost_own)
    assert.equal(live.lost_samples, stats.lost_samples)
    assert.equal(live.lost + live.lost_own, told)
    assert.equal(1, ends)
  end)

  it("that lost only the session's own records reports no other loss", function()
    k:after("70ms", function()
      for pid = 100, 199 do k:ring(0):push { type = "exit", pid = pid, tid = pid } end
    end)
    k:after("400ms", function() k:ring(0):push { type = "sample", pid = 11, ip = 1 } end)
    local _, s = run { buffer = "4K" }
    local live, stats = s:totals(), replayed(PATH)
    assert.equal(0, live.lost)
    assert.is_true(live.lost_own > 0)
    assert.equal(0, stats.lost)
    assert.equal(live.lost_own, stats.lost_own)
  end)

  it("in parts has in each part its own losses", function()
    overflow()
    local _, s = run { buffer = "4K", switch_output = 1000 }
    local sum, parts = 0, 0
    for path in pairs(k.files) do
      if path:find(PATH, 1, true) == 1 then sum, parts = sum + replayed(path).lost, parts + 1 end
    end
    assert.is_true(parts > 1)
    assert.equal(s:totals().lost, sum)
  end)

  it("has a late record in the place of its delivery", function()
    happenings()
    k:after("450ms", function() k:ring(0):push { type = "sample", pid = 11, ip = 0xbad, time = k.now - 300000000 } end)
    local heard, s = run {}
    assert.equal(1, s:totals().late)
    assert.same(heard, read().lines)
  end)

  it("has the records that waited in memory while callbacks were slower than the kernel", function()
    local written = 0
    local function write()
      if written >= 12000 then return end
      written = written + 1
      k:ring(0):push { type = "sample", pid = 11, ip = written, time = k.now - 100000000 + written }
    end
    local heard = {}
    k:after("70ms", function() for _ = 1, 200 do write() end end)
    local _, s = run({ duration = "2s", buffer = "64K" }, { { "cpu-clock", freq = 99, sample = function(r)
      heard[#heard + 1] = line_of(r)
      write()
      write()
    end } })
    assert.equal(12000, #heard)
    assert.equal(0, s:totals().lost)
    assert.same(heard, read().lines)
  end)

  it("without listeners has slowly written records in their place", function()
    -- written 6 ms after a younger one was, and rounds of a millisecond in between
    k:after("70ms", function() k:ring(1):push { type = "sample", pid = 11, ip = 1 } end)
    k:after("76ms", function() k:ring(0):push { type = "sample", pid = 11, ip = 2, time = k.now - 7000000 } end)
    k:with(function()
      local s = perfev.session { duration = "300ms", record = PATH }
      s:event { "cpu-clock" }
      s:every("1ms", function() end)
      assert(s:run())
    end)
    local lines = read().lines
    assert.equal(2, #lines)
    assert.matches(" 2$", lines[1])
  end)

  it("is a file at the end, with its events, names, command line and times", function()
    happenings()
    local heard = run({}, { { "cpu-clock", freq = 99 }, { "page-faults", period = 1 } })
    local there = read()
    assert.is_false(there.facts.pipe)
    assert.same({ "cpu-clock", "page-faults", "dummy" }, there.names)
    assert.same({ "perfl", "record" }, there.header.cmdline)
    assert.equal(tonumber(heard[1]:match "%d+"), there.header.sample_time.first)
    assert.equal(tonumber(heard[#heard]:match "%d+"), there.header.sample_time.last)
  end)

  it("starts with the tasks that existed before", function()
    happenings()
    run {}
    local bytes = k.files[PATH]
    local data = string.unpack("=I8", bytes, 41)
    local first = walk(bytes, data, data + 8)[1]
    assert.equal(1, first.type) -- the kernel's MMAP
    local comms = {}
    k:with(function()
      local f <close> = perfev.open(PATH)
      for r in f:records { user = false } do
        if r.type == "comm" and r.time == 0 then comms[#comms + 1] = r.comm end
      end
    end)
    table.sort(comms)
    assert.same({ "eleven", "twelve" }, comms)
  end)

  it("includes existing BPF programs if samples can lead to them", function()
    local function told(spec)
      k = new_kernel()
      k:tracepoint("a:b", 300, "int next")
      k.files["/proc/kallsyms"] = "ffffffff81000000 T _text\nffffffffc0001040 t bpf_prog_1_a\t[bpf]\n"
      happenings(1)
      local _, s = run({}, { spec })
      assert(s.recorded)
      return read().types.ksymbol
    end
    assert.equal(1, told { "cpu-clock", freq = 99 })
    assert.equal(1, told { "a:b", callchain = true })
    assert.is_nil(told { "a:b" })
    assert.is_nil(told { "cpu-clock:u", freq = 99 })
  end)

  it("can be read after every write, whole or cut, with the state before it", function()
    for _, compress in ipairs { false, 3 } do
      k = new_kernel()
      happenings()
      local images = watch_writes()
      local heard = run { compress = compress or nil }
      local most, read_whole = 0, 0
      for _, image in ipairs(images) do
        local there = #image > 16 and read_bytes(image)
        if there then
          assert.is_true(#there.lines >= most)
          -- of a round that is cut, some of its rings
          local at, is_round = 0, image:sub(-8) == ROUND
          for i, line in ipairs(there.lines) do
            at = at + 1
            while i > most and not is_round and heard[at] and heard[at] ~= line do at = at + 1 end
            assert.equal(heard[at], line)
          end
          if is_round then
            most = #there.lines
            assert.is_nil(there.error)
            read_whole = read_whole + 1
          end
        end
      end
      assert.equal(#heard, most)
      assert.is_true(#images > 20)
      assert.is_true(read_whole > 5)
    end
  end)

  it("is a valid stream until the write that makes it a file", function()
    happenings()
    local images = watch_writes()
    run {}
    local head = 0
    for _, image in ipairs(images) do
      if #image >= 16 and string.unpack("=I8", image, 9) == 104 then head = head + 1 end
    end
    assert.equal(1, head)
    assert.equal(104, string.unpack("=I8", images[#images], 9))
    -- its data and the bytes before them are records, end to end
    local bytes = images[#images]
    local data, size = string.unpack("=I8I8", bytes, 41)
    local _, stop = walk(bytes, 104, data)
    assert.equal(data, stop)
    _, stop = walk(bytes, data, data + size)
    assert.equal(data + size, stop)
  end)

  it("has its name from the first round, and renames an existing file to FILE.old", function()
    k.files[PATH] = "another"
    happenings()
    local seen = {}
    k:after("60ms", function() seen.before = k.files[PATH] end)
    k:after("300ms", function() seen.after = k.files[PATH] end)
    run {}
    assert.equal("another", seen.before)
    assert.equal("PERFILE2", seen.after:sub(1, 8))
    assert.equal("another", k.files[PATH .. ".old"])
    local names = {}
    for path in pairs(k.files) do names[#names + 1] = path:match("^/out/(.*)") end
    table.sort(names)
    assert.same({ "perf.data", "perf.data.old" }, names)
  end)

  it("that failed to start keeps an existing file, and leaves nothing else", function()
    k.files[PATH] = "another"
    k:fail("ioctl ENABLE", 1, E.EINVAL)
    local _, _, ok = run {}
    assert.is_nil(ok)
    assert.equal("another", k.files[PATH])
    for path in pairs(k.files) do assert.is_nil(path:match "%.new$" or path:match "%.old$") end
  end)

  it("ends if the disk is full, can be read up to there, and reports it", function()
    happenings(8)
    local whole = #(function() run {} return k.files[PATH] end)()
    for room = 0, whole - 1, whole // 23 do
      k = new_kernel { disk = room }
      happenings(8)
      local heard, s, ok, why, code = run {}
      assert.is_nil(ok)
      assert.equal("ENOSPC", E[code] or E[s.record_errno])
      assert.matches("No space left on device", why)
      assert.same({}, k:leaks())
      local there = k.files[PATH] and read()
      if there then
        if there.error then assert.matches("cut short at 0x%x+: .* had not begun", there.error) end
        assert.is_true(not there.error or #there.lines == 0)
        for i, line in ipairs(there.lines) do assert.equal(heard[i], line) end
        assert.equal(#there.lines, s.recorded.samples or 0)
      end
    end
  end)

  it("does not follow a symbolic link, or replace a directory", function()
    k.links[PATH] = "/etc/shadow"
    local _, _, ok, why, code = run {}
    assert.is_nil(ok)
    assert.equal("ELOOP", E[code])
    assert.matches("symbolic link, which is not followed\n  try: the path", why)
    k.links[PATH], k.files[PATH] = nil, E.EISDIR
    _, _, ok, why = run {}
    assert.is_nil(ok)
    assert.matches("Is a directory\n  try: a path of a file", why)
  end)

  it("stays a stream in a FIFO and on standard output", function()
    k.files[PATH] = ""
    k.hooks.fstat = function() return { mode = 0x1180 } end -- S_IFIFO | 0600
    happenings()
    local heard = run {}
    local there = read()
    assert.is_true(there.facts.pipe)
    assert.same(heard, there.lines)
    assert.same({ "cpu-clock", "dummy" }, there.names)
    assert.is_nil(there.error)
  end)

  local function part_names()
    local names = {}
    for path in pairs(k.files) do
      if path:find("^/out/perf%.data") then names[#names + 1] = path end
    end
    table.sort(names)
    return names
  end

  it("starts a new part after each given time, and at SIGUSR2", function()
    happenings(6)
    local heard, s = run { switch_output = "1s", duration = "2500ms" }
    assert.equal(3, s.recorded.parts)
    assert.equal(#heard, s.recorded.samples)
    for _, path in ipairs(part_names()) do k.files[path] = nil end
    happenings(6)
    for _, at in ipairs { "110ms", "210ms" } do k:after(at, function() k:signal(12) end) end
    heard, s = run { switch_output = "signal" }
    assert.equal(3, s.recorded.parts)
    assert.equal(#heard, s.recorded.samples)
    assert.equal(3, #part_names())
  end)

  it("keeps the newest parts only, as many as switch_max_files says", function()
    happenings(6)
    local heard, s = run { switch_output = 3000, switch_max_files = 2 }
    local names = part_names()
    assert.equal(2, #names)
    assert.is_true(s.recorded.parts > 3)
    assert.equal(s.recorded.parts - 2, s.recorded.removed)
    local last = read(names[1]).lines -- of FILE and FILE.DATE the one without a date is the newest
    local before = read(names[2]).lines
    table.move(last, 1, #last, #before + 1, before)
    assert.same(table.move(heard, #heard - #before + 1, #heard, 1, {}), before)
  end)

  it("starts a new part at each given size; every part can be read alone", function()
    happenings(6)
    local heard, s = run { switch_output = 3000 }
    local parts, lines = {}, {}
    for path in pairs(k.files) do
      if path:find("^/out/perf%.data%.%d+$") then parts[#parts + 1] = path end
    end
    table.sort(parts)
    parts[#parts + 1] = PATH
    assert.is_true(#parts > 2)
    assert.equal(#parts, s.recorded.parts)
    for _, path in ipairs(parts) do
      local there = read(path)
      assert.is_nil(there.error)
      assert.is_false(there.facts.pipe)
      assert.same({ "cpu-clock", "dummy" }, there.names)
      assert.is_true(there.types.comm >= 2) -- who is who, anew
      local span = there.lines[1] and { first = tonumber(there.lines[1]:match "%d+"),
                                        last = tonumber(there.lines[#there.lines]:match "%d+") }
      assert.same(span, there.header.sample_time)
      table.move(there.lines, 1, #there.lines, #lines + 1, lines)
    end
    assert.same(heard, lines)
    assert.equal(#heard, s.recorded.samples)
  end)

  it("ends with the record at which a callback returned false", function()
    happenings()
    local heard = {}
    local _, s = run({}, { { "cpu-clock", sample = function(r)
      heard[#heard + 1] = line_of(r)
      return #heard < 50
    end } })
    assert.equal(50, #heard)
    assert.same(heard, read().lines)
    assert.equal(50, s.recorded.samples)
  end)

  it("includes records excluded live, and notes the exclusion for a replay", function()
    happenings()
    k.pid = 12
    local heard = run({ exclude_self = true }, { { "cpu-clock" }, { "page-faults", period = 1, optional = true } })
    local there = read()
    assert.equal(160, #there.lines / 2)
    assert.equal(160, #heard)
    assert.equal("recorder perfl\nhidden 2\nexclude_pid 12\n", there.private)
  end)

  it("includes events added while it runs, by their names", function()
    happenings(6)
    local s
    local late = {}
    k:with(function()
      s = perfev.session { duration = "600ms", record = PATH }
      s:event { "cpu-clock", sample = function() end }
      s:every("200ms", function()
        if #s.events < 2 then
          s:event { "page-faults", period = 1, name = "late", sample = function(r) late[#late + 1] = line_of(r) end }
        end
      end)
      assert(s:run())
    end)
    local f <close> = k:with(perfev.open, PATH)
    local got = {}
    assert.equal("late", f.events[3].name)
    k:with(function()
      for r in f:records { user = false } do
        if r.type == "sample" and r.event.name == "late" then got[#got + 1] = line_of(r) end
      end
    end)
    assert.is_true(#late > 0)
    assert.same(late, got)
    assert.equal(3, #f.events)
    -- perf would read an ATTR record among a file's records as a separate event
    local bytes = k.files[PATH]
    local data, size = string.unpack("=I8I8", bytes, 41)
    for _, record in ipairs(walk(bytes, data, data + size)) do assert.are_not.equal(64, record.type) end
  end)

  it("omits bytes skipped as corrupt", function()
    happenings(2)
    k:after("200ms", function()
      for _, event in ipairs(k.events) do
        if event.cpu == 0 and event.ring and event.ring.fd == event.fd then
          event.ring:write(event, string.pack("=I4I2I2", 9, 0, 3) .. ("x"):rep(16))
        end
      end
    end)
    local heard, s = run {}
    local there = read()
    assert.equal(1, s:totals().corrupt)
    assert.is_nil(there.error)
    assert.same(heard, there.lines)
  end)
end)

describe("a session that records", function()
  local function raises(pattern, opts)
    local ok, why = pcall(perfev.session, opts)
    assert.is_false(ok)
    assert.matches(pattern, why)
  end

  it("refuses options that cannot be combined with recording", function()
    raises("record and input at once", { record = "x", input = "y" })
    raises("record and overwrite at once", { record = "x", overwrite = true })
    raises("compress without record", { compress = true })
    raises("switch_output without record", { switch_output = "1M" })
    raises("switch_max_files without switch_output", { record = PATH, switch_max_files = 2 })
    raises("switch_output: '5w': expected a size", { record = PATH, switch_output = "5w" })
    raises("switch_output and record", { record = "-", switch_output = "1M" })
    raises("compress must be true or a level from 1 to 22, not 23", { record = "x", compress = 23 })
    raises("record must be the path", { record = 7 })
  end)

  it("releases everything, whichever of its calls fails", function()
    local of_files = { open = true, fstat = true, writev = true, pwrite = true, rename = true, ftruncate = true }
    k.files[PATH] = "another"
    happenings(2)
    run {}
    local made = k.counts
    made["ioctl"], made.getpid, made.pagesize, made.sigblock = nil, nil, nil, nil
    for name, times in pairs(made) do
      for nth = 1, times do
        for _, errno in ipairs { E.EIO, of_files[name] and E.ENOSPC or nil } do
          k = new_kernel { files = { [PATH] = "another" } }
          k:fail(name, nth, errno)
          happenings(2)
          local _, s, ok, why = run {}
          assert.same({}, k:leaks())
          assert.is_true(ok == true or type(why) == "string" and #why > 20)
          local there = (k.files[PATH] or "another") ~= "another" and read()
          if there then assert.equal(s.recorded.samples or #there.lines, #there.lines) end
        end
      end
    end
  end)
end)

describe("core.writer", function()
  it("raises in a wrong state", function()
    k:with(function()
      local rec = core.writer { path = PATH }
      assert.has_error(function() rec:feature(256, "x") end)
      rec:close()
      assert.error_matches(function() rec:size() end, "the recording is closed")
    end)
  end)

  it("has an event with too many ids in two records, and whole in a file", function()
    local attr, ids = core.attr_new { type = 1, sample_type = { "identifier", "time" }, sample_id_all = true }, {}
    for i = 1, 9000 do ids[i] = i end
    k:with(function()
      local rec = core.writer { path = PATH }
      assert(rec:event(attr, ids, "many"))
      rec:begin()
      assert(rec:finish())
      rec:close()
      local f <close> = perfev.open(PATH)
      assert.equal(9000, #f.events[1].ids)
      assert.equal(1, #f.events)
    end)
  end)
end)
