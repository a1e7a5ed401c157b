--- Pick by a key: consistent hashing with bounded loads.
--
--   bound = factor * weight / sum of weights * (in flight at all eligible peers + 1)
--
-- A key has the first peer on a ring (core/hash_ring), from its own place on, that has less in flight than
-- its bound: so no peer ever has more than the bound, rounded up, and one always has less. A peer that fails
-- most of its tries is passed over as one that is full. Mirrokni, Thorup, Zadimoghaddam, "Consistent Hashing
-- with Bounded Loads" (2018); HAProxy's and Envoy's hash-balance-factor.
--
-- Who overflows goes to the next on the ring. A peer has many points, and others lie behind each: what one
-- peer cannot take is spread over all, so no neighbour is drowned next, and each key's second choice is as
-- steady as its first.
--
-- The ring goes by the *baseline* weights, and the bound by the effective ones. Those change each second, and
-- would move keys for nothing; a bound that shrinks moves some requests, and only while the peer is full.
-- Points are in proportion to the mean of the baselines of all that are known, since a table says shares and
-- not sizes: a peer that is out, or drained, moves its own keys alone; one of share s that leaves the table
-- moves s of the keys, and at most |s - 1/n| more by the others' points.
--
-- With a memory (remember_keys) a key stays where it was last, while that peer is below its bound. One that is new, or
-- has to move, goes to the less busy of the first two on the ring: so new keys even out what the old ones make uneven,
-- and a load balancer that does not know the key has two to guess from.
--
-- A request without a key goes as vnswrr2 picks. O(1), with LOOKS peers to count. Pure.

local candidates = require "steelyard.core.pickers.candidates"
local hash_ring = require "steelyard.core.hash_ring"
local no_pause = require("resty.vnswrr").no_pause
local rows = require "resty.vnswrr.rows"
local vnswrr2 = require "steelyard.core.pickers.vnswrr2"

local failing, floor, max, min = candidates.failing, math.floor, math.max, math.min

-- Of a peer of the mean baseline: its share of the ring is 1/sqrt(64) = 12 % off by chance, less than FACTOR.
-- With keys as the web's are (Zipf) 50 points and 200 have the same cache hits, since single keys weigh more;
-- 25 have fewer.
local POINTS = 64

-- Envoy's documentation and HAProxy's suggest 1.2 to 2.
local FACTOR = 1.25

local NO_BOUND = math.huge

-- Points that are looked at for a peer below its bound, before all peers are. At most 1/FACTOR of the
-- capacity is full.
local MOST_POINTS = 100

-- Peers whose requests a pick counts anew, in turns: all of a small cluster. And after which pause it counts
-- all.
local LOOKS, PAUSE_S = 16, 0.1

-- Rows between two calls of breathe.
local ROWS = 100

local _M = { by_in_flight = true, wants_key = true }
local mt = { __index = _M }


--- Make a picker without peers.
-- @param context as others' (core/pickers)
-- @param factor  left out: the upstream's, or FACTOR
local function new(context, factor)
    local dict = context.remember_keys
    local memory = dict and context.shared[dict]
    if dict and not memory then
        error("remember_keys: there is no such dict; add `lua_shared_dict " .. dict .. " 10m;` to http {}", 0)
    end
    return setmetatable({
        memory = memory, name = context.name, by_id = {}, -- nil: keys are where the ring says
        keyless = vnswrr2.new(context), stats = context.stats, now = context.now, others = context.others,
        factor = factor or context.hash_balance_factor or FACTOR,
        peers = {}, ring = nil, total_weight = 0, updates = 0,
        in_flight = 0, counted = {}, at = 0, picked_at = 0, -- the sum of what was counted of each peer
    }, mt)
end


--- What the ring goes by: the peer's weight at rest. (One of a specification, or a model, may have none.)
local function baseline_of(peer)
    return peer.baseline or peer.weight
end


--- The ids, and how many points each has; and the peers by their ids.
local function points_of(peers, known, breathe)
    local ids, counts, by_id, baselines = {}, {}, {}, 0
    for i = 1, #known do
        baselines = baselines + baseline_of(known[i])
    end
    local unit = baselines / #known / POINTS
    for i = 1, #peers do
        ids[i], counts[i] = peers[i].id, max(1, floor(baseline_of(peers[i]) / unit + 0.5))
        by_id[ids[i]] = peers[i]
        breathe(i, ROWS)
    end
    return ids, counts, by_id
end


