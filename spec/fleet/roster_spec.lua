-- The hosts that should answer a request, from their hellos and from a file.

local protocol = require "perfl.fleet.protocol"
local roster = require "perfl.fleet.roster"
local run = require "spec.support.run"

local S = 1000000000
local NOW = 1700000000 * S

local function hello(host, seconds_ago, more)
  local fields = { op = "hello", id = ("0a"):rep(16), host = host, groups = { "web" } }
  for key, value in pairs(more or {}) do fields[key] = value end
  return { subject = protocol.hello_subject(host), data = protocol.encode(fields), time = NOW - seconds_ago * S }
end

-- A connection whose stream has these messages; a fetch returns at most three.
local function connection(messages)
  local at = 0
  return {
    stream_info = function() return { messages = #messages } end,
    pull = function(_, stream, durable, opts)
      assert.same({ "perfev-hello", nil, { from = "last", filter = "perfev.hello.*" } }, { stream, durable, opts })
      return { close = function() end, fetch = function(_, nr)
        local list = table.move(messages, at + 1, math.min(at + math.min(nr, 3), #messages), 1, {})
        at = at + #list
        for i, message in ipairs(list) do message.pending = #messages - at + #list - i end
        return list
      end }
    end,
  }
end

describe("the roster", function()
  it("has the hosts that said hello in the last five minutes, and names the others", function()
    local list = {}
    for i = 1, 7 do list[i] = hello("web" .. i, i * 60) end
    local hosts, gone = roster.read(connection(list), "all", NOW)
    assert.same({ web1 = true, web2 = true, web3 = true, web4 = true, web5 = true }, hosts)
    assert.same({ "web6", "web7" }, gone)
  end)

  it("measures by the server's clock if this machine's is behind", function()
    local list = { hello("web1", 0), hello("web2", 301) }
    assert.same({ web1 = true }, (roster.read(connection(list), "all", NOW - 900 * S)))
  end)

  it("has the hosts of a group, and a host by its name", function()
    local list = { hello("web1", 1), hello("db1", 1, { groups = { "db", "web" } }), hello("db2", 1, { groups = {} }),
                   hello("db3", 1, { groups = "web" }) }
    assert.same({ web1 = true, db1 = true }, (roster.read(connection(list), "web", NOW)))
    assert.same({ db2 = true }, (roster.read(connection(list), "db2", NOW)))
  end)

  it("ignores what is not a hello", function()
    local bad = hello("web2", 1)
    bad.data = "?"
    assert.same({ web1 = true }, (roster.read(connection { hello("web1", 1), bad }, "all", NOW)))
    assert.same({}, (roster.read(connection {}, "all", NOW)))
  end)

  it("is unknown without the stream", function()
    local hosts, why = roster.read({ stream_info = function() return nil, "perfev-hello: Not Found" end }, "all", NOW)
    assert.same({ nil, "perfev-hello: Not Found" }, { hosts, why })
  end)

  it("comes from a file of names", function()
    local dir = run.tempdir()
    local path = dir .. "/hosts"
    run.write_file(path, "# all of them\nweb1 web2\n\ndb.example.org # the first\n")
    assert.same({ web1 = true, web2 = true, ["db-example-org"] = true }, (roster.read_file(path)))
    run.write_file(path, "web*\n")
    assert.same({ nil, ("--hosts @%s: 'web*' is a pattern\ntry: --hosts 'web*'"):format(path) },
      { roster.read_file(path) })
    run.write_file(path, "# nobody\n")
    assert.same({ nil, ("--hosts @%s: the file names no host"):format(path) }, { roster.read_file(path) })
    run.remove(dir)
    assert.matches("No such file", select(2, roster.read_file(path)))
  end)

  it("chooses some of the hosts, others for each id", function()
    local hosts = {}
    for i = 1, 100 do hosts["web" .. i] = true end
    local one, other, nr, both = roster.choose(hosts, 10, "a"), roster.choose(hosts, 10, "b"), 0, 0
    for host in pairs(one) do
      nr, both = nr + 1, both + (other[host] and 1 or 0)
      assert.is_true(hosts[host])
    end
    assert.equal(10, nr)
    assert.is_true(both < 10)
    assert.same(one, roster.choose(hosts, 10, "a"))
    assert.same(hosts, roster.choose(hosts, 1000, "a"))
  end)
end)
