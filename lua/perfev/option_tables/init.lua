--- The options of all classes and their types, as plain data: see perfev.base.check.
--
-- The classes check by these tables, each by its own file, so that a run loads those of the classes that it uses.
-- docs_spec holds the tables of doc/api against them, and arguments_spec tries every option with values that no caller
-- means.

local all = {} -- class -> { option = type }

for _, file in ipairs { "session", "event", "counter", "aggregator", "span", "profile", "picture", "records",
                      "snapshot", "args", "budget", "calls" } do
  for class, options in pairs(require("perfev.option_tables." .. file)) do all[class] = options end
end

return all
