--- Keys of a declaration of script options: perfev.args{}.

local M = {}

M.args = { [1] = { "table", "a table that begins with the option's name" }, summary = "string", output = "string",
           epilog = "string", all_cpus = "boolean" }
M.args_option = {
  [1] = { "string", "the option's name" },
  help = "string", type = "one of condition, duration, integer, number, size, string", default = "*",
  metavar = "string", choices = { "table", "a list" }, required = "boolean",
  args = { "string | integer > 0", "\"*\", \"+\", \"?\" or a number" }, many = "boolean",
}

return M
