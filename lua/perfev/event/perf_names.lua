--- perf's names of the kernel's software, hardware and cache events. Reads nothing from the system.
-- Source: tools/perf/util/parse-events.l and evsel.c of 6.1, enum perf_hw_id, perf_sw_ids and
-- perf_hw_cache_* of include/uapi/linux/perf_event.h.

local M = {}

M.TYPE = { hardware = 0, software = 1, tracepoint = 2, cache = 3, raw = 4, breakpoint = 5 }

-- config -> names; perf list prints the first one first.
M.software = {
  [0] = { "cpu-clock" }, { "task-clock" }, { "page-faults", "faults" }, { "context-switches", "cs" },
  { "cpu-migrations", "migrations" }, { "minor-faults" }, { "major-faults" }, { "alignment-faults" },
  { "emulation-faults" }, { "dummy" }, { "bpf-output" }, { "cgroup-switches" },
}
M.hardware = {
  [0] = { "cpu-cycles", "cycles" }, { "instructions" }, { "cache-references" }, { "cache-misses" },
  { "branch-instructions", "branches" }, { "branch-misses" }, { "bus-cycles" },
  { "stalled-cycles-frontend", "idle-cycles-frontend" }, { "stalled-cycles-backend", "idle-cycles-backend" },
  { "ref-cycles" },
}

-- Events that perf stat measures itself; the kernel event is dummy.
M.tools = { "duration_time", "user_time", "system_time" }

local DUMMY = 9
M.DUMMY, M.BPF_OUTPUT, M.CPU_CLOCK, M.TASK_CLOCK, M.CPU_CYCLES = DUMMY, 10, 0, 1, 0

-- Caches and the operations that they support (evsel__hw_cache_stat): l(oad), s(tore), p(refetch).
M.caches = {
  [0] = { "L1-dcache", "l1-d", "l1d", "L1-data", ops = "lsp" },
  { "L1-icache", "l1-i", "l1i", "L1-instruction", ops = "lp" },
  { "LLC", "L2", ops = "lsp" },
  { "dTLB", "d-tlb", "Data-TLB", ops = "lsp" },
  { "iTLB", "i-tlb", "Instruction-TLB", ops = "l" },
  { "branch", "branches", "bpu", "btb", "bpc", ops = "l" },
  { "node", ops = "lsp" },
}
M.cache_ops = {
  [0] = { "load", "loads", "read" }, { "store", "stores", "write" },
  { "prefetch", "prefetches", "speculative-read", "speculative-load" },
}
M.cache_results = { [0] = { "refs", "Reference", "ops", "access" }, { "misses", "miss" } }

-- Finds a name in the tables above -> { type =, config = [, tool =] }, or nil
local function find_row(name)
  for _, kind in ipairs { "software", "hardware" } do
    for config = 0, #M[kind] do
      for _, alias in ipairs(M[kind][config]) do
        if alias == name then return { type = M.TYPE[kind], config = config } end
      end
    end
  end
  for _, tool in ipairs(M.tools) do
    if tool == name then return { type = M.TYPE.software, config = DUMMY, tool = tool } end
  end
end

local function by_alias(rows)
  local set = {}
  for id = 0, #rows do
    for _, name in ipairs(rows[id]) do set[name] = id end
  end
  return set
end
local op_of, result_of = by_alias(M.cache_ops), by_alias(M.cache_results)

-- Reads the operation and the result of a cache event ("load-misses"), in either order; the defaults are reads and
-- accesses. -> { type =, config = } | nil, reason
local function make_cache_event(id, words)
  local op, result
  for _, word in ipairs(words) do
    if op_of[word] and not op then
      op = op_of[word]
    elseif result_of[word] and not result then
      result = result_of[word]
    else
      return nil
    end
  end
  op, result = op or 0, result or 0
  if not M.caches[id].ops:find(("lsp"):sub(op + 1, op + 1), 1, true) then
    return nil, ("%s is never %s"):format(M.caches[id][1],
      ({ [0] = "loaded from", "stored to", "prefetched into" })[op])
  end
  return { type = M.TYPE.cache, config = id | op << 8 | result << 16 }
end

-- Splits at dashes, but not the dash of "speculative-read".
local function split_cache_words(rest)
  local words = {}
  rest = rest:gsub("speculative%-", "speculative_")
  for word in rest:gmatch("[^-]+") do words[#words + 1] = (word:gsub("speculative_", "speculative-")) end
  return words
end

local function find_cache(name)
  for id = 0, #M.caches do
    for _, alias in ipairs(M.caches[id]) do
      if name == alias then return make_cache_event(id, {}) end
      local rest = name:sub(1, #alias + 1) == alias .. "-" and name:sub(#alias + 2)
      if rest and rest ~= "" then
        local found, why = make_cache_event(id, split_cache_words(rest))
        if found or why then return found, why end
      end
    end
  end
end

--- Finds an event that has the same number on every machine.
-- @treturn[1] table  `type`, `config`, `tool` (perf stat's own event, which the counter measures)
-- @treturn[2] nil
-- @treturn[2] ?string  the reason, if it names a cache operation that no CPU has
function M.find(name)
  local row = find_row(name)
  if row then return row end
  return find_cache(name)
end

--- Lists all cache events by perf list's names: { "L1-dcache-loads", "L1-dcache-load-misses", ... }.
function M.cache_names()
  local list = {}
  for id = 0, #M.caches do
    local cache = M.caches[id]
    for op = 0, #M.cache_ops do
      if cache.ops:find(("lsp"):sub(op + 1, op + 1), 1, true) then
        list[#list + 1] = cache[1] .. "-" .. M.cache_ops[op][2]
        list[#list + 1] = ("%s-%s-misses"):format(cache[1], M.cache_ops[op][1])
      end
    end
  end
  return list
end

--- Lists all names, sorted, for "did you mean" and for completion.
function M.all()
  local list = M.cache_names()
  for _, rows in ipairs { M.software, M.hardware } do
    for config = 0, #rows do table.move(rows[config], 1, #rows[config], #list + 1, list) end
  end
  table.move(M.tools, 1, #M.tools, #list + 1, list)
  table.sort(list)
  return list
end

return M
