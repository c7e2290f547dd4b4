-- flamediff: draws a flame graph of folded stacks, coloured by the change from other stacks.
-- perfl flamediff before.folded after.folded -o change.html
-- perfl flamediff before.folded after.folded -f top
-- perfl flamediff after.folded -f tree

local perfev = require "perfev"

local opt = perfev.args {
  summary = "draw a flame graph of folded stacks (a;b;c 12), coloured by the change",
  { "before", metavar = "BEFORE", help = "the file to compare with; if it is the only file, the one to draw" },
  { "after", metavar = "AFTER", required = false, help = "the file to draw: red is more, blue is less than BEFORE" },
  { "-f --format", choices = { "html", "svg", "top", "tree" }, default = "html", metavar = "FORMAT",
    help = "html, svg; top, tree: text for a terminal" },
  { "--title", metavar = "TEXT", help = "the title of the picture (default: the file names)" },
  { "--unit", default = "samples", metavar = "WORD", help = "the unit of the numbers; ns and bytes are scaled" },
  epilog = [[
The picture compares shares, so the recordings may differ in length; a button on
the page switches to the numbers. stackcollapse-*.pl and perfev write such files.]],
}

local words = { ns = "time", bytes = "size" } -- unit -> name of the quantity

local function fail(why)
  io.stderr:write("flamediff: ", why, "\n")
  os.exit(1, true)
end

local function load(path, title)
  local file, why = io.open(path, "rb")
  if not file then fail(perfev.escape(why)) end
  local text, profile
  text, why = file:read "a"
  file:close()
  if not text then fail(("%s: %s"):format(perfev.escape(path), why)) end
  local value = { words[opt.unit] or opt.unit, unit = opt.unit }
  profile, why = perfev.profile.read(text, { title = title, values = { value } })
  return profile or fail(("%s: %s"):format(perfev.escape(path), why))
end

local function name_of(path) return path:match "([^/]+)$" or path end

local baseline, shown
if opt.after then
  baseline = load(opt.before)
  shown = load(opt.after, opt.title or ("%s, since %s"):format(name_of(opt.after), name_of(opt.before)))
else
  shown = load(opt.before, opt.title or name_of(opt.before))
end
io.write(shown[opt.format](shown, { baseline = baseline }))
