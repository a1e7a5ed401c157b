--- Choose the server: in balancer_by_lua for each try, in set_by_lua before nginx chooses a pool of connections.
--
-- nginx's `keepalive` looks through its whole pool for a connection to the chosen server. With thousands of servers
-- that costs more than everything else. So their connections are split over several upstream blocks (shards), and
-- shard() names the block before the request is proxied. If ngx_lua has pools of its own, there is one block.

local balancer = require "ngx.balancer"
local ended_requests = require "steelyard.phase.ended_requests"
local limit = require "steelyard.phase.limit"
local platform = require "steelyard.io.platform"
local request = require "steelyard.phase.request"
local request_end = require "steelyard.io.request_end"
local request_entry = require "steelyard.core.request_entry"
local retries = require "steelyard.phase.retries"
local worker = require "steelyard.phase.worker"

local ngx = ngx
local get_last_failure, set_current_peer = balancer.get_last_failure, balancer.set_current_peer
local keep_alive, set_timeouts = platform.keep_alive, balancer.set_timeouts
local recreate_request, set_header = balancer.recreate_request, ngx.req.set_header
local is_internal, make_room = ngx.req.is_internal, ended_requests.make_room
local reserve, entry_of_request, choose, weigh = request_entry.reserve, request.entry, request.choose, request.weigh
local grant_retries, why_no_retry = retries.grant, retries.refusal

-- NGX_BUSY, which ngx_lua does not name: nginx answers 502, "no live upstreams".
local NO_LIVE_UPSTREAMS = -3

-- The greatest length of an upstream's name.
local MAX_NAME = 64

local _M = {}


--- End the request with a status. Only OpenResty's nginx can do that here; another nginx answers 502, and failure()
-- answers with the status.
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
    if status and platform.any_status then
        return ngx.exit(status)
    end
    return ngx.exit(NO_LIVE_UPSTREAMS)
end


local function give_up(entry, counted, why, status)
    ngx.log(ngx.ERR, "steelyard: upstream ", entry.upstream, ": ", why)
    if status then
        worker.dict:incr("full/" .. entry.upstream, 1, 0)
        entry.failure.is_full = true -- the request may wait in another location (limit.after_full)
    end
    return end_as(status, entry, counted, why)
end


--- A name that may come from a client, made safe for the log.
local function printable(name)
    return (string.gsub(string.sub(tostring(name), 1, MAX_NAME), "[^%w._:-]", function(character)
        return string.format("\\x%02x", string.byte(character))
    end))
end


--- Why there is no upstream of a name that balance() was given, and the status to answer.
local function why_unknown()
    if get_last_failure() ~= nil then
        return "it was removed while one of its servers was tried", nil
    elseif not worker.options.any_upstream then
        return "it is not among `upstreams` in init_worker", nil
    elseif not worker.listed_version then
        return "the list of upstreams is not known yet", 503
    end
    return "there is no upstream of this name", 404
end


--- End a request for an upstream that is not served. Clients may choose the name, so only a few lines are logged.
local function unknown(entry, counted)
    local why, status = why_unknown()
    worker.dict:incr("unknown_upstreams", 1, 0)
    worker.log_seldom("unknown_upstream_logged", ngx.ERR, '"' .. entry.upstream .. '"', why)
    return end_as(status, entry, counted, why)
end


