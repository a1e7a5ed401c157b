--- Pick the lower cost of two: the ring's next peer and one drawn by weight.
--
--   cost = peak * (1 + in_flight / (weight / mean weight))
--
-- Finagle's Peak EWMA: the average latency jumps to a peak at once and decays with 10 s. So a server that stalls loses
-- its requests after one of them. On a tie the ring's peer wins. O(1).
--
-- Finagle draws both candidates alike and divides (in_flight + 1) by the weight. Here they are drawn by weight.
-- Dividing the whole sum by the weight, too, would give peers at rest with weights 10 and 1 shares of 120 and 1. So
-- only the requests in flight are divided. At rest the cost is independent of the weight; under load it evens out
-- in_flight / weight.
--
-- A peer without a sample costs nothing while nothing is in flight, so it gets its first request. Until that is
-- answered, the peer loses to every known one. A known peer costs at least 1 ms, because nginx counts whole
-- milliseconds: between 0 and 1 only chance decides. Pure.

local candidates = require "steelyard.core.pickers.candidates"

local failing, max = candidates.failing, math.max
local CLOCK_MS, UNKNOWN_MS = candidates.CLOCK_MS, candidates.UNKNOWN_MS


local function cost(self, peer, now)
    local stats = self.stats
    local in_flight, peak = stats:in_flight(peer.cell), stats:peak(peer.cell, now)
    if peak == 0 then
        if in_flight == 0 then
            return 0
        end
        peak = UNKNOWN_MS
    end
    return max(peak, CLOCK_MS) * (1 + in_flight * self.candidates.mean_weight / peer.weight)
end


local function pick(self)
    local first, second = self.candidates:pair()
    if first == second then
        return first
    end
    local stats, now = self.stats, self.now()
    local first_fails = failing(stats, first, now)
    if first_fails ~= failing(stats, second, now) then
        return first_fails and second or first
    end
    return cost(self, second, now) < cost(self, first, now) and second or first
end


return candidates.picker{ pick = pick, by_in_flight = true }
