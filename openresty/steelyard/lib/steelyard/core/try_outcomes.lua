--- The outcome of each try of a request, from nginx's own variables.
--
-- $upstream_addr, $upstream_status, $upstream_connect_time, $upstream_header_time and $upstream_bytes_sent list the
-- tries of a request: ", " between servers of one pass, " : " after an internal redirect. Tries at other upstreams of
-- the same request are in the same lists. Pure.

local number = require "steelyard.core.number"

local trusted = number.trusted

-- gRPC's codes for which the server is not to blame: Envoy's outlier detection maps them to HTTP statuses below 500
-- (Grpc::Utility::grpcToHttpStatus). The others, and unknown codes, are failures of the server: UNKNOWN,
-- DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS.
local NOT_THE_SERVERS_FAULT = {
    [0] = true,  -- OK
    [1] = true,  -- CANCELLED
    [3] = true,  -- INVALID_ARGUMENT
    [5] = true,  -- NOT_FOUND
    [6] = true,  -- ALREADY_EXISTS
    [7] = true,  -- PERMISSION_DENIED
    [8] = true,  -- RESOURCE_EXHAUSTED: as 429
    [9] = true,  -- FAILED_PRECONDITION
    [10] = true, -- ABORTED
    [11] = true, -- OUT_OF_RANGE
    [16] = true, -- UNAUTHENTICATED
}

-- The most frequent times to a header, in ms: converting a text to a number costs 0.15 us.
local MS = {}
for ms = 0, 99 do
    MS[string.format("%.3f", ms / 1000)] = ms
end

-- UNAUTHENTICATED.
local LAST_CODE = 16

local _M = {}


--- Split one of the lists. A try without a server has an empty address, or that of the previous try.
function _M.split(list)
    local items = {}
    for item in string.gmatch(list and list .. ", " or "", "(.-) ?[,:] ") do
        items[#items + 1] = item
    end
    return items
end


--- Classify a try as nginx's accounting does: `completed` is a response below 500.
-- A try without a status is `aborted`: the client went away, which counts as neither.
function _M.verdict(status)
    if not status then
        return "aborted"
    end
    return status < 500 and "completed" or "failed"
end


--- Classify a try by its grpc-status, as it came.
function _M.grpc_verdict(status)
    return NOT_THE_SERVERS_FAULT[number.whole(status, 0, LAST_CODE)] and "completed" or "failed"
end


--- Return the latency of a server's answer in ms; nil if it says nothing about its speed.
--
-- It is the time to the response's header: the body lasts as long as the request asked for (a stream, a download by a
-- slow reader). An upgrade (101, a WebSocket) is a handshake and no work.
-- @param header_s as in $upstream_header_time, "-" without a header
function _M.latency_ms(status, header_s)
    if status == 101 then
        return nil
    end
    local seconds = not MS[header_s] and trusted(header_s)
    return MS[header_s] or seconds and seconds * 1000 or nil
end


--- Find each of our tries in the lists.
-- @param tries the request's (core/request_entry): its peers in order, and after which of them no server was found
-- @param lists addresses, statuses, connect_times, header_times, bytes_sent
-- @return [1..n] of { status, verdict, latency_ms, connected, sent, answered }
function _M.outcomes(tries, lists)
    local addresses, statuses = _M.split(lists.addresses), _M.split(lists.statuses)
    local connect_times, header_times = _M.split(lists.connect_times), _M.split(lists.header_times)
    local bytes_sent = _M.split(lists.bytes_sent)
    local outcomes, at, stuck_after = {}, 1, tries.stuck_after or {}
    for i = 1, tries.n do
        while addresses[at] and addresses[at] ~= tries[i].address do
            at = at + 1
        end
        local status = trusted(statuses[at])
        outcomes[i] = {
            status = status, verdict = _M.verdict(status),
            latency_ms = _M.latency_ms(status, header_times[at]),
            connected = trusted(connect_times[at]) ~= nil,
            sent = bytes_sent[at] ~= "0", -- at least a part of the request
            -- nginx's own 502 and 504 came from no server.
            answered = trusted(header_times[at]) ~= nil,
        }
        at = at + (stuck_after[i] and 2 or 1)
    end
    return outcomes
end


--- Describe in words how a try ended.
function _M.words(outcome)
    if not outcome.status then
        return "gave no answer"
    elseif outcome.status == 504 then
        return outcome.connected and "did not answer in time" or "could not be connected to in time"
    elseif outcome.status == 502 then
        return outcome.connected and "closed the connection or sent no valid answer" or "could not be connected to"
    end
    return "answered " .. outcome.status
end


return _M
