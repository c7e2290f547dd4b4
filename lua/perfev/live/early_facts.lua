--- Facts that an early event collects when its record is read from the ring, for the same record in the order of time.

local session = require "perfev.live.session"

local MAX_WAITING = 1 << 12 -- facts of a thread; more: its records in the order of time were lost

--- See perfev.tool.early_facts.
return function(spec, collect)
  local s, waiting = session.default(), {} -- by thread: a list of { time =, fact = }
  local function keep(r, args)
    local list = waiting[r.tid] or {}
    waiting[r.tid] = list
    if #list < MAX_WAITING then list[#list + 1] = { time = r.time, fact = collect(r, args) } end
  end
  -- Both events write a sample each time, one after the other: the partner is the nearest in time.
  local function take(tid, time)
    local list = waiting[tid]
    if not list or not list[1] then return nil end
    while list[2] and math.abs(list[2].time - time) < math.abs(list[1].time - time) do table.remove(list, 1) end
    return table.remove(list, 1).fact
  end
  if s.opts.input then return take end -- the facts are gone
  local copy = { early = true, optional = true, sample = keep }
  for key, value in pairs(spec) do copy[key] = value end
  s:event(copy)
  s:event { exit = function(r) waiting[r.tid] = nil end }
  return take
end
