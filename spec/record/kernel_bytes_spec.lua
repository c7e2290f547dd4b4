-- Records that a kernel wrote, and their fields: spec/fixtures/vectors/, most of them saved by spec/support/capture.lua
-- with the attr of their event.

local lfs = require "lfs"

local core = require "perfev.core"
local perfev = require "perfev"
local wire = require "spec.support.wire"

local FOLDER = "spec/fixtures/vectors/"

local function load_vectors()
  local list = {}
  for file in lfs.dir(FOLDER) do
    if file:find "%.lua$" then
      local one = dofile(FOLDER .. file)
      for _, vector in ipairs(one[1] and one or { one }) do
        vector.file = file:gsub("%.lua$", "")
        list[#list + 1] = vector
      end
    end
  end
  table.sort(list, function(a, b)
    return a.file < b.file or a.file == b.file and a.what < b.what
  end)
  return list
end

-- The argument of decoder and encode: the attr's fields, or its bytes.
local function spec_of(vector, endian)
  local spec = { endian = endian or vector.endian or "little", arch = vector.arch or "x86_64" }
  if type(vector.attr) == "string" then
    spec.attr = wire.bytes(vector.attr)
  else
    for name, value in pairs(vector.attr) do spec[name] = value end
  end
  return spec
end

-- The same attr for the other byte order: by its fields.
local function swapped_spec(vector)
  local spec = spec_of(vector, "big")
  if spec.attr then
    for name, value in pairs(core.attr_parse(spec.attr, "little")) do spec[name] = value end
    spec.attr = nil
  end
  return spec
end

local vectors = load_vectors()

describe("bytes written by a kernel:", function()
  for _, vector in ipairs(vectors) do
    it(vector.what .. " (" .. vector.file .. ")", function()
      local bytes = wire.bytes(vector.bytes)
      local spec = spec_of(vector)
      local t, after = assert(assert(perfev.decoder(spec)):decode(bytes))
      assert.equal(#bytes + 1, after)
      for name, value in pairs(vector.expect) do assert.same(value, t[name], name) end
      -- no other field, if the list is complete
      if vector.made_by then
        for name, value in pairs(t) do
          local is_the_events = name == "period" and value == (spec.sample_period or 1) -- where the sample has none
          if name ~= "size" and name ~= "number" and name ~= "sample_id" and not is_the_events then
            assert.same(vector.expect[name], value, name)
          end
        end
      end
    end)
  end
end)

describe("every record written by a kernel", function()
  it("is encoded to its original bytes", function()
    for _, vector in ipairs(vectors) do
      local bytes, spec = wire.bytes(vector.bytes), spec_of(vector)
      local t = assert(assert(perfev.decoder(spec)):decode(bytes))
      assert.equal(bytes, perfev.encode(spec, t), vector.what)
      assert.equal(bytes, perfev.encode(spec, vector.made_by and vector.expect or t), vector.what)
    end
  end)

  it("has the same content when a big-endian kernel writes it", function()
    for _, vector in ipairs(vectors) do
      local spec = swapped_spec(vector)
      local t = assert(assert(perfev.decoder(spec_of(vector))):decode(wire.bytes(vector.bytes)))
      local big = perfev.encode(spec, t)
      assert.equal(#wire.bytes(vector.bytes), #big)
      assert.same(t, (assert(perfev.decoder(spec)):decode(big)), vector.what)
      if #big > 8 then assert.not_equal(wire.bytes(vector.bytes), big) end
    end
  end)

  it("is a shorter record or an error when cut at any length", function()
    for _, vector in ipairs(vectors) do
      local bytes, decoder = wire.bytes(vector.bytes), assert(perfev.decoder(spec_of(vector)))
      for len = 0, #bytes - 1 do
        local t, why = decoder:decode(bytes:sub(1, len))
        assert.is_nil(t)
        assert.is_string(why)
        if len >= 8 then
          t, why = decoder:decode(bytes:sub(1, 6) .. string.pack("<I2", len) .. bytes:sub(9, len))
          assert.is_true(t and t.size == len or type(why) == "string")
        end
      end
    end
  end)

  it("covers every type that a kernel without a PMU writes, and each field of a sample", function()
    local types, fields, captured = {}, {}, 0
    for _, vector in ipairs(vectors) do
      types[vector.expect.type] = true
      captured = captured + (vector.made_by and 1 or 0)
      if vector.expect.type == "sample" then
        for name in pairs(vector.expect) do fields[name] = true end
      end
    end
    for _, name in ipairs { "mmap", "lost", "comm", "exit", "throttle", "unthrottle", "fork", "read", "sample", "mmap2",
      "switch", "switch_cpu_wide", "namespaces", "ksymbol", "bpf_event", "cgroup" } do
      assert.is_true(types[name], name)
    end
    for _, name in ipairs { "identifier", "ip", "pid", "tid", "time", "addr", "id", "stream_id", "cpu", "period",
      "read", "callchain", "raw", "regs_user", "stack_user", "weight", "data_src", "transaction", "regs_intr",
      "phys_addr", "cgroup", "data_page_size", "code_page_size", "aux" } do
      assert.is_true(fields[name], name)
    end
    assert.is_true(captured >= 25, captured)
  end)
end)
