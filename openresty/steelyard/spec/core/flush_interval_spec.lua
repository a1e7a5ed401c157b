local clock_phase = require "steelyard.core.clock_phase"
local flush_interval = require "steelyard.core.flush_interval"


describe("counts are handed in", function()
    it("five times a second, with up to 500 servers", function()
        for _, servers in ipairs({ 0, 1, 500 }) do
            assert.equal(0.2, flush_interval.seconds(servers, false, 1))
        end
    end)

    it("as often after a failure, with any number", function()
        assert.equal(0.2, flush_interval.seconds(2000, true, 1))
    end)

    it("once for each report, with more", function()
        assert.equal(1, flush_interval.seconds(501, false, 1))
        assert.equal(0.5, flush_interval.seconds(2000, false, 0.5))
        assert.equal(0.2, flush_interval.seconds(2000, false, 0.05))
    end)

    it("at least once a second, and at the moment of each report", function()
        for _, report_s in ipairs({ 0.3, 0.9, 1, 1.5, 2, 2.5, 10, 60 }) do
            local interval_s = flush_interval.seconds(2000, false, report_s)
            assert.is_true(interval_s <= 1)
            assert.near(0, (report_s / interval_s + 0.5) % 1 - 0.5, 1e-9)
        end
    end)

    it("before the report reads them, however many there are", function()
        assert.equal(0, flush_interval.lead_s(500))
        assert.near(0.04, flush_interval.lead_s(2000), 1e-9)
        assert.near(0.2, flush_interval.lead_s(10000), 1e-9)
        assert.equal(0.2, flush_interval.lead_s(100000))
        for _, servers in ipairs({ 501, 2000, 10000 }) do
            local lead_s = flush_interval.lead_s(servers)
            local began = clock_phase.after(1000.2, 1, -lead_s) -- a slice is 0.2 ms of 150 servers, its pause 1 ms
            assert.is_true(began + servers / 150 * 0.0012 < 1001 + clock_phase.REPORT_S)
        end
    end)
end)
