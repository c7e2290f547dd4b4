-- perfl budget on the real kernel: its file, its reports, its exit status.

local plants_program = require "spec.support.plants"
local core = require "perfev.core"
local run = require "spec.support.run"

local it = plants_program.it_with_calls(it)

local dir, program
setup(function()
  if not plants_program.has_tracefs then return end
  dir = run.tempdir()
  program = plants_program.build(dir)
end)
teardown(function()
  if dir then run.remove(dir) end
end)

describe("perfl budget", function()
  local file
  before_each(function()
    file = dir and dir .. "/project.txt"
    if file then os.remove(file) end
  end)
  local function budget(...) return run({ run.perfl, "budget", ... }, { cwd = dir }) end

  it("makes a section with --update, holds against it, and fails with what is new", function()
    local made = budget(file, "--update", "--stacks", "--", program, "none")
    assert.equal(0, made.code, made.err)
    assert.matches("perfl: %[plants%] syscalls: <= %d+ %(new%)\n", made.err)
    assert.same({ 0, "" }, { budget(file, "--", program, "none").code, made.out })
    local failed = budget(file, "--", program, "library")
    assert.equal(1, failed.code)
    assert.matches("FAIL syscalls: %d+, limit <= %d+\n +getgid: 1, was 0\n +1 in syscall < plant_library < main",
      failed.out)
    local accepted = budget(file, "--update", "--", program, "library")
    assert.matches("^perfl: %[plants%] syscalls: <= %d+, was <= %d+ %(looser%)\n$", accepted.err)
    assert.equal(0, budget(file, "--", program, "library").code)
  end)

  it("names a section as a command whose name a section cannot have", function()
    os.execute(("ln -s /bin/true '%s/a #[b]'"):format(dir))
    local made = budget(file, "--update", "--", "./a #[b]")
    assert.same({ 0, "perfl: [a __b_] syscalls" }, { made.code, made.err:match "^[^:]*: [^:]*" })
    assert.equal(0, budget(file, "--", "./a #[b]").code)
  end)

  it("runs the commands that the file names, and writes reports to a file", function()
    run.write_file(file, ("[one]\ncommand '%s' none\nsyscalls any\n[two]\ncommand %s getpid\nsyscalls 1 # few\n")
      :format(program, program))
    local r = budget(file, "--format", "tap", "-o", dir .. "/out.tap")
    assert.same({ 1, "" }, { r.code, r.out .. r.err })
    local text = run.slurp(dir .. "/out.tap")
    assert.matches("^TAP version 13\n1..2\nok 1 %- one: syscalls: %d+, limit any\nnot ok 2 %- two: syscalls: ", text)
    r = budget(file, "--name", "one", "--format", "junit")
    assert.same({ 0, 1 }, { r.code, select(2, r.out:gsub("<testcase", "")) })
  end)

  it("splits a command's words as a shell, up to a comment", function()
    run.write_file(file, "[echo]\ncommand printf '%s|' \"it's # 'a'\" \\#b c#d '' # 'a comment\nsyscalls any\n")
    assert.equal("it's # 'a'|#b|c#d||", budget(file).out:match "^[^\n]*|")
    run.write_file(file, "[echo]\ncommand # nothing\nsyscalls any\n")
    assert.matches("'command' has no words", budget(file).err)
  end)

  it("prints TAP and JUnit alone: what the command prints goes to standard error", function()
    run.write_file(file, "[echo]\nsyscalls any\n")
    local patterns = { tap = "^TAP version 13\n1..1\nok 1 [^\n]*\n$", junit = "^<%?xml.*</testsuites>\n$" }
    for format, pattern in pairs(patterns) do
      local r = budget(file, "--format", format, "--", "echo", "from the command")
      assert.same({ 0, "from the command\n" }, { r.code, r.err })
      assert.matches(pattern, r.out)
    end
  end)

  it("ends at a signal, with the command, and without a verdict", function()
    run.write_file(file, "[one]\ncommand sh -c 'kill -TERM $PPID; sleep 600'\nsyscalls any\n"
      .. "[two]\ncommand sleep 600\nsyscalls any\n")
    local r = budget(file)
    assert.same({ 143, "", "perfl: signal 15: [one] was not measured to its end\n" }, { r.code, r.out, r.err })
  end)

  it("fails if the command fails, and does not accept what it did", function()
    local r = budget(file, "--update", "--", "sh", "-c", "exit 3")
    assert.same({ 1, "perfl: [sh] is not updated: the command failed with status 3\n" }, { r.code, r.err })
    assert.is_nil(run.slurp(file))
    run.write_file(file, "[sh]\nsyscalls any\n")
    r = budget(file, "--", "sh", "-c", "exit 3")
    assert.equal(1, r.code)
    assert.matches("FAIL command: the command failed with status 3", r.out)
    r = budget(file, "--", "/nonexistent")
    assert.equal(1, r.code)
    assert.matches("FAIL cannot run '/nonexistent'", r.out)
  end)

  it("refuses an invalid file, section or limit with status 2", function()
    local function refused(text, pattern, ...)
      run.write_file(file, text)
      local r = budget(file, ...)
      assert.equal(2, r.code)
      assert.matches(pattern, r.err)
    end
    refused("[a]\nsyscalls =< 3\n", "project.txt:2: syscalls: limit '=< 3'", "--", "true")
    refused("[a]\nsycalls 3\n", "section %[a%]: event 'sycalls'.*did you mean 'syscalls'", "--", "true")
    refused("[all]\nsyscalls 3\n", "no section %[al%] %(did you mean 'all'%?%)", "--name", "al", "--", "true")
    refused("[a]\nsyscalls 3\n", "no command is given.*budget [^\n]*project.txt %-%-name a %-%- COMMAND", "--name", "a")
    refused("[a]\ncommand 'x\nsyscalls 3\n", "a quote is open")
    refused("[a]\ntask-clock 3\n", "depends on the load", "--", "true")
  end)

  it("skips what an ordinary user cannot count; --strict fails", function()
    if not run.root or core.slurp "/proc/sys/kernel/perf_event_paranoid" ~= "2\n" then
      pending "needs root, and kernel.perf_event_paranoid 2"
    end
    run.write_file(file, "[true]\nsyscalls 1\npage-faults:u <= 500\n")
    local function as_nobody(...)
      return run({ run.perfl, "budget", file, ... }, { user = "nobody", cwd = "/" })
    end
    local r = as_nobody("--", "true")
    assert.equal(0, r.code, r.out .. r.err)
    assert.matches("ok   page%-faults:u: %d+, limit <= 500\n  skip syscalls: not counted: ", r.out)
    assert.matches("try: as root", r.out)
    assert.equal(1, as_nobody("--strict", "--", "true").code)
  end)
end)
