--- The choice of a peer where the picker's own will not do: for a retry, and where that one is full. Pure.
--
-- Over the peers of an upstream (core/upstream.lua) that have room and are not in tries[from..tries.n].

local candidates = require "steelyard.core.pickers.candidates"
local peer_cells = require "steelyard.core.peer_cells"

-- Points of a hash ring, a key's own and those behind it, that are looked at for a peer that may have its request.
local MORE_POINTS = 100

-- More than anybody has in flight.
local FAILING = 2 ^ 40

local _M = {}


local function was_tried(peer, tries, from)
    for i = from, tries.n do
        -- By address: one server under two ids is still one server.
        if tries[i].address == peer.address then
            return true
        end
    end
    return false
end


local function may_have(upstream, peer, tries, from)
    return not was_tried(peer, tries, from) and upstream:has_room(peer)
end


--- What a peer has in flight for its weight; one that fails comes behind all others.
local function load_of(upstream, peer, now)
    local stats = upstream.context.stats
    local in_flight = peer.cell == peer_cells.NONE and 0 or stats:in_flight(peer.cell)
    return in_flight / peer.weight + (candidates.failing(stats, peer, now) and FAILING or 0)
end


--- Draw by weight among the least busy of those that have room and are not in tries[from..tries.n]; nil when none is
-- left. O(peers), for retries and where peers are full only. The picker is not asked: a retry that took a good
-- server's turn would have the next request begin at the bad one.
local function draw(upstream, peers, tries, from)
    local now, least, total, drawn = upstream.context.now(), math.huge, 0, nil
    for i = 1, #peers do
        local peer = peers[i]
        if peer.weight > 0 and may_have(upstream, peer, tries, from) then
            local load = load_of(upstream, peer, now)
            if load < least then
                least, total = load, 0
            end
            if load == least then
                total = total + peer.weight
                if total == peer.weight or upstream.context.random(total) <= peer.weight then
                    drawn = peer
                end
            end
        end
    end
    return drawn
end


--- How many peers are not in tries[from..tries.n].
function _M.count(upstream, tries, from)
    local n = 0
    for list = 1, 2 do
        local peers = list == 1 and upstream.eligible or upstream.reserve
        for i = 1, #peers do
            n = n + (was_tried(peers[i], tries, from) and 0 or 1)
        end
    end
    return n
end


--- Choose the next on a hash ring that has room and is not in tries[from..tries.n], so that a key's second choice is
-- as steady as its first; nil when there is none near.
local function next_on_ring(upstream, tries, from, key)
    local picker = upstream.picker
    local peer, place = picker:pick(key)
    local looks = 0
    while place and looks < MORE_POINTS do
        if may_have(upstream, peer, tries, from) then
            return peer
        end
        looks, peer, place = looks + 1, picker:following(place)
    end
end


--- Choose one that has room and is not in tries[from..tries.n]; nil when there is none.
function _M.choose(upstream, tries, from, key)
    return upstream.hash_variable and next_on_ring(upstream, tries, from, key)
        or draw(upstream, upstream.eligible, tries, from) or draw(upstream, upstream.reserve, tries, from)
end


return _M
