--- Peer stats: requests in flight, latency and failures of each server, as all workers see them now.
--
-- Each server address has one cell, in memory shared by the workers (or in a worker's own, if there is none to share):
--
--   in flight   One column per worker. Only its owner writes it; a reader adds up the columns. The successor of a
--               killed worker clears its column, so nothing leaks. One further column has the requests of other load
--               balancers (core/others_in_flight). It is read between trust_others(true) and (false), and costs nothing
--               else.
--   latency     L += max(ALPHA, 1 - f) (s - L)              f = e^(-t/TAU_S), t since the last try
--   peak        P = max(s, P f + s (1 - f))                 Peak EWMA, as in Finagle
--   failing     F = F f + ALPHA (failed - F f)
--
-- All three fade by f when read. So a server without requests, because it was slow or failed, is tried again (one that
-- was slow even earlier: core/slow_servers). The sample s is the lesser of the last two latencies, so one request can
-- do no harm. L and P are known from the second on. One latency of 10 s (a long poll, a report for a year) between two
-- of 1 ms moves neither. A slow server shows after two answers, and a recovered one after one.
--
-- A cell begins on a cache line of its own, because with thousands of servers a pick waits for that line. So the
-- latency by level (core/latency_by_level) is behind all cells, and is kept only if a picker asked for it: other
-- pickers never touch its line.
--
-- If requests have unequal costs (core/request_cost), by_cost() is the same stats with weights in the place of
-- requests in flight. The weight of a request beyond 1 is in columns of their own behind all else, read through
-- by_cost() alone. Requests without a price weigh 1, from any upstream, and max_conns goes on counting requests. Sums
-- of multiples of 1/1024 are exact in doubles: nothing remains when all requests are gone.
--
-- A server's own report of its requests in flight (note_reported) is behind all else, too: its difference from a mean
-- server, and its time. It fades fast, and takes no memory if no server reports. The times of slow servers follow it.
--
-- The averages have several writers and no lock. Two workers finishing a request of one server within the same
-- nanoseconds lose one of the two samples. A double is written whole (aligned, 64 bits), so nothing worse happens.
-- Pure: the memory, the time and the worker's number are passed in.

local ffi = require "ffi"
local latency_by_level = require "steelyard.core.latency_by_level"
local slow_servers = require "steelyard.core.slow_servers"

local exp, max, min = math.exp, math.max, math.min

-- The time constant, as in Finagle and the ns-3 study.
local TAU_S = 10

-- The part of one sample in an average: four failures in a row make it 59 %.
local ALPHA = 0.2

-- A server that was found slow is well again if it is tried after a rest, and is this much quicker than remembered. By
-- the averages alone, it would need some twenty such answers. RESTED is what is left of them after the shortest rest, a
-- second. QUICKER is the ratio from which pickers call a server slower (core/pickers/candidates).
local RESTED, QUICKER = exp(-1 / TAU_S), 5

-- nginx counts whole milliseconds: 0 is taken for half a millisecond, because 0 means "not known" here.
local LEAST_MS = 0.5

-- Doubles of a cell: these three, the place of two floats, then the columns with 32 bits each.
local LATENCY, PEAK, STAMP, FLOATS, COLUMNS = 0, 1, 2, 3, 4
local LINE = 8

-- The two floats, and the floats in a double: 1 ms is exact up to four hours.
local FAILING, LAST, FLOATS_PER_DOUBLE = 0, 1, 2

-- Time constants after which a report counts for nothing: 5 % of it are left.
local REPORT_FADED_AFTER = 3

local _M = { ALPHA = ALPHA }
local mt = { __index = _M }


--- Return the doubles from one cell to the next.
local function stride_of(workers)
    return math.ceil((COLUMNS + (workers + 1) / 2) / LINE) * LINE
end


--- Return the doubles from one cell's extra costs to the next cell's.
local function cost_stride_of(workers)
    return math.ceil(workers / LINE) * LINE
end


--- Return the bytes before the times of slow servers, which are behind all else.
local function bytes_before_slow(workers, cells)
    return cells * (stride_of(workers) + cost_stride_of(workers) + 2) * 8 + latency_by_level.bytes(cells)
end


--- Return the bytes of memory for the stats.
function _M.bytes(workers, cells)
    return bytes_before_slow(workers, cells) + slow_servers.bytes(cells)
end


--- Make memory of a worker's own, zeroed.
function _M.local_memory(cells, workers)
    return ffi.new("uint8_t[?]", _M.bytes(workers or 1, cells))
end


--- Make the function for the sum of a cell's first columns, with the sum written out. LuaJIT compiles a short loop
-- inside its caller's loop badly: 20 ns a cell, against 4 this way.
local function adder(figures, stride, columns)
    local terms = {}
    for column = 0, columns - 1 do
        terms[column + 1] = "figures[first + " .. column .. "]"
    end
    return assert(loadstring("return function(self, cell) local figures, first = self." .. figures .. ", cell * "
                             .. stride .. " return " .. table.concat(terms, " + ") .. " end"))()
end


--- Open the stats in zeroed memory of bytes(workers, cells), for the worker with the column `column` (0..workers-1),
-- and clear that column.
-- @param highest the highest cell ever used; left out, the last. Cells above it are not read, because a read would
--        make pages of shared memory exist
function _M.new(memory, workers, cells, column, highest)
    local doubles, stride = ffi.cast("double *", memory), stride_of(workers)
    local own, all = adder("levels", 2 * stride, workers), adder("levels", 2 * stride, workers + 1)
    local self = setmetatable({
        memory = memory, -- so that it is not collected
        cells = cells, highest = highest or cells - 1, column = column, stride = stride, doubles = doubles,
        floats = ffi.cast("float *", doubles + FLOATS),
        levels = ffi.cast("int32_t *", doubles + COLUMNS),
        own = own, -- own(cell): requests at the server, from all workers of this nginx
        all = all, -- all(cell): and from other load balancers
        in_flight = own, -- in_flight(cell): one of the two
        workers = workers,
        by_level = nil, -- set by keep_levels()
        priced = nil, -- set by by_cost()
        reported = nil, -- set by note_reported()
        slow = slow_servers.new(ffi.cast("uint8_t *", memory) + bytes_before_slow(workers, cells)),
    }, mt)
    for cell = 0, self.highest do
        self.levels[cell * 2 * self.stride + column] = 0
    end
    return self
end


--- Return the same stats with the weight of requests in the place of their number in in_flight().
function _M:by_cost()
    if self.priced then
        return self.priced
    end
    local stride, levels = cost_stride_of(self.workers), latency_by_level.bytes(self.cells) / 8
    self.extras, self.extras_stride = self.doubles + self.stride * self.cells + levels, stride
    for cell = 0, self.highest do
        self.extras[cell * stride + self.column] = 0 -- from the previous worker with this column
    end
    local requests, extra = self, adder("extras", stride, self.workers)
    -- Another worker writes its two figures one after the other: meanwhile a cheap request may weigh less than 0.
    local function own(_, cell)
        return max(0, requests:own(cell) + extra(requests, cell))
    end
    local function all(_, cell)
        return max(0, requests:all(cell) + extra(requests, cell))
    end
    self.priced = setmetatable({ in_flight = own, weight_of_own = own, reported = false }, { __index = self })
    function self.priced.trust_others(priced, trusted)
        priced.in_flight = trusted and all or own
    end
    function self.priced.keep_levels()
        requests:keep_levels()
    end
    return self.priced
end


--- Add to the extra weight, beyond their number, of this worker's requests at a server: a multiple of 1/1024.
function _M:weigh(cell, extra)
    local i = cell * self.extras_stride + self.column
    self.extras[i] = self.extras[i] + extra
end


--- Keep latency by level from now on: observe() then needs the requests in flight that a request found.
function _M:keep_levels()
    self.by_level = self.by_level or latency_by_level.new(self.doubles + self.cells * self.stride)
end


--- Have in_flight() count the requests of other load balancers at the server, or not.
function _M:trust_others(trusted)
    self.in_flight = trusted and self.all or self.own
end


--- Return the known requests of other load balancers at the server.
function _M:others(cell)
    return self.levels[cell * 2 * self.stride + self.workers]
end


--- Set their number; a whole number.
function _M:set_others(cell, in_flight)
    self.levels[cell * 2 * self.stride + self.workers] = in_flight
end


local function own_and_reported(self, cell)
    local reported, own = self.reported, self:own(cell)
    local age = (self.reports_now - reported[2 * cell + 1]) / self.reports_tau_s
    return age < REPORT_FADED_AFTER and max(0, own + exp(-max(0, age)) * reported[2 * cell]) or own
end


--- Have in_flight() count the servers' own reports, which fade with the time constant tau_s.
function _M:trust_reported(now, tau_s)
    self.reports_now, self.reports_tau_s, self.in_flight = now, tau_s, own_and_reported
end


--- Note a server's report: how many more requests others have there than at a mean server (or fewer), as of a moment.
function _M:note_reported(cell, excess, at)
    if not self.reported then
        self.reported = ffi.cast("double *", self.memory + bytes_before_slow(self.workers, self.cells)) - 2 * self.cells
    end
    self.reported[2 * cell], self.reported[2 * cell + 1] = excess, at
end


--- Count one request of this worker, or several, as in flight at a server.
function _M:raise(cell, requests)
    local i = cell * 2 * self.stride + self.column
    self.levels[i] = self.levels[i] + (requests or 1)
end


--- Count one as done.
function _M:lower(cell)
    local i = cell * 2 * self.stride + self.column
    self.levels[i] = self.levels[i] - 1
end


--- Return the part of an average that is left after some time without a try.
function _M.faded(after_s)
    -- A clock set back counts as stopped. (No tail call: LuaJIT would not compile it.)
    local f = exp(-max(0, after_s) / TAU_S)
    return f
end


local function fading(doubles, i, now)
    -- Another worker's stamp may be some milliseconds ahead: f is then a little above 1. (No tail call: LuaJIT would
    -- not compile it.)
    local f = exp((doubles[i + STAMP] - now) / TAU_S)
    return f
