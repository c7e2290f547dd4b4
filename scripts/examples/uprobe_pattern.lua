-- uprobe_pattern: counts the calls of all functions of a library that a pattern names.
-- perfl scripts/examples/uprobe_pattern.lua -- id   (needs root)

local perfev = require "perfev"

-- Each function is an event of its own, which has its name.
perfev.event { "uprobe:libc:get*id", sample = perfev.count { by = "event", title = "calls" } }
