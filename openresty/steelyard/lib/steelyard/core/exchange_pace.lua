--- The pace of the exchange: how often load balancers exchange their requests in flight, and when it is not worth it.
--
-- An exchange costs CPU time, which is measured. Its mean over `cpu_share` is the time between two exchanges, at least
-- MIN_ROUND_S. The figures of the others are then half a period old on average, plus one round trip.
--
--   at rest  nothing is in flight and no request has come or gone for LINGER_S: no exchange
--   alone    no other load balancer is in the epoch: ask for that alone, each SLOW_S
--   late     figures of this age are worth nothing to such short requests: as alone
--   limited  servers have a limit over all load balancers: never at rest or late
--   steady   requests are in flight, and none has come or gone for LINGER_S: an exchange each STEADY_S
--   on       otherwise
--
-- Pure: the time and the measurements are passed in.

local others_in_flight = require "steelyard.core.others_in_flight"

-- Seconds between two exchanges, at least.
local MIN_ROUND_S = 0.004

-- With one request a second, the figures are at hand when it comes.
local LINGER_S, SLOW_S, STEADY_S, REST_S = 1, 1, 0.2, 0.1

-- A late load balancer resumes only with this margin to spare: else it would change state all the time.
local RESUME_MARGIN = 1.25

-- The part of one exchange in the means.
local ALPHA = 0.1

local _M = {}
local mt = { __index = _M }


--- Make a pace.
-- @param cpu_share of a core, 0..1
function _M.new(cpu_share)
    return setmetatable({
        cpu_share = cpu_share, cost_s = 0, round_trip_s = 0, busy_at = 0, state = "at rest", limited = false,
    }, mt)
end


local function mean(previous, value)
    return previous == 0 and value or previous + ALPHA * (value - previous)
end


--- Note the CPU time of an exchange, and the time until its answer.
function _M:spent(cpu_s, round_trip_s)
    self.cost_s, self.round_trip_s = mean(self.cost_s, cpu_s), mean(self.round_trip_s, round_trip_s)
end


--- Return the seconds between two exchanges.
function _M:round_s()
    return math.max(MIN_ROUND_S, self.cost_s / self.cpu_share)
end


--- Return the mean age of the figures in use. If one request cannot ask for all servers, some figures are older.
-- @param turns requests that it takes to ask for all
function _M:age_s(turns)
    return self:round_s() * (turns + 1) / 2 + self.round_trip_s
end


local function state_of(self, now, balancers, turns, in_flight, latency_ms)
    local quiet = now - self.busy_at > LINGER_S
    if quiet and in_flight == 0 and not self.limited then
        return "at rest", REST_S
    elseif balancers == 1 then
        return "alone", SLOW_S
    end
    local age_s = self:age_s(turns) * (self.state == "late" and RESUME_MARGIN or 1)
    if latency_ms > 0 and not self.limited and not others_in_flight.worth(age_s, latency_ms) then
        return "late", SLOW_S
    elseif quiet then
        return "steady", math.max(STEADY_S, self:round_s())
    end
    return "on", self:round_s()
end


--- Return the state, and the seconds until the next look.
-- @param balancers how many there are; 0: not known
-- @param in_flight this and the following ones are as returned by survey() of core/in_flight_messages
function _M:next(now, balancers, turns, in_flight, changed, latency_ms, ended_at)
    -- A time in the future is one from before the clock was set back.
    self.busy_at = changed and now or math.max(self.busy_at <= now and self.busy_at or 0, ended_at)
    local state, wait_s = state_of(self, now, balancers, turns, in_flight, latency_ms)
    self.state = state
    return state, wait_s
end


return _M
