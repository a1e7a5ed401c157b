--- Retries of a request: how many it is granted at its first try, and which of them are refused later. The rules are
-- in core/retries; nginx is asked for the tries here.

local balancer = require "ngx.balancer"
local platform = require "steelyard.io.platform"
local request = require "steelyard.phase.request"
local retries = require "steelyard.core.retries"
local untried_peers = require "steelyard.core.untried_peers"
local worker = require "steelyard.phase.worker"

local ngx = ngx
local set_more_tries, get_method = balancer.set_more_tries, ngx.req.get_method

local _M = {}


--- Ask nginx for fewer tries than it has just reduced, until it takes the number; return that.
local function tries_of_nginx(more_tries)
    local reduced
    repeat
        more_tries = more_tries - 1
        reduced = select(2, set_more_tries(more_tries))
    until not reduced or more_tries == 0
    return more_tries
end


--- Grant a request its tries beyond the first: ask nginx for them, and note them. nginx.conf may allow fewer
-- (`proxy_next_upstream_tries`). There are none while the budget is spent: the request then ends as its first try does,
-- with the server's own answer if it has one.
function _M.grant(live, entry, peer)
    local more_tries, budget, over_budget = live:tries_after(peer), live.retry_budget, false
    local is_spare = more_tries == 0 and live.settings.retries > 0
    if is_spare and platform.asks_for_spare then
        more_tries = 1
    end
    if budget then
        budget:count()
        over_budget = more_tries > 0 and budget.spent and budget:is_spent()
    end
    if over_budget then
        more_tries = 0
    elseif more_tries > 0 then
        local _, reduced = set_more_tries(more_tries)
        if reduced then
            more_tries = tries_of_nginx(more_tries)
        end
    elseif is_spare then
        more_tries = 1 -- nginx gives it back unasked
    end
    local retry = entry.retry
    retry.allowed, retry.is_spare, retry.over_budget = more_tries, is_spare, over_budget
end


--- Tell whether a spare try is beyond nginx.conf's limit. nginx counts what it gave back beyond the limit, too, so this
-- is known only if it was not asked for more tries.
local function is_beyond_limit()
    local _, reduced = set_more_tries(0)
    return reduced ~= nil
end


--- If the request may not be tried again, the status to answer with, and the reason; nil if it may.
function _M.refusal(live, entry)
    local last, method, budget = request.outcomes(entry)[entry.tries.n], get_method(), live.retry_budget
    local tries, retry = entry.tries, entry.retry
    if tries.n - tries.from >= retry.allowed then
        return last.status or 502, retries.why_no_more(
            retry, tries.n - tries.from, live.settings.retries, untried_peers.count(live, tries, tries.from))
    end
    local status = retry.is_spare and retries.refusal(last)
    if status then
        return status
    elseif retry.is_spare and is_beyond_limit() then
        return last.status or 502, retries.LIMITED_BY_NGINX
    elseif not retries.may_be_sent_again(method, last, live.settings.idempotent_methods) then
        return last.status or 502, method .. " is not sent twice"
    elseif budget and not budget:take() then
        worker.retry_refused(live.name)
        return last.status or 502, "the retry budget is spent"
    end
    worker.dict:incr("retries/" .. live.name, 1, 0)
end


return _M
