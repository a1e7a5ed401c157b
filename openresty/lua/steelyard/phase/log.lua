--- log_by_lua: count what became of the request, and let go of its server.
--
-- One line at http or server level serves a configuration that mixes our
-- upstreams with nginx's own. Requests that none of ours chose for have no
-- entry, but one of our servers may have done their work all the same, and been
-- busy with it: they count for that server too.

local outcomes_of = require "steelyard.phase.outcomes"
local request_key = require "steelyard.phase.request"
local tries = require "steelyard.core.tries"
local worker = require "steelyard.phase.worker"

local ngx, tonumber = ngx, tonumber
local now = ngx.now


local function count(ledger, entry)
    local var = ngx.var
    local status = entry.n == 1 and tonumber(var.upstream_status)
    if status and status < 500 then
        -- One try, one number: nothing else is in nginx's lists.
        ledger:tried(entry[1], "completed", (tonumber(var.upstream_response_time) or 0) * 1000, now())
        return
    end
    local outcomes = outcomes_of(entry)
    for i = 1, entry.n do
        local outcome = outcomes[i]
        ledger:tried(entry[i], outcome.verdict, outcome.seconds * 1000, now())
        if outcome.verdict == "failed" and not outcome.answered then
            worker.unanswered(entry.upstream, entry[i])
        end
    end
end


--- The cell of one of our servers, or nil.
local function cell_of(address)
    for _, live in pairs(worker.upstreams) do
        local cell = live.addresses[address]
        if cell then
            return cell
        end
    end
end


--- Count what nginx itself sent to our servers, by another upstream.
local function count_bystander(ledger)
    local var = ngx.var
    local addresses = var.upstream_addr
    if not addresses then
        return
    end
    addresses = tries.split(addresses)
    local statuses, times = tries.split(var.upstream_status), tries.split(var.upstream_response_time)
    for i = 1, #addresses do
        local cell = cell_of(addresses[i])
        if cell then
            ledger:count(cell, addresses[i], tries.verdict(tonumber(statuses[i])), (tonumber(times[i]) or 0) * 1000)
        end
    end
end


--- Count the running request.
return function()
    local ledger, key = worker.ledger, request_key()
    local entry = ledger.open[key]
    if not entry then
        return count_bystander(ledger)
    end
    if entry.n > 0 then
        count(ledger, entry)
    end
    ledger:close(key)
    if worker.leaving then
        worker.flush()
    end
end
