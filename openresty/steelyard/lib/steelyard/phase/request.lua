--- The current request: its key, its entry among the open requests, and its tries as nginx's variables have them.

local address = require "steelyard.core.address"
local base = require "resty.core.base"
local ffi = require "ffi"
local number = require "steelyard.core.number"
local peer_health = require "steelyard.io.peer_health"
local request_cost = require "steelyard.core.request_cost"
local request_end = require "steelyard.io.request_end"
local request_entry = require "steelyard.core.request_entry"
local try_outcomes = require "steelyard.core.try_outcomes"
local worker = require "steelyard.phase.worker"

local cast, trusted, get_request = ffi.cast, number.trusted, base.get_request
local ngx = ngx
local start_time, http_version = ngx.req.start_time, ngx.req.http_version -- http_version is not in stream {}
local uintptr = ffi.typeof("uintptr_t")
local watch_end = request_end.watch

-- The entries of subrequests by their keys, weak. The context of the subrequest has the entry until nginx drops it with
-- the whole request. After an internal redirect the subrequest has another context.
local of_subrequests = setmetatable({}, { __mode = "v" })

local _M = {}


--- The request's address. nginx uses the memory again after the log phase; address and start time name one request.
function _M.key()
    -- Pointers have 47 bits here, so the double is exact. (A tail call would
    -- keep LuaJIT from compiling this.)
    local key = trusted(cast(uintptr, get_request()))
    return key
end


local key_of_request = _M.key


--- The entry of a request that has not ended, or nil.
local function unended(key, started)
    local requests = worker.requests
    local entry = requests:find(key, started)
    if entry and entry.ended[0] ~= 0 then
        requests:abandon(key) -- an unlogged request, which began in the same millisecond and memory
        return nil
    end
    return entry
end


--- The request's entry; the first call opens it. The entry of a subrequest is not counted in flight: nginx runs no log
-- phase for it without `log_subrequest on` in its location, nor when the client leaves.
-- @return the entry, and whether it is counted in flight
function _M.entry()
    local key, started = key_of_request(), start_time()
    if not ngx.is_subrequest then
        local entry = unended(key, started)
        if not entry then
            entry = worker.requests:begin(key, started)
            watch_end(worker.requests.watch_end(entry))
        end
        return entry, true
    end
    local entry = of_subrequests[key]
    if not entry or entry.started ~= started then
        entry = request_entry.new()
        entry.started = started
        of_subrequests[key] = entry
    end
    ngx.ctx.steelyard = entry
    return entry, false
end


--- The entry of a subrequest that has tries, although nginx begins with the first one. After an internal redirect,
-- nginx still lists those tries. Otherwise they belong to an unlogged subrequest, which began in the same millisecond
-- and memory: that entry is forgotten, and another one opened.
function _M.reopened_if_foreign(entry)
    if #try_outcomes.split(ngx.var.upstream_addr) > entry.tries.n then
        return entry
    end
    of_subrequests[key_of_request()] = nil
    return (_M.entry())
end


--- In the log phase: the entry that an earlier phase opened, or nil, and the request's key.
function _M.ended_entry()
    local key = key_of_request()
    local entry = worker.requests:find(key, start_time())
    return entry, key
end


--- In an earlier phase: the entry of the request, or nil.
function _M.open_entry()
    return (unended(key_of_request(), start_time()))
end


--- Take out the entry of a subrequest that ends now, whatever its redirects; nil if there is none.
function _M.ended_subrequest()
    local key = key_of_request()
    local entry = of_subrequests[key]
    of_subrequests[key] = nil
    return entry and entry.started == start_time() and entry or nil
end


--- The value of an option such as `cost` or `priority` for this request, of any type.
-- @param how the name of a variable, or a function; nil is returned if it raises an error
local function value_of(how)
    if type(how) == "string" then
        return ngx.var[how]
    end
    local ok, value = pcall(how)
    return ok and value or nil
end


_M.value_of = value_of


local function weighed(live, how)
    local weight, cost, is_malformed = live.costs:weigh(value_of(how))
    if is_malformed then
        worker.dict:incr("costs_malformed/" .. live.name, 1, 0)
    end
    return weight, cost
end


--- Weigh a request of an upstream with the option `cost`. A retry weighs the same as the first try.
function _M.weigh(entry, live)
    local price = entry.price
    if price.upstream ~= live then
        local how = live.settings.cost
        price.upstream, price.weight, price.cost = live, nil, nil
        if how then
            price.weight, price.cost = weighed(live, how)
        end
    end
end


