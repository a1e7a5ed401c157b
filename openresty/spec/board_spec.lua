local board = require "steelyard.core.board"

local WORKERS, CELLS = 2, 3

-- Some time after 1970.
local T = 1e9


--- The boards of two workers in one memory.
local function two()
    local memory = board.local_memory(CELLS, WORKERS)
    return board.new(memory, WORKERS, CELLS, 0), board.new(memory, WORKERS, CELLS, 1), memory
end


describe("the board", function()
    it("adds up what all workers have in flight", function()
        local first, second = two()
        first:raise(2)
        second:raise(2)
        second:raise(2)
        assert.same({ 3, 3, 0 }, { first:in_flight(2), second:in_flight(2), first:in_flight(1) })
        second:lower(2)
        assert.equal(2, first:in_flight(2))
    end)

    it("forgets what a killed worker had in flight when its successor starts", function()
        local first, second, memory = two()
        first:raise(0)
        second:raise(0)
        board.new(memory, WORKERS, CELLS, 1)
        assert.equal(1, first:in_flight(0))
    end)

    it("takes the first latency as it is, and averages those that follow", function()
        local first, second = two()
        first:observe(0, 10, true, T)
        assert.equal(10, second:latency(0, T))
        first:observe(0, 20, true, T)
        assert.near(12, first:latency(0, T), 1e-9)
    end)

    it("jumps to a peak at once and comes down slowly", function()
        local first = two()
        first:observe(0, 10, true, T)
        first:observe(0, 500, true, T)
        assert.equal(500, first:peak(0, T))
        first:observe(0, 10, true, T + 10)
        assert.near(500 / math.exp(1) + 10 * (1 - 1 / math.exp(1)), first:peak(0, T + 10), 1e-9)
    end)

    it("lets all that it knows fade, so that a shunned server is tried again", function()
        local first = two()
        first:observe(0, 10, true, T)
        first:observe(0, 10, false, T)
        assert.near(10 / math.exp(2), first:latency(0, T + 20), 1e-9)
        assert.near(0.2 / math.exp(2), first:failing(0, T + 20), 1e-9)
        assert.is_true(first:peak(0, T + 1000) < 1e-9)
    end)

    it("takes 0 ms, which is less than nginx's clock shows, for half of one", function()
        local first = two()
        first:observe(0, 0, true, T)
        assert.same({ 0.5, 0.5 }, { first:latency(0, T), first:peak(0, T) })
    end)

    it("calls a server failing after four failures in a row", function()
        local first = two()
        for _ = 1, 3 do
            first:observe(0, 1, false, T)
        end
        assert.is_true(first:failing(0, T) < 0.5)
        first:observe(0, 1, false, T)
        assert.is_true(first:failing(0, T) > 0.5)
    end)

    it("learns nothing of speed from a failure", function()
        local first = two()
        first:observe(0, 10, true, T)
        first:observe(0, 0, false, T)
        assert.equal(10, first:latency(0, T))
    end)

    it("does not mind a clock that is set back", function()
        local first = two()
        first:observe(0, 10, true, T)
        first:observe(0, 10, true, T - 50)
        assert.equal(10, first:latency(0, T - 60))
    end)

    it("knows nothing of a server whose cell was forgotten", function()
        local first = two()
        first:observe(1, 10, false, T)
        first:forget(1)
        assert.same({ 0, 0, 0 }, { first:latency(1, T), first:peak(1, T), first:failing(1, T) })
    end)
end)
