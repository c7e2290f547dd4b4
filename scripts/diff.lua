-- diff: compares two profiles by function: recordings, folded stacks, or packed aggregators.
-- perfl diff before.folded after.folded
-- perfl diff before.folded after.folded -f html -o change.html
-- perfl diff before.folded after.folded -f tree --absolute

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "compare two profiles: recordings, folded stacks (a;b;c 12), or packed aggregators",
  { "before", required = false, metavar = "BEFORE",
    help = "the file to compare with (default: perf.data.old); if it is the only file, the one to show" },
  { "after", required = false, metavar = "AFTER", help = "the file to show (default: perf.data)" },
  { "-f --format", choices = perfev.profile.diff_formats, default = "top", metavar = "FORMAT",
    help = "top, tree: for a terminal; folded: both numbers; html, svg: a flame graph; json" },
  { "--differ-by", choices = { "comm", "dso", "binary" }, metavar = "WHAT",
    help = "compare commands, files with code, or programs, and not functions" },
  tool.options.absolute,
  { "--top", type = "integer", metavar = "N", help = "print N rows (default: 20; json: all)" },
  { "-e --event", metavar = "EVENT", help = "compare the samples of this event of the recordings" },
  { "--unit", metavar = "WORD", help = "the unit of folded stacks (default: samples); ns and bytes are scaled" },
  tool.options.title,
  output = [[
-f top prints a line for each function: the share before and after, and the
difference; -f tree the same with the callers.]],
  epilog = [[
Functions with the same name in files of the same name are one, at any address.
Shares are compared, so the profiles may differ in length. -C, -p, -t and --comm
select samples of both recordings.]],
}

if (opt.top or 0) < 0 then tool.refuse("diff", "--top: 0 or more") end
if not opt.before then opt.before, opt.after = "perf.data.old", "perf.data" end

local function name_of(path) return path:match "([^/]+)$" or path end

local function load(path, title)
  local profile, why = tool.read_profile("diff", path, { event = opt.event, by = opt.differ_by, unit = opt.unit,
    title = title, command = table.concat({ "perfl diff", opt.before, opt.after }, " ") })
  return profile or tool.refuse("diff", why, 1)
end

local baseline = opt.after and load(opt.before)
local title = opt.after and ("%s, since %s"):format(name_of(opt.after), name_of(opt.before)) or name_of(opt.before)
local shown = load(opt.after or opt.before, opt.title or title)
if baseline and baseline.values[1].name ~= shown.values[1].name then
  tool.refuse("diff", ("%s has %s, %s has %s"):format(perfev.escape(opt.before), baseline.values[1].name,
    perfev.escape(opt.after), shown.values[1].name), 1)
end
io.write(shown[opt.format](shown, { baseline = baseline, absolute = opt.absolute, limit = opt.top, annotate = true }))
