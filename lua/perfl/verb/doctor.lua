--- perfl doctor: prints on one screen what this user may do with perf on this machine.

local args = require "perfev.tool.args"
local doctor = require "perfev.live.doctor"
local escape = require "perfev.base.escape"
local json = require "perfev.base.json"
local verb = require "perfl.verb"

local M = {}

local FAILED = 1
local WIDTH = 80

local function mark(ok) return ok and "✔" or "✘" end

-- Prints a line cut to the screen's width; -j prints the whole text.
local function print_line(lead, text)
  local room = WIDTH - utf8.len(lead)
  text = escape(text)
  if #text > room then text = text:sub(1, room - 3) .. "..." end
  io.write(((lead .. text):gsub("%s+$", "")), "\n")
end

local function print_title(found)
  local k, u = found.kernel, found.user
  print_line("", ("Linux %s, %d CPU%s, perf_event_paranoid %s, uid %s%s%s"):format(k.release or "?", k.cpus,
    k.cpus == 1 and "" or "s", k.paranoid or "?", u.uid or "?", u.seccomp and ", seccomp" or "",
    k.lockdown and ", lockdown " .. k.lockdown or ""))
end

local function print_rights(found)
  io.write(("%-28s%-6s%-13s%s\n"):format("who may watch", "root", "CAP_PERFMON", "you"))
  local fix
  for _, right in ipairs(found.rights) do
    local lead = ("%-28s%s     %s            %s  "):format(right.name, mark(right.root), mark(right.perfmon),
      mark(right.you))
    print_line(lead, right.why or "")
    fix = fix or right.fix
  end
  if fix then print_line("  fix: ", fix) end
end

-- Prints a check with its fix on one line; if both do not fit, the fix alone.
local function print_check(check)
  local lead = ("%s %-15s"):format(mark(check.ok), check.name)
  if not check.fix then return print_line(lead, check.text) end
  local whole = ("%s; fix: %s"):format(check.text, check.fix)
  if utf8.len(lead) + #whole > WIDTH then whole = "fix: " .. check.fix end
  print_line(lead, whole)
end

local function print_screen(found)
  print_title(found)
  print_rights(found)
  local pmus = #found.pmus > 0 and table.concat(found.pmus, " ") or "none"
  print_line(("%s %-15s"):format(mark(#found.pmus > 0), "PMUs"), pmus)
  for _, check in ipairs(found.checks) do print_check(check) end
  local job = found.default_job
  print_line(("%s %-15s"):format(mark(job.ok), "default job"), job.text)
  if not job.ok then print_line("  fix: ", job.fix or "perfl doctor -j has details") end
end

local declaration = args.check {
  summary = "Report what this user may do with perf on this machine, and how to get what is missing.",
  { "-j", help = "print JSON" },
  epilog = "Exit status: 0 if this user can sample a command, else 1.",
}

--- The verb.
-- @tparam {string,...} words  after `doctor`
-- @treturn integer            exit status
function M.main(words)
  local parser = args.new_parser("perfl doctor"):add_help(true):description(declaration.summary)
    :epilog(declaration.epilog)
  args.add(parser, declaration)
  local opts, status = verb.parse(parser, "doctor", words)
  if not opts then return status end
  local found = doctor.look()
  if opts.j then
    io.write(json.encode(found), "\n")
  else
    print_screen(found)
  end
  return found.default_job.ok and 0 or FAILED
end

return M
