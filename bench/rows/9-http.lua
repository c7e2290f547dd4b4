-- perfl --http: what a scrape of 2,000 series costs, in CPU and in lost records.

return function(bench)
  local nr = bench.records
  local missing = bench.lacks "--http"
  local function scrape(words)
    return ("env PERFL=%s %s"):format(bench.program, bench.lua("bench/scrape.lua " .. words))
  end
  local function cpu(kind, limit)
    return { ("perfl: 2,000 series of a %s"):format(kind), scrape("cpu " .. kind), limit = limit, missing = missing }
  end
  local load = bench.quote(("%s/load %d %s/used"):format(bench.dir, 5 * nr, bench.dir))
  return {
    { title = "A scrape of /metrics: perfl's CPU", unit = "ms a scrape", measure = "output", rows = {
      cpu("count", 5), cpu("quantile", 10), cpu("hist", 20) } },
    { title = "Lost: one busy CPU, and scrapes of 2,000 series of a hist", unit = "% of all", measure = "lost",
      lost = 5 * nr, rows = {
        { "perfl: without a scrape", scrape("records " .. load), missing = missing },
        { "perfl: a scrape each second", scrape(("records %s 1"):format(load)), limit = 0, missing = missing },
        { "perfl: ten scrapes a second", scrape(("records %s 0.1"):format(load)), limit = 0, missing = missing },
      } },
  }
end
