local ffi = require "ffi"
local latency_by_level = require "steelyard.core.latency_by_level"

local T = 1.7e9


local function levels(cells)
    local memory = ffi.new("uint8_t[?]", latency_by_level.bytes(cells or 1))
    return latency_by_level.new(memory), memory
end


--- Observe a latency twice: from then on it is known.
local function learn(all, in_flight, latency_ms, at)
    all:observe(0, in_flight, latency_ms, at or T)
    all:observe(0, in_flight, latency_ms, at or T)
end


describe("latency by level", function()
    it("takes a cache line a server", function()
        assert.equal(64, latency_by_level.bytes(1))
        assert.equal(640, latency_by_level.bytes(10))
    end)

    it("is that of recent requests at the same level, by powers of two", function()
        local all = levels()
        for i, in_flight in ipairs({ 0, 1, 2, 4, 8, 16, 32, 64 }) do
            learn(all, in_flight, 10 * i)
        end
        local seen = {}
        for _, in_flight in ipairs({ -1, 0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 1000 }) do
            seen[#seen + 1] = all:latency(0, in_flight, T)
        end
        assert.same({ 10, 10, 20, 30, 30, 40, 40, 50, 50, 60, 60, 70, 70, 80, 80 }, seen)
    end)

    it("is known from the second latency of a level on, as the lesser of both", function()
        local all = levels()
        all:observe(0, 0, 10000, T)
        assert.equal(0, all:latency(0, 0, T))
        all:observe(0, 0, 2, T)
        assert.equal(2, all:latency(0, 0, T))
    end)

    it("is moved by no single latency by more than a fifth", function()
        local all = levels()
        learn(all, 0, 10)
        all:observe(0, 0, 10000, T)
        assert.near(12, all:latency(0, 0, T), 1e-5)
        all:observe(0, 0, 0, T)
        assert.near(10, all:latency(0, 0, T), 1e-5)
    end)

    it("settles at the median", function()
        math.randomseed(20260921)
        local all, sum = levels(), 0
        learn(all, 0, 10)
        for i = 1, 20000 do
            all:observe(0, 0, -100 * math.log(1 - math.random()), T)
            sum = sum + (i > 1000 and math.log(all:latency(0, 0, T)) or 0)
        end
        assert.near(100 * math.log(2), math.exp(sum / 19000), 5)
    end)

    it("is that of the nearest level that is known, the lower one first", function()
        local all = levels()
        learn(all, 0, 10)
        learn(all, 4, 40)
        assert.equal(10, all:latency(0, 1, T))
        assert.equal(40, all:latency(0, 2, T))
        assert.equal(40, all:latency(0, 100, T))
        local full = levels()
        learn(full, 64, 80)
        assert.equal(80, full:latency(0, 0, T))
    end)

    it("is forgotten after 10 s, and then begins again", function()
        local all = levels()
        learn(all, 0, 500)
        assert.equal(500, all:latency(0, 0, T + 10))
        assert.equal(0, all:latency(0, 0, T + 11))
        all:observe(0, 0, 5, T + 11)
        assert.equal(0, all:latency(0, 0, T + 11))
        all:observe(0, 0, 6, T + 11)
        assert.equal(5, all:latency(0, 0, T + 11))
    end)

    it("stands still if the clock is set back", function()
        local all = levels()
        learn(all, 0, 10)
        assert.equal(10, all:latency(0, 0, T - 1000))
        all:observe(0, 0, 10, T - 1000)
        assert.equal(10, all:latency(0, 0, T - 1000))
    end)

    it("knows one server from the next", function()
        local all = levels(3)
        for cell = 0, 2 do
            for _ = 1, 2 do
                all:observe(cell, 64, cell + 1, T)
            end
        end
        all:forget(1)
        assert.same({ 1, 0, 3 }, { all:latency(0, 0, T), all:latency(1, 0, T), all:latency(2, 0, T) })
    end)

    it("forgets at any time of day", function()
        local all = levels()
        learn(all, 0, 10, 1)
        all:forget(0)
        all:observe(0, 0, 20, 2)
        assert.equal(0, all:latency(0, 0, 2))
    end)
end)
