-- JSON of untrusted names: valid, exact, and without bytes that a terminal executes.

local json = require "perfev.base.json"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local read = require "spec.support.json"
local run = require "spec.support.run"
local stat = require "perfev.tool.stat.output"

-- C1 controls, the marks that turn the direction of text, those that end a line.
local unsafe = { 0x061c, 0x200e, 0x200f, 0x2028, 0x2029 }
for _, range in ipairs { { 0x7f, 0x9f }, { 0x202a, 0x202e }, { 0x2066, 0x2069 } } do
  for code = range[1], range[2] do unsafe[#unsafe + 1] = code end
end

local HOSTILE = "a\u{9b}2J\u{202e}b" -- 16 bytes of comm have room for it

local function check_visible(text)
  assert.is_truthy(utf8.len(text))
  assert.equal(text:gsub("\n", ""), perfev.escape((text:gsub("\n", ""))))
end

describe("json", function()
  it("writes controls and direction marks as \\uNNNN", function()
    for _, code in ipairs(unsafe) do
      local text = "é" .. utf8.char(code) .. "€"
      assert.equal(('"é\\u%04x€"'):format(code), json.encode(text))
      assert.equal(text, read.decode(json.encode(text)))
    end
  end)

  it("leaves all other characters as they are", function()
    local text = "é 名前 😀 \u{a0}\u{200b}\u{2010}\u{2030}\u{2065}\u{206a}\u{10ffff}"
    assert.equal('"' .. text .. '"', json.encode(text))
  end)

  it("writes the bytes of text that is not UTF-8 as Latin-1", function()
    assert.equal('"\\u00ff\\u00c2\\u009b"', json.encode "\xff\u{9b}")
  end)

  it("escapes the names of an object as its values", function()
    assert.equal('{"\\u202e":"\\u009b"}', json.encode { ["\u{202e}"] = "\u{9b}" })
  end)
end)

describe("a hostile name is visible in JSON written", function()
  local function printed(write)
    local lines, print_before = {}, print
    _G.print = function(line) lines[#lines + 1] = line end
    local ok, why = pcall(write)
    _G.print = print_before
    assert(ok, why)
    return table.concat(lines, "\n")
  end

  it("by an aggregator", function()
    local count = perfev.count { by = "comm", title = HOSTILE, unit = HOSTILE }
    count:add(1, HOSTILE)
    local text = printed(function() count:print "json" end)
    check_visible(text)
    assert.same({ comm = HOSTILE, title = HOSTILE, unit = HOSTILE, value = 1 }, read.decode(text))
  end)

  it("by a profile", function()
    for _, format in ipairs { "speedscope", "firefox", "html" } do
      local profile = perfev.profile { title = HOSTILE, values = { HOSTILE } }
      profile:add_under(HOSTILE, { HOSTILE })
      check_visible(profile[format](profile))
    end
  end)

  it("by perfl stat", function()
    local rows = { { name = HOSTILE, unit = HOSTILE, value = 1, supported = true, enabled = 1, running = 1 } }
    local text = printed(function() stat.write(stat.writer(true), rows, 1e6) end)
    check_visible(text)
    assert.equal(HOSTILE, read.decode(text).event)
  end)

  it("by perfl dump -j", function()
    local attr = { type = 1, config = 0, sample_period = 1, sample_id_all = true,
                   sample_type = { "identifier", "tid", "time", "cpu" } }
    local built = perfdata.new { events = { { attr = attr, ids = { 5 }, name = HOSTILE } } }
    built:add { type = "comm", pid = 7, tid = 7, comm = HOSTILE,
                sample_id = { pid = 7, tid = 7, time = 1, cpu = 0, identifier = 5 } }
    built:add { type = "sample", identifier = 5, pid = 7, tid = 7, time = 2, cpu = 0 }
    local result = run({ run.perfl, "dump", "-j", "-" }, { stdin = built:file { [12] = built:event_desc() } })
    assert.equal(0, result.code, result.err)
    check_visible(result.out)
    local names = {}
    for line in result.out:gmatch "[^\n]+" do names[#names + 1] = read.decode(line).comm end
    assert.same({ HOSTILE, HOSTILE }, names)
  end)
end)
