--- The interval at which a worker adds its counts to the shared ones.
--
-- A flush takes 1.3 us for each server that had a request since the last one. With a few servers that is nothing, and
-- the counts on the status page are a fifth of a second old. With thousands, nearly every server has a request in each
-- interval, so five flushes a second cost five times as much as one. The traffic report reads the counts once. Failures
-- are handed in as soon as with few servers, because ejection judges servers by them. Pure.

local OFTEN_S, SELDOM_S = 0.2, 1

-- Five flushes of so few servers take 3 ms a second.
local FEW_SERVERS = 500

-- The time of a server in a flush: 1.3 us of work, and a pause of 1 ms after each 0.2 ms of it. On a busy machine it is
-- twice that. With thousands of servers, a flush takes longer than the report waits. The servers that come last would
-- be reported with the counts of the second before. So a flush begins earlier, by a short interval at most.
local SERVER_S = 2e-5

local _M = {}


--- Return the interval: the report's own, or a whole part of it of a second at most, so that counts are fresh in it.
-- @param servers      that had requests lately
-- @param has_failures whether a try has failed since the last flush
function _M.seconds(servers, has_failures, report_interval_s)
    if servers <= FEW_SERVERS or has_failures then
        return OFTEN_S
    end
    return math.max(OFTEN_S, report_interval_s / math.ceil(report_interval_s / SELDOM_S))
end


--- Return the seconds before the common instant at which a flush of this many servers begins.
function _M.lead_s(servers)
    return servers <= FEW_SERVERS and 0 or math.min(OFTEN_S, servers * SERVER_S)
end


return _M
