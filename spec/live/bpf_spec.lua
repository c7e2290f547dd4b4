-- perfev never calls bpf(2): it uses perf_event_open(2) and its ioctls only.

local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local why_not = not run.root and "not root" or not run.have "strace" and "no strace"

-- Command lines of daily use.
local runs = {
  { "-q", "-e", "event { 'cpu-clock', callchain = true, sample = print }", "--", "true" },
  { "-q", "-a", "-d", "50ms", "-e", "event { 'sched:sched_switch', filter = 'prev_pid != 0', sample = print }" },
  { "-q", "-a", "-d", "50ms", "-e", "event { switch = print, comm = print, mmap = print, exit = print }" },
  { "-q", "-e", "local c = counter { 'task-clock', 'page-faults' } done(function() print(c:read()) end)", "--",
    "true" },
  { "-q", "-e", "event { type = 5, bp_type = 2, bp_len = 4, bp_addr = 4096, sample = print }", "--", "true" },
  { "-q", "-e", "event { ksymbol = print, bpf = print }", "-a", "-d", "50ms" },
  { "-q", "-e", "event { type = 4242, sample = print }", "--", "true" },
  { "doctor" }, { "list" },
  { "syscount", "--", "true" },
  { "stat", "--", "true" },
}

describe("perfl", function()
  for _, words in ipairs(runs) do
    it("makes no bpf(2) call in: perfl " .. table.concat(words, " "), function()
      if why_not then pending(why_not) end
      local dir = run.tempdir()
      local r = run { "strace", "-f", "-e", "trace=bpf,perf_event_open", "-o", dir .. "/calls", run.perfl,
                      table.unpack(words) }
      local file = assert(io.open(dir .. "/calls"))
      local calls = file:read "a"
      file:close()
      run.remove(dir)
      assert.is_true(r.code == 0 or r.code == 1, r.err)
      assert.is_nil(calls:match "[^\n]*bpf%([^\n]*")
      if words[1] ~= "list" then assert.matches("perf_event_open%(", calls) end -- it was traced
    end)
  end
end)

describe("a loaded BPF program", function()
  it("is reported to two sessions at once, in the kernel's format for each", function()
    requires("root", "cc")
    local dir = run.tempdir()
    local prog = dir .. "/bpfloop"
    assert.equal(0, run({ os.getenv "CC" or "gcc", "-O1", "-o", prog, "spec/support/bpfloop.c" }).code)
    local sessions, seen = {}, {}
    for i = 1, 2 do
      seen[i] = { ksymbol = 0, bpf = 0 }
      sessions[i] = perfev.session { all_cpus = true }
      sessions[i]:event { "dummy",
        ksymbol = function(r)
          if r.name:find "_spec_loop$" then seen[i].ksymbol = seen[i].ksymbol + 1 end
        end,
        bpf = function(r)
          assert(r.time > 0)
          seen[i].bpf = seen[i].bpf + 1
        end,
      }
      assert(sessions[i]:start())
    end
    local busy = assert(io.popen("exec " .. run.quote(prog)))
    local pid = busy:read "l"
    os.execute("kill " .. pid .. " 2>/dev/null")
    busy:close()
    run.remove(dir)
    for i, s in ipairs(sessions) do
      s:stop()
      while s:dispatch() > 0 do end
      s:close()
      local stats = s:totals()
      assert.same({ 0, 0 }, { stats.unknown_id, stats.malformed })
      if not pid:find "^%d+$" then pending(pid) end
      assert.is_true(seen[i].bpf > 0)
      assert.is_true(seen[i].ksymbol > 0)
    end
  end)
end)
