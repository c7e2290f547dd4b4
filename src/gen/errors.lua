-- errors.lua - writes doc/errors.md from the cases of spec/tree/error_messages_spec.lua:
--   lua5.4 src/gen/errors.lua > doc/errors.md

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
package.cpath = package.cpath .. ";build/?.so"

local refusals = require "spec.support.refusals"
local remedies = require "spec.support.remedies"

local out = {}
local function line(text) out[#out + 1] = text end

local introduction = [[
# Error messages

Each message has the failed operation in your own words, one cause and one
remedy. The kernel itself only returns an errno, and EINVAL alone has some sixty
causes. perfev finds the cause in three steps. It checks the attr against the
kernel's rules for EINVAL. It reads sysctls, capabilities, limits and sysfs. It
asks the kernel again, without one requested feature at a time, newest first.

A mistake in a script raises an error without an errno. `perfl doctor` reports
the rights of this user on this machine beforehand.

This page is generated from the specs: each message is produced on a simulated
kernel, and its remedy is applied there and accepted. Where that is not
possible, a line gives the reason.]]

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
