--- Candidates for a request: the peer whose turn it is, and others drawn by weight.
--
-- What vnswrr2, least_conn and peak_ewma choose between. The ring's next peer
-- comes first, so that a cluster where no candidate is better than another is
-- served in the ring's order; it has had its turn also when it is not taken,
-- or a busy peer would hold up the ring.
--
-- What makes a peer lose a comparison, whatever it has in flight:
--
--   failing  over half of its tries failed lately. A server that answers 500 in
--            a millisecond has nothing in flight and looks like the best one.
--   slower   its latency is over 5 times the other's, both known, and over 5 ms:
--            nginx counts in whole ones. Speaks only when the loads are equal:
--            the weights know how fast a server is, and 5 times is no longer noise.
--   late     it has nothing in flight, is slower, and would still answer after
--            the other has answered all that it has in flight, and one more. A
--            slow server is idle because nobody waits for it: where requests come
--            in bursts it would get one whenever the fast ones are busy.
--
-- Both figures fade within 10 s without requests, so that a peer that lost
-- because of them is tried again.
--
-- Where other load balancers tell what they have in flight (core/others_in_flight), a pick
-- begins with what that is worth: what is in flight at a peer is then theirs, too, and fewer
-- peers are looked at. Where they do not, and peers say themselves how much they have (tell),
-- a picker may go by that: of one that has answered lately it is known whether it has more than
-- its part, or less; of the others it is taken for their part.
--
-- Where peers have a group, their zone, the others are of the first one's: what is idle in another zone would
-- else be better than all that is busy in this one, and the requests not cross as the weights say. A peer whose
-- share a person has pinned is a group of its own: idle as a small one is, it would get ten times that. Pure.

local no_pause = require("resty.vnswrr").no_pause
local rows = require "resty.vnswrr.rows"
local vnswrr = require "steelyard.core.pickers.vnswrr"
local weighted_draw = require "steelyard.core.pickers.weighted_draw"

local max, min = math.max, math.min

-- Rows between two calls of breathe.
local ROWS = 100

-- A peer that is drawn against itself wins unseen: of two equal peers one that
-- fails would still get a quarter of the requests. With 4 draws it gets 3 %.
local DRAWS = 4

-- The least of so many and two is hardly busier than the least of all.
local MORE = 14

local FAILING = 0.5
local SLOWER, CLOCK_MS = 5, 1

-- How long a request of these peers takes is looked up once in so many picks, and averaged over as many look-ups, of
-- which one counts no more than twice the mean.
local PICKS, LOOKS = 8, 8

-- How fast what a peer said fades, in times that a request takes, and seconds at the most; and the memory of the mean
-- of what peers say.
local SPANS, LONGEST_S, TOLD = 8, 1, 64

-- No peer has so many.
local MOST = 100000

-- A latency that is not known: above any that nginx waits for (11 days).
local UNKNOWN_MS = 1e9

local _M = { SLOWER = SLOWER, CLOCK_MS = CLOCK_MS, UNKNOWN_MS = UNKNOWN_MS }
local mt = { __index = _M }


--- Make candidates of no peers.
function _M.new(context)
    return setmetatable({
        turns = vnswrr.new(context), random = context.random, stats = context.stats, now = context.now,
        peers = {}, weights = {}, mean_weight = 1, draw = nil, updates = 0,
        others = context.others, latency_ms = 0, picks = 0, -- others: nil where nobody tells
        by_told = false, told_mean = 0, -- of what others have at a peer, for a weight of 1
        most = MORE, -- further peers that this pick may look at
    }, mt)
end


local function group_of(peer)
    return peer.pinned and peer or peer.group or ""
end


