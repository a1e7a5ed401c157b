--- Timers. A timer that cannot be set, or that nginx drops, is counted, and logged once a minute for all workers. An
-- error in one is logged.
--
-- nginx refuses a timer when lua_max_pending_timers are waiting. It drops a due one without a call of its function when
-- lua_max_running_timers run, and where ngx_lua takes one of the worker's connections for it, when none is left. So no
-- state may wait for a timer alone: something else must undo it later. ngx.timer.every goes on after a dropped run.

local clock = require "steelyard.io.clock"

local LOG_EVERY_S = 60

-- The errors that a worker remembers as logged.
local MAX_LINES = 100

local _M = {}


local function log(dict, key, ...)
    dict:incr("timer_errors", 1, 0)
    if dict:once(key, LOG_EVERY_S) then
        ngx.log(ngx.ERR, "steelyard: ", ...)
    end
end


--- Count a timer that nginx has dropped, and log the remedy.
-- @param what the timer, and how late it is, in words
function _M.dropped(dict, what)
    log(dict, "timer_dropped", what, ": nginx drops timers, or this worker was busy; raise lua_max_running_timers in ",
        ngx.config.subsystem, " {}, or worker_connections in events {}, whichever the log says is not enough")
end


--- Set a timer, as ngx.timer.at does; return whether it is set.
function _M.at(dict, delay_s, work, ...)
    local ok, err = ngx.timer.at(delay_s, work, ...)
    if not ok then
        log(dict, "timer_error", "a timer failed: ", err, "; raise lua_max_pending_timers and ",
            "lua_max_running_timers in ", ngx.config.subsystem, " {}")
    end
    return ok
end


local logged, lines = {}, 0 -- line without its numbers -> when it was logged; and how many there are

--- Whether this worker has not logged a line in LOG_EVERY_S, with these or other numbers. A worker ticks ten times a
-- second, and an error may come with each tick.
local function is_new(line)
    local key = string.gsub(line, "%d+", "0")
    local now_s = clock.monotonic()
    local logged_s = logged[key]
    if logged_s and now_s - logged_s < LOG_EVERY_S then
        return false
    end
    if not logged_s then
        lines = lines + 1
    end
    if lines > MAX_LINES then
        logged, lines = {}, 1
    end
    logged[key] = now_s
    return true
end


--- Do work(...) and log an error of it, once in LOG_EVERY_S. Return whether there was none, and the value of work().
-- @param about the beginning of the log line: what failed
function _M.guarded(about, work, ...)
    local ok, value = pcall(work, ...)
    if not ok and is_new(about .. tostring(value)) then
        ngx.log(ngx.ERR, "steelyard: ", about, value)
    end
    return ok, value
end


return _M
