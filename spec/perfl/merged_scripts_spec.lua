-- The shipped scripts that can be merged: the frames of two simulated machines, merged, print byte by byte what one run
-- prints that sees both.

local json = require "spec.support.json"
local machines = require "spec.support.machines"
local run = require "spec.support.run"

local dir, worlds, all = nil, {}, nil
setup(function()
  dir = run.tempdir()
  for i = 1, 2 do worlds[i] = machines.path(dir, { i }) end
  all = machines.path(dir, { 1, 2 })
end)
teardown(function() run.remove(dir) end)

local function split(text)
  local words = {}
  for word in text:gmatch "%S+" do words[#words + 1] = word end
  return words
end

-- perfl -q WORDS... -> its output
local function quiet(...)
  local r = run { run.perfl, "-q", ... }
  assert.same({ 0, "" }, { r.code, r.err })
  return r.out
end

local packed = {} -- words -> the files

-- Packs a script's run on each machine -> the files
local function pack(words, interval)
  local key = words .. (interval or "")
  if packed[key] then return packed[key] end
  local files = {}
  for i, world in ipairs(worlds) do
    files[i] = ("%s/%s.%d"):format(dir, key:gsub("%W", "_"), i)
    local own = interval and { "--interval", interval } or {}
    table.move(split(words), 1, 20, #own + 1, own)
    quiet("--pack", files[i], "--sim", world, "-a", "-d", "5s", "--label", "host=m" .. i, table.unpack(own))
  end
  packed[key] = files
  return files
end

local function merge(files, ...)
  local argv = { run.perfl, "merge", "-q", ... }
  table.move(files, 1, #files, #argv + 1, argv)
  local r = run(argv)
  assert.same({ 0, "" }, { r.code, r.err })
  return r.out
end

local function one_run(...) return quiet("--sim", all, "-a", "-d", "5s", ...) end

-- Each with options of its own; those with --interval print each second.
local mergeable = {
  "syscount", "syscount -P --top 5", "syscount -P -c", "syslat --failed", "syslat --per comm --interval 1s",
  "runqlat", "runqlat --per comm --unit ns --interval 2s", "cpudist --off --per tid", "biolatency --disks --flags",
  "biolatency --interval 700ms", "latency syscalls -f csv --per comm", "latency block --slot 100ms -f svg",
  "hardirqs --per cpu", "softirqs --interval 2s", "funclatency middle", "funclatency middle --interval 1s",
  "profile", "profile -f folded", "profile -f html", "offcputime -f folded", "wakeuptime", "offwaketime -f tree",
  "faultstacks -f svg", "biostacks -f folded", "biostacks --time", "watch 0x601040/8 -f folded", "kmem --top 2",
  "locks", "ulocks --call-graph fp", "cgtop --path", "top --interval 1s",
}

describe("the merged frames of two machines print the same as one run over all:", function()
  for _, words in ipairs(mergeable) do
    it(words, function()
      local expected = one_run(table.unpack(split(words)))
      assert.is_true(#expected > 60, expected)
      assert.equal(expected, merge(pack(words)))
    end)
  end
end)

describe("perfl merge of a script's frames", function()
  it("prints the same whether they are of one interval or of many", function()
    for _, words in ipairs { "syscount", "kmem --top 2", "offcputime -f folded" } do
      assert.equal(merge(pack(words)), merge(pack(words, "100ms")))
    end
  end)

  it("prints with -f and -j what the script prints with them", function()
    for words, formats in pairs { syscount = { "json" }, runqlat = { "html", "json" },
                                  profile = { "tree", "html", "callgrind" }, locks = { "json" } } do
      for _, format in ipairs(formats) do
        local expected = words ~= "profile" and format == "json" and one_run("-j", words)
          or one_run(words, "-f", format)
        assert.equal(expected, merge(pack(words), "-f", format))
        if format == "json" then assert.equal(expected, merge(pack(words), "-j")) end
      end
    end
  end)

  it("refuses a format for which the script would have counted otherwise", function()
    for words, why in pairs { runqlat = "its values are in us, and those here in ns",
                              ["syslat --failed"] = "the frames have a quantile 'quantile_by_start_args_id'" } do
      local r = run { run.perfl, "merge", "-f", "prom", table.unpack(pack(words)) }
      assert.same({ 1, "" }, { r.code, r.out })
      assert.matches(why, r.err, 1, true)
      assert.matches("the script counts otherwise for -f prom\n  try: perfl --pack FILE", r.err, 1, true)
    end
    local r = run { run.perfl, "merge", "-f", "nonsense", table.unpack(pack "profile") }
    assert.equal(2, r.code)
    assert.matches("must be one of", r.err)
    r = run { run.perfl, "merge", "-f", "svg", table.unpack(pack "syscount") }
    assert.equal(2, r.code)
    assert.matches("syscount has no option -f: 'svg' is not a form of its aggregators", r.err, 1, true)
  end)

  it("prints each host with --by host: as the first column, and as the first frame", function()
    local counts = {}
    for line in merge(pack "syscount -P -c", "--by", "host", "-f", "json"):gmatch "[^\n]+" do
      local row = json.decode(line)
      assert.equal("m" .. row.pid // 100, row.host)
      counts[row.host] = (counts[row.host] or 0) + row.value
    end
    assert.same({ m1 = 40, m2 = 40 }, counts)
    local text = merge(pack "biolatency --disks --flags", "--by", "host")
    assert.matches("^block I/O latency\n@%[m%d, %d:0, R%] %(us%):\n", text) -- with the names of the script's columns
    local expected = {}
    for line in one_run("profile", "-f", "folded"):gmatch "[^\n]+" do expected[#expected + 1] = line end
    local shared, nr = 0, 0
    for line in merge(pack "profile -f folded", "--by", "host"):gmatch "[^\n]+" do
      assert.matches("^m[12];", line)
      shared, nr = shared + tonumber(line:match "%d+$"), nr + 1
    end
    assert.equal(80, shared)
    assert.is_true(nr > #expected) -- app and helper are on both
  end)

  it("compares with the baseline of the script's arguments, if the user names it", function()
    local before = dir .. "/before.folded"
    run.write_file(before, one_run("profile", "-f", "folded"))
    local words = "profile -f folded --baseline " .. before
    assert.equal(one_run(table.unpack(split(words))), merge(pack(words), "--read", before))
    local r = run { run.perfl, "merge", table.unpack(pack(words)) }
    assert.same({ 1, "" }, { r.code, r.out })
    assert.equal(("profile: %s: the command line does not name this file (perfl merge --read FILE)\n"):format(
      before), r.err)
  end)
end)

describe("perfl --pack refuses", function()
  it("scripts that print lines or keep Lua tables, with the reason", function()
    for words, why in pairs { execsnoop = "no aggregator or profile", ["sched latency"] = "no aggregator or profile",
                              timeline = "no aggregator or profile", cachestat = "no aggregator or profile",
                              ["annotate leaf"] = "addresses" } do
      local r = run { run.perfl, "-q", "--pack", dir .. "/x", "--sim", all, "-a", table.unpack(split(words)) }
      assert.equal(2, r.code)
      assert.matches(why, r.err)
    end
  end)
end)

-- Why a shipped script's output cannot be merged.
local LINES, TABLES = "it prints a line for each record", "it keeps Lua tables"
local reasons = {
  annotate = "its addresses are of one machine's files", biosnoop = LINES, cachestat = TABLES, cswlog = LINES,
  diff = "it reads files", drsnoop = LINES, execsnoop = LINES, explore = TABLES, flightrec = LINES,
  funccount = "the kernel counts", killsnoop = LINES, opensnoop = LINES, procmon = LINES, sched = TABLES, slow = TABLES,
  stat = "the kernel counts", statsnoop = LINES, strace = LINES, tcpconnect = LINES, tcplife = LINES,
  timeline = TABLES, tpoint = LINES, trace = LINES,
}
-- Merged on a real kernel: spec/live/merge_spec.lua
local live = { memleak = true, growth = true }

describe("a shipped script", function()
  local tried = {}
  for _, words in ipairs(mergeable) do tried[words:match "%S+"] = true end
  local page = assert(run.slurp "doc/merge.md")
  for path in run.capture("ls scripts/*.lua"):gmatch "[^\n]+" do
    local name = path:match "([%w_]+)%.lua$"
    it(name .. " can be merged, or there is a reason, and doc/merge.md says so", function()
      assert.is_true((tried[name] or live[name] or false) ~= (reasons[name] ~= nil))
      assert.matches("`" .. name .. "`", page, 1, true)
    end)
  end
end)
