-- Records that are in memory already: found, and three fields read.

return function(bench)
  local parts, nr = {}, 20 * bench.records
  for i, kind in ipairs { "raw", "callchain", "mmap2", "comm" } do
    local title = kind == "raw" and "SAMPLE with RAW" or kind == "callchain" and "SAMPLE with CALLCHAIN"
      or kind:upper()
    parts[i] = { title = "In memory: " .. title .. ", located and three fields read", unit = "ns a record",
      base = "minimal C", per = nr, rows = {
        { "minimal C", ("%s/decode minimal %s %d"):format(bench.dir, kind, nr) },
        { "perfev: locate, get", ("%s/decode perfev %s %d"):format(bench.dir, kind, nr), goal = 2 },
      } }
  end
  return parts
end
