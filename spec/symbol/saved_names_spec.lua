-- Names that a recording keeps: they are found without the files, in both byte orders, and damage is reported.

local core = require "perfev.core"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local perfl_section = require "perfev.perfdata.perfl_section"
local run = require "spec.support.run"
local saved_names = require "perfev.symbol.saved_names"

local MS, VERSION, PID, USER, KERNEL = 1000000, 5, 2000111222, 2, 1
local TEXT = ":file - /nowhere/a.out\n1100 20 outer\n1108 4 inner\n1200 8 next_one\n"
  .. (":memory %d /tmp/perf-%d.map\n7f0000000010 20 compiled one\n"):format(PID, PID)
  .. ":kernel\nffffffff81000100 20 do_it\nffffffffa0000000 10 of_module\t[thing]\n"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- Samples at these addresses in a program, in memory without a file, and in the kernel.
local function recording(endian, text, change)
  local b = perfdata.new { endian = endian, events = { {
    ids = { 11 }, name = "cpu-clock",
    attr = { type = 1, config = 0, mmap = true, comm = true, task = true, sample_id_all = true,
             sample_type = { "ip", "tid", "time", "cpu", "period", "identifier", "callchain" } },
  } } }
  local function at(ms) return { pid = PID, tid = PID, time = ms * MS, cpu = 0, identifier = 11 } end
  local function map(addr, len, pgoff, filename)
    b:add { type = "mmap", misc = USER, pid = PID, tid = PID, addr = addr, len = len, pgoff = pgoff,
            filename = filename, sample_id = at(1) }
  end
  map(0x401000, 0x1000, 0x1000, "/nowhere/a.out")
  map(0x7f0000000000, 0x1000, 0, "//anon")
  local function sample(ms, misc, ...)
    local t = at(ms)
    t.type, t.misc, t.period, t.ip = "sample", misc, 1, (select(2, ...))
    t.callchain = { ... }
    b:add(t)
  end
  local IN_USER, IN_KERNEL = -512, -128 -- PERF_CONTEXT_*
  sample(2, USER, IN_USER, 0x401109, 0x401113, 0x401208, 0x401300)
  sample(3, USER, IN_USER, 0x7f0000000018, 0x401200)
  sample(4, KERNEL, IN_KERNEL, -0x7effff00, -0x5ffffffc, -0x7e000000)
  local section = perfl_section.with_names(b:string "perf 1" .. "exclude_pid 9\n", endian == "big", text)
  if change then section = change(section) end
  return b:file { [VERSION] = section }
end

