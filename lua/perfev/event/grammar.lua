--- Parses an event string by perf's grammar: text -> tree. Reads nothing from the system.
--
--   events      = list { " | " list }          the first list that this machine has
--   list        = unit { "," unit }
--   unit        = [NAME] "{" event { "," event } "}" [":" modifiers] | event
--   event       = NAME [terms] [":" modifiers]          a name that perf has: cycles, cpu-clock, r1a8
--               | SYSTEM ":" TRACEPOINT [":" modifiers]  both may have * ? [a-z]
--               | PMU terms [modifiers]
--               | PREFIX ":" …                           a probe or a breakpoint: parsed by another module
--   terms       = "/" term { "," term } "/",   term = NAME ["=" value]
--
-- It follows perf's own parser (tools/perf/util/parse-events.[ly] of 6.1). An error shows the text with a caret at
-- the first byte that does not parse.

local lazy = require "perfev.base.lazy_module"
local glob = require "perfev.base.glob"
local names = require "perfev.event.perf_names"
local foreign_names = lazy "perfev.event.foreign_names"

local M = {}

-- The text after these prefixes is parsed by the module that resolves the event.
local prefixes = {
  kprobe = true, kretprobe = true, uprobe = true, uretprobe = true, usdt = true, mem = true, pfm = true,
}

-- The terms that every event accepts. "flag": the value is optional.
M.terms = {
  name = "word", period = "number", freq = "number", ["call-graph"] = "word", ["stack-size"] = "number",
  ["max-stack"] = "number", branch_type = "word", time = "flag", inherit = "flag", ["no-inherit"] = "flag",
  overwrite = "flag", ["no-overwrite"] = "flag", ["aux-output"] = "flag", ["aux-sample-size"] = "number",
  config = "number", config1 = "number", config2 = "number", config3 = "number", config4 = "number",
  percore = "flag", ["metric-id"] = "word",
}
-- perf's terms that are refused here: term -> the other way to the same end.
local not_supported = { nr = "-n counts records for the whole run", ["driver-config"] = "a sink is chosen in sysfs" }

--- Formats an error: the message, the text, and a caret under byte `at` of the text.
-- @tparam string text   the whole event string
-- @tparam integer at    the first byte is 1
-- @tparam string why
-- @tparam[opt] string remedy  after "try: "
function M.fault(text, at, why, remedy)
  local shown = text:gsub("%c", " ")
  return ("event '%s': %s\n  | %s\n  | %s^%s"):format(text, why, shown, (" "):rep(at - 1),
    remedy and "\n  try: " .. remedy or "")
end

-- The parser's state is `input`: `text`, and `at`, the next byte. An error is raised as { at =, why =, remedy = }.
local function raise_fault(at, why, remedy)
  error({ at = at, why = why, remedy = remedy }, 0)
end

local function match_here(input, pattern)
  return input.text:match("^" .. pattern, input.at)
end

local function skip_space(input)
  input.at = input.text:match("^%s*()", input.at)
end

-- ---- modifiers ----

local all_modifiers = "ukhGHIpPSDWeb" -- b changes how perf stat counts, and is ignored

local function check_modifiers(word, at)
  for i = 1, #word do
    local c = word:sub(i, i)
    if not all_modifiers:find(c, 1, true) then
      return at + i - 1, ("'%s' is not a modifier"):format(c),
        "u k h (user, kernel, hypervisor), G H (guest, host), p pp ppp P (precise), S D W e I b"
    end
    if c ~= "p" and word:find(c, i + 1, true) then
      return at + i - 1, ("the modifier '%s' is repeated"):format(c)
    end
  end
  if select(2, word:gsub("p", "")) > 3 then return at, "precise goes up to ppp" end
end

-- With u, k or h all three fields are set, then the field of each named side is cleared.
local exclude_field = { u = "exclude_user", k = "exclude_kernel", h = "exclude_hv" }

