local latency_histogram = require "steelyard.core.latency_histogram"


--- The median of latencies in ms.
local function median(...)
    local histogram = latency_histogram.new(nil, 2)
    for i = 1, select("#", ...) do
        histogram:count(1, (select(i, ...)))
    end
    return histogram:take_median(1), histogram
end


describe("a latency histogram", function()
    it("has no median while nothing was counted", function()
        assert.is_nil(median())
    end)

    it("has the median's bucket right, with any other latencies", function()
        for exponent = 0, 14 do
            local low = 2 ^ exponent
            for _, latency_ms in ipairs({ low, 2 * low - 1 }) do
                local median_ms = median(0, 0, latency_ms, latency_ms, latency_ms, 1e7, 3600000)
                assert.is_true(median_ms >= low and median_ms <= 2 * low, latency_ms .. ": " .. median_ms)
            end
        end
    end)

    it("puts less than nginx's clock shows below one", function()
        assert.equal(0.5, median(0))
        assert.equal(0.5, median(0, 0, 0))
    end)

    it("goes straight through a bucket, by the part of its count", function()
        assert.equal(6, median(4, 5, 6, 7))
        assert.equal(8, median(4, 5, 6, 100, 200, 300))
        assert.near(8 + 8 / 3, median(2, 9, 10, 11), 0.05)
    end)

    it("takes latencies beyond its last bound", function()
        assert.is_true(median(1e9) >= 16384)
        assert.is_true(median(-1) <= 1)
    end)

    it("begins again when the median is taken, and knows servers apart", function()
        local _, histogram = median(4)
        assert.is_nil(histogram:take_median(1))
        histogram:count(0, 100)
        assert.is_nil(histogram:take_median(1))
        assert.is_true(histogram:take_median(0) > 63)
    end)
end)
