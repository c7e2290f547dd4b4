-- Call chains whose user part comes later: joined to the sample that waits for it, on the simulated kernel and in
-- recordings. Needs 6.19 on a real one.

local event = require "perfev.event.declaration"
local sim = require "perfev.sim"
local perfev = require "perfev"

local stories = require "spec.support.story"(setup, teardown)
local told, app, exec, fork = stories.told, stories.app, stories.exec, stories.fork

local KERNEL, USER, DEFERRED = -128, -512, -640
local WORDS = { words = { defer_callchain = true, defer_output = true } }

local function cut(pid, cookie, tid)
  return stories.sample(pid, { KERNEL, 0xffffffff81000110, DEFERRED, cookie }, tid, 1)
end
local function rest(pid, cookie, chain, tid)
  return { type = "callchain_deferred", cookie = cookie, callchain = chain, pid = pid, tid = tid or pid }
end

local function told_folded(story, opts)
  local seen, _, stats = told(story, function(r) return ("%d %s"):format(r.tid, r.stack:folded()) end, opts or WORDS)
  assert.same({ stats[1].unjoined, stats[1].delivered }, { stats[2].unjoined, stats[2].delivered })
  return seen, stats[1]
end

describe("a deferred call chain", function()
  it("is joined with the sample that waits for it", function()
    local seen, stats = told_folded { app(7), cut(7, 5), rest(7, 5, { 0x400110, 0x400020 }) }
    assert.same({ "7 main;work;do_work" }, seen)
    assert.same({ 0, 1 }, { stats.unjoined, stats.delivered })
  end)

  it("is joined with all samples of one stay in the kernel, separately for each thread", function()
    assert.same({ "7 main;do_work", "7 main;do_work", "8 work;do_work" }, (told_folded {
      app(7), fork(7, 7, 8), cut(7, 5), cut(7, 6, 8), cut(7, 5), rest(7, 5, { 0x400020 }),
      rest(7, 6, { 0x400110 }, 8) }))
  end)

  it("makes the same stack as one that was taken at once", function()
    local seen = told({ app(7), cut(7, 5), rest(7, 5, { 0x400110 }),
      stories.sample(7, { KERNEL, 0xffffffff81000110, USER, 0x400110 }, 7, 1) },
      function(r) return { r.stack.id, r.callchain.user[1], r.callchain.cookie or false } end, WORDS)
    assert.same({ { 1, 0x400110, false }, { 1, 0x400110, false } }, seen)
  end)

  it("leaves the other fields, the sample's time and the data after its chain unchanged", function()
    local seen = told({ app(7), { type = "sample", pid = 7, tid = 7, ip = 0xffffffff81000110, misc = 1, addr = 9,
      callchain = { DEFERRED, 5 }, raw = "behind the chain" }, exec(9, "x"), rest(7, 5, { 0x400110 }) },
      function(r) return { r.raw, r.addr, r.ip, r.comm, #r.stack } end,
      { words = { defer_callchain = true, sample_type = { "identifier", "ip", "tid", "time", "cpu", "addr",
        "callchain", "raw" } } })
    seen[1][1] = seen[1][1]:sub(1, 16) -- the kernel's padding
    assert.same({ { "behind the chain", 9, 0xffffffff81000110, "app", 1 } }, seen)
  end)

  it("may have its own context marker from other tools", function()
    assert.same({ "7 work;do_work" }, (told_folded { app(7), cut(7, 5), rest(7, 5, { USER, 0x400110 }) }))
  end)

  it("may be empty, and then the stack is the kernel's part", function()
    local seen, stats = told_folded { app(7), cut(7, 5), rest(7, 5, {}) }
    assert.same({ "7 do_work" }, seen)
    assert.equal(0, stats.unjoined)
  end)

  it("does not delay samples with complete chains", function()
    assert.same({ "7 main", "7 work;do_work" }, (told_folded { app(7), cut(7, 5),
      stories.sample(7, { USER, 0x400020 }), rest(7, 5, { 0x400110 }) }))
  end)

  it("that never arrives is counted; its sample is delivered without it", function()
    local seen, stats = told_folded { app(7), cut(7, 5), rest(7, 6, { 0x400110 }), cut(7, 7), rest(9, 7, { 1 }) }
    assert.same({ "7 do_work", "7 do_work" }, seen)
    assert.equal(2, stats.unjoined)
  end)

  it("is awaited by 4,096 samples at most: the oldest sample then goes without it", function()
    local story = { app(7) }
    for i = 1, 4098 do story[#story + 1] = cut(7, 5, i) end
    story[#story + 1] = rest(7, 5, { 0x400110 }, 3)
    local seen = {}
    local _, stats = stories.recorded(story, function(r) seen[#seen + 1] = r.tid .. " " .. r.stack:folded() end, WORDS)
    assert.same({ "1 do_work", "2 do_work", "3 work;do_work", "4 do_work" }, { table.unpack(seen, 1, 4) })
    assert.same({ 4097, 4098 }, { stats.unjoined, stats.delivered })
  end)

  it("fits up to a record's maximum of 65,528 bytes", function()
    local long, list = {}, {}
    for i = 1, 8180 do long[i] = 0x400000 + i end
    for i = 1, 100 do list[i] = KERNEL end
    list[101], list[102] = DEFERRED, 5
    local seen = told({ app(7), { type = "sample", pid = 7, tid = 7, ip = 1, misc = 1, callchain = list },
      rest(7, 5, long) }, function(r)
        local n = #r.callchain.user
        assert.is_true(n < 8180 and n > 8000 and r.callchain.user[n] == 0x400000 + n)
        return r.size
      end, WORDS)
    assert.same({ 65528 }, seen)
  end)

  it("of the other byte order is joined, too", function()
    local seen = {}
    stories.recorded({ app(7), cut(7, 5), rest(7, 5, { 0x400110 }) },
      function(r) seen[#seen + 1] = ("%x %s"):format(r.stack[1].ip, r.stack[2].symbol) end,
      { words = WORDS.words, endian = "big" })
    assert.same({ "ffffffff81000110 work" }, seen)
  end)

  it("is delivered separately to its own callback: both records arrive unchanged, at once", function()
    local heard = {}
    told_folded({ app(7), cut(7, 5), rest(7, 5, { 0x400110 }) }, { words = WORDS.words, callbacks = {
      callchain_deferred = function(r) heard[#heard + 1] = r.cookie end } })
    assert.same({ 5, 5 }, heard)
  end)

  it("is counted in aggregators, and returned when records are read one by one", function()
    local counts = perfev.count { by = "stack" }
    stories.simulated({ app(7), cut(7, 5), rest(7, 5, { 0x400110 }) }, counts, WORDS)
    for stack, n in counts:pairs() do assert.same({ 2, 1 }, { #stack, n }) end
    local k, seen = sim.new { cpus = "0" }, {}
    for path, bytes in pairs(stories.files) do k.files[path] = bytes end
    k:with(function()
      local s = perfev.session { duration = "300ms" }
      s:event { type = 1, config = 0, sample_period = 1, callchain = "defer" }
      for i, step in ipairs { app(7)[1], app(7)[2], cut(7, 5), rest(7, 5, { 0x400110 }) } do
        k:after(i * 1000000, function() k:ring(0):push(step) end)
      end
      for r in s:records() do
        if r.type == "sample" then seen[#seen + 1] = r.stack:folded() end
      end
    end)
    assert.same({ "work;do_work" }, seen)
  end)
end)

describe("callchain = \"defer\"", function()
  local function attr(spec) return assert(event.build(event.declare(spec, 1))).attr end

  it("requests both deferred chains and the records of their user parts", function()
    for _, asked in ipairs { attr { "cpu-clock", callchain = "defer" }, attr { "cpu-clock", callchain = "fp,defer" },
                             attr { "cpu-clock/call-graph=defer/" } } do
      assert.is_true(asked.defer_callchain and asked.defer_output)
      assert.equal(1 << 5, asked.sample_type & 1 << 5)
    end
    assert.is_false(attr({ "cpu-clock", callchain = "defer", defer_output = false }).defer_output)
    assert.is_false(attr({ "cpu-clock", callchain = true }).defer_output)
  end)
end)
