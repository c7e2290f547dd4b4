--- perfl merge: joins recordings of one machine to a new one, or prints what many runs packed as one answer.

local args = require "perfev.tool.args"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local frame_set = require "perfl.frames.set"
local lazy = require "perfev.base.lazy_module"
local merge = lazy "perfl.rewrite.merge"
local merged_run = lazy "perfl.frames.merged_run"
local message = require "perfl.message"
local native = require "perfl.core"
local open_recording = require "perfl.verb.open_recording"
local output = require "perfl.output"
local perfev = require "perfev"
local verbs = require "perfl.verb"

local M = {}

local FAILED, INCOMPLETE = 1, 4
local REALTIME = 0
local PIECE = 256 << 10 -- bytes read at once
local RECORDINGS = { PERFILE2 = true, ["2ELIFREP"] = true } -- magic2 of tools/perf/util/header.c, in both byte orders

local function new_parser()
  local parser = args.new_parser "perfl merge":add_help(true):description("Add up frames, or join recordings. "
    .. "Of frames (perfl --pack): print one answer, as the script would have printed it if one run had seen "
    .. "everything. Of recordings of one machine: join them to a new one, in the order of time.")
  parser:argument("files"):args("1+"):description("frames, as bytes or text, in any order (-: standard input); or "
    .. "recordings")
  parser:option("-f --format"):argname("FORMAT"):description("frames: as the script's -f; else text, csv, json, prom")
  parser:flag("-j --json"):description("frames: as perfl -j")
  parser:option("--by"):argname("WHAT"):choices({ "host" })
    :description("frames: host: print the host as the first column, or as the first frame of each stack")
  parser:option("--script"):argname("FILE")
    :description("frames: the script, if it does not come with perfl (none: print the aggregators without it)")
  parser:option("--read"):argname("FILE"):count("*")
    :description("frames: let the script read this file, which its arguments name")
  parser:option("--sandbox"):argname("LIMITS")
    :description("frames: the script's limits, as in mem=1G,time=10s (perfl --sandbox)")
  parser:option("-o --output"):argname("NEW")
    :description("the new recording (-: standard output); frames: write the output to NEW")
  parser:flag("-z"):description("compress the new recording with zstd"):target("compress")
  parser:flag("-q --quiet"):description("print no summary and no remarks")
  parser:epilog [[
Exit status of frames: 0; 4: frames are missing or damaged, and the answer is of
the others; 1: the frames cannot be added up, or there are none.]]
  return parser
end

-- ---- recordings ----

local function close_all(recs)
  for _, rec in ipairs(recs) do rec:close() end
end

local function merge_recordings(opts, recs)
  for i, file in ipairs(opts.files) do
    recs[i] = open_recording.open("merge", file)
    if not recs[i] then return open_recording.FAILED end
  end
  local inputs, describe = merge.plan(recs)
  if not inputs then
    message.say(describe)
    return open_recording.FAILED
  end
  return open_recording.write_new(inputs, describe, opts)
end

local function join_recordings(opts)
  local flag = opts.format and "-f" or opts.json and "-j" or opts.by and "--by" or opts.script and "--script"
    or opts.read[1] and "--read" or opts.sandbox and "--sandbox"
  local why = flag and flag .. ": the files are recordings, and are joined to a new one\n"
    .. "try: perfl merge FILE FILE -o NEW" or not opts.files[2] and "two or more files are joined, and this is one\n"
    .. "try: perfl merge FILE FILE -o NEW" or not opts.output and "no name for the new recording\n"
    .. "try: perfl merge FILE FILE -o NEW"
  if why then return select(2, verbs.refuse("merge", why)) end
  local recs <close> = setmetatable({}, { __close = close_all })
  return merge_recordings(opts, recs)
end

-- ---- frames ----

local function shown(path) return path == "-" and "standard input" or ("'%s'"):format(escape(path)) end

