--- The board: what all workers know of each server at this moment.
--
-- One cell a server address, in memory that the workers share (or a worker's
-- own, where there is none to share):
--
--   in flight   one column a worker; only its owner writes it, a reader adds up
--               the columns. A worker that is killed leaves its column to its
--               successor, which clears it: nothing leaks.
--   latency     L += max(ALPHA, 1 - f) (sample - L)         f = e^(-t/TAU_S), t since the last try
--   peak        P = max(sample, P f + sample (1 - f))       Peak EWMA, as in Finagle
--   failing     F = F f + ALPHA (failed - F f)
--
-- and all three fade by f when read, so that a server that got no requests
-- because it was slow or failed is tried again. A cell begins on a cache line of
-- its own: with thousands of servers that is what a pick waits for.
--
-- The averages have several writers and no lock: two workers that finish a
-- request of one server within the same nanoseconds lose one of the two
-- samples. A double is written whole (aligned, 64 bits), so nothing worse.
-- Pure: the memory, the time and the number of the worker are passed in.

local ffi = require "ffi"

local exp, max = math.exp, math.max

-- As long as Finagle's and the ns-3 study's decay.
local TAU_S = 10

-- A sample's part of an average: four failures in a row make it 59 %.
local ALPHA = 0.2

-- nginx counts in whole milliseconds, so 0 is half of one; 0 on the board is "not known".
local LEAST_MS = 0.5

-- Doubles of a cell: these four, and then the columns, 32 bits each.
local LATENCY, PEAK, FAILING, STAMP, COLUMNS = 0, 1, 2, 3, 4
local LINE = 8

local _M = {}
local mt = { __index = _M }


--- Doubles from one cell to the next.
local function stride_of(workers)
    return math.ceil((COLUMNS + workers / 2) / LINE) * LINE
end


--- How much memory a board needs.
function _M.bytes(workers, cells)
    return cells * stride_of(workers) * 8
end


--- Memory of one worker's own, zeroed.
function _M.local_memory(cells, workers)
    return ffi.new("uint8_t[?]", _M.bytes(workers or 1, cells))
end


--- The sum of a cell's columns, written out: LuaJIT compiles a short loop inside
-- its caller's loop badly (20 ns a cell; this way 4).
local function adder(workers)
    local terms = {}
    for column = 0, workers - 1 do
        terms[column + 1] = "levels[first + " .. column .. "]"
    end
    return assert(loadstring("return function(self, cell) local levels, first = self.levels, cell * "
                             .. 2 * stride_of(workers) .. " return " .. table.concat(terms, " + ") .. " end"))()
end


--- Open the board in zeroed memory of bytes(workers, cells), for the worker
-- that owns `column` (0..workers-1), and clear that column.
function _M.new(memory, workers, cells, column)
    local doubles = ffi.cast("double *", memory)
    local self = setmetatable({
        memory = memory, -- so that it is not collected
        cells = cells, column = column, stride = stride_of(workers), doubles = doubles,
        levels = ffi.cast("int32_t *", doubles + COLUMNS),
        in_flight = adder(workers), -- in_flight(cell): requests at the server, over all workers
    }, mt)
    for cell = 0, cells - 1 do
        local i = cell * 2 * self.stride + column
        if self.levels[i] ~= 0 then -- a page that was never written need not become one now
            self.levels[i] = 0
        end
    end
    return self
end


--- One more request of this worker is at the server.
function _M:raise(cell)
    local i = cell * 2 * self.stride + self.column
    self.levels[i] = self.levels[i] + 1
end


--- One less.
function _M:lower(cell)
    local i = cell * 2 * self.stride + self.column
    self.levels[i] = self.levels[i] - 1
end


local function fading(doubles, i, now)
    -- A clock that was set back is a clock that stood still. (No tail call, which
    -- LuaJIT would not compile.)
    local f = exp(-max(0, now - doubles[i + STAMP]) / TAU_S)
    return f
end


--- A try has ended.
function _M:observe(cell, latency_ms, ok, now)
    local doubles, i = self.doubles, cell * self.stride
    local f = fading(doubles, i, now)
    doubles[i + STAMP] = now
    local failing = doubles[i + FAILING] * f
    if ok then
        latency_ms = max(LEAST_MS, latency_ms)
        doubles[i + FAILING] = failing - ALPHA * failing
        local latency, peak = doubles[i + LATENCY], doubles[i + PEAK]
        doubles[i + LATENCY] = latency + max(ALPHA, 1 - f) * (latency_ms - latency)
        doubles[i + PEAK] = latency_ms > peak and latency_ms or peak * f + latency_ms * (1 - f)
    else
        -- How long a failure took says nothing of how fast the server is.
        doubles[i + FAILING] = failing + ALPHA * (1 - failing)
        doubles[i + LATENCY], doubles[i + PEAK] = doubles[i + LATENCY] * f, doubles[i + PEAK] * f
    end
end


--- Average latency of successful tries in ms; 0 when none is known.
function _M:latency(cell, now)
    local i = cell * self.stride
    return self.doubles[i + LATENCY] * fading(self.doubles, i, now)
end


--- Peak EWMA of the latency in ms; 0 when none is known.
function _M:peak(cell, now)
    local i = cell * self.stride
    return self.doubles[i + PEAK] * fading(self.doubles, i, now)
end


--- The share of failed tries lately, 0..1.
function _M:failing(cell, now)
    local i = cell * self.stride
    local failing = self.doubles[i + FAILING]
    if failing == 0 then
        return 0 -- all is well, nearly always: no exponential
    end
    return failing * fading(self.doubles, i, now)
end


--- Forget what is known of a server; its cell goes to another one.
function _M:forget(cell)
    local i = cell * self.stride
    for field = LATENCY, STAMP do
        self.doubles[i + field] = 0
    end
end


return _M
