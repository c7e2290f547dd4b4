-- Print formats: the text is libtraceevent's byte for byte, and the kernel's where libtraceevent misreads C.

local core = require "perfev.core"
local traceevent, why_not = require("spec.support.traceevent").load()

local FORMAT = [[
name: event
ID: 7
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:u8 a;	offset:8;	size:1;	signed:0;
	field:short b;	offset:10;	size:2;	signed:1;
	field:int c;	offset:12;	size:4;	signed:1;
	field:unsigned long d;	offset:16;	size:8;	signed:0;
	field:char name[16];	offset:24;	size:16;	signed:0;
	field:__data_loc char[] path;	offset:40;	size:4;	signed:0;
	field:__rel_loc char[] rel;	offset:44;	size:4;	signed:0;
	field:unsigned int list[3];	offset:48;	size:12;	signed:0;
	field:char three[3];	offset:60;	size:3;	signed:0;

print fmt: ]]

local prints = {
  '"a=%u b=%d c=%d d=%lu", REC->a, REC->b, REC->c, REC->d',
  '"%5d|%-5d|%05d|%x|%#x|%08lx|%#010llx|%X|%o|%.3d|%8.3x", REC->c, REC->c, REC->c, REC->c, REC->c, REC->d, '
    .. 'REC->d, REC->c, REC->c, REC->c, REC->c',
  '"%hhd %hd %hu %hhu %zd %Lu %i", REC->c, REC->c, REC->c, REC->c, REC->d, REC->d, REC->b',
  '"%s|%20s|%-20s|%.2s|%s", REC->name, REC->name, REC->name, REC->name, REC->three',
  '"%s <%10s> %s", __get_str(path), __get_str(path), __get_rel_str(rel)',
  '"%u of %u: %x", REC->list[0], REC->list[2], __get_dynamic_array_len(path)',
  '"%s", __print_symbolic(REC->a, { 0, "none" }, { 1, "one" }, { 0x2, "two" })',
  '"%s %s", __print_flags(REC->a, "|", { 1, "A" }, { 2, "B" }, { 6, "BC" }), __print_flags(REC->c, "", { 4, "x" })',
  '"%s", REC->c & 1 ? __print_flags(REC->a, "|", { 1, "A" }) : ((REC->a > 2) ? "more" : REC->name)',
  '"%s%s!", REC->a ? "" : "not ", REC->b < 0 ? "negative" : "positive"',
  '"%d %d %lu %lu", ((REC->c) >> 20), (REC->c & ((1U << 20) - 1)), REC->d << 3, REC->d >> (REC->a + 60)',
  '"%d %d %d %d", REC->a == 1 && REC->c, !REC->a, REC->a || REC->b, REC->a != 2 ? REC->b : -REC->c',
  '"%lu %lu %ld", REC->d / 1000, REC->d % 1000, ~REC->d * 3',
  '"%u %u %lx %d", (u8)REC->c, (unsigned short)REC->d, (unsigned long)REC->c, (int)(s16)REC->d',
  '"%ps %pS %p %pf %px", (void *)REC->d, (void *)REC->d, (void *)REC->d, REC->d, REC->d',
  '"100%% of\\t%d\\n\\"%s\\" %%d", REC->c, REC->name',
  '"%.*s|%*d|%-*s|", REC->a & 7, REC->name, REC->a & 7, REC->c, REC->a & 31, __get_str(path)',
  '"%.*s", REC->a & 3, REC->a ? __get_str(path) : ((void *)0)',
  '"%s %s", __print_hex(REC->list, 12), __print_hex_str(__get_dynamic_array(path), __get_dynamic_array_len(path))',
  '"%s", __print_symbolic(REC->a, { 0, "none" "!" }, { SOME_ENUM, "unknown" }, { -1, ((void *)0) })',
  '"%d %!d %s", __builtin_expect(REC->c, 0), FOO, (u8)REC->a',
  '"%d %u", sizeof(unsigned int) + REC->a, ((int)REC->list[1])',
  '"nothing to say"',
  '""',
}

local ADDRESSES = [[
name: event
ID: 8
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:u8 ip4[4];	offset:8;	size:4;	signed:0;
	field:u8 ip6[16];	offset:12;	size:16;	signed:0;
	field:u8 mac[6];	offset:28;	size:6;	signed:0;
	field:u8 sa[28];	offset:34;	size:28;	signed:0;
	field:u8 short_sa[10];	offset:62;	size:10;	signed:0;
	field:u8 uuid[16];	offset:72;	size:16;	signed:0;
	field:const char * where;	offset:88;	size:8;	signed:0;
	field:__data_loc cpumask_t mask;	offset:96;	size:4;	signed:0;
	field:__data_loc u8[] bytes;	offset:100;	size:4;	signed:0;

print fmt: ]]

