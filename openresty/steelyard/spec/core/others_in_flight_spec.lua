local others_in_flight = require "steelyard.core.others_in_flight"

local T = 1e9


describe("the requests of others in flight", function()
    it("is worth fewer candidates the older it is, and nothing when it is older than a request takes", function()
        local worth = {}
        for i, age_ms in ipairs({ 5, 12, 13, 25, 26, 50, 51, 100, 101, 5000 }) do
            worth[i] = others_in_flight.worth(age_ms / 1000, 100) or "nothing"
        end
        assert.same({ 4, 4, 3, 2, 1, 1, 0, 0, "nothing", "nothing" }, worth)
    end)

    it("is worth nothing while nobody knows how long a request takes", function()
        assert.is_nil(others_in_flight.worth(0.001, 0))
        assert.is_nil(others_in_flight.worth(0, 0))
    end)

    it("is as old as it says, or as its last exchange is once that is longer ago", function()
        local others = others_in_flight.new(nil, 1)
        assert.is_nil(others:age_s(T))
        assert.is_nil(others:more(T, 1e6))
        others:read(T, 0.01)
        assert.equal(0.01, others:age_s(T))
        assert.equal(0.01, others:age_s(T + 0.005))
        assert.equal(4, others:more(T + 0.005, 100))
        assert.equal(1, others:more(T + 0.05, 100))
        assert.is_nil(others:more(T + 3, 100))
        others:forget()
        assert.is_nil(others:age_s(T))
        assert.is_nil(others:more(T, 1e6))
    end)

    it("is worth nothing when the clock was set back, and is again after the next exchange", function()
        local others = others_in_flight.new(nil, 1)
        others:read(T, 0.01)
        assert.equal(4, others:more(T - 0.05, 100)) -- another worker's clock
        assert.is_nil(others:more(T - 3600, 100))
        others:read(T - 3600, 0.01)
        assert.equal(4, others:more(T - 3600, 100))
    end)

    it("is asked for by picks of all workers for a second after the last exchange", function()
        local memory = others_in_flight.new(nil, 1)
        local first, second = others_in_flight.new(memory.memory, 1), others_in_flight.new(memory.memory, 1)
        second:look(T)
        assert.is_false(second.live)
        first:read(T, 0.01)
        second:look(T)
        assert.is_true(second.live)
        second:look(T + 2)
        assert.is_false(second.live)
    end)

    it("is the sum less one's own part, within bounds for any counter", function()
        local others = others_in_flight.new(nil, 2)
        others.sent[1] = 5
        local found = {}
        for i, sum in ipairs({ 12, 5, 3, -7, 1e15 }) do
            found[i] = others:of_sum(1, sum)
        end
        assert.same({ 7, 0, 0, 0, 100000 }, found)
    end)
end)
