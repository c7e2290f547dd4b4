-- Facts of this machine as perfev and as perf write them: perf reads its recordings alike with perfev's sections and
-- synthesised records in place of its own.

local core = require "perfev.core"
local facts = require "perfev.perfdata.machine_facts"
local features = require "perfev.perfdata.read_features"
local mapped = require "spec.support.mapped"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"
local synthesise = require "perfev.perfdata.synthetic_records"
local tracing = require "perfev.perfdata.tracing_data"

local BIG = string.pack("=I2", 1) == "\0\1"
local FINISHED_INIT = 82
local OLD_ATTR = 112 -- bytes, VER5: every supported perf reads it
local WORK = "ls /usr/bin > /dev/null; cat /etc/passwd > /dev/null; /bin/true"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function record(options, work)
  if not run.root then pending("recording the kernel needs root") end
  if not run.have "perf" then pending("no perf(1)") end
  local path = dir .. "/perf.data"
  local result = run(("perf record -q -o %s %s -- sh -c %s"):format(path, options, run.quote(work or WORK)))
  if result.code ~= 0 then pending("perf record " .. options .. ": " .. result.err:sub(1, 200)) end
  return path
end

local function perf(command, path)
  return run { "sh", "-c", ("perf %s -i %s"):format(command, path) }.out
end

local function events_of(recording)
  local events = {}
  for i, event in ipairs(recording.events) do
    events[i] = { name = event.name, attr = event.attr, ids = event.ids, size = OLD_ATTR }
  end
  return events
end

-- perf's synthesised records end with FINISHED_INIT (since 5.17): the records after it are the kernel's.
local function kernel_records(path)
  local bytes = core.slurp(path)
  local offset, size = string.unpack("=I8I8", bytes, 41)
  local pos, first = offset + 1, nil
  while pos < offset + size do
    local type, _, len = string.unpack("=I4I2I2", bytes, pos)
    pos = pos + len
    if type == FINISHED_INIT then first = pos break end
  end
  if not first then pending("this perf does not say where its own records end") end
  return bytes:sub(first, offset + size)
end

local function fields_of(attr)
  local fields = {}
  for name, value in pairs(attr) do fields[name] = value end
  return fields
end

