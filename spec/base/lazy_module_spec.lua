-- Modules that are loaded when they are used.

local lazy = require "perfev.base.lazy_module"
local run = require "spec.support.run"

local NAME = "spec.lazy.module"
local loaded

before_each(function()
  loaded = 0
  package.preload[NAME] = function()
    loaded = loaded + 1
    return setmetatable({ answer = 42, told = "nothing" }, { __call = function(_, n) return n + 1 end })
  end
end)

after_each(function() package.preload[NAME], package.loaded[NAME] = nil, nil end)

describe("a lazy module", function()
  it("is loaded once, at the first access", function()
    local module = lazy(NAME)
    assert.equal(0, loaded)
    module.told = "before"
    assert.equal(0, loaded)
    assert.equal(42, module.answer)
    assert.equal(8, module(7))
    assert.equal(1, loaded)
    assert.equal(module, lazy(NAME))
    assert.equal("before", require(NAME).told)
    module.told = "after"
    assert.equal("after", require(NAME).told)
    local keys = {}
    for key in pairs(module) do keys[#keys + 1] = key end
    table.sort(keys)
    assert.same({ "answer", "told" }, keys)
  end)
end)

describe("a run of perfl", function()
  -- The modules that a script finds loaded when it begins.
  local function loaded_by(script)
    local names = {}
    for name in run.capture(("build/perfl -q -e '%s for name in pairs(package.loaded) do print(name) end'")
      :format(script)):gmatch "[^\n]+" do
      names[name] = true
    end
    assert.truthy(names["perfev.live.session"])
    return names
  end

  it("loads aggregators, text lines and their options only for a script that uses them", function()
    local modules = { "perfev.aggregate.aggregator", "perfev.aggregate.text_line", "perfev.option_tables.aggregator",
                      "perfev.option_tables.counter", "perfev.counter.counter", "perfev.event.processes",
                      "perfl.progress" }
    local names = loaded_by ""
    for _, name in ipairs(modules) do assert.is_nil(names[name], name) end
    names = loaded_by "count {} line \"{comm}\""
    for i = 1, 3 do assert.truthy(names[modules[i]], modules[i]) end
  end)
end)
