-- kmem: shows which functions of the kernel allocate memory, how much of it is waste, and how much is still held.
-- perfl kmem --top 10 ls -R /usr/share/doc
-- perfl -a -d 5s kmem

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show which functions of the kernel allocate memory",
  { "-T --top", type = "integer", metavar = "N", help = "print only the N with the most bytes" },
  epilog = [[
WASTE is the part of the allocated bytes that was not requested. HELD are bytes
that were not freed in the run. Another task may free them, so HELD needs -a.
The kernel does not report what it frees in bulk, as kfree_rcu() does. Of the
memory of slabs; whole pages (kmem:mm_page_alloc) do not count.]],
}

local by = { "args.call_site", "args.call_site:text" }
local hits = perfev.count { by = by, max_keys = 1 << 20 }
local requested = perfev.sum { by = by, value = "args.bytes_req", max_keys = 1 << 20 }
local allocated = perfev.sum { by = by, value = "args.bytes_alloc", max_keys = 1 << 20 }
local freed = perfev.stats { by = { "start.args.call_site", "start.args.bytes_alloc" }, max_keys = 1 << 20 }
local lives = perfev.span { start = true, stop = true, by = "args.ptr", max_waiting = 1 << 22, into = freed }

-- The variants with a node are part of the others since Linux 6.1.
for name, optional in pairs { kmalloc = false, kmem_cache_alloc = false, kmalloc_node = true,
                              kmem_cache_alloc_node = true } do
  perfev.event { "kmem:" .. name, optional = optional, sample = { hits, requested, allocated, lives.start } }
end
perfev.event { "kmem:kfree", sample = lives.stop }
perfev.event { "kmem:kmem_cache_free", sample = lives.stop }

local print_row, print_heading = tool.table_printer {
  { "caller", -30 }, { "count", 8 }, { "requested", 10 }, { "allocated", 10 }, { "waste", 6, format = "%.1f%%" },
  { "held", 10 },
}

perfev.done(function()
  local given_back = {} -- by call site: bytes
  for site, bytes, life in freed:pairs() do given_back[site] = (given_back[site] or 0) + bytes * life.count end
  local rows = allocated:rows()
  print_heading()
  for i = 1, math.min(opt.top or #rows, #rows) do
    local site, text, bytes = rows[i]["args.call_site"], rows[i]["args.call_site:text"], rows[i].value
    local asked = requested:get(site, text)
    print_row { caller = text:gsub("/0x%x+", ""), count = hits:get(site, text), requested = asked, allocated = bytes,
      waste = bytes > 0 and 100 * (bytes - asked) / bytes or 0, held = bytes - (given_back[site] or 0) }
  end
  hits:rows() -- read: perfl does not print them
  requested:rows()
end)
