--- Reads and checks the configuration of `perfl agent`. Every fault names its line and its word.
--
-- The file has `name = value` lines, sections in brackets, and comments from # on. A value is a list of words, quoted
-- as in a shell if they contain blanks or #. `settings` below is the list of what a section may have.

local check = require "perfev.base.check"
local escape = require "perfev.base.escape"
local find_script = require "perfl.find_script"
local glob = require "perfev.base.glob"
local load_source = require "perfl.load_source"
local native = require "perfl.core"
local parse_units = require "perfev.base.parse_units"
local protocol = require "perfl.fleet.protocol"

local M = {}

local S = 1000000000
local LONGEST_NS, SHORTEST_INTERVAL_NS, MOST_QUEUED = 300 * S, S, 64
local CONFIG_MAX = 1 << 20

-- ---- values ----

local function a_word(words)
  if #words ~= 1 then return nil, words[2], "one word expected" end
  return words[1]
end

local function a_token(words)
  local word, fault, why = a_word(words)
  if not word then return nil, fault, why end
  if not protocol.is_token(word) then return nil, word, "letters, digits, '-' and '_' expected" end
  return word
end

local function tokens(words)
  for _, word in ipairs(words) do
    if not protocol.is_token(word) then return nil, word, "letters, digits, '-' and '_' expected" end
  end
  return words
end

local function a_duration(least, most)
  return function(words)
    local word, fault, reason = a_word(words)
    if not word then return nil, fault, reason end
    local ns, why = parse_units.duration(word)
    if not ns then return nil, word, why end
    if ns < least or ns > most then
      return nil, word, ("%gs to %gs expected"):format(least / S, most / S)
    end
    return ns
  end
end

local function a_size(words)
  local word, fault, reason = a_word(words)
  if not word then return nil, fault, reason end
  local bytes, why = parse_units.size(word)
  if not bytes then return nil, word, why end
  if bytes < 16 << 20 then return nil, word, "at least 16M expected" end
  return bytes
end

local function a_number(least, most)
  return function(words)
    local word, fault, why = a_word(words)
    if not word then return nil, fault, why end
    local n = word:find "^%d+$" and math.tointeger(tonumber(word))
    if not n or n < least or n > most then return nil, word, ("a number from %d to %d expected"):format(least, most) end
    return n
  end
end

-- A file that exists; `secret`: that nobody else can read. Others may never write it.
local function a_file(is_secret)
  return function(words)
    local path, fault, reason = a_word(words)
    if not path then return nil, fault, reason end
    if path:sub(1, 1) ~= "/" then return nil, path, "a path from / expected" end
    local file, mode, uid = native.open(path, "r")
    if not file then return nil, path, "cannot be read" end
    file:close()
    if mode & 18 ~= 0 or not load_source.is_ours(uid) then return nil, path, "other users may change this file" end
    if is_secret and mode & 4 ~= 0 then return nil, path, "every user may read this key" end
    return path
  end
end

local function a_script(words)
  local word, fault, reason = a_word(words)
  if not word then return nil, fault, reason end
  if word:find("/", 1, true) and word:sub(1, 1) ~= "/" or word == "-" then
    return nil, word, "the name of a script, or a path from / expected"
  end
  if not find_script.exists(word) then
    return nil, word, "no script has this name" .. check.hint(word, find_script.names())
  end
  return word
end

local function urls(words)
  for _, url in ipairs(words) do
    if not url:find "^nats://[^/%s]+$" and not url:find "^tls://[^/%s]+$" then
      return nil, url, "an address as in nats://host:4222 or tls://host:4222 expected"
    end
  end
  return words
end

local function an_address(words)
  local word, fault, reason = a_word(words)
  if not word then return nil, fault, reason end
  if word:find "^%d+$" or word:find "^%[?[%x%w.:-]+%]?:%d+$" or word:find "^unix:/" then return word end
  return nil, word, "a port, ADDRESS:PORT or unix:PATH expected"
end

-- Words that end the options of perfl, or that give a request what a sandbox is for.
local never = { ["--"] = true }

-- A permitted option: words, each a glob pattern.
local function an_option(words)
  for _, word in ipairs(words) do
    if never[word] then return nil, word, "a request cannot run a command" end
    if not pcall(glob.matcher, word) then return nil, word, "a bracket is not closed" end
  end
  return words
end

local function one_of(...)
  local names = { ... }
  return function(words)
    local word, fault, reason = a_word(words)
    if not word then return nil, fault, reason end
    for _, name in ipairs(names) do
      if word == name then return name end
    end
    return nil, word, "one of " .. table.concat(names, ", ") .. " expected" .. check.hint(word, names)
  end
end

local function any_words(words) return words end

-- ---- settings ----

