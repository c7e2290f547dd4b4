-- The same task by perfl, perf, bpftrace and the tools of bcc: doc/compare.md explains the rows.

local CALL = "syscalls:sys_enter_getppid"
local COUNT_CALLS = "tracepoint:raw_syscalls:sys_enter %s { @[args->id] = count(); }"
local LINE = "tracepoint:syscalls:sys_enter_getppid { printf(\"%d %d\\n\", tid, nsecs); }"
local LINE_OF_PID = "tracepoint:syscalls:sys_enter_getppid /pid == '$PID'/ { printf(\"%d %d\\n\", tid, nsecs); }"
local OPENED = "tracepoint:syscalls:sys_enter_openat { printf(\"%s %s\\n\", comm, str(args->filename)); }"
local TIME_CALLS = [[uprobe:PROGRAM:make_call { @start[tid] = nsecs; }
  uretprobe:PROGRAM:make_call /@start[tid]/ { @ = hist(nsecs - @start[tid]); delete(@start[tid]); }]]
local STACKS = "profile:hz:%d /comm == \"%s\"/ { @[comm, kstack, ustack] = count(); }"
local CAT = "/bin/cat /etc/passwd"
local DELAYS = 15

return function(bench)
  local perf, bpftrace, syscount, funclatency = bench.missing "perf", bench.missing "bpftrace",
    bench.missing "syscount", bench.missing "funclatency"
  local quote, dir, nr = bench.quote, bench.dir, bench.records
  local nr_functions = nr // 10
  local used, recording, out = dir .. "/used", dir .. "/peers.data", dir .. "/peers.out"
  local load = dir .. "/load"

  local function in_shell(command) return "sh -c " .. quote(command) end
  local function calls(count) return ("%s %d %s"):format(load, count or nr, used) end
  local function perfl(words, command) return ("%s -q %s -- %s"):format(bench.program, words, command) end
  local function bpftrace_on(program, command)
    return ("bpftrace -q -e %s -c %s"):format(quote(program), quote(command))
  end
  -- A tool of bcc starts no command: it watches the machine from a second before.
  local function beside(tool, command)
    return in_shell(("%s & sleep 1; %s; kill -INT $!; wait $!"):format(tool, command))
  end

  -- The command's own CPU time goes to the file `used`, as that of bench/load does.
  local compiler = bench.missing "clang" and "gcc" or "clang"
  local compile = ("for f in src/symbol/*.c; do %s -std=gnu11 -Isrc -O2 -S -o /dev/null $f; done"):format(compiler)
  local compiled = "/bin/sh " .. dir .. "/compile.sh" -- bpftrace knows neither quotes nor the search path
  local script = assert(io.open(dir .. "/compile.sh", "w"))
  script:write(("%s/cost sh -c %s 2>&1 | tail -n 1 | cut -d ' ' -f 1 > %s\n"):format(dir, quote(compile), used))
  script:close()
  local task = compiler == "clang" and "clang" or "cc1"

  -- -B: perfl profile needs no build-ids. perf 6.1 aborts over those that another program's events add.
  local function record(hz, to)
    return ("perf record -q -B -e cpu-clock -F %d -g -o %s -- %s"):format(hz, to, compiled)
  end
  local function by_perf(hz, report)
    return in_shell(("%s && perf %s -i %s"):format(record(hz, recording), report, recording))
  end
  local function profile(hz)
    return { title = ("A compiler sampled at %d Hz with stacks, to a list of stacks"):format(hz), scale = 1,
      unit = "s of the tools' CPU", base = "perfl profile", load = used, rows = {
        { "perfl profile", perfl(("profile -F %d -f folded"):format(hz), compiled) },
        { "perf record, perf report", by_perf(hz, "report --stdio -g folded --no-inline --no-children"),
          missing = perf },
        { "perf record, perf script", by_perf(hz, "script --no-inline"), missing = perf },
        { "bpftrace", bpftrace_on(STACKS:format(hz, task), compiled), missing = bpftrace },
      } }
  end
  local function size(command, path) return in_shell(("%s && stat -c %%s %s"):format(command, path)) end
  local function lines(command) return in_shell(command .. " | grep -c .") end
  local function delay(command) return ("%s/delay %d %s"):format(dir, DELAYS, quote("exec " .. command)) end

  local function count_rows()
    return {
      { "perfl syscount", perfl("syscount", calls()), expect = tostring(nr) },
      { "perf trace -s", "perf trace -s -- " .. calls(), missing = perf, leaves_command = true },
      { "perf stat, a counter of each", "perf stat -e 'syscalls:sys_enter_*' -- " .. calls(), missing = perf },
      { "bpftrace @[args->id] = count()", bpftrace_on(COUNT_CALLS:format "/pid == cpid/", calls()),
        expect = tostring(nr), missing = bpftrace },
      { "bpftrace, of every process", bpftrace_on(COUNT_CALLS:format "", calls()), missing = bpftrace },
      { "bcc syscount (libbpf-tools)", beside("syscount", calls()), missing = syscount },
    }
  end
  local function function_rows()
    return {
      { "perfl funclatency", perfl(("funclatency %s:make_call"):format(load), calls(nr_functions)) },
      { "bpftrace hist()", bpftrace_on((TIME_CALLS:gsub("PROGRAM", load)), calls(nr_functions)), missing = bpftrace },
      { "bcc funclatency (libbpf-tools)", beside(("funclatency %s:make_call"):format(load), calls(nr_functions)),
        missing = funclatency },
    }
  end
  local function costs(title, base, nr_calls, rows, command)
    table.insert(rows, 1, { "not traced", command })
    return { title = title, unit = "ns a call more", base = base, measure = "load", load = used,
      untraced = "not traced", per = nr_calls, rows = rows }
  end

  local varied = bench.recording("varied", nr)
  local function read(command) return ("%s %s"):format(command, varied) end
  return {
    { title = ("%d system calls of a task counted by name"):format(nr), unit = "s of the tool's CPU",
      base = "perfl syscount", scale = 1, load = used, memory = true, rows = count_rows() },
    costs("The same: what it costs the task", "perfl syscount", nr, count_rows(), calls()),
    { title = ("%d calls of a function, a histogram of their time"):format(nr_functions),
      unit = "s of the tool's CPU", base = "perfl funclatency", scale = 1, load = used, memory = true,
      rows = function_rows() },
    costs("The same: what it costs the task", "perfl funclatency", nr_functions, function_rows(), calls(nr_functions)),
    profile(99),
    profile(999),
    { title = "The compiler at 999 Hz: what is kept", unit = "bytes", measure = "output",
      base = "perfl profile -f folded", rows = {
      { "perfl profile -f folded", size(perfl(("-o %s profile -F 999 -f folded"):format(out), compiled), out) },
      { "perfl record", size(("%s record -q -e cpu-clock -F 999 -g -o %s -- %s"):format(bench.program, out,
        compiled), out) },
      { "perf record", size(record(999, recording), recording), missing = perf },
      { "bpftrace", size(bpftrace_on(STACKS:format(999, task), compiled) .. " > " .. out, out), missing = bpftrace },
    } },
    { title = ("%d samples of a recording to a list of stacks"):format(nr), unit = "s by the clock", measure = "clock",
      base = "perfl profile", scale = 1, memory = true, rows = {
        { "perfl profile", read(bench.program .. " -q profile -f folded -i") },
        { "perf report -g folded", read "perf report --stdio -g folded --no-inline --no-children -i", missing = perf },
        { "perf script", read "perf script --no-inline -i", missing = perf },
      } },
    { title = "From nothing to the end: the files that `cat /etc/passwd` opens", unit = "ms by the clock",
      measure = "clock", base = "perfl opensnoop", scale = 1e-3, runs = 7, rows = {
        { "perfl opensnoop", perfl("opensnoop", CAT) },
        { "perf trace", "perf trace -e openat " .. CAT, missing = perf },
        { "bpftrace", bpftrace_on(OPENED, CAT), missing = bpftrace },
      } },
    { title = "From a rare event to its line on the terminal", unit = "ms", measure = "output", base = "perfl tpoint",
      rows = {
        { "perfl tpoint", delay(bench.program .. " -q -p $PID tpoint " .. CALL) },
        { "perf trace", delay "perf trace -e getppid -p $PID", missing = perf },
        { "bpftrace printf", delay("bpftrace -q -e '" .. LINE_OF_PID .. "'"), missing = bpftrace },
      } },
    { title = ("%d system calls, a line for each: lines lost"):format(nr), unit = "% of all", measure = "lost",
      lost = nr, rows = {
        { "perfl tpoint", lines(perfl("tpoint " .. CALL, calls())), limit = 0 },
        { "perf record, perf script", lines(("perf record -q -e %s -c 1 -o - -- %s | perf script -i -"):format(
          CALL, calls())), missing = perf },
        { "bpftrace printf", lines(bpftrace_on(LINE, calls())), missing = bpftrace },
      } },
  }
end
