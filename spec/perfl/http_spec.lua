-- The HTTP server of perfl --http: the module perfev.http in a session of the spec, and perfl with real clients.

local http = require "spec.support.http"
local native = require "perfev.http"
local perfev = require "perfev"
local run = require "spec.support.run"

local CONNECTIONS = 64 -- PEV_HTTP_CONNECTIONS
local FLOOD = tonumber(os.getenv "FLOOD" or 2000) -- connections at once; 10000 take four seconds

local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function get(path)
  return ("GET %s HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n"):format(path)
end

-- Serves in a session of this process while a client runs -> the client's output
local function with_client(handler, client, opts)
  opts = opts or {}
  local server <close> = assert(native.listen { host = "127.0.0.1", port = 0, request_seconds = opts.request_seconds,
                                                answer_seconds = opts.answer_seconds })
  local words = { "perl", "spec/support/http_client.pl", tostring(server:port()), table.unpack(client) }
  for i, word in ipairs(words) do words[i] = run.quote(word) end
  local s <close> = perfev.session {
    command = { "sh", "-c", ("exec %s > %s/client"):format(table.concat(words, " "), dir) }, duration = "120s",
    watch = { server:fd(), function()
      if opts.before_turn then opts.before_turn() end
      server:turn(handler)
    end },
  }
  if opts.with_server then opts.with_server(server) end
  if opts.meanwhile then s:every("20ms", function() return opts.meanwhile(server) end) end
  assert(s:run())
  return assert(run.slurp(dir .. "/client"))
end

local PLAIN = { "Content-Type", "text/plain" }

