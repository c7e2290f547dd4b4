-- perfl top: its tables, callers and flame graph from known stacks, its keys, and the text it draws.

local call_tree = require "perfev.profile.call_tree"
local drawing = require "perfev.tool.top.drawing"
local flame = require "perfev.tool.top.flame"
local keys = require "perfev.tool.top.keys"
local models = require "perfev.tool.top.model"
local perfev = require "perfev"
local terminal = require "perfev.tool.top.terminal"

local tasks = {
  ["app 7"] = { comm = "app", thread = "app 7", process = "app 7", cgroup = "/web" },
  ["worker 8"] = { comm = "worker", thread = "worker 8", process = "app 7", cgroup = "/web" },
  ["make 9"] = { comm = "make", thread = "make 9", process = "make 9", cgroup = "/build" },
}

-- The samples of an interval: { { thread, stack, samples }, … }
local function interval(samples)
  local profile = perfev.profile {}
  for _, one in ipairs(samples) do profile:add_under(one[1], one[2], one[3]) end
  return { profile = profile, tree = call_tree.build(profile), tasks = tasks, total = profile:total(), duration = 1e9 }
end

local usual = { { "app 7", "main;parse;read", 6 }, { "app 7", "main;read", 1 }, { "worker 8", "main;parse", 2 },
  { "make 9", "main;link_[k]", 1 } }

local function model_of(samples)
  local model = models.new "cpu-clock"
  model:show(interval(samples or usual))
  return model
end

local function press(model, ...)
  local result
  for _, key in ipairs { ... } do result = model:press(key) end
  return result
end

-- { "label own total", … }
local function rows_of(model)
  local list = {}
  for i, row in ipairs(model:rows()) do list[i] = ("%s %d %d"):format(row.label, row.own, row.total) end
  return list
end

local function selected(model) return (model:selected() or {}).label end

