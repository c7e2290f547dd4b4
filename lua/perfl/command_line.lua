--- Parses perfl's command line: assigns each word to perfl, the script or the command.
--
-- There are two passes. `scan` knows only perfl's options and finds the script, so that it can run. The options that
-- the script declares then join perfl's in one argparse parser, and `parse` assigns every word. If the two passes
-- disagree, the command line is refused. Between them `take_command` finds the start of the command: --, or the first
-- plain word if the script takes none.

local args = require "perfev.tool.args"
local other_tools = require("perfev.base.lazy_module") "perfl.other_tools"
local escape = require "perfev.base.escape"
local grammar = require "perfev.event.grammar"
local message = require "perfl.message"
local session_options = require "perfev.base.options"
local parse_units = require "perfev.base.parse_units"

local M = {}

--- Returns a function that converts an option's text, and refuses 0.
-- @tparam function convert  text -> number | nil, message
-- @tparam string what       the option's value, for the message
function M.positive(convert, what)
  return function(text)
    local value, why = convert(text)
    if not value then return nil, why end
    if value <= 0 then return nil, ("%s '%s': must be above 0"):format(what, text) end
    return value
  end
end

local function parse_count(text)
  local n = text:find("^%d+$") and math.tointeger(tonumber(text))
  if n then return n end
  return nil, ("count '%s': expected a whole number, as in 1000"):format(text)
end

local function parse_ring_size(text)
  local _, wrong = parse_units.size(text)
  if wrong then return nil, wrong end
  local bytes = parse_units.buffer(text)
  if bytes then return bytes end
  return nil, ("size '%s': expected 4K to 2G for the ring of each CPU"):format(text)
end

local function parse_memory_size(text)
  local bytes, why = parse_units.size(text)
  if not bytes then return nil, why end
  if bytes < session_options.LEAST_BYTES then return nil, ("size '%s': 1M or more"):format(text) end
  return bytes
end

local function thread_count(name)
  return function(text)
    local n = text:find("^%d+$") and math.tointeger(tonumber(text))
    if n and n >= 1 and n <= 64 then return n end
    return nil, ("%s '%s': expected a number of threads from 1 to 64"):format(name, text)
  end
end

local function parse_time(text)
  local ok, why = parse_units.moment(text)
  if not ok then return nil, why end
  return text
end

-- perf's names of clocks (clockid_name in tools/perf/util/clockid.c) and clockid_t's numbers.
local clocks = {
  monotonic = "monotonic", mono = "monotonic", ["1"] = "monotonic", monotonic_raw = "monotonic_raw",
  raw = "monotonic_raw", ["4"] = "monotonic_raw", realtime = "realtime", real = "realtime", ["0"] = "realtime",
  boottime = "boottime", boot = "boottime", ["7"] = "boottime", tai = "tai", ["11"] = "tai",
}

local function parse_clock(text)
  local clock = clocks[text:lower():gsub("^clock_", "")]
  if clock then return clock end
  return nil, ("clock '%s': expected monotonic, monotonic_raw, realtime, boottime or tai"):format(text)
end

local function parse_switch_output(text)
  local ok, why = session_options.switch_output(text)
  if ok then return text end
  return nil, "switch output " .. why
end

local MOST_ID = (1 << 31) - 1 -- the kernel's int

local function id_list(what, kind, least)
  return function(text)
    local list, why = parse_units.list(text, what)
    for _, id in ipairs(list or {}) do
      if id < least or id > MOST_ID then return nil, ("%s '%s': %d is not a valid %s"):format(what, text, id, kind) end
    end
    return list, why
  end
end

