-- Profiles: every writer's output has the values that were added, also as read by other tools.

local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"
local wire = require "spec.support.protobuf"

local HOSTILE = "</script><script>alert(1)</script>\27[31m\"'&\\;\n\0\255"
local SAFE = "</script><script>alert(1)</script>\\x1b[31m\"'&\\;\\n\\x00\\xff"

-- Three value types; inlining, the kernel, recursion, an unknown frame, names that bite.
local function some()
  local p = perfev.profile { title = "some <profile>", values = { "samples", { "time", unit = "ns" },
    { "bytes", unit = "bytes" } }, time = 1700000000000000000, duration = 2000000000 }
  local main = { symbol = "main", module = "/usr/bin/prog", file = "prog.c", line = 10 }
  local hot = { symbol = "hot", module = "/usr/bin/prog", file = "hot.h", line = 3, inlined = true }
  local sys = { symbol = "do_syscall_64", module = "[kernel]", kernel = true }
  p:add({ hot, main, "_start" }, 5, 5000000)
  p:add({ sys, { module = "/lib/libc.so.6" }, main, "_start" }, 3, 3000001, 4096)
  p:add({ "fib", "fib", "fib", main, "_start" }, 2, 7)
  p:add({ {}, main, "_start" }, 1)
  p:add({ HOSTILE, { symbol = HOSTILE, module = HOSTILE, file = HOSTILE }, "_start" }, 4, 9, 1 << 40)
  p:add({ { symbol = "main", module = "/usr/bin/prog", file = "prog.c", line = 12 }, "_start" }, 6)
  return p
end

local TOTALS = { 21, 8000017, (1 << 40) + 4096 }

-- An own seed, so that other specs' random numbers stay the same.
local function lcg(seed)
  return function(most)
    seed = (seed * 1103515245 + 12345) % (1 << 31)
    return (seed >> 8) % most + 1
  end
end

