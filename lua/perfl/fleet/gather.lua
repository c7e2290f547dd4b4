--- perfl gather: runs a script on many hosts through their agents, and prints one answer as the script would.

local args = require "perfev.tool.args"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local find_script = require "perfl.find_script"
local frames = require "perfev.aggregate.frames"
local gathering = require "perfl.fleet.gathering"
local glob = require "perfev.base.glob"
local lazy = require "perfev.base.lazy_module"
local load_source = require "perfl.load_source"
local merged_run = lazy "perfl.frames.merged_run"
local message = require "perfl.message"
local native = require "perfl.core"
local native_module = require "perfev.base.native_module"
local output = require "perfl.output"
local parse_units = require "perfev.base.parse_units"
local protocol = require "perfl.fleet.protocol"
local real = require("perfev").hooks.real
local roster = require "perfl.fleet.roster"
local sorted_keys = require("perfev.base.tables").sorted_keys
local verbs = require "perfl.verb"

local M = {}

local FAILED, SOME_MISSING, NONE = 1, 4, 5
local MONOTONIC, REALTIME = 1, 0
local S, MS = 1000000000, 1000000
local EPOLL_ADD, EPOLLIN = 1, 1
local TICK_MS, DRAW_NS = 100, S // 4
local NAMES_SHOWN, REASONS_SHOWN = 10, 20
local HOSTS_TEXT_MAX = 48 << 10 -- of a list of hosts in one request
local MESSAGES_IN_A_TURN = 256

local function new_parser()
  local parser = args.new_parser "perfl gather":add_help(true):description("Run a script on many hosts through "
    .. "their agents (perfl agent), and print one answer, as the script would if one run had seen everything.")
    :usage("Usage: perfl gather [options] NAME|SCRIPT [script args]")
  parser:argument("script"):args("?"):description("the script: a name that the agents allow, or a file that is signed")
  parser:option("--hosts"):argname("GLOB|@FILE"):description("only these hosts: patterns separated by commas, or the "
    .. "names in a file, which are all expected to answer")
  parser:option("--group"):argname("NAME"):default("all"):description("only the hosts of a group of their agents")
  parser:option("--sample"):argname("SHARE"):description("only this share of the hosts, as in 5%, at random")
  parser:option("--max-hosts"):argname("NR"):target("max_hosts"):description("at most so many hosts, at random")
  parser:option("-d --duration"):argname("TIME"):default("10s"):description("how long the script runs")
  parser:option("--wait"):argname("TIME"):default("5s"):description("how long to wait for a first sign of a host")
  parser:option("--by"):argname("WHAT"):choices({ "host" })
    :description("host: print the host as the first column, or as the first frame of each stack")
  parser:flag("--live"):description("print the answer of the first hosts at once, and the whole one at the end")
  parser:option("-f --format"):argname("FORMAT"):description("text, csv, json, prom, or a form of the script's -f; "
    .. "after the script's name it is the script's, which counts for it")
  parser:flag("-j --json"):description("as perfl -j")
  parser:option("-o --output"):argname("FILE"):description("write the answer to FILE")
  parser:option("--sign"):argname("KEY"):description("sign the script with this key of ssh-keygen(1); without it "
    .. "SCRIPT.sig has the signature")
  parser:option("-s --server"):argname("URL"):description("the NATS server, as in nats://localhost:4222; several: "
    .. "separated by commas"):default("nats://127.0.0.1:4222")
  parser:option("--ca"):argname("FILE"):description("the authority of its certificate; requires TLS")
  parser:option("--cert"):argname("FILE"):description("the own certificate, for it")
  parser:option("--key"):argname("FILE"):description("its key")
  parser:option("--creds"):argname("FILE"):description("the user's credentials")
  parser:flag("-q --quiet"):description("print no progress, no summary and no remarks")
  parser:epilog [[
Exit status: 0: all hosts answered; 4: some are missing, and the answer is of
the others; 5: no host answered; 1, 2: errors. Ctrl-C ends the script on the
hosts.]]
  return parser
end

-- ---- the command line ----

-- Options without a value; the others take the next word.
local flags = { ["--live"] = true, ["-j"] = true, ["--json"] = true, ["-q"] = true, ["--quiet"] = true,
                ["-h"] = true, ["--help"] = true }

