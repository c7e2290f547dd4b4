-- perfev.decoder and perfev.encode: records without a session.

local perfev = require "perfev"
local core = require "perfev.core"
local some = require "spec.support.some"

local pack = string.pack

local function decoded(spec, bytes, pos)
  return assert(perfev.decoder(spec)):decode(bytes, pos)
end

-- t by way of bytes and back, in both byte orders.
local function both(spec, t)
  local out
  for _, endian in ipairs { "big", "little" } do
    spec.endian = endian
    local bytes = perfev.encode(spec, t)
    out = assert(decoded(spec, bytes))
    assert.equal(bytes, perfev.encode(spec, out))
  end
  return out
end

describe("perfev.decoder", function()
  it("accepts an attr as fields with lists of names or integers", function()
    local bytes = pack("<I4I2I2i8i4i4", 9, 2, 24, 0x1234, 7, 8)
    for _, sample_type in ipairs { 3, { "ip", "tid" } } do
      local t, after = decoded({ sample_type = sample_type, endian = "little" }, bytes)
      assert.same({ "sample", 0x1234, 7, 8, "user", 25 }, { t.type, t.ip, t.pid, t.tid, t.cpumode, after })
    end
  end)

  it("accepts an attr's bytes of every published size, and of future sizes", function()
    local attr = core.attr_new { sample_type = { "ip" }, sample_id_all = true }:bytes()
    for _, size in ipairs { 64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 200 } do
      local sized = attr:sub(1, 4) .. pack("=I4", size) .. attr:sub(9) .. ("\0"):rep(size - #attr)
      local t = assert(decoded({ attr = sized }, pack("=I4I2I2i8", 9, 0, 16, 5)))
      assert.equal(5, t.ip)
    end
  end)

  it("accepts a big-endian attr, with its flags in reverse order", function()
    -- sample_id_all is bit 18 of a little-endian compiler's word, so the 18th from the top here
    local attr = pack(">I4I4I8I8I8I8I8I4I4I8", 1, 64, 9, 0, 2, 0, 1 << 63 - 18, 0, 0, 0)
    local t = decoded({ attr = attr, endian = "big" }, pack(">I4I2I2i4i4c8i4i4", 3, 0, 32, 1, 2, "sh", 3, 4))
    assert.same({ 1, 2, "sh", { pid = 3, tid = 4 } }, { t.pid, t.tid, t.comm, t.sample_id })
  end)

  it("finds the true end of a record whose size is too large", function()
    local attrs = {
      { sample_type = { "time", "identifier" }, sample_id_all = true, ids = { 5 } },
      { sample_type = { "tid", "time", "identifier" }, sample_id_all = true, ids = { 6 } },
    }
    local records = {
      { type = "ksymbol", addr = 1, len = 2, ksym_type = 1, flags = 0, name = "seven_7" },
      { type = "bpf_event", bpf_type = 1, flags = 0, id = 7, tag = "12345678" },
      { type = "text_poke", addr = 3, old_bytes = "abcd", new_bytes = "efgh" },
    }
    for _, endian in ipairs { "little", "big" } do
      local order = endian == "big" and ">" or "<"
      local one = { sample_type = attrs[2].sample_type, sample_id_all = true, endian = endian }
      for _, spec in ipairs { one, { attrs[1], attrs[2], endian = endian } } do
        for _, record in ipairs(records) do
          record.sample_id = { pid = 1, tid = 2, time = 3, identifier = 6 }
          local bytes = perfev.encode(one, record)
          local stale = pack(order .. "I8I8", 999, 5) -- another's time and id
          local t, after = decoded(spec, bytes:sub(1, 6) .. pack(order .. "I2", #bytes + 16) .. bytes:sub(9) .. stale)
          assert.same({ record.sample_id, #bytes + 17 }, { t.sample_id, after })
          assert.same({ record.name or record.tag or record.new_bytes, 3 }, { t.name or t.tag or t.new_bytes, t.time })
        end
      end
    end
  end)

  it("does not take the id at the end of a record for its own if the record's trailer is not there", function()
    local spec = {
      { sample_type = { "identifier" }, sample_id_all = true, ids = { 5 } },
      { sample_type = { "cpu", "identifier" }, sample_id_all = true, ids = { 6 } },
    }
    local record = { type = "bpf_event", bpf_type = 1, flags = 0, id = 7, tag = "12345678",
                     sample_id = { identifier = 77 } }
    local bytes = perfev.encode(spec[1], record)
    local t, why = decoded(spec, bytes:sub(1, 6) .. pack("<I2", #bytes + 8) .. bytes:sub(9) .. pack("<I8", 5))
    assert.is_nil(t)
    assert.matches("id 5 belongs to no attr", why)
  end)

  it("continues after the last record", function()
    local spec = { sample_type = { "ip" } }
    local bytes = perfev.encode(spec, { type = "sample", ip = 1 })
      .. perfev.encode(spec, { type = "switch", out = true })
      .. perfev.encode(spec, { type = "sample", ip = 3 })
    local d, pos, seen = perfev.decoder(spec), 1, {}
    while pos <= #bytes do
      local t
      t, pos = assert(d:decode(bytes, pos))
      seen[#seen + 1] = t.type
    end
    assert.same({ "sample", "switch", "sample" }, seen)
    assert.error_matches(function() d:decode(bytes, #bytes + 2) end, "outside of the bytes")
    assert.error_matches(function() d:decode(bytes, 0) end, "outside of the bytes")
  end)

  it("reports the defect of malformed bytes and its position", function()
    local d = perfev.decoder { sample_type = { "ip", "callchain" }, endian = "little" }
    for bytes, why in pairs {
      [""] = "at byte 1: 0 bytes are too few for a record header",
      ["\0\0\0\0\0\0\0"] = "at byte 1: 7 bytes are too few for a record header",
      [("\0"):rep(8)] = "at byte 1: record of type 0: size 0, but 8 bytes are there",
      [pack("<I4I2I2", 9, 0, 0xb655) .. "x"] = "at byte 1: record of type 9: size 46677, but 9 bytes are there",
      [pack("<I4I2I2", 16, 0, 0x4508) .. "123456"] = "at byte 1: record of type 16: size 17672, but 14 bytes are there",
      [pack("<I4I2I2", 9, 0, 8)] = "at byte 1: sample: 8 bytes, its fixed fields need 16",
      [pack("<I4I2I2I8", 9, 0, 16, 1)] = "at byte 1: sample: field 'callchain' leads past the record's 16 bytes",
      [pack("<I4I2I2I8I8I8", 9, 0, 32, 1, 0, 0)] = "at byte 1: sample: 8 of 32 bytes are left over",
    } do
      local t, text = d:decode(bytes)
      assert.is_nil(t)
      assert.equal(why, text)
    end
    d = perfev.decoder { sample_type = { "tid", "time" }, sample_id_all = true }
    assert.equal("at byte 1: comm (3): 24 bytes, needs 32",
      select(2, d:decode(pack("=I4I2I2i4i4I8", 3, 0, 24, 1, 1, 0))))
    -- a group of more counters than bytes
    d = perfev.decoder { sample_type = { "read" }, read_format = { "group", "id" } }
    assert.matches("'read' leads past", select(2, d:decode(pack("=I4I2I2I8", 9, 0, 16, 1 << 60))))
  end)

  it("raises on an invalid spec, with the nearest name", function()
    assert.error_matches(function() perfev.decoder { sample_typ = 1 } end,
      "'sample_typ' is not a field of perf_event_attr (did you mean 'sample_type'?)", 1, true)
    assert.error_matches(function() perfev.decoder { sample_type = { "callchian" } } end, "callchain", 1, true)
    assert.error_matches(function() perfev.decoder { endian = "middle" } end, "must be \"little\" or \"big\"", 1, true)
    assert.error_matches(function() perfev.decoder { arch = "vax" } end, "arch = 'vax': no register names", 1, true)
    assert.error_matches(function() perfev.decoder { bits = 31 } end, "32 or 64")
    assert.error_matches(function() perfev.decoder { attr = ("x"):rep(64), sample_type = 1 } end, "not both")
    assert.error(function() perfev.decoder() end)
    assert.error(function() perfev.decoder { attr = 5 } end)
  end)

  it("returns nil and the reason for bytes that are not an attr", function()
    local d, why = perfev.decoder { attr = "short" }
    assert.is_nil(d)
    assert.matches("attr of 5 bytes: cut short", why)
    assert.matches("the other byte order", select(2, perfev.decoder { attr = pack(">I4I4", 1, 16) .. ("\0"):rep(56),
                                                                      endian = "big" }))
  end)
end)

describe("d:records", function()
  local spec = { sample_type = { "tid", "time" }, sample_id_all = true }
  local bytes = perfev.encode(spec, { type = "comm", pid = 1, tid = 2, comm = "one", sample_id = { time = 5 } })
    .. perfev.encode(spec, { type = "sample", pid = 3, tid = 4, time = 6 })

  it("returns the same views as a session's callbacks receive", function()
    local seen = {}
    for r, pos in assert(perfev.decoder(spec)):records(bytes) do
      seen[#seen + 1] = { r.type, r.pid, r.time, pos, tostring(r) }
    end
    assert.same({ { "comm", 1, 5, 1, 'comm pid=1 tid=2 comm="one" time=5' },
                  { "sample", 3, 6, 41, "sample pid=3 tid=4 time=6" } }, seen)
  end)

  it("closes a view at the next step, and keeps its bytes alive until then", function()
    local kept, last
    for r in assert(perfev.decoder(spec)):records(bytes .. "") do
      if kept then assert.error_matches(function() return kept.type end, "used after its callback") end
      kept = kept or r
      last = r:copy()
      collectgarbage()
    end
    assert.error(function() return kept.type end)
    assert.equal("sample", last.type)
    local r = assert(perfev.decoder(spec)):records(table.concat { bytes, "" })()
    collectgarbage()
    collectgarbage()
    assert.equal("one", r.comm)
  end)

  it("may be iterated twice at once", function()
    local d, n = assert(perfev.decoder(spec)), 0
    for a in d:records(bytes) do
      for b in d:records(bytes) do n = n + (a.type == b.type and 1 or 0) end
      assert(d:decode(bytes))
    end
    assert.equal(2, n)
  end)

  it("raises on a malformed record, or reports and skips it", function()
    local d = assert(perfev.decoder(spec))
    local bad = pack("=I4I2I2", 3, 0, 8)
    assert.error_matches(function() for _ in d:records(bytes .. bad) do end end, "^at byte 65: comm %(3%): 8 bytes")
    local told, nr = {}, 0
    local function tell(why, pos) told[#told + 1] = { why, pos } end
    for _ in d:records(bad .. bytes .. bad .. "xyz", tell) do nr = nr + 1 end
    assert.equal(2, nr)
    assert.same({ 1, 73, 81 }, { told[1][2], told[2][2], told[3][2] })
    assert.equal("at byte 81: 3 bytes are too few for a record header", told[3][1])
  end)
end)

describe("several attrs", function()
  local A = { ids = { 10, 11 }, event = "a", sample_type = { "identifier", "ip" }, sample_id_all = true }
  local B = { ids = { 20 }, event = "b", sample_type = { "identifier", "tid", "raw" }, sample_id_all = true }

  it("are distinguished by IDENTIFIER", function()
    for _, endian in ipairs { "little", "big" } do
      local spec = { A, B, endian = endian }
      local d = assert(perfev.decoder(spec))
      local bytes = perfev.encode(spec, { type = "sample", identifier = 11, ip = 5 })
        .. perfev.encode(spec, { type = "sample", identifier = 20, tid = 6, raw = "four" })
        .. perfev.encode(spec, { type = "comm", pid = 1, comm = "x", sample_id = { identifier = 20, tid = 9 } })
        .. perfev.encode(spec, { type = "comm", pid = 1, tid = 1, comm = "y", sample_id = { identifier = 10 } })
      local seen = {}
      for r in d:records(bytes) do seen[#seen + 1] = { r.event, r.comm or r.ip or r.raw, r.sample_id.tid } end
      assert.same({ { "a", 5 }, { "b", "four" }, { "b", "x", 9 }, { "a", "y" } }, seen)
      assert.equal(11, d:id(bytes))
    end
  end)

  it("are distinguished by ID if it has one offset in all", function()
    local spec = { { ids = { 1 }, sample_type = { "id", "ip" } },
                   { ids = { 2 }, sample_type = { "id", "ip", "period" } } }
    local d = assert(perfev.decoder(spec))
    assert.equal(7, d:decode(perfev.encode(spec, { type = "sample", id = 2, period = 7 })).period)
    assert.is_nil(d:decode(perfev.encode(spec, { type = "sample", id = 1 })).period)
    -- a record without an id belongs to the first event, the ring's owner
    for _, number in ipairs { 14, 0, 77 } do
      local bytes = pack("=I4I2I2", number, 0, 8)
      local t = assert(d:decode(bytes))
      assert.equal(number, t.number)
      assert.equal(bytes, perfev.encode(spec, t))
    end
  end)

  it("that cannot be distinguished are refused, with the reason", function()
    local function refused(a, b)
      local d, why = perfev.decoder { a, b }
      assert.is_nil(d)
      return why
    end
    assert.matches("attr 1 does not sample an id, .* sample identifier", refused({ ids = { 1 }, sample_type = 1 }, B))
    assert.matches("differ in sample_id_all", refused(A, { ids = { 3 }, sample_type = { "identifier" } }))
    assert.matches("id at different offsets", refused({ ids = { 1 }, sample_type = { "id" } },
      { ids = { 2 }, sample_type = { "id", "time" } }))
    assert.matches("id at different offsets", refused(
      { ids = { 1 }, sample_type = { "id", "cpu" }, sample_id_all = true },
      { ids = { 2 }, sample_type = { "id" }, sample_id_all = true }))
    assert.matches("id 10 belongs to two attrs", refused(A, { ids = { 10 }, sample_type = { "identifier" },
                                                              sample_id_all = true }))
    assert.error_matches(function() perfev.decoder { { endian = "big" }, { endian = "little" } } end, "one byte order")
  end)

  it("return an error for an id that belongs to none of them", function()
    local t, why = assert(perfev.decoder { A, B }):decode(pack("=I4I2I2I8I8", 9, 0, 24, 77, 1))
    assert.is_nil(t)
    assert.equal("at byte 1: record of type 9: id 77 belongs to no attr", why)
    assert.matches("too few for an id", select(2, assert(perfev.decoder { A, B }):decode(pack("=I4I2I2", 9, 0, 8))))
  end)
end)

describe("perfev.encode", function()
  it("fills missing fields with zeros, as the kernel would", function()
    local function hex(...) return (perfev.encode(...):gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end
    assert.equal("0900000000001000" .. "0400000000000000",
      hex({ sample_type = { "raw" }, endian = "little" }, { type = "sample" }))
    assert.equal("0000000e20000008", hex({ endian = "big" }, { type = "switch", out = true }))
    assert.equal("0300000000001800" .. "0100000002000000" .. "6b69640000000000",
      hex({ endian = "little" }, { type = "comm", pid = 1, tid = 2, comm = "kid" }))
  end)

  it("overrides bits of misc by named flags and cpumode", function()
    local function misc(t) return string.unpack("=I2", perfev.encode({ build_id = true }, t), 5) end
    assert.equal(0x6000, misc { type = "switch", out = true, preempt = true })
    assert.equal(0x4001, misc { type = "sample", misc = 2, cpumode = "kernel", exact_ip = true })
    assert.equal(0x0002, misc { type = "mmap", misc = 0x2002, mmap_data = false })
    assert.equal(0x4000, misc { type = "mmap2", build_id = ("x"):rep(20) })
  end)

  it("accepts a record of an unknown type whole, or its body", function()
    local spec = { sample_type = { "tid" }, sample_id_all = true, endian = "little" }
    local bytes = perfev.encode(spec, { number = 77, body = "12345678", pid = 3, tid = 4 })
    assert.equal(pack("<I4I2I2c8i4i4", 77, 0, 24, "12345678", 3, 4), bytes)
    local t = assert(decoded(spec, bytes))
    assert.same({ "unknown", 77, "12345678\3\0\0\0\4\0\0\0", 3 }, { t.type, t.number, t.raw, t.sample_id.pid })
    assert.equal(bytes, perfev.encode(spec, t))
  end)

  it("raises on a record that it cannot encode, in the user's words", function()
    local function refused(spec, t, why)
      assert.error_matches(function() perfev.encode(spec, t) end, why, 1, true)
    end
    refused({}, { type = "smple" }, "unknown record type 'smple' (did you mean 'sample'?)")
    refused({}, {}, "a record needs a type, or a number")
    refused({}, { type = "comm", com = "x" }, "no record has a field 'com' (did you mean 'comm'?)")
    refused({}, { type = "comm", comm = 5 }, "comm: comm = 5: must be a string")
    refused({}, { type = "comm", pid = "x" }, "comm: pid = x: must be an integer")
    refused({}, { type = "comm", pid = 1 << 40 }, "must be within 32 bits")
    refused({}, { type = "ksymbol", ksym_type = 1 << 16 }, "must be within 16 bits")
    refused({}, { type = "mmap2", build_id = "x" }, "the attr does not ask for build ids")
    refused({ build_id = true }, { type = "mmap2", build_id = ("x"):rep(21) }, "at most 20 bytes")
    refused({}, { type = "mmap", filename = ("x"):rep(70000) }, "the kernel writes at most 65528")
    refused({ sample_type = { "regs_user" }, sample_regs_user = 3 },
      { type = "sample", regs_user = { abi = 2, ip = 1 } },
      "register 'ip' is not in the attr's mask 0x3")
    refused({ sample_type = { "data_src" } }, { type = "sample", data_src = { lvl_num = "l9" } },
      "lvl_num = l9: must be one of its names")
    assert.error(function() perfev.encode({}, "text") end)
  end)
end)

describe("a field", function()
  it("of registers has them by name", function()
    local function of(arch, mask)
      local spec = { sample_type = { "regs_user" }, sample_regs_user = mask, arch = arch }
      local regs, n = { abi = 2 }, 0
      for bit = 0, 63 do
        if mask >> bit & 1 == 1 then
          n = n + 1
          regs[bit] = n
        end
      end
      return both(spec, { type = "sample", regs_user = regs }).regs_user
    end
    assert.same({ abi = 2, ax = 1, bp = 2, sp = 3, ip = 4, r15 = 5, xmm0 = 6, xmm15_high = 7 },
      of("x86_64", 1 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 23 | 1 << 32 | 1 << 63))
    assert.same({ abi = 2, x0 = 1, x29 = 2, lr = 3, sp = 4, pc = 5, vg = 6 },
      of("aarch64", 1 | 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32 | 1 << 46))
    assert.same({ abi = 2, r0 = 1, fp = 2, ip = 3, sp = 4, lr = 5, pc = 6 }, of("armv7l", 1 | 0x1f << 11))
    assert.same({ abi = 2, pc = 1, ra = 2, s0 = 3, a0 = 4, s2 = 5, t6 = 6 },
      of("riscv64", 3 | 1 << 8 | 1 << 10 | 1 << 18 | 1 << 31))
    assert.same({ abi = 2, r15 = 1, fp0 = 2, fp15 = 3, mask = 4, pc = 5 },
      of("s390x", 1 << 15 | 1 << 16 | 1 << 31 | 3 << 32))
    assert.same({ abi = 2, r0 = 1, r31 = 2, nip = 3, link = 4, softe = 5, dsisr = 6, mmcra = 7, siar = 8 },
      of("ppc64le", 1 | 1 << 31 | 1 << 32 | 1 << 36 | 1 << 39 | 1 << 42 | 1 << 44 | 1 << 58))
    assert.same({ abi = 2, [60] = 1 }, of("arm64", 1 << 60)) -- of a kernel to come
  end)

  it("of registers accepts register names of the recorder's machine", function()
    local spec = { sample_type = { "regs_user" }, sample_regs_user = { "lr", "x0" }, arch = "aarch64" }
    assert.same({ abi = 2, x0 = 5, lr = 6 }, both(spec, { type = "sample", regs_user = { abi = 2, x0 = 5, lr = 6 } })
      .regs_user)
    assert.error_matches(function() perfev.decoder { sample_regs_user = { "ax" }, arch = "aarch64" } end,
      "sample_regs_user: aarch64 has no register 'ax'")
  end)

  it("of registers contains only the abi for a thread without registers", function()
    local spec = { sample_type = { "regs_user", "regs_intr" }, sample_regs_user = 7, sample_regs_intr = 1,
                   arch = "aarch64" }
    local t = both(spec, { type = "sample", regs_user = { abi = 0 }, regs_intr = { abi = 2, [0] = 9 } })
    assert.same({ abi = 0 }, t.regs_user)
    assert.same({ abi = 2, x0 = 9 }, t.regs_intr)
  end)

  it("of a data source has each part by name, and the word", function()
    local spec = { sample_type = { "data_src" } }
    local t = both(spec, { type = "sample", data_src = 0x1e05080021 }) -- "not available", seen on software events
    assert.same({ raw = 0x1e05080021, op = { na = true }, lvl = { na = true }, snoop = { na = true },
                  lock = { na = true }, dtlb = { na = true },
                  lvl_num = "na", remote = false, snoopx = {}, blk = {}, hops = 0, region = 0 },
      t.data_src)
    local l3 = { op = { load = true }, lvl = { hit = true, l3 = true }, snoop = { hitm = true }, lvl_num = "l3",
                 remote = true, snoopx = { peer = true }, blk = { addr = true }, hops = "same_board" }
    t = both(spec, { type = "sample", data_src = l3 })
    assert.equal(1 << 1 | (1 << 1 | 1 << 6) << 5 | 1 << 4 + 19 | 3 << 33 | 1 << 37 | 2 << 38 | 4 << 40 | 3 << 43,
      t.data_src.raw)
    for name, value in pairs(l3) do assert.same(value, t.data_src[name]) end
  end)

  it("of a transaction has its flags and the abort code", function()
    local t = both({ sample_type = { "transaction" } },
      { type = "sample", transaction = { sync = true, capacity_read = true, abort = 0xdeadbeef } })
    assert.same({ raw = 0xdeadbeef << 32 | 0x84, elision = false, transaction = false, sync = true, async = false,
                  retry = false, conflict = false, capacity_write = false, capacity_read = true, abort = 0xdeadbeef },
      t.transaction)
  end)

  it("of a weight is a number, or three", function()
    assert.equal(77, both({ sample_type = { "weight" } }, { type = "sample", weight = 77 }).weight)
    assert.same({ raw = 3 << 48 | 2 << 32 | 1, var1_dw = 1, var2_w = 2, var3_w = 3 },
      both({ sample_type = { "weight_struct" } },
        { type = "sample", weight = { var1_dw = 1, var2_w = 2, var3_w = 3 } }).weight)
  end)

  it("of branches has every bit, the reserved ones in the word", function()
    local spec = { sample_type = { "branch_stack" }, branch_sample_type = { "any", "hw_index", "counters" } }
    local word = 1 << 0 | 1 << 2 | 0xabcd << 4 | 5 << 20 | 2 << 24 | 3 << 30 | 1 << 40
    local t = both(spec, { type = "sample", branch_stack = { hw_idx = -1,
      { from = 1, to = 2, raw = word, counters = 9 },
      { from = 3, to = 4, predicted = true, type = "extend_abi", new_type = "arch_3", priv = "user", counters = 8 } } })
    assert.same({ hw_idx = -1,
      { from = 1, to = 2, raw = word, counters = 9, mispred = true, predicted = false, in_tx = true, abort = false,
        cycles = 0xabcd, type = "ind_call", spec = "non_spec_correct_path", priv = "hv" },
      { from = 3, to = 4, raw = 1 << 1 | 15 << 20 | 5 << 26 | 1 << 30, counters = 8, mispred = false, predicted = true,
        in_tx = false, abort = false, cycles = 0, type = "extend_abi", new_type = "arch_3", spec = "na",
        priv = "user" },
    }, t.branch_stack)
  end)

  it("of branches starts at the highest bit in a big-endian record", function()
    local bytes = pack(">I4I2I2I8I8I8I8", 9, 0, 40, 1, 1, 2, 1 << 63 | 7 << 44)
    local spec = { sample_type = { "branch_stack" }, branch_sample_type = 9, endian = "big" }
    local b = decoded(spec, bytes).branch_stack[1]
    assert.is_true(b.mispred)
    assert.equal(7, b.cycles)
  end)

  it("of a 32-bit recorder may have its context markers cut to 32 bits", function()
    local bytes = pack("<I4I2I2I8I8I8I8I8", 9, 0, 48, 4, 0xffffff80, 0xc0001000, 0xfffffe00, 0x8000)
    local spec = { sample_type = { "callchain" }, endian = "little" }
    for _, how in ipairs { { bits = 32 }, { arch = "armv7l" }, { arch = "i686" } } do
      spec.bits, spec.arch = how.bits, how.arch
      local chain = decoded(spec, bytes).callchain
      assert.same({ { 0xc0001000 }, { 0x8000 } }, { chain.kernel, chain.user })
      assert.equal(0xffffff80, chain.raw[1])
    end
    spec.bits, spec.arch = 64, nil
    assert.equal(4, #decoded(spec, bytes).callchain.user)
  end)

  it("of a callchain may be given as its separate lists", function()
    local t = both({ sample_type = { "callchain" } },
      { type = "sample", callchain = { user = { 3 }, kernel = { 1, 2 } } })
    assert.same({ -128, 1, 2, -512, 3 }, t.callchain.raw)
    t = both({}, { type = "callchain_deferred", cookie = 5, callchain = { user = { 3, 4 } } })
    assert.same({ raw = { 3, 4 }, user = { 3, 4 } }, t.callchain)
  end)

  it("of a stack has the requested size", function()
    local t = both({ sample_type = { "stack_user" }, sample_stack_user = 64 },
      { type = "sample", stack_user = "abc", stack_size = 64 })
    assert.same({ "abc", 64 }, { t.stack_user, t.stack_size })
  end)
end)

describe("a record from other projects' tests:", function()
  it("a custom sample", function()
    local t = assert(decoded({ sample_type = { "addr", "id" }, endian = "little" },
      pack("<I4I2I2I8I8", 9, 0, 24, 0x0706050403020100, 0x0f0e0d0c0b0a0908)))
    assert.same({ 0x0706050403020100, 0x0f0e0d0c0b0a0908 }, { t.addr, t.id })
  end)

  it("TID, TIME, CPU, READ and CGROUP, whose bytes need ID in read_format", function()
    local body = pack("<i4i4I8I4I4I8I8I8I8I8I8I8", 0x8d4, 0x8d4, 0xa43aa18e77c9, 3, 0, 2, 0x28c0bed0, 0x224, 0xbd,
      0x28c079ac, 0xbe, 1)
    local spec = { sample_type = { "tid", "time", "cpu", "read", "cgroup" }, endian = "little",
                   read_format = { "group", "total_time_enabled", "id" } }
    local bytes = pack("<I4I2I2", 9, 0, 8 + #body) .. body
    local t = assert(decoded(spec, bytes))
    assert.equal(1, t.cgroup)
    assert.same({ time_enabled = 0x28c0bed0,
                  values = { { value = 0x224, id = 0xbd }, { value = 0x28c079ac, id = 0xbe } } }, t.read)
    spec.read_format = { "group", "total_time_enabled" }
    assert.matches("left over", select(2, decoded(spec, bytes)))
  end)

  it("COMM by an exec, with a trailer of 16 bytes", function()
    local t = decoded({ sample_type = { "tid", "time" }, sample_id_all = true, endian = "little" },
      pack("<I4I2I2i4i4c16i4i4I8", 3, 0x2000, 48, 542572, 542572, "dump_syms", 542572, 542572, 9))
    assert.same({ "dump_syms", true, 542572, 9 }, { t.comm, t.exec, t.pid, t.time })
  end)

  it("THROTTLE, MMAP and LOST", function()
    local t = decoded({ endian = "little" }, pack("<I4I2I2I8I8I8", 5, 0, 32, 0x8070605040302010, 0xf0e0d0c0b0a090,
      0xbeefcafedeadbeef))
    assert.same({ 0x8070605040302010, 0xf0e0d0c0b0a090, 0xbeefcafedeadbeef }, { t.time, t.id, t.stream_id })
    t = decoded({ endian = "little" }, pack("<I4I2I2i4i4I8I8I8c8", 1, 0, 48, 25610, 25611, 0x7fbd8176a000, 4096,
      0x7fbd8176a000, "//anon"))
    assert.same({ 25610, 25611, 0x7fbd8176a000, "//anon" }, { t.pid, t.tid, t.pgoff, t.filename })
    t = decoded({ endian = "little" }, pack("<I4I2I2I8I8", 2, 0, 24, 0x990010, 0x7b000000af00))
    assert.same({ 0x990010, 0x7b000000af00 }, { t.id, t.lost })
  end)
end)

describe("each property that spec/fuzz/decoder.lua checks", function()
  it("holds for random inputs", function()
    local path = package.path
    local check = dofile "spec/fuzz/decoder.lua"
    package.path = path
    math.randomseed(11)
    local random = math.random
    local function bytes(len)
      local out = {}
      -- small numbers are lengths and counts that fit
      for i = 1, len do out[i] = string.char(random(4) == 1 and random(0, 255) or random(0, 8) * random(0, 1)) end
      return table.concat(out)
    end
    for _ = 1, some.times(3000) do
      local big, nr = random(0, 1), random(0, 7)
      local parts = { pack("BB", big | random(0, 7) << 1 | random(0, 1) << 4, nr) }
      for i = 0, nr do
        parts[#parts + 1] = pack("<BI4BI4i8i8B", 255, random(0) & random(0) & 0x1ffffff, random(0, 31),
          random(0) & 0xfffff, random(0) & random(0), random(0) & random(0), random(0, 3))
        parts[#parts + 1] = pack("BB", 1, i)
      end
      for _ = 1, random(0, 4) do
        local body = bytes(8 * random(0, 30))
        parts[#parts + 1] = pack(big == 1 and ">I4I2I2" or "<I4I2I2", random(0, 24), random(0, 0xffff), 8 + #body)
        parts[#parts + 1] = body
      end
      check(table.concat(parts))
      check(bytes(random(0, 300)))
    end
  end)
end)

describe("doc/reference.md", function()
  it("lists every field that a record can have", function()
    local file = assert(io.open("doc/reference.md"))
    local text = file:read("a")
    file:close()
    local layouts = core.layouts()
    for _, record in ipairs(layouts.records) do
      assert.truthy(text:find("\n### " .. record.name .. "\n", 1, true), record.name)
      for _, row in ipairs(record.rows) do assert.truthy(text:find("`" .. row.name .. "`", 1, true), row.name) end
    end
    for _, flag in ipairs(layouts.miscs) do assert.truthy(text:find("`" .. flag.name .. "`", 1, true), flag.name) end
  end)
end)
