--- Writes JSON for speedscope: a "sampled" profile for each value type, with shared frames.
-- Source: https://www.speedscope.app/file-format-schema.json

local json = require "perfev.base.json"

local units = { ns = "nanoseconds", us = "microseconds", ms = "milliseconds", s = "seconds", bytes = "bytes" }

local function frame_object(frame)
  return { name = frame.symbol, file = frame.file or frame.module, line = frame.line }
end

return function(profile)
  local frames, index_of, samples, weights = {}, {}, {}, {}
  for i = 1, #profile.values do samples[i], weights[i] = {}, {} end
  local function index(frame)
    if not index_of[frame] then
      frames[#frames + 1] = frame_object(frame)
      index_of[frame] = #frames - 1
    end
    return index_of[frame]
  end
  for stack, values in profile:stacks() do
    local path = {}
    for i = #stack, 1, -1 do path[#path + 1] = index(stack[i]) end
    for i, value in ipairs(values) do
      if value ~= 0 then
        table.insert(samples[i], path)
        table.insert(weights[i], value)
      end
    end
  end
  local profiles = {}
  for i, value in ipairs(profile.values) do
    profiles[i] = { type = "sampled", name = value.name, unit = units[value.unit] or "none", startValue = 0,
      endValue = profile:total(i), samples = samples[i], weights = weights[i] }
  end
  return json.encode { ["$schema"] = "https://www.speedscope.app/file-format-schema.json", exporter = "perfev",
    name = profile.title, activeProfileIndex = 0, profiles = profiles, shared = { frames = frames } } .. "\n"
end
