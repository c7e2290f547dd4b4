-- core.file: files that may have been planted are checked before they are opened, and refused unread.

local core = require "perfev.core"
local elf = require "spec.support.elf"
local hooks = require("perfev").hooks
local run = require "spec.support.run"

local E = core.errno
local O_PATH = 0x200000

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function write(name, text)
  return run.write_file(dir .. "/" .. name, text)
end

local function sh(command) assert(os.execute(("cd %s && %s"):format(dir, command))) end

-- { reason, name of the errno } of a refused file.
local function refused(path, rule)
  local file, why, code = core.file(path, rule)
  assert.is_nil(file)
  return { why, E[code] }
end

describe("a file", function()
  it("is read as a whole and in parts, and returns its stat", function()
    local path = write("plain", "abcdef")
    local file <close> = assert(core.file(path))
    assert.equal("abcdef", file:bytes())
    assert.same({ "cd", "f", "" }, { file:part(2, 2), file:part(5, 9), file:part(9, 1) })
    assert.same(core.stat(path), file:stat())
    assert.error_matches(function() file:part(-1, 1) end, "not an offset in a file")
    assert.error_matches(function() file:part(0, 2 << 20) end, "longer than a part may be")
  end)

  it("is read at its present size, up to the maximum of its rule", function()
    local path = write("growing", "abc")
    local file <close> = assert(core.file(path, { max = 5 }))
    write("growing", "abcde")
    assert.equal("abcde", file:bytes())
    write("growing", "abcdef")
    assert.same({ n = 3, nil, "EFBIG", E.EFBIG }, table.pack(file:bytes()))
  end)

  it("is not read after it was closed", function()
    local file = assert(core.file(write("closed", "abc")))
    assert.is_true(file:is_open())
    file:close()
    file:close()
    assert.is_false(file:is_open())
    assert.error_matches(function() file:bytes() end, "the file is closed")
    assert.equal(3, file:stat().size)
  end)

  it("stays the same when another file takes its path", function()
    local file <close> = assert(core.file(write("first", "first")))
    write("second", "second")
    assert(os.rename(dir .. "/second", dir .. "/first"))
    assert.equal("first", file:bytes())
  end)

  it("fails with the errno of open(2) if it is missing or unreadable", function()
    assert.same({ "No such file or directory", "ENOENT" }, refused(dir .. "/nothing"))
    assert.same({ "Not a directory", "ENOTDIR" }, refused(write("flat", "") .. "/x"))
    if run.root then return end
    sh "echo > secret && chmod 000 secret"
    assert.same({ "Permission denied", "EACCES" }, refused(dir .. "/secret"))
  end)

  it("is refused if it is a FIFO, a device or a directory", function()
    sh "mkfifo fifo; ln -sf /dev/zero device; ln -sf fifo link; mkdir -p directory"
    for _, rule in ipairs { {}, { nofollow = true } } do
      assert.same({ "it is not a regular file", "EINVAL" }, refused(dir .. "/fifo", rule))
      assert.same({ "it is not a regular file", "EINVAL" }, refused("/dev/null", rule))
      assert.same({ "it is a directory", "EISDIR" }, refused(dir .. "/directory", rule))
    end
    assert.same({ "it is not a regular file", "EINVAL" }, refused(dir .. "/device"))
    assert.same({ "it is not a regular file", "EINVAL" }, refused(dir .. "/link"))
  end)

  it("can be reached by a symbolic link, unless its rule forbids it", function()
    write("target", "abc")
    sh "ln -sf target to-target; ln -sf nothing to-nothing; mkdir -p inside; ln -sfn . to-here"
    local file <close> = assert(core.file(dir .. "/to-target"))
    assert.equal("abc", file:bytes())
    for _, name in ipairs { "to-target", "to-nothing", "to-here" } do
      assert.same({ "it is a symbolic link", "ELOOP" }, refused(dir .. "/" .. name, { nofollow = true }))
    end
    local behind <close> = assert(core.file(dir .. "/to-here/target", { nofollow = true }))
    assert.equal("abc", behind:bytes())
  end)

  it("is refused if its owner is not in the list of its rule", function()
    local path = write("owned", "abc")
    local uid = core.stat(path).uid
    assert(core.file(path, { owners = { uid + 1, uid } })):close()
    assert.same({ "it belongs to user " .. uid, "EPERM" }, refused(path, { owners = { uid + 1 } }))
    assert.same({ "it belongs to user " .. uid, "EPERM" }, refused(path, { owners = {} }))
    assert.error_matches(function() core.file(path, { owners = { 1, 2, 3, 4, 5, 6, 7, 8, 9 } }) end, "too many owners")
  end)

  it("is refused if it is larger than its rule allows, or than 512 MiB without one", function()
    local path = write("long", "abcdef")
    assert(core.file(path, { max = 6 })):close()
    sh "truncate -s 2M long && truncate -s 513M longer"
    assert.same({ "it is larger than 1 MiB", "EFBIG" }, refused(path, { max = 1 << 20 }))
    assert.same({ "it is larger than 512 MiB", "EFBIG" }, refused(dir .. "/longer"))
  end)

  it("is refused if its device or inode (32 bits of it) differ from its rule's", function()
    local path = write("numbered", "abc")
    local st = core.stat(path)
    for _, rule in ipairs { { ino = st.ino }, { ino = st.ino ~ 5 << 40 }, { ino = st.ino, dev = st.dev } } do
      assert(core.file(path, rule)):close()
    end
    for _, rule in ipairs { { ino = st.ino + 1 }, { ino = st.ino, dev = st.dev + 1 } } do
      assert.same({ "it is another file", "ESTALE" }, refused(path, rule))
    end
  end)
end)

