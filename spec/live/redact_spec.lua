-- perfl redact on recordings of perf record and perfl record: no text is left, and perf reads the result with the same
-- counts, times and addresses.

local json = require "spec.support.json"
local perfev = require "perfev"
local perfl_section = require "perfev.perfdata.perfl_section"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local MARK = "SECRET"

local dir
before_each(function() dir = run.tempdir() end)
after_each(function() run.remove(dir) end)

local function sh(command)
  local result = run(("cd %s && %s"):format(dir, command))
  assert.equal(0, result.code, result.err)
  return result.out
end

-- perf 6.1 aborts now and then if another session records.
local function perf(words)
  local result
  for _ = 1, 3 do
    result = run(("cd %s && perf %s"):format(dir, words))
    if result.code == 0 then return result.out end
  end
  error(("perf %s: %s"):format(words, result.err))
end

-- Records of a program whose path, arguments and files are secret.
local function record(program, options)
  requires("perf", "root", "program perf", "tracefs")
  sh(("mkdir %s_dir && cp /bin/ls %s_dir/%s_ls"):format(MARK, MARK, MARK))
  sh(("%s record -q -o t.data %s -- sh -c './%s_dir/%s_ls -l /usr/bin %s_dir; true' > /dev/null"):format(program,
    options, MARK, MARK, MARK))
  assert.truthy(run.slurp(dir .. "/t.data"):find(MARK, 1, true), "the recording has the secret")
end

local structure = { TOTAL = true, FINISHED_ROUND = true, FINISHED_INIT = true, ID_INDEX = true, COMPRESSED = true,
                    EVENT_UPDATE = true }

local function stats(path)
  local counts = {}
  for name, n in perf("report --stats -i " .. path):gmatch "\n *([^\n]-) events: +(%d+)" do
    if not structure[name:match "^[%u_]+"] then counts[#counts + 1] = name .. " " .. n end
  end
  return counts
end

-- The names of functions are compressed.
local function assert_no_names(path)
  local rec <close> = assert(perfev.open(dir .. "/" .. path))
  local names = perfl_section.names(rec:section "version", rec.facts.big)
  assert.is_nil(names and names:find(MARK, 1, true))
end

local function samples_of(path)
  local result = run { run.perfl, "report", "-j", dir .. "/" .. path }
  assert.equal(0, result.code, result.err)
  return json.decode(result.out).samples
end

local PERFL = run.quote(run.perfl)
local EVENTS = "-e sched:sched_process_exec -e sched:sched_switch -e page-faults -c 1"

-- The addresses of all call chains, and of samples without one.
local function addresses(path)
  local list = {}
  for word in perf("script -F ip -i " .. path):gmatch "%x+" do list[#list + 1] = word end
  return list
end

-- An address that is in no mapped code is 0; of the programs here, which have no frame pointers, that is a part.
local function assert_addresses()
  local removed, before, after = 0, addresses "t.data", addresses "new.data"
  assert.equal(#before, #after)
  for i, address in ipairs(before) do
    if address ~= after[i] then
      assert.equal("0", after[i])
      removed = removed + 1
    end
  end
  assert.is_true(removed < #before / 2, removed .. " of " .. #before)
end

describe("perfl redact", function()
  for _, how in ipairs {
    { "perf", EVENTS .. " -g", "tid,time,event" }, { "perf", EVENTS .. " -z", "tid,time,event,ip,period" },
    { "perf", EVENTS .. " --call-graph dwarf", "tid,time,event" }, { PERFL, EVENTS .. " -g", "tid,cpu,time,event" },
    { PERFL, EVENTS .. " -z -I", "tid,cpu,time,event,ip" },
  } do
    it(("leaves no secret, and perf's counts: %s record %s"):format(how[1]:match "(%w+)'?$", how[2]), function()
      record(how[1], how[2])
      sh(PERFL .. " redact -q -o new.data t.data")
      assert.is_nil(run.slurp(dir .. "/new.data"):find(MARK, 1, true))
      assert_no_names "new.data"
      assert.is_true(#stats "t.data" > 5)
      assert.same(stats "t.data", stats "new.data")
      assert.equal(samples_of "t.data", samples_of "new.data")
      local words = ("script --ns -F %s -i "):format(how[3])
      assert.equal(perf(words .. "t.data"), perf(words .. "new.data"))
      if not how[2]:find "dwarf" then assert_addresses() end
      local said = perf "script -F comm,event,trace -i new.data"
      assert.is_truthy(said:find "comm%-%d+ +sched:sched_process_exec: +filename=text%-%d+ pid=%d+ old_pid=%d+")
      assert.is_truthy(said:find "comm%-%d+ +sched:sched_switch: [^\n]*comm%-%d+[: ]") -- libtraceevent has two forms
      assert.is_truthy(perf("report --stdio -g none -i new.data"):find "%d%%")
    end)
  end

  it("keeps what the rules keep: names of tasks as perf prints them", function()
    record("perf", EVENTS)
    run.write_file(dir .. "/rules.lua", [[
      return { comm = function(name) return name:find "SECRET" and "hidden" or name end }]])
    sh(PERFL .. " redact -q --rules rules.lua -o new.data t.data")
    assert.is_nil(run.slurp(dir .. "/new.data"):find(MARK, 1, true))
    local words = "script --ns -F comm,tid,time,event -i "
    local wanted = perf(words .. "t.data"):gsub("SECRET_ls *", "hidden")
    assert.equal((wanted:gsub(" +", " ")), (perf(words .. "new.data"):gsub("hidden *", "hidden"):gsub(" +", " ")))
  end)
end)
