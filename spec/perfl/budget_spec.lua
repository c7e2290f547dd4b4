-- The reports of perfl budget, from results that were made up.

local reports = require "perfl.budget.reports"
local run = require "spec.support.run"

local stacks = { { frames = "main;load;fopen64", count = 2 }, { frames = "a;b;c", count = 1 } }
local sections = {
  { name = "parse <\"&'>", result = { ok = false, rows = {
    { name = "syscalls", limit = "<= 2", count = 1234, ok = false,
      new = { { name = "openat", count = 1230, was = 2, stacks = stacks } } },
    { name = "page-faults", limit = "any", count = 7, ok = true },
    { name = "instructions:u", limit = "1 ± 2%", ok = true, skipped = true,
      why = "no PMU # here\n  try: \27[1m<none>" },
  } } },
  { name = "gone", why = "cannot run 'x': ]]> \1" },
}

local function valid(tool, text, ...)
  if not run.have(tool) then pending("no " .. tool) end
  local r = run({ tool, ... }, { stdin = text })
  assert.equal("", r.err)
  return r
end

describe("perfl budget prints", function()
  it("text: a line for each limit, and what is new below it", function()
    assert.equal([==[
parse <"&'>
  FAIL syscalls: 1,234, limit <= 2
       openat: 1,230, was 2
         2 in fopen64 < load < main
         1 in c < b < a
  ok   page-faults: 7, limit any
  skip instructions:u: not counted: no PMU # here
       try: \x1b[1m<none>
gone
  FAIL cannot run 'x': ]]> \x01
]==], reports.text(sections))
  end)

  it("TAP 13: a number for each limit, SKIP with the reason, what is new as YAML", function()
    assert.equal([==[
TAP version 13
1..4
not ok 1 - parse <"&'>: syscalls: 1,234, limit <= 2
  ---
  new: |
      openat: 1,230, was 2
        2 in fopen64 < load < main
        1 in c < b < a
  ...
ok 2 - parse <"&'>: page-faults: 7, limit any
ok 3 - parse <"&'>: instructions:u # SKIP no PMU \# here; try: \\x1b[1m<none>
not ok 4 - gone: cannot run 'x': ]]> \\x01
]==], reports.tap(sections))
  end)

  it("TAP that prove accepts", function()
    local ok = { { name = "a", result = { rows = { sections[1].result.rows[2], sections[1].result.rows[3] } } } }
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    run.write_file(path, reports.tap(ok))
    local r = valid("prove", "", "-e", "cat", path)
    assert.matches("Result: PASS", r.out)
  end)

  it("JUnit: a suite for each section, a case for each limit, with every text escaped", function()
    local text = reports.junit(sections)
    assert.matches('<testsuite name="parse &lt;&quot;&amp;\'&gt;" tests="3" failures="1" errors="0" skipped="1">', text)
    assert.truthy(text:find('<testsuite name="gone" tests="1" failures="1" errors="0" skipped="0">', 1, true))
    assert.truthy(text:find("\n    openat: 1,230, was 2\n      2 in fopen64 &lt; load &lt; main\n", 1, true))
    assert.truthy(text:find('message="no PMU # here&#10;  try: \\x1b[1m&lt;none&gt;"', 1, true))
    assert.is_nil(text:find "[\1-\8\11-\31]")
  end)

  it("XML that a parser accepts", function()
    local r = valid("xmllint", reports.junit(sections), "--xpath", "count(//testcase[failure or skipped])", "-")
    assert.equal("3", (r.out:gsub("%s", "")))
  end)
end)
