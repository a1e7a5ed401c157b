--- Latency histograms: how many latencies of each size a server had since the last report, hence their median.
--
-- A mean cannot say whether all requests were slow or one was. The buckets
-- double: 0 ms (nginx counts in whole ones), 1, 2..3, 4..7 and so on, the last from
-- 16 s on; 16 of them, a cache line a server. The median is where half of the
-- count is reached, on the straight line through its bucket: off by less than the
-- bucket is wide, which is a factor of two.
--
-- In memory that the workers share. There are several writers and no lock: two
-- that count in one bucket within the same nanoseconds lose one count, and one
-- that counts while the median is taken may lose it or bring it back. A median
-- does not mind. Pure: the memory is passed in.

local ffi = require "ffi"

local floor, log, max, min = math.floor, math.log, math.max, math.min

local BUCKETS = 16
local PER_OCTAVE = 1 / log(2)

local _M = {}
local mt = { __index = _M }


--- How much memory the histograms need.
function _M.bytes(cells)
    return cells * BUCKETS * 4
end


--- Open the histograms in zeroed memory of bytes(cells).
-- @param memory left out: a worker's own, for so many `cells`
function _M.new(memory, cells)
    memory = memory or ffi.new("uint8_t[?]", _M.bytes(cells))
    return setmetatable({
        memory = memory, -- so that it is not collected
        counts = ffi.cast("uint32_t *", memory),
    }, mt)
end


--- Count a latency.
function _M:count(cell, latency_ms)
    -- Whole numbers: with the half, no power of two is on the wrong side of its bound.
    local bucket = floor(log(max(0, latency_ms) + 0.5) * PER_OCTAVE) + 1
    local at = cell * BUCKETS + min(bucket, BUCKETS - 1)
    self.counts[at] = self.counts[at] + 1
end


--- Return the median since it was last taken in ms, to a tenth, or nil when nothing was counted; and begin again.
function _M:take_median(cell)
    local counts, first, total = self.counts, cell * BUCKETS, 0
    for at = first, first + BUCKETS - 1 do
        total = total + counts[at]
    end
    if total == 0 then
        return nil
    end
    local median, below = nil, 0
    for bucket = 0, BUCKETS - 1 do
        local here = counts[first + bucket]
        if not median and here > 0 and below + here >= total / 2 then
            local low = bucket > 0 and 2 ^ (bucket - 1) or 0
            median = low + max(1, low) * min(1, (total / 2 - below) / here)
        end
        below = below + here
        counts[first + bucket] = 0
    end
    return median and floor(median * 10 + 0.5) / 10
end


return _M
