-- Uprobes by source line, by the names of variables and by pattern, on the simulated kernel: what becomes of them in
-- tracefs, and the refusals. The programs are the seeds of spec/fuzz/dwarf.c, of x86_64:
--
--    1  enum mode { IDLE, DONE = -1 };
--    2  struct peer { unsigned short port; const char *host; };
--    3  struct req {
--    4    int id; unsigned bits : 3; struct peer *peer; char name[8]; long sizes[2][3]; enum mode mode;
--    5    union { int number; float real; };
--    6  };
--    7  long total;
--    8  static inline __attribute__((always_inline)) long twice(long v)
--    9  {
--   10    total += v;
--   11    return 2 * v;
--   12  }
--   13  __attribute__((noinline)) long handle(struct req *req, const int n)
--   14  {
--   15    long sum = 0;
--   16    for (int i = 0; i < n; i++)
--   17      sum += req->sizes[0][i] + twice(i);
--   18    return sum;
--   19  }
--   20  void _start(void)
--   21  {
--   22    volatile struct req req = { .id = 1 };
--   23    handle((struct req *)&req, 3);
--   24  }

local arguments = require "perfev.probe.probe_arguments"
local core = require "perfev.core"
local elf = require "spec.support.elf"
local perfev = require "perfev"
local probe = require "perfev.probe.probe"
local sim = require "perfev.sim"
local variables = require "perfev.probe.variables"

local E = perfev.errno
local UPROBES, KPROBES = "/sys/kernel/tracing/uprobe_events", "/sys/kernel/tracing/kprobe_events"
local TRACED = "/sys/kernel/tracing/available_filter_functions"
local DEVICES = "/sys/bus/event_source/devices/"
local builds = { "gcc_O0", "gcc_O2", "clang_O1", "types" }

local k, machine

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function functions(n)
  local list = {}
  for i = 1, n do list[i] = { ("http_%d"):format(i), 0x1000 + 16 * i, 16 } end
  return list
end

before_each(function()
  machine, core.machine = core.machine, "x86_64"
  k = sim.new()
  k.files[UPROBES], k.files[KPROBES] = "", ""
  k:tracepoint("sched:sched_switch", 316, "int prev_pid")
  for _, name in ipairs(builds) do k.files["/bin/" .. name] = read("spec/fuzz/seeds/dwarf/" .. name) end
  k.files["/bin/plain"] = read "spec/fuzz/seeds/elf/shared"
  k.files["/bin/many"] = elf.file { functions = functions(200), offset = 0, vaddr = 0x1000, length = 0x2000 }
    .. ("\0"):rep(0x2000)
  for name, number in pairs { kprobe = 6, uprobe = 8 } do
    k.files[DEVICES .. name .. "/type"] = number .. "\n"
    k.files[DEVICES .. name .. "/format/retprobe"] = "config:0\n"
  end
  k.files["/proc/kallsyms"] = "ffffffff81000000 T vfs_read\nffffffff81000100 T vfs_write\nffffffff81000200 T twin\n"
    .. "ffffffff81000300 T twin\nffffffff81000400 T do_exit\n"
  k:install()
end)
after_each(function()
  core.machine = machine
  perfev.hooks.clear()
end)

-- The place and the arguments of an event, as -n prints them; of several events a list.
local function resolve(text, args)
  local found, why = probe.resolve(text, { args = args })
  assert.truthy(found, why)
  local shown = {}
  for i, one in ipairs(found[1] and found or { found }) do
    shown[i] = table.concat(one.shown, " "):gsub("^probe  ", ""):gsub(" args  ", " ")
  end
  return found[1] and shown or shown[1], found
end

