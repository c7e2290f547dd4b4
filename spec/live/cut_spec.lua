-- perfl cut and merge on recordings by perf record: perf reads the result, with the same counts and names.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local WORK = "ls -l /usr/bin > /dev/null; for i in 1 2 3; do /bin/true; done"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local recorded, nr_recorded = {}, 0

-- Returns a recording with these options, made once.
local function record(options)
  requires("perf", "root", "program perf", "tracefs")
  if not recorded[options] then
    nr_recorded = nr_recorded + 1
    local path = ("%s/%d.data"):format(dir, nr_recorded)
    local result = run(("perf record -q -o %s %s -- sh -c %s"):format(path, options, run.quote(WORK)))
    assert.equal(0, result.code, result.err)
    recorded[options] = path
  end
  return recorded[options]
end

-- perf 6.1 aborts now and then if another session records.
local function perf(words)
  local result
  for _ = 1, 3 do
    result = run("perf " .. words)
    if result.code == 0 then return result.out end
  end
  error(("perf %s: %s"):format(words, result.err))
end

local structure = { TOTAL = true, FINISHED_ROUND = true, FINISHED_INIT = true, ID_INDEX = true, COMPRESSED = true,
                    EVENT_UPDATE = true }

-- The numbers of records by type without those that only structure the file, and of samples by event.
local function stats(path)
  local counts = {}
  for name, n in perf("report --stats -i " .. path):gmatch("\n *([^\n]-) events: +(%d+)") do
    counts[#counts + 1] = name .. " " .. n
  end
  local kept = {}
  for _, line in ipairs(counts) do
    if not structure[line:match "^[%u_]+"] then kept[#kept + 1] = line end
  end
  return kept
end

local function cut(path, ...)
  local to = path .. ".cut"
  local result = run { run.perfl, "cut", "-o", to, path, ... }
  assert.equal(0, result.code, result.err)
  return to
end

local function lines_with(text, wanted)
  local list = {}
  for line in text:gmatch("[^\n]+") do
    if line:find(wanted, 1, true) then list[#list + 1] = line end
  end
  return list
end

local EVENTS = "-e sched:sched_switch -e page-faults -c 1"

describe("perfl cut", function()
  for _, options in ipairs { EVENTS .. " -g", "-e cpu-clock -F 4000", EVENTS .. " -z" } do
    it("keeps perf's counts, samples, names and features: perf record " .. options, function()
      local path = record(options)
      local to = cut(path)
      assert.is_true(#stats(path) > 5)
      assert.same(stats(path), stats(to))
      assert.equal(perf("script --ns -i " .. path), perf("script --ns -i " .. to))
      local function header(of)
        local list = {}
        for line in perf("report --header-only -i " .. of):gmatch("[^\n]+") do
          local is_of_file = line:find "captured on" or line:find "offset" or line:find "data size"
            or line:find "features" or line:find "compressed"
          -- perf record -z writes 0 as the samples' times
          if not is_of_file and not line:find "time of" and not line:find "sample duration" then
            list[#list + 1] = line
          end
        end
        return table.concat(list, "\n")
      end
      assert.equal(header(path), header(to))
      local function build_ids(of) -- perf copies the vdso to a new file each time
        return (perf("buildid-list -i " .. of):gsub("/tmp/perf%-vdso[^\n]*", "vdso"))
      end
      assert.equal(build_ids(path), build_ids(to))
    end)
  end

  it("leaves perf's lines of a selected event and task as they are", function()
    local path = record(EVENTS .. " -g")
    local words = " --ns -G -F comm,tid,time,event,ip,sym,dso -i "
    local wanted = {}
    for _, line in ipairs(lines_with(perf("script" .. words .. path), "page-faults:")) do
      if line:find "^ *true " then wanted[#wanted + 1] = line end
    end
    assert.is_true(#wanted > 10)
    local to = cut(path, "-e", "page-faults", "--comm", "true")
    assert.same(wanted, lines_with(perf("script" .. words .. to), ":"))
  end)

  it("keeps the names of what comes after a time", function()
    local path = record(EVENTS .. " -g")
    local words = " --ns -G -F comm,tid,time,event,ip,sym,dso -i "
    local all = lines_with(perf("script" .. words .. path), ":")
    local from = #all // 2
    local seconds = all[from]:match " (%d+%.%d+): "
    local to = lines_with(perf("script" .. words .. cut(path, "--from", seconds)), ":")
    assert.is_true(#to >= #all - from)
    table.move(all, #all - #to + 1, #all, 1, all)
    assert.same({ table.unpack(all, 1, #to) }, to)
  end)
end)

describe("perfl -i FILE --record NEW", function()
  it("writes a recording for which perf has the counts and lines of the script's samples", function()
    local path = record(EVENTS .. " -g")
    local to, script = path .. ".also", [[event { "page-faults", sample = function(r) print(r.tid, r.ip) end }]]
    local result = run { run.perfl, "-i", path, "--comm", "true", "--record", to, "-e", script }
    assert.equal(0, result.code, result.err)
    assert.same(stats(cut(path, "--comm", "true")), stats(to))
    local seen = {}
    for tid, ip in perf("script -G -F tid,event,ip -i " .. to):gmatch "(%d+) +page%-faults: *(%x+)" do
      seen[#seen + 1] = ("%s\t%d"):format(tid, tonumber(ip, 16))
    end
    assert.is_true(#seen > 10)
    assert.equal(table.concat(seen, "\n") .. "\n", result.out)
  end)
end)

describe("perfl merge", function()
  -- perf's lines, without the widths of columns, which depend on the longest name.
  local function lines_of(...)
    local list = {}
    for _, path in ipairs { ... } do
      local text = perf("script --ns -F comm,tid,time,event,ip,sym,dso,trace -i " .. path)
      for part in text:gmatch "[^\n]+" do
        part = part:gsub("^%s+", ""):gsub("%s+", " ")
        if part:find "^%S+ +%d+ +%d+%.%d+:" then list[#list + 1] = part
        else list[#list] = list[#list] .. "\n" .. part end
      end
    end
    table.sort(list, function(a, b)
      local x, y = a:match " (%d+%.%d+):", b:match " (%d+%.%d+):"
      if x ~= y then return x < y end
      return a < b
    end)
    return list
  end

  it("has perf's lines of recordings with different layouts", function()
    local parts = { record("-e sched:sched_process_exec"), record("-e page-faults -c 1 -g"), record(EVENTS) }
    local to = dir .. "/merged.data"
    local result = run { run.perfl, "merge", "-q", "-o", to, table.unpack(parts) }
    assert.equal(0, result.code, result.err)
    local wanted = lines_of(table.unpack(parts))
    assert.is_true(#wanted > 100)
    assert.same(wanted, lines_of(to))
  end)
end)
