-- perfl --http: what an open live page costs.

return function(bench)
  local missing = bench.lacks "--http"
  local function row(name, words, limit)
    return { name, ("env PERFL=%s %s"):format(bench.program, bench.lua("bench/page.lua " .. words)), limit = limit,
      missing = missing }
  end
  return {
    { title = "A live page: perfl's CPU", unit = "ms a second", measure = "output", rows = {
      row("perfl: 50 keys, 300 stacks, no page", "50"),
      row("perfl: the same, a page is open", "50 open", 80),
      row("perfl: 100,000 keys, no page", "100000"),
      row("perfl: the same, a page is open", "100000 open", 150),
    } },
  }
end
