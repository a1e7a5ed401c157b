--- The ladder: the source of the weights when parts fail (`rung` in status and metrics).
--
--   fresh      the last new table arrived at most fresh_s ago
--   hold       it is older: the last table stays in use, for hold_s
--   drift      then weights go linearly to the baselines, over drift_s
--   saved      nginx started while nothing else ran: the table saved on disk. It holds for
--              hold_s from the start and then drifts likewise; the first table fetched ends it
--   bootstrap  no table was ever seen: the list in the configuration
--   none       there is no such list either
--
-- Ages are by this machine's monotonic clock, since (term, generation) changed; clocks of two machines are never
-- compared. Pure.

-- Each step of the drift restarts a ring; 5 % is less than a law's own noise.
local DRIFT_STEPS = 20

-- Shares are scaled to this total; rounding moves a peer by at most half of 1.
local DRIFT_TOTAL = 10000

-- Rows between two calls of breathe(): about 0.02 ms.
local ROWS_PER_BREATH = 20

local _M = {
    -- From the best to the worst.
    RUNGS = { "fresh", "hold", "drift", "saved", "bootstrap", "none" },
}

local function drift_after(age_s, hold_s, drift_s)
    local drift = (age_s - hold_s) / drift_s
    return math.max(0, math.min(1, math.floor(drift * DRIFT_STEPS) / DRIFT_STEPS))
end


--- Return the rung, and how far the drift is (0..1, in steps).
-- @param age_s     since the last new table, or since a saved one was read; nil if there is none
-- @param limits    fresh_s, hold_s, drift_s
-- @param from_disk whether the table is the saved one, and none was fetched since
function _M.rung(age_s, has_bootstrap, limits, from_disk)
    if not age_s then
        return has_bootstrap and "bootstrap" or "none", 0
    end
    if from_disk then
        return "saved", drift_after(age_s, limits.hold_s, limits.drift_s)
    end
    if age_s <= limits.fresh_s then
        return "fresh", 0
    end
    if age_s <= limits.fresh_s + limits.hold_s then
        return "hold", 0
    end
    return "drift", drift_after(age_s, limits.fresh_s + limits.hold_s, limits.drift_s)
end


--- Return the peers with weights moved by `drift` from the effective to the baseline ones. It moves shares, not
-- numbers: the two totals are equal only as long as nothing divides one of them by its gcd.
function _M.drifted(peers, drift, breathe)
    if drift == 0 then
        return peers
    end
    local weights, baselines = 0, 0
    for i = 1, #peers do
        weights = weights + peers[i].weight
        baselines = baselines + peers[i].baseline
    end
    -- A small share of many peers must not be rounded to nothing.
    local total = math.max(DRIFT_TOTAL, 20 * #peers)
    local moved = {}
    for i = 1, #peers do
        local peer = {}
        for key, value in pairs(peers[i]) do
            peer[key] = value
        end
        local share = (1 - drift) * peer.weight / weights + drift * peer.baseline / baselines
        peer.weight = math.max(1, math.floor(share * total + 0.5))
        moved[i] = peer
        breathe(i, ROWS_PER_BREATH)
    end
    return moved
end


return _M
