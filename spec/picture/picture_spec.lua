-- Heat maps, histograms and timelines: every number that went in is in the picture.

local json = require "spec.support.json"
local picture = require "perfev.picture"
local rectangles = require("spec.support.svg").rectangles

local EVIL = '</title><script>alert("1")</script>\27&'

local function well_formed(text)
  local open = {}
  for slash, tag, rest in text:gsub("^<!DOCTYPE html>", ""):gmatch "<(/?)(%a+)(.-)>" do
    if slash == "/" then
      assert.equal(table.remove(open), tag)
    elseif rest:sub(-1) ~= "/" and tag ~= "meta" and tag ~= "link" then
      open[#open + 1] = tag
    end
  end
  assert.same({}, open)
end

describe("a heat map", function()
  local cells = {
    { time = 2000000000, low = 1000, high = 2000, count = 1 },
    { time = 1000000000, low = 1000, high = 2000, count = 100 },
    { time = 1000000000, low = 1000000, high = 2000000, count = 3 },
    { time = 1000000000, low = 2000, high = 4000, count = 0 },
  }

  it("has a cell for each count above 0, in its column and height", function()
    local found = rectangles(picture.heatmap { cells = cells, step = 1000000000 }, "h%d+")
    assert.equal(3, #found)
    local many, slow, later = table.unpack(found)
    assert.same({ many.x, many.y + many.height }, { slow.x, 48 + 360 })
    assert.is_true(math.abs(later.x - many.x - many.width) < 0.02)
    assert.equal(many.y, later.y)
    assert.equal(48, slow.y)
    assert.same({ "h15", "h2" }, { many.class, later.class })
    assert.equal("0 ns: 100 of 1 us to 2 us", many.title)
    assert.equal("1 s: 1 of 1 us to 2 us", later.title)
  end)

  it("does not depend on the order of its cells, and draws close values linearly", function()
    local backwards = {}
    for i, cell in ipairs(cells) do backwards[#cells + 1 - i] = cell end
    assert.equal(picture.heatmap { cells = cells, step = 5 }, picture.heatmap { cells = backwards, step = 5 })
    local linear = picture.heatmap { step = 1, unit = "count", cells = { { time = 0, low = 0, high = 50, count = 1 },
      { time = 0, low = 50, high = 100, count = 1 } } }
    local low, high = table.unpack(rectangles(linear, "h%d+"))
    assert.same({ 180, 180 }, { low.height, high.height })
  end)

  it("without cells is an empty frame", function()
    assert.equal(0, #rectangles(picture.heatmap { cells = {}, step = 1 }, "h%d+"))
  end)

  it("joins columns that would be too narrow, and loses no count", function()
    local many = {}
    for i = 1, 3000 do many[i] = { time = 500 + i * 1000, low = 1, high = 2, count = i } end
    local found, sum = rectangles(picture.heatmap { cells = many, step = 1000 }, "h%d+"), 0
    assert.equal(375, #found) -- eight of them make one
    for _, one in ipairs(found) do
      assert.is_true(one.width >= 2)
      sum = sum + math.tointeger(one.title:match "^[^:]+: (%d+) of ")
    end
    assert.equal(3000 * 3001 // 2, sum)
  end)

  it("draws several maps below each other, with one scale of time, values and colours", function()
    local svg = picture.heatmap { step = 10, unit = "us", notes = { "a <note>" }, series = {
      { name = "first", cells = { { time = 100, low = 1, high = 2, count = 64 } } },
      { name = "<second>", cells = { { time = 190, low = 512, high = 1024, count = 1 } } },
    } }
    local low, high = table.unpack(rectangles(svg, "h%d+"))
    assert.same({ "h15", "0 ns: 64 of 1 us to 2 us" }, { low.class, low.title })
    assert.equal("90 ns: 1 of 512 us to 1.02 ms", high.title)
    assert.is_true(high.x > low.x + 8 * low.width and high.y > low.y)
    assert.is_true(math.abs(low.height - high.height) < 0.02) -- both are a doubling
    for _, text in ipairs { ">first<", ">&lt;second&gt;<", ">a &lt;note&gt;<", ">1 ms<", ">10 us<" } do
      assert.truthy(svg:find(text, 1, true), text)
    end
  end)
end)

describe("a histogram", function()
  local buckets = { { low = 4096, high = 8192, count = 50 }, { low = 0, high = 4096, count = 150 } }

  it("has a bar for each bucket, as long as its count, the lowest first", function()
    local svg = picture.histogram { buckets = buckets, unit = "bytes" }
    local first, second = table.unpack(rectangles(svg, "bar"))
    assert.equal("0 B to 4 KiB: 150", first.title)
    assert.is_true(math.abs(first.width - 3 * second.width) < 0.02)
    assert.is_true(first.y < second.y)
    assert.truthy(svg:find(">75.0%<", 1, true))
  end)

  it("can have open ends, and several are drawn below each other", function()
    local svg = picture.histogram { unit = "ms", series = {
      { name = "a",
        buckets = { { low = 100, count = 1 }, { high = 0, count = 2 }, { low = 0, high = 100, count = 0 } } },
      { name = "b", buckets = { { low = 5, high = 6, count = 2000 } } } } }
    local bars = rectangles(svg, "bar")
    local titles = {}
    for i, bar in ipairs(bars) do titles[i] = bar.title end
    assert.same({ "below 0 ns: 2", "0 ns to 100 ms: 0", "100 ms and above: 1", "5 ms to 6 ms: 2000" }, titles)
    assert.same({ bars[1].width, 0, bars[1].width / 2, bars[1].width },
      { bars[4].width, bars[2].width, bars[3].width, bars[1].width }) -- each by its own most
  end)
end)

describe("heat map and histogram", function()
  it("are SVG, or a page that loads nothing, and escape all names", function()
    for _, format in ipairs { "svg", "html" } do
      for _, text in ipairs {
        picture.heatmap { cells = {}, step = 1, title = EVIL, format = format },
        picture.histogram { buckets = { { low = 0, high = 1, count = 1 } }, title = EVIL, format = format },
      } do
        well_formed(text)
        assert.is_nil(text:find("<script", 1, true))
        assert.is_nil(text:find "\27")
        assert.truthy(text:find("&lt;/title&gt;&lt;script&gt;", 1, true))
        assert.is_nil(text:gsub('xmlns="http://www.w3.org/2000/svg"', ""):find "https?://")
        assert.equal(format == "html", text:find("^<!DOCTYPE html>") ~= nil)
      end
    end
  end)

  it("raise for wrong arguments", function()
    for message, f in pairs {
      ["heatmap: a table expected, not nil"] = picture.heatmap,
      ["heatmap: unknown option 'bins'"] = function() picture.heatmap { bins = 1 } end,
      ["heatmap: a list of rows expected, not a nil"] = function() picture.heatmap { step = 1 } end,
      ["heatmap: row 2 has no number 'low'"] = function()
        picture.heatmap { step = 1, cells = { { time = 1, low = 1, high = 1, count = 1 }, { time = 1 } } }
      end,
      ["heatmap: step is missing"] = function() picture.heatmap { cells = {} } end,
      ["heatmap: cells and series at once"] = function() picture.heatmap { cells = {}, series = {}, step = 1 } end,
      ["histogram: notes must be a list of lines"] = function() picture.histogram { buckets = {}, notes = "x" } end,
      ["histogram: row 1 has no number 'low'"] = function() picture.histogram { buckets = { { count = 1 } } } end,
      ["histogram: format must be one of svg, html, not 'png'"] = function()
        picture.histogram { buckets = {}, format = "png" }
      end,
      ["timeline: spans: row 1 has no number 'finish'"] = function()
        picture.timeline { spans = { { cpu = 0, begin = 1 } } }
      end,
    } do
      assert.error_matches(f, message, 1, true)
    end
  end)
end)

describe("a timeline", function()
  it("is a trace: spans, points and counters in microseconds, a thread for each CPU", function()
    local trace = json.decode(picture.timeline { title = EVIL,
      spans = { { cpu = 3, name = EVIL, begin = 1500, finish = 4000, args = { pid = 7 } } },
      points = { { cpu = 0, name = "wake", time = 2000 } },
      counters = { { name = "runnable", time = 3000, value = 2 } } })
    local by_kind = {}
    for _, event in ipairs(trace.traceEvents) do
      local key = event.ph == "M" and event.name .. event.tid or event.ph
      assert.is_nil(by_kind[key])
      by_kind[key] = event
    end
    assert.same({ ph = "X", pid = 1, tid = 4, name = '</title><script>alert("1")</script>\\x1b&', ts = 1.5, dur = 2.5,
      args = { pid = 7 } }, by_kind.X)
    assert.same({ ph = "i", s = "t", pid = 1, tid = 1, name = "wake", ts = 2.0 }, by_kind.i)
    assert.same({ ph = "C", pid = 1, name = "runnable", ts = 3.0, args = { value = 2 } }, by_kind.C)
    assert.same({ name = "CPU 3" }, by_kind.thread_name4.args)
    assert.same({ sort_index = 0 }, by_kind.thread_sort_index1.args)
  end)
end)
