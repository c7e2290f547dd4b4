-- tcplife: prints a line for each TCP session at its end: task, addresses, bytes, duration.
-- perfl -a tcplife --port 443
-- perfl tcplife bash -c '</dev/tcp/localhost/22; :'

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "print a line for each TCP session at its end",
  { "--port", type = "integer", metavar = "N", help = "print only sessions with this local or remote port" },
  epilog = [[
The task is the one that connects, else the one that closes; - if an interrupt
does both, as a reset does. MS is the time since the connection is established,
without TIME_WAIT; of a refused connection, since the attempt. TX and RX are the
bytes that programs write and read before the end (Linux 6.3, else -), without
sendfile and splice. A program that shuts down its side first may read the rest
after the end. Unlike tcplife of bcc, they are not the bytes that TCP
acknowledges. Sessions that are older than the run are missing.]],
}

local TCP, ESTABLISHED, SYN_SENT, SYN_RECV, CLOSE, MSG_PEEK = 6, 1, 2, 3, 7, 2
local sessions = {} -- by socket

local is_chosen = tool.choose_tasks("tcplife", "a session ends on any CPU, outside of its task")
local print_row, print_heading = tool.table_printer {
  { "pid", 6 }, { "comm", -10 }, { "laddr", -15 }, { "lport", 5 }, { "raddr", -15 }, { "rport", 5 }, { "tx", 5 },
  { "rx", 5 }, { "ms", 6, format = "%.2f" },
}
perfev.begin(print_heading)

local function count_bytes(name, key)
  return perfev.event { name, optional = true, fields = { "args.sk", "args.ret" },
    where = { "and", { "args.protocol", "==", TCP }, { "args.ret", ">", 0 },
      { "not", { "args.flags", "&", MSG_PEEK } } },
    sample = function(socket, bytes)
      local one = sessions[socket]
      if one then one[key] = one[key] + bytes end
    end }
end
local sends, receives = count_bytes("sock:sock_send_length", "tx"), count_bytes("sock:sock_recv_length", "rx")

perfev.event { "sock:inet_sock_set_state", where = { "args.protocol", "==", TCP }, sample = function(r, args)
  local socket, state = args.skaddr, args.newstate
  if state == SYN_SENT or state == SYN_RECV then sessions[socket] = { tx = 0, rx = 0, time = r.time } end
  local one = sessions[socket]
  if not one then return end
  if state == ESTABLISHED then one.time = r.time end
  if not one.pid and not tool.is_in_interrupt(args) then
    one.pid, one.comm, one.is_chosen = r.pid, r.comm, is_chosen and is_chosen(r.tid, r.comm)
  end
  if state ~= CLOSE then return end
  sessions[socket] = nil
  if is_chosen and not one.is_chosen or opt.port and args.sport ~= opt.port and args.dport ~= opt.port then return end
  local here, there = tool.socket_addresses(args)
  print_row { pid = one.pid, comm = one.comm, laddr = here, lport = args.sport, raddr = there, rport = args.dport,
    tx = not sends.error and one.tx or nil, rx = not receives.error and one.rx or nil, ms = (r.time - one.time) / 1e6 }
end }