-- Section -> setting -> { read =, list = true: may be repeated, none = true: may be empty, needed = }. A section with a
-- name is one of each name.
local settings = {
  [""] = { host = { read = a_token }, groups = { read = tokens }, log = { read = one_of("text", "json") } },
  server = { url = { read = urls, needed = true }, ca = { read = a_file() }, certificate = { read = a_file() },
             key = { read = a_file(true) }, user = { read = a_word }, password = { read = a_word },
             credentials = { read = a_file(true) } },
  job = { script = { read = a_script, needed = true }, args = { read = any_words, none = true },
          interval = { read = a_duration(SHORTEST_INTERVAL_NS, 3600 * S), otherwise = 10 * S },
          memory = { read = a_size, otherwise = 256 << 20 },
          restart = { read = one_of("always", "on-failure"), otherwise = "always" } },
  allow = { option = { read = an_option, list = true } },
  signed = { signers = { read = a_file(), needed = true }, option = { read = an_option, list = true } },
  requests = { longest = { read = a_duration(S, LONGEST_NS), otherwise = LONGEST_NS },
               queue = { read = a_number(0, MOST_QUEUED), otherwise = 4 },
               memory = { read = a_size, otherwise = 256 << 20 },
               skew = { read = a_duration(S, LONGEST_NS), otherwise = 4 * S } },
  metrics = { listen = { read = an_address, needed = true } },
}
local named = { job = "job NAME", allow = "allow SCRIPT" }

local function names_of(t)
  local names = {}
  for name in pairs(t) do
    if name ~= "" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- ---- the text ----