--- The peers of each group, a draw among them and their mean weight; nil where all are of one.
local function groups_of(peers, random, breathe)
    local is_one = true
    for i = 2, #peers do
        is_one = is_one and group_of(peers[i]) == group_of(peers[1])
    end
    if is_one then
        return nil
    end
    local groups = {}
    for i = 1, #peers do
        local name = group_of(peers[i])
        local group = groups[name] or { peers = {}, weights = {} }
        group.peers[#group.peers + 1], group.weights[#group.weights + 1] = peers[i], peers[i].weight
        groups[name] = group
        if i % ROWS == 0 then
            breathe()
        end
    end
    for _, group in pairs(groups) do
        group.draw = weighted_draw.new(group.weights, random, breathe)
        group.mean_weight = group.draw and group.draw.total / group.draw.n or 1
    end
    return groups
end


--- As `first`, where peers have groups: the next draws are from its.
local function first_of_group(self)
    local first = _M.first(self)
    if first then
        local group = self.groups[group_of(first)]
        self.peers, self.draw, self.mean_weight = group.peers, group.draw, group.mean_weight
    end
    return first
end


--- Take the peers. Returns whether they were taken: an update that began
-- later, while this one breathed, wins.
function _M:update(peers, breathe)
    breathe = breathe or no_pause
    local update = self.updates + 1
    self.updates = update
    local weights, drawn, groups = {}, self.draw, groups_of(peers, self.random, breathe)
    for i = 1, #peers do
        weights[i] = peers[i].weight
        if i % ROWS == 0 then
            breathe()
        end
    end
    if groups or self.groups or not rows.same(weights, self.weights) then
        drawn = weighted_draw.new(weights, self.random, breathe)
    end
    -- The ring breathes, and then it and all else change in one go.
    if self.updates ~= update or not self.turns:update(peers, breathe) then
        return false
    end
    self.peers, self.weights, self.draw = peers, weights, drawn
    self.mean_weight = drawn and drawn.total / drawn.n or 1
    self.groups, self.first = groups, groups and first_of_group
    return true
end


--- Learn from the peer whose turn it is how long a request takes, now and then.
local function learn_latency(self, first)
    self.picks = self.picks + 1
    if self.picks % PICKS == 1 then
        local latency, mean = self.stats:last_latency(first.cell), self.latency_ms
        if latency > 0 then
            self.latency_ms = mean == 0 and latency or mean + (min(latency, 2 * mean) - mean) / LOOKS
        end
    end
end


--- Begin a pick with what the others' figures are worth, or else with what peers say.
function _M:weigh_others(first)
    local others, stats, more = self.others, self.stats, nil
    local is_live = others and others.live
    if is_live or stats.told then
        learn_latency(self, first)
    end
    if is_live then
        more = others:more(self.now(), self.latency_ms)
    end
    self.most = more or MORE
    if not more and stats.told and self.by_told and self.latency_ms > 0 then
        stats:trust_told(self.now(), min(LONGEST_S, SPANS * self.latency_ms / 1000))
    else
        stats:trust_others(more ~= nil)
    end
end


--- Take what a peer says that it has in flight, those of this nginx among it, as of a moment. It may say anything: of
-- the mean it moves little.
function _M:tell(peer, in_flight, at)
    local others, weight = max(0, min(MOST, in_flight) - self.stats:own(peer.cell)), peer.weight
    local mean = self.told_mean
    mean = mean + (min(others, 2 * mean * weight + 1) / weight - mean) / TOLD
    self.told_mean = mean
    self.stats:tell(peer.cell, others - mean * weight, at)
end


--- The peer whose turn it is; nil when there is none.
function _M:first()
    local first = self.turns:pick()
    if first and (self.others or self.stats.told) then
        self:weigh_others(first)
    end
    return first
end


--- A peer, each with probability weight/total. There must be one.
function _M:another()
    return self.peers[self.draw:next()]
end


--- The peer whose turn it is and one drawn, another one if a few draws find
-- one; nil when there is no peer.
function _M:pair()
    local first = self:first()
    if not first then
        return nil
    end
    local second
    for _ = 1, DRAWS do
        second = self:another()
        if second ~= first then
            break
        end
    end
    return first, second
end


--- Whether this pick goes by what other load balancers have in flight, too.
function _M:by_others()
    return self.most < MORE
end


--- How many more peers a picker may look at while the best it has is busy: all of a small
-- cluster, from anywhere on, so that none of several equal ones is always met first; of a
-- large one as many draws.
function _M:more()
    local n, most = #self.peers, self.most
    self.from = n <= MORE and self.random(n) or nil
    return self.from and min(n, most) or most
end


--- The i-th of them. It may be one that was looked at before.
function _M:look(i)
    if not self.from then
        return self:another()
    end
    local peers = self.peers
    return peers[(self.from + i) % #peers + 1]
end


--- Unroll up to n slots of the ring.
function _M:grow(n)
    return self.turns:grow(n)
end


--- Whether most of the peer's tries failed lately.
function _M.failing(stats, peer, now)
    return stats:failing(peer.cell, now) > FAILING
end


--- Whether the peer has nothing in flight, and not because it fails.
function _M.is_idle(stats, peer, now)
    return stats:in_flight(peer.cell) == 0 and stats:failing(peer.cell, now) <= FAILING
end


--- Whether the peer's latency is far above the other's.
function _M.slower(stats, peer, other, now)
    local least = stats:latency(other.cell, now)
    return least > 0 and stats:latency(peer.cell, now) > SLOWER * max(least, CLOCK_MS)
end


--- Whether the peer, with nothing in flight, is later than the other behind its queue.
function _M.late(stats, peer, other, now)
    return stats:in_flight(peer.cell) == 0
        and _M.slower(stats, peer, other, now)
        and stats:latency(peer.cell, now)
            > (stats:in_flight(other.cell) + 1) * max(stats:latency(other.cell, now), CLOCK_MS)
end


--- Make the module of a picker that chooses among candidates.
-- @param picker pick: function(self), the next peer, nil when there is none; self has candidates, stats, now and
--               random. by_told: whether it may go by what peers say. And what the picker says of itself (core/pickers)
function _M.picker(picker)
    local picker_mt = { __index = picker }

    function picker.new(context)
        local choice = _M.new(context)
        choice.by_told = picker.by_told
        return setmetatable({
            candidates = choice,
            stats = context.stats, now = context.now, random = context.random,
        }, picker_mt)
    end

    function picker:update(peers, breathe)
        return self.candidates:update(peers, breathe)
    end

    function picker:grow(n)
        return self.candidates:grow(n)
    end

    function picker:tell(peer, in_flight, at)
        self.candidates:tell(peer, in_flight, at)
    end

    return picker
end


return _M
