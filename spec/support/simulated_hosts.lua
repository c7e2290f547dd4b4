-- simulated_hosts.lua - hosts that answer perfl gather, many in one process, with frames made before.
--
--   lua5.4 spec/support/simulated_hosts.lua URL FIRST NR CONNECTIONS TEMPLATE BYTES SECONDS READY
--
-- Hosts sim-FIRST .. sim-(FIRST+NR-1) share the connections. TEMPLATE is a file of frames of perfl --pack: the answer
-- of sim-N has its values M.times(N) times. With BYTES above 0 a profile in it is replaced by one of distinct stacks
-- of about that many bytes. READY is made when they listen; they end after SECONDS.

package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
package.cpath = "build/?.so;" .. package.cpath

local core = require "perfev.core"
local frames = require "perfev.aggregate.frames"
local perfev = require "perfev"
local protocol = require "perfl.fleet.protocol"

local M = {}

--- How often a host has the values of the template.
function M.times(number) return number % 5 + 1 end

--- A name of a simulated host.
function M.host(number) return "sim-" .. number end

--- The frames of a file: list of { header =, value =, bytes = }.
function M.read(path)
  local list = {}
  for frame, why in frames(assert(io.open(path, "rb"))) do
    list[#list + 1] = { header = assert(frame, why).header, value = assert(frame:value()), bytes = frame.bytes }
  end
  return list
end

--- A profile of about that many bytes as folded text; the stacks have counts 1, 2, ….
function M.big_profile(like, bytes)
  local p = perfev.profile { title = like.title, values = like.values, max_bytes = "1G" }
  local state, size, nr = 12345, 0, 0
  local function random(n)
    state = (state * 1103515245 + 12345) & 0x7fffffff
    return state % n
  end
  while size < bytes do
    local names = { "main" }
    for depth = 2, 16 + random(16) do names[depth] = ("function_%d_of_module_%d"):format(random(4000), random(60)) end
    local text = table.concat(names, ";")
    nr, size = nr + 1, size + #text
    p:add(text, nr)
  end
  return p
end

-- The answer of a host: a list of frames, as bytes.
local function answer_of(number, template)
  local list = {}
  for _, one in ipairs(template) do
    local header = {}
    for key, value in pairs(one.header) do header[key] = value end
    header.host, header.machine = M.host(number), M.host(number)
    header.start, header.part, header.check = ("%032x"):format(number), nil, nil
    local value = one.value
    for _ = 2, M.times(number) do
      value = value == one.value and assert(perfev.unpack(value:pack())) or value
      value:merge(assert(perfev.unpack(one.value:pack())))
    end
    for _, bytes in ipairs(assert(frames.encode(header, value))) do list[#list + 1] = bytes end
  end
  return list
end

local function main(url, first, nr, connections, template_path, bytes, seconds, ready)
  local nats = require "perfev.nats"
  local real = perfev.hooks.real
  local template = M.read(template_path)
  for _, one in ipairs(template) do
    if bytes > 0 and one.header.kind == "profile" then one.value = M.big_profile(one.value, bytes) end
  end
  local epoll, links = assert(real.epoll_create()), {}
  for i = 1, connections do
    local c = assert(nats.connect { url = require("spec.support.deltas").urls(url), name = "hosts" .. i })
    links[i] = { c = c, runs = assert(c:subscribe "perfev.run.>"), hosts = {} }
    assert(real.epoll_ctl(epoll, 1, c:fd(), 1, i))
  end
  for number = first, first + nr - 1 do
    local link = links[number % connections + 1]
    link.hosts[M.host(number)] = { number = number, frames = answer_of(number, template) }
  end

  local function send(link, host, id, fields, body)
    fields.id, fields.host = id, host
    assert(link.c:publish(protocol.result_subject(host, id), protocol.encode(fields, body)))
  end
  local function take_run(link, fields)
    for host, one in pairs(link.hosts) do
      if protocol.names_host(fields, host) then
        local size = 0
        for _, frame in ipairs(one.frames) do size = size + #frame end
        send(link, host, fields.id, { op = "accepted", clock = core.clock(0), place = 0 })
        send(link, host, fields.id, { op = "ready", frames = #one.frames, bytes = size, final = true, status = 0,
                                      clock = core.clock(0) })
      end
    end
  end
  local function take_fetch(link, fields, host)
    local one = link.hosts[host]
    local from = math.max(1, fields.from or 1)
    for i = from, one and math.min(#one.frames, from + (fields.count or 1) - 1) or 0 do
      send(link, host, fields.id, { op = "frame", index = i, frames = #one.frames }, one.frames[i])
    end
  end
  for _, link in ipairs(links) do assert(link.c:flush(5000)) end
  assert(io.open(ready, "w")):close()
  local stop = core.clock(1) + seconds * 1000000000
  while core.clock(1) < stop do
    real.epoll_wait(epoll, 64, 100)
    for _, link in ipairs(links) do
      link.c:notes()
      local message = link.runs:next()
      while message do
        local fields = protocol.decode(message.data)
        if fields and fields.op == "run" then take_run(link, fields) end
        if fields and fields.op == "fetch" then
          take_fetch(link, fields, message.subject:match "^perfev%.run%.(.*)$")
        end
        message = link.runs:next()
      end
    end
  end
  for _, link in ipairs(links) do link.c:close() end
end

if arg and arg[0] and arg[0]:find "simulated_hosts" then
  main(arg[1], tonumber(arg[2]), tonumber(arg[3]), tonumber(arg[4]), arg[5], tonumber(arg[6]), tonumber(arg[7]), arg[8])
end

return M
