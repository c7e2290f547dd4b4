-- store.lua - starts store.pl, a profile store that answers as told.
--
--   local store = require("spec.support.store").start { "503", "200" }
--   store.url, store:requests() -> { { head =, body = }, ... }, store:stop()

local run = require "spec.support.run"

local Store = {}
Store.__index = Store

function Store:requests()
  local list = {}
  while true do
    local head = run.slurp(("%s/%d.head"):format(self.dir, #list + 1))
    if not head then return list end
    list[#list + 1] = { head = head, body = run.slurp(("%s/%d.body"):format(self.dir, #list + 1)) }
  end
end

--- Ends the server: standard input ends.
function Store:stop()
  if self.input then self.input:close() end
  self.input = nil
  run.remove(self.dir)
end

local M = {}

--- @tparam {string,...} answers  see store.pl
-- @tparam ?string port  default: a free one
function M.start(answers, port)
  local dir = run.tempdir()
  local words = { "timeout", "300", "perl", "spec/support/store.pl", dir, port or "0" }
  for i, answer in ipairs(answers) do words[6 + i] = answer end
  for i, word in ipairs(words) do words[i] = run.quote(word) end
  local input = assert(io.popen(("exec %s >%s/port"):format(table.concat(words, " "), run.quote(dir)), "w"))
  local self = setmetatable({ dir = dir, input = input }, Store)
  for _ = 1, 400 do
    local open = (run.slurp(dir .. "/port") or ""):match "^(%d+)\n"
    if open then
      self.port, self.url = tonumber(open), ("http://127.0.0.1:%s"):format(open)
      return self
    end
    os.execute "sleep 0.02"
  end
  self:stop()
  error "store.pl does not start"
end

return M
