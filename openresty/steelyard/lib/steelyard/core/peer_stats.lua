--- Peer stats: in flight, latency and failures of each server, as all workers see them now.
--
-- One cell a server address, in memory that the workers share (or a worker's
-- own, where there is none to share):
--
--   in flight   one column a worker; only its owner writes it, a reader adds up
--               the columns. A worker that is killed leaves its column to its
--               successor, which clears it: nothing leaks. One column more is what
--               other load balancers have there (core/others_in_flight): it is read
--               between trust_others(true) and (false), and costs nothing else.
--   latency     L += max(ALPHA, 1 - f) (s - L)              f = e^(-t/TAU_S), t since the last try
--   peak        P = max(s, P f + s (1 - f))                 Peak EWMA, as in Finagle
--   failing     F = F f + ALPHA (failed - F f)
--
-- and all three fade by f when read, so that a server that got no requests
-- because it was slow or failed is tried again. s is the lesser of the last two
-- latencies, so the bound of what one request can do is nothing: L and P are known
-- from the second on, and one that took 10 s (a long poll, a report for a year)
-- between two of 1 ms moves neither. A server that has become slow is known to be
-- after two answers, and one that has recovered after one. A cell begins on a
-- cache line of its own: with thousands of servers that is what a pick waits for.
-- So the latency by level (core/latency_by_level) lies behind all cells, and is kept
-- only where a picker has asked for it: the others never touch its line.
--
-- Where requests cost unequally (core/request_cost), in flight is what they weigh: by_cost() is the same stats to a
-- picker whose upstream tells costs. What a request weighs beyond 1 is in columns of their own, behind all else and
-- read through by_cost() alone: requests that nobody priced weigh 1, whichever upstream sent them, and max_conns
-- goes on counting requests. Sums of multiples of 1/1024 are exact in doubles: nothing is left when all have gone.
--
-- What a server says itself that it has in flight (tell) lies behind all else, too: by how much others have more there
-- than at a mean server, and since when. It fades fast, and no memory of it exists where no server says it.
--
-- The averages have several writers and no lock: two workers that finish a
-- request of one server within the same nanoseconds lose one of the two
-- samples. A double is written whole (aligned, 64 bits), so nothing worse.
-- Pure: the memory, the time and the number of the worker are passed in.

local ffi = require "ffi"
local latency_by_level = require "steelyard.core.latency_by_level"

local exp, max, min = math.exp, math.max, math.min

-- As long as Finagle's and the ns-3 study's decay.
local TAU_S = 10

-- A sample's part of an average: four failures in a row make it 59 %.
local ALPHA = 0.2

-- nginx counts in whole milliseconds, so 0 is half of one; 0 is kept for "not known".
local LEAST_MS = 0.5

-- Doubles of a cell: these three, the place of two floats, and then the columns, 32 bits each.
local LATENCY, PEAK, STAMP, FLOATS, COLUMNS = 0, 1, 2, 3, 4
local LINE = 8

-- The floats, and how many of them a double takes: 1 ms is exact up to four hours.
local FAILING, LAST, A_DOUBLE = 0, 1, 2

-- Spans after which what a server said counts for nothing: 5 % are left.
local FADED = 3

local _M = {}
local mt = { __index = _M }


--- Doubles from one cell to the next.
local function stride_of(workers)
    return math.ceil((COLUMNS + (workers + 1) / 2) / LINE) * LINE
end


--- Doubles from one cell's extra costs to the next's.
local function cost_stride_of(workers)
    return math.ceil(workers / LINE) * LINE
end


--- How much memory the stats need.
function _M.bytes(workers, cells)
    return cells * (stride_of(workers) + cost_stride_of(workers) + 2) * 8 + latency_by_level.bytes(cells)
end


--- Memory of one worker's own, zeroed.
function _M.local_memory(cells, workers)
    return ffi.new("uint8_t[?]", _M.bytes(workers or 1, cells))
end


