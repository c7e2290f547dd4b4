-- perfl top on a real terminal, tmux's, and the real kernel: a busy child of known functions.

local protobuf = require "spec.support.protobuf"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local program = [[
static volatile unsigned long sink;

__attribute__((noinline)) static void spin(void)
{
	for (int i = 0; i < 100000; i++)
		sink += i;
}

__attribute__((noinline)) static void outer(void)
{
	spin();
	sink++;
}

int main(void)
{
	for (;;)
		outer();
}
]]

local POLLS = 1500 -- of the screen, until a text is there

describe("perfl top in a terminal", function()
  local dir, pid
  local nr_started = 0

  -- Each terminal has a server of its own.
  local function tmux(words)
    return run.capture(("tmux -f /dev/null -S %s/tmux%d %s 2>&1"):format(dir, nr_started, words))
  end

  local function screen() return tmux "capture-pane -p" or "" end

  -- Waits until all texts are on the screen -> the screen
  local function wait(...)
    local text
    for _ = 1, POLLS do
      text = screen()
      local are_there = true
      for _, wanted in ipairs { ... } do are_there = are_there and text:find(wanted, 1, true) end
      if are_there then return text end
      run.capture "sleep 0.02"
    end
    error(("never on the screen: %s\n%s"):format(table.concat({ ... }, ", "), text), 2)
  end

  local function keys(...)
    for _, key in ipairs { ... } do tmux("send-keys " .. run.quote(key)) end
  end

  -- After SIGKILL the shell goes on while the terminal is being restored. This waits for the settings to be back, and
  -- prints only then: what is printed before may be lost with top's screen.
  local WITH_SETTINGS = [[
    cd %s; trap : INT; stty -g >before; %s; status=$?; n=0
    until stty -g >after; cmp -s before after || [ $n -eq 1000 ]; do n=$((n + 1)); sleep 0.02; done
    echo ended $status; echo restored; exec sleep 1000
  ]]

  -- Starts a command in a new terminal, with the terminal's settings before and after it.
  local function start(words, width, height)
    tmux "kill-server"
    nr_started = nr_started + 1
    run.write_file(dir .. "/line", WITH_SETTINGS:format(dir, words))
    assert(tmux(("new-session -d -x %d -y %d sh %s/line"):format(width, height, dir)))
  end

  local function start_top(width, height, words)
    start(("%s -p %s %s top -I 100ms"):format(run.perfl, pid, words or ""), width, height)
  end

  -- The screen that was there before, the cursor and the settings.
  local function assert_restored()
    wait "restored"
    assert.equal(run.slurp(dir .. "/before"), run.slurp(dir .. "/after"))
    assert.equal("0 1 1", tmux "display-message -p '#{alternate_on} #{cursor_flag} #{wrap_flag}'")
  end

  -- perfl's own process, below the shell of the terminal
  local function perfl_pid()
    local above = tmux "display-message -p '#{pane_pid}'"
    return assert(run.slurp(("/proc/%s/task/%s/children"):format(above, above)):match "%d+")
  end

  setup(function()
    dir = run.tempdir()
    if requires.missing("perf", "root", "program tmux", "program stty", "cc") then return end
    run.write_file(dir .. "/busy.c", program)
    assert(run.capture(("cd %s && %s -O0 -fno-omit-frame-pointer -o busy busy.c")
      :format(dir, os.getenv "CC" or "cc")))
    pid = assert(run.capture(dir .. "/busy >/dev/null & echo $!"))
  end)

  teardown(function()
    if pid then
      tmux "kill-server"
      run.capture("kill " .. pid)
    end
    run.remove(dir)
  end)

  before_each(function()
    requires("perf", "root", "program tmux", "program stty", "cc")
  end)

  for _, size in ipairs { { 80, 24 }, { 200, 60 } } do
    local width, height = table.unpack(size)

    it(("shows functions, callers and the flame graph in %d columns and %d lines"):format(width, height), function()
      start_top(width, height)
      local text = wait("functions by own value", ">", " spin [busy]", "q quit")
      assert.matches("\nq quit[^\n]*$", text)
      assert.equal(height, select(2, (text .. "\n"):gsub("\n", "")))
      keys("/", "s", "p", "i")
      wait "filter: spi_"
      keys "Enter"
      wait "with 'spi'"
      keys "Enter"
      wait("callers of spin [busy]", "- outer [busy]", "main [busy]")
      keys("Escape", "Escape", "g")
      text = wait("flame graph", "busy", "main", "outer", "spin")
      for line in text:gmatch "[^\n]+" do assert.is_true(utf8.len(line) <= width, line) end
      keys "Down"
      wait " busy: "
      keys("Down", "Enter", "Escape", "BSpace")
      wait "functions by own value"
      keys "q"
      wait "ended 0"
      assert_restored()
    end)
  end

  it("does not scroll when a line has wide characters", function()
    start_top(60, 8)
    wait "functions by own value"
    keys("/", ("\u{4f60}"):rep(40))
    wait "no name has this text"
    assert.matches("^ cpu%-clock: ", screen())
    keys("Escape", "q")
    wait "ended 0"
    assert_restored()
  end)

  it("shows threads, processes and the cgroup that /proc names", function()
    start_top(80, 24)
    wait "spin [busy]"
    keys "2"
    wait("threads by own value", "busy " .. pid)
    keys "v"
    wait("processes by own value", "busy " .. pid)
    keys "Enter"
    wait("in process busy " .. pid, "spin [busy]")
    keys "4"
    local cgroup = run.slurp(("/proc/%s/cgroup"):format(pid))
    cgroup = cgroup:match "%d+:perf_event:([^\n]*)" or cgroup:match "0::([^\n]*)"
    wait("cgroups by own value", "%  " .. cgroup:sub(1, 50))
    keys "q"
    assert_restored()
  end)

  it("draws again when the terminal changes its size", function()
    start_top(80, 24)
    wait "spin [busy]"
    tmux "resize-window -x 120 -y 40"
    for _ = 1, POLLS do
      local lines = {}
      for line in (screen() .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
      if lines[40] and lines[40]:find "^q quit" then
        keys "q"
        return assert_restored()
      end
    end
    error("never drawn in 40 lines\n" .. screen())
  end)

  it("freezes the picture, and writes its samples to new files only", function()
    run.write_file(dir .. "/perfl-top.pb.gz", "mine")
    start_top(80, 24)
    wait "spin [busy]"
    keys "Space"
    local nr = wait "FROZEN":match "(%d+) samples in"
    keys "w"
    wait(("wrote perfl-top-2.pb.gz: %s samples"):format(nr))
    keys("x", "w")
    wait "wrote perfl-top-3.pb.gz"
    assert.equal("mine", run.slurp(dir .. "/perfl-top.pb.gz"))
    local sum, has_spin = 0, false
    for _, sample in ipairs(protobuf.profile(protobuf.gunzip(run.slurp(dir .. "/perfl-top-2.pb.gz"))).samples) do
      sum = sum + sample.values[1]
      has_spin = has_spin or sample.frames[1]:find "^spin" ~= nil
    end
    assert.same({ tonumber(nr), true }, { sum, has_spin })
    assert.equal("600", run.capture(("stat -c %%a %s/perfl-top-3.pb.gz"):format(dir)))
    assert.equal(run.slurp(dir .. "/perfl-top-2.pb.gz"), run.slurp(dir .. "/perfl-top-3.pb.gz"))
    keys("f", "q")
    assert_restored()
  end)

  it("writes plain tables to the file of -o", function()
    start_top(80, 24, "-d 300ms -o plain")
    wait "ended 0"
    assert_restored()
    local text = run.slurp(dir .. "/plain")
    assert.matches("^cpu%-clock: %d+ in %d", text)
    assert.is_nil(text:find("\27", 1, true))
  end)

  it("restores the terminal after Ctrl-C, signals, SIGKILL, the end of the time and an error of the script", function()
    for _, signal in ipairs { "C-c", "TERM", "HUP", "KILL" } do
      start_top(80, 24)
      wait "spin [busy]"
      if signal == "C-c" then keys "C-c" else run.capture(("kill -%s %s"):format(signal, perfl_pid())) end
      wait "ended 1"
      assert_restored()
    end
    start_top(80, 24, "-d 300ms")
    wait "ended 0"
    assert_restored()
    run.write_file(dir .. "/wrong.lua", [[
      local perfev = require "perfev"
      require "perfev.tool".show_top("wrong", { event = "cpu-clock", interval = 1e8 // 1 | 0 },
        { "cpu-clock", freq = 999 })
      perfev.every("300ms", function() error "wrong on purpose" end)]])
    start(("%s --strict -p %s wrong.lua"):format(run.perfl, pid), 80, 24)
    wait("wrong on purpose", "ended 1")
    assert_restored()
  end)
end)
