-- perfl gather on a real nats-server, with simulated agents: the answer of the others is exact, and who is missing is
-- named.

local frames = require "perfev.aggregate.frames"
local has_module, why_no_module = pcall(require, "perfev.nats")
local machines = require "spec.support.machines"
local nats_server = require "spec.support.nats_server"
local perfev = require "perfev"
local run = require "spec.support.run"
local simulated = require "spec.support.answering_agents"

local server, why_not, agents

local function hosts_of(nr, prefix)
  local list = {}
  for i = 1, nr do list[i] = ("%s%d"):format(prefix or "web", i) end
  return list
end

local function without(list, ...)
  local dropped, kept = {}, {}
  for _, name in ipairs { ... } do dropped[name] = true end
  for _, name in ipairs(list) do
    if not dropped[name] then kept[#kept + 1] = name end
  end
  return kept
end

local function new_agents(hosts)
  agents = simulated.new(server.url, hosts)
  agents:say_hello()
  return agents
end

local function has(text, part) assert.truthy(text:find(part, 1, true), text) end

local it = require "spec.support.skip"(it, function()
  if not has_module then pending("perfev.nats is not built: " .. why_no_module) end
  if not server then pending(why_not) end
end)

describe("perfl gather", function()
  setup(function()
    if has_module then server, why_not = nats_server.start() end
  end)
  after_each(function()
    if agents then agents:close() end
    agents = nil
  end)
  teardown(function()
    if server then server:stop() end
  end)

  it("prints the answer of all hosts as the script does, and ends with 0", function()
    local hosts = hosts_of(20)
    new_agents(hosts)
    local r = agents:gather { "-d", "1s", agents.script, "-x", "word" }
    assert.same({ agents:expected(hosts), 0 }, { r.out, r.code }, r.err)
    assert.matches("^perfl: gather: 20 of 20 hosts answered in %d+%.%d s\n$", r.err)
    local request = agents:got("run")[1]
    assert.same({ "perfev.run.all", "calls.lua", { "-a", "-x", "word" }, 1000, simulated.text },
      { request.target, request.fields.script, request.fields.args, request.fields.duration_ms, request.body })
    has(request.fields.signature, "of the specs")
    agents:serve_until("message that drops the frames", function() return agents:got("stop")[1] end)
  end)

  it("is exact for the others if one host is silent, one refuses, one fails and one dies", function()
    local hosts = hosts_of(20)
    new_agents(hosts)
    agents.behave.web3 = simulated.refuse "script 'calls.lua' is not allowed\non this host"
    agents.behave.web7 = simulated.silent
    agents.behave.web11 = simulated.dying
    agents.behave.web12 = simulated.fail "\27[2Jthe disk is full"
    local r = agents:gather { "--wait", "2s", "-d", "1ms", agents.script }
    assert.same({ agents:expected(without(hosts, "web3", "web7", "web11", "web12")), 4 }, { r.out, r.code }, r.err)
    assert.matches("gather: 16 of 20 hosts answered in %d+%.%d s; refused 1 %(web3: script 'calls.lua' is not allowed; "
      .. "on this host%); failed 2 %(web11: it accepted the request and fell silent; web12: %S+the disk is full%); "
      .. "silent 1 %(web7%)\n$", r.err)
    assert.is_nil(r.err:find "\27")
  end)

  it("merges no frame of a host that dies before its last one", function()
    local hosts = hosts_of(3)
    new_agents(hosts)
    local list = agents:frames_of("web2", 3)
    local sending = simulated.sending(list)
    agents.behave.web2 = { run = sending.run, fetch = function(self, host, fields)
      self:answer(host, fields.id, { op = "frame", index = 1, frames = 3 }, list[1])
    end }
    local r = agents:gather { "--wait", "1s", "-d", "1ms", agents.script }
    assert.same({ agents:expected { "web1", "web3" }, 4 }, { r.out, r.code }, r.err)
    has(r.err, "2 of 3 hosts answered")
    has(r.err, "failed 1 (web2: it does not send its frames)")
    assert.equal(3, #agents:got "fetch" - 2) -- asked three times
  end)

  it("asks for at most 64 frames at a time", function()
    local hosts, most, asked = hosts_of(4), 0, {}
    new_agents(hosts)
    for _, host in ipairs(hosts) do
      local list = agents:frames_of(host, 100)
      local sending = simulated.sending(list)
      agents.behave[host] = { run = sending.run, fetch = function(_, name, fields)
        for i = fields.from, fields.from + fields.count - 1 do asked[#asked + 1] = { name, fields.id, i, list[i] } end
      end }
    end
    agents:start { "-d", "1ms", agents.script }
    -- Frames are sent only when no further fetch comes: what is asked for until then is outstanding.
    local sent, quiet, seen = 0, 0, 0
    agents:serve_until("end", function()
      most = math.max(most, #asked - sent)
      quiet = #asked == seen and quiet + 1 or 0
      seen = #asked
      for _ = 1, quiet > 5 and math.min(16, #asked - sent) or 0 do
        sent, quiet = sent + 1, 0
        local one = asked[sent]
        agents:answer(one[1], one[2], { op = "frame", index = one[3], frames = 100 }, one[4])
      end
      return run.slurp(agents.dir .. "/code")
    end)
    local r = agents:finish()
    assert.same({ agents:expected(hosts), 0 }, { r.out, r.code }, r.err)
    assert.equal(64, most)
    assert.equal(400, #asked)
  end)

  it("prints by host, in the format that is asked for", function()
    new_agents(hosts_of(2))
    local r = agents:gather { "-q", "--by", "host", "-f", "csv", agents.script }
    assert.same({ "host,comm,value\nweb2,all,2\nweb2,web2,2\nweb1,all,1\nweb1,web1,1\n", "", 0 },
      { r.out, r.err, r.code })
    agents:say_hello()
    r = agents:gather { "-q", "-j", "-o", "answer", agents.script }
    assert.same({ "", "", 0 }, { r.out, r.err, r.code })
    assert.equal(agents:expected(agents.hosts), run.slurp(agents.dir .. "/answer"))
  end)

  describe("prints what one run prints that saw all machines:", function()
    local dir, worlds, all = nil, {}, nil
    setup(function()
      if not server then return end
      dir = run.tempdir()
      for i = 1, 3 do worlds[i] = machines.path(dir, { i }) end
      all = machines.path(dir, { 1, 2, 3 })
    end)
    teardown(function()
      if dir then run.remove(dir) end
    end)

    -- The frames of a script on a simulated machine, as an agent's worker writes them.
    local function packed(i, words)
      local file = ("%s/%d.frames"):format(dir, i)
      local r = run { run.perfl, "-q", "--pack", file, "--sim", worlds[i], "-d", "5s", "--label", "host=web" .. i,
                      table.unpack(words) }
      assert.same({ 0, "" }, { r.code, r.err })
      local list = {}
      for frame in perfev.frames(run.slurp(file)) do list[#list + 1] = frame.bytes end
      return list
    end

    for _, line in ipairs { "syscount -P --top 5", "runqlat --per comm", "latency block --slot 100ms -f svg",
      "offcputime -f folded", "profile -f html" } do
      it(line, function()
        local words = {}
        for word in line:gmatch "%S+" do words[#words + 1] = word end
        new_agents(hosts_of(3))
        for i, host in ipairs(agents.hosts) do
          agents.behave[host] = { run = function(self, name, fields)
            local list = packed(i, { fields.script, table.unpack(fields.args) })
            self.behave[name] = simulated.sending(list)
            self.behave[name].run(self, name, fields)
          end }
        end
        local r = agents:gather { "-q", "-d", "5s", "--wait", "60s", table.unpack(words) }
        local expected = run { run.perfl, "-q", "--sim", all, "-a", "-d", "5s", table.unpack(words) }
        assert.same({ 0, "" }, { r.code, r.err })
        assert.is_true(#expected.out > 60)
        assert.equal(expected.out, r.out)
        assert.same({ words[1], "", nil }, { agents:got("run")[1].fields.script, agents:got("run")[1].body,
          agents:got("run")[1].fields.signature })
      end)
    end
  end)

  it("takes its own options after the script's name, too, and leaves the others to the hosts", function()
    new_agents(hosts_of(1))
    local r = agents:gather { agents.script, "-q", "-d", "3s", "-j", "--comm", "make", "-x", "1" }
    assert.same({ agents:expected(agents.hosts), "", 0 }, { r.out, r.err, r.code })
    local fields = agents:got("run")[1].fields
    assert.same({ { "--comm", "make", "-x", "1" }, 3000 }, { fields.args, fields.duration_ms })
    r = agents:gather { agents.script, "--", "ls" }
    assert.equal(2, r.code)
    has(r.err, "a command cannot run on the hosts: --\n  try: a process by its name: --comm NAME")
  end)

  it("shows the first answer at once with --live, and the whole one at the end", function()
    local hosts = hosts_of(3)
    new_agents(hosts)
    local late
    local sending = simulated.sending(agents:frames_of "web3")
    agents.behave.web3 = { run = function(_, _, fields) late = fields end, fetch = sending.fetch }
    agents:start { "--live", "-d", "1ms", "--wait", "60s", agents.script }
    local first = agents:serve_until("first answer", function()
      local err = run.slurp(agents.dir .. "/err") or ""
      return err:find("gather: the first %d of 3 hosts\n") and run.slurp(agents.dir .. "/out")
    end)
    assert.truthy(({ [agents:expected { "web1", "web2" }] = true, [agents:expected { "web1" }] = true,
      [agents:expected { "web2" }] = true })[first], first)
    sending.run(agents, "web3", late)
    local r = agents:finish()
    assert.same({ first .. agents:expected(hosts), 0 }, { r.out, r.code }, r.err)
  end)

  it("refuses hostile frames and messages, each with its reason, and is exact for the others", function()
    local hosts = hosts_of(3, "good")
    local bad, reasons = {}, {}
    local function add(name, reason, behaviour)
      bad[#bad + 1], reasons[name], hosts[#hosts + 1] = { name, behaviour }, reason, name
    end
    local a = perfev.count { by = "comm", title = "calls" }
    a:inc "evil"
    local other = perfev.count { by = { "comm", "tid" }, title = "calls" }
    other:add(1, "evil", 1)
    add("bytes", "frame 1: frames: ", function() return simulated.sending { "\0no frame" } end)
    add("empty", "frame 1: it is empty", function() return simulated.sending { "" } end)
    add("cut", "frame 1: frames: byte 0: the frame is cut off", function(self)
      return simulated.sending { self:frames_of("cut")[1]:sub(1, -9) }
    end)
    add("two", "frame 1: more than one frame", function(self)
      return simulated.sending { self:frames_of("two")[1]:rep(2) }
    end)
    add("liar", "frame 1 is of another host: 'good1'", function(self)
      return simulated.sending(self:frames_of "good1")
    end)
    add("version", "it has another version of the script (perfev 9.9)", function(self)
      return simulated.sending(frames.encode(self:header("version", { script_sha256 = ("0"):rep(64), version = "9.9" }),
        a))
    end)
    add("kind", "its values are not of the same kind as those of most hosts", function(self)
      return simulated.sending(frames.encode(self:header "kind", other))
    end)
    add("mixed", "frame 2: 'calls' differs from the frames before", function(self)
      return simulated.sending { frames.encode(self:header("mixed", { last = 0 }), a)[1],
        frames.encode(self:header("mixed", { seq = 1 }), other)[1] }
    end)
    add("junk", "frame 1: unpack: they are not from a:pack()", function()
      local c, text = require "perfev.frame", ""
      for key, value in pairs(agents:header("junk", { part = "1/1" })) do text = text .. key .. "=" .. value .. "\n" end
      return simulated.sending { c.join(text, c.compress(("\0"):rep(8 << 20)), 8 << 20) }
    end)
    add("many", "it announces 1099511627776 frames after 0", function()
      return { run = function(self, host, fields)
        self:answer(host, fields.id, { op = "ready", frames = 1 << 40, final = true })
      end }
    end)
    add("pushy", "it sends frames that nobody asked for", function(self)
      return { run = function(_, host, fields)
        self:answer(host, fields.id, { op = "frame", index = 1, frames = 1 }, self:frames_of("pushy")[1])
      end }
    end)
    add("talker", "it sends what is not a message: 'op' is missing", function()
      return { run = function(self, host, fields)
        self.connection:publish(("perfev.res.%s.%s"):format(host, fields.id), "{}\n")
      end }
    end)
    new_agents(hosts)
    for _, one in ipairs(bad) do agents.behave[one[1]] = one[2](agents) end
    local r = agents:gather { "--wait", "10s", agents.script }
    assert.same({ agents:expected(hosts_of(3, "good")), 4 }, { r.out, r.code }, r.err)
    has(r.err, ("3 of %d hosts answered"):format(#hosts))
    has(r.err, ("failed %d ("):format(#bad))
    for name, reason in pairs(reasons) do has(r.err, ("%s: %s"):format(name, reason)) end
  end)

  it("ends with 5 if no host answers", function()
    new_agents { "db1" }
    agents.behave.db1 = simulated.refuse "busy: 4 requests wait"
    local r = agents:gather { agents.script }
    assert.same({ "", 5 }, { r.out, r.code })
    assert.matches("gather: 0 of 1 host answered in %d+%.%d s; refused 1 %(db1: busy: 4 requests wait%)\n$", r.err)
    assert(agents.connection:stream_purge "perfev-hello")
    r = agents:gather { agents.script }
    assert.same({ "", 1 }, { r.out, r.code })
    has(r.err, "no host is there: none of these has said hello\n  try: perfl agent on a host, or --hosts @FILE")
  end)

  it("asks the hosts that are named: by patterns, by a file, by a group", function()
    local hosts = { "web1", "web2", "db1", "db2-example-org" }
    new_agents(hosts)
    local r = agents:gather { "--hosts", "web?,db2.example.org", agents.script }
    assert.same({ agents:expected { "web1", "web2", "db2-example-org" }, 0 }, { r.out, r.code }, r.err)
    assert.equal("web?,db2-example-org", agents:got("run")[1].fields.hosts)
    run.write_file(agents.dir .. "/roster", "web1 # the first\n\ndb2.example.org\nweb9\n")
    r = agents:gather { "--hosts", "@roster", "--wait", "2s", agents.script }
    assert.same({ agents:expected { "web1", "db2-example-org" }, 4 }, { r.out, r.code }, r.err)
    has(r.err, "2 of 3 hosts answered")
    has(r.err, "silent 1 (web9)")
    agents:say_hello({ "db1" }, { groups = { "base" } })
    agents.subscriptions.db1:close()
    agents.subscriptions.db1 = assert(agents.connection:subscribe "perfev.run.*")
    agents.subscriptions.all:close()
    agents.subscriptions.all = nil
    r = agents:gather { "--group", "base", agents.script }
    assert.same({ agents:expected { "db1" }, 0 }, { r.out, r.code }, r.err)
    assert.equal("perfev.run.base", agents:got("run")[3].target)
  end)

  it("does not send what agents would ignore", function()
    new_agents { "web1" }
    local r = agents:gather { "--hosts", "*w*e*b*1*", agents.script }
    assert.equal(1, r.code)
    has(r.err, "gather: agents would not take the request: a pattern of 'hosts' has too many stars")
    local words = { agents.script }
    for i = 1, 65 do words[i + 1] = "w" .. i end
    r = agents:gather(words)
    assert.equal(1, r.code)
    has(r.err, "agents would not take the request: 'args' has too many words")
    assert.same({}, agents.requests)
  end)

  it("asks a share of the hosts, or at most some", function()
    local hosts = hosts_of(40)
    new_agents(hosts)
    local r = agents:gather { "--sample", "25%", agents.script }
    local asked = tonumber(r.err:match "gather: (%d+) of %1 hosts answered")
    assert.equal(0, r.code, r.err)
    assert.is_true(asked > 0 and asked < 30, r.err)
    local _, lines = r.out:gsub("web%d+ ", "")
    assert.equal(asked, lines)
    assert.equal(0.25, agents:got("run")[1].fields.sample)
    r = agents:gather { "--max-hosts", "3", agents.script }
    _, lines = r.out:gsub("web%d+ ", "")
    assert.same({ 3, 0 }, { lines, r.code }, r.err)
    has(r.err, "3 of 3 hosts answered")
  end)

  it("ends the script on the hosts on Ctrl-C, and prints what is there", function()
    local hosts = hosts_of(2)
    new_agents(hosts)
    agents.behave.web2 = simulated.dying
    agents:start { "--live", "-d", "60s", agents.script } -- shows when the frame of web1 is merged
    agents:serve_until("first answer", function()
      return (run.slurp(agents.dir .. "/err") or ""):find "gather: the first 1 of 2 hosts\n"
    end)
    assert.truthy(os.execute("kill -INT $(cat " .. agents.dir .. "/pid)"))
    local r = agents:finish()
    assert.equal(130, r.code, r.err)
    assert.equal(agents:expected { "web1" }:rep(2), r.out)
    has(r.err, "1 of 2 hosts answered")
    has(r.err, "running 1 (web2)")
    agents:serve_until("stop", function() return agents:got("stop")[1] end)
    assert.equal(agents:got("run")[1].fields.id, agents:got("stop")[1].fields.id)
  end)

  it("is exact after a gatherer that was killed, whose frames nobody fetches", function()
    local hosts = hosts_of(5)
    new_agents(hosts)
    agents.behave.web5 = simulated.dying
    agents:start { "--live", "-d", "60s", agents.script }
    agents:serve_until("first answer", function()
      return (run.slurp(agents.dir .. "/err") or ""):find("gather: the first", 1, true)
    end)
    assert.truthy(os.execute("kill -KILL $(cat " .. agents.dir .. "/pid)"))
    assert.equal(137, agents:finish().code)
    agents.behave.web5 = nil
    local r = agents:gather { "-d", "1s", agents.script }
    assert.same({ agents:expected(hosts), 0 }, { r.out, r.code }, r.err)
  end)

  it("shows its progress on a terminal, and erases it", function()
    if not run.have "script" then pending "script(1) is not installed" end
    new_agents { "web1" }
    local text = agents:gather_on_terminal { agents.script }
    assert.matches("\rgather: 0 of 1 hosts answered, [01] run, 0 refused, 0 failed, %d+%.%d s\27%[K", text)
    assert.matches("\r\27%[Kall 1\r\nweb1 1\r\nperfl: gather: 1 of 1 host answered", text)
  end)

  it("signs the text of a script", function()
    if not run.have "ssh-keygen" then pending "ssh-keygen is not installed" end
    new_agents { "web1" }
    assert(os.execute(("cd %s && ssh-keygen -q -t ed25519 -N '' -f key && (printf 'spec '; cat key.pub) >signers")
      :format(agents.dir)))
    os.remove(agents.script .. ".sig")
    local r = agents:gather { agents.script }
    assert.equal(2, r.code)
    has(r.err, "is not signed: agents run texts of others only with a signature\n  try: perfl gather --sign")
    r = agents:gather { "--sign", "key", agents.script }
    assert.equal(0, r.code, r.err)
    run.write_file(agents.dir .. "/signature", agents:got("run")[1].fields.signature)
    assert.truthy(os.execute(("cd %s && ssh-keygen -Y verify -n perfev-script -I spec -s signature -f signers "
      .. "<calls.lua >/dev/null"):format(agents.dir)))
    r = agents:gather { "--sign", "nokey", agents.script }
    assert.equal(2, r.code)
    has(r.err, "cannot sign '" .. agents.script .. "' with the key 'nokey'\n  try: ssh-keygen -Y sign")
  end)

  it("reports a clock that is off, and a script that ended with a status", function()
    new_agents { "web1" }
    local list = agents:frames_of "web1"
    local sending = simulated.sending(list)
    agents.behave.web1 = { fetch = sending.fetch, run = function(self, host, fields)
      self:answer(host, fields.id, { op = "accepted", place = 0, clock = fields.time + 5000000000 })
      self:answer(host, fields.id, { op = "ready", frames = 1, final = true, status = 3, text = "lost\n12 records\n" })
    end }
    local r = agents:gather { agents.script }
    assert.equal(0, r.code)
    assert.matches("gather: web1: the clock is [45]%.%d s ahead\n", r.err)
    has(r.err, "gather: web1: the script ended with status 3: lost; 12 records\n")
  end)

  it("names what is wrong with its command line", function()
    local function refusal(...)
      local r = run({ run.perfl, "gather", ... })
      assert.equal(2, r.code)
      return r.err
    end
    has(refusal(), "no script is named\n  try: perfl gather profile")
    has(refusal "nonesuch", "no script is named 'nonesuch'")
    has(refusal("--sample", "120%", "profile"), "--sample '120%': a share expected, as in 5%")
    has(refusal("--wait", "soon", "profile"), "--wait 'soon': ")
    has(refusal("--max-hosts", "few", "profile"), "--max-hosts 'few': a number from 1 expected")
    has(refusal("--hosts", "web[", "profile"), "--hosts 'web[': a bracket is not closed")
    has(refusal("--hosts", "@/nonexistent", "profile"), "--hosts @/nonexistent: No such file or directory")
    has(refusal("--group", "a.b", "profile"), "--group 'a.b': a group's name has letters, digits, '-' and '_'")
    local r = run { run.perfl, "gather", "-s", "nats://127.0.0.1:1", "profile" }
    assert.equal(1, r.code)
    has(r.err, "gather: cannot connect to nats://127.0.0.1:1: ")
  end)
end)
