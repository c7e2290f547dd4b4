--- Options of s:records{}, d:records(bytes, {}), rec:records{}; of perfev.open, perfev.unpack and
-- frames.encode.

local M = {}

M.session_records = { fields = { "table", "a list of names" } }
M.decoder_records = { fields = { "table", "a list of names" }, bad = "function" }
M.recording_records = {
  fields = { "table", "a list of names" }, types = { "list of record type", "a list of names" }, user = "boolean",
}
M.open = { ordered = "boolean", window = "integer 0..2147483647", log = "function",
           fd = { "integer 0..2147483647", "a descriptor's number" } }
M.unpack = { max_bytes = "integer >= 0" }
M.frames_encode = { armor = "boolean" }

return M
