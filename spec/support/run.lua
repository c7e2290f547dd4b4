-- run.lua - runs programs for specs and returns their output.
--
--   local run = require "spec.support.run"
--   local r = run({ run.perfl, "--version" }, { cwd = "/" })
--   assert.equal(0, r.code)
--
-- A table is an argument vector, run without a shell; a string is a shell command.

local run = {}

local function env(name, default)
  local value = os.getenv(name)
  return value and value ~= "" and value or default
end

-- The child gets no variables of the make or the spec runner that runs this process.
local unset = { "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "TALLY", "LUA_INIT" }

function run.quote(word)
  return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

local function quote_all(words)
  local quoted = {}
  for i, word in ipairs(words) do quoted[i] = run.quote(word) end
  return table.concat(quoted, " ")
end

--- Returns a command as a user would type it, for messages.
function run.show(cmd)
  return type(cmd) == "table" and quote_all(cmd) or cmd
end

--- Returns a file's content, or nil and the reason.
function run.slurp(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local text = file:read("a")
  file:close()
  return text
end

--- Writes a file and returns its path.
function run.write_file(path, content)
  local file = assert(io.open(path, "wb"))
  assert(file:write(content))
  assert(file:close())
  return path
end

--- Returns a shell command's output without its last newline; nil if the command fails.
function run.capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  return pipe:close() and text:gsub("\n$", "") or nil
end

--- True if PATH has that program.
function run.have(name)
  return run.capture("command -v " .. run.quote(name)) ~= nil
end

--- Makes a new directory that every user may enter; the caller removes it with run.remove.
function run.tempdir()
  return assert(run.capture("d=$(mktemp -d) && chmod 755 \"$d\" && echo \"$d\""))
end

function run.remove(dir)
  assert(dir:find("^/tmp/.") or dir:find("^/var/tmp/."), "not a temporary directory: " .. dir)
  return os.execute("rm -rf -- " .. run.quote(dir))
end

local cwd = run.capture("pwd -P")
local function absolute(path)
  return path:find("^/") and path or cwd .. "/" .. path
end

run.perfl = absolute(env("PERFL", "build/perfl"))
run.root = run.capture("id -u") == "0"
run.sanitized = run.perfl:find("/asan/", 1, true) ~= nil

local function as_user(user)
  local gid = assert(run.capture("id -g " .. run.quote(user)), "no such user: " .. user)
  return { "setpriv", "--reuid=" .. user, "--regid=" .. gid, "--clear-groups" }
end

local function append(list, more)
  return table.move(more, 1, #more, #list + 1, list)
end

-- User nobody cannot run a perfl below a home of mode 0700: make a copy, with its modules.
local shared
local function perfl_for(user)
  local reach = append(as_user(user), { "test", "-x", run.perfl })
  if os.execute(quote_all(reach)) then return run.perfl end
  if not shared then
    local dir = run.tempdir()
    assert(os.execute(("cp -R %s %s %s/"):format(run.quote(run.perfl),
      run.quote((run.perfl:gsub("[^/]*$", "perfev"))), dir)))
    shared = setmetatable({ path = dir .. "/perfl" }, { __gc = function() run.remove(dir) end })
  end
  return shared.path
end

local function settings(vars)
  local removed, set = {}, { "LC_ALL=C" }
  for _, name in ipairs(unset) do append(removed, { "-u", name }) end
  for name, value in pairs(vars or {}) do
    if value == false then
      append(removed, { "-u", name })
    else
      append(set, { name .. "=" .. tostring(value) })
    end
  end
  return append(append({ "env" }, removed), set)
end

-- Seconds until a program that hangs is killed. Even a sanitizer's build on a busy machine is never that slow.
local TIMEOUT = 600

-- A program makes the same system calls in each run only if it is mapped at the same addresses: where pages are
-- smaller than the alignment of a library (4K and 64K on arm64), ld.so unmaps the pages beside it, and makes no
-- such call at one address in sixteen (_dl_map_segment() of glibc 2.36).
local can_fix_layout
local function in_fixed_layout()
  can_fix_layout = can_fix_layout or { run.capture "setarch -R true 2>/dev/null" ~= nil }
  return can_fix_layout[1] and { "setarch", "-R" } or {}
end

local function command_line(cmd, opts)
  local argv = { "timeout", "-k", "5", tostring(opts.timeout or TIMEOUT) }
  append(argv, settings(opts.env))
  if opts.fixed_layout then append(argv, in_fixed_layout()) end
  if opts.user then append(argv, as_user(opts.user)) end
  if type(cmd) == "string" then cmd = { "sh", "-c", cmd } end
  for _, word in ipairs(cmd) do
    argv[#argv + 1] = opts.user and word == run.perfl and perfl_for(opts.user) or word
  end
  return quote_all(argv)
end

--- Removes from a script's output the progress line that perfl prints each second while it looks up names.
function run.without_progress(text)
  return (("\n" .. text):gsub("\n%l+: %d+ of %d+ stacks have their names%f[\n]", ""):sub(2))
end

-- Tools that crash for reasons outside of perfev: tool -> pattern of its last message.
local deaths = {
  -- perf 6.1 aborts on a MMAP2 record that is marked as having a build id but lacks it: while another session records
  -- build ids, the kernel sets this mark in the records of all sessions (perf_event_mmap_output(), seen on 6.18).
  -- A later recording is free of it once that session has ended.
  perf = "assertion failed at util/build%-id%.c:%d+",
  -- The leak check at exit fails; see LSAN_OPTIONS in the Makefile.
  LeakSanitizer = "Tracer caught signal %d+",
}
local TRIES = 3

--- True if perf may crash on a recording: it does on its own. False in spec files in which perf reads perfl's.
run.perf_may_die = true

local function death_in(result)
  for tool, pattern in pairs(deaths) do
    local said = result.code ~= 0 and (result.err .. result.out):match(pattern)
    if said then return ("%s died (%s)"):format(tool, said) end
  end
end

-- Makes the spec pending: perf crashed each time, not on a file of perfl, so no output can be compared.
local function give_up(cmd, death)
  local is_recorder = run.show(cmd):find "%f[%w]perf'? '?record"
  if package.loaded.busted and death:find "^perf " and (run.perf_may_die or is_recorder) then
    require "busted.core"().pending(("%s, %d times"):format(death, TRIES)) -- busted defines it in spec files only
  end
end

--- Runs a command to its end. If a tool crashes, the command is run again and standard error reports it. If perf
-- crashes each time, the spec is pending.
-- @tparam table|string cmd   an argument vector, or a line for the shell
-- @tparam table opts         `stdin` (text, default none), `env` (name -> value, false removes),
--                            `cwd`, `timeout` (seconds, default TIMEOUT), `user` (needs root),
--                            `fixed_layout` (true: no address space randomisation, where that can be had)
-- @treturn table  `out`, `err`, `code` (exit status, nil when a signal ended it), `signal`,
--                 `timed_out`
local function start(cmd, opts, try)
  opts = opts or {}
  local dir = run.tempdir()
  run.write_file(dir .. "/in", opts.stdin or "")
  -- exec replaces the shell, so that the status is the command's own.
  local ok, how, status = os.execute(string.format("%sexec %s <%s/in >%s/out 2>%s/err",
    opts.cwd and "cd " .. run.quote(opts.cwd) .. " && " or "", command_line(cmd, opts),
    dir, dir, dir))
  local result = { out = assert(run.slurp(dir .. "/out")), err = assert(run.slurp(dir .. "/err")) }
  run.remove(dir)
  if how == "signal" then
    result.signal = status
  else
    result.code = ok and 0 or status
  end
  result.timed_out = result.code == 124 or result.code == 137
  local death = death_in(result)
  if death and try == TRIES then give_up(cmd, death) end
  if not death or try == TRIES then return result end
  io.stderr:write(("%s, and is run again: %s\n"):format(death, run.show(cmd)))
  return start(cmd, opts, try + 1)
end

return setmetatable(run, { __call = function(_, cmd, opts) return start(cmd, opts, 1) end })
