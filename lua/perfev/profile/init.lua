--- perfev.profile: stacks with values of one or several types.
--
-- The stacks are a tree of interned frames in C (src/profile/stack_tree.c), so memory grows with the number of
-- distinct stacks, not of samples. A frame is a function, module, file and line, kernel or user, inlined or not; the
-- offset in the function is not part of it. Names are escaped when they are added, so writers print them unchanged. The
-- output of a writer depends only on the content of the profile, not on the order in which it was added.

local lazy = require "perfev.base.lazy_module"
local agg = require "perfev.aggregate.aggregator"
local colon = require "perfev.base.method_guard"
local check = require "perfev.base.check"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local exported = require "perfev.aggregate.exported"
local followers = lazy "perfev.profile.follower"
local option_tables = require "perfev.option_tables.profile"
local options = require "perfev.base.options"
local pack = lazy "perfev.aggregate.pack"
local raw = require("perfev.base.tables").plain_copy
local shortage = require "perfev.base.memory_shortage"
local shown = require "perfev.base.show_value"
local symbol = lazy "perfev.symbol"
local where = require "perfev.aggregate.condition"

local M = {}
local Profile = {}
Profile.__index = Profile
Profile.__name = "perfev.profile"

local function fail(level, ...) error(string.format(...), level + 1) end

-- ---- frames ----

local function basename(path) return path:match("([^/]+)/*$") or path end

-- The name of a frame without a symbol.
local function name_of_unknown(module)
  if not module then return "[unknown]" end
  return module:find("^%[.*%]$") and module or "[" .. basename(module) .. "]"
end

local function text_or_nil(value)
  return value ~= nil and value ~= "" and escape(shown(value)) or nil
end

local WAITING_BYTES = 500 -- measured, of a stack that waits for its names
local PAGE = 4096 -- a larger page makes the limit seem further away than it is
local PAGE_OF_ZEROS = ("\0"):rep(PAGE)
local RESERVE_BYTES = 4 << 20 -- kept free while names are looked up, so that there is memory for printing
local NO_ROOM = 0 -- the id of a frame that is new when there are no bytes left

-- Bytes that this process may still map under RLIMIT_AS (ulimit -v), or nil.
local function mappable_bytes()
  local limit = (core.slurp "/proc/self/limits" or ""):match "Max address space%s+(%d+)"
  local pages = (core.slurp "/proc/self/statm" or ""):match "^%d+"
  return limit and pages and math.max(0, tonumber(limit) - tonumber(pages) * PAGE)
end