-- Applies a word of modifiers to m, letter by letter, as get_event_modifier() of parse-events.c does.
local function apply_modifiers(word, m)
  local chosen = m.exclude_user or m.exclude_kernel or m.exclude_hv
  local guest_or_host = m.guest_or_host
  for c in word:gmatch(".") do
    if exclude_field[c] then
      if not chosen then
        chosen, m.exclude_user, m.exclude_kernel, m.exclude_hv = true, true, true, true
      end
      if c == "u" and not guest_or_host then m.exclude_guest = true end
      m[exclude_field[c]] = false
      m.chosen = true
    elseif c == "G" or c == "H" then
      if not guest_or_host then
        guest_or_host, m.exclude_guest, m.exclude_host = true, true, true
      end
      m[c == "G" and "exclude_guest" or "exclude_host"] = false
      m.chose_guest = true
    elseif c == "p" then
      m.precise_ip = (m.precise_ip or 0) + 1
      if not guest_or_host then m.exclude_guest = true end
    elseif c == "I" then m.exclude_idle = true
    elseif c == "P" then m.precise_max = true
    elseif c == "S" then m.sample_read = true
    elseif c == "W" then m.weak = true
    elseif c == "D" then m.pinned = true
    elseif c == "e" then m.exclusive = true
    end
  end
  m.guest_or_host = guest_or_host
  return m
end

local is_side = { exclude_user = true, exclude_kernel = true, exclude_hv = true }
local flag_fields = { "exclude_guest", "exclude_host", "exclude_idle", "pinned", "exclusive" }

--- Reads a word of modifiers.
-- @tparam string word            "u", "ukpp" or ""
-- @tparam[opt] string group_word the modifiers of the event's group
-- @tparam[opt] boolean leader    true for the group's leader: only it gets the group's pinned and exclusive
-- @treturn[1] table  `exclude` (exclude_user, _kernel, _hv; empty without u, k and h), `fields` (other
--   attr fields), `sample_read`, `weak`, `precise_max`, `empty` (no modifier at all)
-- @treturn[2] nil
-- @treturn[2] string
function M.modifiers(word, group_word, leader)
  local at, why = check_modifiers(word, 1)
  if at then return nil, why end
  local m = {}
  if word == "" then m.exclude_guest = true end -- event_attr_init(): perf's default
  apply_modifiers(word, m)
  if group_word and group_word ~= "" then
    local pinned, exclusive = m.pinned, m.exclusive
    apply_modifiers(group_word, m)
    if not leader then m.pinned, m.exclusive = pinned, exclusive end
  end
  local found = { exclude = {}, fields = {}, sample_read = m.sample_read, weak = m.weak,
    precise_max = m.precise_max, chose_guest = m.chose_guest, empty = word == "" and (group_word or "") == "" }
  if m.chosen then
    for field in pairs(is_side) do found.exclude[field] = m[field] or false end
  end
  for _, field in ipairs(flag_fields) do
    if m[field] ~= nil then found.fields[field] = m[field] end
  end
  if (m.precise_ip or 0) > 3 then return nil, "precise goes up to ppp" end
  found.fields.precise_ip = m.precise_ip
  return found
end

-- Reads a word of modifiers, which may be "".
local function read_modifiers(input)
  local at, word = input.at, match_here(input, "[^,%s{}/]*")
  local wrong, why, remedy = check_modifiers(word, at)
  if wrong then raise_fault(wrong, why, remedy) end
  input.at = at + #word
  return word
end

local function read_colon_modifiers(input)
  if match_here(input, ":") then
    input.at = input.at + 1
    if not match_here(input, "%a") then
      raise_fault(input.at, "modifiers are expected after the colon", "u, k, or no colon")
    end
    return read_modifiers(input)
  end
  return ""
end

-- ---- terms ----

local function read_value(input, name)
  local quote = match_here(input, "['\"]")
  if quote then
    local value, after = input.text:match("^" .. quote .. "([^" .. quote .. "]*)" .. quote .. "()", input.at)
    if not value then raise_fault(input.at, ("the quote %s is not closed"):format(quote)) end
    input.at = after
    return value
  end
  local value = match_here(input, "[^,/%s]*")
  if value == "" then raise_fault(input.at, ("a value is expected after %s="):format(name)) end
  input.at = input.at + #value
  return value
