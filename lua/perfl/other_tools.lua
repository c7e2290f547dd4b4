--- Maps tools, options and builtins of perf, bpftrace and bcc to their counterparts in perfl.
-- It is used after a word was refused: an answer is lines to print below the message; the last line is "try: …".
-- Source: perf's Documentation/ of 6.1; bpftrace(8); man/man8 of bcc and of perf-tools.

local core = require "perfev.core"
local perfev = require "perfev"

local M = {}

-- ---- verbs and tools ----

local mem = "perf mem record -o FILE, and perfl dump FILE, which has addr and data_src"
local tcp = "perfl -a tpoint sock:inet_sock_set_state"

--- tool -> its counterpart
M.tools = {
  c2c = mem, mem = mem,
  evlist = "perfl report FILE", ["buildid-list"] = "perfl dump -t mmap2 FILE",
  ftrace = "perfl trace PROBE, perfl funclatency FUNCTION",
  help = "perfl --help, perfl NAME --help, man perfl", version = "perfl --version",
  lock = "perfl -a locks",
  probe = "perfl trace PROBE ARG..., which makes the probe and removes it",
  script = "perfl dump FILE, or perfl SCRIPT -i FILE (perfl skeleton begins one)",
  timechart = "perfl -a timeline",
  argdist = "perfl -e 'event { EVENT, sample = hist { value = \"args.NAME\" } }'",
  bashreadline = "perfl -a trace uretprobe:bash:readline '$retval:string'",
  biotop = "perfl -a biosnoop", iosnoop = "perfl -a biosnoop", iolatency = "perfl -a biolatency",
  bitesize = "perfl -a -e 'event { \"block:block_rq_issue\",\n  sample = hist { value = \"args.bytes\" } }'",
  exitsnoop = "perfl -a execsnoop --ends", threadsnoop = "perfl -a procmon",
  funcslower = "perfl funclatency FUNCTION",
  gethostlatency = "perfl -a funclatency libc:getaddrinfo",
  llcstat = "perfl -a stat -e LLC-loads,LLC-load-misses",
  oomkill = "perfl -a tpoint oom:mark_victim",
  pidpersec = "perfl -a stat -e sched:sched_process_fork -I 1000",
  runqlen = "perfl -a runqlat", runqslower = "perfl -a runqlat",
  stackcount = "perfl profile -e EVENT -F 0",
  cachetop = "perfl -a cachestat -I 1s", slabratetop = "perfl -a kmem",
  tcpaccept = "perfl -a tcplife", tcptop = "perfl -a tcplife", tcpstates = tcp,
  tcpretrans = "perfl -a tpoint tcp:tcp_retransmit_skb",
  tplist = "perfl list -v 'SYSTEM:*'", flamediff = "perfl diff -f html BEFORE AFTER",
}

--- The answer for a word that is not the name of a script.
-- @tparam string word      "sched", "opensnoop", "runqlat-bpfcc"
-- @tparam function exists  word -> true if a script has that name
-- @treturn ?string         nil: not a tool of perf, bpftrace or bcc
function M.tool(word, exists)
  local bare = word:gsub("%-bpfcc$", ""):gsub("%.bt$", "")
  if bare ~= word and exists(bare) then return "try: perfl " .. bare end
  if word:find "^%d+$" then return "PIDs are separated by commas, as pgrep -d, prints them\ntry: -p PID,PID" end
  return M.tools[bare] and "try: " .. M.tools[bare]
end

-- ---- options ----

local always = "this is always done\ntry: without it"
local commas = "numbers are printed without commas\ntry: without it"
local whole = "try: a modifier of each event, as in -e cycles:u (user) or cycles:k (kernel)"
local long = "try: -d 100ms, the duration"
local per_cpu = "try: -A, for each CPU"
local fields = "perfl dump prints every field\ntry: -j, or perfl skeleton FILE, a script that prints some"
local stacks = "only functions are shown\ntry: perfl profile -f tree, which has their callers"
local calls = "trace is for functions, as in uprobe:libc:open; for system calls:\n"
  .. "try: perfl strace, perfl syslat, perfl syscount"
local sides = { ["-U -K"] = "try: --user, --kernel", ["-f"] = "try: -f folded", ["-g"] = always,
                ["-s --sort"] = "try: perfl -e 'event { EVENT, sample = count { by = { FIELD, FIELD } } }'" }
local function irqs(pair)
  return { ["-d --dist"] = ("-d sets the duration\ntry: perfl -a latency %s"):format(pair), ["-C --count"] = always,
           ["-N --nanoseconds"] = "try: -j, which has nanoseconds" }
end
local units = { ["-m --milliseconds"] = "try: --unit ms", ["-u --microseconds"] = "try: --unit us",
                ["-N --nanoseconds"] = "try: --unit ns", ["-P --pids -L --tids"] = "try: --per tid" }

