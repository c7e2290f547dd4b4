-- table.lua - doc/kernels.md, out of what the guests of a whole `make vm` gave back.
-- lua5.4 spec/vm/table.lua DIRECTORY TOOK NAME... > doc/kernels.md; TOOK: "840 seconds, 2 guests at once"

local function slurp(path)
  local file = io.open(path)
  local text = file and file:read "a"
  if file then file:close() end
  return text
end

local dir, took, names = arg[1], arg[2], table.move(arg, 3, #arg, 1, {})
local guests, rows, seen = {}, {}, {}

for i, name in ipairs(names) do
  local facts = {}
  for what, value in (slurp(("%s/%s.files/facts"):format(dir, name)) or ""):gmatch "([^\t\n]+)\t([^\n]*)" do
    facts[what] = value
    if not seen[what] then
      seen[what], rows[#rows + 1] = true, what
    end
  end
  local p, f, s = (slurp(("%s/%s.sum"):format(dir, name)) or ""):match "(%d+) passed, (%d+) failed, (%d+) skipped"
  facts["specs passed, failed, skipped"] = p and ("%s, %s, %s"):format(p, f, s)
  facts["seconds, with start and end"] = (slurp(("%s/%s.told"):format(dir, name)) or ""):match "skipped %((%d+) s%)\n*$"
  guests[i] = facts
end
table.move({ "specs passed, failed, skipped", "seconds, with start and end" }, 1, 2, 1, table.move(rows, 1, #rows, 3))

-- ---- which specs ----

-- In lines of 80 columns, those behind the first with an indent.
local function wrapped(text, indent)
  local lines, line = {}, ""
  for word in text:gmatch "%S+" do
    if #line + #word > 79 then
      lines[#lines + 1], line = line, indent
    end
    line = line .. (line:find "%S$" and " " or "") .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

-- "spec/live/attr_spec.lua …" -> "live/attr", …
local function specs_of(name)
  local list = {}
  for word in (slurp(("%s/%s.specs"):format(dir, name)) or ""):gmatch "spec/(%S+)_spec%.lua" do
    list[#list + 1] = word
  end
  return list
end

-- What every guest had that could be had.
local had, common, sets, ran = {}, {}, {}, 0
for i, name in ipairs(names) do
  sets[i] = guests[i].release and specs_of(name) or {}
  if #sets[i] > 0 then ran = ran + 1 end
  for _, word in ipairs(sets[i]) do
    had[word] = (had[word] or 0) + 1
  end
end
for word, n in pairs(had) do
  if n == ran then common[#common + 1] = word end
end
table.sort(common)

io.write [[
# The kernels that perfev was run on

Measured by `make vm`, which writes this page: Debian's kernels, each booted
under QEMU (software emulation), with specs of spec/live in it as they are,
mocked ones of spec, for the machine's byte order and pages, and those of
spec/vm, which want what only such a machine has. What a row says was tried
there, and is not read off a version: "yes", or the kernel's answer. A guest
that could not be had has no figures.

]]
print(wrapped(("All of it took %s. For that, a guest has what is the kernel's affair, and some of the live specs; "
  .. "`make vm KERNEL=…` runs every one of them on one kernel, in up to an hour. The specs were"):format(took), ""))
print()
print(wrapped(table.concat(common, ", "), ""))
print "\nand besides, on\n"
for i, name in ipairs(names) do
  local own = {}
  for _, word in ipairs(sets[i]) do
    if had[word] < ran then own[#own + 1] = word end
  end
  if #own > 0 then print(wrapped(("- %s: %s"):format(name, table.concat(own, ", ")), "  ")) end
end
print ""

-- A table of all of them would be wider than a page.
for first = 1, #names, 4 do
  local last = math.min(first + 3, #names)
  local function row(title, f)
    local cells = { title }
    for i = first, last do cells[#cells + 1] = f(i) or "" end
    print("| " .. table.concat(cells, " | ") .. " |")
  end
  row("", function(i) return names[i] end)
  row("---", function() return "---" end)
  for _, what in ipairs(rows) do
    local any = false
    for i = first, last do any = any or guests[i][what] ~= nil end
    if any then row(what, function(i) return guests[i][what] end) end
  end
  if last < #names then print "" end
end
