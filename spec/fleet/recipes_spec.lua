-- The recipes of doc/fleet-history.md, run by DuckDB on files that perfl collect's writer made.

local docs = require "spec.support.docs"
local hour_rows = require "perfl.collect.hour_rows"
local perfev = require "perfev"
local run = require "spec.support.run"

local NS = 1000000000
local SEVEN = 1764313200 -- 2025-11-28T07:00:00Z
local MODULES = { "build/duckdb/node_modules", os.getenv "NODE_PATH" }

-- The folder with DuckDB for node, as an absolute path, or nil.
local function find_duckdb()
  for _, dir in ipairs(MODULES) do
    local path = run.capture(("cd %s/@duckdb/node-api 2>/dev/null && cd ../.. && pwd"):format(run.quote(dir)))
    if path then return path end
  end
end

local function profile_of(host)
  local p = perfev.profile()
  p:add("main;parse", 20)
  p:add("main;send;write", 10)
  p:add("main;send;compress", host == "web3" and 30 or 3)
  return p
end

-- Durations in us: one in fifty is slow, and slower in the second hour.
local function latency_of(hour)
  local a = perfev.quantile { unit = "us" }
  for i = 1, 100 do a:add(i % 50 == 0 and (hour == 1 and 1500 or 20000) or 100) end
  return a
end

-- Two jobs of three hosts, six intervals in each of two hours.
local function write_history(dir)
  local sink = assert(hour_rows.open(dir))
  for host = 1, 3 do
    for hour = 1, 2 do
      for i = 1, 6 do
        local seq, name = (hour - 1) * 6 + i, "web" .. host
        local begin = (SEVEN + (hour - 1) * 3600 + (i - 1) * 10) * NS
        local header = { job = "profile", host = name, name = "profile", kind = "profile", start = ("ab"):rep(16),
                         seq = seq, part = "1/1", begin = begin, ["end"] = begin + 10 * NS,
                         lost = host == 2 and seq == 3 and 7 or 0 }
        local is_missing = host == 2 and seq == 5
        if not is_missing then sink:take(header, function() return profile_of(name) end, "", 1) end
        local other = setmetatable({ job = "biolatency", name = "latency", kind = "quantile" }, { __index = header })
        sink:take(other, function() return latency_of(hour) end, "", 1)
      end
    end
  end
  assert(sink:turn())
  sink:close()
end

local PROGRAM = [[
const { DuckDBInstance } = require('@duckdb/node-api');
(async () => {
  const db = await DuckDBInstance.create(':memory:');
  const connection = await db.connect();
  const sql = require('fs').readFileSync(0, 'utf8');
  const result = await connection.runAndReadAll(sql);
  console.log(result.columnNames().join('\t'));
  for (const row of result.getRowsJson()) console.log(row.join('\t'));
})().catch(e => { console.error(e.message); process.exit(1); });
]]

describe("the recipes for DuckDB", function()
  local dir, modules
  local it = require "spec.support.skip"(it, function()
    if not run.have "node" then pending "node is not installed" end
    if not modules then pending "@duckdb/node-api is not installed (try: make fleet-deps)" end
  end)
  setup(function()
    modules = find_duckdb()
    if not modules then return end
    dir = run.tempdir()
    run.write_file(dir .. "/run.js", PROGRAM)
    write_history(dir .. "/history")
  end)
  teardown(function()
    if dir then run.remove(dir) end
  end)

  local function query(sql)
    local r = run({ "node", "run.js" }, { stdin = sql, cwd = dir, env = { NODE_PATH = modules } })
    assert.equal(0, r.code, r.err .. sql)
    return r.out
  end

  local blocks, nr = docs.read("doc/fleet-history.md").blocks, 0
  for i, block in ipairs(blocks) do
    if block.lang == "sql" then
      nr = nr + 1
      local expected = blocks[i + 1] and blocks[i + 1].lang == "text" and blocks[i + 1].text
      it(("give what the page shows: number %d, line %d"):format(nr, block.line), function()
        local out = query(block.text)
        if expected then
          assert.equal(expected, out)
        else
          assert.matches("^Count\n%d+\n$", out)
        end
      end)
    end
  end

  it("make a Parquet file with the same rows", function()
    assert.equal("same\ntrue\n", query [[SELECT (SELECT sum(value) FROM 'profile-07.parquet') =
      (SELECT sum(value) FROM 'history/profile/*T07/*.ndjson') AS same]])
  end)

  it("read all jobs at once, whose columns differ", function()
    assert.equal("kind\tn\nprofile\t105\nquantile\t36\n", query [[SELECT kind, count(*) AS n
      FROM read_json('history/*/*/*.ndjson', union_by_name = true) GROUP BY kind ORDER BY kind]])
  end)
end)
