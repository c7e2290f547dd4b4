-- perfl annotate: recordings with samples at chosen instructions of a program that the spec builds, so that each share
-- is known.

local disassembler = require "perfev.disassembler"
local elf = require "perfev.elf"
local perfdata = require "spec.support.perfdata"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"
local symtab = require "perfev.symtab"

local PAGE = 4096
local X86_64, ARM64, S390 = 62, 183, 22 -- EM_*

local program = [[
static volatile unsigned long sink;

static inline __attribute__((always_inline)) unsigned long square(unsigned long i)
{
	return i * i + sink; /* inlined */
}

__attribute__((noinline)) void work(unsigned long n)
{
	while (n--) {
		if (n & 1)
			sink = square(n);
		else
			sink = n + 12345; /* plain <&> */
	}
}

__attribute__((noinline)) void other(void)
{
	sink++;
}

__attribute__((noinline)) void part(void) __asm__("whole.part.0");
void part(void)
{
	sink--;
}

int main(void)
{
	part();
	work(10);
	other();
	return 0;
}
]]

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- Builds the program -> { path =, start(function), line_address(function, line) }
local function build(name, flags)
  requires "cc"
  local path = ("%s/%s"):format(dir, name)
  run.write_file(path .. ".c", program)
  run.capture(("cd %s && cc -O1 -fno-pie -no-pie %s -o %s %s.c"):format(dir, flags, name, name))
  local bytes = run.slurp(path)
  local file, symbols = assert(elf.read(bytes)), assert(symtab.read(bytes))
  symbols:debug(bytes)
  local built = { path = path }
  function built.start(symbol) return file:symbol(symbol).value end
  function built.offset(address) return file:offset(address) end
  function built.line_address(symbol, line)
    local found = file:symbol(symbol)
    for address = found.value, found.value + found.size - 1 do
      if symbols:lines(address)[1].line == line then return address end
    end
  end
  return built
end

local function line_of(text)
  local number = 0
  for line in program:gmatch "([^\n]*)\n" do
    number = number + 1
    if line:find(text, 1, true) then return number end
  end
end