--- verb or script -> flags of the other tool -> the answer; any: the answer for every unknown flag. Those of `record`
-- are in perfl/verb/record_options.lua.
M.options = {
  stat = {
    ["--timeout --interval-count"] = long, ["--big-num --no-big-num -B"] = commas, ["--all-user --all-kernel"] = whole,
    ["--per-core --per-socket --per-die --per-node"] = per_cpu,
    ["-G --for-each-cgroup"] = "try: --cgroup PATH", ["-n --null"] = "try: -e duration_time",
    ["-d --detailed"] = "-d sets the duration; details are events\ntry: -e L1-dcache-load-misses,LLC-load-misses",
    ["--append"] = "try: >> FILE", ["-i --no-inherit"] = "try: -t TID, for one thread",
    ["--per-thread"] = "try: -t TID, for each",
  },
  report = { any = "perfl report summarises a recording\ntry: perfl profile -i FILE, for its functions" },
  dump = { ["-F --fields"] = fields, ["--header --header-only"] = "try: perfl report FILE" },
  top = { ["-g -G --call-graph -U -K"] = stacks, ["-s --sort"] = stacks },
  trace = { ["-s --summary -S --with-summary -e --duration PROBE"] = calls },
  strace = {
    ["-f --follow-forks -ff --seccomp-bpf"] = always, ["-w --summary-wall-clock"] = always,
    ["-k --stack-traces"] = "try: perfl profile -e raw_syscalls:sys_enter -F 0",
    ["-t -tt -ttt -r --timestamps"] = "try: perfl -j tpoint raw_syscalls:sys_enter",
    ["-s --string-limit -v -x -xx"] = "memory is not read: buffers are addresses\ntry: without it",
    ["-C --summary"] = "try: -c", ["-S --summary-sort-by"] = "rows are sorted by time\ntry: -j", ["-z"] = "try: -Z",
    ["-P --trace-path"] = "try: -e %file",
  },
  syscount = { ["-L --latency"] = "try: perfl syslat", ["-x --failures"] = "try: perfl syslat --failed" },
  execsnoop = { ["-T --time --timestamp"] = always },
  opensnoop = { ["-T --timestamp"] = always, ["-n --name"] = "try: --comm NAME" }, statsnoop = { ["-t"] = always },
  tpoint = { ["-l"] = "try: perfl list tracepoint", ["-H"] = "try: perfl list -v EVENT" },
  profile = sides, offcputime = sides, offwaketime = sides, wakeuptime = sides,
  kmem = { ["--caller"] = always, ["-l --line"] = "try: --top N" },
  memleak = { ["-o --older"] = "try: --least AGE", ["-O --obj"] = "try: --library FILE" },
  tcplife = { ["-L --localport -D --remoteport"] = "try: --port N", ["-4 -6"] = "try: perfl tcpconnect --family" },
  tcpconnect = { ["-P"] = "try: --port N", ["-4 -6"] = "try: --family 4, --family 6" },
  hardirqs = irqs "irq --per args.irq", softirqs = irqs "softirq --per args.vec",
  sched = { ["-p --pids"] = "try: --per tid", ["-w --wakeups"] = "try: perfl -a tpoint sched:sched_wakeup",
            ["-s --sort"] = "rows are sorted by the average delay\ntry: -j" },
  runqlat = units, cpudist = units, biolatency = units, funclatency = units,
}

local function find_answer(verb, flag)
  local of_verb = M.options[verb] or {}
  for flags, text in pairs(of_verb) do
    if (" " .. flags .. " "):find(" " .. flag .. " ", 1, true) then return text end
  end
  return of_verb.any
end

--- The answer for a message of argparse.
-- @tparam ?string verb     the verb or the script's name
-- @tparam string message   its first line
-- @treturn ?string
function M.option(verb, message)
  local flag = message:match("^unknown option '(%-[^']+)'") or message:match("^option '(%-[^']+)' requires")
    or message:match("^missing argument '(PROBE)'")
  return flag and find_answer(verb, flag)
end

--- The answer for unexpected numbers: bcc's interval and count.
-- @tparam string name      the script's
-- @tparam {string,...} words
-- @treturn ?string
function M.numbers(name, words)
  local seconds = 1
  for _, word in ipairs(words) do
    seconds = word:find("^%d%d?%d?$") and seconds * math.tointeger(tonumber(word))
    if not seconds then return nil end
  end
  return words[1] and ("-d sets the duration\ntry: perfl -a -d %ds %s"):format(seconds, name)
end

-- ---- names in a script ----

local of_record = "in a callback it is a field of the record\ntry: sample = function(r, args) print(r.%s) end"
local of_args = "in a callback it is a field of the payload\ntry: sample = function(r, args) print(args.%s) end"

local globals = {
  printf = "try: print((FORMAT):format(...))", BEGIN = "try: begin(FUNCTION)",
  END = "try: done(FUNCTION)", interval = "try: every(\"1s\", FUNCTION)", exit = "try: stop()",
  lhist = "try: hist { value = FIELD, low = 0, high = 1000, step = 100 }",
  str = "the record has the pointer, not the string\ntry: a probe's argument NAME:string, as in perfl trace",
  clear = "try: a:clear()", zero = "try: a:clear()", strftime = "try: os.date(FORMAT)",
  system = "try: os.execute(TEXT)",
  nsecs = of_record:format "time", pid = of_record:format "pid", tid = of_record:format "tid",
  comm = of_record:format "comm", cpu = of_record:format "cpu", kstack = of_record:format "kstack",
  ustack = of_record:format "ustack", retval = of_args:format "ret", args = of_args:format "NAME",
}

--- The answer for Lua's error about an unknown global.
-- @tparam string message
-- @treturn string  "" if the name is unknown here, too
function M.name(message)
  local global = message:match("^[^\n]*nil value %(global '([%w_]+)'%)")
  if not global or perfev[global] ~= nil then return "" end
  local all = {}
  for name in pairs(perfev) do all[#all + 1] = name end
  local near = core.nearest(global, all)
  local text = globals[global] or near and ("try: %s"):format(near)
  return text and "\n" .. text or ""
end

return M
