--- The weight of a request among those of its upstream, if nginx.conf gives their costs.
--
--   weight = sqrt(cost / mean)    within 1/1024..MAX_WEIGHT, in multiples of 1/1024
--   mean   of the upstream's costs in this worker: of all of the first MEAN_OVER, then of about that number
--
-- In any unit of cost, a usual request weighs 1. So the load in flight is still in usual requests, and comparable with
-- requests without a cost.
--
-- The weight is the square root, because nobody knows which part of a server a request takes. If it takes the whole
-- server and the others wait until it ends, its weight should be its whole cost. If it takes one of several cores, it
-- holds one for longer, and the others are as free as before. Whole costs would leave such a server idle, and p99 was
-- up to 5 times as high. docs/decisions/0032-requests-of-unequal-cost.md
--
-- A value that is not a number above 0 weighs 1, costs the mean, and is counted. Pure.

local number = require "steelyard.core.number"

local floor, max, min, sqrt = math.floor, math.max, math.min, math.sqrt

-- Clients may influence the cost: one request weighs no more than this.
local MAX_WEIGHT = 100

-- A multiple of it is exact in a double, and so is the sum over all requests in flight.
local WEIGHT_STEP = 1 / 1024

-- Costs in the mean. It is a scale: it need not follow the day, and must not move while a queue lasts.
local MEAN_OVER = 65536

-- Bounds of a cost in any unit; with them the sums of a report stay exact enough.
local MIN_COST, MAX_COST = 1e-9, 1e9

local _M = {}
local mt = { __index = _M }


--- Make the weigher of one upstream.
function _M.new()
    return setmetatable({ mean = 0, n = 0 }, mt)
end


--- Return a cost as a number, or nil if it is none.
function _M.number(cost)
    return number.decimal(cost, MIN_COST, MAX_COST)
end


--- Weigh a request.
-- @param cost as given, of any type
-- @return its weight, its cost (0 while no mean is known), and whether the given cost is unusable
function _M:weigh(cost)
    cost = _M.number(cost)
    if not cost then
        return 1, self.mean, true
    end
    local n, mean = min(self.n + 1, MEAN_OVER), self.n == 0 and cost or self.mean
    mean = mean + (min(cost, MAX_WEIGHT * MAX_WEIGHT * mean) - mean) / n
    self.n, self.mean = n, mean
    return max(1, floor(min(sqrt(cost / mean), MAX_WEIGHT) / WEIGHT_STEP + 0.5)) * WEIGHT_STEP, cost, false
end


return _M
