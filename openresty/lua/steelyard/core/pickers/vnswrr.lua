--- Pick by virtual-node smooth weighted round robin. Pure.

local vnswrr = require "resty.vnswrr"

local _M = {}
local mt = { __index = _M }


--- Make a picker without peers.
function _M.new(random)
    return setmetatable({ ring = vnswrr:new({}, { random = random }), by_id = {} }, mt)
end


--- Take the peers; what changes no weight does not restart the ring, and a
-- changed address is taken up all the same.
function _M:update(peers)
    local nodes, by_id = {}, {}
    for i = 1, #peers do
        local peer = peers[i]
        nodes[peer.id], by_id[peer.id] = peer.weight, peer
    end
    self.by_id = by_id
    self.ring:reinit(nodes)
end


--- The next peer.
function _M:pick()
    local id = self.ring:find()
    return id and self.by_id[id]
end


--- Unroll up to n slots.
function _M:grow(n)
    return self.ring:grow(n)
end


return _M
