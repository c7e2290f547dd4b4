--- The profile stores that perfl collect pushes to: the requests they take and the answers they give.

local escape = require "perfev.base.escape"
local json = require "perfev.base.json"
local otlp = require "perfl.collect.otlp"

local M = {}

-- Pyroscope's names of units.
local pyroscope_units = { count = "samples", ns = "nanoseconds", bytes = "bytes" }

local function url_word(text)
  return (tostring(text):gsub("[^%w_.~-]", function(c) return ("%%%02X"):format(c:byte()) end))
end

-- Labels of Pyroscope end at "," and "}".
local function label(text) return (tostring(text or ""):gsub("[^%w_./@:-]", "_")) end

local function boundary_of(body)
  local n = 0
  while body:find("perfev-" .. n, 1, true) do n = n + 1 end
  return "perfev-" .. n
end

-- multipart/form-data with the profile, and the types of its values: the server drops types that it does not know.
local function pprof_request(url, header, profile)
  profile.time = header.begin
  profile.duration = (header["end"] or 0) - (header.begin or 0)
  local types = {}
  for _, value in ipairs(profile.values) do
    types[value.name] = { units = pyroscope_units[value.unit] or value.unit, ["display-name"] = value.name,
                          aggregation = "sum" }
  end
  local body, config = profile:pprof(), json.encode(json.object(types))
  local boundary = boundary_of(body)
  local function part(name, content)
    return ('--%s\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n')
      :format(boundary, name, name, content)
  end
  local name = ("%s{host=%s,name=%s}"):format(label(header.job), label(header.host), label(header.name))
  local query = ("?name=%s&from=%d&until=%d&spyName=perfev"):format(url_word(name), (header.begin or 0) // 1000000000,
    ((header["end"] or 0) + 999999999) // 1000000000)
  return url .. query, { "Content-Type: multipart/form-data; boundary=" .. boundary },
    part("profile", body) .. part("sample_type_config", config) .. "--" .. boundary .. "--\r\n"
end

local function otlp_request(url, header, profile)
  return url, { "Content-Type: application/x-protobuf", otlp.VERSION_HEADER }, otlp.request(header, profile)
end

local kinds = {
  pprof = { request = pprof_request, path = "/ingest" },
  otlp = { request = otlp_request, path = "/v1development/profiles", rejected = otlp.rejected },
}

--- Reads "pprof:URL" or "otlp:URL". A URL without a path gets the usual one.
-- @treturn[1] table  `kind`, `url`
-- @treturn[2] nil
-- @treturn[2] string|nil  why it is refused; nil: not of this form
function M.parse(text)
  local kind, url = text:match "^(%l+):(.*)$"
  if not kinds[kind] then return nil end
  local host, path = url:match "^https?://([^/?#]+)([^?#]*)$"
  if not host then
    return nil, ("--to '%s': a URL of http or https without ? and # expected\ntry: --to %s:http://localhost:4040")
      :format(escape(text), kind)
  end
  if host:find("@", 1, true) then
    return nil, ("--to '%s': a password on the command line is visible to all users\n"
      .. "try: --header-file FILE, with the line 'Authorization: Basic …'"):format(escape(text))
  end
  if path == "" or path == "/" then url = url:gsub("/$", "") .. kinds[kind].path end
  return { kind = kind, url = url }
end

--- The request for a profile.
-- @treturn string  URL
-- @treturn {string,...}  headers
-- @treturn string  body
function M.request(store, header, profile) return kinds[store.kind].request(store.url, header, profile) end

-- Answers to a request that a later one may not get. All others below 500 are about this profile.
local again = { [401] = true, [403] = true, [404] = true, [405] = true, [408] = true, [421] = true, [425] = true,
                [429] = true }

local function first_line(text) return escape((text or ""):match "^%s*([^\r\n]*)":sub(1, 200)) end

--- What a result of perfev.http_client means.
-- @treturn string  "accepted", "refused" (this profile, for good) or "again"
-- @treturn string|nil  the reason
-- @treturn integer|nil  seconds after which the server wants the next request
function M.outcome(store, result)
  if result.error then return "again", escape(result.error) end
  local status = result.status
  if status >= 200 and status < 300 then
    local rejected, why = 0, nil
    if kinds[store.kind].rejected then rejected, why = kinds[store.kind].rejected(result.body) end
    if rejected == 0 then return "accepted" end
    return "refused", ("the server rejected %d profile%s: %s"):format(rejected, rejected == 1 and "" or "s",
      first_line(why))
  end
  local text = ("HTTP status %d%s"):format(status, result.body ~= "" and ": " .. first_line(result.body) or "")
  if status >= 500 or status < 400 or again[status] then return "again", text, result.retry_after end
  return "refused", text
end

return M
