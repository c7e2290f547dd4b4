-- Format texts -> fields of payloads, and their printed text.

local core = require "perfev.core"
local run = require "spec.support.run"
local golden = dofile "spec/fixtures/formats/golden.lua"

local COMMON = [[
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

]]

local function format_of(name)
  return assert(run.slurp("spec/fixtures/formats/" .. name .. ".txt"))
end

local function unhex(text)
  return (text:gsub("..", function(byte) return string.char(tonumber(byte, 16)) end))
end

-- fields: lines "declaration;offset;size;signed"
local function format(fields, print_fmt)
  local lines = { "name: made\nID: 77\nformat:\n", COMMON }
  for _, field in ipairs(fields) do
    lines[#lines + 1] = "\tfield:" .. field:gsub(";(%d+);(%d+);(%d)$",
      ";\toffset:%1;\tsize:%2;\tsigned:%3;\n")
  end
  lines[#lines + 1] = "\nprint fmt: " .. (print_fmt or '"made"') .. "\n"
  return table.concat(lines)
end

local HEAD = string.pack("<I2I1I1i4", 77, 1, 2, 1234)

local function payload(fields, bytes, print_fmt, options)
  return assert(core.payload("room", format(fields, print_fmt), HEAD .. bytes, options))
end

local function names_of(args)
  local names = {}
  for name in pairs(args) do names[#names + 1] = name end
  return names
end

-- Every field and the text, for their not crashing.
local function walk(args)
  local seen = 0
  for name in pairs(args) do
    local _ = args[name]
    seen = seen + 1
  end
  for name in pairs(args) do args:text(name) end
  return seen + #tostring(args)
end

local function case_of(name)
  for _, case in ipairs(golden) do
    if case.name == name then return case end
  end
end

local function args_of(name)
  local case = case_of(name)
  return assert(core.payload(case.system, format_of(name), unhex(case.bytes), case.options))
end

describe("a payload's fields", function()
  it("have their declared values", function()
    local args = args_of "sched_switch"
    assert.equal("perf", args.prev_comm)
    assert.equal("migration/0", args.next_comm)
    assert.equal(11449, args.prev_pid)
    assert.equal(18, args.next_pid)
    assert.equal(2, args.prev_state)
    assert.equal("integer", math.type(args.next_prio))
  end)

  it("are signed only if the format says signed", function()
    local args = payload({ "s8 a;8;1;1", "u8 b;9;1;0", "s16 c;10;2;1", "u16 d;12;2;0",
      "s32 e;16;4;1", "u32 f;20;4;0", "s64 g;24;8;1", "u64 h;32;8;0" },
      "\xff\xff" .. string.pack("<i2i2xxi4i4i8i8", -1, -1, -1, -1, -1, -1))
    assert.same({ -1, 255, -1, 65535, -1, 0xffffffff, -1, -1 },
      { args.a, args.b, args.c, args.d, args.e, args.f, args.g, args.h })
  end)

  it("are listed by pairs in the format's order, without the common ones", function()
    assert.same({ "prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid",
      "next_prio" }, names_of(args_of "sched_switch"))
  end)

  it("include the common ones by name", function()
    local args = payload({}, "")
    assert.same({ 77, 1, 2, 1234 },
      { args.common_type, args.common_flags, args.common_preempt_count, args.common_pid })
  end)

  it("are tables of integers if they are arrays of numbers", function()
    assert.same({ 8, 0x7fff47ca3987, 1, 0xfd5359ca15aa1ab2, 0, 0x5618482ec730 },
      args_of("sys_enter").args)
    local args = payload({ "s16 pair[2];8;4;1" }, string.pack("<i2i2", -2, 3))
    assert.same({ -2, 3 }, args.pair)
  end)

  it("are strings if they are arrays of bytes, zeros included", function()
    assert.equal("\x7f\0\0\1", args_of("inet_sock_set_state").saddr)
    local args = payload({ "u8 mac[6];8;6;0", "struct in6_addr in6;16;16;0" },
      "\1\0\2\0\3\0xx" .. ("\0\7"):rep(8))
    assert.equal("\1\0\2\0\3\0", args.mac)
    assert.equal(("\0\7"):rep(8), args.in6)
  end)

  it("end at the first NUL if they are text", function()
    local args = payload({ "char a[4];8;4;0", "char b[4];12;4;0" }, "ab\0dwxyz")
    assert.equal("ab", args.a)
    assert.equal("wxyz", args.b)
  end)

  it("are followed through __data_loc", function()
    assert.equal("/usr/bin/dd", args_of("sched_process_exec").filename)
    assert.equal("virtio1-req.0", args_of("irq_handler_entry").name)
  end)

  it("are followed through __rel_loc, which counts from the field's end", function()
    local args = payload({ "int before;8;4;1", "__rel_loc char[] name;12;4;0",
      "__rel_loc u32[] ids;16;4;0" },
      string.pack("<i4I4I4z", 5, 5 << 16 | 4, 8 << 16 | 5, "abcd")
        .. string.pack("<I4I4", 7, 0xffffffff))
    assert.equal("abcd", args.name)
    assert.same({ 7, 0xffffffff }, args.ids)
  end)

  it("may be dynamic without brackets", function()
    local args = assert(core.payload("ipi", format_of "ipi_send_cpumask",
      HEAD .. string.pack("<I4xxxxI8I8I8", 8 << 16 | 32, 1, 2, 0x8000000000000003)))
    assert.same({ math.mininteger + 3 }, args.cpumask)
  end)

  it("extend to the end if the format gives the last field no size", function()
    local args = payload({ "char buf[];8;0;0", "u32 words[];8;0;0" }, "abcdefgh")
    assert.equal("abcdefgh", args.buf)
    assert.same({ 0x64636261, 0x68676665 }, args.words)
  end)

  it("are nil, and <bad> in the text, if they point outside", function()
    local fields = { "__data_loc char[] name;8;4;0", "int pid;12;4;1" }
    for _, loc in ipairs { 4 << 16 | 13, 0xffff << 16, 0xffff, 0xffffffff } do
      local args = payload(fields, string.pack("<I4i4", loc, 9),
        '"%s %d", __get_str(name), REC->pid')
      assert.is_nil(args.name)
      assert.equal(9, args.pid)
      assert.equal("name=<bad> pid=9", tostring(args))
    end
  end)

  it("may have a length or an offset beyond any payload", function()
    local args = payload({ "int far;999999999;4;1", "char long[999999999];8;999999999;0" }, "abcd")
    assert.is_nil(args.far)
    assert.is_nil(args.long)
    assert.equal("[FAILED TO PARSE] far=<bad> long=<bad>", tostring(args))
  end)

  it("are decoded from the other byte order", function()
    local fields = { "int a;8;4;1", "__data_loc char[] name;12;4;0", "u16 list[2];16;4;0" }
    local bytes = string.pack(">I2I1I1i4i4I4I2I2", 77, 0, 0, 42, -3, 3 << 16 | 20, 1, 2) .. "hi\0"
    local args = assert(core.payload("room", format(fields, '"%s %d", __get_str(name), REC->a'),
      bytes, { big_endian = true }))
    assert.same({ 77, 42, -3, "hi", { 1, 2 } },
      { args.common_type, args.common_pid, args.a, args.name, args.list })
    assert.equal("hi -3", tostring(args))
  end)

  it("have the recording machine's size of long", function()
    local fields = { "__data_loc unsigned long[] list;8;4;0" }
    local bytes = string.pack("<I4I4I4", 8 << 16 | 12, 1, 2)
    assert.same({ 1, 2 }, payload(fields, bytes, nil, { long_size = 4 }).list)
    assert.same({ 2 << 32 | 1 }, payload(fields, bytes, nil, { long_size = 8 }).list)
  end)
end)

describe("the payload view", function()
  it("raises on a name that the event lacks, with the nearest valid name", function()
    local args = args_of "sched_switch"
    local function read(name) return function() return args[name] end end
    assert.error_matches(read "next_pdi",
      "sched:sched_switch has no field 'next_pdi' %(did you mean 'next_pid'%?%)")
    assert.error_matches(read "colour", "sched:sched_switch has no field 'colour'")
    assert.error_matches(read(1), "has no field '1'")
  end)

  it("is read-only, opaque and has no length", function()
    local args = args_of "sched_switch"
    assert.error_matches(function() args.next_pid = 1 end, "read%-only")
    assert.is_false(getmetatable(args))
    assert.error_matches(function() return #args end, "perfev.args")
  end)

  it("survives the collection of all other objects", function()
    local case = case_of "kmalloc"
    local start, name = next(case.options.symbols)
    local args = core.payload("kmem", format_of "kmalloc", unhex(case.bytes),
      { symbols = { [start] = name:sub(1, 3) .. name:sub(4) } })
    for _ = 1, 3 do collectgarbage() end
    assert.equal(case.text, tostring(args))
  end)

  it("supports iterations that are aborted or nested", function()
    local args, seen = args_of "sched_switch", {}
    for a in pairs(args) do
      for b in pairs(args) do
        seen[#seen + 1] = a .. b
        if b == "prev_prio" then break end
      end
    end
    assert.equal(21, #seen)
  end)
end)

describe("a payload's text", function()
  for _, case in ipairs(golden) do
    it("is the same as perf script's for " .. case.system .. ":" .. case.name, function()
      assert.equal(case.text, tostring(args_of(case.name)))
    end)
  end

  it("has addresses for symbols and strings without a known name", function()
    local case = case_of "hrtimer_start"
    local args = core.payload("timer", format_of "hrtimer_start", unhex(case.bytes))
    assert.matches("function=0xffffffff814352e0 ", tostring(args))
    case = case_of "rcu_utilization"
    args = core.payload("rcu", format_of "rcu_utilization", unhex(case.bytes),
      { strings = 'x\n0xzz : "no"\n: \n0xffffffff8281a8be : "\n0xffffffff8281a8be\n' })
    assert.equal("ffffffff8281a8be", tostring(args))
  end)

  it("lists the CPUs of a mask", function()
    local args = assert(core.payload("ipi", format_of "ipi_send_cpumask",
      HEAD .. string.pack("<I4xxxxI8I8I8", 8 << 16 | 32, 0, 0, 0x0d)))
    assert.matches("cpumask=0,2%-3 ", tostring(args))
  end)

  it("prints the fields if a dynamic cpumask is empty", function()
    local args = assert(core.payload("ipi", format_of "ipi_send_cpumask",
      HEAD .. string.pack("<I4xxxxI8I8", 0, 0, 0)))
    assert.equal("cpumask=ARRAY[] callsite=0x0 callback=0x0", tostring(args))
  end)

  it("lists every field if the print format is not understood", function()
    local fields = { "char comm[8];8;8;0", "u8 mac[3];16;3;0", "long l;24;8;1", "u32 u;32;4;0",
      "unsigned long ul;40;8;0", "void *p;48;8;0", "s16 s;56;2;1" }
    local bytes = "name\0\0\0\0\1\2\3\0\0\0\0\0"
      .. string.pack("<i8I4xxxxI8I8i2", -5, 6, 7, 8, -9)
    for _, print_fmt in ipairs { "", '"%s", jiffies(REC->u)', '"%d', "nonsense" } do
      assert.equal("[FAILED TO PARSE] comm=name mac=ARRAY[01, 02, 03] l=-5 u=6 ul=0x7 p=0x8 s=-9",
        tostring(payload(fields, bytes, print_fmt)))
    end
  end)

  it("reads hex dumps and arrays up to the payload's length, if that lies inside", function()
    local fields = { "u8 len;8;1;0", "__data_loc u8[] dyn;12;4;0", "u8 fix[4];16;4;0" }
    local print_fmt = '"%s %s %s", __print_hex(REC->fix, REC->len),'
      .. ' __print_array(__get_dynamic_array(dyn), REC->len, 1),'
      .. ' __print_hex_str(__get_dynamic_array(dyn), __get_dynamic_array_len(dyn))'
    local function text(len)
      return tostring(payload(fields, string.pack("<I1xxxI4", len, 4 << 16 | 20) .. "abcdefgh", print_fmt))
    end
    assert.equal("61 62 {0x65,0x66} 65666768", text(2))
    assert.equal("61 62 63 64 {0x65,0x66,0x67,0x68} 65666768", text(4))
    assert.equal("len=5 dyn=efgh fix=abcd", text(5))
    assert.equal("len=255 dyn=efgh fix=abcd", text(255))
  end)

  it("lists the fields if a width in the payload would shift printf's arguments", function()
    local fields = { "int len;8;4;1", "char name[8];12;8;0" }
    local function text(len)
      return tostring(payload(fields, string.pack("<i4", len) .. "abcdefgh",
        '"%.*s|", REC->len, REC->name'))
    end
    assert.equal("abc|", text(3))
    assert.equal("len=-1 name=abcdefgh", text(-1))
    assert.equal("len=2147483647 name=abcdefgh", text(0x7fffffff))
    local args = payload(fields, string.pack("<i4", -1) .. "abcdefgh",
      '"%5%d %.*s", REC->len, REC->name')
    assert.equal("len=-1 name=abcdefgh", tostring(args))
  end)

  it("may be longer than 3,000 bytes", function()
    local args = payload({ "char a[3000];8;3000;0" }, ("x"):rep(3000), '"<%s>", REC->a')
    assert.equal("<" .. ("x"):rep(3000) .. ">", tostring(args))
  end)

  it("stays within a text without NUL at the payload's end", function()
    local args = payload({ "__data_loc char[] name;8;4;0" }, string.pack("<I4", 4 << 16 | 12) .. "abcd",
      '"%s", __get_str(name)')
    assert.equal("abcd", tostring(args))
  end)
end)

describe("the text of one field", function()
  it("is what the print format shows for it", function()
    local want = {
      inet_sock_set_state = { family = "AF_INET", sport = "42957", saddr = "127.0.0.1", daddr_v6 = "::ffff:127.0.0.1",
        oldstate = "TCP_SYN_RECV", newstate = "TCP_ESTABLISHED" },
      ext4_es_lookup_extent_exit = { dev = "254,0", ino = "10952859", found = "1" },
      rcu_utilization = { s = "Start scheduler-tick" },
      net_dev_start_xmit = { name = "lo", protocol = "0x86dd" },
    }
    for name, fields in pairs(want) do
      local args = args_of(name)
      for field, text in pairs(fields) do assert.equal(text, args:text(field), name .. "." .. field) end
    end
  end)

  it("joins the parts that show it, and is the one with names if it is shown twice", function()
    local fields = { "unsigned long state;8;8;1", "unsigned int vec;16;4;0" }
    local print_fmt = '"state=%s%s vec=%u [action=%s] both=%u %#x", '
      .. '(REC->state & 3) ? __print_flags(REC->state & 3, "|", { 1, "S" }, { 2, "D" }) : "R", '
      .. 'REC->state & 8 ? "+" : "", REC->vec, __print_symbolic(REC->vec, { 3, "NET_RX" }), '
      .. 'REC->vec + REC->state, REC->vec'
    local function text(state, vec, name)
      return payload(fields, string.pack("<I8I4", state, vec), print_fmt):text(name)
    end
    assert.equal("S|D+", text(11, 3, "state"))
    assert.equal("R", text(0, 3, "state"))
    assert.equal("NET_RX", text(0, 3, "vec"))
    assert.equal("0x4", text(0, 4, "vec"))
  end)

  it("is an address for arrays of bytes that are printed as one", function()
    local fields = { "__u8 mac[6];8;6;0", "__u8 ip[4];14;4;0", "__u8 six[16];18;16;0", "__u8 plain[2];34;2;0" }
    local bytes = "\2\0\0\xaa\xbb\xcc" .. "\10\1\2\3" .. "\x20\1\x0d\xb8" .. ("\0"):rep(11) .. "\1" .. "\1\2"
    local args = payload(fields, bytes, '"%pM %pI4 %pI6c", REC->mac, REC->ip, REC->six')
    assert.equal("02:00:00:aa:bb:cc", args:text "mac")
    assert.equal("10.1.2.3", args:text "ip")
    assert.equal("2001:db8::1", args:text "six")
    assert.equal("ARRAY[01, 02]", args:text "plain")
    assert.equal("\1\2", args.plain)
  end)

  it("is a number, a text or bytes if the print format does not show the field by itself", function()
    local fields = { "char comm[8];8;8;0", "u8 len;16;1;0", "u8 data[4];17;4;0", "int sum;24;4;1" }
    local bytes = "name\0\0\0\0" .. "\2abcd\0\0\0" .. string.pack("<i4", -5)
    local shows_others = '"%u %d %x", REC->data[1], REC->sum + REC->len, REC->data[2]'
    for _, print_fmt in ipairs { shows_others, '"%s", jiffies(REC->u)' } do
      local args = payload(fields, bytes, print_fmt)
      local texts = {}
      for i, name in ipairs { "comm", "len", "data", "sum" } do texts[i] = args:text(name) end
      assert.same({ "name", "2", "abcd", "-5" }, texts)
    end
  end)

  it("is whole, however long", function()
    local args = payload({ "u8 data[3000];8;3000;0" }, ("\xab"):rep(3000), '"%s", __print_hex_str(REC->data, 3000)')
    assert.equal(("ab"):rep(3000), args:text "data")
  end)

  it("is nil outside the payload, and raises for a field that the event lacks", function()
    local args = payload({ "u32 near;8;4;0", "u32 far;4000;4;0" }, "\1\0\0\0", '"%u %u", REC->near, REC->far')
    assert.equal("1", args:text "near")
    assert.is_nil(args:text "far")
    assert.error_matches(function() args:text "neat" end, "made has no field 'neat' %(did you mean 'near'%?%)")
    assert.error_matches(function() args:text() end, "string expected")
  end)

  it("is a field's value if the event has a field text", function()
    assert.equal(7, payload({ "u32 text;8;4;0" }, "\7\0\0\0", '"%u", REC->text').text)
  end)
end)

describe("a truncated payload", function()
  for _, case in ipairs(golden) do
    it("of " .. case.name .. " is read at every length", function()
      local bytes, text = unhex(case.bytes), format_of(case.name)
      for len = 0, #bytes do
        walk(assert(core.payload(case.system, text, bytes:sub(1, len), case.options)))
      end
    end)
  end
end)

describe("a hostile format text", function()
  local function refused(text)
    local args, message, errno = core.payload("room", text, HEAD)
    assert.is_nil(args)
    assert.equal("integer", math.type(errno))
    return message
  end

  it("is refused with the invalid line", function()
    assert.matches("room: .*at \"\"", refused "")
    assert.matches("no name, ID or field", refused "name: x\nID: 1\nformat:\n")
    assert.matches("ID is not a number at \"%-1\"", refused "name: x\nID: -1\n")
    assert.matches('line not understood at "<html>"', refused "<html>")
    assert.matches('field line not understood at "int a', refused(format { "int a[;8;4;1" }))
    assert.matches("expected the text of a tracefs", refused(format { "x;8;4;1" }))
    refused(format { "int 9a;8;4;1" })
    refused(format { "int a;8;-4;1" })
    refused(format { "int a;8;99999999999999999999;1" })
    refused(format { ("x"):rep(70000) .. " a;8;4;1" })
    refused(format { "int " .. ("a"):rep(300) .. ";8;4;1" })
  end)

  it("may have at most 512 fields", function()
    local fields = {}
    for i = 1, 508 do fields[i] = "int f" .. i .. ";8;4;1" end
    assert.equal(508, #names_of(payload(fields, "abcd")))
    for i = 509, 600 do fields[i] = "int f" .. i .. ";8;4;1" end
    assert.matches("more than 512 fields", refused(format(fields)))
  end)

  it("may have any type and any number of stars", function()
    local fields = { "struct { int x; } a;8;4;1" }
    refused(format(fields))
    for _, decl in ipairs { "int " .. ("*"):rep(200) .. "a", "a] b[] a", "u32[] a", "(*f)(int) a",
      "int b[2][3] a", "__attribute__((x)) int a", "int\1 a", "char[4][4] a", "* a" } do
      local args = payload({ decl .. ";8;4;0" }, "\1\0\0\0", '"%d", REC->a')
      assert.is_true(walk(args) > 0)
    end
  end)

  it("may have a print format that is invalid C or has no end", function()
    for _, print_fmt in ipairs {
      '"%s", __print_flags(REC->nope, "|", { 1, "a" })', '"%d", 1 / 0', '"%d", REC->a / REC->a',
      '"%d", REC->a / 1 / 0', '"%d", REC->a % (1 - 1)', '"%d", 7 / 00', '"%d", 7 / sizeof(REC->a)',
      '"%d", REC->a[9999999]', '"%d", REC->a[REC->a]', '"%d", REC->a[0][1]',
      '"%s", __get_str(a)', '"%s", __get_str(nope)',
      '"%s", __get_cpumask(a)', '"%s", __print_hex("text", 3)', '"%s", __print_hex((u8 *)REC->a, 3)',
      '"%s", __print_hex(1 + 2, 3)', '"%s", __print_array(REC->a, REC->a, REC->a)', '"%ls", REC->a',
      '"%s", __print_array(REC->a, 1000000, 8)', '"%*.*s", REC->a', '"%999999999d", REC->a',
      '"%d", ' .. ("("):rep(100000), '"%d", ' .. ("("):rep(5000) .. "1" .. (")"):rep(5000),
      '"%d", ' .. ("~"):rep(100000) .. "1", '"%d", 1' .. (" + 1"):rep(100000),
      '"%d", ' .. ("1 ? "):rep(10000) .. "1" .. (" : 1"):rep(10000), '"%d", ' .. ("(int)"):rep(9999) .. "1",
      '"' .. ("%d"):rep(9999) .. '"' .. (", 1"):rep(9999), '"%', '"%"', '"\\', '"\\"', '"%d" "%', '"%d", REC',
      '"%d", REC->', '"%d", (REC)', "\"%d\", '", "\"%d\", ''", '"%d", REC->a ? 1', '"%d", : 1', '"%d",',
      '"%s", __print_symbolic(REC->a, { 1, "a" }', '"%s", __print_symbolic(REC->a, { 1', '"\1", 1',
      '"%d", __builtin_expect(1, 1', '"%d", sizeof(', '"%d", REC->a = 1', '"%d", REC->a++', "\0", '"a\0b"',
    } do
      local args = payload({ "int a;8;4;1" }, "\1\0\0\0", print_fmt)
      assert.equal(1, args.a)
      assert.is_true(walk(args) > 0)
    end
  end)

  it("may be cut at any byte", function()
    for _, name in ipairs { "sched_switch", "sched_process_exec", "inet_sock_set_state" } do
      local text = format_of(name)
      for len = 0, #text do
        local args = core.payload("room", text:sub(1, len), HEAD .. ("\1"):rep(80))
        if args then walk(args) end
      end
    end
  end)

  it("may have random changes", function()
    local seed = tonumber(os.getenv "SEED") or 20240229
    math.randomseed(seed)
    local pool = { "", "(", ")", "[", "]", "{", "}", ",", '"', "'", "%", "/ ", "0", "*", "->", "REC", "\n", "\t",
      ";", "field:", "__data_loc ", "size:65536", "\0", "\xff", "?", ":", "-", "<<", "__get_str(", "s", "\\" }
    for round = 1, 2000 do
      local case = golden[math.random(#golden)]
      local text, bytes = format_of(case.name), unhex(case.bytes)
      for _ = 1, math.random(3) do
        local at = math.random(#text)
        text = text:sub(1, at - 1) .. pool[math.random(#pool)] .. text:sub(at + math.random(0, 4))
      end
      for _ = 1, math.random(0, 3) do
        local at = math.random(9, #bytes)
        bytes = bytes:sub(1, at - 1) .. string.char(math.random(0, 255)) .. bytes:sub(at + 1)
      end
      local ok, problem = pcall(function()
        local args = core.payload(case.system, text, bytes, case.options)
        if args then walk(args) end
      end)
      assert(ok, ("SEED=%d round %d: %s"):format(seed, round, problem))
    end
  end)
end)
