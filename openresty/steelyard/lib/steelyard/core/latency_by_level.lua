--- Latency by level: how long a server took lately for requests that found so many others in flight there.
--
-- A mean over all loads cannot say whether a server is slow or full; asked for the
-- level of now, it says what the next request would meet. Levels are what was in
-- flight when the request came, in powers of two: 0, 1, 2..3, 4..7 and so on, the
-- last from 64 on. Each has the running median
--
--   M := M STEP where a latency is above it, M / STEP where it is below
--
-- which no single latency moves by more than a fifth: one that took 10 s between
-- two of 1 ms is nothing. For the same reason a level is only known from its second
-- latency on, which makes it the lesser of the two. What is older than RECENT_S is
-- forgotten, so that a server that got no requests because it was slow is tried again.
--
-- Eight levels, each a float and a second, are one cache line a server. In memory that
-- the workers share, because of thousands of servers one worker alone hardly sees two
-- latencies of a level within RECENT_S. Several writers and no lock: of two latencies
-- within the same nanoseconds one is lost. Pure: the memory and the time are passed in.

local ffi = require "ffi"

local floor, max, min = math.floor, math.max, math.min

-- As noisy as the median of the last 15, where latencies are exponential.
local STEP = 1.2

-- As long as the peer stats' averages (TAU_S).
local RECENT_S = 10

-- nginx counts in whole milliseconds, so 0 is half of one; 0 is kept for "not known".
local LEAST_MS = 0.5

-- The level of what is in flight.
local LAST, FULL = 7, 64
local LEVEL = ffi.new("uint8_t[?]", FULL + 1)
for in_flight = 1, FULL do
    LEVEL[in_flight] = LEVEL[floor(in_flight / 2)] + 1
end

local _M = {}
local mt = { __index = _M }


--- How much memory the levels need.
function _M.bytes(cells)
    return cells * (LAST + 1) * 8
end


--- Open the levels in zeroed memory of bytes(cells), which the caller keeps.
function _M.new(memory)
    local words = ffi.cast("uint32_t *", memory)
    -- In turn a level's median (negative: its only latency yet) and the second of its last latency.
    return setmetatable({ medians = ffi.cast("float *", words), seconds = words }, mt)
end


local function at_level(cell, in_flight)
    return 2 * (cell * (LAST + 1) + LEVEL[max(0, min(FULL, in_flight))])
end


--- Count a latency of a request that found so many others in flight.
function _M:observe(cell, in_flight, latency_ms, now)
    local medians, seconds, i = self.medians, self.seconds, at_level(cell, in_flight)
    local median = now - seconds[i + 1] <= RECENT_S and medians[i] or 0
    seconds[i + 1] = floor(now)
    latency_ms = max(LEAST_MS, latency_ms)
    if median == 0 then
        medians[i] = -latency_ms
    elseif median < 0 then
        medians[i] = min(-median, latency_ms)
    elseif latency_ms > median then
        medians[i] = median * STEP
    elseif latency_ms < median then
        medians[i] = max(LEAST_MS, median / STEP)
    end
end


--- The latency in ms that a request would meet with so many others in flight: of that
-- level, or else of the nearest that is known, the lower one first; 0 where none is.
function _M:latency(cell, in_flight, now)
    local medians, seconds, since = self.medians, self.seconds, now - RECENT_S
    local own = at_level(cell, in_flight)
    if medians[own] > 0 and seconds[own + 1] >= since then
        return medians[own]
    end
    local first = at_level(cell, 0)
    local last = first + 2 * LAST
    for distance = 2, 2 * LAST, 2 do
        local below, above = own - distance, own + distance
        if below >= first and medians[below] > 0 and seconds[below + 1] >= since then
            return medians[below]
        end
        if above <= last and medians[above] > 0 and seconds[above + 1] >= since then
            return medians[above]
        end
    end
    return 0
end


--- Forget a server's latencies.
function _M:forget(cell)
    local first = at_level(cell, 0)
    for i = first, first + 2 * LAST + 1 do
        self.seconds[i] = 0
    end
end


return _M
