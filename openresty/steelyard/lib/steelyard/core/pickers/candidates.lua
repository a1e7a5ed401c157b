--- Candidates for a request: the ring's next peer, and others drawn by weight.
--
-- vnswrr2, least_conn, peak_ewma and hcl choose among them. The ring's next peer comes first, so a cluster of equal
-- candidates is served in the ring's order. A peer that is not taken has had its turn all the same: else a busy peer
-- would hold up the ring.
--
-- A peer loses a comparison, with any number of requests in flight, if it is
--
--   failing  More than half of its recent tries failed. A server that answers 500 in a millisecond has nothing in
--            flight and looks like the best one.
--   slower   Its latency is over 5 times the other's, both are known, and it is over 5 ms (nginx counts whole
--            milliseconds). Counts only if the loads are equal: the weights reflect a server's speed, and a factor of
--            5 is no longer noise.
--   late     It has nothing in flight, is slower, and would still answer after the other has answered all its requests
--            in flight and one more. A slow server is idle because nothing waits for it: in bursts, it would get a
--            request whenever the fast ones are busy.
--
-- Failures fade within 10 s without requests, so the losing peer is tried again. A slow one is tried after as long as
-- it has been slow (core/slow_servers).
--
-- If other load balancers exchange their requests in flight (core/others_in_flight), a pick begins with the value of
-- those figures. A peer's requests in flight then include theirs, and fewer peers are looked at. Without an exchange,
-- a picker may go by the peers' own reports (note_reported). A recent report says how far the peer is above or below
-- the mean share; other peers count as being at the mean.
--
-- Peers may have a group, their zone. All candidates then come from the group of the first. An idle peer in another
-- zone would otherwise beat every busy one here, and requests would not cross zones as the weights say. A peer with a
-- pinned share is a group of its own: being small it is often idle, and would get ten times its share. Pure.

local no_pause = require("resty.vnswrr").no_pause
local rows = require "resty.vnswrr.rows"
local vnswrr = require "steelyard.core.pickers.vnswrr"
local weighted_draw = require "steelyard.core.pickers.weighted_draw"

local max, min = math.max, math.min

-- Rows between two calls of breathe().
local ROWS_PER_BREATH = 100

-- Draws for a second candidate. A peer drawn against itself wins unseen: with one draw, a failing peer of two equal
-- ones would still get a quarter of the requests. With 4 draws it gets 3 %.
local PAIR_DRAWS = 4

-- Further candidates of a pick. The least busy of 16 (these 14 and the first two) is hardly busier than the
-- least busy of all.
local MAX_FURTHER = 14

-- The share of recent failures above which a peer is failing.
local FAILING_SHARE = 0.5

-- The ratio of latencies from which a peer is slower; and the resolution of nginx's clock.
local SLOWER_RATIO, CLOCK_MS = 5, 1

-- Picks between two look-ups of a request's latency, and the look-ups in its running mean. One look-up counts at most
-- twice the mean.
local PICKS_PER_LOOK, LATENCY_LOOKS = 8, 8

-- Time constant of a peer's report: 8 times a request's latency, at most 1 s. And the reports in the running mean.
local REPORT_FADES_IN_LATENCIES, REPORT_FADES_IN_MAX_S, REPORTS_IN_MEAN = 8, 1, 64

-- Above every real number of requests at a peer: a report is capped here.
local MAX_REPORTED = 100000

-- Stands for an unknown latency: above any that nginx waits for (11 days).
local UNKNOWN_MS = 1e9

local _M = { SLOWER_RATIO = SLOWER_RATIO, CLOCK_MS = CLOCK_MS, UNKNOWN_MS = UNKNOWN_MS }
local mt = { __index = _M }


--- Make candidates of no peers.
function _M.new(context)
    return setmetatable({
        turns = vnswrr.new(context), random = context.random, stats = context.stats, now = context.now,
        peers = {}, weights = {}, mean_weight = 1, draw = nil, updates = 0,
        others = context.others, latency_ms = 0, picks = 0, -- others: nil without an exchange
        by_reports = false, reported_mean = 0, -- mean requests of others at a peer, for a weight of 1
        most = MAX_FURTHER, -- further peers for this pick
    }, mt)
end


local function group_of(peer)
    return peer.pinned and peer or peer.group or ""
end


--- Return the peers of each group, a draw among them and their mean weight; nil if there is one group.
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
        if i % ROWS_PER_BREATH == 0 then
            breathe()
        end
    end
    for _, group in pairs(groups) do
        group.draw = weighted_draw.new(group.weights, random, breathe)
        group.mean_weight = group.draw and group.draw.total / group.draw.n or 1
    end
    return groups
end


--- As `first`, for peers with groups: the next draws are from its group.
local function first_of_group(self)
    local first = _M.first(self)
    if first then
        local group = self.groups[group_of(first)]
        self.peers, self.draw, self.mean_weight = group.peers, group.draw, group.mean_weight
    end
    return first
end


