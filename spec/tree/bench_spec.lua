-- The recording of make bench has the stated content, so that every reader can be compared with it.

local perfev = require "perfev"
local run = require "spec.support.run"

local LUA_PATHS = { LUA_PATH = "lua/?.lua;lua/?/init.lua;./?.lua", LUA_CPATH = package.cpath }
local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function made(name, records, kind)
  local path = dir .. "/" .. name
  local r = run({ "lua5.4", "bench/record.lua", path, tostring(records), kind or "syscalls" }, { env = LUA_PATHS })
  assert.equal(0, r.code, r.err)
  return path
end

describe("the recording of make bench", function()
  it("has the requested number of samples, in rounds that a reader puts in order", function()
    local rec = assert(perfev.open(made("a.data", 20001)))
    local n, last, calls = 0, 0, 0
    for r in rec:records { user = false } do
      assert.is_true(r.time >= last)
      last = r.time
      if r.type == "sample" then
        n = n + 1
        assert.equal("task-" .. r.tid - 1000, r.comm)
        calls = calls + (r.args.id >= 0 and r.args.id <= 330 and 1 or 0)
      end
    end
    assert.same({ 20001, 20001, 0, 3 }, { n, calls, rec:totals().late, rec:totals().rounds })
    assert.is_nil(rec.error)
    rec:close()
  end)

  it("has matching enters and exits in the kind 'pairs'", function()
    local rec = assert(perfev.open(made("pairs.data", 2000, "pairs")))
    local inside, n = {}, 0
    for r in rec:records { user = false } do
      if r.type == "sample" then
        local enters = r.event.name == "raw_syscalls:sys_enter"
        assert.equal(enters and nil, inside[r.tid] and enters)
        if not enters then assert.equal(inside[r.tid], r.args.id) end
        inside[r.tid] = enters and r.args.id or nil
        n = n + 1
      end
    end
    assert.same({ 2000, 0 }, { n, rec:totals().late })
    rec:close()
  end)

  it("has call chains into mapped files, of few forms, in the kind 'stacks'", function()
    local rec = assert(perfev.open(made("stacks.data", 2000, "stacks")))
    local chains, nr, n = {}, 0, 0
    for r in rec:records { user = false } do
      if r.type == "sample" then
        local text = table.concat(r.callchain.raw, " ")
        nr, chains[text], n = nr + (chains[text] and 0 or 1), true, n + 1
        assert.equal(13, #r.callchain.raw)
        assert.equal("task-" .. r.tid - 1000, r.comm)
      end
    end
    assert.equal(2000, n)
    assert.is_true(nr > 16 and nr <= 512, nr)
    assert.same({ 64, 0 }, { rec:totals().types.mmap2, rec:totals().late })
    rec:close()
  end)

  it("has many more call chains if they are varied", function()
    local rec = assert(perfev.open(made("varied.data", 2000, "varied")))
    local chains, nr = {}, 0
    for r in rec:records { user = false, types = { "sample" } } do
      local text = table.concat(r.callchain.raw, " ")
      nr, chains[text] = nr + (chains[text] and 0 or 1), true
    end
    assert.is_true(nr > 1500 and nr < 2000, nr)
    rec:close()
  end)

  it("is the same in each run", function()
    assert.is_true(run.slurp(made("b.data", 1000)) == assert(run.slurp(made("c.data", 1000))))
  end)
end)

-- A recorder with rings of 4096 pages ends a round when both rings of 16 MiB are full: 322,638 records.
it("the recording with long rounds has one round where the others have three", function()
  local rec = assert(perfev.open(made("long.data", 20001, "long")))
  for _ in rec:records { user = false } do end -- luacheck: ignore 542
  assert.same({ 1, 0 }, { rec:totals().rounds, rec:totals().late })
  rec:close()
end)

-- Rows that print a number, so that no figure depends on the machine.
local ROWS = [[
return function(bench)
  return { { title = "Numbers", unit = "units", base = "base", measure = "output", rows = {
    { "base", "echo 20" },
    { "perfl: half", bench.program .. " 10", goal = 0.5 },
    { "perfl: above its goal", bench.program .. " 30", goal = 1.25, limit = 40 },
    { "perfl: one thread", bench.program .. " 40 " .. bench.threads(1) },
    { "perfl: two threads", bench.program .. " 60 " .. bench.threads(2) },
    { "lost", "false" },
  } } }
end
]]

describe("the table of make bench", function()
  -- A checkout whose perfl prints its first argument plus a number; it has threads, or refuses further arguments.
  local function build(name, more, on_options)
    local checkout = dir .. "/" .. name
    assert(os.execute(("mkdir -p %s/build/bench"):format(checkout)))
    run.write_file(checkout .. "/build/perfl", ("#!/bin/sh\n%s\necho $(($1 + %d))\n"):format(on_options, more))
    assert(os.execute(("chmod +x %s/build/perfl"):format(checkout)))
    return checkout
  end

  -- The lines of text from the one that begins with word, up to an empty one.
  local function lines_from(text, word)
    local list = {}
    for line in text:match("\n(" .. word .. ".-\n)\n"):gmatch "([^\n]*)\n" do list[#list + 1] = line:match "^.-%s*$" end
    return list
  end

  it("has each row's ratio and goal, and the same command with an older perfl", function()
    local new, old = build("new", 0, "[ $1 = --help ] && echo '  --jobs N  use N threads' && exit"),
      build("old", 5, "[ $# -gt 1 ] && exit 1")
    assert(os.execute(("cc -o %s/build/bench/cost bench/cost.c"):format(new)))
    run.write_file(dir .. "/rows.lua", ROWS)
    local r = run { "lua5.4", "bench/run.lua", new .. "/build", "1", "1", old, dir .. "/rows.lua" }
    assert.same({ 0, "" }, { r.code, r.err })
    assert.same({
      "base                                  20.0    20.0    20.0    base",
      "perfl: half                           10.0    10.0    10.0   0.500          met 0.5 x",
      "  by the older commit                 15.0    15.0    15.0   0.750",
      "perfl: above its goal                 30.0    30.0    30.0   1.500          MISSED 1.25 x, met 40",
      "  by the older commit                 35.0    35.0    35.0   1.750",
      "perfl: one thread                     40.0    40.0    40.0   2.000",
      "  by the older commit                 45.0    45.0    45.0   2.250",
      "perfl: two threads                    60.0    60.0    60.0   3.000",
      "  by the older commit              not here: it ended with status 1",
      "lost                               not here: it ended with status 1",
    }, lines_from(r.out, "base"))
    assert.matches("\n2 goals met, 1 missed\n", r.out)
  end)
end)

describe("the endurance session", function()
  it("reads all records of the simulated kernel, and prints its memory each minute", function()
    local r = run({ "lua5.4", "bench/endurance.lua", "1.1", "20000" }, { env = LUA_PATHS })
    assert.same({ 0, "" }, { r.code, r.err })
    local minute, pushed = r.out:match "\n +(%d) +(%d+) +%d+ +%d+ +%d+ +[%d.]+\n"
    assert.is_true(minute == "1" and tonumber(pushed) > 500000, r.out)
    local read, lost = r.out:match "\n(%d+) records read, %d+ delivered, (%d+) lost, "
    assert.is_true(tonumber(read) > tonumber(pushed) and lost == "0", r.out)
  end)
end)
