--- The entry of the running request in the ledger: its tries so far.

local request_key = require "steelyard.phase.request"
local worker = require "steelyard.phase.worker"

local ngx = ngx
local start_time = ngx.req.start_time


--- The entry, and whether its tries are counted. A subrequest is chosen for but
-- not counted, because nginx runs no log phase for it; and its context is its own.
return function()
    if not ngx.is_subrequest then
        return worker.ledger:entry(request_key(), start_time()), true
    end
    local entry = ngx.ctx.steelyard or { n = 0, from = 1 }
    ngx.ctx.steelyard = entry
    return entry, false
end
