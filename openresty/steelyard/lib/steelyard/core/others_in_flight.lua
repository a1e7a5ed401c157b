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

-- Doubles of the header, a cache line; what each cell's counter was told lies behind it, 32 bits each.
local AS_OF, AGE_S, EPOCH, IS_IN, BALANCERS, ROUND_S, CPU_SHARE, LINE = 0, 1, 2, 3, 4, 5, 6, 8

local _M = {}
local mt = { __index = _M }


--- How much memory they need.
function _M.bytes(cells)
    return LINE * 8 + cells * 4
end


--- Open zeroed memory of bytes(cells).
-- @param memory left out: a worker's own
function _M.new(memory, cells)
    memory = memory or ffi.new("uint8_t[?]", _M.bytes(cells))
    local header = ffi.cast("double *", memory)
    return setmetatable({
        memory = memory, -- so that it is not collected
        cells = cells, live = false, header = header, told_by_cell = ffi.cast("int32_t *", header + LINE),
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
    local header = self.header
    local since = now - header[AS_OF]
    if since < -AHEAD_S then
        return nil
    end
    return _M.worth(math.max(since, header[AGE_S]), latency_ms)
end


--- How old the figures are, in seconds; nil while there are none.
function _M:age_s(now)
    local header = self.header
    return header[AS_OF] > 0 and math.max(now - header[AS_OF], header[AGE_S]) or nil
end


--- Note whether there are figures of the last second: picks ask for their worth while it is so. Call it now and then.
function _M:look(now)
    local age_s = self:age_s(now)
    self.live = age_s ~= nil and age_s < 1
end


--- Say that the figures were read at a moment, and are `age_s` old on the mean when they are used.
function _M:read(as_of, age_s)
    self.header[AS_OF], self.header[AGE_S] = as_of, age_s
end


--- Say that the figures are worth nothing.
function _M:forget()
    self.header[AS_OF] = 0
end


--- The epoch that the counters were told in; 0 before the first.
function _M:epoch()
    return self.header[EPOCH]
end


--- Begin an epoch. Its counters were told nothing: tell() so of each cell that is in use.
function _M:begin(epoch)
    self.header[EPOCH], self.header[IS_IN] = epoch, 0
end


--- Say whether this nginx is counted among those that are in the epoch.
function _M:enter(is_in)
    self.header[IS_IN] = is_in and 1 or 0
end


--- Whether it is.
function _M:is_in()
    return self.header[IS_IN] == 1
end


--- What a server's counter was told that this nginx has in flight.
function _M:told(cell)
    return self.told_by_cell[cell]
end


--- Note it.
function _M:tell(cell, in_flight)
    self.told_by_cell[cell] = in_flight
end


--- Return what the others have in flight of the sum over all: within 0..MOST, whatever the counter says.
function _M:of_sum(cell, sum)
    return math.max(0, math.min(MOST, sum - self.told_by_cell[cell]))
end


--- What pages show: how many load balancers there are (0: not known), seconds between two exchanges, and the share
-- of a core that they take.
function _M:about()
    local header = self.header
    return { balancers = header[BALANCERS], round_s = header[ROUND_S], cpu_share = header[CPU_SHARE] }
end


--- Note it.
function _M:describe(balancers, round_s, cpu_share)
    local header = self.header
    header[BALANCERS], header[ROUND_S], header[CPU_SHARE] = balancers, round_s, cpu_share
end


return _M
