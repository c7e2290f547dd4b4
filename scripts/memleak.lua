-- memleak: shows the memory that programs allocate and do not free, by stack.
-- perfl memleak ls -R /usr/share/doc
-- perfl -p 1234 -d 1m memleak --least 30s --top 10

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show the memory that programs allocate and do not free, by stack",
  { "--least", type = "duration", default = 0, metavar = "AGE", help = "count only allocations of at least this age" },
  { "-T --top", type = "integer", metavar = "N", help = "show only the N stacks with the most bytes" },
  { "--library", default = "libc", metavar = "FILE", help = "the library or the program that has malloc" },
  tool.options.format, tool.options.call_graph, tool.options.title, tool.options.baseline, tool.options.absolute,
  epilog = [[
Probes on malloc, calloc, realloc, free and the like of one library; each call
costs some microseconds. Ages end with the last call of one of them, or at the
end of a task. Memory that a program maps itself is missing: perfl growth. An
allocation by posix_memalign is followed if its result is stored in the stack.]],
}

local profile = tool.profile("memleak", opt,
  { title = "not freed", values = { { "bytes", unit = "bytes" }, "count" } })
local each_held, nr_unknown = tool.follow_allocations("memleak", opt)

perfev.done(function()
  local sums = perfev.stats { by = { "comm", "stack" }, max_keys = 1 << 20 }
  for one, age in each_held() do
    if age >= opt.least then sums:add(one.bytes, one.comm, one.stack) end
  end
  local rows = sums:rows()
  table.sort(rows, function(a, b) return a.value.sum > b.value.sum end)
  for i = 1, math.min(opt.top or #rows, #rows) do
    local row = rows[i]
    profile:add_under(row.comm, row.stack, row.value.sum, row.value.count)
  end
  tool.print_profile("memleak", profile, opt)
  local nr, nr_missing = nr_unknown()
  if nr > 0 then
    io.stderr:write(("memleak: %d allocation%s by posix_memalign %s not followed\n"):format(nr, nr > 1 and "s" or "",
      nr > 1 and "are" or "is"))
  end
  if nr_missing > 0 then
    io.stderr:write(("memleak: %d allocations of ended processes are missing: they are many\n"):format(nr_missing))
  end
end)
