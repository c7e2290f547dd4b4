--- The options that scripts which end in a profile have in common, for perfev.args.

local profile = require "perfev.profile"

local M = {
  format = { "-f --format", choices = profile.formats, default = "tree", metavar = "FORMAT",
    help = "tree, top: for a terminal; folded; html, svg: a flame graph; pprof, speedscope, firefox, callgrind" },
  least = { "--least", type = "duration", default = 0, metavar = "TIME", help = "waits at least this long only" },
  user = { "--user", help = "user frames only" },
  kernel = { "--kernel", help = "kernel frames only" },
  title = { "--title", metavar = "TEXT", help = "above the picture" },
}

--- End a script that was told a wrong thing: to standard error, with status 2.
function M.refuse(who, why)
  io.stderr:write(who, ": ", why, "\n")
  os.exit(2, true)
end

--- Both sides are what one gets with neither.
function M.check_sides(opt, who)
  if opt.user and opt.kernel then M.refuse(who, "--user or --kernel, not both") end
end

return M
