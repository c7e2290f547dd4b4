-- The page of perfl explore in a headless browser: any selection shows what perfl prints for the same --from and --to.

local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local MODULES = "build/node/node_modules"
local IS_LONG = os.getenv "PROOFS" == "long"
local SELECTIONS = IS_LONG and 50 or 8

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- ---- recordings ----

local START = 1234567890123 -- ns
local KERNEL = -128
local BASE = 0xffffffff81000000
local HOSTILE = { "</script><script>window.hacked=1</script>", "<img/src=x/onerror=window.hacked=1>", "__proto__",
  "a;b", "$&$DATA", "constructor", "plain", "\u{e9}t\u{e9}" }

-- Returns a generator of numbers below n, the same for each run.
local function generator(seed)
  return function(n)
    seed = (seed * 6364136223846793005 + 1442695040888963407) & math.maxinteger
    return (seed >> 20) % n
  end
end

-- Writes a recording with known samples: two events, three CPUs, tasks and functions with hostile names.
local function write_recording(nr)
  local types = { "identifier", "ip", "tid", "time", "cpu", "period", "callchain" }
  local attrs = {
    { type = 1, config = 0, sample_freq = 99, freq = true, sample_type = types, sample_id_all = true,
      context_switch = true },
    { type = 1, config = 2, sample_period = 1, sample_type = types, sample_id_all = true },
  }
  local built = perfdata.new { events = { { attr = attrs[1], ids = { 1 }, name = "cpu-clock" },
    { attr = attrs[2], ids = { 2 }, name = "page-faults" } } }
  local random, names = generator(42), { "app", "<b>bold</b>", "it's $x", "</script>" }
  local function id(time, tid) return { pid = tid, tid = tid, time = time, cpu = 0, identifier = 1 } end
  for i, name in ipairs(names) do
    built:add { type = "comm", pid = 100 + i, tid = 100 + i, comm = name, sample_id = id(START - 1000, 100 + i) }
  end
  local symbols = {}
  for i, name in ipairs(HOSTILE) do symbols[i] = ("%x T %s\n"):format(BASE + i * 0x1000, name) end
  symbols[#symbols + 1] = ("%x T end\n"):format(BASE + 0x100000)
  -- Samples differ by their time, the fifth word.
  local pool = {}
  for i = 1, 997 do
    local chain, event = { KERNEL }, i % 5 == 0 and 2 or 1
    for k = 2, 2 + random(6) do chain[k] = BASE + (1 + random(#HOSTILE)) * 0x1000 + random(8) end
    pool[i] = built.encode { type = "sample", identifier = event, pid = 101 + i % 4, tid = 101 + i % 4, time = 0,
      cpu = random(3), period = event == 1 and 10000000 + random(7) or 1, ip = chain[2], callchain = chain }
  end
  local time = START
  for i = 1, nr do
    local sample = pool[1 + random(#pool)]
    built:add(sample:sub(1, 32) .. built:pack("i8", time) .. sample:sub(41))
    -- some at the same time, others a second later
    time = time + (random(10) == 0 and 0 or random(100) == 0 and 1000000000 or random(20000000))
    if i % 500 == 0 then built:round() end
  end
  built:round()
  run.write_file(dir .. "/kallsyms", table.concat(symbols))
  run.write_file(dir .. "/made.data", built:file { [12] = built:event_desc() })
  return dir .. "/made.data"
end

-- Records a command with waits on the real kernel: samples, and switches with their stacks.
local function record()
  local r = run { run.perfl, "-q", "explore", "--off-cpu", "-F", "1999", "--record", dir .. "/real.data", "-o",
    dir .. "/live.html", "--", "sh", "-c", "for i in 1 2 3; do find /usr/share/doc | sort > /dev/null; done" }
  assert.same({ 0, "" }, { r.code, r.err })
  return dir .. "/real.data"
end

local function explore(path, ...)
  local page = path .. ".html"
  local r = run { run.perfl, "-q", "explore", "-i", path, "--kallsyms", dir .. "/kallsyms", "-o", page, ... }
  assert.same({ 0, "" }, { r.code, run.without_progress(r.err) })
  return page
end

-- ---- the browser ----

local function browsed(actions, timeout)
  requires("program chromium", "program node")
  if not io.open(MODULES .. "/puppeteer-core/package.json") then
    pending("puppeteer-core is not installed (npm and make deps install it)")
  end
  local r = run({ "node", "spec/support/page_browser.mjs", MODULES, "[]" },
    { stdin = actions, timeout = timeout or 150 })
  local report = json.decode(r.out)
  assert.is_truthy(report, r.out .. r.err)
  assert.is_nil(report.failed)
  assert.same({}, report.errors)
  return report
end

-- Functions for the actions. look(url): opens a page. choose(n): makes the n-th selection, by another means each time.
local actions = [=[
  let seed = 7;
  const random = n => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return Math.floor(seed / 4294967296 * n);
  };
  const look = async url => {
    await page.goto("about:blank");
    await open(url);
    await until(() => document.body.dataset.shown);
  };
  const drag = async (chart, area) => {
    await page.$eval("#" + chart + " canvas", e => e.scrollIntoView({ block: "center" }));
    const box = await (await page.$("#" + chart + " canvas")).boundingBox();
    const [x0, y0, x1, y1] = area || [0, 0, 1, 1].map(() => random(1000) / 1000);
    const place = (x, y) => [box.x + 116 + x * (box.width - 126), box.y + 5 + y * (box.height - 26)];
    await page.mouse.move(...place(x0, y0));
    await page.mouse.down();
    await page.mouse.move(...place(x1, y1), { steps: 2 });
    await page.mouse.up();
  };
  const told = () => page.evaluate(() => ({ folded: explored.folded(), tables: explored.tables(),
    commands: [...document.querySelectorAll("#commands code")].map(e => e.textContent), hash: location.hash,
    shown: document.querySelector("#shown").textContent, total: document.querySelector("#total").textContent }));
  // One of the events, or all; each command prints the stacks of one.
  const pickEvent = nr => page.evaluate(nr => {
    [...document.querySelectorAll("#events input")].forEach((e, i) => { if (e.checked !== (i === nr)) e.click(); });
  }, nr);
  const bounds = () => page.evaluate(() => document.body.dataset.shown.split(" "));
  const choose = async (n, whole) => {
    await page.select("#lanes select", n % 2 ? "task" : "cpu");
    const way = ["heat", "lanes", "curve", "hash"][n % 4];
    if (way !== "hash") return drag(way);
    const ns = text => BigInt(text.replace(".", "")), span = ns(whole[1]) - ns(whole[0]);
    const at = () => ns(whole[0]) + span * BigInt(random(1000000)) / 1000000n;
    const text = t => String(t).padStart(10, "0").replace(/(\d{9})$/, ".$1");
    const [from, to] = [at(), at()].sort((a, b) => a < b ? -1 : 1);
    const [event] = await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).getAll("event"));
    await page.evaluate(hash => { location.hash = hash; },
      new URLSearchParams({ from: text(from), to: text(to), ...event ? { event } : {} }).toString());
    await until(words => document.body.dataset.shown === words, text(from) + " " + text(to));
  };
]=]

-- ---- what perfl prints ----

-- Runs a command that the page shows, with more words.
local function printed(command, ...)
  local words = { run.perfl, "-q" }
  for word in command:gmatch "%S+" do words[#words + 1] = word end
  table.remove(words, 3) -- perfl
  table.move({ ... }, 1, select("#", ...), #words + 1, words)
  local r = run(words)
  assert.same({ 0, "" }, { r.code, run.without_progress(r.err) }, command)
  return r.out
end

local count_script = [[
local perfev = require "perfev"
local counts = {}
local function count(...)
  local key = table.concat({ ... }, " ")
  counts[key] = (counts[key] or 0) + 1
end
perfev.event { EVENT, where = { "tid", "!=", 0 }, sample = function(r)
  count("cpu", r.cpu)
  count("task", r.comm, r.pid, r.tid)
  count("comm", r.comm)
end }
perfev.done(function()
  for key, nr in pairs(counts) do print(nr, key) end
end)
]]

-- Returns the counts of the tables as the script prints them.
local function table_lines(tables)
  local lines = {}
  for name, width in pairs { cpus = 1, tasks = 3, comms = 1 } do
    local word = ({ cpus = "cpu", tasks = "task", comms = "comm" })[name]
    for _, row in ipairs(tables[name]) do
      lines[#lines + 1] = ("%d\t%s %s"):format(row[width + 1], word, table.concat(row, " ", 1, width))
    end
  end
  table.sort(lines)
  return lines
end

local function sorted_lines(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  table.sort(lines)
  return lines
end

-- Returns the own and the total samples of each function that folded stacks have, as "name own total".
local function function_lines(folded)
  local own, total, lines = {}, {}, {}
  for stack, nr in folded:gmatch "([^\n]+) (%d+)\n" do
    local seen, last = {}, nil
    for name in stack:gmatch "[^;]+" do
      last = name:gsub("_%[[ki]%]$", "")
      if not seen[last] then total[last] = (total[last] or 0) + nr end
      seen[last] = true
    end
    own[last] = (own[last] or 0) + nr
  end
  for name, nr in pairs(total) do lines[#lines + 1] = ("%s %d %d"):format(name, own[name] or 0, nr) end
  table.sort(lines)
  return lines
end

local function check_tables(one)
  local event = one.commands[1]:match "%-e (%S+)"
  local script = run.write_file(dir .. "/count.lua", (count_script:gsub("EVENT", ("%q"):format(event))))
  assert.same(sorted_lines(printed(("perfl %s %s"):format(script, one.commands[1]:match "(%-i .*) %-e"))),
    table_lines(one.tables))
  local lines = {}
  for i, row in ipairs(one.tables.functions) do
    lines[i] = ("%s %d %d"):format(row[1]:gsub(" %[kernel%]$", ""):gsub(";", ":"), row[2], row[3])
  end
  table.sort(lines)
  assert.same(function_lines(one.folded), lines)
end

describe("the page of perfl explore", function()
  it(("shows %d selections as perfl prints them with --from and --to"):format(SELECTIONS), function()
    requires("root")
    local made = explore(write_recording(2000))
    local real = explore(record(), "--off-cpu")
    local report = browsed(actions .. ([=[
      for (const [name, url] of [["made", %q], ["real", %q]]) {
        await look("file://" + url);
        const whole = await bounds(), nr = (await page.$$("#events input")).length;
        report[name] = [];
        for (let n = 0; n < %d; n++) {
          await pickEvent(n %% nr);
          await choose(n, whole);
          report[name].push(await told());
        }
      }
]=]):format(made, real, SELECTIONS // 2), 1500)
    for _, name in ipairs { "made", "real" } do
      local filled, parts = 0, {}
      for _, one in ipairs(report[name]) do
        assert.equal(1, #one.commands)
        local command = one.commands[1]
        assert.equal(printed(command, "-f", "folded", "--kallsyms", dir .. "/kallsyms"), one.folded, command)
        if name == "made" then check_tables(one) end
        filled = filled + (one.folded ~= "" and 1 or 0)
        parts[one.folded] = true
      end
      local nr = 0
      for _ in pairs(parts) do nr = nr + 1 end
      assert.is_true(filled * 2 >= #report[name] and nr * 2 >= #report[name], "they have samples, and differ")
    end
  end)

  it("includes both ends of a range, to the nanosecond, and zooms, resets and follows a link", function()
    local page = explore(write_recording(40))
    local times = {}
    local r = run { run.perfl, "-q", "-i", dir .. "/made.data", "-e",
      'event { "*", sample = function(r) print(r.time) end }' }
    for time in r.out:gmatch "%d+" do times[#times + 1] = math.tointeger(time) end
    assert.equal(40, #times)
    local function seconds(ns) return ("%d.%09d"):format(ns // 1000000000, ns % 1000000000) end
    local function within(from, to)
      local nr = 0
      for _, time in ipairs(times) do nr = nr + (time >= from and time <= to and 1 or 0) end
      return nr
    end
    local a, b = times[10], times[31]
    local links, wanted = {}, {}
    local ranges = { { a, b }, { a + 1, b }, { a, b - 1 }, { a, a }, { a + 1, a + 1 }, { times[1], times[40] } }
    for i, ends in ipairs(ranges) do
      links[i] = ("#from=%s&to=%s"):format(seconds(ends[1]), seconds(ends[2]))
      wanted[i] = within(ends[1], ends[2])
    end
    assert.is_true(wanted[1] > wanted[2] and wanted[1] > wanted[3])
    local link_list = '["' .. table.concat(links, '","') .. '"]'
    local report = browsed(actions .. ([=[
      const url = "file://%s", nr = async () => Number((await text("#shown")).match(/(\d+) of/)[1]);
      report.counts = [];
      for (const link of %s) {
        await look(url + link);
        report.counts.push(await nr());
      }
      // Other words are not times.
      await look(url + "#from=" + "%s" + "&to=x");
      report.bad = await nr();
      // By the fields, then a link, then back to all.
      await page.$eval("#from", (e, t) => { e.value = t; }, "%s");
      await page.$eval("#to", (e, t) => { e.value = t; }, "%s");
      await page.focus("#to");
      await page.keyboard.press("Enter");
      report.typed = [await nr(), await page.evaluate(() => location.hash)];
      await page.click("#zoom");
      report.zoomed = await page.$eval("#whole", e => !e.disabled);
      await page.focus("#curve canvas");
      await page.keyboard.press("Home");
      await page.keyboard.down("Shift");
      await page.keyboard.press("End");
      await page.keyboard.up("Shift");
      report.keys = await nr();
      await page.keyboard.press("x");
      report.whole = await page.$eval("#whole", e => e.disabled);
      await page.keyboard.press("Escape");
      report.all = [await nr(), await page.evaluate(() => location.hash)];
      // A row of a table: only that task.
      await page.click("#tabs button:nth-child(3)");
      await page.click("#table-tasks tbody tr");
      const task = await told();
      const [row] = task.tables.tasks;
      report.task = [await nr(), row[3], task.commands[0].includes(" -t " + row[2])];
      await page.click("#filters button");
      report.again = await nr();
]=]):format(page, link_list, seconds(a), seconds(a), seconds(b)))
    assert.same(wanted, report.counts)
    assert.equal(40, report.bad)
    assert.same({ wanted[1], links[1] }, report.typed)
    assert.is_true(report.zoomed and report.whole)
    assert.equal(wanted[1], report.keys)
    assert.same({ 40, "" }, report.all)
    assert.equal(report.task[1], report.task[2])
    assert.is_true(report.task[3] and report.task[1] < 40)
    assert.equal(40, report.again)
  end)

  it("does nothing that a name says, and asks no network", function()
    local page = explore(write_recording(300), "--title", "</title><script>window.hacked=1</script>")
    local report = browsed(actions .. ([=[
      await look("file://%s");
      report.hacked = await page.evaluate(() => window.hacked || 0);
      report.found = await page.$$eval("main img, main b, main script", list => list.length);
      report.scripts = await page.evaluate(() => document.scripts.length);
      report.title = await page.title();
      report.names = (await texts("#table-functions .key"));
      for (const n of [1, 2, 3, 4, 5, 6]) await page.click("#tabs button:nth-child(" + n + ")");
      report.comms = await texts("#table-comms .key");
      for (const width of [1280, 600, 320]) {
        await page.setViewport({ width, height: 800 });
        await page.evaluate(() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0))));
        report["wide" + width] = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
      }
      report.asked = report.requests.filter(url => !url.startsWith("file:") && !url.startsWith("data:") &&
        !url.startsWith("about:"));
]=]):format(page))
    assert.same({ 0, 0, 2, "</title><script>window.hacked=1</script>" },
      { report.hacked, report.found, report.scripts, report.title })
    local shown = {}
    for _, list in ipairs { report.names, report.comms } do
      for _, name in ipairs(list) do shown[name:gsub(" %[kernel%]$", "")] = true end
    end
    for _, name in ipairs(HOSTILE) do assert.is_true(shown[name], name) end
    for _, name in ipairs { "<b>bold</b>", "it's $x", "</script>" } do assert.is_true(shown[name], name) end
    assert.same({ true, true, true }, { report.wide1280, report.wide600, report.wide320 })
    assert.same({}, report.asked)
  end)

  it("shows all waits at first, also one that began before the first sample, and that a run has no samples", function()
    local made = write_recording(0)
    local r = run { run.perfl, "-q", "explore", "-i", made, "-o", made .. ".html" }
    assert.same({ 0, "explore: no samples: the page is empty\n" }, { r.code, run.without_progress(r.err) })
    requires("root")
    local waits = dir .. "/waits.html"
    r = run { run.perfl, "-q", "explore", "--off-cpu", "-F", "99", "-o", waits, "--", "sh", "-c", "sleep 0.01; true" }
    assert.same({ 0, "" }, { r.code, r.err })
    local report = browsed(actions .. ([=[
      await look("file://%s");
      report.empty = [await page.$eval("main", e => e.checkVisibility()), await text("#notes"), await text("#facts")];
      await look("file://%s");
      report.waits = (await text("#shown")).match(/(\d+) of (\d+) samples/).slice(1);
]=]):format(made .. ".html", waits))
    assert.same({ false, "no samples: the page is empty", "0 samples" }, report.empty)
    assert.equal(report.waits[1], report.waits[2])
    assert.is_true(tonumber(report.waits[1]) > 0)
  end)

  it("says how many samples it leaves out, on the page and on standard error", function()
    local path = write_recording(100)
    local r = run { run.perfl, "-q", "explore", "-i", path, "--max-samples", "60",
      "--kallsyms", dir .. "/kallsyms", "-o", path .. ".html" }
    assert.equal(0, r.code)
    local remark = r.err:match "^explore: (40 samples from %d+%.%d+ s on are left out: [^\n]+)\n$"
    assert.is_truthy(remark, r.err)
    local text = run.slurp(path .. ".html")
    assert.is_truthy(text:find(remark, 1, true))
    assert.is_truthy(text:find('"samples":60', 1, true))
  end)

  it("holds a million samples, and a selection of them is exact", function()
    if not IS_LONG then return pending "a long form: PROOFS=long (make proofs)" end
    local page = explore(write_recording(1000000))
    local report = browsed(actions .. ([=[
      page.setDefaultTimeout(120000);
      const began = Date.now();
      await look("file://%s");
      report.open_ms = Date.now() - began;
      await pickEvent(0);
      await drag("heat", [0.3, 0.2, 0.31, 0.7]);
      report.one = await told();
]=]):format(page), 600)
    assert.equal(printed(report.one.commands[1], "-f", "folded", "--kallsyms", dir .. "/kallsyms"), report.one.folded)
    assert.is_truthy(report.one.folded:find "\n")
    print(("a page of 10^6 samples: %.1f MB, open after %d ms"):format(#run.slurp(page) / 1e6, report.open_ms))
  end)
end)
