--- Choose the server: balancer_by_lua for this try, set_by_lua before nginx chooses a pool of connections.
--
-- nginx's `keepalive` looks through its whole pool for a connection to the
-- chosen server. With thousands of servers that costs more than all the rest,
-- so their connections are split over several upstream blocks (shards), and the
-- block must be known when the request is proxied. Where ngx_lua has pools of
-- its own there is one block, and this only names it.

local balancer = require "ngx.balancer"
local platform = require "steelyard.io.platform"
local request = require "steelyard.phase.request"
local request_entry = require "steelyard.core.request_entry"
local retries = require "steelyard.core.retries"
local worker = require "steelyard.phase.worker"

local ngx = ngx
local get_last_failure, set_current_peer = balancer.get_last_failure, balancer.set_current_peer
local set_more_tries, keep_alive = balancer.set_more_tries, platform.keep_alive
local set_timeouts = balancer.set_timeouts
local recreate_request, set_header, get_method = balancer.recreate_request, ngx.req.set_header, ngx.req.get_method
local is_internal = ngx.req.is_internal
local reserve, entry_of_request, choose, weigh = request_entry.reserve, request.entry, request.choose, request.weigh

-- NGX_BUSY, for which ngx_lua has no name: nginx answers 502, "no live upstreams".
local NO_LIVE_UPSTREAMS = -3

-- Names of upstreams are no longer.
local MAX_SHOWN = 64

local _M = {}


--- End the request with a status; where only OpenResty's nginx can do that here, nginx answers 502, and
-- failure() with the status.
local function end_as(status, entry, counted, why)
    if counted then
        worker.requests:none(entry, why)
    end
    if get_last_failure() ~= nil then
        local tries = entry.tries
        tries.stuck_after = tries.stuck_after or {}
        tries.stuck_after[tries.n] = true
    end
    entry.failure.status = status
    return ngx.exit(status and platform.any_status and status or NO_LIVE_UPSTREAMS)
end


local function give_up(entry, counted, why, status)
    ngx.log(ngx.ERR, "steelyard: upstream ", entry.upstream, ": ", why)
    if status then
        worker.dict:incr("full/" .. entry.upstream, 1, 0)
        entry.failure.is_full = true -- another location may have it wait (limit.after_full)
    end
    return end_as(status, entry, counted, why)
end


--- A name that may come from a client, as it can be logged.
local function shown(name)
    return (string.gsub(string.sub(tostring(name), 1, MAX_SHOWN), "[^%w._:-]", function(character)
        return string.format("\\x%02x", string.byte(character))
    end))
end


--- Why there is no upstream of a name that balance() was given, and the status to answer.
local function why_unknown()
    if get_last_failure() ~= nil then
        return "it was removed while a server of it was tried", nil
    elseif not worker.options.any_upstream then
        return "it is not among `upstreams` in init_worker", nil
    elseif not worker.listed_version then
        return "the list of upstreams is not known yet", 503
    end
    return "there is no upstream of this name", 404
end


--- End a request for an upstream that is not served. Clients may choose the name: the log has a line now and then.
local function unknown(entry, counted)
    local why, status = why_unknown()
    worker.dict:incr("unknown_upstreams", 1, 0)
    worker.log_seldom("unknown_upstream_logged", ngx.ERR, '"' .. entry.upstream .. '"', why)
    return end_as(status, entry, counted, why)
end


--- The peer of the first try: the one that shard() chose, if nothing has changed
-- meanwhile (reading a long request body takes its time); or limit(), this instant.
-- It is of the upstream that it was chosen for: an error_page may lead to another one.
local function first(entry, live)
    local reservation = entry.reservation
    local peer = reservation.peer
    if peer then
        reservation.peer = nil
        if reservation.upstream == live and reservation.changes == live.changes
           and (reservation.waited or live:has_room(peer)) then
            return peer
        end
    end
    return choose(live)
end


--- Ask nginx for as many tries as the request may have beyond the first, and remember which they are. None while
-- the budget is spent: the request then ends as its first try does, with the server's own answer if it has one.
local function ask_for_tries(live, entry, peer)
    local more_tries, is_spare = retries.given(live:tries_after(peer), live.settings.retries, platform.spare_try)
    local budget, over_budget = live.retry_budget, false
    if budget then
        budget:count()
        over_budget = more_tries > 0 and budget.spent and budget:is_spent()
    end
    if more_tries > 0 and not over_budget then
        set_more_tries(more_tries)
    end
    local retry = entry.retry
    retry.is_spare, retry.over_budget = is_spare, over_budget
end


--- The status to answer with when the request may not be tried again, and what to say of it; nil when it may.
local function refusal(live, entry)
    local last, method, budget = request.outcomes(entry)[entry.tries.n], get_method(), live.retry_budget
    local status = entry.retry.is_spare and retries.refusal(last)
    if status then
        return status
    elseif not retries.may_be_sent_again(method, last, live.settings.idempotent_methods) then
        return last.status or 502, method .. " is not sent twice"
    elseif budget and not budget:take() then
        worker.retry_refused(live.name)
        return last.status or 502, "the retry budget is spent"
    end
    worker.dict:incr("retries/" .. live.name, 1, 0)
end


