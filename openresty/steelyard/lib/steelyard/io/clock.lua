--- The monotonic clock, and pauses in long work. ngx.now() stands still until the
-- worker next asks for events; this clock goes on.

local ffi = require "ffi"

ffi.cdef[[
typedef struct { long seconds; long nanoseconds; } steelyard_timespec;
int clock_gettime(int clock, steelyard_timespec *time);
]]

local CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME = 1, 3 -- Linux

-- A request may have to wait for a slice, which may overrun by what stands between
-- two breaths, 0.05 or 0.1 ms. Then whoever waits is served, and this work gets a
-- sixth of a worker's time: at half of it, a worker that is 70 % busy with requests
-- fell behind (2000 servers: p99 2.5 to 3 ms for 0.5). nginx's timers know no less
-- than 1 ms; 0 would be run again before any request.
local SLICE_S, PAUSE_S = 0.0002, 0.001

local time = ffi.new("steelyard_timespec")

local _M = {}


local function read(clock)
    ffi.C.clock_gettime(clock, time)
    return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end


--- Return seconds by the monotonic clock, which nobody can set.
function _M.monotonic()
    return read(CLOCK_MONOTONIC)
end


--- Return the seconds of CPU time that this worker has taken.
function _M.thread_cpu()
    return read(CLOCK_THREAD_CPUTIME)
end


--- A function for long work to call now and then, in a timer: when a slice of
-- the work is done, requests are served before it goes on. Called of each row,
-- breathe(row, rows), it looks at the clock once in so many rows.
function _M.breather()
    local began = _M.monotonic()
    return function(row, rows)
        if row and row % rows > 0 then
            return
        end
        if _M.monotonic() - began >= SLICE_S then
            ngx.sleep(PAUSE_S)
            began = _M.monotonic()
        end
    end
end


return _M
