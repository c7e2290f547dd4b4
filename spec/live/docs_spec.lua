-- Runs every command in the documents, the manual page and the headers of the scripts.

local docs = require "spec.support.docs"
local run = require "spec.support.run"

local tracefs = run.capture("test -r /sys/kernel/tracing/events/sched && echo yes")

local function need_kernel()
  if not run.root then pending("watching the machine needs root") end
  if not tracefs then pending("no tracefs is mounted at /sys/kernel/tracing") end
end

local function listed(command)
  local list = {}
  for line in run.capture(command):gmatch("[^\n]+") do list[#list + 1] = line end
  return list
end

local function check_ran(result, block)
  local wanted = block.status or "0"
  assert(tostring(result.code) == wanted, ("status %s, not %s:\n%s"):format(
    result.code, wanted, result.out))
  if not block.output then return assert.equal("", result.out) end
  local alike, why = docs.compare(block.output.text, result.out, block.output)
  assert(alike, ("%s\n%s"):format(why, result.out))
end

local paths = { "README.md", "SECURITY.md", "doc/budgets.md", "doc/tutorial.md", "doc/events.md", "doc/probes.md",
  "doc/memory.md", "doc/merge.md", "doc/metrics.md", "doc/network.md", "doc/page.md", "doc/recordings.md",
  "doc/sandbox.md", "doc/slow.md", "doc/tracing.md", "doc/install.md", "doc/explore.md", "doc/prove.md" }
local pages = docs.api_pages()
table.move(pages, 1, #pages, #paths + 1, paths)

for _, path in ipairs(paths) do
  describe(path, function()
    local place
    setup(function() place = docs.place() end)
    teardown(function() docs.leave(place) end)

    for _, block in ipairs(docs.read(path).blocks) do
      if block.lang ~= "text" and not block["not run"] then
        it(("line %d does as shown"):format(block.line), function()
          need_kernel()
          local result = docs.run(place, block)
          if result then check_ran(result, block) end
        end)
      end
    end
  end)
end

-- A command line of an example, made to fit here: a process of ours, a moment only.
local function fitted(line)
  line = line:gsub("(%-[pt]) 1234%f[%D]", "%1 $$")
  if not line:find("^perfl ") then return line end
  if line:find(" %-d ") then return (line:gsub(" %-d %S+", " -d 100ms")) end
  return line:find(" %-%- ") and line or (line:gsub("^perfl", "perfl -d 100ms"))
end

-- It ended well, and perfl had no complaint. The duration that fitted() adds may end a command, with SIGTERM.
local function check_example(place, line)
  local short = fitted(line)
  local result = docs.shell(place, short, nil, place.dir)
  assert(result.code == 0 or short ~= line and result.code == 128 + 15,
    ("%s: status %s\n%s"):format(line, result.code, result.out))
  assert.is_nil(result.out:find("perfl: a callback failed", 1, true))
end

-- "-- perfl … -- make     a remark behind three spaces" in the comment that opens a script.
local function examples_of(path)
  local examples = {}
  for line in docs.slurp(path):gmatch("([^\n]*)\n") do
    local comment = line:match("^%-%-+%s?(.*)$")
    if not comment and not line:find("^#!") then break end
    local example = comment and (comment:match("^perfl .*$") or comment:match("^lua5%.4 .*$"))
    if example then examples[#examples + 1] = example:gsub("   +%S.*$", "") end
  end
  return examples
end

describe("the examples in the header of", function()
  local place
  setup(function() place = docs.place() end)
  teardown(function() docs.leave(place) end)

  for _, path in ipairs(listed("find scripts -name '*.lua' | sort")) do
    it(path .. " work", function()
      local examples = examples_of(path)
      assert(#examples > 0, "none is there")
      need_kernel()
      for _, example in ipairs(examples) do check_example(place, example) end
    end)
  end
end)

describe("the examples of doc/overhead.md", function()
  for _, block in ipairs(docs.read("doc/overhead.md").blocks) do
    if block.lang == "lua" then
      it(("run (line %d)"):format(block.line), function()
        need_kernel()
        local r = run { run.perfl, "-q", "--fail-on-lost", "-e", block.text, "--", "ls", "/usr" }
        assert.same({ 0, "" }, { r.code, r.err })
      end)
    end
  end
end)

describe("the manual page", function()
  it("has examples that work", function()
    need_kernel()
    local place <close> = setmetatable(docs.place(), { __close = docs.leave })
    local section = docs.slurp("doc/perfl.1"):match("\n%.SH EXAMPLES\n(.-)\n%.SH ")
    local nr = 0
    for block in section:gmatch("\n%.nf\n(.-)\n%.fi") do
      check_example(place, (block:gsub("\\%(aq", "'"):gsub("\\%-", "-")))
      nr = nr + 1
    end
    assert(nr > 0)
  end)
end)

describe("make demo, as doc/install.md shows it,", function()
  local shown
  for _, block in ipairs(docs.read("doc/install.md").blocks) do
    if block.text:find("^build/perfl ") then shown = block end
  end

  it("runs the commands of the Makefile", function()
    local recipe = docs.slurp("Makefile"):match("\ndemo%-commands:[^\n]*\n(.-)\n\n")
    for command in recipe:gmatch("%$%(BUILD%)(/perfl [^\n]+)") do
      assert(shown.text:find("build" .. command .. "\n", 1, true), command)
    end
  end)

  it("prints the output shown", function()
    need_kernel()
    local place <close> = setmetatable(docs.place(), { __close = docs.leave })
    for part in shown.text:gsub("%f[^\n\0]build/", "\0"):gmatch("%z([^%z]+)") do
      local command, output = part:match("^(perfl [^\n]+)\n(.*)$")
      local result = docs.shell(place, command)
      assert.equal(0, result.code)
      local alike, why = docs.compare(output, result.out, shown)
      assert(alike, ("%s: %s"):format(command, why))
    end
  end)
end)
