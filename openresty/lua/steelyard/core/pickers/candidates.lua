--- Candidates for a request: the peer whose turn it is, and others drawn by weight.
--
-- What vnswrr2, least_conn and peak_ewma choose between. The ring's next peer
-- comes first, so that a cluster where no candidate is better than another is
-- served in the ring's order; it has had its turn also when it is not taken,
-- or a busy peer would hold up the ring. Pure.

local draw = require "steelyard.core.pickers.draw"
local vnswrr = require "steelyard.core.pickers.vnswrr"

-- Rows between two calls of breathe.
local ROWS = 100

-- A peer that is drawn against itself wins unseen: of two equal peers one that
-- fails would still get a quarter of the requests. With 4 draws it gets 3 %.
local DRAWS = 4

local _M = {}
local mt = { __index = _M }


local function nothing()
end


local function same_weights(left, right, breathe)
    if #left ~= #right then
        return false
    end
    for i = 1, #left do
        if left[i].weight ~= right[i].weight then
            return false
        end
        if i % ROWS == 0 then
            breathe()
        end
    end
    return true
end


--- Make candidates of no peers.
function _M.new(context)
    return setmetatable({
        turns = vnswrr.new(context), random = context.random,
        peers = {}, mean_weight = 1, draw = nil, updates = 0,
    }, mt)
end


--- Take the peers. Returns whether they were taken: an update that began
-- later, while this one breathed, wins.
function _M:update(peers, breathe)
    breathe = breathe or nothing
    local update = self.updates + 1
    self.updates = update
    local drawn = self.draw
    if not same_weights(peers, self.peers, breathe) then
        local weights = {}
        for i = 1, #peers do
            weights[i] = peers[i].weight
            if i % ROWS == 0 then
                breathe()
            end
        end
        drawn = draw.new(weights, self.random, breathe)
    end
    -- The ring breathes, and then it and all else change in one go.
    if self.updates ~= update or not self.turns:update(peers, breathe) then
        return false
    end
    self.peers, self.draw = peers, drawn
    self.mean_weight = drawn and drawn.total / drawn.n or 1
    return true
end


--- The peer whose turn it is; nil when there is none.
function _M:first()
    return self.turns:pick()
end


--- A peer, each with probability weight/total. There must be one.
function _M:another()
    return self.peers[self.draw:next()]
end


--- The peer whose turn it is and one drawn, another one if a few draws find
-- one; nil when there is no peer.
function _M:pair()
    local first = self.turns:pick()
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


--- Unroll up to n slots of the ring.
function _M:grow(n)
    return self.turns:grow(n)
end


return _M