-- Splits a value into words as a shell does, without expansions -> list | nil, word, why
local function split(text)
  local words, at = {}, 1
  while true do
    at = text:match("^%s*()", at)
    if at > #text or text:sub(at, at) == "#" then return words end
    local word = {}
    while at <= #text and not text:find("^%s", at) do
      local quote = text:match("^['\"]", at)
      if quote then
        local quoted, stop = text:match("^" .. quote .. "([^" .. quote .. "]*)" .. quote .. "()", at)
        if not quoted then return nil, text:sub(at), "the quote is not closed" end
        word[#word + 1], at = quoted, stop
      else
        local plain, stop = text:match("^([^%s'\"]+)()", at)
        word[#word + 1], at = plain, stop
      end
    end
    words[#words + 1] = table.concat(word)
  end
end

local Reader = {}
Reader.__index = Reader

function Reader:fault(word, why, remedy)
  self.faults[#self.faults + 1] = ("%s:%d: %s%s%s"):format(escape(self.path), self.line,
    word and ("'%s': "):format(escape(word)) or "", why, remedy and "\ntry: " .. remedy or "")
end

-- Makes the section `kind` with `name` the current one.
function Reader:open_section(text)
  local kind, name = text:match "^(%l+)%s*(.-)$"
  local known = kind and settings[kind]
  self.section = {} -- of an unknown kind: its settings are read, and dropped
  self.known = known
  if not known then
    return self:fault(kind or text, "no section has this name" .. check.hint(kind or text, names_of(settings)),
      "one of " .. table.concat(names_of(settings), ", "))
  end
  local config = self.config
  if not named[kind] then
    if name ~= "" then return self:fault(name, ("the section [%s] has no name"):format(kind)) end
    if self.seen[kind] then return self:fault(kind, "this section is there twice") end
    self.seen[kind] = true
    config[kind] = { line = self.line }
    self.section, self.kind = config[kind], kind
    return
  end
  if name == "" then return self:fault(kind, "the section has no name", ("[%s]"):format(named[kind])) end
  local words = split(name) or {}
  local valid, _, why = (kind == "allow" and a_script or a_token)(words)
  if not valid then return self:fault(name, why) end
  if config[kind][valid] then return self:fault(valid, ("[%s] is there twice"):format(kind .. " " .. valid)) end
  config[kind][valid] = { name = valid, line = self.line }
  self.section, self.kind = config[kind][valid], kind
end

function Reader:set(name, text)
  local known = self.known and self.known[name]
  if self.known and not known then
    local hint = check.hint(name, names_of(self.known))
    return self:fault(name, "no setting of this section has this name" .. hint,
      "one of " .. table.concat(names_of(self.known), ", "))
  end
  local words, fault, why = split(text)
  if not words then return self:fault(fault, why) end
  if not known then return end
  if not words[1] and not known.none then return self:fault(name, "the value is missing") end
  local value
  value, fault, why = known.read(words)
  if value == nil then return self:fault(fault or name, why) end
  local section = self.section
  if known.list then
    section[name] = section[name] or {}
    table.insert(section[name], value)
  elseif section[name] ~= nil then
    self:fault(name, "this setting is there twice")
  else
    section[name] = value
  end
end

function Reader:read_line(text)
  text = text:match "^%s*(.-)%s*$"
  if text == "" or text:sub(1, 1) == "#" then return end
  local section = text:match "^%[%s*(.-)%s*%]%s*$" or text:match "^%[%s*(.-)%s*%]%s*#"
  if section then return self:open_section(section) end
  local name, value = text:match "^([%l_]+)%s*=%s*(.*)$"
  if not name then return self:fault(text:match "^%S+", "not a setting", "name = value, or [section]") end
  self:set(name, value)
end

-- Fills in the defaults of a section, and names what is missing.
local function complete(reader, kind, section)
  reader.line = section.line or 1
  for name, known in pairs(settings[kind]) do
    if section[name] == nil then section[name] = known.otherwise end
    if section[name] == nil and known.list then section[name] = {} end
    if section[name] == nil and known.needed then
      local title = named[kind] and kind .. " " .. section.name or kind
      reader:fault(nil, ("the section [%s] needs '%s'"):format(title, name))
    end
  end
end

local function own_host()
  local file = io.open "/proc/sys/kernel/hostname"
  local name = file and file:read "l" or "localhost"
  if file then file:close() end
  return protocol.token(name)
end

-- What belongs together.
local function check_pairs(reader, config)
  local server = config.server
  reader.line = server.line or 1
  if not server.url and not reader.seen.server then reader:fault(nil, "the section [server] is missing",
    "[server] with url = nats://127.0.0.1:4222") end
  if (server.certificate ~= nil) ~= (server.key ~= nil) then
    reader:fault(nil, "a certificate needs its key, and a key its certificate")
  end
end

--- Reads a configuration from its text.
-- @tparam string text
-- @tparam string path    for messages
-- @treturn[1] table      host, groups, log, server, job = { name -> job }, allow = { script -> }, signed, requests,
--                        metrics; durations in ns
-- @treturn[2] nil
-- @treturn[2] {string,...} the faults, each with its line
function M.parse(text, path)
  local config = { job = {}, allow = {}, server = {}, requests = {} }
  local reader = setmetatable({ path = path, line = 0, faults = {}, seen = {}, config = config, section = config,
                                known = settings[""], kind = "" }, Reader)
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    reader.line = reader.line + 1
    reader:read_line(line)
  end
  config.host = config.host or own_host()
  config.groups, config.log = config.groups or {}, config.log or "text"
  if reader.seen.server then complete(reader, "server", config.server) end
  complete(reader, "requests", config.requests)
  for _, job in pairs(config.job) do complete(reader, "job", job) end
  for _, allowed in pairs(config.allow) do complete(reader, "allow", allowed) end
  if config.signed then complete(reader, "signed", config.signed) end
  if config.metrics then complete(reader, "metrics", config.metrics) end
  check_pairs(reader, config)
  if reader.faults[1] then return nil, reader.faults end
  return config
end

--- Reads a configuration from its file, which other users may not change.
-- @treturn[1] table
-- @treturn[2] nil
-- @treturn[2] {string,...} the faults
function M.read(path)
  local file <close>, mode, uid = native.open(path, "r")
  if not file then return nil, { ("cannot read the configuration: %s"):format(escape(mode)) } end
  if mode & 18 ~= 0 or not load_source.is_ours(uid) then
    return nil, { ("'%s': other users may change this file\ntry: chown root %s; chmod go-w %s"):format(escape(path),
      escape(path), escape(path)) }
  end
  local config, faults = M.parse(file:read(CONFIG_MAX) or "", path)
  if config and config.server.password and mode & 4 ~= 0 then
    return nil, { ("'%s': every user may read the password\ntry: chmod o= %s"):format(escape(path), escape(path)) }
  end
  return config, faults
end

-- ---- permitted options ----

-- A star stands for no leading dash, as it stands for no leading dot in a shell: otherwise "-p *" would permit "-p -o".
local function matches(pattern, word)
  if pattern:sub(1, 1) ~= "-" and word:sub(1, 1) == "-" then return false end
  return glob.matcher(pattern)(word)
end

-- The number of words from `at` on that the option permits, or nil.
local function permitted_words(option, words, at)
  for i, pattern in ipairs(option) do
    local word = words[at + i - 1]
    if not word or not matches(pattern, word) then return nil end
  end
  return #option
end

--- Checks the words of a request against the permitted options.
-- @tparam {{string,...},...} options  each a list of patterns, for words that follow each other
-- @tparam {string,...} words
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  the first word that is not permitted
function M.check_words(options, words)
  local at = 1
  while at <= #words do
    local most
    for _, option in ipairs(options) do
      local nr = words[at] ~= "--" and permitted_words(option, words, at)
      if nr and nr > (most or 0) then most = nr end
    end
    if not most then return nil, words[at] end
    at = at + most
  end
  return true
end

return M
