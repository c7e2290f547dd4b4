--- perfl budget: checks what commands do against the limits of a file, and updates the file.

local args = require "perfev.tool.args"
local budget = require "perfev.budget"
local budget_file = require "perfev.budget.budget_file"
local command_line = require "perfl.command_line"
local core = require "perfev.core"
local event = require "perfev.event.declaration"
local escape = require "perfev.base.escape"
local message = require "perfl.message"
local native = require "perfl.core"
local output = require "perfl.output"
local reports = require "perfl.budget.reports"
local result = require "perfev.budget.result"
local verb = require "perfl.verb"

local M = {}

local FAILED = 1
local E = core.errno

local declaration = args.check {
  summary = "Check how many system calls, page faults and other counted events a command makes against the limits in "
    .. "FILE. The command follows --; without one, the sections' own commands run.",
  { "FILE", help = "the file of budgets" },
  { "--name", metavar = "NAME", help = "the section of FILE; default: the only one, or the command's name" },
  { "--update", help = "accept what the command does now: change the limits that do not hold, print each change, and "
    .. "keep the counts; makes the file and the section if missing" },
  { "--stacks", help = "with --update: also keep the counts by stack" },
  { "--format", choices = { "text", "tap", "junit" }, default = "text", metavar = "FORMAT",
    help = "text, tap, or junit" },
  { "-o --output", metavar = "FILE", help = "write the report to FILE" },
  { "--strict", help = "fail if this user or machine cannot count an event" },
  { "--call-graph", default = "dwarf,2048", metavar = "HOW", help = "how to take stacks: dwarf[,BYTES], fp, or none" },
  { "-m --buffer", metavar = "SIZE", help = "the size of each CPU's ring" },
  epilog = [[
Exit status: 0 if all limits hold, 1 if one does not or a command failed, 2 for
an invalid command line or file, 128 + N if signal N came.
Example: perfl budget budgets.txt --name parse --update -- ./parse sample.json]],
}

-- ---- the command line ----

local function parse(words)
  local head, command = command_line.split_at_dashes(words)
  local parser = args.new_parser("perfl budget"):add_help(true):description(declaration.summary)
    :usage("Usage: perfl budget [options] FILE [-- command args...]"):epilog(declaration.epilog)
  args.add(parser, declaration)
  local found, status = verb.parse(parser, "budget", head)
  if not found then return nil, status end
  local opts = args.values(declaration, found)
  if command and #command == 0 then
    return verb.refuse("budget", "no command after --\ntry: perfl budget FILE -- COMMAND")
  end
  if opts.stacks and not opts.update then
    return verb.refuse("budget", "--stacks: belongs to --update\ntry: --update --stacks")
  end
  if opts.name and opts.name ~= budget_file.section_name(opts.name) then
    return verb.refuse("budget", ("--name '%s': a section's name has no brackets, # and control characters\n"
      .. "try: --name %s"):format(escape(opts.name), escape(budget_file.section_name(opts.name))))
  end
  local ok, why, remedy = event.callchain(opts.call_graph)
  if opts.call_graph ~= "none" and not ok then
    return verb.refuse("budget", ("--call-graph: %s\ntry: %s, or none"):format(why, remedy))
  end
  return opts, command
end

local function basename(path) return path:match "[^/]*$" end

