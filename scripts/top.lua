-- top: shows the busiest functions, live, updated every second; q quits.
-- perfl -a top
-- perfl -p 1234 -d 10s top --event page-faults -F 0 --interval 2s > faults

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show the busiest functions, live", all_cpus = true,
  { "-e --event", default = "cpu-clock", metavar = "EVENT", help = "sample this event" },
  { "-F --frequency", type = "integer", default = 999, metavar = "HZ", help = "samples a second; 0: every event" },
  { "-I --interval", type = "duration", default = "1s", metavar = "TIME", help = "update the table this often" },
  { "--idle", help = "include idle CPUs" },
  epilog = [[
Each table has the samples since the last one. The tables are plain lines if the
output is not a terminal, with a command (which uses the terminal), and with -i.]],
}

if opt.frequency < 0 or opt.interval == 0 then
  tool.refuse("top", opt.frequency < 0 and "-F: 0 or more" or "-I: more than 0")
end

local rows, width, settings -- of the terminal; how it was set, where we draw on it
local shown, profile = 0, perfev.profile {}

local event = perfev.event {
  tool.sampled_event(opt.event), callchain = true,
  sample_max_stack = 1, -- stacks stay in memory: one for each address, not each way there
  freq = opt.frequency > 0 and opt.frequency or nil, period = opt.frequency == 0 and 1 or nil,
  where = not opt.idle and { "tid", "!=", 0 } or nil, sample = profile:sampler(),
}

local function stty(words)
  local pipe <close> = assert(io.popen("stty " .. words .. " 2>&1"))
  return pipe:read "l" or ""
end

-- Without waiting for a line: a read returns the keys typed so far, or nothing.
local function take_terminal()
  if rows then return end
  rows, width = 24, 80
  local opts = perfev.default_session().opts
  if opts.input or opts.command or io.output() ~= io.stdout or not os.execute "test -t 0 && test -t 1" then return end
  local high, wide = stty("size"):match "^(%d+) (%d+)$"
  if high and tonumber(high) > 5 and tonumber(wide) > 0 then rows, width = tonumber(high), tonumber(wide) end
  settings = stty "-g"
  stty "-icanon -echo min 0 time 0"
end

local function show()
  take_terminal()
  local what = opt.event == "cpu-clock" and tool.replaced_clock("top", event) or opt.event
  local text = ("%s: %d in %.1f s\n"):format(what, profile:total(), (profile.duration or 0) / 1e9)
    .. profile:top { limit = rows - 5, width = width } -- minus heads, (other), total and the line of the cursor
  if settings then
    text = "\27[H" .. text:gsub("\n", "\27[K\n") .. "\27[J"
  elseif shown > 0 then
    text = "\n" .. text
  end
  io.write(text)
  io.flush()
  shown = shown + 1
  profile:clear()
end

perfev.every(opt.interval / 1e9, show)
perfev.every("100ms", function()
  take_terminal()
  return not settings or io.read(1) ~= "q"
end)

perfev.done(function()
  if settings then return stty(settings) end
  if shown == 0 or profile:total() > 0 then show() end
end)