--- Make the function that sums a cell's first columns, with the sum written out: LuaJIT compiles a short loop inside
-- its caller's loop badly (20 ns a cell; this way 4).
local function adder(figures, stride, columns)
    local terms = {}
    for column = 0, columns - 1 do
        terms[column + 1] = "figures[first + " .. column .. "]"
    end
    return assert(loadstring("return function(self, cell) local figures, first = self." .. figures .. ", cell * "
                             .. stride .. " return " .. table.concat(terms, " + ") .. " end"))()
end


--- Open the stats in zeroed memory of bytes(workers, cells), for the worker
-- that owns `column` (0..workers-1), and clear that column.
-- @param highest the highest cell that was ever used; left out, the last. Those above are not
--                looked at: a look would be enough to make pages of shared memory exist
function _M.new(memory, workers, cells, column, highest)
    local doubles, stride = ffi.cast("double *", memory), stride_of(workers)
    local own, all = adder("levels", 2 * stride, workers), adder("levels", 2 * stride, workers + 1)
    local self = setmetatable({
        memory = memory, -- so that it is not collected
        cells = cells, highest = highest or cells - 1, column = column, stride = stride, doubles = doubles,
        floats = ffi.cast("float *", doubles + FLOATS),
        levels = ffi.cast("int32_t *", doubles + COLUMNS),
        own = own, -- own(cell): requests at the server, over all workers of this nginx
        all = all, -- and those of other load balancers
        in_flight = own, -- in_flight(cell): one of the two
        workers = workers,
        by_level = nil, -- set by keep_levels()
        priced = nil, -- set by by_cost()
        told = nil, -- set by tell()
    }, mt)
    for cell = 0, self.highest do
        self.levels[cell * 2 * self.stride + column] = 0
    end
    return self
end


--- The same stats with in_flight() in costs: what the requests at a server weigh.
function _M:by_cost()
    if self.priced then
        return self.priced
    end
    local stride, levels = cost_stride_of(self.workers), latency_by_level.bytes(self.cells) / 8
    self.extras, self.extras_stride = self.doubles + self.stride * self.cells + levels, stride
    for cell = 0, self.highest do
        self.extras[cell * stride + self.column] = 0 -- of the worker before this one
    end
    local requests, extra = self, adder("extras", stride, self.workers)
    -- Another worker's two figures change one after the other: a cheap request may weigh less than nothing meanwhile.
    local function own(_, cell)
        return max(0, requests:own(cell) + extra(requests, cell))
    end
    local function all(_, cell)
        return max(0, requests:all(cell) + extra(requests, cell))
    end
    self.priced = setmetatable({ in_flight = own, weight_of_own = own, told = false }, { __index = self })
    function self.priced.trust_others(priced, trusted)
        priced.in_flight = trusted and all or own
    end
    function self.priced.keep_levels()
        requests:keep_levels()
    end
    return self.priced
end


--- Note that what this worker has in flight at a server weighs so much more than its requests: a multiple of 1/1024.
function _M:weigh(cell, extra)
    local i = cell * self.extras_stride + self.column
    self.extras[i] = self.extras[i] + extra
end


--- Keep latency by level from now on: observe() then wants to know what a request found in flight.
function _M:keep_levels()
    self.by_level = self.by_level or latency_by_level.new(self.doubles + self.cells * self.stride)
end


--- Have in_flight() count, or not count, what other load balancers have at the server.
function _M:trust_others(trusted)
    self.in_flight = trusted and self.all or self.own
end


--- What other load balancers have in flight there, as far as it is known.
function _M:others(cell)
    return self.levels[cell * 2 * self.stride + self.workers]
end


--- Set it; a whole number.
function _M:set_others(cell, in_flight)
    self.levels[cell * 2 * self.stride + self.workers] = in_flight
end


local function with_told(self, cell)
    local told, own = self.told, self:own(cell)
    local spans = (self.told_now - told[2 * cell + 1]) / self.told_span_s
    return spans < FADED and max(0, own + exp(-max(0, spans)) * told[2 * cell]) or own
end


--- Have in_flight() count what servers say themselves, which fades to a third in a span.
function _M:trust_told(now, span_s)
    self.told_now, self.told_span_s, self.in_flight = now, span_s, with_told
end


