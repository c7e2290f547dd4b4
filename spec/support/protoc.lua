-- protoc.lua - reads messages with protoc --decode, which knows nothing of our writer.
--
--   local protoc = require "spec.support.protoc"
--   local message = protoc.decode("pprof.proto", "Profile", bytes)    -- field -> list of values
--   protoc.pprof_stacks(bytes), protoc.otlp_stacks(bytes)             -- { "samples/count" = { ["a;b"] = 3 } }

local run = require "spec.support.run"

local M = {}

local escapes = { n = "\n", r = "\r", t = "\t", ['"'] = '"', ["'"] = "'", ["\\"] = "\\" }

local function unquote(text)
  text = text:gsub("\\(%d%d%d)", function(octal) return "\0" .. string.char(tonumber(octal, 8)) end)
  return (text:gsub("\\(.)", escapes):gsub("%z(.)", "%1"))
end

-- protoc's text -> { field = { value, ... } }
local function parse(text)
  local top = {}
  local stack = { top }
  for line in text:gmatch "[^\n]+" do
    local name, rest = line:match "^%s*([%w_]+)(.*)$"
    local message = stack[#stack]
    if not name then
      stack[#stack] = nil
    elseif rest == " {" then
      local inner = {}
      message[name] = message[name] or {}
      table.insert(message[name], inner)
      stack[#stack + 1] = inner
    else
      local value = rest:match "^: (.*)$"
      message[name] = message[name] or {}
      local quoted = value:match '^"(.*)"$'
      table.insert(message[name], quoted and unquote(quoted) or math.tointeger(tonumber(value)) or value)
    end
  end
  return top
end

--- Decodes a message of a file in spec/fixtures/proto.
function M.decode(file, kind, bytes)
  local r = run({ "protoc", "--decode=" .. kind, "-I", "spec/fixtures/proto", file }, { stdin = bytes })
  assert(r.code == 0, r.err)
  return parse(r.out)
end

local function first(message, field) return message[field] and message[field][1] or 0 end

local function add(stacks, kind, names, value)
  stacks[kind] = stacks[kind] or {}
  local folded = table.concat(names, ";")
  stacks[kind][folded] = (stacks[kind][folded] or 0) + value
end

-- The functions of locations, the outermost first. Each location has lines, the innermost first.
local function names_of(locations, name_of)
  local names = {}
  for _, location in ipairs(locations) do
    for _, line in ipairs(location) do table.insert(names, 1, (name_of(line))) end
  end
  return names
end

--- The stacks of a pprof file.
function M.pprof_stacks(bytes)
  local plain = run({ "gzip", "-dc" }, { stdin = bytes })
  assert(plain.code == 0, plain.err)
  local p = M.decode("pprof.proto", "Profile", plain.out)
  local functions, locations, stacks = {}, {}, {}
  for _, f in ipairs(p["function"] or {}) do functions[first(f, "id")] = p.string_table[first(f, "name") + 1] end
  for _, location in ipairs(p.location or {}) do locations[first(location, "id")] = location.line end
  for _, sample in ipairs(p.sample or {}) do
    local list = {}
    for i, id in ipairs(sample.location_id) do list[i] = assert(locations[id], "no such location") end
    local names = names_of(list, function(line) return assert(functions[first(line, "function_id")]) end)
    for i, kind in ipairs(p.sample_type) do
      add(stacks, p.string_table[first(kind, "type") + 1] .. "/" .. p.string_table[first(kind, "unit") + 1], names,
        sample.value[i])
    end
  end
  return stacks, p
end

--- The stacks of a request of OTLP profiles.
function M.otlp_stacks(bytes)
  local request = M.decode("otlp_profiles.proto", "ExportProfilesServiceRequest", bytes)
  local dictionary, stacks = request.dictionary[1], {}
  local function text(index) return assert(dictionary.string_table[index + 1], "no such text") end
  for _, name in ipairs { "mapping", "location", "function", "link", "attribute", "stack" } do
    assert(next(dictionary[name .. "_table"][1]) == nil, "row 0 of " .. name .. "_table is not empty")
  end
  assert(text(0) == "", "the first text is not empty")
  local function name_of(line)
    return text(first(assert(dictionary.function_table[first(line, "function_index") + 1]), "name_strindex"))
  end
  for _, profile in ipairs(request.resource_profiles[1].scope_profiles[1].profiles) do
    local kind = profile.sample_type[1]
    for _, sample in ipairs(profile.samples or {}) do
      local list = {}
      for i, index in ipairs(dictionary.stack_table[first(sample, "stack_index") + 1].location_indices) do
        list[i] = assert(dictionary.location_table[index + 1], "no such location").lines
      end
      add(stacks, text(first(kind, "type_strindex")) .. "/" .. text(first(kind, "unit_strindex")),
        names_of(list, name_of), sample.values[1])
    end
  end
  return stacks, request
end

return M
