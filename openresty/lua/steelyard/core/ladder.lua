--- The ladder: what the weights rest on when things break.
--
--   fresh      the last new table arrived at most fresh_s ago
--   hold       no longer so: the last table holds, for hold_s
--   drift      then weights go linearly to the baselines, over drift_s
--   saved      the table on disk (issue 4)
--   bootstrap  no table was ever seen: the list in the configuration
--   none       not even that
--
-- Ages are by this machine's clock, since (term, generation) changed; clocks of two machines are
-- never compared. Pure.

-- Each step of the drift restarts a ring; 5 % is less than a law's own noise.
local DRIFT_STEPS = 20

-- Shares are drawn to this total; a peer's rounding is at most half of a part of it.
local DRIFT_TOTAL = 10000

local _M = {}


--- The rung, and how far the drift is (0..1, in steps).
-- @param age_s  since the last new table; nil when there is none
-- @param limits fresh_s, hold_s, drift_s
function _M.rung(age_s, has_bootstrap, limits)
    if not age_s then
        return has_bootstrap and "bootstrap" or "none", 0
    end
    if age_s <= limits.fresh_s then
        return "fresh", 0
    end
    if age_s <= limits.fresh_s + limits.hold_s then
        return "hold", 0
    end
    local drift = (age_s - limits.fresh_s - limits.hold_s) / limits.drift_s
    return "drift", math.min(1, math.floor(drift * DRIFT_STEPS) / DRIFT_STEPS)
end


--- The peers with weights moved by `drift` from the effective to the baseline ones.
-- Between shares, not numbers: the two are only published with the same total
-- as long as nobody divides one of them by its gcd.
function _M.drifted(peers, drift)
    if drift == 0 then
        return peers
    end
    local weights, baselines = 0, 0
    for i = 1, #peers do
        weights = weights + peers[i].weight
        baselines = baselines + peers[i].baseline
    end
    local moved = {}
    for i = 1, #peers do
        local peer = {}
        for key, value in pairs(peers[i]) do
            peer[key] = value
        end
        local share = (1 - drift) * peer.weight / weights + drift * peer.baseline / baselines
        peer.weight = math.max(1, math.floor(share * DRIFT_TOTAL + 0.5))
        moved[i] = peer
    end
    return moved
end


return _M
