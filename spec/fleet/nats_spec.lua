-- perfev.nats on a real server on the loopback.

local nats_server = require "spec.support.nats_server"
local run = require "spec.support.run"

local has_module, nats = pcall(require, "perfev.nats")
local server, why_not

local function wait_for(what, f)
  for _ = 1, 400 do
    local value = f()
    if value then return value end
    os.execute "sleep 0.025"
  end
  error("no " .. what .. " within 10 s")
end

local function connect(more)
  local options = { url = server.url, name = "spec" }
  for name, value in pairs(more or {}) do options[name] = value end
  return assert(nats.connect(options))
end

local function next_of(subscription) return wait_for("message", function() return subscription:next() end) end

local it = require "spec.support.skip"(it, function()
  if not has_module then pending("perfev.nats is not built: " .. nats) end
  if not server then pending(why_not) end
end)

describe("perfev.nats", function()
  setup(function()
    if has_module then server, why_not = nats_server.start() end
  end)
  teardown(function()
    if server then server:stop() end
  end)

  it("delivers messages in order, with reply subject, to a subscription", function()
    local c <close> = connect()
    local subscription = assert(c:subscribe "a.*")
    assert.is_nil(subscription:next())
    for i = 1, 1000 do assert(c:publish("a." .. i % 7, "text " .. i .. "\0", i == 1 and "back" or nil)) end
    for i = 1, 1000 do
      local message = next_of(subscription)
      assert.equal("text " .. i .. "\0", message.data)
      assert.equal("a." .. i % 7, message.subject)
      assert.equal(i == 1 and "back" or nil, message.reply)
    end
    assert.equal(0, subscription:dropped())
  end)

  it("has a descriptor that is readable exactly while something waits", function()
    local process = require("spec.support.process").load()
    if not process then pending "no C compiler" end
    local c <close> = connect()
    local subscription = assert(c:subscribe "b")
    assert.is_falsy(process.poll(c:fd(), 0))
    assert(c:publish("b", "1"))
    assert(c:publish("b", "2"))
    assert.is_truthy(process.poll(c:fd(), 10000))
    assert.equal("1", next_of(subscription).data)
    assert.is_truthy(process.poll(c:fd(), 10000))
    assert.equal("2", next_of(subscription).data)
    assert.is_falsy(process.poll(c:fd(), 0))
  end)

  it("shares the messages of a queue group between its members", function()
    local c <close> = connect()
    local one, other = assert(c:subscribe("q", "workers")), assert(c:subscribe("q", "workers"))
    for i = 1, 200 do assert(c:publish("q", tostring(i))) end
    assert(c:publish("end", ""))
    local seen, nr = {}, 0
    wait_for("200 messages", function()
      for _, subscription in ipairs { one, other } do
        local message = subscription:next()
        if message then
          assert.is_nil(seen[message.data])
          seen[message.data], nr = true, nr + 1
        end
      end
      return nr == 200
    end)
  end)

  it("drops and counts what a slow consumer leaves, and notes it once", function()
    local c <close> = connect()
    local subscription = assert(c:subscribe("c", nil, { messages = 10 }))
    local marks = assert(c:subscribe "mark")
    for i = 1, 100 do assert(c:publish("c", tostring(i))) end
    assert(c:publish("mark", ""))
    next_of(marks) -- the thread of libnats delivers in order: all others have been seen
    assert.equal(90, subscription:dropped())
    for i = 1, 10 do assert.equal(tostring(i), subscription:next().data) end
    assert.is_nil(subscription:next())
    local notes = c:notes()
    assert.equal(1, #notes)
    assert.equal("slow", notes[1].kind)
    assert.equal("c", notes[1].text)
  end)

  it("limits the bytes that wait", function()
    local c <close> = connect()
    local subscription = assert(c:subscribe("d", nil, { bytes = 1000 }))
    local marks = assert(c:subscribe "mark")
    for _ = 1, 10 do assert(c:publish("d", ("x"):rep(400))) end
    assert(c:publish("mark", ""))
    next_of(marks)
    assert.equal(8, subscription:dropped())
  end)

  it("asks, and reports a question that nobody answers", function()
    local c <close> = connect()
    local answer, why, code = c:request("nobody", "?", 2000)
    assert.is_nil(answer)
    assert.matches("^nobody: ", why)
    assert.equal(2, code)
  end)

  it("keeps a stream: acknowledges, drops an id that it has, and fetches", function()
    local c <close> = connect()
    assert(c:stream_add { name = "s1", subjects = { "s1.>" }, storage = "memory" })
    assert(c:stream_add { name = "s1", subjects = { "s1.>" }, storage = "memory" }) -- no error
    for _, id in ipairs { "x1", "x2", "x1" } do assert(c:js_publish("s1.a", "data of " .. id, id)) end
    local acks = {}
    wait_for("three acks", function()
      for _, ack in ipairs(c:acks()) do acks[#acks + 1] = ack end
      return #acks == 3
    end)
    for i, id in ipairs { "x1", "x2", "x1" } do
      assert.same({ id, true, i == 3 }, { acks[i].id, acks[i].ok, acks[i].duplicate })
    end
    assert.equal(2, c:stream_info("s1").messages)

    local consumer = assert(c:pull("s1", "reader", { filter = "s1.>" }))
    local list = assert(consumer:fetch(10, 1000))
    assert.equal(2, #list)
    assert.same({ "data of x1", 1, "x1" }, { list[1].data, list[1].seq, list[1].headers["Nats-Msg-Id"] })
    assert.equal(1, list[1].pending)
    for _, message in ipairs(list) do assert(consumer:ack(message)) end
    assert.same({}, assert(consumer:fetch(1, 100)))
    consumer:close()
    assert(c:js_publish("s1.b", "third", "x3"))
    wait_for("ack", function() return c:acks()[1] end)
    consumer = assert(c:pull("s1", "reader", { filter = "s1.>" })) -- goes on behind what was acknowledged
    assert.equal("third", consumer:fetch(10, 1000)[1].data)

    local last = assert(c:pull("s1", nil, { from = "last" }))
    assert.equal(2, #assert(last:fetch(2, 1000)))
    local from = assert(c:pull("s1", nil, { from = 2 }))
    assert.equal("data of x2", assert(from:fetch(1, 1000))[1].data)
    assert(c:stream_purge("s1", "s1.a"))
    assert.equal(1, c:stream_info("s1").messages)
    assert(c:stream_delete "s1")
    local info, why, code = c:stream_info "s1"
    assert.same({ nil, 2 }, { info, code })
    assert.matches("^s1: ", why)
  end)

  it("reports a message that no stream takes", function()
    local c <close> = connect()
    assert(c:js_publish("unknown.subject", "data", "y1", 2000))
    local ack = wait_for("ack", function() return c:acks()[1] end)
    assert.same({ "y1", false }, { ack.id, ack.ok })
    assert.is_string(ack.error)
    assert.equal(2, ack.code)
  end)

  it("refuses to publish while the server is gone, and goes on when it is back", function()
    local c <close> = connect()
    local subscription = assert(c:subscribe "e")
    server:kill "KILL"
    wait_for("disconnect", function() return c:status() == "connecting" end)
    local ok, why, code = c:publish("e", "lost")
    assert.same({ nil, "not connected to a server", 107 }, { ok, why, code })
    server:restart()
    wait_for("connection", function() return c:status() == "connected" end)
    assert(c:flush(5000))
    assert(c:publish("e", "there"))
    assert.equal("there", next_of(subscription).data)
    local kinds = {}
    for _, note in ipairs(c:notes()) do kinds[note.kind] = true end
    assert.same({ disconnected = true, connected = true }, kinds)
  end)

  it("says why it cannot connect, or keeps trying", function()
    local c, why, code = nats.connect { url = "nats://127.0.0.1:1", timeout_ms = 1000 }
    assert.is_nil(c)
    assert.matches("^cannot connect to nats://127.0.0.1:1: ", why)
    assert.equal(111, code)
    local later <close> = assert(nats.connect { url = "nats://127.0.0.1:1", timeout_ms = 1000, retry = true })
    assert.equal("connecting", later:status())
  end)

  it("raises for a closed connection and for wrong arguments", function()
    local c = connect()
    local subscription = assert(c:subscribe "f")
    c:close()
    c:close()
    assert.equal("closed", c:status())
    assert.is_nil(subscription:next())
    subscription:close()
    assert.has_error(function() c:publish("f", "") end, "the connection is closed")
    assert.has_error(function() nats.connect {} end)
    assert.has_error(function() nats.connect { url = {} } end)
  end)

  it("keeps its connections when the module is loaded again", function()
    local c <close> = connect()
    local loaded = package.loaded["perfev.nats"]
    package.loaded["perfev.nats"] = nil
    local again = require "perfev.nats"
    package.loaded["perfev.nats"] = loaded
    assert.not_equal(loaded, again)
    collectgarbage()
    collectgarbage()
    assert.equal("connected", c:status())
  end)

  it("ends with its threads when a program ends without closing", function()
    local r = run({ run.perfl, "-e", ([[
      local nats = require "perfev.nats"
      local c = assert(nats.connect { url = "%s" })
      local s = assert(c:subscribe ">")
      for i = 1, 100 do assert(c:publish("g", "x")) end
      print(c:status())]]):format(server.url) }, { timeout = 60 })
    assert.same({ "connected\n", "", 0 }, { r.out, r.err, r.code })
  end)
end)
