-- A perf_event_attr by the kernel's names. The expected bytes are written here from the kernel's header and packed by
-- string.pack, so that a mistake in perfev's table shows.
local core = require "perfev.core"

-- name, offset, format, size of the smallest attr that holds it
local WORDS = {
  { "type", 0, "I4", 64 }, { "config", 8, "I8", 64 },
  { "sample_period", 16, "I8", 64 }, { "sample_freq", 16, "I8", 64 },
  { "sample_type", 24, "I8", 64 }, { "read_format", 32, "I8", 64 },
  { "wakeup_events", 48, "I4", 64 }, { "wakeup_watermark", 48, "I4", 64 },
  { "bp_type", 52, "I4", 64 },
  { "config1", 56, "I8", 64 }, { "bp_addr", 56, "I8", 64 },
  { "kprobe_func", 56, "I8", 64 }, { "uprobe_path", 56, "I8", 64 },
  { "config2", 64, "I8", 72 }, { "bp_len", 64, "I8", 72 },
  { "kprobe_addr", 64, "I8", 72 }, { "probe_offset", 64, "I8", 72 },
  { "branch_sample_type", 72, "I8", 80 },
  { "sample_regs_user", 80, "I8", 96 }, { "sample_stack_user", 88, "I4", 96 },
  { "clockid", 92, "i4", 96 }, { "sample_regs_intr", 96, "I8", 104 },
  { "aux_watermark", 104, "I4", 112 }, { "sample_max_stack", 108, "I2", 112 },
  { "aux_sample_size", 112, "I4", 120 }, { "aux_action", 116, "I4", 120 },
  { "sig_data", 120, "I8", 128 }, { "config3", 128, "I8", 136 }, { "config4", 136, "I8", 144 },
}

-- the bits of the word at offset 40, from bit 0 up; precise_ip has two
local FLAGS = {
  "disabled", "inherit", "pinned", "exclusive", "exclude_user", "exclude_kernel", "exclude_hv",
  "exclude_idle", "mmap", "comm", "freq", "inherit_stat", "enable_on_exec", "task", "watermark",
  "precise_ip", "precise_ip", "mmap_data", "sample_id_all", "exclude_host", "exclude_guest",
  "exclude_callchain_kernel", "exclude_callchain_user", "mmap2", "comm_exec", "use_clockid",
  "context_switch", "write_backward", "namespaces", "ksymbol", "bpf_event", "aux_output",
  "cgroup", "text_poke", "build_id", "inherit_thread", "remove_on_exec", "sigtrap",
  "defer_callchain", "defer_output",
}
local AUX_FLAGS = { "aux_start_paused", "aux_pause", "aux_resume" }

-- by bit number from 0 up
local BITS = {
  sample_type = {
    "ip", "tid", "time", "addr", "read", "callchain", "id", "cpu", "period", "stream_id", "raw",
    "branch_stack", "regs_user", "stack_user", "weight", "data_src", "identifier", "transaction",
    "regs_intr", "phys_addr", "aux", "cgroup", "data_page_size", "code_page_size",
    "weight_struct",
  },
  read_format = { "total_time_enabled", "total_time_running", "id", "group", "lost" },
  branch_sample_type = {
    "user", "kernel", "hv", "any", "any_call", "any_return", "ind_call", "abort_tx", "in_tx",
    "no_tx", "cond", "call_stack", "ind_jump", "call", "no_flags", "no_cycles", "type_save",
    "hw_index", "priv_save", "counters",
  },
  aux_action = { "start_paused", "pause", "resume" },
}

local SIZES = { 64, 72, 80, 96, 104, 112, 120, 128, 136, 144 }
local NATIVE = string.pack("=I2", 1) == "\1\0" and "little" or "big"
local MARK = { little = "<", big = ">" }
local VALUE = { I2 = 0xa1b2, I4 = 0xa1b2c3d4, i4 = -7, I8 = 0x8102030405060708 }
local RANGE = {
  I2 = { 0, 0xffff }, I4 = { 0, 0xffffffff }, i4 = { -0x80000000, 0x7fffffff },
  I8 = { math.mininteger, math.maxinteger },
}

-- C lays bit-fields out from the low end on little-endian, from the high end on big-endian.
local function bit_field(order, word_bits, bit, width, value)
  return value << (order == "little" and bit or word_bits - bit - width)
end

