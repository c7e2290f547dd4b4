-- What many hosts cost: lua5.4 bench/fleet.lua, after make, with nats-server installed. `make fleet` runs it.
--
-- Hosts are simulated (spec/support/simulated_hosts.lua, simulated_agents.lua); the server, the connections, the frames
-- and the merging are real. Figures of the prototypes are those of the same rows in 2026, on two noisy cores.

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
package.cpath = "build/?.so;" .. package.cpath

local core = require "perfev.core"
local frames = require "perfev.aggregate.frames"
local hosts = require "spec.support.simulated_hosts"
local json = require "perfev.base.json"
local nats_server = require "spec.support.nats_server"
local perfev = require "perfev"
local run = require "spec.support.run"

local real = perfev.hooks.real
local MONOTONIC = 1
local WINDOW = 64

local function now() return core.clock(MONOTONIC) / 1e6 end -- ms
local function sleep(s) os.execute(("sleep %g"):format(s)) end

local function rss_of(pid)
  local status = core.slurp(("/proc/%d/status"):format(pid)) or ""
  return (tonumber(status:match "VmHWM:%s*(%d+)") or 0) / 1024
end

local function cpu_of(pid)
  local stat = (core.slurp(("/proc/%d/stat"):format(pid)) or ""):match "%) (.*)$"
  local words = {}
  for word in (stat or ""):gmatch "%S+" do words[#words + 1] = tonumber(word) or 0 end
  return ((words[12] or 0) + (words[13] or 0)) / 100 -- user and system, s
end

-- ---- a template: every kind of aggregator, and a profile ----

local function all_kinds()
  local list = {}
  for _, kind in ipairs { "count", "sum", "avg", "min", "max", "stats", "hist", "quantile", "top" } do
    local a = perfev[kind] { by = { "comm", "cpu" } }
    for i = 1, 40 do a:add(i * i % 997 + 1, "task" .. i % 7, i % 3) end
    list[#list + 1] = { name = kind, value = a, kind = kind }
  end
  local p = perfev.profile { values = { "samples", { "time", unit = "ns" } } }
  for i = 1, 50 do p:add({ { symbol = "f" .. i % 11, module = "/bin/x" }, "g" .. i % 5, "main" }, i, i * 1000) end
  list[#list + 1] = { name = "stacks", value = p, kind = "profile" }
  return list
end

local function one_profile()
  return { { name = "stacks", value = perfev.profile(), kind = "profile" } }
end

local function one_hist(nr)
  local a = perfev.hist { by = "comm" }
  for i = 1, nr do a:add(i * 37, "task" .. i % 18) end
  return { { name = "latency", value = a, kind = "hist" } }
end

local function write_template(path, list)
  local file = assert(io.open(path, "wb"))
  for _, one in ipairs(list) do
    local header = { host = "template", start = ("0"):rep(32), seq = 0, name = one.name, kind = one.kind, begin = 1,
                     ["end"] = 2 }
    for _, bytes in ipairs(assert(frames.encode(header, one.value))) do file:write(bytes) end
  end
  file:close()
end

-- ---- one question to all hosts ----

-- Takes the frames of a message into the merged values by name.
local function merge_frames(merged, bytes)
  for frame, why in frames(bytes) do
    local value = assert(assert(frame, why):value { max_bytes = 1 << 30 })
    local name = frame.header.name
    if merged[name] then merged[name]:merge(value) else merged[name] = value end
  end
end

-- Asks, fetches with a window, merges as answers arrive -> { hosts, first, last (ms), bytes, merged }
local function ask(url, nr)
  local nats, protocol = require "perfev.nats", require "perfl.fleet.protocol"
  local c <close> = assert(nats.connect { url = url, name = "bench" })
  local id = protocol.new_id()
  local answers = assert(c:subscribe(("perfev.res.*.%s"):format(id), nil, { messages = 100000, bytes = 1 << 30 }))
  assert(c:flush(5000))
  local epoll = assert(real.epoll_create())
  assert(real.epoll_ctl(epoll, 1, c:fd(), 1, 1))
  local result = { hosts = 0, bytes = 0, merged = {} }
  local waiting, at, open, left = {}, 1, 0, {}
  local begin = now()
  c:publish(protocol.run_subject "all", protocol.encode { op = "run", id = id, script = "bench",
    time = core.clock(0) })
  local function fetch()
    while open < WINDOW and waiting[at] do
      local one = waiting[at]
      at, open = at + 1, open + 1
      left[one.host] = one.frames
      c:publish(protocol.run_subject(one.host), protocol.encode { op = "fetch", id = id, from = 1,
        count = one.frames })
    end
  end
  while result.hosts < nr and now() - begin < 120000 do
    real.epoll_wait(epoll, 8, 100)
    for _, note in ipairs(c:notes()) do
      if note.kind == "slow" then result.slow = (result.slow or 0) + 1 end
    end
    local message = answers:next()
    while message do
      local fields, body = protocol.decode(message.data)
      if fields and fields.op == "ready" then
        waiting[#waiting + 1] = { host = fields.host, frames = fields.frames }
        fetch()
      elseif fields and fields.op == "frame" then
        result.bytes = result.bytes + #body
        merge_frames(result.merged, body)
        left[fields.host] = left[fields.host] - 1
        if left[fields.host] == 0 then
          result.hosts, open = result.hosts + 1, open - 1
          result.first = result.first or now() - begin
          fetch()
        end
      end
      message = answers:next()
    end
  end
  result.last = now() - begin
  return result
end

-- ---- exactness ----

local function canonical(value)
  if value.stacks then return value:folded { value = 1 } .. value:folded { value = #value.values } end
  local rows = {}
  for i, row in ipairs(value:rows()) do rows[i] = json.encode(row) end
  table.sort(rows)
  return table.concat(rows, "\n")
end

-- The total of profiles that are too large to build once more.
local function has_total(merged, bytes, first, nr)
  local times = 0
  for number = first, first + nr - 1 do times = times + hosts.times(number) end
  local one = hosts.big_profile(perfev.profile(), bytes)
  return merged.stacks ~= nil and merged.stacks:total() == times * one:total(), "stacks"
end

-- Compares the merged values with the template's, added up as often as the hosts have them.
local function is_exact(merged, template, first, nr)
  local times = 0
  for number = first, first + nr - 1 do times = times + hosts.times(number) end
  for _, one in ipairs(template) do
    local expected = assert(perfev.unpack(one.value:pack()))
    for _ = 2, times do expected:merge(assert(perfev.unpack(one.value:pack()))) end
    if not merged[one.name] or canonical(merged[one.name]) ~= canonical(expected) then return false, one.name end
  end
  return true
end

-- ---- rows ----

local failed = false

local function print_row(name, text, before) print(("%-34s %s%s"):format(name, text, before and "\n" .. (" "):rep(35)
  .. "prototype: " .. before or "")) end

local function start_hosts(dir, url, nr, connections, bytes)
  local ready = dir .. "/ready"
  os.remove(ready)
  local words = { "timeout", "300", "lua5.4", "spec/support/simulated_hosts.lua", url, "1", tostring(nr),
                  tostring(connections), dir .. "/template", tostring(bytes), "290", ready }
  for i, word in ipairs(words) do words[i] = run.quote(word) end
  assert(os.execute(("sh -c 'echo $$ > %s/hosts.pid; exec \"$@\"' sh %s >%s/hosts.out 2>&1 </dev/null &"):format(dir,
    table.concat(words, " "), dir)))
  for _ = 1, 2400 do
    if io.open(ready) then return tonumber((run.slurp(dir .. "/hosts.pid"))) end
    sleep(0.05)
  end
  error("the hosts do not start: " .. (run.slurp(dir .. "/hosts.out") or ""))
end

local function measure_answers(name, nr, connections, bytes, template, before)
  local dir = run.tempdir()
  local server = assert(nats_server.start { jetstream = false, config = "max_payload: 1MB" })
  write_template(dir .. "/template", template)
  local pid = start_hosts(dir, server.url, nr, connections, bytes)
  ask(server.url, math.min(nr, 5)) -- warm
  local cpu = os.clock()
  local result = ask(server.url, nr)
  cpu = os.clock() - cpu
  local exact, wrong
  if bytes > 0 then
    exact, wrong = has_total(result.merged, bytes, 1, nr)
  else
    exact, wrong = is_exact(result.merged, template, 1, nr)
  end
  local slow = select(2, server:log():gsub("Slow Consumer", "")) + (result.slow or 0)
  print_row(name, ("%d of %d hosts, first %.1f ms, last %.2f s, %.1f MB of frames, asker %.2f s CPU, server %.0f MB, "
    .. "slow consumers %d%s"):format(result.hosts, nr, result.first or -1, result.last / 1000, result.bytes / 1e6, cpu,
    rss_of(server.pid), slow, exact and ", gathered = fed" or ", NOT EXACT: " .. wrong), before)
  failed = failed or result.hosts < nr or slow > 0 or not exact
  os.execute(("kill %d"):format(pid))
  server:stop()
  run.remove(dir)
end

-- CPU of an agent for an interval: reading a worker's frame, coalescing, encoding, publishing, the acknowledgement.
local function measure_agent()
  local outboxes = require "perfl.fleet.deltas"
  local server = assert(nats_server.start())
  local publisher = require("spec.support.deltas").publisher(server.url)
  local counts = setmetatable({}, { __index = function() return 0 end })
  local function interval_cpu(stacks_of)
    local outbox = outboxes.new { job = "b" .. tostring(stacks_of):gsub("%W", ""), host = "sim", machine = "sim",
                                  counts = counts }
    outbox:connect(publisher.connection)
    local INTERVALS, cpu, bytes = 60, 0, 0
    for n = 1, INTERVALS do
      local p = perfev.profile()
      for i = 1, 300 do p:add(stacks_of(n, i), i) end
      local parts = assert(frames.encode({ host = "sim", start = outbox.start, seq = n, name = "stacks",
        kind = "profile", begin = n, ["end"] = n + 1 }, p))
      local begin = os.clock()
      for frame in frames(parts[1]) do assert(outbox:add(frame)) end
      cpu, bytes = cpu + os.clock() - begin, bytes + #parts[1]
      repeat
        begin = os.clock()
        for _, ack in ipairs(publisher.connection:acks()) do outbox:acknowledge(ack) end
        cpu = cpu + os.clock() - begin
        sleep(0.002)
      until outbox:is_empty()
    end
    return cpu / INTERVALS * 1000, bytes / INTERVALS / 1000
  end
  local function stack(a, b)
    local names = { "main" }
    for depth = 2, 20 do names[depth] = ("function_%d_%d"):format((a * 31 + depth * b) % 4000, depth) end
    return table.concat(names, ";")
  end
  local same, same_kb = interval_cpu(function(_, i) return stack(1, i) end)
  local new, new_kb = interval_cpu(function(n, i) return stack(n, i + n * 300) end)
  print_row("agent, 300 stacks an interval", ("the same stacks: %.1f ms CPU, %.1f kB; new ones: %.1f ms, %.1f kB")
    :format(same, same_kb, new, new_kb))
  publisher:close()
  server:stop()
end

-- Regions merge their hosts, one more merge adds the regions: the same result as one merge of all hosts.
local function measure_regions()
  local REGIONS, HOSTS, STACKS = 20, 50, 300
  local function host_profile(number)
    local p = perfev.profile()
    for i = 1, STACKS do -- nine of ten are the same on all hosts
      local own = i % 10 == 0 and number or 0
      local names = { "main" }
      for depth = 2, 20 do names[depth] = ("function_%d_%d"):format((i * depth + own * 7919) % 4000, depth) end
      p:add(table.concat(names, ";"), i + number)
    end
    return p:pack()
  end
  local packs, all = {}, perfev.profile { max_bytes = "1G" }
  for number = 1, REGIONS * HOSTS do packs[number] = host_profile(number) end
  local begin = os.clock()
  for _, bytes in ipairs(packs) do all:merge(assert(perfev.unpack(bytes))) end
  local flat = os.clock() - begin
  local regions, size, in_regions = {}, 0, os.clock()
  for region = 1, REGIONS do
    local p = perfev.profile { max_bytes = "1G" }
    for i = 1, HOSTS do p:merge(assert(perfev.unpack(packs[(region - 1) * HOSTS + i]))) end
    regions[region] = frames.encode({ host = "region", start = ("0"):rep(32), seq = 0, name = "stacks",
      kind = "profile" }, p)
    for _, bytes in ipairs(regions[region]) do size = size + #bytes end
  end
  in_regions = (os.clock() - in_regions) / REGIONS
  begin = os.clock()
  local merged = { stacks = perfev.profile { max_bytes = "1G" } }
  for _, parts in ipairs(regions) do
    for _, bytes in ipairs(parts) do merge_frames(merged, bytes) end
  end
  local top = os.clock() - begin
  local exact = canonical(merged.stacks) == canonical(all)
  failed = failed or not exact
  print_row(("%d regions of %d hosts, %d stacks"):format(REGIONS, HOSTS, STACKS), ("one merge of all: %.2f s CPU; a "
    .. "region: %.0f ms and %.0f kB; the merge of the regions: %.0f ms%s"):format(flat, in_regions * 1000,
    size / REGIONS / 1000, top * 1000, exact and ", the same stacks and counts" or ", NOT THE SAME"))
end

-- The collector behind agents that publish as fast as they can.
local function measure_collector()
  local dir = run.tempdir()
  local server = assert(nats_server.start())
  local deltas = require "spec.support.deltas"
  local publisher = deltas.publisher(server.url)
  local a = perfev.count { by = "comm" }
  for i = 1, 20 do a:add(i, "task" .. i) end
  local HOSTS, FRAMES = 500, 10
  for seq = 1, FRAMES do
    for host = 1, HOSTS do
      publisher:send { host = "sim-" .. host, seq = seq, value = a, at = os.time() - 9 }
      if host % 100 == 0 then publisher:settle() end
    end
  end
  publisher:settle()
  local begin = now()
  local r = run({ "sh", "-c", ("%s collect -s %s --to %s/rows --once; status=$?; times; exit $status"):format(
    run.quote(run.perfl), server.url, dir) })
  local seconds = (now() - begin) / 1000
  local user, system = r.out:match "\n(%S+) (%S+)\n*$"
  print_row("collector, 500 hosts, 20 rows each", ("%d frames in %.2f s: %.0f frames/s (CPU %s user, %s system), "
    .. "server %.0f MB, %.1f s CPU"):format(HOSTS * FRAMES, seconds, HOSTS * FRAMES / seconds, user or "?",
    system or "?", rss_of(server.pid), cpu_of(server.pid)))
  if r.code ~= 0 or not r.err:find "100,000 rows of 5,000 frames written" then
    failed = true
    print(r.err)
  end
  publisher:close()
  server:stop()
  run.remove(dir)
end

if not run.have "nats-server" then
  print "skipped: nats-server is not installed (try: make deps)"
  os.exit(0)
end
print(("%s cores, load %s"):format((run.capture "nproc"), (core.slurp "/proc/loadavg"):match "%S+"))
measure_answers("50 hosts, every kind", 50, 50, 0, all_kinds(), "first 2.5 ms")
measure_answers("500 hosts x 150 kB of stacks", 500, 50, 150000, one_profile(),
  "first 7 ms; 5,000 x 149 kB: 1.6 to 2.6 s with a window of 64 and zstd")
measure_answers("5,000 hosts x 1 kB", 5000, 50, 0, one_hist(90), "all in 2 s")
-- The threads of a thousand connections in one process take turns: only the server's memory counts.
measure_answers("1,000 hosts, 1,000 connections", 1000, 1000, 0, one_hist(90))
measure_agent()
measure_collector()
measure_regions()
os.exit(failed and 1 or 0)
