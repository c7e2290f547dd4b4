-- table.lua - writes doc/kernels.md from the results of the guests of a whole `make vm`.
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

-- The features that every guest had.
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
# perfev on other kernels

`make vm` measures and writes this page. It boots each of these Debian kernels
under QEMU (software emulation) and runs specs on it: live specs, specs on the
simulated kernel that depend on byte order and page size, and those of spec/vm,
which need such a machine. Each row was tried on that kernel: "yes", or the
errno it returned. A kernel that could not be fetched has no figures.

]]
print(wrapped(("The whole run took %s. It is a selection of the specs that depend on the kernel; `make vm KERNEL=…` "
  .. "runs every live spec on one kernel, in up to an hour. All kernels ran"):format(took), ""))
print()
print(wrapped(table.concat(common, ", "), ""))
print "\nand these ran more:\n"
for i, name in ipairs(names) do
  local own = {}
  for _, word in ipairs(sets[i]) do
    if had[word] < ran then own[#own + 1] = word end
  end
  if #own > 0 then print(wrapped(("- %s: %s"):format(name, table.concat(own, ", ")), "  ")) end
end
print ""

-- A table of all guests would be wider than a page.
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
