-- perf's event grammar: the tree of a string, and the message for an invalid one.

local grammar = require "perfev.event.grammar"
local names = require "perfev.event.perf_names"

-- The first alternative of a text that is right.
local function first(text)
  local tree, why = grammar.parse(text)
  assert(tree, why)
  return tree[1]
end

-- An event in few words: kind, name, modifiers, terms.
local function short(node)
  local terms = {}
  for i, term in ipairs(node.terms) do terms[i] = term.value and term.name .. "=" .. term.value or term.name end
  local name = node.system and node.system .. ":" .. node.name or node.name or node.id or node.prefix
    or node.config and node.type .. ":" .. node.config
  return table.concat({ node.kind, tostring(name), node.modifiers, table.concat(terms, ",") }, " "):gsub(" +$", "")
end

describe("an event", function()
  it("has a kind that depends on its form", function()
    for text, expected in pairs {
      cycles = "name cycles", ["cycles:u"] = "name cycles u", ["L1-dcache-load-misses:ukpp"] =
        "name L1-dcache-load-misses ukpp", r1a8 = "raw r1a8", ["r1A8:k"] = "raw r1A8 k", ["316"] = "id 316",
      ["1:0"] = "number 1:0", ["0x3:0x10002:u"] = "number 3:65538 u", ["sched:sched_switch"] =
        "tracepoint sched:sched_switch", ["sched/sched_switch"] = "tracepoint sched:sched_switch",
      ["sched:sched_switch:k"] = "tracepoint sched:sched_switch k", ["sched:*"] = "tracepoint sched:*",
      ["raw_sys*:sys_[!e]*"] = "tracepoint raw_sys*:sys_[!e]*", ["msr/tsc/"] = "pmu msr  tsc",
      ["cpu/event=0x3c,umask=1/u"] = "pmu cpu u event=0x3c,umask=1", ["cpu/r1a8/"] = "pmu cpu  r1a8",
      ["uncore_imc_*/data_read/"] = "pmu uncore_imc_*  data_read", ["cycles/period=9/k"] = "name cycles k period=9",
      ["cycles//u"] = "name cycles u", ["r1a8/config1=3/"] = "raw r1a8  config1=3",
      ["sched:sched_switch/call-graph=fp/u"] = "tracepoint sched:sched_switch u call-graph=fp",
      ["cpu/name='a, b/c',event=1/"] = "pmu cpu  name=a, b/c,event=1",
    } do
      local list = first(text)
      assert.equal(1, #list, text)
      assert.equal(expected, (short(list[1])), text)
      assert.equal(text, list[1].text)
    end
  end)

  it("with a syntax of its own is passed on whole, without its surroundings", function()
    for _, text in ipairs {
      "kprobe:do_sys_open+4", "kretprobe:f", "uprobe:/bin/sh:main", "uretprobe:libc:malloc", "usdt:/bin/x:prov:name",
      "mem:0x1000/4:rw:u", "mem:./app:counter/4:w", "pfm:skl::UOPS_RETIRED:ALL", "skl::UOPS_RETIRED:ALL:c=1",
      "UOPS_RETIRED:ALL:c=1:i",
    } do
      local list = first("cycles, " .. text .. " ,{" .. text .. "} | cs")
      assert.equal(text, list[2].text)
      assert.equal("whole", list[2].kind)
      assert.equal(text, list[3][1].text)
    end
  end)

  it("on memory has modifiers after its access, or after an address", function()
    for text, expected in pairs {
      ["mem:0x1000:rw:u"] = "mem:0x1000:rw u", ["mem:0x1000/4:w:kp"] = "mem:0x1000/4:w kp",
      ["mem:0x1000:u"] = "mem:0x1000 u", ["mem:0x1000:rw"] = "mem:0x1000:rw", ["mem:./app:u"] = "mem:./app:u",
      ["mem:./app:u:w"] = "mem:./app:u:w", ["mem:./app:u:w:u"] = "mem:./app:u:w u",
    } do
      local node = first(text)[1]
      assert.equal(expected, (node.body .. " " .. node.modifiers):gsub(" $", "") .. "")
      assert.equal(text, node.text)
    end
  end)

  it("can have terms with values of every kind", function()
    local terms = first("cycles/period=0x10,name=\"x y\",time/")[1].terms
    assert.same({ "period", "0x10", "name", "x y", "time" },
      { terms[1].name, terms[1].value, terms[2].name, terms[2].value, terms[3].name })
    assert.equal(8, terms[1].at)
    assert.equal(15, terms[1].value_at)
    terms = first("cpu/ event=0x3c, umask=1 /u")[1].terms -- blanks as perf passes over them
    assert.same({ "event", "0x3c", "umask", "1" }, { terms[1].name, terms[1].value, terms[2].name, terms[2].value })
  end)
end)

describe("events", function()
  it("can be lists, groups and alternatives", function()
    local tree = assert(grammar.parse(" a:b , {cycles:u, r1}:S ,cs | x:y "))
    assert.equal(2, #tree)
    assert.equal("a:b", tree[1][1].text)
    assert.is_true(tree[1][2].group)
    assert.equal("{cycles:u, r1}:S", tree[1][2].text)
    assert.equal("S", tree[1][2].modifiers)
    assert.same({ "cycles:u", "r1" }, { tree[1][2][1].text, tree[1][2][2].text })
    assert.equal("cs", tree[1][3].text)
    assert.equal("x:y", tree[2][1].text)
  end)

  it("with a mistake are shown with a caret under it", function()
    for text, expected in pairs {
      ["cycles:x"] = { "'x' is not a modifier", 8 }, ["cycles:uu"] = { "'u' is repeated", 8 },
      ["cycles:upppp"] = { "up to ppp", 8 }, ["cpu/event=/"] = { "a value is expected after event=", 11 },
      ["{a:b,cs"] = { "brace is not closed", 1 }, ["{cs,{cs}}"] = { "groups cannot be nested", 5 },
      ["cycles instructions"] = { "'instructions' is not understood", 8 }, ["cycles,"] = { "an event is expected", 8 },
      ["cycles/period=x/"] = { "period is a number, not 'x'", 15 }, ["cycles/period/"] = { "period needs a number", 8 },
      ["cpu/nr=1/"] = { "'nr' is not supported", 5 }, [""] = { "an event is expected", 1 },
      ["sched:"] = { "a tracepoint's name or modifiers", 7 }, ["a:b[c"] = { "pattern 'b[c' is not closed", 3 },
      ["cpu/event=1,event=2/"] = { "'event' is repeated", 13 }, ["cpu/event=1"] = { "slash is not closed", 4 },
      ["cpu/name='x/"] = { "quote ' is not closed", 10 }, ["cycles | "] = { "an event is expected", 10 },
      ["a:b_{c,d}"] = { "each name in full, a comma between them", 5 },
      ["cycles}"] = { "'}' is not understood", 7 }, ["cycles:"] = { "modifiers are expected", 8 },
      ["{cycles:ppp,cs}:pp"] = { "up to ppp", 2 }, ["uprobe:"] = { "the name after uprobe: is missing", 8 },
    } do
      local tree, why = grammar.parse(text)
      assert.is_nil(tree, text)
      assert.is_true(why:find("event '" .. text .. "': ", 1, true) == 1, why)
      assert.is_truthy(why:find(expected[1], 1, true), why)
      assert.equal(expected[2], #why:match("\n  | [^\n]*\n  | ( *)%^") + 1, why)
    end
  end)
end)

describe("text", function()
  it("of any bytes is read or refused with a caret, and never raises", function()
    local bits = {
      "cycles", "sched", "msr", "r1a8", "316", "1:0", "mem:", "0x1000", "uprobe:", "/bin/sh", "skl::", "UOPS", ":", "/",
      ",", "{", "}", "|", " | ", " ", "=", "u", "pp", "event", "period", "'", '"', "*", "?", "[", "]", "!", "\0", "\n",
      "\255", "..", "-", "%", "config1", "name", "freq", "::", "(", "^", "$",
    }
    math.randomseed(7)
    local read = 0
    for _ = 1, 5000 do
      local parts = {}
      for i = 1, math.random(1, 9) do parts[i] = bits[math.random(#bits)] end
      local text = table.concat(parts)
      local tree, why = grammar.parse(text)
      if tree then read = read + 1 else assert.matches("\n  | [^\n]*\n  | *%^", why) end
    end
    assert.is_true(read > 500 and read < 4500)
  end)
end)

describe("modifiers", function()
  local function fields(word, group, leader)
    local m = assert(grammar.modifiers(word, group, leader))
    local set = {}
    for _, list in ipairs { m.exclude, m.fields } do
      for name, value in pairs(list) do
        if value and value ~= 0 then set[#set + 1] = value == true and name or name .. "=" .. value end
      end
    end
    table.sort(set)
    return table.concat(set, " "):gsub("exclude_", "-")
  end

  it("select sides, guests, precision and scheduling", function()
    for word, expected in pairs {
      [""] = "-guest", u = "-guest -hv -kernel", k = "-hv -user", h = "-kernel -user", uk = "-guest -hv",
      ukh = "-guest",
      G = "-host", H = "-guest", GH = "", uG = "-host -hv -kernel", I = "-idle", p = "-guest precise_ip=1",
      ppp = "-guest precise_ip=3", D = "pinned", e = "exclusive", W = "", S = "", pG = "-host precise_ip=1",
    } do
      assert.equal(expected, (fields(word)), word)
    end
    assert.is_true(grammar.modifiers("S").sample_read)
    assert.is_true(grammar.modifiers("W").weak)
    assert.is_true(grammar.modifiers("P").precise_max)
  end)

  it("of a group are added to its members'; pinned and exclusive to the leader only", function()
    assert.equal("-guest -hv", (fields("u", "k", true)))
    assert.equal("-guest -hv -user", (fields("", "k", false)))
    assert.equal("-guest precise_ip=2", (fields("p", "p", false)))
    assert.equal("-guest exclusive pinned", (fields("", "De", true)))
    assert.equal("-guest", (fields("", "De", false)))
  end)

  it("that are unknown or repeated too often are refused", function()
    assert.is_nil((grammar.modifiers("z")))
    assert.is_nil((grammar.modifiers("pppp")))
    assert.is_nil((grammar.modifiers("pp", "pp")))
  end)
end)

describe("a number", function()
  it("is decimal or hexadecimal, with 64 bits", function()
    assert.equal(16, grammar.number "16")
    assert.equal(-1, grammar.number "0xffffffffffffffff")
    assert.equal(-1, grammar.number "18446744073709551615")
    assert.equal(math.mininteger, grammar.number "9223372036854775808")
    assert.equal(255, grammar.number "0x00000000000000000ff")
    for _, text in ipairs { "", "x", "1x", "0x", "0x10000000000000000", "18446744073709551616",
      "99999999999999999999", "1.5", "-1" } do
      assert.is_nil(grammar.number(text))
    end
  end)
end)

describe("a pattern", function()
  it("matches as in a shell", function()
    for pattern, expected in pairs {
      ["a*"] = "ab abc a", ["a?"] = "ab", ["[ab]*"] = "ab abc b a", ["[!a]"] = "b", ["a[b-c]"] = "ab", ["a.c"] = "",
      ["*"] = "ab abc b a",
    } do
      local found, matches = {}, require("perfev.base.glob").matcher(pattern)
      for _, name in ipairs { "ab", "abc", "b", "a" } do
        if matches(name) then found[#found + 1] = name end
      end
      assert.equal(expected, table.concat(found, " "), pattern)
    end
  end)
end)

describe("an event name of perf", function()
  it("has the kernel's number", function()
    for name, expected in pairs {
      cycles = { 0, 0 }, ["idle-cycles-backend"] = { 0, 8 }, ["ref-cycles"] = { 0, 9 }, cs = { 1, 3 },
      ["cgroup-switches"] = { 1, 11 }, duration_time = { 1, 9 }, ["L1-dcache"] = { 3, 0 },
      ["L1-dcache-load-misses"] = { 3, 0x10000 }, ["l1-d-misses"] = { 3, 0x10000 }, ["LLC-stores"] = { 3, 0x102 },
      ["dTLB-prefetch-misses"] = { 3, 0x10203 }, ["node-speculative-read-miss"] = { 3, 0x10206 },
      ["branch-load-misses"] = { 3, 0x10005 }, branches = { 0, 4 }, branch = { 3, 5 },
      ["L1-icache-Reference"] = { 3, 1 },
    } do
      local found = names.find(name) or {}
      assert.same(expected, { found.type, found.config }, name)
    end
  end)

  it("is refused if no cache has the operation, or if it is unknown", function()
    local found, why = names.find "L1-icache-stores"
    assert.is_nil(found)
    assert.equal("L1-icache is never stored to", why)
    for _, name in ipairs { "L1-dcache-x", "L1-dcache-load-loads", "L1", "cycle", "" } do
      assert.is_nil(names.find(name))
    end
  end)

  it("is listed under each of its names", function()
    for _, name in ipairs(names.all()) do assert.is_table(names.find(name), name) end
    assert.equal(32, #names.cache_names())
  end)
end)
