--- The rows of a ring: ids and weights side by side, checked, in id order, reduced.
--
-- Workers must agree on ties, and the order of `pairs` differs between them. So
-- rows are in id order, as in sort.lua. The pass over the caller's own tables
-- does not breathe, because they might change meanwhile. It takes about 0.5 ms
-- for a map of 10,000 rows, and 0.1 ms for lists. Pure.

local new_table = require "table.new"
local sort = require "resty.vnswrr.sort"

-- Rows between two breaths: a few us.
local ROWS = 128

local _M = {}


-- A fractional weight counts to this number of decimals.
local DECIMALS = 6

-- Bound and tolerance of a weight: 0.3 equals 0.1 + 0.2.
local LARGEST, NEAR = 2 ^ 31, 1e-9


--- Return the weight of a sound row as a number. The id is a string or a number, the weight is within 0..2^31 and may
-- be a string. Anything else is a caller's bug.
function _M.checked(id, weight)
    if type(id) ~= "string" and type(id) ~= "number" then
        error("an id must be a string or a number, it is " .. tostring(id), 3)
    end
    local number = type(weight) ~= "boolean" and tonumber(weight)
    if not number or not (number >= 0 and number <= LARGEST) then -- NaN is neither
        error("the weight of " .. id .. " must be a number within 0..2^31, it is " .. tostring(weight), 3)
    end
    return number
end


--- A copy of the map id -> weight, and its rows in no order.
function _M.from_nodes(nodes)
    local n = 0
    for _ in pairs(nodes) do
        n = n + 1
    end
    -- Made in their final size: a growing table is copied at every doubling.
    local copy, ids, weights = new_table(0, n), new_table(n, 0), new_table(n, 0)
    n = 0
    for id, weight in pairs(nodes) do
        n = n + 1
        ids[n], weights[n] = id, _M.checked(id, weight)
        copy[id] = weights[n]
    end
    return copy, ids, weights
end


--- A copy of two lists; the ids must rise.
function _M.from_lists(ids, weights)
    local n = #ids
    if #weights ~= n then
        error("there are " .. n .. " ids and " .. #weights .. " weights", 2)
    end
    local ids_copy, weights_copy = new_table(n, 0), new_table(n, 0)
    for i = 1, n do
        local id = ids[i]
        weights_copy[i] = _M.checked(id, weights[i])
        if i > 1 and not sort.before(ids[i - 1], id) then
            error("ids must rise, " .. tostring(id) .. " comes after " .. tostring(ids[i - 1]), 2)
        end
        ids_copy[i] = id
    end
    return ids_copy, weights_copy
end


local function gcd(a, b)
    while b ~= 0 do
        a, b = b, a % b
    end
    return a
end


--- Whole numbers in the proportions of the weights, and their common factor.
local function whole(weights, breathe)
    local largest, is_whole = 0, true
    for i = 1, #weights do
        largest, is_whole = math.max(largest, weights[i]), is_whole and weights[i] % 1 == 0
        if i % ROWS == 0 then
            breathe()
        end
    end
    local scale, multiples = 1, weights
    for _ = 1, DECIMALS do
        if is_whole or largest * scale * 10 > LARGEST then
            break
        end
        scale, multiples, is_whole = scale * 10, {}, true
        for i = 1, #weights do
            local exact = weights[i] * scale
            multiples[i] = weights[i] > 0 and math.max(1, math.floor(exact + 0.5)) or 0
            is_whole = is_whole and math.abs(exact - multiples[i]) <= NEAR * math.max(1, exact)
            if i % ROWS == 0 then
                breathe()
            end
        end
    end
    return multiples, scale
end


--- The rows of weight > 0, with weights divided by their greatest common divisor;
-- the sum of those weights, and the divisor. The lists are the given ones if they
-- are that already, which saves two copies.
function _M.reduced(ids, all_weights, breathe)
    local weights, scale = whole(all_weights, breathe)
    local n, divisor, least, sum = #ids, 0, 1, 0
    for i = 1, n do
        if divisor ~= 1 then
            divisor = gcd(weights[i], divisor)
        end
        least, sum = math.min(least, weights[i]), sum + weights[i]
        if i % ROWS == 0 then
            breathe()
        end
    end
    if divisor == 1 and least > 0 then
        return ids, weights, sum, 1 / scale
    end
    local kept_ids, kept_weights, kept, total = new_table(n, 0), new_table(n, 0), 0, 0
    for i = 1, n do
        if weights[i] > 0 then
            kept = kept + 1
            kept_ids[kept], kept_weights[kept] = ids[i], weights[i] / divisor
            total = total + kept_weights[kept]
        end
        if i % ROWS == 0 then
            breathe()
        end
    end
    return kept_ids, kept_weights, total, divisor / scale
end


--- Whether two lists are equal.
function _M.same(left, right)
    if #left ~= #right then
        return false
    end
    for i = 1, #left do
        if left[i] ~= right[i] then
            return false
        end
    end
    return true
end


return _M
