--- The interval at which a worker adds its counts to the shared ones.
--
-- A flush takes 1.3 us for each server that had a request since the last one. With a few servers that is nothing, and
-- the counts on the status page are a fifth of a second old. With thousands, nearly every server has a request in each
-- interval, so five flushes a second cost five times as much as one. The traffic report reads the counts once. Failures
-- are handed in as soon as with few servers, because ejection judges servers by them. Pure.

local OFTEN_S, SELDOM_S = 0.2, 1

-- Five flushes of so few servers take 3 ms a second.
local FEW_SERVERS = 500

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


return _M
