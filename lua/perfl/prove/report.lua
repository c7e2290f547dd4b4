--- The report of perfl prove: text of 80 columns, or JSON.

local escape = require "perfev.base.escape"
local json = require "perfev.base.json"
local lua_text = require "perfl.prove.lua_text"
local message = require "perfl.message"

local M = {}

local WIDTH = 80
local STEPS_SHOWN = 12

local function place(one)
  return one.file and ("%s:%d: "):format(one.file:match "[^/]+$", one.line) or ""
end

-- Folds a text into lines of 80 columns.
local function folded(lead, text, indent)
  local lines, line = {}, lead
  for word in text:gmatch "%S+" do
    if #line + 1 + #word > WIDTH and line:find "%S" then
      lines[#lines + 1] = line
      line = indent .. word
    else
      line = line .. (line:find "%S$" and " " or "") .. word
    end
  end
  lines[#lines + 1] = line
  return lines
end

local function add_all(lines, more) table.move(more, 1, #more, #lines + 1, lines) end

local function cut(text, room)
  text = escape(text)
  return #text <= room and text or text:sub(1, room - 3) .. "..."
end

local function add_world(lines, world)
  lines[#lines + 1] = #world == 0 and "  in a world without records"
    or ("  the shortest world found, of %d step%s:"):format(#world, #world == 1 and "" or "s")
  for i, step in ipairs(world) do
    if i > STEPS_SHOWN then
      lines[#lines + 1] = ("    ... and %d more"):format(#world - STEPS_SHOWN)
      break
    end
    add_all(lines, folded("    ", lua_text.encode(step) .. ",", "      "))
  end
  if world.tracepoints then
    add_all(lines, folded("    ", "tracepoints = " .. lua_text.encode(world.tracepoints) .. ",", "      "))
  end
end

local function add_finding(lines, number, one, script)
  add_all(lines, folded("", ("%d. %s: %s%s"):format(number, one.law, place(one), escape(one.message)), "   "))
  if one.expected then
    lines[#lines + 1] = "  expected: " .. cut(one.expected, WIDTH - 12)
    lines[#lines + 1] = "  got:      " .. cut(one.got, WIDTH - 12)
  end
  if one.fault then add_all(lines, folded("  ", "with: " .. one.fault, "    ")) end
  if one.words then lines[#lines + 1] = "  with the options: " .. message.shell(one.words) end
  add_world(lines, one.world)
  add_all(lines, one.path and folded("  ", "again: perfl prove --replay " .. message.shell { one.path } .. " "
    .. message.shell(script), "    ") or { "  to keep it: --keep DIR" })
end

-- Neighbours with one result as one row: "4.4 to 6.18".
local function merged_rows(rows)
  local list = {}
  for _, row in ipairs(rows) do
    local last = list[#list]
    if last and last.result == row.result and last.why == row.why then
      last.to = row.name
    else
      list[#list + 1] = { name = row.name, result = row.result, why = row.why }
    end
  end
  for _, row in ipairs(list) do
    if row.to then row.name = ("%s to %s"):format(row.name, row.to) end
  end
  return list
end

local function add_rows(lines, title, rows)
  if not rows then return end
  lines[#lines + 1] = title
  for _, row in ipairs(rows) do
    lines[#lines + 1] = cut(("  %-22s %s%s"):format(row.name, row.result, row.why and ": " .. row.why or ""), WIDTH)
  end
end

local function count_text(n, word) return ("%d %s%s"):format(n, word, n == 1 and "" or "s") end

local software = { [0] = "cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults",
  "major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches" }

local function name_of(event)
  return event.name or event.type == 1 and software[event.config]
    or ("type %d, config %d"):format(event.type, event.config)
end

local function needed(events)
  local list, seen = {}, {}
  for _, event in ipairs(events) do
    local name = name_of(event)
    if not seen[name] and name ~= "dummy" then -- dummy: perfev's own, for names of tasks
      seen[name], list[#list + 1] = true, name
    end
  end
  table.sort(list)
  return list
end

--- Returns the report as lines.
-- @tparam table trials  `findings`, `notes`, `kernels`, `rights`, `survey`, `name`, `runs`, `words`
function M.lines(trials)
  local lines, n = {}, #trials.findings
  lines[1] = n == 0 and ("%s: %s, 0 findings"):format(trials.name, count_text(trials.runs, "world"))
    or ("%s: %s in %s"):format(trials.name, count_text(n, "finding"), count_text(trials.runs, "world"))
  if trials.stopped then lines[#lines + 1] = "stopped early: " .. trials.stopped end
  for i, one in ipairs(trials.findings) do
    lines[#lines + 1] = ""
    add_finding(lines, i, one, trials.words)
  end
  if trials.kernels then
    lines[#lines + 1] = ""
    local events = table.concat(needed(trials.survey.events), ", ")
    add_all(lines, folded("events: ", events == "" and "none but records of tasks" or events, "  "))
    add_rows(lines, "kernels:", merged_rows(trials.kernels))
    add_rows(lines, "rights:", trials.rights)
  end
  for _, note in ipairs(trials.notes) do add_all(lines, folded("note: ", escape(note), "  ")) end
  return lines
end

--- Returns the report as JSON.
function M.json(trials)
  local findings = {}
  for i, one in ipairs(trials.findings) do
    findings[i] = { law = one.law, message = one.message, file = one.file, line = one.line, expected = one.expected,
      got = one.got, fault = one.fault, words = one.words, steps = #one.world,
      world = lua_text.world_file(one.world, {}),
      path = one.path, bytes_per_task = one.bytes_per_life }
  end
  return json.encode { script = trials.name, seed = trials.seed, worlds = trials.runs, findings = findings,
    stopped_early = trials.stopped, events = trials.kernels and needed(trials.survey.events) or nil,
    kernels = trials.kernels, rights = trials.rights, notes = trials.notes }
end

--- Writes the worlds of the findings into a directory -> nil | a message
function M.keep(trials, directory)
  for i, one in ipairs(trials.findings) do
    local path = ("%s/%s-%d-%s.lua"):format(directory, trials.name:gsub("%.lua$", ""), i, (one.law:gsub("%W", "_")))
    local file, why = io.open(path, "w")
    if not file then return ("--keep %s: %s\ntry: mkdir -p %s"):format(escape(directory), why, escape(directory)) end
    file:write(lua_text.world_file(one.world, { ("%s: %s%s"):format(one.law, place(one), escape(one.message)) }))
    file:close()
    one.path = path
  end
end

return M
