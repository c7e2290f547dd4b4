-- flamediff: draws the difference of two files of folded stacks.

local json = require "spec.support.json"
local run = require "spec.support.run"

local dir

local function flamediff(...)
  return run({ run.perfl, "-q", "flamediff", ... }, { cwd = dir })
end

describe("flamediff", function()
  setup(function()
    dir = run.tempdir()
    for name, text in pairs { before = "main;hot 100\nmain;gone 100\n", after = "main;hot 3\nmain;cold_[k] 1\n",
      bad = "main;hot 1\nno count\n" } do
      local file = assert(io.open(dir .. "/" .. name, "wb"))
      file:write(text)
      file:close()
    end
  end)
  teardown(function() run.remove(dir) end)

  it("draws the later profile and its differences from the earlier one", function()
    local r = flamediff("before", "after")
    assert.same({ 0, "" }, { r.code, r.err })
    local data = json.decode(r.out:match '<script type="application/json" id="profile">(.-)</script>')
    assert.equal("after, since before", data.title)
    local rows = {}
    for n, func in ipairs(data.func) do rows[data.functions[func][1]] = { data.own[1][n], data.base[1][n] } end
    assert.same({ main = { 0, 0 }, hot = { 3, 100 }, cold = { 1, 0 }, gone = { 0, 100 } }, rows)
  end)

  it("prints the differences in a terminal, and draws a single file", function()
    assert.matches("\n +0 +0%.0%% +50%.0%% +%-50%.0  gone\n", flamediff("before", "after", "-f", "top").out)
    assert.matches("\n +1 +25%.0%% +0%.0%% +%+25%.0 +%- cold %[kernel%]\n",
      flamediff("-f", "tree", "before", "after").out)
    local svg = flamediff("before", "-f", "svg", "--title", "one <file>", "--unit", "ns").out
    assert.truthy(svg:find(">one &lt;file&gt;<", 1, true))
    assert.truthy(svg:find(">all (200 ns time)<", 1, true))
  end)

  it("names the file and the line that cannot be read", function()
    local r = flamediff("before", "bad")
    assert.same({ 1, "" }, { r.code, r.out })
    assert.matches("^flamediff: bad: folded stacks: line 2 does not end with a count: 'no count'\n", r.err)
    r = flamediff("nowhere")
    assert.same({ 1, "flamediff: nowhere: No such file or directory\n" }, { r.code, r.err })
    assert.same({ 1, "flamediff: .: Is a directory\n" }, { flamediff(".").code, flamediff(".").err })
    assert.equal(2, flamediff("before", "after", "-f", "png").code)
  end)
end)