local address_prints = {
  '"%pI4|%pi4|%pI4l|%pI4b", REC->ip4, REC->ip4, REC->ip4, (void *)REC->ip4',
  '"%pI6|%pi6|%pI6c", REC->ip6, REC->ip6, REC->ip6',
  '"%pISpc|%pIS|%pISc|%pISp|%pISpc", REC->sa, REC->sa, REC->sa, REC->sa, REC->short_sa',
  '"%pM|%pm|%pMF|%pMR", REC->mac, REC->mac, REC->mac, REC->mac',
  '"%pU|%pUb|%pUB|%pUl|%pUL", REC->uuid, REC->uuid, REC->uuid, REC->uuid, REC->uuid',
  '"%pM %pI4 %pI6 %pU", REC->ip4, REC->mac, REC->ip4, REC->mac',
  '"%s", REC->where',
  '"%s %s", __get_cpumask(mask), __get_bitmask(bytes)',
  '"%*ph|%*phC|%*phD|%*phN|%ph", 3, __get_dynamic_array(bytes), 9, __get_dynamic_array(bytes), 2, '
    .. '__get_dynamic_array(bytes), 5, __get_dynamic_array(bytes), __get_dynamic_array(bytes)',
}

-- Addresses with runs of zeros, mapped ones, sockets of both families and of none; masks with runs of bits.
local function address_bytes(round)
  local function bytes(nr)
    local list = {}
    for i = 1, nr do list[i] = math.random(0, 2) == 0 and math.random(0, 255) or ({ 0, 255, 1 })[round % 3 + 1] end
    return string.char(table.unpack(list))
  end
  local ip6 = round % 5 == 0 and ("\0"):rep(10) .. "\xff\xff" .. bytes(4)
    or round % 5 == 1 and bytes(8) .. "\0\0\x5e\xfe" .. bytes(4) or bytes(16)
  local family = string.pack("<I2", ({ 2, 10, 1 })[round % 3 + 1])
  local mask, some = bytes(8 * math.random(1, 3)), bytes(math.random(1, 9))
  return string.pack("<I2I2i4", 8, 0, 1) .. bytes(4) .. ip6 .. bytes(6) .. family .. bytes(26) .. family .. bytes(8)
    .. bytes(16) .. bytes(8) .. string.pack("<I4I4", #mask << 16 | 104, #some << 16 | 104 + #mask) .. mask .. some
end

-- The kernel's output where libtraceevent's differs: it reads a - b - c as a - (b - c), for example.
local misread = {
  { '"%d", REC->c - 1 - 2', "4" },
  { '"%d", REC->c * 2 - 1 - 1', "12" },
  { '"%d", REC->c < REC->a * 9 ? 1 : 0', "1" },
  { '"%x", REC->c & (2 | 4 | 8)', "6" },
  { '"%d", REC->c ^ 2', "5" },
  { '"%s", !REC->c ? "none" : REC->a == 3 ? "three" : "more"', "three" },
  { '"%s", REC->a == 3 && REC->c > 3 ? "yes" : "no"', "yes" },
  { '"%s", REC->a == 1 || REC->c == 7 ? "yes" : "no"', "yes" },
  { '"%ld", (long)~REC->d', "-10" },
  { '"%+d", REC->c', "+7" },
  { '"<%c%c%3c|%-3c>", REC->a ? \'F\' : \'.\', 66, 67, 68', "<FB  C|D  >" },
  { '"%u", 24 / sizeof(u64) + sizeof(__s16) + sizeof(unsigned long long)', "13" },
  { '"%s", __print_array(REC->list, 3, 4)', "{0x1,0x7,0xffffffff}" },
  { '"%s", __print_array(__get_dynamic_array(path), __get_dynamic_array_len(path) / sizeof(u16), sizeof(u16))',
    "{0x6261,0x63}" },
  { '"%s", __print_symbolic(REC->d, { -2, "two" }, { -1, "one" })', "one", d = -1 },
  { '"%s", __print_symbolic(REC->a, { 3, "three" }, { })', "three" },
}

-- The kernel cannot have written these formats, or they need a function of the kernel.
local not_understood = {
  '"%s", jiffies_to_msecs(REC->c)', '"%d"', '"%d %d", REC->c', '"%d", REC->nothing', '"%d", ({ 1; })',
  '"%d", REC->c = 1', '"%d", REC->c++', '"%d", REC->list[REC->a]', '"%d", __get_str(path)[0]', '"%s", __get_str(name)',
  '"%*.*s", 1, 2, REC->name', '"%s", __print_symbolic(REC->a, { REC->c, "no" })', '"%pI9", REC->list',
  '"%s", __print_array(REC->list, 3, 5)', '"%s", __print_hex(1 + 2, 3)', '"%2000d", REC->c', '"%hhhd", 1', '"%pM", 5',
  '"%d", sizeof(struct page)', '"%d", (1', '"%", 1', 'REC->c', '"%d", ' .. ("("):rep(200) .. "1" .. (")"):rep(200),
  '"%d", REC->c' .. (" + REC->c"):rep(3000),
}

-- Bytes of every kind: small numbers, all bits set, random bytes; texts with and without NUL.
local function payload_bytes(round)
  local function byte() return ({ math.random(0, 3), 255, math.random(0, 255) })[round % 3 + 1] end
  local head = {}
  for i = 1, 24 do head[i] = string.char(byte()) end
  local function text(len) return ("abcdefghijklmnopqrstuvw"):sub(1, len - 1) .. (round % 7 == 6 and "x" or "\0") end
  local path, rel = text(math.random(1, 12)), text(math.random(1, 5))
  local name = ("name of a task!!!"):sub(1, math.random(0, 16))
  return table.concat(head) .. name .. ("\0"):rep(16 - #name)
    .. string.pack("<I4I4I4I4I4", #path << 16 | 64, #rel << 16 | 64 + #path - 48, math.random(0, 9), 7, 0xffffffff)
    .. ("x"):rep(round % 4) .. ("\0"):rep(4 - round % 4) .. path .. rel
end

describe("a print format", function()
  for _, print_fmt in ipairs(prints) do
    it("prints the same as libtraceevent: " .. print_fmt:sub(1, 60), function()
      if not traceevent then return pending(why_not) end
      math.randomseed(21)
      for round = 1, 42 do
        local bytes, symbols = payload_bytes(round), round % 2 == 0 and { [0] = "low", [0xffff] = "high" } or nil
        local format = FORMAT .. print_fmt .. "\n"
        assert.equal(traceevent.print(format, bytes, symbols),
          tostring(assert(core.payload("room", format, bytes, { symbols = symbols }))))
      end
    end)
  end

  for _, print_fmt in ipairs(address_prints) do
    it("prints addresses and masks as libtraceevent does: " .. print_fmt:sub(1, 40), function()
      if not traceevent then return pending(why_not) end
      math.randomseed(22)
      for round = 1, 60 do
        local bytes, format = address_bytes(round), ADDRESSES .. print_fmt .. "\n"
        assert.equal(traceevent.print(format, bytes), tostring(assert(core.payload("room", format, bytes))))
      end
    end)
  end

  local function plain(d)
    return string.pack("<I2BBi4 Bxi2i4i8", 7, 0, 0, 1, 3, -2, 7, d or 9) .. "name\0" .. ("\0"):rep(11)
      .. string.pack("<I4I4I4I4I4", 4 << 16 | 64, 4 << 16 | 20, 1, 7, 0xffffffff) .. "xyz\0abc\0rel\0"
  end

  for _, case in ipairs(misread) do
    it("has the same meaning as in C: " .. case[1]:sub(1, 60), function()
      assert.equal(case[2], tostring(core.payload("room", FORMAT .. case[1] .. "\n", plain(case.d))))
    end)
  end

  it("that is not understood is reported as such, with every field", function()
    for _, print_fmt in ipairs(not_understood) do
      assert.matches("^%[FAILED TO PARSE%] a=3 b=%-2 c=7 ",
        tostring(core.payload("room", FORMAT .. print_fmt .. "\n", plain())))
    end
  end)

  it("is read in the other byte order", function()
    local big = FORMAT .. '"%d %s %u", REC->c, __get_str(path), REC->list[1]\n'
    local bytes = string.pack(">I2BBi4 I1xi2i4I8", 7, 0, 0, 1, 1, -2, -3, 4) .. ("n"):rep(15) .. "\0"
      .. string.pack(">I4I4I4I4I4", 4 << 16 | 64, 4 << 16 | 16, 0, 9, 0) .. "abc\0yes\0"
    assert.equal("-3 yes 9", tostring(core.payload("room", big, bytes:sub(1, 60) .. "abc\0yes\0",
      { big_endian = true })))
  end)
end)
