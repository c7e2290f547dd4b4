--- Checks the signature of a text with ssh-keygen(1): `ssh-keygen -Y sign -n perfev-script -f KEY FILE` makes one.

local program = require "perfl.fleet.program"
local protocol = require "perfl.fleet.protocol"

local M = {}

local function write(path, text)
  local file, why = io.open(path, "wb")
  if not file then return nil, why end
  local ok, failed = file:write(text)
  file:close()
  return ok, failed
end

-- The first line that a program prints, the error if it fails; and whether it succeeds.
local function run(words, input)
  local ok, out, err = program.run(words, input)
  return (ok and out or err .. out):match "^[^\n]*":gsub("%s+$", ""), ok
end

--- Makes a directory for the texts of a request; remove() it.
function M.directory()
  local line, ok = run { "mktemp", "-d", "-p", os.getenv "RUNTIME_DIRECTORY" or "/tmp" }
  if not ok then return nil, line end
  return line
end

--- Removes such a directory.
function M.remove(directory, names)
  for _, name in ipairs(names) do os.remove(directory .. "/" .. name) end
  os.remove(directory)
end

--- Verifies a text in a file of the directory.
-- @tparam string directory
-- @tparam string name       of the file with the text
-- @tparam string signature  armoured
-- @tparam string signers    path of the list of signers (ssh-keygen(1), ALLOWED SIGNERS)
-- @treturn[1] string        the signer
-- @treturn[2] nil
-- @treturn[2] string        why it is not valid
function M.verify(directory, name, signature, signers)
  local signed = directory .. "/signature"
  local ok, why = write(signed, signature)
  if not ok then return nil, why end
  local principal, is_known = run { "ssh-keygen", "-Y", "find-principals", "-s", signed, "-f", signers }
  local line, is_valid = principal, false
  if is_known then
    line, is_valid = run({ "ssh-keygen", "-Y", "verify", "-n", protocol.NAMESPACE, "-I", principal, "-s", signed, "-f",
                           signers }, directory .. "/" .. name)
  end
  os.remove(signed)
  if is_valid then return principal end
  return nil, is_known and line or "its key is not in the list of signers"
end

return M
