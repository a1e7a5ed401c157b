--- Pick by virtual-node smooth weighted round robin: the ring's next peer.
--
-- Peers come in id order, so the ring knows them by their place in the list:
-- its ties are then by id, and what it returns is an index. Pure.

local vnswrr = require "resty.vnswrr"

local no_pause = vnswrr.no_pause

-- Rows between two calls of breathe().
local ROWS_PER_BREATH = 100

local _M = {}
local mt = { __index = _M }


--- Make a picker without peers.
function _M.new(context)
    return setmetatable({
        ring = vnswrr:new({}, { random = context.random }),
        peers = {}, updates = 0,
    }, mt)
end


--- Take the peers. The ring restarts only if a weight changed; a changed address is used all the same. Return whether
-- they were taken: an update that began later, while this one breathed, wins.
function _M:update(peers, breathe)
    breathe = breathe or no_pause
    local update = self.updates + 1
    self.updates = update
    local places, weights = {}, {}
    for i = 1, #peers do
        places[i], weights[i] = i, peers[i].weight
        breathe(i, ROWS_PER_BREATH)
    end
    if self.updates ~= update then
        return false
    end
    local taken = self.ring:reinit_sorted(places, weights, breathe)
    if taken then
        self.peers = peers
    end
    return taken
end


--- Return the next peer; nil if there is none.
function _M:pick()
    return self.peers[self.ring:find()]
end


--- Unroll up to n slots.
function _M:grow(n)
    return self.ring:grow(n)
end


return _M