--- Take the peers; what changes no baseline moves no key. An update that began later, while this one
-- breathed, wins.
-- @param known all peers of the table, eligible or not; left out, these are all
function _M:update(peers, breathe, known)
    breathe = breathe or no_pause
    local update = self.updates + 1
    self.updates = update
    local ids, counts, by_id = points_of(peers, known or peers, breathe)
    local ring = self.ring
    if not (ring and rows.same(ids, ring.ids) and rows.same(counts, ring.counts)) then
        ring = #peers > 0 and hash_ring.new(ids, counts, breathe) or nil
    end
    if self.updates ~= update or not self.keyless:update(peers, breathe) then
        return false
    end
    local draw = self.keyless.candidates.draw
    self.peers, self.by_id, self.ring, self.total_weight = peers, by_id, ring, draw and draw.total or 0
    self.in_flight, self.counted, self.at, self.picked_at = 0, {}, 0, 0
    return true
end


--- Count what is in flight at all peers: at some of them now, at the others as of some picks ago.
local function count(self, now)
    local peers, counted, stats, at = self.peers, self.counted, self.stats, self.at
    local sum, looks = self.in_flight, now - self.picked_at > PAUSE_S and #peers or min(LOOKS, #peers)
    for _ = 1, looks do
        at = at % #peers + 1
        local in_flight = stats:in_flight(peers[at].cell)
        sum, counted[at] = sum + in_flight - (counted[at] or 0), in_flight
    end
    self.in_flight, self.at, self.picked_at = sum, at, now
end


--- Whether a peer may have one request more.
-- @param beyond the bound, by so many
local function is_below(self, peer, now, beyond)
    local bound = self.factor * peer.weight / self.total_weight * (self.in_flight + 1) + (beyond or 0)
    return self.stats:in_flight(peer.cell) < bound and not failing(self.stats, peer, now)
end


--- The first peer from a place on that is below its bound, and its place; nil where none is near.
-- @param but a peer that is passed over
local function next_below(self, place, now, but)
    local ring, peers, last = self.ring, self.peers, 0
    for _ = 1, min(ring.n, MOST_POINTS) do
        place = place % ring.n
        local owner = ring.owners[place]
        if owner ~= last and peers[owner] ~= but and is_below(self, peers[owner], now) then
            return peers[owner], place
        end
        place, last = place + 1, owner
    end
end


--- The first peer of all, in their order from the key's own on, that is below its bound; nil where there is
-- none.
local function any_below(self, place, now)
    local peers, own = self.peers, self.ring.owners[place]
    for i = 0, #peers - 1 do
        local peer = peers[(own + i - 1) % #peers + 1]
        if is_below(self, peer, now) then
            return peer
        end
    end
end


--- As next_below(): where the key was last, or else the less busy of its first two.
local function remembered(self, place, now, key)
    local memory, stats, entry = self.memory, self.stats, self.name .. "/" .. hash_ring.hash(key)
    local peer = self.by_id[memory:get(entry)]
    if peer and is_below(self, peer, now, 1) then -- the key's own last request may be answered, and still be counted
        return peer, place
    end
    local first, at = next_below(self, place, now)
    if not first then
        return nil
    end
    local second, behind = next_below(self, at + 1, now, first)
    if second and stats:in_flight(second.cell) / second.weight < stats:in_flight(first.cell) / first.weight then
        first, at = second, behind
    end
    memory:set(entry, first.id)
    return first, at
end


--- The key's peer, and its place on the ring; without a key the default's, without a place. Nil when there is
-- none.
function _M:pick(key)
    local ring = self.ring
    if not ring or not key or key == "" then
        return self.keyless:pick()
    end
    local place, now, choice, stats = ring:place(key), self.now(), self.keyless.candidates, self.stats
    if self.others then
        choice:weigh_others(self.peers[ring.owners[place]])
    end
    if stats.told and not choice:by_others() then
        stats:trust_others(false) -- servers say by how much they differ; bounds go by how much there is
    end
    if self.factor < NO_BOUND then
        count(self, now)
    end
    local peer, found
    if self.memory then
        peer, found = remembered(self, place, now, key)
    else
        peer, found = next_below(self, place, now)
    end
    peer = peer or any_below(self, place, now)
    if peer then
        return peer, found or place
    end
    return self.keyless:pick() -- all fail
end


--- The next peer below its bound behind a place, and its place; nil where none is near. It may be the same
-- peer.
function _M:following(place)
    return next_below(self, place + 1, self.now())
end


--- Do up to n steps of work ahead of picks.
function _M:grow(n)
    return self.keyless:grow(n)
end


--- The picker, and the same without a bound: a key has its server as long as that is there.
local function module(factor)
    return { new = function(context) return new(context, factor) end, by_in_flight = true, by_key = true }
end


return { bounded = module(), unbounded = module(NO_BOUND) }
