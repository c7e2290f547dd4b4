-- perfev.http_client against a server on the loopback that answers as told.

local http_client = require "perfev.http_client"
local run = require "spec.support.run"
local store = require "spec.support.store"

describe("perfev.http_client", function()
  local server, client

  local function start(answers, opts)
    server = store.start(answers)
    client = http_client.new(opts or {})
  end

  -- Waits for a result, at most a minute.
  local function result()
    for _ = 1, 600 do
      client:wait(100)
      local one = client:done()
      if one then return one end
    end
    error "no result"
  end

  after_each(function()
    if client then client:close() end
    if server then server:stop() end
    server, client = nil, nil
  end)

  it("sends the body and the headers, and returns status and answer", function()
    start { "200", "404+7" }
    assert.is_true(client:post(5, server.url .. "/ingest?a=1", { "X-One: 1", "Content-Type: text/plain" }, "a\0b"))
    assert.equal(1, client:active())
    assert.same({ id = 5, status = 200, body = "" }, result())
    assert.equal(0, client:active())
    client:post(6, server.url, {}, "")
    assert.same({ id = 6, status = 404, body = "status 404\nmore\n", retry_after = 7 }, result())
    local requests = server:requests()
    assert.equal("a\0b", requests[1].body)
    assert.matches("^POST /ingest%?a=1 HTTP/1.1\r\n", requests[1].head)
    assert.matches("\r\nX%-One: 1\r\n", requests[1].head)
    assert.matches("\r\nContent%-Type: text/plain\r\n", requests[1].head)
  end)

  it("sends many at once over few connections", function()
    start { "200" }
    for i = 1, 20 do assert.is_true(client:post(i, server.url, {}, ("x"):rep(i * 1000))) end
    local seen, sum = {}, 0
    for _ = 1, 20 do
      local one = result()
      assert.equal(200, one.status)
      seen[one.id] = true
    end
    for _, request in ipairs(server:requests()) do sum = sum + #request.body end
    assert.equal(20, #seen)
    assert.equal(210000, sum)
  end)

  it("gives up a server that does not answer", function()
    start({ "hang" }, { total_ms = 300 })
    client:post(1, server.url, {}, "x")
    local one = result()
    assert.is_nil(one.status)
    assert.matches("timed out", one.error)
  end)

  it("reports a connection that ends early, within the request or the answer", function()
    start { "close", "half" }
    client:post(1, server.url, { "Expect:" }, ("x"):rep(4 << 20))
    assert.is_string(result().error)
    client:post(2, server.url, {}, "x")
    assert.is_string(result().error)
  end)

  it("reports a port where nothing listens", function()
    start { "200" }
    server:stop()
    client:post(1, server.url, {}, "x")
    assert.matches("connect", result().error)
    server = nil
  end)

  it("keeps 64 KiB of an answer, and gives up one of more than 1 MiB", function()
    local dir = run.tempdir()
    run.write_file(dir .. "/long", ("y"):rep(300000))
    run.write_file(dir .. "/endless", ("y"):rep(2 << 20))
    start { "body:" .. dir .. "/long", "body:" .. dir .. "/endless" }
    client:post(1, server.url, {}, "x")
    assert.equal(65536, #result().body)
    client:post(2, server.url, {}, "x")
    assert.is_string(result().error)
    run.remove(dir)
  end)

  it("uses no other protocol and follows no redirect", function()
    start { "302" }
    client:post(1, "file:///etc/passwd", {}, "x")
    assert.matches("rotocol", result().error)
    client:post(2, server.url, {}, "x")
    assert.equal(302, result().status)
  end)

  it("refuses a server without a trusted certificate", function()
    if not run.have "openssl" then pending "openssl is not installed" end
    local dir = run.tempdir()
    assert(os.execute(("openssl req -x509 -newkey rsa:2048 -nodes -keyout %s/key -out %s/cert -days 1 "
      .. "-subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null"):format(dir, dir)))
    start { "200" } -- it finds a free port
    local port = server.port
    server:stop()
    server = nil
    assert(os.execute(("sh -c 'echo $$ > %s/pid; exec timeout 60 openssl s_server -quiet -accept 127.0.0.1:%d "
      .. "-key %s/key -cert %s/cert -www' >/dev/null 2>&1 </dev/null &"):format(dir, port, dir, dir)))
    local function post(ca, host)
      client = http_client.new { ca = ca, total_ms = 2000 }
      for _ = 1, 100 do
        client:post(1, ("https://%s:%d/"):format(host, port), {}, "x")
        local one = result()
        if not (one.error or ""):find "Failed to connect" then return one end
        os.execute "sleep 0.05" -- it starts
      end
    end
    assert.matches("certificate", post(nil, "localhost").error)
    local name = post(dir .. "/cert", "127.0.0.1")
    local trusted = post(dir .. "/cert", "localhost")
    os.execute(("kill %s"):format(run.slurp(dir .. "/pid")))
    run.remove(dir)
    assert.is_string(name.error)
    assert.is_nil((trusted.error or ""):match "certificate")
  end)

  it("raises on a closed client, and on wrong arguments", function()
    start { "200" }
    assert.has_error(function() client:post("x", server.url, {}, "") end)
    assert.has_error(function() client:post(1, server.url, nil, "") end)
    assert.has_error(function() client:post(1, server.url, { {} }, "") end)
    client:post(1, server.url, {}, "x") -- aborted by close()
    client:close()
    client:close()
    assert.has_error(function() client:wait(1) end, "the HTTP client is closed")
  end)
end)
