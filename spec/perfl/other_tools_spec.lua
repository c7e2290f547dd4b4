-- Words of perf, bpftrace and bcc are answered with perfl's counterpart.

local run = require "spec.support.run"

local other_tools = require "perfl.other_tools"

local verbs = { archive = true, cleanup = true, cut = true, doctor = true, dump = true, filter = true,
                list = true, merge = true, record = true, report = true, skeleton = true }

local function is_ours(name) return verbs[name] or run.slurp("scripts/" .. name .. ".lua") ~= nil end

local function perfl(...) return run { run.perfl, ... } end

describe("a word of other tools", function()
  it("gets an answer that names existing scripts", function()
    local unknown, seen = {}, 0
    local function look(text)
      for line in text:gmatch "[^\n]+" do assert.is_true(#line <= 78, line) end
      for name in text:gsub("%-%-inline ", ""):gsub("%-a ", ""):gmatch "perfl (%l+)" do
        seen = seen + 1
        if not is_ours(name) then unknown[#unknown + 1] = text end
      end
    end
    for _, text in pairs(other_tools.tools) do look("try: " .. text) end
    for name, flags in pairs(other_tools.options) do
      assert.truthy(is_ours(name), name)
      for _, text in pairs(flags) do look(text) end
    end
    assert.same({}, unknown)
    assert.is_true(seen > 50)
  end)

  it("that names no script gets its counterpart, also with the suffix -bpfcc or .bt", function()
    local r = perfl("lock", "contention")
    assert.same({ 2, "perfl: no script is named 'lock'\n  try: perfl -a locks\n" }, { r.code, r.err })
    assert.equal("try: perfl runqlat", other_tools.tool("runqlat-bpfcc", is_ours))
    assert.equal("try: perfl biosnoop", other_tools.tool("biosnoop.bt", is_ours))
    assert.is_nil(other_tools.tool("nothing.bt", is_ours))
    assert.matches("\n  try: %-p PID,PID\n$", perfl("-p", "1", "2", "cswlog").err)
  end)

  it("that is an option gets its counterpart, for scripts and for perfl's verbs", function()
    local function told(...)
      local r = perfl(...)
      assert.equal(2, r.code)
      return r.err
    end
    assert.equal("perfl: unknown option '--timeout'\n  try: -d 100ms, the duration\n",
      told("stat", "--timeout", "100", "--", "true"))
    assert.equal("perfl: option '-m' requires an argument\n  try: --unit ms\n", told("-a", "runqlat", "-m"))
    assert.equal("perfl: unknown option '-T'\n  perfl record always does this\n  try: without it\n",
      told("record", "-T", "--", "true"))
    assert.matches("^perfl: unknown option '%-%-sort'\n .*\n  try: perfl profile %-i FILE",
      told("report", "--sort", "comm"))
    assert.matches("\n  try: perfl strace, perfl syslat, ", told("trace", "-s", "--", "true"))
    assert.matches("this is always done\n  try: without it\n", told("strace", "-f", "--", "true"))
    assert.matches("unknown option '%-%-nothing'\n  stat has ", told("stat", "--nothing", "--", "true"))
  end)

  it("that is an interval and a count is answered with -d", function()
    assert.equal("perfl: too many arguments\n  -d sets the duration\n  try: perfl -a -d 10s runqlat\n",
      perfl("runqlat", "1", "10").err)
    assert.matches("\n  try: perfl funclatency libc:read %-%- sleep 1\n",
      perfl("funclatency", "libc:read", "sleep", "1").err)
  end)

  it("that is a name in a script gets its counterpart", function()
    local r = perfl("-e", "printf('%s', 1)")
    assert.equal(1, r.code)
    assert.matches("\n  try: print%(%(FORMAT%):format%(%.%.%.%)%)\n", r.err)
    assert.equal("\ntry: hist", other_tools.name "-e:1: attempt to call a nil value (global 'hsit')")
    assert.matches("r%.time", other_tools.name "-e:1: attempt to perform arithmetic on a nil value (global 'nsecs')")
    assert.equal("", other_tools.name "-e:1: attempt to call a nil value (global 'some_function_of_mine')")
  end)
end)

describe("events without a callback, and aggregators that were not printed", function()
  it("are reported if no callback is set", function()
    local r = perfl("--sim", "vm", "-a", "-e", "event { 'cpu-clock' }")
    assert.matches("^perfl: cpu%-clock: no callback is set; its records are dropped\n  try: sample = print, ", r.err)
    assert.not_matches("nobody", perfl("--sim", "vm", "-a", "-e", "event { 'cpu-clock', sample = print }").err)
  end)

  it("are reported if samples of an event are counted instead of each event", function()
    local function err_of(rest)
      return perfl("--sim", "vm", "-a", "-q", "-e", "event { " .. rest .. " }").err
    end
    assert.equal("perfl: page-faults: samples are counted, 4000 a second at most, not each\n  try: period = 1\n",
      err_of "'page-faults', sample = count { by = 'comm' }")
    assert.matches("samples are counted", err_of "'context-switches', sample = { top {}, line '{comm}' }")
    for _, rest in ipairs {
      "'page-faults', period = 1, sample = count {}", "'page-faults', freq = 99, sample = count {}",
      "'page-faults/freq=9/', sample = count {}", "'cpu-clock', sample = count {}",
      "'page-faults', sample = sum { value = 'period' }", "'page-faults', sample = print",
    } do
      assert.equal("", err_of(rest))
    end
  end)

  it("are printed at the end if values arrived after an aggregator was printed and cleared, as in bpftrace", function()
    local text = "local a = count { by = 'k' } every(2, print) "
      .. "done(function() a:add(1, 'x') a:print() a:clear() %s end)"
    local function told(rest) return perfl("--sim", "vm", "-a", "-d", "1", "-e", text:format(rest)).out end
    assert.equal("K  COUNT\nx      1\nK  COUNT\ny      2\n", told "a:add(2, 'y')")
    assert.equal("K  COUNT\nx      1\n", told "")
    assert.equal("K  COUNT\nx      1\n", told "a:add(2, 'y') a:rows()")
  end)

  it("are described, with a hint at a:print(), if the script passes an aggregator to print()", function()
    local r = perfl("-e", "local a = count { by = 'k' } print(a) a:add(1, 'x') print(a) a:rows()")
    assert.equal("aggregator of 0 keys: a:print() shows them\naggregator of 1 key: a:print() shows it\n", r.out)
  end)
end)
