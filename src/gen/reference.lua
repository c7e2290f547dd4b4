-- reference.lua - writes doc/reference.md from the layout tables:
--   lua5.4 src/gen/reference.lua > doc/reference.md
--
-- `about` describes each field. A field without an entry is an error, so that none is added
-- without documentation.

package.path = "lua/?.lua;lua/?/init.lua;" .. package.path
package.cpath = package.cpath .. ";build/?.so"

local core = require "perfev.core"
local registers = require "perfev.record.registers"

local layouts = core.layouts()
local out = {}
local function line(format, ...) out[#out + 1] = format:format(...) end

local kinds = {
  u16 = "u16", u32 = "u32", u64 = "u64", s32 = "s32", string = "string", bytes = "bytes",
  read = "counter values", chain = "callchain", branch = "branches", regs = "registers",
  stack = "bytes", namespaces = "namespaces", bits = "named bits",
}

local about = {
  identifier = "the event's id, at a fixed place", ip = "instruction pointer", pid = "process",
  tid = "thread", time = "ns, by the event's clock", addr = "address",
  id = "the event's id; inherited copies have that of the original",
  stream_id = "the id of the copy itself", cpu = "CPU",
  period = "number of events since the last sample", read = "counter values, see below",
  callchain = "addresses by context, see below", raw = "the payload, padding included",
  branch_stack = "branches, newest first, see below", regs_user = "user registers, see below",
  stack_size = "requested bytes of stack",
  stack_user = "the valid bytes of the user stack",
  weight = "cost: a number; with weight_struct three, see below",
  data_src = "source of the data, see below",
  transaction = "result of a transaction, see below",
  regs_intr = "registers at the interrupt, see below", phys_addr = "physical address of addr",
  cgroup = "id of the cgroup", data_page_size = "bytes of the page at addr",
  code_page_size = "bytes of the page at ip", aux = "bytes of the AUX area",
  ppid = "parent process", ptid = "parent thread; in exit the parent process", len = "bytes",
  pgoff = "offset in the file", filename = "path, or a name like `//anon`",
  lost = "number of records or samples", comm = "name of the task", maj = "device, major",
  min = "device, minor", ino = "inode", ino_generation = "generation of the inode",
  build_id = "up to 20 bytes; only if the attr requests it", prot = "PROT_*",
  flags = "the kernel's flags", aux_offset = "absolute; modulo the area's size",
  aux_size = "bytes", next_prev_pid = "the other process: next if `out`",
  next_prev_tid = "the other thread", namespaces = "namespaces by name, see below",
  ksym_type = "1 bpf, 2 out of line", name = "symbol", bpf_type = "1 load, 2 unload",
  tag = "8 bytes", path = "path of the cgroup", old_len = "bytes before", new_len = "bytes after",
  old_bytes = "code before", new_bytes = "code after",
  hw_id = "the hardware's id of the event", cookie = "cookie of its sample",
}

local function explain(name)
  return about[name] or error("reference.lua: `about` has no entry for the field " .. name)
end

-- sample_type's bit of that number, by name
local bit_names = {}
for _, field in ipairs(core.attr_fields()) do
  if field.name == "sample_type" then
    for bit, name in ipairs(field.bits) do bit_names[bit - 1] = name end
  end
end

local function bits_of(mask)
  local names = {}
  for bit = 0, 63 do
    if mask >> bit & 1 == 1 then names[#names + 1] = "`" .. bit_names[bit] .. "`" end
  end
  return table.concat(names, " or ")
end

local function flags_of(number)
  local names = {}
  for _, flag in ipairs(layouts.miscs) do
    if flag.types >> number & 1 == 1 then
      local word = flag.field and flag.field .. " " or ""
      names[#names + 1] = ("`%s` (%s0x%x)"):format(flag.name, word, flag.mask)
    end
  end
  return #names > 0 and table.concat(names, ", ") or nil
end

local function fields(rows)
  line "| field | kind | offset | |"
  line "|---|---|---|---|"
  for _, row in ipairs(rows) do
    line("| `%s` | %s | %s | %s |", row.name, kinds[row.kind], row.off, explain(row.name))
  end
end

local function by_bit(rows)
  line "| field | kind | sample_type | |"
  line "|---|---|---|---|"
  for _, row in ipairs(rows) do
    line("| `%s` | %s | %s | %s |", row.name, kinds[row.kind], bits_of(row.bit), explain(row.name))
  end
end

local function records()
  for number, layout in ipairs(layouts.records) do
    line("### %s", layout.name)
    local flags = flags_of(number)
    line("Type %d, delivered to `%s`.%s", number, layout.callback,
      flags and " Flags: " .. flags .. "." or "")
    line ""
    if layout.name == "sample" then
      line "In the order of the record. Fields that `sample_type` of the attr lacks are nil."
      line ""
      by_bit(layout.rows)
    elseif #layout.rows > 0 then
      fields(layout.rows)
      if layout.name == "mmap2" then
        line ""
        line "With `build_id_form`:"
        line ""
        fields(layouts.build_id)
      end
    else
      line "No fields of its own."
    end
    line ""
  end
end

local function values(field)
  if field.kind == "flag" then return "true or false" end
  if field.kind == "number" then return "a number" end
  local names = {}
  for n = 0, (1 << math.min(field.width, 6)) - 1 do
    local name = field.names[n]
    if name then
      names[#names + 1] = (field.kind == "enum" and "`%s` %d" or "`%s`"):format(name, n)
    end
  end
  return (field.kind == "set" and "a table, true for each of: " or "") .. table.concat(names, ", ")
end

local function words()
  for _, name in ipairs { "data_src", "transaction", "weight", "branch_stack" } do
    line("### %s", name)
    if name == "branch_stack" then
      line "A list of `{ from =, to =, counters =, … }`, and `hw_idx` if the record has one (-1:"
      line "unknown). `new_type` is set only if `type` is `extend_abi`. If both `mispred` and"
      line "`predicted` are false, the PMU does not report them."
    elseif name == "weight" then
      line "With `weight_struct`; with `weight` it is one number."
    end
    line ""
    line "| part | bits | |"
    line "|---|---|---|"
    for _, field in ipairs(layouts.bits[name]) do
      local last = field.shift + field.width - 1
      local bits = last == field.shift and last or ("%d–%d"):format(field.shift, last)
      line("| `%s` | %s | %s |", field.name, bits, values(field))
    end
    line("| `raw` | 0–63 | the whole word, including bits without a name |")
    line ""
  end
end

-- "`ax` 0, …, `r8`–`r15` 16–23": a run where bits and numbers both go up by one
local function follows(a, b)
  local stem, n = (a or ""):match("^(%a+)(%d+)$")
  return stem ~= nil and b == stem .. math.tointeger(tonumber(n)) + 1
end

local function register_list(names)
  local parts, bit = {}, 0
  while bit <= 63 do
    local first = bit
    while follows(names[bit], names[bit + 1]) do bit = bit + 1 end
    if bit > first then
      parts[#parts + 1] = ("`%s`–`%s` %d–%d"):format(names[first], names[bit], first, bit)
    elseif names[bit] then
      parts[#parts + 1] = ("`%s` %d"):format(names[bit], bit)
    end
    bit = bit + 1
  end
  return table.concat(parts, ", ")
end

-- The calls that hooks replace, from src/base/sys_calls.h.
local function system_calls()
  line "## System calls"
  line ""
  line([[
Every call through which perfev reaches the kernel. A [hook](api/hooks.md) of that name gets the
arguments and returns the results; a call without results returns 0 or `true`.
]])
  line "| hook | gets | returns | |"
  line "|---|---|---|---|"
  for _, call in ipairs(core.system_calls()) do
    local gets = table.concat(call.parameters, ", ")
    line("| `%s` | %s | %s | %s |", call.name, gets, call.returns, call.text)
  end
end

line "<!-- Generated by src/gen/reference.lua; change it, then run make generated. -->"
line "# Records, field by field, and system calls"
line ""
line([[
Callbacks of a session and the iterator `d:records(bytes)` get records as views. `r:copy()` and
`d:decode(bytes)` return them as plain tables, and `perfev.encode(spec, t)` accepts such a table.
A field that the record lacks is nil. A name that no record has raises an error.

## Fields of every record

| name | |
|---|---|
| `type` | the name of its type, below; `unknown` if this build does not know it |
| `number` | the kernel's number of the type |
| `size` | bytes, header included |
| `misc` | the header's flags as a number; each type below lists its named flags |
| `cpumode` | `unknown`, `kernel`, `user`, `hypervisor`, `guest_kernel`, `guest_user` |
| `bytes` | the whole record as written |
| `event` | the event it belongs to |
| `args` | the payload of a tracepoint, in a session |
| `synthesised` | `true` if the recorder made it for something that existed before the recording |
| `pmu_format` | `aux` records: the byte of `flags` with the PMU's own value |
| `comm` | the name of the task at that time, in a session |
| `stack` | the call chain as a value, in a session and a recording; nil without `callchain` |
| `symbol` | the name of the function at `ip`, in a session and a recording |
| `sample_id` | the fields of the trailer by name, even if the record has fields of the same name |

64-bit numbers are Lua integers and wrap; `s32` is signed: pid -1 is -1.

## The trailer

Follows every record except samples, if `sample_id_all` is set. A field of the record itself has
precedence.
]])
by_bit(layouts.trailer)
line ""
line "## Records"
line ""
records()
line "## Tables"
line ""
line([[
### read
`{ value =, id =, lost =, time_enabled =, time_running = }`, or for a group `{ values = { { value
=, id =, lost = }, … }, time_enabled =, time_running = }`. Values that `read_format` lacks are nil.

### callchain
`{ kernel = {ip…}, user = {ip…}, raw = {every u64, markers included} }`, and `hypervisor`,
`guest`, `guest_kernel`, `guest_user` if present. Addresses before any marker are user addresses.
`cookie`: the user part follows in a `callchain_deferred` record with the same cookie.

### namespaces
`{ net = { dev =, inode = }, uts =, ipc =, pid =, user =, mnt =, cgroup = }`. Namespaces
that newer kernels add have their number as key.
]])
words()
line "### regs_user, regs_intr"
line "`abi` (0 none, 1: 32 bits, 2: 64 bits) and each register by its name; with `abi` 0 no"
line "registers. A register without a name has the number of its bit. Names by bit of the mask:"
line ""
for _, arch in ipairs { "x86", "arm64", "arm", "riscv", "s390x", "powerpc" } do
  line("- %s: %s", arch, register_list(registers[arch]))
end
line ""
line([[
## perfev.decoder(spec)

`spec` has the fields of an attr by the kernel's names (`sample_type`, `read_format` and
`branch_sample_type` as an integer or a list of lower-case names), or `attr` = its bytes of any
published size. Further options:

| option | |
|---|---|
| `endian` | byte order of the recorder, `"little"` or `"big"`; default: this machine's |
| `arch` | `uname -m` of the recorder, for register names; default: this machine's |
| `bits` | 32 or 64, the recorder's kernel; default: from `arch` |
| `ids` | the ids of the attr's events |
| `event` | the value of `r.event` |

A list of such tables decodes several attrs: the id of a record selects its attr. The id must have
the same offset in all, which `sample_type` `identifier` ensures. For attrs that cannot be
distinguished, the result is nil and the reason. A record without an id belongs to the first attr.

- `d:decode(bytes [, pos])` → the record as a table, and the position of the next; or nil and a
  message with the position.
- `for r, pos in d:records(bytes [, bad]) do` returns views, each valid until the next. A malformed
  record raises, or calls `bad(message, pos)` and is skipped.
- `d:id(bytes [, pos])` → the id of the record, or nil.

## perfev.encode(spec, t)

Returns the bytes of the record `t` as the kernel would write them: the inverse of `d:decode`.
`t.type` or `t.number` is required; all other fields default to zero or empty. `misc` is a number;
`cpumode` and named flags override its bits. The trailer has the fields of `t.sample_id`, else those
of `t`. If a table has `raw`, its named parts override it, except for a callchain, where `raw`
replaces the parts. A record of unknown type has its `number` and either `raw`, which includes the
trailer, or `body`, which the trailer follows. An unknown name or a value that does
not fit raises.]])
line ""
system_calls()

io.write(table.concat(out, "\n"), "\n")
