local exchange_pace = require "steelyard.core.exchange_pace"

local T = 1e9


--- A pace of exchanges of 100 us CPU time each, with a round trip of 0.5 ms; and its state for some requests.
local function pace(cpu_share)
    local made = exchange_pace.new(cpu_share or 0.02)
    made:spent(0.0001, 0.0005)
    local function next_at(now, in_flight, changed, latency_ms, balancers, ended_at)
        local state, wait_s = made:next(now, balancers or 2, 1, in_flight, changed > 0, latency_ms, ended_at or 0)
        return state .. " " .. string.format("%g", wait_s)
    end
    return made, next_at
end


describe("the pace of exchanges", function()
    it("is such that they take their share of a core, and no more", function()
        local _, next_at = pace(0.02)
        assert.equal("on 0.005", next_at(T, 3, 2, 50))
        _, next_at = pace(0.005)
        assert.equal("on 0.02", next_at(T, 3, 2, 50))
        _, next_at = pace(0.5)
        assert.equal("on 0.004", next_at(T, 3, 2, 50))
    end)

    it("slows down when an exchange costs more", function()
        local made = pace(0.02)
        for _ = 1, 100 do
            made:spent(0.001, 0.0005)
        end
        assert.near(0.05, made:round_s(), 1e-4)
    end)

    it("counts the wait for the next exchange and the way as age, and the turns that many servers take", function()
        local made = pace(0.02)
        assert.near(0.0055, made:age_s(1), 1e-9)
        assert.near(0.0155, made:age_s(5), 1e-9)
    end)

    it("rests when nothing is in flight and no request has come for a second", function()
        local _, next_at = pace()
        assert.equal("at rest 0.1", next_at(T, 0, 0, 0))
        assert.equal("on 0.005", next_at(T, 1, 1, 50))
        assert.equal("on 0.005", next_at(T + 0.9, 0, 0, 50))
        assert.equal("at rest 0.1", next_at(T + 1.1, 0, 0, 50))
    end)

    it("neither rests nor is late if servers have a limit over all load balancers", function()
        local made, next_at = pace()
        assert.equal("late 1", next_at(T, 1, 1, 1))
        made.limited = true
        assert.equal("on 0.005", next_at(T, 1, 1, 1))
        assert.equal("steady 0.2", next_at(T + 2, 0, 0, 1))
        assert.equal("alone 1", next_at(T + 3, 0, 0, 1, 1))
    end)

    it("slows down when requests are in flight for long and none comes", function()
        local _, next_at = pace()
        assert.equal("on 0.005", next_at(T, 7, 7, 50))
        assert.equal("steady 0.2", next_at(T + 2, 7, 0, 50))
        assert.equal("on 0.005", next_at(T + 3, 8, 1, 50))
    end)

    it("sees that requests come and go by those that end, though as many are in flight each time", function()
        local _, next_at = pace()
        assert.equal("on 0.005", next_at(T, 7, 7, 50))
        assert.equal("on 0.005", next_at(T + 2, 7, 0, 50, 2, T + 1.9))
        assert.equal("on 0.005", next_at(T + 2.5, 0, 0, 50))
        assert.equal("at rest 0.1", next_at(T + 3, 0, 0, 50))
    end)

    it("looks for others once a second while it is alone", function()
        local _, next_at = pace()
        assert.equal("alone 1", next_at(T, 7, 7, 50, 1))
        assert.equal("on 0.005", next_at(T, 7, 7, 50, 0)) -- not known yet
    end)

    it("stops when requests are too short for its figures, and resumes when they are not", function()
        local _, next_at = pace()
        assert.equal("on 0.005", next_at(T, 7, 7, 6))
        assert.equal("late 1", next_at(T, 7, 7, 5))
        assert.equal("late 1", next_at(T, 7, 7, 6)) -- nothing to spare
        assert.equal("on 0.005", next_at(T, 7, 7, 7))
        assert.equal("on 0.005", next_at(T, 7, 7, 0)) -- not known
    end)

    it("goes on when the clock is set back", function()
        local _, next_at = pace()
        assert.equal("on 0.005", next_at(T, 7, 7, 50))
        assert.equal("on 0.005", next_at(T - 3600, 7, 1, 50))
        assert.equal("on 0.005", next_at(T - 3599.5, 7, 0, 50))
        assert.equal("steady 0.2", next_at(T - 7200, 7, 0, 50, 2, T - 7202))
        assert.equal("on 0.005", next_at(T - 7199, 7, 0, 50, 2, T - 7199.5))
    end)
end)
