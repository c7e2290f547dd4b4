--- perfl prove: runs a script in generated worlds on a simulated kernel, and reports the laws that it breaks.

local args = require "perfev.tool.args"
local child = require "perfl.prove.child"
local escape = require "perfev.base.escape"
local find_script = require "perfl.find_script"
local load_source = require "perfl.load_source"
local message = require "perfl.message"
local native = require "perfl.core"
local report = require "perfl.prove.report"
local trials_of = require "perfl.prove.trials"

local M = {}

local FOUND, USAGE = 1, 2

local declaration = args.check {
  summary = "Run a script in hundreds of small worlds on a simulated kernel, and report what goes wrong.",
  { "script", metavar = "SCRIPT", help = "the script, with perfl's options before it and its own ones after it" },
  { "--seed", type = "integer", default = 1, metavar = "N", help = "make other worlds; the same seed gives the same "
    .. "report" },
  { "--worlds", type = "integer", default = 200, metavar = "N", help = "the number of random worlds" },
  { "--time", type = "duration", metavar = "TIME", help = "stop after this time, as in 30s" },
  { "--replay", metavar = "FILE", help = "check the laws in the world of this file only" },
  { "--keep", metavar = "DIR", help = "write the shortest world of each finding into this directory" },
  { "-j --json", help = "print a JSON object" },
  epilog = [[
Exit status: 0, 1 if there are findings, 2 for an invalid command line or a
script that does not start.]],
}

local has_value = { ["--seed"] = true, ["--worlds"] = true, ["--time"] = true, ["--replay"] = true, ["--keep"] = true }
local switches = { ["-j"] = true, ["--json"] = true, ["-h"] = true, ["--help"] = true }

-- Own options are the words before the first other word: the rest is perfl's command line -> own, rest
local function split(words)
  local i = 1
  while words[i] do
    if has_value[words[i]] then
      i = i + 2
    elseif switches[words[i]] or has_value[words[i]:match "^(%-%-%a+)="] then
      i = i + 1
    else
      break
    end
  end
  return table.move(words, 1, math.min(i - 1, #words), 1, {}), table.move(words, i, #words, 1, {})
end

local function usage_error(text)
  message.say(text .. (text:find "\ntry: " and "" or "\ntry: perfl prove --help"))
  return USAGE
end

local function help_text()
  local parser = args.new_parser("perfl prove"):description(declaration.summary):epilog(declaration.epilog)
  args.add(parser, declaration)
  return parser:usage("Usage: perfl prove [options] [perfl options] SCRIPT [script args]"):get_help()
end

local function read_options(own)
  local ok, opts, why = pcall(args.read, declaration, { "SCRIPT", table.unpack(own) })
  if not ok then return nil, opts end
  if not opts then return nil, why end
  if opts.worlds < 0 then return nil, ("--worlds %d: 0 or more"):format(opts.worlds) end
  return opts
end

-- The world of a file, as a list of steps.
local function read_world(path)
  local text, why = load_source.read(path, "cannot read ")
  if not text then return nil, why end
  local world
  local env = setmetatable({ require = function(name)
    if name == "perfev.sim" then return { world = function(list) return list end } end
    return require(name)
  end }, { __index = _G })
  local chunk, wrong = load_source.compile(text, "@" .. path, env)
  if not chunk then return nil, wrong end
  local ok, value = pcall(chunk)
  world = ok and value
  if type(world) ~= "table" or world.hooks then
    return nil, ("'%s' is not the world of perfl prove --keep: it does not return sim.world{...}"):format(path)
  end
  return world
end

local function name_of(trials)
  local path = trials.survey.path
  if not path then return trials.words[1] end
  return find_script.built_in_text(path) and path:match "([^/]+)%.lua$" or path:match "[^/]+$"
end

local function set_script(trials)
  local path = trials.survey.path
  if not path or path == "-e" then return end
  trials.path = path
  trials.text = find_script.built_in_text(path) or load_source.read(path)
end

-- The message for an option of prove among the words after the script, whose command line is refused; or nil
local function misplaced(script)
  for i = 2, #script do
    local word = script[i]:match "^%-%-%a+"
    if word and has_value[word] then
      local value = script[i] == word and " " .. (script[i + 1] or "VALUE") or ""
      return ("prove: '%s': an option of prove is written before the script\ntry: perfl prove %s%s %s"):format(word,
        escape(script[i]), escape(value), escape(script[1]))
    end
  end
end

--- The verb.
-- @tparam {string,...} words
-- @tparam function main  perfl's
-- @treturn integer  exit status
function M.main(words, _, _, main)
  if words[1] == child.ANEW then
    child.print_run(table.move(words, 2, #words, 1, {}), main)
    return 0
  end
  local own, script = split(words)
  for _, word in ipairs(own) do
    if word == "-h" or word == "--help" then
      print(help_text())
      return 0
    end
  end
  local opts, why = read_options(own)
  if not opts then return usage_error("prove: " .. why) end
  if not script[1] then return usage_error "prove: no script given\ntry: perfl prove syscount" end
  local world
  if opts.replay then
    world, why = read_world(opts.replay)
    if not world then return usage_error(why) end
  end
  local trials, refused, status = trials_of.new { main = main, words = script, seed = opts.seed, worlds = opts.worlds,
    deadline = opts.time and os.time() + math.max(1, opts.time // 1000000000) or nil }
  if not trials then
    local misplaced_option = status == 2 and misplaced(script)
    if misplaced_option then return usage_error(misplaced_option) end
    io.stderr:write(refused)
    return status
  end
  trials.words = script
  set_script(trials)
  trials.name = name_of(trials)
  local ok, wrong = xpcall(world and trials.replay or trials.run, message.traceback, trials, world)
  native.heed() -- of a signal; the report follows
  if not ok and not native.signal() then error(wrong, 0) end
  if native.signal() then trials.stopped = "a signal came" end
  trials.runs = child.count
  local failed = opts.keep and report.keep(trials, opts.keep)
  if failed then return usage_error(failed) end
  print(opts.json and report.json(trials) or table.concat(report.lines(trials), "\n"))
  return trials.findings[1] and FOUND or 0
end

return M
