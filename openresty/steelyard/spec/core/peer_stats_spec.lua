local peer_stats = require "steelyard.core.peer_stats"

local WORKERS, CELLS = 2, 3

-- A time after 1970.
local T = 1e9


--- Record two successful tries of one latency: it is known from the second on.
local function observe_twice(stats, cell, latency_ms, at, in_flight)
    stats:observe(cell, latency_ms, true, at, in_flight)
    stats:observe(cell, latency_ms, true, at, in_flight)
end


--- The stats of two workers in one memory.
local function two()
    local memory = peer_stats.local_memory(CELLS, WORKERS)
    return peer_stats.new(memory, WORKERS, CELLS, 0), peer_stats.new(memory, WORKERS, CELLS, 1), memory
end


describe("peer stats", function()
    it("adds up the requests in flight of all workers", function()
        local first, second = two()
        first:raise(2)
        second:raise(2)
        second:raise(2)
        assert.same({ 3, 3, 0 }, { first:in_flight(2), second:in_flight(2), first:in_flight(1) })
        second:lower(2)
        assert.equal(2, first:in_flight(2))
    end)

    it("has the requests of other load balancers beside its own, and counts them only on demand", function()
        local first, second = two()
        first:raise(1)
        first:set_others(1, 7)
        assert.same({ 1, 1, 7, 0 }, { first:in_flight(1), first:own(1), second:others(1), second:others(2) })
        second:trust_others(true)
        assert.same({ 8, 1, 1 }, { second:in_flight(1), second:own(1), first:in_flight(1) })
        second:trust_others(false)
        assert.equal(1, second:in_flight(1))
        first:forget(1)
        assert.equal(0, second:others(1))
    end)

    it("forgets the requests of a killed worker when its successor starts", function()
        local first, second, memory = two()
        first:raise(0)
        second:raise(0)
        peer_stats.new(memory, WORKERS, CELLS, 1)
        assert.equal(1, first:in_flight(0))
    end)

    it("weighs the requests in flight for pickers that go by cost, and counts requests for all others", function()
        local first, second = two()
        local by_cost = first:by_cost()
        assert.equal(by_cost, first:by_cost())
        second:by_cost()
        first:raise(1)
        first:weigh(1, 2.5)
        second:raise(1)
        second:weigh(1, -0.75)
        first:raise(2) -- for an upstream without costs
        assert.same({ 3.75, 1, 0 }, { by_cost:in_flight(1), by_cost:in_flight(2), by_cost:in_flight(0) })
        assert.same({ 2, 2 }, { by_cost:own(1), first:in_flight(1) })
        first:set_others(1, 3)
        by_cost:trust_others(true)
        assert.same({ 6.75, 2 }, { by_cost:in_flight(1), first:in_flight(1) })
        by_cost:trust_others(false)
        second:lower(1)
        second:weigh(1, 0.75)
        first:lower(1)
        first:weigh(1, -2.5)
        assert.equal(0, by_cost:in_flight(1))
    end)

    it("keeps latency by level for weighted requests, too", function()
        local first = two()
        local by_cost = first:by_cost()
        by_cost:keep_levels()
        observe_twice(first, 1, 30, T, 2.5)
        assert.equal(30, by_cost:latency_at(1, 2.75, T))
    end)

    it("forgets the weights of a killed worker's requests, and nothing else in its memory", function()
        local first, second, memory = two()
        first:by_cost()
        second:by_cost()
        first:keep_levels()
        for cell = 0, CELLS - 1 do
            observe_twice(first, cell, 10, T, 3)
            first:raise(cell)
            first:weigh(cell, 0.5)
            second:raise(cell)
            second:weigh(cell, 4)
        end
        local by_cost = peer_stats.new(memory, WORKERS, CELLS, 1):by_cost()
        for cell = 0, CELLS - 1 do
            assert.same({ 1.5, 10, 10 },
                        { by_cost:in_flight(cell), first:latency(cell, T), first:latency_at(cell, 3, T) })
        end
    end)

    it("keeps latency by level if it is asked to, and all workers see it", function()
        local first, second = two()
        first:observe(1, 10, true, T, 3)
        first:keep_levels()
        second:keep_levels()
        first:observe(1, 30, true, T, 3)
        second:observe(1, 20, true, T, 2)
        second:observe(1, 20, true, T) -- without the requests in flight
        second:observe(1, 20, false, T, 3)
        assert.equal(20, first:latency_at(1, 3, T))
        first:forget_latency(1)
        assert.equal(0, second:latency_at(1, 3, T))
        observe_twice(first, 2, 10, T, 0)
        first:forget(2)
        assert.equal(0, second:latency_at(2, 0, T))
    end)

    it("believes a latency when a second one confirms it, and averages those that follow", function()
        local first, second = two()
        first:observe(0, 10, true, T)
        assert.same({ 0, 0 }, { second:latency(0, T), second:peak(0, T) })
        first:observe(0, 10, true, T)
        assert.same({ 10, 10 }, { second:latency(0, T), second:peak(0, T) })
        observe_twice(first, 0, 20, T)
        assert.near(12, first:latency(0, T), 1e-9)
    end)

    it("takes the lesser of the first two, whichever comes first", function()
        for _, pair in ipairs({ { 10000, 2 }, { 2, 10000 } }) do
            local first = two()
            first:observe(0, pair[1], true, T)
            first:observe(0, pair[2], true, T + 1)
            assert.near(2, first:latency(0, T + 1), 1e-9)
            assert.near(2, first:peak(0, T + 1), 1e-9)
        end
    end)

    it("is not moved by one long request, at once or after a pause", function()
        for _, pause_s in ipairs({ 0, 10, 3600 }) do
            local first = two()
            observe_twice(first, 0, 2, T)
            first:observe(0, 10000, true, T + pause_s)
            first:observe(0, 2, true, T + pause_s)
            assert.is_true(first:latency(0, T + pause_s) <= 2)
            assert.is_true(first:peak(0, T + pause_s) <= 2)
        end
    end)

    it("knows that a server has become slow from its second slow answer on, and from one that it is well", function()
        local first = two()
        observe_twice(first, 0, 2, T)
        observe_twice(first, 0, 1000, T + 60)
        assert.is_true(first:latency(0, T + 60) > 200)
        assert.near(1000, first:peak(0, T + 60), 1e-9)
        first:observe(0, 2, true, T + 120)
        assert.is_true(first:latency(0, T + 120) < 5)
    end)

    it("jumps to a peak at once and comes down slowly", function()
        local first = two()
        observe_twice(first, 0, 10, T)
        observe_twice(first, 0, 500, T)
        assert.equal(500, first:peak(0, T))
        first:observe(0, 10, true, T + 10)
        assert.near(500 / math.exp(1) + 10 * (1 - 1 / math.exp(1)), first:peak(0, T + 10), 1e-9)
    end)

    it("learns no latency from a try without one, and lets its latency fade", function()
        local first = two()
        observe_twice(first, 0, 10, T)
        first:observe(0, nil, true, T + 10)
        assert.near(10 / math.exp(1), first:latency(0, T + 10), 1e-9)
        assert.near(10 / math.exp(1), first:peak(0, T + 10), 1e-9)
        local new = two()
        new:observe(0, nil, true, T)
        new:observe(0, nil, true, T)
        assert.equal(0, new:latency(0, T))
    end)

    it("lets all that it knows fade, so that a shunned server is tried again", function()
        local first = two()
        observe_twice(first, 0, 10, T)
        first:observe(0, 10, false, T)
        assert.near(10 / math.exp(2), first:latency(0, T + 20), 1e-9)
        assert.near(0.2 / math.exp(2), first:failing(0, T + 20), 1e-9)
        assert.is_true(first:peak(0, T + 1000) < 1e-9)
    end)

    it("takes 0 ms, which is less than nginx's clock shows, for half of one", function()
        local first = two()
        observe_twice(first, 0, 0, T)
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
        observe_twice(first, 0, 10, T)
        first:observe(0, 0, false, T)
        assert.equal(10, first:latency(0, T))
    end)

    it("does not mind another worker's stamp that is some milliseconds ahead", function()
        local first = two()
        first:observe(0, 10, true, T)
        first:observe(0, 10, true, T - 0.002)
        assert.near(10, first:latency(0, T - 0.005), 0.01)
    end)

    it("knows nothing of a server after its cell was forgotten", function()
        local first = two()
        observe_twice(first, 1, 10, T)
        first:observe(1, 10, false, T)
        first:forget(1)
        first:observe(1, 10, true, T)
        assert.same({ 0, 0, 0 }, { first:latency(1, T), first:peak(1, T), first:failing(1, T) })
    end)
end)
