--- Smooth weighted round robin, one step at a time.
--
-- nginx's algorithm: every peer's current weight rises by its weight, the
-- largest is picked (the first of equals) and falls by the total. After
-- `total` picks every current weight is 0 again, so the order is a cycle.
-- A step is O(peers). Pure.

local _M = {}
local mt = { __index = _M }


--- Begin `start` picks into the cycle.
function _M.new(weights, total, start)
    local current = {}
    for i = 1, #weights do
        current[i] = 0
    end
    local self = setmetatable({ weights = weights, total = total, current = current }, mt)
    local nowhere, nobody = {}, {}
    for _ = 1, start do
        self:fill(nowhere, nobody, 1, 1)
    end
    return self
end


--- Write the next ids to ring[from..upto].
function _M:fill(ring, ids, from, upto)
    local weights, current, total = self.weights, self.current, self.total
    local peers = #weights
    for slot = from, upto do
        local best, most = 1, -1 / 0
        for i = 1, peers do
            local raised = current[i] + weights[i]
            current[i] = raised
            if raised > most then
                best, most = i, raised
            end
        end
        current[best] = most - total
        ring[slot] = ids[best]
    end
end


return _M
