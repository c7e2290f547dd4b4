-- types.lua - the Lua interface as annotations for editors (LuaLS), from its documentation:
--   lua5.4 src/gen/types.lua doc/api/*.md doc/testing.md doc/reference.md > build/types/perfev.lua
--   lua5.4 src/gen/types.lua module perfev.units > build/types/perfev/units.lua
--
-- The pages give the names, the parameters, a sentence for each function, and the types of options
-- and fields; the specs compare them with the code. Options have the types that the code checks,
-- of perfev.option_tables. signatures.lua adds the types of functions. If it differs from a page, a
-- line on stderr says so, and the function has no types.

package.path = "lua/?.lua;lua/?/init.lua;" .. package.path

local option_tables = require "perfev.option_tables"

local signatures = dofile "src/gen/signatures.lua"

-- Documented names that are not functions.
local values = {
  ["perfev.frames.keys"] = "string[]",
  ["perfev.errno"] = "table<string|integer, integer|string>", ["perfev._VERSION"] = "string",
  ["perfev.profile.diff_formats"] = "string[]",
  ["perfev.profile.formats"] = "string[]", ["perfev.hooks.real"] = "table<string, function>",
  ["perfev.hooks"] = false, ["perfev.symbol"] = false, -- classes, see `objects`
  ["perfev.symbol.log"] = "fun(level: integer, text: string)?",
  ["tool.options"] = "table<string, table>", ["tool.MAX_TASKS"] = "integer",
  ["tool.WAKEUPS"] = "string",
  ["sim.options"] = "table<string, string>", ["sim.worlds"] = "string[]",
}

-- The word before a method's or function's name on the pages -> the class, and fields that no
-- table of the pages has.
local objects = {
  { "perfev", "perfev", { "budget perfev.budget", "frames perfev.frames",
    "hooks perfev.hooks", "picture perfev.picture", "profile perfev.profile",
    "symbol perfev.symbol", "sim perfev.sim", "syscalls perfev.syscalls", "tool perfev.tool",
    "units perfev.units" } },
  { "perfev.frames", "perfev.frames" }, { "perfev.budget", "perfev.budget" },
  { "b", "perfev.Budget" },
  { "result", "perfev.BudgetResult", { "ok boolean", "rows table[]", "calls table<string, integer>",
    "counts table<string, integer>", "command_status? perfev.Status" } },
  { "perfev.hooks", "perfev.hooks" }, { "perfev.picture", "perfev.picture" },
  { "perfev.profile", "perfev.profile" }, { "perfev.symbol", "perfev.symbol" },
  { "sim", "perfev.sim" }, { "k", "perfev.Kernel" }, { "units", "perfev.units" },
  { "syscalls", "perfev.syscalls" }, { "tool", "perfev.tool" },
  { "s", "perfev.Session" }, { "watched", "perfev.Calls" },
  { "ev", "perfev.Event" },
  { "r", "perfev.Record" },
  { "rec", "perfev.Recording" },
  { "c", "perfev.Counter", { "command_status? perfev.Status" } },
  { "h", "perfev.HistCounter" },
  { "member", "perfev.CounterEvent", { "error? string", "scale? number", "unit? string",
    "user_only? boolean" } },
  { "a", "perfev.Aggregator" }, { "line", "perfev.Line" },
  { "frame", "perfev.PackFrame", { "header table<string, string|integer>", "bytes string",
    "offset integer" } },
  { "reader", "perfev.FrameReader" },
  { "span", "perfev.Span", { "start perfev.SpanEnd", "stop perfev.SpanEnd",
    "via perfev.SpanEnd", "cancel perfev.SpanEnd" } },
  { "p", "perfev.Profile", { "title? string", "time? integer", "duration? integer" } },
  { "attr", "perfev.Attr" }, { "m", "perfev.Memory" }, { "calls", "perfev.ExpectedCalls" },
}

-- class, page, a name in the first column of the class's table there; then types for tables
-- without such a column: by name, and `any` for the rest.
local classes = {
  { "perfev.SessionOptions", "sessions", "buffer" },
  { "perfev.SessionOptions", "sessions", "on_error" },
  { "perfev.EventSpec: { [integer]: string }", "events", "callchain" },
  { "perfev.EventSpec: { [integer]: string }", "attributes", "sample_period" },
  { "perfev.CounterEventSpec: { [integer]: string, [string]: any }", "counters", "optional", {
    name = "string", filter = "string", period = "integer", optional = 'boolean|"unsupported"' } },
  { "perfev.CounterSpec: { [integer]: string|perfev.CounterEventSpec, [string]: any }", "counters",
    "leader" },
  { "perfev.Reading: { [string]: number }", "counters", "running_ratio", {
    raw = "table<string, integer>", time_enabled = "integer", time_running = "integer",
    running_ratio = "number?", counts = "table<string, table>",
    errors = "table<string, string>?" } },
  { "perfev.OpenOptions", "recordings", "window" },
  { "perfev.Totals", "sessions", "delivered", "integer" },
  { "perfev.Signal", "sessions", "code", "integer?" },
  { "perfev.Unmatched", "spans", "waiting", "integer?" },
  { "perfev.Frame", "stacks", "module" },
  { "perfev.Task", "tasks", "ppid" },
  { "perfev.AggregatorSpec", "aggregators", "max_keys", { by = "string|string[]",
    value = "string", title = "string", unit = "string", max_keys = "integer", rows = "integer",
    slot = "perfev.Duration", low = "integer", high = "integer", step = "integer",
    where = "perfev.Condition", names = "table<string, function>" } },
  { "perfev.BudgetSpec: { [string]: string|number|boolean }", "budgets", "warm" },
  { "perfev.SpanSpec", "spans", "max_waiting", { by = "string|string[]",
    start = "perfev.SpanSource", stop = "perfev.SpanSource", via = "perfev.SpanSource",
    cancel = "perfev.SpanSource", start_by = "string|string[]", stop_by = "string|string[]",
    via_by = "string|string[]", cancel_by = "string|string[]", start_where = "perfev.Condition",
    stop_where = "perfev.Condition", via_where = "perfev.Condition",
    cancel_where = "perfev.Condition", where = "perfev.Condition", least = "perfev.Duration",
    into = "perfev.Aggregator|perfev.Sampler", max_waiting = "integer",
    value = "string|string[]|function", fields = "string[]" } },
  { "perfev.ProfileOptions", "profiles", "max_bytes", {
    values = "(string|table)[]", title = "string", time = "integer", duration = "integer",
    max_bytes = "perfev.Size" } },
  { "perfev.SamplerOptions", "profiles", "under", {
    under = "string|string[]", value = "string", where = "perfev.Condition",
    by = "string|string[]", add = "function" } },
  { "perfev.CallsSpec", "calls", "func", {
    func = "string", start = "string", stop = "string", key = "string", with = "string[]",
    freq = "integer", callchain = "string", kept = "integer" } },
  { "perfev.CallsReport", "calls", "slowest", {
    slowest = "number", over = "perfev.Duration", title = "string" } },
  { "perfev.HeatmapOptions", "pictures", "cells", {
    cells = "table[]", series = "table[]", step = "integer", unit = "string", title = "string",
    format = '"svg"|"html"', notes = "string[]" } },
  { "perfev.HistogramOptions", "pictures", "buckets", {
    buckets = "table[]", series = "table[]", unit = "string", title = "string",
    format = '"svg"|"html"', notes = "string[]" } },
  { "perfev.TimelineOptions", "pictures", "points", {
    spans = "table[]", points = "table[]", counters = "table[]", title = "string" } },
  { "perfev.SimOptions", "testing", "world", { world = "string", cpus = "string",
    release = "string", privileged = "boolean", uid = "integer", pid = "integer",
    now = "integer", ring_start = "integer", disk = "integer", mlock = "integer",
    max_files = "integer", refuse = "function", exec = "function", at_exec = "function",
    command = "function", on_open = "function", idle = "function", stubborn = "boolean" } },
  { "perfev.HookTable", "reference", "perf_event_open", "function" },
}

-- Class -> the tables of its options in perfev.option_tables.
local checked_tables = {
  ["perfev.SessionOptions"] = { "session" }, ["perfev.EventSpec"] = { "event" },
  ["perfev.OpenOptions"] = { "open" }, ["perfev.CounterSpec"] = { "counter" },
  ["perfev.CounterEventSpec"] = { "counter_event" }, ["perfev.SpanSpec"] = { "span" },
  ["perfev.BudgetSpec"] = { "budget" },
  ["perfev.AggregatorSpec"] = { "top", "hist" }, -- the others have less
}

-- The same for classes with functions.
local object_fields = {
  { "perfev.Attr", "attributes", "sample_period" },
  { "perfev.Kernel", "testing", "counts", { log = "string[]", counts = "table<string, integer>",
    events = "table[]" } },
  { "perfev.Event", "events", "members", { name = "string", attr = "perfev.Attr?",
    ids = "integer[]?", error = "string?", members = "perfev.Event[]?" } },
  { "perfev.Session", "sessions", "machine", { command_status = "perfev.Status?",
    started = "boolean", finished = "boolean", machine = "string?", opts = "perfev.SessionOptions",
    recorded = "table<string, any>?" } },
  { "perfev.Recording", "recordings", "header", { events = "table[]", header = "table<string, any>",
    facts = "table<string, any>", warnings = "string[]", error = "string?", errno = "integer?" } },
  { "perfev.Record", "records", "cpumode" },
}

local aliases = [[
---@alias perfev.Duration string|number
---@alias perfev.Size string|number
---@alias perfev.Packed perfev.Aggregator|perfev.Profile
---@alias perfev.Key integer|string|boolean|perfev.Stack
---@alias perfev.Condition any[]
---@alias perfev.AnyStack string|perfev.Stack|(string|table)[]|nil
---@alias perfev.Sink perfev.Aggregator|perfev.Line|perfev.SpanEnd|perfev.Sampler
---@alias perfev.SpanSource string|perfev.EventSpec|true
---@alias perfev.Payload table<string, any>
---@alias perfev.IsChosen fun(tid: integer, comm: string): boolean

---@class perfev.SpanEnd
---@class perfev.Sampler

---@class perfev.Status
---@field exit? integer
---@field signal? integer

---@class perfev.WriterOptions
---@field value? string|integer
---@field baseline? perfev.Profile
---@field absolute? boolean
---@field annotate? boolean
---@field inverted? boolean
---@field width? integer
---@field limit? integer
---@field least? number

---@class perfev.ArgsSpec: { [integer]: perfev.ArgsOption }
---@field summary? string
---@field output? string
---@field epilog? string
---@field all_cpus? boolean

---@class perfev.ArgsOption: { [integer]: string }
---@field [string] any

---@class perfev.Stack: { [integer]: perfev.Frame }
---@field id integer
---@field frames fun(self: perfev.Stack): perfev.Frame[]
---@field folded fun(self: perfev.Stack, comm: string?): string

---@class perfev.Decoder
---@field decode fun(self: perfev.Decoder, bytes: string, pos: integer?): table?, integer|string
---@field records fun(self: perfev.Decoder, bytes: string, options: table?): fun(): ...any

---@class perfev.KernelRing
---@field push fun(self: perfev.KernelRing, record: table): integer
]]

-- ---- the pages ----

local function warn(...) io.stderr:write("types.lua: ", string.format(...), "\n") end

local function cells_of(row)
  local cells = {}
  for cell in row:gsub("\\|", "\0"):gmatch "| *([^|]-) *%f[|]" do
    cells[#cells + 1] = (cell:gsub("%z", "|"))
  end
  return cells
end

-- Adds a row to the section's tables; a table's first row is its head.
local function add_row(section, line, is_new)
  local list = section.tables
  if is_new then
    list[#list + 1] = { head = cells_of(line) }
  elseif not line:find "^|%-%-%-" then
    table.insert(list[#list], cells_of(line))
  end
end

-- Adds a line outside of code to its section, or begins one.
local function read_line(sections, path, text, before)
  local section = sections[#sections]
  if text:find "^#+ " then
    local heading = text:match "^#+ (.*)$"
    sections[#sections + 1] = { path = path, page = path:match "([^/]+)%.md$", heading = heading,
      text = "", tables = {} }
  elseif not section then
    return
  elseif text:find "^|" then
    add_row(section, text, not before:find "^|")
  elseif text ~= "" and not section.is_read then
    section.text = section.text .. text .. " "
  elseif section.text ~= "" then
    section.is_read = true
  end
end

-- Adds a page's sections: { page =, heading =, text = first paragraph, tables = }
local function read_page(path, sections)
  local file <close> = assert(io.open(path))
  local in_code, before = false, ""
  for text in file:lines() do
    if text:find "^```" then in_code = not in_code
    elseif not in_code then read_line(sections, path, text, before) end
    before = text
  end
end

-- "Returns `x`, see [Events](events.md). More." -> "Returns `x`, see Events."
local function first_sentence(text)
  local plain = text:gsub("%[([^]]*)%]%([^)]*%)", "%1"):gsub("%s+$", "") .. " "
  return (plain:match "^(.-[.:]) %f[%u`]" or plain:match "^(.-) $"):gsub(":$", ".")
end

-- ---- types ----

local words = {
  boolean = "boolean", string = "string", text = "string", path = "string", name = "string",
  size = "perfev.Size", duration = "perfev.Duration", ns = "integer", table = "table",
  list = "any[]", names = "string[]", ["function"] = "function", event = "perfev.Event",
  payload = "perfev.Payload", stack = "perfev.Stack", ["list of strings"] = "string[]",
}

local function type_of(word)
  local params = word:match "^`f(%b())"
  if params then return ("fun%s: any"):format(params) end
  local literal = word:match '^`("[%w-]+")`$'
  if literal then return literal end
  if word:find '^`"' then return "string" end
  if word:find "^integer" or word:find "^%d" then return "integer" end
  return words[word:match "^(size) from" or word] or word:find "^`{" and "table" or "any"
end

-- "integer, list or `"self"`" -> { "integer", "any[]", '"self"' }
local function types_of(cell)
  local list, seen = {}, {}
  cell = cell:gsub("^integer, %d+ bits$", "integer")
  cell = cell:gsub("`[^`]*`", function(code) return (code:gsub(",", "\1"):gsub(" ", "\2")) end)
  for word in (cell:gsub(",? or ", ", ") .. ", "):gmatch "(.-), " do
    local found = type_of((word:gsub("\1", ","):gsub("\2", " ")))
    if not seen[found] then list[#list + 1], seen[found] = found, true end
  end
  return list
end

local out = {}
local function line(format, ...)
  out[#out + 1] = select("#", ...) > 0 and format:format(...) or format
end

local function plain(text) return (text:gsub("%[([^]]*)%]%([^)]*%)", "%1"):gsub("\\", "")) end

-- The fields of a class, in order; a name in two tables has the types of both.
local function new_fields() return { by_name = {} } end

local function add_field(fields, name, types, text)
  local field = fields.by_name[name]
  if not field then
    field = { name = name, types = {}, text = text }
    fields[#fields + 1], fields.by_name[name] = field, field
  end
  for _, found in ipairs(types) do
    if not field.types[found] then
      field.types[#field.types + 1], field.types[found] = found, true
    end
  end
end

local function names_in(cell)
  local names = {}
  for name in cell:gsub("`%l+%.", "`"):gmatch "`([%a_][%w_]*)`" do names[#names + 1] = name end
  return names
end

-- "its size; its name" -> a text for each of two names; otherwise all have the whole text
local function texts_of(text, names)
  local parts = {}
  for part in (text .. "; "):gmatch "(.-); " do parts[#parts + 1] = part end
  if #parts == #names then return parts end
  for i = 1, #names do parts[i] = text end
  return parts
end

-- Adds the fields of a table's row: `low`, `high` | integer | ... -> two fields.
local function add_row_fields(fields, row, head, given)
  local typed = head[2] == "type" or head[2] == "value" and not given
  local types = typed and types_of(row[2]) or {}
  local names = names_in(row[1])
  local text = head[3] == "kernel" and "since Linux " .. row[3] or plain(row[#row])
  local texts = texts_of(text, names)
  local pairwise = #names > 1 and #types == #names and not row[2]:find "or "
  for i, name in ipairs(names) do
    local found = pairwise and { types[i] } or typed and types
      or { type(given) == "table" and given[name] or type(given) == "string" and given or "any" }
    add_field(fields, name, found, texts[i])
  end
end

local function has_row_of(rows, wanted)
  for _, row in ipairs(rows) do
    for _, name in ipairs(names_in(row[1])) do
      if name == wanted then return true end
    end
  end
  return false
end

local function add_class_fields(fields, sections, class)
  local name, page, mark, given = table.unpack(class)
  local count = #fields
  for _, section in ipairs(sections) do
    for _, rows in ipairs(section.page == page and section.tables or {}) do
      if has_row_of(rows, mark) then
        for _, row in ipairs(rows) do add_row_fields(fields, row, rows.head, given) end
      end
    end
  end
  if #fields == count then warn("%s: no table of %s.md has a row `%s`", name, page, mark) end
end

-- Options may be left out; another field may be nil if its text says so.
local function field_lines(fields, are_options)
  for _, field in ipairs(fields) do
    local types, optional = table.concat(field.types, "|"):gsub("%?$", "")
    optional = optional > 0 or are_options or field.text:find "`nil`" or field.text:find "absent"
    line("---@field %s%s %s%s", field.name, optional and "?" or "", types,
      field.text ~= "" and " # " .. field.text or "")
  end
end

-- ---- functions ----

-- "a: T, b: { c: U, d: V }" -> a list of the parts between commas outside of brackets
local function split(text)
  local parts, depth, part = {}, 0, ""
  for c in text:gmatch "." do
    if c:find "[({<%[]" then depth = depth + 1 elseif c:find "[)}>%]]" then depth = depth - 1 end
    if c == "," and depth == 0 then
      parts[#parts + 1], part = part:match "^%s*(.-)%s*$", ""
    else
      part = part .. c
    end
  end
  if part:find "%S" then parts[#parts + 1] = part:match "^%s*(.-)%s*$" end
  return parts
end

-- name -> { params = { { name, type }, … }, results = { type, … } }
local function read_signatures()
  local list = {}
  for text in signatures:gmatch "[^\n]+" do
    local name, params, results = text:match "^([%w_.:]+)(%b()):? ?(.*)$"
    local one = { params = {}, results = split(results) }
    for i, param in ipairs(split(params:sub(2, -2))) do
      one.params[i] = { param:match "^([%w_.]+): (.+)$" }
    end
    list[name] = one
  end
  return list
end

local function result_line(result)
  local either = result:match "^(.*)!$"
  line("---@return %s", either and either .. "|nil" or result)
  if either then
    line "---@return string? message"
    line "---@return integer? errno"
  end
end

-- A heading "`s:every(t, f)`" -> "s:every", { "t", "f" } | name alone: nil
local function heading_of(section)
  local name, params = section.heading:match "^`([%w_]+[.:][%w_.]+)(%b())`$"
  if not name then return section.heading:match "^`([%w_]+%.[%w_.]+)`$" end
  local list = {}
  for param in params:sub(2, -2):gsub("[%[%]]", ""):gsub("…", "..."):gmatch "[^, ]+" do
    list[#list + 1] = param
  end
  return name, list
end

-- The functions of perfev.symbol and the methods of some objects are rows of a table.
local function add_functions(all, section, row)
  for code in row[1]:gmatch "`([%w_.]+[.:][%w_]+%b())" do
    all[#all + 1] = { path = section.path, page = section.page, link = section.heading,
      heading = "`" .. code:gsub("{.*}", "fields") .. "`", text = row[2], tables = {} }
  end
end

local function with_table_functions(sections)
  local all = {}
  for _, section in ipairs(sections) do
    all[#all + 1] = section
    for _, rows in ipairs(section.tables) do
      local is_list = rows.head[1] == "function" or rows.head[1] == "method"
      for _, row in ipairs(is_list and rows or {}) do add_functions(all, section, row) end
    end
  end
  return all
end

local function link_of(section)
  local anchor = (section.link or section.heading):lower():gsub("[^%w_%- ]", ""):gsub(" ", "-")
  return ("%s#%s"):format(section.path, anchor)
end

local function function_lines(section, name, params, signature, receiver)
  local given = {}
  for i, param in ipairs(signature.params) do given[i] = param[1] end
  local on_page = table.concat(params, ", ")
  local is_same = table.concat(given, ", ") == on_page
  if not is_same then warn("%s: the page has the parameters (%s)", name, on_page) end
  line ""
  line("---" .. first_sentence(section.text))
  line "---"
  line("---%s", link_of(section))
  for _, param in ipairs(is_same and signature.params or {}) do
    local word, optional = param[2]:gsub("%?$", "")
    line("---@param %s%s %s", param[1], optional > 0 and "?" or "", word)
  end
  for _, result in ipairs(signature.results) do result_line(result) end
  line("function %s(%s) end", receiver, on_page)
end

-- Modules that are functions, too: class -> the function.
local callable = {
  ["perfev.profile"] = "fun(options?: perfev.ProfileOptions): perfev.Profile",
  ["perfev.budget"] = "fun(spec: perfev.BudgetSpec): perfev.Budget",
}

-- The class of an object: fields of the tables, then its functions.
local function object_lines(sections, object, known)
  local prefix, class, more = table.unpack(object)
  line ""
  line("---@class %s%s", class, callable[class] and ": function" or "")
  for _, field in ipairs(more or {}) do line("---@field " .. field) end
  for _, each in ipairs(object_fields) do
    if each[1] == class then
      local fields = new_fields()
      add_class_fields(fields, sections, each)
      field_lines(fields)
    end
  end
  for _, section in ipairs(sections) do
    local name, params = heading_of(section)
    local type = name and not params and values[name]
    if type and name:match "^(.*)%.[^.]*$" == prefix then
      line("---@field %s %s", name:match "[^.]*$", type)
    end
  end
  if callable[class] then line("---@overload " .. callable[class]) end
  local variable = prefix:gsub("%.", "_")
  line("local %s = {}", variable)
  for _, section in ipairs(sections) do
    local name, params = heading_of(section)
    local owner, sign, own = (name or ""):match "^(.*)([.:])([^.:]*)$"
    if owner == prefix and params and not callable[name] then
      function_lines(section, name, params, known[name] or { params = {}, results = {} },
        variable .. sign .. own)
    end
  end
end

-- A row of the callbacks' table: | `mmap` | `mmap`, `mmap2` | ... |
local function add_callback(fields, row)
  local records, second = {}, ""
  for name in row[2]:match "^[^;]*":gmatch "`([%w_]+)`" do
    records[#records + 1] = "perfev.record." .. name
  end
  if row[2]:find "payload" then second = ", args: perfev.Payload" end
  if row[2]:find "bytes" then second = ", bytes: string" end
  local record = #records > 0 and table.concat(records, "|") or "perfev.Record"
  local types = { ("(fun(r: %s%s): any)"):format(record, second), "(fun(...: any): any)",
    "perfev.Sink", "perfev.Sink[]" }
  add_field(fields, row[1]:match "`(.-)`", types, "receives records: " .. plain(row[2]))
end

local function add_callbacks(fields, sections)
  for _, section in ipairs(sections) do
    for _, rows in ipairs(section.page == "events" and section.tables or {}) do
      for _, row in ipairs(rows.head[1] == "callback" and rows or {}) do
        add_callback(fields, row)
      end
    end
  end
end

local function record_lines(sections)
  for _, section in ipairs(sections) do
    local name = section.page == "records" and section.heading:match "^`([%w_]+)` records$"
    if name then
      line ""
      line("---@class perfev.record.%s: perfev.Record", name)
      line("---@field type %q", name)
      local fields = new_fields()
      for _, rows in ipairs(section.tables) do
        for _, row in ipairs(rows) do add_row_fields(fields, row, rows.head) end
      end
      field_lines(fields)
    end
  end
end

-- Types of perfev.check -> annotations. Other types are kept as on their page.
local checked = {
  string = "string", path = "string", boolean = "boolean", number = "number", ["true"] = "true",
  ["false"] = "false", duration = "perfev.Duration", size = "perfev.Size", buffer = "perfev.Size",
  moment = "string|integer", id = "integer", ids = 'integer|integer[]|"self"',
  cpus = "string|integer[]", command = "string[]",
}

-- "integer > 0 | list of string" -> "integer|string[]" | nil: not known
local function checked_type(text)
  local list = {}
  for part in (text .. " | "):gmatch "(.-) | " do
    local choice, element = part:match "^one of (.+)$", checked[part:match "^list of (.+)$"]
    local one = checked[part] or part:match "^(integer)%f[ \0]" or part:match "^(number)%f[ \0]"
      or element and (element:find "|" and "(" .. element .. ")[]" or element .. "[]")
      or choice and choice:gsub("[%w_]+", '"%0"'):gsub(", ", "|")
    if not one then return nil end
    list[#list + 1] = one
  end
  return table.concat(list, "|")
end

-- The types of a class's options as the code checks them.
local function use_checked_types(fields, class)
  for _, table_name in ipairs(checked_tables[class] or {}) do
    for name, found in pairs(option_tables[table_name] or {}) do
      local field = fields.by_name[name]
      local text = type(found) == "table" and found[1] or found
      local annotated = type(name) == "string" and checked_type(text)
      if field and annotated then field.types = { annotated } end
    end
  end
end

-- The classes of options, and of tables that functions return.
local function class_lines(sections)
  local i = 1
  while classes[i] do
    local name, fields = classes[i][1], new_fields()
    line ""
    line("---@class %s", name)
    if name:find "^perfev.EventSpec" then add_callbacks(fields, sections) end
    repeat
      add_class_fields(fields, sections, classes[i])
      i = i + 1
    until not classes[i] or classes[i][1] ~= name
    use_checked_types(fields, name:match "^[%w_.]+")
    field_lines(fields, not name:find "Totals" and not name:find "Reading")
  end
end

-- Every documented name has a type, and every type belongs to a documented name.
local function check_names(sections, known)
  local documented = {}
  for _, section in ipairs(sections) do
    local name, params = heading_of(section)
    if name then
      documented[name] = true
      if params and not known[name] then warn("%s has no line in signatures.lua", name) end
      if not params and values[name] == nil then warn("%s has no type in `values`", name) end
    end
  end
  for name in pairs(known) do
    if not documented[name] then warn("%s has no heading in doc/api", name) end
  end
end

local function write_interface(paths)
  local sections = {}
  for _, path in ipairs(paths) do read_page(path, sections) end
  sections = with_table_functions(sections)
  local known = read_signatures()
  check_names(sections, known)
  line "---@meta perfev"
  line "-- Written by src/gen/types.lua from doc/api; do not edit it."
  line ""
  line(aliases)
  class_lines(sections)
  for _, object in ipairs(objects) do object_lines(sections, object, known) end
  record_lines(sections)
  line ""
  line "return perfev"
end

if arg[1] == "module" then -- a module of its own whose class is in perfev.lua
  line("---@meta %s", arg[2])
  line "-- Written by src/gen/types.lua; do not edit it."
  line("---@type %s", arg[2])
  line "local module"
  line "return module"
else
  write_interface(arg)
end
io.write(table.concat(out, "\n"), "\n")
