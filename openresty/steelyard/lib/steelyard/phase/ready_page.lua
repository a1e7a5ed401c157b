--- Readiness: whether requests may be sent to this load balancer. For those who start it and take it in (Kubernetes,
-- a virtual address), so anybody may ask.
--
-- What it has once it keeps: no part of the control plane that is away takes a load
-- balancer out of service that has servers to send requests to.

local problem = require "steelyard.core.problem"
local worker = require "steelyard.phase.worker"

local _M = {}


--- What this worker waits for, in words; nil: it is ready.
local function waits_for()
    if worker.broken then
        return worker.broken
    end
    if worker.options.any_upstream and not worker.listed_version then
        return "the controller's list of upstreams has not come yet"
    end
    for name in pairs(worker.options.declared) do
        if worker.upstreams[name].rung == "none" then
            return "upstream " .. name .. " has no weight table yet, and no list of servers"
        end
    end
end


--- Content handler: 200 once this worker can serve, 503 and why before.
function _M.ready()
    local why = waits_for()
    ngx.status = why and 503 or 200
    ngx.header["Content-Type"] = why and problem.CONTENT_TYPE or "application/json"
    ngx.header["Cache-Control"] = "no-store"
    ngx.say(why and problem.encode(503, why) or '{"status":"ok"}')
end


return _M
