-- Frames: encode() and perfev.frames() agree; damage is reported and the next frame is found; every limit holds.

local core = require "perfev.core"
local perfev = require "perfev"
local run = require "spec.support.run"

local frames = perfev.frames
local E = perfev.errno
local c = require "perfev.frame"

local function header(more)
  local h = { host = "db3", start = ("0f"):rep(16), seq = 1, name = "count_by_k", kind = "count" }
  for key, value in pairs(more or {}) do h[key] = value end
  return h
end

local function counted(n, max)
  local a = perfev.count { by = "k", max_keys = max }
  for i = 1, n do a:inc("key" .. i) end
  return a
end

local function encode(a, more, opts)
  local parts = assert(frames.encode(header(more), a, opts))
  return table.concat(parts), parts
end

-- The lines of a header for join().
local function lines(more)
  local h, text = header { part = "1/1" }, ""
  for key, value in pairs(more or {}) do h[key] = value end
  for key, value in pairs(h) do text = text .. key .. "=" .. tostring(value) .. "\n" end
  return text
end

local function join(text, body, raw_len) return assert(c.join(text, body, raw_len)) end

-- A frame of any content.
local function frame_of(raw, more) return join(lines(more), assert(c.compress(raw)), #raw) end

-- Everything that a source gives: frames, and { message, errno } for each damage.
local function read(source)
  local found, damage = {}, {}
  for frame, why, code in frames(source) do
    if frame then found[#found + 1] = frame else damage[#damage + 1] = { why, code } end
  end
  return found, damage
end

local function rows_of(frame)
  local list = {}
  for key, value in assert(frame:value()):pairs() do list[key] = value end
  return list
end

local function seqs(found)
  local list = {}
  for i, frame in ipairs(found) do list[i] = frame.header.seq end
  return list
end

-- A source in pieces of n bytes.
local function pieces(bytes, n)
  local at = 1
  return function()
    local piece = bytes:sub(at, at + n - 1)
    at = at + n
    return piece ~= "" and piece or nil
  end
end

local function set_integer(bytes, at, format, value)
  return bytes:sub(1, at) .. string.pack(format, value) .. bytes:sub(at + 1 + string.packsize(format))
end

describe("a frame", function()
  it("keeps the header and the aggregator, raw and armoured", function()
    local a = counted(100)
    local more = { job = "latency", machine = "m", begin = 1, ["end"] = math.maxinteger, script = "runqlat",
                   args = '["a\\nb"]', lost = 0, refused = 2, late = 3, last = 1, script_sha256 = frames.sha256 "abc" }
    for _, armor in ipairs { false, true } do
      local bytes = encode(a, more, { armor = armor })
      local found, damage = read(bytes)
      assert.same({}, damage)
      assert.equal(1, #found)
      local expected = header(more)
      expected.part, expected.version = "1/1", perfev._VERSION
      assert.same(expected, found[1].header)
      assert.equal(a:pack(), found[1]:value():pack())
      if not armor then assert.equal(bytes, found[1].bytes) end
    end
    assert.equal("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", frames.sha256 "abc")
  end)

  it("keeps keys that this version does not know, and any bytes of a value", function()
    local text = "line\nline\\n\0end"
    local found = read(encode(counted(1), { zone = text, rack = 7 }))
    assert.equal(text, found[1].header.zone)
    assert.equal("7", found[1].header.rack)
  end)

  it("is forwarded unchanged, also if it came armoured", function()
    local bytes = encode(counted(5))
    local found = read(encode(counted(5), {}, { armor = true }))
    assert.equal(bytes, found[1].bytes)
    assert.same(rows_of(read(bytes)[1]), rows_of(found[1]))
  end)

  it("gives its value also after the next frame was read", function()
    local found = read(encode(counted(3)) .. encode(counted(4), { seq = 2 }))
    assert.equal(3, #found[1]:value())
    assert.equal(4, #found[2]:value())
    local one, why, code = found[2]:value { max_bytes = 1 }
    assert.is_nil(one)
    assert.matches("memory", why)
    assert.equal(E.E2BIG, code)
  end)

  it("is found in a string, a file and a function, however the bytes are cut", function()
    local mixed = encode(counted(3)) .. encode(counted(4), { seq = 2 }, { armor = true })
      .. encode(counted(5), { seq = 3 }) .. encode(counted(6), { seq = 4 }, { armor = true })
    local file <close> = assert(io.tmpfile())
    file:write(mixed)
    file:seek "set"
    local cut = { pieces(mixed, 1), pieces(mixed, 7), pieces(mixed, 100), pieces(mixed, 4000) }
    for _, source in ipairs { mixed, file, table.unpack(cut) } do
      local found, damage = read(source)
      assert.same({}, damage)
      assert.same({ 1, 2, 3, 4 }, seqs(found))
      for i, frame in ipairs(found) do assert.equal(2 + i, #frame:value()) end
    end
    assert.error_matches(function() frames(7) end, "frames: a string, an open file or a function expected, not number")
  end)

  it("comes from a reader that is fed as bytes arrive", function()
    local bytes, reader = encode(counted(3)), frames.reader()
    reader:feed(bytes:sub(1, 50))
    assert.is_nil(reader:next())
    reader:feed(bytes:sub(51) .. bytes:sub(1, 10))
    assert.equal(3, #reader:next():value())
    assert.is_nil(reader:next())
    reader:feed(nil)
    local frame, why, code = reader:next()
    assert.is_nil(frame)
    assert.equal(("frames: byte %d: the frame is cut off: 10 bytes of at least 24; 10 bytes are skipped")
      :format(#bytes), why)
    assert.equal(E.EBADMSG, code)
    assert.is_nil(reader:next())
  end)

  it("comes from a reader that was fed much, and then nothing", function()
    local reader, bytes = frames.reader(), encode(counted(3))
    reader:feed(bytes .. ("x"):rep(4 << 20) .. "\n")
    assert.equal(3, #reader:next():value())
    assert.is_nil(reader:next())
    for _ = 1, 3 do reader:feed "" end
    reader:feed(bytes)
    assert.equal(3, #reader:next():value())
  end)

  it("needs a complete and plain header", function()
    local a = counted(1)
    for _, case in ipairs {
      { { start = "12" }, "start is not 32 hexadecimal digits: '12'" },
      { { lost = "7" }, "header.lost must be an integer, not '7'" },
      { { job = {} }, "header.job must be a string or an integer, not table" },
      { { check = "x" }, "'check' is not the name of a header's key" },
      { { ["a b"] = "x" }, "'a b' is not the name of a header's key" },
    } do
      local ok, why = pcall(frames.encode, header(case[1]), a)
      assert.is_false(ok)
      assert.truthy(why:find(case[2], 1, true), why)
    end
    local without = header()
    without.host = nil
    assert.error_matches(function() frames.encode(without, a) end, "frames.encode: the header has no key 'host'")
    local parts, why, code = frames.encode(header { args = ("x"):rep(4096) }, a)
    assert.is_nil(parts)
    assert.matches("^frames.encode: the header has %d+ bytes, more than 4073$", why)
    assert.equal(E.E2BIG, code)
  end)
end)

describe("an aggregator that is too large for a frame", function()
  -- Random keys do not compress.
  local function large(n)
    math.randomseed(n)
    local a = perfev.sum { by = { "k", "n" } }
    for i = 1, n do a:add(i, ("%016x%016x"):format(math.random(0), math.random(0)), i % 7) end
    return a
  end

  local function merged(found)
    local total
    for _, frame in ipairs(found) do
      local value = assert(frame:value())
      total = total and total:merge(value) or value
    end
    return total
  end

  local function rows(a)
    local list = {}
    for k, n, value in a:pairs() do list[k .. n] = value end
    return list
  end

  it("comes in parts within the limits, in any order, repeated, or with one missing", function()
    local a = large(70000)
    local expected = rows(a)
    local bytes, parts = encode(a)
    assert.is_true(#parts > 1)
    for i, part in ipairs(parts) do assert.is_true(#part <= (768 + 4) * 1024, i) end
    local found, damage = read(bytes)
    assert.same({}, damage)
    for i, frame in ipairs(found) do assert.equal(("%d/%d"):format(i, #parts), frame.header.part) end
    assert.same(expected, rows(merged(found)))
    local shuffled = {}
    for i = #parts, 1, -1 do shuffled[#shuffled + 1] = parts[i] end
    assert.same(expected, rows(merged((read(table.concat(shuffled))))))
    -- A part that is cut off is missing as a whole.
    found, damage = read(table.concat(parts, "", 1, #parts - 1) .. parts[#parts]:sub(1, -2))
    assert.equal(#parts - 1, #found)
    assert.matches("the frame is cut off", damage[1][1])
    local rest = rows(merged(found))
    for key, value in pairs(rest) do
      if expected[key] ~= value then error("another value of " .. key) end
    end
    assert.is_true(next(rest) ~= nil and #merged(found) < #a)
  end)

  it("is split by stacks if it is a profile", function()
    math.randomseed(7)
    local p = perfev.profile { values = { { name = "samples", unit = "count" } } }
    for i = 1, 45000 do p:add({ ("%016x%016x"):format(math.random(0), math.random(0)), "f" .. i % 9, "main" }, i) end
    local bytes, parts = encode(p, { kind = "profile" })
    assert.is_true(#parts > 1)
    local total = merged((read(bytes)))
    assert.equal(p:total(), total:total())
    assert.equal(p:folded(), total:folded())
  end)

  it("is refused with E2BIG if one key is too large", function()
    local a = perfev.count { by = "k" }
    math.randomseed(9)
    local long = {}
    for i = 1, 60000 do long[i] = ("%016x"):format(math.random(0)) end
    a:inc "short"
    a:inc(table.concat(long):rep(2, table.concat(long, "x")))
    local parts, why, code = frames.encode(header(), a)
    assert.is_nil(parts)
    assert.equal("frames.encode: a key takes more than 786432 bytes", why)
    assert.equal(E.E2BIG, code)
  end)
end)

describe("armoured frames", function()
  local function armored(n, more) return encode(counted(n), more, { armor = true }) end

  it("survive CRLF, prefixes, quotes, other lines and another width", function()
    local text = armored(40)
    local inner = text:match "\n(.*\n)%-%-%-%-%-END"
    local narrow = text:match "^[^\n]*\n" .. inner:gsub("\n", ""):gsub(("."):rep(19), "%0\n") .. "\n"
      .. text:match "%-%-%-%-%-END.*"
    for _, changed in ipairs {
      text:gsub("\n", "\r\n"), text:gsub("[^\n]+", "node1: %0"), text:gsub("[^\n]+", "> > %0  "),
      "Welcome to node1\n" .. text .. "clush: node2: exited with exit code 1\n", text:sub(1, -2),
      text:gsub("[^\n]+", "node1: %0\r"), narrow, (text:gsub("\n", "\n\n")),
      text:gsub("\n", "\nclush: node7: Connection refused\n", 3), text:sub(1, -2) .. encode(counted(1)),
    } do
      local found, damage = read(changed)
      assert.same({}, damage)
      assert.equal(40, #found[1]:value())
    end
  end)

  it("of several hosts may be mixed line by line", function()
    local hosts, left = {}, 0
    math.randomseed(3)
    for i = 1, 60 do
      hosts[i] = {}
      for line in armored(i, { host = "node" .. i, seq = i }):gmatch "[^\n]+" do
        table.insert(hosts[i], ("node%d: %s\n"):format(i, line))
      end
      left = left + #hosts[i]
    end
    local out = {}
    while left > 0 do
      local host = hosts[math.random(60)]
      if host[1] then
        out[#out + 1], left = table.remove(host, 1), left - 1
      end
    end
    local found, damage = read(table.concat(out))
    assert.same({}, damage)
    assert.equal(60, #found)
    for _, frame in ipairs(found) do
      assert.equal("node" .. frame.header.seq, frame.header.host)
      assert.equal(frame.header.seq, #frame:value())
    end
  end)

  it("are damaged by a missing, a changed, an added line, or no end, and the others are read", function()
    local text, good = armored(40), armored(2, { seq = 2 })
    local list = {}
    for line in text:gmatch "[^\n]+" do list[#list + 1] = line .. "\n" end
    local function without(i) return table.concat(list, "", 1, i - 1) .. table.concat(list, "", i + 1) end
    for _, case in ipairs {
      { without(4), "header is damaged" }, { without(#list - 2), "lines are missing or added" },
      { without(#list), "end line is missing" }, { text:gsub("\n", "\nword\n", 1), "it is not a frame" },
      { list[1] .. list[#list], "lines are missing or added" },
    } do
      local found, damage = read("n1: x\n" .. case[1] .. good)
      assert.same({ 2 }, seqs(found), case[2])
      assert.equal(1, #damage)
      assert.matches("^frames: byte 6: armoured frame: .*" .. case[2], damage[1][1])
      assert.equal(E.EBADMSG, damage[1][2])
    end
    local _, damage = read((without(#list):gsub("[^\n]+", "db3: %0")))
    assert.matches("^frames: byte 0 %(db3: %): armoured frame: its end line is missing", damage[1][1])
  end)

  it("that are too long, or too many at once, are refused in bounded memory", function()
    local begin, stop = "-----BEGIN PERFEV FRAME-----\n", "-----END PERFEV FRAME-----\n"
    local line = ("A"):rep(64) .. "\n"
    local found, damage = read(begin .. line:rep(24000) .. stop .. armored(2))
    assert.equal(1, #found)
    assert.same({ { "frames: byte 0: armoured frame: it is too large", E.E2BIG } }, damage)
    local many = {}
    for i = 1, 1030 do many[i] = i .. ": " .. begin end
    found, damage = read(table.concat(many) .. armored(2))
    assert.equal(0, #found)
    assert.equal(1030 + 1, #damage)
    assert.matches("armoured frame: 1024 are incomplete", damage[1][1])
    assert.equal(E.E2BIG, damage[1][2])
  end)
end)

describe("a reader of frames", function()
  it("names the offset of damage, its length, and goes on at the next frame", function()
    local one, two, three = encode(counted(3)), encode(counted(4), { seq = 2 }), encode(counted(5), { seq = 3 })
    for _, n in ipairs { 1, 13, 1 << 20 } do
      local found, damage = read(pieces(one .. two:sub(1, -2) .. three, n))
      assert.same({ 1, 3 }, seqs(found))
      assert.matches(("^frames: byte %d: its body is damaged: .*; %d bytes are skipped$"):format(#one, #two - 1),
        damage[1][1])
      assert.equal(1, #damage)
      found, damage = read(pieces("\0\1\2" .. one .. "\0" .. three, n))
      assert.same({ 1, 3 }, seqs(found))
      assert.same({ { "frames: byte 0: not a frame; 3 bytes are skipped", E.EBADMSG },
                    { ("frames: byte %d: not a frame; 1 bytes are skipped"):format(3 + #one), E.EBADMSG } }, damage)
    end
  end)

  it("finds the other frames whatever byte of one is changed, added or missing", function()
    local one, two, three = encode(counted(3)), encode(counted(4), { seq = 2 }), encode(counted(5), { seq = 3 })
    for at = 1, #two, run.sanitized and 7 or 1 do
      for _, changed in ipairs { two:sub(1, at - 1) .. string.char(two:byte(at) ~ 0x55) .. two:sub(at + 1),
        two:sub(1, at - 1) .. two:sub(at + 1), two:sub(1, at) .. "\1" .. two:sub(at + 1), two:sub(1, at - 1) } do
        local found, damage = read(one .. changed .. three)
        if not (at == #two and changed:sub(1, #two) == two) then assert.same({ 1, 3 }, seqs(found), at) end
        assert.is_true(#damage <= 1)
        -- A part of the magic number is text, which is ignored between frames.
        if #damage == 0 then assert.is_true(at <= 9 and #changed < 9, at) end
      end
    end
  end)

  it("refuses other versions with EPROTO", function()
    local bytes = encode(counted(1))
    local found, damage = read(set_integer(bytes, 8, "<I2", 2) .. bytes)
    assert.equal(1, #found)
    assert.matches("byte 0: its format is version 2; 1 is known", damage[1][1])
    assert.equal(E.EPROTO, damage[1][2])
  end)

  it("refuses lengths beyond the limits with E2BIG, before it waits for the bytes", function()
    local bytes = encode(counted(1))
    for _, case in ipairs { { 12, 4097, "the header has 4097 bytes, more than 4096" },
      { 16, (768 << 10) + 1, "the body has 786433 bytes, more than 786432" },
      { 20, (64 << 20) + 1, "the content has 67108865 bytes, more than 67108864" },
      { 12, 0xffffffff, "the header has 4294967295 bytes" } } do
      local reader = frames.reader()
      reader:feed(set_integer(bytes, case[1], "<I4", case[2]) .. bytes)
      local frame, why, code = reader:next()
      assert.is_nil(frame)
      assert.truthy(why:find(case[3], 1, true), why)
      assert.equal(E.E2BIG, code)
      assert.truthy(reader:next())
    end
    assert.same({ nil, "the content has 67108865 bytes, more than 67108864", E.E2BIG },
      { c.compress(("x"):rep((64 << 20) + 1)) })
    local none, why, code = c.join("", ("x"):rep((768 << 10) + 1), 5)
    assert.same({ nil, "the body has 786433 bytes, more than 786432", E.E2BIG }, { none, why, code })
  end)

  it("refuses invalid headers", function()
    local raw = counted(1):pack()
    local body = c.compress(raw)
    for _, case in ipairs {
      { lines():gsub("host=db3\n", ""), "the header has no key 'host'" },
      { lines() .. "host=x\n", "the header has the key 'host' twice" },
      { lines { part = "3/2" }, "part is not a number of parts: '3/2'" },
      { lines { part = "0/2" }, "part is not a number of parts: '0/2'" },
      { lines { seq = "1x" }, "seq is not an integer: '1x'" },
      { lines { lost = "99999999999999999999" }, "lost is not an integer: '99999999999999999999'" },
      { lines { start = ("g"):rep(32) }, "start is not 32 hexadecimal digits" },
      { lines() .. "no line", "the header has an invalid line" },
    } do
      local found, damage = read(join(case[1], body, #raw) .. encode(counted(1)))
      assert.equal(1, #found)
      assert.truthy(damage[1][1]:find("frames: byte 0: " .. case[2], 1, true), damage[1][1])
      assert.equal(E.EBADMSG, damage[1][2])
    end
  end)

  it("stops a zstd bomb at the length that its header declares", function()
    local bomb = c.compress(("\0"):rep(60 << 20)) -- 60 MiB of zeros in 2 kB
    assert.is_true(#bomb < 8192)
    -- The declared length differs: refused before anything is decompressed.
    local _, damage = read(join(lines(), bomb, 1000))
    assert.matches("its body is damaged: not 1000 bytes of zstd", damage[1][1])
    -- The body promises 1,000 bytes (in its frame header, RFC 8878 3.1.1.1) and has 60 MiB.
    local small = c.compress(("x"):rep(1000))
    local lying = small:sub(1, 7) .. bomb:sub(11)
    _, damage = read(join(lines(), lying, 1000))
    assert.matches("its body is damaged", damage[1][1])
    -- Within the limit it is content like any other, and not an aggregator.
    local found = read(join(lines(), bomb, 60 << 20))
    local value, why, code = found[1]:value()
    assert.is_nil(value)
    assert.matches("^unpack: ", why)
    assert.equal(E.EBADMSG, code)
    -- Two zstd frames in a body.
    _, damage = read(join(lines(), small .. small, 1000))
    assert.matches("its body is damaged", damage[1][1])
  end)

  it("refuses an aggregator that promises 2^40 keys", function()
    local empty = perfev.count { by = "k" }:pack()
    local at = #empty - 8 - 6 -- of the number of keys: then other, two fields, memory, undecided, unfit
    local many = empty:sub(1, at - 1) .. "\x80\x80\x80\x80\x80\x80\x01" .. empty:sub(at + 1, -9)
    many = many .. string.pack("<i8", core.pack_sum(many .. "12345678", #many))
    local found = read(frame_of(many))
    local value, why, code = found[1]:value()
    assert.is_nil(value)
    assert.matches("of 4398046511104 is invalid", why)
    assert.equal(E.EBADMSG, code)
  end)

  it("reports a source without any frame, and nothing for an empty one", function()
    assert.same({ {}, {} }, { read "" })
    local found, damage = read "not what you think\nat all\n"
    assert.same({ {}, { { "frames: no frame in 26 bytes", E.EBADMSG } } }, { found, damage })
  end)

  it("passes on an error of the source", function()
    local bytes = encode(counted(1))
    local calls = 0
    local found, damage = read(function()
      calls = calls + 1
      if calls == 1 then return bytes end
      return nil, "pipe: Input/output error", E.EIO
    end)
    assert.equal(1, #found)
    assert.same({ { "pipe: Input/output error", E.EIO } }, damage)
  end)
end)