-- Writes a recording of samples: { { address, count, period }, ... }; without periods if the first has none.
local function record(built, samples)
  local bits = { "ip", "tid", "time", "cpu", "identifier" }
  if samples[1][3] then bits[#bits + 1] = "period" end
  local b = perfdata.new { events = { { ids = { 11 }, name = "cpu-clock", attr = { type = 1, config = 0,
    sample_type = bits, sample_id_all = true, mmap = true, mmap2 = true } } } }
  local text = samples[1][1] & -PAGE
  local at = 1
  local function id() return { pid = 7, tid = 7, time = at, cpu = 0, identifier = 11 } end
  b:add { type = "mmap2", pid = 7, tid = 7, addr = text, len = PAGE, pgoff = built.offset(samples[1][1]) & -PAGE,
    maj = 8, min = 1, ino = 1, ino_generation = 0, prot = 5, flags = 2, filename = built.path, sample_id = id() }
  for _, sample in ipairs(samples) do
    for _ = 1, sample[2] do
      at = at + 1
      b:add { type = "sample", ip = sample[1], pid = 7, tid = 7, time = at, cpu = 0, identifier = 11, misc = 2,
        period = sample[3] }
    end
  end
  local path = built.path .. ".data"
  run.write_file(path, b:file())
  return path
end

local function annotate(path, ...) return run { run.perfl, "-q", "-i", path, "annotate", ... } end

-- The row of a listing with that text, without trailing blanks.
local function row(out, text)
  for line in out:gmatch "[^\n]+" do
    if line:find(text, 1, true) then return line end
  end
  error(("no '%s' in:\n%s"):format(text, out))
end

describe("perfl annotate", function()
  it("gives each line the periods of the samples at its own instructions, inlined functions apart", function()
    local built = build("lines", "-g")
    local path = record(built, {
      { built.line_address("work", line_of "/* inlined */"), 1, 600 },
      { built.line_address("work", line_of "/* plain"), 2, 150 },
      { built.line_address("work", line_of "while"), 1, 100 },
      { built.start "other", 1, 1000 },
    })
    local r = annotate(path, "work")
    assert.same({ 0, "" }, { r.code, r.err })
    assert.equal(("work in %s: 4 samples of cpu-clock, 50.0%% of all"):format(built.path), r.out:match "[^\n]+")
    assert.equal((" 60.00%% %6d  "):format(line_of "/* inlined */") .. "        return i * i + sink; /* inlined */",
      row(r.out, "/* inlined */"))
    assert.equal((" 30.00%% %6d  "):format(line_of "/* plain")
      .. (" "):rep(24) .. "sink = n + 12345; /* plain <&> */", row(r.out, "/* plain"))
    assert.matches("^ 10.00%% +10 ", row(r.out, "while"))
    assert.matches("^ 40.00%% work: ", row(r.out, "work: "))
    local heading = "^ 60.00%% square, inlined at lines.c:" .. line_of "square(n)" .. ": "
    assert.matches(heading, row(r.out, "square, inlined"))
    for line in r.out:gmatch "[^\n]+" do
      assert(utf8.len(line) <= 80 or line:find "^work in ", line)
    end
  end)

  it("prints each instruction once, and the sum of its samples", function()
    local built = build("sums", "-g")
    local first = built.start "work"
    local r = annotate(record(built, { { first, 3, 1 }, { built.line_address("work", line_of "/* plain"), 1, 1 } }),
      "work", "--asm")
    assert.matches((" 75.00%%%%  +%x  "):format(first), r.out)
    local seen, sum = {}, 0
    for line in r.out:gmatch "[^\n]+" do
      local address = line:match "^[ %d.%%]+ (%x+)  %l"
      if address then
        assert.is_nil(seen[address], line)
        seen[address] = true
        sum = sum + (tonumber(line:match "^ *([%d.]+)%%") or 0)
      end
    end
    assert.equal(100, sum)
    assert.matches(" square sums%.c:5\n", r.out)
  end)

  it("counts samples if the recording has no periods", function()
    local built = build("counted", "-g")
    local r = annotate(record(built, { { built.start "work", 1 },
      { built.line_address("work", line_of "/* plain"), 3 } }), "work")
    assert.matches("^ 75.00%%", row(r.out, "/* plain"))
  end)

  it("prints instructions only, and says so, without debug information", function()
    local built = build("bare", "-g0")
    local r = annotate(record(built, { { built.start "work", 1, 1 } }), "work")
    assert.matches("\nthe file has no debug information: instructions only (try: build with -g)\n", r.out, 1, true)
    assert.matches(("\n100.00%%%%  +%x  %%l"):format(built.start "work"), r.out)
    assert.is_nil(r.out:find("SOURCE", 1, true))
  end)

  it("prints line numbers, and says so, if the source is gone", function()
    local built = build("gone", "-g")
    os.remove(built.path .. ".c")
    local r = annotate(record(built, { { built.line_address("work", line_of "/* plain"), 1, 1 } }), "work")
    assert.matches(("\nno source: %s.c: No such file or directory\n"):format(built.path), r.out, 1, true)
    assert.matches(("\n100.00%%%% +%d\n"):format(line_of "/* plain"), r.out)
  end)

  it("refuses a function without samples, with the nearest name", function()
    local built = build("near", "-g")
    local path = record(built, { { built.start "work", 2, 1 }, { built.start "other", 1, 1 } })
    local r = annotate(path, "wrok")
    assert.same({ 1, "" }, { r.code, r.out })
    assert.equal("annotate: no sample is in a function 'wrok' (did you mean 'work'?)\n"
      .. "  the functions with the most samples: work, other\n", r.err)
  end)

  it("suggests the name that the compiler gave to a part of the function", function()
    local built = build("clone", "-g")
    local r = annotate(record(built, { { built.start "whole.part.0", 1, 1 } }), "whole")
    assert.matches("'whole' (did you mean 'whole.part.0'?)\n", r.err, 1, true)
  end)

  it("refuses a function whose file is gone", function()
    local built = build("deleted", "-g")
    local path = record(built, { { built.start "work", 2, 1 } })
    os.remove(built.path)
    local r = annotate(path, "work")
    assert.same({ 1, "annotate: no sample has the name of a function\n" }, { r.code, r.err })
  end)

  it("writes the same shares as a page that loads nothing", function()
    local built = build("page", "-g")
    local path = record(built, { { built.line_address("work", line_of "/* plain"), 3, 1 },
      { built.start "work", 1, 1 } })
    local r = annotate(path, "work", "-f", "html")
    assert.same({ 0, "" }, { r.code, r.err })
    assert.matches((">75.00%%%%</td><td>%d</td><td> +sink = n %%+ 12345; /%%* plain &lt;&amp;&gt; "):format(
      line_of "/* plain"), r.out)
    assert.is_nil(r.out:find "https?:")
    assert.is_nil(r.out:find "<script")
  end)
end)

describe("the disassembler", function()
  it("reads x86-64 and arm64, with the targets of direct jumps and calls", function()
    assert.same({
      { address = 0x1000, size = 1, text = "nop" },
      { address = 0x1001, size = 5, text = "callq 0x1010", target = 0x1010 },
      { address = 0x1006, size = 2, text = "jne 0x1000", target = 0x1000 },
      { address = 0x1008, size = 2, text = "callq *%rax" },
      { address = 0x100a, size = 1, text = "retq" },
    }, disassembler.list(X86_64, "\x90\xe8\x0a\0\0\0\x75\xf8\xff\xd0\xc3", 0x1000))
    assert.same({
      { address = 0x1000, size = 4, text = "nop" },
      { address = 0x1004, size = 4, text = "bl #0x1010", target = 0x1010 },
      { address = 0x1008, size = 4, text = "cbz x0, #0x1000", target = 0x1000 },
      { address = 0x100c, size = 4, text = "ret" },
    }, disassembler.list(ARM64, "\x1f\x20\x03\xd5\x03\0\0\x94\xc0\xff\xff\xb4\xc0\x03\x5f\xd6", 0x1000))
  end)

  it("shows bytes that are not an instruction, and covers all bytes", function()
    for _, machine in ipairs { X86_64, ARM64 } do
      local bytes, at = ("\6\xff\xff\xff\x90"):rep(7), 0
      for _, instruction in ipairs(disassembler.list(machine, bytes, 0)) do
        assert.equal(at, instruction.address)
        at = at + instruction.size
      end
      assert.is_true(at > #bytes - 4 and at <= #bytes, at)
    end
    assert.same({}, disassembler.list(X86_64, "", 0))
  end)

  it("refuses other machines", function()
    local list, why = disassembler.list(S390, "\7\7", 0)
    assert.is_nil(list)
    assert.equal("the code is for another machine (ELF machine 22): only x86 and arm64 are disassembled", why)
  end)
end)
