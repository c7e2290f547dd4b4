-- The messages between agents and gatherers.

local protocol = require "perfl.fleet.protocol"

local ID = ("0a"):rep(16)

describe("the protocol of agents", function()
  it("reads back what it writes, with a body of any bytes", function()
    local fields, body = protocol.decode(protocol.encode({ op = "run", id = ID, script = "profile",
      args = { "-F", "99\n\"", "" }, time = 1700000000000000001, sample = 0.05 }, "a\n\0b"))
    assert.same({ op = "run", id = ID, script = "profile", args = { "-F", "99\n\"", "" }, time = 1700000000000000001,
                  sample = 0.05 }, fields)
    assert.equal("a\n\0b", body)
    assert.same({}, protocol.decode(protocol.encode { op = "run", id = ID, args = {} }).args)
  end)

  it("refuses what is not a message, with a reason", function()
    local function reason(bytes) return select(2, protocol.decode(bytes)) end
    assert.equal("the line of JSON is missing or too long", reason "no line")
    assert.equal("the line of JSON is missing or too long", reason((" "):rep(70000) .. "{}\n"))
    assert.equal("byte 1: a value expected", reason "?\n")
    assert.equal("not a JSON object", reason "7\n")
    assert.equal("'op' is missing", reason "{}\n")
    assert.equal("'op' is not of type string", reason '{"op":null}\n')
    assert.equal("'time' is not of type integer", reason '{"op":"run","time":1.5}\n')
    assert.equal("'id' is not a word", reason '{"op":"run"}\n')
    assert.equal("'id' is not a word", reason '{"op":"run","id":"a.>"}\n')
    assert.equal("word 2 of 'args' is not a text", reason '{"op":"run","id":"a","args":["x",3]}\n')
    assert.equal("'args' has too many words", reason('{"op":"run","id":"a","args":["' .. ('x","'):rep(64) .. '"]}\n'))
    assert.equal("a pattern of 'hosts' has too many stars", reason '{"op":"run","id":"a","hosts":"*a*b*c*d*"}\n')
    assert.equal("a pattern of 'hosts' has a bracket that is not closed", reason '{"op":"run","id":"a","hosts":"["}\n')
  end)

  it("names hosts by patterns", function()
    local run = { id = ID, hosts = "web1?,db*" }
    assert.is_true(protocol.names_host(run, "web17"))
    assert.is_true(protocol.names_host(run, "db"))
    assert.is_false(protocol.names_host(run, "web1"))
    assert.is_true(protocol.names_host({ id = ID }, "any"))
  end)

  it("samples a share of the hosts that asker and host agree on, another one for each id", function()
    local counts = {}
    for i = 1, 20 do
      counts[i] = 0
      local id = ("%032x"):format(i)
      for host = 1, 1000 do
        if protocol.names_host({ id = id, sample = 0.05 }, "web" .. host) then counts[i] = counts[i] + 1 end
      end
      assert.is_true(counts[i] > 15 and counts[i] < 100, counts[i])
    end
    local nr = 0
    for host = 1, 1000 do
      if protocol.is_in_sample("00000000000000000000000000000001", "web" .. host, 0.5)
        and protocol.is_in_sample("00000000000000000000000000000002", "web" .. host, 0.5) then nr = nr + 1 end
    end
    assert.is_true(nr > 150 and nr < 350, nr)
    assert.is_true(protocol.is_in_sample(ID, "web1", 1))
    assert.is_false(protocol.is_in_sample(ID, "web1", 0))
  end)

  it("takes the host from the subject that only this host may publish", function()
    assert.equal("web17", protocol.host_of(protocol.result_subject("web17", ID)))
    assert.equal("web17", protocol.host_of(protocol.hello_subject "web17"))
    assert.is_nil(protocol.host_of "perfev.res.a.b.c")
    assert.is_nil(protocol.host_of "perfev.run.all")
    assert.equal("web17-example-com", protocol.token "web17.example.com")
    assert.is_false(protocol.is_token "a.b")
    assert.is_false(protocol.is_token "")
  end)

  it("makes ids that differ", function()
    local one, other = protocol.new_id(), protocol.new_id()
    assert.matches("^%x+$", one)
    assert.equal(32, #one)
    assert.not_equal(one, other)
  end)
end)
