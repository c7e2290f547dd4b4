-- Text lines print the same as a callback with string.format.

local sim = require "perfev.sim"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local FIELDS = "int small; unsigned int big; s64 wide; u8 byte; char name[8]; __data_loc char[] path; u16 list[3]"
local VALUES = { small = -3, big = 0xfffffffe, wide = math.mininteger, byte = 255, name = "four\0x",
                 path = "/a\27b", list = { 1, 2, 65535 }, common_flags = 0x19, common_preempt_count = 0x23 }

local k, dir
before_each(function()
  dir = run.tempdir()
  k = sim.new { cpus = "0", world = "vm", tasks = { [7] = "seven" } }
  perfev.hooks.set(k.hooks)
  k:tracepoint("a:b", 300, FIELDS)
end)
after_each(function()
  perfev.hooks.clear()
  run.remove(dir)
end)

-- The text written to io.output() while f runs.
local function written(f)
  local path, before = dir .. "/out", io.output()
  local file <close> = assert(io.open(path, "w"))
  io.output(file)
  local ok, why = pcall(f)
  io.output(before)
  file:close()
  assert(ok, why)
  local out <close> = assert(io.open(path))
  return out:read "a"
end

-- The text that the line, or callback, prints for a sample of a:b.
local function printed(sample, record)
  return written(function()
    local s <close> = perfev.session { pid = 7, ordered = false }
    s:event { "a:b", sample = sample }
    assert(s:start())
    record = record or {}
    record.type, record.pid, record.args = "sample", 7, VALUES
    k:ring(0):push(record)
    s:dispatch()
  end)
end

