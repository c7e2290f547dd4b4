-- stat: counts events and prints the columns of perf stat.
-- perfl stat ls -R /usr/share/doc
-- perfl -a -d 5s stat -e page-faults,sched:sched_switch -I 1000
-- perfl -a -d 5s stat -e page-faults,cs --per-socket

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
  { "--per-core", help = "print the sum of each core's CPUs; requires -a or -C" },
  { "--per-die", help = "of each die's" }, { "--per-socket", help = "of each socket's" },
  { "--per-node", help = "of each NUMA node's" },
  { "--per-thread", help = "print each thread separately; requires -p or -t" },
  { "--for-each-cgroup", metavar = "LIST", help = "count in each of these cgroups, as in a,b" },
  { "-D --delay", type = "integer", metavar = "MS", help = "count from MS milliseconds after the start on" },
  { "--interval-count", type = "integer", metavar = "N", help = "stop after N intervals of -I" },
  { "--summary", help = "print the sums of all intervals too, at the end" },
  { "--metrics", metavar = "FILE", help = "read metrics from FILE, a JSON table of perf" },
  { "-M --metric", metavar = "LIST", many = true, help = "print these metrics or groups of --metrics" },
  { "--topdown", help = "print where the CPU's slots go, as Intel's topdown events count them" },
  { "--metric-only", help = "print metrics, and no counts" },
  output = [[
Prints the columns of perf stat: the value, its unit, the event and, after #, a
value that follows from several events. <not supported>: this machine does not
count the event.]],
}

tool.print_stat("stat", opt)
