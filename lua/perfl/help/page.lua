--- The manual page of a script or a verb, as a list of blocks that roff.lua and plain.lua write.
--
-- A block is { "heading" | "text", TEXT }, { "option" | "item", TAG, TEXT }, or { "lines", LINE, ... }. In a text, the
-- words between BOLD or ITALIC and PLAIN are to be typed as they are, or to be replaced.

local args = require "perfev.tool.args"
local describe = require "perfl.verb.describe"

local M = {}

local BOLD, ITALIC, PLAIN = "\1", "\2", "\3"
M.BOLD, M.ITALIC, M.PLAIN = BOLD, ITALIC, PLAIN

local function bold(text) return BOLD .. text .. PLAIN end

local function add(page, ...) page[#page + 1] = { ... } end

-- "-f FORMAT" -> with its flag bold and its value italic
local function marked(words)
  return (words:gsub("[^%s%[%]|]+", function(word)
    if word == "..." then return word end
    word = word:gsub("[<>]", "")
    return (word:find "^[-%l]" and BOLD or ITALIC) .. word .. PLAIN
  end))
end

-- The first letter as a capital, unless the first word is a value or a name.
local function sentence(text, choices)
  local word = text:match "^%l+%f[%s]"
  for _, choice in ipairs(choices or {}) do
    if choice == word then word = nil end
  end
  if word then text = text:sub(1, 1):upper() .. text:sub(2) end
  return text:find "[.!?]$" and text or text .. "."
end

local function names_all(text, choices)
  for _, choice in ipairs(choices) do
    if not text:find(choice, 1, true) then return false end
  end
  return true
end

local function default_text(option)
  local written = option.written
  if written == nil or type(written) == "boolean" or type(written) == "table" or written == 0 then return "" end
  if option.kind == "duration" and type(written) == "number" then written = ("%gs"):format(written) end
  return (" The default is %s."):format(bold(tostring(written)))
end

local function option_text(option)
  local text = option.help and option.help ~= "" and sentence(option.help, option.choices) or ""
  if option.choices and not names_all(text, option.choices) then
    text = ("%s One of %s."):format(text, table.concat(option.choices, ", "))
  end
  return text .. default_text(option)
end

local function option_tag(option)
  local words = {}
  for i, flag in ipairs(option.flags or {}) do
    words[i] = bold(flag) .. (option.switch and "" or " " .. marked(option.metavar or ""))
  end
  return option.flags and table.concat(words, ", ") or ITALIC .. option.metavar .. PLAIN
end

local function add_options(page, declared)
  for _, option in ipairs(declared) do
    if not option.flags then add(page, "option", option_tag(option), option_text(option)) end
  end
  for _, option in ipairs(declared) do
    if option.flags then add(page, "option", option_tag(option), option_text(option)) end
  end
end

-- The paragraphs of a text that is folded for --help. A sentence that ends a line where the next word would have fitted
-- ends its paragraph.
local function add_paragraphs(page, text)
  local FULL <const> = 80
  local paragraph, last = {}, ""
  local function finish()
    if paragraph[1] then add(page, "text", table.concat(paragraph, " ")) end
    paragraph = {}
  end
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    if line == "" or last:find "[.:]$" and #last + #line:match "^%S*" < FULL then finish() end
    if line:find "^%s+%S" then
      finish()
      local block = page[#page]
      if block[1] == "lines" then block[#block + 1] = line:match "%S.*" else add(page, "lines", line:match "%S.*") end
    else
      paragraph[#paragraph + 1] = line ~= "" and line or nil
    end
    last = line
  end
  finish()
end

-- ---- a script ----

local function record_names(event)
  if event.counter then return "counts" end
  return ("records of type %s"):format(table.concat(event.callbacks or {}, ", "))
end

local function add_events(page, object, example)
  if object.incomplete or #object.events == 0 then return end
  add(page, "heading", "EVENTS")
  if example then add(page, "text", ("For %s:"):format(bold(example))) end
  local groups, choices = {}, "" -- events with records of the same types: one paragraph
  for _, event in ipairs(object.events) do
    local records, name = record_names(event), event.event or event.counter:gsub(",", ", ")
    if event.event == "dummy" then name = "without an event" end
    local is_choice = name:find(" | ", 1, true)
    local key = is_choice and name .. records or records -- alternatives have a paragraph of their own
    if is_choice then choices = choices .. name end
    if not groups[key] then
      groups[key] = { records = records }
      groups[#groups + 1] = groups[key]
    end
    if not groups[key][name] then
      groups[key][name] = true
      table.insert(groups[key], bold(name))
    end
  end
  for _, group in ipairs(groups) do
    table.sort(group)
    add(page, "text", ("%s: %s."):format(table.concat(group, ", "), group.records))
  end
  if choices ~= "" then
    add(page, "text", "Of events with | between them, the first that the machine has is used."
      .. (choices:find("*", 1, true) and (" %s is the event of %s."):format(bold "*", bold "perfl -e") or ""))
  end
end

local function right_text(right)
  local level = right.paranoid and ("%s of %d or less, or "):format(bold "kernel.perf_event_paranoid", right.paranoid)
  local target = right.what
  return ("%s: %s%s%s."):format(target:gsub("^%l", string.upper), level or "", bold(right.capability),
    right.optional and "; the script runs without it" or "")
end

local function add_rights(page, object)
  if #object.rights == 0 then return end
  add(page, "heading", "RIGHTS")
  if object.target:find "^all tasks" then add(page, "text", ("For the whole machine (%s):"):format(bold "-a")) end
  for _, right in ipairs(object.rights) do add(page, "text", right_text(right)) end
  add(page, "text", ("%s names the rights of this user and how to get more."):format(bold "perfl doctor"))
end

local kinds = {
  hist = "a histogram", quantile = "counts, averages and quantiles", stats = "counts, sums and averages",
  count = "counts", sum = "sums", avg = "averages", min = "minima", max = "maxima", top = "the most frequent keys",
}

-- is_example: the title is that of a command line, and not of the script
local function output_text(output, is_example)
  local unit = output.unit and (" in %s"):format(output.unit) or ""
  if output.kind == "table" then return "A table with the columns " .. table.concat(output.columns, ", ") .. "." end
  if output.kind == "profile" then
    return ("A profile: %s%s by stack. A table has the share of each function with its callees, and its own.")
      :format(output.values[1], output.unit and output.unit ~= output.values[1] and unit or "")
  end
  local by = output.columns[1] and " by " .. table.concat(output.columns, ", ") or ""
  local title = output.title and not is_example and ("\"%s\": "):format(output.title) or ""
  local text = ("%s%s%s%s"):format(title, kinds[output.kind] or output.kind, unit, by)
  return ("%s. %s: %s."):format(text:gsub("^%l", string.upper), #output.values > 1 and "Values" or "Value",
    table.concat(output.values, ", "))
end

local function add_output(page, object, is_example)
  if not object.output and #object.outputs == 0 then return end
  add(page, "heading", "OUTPUT")
  if object.output then add_paragraphs(page, object.output) end
  local is_said = object.output ~= nil or object.outputs[1].kind == "table"
  for i, output in ipairs(object.outputs) do
    if not is_said or i == 1 and output.kind == "table" or output.kind == "profile" then
      add(page, "text", output_text(output, is_example))
    end
  end
end

-- A command line in lines that fit into a page, broken where the shell permits it.
local function folded_command(command)
  local WIDTH <const> = 66
  local lines, quote, from, blank = {}, nil, 1, nil
  for i = 1, #command do
    local char = command:sub(i, i)
    if char == quote then
      quote = nil
    elseif not quote and (char == "'" or char == '"') then
      quote = char
    elseif not quote and char == " " then
      blank = i
    end
    if i - from >= WIDTH and blank then
      lines[#lines + 1] = (from > 1 and "    " or "") .. command:sub(from, blank - 1) .. " \\"
      from, blank = blank + 1, nil
    end
  end
  lines[#lines + 1] = (from > 1 and "    " or "") .. command:sub(from)
  return table.unpack(lines)
end

local function add_examples(page, examples)
  if #examples == 0 then return end
  add(page, "heading", "EXAMPLES")
  for _, example in ipairs(examples) do
    local remark = example.remark and (example.remark:match "^%((.*)%)$" or example.remark)
    if remark then add(page, "text", sentence(remark):sub(1, -2) .. ":") end
    add(page, "lines", folded_command(example.command))
  end
end

-- The other pages: those that the texts name, and perfl(1).
local function add_see_also(page, name, texts, is_page)
  local list, seen = { bold "perfl" .. "(1)" }, { [name] = true }
  for words in table.concat(texts, " "):gmatch "%f[%w]perfl%s+([%w%s.:-]+)" do
    local word = words:gsub("^[%d-]%S*%s+", ""):gsub("^[%d-]%S*%s+", ""):gsub("^[%d-]%S*%s+", ""):match "^%l+"
    if word and not seen[word] and is_page(word) then
      seen[word], list[#list + 1] = true, bold("perfl-" .. word) .. "(1)"
    end
  end
  add(page, "heading", "SEE ALSO")
  add(page, "text", table.concat(list, ", "))
end

local function texts_of(declared, ...)
  local texts = { ... }
  for _, option in ipairs(declared) do
    texts[#texts + 1] = option.help
    if option.name == "baseline" then texts[#texts + 1] = "perfl diff" end
  end
  return texts
end

--- The page of a script.
-- @tparam table run  as for describe.object; `example`: the command line that was described, if not the name alone
-- @tparam function is_page  f(name) -> true if a script or verb has this name
function M.of_script(run, is_page)
  local object, declared, name = describe.object(run), run.declared or {}, run.name
  local page = { name = "perfl-" .. name }
  local usage, takes_words = args.usage(declared), false
  for _, option in ipairs(declared) do takes_words = takes_words or not option.flags end
  usage[#usage + 1] = takes_words and "[-- command args...]" or "[command args...]"
  add(page, "heading", "NAME")
  add(page, "text", ("%s - %s"):format(page.name, object.summary or object.about or "a script of perfl"))
  add(page, "heading", "SYNOPSIS")
  for i, word in ipairs(usage) do usage[i] = marked(word):gsub(" ", "\u{a0}") end
  add(page, "text", ("%s [%soptions%s] %s %s"):format(bold "perfl", ITALIC, PLAIN, bold(name),
    table.concat(usage, " ")))
  add(page, "heading", "DESCRIPTION")
  add(page, "text", ("%s %s"):format(bold(name), object.about or object.summary or "is a script of perfl."))
  if object.epilog then add_paragraphs(page, object.epilog) end
  add(page, "heading", "OPTIONS")
  add_options(page, declared)
  add(page, "text", ("The targets, limits and all other options are those of %s(1)."):format(bold "perfl"))
  add_output(page, object, run.example ~= nil)
  add_events(page, object, run.example)
  add_rights(page, object)
  add_examples(page, object.examples)
  add_see_also(page, name, texts_of(declared, object.about, object.epilog), is_page)
  return page
end

--- The page of a verb.
-- @tparam string verb
-- @tparam table declared  from declared.of_verb
-- @tparam function is_page
function M.of_verb(verb, declared, is_page)
  local page = { name = "perfl-" .. verb }
  local about = declared.summary or declared.text or ""
  add(page, "heading", "NAME")
  local first = about:match "^[^.;:(]*":gsub("%s+", " "):gsub(" $", "")
  if #first > 120 then first = first:match "^[^,]*" end
  add(page, "text", ("%s - %s"):format(page.name, first:gsub("^%u", string.lower)))
  add(page, "heading", "SYNOPSIS")
  add(page, "text", marked((declared.usage:gsub("%s+", " "))))
  add(page, "heading", "DESCRIPTION")
  add_paragraphs(page, about)
  if #declared > 0 then
    add(page, "heading", "OPTIONS")
    add_options(page, declared)
  end
  if declared.epilog then
    add(page, "heading", "NOTES")
    add_paragraphs(page, declared.epilog)
  end
  add_see_also(page, verb, texts_of(declared, about, declared.epilog), is_page)
  return page
end

return M
