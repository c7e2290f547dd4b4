--- BPF programs at the tracepoints of a budget. A program of any process that returns 0 hides the tracepoint's events
-- from all perf events of the machine (perf_trace_run_bpf_submit()), as syscount of libbpf-tools does: the counts would
-- be too low.

local lazy = require "perfev.base.lazy_module"
local counter = lazy "perfev.counter.counter"

local M = {}

local TRACEPOINT = 2 -- PERF_TYPE_TRACEPOINT

local WHY = "a BPF program is attached to %s, and may hide its events from perf\n"
  .. "  try: end the tool that attached it (bpftool link, bpftool perf)"

--- Opens what is needed to ask for the programs of a tracepoint.
-- @tparam string event
-- @treturn ?table  for find() and close(); nil for other events, and where it cannot be opened
function M.watch(event)
  local c = counter.new({ event, tid = "self", inherit = false, disabled = true }, false, 2)
  if not c then return nil end
  local member = c:member()
  if member.attr.type == TRACEPOINT then return { event = event, counter = c, member = member } end
  c:close()
end

--- Why the counts of a tracepoint may be too low now, or nil. Without the right to ask (CAP_PERFMON) it is nil.
function M.find(watched)
  local ids, n = watched.member:query_bpf(1)
  return ids and n > 0 and WHY:format(watched.event) or nil
end

function M.close(watched) watched.counter:close() end

return M
