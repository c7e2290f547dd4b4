-- bpf: prints BPF programs as they are loaded and unloaded; the tag is a hash of the program.
-- perfl -a -d 60s scripts/examples/bpf.lua         (and load a BPF program meanwhile)

local perfev = require "perfev"

local types = { "load", "unload" } -- enum perf_bpf_event_type

perfev.event { bpf = function(r)
  local tag = r.tag:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  print(("%-6s id %d tag %s"):format(types[r.bpf_type] or r.bpf_type, r.id, tag))
end }