local function refused(text, spec)
  local found, why, code = probe.resolve(text, spec or {})
  assert.is_nil(found)
  assert.equal(("event '%s': "):format(text), why:sub(1, #text + 10))
  return why:sub(#text + 11), code
end

describe("variables by name", function()
  local all = { "n", "req", "req->id", "req->peer->port", "req->peer.host", "req.name", "req->sizes[1][2]", "req->mode",
    "req->number" }

  it("are in the frame without optimization, and the probe moves behind the code that puts them there", function()
    assert.equal("/bin/gcc_O0:0xbb n=-44(%bp):s32 req=-40(%bp):x64 id=+0(-40(%bp)):s32 port=+0(+8(-40(%bp))):u16 "
      .. "host=+0(+8(+8(-40(%bp)))):string name=+16(-40(%bp)):string sizes_1_2=+64(-40(%bp)):s64 "
      .. "mode=+72(-40(%bp)):s32 number=+76(-40(%bp)):s32", resolve("uprobe:/bin/gcc_O0:handle", all))
    assert.equal("/bin/gcc_O0:0xb0", resolve("uprobe:/bin/gcc_O0:handle"))
  end)

  it("are in registers at the entry of optimized code, by all compilers and forms of DWARF", function()
    for _, name in ipairs { "gcc_O2", "clang_O1", "types" } do
      local program = "/bin/" .. name
      assert.equal(program .. ":0xb0 n=%si:s32 req=%di:x64 id=+0(%di):s32 port=+0(+8(%di)):u16 "
        .. "host=+0(+8(+8(%di))):string name=+16(%di):string sizes_1_2=+64(%di):s64 mode=+72(%di):s32 "
        .. "number=+76(%di):s32", resolve("uprobe:" .. program .. ":handle", all))
    end
  end)

  it("have the names and types that the user gives them", function()
    assert.equal("/bin/gcc_O2:0xb0 first=+32(%di):x64 text=+16(%di):string what=+0(%di):string n=%si:u8 id=+0(%di):u16",
      resolve("uprobe:/bin/gcc_O2:handle", { "first=req->sizes[0][1]:x64", "text=req->name:string", "what=req:string",
        "n=n:u8", "req->id:u16" }))
  end)

  it("outside of functions are at their distance from the probe", function()
    local elf_file = require("perfev.elf").read(k.files["/bin/gcc_O2"])
    local total, handle = elf_file:symbol "total", elf_file:symbol "handle"
    assert.equal(("/bin/gcc_O2:0xb0 total=@+%d:s64"):format(total.value - handle.value + handle.offset),
      resolve("uprobe:/bin/gcc_O2:handle", { "total" }))
  end)

  it("are mixed with arguments by position and by place", function()
    assert.equal("/bin/gcc_O2:0xb0 a=%di:x64 id=+0(%di):s32 b=%si:s32 c=+8(%sp):u64",
      resolve("uprobe:/bin/gcc_O2:handle", { "a:ptr", "req->id", "b:int", "c=+8(%sp):u64" }))
  end)

  it("give $retval its type", function()
    assert.equal("/bin/gcc_O2:0xb0 retval=$retval:s64", resolve("uretprobe:/bin/gcc_O2:handle", { "$retval" }))
  end)

  it("are defined in tracefs, and removed", function()
    local s = perfev.session {}
    s:event { "uprobe:/bin/gcc_O2:handle", args = { "req->id", "n" }, sample = function() end }
    assert(s:start())
    assert.matches("^p:perfev_1000_%d+/handle /bin/gcc_O2:0xb0 id=%+0%(%%di%):s32 n=%%si:s32\n$", k.files[UPROBES])
    s:close()
    assert.equal("", k.files[UPROBES])
  end)

  it("are for programs of this machine", function()
    core.machine = "aarch64"
    assert.matches("^args: names of variables are for 64%-bit programs of x86_64 and aarch64",
      (refused("uprobe:/bin/gcc_O2:handle", { args = { "n" } })))
  end)

  for args, wanted in pairs {
    [{ "reqq" }] = "args: 'reqq' is not a variable in scope there %(did you mean 'req'%?%)\n  try: .*req",
    [{ "v" }] = "args: 'v' is not a variable in scope there",
    [{ "req->idd" }] = "args: 'req%->idd': 'req' has no member 'idd' %(did you mean 'id'%?%)\n  try: id, bits, peer",
    [{ "req->peer->prt" }] = "'req%->peer' has no member 'prt' %(did you mean 'port'%?%)\n  try: port, host",
    [{ "req->bits" }] = "args: 'req%->bits': 'bits' is a bit field, which a probe cannot read",
    [{ "req->real" }] = "args: 'req%->real' is a floating%-point number, and a probe reads integers and text",
    [{ "req->sizes" }] = "args: 'req%->sizes' is an array\n  try: req%->sizes%[0%]",
    [{ "req->sizes[2][0]" }] = "'req%->sizes' has 2 elements, from 0 to 1",
    [{ "n->id" }] = "'n' is a number, and has no members", [{ "n[0]" }] = "'n' is a number, and has no elements",
    [{ "req->peer->host.x" }] = "'req%->peer%->host' is a pointer to a number, and has no members",
    [{ "req[0]" }] = "args: 'req%[0%]' is a structure, of which a probe reads the members\n  try: req%[0%]%.id, ",
    [{ "req->id", "id=n" }] = "args: 'id' appears twice\n  try: id_2=n",
    [{ "req->" }] = "args: 'req%->' is not understood\n  try: NAME:TYPE, as in \"n:int\", or a variable",
    [{ "req->sizes[-1]" }] = "is not understood", [{ "n=$arg1" }] = "a type is expected\n  try: n=$arg1:u64",
    [{ "$retval" }] = "only a return probe has a return value",
  } do
    it("are refused: " .. args[#args], function()
      local why, code = refused("uprobe:/bin/gcc_O2:handle", { args = args })
      assert.matches(wanted, why)
      assert.equal(E.EINVAL, code)
    end)
  end

  it("are refused if they are optimized out, in a return probe, and without debug information", function()
    assert.matches("^args: 'n' is optimized out at this place: .*\n  try: another line",
      (refused("uprobe:/bin/gcc_O2:req.c:19", { args = { "n" } })))
    assert.matches("^args: 'x=n': 'n' is optimized out", (refused("uprobe:/bin/gcc_O2:req.c:19", { args = { "x=n" } })))
    assert.matches("^args: 'n': a return probe has no arguments", (refused("uretprobe:/bin/gcc_O2:handle",
      { args = { "n" } })))
    local why, code = refused("uprobe:/bin/plain:work", { args = { "n" } })
    assert.equal("/bin/plain has no debug information (DWARF)\n  try: a build with gcc -g, or its debug symbols", why)
    assert.equal(E.ENOENT, code)
    assert.matches("only uprobes read the names of the source", (refused("kprobe:vfs_read", { args = { "file" } })))
    assert.matches("only uprobes read the names of the source", (refused("usdt:/bin/plain:perfev:step",
      { args = { "file" } })))
  end)
end)

-- A file whose DWARF has a variable v of one of these types, by number.
local function damaged(types)
  local location = { start = "register", register = 5, is_value = true, 0 }
  local file = { elf = { facts = function() return { machine = 62 } end }, path = "/bin/damaged" }
  file.dwarf = {
    scope = function() return { { name = "v", type = 1, location = location } } end,
    type = function(_, number) return types[number] end,
    members = function(_, number) return types[number].members end,
  }
  return function(arg)
    local _, why = variables.find(arguments.parse { arg }, file, { address = 0, offset = 0 })
    return why
  end
end

describe("a type in damaged DWARF", function()
  it("may be a reference to itself", function()
    local find = damaged { { kind = "pointer", is_reference = true, target = 1, size = 8 } }
    assert.equal("args: 'v.m': 'v' is a pointer to a pointer, and has no members", find "v.m")
  end)

  it("may be a structure without a name in itself", function()
    local record = { kind = "record", size = 8, members = {} }
    for i = 1, 40 do record.members[i] = { type = 2, offset = 8 * i } end
    local find = damaged { { kind = "pointer", target = 2, size = 8 }, record }
    assert.matches("is of a type whose members are not in this debug information", find "v->m")
  end)
end)

describe("a source line", function()
  it("is a place in each function that has it", function()
    assert.equal("/bin/gcc_O0:0xc3", resolve "uprobe:/bin/gcc_O0:req.c:16")
    assert.equal("/bin/gcc_O0:0xc3", resolve "uprobe:/bin/gcc_O0:/src/req.c:16")
    assert.equal("/bin/gcc_O0:0xc3", resolve "uprobe:/bin/gcc_O0:src/req.c:16")
  end)

  it("counts from the declaration of a function", function()
    for _, name in ipairs(builds) do
      local program = "uprobe:/bin/" .. name
      assert.equal(resolve(program .. ":req.c:16"), resolve(program .. ":handle:3"))
    end
  end)

  it("has the variables of its block and of inlined functions", function()
    local shown = resolve("uprobe:/bin/gcc_O0:req.c:17", { "i", "sum", "n" })
    assert.matches("^/bin/gcc_O0:0x%x+ i=%-12%(%%bp%):s32 sum=%-8%(%%bp%):s64 n=%-44%(%%bp%):s32$", shown)
    assert.matches(" v=%-%d+%(%%bp%):s64$", (resolve("uprobe:/bin/gcc_O0:req.c:10", { "v" })))
    assert.matches(" v=%%%l+:s64$", (resolve("uprobe:/bin/gcc_O2:req.c:10", { "v" })))
  end)

  for text, wanted in pairs {
    ["uprobe:/bin/gcc_O0:req.c:12"] = "^line 12 of req.c has no code\n  try: req.c:11 or req.c:14$",
    ["uprobe:/bin/gcc_O0:req.c:99"] = "^line 99 of req.c has no code\n  try: req.c:24$",
    ["uprobe:/bin/gcc_O0:handle:0"] = "^line 13 of req.c has no code\n  try: req.c:11 or req.c:14$",
    ["uprobe:/bin/gcc_O0:rec.c:12"] =
      "^/bin/gcc_O0 has no source file 'rec.c' %(did you mean 'req.c'%?%)\n  try: readelf",
    ["uprobe:/bin/gcc_O0:handel:2"] = "has no function 'handel' %(did you mean 'handle'%?%)",
    ["uprobe:/bin/gcc_O0:req.c:0"] = "^line 0: lines are counted from 1",
    ["uprobe:/bin/gcc_O0:handle:99999999999999999999"] = "^the line is greater than 2147483647$",
    ["uprobe:/bin/plain:req.c:1"] = "^/bin/plain has no debug information",
    ["uretprobe:/bin/gcc_O0:req.c:16"] = "^a return probe has no line\n  try: uprobe: for a line",
  } do
    it("is refused: " .. text, function() assert.matches(wanted, (refused(text))) end)
  end

  it("has no arguments by position", function()
    assert.matches("^args: 'n:int': at a line the arguments are no longer where they were passed\n  try: n, by its",
      (refused("uprobe:/bin/gcc_O0:req.c:16", { args = { "n:int" } })))
  end)
end)

describe("a pattern", function()
  local function names_of(text, spec)
    local found, why = probe.resolve(text, spec or {})
    assert.truthy(found, why)
    local names = {}
    for i, one in ipairs(found) do names[i] = one.name end
    return names, found.pattern
  end

  it("of uprobes is an event for each function, in the order of their addresses", function()
    local names, pattern = names_of "uprobe:/bin/many:http_1?"
    assert.equal("uprobe:/bin/many:http_1?", pattern)
    assert.same({ 10, "uprobe:/bin/many:http_10", "uprobe:/bin/many:http_19" }, { #names, names[1], names[10] })
    assert.same({ "uretprobe:/bin/many:http_7" }, (names_of "uretprobe:/bin/many:*_7"))
    assert.same({ "uprobe:/bin/gcc_O2:handle" }, (names_of("uprobe:/bin/gcc_O2:h*", { args = { "req->id" } })))
  end)

  it("opens them all for one callback, which sees the name of each", function()
    local seen = {}
    local s = perfev.session { cpus = { 0 } }
    local ev = s:event { "uprobe:/bin/many:http_1[01]", sample = function(r) seen[#seen + 1] = r.event.name end }
    assert(s:start())
    assert.equal(2, #ev.members)
    k:emit(k.events[2], "sample", {})
    k:emit(k.events[1], "sample", {})
    s:stop()
    s:run()
    table.sort(seen)
    assert.same({ "uprobe:/bin/many:http_10", "uprobe:/bin/many:http_11" }, seen)
  end)

  it("of kprobes matches the functions that can be traced, or those of /proc/kallsyms with a unique name", function()
    assert.same({ "kprobe:vfs_read", "kprobe:vfs_write" }, (names_of "kprobe:vfs_*"))
    assert.same({ "kretprobe:do_exit" }, (names_of "kretprobe:*_exit"))
    k.files[TRACED] = "vfs_read\nvfs_open [mod]\n"
    assert.same({ "kprobe:vfs_open", "kprobe:vfs_read" }, (names_of "kprobe:vfs_*"))
  end)

  it("that matches more than 128 functions needs consent", function()
    local why, code = refused "uprobe:/bin/many:http_*"
    assert.equal("it matches 200 functions, and more than 128 need your consent\n"
      .. "  try: --many, or many = true, or a longer pattern", why)
    assert.equal(E.EINVAL, code)
    assert.equal(200, #(names_of("uprobe:/bin/many:http_*", { many = true })))
    local s = perfev.session { many = true }
    local ev = s:event { "uprobe:/bin/many:http_*", sample = function() end }
    assert(s:start())
    assert.equal(200, #ev.members)
    s:close()
    local c = assert(perfev.counter { "uprobe:/bin/many:http_*", many = true, cpus = { 0 } })
    c:close()
    local lines = {}
    for i = 1, 200 do lines[i] = ("ffffffff8100%04x T tcp_%d\n"):format(i, i) end
    k.files["/proc/kallsyms"] = table.concat(lines)
    assert.matches("^it matches 200 functions", (refused "kprobe:tcp_*"))
  end)

  for text, wanted in pairs {
    ["uprobe:/bin/many:htp_*"] = "^no function of /bin/many matches 'htp_%*' %(did you mean 'http_%*'%?%)\n  try: nm",
    ["uprobe:/bin/many:*x"] = "^no function of /bin/many matches '%*x'\n  try: nm",
    ["uprobe:/bin/many:http_[1"] = "^the pattern 'http_%[1' is not closed\n  try: a %]",
    ["kprobe:vsf_*"] = "^no function of the kernel matches 'vsf_%*' %(did you mean 'vfs_%*'%?%)",
    ["kprobe:twi*"] = "^no function of the kernel matches 'twi%*'",
    ["kprobe:vfs_[r"] = "^the pattern 'vfs_%[r' is not closed",
  } do
    it("is refused: " .. text, function() assert.matches(wanted, (refused(text))) end)
  end
end)