--- The function that nginx has called. Blocks whose balancer_by_lua is the same text have one, and so have those
-- that leave it with `return balance(...)`; one block has two only if it leaves it so now and then.
local function outermost_function()
    local level, found = 2, nil
    local caller = debug.getinfo(level, "f")
    while caller do
        level, found = level + 1, caller.func
        caller = debug.getinfo(level, "f")
    end
    return found
end


-- By the block's outermost function: the `host` of the upstream that it served first, "" for none.
local host_of = {}

--- Why the upstream block that asks may not serve an upstream, or nil. Its pool is nginx's `keepalive`, which finds
-- connections by address alone: a request would go over one that was made for servers of another name.
local function why_not_here(live)
    local block, host = outermost_function(), live.settings.host or ""
    local others = host_of[block]
    if others == nil then
        host_of[block] = host
    elseif others ~= host then
        return "its upstream block keeps connections by address alone, and has some for "
               .. (others == "" and "an upstream without `host`" or others)
               .. "; give each `host` a block with a balancer_by_lua of its own, or take OpenResty"
    end
end


--- Ask for the server's load (core/orca), in a request header; a client that asks for it itself is left its way.
--
-- nginx has built the request before it asks for a server, so it is built again.
-- ngx_lua does that with the body that nginx has read, and does not look whether it
-- has read one, which would be the worker's end: a subrequest has none, and one that
-- was discarded is gone. (A body that is still coming in counts as none, too.)
local function ask_for_load(format)
    local var = ngx.var
    if ngx.is_subrequest or var.http_endpoint_load_metrics_format then
        return true
    end
    local length = var.content_length
    local has_body = length and length ~= "0" or var.http_transfer_encoding
    if has_body and not (var.request_body or var.request_body_file) then
        return true
    end
    set_header("endpoint-load-metrics-format", format)
    return recreate_request()
end


--- balancer_by_lua: choose a server of the upstream `name`.
function _M.balance(name)
    local live = worker.upstreams[name]
    local entry, counted = entry_of_request()
    if not counted and entry.tries.n > 0 and get_last_failure() == nil then
        entry = request.reopened_if_foreign(entry)
    end
    local tries = entry.tries
    if worker.broken or not live then
        entry.upstream = shown(name)
        if worker.broken then
            return give_up(entry, counted, worker.broken)
        end
        return unknown(entry, counted)
    end
    entry.upstream = name
    local wrong_block = worker.has_hosts and not keep_alive and why_not_here(live)
    if wrong_block then
        return give_up(entry, counted, wrong_block)
    end

    local peer
    if tries.n == 0 or get_last_failure() == nil then
        tries.from, entry.failure.status = tries.n + 1, nil -- an internal redirect may have brought it here again
        peer = first(entry, live)
        if peer then
            -- A location to which the request is led after this one is internal, and nginx gives it another context.
            entry.context = counted and is_internal() and ngx.ctx or nil
            ask_for_tries(live, entry, peer)
        end
    else
        local status, why = refusal(live, entry)
        if status then
            return end_as(status, entry, counted, why)
        end
        peer = live:another(tries, tries.from, request.hash_key(live))
    end
    if not peer then
        return give_up(entry, counted, live:why_none(tries, tries.from))
    end

    local settings = live.settings
    local timeouts = settings.timeouts
    local ok, err = set_current_peer(peer.ip, peer.port, settings.host) -- Debian's ngx_lua passes over the host
    if ok and keep_alive then
        ok, err = keep_alive()
    end
    if ok and timeouts then
        ok, err = set_timeouts(timeouts.connect_s, timeouts.send_s, timeouts.read_s)
    end
    if ok and settings.load_metrics_format then
        ok, err = ask_for_load(settings.load_metrics_format)
    end
    if not ok then
        return give_up(entry, counted, "nginx does not take " .. peer.address .. ": " .. tostring(err))
    end
    if live.notes then
        local session = live.sticky and live.sticky:peer(ngx.var[live.sticky.variable])
        local why = live:why(peer, session, tries.n >= tries.from)
        entry.explained = (entry.explained and entry.explained .. " | " or "") .. why
    end
    if live.costs then
        weigh(entry, live)
    elseif entry.price.upstream then -- by an upstream that an error_page has led away from
        request_entry.forget_price(entry)
    end
    if settings.closes_sessions then
        entry.client = entry.client or request.client()
    end
    if counted then
        worker.requests:picked(entry, peer)
    else
        if tries.n == 0 then
            worker.dict:incr("subrequests/" .. name, 1, 0)
        end
        worker.requests:sent(entry, peer)
    end
end


--- set_by_lua: the upstream block for this request; balance() in that block then uses the
-- server that was chosen here. A retry goes to any server, in the same block.
function _M.shard(name)
    local live = worker.upstreams[name]
    local shards = live and live.shards
    if not shards then
        return name
    end
    local peer = choose(live)
    if not peer then
        return shards[1] -- where balance() says why
    end
    reserve(entry_of_request(), peer, live, false)
    return shards[peer.cell % #shards + 1]
end


--- set_by_lua: what the servers of an upstream are called, for proxy_ssl_name: its `host`, or else its own name.
function _M.host(name)
    local live = worker.upstreams[name]
    return live and live.settings.host or name
end


return _M
