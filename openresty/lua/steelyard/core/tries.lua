--- What became of each try, out of nginx's own variables.
--
-- $upstream_addr, $upstream_status, $upstream_response_time,
-- $upstream_connect_time and $upstream_header_time list the tries of a request:
-- ", " between servers of one pass, " : " after an internal redirect. Other
-- upstreams of the same request stand in the same lists. Pure.

local _M = {}


--- Split one of the lists.
function _M.split(list)
    local items = {}
    for item in string.gmatch(list or "", "[^%s,]+") do
        if item ~= ":" then
            items[#items + 1] = item
        end
    end
    return items
end


--- Judge a try as nginx's accounting does: `completed` is a response below 500.
-- A try without a status was given up by the client: nobody's fault.
function _M.verdict(status)
    if not status then
        return "aborted"
    end
    return status < 500 and "completed" or "failed"
end


--- Find each of our tries in the lists.
-- @param entry [1..n] peers, in the order of the tries
-- @param lists addresses, statuses, response_times, connect_times, header_times
-- @return [1..n] of { status, verdict, seconds, connected, answered }
function _M.outcomes(entry, lists)
    local addresses, statuses = _M.split(lists.addresses), _M.split(lists.statuses)
    local response_times = _M.split(lists.response_times)
    local connect_times, header_times = _M.split(lists.connect_times), _M.split(lists.header_times)
    local outcomes, at = {}, 1
    for i = 1, entry.n do
        while addresses[at] and addresses[at] ~= entry[i].address do
            at = at + 1
        end
        local status = tonumber(statuses[at])
        outcomes[i] = {
            status = status, verdict = _M.verdict(status),
            seconds = tonumber(response_times[at]) or 0,
            connected = tonumber(connect_times[at]) ~= nil,
            -- nginx's own 502 and 504 came from no server.
            answered = tonumber(header_times[at]) ~= nil,
        }
        at = at + 1
    end
    return outcomes
end


--- Say in words what a try ended with.
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
