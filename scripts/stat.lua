-- stat: counts events and prints the columns of perf stat.
-- perfl stat ls -R /usr/share/doc
-- perfl -a -d 5s stat -e page-faults,sched:sched_switch -I 1000

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "count events, in the columns of perf stat", all_cpus = true,
  { "-e --events --event", metavar = "LIST", many = true,
    help = "count these, as in a,b,{c,d}; braces: a group (default: as perf stat)" },
  { "-I --interval-print", type = "integer", metavar = "MS", help = "print the counts every MS milliseconds" },
  { "-r --repeat", type = "integer", default = 1, metavar = "N", help = "run N times: mean and deviation" },
  { "-j --json-output", help = "print a JSON object for each event" },
  { "-x --field-separator", metavar = "SEP", help = "print values separated by SEP" },
  { "-A --no-aggr", help = "print each CPU separately; requires -a or -C" },
}

tool.print_stat("stat", opt)
