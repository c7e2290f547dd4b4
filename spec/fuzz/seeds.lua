-- seeds.lua - writes the seeds of record, ring and decoder from spec/fixtures/vectors/, those of
-- tracepoint from the formats of this kernel, and the seeds of jit_dump and the reader that are not
-- in the tree:
--   lua5.4 spec/fuzz/seeds.lua FOLDER
-- `make fuzz` does so, in the tree's root; FOLDER gets a folder for each target.

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local core = require "perfev.core"
local kernel_formats = require "spec.support.kernel_formats"
local lfs = require "lfs"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local wire = require "spec.support.wire"

local pack = string.pack
local VECTORS, SEEDS = "spec/fixtures/vectors/", assert(arg[1], "usage: seeds.lua FOLDER")
local FIELDS = 255 -- decoder.lua: an attr by its fields
local LITTLE_X86 = 1 << 1 -- decoder.lua: the header's first byte

local function save(target, name, bytes)
  local folder = SEEDS .. "/" .. target
  lfs.mkdir(folder)
  local file = assert(io.open(folder .. "/" .. name, "wb"))
  file:write(bytes)
  file:close()
end

local function attr_of(vector)
  if type(vector.attr) == "string" then return assert(core.attr_parse(wire.bytes(vector.attr), "little")) end
  return core.attr_new(vector.attr)
end

local function bit(attr, name, value)
  return attr[name] ~= 0 and attr[name] ~= false and value or 0
end

-- record.c: five words, the flags, and zeros up to byte 48.
local function record_seed(attr, bytes)
  return pack("<i8i8i8i8i8Bc7", attr.sample_type, attr.read_format, attr.branch_sample_type, attr.sample_regs_user,
    attr.sample_regs_intr, bit(attr, "sample_id_all", 1) | bit(attr, "build_id", 2), "") .. bytes
end

