-- types.lua - the Lua interface as annotations for editors (LuaLS), from its documentation:
--   lua5.4 src/gen/types.lua doc/api/*.md doc/testing.md doc/reference.md > build/types/perfev.lua
--   lua5.4 src/gen/types.lua module perfev.units > build/types/perfev/units.lua
--
-- The pages give the names, the parameters, a sentence for each function, and the types of options
-- and fields; the specs compare them with the code. Options have the types that the code checks,
-- of perfev.option_tables. signatures.lua adds the types of functions. If it differs from a page, a
-- line on stderr says so, and the function has no types.

package.path = "lua/?.lua;lua/?/init.lua;" .. package.path

local option_tables = require "perfev.option_tables"

local signatures = dofile "src/gen/signatures.lua"
-- One line for each function. `T!` as a result: T, or nil, message, errno.
local signatures = [[
perfev.count(spec: perfev.AggregatorSpec): perfev.Aggregator
perfev.top(spec: perfev.AggregatorSpec): perfev.Aggregator
perfev.sum(spec: perfev.AggregatorSpec): perfev.Aggregator
perfev.avg(spec: perfev.AggregatorSpec): perfev.Aggregator
perfev.min(spec: perfev.AggregatorSpec): perfev.Aggregator
perfev.max(spec: perfev.AggregatorSpec): perfev.Aggregator
perfev.stats(spec: perfev.AggregatorSpec): perfev.Aggregator
perfev.hist(spec: perfev.AggregatorSpec): perfev.Aggregator
perfev.quantile(spec: perfev.AggregatorSpec): perfev.Aggregator
perfev.unpack(bytes: string, options: { max_bytes: perfev.Size }?): perfev.Packed!
perfev.unpack(bytes: string, options: { max_bytes: perfev.Size }?): perfev.Aggregator!
perfev.frames(source: string|file*|function): fun(): perfev.PackFrame|false|nil, string?, integer?
perfev.frames.encode(header: table, x: any, options: { armor: boolean? }?): string[]!
perfev.frames.reader(): perfev.FrameReader
perfev.frames.sha256(text: string): string
frame:value(options: { max_bytes: perfev.Size }?): (perfev.Aggregator|perfev.Profile)!
reader:feed(bytes: string?)
reader:next(): perfev.PackFrame!
a:add(value: integer, key: perfev.Key?, ...: perfev.Key)
a:inc(key: perfev.Key?, ...: perfev.Key)
a:get(key: perfev.Key?, ...: perfev.Key): any
a:quantile(q: number, key: perfev.Key?, ...: perfev.Key): integer?
a:buckets(key: perfev.Key?, ...: perfev.Key): { low: integer?, high: integer?, count: integer }[]?
a:pairs(): fun(): ...any
a:rows(): table[]
a:top(n: integer): table[], integer
a:other(): any, integer?, integer?
a:floor(): integer
a:uncounted(): table<string, integer>
a:refused(): integer
a:remarks(): string[]
a:merge(b: perfev.Aggregator): perfev.Aggregator
a:pack(): string
a:delta(): perfev.Aggregator
a:clear()
a:print(how: "text"|"csv"|"json"|nil)
a:svg(options: { title: string, panels: integer }?): string
a:html(options: { title: string, panels: integer }?): string
a:spec(): table
perfev.args(spec: perfev.ArgsSpec): table<string, any>
attr:bytes(): string
attr:dump(): string
attr:validate(pid: integer?, cpu: integer?): true!
attr:copy(): perfev.Attr
perfev.decoder(spec: table): perfev.Decoder?, string?
perfev.encode(spec: table, t: table): string
perfev.budget(spec: perfev.BudgetSpec): perfev.Budget
perfev.budget.close()
b:measure(f: function, ...: any): perfev.BudgetResult, any ...
b:measure_command(argv: string[]): perfev.BudgetResult!
b:save(result: perfev.BudgetResult): true!
result:stacks_of(name: string): table<string, integer>
perfev.counter(spec: perfev.CounterSpec): perfev.Counter!
perfev.group(spec: perfev.CounterSpec): perfev.Counter!
perfev.hist_counter(spec: perfev.CounterSpec): perfev.HistCounter!
h:read(): { count: integer, buckets: table[] }!
h:delta(): { count: integer, buckets: table[] }!
h:print()
h:close()
perfev.measure(events: string[]|table, f: function, ...: any): any ...
perfev.task_enable(): true!
perfev.task_disable(): true!
c:read(cpu: integer?): perfev.Reading!
c:delta(cpu: integer?): perfev.Reading!
c:cpus(): integer[]
c:measure(f: function, ...: any): any ...
c:enable(name: string?, whole: boolean?): true!
c:disable(name: string?, whole: boolean?): true!
c:reset(name: string?, whole: boolean?): true!
c:add(spec: string|perfev.CounterEventSpec): perfev.CounterEvent!
c:member(name: string?): perfev.CounterEvent
c:names(): string[]
c:events(): table[]
c:start(): true!
c:wait(): perfev.Status!
c:run(): perfev.Status!
c:close(name: string?)
member:enable(whole: boolean?): true!
member:disable(whole: boolean?): true!
member:reset(whole: boolean?): true!
member:refresh(n: integer): true!
member:send_signal(name: string?): true!
member:period(n: integer): true!
member:filter(text: string): true!
member:output(to: perfev.CounterEvent|integer|nil): true!
member:pause_output(paused: boolean): true!
member:bpf(fd: integer): true!
member:query_bpf(max: integer?): integer[]!
member:modify(fields: table): true!
member:ids(): integer[]
member:fds(): { fd: integer, id: integer, pid: integer, cpu: integer }[]
member:read(): table!
member:close()
perfev.event(spec: perfev.EventSpec): perfev.Event
ev:enable(): true!
ev:disable(): true!
ev:filter(text: string): true!
ev:period(n: integer): true!
ev:send_signal(name: string|false|nil): true!
ev:close()
perfev.hooks.set(t: perfev.HookTable)
perfev.hooks.clear()
perfev.hooks.with(t: perfev.HookTable, f: function, ...: any): any ...
perfev.hooks.log(f: fun(text: string)|nil)
perfev.hooks.expect(calls: table[], rest: perfev.HookTable?): perfev.ExpectedCalls
calls:done()
perfev.hooks.memory(length: integer): perfev.Memory
m:read(offset: integer, length: integer): string
m:write(offset: integer, bytes: string)
m:u64(offset: integer, n: integer?): integer
perfev.line(format: string): perfev.Line
line:text(r: perfev.Record): string
perfev.every(t: perfev.Duration, f: fun(): any)
perfev.after(t: perfev.Duration, f: fun(): any)
perfev.begin(f: fun(): any)
perfev.done(f: fun(): any)
perfev.signal(name: string, f: fun(signal: perfev.Signal): any)
perfev.start(): true!
perfev.run(): true!
perfev.stop()
perfev.snapshot(options: { record: string?, names: boolean? }?): integer|true!
perfev.task(tid: integer): perfev.Task?
perfev.totals(): perfev.Totals
perfev.list(pattern: string|{ name: string }?): table[]
perfev.doctor(): table
perfev.escape(s: string): string
perfev.picture.heatmap(options: perfev.HeatmapOptions): string
perfev.picture.histogram(options: perfev.HistogramOptions): string
perfev.picture.timeline(options: perfev.TimelineOptions): string
perfev.calls(spec: perfev.CallsSpec): perfev.Calls
watched:text(options: perfev.CallsReport?): string
watched:json(options: perfev.CallsReport?): string
watched:html(options: perfev.CallsReport?): string
perfev.profile(options: perfev.ProfileOptions?): perfev.Profile
perfev.profile.read(source: string|file*|function, options: perfev.ProfileOptions?): perfev.Profile!
p:add(stack: perfev.AnyStack, ...: number)
p:add_under(under: string|string[], stack: perfev.AnyStack, ...: number)
p:sampler(options: perfev.SamplerOptions?): perfev.Sampler
p:clear()
p:resolve(progress: fun(done: integer, all: integer)|nil)
p:short_share(): number, integer
p:merge(other: perfev.Profile): perfev.Profile
p:diff(baseline: perfev.Profile): perfev.Profile
p:delta(): perfev.Profile
p:pack(): string
p:total(value: string|integer|nil): number
p:value(value: string|integer|nil): integer, { name: string, unit: string }
p:stacks(): fun(): perfev.Frame[], number[]
p:walk(visit: fun(depth: integer, frame: perfev.Frame, values: number[]?))
p:folded(options: perfev.WriterOptions?): string
p:html(options: perfev.WriterOptions?): string
p:svg(options: perfev.WriterOptions?): string
p:json(options: perfev.WriterOptions?): string
p:pprof(): string
p:speedscope(): string
p:firefox(): string
p:callgrind(): string
p:tree(options: perfev.WriterOptions?): string
p:top(options: perfev.WriterOptions?): string
perfev.open(path: string, options: perfev.OpenOptions?): perfev.Recording!
rec:records(options: table?): fun(): perfev.Record, integer, boolean
rec:totals(): table<string, any>
rec:task(tid: integer): perfev.Task?
rec:section(name: string|integer): string?
rec:tracing(): table?
rec:close()
r:copy(): table
perfev.session(options: perfev.SessionOptions?): perfev.Session
s:span(spec: perfev.SpanSpec): perfev.Span!
s:event(spec: perfev.EventSpec): perfev.Event!
s:counter(spec: perfev.CounterSpec): perfev.Counter!
s:group(spec: perfev.CounterSpec): perfev.Counter!
s:clone(): perfev.Session
s:every(t: perfev.Duration, f: fun(): any)
s:after(t: perfev.Duration, f: fun(): any)
s:begin(f: fun(): any)
s:done(f: fun(): any)
s:signal(name: string, f: fun(signal: perfev.Signal): any)
s:start(): true!
s:run(): true!
s:stop()
s:close()
s:fd(): integer
s:dispatch(max: integer?): integer?, boolean|string
s:records(options: { fields: string[] }?): fun(): ...any
s:snapshot(options: { record: string?, names: boolean? }?): integer|true!
s:totals(): perfev.Totals
s:task(tid: integer): perfev.Task?
s:configure(options: perfev.SessionOptions)
s:declared(): integer
s:plan(how: "json"|nil): string[], boolean
sim.new(options: perfev.SimOptions?): perfev.Kernel
sim.world(list: table): perfev.Kernel
k:with(f: function, ...: any): any ...
k:install()
k:after(t: string|integer, f: fun())
k:every(t: string|integer, n: integer, f: fun(i: integer))
k:ring(cpu: integer): perfev.KernelRing
k:emit(event: table, type: string, fields: table?): boolean
k:push(event: table, bytes: string): boolean
k:aux(event: table, bytes: string, flags: integer?)
k:count(event: table, n: integer)
k:advance_to(time: integer)
k:task(pid: integer, comm: string, tid: integer?)
k:exit(pid: integer)
k:end_child(pid: integer, status: integer)
k:signal(number: integer, fields: { code: integer, pid: integer, fd: integer }?)
k:tracepoint(name: string, id: integer, fields: string)
k:fail(call: string, nth: integer, errno: integer, size: integer?)
k:leaks(): string[]
perfev.span(spec: perfev.SpanSpec): perfev.Span
span:unmatched(): perfev.Unmatched
span:remarks(): string[]
perfev.symbol.kernel(address: integer): string?, integer?, string
perfev.symbol.process(pid: integer, address: integer): string?, integer?, string
perfev.symbol.file(path: string, offset: integer): string?, integer?
perfev.symbol.source(on: boolean)
perfev.symbol.symfs(dir: string?)
perfev.symbol.kallsyms(path: string?)
perfev.symbol.debuginfod(on: boolean)
perfev.symbol.gone(): string?
perfev.symbol.notes(): string[]
perfev.default_session(): perfev.Session
perfev.event_details(entry: table): table
tool.refuse(who: string, why: string, status: integer?)
tool.require_all_tasks(who: string, why: string, some_cpus: boolean?)
tool.require_all_cpus(who: string)
tool.require_kernel(who: string, why: string)
tool.require_switch_cpus(who: string)
tool.require_machine_pids(who: string)
tool.choose_tasks(who: string, why: string, some_cpus: boolean?): perfev.IsChosen?
tool.sampled_event(name: string): string
tool.replaced_clock(who: string, ev: perfev.Event, command: string?): string?
tool.with_stacks(who: string, opt: table, spec: perfev.EventSpec): perfev.EventSpec
tool.field_list(who: string, flag: string, text: string): string[]
tool.signal_name(number: integer): string?
tool.disk_name(dev: integer): string
tool.container_name(path: string): string, string, string?
tool.with_arguments(spec: perfev.EventSpec): perfev.EventSpec
tool.exec_arguments(r: perfev.Record): string[]?
tool.arguments_text(words: string[]): string
tool.early_facts(spec: perfev.EventSpec, collect: function): function
tool.output_format(): string
tool.json(value: any): string
tool.print_histogram(title: string, unit: string, value: table)
tool.is_in_interrupt(args: perfev.Payload): boolean
tool.socket_addresses(args: perfev.Payload): string, string
tool.follow_allocations(who: string, opt: table): function, function
tool.follow_mappings(who: string, opt: table): function, function
tool.count_cache_uses(): function
tool.table_printer(columns: table[]): function, function
tool.print_durations(took: perfev.Aggregator, column: string, name: function, top: integer?)
tool.print_durations(took: any, column: string, name: function, top: integer?, more: table?)
tool.latency(who: string, opt: table, spec: table): table
tool.read_profile(who: string, path: string, options: table?): perfev.Profile?, string?
tool.print_path_calls(opt: table)
tool.profile(who: string, opt: table, spec: table): perfev.Profile
tool.print_profile(who: string, p: perfev.Profile, opt: table)
tool.show_top(who: string, opt: table, spec: perfev.EventSpec)
tool.explore(who: string, opt: table)
tool.print_function(who: string, name: string, count: any, periods: any, opt: table)
tool.select_calls(who: string, expression: string): table<string, true>
tool.print_calls(opt: table)
tool.print_scheduling(mode: string, opt: table)
tool.print_stat(who: string, opt: table)
units.duration(v: perfev.Duration): integer?, string?
units.size(v: perfev.Size): integer?, string?
units.buffer(v: perfev.Size): integer?, string?
units.moment(v: string|integer): table?, string?
units.list(v: string|integer, what: string): integer[]?, string?
syscalls.name(number: integer, machine: string?): string
syscalls.of(machine: string?): table<integer, string>
]]

-- Documented names that are not functions.
local values = {
  ["perfev.frames.keys"] = "string[]",
  ["perfev.errno"] = "table<string|integer, integer|string>", ["perfev._VERSION"] = "string",
  ["perfev.profile.diff_formats"] = "string[]",
  ["perfev.profile.formats"] = "string[]", ["perfev.hooks.real"] = "table<string, function>",
  ["perfev.hooks"] = false, ["perfev.symbol"] = false, -- classes, see `objects`
  ["perfev.symbol.log"] = "fun(level: integer, text: string)?",
  ["tool.options"] = "table<string, table>", ["tool.MAX_TASKS"] = "integer",
  ["tool.WAKEUPS"] = "string",
  ["sim.options"] = "table<string, string>", ["sim.worlds"] = "string[]",
}

-- The word before a method's or function's name on the pages -> the class, and fields that no
-- table of the pages has.
local objects = {
  { "perfev", "perfev", { "budget perfev.budget", "frames perfev.frames",
    "hooks perfev.hooks", "picture perfev.picture", "profile perfev.profile",
    "symbol perfev.symbol", "sim perfev.sim", "syscalls perfev.syscalls", "tool perfev.tool",
    "units perfev.units" } },
  { "perfev.frames", "perfev.frames" }, { "perfev.budget", "perfev.budget" },
  { "b", "perfev.Budget" },
  { "result", "perfev.BudgetResult", { "ok boolean", "rows table[]", "calls table<string, integer>",
    "counts table<string, integer>", "command_status? perfev.Status" } },
  { "perfev.hooks", "perfev.hooks" }, { "perfev.picture", "perfev.picture" },
  { "perfev.profile", "perfev.profile" }, { "perfev.symbol", "perfev.symbol" },
  { "sim", "perfev.sim" }, { "k", "perfev.Kernel" }, { "units", "perfev.units" },
  { "syscalls", "perfev.syscalls" }, { "tool", "perfev.tool" },
  { "s", "perfev.Session" }, { "watched", "perfev.Calls" },
  { "ev", "perfev.Event" },
  { "r", "perfev.Record" },
  { "rec", "perfev.Recording" },
  { "c", "perfev.Counter", { "command_status? perfev.Status" } },
  { "h", "perfev.HistCounter" },
  { "member", "perfev.CounterEvent", { "error? string", "scale? number", "unit? string",
    "user_only? boolean" } },
  { "a", "perfev.Aggregator" }, { "line", "perfev.Line" },
  { "frame", "perfev.PackFrame", { "header table<string, string|integer>", "bytes string",
    "offset integer" } },
  { "reader", "perfev.FrameReader" },
  { "span", "perfev.Span", { "start perfev.SpanEnd", "stop perfev.SpanEnd",
    "via perfev.SpanEnd", "cancel perfev.SpanEnd" } },
  { "p", "perfev.Profile", { "title? string", "time? integer", "duration? integer" } },
  { "attr", "perfev.Attr" }, { "m", "perfev.Memory" }, { "calls", "perfev.ExpectedCalls" },
}

-- class, page, a name in the first column of the class's table there; then types for tables
-- without such a column: by name, and `any` for the rest.
local classes = {
  { "perfev.SessionOptions", "sessions", "buffer" },
  { "perfev.SessionOptions", "sessions", "on_error" },
  { "perfev.EventSpec: { [integer]: string }", "events", "callchain" },
  { "perfev.EventSpec: { [integer]: string }", "attributes", "sample_period" },
  { "perfev.CounterEventSpec: { [integer]: string, [string]: any }", "counters", "optional", {
    name = "string", filter = "string", period = "integer", optional = 'boolean|"unsupported"' } },
  { "perfev.CounterSpec: { [integer]: string|perfev.CounterEventSpec, [string]: any }", "counters",
    "leader" },
  { "perfev.Reading: { [string]: number }", "counters", "running_ratio", {
    raw = "table<string, integer>", time_enabled = "integer", time_running = "integer",
    running_ratio = "number?", counts = "table<string, table>",
    errors = "table<string, string>?" } },
  { "perfev.OpenOptions", "recordings", "window" },
  { "perfev.Totals", "sessions", "delivered", "integer" },
  { "perfev.Signal", "sessions", "code", "integer?" },
  { "perfev.Unmatched", "spans", "waiting", "integer?" },
  { "perfev.Frame", "stacks", "module" },
  { "perfev.Task", "tasks", "ppid" },
  { "perfev.AggregatorSpec", "aggregators", "max_keys", { by = "string|string[]",
    value = "string", title = "string", unit = "string", max_keys = "integer", rows = "integer",
    slot = "perfev.Duration", low = "integer", high = "integer", step = "integer",
    where = "perfev.Condition", names = "table<string, function>" } },
  { "perfev.BudgetSpec: { [string]: string|number|boolean }", "budgets", "warm" },
  { "perfev.SpanSpec", "spans", "max_waiting", { by = "string|string[]",
    start = "perfev.SpanSource", stop = "perfev.SpanSource", via = "perfev.SpanSource",
    cancel = "perfev.SpanSource", start_by = "string|string[]", stop_by = "string|string[]",
    via_by = "string|string[]", cancel_by = "string|string[]", start_where = "perfev.Condition",
    stop_where = "perfev.Condition", via_where = "perfev.Condition",
    cancel_where = "perfev.Condition", where = "perfev.Condition", least = "perfev.Duration",
    into = "perfev.Aggregator|perfev.Sampler", max_waiting = "integer",
    value = "string|string[]|function", fields = "string[]" } },
  { "perfev.ProfileOptions", "profiles", "max_bytes", {
    values = "(string|table)[]", title = "string", time = "integer", duration = "integer",
    max_bytes = "perfev.Size" } },
  { "perfev.SamplerOptions", "profiles", "under", {
    under = "string|string[]", value = "string", where = "perfev.Condition",
    by = "string|string[]", add = "function" } },
  { "perfev.CallsSpec", "calls", "func", {
    func = "string", start = "string", stop = "string", key = "string", with = "string[]",
    freq = "integer", callchain = "string", kept = "integer" } },
  { "perfev.CallsReport", "calls", "slowest", {
    slowest = "number", over = "perfev.Duration", title = "string" } },
  { "perfev.HeatmapOptions", "pictures", "cells", {
    cells = "table[]", series = "table[]", step = "integer", unit = "string", title = "string",
    format = '"svg"|"html"', notes = "string[]" } },
  { "perfev.HistogramOptions", "pictures", "buckets", {
    buckets = "table[]", series = "table[]", unit = "string", title = "string",
    format = '"svg"|"html"', notes = "string[]" } },
  { "perfev.TimelineOptions", "pictures", "points", {
    spans = "table[]", points = "table[]", counters = "table[]", title = "string" } },
  { "perfev.SimOptions", "testing", "world", { world = "string", cpus = "string",
    release = "string", privileged = "boolean", uid = "integer", pid = "integer",
    now = "integer", ring_start = "integer", disk = "integer", mlock = "integer",
    max_files = "integer", refuse = "function", exec = "function", at_exec = "function",
    command = "function", on_open = "function", idle = "function", stubborn = "boolean" } },
  { "perfev.HookTable", "reference", "perf_event_open", "function" },
}

-- Class -> the tables of its options in perfev.option_tables.
local checked_tables = {
  ["perfev.SessionOptions"] = { "session" }, ["perfev.EventSpec"] = { "event" },
  ["perfev.OpenOptions"] = { "open" }, ["perfev.CounterSpec"] = { "counter" },
  ["perfev.CounterEventSpec"] = { "counter_event" }, ["perfev.SpanSpec"] = { "span" },
  ["perfev.BudgetSpec"] = { "budget" },
  ["perfev.AggregatorSpec"] = { "top", "hist" }, -- the others have less
}

-- The same for classes with functions.
local object_fields = {
  { "perfev.Attr", "attributes", "sample_period" },
  { "perfev.Kernel", "testing", "counts", { log = "string[]", counts = "table<string, integer>",
    events = "table[]" } },
  { "perfev.Event", "events", "members", { name = "string", attr = "perfev.Attr?",
    ids = "integer[]?", error = "string?", members = "perfev.Event[]?" } },
  { "perfev.Session", "sessions", "machine", { command_status = "perfev.Status?",
    started = "boolean", finished = "boolean", machine = "string?", opts = "perfev.SessionOptions",
    recorded = "table<string, any>?" } },
  { "perfev.Recording", "recordings", "header", { events = "table[]", header = "table<string, any>",
    facts = "table<string, any>", warnings = "string[]", error = "string?", errno = "integer?" } },
  { "perfev.Record", "records", "cpumode" },
}

local aliases = [[
---@alias perfev.Duration string|number
---@alias perfev.Size string|number
---@alias perfev.Packed perfev.Aggregator|perfev.Profile
---@alias perfev.Key integer|string|boolean|perfev.Stack
---@alias perfev.Condition any[]
---@alias perfev.AnyStack string|perfev.Stack|(string|table)[]|nil
---@alias perfev.Sink perfev.Aggregator|perfev.Line|perfev.SpanEnd|perfev.Sampler
---@alias perfev.SpanSource string|perfev.EventSpec|true
---@alias perfev.Payload table<string, any>
---@alias perfev.IsChosen fun(tid: integer, comm: string): boolean

---@class perfev.SpanEnd
---@class perfev.Sampler

---@class perfev.Status
---@field exit? integer
---@field signal? integer

---@class perfev.WriterOptions
---@field value? string|integer
---@field baseline? perfev.Profile
---@field absolute? boolean
---@field annotate? boolean
---@field inverted? boolean
---@field width? integer
---@field limit? integer
---@field least? number

---@class perfev.ArgsSpec: { [integer]: perfev.ArgsOption }
---@field summary? string
---@field output? string
---@field epilog? string
---@field all_cpus? boolean

---@class perfev.ArgsOption: { [integer]: string }
---@field [string] any

---@class perfev.Stack: { [integer]: perfev.Frame }
---@field id integer
---@field frames fun(self: perfev.Stack): perfev.Frame[]
---@field folded fun(self: perfev.Stack, comm: string?): string

---@class perfev.Decoder
---@field decode fun(self: perfev.Decoder, bytes: string, pos: integer?): table?, integer|string
---@field records fun(self: perfev.Decoder, bytes: string, options: table?): fun(): ...any

---@class perfev.KernelRing
---@field push fun(self: perfev.KernelRing, record: table): integer
]]

-- ---- the pages ----

local function warn(...) io.stderr:write("types.lua: ", string.format(...), "\n") end

local function cells_of(row)
  local cells = {}
  for cell in row:gsub("\\|", "\0"):gmatch "| *([^|]-) *%f[|]" do
    cells[#cells + 1] = (cell:gsub("%z", "|"))
  end
  return cells
end

-- Adds a row to the section's tables; a table's first row is its head.
local function add_row(section, line, is_new)
  local list = section.tables
  if is_new then
    list[#list + 1] = { head = cells_of(line) }
  elseif not line:find "^|%-%-%-" then
    table.insert(list[#list], cells_of(line))
  end
end

-- Adds a line outside of code to its section, or begins one.
local function read_line(sections, path, text, before)
  local section = sections[#sections]
  if text:find "^#+ " then
    local heading = text:match "^#+ (.*)$"
    sections[#sections + 1] = { path = path, page = path:match "([^/]+)%.md$", heading = heading,
      text = "", tables = {} }
  elseif not section then
    return
  elseif text:find "^|" then
    add_row(section, text, not before:find "^|")
  elseif text ~= "" and not section.is_read then
    section.text = section.text .. text .. " "
  elseif section.text ~= "" then
    section.is_read = true
  end
end

-- Adds a page's sections: { page =, heading =, text = first paragraph, tables = }
local function read_page(path, sections)
  local file <close> = assert(io.open(path))
  local in_code, before = false, ""
  for text in file:lines() do
    if text:find "^```" then in_code = not in_code
    elseif not in_code then read_line(sections, path, text, before) end
    before = text
  end
end

-- "Returns `x`, see [Events](events.md). More." -> "Returns `x`, see Events."
local function first_sentence(text)
  local plain = text:gsub("%[([^]]*)%]%([^)]*%)", "%1"):gsub("%s+$", "") .. " "
  return (plain:match "^(.-[.:]) %f[%u`]" or plain:match "^(.-) $"):gsub(":$", ".")
end

-- ---- types ----

local words = {
  boolean = "boolean", string = "string", text = "string", path = "string", name = "string",
  size = "perfev.Size", duration = "perfev.Duration", ns = "integer", table = "table",
  list = "any[]", names = "string[]", ["function"] = "function", event = "perfev.Event",
  payload = "perfev.Payload", stack = "perfev.Stack", ["list of strings"] = "string[]",
}

local function type_of(word)
  local params = word:match "^`f(%b())"
  if params then return ("fun%s: any"):format(params) end
  local literal = word:match '^`("[%w-]+")`$'
  if literal then return literal end
  if word:find '^`"' then return "string" end
  if word:find "^integer" or word:find "^%d" then return "integer" end
  return words[word:match "^(size) from" or word] or word:find "^`{" and "table" or "any"
end

-- "integer, list or `"self"`" -> { "integer", "any[]", '"self"' }
local function types_of(cell)
  local list, seen = {}, {}
  cell = cell:gsub("^integer, %d+ bits$", "integer")
  cell = cell:gsub("`[^`]*`", function(code) return (code:gsub(",", "\1"):gsub(" ", "\2")) end)
  for word in (cell:gsub(",? or ", ", ") .. ", "):gmatch "(.-), " do
    local found = type_of((word:gsub("\1", ","):gsub("\2", " ")))
    if not seen[found] then list[#list + 1], seen[found] = found, true end
  end
  return list
end

local out = {}
local function line(format, ...)
  out[#out + 1] = select("#", ...) > 0 and format:format(...) or format
end

local function plain(text) return (text:gsub("%[([^]]*)%]%([^)]*%)", "%1"):gsub("\\", "")) end

-- The fields of a class, in order; a name in two tables has the types of both.
local function new_fields() return { by_name = {} } end

local function add_field(fields, name, types, text)
  local field = fields.by_name[name]
  if not field then
    field = { name = name, types = {}, text = text }
    fields[#fields + 1], fields.by_name[name] = field, field
  end
  for _, found in ipairs(types) do
    if not field.types[found] then
      field.types[#field.types + 1], field.types[found] = found, true
    end
  end
end

local function names_in(cell)
  local names = {}
  for name in cell:gsub("`%l+%.", "`"):gmatch "`([%a_][%w_]*)`" do names[#names + 1] = name end
  return names
end

-- "its size; its name" -> a text for each of two names; otherwise all have the whole text
local function texts_of(text, names)
  local parts = {}
  for part in (text .. "; "):gmatch "(.-); " do parts[#parts + 1] = part end
  if #parts == #names then return parts end
  for i = 1, #names do parts[i] = text end
  return parts
end

-- Adds the fields of a table's row: `low`, `high` | integer | ... -> two fields.
local function add_row_fields(fields, row, head, given)
  local typed = head[2] == "type" or head[2] == "value" and not given
  local types = typed and types_of(row[2]) or {}
  local names = names_in(row[1])
  local text = head[3] == "kernel" and "since Linux " .. row[3] or plain(row[#row])
  local texts = texts_of(text, names)
  local pairwise = #names > 1 and #types == #names and not row[2]:find "or "
  for i, name in ipairs(names) do
    local found = pairwise and { types[i] } or typed and types
      or { type(given) == "table" and given[name] or type(given) == "string" and given or "any" }
    add_field(fields, name, found, texts[i])
  end
end

local function has_row_of(rows, wanted)
  for _, row in ipairs(rows) do
    for _, name in ipairs(names_in(row[1])) do
      if name == wanted then return true end
    end
  end
  return false
end

local function add_class_fields(fields, sections, class)
  local name, page, mark, given = table.unpack(class)
  local count = #fields
  for _, section in ipairs(sections) do
    for _, rows in ipairs(section.page == page and section.tables or {}) do
      if has_row_of(rows, mark) then
        for _, row in ipairs(rows) do add_row_fields(fields, row, rows.head, given) end
      end
    end
  end
  if #fields == count then warn("%s: no table of %s.md has a row `%s`", name, page, mark) end
end

-- Options may be left out; another field may be nil if its text says so.
local function field_lines(fields, are_options)
  for _, field in ipairs(fields) do
    local types, optional = table.concat(field.types, "|"):gsub("%?$", "")
    optional = optional > 0 or are_options or field.text:find "`nil`" or field.text:find "absent"
    line("---@field %s%s %s%s", field.name, optional and "?" or "", types,
      field.text ~= "" and " # " .. field.text or "")
  end
end

-- ---- functions ----

-- "a: T, b: { c: U, d: V }" -> a list of the parts between commas outside of brackets
local function split(text)
  local parts, depth, part = {}, 0, ""
  for c in text:gmatch "." do
    if c:find "[({<%[]" then depth = depth + 1 elseif c:find "[)}>%]]" then depth = depth - 1 end
    if c == "," and depth == 0 then
      parts[#parts + 1], part = part:match "^%s*(.-)%s*$", ""
    else
      part = part .. c
    end
  end
  if part:find "%S" then parts[#parts + 1] = part:match "^%s*(.-)%s*$" end
  return parts
end

-- name -> { params = { { name, type }, … }, results = { type, … } }
local function read_signatures()
  local list = {}
  for text in signatures:gmatch "[^\n]+" do
    local name, params, results = text:match "^([%w_.:]+)(%b()):? ?(.*)$"
    local one = { params = {}, results = split(results) }
    for i, param in ipairs(split(params:sub(2, -2))) do
      one.params[i] = { param:match "^([%w_.]+): (.+)$" }
    end
    list[name] = one
  end
  return list
end

local function result_line(result)
  local either = result:match "^(.*)!$"
  line("---@return %s", either and either .. "|nil" or result)
  if either then
    line "---@return string? message"
    line "---@return integer? errno"
  end
end

-- A heading "`s:every(t, f)`" -> "s:every", { "t", "f" } | name alone: nil
local function heading_of(section)
  local name, params = section.heading:match "^`([%w_]+[.:][%w_.]+)(%b())`$"
  if not name then return section.heading:match "^`([%w_]+%.[%w_.]+)`$" end
  local list = {}
  for param in params:sub(2, -2):gsub("[%[%]]", ""):gsub("…", "..."):gmatch "[^, ]+" do
    list[#list + 1] = param
  end
  return name, list
end

-- The functions of perfev.symbol and the methods of some objects are rows of a table.
local function add_functions(all, section, row)
  for code in row[1]:gmatch "`([%w_.]+[.:][%w_]+%b())" do
    all[#all + 1] = { path = section.path, page = section.page, link = section.heading,
      heading = "`" .. code:gsub("{.*}", "fields") .. "`", text = row[2], tables = {} }
  end
end

local function with_table_functions(sections)
  local all = {}
  for _, section in ipairs(sections) do
    all[#all + 1] = section
    for _, rows in ipairs(section.tables) do
      local is_list = rows.head[1] == "function" or rows.head[1] == "method"
      for _, row in ipairs(is_list and rows or {}) do add_functions(all, section, row) end
    end
  end
  return all
end

local function link_of(section)
  local anchor = (section.link or section.heading):lower():gsub("[^%w_%- ]", ""):gsub(" ", "-")
  return ("%s#%s"):format(section.path, anchor)
end

local function function_lines(section, name, params, signature, receiver)
  local given = {}
  for i, param in ipairs(signature.params) do given[i] = param[1] end
  local on_page = table.concat(params, ", ")
  local is_same = table.concat(given, ", ") == on_page
  if not is_same then warn("%s: the page has the parameters (%s)", name, on_page) end
  line ""
  line("---" .. first_sentence(section.text))
  line "---"
  line("---%s", link_of(section))
  for _, param in ipairs(is_same and signature.params or {}) do
    local word, optional = param[2]:gsub("%?$", "")
    line("---@param %s%s %s", param[1], optional > 0 and "?" or "", word)
  end
  for _, result in ipairs(signature.results) do result_line(result) end
  line("function %s(%s) end", receiver, on_page)
end

-- Modules that are functions, too: class -> the function.
local callable = {
  ["perfev.profile"] = "fun(options?: perfev.ProfileOptions): perfev.Profile",
  ["perfev.budget"] = "fun(spec: perfev.BudgetSpec): perfev.Budget",
}

-- The class of an object: fields of the tables, then its functions.
local function object_lines(sections, object, known)
  local prefix, class, more = table.unpack(object)
  line ""
  line("---@class %s%s", class, callable[class] and ": function" or "")
  for _, field in ipairs(more or {}) do line("---@field " .. field) end
  for _, each in ipairs(object_fields) do
    if each[1] == class then
      local fields = new_fields()
      add_class_fields(fields, sections, each)
      field_lines(fields)
    end
  end
  for _, section in ipairs(sections) do
    local name, params = heading_of(section)
    local type = name and not params and values[name]
    if type and name:match "^(.*)%.[^.]*$" == prefix then
      line("---@field %s %s", name:match "[^.]*$", type)
    end
  end
  if callable[class] then line("---@overload " .. callable[class]) end
  local variable = prefix:gsub("%.", "_")
  line("local %s = {}", variable)
  for _, section in ipairs(sections) do
    local name, params = heading_of(section)
    local owner, sign, own = (name or ""):match "^(.*)([.:])([^.:]*)$"
    if owner == prefix and params and not callable[name] then
      function_lines(section, name, params, known[name] or { params = {}, results = {} },
        variable .. sign .. own)
    end
  end
end

-- A row of the callbacks' table: | `mmap` | `mmap`, `mmap2` | ... |
local function add_callback(fields, row)
  local records, second = {}, ""
  for name in row[2]:match "^[^;]*":gmatch "`([%w_]+)`" do
    records[#records + 1] = "perfev.record." .. name
  end
  if row[2]:find "payload" then second = ", args: perfev.Payload" end
  if row[2]:find "bytes" then second = ", bytes: string" end
  local record = #records > 0 and table.concat(records, "|") or "perfev.Record"
  local types = { ("(fun(r: %s%s): any)"):format(record, second), "(fun(...: any): any)",
    "perfev.Sink", "perfev.Sink[]" }
  add_field(fields, row[1]:match "`(.-)`", types, "receives records: " .. plain(row[2]))
end

local function add_callbacks(fields, sections)
  for _, section in ipairs(sections) do
    for _, rows in ipairs(section.page == "events" and section.tables or {}) do
      for _, row in ipairs(rows.head[1] == "callback" and rows or {}) do
        add_callback(fields, row)
      end
    end
  end
end

local function record_lines(sections)
  for _, section in ipairs(sections) do
    local name = section.page == "records" and section.heading:match "^`([%w_]+)` records$"
    if name then
      line ""
      line("---@class perfev.record.%s: perfev.Record", name)
      line("---@field type %q", name)
      local fields = new_fields()
      for _, rows in ipairs(section.tables) do
        for _, row in ipairs(rows) do add_row_fields(fields, row, rows.head) end
      end
      field_lines(fields)
    end
  end
end

-- Types of perfev.check -> annotations. Other types are kept as on their page.
local checked = {
  string = "string", path = "string", boolean = "boolean", number = "number", ["true"] = "true",
  ["false"] = "false", duration = "perfev.Duration", size = "perfev.Size", buffer = "perfev.Size",
  moment = "string|integer", id = "integer", ids = 'integer|integer[]|"self"',
  cpus = "string|integer[]", command = "string[]",
}

-- "integer > 0 | list of string" -> "integer|string[]" | nil: not known
local function checked_type(text)
  local list = {}
  for part in (text .. " | "):gmatch "(.-) | " do
    local choice, element = part:match "^one of (.+)$", checked[part:match "^list of (.+)$"]
    local one = checked[part] or part:match "^(integer)%f[ \0]" or part:match "^(number)%f[ \0]"
      or element and (element:find "|" and "(" .. element .. ")[]" or element .. "[]")
      or choice and choice:gsub("[%w_]+", '"%0"'):gsub(", ", "|")
    if not one then return nil end
    list[#list + 1] = one
  end
  return table.concat(list, "|")
end

-- The types of a class's options as the code checks them.
local function use_checked_types(fields, class)
  for _, table_name in ipairs(checked_tables[class] or {}) do
    for name, found in pairs(option_tables[table_name] or {}) do
      local field = fields.by_name[name]
      local text = type(found) == "table" and found[1] or found
      local annotated = type(name) == "string" and checked_type(text)
      if field and annotated then field.types = { annotated } end
    end
  end
end

-- The classes of options, and of tables that functions return.
local function class_lines(sections)
  local i = 1
  while classes[i] do
    local name, fields = classes[i][1], new_fields()
    line ""
    line("---@class %s", name)
    if name:find "^perfev.EventSpec" then add_callbacks(fields, sections) end
    repeat
      add_class_fields(fields, sections, classes[i])
      i = i + 1
    until not classes[i] or classes[i][1] ~= name
    use_checked_types(fields, name:match "^[%w_.]+")
    field_lines(fields, not name:find "Totals" and not name:find "Reading")
  end
end

-- Every documented name has a type, and every type belongs to a documented name.
local function check_names(sections, known)
  local documented = {}
  for _, section in ipairs(sections) do
    local name, params = heading_of(section)
    if name then
      documented[name] = true
      if params and not known[name] then warn("%s has no line in signatures.lua", name) end
      if not params and values[name] == nil then warn("%s has no type in `values`", name) end
    end
  end
  for name in pairs(known) do
    if not documented[name] then warn("%s has no heading in doc/api", name) end
  end
end

local function write_interface(paths)
  local sections = {}
  for _, path in ipairs(paths) do read_page(path, sections) end
  sections = with_table_functions(sections)
  local known = read_signatures()
  check_names(sections, known)
  line "---@meta perfev"
  line "-- Written by src/gen/types.lua from doc/api; do not edit it."
  line ""
  line(aliases)
  class_lines(sections)
  for _, object in ipairs(objects) do object_lines(sections, object, known) end
  record_lines(sections)
  line ""
  line "return perfev"
end

if arg[1] == "module" then -- a module of its own whose class is in perfev.lua
  line("---@meta %s", arg[2])
  line "-- Written by src/gen/types.lua; do not edit it."
  line("---@type %s", arg[2])
  line "local module"
  line "return module"
else
  write_interface(arg)
end
io.write(table.concat(out, "\n"), "\n")
