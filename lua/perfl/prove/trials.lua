--- The trials of a script: which worlds it runs in, and which findings they give.

local child = require "perfl.prove.child"
local failing_calls = require "perfl.prove.failing_calls"
local faults = require "perfl.prove.faults"
local generate = require "perfl.prove.generate"
local kernels = require "perfl.prove.kernels"
local laws = require "perfl.prove.laws"
local memory = require "perfl.prove.memory"
local native = require "perfl.core"
local pid_reuse = require "perfl.prove.pid_reuse"
local shrink = require "perfl.prove.shrink"

local M = {}

local FINDINGS_MAX = 20
local SLOW_RUNS = 6 -- to make a world without an end smaller
local HANGS_MAX = 2 -- runs without an end, of 0.3 s and more each
local SLACK_NS = 2000000000 -- a session goes on after the last record

local Trials = {}
Trials.__index = Trials

-- ---- running ----

-- During the reduction of a world the number of findings does not matter.
function Trials:is_stopped()
  return native.signal() ~= nil or self.deadline ~= nil and os.time() >= self.deadline
end

function Trials:is_over()
  return self.nr_hangs >= HANGS_MAX or #self.findings >= FINDINGS_MAX or self:is_stopped()
end

local function context_of(self, world, fault)
  return { hostile = fault.hostile, plausible = fault.plausible, json = fault.json, odd = self.odd,
    span = faults.end_of(world) + SLACK_NS }
end

-- Keeps a finding, with the smallest world that shows it, unless it is known. `again`: (world) -> the finding | nil
function Trials:found(one, world, again, options)
  local key = laws.signature(one)
  if self.seen[key] or #self.findings >= FINDINGS_MAX then return end
  self.seen[key] = true
  local at = #self.findings + 1
  self.findings[at] = one
  if again then
    world = shrink.world(world, function(candidate) return not self:is_stopped() and again(candidate) ~= nil end,
      one.law == "end" and SLOW_RUNS or nil)
    one = again(world) or one -- with the values of that world
  end
  one.world, one.words, one.fault = world, options and options.words, options and options.fault
  self.findings[at] = one
end

-- Runs a world, and checks the laws of one run -> the result
function Trials:try(world, fault, options)
  options = options or {}
  local result = child.run(self.plan, world, options)
  if result.died or result.endless then self.nr_hangs = self.nr_hangs + 1 end
  for _, one in ipairs(laws.broken(result, context_of(self, world, fault))) do
    local key = laws.signature(one)
    if fault.note and one.law == "error" then
      self:add_note(("%s: %s:%s: %s"):format(fault.note, one.file or "?", one.line or "?", one.message))
      goto next
    end
    self:found(one, world, function(candidate)
      local again = child.run(self.plan, candidate, options)
      for _, other in ipairs(laws.broken(again, context_of(self, candidate, fault))) do
        if laws.signature(other) == key then return other end
      end
    end, { words = options.words, fault = fault[1] })
    ::next::
  end
  self:note(result)
  return result
end