--- The peer of the first try. A peer that shard() or limit() has chosen is used if nothing has changed since. Reading a
-- long request body takes a while, and an error_page may lead to another upstream. A request that has waited for a
-- half-open peer is sent there even if another worker probes it meanwhile: there may be no other room.
-- Before a request is refused, the ended requests are closed.
local function first_peer(entry, live)
    local reservation = entry.reservation
    local peer = reservation.peer
    if peer then
        reservation.peer = nil
        if reservation.upstream == live and reservation.changes == live.changes
           and (reservation.waited or live:has_room(peer))
           and (#live.half_open == 0 or request.claim(live, peer, entry) or reservation.waited) then
            return peer
        end
    end
    peer = choose(live, entry)
    if not peer and live.limited and make_room(worker) then
        peer = choose(live, entry)
    end
    return peer
end


--- The function that nginx has called. Upstream blocks with the same text in balancer_by_lua share one, and so do
-- blocks that end it with `return balance(...)`. A block has two only if it does so now and then.
local function outermost_function()
    local level, outermost = 2, nil
    local caller = debug.getinfo(level, "f")
    while caller do
        level, outermost = level + 1, caller.func
        caller = debug.getinfo(level, "f")
    end
    return outermost
end


-- The outermost function of a block -> the `host` of the first upstream that it served, "" for none.
local host_of = {}

--- Why the current upstream block may not serve an upstream, or nil. Its pool is nginx's `keepalive`, which finds
-- connections by address alone: a request could go over a connection for another host.
local function why_not_here(live)
    local block, host = outermost_function(), live.settings.host or ""
    local first_host = host_of[block]
    if first_host == nil then
        host_of[block] = host
    elseif first_host ~= host then
        return "its upstream block keeps connections by address alone, and has some for "
               .. (first_host == "" and "an upstream without `host`" or first_host)
               .. "; give each `host` a block with a balancer_by_lua of its own, or use OpenResty"
    end
end


--- Ask for the server's load (core/orca) in a request header. A client's own header of this name stays.
--
-- nginx builds the request before it asks for a server, so it has to be built again. ngx_lua builds it with the body
-- that nginx has read, and crashes the worker if there is none. A subrequest has none, a discarded body is gone, and a
-- body that is still coming in counts as none. Such requests are not built again.
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


--- Begin another pass of a request that nginx has redirected from a location to this one, where it was sent to servers.
-- Those are free: before this pass chooses among them, and for requests that wait. Return the entry.
local function begin_pass(entry, counted)
    if not counted then
        entry = request.reopened_if_foreign(entry)
    else
        if entry.held_cell then
            limit.release(entry)
        end
        request_end.watch(entry.ended) -- once more: is_over_at_server() looks for the server of this pass beside it
    end
    request_entry.begin_pass(entry)
    return entry
end


--- balancer_by_lua: choose a server of the upstream `name`.
function _M.balance(name)
    local live = worker.upstreams[name]
    local entry, counted = entry_of_request()
    local is_retry = false
    if entry.tries.n ~= 0 then
        is_retry = get_last_failure() ~= nil
        if not is_retry then
            entry = begin_pass(entry, counted)
        end
    elseif entry.upstream then
        request_entry.forget_failure(entry) -- another location found no server for it
    end
    local tries = entry.tries
    if worker.broken or not live then
        entry.upstream = printable(name)
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
    if not is_retry then
        peer = first_peer(entry, live)
        if peer then
            -- A later location of this request would be internal, too, and has another context.
            entry.context = counted and is_internal() and ngx.ctx or nil
            grant_retries(live, entry, peer)
        end
    else
        local status, why = why_no_retry(live, entry)
        if status then
            return end_as(status, entry, counted, why)
        end
        if counted then
            worker.requests:release(entry) -- the previous try is over, and a spare one may need its room
        end
        local key = request.hash_key(live)
        peer = live:another(tries, tries.from, key, entry.retry.is_spare)
        if not peer and live.limited and make_room(worker) then
            peer = live:another(tries, tries.from, key, entry.retry.is_spare)
        end
    end
    if not peer then
        return give_up(entry, counted, live:why_none(tries, tries.from))
    end

    local settings = live.settings
    local timeouts = settings.timeouts
    local ok, err = set_current_peer(peer.ip, peer.port, settings.host) -- Debian's ngx_lua ignores the host
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
        local session = live.sticky and request.session_peer(live.sticky)
        local why = live:why(peer, session, tries.n >= tries.from)
        entry.explained = (entry.explained and entry.explained .. " | " or "") .. why
    end
    if live.costs then
        weigh(entry, live)
    elseif entry.price.upstream then -- an error_page has led to this upstream from one with costs
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
        return shards[1] -- balance() then logs the reason
    end
    reserve(entry_of_request(), peer, live, false)
    return shards[peer.cell % #shards + 1]
end


--- set_by_lua: the host name of an upstream's servers, for proxy_ssl_name: its `host`, or else its own name.
function _M.host(name)
    local live = worker.upstreams[name]
    return live and live.settings.host or name
end


return _M
