-- PMUs from sysfs: fields, events, and the numbers of terms.

local core = require "perfev.core"
local event = require "perfev.event.declaration"
local pmu = require "perfev.event.pmu"
local sim = require "perfev.sim"

local E = core.errno
local DEVICES = "/sys/bus/event_source/devices/"

local k

local function add(name, files)
  for file, text in pairs(files) do
    k.files[DEVICES .. name .. "/" .. file] = type(text) == "string" and text .. "\n" or text
  end
end

before_each(function()
  k = sim.new { cpus = "0-3" }
  add("dyn", {
    type = "66666", ["format/event"] = "config:0-31", ["format/param"] = "config:32-47", ["format/flag"] = "config1:0",
    ["events/evt1"] = "event=0xFFFFFFFF,param=?,flag", ["events/evt1.scale"] = "5.0e-1", ["events/evt1.unit"] = "Frogs",
    ["events/evt2"] = "event=0xABCDEF,param=0x45,flag=0x00000",
  })
  core.hooks.set(k.hooks)
end)
after_each(function() core.hooks.clear() end)

-- { type, config, config1 … } of an event string | nil, why
local function attr_of(text)
  local built, why, code = event.build(event.declare({ text }, 1))
  if not built then return nil, why, code end
  local attr = built.attr
  return { attr.type, attr.config, attr.config1, attr.config2, attr.config3, attr.config4 }, built.found
end

local function refused(text, pattern)
  local attr, why, code = attr_of(text)
  assert.is_nil(attr)
  assert.matches(pattern, why)
  return why, code
end

describe("an event of a PMU", function()
  it("has its predefined fields, and the user's values for open ones", function()
    local attr, found = attr_of "dyn/evt1,param=0x770/"
    assert.same({ 66666, 0x770FFFFFFFF, 1, 0, 0, 0 }, attr)
    assert.same({ 0.5, "Frogs" }, { found.scale, found.unit })
    local other, plain = attr_of "dyn/evt2/"
    assert.same({ 66666, 0x4500ABCDEF, 0, 0, 0, 0 }, other)
    assert.is_nil(plain.unit)
  end)

  it("is found without case, as in perf, and otherwise as it is spelled", function()
    for _, text in ipairs { "dyn/EVT2/", "dyn/Evt2/", "EVT2" } do
      assert.equal(0x4500ABCDEF, assert(attr_of(text))[2], text)
    end
    add("dyn", { ["events/EVT2"] = "event=7" })
    assert.equal(7, assert(attr_of "dyn/EVT2/")[2])
    assert.equal(0x4500ABCDEF, assert(attr_of "dyn/evt2/")[2])
    refused("dyn/EVENT=1/", "no field or event called 'EVENT'") -- fields have case
  end)

  it("takes a field's value from the user, at any position", function()
    for _, text in ipairs { "dyn/evt2,param=0x46/", "dyn/param=0x46,evt2/" } do
      assert.equal(0x4600ABCDEF, assert(attr_of(text))[2], text)
    end
  end)

  it("accepts config words, and rNNN for the first", function()
    assert.same({ 66666, 1, 2, 3, 4, 5 }, (attr_of "dyn/config=1,config1=2,config2=3,config3=4,config4=5/"))
    assert.same({ 66666, 0x1a8, 0, 0, 0, 0 }, (attr_of "dyn/r1a8/"))
    assert.same({ 66666, -1, 0, 0, 0, 0 }, (attr_of "dyn/config=0xffffffffffffffff/"))
  end)

  it("accepts the terms of every event", function()
    local built = assert(event.build(event.declare({ "dyn/evt2,period=77,name=frogs,call-graph=fp/u" }, 1)))
    assert.equal(77, built.attr.sample_period)
    assert.is_false(built.attr.freq)
    assert.is_true(built.attr.exclude_kernel)
    assert.equal("frogs", built.name)
    assert.is_truthy(built.attr.sample_type & 32 ~= 0)
  end)

  it("with a wrong spelling is refused with the known fields", function()
    local why, code = refused("dyn/evt2,parm=1/", "dyn has no field or event called 'parm' %(did you mean 'param'%?%)")
    assert.matches("\n  | dyn/evt2,parm=1/\n  |          %^\n  try: one of event, flag, param", why)
    assert.equal(E.EINVAL, code)
    refused("dyn/evt1/", "'evt1' needs a value for param=.*try: dyn/evt1,param=VALUE/")
    refused("dyn/param/", "'param' needs a value: it has 16 bits")
    refused("dyn/param=0x10000/", "param=0x10000 is too large: it has 16 bits.*at most 0xffff")
    refused("dyn/event=-1/", "'event' is a number, not '%-1'")
    local _, missing = refused("dny/evt1/", "no PMU 'dny' %(did you mean 'dyn'%?%).*try: one of dyn")
    assert.equal(E.ENOENT, missing)
    refused("cpu/event=1/", "no PMU 'cpu', as it is in most virtual machines")
  end)

  it("is not searched outside of the PMUs' directory", function()
    k.files["/sys/bus/event_source/etc/type"] = "1\n"
    for _, text in ipairs { "../etc/x/", "..", "dyn/../../x/", ".:x" } do assert.is_nil((attr_of(text))) end
    assert.is_nil((pmu.find "../etc"))
    assert.is_nil((pmu.find ".."))
    assert.is_nil((pmu.find "a/b"))
    assert.same({}, pmu.having "../type")
    assert.is_nil((pmu.alias(assert(pmu.find "dyn"), "../type")))
  end)

  it("can be named without its PMU, and is opened on each PMU that has it", function()
    assert.same({ 66666, 0x4500ABCDEF, 0, 0, 0, 0 }, (attr_of "evt2"))
    assert.is_true(assert(event.build(event.declare({ "evt2:u" }, 1))).attr.exclude_kernel)
    add("other", { type = "7", ["format/event"] = "config:0-7", ["events/evt2"] = "event=1" })
    local units = assert(event.units "evt2")
    assert.same({ "dyn/evt2", "other/evt2" }, { units[1][1].name, units[1][2].name })
  end)
end)

