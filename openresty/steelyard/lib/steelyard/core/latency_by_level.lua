--- Latency by level: a server's recent latency for requests that found a number of others in flight there.
--
-- A mean over all loads cannot distinguish a slow server from a full one. The latency at the current level is what the
-- next request would meet. A level is the number in flight when a request came, in powers of two: 0, 1, 2..3, 4..7 and
-- so on, the last from 64 on. Each level has the running median
--
--   M := M STEP if a latency is above it, M / STEP if it is below
--
-- No single latency moves it by more than a fifth: one latency of 10 s between two of 1 ms changes nothing. For the
-- same reason a level is known only from its second latency on, and begins as the lesser of the two. Latencies older
-- than RECENT_S are forgotten. So a server without requests, because it was slow, is tried again.
--
-- Eight levels, each a float and a second, are one cache line per server. The workers share the memory: with thousands
-- of servers, one worker alone hardly sees two latencies of a level within RECENT_S. There are several writers and no
-- lock: of two latencies within the same nanoseconds one is lost. Pure: the memory and the time are passed in.

local ffi = require "ffi"

local floor, max, min = math.floor, math.max, math.min

-- As noisy as the median of the last 15, with exponential latencies.
local STEP = 1.2

-- The time constant of the peer stats' averages (TAU_S).
local RECENT_S = 10

-- nginx counts whole milliseconds: 0 is taken for half a millisecond, because 0 means "not known" here.
local LEAST_MS = 0.5

-- The last level, the number in flight from which it holds, and the level of each number.
local LAST_LEVEL, LAST_LEVEL_FROM = 7, 64
local LEVEL_OF = ffi.new("uint8_t[?]", LAST_LEVEL_FROM + 1)
for in_flight = 1, LAST_LEVEL_FROM do
    LEVEL_OF[in_flight] = LEVEL_OF[floor(in_flight / 2)] + 1
end

local _M = {}
local mt = { __index = _M }


--- Return the bytes of memory for the levels.
function _M.bytes(cells)
    return cells * (LAST_LEVEL + 1) * 8
end


--- Open the levels in zeroed memory of bytes(cells), which the caller keeps.
function _M.new(memory)
    local words = ffi.cast("uint32_t *", memory)
    -- In turns, a level's median (negative: its only latency so far) and the second of its last latency.
    return setmetatable({ medians = ffi.cast("float *", words), seconds = words }, mt)
end


local function at_level(cell, in_flight)
    return 2 * (cell * (LAST_LEVEL + 1) + LEVEL_OF[max(0, min(LAST_LEVEL_FROM, in_flight))])
end


--- Count the latency of a request that found this number of others in flight.
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


--- Return the latency in ms of a request with this number of others in flight; 0 if none is known. It is that of their
-- level, or else of the nearest known one, the lower first.
function _M:latency(cell, in_flight, now)
    local medians, seconds, since = self.medians, self.seconds, now - RECENT_S
    local own = at_level(cell, in_flight)
    if medians[own] > 0 and seconds[own + 1] >= since then
        return medians[own]
    end
    local first = at_level(cell, 0)
    local last = first + 2 * LAST_LEVEL
    for distance = 2, 2 * LAST_LEVEL, 2 do
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
    for i = first, first + 2 * LAST_LEVEL + 1 do
        self.seconds[i] = 0
    end
end


return _M
