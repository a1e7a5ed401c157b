--- Hold a request while every server is at max_conns: access_by_lua, where a request may wait.
--
-- balancer_by_lua cannot wait. Here up to `queue.size` requests of each worker do, and are woken one by one
-- as requests of this worker end; for those of other workers each looks again every LOOK_S. A request that
-- comes while a server has room does not queue behind them. A body is read before, so that nothing comes
-- between the end of the wait, or the look at who has room, and the server's choice.
--
-- limit() stands in the location itself, and looks at each request, before a cache does. after_full() stands in the
-- one that error_page leads to, and has only those that balance() found no room for: what a cache answers never
-- comes there, and what comes has its body.

local request = require "steelyard.phase.request"
local semaphore = require "ngx.semaphore"
local worker = require "steelyard.phase.worker"

local ngx = ngx

-- Twenty looks a second and request are 40 us of work.
local LOOK_S = 0.05

-- Of less than a millisecond the semaphore makes nothing, and does not wait at all: time would stand still.
local LEAST_S = 0.002

local _M = {}


--- Read the request's body, if one is announced.
local function read_body()
    local var = ngx.var
    if var.content_length or var.http_transfer_encoding then
        ngx.req.read_body()
    end
end


--- Wait until a server has room, and return it; nil when that takes too long, or too many wait.
local function wait(live)
    local settings, name = live.settings.queue, live.name
    local queue = live.waiting or semaphore.new()
    live.waiting = queue
    if -queue:count() >= settings.size then
        return nil
    end
    worker.dict:incr("queued/" .. name, 1, 0)
    local until_s = ngx.now() + settings.timeout_s
    local peer
    repeat
        local left_s = until_s - ngx.now()
        if left_s <= 0 then
            return nil
        end
        queue:wait(math.max(LEAST_S, math.min(LOOK_S, left_s)))
        peer = request.choose(live)
    until peer
    return peer
end


--- Have the request wait while all servers are full, then go on, or end with 503.
local function wait_or_refuse(live)
    if not live:full() then
        return -- balance() says what else is wrong
    end
    local peer = live.settings.queue and wait(live)
    local entry, name = request.entry(), live.name
    if peer then
        entry.reserved, entry.reserved_of, entry.reserved_at = peer, live, live.changes
        -- A body of HTTP/2 that has no length is not read yet: the server may be full again by then. (Of a version
        -- that ngx_lua has no number for, as HTTP/1.9, it says nil.)
        entry.waited = (ngx.req.http_version() or 1.1) < 2 or ngx.var.content_length ~= nil
        return
    end
    entry.upstream, entry.ended_as, entry.why = name, 503, (live:why_none(entry, entry.n + 1))
    worker.dict:incr("full/" .. name, 1, 0)
    ngx.log(ngx.ERR, "steelyard: upstream ", name, ": ", entry.why)
    return ngx.exit(503)
end


--- access_by_lua: have the request wait, as the option `queue` says, while all servers of the upstream are
-- at max_conns; then answer 503.
function _M.limit(name)
    local live = worker.upstreams[name]
    if worker.broken or not live then
        return -- balance() says so
    end
    if live.settings.queue then
        read_body() -- while it comes in, others may fill the servers
    end
    return wait_or_refuse(live)
end


--- access_by_lua of a location that error_page leads to: as limit(), for a request that balance() found no room for.
-- Any other failure stays what it was.
function _M.after_full(name)
    local live, entry = worker.upstreams[name], request.open_entry()
    if not entry or not entry.upstream then
        return ngx.exit(503) -- balance() was not asked: limit_req, or something like it, says no
    elseif not live or not entry.full or entry.upstream ~= name then
        return ngx.exit(request.failed_as(entry))
    end
    entry.full, entry.why, entry.ended_as = nil, nil, nil
    return wait_or_refuse(live)
end


--- Wake the first of the requests that wait for a server of the upstream: one has been let go of.
function _M.freed(name)
    local live = worker.upstreams[name]
    local queue = live and live.waiting
    if queue and queue:count() < 0 then
        queue:post()
    end
end


return _M
