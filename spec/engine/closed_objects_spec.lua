-- Whatever is dropped, closed, collected or used after its end, in whatever order: no find of the sanitizers, no error
-- but those that name the caller's mistake, nothing left open. spec/support/ops.lua says what is done.

local ops = require "spec.support.ops"

local SEEDS, EACH = 3, 16000

describe("random operations over the simulated kernel", function()
  for seed = 1, SEEDS do
    it(("%d of them, seed %d"):format(EACH, seed), function()
      local r = ops.run(seed, EACH)
      assert.same({}, r.finds)
      assert.is_true(r.ops >= EACH)
      assert.is_true(r.raised > 0)
    end)
  end
end)
