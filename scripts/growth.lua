-- growth: shows the memory that processes map and do not unmap, by process and stack.
-- perfl growth ls -R /usr/share/doc
-- perfl -a -d 10s growth --top 10

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show the memory that processes map and do not unmap, by process and stack",
  { "-T --top", type = "integer", metavar = "N", help = "show only the N stacks with the most bytes" },
  { "--anonymous", help = "leave out mapped files" },
  tool.options.format, tool.options.call_graph, tool.options.title, tool.options.baseline, tool.options.absolute,
  epilog = [[
From the system calls mmap, munmap, mremap and brk. A stack is that of the call
that gave the memory its size. Memory counts when it is mapped, not when it is
touched: perfl faultstacks shows that. What a process had before the run, and
the break before its first call of brk, do not count.]],
}

local profile = tool.profile("growth", opt,
  { title = "mapped", values = { { "bytes", unit = "bytes" }, "mappings" } })
local each_held, nr_missing = tool.follow_mappings("growth", opt)

perfev.done(function()
  local sums = perfev.stats { by = { "process", "kind", "stack" }, max_keys = 1 << 20 }
  for one in each_held() do
    if one.kind ~= "file" or not opt.anonymous then
      sums:add(one.bytes, ("%s %d"):format(one.comm, one.pid), ("[%s]"):format(one.kind), one.stack)
    end
  end
  local rows = sums:rows()
  table.sort(rows, function(a, b) return a.value.sum > b.value.sum end)
  for i = 1, math.min(opt.top or #rows, #rows) do
    local row = rows[i]
    profile:add_under({ row.process, row.kind }, row.stack, row.value.sum, row.value.count)
  end
  tool.print_profile("growth", profile, opt)
  if nr_missing() > 0 then
    io.stderr:write(("growth: %d mappings of ended processes are missing: they are many\n"):format(nr_missing()))
  end
end)
