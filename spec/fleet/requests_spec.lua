-- Requests to perfl agent: what it runs, what it refuses, and who hears of it; on a real nats-server with TLS, a user
-- for each host, and certificates of doc/fleet/make-ca.sh.

local agents = require "spec.support.agents"
local nats_server = require "spec.support.nats_server"
local perfev = require "perfev"
local protocol = require "perfl.fleet.protocol"
local run = require "spec.support.run"

local has_modules, nats = pcall(require, "perfev.nats")
local server, why_not, dir, asker, answers
local running = {}
local S = 1000000000

local it = require "spec.support.skip"(it, function()
  if not has_modules then pending("perfev.nats is not built: " .. nats) end
  if not server then pending(why_not) end
end)

local function shell(line)
  local r = run(line)
  assert(r.code == 0, line .. "\n" .. r.out .. r.err)
  return r.out
end

local function tls_of(name)
  return { url = server.url, tls_ca = dir .. "/ca/ca.pem", tls_cert = ("%s/ca/%s.pem"):format(dir, name),
           tls_key = ("%s/ca/%s.key"):format(dir, name), inbox = "_INBOX." .. name }
end

local function tls_lines(name, ca)
  return ("ca = %s/ca.pem\ncertificate = %s/%s.pem\nkey = %s/%s.key\n"):format(dir .. "/ca", ca or dir .. "/ca", name,
    ca or dir .. "/ca", name)
end