describe("the image of a file", function()
  local symtab = require "perfev.symtab"
  local large = ("0123456789abcdef"):rep(20000) .. "end" -- several chunks, the last one incomplete

  it("has all bytes of the file", function()
    for name, text in pairs { large = large, small = "abc", empty = "" } do
      local file <close> = assert(core.file(write(name, text)))
      assert.equal(core.crc32(text), core.crc32(file:image()))
    end
  end)

  it("has the size from when it was made, and zeros where the file was truncated", function()
    local path = write("shrinking", large)
    local file <close> = assert(core.file(path))
    local image = file:image()
    write("shrinking", "abc")
    assert.equal(core.crc32("abc" .. ("\0"):rep(#large - 3)), core.crc32(image))
    local limited <close> = assert(core.file(path, { max = 3 }))
    write("shrinking", "abcd")
    assert.same({ n = 3, nil, "EFBIG", E.EFBIG }, table.pack(limited:image()))
  end)

  it("is not read after the file was closed", function()
    local file = assert(core.file(write("closed", large)))
    local image = file:image()
    file:close()
    -- Another file may have the descriptor now.
    local other <close> = assert(core.file(write("other", large)))
    assert.equal(core.crc32(("\0"):rep(#large)), core.crc32(image))
    assert.equal(core.crc32(large), core.crc32(other:image()))
    assert.error_matches(function() file:image() end, "the file is closed")
  end)

  it("of a program is read only for its symbols and unwind rules, each part once", function()
    local MIB = 1 << 20
    local program = elf.file { functions = { { "leaf", 0x1000, 0x100 } } }
    local path, parts = write("program", program .. ("\0"):rep(8 * MIB)), {}
    local function pread(fd, len, offset)
      parts[#parts + 1] = { offset, len }
      return hooks.real.pread(fd, len, offset)
    end
    hooks.with({ pread = pread }, function()
      local file <close> = assert(core.file(path))
      local image = file:image()
      assert.equal("leaf", (symtab.read(image):find(0x1000)))
      assert.is_nil((require("perfev.cfi").read(image))) -- it has none
      assert.equal("leaf", (symtab.read(image):find(0x1000)))
    end)
    assert.same({ { 0, 64 << 10 } }, parts)
  end)

  it("of a program that is cut while it is read has no further names", function()
    local functions = {}
    for n = 1, 10000 do functions[n] = { ("function_%05d"):format(n), 0x1000 + n * 8, 8 } end
    local bytes = elf.file { functions = functions }
    local path, cut = write("program", bytes), bytes:find("function_08000", 1, true) - 1
    -- The bytes after the cut are gone when the names are read, at once, after the table of symbols.
    local function pread(fd, len, offset)
      if offset % (64 << 10) ~= 0 then len = math.max(math.min(len, cut - offset), 0) end
      return hooks.real.pread(fd, len, offset)
    end
    local function names_of(set)
      return hooks.with(set, function()
        local file <close> = assert(core.file(path))
        local symbols = symtab.read(file:image())
        return { (symbols:find(0x1000 + 7999 * 8)), (symbols:find(0x1000 + 8000 * 8)) }
      end)
    end
    assert.same({ "function_07999", "function_08000" }, names_of {})
    assert.same({ "function_07999" }, names_of { pread = pread })
  end)

  it("raises the error of a hook at the latest when the file is closed", function()
    local path = write("raising", large)
    hooks.with({ pread = function() error "no such disk" end }, function()
      assert.error_matches(function()
        local file <close> = assert(core.file(path))
        symtab.read(file:image())
      end, "no such disk")
    end)
  end)
end)

describe("a refused file", function()
  -- The system calls that are made for a file with that stat.
  local function calls(st, rule)
    local list = {}
    local set = {
      strict = true,
      open = function(path, flags)
        list[#list + 1] = ("open %s%s"):format(path, flags & O_PATH ~= 0 and ", without opening it" or "")
        return 40 + #list
      end,
      fstat = function() return st end,
      pread = function()
        list[#list + 1] = "read"
        return ""
      end,
      close = function(fd)
        list[#list + 1] = "close " .. fd
        return 0
      end,
    }
    hooks.with(set, function()
      local file = core.file("/tmp/x", rule)
      if file then file:bytes() file:close() end
    end)
    return list
  end

  it("is neither opened nor read", function()
    local looked_at = { "open /tmp/x, without opening it", "close 41" }
    for kind, mode in pairs { FIFO = 0x1000, device = 0x2000, block = 0x6000, directory = 0x4000, link = 0xa000,
      socket = 0xc000, unknown = 0 } do
      assert.same(looked_at, calls { mode = mode, size = 3 }, kind)
    end
    assert.same(looked_at, calls({ mode = 0x8000, uid = 7, size = 3 }, { owners = { 0 } }))
    assert.same(looked_at, calls({ mode = 0x8000, size = 3 }, { max = 2 }))
    assert.same(looked_at, calls({ mode = 0x8000, size = 3, ino = 1 }, { ino = 2 }))
    assert.same({ "open /tmp/x, without opening it", "open /proc/self/fd/41", "close 41", "read", "close 42" },
      calls { mode = 0x8000, size = 3 })
  end)

  it("is checked again after open(2) where /proc is not mounted", function()
    local function opened(second)
      local fds, closed = 40, {}
      return hooks.with({
        strict = true,
        open = function(path)
          if path:find "^/proc" then return nil, E.ENOENT end
          fds = fds + 1
          return fds
        end,
        fstat = function(fd) return { mode = 0x8000, ino = fd == 41 and 1 or second } end,
        close = function(fd)
          closed[#closed + 1] = fd
          return 0
        end,
      }, function()
        local file, why, code = core.file "/tmp/x"
        if file then file:close() end
        return { why, code and E[code], table.unpack(closed) }
      end)
    end
    assert.same({ nil, nil, 41, 42 }, opened(1))
    assert.same({ "Stale file handle", "ESTALE", 42, 41 }, opened(2))
  end)
end)
