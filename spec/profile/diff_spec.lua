-- diff: compares two profiles: folded stacks, packed aggregators, recordings.

local elf = require "spec.support.elf"
local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

local dir

local function diff(...)
  return run({ run.perfl, "-q", "diff", ... }, { cwd = dir })
end

local function lines(...) return table.concat({ ... }, "\n") .. "\n" end

describe("perfl diff", function()
  setup(function()
    dir = run.tempdir()
    for name, text in pairs { before = "main;hot 100\nmain;gone 100\n", after = "main;hot 3\nmain;cold_[k] 1\n",
      bad = "main;hot 1\nno count\n" } do
      run.write_file(dir .. "/" .. name, text)
    end
  end)
  teardown(function() run.remove(dir) end)

  it("prints each function's share and its change, own and with callees", function()
    local r = diff("before", "after")
    assert.same({ 0, "" }, { r.code, r.err })
    assert.equal(lines(
      "samples     own  before  change   total  change  function",
      "      0    0.0%   50.0%   -50.0    0.0%   -50.0  gone",
      "      3   75.0%   50.0%   +25.0   75.0%   +25.0  hot",
      "      1   25.0%    0.0%   +25.0   25.0%   +25.0  cold [kernel]",
      "      0    0.0%    0.0%     0.0  100.0%     0.0  main",
      "      4  100.0%  100.0%     0.0                  all"), r.out)
    assert.matches("\n +4 +100%.0%% +50%.0%% +%+50%.0 +%(3 others%)\n", diff("before", "after", "--top", "1").out)
  end)

  it("compares the values with --absolute", function()
    assert.equal(lines(
      "samples  before  change  total  change  function",
      "      0     100    -100      0    -100  gone",
      "      3     100     -97      3     -97  hot",
      "      1       0      +1      1      +1  cold [kernel]",
      "      0       0       0      4    -196  main",
      "      4     200    -196                 all"), diff("before", "after", "--absolute").out)
    assert.equal(lines(
      "samples     before     change  function",
      "      4        200       -196  - main",
      "      3        100        -97    - hot",
      "      0        100       -100    - gone",
      "      1          0         +1    - cold [kernel]",
      "      4        200       -196  all"), diff("before", "after", "--absolute", "-f", "tree").out)
    -- hot grows in share and shrinks in value
    local hot = 'hot %(3 samples, 75%.0%%%); baseline 100, 50%.0%%</title><rect [^>]*fill="hsl%('
    assert.matches(hot .. "6,", diff("before", "after", "-f", "svg").out)
    assert.matches(hot .. "214,", diff("before", "after", "-f", "svg", "--absolute").out)
    assert.matches('"absolute":true', diff("before", "after", "-f", "html", "--absolute").out, 1, true)
  end)

  it("draws the later profile and its differences from the earlier one", function()
    local data = json.decode(diff("before", "after", "-f", "html").out
      :match '<script type="application/json" id="profile">(.-)</script>')
    assert.equal("after, since before", data.title)
    local rows = {}
    for n, func in ipairs(data.func) do rows[data.functions[func][1]] = { data.own[1][n], data.base[1][n] } end
    assert.same({ main = { 0, 0 }, hot = { 3, 100 }, cold = { 1, 0 }, gone = { 0, 100 } }, rows)
    assert.matches("\n +1 +25%.0%% +0%.0%% +%+25.0 +%- cold %[kernel%]\n", diff("-f", "tree", "before", "after").out)
  end)

  it("writes both numbers as folded stacks, and exact values as JSON", function()
    assert.equal("main;cold_[k] 0 1\nmain;gone 100 0\nmain;hot 100 3\n", diff("before", "after", "-f", "folded").out)
    local all = json.decode(diff("before", "after", "-f", "json").out)
    assert.same({ 4, 200, "samples" }, { all.total, all.baseline_total, all.value })
    assert.same({ name = "hot", kind = "user", own = 3, total = 3, own_share = 0.75, total_share = 0.75,
      baseline = { own = 100, total = 100, own_share = 0.5, total_share = 0.5 } }, all.functions[2])
  end)

  it("shows a single file", function()
    local svg = diff("before", "-f", "svg", "--title", "one <file>", "--unit", "ns").out
    assert.truthy(svg:find(">one &lt;file&gt;<", 1, true))
    assert.truthy(svg:find(">all (200 ns time)<", 1, true))
  end)

  it("reads packed aggregators", function()
    local calls = perfev.count { by = { "comm", "stack" } }
    calls:add(1, "main", "hot")
    calls:add(1, "main", "gone")
    run.write_file(dir .. "/pack", calls:pack())
    assert.matches("\n +3 +75%.0%% +50%.0%% +%+25.0 +75%.0%% +%+25.0  hot\n", diff("pack", "after").out)
    run.write_file(dir .. "/sizes", perfev.sum { value = "period", by = "comm", unit = "bytes" }:pack())
    assert.same({ 1, "diff: sizes has size, after has samples\n" }, { diff("sizes", "after").code,
      diff("sizes", "after").err })
    run.write_file(dir .. "/hist", perfev.hist { by = "comm" }:pack())
    assert.equal("diff: hist: the pack is a perfev.hist: its values cannot be added to those of callers\n"
      .. "  try: the pack of a perfev.count or perfev.sum\n", diff("hist", "after").err)
  end)

  it("reads packed profiles, with the value of the same name", function()
    local p = perfev.profile { values = { { "time", unit = "ns" }, "samples" } }
    p:add("main;hot", 5000, 1)
    p:add("main;gone", 1000, 1)
    run.write_file(dir .. "/profile-pack", p:pack())
    assert.matches("\n5.00 us +83%.3%% +5.00 us +83%.3%%  hot\n", diff("profile-pack").out)
    assert.same({ 1, "diff: profile-pack has time, after has samples\n" }, { diff("profile-pack", "after").code,
      diff("profile-pack", "after").err })
  end)

  it("names the file and the line that cannot be read", function()
    local r = diff("before", "bad")
    assert.same({ 1, "" }, { r.code, r.out })
    assert.matches("^diff: bad: folded stacks: line 2 does not end with a count: 'no count'\n", r.err)
    r = diff("nowhere")
    assert.same({ 1, "diff: nowhere: No such file or directory\n" }, { r.code, r.err })
    assert.equal("diff: perf.data.old: No such file or directory\n", diff().err)
    assert.same({ 1, "diff: .: Is a directory\n" }, { diff(".").code, diff(".").err })
    assert.equal(2, diff("before", "after", "-f", "png").code)
    r = diff("before", "--differ-by", "binary")
    assert.same({ 1, "diff: before: its stacks do not name programs\n"
      .. "  try: a recording, or comm: the first frame of each stack\n" }, { r.code, r.err })
  end)
end)

