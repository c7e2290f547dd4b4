-- perfl completion: the candidates for a word, and the shells that show them.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local perfl = os.getenv "PERFL" or "build/perfl"

-- The lines for the last of these words, as a set and as text.
local function candidates(...)
  local result = run { perfl, "completion", "--", ... }
  assert.equal("", result.err)
  local set = {}
  for line in result.out:gmatch "[^\n]+" do set[line:match "^\t?[^\t]*"] = line end
  return set, result.out
end

describe("perfl completion -- WORD...", function()
  it("offers scripts with their summaries, and verbs", function()
    local set = candidates "r"
    assert.equal("runqlat\tshow how long runnable tasks wait for a CPU", set.runqlat)
    assert.truthy(set.record and set.redact and set.report)
    assert.is_nil(set.profile)
  end)

  it("offers perfl's options, and after a script also the script's", function()
    assert.truthy(candidates("--comm")["--comm"])
    assert.is_nil(candidates("--le")["--least"])
    assert.equal("--least\tleave out shorter durations", candidates("runqlat", "--le")["--least"])
    assert.truthy(candidates("runqlat", "--com")["--comm"])
  end)

  it("offers the choices of an option, also behind =", function()
    local _, text = candidates("runqlat", "-f", "")
    assert.equal("html\njson\nprom\ntext\n", text)
    _, text = candidates("runqlat", "--format=h")
    assert.equal("--format=html\n", text)
  end)

  it("offers events for options and arguments that take them, also in a list", function()
    assert.truthy(candidates("stat", "-e", "cpu-c")["cpu-clock"])
    assert.truthy(candidates("stat", "-e", "cpu-clock,task-c")["cpu-clock,task-clock"])
    assert.truthy(candidates("record", "-e", "cpu-c")["cpu-clock"])
    assert.truthy(candidates("list", "cpu-m")["cpu-migrations"])
    assert.truthy(candidates("flightrec", "cpu-c")["cpu-clock"])
  end)

  it("leaves files and commands to the shell", function()
    assert.equal("\tfiles", candidates("-i", "")["\tfiles"])
    assert.equal("\tfiles", candidates("report", "")["\tfiles"])
    assert.equal("\tcommands", candidates("profile", "")["\tcommands"])
    assert.equal("\tcommands", candidates("profile", "--", "")["\tcommands"])
    assert.equal("\tcommands", candidates("record", "-g", "")["\tcommands"])
  end)

  it("offers the options of every verb", function()
    for _, case in ipairs { { "cut", "--where" }, { "report", "--input" }, { "redact", "--rules" }, { "doctor", "-j" },
      { "record", "--call-graph" }, { "describe", "runqlat", "--unit" } } do
      local set, text = candidates(table.unpack(case))
      assert.truthy(set[case[#case]], table.concat(case, " ") .. ":\n" .. text)
    end
  end)

  it("offers every script and every verb, and what perfl help knows", function()
    local set = candidates ""
    for name in run.capture "ls scripts":gmatch "(%w+)%.lua" do assert.truthy(set[name], name) end
    for name in run.capture "grep -oE '[a-z]+ = .perfl[.]' lua/perfl/main.lua":gmatch "(%w+) = " do
      assert.truthy(set[name], name)
      assert.truthy(candidates("help", name)[name], name)
    end
    assert.equal("events\tnames of events", candidates("help", "ev").events)
    assert.truthy(candidates("help", "runql").runqlat and candidates("help", "mmap").mmap2)
  end)

  it("names a shell that it does not know", function()
    local result = run { perfl, "completion", "tcsh" }
    assert.equal(2, result.code)
    assert.equal("perfl: 'tcsh' has no completion\n  try: perfl completion bash, zsh or fish\n", result.err)
  end)
end)

describe("the completion of", function()
  local POLLS = 500
  local dir

  setup(function()
    dir = run.tempdir()
    run.capture(("ln -s $(realpath %s) %s/perfl"):format(perfl, dir))
  end)
  teardown(function()
    run.capture(("tmux -S %s/tmux kill-server 2>&1"):format(dir))
    run.remove(dir)
  end)

  local function tmux(words) return run.capture(("tmux -f /dev/null -S %s/tmux %s 2>&1"):format(dir, words)) end

  -- Waits for a text on the screen.
  local function wait(wanted)
    local text
    for _ = 1, POLLS do
      text = tmux "capture-pane -p"
      if text:find(wanted, 1, true) then return end
      run.capture "sleep 0.02"
    end
    error(("never on the screen: %s\n%s"):format(wanted, text), 2)
  end

  local shells = {
    bash = { "bash --norc -i", 'PS1="> "; eval "$(perfl completion bash)"; echo rea"dy"' },
    zsh = { "zsh -f -i", 'PS1="> "; autoload -U compinit; compinit -D; eval "$(perfl completion zsh)"; echo rea"dy"' },
    fish = { "fish --no-config -i", 'perfl completion fish | source; echo rea"dy"' },
  }

  for name, shell in pairs(shells) do
    it(name .. " completes a script, its option, a choice and an event", function()
      if requires.missing("program tmux", "program " .. name) then return end
      tmux "kill-server"
      tmux(("new-session -d -x 100 -y 30 env PATH=%s:$PATH HOME=%s TERM=screen LC_ALL=C.UTF-8 %s"):format(dir, dir,
        shell[1]))
      finally(function() tmux "kill-server" end)
      tmux("send-keys -l " .. run.quote(shell[2]))
      tmux "send-keys Enter"
      wait "ready"
      tmux "send-keys -l 'perfl runql'"
      tmux "send-keys Tab"
      wait "perfl runqlat"
      tmux "send-keys -l -- '--lea'"
      tmux "send-keys Tab"
      wait "perfl runqlat --least"
      tmux "send-keys -l -- '2ms -f pr'"
      tmux "send-keys Tab"
      wait "perfl runqlat --least 2ms -f prom"
      tmux "send-keys C-u"
      tmux "send-keys -l 'perfl list cpu-mig'"
      tmux "send-keys Tab"
      wait "perfl list cpu-migrations"
      tmux "send-keys C-u"
    end)
  end
end)
