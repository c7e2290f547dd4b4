-- The options of perfl record: the attr that each option of perf record makes, and the refusal of the others.

local options = require "perfl.verb.record_options"
local perfev = require "perfev"
local run = require "spec.support.run"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- perf record -h of perf 6.1
local PERFS = [[-a --all-cpus -b --branch-any -B --no-buildid -c --count -C --cpu -d --data -D --delay -e --event
  -F --freq -g -G -I --intr-regs -i --no-inherit -j --branch-filter -k --clockid -m --mmap-pages -N --no-buildid-cache
  -n --no-samples -o --output -P --period -p --pid -q --quiet -R --raw-samples -r --realtime -S --snapshot -s --stat
  -t --tid -T --timestamp -u --uid -v --verbose -W --weight -z --compression-level --affinity --aio --all-cgroups
  --all-kernel --all-user --aux-sample --buildid-all --buildid-mmap --call-graph --clang-opt --clang-path
  --code-page-size --control --data-page-size --debuginfod --dry-run --exclude-perf --filter --group --kcore
  --kernel-callchains --max-size --mmap-flush --namespaces --no-bpf-event --no-buffering --num-thread-synthesize
  --off-cpu --overwrite --per-thread --phys-data --proc-map-timeout --running-time --sample-cpu --sample-identifier
  --strict-freq --switch-events --switch-max-files --switch-output --switch-output-event --synth --tail-synthesize
  --threads --timestamp-boundary --timestamp-filename --transaction --user-callchains --user-regs --vmlinux]]

local function record(...) return run { run.perfl, "record", ... } end

