--- Confines perfl by the kernel once events are open: no new privileges, no capabilities, Landlock, seccomp.

local core = require "perfev.core"
local lazy = require "perfev.base.lazy_module"
local native = require "perfl.core"
local native_module = require "perfev.base.native_module"
local symbol = lazy "perfev.symbol"
local symbol_files = lazy "perfev.symbol.files"
local tracefs_probes = require "perfev.probe.tracefs_probes"

local M = {}

-- What names of functions, tasks, disks, cgroups and users are read from. Programs elsewhere need --sandbox=read=DIR.
local READABLE = {
  "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/boot",
  "/proc", "/sys/devices", "/sys/bus", "/sys/class", "/sys/dev", "/sys/module", "/sys/fs/cgroup",
  "/sys/kernel/notes", "/etc/passwd", "/etc/group", "/etc/localtime",
}

-- perfev's own modules that read symbols; after the confinement no code can be loaded.
local MODULES = { "perfev.elf", "perfev.symtab", "perfev.cfi", "perfev.zstd", "perfev.disassembler" }

local function join(missing)
  if #missing == 0 then return nil end
  return ("--sandbox: this machine lacks %s\ntry: --sandbox=best-effort, which runs without"):format(
    table.concat(missing, "; "))
end

local function landlock_text(code)
  return ("Landlock (Linux 5.13 with CONFIG_SECURITY_LANDLOCK, and landlock in lsm=): %s"):format(core.strerror(code))
end

local function seccomp_module()
  local module, why, remedy = native_module "perfev.seccomp"
  if module then return module end
  return nil, remedy and ("libseccomp (%s; %s)"):format(why, remedy) or "perfev's module for libseccomp beside perfl"
end

--- Returns what this machine lacks for the confinement, as a message, or nil.
function M.missing()
  local missing = {}
  local abi, _, code = core.landlock_abi()
  if not abi then missing[1] = landlock_text(code) end
  local _, why = seccomp_module()
  missing[#missing + 1] = why
  return join(missing)
end

--- Loads perfev's modules in C; called before classes are hidden.
function M.load_modules()
  for _, name in ipairs(MODULES) do pcall(require, name) end
end

-- The kernel's functions: without capabilities /proc/kallsyms hides their addresses.
local function load_kernel_names(s)
  if core.hooked() or not (native.euid == 0 or native.elevated) then return end
  if s.replay then
    s.replay.rec.world:frame { ip = 1, context = "kernel" }
  elseif s.maps then
    symbol.kernel(1)
  end
end

-- The command's program, by PATH as execvp(3) finds it.
local function command_path(words)
  local name = words and words[1]
  if not name then return nil end
  if name:find("/", 1, true) then return native.realpath(name) end
  for dir in (os.getenv "PATH" or "/usr/bin:/bin"):gmatch "[^:]+" do
    local path = native.exists(dir .. "/" .. name) and native.realpath(dir .. "/" .. name)
    if path then return path end
  end
end

local function readable_paths(run, options)
  local opts = run.opts or {} -- nil: a session starts before perfev.args{}
  local paths = table.move(READABLE, 1, #READABLE, 1, {})
  local function add(path) paths[#paths + 1] = path or nil end -- false: none
  for _, path in ipairs(options.read) do add(path) end
  add(command_path(run.words.command))
  add(opts.input ~= "-" and opts.input)
  add(opts.record ~= "-" and opts.record) -- its names are found at the end
  add(opts.symfs)
  add(opts.kallsyms)
  add(symbol_files.home "")
  return paths
end

local function steps(paths, accepts)
  local command = core.guard_command()
  return {
    { "no_new_privs", core.no_new_privs },
    { "Landlock", function()
      local abi, what, code = core.landlock(paths, command ~= nil)
      return abi, not abi and (code == core.errno.ENOSYS and landlock_text(code)
        or ("%s: %s"):format(what, core.strerror(code)))
    end },
    { "a way to drop capabilities", core.drop_rights },
    { "seccomp", function()
      local module, why = seccomp_module()
      if not module then return nil, why end
      local ok, what, code = module.confine(command, accepts)
      return ok, not ok and ("seccomp filters: %s: %s"):format(what, core.strerror(code))
    end },
  }
end

--- Confines this process for good to reading some files.
-- @tparam {string,...} paths  files and directories
-- @tparam ?boolean accepts    it accepts connections on its sockets
-- @treturn ?string            what could not be done, as a message
function M.restrict(paths, accepts)
  local missing = {}
  local threads = not core.hooked() and core.list "/proc/self/task" or {}
  if threads[2] then missing[1] = "a single thread: Landlock and capabilities do not concern the others" end
  seccomp_module() -- loads it
  for _, step in ipairs(steps(paths, accepts)) do
    local ok, why = step[2]()
    if not ok then missing[#missing + 1] = why or step[1] end
  end
  return join(missing)
end

--- Confines this process for good, with the events of a session open.
-- @tparam table s        the session, whose events are open
-- @tparam table run      of perfl: `opts`, `words`
-- @tparam table options  of --sandbox
-- @treturn ?string       what could not be done, as a message
function M.apply(s, run, options)
  load_kernel_names(s)
  for _, path in ipairs(tracefs_probes.lists()) do core.guard_keep_open(path) end
  if s.recorder and run.opts and run.opts.record ~= "-" then
    s.recorder:give_name()
    core.guard_keep_open(run.opts.record)
  end
  return M.restrict(readable_paths(run, options), run.opts ~= nil and run.opts.http ~= nil)
end

return M
