-- The documents against the code: every public name has a heading and every heading a name, tables list the fields of
-- records, links have targets, examples compile.

local core = require "perfev.core"
local docs = require "spec.support.docs"
local sim = require "perfev.sim"
local options = require "perfl.command_line"
local perfev = require "perfev"
local run = require "spec.support.run"
local check = require "perfev.base.check"
local option_tables = require "perfev.option_tables"
local session_options = require "perfev.base.options"
local syscalls = require "perfev.tracepoint.syscalls"
local units = require "perfev.base.parse_units"
local wire = require "spec.support.wire"

local paths = { "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
  "doc/install.md", "doc/tutorial.md", "doc/budgets.md", "doc/compare.md", "doc/metrics.md", "doc/page.md",
  "doc/events.md", "doc/probes.md", "doc/memory.md", "doc/network.md", "doc/recordings.md", "doc/sandbox.md",
  "doc/tracing.md",
  "doc/coverage.md",
  "doc/overhead.md", "doc/bench.md", "doc/testing.md", "doc/fleet.md", "doc/fleet-history.md", "doc/gather.md" }
local pages = docs.api_pages()
table.move(pages, 1, #pages, #paths + 1, paths)

-- The pages of doc/api as one document; `page` of a heading is the file that has it.
local api = { headings = {}, lines = {} }
for _, path in ipairs(pages) do
  local page = docs.read(path)
  for _, heading in ipairs(page.headings) do
    heading.page = path:match "[^/]+$"
    table.insert(api.headings, heading)
  end
  table.move(page.lines, 1, #page.lines, #api.lines + 1, api.lines)
end

local function set_of(list)
  local set = {}
  for _, name in ipairs(list) do set[name] = true end
  return set
end

local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- The public names of a table: those without a leading underscore.
local function keys_of(t, prefix)
  local set = {}
  for name in pairs(t) do
    if not name:find "^_%l" then set[(prefix or "") .. name] = true end
  end
  return set
end

-- ---- names in the reference ----

-- Names that headings have by a prefix: "s:" -> { "s:run" = true, … }
local function headed(prefix)
  local set = {}
  for _, heading in ipairs(api.headings) do
    local name = heading.text:match("^`([%w_.:]+)")
    if name and name:find(prefix, 1, true) == 1 then set[name] = true end
  end
  return set
end

-- The names in the first column of the tables below a heading, or of the tables that begin with
-- such a head line.
local function first_column(heading, head)
  local set, inside, wanted = {}, false, false
  for _, line in ipairs(api.lines) do
    local title = line.text:match("^#+ (.*)$")
    if title then
      inside = title == heading
    elseif inside and not line.text:find("^|") then
      wanted = false
    elseif inside then
      if not wanted then
        wanted = not head or line.text:find(head, 1, true) == 1
      else
        for name in (line.text:match("^| (.-) |") or ""):gmatch("`([%w_]+)`") do set[name] = true end
      end
    end
  end
  return set
end

-- The first table in the module's sources with this beginning.
local function source_table(beginning)
  for path in run.capture("find lua/perfev -name '*.lua'"):gmatch("[^\n]+") do
    for body in docs.slurp(path):gmatch("\nlocal [%w_]+ = (%b{})") do
      if body:find("^{%s*" .. beginning) then return body end
    end
  end
  error("no table begins with " .. beginning)
end

local function words_of(body, pattern)
  local set = {}
  for word in body:gmatch(pattern) do set[word] = true end
  return set
end

local function same(expected, found)
  assert.same(sorted(expected), sorted(found))
end

-- ---- headings and names ----

describe("doc/api has a heading for each name and a name for each heading:", function()
  it("the module's", function()
    local names, hooks = keys_of(perfev, "perfev."), keys_of(perfev.hooks, "perfev.hooks.")
    for name in pairs(hooks) do names[name] = true end
    -- Modules that are loaded at their first use.
    names["perfev.profile"], names["perfev.frames"] = true, true
    names["perfev.budget"], names["perfev.calls"] = true, true
    for name in pairs(keys_of(perfev.budget, "perfev.budget.")) do names[name] = true end
    for name in pairs(keys_of(perfev.frames, "perfev.frames.")) do names[name] = true end
    for name in pairs(keys_of(perfev.profile, "perfev.profile.")) do names[name] = true end
    for name in pairs(keys_of(perfev.picture, "perfev.picture.")) do names[name] = true end
    same(names, headed("perfev."))
  end)

  it("a record's methods", function()
    same({ ["r:copy"] = true }, headed("r:"))
  end)

  it("the other modules' functions", function()
    same(keys_of(units, "units."), headed("units."))
    same(keys_of(syscalls, "syscalls."), headed("syscalls."))
    same(keys_of(perfev.tool, "tool."), headed("tool."))
  end)
end)

describe("doc/api/README.md", function()
  it("lists every name, with a link to its heading and its page", function()
    local listed, expected = {}, {}
    for _, line in ipairs(docs.read("doc/api/README.md").lines) do
      local name, link, page = line.text:match "^| %[(`[^`]+`)%]%(([^)]+)%) | %[[^]]+%]%(([^)]+)%) |$"
      if name then listed[#listed + 1] = ("%s %s %s"):format(name, link, page) end
    end
    for _, heading in ipairs(api.headings) do
      if heading.text:find "^`[%w_]+[.:][^`]*`$" then
        expected[#expected + 1] = ("%s %s#%s %s"):format(heading.text, heading.page,
          docs.anchor(heading.text), heading.page)
      end
    end
    table.sort(listed)
    table.sort(expected)
    assert.same(expected, listed)
  end)

  it("links pages that list their own names at a glance", function()
    for _, path in ipairs(pages) do
      local linked, headed_names = {}, {}
      local text = docs.slurp(path):match "\n## At a glance\n(.-)\n## "
      for target in (text or ""):gmatch "%]%(#([^)]+)%)" do linked[target] = true end
      for _, heading in ipairs(docs.read(path).headings) do
        if heading.text:find "^`" then headed_names[docs.anchor(heading.text)] = true end
      end
      for name in pairs(headed_names) do assert(linked[name], path .. ": " .. name) end
      assert(text or path == "doc/api/README.md", path)
    end
  end)

  it("has a row for every page", function()
    local linked = {}
    for target in docs.slurp("doc/api/README.md"):match "\n| page |.-\n\n":gmatch "%]%(([^)#]+)%)" do
      linked[target] = true
    end
    for _, path in ipairs(pages) do
      local page = path:match "[^/]+$"
      assert(linked[page] or page == "README.md", page)
    end
  end)
end)

-- ---- tables ----

describe("doc/api lists", function()
  it("the options of a session", function()
    same(set_of(session_options.names), first_column("Options of a session", "| option |"))
  end)

  it("the callbacks of an event", function()
    local names = words_of(source_table("sample = {}"), "([%w_]+) = {")
    same(names, first_column("Callbacks", "| callback |"))
    for name in pairs(names) do perfev.session {}:event { "dummy", [name] = print } end
  end)

  it("the other options of an event", function()
    same(set_of(check.names(option_tables.event)), first_column("Options of an event", "| option |"))
  end)

  it("the options of a budget", function()
    same(set_of(check.names(option_tables.budget)), first_column("`perfev.budget(spec)`", "| option |"))
  end)

  it("the options that scripts share", function()
    local tool = perfev.tool
    assert(tool.options.format) -- makes the choices, which come from perfev.profile
    same(keys_of(tool.options, "tool.options."),
      words_of(docs.slurp "doc/api/tool.md", "| `(tool%.options%.[%l_]+)`"))
  end)

  it("the options of perfev.args", function()
    same(set_of(check.names(option_tables.args_option)), first_column("`perfev.args(spec)`", "| key |"))
  end)

  it("the fields of perf_event_attr, with the first kernel of each", function()
    local names, lines = {}, docs.slurp("doc/api/attributes.md")
    for _, field in ipairs(core.attr_fields()) do
      names[field.name] = true
      local row = lines:match("\n| `" .. field.name .. "` | ([^\n]*) |\n")
      assert.equal(field.since, row and row:match("[%d.]+$"), field.name)
    end
    same(names, first_column("Fields of perf_event_attr", "| field | type | kernel |"))
  end)

  it("the named bits", function()
    for _, field in ipairs(core.attr_fields()) do
      if field.bits then
        local row = "| `" .. field.name .. "` | `" .. table.concat(field.bits, "` `") .. "` |"
        assert(docs.slurp("doc/api/attributes.md"):find(row, 1, true), row)
      end
    end
  end)

  it("the counts of totals()", function()
    same(keys_of(perfev.session {}:totals()), first_column("`s:totals()`"))
  end)
end)

-- ---- records ----

-- All the fields that the writer of a record asks for.
local values = {
  read = { value = 1 }, callchain = { 1 }, branch_stack = { { from = 1, to = 2 } },
  namespaces = { { dev = 1, inode = 2 } }, regs_user = { abi = 2, ax = 7 }, regs_intr = { abi = 2, ax = 7 },
  filename = "f", comm = "c", name = "n", path = "p", tag = ("t"):rep(8), raw = ("r"):rep(12),
  cpumode = "kernel", old_bytes = "o", new_bytes = "n", stack_user = ("s"):rep(8), aux = "aux!aux!",
}

-- Fields that the simulated kernel fills in, or one of two alternatives.
local left_out = {
  sample_id = true, identifier = true, build_id = true, misc = true, stack_size = true,
}

local function fields(more)
  return setmetatable(more or {}, { __index = function(_, name)
    if not left_out[name] then return values[name] or 1 end
  end })
end

-- The names that a view shows for a record of that type: name -> true
local function shown_of(kind, spec, more)
  local k = sim.new { cpus = "0" }
  return perfev.hooks.with(k.hooks, function()
    local names
    local s <close> = perfev.session { ordered = false, buffer = "256K" }
    local decl = { type = 1, config = 0, comm = true, task = true, sample_period = 1,
                   record = function(r)
                     names = {}
                     for name in pairs(r) do names[name] = true end
                   end }
    for name, value in pairs(spec or {}) do decl[name] = value end
    s:event(decl)
    assert(s:start())
    assert(k:emit(k.events[1], kind, fields(more)))
    s:dispatch()
    return assert(names, kind .. " did not come")
  end)
end

local every = first_column("Every record")

describe("doc/api lists for records:", function()
  local all_bits = {}
  for name in pairs(wire.sample_bits) do
    if name ~= "weight_struct" then all_bits[#all_bits + 1] = name end
  end

  for kind in pairs(wire.types) do
    it(kind .. ": all its fields", function()
      local spec = kind == "sample" and { sample_type = all_bits, sample_regs_user = 1,
        sample_regs_intr = 1, sample_stack_user = 8 }
      local told, shown = first_column("`" .. kind .. "` records"), shown_of(kind, spec)
      if kind == "mmap2" then
        -- One or the other is in a record.
        shown.build_id = shown_of(kind, { build_id = true },
          { build_id = ("b"):rep(20), misc = wire.misc.build_id }).build_id
      end
      for name in pairs(told) do assert(shown[name], name .. " is told, but not shown") end
      for name in pairs(shown) do
        assert(told[name] or every[name], name .. " is shown, but not told")
      end
    end)
  end

  it("only types that exist", function()
    local types = {}
    for _, heading in ipairs(api.headings) do
      local name = heading.text:match("^`([%w_]+)` records$")
      if name then types[name] = true end
    end
    same(set_of(sorted(wire.types)), types)
  end)

  it("every field that a record can have", function()
    local names, told = {}, keys_of(every)
    local record, view = docs.slurp("src/record/record.c"), docs.slurp("src/lua/record/lrecord.c")
    for name in record:match("pev_field_names%[PEV_F_NR%] = (%b{})"):gmatch('= "([%w_]+)"') do
      names[name] = true
    end
    for name in view:match("generic_names%[%] = (%b{})"):gmatch('= "([%w_]+)"') do names[name] = true end
    for name in record:match("pev_miscs%[%] = (%b{})"):gmatch('{ "([%w_]+)"') do names[name] = true end
    for kind in pairs(wire.types) do
      for name in pairs(first_column("`" .. kind .. "` records")) do told[name] = true end
    end
    same(names, told)
  end)
end)

-- ---- all documents ----

for _, path in ipairs(paths) do
  describe(path, function()
    local doc = docs.read(path)

    it("fits 80 columns, tables aside", function()
      for _, line in ipairs(doc.lines) do
        local wide = utf8.len(line.text) > 80 and not line.text:find("^|")
        assert(not wide, ("line %d: %s"):format(line.line, line.text))
      end
      for _, block in ipairs(doc.blocks) do
        for line in block.text:gmatch("[^\n]+") do
          assert(utf8.len(line) <= 80, ("block at %d: %s"):format(block.line, line))
        end
      end
    end)

    it("has links to existing files and headings", function()
      local directory = path:match("^(.*/)") or ""
      for _, line in ipairs(doc.lines) do
        for target in line.text:gmatch("%]%(([^)]+)%)") do
          if not target:find("^https?:") then
            local file, anchor = target:match "^([^#]*)#?(.*)$"
            file = file == "" and path or directory .. file
            assert(run.capture("test -e " .. run.quote(file)), target)
            if anchor ~= "" then assert(docs.anchors(file)[anchor], target) end
          end
        end
      end
    end)

    it("has Lua code that compiles", function()
      for _, block in ipairs(doc.blocks) do
        if block.lang == "lua" then assert(load(block.text, "=" .. path .. ":" .. block.line)) end
      end
    end)

    it("has only blocks that the live specs can run", function()
      local langs = set_of { "lua", "sh", "sql", "text" } -- sql: spec/fleet/recipes_spec.lua
      for i, block in ipairs(doc.blocks) do
        assert(langs[block.lang], ("line %d: ```%s"):format(block.line, block.lang))
        if block.lang == "text" and not block["not run"] then
          assert(doc.blocks[i - 1] and doc.blocks[i - 1].output == block, block.line)
        end
      end
    end)
  end)
end

describe("doc/testing.md", function()
  it("has the options of a simulated kernel, and no others", function()
    local told = {}
    local rows = docs.slurp("doc/testing.md"):match "\n| option | meaning |\n(.-)\n\n"
    for cell in rows:gmatch "\n| ([^|]+) |" do
      for name in cell:gmatch "`([%w_]+)`" do told[name] = true end
    end
    same(keys_of(perfev.sim.options), told)
  end)
end)

describe("the README", function()
  it("lists the scripts, and so does the manual page", function()
    local there, told, page = {}, {}, {}
    for name in run.capture("ls scripts"):gmatch("([%w_]+)%.lua") do there[name] = true end
    for name in docs.slurp("README.md"):match("| name | does |\n(.-)\n\n"):gmatch("| `([%w_]+)[^|]*` |") do
      told[name] = true
    end
    same(there, told)
    local section = docs.slurp("doc/perfl.1"):match "\n%.SH SCRIPTS\n(.-)\n%.SH "
    for name in ("\n" .. section):gmatch "\n%.TP 12\n%.B ([%w_]+)" do page[name] = true end
    same(there, page)
  end)

end)

describe("the version of the Makefile", function()
  local version = docs.slurp("Makefile"):match "\nVERSION := (%S+)"
  local STATED = {
    ["README.md"] = "\nVersion (%d[%d.]*%d)%.",
    ["CHANGELOG.md"] = "\n## %[(%d%S*)%] ",
    ["debian/changelog"] = "^perfev %((%S+)%)",
    ["doc/perfl.1"] = '%.TH PERFL 1 %S+ "perfev (%S+)"',
    ["doc/api/module.md"] = '\nThe version, a string: `"(%S+)"`',
    ["doc/metrics.md"] = 'perfev_build_info{version="([^"]+)"',
  }
  -- scm-1 is the rockspec of a checkout; a release has one of its own.
  for path in run.capture("ls rockspec"):gmatch "perfev%-%d%S+%.rockspec" do
    STATED["rockspec/" .. path] = '\nversion = "(%S+)%-%d+"'
  end

  it("is that of the module, the packages and the pages", function()
    assert.equal(version, perfev._VERSION)
    for path, pattern in pairs(STATED) do assert.equal(version, docs.slurp(path):match(pattern), path) end
  end)

  it("has one date in the change log, the package and the manual page, or is not released yet", function()
    local date = docs.slurp("CHANGELOG.md"):match("\n## %[" .. version:gsub("%p", "%%%0") .. "%] %- (%S+)\n")
    if date == "unreleased" then return end
    assert.equal(date, docs.slurp("doc/perfl.1"):match "%.TH PERFL 1 (%S+)")
    local day, month, year = docs.slurp("debian/changelog"):match "\n %-%- [^\n]*, (%d+) (%a+) (%d+)"
    local nr_month = ("JanFebMarAprMayJunJulAugSepOctNovDec"):find(month, 1, true) // 3 + 1
    assert.equal(date, ("%s-%02d-%02d"):format(year, nr_month, day))
  end)
end)

describe("the manual page", function()
  local page = docs.slurp("doc/perfl.1"):gsub("\\%-", "-")
  local program = docs.slurp("lua/perfl/main.lua")

  it("has the options of perfl --help, and no others", function()
    local told = {}
    local section = page:match("\n%.SH OPTIONS\n(.-)\n%.SH ")
    for line in section:gmatch("\n%.TP\n([^\n]+)") do
      for flag in line:gmatch("%-%-?%a[%a-]*") do told[flag] = true end
    end
    same(set_of(options.flags), told)
  end)

  it("has all verbs, and so do perfl --help and the README", function()
    local verbs, synopsis, usage = { record = true }, {}, {}
    for verb in program:match("\nlocal verbs = (%b{})"):gmatch("(%a+) = ") do verbs[verb] = true end
    for verb in page:match("\n%.SH SYNOPSIS\n(.-)\n%.SH "):gmatch("%.B perfl (%a+)") do synopsis[verb] = true end
    for words in options.own_help {}:match("^(Usage.-)\n\n"):gmatch("perfl ([%a|]+)") do
      for verb in words:gmatch("%l+") do usage[verb] = true end
    end
    same(verbs, synopsis)
    same(verbs, usage)
    for verb in pairs(verbs) do assert(docs.slurp("README.md"):find("perfl " .. verb, 1, true), verb) end
  end)
end)

describe("a document's output is compared", function()
  local function alike(shown, printed, ...)
    return docs.compare(shown, printed, { vary = { ... } }) or false
  end

  it("line by line, regardless of numbers and spaces", function()
    assert.is_true(alike("a 12 b\n  1,234.5 ms\n", "a 7 b\n      1.0 ms\n"))
    assert.is_false(alike("a 12 b\n", "a 12 c\n"))
    assert.is_false(alike("a 12 b\n", "a x b\n"))
    assert.is_false(alike("a\nb\n", "a\n"))
    assert.is_false(alike("a\n", "a\nb\n"))
    assert.is_false(alike("a+\n", "aa\n"))
  end)

  it("with gaps that it marks", function()
    assert.is_true(alike("a\n...\nz\n", "a\nb\nc\nz\n"))
    assert.is_true(alike("a\n...\n", "a\n"))
    assert.is_true(alike("a ...\nb\n", "a long line\nb\n"))
    assert.is_false(alike("a\n...\nz\n", "a\nb\n"))
    assert.is_true(docs.compare("a\nz\n", "a\nb\nz\n", { gaps = "any" }))
    assert.is_nil(docs.compare("a\nz\n", "a\nb\n", { gaps = "any" }))
  end)

  it("with variable words that it marks", function()
    assert.is_true(alike("x kworker/1:2\n", "x sh\n", "[%a_][%w_/:.-]*"))
    assert.is_false(alike("x kworker/1:2\n", "- sh\n", "[%a_][%w_/:.-]*"))
  end)
end)
