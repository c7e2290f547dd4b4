--- Laws: conditions on one run of a script, and on the outputs of two runs of it.

local child = require "perfl.prove.child"
local faults = require "perfl.prove.faults"
local json = require "perfev.base.json"
local lua_text = require "perfl.prove.lua_text"

local M = {}

-- ---- texts of errors ----

local function first_line(text) return text:match "^%s*([^\n]*)" end

-- The first place in a file that is not perfl's.
local function place_in(text)
  for path, line in text:gmatch "([^%s:'\"]+%.lua):(%d+)" do
    if not path:find "^lua/perf" then return path, math.tointeger(tonumber(line)) end
  end
  local line = text:match "%-e:(%d+)"
  if line then return "-e", math.tointeger(tonumber(line)) end
end

local function without(text, part)
  local from, to = text:find(part, 1, true)
  return from and text:sub(1, from - 1):gsub("%S+$", "") .. text:sub(to + 1) or text
end

-- trace: with the place of the error
local function finding(law, text, trace)
  local file, line = place_in(trace or text)
  if file then text = without(text, ("%s:%d: "):format(file, line)) end
  return { law = law, message = text, file = file, line = line }
end

--- Two findings are the same if only their numbers differ.
function M.signature(one)
  if one.law == "error" and one.line then return ("error %s:%d"):format(one.file, one.line) end
  if one.law == "end" or one.law == "names" or one.law == "json" then return one.law end
  local text = one.message
  return one.law .. " " .. text:gsub("0x%x+", "#"):gsub("%d+", "#")
end

-- ---- laws of one run ----

local single = {}

function single.error(result, found)
  for _, failure in ipairs(result.failures) do
    found(finding(result.endless and "end" or "error", ("%s: %s"):format(failure.what, first_line(failure.text)),
      failure.text))
  end
end

function single.finish(result, found)
  if not result.died then return end
  if result.signal == 24 or result.signal == 9 or result.exit == 124 then -- SIGXCPU, SIGKILL
    return found(finding("end", "the script computes without an end"))
  end
  found(finding("end", result.signal and ("perfl was ended by signal %d"):format(result.signal)
    or "perfl ended in the middle: " .. first_line(result.errors), result.errors))
end

