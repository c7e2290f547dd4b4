-- Budgets: the cost of a measurement, whose events stay open.

return function(bench)
  local function command(mode) return "env " .. bench.lua("bench/budgets.lua " .. mode) end
  return {
    { title = "A function of 4 system calls, counted", unit = "ms", measure = "output",
      base = "perfev.measure, which opens its events", rows = {
        { "perfev.measure, which opens its events", command "measure" },
        { "a budget's first measurement", command "first" },
        { "a budget's further ones, with stacks", command "budget" },
        { "a budget's further ones, without", command "plain" },
      } },
  }
end
