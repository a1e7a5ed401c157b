--- One TCP connection through stream {}: choose its server (balancer_by_lua) and count its outcome (log_by_lua).
--
-- A connection in stream {} is what a request is in http {}. It is in flight until it is closed. A server fails by
-- refusing the connection, or by not accepting it in time (proxy_connect_timeout); nginx then tries another server
-- (proxy_next_upstream, which is on). The time to connect is used as the latency, because nginx cannot know which bytes
-- are an answer.

local balancer = require "ngx.balancer"
local clock = require "steelyard.io.clock"
local number = require "steelyard.core.number"
local options_of = require "steelyard.core.options"
local request = require "steelyard.phase.request"
local try_outcomes = require "steelyard.core.try_outcomes"
local upstream_options = require "steelyard.core.upstream_options"
local validate = require "steelyard.core.validate"
local worker = require "steelyard.phase.worker"

local ngx, trusted = ngx, number.trusted
local start_time = ngx.req.start_time

-- NGX_BUSY, which ngx_stream_lua does not name: nginx closes the connection, and $status is 502.
local NO_LIVE_UPSTREAMS = -3

-- In place of the requests in flight at each try, while the peer stats keep no levels.
local NONE = {}

local _M = {}


--- Check the options as http {} does, and refuse those for HTTP alone.
local function check(options)
    local checked = options_of.check(options)
    for name, settings in pairs(checked.upstreams) do
        local where = "upstreams." .. name .. "."
        validate.only_known(options.upstreams[name], upstream_options.STREAM_NAMES, where)
        settings.no_half_open = true -- only the end of a connection shows that the server took it
        if settings.hash_key ~= "address" then
            validate.bad(where .. "hash_key", "is " .. settings.hash_key,
                         "a connection has only its client's address: leave the option out in stream {}")
        end
    end
    return checked
end


--- init_worker_by_lua: start Steelyard in this worker. The default shared dict is `steelyard_stream`, because nginx
-- refuses one with the name of http {}'s.
function _M.init_worker(options)
    if type(options) == "table" and options.dict == nil then
        options.dict = "steelyard_stream"
    end
    worker.init(options, check)
end


local function give_up(entry, name, why, is_full)
    worker.requests:none(entry, why)
    if is_full then
        worker.dict:incr("full/" .. name, 1, 0)
    end
    ngx.log(ngx.ERR, "steelyard: upstream ", name, ": ", why)
    return ngx.exit(NO_LIVE_UPSTREAMS)
end


--- The value that a hash picker hashes: the client's address. A table that is also for http {} may ask for others.
local function key_of(live)
    return live.hash_variable and ngx.var.remote_addr
end


--- balancer_by_lua: choose a server of the upstream `name`.
function _M.balance(name)
    local live, requests, key = worker.upstreams[name], worker.requests, request.key()
    local entry = requests:entry(key, start_time())
    if entry.tries.n > 0 and not balancer.get_last_failure() then
        -- The tries of a connection that was never logged: it began in the same millisecond, at the same memory
        -- address.
        requests:abandon(key)
        entry = requests:entry(key, start_time())
    end
    entry.upstream = name
    if worker.broken or not live then
        return give_up(entry, name, worker.broken or "it is not among `upstreams` in init_worker")
    end
    local peer
    if entry.tries.n == 0 then
        requests:watch(entry, ngx.ctx) -- nginx drops the context with the connection
        peer = live:first(key_of(live))
        if peer and live.more_tries > 0 then
            balancer.set_more_tries(live.more_tries)
        end
    else
        peer = live:another(entry.tries, 1, key_of(live))
    end
    if not peer then
        local why, full_status = live:why_none(entry.tries, 1)
        return give_up(entry, name, why, full_status)
    end
    local ok, err = balancer.set_current_peer(peer.ip, peer.port)
    local timeouts = live.settings.timeouts
    if ok and timeouts then
        ok, err = balancer.set_timeouts(timeouts.connect_s)
    end
    if not ok then
        return give_up(entry, name, "nginx does not take " .. peer.address .. ": " .. tostring(err))
    end
    if live.settings.closes_sessions then
        entry.client = request.client()
    end
    requests:picked(entry, peer)
end


--- log_by_lua: count the outcome of the connection, and end it at its server.
function _M.log()
    local requests, key = worker.requests, request.key()
    local entry = requests:find(key, start_time())
    if not entry then
        return
    end
    local tries, connect_times = entry.tries, try_outcomes.split(ngx.var.upstream_connect_time)
    local in_flight = tries.in_flight or NONE
    for i = 1, tries.n do
        local connect_s = trusted(connect_times[i])
        if connect_s then
            requests:tried(tries[i], "completed", connect_s * 1000, clock.now(), in_flight[i])
        elseif i < tries.n or ngx.var.status == "502" then
            requests:tried(tries[i], "failed", nil, clock.now(), in_flight[i])
            worker.unanswered(entry.upstream, tries[i])
        end -- else the client, or nginx, ended the connection before the server was reached
    end
    requests:close(key)
end


return _M
