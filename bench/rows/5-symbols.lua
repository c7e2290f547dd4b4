-- What names cost: 20,000 addresses of a program with more than 50 MB of symbols.

local ADDRESSES = 20000

-- A row is thrown out when it has not named all of them.
local function check(said)
  local seen, nr = {}, 0
  for which in said:gmatch "serve_requests(%d%d%d%d%d%d)" do
    if not seen[which] then seen[which], nr = true, nr + 1 end
  end
  return nr == ADDRESSES, "it named " .. nr
end

return function(bench)
  local perf = bench.missing "perf"
  local program = bench.dir .. "/symbols"
  local recording = program .. ".data"
  local function perfl(words) return ("%s -q -i %s %s"):format(bench.program, recording, words) end
  local rows = {
    { "perfl: r.symbol", perfl [[-e 'event { "cpu-clock", sample = function(r) print(r.symbol) end }']] },
    { "perfl profile -f folded", perfl "profile -f folded" },
    { "perf script -F ip,sym", ("perf script -i %s -F ip,sym"):format(recording), missing = perf },
    { "perf report --stdio -g none", ("perf report -i %s --stdio -g none --no-children"):format(recording),
      missing = perf },
  }
  for _, row in ipairs(rows) do row.check = check end
  return { { title = "Names of 20,000 addresses among 600,000 functions, 59 MB of symbols", unit = "s", scale = 1,
    base = "perf script -F ip,sym", memory = true, rows = rows,
    prepare = function() bench.make("symbols", bench.lua("bench/symbols.lua " .. bench.dir)) end } }
end