local function names_of(bytes)
  local rec <close> = assert(perfev.open(run.write_file(dir .. "/t.data", bytes)))
  local out = {}
  for r in rec:records { user = false } do
    if r.type == "sample" then
      for _, frame in ipairs(r.stack:frames()) do
        out[#out + 1] = ("%s+%s %s"):format(frame.symbol or "?", frame.offset or "?", frame.module)
      end
    end
  end
  return out, rec.warnings
end

describe("names that a recording keeps", function()
  for _, endian in ipairs { "little", "big" } do
    it("are those of its frames without the files, " .. endian .. "-endian", function()
      local map = ("/tmp/perf-%d.map"):format(PID)
      local names, warnings = names_of(recording(endian, TEXT))
      assert.same({
        "inner+1 /nowhere/a.out", -- inside the sampled part of outer
        "outer+19 /nowhere/a.out",
        "next_one+8 /nowhere/a.out", -- a return address behind its last byte
        "?+? /nowhere/a.out",
        "compiled one+8 " .. map,
        "next_one+0 /nowhere/a.out", -- the first byte of a function is looked up itself
        "do_it+0 [kernel]",
        "of_module+4 [thing]",
        "?+? [kernel]",
      }, names)
      assert.same({}, warnings)
    end)

    it("are added to a file of another recorder, " .. endian .. "-endian, which stays readable", function()
      local path = run.write_file(dir .. "/plain.data", recording(endian, ":none"))
      local rec = assert(perfev.open(path))
      local version = rec:section "version"
      rec:close()
      local bytes = perfl_section.with_names(version, endian == "big", TEXT)
      assert.equal(0, core.replace_section(path, VERSION, bytes))
      rec = assert(perfev.open(path))
      assert.equal(bytes, rec:section "version")
      assert.equal("perf 1", rec.header.version)
      assert.equal(TEXT, perfl_section.names(rec:section "version", rec.facts.big))
      assert.equal(9, perfl_section.read(rec:section "version", rec.facts.big).exclude_pid)
      rec:close()
    end)
  end

  it("have source lines and inlined functions, if the recording keeps them", function()
    local LINES = TEXT .. ":lines - /nowhere/a.out\n1109\tsquare\t/src/a.h\t3\tinner\t/src/a.c\t10\n"
      .. "1113r\t\t/src/a.c\t20\n1113\twrong\t/src/wrong.c\t1\n1208\tdamaged\t/src/a.c\n1300r\n"
    perfev.symbol.source(true)
    local rec <close> = assert(perfev.open(run.write_file(dir .. "/t.data", recording("little", LINES))))
    local out = {}
    for r in rec:records { user = false } do
      for _, frame in ipairs(r.type == "sample" and #out < 5 and r.stack:frames() or {}) do
        out[#out + 1] = ("%s %s:%s %s"):format(frame.symbol, frame.file, frame.line, frame.inlined)
      end
    end
    perfev.symbol.source(false)
    assert.same({ "square /src/a.h:3 true", "inner /src/a.c:10 nil", "outer /src/a.c:20 nil", "next_one nil:nil nil",
                  "nil nil:nil nil" }, out)
  end)

  it("are replaced by a function, and what is not a name is left out", function()
    local text = TEXT .. "garbage\n:lines abcd /nowhere/a.out\n1109r\tsquare\t/src/a.h\t3\tx\nmore garbage\n"
      .. ":jit 7\nff 7f00 20 run me\n"
    local function upper(kind, old) return kind == "build_id" and "00" or (old:upper():gsub("/", "\n")) end
    assert.equal(":file - ?NOWHERE?A.OUT\n1100 20 OUTER\n1108 4 INNER\n1200 8 NEXT_ONE\n"
      .. (":memory %d ?TMP?PERF-%d.MAP\n7f0000000010 20 COMPILED ONE\n"):format(PID, PID)
      .. ":kernel\nffffffff81000100 20 DO_IT\nffffffffa0000000 10 OF_MODULE\t[THING]\n"
      .. ":lines 00 ?NOWHERE?A.OUT\n1109r\tSQUARE\t?SRC?A.H\t3\n:jit 7\nff 7f00 20 RUN ME\n",
      saved_names.replace(text, upper))
  end)

  it("that are damaged are reported, and no frame has one", function()
    for cause, change in pairs {
      ["are cut off"] = function(section) return section:sub(1, -2) end,
      ["cannot be read: zstd: "] = function(section) return section:sub(1, -9) .. ("x"):rep(8) end,
    } do
      local names, warnings = names_of(recording("little", TEXT, change))
      assert.equal("?+? /nowhere/a.out", names[1])
      assert.matches("the names in the recording " .. cause, table.concat(warnings, "\n"), 1, true)
    end
  end)

  it("in blocks without a head or a line are skipped", function()
    for _, text in ipairs {
      ":", ":\n", ":file", "\n:kernel", ":memory x y\n1 2 f\n", ":kernel\n\n", ":kernel\nzz 1 f\n",
    } do
      assert.equal("?+? /nowhere/a.out", (names_of(recording("little", text)))[1])
    end
  end)

  it("are not written over a file without a table of sections", function()
    local cases = { "", "short", "PERFILE2" .. ("\255"):rep(200), "PERFILE2" .. ("\0"):rep(200) }
    local whole = recording("little", TEXT)
    -- The table ends behind the file; the version's bit is missing.
    cases[#cases + 1] = whole:sub(1, 47) .. "\127" .. whole:sub(49)
    cases[#cases + 1] = whole:sub(1, 72) .. ("\0"):rep(32) .. whole:sub(105)
    for _, bytes in ipairs(cases) do
      local path = run.write_file(dir .. "/other", bytes)
      local ok, why = core.replace_section(path, VERSION, "x")
      assert.is_nil(ok)
      assert.equal(("cannot change %s: it has no table with that section"):format(path), why)
      assert.equal(bytes, run.slurp(path))
    end
    local _, why = core.replace_section(dir .. "/none", VERSION, "x")
    assert.equal(("cannot change %s/none: No such file or directory"):format(dir), why)
  end)
end)
