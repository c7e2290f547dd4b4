-- embed.lua - turns Lua sources into one C file of byte arrays (see embed.h).
-- lua5.4 src/embed.lua lua/perfev/init.lua lua/perfl/main.lua module:argparse > embed.c
--
-- A file's module name follows from its path below lua/; `module:NAME` is looked
-- up as require() would, so that perfl runs where argparse is not installed. A script,
-- scripts/NAME.lua, keeps that name: perfl finds it where no other is (make static).
-- Both as they are and compiled: reading them was four fifths of what a short run took, but
-- bytecode is for the release of Lua that made it, and perfl's may be newer.

local function fail(...)
  io.stderr:write("embed.lua: ", string.format(...), "\n")
  os.exit(1)
end

local function locate(word)
  local module = word:match("^module:(.+)$")
  if not module then
    local script = word:match("^(scripts/.+)%.lua$")
    if script then return script, word, word end
    local name = word:match("^lua/(.+)%.lua$") or fail("%s: not a .lua file below lua/", word)
    return (name:gsub("/init$", ""):gsub("/", ".")), word, word
  end
  local path, tried = package.searchpath(module, package.path)
  if not path then
    fail("module '%s' is not installed:%s\ntry: make deps", module, tried)
  end
  return module, path, module .. ".lua"
end

local function read(path, shown)
  local file, why = io.open(path, "rb")
  if not file then fail("%s", why) end
  local text = file:read("a")
  file:close()
  local chunk, err = load(text, "@" .. shown, "t")
  if not chunk then fail("%s", err) end
  return text, string.dump(chunk)
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
  local text, code = read(path, shown)
  chunks[#chunks + 1] = { name = name, path = shown, text = text, code = code }
end
table.sort(chunks, function(a, b) return a.name < b.name end)

io.write("/* Written by src/embed.lua. */\n#include \"embed.h\"\n\n")
for i, chunk in ipairs(chunks) do
  array("chunk_" .. i, chunk.text)
  array("code_" .. i, chunk.code)
end
io.write("const struct pev_chunk pev_chunks[] = {\n")
for i, chunk in ipairs(chunks) do
  io.write(string.format("\t{ %q, %q, chunk_%d, %d, code_%d, %d },\n", chunk.name, chunk.path,
    i, #chunk.text, i, #chunk.code))
end
io.write("\t{ 0 },\n};\n")