function Trials:add_note(text)
  if self.noted[text] then return end
  self.noted[text] = true
  self.notes[#self.notes + 1] = text
end

-- Calls that were denied, as notes of the report.
function Trials:note(result)
  for _, text in ipairs(result.denied) do self:add_note("denied: " .. text) end
end

-- Checks a law of two runs.
function Trials:compare(law, world, truth)
  local one = law[2](self.plan, world, truth)
  if not one then return end
  self:found(one, world, function(candidate)
    local again = child.run(self.plan, candidate)
    return laws.is_sound(again) and law[2](self.plan, candidate, again) or nil
  end)
end

-- ---- phases ----

local function is_refused(result) return result.status ~= 0 and not result.events[1] end

local plain = { "a plausible world", plausible = true }

local function most_values(result)
  local most = 0
  for _, one in ipairs(result.aggregates) do most = math.max(most, one.count or 0) end
  return most
end

local function more_than_truth(truth, result)
  local whole, rest = most_values(truth), most_values(result)
  if rest <= whole then return nil end
  return { law = "loss", message = ("records are missing, and the count grows from %d to %d"):format(whole, rest) }
end

local function seeded(self, i) math.randomseed(self.seed, i) end

-- A plausible world and what faults make of it.
function Trials:random_world(i)
  seeded(self, i)
  local world = generate.plausible(self.survey, math.random(3, 24))
  local truth = self:try(world, plain)
  if self:is_over() then return end
  local fault = faults.list[i % #faults.list + 1]
  local broken = fault.make(world, self.chains)
  local result = self:try(broken, fault)
  if fault.json_too and self.has_json then
    self:try(broken, { fault[1], json = true }, { words = { "-j" } })
  end
  if not laws.is_sound(truth) then return end
  if fault.loses and laws.is_sound(result) then
    local one = more_than_truth(truth, result)
    if one then self:found(one, broken, nil) end
  end
  self:compare(laws.pairs[i % #laws.pairs + 1], world, truth)
  if i % 3 == 0 then pid_reuse.check(self, i) end
end

local ORDERS = 2 -- worlds that run in new processes

-- Of equal counts, in which a comparison by count alone leaves the order to pairs().
function Trials:order_of_ties(world)
  local equal = faults.same_counts(world)
  local truth = child.run(self.plan, equal)
  local one = laws.is_sound(truth) and laws.order(self.plan, equal, truth)
  if one then self:found(one, equal) end
end

-- The first worlds that have an output.
function Trials:orders()
  local nr = 0
  for i = 1, self.worlds do
    if self:is_over() or nr == ORDERS then return end
    seeded(self, i)
    local world = generate.plausible(self.survey, 24)
    local truth = child.run(self.plan, world)
    if laws.is_sound(truth) and truth.output ~= "" then
      nr = nr + 1
      local one = laws.order(self.plan, world, truth)
      if one then self:found(one, world) end
      self:order_of_ties(world)
    end
    if i == 2 * ORDERS then return end
  end
end

function Trials:random_worlds()
  for i = 1, self.worlds do
    if self:is_over() then return end
    self:random_world(i)
  end
end

-- A script that can watch the machine may do something else for chosen tasks.
local choices = { { "-p", tostring(generate.FIRST_PID) }, { "-a", "--comm", "alpha" } }
local CHOICE_WORLDS = 8

function Trials:chosen_tasks()
  if not self.plan.target or self.plan.target[1] ~= "-a" then return end
  for _, words in ipairs(choices) do
    local options = { words = words, without_target = true }
    for i = 1, math.min(self.worlds, CHOICE_WORLDS) do
      if self:is_over() then return end
      seeded(self, i)
      local world = generate.plausible(self.survey, 12)
      world.tasks = generate.tasks().tasks
      if is_refused(self:try(world, plain, options)) then break end
      local fault = faults.list[i * #faults.list // CHOICE_WORLDS]
      self:try(fault.make(world, self.chains), fault, options)
    end
  end
end

-- At most this many failures are tried for each random world, and one of each call.
local FAILURES_FOR_WORLD = 2

function Trials:failing_calls()
  seeded(self, 0)
  local world = generate.plausible(self.survey, 4)
  local truth = self:try(world, plain)
  for _, failure in ipairs(failing_calls.list(truth.calls, 3, FAILURES_FOR_WORLD * self.worlds)) do
    if self:is_over() then return end
    local failing = faults.copy(world)
    table.insert(failing, 1, { fail = failure.call, nth = failure.nth, errno = failure.errno })
    local result = self:try(failing, { "a failing call" })
    if failure.harmless and laws.is_sound(truth) then
      local one = laws.differs("failing call", truth, result, failure.call .. " fails with " .. failure.errno
        .. ", and the output changes")
      if one then self:found(one, failing) end
    end
  end
end

-- ---- the script ----

-- A script that does not watch the machine watches a task of the worlds.
local targets = { { "-a" }, { "-p", tostring(generate.FIRST_PID) } }

-- Runs the script without records: its events, and which target it needs.
local function look(self)
  local result, of_machine = child.run(self.plan, {})
  for _, target in ipairs(targets) do
    if not is_refused(result) then return result end
    self.plan.target = target
    local other = child.run(self.plan, generate.tasks())
    if not is_refused(other) then return other end
    of_machine = of_machine or other
  end
  self.plan.target = nil
  return result.errors:find "nothing to watch" and of_machine or result
end

local function can_record(plan)
  for _, word in ipairs(plan.words) do
    if word == "--record" or word == "-i" or word == "--input" or word == "--" then return false end
  end
  return true
end

-- True if -j makes the script print JSON.
local function prints_json(self)
  seeded(self, 0)
  local world = generate.plausible(self.survey, 20)
  local as_json = child.run(self.plan, world, { words = { "-j" } })
  return laws.is_sound(as_json) and as_json.output:find "%S" ~= nil and not laws.bad_json_line(as_json.output)
    and as_json.output ~= child.run(self.plan, world).output
end

--- Prepares the trials.
-- @tparam table options  `main`, `words`, `seed`, `worlds`, `deadline`
-- @treturn[1] table
-- @treturn[2] nil
-- @treturn[2] string     why the script cannot be tried
-- @treturn[2] integer    exit status
function M.new(options)
  local self = setmetatable({ plan = { main = options.main, words = options.words }, seed = options.seed,
    worlds = options.worlds, deadline = options.deadline, findings = {}, seen = {}, notes = {}, noted = {},
    nr_hangs = 0 }, Trials)
  local survey, why = look(self)
  if not survey then return nil, why, 1 end
  if is_refused(survey) then return nil, survey.errors, 2 end
  self.survey, self.chains = survey, {}
  child.preload(survey)
  self.plan.can_record = can_record(self.plan)
  local events = {}
  for _, event in ipairs(survey.events) do
    if event.name then events[event.name] = event end
  end
  self.chains = generate.chains(events)
  self.odd = laws.odd_number(survey.output)
  self.has_json = prints_json(self)
  local long = { { at = 5000000000, cpu = 0, lose = 1 } }
  self.plan.ticks = survey.output ~= child.run(self.plan, long).output -- it prints at intervals
  return self
end

--- Runs everything. The findings are in `findings`, the tables of kernels and rights in `kernels` and `rights`.
function Trials:run()
  self:try({}, { "no records", plausible = true })
  if not generate.has_records(self.survey) then
    self:add_note "the script opens no event: it ran without records"
  end
  self:random_worlds()
  self:chosen_tasks()
  self:orders()
  self:failing_calls()
  kernels.check_fields(self)
  if not self:is_over() then memory.check(self) end
  if self.nr_hangs == 0 then self.kernels, self.rights = kernels.table(self), kernels.rights(self) end
  self.stopped = self.nr_hangs >= HANGS_MAX and "the script does not end"
    or #self.findings >= FINDINGS_MAX and "there are enough findings"
    or self:is_stopped() and "the time is over" or nil
end

--- Checks all laws on one world.
function Trials:replay(world)
  local truth = self:try(world, { "the given world", hostile = true, json = self.has_json })
  if self.has_json then self:try(world, { "the given world", json = true }, { words = { "-j" } }) end
  if not laws.is_sound(truth) then return end
  for _, law in ipairs(laws.pairs) do self:compare(law, world, truth) end
  memory.replay(self, world)
end

return M
