-- skip.lua - wraps busted's `it` with a function to call first: pending() works in an `it`, but is
-- an error in a before_each.
--
--     local it = require "spec.support.skip"(it, function() if why_not then pending(why_not) end end)

return function(it, first)
  return function(sentence, f)
    -- A tail call, so that busted names the line of the spec.
    return it(sentence, function()
      first()
      return f()
    end)
  end
end
