--- Writes JSON for the Firefox Profiler, in its "processed" form: a thread for each value type.
--
-- The format has samples at times, a profile has stacks with weights. Each stack becomes one sample, one millisecond
-- after the last, and its weight counts in the call tree, the flame graph and the percentages.
-- Source: github.com/firefox-devtools/profiler, docs-developer/processed-profile-format.md; in the
-- version below threads share tables; newer profilers convert older versions.

local json = require "perfev.base.json"

local null = json.null
local VERSION, GECKO_VERSION = 62, 24
local RESOURCE_LIBRARY = 1

local OTHER, USER, KERNEL = 0, 1, 2
local categories = {
  { name = "Other", color = "grey", subcategories = { "Other" } },
  { name = "User", color = "yellow", subcategories = { "Other" } },
  { name = "Kernel", color = "orange", subcategories = { "Other" } },
}

-- A table of the format: columns by name, and their length.
local function columns(...)
  local t = { length = 0 }
  for _, name in ipairs { ... } do t[name] = {} end
  return t
end

local function push(t, row)
  t.length = t.length + 1
  for name, column in pairs(t) do
    if name ~= "length" then
      local value = row[name]
      if value == nil then value = null end
      column[t.length] = value
    end
  end
  return t.length - 1
end

local function interned(make)
  local of = {}
  return function(key, ...)
    if not of[key] then of[key] = make(key, ...) end
    return of[key]
  end
end

local function shared_tables()
  return {
    stringArray = {},
    sources = columns("filename", "id", "sourceMapURL", "startColumn", "startLine"),
    resourceTable = columns("lib", "name", "host", "type"),
    nativeSymbols = columns("address", "functionSize", "libIndex", "name"),
    funcTable = columns("name", "isJS", "relevantForJS", "resource", "source", "lineNumber", "columnNumber"),
    frameTable = columns("address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol",
      "innerWindowID", "line", "column"),
    stackTable = columns("frame", "prefix"),
  }
end

-- Returns a function that adds a frame, with its function, file and module, to the tables, and
-- returns its row.
local function frame_rows(shared, libs)
  local text = interned(function(s)
    table.insert(shared.stringArray, s)
    return #shared.stringArray - 1
  end)
  local source = interned(function(file) return push(shared.sources, { filename = text(file), startLine = 1,
    startColumn = 1 }) end)
  local resource = interned(function(module)
    local name = module:match("([^/]+)$") or module
    table.insert(libs, { arch = "", name = name, path = module, debugName = name, debugPath = module,
      breakpadId = "", codeId = null })
    return push(shared.resourceTable, { lib = #libs - 1, name = text(name), type = RESOURCE_LIBRARY })
  end)
  local func = interned(function(_, frame)
    return push(shared.funcTable, { name = text(frame.symbol), isJS = false, relevantForJS = false,
      resource = frame.module and resource(frame.module) or -1, source = frame.file and source(frame.file) or nil })
  end)
  -- The format has one row for each inlining depth of a frame.
  return interned(function(_, frame, depth)
    return push(shared.frameTable, { address = -1, inlineDepth = depth, subcategory = 0, innerWindowID = 0,
      category = frame.kernel and KERNEL or (frame.module or frame.file) and USER or OTHER,
      func = func(table.concat({ frame.symbol, frame.module or "", frame.file or "" }, "\0"), frame),
      line = frame.line })
  end)
end

-- The format's units are samples, milliseconds and bytes.
local function weighting(value)
  if value.unit == "ns" then return "tracing-ms", function(n) return n / 1e6 end end
  return value.unit == "bytes" and "bytes" or "samples", function(n) return n end
end

local function thread(profile, i, value)
  return { name = value.name, processName = profile.title or "perfev", processType = "default", isMainThread = i == 1,
    pid = "1", tid = tostring(i), registerTime = 0, unregisterTime = null, processStartupTime = 0,
    processShutdownTime = null, pausedRanges = {}, showMarkersInTimeline = false,
    markers = columns("category", "data", "endTime", "name", "phase", "startTime"),
    samples = { length = 0, stack = {}, timeDeltas = {}, weight = {}, weightType = (weighting(value)) } }
end

local function meta(profile)
  return { version = GECKO_VERSION, preprocessedProfileVersion = VERSION, product = profile.title or "perfev",
    importedFrom = "perfev", interval = 1, stackwalk = 1, startTime = (profile.time or 0) / 1e6, processType = 0,
    categories = categories, markerSchema = {}, debug = false, symbolicated = true, sourceCodeIsNotOnSearchfox = true,
    usesOnlyOneStackType = true, pausedRanges = {}, sampleUnits = { time = "ms", eventDelay = "ms",
      threadCPUDelta = "ns" }, extensions = columns("id", "name", "baseURL") }
end

return function(profile)
  local shared, libs, threads, weigh = shared_tables(), {}, {}, {}
  for i, value in ipairs(profile.values) do
    threads[i] = thread(profile, i, value)
    weigh[i] = select(2, weighting(value))
  end
  local frame_row, path, inlining = frame_rows(shared, libs), {}, {}
  profile:walk(function(depth, frame, values)
    inlining[depth] = frame.inlined and (inlining[depth - 1] or 0) + 1 or 0
    path[depth] = push(shared.stackTable, { frame = frame_row(inlining[depth] .. frame.key, frame, inlining[depth]),
      prefix = path[depth - 1] })
    for i, value in ipairs(values or {}) do
      local samples = threads[i].samples
      if value ~= 0 then
        samples.length = samples.length + 1
        samples.stack[samples.length] = path[depth]
        samples.timeDeltas[samples.length] = samples.length > 1 and 1 or 0
        samples.weight[samples.length] = weigh[i](value)
      end
    end
  end)
  return json.encode { meta = meta(profile), libs = libs, pages = {}, counters = {}, profilerOverhead = {},
    shared = shared, threads = threads } .. "\n"
end
