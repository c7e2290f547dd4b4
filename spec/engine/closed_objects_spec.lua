-- Objects dropped, closed, collected or used after their end, in random order: no report of the sanitizers, no error
-- except those that name the caller's mistake, no open descriptor. spec/support/ops.lua has the operations.

local ops = require "spec.support.ops"

local SEEDS, EACH = 3, 16000

describe("random operations on the simulated kernel", function()
  for seed = 1, SEEDS do
    it(("cause no leak or internal error (%d, seed %d)"):format(EACH, seed), function()
      local r = ops.run(seed, EACH)
      assert.same({}, r.finds)
      assert.is_true(r.ops >= EACH)
      assert.is_true(r.raised > 0)
    end)
  end
end)
