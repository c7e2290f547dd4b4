-- perfev.args: declarations, and the command line without a runner.

local args = require "perfev.tool.args"
local run = require "spec.support.run"

local function with_words(words, spec)
  local before = _G.arg
  _G.arg = words
  local ok, values = pcall(args, spec)
  _G.arg = before
  if not ok then error(values, 0) end
  return values
end

local declaration = {
  summary = "counts", epilog = "the end",
  { "-p --per-process", help = "by process" },
  { "--top", type = "integer", default = 10, metavar = "N", help = "so many" },
  { "--every", type = "duration", default = "1s" },
  { "--room", type = "size" },
  { "--ratio", type = "number" },
  { "--order", choices = { "time", "name" }, default = "time" },
  { "event" },
  { "files", args = "*" },
}

describe("perfev.args without a runner", function()
  it("stores every option under its long name", function()
    local opt = with_words({ "-p", "--top", "3", "--every=500ms", "--room", "2M", "--ratio", "0.5",
      "--order", "name", "ev", "a", "b" }, declaration)
    assert.same({ per_process = true, top = 3, every = 500000000, room = 2 << 20, ratio = 0.5,
      order = "name", event = "ev", files = { "a", "b" } }, opt)
    assert.equal("integer", math.type(opt.top))
  end)

  it("compiles a condition on records, an expression or statements", function()
    local spec = { { "--when", type = "condition" } }
    assert.is_true(with_words({ "--when", "r.cpu == 1 and args.pid == 2" }, spec).when({ cpu = 1 }, { pid = 2 }))
    local count = with_words({ "--when", "local n = r.n + 1; return n" }, spec).when
    assert.equal(8, count { n = 7 })
    assert.has_error(function() count {} end)
  end)

  it("applies defaults, converted, and false for a switch that is not set", function()
    local opt = with_words({ "ev" }, declaration)
    assert.same({ per_process = false, top = 10, every = 1000000000, order = "time", event = "ev",
      files = {} }, opt)
  end)

  it("makes an argument optional if it has a default or is not required", function()
    local spec = { { "first", default = "x" }, { "second", required = false } }
    assert.same({ first = "x" }, with_words({}, spec))
    assert.same({ first = "a", second = "b" }, with_words({ "a", "b" }, spec))
  end)

  it("collects several values", function()
    local spec = { { "--pair", args = 2, type = "integer" }, { "rest", args = "+" } }
    assert.same({ pair = { 1, 2 }, rest = { "x" } }, with_words({ "--pair", "1", "2", "x" }, spec))
  end)

  it("accepts a positional value that begins with a dash after --", function()
    assert.same({ x = "-v" }, with_words({ "--", "-v" }, { { "x" } }))
  end)

  it("needs no command line if nothing is required", function()
    assert.same({ v = false }, with_words(nil, { { "-v" } }))
    assert.has_error(function() with_words(nil, { { "event" } }) end)
  end)

  it("collects the values of a repeatable option; otherwise the last value applies", function()
    local spec = { { "-e --event", many = true }, { "-n", type = "integer", many = true, default = { 3 } } }
    assert.same({ event = { "a", "b,c" }, n = { 3 } }, with_words({ "-e", "a", "--event", "b,c" }, spec))
    assert.same({ event = {}, n = { 1, 2 } }, with_words({ "-n1", "-n", "2" }, spec))
    assert.same({ n = 2 }, with_words({ "-n1", "-n", "2" }, { { "-n", type = "integer" } }))
    assert.has_error(function() args.check { { "files", many = true } } end)
    assert.has_error(function() args.check { { "-e", many = true, default = "a" } } end)
  end)

  local function script(words)
    local program = [[
      local args = require "perfev.tool.args"
      local o = args { summary = "counts", epilog = "the end",
        { "--top", type = "integer" }, { "event" } }
      print(o.top, o.event)]]
    local file = os.tmpname()
    run.write_file(file, program)
    local cmd = { "lua5.4", file, table.unpack(words) }
    local r = run(cmd, { env = { LUA_PATH = "lua/?.lua;;", LUA_CPATH = "build/?.so;;" } })
    os.remove(file)
    return r
  end

  it("prints its help and exits with 0", function()
    local r = script { "--help" }
    assert.equal(0, r.code)
    assert.is_truthy(r.out:find("counts", 1, true))
    assert.is_truthy(r.out:find("the end", 1, true))
    assert.is_truthy(r.out:find("--top TOP", 1, true))
    assert.equal("", r.err)
  end)

  it("reports an error and exits as argparse does", function()
    local r = script { "--top", "x", "ev" }
    assert.equal(1, r.code)
    assert.is_truthy(r.err:find("option '--top': 'x' is not a whole number", 1, true), r.err)
    assert.is_truthy(script({}).err:find("missing argument 'EVENT'", 1, true))
    assert.is_truthy(script({ "ev", "--nope" }).err:find("unknown option '--nope'", 1, true))
  end)
end)