-- Near a limit Lua collects its garbage at each allocation, so the tree takes at most a third of the remaining bytes.
local function heed_limit(self)
  local bytes, room = mappable_bytes(), self.stack_tree:room()
  if bytes and bytes // 3 < room then
    self.stack_tree:room(bytes // 3 - room)
    self.limited = true
  end
end

-- Returns the id of a frame, which is unique for its name, module, file, line, kernel or user side, and inlining.
local function intern_table(self, frame)
  local module = text_or_nil(frame.module)
  if module == "[unknown]" then module = nil end
  return self.stack_tree:intern(text_or_nil(frame.symbol) or name_of_unknown(module), module, text_or_nil(frame.file),
    math.tointeger(frame.line), frame.kernel, frame.inlined)
end

-- Names a frame of a record's stack -> true if the name is final, or the symbols that name each frame of its file; the
-- ids of the functions that are inlined there, and of the frame.
local function name_frame(self, raw_frame, world)
  local list = {}
  local is_final, symbols = (world or symbol._here()):add_frames(list, raw_frame)
  for i, frame in ipairs(list) do
    list[i] = intern_table(self, frame)
    is_final = is_final and list[i] ~= NO_ROOM
  end
  return is_final and symbols or is_final, table.unpack(list)
end

local function intern_one(self, frame, level)
  local kind = type(frame)
  if kind == "string" then
    local known = self.frame_named[frame] or self.stack_tree:intern(text_or_nil(frame) or "[unknown]")
    if known ~= NO_ROOM then self.frame_named[frame] = known end
    return known
  end
  if kind ~= "table" and kind ~= "userdata" then
    fail(level, "profile: a frame is a name or a table with symbol=, not a %s", kind)
  end
  return intern_table(self, frame)
end

-- Returns the id of the frame of a value in a sampler's key, and keeps it. False: the record did not have the value.
local function intern_part(self, part)
  local id = intern_one(self, part == false and "[unknown]" or tostring(part), 3)
  if id ~= NO_ROOM then self.frame_named[part] = id end
  return id
end

-- Parses a name of folded text with the suffixes of stackcollapse-perf.pl --all: _[k] kernel, _[i] inlined.
local function intern_folded(self, name)
  local bare, mark = name:match("^(.+)_%[([ki])%]$")
  return self.stack_tree:intern(escape(bare or name), nil, nil, nil, mark == "k", mark == "i")
end

-- ---- the tree: node 0 is the root, without a frame ----

-- Counts stacks that did not fit.
local function count_other(self, nr)
  shortage.stacks = shortage.stacks + nr
  shortage.any = shortage.any or nr > 0 and self.limited
end

-- Returns the node of a frame below parent; root is the node below which the stack is added.
local function child(self, parent, frame, root)
  local node, is_other = self.stack_tree:child(parent, frame, root)
  if is_other then count_other(self, 1) end
  return node
end

local function walk_folded(self, root, text)
  local node = root
  for name in text:gmatch("[^;]+") do node = child(self, node, intern_folded(self, name), root) end
  return node
end

local function walk_list(self, root, stack, level)
  local node = root
  for i = #stack, 1, -1 do node = child(self, node, intern_one(self, stack[i], level + 1), root) end
  return node
end

local function walk_stack(self, root, stack, level)
  local kind = type(stack)
  local node = root
  self.stack_tree:begin_stack()
  if kind == "string" then
    node = walk_folded(self, root, stack)
  elseif kind == "table" or kind == "userdata" then
    node = walk_list(self, root, stack, level + 1)
  elseif kind ~= "nil" then
    fail(level, "profile: a stack is a list of frames, the leaf first, or text a;b;c, not a %s", kind)
  end
  return node ~= 0 and node or child(self, 0, self.stack_tree:intern "[unknown]", 0)
end

-- Returns the first value type that is a count.
local function counted_value(self)
  for i, value in ipairs(self.values) do
    if value.unit == "count" then return i end
  end
  return 1
end

-- Out of memory: adds the waiting stacks to (other), because with little memory looking names up is slow.
local function give_up_room(self)
  self.reserve, shortage.any = nil, true
  self.stack_tree:give_up()
  collectgarbage()
end

-- Calls f(self, ...); if memory runs out, frees some and calls it again. f adds all or nothing.
local function add_surely(self, f, ...)
  local ok, result = pcall(f, self, ...)
  if ok then return result end
  if not shortage.is(result) then error(result, 0) end
  give_up_room(self)
  return f(self, ...)
end

-- Adds a record's stack, and looks up its names.
-- @treturn integer  the node of its innermost frame
local function look_up_one(self, root, stack, values)
  local node = add_surely(self, function()
    return self.stack_tree:add_stack(root, stack, self.namer, counted_value(self), table.unpack(values))
  end)
  if self.progress then self.progress(1) end
  return node
end

-- Looks up the names of the waiting stacks.
local function look_up(self)
  local waiting = self.waiting
  self.waiting, self.waiting_of = {}, {}
  self.stack_tree:room(#waiting * WAITING_BYTES)
  for _, one in ipairs(waiting) do look_up_one(self, one.root, one.stack, one.sums) end
  count_other(self, self.stack_tree:spilled())
end

-- Names of a record's stack are looked up on first use. Equal stacks are one object, so a sample costs one table
-- lookup, and names are looked up once per stack.
-- @treturn table  the sums of the stack below root, a number for each value type
local function waiting_sums(self, root, stack)
  if self.stack_tree:is_full() then look_up(self) end
  local below = self.waiting_of[root]
  if not below then
    below = {}
    self.waiting_of[root] = below
  end
  local sums = below[stack]
  if not sums then
    sums = {}
    for i = 1, #self.values do sums[i] = 0 end
    self.stack_tree:room(-WAITING_BYTES)
    table.insert(self.waiting, { root = root, stack = stack, sums = sums })
    below[stack] = sums
  end
  return sums
end

local function check_number(value, level)
  if type(value) ~= "number" or value ~= value or value == math.huge or value == -math.huge then
    fail(level, "profile: a value is a finite number, not %s", type(value) == "number" and tostring(value)
      or "a " .. type(value))
  end
end

-- Checks all values before any is added.
local function numbers(self, level, ...)
  local nr = select("#", ...)
  if nr == 0 then return { 1 } end
  if nr > #self.values then
    fail(level, "profile: %d values for %d value type%s", nr, #self.values, #self.values > 1 and "s" or "")
  end
  local list = { ... }
  for i = 1, nr do check_number(list[i], level + 1) end
  return list
end

local function add_values(self, root, stack, values, level)
  if type(stack) == "userdata" and self.is_resolving then
    look_up_one(self, root, stack, values)
  elseif type(stack) == "userdata" then
    local sums = waiting_sums(self, root, stack)
    for i, value in ipairs(values) do sums[i] = sums[i] + value end
  else
    self.stack_tree:add(walk_stack(self, root, stack, level + 1), table.unpack(values))
  end
end

--- Adds values to a stack.
-- @param stack  a list of frames, the leaf first, each a name or a table of symbol, module, file, line,
--               kernel, inlined; or a record's `r.stack`; or text a;b;c, the leaf last; nil: unknown
-- @param ...    a number for each value type, in their order; default: 1 for the first type
function Profile:add(stack, ...)
  add_values(self, 0, stack, numbers(self, 3, ...), 3)
end

--- Adds values to a stack below additional frames, such as the process name.
-- @tparam string|table under  a name, or a list of names, the outermost first
function Profile:add_under(under, stack, ...)
  local node = 0
  local names = type(under) == "table" and under or { under }
  self.stack_tree:begin_stack()
  for i = 1, #names do node = child(self, node, intern_one(self, names[i], 3), 0) end
  add_values(self, node, stack, numbers(self, 3, ...), 3)
end

-- ---- samplers: samples are counted in C ----

local MOST_KEYS = 1 << 28 -- PEV_AGG_MOST_KEYS

local function check_feed(self, opt, level)
  if (opt.by ~= nil) ~= (opt.add ~= nil) or opt.by ~= nil and opt.under ~= nil then
    fail(level, "profile: sampler: 'by' and 'add' require each other, and replace 'under'")
  end
  if not opt.add and #self.values > (opt.value and 2 or 1) then
    fail(level, "profile: sampler: a profile with %d value types requires 'by' and 'add' (or 'value', with two types)",
      #self.values)
  end
end

local function field_names(opt)
  local names = opt.by or opt.under or {}
  local by = table.move(names, 1, #names, 1, {})
  if not opt.by then by[#by + 1] = "stack" end
  return by
end

--- Makes a sampler: a sample callback that adds each sample's stack. C counts the stacks, and the profile takes them
-- over when it is read. A span can use it as `into`.
-- @tparam[opt] table opt  `under` (names of fields, as for an aggregator's key, whose values become frames around the
--   stack), `value` (the field to sum up: as the only value type, or as the second one beside the number of samples;
--   "took" for a span), `where`. Instead of `under`: `by` (names, as for an aggregator's key) and `add` (a function
--   that adds a key to the profile: it gets the parts of the key, the number of samples and the sum of `value`)
-- @treturn userdata
function Profile:sampler(opt)
  opt = check.take("profile: sampler", opt == nil and {} or opt, option_tables.profile_sampler, 3)
  check_feed(self, opt, 3)
  local condition, program
  if opt.where ~= nil then condition, program = where.read(opt.where, "profile: sampler: where", 3) end
  local ok, one = pcall(core.aggregator, { kind = opt.value and "stats" or "count", word = "profile", value = opt.value,
    by = field_names(opt), max_keys = MOST_KEYS, where = program, condition = condition, lacking = true,
    times = true })
  if not ok then fail(2, "profile: sampler: %s", one) end
  table.insert(self.samplers, { from = one, add = opt.add })
  return one
end

-- Adds one key by the script's function; a value that a record did not have is nil.
local function give_key(add, ...)
  local key, nr = { ... }, select("#", ...)
  for i = 1, nr - 1 do key[i] = key[i] or nil end
  local value = key[nr]
  if math.type(value) then return add(table.unpack(key, 1, nr)) end
  key[nr], key[nr + 1] = value.count, value.sum
  add(table.unpack(key, 1, nr + 1))
end

-- Gives the script the keys that a sampler has counted so far.
local function give_keys(self, sampler)
  local next_key = sampler.from:pairs()
  local function next_one() return table.pack(next_key()) end
  local key = add_surely(self, next_one)
  while key.n > 0 do
    give_key(sampler.add, table.unpack(key, 1, key.n))
    key = add_surely(self, next_one)
  end
end

local MANY = 256 -- keys that are added before progress is reported

-- Adds the keys that a sampler has counted so far, and looks up their names.
local function take_keys(self, sampler)
  local function intern(part) return intern_part(self, part) end
  local function take()
    return self.stack_tree:take(sampler.from, self.namer, counted_value(self), self.frame_named, intern, MANY)
  end
  repeat
    local nr = add_surely(self, take)
    if self.progress and nr > 0 then self.progress(nr) end
  until nr == 0
end

-- Empties the samplers, all or those whose keys are given to the script, and notes the times of all.
local function take_over(self, which)
  for _, sampler in ipairs(self.samplers) do
    local one = sampler.from
    local first, last = agg.times(one)
    if first then
      self.first = math.min(self.first or first, first)
      self.last = math.max(self.last or last, last)
      self.duration = self.last - self.first + self.merged_duration
    end
    if sampler.add then give_keys(self, sampler) elseif which == "all" then take_keys(self, sampler) end
    if sampler.add or which == "all" then one:clear() end
  end
end

-- Empties the profile.
local function empty(self)
  local tree, frames, frame_named, waiting, waiting_of = core.stack_tree(#self.values, self.max_bytes), {}, {}, {}, {}
  self.namer = self.namer or function(...) return name_frame(self, ...) end
  self.stack_tree, self.waiting, self.waiting_of, self.limited = tree, waiting, waiting_of, false
  self.frames, self.frame_named = frames, frame_named -- those that were shown, by id; ids by name
end

--- Empties the profile. Its samplers stay attached.
function Profile:clear()
  local forget = next(self.followers) and followers.prepare_clear(self)
  empty(self)
  for _, sampler in ipairs(self.samplers) do sampler.from:clear() end
  if forget then forget() end
  self.first, self.last, self.duration, self.merged_duration = nil, nil, nil, 0
end

-- ---- content ----

--- Adds 1 for each of these stacks as a sampler with `under = "comm"` does, and looks up their names.
-- @tparam table list  of { comm, stack (nil: unknown) }
-- @tparam[opt] function progress  f(done, all)
-- @treturn {integer,...}  the nodes where they end; call_tree.build() has the numbers that pictures use
function Profile:_add_each(list, progress)
  local nodes, done = {}, 0
  self.stack_tree:forget()
  heed_limit(self)
  self.progress = progress and function()
    done = done + 1
    progress(done, #list)
  end
  for i, one in ipairs(list) do
    self.stack_tree:begin_stack()
    local root = child(self, 0, self.frame_named[one[1]] or intern_part(self, one[1]), 0)
    if one[2] then
      nodes[i] = look_up_one(self, root, one[2], { 1 })
    else
      self.stack_tree:add(root, 1)
      nodes[i] = root
    end
  end
  count_other(self, self.stack_tree:spilled())
  self.progress = nil
  return nodes
end

--- Returns the share of stacks with only one or two user frames, among stacks with user frames whose names have been
-- looked up.
-- @treturn number   0 to 1
-- @treturn integer  number of stacks with user frames
function Profile:short_share()
  local all, short = self.stack_tree:depths()
  return all > 0 and short / all or 0, all
end

--- Looks up the names of the stacks added since the last call. Functions that need names call it, too.
-- @tparam function|nil progress  f(done, all), called before the first stack, and after some or each
function Profile:resolve(progress)
  if progress ~= nil and type(progress) ~= "function" then
    fail(2, "profile: progress is a function, not a %s", type(progress))
  end
  local all, done = #self.waiting, 0
  for _, sampler in ipairs(self.samplers) do all = all + #sampler.from end
  if all == 0 and not progress then return take_over(self, "all") end
  if all > 0 then self.stack_tree:forget() end -- functions may have moved since
  heed_limit(self)
  local has_reserve, reserve = pcall(string.rep, PAGE_OF_ZEROS, RESERVE_BYTES // PAGE) -- by bytes: 40 ms
  self.is_resolving, self.reserve = true, has_reserve and reserve or nil
  self.progress = progress and function(nr)
    done = done + nr
    progress(done, math.max(all, done))
  end
  if progress then progress(0, all) end
  take_over(self, "all")
  look_up(self)
  self.is_resolving, self.progress, self.reserve = false, nil, nil
end

--- Finds a value type by name or number.
-- @treturn integer
-- @treturn table  `{ name =, unit = }`
function Profile:value(which, level)
  if which == nil then which = 1 end
  for i, value in ipairs(self.values) do
    if which == i or which == value.name then return i, value end
  end
  local names = {}
  for i, value in ipairs(self.values) do names[i] = value.name end
  fail((level or 1) + 1, "profile: unknown value type '%s'%s", shown(which),
    check.hint(which, names, "; the value types are " .. table.concat(names, ", ")))
end

--- Returns the sum over all stacks.
-- @treturn number
function Profile:total(which)
  local index = self:value(which, 2)
  take_over(self, "given")
  local sum = self.stack_tree:total(index)
  for _, one in ipairs(self.waiting) do sum = sum + one.sums[index] end
  for _, sampler in ipairs(self.samplers) do
    sum = sum + (select(index, self.stack_tree:sums(sampler.from)) or 0)
  end
  return sum
end

-- Returns a frame as a table, the same for each call.
local function frame_of(self, id)
  local frame = self.frames[id]
  if not frame then
    local key, name, module, file, line, kernel, inlined = self.stack_tree:frame(id)
    frame = { symbol = name, module = module, file = file, line = line, kernel = kernel or nil,
      inlined = inlined or nil, key = key }
    self.frames[id] = frame
  end
  return frame
end

local function list_or_nil(first, ...)
  return first and { first, ... }
end

--- Visits the tree, parents first, siblings in the order of their names.
-- @tparam function visit  f(depth from 1, frame, own values or nil)
function Profile:walk(visit)
  if type(visit) ~= "function" then fail(2, "profile: walk: a function expected, not a %s", type(visit)) end
  self:resolve()
  local tree = self.stack_tree
  tree:sort()
  local node, depth, id = tree:next(0, 0)
  while node do
    visit(depth, frame_of(self, id), list_or_nil(tree:values(node)), node)
    node, depth, id = tree:next(node, depth)
  end
end

--- Iterates over all stacks that have values, in a fixed order.
-- @treturn function  returns a list of frames, the leaf first, and the list of its values
function Profile:stacks()
  return coroutine.wrap(function()
    local path = {}
    self:walk(function(depth, frame, values)
      path[depth] = frame
      if not values then return end
      local stack = {}
      for i = 1, depth do stack[i] = path[depth + 1 - i] end
      coroutine.yield(stack, values)
    end)
  end)
end

-- ---- several profiles ----

-- Maps the other profile's value types to this one's.
local function matching(self, other, level)
  if getmetatable(other) ~= Profile then fail(level, "profile: another profile expected, not a %s", type(other)) end
  local to = {}
  for i, value in ipairs(other.values) do to[i] = self:value(value.name, level) end
  return to
end

-- Adds all or raises.
local function add_all(self, other, subtract, level)
  local to = matching(self, other, level + 1)
  other:resolve()
  self.stack_tree:merge(other.stack_tree, to, subtract)
  count_other(self, self.stack_tree:spilled())
end

local new

-- Not a profile of the script: it is not exported.
function Profile:_empty_like()
  return new({ title = self.title, values = self.values, time = self.time }, 2)
end

--- Adds the stacks of another profile. Value types are matched by name. Durations add up, as in pprof.
-- @treturn profile  this one
function Profile:merge(other)
  add_all(self, other, false, 3)
  if other.duration then
    self.merged_duration = self.merged_duration + other.duration
    self.duration = (self.duration or 0) + other.duration
  end
  if other.time then self.time = math.min(self.time or other.time, other.time) end
  return self
end

--- Subtracts a baseline; smaller values become negative.
-- @treturn profile  a new one
function Profile:diff(baseline)
  local change = self:_empty_like()
  change.duration = self.duration
  add_all(change, self, false, 3)
  add_all(change, baseline, true, 3)
  return change
end

--- Returns another profile with the values since the last call, or all.
function Profile:delta()
  self.own_follower = self.own_follower or followers.new(self, false)
  return self.own_follower:delta()
end

-- ---- as bytes ----

local packed_options = { "title", "values", "time", "duration" }

-- The profile as bytes, or its stacks `first` to `last`; see perfev.aggregate.pack. The duration is with the last one.
function Profile:_pack(first, last)
  self:resolve()
  local all = #self.stack_tree
  first, last = first or 1, last or all
  local spec = { title = self.title, time = self.time, values = {}, duration = last == all and self.duration or nil }
  for i, value in ipairs(self.values) do spec.values[i] = { value.name, value.unit } end
  return self.stack_tree:pack(pack.head("profile", packed_options, spec), first, last)
end

--- The profile as bytes, for perfev.unpack.
function Profile:pack() return self:_pack() end

--- The number of stacks that have values.
function Profile:__len()
  self:resolve()
  return #self.stack_tree
end

local is_packed = { title = "string", time = "number", duration = "number", values = "table" }

local function is_safe(text) return escape(text) == text end

-- Why the options of a packed profile are invalid, or nil.
local function fault_of(spec)
  for name, value in pairs(spec) do
    if type(value) ~= is_packed[name] then return "its content is invalid" end
  end
  for _, value in ipairs(spec.values or {}) do
    if type(value) ~= "table" or type(value[1]) ~= "string" or type(value[2]) ~= "string" or value[1] == "" then
      return "its content is invalid"
    end
  end
  if not spec.values or not spec.values[1] then return "it has no value types" end
end

--- Reads a packed profile, for perfev.unpack.
-- @tparam table head  `options`, and `at`: the position of the stacks in the bytes
-- @tparam integer most  bytes of memory that it may take
function M._unpack(bytes, head, most)
  local spec, why = head.options, fault_of(head.options)
  if why then return pack.refuse(why) end
  local values = {}
  for i, value in ipairs(spec.values) do values[i] = { value[1], unit = value[2] } end
  local ok, self = pcall(new, { title = spec.title, values = values, time = spec.time, duration = spec.duration,
    max_bytes = most }, 2)
  if not ok then return pack.refuse "its value types are invalid" end
  local done, code
  done, why, code = self.stack_tree:unpack(bytes, head.at, is_safe)
  if not done then return pack.refuse(why, code == core.errno.E2BIG and "max_bytes" or nil, code) end
  self.max_bytes = options.MAX_BYTES // 2
  self.stack_tree:room(self.max_bytes - most)
  return self
end

-- ---- writers, loaded on first use ----

--- The writers' names, for a script's options.
M.formats = { "top", "tree", "folded", "html", "svg", "json", "pprof", "speedscope", "firefox", "callgrind" }

--- Those that can compare with a baseline.
M.diff_formats = { "top", "tree", "folded", "html", "svg", "json" }

-- Set at creation or later.
local function check_times(p, level)
  for _, name in ipairs { "time", "duration" } do
    if p[name] ~= nil and type(p[name]) ~= "number" then
      fail(level, "profile: %s is a number of ns, not a %s", name, type(p[name]))
    end
  end
end

-- Each writer returns its text; folded calls write for each part of it, if write is given.
for _, name in ipairs(M.formats) do
  Profile[name] = function(self, opts, write)
    opts = check.take("profile: " .. name, opts == nil and {} or opts, option_tables.profile_writer, 3)
    check_times(self, 3)
    self:resolve()
    if opts.baseline then matching(self, opts.baseline, 3) end
    if opts.value ~= nil then self:value(opts.value, 2) end
    return require("perfev.profile." .. name)(self, opts, write)
  end
end

-- ---- constructors ----

local function checked_value(value, level)
  if type(value) == "string" then value = { value } end
  value = raw(value)
  if type(value) ~= "table" then fail(level, "profile: a value type is a name or { name, unit = }") end
  local name = value[1] or value.name
  if type(name) ~= "string" or name == "" then fail(level, "profile: a value type has no name") end
  if value.unit ~= nil and type(value.unit) ~= "string" then
    fail(level, "profile: unit of %s is a string, not a %s", name, type(value.unit))
  end
  return { name = escape(name), unit = escape(value.unit or "count") }
end

-- A new, empty profile.
-- @tparam table opt  `values` (a list of names or of { name, unit = "count" | "ns" | "bytes" | … }; default
--                    { "samples" }), `title`, `time` (ns since 1970), `duration` (ns), `max_bytes` ("128M") for its
--                    tree: stacks that do not fit are counted as (other)
function new(opt, level)
  opt = check.take("profile", opt == nil and {} or opt, option_tables.profile, level + 1)
  local self = setmetatable({ title = text_or_nil(opt.title), time = opt.time, duration = opt.duration,
    values = {}, samplers = {}, followers = setmetatable({}, { __mode = "v" }), merged_duration = 0,
    removed_sums = false,
    max_bytes = opt.max_bytes or options.MAX_BYTES // 2 }, Profile)
  local values = opt.values or { "samples" }
  for i = 1, rawlen(values) do self.values[i] = checked_value(rawget(values, i), level + 1) end
  empty(self)
  if #self.values == 0 then fail(level, "profile: values is a list of one name or more") end
  return self
end

local function lines_of(source, level)
  if type(source) == "string" then return (source .. "\n"):gmatch("([^\n]*)\n") end
  if type(source) == "function" then return source end
  if io.type(source) == "file" then return source:lines() end
  fail(level, "profile.read: lines, a file or a text expected, not a %s", type(source))
end

-- "a;b 1 2" -> "a;b", { 1, 2 }. It reads numbers from the end, because names may contain blanks.
local function split_line(line, nr)
  local values = {}
  for i = nr, 1, -1 do
    local rest, number = line:match("^(.-)%s+(%-?[%d.]+)%s*$")
    if not rest then return nil end
    line, values[i] = rest, math.tointeger(number) or tonumber(number)
    if not values[i] then return nil end
  end
  return line:find("[^;%s]") and line or nil, values
end

--- Makes a profile from folded text of stackcollapse-perf.pl or perfev: a;b;c 12.
-- @param source     lines (io.lines(path)), a file or the text itself; empty lines and # comments are skipped
-- @tparam table opt as for `perfev.profile`; each line has as many numbers as there are value types
-- @treturn[1] profile
-- @treturn[2] nil
-- @treturn[2] string  the line that is not folded text
function M.read(source, opt)
  local self, number = new(opt, 3), 0
  for line in lines_of(source, 3) do
    number = number + 1
    if line:find("%S") and not line:find("^#") then
      local stack, values = split_line(line, #self.values)
      if not stack then
        return nil, ("folded stacks: line %d does not end with a count: '%s'\ntry: lines such as a;b;c 12")
          :format(number, escape(line:sub(1, 60)))
      end
      add_values(self, 0, stack, values, 3)
    end
  end
  return self
end

colon(Profile, Profile, "profile", "p", [[sampler clear resolve merge diff delta pack total value stacks walk
  ]] .. table.concat(M.formats, " "))

--- Makes a follower, for perfev.aggregate.exported.
function M._follow(profile, only_total) return followers.new(profile, true, only_total) end

--- Makes a profile that is not the script's: no server exports it.
function M._unlisted(opt) return new(opt, 3) end

--- The metatable of profiles.
M._class = Profile

return setmetatable(M, { __call = function(_, opt)
  local profile = new(opt, 3)
  exported.add(profile, { kind = "profile", columns = {}, title = profile.title, follow = M._follow })
  return profile
end })
