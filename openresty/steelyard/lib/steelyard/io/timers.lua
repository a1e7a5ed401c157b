--- Timers: one that cannot be set is counted, and logged once a minute for all workers; what fails in one is logged.
--
-- nginx refuses one when lua_max_pending_timers are waiting, and drops one that is
-- due while lua_max_running_timers run.

local LOG_EVERY_S = 60

local _M = {}


--- Count a timer that was not set, or not run.
function _M.failed(dict, why)
    dict:incr("timer_errors", 1, 0)
    if dict:add("timer_error", why, LOG_EVERY_S) then
        ngx.log(ngx.ERR, "steelyard: a timer failed: ", why, "; raise lua_max_pending_timers and ",
                "lua_max_running_timers in ", ngx.config.subsystem, " {}")
    end
end


--- Set a timer, as ngx.timer.at does; return whether it is set.
function _M.at(dict, delay_s, work, ...)
    local ok, err = ngx.timer.at(delay_s, work, ...)
    if not ok then
        _M.failed(dict, err)
    end
    return ok
end


--- Do work(...); an error is logged, and goes no further. Returns whether there was none, and what work() did.
-- @param about what begins the line: what was done
function _M.guarded(about, work, ...)
    local ok, value = pcall(work, ...)
    if not ok then
        ngx.log(ngx.ERR, "steelyard: ", about, value)
    end
    return ok, value
end


return _M
