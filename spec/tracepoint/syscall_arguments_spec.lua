-- Arguments of system calls: unsigned words in the payload, whatever their types; scripts see and print values of the
-- declared type.

local core = require "perfev.core"
local filters = require "perfev.tracepoint.filter"
local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"
local where = require "perfev.aggregate.condition"

local FIELDS = { { "int", "dfd" }, { "unsigned int", "fd" }, { "umode_t", "mode" }, { "off_t", "offset" },
                 { "const char *", "path" }, { "unsigned long", "flags" }, { "const clockid_t", "clock" } }

local function format_text(name, print_format)
  local lines = { ("name: %s\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    .. "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;"):format(name) }
  for i, field in ipairs(FIELDS) do
    lines[#lines + 1] = ("\tfield:%s %s;\toffset:%d;\tsize:8;\tsigned:0;"):format(field[1], field[2], 8 * i + 8)
  end
  return table.concat(lines, "\n") .. ("\n\nprint fmt: %s\n"):format(print_format or '"dfd: 0x%08lx", REC->dfd')
end

-- As a caller leaves them in registers: ints with zeros, with their sign, or with old bits above them.
local WORDS = { 0xffffff9c, 0x1234567800000003, 0xabcd0000000081a4, -1, 0x7ffd00001000, -2, -5 }
local VALUES = { dfd = -100, fd = 3, mode = 0x81a4, offset = -1, path = 0x7ffd00001000, flags = -2, clock = -5 }

local function bytes_of(order) return string.pack(order .. "I2I2i4i4i4i8i8i8i8i8i8i8", 7, 0, 0, 257, 0,
  table.unpack(WORDS)) end

describe("an argument of a system call", function()
  it("has the width and the sign of its type in both byte orders", function()
    for order, is_big in pairs { ["<"] = false, [">"] = true } do
      local args = assert(core.payload("syscalls", format_text "sys_enter_a", bytes_of(order), { big_endian = is_big }))
      for name, value in pairs(VALUES) do assert.equal(value, args[name], name) end
      assert.equal("dfd: 0xffffff9c", tostring(args)) -- the kernel's own text is as the kernel has it
    end
  end)

  it("is a word in the payload of every other event", function()
    local args = assert(core.payload("other", format_text "enter_a", bytes_of "<", { big_endian = false }))
    assert.equal(0xffffff9c, args.dfd)
    assert.equal(WORDS[2], args.fd)
  end)

  describe("of a recording", function()
    local path
    local function record(endian, nr)
      local built = perfdata.new { endian = endian, events = { { name = "syscalls:sys_enter_a", ids = { 1 }, attr = {
        type = 2, config = 7, sample_type = { "identifier", "tid", "time", "cpu", "raw" }, sample_id_all = true } } } }
      for time = 1, nr do
        built:add { type = "sample", identifier = 1, time = time, pid = 5, tid = 5, cpu = 0,
                    raw = bytes_of(endian == "big" and ">" or "<") }
      end
      path = os.tmpname()
      run.write_file(path, (built:file { [1] = built:tracing_data("syscalls", format_text "sys_enter_a") }))
    end
    after_each(function() os.remove(path) end)

    for _, endian in ipairs { "little", "big" } do
      it(("is equal in callbacks, aggregators, conditions and lines, %s-endian"):format(endian), function()
        record(endian, 1)
        local seen, passed = {}, nil
        local s <close> = perfev.session { input = path }
        local counts = perfev.count { by = { "args.dfd", "args.fd", "args.mode", "args.offset", "args.clock" } }
        local text = perfev.line "{args.dfd} {args.fd} {args.path} {args.path:-16}| {args.path:x} {args.offset}"
        s:event { "syscalls:sys_enter_a", sample = function(r, args)
          for name in pairs(VALUES) do seen[name] = args[name] end
          seen.text = text:text(r)
        end }
        s:event { "syscalls:sys_enter_a", fields = { "args.dfd", "args.mode" },
                  sample = function(...) passed = { ... } end }
        s:event { "syscalls:sys_enter_a", sample = counts, where = { "and", { "args.dfd", "==", -100 },
          { "args.fd", "<", 4 }, { "args.clock", "<", 0 }, { "args.flags", ">", 5 } } }
        assert(s:run())
        assert.equal("-100 3 0x7ffd00001000 0x7ffd00001000  | 7ffd00001000 -1", seen.text)
        seen.text = nil
        assert.same(VALUES, seen)
        assert.same({ -100, 0x81a4 }, passed)
        assert.equal(1, counts:get(-100, 3, 0x81a4, -1, -5))
      end)
    end

    it("is printed by perfl with its sign, and pointers in hexadecimal", function()
      record("little", 2)
      local text = run { run.perfl, "dump", "-n", "1", "-t", "sample", path }.out
      assert.matches("dfd=%-100 fd=3 mode=33188 offset=%-1 path=0x7ffd00001000 flags=18446744073709551614 clock=%-5\n",
        text)
      local object = json.decode(run { run.perfl, "dump", "-j", "-n", "1", "-t", "sample", path }.out)
      assert.same({ -100, -1, "0x7ffd00001000" }, { object.args.dfd, object.args.offset, object.args.path })
      local table_text = run { run.perfl, "-i", path, "-e", [[
        event { "syscalls:sys_enter_a", sample = count { by = { "args.dfd", "args.path" } } }
        local both = span { start = true, stop = true, by = "tid",
                            into = hist { by = { "start.args.path", "args.offset" } } }
        event { "syscalls:sys_enter_a", sample = { both.stop, both.start } }]] }.out
      assert.matches("DFD +PATH +COUNT\n%-100  0x7ffd00001000      2\n", table_text)
      assert.matches("@%[0x7ffd00001000, %-1%]:", table_text)
    end)
  end)

  -- The kernel compares the whole word, without a sign.
  local function lets_through(text, words)
    local kernels = { ["=="] = function(a, b) return a == b end, ["!="] = function(a, b) return a ~= b end,
                      ["<"] = math.ult, [">"] = function(a, b) return math.ult(b, a) end,
                      ["<="] = function(a, b) return not math.ult(b, a) end,
                      [">="] = function(a, b) return not math.ult(a, b) end,
                      ["&"] = function(a, b) return a & b ~= 0 end }
    local code = text:gsub("(%a+) ([=!<>&]+) (%w+)", function(name, op, number)
      return tostring(kernels[op](words[name], math.tointeger(tonumber(number))))
    end):gsub("||", "or"):gsub("&&", "and"):gsub("!%(", "not (")
    return assert(load("return " .. code))()
  end

  it("passes the kernel's filter whenever its condition is true", function()
    local fields = filters.fields(format_text "sys_enter_a")
    local literals = { 0, 1, 3, 4, -1, -100, 0xffffff9c, 0x81a4, 0x80000000, math.maxinteger, math.mininteger }
    local decided, held = 0, 0
    for _, name in ipairs { "dfd", "fd", "mode", "offset", "flags", "clock" } do
      for _, op in ipairs { "==", "!=", "<", "<=", ">", ">=", "&" } do
        for _, literal in ipairs(literals) do
          for _, negated in ipairs { false, true } do
            local condition = { "args." .. name, op, literal }
            if negated then condition = { "not", condition } end
            local node = where.read(condition, "spec", 1)
            local text, exact = where.filter(node, fields)
            decided = decided + (text and 1 or 0)
            for _, word in ipairs { 0, 1, 3, 4, -1, -100, 0xffffff9c, 0x1234567800000003, 0xabcd0000000081a4,
                                    0x80000000, math.mininteger } do
              local bytes = string.pack("<I2I2i4i4i4" .. ("i8"):rep(7), 7, 0, 0, 257, 0, word, word, word, word, word,
                word, word)
              local value = assert(core.payload("syscalls", format_text "sys_enter_a", bytes, { big_endian = false }))
              local function ult(a, b) return name == "flags" and math.ult(a, b) or name ~= "flags" and a < b end
              local a = value[name]
              local is = ({ ["=="] = a == literal, ["!="] = a ~= literal, ["<"] = ult(a, literal),
                            ["<="] = not ult(literal, a), [">"] = ult(literal, a), [">="] = not ult(a, literal),
                            ["&"] = a & literal ~= 0 })[op] ~= negated
              if is then held = held + 1 end
              if text then
                local through = lets_through(text, { [name] = word })
                assert(through or not is, ("%s %s %d: %s, of 0x%x"):format(name, op, literal, text, word))
                assert(not exact or through == is, text)
              end
            end
          end
        end
      end
    end
    assert.is_true(decided > 400 and held > 4000, decided .. " " .. held)
  end)
end)

describe("a number that its event prints in hexadecimal", function()
  it("is a key in hexadecimal at any width", function()
    local forms = core.payload_forms(format_text("a", '"path=%p flags=0x%lx mode=%x xfd=0x%x", REC->path'))
    assert.same({ true, true, false, false }, { forms.path.hex, forms.flags.hex, forms.mode.hex, forms.fd.hex })
    assert.same({}, core.payload_forms "no format")
  end)
end)
