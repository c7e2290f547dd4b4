--- perfl describe: the options, events, rights and output columns of a script, for people and for programs.
-- The runner runs the script up to its session, as with --dry-run, and passes what the script declared.

local aggregator = require("perfev.base.lazy_module") "perfev.aggregate.aggregator"
local args = require "perfev.tool.args"
local exported = require("perfev.base.lazy_module") "perfev.aggregate.exported"
local escape = require "perfev.base.escape"
local host = require "perfev.base.host_rights"
local json = require "perfev.base.json"
local message = require "perfl.message"

local M = {}

local declaration = args.check {
  summary = "Describe a script: its options, the events that it opens, the rights that these need, and its output.",
  { "script", metavar = "SCRIPT", help = "the script, by name or path, with its own options and arguments" },
  { "-j --json", help = "print a JSON object" },
  epilog = [[
The script runs up to the start of its session, which does not start, as with
--dry-run. Without a target it is described for the whole machine (-a). Exit
status: 0, or 1 if an event is not available here.]],
}

--- Splits the words after `describe`.
-- @treturn[1] {string,...}  the words of the script
-- @treturn[1] string        "json" or "text"
-- @treturn[2] nil
-- @treturn[2] string        the help text
function M.split(words)
  local own, how = {}, "text"
  for i, word in ipairs(words) do
    if word == "--" then
      table.move(words, i, #words, #own + 1, own)
      break
    elseif word == "-h" or word == "--help" then
      local parser = args.new_parser("perfl describe"):description(declaration.summary):epilog(declaration.epilog)
      args.add(parser, declaration)
      return nil, parser:usage("Usage: perfl describe [-j] SCRIPT [script args]"):get_help() .. "\n"
    elseif word == "-j" or word == "--json" then
      how = "json"
    else
      own[#own + 1] = word
    end
  end
  return own, how
end

-- ---- what there is ----

local function option_object(option)
  return { name = option.name, flags = option.flags, type = option.switch and "switch" or option.kind,
    default = option.default, help = option.help, choices = option.choices,
    metavar = not option.switch and option.metavar or nil,
    required = option.flags and option.required or not option.flags and option.least > 0 or nil,
    many = option.many or option.most > 1 or nil }
end

-- The opening comment of a script: a sentence, and lines "perfl ...", each with a remark after two blanks or none.
local function parse_header(text, name)
  local about, examples = {}, {}
  for line in (text or ""):gmatch "[^\n]+" do
    local command, remark = line:match "^(perfl .-)%s%s+(.+)$"
    command = command or line:match "^perfl .*$"
    if command then
      examples[#examples + 1] = { command = command, remark = remark }
    else
      about[#about + 1] = line
    end
  end
  about = table.concat(about, " ")
  if about:sub(1, #name + 2) == name .. ": " then about = about:sub(#name + 3) end
  return about ~= "" and about or nil, examples
end

local function output_object(spec)
  return { kind = spec.kind, title = spec.title, unit = spec.unit, columns = spec.by,
    values = aggregator.value_names(spec) }
end

-- What the script prints, as far as it is declared: its tables, aggregators and profiles.
local function outputs()
  local list, tool = {}, package.loaded["perfev.tool"]
  for _, columns in ipairs(tool and tool._tables or {}) do
    local names = {}
    for i, column in ipairs(columns) do names[i] = column.title or column[1]:upper() end
    list[#list + 1] = { kind = "table", columns = names, values = {} }
  end
  for _, one in ipairs(aggregator.all()) do list[#list + 1] = output_object(one:spec()) end
  for _, one in ipairs(exported.list()) do
    if one.kind == "profile" then
      local _, value = one.source:value()
      list[#list + 1] = { kind = "profile", columns = { "stack" }, values = { value.name },
        unit = value.unit ~= "count" and value.unit or nil }
    end
  end
  return list
end

-- The rights that the attrs need, each once; `optional`: only optional events need it, and the script has others.
local function rights_of(events)
  local list, by_name, has_required = {}, {}, false
  for _, event in ipairs(events) do
    for _, opened in ipairs(event.opens or { event }) do
      local right = opened.needs
      if right and not by_name[right.what] then
        by_name[right.what], list[#list + 1] = right, right
        right.optional = event.optional
      elseif right and not event.optional then
        by_name[right.what].optional = nil
      end
      opened.needs = nil
    end
    has_required = has_required or not event.optional
  end
  for _, right in ipairs(has_required and {} or list) do right.optional = nil end
  return list
end

--- Returns the description as a table.
-- @tparam table run  `name`, `header`, `declared`, `plan` (of session_plan.objects, or nil), `why` (no plan)
function M.object(run)
  local about, examples = parse_header(run.header, run.name)
  local declared = run.declared or {}
  local object = { script = run.name, summary = declared.summary or run.header:match "^[^\n]*", about = about,
    examples = examples, output = declared.output, epilog = declared.epilog,
    options = {}, rights = {}, events = {}, outputs = {}, incomplete = run.why,
    perf_event_paranoid = host.number_of("/proc/sys/kernel/perf_event_paranoid") }
  for i, option in ipairs(declared) do object.options[i] = option_object(option) end
  if not run.plan then return object end
  object.target, object.events = run.plan.target, run.plan.events
  object.rights = rights_of(object.events)
  object.outputs = outputs()
  return object
end

-- ---- the screen ----

local function text_of(value)
  return escape(type(value) == "table" and table.concat(value, ", ") or tostring(value))
end

local function add(lines, ...) lines[#lines + 1] = (string.format(...):gsub(" +$", "")) end

local function add_option(lines, option)
  local words = option.flags and table.concat(option.flags, ", ") or option.metavar
  if option.flags and option.type ~= "switch" then words = ("%s %s"):format(words, option.metavar) end
  local default = option.default
  local notes = { option.type, option.required and "required" or nil }
  if default ~= nil and type(default) ~= "table" then
    notes[#notes + 1] = "default " .. tostring(default) .. (option.type == "duration" and " ns" or "")
  end
  if option.choices then notes[#notes + 1] = table.concat(option.choices, ", ") end
  add(lines, "  %-28s %s", escape(words), escape(table.concat(notes, "; ")))
  if not option.help then return end
  local help = {}
  for word in escape(option.help):gmatch "%S+" do help[#help + 1] = word end
  lines[#lines + 1] = message.fold("     ", help)
end

local function right_text(right)
  local level = right.paranoid and ("kernel.perf_event_paranoid %d or "):format(right.paranoid) or ""
  return ("%s: %s%s%s"):format(right.what, level, right.capability, right.optional and " (optional)" or "")
end

local function add_event(lines, event)
  local kind = event.counter and "counter " or ""
  add(lines, "  %s%s%s", kind, escape(event.event or event.counter),
    event.callbacks and ": " .. table.concat(event.callbacks, " ") or "")
  if event.missing then add(lines, "      missing: %s", escape(event.missing:match "[^\n]*")) end
  for _, opened in ipairs(event.opens or {}) do
    local attr = opened.attr
    add(lines, "      %s: type %s, config %s%s", escape(opened.event), attr.type, attr.config or 0,
      attr.sample_type and ", sample_type " .. attr.sample_type or "")
  end
end

--- Returns the same as lines for people.
function M.lines(object)
  local lines = {}
  add(lines, "%s%s", escape(object.script), object.summary and ": " .. escape(object.summary) or "")
  add(lines, "options:%s", #object.options == 0 and " none" or "")
  for _, option in ipairs(object.options) do add_option(lines, option) end
  if object.incomplete then
    add(lines, "events, rights, output: unknown without a complete command line: %s", text_of(object.incomplete))
    return lines
  end
  add(lines, "events, for %s:%s", text_of(object.target or "none"), #object.events == 0 and " none" or "")
  for _, event in ipairs(object.events) do add_event(lines, event) end
  add(lines, "rights:%s", #object.rights == 0 and " none" or "")
  for _, right in ipairs(object.rights) do add(lines, "  %s", right_text(right)) end
  add(lines, "output:%s", #object.outputs == 0 and not object.output and " text of its own" or "")
  for line in (object.output or ""):gmatch "[^\n]+" do add(lines, "  %s", escape(line)) end
  for _, output in ipairs(object.outputs) do
    add(lines, "  %s%s%s: %s", output.kind, output.title and (' "%s"'):format(escape(output.title)) or "",
      output.unit and " in " .. escape(output.unit) or "",
      table.concat(table.move(output.values, 1, #output.values, #output.columns + 1, { table.unpack(output.columns) }),
        ", "))
  end
  return lines
end

--- Prints the description.
function M.print(run, how)
  local object = M.object(run)
  if how == "json" then
    io.write(json.encode(object), "\n")
  else
    io.write(table.concat(M.lines(object), "\n"), "\n")
  end
end

return M
