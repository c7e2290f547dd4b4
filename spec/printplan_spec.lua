-- What a plan prints of a payload is what libtraceevent prints of it, byte for byte.

local core = require "perfev.core"

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
  '"%5d|%-5d|%05d|%x|%#x|%08lx|%#010llx|%X|%o|%+d|%.3d|%8.3x", REC->c, REC->c, REC->c, REC->c, REC->c, REC->d, '
    .. 'REC->d, REC->c, REC->c, REC->c, REC->c, REC->c',
  '"%hhd %hd %hu %hhu %zd %Lu %i", REC->c, REC->c, REC->c, REC->c, REC->d, REC->d, REC->b',
  '"%s|%20s|%-20s|%.2s|%s", REC->name, REC->name, REC->name, REC->name, REC->three',
  '"%s <%10s> %s", __get_str(path), __get_str(path), __get_rel_str(rel)',
  '"%u of %u: %x", REC->list[0], REC->list[2], __get_dynamic_array_len(path)',
  '"%s", __print_symbolic(REC->a, { 0, "none" }, { 1, "one" }, { 0x2, "two" })',
  '"%s %s", __print_flags(REC->a, "|", { 1, "A" }, { 2, "B" }, { 6, "BC" }), __print_flags(REC->c, "", { 4, "x" })',
  '"%s", REC->c & 1 ? __print_flags(REC->a, "|", { 1, "A" }) : REC->a > 2 ? "more" : REC->name',
  '"%s%s!", REC->a ? "" : "not ", REC->b < 0 ? "negative" : "positive"',
  '"%d %d %lu %lu", ((REC->c) >> 20), (REC->c & ((1U << 20) - 1)), REC->d << 3, REC->d >> (REC->a + 60)',
  '"%d %d %d %d", REC->a == 1 && REC->c, !REC->a, REC->a || REC->b, REC->a != 2 ? REC->b : -REC->c',
  '"%lu %lu %ld", REC->d / 1000, REC->d % 1000, (long)~REC->d * 3',
  '"%u %u %lx %d", (u8)REC->c, (unsigned short)REC->d, (unsigned long)REC->c, (int)(s16)REC->d',
  '"%ps %pS %p %pf %px", (void *)REC->d, (void *)REC->d, (void *)REC->d, REC->d, REC->d',
  '"100%% of\\t%d\\n\\"%s\\" %%d", REC->c, REC->name',
  '"nothing to say"',
  '""',
}

-- Bytes of every kind: small numbers, all bits, anything; texts with and without their NUL.
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

describe("a plan of a print format", function()
  for _, print_fmt in ipairs(prints) do
    it("prints what libtraceevent does: " .. print_fmt:sub(1, 60), function()
      math.randomseed(21)
      for round = 1, 42 do
        local bytes, symbols = payload_bytes(round), round % 2 == 0 and { [0] = "low", [0xffff] = "high" } or nil
        local function text(planned)
          return tostring(assert(core.payload("room", FORMAT .. print_fmt .. "\n", bytes,
            { planned = planned, symbols = symbols })))
        end
        assert.equal(text(false), text(true))
      end
    end)
  end

  it("is made of all these formats, and reads those of the other byte order", function()
    local big = FORMAT .. '"%d %s %u", REC->c, __get_str(path), REC->list[1]\n'
    local bytes = string.pack(">I2BBi4 I1xi2i4I8", 7, 0, 0, 1, 1, -2, -3, 4) .. ("n"):rep(15) .. "\0"
      .. string.pack(">I4I4I4I4I4", 4 << 16 | 64, 4 << 16 | 16, 0, 9, 0) .. "abc\0yes\0"
    assert.equal("-3 yes 9", tostring(core.payload("room", big, bytes:sub(1, 60) .. "abc\0yes\0",
      { big_endian = true })))
  end)
end)
