--- balancer_by_lua: choose the server for this try.

local balancer = require "ngx.balancer"
local request_key = require "steelyard.phase.request"
local worker = require "steelyard.phase.worker"

local ngx = ngx
local get_last_failure, set_current_peer = balancer.get_last_failure, balancer.set_current_peer
local set_more_tries = balancer.set_more_tries
local start_time = ngx.req.start_time

-- NGX_BUSY, for which ngx_lua has no name: nginx answers 502, "no live upstreams".
local NO_LIVE_UPSTREAMS = -3


--- The tries of a subrequest. nginx runs no log phase for it, so it is chosen
-- for but not counted; and its context is its own.
local function subrequest_entry()
    local entry = ngx.ctx.steelyard or { n = 0, from = 1 }
    ngx.ctx.steelyard = entry
    return entry
end


local function give_up(entry, counted, why)
    if counted then
        worker.ledger:none(entry, why)
    end
    ngx.log(ngx.ERR, "steelyard: upstream ", entry.upstream, ": ", why)
    return ngx.exit(NO_LIVE_UPSTREAMS)
end


--- Choose a server of the upstream `name`.
return function(name)
    local ledger, live = worker.ledger, worker.upstreams[name]
    local counted = not ngx.is_subrequest
    local entry = counted and ledger:entry(request_key(), start_time()) or subrequest_entry()
    entry.upstream = name
    if worker.broken or not live then
        return give_up(entry, counted, worker.broken or "it is not among `upstreams` in init_worker")
    end

    local peer
    if get_last_failure() == nil then
        entry.from = entry.n + 1 -- an internal redirect may have brought it here again
        peer = live:first()
        local retries = peer and live:retries() or 0
        if retries > 0 then
            set_more_tries(retries)
        end
    else
        peer = live:another(entry, entry.from)
    end
    if not peer then
        return give_up(entry, counted, live:why_none())
    end

    local ok, err = set_current_peer(peer.ip, peer.port)
    if not ok then
        return give_up(entry, counted, "nginx does not take " .. peer.address .. ": " .. tostring(err))
    end
    if counted then
        ledger:picked(entry, peer)
    else
        entry.n = entry.n + 1
        entry[entry.n] = peer
    end
end
