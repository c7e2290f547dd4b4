--- The table of strace -c: time, number and errors of each system call.

local aggregator = require "perfev.base.lazy_module" "perfev.aggregate.aggregator"
local call_text = require "perfev.tool.system_calls.call_text"
local json = require "perfev.base.json"

return function()
  local rows, by_name = {}, {}
  local M = {}

  --- Adds a call that took this time.
  function M.add(name, ns, result)
    local row = by_name[name]
    if not row then
      row = { call = name, calls = 0, ns = 0, errors = 0 }
      rows[#rows + 1], by_name[name] = row, row
    end
    row.calls, row.ns = row.calls + 1, row.ns + ns
    if call_text.is_error(result) then row.errors = row.errors + 1 end
  end

  local function line(share, ns, calls, errors, name)
    print(("%6.2f %11.6f %11d %9d %9s %s"):format(share, ns / 1e9, calls > 0 and ns // calls // 1000 or 0, calls,
      errors > 0 and errors or "", name))
  end

  --- Prints the calls, those with the most time first.
  function M.print()
    local all = { calls = 0, ns = 0, errors = 0 }
    table.sort(rows, function(a, b)
      if a.ns ~= b.ns then return a.ns > b.ns end
      return a.call < b.call
    end)
    for _, row in ipairs(rows) do
      for key, value in pairs(all) do all[key] = value + row[key] end
    end
    if aggregator.default_form == "json" then
      for _, row in ipairs(rows) do
        print(json.encode { call = row.call, unit = "ns", time = row.ns, calls = row.calls, errors = row.errors })
      end
      return
    end
    local rule = ("------ ----------- ----------- --------- --------- ----------------")
    print("% time     seconds  usecs/call     calls    errors syscall")
    print(rule)
    for _, row in ipairs(rows) do
      line(all.ns > 0 and 100 * row.ns / all.ns or 0, row.ns, row.calls, row.errors, row.call)
    end
    print(rule)
    line(100, all.ns, all.calls, all.errors, "total")
  end

  return M
end
