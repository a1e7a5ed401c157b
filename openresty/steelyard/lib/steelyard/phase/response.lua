--- After the tries of a request: name the server that answered, or say why none did, and count the outcome.
--
-- One line at http or server level serves a configuration that mixes our upstreams with nginx's own. A request without
-- one of our upstreams has no entry. But one of our servers may still have answered it, and it counts for that server.
--
-- A request is in flight at its server until the log phase, unless release() or phase/ended_requests ends that earlier.
-- nginx may go on sending to a slow client after the server has finished. A long open connection need not mean work.

local add_header = require("ngx.resp").add_header
local clock = require "steelyard.io.clock"
local limit = require "steelyard.phase.limit"
local number = require "steelyard.core.number"
local orca = require "steelyard.core.orca"
local peer_cells = require "steelyard.core.peer_cells"
local problem = require "steelyard.core.problem"
local request = require "steelyard.phase.request"
local request_entry = require "steelyard.core.request_entry"
local try_outcomes = require "steelyard.core.try_outcomes"
local worker = require "steelyard.phase.worker"

local ngx, trusted = ngx, number.trusted
local now, get_phase, get_method, is_internal = clock.now, ngx.get_phase, ngx.req.get_method, ngx.req.is_internal
local open_entry, outcomes_of = request.open_entry, request.outcomes
local cost_of = request.cost
local latency_of = try_outcomes.latency_ms

-- In place of a try's requests in flight, or of failure statuses, if there are none.
local NONE = {}

-- Looking for a header costs 0.15 us, and there are three. While no server of an upstream has sent one, answers are
-- looked at this often.
local LOOK_INTERVAL_S = 0.1

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


--- Note the text of a server's load report (ORCA), and return it; it is parsed once a traffic report. Servers of gRPC
-- send it in binary, in the trailers.
local function note_load(var, live, address)
    local load = var.upstream_http_endpoint_load_metrics
    if not load then
        local binary = var.upstream_http_endpoint_load_metrics_bin
                       or (live.settings.grpc and var.upstream_trailer_endpoint_load_metrics_bin)
        load = binary and "BIN " .. binary or nil -- not false: callers ask for nil
    end
    if load then
        worker.loads:note(address, load)
    end
    return load
end


--- Note a server's own reports of its load and of its requests in flight, if servers send them or a look is due. Picks
-- go by the requests in flight as of the header's time.
-- @param header_at when the header came, if that is known better than from nginx's variables
local function note_busy(var, entry, peer, live, at, header_at)
    local is_look_due, load, header = at - live.looked_at >= LOOK_INTERVAL_S, nil, nil
    if is_look_due or live.reports_load then
        load = note_load(var, live, peer.address)
        live.reports_load = live.reports_load or load ~= nil
    end
    if is_look_due or live.reports_in_flight then
        header = var.upstream_http_x_steelyard_in_flight
        live.reports_in_flight = live.reports_in_flight or header ~= nil
    end
    if is_look_due then
        live.looked_at = at
    end
    local in_flight = header and number.decimal(header, 0, orca.MAX_IN_FLIGHT)
                      or load and orca.in_flight(load, ngx.decode_base64)
    local header_s = in_flight and live.picker.note_reported and trusted(var.upstream_header_time)
    if header_s and peer.cell ~= peer_cells.NONE then
        header_at = header_at or at - math.max(0, trusted(var.request_time) - header_s)
        live.picker:note_reported(peer, in_flight + (entry.held_cell and 0 or 1), header_at)
    end
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
        note_busy(ngx.var, entry, tries[tries.n], live, at, at)
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


--- The last answer's grpc-status, for the option `grpc`. It is in the trailers, or in the header of an answer without a
-- body. Nil if no status came (a broken stream).
local function grpc_status(var)
    return var.upstream_trailer_grpc_status or var.upstream_http_grpc_status
end


--- Whether the server broke off its body: it sent less than its Content-Length, or release() or begun() saw the body
-- and no end. nginx has no variable for the end of a body in chunks, so without them that is unknown. A client that
-- leaves ends the request before it is complete. A body that nginx discards unread (for X-Accel-Redirect, an
-- error_page, auth_request) does not count as cut.
local function is_cut(var, status, entry)
    if entry.unfinished then
        return var.request_completion == "OK"
    end
    local header = var.upstream_http_content_length
    local lengths = header and var.upstream_response_length
    if header == lengths or status < 200 or status > 299 then
        return false
    end
    local declared = number.whole(header, 0, number.MAX_EXACT)
    local received = trusted(lengths) or trusted(string.match(lengths or "", "(%d+)$"))
    return declared and received and received > 0 and received < declared and var.request_completion == "OK"
           and not ngx.is_subrequest and get_method() ~= "HEAD" and not var.upstream_http_x_accel_redirect
end


--- Correct the outcome of a request's last try by what nginx knows of that alone, and note the server's load report.
-- @param live its upstream; nil if that is gone
local function correct_last(var, entry, outcome, live, address)
    outcome.latency_ms = outcome.latency_ms and outcome.latency_ms + (entry.event_ms or 0)
    if live and not entry.event_ms then
        note_load(var, live, address)
    end
    if outcome.verdict == "completed" and is_cut(var, outcome.status, entry) then
        outcome.verdict = "failed"
    end
    local own = live and live.own_failures
    outcome.grpc_status = own and own.grpc and grpc_status(var) or nil
end


