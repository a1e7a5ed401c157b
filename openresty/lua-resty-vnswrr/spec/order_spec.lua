--- The two orders by themselves: exact, cyclic, and equally smooth.

local split = require "resty.vnswrr.split"
local swrr = require "resty.vnswrr.swrr"

-- busted looks for a global in several tables: half of the time of a loop with two of them.
local math = math

local KINDS = { swrr = swrr, split = split }


local function without_a_break()
end


local function sum(weights)
    local total = 0
    for i = 1, #weights do
        total = total + weights[i]
    end
    return total
end


local function picks(kind, weights, start, n)
    local order, list = kind.new(weights, sum(weights), start, without_a_break), {}
    for i = 1, n do
        list[i] = order:next()
    end
    return list
end


local function counts(list, peers)
    local seen = {}
    for i = 1, peers do
        seen[i] = 0
    end
    for i = 1, #list do
        seen[list[i]] = seen[list[i]] + 1
    end
    return seen
end


--- Weights from a function of the peer's number, whole and at least 1.
local function weights_by(n, weight)
    local weights = {}
    for i = 1, n do
        weights[i] = math.max(1, math.floor(weight(i)))
    end
    return weights
end


describe("the order of SWRR", function()
    it("is nginx's", function()
        assert.same({ 1, 1, 2, 1, 3, 1, 1 }, picks(swrr, { 5, 1, 1 }, 0, 7))
    end)
end)


describe("the split order", function()
    it("spreads equal peers as evenly as can be", function()
        assert.same({ 1, 3, 2, 4, 1, 3, 2, 4 }, picks(split, { 1, 1, 1, 1 }, 0, 8))
    end)

    it("spreads 5, 1, 1", function()
        assert.same({ 1, 2, 1, 1, 1, 3, 1 }, picks(split, { 5, 1, 1 }, 0, 7))
    end)
end)


for name, kind in pairs(KINDS) do
    describe("in the order " .. name, function()
        it("every peer gets exactly its weight in every cycle, from every start", function()
            local weights = { 9, 7, 4, 1 }
            for start = 0, 20 do
                assert.same(weights, counts(picks(kind, weights, start, 21), 4))
            end
        end)

        it("a cycle is one permutation, wherever it is entered", function()
            local weights = { 5, 4, 3, 2, 1 }
            local whole = picks(kind, weights, 0, 30)
            for start = 0, 14 do
                local expected = {}
                for i = 1, 15 do
                    expected[i] = whole[start + i]
                end
                assert.same(expected, picks(kind, weights, start, 15))
            end
        end)

        for _, n in ipairs({ 1, 3, 10 }) do
            it("the first " .. n .. " picks give every peer its share over all starts", function()
                local weights, seen = { 20, 18, 2, 1, 1 }, { 0, 0, 0, 0, 0 }
                for start = 0, 41 do
                    for peer, times in ipairs(counts(picks(kind, weights, start, n), 5)) do
                        seen[peer] = seen[peer] + times
                    end
                end
                assert.same({ 20 * n, 18 * n, 2 * n, n, n }, seen)
            end)
        end

        it("one peer is picked for ever", function()
            assert.same({ 1, 1, 1 }, picks(kind, { 3 }, 2, 3))
        end)
    end)
end


describe("the split order may begin anywhere", function()
    it("in a cycle too long for a double's whole numbers to hold its square", function()
        local weights = { 2 ^ 31, 2 ^ 31 - 1, 2 ^ 30 + 12345, 7 }
        local total = sum(weights)
        local played = split.new(weights, total, total - 100003, without_a_break)
        for _ = 1, 100000 do
            played:next()
        end
        local entered = split.new(weights, total, total - 3, without_a_break)
        for _ = 1, 1000 do
            assert.equal(entered:next(), played:next())
        end
    end)
end)


--- The unevenness of an order over two cycles. `error` is the largest distance of any
-- peer's picks from its due. `widest` is its largest gap in units of total/weight.
-- `spread` is the widest less the narrowest gap, averaged over the peers.
local function unevenness(kind, weights)
    local total = sum(weights)
    local order = kind.new(weights, total, 0, without_a_break)
    local seen, last, widest, narrowest = {}, {}, {}, {}
    for i = 1, #weights do
        seen[i], widest[i], narrowest[i] = 0, 0, 1 / 0
    end
    local result = { error = 0, widest = 0, spread = 0 }
    for slot = 1, 2 * total do
        local peer = order:next()
        local share = weights[peer] / total
        -- A peer is furthest from its due just before and just after a pick.
        result.error = math.max(result.error, math.abs(seen[peer] - (slot - 1) * share),
                               math.abs(seen[peer] + 1 - slot * share))
        seen[peer] = seen[peer] + 1
        if last[peer] then
            local gap = (slot - last[peer]) * share
            widest[peer], narrowest[peer] = math.max(widest[peer], gap), math.min(narrowest[peer], gap)
        end
        last[peer] = slot
    end
    for i = 1, #weights do
        result.widest = math.max(result.widest, widest[i])
        result.spread = result.spread + (widest[i] - narrowest[i]) / #weights
    end
    return result
end


describe("the split order is as smooth as SWRR's", function()
    math.randomseed(20261121)
    local function normal()
        return math.sqrt(-2 * math.log(1 - math.random())) * math.cos(2 * math.pi * math.random())
    end
    local sets = {
        ["equal peers and one heavier"] = weights_by(1001, function(i) return i == 1 and 3 or 2 end),
        ["1..10, over and over"] = weights_by(500, function(i) return (i - 1) % 10 + 1 end),
        ["1..300, all different"] = weights_by(300, function(i) return i end),
        ["5..35 at random"] = weights_by(500, function() return math.random(5, 35) end),
        ["1..100 at random"] = weights_by(300, function() return math.random(1, 100) end),
        ["101..110 at random"] = weights_by(500, function() return math.random(101, 110) end),
        ["a half light, a half heavy"] = weights_by(400, function(i) return i <= 200 and 1 or 100 end),
        ["one peer with half of it"] = weights_by(1001, function(i) return i == 1 and 5000 or 5 end),
        ["one peer with nearly all of it"] = weights_by(1001, function(i)
            return i == 1 and 50000 or math.random(1, 9)
        end),
        ["two heavy peers"] = weights_by(302, function(i) return i <= 2 and 200 or i % 7 + 1 end),
        ["a heavy tail"] = weights_by(500, function() return 20 * math.exp(normal()) end),
        ["a heavier tail"] = weights_by(500, function() return 20 * math.exp(2 * normal()) end),
        ["three peers"] = { 9991, 5021, 39989 },
        ["ten peers"] = weights_by(10, function() return math.random(1000, 10000) end),
    }
    for name, weights in pairs(sets) do
        it("for " .. name, function()
            local ours, theirs = unevenness(split, weights), unevenness(swrr, weights)
assert.is_true(ours.error < 1.1, "error " .. ours.error)
            assert.is_true(ours.widest < 2, "widest gap " .. ours.widest)
            assert.is_true(ours.spread < theirs.spread + 0.2, "spread " .. ours.spread .. ", SWRR " .. theirs.spread)
        end)
    end

    it("within its bound of 2 for any weights at all", function()
        for _ = 1, 100 do
            local width = 2 * math.random()
            local weights = weights_by(math.random(2, 40), function() return 10 * math.exp(width * normal()) end)
            local ours = unevenness(split, weights)
            assert.is_true(ours.error < 2, table.concat(weights, " "))
        end
    end)
end)
