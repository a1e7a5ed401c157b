local weighted_draw = require "steelyard.core.pickers.weighted_draw"

local function nothing()
end


--- Count how often each peer comes out over every column and height.
local function outcomes(weights)
    local total = 0
    for i = 1, #weights do
        total = total + weights[i]
    end
    local column, height, asked = 1, 1, 0
    local drawn, seen = weighted_draw.new(weights, function(n)
        asked = asked + 1
        assert.equal(asked % 2 == 1 and #weights or total, n)
        return asked % 2 == 1 and column or height
    end, nothing), {}
    for i = 1, #weights do
        seen[i] = 0
    end
    for c = 1, #weights do
        for h = 1, total do
            column, height = c, h
            local i = drawn:next()
            seen[i] = seen[i] + 1
        end
    end
    return seen
end


describe("a draw", function()
    for _, weights in ipairs({
        { 1 }, { 7 }, { 5, 1, 1 }, { 1, 1, 1, 1 }, { 100, 90, 10, 5, 5 }, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 },
        { 1, 1, 1, 97 }, { 3, 0, 2 }, { 0, 0, 4 },
    }) do
        it("gives each peer exactly its weight's part: " .. table.concat(weights, " "), function()
            local expected = {}
            for i = 1, #weights do
                expected[i] = weights[i] * #weights
            end
            assert.same(expected, outcomes(weights))
        end)
    end

    it("is exact for 10,000 peers of great and different weights", function()
        math.randomseed(4)
        local weights = {}
        for i = 1, 10000 do
            weights[i] = math.random(1000000)
        end
        local drawn = weighted_draw.new(weights, math.random, nothing)
        local parts = {}
        for i = 1, 10000 do
            parts[i] = (parts[i] or 0) + drawn.keep[i]
            parts[drawn.other[i]] = (parts[drawn.other[i]] or 0) + drawn.total - drawn.keep[i]
        end
        for i = 1, 10000 do
            assert.equal(weights[i] * 10000, parts[i])
        end
    end)

    it("is none if no peer has a weight", function()
        assert.is_nil(weighted_draw.new({}, math.random, nothing))
        assert.is_nil(weighted_draw.new({ 0, 0 }, math.random, nothing))
    end)
end)
