-- errors.lua - doc/errors.md, out of the cases that spec/tree/error_messages_spec.lua proves:
--   lua5.4 src/gen/errors.lua > doc/errors.md

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
package.cpath = package.cpath .. ";build/?.so"

local refusals = require "spec.support.refusals"
local remedies = require "spec.support.remedies"

local out = {}
local function line(text) out[#out + 1] = text end

local introduction = [[
# What cannot work, and what perfev says

Each message says what failed in your own words, why, found by looking, and what
to do about it: one cause, one remedy. The kernel's own answer is an errno, and
EINVAL alone has some sixty causes. So the attr is first held against the rules
that the kernel answers with EINVAL; then what can be read is read (sysctls,
capabilities, limits, sysfs); then the kernel is asked again, without one thing
after the other that the event asks for, newest first.

What is a mistake in a script raises, and has no errno; `perfl doctor` tells
beforehand what this user may do on this machine.

This page is made of the specs: every message below is what its spec reads, on a
simulated kernel, and what it advises is done there and accepted. Where that
cannot be, a line says why.]]

line(introduction)
for _, chapter in ipairs(refusals.chapters) do
  line ""
  line("## " .. chapter[1])
  for i = 2, #chapter do
    local case = chapter[i]
    line ""
    line("### " .. case[1])
    line ""
    line("    " .. case.input)
    line ""
    line "```"
    line((case.run()))
    line "```"
    local remedy = remedies[chapter[1]][case[1]]
    if type(remedy) == "string" then
      line ""
      line(("No spec follows it: %s."):format(remedy))
    end
  end
end

io.write(table.concat(out, "\n"), "\n")
