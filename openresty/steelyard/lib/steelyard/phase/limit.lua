--- Hold a request while every server is at max_conns: access_by_lua, where a request may wait.
--
-- balancer_by_lua cannot wait. Here up to `queue.size` requests of each worker wait: the more urgent first, and those
-- of one class in the order of their arrival. The less urgent get a smaller part of the queue, so that the others find
-- a place. Only the first of them looks for room: at servers that this worker's requests have left. It looks at all
-- servers each LOOK_INTERVAL_S, for room that other workers made. A request that comes while a server has room does
-- not queue. A body is read before the wait, so that nothing comes between the end of the wait and the choice of the
-- server.
--
-- limit() is for the location itself: it looks at each request, before a cache does. after_full() is for the location
-- that error_page leads to. It gets only requests without room, with their bodies, and none that a cache answers.

local clock = require "steelyard.io.clock"
local ended_requests = require "steelyard.phase.ended_requests"
local number = require "steelyard.core.number"
local request = require "steelyard.phase.request"
local request_entry = require "steelyard.core.request_entry"
local semaphore = require "ngx.semaphore"
local worker = require "steelyard.phase.worker"

local ngx = ngx

-- Twenty looks a second and worker, of O(servers).
local LOOK_INTERVAL_S = 0.05

-- The number of classes of `priority`, from 0 on, and the default class: RFC 9218's urgencies.
local CLASSES, DEFAULT_CLASS = 8, 3

-- A priority beyond the classes counts as the nearest one; beyond this, it is no priority.
local MAX_PRIORITY = 1e9

-- The semaphore does not wait at all for less than a millisecond, and clock.now() would not move.
local MIN_WAIT_S = 0.002

local _M = {}


local Queue = {}
Queue.__index = Queue


--- The requests of this worker that wait, in order: the first looks for room. `freed` lists the addresses of servers
-- with new room, for the first request to look at.
local function queue_of(live)
    local queue = live.waiting
    if not queue then
        queue = setmetatable({ news = semaphore.new(), freed = {} }, Queue)
        live.waiting = queue
    end
    return queue
end


--- Add a request, behind the first one and those of its class.
function Queue:join(entry, class)
    local at = #self + 1
    while at > 2 and self[at - 1].place.class > class do
        at = at - 1
    end
    local place = entry.place
    place.queue, place.class, place.turn = self, class, semaphore.new()
    table.insert(self, at, entry)
end


--- Remove a request, and wake the next one if it was the first. The request may have ended (its client has left).
function Queue:leave(entry)
    local at = 1
    while self[at] ~= entry do
        at = at + 1
    end
    entry.place.queue = nil
    table.remove(self, at)
    if at == 1 and self[1] then
        self[1].place.turn:post()
    end
end


--- The class of the request: from 0, the most urgent, to CLASSES - 1. Without the option `priority` it is 0.
local function class_of(settings)
    if not settings.priority then
        return 0
    end
    local class = number.decimal(request.value_of(settings.priority), -MAX_PRIORITY, MAX_PRIORITY) or DEFAULT_CLASS
    return math.floor(math.max(0, math.min(CLASSES - 1, class)))
end


--- Wait for a semaphore, at most `max_s` and until a time; return whether it was posted.
local function wait_on(semaphore_, until_s, max_s)
    return semaphore_:wait(math.max(MIN_WAIT_S, math.min(max_s, until_s - clock.now())))
end


--- A server that a request has left since the last look, and that still has room; or nil.
local function freed_peer(live, queue)
    local freed = queue.freed
    for i = #freed, 1, -1 do
        local peer = live:with_room_at(freed[i])
        freed[i] = nil
        if peer then
            return peer
        end
    end
end


--- A server with room after the ended requests are closed, or nil.
local function peer_with_room(live)
    local peer = request.choose(live)
    if not peer and ended_requests.make_room(worker) then
        return request.choose(live)
    end
    return peer
end


--- Look for room until a time, for the first request of a queue: a server, or nil.
local function await_room(live, queue, until_s)
    local peer = freed_peer(live, queue)
    while not peer and clock.now() < until_s do
        local is_news = wait_on(queue.news, until_s, LOOK_INTERVAL_S)
        peer = freed_peer(live, queue)
        if not peer and not is_news then
            peer = peer_with_room(live)
        end
    end
    return peer