end


--- Record how a try ended.
-- @param latency_ms nil if it says nothing about the server's speed
-- @param in_flight  requests in flight there when it came; nil if not read
function _M:observe(cell, latency_ms, ok, now, in_flight)
    local doubles, floats, i = self.doubles, self.floats, cell * self.stride
    local f = fading(doubles, i, now)
    doubles[i + STAMP] = now
    local failing = floats[FLOATS_PER_DOUBLE * i + FAILING] * f
    -- The latency of a failure is ignored, too.
    floats[FLOATS_PER_DOUBLE * i + FAILING] = failing + ALPHA * ((ok and 0 or 1) - failing)
    local last = floats[FLOATS_PER_DOUBLE * i + LAST]
    local latency, peak = doubles[i + LATENCY], doubles[i + PEAK]
    if ok and latency_ms then
        if in_flight and self.by_level then
            self.by_level:observe(cell, in_flight, latency_ms, now)
        end
        latency_ms = max(LEAST_MS, latency_ms)
        floats[FLOATS_PER_DOUBLE * i + LAST] = latency_ms
        if last > 0 then
            local lesser = min(last, latency_ms)
            local kept = f
            if latency == 0 then
                f, kept = 0, 0 -- the first known latency counts in full
            elseif f < RESTED and QUICKER * lesser < latency * f and self.slow:is_over(cell) then
                kept = 0
            end
            doubles[i + LATENCY] = latency + max(ALPHA, 1 - kept) * (lesser - latency)
            doubles[i + PEAK] = lesser > peak and lesser or peak * f + lesser * (1 - f)
            return
        end
    end
    doubles[i + LATENCY], doubles[i + PEAK] = latency * f, peak * f
