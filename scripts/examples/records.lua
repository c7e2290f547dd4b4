-- records: reads records in the application's own loop, without callbacks.
-- lua5.4 scripts/examples/records.lua              (perfev must be installed; no root needed)

local perfev = require "perfev"

local session = perfev.session { command = { "sh", "-c", "true; env true" } }
session:event { comm = true, task = true }

for r in session:records() do
  if r.type == "comm" then
    print(("%d %s"):format(r.pid, perfev.escape(r.comm)))
  end
end

print(session:totals().records .. " records in all")