local function write(image, offset, bytes)
  return image:sub(1, offset) .. bytes .. image:sub(offset + #bytes + 1)
end

-- An attr of `size` bytes in `order`: every word its VALUE, flags and aux_action as given.
local function image_of(size, order, flags, aux_action)
  local image = string.rep("\0", 144)
  for _, word in ipairs(WORDS) do
    image = write(image, word[2], string.pack(MARK[order] .. word[3], VALUE[word[3]]))
  end
  image = write(image, 40, string.pack(MARK[order] .. "I8", flags))
  image = write(image, 116, string.pack(MARK[order] .. "I4", aux_action))
  image = write(image, 4, string.pack(MARK[order] .. "I4", size))
  return image:sub(1, size)
end

local function word_of(image, word)
  return (string.unpack("=" .. word[3], image, word[2] + 1))
end

local function says(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok, "nothing was raised")
  assert.is_truthy(message:find(text, 1, true), message .. "\n  lacks: " .. text)
end

local function assign(attr, name, value) attr[name] = value end

-- Every name with the least and the greatest value it takes.
local EVERY = {}
for _, word in ipairs(WORDS) do
  local range = RANGE[word[3]]
  EVERY[#EVERY + 1] = { name = word[1], low = range[1], high = range[2], word = true,
    bits = BITS[word[1]], width = string.packsize(word[3]) * 8 }
end
for bit, name in ipairs(FLAGS) do
  if FLAGS[bit - 1] ~= name then
    local wide = name == "precise_ip"
    EVERY[#EVERY + 1] = { name = name, low = 0, high = wide and 3 or 1, word = wide,
      width = wide and 2 or 1 }
  end
end
for _, name in ipairs(AUX_FLAGS) do
  EVERY[#EVERY + 1] = { name = name, low = 0, high = 1, width = 1 }
end

describe("an attr's layout", function()
  for _, word in ipairs(WORDS) do
    local name, offset, format, size = table.unpack(word)

    it("puts " .. name .. " at byte " .. offset .. " of " .. size .. " bytes", function()
      local bytes = core.attr_new { [name] = VALUE[format] }:bytes()
      assert.equal(size, #bytes)
      local expected = write(string.rep("\0", size), offset, string.pack("=" .. format,
        VALUE[format]))
      assert.same(write(expected, 4, string.pack("=I4", size)), bytes)
    end)
  end

  for i, name in ipairs(FLAGS) do
    if name ~= "precise_ip" then
      it("has flag " .. name .. " as bit " .. i - 1 .. " of the word at 40", function()
        local bytes = core.attr_new { [name] = true }:bytes()
        assert.equal(64, #bytes)
        assert.equal(bit_field(NATIVE, 64, i - 1, 1, 1), (string.unpack("=I8", bytes, 41)))
      end)
    end
  end

  it("has precise_ip in bits 15 and 16", function()
    for value = 0, 3 do
      local bytes = core.attr_new { precise_ip = value }:bytes()
      assert.equal(bit_field(NATIVE, 64, 15, 2, value), (string.unpack("=I8", bytes, 41)))
    end
  end)

  it("clears one flag and leaves its neighbours", function()
    local attr = core.attr_new { watermark = true, precise_ip = 3, mmap_data = true }
    attr.precise_ip = 1
    attr.watermark = false
    assert.same({ false, 1, true }, { attr.watermark, attr.precise_ip, attr.mmap_data })
  end)

  for i, name in ipairs(AUX_FLAGS) do
    it("has " .. name .. " as bit " .. i - 1 .. " of aux_action", function()
      local attr = core.attr_new { [name] = true }
      assert.equal(bit_field(NATIVE, 32, i - 1, 1, 1), attr.aux_action)
      assert.equal(120, attr.size)
    end)
  end

  it("has the smallest published size with the last field in use", function()
    local attr = core.attr_new { type = 1, config4 = 1 }
    assert.equal(144, attr.size)
    attr.config4 = 0
    assert.equal(64, attr.size)
    attr.sample_max_stack = 5
    attr.config1 = 3
    assert.equal(112, attr.size)
    assert.equal(64, core.attr_new({}).size)
  end)
end)

describe("an attr's values", function()
  local nan = 0 / 0
  local keeps = { kprobe_func = true, uprobe_path = true } -- strings, which the kernel reads where they are

  for _, field in ipairs(EVERY) do
    local name = field.name
    local function takes(value)
      return value >= field.low and value <= field.high
    end

    it("are refused with the field's name if they do not fit " .. name, function()
      local attr = core.attr_new {}
      says(name .. " = nil: must be", assign, attr, name, nil)
      if keeps[name] then
        assert.equal("7", core.attr_new({ [name] = "7" })[name])
        says(name .. ": contains a NUL byte", assign, attr, name, "a\0")
      else
        says(name .. " = '': must be", assign, attr, name, "")
        says(name .. " = '7': must be", assign, attr, name, "7")
        says(name .. " = ''", core.attr_new, { [name] = "" })
      end
      says(name .. " = " .. string.format("%.17g", nan), assign, attr, name, nan)
      says(name .. " = 1.844674407370955", assign, attr, name, 2.0 ^ 64)
      says(name .. " = 1.0000000000000001e+300", assign, attr, name, 1e300)
      says(name .. " = 1.5", assign, attr, name, 1.5)
      says(name .. " = inf", assign, attr, name, math.huge)
      says(name .. " = a function", assign, attr, name, print)
      if not field.bits then
        says(name .. " = a table: must be", assign, attr, name, {})
        says(name .. " = a table: must be", core.attr_new, { [name] = {} })
      end
      if field.word then
        says(name .. " = true: must be", assign, attr, name, true)
      end
      for _, value in ipairs { 2.0 ^ 53, -1, field.high + 1, field.low - 1 } do
        if not takes(math.tointeger(value)) then
          local text = name .. " = " .. math.tointeger(value) .. ": out of range, must be " ..
            field.low .. " to " .. field.high
          says(text, assign, attr, name, value)
          says(text, core.attr_new, { [name] = value })
        end
      end
      assert.equal(string.pack("=I4I4", 0, 64) .. string.rep("\0", 56), attr:bytes())
    end)

    it("read from " .. name .. " are the values that were written", function()
      local attr = core.attr_new {}
      for _, value in ipairs { 2.0 ^ 53, -1, field.low, field.high, 1 } do
        if takes(math.tointeger(value)) then
          attr[name] = value
          local back = field.width == 1 and value ~= 0 or math.tointeger(value)
          if field.width == 1 and value == 0 then back = false end
          assert.equal(back, attr[name])
        end
      end
    end)
  end

  it("keep all 64 bits", function()
    for _, value in ipairs { 1 << 63, -1, (1 << 63) | 1, 0xffffffff81000000 } do
      local attr = core.attr_new { bp_addr = value }
      assert.equal(value, attr.bp_addr)
      assert.equal(value, core.attr_parse(attr:bytes()).bp_addr)
    end
  end)

  it("of one bit are booleans, and can be set with 1 or 0", function()
    local attr = core.attr_new { freq = true, mmap = 1, comm = 1.0 }
    assert.same({ true, true, true, false }, { attr.freq, attr.mmap, attr.comm, attr.task })
    attr.freq, attr.mmap = false, 0
    assert.same({ false, false }, { attr.freq, attr.mmap })
    says("mmap = 2: out of range", assign, attr, "mmap", 2)
  end)

  it("are not touched by an assignment that raises", function()
    local attr = core.attr_new { config = 9 }
    says("config", assign, attr, "config", "cycles")
    assert.equal(9, attr.config)
  end)
end)

describe("an attr's names", function()
  it("are suggested for a near miss", function()
    says("'samle_period' is not a field of perf_event_attr (did you mean 'sample_period'?)",
      core.attr_new, { samle_period = 1 })
    says("(did you mean 'wakeup_events'?)", core.attr_new, { wakeup_event = 1 })
    says("(did you mean 'inherit'?)", assign, core.attr_new {}, "inheirt", true)
    says("(did you mean 'sample_type'?)", core.attr_new, { SAMPLE_TYPE = 1 })
    says("(did you mean 'mmap2'?)", function() return core.attr_new({}).mmap22 end)
  end)

  it("are not suggested without a near one", function()
    local _, message = pcall(core.attr_new, { frobnicate = 1 })
    assert.is_truthy(message:find("'frobnicate' is not a field of perf_event_attr", 1, true))
    assert.is_nil(message:find("did you mean", 1, true))
  end)

  it("are strings", function()
    says("1 is not a field", core.attr_new, { "cycles" })
    says("a table is not a field", core.attr_new, { [{}] = 1 })
    says("true is not a field", core.attr_new, { [true] = 1 })
    says("nil is not a field", function() return core.attr_new({})[nil] end)
    says("table expected", core.attr_new, "cycles")
    says("table expected", core.attr_new)
  end)

  it("are refused if they are too long", function()
    says("is not a field", core.attr_new, { [string.rep("x", 100000)] = 1 })
  end)

  it("leave out size, which follows from the rest", function()
    says("size cannot be set", core.attr_new, { size = 64 })
    says("size cannot be set", assign, core.attr_new {}, "size", 64)
  end)

  it("of one union cannot be given together", function()
    says("sample_period and sample_freq are two names of one word", core.attr_new,
      { sample_freq = 99, sample_period = 1 })
    says("two names of one word", core.attr_new, { config1 = 1, bp_addr = 2 })
    says("two names of one word", core.attr_new, { wakeup_events = 1, wakeup_watermark = 2 })
    local attr = core.attr_new { aux_action = { "pause" }, aux_resume = true }
    assert.equal(core.attr_new({ aux_action = { "resume", "pause" } }).aux_action,
      attr.aux_action)
  end)

  it("are read without asking metatables", function()
    local function explode() error "a metamethod ran" end
    local trap = { __index = explode, __pairs = explode, __len = explode,
      __tostring = explode, __name = "trap" }
    local fields = setmetatable({ type = 1, sample_type = setmetatable({ "ip" }, trap) }, trap)
    assert.equal(1, core.attr_new(fields).sample_type)
    says("config = a table", core.attr_new, { config = setmetatable({}, trap) })
  end)

  it("are all listed, in the kernel's order, with bits, width and first kernel", function()
    local by_name, order = {}, {}
    for i, field in ipairs(core.attr_fields()) do
      by_name[field.name], order[field.name] = field, i
    end
    for _, field in ipairs(EVERY) do
      assert.equal(field.width, by_name[field.name].width, field.name)
      assert.same(field.bits, by_name[field.name].bits, field.name)
      assert.is_truthy(by_name[field.name].since:match("^%d+%.%d+"), field.name)
    end
    assert.equal(#EVERY, #core.attr_fields())
    assert.is_true(order.type < order.config and order.read_format < order.disabled and
      order.defer_output < order.wakeup_events and order.config3 < order.config4)
    assert.same({ "2.6.31", "2.6.35", "4.3", "5.13", "6.13", "6.19" }, {
      by_name.type.since, by_name.precise_ip.since, by_name.context_switch.since,
      by_name.sig_data.since, by_name.aux_action.since, by_name.defer_output.since,
    })
  end)
end)

describe("bits by name", function()
  for field, names in pairs(BITS) do
    it("of " .. field .. " have the kernel's values", function()
      local all = 0
      for i, name in ipairs(names) do
        local bit = 1 << (i - 1)
        if field == "aux_action" then bit = bit_field(NATIVE, 32, i - 1, 1, 1) end
        assert.equal(bit, core.attr_new({ [field] = { name } })[field], name)
        all = all | bit
      end
      assert.equal(all, core.attr_new({ [field] = names })[field])
      assert.equal(0, core.attr_new({ [field] = {} })[field])
      assert.equal(1 << 30, core.attr_new({ [field] = 1 << 30 })[field])
    end)
  end

  it("suggest the nearest name for an unknown one", function()
    says("sample_type has no bit 'calchain' (did you mean 'callchain'?)",
      core.attr_new, { sample_type = { "ip", "calchain" } })
    says("sample_type has no bit 'IP' (did you mean 'ip'?)",
      core.attr_new, { sample_type = { "IP" } })
    says("read_format has no bit 'callchain'", core.attr_new, { read_format = { "callchain" } })
    says("branch_sample_type has no bit 'ayn' (did you mean 'any'?)",
      assign, core.attr_new {}, "branch_sample_type", { "ayn" })
  end)

  it("must be a plain list of strings", function()
    local cyclic = {}
    cyclic[1] = cyclic
    says("sample_type: its list of names holds a table", core.attr_new, { sample_type = cyclic })
    says("sample_type: its list of names holds 5", core.attr_new, { sample_type = { 5 } })
    says("sample_type: must be a list of names, but has the key 'ip'",
      core.attr_new, { sample_type = { ip = true } })
    says("sample_type = 'ip': must be an integer or a list of names",
      core.attr_new, { sample_type = "ip" })
    says("disabled = a table", core.attr_new, { disabled = { "ip" } })
  end)

  it("can be repeated", function()
    local many = {}
    for i = 1, 100000 do many[i] = i % 2 == 0 and "ip" or "tid" end
    assert.equal(3, core.attr_new({ sample_type = many }).sample_type)
  end)
end)

describe("an attr from bytes", function()
  -- precise_ip = 2 distinguishes a value moved as a whole from one reversed bit by bit
  local function flags_of(order)
    return bit_field(order, 64, 0, 1, 1) | bit_field(order, 64, 15, 2, 2) |
      bit_field(order, 64, 18, 1, 1) | bit_field(order, 64, 39, 1, 1)
  end
  local function image(size, order)
    return image_of(size, order, flags_of(order), bit_field(order, 32, 1, 1, 1))
  end

  local function check_fields(attr, size)
    for _, word in ipairs(WORDS) do
      local value = VALUE[word[3]]
      if word[1] == "aux_action" then value = bit_field(NATIVE, 32, 1, 1, 1) end
      assert.equal(word[2] < size and value or 0, attr[word[1]], word[1])
    end
    assert.same({ true, 2, true, true, false }, { attr.disabled, attr.precise_ip,
      attr.sample_id_all, attr.defer_output, attr.inherit })
  end

  for _, size in ipairs(SIZES) do
    it("of " .. size .. " returns each field and the same bytes", function()
      local bytes = image(size, NATIVE)
      local attr = core.attr_parse(bytes)
      check_fields(attr, size)
      assert.equal(bytes, attr:bytes())
    end)

    it("of " .. size .. " is the same in the other byte order", function()
      local other = NATIVE == "little" and "big" or "little"
      local attr = core.attr_parse(image(size, other), other)
      check_fields(attr, size)
      assert.equal(image(size, NATIVE), attr:bytes())
    end)
  end

  it("mirrors each flag of the other byte order", function()
    for i, name in ipairs(FLAGS) do
      local width = name == "precise_ip" and 2 or 1
      local bit = width == 2 and 15 or i - 1
      for value = 1, (1 << width) - 1 do
        for order in pairs(MARK) do
          local bytes = image_of(64, order, bit_field(order, 64, bit, width, value), 0)
          local flags = string.unpack("=I8", core.attr_parse(bytes, order):bytes(), 41)
          assert.equal(bit_field(NATIVE, 64, bit, width, value), flags, name .. " " .. order)
        end
      end
    end
  end)

  it("of a newer kernel keeps the known fields and drops the rest", function()
    local bytes = write(image(144, NATIVE), 4, string.pack("=I4", 200)) .. string.rep("\xa5", 56)
    local attr = core.attr_parse(bytes)
    check_fields(attr, 144)
    assert.equal(image(144, NATIVE), attr:bytes())
  end)

  it("reads at most the number of bytes in its size field", function()
    local bytes = write(image(144, NATIVE), 4, string.pack("=I4", 72))
    check_fields(core.attr_parse(bytes), 72)
  end)

  it("has zeros for fields beyond the end of short bytes", function()
    for length = 64, 143 do
      local attr = core.attr_parse(image(144, NATIVE):sub(1, length))
      for _, word in ipairs(WORDS) do
        local value = word_of(image(144, NATIVE), word)
        local whole = word[2] + string.packsize(word[3]) <= length
        assert.equal(whole and value or 0, attr[word[1]])
      end
    end
  end)

  it("of size 0 has the first published size", function()
    local bytes = write(image(144, NATIVE), 4, string.pack("=I4", 0))
    local attr = core.attr_parse(bytes)
    check_fields(attr, 64)
    assert.equal(64, attr.size)
  end)

  it("is refused below the first published size", function()
    for _, bytes in ipairs { "", "x", string.rep("\0", 63) } do
      local attr, message, errno = core.attr_parse(bytes)
      assert.is_nil(attr)
      assert.is_truthy(message:find("attr of " .. #bytes .. " bytes: cut short", 1, true))
      assert.equal(22, errno)
    end
    local attr, message = core.attr_parse(write(image(64, NATIVE), 4, string.pack("=I4", 63)))
    assert.is_nil(attr)
    assert.is_truthy(message:find("attr says its size is 63", 1, true))
  end)

  it("suggests the other byte order if the size is invalid", function()
    local bytes = string.pack("=I4", 1) .. "\0\0\0\7" .. string.rep("\0", 56)
    local order = string.unpack("=I4", "\0\0\0\7") < 64 and NATIVE or
      (NATIVE == "little" and "big" or "little")
    local attr, message = core.attr_parse(bytes, order)
    assert.is_nil(attr)
    assert.is_truthy(message:find("or the other byte order", 1, true))
  end)

  it("requires a string and a valid byte order", function()
    says("string expected", core.attr_parse, 64)
    says("string expected", core.attr_parse)
    says("invalid option 'middle'", core.attr_parse, image(64, NATIVE), "middle")
  end)
end)

describe("an attr", function()
  it("has pairs() of its nonzero fields, in order, with the union members in use", function()
    local function walk(fields)
      local seen = {}
      for name, value in pairs(core.attr_new(fields)) do
        seen[#seen + 1] = name .. "=" .. tostring(value)
      end
      return table.concat(seen, " ")
    end
    assert.equal("", walk {})
    assert.equal("type=1 config=9 sample_freq=99 sample_type=3 freq=true", walk {
      freq = true, sample_type = { "tid", "ip" }, sample_period = 99, type = 1, config = 9 })
    assert.equal("sample_period=5 wakeup_events=2 config1=7 config2=8",
      walk { sample_freq = 5, wakeup_watermark = 2, kprobe_func = 7, probe_offset = 8 })
    assert.equal("type=5 watermark=true wakeup_watermark=2 bp_type=2 bp_addr=7 bp_len=8",
      walk { type = 5, watermark = true, wakeup_events = 2, bp_type = 2, config1 = 7, bp_len = 8 })
    assert.equal("clockid=-1 aux_action=" .. bit_field(NATIVE, 32, 1, 1, 1),
      walk { clockid = -1, aux_pause = true })
  end)

  it("can be created again from the fields of pairs", function()
    local attr = core.attr_parse(image_of(144, NATIVE, bit_field(NATIVE, 64, 0, 38, 0x3fffffffff), 0))
    local fields = {}
    for name, value in pairs(attr) do fields[name] = value end
    assert.equal(attr:bytes(), core.attr_new(fields):bytes())
  end)

  it("can be copied", function()
    local attr = core.attr_new { config = 9 }
    local copy = attr:copy()
    copy.config = 1
    assert.same({ 9, 1 }, { attr.config, copy.config })
  end)

  it("hides its metatable", function()
    assert.is_false(getmetatable(core.attr_new {}))
    says("perfev.attr expected", core.attr_new({}).bytes, io.stdout)
    says("perfev.attr expected", core.attr_new({}).bytes, {})
    says("perfev.attr expected", core.attr_new({}).dump)
  end)

  it("prints like perf -vv, under its title", function()
    local attr = core.attr_new { type = 1, config = 9 }
    assert.equal("perf_event_attr:\n" ..
      "  type                             1\n" ..
      "  size                             64\n" ..
      "  config                           0x9", tostring(attr))
  end)
end)

describe("the dump of an attr", function()
  -- the lines perf record -vv -g printed (perf 6.1), with the union's name in full
  local GOLDEN = [[
  type                             1
  size                             64
  sample_freq                      4000
  sample_type                      IP|TID|TIME|CALLCHAIN|PERIOD
  read_format                      ID|LOST
  disabled                         1
  inherit                          1
  mmap                             1
  comm                             1
  freq                             1
  enable_on_exec                   1
  task                             1
  sample_id_all                    1
  exclude_guest                    1
  mmap2                            1
  comm_exec                        1
  ksymbol                          1
  bpf_event                        1
]]

  it("has the columns of perf -vv", function()
    assert.equal(GOLDEN, core.attr_new({
      type = 1, sample_freq = 4000, freq = true,
      sample_type = { "ip", "tid", "time", "callchain", "period" },
      read_format = { "id", "lost" }, disabled = true, inherit = true, mmap = true, comm = true,
      enable_on_exec = true, task = true, sample_id_all = true, exclude_guest = true,
      mmap2 = true, comm_exec = true, ksymbol = true, bpf_event = true,
    }):dump())
  end)

  it("names the fields of a breakpoint, in hex where perf prints hex", function()
    assert.equal([[
  type                             5
  size                             72
  sample_period                    1
  watermark                        1
  precise_ip                       2
  wakeup_watermark                 4096
  bp_type                          2
  bp_addr                          0x1000
  bp_len                           0x4
]], core.attr_new({ type = 5, bp_type = 2, bp_addr = 0x1000, bp_len = 4, sample_period = 1,
      watermark = true, wakeup_watermark = 4096, precise_ip = 2 }):dump())
  end)

  it("shows wide numbers whole and unsigned, a clock with its sign", function()
    assert.equal([[
  size                             128
  config                           0xffffffffffffffff
  sample_period                    18446744073709551615
  sample_regs_user                 0x8000000000000000
  clockid                          -2
  sig_data                         18446744073709551615
]], core.attr_new({ config = -1, sample_period = -1, clockid = -2,
      sample_regs_user = 1 << 63, sig_data = -1 }):dump())
  end)

  it("shows bits without a name as a number", function()
    local text = core.attr_new({ sample_type = 1 << 40 | 1, read_format = 1 << 63 }):dump()
    assert.is_truthy(text:find("sample_type                      IP|0x10000000000\n", 1, true))
    assert.is_truthy(text:find("read_format                      0x8000000000000000\n", 1, true))
  end)

  it("shows the kernel's reserved fields", function()
    local flags = bit_field(NATIVE, 64, 40, 24, 5)
    local bytes = write(image_of(144, NATIVE, flags, 0), 110, string.pack("=I2", 3))
    local text = core.attr_parse(bytes):dump()
    assert.is_truthy(text:find("  __reserved_2                     0x3\n", 1, true))
    assert.is_truthy(text:find("  __reserved_1                     0x5\n", 1, true))
  end)

  it("has room for all fields", function()
    local text = core.attr_parse(string.rep("\xff", 4) .. string.pack("=I4", 144) ..
      string.rep("\xff", 136)):dump()
    assert.is_truthy(text:find("  config4                          0xffffffffffffffff\n", 1, true))
    assert.is_truthy(text:find("  __reserved_2                     0xffff\n", 1, true))
  end)
end)

describe("attr:validate()", function()
  -- the mistake, the fields, the reason in the message, the fields that correct it
  local RULES = {
    { "a sample_type bit of no kernel", { sample_type = 1 << 25 },
      "sample_type = 0x2000000: bit 25 has no meaning", { sample_type = 1 << 24 } },
    { "the kernel's own sample_type bit", { sample_type = 1 << 63 }, "bit 63 has no meaning",
      { sample_type = 0 } },
    { "a read_format bit of no kernel", { read_format = 1 << 5 },
      "read_format = 0x20: bit 5 has no meaning", { read_format = 1 << 4 } },
    { "an aux_action bit of no kernel",
      { aux_action = bit_field(NATIVE, 32, 3, 1, 1) }, "aux_action = ",
      { aux_action = { "resume" } } },
    { "a branch_sample_type bit of no kernel",
      { sample_type = { "branch_stack" }, branch_sample_type = 1 << 20 | 8 },
      "branch_sample_type = 0x100008: bit 20 has no meaning", { branch_sample_type = 8 } },
    { "branches of no kind", { sample_type = { "branch_stack" } },
      "branch_sample_type names no kind of branch", { branch_sample_type = { "any" } } },
    { "branches of a privilege but no kind",
      { sample_type = { "branch_stack" }, branch_sample_type = { "user", "kernel", "hv" } },
      "branch_sample_type names no kind of branch", { branch_sample_type = { "user", "cond" } } },
    { "a stack that is no multiple of 8",
      { sample_type = { "stack_user" }, sample_stack_user = 4097 },
      "sample_stack_user = 4097: must be a multiple of 8; take 4104",
      { sample_stack_user = 4104 } },
    { "a stack beyond a record's size",
      { sample_type = { "stack_user" }, sample_stack_user = 65536 },
      "sample_stack_user = 65536: a record's size has 16 bits; 65528 is the most",
      { sample_stack_user = 65528 } },
    { "user registers without a mask", { sample_type = { "regs_user" } },
      "sample_type has regs_user, but sample_regs_user is 0", { sample_regs_user = 1 } },
    { "interrupted registers without a mask", { sample_type = { "regs_intr" } },
      "sample_type has regs_intr, but sample_regs_intr is 0", { sample_regs_intr = 1 } },
    { "two forms of weight", { sample_type = { "weight", "weight_struct" } },
      "weight and weight_struct, two forms of one value", { sample_type = { "weight" } } },
    { "inherit_thread alone", { inherit_thread = true },
      "inherit_thread narrows inherit, which is off", { inherit = true } },
    { "removing and enabling at one exec", { remove_on_exec = true, enable_on_exec = true },
      "remove_on_exec and enable_on_exec contradict each other", { enable_on_exec = false } },
    { "sigtrap that outlives an exec", { sigtrap = true }, "sigtrap needs remove_on_exec",
      { remove_on_exec = true } },
    { "a period with bit 63", { sample_period = 1 << 63 },
      "sample_period = 0x8000000000000000: bit 63 must be clear",
      { sample_period = math.maxinteger } },
    { "a frequency no limit allows", { freq = true, sample_freq = 1 << 31 },
      "sample_freq = 2147483648: above every kernel.perf_event_max_sample_rate",
      { sample_freq = 99 } },
    { "a process's CPU-time clock", { use_clockid = true, clockid = 2 },
      "clockid = 2: not a clock for events", { clockid = 1 } },
    { "a thread's CPU-time clock", { use_clockid = true, clockid = 3 },
      "clockid = 3: not a clock for events", { clockid = 4 } },
    { "a clock below zero", { use_clockid = true, clockid = -1 },
      "clockid = -1: not a clock for events", { clockid = 11 } },
    { "wall time on a tracepoint", { type = 2, use_clockid = true, clockid = 0 },
      "clockid = 0: a tracepoint needs a clock that can be read in an NMI", { clockid = 1 } },
    { "boot time on a breakpoint",
      { type = 5, bp_type = 2, bp_len = 4, use_clockid = true, clockid = 7 },
      "clockid = 7: a breakpoint needs a clock that can be read in an NMI", { clockid = 4 } },
    { "an inherited group read without tid", { inherit = true, sample_type = { "read" } },
      "which on an inherited event needs tid", { sample_type = { "read", "tid" } } },
  }

  for _, rule in ipairs(RULES) do
    local what, fields, reason, mend = table.unpack(rule)

    it("refuses " .. what, function()
      local attr = core.attr_new(fields)
      local ok, message, errno = attr:validate()
      assert.is_nil(ok)
      assert.is_truthy(message:find(reason, 1, true), message)
      assert.equal(22, errno)
      for name, value in pairs(mend) do attr[name] = value end
      assert.is_true(attr:validate())
    end)
  end

  it("refuses reserved flags and words", function()
    local zeros = write(string.rep("\0", 112), 4, string.pack("=I4", 112))
    local flag = write(zeros, 40, string.pack("=I8", bit_field(NATIVE, 64, 40, 24, 1)))
    local _, message = core.attr_parse(flag):validate()
    assert.is_truthy(message:find("flags have reserved bits set (0x1 above bit 39)", 1, true))
    local word = write(zeros, 110, string.pack("=I2", 1))
    message = select(2, core.attr_parse(word):validate())
    assert.is_truthy(message:find("the reserved word behind sample_max_stack", 1, true))
  end)

  it("refuses all tasks on every CPU, and CPUs below -1", function()
    local attr = core.attr_new { type = 1 }
    local ok, message, errno = attr:validate(-1, -1)
    assert.is_nil(ok)
    assert.is_truthy(message:find("pid -1 on cpu -1", 1, true))
    assert.equal(22, errno)
    message = select(2, attr:validate(0, -5))
    assert.is_truthy(message:find("cpu -5", 1, true))
    assert.is_true(attr:validate(-1, 0))
    assert.is_true(attr:validate(0, -1))
    assert.is_true(attr:validate(0))
  end)

  it("refuses hardware features of a software event", function()
    for _, type in ipairs { 1, 2, 5 } do
      for what, fields in pairs {
        ["sample_type has branch_stack"] = { sample_type = { "branch_stack" }, branch_sample_type = { "any" } },
        ["aux_output is set"] = { aux_output = true }, ["aux_start_paused is set"] = { aux_start_paused = true },
      } do
        local attr = core.attr_new(fields)
        attr.type, attr.bp_type, attr.bp_len = type, 2, 4
        local ok, message, errno = attr:validate()
        assert.is_nil(ok)
        assert.is_truthy(message:find(what .. ", which needs a hardware event", 1, true), message)
        assert.equal(95, errno)
        attr.type = 4
        assert.is_true(attr:validate())
      end
    end
  end)

  it("refuses aux_pause together with aux_resume", function()
    local ok, message, errno = core.attr_new({ type = 4, aux_pause = true, aux_resume = true }):validate()
    assert.is_nil(ok)
    assert.is_truthy(message:find("aux_pause and aux_resume contradict each other", 1, true))
    assert.equal(22, errno)
    assert.is_true(core.attr_new({ type = 4, aux_resume = true }):validate())
  end)

  it("refuses sigtrap without a task", function()
    local attr = core.attr_new { sigtrap = true, remove_on_exec = true }
    local _, message = attr:validate(-1, 0)
    assert.is_truthy(message:find("sigtrap with pid -1", 1, true))
    assert.is_true(attr:validate(0, -1))
  end)

  it("accepts fields that the kernel ignores", function()
    assert.is_true(core.attr_new({ clockid = 2, pinned = true, exclusive = true,
      wakeup_events = 5, build_id = true, precise_ip = 3, branch_sample_type = 1 << 40,
      sample_stack_user = 3, freq = true, sample_freq = 99 }):validate())
  end)

  it("raises if pid is out of range or not a number", function()
    local attr = core.attr_new {}
    says("out of range", attr.validate, attr, 1 << 31, 0)
    says("number expected", attr.validate, attr, "self", 0)
  end)

  local machine = io.popen("uname -m"):read()
  local on_x86 = machine == "x86_64" and it or function(name)
    pending(name .. " (this machine is " .. machine .. ")")
  end

  on_x86("refuses breakpoints that x86 does not support", function()
    local CASES = {
      { "bp_type = 1: x86 has no such breakpoint", { bp_type = 1, bp_len = 4 } },
      { "bp_type = 0: x86 has no such breakpoint", { bp_len = 4 } },
      { "bp_type = 6: x86 has no such breakpoint", { bp_type = 6, bp_len = 8 } },
      { "bp_len = 3: x86 has no such length", { bp_type = 2, bp_len = 3 } },
      { "bp_len = 0: x86 has no such length", { bp_type = 2 } },
      { "bp_addr = 0x1002: not aligned to bp_len (4)",
        { bp_type = 3, bp_len = 4, bp_addr = 0x1002 } },
      { "bp_len = 4: an execution breakpoint on x86-64 has length 8", { bp_type = 4, bp_len = 4 } },
      { "a kernel address, which exclude_kernel excludes",
        { bp_type = 2, bp_len = 4, bp_addr = -4096, exclude_kernel = true } },
    }
    for _, case in ipairs(CASES) do
      local attr = core.attr_new(case[2])
      attr.type = 5
      local _, message = attr:validate()
      assert.is_truthy(tostring(message):find(case[1], 1, true), message)
    end
    for _, fields in ipairs { { bp_type = 2, bp_len = 1, bp_addr = 0x1001 },
      { bp_type = 3, bp_len = 8, bp_addr = 0x1000 }, { bp_type = 4, bp_len = 8, bp_addr = 3 } } do
      local attr = core.attr_new(fields)
      attr.type = 5
      assert.is_true(attr:validate())
    end
  end)

  on_x86("refuses vector registers of a software event", function()
    for _, which in ipairs { "user", "intr" } do
      local attr = core.attr_new { type = 1, sample_type = { "regs_" .. which }, ["sample_regs_" .. which] = 1 << 32 }
      local _, message, errno = attr:validate()
      assert.is_truthy(tostring(message):find("has vector registers", 1, true))
      assert.equal(95, errno)
      attr.type = 4
      assert.is_true(attr:validate())
    end
  end)

  on_x86("refuses registers that x86-64 does not have", function()
    for _, bit in ipairs { 12, 15, 24, 31 } do
      local attr = core.attr_new { sample_type = { "regs_user" }, sample_regs_user = 1 << bit }
      local _, message = attr:validate()
      assert.is_truthy(message:find("bit " .. bit .. " is not a register", 1, true))
    end
    assert.is_true(core.attr_new({ sample_type = { "regs_user" },
      sample_regs_user = 0xff0fff }):validate())
  end)
end)

describe("the nearest name", function()
  local NAMES = { "sched_switch", "sched_wakeup", "sys_enter", "ip" }

  it("differs in one wrong, missing, extra or swapped letter, or up to a third", function()
    for _, word in ipairs { "sched_swich", "sched_swittch", "sched_siwtch", "Sched_Switch",
      "sced_swich", "shced_swithc" } do
      assert.equal("sched_switch", core.nearest(word, NAMES), word)
    end
    assert.equal("ip", core.nearest("op", NAMES))
    assert.equal("ip", core.nearest("pi", NAMES))
  end)

  it("is the first of several equally near", function()
    assert.equal("wakeup", core.nearest("wakup", { "wake", "wakeup", "make" }))
    assert.equal("wakeup", core.nearest("wakup", { "wakeup", "wake", "make" }))
    assert.equal("read_a", core.nearest("read_c", { "read_a", "read_b" }))
  end)

  it("is nil if no name is near", function()
    for _, word in ipairs { "", "xyz", "frobnicate", "sys", string.rep("s", 300) } do
      assert.is_nil(core.nearest(word, NAMES), word)
    end
  end)
end)