-- decoder.lua: one attr, by its bytes if the vector has them.
local function decoder_attr(vector, attr, ids)
  local head
  if type(vector.attr) == "string" then
    local attr_bytes = wire.bytes(vector.attr)
    head = pack("B", #attr_bytes) .. attr_bytes
  else
    head = pack("<BI4BI4i8i8B", FIELDS, attr.sample_type, attr.read_format, attr.branch_sample_type,
      attr.sample_regs_user, attr.sample_regs_intr, bit(attr, "sample_id_all", 1) | bit(attr, "build_id", 2))
  end
  return head .. pack("B", #ids) .. string.char(table.unpack(ids))
end

-- ring.c: an attr of 13 bytes, two rings of one record and of two, and two attrs of zeros. The
-- fields that a session adds to an attr are added to the record: its identifier names the event.
local function ring_seed(attr, bytes)
  local plain = attr.sample_type >> 4 & 1 == 0 -- without READ, the session's formats are added
  local spec = {
    sample_type = attr.sample_type | 1 << 16 | 1 << 7 | 1 << 2 | 1 << 1, sample_id_all = true, endian = "little",
    read_format = attr.read_format | (plain and 0x17 or 0), branch_sample_type = attr.branch_sample_type,
    build_id = attr.build_id,
    sample_regs_user = attr.sample_regs_user & 0xffff, sample_regs_intr = attr.sample_regs_intr & 0xffff,
  }
  local t = assert(assert(perfev.decoder { attr = attr, endian = "little" }):decode(bytes))
  -- the seed's masks are of 16 bits
  for _, name in ipairs { "regs_user", "regs_intr" } do
    if t[name] and t[name].abi ~= 0 then t[name] = { abi = 0 } end
  end
  t.identifier, t.time = 1, t.time or 5
  t.sample_id.identifier, t.sample_id.time = 1, 5
  local record = perfev.encode(spec, t)
  local head = pack("<BI4BI3I2I2", bit(attr, "build_id", 1), attr.sample_type, attr.read_format,
    attr.branch_sample_type & 0xffffff, spec.sample_regs_user, spec.sample_regs_intr)
  return head .. pack("<I8s2", 4096 - 16, record) .. pack("<I8s2", 0, record .. record)
end

-- reader.c: the records of a pipe, in a file, and the record.
local function pipe_seed(attr, bytes)
  local attr_bytes = attr:bytes()
  return "\0PERFILE2" .. pack("<I8I4I2I2", 16, 64, 0, 16 + #attr_bytes) .. attr_bytes .. pack("<I8", 1) .. bytes
end

local function name_of(file, what)
  return (file == "by_hand" and "by_hand_" .. what:lower():gsub("[^%w]+", "_"):gsub("_+$", "") or file)
end

for file in lfs.dir(VECTORS) do
  if file:find "%.lua$" then
    local loaded = dofile(VECTORS .. file)
    for _, vector in ipairs(loaded[1] and loaded or { loaded }) do
      local name = name_of(file:gsub("%.lua$", ""), vector.what)
      local attr, bytes = attr_of(vector), wire.bytes(vector.bytes)
      save("record", name, record_seed(attr, bytes))
      save("decoder", name, pack("BB", LITTLE_X86, 0) .. decoder_attr(vector, attr, {}) .. bytes)
      save("reader", "kind_" .. name, pipe_seed(attr, bytes))
      if #bytes <= 2048 then save("ring", name, ring_seed(attr, bytes)) end
    end
  end
end

-- tracepoint.c: a byte for the byte order and the size of a long, the format, a NUL and a payload.
local LITTLE_64, BIG_64 = 0, 1
local NATIVE = pack("=I2", 1) == pack("<I2", 1) and LITTLE_64 or BIG_64

for _, format in ipairs(kernel_formats.all()) do
  save("tracepoint", format.system .. "_" .. format.name,
    pack("Bz", NATIVE, format.text) .. kernel_formats.payload(format.text, 1))
end

-- ring.c: an event with an AUX area on each CPU, and AUX records about parts of it.
do
  local spec = { sample_type = { "identifier", "tid", "time", "cpu" }, sample_id_all = true, endian = "little" }
  local record = perfev.encode(spec, { type = "aux", aux_offset = 100, aux_size = 300, truncated = true,
                                       sample_id = { identifier = 1, time = 5 } })
  local ring = pack("<I8s2", 0, record .. record) .. pack("<i8i8i8", 100, 300, 8192)
  save("ring", "aux", pack("<BI4BI3I2I2", 4 | 2, 0, 0, 0, 0, 0) .. ring .. ring)
end

-- Three attrs with an identifier and two ids each, and records of each attr, in both byte orders.
for _, endian in ipairs { "little", "big" } do
  local spec = { endian = endian, arch = "x86_64" }
  local head = pack("BB", LITTLE_X86 | 16 | (endian == "big" and 1 or 0), 2)
  for i, sample_type in ipairs { { "identifier", "ip", "tid", "time" }, { "identifier", "read", "callchain" },
    { "identifier", "cpu", "raw", "branch_stack", "regs_user", "stack_user", "data_src", "aux" } } do
    spec[i] = { sample_type = sample_type, sample_id_all = true, read_format = 31, ids = { 2 * i, 2 * i + 1 },
                branch_sample_type = { "any", "hw_index", "counters" }, sample_regs_user = 7 }
    head = head .. decoder_attr({}, core.attr_new {
      sample_type = sample_type, sample_id_all = true, read_format = 31, sample_regs_user = 7,
      branch_sample_type = spec[i].branch_sample_type }, spec[i].ids)
  end
  save("decoder", "several_" .. endian, head
    .. perfev.encode(spec, { type = "sample", identifier = 2, ip = 1, pid = 2, tid = 3, time = 4 })
    .. perfev.encode(spec, { type = "sample", identifier = 5, callchain = { kernel = { 1 }, user = { 2, 3 } },
                             read = { values = { { value = 1, id = 4, lost = 0 } } } })
    .. perfev.encode(spec, { type = "sample", identifier = 6, cpu = 1, raw = "abcd", regs_user = { abi = 2, ax = 1 },
                             stack_user = "abc", stack_size = 16, aux = "12345678",
                             branch_stack = { hw_idx = 1, { from = 1, to = 2, counters = 3 } } })
    .. perfev.encode(spec, { type = "comm", pid = 1, tid = 2, comm = "sh", sample_id = { identifier = 4 } })
    .. perfev.encode(spec, { type = "mmap2", filename = "/bin/sh", sample_id = { identifier = 3 } })
    .. pack(endian == "big" and ">I4I2I2" or "<I4I2I2", 70, 0, 8))
end

-- jit_dump.c: the size of the parts; two functions, one of which moves, with lines.
for name, form in pairs { little = "<", big = ">" } do
  local function record(id, time, body) return pack(form .. "I4I4I8", id, 16 + #body, time) .. body end
  local function load(time, address, index, text)
    return record(0, time, pack(form .. "I4I4I8I8I8I8z", 7, 7, address, address, 16, index, text) .. ("\x90"):rep(16))
  end
  save("jit_dump", name, "\8" .. pack(form .. "I4I4I4I4I4I4I8I8", 0x4a695444, 1, 40, 62, 0, 7, 1, 0)
    .. record(2, 2, pack(form .. "I8I8I8i4i4z", 4096, 1, 4096, 3, 0, "a.js")) .. load(3, 4096, 1, "one")
    .. load(4, 4096, 2, "two") .. record(1, 5, pack(form .. "I4I4I8I8I8I8I8", 7, 7, 8192, 4096, 8192, 16, 2))
    .. record(4, 6, ("u"):rep(24)) .. record(3, 7, ""))
end

-- ---- reader.c ----

local PIPE, UNORDERED, SMALL, NARROW, REPEATED, FAILS, DIRECTORY = 1, 2, 4, 8, 16, 32, 64
local COMPRESSED, COMPRESSED2 = 81, 83

-- A token of reader.c's repeats_run(): the bytes, repeated.
local function token(times, bytes) return pack("Bs1", times, bytes) end

local function tokens(bytes)
  local out = {}
  for at = 1, #bytes, 255 do out[#out + 1] = token(1, bytes:sub(at, at + 254)) end
  return table.concat(out)
end

local function new_recording(endian)
  local common = { "identifier", "ip", "tid", "time", "cpu", "period" }
  return perfdata.new { endian = endian, events = {
    { attr = { sample_type = { "raw", table.unpack(common) }, sample_id_all = true }, ids = { 1, 2 }, name = "a" },
    { attr = { sample_type = { "callchain", table.unpack(common) }, sample_id_all = true, type = 1 }, ids = { 3 },
      name = "b" },
  } }
end

local function sample(built, id, time)
  return built.encode { type = "sample", identifier = id, ip = 1, pid = 2, tid = 3, time = time, cpu = 1, period = 4,
                        raw = "abcd", callchain = { -512, 5 } }
end

local function features_of(built)
  return { [1] = "\x17\x08\x44tracing0.6", [3] = built:string "host", [6] = built:string "i686",
           [12] = built:event_desc(), [27] = built:pack("I4I4I4I4I4", 1, 1, 1, 1, 1 << 16),
           [128] = "simple" }
end

-- One record of each type of the tools that the reader acts on, between two of the kernel.
local function of_tools(built)
  built:add(sample(built, 1, 20)):add(sample(built, 3, 10)):round()
  built:user(66, built:pack("I4I4", 12, 0)):add("formats, 12 ")
  built:user(71, built:pack("I8I8I8I4I4I4I4", 16, 0, 0, 0, 0, 0, 0)):add(("A"):rep(16))
  built:user(78, built:pack("I8I8z", 2, 3, "renamed"))
  built:user(80, built:pack("I8", 4) .. built:string "6.1")
  built:user(69, built:pack("I8I8I8I8I8", 1, 1, 2, 3, 4)):user(82)
  return built:add(sample(built, 3, 30)):round():round()
end

local inside = { -- the content of COMPRESSED records: a stream, cut at the end of a record
  whole = function(built) return { tokens(sample(built, 1, 9)), tokens(sample(built, 3, 8)) } end,
  spanning = function(built)
    local all = tokens(sample(built, 1, 9) .. sample(built, 3, 8))
    return { all:sub(1, 100), all:sub(101, 103), all:sub(104) }
  end,
  -- more than the small window holds, backwards in time
  many = function(built)
    local out = {}
    for i = 1, 15 do out[i] = token(64, sample(built, i % 2 == 0 and 1 or 3, 100 - i)) end
    return out
  end,
  too_much = function(built) return { token(255, built:pack("I4I2I2", 60, 0, 8):rep(31)):rep(4) } end,
  nested = function(built) return { token(2, built:pack("I4I2I2", 81, 0, 8)) } end,
  half = function(built) return { tokens(sample(built, 1, 9):sub(1, 20)) } end,
  short = function(built) return { token(1, built:pack("I4I2I2", 9, 0, 4)) } end,
}

for name, make in pairs(inside) do
  for _, number in ipairs { COMPRESSED, COMPRESSED2 } do
    local built = new_recording "little"
    for _, bytes in ipairs(make(built)) do
      built:user(number, (number == COMPRESSED2 and built:pack("I8", #bytes) or "") .. bytes)
    end
    local how = ("%s_%d"):format(name, number)
    save("reader", "file_" .. how, string.char(REPEATED | SMALL) .. built:file(features_of(built)))
    save("reader", "pipe_" .. how, string.char(REPEATED | PIPE) .. built:pipe(features_of(built)))
  end
end

-- simpleperf's own records, whose size has 32 bits: ids, formats, and a count beyond the end.
for _, endian in ipairs { "little", "big" } do
  local built = new_recording(endian)
  built:add { type = "mmap", pid = -1, tid = 0, addr = -4096, len = 4096, pgoff = -4096,
              filename = "[kernel.kallsyms]_text", sample_id = { identifier = 1 } }
  built:user(32774, built:pack("I8I8I8I8I8", 2, 0, 7, 1, 8)):user(32777, built:pack("I4I4c12", 12, 0, "formats"))
  local of_new_id = sample(built, 1, 5)
  built:add(of_new_id:sub(1, 8) .. built:pack("I8", 7) .. of_new_id:sub(17))
  built:add(built:pack("I4I2I2I4I4", 32777, 1, 16, 65540, 0)):add(("k"):rep(2000))
  save("reader", "simpleperf_" .. endian, "\0" .. built:file(features_of(built)))
  save("reader", "simpleperf_piped_" .. endian, string.char(PIPE) .. built:pipe(features_of(built)))
end

for _, endian in ipairs { "little", "big" } do
  local built = of_tools(new_recording(endian))
  local file, pipe = built:file(features_of(built)), built:pipe(features_of(built))
  for how, flags in pairs { ordered = 0, unordered = UNORDERED, narrow = NARROW, fails = FAILS } do
    save("reader", ("tools_%s_%s"):format(how, endian), string.char(flags) .. file)
    save("reader", ("tools_piped_%s_%s"):format(how, endian), string.char(PIPE | flags) .. pipe)
  end
  local threads = { sample(built, 1, 5) .. sample(built, 1, 25), sample(built, 3, 15) .. sample(built, 1, 12) }
  save("reader", "directory_" .. endian, string.char(DIRECTORY) .. pack("<I2I2", #threads[1], #threads[2]) .. file
    .. threads[2] .. threads[1])
end

-- ---- frame.c ----

do
  local REPAIRED, CONTENT = 16, 32
  local function frames_of(a, more, opts)
    local header = { host = "db3", start = ("0f"):rep(16), seq = 1, name = "calls", kind = "count" }
    for key, value in pairs(more or {}) do header[key] = value end
    return table.concat(assert(perfev.frames.encode(header, a, opts)))
  end
  for _, kind in ipairs { "count", "top", "sum", "avg", "min", "max", "stats", "hist", "quantile" } do
    local a = perfev[kind] { by = { "comm", "tid" }, unit = "us", max_keys = 3 }
    for i = 1, 9 do a:add(i * 7 - 20 * (kind == "top" and 0 or 1), "task" .. i % 4, i % 2 == 0 and i or i > 5) end
    save("frame", "content_" .. kind, string.char(CONTENT | 15) .. a:pack())
    save("frame", "frame_" .. kind, string.char(REPAIRED | 8) .. frames_of(a, { job = "x" }))
    save("frame", "armor_" .. kind, "\7" .. frames_of(a, {}, { armor = true }):gsub("[^\n]+", "n1: %0"))
  end
  local a = perfev.count { by = "k" }
  local one, two = frames_of(a), frames_of(a, { seq = 2 }, { armor = true })
  save("frame", "mixed", "\15" .. two .. one .. "message\n" .. two .. one)
  save("frame", "damaged", "\15" .. one:sub(1, -3) .. one .. "\0" .. two:sub(50) .. two)
  save("frame", "reordered", "\3" .. frames_of(a, { seq = 3 }) .. one .. one)
  local bomb = require("perfev.frame").compress(("\0"):rep(8 << 20))
  save("frame", "bomb", string.char(REPAIRED | 15)
    .. require("perfev.frame").join("a=b\n", bomb, 8 << 20) .. one)
  save("frame", "lying_bomb", string.char(REPAIRED | 15) .. require("perfev.frame").join("a=b\n", bomb, 100) .. one)
  local p = perfev.profile { values = { { name = "samples", unit = "count" }, "cpu" } }
  for i = 1, 9 do
    local leaf = { name = "f" .. i % 3, module = "a.so", file = "/lib/a.so", line = i, kernel = i % 2 == 0 }
    p:add({ leaf, "main" }, i, -i)
  end
  save("frame", "content_profile", string.char(CONTENT | 15) .. p:pack())
  save("frame", "frame_profile", string.char(REPAIRED | 8) .. frames_of(p))
  local empty = a:pack()
  local at = #empty - 8 - 6
  save("frame", "many_keys", string.char(CONTENT | 15) .. empty:sub(1, at - 1) .. "\x80\x80\x80\x80\x80\x80\x01"
    .. empty:sub(at + 1))
end

-- ---- unordered.c: files with enough samples for three threads, whole and damaged ----

for _, endian in ipairs { "little", "big" } do
  local built = new_recording(endian)
  for i = 1, 60 do
    built:add(sample(built, i % 3 + 1, i % 2 == 0 and i or 70 - i))
    if i % 20 == 0 then built:round() end
    if i % 15 == 0 then built:add { type = "lost", id = 1, lost = i, sample_id = { identifier = 1, time = i } } end
  end
  local bytes = built:file(features_of(built))
  save("unordered", "samples_" .. endian, "\3" .. bytes)
  save("unordered", "fails_" .. endian, string.char(FAILS) .. bytes)
  save("unordered", "cut_" .. endian, "\0" .. bytes:sub(1, #bytes // 2))
  save("unordered", "tools_" .. endian, "\0" .. of_tools(built):file(features_of(built)))
  local threads = { table.concat(built.records, "", 1, 30), table.concat(built.records, "", 20) }
  save("unordered", "directory_" .. endian, string.char(DIRECTORY) .. pack("<I2I2", #threads[1], #threads[2])
    .. of_tools(new_recording(endian)):file(features_of(built)) .. threads[2] .. threads[1])
end

-- ---- pack.c: the kind and the number of columns, or of value types, and the values of a pack ----

do
  local PROFILE = 10
  local numbers = { count = 0, top = 1, sum = 2, avg = 3, min = 4, max = 5, stats = 6, hist = 7, linear = 8,
                    quantile = 9 }
  local function values_of(bytes, head) return bytes:sub(#head + 1, -9) end
  for kind, number in pairs(numbers) do
    local spec = { by = { "a", "b" } }
    if kind == "linear" then spec.low, spec.high, spec.step = -5, 90, 7 end
    local a = perfev[kind == "linear" and "hist" or kind](spec)
    for i = 1, 30 do a:add(i * i * i % 1000, "key" .. i % 7, i % 3 == 0 or i) end
    -- The head is what the packs of two aggregators of the same options share; the counts of losses are 5 zeros.
    local empty = perfev[kind == "linear" and "hist" or kind](spec):pack()
    local head = 1
    while empty:byte(head) == a:pack():byte(head) do head = head + 1 end
    save("pack", kind, string.char(number, 2) .. values_of(a:pack(), empty:sub(1, head - 1)))
  end
  local p = perfev.profile { values = { "samples", { "time", unit = "ns" } } }
  local none = p:pack()
  for i = 1, 30 do
    p:add({ { symbol = "f" .. i % 7, module = i % 2 == 0 and "/m" or nil, file = "a.c", line = i % 5,
      kernel = i % 3 == 0, inlined = i % 4 == 0 }, "g" .. i % 3, "_start" }, i, i % 4 == 0 and i / 2 or -i)
  end
  local head = 1
  while none:byte(head) == p:pack():byte(head) do head = head + 1 end
  save("pack", "profile", string.char(PROFILE, 1) .. values_of(p:pack(), none:sub(1, head - 1)))
end