describe("a field", function()
  local function one(format) add("dyn", { ["format/x"] = format }) end

  it("can be in several places, the low bits first", function()
    one "config:0-7,32-35"
    assert.equal(0xd000000ab, assert(attr_of "dyn/x=0xdab/")[2])
    one "config1:8-15,0-3"
    assert.equal(0x340a | 0, assert(attr_of "dyn/x=0xa34/")[3])
    one "config4:63"
    assert.equal(math.mininteger, assert(attr_of "dyn/x/")[6])
    one "config2"
    assert.equal(-2, assert(attr_of "dyn/x=0xfffffffffffffffe/")[4])
    one "config3:0-62"
    assert.equal(math.maxinteger, assert(attr_of "dyn/x=0x7fffffffffffffff/")[5])
    refused("dyn/x=0x8000000000000000/", "too large: it has 63 bits")
  end)

  it("with an invalid format is unusable, but its PMU works", function()
    for text, why in pairs {
      ["config5:0-3"] = "is not a list of bits of a config word", ["config:3-0"] = "are outside a word",
      ["config:0-64"] = "are outside a word", ["config:"] = "is not a list of bits",
      ["config:1,1-2"] = "bit 1 is repeated",
      nonsense = "is not a list of bits", [""] = "is not a list of bits", ["config:0-3-5"] = "are outside a word",
    } do
      one(text)
      refused("dyn/x=1/", "field 'x' of dyn cannot be used: .*" .. why)
      assert.equal(0x4500ABCDEF, assert(attr_of "dyn/evt2/")[2])
    end
    add("dyn", { ["format/x"] = E.EACCES })
    refused("dyn/x=1/", "cannot be used: cannot read " .. DEVICES .. "dyn/format/x: Permission denied")
    assert.equal(3, assert(attr_of "dyn/event=3/")[2])
  end)
end)

describe("a PMU", function()
  it("with several instances is selected by the name without a number, or by a pattern", function()
    for i = 0, 2 do
      add("uncore_imc_" .. i, { type = tostring(20 + i), ["format/event"] = "config:0-7", cpumask = "0" })
    end
    for text, types in pairs {
      ["uncore_imc/event=4/"] = "20 21 22", ["imc/event=4/"] = "20 21 22", ["uncore_imc_1/event=4/"] = "21",
      ["uncore_imc_[02]/event=4/"] = "20 22", ["*imc*/event=4/u"] = "20 21 22", ["imc_2/event=4/"] = "22",
    } do
      local found = {}
      for i, one in ipairs(assert(event.units(text))[1]) do found[i] = one.type end
      assert.equal(types, table.concat(found, " "), text)
    end
    assert.equal("uncore_imc_2/event=4/", assert(event.units "imc/event=4/")[1][3].name)
  end)

  it("reports its CPUs and capabilities", function()
    add("dyn", { cpumask = "0,2-3", ["caps/max_precise"] = "2" })
    local one = assert(pmu.find "dyn")
    assert.same({ 0, 2, 3 }, one.cpus)
    assert.is_true(one.is_uncore)
    assert.same({ max_precise = "2" }, pmu.caps(one))
    assert.same({ "evt1", "evt2" }, pmu.events(one))
  end)

  it("outside of the CPUs is opened on its cpumask only, and not for a task", function()
    add("dyn", { cpumask = "1,3" })
    k.types = { [1] = true, [66666] = { uncore = true, sampling = true } }
    local perfev = require "perfev"
    local s = perfev.session {}
    s:event { "dyn/evt2/", name = "frogs", sample = function() end }
    assert(s:start())
    local cpus = {}
    for _, ev in ipairs(k.events) do
      if ev.attr.type == 66666 then cpus[#cpus + 1] = ev.cpu end
    end
    s:close()
    assert.same({ 1, 3 }, cpus)
    local of_task = perfev.session { tid = 1 }
    of_task:event { "dyn/evt2/", sample = function() end }
    local ok, why = of_task:start()
    assert.is_nil(ok)
    assert.matches("event 'dyn/evt2/': the PMU dyn counts for whole CPUs.*\n  try: %-a, or %-C 1,3", why)
    local elsewhere = perfev.session { cpus = "0" }
    elsewhere:event { "dyn/evt2/", sample = function() end }
    assert.matches("is there for the CPUs 1,3 alone", select(2, elsewhere:start()))
  end)

  it("outside of the CPUs is counted on its cpumask, beside events on all CPUs", function()
    add("dyn", { cpumask = "2" })
    k.types = { [1] = true, [66666] = { uncore = true } }
    local perfev = require "perfev"
    local c = assert(perfev.counter { "dyn/evt1,param=1/", "cpu-clock", all_cpus = true })
    local cpus = {}
    for _, ev in ipairs(k.events) do
      cpus[ev.attr.type] = (cpus[ev.attr.type] or "") .. ev.cpu
    end
    assert.same({ [66666] = "2", [1] = "0123" }, cpus)
    assert.same({ 0.5, "Frogs" }, { c:member("dyn/evt1,param=1/").scale, c:member("dyn/evt1,param=1/").unit })
    c:close()
    local ok, why = perfev.counter { "dyn/evt2/", tid = 1 }
    assert.is_nil(ok)
    assert.matches("counts for whole CPUs", why)
  end)
end)
