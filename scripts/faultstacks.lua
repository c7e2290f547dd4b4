-- faultstacks: whose memory grows, or waits for a disk: page faults by the stack that touched the page.
-- perfl faultstacks -- make
-- perfl -a -d 5s faultstacks --major -f html -o faults.html

local perfev = require "perfev"
local show = require "perfev.profile.show"

local opt = perfev.args {
  summary = "page faults, by the stack that touched the page",
  { "-f --format", choices = perfev.profile.formats, default = "tree", metavar = "FORMAT",
    help = "tree, top: for a terminal; folded; html, svg: a flame graph; pprof, speedscope, firefox, callgrind" },
  { "--major", help = "those only that waited for a file to be read" },
  { "--minor", help = "the others only: pages that are new, or in memory already" },
  { "--user", help = "user frames only" },
  { "--kernel", help = "kernel frames only" },
  { "--title", metavar = "TEXT", help = "above the picture" },
  epilog = [[
A fault that the kernel takes for a task (read(2) into new memory) counts, too.]],
}

local function refuse(why)
  io.stderr:write("faultstacks: ", why, "\n")
  os.exit(2, true)
end
if opt.user and opt.kernel then refuse "--user or --kernel, not both" end
if opt.major and opt.minor then refuse "--major or --minor, not both" end

local profile = perfev.profile { title = opt.title or "page faults", values = { "faults", "major" } }
local first, last

local function count(event, major)
  perfev.event {
    event, period = 1, callchain = true,
    exclude_callchain_kernel = opt.user, exclude_callchain_user = opt.kernel,
    sample = function(r)
      first, last = first or r.time, r.time
      profile:add_under(r.comm, r.stack, 1, major)
    end,
  }
end

-- Each is one of the two. page-faults is both; it stands here for recordings that have nothing else.
if not opt.minor then count("major-faults", 1) end
if not opt.major then count("minor-faults | page-faults", 0) end

perfev.done(function()
  profile.duration = first and last - first
  show(profile, opt.format, "faultstacks")
end)
