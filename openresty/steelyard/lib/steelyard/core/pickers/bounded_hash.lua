--- Pick by a key: consistent hashing with bounded loads.
--
--   bound = factor * weight / sum of weights * (in flight at all eligible peers + 1)
--
-- A key's peer is the first one on a ring (core/hash_ring), from the key's place on, with less in flight than its
-- bound. So no peer ever exceeds its bound, rounded up, and one peer is always below it. A failing peer is passed over
-- like a full one. Mirrokni, Thorup, Zadimoghaddam, "Consistent Hashing with Bounded Loads" (2018); HAProxy's and
-- Envoy's hash-balance-factor.
--
-- The overflow of a peer goes to the next peer on the ring. A peer has many points with different peers behind them.
-- So its overflow spreads over all peers, no neighbour is overloaded next, and each key's second choice is as steady
-- as its first.
--
-- The ring goes by the *baseline* weights, the bound by the effective ones. Effective weights change each second and
-- would move keys for nothing; a smaller bound moves some requests, and only while the peer is full. Points are in
-- proportion to the mean baseline of all known peers, because a table has shares, not sizes. A peer that is out, or
-- drained, moves its own keys alone. A peer of share s leaving the table moves s of the keys, and at most |s - 1/n|
-- more by the points of the others.
--
-- With a memory (remember_keys) a key stays at its last peer while that is below its bound. A new or displaced key
-- goes to the less busy of the first two on the ring. So new keys even out the imbalance of old ones, and a load
-- balancer unaware of the key has two peers to guess from.
--
-- A request without a key is picked as by vnswrr2. O(1), plus the count of PEERS_PER_COUNT peers. Pure.

local candidates = require "steelyard.core.pickers.candidates"
local hash_ring = require "steelyard.core.hash_ring"
local no_pause = require("resty.vnswrr").no_pause
local rows = require "resty.vnswrr.rows"
local vnswrr2 = require "steelyard.core.pickers.vnswrr2"

local failing, floor, max, min = candidates.failing, math.floor, math.max, math.min

-- Points of a peer with the mean baseline: its share of the ring is 1/sqrt(64) = 12 % off by chance, less than the
-- factor. With the web's keys (Zipf) 50 points and 200 have the same cache hits, because single keys weigh more; 25
-- have fewer.
local MEAN_POINTS = 64

-- The default of hash_balance_factor: the documentation of Envoy and HAProxy suggests 1.2 to 2.
local DEFAULT_FACTOR = 1.25

local NO_BOUND = math.huge

-- Points to look at for a peer below its bound, before all peers are looked at. At most 1/factor of the capacity is
-- full.
local MAX_POINTS_LOOKED_AT = 100

-- Peers that one pick counts again, in turns: all of a small cluster. After a pause, a pick counts all.
local PEERS_PER_COUNT, COUNT_ALL_AFTER_S = 16, 0.1

-- Rows between two calls of breathe().
local ROWS_PER_BREATH = 100

local _M = { by_in_flight = true, wants_key = true }
local mt = { __index = _M }


--- Make a picker without peers.
-- @param context as for other pickers (core/pickers)
-- @param factor  left out: the upstream's, or DEFAULT_FACTOR
local function new(context, factor)
    local dict = context.remember_keys
    local memory = dict and context.shared[dict]
    if dict and not memory then
        error("remember_keys: there is no such dict; add `lua_shared_dict " .. dict .. " 10m;` to http {}", 0)
    end
    return setmetatable({
        memory = memory, name = context.name, by_id = {}, -- memory: nil if keys follow the ring alone
        keyless = vnswrr2.new(context), stats = context.stats, now = context.now, others = context.others,
        factor = factor or context.hash_balance_factor or DEFAULT_FACTOR,
        peers = {}, ring = nil, total_weight = 0, updates = 0,
        in_flight = 0, counted = {}, at = 0, picked_at = 0, -- in_flight: the sum of `counted`
    }, mt)
end


--- Return a peer's weight at rest. (A peer of a spec, or of a model, may have none.)
local function baseline_of(peer)
    return peer.baseline or peer.weight
end


