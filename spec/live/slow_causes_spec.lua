-- The script slow on the real kernel: programs whose slow calls have one planted cause. The first line of the report
-- has to name the kind of the cause and the function. PROOFS=long: all causes, else those of `in_short_form`.

local run = require "spec.support.run"

local SEED = "1"
local SHARE = 0.95 -- of the causes, named

-- cause -> the words of the first line; `needs_disk`: of a file system on a disk
local causes = {
  lock = { "for a lock:", "reserve_seat" },
  convoy = { "for a lock:", "append_entry" },
  rwlock = { "for a lock:", "update_routes" },
  condition = { "for a condition variable:", "await_reply" },
  sleep = { " sleep ", "back_off" },
  flock = { "for a lock of a file:", "lock_spool" },
  scheduler = { "for a CPU", "indexer" },
  pipe = { "for a pipe:", "ask_resolver" },
  socket = { "for a socket", "query_database" },
  epoll = { "for events of descriptors", "await_update" },
  child = { "for a child process:", "convert_image" },
  fsync = { "for the disk (fsync):", "commit_order", needs_disk = true },
  direct = { "for the disk (pread64):", "load_extent", needs_disk = true },
  log = { "for the disk (write):", "write_out", needs_disk = true },
  directory = { "in the system call getdents64:", "list_spool" },
  faults = { "in page faults", "build_index" },
  major = { "major page faults", "read_catalog", needs_disk = true },
  ["function"] = { "on the CPU:", "score" },
  sibling = { "on the CPU:", "render" },
  callers = { "on the CPU:", "encode" },
  allocation = { "allocating memory:", "copy_tree" },
  cache = { "on the CPU:", "look_up" },
  zeroing = { "on the CPU:", "clear_arena" },
  signal = { "on the CPU:", "rotate_keys" },
  recursion = { "on the CPU:", "match_here" },
  handover = { "on the CPU:", "compress_page", key = "args.id" },
}

local in_short_form = { "lock", "callers", "handover" }

local cc = os.getenv "CC" or "gcc"
local why_not = not run.root and "not root"
  or not run.slurp "/sys/bus/event_source/devices/uprobe/type" and "no uprobe PMU in this kernel"
  or not run.slurp "/sys/kernel/tracing/events/sched/sched_switch/id" and "no tracefs"
  or not run.have(cc) and "no C compiler"

local dir, program, is_on_disk

setup(function()
  if why_not then return end
  dir = assert(run.capture "mktemp -d -p /var/tmp")
  program = dir .. "/causes"
  local r = run(("%s -g -O1 -fno-omit-frame-pointer -pthread -o %s spec/support/slow/*.c"):format(cc, program))
  assert(r.code == 0, r.err)
  local types = " " .. run.capture("stat -f -c %T " .. dir) .. " "
  is_on_disk = (" ext2/ext3 xfs btrfs f2fs "):find(types, 1, true) ~= nil
end)
teardown(function() if dir then run.remove(dir) end end)

-- Returns the first line of the report.
local function headline_of(name)
  local files = dir .. "/" .. name
  assert(os.execute("mkdir " .. files))
  local cmd = { run.perfl, "-q", "slow", program .. ":handle", "--", program, name, files, SEED }
  if causes[name].key then
    table.move({ "uprobe:" .. program .. ":begin_request", "uprobe:" .. program .. ":end_request",
      "--key", causes[name].key, "--", program, name, files, SEED }, 1, 9, 4, cmd)
  end
  local r = run(cmd)
  run.remove(files)
  assert.same({ 0, "" }, { r.code, r.err })
  return r.out:match "[^\n]*"
end

local function is_named(name, line)
  for _, words in ipairs(causes[name]) do
    if not line:find(words, 1, true) then return false end
  end
  return line:find("the slowest 5 % (10 of 200 calls", 1, true) ~= nil
end

-- Returns the number of programs, and the first lines that do not name the cause.
local function wrong_lines(names)
  local nr, wrong = 0, {}
  for _, name in ipairs(names) do
    if is_on_disk or not causes[name].needs_disk then
      nr = nr + 1
      local line = headline_of(name)
      if not is_named(name, line) then wrong[#wrong + 1] = name .. ": " .. line end
    end
  end
  return nr, wrong
end

describe("perfl slow", function()
  it("names the cause of the slow calls in its first line", function()
    if why_not then return pending(why_not) end
    local is_long = os.getenv "PROOFS" == "long"
    local all = run { program }
    local names = {}
    for name in all.out:gmatch "[^\n]+" do
      assert.is_table(causes[name], name)
      names[#names + 1] = name
    end
    local nr, wrong = wrong_lines(is_long and names or in_short_form)
    assert.is_true(#wrong <= nr * (1 - SHARE), table.concat(wrong, "\n"))
  end)
end)
