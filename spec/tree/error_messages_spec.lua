-- Messages name the failure in the user's own words, the cause and the remedy: spec/support/refusals.lua.

local refusals = require "spec.support.refusals"
local remedies = require "spec.support.remedies"

describe("a message about", function()
  for _, case in ipairs(refusals.all()) do
    it(("%s: %s, has the user's words, the cause and the remedy"):format(case.chapter:lower(), case[1]), function()
      local text, k = case.run()
      for _, part in ipairs { "words", "cause", "remedy" } do
        assert.is_not_nil(text:find(case[part], 1, true), ("no %s '%s' in:\n%s"):format(part, case[part], text))
      end
      assert.same({}, k:leaks())
    end)
  end
end)

describe("the advice in a message", function()
  for _, case in ipairs(refusals.all()) do
    local row = (remedies[case.chapter] or {})[case[1]]
    it(("about %s: %s, is accepted"):format(case.chapter:lower(), case[1]), function()
      assert.is_not_nil(row, "spec/support/remedies.lua has no row for it")
      if type(row) == "string" then return end -- why it cannot be done here
      local text, k = row(case.run(), case)
      assert.equal(refusals.NOTHING, text)
      assert.same({}, k:leaks())
    end)
  end

  it("can be followed in nine of ten cases, and each row has a case", function()
    local done, all, known = 0, 0, {}
    for _, case in ipairs(refusals.all()) do known[case.chapter .. case[1]] = true end
    for chapter, list in pairs(remedies) do
      for name, row in pairs(list) do
        assert.is_true(known[chapter .. name], name)
        all, done = all + 1, done + (type(row) == "function" and 1 or 0)
      end
    end
    assert.is_true(10 * done >= 9 * all, ("%d of %d"):format(done, all))
  end)
end)

describe("an optional event", function()
  local perfev = require "perfev"
  local sim = require "perfev.sim"
  local E = perfev.errno

  -- The failing operation, and how the spec makes it fail.
  local stages = {
    { "its name", { "sched:nosuch" }, function() end, "this kernel has no such event" },
    { "its attr", { "cpu-clock", config3 = 1, sample_stack_user = 4, sample_type = { "stack_user" } }, function() end,
      "multiple of 8" },
    { "opening", { "cpu-clock" }, function(k) k:fail("perf_event_open", 2, E.EMFILE) end, "descriptors are needed" },
    { "its id", { "cpu-clock" }, function(k) k:fail("ioctl ID", 1, E.EIO) end, "cpu-clock" },
    { "mapping its ring", { "cpu-clock" }, function(k) k:fail("mmap", 1, E.EINVAL) end, "cannot map a ring" },
    { "watching its ring", { "cpu-clock" }, function(k) k:fail("epoll_ctl", 1, E.ENOMEM) end, "cpu-clock" },
    { "sharing a ring", { "cpu-clock" }, function(k) k:fail("ioctl SET_OUTPUT", 1, E.EIO) end, "cpu-clock", true },
    { "its filter, by us", { "sched:sched_switch", filter = "nosuch == 1" }, function() end, "unknown field" },
    { "its filter, by the kernel", { "sched:sched_switch", filter = "prev_pid == 1" },
      function(k) k:fail("ioctl SET_FILTER", 1, E.EINVAL) end, "the kernel refuses it" },
  }
  for _, stage in ipairs(stages) do
    it("is left out when the kernel refuses " .. stage[1] .. ", and the session goes on", function()
      local k, said = sim.new { world = "vm" }, {}
      stage[3](k)
      k:with(function()
        local s = perfev.session { tid = 42, duration = "20ms", log = function(level, text)
          if level == 1 and text:find "^left out" then said[#said + 1] = text end
        end }
        local spec, counted = { optional = true, sample = function() end }, 0
        for name, value in pairs(stage[2]) do spec[name] = value end
        local others = { "task-clock", sample = function() counted = counted + 1 end }
        if stage[5] then s:event(others) end
        local e = s:event(spec)
        if not stage[5] then s:event(others) end
        k:after("5ms", function()
          k:ring(0):push { type = "sample", event = { type = 1, config = 1 }, pid = 42 }
        end)
        assert.is_true(s:run())
        assert.equal(1, counted)
        assert.is_not_nil(e.error:find(stage[4], 1, true), e.error)
        assert.same({ "left out: " .. e.error }, said)
        local ok, why, code = e:enable()
        assert.same({ nil, e.error, E.EBADF }, { ok, why, code })
      end)
      assert.same({}, k:leaks())
    end)
  end
end)

describe("doc/errors.md", function()
  it("has sixty cases or more, each with its own name", function()
    local seen = {}
    for _, case in ipairs(refusals.all()) do
      local name = case.chapter .. ": " .. case[1]
      assert.is_nil(seen[name], name)
      seen[name] = true
    end
    assert.is_true(#refusals.all() >= 60, #refusals.all())
  end)
end)
