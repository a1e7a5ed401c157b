--- Hold a request while every server is at max_conns: access_by_lua, where a request may wait.
--
-- balancer_by_lua cannot wait. Here up to `queue.size` requests of each worker do, the more urgent first and of one
-- class in the order in which they came. Of the less urgent fewer may wait, so that there is a place for the others.
-- Only the first of them looks: at a server that a request of this worker has let go of, and each LOOK_S at
-- all, for what other workers did. A request that comes while a server has room does not queue behind them. A body
-- is read before, so that nothing comes between the end of the wait, or the look at who has room, and the server's
-- choice.
--
-- limit() stands in the location itself, and looks at each request, before a cache does. after_full() stands in the
-- one that error_page leads to, and has only those that balance() found no room for: what a cache answers never
-- comes there, and what comes has its body.

local request = require "steelyard.phase.request"
local request_entry = require "steelyard.core.request_entry"
local semaphore = require "ngx.semaphore"
local worker = require "steelyard.phase.worker"

local ngx = ngx

-- Twenty looks a second and worker, of O(servers).
local LOOK_S = 0.05

-- Of what `priority` says, from 0 on, and what is taken for it where it says nothing: RFC 9218's urgencies.
local CLASSES, USUAL = 8, 3

-- Of less than a millisecond the semaphore makes nothing, and does not wait at all: time would stand still.
local LEAST_S = 0.002

local _M = {}


local Queue = {}
Queue.__index = Queue


--- The requests of this worker that wait: the first looks for room, the others are behind it in their order; `freed`
-- lists addresses that the first has not looked at.
local function queue_of(live)
    local queue = live.waiting
    if not queue then
        queue = setmetatable({ news = semaphore.new(), freed = {} }, Queue)
        live.waiting = queue
    end
    return queue
end


--- Take a request in: behind the first, and those that are as urgent.
function Queue:join(entry, class)
    local at = #self + 1
    while at > 2 and self[at - 1].place.class > class do
        at = at - 1
    end
    local place = entry.place
    place.queue, place.class, place.turn = self, class, semaphore.new()
    table.insert(self, at, entry)
end


--- Take a request out, and tell the next one when it is the first; also where it has ended meanwhile (its client has
-- left).
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


--- How urgent the request is: 0, the most, where nobody asks, to CLASSES - 1.
local function class_of(settings)
    if not settings.priority then
        return 0
    end
    local class = tonumber(request.told(settings.priority)) or USUAL
    return math.floor(math.max(0, math.min(CLASSES - 1, class)))
end


local function wait_on(semaphore_, until_s, most_s)
    return semaphore_:wait(math.max(LEAST_S, math.min(most_s, until_s - ngx.now())))
end


--- A server that has been let go of since the last look and still has room, or nil.
local function let_go(live, queue)
    local freed = queue.freed
    for i = #freed, 1, -1 do
        local peer = live:with_room_at(freed[i])
        freed[i] = nil
        if peer then
            return peer
        end
    end
end


--- Wait until a server has room, and return it; nil when that takes too long, or too many wait.
local function wait(live, entry)
    local settings, queue, class = live.settings.queue, queue_of(live), class_of(live.settings)
    if #queue >= settings.size * (CLASSES - class) / CLASSES then
        return nil
    end
    worker.dict:incr("queued/" .. live.name, 1, 0)
    local until_s = ngx.now() + settings.timeout_s
    queue:join(entry, class)
    if queue[1] ~= entry then
        wait_on(entry.place.turn, until_s, settings.timeout_s)
    end
    local is_first = queue[1] == entry
    local peer = is_first and let_go(live, queue) or nil
    while is_first and not peer and ngx.now() < until_s do
        local told = wait_on(queue.news, until_s, LOOK_S)
        peer = let_go(live, queue) or not told and request.choose(live) or nil
    end
    queue:leave(entry)
    return peer
end


--- As wait(), for a subrequest: it may end without a word, so it has no place in the queue.
local function wait_aside(live)
    local until_s, peer = ngx.now() + live.settings.queue.timeout_s, nil
    while not peer and ngx.now() < until_s do
        ngx.sleep(LOOK_S)
        peer = request.choose(live)
    end
    return peer
end


--- Have the request wait while all servers are full, then go on, or end with `full_status`.
local function wait_or_refuse(live)
    if not live:full() then
        return -- balance() says what else is wrong
    end
    local entry, counted = request.entry()
    local name = live.name
    local peer = live.settings.queue and (counted and wait(live, entry) or not counted and wait_aside(live))
    if peer then
        -- A body of HTTP/2 that has no length is not read yet: the server may be full again by then. (Of a version
        -- that ngx_lua has no number for, as HTTP/1.9, it says nil.)
        local waited = (ngx.req.http_version() or 1.1) < 2 or ngx.var.content_length ~= nil
        request_entry.reserve(entry, peer, live, waited)
        return
    end
    local status = live.settings.full_status
    local failure, tries = entry.failure, entry.tries
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
        return -- balance() says so
    end
    local var = ngx.var
    if live.settings.queue and (var.content_length or var.http_transfer_encoding) then
        ngx.req.read_body() -- while it comes in, others may fill the servers
    end
    return wait_or_refuse(live)
end


--- access_by_lua of a location that error_page leads to: as limit(), for a request that balance() found no room for.
-- Any other failure stays what it was.
function _M.after_full(name)
    local live, entry = worker.upstreams[name], request.open_entry()
    if not entry or not entry.upstream then
        return ngx.exit(503) -- balance() was not asked: limit_req, or something like it, says no
    elseif not live or not entry.failure.is_full or entry.upstream ~= name then
        return ngx.exit(request.failed_as(entry))
    end
    request_entry.forget_failure(entry)
    return wait_or_refuse(live)
end


--- Tell the first of the requests that wait for a server of the upstream: this one has been let go of.
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


return _M
