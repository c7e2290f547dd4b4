--- The arguments of a program: from its stack in a sample of sched_process_exec, or from /proc.

local core = require "perfev.core"
local escape = require "perfev.base.escape"

local M = {}

local STACK_BYTES = 8192 -- to copy: the pointers, also of the environment, and the strings above them
local TEXT_BYTES = 1024 -- to show
local TRIES = 20

local has_sp = core.machine:find "^x86_64" or core.machine:find "^aarch64" or core.machine:find "^riscv64"

--- Makes a declaration of sched:sched_process_exec copy the stack, on machines whose stack pointer is known.
-- @tparam table spec  of perfev.event
-- @treturn table      spec
function M.with_stack(spec)
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

--- Reads the arguments of a running process from /proc.
-- @treturn ?{string,...}  nil: the process has ended, or its name is no longer `comm`
function M.of_process(pid, comm)
  local path = ("/proc/%d/cmdline"):format(pid)
  local line = core.slurp(path)
  for _ = 1, TRIES do -- the record of an exec is written before the stack is (begin_new_exec(), fs/exec.c)
    if line ~= "" then break end
    line = core.slurp(path)
  end
  if not line or line == "" or core.slurp(("/proc/%d/comm"):format(pid)) ~= comm .. "\n" then return nil end
  local words = {}
  for word in line:gmatch "([^%z]*)%z" do words[#words + 1] = word end
  return words
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