end

local TENTH = 0x1999999999999999 -- 2^64 / 10

local function parse_decimal(text)
  local n = 0
  for digit in text:gmatch("%d") do
    if math.ult(TENTH, n) or n == TENTH and digit > "5" then return nil end
    n = n * 10 + math.tointeger(tonumber(digit))
  end
  return n
end

--- Reads an integer of 64 bits, as C and perf do: 10, 0x1f. Returns nil if the text is not a number.
function M.number(text)
  local hex = text:match("^0[xX](%x+)$")
  if hex then
    hex = hex:gsub("^0+(.)", "%1")
    return #hex <= 16 and math.tointeger(tonumber("0x" .. hex)) or nil
  end
  return text:find("^%d+$") and parse_decimal(text) or nil
end

-- Checks the value of a term that every event accepts. The values of PMU terms are checked by pmu.lua.
local function check_term(term)
  local wants = M.terms[term.name]
  if not_supported[term.name] then
    raise_fault(term.at, ("'%s' is not supported: %s"):format(term.name, not_supported[term.name]), "without it")
  end
  if wants == "number" then
    if not term.value then raise_fault(term.at, ("%s needs a number"):format(term.name), term.name .. "=NUMBER") end
    if not M.number(term.value) then
      raise_fault(term.value_at, ("%s is a number, not '%s'"):format(term.name, term.value), term.name .. "=NUMBER")
    end
  elseif wants == "word" and not term.value then
    raise_fault(term.at, ("%s needs a value"):format(term.name), term.name .. "=VALUE")
  end
end

local function read_term(input)
  local at, name = input.at, match_here(input, "[%w_.?*-]+")
  if not name then raise_fault(at, "a term is expected, as in event=0x3c or period=1000") end
  local term = { name = name, at = at }
  input.at = at + #name
  if match_here(input, "=") then
    input.at = input.at + 1
    term.value_at = input.at
    term.value = read_value(input, name)
  end
  check_term(term)
  return term
end

