--- Backoff: a server that has just cost a timeout is not asked again for BACKOFF_S.
--
-- Only a slow failure counts. A server that refuses at once costs nothing, so it is
-- asked again at once. Each worker keeps its own list, so a dead server costs one
-- timeout per worker and BACKOFF_S.

local clock = require "steelyard.io.clock"

local BACKOFF_S = 3

-- A refusal takes much less; our timeouts take longer.
local SLOW_S = 0.1

local _M = {}

local failed = {} -- name -> { until_s, why }


--- Have attempts at the server of that name fail for a while, without an attempt.
function _M.avoid(name, why, seconds)
    failed[name] = { until_s = clock.now() + seconds, why = why }
end


--- Do work() -> value, err unless the server of that name has just cost a timeout.
function _M.attempt(name, work)
    local began = clock.now()
    local failure = failed[name]
    if failure then
        local left_s = failure.until_s - began
        if left_s > 0 then
            return nil, failure.why .. " (asked again in " .. math.ceil(left_s) .. " s)"
        end
    end
    local value, err = work()
    local now = clock.now()
    if value == nil and now - began >= SLOW_S then
        _M.avoid(name, tostring(err), BACKOFF_S)
    else
        failed[name] = nil
    end
    return value, err
end


return _M
