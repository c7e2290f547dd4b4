-- The live page of perfl --http in a headless browser: its numbers, its controls, and what it costs.

local json = require "spec.support.json"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local MODULES = "build/node/node_modules"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function require_browser()
  requires("program chromium", "program node")
  if not io.open(MODULES .. "/puppeteer-core/package.json") then
    pending("puppeteer-core is not installed (npm and make deps install it)")
  end
end

-- Runs a script under perfl --http beside a command that waits, and the actions of spec/support/page_browser.mjs
-- -> their report. script: Lua; nil: no run
local function browsed(script, actions)
  require_browser()
  local words = json.object and {} or {}
  if script then
    local path = run.write_file(dir .. "/script.lua", 'local perfev = require "perfev"\n' .. script)
    words = { run.perfl, "-j", "--http", "0", path, "--", "sleep", "600" }
  end
  local list = {}
  for i, word in ipairs(words) do list[i] = '"' .. word:gsub('[\\"]', "\\%0") .. '"' end
  local r = run({ "node", "spec/support/page_browser.mjs", MODULES, "[" .. table.concat(list, ",") .. "]" },
    { stdin = actions, timeout = 150 })
  local report = json.decode(r.out)
  assert.is_truthy(report, r.out .. r.err)
  assert.is_nil(report.failed)
  assert.same({}, report.errors)
  return report
end

