-- Each print format of this kernel, and of each guest that runs the live specs: what a plan prints is what
-- libtraceevent prints.

local core = require "perfev.core"
local kernel_formats = require "spec.support.kernel_formats"
local requires = require "spec.support.requires"(function(why) pending(why) end)

local FILLS = { 0, 1, 0x41, 0xff }

local function printed(format, bytes, planned)
  return tostring(assert(core.payload(format.system, format.text, bytes, { planned = planned })))
end

describe("the print formats of this kernel", function()
  it("are printed by plans as libtraceevent prints them, the empty ones too", function()
    requires("root", "tracefs")
    local formats, empty, wrong = kernel_formats.all(), 0, {}
    for _, format in ipairs(formats) do
      empty = empty + (format.text:find 'print fmt: ""\n' and 1 or 0)
      for _, fill in ipairs(FILLS) do
        local bytes = kernel_formats.payload(format.text, fill)
        local expected, got = printed(format, bytes, false), printed(format, bytes, true)
        if expected ~= got then
          wrong[#wrong + 1] = ("%s:%s of %#x:\n%s\n%s"):format(format.system, format.name, fill, expected, got)
        end
      end
    end
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(#formats > 300)
    assert.is_true(empty > 0)
  end)
end)
