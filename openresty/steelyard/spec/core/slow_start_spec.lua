local no_pause = require("resty.vnswrr").no_pause
local slow_start = require "steelyard.core.slow_start"

local OUT, NOBODY = { a = {} }, {}


local function weights(peers, steps)
    local seen = {}
    for i, peer in ipairs(slow_start.held(peers, steps, no_pause)) do
        seen[i] = peer.weight
    end
    return seen
end


describe("slow start", function()
    it("grows in tenths from when a peer is back", function()
        local start = slow_start.new(10)
        assert.same({}, start:update(NOBODY, OUT, 100))
        assert.same({ a = 1 }, start:update(OUT, NOBODY, 105))
        assert.same({ a = 1 }, start:update(NOBODY, NOBODY, 105.9))
        assert.same({ a = 5 }, start:update(NOBODY, NOBODY, 109.5))
        assert.same({}, start:update(NOBODY, NOBODY, 114))
    end)

    it("says by the same table that nothing has changed", function()
        local start = slow_start.new(10)
        assert.equal(start:update(NOBODY, NOBODY, 0), start:update(NOBODY, NOBODY, 1))
        assert.equal(start:update(OUT, NOBODY, 2), start:update(NOBODY, NOBODY, 2.5))
        assert.not_equal(start:update(NOBODY, NOBODY, 2.5), start:update(NOBODY, NOBODY, 3))
    end)

    it("begins again with a peer that is out again, and stands still while the clock is behind", function()
        local start = slow_start.new(10)
        start:update(OUT, NOBODY, 0)
        assert.same({ a = 1 }, start:update(NOBODY, NOBODY, -100))
        assert.same({ a = 6 }, start:update(NOBODY, NOBODY, 5))
        assert.same({}, start:update(NOBODY, OUT, 6))
        assert.same({ a = 1 }, start:update(OUT, NOBODY, 7))
    end)

    it("is none without seconds", function()
        assert.same({}, slow_start.new(0):update(OUT, NOBODY, 0))
    end)

    it("reduces the weights of those that start, and can with small ones too", function()
        local peers = { { id = "a", weight = 500 }, { id = "b", weight = 500 }, { id = "c", weight = 0 } }
        assert.equal(peers, slow_start.held(peers, NOBODY, no_pause))
        assert.same({ 50, 500, 0 }, weights(peers, { a = 1 }))
        assert.same({ 10, 20 }, weights({ { id = "a", weight = 1 }, { id = "b", weight = 1 } }, { a = 5 }))
    end)
end)