describe("perfl diff of recordings", function()
  local HERE = 0x400000 -- where the program is mapped

  -- Writes a program, in a folder of its own, whose functions are at these addresses, and a recording of it with as
  -- many samples of each: { { name, address, samples }, … }, all called by `main`.
  local function record(name, base, functions)
    os.execute(("mkdir %s/%s"):format(dir, name))
    local path, symbols = ("%s/%s/app"):format(dir, name), { { "main", 0x1000, 0x100 } }
    for i, one in ipairs(functions) do symbols[i + 1] = { one[1], one[2], 0x100 } end
    run.write_file(path, elf.file { functions = symbols })
    local built = perfdata.new { events = { { attr = { type = 1, config = 0, sample_period = 1, sample_id_all = true,
      sample_type = { "identifier", "ip", "tid", "time", "callchain" } }, ids = { 1 }, name = "cpu-clock" } } }
    local function trailer(time) return { pid = 7, tid = 7, time = time, identifier = 1 } end
    built:add { type = "comm", pid = 7, tid = 7, comm = name, sample_id = trailer(1) }
    built:add { type = "mmap", pid = 7, tid = 7, addr = base, len = 0x10000, pgoff = 0x1000, filename = path,
      sample_id = trailer(2) }
    local time = 10
    local function address_of(symbol) return base + symbol - 0x1000 + 0x10 end
    for _, one in ipairs(functions) do
      for _ = 1, one[3] do
        time = time + 1
        local ip = address_of(one[2])
        built:add { type = "sample", identifier = 1, pid = 7, tid = 7, time = time, ip = ip,
          callchain = { -512, ip, address_of(0x1000) } }
      end
    end
    built:round()
    run.write_file(("%s/%s.data"):format(dir, name), built:file())
  end

  setup(function()
    dir = run.tempdir()
    record("old", HERE, { { "hot", 0x2000, 6 }, { "gone", 0x3000, 2 } })
    record("new", HERE << 8, { { "hot", 0x5000, 2 }, { "cold", 0x6000, 2 } })
  end)
  teardown(function() run.remove(dir) end)

  it("has one row for a function at two addresses in files of the same name", function()
    local r = diff("old.data", "new.data")
    assert.same({ 0, "" }, { r.code, r.err })
    assert.equal(lines(
      "samples     own  before  change   total  change  function",
      "      2   50.0%    0.0%   +50.0   50.0%   +50.0  cold [app]",
      "      2   50.0%   75.0%   -25.0   50.0%   -25.0  hot [app]",
      "      0    0.0%   25.0%   -25.0    0.0%   -25.0  gone [app]",
      "      0    0.0%    0.0%     0.0  100.0%  +100.0  new",
      "      0    0.0%    0.0%     0.0    0.0%  -100.0  old",
      "      0    0.0%    0.0%     0.0  100.0%     0.0  main [app]",
      "      4  100.0%  100.0%     0.0                  all"), r.out)
  end)

  it("has the same table if one of them is folded stacks", function()
    local folded = run({ run.perfl, "-q", "-i", "old.data", "profile", "-f", "folded" }, { cwd = dir }).out
    assert.equal("old;main;gone 2\nold;main;hot 6\n", folded)
    run.write_file(dir .. "/old.folded", folded)
    assert.equal(diff("old.data", "new.data", "-f", "json").out:gsub(',"module":"[^"]*"', ""),
      (diff("old.folded", "new.data", "-f", "json").out:gsub(',"module":"[^"]*"', "")
        :gsub("since old.folded", "since old.data")))
  end)

  it("compares process names, files and programs with --differ-by", function()
    local function row(...) return ("      4  100.0%%  %s\n"):format(table.concat({ ... }, "  ")) end
    assert.matches(row("  0.0%", "+100.0", "new"), diff("old.data", "new.data", "--differ-by", "comm").out, 1, true)
    assert.matches(row("100.0%", "   0.0", "app"), diff("old.data", "new.data", "--differ-by", "dso").out, 1, true)
    assert.matches(row("100.0%", "   0.0", "app"), diff("old.data", "new.data", "--differ-by", "binary").out, 1, true)
  end)

  it("reads the samples that perfl's options select", function()
    local r = run({ run.perfl, "-q", "--comm", "old", "diff", "old.data", "new.data" }, { cwd = dir })
    assert.matches("\n +0 +0%.0%% +75%.0%% +%-75.0 +0%.0%% +%-75.0  hot %[app%]\n", r.out, nil, r.err)
  end)

  it("says what is wrong with a recording, or the command line", function()
    assert.matches("\ndiff: new%.data: none of the events is in it\n", diff("new.data", "-e", "foo").err)
    run.write_file(dir .. "/cut", run.slurp(dir .. "/new.data"):sub(1, 200))
    assert.matches("^diff: cannot open the recording cut: file cut short", diff("cut", "new.data").err)
    assert.equal(2, run({ run.perfl, "-q", "-a", "diff", "old.data", "new.data" }, { cwd = dir }).code)
  end)
end)
