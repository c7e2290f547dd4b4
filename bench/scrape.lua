-- scrape.lua - what scrapes of /metrics cost perfl --http.
-- PERFL=PROGRAM lua5.4 bench/scrape.lua cpu KIND          ms of CPU for a scrape of 2,000 series of this kind
-- PERFL=PROGRAM lua5.4 bench/scrape.lua records COMMAND [PERIOD]  records counted while the command runs, with a scrape
--                                                         each PERIOD seconds

local http = require "spec.support.http"
local run = require "spec.support.run"

local SERIES, SCRAPES = 2000, 50

local SCRIPT = [[
  local perfev = require "perfev"
  local many = perfev.KIND { by = "key", title = "many" }
  for i = 1, SERIES do
    for value = 1, 1000, 100 do many:add(value, i) end
  end
  local counts = perfev.count { by = "tid", title = "counts" }
  perfev.event { "EVENT", sample = counts }
  perfev.done(function()
    local n = 0
    for _, nr in counts:pairs() do n = n + nr end
    print(n, #many)
  end)
]]

local what, argument, period = arg[1], arg[2], tonumber(arg[3])
local dir = run.tempdir()
local script = SCRIPT:gsub("KIND", what == "cpu" and argument or "hist"):gsub("SERIES", SERIES)
  :gsub("EVENT", what == "cpu" and "dummy" or "syscalls:sys_enter_getppid")

local function cpu_of_scrapes()
  local served = http.serve(dir, { "-q" }, script)
  local function cpu()
    local _, _, text = http.get(served, "/metrics")
    return tonumber(text:match "\nperfev_cpu_seconds_total ([%d.]+)")
  end
  local before = cpu()
  for _ = 2, SCRAPES do http.get(served, "/metrics") end
  local spent = cpu() - before -- a scrape reports the CPU time up to its start
  served:finish()
  return ("%.3f"):format(1000 * spent / SCRAPES)
end

-- The command ends when the load ends; scrapes go on until nothing answers.
local function counted_records()
  local served = http.serve(dir, { "-q" }, script, nil, argument)
  while period and pcall(http.get, served, "/metrics") do os.execute(("sleep %g"):format(period)) end
  served:finish()
  return run.slurp(served.dir .. "/out"):match "%d+"
end

print(what == "cpu" and cpu_of_scrapes() or counted_records())
run.remove(dir)
