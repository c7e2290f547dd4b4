-- http.lua - perfl --http for specs: it serves while its command, which waits for the spec, is held.
--
--   local http = require "spec.support.http"
--   local served = http.serve(dir, { "-q" }, script)   -- served.port, served.line
--   http.get(served, "/metrics")                       -- status, headers (lower-case names), body
--   served:finish()                                    -- the rest of its messages, its exit status

local run = require "spec.support.run"

local http = {}

local Served = {}
Served.__index = Served

local nr = 0

--- Starts perfl on a script, and returns when it serves.
-- @tparam string dir       for files; those of each server are in a directory of its own below it, served.dir
-- @tparam {string,...} words  of perfl, besides --http
-- @tparam string script    Lua text
-- @tparam[opt] string address  of --http, default "0"
-- @tparam[opt] string command  default: waits for finish(), which writes to the pipe HOLD
function http.serve(dir, words, script, address, command)
  nr = nr + 1
  dir = ("%s/served-%d"):format(dir, nr)
  local self = setmetatable({ dir = dir, hold = dir .. "/hold" }, Served)
  assert(os.execute(("mkdir %s && mkfifo %s"):format(dir, self.hold)))
  self.holder = assert(io.open(self.hold, "r+"))
  command = (command or "sh -c 'read x < HOLD'"):gsub("HOLD", self.hold)
  local path = run.write_file(dir .. "/script.lua", script)
  local line = ("exec timeout -k 5 300 %s --http %s %s %s -- %s 2>&1 >%s/out"):format(run.quote(run.perfl),
    run.quote(address or "0"), table.concat(words, " "), path,
    command, dir)
  self.messages = assert(io.popen(line))
  self.line = self.messages:read "l" or ""
  while self.line ~= "" and not self.line:find "serving " do -- a sanitizer may warn first
    self.line = self.messages:read "l" or ""
  end
  self.port = self.line:match ":(%d+)/$"
  return self
end

--- Ends the command -> the rest of the messages, the exit status.
function Served:finish()
  self.holder:write "\n"
  self.holder:flush()
  local rest = self.messages:read "a"
  local _, _, status = self.messages:close()
  self.holder:close()
  return rest, status
end

--- Runs a client of http_client.pl -> its output.
function http.client(address, ...)
  local r = run { "perl", "spec/support/http_client.pl", tostring(address), ... }
  assert(r.code == 0, r.err)
  return r.out
end

--- Splits an answer -> status, headers by lower-case name, body.
function http.parse(answer)
  local head, body = answer:match "^(.-\r\n)\r\n(.*)$"
  if not head then return nil, {}, answer end
  local headers = {}
  for name, value in head:gmatch "([%w-]+): ([^\r]*)\r" do headers[name:lower()] = value end
  if headers["transfer-encoding"] == "chunked" then
    local parts, at = {}, 1
    while true do
      local size, first = body:match("^(%x+)\r\n()", at)
      size = size and tonumber(size, 16)
      if not size or size == 0 then
        if not size then headers.cut = true end
        break
      end
      parts[#parts + 1] = body:sub(first, first + size - 1)
      at = first + size + 2
    end
    body = table.concat(parts)
  end
  return tonumber(head:match "^HTTP/1.1 (%d+)"), headers, body
end

--- Requests a path -> status, headers, body.
-- @tparam table opts  `method`, `host`, `headers` (lines that end with \r\n)
function http.get(served, path, opts)
  opts = opts or {}
  return http.parse(http.client(served.path or served.port, "send",
    ("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n"):format(opts.method or "GET", path,
      opts.host or "localhost", opts.headers or "")))
end

return http
