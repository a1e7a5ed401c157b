--- Time that goes on while a worker computes. ngx.now() stands still until the
-- worker next asks for events.

local ffi = require "ffi"

ffi.cdef[[
typedef struct { long seconds; long nanoseconds; } steelyard_timespec;
int clock_gettime(int clock, steelyard_timespec *time);
]]

local CLOCK_MONOTONIC = 1 -- Linux

-- A request may have to wait for a slice; a slice may overrun by what stands
-- between two breaths, 0.1 or 0.2 ms. Then whoever waits is served, and this
-- work gets at most half of a worker's time.
local SLICE_S, PAUSE_S = 0.001, 0.001

local time = ffi.new("steelyard_timespec")

local _M = {}


--- Seconds since some moment.
function _M.monotonic()
    ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
    return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end


--- A function for long work to call now and then, in a timer: when a slice of
-- the work is done, requests are served before it goes on.
function _M.breather()
    local began = _M.monotonic()
    return function()
        if _M.monotonic() - began >= SLICE_S then
            ngx.sleep(PAUSE_S)
            began = _M.monotonic()
        end
    end
end


return _M
