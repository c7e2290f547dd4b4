-- topics.lua - the topics of `perfl help` from the documents, as a Lua module:
--   lua5.4 src/gen/topics.lua doc/*.md doc/api/*.md > build/topics.lua
--
-- A topic is the part of a page between two notes: <!-- help: NAME, ALSO...: SUMMARY --> and
-- <!-- help end -->. A second part of the same NAME (without a summary) is added to it. The records
-- of doc/reference.md are topics without notes.

package.path = "lua/?.lua;lua/?/init.lua;" .. package.path

local plain = require "perfl.help.plain"

local function fail(...)
  io.stderr:write("topics.lua: ", string.format(...), "\n")
  os.exit(1)
end

local topics, by_name = {}, {}

local function topic_of(path, note)
  local names, summary = note:match "^([^:]+): (.*)$"
  names = names or note
  local name, others = names:match "^([%l_]+),? ?(.*)$"
  if not name then fail("%s: 'help: %s' has no name", path, note) end
  if not summary then
    return by_name[name] or fail("%s: the topic '%s' has no summary", path, name)
  end
  if by_name[name] then fail("%s: the topic '%s' has two summaries", path, name) end
  local topic = { name = name, also = {}, summary = summary, path = path }
  for other in others:gmatch "[%w_-]+" do table.insert(topic.also, other) end
  topics[#topics + 1], by_name[name] = topic, topic
  return topic
end

-- ---- Markdown to blocks ----

-- Text without marks; a link keeps its words.
local function spoken(text)
  text = text:gsub("`([^`]*)`", function(code) return (code:gsub("%*", "\5")) end)
  text = text:gsub("!?%[([^%]]-)%]%(([^)]*)%)", "%1")
  text = text:gsub("%*%*([^*]+)%*%*", "%1"):gsub("%*(%w[^*]-)%*", "%1")
  return (text:gsub("\5", "*"):gsub("\\([*_|])", "%1"):gsub("^After this page you ", "You "))
end

local function cells_of(line)
  local cells = {}
  for cell in line:gsub("\\|", "\4"):match "^|(.*)$":gmatch "([^|]*)|" do
    cells[#cells + 1] = spoken((cell:match "^%s*(.-)%s*$":gsub("\4", "|")))
  end
  return cells
end

local function blocks_of(lines)
  local blocks, paragraph, code, rows = {}, {}, nil, nil
  local function finish()
    if paragraph[1] then blocks[#blocks + 1] = { "text", spoken(table.concat(paragraph, " ")) } end
    paragraph = {}
  end
  for _, line in ipairs(lines) do
    if code then
      if line == "```" then
        blocks[#blocks + 1], code = code, nil
      else
        code[#code + 1] = line
      end
    elseif line:find "^```" then
      finish()
      code = { "lines" }
    elseif line:find "^#" then
      finish()
      blocks[#blocks + 1] = { "heading", spoken(line:match "^#+%s+(.*)$") }
    elseif line:find "^|" then
      finish()
      if not rows then
        rows = {}
        blocks[#blocks + 1] = { "table", rows }
      end
      if not line:find "^|[-: |]+|$" then rows[#rows + 1] = cells_of(line) end
    elseif line:find "^%s*<!%-%-" then
      finish()
    elseif line:find "^%- " then
      finish()
      paragraph = { (line:gsub("^%- ", "* ")) }
    elseif line:find "^%s*$" then
      finish()
    else
      paragraph[#paragraph + 1] = line
    end
    if not line:find "^|" then rows = nil end
  end
  finish()
  return blocks
end

-- ---- pages ----

local function read(path)
  local file <close> = io.open(path, "rb") or fail("%s cannot be read", path)
  return file:read "a"
end

local function add_lines(topic, lines)
  local blocks = blocks_of(lines)
  topic.blocks = topic.blocks or {}
  table.move(blocks, 1, #blocks, #topic.blocks + 1, topic.blocks)
end

local function add_noted(path, text)
  local topic, lines
  for line in text:gmatch "([^\n]*)\n" do
    local note = line:match "^<!%-%- help: (.*) %-%->$"
    if note then
      if topic then fail("%s: 'help: %s' begins inside the topic '%s'", path, note, topic.name) end
      topic, lines = topic_of(path, note), {}
    elseif line == "<!-- help end -->" then
      if not topic then fail("%s: 'help end' without a topic", path) end
      add_lines(topic, lines)
      topic = nil
    elseif topic then
      lines[#lines + 1] = line
    end
  end
  if topic then fail("%s: the topic '%s' has no end", path, topic.name) end
end

local function add_records(path, text)
  local records = text:match "\n## Records\n(.-)\n## " or fail("%s has no records", path)
  for name, body in (records .. "\n### "):gmatch "### ([%l%d_]+)\n(.-)%f[#]%f[^\n]" do
    local topic = { name = name, also = {}, summary = "the record " .. name, path = path }
    topic.is_record = true
    topics[#topics + 1] = topic
    local lines = { "# The record " .. name }
    for line in body:gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
    add_lines(topic, lines)
  end
end

for _, path in ipairs(arg) do
  local text = read(path)
  if path:find "doc/reference%.md$" then add_records(path, text) end
  add_noted(path, text)
end
table.sort(topics, function(a, b) return a.name < b.name end)

io.write "-- Written by src/gen/topics.lua.\nreturn {\n"
for _, topic in ipairs(topics) do
  local also = {}
  for i, name in ipairs(topic.also) do also[i] = ("%q"):format(name) end
  local text = plain.write(topic.blocks) .. ("\nMore: %s\n"):format(topic.path)
  io.write(("{ name = %q, also = { %s }, summary = %q, is_record = %s,\ntext = %q },\n"):format(
    topic.name, table.concat(also, ", "), topic.summary, topic.is_record or false, text))
end
io.write "}\n"
