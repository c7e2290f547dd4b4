--- The HTTP server of `perfl --http`: answers requests in the loop of the default session, beside its records.
--
-- A route is a function(request) -> response. The request has `method`, `path`, `headers` (by lower-case name) and
-- `query`. The response is a table:
--   status   default 200
--   type     of the content, default "text/plain; charset=utf-8"
--   headers  further ones, by name
--   body     a string, or
--   next     function() -> the next piece of the body, "" if there is none yet, nil at the end; called for about a
--            millisecond in each turn of the loop, so a call must be short, or
--   stream   true: the response gets the methods send(text) -> true while its client is there, and finish()

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local event_loop = require "perfev.live.event_loop"
local message = require "perfl.message"
local native_module = require "perfev.base.native_module"
local perfl = require "perfl.core"

local M = {}

local Server = {}
Server.__index = Server

-- ---- addresses ----

local DEFAULT_HOST = "127.0.0.1"

-- "9464", "0.0.0.0:9464", "[::1]:9464", "unix:/run/perfl.sock" -> { host =, port = } or { path = } | nil
local function parse_address(text)
  local path = text:match "^unix:(.+)$"
  if path then return { path = path } end
  local host, port = text:match "^%[([%x:.]+)%]:(%d+)$"
  if not host then host, port = text:match "^([%w._-]+):(%d+)$" end
  if not host then host, port = DEFAULT_HOST, text:match "^(%d+)$" end
  port = port and #port <= 5 and math.tointeger(tonumber(port))
  return port and port <= 65535 and { host = host, port = port } or nil
end

local function shown_address(address)
  if address.path then return "unix:" .. address.path end
  return ("http://%s:%d/"):format(address.host:find ":" and "[" .. address.host .. "]" or address.host, address.port)
end

-- ---- which requests are answered ----

-- True if a page of another site cannot have sent this Host: names are what DNS rebinding changes.
local function is_address(host)
  return host:find "^%d+%.%d+%.%d+%.%d+$" or host:find "^%[[%x:.]+%]$"
end

-- The reason why the request's Host is refused, or nil.
local function refused_host(self, host)
  if self.address.path then return nil end
  local name = host and host:lower():gsub(":%d*$", ""):gsub("%.$", "")
  if name and (is_address(name) or self.hosts[name]) then return nil end
  return ("Host '%s' is not a name of this server\ntry: its address, or perfl --http-host NAME\n"):format(
    escape(host or ""))
end

-- ---- responses ----

-- A page may load nothing from elsewhere, and no other site may embed or read it.
local common_headers = {
  ["Content-Security-Policy"] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    .. "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  ["X-Content-Type-Options"] = "nosniff",
  ["X-Frame-Options"] = "DENY",
  ["Referrer-Policy"] = "no-referrer",
  ["Cross-Origin-Resource-Policy"] = "same-origin",
  ["Cache-Control"] = "no-store",
}

local PLAIN = "text/plain; charset=utf-8"

local Stream = {}
Stream.__index = Stream

--- Sends text to the client. False: the client is gone, or so slow that it was cut.
function Stream:send(text) return self._server:send(self._id, text) end

--- Ends the stream.
function Stream:finish() self._server:finish(self._id) end

local function failed(status, text, headers) return { status = status, body = text, headers = headers } end

local function lower_names(headers)
  local lower = {}
  for name, value in pairs(headers) do lower[name:lower()] = value end
  return lower
end

local function respond(self, request)
  local refusal = refused_host(self, request.headers.host)
  if refusal then return failed(421, refusal) end
  if request.method ~= "GET" and request.method ~= "HEAD" then
    return failed(405, "only GET and HEAD\n", { Allow = "GET, HEAD" })
  end
  local route = self.routes[request.path]
  if not route then return failed(404, "not found\n") end
  return route(request)
end

--- Calls a function; its failure is reported once for each path.
-- @treturn  its result; nil and true if it failed
function Server:call(path, f, ...)
  local ok, result = xpcall(f, message.traceback, ...)
  if ok then return result end
  if not self.reported[path] then
    self.reported[path] = true
    local text = message.trimmed(message.shown(result))
    message.say(("http: %s failed (more of the same are not shown)\n%s"):format(escape(path), text))
  end
  return nil, true
end

