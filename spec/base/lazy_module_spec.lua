-- Modules that are loaded when they are used.

local lazy = require "perfev.base.lazy_module"

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

describe("a module that is lazy", function()
  it("is loaded once, when something of it is asked for", function()
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
