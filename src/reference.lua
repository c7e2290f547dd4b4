-- reference.lua - doc/reference.md, out of the layout tables:
--   lua5.4 src/reference.lua > doc/reference.md
--
-- What is said here of a name and is not in the tables stands in `about`; a name without a
-- line there is an error, so that no field is added and not told of.

package.path = "lua/?.lua;lua/?/init.lua;" .. package.path
package.cpath = package.cpath .. ";build/?.so"

local core = require "perfev.core"
local registers = require "perfev.registers"

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
  id = "the event's id; of inherited copies the original's",
  stream_id = "the id of the copy itself", cpu = "CPU",
  period = "events that this sample stands for", read = "counter values, see below",
  callchain = "addresses by context, see below", raw = "the payload, padding included",
  branch_stack = "branches, newest first, see below", regs_user = "user registers, see below",
  stack_size = "bytes of stack that were asked for",
  stack_user = "bytes of the user stack, those that are valid",
  weight = "cost: a number; with weight_struct three, see below",
  data_src = "where data came from, see below",
  transaction = "what became of a transaction, see below",
  regs_intr = "registers at the interrupt, see below", phys_addr = "physical address of addr",
  cgroup = "cgroup's id", data_page_size = "bytes of the page at addr",
  code_page_size = "bytes of the page at ip", aux = "bytes of the AUX area",
  ppid = "parent process", ptid = "parent thread; in exit the parent process", len = "bytes",
  pgoff = "offset in the file", filename = "path, or a name like `//anon`",
  lost = "how many records or samples", comm = "the task's name", maj = "device, major",
  min = "device, minor", ino = "inode", ino_generation = "inode's generation",
  build_id = "up to 20 bytes; only if the attr asked for it", prot = "PROT_*",
  flags = "flags, as the kernel has them", aux_offset = "absolute; modulo the area's size",
  aux_size = "bytes", next_prev_pid = "the other process: next if `out`",
  next_prev_tid = "the other thread", namespaces = "namespaces by name, see below",
  ksym_type = "1 bpf, 2 out of line", name = "symbol", bpf_type = "1 load, 2 unload",
  tag = "8 bytes", path = "cgroup's path", old_len = "bytes before", new_len = "bytes after",
  old_bytes = "code before", new_bytes = "code after",
  hw_id = "what the hardware calls the event", cookie = "of the sample it belongs to",
}

local function explain(name)
  return about[name] or error("reference.lua: nothing is said about the field " .. name)
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
      line "In the order in which they lie; what the attr's `sample_type` lacks is nil."
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
      line "A list of `{ from =, to =, counters =, … }`, with `hw_idx` beside it where the record"
      line "has one (-1: unknown). `new_type` only where `type` is `extend_abi`. Neither `mispred`"
      line "nor `predicted`: the PMU does not tell."
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
    line("| `raw` | 0–63 | the word, with whatever has no name yet |")
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

line "# Records, field by field"
line ""
line "Written by `src/reference.lua` out of the tables that decode; do not edit it."
line ""
line([[
A record is what a session's callbacks get, what `d:records(bytes)` gives and, as a plain table,
what `r:copy()` and `d:decode(bytes)` return and `perfev.encode(spec, t)` takes. What a record
lacks is nil; a name that no record has raises.

## What every record has

| name | |
|---|---|
| `type` | its name, below; `unknown` for what this build does not know |
| `number` | the kernel's number of the type |
| `size` | bytes, header included |
| `misc` | the header's flags as a number; named flags stand with each type |
| `cpumode` | `unknown`, `kernel`, `user`, `hypervisor`, `guest_kernel`, `guest_user` |
| `bytes` | all of it, as it was written |
| `event` | the event it belongs to |
| `args` | a tracepoint's payload, in a session |
| `synthesised` | `true` where a recorder wrote it of what was there before it began |
| `pmu_format` | of an `aux` record: the byte of `flags` that is the PMU's own |
| `comm` | the task's name at that time, in a session |
| `stack` | the call chain as a value, in a session and a recording; nil without `callchain` |
| `symbol` | the name of the function at `ip`, likewise |
| `sample_id` | the trailer's fields by name, also where the record has its own of that name |

Numbers of 64 bits are Lua integers, wrapped; `s32` are signed, so that pid -1 is -1.

## The trailer

After every record but a sample, if `sample_id_all`; a field of the record's own comes before it.
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
=, id =, lost = }, … }, time_enabled =, time_running = }`; what `read_format` lacks is nil.

### callchain
`{ kernel = {ip…}, user = {ip…}, raw = {every u64, markers included} }`, and `hypervisor`,
`guest`, `guest_kernel`, `guest_user` where there are such; what comes before any marker is the
user's. `cookie`: the user's part comes later, in a `callchain_deferred` of that cookie.

### namespaces
`{ net = { dev =, inode = }, uts =, ipc =, pid =, user =, mnt =, cgroup = }`; what the kernel adds
to these comes by number.
]])
words()
line "### regs_user, regs_intr"
line "`abi` (0 none, 1 of 32 bits, 2 of 64) and each register by its name; with `abi` 0 nothing"
line "else. A bit without a name is given by its number. By the mask's bit:"
line ""
for _, arch in ipairs { "x86", "arm64", "arm", "riscv", "s390x", "powerpc" } do
  line("- %s: %s", arch, register_list(registers[arch]))
end
line ""
line([[
## perfev.decoder(spec)

`spec` holds an attr's fields by the kernel's names (`sample_type`, `read_format` and
`branch_sample_type` as an integer or a list of lower-case names), or `attr` = its bytes of any
published size. Beside them:

| option | |
|---|---|
| `endian` | `"little"` or `"big"`, the recorder's; this machine's if nil |
| `arch` | the recorder's `uname -m`, which names registers; this machine's if nil |
| `bits` | 32 or 64, the recorder's kernel; by `arch` if nil |
| `ids` | the ids of the attr's events |
| `event` | what `r.event` is to be |

A list of such tables decodes several attrs: each record by the attr that its id tells. All must
have their id in one place, which `sample_type` `identifier` does; attrs that cannot be told apart
are refused: nil and the reason. A record without an id belongs to the first.

- `d:decode(bytes [, pos])` → the record as a table, and the position of the next; or nil and what
  is wrong, with the place.
- `for r, pos in d:records(bytes [, bad]) do` gives views, good until the next. What is malformed
  raises, or is told to `bad(message, pos)` and passed over.
- `d:id(bytes [, pos])` → the id that the record carries, or nil.

## perfev.encode(spec, t)

The bytes of the record `t`, as the kernel would write them: the inverse of `d:decode`. `t.type`
or `t.number` is needed, all else is zero or empty if it is not there. `misc` is a number, over
which `cpumode` and named flags are laid; the trailer is of `t.sample_id`, and what that lacks of
`t`. Where a table has `raw`, its named parts are laid over it; a callchain's `raw` stands alone.
A record of an unknown type is its `number` and `raw`, trailer included, or `body`, after which
the trailer comes. A name that no record has, and a value that does not fit, raise.]])

io.write(table.concat(out, "\n"), "\n")
