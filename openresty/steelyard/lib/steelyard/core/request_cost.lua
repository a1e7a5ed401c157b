--- What a request weighs among those of its upstream, where nginx.conf tells what each costs.
--
--   weight = sqrt(cost / mean)    within 1/1024..MOST, in multiples of 1/1024
--   mean   of the upstream's costs in this worker: of all of the first MEMORY, then of about so many
--
-- Whatever unit the costs are in, a usual request weighs 1: what is in flight is then still in
-- requests, usual ones, and is comparable with requests of which nobody told a cost.
--
-- The square root, because nobody knows how much of a server a request takes. Where it takes all,
-- so that the others wait until it ends, its weight should be its whole cost. Where it takes one of
-- several cores it holds one for longer, and the others are as free as before: by whole costs such
-- a server is left idle, and p99 was up to 5 times as high. docs/decisions/0032-requests-of-unequal-cost.md
--
-- What is told that is no number above 0 weighs 1, costs the mean, and is counted. Pure.

local floor, max, min, sqrt = math.floor, math.max, math.min, math.sqrt

-- A client may have a say in it: one request is no more than so many.
local MOST = 100

-- A multiple of it is exact in a double, and so is the sum of as many as can be in flight.
local STEP = 1 / 1024

-- The mean is a scale, and need not follow the day: it may not move while a queue lasts.
local MEMORY = 65536

-- No unit is as small, or as large; the sums of a report stay exact enough.
local LEAST_COST, MOST_COST = 1e-9, 1e9

local _M = {}
local mt = { __index = _M }


--- Make the weigher of one upstream.
function _M.new()
    return setmetatable({ mean = 0, n = 0 }, mt)
end


--- Return a cost as a number, or nil where it is none.
function _M.number(cost)
    cost = tonumber(cost)
    return cost and cost >= LEAST_COST and cost <= MOST_COST and cost or nil -- not so with NaN
end


--- Weigh a request.
-- @param cost what was told, of any type
-- @return its weight, its cost (0 while no mean is known), and whether nothing usable was told
function _M:weigh(cost)
    cost = _M.number(cost)
    if not cost then
        return 1, self.mean, true
    end
    local n, mean = min(self.n + 1, MEMORY), self.n == 0 and cost or self.mean
    mean = mean + (min(cost, MOST * MOST * mean) - mean) / n
    self.n, self.mean = n, mean
    return max(1, floor(min(sqrt(cost / mean), MOST) / STEP + 0.5)) * STEP, cost, false
end


return _M
