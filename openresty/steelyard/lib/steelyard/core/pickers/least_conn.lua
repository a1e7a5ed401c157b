--- Pick the least in_flight / weight of all eligible peers.
--
-- A peer with nothing in flight is the least loaded of all. Usually the ring's next peer, or one of a few draws, is
-- such a peer. On ties the ring's peer wins, or else a draw by weight: a cluster at rest is served in the ring's
-- order. Only if none of those is idle are all peers looked at: O(1) while enough peers are idle, O(peers) as in nginx
-- if all are busy. A heap would not help, because other workers change the counts, too. With figures of other load
-- balancers, only a few are looked at: else all load balancers would run to the same least loaded peer.
--
-- A failing peer is taken only if all fail. On a tie a much slower peer loses, and so does an idle one that would
-- still be late. Pure.

local candidates = require "steelyard.core.pickers.candidates"

local failing, is_idle = candidates.failing, candidates.is_idle
local late, slower = candidates.late, candidates.slower

-- Draws for an idle peer, at most one per peer. With a quarter of the peers idle, one pick in 130 looks at all of
-- them; if all are busy, the draws add little to that.
local IDLE_DRAWS = 16


--- Return a peer with nothing in flight, if a few draws find one.
local function idle(self, first, now)
    local stats, choice = self.stats, self.candidates
    local peer, left = first, math.min(IDLE_DRAWS, #choice.peers)
    while not is_idle(stats, peer, now) do
        if left == 0 then
            return nil
        end
        left = left - 1
        peer = choice:another()
    end
    local rival = choice:another()
    if rival ~= peer and late(stats, peer, rival, now) and not failing(stats, rival, now) then
        return rival
    end
    return peer
end


--- Return the least loaded of all, or of a few; nil if `avoid` is set and all of them fail.
local function least(self, first, now, avoid)
    local stats, choice, random = self.stats, self.candidates, self.random
    local peers, few = choice.peers, choice:by_others()
    local best, best_in_flight, tied = nil, 0, 0
    if not (avoid and failing(stats, first, now)) then
        best, best_in_flight = first, stats:in_flight(first.cell)
    end
    local looks = #peers
    if few then
        looks = choice:more()
    end
    for i = 1, looks do
        local peer = few and choice:look(i) or peers[i]
        local in_flight = stats:in_flight(peer.cell)
        -- in_flight / weight, times both weights: in whole numbers a tie is a tie.
        local excess = best and in_flight * best.weight - best_in_flight * peer.weight or -1
        if excess <= 0 and peer ~= best and not (avoid and failing(stats, peer, now)) then
            if excess < 0 then
                best, best_in_flight, tied = peer, in_flight, peer.weight
            elseif slower(stats, best, peer, now) then
                best, best_in_flight, tied = peer, in_flight, tied + peer.weight
            elseif not slower(stats, peer, best, now) then
                tied = tied + peer.weight
                if best ~= first and random(tied) <= peer.weight then
                    best, best_in_flight = peer, in_flight
                end
            end
        end
    end
    return best
end


local function pick(self)
    local first = self.candidates:first()
    if not first then
        return nil
    end
    local now = self.now()
    return not self.candidates:by_others() and idle(self, first, now)
           or least(self, first, now, true) or least(self, first, now, false)
end


return candidates.picker{ pick = pick, by_in_flight = true }
