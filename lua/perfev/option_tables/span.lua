--- Options of a span: s:span{}.

local M = {}

M.span = {
  by = "columns", where = "*", into = { "aggregator", "an aggregator: perfev.hist{}, perfev.stats{}, ..." },
  least = "duration", max_waiting = "integer 1..2^28",
  value = { "string | table | function", "a field, { FIELD, \"-\", FIELD } or a function" }, fields = "list of string",
}
for _, name in ipairs { "start", "via", "stop", "cancel" } do
  M.span[name] = { "string | table | true", "an event string, or a table as event{} has" }
  M.span[name .. "_by"], M.span[name .. "_where"] = "columns", "*"
end

return M
