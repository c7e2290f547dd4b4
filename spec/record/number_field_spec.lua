-- Numbers of samples, read at offsets that are computed once, equal those that a view looks up: in both byte orders, at
-- any width and offset.

local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"

local TYPES = { "s8", "u8", "s16", "u16", "int", "u32", "s64", "u64" }
local PACKED = { s8 = "i1", u8 = "I1", s16 = "i2", u16 = "I2", int = "i4", u32 = "I4", s64 = "i8", u64 = "i8" }
local OF_SAMPLES = { "tid", "cpu", "time", "period" }

-- The widest last: then the first is not where a word could begin.
local function format_text()
  local lines, at = { "name: b\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;" }, 8
  for _, name in ipairs(TYPES) do
    local size = string.packsize("<" .. PACKED[name])
    lines[#lines + 1] = ("\tfield:%s f_%s;\toffset:%d;\tsize:%d;\tsigned:%d;"):format(name, name, at, size,
      PACKED[name]:find "^i" and name ~= "u64" and 1 or 0)
    at = at + size
  end
  return table.concat(lines, "\n") .. '\n\nprint fmt: "%d", REC->f_int\n', at
end

local function values(random)
  local list = {}
  for i, name in ipairs(TYPES) do
    local bits = 8 * string.packsize("<" .. PACKED[name])
    local any = random() & (bits == 64 and -1 or (1 << bits) - 1)
    list[i] = PACKED[name]:find "^i" and bits < 64 and any >> (bits - 1) == 1 and any - (1 << bits) or any
  end
  return list
end

-- A recording of so many samples; each third has a payload that ends before its last two fields.
local function recording(endian, types, nr)
  local state = 88172645463325252
  local function random()
    state = state ~ state << 13
    state = state ~ state >> 7
    state = state ~ state << 17
    return state
  end
  local text = format_text()
  local built = perfdata.new { endian = endian, events = { { name = "a:b", ids = { 1 },
    attr = { type = 2, config = 7, sample_type = types, sample_id_all = true } } } }
  local pattern = {}
  for i, name in ipairs(TYPES) do pattern[i] = PACKED[name] end
  for i = 1, nr do
    local raw = built:pack("I2I2i4", 7, 0, 0) .. built:pack(table.concat(pattern), table.unpack(values(random)))
    if i % 3 == 0 then raw = raw:sub(1, -17) end
    built:add { type = "sample", identifier = 1, time = 1000 + i, pid = 5, tid = -i % 7 - 1, cpu = i % 3,
                period = random(), callchain = { raw = { 1, 2 } }, raw = raw }
  end
  return built:file { [1] = built:tracing_data("a", text) }
end

-- Every field of every sample: by a view, as arguments, and by how many have which value.
local function read(bytes)
  local names, keys, viewed, passed, counted = {}, {}, {}, {}, {}
  for _, name in ipairs(OF_SAMPLES) do names[#names + 1] = name end
  for _, name in ipairs(TYPES) do names[#names + 1] = "args.f_" .. name end
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "wb"))
  file:write(bytes):flush()
  do
    local s <close> = perfev.session { input = path }
    s:event { "a:b", sample = function(r, args)
      local list = {}
      for i, name in ipairs(names) do
        local field = name:match "^args%.(.*)"
        list[i] = tostring(field and args[field] or not field and r[name] or nil)
      end
      viewed[#viewed + 1] = table.concat(list, " ")
    end }
    s:event { "a:b", fields = names, sample = function(...)
      local list = table.pack(...)
      for i = 1, list.n do list[i] = tostring(list[i]) end
      passed[#passed + 1] = table.concat(list, " ")
    end }
    for i, name in ipairs(names) do
      keys[i] = perfev.count { by = name }
      s:event { "a:b", sample = keys[i] }
    end
    assert(s:run())
  end
  os.remove(path)
  for i, agg in ipairs(keys) do
    counted[i] = {}
    for key, n in agg:pairs() do counted[i][tostring(key)] = n end
  end
  return names, viewed, passed, counted
end

describe("a numeric field of a sample", function()
  local made = {
    { "at a fixed offset", { "identifier", "tid", "time", "cpu", "period", "raw" } },
    { "behind a variable field", { "identifier", "tid", "time", "cpu", "period", "callchain", "raw" } },
  }
  for _, endian in ipairs { "little", "big" } do
    for _, kind in ipairs(made) do
      it(("%s, %s-endian, is the same as in a view"):format(kind[1], endian), function()
        local names, viewed, passed, counted = read(recording(endian, kind[2], 150))
        assert.equal(150, #viewed)
        assert.same(viewed, passed)
        for i = 1, #names do
          local wanted = {}
          for _, line in ipairs(viewed) do
            local at = 0
            for word in line:gmatch "%S+" do
              at = at + 1
              if at == i and word ~= "nil" then wanted[word] = (wanted[word] or 0) + 1 end
            end
          end
          assert.same(wanted, counted[i], names[i])
        end
        assert.truthy(viewed[3]:find(" nil nil$"))
        assert.falsy(viewed[1]:find "nil")
      end)
    end
  end
end)
