--- Timers. A timer that cannot be set is counted, and logged once a minute for all workers. An error in one is logged.
--
-- nginx refuses a timer when lua_max_pending_timers are waiting, and drops a due one when lua_max_running_timers run.

local LOG_EVERY_S = 60

local _M = {}


--- Count a timer that was not set, or not run.
function _M.failed(dict, why)
    dict:incr("timer_errors", 1, 0)
    if dict:once("timer_error", LOG_EVERY_S) then
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


--- Do work(...) and log an error of it. Return whether there was none, and the value of work().
-- @param about the beginning of the log line: what failed
function _M.guarded(about, work, ...)
    local ok, value = pcall(work, ...)
    if not ok then
        ngx.log(ngx.ERR, "steelyard: ", about, value)
    end
    return ok, value
end


return _M