end


--- Wait until a server has room, and return it; nil if that takes too long, or too many requests wait.
local function wait(live, entry)
    local settings, queue, class = live.settings.queue, queue_of(live), class_of(live.settings)
    if #queue >= settings.size * (CLASSES - class) / CLASSES then
        return nil
    end
    worker.dict:incr("queued/" .. live.name, 1, 0)
    local until_s = clock.now() + settings.timeout_s
    queue:join(entry, class)
    if queue[1] ~= entry then
        wait_on(entry.place.turn, until_s, settings.timeout_s)
    end
    local peer
    if queue[1] == entry then
        peer = await_room(live, queue, until_s)
    end
    queue:leave(entry)
    return peer
end


--- As wait(), for a subrequest: nginx may end it without a log phase, so it has no place in the queue.
local function wait_aside(live)
    local until_s, peer = clock.now() + live.settings.queue.timeout_s, nil
    while not peer and clock.now() < until_s do
        ngx.sleep(LOOK_INTERVAL_S)
        peer = request.choose(live)
    end
    return peer
end


--- Announce to the first waiting request of an upstream that a request has left this server.
function _M.freed(name, peer)
    local live = worker.upstreams[name]
    local queue = live and live.waiting
    if queue and queue[1] and peer then
        queue.freed[#queue.freed + 1] = peer.address
        if queue.news:count() < 0 then
            queue.news:post()
        end
    end
end


--- Let go of the server at which a request is in flight, and announce it.
function _M.release(entry)
    local n = entry.tries.n
    worker.requests:release(entry)
    _M.freed(request_entry.upstream_of(entry, n), entry.tries[n])
end


local release = _M.release


--- Have the request wait while all servers are full, then go on, or end with `full_status`.
local function wait_or_refuse(live)
    if not live:full() or ended_requests.make_room(worker) and not live:full() then
        return -- balance() answers any other failure
    end
    local entry, counted = request.entry()
    if entry.held_cell then -- at a server that it was sent to from another location, before an internal redirect
        release(entry)
        if not live:full() then
            return
        end
    end
    local name = live.name
    local peer
    if live.settings.queue and counted then
        peer = wait(live, entry)
    elseif live.settings.queue then
        peer = wait_aside(live)
    end
    if peer then
        -- A body of HTTP/2 without a length is not read yet, and the server may be full again by then. (The version is
        -- nil if ngx_lua has no number for it, as for HTTP/1.9.)
        local waited = (ngx.req.http_version() or 1.1) < 2 or ngx.var.content_length ~= nil
        request_entry.reserve(entry, peer, live, waited)
        return
    end
    local status = live.settings.full_status
    local failure, tries = entry.failure, entry.tries
    request_entry.begin_pass(entry)
    entry.upstream, failure.status, failure.why = name, status, (live:why_none(tries, tries.n + 1))
    worker.dict:incr("full/" .. name, 1, 0)
    ngx.log(ngx.ERR, "steelyard: upstream ", name, ": ", failure.why)
    ngx.header["Retry-After"] = live.settings.retry_after_s
    return ngx.exit(status)
end


--- access_by_lua: have the request wait, as the option `queue` says, while all servers of the upstream are
-- at max_conns; then answer `full_status`.
function _M.limit(name)
    local live = worker.upstreams[name]
    if worker.broken or not live then
        return -- balance() answers that
    end
    local var = ngx.var
    if live.settings.queue and (var.content_length or var.http_transfer_encoding) then
        ngx.req.read_body() -- other requests may fill the servers while it comes in
    end
    return wait_or_refuse(live)
end


--- access_by_lua of a location that error_page leads to: as limit(), for a request that balance() found no room for.
-- Any other failure keeps its status.
function _M.after_full(name)
    local live, entry = worker.upstreams[name], request.open_entry()
    if not entry or not entry.upstream then
        return ngx.exit(503) -- balance() was not called: limit_req or the like refused the request
    elseif not live or not entry.failure.is_full or entry.upstream ~= name then
        return ngx.exit(request.failed_as(entry))
    end
    request_entry.forget_failure(entry)
    return wait_or_refuse(live)
end


return _M
