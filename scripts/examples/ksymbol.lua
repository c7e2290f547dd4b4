-- ksymbol: prints code that the kernel generates at run time: BPF programs, trampolines.
-- perfl -a -d 60s scripts/examples/ksymbol.lua     (and load a BPF program meanwhile)

local perfev = require "perfev"

local NEW_OR_GONE = 1 -- PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER

perfev.event { ksymbol = function(r)
  local how = r.flags & NEW_OR_GONE == 0 and "new" or "gone"
  print(("%-4s %016x %6d %s"):format(how, r.addr, r.len, perfev.escape(r.name)))
end }