function single.leaks(result, found)
  local kinds, seen = {}, {}
  for _, text in ipairs(result.leaks) do
    local kind = text:gsub(" ?%d+$", "")
    if not seen[kind] then seen[kind], kinds[#kinds + 1] = true, kind end
  end
  if kinds[1] then found(finding("leak", "not released at the end: " .. table.concat(kinds, ", "))) end
end

function single.silence(result, found)
  if result.status and result.status ~= 0 and result.status < 128 and result.errors == "" then
    found(finding("silence", ("ends with status %d without a message"):format(result.status)))
  end
end

function single.summary(result, found)
  if (result.totals.lost or 0) > 0 and result.status == 0 and not result.errors:find "lost" then
    found(finding("loss", "records were lost, and the summary does not say so"))
  end
end

-- The names are in the output byte by byte.
function single.names(result, found, context)
  if not context.hostile then return end
  for _, text in ipairs(faults.hostile) do
    if result.output:find(text, 1, true) then
      return found(finding("names", ("a name reaches the terminal unescaped: %s"):format(lua_text.encode(text))))
    end
  end
end

local function bad_json_line(output)
  for line in output:gmatch "[^\n]+" do
    local ok, value, why = pcall(json.decode, line)
    if not ok or value == nil or line:find "%c" then return line, tostring(ok and why or value) end
  end
end

M.bad_json_line = bad_json_line

function single.json(result, found, context)
  local line = context.json and bad_json_line(result.output)
  if line then found(finding("json", "a line of -j is not JSON: " .. lua_text.encode(line:sub(1, 60)))) end
end

local function odd_number(output)
  for token in output:gmatch "%S+" do
    local number = token:match "^[-@%[(]?(%-%d[%d.]*)" or token:match "^%-%d[%d.]*"
    if number then return "a negative number: " .. number end
    local plain = token:lower()
    if plain == "nan" or plain == "-nan" or plain == "inf" or plain == "-inf" then return "not a number: " .. token end
  end
  local huge = output:match "%f[%d]%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d+"
  return huge and "a number beyond 2^63: " .. huge or nil
end

function single.numbers(result, found, context)
  if not context.plausible then return end
  local odd = odd_number(result.output)
  if odd and not context.odd then return found(finding("numbers", "from positive values comes " .. odd)) end
  for _, one in ipairs(result.aggregates) do
    local most = one.max
    if one.unit == "ns" and most and context.span and most > context.span then
      return found(finding("numbers", ("a duration of %d ns in a world of %d ns"):format(math.floor(most),
        context.span)))
    end
  end
end

local single_order = { "error", "finish", "leaks", "silence", "summary", "names", "json", "numbers" }

--- The laws that one run breaks.
-- @tparam table result
-- @tparam table context  `hostile`, `plausible`, `json`, `span`, `odd`
-- @treturn {table,...}   `law`, `message`, `file`, `line`
function M.broken(result, context)
  local list = {}
  for _, name in ipairs(single_order) do
    if not result.endless or name == "error" then
      single[name](result, function(one) list[#list + 1] = one end, context)
    end
  end
  return list
end

-- ---- laws of two runs ----

local function first_difference(a, b)
  local function lines(text)
    local list = {}
    for line in text:gmatch "([^\n]*)\n?" do list[#list + 1] = line end
    return list
  end
  local x, y = lines(a), lines(b)
  for i = 1, math.max(#x, #y) do
    if x[i] ~= y[i] then return x[i] or "", y[i] or "" end
  end
end

-- nil if the outputs are equal, or a message.
local function differs(law, truth, result, how)
  if truth.output == result.output or result.failures[1] or result.died then return nil end
  local want, got = first_difference(truth.output, result.output)
  return { law = law, message = how, expected = want, got = got }
end

local function numbers_of(result)
  local _, lines = result.output:gsub("\n", "\n")
  local most
  for _, one in ipairs(result.aggregates) do most = math.max(most or 0, one.count or 0) end
  return most and ("%d values"):format(most) or ("%d lines"):format(lines)
end

local function differs_in_number(law, truth, result, how)
  if result.failures[1] or result.died then return nil end
  local want, got = numbers_of(truth), numbers_of(result)
  return want ~= got and { law = law, message = how, expected = want, got = got } or nil
end

-- Interrupts and switches happen on a CPU, not in a task.
local function is_of_cpu(event)
  return event:find "^irq:" or event:find "^sched:sched_switch" or event:find "^power:" or event:find "^timer:"
end

local function is_sound(result)
  return result and result.status == 0 and not result.failures[1] and not result.died
end

local function with_steps(world, change)
  local new = faults.copy(world)
  for i, step in ipairs(new) do change(step, i) end
  return new
end

--- Each is a name and a function (plan, world, truth) -> a finding | nil. `truth`: the run of the world.
M.pairs = {
  { "delivery", function(plan, world, truth)
    local other = with_steps(world, function(step, i) step.via = i * 7 // 3 % 2 end)
    return differs("delivery", truth, child.run(plan, other), "other CPUs' rings deliver the records: "
      .. "the output changes")
  end },
  { "migration", function(plan, world, truth)
    -- Each step of a task on a CPU of its own. A script may show the CPU, so only the numbers of lines and of counted
    -- values are compared.
    local seen = {}
    local other = with_steps(world, function(step)
      if not step.tid or step.tid == 0 or type(step.event) ~= "string" or is_of_cpu(step.event) then return end
      seen[step.tid] = (seen[step.tid] or 0) + 1
      step.cpu = (step.cpu + seen[step.tid]) % 2
    end)
    return differs_in_number("migration", truth, child.run(plan, other),
      "a task moves to another CPU between two records: there are more or fewer results")
  end },
  { "delay", function(plan, world, truth)
    -- A ring keeps its order: each CPU has one delay.
    local other = with_steps(world, function(step) step.late = step.cpu == 0 and 3000000 or 100000 end)
    local result = child.run(plan, other)
    if (result.totals.late or 0) > 0 then return nil end
    return differs("delay", truth, result, "a CPU delivers 3 ms later: the output changes")
  end },
  { "rings", function(plan, world, truth)
    return differs("rings", truth, child.run(plan, world, { words = { "-m", "1M" } }),
      "larger rings: the output changes")
  end },
  { "recording", function(plan, world, truth)
    if not plan.can_record then return nil end
    local path = "/prove.data"
    local live = child.run(plan, world, { words = { "--record", path }, file = path })
    if not is_sound(live) or not live.file then return nil end
    local replayed = child.run(plan, {}, { words = { "-i", path }, files = { [path] = live.file },
      without_target = true })
    if not is_sound(replayed) then return nil end
    return differs("recording", truth, replayed, "--record, then -i: the output changes")
  end },
  { "Ctrl-C", function(plan, world, truth)
    if plan.ticks then return nil end -- an earlier end has fewer intervals
    local other = faults.copy(world)
    other[#other + 1] = { at = faults.end_of(world) + 1000000, interrupt = true }
    return differs("Ctrl-C", truth, child.run(plan, other), "Ctrl-C after the last record: the output changes")
  end },
  { "closed pipe", function(plan, world, truth)
    local result = child.run(plan, world, { closed = true })
    if truth.output == "" or result.died then return nil end
    local one = result.failures[1]
    return one and finding("closed pipe", "the output's reader ends first: " .. first_line(one.text), one.text) or nil
  end },
}

local NEW_PROCESSES = 3

--- The same world gives the same output in other processes, in which tables have another order of keys.
function M.order(plan, world, truth)
  for _ = 1, NEW_PROCESSES do
    local output = child.run_anew(plan, world)
    if output and output ~= truth.output then
      return { law = "order", message = "a second run of the same world prints another text: pairs() has no order" }
    end
  end
end

M.differs, M.is_sound, M.odd_number = differs, is_sound, odd_number

return M