describe("the live page", function()
  it("shows the numbers that -j prints of the same run", function()
    local report = browsed([[
perfev.event { "page-faults", period = 1, sample = perfev.count { by = "comm", title = "faults" } }
local calls = perfev.count { by = { "name", "id" }, title = "calls" }
local bytes = perfev.sum { by = "name", value = "size", unit = "bytes", title = "size" }
local took = perfev.hist { by = "name", value = "took", unit = "ns", title = "latency" }
local rest = perfev.quantile { by = "name", value = "took", unit = "us", title = "quantiles" }
local low = perfev.min { by = "name", value = "took", title = "least" }
local stats = perfev.stats { by = "name", value = "took", title = "numbers" }
perfev.begin(function()
  for i = 1, 40 do
    calls:add(i * 1000, "name" .. i % 7, i)
    bytes:add(i << 50, "name" .. i % 7)
    for k = 1, 30 do
      took:add(i * k * 37, "name" .. i % 5)
      rest:add(i * k * 37, "name" .. i % 5)
      low:add(i * k, "name" .. i % 5)
      stats:add(i * k, "name" .. i % 5)
    end
  end
end)
perfev.signal("USR1", function() calls:add(5, "late", 0) end)
]], [[
      await open();
      await untilText("#part-calls", "calls");
      await until(() => document.querySelectorAll("[aria-labelledby=part-calls] .rows tbody tr").length === 40);
      perfl.signal("SIGUSR1");
      await until(() => document.querySelectorAll("[aria-labelledby=part-calls] .rows tbody tr").length === 41);
      perfl.signal("SIGUSR1"); // counted at the end, or not at all
      report.printed = (await endPerfl()).out;
      await untilText("#status", "the run has ended");
      report.tables = {};
      for (const name of ["faults", "calls", "size", "latency", "quantiles", "least", "numbers"]) {
        report.tables[name] = await rows("[aria-labelledby=part-" + name + "]");
      }
      report.bars = await page.$$eval(".bars tbody tr", list => list.map(row => row.children[2].textContent));
]])
    local printed, buckets = {}, {}
    for line in report.printed:gmatch "[^\n]+" do
      local row = json.decode(line)
      if not row.remark then
        printed[row.title] = printed[row.title] or {}
        local value, keys = row.value, (row.comm or row.name) .. " " .. (row.id or "")
        local numbers = type(value) ~= "table" and { value } or row.title == "quantiles"
          and { value.count, value.avg, value.p50, value.p90, value.p99, value.p999, value.max }
          or row.title == "latency" and { value.count, value.avg, value.min, value.max }
          or { value.count, value.sum, value.avg, value.min, value.max }
        for i, number in ipairs(numbers) do
          numbers[i] = math.type(number) == "float" and number % 1 ~= 0 and ("%.2f"):format(number)
            or ("%d"):format(number)
        end
        printed[row.title][keys] = numbers
        for _, bucket in ipairs(row.title == "latency" and value.buckets or {}) do
          buckets[bucket.low] = (buckets[bucket.low] or 0) + bucket.count
        end
      end
    end
    local shown = {}
    for title, rows in pairs(report.tables) do
      shown[title] = {}
      for _, row in ipairs(rows) do
        local nr_keys = title == "calls" and 2 or 1
        local keys = row[1] .. " " .. (nr_keys == 2 and row[2] or "")
        local width = printed[title][keys] and #printed[title][keys] or 1
        shown[title][keys] = table.move(row, nr_keys + 1, nr_keys + width, 1, {})
      end
    end
    assert.is_truthy(printed.calls["late 0"])
    assert.is_truthy(printed.faults["sleep "])
    assert.same(printed, shown)
    local lows, bars = {}, {}
    for low in pairs(buckets) do lows[#lows + 1] = low end
    table.sort(lows)
    for i, low in ipairs(lows) do bars[i] = tostring(buckets[low]) end
    for i, text in ipairs(report.bars) do report.bars[i] = text:gsub(",", "") end
    assert.same(bars, report.bars)
  end)

  it("does nothing that a name says", function()
    local report = browsed([[
local hostile = { "<img src=x onerror='window.hacked=1'>", "</script><script>window.hacked=1</script>", "__proto__",
  "constructor", "a\nb\27[31m\u{202e}\xff", "'\"&amp;", "javascript:window.hacked=1", ("long "):rep(200) }
local keys = perfev.count { by = "name", title = "<b onclick=alert(1)>title</b>" }
local times = perfev.hist { by = "name", value = "took", title = "</h2><script>window.hacked=1</script>" }
local stacks = perfev.profile { title = "<i>profile</i>" }
perfev.event { "dummy", sample = perfev.count() }
perfev.begin(function()
  for i, name in ipairs(hostile) do
    keys:add(i, name)
    times:add(i, name)
    stacks:add({ { symbol = name, module = name }, "main" }, i)
  end
end)
]], [[
      await open();
      await until(() => document.querySelectorAll("[aria-labelledby='part-b_onclick_alert_1_title_b'] .rows tbody tr")
        .length === 8);
      await until(() => document.querySelector("#total").textContent === "36 samples");
      const box = await page.$("#canvas");
      await box.hover();
      report.names = (await texts("[aria-labelledby='part-b_onclick_alert_1_title_b'] .rows .key")).sort();
      report.headings = await texts(".panel > .head h2[id^=part]");
      report.hacked = await page.evaluate(() => window.hacked || 0);
      report.found = await page.$$eval("img, b, i:not(.legend i), main script", list => list.length);
      report.scripts = await page.evaluate(() => document.scripts.length);
      report.wide = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
      await page.type("#search", "onerror");
      report.search = await text("#found");
]])
    assert.same({ 0, 0, 6, true }, { report.hacked, report.found, report.scripts, report.wide })
    assert.same({ "<b onclick=alert(1)>title</b>", "</h2><script>window.hacked=1</script>" },
      { report.headings[1], report.headings[2] })
    local long = ("long "):rep(200)
    assert.same({ "'\"&amp;", "</script><script>window.hacked=1</script>", "<img src=x onerror='window.hacked=1'>",
      "__proto__", "a\\nb\\x1b[31m\\xe2\\x80\\xae\\xff", "constructor", "javascript:window.hacked=1", long },
      report.names)
    assert.equal("2.78% in 1 frame", report.search)
    for _, url in ipairs(report.requests) do
      assert.is_truthy(url:find "^http://127%.0%.0%.1:%d+/" or url == "data:,")
    end
  end)

  it("sorts by any column, by mouse and by keyboard, and shows the histogram of a key", function()
    local report = browsed([[
local times = perfev.hist { by = { "name", "id" }, value = "took", unit = "ns", title = "times" }
perfev.event { "dummy", sample = perfev.count() }
perfev.begin(function()
  for i = 1, 12 do
    for k = 1, i do times:add(1000 * (13 - i), "name" .. i, 100 - i) end
  end
end)
]], [[
      await open();
      const part = "[aria-labelledby=part-times]", first = () => page.$$eval(part + " .rows tbody tr",
        list => list.map(row => row.firstElementChild.textContent).slice(0, 3).join(" "));
      await until(() => document.querySelectorAll("[aria-labelledby=part-times] .rows tbody tr").length === 12);
      report.sorted = [await first()];
      const click = async nr => {
        await page.click(part + " th:nth-child(" + nr + ") button");
        report.sorted.push(await first());
      };
      await click(3);
      await click(4);
      await click(1);
      await click(2);
      await page.focus(part + " th:nth-child(3) button");
      await page.keyboard.press("Enter");
      report.sorted.push(await first());
      report.marked = await page.$$eval(part + " th[aria-sort=descending]", list => list.map(e => e.textContent));
      const title = () => text(part + " .bars h3");
      report.titles = [await title()];
      await page.focus(part + " .rows tbody tr");
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      report.titles.push(await title());
      report.bar = (await texts(part + " .bars td")).filter(t => t).join(" ");
      await page.keyboard.press("Enter");
      report.titles.push(await title());
      await page.click(part + " .rows tbody tr:nth-child(3)");
      report.titles.push(await title());
      report.selected = await page.$$eval(part + " [aria-selected=true]", list => list.length);
]])
    assert.same({ "name12 name11 name10", "name1 name2 name3", "name1 name2 name3", "name1 name2 name3",
      "name12 name11 name10", "name12 name11 name10" }, report.sorted)
    assert.same({ "count" }, report.marked)
    assert.same({ "all keys, since start", "name name11, id 89", "all keys, since start", "name name10, id 90" },
      report.titles)
    assert.equal("1.02 µs to 2.05 µs 11 100.0%", report.bar)
    assert.equal(1, report.selected)
  end)

  it("compares with a mark, and shows the flame graph and the histogram of a selected range", function()
    local report = browsed([[
local stacks = perfev.profile { title = "work", values = { "samples" } }
local times = perfev.hist { value = "took", unit = "ns", title = "times" }
perfev.event { "dummy", sample = perfev.count() }
local function work(name, nr)
  stacks:add({ name, "main" }, nr)
  for i = 1, nr do times:add(2000) end
end
perfev.begin(function()
  work("read", 30)
  work("write", 10)
end)
perfev.signal("USR1", function() work("write", 60) end)
perfev.signal("USR2", function() work("late", 7) end)
]], [[
      await open();
      const total = words => until(w => document.querySelector("#total").textContent === w, words);
      const told = async name => {
        await page.$eval("#search", (e, n) => { e.value = n; e.dispatchEvent(new Event("input")); }, name);
        return await text("#found");
      };
      const pickRange = value => page.click("[name=range][value=" + value + "]");
      await total("40 samples");
      report.share = await told("read");
      await key("m");
      report.mark = await page.$eval("[name=range][value=mark]", e => e.checked && !e.disabled);
      perfl.signal("SIGUSR1");
      await total("60 samples, baseline 40 samples");
      report.now = await told("write");
      report.legend = await text("#legend");
      perfl.signal("SIGUSR2");
      await total("67 samples, baseline 40 samples");
      await page.click("[name=range][value=all]");
      await total("107 samples");
      await page.click("[name=range][value=minute]");
      await total("107 samples");
      // The slot with 7 values, by keys: to the left from the newest one.
      const heat = "[aria-labelledby=part-times] canvas";
      await page.focus(heat);
      await page.keyboard.press("End");
      for (let i = 0; i < 60 && !(await text("[aria-labelledby=part-times] .told")).endsWith(": 7 in all"); i++) {
        await page.keyboard.press("ArrowLeft");
      }
      await page.keyboard.press("Enter");
      await total("7 samples");
      report.chosen = await page.$eval("[name=range]:checked", e => e.value);
      report.late = await told("late");
      report.bars = (await texts("[aria-labelledby=part-times] .bars td")).filter(t => t).join(" ");
      // Extended to the left until the slot of SIGUSR1 is inside.
      await page.keyboard.down("Shift");
      for (let i = 0; i < 60 && await text("#total") !== "67 samples"; i++) {
        await page.keyboard.press("ArrowLeft");
        await new Promise(r => setTimeout(r, 150));
      }
      await page.keyboard.up("Shift");
      await total("67 samples");
      await page.keyboard.press("Escape");
      await total("107 samples");
      report.after = await page.$eval("[name=range]:checked", e => e.value);
      // By the mouse: everything.
      await page.$eval(heat, e => e.scrollIntoView({ block: "center" }));
      const box = await (await page.$(heat)).boundingBox();
      await page.mouse.move(box.x + 79, box.y + 40);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width - 9, box.y + 50, { steps: 5 });
      await page.mouse.up();
      await until(() => document.querySelector("[name=range]:checked").value === "selected");
      await total("107 samples");
      report.range = (await text("[aria-labelledby=part-times] .bars h3")).replace(/\d\d:\d\d:\d\d/g, "T");
]])
    assert.equal("75.00% in 1 frame", report.share)
    assert.is_true(report.mark)
    assert.equal("100.00% in 1 frame", report.now)
    assert.equal("less than baselinemore", report.legend)
    assert.same({ "selected", "100.00% in 1 frame", "1.02 µs to 2.05 µs 7 100.0%" },
      { report.chosen, report.late, report.bars })
    assert.equal("all", report.after)
    assert.is_truthy(report.range:find "^all keys, T to T %(")
  end)

  it("pauses and goes on, keeps zoom and search over updates, and is light or dark", function()
    local report = browsed([[
local stacks = perfev.profile { title = "work" }
local calls = perfev.count { by = "name", title = "calls" }
perfev.event { "dummy", sample = perfev.count() }
local function work()
  stacks:add({ "inner", "outer", "main" }, 12)
  stacks:add({ "other", "main" }, 8)
  calls:add(1, "call")
end
perfev.begin(work)
perfev.signal("USR1", work)
]], [[
      const total = words => until(w => document.querySelector("#total").textContent === w, words);
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
      await open();
      await total("20 samples");
      const colors = () => page.evaluate(() => {
        const style = getComputedStyle(document.body);
        const light = c => c.match(/\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0);
        return [document.documentElement.dataset.theme, light(style.backgroundColor) < light(style.color)];
      });
      report.dark = await colors();
      await page.click("#theme");
      report.light = await colors();
      // Zoom by keys, then an update.
      await page.focus("#view");
      for (const k of ["ArrowUp", "ArrowUp", "Enter"]) await page.keyboard.press(k);
      report.zoomed = [await text("#name")];
      await page.type("#search", "inner");
      perfl.signal("SIGUSR1");
      await total("40 samples");
      report.zoomed.push(await text("#name"), await text("#found"), await page.$eval("#reset", e => e.disabled));
      await key("p");
      report.paused = [await text("#status"), await text("#pause"), await page.$eval("#pause", e => e.ariaPressed)];
      perfl.signal("SIGUSR1");
      await new Promise(r => setTimeout(r, 2500));
      report.paused.push(await text("#total"));
      await page.click("#pause");
      await total("60 samples");
      report.live = await text("#status");
      // Each control is reached by Tab, in the order of the page, and shows its focus.
      await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
      await page.click("h1");
      const seen = [];
      for (let i = 0; i < 40; i++) {
        await page.keyboard.press("Tab");
        const at = await page.evaluate(() => {
          const e = document.activeElement, style = getComputedStyle(e);
          return e === document.body ? null : [e.id || e.value || e.getAttribute("aria-label") || e.textContent,
            style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0];
        });
        if (!at) break;
        seen.push(at);
      }
      report.order = seen.map(e => e[0]);
      report.unseen = seen.filter(e => !e[1]).map(e => e[0]);
      const controls = "button, input, select, canvas[tabindex], [role=application]";
      report.unnamed = await page.$$eval(controls, list => list.filter(
        e => !(e.textContent || e.ariaLabel || e.labels && e.labels.length)).map(e => e.outerHTML));
]])
    assert.same({ "dark", true }, report.dark)
    assert.same({ "light", false }, report.light)
    assert.equal("outer", report.zoomed[1])
    assert.same({ "outer", "100.00% of the zoomed frame in 1 frame", false }, { table.unpack(report.zoomed, 2) })
    assert.same({ "paused", "Resume", "true", "40 samples" }, report.paused)
    assert.equal("live", report.live)
    assert.same({}, report.unseen)
    assert.same({}, report.unnamed)
    assert.same({ "pause", "theme", "all", "mark" }, table.move(report.order, 1, 4, 1, {}))
    for _, id in ipairs { "search", "reset", "invert", "help", "view" } do
      assert.is_truthy(table.concat(report.order, " "):find(id, 1, true), id)
    end
  end)

  it("shows the largest of 100,000 keys, and the sum of the others", function()
    local report = browsed([[
local calls = perfev.count { by = "id", title = "calls", max_keys = 200000 }
perfev.event { "dummy", sample = perfev.count() }
perfev.begin(function()
  for i = 1, 100000 do calls:add(i, i) end
end)
]], [[
      await open();
      await until(() => document.querySelectorAll("[aria-labelledby=part-calls] .rows tbody tr").length === 100);
      report.first = (await rows("[aria-labelledby=part-calls]"))[0];
      report.other = await texts("[aria-labelledby=part-calls] tfoot td");
      report.about = await text("[aria-labelledby=part-calls] .about");
      report.data = await page.evaluate(async () => {
        const data = await (await fetch("/data.json")).json();
        return [data.aggregators[0].rows.length, data.aggregators[0].rows.reduce((sum, row) => sum + row.value, 0)];
      });
]])
    local all, top = 100000 * 100001 // 2, (99901 + 100000) * 50
    assert.equal("100000", report.first[1])
    assert.equal("100000", report.first[2])
    assert.equal("(other): 99900 keys", report.other[1])
    assert.equal(tostring(all - top), (report.other[2]:gsub(",", "")))
    assert.equal("count · 100,000 keys · the 100 largest are shown", report.about)
    assert.same({ 100000, all }, report.data)
  end)

  it("does not grow while it is open", function()
    local report = browsed([[
perfev.event { "dummy", sample = perfev.count() }
]], [=[
      // 2,200 updates of a server that takes the place of perfl: each has other keys and stacks, and a slot.
      await page.evaluateOnNewDocument(() => {
        const listeners = {};
        window.EventSource = class {
          constructor() { window.source = this; }
          addEventListener(name, f) { listeners[name] = f; }
          close() {}
        };
        window.feed = (name, data) => listeners[name]({ data: JSON.stringify(data) });
        window.fetch = async () => ({ ok: true, json: async () => {
          const n = window.count, names = [];
          for (let i = 0; i < 300; i++) names.push(["f" + (n * 7 + i), "m", 0, i % 100]);
          return { title: "p", values: [{ name: "samples", unit: "count" }], from: 0, to: n, left_out: 0,
            functions: names, func: names.map((_, i) => i + 1), depth: names.map((_, i) => 1 + i % 30),
            own: [names.map(() => 1)] };
        } });
        window.count = 0;
      });
      await open();
      await until(() => window.source);
      const grown = await page.evaluate(() => {
        const part = (name, kind) => ({ name, type: "aggregator", kind, title: name, unit: "ns", by: ["key"],
          heat: true, values: [{ name: "count" }, { name: "avg" }, { name: "min" }, { name: "max" }] });
        const profile = { name: "p", type: "profile", title: "p", values: [{ name: "samples", unit: "count" }] };
        feed("hello", { run: { script: "s", command: "c", host: "h", started_ms: 0, slot_ms: 1000, fine: 40, coarse: 30,
          coarse_ms: 10000 }, parts: [part("a", "hist"), profile], slots: [] });
        let slots = 0;
        window.more = () => {
          const n = ++window.count, rows = [], buckets = [];
          for (let i = 0; i < 25; i++) {
            rows.push(["key" + (n * 31 + i), i, 1.5, 0, 9]);
            buckets.push([1, 2, i, 2, 4, n % 7 + 1, 4, 8, 1]);
          }
          const update = { elapsed_ms: n * 1000, cpu_ms: n, totals: { records: n, lost: 0, late: 0 }, losses: [],
            parts: { a: { keys: 25, rows, buckets, all: 300, all_buckets: buckets[0], remarks: ["n" + n] } },
            slot: { begin: (n - 1) * 1000, end: n * 1000,
              heat: { a: buckets[0].concat([n % 64 * 8 + 8, n % 64 * 8 + 16, 1]) }, sums: { p: [n] } } };
          if (++slots > 50) {
            slots -= 10;
            const first = (n - 51) * 1000;
            update.merged = [[first, first + 10000]];
          }
          feed("update", update);
        };
      });
      const client = await page.createCDPSession();
      const size = async () => {
        await client.send("HeapProfiler.enable");
        for (let i = 0; i < 3; i++) await client.send("HeapProfiler.collectGarbage");
        const { metrics } = await client.send("Performance.getMetrics");
        const of = name => metrics.find(m => m.name === name).value;
        return { heap: of("JSHeapUsedSize"), nodes: of("Nodes"), listeners: of("JSEventListeners") };
      };
      await client.send("Performance.enable");
      const run = nr => page.evaluate(async nr => {
        for (let i = 0; i < nr; i++) {
          more();
          if (i % 25 === 24) await new Promise(r => requestAnimationFrame(r));
        }
      }, nr);
      await run(400);
      report.before = await size();
      await run(1800); // 30 minutes
      report.after = await size();
      report.slots = Number(await page.$eval("[aria-labelledby=part-a] canvas", e => e.dataset.slots));
      report.shown = await text("#total");
]=])
    assert.equal("300 samples", report.shown)
    assert.is_true(report.slots <= 72, report.slots)
    assert.is_true(report.after.nodes <= report.before.nodes + 50, ("%d nodes, then %d"):format(report.before.nodes,
      report.after.nodes))
    assert.is_true(report.after.listeners <= report.before.listeners + 5)
    assert.is_true(report.after.heap < report.before.heap + 600000, ("%d bytes, then %d"):format(report.before.heap,
      report.after.heap))
  end)
end)