-- The headers of a response as a list: name, value, name, value …
local function header_list(response)
  local by_name, list = { ["Content-Type"] = response.type or PLAIN }, {}
  for name, value in pairs(common_headers) do by_name[name] = value end
  for name, value in pairs(response.headers or {}) do by_name[name] = value end
  for name, value in pairs(by_name) do table.move({ name, value }, 1, 2, #list + 1, list) end
  return list
end

-- For perfev.http: request -> status, headers, body.
local function handle(self, request)
  request.headers = lower_names(request.headers)
  local response = self:call(request.path, respond, self, request) or failed(500, "failed\n")
  local body = response.body or ""
  if response.stream then
    body = true
    response._server, response._id = self.native, request.id
    setmetatable(response, Stream)
  elseif response.next then
    function body()
      local piece, has_failed = self:call(request.path, response.next)
      if has_failed then error("cut", 0) end
      return piece
    end
  end
  return response.status or 200, header_list(response), body
end

-- ---- start and end ----

local E = core.errno
local port_remedies = {
  [E.EADDRINUSE] = "another port, or --http 0 for a free one", [E.EACCES] = "a port from 1024 on",
  [E.EADDRNOTAVAIL] = "an address of this machine, or 0.0.0.0 for all",
  [E.EINVAL] = "an address, as in --http 127.0.0.1:9464",
}
local path_remedies = {
  [E.EADDRINUSE] = "another path", [E.EEXIST] = "another path", [E.ENAMETOOLONG] = "a shorter path",
  [E.EACCES] = "a directory that you may write to", [E.ENOENT] = "a directory that exists",
}

--- Listens; requests are answered once the server is attached to a session.
-- @tparam string where         [ADDR:]PORT or unix:PATH
-- @tparam[opt] table opts      `hosts`: further names in a request's Host
-- @treturn[1] server           `routes`: path -> function; `address`
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] boolean          true: `where` is not valid
function M.open(where, opts)
  local address = parse_address(where)
  if not address then
    return nil, ("--http '%s': expected a port, an address with a port, or unix: and a path\n"
      .. "try: --http 9464, --http '[::1]:9464' or --http unix:/run/perfl.sock"):format(escape(where)), true
  end
  local http, why, remedy = native_module "perfev.http"
  if not http and perfl.static then
    why, remedy = "this perfl is one static file, which cannot load it", "an installed perfl (doc/install.md)"
  end
  if not http then return nil, ("--http: %s\ntry: %s"):format(why, remedy or "make deps, make") end
  local native, reason, errno = http.listen(address)
  if not native then
    remedy = (address.path and path_remedies or port_remedies)[errno]
    return nil, ("--http: %s%s"):format(escape(reason), remedy and "\ntry: " .. remedy or "")
  end
  if address.port then address.port = native:port() end
  local self = setmetatable({
    native = native, address = address, routes = {}, reported = {},
    hosts = { localhost = true, [(address.host or "localhost"):lower()] = true },
  }, Server)
  local own_name = (core.slurp "/proc/sys/kernel/hostname" or ""):match "%S+"
  if own_name then self.hosts[own_name:lower()] = true end
  for _, name in ipairs(opts and opts.hosts or {}) do self.hosts[name:lower()] = true end
  self.routes["/healthz"] = function() return { body = "ok\n" } end
  -- os.exit() leaves the Lua state as it is.
  self.at_exit = core.at_exit(function() self:close() end)
  return self
end

--- Answers requests in the loop of the session from now on. Raises if the session cannot watch a descriptor.
function Server:attach(session)
  self.session = session
  local function handler(request) return handle(self, request) end
  self.turn = function()
    self.native:turn(handler)
    local delay = self.page and self:call("/", self.page.work, self.page)
    if delay then self.native:wake(delay) end
  end
  local ok, why = event_loop.watch_descriptor(session, self.native:fd(), self.turn)
  if not ok then error(why, 0) end
  message.say("serving " .. shown_address(self.address))
end

--- Serves a page: `routes`, `work()`, which does a piece of its work after each turn and returns the ns until its next
-- piece, and `finish()`.
function Server:add_page(page)
  for path, route in pairs(page.routes) do self.routes[path] = route end
  self.page = page
end

local LAST_TURNS = 20 -- a client that reads gets the last events in fewer

--- The session has ended: sends the last state of the page, then closes.
function Server:finish()
  if self.page and self.turn then
    self:call("/", self.page.finish, self.page)
    for _ = 1, LAST_TURNS do self.turn() end
  end
  self:close()
end

--- Cuts all connections, and stops to listen.
function Server:close()
  self.at_exit:cancel()
  self.native:close()
end

return M
