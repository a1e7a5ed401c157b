--- Smooth weighted round robin, one step at a time.
--
-- nginx's algorithm: every peer's current weight rises by its weight, the
-- largest is picked (the first of equals) and falls by the total. After
-- `total` picks every current weight is 0 again, so the order is a cycle.
--
-- A step is O(peers). An unpredictable branch would slow it down. Therefore a
-- current weight is kept times `scale`, less its peer's index. The largest of
-- these numbers is the largest current weight, the first of equals, and its
-- remainder is the index. About 1.3 ns a peer, a quarter of the plain loop. Pure.

-- Peers x steps between two breaths: about 0.1 ms.
local WORK = 100000

local _M = {}
local mt = { __index = _M }


--- Begin `start` picks into the cycle, by making these picks.
function _M.new(weights, total, start, breathe)
    local n = #weights
    local scale = n + 1
    local rises, current = {}, {}
    for i = 1, n do
        rises[i], current[i] = weights[i] * scale, -i
    end
    local self = setmetatable({ n = n, scale = scale, total = total * scale, rises = rises, current = current }, mt)
    local steps = math.max(1, math.floor(WORK / n))
    for step = 1, start do
        self:next()
        if step % steps == 0 then
            breathe()
        end
    end
    return self
end


--- The next pick: an index into the weights.
function _M:next()
    local rises, current = self.rises, self.current
    local most = -1 / 0
    for i = 1, self.n do
        local raised = current[i] + rises[i]
        current[i] = raised
        most = math.max(most, raised)
    end
    local best = -most % self.scale
    current[best] = most - self.total
    return best
end


return _M
