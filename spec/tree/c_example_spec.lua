-- The C core without Lua: doc/example.c against src/perfev.h and libperfev.a, as a user builds it.

local run = require "spec.support.run"

local archive = "build/libperfev.a"

describe("the C example", function()
  local dir, program

  setup(function()
    if not io.open(archive) then return end
    dir = run.tempdir()
    local line = "%s -std=gnu11 -Wall -Wextra -Werror -Isrc -o %s/example doc/example.c %s"
    local built = run(line:format(os.getenv "CC" or "gcc", dir, archive))
    assert.equal(0, built.code, built.err)
    program = dir .. "/example"
  end)
  teardown(function() if dir then run.remove(dir) end end)
  local it = require "spec.support.skip"(it, function()
    if not program then pending("no " .. archive) end
  end)

  it("has at most 75 lines of code", function()
    local n = 0
    for line in io.lines "doc/example.c" do
      if line:find "%S" and not line:find "^ ?[/*]" then n = n + 1 end
    end
    assert.is_true(n <= 75, n)
  end)

  it("has headers for strict C and for C++", function()
    local line = "printf '%s' | %s -Wall -Wextra -Werror -fsyntax-only -Isrc -"
    for _, case in ipairs {
      { "#include <perfev.h>\\n", "${CC:-gcc} -std=c11 -x c" },
      { 'extern "C" {\\n#include <perfev.h>\\n}\\n', "g++ -std=c++11 -x c++" },
    } do
      if not run.have(case[2]:match "^g%+%+" or "sh") then pending "g++ is not installed" end
      local r = run(line:format(case[1], case[2]))
      assert.equal("", r.err)
      assert.equal(0, r.code)
    end
  end)

  it("links without Lua", function()
    assert.is_nil(run.capture("ldd " .. run.quote(program)):find("lua"))
  end)

  it("prints a command's context switches in the order of time", function()
    local r = run { program, "sh", "-c", "sleep 0.05; sleep 0.05; exit 3" }
    if r.err:find "EACCES" or r.err:find "ENOSYS" then pending("no perf events here: " .. r.err) end
    assert.equal("", r.err)
    assert.equal(0, r.code)
    local last, ins, outs, sleeps = 0, 0, 0, 0
    for time, comm, what in r.out:gmatch("(%d+) (%S+) (%l+)\n") do
      time = math.tointeger(time)
      assert.is_true(time >= last)
      last = time
      ins = ins + (what == "in" and 1 or 0)
      outs = outs + (what == "out" and 1 or 0)
      sleeps = sleeps + (comm == "sleep" and 1 or 0)
    end
    assert.is_true(ins >= 3 and outs >= 3 and sleeps >= 4, r.out)
  end)

  it("reports a command that cannot be run", function()
    local r = run { program, "nosuchprogram" }
    if r.err:find("EACCES") or r.err:find("ENOSYS") then pending("no perf events here: " .. r.err) end
    assert.equal("cannot run 'nosuchprogram' (ENOENT)\n", r.err)
    assert.equal(1, r.code)
    assert.equal(2, run({ program }).code)
  end)
end)
