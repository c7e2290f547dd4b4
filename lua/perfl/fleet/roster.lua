--- The hosts that should answer a request: those that said hello, or those of a file.

local escape = require "perfev.base.escape"
local frames = require "perfev.aggregate.frames"
local protocol = require "perfl.fleet.protocol"

local M = {}

local STREAM = "perfev-hello"
local FRESH_NS = 10 * protocol.HELLO_S * 1000000000 -- hosts whose last hello is older are not expected
local FETCH_MOST, FETCH_MS = 10000, 3000
local FILE_MAX = 16 << 20

-- The last hello of each host -> list of messages | nil, why
local function read_hellos(connection)
  local info, why = connection:stream_info(STREAM)
  if not info then return nil, why end
  if info.messages == 0 then return {} end
  local consumer
  consumer, why = connection:pull(STREAM, nil, { from = "last", filter = protocol.hello_subject "*" })
  if not consumer then return nil, why end
  local all = {}
  repeat
    local list
    list, why = consumer:fetch(math.min(info.messages, FETCH_MOST), FETCH_MS)
    if not list then return nil, why end
    table.move(list, 1, #list, #all + 1, all)
    local last = list[#list]
  until not last or last.pending == 0
  consumer:close()
  return all
end

local function is_in_group(fields, group)
  if group == "all" or fields.host == group then return true end
  for _, name in ipairs(type(fields.groups) == "table" and fields.groups or {}) do
    if name == group then return true end
  end
  return false
end

--- Reads who is there.
-- @tparam userdata connection
-- @tparam string group
-- @tparam integer now       CLOCK_REALTIME in ns
-- @treturn[1] table         set of hosts
-- @treturn[1] {string,...}  hosts that said nothing for five minutes
-- @treturn[2] nil
-- @treturn[2] string        why the roster is unknown
function M.read(connection, group, now)
  local hellos, why = read_hellos(connection)
  if not hellos then return nil, why end
  local newest = now -- of the server's clock
  for _, message in ipairs(hellos) do newest = math.max(newest, message.time or 0) end
  local hosts, gone = {}, {}
  for _, message in ipairs(hellos) do
    local host, fields = protocol.host_of(message.subject), protocol.decode(message.data)
    if host and fields and is_in_group(fields, group) then
      if newest - (message.time or newest) <= FRESH_NS then
        hosts[host] = true
      else
        gone[#gone + 1] = host
      end
    end
  end
  table.sort(gone)
  return hosts, gone
end

--- Reads a file of hosts: a name in each line, comments from # on.
-- @treturn[1] table  set of hosts
-- @treturn[2] nil
-- @treturn[2] string
function M.read_file(path)
  local file, why = io.open(path, "r")
  if not file then return nil, ("--hosts @%s"):format(escape(why)) end
  local text = file:read(FILE_MAX) or ""
  file:close()
  local hosts = {}
  for line in text:gmatch "[^\n]+" do
    for word in line:gsub("#.*", ""):gmatch "%S+" do
      local host = protocol.token(word)
      if word:find "[*?%[]" then
        return nil, ("--hosts @%s: '%s' is a pattern\ntry: --hosts '%s'"):format(escape(path), escape(word),
          escape(word))
      end
      hosts[host] = true
    end
  end
  if not next(hosts) then return nil, ("--hosts @%s: the file names no host"):format(escape(path)) end
  return hosts
end

--- At most nr hosts of a set, others for each id.
function M.choose(hosts, nr, id)
  local list, chosen = {}, {}
  for host in pairs(hosts) do list[#list + 1] = { frames.sha256(id .. host), host } end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for i = 1, math.min(nr, #list) do chosen[list[i][2]] = true end
  return chosen
end

return M
