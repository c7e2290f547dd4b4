-- embed.lua - turns Lua sources into one C file of byte arrays (see src/gen/embed.h).
-- lua5.4 src/gen/embed.lua lua/perfev/init.lua lua/perfl/main.lua module:argparse > embed.c
--
-- A file's module name follows from its path below lua/; `module:NAME` is looked
-- up as require() would, so that perfl runs where argparse is not installed. A script,
-- scripts/NAME.lua, is embedded as scripts/NAME: `perfl NAME` runs that text. Any other
-- file below lua/ is embedded as a module that returns its text (lua/perfev/base/asset.lua).
-- `NAME=PATH` embeds the file PATH, which the build wrote, as the module NAME.
-- Modules are embedded as they are and compiled: parsing them was four fifths of a short run's
-- time, but bytecode fits only the release of Lua that made it, and perfl's may be newer. The
-- names of locals are left out, a third of the time to load it: only messages about our own
-- mistakes need them.

local function fail(...)
  io.stderr:write("embed.lua: ", string.format(...), "\n")
  os.exit(1)
end

local function locate(word)
  local given, written = word:match("^([^=]+)=(.+%.lua)$")
  if given then return given, written, written end
  local module = word:match("^module:(.+)$")
  if not module then
    local script = word:match("^(scripts/.+)%.lua$")
    if script then return script, word, word end
    local asset = word:match("^lua/(.+)$") or fail("%s: not a file below lua/", word)
    local name = asset:match("^(.+)%.lua$")
    if not name then return asset, word, word end
    return (name:gsub("/init$", ""):gsub("/", ".")), word, word
  end
  local path, tried = package.searchpath(module, package.path)
  if not path then
    fail("module '%s' is not installed:%s\ntry: make deps", module, tried)
  end
  return module, path, module .. ".lua"
end

-- ---- bytecode (ldump.c of Lua 5.4) ----

local HEADER <const> = 4 + 1 + 1 + 6 + 3 + 8 + 8 + 1 -- to the main function: checkHeader()
local NONE <const> = "\x80" -- a count of nothing: seven bits a byte, the last one marked

-- Reads an item of the bytecode -> its end [, its value].
local skip = {}

function skip.count(code, at)
  local n, byte = 0
  repeat
    byte, at = code:byte(at), at + 1
    n = n << 7 | byte & 0x7f
  until byte & 0x80 ~= 0
  return at, n
end

function skip.string(code, at) -- its length plus 1; 0: missing
  local next_at, n = skip.count(code, at)
  return next_at + math.max(n - 1, 0)
end

function skip.constant(code, at)
  local kind = code:byte(at)
  if kind == 0x04 or kind == 0x14 then return skip.string(code, at + 1) end -- short, long
  return at + (kind & 0x0f == 3 and 9 or 1) -- numbers have eight bytes, nil and booleans none
end

function skip.list(code, at, one)
  local n
  at, n = skip.count(code, at)
  for _ = 1, n do at = one(code, at) end
  return at
end

local function bytes(width)
  return function(_, at) return at + width end
end

local function lines(code, at) return (skip.count(code, (skip.count(code, at)))) end
local function locals(code, at) return lines(code, skip.string(code, at)) end

-- A function's bytecode, put at the end of out without names of locals -> where it ended
local function unnamed(code, at, out)
  local from = at
  at = lines(code, skip.string(code, at)) + 3 -- source, lines; parameters, varargs, stack
  at = skip.list(code, at, bytes(4)) -- instructions
  at = skip.list(code, at, skip.constant)
  at = skip.list(code, at, bytes(3)) -- upvalues
  local after, n = skip.count(code, at)
  out[#out + 1], at = code:sub(from, after - 1), after
  for _ = 1, n do at = unnamed(code, at, out) end
  from, at = at, skip.list(code, skip.list(code, at, bytes(1)), lines) -- instructions' lines
  out[#out + 1] = code:sub(from, at - 1) .. NONE
  from = skip.list(code, at, locals)
  at = skip.list(code, from, skip.string) -- upvalues' names
  out[#out + 1] = code:sub(from, at - 1)
  return at
end

local function compiled(chunk)
  local code = string.dump(chunk)
  local out = { code:sub(1, HEADER) }
  local stop = unnamed(code, HEADER + 1, out)
  local short = table.concat(out)
  if stop ~= #code + 1 or not load(short, "=embed.lua", "b") then
    fail("bytecode is not what ldump.c of 5.4 writes")
  end
  return short
end

local function read(path, shown, is_script)
  local file, why = io.open(path, "rb")
  if not file then fail("%s", why) end
  local text = file:read("a")
  file:close()
  if not path:find("%.lua$") then text = ("return %q"):format(text) end
  local chunk, err = load(text, "@" .. shown, "t")
  if not chunk then fail("%s", err) end
  return text, is_script and "" or compiled(chunk)
end

local function array(id, text)
  io.write("static const unsigned char ", id, "[] = {\n")
  for at = 1, #text, 16 do
    io.write("\t", table.concat({ text:byte(at, at + 15) }, ","), ",\n")
  end
  io.write("\t0\n};\n\n")
end

local chunks = {}
for _, word in ipairs(arg) do
  local name, path, shown = locate(word)
  local text, code = read(path, shown, name:find("^scripts/"))
  chunks[#chunks + 1] = { name = name, path = shown, text = text, code = code }
end
table.sort(chunks, function(a, b) return a.name < b.name end)

io.write("/* Written by src/gen/embed.lua. */\n#include \"gen/embed.h\"\n\n")
-- Modules loaded at the start are adjacent, so that a start touches fewer pages.
for i, chunk in ipairs(chunks) do array("code_" .. i, chunk.code) end
for i, chunk in ipairs(chunks) do array("chunk_" .. i, chunk.text) end
io.write("const struct pev_chunk pev_chunks[] = {\n")
for i, chunk in ipairs(chunks) do
  io.write(string.format("\t{ %q, %q, chunk_%d, %d, code_%d, %d },\n", chunk.name, chunk.path,
    i, #chunk.text, i, #chunk.code))
end
io.write("\t{ 0 },\n};\n")
