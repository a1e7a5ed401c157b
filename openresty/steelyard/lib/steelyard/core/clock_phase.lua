--- The common phase: the instants of the wall clock at which nginx reports and fetches, in step with agents and
-- controller (protocol/steelyard_protocol/clock_phase.py).
--
--     workers hand in their counts at   k FLUSH         some milliseconds earlier with many servers
--     one of them reports at            k I + 0.02 s    I: report_interval_s
--     one of them fetches at            k F + 0.25 s    F: fetch_interval_s
--
-- The last two are later by up to SPREAD_S, by the load balancer's name. The controller ticks at k T + 0.10 s: it
-- finds the report, and its table can then be fetched. The phase is only an aim. The next instant is between half an
-- interval and one and a half away, whatever the clock does meanwhile. Pure.

local bit = require "bit"

local _M = {
    REPORT_S = 0.02, -- the workers' counts are in the shared dict
    FETCH_S = 0.25, -- the table of some thousands of servers is published
}

-- Load balancers act at different instants within this.
local SPREAD_S = 0.03


--- Return the seconds after the common instant at which the sender of this name acts.
function _M.spread_s(name, interval_s)
    local hash = 5381
    for i = 1, #name do
        hash = bit.band(hash * 33 + string.byte(name, i), 0x7fffffff) -- djb2
    end
    return hash % 1000 / 1000 * SPREAD_S * math.min(1, interval_s)
end


--- Return the first instant at least half an interval after `now`.
-- @param instant_s its place within the interval
function _M.after(now, interval_s, instant_s)
    return instant_s + math.ceil((now + interval_s / 2 - instant_s) / interval_s) * interval_s
end


return _M
