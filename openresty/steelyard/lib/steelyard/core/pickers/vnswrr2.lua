--- Pick the better of two, the ring's next peer and one drawn by weight; if that is busy, of more.
--
-- The lower in_flight / weight wins, unless it is idle and would still be late. On a tie the ring's peer wins, unless
-- it is much slower. So a cluster at rest is served in the ring's order.
--
-- The weights are right in the long run. The other candidates avoid peers that are busy at this moment. Two candidates
-- are enough while one is idle; else more are looked at until one is. With two alone p99 was 10 % higher on 17
-- simulated clusters.
--
-- Beside other load balancers whose requests in flight are not known, most ties are between peers with nothing in
-- flight here. Latency shows the requests of others, so a peer loses a tie at a lower ratio of latencies. And if the
-- ring's peer is not taken, the heaviest of a few idle ones wins: others may be there, and it is done with their
-- requests first. Otherwise the ring's peer has its turn, whatever its weight. O(1). Pure.

local candidates = require "steelyard.core.pickers.candidates"

local failing, is_idle = candidates.failing, candidates.is_idle
local late, slower = candidates.late, candidates.slower
local CLOCK_MS, SLOWER_RATIO = candidates.CLOCK_MS, candidates.SLOWER_RATIO
local max, min = math.max, math.min

-- The ratio of latencies above which a peer loses a tie beside other load balancers. A higher one gained less, and with
-- 1.2 chance decided more ties (docs/decisions/0025-others-in-flight.md).
local SLOWER_RATIO_BESIDE_OTHERS = 1.5

-- The ratio of weights from which a peer is heavier than another one. Less may be noise of a law.
local HEAVIER_RATIO = 1.25

-- Peers that are looked at for a heavier idle one, if the best of two is idle. With 14, all load balancers run to the
-- same few heavy ones: the mean of a hundred servers behind 16 was 4.5 % higher.
local LOOKS_FOR_HEAVIER = 4


--- Whether the peer's latency is above the other's by that ratio. A much slower one has its times to be tried.
local function slower_beside_others(stats, peer, other, now)
    local latency, least = stats:latency(peer.cell, now), stats:latency(other.cell, now)
    -- In whole milliseconds, 2 may be hardly more than 1.
    if least == 0 or latency <= max(SLOWER_RATIO_BESIDE_OTHERS * least, least + CLOCK_MS) then
        return false
    end
    return latency <= SLOWER_RATIO * max(least, CLOCK_MS) or slower(stats, peer, other, now)
end


--- Make the function that tells whether the second is better than the first.
-- @param loses_tie function that tells whether the first is too slow to win a tie
local function better_by(loses_tie)
    return function(stats, second, first, now)
        local first_fails = failing(stats, first, now)
        if first_fails ~= failing(stats, second, now) then
            return first_fails
        end
        -- in_flight / weight, times both weights: in whole numbers a tie is a tie.
        local first_load = stats:in_flight(first.cell) * second.weight
        local second_load = stats:in_flight(second.cell) * first.weight
        if first_load < second_load then
            return late(stats, first, second, now)
        elseif second_load < first_load then
            return not late(stats, second, first, now)
        end
        return loses_tie(stats, first, second, now)
    end
end


local better_alone = better_by(slower)
local better_beside_others = better_by(slower_beside_others)


--- Whether the peer is idle and heavier than the other, idle one, and not known to be slower.
local function is_heavier(stats, peer, other, now)
    return peer.weight > HEAVIER_RATIO * other.weight and is_idle(stats, peer, now)
        and not slower(stats, peer, other, now)
end


--- Return the best of `best` and up to `most` further peers, of which the first idle one wins; and the number of looks.
local function least_busy(self, best, most, now)
    local choice, stats = self.candidates, self.stats
    for i = 1, most do
        local peer = choice:look(i)
        if peer ~= best and self.is_better(stats, peer, best, now) then
            best = peer
            if is_idle(stats, best, now) then
                return best, i
            end
        end
    end
    return best, most
end


--- Return the heaviest of `best`, which is idle, and the idle peers of these looks. No peer is heavier than one of the
-- largest weight, give or take the ratio.
local function heaviest_idle(self, best, first_look, last_look, now)
    local choice, stats = self.candidates, self.stats
    local enough = choice.draw.heaviest / HEAVIER_RATIO
    for i = first_look, last_look do
        if best.weight >= enough then
            break
        end
        local peer = choice:look(i)
        if is_heavier(stats, peer, best, now) then
            best = peer
        end
    end
    return best
end


local function pick(self)
    local choice, stats, now = self.candidates, self.stats, self.now()
    local first, second = choice:pair()
    if not first then
        return nil
    end
    local best = first
    if second ~= first and self.is_better(stats, second, first, now) then
        best = second
    end
    local is_best_idle = is_idle(stats, best, now)
    if is_best_idle and (best == first or not self.heaviest_first) then
        return best
    end
    local most, looks = choice:more(), 0
    if is_best_idle then
        most = min(most, LOOKS_FOR_HEAVIER)
    else
        best, looks = least_busy(self, best, most, now)
    end
    return self.heaviest_first and heaviest_idle(self, best, looks + 1, most, now) or best
end


--- As `pick`, beside other load balancers. Whether their requests are known is as of the previous pick.
local function pick_beside_others(self)
    local known = self.candidates:by_others()
    self.is_better, self.heaviest_first = known and better_alone or better_beside_others, not known
    return pick(self)
end


local vnswrr2 = candidates.picker{ pick = pick, by_in_flight = true, by_reports = true, is_better = better_alone }


--- Note whether other load balancers send requests to the same peers.
function vnswrr2:note_others(are_there)
    self.pick, self.is_better = are_there and pick_beside_others or nil, better_alone
    self.heaviest_first = false
end


return vnswrr2
