--- Finds the function at an address of the kernel, of a process or of a file.
-- A world is this machine, or the machine of a recording. It reads a file when the first name in it
-- is needed, and keeps the symbols, by path and build-id; nothing is looked up per record. The
-- symbol tables are in C (perfev.symtab, which is loaded on first use, and core.kallsyms).

local lazy = require "perfev.base.lazy_module"
local build_id = require "perfev.symbol.build_id"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local rights = lazy "perfev.base.host_rights"
local files = require "perfev.symbol.files"
local hex = require "perfev.base.hex"
local jit_dump = require "perfev.symbol.jit_dump"
local perf_map = require "perfev.symbol.perf_map"
local open_files = require "perfev.symbol.open_files"
local kernel_file = require "perfev.symbol.kernel"
local native = require "perfev.base.native_module"
local options = require "perfev.base.options"
local saved_names = require "perfev.symbol.saved_names"

local M = { _lines = false, _changes = 0 }
local World = {}
World.__index = World

local E = core.errno
local NONE = {} -- a file without symbols that can be read
local GONE = {} -- a file that was not found

-- Returns perfev.symtab, or nil and the reason.
local function load_symtab()
  local symtab, why, remedy = native "perfev.symtab"
  if symtab then return symtab end
  return nil, remedy and ("%s\n  try: %s"):format(why, remedy) or why
end

