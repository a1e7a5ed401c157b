--- The content of `error_page 502 503 504 = @...`: a problem document that
-- says why, with the status that nginx would have answered.

local outcomes_of = require "steelyard.phase.outcomes"
local problem = require "steelyard.core.problem"
local request_key = require "steelyard.phase.request"
local tries = require "steelyard.core.tries"
local worker = require "steelyard.phase.worker"


--- `error_page ... =` takes the status away, and the last try still has it.
local function status_of()
    if ngx.status >= 400 then
        return ngx.status
    end
    local statuses = tries.split(ngx.var.upstream_status)
    local last = tonumber(statuses[#statuses])
    return last and last >= 500 and last or 502
end


--- Answer the failed request.
return function()
    local entry = worker.ledger.open[request_key()]
    local status = status_of()
    local detail, extra = problem.of_request(entry, entry and outcomes_of(entry))
    ngx.status = status
    ngx.header["Content-Type"] = problem.CONTENT_TYPE
    ngx.header["Cache-Control"] = "no-store"
    ngx.say(problem.encode(status, detail, extra))
end