local function start(opt)
  opt.dir, opt.url = dir, server.url
  opt.config = (opt.server or tls_lines(opt.host)) .. (opt.config or "")
  local one = agents.start(opt)
  running[#running + 1] = one
  return one
end

-- What an agent of these specs permits: the script of spec/support/agents.lua on its world, and signed texts.
local function permits()
  return ([[
[allow %s/all.lua]
option = --sim %s/world.lua
option = -a
option = --comm [a-z]*
option = gate
[allow runqlat]
[signed]
signers = %s/signers
option = -a
option = --sim %s/world.lua
]]):format(dir, dir, dir, dir)
end

-- Asks, and returns the id.
local function ask(fields, text, target)
  fields.op, fields.id, fields.asker = fields.op or "run", fields.id or protocol.new_id(), "spec"
  fields.time = fields.time or perfev.hooks.real.clock(0)
  assert(asker:publish(protocol.run_subject(target or "all"), protocol.encode(fields, text)))
  return fields.id
end

local function run_all(more)
  local fields = { script = dir .. "/all.lua", args = { "--sim", dir .. "/world.lua", "-a", "gate" } }
  for name, value in pairs(more or {}) do fields[name] = value end
  return fields
end

-- The next answer to an id with that operation -> fields, body, host
local kept = {}
local function answer_to(id, op)
  return table.unpack(agents.wait(("an answer '%s'"):format(op), function()
    while true do
      local message = answers:next()
      if not message then break end
      local fields, body = protocol.decode(message.data)
      kept[#kept + 1] = { fields, body, protocol.host_of(message.subject) }
    end
    for i, answer in ipairs(kept) do
      if answer[1].id == id and (answer[1].op == op or answer[1].op == "refused" or answer[1].op == "failed") then
        return table.remove(kept, i)
      end
    end
  end))
end

-- The reason of a refusal, which the log of the agent has, too.
local function refusal(one, fields, text)
  local answer, _, host = answer_to(ask(fields, text), "refused")
  assert.equal("refused", answer.op, answer.reason or answer.text)
  assert.equal(one.host, host)
  assert.matches("event=request_refused", one:log(), 1, true)
  return answer.reason
end

local function fetched(id, host)
  local ready = answer_to(id, "ready")
  assert.equal("ready", ready.op, ready.reason)
  local frames = {}
  ask({ op = "fetch", id = id, from = 1, count = ready.frames }, nil, host)
  for i = 1, ready.frames do
    local frame, body = answer_to(id, "frame")
    assert.equal(i, frame.index)
    frames[i] = body
  end
  ask({ op = "stop", id = id }, nil, host)
  return table.concat(frames), ready
end

local function sign(path, key)
  os.remove(path .. ".sig")
  shell(("ssh-keygen -q -Y sign -n perfev-script -f %s/%s %s 2>&1"):format(dir, key, path))
  return run.slurp(path .. ".sig")
end

describe("perfl agent, asked to run scripts,", function()
  local one

  setup(function()
    dir = run.tempdir()
    agents.write_files(dir)
    if not (has_modules and nats_server.is_installed) then
      why_not = "nats-server is not installed"
      return
    end
    shell(("doc/fleet/make-ca.sh %s/ca web1 db1 && doc/fleet/make-ca.sh %s/other web1"):format(dir, dir))
    server, why_not = nats_server.start { config = shell(("doc/fleet/make-conf.sh %s/ca web1 db1"):format(dir)) }
    for _, name in ipairs { "signer", "stranger" } do
      shell(("ssh-keygen -q -t ed25519 -N '' -C %s -f %s/%s"):format(name, dir, name))
    end
    run.write_file(dir .. "/signers", "ops@example.com " .. run.slurp(dir .. "/signer.pub"))
    asker = assert(nats.connect(tls_of "gather"))
    answers = assert(asker:subscribe "perfev.res.>")
    one = start { host = "web1", top = "groups = web", config = permits() }
    one:wait_for "event=connected"
  end)
  teardown(function()
    for _, each in ipairs(running) do each:remove() end
    if asker then asker:close() end
    if server then server:stop() end
    run.remove(dir)
  end)

  it("runs an allowed script, and sends its frames when they are fetched", function()
    for _, target in ipairs { "all", "web", "web1" } do
      local id = ask(run_all(), nil, target)
      local accepted, _, host = answer_to(id, "accepted")
      assert.same({ "accepted", 0, "web1" }, { accepted.op, accepted.place, host })
      local bytes, ready = fetched(id, "web1")
      assert.same({ true, 0 }, { ready.final, ready.status })
      local r = run({ run.perfl, "merge", "--script", dir .. "/all.lua", "-" }, { stdin = bytes })
      assert.equal(0, r.code, r.err)
      assert.equal(run(("MACHINE=1-1 %s -q --sim %s/world.lua -a %s/all.lua"):format(run.quote(run.perfl), dir,
        dir)).out, r.out)
    end
  end)

  it("refuses scripts and options that its configuration does not permit", function()
    assert.equal("script 'profile' is not allowed on this host; allowed: " .. dir .. "/all.lua, runqlat",
      refusal(one, { script = "profile" }))
    for _, words in ipairs { { "-o", "/tmp/x" }, { "--", "sh" }, { "-a", "--comm", "-o" }, { "--comm", "A" }, { "sh" },
                             { "--record", "/tmp/x" }, { "--sim", "/tmp/other.lua" } } do
      local refused = words[1] == "-a" and "--comm" or words[1]
      assert.equal(("option '%s' is not permitted for script '%s/all.lua' on this host"):format(refused, dir),
        refusal(one, run_all { args = words }))
    end
    assert.equal("option '-a' is not permitted for script 'runqlat' on this host",
      refusal(one, { script = "runqlat", args = { "-a" } }))
    assert.equal("the request names no script", refusal(one, {}))
  end)

  it("runs a text that a known key signed, and no other text", function()
    local path = run.write_file(dir .. "/own.lua", agents.SCRIPT)
    local args = { "--sim", dir .. "/world.lua", "-a" }
    local signature = sign(path, "signer")
    local id = ask({ script = "own.lua", args = args, signature = signature }, agents.SCRIPT)
    local bytes = fetched(id, "web1")
    assert.equal("own", perfev.frames(bytes)().header.script:match "([^/]*)%.lua$")
    assert.matches("event=request_started [^\n]*signer=ops@example.com", one:log())

    assert.equal("the text of 'own.lua' is not signed", refusal(one, { script = "own.lua", args = args },
      agents.SCRIPT))
    assert.equal("the signature of 'own.lua' is not valid: Signature verification failed: incorrect signature",
      refusal(one, { script = "own.lua", args = args, signature = signature }, agents.SCRIPT .. "print 'changed'\n"))
    assert.equal("the signature of 'own.lua' is not valid: its key is not in the list of signers",
      refusal(one, { script = "own.lua", args = args, signature = sign(path, "stranger") }, agents.SCRIPT))
    assert.matches("^the signature of 'own.lua' is not valid: ",
      refusal(one, { script = "own.lua", args = args, signature = "nonsense" }, agents.SCRIPT))
    shell(("cd %s && rm -f own.lua.sig && ssh-keygen -q -Y sign -n file -f signer own.lua 2>&1"):format(dir))
    assert.matches("^the signature of 'own.lua' is not valid: ",
      refusal(one, { script = "own.lua", args = args, signature = run.slurp(path .. ".sig") }, agents.SCRIPT))
    assert.equal("option '-o' is not permitted for script 'own.lua' on this host",
      refusal(one, { script = "own.lua", args = { "-o", "/tmp/x" }, signature = signature }, agents.SCRIPT))
    assert.equal("'../own.lua' is not a name for a script",
      refusal(one, { script = "../own.lua", args = args, signature = signature }, agents.SCRIPT))
  end)

  it("refuses an asker whose clock is 5 s off, and what takes too long", function()
    assert.matches("^the clocks of asker and host differ by 5%.%d s, more than 4 s$",
      refusal(one, run_all { time = perfev.hooks.real.clock(0) - 5 * S }))
    assert.matches("^the clocks of asker and host differ by [45]%.%d s, more than 4 s$",
      refusal(one, run_all { time = perfev.hooks.real.clock(0) + 5 * S }))
    assert.equal("301 s is too long: at most 300 s", refusal(one, run_all { duration_ms = 301000 }))
    assert.equal("an interval of 10 ms is too short: at least 1 s", refusal(one, run_all { interval_ms = 10 }))
  end)

  it("reports a script that fails, with its message", function()
    local path = run.write_file(dir .. "/fails.lua", "error 'planned'")
    local id = ask({ script = "fails.lua", args = { "-a" }, signature = sign(path, "signer") }, "error 'planned'")
    local failed = answer_to(id, "failed")
    assert.equal("failed", failed.op)
    assert.matches("the script ended with status 1", failed.reason)
    assert.matches("planned", failed.text)
  end)

  it("ignores an id that it has seen, hosts that are not named, and what is no request", function()
    local id = ask(run_all())
    fetched(id, "web1")
    ask(run_all { id = id })
    ask(run_all { hosts = "db*" })
    assert(asker:publish("perfev.run.all", "nonsense"))
    one:wait_for "not a request"
    assert.equal(1, select(2, one:log():gsub("event=request_started [^\n]*id=" .. id, "")))
  end)

  it("keeps a queue of four, refuses the next one, and ends a run that the asker stops", function()
    local gated = start { host = "db1", config = permits(), gate = true }
    gated:wait_for "event=connected"
    local ids = {}
    for i = 1, 5 do
      ids[i] = ask(run_all(), nil, "db1")
      assert.equal(math.max(0, i - 1), answer_to(ids[i], "accepted").place)
    end
    local refused = answer_to(ask(run_all(), nil, "db1"), "accepted")
    assert.same({ "refused", "busy: 4 requests wait" }, { refused.op, refused.reason })
    ask({ op = "stop", id = ids[3] }, nil, "db1")
    ask({ op = "stop", id = ids[1] }, nil, "db1")
    gated:open(20)
    for _, i in ipairs { 2, 4, 5 } do fetched(ids[i], "db1") end
    assert.is_nil(gated:log():find("event=request_started [^\n]*id=" .. ids[3]))
    gated:stop()
  end)

  it("tells of frames while a run goes on, and ends one that is too long", function()
    local gated = start { host = "db1", config = permits() .. "[requests]\nlongest = 2s\n", gate = true }
    gated:wait_for "event=connected"
    local id = ask(run_all { interval_ms = 1000 }, nil, "db1")
    local ready = answer_to(id, "ready")
    assert.is_false(ready.final)
    assert.is_true(ready.frames >= 1 and ready.frames <= 13, ready.frames) -- the first second of the world
    repeat ready = answer_to(id, "ready") until ready.final
    assert.equal(0, ready.status)
    gated:open(20)
    gated:stop()
  end)

  it("ends a run after its duration", function()
    local id = ask(run_all { duration_ms = 2000 })
    local bytes, ready = fetched(id, "web1")
    assert.equal(0, ready.status)
    local seconds = perfev.frames(bytes)().header
    assert.is_true(seconds["end"] - seconds.begin <= 3 * S)
  end)

  it("tells askers of runs that end with the agent", function()
    local gated = start { host = "db1", config = permits(), gate = true }
    gated:wait_for "event=connected"
    local id, other = ask(run_all(), nil, "db1"), ask(run_all(), nil, "db1")
    answer_to(other, "accepted")
    gated:kill "TERM"
    assert.equal("the agent ends", answer_to(id, "failed").reason)
    assert.equal("the agent ends", answer_to(other, "failed").reason)
    gated:open(20)
    assert.equal(0, (gated:wait()))
  end)

  it("says hello with what it permits", function()
    local hellos = assert(asker:subscribe "perfev.hello.*")
    one:kill "HUP"
    local other = start { host = "db1", top = "groups = database", config = permits() }
    other:wait_for "event=connected"
    local message = agents.wait("hello", function() return hellos:next() end)
    local hello = protocol.decode(message.data)
    assert.equal("db1", protocol.host_of(message.subject))
    assert.same({ "db1", { "database" }, { dir .. "/all.lua", "runqlat" }, true },
      { hello.host, hello.groups, hello.scripts, hello.signed })
    other:stop()
  end)

  it("does not connect with a certificate of another authority, and says so", function()
    local wrong = start { host = "web1", server = tls_lines("web1", dir .. "/other") }
    local line = wrong:wait_for "event=not_connected"
    assert.matches('hint="the server may not trust the certificate: read its log"', line, 1, true)
    assert.equal(0, (wrong:stop()))
    assert.matches("certificate signed by unknown authority", server:log())
  end)

  it("cannot publish for another host, nor ask for a run: the server refuses, the agent says so", function()
    local wrong = start { host = "web1", server = tls_lines "db1", job = agents.job(dir) }
    wrong:wait_for [[event=server_refuses reason="Permissions Violation for Publish to \"perfev.]]
    wrong:wait_for "event=not_acknowledged"
    wrong:kill "TERM"
    wrong:kill "TERM"
    wrong:wait()

    local before = select(2, one:log():gsub("event=request", ""))
    local host <close> = assert(nats.connect(tls_of "db1"))
    local function refusal_of(subject, text)
      assert(host:publish(subject, text))
      return agents.wait("refusal", function()
        for _, note in ipairs(host:notes()) do
          if note.kind == "error" then return note.text end
        end
      end)
    end
    assert.matches('Permissions Violation for Publish to "perfev.run.all"', refusal_of("perfev.run.all",
      protocol.encode { op = "run", id = protocol.new_id(), script = "runqlat", time = perfev.hooks.real.clock(0) }),
      1, true)
    assert.matches('Permissions Violation for Publish to "perfev.res.web1.x"',
      refusal_of(protocol.result_subject("web1", "x"), "forged"), 1, true)
    assert.equal(before, select(2, one:log():gsub("event=request", "")))
  end)
end)
