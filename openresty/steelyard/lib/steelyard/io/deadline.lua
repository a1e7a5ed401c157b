--- A bound on the time of a whole operation, for timers.
--
-- Each byte restarts the time-out of a cosocket, so a server that drips its bytes needs a bound of its own.

local _M = {}


local function expire(seconds)
    ngx.sleep(seconds)
    return nil, _M.exceeded(seconds)
end


--- The error of an operation that took longer.
function _M.exceeded(seconds)
    return "no whole answer within " .. seconds .. " s"
end


--- Do work(...) -> value, err in a thread, for at most `seconds`. Its connections are closed if it takes longer.
function _M.within(seconds, work, ...)
    local working, waiting = ngx.thread.spawn(work, ...), ngx.thread.spawn(expire, seconds)
    local ok, value, err = ngx.thread.wait(working, waiting)
    ngx.thread.kill(waiting)
    ngx.thread.kill(working) -- nginx then closes its connection
    if not ok then
        error(value, 0)
    end
    return value, err
end


return _M
