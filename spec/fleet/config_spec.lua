-- The configuration of perfl agent: what --check says of it, with line and word.

local run = require "spec.support.run"

describe("perfl agent --check", function()
  local dir

  setup(function()
    dir = run.tempdir()
    run.write_file(dir .. "/key", "")
    run.write_file(dir .. "/open", "")
    os.execute(("chmod 600 %s/key; chmod 666 %s/open"):format(dir, dir))
  end)
  teardown(function() run.remove(dir) end)

  local function check(text)
    local path = run.write_file(dir .. "/agent.conf", text)
    return run { run.perfl, "agent", "--check", "-c", path }, path
  end

  local SERVER = "[server]\nurl = nats://127.0.0.1:4222\n"

  it("accepts a configuration, and says what it has", function()
    local r, path = check("host = web17 # a comment\ngroups = web 'eu'\n" .. SERVER .. [[
[job cpu]
script = profile
args = -a -F "49"
[allow runqlat]
[requests]
longest = 10s
queue = 0
]])
    assert.same({ 0, path .. ": host web17, 1 jobs, 1 allowed scripts, no texts\n", "" }, { r.code, r.out, r.err })
  end)

  it("names the line and the word of each fault, all at once", function()
    local r, path = check(([[
host = web.17
hosts = a
[server]
url = http://127.0.0.1:4222
ca = ca.pem
key = %s/key
certificate = %s/open
user = a b
[serve]
whatever = 1
[job cpu]
script = profle
interval = 10
interval = 20
args = "-a
[job cpu]
[job a.b]
[allow]
[allow ./x.lua]
[allow profile]
option = -- sh
option = [a
[requests]
longest = 1h
queue = many
memory = 1
[metrics]
listen = here
[server]
no setting
]]):format(dir, dir))
    local expected = [[
1: 'web.17': letters, digits, '-' and '_' expected
2: 'hosts': no setting of this section has this name (did you mean 'host'?)
4: 'http://127.0.0.1:4222': an address as in nats://host:4222 or tls://host:4222 expected
5: 'ca.pem': a path from / expected
7: 'DIR/open': other users may change this file
8: 'b': one word expected
9: 'serve': no section has this name (did you mean 'server'?)
12: 'profle': no script has this name (did you mean 'profile'?)
14: 'interval': this setting is there twice
15: '"-a': the quote is not closed
16: 'cpu': [job cpu] is there twice
17: 'a.b': letters, digits, '-' and '_' expected
18: 'allow': the section has no name
19: './x.lua': the name of a script, or a path from / expected
21: '--': a request cannot run a command
22: '[a': a bracket is not closed
24: '1h': 1s to 300s expected
25: 'many': a number from 0 to 64 expected
26: '1': at least 16M expected
28: 'here': a port, ADDRESS:PORT or unix:PATH expected
29: 'server': this section is there twice
30: 'no': not a setting
11: the section [job cpu] needs 'script'
3: the section [server] needs 'url'
27: the section [metrics] needs 'listen'
3: a certificate needs its key, and a key its certificate
]]
    local said = {}
    for line in r.err:gmatch "perfl: ([^\n]*)" do said[line:gsub(dir, "DIR"):gsub("^DIR/agent.conf:", "")] = true end
    for line in expected:gmatch "[^\n]+" do
      assert.is_true(said[line], "missing: " .. line .. "\nin:\n" .. r.err)
      said[line] = nil
    end
    assert.same({}, said)
    assert.equal(2, r.code)
    assert.matches("try: one of", r.err)
    assert.is_string(path)
  end)

  it("needs a server", function()
    local r, path = check "host = a\n"
    assert.same({ 2, ("perfl: %s:1: the section [server] is missing\n"):format(path)
      .. "  try: [server] with url = nats://127.0.0.1:4222\n" }, { r.code, r.err })
  end)

  it("checks the command line of each job as perfl would", function()
    local r, path = check(SERVER .. "[job cpu]\nscript = profile\nargs = -a --freqency 3\n")
    assert.equal(2, r.code)
    assert.matches(path .. ":3: job 'cpu': unknown option '--freqency'", r.err, 1, true)
  end)

  it("refuses a file that others may change, or that is not there", function()
    local path = run.write_file(dir .. "/open.conf", SERVER)
    os.execute("chmod 666 " .. path)
    local r = run { run.perfl, "agent", "--check", "-c", path }
    assert.same({ 2, ("perfl: '%s': other users may change this file\n  try: chown root %s; chmod go-w %s\n"):format(
      path, path, path) }, { r.code, r.err })
    run.write_file(path, SERVER .. "user = a\npassword = b\n")
    os.execute("chmod 644 " .. path)
    r = run { run.perfl, "agent", "--check", "-c", path }
    assert.same({ 2, ("perfl: '%s': every user may read the password\n  try: chmod o= %s\n"):format(path, path) },
      { r.code, r.err })
    r = run { run.perfl, "agent", "--check", "-c", dir .. "/none" }
    assert.same({ 2, ("perfl: cannot read the configuration: %s/none: No such file or directory\n"):format(dir) },
      { r.code, r.err })
  end)

  it("accepts the example, apart from its certificates", function()
    if not run.root then pending "its jobs watch the machine, which needs root" end
    local text = run.slurp "doc/fleet/agent.conf"
    text = text:gsub("/etc/perfev/[%w.]+pem", "/etc/passwd"):gsub("/etc/perfev/host.key", dir .. "/key")
    local r = check(text)
    assert.same({ 0, "" }, { r.code, r.err })
    assert.matches("2 jobs, 2 allowed scripts", r.out)
  end)

  it("prints its options", function()
    local r = run { run.perfl, "agent", "--help" }
    assert.equal(0, r.code)
    assert.matches("%-%-make%-streams", r.out)
    r = run { run.perfl, "agent", "--chek" }
    assert.equal(2, r.code)
  end)
end)
