-- Stacks: the addresses of a sample, and the files mapped there when it was taken. Each list of records runs on the
-- simulated kernel and as a recording, with equal results.

local elf = require "spec.support.elf"
local files_beside_real = require "spec.support.files_beside_real"
local sim = require "perfev.sim"
local perfev = require "perfev"
local symbol = require "perfev.symbol"

local MS, KERNEL, USER = 1000000, -128, -512
local BUILD_IDS, OSRELEASE = 2, 4 -- HEADER_* of perf.data
local BASE = 0x7f0000000000
local BUILD_ID, OTHER_ID = ("\1\2"):rep(10), ("\3\4"):rep(10)

local stories = require "spec.support.story"(setup, teardown)
local files, told, simulated, recorded = stories.files, stories.told, stories.simulated, stories.recorded
local mmap, exec, comm, fork, exit = stories.mmap, stories.exec, stories.comm, stories.fork, stories.exit
local ksymbol, sample, app, copied = stories.ksymbol, stories.sample, stories.app, stories.copied

local function folded(r) return r.stack:folded(r.comm) end

describe("a stack", function()
  it("is nil without a call chain, and empty if the chain is empty", function()
    local seen = told({ app(7), sample(7, {}) }, function(r)
      return { #r.stack, tostring(r.stack), r.stack:folded() }
    end)
    assert.same({ { 0, "", "" } }, seen)
    local k = sim.new { cpus = "0" }
    k:with(function()
      local s, stacks = perfev.session { duration = "300ms" }, {}
      s:event { type = 1, config = 0, sample_period = 1, sample = function(r) stacks[1] = r.stack == nil end }
      k:after(MS, function() k:ring(0):push { type = "sample", pid = 7 } end)
      assert(s:run())
      assert.same({ true }, stacks)
    end)
  end)

  it("lists its frames from the inside out: address, function, offset, file", function()
    local seen = told({ comm(7, "sh"), app(7), sample(7, { KERNEL, 0xffffffff81000110, USER, 0x400110, 0x400020 }) },
      function(r)
        local list = {}
        for i = 1, #r.stack do list[i] = r.stack[i] end
        assert.is_nil(r.stack[0])
        assert.is_nil(r.stack[#list + 1])
        assert.same(list, r.stack:frames())
        return list
      end)
    assert.same({ {
      { ip = 0xffffffff81000110, symbol = "do_work", offset = 0x10, module = "[kernel]", kernel = true },
      { ip = 0x400110, symbol = "work", offset = 0x10, module = "/bin/app", kernel = false },
      { ip = 0x400020, symbol = "main", offset = 0x20, module = "/bin/app", kernel = false },
    } }, seen)
  end)

  it("prints a line for each frame, and folds into one line", function()
    local seen = told({ app(7), sample(7, { KERNEL, 0xffffffff81000110, USER, 0x400110, 0x500020 }) },
      function(r) return { tostring(r.stack), r.stack:folded(), folded(r) } end)
    assert.same({ {
      "ffffffff81000110 do_work+0x10 ([kernel])\n          400110 work+0x10 (/bin/app)\n"
        .. "          500020 [unknown] ([unknown])",
      "[unknown];work;do_work", "app;[unknown];work;do_work",
    } }, seen)
  end)

  it("shares the tables of equal frames with other stacks, until symbol options change", function()
    local changes, first = symbol._changes, nil
    finally(function() symbol._changes = changes end)
    local seen = told({ app(7), sample(7, { USER, 0x400110, 0x400020 }), sample(7, { USER, 0x400310, 0x400020 }) },
      function(r)
        local work, main = r.stack[1], r.stack[2]
        if not first then
          first = { work, main }
          return "first"
        end
        local old, is_shared = first, rawequal(main, first[2]) and not rawequal(work, first[1])
        first = nil
        symbol._changes = symbol._changes + 1
        assert.same(old[2], r.stack[2])
        return { is_shared, rawequal(r.stack[2], old[2]) }
      end)
    assert.same({ "first", { true, false } }, seen)
  end)

  it("takes the call before a return address, not the function after it", function()
    -- helper's last instruction is a call that does not return; no function follows it.
    local seen = told({ app(7), sample(7, { USER, 0x400310 }), sample(7, { USER, 0x400010, 0x400310 }),
      sample(7, { USER, 0x400310, 0x400310, 0x400100 }) }, function(r) return r.stack:folded() end)
    assert.same({ "[app]", "helper;main", "work;helper;[app]" }, seen)
  end)

  it("includes the callers in the CPU's LBR call stack", function()
    local words = { sample_type = { "identifier", "ip", "tid", "time", "cpu", "callchain", "branch_stack" },
                    branch_sample_type = { "user", "call_stack" } }
    local function taken(misc, chain, ...)
      local t, list = sample(7, chain, 7, misc), {}
      for i, from in ipairs { ... } do list[i] = { from = from, to = 0x400100 } end
      t.branch_stack = list
      return t
    end
    -- helper's last byte is a call: a caller is where it calls, and not before where it goes on.
    local seen = told({ app(7), taken(2, { USER, 0x400110, 0x500000 }, 0x40030f, 0x400020),
      taken(1, { KERNEL, 0xffffffff81000110, USER, 0x400110, 0x500000 }, 0x400020),
      taken(1, { KERNEL, 0xffffffff81000110 }, 0x400020), taken(2, { USER, 0x400110, 0x400020 }) },
      function(r) return r.stack:folded() end, { words = words })
    assert.same({ "main;helper;work", "main;work;do_work", "do_work", "main;work" }, seen)
    words.branch_sample_type = { "user", "any" } -- no call stack: branches of another kind
    assert.same({ "main;work" }, (told({ app(7), taken(2, { USER, 0x400110, 0x400020 }, 0x40030f) },
      function(r) return r.stack:folded() end, { words = words })))
  end)

  it("is one value: stacks of the same frames are equal by ==, by id and as a key", function()
    local seen, kept = told({ app(7), sample(7, { USER, 0x400110 }), sample(7, { USER, 0x400110 }),
      sample(7, { USER, 0x400111 }), sample(7, { USER, 0x400110 }) }, function(r) return r.stack.id end), {}
    assert.same({ 1, 1, 2, 1 }, seen)
    told({ app(7), sample(7, { USER, 0x400110 }), fork(8, 7), sample(8, { USER, 0x400110 }) }, function(r)
      kept[r.stack] = (kept[r.stack] or 0) + 1
      return r.stack:folded()
    end)
    local counts = {}
    for _, n in pairs(kept) do counts[#counts + 1] = n end
    assert.same({ 2, 2 }, counts) -- of the simulated kernel and of the recording
  end)

  it("keeps its id after the stack was collected", function()
    local ids = told({ app(7), sample(7, { USER, 0x400110 }), sample(7, { USER, 0x400020 }),
      sample(7, { USER, 0x400110 }) }, function(r)
      local id = r.stack.id
      collectgarbage()
      return id
    end)
    assert.same({ 1, 2, 1 }, ids)
  end)

  it("outlives its record and its session, and is part of a record's copy", function()
    local stacks, copies = {}, {}
    told({ app(7), sample(7, { USER, 0x400110 }) }, function(r)
      stacks[#stacks + 1], copies[#copies + 1] = r.stack, r:copy()
    end)
    collectgarbage()
    assert.equal(stacks[1], copies[1].stack)
    assert.equal(0x400110, stacks[2][1].ip)
    assert.equal(1, #stacks[1])
  end)

  it("raises on unknown fields with the nearest name, and cannot be changed", function()
    told({ app(7), sample(7, { USER, 0x400110 }) }, function(r)
      local stack = r.stack
      assert.error_matches(function() return stack.foldd end, "no field 'foldd' %(did you mean 'folded'%?%)")
      assert.error_matches(function() stack.x = 1 end, "cannot be changed")
      return true
    end)
  end)

  it("has demangled names, and no ';' or line end within a folded frame", function()
    local seen = told({ exec(7, "a;b"), mmap(7, 0x400000, 0x2000, "/lib/_ZN3foo3barEv"),
      mmap(7, 0x30000, 0x1000, "//anon", { pgoff = 0 }), sample(7, { USER, 0x400010, 0x30102 }) }, folded)
    assert.same({ "a:b;twice:made;ns::pick<int>" }, seen)
  end)
end)

describe("an address in a stack", function()
  it("is found in a process that ended before the lookup", function()
    local stacks = {}
    simulated({ app(7), fork(8, 7), exec(8, "brief"), mmap(8, 0x400000, 0x2000, "/bin/other"),
      sample(8, { USER, 0x400110 }), exit(8), sample(8, { USER, 0x400120 }) },
      function(r) stacks[#stacks + 1] = r.stack end)
    local k = sim.new()
    for path, text in pairs(files) do k.files[path] = text end
    k:with(function()
      assert.equal("start", stacks[1]:folded())
      assert.equal("start", stacks[2]:folded()) -- its last moments, behind the EXIT
    end)
  end)

  it("belongs to the child's program after exec, and to its parent's memory before", function()
    assert.same({ "sh;work", "other;start", "sh;work", "sh;main" }, (told({ app(7), comm(7, "sh"), fork(8, 7),
      sample(8, { USER, 0x400110 }), exec(8, "other"), mmap(8, 0x400000, 0x2000, "/bin/other"),
      sample(8, { USER, 0x400110 }), sample(7, { USER, 0x400110 }), sample(7, { USER, 0x400010 }) }, folded)))
  end)

  it("changes its meaning with exec in place", function()
    assert.same({ "app;work", "other;start", "other;[unknown]" }, (told({ app(7), sample(7, { USER, 0x400110 }),
      exec(7, "other"), mmap(7, 0x400000, 0x1000, "/bin/other"), sample(7, { USER, 0x400110 }),
      sample(7, { USER, 0x401110 }) }, folded)))
  end)

  it("belongs to the new process when a pid is reused, even without a record of its start", function()
    assert.same({ "app;work", "new;start", ":7;second" }, (told({ app(7), exec(9, "new"),
      mmap(9, 0x400000, 0x2000, "/bin/other"), sample(7, { USER, 0x400110 }), exit(7), fork(7, 9),
      sample(7, { USER, 0x400110 }), exit(7), mmap(7, 0x500000, 0x1000, "/lib/two.so"),
      sample(7, { USER, 0x500010 }) }, function(r)
        return (r.comm or ":" .. r.tid) .. ";" .. r.stack:folded()
      end)))
  end)

  it("belongs to the latest mapping there: over all of the old one, its middle, its ends", function()
    -- Four pages, each a function; other mappings then cover this many.
    local function left(start, len)
      local seen = told({ exec(7, "x"), mmap(7, 0x10000, 0x4000, "/lib/four.so"), mmap(7, start, len, "/lib/one.so"),
        sample(7, { USER, 0x10010 }), sample(7, { USER, 0x11010 }), sample(7, { USER, 0x12010 }),
        sample(7, { USER, 0x13010 }) }, function(r)
        return r.stack[1].module == "/lib/four.so" and r.stack[1].symbol or "-"
      end)
      return table.concat(seen)
    end
    assert.equal("----", left(0x10000, 0x4000))
    assert.equal("----", left(0xf000, 0x9000))
    assert.equal("a--d", left(0x11000, 0x2000))
    assert.equal("--cd", left(0x10000, 0x2000))
    assert.equal("--cd", left(0xe000, 0x4000))
    assert.equal("abc-", left(0x13000, 0x9000))
    assert.equal("abcd", left(0x14000, 0x1000))
  end)

  it("after a mapping into the middle of a file still belongs to the file", function()
    -- work is at 0x1100 of the file, and its page was mapped at 0x400000; a page of data goes before it.
    assert.same({ "[unknown]", "work" }, (told({ app(7), mmap(7, 0x400000, 0x100, "/x", { prot = 3 }),
      sample(7, { USER, 0x400010 }), sample(7, { USER, 0x400110 }) }, function(r) return r.stack:folded() end)))
  end)

  it("keeps its meaning after dlclose until another file is mapped there", function()
    assert.same({ "first", "first", "second" }, (told({ exec(7, "x"), mmap(7, BASE, 0x1000, "/lib/one.so"),
      sample(7, { USER, BASE + 8 }), sample(7, { USER, BASE + 9 }), mmap(7, BASE, 0x1000, "/lib/two.so"),
      sample(7, { USER, BASE + 8 }) }, function(r) return r.stack:folded() end)))
  end)

  it("has one meaning in all threads of a process", function()
    assert.same({ "work", "first" }, (told({ app(7), fork(7, 7, 8), sample(7, { USER, 0x400110 }, 8),
      mmap(7, BASE, 0x1000, "/lib/one.so", { tid = 8 }), sample(7, { USER, BASE + 8 }, 7) },
      function(r) return r.stack:folded() end)))
  end)

  it("is found through /proc for processes that existed before", function()
    local k, seen = sim.new { cpus = "0" }, {}
    for path, text in pairs(files) do k.files[path] = text end
    k.files["/proc/7/task/7/comm"] = "old\n"
    k.files["/proc/7/maps"] = "00400000-00402000 r-xp 00001000 08:01 1   /bin/app\n"
      .. "00600000-00601000 rw-p 00000000 08:01 1   /bin/app\nnonsense\n00030000-00031000 r-xp 00000000 00:00 0 \n"
    k:with(function()
      local s = perfev.session { duration = "300ms" }
      s:event { type = 1, config = 0, sample_period = 1, callchain = true,
                sample = function(r) seen[#seen + 1] = folded(r) end }
      for i, ip in ipairs { 0x400110, 0x600010, 0x30010 } do
        k:after(i * MS, function() k:ring(0):push(sample(7, { USER, ip })) end)
      end
      assert(s:run())
      assert.equal("work", (perfev.symbol.process(7, 0x400110)))
    end)
    assert.same({ "old;work", "old;[unknown]", "old;made" }, seen)
    -- A mapping made while /proc is read must not be missed.
    local on, scanned
    for i, line in ipairs(k.log) do
      if line:find("^ioctl%(%d+, ENABLE") then on = on or i end
      if line:find("^slurp%(/proc/7/maps") then scanned = scanned or i end
    end
    assert.is_true(on < scanned)
  end)

  it("keeps its meaning for the last 4,096 processes that exited, and for no more", function()
    local story = {}
    for pid = 10, 5009 do
      story[#story + 1] = { comm(pid, "x"), mmap(pid, 0x400000, 0x2000, "/bin/app", { ino = pid }), exit(pid) }
    end
    for pid = 10, 5009 do story[#story + 1] = sample(pid, { USER, 0x400110 }) end
    local known = 0
    recorded(story, function(r)
      if r.stack[1].module == "/bin/app" then
        known = known + 1
        assert.is_true(r.pid >= 5010 - 4096)
      end
    end)
    assert.equal(4096, known)
  end)

  it("is tracked from the moment an event with stacks is declared while others run", function()
    local k, seen = sim.new { cpus = "0" }, {}
    for path, text in pairs(files) do k.files[path] = text end
    k.files["/proc/7/task/7/comm"] = "old\n"
    k.files["/proc/7/maps"] = "00400000-00402000 r-xp 00001000 08:01 1   /bin/app\n"
    k:with(function()
      local s = perfev.session { duration = "500ms" }
      s:event { comm = function() end }
      assert(s:start())
      assert(s:event { type = 1, config = 0, sample_period = 1, callchain = true,
                       sample = function(r) seen[#seen + 1] = folded(r) end })
      k.files["/proc/7/maps"] = nil
      for i, record in ipairs { sample(7, { USER, 0x400110 }), mmap(7, BASE, 0x1000, "/lib/one.so"),
                                sample(7, { USER, BASE + 8 }) } do
        k:after(i * MS, function() k:ring(0):push(copied(record)) end)
      end
      assert(s:run())
    end)
    assert.same({ "old;work", "old;first" }, seen)
  end)

  it("in generated code has its name from the process's own perf map", function()
    assert.same({ "made", "twice;made", "made again", false }, (told({ exec(7, "jit"),
      mmap(7, 0x30000, 0x1000, "//anon", { pgoff = 0 }), sample(7, { USER, 0x30010 }), sample(7, { USER, 0x30110 }),
      sample(7, { USER, 0x30130 }), sample(7, { USER, 0x30150 }) }, function(r)
        assert.equal("/tmp/perf-7.map", r.stack[1].module)
        return r.stack[1].symbol
      end)))
  end)

  it("is found in the files of the process's own mount namespace and by its pid there", function()
    local seen = {}
    simulated({ app(7), mmap(7, 0x30000, 0x1000, "//anon", { pgoff = 0 }), sample(7, { USER, 0x400010, 0x30010 }),
      exec(8, "app"), mmap(8, 0x400000, 0x2000, "/bin/app", { ino = 2 }), sample(8, { USER, 0x400010 }) },
      function(r) seen[#seen + 1] = r.stack:folded() end, {
        links = { ["/proc/self/ns/mnt"] = "mnt:[1]", ["/proc/7/ns/mnt"] = "mnt:[2]", ["/proc/8/ns/mnt"] = "mnt:[1]" },
        files = { ["/proc/7/root/bin/app"] = files["/bin/other"], ["/proc/7/status"] = "Pid:\t7\nNSpid:\t7\t1\n",
                  ["/proc/7/root/tmp/perf-1.map"] = "30000 100 made inside\n" } })
    assert.same({ "made inside;start", "main" }, seen)
  end)

  it("never has the name of another process's generated code", function()
    assert.same({ "made", false }, (told({ exec(7, "jit"), mmap(7, 0x30000, 0x1000, "//anon", { pgoff = 0 }),
      sample(7, { USER, 0x30010 }), fork(8, 7), sample(8, { USER, 0x30010 }) },
      function(r) return r.stack[1].symbol end)))
  end)

  it("has the name of a kernel function from its load to its unload", function()
    assert.same({ "[bpf] bpf_prog_1_x", "[mod] mod_work", "[kernel] entry" }, (told({
      ksymbol(0xffffffffa0000010, "bpf_prog_1_x"), sample(7, { KERNEL, 0xffffffffa0000018 }),
      ksymbol(0xffffffffa0000010, "bpf_prog_1_x", 1), sample(7, { KERNEL, 0xffffffffa0000018 }),
      sample(7, { KERNEL, 0xffffffff81000201 }) },
      function(r) return r.stack[1].module .. " " .. r.stack[1].symbol end)))
  end)

  it("keeps its name while the kernel patches code, and may be a trampoline's", function()
    local function poke(addr, old, new) return { type = "text_poke", addr = addr, old_bytes = old, new_bytes = new } end
    local function trampoline(flags)
      local t = ksymbol(0xffffffffa0001000, "ftrace_trampoline", flags)
      t.ksym_type = 2
      return t
    end
    local pokes = { poke(0xffffffff81000110, "\x0f\x1f\x44\0\0", "\xe8\1\2\3\4"), trampoline(),
      poke(0xffffffffa0001000, "", "\x90\x90\x90"), sample(7, { KERNEL, 0xffffffff81000110 }),
      sample(7, { KERNEL, 0xffffffff81000115 }), sample(7, { KERNEL, 0xffffffffa0001002 }),
      poke(0xffffffffa0001000, "\x90\x90\x90", ""), trampoline(1), sample(7, { KERNEL, 0xffffffffa0001002 }) }
    assert.same({ "[kernel] do_work+16", "[kernel] do_work+21", "[ool] ftrace_trampoline+2", "[mod] mod_work+4098" },
      (told(pokes, function(r)
        return ("%s %s+%d"):format(r.stack[1].module, r.stack[1].symbol, r.stack[1].offset)
      end, { words = { text_poke = true } })))
  end)

  it("is unknown for a guest, a hypervisor, the idle task and data", function()
    assert.same({ "[guest]", "[guest]", "[unknown]", "[kernel]" }, (told({ sample(7, { -2048, 0x400110 }),
      sample(7, { -32, 0x400110 }), sample(0, { USER, 0x400110 }), sample(7, { KERNEL, 0xffffffff81000310 }) },
      function(r)
        assert.is_nil(r.stack[1].symbol)
        return r.stack[1].module
      end)))
  end)

  it("is r.ip for r.symbol", function()
    assert.same({ "work", "do_work", false }, (told({ app(7), sample(7, { USER, 0x400110 }),
      sample(7, { KERNEL, 0xffffffff81000110 }, 7, 1), sample(7, { USER, 0x900000 }) },
      function(r) return r.symbol end)))
  end)
end)

describe("the kernel", function()
  -- The tools' record of where the kernel was: its text, and the address of the symbol in its name.
  local function kernel_map(text)
    return { type = "mmap", pid = -1, tid = 0, addr = text, len = 0x1000000, pgoff = text, misc = 1,
             filename = "[kernel.kallsyms]_text" }
  end

  it("of a recording may have been loaded at another address, and its modules anywhere", function()
    local seen = {}
    local said = recorded({ kernel_map(0xffffffff91000000), sample(7, { KERNEL, 0xffffffff91000110 }),
      sample(7, { KERNEL, 0xffffffffb0000008 }) }, function(r)
      seen[#seen + 1] = ("%s %s"):format(r.stack[1].symbol, r.stack[1].module)
    end)
    assert.same({ "do_work [kernel]", "nil [kernel]" }, seen)
    assert.same({}, said)
  end)

  it("of a recording of another release has no names, with a message", function()
    local seen = {}
    local said = recorded({ sample(7, { KERNEL, 0xffffffff81000110 }), sample(7, { KERNEL, 0xffffffff81000111 }) },
      function(r) seen[#seen + 1] = r.stack:folded() end,
      { features = { [OSRELEASE] = string.pack("<s4", "5.10.0\0") } })
    assert.same({ "[kernel]", "[kernel]" }, seen)
    assert.equal(1, #said)
    assert.matches("no names: the recording is from 5.10.0, this kernel is 6.1.0", said[1])
  end)

  it("of a recording without the kernel's release is not called another kernel", function()
    local said = recorded({ sample(7, { KERNEL, 0xffffffff81000110 }) }, function(r) return r.stack:folded() end,
      { features = { [OSRELEASE] = false } })
    assert.equal(1, #said)
    assert.matches("the recording does not name its kernel; .*\n  try: %-%-kallsyms /proc/kallsyms$", said[1])
    finally(function() perfev.symbol.kallsyms(nil) end)
    perfev.symbol.kallsyms(said[1]:match "%-%-kallsyms (.*)$")
    local seen
    said = recorded({ sample(7, { KERNEL, 0xffffffff81000110 }) }, function(r) seen = r.stack:folded() end,
      { features = { [OSRELEASE] = false } })
    assert.same({ "do_work", 0 }, { seen, #said })
  end)

  -- do_work() as the linker placed it, 16 MiB below where it ran.
  local function vmlinux(id)
    return elf.file { functions = { { "_text", 0xffffffff81000000, 0x10 }, { "do_work", 0xffffffff81000100, 0x80 } },
                      vaddr = 0xffffffff81000000, build_id = id }
  end
  local MOVED = "ffffffff82000000 T _text\nffffffff82000100 t do_work\nffffffffc0000000 t of_module\t[mod]\n"

  -- The name of a sample in do_work() of another release, with these files present, and the messages.
  local function foreign(there, set)
    local seen
    finally(function() perfev.symbol.symfs(nil) perfev.symbol.kallsyms(nil) end)
    set()
    local said = recorded({ kernel_map(0xffffffff82000000), sample(7, { KERNEL, 0xffffffff82000110 }) },
      function(r) seen = r.stack:folded() end,
      { features = { [OSRELEASE] = string.pack("<s4", "5.10.0\0") }, files = there })
    return seen, said
  end

  it("of a recording of another release is found below symfs, as kallsyms or as vmlinux", function()
    local function below() perfev.symbol.symfs "/target" end
    assert.equal("do_work", (foreign({ ["/target/proc/kallsyms"] = MOVED }, below)))
    for _, place in ipairs { "/boot/vmlinux-5.10.0", "/usr/lib/debug/boot/vmlinux-5.10.0",
                             "/usr/lib/debug/lib/modules/5.10.0/vmlinux", "/lib/modules/5.10.0/build/vmlinux" } do
      local seen, said = foreign({ ["/target" .. place] = vmlinux() }, below)
      assert.same({ "do_work", {} }, { seen, said }, place)
    end
    local seen, said = foreign({ ["/boot/vmlinux-5.10.0"] = vmlinux() }, below)
    assert.same({ "[kernel]", 1 }, { seen, #said })
  end)

  it("of a recording in a directory, as perf record --kcore makes one, is found in it", function()
    local beside = stories.path() .. "/kcore_dir/kallsyms"
    local seen, said = foreign({ [beside] = MOVED }, function() end)
    assert.same({ "do_work", {} }, { seen, said })
    seen, said = foreign({ [beside] = "0000000000000000 T _text\n" }, function() end) -- addresses hidden
    assert.same({ "[kernel]", 1 }, { seen, #said })
  end)

  it("is read from a file that the user names", function()
    local function named() perfev.symbol.kallsyms "/tmp/theirs" end
    assert.equal("do_work", (foreign({ ["/tmp/theirs"] = MOVED }, named)))
    assert.equal("do_work", (foreign({ ["/tmp/theirs"] = vmlinux() }, named)))
    local seen, said = foreign({ ["/tmp/theirs"] = "\127ELF, and no more" }, named)
    assert.equal("[kernel]", seen)
    assert.matches("the kernel's functions have no names: /tmp/theirs: it is not a readable vmlinux$", said[1])
    seen, said = foreign({}, named)
    assert.equal("[kernel]", seen)
    assert.matches("the kernel's functions have no names: /tmp/theirs: No such file or directory$", said[1])
    local k = sim.new()
    k.files["/tmp/theirs"] = vmlinux()
    k:with(function()
      assert.is_nil((perfev.symbol.kernel(0xffffffff81000110)))
      assert.matches("only /proc/kallsyms has the addresses", perfev.symbol.notes()[1])
    end)
    assert.error_matches(function() perfev.symbol.kallsyms(7) end, "kallsyms: a path, or nil, not a number")
  end)

  it("has no names for addresses far behind the last function of a module or of the kernel", function()
    local k = sim.new()
    k.files["/proc/kallsyms"] = "ffffffff81000000 T first\nffffffff81800000 T last\n"
      .. "ffffffffc0000100 t one\t[a]\nffffffffc0000200 t two\t[a]\nffffffffc0100000 t three\t[b]\n"
    local function at(address) return (perfev.symbol.kernel(address)) end
    k:with(function()
      assert.same({ "first", "last" }, { at(0xffffffff817fffff), at(0xffffffff81800fff) })
      assert.same({ "one", "two", "two" }, { at(0xffffffffc00001ff), at(0xffffffffc0000200), at(0xffffffffc0001fff) })
      assert.same({}, { at(0xffffffffa0000000), at(0xffffffffc0080000) })
      assert.same({ "three" }, { at(0xffffffffc0101fff), at(0xffffffffff600000) })
    end)
  end)

  it("that hides its addresses has no names, with one message", function()
    local k, name, module = sim.new(), nil, nil
    k.files["/proc/kallsyms"] = "0000000000000000 T _text\n0000000000000000 t do_work\n"
    k.files["/proc/sys/kernel/kptr_restrict"] = "2\n"
    k:with(function()
      for _ = 1, 3 do name, _, module = perfev.symbol.kernel(0xffffffff81000110) end
      assert.same({ "the kernel's functions have no names: /proc/kallsyms hides their addresses "
        .. "(kernel.kptr_restrict is 2)\n  try: sudo sysctl kernel.kptr_restrict=0" }, perfev.symbol.notes())
    end)
    assert.same({ nil, "[kernel]" }, { name, module })
    k = sim.new()
    k.files["/proc/kallsyms"], k.files["/proc/sys/kernel/kptr_restrict"] = "0 T _text\n", "0\n"
    k.files["/proc/sys/kernel/perf_event_paranoid"] = "2\n"
    k:with(function()
      perfev.symbol.kernel(1)
      assert.matches("perf_event_paranoid is 2%)\n  try: as root, or sysctl kernel.perf_event_paranoid=1",
        perfev.symbol.notes()[1])
    end)
  end)
end)

describe("a file with another build-id than the mapped file", function()
  it("is not used, with a message", function()
    local story = { exec(7, "x"), mmap(7, BASE, 0x1000, "/lib/one.so"), sample(7, { USER, BASE + 8 }) }
    local function id_table(id)
      return string.pack("<I4I2I2i4", 0, 0x8002, 36 + 16, -1) .. id .. "\20\0\0\0/lib/one.so" .. ("\0"):rep(5)
    end
    local seen = {}
    local function told_with(id)
      return recorded(story, function(r) seen[#seen + 1] = r.stack:folded() end,
        { features = { [BUILD_IDS] = id_table(id) } })
    end
    local said = told_with(OTHER_ID)
    assert.same({ "[one.so]" }, seen)
    assert.matches("/lib/one.so: its functions have no names: .*has another build%-id", said[1])
    said = told_with(BUILD_ID)
    assert.equal("first", seen[2])
    assert.same({}, said)
  end)

  it("is detected by the record itself if the kernel writes build-ids", function()
    local k, seen = sim.new { cpus = "0" }, {}
    for path, text in pairs(files) do k.files[path] = text end
    k:with(function()
      local s = perfev.session { duration = "300ms" }
      s:event { type = 1, config = 0, sample_period = 1, callchain = true,
                sample = function(r) seen[#seen + 1] = r.stack:folded() end }
      for i, id in ipairs { BUILD_ID, OTHER_ID } do
        k:after(2 * i * MS, function()
          k:ring(0):push { type = "mmap2", pid = 7, addr = BASE, len = 0x1000, pgoff = 0x1000, prot = 5, flags = 2,
                           filename = "/lib/one.so", build_id = id, build_id_form = true }
        end)
        k:after((2 * i + 1) * MS, function() k:ring(0):push(sample(7, { USER, BASE + 8 })) end)
      end
      assert(s:run())
      assert.matches("another build%-id", perfev.symbol.notes()[1])
    end)
    assert.same({ "first", "[one.so]" }, seen)
  end)
end)

-- ---- names after the process has ended ----

describe("a process whose files are gone when names are looked up", function()
  local k
  before_each(function()
    k = sim.new { cpus = "0" }
    k.files["/bin/app"], k.files["/tmp/perf-7.map"] = files["/bin/app"], files["/tmp/perf-7.map"]
    k.links["/proc/self/root"] = "/"
  end)

  -- Runs a story, removes all files, and looks names up: how often each stack was there, by text; and symbol.gone().
  local function counted(story, before_names)
    local a, found, gone = perfev.count { by = "stack" }, {}, nil
    k:with(function()
      local s <close> = perfev.session { duration = "300ms" }
      s:event { type = 1, config = 0, sample_period = 1, callchain = true, sample = a }
      for i, step in ipairs(story) do
        k:after(i * MS, function() k:ring(0):push(copied(step)) end)
      end
      assert(s:run())
      k.files = {}
      if before_names then before_names() end
      for stack, n in a:pairs() do
        local text = stack:folded()
        found[text] = (found[text] or 0) + n
      end
      gone = perfev.symbol.gone()
    end)
    return found, gone
  end
  local function run_app(ip)
    return { exec(7, "app"), mmap(7, 0x400000, 0x2000, "/bin/app"), sample(7, { USER, ip }) }
  end

  it("keeps its names: sampled files are kept open", function()
    assert.same({ work = 1 }, counted(run_app(0x400110)))
    collectgarbage()
    assert.same({}, k:leaks())
  end)

  it("keeps its names in a root of its own, and those of generated code", function()
    k.links["/proc/7/root"] = "/srv/inside"
    k.files["/bin/app"] = nil
    k.files["/proc/7/root/bin/app"], k.files["/tmp/perf-7.map"] = files["/bin/app"], nil
    k.files["/proc/7/root/tmp/perf-1.map"] = "30000 100 made inside\n"
    k.files["/proc/7/status"] = "Name:\tapp\nUid:\t0\t0\t0\t0\nNSpid:\t7\t1\n"
    local story = run_app(0x400110)
    table.insert(story, mmap(7, 0x30000, 0x1000, "//anon", { pgoff = 0 }))
    table.insert(story, sample(7, { USER, 0x30010 }))
    assert.same({ work = 1, ["made inside"] = 1 }, counted(story, function() k.links["/proc/7/root"] = nil end))
  end)

  it("has no names if the files were deleted before: their number is reported", function()
    k.files["/bin/app"] = nil
    local names, gone = counted(run_app(0x400110))
    assert.same({ ["[app]"] = 1 }, names)
    assert.equal("1 frame has no name: /bin/app was gone before it could be read", gone)
    k = sim.new { cpus = "0" }
    names, gone = counted { exec(7, "x"), mmap(7, 0x400000, 0x1000, "/bin/a\nb"), mmap(7, 0x500000, 0x1000, "/bin/c"),
      sample(7, { USER, 0x400010, 0x500010, 0x500020 }) }
    assert.same({ ["[c];[c];[a:b]"] = 1 }, names)
    assert.equal("3 frames have no name: /bin/a\\nb and 1 more file were gone before they could be read", gone)
  end)

  it("is not the only source: other processes are tried at the 2nd, 4th, 8th ... frame", function()
    k.files["/bin/app"] = nil
    local story, opened = {}, {}
    for pid = 7, 40 do
      table.insert(story, exec(pid, "app"))
      table.insert(story, mmap(pid, 0x400000, 0x2000, "/bin/app"))
      table.insert(story, sample(pid, { USER, 0x400100 + pid }))
    end
    k.links["/proc/11/root"] = "/srv/11" -- the fifth
    k.links["/proc/14/root"], k.files["/proc/14/root/bin/app"] = "/srv/14", files["/bin/app"] -- the eighth
    local open = k.hooks.open
    k.hooks.open = function(path, flags)
      opened[#opened + 1] = path:match "^/proc/%d+/root" or path:match "^/bin/app"
      return open(path, flags)
    end
    assert.same({ work = 34 }, counted(story))
    assert.same({ "/bin/app", "/bin/app", "/bin/app", "/proc/14/root" }, opened) -- 1, 2, 4, 8
  end)

  it("keeps its names with too many files to keep open: symbols of one are read before it is closed",
    function()
      local story = {}
      k.links["/proc/7/root"] = "/srv/inside"
      for i = 1, 40 do
        local path = ("/lib/x%02d.so"):format(i)
        k.files["/proc/7/root" .. path] = elf.file { functions = { { ("f%02d"):format(i), 0x1000, 0x100 } } }
        table.insert(story, mmap(7, i << 20, 0x1000, path))
        table.insert(story, sample(7, { USER, (i << 20) + 8 }))
      end
      k.files["/proc/self/limits"] = "Limit  Soft Limit  Hard Limit  Units\nMax open files  128  4096  files\n"
      local most, expected = 0, {}
      local names = counted(story, function()
        for _, file in pairs(k.fds) do most = most + (file.kind == "file" and 1 or 0) end
      end)
      for i = 1, 40 do expected[("f%02d"):format(i)] = 1 end
      assert.same(expected, names)
      assert.equal(16, most)
    end)
end)

-- ---- as keys of aggregators ----

-- Names are looked up when they are read: of the machine that the stories are of.
local function there(f, ...)
  local k = sim.new { cpus = "0" }
  for path, text in pairs(files) do k.files[path] = text end
  return perfev.hooks.with(files_beside_real(k), f, ...)
end

local function texts_of(aggregator)
  local rows = aggregator:rows()
  for i, row in ipairs(rows) do
    rows[i] = { comm = row.comm, value = row.value }
    for _, name in ipairs { "stack", "ustack", "kstack" } do rows[i][name] = row[name] and row[name]:folded() end
  end
  -- Rows of equal values are sorted by text, so their order is fixed.
  table.sort(rows, function(a, b)
    local x = ("%d %s %s %s"):format(99 - a.value, a.comm, a.stack or a.ustack, a.kstack)
    return x < ("%d %s %s %s"):format(99 - b.value, b.comm, b.stack or b.ustack, b.kstack)
  end)
  return rows
end
local function plain_rows(aggregator) return there(texts_of, aggregator) end

local function print_of(aggregator, how)
  local lines, old = {}, print
  _G.print = function(text) lines[#lines + 1] = text or "" end
  local ok, why = pcall(there, aggregator.print, aggregator, how)
  _G.print = old
  assert(ok, why)
  return table.concat(lines, "\n")
end

describe("a stack as a key", function()
  local K, U, V = 0xffffffff81000110, 0x400110, 0x400020
  local story = { app(7), comm(7, "seven"), app(8), comm(8, "eight"), sample(7, { KERNEL, K, USER, U, V }),
                  sample(7, { USER, U, V }), sample(8, { KERNEL, K, USER, U, V }), sample(7, { USER, U, V }),
                  sample(7, { KERNEL, K }), sample(7, {}) }

  it("counts the same as a callback with r.stack, live and in a recording", function()
    for _, ways in ipairs { { simulated, simulated }, { recorded, recorded }, { simulated, recorded } } do
      local native, twin = perfev.count { by = { "comm", "stack" } }, perfev.count { by = { "comm", "stack" } }
      ways[1](story, native)
      ways[2](story, function(r) twin:inc(r.comm, r.stack) end)
      collectgarbage()
      assert.equal(5, #native)
      assert.same(plain_rows(twin), plain_rows(native))
    end
  end)

  it("feeds a profile without Lua, with the same result as a callback", function()
    local values = { "samples", "tids" }
    for _, way in ipairs { simulated, recorded } do
      local native, twin = perfev.profile { values = values }, perfev.profile { values = values }
      way(story, native:sampler { under = { "comm", "tid" }, value = "tid", where = { "tid", "<", 8 } })
      way(story, function(r)
        if r.tid < 8 then twin:add_under({ r.comm, tostring(r.tid) }, r.stack, 1, r.tid) end
      end)
      assert.equal(twin:total(), native:total())
      assert.equal(twin:folded(), native:folded())
      assert.equal(twin:folded { value = "tids" }, native:folded { value = "tids" })
      assert.matches("^seven;7;", native:folded())
    end
    local counted, one = perfev.profile {}, perfev.profile {}
    local a = counted:sampler()
    simulated({ app(7), sample(7, { USER, U }), sample(7, {}) }, a)
    assert.equal("[unknown] 1\nwork 1\n", there(counted.folded, counted))
    simulated({ app(7), sample(7, { USER, U }) }, a)
    assert.equal("[unknown] 1\nwork 2\n", there(counted.folded, counted))
    for options, why in pairs { [{ undre = "comm" }] = "did you mean 'under'",
      [{ value = 7 }] = "value must be a string, not 7",
      [{ under = { 7 } }] = "under: element 1 must be a string, not 7", [{ where = { 7 } }] = "sampler: where: " } do
      assert.error_matches(function() one:sampler(options) end, "profile: sampler: .*" .. why:gsub("^sampler: ", ""))
    end
    assert.error_matches(function() perfev.profile { values = values }:sampler {} end, "2 value types")
  end)

  it("feeds a profile through a script's function, one key at a time", function()
    local p, asked = perfev.profile { values = { "samples", "twice" } }, 0
    local one = p:sampler { by = { "comm", "stack" }, add = function(name, stack, nr)
      asked = asked + 1
      p:add_under({ "all", name }, stack, nr, 2 * nr)
    end }
    simulated({ app(7), sample(7, { USER, U }), sample(7, { USER, U }), sample(7, {}) }, one)
    assert.equal("all;app;[unknown] 2\nall;app;work 4\n", there(p.folded, p, { value = "twice" }))
    assert.same({ 2, 3 }, { asked, p:total() })
    local sums = perfev.profile { values = { "nr", "sum" } }
    local summed = sums:sampler { by = "comm", value = "tid", add = function(...) sums:add(...) end }
    simulated({ app(7), sample(7, {}), sample(7, {}) }, summed)
    assert.same({ 2, 14 }, { sums:total "nr", sums:total "sum" })
    local together = "'by' and 'add' require each other, and replace 'under'"
    for options, why in pairs { [{ by = "comm" }] = together, [{ add = print }] = together,
      [{ by = "comm", under = "tid", add = print }] = together,
      [{ by = "comm", add = 7 }] = "add must be a function, not 7" } do
      assert.error_matches(function() p:sampler(options) end, "profile: sampler: " .. why)
    end
  end)

  it("adds to a cleared profile only later samples", function()
    local p = perfev.profile {}
    local one = p:sampler()
    simulated({ app(7), sample(7, { USER, U }) }, one)
    p:clear()
    assert.same({ 0, "" }, { p:total(), p:folded() })
    assert.is_nil(p.duration)
    simulated({ app(7), sample(7, { USER, V }), sample(7, { USER, V }) }, one)
    assert.same({ "main 2\n", 1000000 }, { there(p.folded, p), p.duration })
    p:add("a;b", 3)
    p:clear()
    assert.same({ 0, "" }, { p:total(), p:folded() })
  end)

  it("is the same object as r.stack, and finds its cell", function()
    local a, seen = perfev.count { by = "stack" }, {}
    simulated({ app(7), sample(7, { USER, U }), sample(7, { USER, V }) }, function(r)
      seen[#seen + 1] = r.stack
      a:inc(r.stack)
    end)
    assert.equal(seen[2], (a:pairs()()) == seen[1] and seen[2])
    assert.equal(1, a:get(seen[2]))
    assert.has_error(function() a:inc(print) end)
  end)

  it("may be the user part or the kernel part alone, even without frames", function()
    local a = perfev.count { by = { "ustack", "kstack" } }
    local b = perfev.count { by = "kstack" }
    simulated(story, a)
    recorded(story, b)
    assert.same({ { ustack = "main;work", kstack = "", value = 2 },
                  { ustack = "main;work", kstack = "do_work", value = 2 },
                  { ustack = "", kstack = "", value = 1 }, { ustack = "", kstack = "do_work", value = 1 } },
                plain_rows(a))
    assert.same({ { kstack = "", value = 3 }, { kstack = "do_work", value = 3 } }, plain_rows(b))
  end)

  it("remains after its session has ended, also in merge() and delta()", function()
    local whole = perfev.count { by = "stack" }
    for _, way in ipairs { simulated, recorded } do
      local a = perfev.count { by = "stack" }
      way({ app(7), sample(7, { USER, U, V }) }, a)
      whole:merge(a)
    end
    local delta = whole:delta()
    whole:clear()
    whole = nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    local rows = plain_rows(delta)
    assert.same({ { stack = "main;work", value = 1 }, { stack = "main;work", value = 1 } }, rows)
  end)

  it("prints as bpftrace does, and folded in CSV", function()
    local a = perfev.count { by = { "comm", "stack" } }
    local b = perfev.hist { by = "kstack", value = "pid", unit = "pids" }
    simulated({ app(7), comm(7, "seven"), sample(7, { KERNEL, K, USER, U, 0x900000 }) }, a)
    simulated({ app(7), sample(7, { KERNEL, K }) }, b)
    assert.equal("@[seven,\n    do_work+0x10 ([kernel])\n    work+0x10 (/bin/app)\n    0x900000 ([unknown])\n]: 1",
      print_of(a))
    assert.equal("comm,stack,value\nseven,[unknown];work;do_work,1", print_of(a, "csv"))
    assert.equal("@[\n    do_work+0x10 ([kernel])\n] (pids):", print_of(b):match "^.-:")
  end)

  it("is missing from a sample without a call chain, with a message", function()
    local k, a = sim.new { cpus = "0" }, perfev.count { by = "stack" }
    k:with(function()
      local s = perfev.session { duration = "300ms" }
      s:event { type = 1, config = 0, sample_period = 1, sample = a }
      k:after(MS, function() k:ring(0):push { type = "sample", pid = 7 } end)
      assert(s:run())
    end)
    assert.same({ "1 record without stack (callchain = true takes them): not counted" }, a:remarks())
  end)
end)
