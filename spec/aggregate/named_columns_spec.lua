-- Columns of aggregators whose keys are names: callers, source lines and cgroups; live and in recordings.

local perfev = require "perfev"
local sim = require "perfev.sim"

local stories = require "spec.support.story"(setup, teardown)
local USER, KERNEL, MS = -512, -128, 1000000
local app, sample = stories.app, stories.sample

-- The cells of an aggregator, "key key" -> value, read when the session ends.
local function cells(a)
  local out = {}
  for _, row in ipairs(a:rows()) do
    local keys = {}
    for i, name in ipairs(a:spec().by) do keys[i] = tostring(row[name]) end
    out[table.concat(keys, " ")] = row.value
  end
  return out
end

-- Runs steps, 1 ms each, on the simulated kernel; returns f() at the session's end.
local function run_live(steps, spec, f, more)
  local k = sim.new { cpus = "0" }
  for path, text in pairs(stories.files) do k.files[path] = text end
  for name, value in pairs(more and more.files or {}) do k.files[name] = value end
  if more and more.change then more.change(k) end
  return k:with(function()
    local s = perfev.session { duration = "300ms" }
    local decl = { type = 1, config = 0, sample_period = 1 }
    for name, value in pairs(spec) do decl[name] = value end
    s:event(decl)
    for i, step in ipairs(steps) do
      k:after(i * MS, function() k:ring(0):push(stories.copied(step)) end)
    end
    assert(s:run())
    return f(k)
  end)
end

