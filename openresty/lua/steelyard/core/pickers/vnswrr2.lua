--- Pick the better of two: the ring's next peer and one drawn by weight.
--
-- The lower in_flight / weight wins, unless it is idle and would yet be late. On
-- a tie the ring's peer does, unless it is much slower; so a cluster at rest is
-- served in the ring's order. O(1).
--
-- The weights are right in the long run; the second candidate steps around
-- whoever is busy at this moment. And it is drawn, not "the least of all":
-- workers and load balancers that count late do not all run to one peer. Pure.

local candidates = require "steelyard.core.pickers.candidates"
local guard = require "steelyard.core.pickers.guard"

local failing, late, slower = guard.failing, guard.late, guard.slower

local _M = {}
local mt = { __index = _M }


--- Make a picker without peers.
function _M.new(context)
    return setmetatable({
        candidates = candidates.new(context), board = context.board, now = context.now,
    }, mt)
end


--- Take the peers.
function _M:update(peers, breathe)
    return self.candidates:update(peers, breathe)
end


--- The next peer; nil when there is none.
function _M:pick()
    local first, second = self.candidates:pair()
    if first == second then
        return first
    end
    local board, now = self.board, self.now()
    local first_fails = failing(board, first, now)
    if first_fails ~= failing(board, second, now) then
        return first_fails and second or first
    end
    -- in_flight / weight, times both weights: in whole numbers a tie is a tie.
    local first_load = board:in_flight(first.cell) * second.weight
    local second_load = board:in_flight(second.cell) * first.weight
    if first_load < second_load then
        return late(board, first, second, now) and second or first
    elseif second_load < first_load then
        return late(board, second, first, now) and first or second
    end
    return slower(board, first, second, now) and second or first
end


--- Unroll up to n slots.
function _M:grow(n)
    return self.candidates:grow(n)
end


return _M