--- The URL that try i may have failed by, for max_fails: "GET /report" if no server of its pass has answered it. Nil if
-- the try is the server's own fault: another one has answered, or there was no connection.
local function suspect_url(var, outcomes, earlier, i)
    if not outcomes[i].connected then
        return nil
    end
    for j = 1, #outcomes do
        if outcomes[j].answered and earlier[j] == earlier[i] then
            return nil
        end
    end
    return get_method() .. " " .. var.uri
end


--- Count the tries of a request with several, each for the upstream that it was at.
local function count_each(requests, entry, at)
    local tries, var = entry.tries, ngx.var
    local addresses, outcomes = try_outcomes.split(var.upstream_addr), outcomes_of(entry)
    local in_flight, earlier, n = tries.in_flight or NONE, tries.earlier or NONE, tries.n
    if not earlier[n] and addresses[#addresses] == tries[n].address then -- else another upstream had the last try
        correct_last(var, entry, outcomes[n], worker.upstreams[entry.upstream], tries[n].address)
    end
    for i = 1, n do
        local outcome, pass = outcomes[i], earlier[i]
        local name, over_budget = entry.upstream, entry.retry.over_budget
        if pass then
            name, over_budget = pass.upstream, pass.over_budget
        end
        local live = worker.upstreams[name]
        local own, latency_ms, cost = live and live.own_failures, outcome.latency_ms, nil
        if own and own:judge(tries[i], outcome.verdict, outcome.status, outcome.grpc_status, at) then
            latency_ms = nil
        elseif outcome.verdict == "completed" and pass then
            cost = pass.cost
        elseif outcome.verdict == "completed" then
            cost = cost_of(entry)
        end
        requests:tried(tries[i], outcome.verdict, latency_ms, at, in_flight[i], cost)
        if outcome.answered then
            worker.answered(name, tries[i])
        elseif outcome.verdict == "failed" then
            worker.unanswered(name, tries[i], suspect_url(var, outcomes, earlier, i))
            if over_budget and (i == n or earlier[i + 1] ~= pass) then
                worker.retry_refused(name)
            end
        end
    end
end


--- Count the tries of a request.
local function count(requests, entry)
    local tries, var, live, at = entry.tries, ngx.var, worker.upstreams[entry.upstream], now()
    -- With one try, nginx's variables hold one number each. (After an internal redirect they hold more.)
    local status = tries.n == tries.from and trusted(var.upstream_status)
    if not status or status >= 500 then
        return count_each(requests, entry, at)
    end
    local in_flight, own, cost = tries.in_flight or NONE, live and live.own_failures, nil
    worker.answered(entry.upstream, tries[1])
    local verdict = is_cut(var, status, entry) and "failed" or "completed"
    local latency_ms, event_ms = latency_of(status, var.upstream_header_time), entry.event_ms
    latency_ms = event_ms and latency_ms and latency_ms + event_ms or latency_ms
    if own and own:judge(tries[1], verdict, status, own.grpc and grpc_status(var) or nil, at) then
        latency_ms = nil
    elseif verdict == "completed" and entry.price.upstream then
        cost = cost_of(entry)
    end
    requests:tried(tries[1], verdict, latency_ms, at, in_flight[1], cost)
    if live and not event_ms then -- begun() has noted a stream's header
        note_busy(var, entry, tries[1], live, at)
    end
end


--- The cell of one of our servers, or nil.
local function cell_of(address)
    for _, live in pairs(worker.upstreams) do
        local cell = live.addresses[address]
        if cell then
            return cell
        end
    end
end


--- Count the tries at our servers by an upstream of nginx itself.
local function count_bystander(requests)
    local var = ngx.var
    local addresses = var.upstream_addr
    if not addresses then
        return
    end
    addresses = try_outcomes.split(addresses)
    local statuses, times = try_outcomes.split(var.upstream_status), try_outcomes.split(var.upstream_header_time)
    for i = 1, #addresses do
        local cell = cell_of(addresses[i])
        if cell then
            local status = trusted(statuses[i])
            requests:count(cell, addresses[i], try_outcomes.verdict(status), latency_of(status, times[i]))
        end
    end
end


--- Count a subrequest with a log phase (`log_subrequest on`), if one of our upstreams chose its server. Return whether
-- it was counted.
local function count_subrequest(requests)
    local entry = ngx.is_subrequest and request.ended_subrequest()
    if not entry or entry.tries.n == 0 then
        return false
    end
    count(requests, entry)
    worker.dict:incr("subrequests_counted/" .. request_entry.upstream_of(entry, 1), 1, 0) -- as balance() counted it
    return true
end


--- Set $steelyard_server, $steelyard_tries and $steelyard_why for the access log, or a span. nginx has these variables
-- only if nginx.conf sets them.
local function explain(entry)
    local ok = pcall(function()
        local var, tries = ngx.var, entry.tries
        var.steelyard_server, var.steelyard_tries, var.steelyard_why = tries[tries.n].id, tries.n, entry.explained
    end)
    if not ok then
        worker.log_seldom("explain_logged", ngx.ERR, entry.upstream, "explain = true needs three variables: write ",
                          'set $steelyard_server ""; set $steelyard_tries ""; set $steelyard_why ""; ',
                          "in the server block")
    end
end


--- log_by_lua: count the outcome of the request, and end it at its server.
function _M.log()
    local requests, entry, key = worker.requests, request.ended_entry()
    if not entry then
        if not count_subrequest(requests) then
            count_bystander(requests)
        end
        return
    end
    local tries = entry.tries
    if tries.n > 0 then
        count(requests, entry)
    end
    if entry.explained then
        explain(entry)
    end
    local name, peer = entry.upstream, tries[tries.n]
    requests:close(key)
    limit.freed(name, peer)
end


return _M