-- Splits the words at the script's name -> own words, the script's words
local function split(words)
  local i = 1
  while words[i] and words[i]:sub(1, 1) == "-" and words[i] ~= "-" do
    local has_value = not flags[words[i]] and not words[i]:find "=" and not words[i]:find "^%-%l."
    i = i + (has_value and 2 or 1)
  end
  return table.move(words, 1, math.min(i, #words), 1, {}), table.move(words, i + 1, #words, 1, {})
end

-- Options of perfl, which may stand after the script's name, too. -f is the script's: some count otherwise for it.
local taken = { ["-d"] = "duration", ["--duration"] = "duration", ["-o"] = "output", ["--output"] = "output" }
local taken_flags = { ["-j"] = "json", ["--json"] = "json", ["-q"] = "quiet", ["--quiet"] = "quiet" }
local targets = { ["-a"] = true, ["--all-cpus"] = true, ["-C"] = true, ["--cpu"] = true, ["-p"] = true,
                  ["--pid"] = true, ["-t"] = true, ["--tid"] = true, ["--uid"] = true, ["--comm"] = true,
                  ["--cgroup"] = true }

-- Takes own options out of the script's words; without a target, the script watches the whole machine.
-- -> the words for the hosts | nil, message
local function take_options(opts, words)
  local out, has_target, i = {}, false, 1
  while i <= #words do
    local word = words[i]
    if word == "--" then
      return nil, "a command cannot run on the hosts: --\ntry: a process by its name: --comm NAME"
    end
    if taken[word] and words[i + 1] then
      opts[taken[word]] = words[i + 1]
      i = i + 1
    elseif taken_flags[word] then
      opts[taken_flags[word]] = true
    else
      has_target = has_target or targets[word] or targets[word:match "^(%-%-[^=]+)="] or false
      out[#out + 1] = word
    end
    i = i + 1
  end
  if not has_target then table.insert(out, 1, "-a") end
  return out
end

local function read_duration(name, text)
  local ns, why = parse_units.duration(text)
  if not ns then return nil, ("--%s '%s': %s"):format(name, escape(text), why) end
  if ns < MS then return nil, ("--%s '%s': at least 1ms expected"):format(name, escape(text)) end
  return ns
end

local function read_share(text)
  local number, percent = text:match "^([%d.]+)(%%?)$"
  local share = tonumber(number)
  if percent == "%" and share then share = share / 100 end
  if not share or share <= 0 or share > 1 then
    return nil, ("--sample '%s': a share expected, as in 5%%"):format(escape(text))
  end
  return share
end

-- Patterns as the hosts have their names in subjects: with '-' for dots.
local function read_patterns(text)
  for pattern in text:gmatch "[^,]+" do
    if not pcall(glob.matcher, pattern) then
      return nil, ("--hosts '%s': a bracket is not closed"):format(escape(text))
    end
  end
  return (text:gsub("%.", "-"))
end

-- Reads the values of opts in place -> true | nil, message
local function read_values(opts)
  local why
  opts.wait_ns, why = read_duration("wait", opts.wait)
  if not why then opts.duration_ns, why = read_duration("duration", opts.duration) end
  if opts.sample and not why then opts.share, why = read_share(opts.sample) end
  if opts.hosts and not why then
    local path = opts.hosts:match "^@(.+)$"
    if path then opts.listed, why = roster.read_file(path) else opts.patterns, why = read_patterns(opts.hosts) end
  end
  if why then return nil, why end
  if opts.max_hosts then
    opts.most_hosts = opts.max_hosts:find "^%d+$" and math.tointeger(tonumber(opts.max_hosts)) or 0
    if opts.most_hosts < 1 then
      return nil, ("--max-hosts '%s': a number from 1 expected"):format(escape(opts.max_hosts))
    end
  end
  if not protocol.is_token(opts.group) then
    return nil, ("--group '%s': a group's name has letters, digits, '-' and '_'"):format(escape(opts.group))
  end
  return true
end

-- ---- the script ----

local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

-- The signature of a file -> text | nil, message
local function signature_of(path, key)
  if key then
    local command = ("ssh-keygen -Y sign -n %s -f %s < %s"):format(protocol.NAMESPACE, quoted(key), quoted(path))
    local pipe = io.popen(command .. " 2>/dev/null")
    local text = pipe:read "a"
    if pipe:close() and text:find "BEGIN SSH SIGNATURE" then return text end
    return nil, ("cannot sign '%s' with the key '%s'\ntry: %s"):format(escape(path), escape(key), escape(command))
  end
  local file = io.open(path .. ".sig", "rb")
  local text = file and file:read(64 << 10)
  if file then file:close() end
  if text then return text end
  return nil, ("'%s' is not signed: agents run texts of others only with a signature\n"
    .. "try: perfl gather --sign ~/.ssh/id_ed25519 %s"):format(escape(path), message.shell { path })
end

-- -> { name =, text =, path =, body =, signature = } | nil, message
local function load_script(opts)
  local path, why = find_script.resolve(opts.script)
  if not path then return nil, why end
  local text = find_script.built_in_text(path)
  if text then return { name = opts.script, text = text } end
  if path == "-" then return nil, "the script cannot come from standard input: its signature is checked" end
  text, why = load_source.read(path)
  if not text then return nil, why end
  if #text > protocol.TEXT_MAX then return nil, ("'%s' is larger than 256 KiB"):format(escape(path)) end
  local signature
  signature, why = signature_of(path, opts.sign)
  if not signature then return nil, why end
  return { name = path:match "[^/]+$", text = text, path = path, body = text, signature = signature }
end

-- ---- the request ----

local function connect(opts)
  local nats, why, remedy = native_module "perfev.nats"
  if not nats then return nil, why .. "\ntry: " .. (remedy or "make deps, make") end
  local urls = {}
  for url in opts.server:gmatch "[^,]+" do urls[#urls + 1] = url end
  local connection, failure = nats.connect { url = urls, tls_ca = opts.ca, tls_cert = opts.cert, tls_key = opts.key,
    creds = opts.creds, name = "perfl gather" }
  return connection, failure and escape(failure)
end

local function asker()
  local host = (core.slurp "/proc/sys/kernel/hostname" or "unknown"):match "%S+" or "unknown"
  return ("%s@%s"):format(os.getenv "USER" or ("uid %d"):format(native.uid), host)
end

-- The fields of `run`, without the hosts that --max-hosts chooses.
local function request_of(opts, script, script_args)
  return { op = "run", id = protocol.new_id(), script = script.name, args = script_args, signature = script.signature,
           duration_ms = opts.duration_ns // MS, hosts = opts.patterns, sample = opts.share, asker = asker() }
end

local function restrict(hosts, request)
  local kept = {}
  for host in pairs(hosts) do
    if protocol.names_host(request, host) then kept[host] = true end
  end
  return kept
end

-- -> set of the hosts that should answer, hosts that are gone | nil: unknown, why
local function expected_hosts(opts, connection, request)
  local hosts, gone = opts.listed, {}
  if not hosts then
    hosts, gone = roster.read(connection, opts.group, core.clock(REALTIME))
    if not hosts then
      return nil, ("the roster of hosts is unknown, so that silent hosts are not noticed: %s"):format(escape(gone))
    end
  end
  local kept = restrict(hosts, request)
  if opts.most_hosts then kept = roster.choose(kept, opts.most_hosts, request.id) end
  return kept, gone
end

-- The requests to publish: { subject, fields }. Chosen hosts are named in one, or get one each.
local function addressed(opts, request, expected)
  if not (opts.listed or opts.most_hosts) then return { { protocol.run_subject(opts.group), request } } end
  local names = sorted_keys(expected or {})
  local text = table.concat(names, ",")
  request.sample = nil
  if #text <= HOSTS_TEXT_MAX then
    request.hosts = text
    return { { protocol.run_subject(opts.group), request } }
  end
  local list = {}
  request.hosts = nil
  for i, name in ipairs(names) do list[i] = { protocol.run_subject(name), request } end
  return list
end

-- ---- progress ----

local Progress = {}
Progress.__index = Progress

local function new_progress(is_quiet)
  return setmetatable({ columns = not is_quiet and native.terminal(2) or nil, due = 0 }, Progress)
end

function Progress:erase()
  if self.is_drawn then io.stderr:write("\r\27[K") end
  self.is_drawn = false
end

function Progress:is_due(now)
  if not self.columns or now < self.due then return false end
  self.due = now + DRAW_NS
  return true
end

function Progress:draw(text)
  self.is_drawn = true
  io.stderr:write("\r", text:sub(1, self.columns - 1), "\27[K")
end

-- ---- waiting for the answer ----

-- Gives the bytes to a perfl merge of its own: this process can run the script once, at the end.
local function print_first(opts, script, bytes)
  local words = { core.exe(), "merge", "-q" }
  local function add(...) table.move({ ... }, 1, select("#", ...), #words + 1, words) end
  if opts.format then add("-f", opts.format) end
  if opts.json then add "-j" end
  if opts.by then add("--by", opts.by) end
  if script.path then add("--script", script.path) end
  if opts.output then add("-o", opts.output) end
  add "-"
  io.stdout:flush()
  local pipe = io.popen(message.shell(words), "w")
  pipe:write(bytes)
  pipe:close()
end

local function progress_text(state, now)
  local outcome = state.gathering:outcome()
  return ("gather: %d of %d hosts answered, %d run, %d refused, %d failed, %.1f s"):format(outcome.done,
    outcome.asked, #outcome.running, #outcome.refused, #outcome.failed, (now - state.began) / S)
end

local function take_messages(state)
  local is_more = false
  for i = 1, MESSAGES_IN_A_TURN do
    local received = state.answers:next()
    if not received then break end
    is_more = i == MESSAGES_IN_A_TURN
    state.gathering:take(received.subject, received.data, core.clock(MONOTONIC), core.clock(REALTIME))
  end
  return is_more
end

local function say_notes(state)
  for _, note in ipairs(state.connection:notes()) do
    if note.kind ~= "connected" and not state.opts.quiet then
      state.progress:erase()
      message.say(("gather: %s: %s"):format(note.kind == "error" and "the server refuses" or note.kind,
        escape(note.text or "")))
    end
  end
end

-- Shows the first answer of --live, when no message waits.
local function show_first(state, is_more)
  if not state.is_live or is_more or state.gathering.nr_done == 0 then return end
  state.is_live = false
  local outcome = state.gathering:outcome()
  state.progress:erase()
  if outcome.done == outcome.asked then return end -- the whole answer follows
  print_first(state.opts, state.script, state.gathering:take_bytes())
  if not state.opts.quiet then
    message.say(("gather: the first %d of %d hosts"):format(outcome.done, outcome.asked))
  end
end

-- -> the number of a signal, or nil
local function wait_for_answers(state)
  local poll = real.epoll_create()
  real.epoll_ctl(poll, EPOLL_ADD, state.connection:fd(), EPOLLIN, 0)
  real.epoll_ctl(poll, EPOLL_ADD, native.signal_fd(), EPOLLIN, 0)
  local is_more, signal = false
  repeat
    real.epoll_wait(poll, 2, is_more and 0 or TICK_MS)
    signal = native.signal()
    is_more = take_messages(state)
    local now = core.clock(MONOTONIC)
    state.gathering:tick(now)
    say_notes(state)
    show_first(state, is_more)
    if state.progress:is_due(now) then state.progress:draw(progress_text(state, now)) end
  until signal or not is_more and state.gathering:is_over(now)
  real.close(poll)
  state.progress:erase()
  return signal
end

-- The hosts end the run, and drop its frames.
local function stop_hosts(state)
  local text = protocol.encode { op = "stop", id = state.request.id }
  local ok = true
  for _, one in ipairs(state.requests) do ok = ok and state.connection:publish(one[1], text) end
  return ok and state.connection:flush(2000)
end

-- ---- the summary ----

-- { "a", "b" } -> "a, b"; a long list is cut
local function name_list(names)
  if #names <= NAMES_SHOWN then return table.concat(names, ", ") end
  return ("%s and %d more"):format(table.concat(names, ", ", 1, NAMES_SHOWN), #names - NAMES_SHOWN)
end

-- { { host, reason } } -> "db3, db4: not allowed; db5: busy"
local function reasons_text(list)
  local by_reason, reasons, parts = {}, {}, {}
  for _, one in ipairs(list) do
    if not by_reason[one[2]] then
      by_reason[one[2]], reasons[#reasons + 1] = {}, one[2]
    end
    table.insert(by_reason[one[2]], one[1])
  end
  for i, reason in ipairs(reasons) do
    if i > REASONS_SHOWN then
      parts[i] = "..."
      break
    end
    parts[i] = ("%s: %s"):format(name_list(by_reason[reason]), reason)
  end
  return table.concat(parts, "; ")
end

--- "997 of 1000 hosts answered in 2.1 s; refused 1 (db3: not allowed); silent 2 (web17, web18)"
function M.summary(outcome, ns)
  local text = ("%d of %d host%s answered in %.1f s"):format(outcome.done, outcome.asked,
    outcome.asked == 1 and "" or "s", ns / S)
  for _, what in ipairs { "refused", "failed" } do
    local list = outcome[what]
    if #list > 0 then text = ("%s; %s %d (%s)"):format(text, what, #list, reasons_text(list)) end
  end
  for _, what in ipairs { "running", "silent" } do
    local list = outcome[what]
    if #list > 0 then text = ("%s; %s %d (%s)"):format(text, what, #list, name_list(list)) end
  end
  return text
end

local function say_remarks(state, set, gone)
  for _, line in ipairs(state.gathering:remarks()) do message.say("gather: " .. line) end
  for _, line in ipairs(set and set:remarks() or {}) do message.say("gather: " .. line) end
  if #gone > 0 then
    message.say(("gather: not expected, because they said nothing for five minutes: %s"):format(name_list(gone)))
  end
end

-- Prints the answer and the summary -> exit status
local function finish(state, signal, gone)
  local opts, ns = state.opts, core.clock(MONOTONIC) - state.began
  local set = state.gathering:set()
  local outcome = state.gathering:outcome()
  local status = set and 0 or NONE
  if set then
    if opts.output and opts.output ~= "-" then
      local ok, why = output.redirect(opts.output)
      if not ok then
        message.say(why)
        return FAILED
      end
    end
    status = merged_run.print(set, { format = opts.format, json = opts.json, script = state.script.path,
                                     quiet = opts.quiet })
  end
  if not opts.quiet then
    say_remarks(state, set, gone)
    message.say("gather: " .. M.summary(outcome, ns))
  end
  if signal then return 128 + signal end
  if status ~= 0 then return status end
  return (outcome.done < outcome.asked or set:is_incomplete()) and SOME_MISSING or 0
end

-- ---- the verb ----

-- Asks the hosts -> the state | nil, message
local function ask(opts, script, script_args)
  local connection, why = connect(opts)
  if not connection then return nil, why end
  local request = request_of(opts, script, script_args)
  local valid, fault = protocol.decode(protocol.encode(request))
  if not valid then return nil, "agents would not take the request: " .. escape(fault) end
  local expected, gone = expected_hosts(opts, connection, request)
  if not expected and opts.most_hosts then return nil, "--max-hosts: " .. gone end
  if expected and not next(expected) then
    return nil, "no host is there: none of these has said hello\ntry: perfl agent on a host, or --hosts @FILE"
  end
  local state = { opts = opts, script = script, connection = connection, request = request, is_live = opts.live,
                  gone = expected and gone or {}, progress = new_progress(opts.quiet) }
  if not expected and not opts.quiet then message.say("gather: " .. gone) end
  state.answers, why = connection:subscribe(protocol.result_subject("*", request.id))
  if not state.answers then return nil, escape(why) end
  state.requests = addressed(opts, request, expected)
  state.began, request.time = core.clock(MONOTONIC), core.clock(REALTIME)
  state.gathering = gathering.new({ request = request, expected = expected, digest = frames.sha256(script.text),
    by_host = opts.by == "host", wait_ns = opts.wait_ns, duration_ns = opts.duration_ns, keep_bytes = opts.live,
    fetch = function(host, from, count)
      connection:publish(protocol.run_subject(host), protocol.encode { op = "fetch", id = request.id, from = from,
        count = count })
    end }, state.began, request.time)
  for _, one in ipairs(state.requests) do
    local ok
    ok, why = connection:publish(one[1], protocol.encode(one[2], script.body))
    if not ok then return nil, escape(why) end
  end
  return state
end

local function gather(opts, script, words)
  local state, why = ask(opts, script, words)
  if not state then
    message.say("gather: " .. why)
    return FAILED
  end
  local signal = wait_for_answers(state)
  stop_hosts(state)
  if signal then native.heed() end
  state.connection:close()
  return finish(state, signal, state.gone)
end

--- The verb.
-- @tparam {string,...} words  of the command line after "gather"
-- @treturn integer  exit status
function M.main(words)
  local own, script_words = split(words)
  local opts, status = verbs.parse(new_parser(), "gather", own)
  if not opts then return status end
  local function refuse(why) return select(2, verbs.refuse("gather", why)) end
  if not opts.script then return refuse "no script is named\ntry: perfl gather profile" end
  local script, why = load_script(opts)
  if not script then return refuse(why) end
  local args_of_hosts, ok
  args_of_hosts, why = take_options(opts, script_words)
  if not args_of_hosts then return refuse(why) end
  ok, why = read_values(opts)
  if not ok then return refuse(why) end
  return gather(opts, script, args_of_hosts)
end

return M
