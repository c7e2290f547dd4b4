-- The flame graph's page in a headless browser: the spec clicks, searches and leaves it, and reads what it shows.

local json = require "spec.support.json"
local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- The actions of a person: at(NAME) finds a frame by the text that the page shows for each place under the mouse.
local hand = [[
<script>
(function () {
  const byId = id => document.getElementById(id), view = byId("view"), report = {};
  const mouse = (kind, x, y) => view.dispatchEvent(new MouseEvent(kind, { clientX: x, clientY: y, bubbles: true }));
  const at = name => {
    const box = byId("canvas").getBoundingClientRect();
    for (let y = box.top + 3; y < box.bottom; y += 9) {
      for (let x = box.left + 3; x < box.right; x += 15) {
        mouse("mousemove", x, y);
        if (byId("name").textContent.split(" ")[0] === name) return [x, y];
      }
    }
  };
  const click = name => { const place = at(name); if (place) mouse("click", ...place); };
  const key = name => view.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const search = text => { byId("search").value = text; byId("search").dispatchEvent(new Event("input")); };
  const told = () => { mouse("mouseleave", 0, 0); return byId("name").textContent + ": " + byId("what").textContent; };
  // The browser's own way back takes a while: it is gone here by hand.
  const past = [], push = history.pushState;
  history.pushState = function (...how) { past.push(location.hash || "#"); push.apply(history, how); };
  const back = () => { history.replaceState(null, "", past.pop()); dispatchEvent(new PopStateEvent("popstate")); };
  try {
$DOES
  } catch (e) { report.error = String(e && e.stack || e); }
  report.requests = performance.getEntriesByType("resource").length;
  const pre = document.createElement("pre");
  pre.id = "report";
  pre.textContent = JSON.stringify(report);
  document.body.append(pre);
})();
</script>
</body>]]

-- Returns the page's state after these actions.
local function browsed(profile, does)
  local path = dir .. "/page.html"
  local file <close> = assert(io.open(path, "w"))
  local page = profile:html():gsub("</body>", function() return (hand:gsub("%$DOES", function() return does end)) end)
  file:write(page)
  file:flush()
  local r = run({ "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--user-data-dir=" .. dir .. "/chromium", "--window-size=1200,800",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", "file://" .. path },
    { timeout = 120, env = { HOME = dir } })
  local text = r.out:match '<pre id="report">(.-)</pre>'
  assert.is_truthy(text, r.err)
  text = text:gsub("&(%a+);", { lt = "<", gt = ">", amp = "&", nbsp = "\u{a0}" })
  return json.decode(text)
end

describe("a flame graph in a browser", function()
  it("of 20,000 stacks can be zoomed, searched, inverted and left by back, offline", function()
    requires "program chromium"
    local p = perfev.profile { title = "spec" }
    p:add({ "read", "parse", "main" }, 30000)
    p:add({ "parse", "main" }, 30000)
    p:add({ "read", "write", "main" }, 15000)
    p:add({ "write", "main" }, 25000)
    for i = 1, 20000 do p:add({ "leaf" .. i, "f" .. i % 500, "g" .. i % 40, "many" }, 1) end
    assert.same({
      requests = 0, first = "all: 120,000 samples, 100.00%, itself 0",
      zoomed = "parse: 60,000 samples, 50.00%, itself 30,000", sibling = false, reset = true,
      inside = "read: 30,000 samples, 25.00% (50.00% of the zoomed frame), itself 30,000",
      found = "37.50% in 2 frames", all_found = "16.67% in 20,000 frames",
      found_zoomed = "50.00% of the zoomed frame in 1 frame", nothing = "no match",
      back_once = "parse: 60,000 samples, 50.00%, itself 30,000",
      back_twice = "all: 120,000 samples, 100.00%, itself 0",
      again = true, inverted = { "false", "true", "false" }, escaped = "",
    }, browsed(p, [[
    report.first = told();
    search("read");
    report.found = byId("found").textContent;
    search("^leaf");
    report.all_found = byId("found").textContent;
    search("");
    click("parse");
    report.zoomed = told();
    report.reset = !byId("reset").disabled;
    report.sibling = !!at("write");
    search("^read");
    report.found_zoomed = byId("found").textContent;
    search("nowhere");
    report.nothing = byId("found").textContent;
    key("Escape");
    report.escaped = byId("search").value;
    click("read");
    back();
    report.back_once = told();
    mouse("mousemove", ...at("read"));
    report.inside = byId("name").textContent + ": " + byId("what").textContent;
    back();
    report.back_twice = told();
    report.again = !!at("write");
    const pressed = () => byId("invert").getAttribute("aria-pressed");
    report.inverted = [pressed()];
    key("i");
    report.inverted.push(pressed());
    byId("invert").click();
    report.inverted.push(pressed());
]]))
  end)
end)
