-- A program's file: symbols, where they lie, static probes; and files that are damaged.

local elf = require "perfev.elf"

local folder = "spec/fuzz/seeds/elf/"

local function bytes_of(name)
  local file <close> = assert(io.open(folder .. name, "rb"))
  return file:read "a"
end

local function read(name) return assert(elf.read(bytes_of(name))) end

describe("an ELF file", function()
  it("reports the kind of program for both classes and byte orders", function()
    local function facts(name)
      local f = read(name):facts()
      f.build_id = #f.build_id
      return f
    end
    assert.same({ fixed = true, symtab = true, dynsym = false, bits = 64, machine = 62, build_id = 20 }, facts "exec")
    assert.same({ fixed = false, symtab = true, dynsym = true, bits = 64, machine = 62, build_id = 20 }, facts "shared")
    assert.same({ fixed = true, symtab = true, dynsym = false, bits = 32, machine = 20, build_id = 0 }, facts "big")
  end)

  it("lists functions and variables with address, size and section", function()
    assert.same({ name = "work", type = "func", value = 0x1060, size = 8, offset = 0x60, others = 0 },
      read("big"):symbol "work")
    local e = read "exec"
    local work, counter = e:symbol "work", e:symbol "counter"
    assert.equal("func", work.type)
    assert.equal(work.value - 0x400000, work.offset)
    assert.is_true(e:runs(work.offset))
    assert.equal("object", counter.type)
    assert.equal(8, counter.size)
    assert.is_nil(counter.offset) -- .bss has no bytes in the file
    assert.is_nil(e:symbol "wor")
    assert.is_nil(e:symbol "")
  end)

  it("suggests the nearest symbol for a misspelt name", function()
    assert.equal("counter", read("exec"):nearest "countr")
    assert.equal("work", read("stripped"):nearest "worl")
    assert.is_nil(read("exec"):nearest "something_else")
  end)

  it("that is stripped still lists its exported symbols", function()
    local facts = read("stripped"):facts()
    assert.is_false(facts.symtab)
    assert.is_true(facts.dynsym)
    assert.same(read("shared"):symbol "work", read("stripped"):symbol "work")
  end)

  it("lists the version of a function that the linker uses by default", function()
    local work = read("versions"):symbol "work" -- work@OLD at 0x254, work@@NEW
    assert.same({ 0x258, 0 }, { work.value, work.others })
  end)

  it("returns a file offset for an address by the program headers alone", function()
    local e = read "big"
    assert.equal(0, e:offset(0x1000))
    assert.equal(#bytes_of "big" - 1, e:offset(0x1000 + #bytes_of "big" - 1))
    assert.is_nil(e:offset(0x1000 + #bytes_of "big"))
    assert.is_nil(e:offset(0xfff))
    assert.is_nil(e:offset(-1))
    assert.equal(0x1000, e:mapped(0, 4096))
    assert.is_nil(e:mapped(0x1000, 4096))
    assert.error_matches(function() e:mapped(0, 3) end, "a power of two")
  end)

  it("lists its static probes, with semaphore and arguments", function()
    local e = read "exec"
    local probes = e:probes()
    assert.equal(1, #probes)
    local probe = probes[1]
    assert.same({ "perfev", "step", "-4@%edi 8@-8(%rbp)" }, { probe.provider, probe.name, probe.args })
    assert.equal(e:symbol("work").value, probe.pc)
    assert.equal(e:symbol("work").offset, probe.offset)
    assert.equal(e:symbol("sem").value, probe.semaphore)
    assert.equal(e:symbol("sem").offset, probe.ref_ctr_offset)
    assert.same({ provider = "perfev", name = "step", args = "-4@r3", pc = 0x1060, offset = 0x60, semaphore = 0x1070,
                  ref_ctr_offset = 0x70 }, read("big"):probes()[1])
  end)

  it("moves a probe by the distance that .stapsdt.base moved after linking", function()
    -- "big" has no such section. Its .text, at 0x1054, becomes one, and the note says that it was at 0x1044.
    local bytes = bytes_of "big"
    local function put(at, word) bytes = bytes:sub(1, at - 1) .. word .. bytes:sub(at + #word) end
    put(bytes:find(".symtab\0.strtab", 1, true), ".stapsdt.base\0")
    put(string.unpack(">I4", bytes, 0x21) + 4 * 40 + 1, string.pack(">I4", 1))
    put(bytes:find(string.pack(">I4I4", 0x1060, 0), 1, true) + 4, string.pack(">I4", 0x1044))
    local probe = assert(elf.read(bytes)):probes()[1]
    assert.same({ 0x1070, 0x70, 0x1080 }, { probe.pc, probe.offset, probe.semaphore })
  end)

  it("is refused with the reason when it is not an ELF file", function()
    for _, case in ipairs {
      { "", "not an ELF file" }, { "#!/bin/sh\n", "not an ELF file" }, { "\127ELF", "not an ELF file" },
      { (bytes_of("exec"):gsub("^(................)..", "%1\1\0")), "an object file, not linked yet" },
      { (bytes_of("exec"):gsub("^(................)..", "%1\4\0")), "neither a program nor a library" },
    } do
      local e, why, code = elf.read(case[1])
      assert.is_nil(e)
      assert.matches(case[2], why)
      assert.equal(8, code) -- ENOEXEC
    end
  end)

  it("that is closed raises", function()
    local e = read "exec"
    e:close()
    e:close()
    assert.error_matches(function() e:symbol "work" end, "closed")
  end)
end)

describe("a damaged ELF file", function()
  -- Every function; the results lie inside the file.
  local function ask(bytes)
    local e = elf.read(bytes)
    if not e then return 0 end
    local symbol = e:symbol "work"
    assert.is_true(not symbol or not symbol.offset or symbol.offset < #bytes)
    for _, probe in ipairs(e:probes()) do assert.is_true(not probe.offset or probe.offset < #bytes) end
    e:nearest "worl"
    e:facts()
    return 1
  end

  it("that is cut anywhere returns its remaining content or is refused", function()
    local opened = 0
    for _, name in ipairs { "big", "exec" } do
      local bytes = bytes_of(name)
      for len = 0, #bytes do opened = opened + ask(bytes:sub(1, len)) end
    end
    assert.is_true(opened > 0)
  end)

  it("with any one byte changed returns its content or is refused", function()
    local bytes, opened = bytes_of "big", 0
    for at = 1, #bytes do
      for _, value in ipairs { 0, 1, 0x7f, 0x80, 0xff } do
        opened = opened + ask(bytes:sub(1, at - 1) .. string.char(value) .. bytes:sub(at + 1))
      end
    end
    assert.is_true(opened > #bytes)
  end)
end)
