-- faultstacks: counts page faults by the stack that touched the page: growing memory, waits for files.
-- perfl faultstacks make
-- perfl -a -d 5s faultstacks --major -f html -o faults.html

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "count page faults by the stack that touched the page",
  tool.options.format,
  { "--major", help = "count only faults that waited for a file to be read" },
  { "--minor", help = "count only the others: pages that are new or already in memory" },
  tool.options.user, tool.options.kernel, tool.options.call_graph, tool.options.title,
  tool.options.baseline, tool.options.absolute,
  epilog = [[
Faults inside the kernel for a task count too, as of read(2) into new memory.]],
}

if opt.major and opt.minor then tool.refuse("faultstacks", "--major or --minor, not both") end

local profile = tool.profile("faultstacks", opt, { title = "page faults", values = { "faults", "major" } })

local function count(event, major)
  perfev.event(tool.with_stacks("faultstacks", opt, {
    event, period = 1,
    sample = profile:sampler { by = { "comm", "stack" }, add = function(comm, stack, faults)
      profile:add_under(comm, stack, faults, faults * major)
    end },
  }))
end

-- Each fault is one of the two. page-faults counts both; some recordings have only that.
if not opt.minor then count("major-faults", 1) end
if not opt.major then count("minor-faults | page-faults", 0) end

perfev.done(function() tool.print_profile("faultstacks", profile, opt) end)
