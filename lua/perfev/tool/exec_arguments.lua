--- The arguments of a program: from its stack in a sample of sched_process_exec, or from /proc, which an early event
-- reads.

local core = require "perfev.core"
local early_facts = require "perfev.live.early_facts"
local escape = require "perfev.base.escape"
local session = require "perfev.live.session"

local M = {}

local STACK_BYTES = 8192 -- to copy: the pointers, also of the environment, and the strings above them
local TEXT_BYTES = 1024 -- to show
local TRIES = 20

local has_sp = core.machine:find "^x86_64" or core.machine:find "^aarch64" or core.machine:find "^riscv64"

-- Reads the arguments and the name of a process; nil: it has ended.
local function read_process(pid)
  local path = ("/proc/%d/cmdline"):format(pid)
  local line = core.slurp(path)
  for _ = 1, TRIES do -- the record of an exec is written before the stack is (begin_new_exec(), fs/exec.c)
    if line ~= "" then break end
    line = core.slurp(path)
  end
  local comm = line and line ~= "" and core.slurp(("/proc/%d/comm"):format(pid))
  if not comm then return nil end
  local words = {}
  for word in line:gmatch "([^%z]*)%z" do words[#words + 1] = word end
  return { words = words, comm = comm:gsub("\n$", "") }
end

local take_early -- f(tid, time) -> the result of read_process(), early

--- Makes a declaration of sched:sched_process_exec copy the stack, on machines whose stack pointer is known, and
-- declares an early event that reads /proc.
-- @tparam table spec  of perfev.event
-- @treturn table      spec
function M.with_stack(spec)
  take_early = early_facts({ "sched:sched_process_exec" }, function(r) return read_process(r.pid) end)
  if has_sp then
    spec.sample_type = { "raw", "regs_user", "stack_user" }
    spec.sample_regs_user, spec.sample_stack_user = { "sp" }, STACK_BYTES
  end
  return spec
end

--- Reads the arguments from a copy of the stack: argc, the addresses of the arguments, and above them the strings
-- (create_elf_tables(), fs/binfmt_elf.c). The copy ends at the first untouched page, which may be below the strings.
-- @treturn ?{string,...}  nil: the copy lacks some
function M.on_stack(r)
  local stack, regs = r.stack_user, r.regs_user
  local sp, word = regs and regs.sp, regs and regs.abi == 1 and "I4" or "I8" -- PERF_SAMPLE_REGS_ABI_32
  local size = string.packsize(word)
  if not sp or not stack or #stack < size then return nil end
  local words, nr = {}, string.unpack(word, stack)
  if nr < 1 then return nil end
  for i = 1, nr do
    local at = #stack >= (i + 1) * size and string.unpack(word, stack, i * size + 1) - sp
    words[i] = at and at >= 0 and at < #stack and stack:match("^([^%z]*)%z", at + 1) or nil
    if not words[i] then return nil end
  end
  return words
end

--- Returns the arguments that /proc had when the record was read from the ring, or has now.
-- @treturn ?{string,...}  nil: the process had ended, or its name is no longer that of the record
function M.of_process(r)
  if session.default().opts.input then return nil end
  local early = take_early and take_early(r.tid, r.time)
  local process = early and early.comm == r.comm and early or read_process(r.pid)
  return process and process.comm == r.comm and process.words or nil
end

--- Returns the arguments as one line: escaped, empty words and words with blanks in quotes, "..." after 1024 bytes.
function M.text(words)
  local shown, bytes = {}, 0
  for i, word in ipairs(words) do
    bytes = bytes + #word + 1
    if bytes > TEXT_BYTES and i > 1 then
      shown[i] = "..."
      break
    end
    shown[i] = (word == "" or word:find "%s") and ('"%s"'):format(escape(word)) or escape(word)
  end
  return table.concat(shown, " ")
end

return M
