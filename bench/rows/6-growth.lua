-- A hundred times as much, and many rings: the time of a record and the memory should not change.

local COUNT = [[local a = count { by = "tid" }
  event { "cpu-clock", sample = a }
  done(function() local n = 0 for _, c in a:pairs() do n = n + c end print(n) end)]]
local MERGED = 20000000

return function(bench)
  local rows, rings = {}, {}
  for _, n in ipairs { 1000000, 10000000, 100000000 } do
    rows[#rows + 1] = { ("perfl: native count, %d million"):format(n // 1000000),
      bench.perfl("-i " .. bench.recording("clock", n), COUNT), per = n, expect = tostring(n),
      goal = n > 1e6 and 1.2 }
  end
  for _, nr in ipairs { 2, 16, 128 } do
    rings[#rings + 1] = { ("%d rings"):format(nr), ("%s/rings %d %d"):format(bench.dir, nr, MERGED), per = MERGED }
  end
  return {
    { title = "Growth: a recording that is longer", unit = "ns a record", base = rows[1][1], rows = rows,
      memory = true },
    { title = "Growth: records of so many rings put in order (the merge alone)", unit = "ns a record",
      base = rings[1][1], rows = rings },
  }
end
