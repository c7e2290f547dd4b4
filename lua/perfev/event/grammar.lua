--- perf's event grammar: text -> tree. Nothing here asks the system.
--
--   events      = list { " | " list }          the first of them that this machine has
--   list        = unit { "," unit }
--   unit        = [NAME] "{" event { "," event } "}" [":" modifiers] | event
--   event       = NAME [terms] [":" modifiers]          a name of perf's: cycles, cpu-clock, r1a8
--               | SYSTEM ":" TRACEPOINT [":" modifiers]  either with * ? [a-z]
--               | PMU terms [modifiers]
--               | PREFIX ":" …                           a probe, a breakpoint: read by others
--   terms       = "/" term { "," term } "/",   term = NAME ["=" value]
--
-- What perf's own parser means by it is the measure (tools/perf/util/parse-events.[ly] of 6.1); an
-- error shows the text with a caret where it stopped being understood.

local lazy = require "perfev.base.lazy_module"
local names = require "perfev.event.perf_names"
local spelling = lazy "perfev.event.foreign_names"

local M = {}

-- What begins with one of these is read by whoever opens it.
local prefixes = {
  kprobe = true, kretprobe = true, uprobe = true, uretprobe = true, usdt = true, mem = true, pfm = true,
}

-- The words between slashes that every event may have. value: needed, "number", or may be left out.
M.terms = {
  name = "word", period = "number", freq = "number", ["call-graph"] = "word", ["stack-size"] = "number",
  ["max-stack"] = "number", branch_type = "word", time = "flag", inherit = "flag", ["no-inherit"] = "flag",
  overwrite = "flag", ["no-overwrite"] = "flag", ["aux-output"] = "flag", ["aux-sample-size"] = "number",
  config = "number", config1 = "number", config2 = "number", config3 = "number", config4 = "number",
  percore = "flag", ["metric-id"] = "word",
}
-- perf's, but about perf's own work.
local not_ours = { nr = "-n counts records for the whole run", ["driver-config"] = "a sink is chosen in sysfs" }

--- A sentence with the text and a caret under byte `at` of it.
-- @tparam string text   all of what the user wrote
-- @tparam integer at    1 is the first byte
-- @tparam string why
-- @tparam[opt] string remedy  after "try: "
function M.fault(text, at, why, remedy)
  local shown = text:gsub("%c", " ")
  return ("event '%s': %s\n  | %s\n  | %s^%s"):format(text, why, shown, (" "):rep(at - 1),
    remedy and "\n  try: " .. remedy or "")
end

-- A reader of s.text from s.at on; raises a table { at =, why =, remedy = }.
local function stop(at, why, remedy)
  error({ at = at, why = why, remedy = remedy }, 0)
end

local function look(s, pattern)
  return s.text:match("^" .. pattern, s.at)
end

local function skip_space(s)
  s.at = s.text:match("^%s*()", s.at)
end

-- ---- modifiers ----

local all_modifiers = "ukhGHIpPSDWeb" -- b: how perf stat counts, not what

local function check_modifiers(word, at)
  for i = 1, #word do
    local c = word:sub(i, i)
    if not all_modifiers:find(c, 1, true) then
      return at + i - 1, ("'%s' is no modifier"):format(c),
        "of u k h (which side), G H (guest, host), p pp ppp P (precise), S D W e I b"
    end
    if c ~= "p" and word:find(c, i + 1, true) then
      return at + i - 1, ("the modifier '%s' is there twice"):format(c)
    end
  end
  if select(2, word:gsub("p", "")) > 3 then return at, "precise goes up to ppp" end
end

local sides = { u = "exclude_user", k = "exclude_kernel", h = "exclude_hv" }

