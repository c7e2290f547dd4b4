-- Ctrl-C while a callback does not return: the first SIGINT ends endless Lua, the second ends a call in C. The
-- callback prints a line when it is inside, and the signal is sent only then; no time is asserted.

local run = require "spec.support.run"

-- Runs perfl with the callback. Once the callback has printed its line, a shell sends the given number of SIGINTs, or
-- sends them until perfl ends, with a pause between them, because two at once count as one -> the number of signals,
-- perfl's status, its output
local function interrupted(body, most)
  local script = ([[
local perfev = require "perfev"
perfev.event { "dummy", comm = function()
  io.write("inside\n")
  io.flush()
  %s
end }]]):format(body)
  local r = run(([[
dir=$(mktemp -d) || exit 99
mkfifo "$dir/out"
# This shell has it ignore SIGINT, as a job of a shell that is not interactive.
%s -q -e %s -- sleep 60 > "$dir/out" 2> "$dir/err" &
pid=$!
read -r line < "$dir/out"
sent=0
while [ "$sent" -lt %d ] && kill -INT $pid 2>/dev/null; do
  sent=$((sent + 1))
  sleep 0.2
done
wait $pid
status=$?
cat "$dir/err" >&2
rm -r "$dir"
echo "$line $sent $status"
]]):format(run.quote(run.perfl), run.quote(script), most))
  local sent, status = r.out:match "^inside (%d+) (%d+)\n$"
  return tonumber(sent), tonumber(status), r.err
end

describe("a callback that does not return", function()
  it("is ended by one SIGINT if it runs Lua", function()
    local sent, status, said = interrupted("while true do end", 1)
    assert.same({ 1, 130 }, { sent, status })
    assert.truthy(said:find "interrupted!")
  end)

  it("is ended by one SIGINT if it catches errors and returns to Lua", function()
    local sent, status, said = interrupted(
      "local ok, why = pcall(function() while true do end end) io.stderr:write(tostring(why))", 1)
    assert.same({ 1, 130 }, { sent, status })
    assert.truthy(said:find "interrupted!")
  end)

  it("is ended by a second SIGINT if it is one call of C", function()
    local sent, status = interrupted([[local s = ("x"):rep(1e6) while true do pcall(string.rep, s, 1e4) end]], 100)
    assert.equal(130, status)
    assert.is_true(sent >= 2, sent)
  end)
end)

describe("output without a reader", function()
  -- This shell has the FIFO open and does not read it: perfl blocks in write(2), as /proc shows.
  local function blocked(options)
    return run(([[
dir=$(mktemp -d) || exit 99
mkfifo "$dir/out"
exec 3<> "$dir/out"
%s -q %s > "$dir/out" 2> "$dir/err" 3>&- &
pid=$!
until grep -q pipe_write /proc/$pid/wchan 2>/dev/null; do
  kill -0 $pid || break
  [ "$(cat /proc/$pid/wchan 2>/dev/null)" != 0 ] || [ "$(id -u)" = 0 ] || exit 98
done
kill -TERM $pid
wait $pid
status=$?
cat "$dir/err" >&2
rm -r "$dir"
exit $status
]]):format(run.quote(run.perfl), options))
  end

  it("does not prevent perfl from ending by one signal", function()
    local r = blocked "-a -e 'every(\"1ms\", function() print((\"x\"):rep(100000)) end)'"
    if r.code == 98 then pending "/proc/PID/wchan does not say where a process waits" end
    assert.equal(143, r.code, r.err)
    assert.matches("perfl: cannot write standard output: Interrupted system call\n", r.err)
  end)

  it("does not prevent a recording from ending by one signal", function()
    if not run.root then pending "not root: only root can watch all that happens" end
    local r = blocked "-a --record - -e 'event { \"raw_syscalls:sys_enter\" }'"
    assert.equal(143, r.code, r.err)
    assert.matches("perfl: cannot write to standard output: Interrupted system call\n", r.err)
  end)
end)
