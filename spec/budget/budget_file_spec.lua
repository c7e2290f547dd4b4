-- The file of budgets: how it is read, what its faults are, and what an update keeps and changes.

local budget_file = require "perfev.budget.budget_file"
local run = require "spec.support.run"

local TEXT = [[
# Budgets of the parser.

[parse]            # the common case
command  ./parse 'a file'
  syscalls       <= 40   # three files
page-faults    100
# instructions wait for a machine with counters
@ openat 3
@ openat 2 main;load;fopen64

# The other one.
[print]
unstable true
cpu-migrations  any
]]

local function parse(text) return assert(budget_file.parse(text, "budgets.txt")) end

-- A result with these counts: name -> { limit, count }.
local function result(rows, counts, stacks)
  local one = { rows = {}, counts = counts or {} }
  for name, row in pairs(rows) do one.rows[#one.rows + 1] = { name = name, limit = row[1], count = row[2] } end
  function one:stacks_of(name) return stacks and self.counts and stacks[name] or {} end -- luacheck: ignore 212
  return one
end

describe("a file of budgets", function()
  it("has sections with limits, options and accepted counts", function()
    local file = parse(TEXT)
    assert.same({ "parse", "print" }, file:names())
    local section = file:section "parse"
    assert.same({ "<= 40", "100", "./parse 'a file'" },
      { section.limits.syscalls, section.limits["page-faults"], section.command })
    assert.same({ counts = { openat = 3 }, stacks = { openat = { ["main;load;fopen64"] = 2 } } }, section.baseline)
    assert.same({ true, "any" }, { file:section "print".unstable, file:section "print".limits["cpu-migrations"] })
  end)

  it("names the line of a fault, and what to write", function()
    local faults = {
      { "syscalls 1\n", 1, "'syscalls 1' is before the first section", "%[NAME%]" },
      { "[a]\nsyscalls\n", 2, "'syscalls' has no limit", "syscalls <= 12" },
      { "[a]\nsyscalls =< 3\n", 2, "syscalls: limit '=< 3'", '"<= 3"' },
      { "[a]\nsyscalls 1\nsyscalls 2\n", 3, "'syscalls' is there twice", "one line" },
      { "[a]\n[b]\n\n[a]\n", 4, "section %[a%] is there twice", "another name" },
      { "[a]\n@ openat\n", 2, "'@ openat' is not a count", "%-%-update" },
      { "[a]\ncommand\n", 2, "'command' has no words", "command ./program" },
      { "[a]\nwarm any\n", 2, "'warm' is an option of perfev.budget, not an event", "syscalls" },
      { "[a]\nunstable maybe\n", 2, "'unstable maybe'", "unstable true" },
    }
    for _, fault in ipairs(faults) do
      local file, why, code = budget_file.parse(fault[1], "b.txt")
      assert.is_nil(file)
      assert.is_truthy(code)
      assert.matches("^b.txt:" .. fault[2] .. ": " .. fault[3] .. ".*\n  try: .*" .. fault[4], why)
    end
  end)

  it("has comments behind accepted counts", function()
    local baseline = parse("[a]\n@ openat 3   # by --update\n@ openat 2 a;b#c\n"):section "a".baseline
    assert.same({ counts = { openat = 3 }, stacks = { openat = { ["a;b#c"] = 2 } } }, baseline)
    assert.equal(2, #parse("[a]\nline any\norder any\n"):section "a".order)
  end)

  it("keeps comments, order and blanks in an update, and says what changed", function()
    local file = parse(TEXT)
    local changes = file:update("parse", result({ syscalls = { "<= 40", 42 }, ["page-faults"] = { "100", 90 } },
      { openat = 4, read = 1 }, { openat = { ["main;more;open"] = 4 } }), { limits = true })
    assert.same({ "syscalls: <= 42, was <= 40 (looser)", "page-faults: 90, was 100 (looser)" }, changes)
    local expected = TEXT:gsub("<= 40", "<= 42"):gsub("page%-faults    100", "page-faults    90")
      :gsub("@ openat 3\n@ openat 2 main;load;fopen64", "@ openat 4\n@ openat 4 main;more;open\n@ read 1")
    assert.equal(expected, table.concat(file.lines, "\n") .. "\n")
  end)

  it("changes no limit that holds, and none of another section", function()
    local file = parse(TEXT)
    assert.same({}, file:update("parse", result({ syscalls = { "<= 40", 40 }, ["page-faults"] = { "100", 100 } },
      { openat = 3 }, { openat = { ["main;load;fopen64"] = 2 } }), { limits = true }))
    assert.equal(TEXT, table.concat(file.lines, "\n") .. "\n")
  end)

  it("keeps the accepted page faults, with their stacks, if there are nearly as many now", function()
    local text = "[a]\npage-faults any\n@ page-faults 200\n@ page-faults 200 main;f\n@ read 200\n"
    local function updated(faults)
      local file = parse(text)
      file:update("a", result({}, { ["page-faults"] = faults, read = 201 },
        { ["page-faults"] = { ["main;g"] = faults }, read = {} }), { limits = true })
      return table.concat(file.lines, "\n", 3)
    end
    assert.equal("@ page-faults 200\n@ page-faults 200 main;f\n@ read 201", updated(220))
    assert.equal("@ page-faults 200\n@ page-faults 200 main;f\n@ read 201", updated(180))
    assert.equal("@ page-faults 221\n@ page-faults 221 main;g\n@ read 201", updated(221))
  end)

  it("gets a new section at its end", function()
    local file = parse(TEXT)
    file:add_section("new", { { "syscalls", "<= 3" } })
    file:update("new", result({}, { openat = 1 }), {})
    assert.equal(TEXT .. "\n[new]\nsyscalls                 <= 3\n@ openat 1\n", table.concat(file.lines, "\n") .. "\n")
  end)

  it("keeps its mode and links when it is written; a folder that is not there is reported", function()
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    run.write_file(dir .. "/b.txt", TEXT)
    assert(os.execute(("cd %s && chmod 600 b.txt && ln -s b.txt link && ln b.txt hard"):format(dir)))
    local file = assert(budget_file.read(dir .. "/link"))
    file:add_section("new", {})
    assert(file:write())
    assert.equal(TEXT .. "\n[new]\n", run.slurp(dir .. "/b.txt"))
    assert.equal("600 2 regular file\n777 1 symbolic link", run.capture(("cd %s && stat -c '%%a %%h %%F' b.txt link")
      :format(dir)))
    assert.equal("b.txt\nhard\nlink", run.capture("ls " .. dir))
    file.path = dir .. "/none/b.txt"
    file:add_section("other", {})
    local ok, why = file:write()
    assert.is_nil(ok)
    assert.matches("cannot write .*/none/b.txt", why)
  end)

  it("that has no end is not read", function()
    local file, why = budget_file.read "/dev/zero"
    assert.is_nil(file)
    assert.equal("cannot read /dev/zero: larger than 64 MiB", why)
  end)
end)
