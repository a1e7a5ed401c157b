local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local peak_ewma = require "steelyard.core.pickers.peak_ewma"

local peers = fixtures.peers


--- Return the picked peer. The ring's peer is a and the drawn one is b.
local function duel(a, b, weight_a)
    local stats = fixtures.stats({ a, b })
    return fixtures.picker(peak_ewma, peers("a", weight_a or 1, "b", 1), stats, fixtures.scripted(2, 1)):pick().id
end


describe("peak_ewma", function()
    it("takes the lower peak at rest, and the ring's candidate on a tie", function()
        assert.equal("b", duel({ peak = 11 }, { peak = 10 }))
        assert.equal("a", duel({ peak = 10 }, { peak = 11 }))
        assert.equal("a", duel({ peak = 10 }, { peak = 10 }))
    end)

    it("multiplies the peak by one more than is in flight", function()
        assert.equal("a", duel({ peak = 10, in_flight = 2 }, { peak = 30 })) -- 30 and 30
        assert.equal("b", duel({ peak = 10, in_flight = 3 }, { peak = 30 }))
        assert.equal("a", duel({ peak = 10, in_flight = 3 }, { peak = 30, in_flight = 1 }))
    end)

    it("does not know the weights at rest, because they were in the draw", function()
        assert.equal("a", duel({ peak = 10 }, { peak = 10 }, 10))
        assert.equal("b", duel({ peak = 11 }, { peak = 10 }, 10))
    end)

    it("counts requests in flight relative to the weight", function()
        -- Mean 2: 10 (1 + 3 * 2/3) and 10 (1 + 1 * 2/1).
        assert.equal("a", duel({ peak = 10, in_flight = 3 }, { peak = 10, in_flight = 1 }, 3))
        assert.equal("b", duel({ peak = 10, in_flight = 4 }, { peak = 10, in_flight = 1 }, 3))
        -- 25 and 10 (1 + 1 * 2/1): the weight is in proportion to the mean.
        assert.equal("a", duel({ peak = 25 }, { peak = 10, in_flight = 1 }, 3))
    end)

    it("tries a peer that it knows nothing of, with one request", function()
        assert.equal("b", duel({ peak = 1 }, {}))
        assert.equal("a", duel({ peak = 1e6, in_flight = 100 }, { in_flight = 1 }))
    end)

    it("goes by requests in flight if it knows nothing of both", function()
        assert.equal("b", duel({ in_flight = 2 }, { in_flight = 1 }))
        assert.equal("a", duel({ in_flight = 1 }, { in_flight = 1 }))
    end)

    it("avoids a peer that fails, however quick it is", function()
        assert.equal("b", duel({ failing = 0.51, peak = 1 }, { peak = 1000, in_flight = 9 }))
        assert.equal("a", duel({ peak = 1000, in_flight = 9 }, { failing = 0.51 }))
        assert.equal("b", duel({ failing = 0.51, peak = 2 }, { failing = 0.9, peak = 1 }))
    end)

    it("gives peers at rest the shares of their weights", function()
        local stats = fixtures.stats({ { peak = 10 }, { peak = 10 }, { peak = 10 } })
        local picker = fixtures.picker(peak_ewma, peers("a", 5, "b", 1, "c", 1), stats, math.random)
        assert.equal("a a b a c a a a a b a c a a", fixtures.ids(picker, 14))
    end)
end)
