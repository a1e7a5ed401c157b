--- Requests in flight from other load balancers: how old the figures are, and what they are still worth to a pick. The
-- figures are learnt in core/in_flight_messages.
--
-- The figures themselves are a column of the peer stats (core/peer_stats), beside this nginx's own requests, so a pick
-- reads one number more. Here is the rest, in memory shared by the workers: one worker writes it
-- (core/in_flight_messages), every pick reads two numbers.
--
--   age     the mean age of the figures: the way there and the wait for the next exchange; or the time since the last
--           exchange, once that is longer
--   T       the latency of this upstream's requests
--
--   A pick may look at T / (2 age) further candidates, rounded down, and at most MAX_FURTHER. Until the next exchange,
--   all load balancers run to the same few idle servers, the more so the more candidates they look at.
--
-- If the age is above T, or T is not known, the figures are worth nothing. The picker then goes by this nginx's own
-- requests in flight, as if it were alone.
--
-- docs/decisions/0025-others-in-flight.md has the measurements. Pure: memory and time are passed in.

local ffi = require "ffi"

-- Further candidates of a pick, at most.
local MAX_FURTHER = 4

-- The workers of one machine read the clock at different times: a stamp may be this far ahead. More means a clock set
-- back.
local CLOCK_SKEW_S = 0.1

-- Above every real number of requests, forged counters included; exact in 32 bits.
local MAX_IN_FLIGHT = 100000

-- A cache line. Behind it is what this nginx sent to each cell's counter, 32 bits each.
local LINE = ffi.typeof [[struct {
    double as_of, age_s; /* when the figures were read, 0: never; their mean age in use */
    double epoch;        /* of the counters; 0 before the first */
    double is_in;        /* 1 if this nginx is counted as a member of the epoch */
    /* For pages: the load balancers, 0: not known; seconds between two exchanges; their share of a core. */
    double balancers, round_s, cpu_share;
    double next_at;      /* when the next look of the exchange is due; 0 before the first */
}]]
local LINE_POINTER = ffi.typeof("$ *", LINE)

local _M = {}
local mt = { __index = _M }


--- Return the bytes of memory for them.
function _M.bytes(cells)
    return ffi.sizeof(LINE) + cells * 4
end


--- Open zeroed memory of bytes(cells).
-- @param memory left out: a worker's own
function _M.new(memory, cells)
    memory = memory or ffi.new("uint8_t[?]", _M.bytes(cells))
    local shared = ffi.cast(LINE_POINTER, memory)
    return setmetatable({
        memory = memory, -- so that it is not collected
        cells = cells, live = false, shared = shared,
        used = false, -- whether `live` was ever true in this worker: else picks have nothing to look at
        sent = ffi.cast("int32_t *", shared + 1), -- cell -> this nginx's part of its counter
    }, mt)
end


--- Return how many further candidates a pick may look at with figures of this age; nil if they are worth nothing.
-- @param latency_ms of a request, 0 if it is not known
function _M.worth(age_s, latency_ms)
    local age_ms = age_s * 1000
    if latency_ms <= 0 or age_ms > latency_ms then
        return nil
    end
    return math.min(MAX_FURTHER, math.floor(latency_ms / age_ms / 2))
end


--- Return the same for the current figures.
function _M:more(now, latency_ms)
    local shared = self.shared
    local since = now - shared.as_of
    if since < -CLOCK_SKEW_S then
        return nil
    end
    return _M.worth(math.max(since, shared.age_s), latency_ms)
end


--- Return the age of the figures in seconds; nil if there are none.
function _M:age_s(now)
    local shared = self.shared
    return shared.as_of > 0 and math.max(now - shared.as_of, shared.age_s) or nil
end


--- Return whether there are figures of the last second.
function _M:is_live(now)
    local age_s = self:age_s(now)
    return age_s ~= nil and age_s < 1
end


--- Note whether there are figures of the last second: picks use them while there are. Call it now and then.
function _M:look(now)
    self.live = self:is_live(now)
    self.used = self.used or self.live
end


--- Note that figures were read at a moment, with their mean age in use.
function _M:read(as_of, age_s)
    self.shared.as_of, self.shared.age_s = as_of, age_s
end


--- Note that the figures are worth nothing.
function _M:forget()
    self.shared.as_of = 0
end


--- Return the others' part of a counter's sum, within 0..MAX_IN_FLIGHT for any sum.
function _M:of_sum(cell, sum)
    return math.max(0, math.min(MAX_IN_FLIGHT, sum - self.sent[cell]))
end


return _M