-- Reads "/a=1,b/" from its first slash. "//" has no terms.
local function read_terms(input)
  local open, terms, seen = input.at, {}, {}
  input.at = open + 1
  skip_space(input)
  while not match_here(input, "/") do
    local term = read_term(input)
    if seen[term.name] then raise_fault(term.at, ("'%s' is repeated"):format(term.name)) end
    seen[term.name] = true
    terms[#terms + 1] = term
    skip_space(input)
    if match_here(input, ",") then
      input.at = input.at + 1
      skip_space(input)
    elseif not match_here(input, "/") then
      if input.at > #input.text then raise_fault(open, "the slash is not closed", "a slash after the last term") end
      raise_fault(input.at, "a comma or the closing slash is expected here")
    end
  end
  input.at = input.at + 1
  return terms
end

-- ---- events ----

local function is_known(name)
  local found, why = names.find(name)
  return found ~= nil or why ~= nil
end

-- Reads an event that another module parses: up to a comma, a closing brace, or the bar between alternatives.
local function read_whole(input, prefix)
  local rest = input.text:sub(input.at)
  local stop_at = rest:find("[,}]") or #rest + 1
  local bar = rest:find("%s|%s")
  if bar and bar < stop_at then stop_at = bar end
  local text = rest:sub(1, stop_at - 1):gsub("%s+$", "")
  if prefix and text == prefix .. ":" then
    raise_fault(input.at + #text, ("the name after %s: is missing"):format(prefix))
  end
  input.at = input.at + #text
  local node = { kind = "whole", prefix = prefix, terms = {}, modifiers = "", body = text }
  if prefix == "mem" then
    -- Modifiers follow the access or an address; after FILE: the word may be a symbol called u.
    local body, word = text:match("^(.*:[rwx]+):(%a+)$")
    if not body then body, word = text:match("^(mem:%x[%xx]*/?%d*):(%a+)$") end
    if body and not check_modifiers(word, 1) then node.body, node.modifiers = body, word end
  end
  return node
end

local function check_glob(name, at)
  local ok = pcall(glob.matcher, name)
  if not ok then raise_fault(at, ("the pattern '%s' is not closed"):format(name), "a ] after the [") end
end

local NAME = "[%w_.%-*?%[%]!]+"

-- Reads from the colon after a word: a tracepoint, or a vendor's name with its parts.
local function read_tracepoint(input, system, at)
  local mark = input.at
  local name = input.text:match("^" .. NAME, mark + 1)
  if not name then raise_fault(mark + 1, "a tracepoint's name or modifiers are expected after the colon",
    system .. ":* for all of " .. system) end
  check_glob(system, at)
  check_glob(name, mark + 1)
  input.at = mark + 1 + #name
  local node = { kind = "tracepoint", system = system, name = name, terms = {}, modifiers = "",
    glob = glob.is_pattern(system) or glob.is_pattern(name) }
  if match_here(input, "/") then
    node.terms = read_terms(input)
    if not match_here(input, ":") then
      node.modifiers = read_modifiers(input)
      return node
    end
  end
  -- A third word may be modifiers, or part of a vendor's name: UOPS:ALL:c=1.
  local word = input.text:match("^:([%a]+)%f[,%s{}\0]", input.at)
  if match_here(input, ":") and (not word or check_modifiers(word, 1)) then
    if match_here(input, ":[^,{}%s]*[=:]") or word and word:find("%u%u") then
      input.at = at
      return read_whole(input)
    end
  end
  node.modifiers = read_colon_modifiers(input)
  return node
end

-- Reads from the slash after a word: terms, or a tracepoint whose colon is written as a slash.
local function read_slash(input, word)
  local name = match_here(input, "/([%w_.%-]+)%f[,%s{}:\0]")
  if name and not input.text:find("^,[^{}%s]*/", input.at + 1 + #name) and not is_known(word) then
    input.at = input.at + 1 + #name
    return { kind = "tracepoint", system = word, name = name, terms = {}, modifiers = read_colon_modifiers(input) }
  end
  local terms = read_terms(input)
  local modifiers = match_here(input, ":") and read_colon_modifiers(input) or read_modifiers(input)
  if is_known(word) or word:find("^r%x+$") then
    return { kind = is_known(word) and "name" or "raw", name = word, terms = terms, modifiers = modifiers }
  end
  if word:find("[%[%]!]") then check_glob(word, input.at) end
  return { kind = "pmu", name = word, terms = terms, modifiers = modifiers, glob = glob.is_pattern(word) }
end

-- Reads "1:0", a type and a config, or "316", a tracepoint's id.
local function read_number(input)
  local kind, config = match_here(input, "(%w+):(%w+)%f[^%w]")
  kind, config = kind and M.number(kind), config and M.number(config)
  if kind and config then
    input.at = input.at + #match_here(input, "%w+:%w+")
    return { kind = "number", type = kind, config = config, terms = {}, modifiers = read_colon_modifiers(input) }
  end
  local digits = match_here(input, "%d+%f[,%s{}:\0]")
  if digits then
    input.at = input.at + #digits
    return { kind = "id", id = math.tointeger(tonumber(digits)), terms = {}, modifiers = read_colon_modifiers(input) }
  end
end

local function read_event_at(input)
  local prefix = match_here(input, "(%l+):")
  if prefix and prefixes[prefix] then return read_whole(input, prefix) end
  if match_here(input, "[%w_]+::") then return read_whole(input) end
  local number = match_here(input, "%d") and read_number(input)
  if number then return number end
  local at, word = input.at, match_here(input, NAME)
  if not word then raise_fault(at, "an event is expected here", "perfl list shows the events") end
  input.at = at + #word
  if match_here(input, "/") then return read_slash(input, word) end
  if word:find("^r%x+$") and not is_known(word) then
    return { kind = "raw", name = word, terms = {}, modifiers = read_colon_modifiers(input) }
  end
  if match_here(input, ":") and not is_known(word) then
    -- A name from sysfs or of a vendor, with modifiers, looks like a tracepoint. resolve.lua decides.
    return read_tracepoint(input, word, at)
  end
  return { kind = "name", name = word, terms = {}, modifiers = read_colon_modifiers(input) }
end

local function read_event(input)
  local at = input.at
  input.event_at = at
  local node = read_event_at(input)
  node.at, node.source = at, input.text
  node.text = input.text:sub(at, input.at - 1)
  if not match_here(input, "[,%s{}]") and input.at <= #input.text then
    raise_fault(input.at, ("'%s' is not understood here"):format(input.text:match("^[^,%s{}]+", input.at)),
      match_here(input, "|") and "a blank before and after it, between alternatives" or nil)
  end
  return node
end

-- The name before a group's brace. A single letter there may be left over from a shell's brace expansion.
local GROUP_NAME = "([%a_][%w_.-]*%w){"

local function read_group(input)
  local start, name = input.at, match_here(input, GROUP_NAME) or match_here(input, "(%a){")
  local open = start + #(name or "")
  input.at = open + 1
  local group = { group = true, at = open, name = name, modifiers = "" }
  repeat
    skip_space(input)
    if match_here(input, "{") then raise_fault(input.at, "groups cannot be nested") end
    if input.at > #input.text then raise_fault(open, "the brace is not closed", "a } after the last event") end
    group[#group + 1] = read_event(input)
    skip_space(input)
    local mark = match_here(input, "[,}]")
    if not mark then
      if input.at > #input.text then raise_fault(open, "the brace is not closed", "a } after the last event") end
      raise_fault(input.at, "a comma or the closing brace is expected here")
    end
    input.at = input.at + 1
  until mark == "}"
  group.modifiers = read_colon_modifiers(input)
  group.text = input.text:sub(start, input.at - 1)
  for i, node in ipairs(group) do
    local _, why = M.modifiers(node.modifiers, group.modifiers, i == 1)
    if why then raise_fault(node.at, why) end
  end
  return group
end

local function read_list(input)
  local list = {}
  repeat
    skip_space(input)
    local is_group = match_here(input, "{") or match_here(input, GROUP_NAME) or match_here(input, "%a{")
    list[#list + 1] = is_group and read_group(input) or read_event(input)
    skip_space(input)
    local comma = match_here(input, ",")
    if comma then input.at = input.at + 1 end
  until not comma
  return list
end

local function read_all(input)
  local tree = { text = input.text }
  repeat
    tree[#tree + 1] = read_list(input)
    local bar = match_here(input, "|")
    if bar then
      input.at = input.at + 1
    elseif input.at <= #input.text then
      raise_fault(input.at, ("'%s' is not understood here"):format(input.text:match("^%S+", input.at)),
        input.text:find("^[%w_]{", input.at - 1)
          and "each name in full, a comma between them: the shell expands such braces"
          or "a comma between events, ' | ' between alternatives")
    end
  until not bar
  return tree
end

-- Replaces a syntax error if the text is a name of another tool, such as bpftrace's software:faults:100.
local function translate_fault(input, fault)
  local text = input.event_at and input.text:match("^[^,%s{}]+", input.event_at)
  local here = text and foreign_names.translate(text)
  if here then return { at = input.event_at, why = M.OTHERS, remedy = here } end
  return fault
end

--- The cause in an error about a name of another tool.
M.OTHERS = "this is a name of bpftrace or bcc"

--- Parses an event string.
-- @tparam string text
-- @treturn[1] table  alternatives, each a list of units. A unit is an event, or a group
--   { group = true, modifiers =, event, … }. An event: `kind` ("name", "raw", "number", "id", "tracepoint",
--   "pmu", "whole"), `name`, `system`, `terms` ({ name =, value =, at = }, …), `modifiers`, `glob`,
--   `text` (its part of the string), `body` (for "whole": the text without modifiers), `source` (the whole string)
--   and `at` (the event's first byte in it)
-- @treturn[2] nil
-- @treturn[2] string  message with a caret
function M.parse(text)
  local input = { text = text, at = 1 }
  local ok, tree = pcall(read_all, input)
  if ok then return tree end
  if type(tree) ~= "table" then error(tree, 0) end
  tree = translate_fault(input, tree)
  return nil, M.fault(text, tree.at, tree.why, tree.remedy)
end

return M