local function parse_names(text)
  local names = {}
  for name in text:gmatch "[^,]+" do names[#names + 1] = name end
  return names
end

--- perfl's own options, in the order of --help. Each has a long name. `many`: may be repeated. A script may declare the
-- short names, except -h; `yields`: also the long one.
M.groups = {
  { "What to watch (or a command)",
    { "-a --all-cpus", into = "all_cpus", help = "watch every process on every CPU" },
    { "-C --cpu", into = "cpus", metavar = "LIST", convert = id_list("CPU list", "CPU number", 0),
      help = "watch only these CPUs, as in 0-3,7" },
    { "-p --pid", into = "pids", metavar = "PID[,...]", convert = id_list("process list", "process id", 1), many = true,
      help = "watch these processes with all their threads" },
    { "-t --tid", into = "tids", metavar = "TID[,...]", convert = id_list("thread list", "thread id", 1), many = true,
      help = "watch only these threads" },
    { "--uid", into = "uid", metavar = "USER",
      help = "watch the processes of this user that run now (with -p: those among PID)" },
    { "--comm", into = "comm", metavar = "NAME",
      help = "watch the processes with this name that run now, as in 'nginx*'; with -a also later ones" },
    { "--cgroup", into = "cgroup", metavar = "PATH", help = "watch the tasks of this cgroup, on every CPU (or -C)" },
  },
  { "Reading a recording (-C, -p, -t and --comm select records)",
    { "-i --input", into = "input", metavar = "FILE",
      help = "read a perf.data file instead of the kernel (-: standard input)" },
    { "--from", into = "from", metavar = "TIME", convert = parse_time,
      help = "skip records before TIME: 12345.678901 as perf script prints it, +1.5s after the first sample, or 25% of "
        .. "the span" },
    { "--to", into = "to", metavar = "TIME", convert = parse_time, help = "skip records after TIME" },
    { "--jobs", into = "jobs", metavar = "N", convert = thread_count "jobs",
      help = "read on N threads if only aggregators get the samples, otherwise ahead on one if N > 1 "
        .. "(default: one for each CPU, at most 8)" },
  },
  { "Limits",
    { "-d --duration", into = "duration", metavar = "DURATION", convert = M.positive(parse_units.duration, "duration"),
      help = "stop after 10s, 500ms, 2m (a plain number: seconds)" },
    { "-n --records", into = "count", metavar = "COUNT", convert = M.positive(parse_count, "count"),
      help = "stop after COUNT records" },
    { "-m --buffer", into = "buffer", metavar = "SIZE", convert = parse_ring_size,
      help = "ring buffer size of each CPU, as in 2M (default: 8M, 2M for aggregators alone)" },
    { "--readers", into = "readers", metavar = "N", convert = thread_count "readers",
      help = "read the rings on N threads, if only aggregators get the samples (default: on none but the main one)" },
    { "--max-memory", into = "max_memory", metavar = "SIZE", convert = parse_memory_size,
      help = "limit the memory for stacks, keys and names (default: 256M); the rest is counted as (other)" },
  },
  { "Script and output",
    { "-e --eval", into = "chunks", metavar = "CHUNK", many = true, yields = true,
      help = "run this Lua text instead of a script; repeat it for more lines. Before a script: the event that "
        .. "\"*\" stands for in it" },
    { "--clock", into = "clock", metavar = "CLOCK", convert = parse_clock,
      help = "the clock of all times, as in realtime (default: monotonic)" },
    { "-o --output", into = "output", metavar = "FILE",
      help = "write the output of print and io.write to FILE" },
    { "--record", into = "record", metavar = "FILE", yields = true,
      help = "also write a recording, for perf report, hotspot and -i (-: standard output); with -i: of the selected "
        .. "records" },
    { "-z --compress", into = "compress", help = "compress the recording with zstd" },
    { "--switch-output", into = "switch_output", metavar = "WHEN", convert = parse_switch_output,
      help = "start a new file of the recording at a size (100M), after a time (30s, 5m, 1h, 1d) or at SIGUSR2 "
        .. "(signal)" },
    { "--switch-max-files", into = "switch_max_files", metavar = "N", convert = M.positive(parse_count, "count"),
      help = "keep the newest N files of these" },
    { "--no-names", into = "no_names", yields = true,
      help = "do not keep the names of sampled functions in the recording" },
    { "--lines", into = "lines", yields = true,
      help = "keep also their source lines and inlined functions in the recording" },
    { "--pack", into = "pack", metavar = "FILE",
      help = "write the aggregators and profiles as frames, for perfl merge (-: standard output; then the script's "
        .. "own output is discarded)" },
    { "--interval", into = "interval", metavar = "TIME", yields = true,
      convert = M.positive(parse_units.duration, "interval"),
      help = "with --pack: write frames after each interval of this length, too" },
    { "--armor", into = "armor", help = "with --pack: write frames as text (base64), for clush and the like" },
    { "--label", into = "labels", metavar = "KEY=VALUE", many = true, yields = true,
      convert = function(text) return require "perfl.frame_label" (text) end,
      help = "with --pack: add this to the header of each frame, as in job=web or host=db3" },
    { "-j --json", into = "json", yields = true, help = "print aggregators as JSON, a line for each key" },
    { "--http", into = "http", metavar = "[ADDR:]PORT",
      help = "serve a live page and /metrics for Prometheus on this port of 127.0.0.1 or of ADDR, or on "
        .. "unix:PATH" },
    { "--http-host", into = "http_hosts", metavar = "NAME[,...]", convert = parse_names,
      help = "answer requests for these names of the machine, too" },
    { "-q --quiet", into = "quiet", help = "print no summary line and no unread aggregators" },
    { "-v --verbose", into = "verbose", many = true,
      help = "print the events that are opened; -vv: also every system call" },
    { "--trace-sys", into = "trace_sys", help = "print every system call, as strace does" },
    { "--sim", into = "sim", metavar = "WORLD",
      help = "run on a simulated kernel: a Lua file that makes one, or the name of a built-in one" },
    { "--assume-pmu", into = "assume_pmu", metavar = "PMU",
      help = "look up vendor event names for this PMU (skl, amd64_fam19h_zen4)" },
    { "--many", into = "many", help = "allow more than 32 tracepoints, 128 functions of a pattern" },
    { "--inline", into = "inline", help = "add file, line and inlined functions to stacks, from DWARF" },
    { "--symfs", into = "symfs", metavar = "DIR",
      help = "look for symbol files below DIR instead of /" },
    { "--kallsyms --vmlinux", into = "kallsyms", metavar = "FILE",
      help = "read kernel functions from a copy of /proc/kallsyms or a vmlinux" },
    { "--debuginfod", into = "debuginfod", help = "fetch debug files from the servers in DEBUGINFOD_URLS" },
    { "--dry-run", into = "dry_run", help = "print the events, but open none" },
    { "--sandbox", into = "sandbox",
      help = "confine a script that you have not written: no files, programs or network; "
        .. "--sandbox=mem=256M,time=1s sets its limits" },
    { "--strict", into = "strict", help = "end with status 1 when a callback fails" },
    { "--fail-on-lost", into = "fail_on_lost", help = "end with status 3 when records were lost" },
    { "--i-trust-this", into = "trust", help = "as root, run a script that other users may write" },
    { "--version", into = "version", help = "print the version" },
    { "-h --help", into = "help", help = "print this help; with a script: also its own options" },
  },
}

--- flag -> row of `groups`; and all flags in the same order.
M.by_flag, M.flags = {}, {}
for _, group in ipairs(M.groups) do
  for i = 2, #group do
    for flag in group[i][1]:gmatch("%S+") do
      M.by_flag[flag] = group[i]
      M.flags[#M.flags + 1] = flag
    end
  end
end

-- ---- the first pass ----

local function is_option(word)
  return #word > 1 and word:sub(1, 1) == "-"
end

local function store_option(found, row, value)
  if row.into == "chunks" then
    found.chunks = found.chunks or {}
    found.chunks[#found.chunks + 1] = value
  elseif not row.metavar then
    found[row.into] = true
  end
end

-- True if this is -e after the name of a script, to which it belongs.
local function is_of_script(row, found, exists)
  return row.into == "chunks" and found.script and exists(found.script)
end

-- An option word -> the row whose value is the next word; "unknown" if the next word may be the value of an option that
-- perfl does not have.
local function scan_long(found, word, exists)
  local flag, value = word:match("^([^=]+)=(.*)$")
  local row = M.by_flag[flag or word]
  if not row or is_of_script(row, found, exists) then
    found.rest[#found.rest + 1] = word
    return not flag and "unknown" or nil
  end
  found.named[row] = true
  if row.metavar and not flag then return row end
  store_option(found, row, value)
end

local function scan_cluster(found, word, exists)
  for i = 2, #word do
    local row = M.by_flag["-" .. word:sub(i, i)]
    if not row or is_of_script(row, found, exists) then
      found.rest[#found.rest + 1] = word
      return "unknown"
    end
    found.named[row] = true
    if row.metavar then
      if i == #word then return row end
      store_option(found, row, word:sub(i + 1))
      return
    end
    store_option(found, row)
  end
end

-- A word after an unknown option may be that option's value: it is the script only if such a script exists.
local function looks_like_script(word, exists)
  return (word:find("%.lua$") or word:find("^[%w_-]+$")) and exists(word)
end

local function take_plain(found, at, word, wanted, exists)
  if wanted and wanted ~= "unknown" then
    store_option(found, wanted, word)
  elseif found.script == nil and not (wanted and not looks_like_script(word, exists)) then
    found.script, found.script_at = word, at
  else
    found.rest[#found.rest + 1] = word
  end
end

--- -> the words before --, the words after it or nil
function M.split_at_dashes(argv)
  for i, word in ipairs(argv) do
    if word == "--" then
      return table.move(argv, 1, i - 1, 1, {}), table.move(argv, i + 1, #argv, 1, {})
    end
  end
  return table.move(argv, 1, #argv, 1, {})
end

local function scan_words(head, exists, no_script)
  local found, wanted, nr_chunks = { rest = {}, named = {}, script = no_script }, nil, 0
  for at, word in ipairs(head) do
    if not is_option(word) then
      take_plain(found, at, word, wanted, exists)
      wanted = nil
    elseif word:sub(1, 2) == "--" then
      wanted = scan_long(found, word, exists)
    else
      wanted = scan_cluster(found, word, exists)
    end
    if #(found.chunks or {}) > nr_chunks then found.chunk_at, nr_chunks = at, nr_chunks + 1 end
  end
  return found
end

-- Joins -e and a Lua text that begins with a comment (--) into one word, so that the comment is not read as an option.
-- The second list: the index of each word, or of its first part, in `head`.
local function glue_comments(head)
  local out, places = {}, {}
  for i, word in ipairs(head) do
    local is_comment = word:find "^%-%-%[" or word:find "^%-%-.*%s"
    if is_comment and out[#out] == "-e" then
      out[#out] = "-e" .. word
    else
      out[#out + 1], places[#places + 1] = word, i
    end
  end
  return out, places
end

local function compiles(lines) return load(table.concat(lines, "\n"), "=-e", "t") ~= nil end

-- Separates the values of -e that are events, which replace "*" in the script, from those that are Lua.
local function take_events(found, has_script)
  if compiles(found.chunks) then return nil end
  local events, lua = {}, {}
  for _, word in ipairs(found.chunks) do
    local list = not compiles { word } and grammar.parse(word) and events or lua
    list[#list + 1] = word
  end
  if #events == 0 or #lua > 0 and not compiles(lua) or #lua == 0 and not has_script then return nil end
  found.events, found.chunks = events, #lua > 0 and lua or nil
end

--- The first pass: finds the script and the options needed before it runs.
-- @tparam {string,...} argv
-- @tparam function exists  word -> whether a script of that name or path is there
-- @tparam ?table verbs     the verbs, as keys: words that are not scripts
-- @treturn table  `head` (words before --), `command` (words after it, or nil), `script` (word, or
--                 nil), `rest` (words of the head that are neither perfl's nor the script),
--                 `chunks` (Lua of -e, or nil), `events` (events of -e, or nil), `given` (both),
--                 `named` (rows of `groups` whose flags are among the words),
--                 `verb` and `verb_words` (the other words) in place of a script,
--                 and `help`, `version`, `trust`, …: true when given
function M.scan(argv, exists, verbs)
  verbs = verbs or {}
  local head, command = M.split_at_dashes(argv)
  local places
  head, places = glue_comments(head)
  local found = scan_words(head, function(word) return verbs[word] ~= nil or exists(word) end)
  local verb, verb_at = found.script, places[found.script_at]
  -- perf record's -e is an event, also before the verb; no other verb has it.
  if verbs[verb] and (verb == "record" or not found.chunks) then
    found.verb, found.verb_words = verb, table.move(argv, verb_at + 1, #argv, verb_at,
      table.move(argv, 1, verb_at - 1, 1, {}))
  elseif found.chunks then
    found.given = found.chunks
    take_events(found, verb and exists(verb))
    if found.chunks then -- with Lua text there is no script: every plain word belongs to the text
      found = scan_words(head, exists, false)
      found.given = found.chunks
      take_events(found)
    end
  end
  found.script = found.script or nil
  found.head, found.command = head, command
  found.argv, found.places = argv, places
  return found
end

-- ---- the command ----

-- flag -> the largest number of plain words that may follow it as values; of a flag that both have, the script's
local function most_values(rows, declared)
  local most = {}
  for _, row in pairs(rows) do
    for flag in row[1]:gmatch("%S+") do most[flag] = row.metavar and 1 or 0 end
  end
  for _, option in ipairs(declared or {}) do
    for _, flag in ipairs(option.flags or {}) do most[flag] = option.switch and 0 or option.most end
  end
  return most
end

-- The index of the word from which on options may be the script's: its name, or the last -e; 0: none.
local function script_place(found)
  return found.script_at or found.chunk_at or 0
end

-- The largest number of plain words that may follow this option word as values, as argparse reads it.
local function values_after(word, most)
  if word:sub(1, 2) == "--" then
    local flag = word:match("^[^=]+")
    return math.max(0, (most[flag] or 0) - (flag == word and 0 or 1))
  end
  for i = 2, #word do
    local n = most["-" .. word:sub(i, i)]
    if not n then return 0 end
    if n > 0 then return i == #word and n or n - 1 end
  end
  return 0
end

-- The indexes of the plain words before -- that are not values of options. `before`: as `most`, for the words before
-- the index `script_at`.
local function plain_places(words, most, before, script_at)
  local places, values = {}, 0
  for i, word in ipairs(words) do
    if word == "--" then break end
    if is_option(word) then
      values = values_after(word, before and i < script_at and before or most)
    elseif values > 0 then
      values = values - 1
    else
      places[#places + 1] = i
    end
  end
  return places
end

--- Splits the words of a verb without plain words at the start of its command.
-- @tparam {string,...} words
-- @tparam table rows         the verb's options
-- @treturn {string,...}      the words before the command
-- @treturn ?{string,...}     the command
function M.split_command(words, rows)
  local at = plain_places(words, most_values(rows))[1]
  if not at then return M.split_at_dashes(words) end
  return table.move(words, 1, at - 1, 1, {}), table.move(words, at, #words, 1, {})
end

-- Indexes in found.head of the plain words after the script; empty if the script's own word is ambiguous.
local function plain_words(found, declared)
  local most, ours = most_values(M.by_flag, declared), most_values(M.by_flag)
  local before = setmetatable(ours, { __index = most }) -- of a flag that both have, perfl's
  local places = plain_places(found.head, most, before, script_place(found))
  if not found.script then return places end
  return found.head[places[1]] == found.script and table.move(places, 2, #places, 1, {}) or {}
end

--- Cuts the words at the start of the command, if the script takes no plain words.
-- @tparam table found     from `scan`
-- @tparam ?table declared the script's options (perfev.args.check), nil: it declares none
-- @tparam function exists as in `scan`
-- @treturn table          as from `scan`
function M.take_command(found, declared, exists)
  for _, option in ipairs(declared or {}) do
    if not option.flags then return found end
  end
  local at = plain_words(found, declared)[1]
  if not at then return found end
  local is_number = found.head[at]:find "^%d+$" -- bcc's interval and count
  if is_number and other_tools.numbers("", table.move(found.head, at, #found.head, 1, {})) then return found end
  local argv, place = found.argv, found.places[at]
  local cut = M.scan(table.move(argv, 1, place - 1, 1, {}), exists)
  cut.command = table.move(argv, place, #argv, 1, {})
  return cut
end

-- The command line with -- before the n-th plain word of the script; nil if it has fewer.
local function with_dashes(found, declared, n)
  local at = found.places[plain_words(found, declared)[n]]
  if not at then return nil end
  local words = table.move(found.argv, 1, at - 1, 2, { "perfl" })
  words[#words + 1] = "--"
  return message.shell(table.move(found.argv, at, #found.argv, #words + 1, words))
end

--- The same for words that a script without declared options was given.
-- @treturn ?string
function M.as_command(found) return with_dashes(found, nil, 1) end

-- The number of the first plain word that is not declared or not one of its choices; nil if all fit, or if the argument
-- is required, so the word cannot belong to a command.
local function first_unfit(found, declared)
  local places, n = plain_words(found, declared), 0
  for _, option in ipairs(declared) do
    for i = 1, option.flags and 0 or math.min(option.most, #places - n) do
      n = n + 1
      local fits = not option.choices
      for _, choice in ipairs(option.choices or {}) do fits = fits or choice == found.head[places[n]] end
      if not fits then return i > option.least and n or nil end
    end
  end
  return n < #places and n + 1 or nil
end

-- ---- the second pass ----

--- Adds an option to a parser.
-- @tparam argparse parser
-- @tparam table row  of `groups`, or of that form
function M.add_row(parser, row)
  local element = (row.metavar and parser.option or parser.flag)(parser, row[1])
  element:description(row.help):target("perfl." .. row.into)
  if row.metavar then element:argname(row.metavar) end
  if row.convert then element:convert(row.convert) end
  if row.many then element:count("*") end
  return element
end

-- The flags that the script declares, as a set.
local function declared_flags(declared)
  local set = {}
  for _, option in ipairs(declared or {}) do
    for _, flag in ipairs(option.flags or {}) do set[flag] = true end
  end
  return set
end

-- The flags of a row that the script does not declare, a list. -e is an option of the script or of perfl, not of both.
local function flags_left(row, taken)
  local left = {}
  if row.into == "chunks" and taken["-e"] then return left end
  for flag in row[1]:gmatch "%S+" do
    if not taken[flag] then left[#left + 1] = flag end
  end
  return left
end

local function add_ours(parser, declared, named)
  local taken = declared_flags(declared)
  for _, group in ipairs(M.groups) do
    local elements = {}
    for i = 2, #group do
      local row = group[i]
      local flags = flags_left(row, taken)
      if flags[1] and (not named or named[row] or row.many) then
        elements[#elements + 1] = M.add_row(parser, setmetatable({ table.concat(flags, " ") }, { __index = row }))
      end
    end
    parser:group(group[1], table.unpack(elements))
  end
end

--- Refuses a script that declares -h or a long option of perfl. Raises, because the mistake is the script's.
function M.check_conflicts(declared, name)
  for _, option in ipairs(declared) do
    for _, flag in ipairs(option.flags or {}) do
      local row = M.by_flag[flag]
      if row and not row.yields and (#flag > 2 or flag == "-h") then
        error(("%s declares the option '%s', which belongs to perfl (%s): choose another name"):format(
          name, flag, row.help), 0)
      end
    end
  end
end

-- Adds a cluster of short options to the list; those that the script declares get perfl's long names.
local function add_cluster(list, word, taken)
  local kept = "-"
  local function add(text)
    if #text > 1 then list[#list + 1] = text end
  end
  for i = 2, #word do
    local flag, value = "-" .. word:sub(i, i), word:sub(i + 1)
    local row = M.by_flag[flag]
    local long = row and taken[flag] and flags_left(row, taken)[1]
    if not row or row.metavar and not long then return add(kept .. word:sub(i)) end
    if row.metavar then
      add(kept)
      return add(long .. (value ~= "" and "=" .. value or "")) -- without it, the value is the next word
    end
    if long then add(long) else kept = kept .. word:sub(i, i) end
  end
  add(kept)
end

-- The words for the parser. Before the script's name an option that both have is perfl's, after it the script's.
local function words_by_owner(found, declared)
  local list, taken = {}, declared_flags(declared)
  for i, word in ipairs(found.head) do
    if i < script_place(found) and is_option(word) and word:sub(2, 2) ~= "-" then
      add_cluster(list, word, taken)
    else
      list[#list + 1] = word
    end
  end
  return list
end

-- A parser with perfl's options (only the rows in `named` if given) and the script's. Without `declared` every plain
-- word belongs to the script.
local function new_parser(found, declared, name, named)
  local parser = args.new_parser("perfl")
  if found.script then parser:argument("SCRIPT"):target("perfl.script"):hidden(true) end
  if declared then
    local elements = args.add(parser, declared)
    if #elements > 0 then parser:group("Options of " .. name, table.unpack(elements)) end
  else
    parser:argument("args"):args("*"):target("perfl.rest"):hidden(true)
  end
  add_ours(parser, declared, named)
  return parser
end

-- Building argparse's options is the slowest part of parsing. The first parser has only the options that were used (and
-- the repeatable ones, for their empty lists); if it fails, a parser with all options makes the message.
local function parse_words(found, declared, name)
  local words = words_by_owner(found, declared)
  local ok, result = new_parser(found, declared, name, found.named):pparse(words)
  if ok then return ok, result end
  return new_parser(found, declared, name):pparse(words)
end

local function flatten(lists)
  local out = {}
  for _, list in ipairs(lists) do table.move(list, 1, #list, #out + 1, out) end
  return #out > 0 and out or nil
end

--- The values of the options of these rows.
function M.taken(rows, result)
  local opts = {}
  for _, row in pairs(rows) do opts[row.into] = result["perfl." .. row.into] end
  opts.pids, opts.tids = flatten(opts.pids), flatten(opts.tids)
  if opts.labels and not opts.labels[1] then opts.labels = nil end
  return opts
end

local function script_flags(declared)
  local flags = {}
  for _, option in ipairs(declared or {}) do
    for _, flag in ipairs(option.flags or {}) do flags[#flags + 1] = flag end
  end
  return #flags > 0 and flags or { "no options" }
end

-- The option meant by perf's long name (--all-cpus) or by an abbreviation; or nil.
local function find_long_option(flag, declared)
  local all = declared and script_flags(declared) or {}
  table.move(M.flags, 1, #M.flags, #all + 1, all)
  for _, known in ipairs(all) do
    if known:sub(1, #flag) == flag then return known end
  end
  for _, known in ipairs(M.flags) do
    if "--" .. M.by_flag[known].into:gsub("_", "-") == flag then return known end
  end
end

-- argparse's message about an unknown option, improved: argparse knows no abbreviations, and it calls every one-letter
-- option similar to every other.
local function unknown_option(sentence, declared)
  local flag = sentence:match("^unknown option '(%-%-[^']+)'$")
  local long = flag and find_long_option(flag, declared)
  if long then return ("%s; Did you mean '%s'?"):format(sentence, long) end
  local short = sentence:match("^(unknown option '%-[^-]'); Did you mean one")
  local number = sentence:match("^unknown option '(%-%d)'")
  if not number then return short or sentence end
  return ("%s\nwrite a value that begins with a dash after =, as in --name=%s"):format(short, number)
end

-- argparse's message, with the known options after an unknown one. name: the script's, or nil.
local function explain(sentence, declared, name, found)
  sentence = escape((sentence:gsub("\n", "; ")))
  local known = name and other_tools.option(name, sentence)
  if known then return ("%s\n%s"):format(sentence:match("^[^;]*"), known) end
  if name and (sentence == "too many arguments" or sentence:find "^argument '.*' must be one of") then
    local numbers = other_tools.numbers(name, found.rest)
    if numbers then return ("%s\n%s"):format(sentence, numbers) end
    local line = with_dashes(found, declared, first_unfit(found, declared))
    if line then return ("%s\na command of a script that takes words follows --\ntry: %s"):format(sentence, line) end
  end
  if not sentence:find("^unknown option") then return sentence end
  local line = name and not declared and with_dashes(found, nil, 1)
  if line and not line:match " %-%-.*$":find(sentence:match "'(.-)'", 1, true) then line = nil end
  local lines = { unknown_option(sentence, declared) }
  if name then lines[2] = message.fold(name .. " has", script_flags(declared)) end
  lines[#lines + 1] = message.fold("perfl has", M.flags)
  if line then lines[#lines + 1] = "the script may read its words: a command follows --\ntry: " .. line end
  return table.concat(lines, "\n")
end

--- The message for a command line without a script.
-- @tparam table found  from `scan`
-- @treturn string
function M.no_script(found)
  local ok, why = new_parser(found):pparse(found.head)
  return ok and "no script given" or explain(why)
end

local function same(a, b)
  return #(a or {}) == #(b or {}) and table.concat(a or {}, "\0") == table.concat(b or {}, "\0")
end

-- Options for the kernel that exclude -i.
local live_only = {
  { "all_cpus", "-a" }, { "uid", "--uid" }, { "cgroup", "--cgroup" }, { "buffer", "-m" }, { "sim", "--sim" },
  { "readers", "--readers" }, { "clock", "--clock" }, { "switch_output", "--switch-output" },
  { "no_names", "--no-names" }, { "lines", "--lines" }, { "http", "--http" },
}

local function check_input(opts, found)
  if not opts.input then
    local time = opts.from and "--from" or opts.to and "--to"
    if time then return ("%s without -i\n  times select records of a recording\n  try: -i FILE, or -d"):format(time) end
    return opts.jobs and "--jobs without -i\n  only a recording is read on threads\n  try: -i FILE" or nil
  end
  local flag = found.command and "-- COMMAND"
  for _, row in ipairs(live_only) do flag = flag or opts[row[1]] and row[2] end
  if not flag and opts.from and opts.to
    and session_options.are_crossed(parse_units.moment(opts.from), parse_units.moment(opts.to)) then
    return "--from is later than --to\n  nothing lies between them\n  try: the other way round"
  end
  if not flag and opts.record and opts.input == "-" then
    return "-i - and --record at once\n  the input is read twice, and standard input only once\n  try: -i FILE"
  end
  return flag and ("-i and %s at once\n  a recording is read without the kernel\n"
    .. "  try: without %s"):format(flag, flag)
end

--- Checks options that exclude each other -> the message, or nil.
function M.check_together(opts, found)
  if opts.all_cpus and (opts.pids or opts.tids) then
    return "-a watches every process, -p and -t some: choose one"
  end
  if opts.all_cpus and opts.uid then
    return "-a and --uid at once\n  records have no user: --uid watches the processes that run now, "
      .. "and their children\n  try: without -a"
  end
  local chosen = opts.uid and "--uid" or opts.comm and "--comm"
  if opts.cgroup and (opts.pids or opts.tids or chosen) then
    return ("--cgroup watches the tasks in it, %s processes: choose one"):format(chosen or opts.pids and "-p" or "-t")
  end
  if opts.cgroup and opts.all_cpus then return "-a watches everything, --cgroup a part: choose one" end
  if opts.lines and opts.no_names then
    return "--lines and --no-names at once\n  lines are kept beside the names\n  try: --lines"
  end
  if opts.switch_max_files and not opts.switch_output then
    return "--switch-max-files without --switch-output\n  a single file is not switched\n  try: --switch-output 100M"
  end
  if found.command and #found.command == 0 then return "no command after --" end
end

local function check_record(opts)
  local flag = opts.switch_output and "--switch-output" or opts.compress and "-z" or opts.no_names and "--no-names"
    or opts.lines and "--lines"
  if flag and not opts.record then
    return ("%s without --record\n  it requires a recording\n  try: --record FILE"):format(flag)
  end
  if opts.switch_output and opts.record == "-" then
    return "--switch-output makes files, and --record is standard output\n  try: --record FILE"
  end
  if opts.sim and opts.http then
    return "--sim and --http at once\n  the simulated kernel has no clients\n  try: without --http"
  end
  if opts.sim and opts.record then
    return "--sim and --record at once\n  the simulated kernel has no disk\n  try: without --record"
  end
end

local function check_pack(opts)
  local flag = opts.interval and "--interval" or opts.armor and "--armor" or opts.labels and "--label"
  if flag and not opts.pack then
    return ("%s without --pack\n  it concerns frames\n  try: --pack FILE"):format(flag)
  end
  if opts.pack == "-" and opts.record == "-" then
    return "--pack - and --record - at once\n  both need standard output\n  try: --record FILE"
  end
end

--- The second pass: assigns every word.
-- @tparam table found     from `scan`
-- @tparam ?table declared the script's options (perfev.args.check), nil: it declares none
-- @tparam string name     the script's, for messages
-- @treturn[1] table  perfl's options: all_cpus cpus pids tids duration (ns) count buffer (bytes)
--                    chunks output quiet verbose (0…) dry_run inline symfs kallsyms debuginfod strict
--                    fail_on_lost trust trace_sys sim
-- @treturn[1] table  the script's values by name (empty without a declaration)
-- @treturn[2] nil
-- @treturn[2] string
function M.parse(found, declared, name)
  local ok, result = parse_words(found, declared, name)
  if not ok then return nil, explain(result, declared, name, found) end
  local opts = M.taken(M.by_flag, result)
  if not found.chunks and declared_flags(declared)["-e"] then -- the script's own -e took the event
    found.events, found.given = nil, nil
  end
  if found.script and not found.given and #(opts.chunks or {}) > 0 then
    return nil, ("'%s' has no option '-e'\nput Lua text to run instead of a script before all other words"):format(name)
  end
  if result["perfl.script"] ~= found.script or not same(opts.chunks, found.given) then
    return nil, ("cannot tell which word is the script, '%s' or '%s': put it first"):format(
      escape(found.script or "-e"), escape(result["perfl.script"] or "none"))
  end
  opts.events = found.events
  local wrong = check_input(opts, found) or check_record(opts) or check_pack(opts) or M.check_together(opts, found)
  if wrong then return nil, wrong end
  return opts, args.values(declared or {}, result)
end

-- ---- help ----

local own_usage = [[
Usage: perfl [options] SCRIPT|NAME [script args] [[--] command args...]
       perfl [options] -e CHUNK [chunk args] [[--] command args...]
       perfl describe [-j] SCRIPT|NAME [script args]
       perfl prove [options] SCRIPT|NAME [script args]
       perfl doctor [-j]
       perfl budget [options] FILE [-- command args...]
       perfl report|dump|skeleton|archive [options] [FILE]
       perfl agent [-c FILE] [--check]
       perfl gather [options] SCRIPT|NAME [script args]
       perfl cut|filter|redact [options] -o NEW [FILE]
       perfl merge [-f FORMAT] [--by host] FRAMES...|-
       perfl merge -o NEW FILE FILE...
       perfl list [-v] [-j] [PATTERN...]
       perfl record [options] [command args...]
       perfl collect [options] --to DIR|pprof:URL|otlp:URL
       perfl help [NAME]
       perfl cleanup
       perfl completion bash|zsh|fish]]

local own_description = [[
Run a Lua script on the kernel's perf events. NAME is a script that comes with
perfl, listed below. SCRIPT is a path: a word with / or .lua in it, or - for
standard input. Options may come before or after the script. A script may have
more options: perfl NAME --help. After its name a letter that it declares is the
script's, before it perfl's. The first word that is not an option begins the
command. If the script takes words itself, put the command after --.]]

local own_epilog = [[
Examples:
   perfl syscount ls -R /usr/share/doc
   perfl -a -d 2s tpoint sched:sched_switch
   perfl cswlog -p 1234
   perfl -a -d 1s -e 'event{"cpu-clock", sample = count{by = "comm"}}'

Exit status:
   0      success; with a command, its own exit status
   1      the script failed, or the kernel refused
   2      invalid command line
   3      records were lost (--fail-on-lost)
   77     perfl is set-uid or set-gid and refuses to run
   126    the command cannot be executed
   127    command not found
   128+n  signal n ended the command or perfl
   141    the reader of standard output closed it]]

--- The text of `perfl --help`.
-- @tparam {string,...} names  of the scripts there are
function M.own_help(names)
  local parser = args.new_parser("perfl")
  add_ours(parser)
  return parser:usage((own_usage:gsub("%s+$", ""))):description(own_description)
    :epilog(message.fold("Scripts:", names) .. "\n\n" .. own_epilog):get_help()
end

--- The text of `perfl NAME --help`.
-- @tparam table found     from `scan`
-- @tparam ?table declared
-- @tparam string name
-- @tparam string header   the script's opening comment, may be empty
function M.script_help(found, declared, name, header)
  local parser = new_parser(found, declared, name)
  local words = declared and args.usage(declared) or { "[args...]" }
  local takes_words = not declared
  for _, option in ipairs(declared or {}) do takes_words = takes_words or not option.flags end
  words[#words + 1] = takes_words and "[-- command args...]" or "[command args...]"
  parser:usage(message.fold("Usage: perfl [options] " .. name, words))
  local about = header ~= "" and header or declared and declared.summary
  if about then parser:description(about) end
  local closing = declared and args.closing(declared)
  parser:epilog((closing and closing .. "\n\n" or "") .. "perfl --help lists the common options and the exit status.")
  return parser:get_help()
end

return M
