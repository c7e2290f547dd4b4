-- page.lua - what an open live page costs perfl --http.
-- PERFL=PROGRAM lua5.4 bench/page.lua KEYS [open]   ms of CPU a second, with this number of keys and 300 stacks

local http = require "spec.support.http"
local run = require "spec.support.run"

local SECONDS = 10

local SCRIPT = [[
  local perfev = require "perfev"
  local counts = perfev.count { by = "key", title = "counts", max_keys = 1 << 20 }
  local times = perfev.hist { by = "key", title = "times", unit = "ns" }
  local stacks = perfev.profile { title = "stacks" }
  perfev.event { "dummy", sample = perfev.count() }
  for i = 1, KEYS do counts:add(i, i) end
  local nr = 0
  perfev.every("100ms", function()
    nr = nr + 1
    for i = 1, 50 do
      counts:add(1, i)
      times:add(i * 1000 + nr, i)
    end
    for i = 1, 300 do
      local stack = {}
      for depth = 1, 20 do stack[depth] = "function" .. i // depth end
      stacks:add(stack, 1)
    end
  end)
]]

local keys, is_open = arg[1], arg[2] == "open"
local dir = run.tempdir()
local served = http.serve(dir, { "-q" }, (SCRIPT:gsub("KEYS", keys)))
local function cpu()
  local _, _, text = http.get(served, "/metrics")
  return tonumber(text:match "\nperfev_cpu_seconds_total ([%d.]+)")
end

-- A page gets the stream of events, and asks for the flame graph after each.
local url = "http://127.0.0.1:" .. served.port
local reads = "timeout %d curl -sN %s/events & while sleep 1; do curl -s '%s/flame.json?profile=stacks'; done"
local page = is_open and reads:format(SECONDS, url, url) or "sleep " .. SECONDS
local before = cpu()
os.execute(("timeout %d sh -c %s > /dev/null 2>&1"):format(SECONDS, run.quote(page)))
print(("%.3f"):format(1000 * (cpu() - before) / SECONDS))
served:finish()
run.remove(dir)
