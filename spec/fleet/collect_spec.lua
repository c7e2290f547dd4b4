-- perfl collect: rows on disk, pushed profiles, and what a crash leaves. The server's part runs on a real nats-server.

local deltas = require "spec.support.deltas"
local follow = require "perfl.collect.follow"
local frame_rows = require "perfl.collect.frame_rows"
local hour_rows = require "perfl.collect.hour_rows"
local json = require "perfev.base.json"
local nats_server = require "spec.support.nats_server"
local perfev = require "perfev"
local run = require "spec.support.run"
local seen_frames = require "perfl.collect.seen_frames"

local HOUR = "2025-11-28T07"

-- What message.say prints while f runs.
local function said(f)
  local message = require "perfl.message"
  local say, lines = message.say, {}
  message.say = function(text) lines[#lines + 1] = text end
  local ok, why = pcall(f)
  message.say = say
  assert(ok, why)
  return table.concat(lines, "\n")
end

local function rows_of(path)
  local rows = {}
  for line in io.lines(path) do rows[#rows + 1] = assert(json.decode(line)) end
  return rows
end

-- host -> key -> sum, of all files of a job
local function sums_below(dir, job)
  local sums, nr = {}, 0
  local found = run.capture(("find %s/%s -name '*.ndjson' 2>/dev/null"):format(dir, job or "job")) or ""
  for path in found:gmatch "[^\n]+" do
    for _, row in ipairs(rows_of(path)) do
      local host = sums[row.host] or {}
      sums[row.host], nr = host, nr + 1
      host[row.comm] = (host[row.comm] or 0) + row.value
    end
  end
  return sums, nr
end

describe("the rows of a frame", function()
  local header = { job = "j", host = "h", name = "n", begin = 5, ["end"] = 7 }

  local function rows(value, kind)
    header.kind = kind
    local text, nr = frame_rows.lines(header, value)
    local list = {}
    for line in text:gmatch "[^\n]+" do list[#list + 1] = assert(json.decode(line)) end
    assert.equal(nr, #list)
    return list
  end

  it("have the keys as columns, and the value", function()
    local a = perfev.sum { by = { "comm", "cpu" } }
    a:add(5, "x\n\"", 2)
    a:add(-7, "y", true)
    assert.same({
      { job = "j", host = "h", name = "n", kind = "sum", begin_ns = 5, end_ns = 7, comm = "x\n\"", cpu = 2, value = 5 },
      { job = "j", host = "h", name = "n", kind = "sum", begin_ns = 5, end_ns = 7, comm = "y", cpu = true, value = -7 },
    }, rows(a, "sum"))
  end)

  it("give a key that is called as one of our columns a prefix", function()
    local a = perfev.count { by = { "host", "value2" } }
    a:inc("other", 1)
    local row = rows(a, "count")[1]
    assert.equal("h", row.host)
    assert.equal("other", row.key_host)
    assert.equal(1, row.value2)
  end)

  it("have the buckets of a histogram, and the parts of the other kinds", function()
    local hist, quantile, stats, top = perfev.hist(), perfev.quantile(), perfev.stats(), perfev.top { by = "pid" }
    for _, a in ipairs { hist, quantile, stats } do
      a:add(5)
      a:add(300)
    end
    top:inc(9)
    local row = rows(hist, "hist")[1]
    assert.same({ 2, 305, 5, 300 }, { row.count, row.sum, row.min, row.max })
    assert.same({ low = 4, high = 8, count = 1 }, row.buckets[1])
    assert.same({ low = 256, high = 512, count = 1 }, row.buckets[#row.buckets])
    row = rows(quantile, "quantile")[1]
    assert.equal(300, row.p99)
    assert.same({ { low = 5, high = 6, count = 1 }, { low = 300, high = 304, count = 1 } }, row.buckets)
    assert.equal(152.5, rows(stats, "stats")[1].avg)
    row = rows(top, "top")[1]
    assert.same({ 9, 1, 0 }, { row.pid, row.count, row.error })
  end)

  it("have a stack as text and as list, with the modules of a profile", function()
    local a = perfev.count { by = "stack" }
    a:inc "main;f;g"
    assert.same({ "main", "f", "g" }, rows(a, "count")[1].frames)
    local p = perfev.profile { values = { "samples", { "time", unit = "ns" } } }
    p:add({ { symbol = "a;b", module = "/lib/x.so" }, { symbol = "k", kernel = true }, "main" }, 3, 99)
    local row = rows(p, "profile")[1]
    assert.equal("main;k;a:b", row.stack)
    assert.same({ "main", "k", "a:b" }, row.frames)
    assert.same({ "", "[kernel]", "/lib/x.so" }, row.modules)
    assert.equal(3, row.value)
    assert.same({ samples = 3, time = 99 }, row.values)
  end)

  it("have the unit of an aggregator that has one", function()
    local a = perfev.sum { unit = "us", by = "unit" }
    a:add(5, "x")
    local row = rows(a, "sum")[1]
    assert.same({ "us", "x", 5 }, { row.unit, row.key_unit, row.value })
  end)

  it("name what came beyond max_keys", function()
    local a = perfev.count { by = "comm", max_keys = 1 }
    a:inc "one"
    a:add(4, "two")
    assert.same({ false, true }, { rows(a, "count")[1].other or false, rows(a, "count")[2].other })
    assert.equal(4, rows(a, "count")[2].value)
  end)
end)

describe("the seen frames of a host", function()
  it("are ranges: duplicates, gaps and late frames", function()
    local seen = seen_frames.new()
    assert.same({ true }, { seen:add(5) })
    assert.same({ true }, { seen:add(6) })
    assert.same({ false }, { seen:add(5) })
    assert.same({ true, 7 }, { seen:add(10) })
    assert.equal(3, seen:missing())
    assert.same({ true }, { seen:add(8) }) -- late
    assert.equal(2, seen:missing())
    assert.same({ true }, { seen:add(7) })
    assert.same({ true }, { seen:add(9) })
    assert.equal(0, seen:missing())
    assert.equal(1, #seen.ranges)
    assert.same({ true }, { seen:add(1) })
    assert.equal(3, seen:copy():missing())
  end)

  it("need all parts", function()
    local seen = seen_frames.new()
    assert.is_true(seen:add(1, 2, 3))
    assert.is_false((seen:add(1, 2, 3)))
    assert.is_true(seen:add(1, 1, 3))
    assert.is_false(seen:has(1))
    assert.is_true(seen:has_part(1, 1) and not seen:has_part(1, 3))
    assert.is_true(seen:add(1, 3, 3))
    assert.is_true(seen:has(1))
    assert.is_false((seen:add(1, 3, 3)))
  end)

  it("take bounded memory with gaps everywhere, and with parts that never come", function()
    local seen = seen_frames.new()
    for i = 1, 20000, 2 do seen:add(i) end
    assert.is_true(#seen.ranges <= 4096)
    assert.is_true(seen:has(19999))
    for i = 30001, 40000 do seen:add(i, 1, 2) end
    local nr = 0
    for _ in pairs(seen.parts) do nr = nr + 1 end
    assert.equal(64, nr)
    assert.equal(64, #seen.partial)
    seen:add(40000, 2, 2)
    assert.equal(63, #seen:copy().partial)
  end)
end)

describe("perfl collect, without a server,", function()
  local dir
  before_each(function() dir = run.tempdir() end)
  after_each(function() run.remove(dir) end)

  -- A source of these options of deltas.frames; { raw = bytes, subject = } is a message of its own.
  local function source_of(list, time)
    local messages, acked = {}, {}
    for i, opt in ipairs(list) do
      local parts = opt.raw and { opt.raw } or deltas.frames(opt)
      for _, data in ipairs(parts) do
        messages[#messages + 1] = { subject = opt.subject or deltas.subject(opt), data = data, nr = i, time = time }
      end
    end
    return {
      acked = acked, at = 1,
      fetch = function(self, nr)
        local some = table.move(messages, self.at, self.at + nr - 1, 1, {})
        self.at = self.at + #some
        return some
      end,
      ack = function(_, msg) acked[#acked + 1] = msg.nr end,
      flush = function() end,
      is_at_end = function(self) return self.at > #messages end,
    }
  end

  local function names_of(subject) return subject:match "^perfev%.agg%.([^.]+)%.([^.]+)%." end

  local function collect(list, time)
    local sink = assert(hour_rows.open(dir))
    local source = source_of(list, time)
    local following = follow.new(source, sink, { once = true, names_of = names_of })
    local lines = said(function() assert(following:run()) end)
    local text = following:summary()
    sink:close()
    return lines, source.acked, text
  end

  it("writes rows by job, hour and host, readable for the group only", function()
    local _, acked = collect { { host = "web1", seq = 1 }, { host = "web2", seq = 1, at = deltas.AT + 3600 } }
    assert.same({ 1, 2 }, acked)
    local rows = rows_of(("%s/job/%s/web1.ndjson"):format(dir, HOUR))
    assert.same({ "a", 1, "b", 1 }, { rows[1].comm, rows[1].value, rows[2].comm, rows[2].value })
    assert.equal(2, #rows_of(dir .. "/job/2025-11-28T08/web2.ndjson"))
    local umask = tonumber(run.capture "umask", 8)
    local file, folder = ("%o"):format(tonumber("640", 8) & ~umask), ("%o"):format(tonumber("750", 8) & ~umask)
    assert.equal(file .. " " .. file, run.capture(("stat -c %%a %s/job/%s/web1.* | xargs"):format(dir, HOUR)))
    assert.equal(folder .. " " .. folder, run.capture(("stat -c %%a %s/job %s/job/%s | xargs"):format(dir, dir, HOUR)))
    local frame = rows_of(("%s/job/%s/web1.frames"):format(dir, HOUR))[1]
    assert.same({ "web1", 1, 2, 0 }, { frame.host, frame.seq, frame.rows, frame.lost })
  end)

  it("drops duplicates, within a run and of earlier runs", function()
    local list = { { host = "web1", seq = 1 }, { host = "web1", seq = 2 }, { host = "web1", seq = 1 } }
    local _, acked, text = collect(list)
    assert.equal(3, #acked)
    assert.matches("1 duplicates dropped", text)
    assert.same({ web1 = { a = 3, b = 2 } }, (sums_below(dir)))
    list[4] = { host = "web1", seq = 3 }
    _, acked, text = collect(list)
    assert.equal(4, #acked)
    assert.matches("3 duplicates dropped", text)
    assert.same({ web1 = { a = 6, b = 3 } }, (sums_below(dir)))
  end)

  it("drops duplicates of any hour", function()
    local list = {}
    for seq = 1, 6 do list[seq] = { host = "web1", seq = seq, at = deltas.AT + seq * 1800 } end
    collect(list)
    local _, acked, text = collect(list)
    assert.equal(6, #acked)
    assert.matches("6 duplicates dropped$", text)
    assert.same({ web1 = { a = 21, b = 6 } }, (sums_below(dir)))
  end)

  it("goes on behind every byte at which a crash can cut the two files", function()
    local list = { { host = "w", seq = 1 }, { host = "w", seq = 2 } }
    collect(list)
    local base = ("%s/job/%s/w"):format(dir, HOUR)
    local rows, lines = run.slurp(base .. ".ndjson"), run.slurp(base .. ".frames")
    local first = lines:find("\n", 1, true)
    -- The rows of the second frame are whole or not; its line is not.
    for cut = first, #lines - 1, 17 do
      run.write_file(base .. ".ndjson", rows)
      run.write_file(base .. ".frames", lines:sub(1, cut))
      collect(list)
      assert.equal(rows, run.slurp(base .. ".ndjson"))
      assert.equal(lines, run.slurp(base .. ".frames"))
    end
    for cut = #rows // 2, #rows - 1, 13 do
      run.write_file(base .. ".ndjson", rows:sub(1, cut))
      run.write_file(base .. ".frames", lines:sub(1, first))
      collect(list)
      assert.equal(rows, run.slurp(base .. ".ndjson"))
    end
  end)

  it("reports the frames that are missing, also since an earlier run", function()
    assert.matches("web1 %(calls%): frames 2 to 4 are missing", (collect { { host = "web1", seq = 1 },
      { host = "web1", seq = 5 } }))
    local lines, _, text = collect { { host = "web1", seq = 7, at = deltas.AT + 7200 } }
    assert.matches("web1 %(calls%): frame 6 is missing", lines)
    assert.matches("4 frames missing", text)
    lines = collect { { host = "web1", seq = 1, start = 1 } } -- the agent started anew
    assert.equal("", lines)
  end)

  it("keeps a frame in parts as one", function()
    local a = perfev.count { by = "comm", max_keys = 300000 }
    for i = 1, 120000 do a:add(i, ("key %d %d"):format(i * 7919 % 1000003, i * i % 999983)) end
    local opt = { host = "w", seq = 1, value = a }
    assert.is_true(#deltas.frames(opt) > 1)
    local lines, acked, text = collect { opt, { host = "w", seq = 2 }, opt }
    assert.equal("", lines)
    assert.equal(2 * #deltas.frames(opt) + 1, #acked)
    assert.matches("duplicates dropped", text)
    local _, nr = sums_below(dir)
    assert.equal(120002, nr)
  end)

  it("leaves out damaged frames, and those of another host's subject, and goes on", function()
    local good = deltas.frames { host = "web1", seq = 1 }[1]
    local lines, acked, text = collect {
      { raw = good:sub(1, -3), subject = "perfev.agg.job.web1.calls" }, { raw = "", subject = "perfev.agg.job.web1.x" },
      { raw = good, subject = "perfev.agg.job.web2.calls" }, { raw = good, subject = "perfev.agg.job.web1.calls" },
    }
    assert.equal(4, #acked)
    assert.matches("a frame of perfev.agg.job.web1.calls is left out", lines)
    assert.matches("a frame of perfev.agg.job.web2.calls is left out: it is of job 'job' and host 'web1'", lines)
    assert.matches("damaged", text)
    assert.same({ web1 = { a = 1, b = 1 } }, (sums_below(dir)))
  end)

  it("names a path by nothing that a frame says", function()
    local _, acked = collect { { host = "../../x", job = "..", seq = 1, subject = "perfev.agg.job.x.calls" } }
    assert.equal(1, #acked)
    assert.equal("", run.capture(("find %s -name '*.ndjson'"):format(dir)))
    assert.equal("%2E.", require("perfl.collect.hour_files").path_word "..")
    assert.equal("a%2Fb", require("perfl.collect.hour_files").path_word "a/b")
  end)

  it("reports a host whose clock is ahead, or constantly behind", function()
    local now = (deltas.AT + 10) * deltas.NS
    assert.equal("", (collect({ { host = "a", seq = 1 } }, now)))
    assert.matches("b: its clock is 5.0 s ahead of the server's", (collect({
      { host = "b", seq = 1, at = deltas.AT + 5 }, { host = "b", seq = 2, at = deltas.AT + 5 } }, now)))
    local late = {}
    for i = 1, 8 do late[i] = { host = "c", seq = i, at = deltas.AT - 5 } end
    assert.matches("c: its clock is 5.0 s behind", (collect(late, now)))
    late[8] = nil
    assert.equal("", (collect({ { host = "d", seq = 1, at = deltas.AT - 9 }, { host = "d", seq = 2 } }, now)))
  end)

  it("files a frame by the server's time if its own is out of the question", function()
    local now = (deltas.AT + 10) * deltas.NS
    local more = { begin = math.mininteger, ["end"] = math.maxinteger }
    collect({ { host = "a", seq = 1, more = more }, { host = "a", seq = 2, more = { begin = math.maxinteger } },
      { host = "a", seq = 3, at = deltas.AT - 3600 } }, now)
    assert.equal(HOUR .. " 2025-11-28T06", (run.capture(("ls -r %s/job | xargs"):format(dir))))
    assert.same({ a = { a = 6, b = 3 } }, (sums_below(dir)))
    collect { { host = "b", seq = 1, more = more } } -- without a server's time
    assert.same({ a = 1, b = 1 }, sums_below(dir).b)
  end)

  it("takes a value of another kind than the header says", function()
    local p = perfev.profile()
    p:add "main"
    local _, acked = collect { { host = "a", seq = 1, value = p, more = { kind = "count" } },
      { host = "a", seq = 2, more = { kind = "profile" } } }
    assert.equal(2, #acked)
    local rows = rows_of(("%s/job/%s/a.ndjson"):format(dir, HOUR))
    assert.same({ "main", "a" }, { rows[1].stack, rows[2].comm })
  end)

  it("refuses a directory that another collector writes", function()
    local sink = assert(hour_rows.open(dir))
    local other, why = hour_rows.open(dir)
    assert.is_nil(other)
    assert.matches("another perfl collect writes there", why)
    sink:close()
  end)

  it("acknowledges nothing if the rows cannot be written", function()
    local sink = assert(hour_rows.open(dir))
    local source = source_of { { host = "w", seq = 1 }, { host = "v", seq = 1 } }
    assert(os.execute(("mkdir -p %s/job/%s/v.ndjson"):format(dir, HOUR)))
    local ok, why = follow.new(source, sink, { once = true }):run()
    assert.is_nil(ok)
    assert.matches("v.ndjson", why)
    assert.same({}, source.acked)
    sink:close()
    run.remove(("%s/job/%s/v.ndjson"):format(dir, HOUR))
    collect { { host = "w", seq = 1 }, { host = "v", seq = 1 } }
    assert.same({ w = { a = 1, b = 1 }, v = { a = 1, b = 1 } }, (sums_below(dir)))
  end)
end)

describe("the command line of perfl collect", function()
  it("is refused with the reason and a remedy", function()
    for words, message in pairs {
      [""] = "^perfl: %-%-to is missing\n  try: perfl collect %-%-to DIR\n$",
      ["--to x --job a.b"] = "%-%-job 'a.b': a job's name has letters, digits, '%-' and '_'",
      ["--to x --from yesterday"] = "%-%-from 'yesterday': a time expected\n  try: %-%-from 2h",
      ["--to x --spool y"] = "%-%-spool is for a store\n  try: %-%-to pprof:URL",
      ["--to x -s ,"] = "%-s: no server\n  try: %-s nats://127.0.0.1:4222",
      ["--to pprof:localhost"] = "a URL of http or https without %? and # expected\n  try: %-%-to pprof:http",
      ["--to otlp:http://u:p@h"] = "a password on the command line is visible to all users\n  try: %-%-header%-file",
      ["--to pprof:http://h --spool-size many"] = "size 'many': expected a number",
      ["--to pprof:http://h --header-file /none"] = "%-%-header%-file: /none: No such file",
      ["--too x"] = "unknown option '%-%-too'",
    } do
      local r = run(run.quote(run.perfl) .. " collect " .. words)
      assert.equal(2, r.code, words)
      assert.equal("", r.out)
      assert.matches(message, r.err)
    end
  end)

  it("reads times in UTC", function()
    local utc_time = require "perfl.collect.utc_time"
    for text, expected in pairs { ["1970-01-01"] = 0, ["2000-02-29T12:00"] = 951825600,
      ["2026-11-28T07:00:05Z"] = 1795849205, ["2100-03-01 00:00"] = 4107542400, ["90s"] = 910 } do
      assert.equal(expected * 1000000000, (utc_time.parse(text, 1000 * 1000000000)))
    end
    for _, text in ipairs { "2026-13-01", "2026-01-32", "2026-01-01T25:00", "2026-01-01T1", "x", "1969-01-01" } do
      assert.is_nil((utc_time.parse(text, 0)))
    end
  end)
end)

describe("perfl collect", function()
  local server, why_not, out, dir
  local it = require "spec.support.skip"(it, function()
    if not server then pending(why_not) end
  end)
  setup(function()
    server, why_not = nats_server.start()
    if server then out = deltas.publisher(server.url) end
    dir = run.tempdir()
  end)
  teardown(function()
    if out then out:close() end
    if server then server:stop() end
    run.remove(dir)
  end)

  -- Frames that end now.
  local function send(opt, id)
    opt.at = os.time() - 9
    out:send(opt, id)
  end

  local function collect(...)
    return run({ run.perfl, "collect", "-s", server.url, ... }, { timeout = 60 })
  end

  it("writes the stream once, and continues behind it", function()
    local to = dir .. "/a"
    for seq = 1, 40 do
      for host = 1, 5 do send { host = "web" .. host, seq = seq, job = "a" } end
    end
    out:settle()
    local r = collect("--to", to, "--job", "a", "--once")
    assert.equal(0, r.code, r.err)
    assert.equal("perfl: collect: 200 frames of 5 hosts; 400 rows of 200 frames written\n", r.err)
    send { host = "web1", seq = 40, job = "a" } -- the server drops it
    send({ host = "web1", seq = 40, job = "a" }, "another id")
    send { host = "web1", seq = 41, job = "a" }
    out:settle()
    assert.equal(1, out.duplicates)
    r = collect("--to", to, "--job", "a", "--once")
    assert.equal("perfl: collect: 1 frames of 1 host; 2 rows of 1 frames written; 1 duplicates dropped\n", r.err)
    local sums = sums_below(to, "a")
    assert.same({ a = 820 + 41, b = 41 }, sums.web1)
    assert.same({ a = 820, b = 40 }, sums.web5)
  end)

  it("begins at --from", function()
    send { host = "w", seq = 1, job = "f" }
    out:settle()
    local r = collect("--to", dir .. "/f", "--job", "f", "--from", "2099-01-01", "--once")
    assert.equal(0, r.code, r.err)
    assert.matches("^perfl: collect: 0 frames", r.err)
    assert.matches("collect: 1 frames", collect("--to", dir .. "/f", "--job", "f", "--from", "1h", "--once").err)
    -- An hour ago is another moment now, and the server keeps the first one.
    assert.equal(0, collect("--to", dir .. "/f", "--job", "f", "--from", "1h", "--once").code)
  end)

  it("loses and doubles nothing when it is killed again and again", function()
    local to = dir .. "/k"
    for seq = 1, 300 do
      for host = 1, 4 do send { host = "h" .. host, seq = seq, job = "k" } end
    end
    out:settle()
    for _, seconds in ipairs { 0.05, 0.1, 0.12, 0.15, 0.2, 0.3 } do
      os.execute(("timeout -s KILL %s %s collect -q -s %s --to %s --job k --once 2>/dev/null"):format(seconds,
        run.quote(run.perfl), server.url, to))
    end
    -- What was handed out to a killed one comes again when it was not acknowledged in time: another consumer reads all.
    local r = collect("--to", to, "--job", "k", "--from", "2h", "--once")
    assert.equal(0, r.code, r.err)
    local sums, nr = sums_below(to, "k")
    assert.equal(2400, nr)
    for host = 1, 4 do assert.same({ a = 45150, b = 300 }, sums["h" .. host]) end
  end)

  it("reports what was purged before it was read", function()
    local to = dir .. "/p"
    send { host = "w", seq = 1, job = "p" }
    out:settle()
    assert.matches("collect: 1 frames", collect("--to", to, "--job", "p", "--once").err)
    for seq = 2, 9 do send { host = "w", seq = seq, job = "p" } end
    out:settle()
    assert(out.connection:stream_purge("perfev-agg", "perfev.agg.p.w.calls"))
    send { host = "w", seq = 10, job = "p" }
    out:settle()
    local r = collect("--to", to, "--job", "p", "--once")
    assert.matches("w %(calls%): frames 2 to 9 are missing", r.err)
    assert.matches("8 frames missing", r.err)
  end)

  it("ends in order on SIGTERM", function()
    local r = run(("%s collect -s %s --to %s/t --job none & pid=$!; sleep 0.5; kill $pid; wait $pid"):format(
      run.quote(run.perfl), server.url, dir))
    assert.equal(0, r.code, r.err)
    assert.matches("^perfl: collect: 0 frames of 0 hosts", r.err)
  end)

  it("says what is missing if there is no stream", function()
    local other <close> = setmetatable({ server = assert(nats_server.start()) }, { __close = function(self)
      self.server:stop()
    end })
    local r = run { run.perfl, "collect", "-s", other.server.url, "--to", dir .. "/m", "--once" }
    assert.equal(1, r.code)
    assert.matches("perfev%-agg: .*not found%)\n  try: perfl agent %-%-make%-streams", r.err)
  end)

  it("says which server it cannot reach", function()
    local r = run { run.perfl, "collect", "-s", "nats://127.0.0.1:1", "--to", dir .. "/n" }
    assert.equal(1, r.code)
    assert.matches("nats://127.0.0.1:1", r.err)
  end)
end)

describe("perfl collect with certificates", function()
  local server, why_not, dir
  local it = require "spec.support.skip"(it, function()
    if not server then pending(why_not) end
  end)
  setup(function()
    if not run.have "openssl" then
      why_not = "openssl is not installed"
      return
    end
    dir = run.tempdir()
    assert(os.execute(("sh doc/fleet/make-ca.sh %s/ca web1 >/dev/null 2>&1"):format(dir)))
    server, why_not = nats_server.start { config = run.capture(("sh doc/fleet/make-conf.sh %s/ca web1"):format(dir)) }
  end)
  teardown(function()
    if server then server:stop() end
    if dir then run.remove(dir) end
  end)

  local function connect(name)
    return assert(require("perfev.nats").connect { url = server.url, tls_ca = dir .. "/ca/ca.pem",
      tls_cert = ("%s/ca/%s.pem"):format(dir, name), tls_key = ("%s/ca/%s.key"):format(dir, name) })
  end

  local function collect(ca, name)
    return run({ run.perfl, "collect", "-s", server.url, "--to", dir .. "/rows", "--once", "--ca", ca, "--cert",
      ("%s/ca/%s.pem"):format(dir, name), "--key", ("%s/ca/%s.key"):format(dir, name) }, { timeout = 60 })
  end

  it("reads the stream as the user that may, and as no other", function()
    local admin <close> = connect "collect"
    local web1 <close> = connect "web1"
    assert(admin:stream_add(require("perfl.fleet.protocol").streams[1]))
    local opt = { host = "web1", seq = 1, at = os.time() - 9 }
    assert(web1:js_publish(deltas.subject(opt), deltas.frames(opt)[1], "one"))
    for _ = 1, 500 do
      if web1:acks()[1] then break end
      os.execute "sleep 0.01"
    end
    local r = collect(dir .. "/ca/ca.pem", "web1")
    assert.equal(1, r.code)
    assert.matches("Permissions Violation", r.err)
    r = collect(dir .. "/ca/web1.pem", "collect")
    assert.equal(1, r.code)
    assert.matches("cannot connect to .*certificate", r.err)
    assert.same({}, (sums_below(dir .. "/rows")))
    r = collect(dir .. "/ca/ca.pem", "collect")
    assert.equal(0, r.code, r.err)
    assert.same({ web1 = { a = 1, b = 1 } }, (sums_below(dir .. "/rows")))
  end)
end)
