-- A hundred times as much, and many rings: the time of a record and the memory should not change.

local COUNT = [[local a = count { by = "tid" }
  event { "cpu-clock", sample = a }
  done(function() local n = 0 for _, c in a:pairs() do n = n + c end print(n) end)]]

return function(bench)
  local rows, rings, merged = {}, {}, 20 * bench.records
  for _, n in ipairs { bench.records, 10 * bench.records, 100 * bench.records } do
    rows[#rows + 1] = { ("perfl: count, %d records"):format(n),
      bench.perfl("-i " .. bench.recording("clock", n), COUNT), per = n, expect = tostring(n),
      goal = n > bench.records and 1.2 or nil }
  end
  for _, nr in ipairs { 2, 16, 128 } do
    rings[#rings + 1] = { ("%d rings"):format(nr), ("%s/rings %d %d"):format(bench.dir, nr, merged), per = merged }
  end
  return {
    { title = "Growth: a recording that is longer", unit = "ns a record", base = rows[1][1], rows = rows,
      memory = true },
    { title = "Growth: records of so many rings put in order (the merge alone)", unit = "ns a record",
      base = rings[1][1], rows = rings },
  }
end
