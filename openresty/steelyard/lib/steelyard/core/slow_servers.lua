--- When a server that gets no requests because it was slow is tried again.
--
-- Its latency fades as e^(-t/10 s), and 300 ms beside 2 ms take half a minute. A server that was slow for three seconds
-- would be left out ten times as long. So it gets one request as soon as it has rested for as long as it has been slow.
-- The next one comes after twice that time, and so on. A short trouble is then over soon, and a server that stays slow
-- costs few requests.
--
-- Each worker keeps its own times. All workers see the server's last try, so one that has just been tried rests in all
-- of them. A rest begins when the worker found the server slow, if that is later. Otherwise each of many workers with
-- one request a minute would try it with that request. Pure.

local max = math.max

-- The shortest rest.
local LEAST_REST_S = 1

-- A server that was not found slow for this long begins anew. Its remembered latency has faded by then.
local FORGOTTEN_AFTER_S = 60

local _M = {}
local mt = { __index = _M }


--- Know of no slow server.
function _M.new()
    return setmetatable({ since_s = {}, seen_s = {} }, mt) -- by cell: first and last found slow
end


--- Whether a server that is found slow now has rested long enough to be tried. It must have nothing in flight.
-- @param last_at when its last try ended
function _M:may_be_tried(cell, now, last_at)
    local since_s = self.since_s[cell]
    if not since_s or now - self.seen_s[cell] > FORGOTTEN_AFTER_S then
        since_s = now
        self.since_s[cell] = now
    end
    self.seen_s[cell] = now
    return now - max(last_at, since_s) >= max(LEAST_REST_S, last_at - since_s)
end


--- Whether the server was slow until now, as it has just been quick; it is well from now on.
function _M:is_over(cell)
    local was_slow = self.since_s[cell] ~= nil
    self:forget(cell)
    return was_slow
end


--- Know nothing of a cell: another server gets it.
function _M:forget(cell)
    self.since_s[cell], self.seen_s[cell] = nil, nil
end


return _M
