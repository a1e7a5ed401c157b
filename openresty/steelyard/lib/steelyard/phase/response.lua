--- The response of a request: name the server that answered, or say why none did, and end the request at its server.
-- Its outcome is counted in phase/request_log.
--
-- A request is in flight at its server until the log phase, unless release() or phase/ended_requests ends that earlier.
-- nginx may go on sending to a slow client after the server has finished. A long open connection need not mean work.

local add_header = require("ngx.resp").add_header
local clock = require "steelyard.io.clock"
local limit = require "steelyard.phase.limit"
local problem = require "steelyard.core.problem"
local request = require "steelyard.phase.request"
local request_entry = require "steelyard.core.request_entry"
local server_reports = require "steelyard.phase.server_reports"
local worker = require "steelyard.phase.worker"

local ngx = ngx
local now, get_phase, is_internal = clock.now, ngx.get_phase, ngx.req.is_internal
local open_entry, outcomes_of = request.open_entry, request.outcomes

-- Values of $upstream_cache_status: no server was asked, or its answer was not used.
local FROM_CACHE = { HIT = true, STALE = true, UPDATING = true }

local _M = {}


--- Whether the answer is a stream, which may be open for long without work: an upgraded connection (WebSocket), or
-- server-sent events.
local function is_stream()
    if ngx.status == 101 then
        return true
    end
    local content_type = ngx.header["Content-Type"]
    return content_type ~= nil and string.find(content_type, "^text/event%-stream") ~= nil
end


--- Whether the request is still in the location that it was sent to its last server from. Otherwise nginx is done with
-- that server.
local function is_same_location(entry)
    return not is_internal() or entry.context and entry.context == ngx.ctx
end


--- End the request at its server before the log phase. In header_filter_by_lua: when a stream begins. In
-- body_filter_by_lua: when the server has sent its whole response. The client may not have got it yet. In a location
-- that an internal redirect led to: at once.
function _M.release()
    local entry = open_entry()
    if not entry then
        return
    end
    local done
    if get_phase() == "body_filter" then
        done = ngx.arg[2]
        entry.unfinished = not done
    else
        done = entry.held_cell and is_stream()
    end
    if entry.held_cell and (done or not is_same_location(entry)) then
        local tries = entry.tries
        local n = tries.n
        local name, peer = request_entry.upstream_of(entry, n), tries[n]
        local live = worker.upstreams[name]
        if live and #live.half_open > 0 and outcomes_of(entry)[n].answered then -- and not an error page of nginx
            worker.answered(name, peer) -- a stream may be open for hours before its log phase
        end
        worker.requests:release(entry)
        limit.freed(name, peer)
    end
end


--- Whether the answer is from the server of the last try, and not from an error_page or a cache.
local function is_of_last_try(entry)
    return entry.tries.n > 0 and is_same_location(entry) and not FROM_CACHE[ngx.var.upstream_cache_status]
end


--- header_filter_by_lua: add X-Steelyard-Server, the id of the server that answered.
--
-- It costs about 1 us of a request's 20. nginx's own `add_header X-Steelyard-Server $upstream_addr;` is free, but has
-- an address and not a name.
function _M.header()
    local entry = open_entry()
    if entry and is_of_last_try(entry) then
        local tries = entry.tries
        ngx.header["X-Steelyard-Server"] = tries[tries.n].id
    end
end


--- header_filter_by_lua: bind the client's session to the server that answered, by a cookie. The server's own cookies
-- stay. An answer of 500 and above neither begins nor moves a session.
function _M.sticky()
    local entry = open_entry()
    local live = entry and worker.upstreams[entry.upstream]
    local sticky = live and live.sticky
    if not sticky or ngx.status >= 500 or not is_of_last_try(entry) then
        return
    end
    local var, tries = ngx.var, entry.tries
    local peer, value = tries[tries.n], var[sticky.variable]
    local cookie = sticky:set_cookie(peer, value, var.scheme == "https")
    if cookie and not (value and sticky:names(var.http_cookie or "", peer)) then
        add_header("Set-Cookie", cookie)
    end
end


--- The content of `error_page 429 502 503 504 @...`: a problem document with the reason, and the status of nginx.
function _M.failure()
    local entry = open_entry()
    local status = request.failed_as(entry)
    local detail, extra = problem.of_request(entry, entry and outcomes_of(entry), ngx.var.upstream_status ~= nil)
    ngx.status = status
    local live = entry and entry.failure.is_full and worker.upstreams[entry.upstream]
    if live then -- balancer_by_lua cannot set a header
        ngx.header["Retry-After"] = live.settings.retry_after_s
    end
    ngx.header["Content-Type"] = problem.CONTENT_TYPE
    ngx.header["Cache-Control"] = "no-store"
    ngx.say(problem.encode(status, detail, extra))
end


--- body_filter_by_lua, when the body of a stream begins (unbuffered, nginx flushes the header then): note the server's
-- reports in the header. The log phase comes at the end of the stream, which may be minutes later.
-- @return the time by the monotonic clock, for first_event()
function _M.begun()
    local entry, at = open_entry(), now()
    local live = entry and worker.upstreams[entry.upstream]
    if live and is_of_last_try(entry) then
        local tries = entry.tries
        entry.event_ms, entry.unfinished = 0, true
        server_reports.busy(ngx.var, entry, tries[tries.n], live, at, at)
    end
    return at
end


--- body_filter_by_lua, at the first event of a stream: note its time. The header may have come long before it.
-- @param header_at the time of begun()
function _M.first_event(header_at)
    local entry = open_entry()
    if entry and entry.event_ms then
        entry.event_ms = (now() - header_at) * 1000
    end
end


--- body_filter_by_lua, at the end of a body after begun(): it is whole.
function _M.ended()
    local entry = open_entry()
    if entry then
        entry.unfinished = false
    end
end


return _M
