-- tcpconnect: prints a line for each TCP connection that a task opens: task and addresses.
-- perfl -a tcpconnect --port 443
-- perfl tcpconnect bash -c '</dev/tcp/localhost/22; :'

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "print a line for each TCP connection that a task opens",
  { "--family", choices = { "4", "6" }, metavar = "4|6", help = "print only connections by IPv4 or by IPv6" },
  { "--port", type = "integer", metavar = "N", help = "print only connections to this port" },
  epilog = [[
A line appears when the state becomes SYN_SENT, also for a connection that is
refused later. A call that fails before, as without a route, is missing. The
local port is not printed, because the kernel chooses it after this. Unlike
tcpconnect of bcc, the script has no DNS names, user ids and cgroup filters.]],
}

local TCP, SYN_SENT, IPV4, IPV6 = 6, 2, 2, 10
local where = { "and", { "args.newstate", "==", SYN_SENT }, { "args.protocol", "==", TCP } }
if opt.family then where[#where + 1] = { "args.family", "==", opt.family == "4" and IPV4 or IPV6 } end
if opt.port then where[#where + 1] = { "args.dport", "==", opt.port } end

local print_row, print_heading = tool.table_printer {
  { "time", -11, format = "%.6f", title = "TIME(s)" }, { "pid", 7 }, { "comm", -16 }, { "saddr", -15 },
  { "daddr", -15 }, { "dport", 5 },
}
perfev.begin(print_heading)

local first
perfev.event { "sock:inet_sock_set_state", where = where, sample = function(r, args)
  first = first or r.time
  local source, destination = tool.socket_addresses(args)
  print_row { time = (r.time - first) / 1e9, pid = r.pid, comm = r.comm, saddr = source, daddr = destination,
    dport = args.dport }
end }
