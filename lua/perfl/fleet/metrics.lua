--- What `perfl agent` says of itself at /metrics.

local log = require "perfl.fleet.log"

local M = {}

-- name -> help; all are counters
local counters = {
  { "frames", "Frames that the workers of jobs wrote." },
  { "sent", "Messages sent to the stream, repeated ones included." },
  { "acknowledged", "Deltas that the stream acknowledged." },
  { "unacknowledged", "Messages that the stream did not acknowledge in time, or refused." },
  { "coalesced", "Intervals merged into the next delta while one was not acknowledged." },
  { "failed", "Frames or deltas dropped because of an error." },
  { "restarts", "Workers of jobs that ended and were restarted." },
  { "requests", "Requests of perfl gather to this host." },
  { "refused", "Requests that were refused." },
  { "failed_requests", "Requests that were run and failed." },
  { "frames_sent", "Frames sent to perfl gather." },
  { "slow", "Times at which messages were dropped because this agent was slow." },
}

--- All counters at 0.
function M.new_counts()
  local counts = {}
  for _, counter in ipairs(counters) do counts[counter[1]] = 0 end
  return counts
end

local function gauge(lines, name, help, value)
  table.move({ ("# HELP perfev_agent_%s %s"):format(name, help), ("# TYPE perfev_agent_%s gauge"):format(name),
               ("perfev_agent_%s %d"):format(name, value) }, 1, 3, #lines + 1, lines)
end

--- The exposition in Prometheus' text format.
function M.text(agent)
  local lines, running, waiting = {}, 0, 0
  for _, counter in ipairs(counters) do
    local name = ("perfev_agent_%s_total"):format(counter[1])
    table.move({ ("# HELP %s %s"):format(name, counter[2]), ("# TYPE %s counter"):format(name),
                 ("%s %d"):format(name, agent.counts[counter[1]]) }, 1, 3, #lines + 1, lines)
  end
  for _, job in pairs(agent.jobs) do
    running, waiting = running + (job.worker and 1 or 0), waiting + job.outbox:outstanding()
  end
  gauge(lines, "jobs_running", "Jobs whose worker runs.", running)
  gauge(lines, "messages_outstanding", "Messages that wait for their acknowledgement.", waiting)
  gauge(lines, "connected", "1 while a NATS server is connected.",
    agent.connection and agent.connection:status() == "connected" and 1 or 0)
  return table.concat(lines, "\n") .. "\n"
end

--- Serves /metrics if the configuration has the section [metrics].
function M.serve(agent)
  local settings = agent.config.metrics
  if not settings then return end
  local server, why = require("perfl.http.server").open(settings.listen)
  if not server then return log.error("metrics_not_served", { reason = why }) end
  server.routes["/metrics"] = function()
    return { type = "text/plain; version=0.0.4; charset=utf-8", body = M.text(agent) }
  end
  server:attach(agent.session)
  agent.server = server
end

return M
