--- The monotonic clock, and pauses in long work.
--
-- It cannot be set, and it is the same for all workers of a machine until the machine restarts. So durations go by it,
-- and nothing but a time that another machine reads goes by ngx.now(). `now` keeps its value until the worker asks for
-- events again, as ngx.now() does, and costs as little; `monotonic` goes on.

local ffi = require "ffi"
local number = require "steelyard.core.number"

ffi.cdef[[
typedef struct { long seconds; long nanoseconds; } steelyard_timespec;
int clock_gettime(int clock, steelyard_timespec *time);
extern uint32_t steelyard_current_msec[2] asm("ngx_current_msec"); // an ngx_msec_t, lower half first
]]

local CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME = 1, 3 -- Linux

-- A request may have to wait for one slice. A slice may overrun by the work between two calls of breathe(), 0.05 or
-- 0.1 ms. Then the waiting requests are served, and long work gets a sixth of a worker's time. With half of the time,
-- a worker that is 70 % busy with requests fell behind (2000 servers: p99 2.5 to 3 ms instead of 0.5). The shortest
-- timer of nginx is 1 ms; a timer of 0 would run before any request.
local SLICE_S, PAUSE_S = 0.0002, 0.001

-- nginx's milliseconds differ from the monotonic clock by their age alone, unless nginx was built without one.
local MOST_AGE_S = 3600

-- LuaJIT waits until the heap has doubled, and long work fills it with garbage: texts of tables, keys of counts. So a
-- slice also does a part of a collection while the heap is this much larger than after the last one: about 0.15 ms.
local HEAP_RATIO, STEP_KB = 1.25, 32

local time = ffi.new("steelyard_timespec")

local trusted = number.trusted

local _M = {}


local function read(clock)
    ffi.C.clock_gettime(clock, time)
    return trusted(time.seconds) + trusted(time.nanoseconds) / 1e9
end


--- Return seconds by the monotonic clock. It cannot be set.
function _M.monotonic()
    return read(CLOCK_MONOTONIC)
end


--- The two halves of the milliseconds that nginx noted when it last asked for events; nil if they are not readable, or
-- are no monotonic time. (Reading one number of 64 bits would allocate memory.)
local function nginx_milliseconds()
    local found, halves = pcall(function() return ffi.C.steelyard_current_msec end)
    if not (found and ffi.abi("64bit") and ffi.abi("le")) then
        return nil
    end
    local age_s = _M.monotonic() - (halves[0] + halves[1] * 4294967296) / 1000
    return math.abs(age_s) < MOST_AGE_S and halves or nil
end


local halves = nginx_milliseconds()
local last_low, high_ms = 0, halves and halves[1] * 4294967296

--- Return seconds by the monotonic clock, as of when the worker last asked for events, to a millisecond.
_M.now = halves and function()
    local low = halves[0]
    if low < last_low then -- each 50 days
        high_ms = halves[1] * 4294967296
    end
    last_low = low
    return (low + high_ms) / 1000
end or _M.monotonic


--- Return this worker's CPU time in seconds.
function _M.thread_cpu()
    return read(CLOCK_THREAD_CPUTIME)
end


local collected_kb = 0 -- the heap after the last collection that ended here

--- Do a part of a collection, if there is garbage to collect. nginx's other Lua has its own settings of the collector:
-- these stay as they are.
local function collect_a_part()
    if collectgarbage("count") > HEAP_RATIO * collected_kb and collectgarbage("step", STEP_KB) then
        collected_kb = collectgarbage("count")
    end
end


--- Make a function for long work in a timer to call now and then. After each slice of work it lets requests be served.
-- Called as breathe(row, rows) for each row, it looks at the clock once in `rows` rows.
function _M.breather()
    local began = _M.monotonic()
    return function(row, rows)
        if row and row % rows > 0 then
            return
        end
        if _M.monotonic() - began >= SLICE_S then
            ngx.sleep(PAUSE_S)
            collect_a_part()
            began = _M.monotonic()
        end
    end
end


return _M
