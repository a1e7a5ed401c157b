--- What other load balancers have in flight: how old the figures are, and what they are still worth to a pick.
--
-- The figures themselves are a column of the peer stats (core/peer_stats), beside what this nginx has in flight, so
-- that a pick reads one number more. Here, in memory that the workers share, is the rest: one worker writes it
-- (core/in_flight_exchange), every pick reads two numbers.
--
--   age     how long ago it was true, on the mean: the way there and the wait for the next exchange; or how long
--           ago the last exchange was, once that is more
--   T       how long a request of this upstream takes
--
--   T / (2 age), whole, and MOST_MORE at the most: so many further candidates may a pick look at. Until the figures
--   tell, all load balancers run to the same few idle servers, the more so the more they look at.
--
-- Where the age is above T, or T is not known, they are worth nothing: the picker goes by what this nginx has in
-- flight, as if it were alone.
--
-- docs/decisions/0025-others-in-flight.md has the measurements. Pure: memory and time are passed in.

local ffi = require "ffi"

local MOST_MORE = 4

-- Clocks of one machine's workers are read at different turns of their loops; more is a clock that was set back.
local AHEAD_S = 0.1

-- No server has so many, and a forged counter has no more. An exact number in 32 bits.
local MOST = 100000

-- A cache line; what each cell's counter was told lies behind it, 32 bits each.
local LINE = ffi.typeof [[struct {
    double as_of, age_s; /* when the figures were read, 0: never; how old they are when they are used, on the mean */
    double epoch;        /* that the counters were told in; 0 before the first */
    double is_in;        /* 1 where this nginx is counted among those that are in the epoch */
    /* For pages: how many there are, 0: not known; seconds between two exchanges; their share of a core. */
    double balancers, round_s, cpu_share, unused;
}]]
local LINE_POINTER = ffi.typeof("$ *", LINE)

local _M = {}
local mt = { __index = _M }


--- How much memory they need.
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
        told = ffi.cast("int32_t *", shared + 1), -- cell -> what its counter was told that this nginx has in flight
    }, mt)
end


--- How many further candidates a pick may look at by figures of that age; nil when they are worth nothing.
-- @param latency_ms of a request, 0 when it is not known
function _M.worth(age_s, latency_ms)
    local age_ms = age_s * 1000
    if latency_ms <= 0 or age_ms > latency_ms then
        return nil
    end
    return math.min(MOST_MORE, math.floor(latency_ms / age_ms / 2))
end


--- The same of the figures at hand.
function _M:more(now, latency_ms)
    local shared = self.shared
    local since = now - shared.as_of
    if since < -AHEAD_S then
        return nil
    end
    return _M.worth(math.max(since, shared.age_s), latency_ms)
end


--- How old the figures are, in seconds; nil while there are none.
function _M:age_s(now)
    local shared = self.shared
    return shared.as_of > 0 and math.max(now - shared.as_of, shared.age_s) or nil
end


--- Note whether there are figures of the last second: picks ask for their worth while it is so. Call it now and then.
function _M:look(now)
    local age_s = self:age_s(now)
    self.live = age_s ~= nil and age_s < 1
end


--- Say that the figures were read at a moment, and are `age_s` old on the mean when they are used.
function _M:read(as_of, age_s)
    self.shared.as_of, self.shared.age_s = as_of, age_s
end


--- Say that the figures are worth nothing.
function _M:forget()
    self.shared.as_of = 0
end


--- Return what the others have in flight of the sum over all: within 0..MOST, whatever the counter says.
function _M:of_sum(cell, sum)
    return math.max(0, math.min(MOST, sum - self.told[cell]))
end


return _M
