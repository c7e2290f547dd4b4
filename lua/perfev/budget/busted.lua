--- A busted extension: assert.budget(function, { syscalls = "<= 12" }).
--
-- `require "perfev.budget.busted"` in a spec, or `--helper=perfev.budget.busted`. Works wherever luassert does.

local assert = require "luassert"
local say = require "say"
local budget = require "perfev.budget"
local result = require "perfev.budget.result"

say:set("assertion.budget.exceeded", "%s")
say:set("assertion.budget.within", "expected more than the budget:\n%s")

local reported = {}

-- A limit that cannot be checked here is reported once.
local function report_skipped(one)
  for _, row in ipairs(one.rows) do
    local text = row.skipped and row.ok and result.on_one_line(result.row_text(row))
    if text and not reported[text] then
      reported[text] = true
      io.stderr:write("assert.budget: ", text, "\n")
    end
  end
end

local function assert_budget(_, arguments, level)
  local f, spec = arguments[1], arguments[2]
  if type(f) ~= "function" or type(spec) ~= "table" then
    error("assert.budget: a function and a table of limits expected\n"
      .. "  try: assert.budget(function() ... end, { syscalls = \"<= 12\" })", level + 1)
  end
  local ok, made = pcall(budget._new, spec, 0)
  if not ok then error("assert.budget: " .. tostring(made), level + 1) end
  local one = made:measure(f)
  report_skipped(one)
  arguments[1], arguments.n, arguments.nofmt = tostring(one), 1, { true }
  return one.ok
end

assert:register("assertion", "budget", assert_budget, "assertion.budget.exceeded", "assertion.budget.within")

return budget
