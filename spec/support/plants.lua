-- plants.lua - builds plants.c and its library in a folder, and returns the program's path.

local run = require "spec.support.run"

return function(dir)
  local cc, program = os.getenv "CC" or "gcc", dir .. "/plants"
  local built = run(("%s -shared -fPIC -O1 -DLIBRARY -o %s/libplants.so spec/support/plants.c && "
    .. "%s -O1 -fno-optimize-sibling-calls -o %s spec/support/plants.c -pthread -L%s -lplants -Wl,-rpath,%s")
    :format(cc, dir, cc, program, dir, dir))
  assert(built.code == 0, built.err)
  return program
end
