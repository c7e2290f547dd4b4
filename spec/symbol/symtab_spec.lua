-- Which function is at an address of a file: tables, debug files, damage; and names as they were written.

local core = require "perfev.core"
local elf = require "spec.support.elf"
local files = require "perfev.symbol.files"
local sim = require "perfev.sim"
local perfev = require "perfev"
local run = require "spec.support.run"
local symtab = require "perfev.symtab"

local BUILD_ID = ("\171\205"):rep(10) -- abcdabcd...
local FUNC, LOCAL, GLOBAL, WEAK = 2, 0, 1, 2

local function names_at(file, ...)
  local out = {}
  for i, address in ipairs { ... } do out[i] = symtab.read(file):find(address) or false end
  return out
end

describe("a file's functions", function()
  it("are found by address, up to their size", function()
    local file = elf.file { functions = { { "one", 0x1000, 0x20 }, { "two", 0x1020, 8 } } }
    assert.same({ false, "one", "one", "two", false }, names_at(file, 0xfff, 0x1000, 0x101f, 0x1020, 0x1028))
    assert.same({ "one", 0x1000, 0x20 }, { symtab.read(file):find(0x1008) })
  end)

  it("extend to the next function if their size is unknown", function()
    local file = elf.file { functions = { { "start", 0x1000, 0 }, { "next", 0x1100, 8 }, { "last", 0x1200, 0 } } }
    assert.same({ "start", "next", false, "last", false }, names_at(file, 0x10ff, 0x1107, 0x1108, 0x1fff, 0x2200))
  end)

  it("of 1 GiB or more extend at least to the next function", function()
    local file = elf.file { functions = { { "huge", 0x1000, 1 << 40 }, { "after", 0x80000000, 8 } } }
    assert.same({ "huge", "huge", "after", false }, names_at(file, 0x1000, 0x7fffffff, 0x80000007, 0x80000008))
    assert.equal("huge", names_at(elf.file { functions = { { "huge", 0x1000, 1 << 40 } } }, 1 << 39)[1])
  end)

  it("have no name beyond the end of a cut or missing string table", function()
    local file = elf.file { functions = { { "first", 0x1000, 8 }, { "second", 0x2000, 8 } } }
    local strings = file:find("\0first\0second\0", 1, true)
    local len = string.pack("<I8", 14)
    local size = file:find(string.pack("<I8", strings - 1) .. len, 1, true) + 8
    local function with_size(n) return file:sub(1, size - 1) .. string.pack("<I8", n) .. file:sub(size + 8) end
    assert.same({ "first", "second" }, names_at(with_size(14), 0x1000, 0x2000))
    assert.same({ "first", "sec" }, names_at(with_size(10), 0x1000, 0x2000))
    assert.same({ "first", false }, names_at(with_size(7), 0x1000, 0x2000))
    assert.same({ false, false }, names_at(with_size(0), 0x1000, 0x2000))
  end)

  it("do not include absolute symbols, such as the names of versions", function()
    local OBJECT, ABSOLUTE = 1, 0xfff1
    local file = elf.file { functions = { { "LINUX_2.6", 0, 0, GLOBAL, OBJECT, ABSOLUTE }, { "first", 0x1000, 8 } } }
    assert.same({ false, false, "first" }, names_at(file, 0, 0xfff, 0x1000))
  end)

  it("include one around another, which is found before and after the inner one", function()
    local file = elf.file { functions = { { "outer", 0x1000, 0x100 }, { "inner", 0x1040, 0x10 } } }
    assert.same({ "outer", "inner", "outer" }, names_at(file, 0x103f, 0x104f, 0x1050))
  end)

  it("have the name that perf would choose from several", function()
    local function best(...)
      return names_at(elf.file { functions = { ... } }, 0x1000)[1]
    end
    assert.equal("sized", best({ "longer_name", 0x1000, 0 }, { "sized", 0x1000, 8 }))
    assert.equal("strong", best({ "weak_and_longer", 0x1000, 8, WEAK }, { "strong", 0x1000, 8, GLOBAL }))
    assert.equal("global", best({ "local_and_longer", 0x1000, 8, LOCAL }, { "global", 0x1000, 8, GLOBAL }))
    assert.equal("plain", best({ "__plain_two", 0x1000, 8 }, { "plain", 0x1000, 8 }))
    assert.equal("longest", best({ "short", 0x1000, 8 }, { "longest", 0x1000, 8 }))
  end)

  it("have offsets in the file by its program headers", function()
    local file = symtab.read(elf.file { functions = {}, offset = 0x2000, vaddr = 0x403000, length = 0x800 })
    assert.equal(0x403010, file:address(0x2010))
    assert.equal(0x402ff0, file:address(0x1ff0)) -- the page is mapped as a whole
    assert.is_nil(file:address(0x200000))
  end)

  it("are its exported functions if it is stripped", function()
    local file = symtab.read(elf.file { functions = { { "seen", 0x1000, 8, GLOBAL, FUNC } }, dynamic = true })
    assert.equal("seen", file:find(0x1004))
    assert.is_false(file:facts().symtab)
  end)

  it("are absent from a file without symbols, and other files are refused", function()
    assert.is_nil(symtab.read(elf.file {}):find(0x1000))
    for _, bytes in ipairs { "", "\127ELF", "#!/bin/sh\n" } do
      local file, why, code = symtab.read(bytes)
      assert.same({ nil, "not an ELF file", 8 }, { file, why, code })
    end
  end)

  it("that is closed raises", function()
    local file = symtab.read(elf.file {})
    file:close()
    file:close()
    assert.error_matches(function() file:find(0) end, "closed")
  end)
end)

