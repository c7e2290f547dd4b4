-- Each print format of this kernel, and of each guest that runs the live specs, gives libtraceevent's text.

local core = require "perfev.core"
local kernel_formats = require "spec.support.kernel_formats"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local traceevent = require "spec.support.traceevent"

local FILLS = { 0, 1, 0x41, 0xff }

-- libtraceevent 1.7.1 misreads these; spec/tracepoint/print_plan_spec.lua has the correct text.
local misread = {
  ["timer:timer_start"] = "flags & (a | b)", ["kmem:mm_page_alloc_extfrag"] = "a < b - c",
  ["kvm:kvm_nested_vmenter"] = "!a ? b : c == d ? e : f", ["kvm:kvm_inj_exception"] = "{ }",
}
-- Misread too: characters, sizes of the kernel's types, negative constants in lists. Lengths that the payload gives:
-- libtraceevent does not check them.
local patterns = {
  "'.'", "sizeof%(__[us]%d", "sizeof%([us]%d", "{ *%-", "__print_hex", "__print_array", "%%[%-%.]?%*",
}

local function is_comparable(format)
  local print_format = format.text:match "print fmt: .*"
  for _, pattern in ipairs(patterns) do
    if print_format:find(pattern) then return false end
  end
  return not misread[format.system .. ":" .. format.name]
end

describe("the print formats of this kernel", function()
  it("are printed as libtraceevent prints them, empty ones included", function()
    requires("root", "tracefs")
    local library, why_not = traceevent.load()
    if not library then return pending(why_not) end
    local compared, empty, wrong = 0, 0, {}
    for _, format in ipairs(kernel_formats.all()) do
      empty = empty + (format.text:find 'print fmt: ""\n' and 1 or 0)
      for _, fill in ipairs(is_comparable(format) and FILLS or {}) do
        local bytes = kernel_formats.payload(format.text, fill)
        local got = tostring(assert(core.payload(format.system, format.text, bytes)))
        local expected = not got:find "^%[FAILED TO PARSE%]" and library.print(format.text, bytes)
        compared = compared + (expected and 1 or 0)
        if expected and expected ~= got then
          wrong[#wrong + 1] = ("%s:%s of %#x:\n%s\n%s"):format(format.system, format.name, fill, expected, got)
        end
      end
    end
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(compared > 300 * #FILLS)
    assert.is_true(empty > 0)
  end)

  it("are understood, except those that call functions of the kernel", function()
    requires("root", "tracefs")
    local failed = {}
    for _, format in ipairs(kernel_formats.all()) do
      local print_format = format.text:match "print fmt: (.*)"
      local text = tostring(core.payload(format.system, format.text, kernel_formats.payload(format.text, 0)))
      local calls = print_format:find "%f[%w_][a-z][%w_]*%(" or print_format:find "%({" or print_format:find "%)%["
      if text:find "^%[FAILED TO PARSE%]" and not calls then
        failed[#failed + 1] = format.system .. ":" .. format.name
      end
    end
    assert.equal("", table.concat(failed, "\n"))
  end)
end)