describe("a declaration", function()
  local wrong = {
    { "is a table", "text" },
    { "holds tables", { "text" } },
    { "names each option", { { help = "x" } } },
    { "has no unknown key", { { "--top", typ = "integer" } } },
    { "has no unknown key at the top", { sumary = "x" } },
    { "has no second positional word", { { "--top", "integer" } } },
    { "has no unknown type", { { "--top", type = "int" } } },
    { "has flags of one or two dashes", { { "--top -xy" } } },
    { "has no nameless flag", { { "--" } } },
    { "names arguments by one word", { { "two words" } } },
    { "declares a flag once", { { "-x" }, { "-x --long" } } },
    { "declares a name once", { { "--a-b" }, { "a_b" } } },
    { "has a default of its type", { { "--top", type = "integer", default = 1.5 } } },
    { "has a default that can be read", { { "--top", type = "duration", default = "soon" } } },
    { "has valid counts of values", { { "--top", args = "many" } } },
    { "has no option with an optional value", { { "--top", args = "?" } } },
    { "has no default if repeatable", { { "--top", type = "integer", default = 1, many = true } } },
  }
  for _, case in ipairs(wrong) do
    it(case[1], function()
      local ok, why = pcall(args.check, case[2])
      assert.is_false(ok)
      assert.is_truthy(why:find("perfev.args: ", 1, true), why)
    end)
  end

  it("with a mistake is reported at its own line", function()
    local here = debug.getinfo(1, "l").currentline
    local ok, why = pcall(function()
      args { { "--top", type = "int" } }
      return nil
    end)
    assert.is_false(ok)
    assert.is_truthy(why:find(("args_spec.lua:%d: "):format(here + 2), 1, true), why)
  end)

  it("lists its usage, options first", function()
    assert.same({ "[-p]", "[--top N]", "[--every EVERY]", "[--room ROOM]", "[--ratio RATIO]",
      "[--order ORDER]", "EVENT", "[FILES...]" }, args.usage(args.check(declaration)))
    assert.same({ "--must MUST", "[ONE]", "MORE [MORE...]" }, args.usage(args.check {
      { "one", required = false }, { "more", args = "+" },
      { "--must", type = "string", required = true },
    }))
  end)

  it("shows a default in its help as in the source", function()
    local help = args.new_parser "x"
    args.add(help, args.check {
      { "--slot", type = "duration", default = "10ms" }, { "--room", type = "size", default = "2M" },
      { "--wait", type = "duration", default = 0.5 }, { "--top", type = "integer", default = 10 },
    })
    local text = help:get_help()
    for _, written in ipairs { "10ms", "2M", "0.5s", "10" } do
      assert.is_truthy(text:find(("(default: %s)"):format(written), 1, true), text)
    end
  end)

  it("may contain options without a key: a switch with a single letter", function()
    assert.same({ v = true }, with_words({ "-v" }, { { "-v" } }))
  end)
end)

describe("under a runner", function()
  after_each(function() args.parse = nil end)

  it("the runner parses the checked declaration", function()
    local seen
    args.parse = function(declared)
      seen = declared
      return { top = 7 }
    end
    assert.same({ top = 7 }, args { summary = "s", { "--top -t", type = "integer" } })
    assert.equal("s", seen.summary)
    assert.equal("top", seen[1].name)
    assert.same({ "--top", "-t" }, seen[1].flags)
  end)
end)

describe("the words of values", function()
  local declared = args.check {
    { "file", metavar = "FILE" }, { "rest", args = "*" },
    { "-P --per-process" }, { "-T --top", type = "integer", default = 10 },
    { "--least", type = "duration", default = 0 },
    { "--share", type = "number" }, { "-x", metavar = "X" }, { "--each", many = true, metavar = "E" },
    { "--two", args = 2, metavar = "T" }, { "--when", type = "condition", metavar = "LUA" },
  }

  it("give the same values again, and are the same for each way to write them", function()
    for _, words in ipairs {
      { "a" }, { "a", "b", "c" }, { "a", "-P", "-T", "3" }, { "a", "--least", "1.5ms", "--share", "0.1" },
      { "a", "--top=-4", "-x", "=y", "--each", "1", "--each=-2" }, { "a", "--two", "1", "2" }, { "a", "--top", "10" },
    } do
      local values = assert(args.read(declared, words))
      local again = args.words(declared, values)
      assert.same(values, args.read(declared, again))
      assert.same(again, args.words(declared, args.read(declared, again)))
    end
    local function of(...) return args.words(declared, args.read(declared, { ... })) end
    assert.same({ "a", "--per-process", "--top=3", "--least=1500000ns" }, of("-PT3", "a", "--least", "1.5ms"))
    assert.same(of("-PT3", "a", "--least", "1.5ms"), of("--least=1500us", "--top", "3", "--per-process", "a"))
    assert.same({ "a" }, of("a", "--top", "10", "--least", "0"))
    assert.same({ "a", "--when=args.n > 1" }, of("a", "--when", "args.n > 1"))
  end)

  it("are refused with argparse's reason if they do not fit", function()
    local values, why = args.read(declared, { "a", "-T", "x" })
    assert.is_nil(values)
    assert.equal("option '--top': 'x' is not a whole number", why)
  end)
end)
