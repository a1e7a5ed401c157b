--- How often load balancers tell each other what they have in flight, and when it is not worth it.
--
-- An exchange costs CPU time, which is measured; its mean over `cpu_share` is how far apart two are, and never less
-- than LEAST_S. What is known of the others is then a period old on the mean, and a way there and back.
--
--   at rest  nothing is in flight and no request has come or gone for LINGER_S: nothing is exchanged
--   alone    nobody else is in the epoch: only that is asked for, each SLOW_S
--   late     figures of that age are worth nothing to requests that are as short as these: as alone
--   limited  where servers have a limit over all load balancers it is neither at rest nor late
--   steady   requests are in flight, and none has come or gone for LINGER_S: an exchange each STEADY_S
--   on       else
--
-- Pure: the time and what was measured are passed in.

local others_in_flight = require "steelyard.core.others_in_flight"

local LEAST_S = 0.004

-- A request a second is enough for figures to be at hand when it comes.
local LINGER_S, SLOW_S, STEADY_S, REST_S = 1, 1, 0.2, 0.1

-- Who is late is back when it is worth it with so much to spare, or it would come and go.
local TO_SPARE = 1.25

-- An exchange's part of the means.
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


local function mean(before, value)
    return before == 0 and value or before + ALPHA * (value - before)
end


--- Note what an exchange cost, in CPU, and how long its answer took.
function _M:spent(cpu_s, round_trip_s)
    self.cost_s, self.round_trip_s = mean(self.cost_s, cpu_s), mean(self.round_trip_s, round_trip_s)
end


--- Seconds between two exchanges.
function _M:round_s()
    return math.max(LEAST_S, self.cost_s / self.cpu_share)
end


--- How old figures are when they are used, on the mean. Of more servers than one request asks for, some are older.
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
    local age_s = self:age_s(turns) * (self.state == "late" and TO_SPARE or 1)
    if latency_ms > 0 and not self.limited and not others_in_flight.worth(age_s, latency_ms) then
        return "late", SLOW_S
    elseif quiet then
        return "steady", math.max(STEADY_S, self:round_s())
    end
    return "on", self:round_s()
end


--- Return what the state is now, and in how many seconds to look again.
-- @param balancers how many there are; 0: not known
-- @param in_flight and those that follow it, as core/in_flight_exchange's survey() has them
function _M:next(now, balancers, turns, in_flight, changed, latency_ms, ended_at)
    -- A time that is to come is one before the clock was set back.
    self.busy_at = changed and now or math.max(self.busy_at <= now and self.busy_at or 0, ended_at)
    local state, wait_s = state_of(self, now, balancers, turns, in_flight, latency_ms)
    self.state = state
    return state, wait_s
end


return _M