-- The words of a `command` line: separated by blanks, quoted as in a shell, without expansions, up to a comment.
local function split_words(text)
  local words, word, quote, escaped = {}, nil, nil, false
  for c in text:gmatch "." do
    if escaped then
      word, escaped = (word or "") .. c, false
    elseif c == "\\" and quote ~= "'" then
      escaped = true
    elseif quote then
      if c == quote then quote = nil else word = word .. c end
    elseif c == "#" and not word then
      break
    elseif c == "'" or c == '"' then
      quote, word = c, word or ""
    elseif c:find "%s" then
      words[#words + 1], word = word, nil
    else
      word = (word or "") .. c
    end
  end
  words[#words + 1] = word
  return not quote and not escaped and words or nil
end

-- ---- what to run ----

local function unknown_section(file, name)
  local names = file:names()
  return ("%s has no section [%s]%s\ntry: --name %s, or --update to make it"):format(escape(file.path), escape(name),
    file:hint(name), escape(names[1] or "NAME"))
end

local function default_name(file, command)
  local own = budget_file.section_name(basename(command[1]))
  if file:section(own) or #file.sections ~= 1 then return own end
  return file.sections[1].name
end

-- -> { { name =, argv = } ... } | nil, message
local function plan(file, opts, command)
  if command then
    local name = opts.name or default_name(file, command)
    if not file:section(name) and not opts.update then return nil, unknown_section(file, name) end
    return { { name = name, argv = command } }
  end
  local list = {}
  for _, section in ipairs(file.sections) do
    if section.command and (not opts.name or opts.name == section.name) then
      local argv = split_words(section.command)
      if not argv then
        return nil, ("%s: section [%s]: a quote is open: %s\ntry: command ./program 'two words'"):format(
          escape(file.path), escape(section.name), escape(section.command))
      end
      list[#list + 1] = { name = section.name, argv = argv }
    end
  end
  if list[1] then return list end
  if opts.name and not file:section(opts.name) then return nil, unknown_section(file, opts.name) end
  local path, name = escape(file.path), opts.name and " --name " .. escape(opts.name) or ""
  return nil, ("%s: no command is given\ntry: perfl budget %s%s -- COMMAND, or a line 'command ./program' in a section")
    :format(path, path, name)
end

-- The limits of a section, or what a new section counts.
local function limits_of(section)
  local limits = {}
  if not section or #section.order == 0 then
    return { syscalls = "any", ["page-faults"] = "any", ["instructions:u"] = "any" }
  end
  for name, text in pairs(section.limits) do limits[name] = text end
  return limits
end

local function make_budget(file, name, opts)
  local section = file:section(name)
  local spec = limits_of(section)
  spec.unstable, spec.name, spec.strict = section and section.unstable or nil, name, opts.strict or nil
  spec.buffer, spec.stacks = opts.buffer, opts.call_graph ~= "none" or false
  local ok, made = pcall(budget._new, spec, 0)
  if not ok then return nil, ("%s: section [%s]: %s"):format(file.path, name, made) end
  made.opts.callchain = opts.call_graph
  made.baseline = section and section.baseline
  return made
end

-- ---- updates ----

local function initial_limits(one)
  local entries = {}
  for _, row in ipairs(one.rows) do
    if row.count and row.name == "page-faults" then
      entries[#entries + 1] = { row.name, ("<= %d"):format(math.ceil(row.count * 1.25)) }
    elseif row.count and row.name == "instructions:u" then
      entries[#entries + 1] = { row.name, ("%d ± 2%%"):format(row.count) }
    elseif row.count then
      entries[#entries + 1] = { row.name, ("<= %d"):format(row.count) }
    end
  end
  table.sort(entries, function(a, b) return a[1] > b[1] end)
  return entries
end

-- The first row without which the counts cannot be accepted. A machine without a PMU can update the others.
local function has_failed(one, section)
  for _, row in ipairs(one.rows) do
    local is_needed = not row.ok or section and not row.is_counter
    if row.name == "command" or not row.count and is_needed then return row end
  end
end

-- Accepts a result -> true | nil, message
local function update(file, name, one, opts)
  local failed = has_failed(one, file:section(name))
  if failed then
    return nil, ("[%s] is not updated: %s"):format(escape(name), result.on_one_line(failed.why))
  end
  local section = file:section(name)
  local changes = {}
  if not section then
    file:add_section(name, initial_limits(one))
    for _, limit in ipairs(file:section(name).order) do
      changes[#changes + 1] = ("%s: %s (new)"):format(limit, file:section(name).limits[limit])
    end
  end
  for _, change in ipairs(file:update(name, one, { limits = true, stacks = opts.stacks })) do
    changes[#changes + 1] = change
  end
  for _, change in ipairs(changes) do message.say(("[%s] %s"):format(escape(name), escape(change))) end
  if #changes == 0 then message.say(("[%s] all limits hold; none is changed"):format(escape(name))) end
  return true
end

-- ---- the verb ----

local function read_file(opts)
  local file, why, code = budget_file.read(opts.FILE)
  if file then return file end
  if code == E.ENOENT and opts.update then return budget_file.new(opts.FILE) end
  local remedy = code == E.ENOENT and ("\ntry: perfl budget %s --update -- COMMAND"):format(escape(opts.FILE)) or ""
  return verb.refuse("budget", why .. remedy)
end

local function log(level, text)
  if level == 0 then message.say(text) end
end

-- Measures one section -> { name =, result = or why = }, the budget's refusal
local function measure(file, one, opts)
  local made, why = make_budget(file, one.name, opts)
  if not made then return nil, why end
  made.opts.log, made.opts.on_signal = log, { native.signal_fd(), native.heed }
  local found, reason = made:measure_command(one.argv)
  return { name = one.name, result = found, why = reason }
end

local function run_all(file, opts, command)
  local list, why = plan(file, opts, command)
  if not list then return verb.refuse("budget", why) end
  local sections, is_ok = {}, true
  for i, one in ipairs(list) do
    sections[i], why = measure(file, one, opts)
    local number = native.signal()
    if number then
      message.say(("signal %d: [%s] was not measured to its end"):format(number, escape(one.name)))
      return nil, 128 + number
    end
    if not sections[i] then return verb.refuse("budget", why) end
    is_ok = is_ok and sections[i].result ~= nil and sections[i].result.ok
  end
  return sections, is_ok
end

local function update_all(file, sections, opts)
  local is_ok, is_changed = true, false
  for _, section in ipairs(sections) do
    local ok, why = nil, section.why
    if section.result then ok, why = update(file, section.name, section.result, opts) end
    if not ok then message.say(why) end
    is_ok, is_changed = is_ok and ok, is_changed or ok
  end
  if not is_changed then return FAILED end
  local written, why = file:write()
  if written then return is_ok and 0 or FAILED end
  message.say(escape(why))
  return FAILED
end

-- On standard output a report for a parser is alone: what the commands print goes to standard error.
local function open_report(opts)
  if opts.output then return output.redirect(opts.output) end
  if opts.format == "text" or opts.update then return true end
  local out, why = native.take_stdout "text"
  if not out then return nil, why end
  io.output(out)
  return true
end

--- The verb.
-- @tparam {string,...} words  after `budget`
-- @treturn integer            exit status
function M.main(words)
  local opts, command = parse(words)
  if not opts then return command end
  local file, status = read_file(opts)
  if not file then return status end
  local ok, why = open_report(opts)
  if not ok then
    message.say(why)
    return FAILED
  end
  local sections, is_ok = run_all(file, opts, command)
  if not sections then return is_ok end
  if opts.update then return update_all(file, sections, opts) end
  io.write(reports[opts.format](sections))
  return is_ok and 0 or FAILED
end

return M