local function slurp(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

-- The attr that perfl record --dry-run prints: field -> value.
local function attr_of(...)
  local result = record("--dry-run", ...)
  assert.equal(0, result.code, result.err)
  local fields = {}
  for name, value in result.out:gmatch "\n  ([%w_]+) +(%S+)" do fields[name] = fields[name] or value end
  return fields, result.out
end

describe("perfl record", function()
  it("has every option of perf record or refuses it with the reason, and doc/recordings.md lists it", function()
    local help, page = record("--help").out, slurp "doc/recordings.md"
    local refused = {}
    for flags, why in pairs(options.refused) do
      for flag in flags:gmatch "%S+" do refused[flag] = why end
    end
    for flag in PERFS:gmatch "%S+" do
      local pattern = flag:gsub("%-", "%%-")
      local is_taken = help:find("%s" .. pattern .. "[%s,]") ~= nil
      assert.is_true(is_taken ~= (refused[flag] ~= nil), flag)
      assert.truthy(page:find("`" .. pattern .. "[` ]"), flag)
      if refused[flag] then
        local result = record(flag, "true")
        assert.same({ 2, "" }, { result.code, result.out }, flag)
        assert.truthy(result.err:find(refused[flag]:gsub("\n", "\n  "), 1, true), flag .. ": " .. result.err)
      end
    end
  end)

  local adds = {
    ["-d"] = "ADDR DATA_SRC", ["--phys-data"] = "ADDR PHYS_ADDR", ["--data-page-size"] = "ADDR DATA_PAGE_SIZE",
    ["--code-page-size"] = "CODE_PAGE_SIZE", ["-W"] = "WEIGHT", ["--transaction"] = "TRANSACTION", ["-R"] = "RAW",
    ["-b"] = "BRANCH_STACK", ["-I"] = "REGS_INTR", ["--user-regs=ip"] = "REGS_USER", ["--all-cgroups"] = "CGROUP",
  }
  for option, bits in pairs(adds) do
    it(("adds %s to the default fields of a sample for %s"):format(bits, option), function()
      local before, after = attr_of("-e", "cycles", "true"), attr_of("-e", "cycles", option, "true")
      local has = {}
      for bit in after.sample_type:gmatch "[%w_]+" do has[bit] = true end
      for bit in (before.sample_type:gsub("|", " ") .. " " .. bits):gmatch "[%w_]+" do
        assert.is_true(has[bit], bit)
        has[bit] = nil
      end
      assert.same({}, has)
    end)
  end

  it("sets the field of the attr that an option of perf record sets", function()
    assert.equal("USER|ANY_CALL", (attr_of("-e", "cycles", "-j", "any_call,u", "true").branch_sample_type))
    assert.equal("0x180", (attr_of("-e", "cycles", "--intr-regs", "sp,ip", "true").sample_regs_intr))
    for option, field in pairs { ["--all-user"] = "exclude_kernel", ["--all-kernel"] = "exclude_user",
                                 ["--user-callchains"] = "exclude_callchain_kernel", ["-s"] = "inherit_stat",
                                 ["--kernel-callchains"] = "exclude_callchain_user", ["-D 5"] = "disabled" } do
      local words = { "-e", "cycles" }
      for word in option:gmatch "%S+" do words[#words + 1] = word end
      words[#words + 1] = "true"
      local fields = attr_of(table.unpack(words))
      if option ~= "-D 5" then assert.equal("1", fields[field], option) end
    end
  end)

  it("opens one more event for records of context switches, namespaces and cgroups", function()
    local _, text = attr_of("-e", "cpu-clock,page-faults", "--switch-events", "--namespaces", "--all-cgroups", "true")
    local _, events = text:gsub("\nevent ", "")
    assert.equal(3, events, text)
    for _, field in ipairs { "context_switch", "namespaces", "cgroup" } do
      local _, uses = text:gsub("\n  " .. field .. " +1", "")
      assert.equal(1, uses, field)
    end
  end)

  it("refuses invalid values, and options that exclude each other", function()
    for line, says in pairs {
      ["-k mars"] = "clock 'mars': expected monotonic",
      ["-D 5-2"] = "delay '5%-2': expected milliseconds",
      ["-D 10,5"] = "delay '10,5': expected milliseconds",
      ["-j any,foo"] = "branches 'any,foo': branch_sample_type has no bit 'foo'",
      ["--user-regs zz"] = "registers 'zz': .* no register 'zz'",
      ["-m 0"] = "size '0': expected 1 to 524288 pages, or 4K to 2G",
      ["--duration 0"] = "duration '0': must be above 0",
      ["--max-size 0"] = "size '0': must be above 0",
      ["-b -j u"] = "%-b and %-j at once",
      ["-I --intr-regs ip"] = "%-I and %-%-intr%-regs at once",
      ["--all-user --all-kernel"] = "nothing is left to sample",
      ["--user-regs ip --call-graph dwarf"] = "dwarf records all registers",
      ["--switch-output 5w"] = "switch output '5w': expected a size %(100M%), a time %(30s, 5m, 1h, 1d%) or signal",
      ["--switch-max-files 2"] = "%-%-switch%-max%-files without %-%-switch%-output",
      ["-d 10s"] = "'10s' is not a command\n  %-d records data addresses, as in perf record\n  try: %-%-duration 10s",
    } do
      local words = {}
      for word in line:gmatch "%S+" do words[#words + 1] = word end
      if line ~= "-d 10s" then words[#words + 1] = "true" end
      local result = record(table.unpack(words))
      assert.equal(2, result.code, line .. result.err)
      assert.matches(says, result.err)
    end
  end)

  it("ends a recording and its command at --max-size", function()
    local path = dir .. "/limit.data"
    local result = record("-e", "page-faults", "-c", "1", "-m", "4", "--max-size", "100K", "-o", path, "sh", "-c",
      "while :; do /bin/true; done")
    assert.equal(143, result.code, result.err) -- the command's, which SIGTERM ended
    assert.matches("the recording has reached its limit of 102400 bytes: it ends\n", result.err)
    local rec <close> = assert(perfev.open(path))
    assert.is_true(rec.facts.size >= 100 << 10, rec.facts.size)
    assert.is_true(rec.facts.size < 200 << 10, rec.facts.size)
    assert.is_nil(rec.error)
  end)
end)