--- Note that others have so many more requests at a server than at a mean one, or fewer, as of a moment.
function _M:tell(cell, excess, at)
    if not self.told then
        self.told = ffi.cast("double *", self.memory + _M.bytes(self.workers, self.cells)) - 2 * self.cells
    end
    self.told[2 * cell], self.told[2 * cell + 1] = excess, at
end


--- Count a request of this worker, or so many more, as in flight at a server.
function _M:raise(cell, requests)
    local i = cell * 2 * self.stride + self.column
    self.levels[i] = self.levels[i] + (requests or 1)
end


--- Count it as done.
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


--- Record how a try ended.
-- @param latency_ms nil when it says nothing of how fast the server is
-- @param in_flight  what was in flight there when it came; nil where nobody looked
function _M:observe(cell, latency_ms, ok, now, in_flight)
    local doubles, floats, i = self.doubles, self.floats, cell * self.stride
    local f = fading(doubles, i, now)
    doubles[i + STAMP] = now
    local failing = floats[A_DOUBLE * i + FAILING] * f
    -- How long a failure took says nothing either.
    floats[A_DOUBLE * i + FAILING] = failing + ALPHA * ((ok and 0 or 1) - failing)
    local last = floats[A_DOUBLE * i + LAST]
    local latency, peak = doubles[i + LATENCY], doubles[i + PEAK]
    if ok and latency_ms then
        if in_flight and self.by_level then
            self.by_level:observe(cell, in_flight, latency_ms, now)
        end
        latency_ms = max(LEAST_MS, latency_ms)
        floats[A_DOUBLE * i + LAST] = latency_ms
        if last > 0 then
            local lesser = min(last, latency_ms)
            if latency == 0 then
                f = 0 -- the first that is known counts whole
            end
            doubles[i + LATENCY] = latency + max(ALPHA, 1 - f) * (lesser - latency)
            doubles[i + PEAK] = lesser > peak and lesser or peak * f + lesser * (1 - f)
            return
        end
    end
    doubles[i + LATENCY], doubles[i + PEAK] = latency * f, peak * f
end


--- Average latency of successful tries in ms; 0 when it is not known.
function _M:latency(cell, now)
    local i = cell * self.stride
    return self.doubles[i + LATENCY] * fading(self.doubles, i, now)
end


--- The latency of the last successful try in ms, however long ago; 0 when there was none.
function _M:last_latency(cell)
    return self.floats[A_DOUBLE * cell * self.stride + LAST]
end


--- When the last try ended; 0 when there was none.
function _M:last_at(cell)
    return self.doubles[cell * self.stride + STAMP]
end


--- Peak EWMA of the latency in ms; 0 when it is not known.
function _M:peak(cell, now)
    local i = cell * self.stride
    return self.doubles[i + PEAK] * fading(self.doubles, i, now)
end


--- The latency in ms that was met lately with so many requests in flight; 0 when it is not
-- known. Only after keep_levels().
function _M:latency_at(cell, in_flight, now)
    local latency = self.by_level:latency(cell, in_flight, now)
    return latency
end


--- The share of failed tries lately, 0..1.
function _M:failing(cell, now)
    local i = cell * self.stride
    local failing = self.floats[A_DOUBLE * i + FAILING]
    if failing == 0 then
        return 0 -- all is well, nearly always: no exponential
    end
    return failing * fading(self.doubles, i, now)
end


--- Forget how fast a server was; what fails goes on counting.
function _M:forget_latency(cell)
    local i = cell * self.stride
    self.doubles[i + LATENCY], self.doubles[i + PEAK] = 0, 0
    self.floats[A_DOUBLE * i + LAST] = 0
    if self.by_level then
        self.by_level:forget(cell)
    end
end


--- Clear the averages of a cell, which goes to another server.
function _M:forget(cell)
    local i = cell * self.stride
    for field = LATENCY, FLOATS do
        self.doubles[i + field] = 0
    end
    self:set_others(cell, 0)
    if self.told then
        self:tell(cell, 0, 0)
    end
    if self.by_level then
        self.by_level:forget(cell)
    end
end


return _M
