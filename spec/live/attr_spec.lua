-- Every flag of an attr and every bit of its words, one at a time: this kernel accepts each one of its release, alone
-- or with the bits that it requires.

local core = require "perfev.core"
local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local E = perfev.errno
local real = perfev.hooks.real

local function number_of(release)
  local major, minor = release:match "^(%d+)%.(%d+)"
  return tonumber(major) * 1000 + tonumber(minor)
end

local this = number_of(real.slurp "/proc/sys/kernel/osrelease")

-- The bits of sample_type that came after 4.14, with their releases.
local SINCE = { aux = "5.5", cgroup = "5.7", data_page_size = "5.11", code_page_size = "5.11", weight_struct = "5.12" }

-- The register that has the stack pointer, where it is not called sp.
local STACK_POINTERS = { s390x = "r15", powerpc = "r1" }

-- The other fields that a flag or bit requires.
local NEEDS = {
  freq = { sample_freq = 99 },
  inherit_thread = { inherit = true },
  sigtrap = { remove_on_exec = true },
  branch_stack = { branch_sample_type = { "any", "user" } },
  regs_user = { sample_regs_user = 1 },
  regs_intr = { sample_regs_intr = 1 },
  stack_user = { sample_stack_user = 8 },
}

-- Returns the result of perf_event_open for cpu-clock on this thread with these fields. validate predicts the result
-- of kernels that know them.
local function answer(fields, needs, unknown)
  local all = { type = 1, config = 0, disabled = true, exclude_kernel = true }
  if not (needs and needs.sample_freq) then all.sample_period = 1000000 end
  for name, value in pairs(fields) do all[name] = value end
  for name, value in pairs(needs or {}) do all[name] = value end
  local attr = core.attr_new(all)
  local ok, _, foretold = attr:validate(0, -1)
  local fd, errno = real.perf_event_open(core.attr_parse(attr:bytes()), 0, -1, -1, 8) -- with its size
  if fd then real.close(fd) end
  if not (ok or unknown) then assert.equal(E[foretold], E[errno]) end -- validate's prediction
  return fd and "ok" or E[errno]
end

local function flags()
  local list = {}
  for _, field in ipairs(core.attr_fields()) do
    if field.width == 1 then list[#list + 1] = field end
  end
  return list
end

describe("this kernel", function()
  it("accepts each flag of its release, except flags of AUX areas and later releases", function()
    requires("root") -- namespaces, text_poke, physical addresses
    local found, expected = {}, {}
    for _, flag in ipairs(flags()) do
      local name = flag.name
      found[name] = answer({ [name] = true }, NEEDS[name], number_of(flag.since) > this)
      expected[name] = number_of(flag.since) <= this and "ok" or "EINVAL"
    end
    -- for events that have an AUX area, and for members of their groups
    expected.aux_output = "EOPNOTSUPP"
    -- of 6.13, and of Debian's 6.12 too
    local paused = this >= number_of "6.13" or this == number_of "6.12" and found.aux_start_paused ~= "EINVAL"
    expected.aux_start_paused = paused and "EOPNOTSUPP" or "EINVAL"
    expected.aux_pause, expected.aux_resume = "EINVAL", "EINVAL"
    assert.same(expected, found)
  end)

  it("accepts each bit of sample_type of its release, and has no branches in software", function()
    requires("root") -- namespaces, text_poke, physical addresses
    local found, expected = {}, {}
    for _, field in ipairs(core.attr_fields()) do
      for _, name in ipairs(field.name == "sample_type" and field.bits or {}) do
        found[name] = answer({ sample_type = { name } }, NEEDS[name])
        expected[name] = number_of(SINCE[name] or "0.0") <= this and "ok" or "EINVAL"
      end
    end
    expected.branch_stack = "EOPNOTSUPP"
    assert.same(expected, found)
  end)

  it("ignores precise_ip for software events", function()
    for level = 0, 3 do assert.equal("ok", answer { precise_ip = level }) end
  end)

  it("gives registers by name to a script that requests only registers", function()
    requires("root")
    local pointer = STACK_POINTERS[core.machine] or "sp"
    local r = run { run.perfl, "-q", "-e", [[local seen = {}
      event { "page-faults", period = 1, sample_type = { "regs_user" }, sample_regs_user = { "]] .. pointer .. [[" },
        sample = function(r) for name in pairs(r.regs_user) do seen[name] = true end end }
      done(function() for name in pairs(seen) do if name ~= "abi" then print(name) end end end)]], "--", "true" }
    assert.same({ 0, pointer .. "\n", "" }, { r.code, r.out, r.err })
  end)
end)
