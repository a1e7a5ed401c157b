--- The choice of a peer for a retry, or in place of a full one. Pure.
--
-- It is among the peers of an upstream (core/upstream.lua) with room and not in tries[from..tries.n].

local candidates = require "steelyard.core.pickers.candidates"
local peer_cells = require "steelyard.core.peer_cells"

-- Points of a hash ring to look at, from the key's own on, before all peers are looked at.
local MAX_POINTS_LOOKED_AT = 100

-- Added to the load of a failing peer: above every number of requests in flight.
local FAILING_PENALTY = 2 ^ 40

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


--- Return a peer's requests in flight per weight. A failing peer comes behind all others.
local function load_of(upstream, peer, now)
    local stats = upstream.context.stats
    local in_flight = peer.cell == peer_cells.NONE and 0 or stats:in_flight(peer.cell)
    return in_flight / peer.weight + (candidates.failing(stats, peer, now) and FAILING_PENALTY or 0)
end


--- Draw by weight among the least busy peers with room and not in tries[from..tries.n]; nil if none is left. O(peers),
-- for retries and full peers only. The picker is not asked: a retry would take a good server's turn, and the next
-- request would begin at the bad one.
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


--- Return how many peers are not in tries[from..tries.n].
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


--- Choose the next peer on a hash ring with room and not in tries[from..tries.n], or nil if there is none near. So a
-- key's second choice is as steady as its first.
local function next_on_ring(upstream, tries, from, key)
    local picker = upstream.picker
    local peer, place = picker:pick(key)
    local looks = 0
    while place and looks < MAX_POINTS_LOOKED_AT do
        if may_have(upstream, peer, tries, from) then
            return peer
        end
        looks, peer, place = looks + 1, picker:following(place)
    end
end


--- Choose a peer with room and not in tries[from..tries.n], or nil.
function _M.choose(upstream, tries, from, key)
    return upstream.hash_variable and next_on_ring(upstream, tries, from, key)
        or draw(upstream, upstream.eligible, tries, from) or draw(upstream, upstream.reserve, tries, from)
end


return _M
