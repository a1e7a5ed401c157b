--- Latency histograms: a server's latencies since the last report, counted by size, and their median.
--
-- A mean cannot say whether all requests were slow or one was. The buckets double: 0 ms (nginx counts whole
-- milliseconds), 1, 2..3, 4..7 and so on, the last from 16 s on; 16 of them, a cache line per server. The median is
-- the point at half of the count, on a straight line through its bucket. It is off by less than the width of the
-- bucket, a factor of two.
--
-- The workers share the memory. There are several writers and no lock: two that count in one bucket within the same
-- nanoseconds lose one count. A count during take_median() may get lost or come back. A median tolerates that. Pure:
-- the memory is passed in.

local ffi = require "ffi"

local floor, log, max, min = math.floor, math.log, math.max, math.min

local BUCKETS = 16
local PER_OCTAVE = 1 / log(2)

local _M = {}
local mt = { __index = _M }


--- Return the bytes of memory for the histograms.
function _M.bytes(cells)
    return cells * BUCKETS * 4
end


--- Open the histograms in zeroed memory of bytes(cells).
-- @param memory left out: a worker's own, for `cells` cells
function _M.new(memory, cells)
    memory = memory or ffi.new("uint8_t[?]", _M.bytes(cells))
    return setmetatable({
        memory = memory, -- so that it is not collected
        counts = ffi.cast("uint32_t *", memory),
    }, mt)
end


--- Count a latency.
function _M:count(cell, latency_ms)
    -- Latencies are whole numbers: with the half added, no power of two is on the wrong side of its bound.
    local bucket = floor(log(max(0, latency_ms) + 0.5) * PER_OCTAVE) + 1
    local at = cell * BUCKETS + min(bucket, BUCKETS - 1)
    self.counts[at] = self.counts[at] + 1
end


--- Return the median since the last call in ms, to a tenth, or nil if nothing was counted; and begin again.
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
        local in_bucket = counts[first + bucket]
        if not median and in_bucket > 0 and below + in_bucket >= total / 2 then
            local low = bucket > 0 and 2 ^ (bucket - 1) or 0
            median = low + max(1, low) * min(1, (total / 2 - below) / in_bucket)
        end
        below = below + in_bucket
        counts[first + bucket] = 0
    end
    return median and floor(median * 10 + 0.5) / 10
end


return _M
