--- balancer_by_lua: choose the server for this try.

local balancer = require "ngx.balancer"
local platform = require "steelyard.io.platform"
local tried = require "steelyard.phase.tried"
local worker = require "steelyard.phase.worker"

local ngx = ngx
local get_last_failure, set_current_peer = balancer.get_last_failure, balancer.set_current_peer
local set_more_tries, keep_alive = balancer.set_more_tries, platform.keep_alive

-- NGX_BUSY, for which ngx_lua has no name: nginx answers 502, "no live upstreams".
local NO_LIVE_UPSTREAMS = -3


local function give_up(entry, counted, why)
    if counted then
        worker.ledger:none(entry, why)
    end
    ngx.log(ngx.ERR, "steelyard: upstream ", entry.upstream, ": ", why)
    return ngx.exit(NO_LIVE_UPSTREAMS)
end


--- The peer of the first try: the one that shard() chose, if nothing has changed
-- meanwhile (reading a long request body takes its time).
local function first(entry, live)
    local peer = entry.reserved
    if peer then
        entry.reserved = nil
        if entry.reserved_at == live.changes then
            return peer
        end
    end
    return live:first(live.hash_variable and ngx.var[live.hash_variable])
end


--- Choose a server of the upstream `name`.
return function(name)
    local live = worker.upstreams[name]
    local entry, counted = tried()
    entry.upstream = name
    if worker.broken or not live then
        return give_up(entry, counted, worker.broken or "it is not among `upstreams` in init_worker")
    end

    local peer
    if get_last_failure() == nil then
        entry.from = entry.n + 1 -- an internal redirect may have brought it here again
        peer = first(entry, live)
        local retries = peer and live.more_tries or 0
        if retries > 0 then
            set_more_tries(retries)
        end
    else
        peer = live:another(entry, entry.from, live.hash_variable and ngx.var[live.hash_variable])
    end
    if not peer then
        return give_up(entry, counted, live:why_none())
    end

    local ok, err = set_current_peer(peer.ip, peer.port)
    if ok and keep_alive then
        ok, err = keep_alive()
    end
    if not ok then
        return give_up(entry, counted, "nginx does not take " .. peer.address .. ": " .. tostring(err))
    end
    if counted then
        worker.ledger:picked(entry, peer)
    else
        entry.n = entry.n + 1
        entry[entry.n] = peer
    end
end
