-- /metrics of perfl --http, read by a real Prometheus.
-- METRICS_SECONDS=60 scrapes under load for a minute; by default two or three times.

local http = require "spec.support.http"
local json = require "spec.support.json"
local run = require "spec.support.run"

local SECONDS = tonumber(os.getenv "METRICS_SECONDS" or 4)
local INTERVAL = 2 -- of scrapes, in seconds
local TRIES = 600

local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local CONFIG = [[
global:
  scrape_interval: %ds
  scrape_timeout: %ds
scrape_configs:
  - job_name: perfl
    static_configs:
      - targets: ["127.0.0.1:%s"]
]]

local Prometheus = {}
Prometheus.__index = Prometheus

-- Starts Prometheus, which scrapes the server.
local function start_prometheus(served)
  run.write_file(served.dir .. "/prometheus.yml", CONFIG:format(INTERVAL, INTERVAL, served.port))
  local line = ("sh -c 'echo $$; exec timeout 600 prometheus --config.file=%s/prometheus.yml "
    .. "--storage.tsdb.path=%s/tsdb --web.listen-address=127.0.0.1:0' 2>&1"):format(served.dir, served.dir)
  local self = setmetatable({ pipe = assert(io.popen(line)) }, Prometheus)
  self.pid = self.pipe:read "n"
  local said = {}
  repeat
    local text = self.pipe:read "l"
    said[#said + 1] = text
    self.port = text and text:match 'msg="Listening on" address=127%.0%.0%.1:(%d+)'
  until self.port or not text
  assert(self.port, table.concat(said, "\n"))
  return self
end

function Prometheus:stop()
  os.execute(("kill %d"):format(self.pid))
  self.pipe:read "a"
  self.pipe:close()
end

-- The values of a query: a list of { metric = {label = value}, value = number }.
function Prometheus:query(text)
  local escaped = text:gsub("[^%w_.]", function(c) return ("%%%02X"):format(c:byte()) end)
  local status, _, body = http.get(self, "/api/v1/query?query=" .. escaped)
  if status ~= 200 then return {}, body end
  local list = {}
  for i, one in ipairs(json.decode(body).data.result) do
    list[i] = { metric = one.metric, value = tonumber(one.value[2]) }
  end
  return list
end

-- The value of a query once it is at least this.
function Prometheus:await(text, least)
  for _ = 1, TRIES do
    local found = self:query(text)[1]
    if found and found.value >= least then return found.value end
    os.execute "sleep 0.1"
  end
  error(("Prometheus has no value of %s"):format(text))
end

describe("a real Prometheus", function()
  local it = require "spec.support.skip"(it, function()
    if not run.have "prometheus" then pending "prometheus is not installed (try: make deps)" end
  end)
  local served, prometheus

  local function start()
    served = http.serve(dir, { "-q" }, [[
      local perfev = require "perfev"
      perfev.event { "dummy", sample = function() end }
      local hist = perfev.hist { title = "took", unit = "ns" }
      local sketch = perfev.quantile { title = "sketch", unit = "ns" }
      local x = 1
      for _ = 1, 20000 do
        x = (x * 1103515245 + 12345) % (1 << 31)
        local value = math.floor(2 ^ (x / (1 << 31) * 20))
        hist:add(value)
        sketch:add(value)
      end
      local labels = perfev.count { by = "key", title = "labels" }
      for _, key in ipairs { 'quote"', "back\\slash", "line\nfeed", "\xff", "ü" } do labels:inc(key) end
      perfev.done(function() print(#hist, #sketch, #labels) end)
    ]])
    prometheus = start_prometheus(served)
    assert.equal(20000, prometheus:await("perfev_took_seconds_count", 20000))
  end

  teardown(function()
    if prometheus then prometheus:stop() end
    if served then served:finish() end
  end)

  it("computes the quantiles of a hist within one bucket of a:quantile", function()
    start()
    local function bucket(ns) return math.floor(math.log(ns, 2)) end
    for _, q in ipairs { "0.5", "0.9", "0.99", "0.999" } do
      local mine = prometheus:query(('perfev_sketch_seconds{quantile="%s"}'):format(q))[1].value * 1e9
      local theirs = prometheus:query(("histogram_quantile(%s, perfev_took_seconds_bucket)"):format(q))[1].value * 1e9
      assert.is_true(math.abs(bucket(mine) - bucket(theirs)) <= 1, ("%s: %g and %g ns"):format(q, mine, theirs))
    end
  end)

  it("understands the queries of the Grafana dashboard, on metrics that exist", function()
    local dashboard = json.decode(run.slurp "doc/perfev-dashboard.json")
    local values = { ["$instance"] = ".*", ["$counter"] = "perfev_labels_total", ["$top"] = "10",
                     ["$histogram"] = "perfev_took_seconds_bucket", ["$__rate_interval"] = "1m" }
    local _, _, text = http.get(served, "/metrics")
    local seen = 0
    for _, panel in ipairs(dashboard.panels) do
      for _, target in ipairs(panel.targets) do
        local query = target.expr:gsub("%$[%a_]+", values)
        local answer, why = prometheus:query(query)
        assert.is_nil(why, query)
        assert.is_true(#answer > 0 or query:find "rate%(" ~= nil or query:find "increase%(" ~= nil, query)
        for name in query:gmatch "perfev_[%w_]+" do assert.truthy(text:find("\n" .. name, 1, true), name) end
        seen = seen + 1
      end
    end
    assert.equal(16, seen)
    for _, variable in ipairs(dashboard.templating.list) do
      local metric = (variable.definition or ""):match "label_values%((.*), [%a_]+%)$"
      if metric then assert.is_true(#prometheus:query((metric:gsub("%$[%a_]+", values))) > 0, metric) end
    end
  end)

  it("reads labels as they are", function()
    local seen = {}
    for _, one in ipairs(prometheus:query "perfev_labels_total") do seen[one.metric.key] = one.value end
    assert.same({ ['quote"'] = 1, ["back\\slash"] = 1, ["line\nfeed"] = 1, ["\\xff"] = 1, ["ü"] = 1 }, seen)
  end)

  it("scrapes 2,000 series beside a full rate of records without a loss more", function()
    if not run.root then pending "tracepoints need root" end
    local script = [[
      local perfev = require "perfev"
      local counts = perfev.count { by = "pid", title = "calls" }
      local many = perfev.count { by = "key", title = "many" }
      local took = perfev.hist { by = "key", title = "took", unit = "ns" }
      for i = 1, 2000 do
        many:inc(i)
        took:add(i, i)
      end
      perfev.event { "syscalls:sys_enter_write", filter = "count == 1", sample = counts }
      perfev.done(function() print(#counts, #many, #took) end)
    ]]
    -- The writes go on until the spec is done.
    local load = "sh -c 'dd if=/dev/zero of=/dev/null bs=1 status=none & read x < HOLD; kill $!'"
    local function lost_in(messages) return tonumber((messages:match " records, ([%d,]+) lost":gsub(",", ""))) end
    local alone = http.serve(dir, {}, script, nil, load)
    os.execute(("sleep %d"):format(SECONDS // 2))
    local lost_alone = lost_in((alone:finish()))
    local beside = http.serve(dir, {}, script, nil, load)
    local scraper = start_prometheus(beside)
    local ok, why = pcall(function()
      scraper:await("count_over_time(perfev_lost_records_total[1h])", SECONDS // INTERVAL)
      assert.equal(2000, scraper:query "count(last_over_time(perfev_many_total[1h]))"[1].value)
      assert.equal(2000, scraper:query "count(last_over_time(perfev_took_seconds_count[1h]))"[1].value)
      assert.is_true(scraper:query "last_over_time(perfev_calls_total[1h])"[1].value > 0)
      print(("scrapes of up to %.3f s"):format(scraper:query "max_over_time(scrape_duration_seconds[1h])"[1].value))
    end)
    scraper:stop()
    local messages = beside:finish()
    assert(ok, why)
    print(messages)
    if lost_alone > 0 then pending(("%d records are lost without a scrape"):format(lost_alone)) end
    assert.equal(0, lost_in(messages))
  end)
end)

describe("the unit perfl-http.service", function()
  local unit = run.slurp "doc/perfl-http.service"
  local function value(key) return unit:match("\n" .. key .. "=([^\n]*)") end

  it("gives perfl the rights that its script needs, and no others", function()
    if not run.root then pending "setting capabilities needs root" end
    if run.capture(run.quote(run.perfl) .. " --version"):find "static" then pending "a static perfl cannot serve" end
    assert.equal(value "CapabilityBoundingSet", value "AmbientCapabilities")
    local words = { "-all" }
    for name in value "AmbientCapabilities":gmatch "CAP_(%S+)" do words[#words + 1] = "+" .. name:lower() end
    local caps = table.concat(words, ",")
    local arguments = value "ExecStart":match "^/usr/local/bin/perfl (.*)$":gsub("127.0.0.1:9464", "0")
    local r = run(("setpriv --reuid=nobody --regid=$(id -g nobody) --clear-groups --inh-caps=%s --ambient-caps=%s "
      .. "--bounding-set=%s --no-new-privs -- %s %s -d 100ms"):format(caps, caps, caps, run.perfl, arguments))
    assert.equal(0, r.code, r.err)
    assert.matches("^perfl: serving http://127%.0%.0%.1:%d+/\n$", r.err)
  end)

  it("is valid for systemd", function()
    if not run.have "systemd-analyze" then pending "systemd is not installed" end
    local path = run.write_file(dir .. "/perfl-http.service", (unit:gsub("/usr/local/bin/perfl", run.perfl)))
    local r = run { "systemd-analyze", "verify", "--man=no", path }
    assert.same({ 0, "", "" }, { r.code, r.out, r.err })
  end)
end)
