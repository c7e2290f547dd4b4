-- perfl --pack and perfl merge: fifty simulated machines with known totals, and what can go wrong on the way.

local json = require "spec.support.json"
local numbered_machines = require "spec.support.numbered_machines"
local perfev = require "perfev"
local run = require "spec.support.run"

local MACHINES = 50

-- 4 seconds, some of them without a record.
local RECORDS = numbered_machines.records("any(3) == 1 and 0 or any(6)", 990)
local WORLD = numbered_machines.world(RECORDS)

local SCRIPT = [[
local perfev = require "perfev"
local by, slot = "comm", { by = { "time", "comm" }, slot = "500ms" }
local all = {
  perfev.count {}, perfev.count { by = by }, perfev.top { by = by }, perfev.sum { by = by, value = "period" },
  perfev.avg { by = by, value = "period" }, perfev.min { by = by, value = "period" },
  perfev.max { by = by, value = "period" }, perfev.stats { by = by, value = "period" },
  perfev.hist { by = by, value = "period", unit = "ns" }, perfev.quantile { by = by, value = "period" },
  perfev.hist { value = "period", low = 0, high = 1000, step = 100 }, perfev.count(slot),
  perfev.count { by = { "tid", "cpu" }, where = { "period", ">=", 10 }, title = "large ones" },
}
local profile = perfev.profile { title = "stacks", values = { "samples", { "work", unit = "ns" } } }
local callbacks = table.move(all, 1, #all, 1, {})
callbacks[#callbacks + 1] = profile:sampler { under = "comm", value = "period" }
perfev.event { "cpu-clock", sample_type = { "period" }, callchain = true, sample = callbacks }
perfev.done(function()
  for _, one in ipairs(all) do one:print "json" end
  io.write(profile:folded { value = "samples" }, profile:folded { value = "work" })
end)
]]

local dir, world, script
setup(function()
  dir = run.tempdir()
  world, script = run.write_file(dir .. "/world.lua", WORLD), run.write_file(dir .. "/all.lua", SCRIPT)
end)
teardown(function() run.remove(dir) end)

local q = run.quote

-- perfl WORDS on these machines; words is a part of a shell command
local function on(machines, words)
  return run(("MACHINE=%s %s -q --sim %s -a %s"):format(machines, q(run.perfl), q(world), words))
end

local function frames_of(path)
  local list = {}
  for frame, why in perfev.frames(assert(io.open(path, "rb"))) do list[#list + 1] = assert(frame, why) end
  return list
end

-- Packs each machine by seconds -> all frames, in order
local packed
local function pack_all()
  if packed then return packed end
  local line = ("for i in $(seq %d); do MACHINE=$i-$i %s -q --sim %s -a --pack %s/$i --interval 1s --label host=m$i %s "
    .. "|| exit 1; done >/dev/null"):format(MACHINES, q(run.perfl), q(world), q(dir), q(script))
  local r = run(line)
  assert.same({ 0, "" }, { r.code, r.err })
  packed = {}
  for i = 1, MACHINES do
    for _, frame in ipairs(frames_of(("%s/%d"):format(dir, i))) do packed[#packed + 1] = frame end
  end
  return packed
end

local function write_frames(name, list)
  local bytes = {}
  for i, frame in ipairs(list) do bytes[i] = frame.bytes end
  return run.write_file(dir .. "/" .. name, table.concat(bytes))
end

-- A copy in another order, some of them twice.
local function shuffled(list)
  math.randomseed(4)
  local copy = table.move(list, 1, #list, 1, {})
  for i = 1, #list, 3 do copy[#copy + 1] = list[i] end
  for i = #copy, 2, -1 do
    local j = math.random(i)
    copy[i], copy[j] = copy[j], copy[i]
  end
  return copy
end

local function merge(...) return run { run.perfl, "merge", ... } end

describe("fifty machines, packed each second, shuffled, some frames twice, and merged", function()
  local expected, merged
  setup(function()
    expected = on("1-50", q(script))
    merged = merge("--script", script, write_frames("shuffled", shuffled(pack_all())))
  end)

  it("print what one run over all of them prints, row by row, for each kind and for profiles", function()
    assert.same({ 0, "" }, { expected.code, expected.err })
    assert.equal(0, merged.code, merged.err)
    assert.is_true(#expected.out > 20000)
    assert.equal(expected.out, merged.out)
    assert.matches("^perfl: merged [%d,]+ frames of 50 hosts\n"
      .. "perfl: %d+ frames came more than once and counted once\n$", merged.err)
  end)

  it("have the totals that the machines were given", function()
    local truth = { app = {}, helper = {} }
    local records = assert(load(RECORDS .. " return records"))()
    local nr = 0
    for machine = 1, MACHINES do
      for _, record in ipairs(records(machine)) do
        local values = truth[({ "app", "helper", "" })[record[2]]]
        nr = nr + 1
        if values then values[#values + 1] = record[3] end
      end
    end
    local found = {}
    for line in merged.out:gmatch "[^\n]+" do
      local row = line:find "^{" and json.decode(line) or {}
      if truth[row.comm] and type(row.value) == "table" and row.value.p50 then found[row.comm] = row.value end
      if row.value and not found.all and type(row.value) == "number" then found.all = row.value end
    end
    assert.equal(nr, found.all)
    for comm, values in pairs(truth) do
      table.sort(values)
      local sum, value = 0, found[comm]
      for _, one in ipairs(values) do sum = sum + one end
      assert.same({ #values, sum, values[1], values[#values] }, { value.count, value.sum, value.min, value.max })
      for name, share in pairs { p50 = 0.5, p90 = 0.9, p99 = 0.99, p999 = 0.999 } do
        local exact = values[math.max(1, math.ceil(share * #values))]
        assert.is_true(math.abs(value[name] - exact) <= exact * 0.01 + 1, ("%s %s: %d, exact %d"):format(comm, name,
          value[name], exact))
      end
    end
  end)

  it("miss the values of a lost frame, which is named, with the exit status 4", function()
    local list = table.move(pack_all(), 1, #pack_all(), 1, {})
    local lost
    for i, frame in ipairs(list) do
      if frame.header.name == "count" and frame.header.host == "m7" and frame.header.seq == 0 then
        lost = table.remove(list, i)
        break
      end
    end
    local missing = lost:value():get()
    assert.is_true(missing > 0)
    local r = merge("--script", script, write_frames("gap", list))
    assert.equal(4, r.code)
    assert.matches("m7: 'count': 1 frame is missing (0): the values are not in the result", r.err, 1, true)
    local before, after = expected.out:match '"value":(%d+)', r.out:match '"value":(%d+)'
    assert.equal(missing, before - after)
    -- The end of a run.
    for i = #list, 1, -1 do
      if list[i].header.host == "m9" and list[i].header.last == 1 then table.remove(list, i) end
    end
    assert.matches("m9: the last frame is missing: the run was cut off, or still goes on",
      merge("--script", script, write_frames("cut", list)).err, 1, true)
  end)
end)

describe("perfl --pack", function()
  it("writes frames to standard output, and the script's own output nowhere, or to -o", function()
    local r = on("1-1", ("--pack - -o %s/own %s > %s/out"):format(q(dir), q(script), q(dir)))
    assert.same({ 0, "", "" }, { r.code, r.out, r.err })
    assert.equal(14, #frames_of(dir .. "/out"))
    assert.equal(on("1-1", q(script)).out, run.slurp(dir .. "/own"))
    on("1-1", ("--pack - %s > %s/alone"):format(q(script), q(dir)))
    assert.equal(14, #frames_of(dir .. "/alone"))
    local beside = on("1-1", ("--pack %s/beside %s"):format(q(dir), q(script)))
    assert.equal(on("1-1", q(script)).out, beside.out)
  end)

  it("does not print unread aggregators among the frames", function()
    local count = "-e 'event { \"cpu-clock\", sample = count { by = \"comm\" } }'"
    local r = on("1-50", ("--pack - %s > %s/unread"):format(count, q(dir)))
    assert.same({ 0, "" }, { r.code, r.err })
    assert.equal(1, #frames_of(dir .. "/unread"))
    r = merge(dir .. "/unread")
    local line = ("MACHINE=1-50 %s --sim %s -a %s 2>/dev/null"):format(q(run.perfl), q(world), count)
    assert.equal(run(line).out, r.out)
    assert.matches("the frames are of Lua text of -e", r.err, 1, true)
  end)

  it("puts the run's facts and the labels into the headers", function()
    local path = dir .. "/headers"
    on("3-3", ("--pack %s --interval 1s --label job=web --label host=db3 syscount --top 3"):format(q(path)))
    local list = frames_of(path)
    local header = list[#list].header
    assert.same({ "web", "db3", "syscount", '["--top=3"]', "count", 1 },
      { header.job, header.host, header.script, header.args, header.kind, header.last })
    assert.equal(run.capture("sha256sum scripts/syscount.lua"):match "^%x+", header.script_sha256)
    assert.equal(#list - 1, header.seq)
    assert.equal(32, #header.start)
    assert.is_true(header.begin <= header["end"])
    assert.is_true(header["end"] - list[1].header.begin >= 4000000000)
  end)

  it("gives the same arguments the same form, however they are written", function()
    local digests = {}
    for _, words in ipairs { "syscount -T 3 -P", "syscount --per-process --top=3", "syscount -PT3" } do
      on("1-1", ("--pack %s/words %s"):format(q(dir), words))
      digests[frames_of(dir .. "/words")[1].header.args_sha256] = true
    end
    assert.is_nil(next(digests, (next(digests))))
  end)

  it("lets a script's own --interval be the interval of the frames", function()
    on("1-50", ("--pack %s/own syslat --interval 2s"):format(q(dir)))
    local header = frames_of(dir .. "/own")[1].header -- no interval has a system call: only the last frame is there
    assert.same({ "2000000000", "2", 1 }, { header.every, header.turn, header.last })
  end)

  it("ends with 141 when the reader of the frames closes the pipe", function()
    run(("(MACHINE=1-50 %s -q --sim %s -a --pack - --interval 1ms %s; echo $? >%s/status) | head -c 10"):format(
      q(run.perfl), q(world), q(script), q(dir)))
    assert.equal("141\n", run.slurp(dir .. "/status"))
  end)

  it("reports a full disk", function()
    local r = on("1-1", ("--pack /dev/full %s >/dev/null"):format(q(script)))
    assert.equal(1, r.code)
    assert.matches("cannot write the frames to '/dev/full': No space left on device", r.err, 1, true)
  end)

  it("refuses, as root, another user's file, and does not empty it", function()
    if not run.root then return pending "needs root" end
    local path = run.write_file(dir .. "/other", "theirs")
    assert(os.execute("chown 1 " .. q(path)))
    local r = on("1-1", ("--pack %s syscount"):format(q(path)))
    assert.equal(1, r.code)
    assert.matches("cannot write the frames: '.*/other' belongs to user 1, who could read it\n"
      .. "  try: %-%-pack with a new file\n", r.err)
    assert.equal("theirs", run.slurp(path))
  end)

  it("refuses invalid command lines with a remedy", function()
    for words, why in pairs {
      ["--armor syscount"] = "--armor without --pack", ["--label a=b syscount"] = "--label without --pack",
      ["--pack x --label seq=1 syscount"] = "perfl writes the key 'seq' itself",
      ["--pack x --label web syscount"] = "label 'web': expected KEY=VALUE",
      ["--interval 1s syscount"] = "--interval without --pack", ["--pack - --record - syscount"] = "at once",
      ["--pack x --interval 0 syscount"] = "must be above 0", ["--pack x execsnoop"] = "no aggregator or profile",
    } do
      local r = on("1-1", (words:gsub("pack x", "pack " .. dir .. "/x")))
      assert.equal(2, r.code, words)
      assert.matches(why, r.err, 1, true)
      assert.matches("\n  try: ", r.err)
    end
  end)
end)

describe("perfl merge", function()
  local function pack(name, machine, words)
    local r = on(machine, ("--pack %s/%s --label host=%s %s"):format(q(dir), name, name, words))
    assert.same({ 0, "" }, { r.code, r.err })
    return dir .. "/" .. name
  end

  it("refuses frames that cannot be added up, and names the difference", function()
    local copy = run.write_file(dir .. "/copy.lua", SCRIPT .. "\n-- changed")
    local a, b = pack("web1", "1-1", q(script)), pack("db3", "2-2", q(copy))
    local r = merge(a, b)
    assert.same({ 1, "" }, { r.code, r.out })
    assert.matches("^perfl: db3 and web1 have different scripts: '", r.err)
    a, b = pack("web1", "1-1", "syscount"), pack("db3", "2-2", "syscount --top 5")
    r = merge(a, b)
    assert.same({ 1, "" }, { r.code, r.out })
    assert.equal('perfl: db3 and web1 have different arguments of the script: ["--top=5"] and []\n', r.err)
    local lua = "-e 'event { \"cpu-clock\", sample = %s }'"
    for name, pair in pairs {
      columns = { 'count { title = "x", by = "comm" }', 'count { title = "x", by = "tid" }' },
      where = { 'count { title = "x", where = { "tid", "==", 1 } }', 'count { title = "x" }' },
      kind = { 'count { title = "x" }', 'hist { title = "x", value = "period" }' },
    } do
      local files = {}
      for i, text in ipairs(pair) do
        files[i] = pack("m" .. i, "1-1", lua:format(text))
        local list = frames_of(files[i])
        for _, frame in ipairs(list) do -- as if the scripts were the same
          local header = frame.header
          header.script_sha256, header.part = nil, nil
          files[i] = run.write_file(files[i], table.concat(perfev.frames.encode(header,
            assert(frame:value()))))
        end
      end
      r = merge(files[1], files[2])
      assert.same({ 1, "" }, { r.code, r.out }, name)
      assert.matches("^perfl: m2: ", r.err)
      assert.is_truthy(r.err:find(name == "columns" and "columns are (tid)" or name == "kind" and "is a hist there"
        or "where", 1, true), r.err)
    end
  end)

  it("prints the aggregators of a script that it does not have, and says so", function()
    local text = "local perfev = require 'perfev' local a = perfev.count { by = 'comm', title = 'those' } "
      .. "perfev.event { 'cpu-clock', sample = a } perfev.done(function() print(#a:rows()) end)"
    local mine = run.write_file(dir .. "/mine.lua", text)
    local file = pack("web1", "1-1", q(mine))
    assert.equal("3\n", merge("-q", "--script", mine, file).out)
    local plain = "those\nCOMM    COUNT\n"
    local r = merge(file)
    assert.same({ 0, plain }, { r.code, r.out:sub(1, #plain) })
    assert.matches("the frames are of the script '" .. mine .. "': its aggregators are printed, without it\n"
      .. "  try: perfl merge --script " .. mine, r.err, 1, true)
    run.write_file(mine, text .. " -- changed")
    r = merge("--script", mine, file)
    assert.same({ 0, plain }, { r.code, r.out:sub(1, #plain) })
    assert.matches("mine.lua' is not the script of the frames .*its SHA%-256 is another", r.err)
    r = merge("-q", "--script", "none", "-f", "csv", file)
    assert.matches("^comm,value\napp,%d+\n", r.out)
    r = merge("--script", "none", "-f", "html", file)
    assert.equal(2, r.code)
    assert.matches("-f html: 'those' is a count, which has no such form", r.err, 1, true)
  end)

  it("refuses a file of another kind, and a mix", function()
    local text = run.write_file(dir .. "/text", "hello\n")
    local r = merge(text)
    assert.equal(1, r.code)
    assert.matches("no frames", r.err)
    local frames = pack("web1", "1-1", "syscount")
    local recording = run.write_file(dir .. "/rec", "PERFILE2" .. ("\0"):rep(96))
    r = merge(frames, recording)
    assert.equal(1, r.code)
    assert.matches("/rec' is a recording, and '.*/web1' is not\n  try: ", r.err)
    r = merge("-f", "json", recording, recording)
    assert.equal(2, r.code)
    assert.matches("-f: the files are recordings", r.err, 1, true)
    r = merge(frames, dir .. "/nothing")
    assert.equal(1, r.code)
    assert.matches("cannot read .*/nothing: No such file", r.err)
  end)

  it("goes on after damage, reports it, and ends with 4", function()
    local one = run.slurp(pack("web1", "1-25", "syscount"))
    local two = run.slurp(pack("web2", "26-50", "syscount"))
    local broken = one:sub(1, -20) .. ("x"):rep(10) .. one:sub(-9)
    local r = merge(run.write_file(dir .. "/broken", broken .. two))
    assert.equal(4, r.code)
    assert.equal(merge("-q", dir .. "/web2").out, r.out)
    assert.matches("broken': ", r.err)
  end)

  it("never runs a file that frames name", function()
    local evil = run.write_file(dir .. "/evil.lua", ("io.open(%q, 'w')"):format(dir .. "/touched"))
    local file = pack("web1", "1-1", "syscount")
    local frame = frames_of(file)[1]
    frame.header.script, frame.header.part = evil, nil
    frame.header.script_sha256 = run.capture("sha256sum " .. q(evil)):match "^%x+"
    run.write_file(file, table.concat(perfev.frames.encode(frame.header, frame:value())))
    local r = merge(file)
    assert.equal(0, r.code)
    assert.matches("try: perfl merge --script " .. evil, r.err, 1, true)
    assert.is_nil(run.slurp(dir .. "/touched"))
  end)

  -- Merges the frames of a script of this text, which is written to a file -> run's result, the frames
  local function merge_own(text, ...)
    local mine = run.write_file(dir .. "/mine.lua", ([[
      local perfev = require "perfev"
      local own = perfev.count { by = "comm" }
      perfev.event { "cpu-clock", sample = own }
      if perfev.default_session().opts.input == "merged frames" then perfev.done(function() %s end) end]]):format(text))
    return merge("-q", "--script", mine, pack("web1", "1-1", q(mine)), ...)
  end

  it("lets a script print, and nothing else", function()
    local secret = run.write_file(dir .. "/secret", "secret")
    local r = merge_own(([[
        local path, recorded = %q, %q
        print(#own:rows(), (io.open(path)), (io.open(path .. "2", "w")))
        for _, f in ipairs { function() os.execute "true" end, function() io.popen "true" end,
                             function() os.remove(path) end, function() return debug.getinfo end } do
          io.write(tostring(pcall(f)), " ")
        end
        local s = perfev.session { pid = "self" }
        s:event { "cpu-clock", sample = print }
        local ok, _, code = s:start()
        print(ok, code)
        print((pcall(perfev.session, { pid = "self", record = recorded })))]]):format(secret, dir .. "/recorded"))
    assert.same({ 0, "3\tnil\tnil\nfalse false false false nil\t13\nfalse\n", "" }, { r.code, r.out, r.err })
    assert.equal("secret", run.slurp(secret))
    assert.is_nil(run.slurp(dir .. "/recorded"))
    r = merge_own(("print(io.open(%q):read 'a')"):format(secret), "--read", secret)
    assert.same({ 0, "secret\n", "" }, { r.code, r.out:sub(1, 7), r.err })
  end)

  it("ends a script that exceeds its limits with status 124", function()
    local r = merge_own("while true do end", "--sandbox=time=20ms")
    assert.same({ 124, "" }, { r.code, r.out })
    assert.matches("mine.lua:4: the script computed for more than 200 ms (--sandbox)", r.err, 1, true)
    assert.matches("\nperfl: the time limit of %-%-sandbox ended the run\n  try: %-%-sandbox=time=DURATION\n$", r.err)
    r = merge_own("pcall(string.rep, 'x', 64 << 20)", "--sandbox=mem=32M")
    assert.same({ 124, "perfl: the script used more than 32M of Lua memory\n  try: --sandbox=mem=SIZE\n" },
      { r.code, r.err })
    r = merge_own("", "--sandbox=mem=1")
    assert.same({ 2, "perfl: --sandbox: mem=1: 8M or more\n  try: --sandbox=mem=1G,time=1s\n" }, { r.code, r.err })
  end)

  it("runs scripts that run their session themselves, and refuses loops over records", function()
    local mine = run.write_file(dir .. "/mine.lua", [[
      local perfev = require "perfev"
      local own = perfev.count { by = "comm" }
      perfev.event { "cpu-clock", sample = own }
      perfev.run()
      print(#own:rows(), perfev.totals().lost)]])
    local r = merge("-q", "--script", mine, pack("web1", "1-1", q(mine)))
    assert.same({ 0, "3\t0\n", "" }, { r.code, r.out, r.err })
    run.write_file(mine, [[
      local perfev = require "perfev"
      local own = perfev.count {}
      perfev.event { "cpu-clock" }
      for _ in perfev.default_session():records() do own:inc() end]])
    r = merge("-q", "--script", mine, pack("web1", "1-1", q(mine)))
    assert.same({ 1, "" }, { r.code, r.out })
    assert.matches("reads its session step by step: without events it cannot print", r.err)
  end)

  it("sums up what the machines lost, and tells clocks that are ahead", function()
    local file = pack("web1", "1-1", "syscount")
    local frame = frames_of(file)[1]
    local header, value = frame.header, assert(frame:value())
    header.part, header.last, header["end"] = nil, nil, (os.time() + 100) * 1000000000
    header.lost, header.late = 3, 1
    local bytes = {}
    for seq = 0, 1 do
      header.seq = seq
      header.last = seq == 1 and 1 or nil
      bytes[#bytes + 1] = table.concat(perfev.frames.encode(header, value))
    end
    local r = merge(run.write_file(file, table.concat(bytes, "", 1, 2)))
    assert.equal(0, r.code)
    assert.matches("perfl: web1: records: 6 lost, 2 late\nperfl: web1: the clock is %d+%.%d s ahead\n$", r.err)
    header.kind, header.name = "hist", "other"
    r = merge(run.write_file(file, table.concat(bytes, "", 1, 2) .. table.concat(perfev.frames.encode(header, value))))
    assert.equal(4, r.code)
    assert.matches("its header says hist, and it is a count", r.err)
  end)

  it("reports a script whose done function adds to what was packed", function()
    local mine = run.write_file(dir .. "/mine.lua", [[
      local perfev = require "perfev"
      local own, twice = perfev.count { by = "comm" }, perfev.sum { by = "comm", title = "twice" }
      perfev.event { "cpu-clock", sample = own }
      perfev.done(function()
        for comm, n in own:pairs() do twice:add(2 * n, comm) end
      end)]])
    local r = merge("--script", mine, pack("web1", "1-1", q(mine)))
    assert.equal(1, r.code)
    assert.matches("adds values to 'twice' when it ends, as each run has: this output counts them twice", r.err, 1,
      true)
  end)

  it("reads pipes as well as files", function()
    local a, b = pack("web1", "1-25", "syscount"), pack("web2", "26-50", "syscount")
    local words = ("%s merge -q <(cat %s) <(cat %s)"):format(q(run.perfl), q(a), q(b))
    local r = run { "bash", "-c", words }
    assert.same({ 0, "" }, { r.code, r.err })
    assert.equal(merge("-q", a, b).out, r.out)
  end)

  it("takes armoured frames whose lines have prefixes and are mixed", function()
    local texts = {}
    for i = 1, 3 do
      local r = on(("%d-%d"):format(i * 10, i * 10 + 9), ("--pack - --armor --interval 1s %s"):format(q(script)))
      assert.is_nil(r.out:find "[\128-\255]")
      texts[i] = {}
      for line in r.out:gmatch "[^\n]+" do table.insert(texts[i], ("node%d: %s\n"):format(i, line)) end
    end
    local mixed = {}
    while #texts[1] + #texts[2] + #texts[3] > 0 do
      local from = texts[math.random(3)]
      if from[1] then mixed[#mixed + 1] = table.remove(from, 1) end
    end
    local r = run(("%s merge -q --script %s -"):format(q(run.perfl), q(script)), { stdin = table.concat(mixed) })
    assert.same({ 0, "" }, { r.code, r.err })
    assert.equal(on("10-39", q(script)).out, r.out)
  end)

  it("takes what clush collects", function()
    if not run.have "clush" then return pending "clush is not installed: apt-get install clustershell" end
    local line = ("clush -R exec -w node[1-3] 'MACHINE=1%%n-1%%n %s -q --sim %s -a --pack - --armor --interval 1s "
      .. "--label host=%%h %s' | %s merge --script %s -"):format(run.perfl, world, script, q(run.perfl), q(script))
    local r = run(line)
    assert.equal(0, r.code, r.err)
    assert.equal(on("10-12", q(script)).out, r.out)
    assert.matches("frames of 3 hosts", r.err)
  end)
end)
