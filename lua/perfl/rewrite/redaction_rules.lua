--- The rules of perfl redact: a Lua file that returns { kind = function, true (keep) or false (remove) }.
-- Without a rule, a text becomes a pseudonym, and bytes are removed. The same text has the same replacement.

local check = require "perfev.base.check"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local load_source = require "perfl.load_source"
local shown = require "perfev.base.show_value"

local M = {}
local Rules = {}
Rules.__index = Rules

local PATH_MAX = 4095 -- bytes without the NUL: records of files have 16 bits for their size

-- Kind of text -> its pseudonyms.
local pseudonyms = {
  comm = "comm-%d", file = "file-%d", symbol = "function-%d", cgroup = "/cgroup-%d", cmdline = "word-%d",
  hostname = "host-%d", header = "text-%d", event = "event_%d", payload = "text-%d", build_id = "%040x",
}
-- Kinds that are removed without a rule.
local removed = { printk = true, raw = true, stack = true, registers = true }
-- Names that the kernel gives to memory, the same on each machine.
local made_by_kernel = {}
for _, name in ipairs { "[vdso]", "[vdso32]", "[vsyscall]", "[heap]", "[stack]", "[uprobes]", "[kernel.kallsyms]",
                        "[kernel.kallsyms]_text", "[kernel.kallsyms]_stext", "//anon", "[anon]", "/" } do
  made_by_kernel[name] = true
end

local kinds = {}
for _, list in ipairs { pseudonyms, removed } do
  for kind in pairs(list) do kinds[#kinds + 1] = kind end
end
table.sort(kinds)

-- ---- the file ----

-- The message about a file that cannot be used.
local function refusal(path, why, try)
  return ("the rules %s: %s\ntry: %s"):format(escape(path), why, try or "return { comm = true, symbol = true }")
end

-- Returns why a rule cannot be used, and the remedy; or nil.
local function fault_of(kind, rule)
  if not pseudonyms[kind] and not removed[kind] then
    return ("unknown kind '%s'%s"):format(escape(shown(kind)), check.hint(kind, kinds)),
      "one of " .. table.concat(kinds, ", ")
  end
  if type(rule) == "boolean" or type(rule) == "function" and kind ~= "registers" then return nil end
  if kind == "registers" then
    return ("registers is %s, not true or false"):format(escape(shown(rule))), "registers = true"
  end
  return ("%s is %s, not a function, true or false"):format(kind, escape(shown(rule))),
    ("%s = function(text) return text end"):format(kind)
end

-- Runs the file -> what it returns | nil, message
local function read(path)
  local there, _, code = core.stat(path)
  if not there then return nil, refusal(path, core.strerror(code), "--rules FILE.lua") end
  local text, why = load_source.read(path, "cannot read the rules: ")
  if not text then return nil, why end
  local chunk, wrong = load_source.compile(text, "@" .. path)
  if not chunk then return nil, refusal(path, escape(wrong)) end
  local ok, given = pcall(chunk)
  if not ok then return nil, refusal(path, escape(tostring(given))) end
  if type(given) ~= "table" then
    return nil, refusal(path, ("the file returns %s, not a table"):format(given == nil and "nothing" or shown(given)))
  end
  for kind, rule in pairs(given) do
    local fault, try = fault_of(kind, rule)
    if fault then return nil, refusal(path, fault, try) end
  end
  return given
end

--- Reads a file of rules.
-- @tparam ?string path  nil: no rules
-- @treturn[1] rules
-- @treturn[2] nil
-- @treturn[2] string  message
function M.load(path)
  local given, why = {}, nil
  if path then given, why = read(path) end
  if not given then return nil, why end
  local self = setmetatable({ path = path, given = given, known = {}, count = {} }, Rules)
  for _, kind in ipairs(kinds) do self.known[kind], self.count[kind] = {}, 0 end
  return self
end

-- ---- replacements ----

-- Calls a rule -> a string, or false. It raises the message if the rule fails.
local function call(self, kind, text)
  local ok, new = pcall(self.given[kind], text)
  if ok and (type(new) == "string" or new == false) then return new end
  local why = ok and ("returned %s, not a string or false"):format(new == nil and "nothing" or escape(shown(new)))
    or "failed: " .. escape(tostring(new))
  local sample = #text > 40 and text:sub(1, 40) .. "..." or text
  error(refusal(self.path, ("%s('%s') %s"):format(kind, escape(sample), why),
    ("%s = function(text) return text end"):format(kind)), 0)
end

local function new_pseudonym(self, kind, text)
  self.count[kind] = self.count[kind] + 1
  local name = pseudonyms[kind]:format(self.count[kind])
  if kind ~= "file" then return name end
  -- perf tells files from memory, and modules from the kernel, by the first byte.
  return text:sub(1, 1) == "/" and "/" .. name or text:sub(1, 1) == "[" and "[" .. name .. "]" or name
end

local function replace(self, kind, text)
  local rule = self.given[kind]
  if rule == true then return text end
  if rule == false or rule == nil and removed[kind] then return "" end
  if rule == nil then return new_pseudonym(self, kind, text) end
  local new = (call(self, kind, text) or ""):match "^[^\0]*"
  return kind == "file" and new:sub(1, PATH_MAX) or new
end

--- Returns the replacement of a text: "" if it is removed.
function Rules:text(kind, text)
  if text == "" or kind == "file" and made_by_kernel[text] then return text end
  local new = self.known[kind][text]
  if not new then
    new = replace(self, kind, text)
    self.known[kind][text] = new
  end
  return new
end

--- Returns a new name for what must have one.
function Rules:name(kind, text)
  local new = self:text(kind, text)
  return new ~= "" and new or pseudonyms[kind]:format(0)
end

--- Returns as many bytes: zeros if they are removed.
function Rules:bytes(kind, bytes)
  local rule = self.given[kind]
  if rule == true then return bytes end
  local new = rule and call(self, kind, bytes) or ""
  return new:sub(1, #bytes) .. ("\0"):rep(#bytes - #new)
end

--- Returns the replacement of a build-id in hexadecimal, of the same length.
function Rules:build_id(hex)
  local new = self:text("build_id", hex)
  if new:find "^%x*$" then return (("0"):rep(#hex - #new) .. new):sub(-#hex) end
  error(refusal(self.path, ("build_id('%s') returned '%s', not hexadecimal digits"):format(hex, escape(new)),
    "build_id = true"), 0)
end

--- True if the kind is kept as it is.
function Rules:keeps(kind) return self.given[kind] == true end

--- True if the kind, one without pseudonyms, is removed.
function Rules:removes(kind) return not self.given[kind] end

--- True if there is a rule for the kind.
function Rules:has(kind) return self.given[kind] ~= nil end

return M