--- Take the peers. Return whether they were taken: an update that began later, while this one breathed, wins.
function _M:update(peers, breathe)
    breathe = breathe or no_pause
    local update = self.updates + 1
    self.updates = update
    local weights, drawn, groups = {}, self.draw, groups_of(peers, self.random, breathe)
    for i = 1, #peers do
        weights[i] = peers[i].weight
        if i % ROWS_PER_BREATH == 0 then
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


--- Now and then, learn from the next peer how long a request takes.
local function learn_latency(self, first)
    self.picks = self.picks + 1
    if self.picks % PICKS_PER_LOOK == 1 then
        local latency, mean = self.stats:last_latency(first.cell), self.latency_ms
        if latency > 0 then
            self.latency_ms = mean == 0 and latency or mean + (min(latency, 2 * mean) - mean) / LATENCY_LOOKS
        end
    end
end


--- Begin a pick: weigh the figures of other load balancers, or else the peers' own reports.
function _M:weigh_others(first)
    local others, stats, more = self.others, self.stats, nil
    local is_live = others and others.live
    if is_live or stats.reported then
        learn_latency(self, first)
    end
    if is_live then
        more = others:more(self.now(), self.latency_ms)
    end
    self.most = more or MAX_FURTHER
    if not more and stats.reported and self.by_reports and self.latency_ms > 0 then
        stats:trust_reported(self.now(), min(REPORT_FADES_IN_MAX_S, REPORT_FADES_IN_LATENCIES * self.latency_ms / 1000))
    else
        stats:trust_others(more ~= nil)
    end
end


--- Take a peer's report of its requests in flight, those of this nginx included, as of a moment. A report may be false:
-- one moves the mean only a little.
function _M:note_reported(peer, in_flight, at)
    local others, weight = max(0, min(MAX_REPORTED, in_flight) - self.stats:own(peer.cell)), peer.weight
    local mean = self.reported_mean
    mean = mean + (min(others, 2 * mean * weight + 1) / weight - mean) / REPORTS_IN_MEAN
    self.reported_mean = mean
    self.stats:note_reported(peer.cell, others - mean * weight, at)
end


--- Return the next peer on the ring; nil if there is none.
function _M:first()
    local first = self.turns:pick()
    local others = self.others
    if first and (others and others.used or self.stats.reported) then
        self:weigh_others(first)
    end
    return first
end


--- Draw a peer, each with probability weight/total. There must be one.
function _M:another()
    return self.peers[self.draw:next()]
end


--- Return the next peer on the ring and a drawn one, which differs if a few draws find another; nil without peers.
function _M:pair()
    local first = self:first()
    if not first then
        return nil
    end
    local second
    for _ = 1, PAIR_DRAWS do
        second = self:another()
        if second ~= first then
            break
        end
    end
    return first, second
end


--- Whether this pick counts the requests of other load balancers, too.
function _M:by_others()
    return self.most < MAX_FURTHER
end


--- Return how many further peers a pick may look at while its best one is busy. In a small cluster these are all peers,
-- from a random one on: equal peers are then met in no fixed order. In a large cluster they are draws.
function _M:more()
    local n, most = #self.peers, self.most
    self.from = n <= MAX_FURTHER and self.random(n) or nil
    return self.from and min(n, most) or most
end


--- Return the i-th of them. It may have been looked at before.
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


--- Whether most of the peer's recent tries failed.
function _M.failing(stats, peer, now)
    return stats:failing(peer.cell, now) > FAILING_SHARE
end


--- Whether the peer has nothing in flight, and is not failing.
function _M.is_idle(stats, peer, now)
    return stats:in_flight(peer.cell) == 0 and stats:failing(peer.cell, now) <= FAILING_SHARE
end


--- Whether the peer's latency is far above the other's, and it is not yet time to try it again.
function _M.slower(stats, peer, other, now)
    local least = stats:latency(other.cell, now)
    return least > 0
        and stats:latency(peer.cell, now) > SLOWER_RATIO * max(least, CLOCK_MS)
        and not stats:may_be_tried(peer.cell, now)
end


--- Whether the peer, with nothing in flight, would answer later than the other behind its queue.
function _M.late(stats, peer, other, now)
    return stats:in_flight(peer.cell) == 0
        and _M.slower(stats, peer, other, now)
        and stats:latency(peer.cell, now)
            > (stats:in_flight(other.cell) + 1) * max(stats:latency(other.cell, now), CLOCK_MS)
end


--- Make the module of a picker among candidates.
-- @param picker pick: function(self) returning the next peer, or nil; self has candidates, stats, now and random.
--        by_reports: whether it may go by the peers' own reports. And the fields of core/pickers
function _M.picker(picker)
    local picker_mt = { __index = picker }

    function picker.new(context)
        local choice = _M.new(context)
        choice.by_reports = picker.by_reports
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

    function picker:note_reported(peer, in_flight, at)
        self.candidates:note_reported(peer, in_flight, at)
    end

    return picker
end


return _M
