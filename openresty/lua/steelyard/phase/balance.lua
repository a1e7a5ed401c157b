--- balancer_by_lua: choose the server for this try.

local balancer = require "ngx.balancer"
local outcomes_of = require "steelyard.phase.outcomes"
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


--- Ask nginx for as many tries as the request may have beyond the first.
--
-- With one server there is none. But where it keeps connections in ngx_lua's
-- pool, nginx (OpenResty from 1.29.2.4 on) no longer gives a try back when such
-- a connection turns out closed; so there is one to spare for that.
local function ask_for_tries(live)
    local tries = live.more_tries
    if tries == 0 and keep_alive and live.settings.retries > 0 then
        tries = 1
    end
    if tries > 0 then
        set_more_tries(tries)
    end
end


--- The status to end with when the try to spare is not for this failure: the
-- server timed out, or could not be reached, or did answer. Nil when it is.
local function no_spare_try(live, entry)
    if not keep_alive or live.more_tries > 0 or live.settings.retries == 0 then
        return nil
    end
    local last = outcomes_of(entry)[entry.n]
    return (last.status ~= 502 or not last.connected or last.answered) and (last.status or 502) or nil
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
    if entry.n == 0 or get_last_failure() == nil then
        entry.from = entry.n + 1 -- an internal redirect may have brought it here again
        peer = first(entry, live)
        if peer then
            ask_for_tries(live)
        end
    else
        local status = no_spare_try(live, entry)
        if status then
            return ngx.exit(status)
        end
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
