--- The end of a request, in log_by_lua: count the outcome of each try, and let go of its server.
--
-- One line at http or server level serves a configuration that mixes our upstreams with nginx's own. A request without
-- one of our upstreams has no entry. But one of our servers may still have answered it, and it counts for that server.

local clock = require "steelyard.io.clock"
local limit = require "steelyard.phase.limit"
local number = require "steelyard.core.number"
local request = require "steelyard.phase.request"
local request_entry = require "steelyard.core.request_entry"
local request_variables = require "steelyard.io.request_variables"
local server_reports = require "steelyard.phase.server_reports"
local try_outcomes = require "steelyard.core.try_outcomes"
local worker = require "steelyard.phase.worker"

local ngx, trusted = ngx, number.trusted
local now, get_method = clock.now, ngx.req.get_method
local outcomes_of, cost_of = request.outcomes, request.cost
local latency_of = try_outcomes.latency_ms
local note_busy, note_load = server_reports.busy, server_reports.load
local status_in, milliseconds_in = request_variables.status, request_variables.milliseconds
local is_absent_or_same = request_variables.is_absent_or_same

local STATUS, HEADER_TIME = request_variables.named("upstream_status"), request_variables.named("upstream_header_time")
local DECLARED = request_variables.named("upstream_http_content_length")
local RECEIVED = request_variables.named("upstream_response_length")

-- In place of a try's requests in flight, or of failure statuses, if there are none.
local NONE = {}

local _M = {}


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
    if status < 200 or status > 299 or is_absent_or_same(DECLARED, RECEIVED) then
        return false
    end
    local header, lengths = var.upstream_http_content_length, var.upstream_response_length
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


--- The latency of the only try, in ms; nil if it says nothing about the server's speed.
local function latency_of_only(var, status)
    if status == 101 then
        return nil
    end
    local ms = milliseconds_in(HEADER_TIME)
    return ms or latency_of(status, var.upstream_header_time)
end


--- Count the tries of a request.
local function count(requests, entry)
    local tries, var, live, at = entry.tries, ngx.var, worker.upstreams[entry.upstream], now()
    -- With one try, nginx's variables hold one number each. (After an internal redirect they hold more.)
    local status = tries.n == tries.from and status_in(STATUS)
    if not status or status >= 500 then
        return count_each(requests, entry, at)
    end
    local in_flight, own, cost = tries.in_flight or NONE, live and live.own_failures, nil
    worker.answered(entry.upstream, tries[1])
    local verdict = is_cut(var, status, entry) and "failed" or "completed"
    local latency_ms, event_ms = latency_of_only(var, status), entry.event_ms
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


local function cell_of(address)
    for _, live in pairs(worker.upstreams) do
        local cell = live.addresses[address]
        if cell then
            return cell
        end
    end
end


--- The cell of one of our servers, or nil; and its address. nginx's own upstream may name an IPv4 address within IPv6.
local function server_at(written)
    local cell = cell_of(written)
    if cell then
        return cell, written
    end
    local ip, port = string.match(written, "^%[::ffff:([%d.]+)%](:%d+)$")
    if ip then
        return cell_of(ip .. port), ip .. port
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
        local cell, address = server_at(addresses[i])
        if cell then
            local status = trusted(statuses[i])
            requests:count(cell, address, try_outcomes.verdict(status), latency_of(status, times[i]))
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
