-- perfl's command line: the owner of each word, and the output of each way to end. The first half is pure Lua; the
-- second runs the program, without perf events.

local args = require "perfev.tool.args"
local options = require "perfl.command_line"
local report = require "perfl.message"
local json = require "spec.support.json"
local run = require "spec.support.run"

local function words(line)
  local list = {}
  for word in line:gmatch("%S+") do list[#list + 1] = word end
  return list
end

local scripts = { syscount = true, tpoint = true, ["./my.lua"] = true, ["-"] = true }
local function exists(word)
  return scripts[word] or false
end

local function scan(line)
  return options.scan(words(line), exists)
end

local function parse(line, spec, name)
  return options.parse(scan(line), spec and args.check(spec), name or "syscount")
end

-- All orders of a list.
local function each_order(list, fn, n)
  n = n or #list
  if n <= 1 then return fn(list) end
  for i = 1, n do
    list[n], list[i] = list[i], list[n]
    each_order(list, fn, n - 1)
    list[n], list[i] = list[i], list[n]
  end
end

describe("the script on the command line", function()
  local cases = {
    { "syscount", "syscount", "" },
    { "-a syscount", "syscount", "" },
    { "-d 1s syscount x y", "syscount", "x y" },
    { "-d1s -vvn 5 syscount", "syscount", "" },
    { "syscount -d 1s x", "syscount", "x" },
    { "--top 5 syscount", "syscount", "--top 5" },
    { "--top=5 syscount", "syscount", "--top=5" },
    { "-P syscount", "syscount", "-P" },
    { "-P 3 ./my.lua", "./my.lua", "-P 3" },
    { "nosuch -a", "nosuch", "" }, -- so that the message names the missing script
    { "--top nosuch", nil, "--top nosuch" },
    { "--top nosuch other", "other", "--top nosuch" },
    { "-a -", "-", "" },
    { "-o syscount tpoint", "tpoint", "" }, -- our option's value, though a script's name
    { "-v -p 1,2 -C 0-1 tpoint sched:sched_switch", "tpoint", "sched:sched_switch" },
    { "-v syscount -e cycles x", "syscount", "-e cycles x" }, -- no chunk once there is a script
    { "syscount -ae cycles", "syscount", "-ae cycles" },
    { "", nil, "" },
  }
  for _, case in ipairs(cases) do
    it(("in '%s' is %s"):format(case[1], case[2] or "missing"), function()
      local found = scan(case[1])
      assert.equal(case[2], found.script)
      assert.same(words(case[3]), found.rest)
      assert.is_nil(found.command)
    end)
  end

  it("may follow -e EVENTS; after -e with Lua, no script is looked for", function()
    local function of(...)
      local found = options.scan({ ... }, exists)
      return { found.script or false, found.chunks or false, found.events or false }
    end
    assert.same({ "./my.lua", false, { "cs" } }, of("-e", "cs", "./my.lua"))
    assert.same({ "./my.lua", false, { "cs", "a:b/x=1/u" } }, of("-a", "-ecs", "-e", "a:b/x=1/u", "./my.lua", "x"))
    assert.same({ false, { "event { '*' }" }, { "cs" } }, of("-e", "cs", "-e", "event { '*' }"))
    assert.same({ false, { "cs" }, false }, of("-e", "cs", "nosuch")) -- so that the message names the likely meaning
    assert.same({ false, { "cs" }, false }, of("-e", "cs"))
    assert.same({ false, { "do", "f()", "end" }, false }, of("-e", "do", "-e", "f()", "-e", "end", "./my.lua"))
    assert.same({ false, { "do", "f(", "end" }, false }, of("-e", "do", "-e", "f(", "-e", "end"))
    local spec = { { "-e --event", metavar = "EVENT" }, { "words", args = "*" } }
    local opts, values = parse("-e cs ./my.lua", spec) -- the script's own option, before its name
    assert.same({ "cs" }, { values.event, opts.events })
    assert.same({ "cs" }, parse("-e cs ./my.lua").events)
  end)

  it("is not looked for after --", function()
    local found = scan("-a -- syscount -v --help")
    assert.is_nil(found.script)
    assert.is_nil(found.help)
    assert.same({ "syscount", "-v", "--help" }, found.command)
  end)

  it("may be a chunk of -e, and then every plain word is its argument", function()
    local found = options.scan({ "x", "-e", "print(1)", "-a", "-eprint(2)", "y" }, exists)
    assert.is_nil(found.script)
    assert.same({ "print(1)", "print(2)" }, found.chunks)
    assert.same({ "x", "y" }, found.rest)
  end)

  it("cannot follow a chunk", function()
    local found = options.scan({ "-e", "print(1)", "syscount", "-e", "print(2)" }, exists)
    assert.is_nil(found.script)
    assert.same({ "print(1)", "print(2)" }, found.chunks)
    assert.same({ "syscount" }, found.rest)
  end)

  it("is found together with the options that apply before it runs", function()
    local found = scan("syscount -v --help --i-trust-this")
    assert.is_true(found.help)
    assert.is_true(found.trust)
    assert.is_true(scan("--version").version)
    assert.is_true(scan("-h").help)
    assert.is_nil(scan("-o --version").output)
  end)
end)

describe("options before and after NAME", function()
  local spec = {
    { "-P --per-process" }, { "--top", type = "integer" }, { "--since", type = "duration" },
    { "event" },
  }
  local expected = {
    all_cpus = true, duration = 1500000000, verbose = 2, count = 7,
    chunks = {},
  }

  it("have the same effect in every order", function()
    local nr = 0
    each_order({ "-a", "-d 1500ms", "-vvn 7", "--top 5", "-P", "syscount ev" }, function(parts)
      local found = scan(table.concat(parts, " ") .. " -- ls -a")
      assert.equal("syscount", found.script)
      local opts, values = options.parse(found, args.check(spec), "syscount")
      assert.same(expected, opts)
      assert.same({ per_process = true, top = 5, event = "ev" }, values)
      assert.same({ "ls", "-a" }, found.command)
      nr = nr + 1
    end)
    assert.equal(720, nr)
  end)

  it("have the same effect when written separately, joined or with =", function()
    for _, line in ipairs { "-ad1500ms -vvn7 --top=5 -P syscount ev",
      "-vavn 7 syscount -Pd1500ms ev --top 5", "syscount ev --top=5 -Pavvn7 -d 1500ms" } do
      local opts, values = parse(line, spec)
      assert.same(expected, opts)
      assert.same({ per_process = true, top = 5, event = "ev" }, values)
    end
  end)

  it("belong to perfl if the script declares none, and the other words to the script", function()
    each_order({ "-a", "-d 1s", "syscount x", "y" }, function(parts)
      local line = table.concat(parts, " ")
      local found = scan(line)
      if found.script == "syscount" then
        local opts = assert(options.parse(found, nil, "syscount"))
        assert.is_true(opts.all_cpus)
        assert.equal(1000000000, opts.duration)
        assert.same({ "x", "y" }, found.rest)
      end
    end)
  end)

  it("collect values that may be given repeatedly", function()
    local opts = parse("-p 3,4 syscount -p 9 -t 5-7 -C 0-1,3")
    assert.same({ 3, 4, 9 }, opts.pids)
    assert.same({ 5, 6, 7 }, opts.tids)
    assert.same({ 0, 1, 3 }, opts.cpus)
    assert.is_nil(parse("-a syscount").pids)
  end)
end)

describe("a command without --", function()
  -- -> the words before it, and it
  local function split(line, spec)
    local found = options.take_command(scan(line), spec and args.check(spec), exists)
    return table.concat(found.head, " "), found.command and table.concat(found.command, " "), found
  end

  local flags = { { "-e --event", metavar = "EVENT" }, { "-P --per" }, { "-j --json" }, { "--two", args = 2 } }

  local cases = {
    { "syscount ls -l", "syscount", "ls -l" },
    { "syscount -a ls -a", "syscount -a", "ls -a" },
    { "-d 1s syscount ls", "-d 1s syscount", "ls" },
    { "syscount -d1s -vvn 5 ls -n 7", "syscount -d1s -vvn 5", "ls -n 7" },
    { "syscount -e cycles ls -e x", "syscount -e cycles", "ls -e x" },
    { "syscount -ecycles ls", "syscount -ecycles", "ls" },
    { "syscount --event=cycles ls", "syscount --event=cycles", "ls" },
    { "syscount -Pje cycles ls", "syscount -Pje cycles", "ls" },
    { "syscount --two a b ls", "syscount --two a b", "ls" },
    { "syscount --two=a b ls", "syscount --two=a b", "ls" },
    { "-P syscount git log -- file", "-P syscount", "git log -- file" },
    { "syscount -P -- ls -- x", "syscount -P", "ls -- x" },
    { "syscount ls --help --version", "syscount", "ls --help --version" },
    { "syscount sleep 1", "syscount", "sleep 1" },
    { "syscount 1 10", "syscount 1 10" }, -- bcc's interval and count
    { "syscount -P", "syscount -P" },
  }
  for _, case in ipairs(cases) do
    it(("begins at the expected word in '%s'"):format(case[1]), function()
      local head, command, found = split(case[1], flags)
      assert.same({ case[2], case[3] }, { head, command })
      assert.is_nil(found.help)
      assert.is_nil(found.version)
    end)
  end

  it("is not split off if the script accepts words", function()
    local head, command = split("syscount x ls", { { "kinds", args = "*" }, { "-P" } })
    assert.same({ "syscount x ls" }, { head, command })
    assert.equal("ls", select(2, split("syscount x -- ls", { { "kinds", args = "*" } })))
  end)

  it("may follow -e, whose text is not split", function()
    local found = options.take_command(options.scan({ "-e", "-- a b", "grep", "-e", "-- c d" }, exists), nil, exists)
    assert.same({ "-- a b" }, found.chunks)
    assert.same({ "grep", "-e", "-- c d" }, found.command)
  end)
end)

describe("a verb on the command line", function()
  local verbs = { record = true, list = true }

  local function verb(...)
    local found = options.scan({ ... }, exists, verbs)
    return found.verb, found.verb_words and table.concat(found.verb_words, " ")
  end

  it("receives the options before it, too", function()
    assert.same({ "record", "-q -F 99 ls -q" }, { verb("-q", "record", "-F", "99", "ls", "-q") })
    assert.same({ "record", "-F 99 -g -- ls" }, { verb("-F", "99", "-g", "record", "--", "ls") })
    assert.same({ "record", "-e cycles -e faults" }, { verb("-e", "cycles", "record", "-e", "faults") })
    assert.same({ "list", "-j x" }, { verb("-j", "list", "x") })
  end)

  it("is not recognised after a script or --, as an option's value or, except record, after -e", function()
    assert.is_nil(verb("syscount", "record"))
    assert.is_nil(verb("-a", "--", "record"))
    assert.is_nil(verb("-o", "record", "syscount"))
    assert.is_nil(verb("-e", "print(1)", "list"))
  end)
end)

describe("a command line is refused", function()
  local function refused(line, spec, ...)
    local opts, why = parse(line, spec)
    assert.is_nil(opts)
    for _, part in ipairs { ... } do assert.is_truthy(why:find(part, 1, true), why) end
  end

  it("for an unknown option, with the options of perfl and of the script", function()
    refused("syscount --nope", { { "--top -T" } }, "unknown option '--nope'",
      "syscount has --top -T", "perfl has -a --all-cpus -C --cpu -p --pid")
    refused("syscount --nope", nil, "syscount has no options")
    refused("syscount -aX", nil, "unknown option '-X'")
    refused("syscount -e x", { { "--top -T" } }, "'syscount' has no option '-e'", "before all other words")
  end)

  it("with the nearest option as a suggestion", function()
    refused("syscount --stric", { { "--top" } }, "--strict")
    refused("syscount --tup 5", { { "--top", type = "integer" } }, "Did you mean '--top'?")
    refused("syscount --dry", nil, "unknown option '--dry'; Did you mean '--dry-run'?\nsyscount has")
    refused("syscount --to 5", { { "--top", type = "integer" } }, "--to without -i") -- ours, and whole
    refused("syscount --tops 5", { { "--top", type = "integer" } }, "Did you mean '--top'?")
  end)

  it("with perfl's option for an option of perf", function()
    refused("syscount --count 3", nil, "unknown option '--count'; Did you mean '-n'?")
    refused("syscount --outpu x", nil, "Did you mean '--output'?")
  end)

  it("for an unknown letter, and for a value that begins with a dash, with a remedy", function()
    local _, why = parse("syscount -y")
    assert.matches("^unknown option '%-y'\nsyscount has", why)
    _, why = parse("syscount -d -1")
    assert.matches("^unknown option '%-1'\nwrite a value that begins with a dash after =, as in %-%-name=%-1\n", why)
  end)

  it("with the terminal's control characters escaped", function()
    refused("syscount --\27[31m", nil, "--\\x1b[31m")
  end)

  it("when a value is missing, extra or wrong", function()
    refused("syscount -d", nil, "'-d' requires an argument")
    refused("syscount -d -v", nil, "'-d' requires an argument")
    refused("syscount --strict=1", nil, "'--strict' does not take arguments")
    refused("syscount -d x", nil, "duration 'x'")
    refused("syscount -d 0", nil, "duration '0'")
    refused("syscount -n 0", nil, "count '0'")
    refused("syscount -n 1.5", nil, "count '1.5'")
    refused("syscount -m 1X", nil, "size '1X'")
    refused("syscount -m 16", nil, "size '16': expected 4K to 2G for the ring of each CPU")
    refused("syscount -m 3G", nil, "size '3G': expected 4K to 2G for the ring of each CPU")
    refused("syscount -C 4294967295", nil, "CPU list '4294967295': 4294967295 is not a valid CPU number")
    refused("syscount -p 99999999999", nil, "process list '99999999999': 99999999999 is not a valid process id")
    refused("syscount -C 3-1", nil, "CPU list '3-1'")
    refused("syscount -p 0", nil, "process list '0'")
    refused("syscount -t x", nil, "thread list 'x'")
    refused("syscount --top x", { { "--top", type = "integer" } },
      "'--top': 'x' is not a whole number")
    refused("syscount", { { "event" } }, "missing argument 'EVENT'")
    refused("-v syscount a b -c d", { { "event" }, { "-c --cold" } }, "too many arguments\n",
      "\ntry: perfl -v syscount a -- b -c d")
    refused("syscount x a", { { "kinds", args = "*", choices = { "x", "y" } } }, "must be one of 'x', 'y'",
      "\ntry: perfl syscount x -- a")
  end)

  it("when options contradict each other", function()
    refused("-a -p 1 syscount", nil, "choose one")
    refused("-a --uid root syscount", nil, "-a and --uid at once", "the processes that run now", "try: without -a")
    assert.equal("work*", parse("-a --comm work* syscount").comm)
    refused("-z syscount", nil, "-z without --record\n  it requires a recording\n  try: --record FILE")
    refused("--switch-output 1M syscount", nil, "--switch-output without --record")
    refused("--switch-output 1M --record - syscount", nil, "makes files, and --record is standard output")
    refused("--sim vm --record x syscount", nil, "the simulated kernel has no disk")
    refused("-i - --record y syscount", nil, "-i - and --record at once", "try: -i FILE")
    refused("-i x -a syscount", nil, "-i and -a at once", "try: without -a")
    refused("--from 1 syscount", nil, "--from without -i", "try: -i FILE, or -d")
    refused("--jobs 2 -a syscount", nil, "--jobs without -i", "try: -i FILE")
    refused("-i x --readers 2 syscount", nil, "-i and --readers at once", "try: without --readers")
    refused("-i x --from 3 --to 2 syscount", nil, "--from is later than --to", "try: the other way round")
    refused("-i x --from 50% --to 25% syscount", nil, "--from is later than --to")
    refused("syscount --", nil, "no command after --")
  end)

  it("when a word may be the script or an option's value", function()
    refused("--name syscount tpoint", { { "--name", type = "string" } }, "put it first")
  end)
end)

describe("a script", function()
  it("may declare the letters of perfl except -h, and some of its long options", function()
    local may = {}
    for flag in ("--json --eval --record --no-names --lines --interval --label"):gmatch "%S+" do may[flag] = true end
    for _, flag in ipairs(options.flags) do
      local ok, why = pcall(options.check_conflicts, args.check { { flag } }, "mine")
      if may[flag] or #flag == 2 and flag ~= "-h" then
        assert.is_true(ok, why)
      else
        assert.is_false(ok, flag)
        assert.is_truthy(why:find(("mine declares the option '%s'"):format(flag), 1, true), why)
      end
    end
  end)

  it("keeps every option of perfl by its long name", function()
    for _, row in ipairs(options.groups) do
      for i = 2, #row do assert.is_truthy(row[i][1]:find("--%l"), row[i][1]) end
    end
  end)

  it("gets a letter of both after its name; before it the letter is perfl's", function()
    local spec = { { "-t --threads", type = "integer" }, { "-d --depth" }, { "-a --all" }, { "-m --most", args = 2 } }
    local opts, values = parse("-qd 2s -t 7 -m1M syscount -t 3 -da -m x y", spec)
    assert(opts, values)
    assert.same({ true, 2000000000, { 7 }, 1 << 20 }, { opts.quiet, opts.duration, opts.tids, opts.buffer })
    assert.same({ threads = 3, depth = true, all = true, most = { "x", "y" } }, values)
    opts, values = parse("--threads 4 syscount --tid 8 --duration=1s --quiet", spec)
    assert.same({ true, 1000000000, { 8 } }, { opts.quiet, opts.duration, opts.tids })
    assert.same({ threads = 4, depth = false, all = false }, values)
    opts, values = parse("-vqt7 syscount -v", spec) -- the other letters of a cluster stay
    assert.same({ 2, true, { 7 } }, { opts.verbose, opts.quiet, opts.tids })
    assert.is_nil(values.threads)
  end)

  it("does not change where a command begins", function()
    local spec = args.check { { "-t --threads" }, { "-d --depth", metavar = "N" } }
    for line, command in pairs { ["-t 7 syscount -t ls -l"] = "ls -l", ["-d 1s syscount -d 3 ls"] = "ls",
                                 ["syscount -t ls"] = "ls" } do
      local found = options.take_command(scan(line), spec, exists)
      assert.equal(command, found.command and table.concat(found.command, " "), line)
    end
  end)

  it("that prints JSON by an option of its own does so by perfl's, too", function()
    for _, pair in ipairs { { "-j", "stat" }, { "stat", "-j" } } do
      local r = run { run.perfl, "-q", "--sim", "vm", "-a", pair[1], pair[2], "-e", "cs" }
      assert.same({ 0, "" }, { r.code, r.err })
      assert.matches('^{"counter%-value" : ', r.out)
    end
  end)

  it("in -e gets a letter of both after the text", function()
    local found = options.scan({ "-t", "7", "-e", "x()", "-t" }, exists)
    local opts, values = options.parse(found, args.check { { "-t --threads" } }, "-e")
    assert.same({ { 7 }, true }, { opts.tids, values.threads })
  end)

  it("may declare any other option", function()
    options.check_conflicts(args.check { { "-P --process" }, { "--count" }, { "event" }, { "-j --json-output" } },
      "mine")
    local opts, values = parse("-v syscount -j -ecycles -a", { { "-e --event", type = "string" }, { "-j" } })
    assert.same({ all_cpus = true, verbose = 1 }, opts)
    assert.same({ event = "cycles", j = true }, values)
  end)
end)

describe("help", function()
  local function assert_narrow(text)
    for line in text:gmatch("[^\n]+") do assert.is_true(utf8.len(line) <= 80, line) end
  end

  it("of perfl names every option and exit status in 80 columns", function()
    local text = options.own_help { "syscount" }
    assert_narrow(text)
    for _, flag in ipairs(options.flags) do
      assert.is_truthy(text:find(flag, 1, true), flag)
    end
    for _, part in ipairs { "Examples:", "Exit status:", "128+n", "[--] command" } do
      assert.is_truthy(text:find(part, 1, true), part)
    end
  end)

  it("of a script shows its header, its options and perfl's", function()
    local declared = args.check { epilog = "See also: tpoint.",
      { "--top", type = "integer", default = 3, help = "so many" }, { "event", help = "which" } }
    local text = options.script_help(scan("syscount"), declared, "syscount",
      "counts\nperfl syscount")
    assert_narrow(text)
    for _, part in ipairs { "Usage: perfl [options] syscount [--top TOP] EVENT",
      "counts\nperfl syscount", "Options of syscount:", "so many (default: 3)", "-d DURATION", "See also: tpoint." } do
      assert.is_truthy(text:find(part, 1, true), part)
    end
  end)
end)

describe("the summary line", function()
  it("separates thousands", function()
    assert.equal("0", report.grouped(0))
    assert.equal("999", report.grouped(999))
    assert.equal("1,000", report.grouped(1000))
    assert.equal("123,456", report.grouped(123456))
    assert.equal("1,234,567", report.grouped(1234567))
  end)

  local function stats(more)
    local t = { records = 1300, delivered = 1234, lost = 0, late = 0, ring_bytes = 2 << 20 }
    for key, value in pairs(more) do t[key] = value end
    return t
  end

  it("explains late records unless a line on losses does, and gives a remedy", function()
    assert.same({ "late records arrived after newer ones: a ring that is three quarters full is read before its turn\n"
      .. "try: a larger ring (-m 8M; now 2M)" }, { report.summary_lines(stats { late = 3 }, 0)[2] })
    assert.equal(2, #report.summary_lines(stats { late = 3, lost = 1 }, 0))
    assert.equal(1, #report.summary_lines(stats { late = 3 }, 0, "perf.data"))
    assert.equal("2 records of unknown events (their ids are damaged)",
      report.summary_lines(stats { unknown_id = 2 }, 0)[2])
  end)

  it("contains records, losses, late records and the CPU time", function()
    assert.same({ "1,234 records, 0 lost, 0 late, 0.012 s of CPU" },
      report.summary_lines(stats {}, 0.0123))
  end)

  it("adds the CPU time per record for 10,000 records or more", function()
    assert.same({ "10,000 records, 0 lost, 0 late, 0.012 s of CPU (1,230 ns a record)" },
      report.summary_lines(stats { delivered = 10000 }, 0.0123))
    assert.same({ "9,999 records, 0 lost, 0 late, 0.012 s of CPU" },
      report.summary_lines(stats { delivered = 9999 }, 0.0123))
  end)

  it("gives a remedy for lost records", function()
    local lines = report.summary_lines(stats { lost = 5 }, 0)
    assert.is_truthy(lines[2]:find("-m 8M; now 2M", 1, true), lines[2])
  end)

  it("names the memory where records wait if it was full for most of the losses", function()
    local full = { lost = 5, lost_waiting = 3, moved_peak = (32 << 20) - 72 }
    assert.equal("records were lost because they arrived faster than the script processed them, and filled the memory "
      .. "where they wait\ntry: more memory for waiting records (--max-memory 128M; now half of 64M), a filter or "
      .. "fewer events, or less work per record", report.summary_lines(stats(full), 0)[2])
    full.lost_waiting = 2
    assert.is_nil(report.summary_lines(stats(full), 0)[2]:find("--max-memory", 1, true))
  end)

  it("adds failed callbacks and malformed records", function()
    local lines = report.summary_lines(stats { malformed = 2, callback_errors = 1000 }, 0)
    assert.equal("1,000 failed callbacks, 2 malformed records", lines[2])
  end)
end)

-- perfl's program with a session that plays a prepared story: no kernel, no C.
local driver = [==[
local play = load("return " .. os.getenv "PLAY")()
local S = { opts = {}, events = 0 }
local session = { default = function() return S end, event_without_callback = function() end }
function S:declared() return self.events end
function S:configure(opts) self.opts = opts end
function S:plan() return { "cpu-clock on \27[31mcpu 0" }, true end
function S:stop() self.stopped = true end
function S:totals()
  return { records = play.records or 11, delivered = play.records or 9,
    lost = play.lost or 0, late = 0, ring_bytes = 4096, lost_own = play.lost_own }
end
function S:run()
  session.before_default_start()
  self.started = true
  self.command_status, self.recorded = play.command, play.recorded and {}
  if play.caught then
    play.signal = play.caught
    print("asked", self._keep_going())
  end
  if play.signal then self.opts.watch[2]() end
  if play.callback then
    local ok, trace = xpcall(error, debug.traceback, play.callback)
    if self.opts.strict then return ok or nil, trace end
    self.opts.on_error(trace, "sample")
  end
  for _, level in ipairs { 1, 2 } do
    if self.opts.log then self.opts.log(level, "level " .. level) end
  end
  if play.refused then return nil, play.refused, 1 end
  self.finished = true
  return true
end
package.loaded["perfev.core"] = { exe = function() return "/" end }
local P = { _VERSION = "0", args = require "perfev.tool.args" }
function P.event() S.events = S.events + 1 end
function P.run() return S:run() end
function P.show()
  local keys, opts = {}, S.opts
  for key in pairs(opts) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do
    local value = opts[key]
    if type(value) == "table" and key ~= "watch" then value = table.concat(value, " ") end
    if type(value) ~= "function" and key ~= "watch" then print(key, value) end
  end
end
P.hooks = { log = function(fn) fn "read(3) = 0" end }
local native = {
  signal = function() return play.signal end, heed = function() print "heeded" end,
  signal_fd = function() return 3 end,
  cpu_time = function() return 0.5 end, uid = 1, euid = 1, elevated = false,
  flush = function()
    if play.errno then return nil, "broken", play.errno end
    return io.stdout:flush()
  end,
}
package.loaded["perfev"], package.loaded["perfev.live.session"] = P, session
package.loaded["perfl.core"] = native
package.loaded["perfev.probe.tracefs_probes"] = { sweep_once = function() end }
package.loaded["perfev.aggregate.aggregator"] = { unread = function() return {} end }
package.loaded["perfl.verb.record"] = {
  parse = function() return { verbose = 0, all_cpus = true }, P.event end,
  summary_line = function() return play.recorded end,
}
require "argparse" -- as perfl carries it
require "perfl.other_tools"
local status, number = require("perfl.main").main(arg)
print(status, number)
]==]

describe("the life of a run", function()
  local dir

  setup(function()
    dir = run.tempdir()
    run.write_file(dir .. "/driver.lua", driver)
  end)
  teardown(function() run.remove(dir) end)

  local function play(how, ...)
    local r = run({ "lua5.4", dir .. "/driver.lua", ... },
      { env = { PLAY = how, LUA_PATH = "lua/?.lua;lua/?/init.lua;;" } })
    assert.equal(0, r.code, r.err)
    r.status, r.number = r.out:match("(%-?%d+)\t?(%d*)[^\n]*\n$")
    r.status, r.number = tonumber(r.status), tonumber(r.number)
    return r
  end

  local endings = {
    { "0 without a command", "{}", 0 },
    { "the command's status", "{command={exit=5}}", 5 },
    { "128 plus the signal that ended the command", "{command={signal=9}}", 137 },
    { "127 when the command does not exist", "{refused='x', command={exit=127}}", 127 },
    { "126 when the command cannot be executed", "{refused='x', command={exit=126}}", 126 },
    { "1 when the kernel refuses", "{refused='x', command={exit=5}}", 1 },
    { "0 though a callback failed", "{callback='boom'}", 0 },
    { "1 when a callback failed under --strict", "{callback='boom'}", 1, "--strict" },
    { "0 though records were lost", "{lost=3}", 0 },
    { "3 for losses under --fail-on-lost", "{lost=3, command={exit=5}}", 3, "--fail-on-lost" },
    { "128 plus the received signal", "{signal=15, command={signal=15}}", 143 },
    { "141 when the reader has closed the pipe", "{errno=32, command={exit=5}}", 141 },
    { "1 when the output cannot be written", "{errno=28, command={exit=5}}", 1 },
  }
  for _, case in ipairs(endings) do
    it("ends with " .. case[1], function()
      local r = play(case[2], "-a", "-e", "event{}", case[4])
      assert.equal(case[3], r.status, r.err)
    end)
  end

  it("checks for a signal between rounds, so that output at the end is not interrupted", function()
    assert.matches("^heeded\nasked\tsignal\n", play("{caught=2}", "-a", "-e", "event{}").out)
  end)

  it("ends by the received signal", function()
    assert.equal(2, play("{signal=2}", "-a", "-e", "event{}").number)
    assert.is_nil(play("{}", "-a", "-e", "event{}").number)
  end)

  it("reports a failure once, and prints no summary line if the run never started", function()
    local r = play("{refused='cannot do it\\n  because', records=0}", "-a", "-e", "event{}")
    assert.equal("perfl: cannot do it\n  because\n", r.err)
  end)

  it("reports the losses of a recording, task names included", function()
    local r = play("{lost=3, lost_own=7, recorded='recorded, 3 lost'}", "record")
    assert.matches("^perfl: recorded, 3 lost\nperfl: records were lost .- than they were written\n  try: .-\n"
      .. "perfl: 7 side%-band records lost, so that names may be missing\n$", r.err)
    assert.equal("perfl: recorded\n", play("{recorded='recorded'}", "record").err)
  end)

  it("prints nothing when the reader has closed the pipe", function()
    assert.equal("", play("{errno=32}", "-a", "-e", "event{}").err)
  end)

  it("prints a summary line, and -q suppresses it", function()
    assert.equal("perfl: 9 records, 0 lost, 0 late, 0.500 s of CPU\n",
      play("{}", "-a", "-e", "event{}").err)
    assert.equal("", play("{}", "-aq", "-e", "event{}").err)
  end)

  it("reports opened events with -v, and every system call with -vv", function()
    assert.equal("", play("{}", "-aq", "-e", "event{}").err)
    assert.equal("perfl: level 1\nperfl: level 2\n", play("{}", "-aqv", "-e", "event{}").err)
    assert.equal("perfl: read(3) = 0\nperfl: level 1\nperfl: level 2\n",
      play("{}", "-aqvv", "-e", "event{}").err)
  end)

  it("passes the options of the command line to the session", function()
    local r = play("{}", "-p", "3,4", "-t5", "-C", "0-1", "-d", "2s", "-n", "7", "-m", "1M",
      "-e", "event{} run() show()", "--", "ls", "-a")
    assert.equal("buffer\t1048576\ncommand\tls -a\ncount\t7\ncpus\t0 1\nduration\t2000000000ns\n"
      .. "exclude_self\ttrue\npid\t3 4\nstrict\tfalse\ntid\t5\n0\tnil\n", r.out)
  end)

  it("does not repeat a run that the script has made itself", function()
    local _, times = play("{}", "-a", "-e", "event{} run()").err:gsub("records", "")
    assert.equal(1, times)
  end)

  it("prints the plan of --dry-run, also when the script calls run itself", function()
    for _, text in ipairs { "event{}", "event{} run() print 'ran'" } do
      local r = play("{}", "-a", "--dry-run", "-e", text)
      assert.equal("cpu-clock on \\x1b[31mcpu 0\n0\tnil\n", r.out)
      assert.equal("", r.err)
    end
  end)
end)

describe("perfl", function()
  local built = io.open(run.perfl) ~= nil
  local dir

  local function perfl(argv, opts)
    if not built then pending("no " .. run.perfl) end
    return run({ run.perfl, table.unpack(argv) }, opts)
  end

  local function script(name, text)
    return run.write_file(dir .. "/" .. name, text)
  end

  local function contains(text, ...)
    for _, part in ipairs { ... } do assert.is_truthy(text:find(part, 1, true), text) end
  end

  setup(function() dir = run.tempdir() end)
  teardown(function() run.remove(dir) end)

  it("prints version and help, and exits with 0", function()
    local r = perfl { "--version" }
    assert.equal(0, r.code)
    assert.is_truthy(r.out:find("^perfl %S+\n$"), r.out)
    r = perfl { "--help" }
    assert.equal(0, r.code)
    contains(r.out, "Usage: perfl", "\nScripts: annotate biolatency biosnoop ", " syscount ")
    assert.equal("", r.err)
  end)

  it("requires a script", function()
    local r = perfl {}
    assert.equal(2, r.code)
    contains(r.err, "perfl: no script given")
    contains(perfl { "--vers" }.err, "unknown option '--vers'; Did you mean '--version'?")
    contains(perfl { "-o" }.err, "option '-o' requires an argument")
  end)

  it("lists the built-in scripts if no script has the name", function()
    local r = perfl { "no_such_script" }
    assert.equal(2, r.code)
    contains(r.err, "perfl: no script is named 'no_such_script'")
    r = perfl { dir .. "/nothing.lua" }
    assert.equal(2, r.code)
    contains(r.err, "no such file")
    contains(perfl { dir }.err, "it is a directory")
    r = run(("%s - < %s"):format(run.perfl, dir))
    assert.equal(1, r.code)
    contains(r.err, "cannot read the script from standard input: Is a directory")
    r = perfl { "doctro" }
    contains(r.err, "did you mean 'doctor'?")
    for line in r.err:gmatch("[^\n]+") do assert.is_true(#line <= 80, line) end
  end)

  it("suggests the missing require to a script; -e needs none", function()
    local r = perfl { script("bare.lua", "event { 'dummy' }") }
    contains(r.err, "bare.lua:1: attempt to call a nil value (global 'event')",
      [[try: local perfev = require "perfev", and perfev.event]])
    contains(perfl { script("bare.lua", "perfev.event { 'dummy' }") }.err, [[try: local perfev = require "perfev"]])
    assert.is_nil(perfl { script("bare.lua", "nosuch()") }.err:find("require"))
  end)

  it("distinguishes a bpftrace program from Lua", function()
    local r = perfl { "-e", "tracepoint:sched:sched_switch /pid == 3/ { @[comm] = count(); }" }
    assert.equal(1, r.code)
    contains(r.err, "this looks like bpftrace's", [[try: -e 'event { "sched:sched_switch", sample = print }']])
    assert.is_nil(perfl { "-e", "session:event { @ }" }.err:find("bpftrace"))
  end)

  it("distinguishes a program from a script", function()
    local r = perfl { "/bin/sh" }
    assert.equal(1, r.code)
    contains(r.err, "'/bin/sh' is a program, not a script", "try: perfl SCRIPT -- /bin/sh")
  end)

  it("reports an option that the session refuses, without a source line", function()
    local r = perfl { "--comm", "", "-e", "event { 'dummy' }" }
    assert.equal(2, r.code)
    assert.equal("perfl: comm must be the name of a process, not ''\n  try: perfl --help\n", r.err)
  end)

  it("runs no script by name from the working directory", function()
    script("here", "print 'ran'")
    local r = perfl({ "here" }, { cwd = dir })
    assert.equal(2, r.code)
    assert.equal("", r.out)
    contains(r.err, "./here")
  end)

  it("requires modules from the script's directory, but not from the working directory", function()
    script("planted.lua", "return 'beside the script'")
    local path = script("asks.lua", "print(pcall(require, 'planted'))  print(package.path)")
    local r = perfl({ path }, { cwd = "/" })
    contains(r.out, "true\tbeside the script")
    assert.is_nil(r.out:find("%./%?"))
    r = perfl({ "-e", "print((pcall(require, 'planted')))" }, { cwd = dir,
      env = { LUA_PATH = "./?.lua;;" } })
    assert.equal("false\n", r.out)
  end)

  it("runs text from standard input, and skips a first line that starts with #!", function()
    local r = perfl({ "-", "a" }, { stdin = "#!/usr/bin/perfl\nprint(arg[0], ...)" })
    assert.equal("-\ta\n", r.out)
    assert.equal(0, r.code)
  end)

  it("reports the line of a syntax error", function()
    local r = perfl { script("bad.lua", "\nlocal x = = 3\n") }
    assert.equal(1, r.code)
    assert.is_truthy(r.err:find("^perfl: .*bad%.lua:2: "), r.err)
    r = perfl { "-e", "print(" }
    assert.equal(1, r.code)
    contains(r.err, "perfl: -e:1: ")
    assert.is_nil(r.err:find("looks like an event", 1, true))
    r = perfl { "-e", "cycles:u", "-e", "faults" } -- as perf has it
    contains(r.err, "perfl: -e:2: ", "'cycles:u,faults' looks like an event",
      "try: perfl stat -e 'cycles:u,faults'")
  end)

  it("refuses an event of -e that the script cannot use", function()
    local path = script("none.lua", "local perfev = require 'perfev'\nperfev.event { 'cs', sample = print }")
    local r = perfl { "-e", "page-faults", path, "--", "true" }
    assert.equal(2, r.code)
    contains(r.err, "perfl: -e 'page-faults': none has no event \"*\" to replace",
      "try: event { \"*\", sample = print } in it")
  end)

  it("reports the line where a script fails, with a traceback that ends at the script", function()
    local r = perfl { script("fails.lua", "local function f() error('boom') end\nf()") }
    assert.equal(1, r.code)
    contains(r.err, "fails.lua:1: boom", "stack traceback", "fails.lua:2:")
    assert.is_nil(r.err:find("lua/perfl/", 1, true))
  end)

  it("escapes terminal control characters in an error", function()
    local r = perfl { "-e", "error('\\27[31mred\\nperfl: forged')" }
    contains(r.err, "\\x1b[31mred", "\n  perfl: forged")
    assert.is_nil(r.err:find("\27", 1, true))
  end)

  it("survives error objects of every kind", function()
    for _, text in ipairs { "error()", "error({})", "error(setmetatable({}, {__tostring = error}))",
      "error(print)", "local t = setmetatable({}, {__close = function() error 'late' end})\n"
      .. "local c <close> = t" } do
      local r = perfl { "-e", text }
      assert.equal(1, r.code, text)
      assert.is_truthy(r.err:find("^perfl: "), r.err)
    end
  end)

  it("prints an error object by its __tostring or its own fields, in a callback and outside", function()
    local said = "setmetatable({ code = 5 }, { __tostring = function() return 'said it' end })"
    local fields = "{ code = 5, where = 'there\\27', more = {}, f = print }"
    local cases = { [said] = "said it", [fields] = '{ code = 5, f = a function, more = {...}, where = "there\\x1b" }',
                    ["setmetatable({ 7 }, { __tostring = error, __index = error, __pairs = error })"] = "{ [1] = 7 }",
                    ["12"] = "12" }
    for object, text in pairs(cases) do
      for _, strict in ipairs { "--strict", "-q" } do
        local r = perfl { strict, "--sim", "vm", "-a", "-d", "20ms", "-e",
          ("every('5ms', function() error(%s) end)"):format(object) }
        contains(r.err, "perfl: a callback failed in every", "\n  " .. text .. "\n  stack traceback:\n")
        assert.equal(strict == "-q" and 0 or 1, r.code)
      end
      contains(perfl({ "-e", ("error(%s)"):format(object) }).err, "perfl: " .. text .. "\n  stack traceback:\n")
    end
  end)

  it("runs no compiled Lua", function()
    local r = perfl { script("compiled.lua", string.dump(function() end)) }
    assert.equal(1, r.code)
    contains(r.err, "compiled Lua")
    r = perfl { "-e", "print(load(string.dump(function() end)))" }
    contains(r.out, "nil\t")
  end)

  describe("as root", function()
    local it = require "spec.support.skip"(it, function()
      if not run.root then pending "needs root" end
    end)
    -- /etc/passwd of Debian: only user 1 has group 1; user 4 and nobody share group 65534.
    local ALONE, SHARING, SHARED_GROUP = 1, 4, 65534

    local function file_of(name, owner, mode, text)
      local path = script(name, text or "print 'ran'")
      assert(os.execute(("chown %s %s && chmod %s %s"):format(owner, path, mode, path)))
      return path
    end

    local function refused(r, path, why, remedy)
      assert.same({ 1, "" }, { r.code, r.out })
      contains(r.err, ("perfl: will not run '%s' as root: %s\n"):format(path, why),
        "  try: " .. remedy:format(path) .. "\n")
    end

    it("runs no script that every user may write, and prints the command that changes this", function()
      local path = file_of("theirs.lua", "0:0", "666")
      refused(perfl { path }, path, "every user may write it", "chmod o-w '%s'")
      assert.equal("ran\n", perfl({ "--i-trust-this", path }).out)
      assert(os.execute(perfl({ path }).err:match "try: ([^\n]+)"))
      assert.equal("ran\n", perfl({ path }).out) -- root's own group may write it still
    end)

    it("runs no script of another user than root and the caller of sudo", function()
      local path = file_of("theirs.lua", ALONE .. ":0", "644")
      refused(perfl { path }, path, "it belongs to user 1", "perfl --i-trust-this '%s'")
      for _, name in ipairs { "SUDO_UID", "PKEXEC_UID" } do
        assert.equal("ran\n", perfl({ path }, { env = { [name] = tostring(ALONE) } }).out, name)
      end
    end)

    it("runs a script that its owner's private group may write, as with umask 002", function()
      local path = file_of("own.lua", ("%d:%d"):format(ALONE, ALONE), "664")
      assert.equal("ran\n", perfl({ path }, { env = { SUDO_UID = tostring(ALONE) } }).out)
    end)

    it("runs no script that a group of several users may write", function()
      local path = file_of("shared.lua", ("%d:%d"):format(SHARING, SHARED_GROUP), "664")
      local sudo = { env = { SUDO_UID = tostring(SHARING) } }
      refused(perfl({ path }, sudo), path, "group 65534 may write it", "chmod g-w '%s'")
      assert(os.execute(perfl({ path }, sudo).err:match "try: ([^\n]+)"))
      assert.equal("ran\n", perfl({ path }, sudo).out)
      path = file_of("foreign.lua", ("%d:%d"):format(ALONE, 2), "664") -- not the owner's primary group
      refused(perfl({ path }, { env = { SUDO_UID = tostring(ALONE) } }), path, "group 2 may write it", "chmod g-w '%s'")
    end)

    it("runs no script that a private group with another member may write", function()
      local path, group = file_of("joined.lua", ("%d:%d"):format(ALONE, ALONE), "664"), dir .. "/group"
      local text = run.slurp "/etc/group":gsub("(\n[^:\n]+:[^:\n]*:1:)[^\n]*", "%1nobody")
      script("group", text)
      local alone = ("unshare -m sh -c 'mount --bind %s /etc/group && exec \"$@\"' sh "):format(group)
      if not os.execute(alone .. "true 2>/dev/null") then pending "no mount namespace can be made here" end
      local r = run(alone .. run.quote(run.perfl) .. " " .. path, { env = { SUDO_UID = tostring(ALONE) } })
      refused(r, path, "group 1 may write it", "chmod g-w '%s'")
    end)

    it("applies the same rule to modules and to files of dofile and loadfile", function()
      local path = file_of("part.lua", ALONE .. ":0", "644", "return 'part'")
      for code, result in pairs {
        [("print(pcall(dofile, %q))"):format(path)] = "false\twill not run '" .. path .. "' as root",
        [("print(loadfile(%q))"):format(path)] = "nil\twill not run '" .. path .. "' as root",
        [("package.path = %q print(pcall(require, 'part'))"):format(dir .. "/?.lua")] = "false\t",
      } do
        local r = perfl { "-e", code }
        contains(r.out, result, "it belongs to user 1")
        assert.is_nil(perfl({ "--i-trust-this", "-e", code }).out:find "will not run")
        assert.is_nil(perfl({ "-e", code }, { env = { SUDO_UID = "1" } }).out:find "will not run")
      end
    end)

    it("refuses to write its output into another user's file, and does not empty it", function()
      local path = file_of("output", ALONE .. ":0", "666", "theirs")
      local r = perfl { "-o", path, "-e", "print 'mine'" }
      assert.same({ 1, "theirs" }, { r.code, run.slurp(path) })
      contains(r.err, ("perfl: cannot write the output: '%s' belongs to user 1, who could read it\n"):format(path),
        "  try: -o with a new file\n")
      assert.equal(0, perfl({ "-o", path, "-e", "print 'mine'" }, { env = { SUDO_UID = "1" } }).code)
      assert.equal("mine\n", run.slurp(path))
    end)
  end)

  it("refuses to write into a FIFO that no process reads, instead of waiting", function()
    local fifo = dir .. "/fifo"
    assert(os.execute("mkfifo " .. fifo))
    local r = perfl { "-o", fifo, "-e", "print 'lost'" }
    assert.equal(1, r.code)
    contains(r.err, "perfl: cannot write the output: ", "no process reads this FIFO",
      "try: start the reader first")
    -- A descriptor that is open both ways reads it.
    r = run(("exec 3<> %s; %s -o %s -e \"print 'read'\"; head -n 1 <&3"):format(fifo, run.quote(run.perfl), fifo))
    assert.equal("read\n", r.out, r.err)
  end)

  it("refuses to be set-uid", function()
    if not run.root then pending("needs root") end
    if not built then pending("no " .. run.perfl) end
    if run.sanitized then pending("the sanitizers do not start set-uid programs") end
    local copy = dir .. "/suid"
    assert(os.execute(("cp %s %s && chown nobody %s && chmod 4755 %s"):format(run.perfl, copy,
      copy, copy)))
    local r = run({ copy, "--version" })
    assert.equal(77, r.code)
    assert.equal("", r.out)
  end)

  it("passes a script its arguments", function()
    local r = perfl { "-e", "print(#arg, arg[0], ...)", "one", "-v", "two words" }
    assert.equal("2\t-e\tone\ttwo words\n", r.out)
  end)

  it("gives -e the names of the module, then the globals", function()
    local r = perfl { "-e", "x = 1 print(x, event == perfev.event, type(print))",
      "-e", "print(_G.x)" }
    assert.equal("1\ttrue\tfunction\nnil\n", r.out)
  end)

  it("shows a script's help without running the code after its declaration", function()
    local path = script("helped.lua", "-- helped: shows help.\n-- perfl helped.lua\n"
      .. "require('perfev').args { { '--top', help = 'so many' } }\nprint 'ran'")
    local r = perfl { path, "--help" }
    assert.equal(0, r.code)
    contains(r.out, "helped: shows help.", "so many", "-d DURATION")
    assert.is_nil(r.out:find("ran", 1, true))
  end)

  it("shows the help of a script that declares nothing without running it", function()
    local r = perfl { script("silent.lua", "-- silent: says nothing.\nprint 'ran'"), "--help" }
    assert.equal(0, r.code)
    contains(r.out, "silent: says nothing.")
    assert.is_nil(r.out:find("\nran", 1, true))
  end)

  it("does not run a script with wrong options", function()
    local r = perfl { script("plain.lua", "print 'ran'"), "--nope" }
    assert.equal(2, r.code)
    assert.equal("", r.out)
    contains(r.err, "unknown option '--nope'", "plain has no options", "perfl has", "--help")
  end)

  it("exits with 2 even if the script caught the refusal", function()
    local r = perfl { "-e", "pcall(args, { { 'event' } }) event { 'cpu-clock', sample = print }" }
    assert.equal(2, r.code)
  end)

  it("refuses a script that declares one of perfl's long options", function()
    local r = perfl { "-e", "args { { '-p --pid' } }" }
    assert.equal(1, r.code)
    contains(r.err, "'--pid'", "belongs to perfl")
  end)

  it("lists the ways to choose a target when there is nothing to watch", function()
    local r = perfl { "-e", "event { 'cpu-clock', sample = print }" }
    assert.equal(2, r.code)
    contains(r.err, "nothing to watch", "-- COMMAND", "-p PID", "-a")
  end)

  it("shows the place of -- when the script may read the words of a command", function()
    local path = script("reader.lua", "local n = #arg require('perfev').event { 'cpu-clock' }")
    for _, word in ipairs { "a b", "-l" } do
      local r = perfl { "-q", path, "ls", word }
      assert.equal(2, r.code)
      contains(r.err, ("\n  try: perfl -q %s -- ls %s\n"):format(path, word == "-l" and word or "'a b'"))
    end
  end)

  it("leaves --help and --version after a command to that command", function()
    local path = script("counts.lua", "require('perfev').event { 'page-faults', sample = function() end }")
    local r = perfl { "--sim", "vm", path, "sh", "-c", "true", "--help", "--version" }
    assert.is_nil(r.out:find("Usage: perfl", 1, true))
    contains(perfl({ path, "--help" }).out, "Usage: perfl")
    assert.matches("^perfl ", perfl({ path, "--version" }).out)
  end)

  it("reports a missing directory of --symfs", function()
    local r = perfl { "--symfs", dir .. "/nowhere", "-e", "every('1s', print)", "--", "true" }
    assert.equal(1, r.code)
    contains(r.err, "perfl: cannot look for files below " .. dir .. "/nowhere: No such file or directory\n  try: ")
  end)

  it("runs a script that only has timers, signals, begin or done", function()
    for text, told in pairs {
      ["every('0.2s', function() print 'tick' return false end)"] = "tick\n",
      ["begin(function() print 'begin' end)"] = "begin\n", ["done(function() print 'done' end)"] = "done\n",
      ["signal('USR1', print) print 'declared'"] = "declared\n",
    } do
      local r = perfl { "--sim", "vm", "-a", "-e", text }
      assert.same({ 0, told }, { r.code, r.out })
      contains(r.err, "perfl: 0 records, 0 lost")
      assert.equal("nothing to open: the script declares no events\n",
        perfl({ "--dry-run", "-a", "-e", text }).out:gsub("^declared\n", ""))
    end
  end)

  it("accepts text that begins with a comment, as a script does", function()
    local r = perfl { "-e", "-- what for\nprint 'hello'", "-e", "--[[ more ]] print(...)", "-e", "--no option", "x" }
    assert.same({ 0, "hello\nx\n", "" }, { r.code, r.out, r.err })
    contains(perfl({ "-e", "--jsn" }).err, "unknown option '--jsn'")
  end)

  it("ends without a message after a script that declares no events", function()
    local r = perfl { "-e", "print 'hello'" }
    assert.equal(0, r.code)
    assert.equal("hello\n", r.out)
    assert.equal("", r.err)
  end)

  it("runs finalizers at the end, however the script ends, and keeps the status", function()
    local last = "setmetatable({}, { __gc = function() print 'closed' end }) "
    for text, code in pairs { [""] = 0, ["os.exit(5, true)"] = 5, ["error 'x'"] = 1 } do
      local r = perfl { "-e", last .. text }
      assert.equal(code, r.code, r.err)
      assert.equal("closed\n", r.out)
    end
  end)

  it("shows the script's line for its mistakes, and perfl's code only for perfl's own", function()
    local r = perfl { "-e", "event { 1 }" }
    assert.equal(1, r.code)
    assert.equal("perfl: -e:1: event: element 1 must be an event string, not 1\n  stack traceback:\n"
      .. "    -e:1: in main chunk\n", r.err)
    r = perfl { "-e", "perfev.profile {}.add(3)" }
    assert.matches("^perfl: lua/perfev/profile/init%.lua:%d+: .*\n    lua/perfev/profile/init%.lua:%d+: in ", r.err)
    contains(r.err, "-e:1: in main chunk")
  end)

  it("prints a plan and opens no event", function()
    local r = perfl { "--dry-run", "-a", "-e", "event { 'cpu-clock', sample = print }" }
    assert.equal(0, r.code, r.err)
    contains(r.out, "cpu-clock")
    assert.is_nil(r.err:find("records", 1, true))
    r = perfl { "--dry-run", "-a", "-C", "0", "-e", "event { 'cpu-clock', sample = print }", "--", "true" }
    assert.matches("^target: all tasks on cpus 0\n", r.out)
  end)

  it("prints a plan as JSON, an object for each declaration", function()
    if not run.root then pending "needs root" end -- others may not look for an event in tracefs
    local text = "event { '{cpu-clock,page-faults}', freq = 99, sample = print } event { 'no:such', optional = true, "
      .. "comm = print }"
    local r = perfl { "--dry-run", "-j", "-a", "-C", "0", "-e", text }
    assert.equal(0, r.code, r.err)
    local objects = {}
    for line in r.out:gmatch "[^\n]+" do objects[#objects + 1] = json.decode(line) end
    assert.same({ target = "all tasks on cpus 0" }, objects[1])
    local group = objects[2]
    assert.same({ "sample" }, group.callbacks)
    assert.same({ "cpu-clock", "page-faults" }, { group.opens[1].event, group.opens[2].event })
    assert.equal("{cpu-clock,page-faults}", group.opens[2].group)
    assert.same({ 1, 2, 99 }, { group.opens[2].attr.type, group.opens[2].attr.config, group.opens[2].attr.sample_freq })
    assert.is_nil(group.missing)
    assert.equal("no:such", objects[3].event)
    contains(objects[3].missing, "no such event")
    assert.is_nil(objects[3].opens)
    assert.equal(3, #objects)
  end)

  it("exits with 1 after a plan that cannot be carried out", function()
    local text = "event { 'no:such', sample = print%s }"
    local r = perfl { "--dry-run", "-a", "-e", text:format "" }
    assert.equal(1, r.code)
    contains(r.out, "no:such")
    assert.equal(0, perfl({ "--dry-run", "-a", "-e", text:format ", optional = true" }).code)
  end)

  it("writes a script's text to the file of -o, which only its owner can read", function()
    local path = dir .. "/out"
    local r = perfl { "-o", path, "-e", "print 'a' io.write 'b\\n' io.stdout:write 'c\\n'" }
    assert.equal(0, r.code)
    assert.equal("", r.out)
    assert.equal("a\nb\nc", run.capture("cat " .. path))
    assert.equal("600", run.capture("stat -c %a " .. path))
  end)

  it("writes through no symbolic link as root", function()
    if not run.root then pending("needs root") end
    assert(os.execute(("ln -s %s/target %s/link"):format(dir, dir)))
    local r = perfl { "-o", dir .. "/link", "-e", "print 'a'" }
    assert.equal(1, r.code)
    contains(r.err, "symbolic link")
    assert.is_nil(io.open(dir .. "/target"))
  end)

  it("exits quietly with 141 when the reader has closed the pipe", function()
    if not built then pending("no " .. run.perfl) end
    local r = run(("{ %s -e 'for i = 1, 1e5 do print(i) end'; echo $? >&2; } | head -1")
      :format(run.perfl))
    assert.equal("1\n", r.out)
    assert.equal("141\n", r.err)
  end)

  it("reports a full disk", function()
    if not built then pending("no " .. run.perfl) end
    local r = run(run.perfl .. " -e 'print(1)' >/dev/full")
    assert.equal(1, r.code)
    contains(r.err, "cannot write standard output: No space left on device")
    for _, much in ipairs { "1", "('x'):rep(1 << 20)" } do -- which stdio keeps, and which it does not
      r = perfl { "-o", "/dev/full", "-e", ("print(%s)"):format(much) }
      assert.equal(1, r.code)
      contains(r.err, "cannot write '/dev/full': No space left on device")
    end
  end)

  it("makes no system call per printed line", function()
    if not run.have "strace" then pending("no strace(1)") end
    if run.sanitized then pending("strace and LeakSanitizer exclude each other") end
    local trace = dir .. "/trace"
    if not built then pending("no " .. run.perfl) end
    local r = run({ "strace", "-o", trace, "-e", "trace=write", run.perfl, "-e",
      "for i = 1, 10000 do print(i) end" })
    if r.code ~= 0 then pending("strace may not trace here") end
    assert.is_true(tonumber(run.capture("grep -c write " .. trace)) < 20)
  end)

  -- The script's shell signals its parent, which is perfl. Not by os.execute: as long as its shell runs, it lets its
  -- caller ignore SIGINT and SIGQUIT.
  local signals = { INT = 2, TERM = 15, HUP = 1, QUIT = 3 }
  for name, number in pairs(signals) do
    it(("ends an endless script by SIG%s"):format(name), function()
      local r = perfl { "-e", ("io.popen 'kill -%s $PPID' while true do end"):format(name) }
      assert.equal(number, r.signal or r.code - 128)
      contains(r.err, "perfl: -e:1: interrupted!")
    end)

    -- Two that come within a moment are taken for one: until it is gone.
    it(("ends at once by a second SIG%s"):format(name), function()
      local text = "io.popen 'while kill -%s $PPID 2>/dev/null; do sleep 0.1; done' "
        .. "while true do pcall(function() while true do end end) end"
      local r = perfl { "-e", text:format(name) }
      assert.equal(number, r.signal or r.code - 128)
      assert.equal("", r.err)
    end)
  end

  it("closes open objects when a signal ends it", function()
    local r = perfl { "-e", [[
      closed = setmetatable({}, { __gc = function() print "collected" end })
      local c <close> = setmetatable({}, { __close = function() print "closed" end })
      io.popen 'kill -INT $PPID'
      while true do end]] }
    assert.equal("closed\ncollected\n", r.out)
  end)
end)
