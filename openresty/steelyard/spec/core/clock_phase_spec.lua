local clock_phase = require "steelyard.core.clock_phase"

describe("the common phase", function()
    it("is at whole intervals and the instant", function()
        assert.near(101.25, clock_phase.after(100.3, 1, 0.25), 1e-9)
        assert.near(100.75, clock_phase.after(100.3, 0.5, 0.25), 1e-9)
    end)

    it("is half an interval to one and a half away, wherever the clock stands", function()
        for _, interval_s in ipairs({ 0.05, 0.5, 1, 60 }) do
            for i = 0, 1000 do
                local now = 1.7e9 + i * interval_s / 100
                local ahead = clock_phase.after(now, interval_s, 0.25) - now
                assert.is_true(ahead >= interval_s / 2 - 1e-6)
                assert.is_true(ahead < interval_s * 1.5 + 1e-6)
            end
        end
    end)

    it("keeps its period if the work of one takes a part of it", function()
        local due = clock_phase.after(1000, 1, 0.02)
        for n = 1, 5 do
            due = clock_phase.after(due + 0.3, 1, 0.02)
            assert.near(1001.02 + n, due, 1e-6)
        end
    end)

    it("is not quite the same for two load balancers", function()
        local one, other = clock_phase.spread_s("edge-1", 1), clock_phase.spread_s("edge-2", 1)
        assert.are_not.equal(one, other)
        for i = 1, 100 do
            local spread_s = clock_phase.spread_s("edge-" .. i, 0.1)
            assert.is_true(spread_s >= 0 and spread_s < 0.003)
        end
    end)
end)
