-- /metrics of perfl --http: names, types and values of each kind of aggregator, in Prometheus' text format.

local http = require "spec.support.http"
local run = require "spec.support.run"

local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- The event needs no rights. An aggregator that no callback uses would be collected as garbage.
local HEAD = [[
  local perfev = require "perfev"
  kept = {}
  for name in ("count top sum avg min max stats hist quantile profile"):gmatch "%S+" do
    local make = perfev[name]
    perfev[name] = function(spec)
      kept[#kept + 1] = make(spec)
      return kept[#kept]
    end
  end
  perfev.event { "dummy", sample = function() end }
]]

-- The metrics of a script -> text, the server
local function scraped(served)
  local status, headers, body = http.get(served, "/metrics")
  assert.equal(200, status)
  assert.equal("text/plain; version=0.0.4; charset=utf-8", headers["content-type"])
  return body
end

local function metrics_of(script)
  local served = http.serve(dir, { "-q" }, HEAD .. script)
  local text = scraped(served)
  local messages, status = served:finish()
  assert.same({ "", 0 }, { messages, status })
  return text
end

-- The lines of a metric, and of those whose name begins with it.
local function lines_of(text, name)
  local lines = {}
  for line in text:gmatch "[^\n]+" do
    if line:gsub("^# %u+ ", ""):find("perfev_" .. name, 1, true) == 1 then lines[#lines + 1] = line end
  end
  return table.concat(lines, "\n")
end

local function check_by_promtool(text)
  if not run.have "promtool" then return end
  local r = run({ "promtool", "check", "metrics" }, { stdin = text })
  assert.same({ 0, "", "" }, { r.code, r.out, r.err })
end

local EVERY_KIND = [[
  local values = { 0, 1, 3, 5, 1000 }
  for _, kind in ipairs { "sum", "avg", "min", "max", "stats", "hist", "quantile" } do
    local a = perfev[kind] { by = "comm", unit = "us", title = "The " .. kind }
    for _, value in ipairs(values) do a:add(value, "sh") end
  end
  local count, top = perfev.count { by = { "comm", "args.id" } }, perfev.top { by = "cpu" }
  local linear = perfev.hist { low = 0, high = 10, step = 5, title = "sizes", unit = "bytes" }
  local falls = perfev.sum { title = "balance", unit = "bytes" }
  for i, value in ipairs(values) do
    count:inc("sh", i % 2)
    top:inc(i % 2)
    linear:add(value)
    falls:add(value - 4)
  end
  perfev.profile { title = "stacks", values = { "samples", { "time", unit = "ns" } } }:add({ "f", "main" }, 2, 1500000)
  perfev.count { title = "nothing" }
  perfev.count { title = "no key", by = "comm" }
]]

describe("/metrics", function()
  it("has each kind of aggregator, in base units, as promtool likes it", function()
    local text = metrics_of(EVERY_KIND)
    for name, lines in pairs {
      the_sum = [[
# HELP perfev_the_sum_seconds_total The sum
# TYPE perfev_the_sum_seconds_total counter
perfev_the_sum_seconds_total{comm="sh"} 0.001009]],
      the_avg = [[
# HELP perfev_the_avg_seconds The avg
# TYPE perfev_the_avg_seconds summary
perfev_the_avg_seconds_sum{comm="sh"} 0.001009
perfev_the_avg_seconds_count{comm="sh"} 5]],
      the_min = [[
# HELP perfev_the_min_seconds The min
# TYPE perfev_the_min_seconds gauge
perfev_the_min_seconds{comm="sh"} 0]],
      the_max = [[
# HELP perfev_the_max_seconds The max
# TYPE perfev_the_max_seconds gauge
perfev_the_max_seconds{comm="sh"} 0.001]],
      the_stats = [[
# HELP perfev_the_stats_seconds The stats
# TYPE perfev_the_stats_seconds summary
perfev_the_stats_seconds_sum{comm="sh"} 0.001009
perfev_the_stats_seconds_count{comm="sh"} 5
# HELP perfev_the_stats_seconds_min The stats
# TYPE perfev_the_stats_seconds_min gauge
perfev_the_stats_seconds_min{comm="sh"} 0
# HELP perfev_the_stats_seconds_max The stats
# TYPE perfev_the_stats_seconds_max gauge
perfev_the_stats_seconds_max{comm="sh"} 0.001]],
      the_hist = [[
# HELP perfev_the_hist_seconds The hist
# TYPE perfev_the_hist_seconds histogram
perfev_the_hist_seconds_bucket{comm="sh",le="0"} 1
perfev_the_hist_seconds_bucket{comm="sh",le="0.000001"} 2
perfev_the_hist_seconds_bucket{comm="sh",le="0.000003"} 3
perfev_the_hist_seconds_bucket{comm="sh",le="0.000007"} 4
perfev_the_hist_seconds_bucket{comm="sh",le="0.000015"} 4
perfev_the_hist_seconds_bucket{comm="sh",le="0.000031"} 4
perfev_the_hist_seconds_bucket{comm="sh",le="0.000063"} 4
perfev_the_hist_seconds_bucket{comm="sh",le="0.000127"} 4
perfev_the_hist_seconds_bucket{comm="sh",le="0.000255"} 4
perfev_the_hist_seconds_bucket{comm="sh",le="0.000511"} 4
perfev_the_hist_seconds_bucket{comm="sh",le="0.001023"} 5
perfev_the_hist_seconds_bucket{comm="sh",le="+Inf"} 5
perfev_the_hist_seconds_sum{comm="sh"} 0.001009
perfev_the_hist_seconds_count{comm="sh"} 5]],
      the_quantile = [[
# HELP perfev_the_quantile_seconds The quantile
# TYPE perfev_the_quantile_seconds summary
perfev_the_quantile_seconds{comm="sh",quantile="0.5"} 0.000003
perfev_the_quantile_seconds{comm="sh",quantile="0.9"} 0.001
perfev_the_quantile_seconds{comm="sh",quantile="0.99"} 0.001
perfev_the_quantile_seconds{comm="sh",quantile="0.999"} 0.001
perfev_the_quantile_seconds_sum{comm="sh"} 0.001009
perfev_the_quantile_seconds_count{comm="sh"} 5]],
      count_by_comm_args_id = [[
# HELP perfev_count_by_comm_args_id_total perfev.count by comm, args.id
# TYPE perfev_count_by_comm_args_id_total counter
perfev_count_by_comm_args_id_total{comm="sh",id="1"} 3
perfev_count_by_comm_args_id_total{comm="sh",id="0"} 2]],
      top_by_cpu = [[
# HELP perfev_top_by_cpu_total perfev.top by cpu
# TYPE perfev_top_by_cpu_total counter
perfev_top_by_cpu_total{cpu="1"} 3
perfev_top_by_cpu_total{cpu="0"} 2]],
      sizes = [[
# HELP perfev_sizes_bytes sizes
# TYPE perfev_sizes_bytes histogram
perfev_sizes_bytes_bucket{le="4"} 3
perfev_sizes_bytes_bucket{le="9"} 4
perfev_sizes_bytes_bucket{le="+Inf"} 5
perfev_sizes_bytes_sum 1009
perfev_sizes_bytes_count 5]],
      balance = [[
# HELP perfev_balance_bytes balance
# TYPE perfev_balance_bytes gauge
perfev_balance_bytes 989]],
      stacks = [[
# HELP perfev_stacks_samples_total samples of stacks.
# TYPE perfev_stacks_samples_total counter
perfev_stacks_samples_total 2
# HELP perfev_stacks_time_seconds_total time of stacks.
# TYPE perfev_stacks_time_seconds_total counter
perfev_stacks_time_seconds_total 0.0015]],
      nothing = [[
# HELP perfev_nothing_total nothing
# TYPE perfev_nothing_total counter
perfev_nothing_total 0]],
      no_key = [[
# HELP perfev_no_key_total no key
# TYPE perfev_no_key_total counter]],
    } do
      assert.equal(lines, lines_of(text, name))
    end
    check_by_promtool(text)
  end)

  it("has the totals of the run, and what is in no series", function()
    local text = metrics_of [[
      local a = perfev.sum { by = "comm", max_keys = 1, title = "full" }
      a:add(5, "a")
      a:add(6, "b")
      a:add(7, "c")]]
    assert.matches('\nperfev_build_info{version="[%d.]+",script="script"} 1\n', text)
    for _, name in ipairs { "records", "lost_records", "late_records", "callback_errors", "refused_connections" } do
      assert.matches(("\n# TYPE perfev_%s_total counter\nperfev_%s_total 0\n"):format(name, name), text)
    end
    assert.matches("\nperfev_cpu_seconds_total 0%.%d+\n", text)
    assert.matches('\nperfev_other_values_total{aggregator="full"} 2\n', text)
    assert.matches('\nperfev_keys{aggregator="full"} 1\n', text)
    assert.matches('\nperfev_uncounted_records_total{aggregator="full"} 0\n', text)
    assert.matches('\nperfev_refused_values_total{aggregator="full"} 0\n', text)
    assert.matches('\nperfev_full_total{comm="a"} 5\nperfev_full_total{comm="%(other%)"} 13\n', text)
  end)

  it("has 2,000 series of an aggregator, and the sum of the others", function()
    local text = metrics_of [[
      local many, hists = perfev.sum { by = "key", title = "many" }, perfev.hist { by = "key", title = "hists" }
      for i = 1, 2500 do
        many:add(i, i)
        hists:add(i, i)
      end]]
    assert.equal(2001, select(2, text:gsub("\nperfev_many_total{", "")))
    assert.matches('\nperfev_many_total{key="2000"} 2000\n', text)
    assert.matches(('\nperfev_many_total{key="%%(other%%)"} %d\n'):format((2001 + 2500) * 250), text)
    assert.equal(2001, select(2, text:gsub("\nperfev_hists_count{", "")))
    assert.matches('\nperfev_hists_bucket{key="%(other%)",le="2047"} 47\n', text)
    -- Each series has the same buckets.
    assert.equal(2001, select(2, text:gsub('\nperfev_hists_bucket{key="[^"]*",le="1"} ', "")))
    assert.equal(2001, select(2, text:gsub('\nperfev_hists_bucket{key="[^"]*",le="4095"} ', "")))
  end)

  it("escapes labels, and adds up keys with the same ones", function()
    local text = metrics_of [[
      local a = perfev.count { by = { "comm", "le", "quantile", "args.__x", "kind" }, title = "labels",
        names = { kind = function(key) return key % 2 == 0 and "even" or "odd" end } }
      a:inc('quote"', "back\\slash", "line\nfeed", "\xff\x1b[31m", 1)
      a:inc("ü", true, -5, "\u{202e}", 2)
      a:inc("ü", true, -5, "\u{202e}", 4)
      a:inc("ü", true, -5, "\\u{202e}", 3)
      a:inc(("x"):rep(70000), "", "\0", "\r", 1)]]
    assert.equal([[
# HELP perfev_labels_total labels
# TYPE perfev_labels_total counter
perfev_labels_total{comm="quote\"",by_le="back\\slash",by_quantile="line\nfeed",x="\\xff\\x1b[31m",kind="odd"} 1
perfev_labels_total{comm="ü",by_le="true",by_quantile="-5",x="\\xe2\\x80\\xae",kind="even"} 2
perfev_labels_total{comm="ü",by_le="true",by_quantile="-5",x="\\u{202e}",kind="odd"} 1
perfev_labels_total{comm="]] .. ("x"):rep(70000) .. [[",by_le="",by_quantile="\\x00",x="\\x0d",kind="odd"} 1]],
      lines_of(text, "labels"))
    check_by_promtool(text)
  end)

  it("has no stack and no time as a label", function()
    local text = metrics_of [[
      local a = perfev.hist { by = { "comm", "time", "stack" }, slot = "1s", title = "slots" }
      for i = 1, 5 do a:add(i, "sh", i * 1000000000, "main;f" .. i) end]]
    assert.matches('\nperfev_slots_count{comm="sh"} 5\n', text)
    assert.is_nil(text:find("main", 1, true))
  end)

  it("gives every metric a name of its own", function()
    local text = metrics_of [[
      for _, title in ipairs { "Records", "lost records", "twice", "Twice!", "cpu" } do
        perfev.count { title = title }
      end
      perfev.stats { title = "range" }:add(1)
      perfev.min { title = "range min" }:add(1)
      perfev.profile { title = "p" }
      perfev.count { title = "p samples" }
      perfev.count { title = "\xc3\xbc \n#" }]]
    for _, name in ipairs { "records_2", "lost_records_2", "twice", "twice_2", "cpu", "p_samples", "p_samples_2" } do
      assert.matches(("\nperfev_%s_total 0\n"):format(name), text)
    end
    assert.matches("\nperfev_range_min 1\n.*\nperfev_range_min_2 1\n", text)
    assert.matches("\n# HELP perfev_count_total \xc3\xbc \\\\n#\n", text)
    check_by_promtool(text)
  end)

  it("gives every sample a name of its own, with its unit and suffix", function()
    local text = metrics_of [[
      perfev.min { title = "foo total" }:add(1)
      perfev.count { title = "foo" }
      perfev.sum { title = "wait", unit = "ns" }
      perfev.sum { title = "wait seconds" }
      perfev.max { title = "sizes count" }:add(1)
      perfev.hist { title = "sizes" }:add(1)
      perfev.sum { title = "cpu seconds" }
      perfev.min { title = "records total" }:add(1)]]
    local seen = {}
    for sample in text:gmatch "\n(perfev_[^ ]+) " do
      assert.is_nil(seen[sample], sample)
      seen[sample] = true
    end
    for _, name in ipairs { "foo_total", "foo_2_total", "wait_seconds_total", "wait_seconds_2_total", "sizes_count",
      "sizes_2_count", "cpu_seconds_2_total", "records_total_2" } do
      assert.is_true(seen["perfev_" .. name], name)
    end
  end)

  it("leaves out an aggregator whose function of names fails, and reports it once", function()
    local served = http.serve(dir, { "-q" }, HEAD .. [[
      perfev.count { by = "k", title = "bad", names = { k = function() error "no name" end } }:inc(1)
      perfev.count { title = "good" }:inc()]])
    for _ = 1, 2 do
      local text = scraped(served)
      assert.matches("\nperfev_good_total 1\n", text)
      assert.is_nil(text:find("perfev_bad", 1, true))
    end
    local messages, status = served:finish()
    assert.equal(1, select(2, messages:gsub("http: /metrics: bad failed", "")))
    assert.matches("no name", messages)
    assert.equal(0, status)
  end)

  it("has counters that do not fall when the script clears", function()
    local text = metrics_of [[
      local a, h = perfev.count { by = "comm", title = "cleared" }, perfev.hist { title = "times", unit = "ns" }
      local p = perfev.profile { title = "stacks" }
      perfev.begin(function()
        for _ = 1, 5 do
          a:inc "sh"
          h:add(100)
          p:add "main;f"
          a:clear()
          h:clear()
          p:clear()
        end
        a:inc "cat"
        h:add(1)
        p:add "main;g"
      end)]]
    assert.matches('\nperfev_cleared_total{comm="sh"} 5\nperfev_cleared_total{comm="cat"} 1\n', text)
    assert.matches('\nperfev_times_seconds_bucket{le="0.000000127"} 6\n', text)
    assert.matches("\nperfev_times_seconds_count 6\n", text)
    assert.matches("\nperfev_stacks_samples_total 6\n", text)
  end)

  it("has counters that do not fall while it is written and the script clears", function()
    local served = http.serve(dir, { "-q" }, HEAD .. [[
      local cleared, kept = perfev.count { by = "key", title = "cleared" }, perfev.count { title = "kept" }
      perfev.every("1ms", function()
        for i = 1, 1000 do cleared:inc(i) end
        kept:inc()
        cleared:clear()
      end)]])
    local kept = 0
    for _ = 1, 20 do
      local text, least, nr = scraped(served), math.maxinteger, 0
      for value in text:gmatch '\nperfev_cleared_total{key="%d+"} (%d+)' do
        nr, least = nr + 1, math.min(least, math.tointeger(value))
      end
      -- The series of `cleared` are read before `kept`, and are as new as the `kept` of the scrape before.
      assert.is_true(nr == 1000 or kept == 0, nr)
      assert.is_true(least >= kept, ("%d < %d"):format(least, kept))
      kept = math.tointeger(text:match "\nperfev_kept_total (%d+)")
    end
    served:finish()
    assert.is_true(kept > 0)
  end)
end)
