-- Older kernels: perfev drops its own newer bits in a fixed order and logs that, but never the user's.

local perfev = require "perfev"
local core = require "perfev.core"
local kernels = require "perfev.event.kernel_versions"
local sim = require "perfev.sim"

local E = perfev.errno
local releases = { "4.4", "5.4", "5.15", "6.1", "6.18" }

-- Fields of later kernels, with the other fields that a valid attr needs.
local beside = {
  sigtrap = { remove_on_exec = true }, inherit_thread = { inherit = true },
  branch_sample_type = { sample_type = { "branch_stack" } },
}
local unfit = { -- needs more than an attr: an AUX group; or has no word in the attr
  aux_sample_size = true, aux_action = true, aux_output = true, kprobe_func = true, uprobe_path = true,
  sample_max_stack = true, -- before 4.8 a reserved word, which was not looked at
  kprobe_addr = true, probe_offset = true, aux_start_paused = true, aux_pause = true, aux_resume = true,
}

local function newer_fields(release)
  local list = {}
  for _, field in ipairs(core.attr_fields()) do
    if kernels.number(field.since) > kernels.number(release) and not unfit[field.name] then
      local spec = { [field.name] = field.width == 1 and true or 1 }
      for name, value in pairs(beside[field.name] or {}) do spec[name] = value end
      list[#list + 1] = { name = field.name, since = field.since, spec = spec }
    end
  end
  return list
end

local function newer_bits(release)
  local list = {}
  for _, field in ipairs(core.attr_fields()) do
    for i, bit in ipairs(field.bits or {}) do
      local since = field.bits_since[i]
      if kernels.number(since) > kernels.number(release) and not unfit[field.name] and bit ~= "aux" then
        local spec = { [field.name] = field.name == "branch_sample_type" and { "any", bit } or { bit } }
        for name, value in pairs(beside[field.name] or {}) do spec[name] = value end
        list[#list + 1] = { name = field.name .. " " .. bit, since = since, spec = spec }
      end
    end
  end
  return list
end

-- A session with that event on that kernel -> kernel, ok, why, notes
local function open(release, spec)
  local k, notes = sim.new { world = "amd", cpus = "0", release = release }, {}
  return k, k:with(function()
    local s = perfev.session { tid = 42, log = function(level, text) notes[#notes + 1] = { level, text } end }
    local e = s:event(spec)
    local ok, why, code = s:start()
    local attr = ok and e.attr
    s:close()
    return { ok = ok, why = why, code = code, attr = attr, notes = notes }
  end)
end

local function said(notes)
  local texts = {}
  for _, note in ipairs(notes) do
    if note[1] == 1 then texts[#texts + 1] = note[2] end
  end
  return texts
end

for _, release in ipairs(releases) do
  describe("Linux " .. release, function()
    local lost = kernels.number(release) < kernels.number "6.0"

    it("opens the default events without bits that are newer, and reports it at -v", function()
      for _, spec in ipairs {
        { "cpu-clock", callchain = true, sample = function() end },
        { "sched:sched_switch", sample = function() end },
        { "dummy", comm = function() end, mmap = function() end, exit = function() end },
      } do
        local k, r = open(release, spec)
        assert.is_true(r.ok, r.why)
        assert.equal(lost and 0 or 16, r.attr.read_format & 16)
        assert.is_true(r.attr.use_clockid)
        local texts = said(r.notes)
        if lost then
          assert.equal(spec[1] .. ": without read_format lost (Linux 6.0): losses are known from LOST records alone",
            texts[1])
        else
          assert.same({}, texts)
        end
        assert.same({}, k:leaks())
      end
    end)

    it("drops bits in one order: read_format lost, then the clock, then no more", function()
      local k = sim.new { world = "amd", cpus = "0", release = release }
      local asked = {}
      k.refuse = function(attr)
        asked[#asked + 1] = ("%s%s"):format(attr.read_format & 16 ~= 0 and "L" or "-", attr.use_clockid and "C" or "-")
        return E.EINVAL
      end
      k:with(function()
        local s = perfev.session { tid = 42 }
        s:event { "cpu-clock", optional = true }
        s:start()
        s:close()
      end)
      for i, step in ipairs { "LC", "-C", "--" } do assert.equal(step, asked[i]) end
    end)

    it("inherits all of a group with counts in its samples, or none, and reports it", function()
      local k, r = open(release, { "{cpu-clock,page-faults}:S", sample = function() end })
      assert.is_true(r.ok, r.why)
      local can = kernels.number(release) >= kernels.number "6.12"
      local counted, texts = 0, {}
      for _, event in ipairs(k.events) do
        if event.attr.config < 9 and event.attr.inherit == can then counted = counted + 1 end
      end
      assert.equal(2, counted)
      for _, note in ipairs(r.notes) do
        if note[2]:find("inherits no samples", 1, true) then texts[#texts + 1] = note[1] .. note[2]:match("^[^:]+") end
      end
      assert.same(can and {} or { "0cpu-clock", "1page-faults" }, texts)
    end)

    it("refuses each unknown field and bit that the user set, and names its kernel", function()
      local list = newer_fields(release)
      table.move(newer_bits(release), 1, #newer_bits(release), #list + 1, list)
      for _, newer in ipairs(list) do
        local spec = { type = 4, config = 0x76, sample_period = 1000, name = "the event", sample = function() end }
        for name, value in pairs(newer.spec) do spec[name] = value end
        if spec.defer_output then spec.sample_type = { "callchain" } end
        local _, r = open(release, spec)
        assert.is_nil(r.ok, newer.name .. " was dropped, or taken")
        assert.matches("^cannot open the event for pid 42 on cpu 0", r.why)
        local told, kernel = r.why:match("\n  ([%w_ ]+) came with Linux ([%d.]+), and this kernel is " .. release)
        assert.equal(newer.since, kernel, newer.name .. ": " .. r.why)
        -- sig_data comes with sigtrap, config4 with none: the newest of several that one kernel brought
        assert.is_true(told == newer.name or told ~= nil and newer.spec[told] ~= nil, r.why)
        assert.matches("\n  try: leave it out, or run Linux ", r.why)
        assert.same({}, said(r.notes))
      end
    end)
  end)
end

describe("the list of features that an attr requires", function()
  it("has the newest first, and each can be removed until the attr is empty", function()
    local attr = core.attr_new { type = 1, config = 2, sample_type = { "ip", "weight_struct" }, build_id = true,
                                 config3 = 7, inherit = true }
    local names = {}
    for i, feature in ipairs(kernels.features(attr)) do names[i] = feature.what end
    assert.same({ "config3", "sample_type weight_struct", "build_id", "sample_type ip", "inherit" }, names)
    for _, feature in ipairs(kernels.features(attr)) do feature.clear(attr) end
    assert.same(core.attr_new({ type = 1, config = 2 }):bytes(), attr:bytes())
  end)

  it("includes combinations of two features", function()
    local attr = core.attr_new { type = 1, sample_type = { "tid", "read" }, inherit = true }
    local first = kernels.features(attr)[1]
    assert.same({ "sample_type read of an inherited event", "6.12" }, { first.what, first.since })
    first.clear(attr)
    assert.same(core.attr_new({ type = 1, sample_type = { "tid" }, inherit = true }):bytes(), attr:bytes())
  end)

  it("has versions in the order of releases", function()
    assert.equal(6001, kernels.number "6.1.2-arch1")
    assert.is_true(kernels.number "4.20" < kernels.number "5.1")
    assert.is_nil(kernels.number "unknown")
  end)
end)