--- The cost of a completed request; nil if its upstream has no costs. Call it once.
function _M.cost(entry)
    local price = entry.price
    local live = price.upstream
    if not live then
        return nil
    end
    local at_end = live.settings.cost_at_end
    if price.weight then
        return at_end and request_cost.number(value_of(at_end)) or price.cost
    end
    local _, cost = weighed(live, at_end)
    return cost
end


--- The outcome of each try of an entry, in order.
function _M.outcomes(entry)
    local var = ngx.var
    return try_outcomes.outcomes(entry.tries, {
        addresses = var.upstream_addr, statuses = var.upstream_status,
        connect_times = var.upstream_connect_time, header_times = var.upstream_header_time,
        bytes_sent = var.upstream_bytes_sent,
    })
end


--- The status with which a request has failed. `error_page ... =` discards nginx's; the last try still has its own.
-- @param entry its entry, or nil
function _M.failed_as(entry)
    local status = entry and entry.failure.status
    if status then
        return status
    elseif ngx.status >= 400 then
        return ngx.status
    end
    local statuses = try_outcomes.split(ngx.var.upstream_status)
    local last = trusted(statuses[#statuses])
    return last and last >= 500 and last or 502
end


--- The keys of both ends of the client's connection (core/address); nil if other requests share it (HTTP/2, HTTP/3), or
-- it is a Unix socket.
function _M.client()
    local version, var = http_version and http_version() or 1, ngx.var
    local ip, port = var.realip_remote_addr or var.remote_addr, var.realip_remote_port or var.remote_port
    if version >= 2 then
        return nil
    end
    local client = address.key_of(ip, port)
    return client and { client, address.key_of(var.server_addr, var.server_port) }
end


--- The value that an upstream's picker hashes; nil if it hashes nothing, or the request has no such value.
function _M.hash_key(live)
    local how = live.hash_variable
    if type(how) ~= "function" then
        return how and ngx.var[how]
    end
    local ok, key = pcall(how)
    if not ok then
        worker.log_seldom("hash_key_logged/" .. live.name, ngx.ERR, live.name,
                          "the function in hash_key fails, and its requests are spread like those without a key: ", key)
    end
    return ok and key and tostring(key) or nil
end


--- By whom a probe of this request counts; nil if it must send none, because its outcome may stay unknown.
--
-- nginx logs a subrequest only with `log_subrequest on` in its location, which Lua cannot see. So subrequests probe
-- only if some of this upstream's were logged. Each leaves the probe to another one at random. Otherwise an unlogged
-- one that always comes first would take every probe.
local function probes_by(live)
    if not ngx.is_subrequest then
        return peer_health.BY_REQUEST
    elseif worker.dict:get("subrequests_counted/" .. live.name) and worker.context.random(2) == 1 then
        return peer_health.BY_SUBREQUEST
    end
end


--- Claim the probe of a half-open peer for a request that is sent there now. Return whether that worked.
local function claim_probe(live, peer, by, entry)
    if not worker.health:claim_probe(live.name, peer, by, live.settings.fail_timeout_s) then
        return false
    end
    entry.probe = peer
    return true
end


--- Whether this request may probe a half-open peer.
-- @param entry its entry if it is sent there now: it then claims the probe
local function may_probe(live, peer, entry)
    local by = probes_by(live)
    if not by then
        return false
    elseif entry then
        return claim_probe(live, peer, by, entry)
    end
    return worker.health:is_probe_due(live.name, peer, by)
end


--- The peer of the request's session, or nil.
function _M.session_peer(sticky)
    local var = ngx.var
    local value = var[sticky.variable]
    return value and (sticky:peer(value) or sticky:peer_in(var.http_cookie or ""))
end


--- Choose the peer of a request. The first of these: the peer of its session, if that has room; a half-open peer that
-- is due for a probe; the picker's choice.
-- @param entry its entry if it is sent there now; nil before that: claim() follows when it is sent
function _M.choose(live, entry)
    local sticky = live.sticky
    local peer = sticky and _M.session_peer(sticky)
    if peer and live:has_room(peer) then
        return peer
    end
    peer = live:suspect()
    if peer and may_probe(live, peer, entry) then
        return peer
    end
    return live:first(_M.hash_key(live))
end


--- Claim a peer that choose() chose ahead, while peers are half-open and now that the request is sent. Return false if
-- this peer is one of them and another request has claimed its probe since.
function _M.claim(live, peer, entry)
    if live.fail_open or not live:is_half_open(peer) then
        return true
    end
    local by = ngx.is_subrequest and peer_health.BY_SUBREQUEST or peer_health.BY_REQUEST
    return claim_probe(live, peer, by, entry)
end


return _M
