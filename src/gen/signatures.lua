-- The types of the module's functions, for src/gen/types.lua: a line for each.
-- `T!` as a result: T, or nil, message, errno.

return [[
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
