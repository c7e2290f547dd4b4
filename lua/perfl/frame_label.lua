--- Labels of frames: further keys of their header, from --label.

local escape = require "perfev.base.escape"

-- Keys of the header that perfl writes itself.
local own_keys = {}
for key in ("start seq part begin end name kind script script_sha256 args args_sha256 version lost refused late last "
  .. "every turn spans check arch"):gmatch "%S+" do own_keys[key] = true end

--- Parses the value of --label.
-- @tparam string text  KEY=VALUE
-- @treturn[1] table  { key, value }
-- @treturn[2] nil
-- @treturn[2] string
return function(text)
  local key, value = text:match "^([%l][%l%d_]*)=(.*)$"
  if not key or value:find "%c" then
    return nil, ("label '%s': expected KEY=VALUE, as in job=web"):format(escape(text))
  end
  if own_keys[key] then return nil, ("label '%s': perfl writes the key '%s' itself"):format(escape(text), key) end
  return { key, value }
end