end


--- Return the average latency of successful tries in ms; 0 if it is not known.
function _M:latency(cell, now)
    local i = cell * self.stride
    return self.doubles[i + LATENCY] * fading(self.doubles, i, now)
end


--- Return the latency of the last successful try in ms, at any age; 0 if there was none.
function _M:last_latency(cell)
    return self.floats[FLOATS_PER_DOUBLE * cell * self.stride + LAST]
end


--- Whether a server whose latency is found too long now may be tried again.
function _M:may_be_tried(cell, now)
    return self:own(cell) == 0
        and self.slow:may_be_tried(cell, now, self:last_at(cell), self:last_latency(cell) / 1000)
end


--- Return when the last try ended; 0 if there was none.
function _M:last_at(cell)
    return self.doubles[cell * self.stride + STAMP]
end


--- Return the Peak EWMA of the latency in ms; 0 if it is not known.
function _M:peak(cell, now)
    local i = cell * self.stride
    return self.doubles[i + PEAK] * fading(self.doubles, i, now)
end


--- Return the recent latency in ms of requests that found this number in flight; 0 if it is not known. Only after
-- keep_levels().
function _M:latency_at(cell, in_flight, now)
    local latency = self.by_level:latency(cell, in_flight, now)
    return latency
end


--- Return the recent share of failed tries, 0..1.
function _M:failing(cell, now)
    local i = cell * self.stride
    local failing = self.floats[FLOATS_PER_DOUBLE * i + FAILING]
    if failing == 0 then
        return 0 -- the usual case: save the exponential
    end
    return failing * fading(self.doubles, i, now)
end


--- Forget a server's latency; its failures still count.
function _M:forget_latency(cell)
    local i = cell * self.stride
    self.doubles[i + LATENCY], self.doubles[i + PEAK] = 0, 0
    self.floats[FLOATS_PER_DOUBLE * i + LAST] = 0
    if self.by_level then
        self.by_level:forget(cell)
    end
end


--- Clear the averages of a cell, before another server gets it.
function _M:forget(cell)
    local i = cell * self.stride
    for field = LATENCY, FLOATS do
        self.doubles[i + field] = 0
    end
    self:set_others(cell, 0)
    self.slow:forget(cell)
    if self.reported then
        self:note_reported(cell, 0, 0)
    end
    if self.by_level then
        self.by_level:forget(cell)
    end
end


return _M
