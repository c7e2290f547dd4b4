-- User stacks by registers and copied memory: rules and stacks made byte by byte, on the simulated kernel.
-- spec/live/unwind_spec.lua unwinds the code of compilers.

local core = require "perfev.core"
local elf = require "spec.support.elf"
local event = require "perfev.event.declaration"
local sim = require "perfev.sim"
local perfev = require "perfev"

local MS, KERNEL, USER = 1000000, -128, -512
local BASE, STACK = 0x400000, 0x7ffe0000
local AARCH64 = 183
local NAMES = { "leaf", "middle", "outer", "start", "handler", "back" }

-- ---- .eh_frame ----

local function entry(body)
  body = body .. ("\0"):rep(-(#body + 4) % 8)
  return string.pack("<I4", #body) .. body
end

-- The beginning of all functions: return address register, rules. A signal's return has an S.
local function cie(ra, rules, signal)
  return entry(string.pack("<I4Bz", 0, 1, signal and "zRS" or "zR") .. "\1\x78" .. string.char(ra) .. "\1\0" .. rules)
end

-- A function's own, by addresses as they are; back: bytes from the CIE's start.
local function fde(back, start, length, rules)
  return entry(string.pack("<I4I8I8", back + 4, start, length) .. "\0" .. rules)
end

local function cfa(reg, offset) return string.char(0x0c, reg, offset) end
local function cfa_offset(offset) return string.char(0x0e, offset) end
local function saved(reg, words) return string.char(0x80 | reg, words) end
local function undefined(reg) return string.char(0x07, reg) end
local function expression(code, reg, ops) return string.char(code, reg, #ops) .. ops end
local EXPRESSION, VALUE, CFA_EXPRESSION = 0x10, 0x16, 0x0f

-- Functions every 0x100 bytes, the first at 0x1000, with these rules, for a machine with stack pointer sp; "S" in
-- front: a signal returns there. -> .eh_frame, list of { first address, offset in .eh_frame }
local function frames(opts)
  local head, signal = cie(opts.ra, opts.rules), cie(opts.ra, opts.rules, true)
  local out, at, list = { head .. signal }, #head + #signal, {}
  for i, rules in ipairs(opts) do
    if rules then
      local is_signal = rules:sub(1, 1) == "S"
      local start = is_signal and #head or 0
      list[#list + 1] = { 0x1000 + 0x100 * (i - 1), at }
      -- As linkers do for a signal's return address: the byte before it belongs to the function.
      out[#out + 1] = fde(at - start, 0x1000 + 0x100 * (i - 1) - (is_signal and 1 or 0), 0xf0,
        is_signal and rules:sub(2) or rules)
      at = at + #out[#out]
    end
  end
  return table.concat(out) .. "\0\0\0\0", list
end

-- .eh_frame_hdr at address 0, for an .eh_frame at address 0
local function search_table(list)
  local out = { "\1\x1b\3\x3b" .. string.pack("<i4I4", -4, #list) }
  for i, one in ipairs(list) do out[i + 1] = string.pack("<i4i4", one[1], one[2]) end
  return table.concat(out)
end

local function program(opts)
  local functions = {}
  for i, name in ipairs(NAMES) do functions[i] = { name, 0x1000 + 0x100 * (i - 1), 0x100 } end
  return elf.file { functions = functions, machine = opts.machine, eh_frame = opts.eh_frame or (frames(opts)),
    eh_frame_hdr = opts.eh_frame_hdr }
end

local X86 = { mask = 0xff0fff, bits = { bx = 1, bp = 6, sp = 7, ip = 8 }, ra = 16 }
local ARM = { mask = 0x1ffffffff, bits = { fp = 29, lr = 30, sp = 31, ip = 32 }, ra = 30 }
local X86_RULES = cfa(7, 8) .. saved(16, 1)

-- ---- the stack of a sample ----

local function at(name, offset)
  for i, one in ipairs(NAMES) do
    if one == name then return BASE + 0x100 * (i - 1) + offset end
  end
end

local function registers(machine, values)
  local regs = { abi = 2 }
  for bit = 0, 63 do if machine.mask >> bit & 1 == 1 then regs[bit] = 0 end end
  for name, value in pairs(values) do regs[machine.bits[name] or name] = value end
  return regs
end

-- The folded stacks of samples { regs, words, more fields } of a process that runs a file of these bytes;
-- with an aggregator by stack how often each came, instead.
local function unwound(file, machine, samples, see, native)
  local k, seen = sim.new { cpus = "0" }, {}
  k.files["/bin/app"] = file
  k.files["/proc/kallsyms"] = "ffffffff81000000 T entry\n"
  k:with(function()
    local s = perfev.session { duration = (#samples + 300) .. "ms", buffer = "1M" }
    s:event { type = 1, config = 0, sample_period = 1, callchain = true, sample_regs_user = machine.mask,
              sample_type = { "regs_user", "stack_user" }, sample_stack_user = 1024,
              sample = native or function(r)
                seen[#seen + 1] = (see or function(one) return one.stack:folded() end)(r)
              end }
    k:after(MS, function()
      k:ring(0):push { type = "comm", pid = 7, tid = 7, comm = "app", misc = 0x2000 }
      k:ring(0):push { type = "mmap2", pid = 7, tid = 7, addr = BASE, len = 0x2000, pgoff = 0x1000, maj = 8, min = 1,
                       ino = 1, ino_generation = 0, prot = 5, flags = 2, filename = "/bin/app" }
    end)
    for i, sample in ipairs(samples) do
      local t = { type = "sample", pid = 7, tid = 7, ip = sample[1].ip, callchain = {}, misc = 2,
                  regs_user = registers(machine, sample[1]) }
      t.stack_user = type(sample[2]) == "string" and sample[2] or string.pack("<" .. ("i8"):rep(#sample[2]),
        table.unpack(sample[2]))
      for name, value in pairs(sample.more or {}) do t[name] = value end
      k:after((i + 1) * MS, function() k:ring(0):push(t) end)
    end
    assert(s:run())
    if native then
      for stack, n in native:pairs() do seen[stack:folded()] = n end
    end
  end)
  return seen
end

local plain = program { ra = 16, rules = X86_RULES,
  "",                                      -- leaf: only the return address
  cfa_offset(0x18) .. saved(3, 2),         -- middle: keeps rbx
  cfa(3, 16),                              -- outer: its frame is found by rbx
  undefined(16) }                          -- start: has no caller

describe("a stack of registers and copied memory", function()
  -- leaf; rbx and a word of middle's; outer's words up to its frame
  local words = { at("middle", 0x20), 1, STACK + 0x28, at("outer", 0x30), 2, 3, at("start", 0x40) }

  it("is unwound by the rules of each function", function()
    assert.same({ "start;outer;middle;leaf" },
      unwound(plain, X86, { { { ip = at("leaf", 4), sp = STACK, bx = 5 }, words } }))
  end)

  it("is unwound alike when its rules are cached from an earlier stack", function()
    local by_rbx = "\x73\0" -- the return address as a value: rbx
    local file = program { ra = 16, rules = X86_RULES, "", false, cfa(3, 16) .. expression(VALUE, 16, by_rbx),
                           undefined(16) }
    -- leaf by offsets; middle without rule, by rbp; outer by an expression; start ends it.
    local function sample(stack, from, rbx)
      return { { ip = at("leaf", from), sp = stack, bp = stack + 16, bx = at("start", rbx) },
        { at("middle", 0x20), 1, 0, at("outer", 0x30) } }
    end
    local samples = {}
    for n = 1, 3 do samples[n] = sample(STACK + 64 * n, 4, 0x40) end
    assert.same({ "outer;middle;leaf", "outer;middle;leaf", "outer;middle;leaf" }, unwound(file, X86, samples))
    -- With rbx: its value is another one for each stack, and no rule of middle's drops it.
    file = program { ra = 16, rules = X86_RULES, "", "", expression(VALUE, 16, by_rbx), undefined(16) }
    for n = 1, 3 do samples[n] = sample(STACK + 64 * n, 4, 0x10 * n) end
    for n = 1, 3 do samples[n][2][2] = at("outer", 0x30) end
    assert.same({ 0x10, 0x20, 0x30 }, unwound(file, X86, samples, function(r)
      assert.equal("start;outer;middle;leaf", r.stack:folded())
      return r.stack[4].offset
    end))
    -- Other instructions of one function have other rules.
    file = program { ra = 16, rules = X86_RULES, "\x44" .. cfa_offset(16), "", "" }
    assert.same({ "outer;middle;leaf", "outer;middle;leaf", "outer;middle;leaf" }, unwound(file, X86, {
      { { ip = at("leaf", 3), sp = STACK }, { at("middle", 0x20), at("outer", 0x20) } },
      { { ip = at("leaf", 4), sp = STACK }, { 1, at("middle", 0x20), at("outer", 0x20) } },
      { { ip = at("leaf", 3), sp = STACK }, { at("middle", 0x20), at("outer", 0x20) } } }))
  end)

  it("follows the kernel's part, but not a user part that the kernel took", function()
    local regs = { ip = at("leaf", 4), sp = STACK }
    assert.same({ "start;outer;middle;leaf;entry", "start;middle" }, unwound(plain, X86, {
      { regs, words, more = { callchain = { KERNEL, 0xffffffff81000010 }, misc = 1 } },
      { regs, words, more = { callchain = { USER, at("middle", 1), at("start", 0x40) } } } }))
  end)

  it("is the same value as another stack of the same frames", function()
    local regs = { ip = at("leaf", 4), sp = STACK }
    assert.same({ 1, 1, 2 }, unwound(plain, X86, { { regs, words }, { regs, words }, { regs, { words[1] } } },
      function(r) return r.stack.id end))
  end)

  it("is a key of an aggregator like any other stack", function()
    local regs, nothing = { ip = at("leaf", 4), sp = STACK }, { ip = 0, sp = STACK }
    local samples = { { regs, words }, { nothing, words, more = { callchain = { KERNEL, 0xffffffff81000010 } } },
                      { regs, words }, { regs, { words[1] } } }
    local twin, all, user = {}, perfev.count { by = "stack" }, perfev.count { by = "ustack" }
    for _, folded in ipairs(unwound(plain, X86, samples)) do twin[folded] = (twin[folded] or 0) + 1 end
    assert.same({ ["start;outer;middle;leaf"] = 2, ["middle;leaf"] = 1, entry = 1 }, twin)
    assert.same(twin, unwound(plain, X86, samples, nil, all))
    assert.same({ ["start;outer;middle;leaf"] = 2, ["middle;leaf"] = 1, [""] = 1 },
      unwound(plain, X86, samples, nil, user))
    assert.same({}, all:uncounted())
  end)

  it("ends where the copied stack ends, at any length of the copy", function()
    local bytes = string.pack("<i8i8i8i8i8i8i8", table.unpack(words))
    local regs, samples, lengths = { ip = at("leaf", 4), sp = STACK }, {}, {}
    for n = 1, #bytes do samples[n] = { regs, bytes:sub(1, n) } end
    for n, frames_of in ipairs(unwound(plain, X86, samples, function(r) return #r.stack end)) do
      lengths[frames_of] = lengths[frames_of] or n
    end
    -- As soon as the address that is returned to is there.
    assert.same({ 1, 8, 32, 56 }, lengths)
  end)

  it("is empty for a thread without user registers", function()
    assert.same({ "" }, unwound(plain, X86, { { { ip = 0, abi = 0 }, words, more = { regs_user = { abi = 0 } } } }))
  end)

  it("is unwound by the frame pointer if there is no rule", function()
    local file = program { ra = 16, rules = X86_RULES, "", false, "", undefined(16) }
    -- leaf; middle keeps rbp at its frame; outer
    assert.same({ "start;outer;middle;leaf" }, unwound(file, X86, { { { ip = at("leaf", 4), sp = STACK,
      bp = STACK + 16 }, { at("middle", 0x20), 1, 0, at("outer", 0x30), at("start", 0x40) } } }))
    -- A pointer to no entry is ignored.
    assert.same({ "middle;leaf" }, unwound(file, X86, { { { ip = at("leaf", 4), sp = STACK,
      bp = STACK - 16 }, { at("middle", 0x20), 1, 0, at("outer", 0x30) } } }))
  end)

  it("is unwound by rules with expressions, jumps included", function()
    -- The frame: rsp + (rip & 15 >= 11 ? 8 : 0) + 8, as for the stubs that call libraries.
    local stub = "\x77\8\x80\0\x3f\x1a\x3b\x2a\x33\x24\x22"
    -- rbx is at the frame - 32, the jump's target; the address is 8 bytes below the place that rbx points to.
    local jumps = "\x30\x28\1\0\x96\x2f\1\0\x96\x9c\8\x20\x1c"
    local file = program { ra = 16, rules = X86_RULES, expression(CFA_EXPRESSION, #stub, stub):sub(1, 1)
      .. string.char(#stub) .. stub, expression(EXPRESSION, 3, jumps) .. cfa_offset(0x20),
      cfa(3, 0) .. expression(VALUE, 16, "\x73\x78\6"), undefined(16) }
    local stack = { 9, at("middle", 0x20), STACK + 0x40, 7, 8, at("outer", 0x30), 1, at("start", 0x40) }
    assert.same({ "start;outer;middle;leaf" },
      unwound(file, X86, { { { ip = at("leaf", 0xb), sp = STACK }, stack } }))
    table.remove(stack, 1)
    stack[2] = STACK + 0x38
    assert.same({ "start;outer;middle;leaf" },
      unwound(file, X86, { { { ip = at("leaf", 0xa), sp = STACK }, stack } }))
  end)

  it("continues below a signal at the interrupted instruction", function()
    -- back restores all from the kernel's frame on the stack: the address at rsp + 8, the stack pointer behind it.
    local restores = expression(EXPRESSION, 16, "\x77\8") .. expression(EXPRESSION, 7, "\x77\x10") .. cfa(7, 0)
    local file = program { ra = 16, rules = X86_RULES, "", "", "", undefined(16), "", "S" .. restores }
    local seen = unwound(file, X86, { { { ip = at("handler", 4), sp = STACK },
      { at("back", 0), 0, at("middle", 0), STACK + 0x20, at("start", 0x40) } } })
    assert.same({ "start;middle;back;handler" }, seen)
  end)

  it("ends at rules that lead outside, down or into a loop", function()
    local ops = { ["no operation"] = "\xff", ["nothing left"] = "\x13", ["round"] = "\x2f\xfd\xff",
                  ["too much"] = "\x77\0" .. ("\x12"):rep(70), ["a register that there is none of"] = "\x90\x7f",
                  ["the stack's own"] = "\x77\0\x96\x9f" }
    for what, bytes in pairs(ops) do
      local file = program { ra = 16, rules = X86_RULES, string.char(CFA_EXPRESSION, #bytes) .. bytes, "" }
      local seen = unwound(file, X86, { { { ip = at("leaf", 4), sp = STACK }, { at("middle", 0x20), 1 } } })
      assert.equal("leaf", seen[1], what)
    end
    local round = program { ra = 16, rules = X86_RULES, expression(VALUE, 16, "\x80\0") .. cfa(7, 0) }
    local seen = unwound(round, X86, { { { ip = at("leaf", 4), sp = STACK }, { 1 } } }, function(r) return #r.stack end)
    assert.is_true(seen[1] <= 4)
  end)

  it("keeps its innermost frame if the rules are damaged or another machine's", function()
    local good = frames { ra = 16, rules = X86_RULES, "", "", "" }
    local regs, stack = { ip = at("leaf", 4), sp = STACK }, { at("middle", 0x20), at("outer", 0x20) }
    for n = 0, #good - 1, 7 do
      local seen = unwound(program { eh_frame = good:sub(1, n) .. ("\xff"):rep(#good - n) }, X86, { { regs, stack } })
      assert.matches("leaf$", seen[1])
    end
    assert.same({ "leaf" }, unwound(program { machine = AARCH64, eh_frame = good }, X86, { { regs, stack } }))
    assert.same({ "leaf" }, unwound(elf.file { functions = { { "leaf", 0x1000, 0x100 } } }, X86, { { regs, stack } }))
  end)

  it("is unwound by the linker's search table, and without it when it is damaged", function()
    local rules, list = frames { ra = 16, rules = X86_RULES, "", "", "", undefined(16) }
    local regs = { ip = at("leaf", 4), sp = STACK }
    local stack = { at("middle", 0x20), at("outer", 0x20), at("start", 0x20) }
    local function by(eh_frame, eh_frame_hdr)
      return unwound(program { eh_frame = eh_frame, eh_frame_hdr = eh_frame_hdr }, X86, { { regs, stack } })[1]
    end
    local whole, header = "start;outer;middle;leaf", search_table(list)
    assert.equal(whole, by(rules, header))
    -- Behind an end mark the entries are found by the table only.
    local moved = {}
    for i, one in ipairs(list) do moved[i] = { one[1], one[2] + 4 } end
    assert.equal("leaf", by("\0\0\0\0" .. rules))
    assert.equal(whole, by("\0\0\0\0" .. rules, search_table(moved)))
    -- Not in order; beyond the section; too short; another encoding; no entries.
    for _, damaged in ipairs {
      search_table { list[2], list[1], list[3], list[4] }, search_table { { 0x1000, 1 << 20 } }, header:sub(1, -2),
      "\2" .. header:sub(2), header:sub(1, 3) .. "\x1b" .. header:sub(5), search_table {}, "\1" } do
      assert.equal(whole, by(rules, damaged))
    end
    -- A CIE, or another function's entry, is not the entry of leaf.
    assert.equal("leaf", by(rules, search_table { { 0x1000, 0 } }))
    assert.equal("leaf", by(rules, search_table { { 0x1000, list[2][2] } }))
  end)

  -- DW_CFA_offset_extended of a register of 32 bits; one of 70; rules laid aside, 4,096 times; others.
  it("needs little memory for huge operands, and ends at invalid rules", function()
    local regs, stack = { ip = at("leaf", 4), sp = STACK }, { at("middle", 0x20), at("outer", 0x20) }
    local function first(rules)
      local file = program { ra = 16, rules = X86_RULES, rules, "", "" }
      local before = tonumber(core.slurp("/proc/self/statm"):match "^%d+ (%d+)")
      local seen = unwound(file, X86, { { regs, stack } })
      assert.is_true(tonumber(core.slurp("/proc/self/statm"):match "^%d+ (%d+)") - before < 16384)
      return seen[1]
    end
    assert.equal("outer;middle;leaf", first("\x05\xff\xff\xff\xff\x0f\1" .. ("\x07\xff\xff\xff\x7f"):rep(100)))
    assert.equal("outer;middle;leaf", first("\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\1"))
    assert.equal("outer;middle;leaf", first(("\x0a"):rep(16) .. ("\x0b"):rep(16)))
    for _, rules in ipairs { ("\x0a"):rep(4096), "\x0b", "\x3c", "\x10\3\x7f", "\x0f\xff\xff\xff\xff\x0f" } do
      assert.equal("leaf", first(rules))
    end
  end)

  it("is unwound by rules that remember a state, and by the ABI's rules for other registers", function()
    -- Behind 0x10 bytes the frame is gone for a moment, behind 0x20 it is there again.
    local file = program { ra = 16, rules = X86_RULES,
      cfa_offset(0x18) .. "\x0a\x50" .. cfa_offset(8) .. "\x50\x0b", "", "" }
    local frame = { 7, 8, at("middle", 0x20), at("outer", 0x20) }
    assert.same({ "outer;middle;leaf", "outer;middle;leaf", "outer;middle;leaf" }, unwound(file, X86, {
      { { ip = at("leaf", 4), sp = STACK }, frame },
      { { ip = at("leaf", 0x14), sp = STACK + 16 }, { frame[3], frame[4] } },
      { { ip = at("leaf", 0x24), sp = STACK }, frame } }))
    -- A register kept in another register: leaf's return address is in rbx, which middle lacks.
    local moved = program { ra = 16, rules = X86_RULES, "\x09\16\3" .. cfa_offset(0), "", "" }
    assert.same({ "outer;middle;leaf" }, unwound(moved, X86, { { { ip = at("leaf", 4), sp = STACK,
      bx = at("middle", 0x20) }, { at("outer", 0x20) } } }))
  end)

  it("reports missing and invalid rules once for each file", function()
    local regs, stack = { ip = at("leaf", 4), sp = STACK }, { at("middle", 0x20), at("outer", 0x20) }
    local nowhere = program { ra = 16, rules = X86_RULES, string.char(CFA_EXPRESSION, 1) .. "\xff", "" }
    local notes
    perfev.symbol.log = function(level, text) notes[#notes + 1] = level .. " " .. text end
    finally(function() perfev.symbol.log = nil end)
    for said, file in pairs { ["1 /bin/app: stacks end there: its unwind tables are damaged"] = nowhere,
      ["1 /bin/app: unwinding falls back to frame pointers: it has no readable unwind tables"]
        = elf.file { functions = { { "leaf", 0x1000, 0x100 } } },
      ["1 /bin/app: unwinding falls back to frame pointers: the file that ran is not on this machine"] = "" } do
      notes = {}
      unwound(file, X86, { { regs, stack }, { regs, stack } })
      assert.same({ said }, notes)
      assert.same({}, perfev.symbol.notes())
    end
    notes = {}
    unwound(plain, X86, { { regs, stack } })
    assert.same({}, notes)
  end)

  it("is unwound on arm64 by the link register and past signed addresses", function()
    local file = program { machine = AARCH64, ra = 30, rules = cfa(31, 0),
      "",                                              -- leaf: lr has it
      cfa_offset(0x20) .. saved(29, 4) .. saved(30, 3),
      cfa_offset(0x10) .. saved(29, 2) .. saved(30, 1),
      undefined(30) }
    local signed = 0x2a << 48
    assert.same({ "start;outer;middle;leaf" }, unwound(file, ARM, { { { ip = at("leaf", 4), sp = STACK,
      lr = at("middle", 0x20) }, { 1, at("outer", 0x30) | signed, 3, 4, 5, at("start", 0x40) } } }))
  end)
end)

describe("an event with callchain", function()
  local function attr(spec) return assert(event.build(event.declare(spec, 1))).attr end

  it("= \"dwarf\" requests the same as perf record --call-graph dwarf", function()
    for words, bytes in pairs { dwarf = 8192, ["dwarf,16384"] = 16384, ["dwarf,100"] = 104 } do
      local asked = attr { "cpu-clock", callchain = words }
      assert.equal(1 << 5 | 1 << 12 | 1 << 13, asked.sample_type & (1 << 5 | 1 << 12 | 1 << 13))
      assert.equal(core.machine == "aarch64" and ARM.mask or X86.mask, asked.sample_regs_user)
      assert.equal(bytes, asked.sample_stack_user)
      assert.is_true(asked.exclude_callchain_user)
    end
  end)

  it("does not change the fields that are set beside it", function()
    local asked = attr { "cpu-clock", callchain = "dwarf", sample_stack_user = 64, exclude_callchain_user = false,
                         sample_type = { "addr" } }
    assert.equal(64, asked.sample_stack_user)
    assert.is_false(asked.exclude_callchain_user)
    assert.equal(1 << 3, asked.sample_type & 1 << 3)
    assert.equal(0, attr({ "cpu-clock", callchain = "fp" }).sample_type & (1 << 12 | 1 << 13))
    assert.equal(1 << 11, attr({ "cycles", callchain = "lbr" }).sample_type & 1 << 11)
  end)

  it("refuses an unknown kind and an invalid size", function()
    for words, why in pairs {
      drawf = "not 'drawf'", ["dwarf,"] = "unknown call chain", ["dwarf,0"] = "8 to 65528 bytes",
                              ["dwarf,65536"] = "8 to 65528 bytes", ["fp,64"] = "fp has no stack size",
                              ["dwarf;8"] = "unknown call chain" } do
      local ok, message = pcall(perfev.event, { "cpu-clock", callchain = words })
      assert.is_false(ok)
      assert.is_true(message:find(why, 1, true) ~= nil, message)
      assert.matches("\n  try: fp, dwarf, dwarf,BYTES, lbr or defer$", message)
    end
    local _, message = pcall(perfev.event, { "cpu-clock", callchain = 3 })
    assert.matches("callchain must be true or a string", message)
  end)
end)