-- get_event_modifier() of parse-events.c, letter by letter. m is what holds before.
local function apply(word, m)
  local chosen = m.exclude_user or m.exclude_kernel or m.exclude_hv
  local guest_or_host = m.guest_or_host
  for c in word:gmatch(".") do
    if sides[c] then
      if not chosen then
        chosen, m.exclude_user, m.exclude_kernel, m.exclude_hv = true, true, true, true
      end
      if c == "u" and not guest_or_host then m.exclude_guest = true end
      m[sides[c]] = false
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

--- What a word of modifiers means.
-- @tparam string word            "u", "ukpp", may be ""
-- @tparam[opt] string of_group   the modifiers after the braces it stands in
-- @tparam[opt] boolean leader    of that group: pinned and exclusive are its alone
-- @treturn[1] table  `exclude` (exclude_user, _kernel, _hv; empty when none was chosen), `fields` (other
--   attr fields), `sample_read`, `weak`, `precise_max`, `empty` (no modifier at all)
-- @treturn[2] nil
-- @treturn[2] string
function M.modifiers(word, of_group, leader)
  local at, why = check_modifiers(word, 1)
  if at then return nil, why end
  local m = {}
  if word == "" then m.exclude_guest = true end -- event_attr_init(): perf's default
  apply(word, m)
  if of_group and of_group ~= "" then
    local pinned, exclusive = m.pinned, m.exclusive
    apply(of_group, m)
    if not leader then m.pinned, m.exclusive = pinned, exclusive end
  end
  local found = { exclude = {}, fields = {}, sample_read = m.sample_read, weak = m.weak,
    precise_max = m.precise_max, chose_guest = m.chose_guest, empty = word == "" and (of_group or "") == "" }
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

-- A word of modifiers at s.at; "" where there is none.
local function read_modifiers(s)
  local at, word = s.at, look(s, "[^,%s{}/]*")
  local wrong, why, remedy = check_modifiers(word, at)
  if wrong then stop(wrong, why, remedy) end
  s.at = at + #word
  return word
end

local function read_colon_modifiers(s)
  if look(s, ":") then
    s.at = s.at + 1
    if not look(s, "%a") then stop(s.at, "modifiers are expected after the colon", "u, k, or no colon") end
    return read_modifiers(s)
  end
  return ""
end

-- ---- terms ----

local function read_value(s, name)
  local quote = look(s, "['\"]")
  if quote then
    local value, after = s.text:match("^" .. quote .. "([^" .. quote .. "]*)" .. quote .. "()", s.at)
    if not value then stop(s.at, ("the quote %s is not closed"):format(quote)) end
    s.at = after
    return value
  end
  local value = look(s, "[^,/%s]*")
  if value == "" then stop(s.at, ("a value is expected after %s="):format(name)) end
  s.at = s.at + #value
  return value
end

local TENTH = 0x1999999999999999 -- of 2^64

local function decimal(text)
  local n = 0
  for digit in text:gmatch("%d") do
    if math.ult(TENTH, n) or n == TENTH and digit > "5" then return nil end
    n = n * 10 + math.tointeger(tonumber(digit))
  end
  return n
end

--- The integer of 64 bits that a text means, as C and perf read it: 10, 0x1f. nil when it means none.
function M.number(text)
  local hex = text:match("^0[xX](%x+)$")
  if hex then
    hex = hex:gsub("^0+(.)", "%1")
    return #hex <= 16 and math.tointeger(tonumber("0x" .. hex)) or nil
  end
  return text:find("^%d+$") and decimal(text) or nil
end

-- A word of ours must have a value that it can have; those of a PMU are checked by the PMU.
local function check_term(term)
  local wants = M.terms[term.name]
  if not_ours[term.name] then
    stop(term.at, ("'%s' is perf's own: %s"):format(term.name, not_ours[term.name]), "without it")
  end
  if wants == "number" then
    if not term.value then stop(term.at, ("%s needs a number"):format(term.name), term.name .. "=NUMBER") end
    if not M.number(term.value) then
      stop(term.value_at, ("%s is a number, not '%s'"):format(term.name, term.value), term.name .. "=NUMBER")
    end
  elseif wants == "word" and not term.value then
    stop(term.at, ("%s needs a value"):format(term.name), term.name .. "=VALUE")
  end