describe("perfev.line", function()
  it("prints fields, payload and text as string.format does", function()
    local format = "{comm:-8}|{tid:6}|{cpu:03}|{time}|{args.small:5}|{args.big:x}|{args.wide}|{args.name:6}|"
      .. "{args.path:-8}|{args.byte:04X}|{{{event}}}|{addr}|{text}"
    local function callback(r, args)
      io.write(("%-8s|%6d|%03d|%d|%5d|%x|%d|%6s|%-8s|%04X|{%s}|-|%s\n"):format(r.comm, r.tid, r.cpu, r.time, args.small,
        args.big, args.wide, args.name, perfev.escape(args.path), args.byte, r.event.name,
        perfev.escape(tostring(args))))
    end
    local out = printed(perfev.line(format), { time = 12345678999 })
    assert.equal(printed(callback, { time = 12345678999 }), out)
    assert.matches("^seven   |     7|000|12345678999|   %-3|fffffffe|%-9223372036854775808|  four|", out)
    assert.matches("|/a\\x1bb |00FF|{a:b}|%-|", out)
  end)

  it("fills a negative number with zeros behind its sign", function()
    local line = perfev.line "{cpu:03}|{args.small:06}|{args.small:3}|{args.small:-4}|"
    assert.equal("-01|-00003| -3|-3  |\n", printed(line, { cpu = -1 }))
  end)

  it("prints times in seconds, and the flags that ftrace prints before an event", function()
    local line = perfev.line "{task:8} {latency} {time:12.6} {time:.0} {time:08.1} {tracepoint:-3}."
    assert.equal("   seven d.H22     1.000001 1 000001.0 b  .\n", printed(line, { time = 1000000500 }))
    assert.equal("   seven d.H22     1.999999 2 000002.0 b  .\n", printed(line, { time = 1999999499 }))
    assert.equal("   seven d.H22     2.000000 2 000002.0 b  .\n", printed(line, { time = 1999999500 }))
    line = perfev.line "{time:.9} {time:010.3}"
    assert.equal("18446744073.709551615 18446744073.710\n", printed(line, { time = -1 }))
    line = perfev.line "{time:60.6}|{time:060.1}"
    assert.equal(("%60s|%058d.5\n"):format("7.500000", 7), printed(line, { time = 7500000000 }))
  end)

  it("prints into the output that another callback, or the time between two rounds, has set", function()
    local paths, files = {}, {}
    for i = 1, 3 do
      paths[i] = ("%s/%d"):format(dir, i)
      files[i] = assert(io.open(paths[i], "w"))
    end
    local before <const> = io.output()
    io.output(files[1])
    local s <close> = perfev.session { pid = 7, ordered = false }
    s:event { type = 1, config = 0, sample_period = 1, sample = perfev.line "{time}", comm = function(r)
      if r.comm == "close" then io.close() else io.output(files[2]) end
    end }
    assert(s:start())
    local function sample(time) k:ring(0):push({ type = "sample", pid = 7, time = time }) end
    local function comm(name) k:ring(0):push({ type = "comm", pid = 7, tid = 7, comm = name }) end
    sample(1)
    sample(2)
    comm "next"
    sample(3)
    s:dispatch()
    io.output(files[3])
    sample(4)
    comm "close"
    sample(5)
    s:dispatch()
    io.output(before)
    local texts = {}
    for i, path in ipairs(paths) do
      if i < 3 then files[i]:close() end
      local file <close> = assert(io.open(path))
      texts[i] = file:read "a"
    end
    assert.same({ "1\n2\n", "3\n", "4\n" }, texts)
  end)

  it("prints in order with other output, and into the same file", function()
    local line = perfev.line "{tid}"
    assert.equal("before\n7\nafter\n", printed(function(r)
      io.write "before\n"
      line(r)
      io.write "after\n"
      assert.equal("7", line:text(r))
    end))
  end)

  it("prints text as long as a payload can be", function()
    k:tracepoint("a:long", 301, "__data_loc char[] path")
    local out = written(function()
      local s <close> = perfev.session { pid = 7, ordered = false }
      s:event { "a:long", sample = perfev.line "<{args.path}|{args.path}>" }
      assert(s:start())
      k:ring(0):push({ type = "sample", pid = 7, args = { path = ("\27"):rep(20000) } })
      s:dispatch()
    end)
    assert.equal(2, select(2, out:gsub(("\\x1b"):rep(20000), "")))
  end)

  it("escapes any text as perfev.escape does", function()
    math.randomseed(4)
    local parts = { "\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\u{200e}", "\u{2028}", "\u{2066}", "é", "名",
      "😀", "\xf4\x90\x80\x80", "\xf8", "\n", "\t", "\27", "\127", "a", "\\", "\xc2", "\xe2\x80", "\u{9f}", "\u{a0}" }
    local names, want = {}, {}
    for i = 1, 200 do
      local name = ""
      while #name < 11 do name = name .. parts[math.random(#parts)] end
      names[i] = name:sub(1, 15)
      want[i] = perfev.escape(names[i]) .. "\n"
    end
    assert.equal(table.concat(want), written(function()
      local s <close> = perfev.session { ordered = false }
      s:event { comm = perfev.line "{comm}" }
      assert(s:start())
      for _, name in ipairs(names) do k:emit(k.events[1], "comm", { pid = 9, tid = 9, comm = name }) end
      s:dispatch()
    end))
  end)

  it("accepts records of any type, and prints '-' for a missing field", function()
    local out = written(function()
      local s <close> = perfev.session { ordered = false }
      s:event { type = 1, config = 0, sample_period = 1, comm = true, record = perfev.line "{type} {exec} {period}" }
      assert(s:start())
      k:emit(k.events[1], "comm", { pid = 9, tid = 9, comm = "new" })
      k:emit(k.events[1], "sample", { pid = 9, tid = 9, period = 5 })
      s:dispatch()
    end)
    assert.equal("comm false -\nsample - 5\n", out)
  end)

  it("formats a recording's record, even if its task has no name", function()
    local b = perfdata.new { events = { { attr = { sample_type = { "tid" } } } } }
    b:add { type = "sample", pid = 7, tid = 7 }
    local rec <close> = perfdata.open(b:file())
    local text
    for r in rec:records { types = { "sample" }, user = false } do text = perfev.line "{tid} {comm} {task}":text(r) end
    assert.equal("7 - <...>", text)
  end)

  it("refuses a wrong format with the cause", function()
    local cases = {
      ["{comn}"] = "no record has a field 'comn' %(did you mean 'comm'%?%)", ["{stack}"] = "r.stack",
      ["{comm:q}"] = "'q' is not understood", ["{comm"] = "unpaired brace at 1", ["a } b"] = "brace at 3",
      ["{}"] = "{} is not a field", ["{callchain}"] = "neither a number nor a string",
    }
    for format, why in pairs(cases) do
      assert.error_matches(function() perfev.line(format) end, "line: .*" .. why)
    end
    assert.error_matches(function() perfev.line(7) end, "a format is a string, not a number")
    local s <close> = perfev.session { pid = 7 }
    assert.error_matches(function() s:event { "a:b", fork = perfev.line "{text}" } end, "only samples have a payload")
    assert.error_matches(function() s:event { "a:b", fields = { "tid" }, sample = perfev.line "{tid}" } end,
      "fields and a line at once")
    local function told(event, format)
      local one <close> = perfev.session { pid = 7 }
      one:event { event, sample = perfev.line(format) }
      return (select(2, one:start()))
    end
    assert.matches("perfev.line: args.smal: no such field %(did you mean 'args.small'%?%)", told("a:b", "{args.smal}"))
    assert.matches("the event has no payload", told("cpu-clock", "{text}"))
  end)
end)