describe("the table of perfl top", function()
  it("has functions by own value, total value and name", function()
    local model = model_of()
    local read, parse, link, main = "read 7 7", "parse 2 8", "link [kernel] 1 1", "main 0 10"
    assert.same({ read, parse, link, main }, rows_of(model))
    press(model, "t")
    assert.same({ main, parse, read, link }, rows_of(model))
    press(model, "n")
    assert.same({ link, main, parse, read }, rows_of(model))
    press(model, "s")
    assert.same({ read, parse, link, main }, rows_of(model))
  end)

  it("counts a recursive function once in its total, and samples without a stack as unknown", function()
    assert.same({ "f 3 3", "[unknown] 2 2" }, rows_of(model_of { { "app 7", "f;f;f", 3 }, { "app 7", nil, 2 } }))
  end)

  it("has threads, processes and cgroups", function()
    local model = model_of()
    press(model, "v")
    assert.same({ "app 7 7 7", "worker 8 2 2", "make 9 1 1" }, rows_of(model))
    press(model, "3")
    assert.same({ "app 7 9 9", "make 9 1 1" }, rows_of(model))
    press(model, "4")
    assert.same({ "/web 9 9", "/build 1 1" }, rows_of(model))
    press(model, "v")
    assert.equal("read 7 7", rows_of(model)[1])
  end)

  it("has the functions of the selected process after Enter, and the processes again after Escape", function()
    local model = model_of()
    press(model, "3", "down", "enter")
    assert.same({ "link [kernel] 1 1", "main 0 1" }, rows_of(model))
    press(model, "esc")
    assert.same({ "app 7 9 9", "make 9 1 1" }, rows_of(model))
    assert.equal("make 9", selected(model))
  end)

  it("keeps the selected row when the list is redrawn, also without samples of it", function()
    local model = model_of()
    assert.equal("read", selected(model))
    press(model, "down")
    assert.equal("parse", selected(model))
    model:show(interval { { "app 7", "main;parse", 9 }, { "app 7", "main;read", 1 } })
    assert.same({ "parse 9 9", "read 1 1", "main 0 10" }, rows_of(model))
    assert.equal("parse", selected(model))
    model:show(interval { { "app 7", "main;read", 1 } })
    assert.same({ "read 1 1", "main 0 1", "parse 0 0" }, rows_of(model))
    assert.equal("parse", selected(model))
    press(model, "home")
    assert.equal("read", selected(model))
    model:show(interval { { "app 7", "main;write", 1 } })
    assert.equal("write", selected(model))
  end)

  it("scrolls so that the selected row is visible", function()
    local samples = {}
    for i = 1, 50 do samples[i] = { "app 7", ("f%02d"):format(i), 100 - i } end
    local model = model_of(samples)
    model:resize(80, 24)
    assert.same({ 20, 0 }, { model:page() })
    press(model, "end")
    assert.equal("f50", selected(model))
    assert.same({ 20, 30 }, { model:page() })
    press(model, "up")
    assert.same({ 20, 30 }, { model:page() })
    press(model, "pageup", "pageup")
    assert.equal("f09", selected(model))
    assert.same({ 20, 8 }, { model:page() })
    model:resize(80, 60)
    assert.same({ 56, 0 }, { model:page() })
  end)

  it("shows only names with the text that is typed after /", function()
    local model = model_of()
    press(model, "/", "R", "e")
    assert.same({ "read 7 7" }, rows_of(model))
    press(model, "q", "backspace", "backspace")
    assert.same({ "read 7 7", "parse 2 8", "link [kernel] 1 1" }, rows_of(model))
    press(model, "enter", "down")
    assert.equal("parse", selected(model))
    press(model, "esc")
    assert.equal(4, #rows_of(model))
    press(model, "/", "x", "esc")
    assert.equal(4, #rows_of(model))
    press(model, "/", "é", "backspace")
    assert.equal("", model.filter)
  end)

  it("does not change while it is frozen", function()
    local model = model_of()
    press(model, " ")
    model:show(interval { { "app 7", "main;write", 1 } })
    assert.equal("read 7 7", rows_of(model)[1])
    press(model, "f")
    model:show(interval { { "app 7", "main;write", 1 } })
    assert.same({ "write 1 1", "main 0 1" }, rows_of(model))
  end)

  it("returns the wishes that the caller fulfils, and ignores unknown keys", function()
    local model = model_of()
    assert.same({ "quit", "save" }, { press(model, "q"), press(model, "w") })
    assert.is_nil(press(model, "unknown", "x", "?", "q"))
    assert.equal("read", selected(model))
  end)

  it("accepts every key without samples", function()
    for _, view in ipairs { "1", "2", "3", "4", "g" } do
      local model = models.new "cpu-clock"
      for key in ("up down left right pageup pagedown home end enter esc v o t n s g enter / a enter"):gmatch "%S+" do
        press(model, view, key)
        drawing.lines(model)
      end
    end
  end)
end)

describe("the callers in perfl top", function()
  it("are a tree, the nearest first, down to the thread's name", function()
    local model = model_of()
    press(model, "enter")
    assert.same({ "- parse 0 6", "  main 0 6", "  app 0 6", "- main 0 1", "  app 0 1" }, rows_of(model))
    press(model, "enter")
    assert.equal("parse", model.caller_of.label)
    assert.same({ "- main 0 8", "  - app 0 6", "  - worker 0 2" }, rows_of(model))
    press(model, "backspace", "backspace")
    assert.equal("read 7 7", rows_of(model)[1])
  end)

  it("counts a recursive call once, from its outermost call", function()
    local model = model_of { { "app 7", "main;f;g;f;f", 3 } }
    press(model, "enter")
    assert.equal("f", model.caller_of.label)
    assert.same({ "- main 0 3", "  app 0 3" }, rows_of(model))
  end)
end)

describe("the flame graph of perfl top", function()
  local function boxes_of(model)
    local list = {}
    for i, box in ipairs((model:boxes())) do
      list[i] = ("%d %d+%d %s"):format(box.row, box.x, box.width, box.node.label)
    end
    return list
  end

  it("has boxes as wide as their shares", function()
    local model = model_of()
    model:resize(20, 24)
    press(model, "g")
    assert.same({ "1 0+20 all", "2 0+14 app", "2 14+2 make", "2 16+4 worker", "3 0+14 main", "3 14+2 main",
      "3 16+4 main", "4 0+12 parse", "4 12+2 read", "4 14+2 link [kernel]", "4 16+4 parse", "5 0+12 read" },
      boxes_of(model))
  end)

  it("leaves out boxes narrower than a column, and never exceeds the width", function()
    local model = model_of()
    press(model, "g")
    for width = 1, 90 do
      model:resize(width, 24)
      local right = {}
      for _, box in ipairs((model:boxes())) do
        assert.is_true(box.width >= 1 and box.x >= (right[box.row] or 0))
        right[box.row] = box.x + box.width
        assert.is_true(right[box.row] <= width)
      end
    end
    model:resize(4, 24)
    assert.same({ "1 0+4 all", "2 0+3 app", "2 3+1 worker", "3 0+3 main", "3 3+1 main", "4 0+2 parse", "4 2+1 read",
      "4 3+1 parse", "5 0+2 read" }, boxes_of(model))
  end)

  it("zooms into the selected box by Enter, and back by Escape and Backspace", function()
    local model = model_of()
    model:resize(20, 24)
    press(model, "g", "down", "right", "right", "enter")
    local worker = { "1 0+20 all", "2 0+20 worker", "3 0+20 main", "4 0+20 parse" }
    assert.same(worker, boxes_of(model))
    press(model, "down", "down", "enter")
    assert.same(worker, boxes_of(model))
    press(model, "backspace", "esc")
    assert.equal(12, #boxes_of(model))
    press(model, "esc")
    assert.equal("table", model.view)
  end)

  it("moves the selection to the caller, the widest callee and the neighbours", function()
    local model = model_of()
    press(model, "g")
    local function at(...)
      press(model, ...)
      return select(2, model:boxes()).label
    end
    assert.equal("all", at "up")
    assert.equal("app", at "down")
    assert.equal("app", at "left")
    assert.equal("parse", at("down", "down"))
    assert.equal("read", at "right")
    assert.equal("link [kernel]", at "l")
    assert.equal("main", at "k")
    assert.equal("make", at "k")
    assert.equal("all", at "home")
  end)

  it("keeps the selection and the zoom in the next interval, or the nearest caller of them", function()
    local model = model_of()
    press(model, "g", "down", "down", "down", "enter", "down")
    local function zoom_and_at()
      local _, at, tree = model:boxes()
      return { flame.find(tree, model.zoom).label, at.label }
    end
    assert.same({ "parse", "read" }, zoom_and_at())
    model:show(interval { { "app 7", "main;parse", 1 } })
    assert.same({ "parse", "parse" }, zoom_and_at())
    model:show(interval { { "app 7", "main;other", 1 } })
    assert.same({ "main", "main" }, zoom_and_at())
    model:show(interval(usual))
    assert.same({ "parse", "read" }, zoom_and_at())
  end)

  it("has the stacks of the selected process only", function()
    local model = model_of()
    model:resize(20, 24)
    press(model, "3", "down", "g")
    assert.same({ "1 0+20 all", "2 0+20 make", "3 0+20 main", "4 0+20 link [kernel]" }, boxes_of(model))
  end)
end)

describe("the keys of perfl top", function()
  local function split(bytes, is_all)
    local list, rest = keys.split(bytes, is_all)
    return table.concat(list, " ") .. "|" .. rest
  end

  it("are characters, and names of control sequences", function()
    assert.equal("q enter é up down left right up|", split "q\r\u{e9}\27[A\27[B\27[D\27[C\27OA")
    assert.equal("pageup pagedown home end home end|", split "\27[5~\27[6~\27[H\27[F\27[1~\27[4~")
    assert.equal("backspace backspace unknown unknown unknown|", split "\127\8\1\27[1;5P\128")
  end)

  it("wait for the rest of a sequence or a character", function()
    for _, part in ipairs { "\27", "\27[", "\27[5", "\27O", "\xe2\x82" } do
      assert.equal("a|" .. part, split("a" .. part))
    end
    assert.equal("a esc|", split("a\27", true))
    assert.equal("esc [ 5|", split("\27[5", true))
    assert.equal("unknown|", split("\xc3", true))
    assert.equal("esc x|", split "\27x")
  end)
end)

describe("the picture of perfl top", function()
  local function text_of(model)
    local list = {}
    for i, line in ipairs(drawing.lines(model)) do
      local out = {}
      for _, segment in ipairs(line) do out[#out + 1] = segment[1] end
      list[i] = (table.concat(out):gsub("%s+$", ""))
    end
    return list
  end

  it("is a table with a marked row", function()
    local model = model_of()
    model:resize(80, 9)
    assert.same({
      " cpu-clock: 10 samples in 1.0 s",
      " functions by own value",
      "       own      %      total      %  function",
      ">        7  70.0%          7  70.0%  read",
      "         2  20.0%          8  80.0%  parse",
      "         1  10.0%          1  10.0%  link [kernel]",
      "         0   0.0%         10 100.0%  main",
      "",
      "q quit  ? help  Enter open  g flames  / filter  s sort  v view  f freeze  w save",
    }, text_of(model))
    press(model, "3", "enter", "/", "m")
    local lines = text_of(model)
    assert.equal(" functions by own value, in process app 7, with 'm'", lines[2])
    assert.equal(" filter: m_", lines[9])
  end)

  it("notes in the first line that it is frozen, and that new stacks have no memory", function()
    local model = model_of()
    press(model, "f")
    model.is_full = true
    assert.equal(" cpu-clock: 10 samples in 1.0 s  FROZEN (f goes on)  new stacks are (other): --max-memory",
      text_of(model)[1])
  end)

  it("is a flame graph that is readable without colours", function()
    local model = model_of()
    model:resize(40, 9)
    press(model, "g", "down", "/", "r", "e", "a", "enter")
    assert.same({
      " cpu-clock: 10 samples in 1.0 s",
      " flame graph, marked: 'rea'",
      " app: 7 samples, 70.0% of all",
      "|all",
      ">app                        |mak|worker",
      "|main                       |mai|main",
      "|parse                  |rea|lin|parse",
      "|read",
      "q quit  ? help  arrows select  Enter zoom  Esc back  / mark  f freeze  w save",
    }, text_of(model))
    press(model, "down", "down", "down")
    assert.equal(">read", text_of(model)[8])
  end)

  it("fills each size of a terminal exactly, in all views", function()
    local long = ("f"):rep(300)
    for _, size in ipairs { { 80, 24 }, { 200, 60 }, { 20, 6 } } do
      for _, view in ipairs { "1", "2", "3", "4", "g", "?", "/" } do
        local model = model_of { { "app 7", long .. ";\u{e9}" .. long, 3 }, { "make 9", "\27[31m;x", 1 } }
        model:resize(table.unpack(size))
        press(model, view)
        local nr = 0
        for line in drawing.text(drawing.lines(model), size[1], 0):gmatch "\27%[%d+;1H([^\27]*)" do
          nr = nr + 1
          assert.equal(size[1], utf8.len(line))
        end
        assert.equal(size[2], nr)
      end
    end
  end)

  it("has control sequences for colours only if the terminal has colours", function()
    local model = model_of()
    press(model, "g")
    local function text(colours) return drawing.text(drawing.lines(model), 80, colours) end
    assert.is_nil(text(0):find "\27%[[%d;]*m")
    assert.matches(" \27%[30;43mmain +\27%[0m", text(8))
    assert.matches(" \27%[38;5;16;48;5;%d+mmain +\27%[0m", text(256))
    assert.matches("\27%[1;7m>all", text(256))
  end)

  it("takes the number of colours from the environment", function()
    local getenv, vars = os.getenv, {}
    os.getenv = function(name) return vars[name] end -- luacheck: ignore 122
    local function colours(term, more)
      vars = more or {}
      vars.TERM = term
      return terminal.colours()
    end
    local found = { colours(nil), colours "dumb", colours "vt100", colours "linux", colours "xterm-256color",
      colours("xterm", { COLORTERM = "truecolor" }), colours("xterm-256color", { NO_COLOR = "1" }) }
    os.getenv = getenv -- luacheck: ignore 122
    assert.same({ 0, 0, 0, 8, 256, 256, 0 }, found)
  end)
end)