end

local function read_term(s)
  local at, name = s.at, look(s, "[%w_.?*-]+")
  if not name then stop(at, "a term is expected, as in event=0x3c or period=1000") end
  local term = { name = name, at = at }
  s.at = at + #name
  if look(s, "=") then
    s.at = s.at + 1
    term.value_at = s.at
    term.value = read_value(s, name)
  end
  check_term(term)
  return term
end

-- "/a=1,b/" with s.at on the first slash; "//" has none.
local function read_terms(s)
  local open, terms, seen = s.at, {}, {}
  s.at = open + 1
  skip_space(s)
  while not look(s, "/") do
    local term = read_term(s)
    if seen[term.name] then stop(term.at, ("'%s' is there twice"):format(term.name)) end
    seen[term.name] = true
    terms[#terms + 1] = term
    skip_space(s)
    if look(s, ",") then
      s.at = s.at + 1
      skip_space(s)
    elseif not look(s, "/") then
      if s.at > #s.text then stop(open, "the slash is not closed", "a slash after the last term") end
      stop(s.at, "a comma or the closing slash is expected here")
    end
  end
  s.at = s.at + 1
  return terms
end

-- ---- events ----

local GLOB = "[*?%[]"

local function is_known(name)
  local found, why = names.find(name)
  return found ~= nil or why ~= nil
end

-- What ends an event that others read: a comma, a closing brace, the bar between alternatives.
local function read_whole(s, prefix)
  local rest = s.text:sub(s.at)
  local stop_at = rest:find("[,}]") or #rest + 1
  local bar = rest:find("%s|%s")
  if bar and bar < stop_at then stop_at = bar end
  local text = rest:sub(1, stop_at - 1):gsub("%s+$", "")
  if prefix and text == prefix .. ":" then stop(s.at + #text, ("the name after %s: is missing"):format(prefix)) end
  s.at = s.at + #text
  local node = { kind = "whole", prefix = prefix, terms = {}, modifiers = "", body = text }
  if prefix == "mem" then
    -- Behind the access, or behind an address: a symbol may be called u.
    local body, word = text:match("^(.*:[rwx]+):(%a+)$")
    if not body then body, word = text:match("^(mem:%x[%xx]*/?%d*):(%a+)$") end
    if body and not check_modifiers(word, 1) then node.body, node.modifiers = body, word end
  end
  return node
end

local function check_glob(name, at)
  local ok = pcall(M.matcher, name)
  if not ok then stop(at, ("the pattern '%s' is not closed"):format(name), "a ] after the [") end
end

local NAME = "[%w_.%-*?%[%]!]+"

-- s.at on the colon after a word: a tracepoint, or a vendor's name with its parts.
local function read_tracepoint(s, system, at)
  local mark = s.at
  local name = s.text:match("^" .. NAME, mark + 1)
  if not name then stop(mark + 1, "a tracepoint's name or modifiers are expected after the colon",
    system .. ":* for all of " .. system) end
  check_glob(system, at)
  check_glob(name, mark + 1)
  s.at = mark + 1 + #name
  local node = { kind = "tracepoint", system = system, name = name, terms = {}, modifiers = "",
    glob = system:find(GLOB) ~= nil or name:find(GLOB) ~= nil }
  if look(s, "/") then
    node.terms = read_terms(s)
    if not look(s, ":") then
      node.modifiers = read_modifiers(s)
      return node
    end
  end
  -- A third word may be modifiers, or part of a vendor's name: UOPS:ALL:c=1.
  local word = s.text:match("^:([%a]+)%f[,%s{}\0]", s.at)
  if look(s, ":") and (not word or check_modifiers(word, 1)) then
    if look(s, ":[^,{}%s]*[=:]") or word and word:find("%u%u") then
      s.at = at
      return read_whole(s)
    end
  end
  node.modifiers = read_colon_modifiers(s)
  return node
end

-- s.at on the slash after a word: terms, or the slash that some write for a tracepoint's colon.
local function read_slash(s, word)
  local name = look(s, "/([%w_.%-]+)%f[,%s{}:\0]")
  if name and not s.text:find("^,[^{}%s]*/", s.at + 1 + #name) and not is_known(word) then
    s.at = s.at + 1 + #name
    return { kind = "tracepoint", system = word, name = name, terms = {}, modifiers = read_colon_modifiers(s) }
  end
  local terms = read_terms(s)
  local modifiers = look(s, ":") and read_colon_modifiers(s) or read_modifiers(s)
  if is_known(word) or word:find("^r%x+$") then
    return { kind = is_known(word) and "name" or "raw", name = word, terms = terms, modifiers = modifiers }
  end
  if word:find("[%[%]!]") then check_glob(word, s.at) end
  return { kind = "pmu", name = word, terms = terms, modifiers = modifiers, glob = word:find(GLOB) ~= nil }
end

-- "1:0": a type and a config; "316": a tracepoint's id.
local function read_number(s)
  local kind, config = look(s, "(%w+):(%w+)%f[^%w]")
  kind, config = kind and M.number(kind), config and M.number(config)
  if kind and config then
    s.at = s.at + #look(s, "%w+:%w+")
    return { kind = "number", type = kind, config = config, terms = {}, modifiers = read_colon_modifiers(s) }
  end
  local digits = look(s, "%d+%f[,%s{}:\0]")
  if digits then
    s.at = s.at + #digits
    return { kind = "id", id = math.tointeger(tonumber(digits)), terms = {}, modifiers = read_colon_modifiers(s) }
  end
end

local function read_event_at(s)
  local prefix = look(s, "(%l+):")
  if prefix and prefixes[prefix] then return read_whole(s, prefix) end
  if look(s, "[%w_]+::") then return read_whole(s) end
  local number = look(s, "%d") and read_number(s)
  if number then return number end
  local at, word = s.at, look(s, NAME)
  if not word then stop(at, "an event is expected here", "perfl list shows the events") end
  s.at = at + #word
  if look(s, "/") then return read_slash(s, word) end
  if word:find("^r%x+$") and not is_known(word) then
    return { kind = "raw", name = word, terms = {}, modifiers = read_colon_modifiers(s) }
  end
  if look(s, ":") and not is_known(word) then
    -- A name that the system has to tell (an alias in sysfs, a vendor's) and modifiers look like a tracepoint.
    return read_tracepoint(s, word, at)
  end
  return { kind = "name", name = word, terms = {}, modifiers = read_colon_modifiers(s) }
end

local function read_event(s)
  local at = s.at
  s.event_at = at
  local node = read_event_at(s)
  node.at, node.source = at, s.text
  node.text = s.text:sub(at, s.at - 1)
  if not look(s, "[,%s{}]") and s.at <= #s.text then
    stop(s.at, ("'%s' is not understood here"):format(s.text:match("^[^,%s{}]+", s.at)),
      look(s, "|") and "a blank on either side of it, between alternatives" or nil)
  end
  return node
end

-- The name before a group's brace. A name that ends in one letter can be what a shell left of a brace expansion.
local GROUP_NAME = "([%a_][%w_.-]*%w){"

local function read_group(s)
  local start, name = s.at, look(s, GROUP_NAME) or look(s, "(%a){")
  local open = start + #(name or "")
  s.at = open + 1
  local group = { group = true, at = open, name = name, modifiers = "" }
  repeat
    skip_space(s)
    if look(s, "{") then stop(s.at, "groups cannot be nested") end
    if s.at > #s.text then stop(open, "the brace is not closed", "a } after the last event") end
    group[#group + 1] = read_event(s)
    skip_space(s)
    local mark = look(s, "[,}]")
    if not mark then
      if s.at > #s.text then stop(open, "the brace is not closed", "a } after the last event") end
      stop(s.at, "a comma or the closing brace is expected here")
    end
    s.at = s.at + 1
  until mark == "}"
  group.modifiers = read_colon_modifiers(s)
  group.text = s.text:sub(start, s.at - 1)
  for i, node in ipairs(group) do
    local _, why = M.modifiers(node.modifiers, group.modifiers, i == 1)
    if why then stop(node.at, why) end
  end
  return group
end

local function read_list(s)
  local list = {}
  repeat
    skip_space(s)
    local is_group = look(s, "{") or look(s, GROUP_NAME) or look(s, "%a{")
    list[#list + 1] = is_group and read_group(s) or read_event(s)
    skip_space(s)
    local comma = look(s, ",")
    if comma then s.at = s.at + 1 end
  until not comma
  return list
end

local function read_all(s)
  local tree = { text = s.text }
  repeat
    tree[#tree + 1] = read_list(s)
    local bar = look(s, "|")
    if bar then
      s.at = s.at + 1
    elseif s.at <= #s.text then
      stop(s.at, ("'%s' is not understood here"):format(s.text:match("^%S+", s.at)),
        s.text:find("^[%w_]{", s.at - 1) and "each name in full, a comma between them: such braces are the shell's"
        or "a comma between events, ' | ' between alternatives")
    end
  until not bar
  return tree
end

-- What cannot be read may be right elsewhere: bpftrace's software:faults:100.
local function in_other_words(s, wrong)
  local text = s.event_at and s.text:match("^[^,%s{}]+", s.event_at)
  local here = text and spelling.of(text)
  if here then return { at = s.event_at, why = M.OTHERS, remedy = here } end
  return wrong
end

--- Why it is not there, when another tool calls it so.
M.OTHERS = "bpftrace and bcc call it so"

--- Read an event string.
-- @tparam string text
-- @treturn[1] table  alternatives, each a list of units. A unit is an event, or a group
--   { group = true, modifiers =, event, … }. An event: `kind` ("name", "raw", "number", "id", "tracepoint",
--   "pmu", "whole"), `name`, `system`, `terms` ({ name =, value =, at = }, …), `modifiers`, `glob`,
--   `text` (its part of what was written), `body` (of a "whole": without modifiers), `source` and `at` (all of
--   it, and where in it).
-- @treturn[2] nil
-- @treturn[2] string  with a caret
function M.parse(text)
  local s = { text = text, at = 1 }
  local ok, tree = pcall(read_all, s)
  if ok then return tree end
  if type(tree) ~= "table" then error(tree, 0) end
  tree = in_other_words(s, tree)
  return nil, M.fault(text, tree.at, tree.why, tree.remedy)
end

-- ---- globs ----

--- A function that says whether a name matches a shell pattern (* ? [a-z] [!a-z]).
-- Raises when a bracket is not closed.
function M.matcher(pattern)
  local parts, at = { "^" }, 1
  while at <= #pattern do
    local c = pattern:sub(at, at)
    if c == "*" then
      parts[#parts + 1] = ".*"
    elseif c == "?" then
      parts[#parts + 1] = "."
    elseif c == "[" then
      local negated, set, after = pattern:match("^%[(!?)(%]?[^%]]*)%]()", at)
      if not set then error("bracket not closed", 2) end
      parts[#parts + 1] = ("[%s%s]"):format(negated == "!" and "^" or "", (set:gsub("[%%%]%^]", "%%%0")))
      at = after - 1
    else
      parts[#parts + 1] = c:gsub("%p", "%%%0")
    end
    at = at + 1
  end
  parts[#parts + 1] = "$"
  local compiled = table.concat(parts)
  return function(name) return name:find(compiled) ~= nil end
end

return M