--- Return the ids, the number of points of each, and the peers by id.
local function points_of(peers, known, breathe)
    local ids, counts, by_id, baselines = {}, {}, {}, 0
    for i = 1, #known do
        baselines = baselines + baseline_of(known[i])
    end
    local unit = baselines / #known / MEAN_POINTS
    for i = 1, #peers do
        ids[i], counts[i] = peers[i].id, max(1, floor(baseline_of(peers[i]) / unit + 0.5))
        by_id[ids[i]] = peers[i]
        breathe(i, ROWS_PER_BREATH)
    end
    return ids, counts, by_id
end


--- Take the peers. A change of effective weights moves no key. An update that began later, while this one breathed,
-- wins.
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


--- Count the requests in flight at all peers: at some of them now, at the others as of some picks ago.
local function count(self, now)
    local peers, counted, stats, at = self.peers, self.counted, self.stats, self.at
    local sum, looks = self.in_flight, min(PEERS_PER_COUNT, #peers)
    if now - self.picked_at > COUNT_ALL_AFTER_S then
        looks = #peers
    end
    for _ = 1, looks do
        at = at % #peers + 1
        local in_flight = stats:in_flight(peers[at].cell)
        sum, counted[at] = sum + in_flight - (counted[at] or 0), in_flight
    end
    self.in_flight, self.at, self.picked_at = sum, at, now
end


--- Whether a peer may have one request more.
-- @param beyond requests by which it may exceed the bound
local function is_below(self, peer, now, beyond)
    local bound = self.factor * peer.weight / self.total_weight * (self.in_flight + 1) + (beyond or 0)
    return self.stats:in_flight(peer.cell) < bound and not failing(self.stats, peer, now)
end


--- Return the first peer below its bound, from a place on, and its place; nil if there is none near.
-- @param excluded a peer to pass over
local function next_below(self, place, now, excluded)
    local ring, peers, last = self.ring, self.peers, 0
    for _ = 1, min(ring.n, MAX_POINTS_LOOKED_AT) do
        place = place % ring.n
        local owner = ring.owners[place]
        if owner ~= last and peers[owner] ~= excluded and is_below(self, peers[owner], now) then
            return peers[owner], place
        end
        place, last = place + 1, owner
    end
end


--- Return the first peer below its bound among all, in their order from the key's own on; nil if there is none.
local function any_below(self, place, now)
    local peers, own = self.peers, self.ring.owners[place]
    for i = 0, #peers - 1 do
        local peer = peers[(own + i - 1) % #peers + 1]
        if is_below(self, peer, now) then
            return peer
        end
    end
end


--- As next_below(), with a memory: the key's last peer, or else the less busy of its first two.
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


--- Return the key's peer and its place on the ring; without a key vnswrr2's peer, without a place. Nil without peers.
function _M:pick(key)
    local ring = self.ring
    if not ring or not key or key == "" then
        return self.keyless:pick()
    end
    local place, now, choice, stats = ring:place(key), self.now(), self.keyless.candidates, self.stats
    local others = self.others
    if others and others.used then
        choice:weigh_others(self.peers[ring.owners[place]])
    end
    if stats.reported and not choice:by_others() then
        stats:trust_others(false) -- reports are differences from a mean; bounds need totals
    end
    if self.factor < NO_BOUND then
        count(self, now)
    end
    local peer, peer_place
    if self.memory then
        peer, peer_place = remembered(self, place, now, key)
    else
        peer, peer_place = next_below(self, place, now)
    end
    peer = peer or any_below(self, place, now)
    if peer then
        return peer, peer_place or place
    end
    return self.keyless:pick() -- all fail
end


--- Return the next peer below its bound behind a place, and its place; nil if there is none near. It may be the same
-- peer.
function _M:following(place)
    return next_below(self, place + 1, self.now())
end


--- Do up to n steps of work ahead of picks.
function _M:grow(n)
    return self.keyless:grow(n)
end


--- The picker, and the same without a bound: a key then keeps its server as long as the server is there.
local function module(factor)
    return { new = function(context) return new(context, factor) end, by_in_flight = true, by_key = true }
end


return { bounded = module(), unbounded = module(NO_BOUND) }
