--- When a server that gets no requests because it was slow is tried again.
--
-- Its latency fades as e^(-t/10 s), and 300 ms beside 2 ms take half a minute. A server that was slow for three seconds
-- would be left out ten times as long. So it gets one request as soon as it has rested for as long as it has been slow.
-- The next one comes after twice that time, and so on. A short trouble is then over soon, and a server that stays slow
-- costs few requests.
--
-- The times are in memory that nginx's workers share, as the last try is. If each worker had its own, each of many
-- workers with few requests would find the server slow for the first time, and try it soon. Two workers that write at
-- once write nearly the same. Pure: the memory and the time are passed in.

local ffi = require "ffi"

local max = math.max

-- The shortest rest. A server is found slow after two answers, and a shorter one would try it with each of the next.
local LEAST_REST_S = 1

-- A server that was not found slow for this long begins anew. Its remembered latency has faded by then. A server is not
-- found slow while it is tried, so the duration of its last try is added.
local FORGOTTEN_AFTER_S = 60

-- A server is noted as still slow this often: with each pick, the workers would wait for each other's cache line.
local NOTED_EVERY_S = 1

-- Doubles of a cell: when it was first and last found slow; 0 if it was not.
local SINCE, SEEN, DOUBLES = 0, 1, 2

local _M = {}
local mt = { __index = _M }


--- Return the bytes of memory for the times.
function _M.bytes(cells)
    return cells * DOUBLES * 8
end


--- Open the times in memory of bytes(cells), which is zeroed if no server is slow.
function _M.new(memory)
    return setmetatable({ times = ffi.cast("double *", memory) }, mt)
end


--- Whether a server that is found slow now has rested long enough to be tried. It must have nothing in flight.
-- @param last_at when its last try ended
-- @param took_s  the duration of a recent try
function _M:may_be_tried(cell, now, last_at, took_s)
    local times, i = self.times, DOUBLES * cell
    local since_s, seen_s = times[i + SINCE], times[i + SEEN]
    if since_s == 0 or now - seen_s > FORGOTTEN_AFTER_S + took_s then
        since_s = now
        times[i + SINCE], times[i + SEEN] = now, now
    elseif now - seen_s > NOTED_EVERY_S then
        times[i + SEEN] = now
    end
    return now - max(last_at, since_s) >= max(LEAST_REST_S, last_at - since_s)
end


--- Whether the server was slow until now, as it has just been quick; it is well from now on.
function _M:is_over(cell)
    local was_slow = self.times[DOUBLES * cell + SINCE] ~= 0
    self:forget(cell)
    return was_slow
end


--- Know nothing of a cell: another server gets it.
function _M:forget(cell)
    self.times[DOUBLES * cell + SINCE], self.times[DOUBLES * cell + SEEN] = 0, 0
end


return _M
