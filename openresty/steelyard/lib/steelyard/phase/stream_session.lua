--- One TCP connection through stream {}: choose its server (balancer_by_lua), count what became of it (log_by_lua).
--
-- A connection is to stream {} what a request is to http {}. It is in flight until it
-- is closed. A server has failed it when it refused the connection or did not take
-- it in time (proxy_connect_timeout), and nginx then tries another one
-- (proxy_next_upstream, which is on). The time to connect stands for the latency:
-- nginx cannot know which bytes are an answer.

local balancer = require "ngx.balancer"
local options_of = require "steelyard.core.options"
local request = require "steelyard.phase.request"
local try_outcomes = require "steelyard.core.try_outcomes"
local upstream_options = require "steelyard.core.upstream_options"
local validate = require "steelyard.core.validate"
local worker = require "steelyard.phase.worker"

local ngx, tonumber = ngx, tonumber
local start_time = ngx.req.start_time

-- NGX_BUSY, for which ngx_stream_lua has no name: nginx closes the connection, and says 502 in $status.
local NO_LIVE_UPSTREAMS = -3

-- What was in flight when the tries came, where nobody wants to know.
local NOT_LOOKED = {}

local _M = {}


--- Check the options as http {} does, and refuse those that are for HTTP alone.
local function check(options)
    local checked = options_of.check(options)
    for name, settings in pairs(checked.upstreams) do
        local where = "upstreams." .. name .. "."
        validate.only_known(options.upstreams[name], upstream_options.STREAM_NAMES, where)
        settings.no_half_open = true -- nothing tells before its end that a connection was taken
        if settings.hash_key ~= "address" then
            validate.bad(where .. "hash_key", "is " .. settings.hash_key,
                         "a connection has its client's address alone: leave it out in stream {}")
        end
    end
    return checked
end


--- init_worker_by_lua: start Steelyard in this worker, as http {}'s does. The shared dict is `steelyard_stream`,
-- unless `dict` names another: nginx refuses one of http {}'s name.
function _M.init_worker(options)
    if type(options) == "table" and options.dict == nil then
        options.dict = "steelyard_stream"
    end
    worker.init(options, check)
end


local function give_up(entry, name, why)
    worker.requests:none(entry, why)
    ngx.log(ngx.ERR, "steelyard: upstream ", name, ": ", why)
    return ngx.exit(NO_LIVE_UPSTREAMS)
end


--- What a hash picker hashes. A table may be made for http {} too, and name what a connection has not.
local function key_of(live)
    return live.hash_variable and ngx.var.remote_addr
end


--- balancer_by_lua: choose a server of the upstream `name`.
function _M.balance(name)
    local live, requests, key = worker.upstreams[name], worker.requests, request.key()
    local entry = requests:entry(key, start_time())
    if entry.tries.n > 0 and not balancer.get_last_failure() then
        -- The tries of a connection that ended without being logged, and began in the same millisecond and memory.
        requests:abandon(key)
        entry = requests:entry(key, start_time())
    end
    entry.upstream = name
    if worker.broken or not live then
        return give_up(entry, name, worker.broken or "it is not among `upstreams` in init_worker")
    end
    local peer
    if entry.tries.n == 0 then
        requests:watch(entry, ngx.ctx) -- nginx drops it with the connection
        peer = live:first(key_of(live))
        if peer and live.more_tries > 0 then
            balancer.set_more_tries(live.more_tries)
        end
    else
        peer = live:another(entry.tries, 1, key_of(live))
    end
    if not peer then
        return give_up(entry, name, live:why_none())
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


--- log_by_lua: count what became of the connection, and let go of its server.
function _M.log()
    local requests, key = worker.requests, request.key()
    local entry = requests:find(key, start_time())
    if not entry then
        return
    end
    local tries, connect_times = entry.tries, try_outcomes.split(ngx.var.upstream_connect_time)
    local in_flight = tries.in_flight or NOT_LOOKED
    for i = 1, tries.n do
        local connect_s = tonumber(connect_times[i])
        if connect_s then
            requests:tried(tries[i], "completed", connect_s * 1000, ngx.now(), in_flight[i])
        elseif i < tries.n or ngx.var.status == "502" then
            requests:tried(tries[i], "failed", nil, ngx.now(), in_flight[i])
            worker.unanswered(entry.upstream, tries[i])
        end -- else the client, or nginx, went away before the server was reached
    end
    requests:close(key)
end


return _M