-- Log a text once.
local function log(self, level, text)
  if self.logged[text] then return end
  self.logged[text] = true
  if level == 0 then self.notes[#self.notes + 1] = text end
  local to = self.log or M.log -- the recording's, or the one of this machine
  if to then to(level, text) end
end

local function make_logger(self)
  return function(text) log(self, 0, text) end
end

-- Which byte of a return address is looked up is explained at pev_symtab_find_frame() in src/symbol/symtab.h.

-- ---- names kept in the recording ----

-- Returns the names that the recording keeps (perfev.symbol.saved_names), or nil.
local function saved(self)
  if self.saved == nil then
    local text = self.saved_text and self.saved_text()
    self.saved = text and saved_names.parse(text) or false
  end
  return self.saved or nil
end

-- ---- the kernel ----

local function explain_no_kallsyms(what, code)
  if code ~= E.EACCES then return what end
  local name, value, settings, root_sees = rights.why_symbols_are_hidden()
  return ("the kernel's functions have no names: /proc/kallsyms hides their addresses%s\n  try: %ssysctl %s"):format(
    value and (" (kernel.%s is %d)"):format(name, value) or "", root_sees and "as root, or " or "sudo ", settings)
end

-- The file that the user named.
local function named_kernel(self, id)
  local symbols, why = kernel_file.read(kernel_file.path, id)
  if symbols and symbols.is_vmlinux and not self.recording then
    symbols, why = nil, "only /proc/kallsyms has the addresses of a running kernel, not its vmlinux"
  end
  if not symbols then log(self, 0, ("the kernel's functions have no names: %s: %s"):format(kernel_file.path, why)) end
  return symbols
end

local function running_kernel(self)
  if kernel_file.path then return named_kernel(self) end
  local symbols, what, code = core.kallsyms()
  if not symbols then log(self, 0, explain_no_kallsyms(what, code)) end
  return symbols
end

-- Yields path and pgoff of each kernel map of a recording, 1000 at most.
local function each_kernel_map(self)
  local n = 0
  return function()
    n = n + 1
    if self.kernel_maps then return table.unpack(self.kernel_maps[n] or {}) end
    local path, _, pgoff = self.recording:kernel_map(n)
    if n <= 1000 then return path, pgoff end
  end
end

-- The recorded kernel's address less the running one's: both may have moved at boot.
local function find_shift(self, symbols)
  for path, pgoff in each_kernel_map(self) do
    local name = path:match("^%[kernel%.kallsyms%](.+)$")
    local here = name and symbols:address(name)
    if here and pgoff ~= 0 then return pgoff - here end
  end
  return 0
end

-- Of a recording: the file that the user named, a copy beside it (perf record --kcore), below symfs, or kept by perf.
local function foreign_kernel(self, wanted)
  if kernel_file.path then return named_kernel(self, wanted) end
  local beside = self.path and kernel_file.read(self.path .. "/kcore_dir/kallsyms", nil, {})
  if beside then return beside end
  local below = files.symfs and kernel_file.below(files.symfs, self.osrelease, wanted, make_logger(self))
  if below then return below end
  local kept = wanted and files.home("[kernel.kallsyms]/" .. wanted .. "/kallsyms")
  local symbols = kept and kernel_file.read(kept, wanted, { owners = files.owners() })
  return symbols and (symbols:address("_text") or symbols:address("_stext")) and symbols
end

-- -> true if the kernel of a recording runs here, the release that runs
local function is_running(self, wanted)
  local here = (core.slurp("/proc/sys/kernel/osrelease") or ""):match("%S+")
  return wanted and wanted == build_id.of_kernel() or not wanted and self.osrelease == here, here
end

-- Explains why the running kernel's names do not fit the recording, with a remedy.
local function explain_kernel(self, wanted, here)
  if not wanted and not self.osrelease then
    return "the recording does not name its kernel; it is this one if it was recorded here since boot\n"
      .. "  try: --kallsyms /proc/kallsyms"
  end
  local release = self.osrelease
  local of = not release and "another kernel, by its build-id"
    or release == here and ("another build of %s, by its build-id"):format(release) or release
  return ("the recording is from %s, this kernel is %s\n"
    .. "  try: --kallsyms FILE, with a copy of its /proc/kallsyms, or its vmlinux"):format(of, here or "unknown")
end

-- The kernel of a recording, or this one if it is the same.
local function recorded_kernel(self)
  local wanted = self.build_ids["[kernel.kallsyms]"]
  local symbols = foreign_kernel(self, wanted)
  if symbols then
    self.shift = find_shift(self, symbols)
    return symbols
  end
  if kernel_file.path then return nil end
  local same, here = is_running(self, wanted)
  if not same then
    log(self, 0, "the kernel's functions have no names: " .. explain_kernel(self, wanted, here))
    return nil
  end
  symbols = running_kernel(self)
  self.shift = symbols and find_shift(self, symbols) or 0
  return symbols
end

local function kallsyms(self)
  if self.kernel == nil then
    self.kernel = core.unlimited(self.recording and recorded_kernel or running_kernel, self) or false
  end
  return self.kernel
end

-- "[kernel.kallsyms]_text" -> "[kernel]"; "/lib/modules/6.1/x/y_z.ko.xz" -> "[y_z]"
local function kernel_module(path)
  if not path or path:find("^%[kernel") then return "[kernel]" end
  local name = path:match("([^/]+)%.ko") or path:match("^%[(.+)%]$")
  return name and "[" .. name:gsub("-", "_") .. "]" or path
end

-- Code of a KSYMBOL record, by PERF_RECORD_KSYMBOL_TYPE_*, that belongs to no module. Out of line (ool) is code that
-- kprobes and ftrace copied and rewrote; TEXT_POKE records have its bytes, which are not used here.
local made_by_kernel = { "[bpf]", "[ool]" }

-- Fills in symbol, offset and module of a frame in the kernel.
local function name_kernel(self, frame, raw)
  if raw.ksymbol then
    frame.symbol, frame.offset, frame.module = raw.path, raw.offset, made_by_kernel[raw.ksymbol] or "[kernel]"
    return
  end
  frame.module = kernel_module(raw.path)
  local kept = not kernel_file.path and saved(self)
  if kept and kept:has_kernel() then
    local name, start, module = kept:kernel(raw)
    if name then frame.symbol, frame.offset, frame.module = name, raw.ip - start, module or frame.module end
    return
  end
  local symbols = kallsyms(self)
  if not symbols then return end
  local address = raw.ip - self.shift
  local name, start, module = symbols:find(address)
  if raw.returns and start ~= address then name, start, module = symbols:find(address - 1) end
  -- The modules of a kernel that moved were at other, unknown addresses.
  if not name or self.shift ~= 0 and (module or frame.module ~= "[kernel]") then return end
  frame.symbol, frame.offset = name, address - start
  if module then frame.module = "[" .. module .. "]" end
end

-- ---- files ----

local function load_file(self, raw, id, kept)
  local symtab, why = load_symtab()
  if not symtab then
    log(self, 0, "programs' functions have no names: " .. why)
    return NONE
  end
  local own = saved(self)
  local has_names = own and own:has_file(raw.path, id)
  local function note(text) log(self, has_names and 1 or 0, text) end
  local symbols, place = files.open(symtab, self, raw, id, note, kept)
  if not symbols then return place and GONE or NONE end
  local facts = symbols:facts()
  local file = { symbols = symbols, place = place, names = {} }
  -- A file that was stripped has fewer names than the recording keeps.
  if has_names and not facts.symtab then symbols:set_partial() end
  if not facts.symtab then
    local added, debug = files.find_debug(symtab, facts, place, make_logger(self), function(image)
      return symbols:add(image)
    end)
    if added then file.debug = debug end
  end
  file.bytes, file.used = symbols:facts().bytes, 0
  return file
end

-- A 32-bit process on a 64-bit kernel has a vdso of its own, which is read from its memory. Unwinding passes no
-- address and is for 64-bit processes only.
local VDSO_32, VDSO_MOST = "[vdso32]", 64 << 10

local function is_vdso_32(raw) return raw.path == "[vdso]" and raw.ip > 0 and raw.ip < 1 << 32 end

local function load_vdso_32(self, raw)
  local symtab = load_symtab()
  local bytes = not self.recording and core.part(("/proc/%d/mem"):format(raw.pid), raw.ip - raw.offset, VDSO_MOST)
  local file = symtab and bytes and symtab.read(bytes)
  return file and { symbols = file, is_vdso = true, names = {} } or NONE
end

-- Tries again until it succeeds once.
local function vdso_32(self, raw)
  local file = self.files[VDSO_32] or load_vdso_32(self, raw)
  if file ~= NONE then self.files[VDSO_32] = file end
  return file
end

local function load_vdso(self, id)
  local symtab = load_symtab()
  local bytes = symtab and symtab.vdso()
  local file = bytes and symtab.read(bytes)
  local there = file and file:facts().build_id
  -- The vdso belongs to its kernel; not every recorder writes its build-id.
  local same = not self.recording or id and there and hex.of(there) == id
    or not id and is_running(self, self.build_ids["[kernel.kallsyms]"])
  if not file or not same then return NONE end
  return { symbols = file, is_vdso = true, names = {} }
end

local function make_key(raw, which)
  return ("%s\0%s\0%s\0%s"):format(raw.path, which, files.symfs or "", files.servers)
end

local function load(self, raw, id, kept)
  return raw.path == "[vdso]" and load_vdso(self, id) or load_file(self, raw, id, kept)
end

local function find_build_id(self, raw) return raw.build_id and hex.of(raw.build_id) or self.build_ids[raw.path] end

local function make_file_key(self, raw, id)
  if id or self.recording then return make_key(raw, id or "") end
  if raw.ino then return make_key(raw, ("%d:%d:%d"):format(raw.dev, raw.ino, raw.generation)) end
  return make_key(raw, files.other_root(raw.pid) or "")
end

-- A file that was read so often keeps its symbols: stacks across many files would have them read for each frame.
local READS_MAX = 3

-- Finds the file whose symbols were used longest ago, and can be read again; never `newest`. Returns it and its key.
local function find_unused(self, newest)
  local found, of
  for key, file in pairs(self.files) do
    if file.bytes and file ~= newest and file.place.replaceable and self.reads[key] < READS_MAX
      and (not found or file.used < found.used) then
      found, of = file, key
    end
  end
  return found, of
end

-- Counts that a file's symbols were read, and frees those of others that do not fit beside them in half of max_bytes.
local function count_read(self, newest, newest_key)
  local most, bytes = self.max_bytes or options.MAX_BYTES // 2, 0
  self.reads[newest_key] = (self.reads[newest_key] or 0) + 1
  for _, file in pairs(self.files) do bytes = bytes + (file.bytes or 0) end
  while bytes > most do
    local file, key = find_unused(self, newest)
    if not file then return end
    bytes = bytes - file.bytes
    file.symbols:close()
    self.files[key] = nil
    log(self, 1, ("%s: its symbols are freed, and read again if needed: max_bytes is used up"):format(
      escape(file.place.path)))
  end
end

-- The mapped file of a frame, or NONE or GONE. A failure is remembered for the process: another process that maps the
-- file may lead to it.
local function find_file(self, raw)
  if is_vdso_32(raw) then return vdso_32(self, raw) end
  local id = find_build_id(self, raw)
  local key = make_file_key(self, raw, id)
  local file = self.files[key]
  if file then return file end
  local of_process, kept = self.recording and key or ("%s\0%d"):format(key, raw.pid), self.kept[key]
  file = not kept and self.files[of_process]
  if not file then
    file = core.unlimited(load, self, raw, id, kept)
    self.files[(file.symbols or kept) and key or of_process] = file
    if file.bytes then count_read(self, file, key) end
  end
  return file
end

local READ_AT_ONCE = 32 << 20 -- bytes; samples wait while a file is read

--- Open the file, or the perf-PID.map, that names the functions of a sampled dso, and keep it open: its process may be
-- gone when the names are looked up.
-- @tparam table raw  from core.session's sampled()
-- @tparam table list  the files that are kept (perfev.symbol.open_files); it has to live until names are looked up
-- @tparam function parent_of  pid -> the parent's pid, or nil
-- @treturn boolean   false if it could not be opened
function World:keep(raw, list, parent_of)
  if files.symfs then return true end
  local key, place
  if raw.memory then
    key = perf_map.key(raw.pid)
    place = perf_map.open(self.jits, raw.pid, make_logger(self))
  else
    local id = find_build_id(self, raw)
    key = make_file_key(self, raw, id)
    if raw.path:sub(1, 1) ~= "/" or self.files[key] then return true end
    place = files.find_mapped(self, raw, id, parent_of)
  end
  if not place then return false end
  place.raw, place.key = raw, key
  self.kept[key] = place
  local out = open_files.put(list, place)
  if not out then return true end
  -- The evicted file cannot be opened again: read its symbols now.
  if not (out.replaceable or out.raw.memory) and out.file:stat().size <= READ_AT_ONCE then find_file(self, out.raw) end
  if self.kept[out.key] == out then self.kept[out.key] = nil end
  out.file:close()
  return true
end

-- Functions at an address, the innermost inlined one first: { symbol, file, line }.
local function find_lines(self, file, address)
  if not file.lines then
    file.lines = {}
    files.read_dwarf(load_symtab(), file.symbols, file.place, file.debug ~= nil, make_logger(self))
  end
  local list = file.lines[address]
  if not list then
    list = file.symbols:lines(address)
    for _, place in ipairs(list) do place.symbol = place.symbol and load_symtab().demangle(place.symbol) end
    file.lines[address] = list
  end
  return list
end

-- Demangles the name of the function at an address of a file.
local function demangle(file, name, start)
  local text = file.names[start]
  if not text then
    text = load_symtab().demangle(name)
    file.names[start] = text
  end
  return text
end

--- The source lines of an address of a file, as `find_lines` returns them.
function World:lines(file, address) return find_lines(self, file, address) end

--- The name and the start of the function at the linker's address in a file; nil if it is unknown.
function World.name_in_file(_, file, address)
  local name, start = file.symbols:find(address)
  if name then return demangle(file, name, start), start end
end

-- ---- one frame ----

-- Files of short-lived processes may be gone before the first sample is delivered; M.gone() reports how many.
local function count_gone(self, path)
  local gone = self.gone
  gone.frames = gone.frames + 1
  if gone.of[path] then return end
  gone.of[path], gone.files, gone.first = true, gone.files + 1, gone.first or path
end

local function wants_lines(self) return M._lines or self.wants_lines end

local function name_saved(own, frame, raw, id)
  local name, start = own:file(raw, id)
  if name then frame.symbol, frame.offset = name, raw.offset - start end
end

-- The newest function at an address in memory -> name, start, file, offset of its lines
local function find_in_memory(self, raw, address, own, note)
  local name, start, path, lines, of_map
  if own then name, start, path = own:memory(raw) end
  if path then return name, start, path end
  name, start, path, lines = jit_dump.find(self.dumps, raw.pid, address, note)
  if name then return name, start, path, lines end
  name, start, of_map = perf_map.find(self.jits, raw.pid, address, note, self.kept[perf_map.key(raw.pid)])
  return name, start, name and of_map or path or of_map
end

-- Names a frame in code of a JIT compiler. raw.jit: C found the function that was there at the sample's time.
local function name_memory(self, frame, raw, own, has_lines)
  local note, address = make_logger(self), raw.ip - (raw.returns and 1 or 0)
  local name, start, path, lines
  if raw.jit then
    name, start, path, lines = raw.path, raw.ip - raw.offset, jit_dump.path(self.dumps, raw.pid) or "[jit]",
      raw.jit_lines
  else
    name, start, path, lines = find_in_memory(self, raw, address, own, note)
  end
  frame.module = path or raw.path
  frame.symbol, frame.offset = name, name and raw.ip - start
  local line = has_lines and lines and jit_dump.line(self.dumps, raw.pid, lines, address - start, note)
  return line and { line } or nil, name ~= nil
end

-- -> the functions inlined there, if lines are on; false if a later look-up may have another result; the symbols that
-- alone decide the name. only_lines: the lines are wanted in any case, and the name is not shown
local function name_user(self, frame, raw, only_lines)
  frame.module = raw.path or "[unknown]"
  if not raw.path then return nil, true end
  local own, has_lines = saved(self), only_lines or wants_lines(self)
  if raw.memory then return name_memory(self, frame, raw, own, M._lines) end
  local id = own and find_build_id(self, raw)
  own = own and own:has_file(raw.path, id) and own or nil
  -- Without a build-id, the file at the path may be another one.
  if own and not id and not files.symfs then
    name_saved(own, frame, raw, id)
    return has_lines and own:lines(raw, id) or nil, true
  end
  local file = find_file(self, raw)
  if file == GONE and not self.recording then
    if not only_lines then count_gone(self, raw.path) end
    return nil, false
  end
  if not file.symbols then
    if own then name_saved(own, frame, raw, id) end
    return own and has_lines and own:lines(raw, id) or nil, true
  end
  self.uses = self.uses + 1
  file.used = self.uses
  local address, call, name, start = file.symbols:find_frame(raw.offset, raw.returns, raw.unwound)
  if name then
    frame.symbol, frame.offset = demangle(file, name, start), address - start
  elseif own then
    name_saved(own, frame, raw, id)
  end
  if file.is_vdso then return nil, true end
  if has_lines then
    local lines = address and find_lines(self, file, call)
    return (not lines or #lines == 0) and own and own:lines(raw, id) or lines, true
  end
  return nil, true, file.symbols
end

-- The header is read when the first name is needed: in a pipe it arrives between records.
local function read_header(self)
  local header, ids = self.header(), self.build_ids
  self.header, self.osrelease = nil, header.osrelease
  for _, one in ipairs(header.build_ids or {}) do ids[one.filename] = ids[one.filename] or one.build_id end
end

--- Keeps the data for names before the recording is closed.
function World:settle()
  if self.header then read_header(self) end
  local maps = {}
  for path, pgoff in each_kernel_map(self) do maps[#maps + 1] = { path, pgoff } end
  self.kernel_maps = maps
  saved(self)
end

local function make_frame(self, raw)
  if self.header then read_header(self) end
  local frame, lines, is_final, symbols = { ip = raw.ip, kernel = raw.context == "kernel" }, nil, true, nil
  if frame.kernel then
    name_kernel(self, frame, raw)
  elseif raw.context == "user" then
    lines, is_final, symbols = name_user(self, frame, raw)
  else
    frame.module = "[guest]"
  end
  if self.on_frame then self.on_frame(raw, frame, raw.path and find_build_id(self, raw), lines) end
  return frame, lines, is_final, symbols
end

--- The file of a frame, with its `symbols` and its `place`, and the linker's address of the frame.
-- @treturn[1] table
-- @treturn[1] integer
-- @treturn[2] nil      the frame is in the kernel or in memory, or the file cannot be read
function World:file_of(raw)
  if self.header then read_header(self) end
  if raw.context ~= "user" or not raw.path or raw.memory then return nil end
  local file = find_file(self, raw)
  if not file.place then return nil end
  return file, (file.symbols:find_frame(raw.offset, raw.returns, raw.unwound))
end

--- The source line of a frame, of the innermost function that is inlined there.
-- @treturn ?table  `file`, `line`
function World:line(raw)
  if self.header then read_header(self) end
  if raw.context ~= "user" then return nil end
  local lines
  if raw.memory then
    lines = name_memory(self, {}, raw, saved(self), true)
  else
    lines = name_user(self, {}, raw, true)
  end
  return lines and lines[1]
end

--- The code of a JIT compiler's function, as jit_dump.code() returns it.
function World:jit_code(raw) return jit_dump.code(self.dumps, raw.pid, raw.jit_load or 0, make_logger(self)) end

--- The unwind rules of a file.
-- @tparam table raw  a frame in it, as from core.stack_frames()
-- @treturn[1] userdata  perfev.cfi
-- @treturn[2] nil       the file has no rules, or is missing
function World:cfi(raw)
  if self.header then read_header(self) end
  local file = find_file(self, raw)
  local there, cfi = pcall(require, "perfev.cfi")
  if not there then return nil end
  local rules, why
  if file.is_vdso then
    rules, why = cfi.read(load_symtab().vdso())
  elseif file.place then
    rules, why = files.read(file.place, cfi.read)
  end
  if not rules and not why then why = "the file that ran is not on this machine" end
  if not rules then
    log(self, 1, ("%s: unwinding falls back to frame pointers: %s"):format(escape(raw.path), why))
  end
  return rules
end

--- Reports that a rule of a file is damaged.
function World:broken(raw)
  log(self, 1, ("%s: stacks end there: its unwind tables are damaged"):format(escape(raw.path)))
end

--- Reads the dump of a JIT compiler that C wants.
-- @tparam userdata dump  core.jit_dump
function World:read_jit_dump(dump)
  if self.header then read_header(self) end
  jit_dump.read(self.dumps, dump, function()
    local own = saved(self)
    return own and own:fill_jit_dump(dump)
  end, make_logger(self))
end

--- The symbol of a frame from core.stack_frames().
-- @treturn table  `ip`, `module`, `symbol` and `offset` (bytes into it; both nil if unknown), `kernel`
function World:frame(raw)
  return (make_frame(self, raw))
end

--- Appends the frame to a list; if lines are on, the functions inlined there come before it.
-- @treturn boolean    false if a later look-up may have another result
-- @treturn ?userdata  the symbols of its file, if they alone decide the name of each frame in it
function World:add_frames(list, raw)
  local frame, lines, is_final, symbols = make_frame(self, raw)
  for i = 1, lines and #lines - 1 or 0 do
    list[#list + 1] = {
      ip = raw.ip, kernel = false, module = frame.module, symbol = lines[i].symbol, file = lines[i].file,
      line = lines[i].line, inlined = true,
    }
  end
  local last = lines and lines[#lines]
  if last then frame.file, frame.line = last.file, last.line end
  list[#list + 1] = frame
  return is_final, symbols
end

local function new_world(fields)
  fields.files, fields.notes, fields.logged, fields.shift = {}, {}, {}, 0
  fields.reads, fields.uses = {}, 0 -- how often the symbols of each file were read; look-ups so far
  fields.jits, fields.dumps = perf_map.new(fields.recording ~= nil), jit_dump.new(fields.recording ~= nil)
  fields.build_ids = fields.build_ids or {}
  fields.kept = setmetatable({}, { __mode = "v" }) -- key -> place; owned by sessions' lists
  fields.gone = { frames = 0, files = 0, of = {} }
  return setmetatable(fields, World)
end

--- The world of a recording.
-- @tparam table opts `recording` (core.reader), `path` (its own), `header` (gives its features), `log` (f(level, text):
--   level 0 for problems, 1 for details), `saved_text` (gives the names that it keeps, or nil)
function M._recorded(opts)
  return new_world {
    recording = opts.recording, path = opts.path, header = opts.header, log = opts.log, saved_text = opts.saved_text,
  }
end

-- ---- this machine ----

local here = setmetatable({}, { __mode = "k" }) -- hooks in force -> world
local LINUX = {}

--- The world of this machine, or of the hooks in force.
function M._here()
  local key = core.hooked() or LINUX
  here[key] = here[key] or new_world {}
  return here[key]
end

local function check_address(name, value)
  if math.type(value) == "integer" then return end
  error(("%s: an address is an integer, not a %s"):format(name, type(value)), 3)
end

local function shown(frame)
  if frame.symbol then return frame.symbol, frame.offset, frame.module end
  return nil, nil, frame.module
end

--- The kernel's function at an address.
-- @treturn[1] string   its name
-- @treturn[1] integer  bytes from its start
-- @treturn[1] string   "[kernel]", "[MODULE]", "[bpf]" or "[ool]"
-- @treturn[2] nil      no name is known
function M.kernel(address)
  check_address("kernel", address)
  return shown(M._here():frame { ip = address, context = "kernel" })
end

--- The function at an address of a running process.
-- @treturn[1] string   its name
-- @treturn[1] integer  bytes from its start
-- @treturn[1] string   the file that is mapped there
-- @treturn[2] nil      no name is known
-- @treturn[2] nil
-- @treturn[2] string   the file that is mapped there, "[unknown]" if there is none
function M.process(pid, address)
  if math.type(pid) ~= "integer" then error(("process: a pid is an integer, not a %s"):format(type(pid)), 2) end
  check_address("process", address)
  return shown(M._here():frame(core.map_at(pid, address)))
end

--- The function at a byte of a file.
-- @treturn[1] string   its name
-- @treturn[1] integer  bytes from its start
-- @treturn[2] nil      no name is known
function M.file(path, offset)
  if type(path) ~= "string" then error(("file: a path is a string, not a %s"):format(type(path)), 2) end
  check_address("file", offset)
  local raw = { ip = offset, offset = offset, path = path, pid = 0, context = "user" }
  local symbol, into = shown(M._here():frame(raw))
  return symbol, into
end

--- Turns source lines on or off (false): frames have `file` and `line`, and inlined functions are frames of their own
-- (`inlined`). Reading DWARF takes time and memory, so it is off by default.
function M.source(on)
  M._lines = on ~= false
  M._changes = M._changes + 1
end

local function check_directory(dir)
  if dir == nil or type(dir) == "string" and dir ~= "" then return end
  error(("symfs: a directory's path, or nil, not %s"):format(type(dir) == "string" and "''" or "a " .. type(dir)), 3)
end

--- Searches programs, libraries and debug files below this directory only; nil: where they are on this machine.
function M.symfs(dir)
  check_directory(dir)
  files.symfs = dir and dir:gsub("/+$", "") or nil
  M._changes = M._changes + 1
end

--- Reads the kernel's functions from this file, a copy of /proc/kallsyms or, for recordings, a vmlinux; nil: from the
-- running kernel, and from files below symfs.
function M.kallsyms(path)
  if path ~= nil and type(path) ~= "string" then error("kallsyms: a path, or nil, not a " .. type(path), 2) end
  kernel_file.path = path
  M._changes = M._changes + 1
end

--- Turns on, or off (false), asking the servers in DEBUGINFOD_URLS for missing programs and debug files.
function M.debuginfod(on)
  files.servers = on ~= false
  files.forget()
  M._changes = M._changes + 1
end

--- A sentence with the number of frames without names because their files were gone, or nil.
function M.gone()
  local gone = M._here().gone
  if gone.frames == 0 then return nil end
  local path, others = escape(gone.first), gone.files - 1
  return ("%d frame%s no name: %s gone before %s could be read"):format(gone.frames,
    gone.frames == 1 and " has" or "s have",
    others == 0 and path .. " was" or ("%s and %d more file%s were"):format(path, others, others == 1 and "" or "s"),
    others == 0 and "it" or "they")
end

--- The reasons why names are missing so far, a sentence each.
function M.notes() return table.move(M._here().notes, 1, #M._here().notes, 1, {}) end

return M