-- Many stacks over few functions, in an order that `turn` decides.
local function many(turn)
  local random, rows = lcg(7), {}
  for i = 1, 300 do
    local stack = {}
    for depth = 1, random(12) do stack[depth] = "f" .. random(9) end
    rows[i] = { stack, random(50) }
  end
  local p = perfev.profile {}
  for i = 1, #rows do
    local at = turn(i, #rows)
    p:add(rows[at][1], rows[at][2])
  end
  return p
end
local function forwards(i) return i end
local function backwards(i, nr) return nr + 1 - i end

local function by_folded(text)
  local sums = {}
  for line in text:gmatch "[^\n]+" do
    local stack, sum = line:match "^(.*) (%-?%d+)$"
    assert.is_nil(sums[stack], "a stack twice: " .. stack)
    sums[stack] = tonumber(sum)
  end
  return sums
end

-- "outermost\0…\0leaf" -> sum, for the stacks that have one
local function by_path(p, index)
  local sums = {}
  for stack, values in p:stacks() do
    local names = {}
    for i, frame in ipairs(stack) do names[#stack + 1 - i] = frame.symbol end
    local path = table.concat(names, "\0")
    if values[index] ~= 0 then sums[path] = (sums[path] or 0) + values[index] end
  end
  return sums
end

-- name -> own sum, for the functions that have one
local function own_by_name(p, index)
  local sums = {}
  for stack, values in p:stacks() do
    if values[index] ~= 0 then sums[stack[1].symbol] = (sums[stack[1].symbol] or 0) + values[index] end
  end
  return sums
end

local function in_file(text, suffix, f)
  local dir = run.tempdir()
  run.write_file(dir .. "/profile" .. suffix, text)
  f(dir .. "/profile" .. suffix)
  run.remove(dir)
end

-- Stacks as a callback gets them, from lists of names, the leaf first. The profile p names their frames by
-- intern(name), which defaults to a frame without module, after before(name). With a sampler of p, the
-- list is empty.
local function recorded_stacks(p, lists, before, intern, sampler)
  local built = perfdata.new { events = { { name = "cpu-clock", attr = { type = 1, sample_id_all = true,
    sample_type = { "identifier", "ip", "tid", "time", "period", "callchain" } } } } }
  built:add { type = "mmap2", pid = 7, tid = 7, addr = 0, len = 1 << 30, pgoff = 0, prot = 5, flags = 2,
              filename = "/nowhere/app", sample_id = { identifier = 1, tid = 7, time = 0 } }
  local names, ip_of, stacks = {}, {}, {}
  for i, list in ipairs(lists) do
    local chain = { -512 } -- PERF_CONTEXT_USER
    for _, name in ipairs(list) do
      if not ip_of[name] then
        table.insert(names, name)
        ip_of[name] = #names << 12
      end
      chain[#chain + 1] = ip_of[name]
    end
    built:add { type = "sample", identifier = 1, ip = chain[2], pid = 7, tid = 7, time = i, period = 1,
                callchain = chain }
  end
  in_file(built:round():file { [12] = built:event_desc() }, ".data", function(path)
    local s = perfev.session { input = path }
    s:event { "cpu-clock", callchain = true,
      sample = sampler or function(r) stacks[#stacks + 1] = r.stack end }
    assert(s:run())
  end)
  p.namer = function(frame)
    local name = names[frame.ip >> 12]
    before(name)
    return true, (intern or p.stack_tree.intern)(p.stack_tree, name)
  end
  return stacks
end

describe("a profile", function()
  it("sums the values of a stack in any of its forms", function()
    local p = perfev.profile {}
    p:add("a;b;c")
    p:add({ "c", "b", "a" }, 2)
    p:add({ { symbol = "c" }, { symbol = "b" }, "a" }, 4)
    p:add_under("a", { "c", "b" }, 8)
    p:add_under({ "a", "b" }, "c", 16)
    assert.equal("a;b;c 31\n", p:folded())
    assert.equal(31, p:total())
  end)

  it("resolves the names of a record's stack on request, and once below all callers", function()
    local p, reads = perfev.profile {}, 0
    local x, y = table.unpack(recorded_stacks(p, { { "x" }, { "y" } }, function() reads = reads + 1 end))
    for _, stack in ipairs { x, y, x, x } do p:add_under("prog", stack) end
    p:add(x)
    assert.same({ 0, 5 }, { reads, p:total() })
    local told = {}
    p:resolve(function(done, all) told[#told + 1] = done .. "/" .. all end)
    assert.same({ "0/3", "1/3", "2/3", "3/3" }, told)
    assert.equal("prog;x 3\nprog;y 1\nx 1\n", p:folded())
    assert.equal(2, reads)
    p:add(x, 4)
    assert.equal("prog;x 3\nprog;y 1\nx 5\n", p:folded())
  end)

  it("has the total of its samplers without a name, and later each stack once, below its key's other parts", function()
    local p, reads, told, lists = perfev.profile { values = { "samples", "periods" } }, 0, {}, {}
    for i = 1, 1000 do lists[i] = { "f" .. i % 500, "main" } end
    recorded_stacks(p, lists, function() reads = reads + 1 end, nil, p:sampler { under = "pid", value = "period" })
    assert.same({ 1000, 1000, 0 }, { p:total(), p:total "periods", reads })
    p:resolve(function(done, all) told[#told + 1] = done .. "/" .. all end)
    assert.same({ "0/500", "256/500", "500/500" }, told)
    assert.equal(501, reads)
    assert.same({ 1000, 1000 }, { p:total(), p:total "periods" })
    assert.equal(500, select(2, p:folded { value = "periods" }:gsub("7;main;f%d+ 2\n", "")))
  end)

  it("resolves an address once for all stacks, and again if its name may come later", function()
    local p, reads = perfev.profile {}, {}
    local lists = { { "a", "late", "main" }, { "b", "late", "main" }, { "main" } }
    for _, stack in ipairs(recorded_stacks(p, lists, function(name) reads[name] = (reads[name] or 0) + 1 end)) do
      p:add(stack)
    end
    local namer = p.namer
    p.namer = function(frame)
      local is_final, id = namer(frame)
      return is_final and not (frame.ip == 2 << 12 and reads.late == 1), id
    end
    p:resolve()
    assert.same({ a = 1, b = 1, late = 2, main = 2 }, reads) -- main is a caller and a leaf
    assert.equal("main 1\nmain;late;a 1\nmain;late;b 1\n", p:folded())
  end)

  it("names all addresses of a program as r.stack does, and calls Lua for the first one only", function()
    local path = run.capture("readlink -f " .. run.perfl):match "[^\n]+"
    local built = perfdata.new { events = { { name = "cpu-clock", attr = { type = 1, sample_id_all = true,
      sample_type = { "identifier", "ip", "tid", "time", "period", "callchain" } } } } }
    local program <close> = assert(io.open(path, "rb"))
    local size, NR = program:seek "end", 2000
    built:add { type = "mmap2", pid = 7, tid = 7, addr = 1 << 22, len = size, pgoff = 0, prot = 5, flags = 2,
                filename = path, sample_id = { identifier = 1, tid = 7, time = 0 } }
    for i = 1, NR do
      local leaf, caller = (1 << 22) + i * 50021 % size, (1 << 22) + i * 70001 % size
      built:add { type = "sample", identifier = 1, ip = leaf, pid = 7, tid = 7, time = i, period = 1,
                  callchain = { -512, leaf, caller, i } } -- and one outside all maps
    end
    local p, of_stack, starts, nr_starts, calls = perfev.profile {}, {}, {}, 0, 0
    local stacks = {}
    in_file(built:round():file { [12] = built:event_desc() }, ".data", function(data)
      local s = perfev.session { input = data }
      s:event { "cpu-clock", callchain = true, sample = function(r)
        local text = r.stack:folded()
        of_stack[text] = (of_stack[text] or 0) + 1
        for _, frame in ipairs(r.stack:frames()) do
          local start = frame.symbol and frame.ip - frame.offset or frame.module
          if not starts[start] then starts[start], nr_starts = true, nr_starts + 1 end
        end
        p:add(r.stack)
        stacks[#stacks + 1] = r.stack
      end }
      assert(s:run())
    end)
    local namer = p.namer
    p.namer = function(...)
      calls = calls + 1
      return namer(...)
    end
    local lines = {}
    for text, n in pairs(of_stack) do lines[#lines + 1] = ("%s %d\n"):format(text, n) end
    table.sort(lines)
    assert.equal(table.concat(lines), p:folded())
    assert.is_true(nr_starts > 100)
    assert.is_true(calls >= 2 and calls <= 3) -- the first of the program, those outside all maps, those without a name
    local _, nr_frames = p.stack_tree:size()
    for i = NR, 1, -1 do p:add(stacks[i]) end -- another one is the first
    p:resolve()
    assert.equal(nr_frames, select(2, p.stack_tree:size()))
  end)

  it("grows with the number of distinct stacks, not of samples", function()
    local p = perfev.profile {}
    for i = 1, 10000 do p:add({ "leaf" .. i % 10, "main" }) end
    assert.same({ 11, 11 }, { p.stack_tree:size() })
    assert.equal(10000, p:total())
  end)

  it("names a frame without a symbol by its module, and a frame without both [unknown]", function()
    local p = perfev.profile {}
    p:add { { module = "/usr/lib/libx.so.1" }, { module = "[vdso]" }, { module = "[unknown]" }, {} }
    p:add(nil)
    p:add_under("bash;x", nil)
    assert.equal("[unknown] 1\n[unknown];[unknown];[vdso];[libx.so.1] 1\nbash:x 1\n", p:folded())
  end)

  it("writes frames that differ only in their module as one line, but not in pictures", function()
    local p = perfev.profile {}
    p:add({ { symbol = "f", module = "/a" }, "main" }, 1)
    p:add({ { symbol = "f", module = "/b" }, "main" }, 2)
    p:add({ { symbol = "f", module = "/b", line = 7 }, "main" }, 4)
    assert.equal("main;f 7\n", p:folded())
    assert.matches("\n +6 .* f %[b%]\n +1 .* f %[a%]\n", p:top())
  end)

  it("merges another profile by the names of its values, and computes differences", function()
    local a = perfev.profile { values = { "samples", "bytes" } }
    local b = perfev.profile { values = { "bytes" } }
    a:add("x;y", 1, 10)
    b:add("x;y", 5)
    b:add("x;z", 7)
    local change = a:diff(b)
    assert.equal("x;y 5\nx;z -7\n", change:folded { value = "bytes" })
    assert.equal("x;y 1\n", change:folded())
    a:merge(b)
    assert.equal("x;y 15\nx;z 7\n", a:folded { value = 2 })
    assert.same({ 1, 22 }, { a:total "samples", a:total "bytes" })
  end)

  it("raises on misuse, with the line of the caller", function()
    local p = perfev.profile { values = { "samples", "bytes" } }
    local here = "^spec/profile/profile_spec.lua:%d+: "
    for message, f in pairs {
      ["profile: unknown option 'valuse' %(did you mean 'values'%?%)"] = function()
        local _ = perfev.profile { valuse = {} }
      end,
      ["profile: 3 values for 2 value types"] = function() p:add("a", 1, 2, 3) end,
      ["profile: a value is a finite number, not a string"] = function() p:add("a", "1") end,
      ["profile: a value is a finite number, not %-?nan"] = function() p:add_under("b", "a", 0 / 0) end,
      ["profile: a stack is a list of frames, .* not a number"] = function() p:add(1) end,
      ["profile: a frame is a name or a table with symbol=, not a boolean"] = function() p:add { true } end,
      ["profile: unknown value type 'byte' %(did you mean 'bytes'%?%)"] = function()
        local _ = p:total "byte"
      end,
      ["profile: unknown value type 'x'"] = function() local _ = p:top { value = "x" } end,
      ["profile: another profile expected, not a table"] = function() p:merge {} end,
      ["profile: svg: a table expected, not 'wide'"] = function() local _ = p:svg "wide" end,
    } do
      local _, why = pcall(f) -- error_matches takes the place away
      assert.matches(here .. message, why)
    end
  end)

  it("is written in the same bytes for any order of its stacks", function()
    local a, b = many(forwards), many(backwards)
    for _, writer in ipairs { "folded", "html", "svg", "pprof", "speedscope", "firefox", "callgrind", "tree", "top" } do
      assert.equal(a[writer](a), b[writer](b), writer)
    end
  end)

  it("without stacks is written as a valid file", function()
    local p = perfev.profile { title = "nothing" }
    for _, writer in ipairs { "html", "svg", "pprof", "speedscope", "firefox", "callgrind", "tree", "top" } do
      assert.is_true(#p[writer](p) > 0, writer)
    end
    assert.equal("", p:folded())
    assert.matches("0  0.0%%%s+all\n$", p:top())
  end)
end)

describe("perfev.profile.read", function()
  it("reads the output of :folded back to the same text, annotations included", function()
    local text = some():folded { annotate = true }
    assert.matches("do_syscall_64_%[k%] 3\n", text)
    assert.matches("hot_%[i%] 5\n", text)
    assert.equal(text, perfev.profile.read(text):folded { annotate = true })
    assert.equal(some():folded(), perfev.profile.read(text):folded())
  end)

  it("accepts several lines, blanks in names, several numbers, CRLF and comments", function()
    local p = perfev.profile.read("# made by hand\r\n\na;operator new(unsigned long) 12 3.5\r\n  \n",
      { values = { "one", "two" } })
    assert.same({ 12, 3.5 }, { p:total "one", p:total "two" })
    assert.equal("a;operator new(unsigned long) 12\n", p:folded())
  end)

  it("reports the number of an invalid line", function()
    for text, line in pairs { ["a;b 1\nno count here\n"] = "line 2", ["12\n"] = "line 1", [";;; 3\n"] = "line 1",
      ["a 1.2.3\n"] = "line 1" } do
      local p, why = perfev.profile.read(text)
      assert.is_nil(p)
      assert.matches("^folded stacks: " .. line .. " does not end with a count: '.*'\ntry: ", why)
    end
  end)
end)

describe("counts are exact through", function()
  it("folded text", function()
    for i, total in ipairs(TOTALS) do
      local sum = 0
      for _, value in pairs(by_folded(some():folded { value = i })) do sum = sum + value end
      assert.equal(total, sum)
    end
    assert.equal(4, by_folded(some():folded())["_start;" .. SAFE:gsub(";", ":") .. ";" .. SAFE:gsub(";", ":")])
  end)

  it("pprof: gzip of a protocol buffer, inlined frames as lines of one location", function()
    local p = some()
    local message = wire.profile(wire.gunzip(p:pprof()))
    assert.same({ "samples/count", "time/nanoseconds", "bytes/bytes" }, message.types)
    assert.equal("samples", message.default_type)
    assert.equal(p.time, message.time)
    assert.equal(p.duration, message.duration)
    local wanted, found = {}, {}
    for stack, values in p:stacks() do
      local names = {}
      for k, frame in ipairs(stack) do
        names[k] = ("%s %s:%d"):format(frame.symbol, frame.file or "", frame.line or 0)
      end
      wanted[table.concat(names, ";")] = table.concat(values, " ")
    end
    for _, sample in ipairs(message.samples) do
      found[table.concat(sample.frames, ";")] = table.concat(sample.values, " ")
    end
    assert.same(wanted, found)
    assert.equal("hot hot.h:3;main prog.c:10", message.locations["hot hot.h:3"])
  end)

  it("pprof: negative values, and data beyond one 64 KiB block", function()
    local p = perfev.profile {}
    for i = 1, 4000 do p:add({ "a name that takes some room " .. i, "main" }, i % 2 == 0 and i or -i) end
    local bytes = wire.gunzip(p:pprof())
    assert.is_true(#bytes > 65535 * 2)
    local sum = {}
    for _, sample in ipairs(wire.profile(bytes).samples) do sum[sample.frames[1]] = sample.values[1] end
    assert.equal(-3999, sum["a name that takes some room 3999 :0"])
    assert.equal(4000, sum["a name that takes some room 4000 :0"])
  end)

  it("speedscope: each stack's weight for each value", function()
    local p = some()
    local file = json.decode(p:speedscope())
    for i, value in ipairs(p.values) do
      local one, sums = file.profiles[i], {}
      assert.same({ value.name, "sampled", TOTALS[i] }, { one.name, one.type, one.endValue })
      assert.equal(#one.samples, #one.weights)
      for k, sample in ipairs(one.samples) do
        local names = {}
        for depth, frame in ipairs(sample) do names[depth] = file.shared.frames[frame + 1].name end
        local path = table.concat(names, "\0")
        sums[path] = (sums[path] or 0) + one.weights[k]
      end
      assert.same(by_path(p, i), sums)
    end
    assert.same({ "none", "nanoseconds", "bytes" },
      { file.profiles[1].unit, file.profiles[2].unit, file.profiles[3].unit })
  end)

  it("the Firefox Profiler's tables, whose columns have the stated length", function()
    local p = some()
    local file = json.decode(p:firefox())
    local shared = file.shared
    for name, t in pairs(shared) do
      for column, list in pairs(t) do
        if name ~= "stringArray" and column ~= "length" then assert.equal(t.length, #list, name .. "." .. column) end
      end
    end
    -- References to another table's rows, and whether they may be null: src/types/profile.ts of the profiler.
    local libs = { length = #file.libs }
    for where, refers in pairs {
      ["stackTable.frame"] = { shared.frameTable }, ["stackTable.prefix"] = { shared.stackTable, json.null },
      ["frameTable.func"] = { shared.funcTable }, ["frameTable.category"] = { { length = #file.meta.categories } },
      ["frameTable.nativeSymbol"] = { shared.nativeSymbols, json.null },
      ["funcTable.name"] = { { length = #shared.stringArray } }, ["funcTable.resource"] = { shared.resourceTable, -1 },
      ["funcTable.source"] = { shared.sources, json.null }, ["resourceTable.lib"] = { libs, json.null },
      ["resourceTable.name"] = { { length = #shared.stringArray } },
      ["sources.filename"] = { { length = #shared.stringArray } },
    } do
      local name, column = where:match "(%a+)%.(%a+)"
      for _, row in ipairs(shared[name][column]) do
        assert.is_true(row == refers[2] or row >= 0 and row < refers[1].length, where)
      end
    end
    for _, lib in ipairs(file.libs) do assert.same({ "string", "string" }, { type(lib.arch), type(lib.name) }) end
    assert.same({ 62, 1, "grey" }, { file.meta.preprocessedProfileVersion, file.meta.stackwalk,
      file.meta.categories[1].color })
    local function name_of(stack)
      local func = shared.frameTable.func[shared.stackTable.frame[stack] + 1] + 1
      return shared.stringArray[shared.funcTable.name[func] + 1]
    end
    local function path_of(stack)
      local prefix = shared.stackTable.prefix[stack]
      if prefix == json.null then return name_of(stack) end
      assert.is_true(prefix + 1 < stack, "a caller stands before what it calls")
      return path_of(prefix + 1) .. "\0" .. name_of(stack)
    end
    for i, thread in ipairs(file.threads) do
      local sums, samples = {}, thread.samples
      for k = 1, samples.length do
        local path = path_of(samples.stack[k] + 1)
        local weight = math.tointeger(samples.weightType == "tracing-ms" and math.floor(samples.weight[k] * 1e6 + 0.5)
          or samples.weight[k])
        sums[path] = (sums[path] or 0) + weight
      end
      assert.same(by_path(p, i), sums)
    end
  end)

  it("SVG: the width of each rectangle is in proportion to its value", function()
    local p = some()
    local svg = p:svg()
    local titles, at_y = {}, {}
    for title, y, width in svg:gmatch '<g><title>(.-)</title><rect x="[%d.]+" y="(%d+)" width="([%d.]+)"' do
      titles[#titles + 1] = title
      at_y[y] = (at_y[y] or 0) + tonumber(width)
    end
    assert.equal("all (21 samples)", titles[1])
    local widths = {}
    for y, width in pairs(at_y) do widths[#widths + 1] = { tonumber(y), width } end
    table.sort(widths, function(a, b) return a[1] > b[1] end)
    assert.is_true(math.abs(widths[1][2] - 1180) < 0.01) -- all
    assert.is_true(math.abs(widths[2][2] - 1180) < 0.01) -- _start
    assert.is_true(math.abs(widths[3][2] - 1180) < 0.05) -- main, and the hostile one
    assert.is_true(math.abs(widths[4][2] - 1180 * 15 / 21) < 0.05)
    local inverted = p:svg { inverted = true }
    assert.is_true(tonumber(inverted:match '>all %(.-y="(%d+)"') < tonumber(inverted:match '>_start.-y="(%d+)"'))
  end)

  it("the page: its data parses back, nodes in order, sums exact", function()
    local p = some()
    local base = perfev.profile { values = { "samples" } }
    base:add("_start;gone", 9)
    base:add("_start;an early name", 1)
    local html = p:html { baseline = base }
    local data = json.decode(html:match '<script type="application/json" id="profile">(.-)</script>')
    assert.equal("some <profile>", data.title)
    for i, total in ipairs(TOTALS) do
      local sums, sum = {}, 0
      for n, value in ipairs(data.own[i]) do
        local name = data.functions[data.func[n]][1]
        if value ~= 0 then sums[name] = (sums[name] or 0) + value end
        sum = sum + value
      end
      assert.equal(total, sum)
      assert.same(own_by_name(p, i), sums)
    end
    local open = 0
    for n, depth in ipairs(data.depth) do
      assert.is_true(depth >= 1 and depth <= open + 1, "node " .. n)
      open = depth
    end
    local brothers = {}
    for n, depth in ipairs(data.depth) do
      if depth == 2 then brothers[#brothers + 1] = data.functions[data.func[n]][1] end
    end
    assert.same({ SAFE, "an early name", "gone", "main" }, brothers)
    local gone
    for n, func in ipairs(data.func) do gone = data.functions[func][1] == "gone" and n or gone end
    assert.same({ 0, 9 }, { data.own[1][gone], data.base[1][gone] })
  end)

  it("callgrind: own costs, and each call once in a recursion", function()
    local text = some():callgrind()
    local sums, calls, current = { 0, 0, 0 }, {}, nil
    local names = {}
    local function name_of(word)
      local id, name = word:match "^(%(%d+%)) ?(.*)$"
      if name ~= "" then names[id] = name end
      return names[id]
    end
    local skip, called
    for line in text:gmatch "[^\n]+" do
      local fn, cfn = line:match "^fn=(.*)", line:match "^cfn=(.*)"
      if fn then current = name_of(fn) end
      if cfn then called = name_of(cfn) end
      if line:find "^calls=" then
        skip = true
      elseif line:find "^%d" then
        local costs = {}
        for cost in line:gmatch " (%d+)" do costs[#costs + 1] = tonumber(cost) end
        if skip then
          calls[current .. ">" .. called] = (calls[current .. ">" .. called] or 0) + costs[1]
        else
          for i, cost in ipairs(costs) do sums[i] = sums[i] + cost end
        end
        skip = false
      end
    end
    assert.same(TOTALS, sums)
    assert.equal(2, calls["fib>fib"])
    assert.equal(17, calls["_start>main"])
    local less = perfev.profile { values = { "samples" } }:diff(perfev.profile.read "a 1")
    assert.error_matches(function() less:callgrind() end,
      "profile: callgrind does not support negative values (samples)", nil, true)
  end)
end)

describe("hostile names", function()
  it("end no script, open no element and reach no terminal", function()
    local p = some()
    local base = some()
    for _, html in ipairs { p:html(), p:html { baseline = base } } do
      local _, scripts = html:gsub("<script", "")
      local _, ends = html:gsub("</script", "")
      assert.same({ 2, 2 }, { scripts, ends })
      assert.is_nil(html:find("alert(1)</script", 1, true))
    end
    assert.is_nil(p:svg():find("<script", 1, true))
    assert.truthy(p:svg():find("&lt;/script&gt;&lt;script&gt;alert(1)", 1, true))
    for _, writer in ipairs { "folded", "html", "svg", "speedscope", "firefox", "callgrind", "tree", "top" } do
      assert.is_nil(p[writer](p):find "[%z\1-\8\11-\31\127\255]", writer)
    end
  end)

  it("leave SVG well-formed", function()
    local open, svg = {}, some():svg()
    for slash, tag, rest in svg:gmatch "<(/?)(%a+)(.-)>" do
      if slash == "/" then
        assert.equal(table.remove(open), tag)
      elseif rest:sub(-1) ~= "/" then
        open[#open + 1] = tag
      end
    end
    assert.same({}, open)
    assert.is_nil(svg:gsub("&%a+;", ""):gsub("&#39;", ""):find "&")
  end)
end)

describe("the page of a flame graph", function()
  it("loads nothing from any address, and forbids it", function()
    local html = some():html()
    assert.is_nil(html:find "https?://")
    assert.is_nil(html:find "%f[%w]src=")
    assert.truthy(html:find("default-src 'none'", 1, true))
    assert.is_nil(html:find("innerHTML", 1, true))
  end)
end)

describe("printed for a terminal,", function()
  local function fits(text)
    for line in text:gmatch "[^\n]+" do assert.is_true(utf8.len(line) <= 80, line) end
  end

  it("top has no totals if the stacks have no callers", function()
    local p = perfev.profile {}
    p:add("leaf", 3)
    p:add("other")
    assert.equal("samples       %  function\n      3   75.0%  leaf\n      1   25.0%  other\n      4  100.0%  all\n",
      p:top())
  end)

  it("top lists each function's own and total, recursion once, in 80 columns", function()
    local p = some()
    p:add({ ("é"):rep(100), "_start" }, 1)
    local text = p:top()
    fits(text)
    assert.matches("\n +6 +27%.3%% +17 +77%.3%%  main %[prog%]\n", text)
    assert.matches("\n +2 +9%.1%% +2 +9%.1%%  fib\n", text)
    assert.matches("\n +5 +22%.7%% +5 +22%.7%%  hot %(inlined%) %[prog%]\n", text)
    assert.matches("é%.%.\n", text)
    assert.matches("\n +22 +100%.0%% +all\n$", text)
    assert.matches("\n3%.00 ms +37%.5%%", p:top { value = "time" })
    assert.matches("\n *4%.00 KiB +0%.0%%", p:top { value = "bytes" })
    local short = p:top { limit = 1 }
    assert.matches("\n +16 +72%.7%% +%(%d others%)\n", short)
  end)

  it("tree draws a chain of single callees straight down", function()
    local p = perfev.profile {}
    p:add("main;run;work;hot", 60)
    p:add("main;run;work;cold", 39)
    p:add("main;rare", 1)
    assert.equal(table.concat({
      "samples   total     own  function",
      "    100  100.0%    0.0%  - main",
      "     99   99.0%    0.0%    run",
      "     99   99.0%    0.0%    work",
      "     60   60.0%   60.0%    - hot",
      "     39   39.0%   39.0%    - cold",
      "    100  100.0%          all",
      "" }, "\n"), p:tree { least = 2 })
    assert.matches("\n +1    1%.0%%    1%.0%%    %- rare\n", p:tree())
    local time = perfev.profile { values = { { "time", unit = "ns" } } }
    time:add("main;wait", 1500000000)
    time:add("main", 250000)
    assert.equal("  time   total     own  function\n1.50 s  100.0%    0.0%  - main\n"
      .. "1.50 s  100.0%  100.0%    wait\n1.50 s  100.0%          all\n", time:tree())
    fits(some():tree())
  end)

  it("top and tree show shares beside those of a baseline, vanished functions included", function()
    local now, before = perfev.profile {}, perfev.profile {}
    now:add("main;hot", 3)
    now:add("main;cold", 1)
    before:add("main;hot", 100)
    before:add("main;gone", 100)
    assert.equal(table.concat({
      "samples     own  before  change   total  change  function",
      "      0    0.0%   50.0%   -50.0    0.0%   -50.0  gone",
      "      3   75.0%   50.0%   +25.0   75.0%   +25.0  hot",
      "      1   25.0%    0.0%   +25.0   25.0%   +25.0  cold",
      "      0    0.0%    0.0%     0.0  100.0%     0.0  main",
      "      4  100.0%  100.0%     0.0                  all",
      "" }, "\n"), now:top { baseline = before })
    assert.equal(table.concat({
      "samples     now  before  change  function",
      "      4  100.0%  100.0%     0.0  - main",
      "      3   75.0%   50.0%   +25.0    - hot",
      "      0    0.0%   50.0%   -50.0    - gone",
      "      1   25.0%    0.0%   +25.0    - cold",
      "      4  100.0%  100.0%     0.0  all",
      "" }, "\n"), now:tree { baseline = before })
  end)

  it("deep stacks fit into the line", function()
    local p, stack = perfev.profile {}, {}
    for i = 1, 200 do stack[i] = "f" .. i end
    for i = 1, 200 do p:add({ table.unpack(stack, i) }, 10) end
    fits(p:tree { least = 0 })
  end)
end)

describe("a script's output at the end", function()
  local core = require "perfev.core"
  local clock, stderr, output = core.clock, io.stderr, io.output()
  -- luacheck: push ignore 122
  after_each(function()
    core.clock, io.stderr = clock, stderr
    io.output(output)
  end)

  it("is written with a progress message on stderr for each second of symbol lookup", function()
    local p, said, now = perfev.profile {}, {}, 0
    local function wait() now = now + 600000000 end -- that a name took
    local function intern_kernel(tree, name) return tree:intern(name, nil, nil, nil, true) end
    local stacks = recorded_stacks(p, { { "f1" }, { "f2" }, { "f3" } }, wait, intern_kernel)
    for _, stack in ipairs(stacks) do p:add(stack) end
    core.clock = function() return now end
    io.stderr = { write = function(_, text) said[#said + 1] = text end }
    local out = assert(io.tmpfile())
    io.output(out)
    require "perfev.tool".print_profile("profile", p, { format = "folded" })
    out:seek "set"
    assert.equal("f1_[k] 1\nf2_[k] 1\nf3_[k] 1\n", out:read "a")
    assert.same({ "profile: 2 of 3 stacks have their names\n" }, said)
  end)
  -- luacheck: pop
end)

describe("a script with stacks", function()
  -- Linux 6.12 of Debian, for a user without access to kernel stacks.
  local machine = require "spec.support.worlds" [[
    local sim = require "perfev.sim"
    local k = sim.new { world = "vm", cpus = "0", tasks = { [7] = "app" } }
    k.refuse = function(attr)
      local callchain = attr.sample_type & 1 << 5 ~= 0
      return (not attr.exclude_kernel or callchain and not attr.exclude_callchain_kernel) and 13 or nil -- EACCES
    end
    k:after(1000, function()
      k:ring(0):push({ type = "sample", pid = 7, tid = 7, event = "page-faults:u", ip = 4096, callchain = { 4096 } })
    end)
  ]]
  local dir = run.tempdir()
  teardown(function() run.remove(dir) end)

  for _, words in ipairs { "profile --event page-faults:u -F 0", "profile --event cpu-clock:u", "faultstacks" } do
    it(("leaves out the kernel's part if it may not be read: %s"):format(words), function()
      local r = run { "sh", "-c", ("%s --sim %s -p 7 -d 1ms %s -f folded"):format(run.quote(run.perfl),
        run.quote(machine.path(dir, "")), words) }
      assert.equal(0, r.code, r.err)
      assert.not_matches("cannot open", r.err)
    end)
  end
end)

describe("stacks that end after one or two frames", function()
  -- page-faults of one task, each with a chain of so many frames of user space.
  local function world(nr, depth)
    return (require "spec.support.worlds" (([[
      local sim = require "perfev.sim"
      local k = sim.new { world = "vm", cpus = "0", tasks = { [7] = "app" } }
      k.files["/proc/7/maps"] = "00400000-00500000 r-xp 00000000 08:01 7 /bin/app\n"
      local chain = { -512 } -- PERF_CONTEXT_USER
      for i = 1, %d do chain[#chain + 1] = 0x400000 + 16 * i end
      k:after(1000, function()
        for _ = 1, %d do
          k:ring(0):push({ type = "sample", pid = 7, tid = 7, event = { type = 1, config = 2 }, ip = chain[2],
            callchain = chain })
        end
      end)
    ]]):format(depth, nr)))
  end
  local dir = run.tempdir()
  teardown(function() run.remove(dir) end)

  local function said(machine, words, before)
    local r = run { "sh", "-c", ("%s %s --sim %s -p 7 -d 1ms profile --event page-faults:u -F 0 -f folded %s"):format(
      run.quote(run.perfl), before or "", run.quote(machine.path(dir, "")), words or "") }
    assert.equal(0, r.code, r.err)
    return r.err:match "([^\n]*of the user stacks.*)$"
  end

  it("are reported after the summary, with a remedy, if they are more than a third", function()
    local text = said(world(20, 2))
    assert.equal("perfl: 100% of the user stacks end after one or two frames: their code keeps no frame pointers\n"
      .. "  try: --call-graph dwarf\n", text)
    assert.is_nil(said(world(20, 2), text:match "try: (.*)\n"))
    assert.is_nil(said(world(20, 2), nil, "-q"))
  end)

  it("are not reported if they are few or deeper", function()
    assert.is_nil(said(world(19, 2)))
    assert.is_nil(said(world(40, 3)))
  end)

  it("are counted as a share of all stacks, unless they end where a thread begins", function()
    local p, times = perfev.profile {}, { 3, 4, 5, 6, 7 }
    local stacks = recorded_stacks(p, { { "leaf", "main" }, { "leaf", "a", "b" }, { "leaf", "_start" },
      { "sys_read", "leaf" }, { "sys_read" } }, function() end, function(tree, name)
      return tree:intern(name, "/bin/app", nil, nil, name:find "^sys_" ~= nil)
    end)
    for i, stack in ipairs(stacks) do p:add(stack, times[i]) end
    p:resolve()
    assert.same({ 9 / 18, 18 }, { p:short_share() })
  end)
end)

-- Two more readers are from npm, and tried by hand (`npm install pprof-format speedscope`): Profile.decode() of the
-- gunzipped output of -f pprof, and `npx speedscope FILE` with the output of -f speedscope.
describe("a profile read by another tool", function()
  it("has the same sums in go tool pprof -top and -raw", function()
    if not run.have "go" then return pending "go is not installed" end
    local p = many(forwards)
    in_file(p:pprof(), ".pb.gz", function(path)
      local function pprof(...)
        local r = run({ "go", "tool", "pprof", "-nodecount=100", "-nodefraction=0", ..., path },
          { env = { HOME = "/nonexistent", PPROF_TMPDIR = "/nonexistent" } })
        assert.equal(0, r.code, r.err)
        return r.out
      end
      local sum = 0
      for value in pprof("-raw"):match("\nSamples:(.-)\nLocations"):gmatch "\n%s*(%d+): [%d ]+" do
        sum = sum + math.tointeger(value)
      end
      assert.equal(p:total(), sum)
      local theirs, ours = {}, {}
      for own, total, name in pprof("-top"):gmatch "\n%s*(%d+)%s+[%d.]+%%%s+[%d.]+%%%s+(%d+)%s+[%d.]+%%%s+(%S+)" do
        theirs[name] = own .. "/" .. total
      end
      for own, total, name in p:top { limit = 100 }:gmatch "\n%s*(%d+)%s+[%d.]+%%%s+(%d+)%s+[%d.]+%%%s+(%S+)" do
        ours[name] = own .. "/" .. total
      end
      assert.same(ours, theirs)
      assert.truthy(ours.f1)
    end)
  end)

  it("has the same sums in callgrind_annotate", function()
    if not run.have "callgrind_annotate" then return pending "callgrind_annotate is not installed" end
    local p = many(forwards)
    local wanted = own_by_name(p, 1)
    in_file(p:callgrind(), ".callgrind", function(path)
      local r = run { "callgrind_annotate", "--threshold=100", "--show-percs=no", "--auto=no", path }
      assert.same({ 0, "" }, { r.code, r.err })
      local found = {}
      for sum, name in r.out:gmatch "\n%s*([%d,]+)%s+%?:(%S+)" do found[name] = math.tointeger((sum:gsub(",", ""))) end
      assert.same(wanted, found)
      assert.equal(p:total(), math.tointeger((r.out:match "\n%s*([%d,]+)%s+PROGRAM TOTALS":gsub(",", ""))))
    end)
  end)
end)