describe("the server", function()
  it("makes a body in pieces, for about a millisecond in each turn", function()
    local in_turn, most, made, expected = 0, 0, 0, {}
    local function piece()
      local start = os.clock()
      while os.clock() - start < 0.0003 do end -- luacheck: ignore 542
      in_turn, made = in_turn + 1, made + 1
      most = math.max(most, in_turn)
      if made > 60 then return nil end
      if made % 20 ~= 0 then return "" end
      expected[#expected + 1] = ("%d,"):format(made)
      return expected[#expected]
    end
    local answer = with_client(function() return 200, PLAIN, piece end, { "send", get "/" },
      { before_turn = function() in_turn = 0 end })
    assert.equal(table.concat(expected), (select(3, http.parse(answer))))
    assert.equal(61, made)
    assert.is_true(most <= 4, most) -- 0.3 ms each, and the last begins before the millisecond is over
  end)

  it("starts no answer in a turn that is over", function()
    local in_turn, most = 0, 0
    local function handler()
      in_turn = in_turn + 1
      most = math.max(most, in_turn)
      local start = os.clock()
      while os.clock() - start < 0.001 do end -- luacheck: ignore 542
      return 200, PLAIN, "x"
    end
    local requests = get("/"):gsub("Connection: close\\r\\n", ""):rep(3) .. get "/"
    local answers = with_client(handler, { "send", requests }, { before_turn = function() in_turn = 0 end })
    assert.equal(4, select(2, answers:gsub("200 OK", "")))
    assert.equal(1, most)
  end)

  it("goes on after a turn within a request, also in a coroutine that has ended since", function()
    local native_server
    local function handler()
      coroutine.wrap(function() native_server:turn(function() error "of the inner turn" end) end)()
      collectgarbage()
      local nr = 0
      return 200, PLAIN, function()
        collectgarbage()
        nr = nr + 1
        return nr < 4 and "piece " or nil
      end
    end
    local answer = with_client(handler, { "send", get "/" },
      { with_server = function(server) native_server = server end })
    assert.equal("piece piece piece ", (select(3, http.parse(answer))))
  end)

  it("ends a connection whose client has closed together with its last bytes", function()
    local server <close> = assert(native.listen { host = "127.0.0.1", port = 0, request_seconds = 3600 })
    local nr = 0
    local function handler()
      nr = nr + 1
      return 200, PLAIN, "x"
    end
    for _, text in ipairs { "GET / HT", (get "/":gsub("Connection: close\\r\\n", "")) } do
      -- It ends, with its bytes and the end of the connection in the socket, before the server's first look.
      http.client(server:port(), "leave", text)
      local started = os.time()
      repeat server:turn(handler) until server:connections() > 0
      repeat server:turn(handler) until server:connections() == 0 or os.time() - started > 60
      assert.equal(0, (server:connections()))
    end
    assert.equal(1, nr)
  end)

  it("sends what comes on a stream, until it ends", function()
    local id, sent = nil, 0
    local function handler(request)
      id = request.id
      return 200, PLAIN, true
    end
    local answer = with_client(handler, { "send", get "/" }, { meanwhile = function(server)
      if not id or sent > 5 then return end
      sent = sent + 1
      if sent > 5 then return server:finish(id) end
      assert.is_true(server:send(id, ("%d "):format(sent)))
      server:send(id, "")
    end })
    assert.equal("1 2 3 4 5 ", (select(3, http.parse(answer))))
  end)

  it("cuts a stream whose client does not read, and holds a few megabytes for it", function()
    local id, sent, errno = nil, 0, nil
    local function handler(request)
      id = request.id
      return 200, PLAIN, true
    end
    with_client(handler, { "hold", get "/" }, { meanwhile = function(server)
      if not id then return end
      local ok, code = server:send(id, ("x"):rep(1 << 20))
      sent = sent + 1
      if ok then return end
      errno = errno or code
      return server:connections() > 0
    end })
    assert.equal(105, errno) -- ENOBUFS
    assert.is_true(sent < 100, sent)
  end)

  it("answers 500 if a handler fails, and cuts a body that fails", function()
    local function handler(request)
      if request.path == "/body" then return 200, PLAIN, function() error "no body" end end
      if request.path == "/header" then return 200, { "A", "b\r\nSet-Cookie: c" }, "" end
      error "no answer"
    end
    assert.equal(500, (http.parse(with_client(handler, { "send", get "/" }))))
    local status, headers = http.parse(with_client(handler, { "send", get "/header" }))
    assert.same({ 500, nil }, { status, headers["set-cookie"] })
    assert.is_true((select(2, http.parse(with_client(handler, { "send", get "/body" })))).cut)
  end)

  it("passes the headers, the query and the decoded path of a request", function()
    local seen
    local function handler(request)
      seen = request
      return 200, PLAIN, ""
    end
    with_client(handler, { "send", (get("/a%20b?x=1&y=%26&z"):gsub("Connection", "X-One: two\\r\\n%0")) })
    assert.same({ "/a b", { x = "1", y = "&", z = "" }, "two", "GET" },
      { seen.path, seen.query, seen.headers["X-One"], seen.method })
  end)

  it("cuts a client that sends its request too slowly, or sends nothing", function()
    local function handler() error "there is no whole request" end
    local limits = { request_seconds = 1 }
    assert.equal("connected\ncut\n", with_client(handler, { "trickle", "GET / HTTP/1.1\r\nX-Long: " }, limits))
    assert.equal("", with_client(handler, { "send", "" }, limits))
  end)

  it("cuts a client that reads its answer too slowly", function()
    local asked, made = false, 0
    local function handler()
      asked = true
      return 200, PLAIN, function()
        made = made + 1
        return ("x"):rep(65536)
      end
    end
    with_client(handler, { "hold", get "/" }, { answer_seconds = 1, meanwhile = function(server)
      if asked and server:connections() == 0 then return false end
    end })
    assert.is_true(made < 1000, made) -- what the socket's buffers hold
  end)

  it("refuses connections beyond its limit with 503, and serves again when others end", function()
    local more, most = FLOOD - CONNECTIONS, 0
    local output = with_client(function() return 200, PLAIN, "ok" end, { "flood", CONNECTIONS, more },
      { meanwhile = function(server) most = math.max(most, (server:connections())) end })
    assert.equal(("%d refused\nserved\n"):format(more), output)
    assert.is_true(most <= CONNECTIONS, most)
  end)

  it("is not closed by a handler", function()
    local server_of, why
    local answer = with_client(function()
      why = select(2, pcall(server_of.close, server_of))
      return 200, PLAIN, "still here"
    end, { "send", get "/" }, { with_server = function(server) server_of = server end })
    assert.matches("the server answers a request$", why)
    assert.equal("still here", (select(3, http.parse(answer))))
  end)

  it("is closed once, with clients", function()
    local closed
    with_client(function() return 200, PLAIN, true end, { "hold", get "/" }, { meanwhile = function(server)
      if server:connections() == 0 then return end
      closed = true
      server:close()
      server:close()
      assert.has_error(function() server:fd() end, "the server is closed")
      assert.is_false((server:send(1, "x")))
      server:finish(1)
      return false
    end })
    assert.is_true(closed)
  end)
end)

-- perfl serves while its command waits. The event needs no rights.
local SCRIPT = [[
  local perfev = require "perfev"
  perfev.event { "dummy", sample = print }
]]

describe("perfl --http", function()
  local served

  setup(function() served = http.serve(dir, { "-q" }, SCRIPT) end)
  teardown(function() served:finish() end)

  it("prints its address and serves on the loopback interface", function()
    assert.matches("^perfl: serving http://127%.0%.0%.1:%d+/$", served.line)
    local status, headers, body = http.get(served, "/healthz")
    assert.same({ 200, "ok\n" }, { status, body })
    assert.matches("default%-src 'none'", headers["content-security-policy"])
    assert.same({ "nosniff", "no-store", "DENY" },
      { headers["x-content-type-options"], headers["cache-control"], headers["x-frame-options"] })
  end)

  it("answers HEAD without a body, other methods with 405, unknown paths with 404", function()
    local status, headers, body = http.get(served, "/healthz", { method = "HEAD" })
    assert.same({ 200, "3", "" }, { status, headers["content-length"], body })
    status, headers, body = http.get(served, "/metrics", { method = "HEAD" })
    assert.same({ 200, "text/plain; version=0.0.4; charset=utf-8", "" }, { status, headers["content-type"], body })
    for _, method in ipairs { "POST", "PUT", "DELETE", "OPTIONS", "NONSENSE" } do
      status, headers = http.get(served, "/healthz", { method = method, headers = "Content-Length: 1\r\n" })
      assert.same({ 405, "GET, HEAD" }, { status, headers.allow })
    end
    for _, path in ipairs { "/nothing", "/../etc/passwd", "/metrics/", "//", "http://other/metrics" } do
      assert.equal(404, (http.get(served, path)))
    end
  end)

  it("refuses large headers and requests that are not HTTP", function()
    assert.equal(431, (http.get(served, "/", { headers = ("X-Long: %s\r\n"):format(("x"):rep(20000)) })))
    assert.equal(400, (http.parse(http.client(served.port, "send", "GET /metrics HTTP/1.1\\r\\n\\r\\n")))) -- no Host
    assert.is_nil(http.client(served.port, "send", "\\r\\n\\r\\nnonsense\\r\\n\\r\\n"):find("200 OK", 1, true))
  end)

  it("refuses names that are not its own: of a page whose name leads here", function()
    local own = run.capture "cat /proc/sys/kernel/hostname"
    for _, host in ipairs { "localhost", "LOCALHOST:80", "localhost.", "127.0.0.1", "127.0.0.1:9464", "10.1.2.3",
      "[::1]:80", own } do
      assert.equal(200, (http.get(served, "/healthz", { host = host })), host)
    end
    for _, host in ipairs { "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "evil@localhost",
      "[::1].evil" } do
      assert.not_equal(200, (http.get(served, "/healthz", { host = host })), host)
    end
    local status, _, body = http.get(served, "/metrics", { host = "evil.example" })
    assert.same({ 421, "Host 'evil.example' is not a name of this server\n"
      .. "try: its address, or perfl --http-host NAME\n" }, { status, body })
  end)
end)

describe("perfl --http", function()
  local function refusal(address, words)
    words = words or { "-e", 'event { "dummy" }', "--", "true" }
    local r = run { run.perfl, "-q", "--http", address, table.unpack(words) }
    return { r.code, r.err }
  end

  it("answers for the names of --http-host", function()
    local served = http.serve(dir, { "-q", "--http-host", "db.example,DB1.example" }, SCRIPT)
    local status = http.get(served, "/healthz", { host = "db1.example:9464" })
    served:finish()
    assert.equal(200, status)
  end)

  it("takes IPv6 addresses", function()
    if not run.slurp "/proc/net/if_inet6" or run.slurp "/proc/net/if_inet6" == "" then pending "no IPv6" end
    local served = http.serve(dir, { "-q" }, SCRIPT, "[::1]:0")
    served:finish()
    assert.matches("serving http://%[::1%]:%d+/$", served.line)
  end)

  it("refuses addresses that are not valid, used or elsewhere", function()
    for _, address in ipairs { "x", "65536", "127.0.0.1", "[::1]", "unix:", ":80", "localhost:" } do
      assert.same({ 2, ("perfl: --http '%s': expected a port, an address with a port, or unix: and a path\n"
        .. "  try: --http 9464, --http '[::1]:9464' or --http unix:/run/perfl.sock\n"):format(address) },
        refusal(address), address)
    end
    local served = http.serve(dir, { "-q" }, SCRIPT)
    local used = refusal(served.port)
    served:finish()
    assert.same({ 1, ("perfl: --http: 127.0.0.1 port %s: Address already in use\n"
      .. "  try: another port, or --http 0 for a free one\n"):format(served.port) }, used)
    assert.same({ 1, "perfl: --http: 192.0.2.1 port 80: Cannot assign requested address\n"
      .. "  try: an address of this machine, or 0.0.0.0 for all\n" }, refusal "192.0.2.1:80")
  end)

  it("refuses a recording and a simulated kernel", function()
    for option, why in pairs { ["-i"] = "a recording is read without the kernel",
                               ["--sim"] = "the simulated kernel has no clients" } do
      assert.same({ 2, ("perfl: %s and --http at once\n  %s\n  try: without --http\n"):format(option, why) },
        refusal("0", { option, "vm", "-e", 'event { "dummy" }' }))
    end
  end)

  it("ends with its command, also while a client is connected", function()
    local served = http.serve(dir, {}, SCRIPT)
    local client = io.popen(("perl spec/support/http_client.pl %s trickle 'GET / HTTP/1.1'"):format(served.port))
    assert.equal("connected", client:read "l")
    local messages, status = served:finish()
    assert.equal("cut\n", client:read "a")
    client:close()
    assert.matches("^perfl: 0 records", messages)
    assert.equal(0, status)
  end)

  it("reports the failure of a page once", function()
    local served = http.serve(dir, { "-q" }, SCRIPT .. [[
      local server = require "perfl.http.server"
      local open = server.open
      function server.open(...)
        local one = open(...)
        one.routes["/bad"] = function() error "bad page" end
        one.routes["/cut"] = function() return { next = function() error "bad piece" end } end
        return one
      end]])
    assert.equal(500, (http.get(served, "/bad")))
    assert.equal(500, (http.get(served, "/bad")))
    http.get(served, "/cut")
    assert.equal(200, (http.get(served, "/healthz")))
    local messages = served:finish()
    assert.equal(1, select(2, messages:gsub("bad page", "")), messages)
    assert.matches("perfl: http: /cut failed %(more of the same are not shown%)\n.*bad piece", messages)
  end)
end)

describe("perfl --http unix:PATH", function()
  local function serve(command) return http.serve(dir, { "-q" }, SCRIPT, ("unix:%s/s"):format(dir), command) end
  local function exists() return os.execute(("test -e %s/s"):format(dir)) == true end

  it("serves only the owner, for every Host, and removes the socket at the end", function()
    local served = serve()
    served.path = dir .. "/s"
    assert.equal(("perfl: serving unix:%s/s"):format(dir), served.line)
    assert.equal("srw-------", run.capture(("stat -c %%A %s/s"):format(dir)))
    assert.equal(200, (http.get(served, "/healthz", { host = "any" })))
    served:finish()
    assert.is_false(exists())
  end)

  it("replaces the socket of a process that was killed", function()
    local served = serve "sh -c 'kill -KILL $PPID'"
    served:finish()
    assert.is_true(exists())
    served = serve()
    served.path = dir .. "/s"
    assert.equal(200, (http.get(served, "/healthz")))
    served:finish()
    assert.is_false(exists())
  end)

  it("is removed by os.exit(), too", function()
    local script = SCRIPT .. "perfev.done(function() os.exit(3) end)"
    local served = http.serve(dir, { "-q" }, script, ("unix:%s/s"):format(dir))
    assert.is_true(exists())
    assert.equal(3, select(2, served:finish()))
    assert.is_false(exists())
  end)

  it("refuses a path that is used, another file, or too long", function()
    local function refused(path)
      return run({ run.perfl, "-q", "--http", "unix:" .. path, "-e", 'event { "dummy" }', "--", "true" }).err
    end
    local served = serve()
    local used = refused(dir .. "/s")
    served:finish()
    assert.equal(("perfl: --http: socket %s/s: Address already in use\n  try: another path\n"):format(dir), used)
    run.write_file(dir .. "/file", "content")
    assert.equal(("perfl: --http: %s/file exists and is not a socket\n  try: another path\n"):format(dir),
      refused(dir .. "/file"))
    assert.equal("content", run.slurp(dir .. "/file"))
    assert.matches("the path is longer than 107 bytes\n  try: a shorter path\n$", refused(dir .. "/" .. ("x"):rep(120)))
    assert.equal("perfl: --http: socket /nonexistent/s: No such file or directory\n  try: a directory that exists\n",
      refused "/nonexistent/s")
  end)
end)
