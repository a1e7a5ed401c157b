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
end)