-- perf's recording with all that is ours.
local function ours(path)
  local recording <close> = assert(perfev.open(path))
  local events = events_of(recording)
  local sections, names = {}, {}
  local time = recording.header.sample_time
  for i, event in ipairs(events) do
    if event.attr.type == 2 then names[#names + 1] = event.name end
    events[i] = { name = event.name, attr = fields_of(event.attr), ids = event.ids, size = OLD_ATTR }
  end
  local side = recording.events[#recording.events]
  local data = perfdata.new { events = events }
  for bytes in synthesise.tasks { all = true, attr = side.attr, id = side.ids[1] } do data:add(bytes) end
  data:add(kernel_records(path))
  local made = path .. ".ours"
  local function write()
    run.write_file(made, data:file(sections))
  end
  if #names > 0 then sections[1] = assert(tracing.write(names)) end
  for _, section in ipairs(facts.features { version = perfev._VERSION, argv = { "perfl", "record" },
                                            events = events_of(recording) }) do
    sections[section.id] = section.bytes
  end
  write()
  local last = facts.features_at_end { maps = mapped(made), first_time = time.first, last_time = time.last }
  for _, section in ipairs(last) do
    sections[section.id] = section.bytes
  end
  write()
  return made
end

describe("the headers that perfl writes about this machine", function()
  -- Facts that change between two reads, or belong to the recorder.
  local own = { version = true, cmdline = true, event_desc = true, sample_time = true, build_ids = true }

  -- A virtual machine's memory is given and taken while it runs.
  local function near(a, b) assert.is_true(a < 2 * b and b < 2 * a, a .. " and " .. b) end

  it("decode to the same values as perf's", function()
    local path = record("-e cpu-clock -k monotonic")
    local recording <close> = assert(perfev.open(path))
    local header = {}
    for _, section in ipairs(facts.features { version = "1", argv = { "perfl" }, events = events_of(recording),
                                              clockid = 1 }) do
      header[section.name] = assert(features.decode(section.id, section.bytes, BIG, header))
      local theirs = recording.header[section.name]
      for i, node in ipairs(section.name == "numa_topology" and header.numa_topology or {}) do
        near(theirs[i].mem_total, node.mem_total)
        node.mem_total, node.mem_free = theirs[i].mem_total, theirs[i].mem_free
      end
      if section.name == "clock_data" then
        -- one second of all that passes between the two is enough: the clocks run alike
        local drift = (header.clock_data.wall - header.clock_data.clock) - (theirs.wall - theirs.clock)
        assert.is_true(math.abs(drift) < 1000000000, "the clocks are " .. drift .. " ns apart")
        assert.equal(theirs.clockid, header.clock_data.clockid)
      elseif section.name == "total_mem" then
        near(theirs, header.total_mem)
      elseif not own[section.name] then
        assert.same(theirs, header[section.name], section.name)
      end
    end
    for _, name in ipairs { "hostname", "arch", "nrcpus", "cpu_topology", "clockid", "pmu_mappings" } do
      assert.is_truthy(header[name], name)
    end
  end)

  it("miss no line of perf's except on BPF, and perf shows them line for line", function()
    local path = record("-e cpu-clock -a")
    local function sorted(head, list)
      local words = {}
      for word in list:gmatch("%S+ = %d+") do words[#words + 1] = word end
      table.sort(words)
      return head .. table.concat(words, ", ")
    end
    local function lines(file)
      local kept = {}
      for line in perf("report --header-only -I", file):gmatch("[^\n]+") do
        local changes = line:find("captured on", 1, true) or line:find("data offset", 1, true)
          or line:find("data size", 1, true) or line:find("feat offset", 1, true) or line:find("perf version", 1, true)
          or line:find("cmdline", 1, true) or line:find("event : name", 1, true)
        if not changes then
          line = line:gsub("free = %d+", "free"):gsub("(total[ %a]*[=:] )%d+ kB", "%1kB"):gsub(" BPF_%u+_?%u*", "")
          kept[#kept + 1] = line:gsub("^(# pmu mappings: )(.*)", sorted)
        end
      end
      return kept
    end
    local theirs = lines(path)
    assert.is_true(#theirs > 10, "perf showed no header")
    assert.same(theirs, lines(ours(path)))
  end)
end)

describe("perf's samples between perfl's sections and records", function()
  it("are printed as between perf's own: symbols, stacks, payloads with addresses in them", function()
    local path = record("-g -e kmem:kfree -e sched:sched_process_exec -e syscalls:sys_enter_openat -e page-faults -c 7")
    local printed = perf("script -F comm,tid,time,event,ip,sym,dso,trace 2>/dev/null", path)
    assert.matches("call_site=%l[%w_]*%+0x%x", printed) -- %pS has found its symbol
    assert.matches("main", printed)
    assert.equal(printed, perf("script -F comm,tid,time,event,ip,sym,dso,trace 2>/dev/null", ours(path)))
  end)

  it("have the same build ids if both have one, and include all files of perf's", function()
    local path = record("-e page-faults -c 1")
    local theirs = {}
    local recording <close> = assert(perfev.open(path))
    for _, id in ipairs(recording.header.build_ids) do theirs[id.filename] = id end
    local made <close> = assert(perfev.open(ours(path)))
    local seen = {}
    for _, id in ipairs(made.header.build_ids) do
      seen[id.filename] = true
      if theirs[id.filename] then assert.same(theirs[id.filename], id) end
    end
    for name in pairs(theirs) do assert.is_true(seen[name], name) end
  end)
end)

describe("the records of the initial state", function()
  -- Tasks that outlive this spec: this process, the kernel, and some of its threads.
  local function lasting(path, own)
    local lines, pids = {}, { [own] = true, ["-1"] = true, ["2"] = true, ["3"] = true }
    local shown = perf("script --show-task-events --show-mmap-events --show-namespace-events --show-cgroup-events "
      .. "2>/dev/null", path)
    for line in shown:gmatch("[^\n]+") do
      local what = line:match(" 0%.000000: (PERF_RECORD_.*)")
      local pid = what and (what:match("^PERF_RECORD_[%u%d]+ (%-?%d+)/") or what:match("^PERF_RECORD_FORK%((%d+):")
        or what:match("COMM: .*:(%d+)/%d+"))
      if what and (pids[pid] or what:find("CGROUP", 1, true)) then lines[#lines + 1] = what end
    end
    table.sort(lines)
    return lines
  end

  it("match perf's: kernel, cgroups, tasks, namespaces, maps", function()
    -- Where cgroups come and go meanwhile, all is done again.
    local function cgroups() return run.capture "find /sys/fs/cgroup -type d 2>/dev/null | sort" end
    local own = tostring(core.pid())
    local theirs, found, before
    repeat
      before = cgroups()
      local path = record("-a -e cpu-clock --namespaces --all-cgroups", "true")
      theirs, found = lasting(path, own), lasting(ours(path), own)
    until cgroups() == before
    local text = table.concat(theirs, "\n")
    for _, type in ipairs { "FORK", "COMM", "MMAP2", "NAMESPACES", "MMAP " } do assert.matches(type, text) end
    assert.same(theirs, found)
  end)

  it("are marked by their time, and belong to a known event", function()
    local path = ours(record("-a -e cpu-clock", "true"))
    local recording <close> = assert(perfev.open(path))
    local before, own = 0, {}
    for r, _, synthesised in recording:records { user = false } do
      -- At its end perf writes a record for each event that lost samples, too.
      if synthesised and r.type ~= "lost_samples" then
        before = before + 1
        assert.equal(recording.events[#recording.events].name, r.event.name)
        if r.pid == core.pid() and r.type == "comm" then own[#own + 1] = r.comm end
      end
    end
    assert.is_true(before > 10)
    assert.equal(core.slurp "/proc/self/comm", own[1] .. "\n")
  end)
end)