-- The bytes of an input: what was read of it already, and then the rest.
local function pieces_of(input)
  local first = input.magic
  return function()
    local bytes = first or input.file:read(PIECE)
    first = nil
    return bytes
  end
end

-- Adds the frames of an input -> true, whether some were damaged | nil, message
local function add_input(set, input, quiet)
  local damaged = false
  for frame, fault in perfev.frames(pieces_of(input)) do
    if native.signal() then break end
    local wrong, code = fault, nil
    if frame then wrong, code = select(2, set:add(frame, core.clock(REALTIME))) end
    if code == core.errno.EINVAL then return nil, wrong end
    if wrong and not quiet then message.say(("%s: %s"):format(shown(input.path), wrong)) end
    damaged = damaged or wrong ~= nil
  end
  return true, damaged
end

-- Opens a file again, unless it is a pipe, which is still open.
local function add_file(set, input, quiet)
  if not input.file then
    local file, why = io.open(input.path, "rb")
    if not file then return nil, escape(why) end
    input = { path = input.path, file = file }
  end
  local ok, what = add_input(set, input, quiet)
  if input.file ~= io.stdin then input.file:close() end
  return ok, what
end

local function say_summary(set)
  local hosts = #set:hosts()
  message.say(("merged %s frame%s of %d host%s"):format(message.grouped(set.nr), set.nr == 1 and "" or "s", hosts,
    hosts == 1 and "" or "s"))
  for _, line in ipairs(set:remarks()) do message.say(line) end
end

local function merge_frames(opts, inputs)
  if opts.compress then
    return select(2, verbs.refuse("merge", "-z: the files have frames, and no recording is written\ntry: without -z"))
  end
  local set, any_damaged = frame_set.new { by_host = opts.by == "host" }, false
  for _, input in ipairs(inputs) do
    local ok, damaged = add_file(set, input, opts.quiet)
    if not ok then
      message.say(damaged)
      return FAILED
    end
    any_damaged = any_damaged or damaged
  end
  if opts.output and opts.output ~= "-" then
    local ok, why = output.redirect(opts.output)
    if not ok then
      message.say(why)
      return FAILED
    end
  end
  local status = merged_run.print(set, opts)
  if status ~= 0 then return status end
  output.check() -- the answer comes before the remarks
  if not opts.quiet then say_summary(set) end
  return (any_damaged or set:is_incomplete()) and INCOMPLETE or 0
end

-- ---- the kind of files ----

-- The first bytes of a file, to recognise recordings -> { path =, magic = [, file =] } | nil, message
local function open_input(path)
  if path == "-" then return { path = path, file = io.stdin } end
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local magic = file:read(8)
  if not file:seek "set" and magic then return { path = path, magic = magic, file = file } end -- a pipe
  file:close()
  return { path = path, magic = magic }
end

-- -> "recordings" or "frames", the inputs | nil, message
local function open_inputs(files)
  local recording, other, unread
  local inputs = {}
  for i, path in ipairs(files) do
    local input, why = open_input(path)
    inputs[i], unread = input or {}, unread or why
    if RECORDINGS[input and input.magic] or core.list(path) then -- a recording can be a directory
      recording = recording or path
    elseif input then
      other = other or path
    end
  end
  if recording and other then
    return nil, ("%s is a recording, and %s is not\ntry: recordings alone, or frames alone"):format(shown(recording),
      shown(other))
  end
  if unread and not recording then return nil, ("cannot read %s"):format(escape(unread)) end
  return recording and "recordings" or "frames", inputs
end

--- The verb.
-- @tparam {string,...} words  of the command line after "merge"
-- @treturn integer  exit status
function M.main(words)
  local opts, status = verbs.parse(new_parser(), "merge", words)
  if not opts then return status end
  local kind, inputs = open_inputs(opts.files)
  if not kind then
    message.say(inputs)
    return FAILED
  end
  if kind == "recordings" then return join_recordings(opts) end
  return merge_frames(opts, inputs)
end

return M