describe("a debug file", function()
  local full = elf.file { functions = { { "hidden", 0x1000, 8 } }, build_id = BUILD_ID }
  local plain = elf.file { functions = { { "hidden", 0x1000, 8 } } }
  local stripped = elf.file { build_id = BUILD_ID }

  -- The name of a program's first function, with these other files on the machine.
  local function found(program, others)
    local k = sim.new()
    k.files["/opt/bin/prog"] = program
    for path, bytes in pairs(others) do k.files[path] = bytes end
    return k:with(function() return (perfev.symbol.file("/opt/bin/prog", 0x1000)) end)
  end

  it("is found by build-id", function()
    local id = "ab/cd" .. ("abcd"):rep(9)
    assert.equal("hidden", found(stripped, { ["/usr/lib/debug/.build-id/" .. id .. ".debug"] = full }))
    assert.equal("hidden", found(stripped, { [os.getenv "HOME" .. "/.debug/.build-id/" .. id .. "/elf"] = full }))
    assert.is_nil(found(stripped, {}))
  end)

  it("is found by the name in the program, beside it or below /usr/lib/debug", function()
    local linked = elf.file { debuglink = { "prog.debug", core.crc32(plain) } }
    for _, folder in ipairs { "/opt/bin/", "/opt/bin/.debug/", "/usr/lib/debug/opt/bin/" } do
      assert.equal("hidden", found(linked, { [folder .. "prog.debug"] = plain }))
    end
  end)

  it("has a build-id that is read without its symbols; other files have none", function()
    assert.equal(BUILD_ID, symtab.build_id(full))
    for _, bytes in ipairs { plain, "", "#!/bin/sh\n" } do assert.is_nil(symtab.build_id(bytes)) end
  end)

  it("of another build, by build-id or checksum, is not used", function()
    local linked = elf.file { debuglink = { "prog.debug", core.crc32(plain) } }
    assert.is_nil(found(linked, { ["/opt/bin/prog.debug"] = plain .. "\0" }))
    local other = elf.file { functions = { { "wrong", 0x1000, 8 } }, build_id = ("x"):rep(20) }
    assert.is_nil(found(stripped, { ["/usr/lib/debug/.build-id/ab/cd" .. ("abcd"):rep(9) .. ".debug"] = other }))
  end)

  it("and its program are only looked for below symfs if that is set", function()
    local linked = elf.file { debuglink = { "prog.debug", core.crc32(plain) } }
    finally(function() perfev.symbol.symfs(nil) end)
    perfev.symbol.symfs "/target/"
    assert.is_nil(found(linked, { ["/opt/bin/prog.debug"] = plain }))
    for _, folder in ipairs { "/opt/bin/", "/opt/bin/.debug/", "/usr/lib/debug/opt/bin/" } do
      assert.equal("hidden", found(plain, { ["/target/opt/bin/prog"] = linked,
        ["/target" .. folder .. "prog.debug"] = plain }), folder)
    end
    local id = "ab/cd" .. ("abcd"):rep(9)
    assert.equal("hidden", found("", { ["/target/opt/bin/prog"] = stripped,
      ["/target/usr/lib/debug/.build-id/" .. id .. ".debug"] = full }))
    perfev.symbol.symfs(nil)
    assert.equal("hidden", found(linked, { ["/opt/bin/prog.debug"] = plain }))
    assert.error_matches(function() perfev.symbol.symfs(7) end, "symfs: a directory's path, or nil, not a number")
  end)

  -- The name of a function of a stripped program of root's and the notes, where fstat(2) of its debug file has these
  -- fields.
  local function planted(stat)
    local k, said, by_fd = sim.new(), {}, {}
    k.files["/opt/bin/prog"] = elf.file { debuglink = { "a b", core.crc32(plain) } }
    k.files["/opt/bin/.debug/a b"] = plain
    local open, fstat = k.hooks.open, k.hooks.fstat
    k.hooks.open = function(path, flags)
      local fd, code = open(path, flags)
      if fd then by_fd[fd] = path end
      return fd, code
    end
    k.hooks.fstat = function(fd)
      local st = fstat(fd)
      for name, value in pairs(by_fd[fd]:find "%.debug" and stat or {}) do st[name] = value end
      return st
    end
    perfev.symbol.log = function(_, text) said[#said + 1] = text end
    finally(function() perfev.symbol.log = nil end)
    return k:with(function() return (perfev.symbol.file("/opt/bin/prog", 0x1000)) end), table.concat(said, "\n")
  end

  it("is not used unless it belongs to root, to the caller or to the owner of the program", function()
    assert.same({ "hidden", "" }, { planted {} })
    assert.same({ n = 2, nil, "/opt/bin/.debug/a b is not used: it belongs to user 65534, and the program to user 0\n"
      .. "  try: sudo chown 0 '/opt/bin/.debug/a b' # if you trust it" }, table.pack(planted { uid = 65534 }))
  end)

  it("and a program must be regular files of bounded size", function()
    local debug = "/opt/bin/.debug/a b is not used: "
    assert.same({ n = 2, nil, debug .. "it is not a regular file" }, table.pack(planted { mode = 0x1180 }))
    assert.same({ n = 2, nil, debug .. "it is larger than 512 MiB" }, table.pack(planted { size = 10 << 30 }))
    local k, said = sim.new(), {}
    k.files["/opt/bin/pr\nog"] = plain
    perfev.symbol.log = function(_, text) said[#said + 1] = text end
    finally(function() perfev.symbol.log = nil end)
    for _, mode in ipairs { 0x1180, 0x2180, 0x6180, 0xc180, 0x41ed } do
      k.hooks.fstat = function() return { mode = mode } end
      assert.is_nil(k:with(function() return (perfev.symbol.file("/opt/bin/pr\nog", 0x1000)) end))
      assert.equal("/opt/bin/pr\\nog: its functions have no names: it is "
        .. (mode == 0x41ed and "a directory" or "not a regular file"), table.remove(said))
    end
    assert.same({ {}, nil }, { said, k.counts.pread })
  end)

  it("is not looked for if its name in the program is a path", function()
    assert.is_nil(symtab.read(elf.file { debuglink = { "../../etc/x", 0 } }):facts().debuglink)
  end)
end)

describe("a debuginfod server", function()
  local HEX = ("abcd"):rep(10)
  local programs, dir, asked, answer = 0, nil, nil, nil
  before_each(function()
    dir, asked, answer = run.tempdir(), {}, function() return nil, "no such file", core.errno.ENOENT end
    package.loaded["perfev.debuginfod"] = { find = function(id, kind, go_on)
      asked[#asked + 1] = kind .. " " .. id .. (go_on and go_on() and "" or " alone")
      return answer(kind)
    end }
    perfev.symbol.debuginfod()
  end)
  after_each(function()
    perfev.symbol.debuginfod(false)
    package.loaded["perfev.debuginfod"], files.go_on = nil, nil
    run.remove(dir)
  end)

  local function write(name, bytes)
    return run.write_file(dir .. "/" .. name, bytes)
  end
  -- The questions to a program without functions, and the answers.
  local function found(id)
    programs = programs + 1
    local path, said = write("prog" .. programs, elf.file { build_id = id or BUILD_ID }), {}
    perfev.symbol.log = function(_, text) said[#said + 1] = text end
    finally(function() perfev.symbol.log = nil end)
    return perfev.symbol.file(path, 0x1000), said
  end

  it("is asked once for the debug file of a build-id, if the user enabled it", function()
    perfev.symbol.debuginfod(false)
    assert.is_nil((found()))
    assert.same({}, asked)
    perfev.symbol.debuginfod()
    local debug = write("fetched", elf.file { functions = { { "far", 0x1000, 8 } }, build_id = BUILD_ID })
    answer = function() return debug end
    files.go_on = function() return true end
    local name, said = found()
    assert.same({ "far", {}, { "debuginfo " .. HEX } }, { name, said, asked })
    assert.equal("far", (found()))
    assert.equal(1, #asked)
  end)

  it("without the file or with another build causes no message", function()
    local name, said = found()
    assert.same({ {}, { "debuginfo " .. HEX .. " alone" } }, { said, asked })
    assert.is_nil(name)
  end)

  it("that cannot be reached is reported, with a remedy", function()
    for code, try in pairs { [core.errno.ENOSYS] = "DEBUGINFOD_URLS=", [core.errno.ELIBACC] = "install it" } do
      perfev.symbol.debuginfod()
      answer = function() return nil, "why " .. code, code end
      local _, said = found()
      assert.equal(1, #said)
      assert.matches("^debug files are not fetched: why " .. code .. "\n  try: " .. try, said[1])
    end
  end)

  it("is never asked under a simulated kernel", function()
    local k = sim.new()
    k.files["/opt/bin/prog"] = elf.file { build_id = BUILD_ID }
    assert.is_nil(k:with(function() return (perfev.symbol.file("/opt/bin/prog", 0x1000)) end))
    assert.same({}, asked)
  end)
end)

describe("a damaged file", function()
  local bytes = elf.file { functions = { { "one", 0x1000, 0x20 }, { "_ZN1aC2Ev", 0x1020, 8 } }, build_id = BUILD_ID,
                           debuglink = { "x.debug", 7 }, minidebug = "\253" .. "7zXZ\0\0\4garbage" }
  local function ask(text)
    local file = symtab.read(text)
    if not file then return 0 end
    local name = file:find(0x1004)
    assert.is_true(name == nil or #name < #text)
    file:address(0x1004)
    file:facts()
    return 1
  end

  it("that is cut anywhere returns its remaining content or is refused", function()
    local opened = 0
    for len = 0, #bytes do opened = opened + ask(bytes:sub(1, len)) end
    assert.is_true(opened > 0)
  end)

  it("with any one byte changed returns its content or is refused", function()
    local opened = 0
    for at = 1, #bytes do
      for _, value in ipairs { 0, 1, 0x7f, 0x80, 0xff } do
        opened = opened + ask(bytes:sub(1, at - 1) .. string.char(value) .. bytes:sub(at + 1))
      end
    end
    assert.is_true(opened > #bytes)
  end)

  it("leaves the names of an intact file unchanged", function()
    local file = symtab.read(elf.file { functions = { { "one", 0x1000, 8 } } })
    assert.is_nil((file:add "nothing"))
    file:add(bytes:sub(1, #bytes // 2))
    assert.equal("one", file:find(0x1000))
  end)
end)

describe("a name is shown as in the source:", function()
  for mangled, shown in pairs {
    main = "main", _Zap = "_Zap", _R = "_R", _RX = "_RX", [""] = "", ["_Z"] = "_Z",
    _ZN3foo3barEi = "foo::bar",
    _ZN2ns4pickIiEEiT_ = "ns::pick<int>",
    _ZNK2ns3BoxIlE3sumEv = "ns::Box<long>::sum",
    _ZN2ns3BoxIlEclEi = "ns::Box<long>::operator()",
    _ZNK2ns3BoxIlEltERKS1_ = "ns::Box<long>::operator<",
    _ZNK2ns3BoxIlEcvlEv = "ns::Box<long>::operator long",
    _ZN2ns12_GLOBAL__N_16hiddenERNS_3BoxIlEE = "ns::(anonymous namespace)::hidden",
    _ZZN2ns2goEvENKUliE_clEi = "ns::go()::{lambda(int)#1}::operator()",
    _ZN2ns5applyIZNS_2goEvEUliE_EEDTclfp_fp0_EET_i = "ns::apply<ns::go()::{lambda(int)#1}>",
    _ZTV3Foo = "vtable for Foo", _Z1fv = "f", ["_Z1fv.cold"] = "f [clone .cold]",
    _ZNSt6vectorIiSaIiEE9push_backERKi = "std::vector<int, std::allocator<int> >::push_back",
    -- Rust before 2025, and v0 (RFC 2603 and its tests)
    _ZN4core3ptr13drop_in_place17h0123456789abcdefE = "core::ptr::drop_in_place",
    ["_ZN4core3ptr13drop_in_place17h0123456789abcdefE.llvm.42"] = "core::ptr::drop_in_place",
    ["_ZNSs6appendEPKc@@GLIBCXX_3.4"] = "std::string::append",
    ["_ZN72_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..iter..Extend$LT$T$GT$$GT$6extend17h0123456789abcdefE"] =
      "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
    _RNvC6_123foo3bar = "123foo::bar",
    _RNvNtCs1234_7mycrate3foo3bar = "mycrate::foo::bar",
    _RINvCs1_4rust3hotmE = "rust::hot::<u32>",
    _RNvXCs1_4rustNtB2_1ANtB2_4Work4work = "<rust::A as rust::Work>::work",
    _RNCINvNtCs1_3std2rt10lang_startuE0B4_ = "std::rt::lang_start::<()>::{closure#0}",
    _RINvCs1_1a1fFG_RL0_hEuE = "a::f::<for<'a> fn(&'a u8)>",
    _RINvCs1_1a1fAhj4_RShE = "a::f::<[u8; 4], &[u8]>",
    _RINvCs1_1a1fTaEE = "a::f::<(i8,)>",
    _RINvCs1_1a1fDNtB2_1Tp4ItemhEL_E = "a::f::<dyn a::T<Item = u8>>",
    _RINvCs1_1a1fKb1_Kc61_Kln2a_E = "a::f::<true, 'a', -42>",
    ["_RNvC1a1f.llvm.123"] = "a::f",
    -- A stub of the linkage table keeps its suffix: it is not the function that it jumps to.
    ["_ZN3fooEv@plt"] = "foo@plt", ["_ZN2ns4pickIiEEiT_@plt"] = "ns::pick<int>@plt", ["write@plt"] = "write@plt",
    ["_ZN4core3ptr13drop_in_place17h0123456789abcdefE@plt"] = "core::ptr::drop_in_place@plt",
    ["_RNvC6_123foo3bar@plt"] = "123foo::bar@plt", ["_Znwm@plt"] = "operator new@plt", ["@plt"] = "@plt",
    ["_Zap@plt"] = "_Zap@plt", ["*ABS*+0x1000@plt"] = "*ABS*+0x1000@plt",
    ["_ZTW1x@plt"] = "TLS wrapper function for x@plt",
    -- A reference to itself, or to a later part, is invalid.
    _RB_ = "_RB_", _RNvB_1f = "_RNvB_1f", _RNvC1a9f = "_RNvC1a9f",
    [("_R"):rep(1) .. ("Nv"):rep(500) .. "C1a"] = "_R" .. ("Nv"):rep(500) .. "C1a",
  } do
    it(mangled:sub(1, 60), function() assert.equal(shown, symtab.demangle(mangled)) end)
  end
end)