local function flat(...)
  local out = {}
  for _, step in ipairs { ... } do
    table.move(step.type and { step } or step, 1, step.type and 1 or #step, #out + 1, out)
  end
  return out
end

-- work() called by main(), twice; helper() called by work(); do_work() of the kernel, below helper(); unknown code.
local CHAINS = flat(app(7), sample(7, { USER, 0x400110, 0x400020 }), sample(7, { USER, 0x400118, 0x400024 }),
  sample(7, { USER, 0x400308, 0x400110, 0x400020 }),
  sample(7, { KERNEL, 0xffffffff81000110, USER, 0x400308, 0x400020 }, 7, 1),
  sample(7, { USER, 0x700000, 0x400020 }), sample(7, { USER, 0x700000 }))

describe("the column caller", function()
  local function live(spec)
    local a = perfev.count(spec)
    return run_live(CHAINS, { callchain = true, sample = a }, function() return cells(a) end)
  end

  it("is the innermost function that skip does not match", function()
    assert.same({ work = 2, helper = 1, do_work = 1, ["[unknown]"] = 2 }, live { by = "caller" })
    assert.same({ main = 2, helper = 1, do_work = 1, ["[unknown]"] = 2 }, live { by = "caller", skip = { "^work$" } })
    assert.same({ main = 5, ["[unknown]"] = 1 }, live { by = "caller", skip = { "work", "^help", "^%[unknown%]$" } })
    assert.same({ ["[unknown]"] = 6 }, live { by = "caller", skip = "." })
  end)

  it("is the same in a recording, beside other columns", function()
    local spec = { by = { "symbol", "caller", "comm" }, skip = { "work", "helper" } }
    local expected = { ["work main app"] = 2, ["helper main app"] = 1, ["do_work main app"] = 1,
      ["[unknown] [unknown] app"] = 2 }
    assert.same(expected, live(spec))
    local a = perfev.count(spec)
    local found
    stories.recorded(CHAINS, nil, { callbacks = { sample = a }, finish = function() found = cells(a) end })
    assert.same(expected, found)
  end)

  it("takes stacks of a script, and is a name in packed aggregators", function()
    local a = perfev.sum { by = { "kind", "caller" }, skip = { "^work" } }
    run_live(CHAINS, { callchain = true, sample = function(r) a:add(10, "lock", r.stack) end }, function()
      local expected = { ["lock main"] = 20, ["lock helper"] = 10, ["lock do_work"] = 10, ["lock [unknown]"] = 20 }
      assert.same(expected, cells(a))
      assert.same(expected, cells(perfev.unpack(a:pack())))
      a:add(1, "lock", "by name")
      assert.equal(1, a:get("lock", "by name"))
    end)
  end)

  it("counts samples without a call chain as such", function()
    local a = perfev.count { by = "caller" }
    run_live(flat(app(7), { type = "sample", pid = 7, tid = 7, ip = 0x400110 }), { sample = a }, function()
      assert.same({ "1 record without caller (callchain = true takes them): not counted" }, a:remarks())
    end)
  end)

  it("is needed for skip, whose patterns have to be valid", function()
    for message, spec in pairs {
      ["count: skip needs a column 'caller'\n  try: by = \"caller\""] = { by = "comm", skip = "x" },
      ["count: skip: '(': unfinished capture"] = { by = "caller", skip = { "(" } },
    } do
      local ok, why = pcall(perfev.count, spec)
      assert.is_false(ok)
      assert.matches(message, why, 1, true)
    end
    assert.error_matches(function() perfev.count { by = "caller", skip = 7 } end, "skip")
  end)
end)

describe("the column line", function()
  it("is the name of the function, or of the file, where no line is known", function()
    local a = perfev.count { by = "line" }
    run_live(CHAINS, { sample = a }, function()
      assert.same({ work = 2, helper = 1, do_work = 1, ["[unknown]"] = 2 }, cells(a))
    end)
  end)
end)

describe("the column cgroup", function()
  local function of(id, more)
    local t = sample(7, { USER, 0x400110 })
    t.cgroup = id
    for name, value in pairs(more or {}) do t[name] = value end
    return t
  end
  local WORDS = { sample_type = { "ip", "tid", "time", "cpu", "callchain", "identifier", "cgroup" }, cgroup = true }
  local made = { type = "cgroup", id = 12, path = "/batch/one" }
  local STORY = flat(made, of(12), of(12), of(77), { type = "cgroup", id = 77, path = "/batch/late" }, of(77))

  it("is the path of the cgroup of the sample, by the kernel's records", function()
    local a = perfev.count { by = { "cgroup", "comm" } }
    local expected = { ["/batch/one app"] = 2, ["[cgroup 77] app"] = 1, ["/batch/late app"] = 1 }
    run_live(flat(app(7), STORY), { sample = a }, function(k)
      assert.same(expected, cells(a))
      -- The event asks for the samples' ids and for the records.
      assert.is_true(k.events[1].attr.cgroup)
      assert.equal(1 << 21, k.events[1].attr.sample_type & 1 << 21)
    end)
    a:clear()
    stories.recorded(flat(app(7), STORY), nil, { callbacks = { sample = a }, words = WORDS })
    assert.same(expected, cells(a))
  end)

  it("has the id in place of the path after 65,536 cgroups", function()
    local story = { app(7)[1] }
    for i = 1, 65537 do story[#story + 1] = { type = "cgroup", id = i, path = "/job/" .. i } end
    story = flat(story, of(65536), of(65537), { type = "cgroup", id = 1, path = "/renamed" }, of(1), of(99999))
    local a = perfev.count { by = "cgroup" }
    stories.recorded(story, nil, { callbacks = { sample = a }, words = WORDS })
    assert.same({ ["/job/65536"] = 1, ["[cgroup 65537]"] = 1, ["/renamed"] = 1, ["[cgroup 99999]"] = 1 }, cells(a))
  end)

  it("is found in the hierarchy that perf events use, and selects samples", function()
    local files = { ["/proc/mounts"] = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\nc /sys/fs/cgroup/u cgroup2 rw 0 0\n",
      ["/sys/fs/cgroup/u/cgroup.procs"] = "", ["/sys/fs/cgroup/u/a.slice/b/cgroup.procs"] = "" }
    local a = perfev.count { by = "cgroup" }
    local some = perfev.count { where = { "cgroup", "==", "/a.slice/b" } }
    local ids
    run_live({}, { sample = { a, some } }, function(k)
      assert.same({ ["/a.slice/b"] = 2, ["/"] = 1, ["[cgroup 999999]"] = 1 }, cells(a))
      assert.equal(2, some:get())
      ids = k.counts.list
    end, { files = files, change = function(k)
      local function id(path) return k.hooks.stat(path).ino end
      local b = id "/sys/fs/cgroup/u/a.slice/b"
      for i, one in ipairs { b, id "/sys/fs/cgroup/u", 999999, b } do
        k:after(i * MS, function() k:ring(0):push(of(one)) end)
      end
    end })
    assert.is_true(ids > 0)
  end)

  it("is that of the process where samples have none: kernels before 5.7", function()
    local files = { ["/proc/7/cgroup"] = "3:cpu,perf_event:/v1/jobs\n1:name=systemd:/other\n0::/v2\n",
      ["/proc/8/cgroup"] = "1:cpu:/other\n0::/user.slice\n", ["/proc/7/comm"] = "a\n", ["/proc/8/comm"] = "b\n",
      ["/proc/7/task/7/comm"] = "a\n", ["/proc/8/task/8/comm"] = "b\n" }
    local a, said = perfev.count { by = "cgroup" }, {}
    local k = sim.new { cpus = "0" }
    for path, text in pairs(files) do k.files[path] = text end
    local open = k.hooks.perf_event_open
    k.hooks.perf_event_open = function(attr, ...)
      if attr.cgroup or attr.sample_type & 1 << 21 ~= 0 then return nil, require("perfev.core").errno.EINVAL end
      return open(attr, ...)
    end
    k:with(function()
      local s = perfev.session { duration = "300ms", log = function(_, text) said[#said + 1] = text end }
      s:event { type = 1, config = 0, sample_period = 1, sample = a }
      for i, pid in ipairs { 7, 8, 7, 0, 9 } do
        k:after(i * MS, function() k:ring(0):push { type = "sample", pid = pid, tid = pid, ip = 1 } end)
      end
      assert(s:run())
      assert.same({ ["/v1/jobs"] = 2, ["/user.slice"] = 1, ["/"] = 1 }, cells(a))
      assert.same({ cgroup = 1 }, a:uncounted()) -- process 9 is unknown
    end)
    assert.matches("this kernel's samples have no cgroup; /proc has that of their process", table.concat(said, "\n"), 1,
      true)
  end)
end)
