--- Draw a number of 1..n, each with probability weight/total, in O(1).
--
-- Vose's alias method uses n columns of height `total`, the mean of n * w_i. A column holds a part of one peer below
-- and a part of another above it. A uniform column and a uniform height in it hit peer i with probability
--
--   n w_i / (n total) = w_i / total
--
-- Whole numbers make it exact: n * w_i stays below 2^53 for 10,000 peers with any weights of a table. A random slot of
-- a ring would save one array. But while the ring grows, its slots do not match the weights; a ring that is only a
-- window of its cycle never matches. Pure.

-- Rows between two calls of breathe().
local ROWS_PER_BREATH = 100

local _M = {}
local mt = { __index = _M }


--- Make a draw over the weights (whole, 0 is never drawn); nil without a weight > 0.
function _M.new(weights, random, breathe)
    local n, total, heaviest = #weights, 0, 0
    for i = 1, n do
        total, heaviest = total + weights[i], math.max(heaviest, weights[i])
        breathe(i, ROWS_PER_BREATH)
    end
    if total == 0 then
        return nil
    end
    -- keep[i] of column i belongs to peer i, the rest to other[i].
    local keep, other = {}, {}
    local low, high, lows, highs = {}, {}, 0, 0
    for i = 1, n do
        keep[i], other[i] = weights[i] * n, i
        if keep[i] < total then
            lows = lows + 1
            low[lows] = i
        else
            highs = highs + 1
            high[highs] = i
        end
        breathe(i, ROWS_PER_BREATH)
    end
    -- Each step fills one column for good. Whole numbers leave no remainder, so the lows are used up exactly when the
    -- highs are level.
    for step = 1, n do
        if lows == 0 then
            break
        end
        local poor, rich = low[lows], high[highs]
        lows = lows - 1
        other[poor] = rich
        keep[rich] = keep[rich] - (total - keep[poor])
        if keep[rich] < total then
            highs = highs - 1
            lows = lows + 1
            low[lows] = rich
        end
        breathe(step, ROWS_PER_BREATH)
    end
    return setmetatable({ n = n, total = total, heaviest = heaviest, keep = keep, other = other, random = random }, mt)
end


--- Draw a number.
function _M:next()
    local column = self.random(self.n)
    if self.random(self.total) <= self.keep[column] then
        return column
    end
    return self.other[column]
end


return _M
