--- Pick the better of two, the ring's next peer and one drawn by weight; if that is busy, of more.
--
-- The lower in_flight / weight wins, unless it is idle and would still be late. On a tie the ring's peer wins, unless
-- it is much slower. So a cluster at rest is served in the ring's order.
--
-- The weights are right in the long run. The other candidates avoid peers that are busy at this moment. Two candidates
-- are enough while one is idle; else more are looked at until one is. With two alone p99 was 10 % higher on 17
-- simulated clusters. O(1). Pure.

local candidates = require "steelyard.core.pickers.candidates"

local failing, is_idle = candidates.failing, candidates.is_idle
local late, slower = candidates.late, candidates.slower

--- Whether the second is better than the first, which wins a tie.
local function is_better(stats, second, first, now)
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
    return slower(stats, first, second, now)
end


local function pick(self)
    local choice, stats, now = self.candidates, self.stats, self.now()
    local best, second = choice:pair()
    if not best then
        return nil
    end
    if second ~= best and is_better(stats, second, best, now) then
        best = second
    end
    if is_idle(stats, best, now) then
        return best
    end
    for i = 1, choice:more() do
        local peer = choice:look(i)
        if peer ~= best and is_better(stats, peer, best, now) then
            best = peer
            if is_idle(stats, best, now) then
                return best
            end
        end
    end
    return best
end


return candidates.picker{ pick = pick, by_in_flight = true, by_reports = true }
